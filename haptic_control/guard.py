"""The guard of a port: a time-domain passivity observer and controller, in impedance or in admittance causality.

The observer (PO) sums the energy that the hand has given to the display through the port since the activation. In tick
k the wrench is held, and the displacement is measured, so the sum is exact (RYU 2004, which has positions for v T):

    E(k+1) = E(k) + F(k) . dx(k),   dx(k) = x(k+1) - x(k), rotations as vectors

F is the wrench of the hand on the display: minus the rendered wrench f of an impedance device, and what the force
sensor of an admittance device tells. A display is passive as long as E >= -allowed (HANNAFORD and RYU 2002).

Translation and rotation are observed and controlled apart. What one has received the other may give back, because
passive worlds do that: bodies and contacts off the centre turn motion along into motion about. So the sum of both
energies is kept, unless `exchange` is false; then each is kept by itself. Of two parts that would give energy, each
gives the same share of it; missing energy is taken where a damper takes more.

The controller (PC) changes the command of the tick to come as little as is necessary for that:

- *Impedance causality*. Without a rendered wrench the tick would bring the displacement d, and the compliance c of a
  tick adds c f: for a free mass m, d = T v + T^2 F/m and c = T^2/m. The work on the hand is then known beforehand,

      W(f) = f . (d + c f) = c (|f - f0|^2 - |f0|^2),   f0 = -d/(2 c)

  so the wrenches with W <= E are a ball about f0, which is the wrench of a damper m/(2T): the one that takes most. A
  command outside of the ball is replaced by the nearest wrench in it. Where c is not known (0) the ball is the
  half-space f . d <= E, whose nearest wrench is the command with a damper along d; d = T v is then an estimate, and E
  may fall below -allowed by |f| |a| T^2 in a tick, with a the acceleration of that tick.
- *Admittance causality*. A commanded displacement dx has the work W = -F . dx on the hand. With W > E a part along F
  is added, the nearest displacement with W = E.

The work of a tick whose reading was lost counts as it was predicted, and the next observation corrects it. Else the
energy that there was before could be given once more in each such tick.

A command with W <= E is not touched: its bits stay. Energy that is missing (E < 0: a limit of the device has cut what
the controller added, or the displacement was not as predicted) is recovered in the ticks to come by at most the largest
damping, or the largest mobility, and not below a floor of speed or of wrench, where no motion or wrench could take it.
A change takes away at most the part of a command that gives energy, and adds at most that damper. So no quotient grows
as the speed, or the wrench, goes to zero; the damping E/(v^2 T) of HANNAFORD does.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from haptic_sim.kernels import kernel
from haptic_sim.messages import FORCE
from haptic_sim.parameters import NotNegativePair, Parameters, PositivePair, quantity
from haptic_sim.records import allocate, array, record, shared
from haptic_sim.spatial import rotation_difference

ROUNDING = 2.5e-10  # [J] below zero that is no missing energy: sums of works are rounded
TINY = 1e-200  # squares below are rounded so much that nothing is divided by them


class GuardParameters(Parameters):
    """The guard of the device's port, which keeps the display passive; pairs are of translation and rotation."""

    type: Literal["none", "passivity", "wave", "tank"] | None = quantity(
        None,
        description="none: energy is observed only; passivity: a command that would give the hand more energy than it "
        "has given is changed (time-domain passivity control); wave, tank: wave variables, or energy tanks, at the "
        "ends of a relay; null: passivity in realtime, none in lockstep and offline",
    )
    at_device: bool | None = quantity(
        None,
        description="Whether passivity control acts at the device's port, with a relay apart from the guard of the "
        "relay's ports; null: with type passivity, and in realtime where type is null",
    )
    allowed_energy: NotNegativePair = quantity(
        (0.0, 0.0), unit="J", description="Energy that the display may give to the hand beyond what it has received"
    )
    exchange: bool = quantity(
        True,
        description="Whether energy that was received in translation may be given back in rotation, and the other way "
        "round, as a body does that is pushed beside its centre; false: each is kept passive by itself",
    )
    speed_floor: PositivePair = quantity(
        (1e-4, 1e-3), unit="m/s, rad/s", description="Speed below which no damping recovers missing energy"
    )
    wrench_floor: PositivePair = quantity(
        (1e-2, 1e-4),
        unit="N, N m",
        description="Force, and torque, of the hand below which no motion recovers missing energy (admittance devices)",
    )
    largest_damping: PositivePair | None = quantity(
        None,
        unit="N s/m, N m s/rad",
        description="Largest damping that recovers missing energy; null: m/(2T) of a device with the known inertia m, "
        "which takes most from it; none where the inertia is not known",
    )
    largest_mobility: PositivePair | None = quantity(
        None,
        unit="m/(N s), rad/(N m s)",
        description="Largest velocity for the hand's wrench that recovers missing energy (admittance devices); null: "
        "T/M of a device with the known inertia M",
    )

    @property
    def acts(self) -> bool:
        """Whether the guard changes commands of the device; not as long as that is left to the mode."""
        return self.type == "passivity" if self.at_device is None else self.at_device


