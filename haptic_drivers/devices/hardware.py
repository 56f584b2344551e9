"""A hardware device as the driver has it: its readings in the world, and what is commanded at its hand.

The hand moves in the axes of the device's base B, the driver and all after it in those of the world W, at a scale s:

    p_WH = a + s (X_WB p_BH - b),   R_WH = R_WB R_BH O

a and b change with the scale and with the clutch, so that the pose never jumps: while the clutch is open s is 0, and
the orientation is held; O = (R_WB R_BH)^T R_WH of the instant at which it closes. It is so, too, until force is let
through for the first time: the hand is shown where the tool is held, and moves from there (`aligned: start`).

O is on the right, so that the tool turns about the axis of the world about which the hand does, however both were
turned before: R_WH = (R R_0^T) R_WH,0 with R = R_WB R_BH. So the angular velocity is R_WB w_B without O, and a torque
is written as R_WB^T t_W with the power t_W . w_W at the hand. The dVRK has the same offset where it does not align
orientations (its manual, "PSM teleoperation", rotation offset). Rotations are not scaled: s times a rotation vector
depends on where it is counted from, and jumps at half a turn.

The scale is a transformer without loss. It is held over a tick, and the force that is written is f = s f_W, so that the
power f . v at the hand is f_W . v_W: the energies of the port, in the world, are those at the hand, whatever the scale
was and however it changed. `force_scale` is the force on the hand by that of the tool; what it adds, the factor
force_scale / s, acts on the command before the bound and the guard, as a soft start does. So the guard keeps the port
passive for any scales.

A soft wall at the workspace adds -K d - B v to the force on the hand, d the depth behind the wall, and nothing that
pulls back; it is in the port, too. The weight of `held_mass` is compensated for beside the port: that force has a
potential, which the hand would otherwise have to lift.

At last the written wrench is bounded again in the axes of the base, and nothing is written but by the motors there are.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np

from haptic_control.guard import Port, count_wrench, guard_wrench
from haptic_drivers.bound import Bound, bound_wrench, shrink_wrench, start_softly
from haptic_drivers.devices.link import Source
from haptic_drivers.devices.parameters import MeasuredDeviceParameters
from haptic_drivers.readings import Readings, forget, judge
from haptic_sim import rotations
from haptic_sim.kernels import kernel
from haptic_sim.messages import DISABLED, ENABLED, FAULT, FORCE, DeviceCommand, DeviceReading, DeviceState, Reason
from haptic_sim.packed import Packed
from haptic_sim.parameters import six
from haptic_sim.records import allocate, array, record, shared, value
from haptic_sim.spatial import quat_product

GRAVITY = 9.81  # [m/s^2], along -z of the world


@record
class HardwareArrays(NamedTuple):
    """Arrays of the kernels of a `HardwareDevice`; B: base of the device, W: world, at the scale."""

    R_WB: np.ndarray = shared("rotation of the base", 3, 3)
    quat_WB: np.ndarray = shared("the same as a quaternion x y z w", 4)
    p_WB: np.ndarray = shared("origin of the base", 3, unit="m")
    offset: np.ndarray = shared("O: orientation that is shown, in the axes of the hand, as a quaternion x y z w", 4)
    limit: np.ndarray = shared("largest wrench that is rendered at the hand", 6, unit="N, N m")
    most: np.ndarray = shared("last bound at the hand: wrench", 6, unit="N, N m")
    fastest: np.ndarray = shared("last bound at the hand: rate of change", 6, unit="N/s, N m/s")
    speeds: np.ndarray = shared("last bound at the hand: speeds", 2, unit="m/s, rad/s")
    actuated: np.ndarray = shared("1 for directions of the base with motors, else 0", 6)
    compliance: np.ndarray = shared("displacement of the device alone by a wrench in a tick", 6, unit="m/N, rad/N m")
    box: np.ndarray = shared("workspace in the base: lower corner, upper corner", 6, unit="m")
    wall: np.ndarray = shared("stiffness and damping at the workspace", 2, unit="N/m, N s/m")
    held: np.ndarray = shared("mass whose weight is compensated for, and its centre in the hand", 4, unit="kg, m")
    measured_pose: np.ndarray = shared("pose of the hand in the last reading that was believed", 7, unit="m")
    measured_twist: np.ndarray = shared("twist of the hand in that reading", 6, unit="m/s, rad/s")
    written: np.ndarray = shared("wrench that was written", 6, unit="N, N m")
    bound: Bound = value("last bound of what is rendered, at the scale")
    port: Port = value("the port and its guard, at the scale")
    here: np.ndarray = array("b: position of the hand at the last change of the scale", 3, unit="m")
    read: np.ndarray = array("pose of the hand in the world by the mount alone, as it was read", 7, unit="m")
    shown: np.ndarray = array("a: position that was shown of it then; and the orientation", 7, unit="m")
    scale: np.ndarray = array("s: scale of the motion, 0: it is apart; and that of the force", 2, fill=1.0)
    pose: np.ndarray = array("pose of the hand in the world", 7, unit="m")
    twist: np.ndarray = array("twist of the hand in the world", 6, unit="m/s, rad/s")
    rendered: np.ndarray = array("wrench of the drive in the last step", 6, unit="N, N m")
    work: np.ndarray = array("a wrench in the axes of the base", 6, unit="N, N m")


class HardwareDevice:
    """A Device of the driver over hardware, or over a recording of it.

    Args:
        device: its data.
        bound: last bound of what is rendered.
        port: of the hand, and its guard.
        source: its readings.
        start: where the tool is held at the start: position [m], quaternion x y z w (7,).
        period: of the servo [s].

    Attributes:
        reading: what the source tells in this tick, and what was written.
        state, reason: of this tick, as in DeviceState: why no force is let through; NONE: it is.
        wrong: what is wrong with the reading of this tick, in whose place the last good one is taken; 0: nothing.
    """

    MODE: ClassVar[int] = FORCE
    fault = ""  # what is wrong ends its force, not the trial: see `haptic_drivers.devices.life`

    def __init__(
        self,
        device: MeasuredDeviceParameters,
        bound: Bound,
        port: Port,
        source: Source,
        start: np.ndarray,
        period: float,
    ):
        self._source, self._placed, self._patience = source, device.aligned == "mount", device.reading_watchdog
        self.reading = DeviceReading()
        self.reading.pose[6] = 1.0
        self._readings = readings = Readings.of(bound, period)
        self._judged = Packed(readings)
        mount = np.array(device.mount)
        box = np.array(device.workspace or (-np.inf, -np.inf, -np.inf, np.inf, np.inf, np.inf))
        arrays = allocate(
            HardwareArrays,
            R_WB=rotations.matrix(mount[3:]),
            quat_WB=mount[3:].copy(),
            p_WB=mount[:3].copy(),
            offset=np.array([0.0, 0.0, 0.0, 1.0]),
            here=mount[:3].copy(),
            shown=np.array(mount if self._placed else start, float),
            limit=device.limit(),
            most=bound.wrench.copy(),
            fastest=bound.rate.copy(),
            speeds=bound.velocity.copy(),
            actuated=device.mask(device.actuated),
            compliance=_compliance(device, period),
            box=box,
            wall=np.array(device.wall),
            held=np.array((device.held_mass, *device.held_centre)),
            measured_pose=readings.pose,
            measured_twist=readings.twist,
            written=np.zeros(6),
            scale=np.array((device.motion_scale if self._placed else 0.0, device.force_scale)),
            bound=bound,
            port=port,
        )
        self.pose, self.twist, self.rendered = arrays.pose, arrays.twist, arrays.rendered
        self.pose[6] = 1.0
        self.bound, self.port = bound, port
        self._written, self._packed = arrays.written, Packed(arrays)
        self.state, self.reason = DISABLED, Reason.NOT_ENABLED
        self._scale = float(arrays.scale[0])
        self.wrong = 0

    @property
    def lets_through(self) -> bool:
        """Whether commands are rendered in this tick."""
        return self.state == ENABLED and self.reason == Reason.NONE

    def take(self, tick: int, time: int) -> bool:
        """Take the readings of a tick, stamped with `time` [ns]; whether force is let through again."""
        measured, before = self.reading, self.lets_through
        self._source.take(tick, measured)
        measured.written[:] = self._written
        measured.stamp(tick, time)
        self.wrong = judge(self._judged, measured.pose, measured.twist, time, measured.age)
        self.state, self.reason = measured.state, Reason(measured.reason)
        self._placed |= self.lets_through
        self._scale = 0.0 if self.reason == Reason.CLUTCHED or not self._placed else measured.motion_scale
        _locate(self._packed, self._scale, measured.force_scale)
        return self.lets_through and not before

    @property
    def has_old_reading(self) -> bool:
        """Whether the last reading that was believed is older than the device's limit, whatever was read since."""
        return not self._readings.age_at(self.reading.nanoseconds) <= self._patience

    def accept(self) -> None:
        """Accept the reading: the scale of the next tick, and the clutch, act from its pose on."""
        _change_scale(self._packed, self._scale)

    def forget(self) -> None:
        """Forget the earlier readings, so that the next one is compared with none."""
        forget(self._readings)

    def problem(self) -> str:
        """Description of the fault of this tick's reading."""
        return self._readings.problem(self.wrong, self.reading.pose, self.reading.twist)

    def fill_state(self, state: DeviceState) -> None:
        """Fill in the fields of a DeviceState for hardware; the reading's age grows while later ones are rejected."""
        state.state = self.state
        state.reading_age += self.reading.age
        state.resize(len(self.reading))
        state.buttons[: len(state)] = self.reading.buttons[: len(self.reading)]

    def fail(self, fault: str) -> None:
        """Reject the reading: no force is rendered from this tick on."""
        self.state, self.reason = FAULT, Reason.FAILED
        self._source.fail(fault)

    def enable(self) -> None:
        """Begin an activation of the driver, which enables the device."""
        self._source.enable()

    def measure(self, tick: int, operator: np.ndarray, sensed: np.ndarray) -> None:
        """Fill `sensed` (6,) [N, N m] with zeros: the device has no sensor of force."""
        sensed[:] = 0.0

    def apply_command(self, command: DeviceCommand, operator: np.ndarray, period: float) -> int:
        """Advance by `period` [s] as commanded; whether a limit was reached, -1 (and nothing done) if not finite."""
        clipped: int = _render(self._packed, command.wrench, period)
        if clipped >= 0:
            self._write()
        return clipped

    def idle(self, operator: np.ndarray, period: float) -> None:
        """Render zero force for a `period` [s]."""
        self.rendered[:] = self.bound.before[:] = 0.0
        self.bound.cut[0] = 0
        self._write()

    def _write(self) -> None:
        compensates = self.state == ENABLED and self.reason in (Reason.NONE, Reason.CLUTCHED)
        _to_motors(self._packed, compensates)
        self._source.write(self._written)

    def release(self) -> None:
        """Zero force, and the motors off."""
        self.rendered[:] = self.bound.before[:] = self._written[:] = 0.0
        self._source.release()


