"""The twin pantograph of THESIS D.1 as a simulated impedance device (see `haptic_sim.dynamics.pantograph`).

Its motors are torque sources (D.1): the torques that make the commanded wrench at the present configuration are held
over the tick, and the wrench changes with the configuration meanwhile. A motor has a largest current; a wrench that
needs more is scaled down as a whole, so that its direction stays, and no work is added. With gravity on the links the
motors compensate for its wrench first, if they are to.

The free motion is integrated by the classical Runge-Kutta method of fourth order: without friction the energy is kept
to its error. Friction is at the motors, viscous and dry: torques -b dtheta/dt - c sign(dtheta/dt), at most c at rest.
They are held over the tick as the motors' are, and found for its end: in

    M_d (v' - v)/T = F + J^T (T_motor - b J v' + t) - C_d v,   |t| <= c,

t leaves v' the least kinetic energy (projected Gauss-Seidel), so that it opposes J v' or holds it at zero. The work of
a torque that is held is exactly itself times the angle; where that of a joint's friction came out positive, as the
motion turned round, the tick is done once more without it. So friction takes energy in every tick, in every
configuration.

The device's own controller shapes its inertia to `mass` and `inertia` (THESIS 5.20, 5.21, D.2), so that to whoever
commands a wrench f it is the ideal device of `inertial`. With the operator's wrench F as the device knows it, and t_f
the friction of the model at the velocity to come,

    u = M_d a + C_d v - F + J^T (friction_compensation t_f),   a = (F + f) / (mass, inertia)

Friction is small to the hand, but (F + f) M_d / mass is what moves the linkage: without compensation a device that is
shaped to be ten times as heavy has ten times the friction.

A handle that comes too near to a singularity stops the device: it has a `fault` that names the singularity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from haptic_control.parameters import KnownDevice
from haptic_drivers.force_device import HEAVIEST, Body, SimulatedForceDeviceParameters, with_inertia_of_tool
from haptic_drivers.inertial import InertialParameters
from haptic_drivers.motor_encoders import MotorEncoderParameters, MotorEncoders
from haptic_drivers.parameters import DeviceContext, DeviceParameters, DeviceStart, Encoders
from haptic_sim.dynamics.pantograph import (
    STRETCHED,
    Linkage,
    close_loops,
    distribute,
    explain_problem,
    factorise,
    find_inertia,
    hand_of_pose,
    into_device,
    into_world,
    motor_angles,
    pose_of_hand,
    solve,
)
from haptic_sim.kernels import kernel
from haptic_sim.packed import Packed
from haptic_sim.parameters import quantity
from haptic_sim.records import allocate, array, record, shared, value

ROUNDING = 1e-12  # [J] of the friction of a joint in a tick, which is none
SWEEPS = 50  # of the projected Gauss-Seidel method, at most
STILL = 1e-11  # [rad/s] of a change of velocity after which there is no further sweep

_OF_THE_IDEAL = (
    "impulse_rendering",
    "wrench_limit",
    "spread",
    "watchdog",
    "soft_start",
    "bound",
    "offset",
    "jitter",
    "mass",
    "inertia",
)
"""Keys that the ideal device has, too."""


class PantographParameters(MotorEncoderParameters, SimulatedForceDeviceParameters):
    """A simulated twin pantograph (THESIS D.1): four motors, three directions, encoders at the motors."""

    PLANAR: ClassVar[bool] = True

    type: Literal["pantograph"] = "pantograph"
    offset: tuple[float, float] = quantity(
        (0.0, 0.0), unit="m", description="Offset from the tool's hand point to that of the device at the start"
    )
    mass: float | None = quantity(
        None,
        unit="kg",
        description="Mass to which the device's own controller shapes it; null: that of the tool at the hand, the mean "
        "of all directions, and at most that of its linkage",
        gt=0.0,
        le=HEAVIEST,
    )
    inertia: float | None = quantity(
        None,
        unit="kg m^2",
        description="Inertia to which the device's own controller shapes it; null: that of the tool, the mean of all "
        "axes, and at most that of its linkage as one rigid body",
        gt=0.0,
        le=HEAVIEST,
    )
    shaped: bool = quantity(
        True, description="Whether the device's own controller shapes its inertia and compensates for its friction"
    )
    friction_compensation: float = quantity(
        0.9, description="Part of the friction that the device's own controller compensates for", ge=0.0, le=1.0
    )
    torque_constant: float = quantity(
        0.0525, unit="N m/A", description="Torque of a motor per current (THESIS D.1)", gt=0.0, le=100.0
    )
    current_limit: float = quantity(
        16.4,
        unit="A",
        description="Largest current of a motor: in the middle of the workspace it makes the peak force of 23 N and "
        "the peak torque of 1.15 N m of THESIS D.1, where it is said to exceed 10 A",
        gt=0.0,
        le=1e4,
    )
    distribution: Literal["handle", "torque"] = quantity(
        "handle",
        description="Distribution of three directions to four motors. handle: the force along the handle is smallest "
        "(THESIS D.4, mapped through the pantographs' Jacobians); torque: the torques are smallest",
    )
    gravity: tuple[float, float] = quantity(
        (0.0, 0.0), unit="m/s^2", description="Gravity along x and y of the world; 0: the device is level"
    )
    gravity_compensation: bool = quantity(True, description="Whether the motors carry the weight of the device")

    def problems(self, start: DeviceStart) -> list[str]:
        """Reasons why it cannot take part in a trial: its handle cannot reach the pose of the hand at the start."""
        if not start.hand.planar:
            return ["device.type = pantograph: moves in the plane of x and y, and this world is in space"]
        mounted = self.mounted_at(np.array(start.hand.pose))
        try:
            mounted.inertia_at(mounted.start_pose(start.hand, start.seed))
        except ValueError as error:
            x, y, angle = mounted.mount or (0.0, 0.0, 0.0)
            return [f"device.mount = [{x:g}, {y:g}, {angle:g}]: the device cannot start with the tool, {error}"]
        return []

    def completed(self, start: DeviceStart) -> DeviceParameters:
        """Copy with its mount in the world, and shaped to the tool's inertia."""
        mounted = self.mounted_at(np.array(start.hand.pose)).limited(start)
        return with_inertia_of_tool(mounted, start) if self.shaped else mounted

    def known(self) -> KnownDevice:
        """Properties of the device that a controller may know, once the parameters are completed."""
        linkage = None if self.mount is None else self.linkage.numbers(self.mount)
        return KnownDevice(self.type, self.mass, self.inertia, self.shaped, linkage=linkage)

    def inertia_at_hand(self, start: DeviceStart) -> tuple[float, float] | None:
        """Mass [kg] and inertia [kg m^2] at the hand: as shaped, or else the smallest at the start; None: not known."""
        if self.shaped and self.mass is not None and self.inertia is not None:
            return self.mass, self.inertia
        return self.least_inertia(self.start_pose(start.hand, start.seed))

    def idealised(self, inertia: Callable[[], tuple[float, float] | None]) -> DeviceParameters:
        """Copy without motors, friction and encoders."""
        keys = {name: getattr(self, name) for name in _OF_THE_IDEAL}
        if not self.shaped:
            keys["mass"], keys["inertia"] = inertia() or (None, None)
        return InertialParameters(**keys)

    def motor_currents(self, poses: np.ndarray, wrenches: np.ndarray) -> tuple[np.ndarray, float]:
        """Currents of its motors (N, motors) and their limit [A], by poses (N, 7) and wrenches (N, 6) of the hand."""
        return motor_torques(self, poses, wrenches) / self.torque_constant, self.current_limit

    def coupled(self, start: DeviceStart) -> dict[str, Any]:
        """The keys of `haptic_control.stability.CoupledInertias` that are about the device; empty: nothing is known."""
        return {"device": self.inertia_at_hand(start), "difference": self.difference_part(start.rate)}

    def body(self, context: DeviceContext) -> tuple[Body, tuple[float, float]]:
        """The body at rest at its start (`start_pose`), and the mass and inertia that the guard takes it to have."""
        pose = self.start_pose(context.hand, context.seed)
        mounted = self.mounted_at(np.array(context.hand.pose))
        return Pantograph(mounted, pose), mounted.least_inertia(pose)

    def encoders(self, context: DeviceContext, body: Body) -> Encoders:
        """Encoders of the body's motion; None: it is measured exactly, but for the noise."""
        return MotorEncoders(self.mounted_at(np.array(context.hand.pose)), context.rate)

    def unused(self) -> Iterator[tuple[set[str], str]]:
        """Names of keys that have no effect because of other keys of the device, and why."""
        if not self.shaped:
            yield {"mass", "inertia", "friction_compensation"}, "device.shaped = false"
        if self.measured_velocity != "observed":
            yield {"observer_bandwidth"}, f"device.velocity = {self.velocity or 'exact'}"

    def mounted_at(self, pose: np.ndarray) -> PantographParameters:
        """The same device, which stands so that a planar `pose` (7,) is in its middle if it has no mount."""
        if self.mount is not None:
            return self
        return self.model_copy(update={"mount": (float(pose[0]), float(pose[1]), 0.0)})

    def numbers_at(self, pose: Sequence[float]) -> tuple[float, ...]:
        """Numbers of the linkage (`LinkageParameters.numbers`) of the device that stands as `mounted_at` gives."""
        mount = self.mounted_at(np.asarray(pose, float)).mount
        assert mount is not None
        return self.linkage.numbers(mount)

    def inertia_at(self, pose: np.ndarray) -> np.ndarray:
        """M_d (3, 3) at rest at a planar pose (7,), in world axes [kg, kg m, kg m^2].

        Raises:
            ValueError: the handle cannot be there; the text names the singularity.
        """
        body = Pantograph(self, pose)
        if body.fault:
            raise ValueError(body.fault)
        return body.inertia()

    def least_inertia(self, pose: np.ndarray) -> tuple[float, float]:
        """The smallest mass that a force along any direction moves at a pose, and inertia that a torque turns.

        Raises:
            ValueError: see `inertia_at`.
        """
        W = np.linalg.inv(self.inertia_at(pose))
        return float(1.0 / np.linalg.eigvalsh(W[:2, :2])[-1]), float(1.0 / W[2, 2])


