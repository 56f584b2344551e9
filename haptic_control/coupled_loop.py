"""The sampled loop of a coupling between device and virtual tool: its map, and which gains diverge.

A spring and a damper alone have the loop of `haptic_control.stability`. The general four-channel controller adds gains
of its own towards the tool, local controllers, adaptive damping, an integral and an observer; a device may move exactly
under held wrenches, and a tool by another integrator. The map of all this is found from the control law itself, written
once for columns of states, by unit vectors.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from haptic_control.stability import (
    OBSERVER_PROBLEM,
    CoupledInertias,
    Search,
    diverges,
    largest,
    largest_gains,
    linear_map,
    settings,
    spring_loop,
    worst,
)
from haptic_sim.parameters import six


class Channels(NamedTuple):
    """Gains of the sampled loop in the directions that move, as matrices (n, n); see the module."""

    K: np.ndarray
    B: np.ndarray
    K1: np.ndarray
    B1: np.ndarray
    Ki: np.ndarray
    K_d: np.ndarray
    B_d: np.ndarray
    K_t: np.ndarray
    B_t: np.ndarray
    S: np.ndarray
    C3: float = 0.0
    observer: tuple[np.ndarray, np.ndarray, float] | None = None  # inertia, damping, 1 - exp(-bandwidth T)

    @classmethod
    def spring(cls, K: np.ndarray, B: np.ndarray, scale: np.ndarray | None = None) -> Channels:
        """A spring and a damper alone, (n, n), between a device whose motions are scaled by `scale` (n,) and a tool."""
        none = np.zeros_like(K)
        return cls(K, B, K, B, none, none, none, none, none, np.eye(len(K)) if scale is None else np.diag(scale))


def channels_loop(c: Channels, inertias: CoupledInertias, rate: float) -> np.ndarray:
    """The sampled loop without contact, as a map of a state whose first values are r (n,).

    Tool and device take the steps that they take (`CoupledInertias.integrator`, `CoupledInertias.device_step`).
    """
    T, n = 1.0 / rate, len(c.K)
    W, (a, b, d, e) = inertias.of_tool(), inertias.device_step(T)
    S, back = c.S, np.linalg.inv(c.S)
    none = np.zeros((n, n))
    new = {1: 0.0, 2: 1.0, 3: 0.5}[inertias.integrator]  # part of the velocity after, of the one that moves the tool
    follows = inertias.difference or 0.0
    M, C, share = c.observer or (none, none, 0.0)

    def tick(
        r: np.ndarray, v: np.ndarray, w: np.ndarray, x: np.ndarray, z: np.ndarray,
        F: np.ndarray, before: np.ndarray, f: np.ndarray, y: np.ndarray,
    ) -> tuple[np.ndarray, ...]:  # fmt: skip
        seen = w if inertias.difference is None else y
        u = v - S @ seen
        z = z + T * (c.Ki @ r)
        F = F + share * (M @ (seen - before) / T + C @ (seen + before) / 2.0 - f - F)
        on_tool = c.C3 * (back @ F) - (c.K1 @ r + z + c.B1 @ u) - (c.K_t @ x + c.B_t @ v)
        on_device = S @ (c.K @ r + z + c.B @ u) - (c.K_d @ back @ (x - r) + c.B_d @ seen)
        v_next = v + T * (W @ on_tool)
        tool_moves, device_moves = T * (new * v_next + (1.0 - new) * v), d * w + e @ on_device
        y = y + follows * (device_moves / T - y)
        return (
            r + tool_moves - S @ device_moves, v_next, a * w + b @ on_device, x + tool_moves, z, F, seen, on_device, y,
        )  # fmt: skip

    kept = np.ones(9 * n, bool)  # what nothing depends on would only be a further root at 1
    kept[3 * n : 4 * n] = bool(c.K_t.any() or c.K_d.any())
    kept[4 * n : 5 * n] = c.Ki.any(axis=1)
    kept[5 * n : 8 * n] = c.observer is not None
    kept[8 * n :] = inertias.difference is not None
    return linear_map(tick, 9, n)[np.ix_(kept, kept)]


def inverse_inertia(inertias: CoupledInertias) -> np.ndarray:
    """A = W_t + W_d: acceleration of the tool relative to the device per unit coordination wrench (n, n)."""
    return inertias.of_tool() + inertias.of_device()


def coupling_problem(p: Any, inertias: CoupledInertias, rate: float, search: Search = largest) -> str:
    """Reason why the coupling of these inertias diverges at `rate` [Hz], with stable gains; empty if it does not.

    Spring and damper are checked alone first, then each term that the general form adds. A unilateral coupling
    moves the tool alone as long as nothing touches it, which is W_t in place of A, and diverges with smaller gains
    where it moves the device too.

    Args:
        p: gains of the general form (`four_channel.FourChannelParameters`).
        search: finds stable gains.
    """
    axes = inertias.axes
    scale = p.scale[axes]
    A = inertias.of_tool() + scale[:, None] * inertias.of_device() * scale

    def loop(K: np.ndarray, B: np.ndarray) -> np.ndarray:
        if inertias.ideal:
            return spring_loop(A * K, A * B, 1.0 / rate)
        return channels_loop(Channels.spring(np.diag(K), np.diag(B), scale), inertias, rate)

    if problem := spring_problem(p, inertias, rate, np.diag(A), loop, search):
        return problem
    return _added_problem(p, inertias, rate, search)


_ADDED = (  # to spring and damper: keys of gains, and what they are in `Channels`
    (("tool_stiffness", "K1"), ("tool_damping", "B1")),
    (("local_device_stiffness", "K_d"), ("local_device_damping", "B_d")),
    (("local_tool_stiffness", "K_t"), ("local_tool_damping", "B_t")),
    (("integral", "Ki"),),
)


def channels_of(p: Any, inertias: CoupledInertias, rate: float) -> Channels:
    """The gains of the general form without adaptive damping, in the directions that move."""
    axes = inertias.axes

    def matrix(values: tuple[float, ...]) -> np.ndarray:
        return np.diag(np.array(six(values))[axes])

    observer = None
    if p.operator_wrench == "observed":
        block = np.ix_(axes, axes)
        observer = p.inertia()[block], matrix(p.device_damping), 1.0 - math.exp(-p.observer_bandwidth / rate)
    return Channels(
        K=matrix(p.stiffness),
        B=matrix(p.damping),
        K1=matrix(p.tool_stiffness or p.stiffness),
        B1=matrix(p.tool_damping or p.damping),
        Ki=matrix(p.integral),
        K_d=matrix(p.local_device_stiffness),
        B_d=matrix(p.local_device_damping),
        K_t=matrix(p.local_tool_stiffness),
        B_t=matrix(p.local_tool_damping),
        S=np.diag(p.scale[axes]),
        C3=p.force_scale,
        observer=observer,
    )


def _added_problem(p: Any, inertias: CoupledInertias, rate: float, search: Search) -> str:
    """Check, as `coupling_problem`, the terms that the general form adds to a stable spring and damper."""
    whole = channels_of(p, inertias, rate)
    present = Channels.spring(whole.K, whole.B, np.diag(whole.S))

    def problem(names: tuple[str, ...], with_part: Callable[[float], Channels]) -> str:
        if not diverges(channels_loop(with_part(1.0), inertias, rate)):
            return ""
        part = search(lambda c: diverges(channels_loop(with_part(c), inertias, rate)))
        given = tuple(getattr(p, name) for name in names)
        found = [part * np.array(six(values))[inertias.axes] for values in given]
        are, would = settings(names, given, found, inertias.axes)
        return (
            f"{are}: with it the sampled loop at rate = {rate:g} Hz diverges; the largest stable gains: "
            f"{would}; lower them, or raise the rate"
        )

    def replaced(before: Channels, pairs: tuple[tuple[str, str], ...], part: float) -> Channels:
        """Channels with a part of the gains that are given."""
        gains: dict[str, Any] = {
            field: (1.0 if getattr(p, key) is None else part) * getattr(whole, field) for key, field in pairs
        }
        return before._replace(**gains)

    for pairs in _ADDED:
        names = tuple(key for key, _ in pairs if any(getattr(p, key) or ()))
        if names and (found := problem(names, functools.partial(replaced, present, pairs))):
            return found
        present = replaced(present, pairs, 1.0)
    if any(p.contact_damping) and p.contact_damping_limit is not None:
        limit = np.diag(np.array(six(p.contact_damping_limit))[inertias.axes])
        if found := problem(("contact_damping_limit",), lambda c: present._replace(B1=present.B1 + c * limit)):
            return found
    if whole.observer is None or not diverges(channels_loop(whole, inertias, rate)):
        return ""
    return OBSERVER_PROBLEM.format(rate=rate)


def spring_problem(
    parameters: Any,
    inertias: CoupledInertias,
    rate: float,
    diagonal: np.ndarray,
    loop: Callable[[np.ndarray, np.ndarray], np.ndarray],
    search: Search = largest,
) -> str:
    """Check the `loop` of a stiffness and a damping (n,), see `coupling_problem`; `diagonal`: of what replaces A."""
    axes = inertias.axes
    K, B = (np.array(six(gains))[axes] for gains in (parameters.stiffness, parameters.damping))
    map_of_tick = loop(K, B)
    if not diverges(map_of_tick):
        return ""
    where = inertias.describe(worst(map_of_tick, K / rate**2 + 2.0 * B / rate))
    found = largest_gains(K, B, diagonal, 1.0 / rate, lambda K, B: diverges(loop(K, B)), search)
    names, given = ("stiffness", "damping"), (parameters.stiffness, parameters.damping)
    are, would = settings(names, given, found, axes)
    half = [np.where(less < gain, 0.5 * less, gain) for less, gain in zip(found, (K, B), strict=True)]
    _, recommended = settings(names, given, half, axes)
    return (
        f"{are}: the sampled coupling at rate = {rate:g} Hz diverges {where}; the largest stable gains: "
        f"{would}; recommended, with half of what was lowered, for a margin: {recommended}; lower them, or raise the "
        "rate"
    )
