"""Frame of a scene at an instant: bodies and hands, contacts and forces, and the values of the charts.

The latest messages of a trial (`live.py`), recorded ones, and a world that a program advances (`film.py`) give the same
record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from haptic_sim.dynamics.energy import TERMS
from haptic_sim.messages import CONSTRAINT, CONTACT, HAND

SLIDING = 1e-3  # [m/s] of two bodies past each other at a contact, above which it slides
DISSIPATED = ("damping", "friction", "impact")
CurveKey = tuple[str, str]
"""Chart and curve."""


class Chart(NamedTuple):
    """A strip chart: its curves are values of the frames."""

    name: str
    title: str
    unit: str
    scale: float
    """Factor from SI to the unit of the chart."""
    curves: tuple[str, ...]
    """None: the title says why there is nothing to draw."""
    least: float = 1.0
    """Smallest span of the chart in its unit, so that rounding errors are not magnified."""


CHARTS = (
    Chart("force", "Force", "N", 1.0, ("on the hand", "of the operator", "on the tool"), 0.1),
    Chart("penetration", "Penetration", "mm", 1e3, ("deepest contact",), 0.01),
    Chart("energy", "Energy", "J", 1.0, ("kinetic", "stored", "injected", "dissipated"), 0.01),
    Chart("latency", "Latency", "ms", 1e3, ("of the force", "of the surroundings"), 1.0),
)
"""The latency of the force is the time from the state of the device to the force that answers it."""
ON_TOOL: CurveKey = ("force", "on the tool")
ON_HAND: CurveKey = ("force", "on the hand")
OF_OPERATOR: CurveKey = ("force", "of the operator")
PENETRATION: CurveKey = ("penetration", "deepest contact")
LATENCY: CurveKey = ("latency", "of the force")
AGE: CurveKey = ("latency", "of the surroundings")


class Sources(NamedTuple):
    """Data that a trial publishes beside the state of its tools."""

    device: bool
    """States of devices; without them the tool moves under `tool_command`."""
    local_model: bool
    """The surroundings of a local model."""
    world: bool
    """World states."""


def charts_of(sources: Sources) -> tuple[Chart, ...]:
    """The charts of a trial, with the curves that it has."""
    absent: set[CurveKey] = set()
    if not sources.device:
        absent |= {ON_HAND, LATENCY}
    if not sources.local_model:
        absent.add(AGE)
    if not sources.world:
        absent.add(PENETRATION)
    curves = [tuple(curve for curve in chart.curves if (chart.name, curve) not in absent) for chart in CHARTS]
    charts = tuple(chart._replace(curves=some) for chart, some in zip(CHARTS, curves, strict=True) if some)
    if not (sources.device or sources.local_model):
        charts += (CHARTS[-1]._replace(title="Latency: none, as there is no device", curves=()),)
    return charts


def with_steady_latency(charts: tuple[Chart, ...], period: float) -> tuple[Chart, ...]:
    """The charts of a trial in which each force was answered within its period [s], as offline: it is said instead."""
    title = f"Latency of the force: one period, {1e3 * period:.3g} ms, in every tick"
    found = []
    for chart in charts:
        curves = tuple(curve for curve in chart.curves if (chart.name, curve) != LATENCY)
        found += [chart._replace(curves=curves)] if curves or not chart.curves else []
        if len(curves) < len(chart.curves):
            found.append(chart._replace(title=title, curves=()))
    return tuple(found)


@dataclass(frozen=True)
class Hand:
    """A hand at an instant; poses [m, quat_xyzw] (7,), wrenches [N, N m] (6,).

    Attributes:
        tool: pose of the virtual tool at the hand point.
        on_tool: wrench of the contacts (of exact constraints, where these are all) on the tool.
        device: pose of the device's hand; None without a device.
        rendered: wrench of the device on the hand.
        operator: wrench of the operator on the device; without a device, on the tool, or on the body that is dragged.
        reason: why the device renders nothing, in words; empty if it renders something.
        dragged: number of the scene's body on which the operator's wrench acts, -1: on the hand.
    """

    tool: np.ndarray
    on_tool: np.ndarray
    device: np.ndarray | None = None
    rendered: np.ndarray | None = None
    operator: np.ndarray | None = None
    reason: str = ""
    dragged: int = HAND


@dataclass(frozen=True)
class Frame:
    """A scene at an instant.

    Attributes:
        tick, time: of the trial [s].
        poses: of the scene's bodies [m, quat_xyzw], (B, 7).
        hands: as of the scene.
        contacts: as in haptics/msg/ContactState, (C,).
        slides: whether each contact slides, (C,); the others stick.
        constraints: of the local model, as in haptics/msg/LocalConstraint, (K,).
        values: of the charts, in SI units, by chart and curve; what is not known is left out.
        extremes: least and greatest of these values in the ticks since the frame before.
        note: what happened since the frame before.
    """

    tick: int
    time: float
    poses: np.ndarray
    hands: tuple[Hand, ...]
    contacts: np.ndarray = field(default_factory=lambda: np.zeros(0, CONTACT))
    slides: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    constraints: np.ndarray = field(default_factory=lambda: np.zeros(0, CONSTRAINT))
    values: Mapping[CurveKey, float] = field(default_factory=dict)
    extremes: Mapping[CurveKey, tuple[float, float]] = field(default_factory=dict)
    note: str = ""


class Mark(NamedTuple):
    """Something that happened in a trial: when [s], and what."""

    time: float
    text: str


def slides(contacts: np.ndarray, poses: np.ndarray, twists: np.ndarray) -> np.ndarray:
    """Mask of the contacts (C,) that slide: their bodies move past each other faster than SLIDING.

    Args:
        contacts: as in haptics/msg/ContactState, (C,).
        poses: of the bodies of the world state (N, 7); twists: at the origins of their axes (N, 6).
    """
    if not len(contacts):
        return np.zeros(0, bool)
    velocity = []
    for key in ("body_a", "body_b"):
        body = contacts[key]
        arm = contacts["point"] - poses[body, :3]
        velocity.append(twists[body, :3] + np.cross(twists[body, 3:], arm))
    relative, normal = velocity[1] - velocity[0], contacts["normal"]
    tangential = relative - normal * np.einsum("ij,ij->i", relative, normal)[:, None]
    found: np.ndarray = np.linalg.norm(tangential, axis=1) > SLIDING
    return found


def chart_values(
    hands: Sequence[Hand],
    contacts: np.ndarray | None,
    energy: np.ndarray,
    latency: float | None,
    age: float | None,
) -> dict[CurveKey, float]:
    """The charts' values at an instant, in SI units.

    Args:
        hands: of which the first is charted.
        contacts: of the world state, None if there is none.
        energy: values of the energy balance, in the order of TERMS [J].
        latency: time from the device's state to the force that answers it [s]; None without a device.
        age: of the surroundings that the local model uses [s]; None without one.
    """
    hand = hands[0]
    values = {ON_TOOL: size_of(hand.on_tool), **energy_values(energy.tolist())}
    if hand.rendered is not None:
        values[ON_HAND] = size_of(hand.rendered)
    if hand.operator is not None:
        values[OF_OPERATOR] = size_of(hand.operator)
    if contacts is not None:
        values[PENETRATION] = deepest(contacts)
    if latency is not None:
        values[LATENCY] = latency
    if age is not None:
        values[AGE] = age
    return values


def energy_values(energy: Sequence[Any]) -> dict[CurveKey, Any]:
    """The values of the chart of energy.

    Args:
        energy: values of the energy balance, in the order of TERMS [J]; numbers, or arrays of the same size.
    """
    terms = dict(zip(TERMS, energy, strict=True))
    return {
        ("energy", "kinetic"): terms["kinetic"],
        ("energy", "stored"): terms["potential"] + terms["elastic"],
        ("energy", "injected"): terms["injected"],
        ("energy", "dissipated"): sum(terms[name] for name in DISSIPATED),
    }


def deepest(contacts: np.ndarray) -> float:
    """Penetration of the deepest of some contacts [m]; 0 if there is none."""
    return max(0.0, float(contacts["depth"].max(initial=0.0)))


def size_of(wrench: np.ndarray) -> float:
    """Magnitude of the force of a wrench [N]."""
    return float(np.linalg.norm(wrench[:3]))