@record
class PantographArrays(NamedTuple):
    """Arrays that the kernels of a `Pantograph` work on; in the device's axes but for `drive`, pose and twist."""

    linkage: Linkage = value("the linkage")
    mount: np.ndarray = shared("place and angle of the device in the world", 3, unit="m, rad")
    limit: float = value("largest torque of a motor", unit="N m")
    least_torque: bool = value("whether the distribution has the smallest torques")
    friction: np.ndarray = shared("viscous and dry friction of a motor", 2, unit="N m s/rad, N m")
    gravity: np.ndarray = shared("gravity along x and y", 2, unit="m/s^2")
    compensates: bool = value("whether the motors carry the weight")
    shaped: np.ndarray = shared("mass and inertia to which it is shaped; 0: it is not", 2, unit="kg, kg m^2")
    compensated: float = value("part of the friction that is compensated")
    quiet: float = value("speed below which less of it is", unit="rad/s")
    asked: np.ndarray = array("wrench of the drive that shapes a wrench", 6, unit="N, N m")
    x: np.ndarray = array("hand", 3, unit="m, rad")
    v: np.ndarray = array("its velocity", 3, unit="m/s, rad/s")
    pose: np.ndarray = array("hand in the world", 7, unit="m")
    twist: np.ndarray = array("its twist in the world", 6, unit="m/s, rad/s")
    drive: np.ndarray = array("torque of a motor per wrench, in parts of what it has left", 4, 6)
    problem: np.ndarray = array("what `close_loops` found; 0: none", 1, dtype=np.int64)
    torques: np.ndarray = array("torques of the motors per wrench", 4, 3)
    carried: np.ndarray = array("torques that carry the weight", 4, unit="N m")
    motor: np.ndarray = array("torques of the motors", 4, unit="N m")
    rubbing: np.ndarray = array("torques of friction", 4, unit="N m")
    torque: np.ndarray = array("their sum", 4, unit="N m")
    operator: np.ndarray = array("operator's wrench", 3, unit="N, N m")
    wrench: np.ndarray = array("a wrench, or what it makes of a velocity", 3, unit="N, N m")
    angles: np.ndarray = array("angles of the motors", 4, unit="rad")
    angles_after: np.ndarray = array("angles after the step", 4, unit="rad")
    rates: np.ndarray = array("rates of the motors", 4, unit="rad/s")
    impulses: np.ndarray = array("impulses of dry friction", 4, unit="N m s")
    matrix: np.ndarray = array("inertia with implicit viscous friction", 3, 3)
    columns: np.ndarray = array("its inverse times J^T", 4, 3)
    mobility: np.ndarray = array("rates of the motors per impulse", 4, 4)
    stage: np.ndarray = array("hand at a stage of the integration", 3, unit="m, rad")
    stage_v: np.ndarray = array("velocity at a stage", 3)
    slope: np.ndarray = array("acceleration at a stage", 3)
    sum_x: np.ndarray = array("weighted sum of velocities", 3)
    sum_v: np.ndarray = array("weighted sum of accelerations", 3)
    dissipated: np.ndarray = array("energy that friction took", 1, unit="J")