@record
class Port(NamedTuple):
    """A port and its observer, for kernels; pairs are of translation and rotation."""

    acts: np.ndarray = shared("whether the controller changes commands", 1, dtype=np.int64)
    mode: np.ndarray = shared("FORCE: impedance causality, MOTION: admittance causality", 1, dtype=np.int64)
    allowed: np.ndarray = shared("energy that may be given beyond what was received", 2, unit="J")
    exchanges: np.ndarray = shared("whether translation and rotation have their energy together", 1, dtype=np.int64)
    floor: np.ndarray = shared("speed, or wrench, below which nothing is recovered", 2, unit="m/s, rad/s or N, N m")
    largest: np.ndarray = shared(
        "largest damping, or mobility, that recovers energy", 2, unit="N s/m, N m s/rad or the inverse"
    )
    energy: np.ndarray = array("energy received from the hand since the activation", 2, unit="J")
    dissipated: np.ndarray = array("energy that the controller has kept from the hand", 2, unit="J")
    acted: np.ndarray = array("ticks in which it has changed the command", 2, dtype=np.int64)
    observed: np.ndarray = array("number of observations", 1, dtype=np.int64)
    pose: np.ndarray = array("measured pose: position, quaternion x y z w", 7, unit="m")
    twist: np.ndarray = array("measured twist", 6, unit="m/s, rad/s")
    operator: np.ndarray = array("wrench of the operator as the device knows it", 6, unit="N, N m")
    free: np.ndarray = array("displacement of the tick to come without a rendered wrench, or as commanded", 6, unit="m")
    compliance: np.ndarray = array("displacement by a rendered wrench in a tick; 0: not known", 6, unit="m/N, rad/N m")
    work: np.ndarray = array("work on the hand by the command", 2, unit="J")
    takes: np.ndarray = array("work that the largest damping or mobility would take from the hand", 2, unit="J")
    budget: np.ndarray = array("work that is allowed", 2, unit="J")
    turned: np.ndarray = array("rotation over the last tick", 3, unit="rad")
    ahead: np.ndarray = array("displacement of ticks whose reading was lost, as predicted", 6, unit="m, rad")
    asked: np.ndarray = array("wrench, or displacement, before the controller changed it", 6, unit="N, N m or m, rad")

    @classmethod
    def of(
        cls,
        parameters: GuardParameters,
        mode: int,
        period: float,
        inertia: tuple[float, float] | None,
        *,
        acts: bool,
    ) -> Port:
        """The port of a device.

        Args:
            parameters: of its guard.
            mode: FORCE (impedance causality) or MOTION (admittance causality).
            period: T [s].
            inertia: mass [kg] and inertia [kg m^2] that the device is known to have, None if it is not.
            acts: whether the controller changes commands; see `GuardParameters.acts`.
        """
        given = parameters.largest_damping if mode == FORCE else parameters.largest_mobility
        if given is None and inertia is not None:
            given = (
                (inertia[0] / (2.0 * period), inertia[1] / (2.0 * period))
                if mode == FORCE
                else (period / inertia[0], period / inertia[1])
            )
        return allocate(
            cls,
            pose=np.array([0.0, 0, 0, 0, 0, 0, 1]),
            acts=np.array([acts], np.int64),
            mode=np.array([mode], np.int64),
            allowed=np.array(parameters.allowed_energy),
            exchanges=np.array([parameters.exchange], np.int64),
            floor=np.array(parameters.speed_floor if mode == FORCE else parameters.wrench_floor),
            largest=np.array(given or (0.0, 0.0)),
        )


@kernel
def reset_port(port):
    """Begin again from zero energy: at an activation, and at a switch between force and motion."""
    port.observed[0] = 0
    for part in range(2):
        port.energy[part] = port.dissipated[part] = 0.0
        port.acted[part] = 0
    port.ahead[:] = 0.0


