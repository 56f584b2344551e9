"""Adapters to the controllers of other packages: which topics they have, in which axes, about which point.

An adapter is a table. To an arm it sends, and from it takes, poses, twists and wrenches as stamped messages of
geometry_msgs. Inside of this package all are of the tool's origin in the axes of the arm's base, and a wrench is
that of the tool on its surroundings where it is commanded, and that of the surroundings on the tool where it is
measured. This module converts them, once, at the border. docs/robot.md has what was read in the sources of each
package, and with which version.

    wrench in axes S about the point P of a wrench (f, n) about the tool's origin T:  (R_SB f, R_SB (n + p_PT x f))
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np

from haptic_robot.sensing import moved
from haptic_sim.dynamics.loose import rotation_of
from haptic_sim.messages import MessageError
from haptic_sim.parameters import ParameterError, PositivePair, quantity
from haptic_sim.parts import Kind, Part
from haptic_sim.rotations import from_roll_pitch_yaw, matrix

_UPRIGHT, _NOWHERE = np.eye(3), np.zeros(3)
TURN = 1e-3  # by which the length of a quaternion may differ from 1


def _length(values: np.ndarray) -> float:
    """Norm of a vector, in a fraction of the time that NumPy takes for a few values."""
    return math.sqrt(float(values @ values))


class Quantity(Enum):
    """What a message holds; the value is its type in geometry_msgs."""

    POSE = "PoseStamped"
    TWIST = "TwistStamped"
    WRENCH = "WrenchStamped"


class Place(Enum):
    """In which axes, and for a wrench about which point, a message is."""

    BASE = "base"  # axes of the arm's base, point: the tool's origin
    ORIGIN = "origin"  # axes of the arm's base, point: the base's origin
    TOOL = "tool"  # axes and origin of the tool
    SENSOR = "sensor"  # axes and origin of the force sensor


class Topic(NamedTuple):
    """A topic of a controller.

    Attributes:
        name: relative to the namespace of the adapter.
        quantity: what its messages hold.
        place: where that is expressed.
        strict: whether a frame_id must be named: an empty one is refused, too.
    """

    name: str
    quantity: Quantity
    place: Place
    strict: bool = True


class Sent(NamedTuple):
    """A message: its topic, its frame_id, and its values: a pose (7,) [m, quat_xyzw], or a twist or wrench (6,)."""

    topic: str
    quantity: Quantity
    frame: str
    values: np.ndarray


class ArmState:
    """What an arm has said of itself, in the axes of its base, at the tool's origin.

    Attributes:
        pose: (7,) [m, quat_xyzw]. twist: (6,) [m/s, rad/s]. wrench: of the surroundings on the tool (6,) [N, N m].
        has: quantities that have come since the last `clear`.
    """

    def __init__(self) -> None:
        self.pose, self.twist, self.wrench = np.array([0.0] * 6 + [1.0]), np.zeros(6), np.zeros(6)
        self.has: set[Quantity] = set()

    def clear(self) -> None:
        """Begin to note anew what comes."""
        self.has.clear()


class AdapterParameters(Part):
    """Names of an arm's frames, and of its controller."""

    COMMANDS: ClassVar[tuple[Topic, ...]] = ()
    """Topics that the arm follows."""
    FEEDBACK: ClassVar[tuple[Topic, ...]] = ()
    """Topics on which it says how it is."""

    namespace: str = quantity("", description="Name of the controller in front of its topics; empty: none")
    base_frame: str = quantity("base_link", description="Frame of the arm's base, in which it is commanded")
    tool_frame: str = quantity("tool0", description="Frame of the arm's tool, which is commanded")
    sensor_frame: str = quantity("sensor_link", description="Frame of the arm's force sensor")
    sensor_position: tuple[float, float, float] = quantity(
        (0.0, 0.0, 0.0), unit="m", description="Origin of the sensor in the axes of the tool"
    )
    sensor_orientation: tuple[float, float, float] = quantity(
        (0.0, 0.0, 0.0), unit="rad", description="Axes of the sensor in those of the tool: roll, pitch, yaw"
    )
    reaction: bool = quantity(
        False, description="Whether the arm measures the wrench of its tool on the surroundings, not theirs on the tool"
    )

    reach: float = quantity(
        5.0,
        unit="m",
        description="Largest distance of the tool from the base; what is further is in another unit",
        gt=0.0,
    )
    largest: PositivePair = quantity(
        (500.0, 100.0),
        unit="N, N m",
        description="Largest force and torque that the arm can measure; what is larger is in another unit",
    )

    def commands(self) -> tuple[Topic, ...]:
        """Topics that the arm follows."""
        return self.COMMANDS

    def feedback(self) -> tuple[Topic, ...]:
        """Topics on which it says how it is."""
        return self.FEEDBACK

    def build(self) -> Adapter:
        """What converts messages of the topics."""
        return Adapter(self)


