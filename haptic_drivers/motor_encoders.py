"""Encoders at the motors of a twin pantograph, and the observer of its velocity (THESIS D.1).

Encoders count steps of the motors' angles. The measured pose is that of the rounded angles (`find_hand`), and the
measured velocity by default that of an observer (THESIS D.1), which knows the device and the wrenches on it:

    x' = x + T v + T^2/2 a + (1 - r^2) e,   v' = v + T a + (1 - r)^2 e / T,   a = M_d^-1 (F + u - C_d v - J^T t_f)

with the difference e of the measured from the predicted hand, and both poles at r = exp(-w T).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from pydantic import model_validator

from haptic_drivers.encoder import differentiate
from haptic_drivers.noise import SensorParameters
from haptic_sim.dynamics.pantograph import (
    Linkage,
    LinkageParameters,
    Mount,
    close_loops,
    factorise,
    find_hand,
    find_inertia,
    hand_of_pose,
    into_device,
    into_world,
    motor_angles,
    pose_of_hand,
    solve,
)
from haptic_sim.kernels import kernel
from haptic_sim.messages import DeviceState
from haptic_sim.packed import Packed
from haptic_sim.parameters import quantity
from haptic_sim.records import allocate, array, record, shared, value


class MotorEncoderParameters(SensorParameters):
    """A linkage, the friction of its motors, and what is measured at these."""

    linkage: LinkageParameters = quantity(LinkageParameters(), description="Dimensions and masses of the linkage")
    mount: Mount | None = quantity(
        None,
        unit="m, m, rad",
        description="Pose of the device in the world: x, y of the middle between its bases, and its angle; null: "
        "the tool's hand point is in the middle of its workspace at the start",
    )
    viscous_friction: float = quantity(
        1e-4, unit="N m s/rad", description="Viscous friction of a motor", ge=0.0, le=10.0
    )
    coulomb_friction: float = quantity(2e-3, unit="N m", description="Dry friction of a motor", ge=0.0, le=10.0)
    friction_speed: float = quantity(
        2e-3,
        unit="rad/s",
        description="Speed of a motor below which less dry friction is compensated, in proportion",
        gt=0.0,
        le=100.0,
    )
    counts: int = quantity(
        16000, description="Steps of an encoder in a turn (THESIS D.1); 0: angles are continuous", ge=0, le=10**9
    )
    velocity: Literal["exact", "difference", "observed"] | None = quantity(
        None,
        description="Measured velocity. exact: that of the device; difference: the backward difference of the measured "
        "poses; observed: of an observer that knows the device's inertia and the wrenches; null: observed, or exact "
        "without steps",
    )
    observer_bandwidth: float = quantity(
        300.0, unit="1/s", description="Bandwidth of the observed velocity", gt=0.0, le=1e5
    )

    @model_validator(mode="after")
    def _velocity_is_measured_once(self) -> MotorEncoderParameters:
        if self.measured_velocity != "exact" and any(self.twist_noise):
            raise ValueError(
                f".twist_noise = {list(self.twist_noise)}: a velocity from encoders has their errors alone; leave it "
                "out, or set velocity=exact"
            )
        return self

    @property
    def measured_velocity(self) -> Literal["exact", "difference", "observed"]:
        """Method of the velocity measurement."""
        return self.velocity or ("observed" if self.counts else "exact")

    def difference_part(self, rate: float) -> float | None:
        """Part by which the measured twist follows the difference of a tick; None: it is exact, or observed."""
        return 1.0 if self.measured_velocity == "difference" else None


@record
class EncoderArrays(NamedTuple):
    """Arrays that the kernels of a `MotorEncoders` work on; in the device's axes."""

    linkage: Linkage = value("the linkage, as known")
    mount: np.ndarray = shared("place and angle of the device in the world", 3, unit="m, rad")
    step: float = value("step of the encoders; 0: none", unit="rad")
    started: np.ndarray = array("whether the observer has a state", 1, dtype=np.bool_)
    x: np.ndarray = array("hand as measured", 3, unit="m, rad")
    angles: np.ndarray = array("angles of the motors", 4, unit="rad")
    seen_x: np.ndarray = array("hand as observed", 3, unit="m, rad")
    seen_v: np.ndarray = array("its velocity", 3, unit="m/s, rad/s")
    slope: np.ndarray = array("its acceleration", 3, unit="m/s^2, rad/s^2")
    friction: np.ndarray = shared("viscous and dry friction of a motor", 2, unit="N m s/rad, N m")
    quiet: float = value("speed below which there is less dry friction", unit="rad/s")
    column: np.ndarray = array("inverse inertia times a row of J", 3)
    operator: np.ndarray = array("operator's wrench in the tick before", 3, unit="N, N m")
    rendered: np.ndarray = array("rendered wrench in the tick before", 3, unit="N, N m")