def limits_of(device: MeasuredDeviceParameters) -> Bound:
    """The last bound of a device, all of which hardware has."""
    assert device.bound.wrench is not None and device.bound.rate is not None
    return Bound.of(
        device.bound.model_copy(update={"wrench": six(device.bound.wrench), "rate": six(device.bound.rate)})
    )


def _compliance(device: MeasuredDeviceParameters, period: float) -> np.ndarray:
    """Displacement of the free device in a period per unit wrench [m/N, rad/(N m)], in the axes of the world (6,).

    It is smaller while a hand holds the device, so that the guard never expects less work than is done. Zero stands for
    not known: without an identified mass or inertia, or where directions without motors are not axes of the world.
    """
    found, R_WB = device.mask(device.actuated), rotations.matrix(np.array(device.mount[3:]))
    along = np.abs(R_WB).round(9)
    for first, inertia in ((0, device.mass), (3, device.inertia)):
        part = slice(first, first + 3)
        if inertia is None or (np.ptp(found[part]) and not ((along == 0.0) | (along == 1.0)).all()):
            found[part] = 0.0
            continue
        found[part] = (along @ found[part] if np.ptp(found[part]) else found[part]) * period**2 / inertia
    return found


@kernel
def _locate(packed, scale, force_scale):
    """Fill in the pose and the twist of the hand in the world.

    Args:
        packed: HardwareArrays.
        scale, force_scale: of the tick to come; the pose has come about by those of the last one.
    """
    a = packed.arrays
    measured, pose, read, turns = a.measured_pose, a.pose, a.read, 1.0 if scale > 0.0 else 0.0
    for i in range(3):
        read[i] = a.p_WB[i]
        a.twist[i] = a.twist[3 + i] = 0.0
        for j in range(3):
            read[i] += a.R_WB[i, j] * measured[j]
            a.twist[i] += scale * a.R_WB[i, j] * a.measured_twist[j]
            a.twist[3 + i] += turns * a.R_WB[i, j] * a.measured_twist[3 + j]
    for i in range(3):
        pose[i] = a.shown[i] + a.scale[0] * (read[i] - a.here[i])
    read[3], read[4], read[5], read[6] = quat_product(a.quat_WB, measured[3:])
    if a.scale[0] > 0.0:
        pose[3], pose[4], pose[5], pose[6] = quat_product(read[3:], a.offset)
    else:
        for i in range(3, 7):
            pose[i] = a.shown[i]
    a.scale[1] = force_scale