ADAPTERS = Kind("robot_adapters", AdapterParameters, by_name=True)
AnyAdapterParameters = Annotated[AdapterParameters, ADAPTERS]

_SENSOR = Topic("ft_sensor_wrench", Quantity.WRENCH, Place.SENSOR)


class FziParameters(AdapterParameters):
    """The Cartesian compliance, motion or force controller of FZI's cartesian_controllers."""

    COMMANDS: ClassVar[tuple[Topic, ...]] = (
        Topic("target_frame", Quantity.POSE, Place.BASE),
        Topic("target_wrench", Quantity.WRENCH, Place.TOOL, strict=False),
    )
    FEEDBACK: ClassVar[tuple[Topic, ...]] = (
        Topic("current_pose", Quantity.POSE, Place.BASE),
        Topic("current_twist", Quantity.TWIST, Place.BASE),
        _SENSOR,
    )

    type: Literal["fzi"] = "fzi"
    namespace: str = quantity("cartesian_compliance_controller", description="Name of the controller")
    hand_frame_control: bool = quantity(
        True, description="As the controller's parameter: whether target_wrench is in the axes of the tool, or the base"
    )

    def commands(self) -> tuple[Topic, ...]:
        """Topics that the arm follows."""
        pose, wrench = self.COMMANDS
        return pose, wrench if self.hand_frame_control else wrench._replace(place=Place.BASE)


class CrispParameters(AdapterParameters):
    """The Cartesian impedance controller and the pose broadcaster of CRISP, beside a broadcaster of a force sensor."""

    COMMANDS: ClassVar[tuple[Topic, ...]] = (
        Topic("target_pose", Quantity.POSE, Place.BASE, strict=False),
        Topic("target_wrench", Quantity.WRENCH, Place.ORIGIN, strict=False),
    )
    FEEDBACK: ClassVar[tuple[Topic, ...]] = (
        Topic("current_pose", Quantity.POSE, Place.BASE),
        Topic("force_torque_sensor_broadcaster/wrench", Quantity.WRENCH, Place.SENSOR),
    )

    type: Literal["crisp"] = "crisp"
    use_local_jacobian: bool = quantity(
        False, description="As the controller's parameter: whether target_wrench is that of the tool's frame"
    )

    def commands(self) -> tuple[Topic, ...]:
        """Topics that the arm follows."""
        pose, wrench = self.COMMANDS
        return pose, wrench._replace(place=Place.TOOL) if self.use_local_jacobian else wrench


