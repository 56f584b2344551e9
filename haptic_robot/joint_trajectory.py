"""Adapter to the joint_trajectory_controller of ros2_controllers: the pose of the tool becomes positions of the joints.

Each command is a trajectory of one point, which begins when it comes (a stamp of zero) and is to be reached
`time_from_start` later. It has positions alone: the controller refuses one that ends with a velocity, unless it is told
otherwise, and one with efforts. Where the tool is follows from what the arm says of its joints, and the joints that are
commanded from those that were commanded last (`haptic_robot.inverse`); the first begin where the arm is. What the
joints do not reach is not owed: the next command goes on from where the tool is with them, at no more than its speed.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from haptic_robot.adapters import Adapter, AdapterParameters, ArmState, Place, Quantity, Sent, Topic
from haptic_robot.dynamics import chain_of, evaluate_chain
from haptic_robot.inverse import InverseKinematics
from haptic_sim.packed import Packed
from haptic_sim.parameters import quantity

_POSE, _POSE_AND_WRENCH = (Quantity.POSE,), (Quantity.POSE, Quantity.WRENCH)


class JointTrajectoryParameters(AdapterParameters):
    """The joint_trajectory_controller of ros2_controllers, which follows joints; the arm of `observer` has them."""

    BY_JOINTS: ClassVar[bool] = True
    COMMANDS: ClassVar[tuple[Topic, ...]] = (
        Topic("joint_trajectory", Quantity.TRAJECTORY, Place.BASE, strict=False, needed=1),
    )
    FEEDBACK: ClassVar[tuple[Topic, ...]] = (
        Topic("force_torque_sensor_broadcaster/wrench", Quantity.WRENCH, Place.SENSOR),
    )

    type: Literal["joint_trajectory"] = "joint_trajectory"
    controller: str = quantity("joint_trajectory_controller", description="Name of the controller")
    time_from_start: float = quantity(
        0.002,
        unit="s",
        description="Time in which the controller reaches a commanded position: about a cycle of its own, or of the "
        "commands if these are slower",
        gt=0.0,
        le=1.0,
    )
    joint_speed: float = quantity(
        1.0,
        unit="rad/s, m/s",
        description="Largest speed of each joint that is commanded; a smaller limit of the arm's file holds",
        gt=0.0,
    )

    def commands(self) -> tuple[Topic, ...]:
        """Topics that the arm follows."""
        (one,) = self.COMMANDS
        return (one._replace(name=f"{self.controller}/{one.name}"),)

    def build(self) -> Adapter:
        """Adapter that converts messages of the topics."""
        return JointTrajectoryAdapter(self)


class JointTrajectoryAdapter(Adapter):
    """Adapter of an arm that is commanded by joint trajectories.

    Args:
        parameters: validated.

    Raises:
        ParameterError: the arm of `observer` cannot be used.
    """

    def __init__(self, parameters: JointTrajectoryParameters):
        self._reached_after = parameters.time_from_start
        super().__init__(parameters)
        of, arm = parameters.observer, self._model
        self._kinematics = InverseKinematics(arm, of.length, of.least, parameters.joint_speed, self._home)
        chain = chain_of(arm)
        self._q, self._pose, self._chain = chain.q, chain.pose, Packed(chain)
        self._q[:] = self._home
        self._commanding = False

    @property
    def problem(self) -> str:
        """Reason why the last command does not bring the arm to the commanded pose; empty if it does."""
        return self._kinematics.problem if self._commanding else ""

    def blank(self, topic: Topic) -> Sent:
        """A message of a topic; that of a trajectory has its time."""
        sent = super().blank(topic)
        if topic.quantity is Quantity.TRAJECTORY:
            sent.values[0] = self._reached_after
        return sent

    def settle(self, pose: np.ndarray) -> None:
        """Replace a commanded pose (7,) by the pose of the tool at the joint positions that were sent."""
        pose[:] = self._kinematics.pose

    def forget(self) -> None:
        """End the motion: the next command begins at the pose that the arm has then."""
        self._commanding = False

    def command(self, pose: np.ndarray, twist: np.ndarray, wrench: np.ndarray, tool: np.ndarray) -> list[Sent]:
        """Joint positions at which the tool has a pose, or comes as near as it can; see `Adapter.command`."""
        if not self._commanding:
            self._kinematics.begin(self._q)
            self._commanding = True
        self._kinematics.move(pose, self.duration)
        self._commanded[0].values[1:] = self._kinematics.q
        return self._commanded

    def _take_joints(self, values: np.ndarray, state: ArmState) -> tuple[Quantity, ...]:
        """Take the pose that follows from the positions of the joints, and where they are observed the wrench."""
        self._q[:] = values[1 : 1 + len(self._q)]
        evaluate_chain(self._chain)
        state.pose[:] = self._pose
        if self._observer is None:
            return _POSE
        super()._take_joints(values, state)
        return _POSE_AND_WRENCH