@kernel
def _change_scale(packed, scale):
    """Let the scale act from the pose on that `_locate` has filled in; 0: the hand is held there."""
    a = packed.arrays
    if scale == a.scale[0]:
        return
    if a.scale[0] == 0.0:
        back, offset = (-a.read[3], -a.read[4], -a.read[5], a.read[6]), a.offset
        offset[0], offset[1], offset[2], offset[3] = quat_product(back, a.pose[3:])
        length = math.sqrt(a.offset[0] ** 2 + a.offset[1] ** 2 + a.offset[2] ** 2 + a.offset[3] ** 2)
        for i in range(4):
            a.offset[i] /= length  # that of a device that tells float32 would grow from clutch to clutch
    a.here[:] = a.read[:3]
    a.shown[:] = a.pose
    a.scale[0] = scale


@kernel
def _render(packed, wrench, period):
    """Fill in what is rendered of a command; returns 1 if the limit clipped it, 0 if not, -1 if it is not finite.

    As of the simulated devices, with the scales, the walls of the workspace and the directions without motors.
    """
    a = packed.arrays
    rendered, bound, port, s = a.rendered, a.bound, a.port, a.scale[0]
    for i in range(6):
        if not math.isfinite(wrench[i]):
            return -1
    if not s > 0.0:
        return -1
    clipped = 0
    for i in range(6):
        part = s if i < 3 else 1.0
        limit = a.limit[i] / part
        wanted = a.scale[1] / part * wrench[i]
        rendered[i] = min(max(wanted, -limit), limit)
        if rendered[i] != wanted:
            clipped = 1
        bound.wrench[i] = a.most[i] / part
        bound.rate[i] = a.fastest[i] / part
        port.free[i] = period * port.twist[i]
        port.compliance[i] = part * part * a.compliance[i]
    bound.velocity[0], bound.velocity[1] = s * a.speeds[0], a.speeds[1]
    _push_back(a, rendered, s)
    _keep_actuated(a, rendered)
    _keep_actuated(a, port.free)
    start_softly(bound, rendered)
    bound_wrench(bound, rendered, port.twist, period)
    if port.acts[0] and guard_wrench(port, rendered, period):
        cut = bound.cut[0]
        for first in (0, 3):
            shrink_wrench(rendered, first, bound.wrench)
        bound_wrench(bound, rendered, port.twist, period)
        bound.cut[0] |= cut
        count_wrench(port, rendered)
    bound.before[:] = rendered
    return clipped


