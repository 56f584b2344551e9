"""A simulated arm as other programs see one: it answers on the topics of an adapter, as strictly as a real
controller.

A command in another frame, one that is not finite, or one without an orientation is refused, and counted. A
commanded wrench or twist ends when nothing has been commanded for `timeout`; the last pose is held then. Of an arm that
is commanded wrenches alone the last one lasts, since it takes the place of a pose. One that is commanded joints is
led to the pose that its tool has with them, at once: as by a controller whose cycle is no shorter than the trajectory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np

from haptic_robot.adapters import Adapter, AdapterParameters, JointSample, Quantity, Sent
from haptic_robot.arm import Arm, FrictionParameters
from haptic_robot.compliance import Admittance, AdmittanceParameters, ImpedanceController, ImpedanceParameters
from haptic_robot.dynamics import chain_of, evaluate_chain
from haptic_robot.hole import Hole, HoleParameters
from haptic_robot.models import ArmFileParameters, ArmModel, named_arm
from haptic_robot.sensing import ForceSensor, SensorParameters, Touch, WallParameters, wall_array, wall_force
from haptic_sim.messages import MessageError
from haptic_sim.packed import Packed
from haptic_sim.parameters import ParameterError, Parameters, quantity
from haptic_sim.spatial import advance_pose


class SimulatedArmParameters(Parameters):
    """A simulated arm, its controller, its sensor, and what its tool touches."""

    model: Literal["six_axes", "seven_axes"] = quantity("six_axes", description="Arm of this package that is simulated")
    file: ArmFileParameters = quantity(ArmFileParameters(), description="Arm of a file, in place of `model`")
    control: Literal["impedance", "admittance"] = quantity(
        "impedance",
        description="Control of the tool's compliance: by the torques of the motors, or by the measured wrench",
    )
    impedance: ImpedanceParameters = quantity(
        ImpedanceParameters(), description="Spring and damper of the arm; of admittance control, how stiffly it follows"
    )
    admittance: AdmittanceParameters = quantity(
        AdmittanceParameters(), description="Impedance that admittance control shows"
    )
    friction: FrictionParameters = quantity(FrictionParameters(), description="Friction of its joints")
    sensor: SensorParameters = quantity(SensorParameters(), description="Force sensor of the simulated arm")
    wall: WallParameters = quantity(WallParameters(), description="Wall in front of the simulated arm")
    hole: HoleParameters = quantity(HoleParameters(), description="Hole for the peg at the tool of the simulated arm")
    timeout: float = quantity(
        0.1, unit="s", description="Age of the last command beyond which no wrench is commanded", gt=0.0, le=10.0
    )
    seed: int = quantity(0, description="Seed of the noise of its sensor", ge=0)


def joint_problems(adapter: Adapter, arm: ArmModel) -> list[str]:
    """Mismatches between the joints of an adapter and those of an arm."""
    names = tuple(arm.model.names)[1:]
    if not adapter.joints or adapter.joints == names:
        return []
    expected, found = ", ".join(adapter.joints), ", ".join(names)
    return [f"adapter.observer: joints {expected}: the simulated arm has {found}; give both the same model or file"]


class SimulatedArm:
    """Answers messages of an adapter's commands with those of its feedback.

    Args:
        parameters: validated.
        adapter: whose topics it has.
        rate: of its controller [Hz].
        arm: its model and configuration at the start; None: that of the parameters.

    Raises:
        ParameterError: the adapter has other joints.
    """

    def __init__(
        self,
        parameters: SimulatedArmParameters,
        adapter: AdapterParameters,
        rate: float,
        arm: tuple[ArmModel, np.ndarray] | None = None,
    ):
        self._of, self._T = parameters, 1.0 / rate
        placed = {"sensor_position": parameters.sensor.position, "sensor_orientation": parameters.sensor.orientation}
        self._adapter = adapter.model_copy(
            update=placed
        ).build()  # it measures where its sensor is, whatever others think
        model, q = arm or named_arm(parameters.model, parameters.file)
        if problems := joint_problems(self._adapter, model):
            raise ParameterError(problems)
        asked = chain_of(model)
        self._asked, self._asked_q, self._asked_pose = Packed(asked), asked.q, asked.pose
        self.arm = Arm(model, q, rate, parameters.friction)
        self._impedance = ImpedanceController(parameters.impedance, self.arm)
        self._admittance = Admittance(parameters.admittance, self.arm.pose, rate)
        self._sensor = ForceSensor(parameters.sensor, rate, parameters.seed)
        self._wall = wall_array(parameters.wall) if parameters.wall.stiffness > 0.0 else None
        self._hole = Hole(parameters.hole, rate) if parameters.hole.stiffness > 0.0 else None
        self.target, self._none = self.arm.pose.copy(), np.zeros(6)
        self._speed = np.zeros(6)
        self._pushed, self._acting, self._age = np.zeros(6), np.zeros(6), math.inf
        self._lasts = all(one.quantity is Quantity.WRENCH for one in self._adapter.commands)
        self._yielded = np.zeros(6)
        self._time, self._joints = 0.0, np.zeros((3, model.model.nv))
        self._on_wall, self._place, self._depth = np.zeros(3), np.zeros(3), 0.0
        self.refused = 0
        self.problem = ""
        """Reason why the last message was refused."""

    def take(self, topic: str, frame: str, values: np.ndarray) -> None:
        """Receive a message of a command; an invalid one is refused."""
        try:
            found = self._adapter.checked(topic, frame, values)
        except MessageError as error:
            self.refused, self.problem = self.refused + 1, str(error)
            return
        if found.quantity is Quantity.POSE:
            self.target[:] = values
            self.target[3:] /= math.sqrt(values[3:] @ values[3:])
        elif found.quantity is Quantity.TRAJECTORY:
            self._asked_q[:] = values[1:]
            evaluate_chain(self._asked)
            self.target[:] = self._asked_pose
        elif found.quantity is Quantity.TWIST:
            self._adapter.bring_to_base(found, values, self.arm.pose, self._speed)
        else:
            self._adapter.bring_to_base(found, values, self.arm.pose, self._pushed)
        self._age = 0.0

    def report(self) -> list[Sent]:
        """The messages of its feedback, as it is at the end of a period; once in each."""
        measured = self._sensor.measure(self.arm.pose, self._acting)
        arm = self.arm
        self._joints[0], self._joints[1], self._joints[2] = arm.q, arm.v, arm.torque
        wrench = self._sensor.in_base(measured, arm.pose)
        return self._adapter.report(arm.pose, arm.twist, wrench, JointSample(self._time, self._joints))

    def contacts(self) -> Iterator[Touch]:
        """The points at which its tool has touched in the last period."""
        if self._wall is not None and self._depth > 0.0:
            yield Touch(self._place, self._wall[3:6], self._depth, self._on_wall)
        if self._hole is not None:
            yield from self._hole.contacts()

    def step(self, elapsed: float | None = None) -> None:
        """Advance by a period; commands age by `elapsed` [s], the time since the last step. None: by a period."""
        of, arm = self._of, self.arm
        if self._age > of.timeout:
            self._speed[:] = 0.0
            if not self._lasts:
                self._pushed[:] = 0.0
        advance_pose(self._speed, self._T, self.target)
        self._age += self._T if elapsed is None else elapsed
        self._time += self._T
        self._acting[:] = 0.0
        if self._wall is not None:
            self._depth = wall_force(arm.pose[:3], arm.twist[:3], self._wall, self._on_wall)
            self._place[:], self._acting[:3] = arm.pose[:3], self._on_wall
        if self._hole is not None:
            self._hole.add(arm.pose, arm.twist, self._acting)
        target, speed, pushed = self.target, self._none, self._pushed
        if of.control == "admittance":
            self._admittance.step(target, np.add(self._acting, pushed, out=self._yielded))
            target, speed, pushed = self._admittance.pose, self._admittance.twist, self._none
        arm.step(self._impedance.torque(target, speed, pushed), self._acting)