@kernel
def observe_port(port, pose, twist, operator, rendered):
    """Add the work of the last tick to the port's energy, and keep what was measured at its end.

    Args:
        port: a Port.
        pose, twist: of the hand point as measured (7,), (6,) [m, quat_xyzw; m/s, rad/s].
        operator: wrench of the operator as the device knows it, now (6,) [N, N m].
        rendered: wrench that the device has held in the last tick (6,) [N, N m].
    """
    if port.observed[0]:
        rotation_difference(pose[3:], port.pose[3:], port.turned)
        for i in range(3):
            if port.mode[0] == FORCE:
                port.energy[0] -= rendered[i] * (pose[i] - port.pose[i] - port.ahead[i])
                port.energy[1] -= rendered[3 + i] * (port.turned[i] - port.ahead[3 + i])
            else:
                port.energy[0] += port.operator[i] * (pose[i] - port.pose[i])
                port.energy[1] += port.operator[3 + i] * port.turned[i]
    port.ahead[:] = 0.0
    port.observed[0] += 1
    port.pose[:] = pose
    port.twist[:] = twist
    port.operator[:] = operator


@kernel
def bridge_port(port, rendered):
    """Count the work of the last tick as it was predicted, where the reading of its end was lost.

    The next observation counts the rest of the displacement. Without this the energy that there was before the reading
    was lost could be given once more in each tick until the next one.

    Args:
        port: a Port.
        rendered: wrench that the device has held in the last tick (6,) [N, N m].
    """
    if port.mode[0] != FORCE:
        return
    for i in range(6):
        if rendered[i] != 0.0:
            moved = port.free[i] + port.compliance[i] * rendered[i]
            port.energy[i // 3] -= rendered[i] * moved
            port.ahead[i] += moved


@kernel
def guard_wrench(port, wrench, period):
    """Change the wrench to be rendered in the tick to come so that the port stays passive, if it would not.

    `port.free` and `port.compliance` are those of the tick; `count_wrench` counts what was rendered in the end.

    Args:
        port: a Port of impedance causality.
        wrench: (6,) [N, N m], changed in place.
        period: T [s].

    Returns:
        Whether it was changed.
    """
    free, compliance, largest, floor = port.free, port.compliance, port.largest, port.floor
    for part in range(2):
        port.work[part] = _work_of_wrench(wrench, 3 * part, free, compliance)
        port.takes[part] = _taken_by_damping(3 * part, free, compliance, largest[part], floor[part], period)
    if not _divide(port):
        return False
    port.asked[:] = wrench
    for part in range(2):
        if port.work[part] > port.budget[part]:
            budget = port.budget[part]
            passive_wrench(wrench, 3 * part, free, compliance, budget, largest[part], floor[part], period)
    return True


@kernel
def _divide(port):
    """Fill `port.budget` from `port.work` and `port.takes`; whether the works are more than there is."""
    if not port.exchanges[0]:
        over = False
        for part in range(2):
            port.budget[part] = port.energy[part] + port.allowed[part] + ROUNDING
            over |= not port.work[part] <= port.budget[part]
        return over
    available = port.energy[0] + port.energy[1] + port.allowed[0] + port.allowed[1] + ROUNDING
    if port.work[0] + port.work[1] <= available:
        return False
    given, taken = 0.0, 0.0
    for part in range(2):
        given += max(0.0, port.work[part])
        taken -= min(0.0, port.work[part])
    left, takes = available + taken, port.takes[0] + port.takes[1]
    for part in range(2):
        port.budget[part] = min(0.0, port.work[part])
        if left > 0.0:
            if port.work[part] > 0.0:
                port.budget[part] = left * (port.work[part] / given)
        else:
            port.budget[part] += left * (port.takes[part] / takes if takes > 0.0 else 0.5)
    return True


@kernel
def keeps_passive(port, wrench):
    """Whether a wrench (6,) gives the hand no more energy in the tick to come than there is, as zero force does."""
    for part in range(2):
        port.work[part] = _work_of_wrench(wrench, 3 * part, port.free, port.compliance)
    if port.exchanges[0]:
        there = port.energy[0] + port.energy[1] + port.allowed[0] + port.allowed[1]
        return port.work[0] + port.work[1] <= max(0.0, there + ROUNDING)
    passive = True
    for part in range(2):
        passive &= port.work[part] <= max(0.0, port.energy[part] + port.allowed[part] + ROUNDING)
    return passive


@kernel
def count_wrench(port, wrench):
    """Count the work kept from the hand, now that `wrench` (6,) is rendered after `guard_wrench` changed it."""
    for part in range(2):
        kept, changed = 0.0, False
        for i in range(3 * part, 3 * part + 3):
            changed |= wrench[i] != port.asked[i]
            kept += port.asked[i] * (port.free[i] + port.compliance[i] * port.asked[i])
            kept -= wrench[i] * (port.free[i] + port.compliance[i] * wrench[i])
        if changed:
            port.dissipated[part] += kept
            port.acted[part] += 1


@kernel
def guard_motion(port, displacement, period):
    """Change the displacement (6,) [m, rad] commanded for the tick to come so that the port stays passive.

    Args:
        port: a Port of admittance causality.
        displacement: changed in place.
        period: T [s].

    Returns:
        Whether it was changed.
    """
    operator, largest, floor = port.operator, port.largest, port.floor
    for part in range(2):
        port.work[part], squared = _work_of_motion(displacement, 3 * part, operator)
        port.takes[part] = largest[part] * squared * period if math.sqrt(squared) > floor[part] else 0.0
    if not _divide(port):
        return False
    changed = False
    for part in range(2):
        budget = port.budget[part]
        if port.work[part] > budget:
            kept = passive_motion(displacement, 3 * part, operator, budget, largest[part], floor[part], period)
            if kept > 0.0:
                changed = True
                port.dissipated[part] += kept
                port.acted[part] += 1
    return changed


@kernel
def _work_of_wrench(wrench, first, free, compliance):
    """Work of three components of a wrench on the hand over a tick."""
    work = 0.0
    for i in range(first, first + 3):
        work += wrench[i] * (free[i] + compliance[i] * wrench[i])
    return work


@kernel
def _taken_by_damping(first, free, compliance, damping, floor, period):
    """Work that a damper takes from the hand over a tick, or the one that takes most where that is weaker."""
    c, squared = 0.0, 0.0
    for i in range(first, first + 3):
        c = max(c, compliance[i])
        squared += free[i] * free[i]
    if math.sqrt(squared) <= floor * period:
        return 0.0
    b = min(damping, 0.5 * period / c) if c > 0.0 else damping
    return b * (1.0 - b * c / period) * squared / period


@kernel
def _work_of_motion(displacement, first, wrench):
    """Work of three components of a displacement on the hand, and the square of the hand's wrench."""
    work, squared = 0.0, 0.0
    for i in range(first, first + 3):
        work -= wrench[i] * displacement[i]
        squared += wrench[i] * wrench[i]
    return work, squared


@kernel
def passive_wrench(wrench, first, free, compliance, available, damping, floor, period):
    """Change three components of a wrench as little as necessary for a work of at most `available` over a tick.

    Args:
        wrench: (6,) [N, N m], changed in place from the component `first` on (0 or 3).
        free: displacement of the tick without it, 0 in directions that cannot move (6,) [m, rad].
        compliance: displacement by the wrench, the same in all directions that can move and 0 in the others; 0 in all
            three where it is not known (6,) [m/N, rad/(N m)].
        available: work that the tick may do; negative: what it has to take back [J].
        damping: that takes it back at most [N s/m, N m s/rad].
        floor: speed below which nothing is taken back [m/s, rad/s].
        period: T [s].

    Returns:
        The work that the change has kept back [J]; 0 if the wrench was left as it is, to the bit.
    """
    work = _work_of_wrench(wrench, first, free, compliance)
    if work <= available:
        return 0.0
    level = available
    if level < 0.0:
        level = max(level, -_taken_by_damping(first, free, compliance, damping, floor, period))
        if work <= level:
            return 0.0
    c, squared = 0.0, 0.0
    for i in range(first, first + 3):
        c = max(c, compliance[i])
        squared += free[i] * free[i]
    if c == 0.0:
        if squared < TINY:
            return 0.0
        for i in range(first, first + 3):
            wrench[i] -= (work - level) / squared * free[i]
        return work - level
    beside = 0.0  # |f - f0|^2
    for i in range(first, first + 3):
        if compliance[i] > 0.0:
            beside += (wrench[i] + 0.5 / c * free[i]) ** 2
    if beside < TINY:
        return 0.0
    part = math.sqrt(max(0.0, level / c + squared / (4.0 * c * c)) / beside)
    for i in range(first, first + 3):
        if compliance[i] > 0.0:
            centre = -0.5 / c * free[i]
            wrench[i] = centre + part * (wrench[i] - centre)
    return work - level


@kernel
def passive_motion(displacement, first, wrench, available, mobility, floor, period):
    """Change three components of a displacement as little as necessary for a work of at most `available` on the hand.

    Args:
        displacement: commanded for a tick (6,) [m, rad], changed in place from the component `first` on (0 or 3).
        wrench: of the hand on the display over the tick (6,) [N, N m].
        available: work that the display may do on the hand; negative: what it has to take back [J].
        mobility: velocity for a wrench that takes it back at most [m/(N s), rad/(N m s)].
        floor: wrench below which nothing is taken back [N, N m].
        period: T [s].

    Returns:
        The work that the change has kept back [J]; 0 if the displacement was left as it is, to the bit.
    """
    work, squared = _work_of_motion(displacement, first, wrench)
    if work <= available:
        return 0.0
    level = available
    if level < 0.0:
        level = max(level, -mobility * squared * period) if math.sqrt(squared) > floor else 0.0
    if work <= level or squared < TINY:
        return 0.0
    for i in range(first, first + 3):
        displacement[i] += (work - level) / squared * wrench[i]
    return work - level