class Pantograph:
    """A twin pantograph moved by the operator's and the rendered wrench: the body of a force device.

    Args:
        parameters: of the device; `mount` is given, or the hand's place at the start is the middle of the device.
        pose: of the hand at the start, planar (7,); it is at rest.

    Attributes:
        pose: of the hand (7,) [m, quat_xyzw]; twist: (6,) [m/s, rad/s]; in world axes.
        drive: torques of the motors per wrench (4, 6), in parts of what the weight leaves of them [1/N, 1/(N m)].
    """

    def __init__(self, parameters: PantographParameters, pose: Sequence[float] | np.ndarray):
        p = parameters.mounted_at(np.asarray(pose, float))
        assert p.mount is not None
        self._arrays = a = allocate(
            PantographArrays,
            linkage=Linkage.of(p.linkage),
            mount=np.array(p.mount),
            limit=p.torque_constant * p.current_limit,
            least_torque=p.distribution == "torque",
            friction=np.array([p.viscous_friction, p.coulomb_friction]),
            gravity=_turned(p.gravity, -p.mount[2]),
            compensates=p.gravity_compensation,
            shaped=np.array([p.mass, p.inertia]) if p.shaped and p.mass and p.inertia else np.zeros(2),
            compensated=p.friction_compensation,
            quiet=p.friction_speed,
        )
        self.pose, self.twist, self.drive = a.pose, a.twist, a.drive
        self._packed = Packed(a)
        _place(self._packed, np.asarray(pose, float))

    @property
    def fault(self) -> str:
        """Reason why the handle cannot be moved further; empty as long as it can."""
        a, problem = self._arrays, int(self._arrays.problem[0])
        if not problem:
            return ""
        x, y = a.x[:2]
        angle = math.degrees(math.remainder(a.x[2], math.tau))
        return (
            f"device: {explain_problem(problem)}: the handle is at [{1e3 * x:.1f}, {1e3 * y:.1f}] mm from the middle "
            f"of the device, at {angle:.1f} degrees; move less, or choose device.mount"
        )

    @property
    def dissipated(self) -> float:
        """Energy dissipated by friction since the start [J]."""
        return float(self._arrays.dissipated[0])

    @property
    def motor_torques(self) -> np.ndarray:
        """Torques of the motors in the last step (4,) [N m]."""
        return self._arrays.motor

    def inertia(self) -> np.ndarray:
        """M_d at the present configuration (3, 3), in world axes."""
        a = self._arrays
        close_loops(a.linkage, a.x)
        find_inertia(a.linkage, a.v)
        R = np.eye(3)
        R[:2, 0], R[:2, 1] = _turned((1.0, 0.0), a.mount[2]), _turned((0.0, 1.0), a.mount[2])
        return R @ a.linkage.inertia @ R.T

    def energy(self) -> float:
        """Kinetic energy, and that in gravity up to a constant [J]."""
        a = self._arrays
        close_loops(a.linkage, a.x)
        find_inertia(a.linkage, a.v)
        kinetic = 0.5 * float(a.linkage.momentum @ a.v)
        return kinetic - float(self._first_moment() @ a.gravity)

    def _first_moment(self) -> np.ndarray:
        """Sum of mass times position of all parts that move (2,) [kg m]."""
        m, x = self._arrays.linkage, self._arrays.x
        first = m.handle[0] * x[:2]
        for k in range(2):
            first = first + m.end * (x[:2] + m.r[k])
        return first + m.moments[0] * m.u.sum(axis=0) + m.moments[1] * m.w.sum(axis=0)

    def step(self, operator: np.ndarray, rendered: np.ndarray, period: float) -> None:
        """Advance by `period` [s] under the operator's wrench and motor torques, both held.

        Args:
            operator: (6,) [N, N m].
            rendered: wrench that the motors make at the beginning of the step (6,), within their limits (`drive`).
        """
        step_pantograph(self._packed, operator, rendered, period)

    def drive_wrench(self, wrench: np.ndarray, operator: np.ndarray, twist: np.ndarray, period: float) -> np.ndarray:
        """The wrench of the drive (6,) that lets a wrench move the body as one of the shaped inertia.

        Args:
            wrench: commanded (6,); operator: as the device knows it (6,) [N, N m].
            twist: as measured (6,) [m/s, rad/s]; period: [s].
        """
        if not self._arrays.shaped[0]:
            return wrench
        _shape(self._packed, wrench, operator, twist, period)
        return self._arrays.asked

    def predict(
        self, twist: np.ndarray, operator: np.ndarray, period: float, free: np.ndarray, compliance: np.ndarray
    ) -> None:
        """Fill in how the next step will move the handle (6,): without a rendered wrench, and by a unit of one.

        Friction and the coupling between directions are left out.

        Args:
            twist: of the handle before the step [m/s, rad/s]; operator: wrench that will be held [N, N m].
            period: [s].
            free: to fill [m, rad]; compliance: to fill, 0 in directions that cannot move [m/N, rad/(N m)].
        """
        _predict(self._packed, twist, operator, period, free, compliance)


