"""A simulated admittance-type device: moved by command, with a force sensor between its drive and its handle.

It is a rigid body in space, heavy and with friction because of the reduction of its drive (FAULRING I). Its apparent
inertia is the same in all directions, so world axes decouple:

    M a = u + F - f(v)        u of the drive, F of the operator, friction f = b v + c v / |v|, or stiction at rest

An inner servo computes u from a commanded acceleration, with a model of the device that may have errors:

    u = M' a_c - F_sensed + f'(v + T a_c)               M' = (1 + inertia_error) M, f' = (1 + friction_error) f

so a device without errors moves exactly as commanded, whatever the operator does. In f', |v| is at least
`friction_speed`: the sensor's noise makes the velocity of a resting tool alternate, and full compensation of friction
would push with it.

The sensor measures the handle's weight and inertia beside the hand's force. With gravity g, and the handle's mass m at
r from the hand point, where the acceleration is a_h,

    F_measured = F + (w, r x w - I alpha) + bias + noise            w = m (g - a_h)
    F_sensed = F_measured - (1 + handle_error) (w, r x w - I alpha)

that is, the modelled weight and inertia of the handle are subtracted (FAULRING II-H). The acceleration is that of the
tick before, as measured by an accelerometer in the handle.

The guard of the port changes the commanded acceleration. It expects the displacement T (v + T a_c) of the tick, which a
device without errors makes; the errors of the inner servo move it by T^2 times the acceleration that they cause.

Without a command the drive brakes: u = -braking M' v takes energy from the device whatever the operator does. Braking
uses neither sensor nor compensation, whose errors could push.

Integration is semi-implicit Euler with implicit friction, which never reverses a velocity and dissipates in every step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pinocchio as pin
from pydantic import Field

from haptic_control.guard import GuardParameters, Port, guard_motion
from haptic_drivers.bound import Bound, bound_passive, bound_wrench, start_softly
from haptic_drivers.noise import SensorNoise, SensorParameters
from haptic_drivers.parameters import BuiltDevice, CommandedDeviceParameters, DeviceContext, DeviceStart, Tracking
from haptic_sim.kernels import kernel
from haptic_sim.messages import MOTION, DeviceCommand
from haptic_sim.packed import Packed
from haptic_sim.parameters import Gains, NotNegativePair, PositivePair, Wrench, quantity, six
from haptic_sim.random_numbers import displaced, gaussian
from haptic_sim.records import allocate, array, record, shared, value
from haptic_sim.spatial import advance_pose

Part = Annotated[float, Field(gt=-1.0, le=10.0)]


class AdmittanceDeviceParameters(SensorParameters, CommandedDeviceParameters):
    """A simulated admittance device: a heavy body with friction, moved by command, with a force sensor."""

    COMMANDS: ClassVar[int] = MOTION
    RANDOM: ClassVar[tuple[str, ...]] = ("noise", "pose_noise", "twist_noise", "jitter")

    type: Literal["admittance"] = "admittance"
    watchdog: float = quantity(
        0.02, unit="s", description="Age beyond which a command is not followed and the drive brakes", gt=0.0, le=1.0
    )
    apparent_inertia: PositivePair = quantity(
        (60.0, 0.6),
        unit="kg, kg m^2",
        description="Mass of the device at the hand point, and its inertia about any axis",
    )
    viscous_friction: NotNegativePair = quantity(
        (20.0, 0.2),
        unit="N s/m, N m s/rad",
        description="Viscous friction of the drive, in translation and in rotation",
    )
    coulomb_friction: NotNegativePair = quantity(
        (7.2, 0.072),
        unit="N, N m",
        description="Coulomb friction of the drive, in translation (FAULRING, footnote 5) and in rotation",
    )
    inertia_error: Part = quantity(0.02, description="Relative error of the inertia that the inner servo uses")
    friction_error: Part = quantity(-0.1, description="Relative error of the friction that the inner servo compensates")
    friction_speed: NotNegativePair = quantity(
        (1e-5, 1e-4),
        unit="m/s, rad/s",
        description="Speed below which the inner servo compensates less Coulomb friction, in proportion: at rest the "
        "drive is quiet",
    )
    drive_limit: Gains = quantity(
        (2000.0,) * 3 + (200.0,) * 3, unit="N, N m", description="Largest wrench of the drive, in each direction"
    )
    braking: float = quantity(
        20.0,
        unit="1/s",
        description="Deceleration per speed by which the drive brakes without a command",
        ge=0.0,
        le=1e4,
    )
    handle_mass: float = quantity(
        0.15, unit="kg", description="Mass of the handle beyond the force sensor", ge=0.0, le=100.0
    )
    handle_inertia: float = quantity(
        1e-4,
        unit="kg m^2",
        description="Inertia of the handle about any axis through its centre of mass",
        ge=0.0,
        le=10.0,
    )
    handle_centre: tuple[float, float, float] = quantity(
        (0.0, 0.0, 0.03), unit="m", description="Centre of mass of the handle from the hand point, in the hand's axes"
    )
    handle_error: Part = quantity(0.0, description="Relative error of the compensated mass and inertia of the handle")
    gravity: tuple[float, float, float] = quantity(
        (0.0, 0.0, -9.81), unit="m/s^2", description="Gravity on the handle of the device, in world axes"
    )
    noise: NotNegativePair = quantity(
        (0.02, 5e-4), unit="N, N m", description="Standard deviation of a sample of the force sensor: force, torque"
    )
    bias: Wrench = quantity((0.0,) * 6, unit="N, N m", description="Bias of the force sensor, in world axes")

    def build(self, context: DeviceContext) -> BuiltDevice:
        """The device, at rest; its force sensor has noise of its own."""
        hand, guard = context.hand, context.guard
        port = Port.of(guard, MOTION, 1.0 / context.rate, self.apparent_inertia, acts=guard.acts)
        start = displaced(np.array(hand.pose), self.jitter, context.seed, hand.planar)
        noisy = any((*self.pose_noise, *self.twist_noise))
        noise = SensorNoise(self, (0.0, 0.0), context.seed, hand.planar) if noisy else None
        return BuiltDevice(AdmittanceDevice(self, start, context.seed, port), noise)

    def inertia_at_hand(self, start: DeviceStart) -> tuple[float, float]:
        """Mass [kg] and inertia [kg m^2] that a hand moves at the start, once it is completed; None: not known."""
        return self.apparent_inertia

    @property
    def tracking(self) -> Tracking:
        """Tracking of the tool by the device."""
        mass, friction = self.apparent_inertia[0], self.coulomb_friction[0]
        return Tracking(
            np.array(six(self.drive_limit)),
            f"It weighs {mass:g} kg and rubs with {friction:g} N; its servo counts with an inertia "
            f"{100 * self.inertia_error:+g} % and friction {100 * self.friction_error:+g} % off.",
        )

    def coupled(self, start: DeviceStart) -> dict[str, Any]:
        """The keys of `haptic_control.stability.CoupledInertias` that are about the device; empty: nothing is known."""
        inertia, obeyed, drag = self.follows(start.rate)
        felt = tuple(self.sensed_inertia(np.array(start.hand.pose)).ravel().tolist())
        return {"device": inertia, "obeyed": obeyed, "drag": drag, "felt": felt}

    def follows(self, rate: float) -> tuple[tuple[float, float], tuple[float, float], tuple[float, float]]:
        """Response of the inner servo at `rate` [Hz], in translation and in rotation, but for Coulomb friction.

        From M a = u + F - b (v + T a) with u of the module: a = O a_c + d v + (F - F_sensed) / M_T.

        Returns:
            M_T = M + T b [kg, kg m^2]; O = (M' + (1 + friction_error) T b) / M_T; d = friction_error b / M_T [1/s].
        """
        pairs = tuple(zip(self.apparent_inertia, self.viscous_friction, strict=True))
        heavy = tuple(M + b / rate for M, b in pairs)
        compensated = tuple((1.0 + self.inertia_error) * M + (1.0 + self.friction_error) * b / rate for M, b in pairs)
        obeyed = (compensated[0] / heavy[0], compensated[1] / heavy[1])
        drag = (self.friction_error * pairs[0][1] / heavy[0], self.friction_error * pairs[1][1] / heavy[1])
        return (heavy[0], heavy[1]), obeyed, drag

    def sensed_inertia(self, pose: np.ndarray) -> np.ndarray:
        """Inertia times which the sensor adds the last acceleration, about the hand point in world axes (6, 6).

        That of the handle as far as it is taken off too much; `pose` of the hand [m, quat_xyzw] (7,).
        """
        mass, inertia = self.handle_error * self.handle_mass, self.handle_error * self.handle_inertia
        x, y, z = pin.XYZQUATToSE3(pose).rotation @ np.array(self.handle_centre)
        cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        return np.block(
            [
                [mass * np.eye(3), -mass * cross],
                [mass * cross, inertia * np.eye(3) - mass * cross @ cross],
            ]
        )


@record
class Drive(NamedTuple):
    """The device as kernels have it; pairs are of translation and rotation."""

    inertia: np.ndarray = shared("apparent inertia M", 2, unit="kg, kg m^2")
    believed_inertia: np.ndarray = shared("inertia M' of the servo's model", 2, unit="kg, kg m^2")
    viscous: np.ndarray = shared("viscous friction b", 2, unit="N s/m, N m s/rad")
    coulomb: np.ndarray = shared("Coulomb friction c", 2, unit="N, N m")
    compensated: float = value("part of the friction that is compensated")
    quiet: np.ndarray = shared("speed below which less of it is", 2, unit="m/s, rad/s")
    limit: np.ndarray = shared("largest wrench of the drive", 6, unit="N, N m")
    braking: float = value("deceleration per speed without a command", unit="1/s")


@record
class Handle(NamedTuple):
    """The force sensor and the handle beyond it, as kernels have them."""

    excess: np.ndarray = shared("mass and inertia that are compensated too much", 2, unit="kg, kg m^2")
    centre: np.ndarray = shared("centre of mass from the hand point, in the hand's axes", 3, unit="m")
    gravity: np.ndarray = shared("gravity in world axes", 3, unit="m/s^2")
    noise: np.ndarray = shared("standard deviation of a sample", 6, unit="N, N m")
    bias: np.ndarray = shared("bias in world axes", 6, unit="N, N m")
    r: np.ndarray = array("centre of mass from the hand point, in world axes", 3, unit="m")
    force: np.ndarray = array("force of the excess mass", 3, unit="N")


@record
class State(NamedTuple):
    """State of the device at the hand point, in world axes."""

    pose: np.ndarray = shared("position and quaternion x y z w", 7, unit="m")
    twist: np.ndarray = array("velocity and angular velocity", 6, unit="m/s, rad/s")
    acceleration: np.ndarray = array("acceleration in the last step", 6, unit="m/s^2, rad/s^2")
    sensed: np.ndarray = array("operator's wrench as the force sensor knows it", 6, unit="N, N m")
    drive: np.ndarray = array("wrench of the drive in the last step", 6, unit="N, N m")
    wanted: np.ndarray = array("velocity after the step as commanded", 3, unit="m/s or rad/s")
    asked: np.ndarray = array("acceleration that the drive is to make", 6, unit="m/s^2, rad/s^2")


@record
class DeviceArrays(NamedTuple):
    """Arrays that the kernels of an `AdmittanceDevice` work on."""

    drive: Drive = value("the device")
    handle: Handle = value("the force sensor")
    state: State = value("state of the device")
    bound: Bound = value("last bound of what is rendered")
    port: Port = value("the port and its guard")


class AdmittanceDevice:
    """A simulated admittance-type device, which is commanded accelerations.

    Args:
        parameters: of the device.
        pose: at the start (7,); the device is at rest.
        seed: of the sensor's noise.
        port: see Device; None: one without a guard.

    Attributes:
        pose: of the hand point (7,) [m, quat_xyzw]; twist: (6,) [m/s, rad/s].
        rendered: wrench of the drive in the last step, after limits (6,) [N, N m].
        bound: the last bound of that.
        port: where the hand holds it: what was measured, and the guard.
        fault: empty, see Device.
    """

    MODE: ClassVar[int] = MOTION
    fault = ""

    def __init__(
        self,
        parameters: AdmittanceDeviceParameters,
        pose: Sequence[float] | np.ndarray,
        seed: int = 0,
        port: Port | None = None,
    ):
        p, inertia = parameters, np.array(parameters.apparent_inertia)
        self._braking = p.braking
        drive = allocate(
            Drive,
            inertia=inertia,
            believed_inertia=(1.0 + p.inertia_error) * inertia,
            viscous=np.array(p.viscous_friction),
            coulomb=np.array(p.coulomb_friction),
            compensated=1.0 + p.friction_error,
            quiet=np.array(p.friction_speed),
            limit=np.array(six(p.drive_limit)),
            braking=p.braking,
        )
        handle = allocate(
            Handle,
            excess=p.handle_error * np.array([p.handle_mass, p.handle_inertia]),
            centre=np.array(p.handle_centre),
            gravity=np.array(p.gravity),
            noise=np.repeat(p.noise, 3),
            bias=np.array(p.bias),
        )
        state = allocate(State, pose=np.array(pose, float))
        self.pose, self.twist, self.rendered, self._sensed = state.pose, state.twist, state.drive, state.sensed
        self._seed, self.bound = np.uint64(seed), Bound.of(p.bound)
        self.port = port or Port.of(GuardParameters(), MOTION, 1.0, None, acts=False)
        self._packed = Packed(DeviceArrays(drive, handle, state, self.bound, self.port))

    def measure(self, tick: int, operator: np.ndarray, sensed: np.ndarray) -> None:
        """Fill `sensed` (6,) with what the force sensor says in a tick in which the operator applies `operator`."""
        _measure(self._packed, self._seed, tick, operator)
        sensed[:] = self._sensed

    def apply_command(self, command: DeviceCommand, operator: np.ndarray, period: float) -> int:
        """Advance by `period` [s] as commanded, after `measure`.

        Returns:
            Whether the drive was at its limit; -1, without doing anything, if the command is not finite.
        """
        if not command.is_finite():
            return -1
        return _apply_command(self._packed, command.acceleration, operator, period)

    def idle(self, operator: np.ndarray, period: float) -> None:
        """Advance by `period` [s] without a command: brake."""
        _brake(self._packed, operator, period)

    def release(self) -> None:
        """Brake: nothing will be commanded any more."""
        _press_brake(self._packed, self._braking)


@kernel
def _measure(packed, seed, tick, operator):
    handle, state = packed.arrays.handle, packed.arrays.state
    acceleration, twist, sensed = state.acceleration, state.twist, state.sensed
    mass, inertia = handle.excess[0], handle.excess[1]
    r, force = handle.r, handle.force
    _rotate(state.pose[3:], handle.centre, r)
    wx, wy, wz = twist[3], twist[4], twist[5]
    along = wx * r[0] + wy * r[1] + wz * r[2]
    squared = wx * wx + wy * wy + wz * wz
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        # a + alpha x r + omega x (omega x r)
        centre = acceleration[i] + acceleration[3 + j] * r[k] - acceleration[3 + k] * r[j]
        centre += twist[3 + i] * along - squared * r[i]
        force[i] = mass * (handle.gravity[i] - centre)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        sensed[i] = operator[i] - force[i]
        sensed[3 + i] = operator[3 + i] - (r[j] * force[k] - r[k] * force[j] - inertia * acceleration[3 + i])
    for i in range(6):
        sensed[i] += handle.bias[i] + handle.noise[i] * gaussian(seed, 6 * tick + i)


@kernel
def _apply_command(packed, acceleration, operator, period):
    drive, state, port = packed.arrays.drive, packed.arrays.state, packed.arrays.port
    v, u, wanted, asked = state.twist, state.drive, state.wanted, state.asked
    asked[:] = acceleration
    if port.acts[0]:
        for i in range(6):
            port.free[i] = port.asked[i] = period * (port.twist[i] + period * acceleration[i])
        if guard_motion(port, port.free, period):
            for i in range(6):
                asked[i] += (port.free[i] - port.asked[i]) / period**2
    limited = 0
    for part in range(2):
        along = 3 * part
        squared = 0.0
        for i in range(3):
            wanted[i] = v[along + i] + period * asked[along + i]
            squared += wanted[i] * wanted[i]
        speed = max(math.sqrt(squared), drive.quiet[part])
        friction = drive.viscous[part] + (drive.coulomb[part] / speed if speed > 0.0 else 0.0)
        for i in range(3):
            k = along + i
            u[k] = drive.believed_inertia[part] * asked[k] - state.sensed[k]
            u[k] += drive.compensated * friction * wanted[i]
            limited |= _limit(u, k, drive.limit[k])
    bound = packed.arrays.bound
    start_softly(bound, u)
    bound_wrench(bound, u, port.twist, period)
    bound.before[:] = u
    _move(drive, state, operator, period)
    return limited


@kernel
def _brake(packed, operator, period):
    drive, state = packed.arrays.drive, packed.arrays.state
    _press_brake(packed, min(drive.braking, 1.0 / period))  # more would turn the velocity round within a step
    _move(drive, state, operator, period)


@kernel
def _press_brake(packed, rate):
    """Let the drive decelerate the device by `rate` [1/s] times its velocity."""
    drive, state = packed.arrays.drive, packed.arrays.state
    for k in range(6):
        state.drive[k] = -rate * drive.believed_inertia[k // 3] * state.twist[k]
        _limit(state.drive, k, drive.limit[k])
    bound_passive(packed.arrays.bound, state.drive)


@kernel
def _limit(wrench, k, limit):
    """Clip a component; whether it was above."""
    above = abs(wrench[k]) > limit
    wrench[k] = min(max(wrench[k], -limit), limit)
    return above


@kernel
def _move(drive, state, operator, period):
    """Semi-implicit Euler with implicit friction: M (v' - v) / T = u + F - b v' - c v' / |v'|."""
    v = state.twist
    for part in range(2):
        along = 3 * part
        inertia = drive.inertia[part] / period
        squared = 0.0
        for k in range(along, along + 3):
            state.acceleration[k] = -v[k] / period
            v[k] = inertia * v[k] + state.drive[k] + operator[k]
            squared += v[k] * v[k]
        push = math.sqrt(squared)  # what is left of it moves the body, along itself
        left = max(0.0, 1.0 - drive.coulomb[part] / push) if push > 0.0 else 0.0
        for k in range(along, along + 3):
            v[k] *= left / (inertia + drive.viscous[part])
            state.acceleration[k] += v[k] / period
    advance_pose(v, period, state.pose)


@kernel
def _rotate(quat, p, out):
    """Fill `out` (3,) with the vector `p` turned by a quaternion x y z w."""
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        out[i] = 2.0 * (quat[j] * p[k] - quat[k] * p[j])
    a, b, c = out[0], out[1], out[2]
    out[0] = p[0] + quat[3] * a + quat[1] * c - quat[2] * b
    out[1] = p[1] + quat[3] * b + quat[2] * a - quat[0] * c
    out[2] = p[2] + quat[3] * c + quat[0] * b - quat[1] * a