class MotorEncoders:
    """Turns the pose and the twist of a DeviceState into what encoders at the motors tell.

    Args:
        parameters: of the device, with its mount.
        rate: of the servo [Hz].
    """

    def __init__(self, parameters: MotorEncoderParameters, rate: float):
        p = parameters
        assert p.mount is not None
        self._rate, self._velocity = rate, p.measured_velocity
        self._left = math.exp(-p.observer_bandwidth / rate)
        self._arrays = allocate(
            EncoderArrays,
            linkage=Linkage.of(p.linkage),
            mount=np.array(p.mount),
            step=2.0 * math.pi / p.counts if p.counts else 0.0,
            friction=np.array([p.viscous_friction, p.coulomb_friction]),
            quiet=p.friction_speed,
        )
        self._packed = Packed(self._arrays)
        self._pose, self._twist = np.full(7, math.nan), np.zeros(6)

    def forget(self) -> None:
        """Begin again: in the next tick the velocity is zero."""
        self._arrays.started[0] = False
        self._pose[0], self._twist[:] = math.nan, 0.0

    def read(self, state: DeviceState) -> None:
        """Change pose and twist of a state; once in each tick."""
        _read(self._packed, state.pose)
        if self._velocity == "difference":
            differentiate(self._rate, 1.0, self._pose, self._twist, state.pose)
            state.twist[:] = self._twist
        elif self._velocity == "observed":
            wrenches = state.operator_wrench, state.rendered_wrench
            _observe(self._packed, 1.0 / self._rate, self._left, *wrenches, state.twist)


@kernel
def _read(packed, pose):
    """Round the angles of the motors, and put the hand that they tell into `pose` (7,)."""
    a = packed.arrays
    hand_of_pose(a.mount, pose, a.x)
    if a.step == 0.0 or close_loops(a.linkage, a.x) != 0:
        return
    motor_angles(a.linkage, a.angles)
    for k in range(4):
        a.angles[k] = a.step * np.rint(a.angles[k] / a.step)
    if find_hand(a.linkage, a.angles, a.x):
        pose_of_hand(a.mount, a.x, pose)


@kernel
def _observe(packed, period, left, operator, rendered, twist):
    """Advance the observer to the hand that was just read, and fill the twist (6,)."""
    a = packed.arrays
    if a.started[0]:
        linkage, x, v = a.linkage, a.seen_x, a.seen_v
        into_device(a.mount, rendered, a.rendered)
        known = close_loops(linkage, x) == 0
        if known:
            find_inertia(linkage, v)
            for i in range(3):
                a.slope[i] = a.operator[i] + a.rendered[i] - linkage.coriolis[i]
            factorise(linkage.inertia, linkage.factor)
            for k in range(4):
                row = linkage.jacobian[k]
                a.column[:] = row
                solve(linkage.factor, a.column)
                rate = row[0] * v[0] + row[1] * v[1] + row[2] * v[2]
                # below this speed friction would turn the motion round within a tick
                least = a.quiet + period * a.friction[1] * (
                    row[0] * a.column[0] + row[1] * a.column[1] + row[2] * a.column[2]
                )
                torque = a.friction[0] * rate + a.friction[1] * rate / max(abs(rate), least)
                for i in range(3):
                    a.slope[i] -= row[i] * torque
            solve(linkage.factor, a.slope)
        for i in range(3):
            acceleration = a.slope[i] if known else 0.0
            ahead = x[i] + period * (v[i] + 0.5 * period * acceleration)
            error = a.x[i] - ahead
            if i == 2:
                error -= 2.0 * math.pi * np.rint(error / (2.0 * math.pi))
            x[i] = ahead + (1.0 - left * left) * error
            v[i] += period * acceleration + (1.0 - left) ** 2 / period * error
    else:
        a.started[0] = True
        for i in range(3):
            a.seen_x[i], a.seen_v[i] = a.x[i], 0.0
    into_device(a.mount, operator, a.operator)
    for i in range(6):
        twist[i] = 0.0
    into_world(a.mount, a.seen_v, twist)