def motor_torques(parameters: PantographParameters, poses: np.ndarray, wrenches: np.ndarray) -> np.ndarray:
    """Torques of the motors that make wrenches at poses, as rows (n, 4) [N m].

    Args:
        parameters: of a device with a mount.
        poses: planar (n, 7), where the handle can be; wrenches: (n, 6) [N, N m].
    """
    assert parameters.mount is not None
    linkage, mount, torques = Linkage.of(parameters.linkage), np.array(parameters.mount), np.zeros((4, 3))
    x, wrench, found = np.zeros(3), np.zeros(3), np.zeros((len(poses), 4))
    for row, pose, total in zip(found, poses, wrenches, strict=True):
        hand_of_pose(mount, pose, x)
        problem = close_loops(linkage, x)
        if problem == 0 or problem >= STRETCHED:
            into_device(mount, total, wrench)
            distribute(linkage, parameters.distribution == "torque", torques)
            row[:] = torques @ wrench
    return found


def _turned(vector: Sequence[float], angle: float) -> np.ndarray:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([c * vector[0] - s * vector[1], s * vector[0] + c * vector[1]])


@kernel
def _place(packed, pose):
    """Put the hand at a planar pose (7,) of the world, at rest."""
    a = packed.arrays
    for i in range(7):
        a.pose[i] = pose[i]
    hand_of_pose(a.mount, pose, a.x)
    _settle(a)