@kernel
def _push_back(a, rendered, scale):
    """Add the force of the walls of the workspace."""
    for i in range(3):
        depth = max(a.box[i] - a.measured_pose[i], a.measured_pose[i] - a.box[3 + i])
        if depth > 0.0:
            inward = 1.0 if a.measured_pose[i] < a.box[i] else -1.0
            push = max(0.0, a.wall[0] * depth - a.wall[1] * inward * a.measured_twist[i])
            for j in range(3):
                rendered[j] += a.R_WB[j, i] * inward * push / scale


@kernel
def _keep_actuated(a, wrench):
    """Take the components of a wrench in the world, or of a displacement, for which there is no motor."""
    for first in (0, 3):
        for i in range(3):
            a.work[i] = 0.0
            for j in range(3):
                a.work[i] += a.R_WB[j, i] * wrench[first + j]
            a.work[i] *= a.actuated[first + i]
        for i in range(3):
            wrench[first + i] = 0.0
            for j in range(3):
                wrench[first + i] += a.R_WB[i, j] * a.work[j]


@kernel
def _to_motors(packed, compensates):
    """Fill in what is written: what is rendered, at the hand and in the base, with the weight that is held."""
    a = packed.arrays
    written, rendered = a.written, a.rendered
    up, arm = np.zeros(3), np.zeros(3)
    if compensates and a.held[0] > 0.0:
        x, y, z, w = a.measured_pose[3], a.measured_pose[4], a.measured_pose[5], a.measured_pose[6]
        c = a.held[1:]
        tx, ty, tz = 2.0 * (y * c[2] - z * c[1]), 2.0 * (z * c[0] - x * c[2]), 2.0 * (x * c[1] - y * c[0])
        arm[0] = c[0] + w * tx + y * tz - z * ty
        arm[1] = c[1] + w * ty + z * tx - x * tz
        arm[2] = c[2] + w * tz + x * ty - y * tx
        for i in range(3):
            up[i] = a.bound.scale[0] * a.held[0] * GRAVITY * a.R_WB[2, i]
    for i in range(3):
        force, torque = 0.0, 0.0
        for j in range(3):
            force += a.R_WB[j, i] * rendered[j]
            torque += a.R_WB[j, i] * rendered[3 + j]
        k, m = (i + 1) % 3, (i + 2) % 3
        written[i] = a.actuated[i] * (a.scale[0] * force + up[i])
        written[3 + i] = a.actuated[3 + i] * (torque + arm[k] * up[m] - arm[m] * up[k])
    for i in range(6):
        if not math.isfinite(written[i]):
            written[:] = 0.0
    for first in (0, 3):
        shrink_wrench(written, first, a.most)