class MoveitServoParameters(AdapterParameters):
    """MoveIt Servo, beside the pose and force sensor broadcasters of ros2_controllers; it follows no wrench."""

    COMMANDS: ClassVar[tuple[Topic, ...]] = (
        Topic("servo_node/pose_target_cmds", Quantity.POSE, Place.BASE),
        Topic("servo_node/delta_twist_cmds", Quantity.TWIST, Place.BASE),
    )
    FEEDBACK: ClassVar[tuple[Topic, ...]] = (
        Topic("pose_broadcaster/pose", Quantity.POSE, Place.BASE),
        Topic("force_torque_sensor_broadcaster/wrench", Quantity.WRENCH, Place.SENSOR),
    )

    type: Literal["moveit_servo"] = "moveit_servo"
    follows: Literal["pose", "twist"] = quantity(
        "pose", description="Kind of command that MoveIt Servo was switched to; twists in its speed_units"
    )

    def commands(self) -> tuple[Topic, ...]:
        """Topics that the arm follows."""
        pose, twist = self.COMMANDS
        return (pose if self.follows == "pose" else twist,)


class CrtkArmParameters(AdapterParameters):
    """An arm with the topics of CRTK, as those of the dVRK."""

    COMMANDS: ClassVar[tuple[Topic, ...]] = (Topic("servo_cp", Quantity.POSE, Place.BASE, strict=False),)
    FEEDBACK: ClassVar[tuple[Topic, ...]] = (
        Topic("measured_cp", Quantity.POSE, Place.BASE, strict=False),
        Topic("measured_cv", Quantity.TWIST, Place.BASE, strict=False),
        Topic("measured_cf", Quantity.WRENCH, Place.BASE, strict=False),
    )

    type: Literal["crtk"] = "crtk"
    wrenches: Literal["", "body", "spatial"] = quantity(
        "",
        description="Where the arm has measured_cf: below body (axes of the tool) or spatial, or empty: below neither",
    )

    def feedback(self) -> tuple[Topic, ...]:
        """Topics on which it says how it is."""
        *motion, wrench = self.FEEDBACK
        place = Place.TOOL if self.wrenches == "body" else Place.BASE
        return *motion, wrench._replace(name="/".join(filter(None, (self.wrenches, wrench.name))), place=place)