@kernel
def _settle(a):
    """Find everything of the configuration that does not depend on the velocity; whether there is no problem."""
    linkage = a.linkage
    a.problem[0] = close_loops(linkage, a.x)
    if a.problem[0] != 0:
        return False
    motor_angles(linkage, a.angles)
    distribute(linkage, a.least_torque, a.torques)
    if a.compensates and (a.gravity[0] != 0.0 or a.gravity[1] != 0.0):
        find_inertia(linkage, a.v)
        for i in range(3):
            a.wrench[i] = linkage.lever[i, 0] * a.gravity[0] + linkage.lever[i, 1] * a.gravity[1]
        for k in range(4):
            a.carried[k] = 0.0
            for i in range(3):
                a.carried[k] -= a.torques[k, i] * a.wrench[i]
    c, s = math.cos(a.mount[2]), math.sin(a.mount[2])
    for k in range(4):
        left = max(a.limit - abs(a.carried[k]), 1e-9 * a.limit)
        x, y, turn = a.torques[k, 0] / left, a.torques[k, 1] / left, a.torques[k, 2] / left
        a.drive[k, 0], a.drive[k, 1], a.drive[k, 5] = c * x - s * y, s * x + c * y, turn
    return True


@kernel
def step_pantograph(packed, operator, rendered, period):
    """Advance by `period` [s] under two wrenches (6,), the second made by motor torques that are held."""
    a = packed.arrays
    if a.problem[0] != 0:
        return
    into_device(a.mount, operator, a.operator)
    into_device(a.mount, rendered, a.wrench)
    for k in range(4):
        a.motor[k] = a.carried[k]
        for i in range(3):
            a.motor[k] += a.torques[k, i] * a.wrench[i]
    _apply_friction(a, period)
    while True:
        for k in range(4):
            a.torque[k] = a.motor[k] + a.rubbing[k]
        problem = _integrate(a, period)
        if problem == 0:
            problem = close_loops(a.linkage, a.stage)
        if problem != 0:  # the handle stays where it was
            for i in range(3):
                a.v[i] = 0.0
            for i in range(6):
                a.twist[i] = 0.0
            a.problem[0] = problem
            return
        motor_angles(a.linkage, a.angles_after)
        taken, again = 0.0, False
        for k in range(4):
            work = a.rubbing[k] * (a.angles_after[k] - a.angles[k])
            if work > ROUNDING:
                a.rubbing[k], again = 0.0, True
            taken -= work
        if not again:
            break
    a.dissipated[0] += taken
    for i in range(3):
        a.x[i], a.v[i] = a.stage[i], a.stage_v[i]
    _settle(a)
    pose_of_hand(a.mount, a.x, a.pose)
    into_world(a.mount, a.v, a.twist)


