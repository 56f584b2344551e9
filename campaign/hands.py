"""Adversarial hands: whatever a hand does, the guard keeps the port of any device passive.

Each trial has a random device (mass, inertia, damping, encoders), random gains that the checks of the start accept, a
random world method and a hand that does the worst that its kind can:

- `pump`: the largest force along its velocity, which puts in energy to be taken out later;
- `brake`: the largest force against its velocity, which takes out all that the display gives;
- `bang`: the largest force to either side, which changes at random;
- `elastic`: a spring and damper towards where it began, a passive hand, which is hardest when stiff.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np

from campaign.cases import Outcome
from haptic_bench.analysis.base import analysis_of
from haptic_bench.experiment import load
from haptic_drivers.operators import Operator, OperatorContext, OperatorParameters
from haptic_sim.errors import HapticsError
from haptic_sim.parameters import ParameterError, quantity

WORLDS = {"corner_peg": 2, "two_hands": 3, "door": 3}  # and how many of their gains are of translation
KINDS = ("pump", "brake", "bang", "elastic")
BATCH = 20  # trials of a case
DURATION = 0.25  # [s]
BELOW = 1e-6  # [J] by which the observed energy of a guarded port may be below zero: the rounding of sums of works
SEED = 20340


class AdversaryParameters(OperatorParameters):
    """A hand that does the worst that its kind can."""

    type: Literal["adversary"] = "adversary"
    kind: Literal["pump", "brake", "bang", "elastic"] = quantity("pump", description="What it does")
    force: float = quantity(5.0, unit="N", description="Largest force of the hand along each axis", gt=0.0)
    torque: float = quantity(0.05, unit="N m", description="Largest torque of the hand about each axis", ge=0.0)
    stiffness: float = quantity(500.0, unit="N/m", description="Stiffness of an elastic hand", ge=0.0)
    damping: float = quantity(1.0, unit="N s/m", description="Damping of an elastic hand", ge=0.0)
    dwell: float = quantity(0.01, unit="s", description="Mean time between changes of a hand that bangs", gt=0.0)
    draw: int = quantity(0, description="Seed of its changes", ge=0)

    def build(self, context: OperatorContext) -> Operator:
        """See OperatorParameters."""
        return Adversary(self)


class Adversary:
    """See the module."""

    def __init__(self, parameters: AdversaryParameters):
        self._p = parameters
        self._rng = np.random.default_rng(parameters.draw)
        self._largest = np.array([parameters.force] * 3 + [parameters.torque] * 3)
        self._start = np.full(3, math.nan)
        self._side = np.sign(self._rng.uniform(-1.0, 1.0, 6))
        self._change = 0.0

    def wrench(self, time: float, pose: np.ndarray, twist: np.ndarray, out: np.ndarray) -> None:
        """Fill `out` (6,) [N, N m]."""
        p = self._p
        if math.isnan(self._start[0]):
            self._start[:] = pose[:3]
        if p.kind == "elastic":
            out[:3] = np.clip(p.stiffness * (self._start - pose[:3]) - p.damping * twist[:3], -p.force, p.force)
            out[3:] = np.clip(-p.damping * 1e-3 * twist[3:], -p.torque, p.torque)
            return
        if p.kind == "bang":
            if time >= self._change:
                self._side = np.sign(self._rng.uniform(-1.0, 1.0, 6))
                self._change = time + self._rng.exponential(p.dwell)
            out[:] = self._side * self._largest
            return
        moving = np.where(np.abs(twist) > 1e-9, np.sign(twist), self._side)
        out[:] = (1.0 if p.kind == "pump" else -1.0) * moving * self._largest


def keys(rng: np.random.Generator, translations: int) -> dict[str, Any]:
    """Random keys of a trial, hand, device, gains and world, whose tool moves in so many directions of translation."""

    def between(low: float, high: float) -> float:
        return float(f"{low * (high / low) ** rng.uniform():.4g}")

    mass = between(0.05, 5.0)
    found: dict[str, Any] = {
        "analysis": "trial",
        "rate": int(rng.choice([500, 1000, 2000])),
        "guard.type": "passivity",
        "operator.type": f"{__name__}:AdversaryParameters",
        "operator.kind": str(rng.choice(KINDS)),
        "operator.force": between(0.2, 20.0),
        "operator.torque": between(1e-3, 0.3),
        "operator.stiffness": between(10.0, 3000.0),
        "operator.damping": between(0.01, 10.0),
        "operator.dwell": between(1e-3, 0.1),
        "operator.draw": int(rng.integers(1 << 30)),
        "device.mass": mass,
        "device.inertia": float(f"{mass * 2.5e-3 * between(0.3, 3.0):.4g}"),
        "device.impulse_rendering": str(rng.choice(["full", "saturated"])),
        "environment.method": str(rng.choice(["penalty", "impulse_augmented", "frictional_impulses", "constraint"])),
        "contact.stiffness": between(200.0, 2e4),
        "contact.restitution": float(rng.choice([0.0, 0.5, 1.0])),
    }
    if rng.uniform() < 0.7:
        rotations = 1 if translations == 2 else 3
        for name, low, high in (("stiffness", 10.0, 3000.0), ("damping", 0.5, 60.0)):
            gain, of_rotation = between(low, high), between(2e-3, 1e-2)
            found[f"controller.{name}"] = [gain] * translations + [float(f"{gain * of_rotation:.4g}")] * rotations
    return found


def outcome(number: int) -> tuple[str, str]:
    """Outcome of a trial, and its fault; empty if there is none."""
    rng = np.random.default_rng([SEED, number])
    name = str(rng.choice(list(WORLDS)))
    settings = keys(rng, WORLDS[name])
    shown = " ".join([name, *(f"{key}={value}" for key, value in settings.items())])
    try:
        (trial,) = load(name, {**settings, "duration": DURATION})
    except ParameterError:
        return "refused", ""
    trial = trial.in_mode("offline")
    try:
        samples, reason = analysis_of(trial.experiment).attempt(trial)
    except HapticsError as error:
        return "failed", "" if str(error) else f"{shown}: failed without a reason"
    observed = min(
        float(samples.group(f"{hand}port_energy", "translation", "rotation").sum(axis=1).min())
        for hand in ("", *(f"{one}_" for one in trial.experiment.hand_names))
    )
    if not observed >= -BELOW:
        return "active", f"{shown}: the guarded port gave {-observed:.3g} J"
    return "unstable" if reason else "passive", ""


def case(number: int, folder: Path) -> Outcome:
    """Some trials."""
    ends, faults = [], []
    for one in range(BATCH * number, BATCH * (number + 1)):
        end, fault = outcome(one)
        ends.append(end)
        faults += [f"trial {one}: {fault}"] if fault else []
    counts = ", ".join(f"{ends.count(end)} {end}" for end in sorted(set(ends)))
    return Outcome(f"hands {BATCH * number} to {BATCH * (number + 1) - 1}: {counts}", faults, BATCH)