class Adapter:
    """Turns what is commanded into messages, and messages into what an arm says of itself.

    Args:
        parameters: validated.
    """

    def __init__(self, parameters: AdapterParameters):
        of = self.parameters = parameters
        self.commands = tuple(map(self._named, of.commands()))
        self.feedback = tuple(map(self._named, of.feedback()))
        self._R_TS = matrix(from_roll_pitch_yaw(*of.sensor_orientation))
        self._p_TS, self._sign = np.array(of.sensor_position), -1.0 if of.reaction else 1.0
        frames = {Place.TOOL: of.tool_frame, Place.SENSOR: of.sensor_frame}
        self._frames = {
            topic.name: frames.get(topic.place, of.base_frame) for topic in (*self.commands, *self.feedback)
        }
        self._topics = {topic.name: topic for topic in (*self.commands, *self.feedback)}
        if len(self._topics) < len(self.commands) + len(self.feedback):
            raise ParameterError([f"adapter.type = {of.type}: a topic is both a command and a feedback"])

    def _named(self, topic: Topic) -> Topic:
        return topic._replace(name="/".join(filter(None, (self.parameters.namespace, topic.name))))

    def frame_of(self, topic: Topic) -> str:
        """The frame_id of a topic's messages."""
        return self._frames[topic.name]

    def command(self, pose: np.ndarray, twist: np.ndarray, wrench: np.ndarray, tool: np.ndarray) -> list[Sent]:
        """The messages that command an arm; all arguments in the axes of its base.

        Args:
            pose: (7,) that the tool is to have. twist: (6,) that it is to have, at its origin.
            wrench: (6,) of the tool on its surroundings, at its origin.
            tool: (7,) pose of the tool as measured, in whose axes some arms take a wrench.
        """
        values = {Quantity.POSE: pose, Quantity.TWIST: twist, Quantity.WRENCH: wrench}
        return [
            Sent(one.name, one.quantity, self.frame_of(one), self.expressed(one, values[one.quantity], tool))
            for one in self.commands
        ]

    def report(self, pose: np.ndarray, twist: np.ndarray, wrench: np.ndarray) -> list[Sent]:
        """The messages that an arm sends of its tool; the arguments as in `ArmState`."""
        values = {Quantity.POSE: pose, Quantity.TWIST: twist, Quantity.WRENCH: self._sign * wrench}
        return [
            Sent(one.name, one.quantity, self.frame_of(one), self.expressed(one, values[one.quantity], pose))
            for one in self.feedback
        ]

    def take(self, topic: str, frame: str, values: np.ndarray, state: ArmState) -> None:
        """Take a message of an arm into what it says of itself; of a pose first, for what is in its axes.

        Raises:
            MessageError: it cannot be used; nothing is changed then.
        """
        found = self.checked(topic, frame, values)
        if found.quantity is Quantity.POSE:
            state.pose[:] = values
            state.pose[3:] /= _length(values[3:])
        elif found.quantity is Quantity.TWIST:
            state.twist[:] = self.in_base(found, values, state.pose)
        else:
            state.wrench[:] = self._sign * self.in_base(found, values, state.pose)
        state.has.add(found.quantity)

    def checked(self, topic: str, frame: str, values: np.ndarray) -> Topic:
        """The topic of a message that can be used.

        Raises:
            MessageError: it cannot.
        """
        found = self._topics[topic]
        allowed = self.frame_of(found)
        if frame != allowed and (frame or found.strict):
            raise MessageError(f"{topic}: frame_id is {frame[:80]!r}: must be {allowed!r}")
        if not math.isfinite(sum(values.tolist())) and not np.isfinite(values).all():
            raise MessageError(f"{topic}: not finite")
        if found.quantity is Quantity.POSE and not abs((length := _length(values[3:])) - 1.0) <= TURN:
            raise MessageError(f"{topic}: quaternion of length {length:.3g}: must be 1")
        self._check_size(found, values)
        return found

    def _check_size(self, topic: Topic, values: np.ndarray) -> None:
        """Refuse what is larger than an arm can have it: it is in another unit than SI's."""
        of, size = self.parameters, _length(values[:3])
        if topic.quantity is Quantity.POSE and size > of.reach:
            raise MessageError(f"{topic.name}: tool {size:.4g} m from the base: must be at most reach = {of.reach:g} m")
        if topic.quantity is Quantity.WRENCH:
            for found, largest, unit in zip((size, _length(values[3:])), of.largest, ("N", "N m"), strict=True):
                if found > largest:
                    bound = f"must be at most {largest:g} {unit} (largest)"
                    raise MessageError(f"{topic.name}: {found:.4g} {unit}: {bound}; is it in another unit?")

    def expressed(self, topic: Topic, values: np.ndarray, tool: np.ndarray) -> np.ndarray:
        """A quantity at the tool's origin in the axes of the base, as the messages of a topic have it."""
        if topic.quantity is Quantity.POSE or topic.place is Place.BASE:
            return values.copy()
        R, arm = self._placed(topic, tool)  # R_BS, and from P to T in the base
        if topic.quantity is Quantity.TWIST:
            return np.concatenate([R.T @ values[:3], R.T @ values[3:]])
        return moved(values, R.T, arm)

    def in_base(self, topic: Topic, values: np.ndarray, tool: np.ndarray) -> np.ndarray:
        """The inverse of `expressed`."""
        if topic.quantity is Quantity.POSE or topic.place is Place.BASE:
            return values.copy()
        R, arm = self._placed(topic, tool)
        if topic.quantity is Quantity.TWIST:
            return np.concatenate([R @ values[:3], R @ values[3:]])
        return moved(values, R, R.T @ -arm)

    def _placed(self, topic: Topic, tool: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Axes of a topic in the base, R_BS, and the tool's origin from its point, p_PT in the axes of the base."""
        if topic.place is Place.ORIGIN:
            return _UPRIGHT, tool[:3]
        R = np.empty((3, 3))
        rotation_of(tool, 3, R)
        if topic.place is Place.SENSOR:
            return R @ self._R_TS, R @ -self._p_TS
        return R, _NOWHERE