@kernel
def _apply_friction(a, period):
    """Find the torques of friction, which are held over the step."""
    linkage, viscous, dry = a.linkage, a.friction[0], a.friction[1]
    if viscous == 0.0 and dry == 0.0:
        return
    J = linkage.jacobian
    close_loops(linkage, a.x)
    find_inertia(linkage, a.v)
    for i in range(3):
        for j in range(3):
            a.matrix[i, j] = linkage.inertia[i, j]
            for k in range(4):
                a.matrix[i, j] += period * viscous * J[k, i] * J[k, j]
    factorise(a.matrix, linkage.factor)
    for i in range(3):
        force = a.operator[i] - linkage.coriolis[i]
        force += linkage.lever[i, 0] * a.gravity[0] + linkage.lever[i, 1] * a.gravity[1]
        for k in range(4):
            force += J[k, i] * a.motor[k]
        a.wrench[i] = linkage.momentum[i] + period * force
    solve(linkage.factor, a.wrench)
    for k in range(4):
        a.columns[k, :] = J[k]
        solve(linkage.factor, a.columns[k])
        a.impulses[k] = 0.0
    for k in range(4):
        a.rates[k] = J[k, 0] * a.wrench[0] + J[k, 1] * a.wrench[1] + J[k, 2] * a.wrench[2]
        for j in range(4):
            a.mobility[k, j] = J[k, 0] * a.columns[j, 0] + J[k, 1] * a.columns[j, 1] + J[k, 2] * a.columns[j, 2]
    most = period * dry
    for _ in range(SWEEPS if dry > 0.0 else 0):
        largest = 0.0
        for k in range(4):
            wanted = a.impulses[k] - a.rates[k] / a.mobility[k, k]
            step = min(max(wanted, -most), most) - a.impulses[k]
            a.impulses[k] += step
            for j in range(4):
                a.rates[j] += a.mobility[j, k] * step
            largest = max(largest, abs(a.mobility[k, k] * step))
        if largest < STILL:
            break
    for k in range(4):
        a.rubbing[k] = a.impulses[k] / period - viscous * a.rates[k]


