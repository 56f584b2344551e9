"""The final bound of the force that a device renders, whatever was commanded.

It acts after all other stages, on the wrench of the drive: a soft start clips and scales it, limits bound the wrench
and its rate of change, and what would drive a device on that is faster than its limit is taken away. A value that is
not finite becomes zero. The change to zero force (or to braking) without a command is immediate, and so is what the
limit of speed takes away: the bound of the rate of change does not delay it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from haptic_control.soft_return import limit_driving_part
from haptic_sim.kernels import kernel
from haptic_sim.parameters import Gains, Parameters, PositivePair, quantity, six
from haptic_sim.records import allocate, array, record, shared

JUMP = 5.0  # times the limit of speed is no speed of the device, but a fault of its sensors


class BoundParameters(Parameters):
    """Bounds of the rendered wrench and of its rate of change, whatever is commanded."""

    wrench: Gains | None = quantity(
        None,
        unit="N, N m",
        description="Largest wrench that the device renders in each direction (x, y, rotation about z, or all six), "
        "whatever is commanded and however impulses are rendered; null: no bound, for simulated devices "
        "only",
    )
    rate: Gains | None = quantity(
        None,
        unit="N/s, N m/s",
        description="Largest rate of change of the rendered wrench in each direction, except to zero where no command "
        "comes, and where `velocity` takes away; null: no bound, for simulated devices only",
    )
    velocity: PositivePair | None = quantity(
        None,
        unit="m/s, rad/s",
        description="Speed, and angular speed, beyond which nothing is rendered that would drive the device on; a "
        f"reading that is further from the last one than {JUMP:g} times this speed goes is rejected; null: no bound",
    )


def watchdog_quantity() -> Any:
    """The key `watchdog` of every simulated device that renders a force."""
    return quantity(
        0.02,
        unit="s",
        description="Age beyond which a command is not rendered and the force is zero",
        gt=0.0,
        le=1.0,
    )


def soft_start_quantity() -> Any:
    """The key `soft_start` of every simulated device."""
    return quantity(
        None,
        unit="s",
        description="Time over which what is rendered grows from zero after an activation, and in realtime after a gap "
        "of commands; null: 0.5 s, but none at the start of a trial",
        ge=0.0,
        le=60.0,
    )


def bound_quantity() -> Any:
    """The key `bound` of every simulated device."""
    return quantity(BoundParameters(), description="The last bound of what the device renders; nothing passes it")


@record
class Bound(NamedTuple):
    """The last bound of what a device renders, for kernels."""

    wrench: np.ndarray = shared("largest wrench, infinite where there is none", 6, unit="N, N m")
    rate: np.ndarray = shared("largest rate of change, infinite where there is none", 6, unit="N/s, N m/s")
    velocity: np.ndarray = shared("speed beyond which nothing drives the device on", 2, unit="m/s, rad/s")
    before: np.ndarray = array("rendered wrench in the tick before", 6, unit="N, N m")
    scale: np.ndarray = array("part of the wrench that a soft start lets through", 1, fill=1.0)
    start: np.ndarray = shared("largest wrench of a soft start, however impulses are rendered", 6, unit="N, N m")
    starting: np.ndarray = array("whether a soft start is not over", 1, dtype=np.int64)
    cut: np.ndarray = array("whether the last wrench was beyond the bound", 1, dtype=np.int64)

    @classmethod
    def of(cls, parameters: BoundParameters, start: tuple[float, ...] | None = None) -> Bound:
        """The bound of parameters, and of a soft start [N, N m]; nothing was rendered yet."""

        def spread(values: tuple[float, ...] | None) -> np.ndarray:
            return np.full(6, np.inf) if values is None else np.array(six(values))

        speed, wrench, rate = parameters.velocity or (np.inf, np.inf), parameters.wrench, parameters.rate
        return allocate(cls, wrench=spread(wrench), rate=spread(rate), velocity=np.array(speed), start=spread(start))


def count_bounded(parameters: BoundParameters, rendered: np.ndarray, period: float) -> int:
    """Number of ticks in which the rendered wrenches (n, 6) [N, N m] were at the bound; `period` in s."""
    bound = Bound.of(parameters)
    change = np.abs(np.diff(rendered, axis=0, prepend=0.0))
    at = (np.abs(rendered) >= bound.wrench) & (bound.wrench > 0.0)
    at |= (change >= (1.0 - 1e-9) * period * bound.rate) & (bound.rate > 0.0)
    return int(np.count_nonzero(at.any(axis=1)))


@kernel
def start_softly(bound, wrench):
    """Scale what is about to be rendered, in place, by the soft start; whether that has clipped it before.

    It is clipped to what is rendered at most, so that the scale counts from there, and until it was once within that:
    the end of the soft start is no step.
    """
    if not bound.starting[0]:
        return 0
    clipped = 0
    for i in range(6):
        if abs(wrench[i]) > bound.start[i]:
            clipped = 1
        most = min(bound.start[i], bound.wrench[i])
        if abs(wrench[i]) > most:
            wrench[i] = math.copysign(most, wrench[i])
        wrench[i] *= bound.scale[0]
    if bound.scale[0] >= 1.0 and not clipped:
        bound.starting[0] = 0
    return clipped


@kernel
def bound_wrench(bound, wrench, twist, period):
    """Bound what is about to be rendered for a `period` [s], in place; `twist` of the device as measured (6,).

    `bound.cut` says whether that changed it. `bound.before` is left to the caller, who may change the wrench once more.
    What remains of a wrench that would drive the device on may be larger in a single direction than it was, and without
    a part that would have taken energy: the caller sees to its own limits, and to its guard.

    Returns:
        Whether a part was taken away that would drive the device on.
    """
    finite = True
    for i in range(6):
        finite &= math.isfinite(wrench[i])
    cut = not finite
    for i in range(6):
        wanted = wrench[i] if finite else 0.0
        allowed = min(max(wanted, -bound.wrench[i]), bound.wrench[i])
        if finite:  # zero force comes at once
            step = bound.rate[i] * period
            allowed = min(max(allowed, bound.before[i] - step), bound.before[i] + step)
        cut |= allowed != wanted
        wrench[i] = allowed
    held_back = False
    for part in range(2):
        if limit_driving_part(wrench, twist, 3 * part, bound.velocity[part]):
            cut = held_back = True
            shrink_wrench(wrench, 3 * part, bound.wrench)
    bound.cut[0] = cut
    return held_back


@kernel
def shrink_wrench(wrench, first, limit):
    """Scale three components of a wrench in place until none is beyond its limit (6,): their direction stays."""
    part = 1.0
    for i in range(first, first + 3):
        if abs(wrench[i]) > limit[i]:
            part = min(part, limit[i] / abs(wrench[i]))
    if part < 1.0:
        for i in range(first, first + 3):
            wrench[i] = min(max(part * wrench[i], -limit[i]), limit[i])


@kernel
def bound_passive(bound, wrench):
    """Bound what is rendered without a command, zero force or brakes, in place: as fast as it wants to."""
    cut = 0
    for i in range(6):
        wanted = wrench[i] if math.isfinite(wrench[i]) else 0.0
        allowed = min(max(wanted, -bound.wrench[i]), bound.wrench[i])
        if allowed != wrench[i]:
            cut = 1
        wrench[i] = bound.before[i] = allowed
    bound.cut[0] = cut