@kernel
def _integrate(a, period):
    """Fill `stage` and `stage_v` with the state after a step of Runge and Kutta; 0, or the problem of a stage."""
    for i in range(3):
        a.stage[i], a.stage_v[i] = a.x[i], a.v[i]
        a.sum_x[i] = a.sum_v[i] = 0.0
    for number in range(4):
        problem = _accelerate(a)
        if problem != 0:
            return problem
        weight = period / 6.0 if number in (0, 3) else period / 3.0
        ahead = 0.5 * period if number < 2 else period
        for i in range(3):
            a.sum_x[i] += weight * a.stage_v[i]
            a.sum_v[i] += weight * a.slope[i]
        for i in range(3):
            a.stage[i] = a.x[i] + (ahead * a.stage_v[i] if number < 3 else a.sum_x[i])
            a.stage_v[i] = a.v[i] + (ahead * a.slope[i] if number < 3 else a.sum_v[i])
    return 0


@kernel
def _accelerate(a):
    """Find the acceleration at a stage under the operator's wrench and the torques; 0, or the problem."""
    linkage = a.linkage
    problem = close_loops(linkage, a.stage)
    if problem != 0:
        return problem
    find_inertia(linkage, a.stage_v)
    for i in range(3):
        force = a.operator[i] - linkage.coriolis[i]
        force += linkage.lever[i, 0] * a.gravity[0] + linkage.lever[i, 1] * a.gravity[1]
        for k in range(4):
            force += linkage.jacobian[k, i] * a.torque[k]
        a.slope[i] = force
    factorise(linkage.inertia, linkage.factor)
    solve(linkage.factor, a.slope)
    return 0


@kernel
def _shape(packed, wrench, operator, twist, period):
    a = packed.arrays
    linkage, J = a.linkage, a.linkage.jacobian
    if a.problem[0] != 0:
        a.asked[:] = 0.0
        return
    into_device(a.mount, wrench, a.wrench)
    into_device(a.mount, operator, a.operator)
    into_device(a.mount, twist, a.stage_v)
    close_loops(linkage, a.x)
    find_inertia(linkage, a.stage_v)
    M = linkage.inertia
    for i in range(3):
        a.slope[i] = (a.operator[i] + a.wrench[i]) / a.shaped[i // 2]
    for i in range(3):
        a.stage[i] = linkage.coriolis[i] - a.operator[i]
        for j in range(3):
            a.stage[i] += M[i, j] * a.slope[j]
        a.stage_v[i] += period * a.slope[i]
    for k in range(4):
        rate = J[k, 0] * a.stage_v[0] + J[k, 1] * a.stage_v[1] + J[k, 2] * a.stage_v[2]
        torque = a.compensated * (a.friction[0] * rate + a.friction[1] * rate / max(abs(rate), a.quiet))
        for i in range(3):
            a.stage[i] += J[k, i] * torque
    into_world(a.mount, a.stage, a.asked)


@kernel
def _predict(packed, twist, operator, period, free, compliance):
    a = packed.arrays
    if a.problem[0] != 0:
        return
    linkage = a.linkage
    into_device(a.mount, twist, a.stage_v)
    into_device(a.mount, operator, a.slope)
    close_loops(linkage, a.x)
    find_inertia(linkage, a.stage_v)
    for i in range(3):
        a.slope[i] -= linkage.coriolis[i]
    factorise(linkage.inertia, linkage.factor)
    solve(linkage.factor, a.slope)
    half = 0.5 * period * period
    for i in range(3):
        a.slope[i] = period * a.stage_v[i] + half * a.slope[i]
    into_world(a.mount, a.slope, free)
    c, s = math.cos(a.mount[2]), math.sin(a.mount[2])
    for i in range(3):  # along x and y of the world, and about z
        a.slope[0] = c if i == 0 else (s if i == 1 else 0.0)
        a.slope[1] = -s if i == 0 else (c if i == 1 else 0.0)
        a.slope[2] = 1.0 if i == 2 else 0.0
        x, y, z = a.slope[0], a.slope[1], a.slope[2]
        solve(linkage.factor, a.slope)
        compliance[i if i < 2 else 5] = half * (x * a.slope[0] + y * a.slope[1] + z * a.slope[2])
