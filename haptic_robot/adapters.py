"""Adapters to the controllers of other packages: which topics they have, in which axes, about which point.

An adapter is a table. To an arm it sends, and from it takes, poses, twists and wrenches as stamped messages of
geometry_msgs, or joints (`haptic_robot.joint_trajectory`). Inside of this package all are of the tool's origin in the
axes of the arm's base, and a wrench is that of the tool on its surroundings where it is commanded, and that of the
surroundings on the tool where it is measured. This module converts them, once, at the border. docs/robot.md has what
was read in the sources of each package, and with which version.

Where an arm has no force sensor, its wrench is observed from its joints (`haptic_robot.observer`).

    wrench in axes S about the point P of a wrench (f, n) about the tool's origin T:  (R_SB f, R_SB (n + p_PT x f))
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np

from haptic_robot.following import is_finite
from haptic_robot.models import ArmFileParameters, named_arm
from haptic_robot.observer import MomentumObserver, ObserverParameters
from haptic_robot.sensing import move_wrench
from haptic_sim.dynamics.loose import rotation_of
from haptic_sim.messages import MessageError
from haptic_sim.parameters import ParameterError, PositivePair, quantity
from haptic_sim.parts import Kind, Part
from haptic_sim.rotations import from_roll_pitch_yaw, matrix
from haptic_sim.spatial import rotation_difference

_UPRIGHT = np.eye(3)
TURN = 1e-3  # by which the length of a quaternion may differ from 1
BEYOND = 0.2  # [rad, m] by which a joint may be beyond its limits: what is further is in another unit
GAP = 0.1  # [s] between two samples of joints after which they are observed anew


def _length(values: np.ndarray) -> float:
    """Norm of a vector, in a fraction of the time that NumPy takes for a few values."""
    return math.sqrt(float(values @ values))


class Quantity(Enum):
    """Quantity of a message; the value is its type: geometry_msgs, or of joints sensor_msgs or trajectory_msgs."""

    POSE = "PoseStamped"
    TWIST = "TwistStamped"
    WRENCH = "WrenchStamped"
    JOINTS = "JointState"
    TRAJECTORY = "JointTrajectory"


_KNOWN = {one: (one,) for one in Quantity}


class Place(Enum):
    """Reference of a message: its axes, and for a wrench its point."""

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
        dated: whether a stamp of zero says that the arm does not know the values.
        joints: names of the joints, in the order of the arm's, of a message of joints.
        needed: of a message of joints, how many of position, velocity and effort each joint must have.
    """

    name: str
    quantity: Quantity
    place: Place
    strict: bool = True
    dated: bool = False
    joints: tuple[str, ...] = ()
    needed: int = 3


class JointSample(NamedTuple):
    """The joints of an arm at a time [s]: positions, velocities and torques of the motors (3, n)."""

    time: float
    values: np.ndarray


class Sent(NamedTuple):
    """A message: its topic, its frame_id, and its values.

    These are a pose (7,) [m, quat_xyzw], a twist or wrench (6,), time, positions, velocities and torques of joints
    (1 + 3 n,), or the time from the start of a trajectory at which joints have positions, and these (1 + n,).
    An adapter fills the values of its messages anew in each call.
    """

    topic: str
    quantity: Quantity
    frame: str
    values: np.ndarray


class ArmState:
    """State of an arm from its messages, in the axes of its base, at the tool's origin.

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


class JointObserverParameters(ObserverParameters):
    """The joints of an arm: a momentum observer over them in the place of its force sensor, and its kinematics."""

    topic: str = quantity("joint_states", description="Topic of the joints (sensor_msgs/JointState), absolute")
    model: Literal["six_axes", "seven_axes"] = quantity("six_axes", description="Arm of this package that is observed")
    file: ArmFileParameters = quantity(
        ArmFileParameters(), description="Arm of a file that is observed, in place of `model`"
    )


class AdapterParameters(Part):
    """Names of an arm's frames, and of its controller."""

    COMMANDS: ClassVar[tuple[Topic, ...]] = ()
    """Topics that the arm follows."""
    FEEDBACK: ClassVar[tuple[Topic, ...]] = ()
    """Topics on which it says how it is."""
    BY_JOINTS: ClassVar[bool] = False
    """Whether the arm is commanded joints, and says its joints in the place of its pose."""

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
    reaction: bool | None = quantity(
        None,
        description="Whether the arm measures the wrench of its tool on the surroundings, not theirs on the tool; "
        "null: as its source does (true for crtk with wrenches, else false)",
    )

    wrench: Literal["sensor", "observer"] = quantity(
        "sensor", description="Source of the measured wrench: the arm's force sensor, or its joints (`observer`)"
    )
    observer: JointObserverParameters = quantity(
        JointObserverParameters(),
        description="Observer of the wrench of an arm without a force sensor; joints of one that is commanded joints",
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

    def measures_reaction(self) -> bool:
        """Whether the wrench that the arm measures is that of its tool on the surroundings."""
        return bool(self.reaction)

    def build(self) -> Adapter:
        """Adapter that converts messages of the topics."""
        return Adapter(self)


def feedback_of(parameters: AdapterParameters, joints: tuple[str, ...]) -> tuple[Topic, ...]:
    """Topics of an arm's feedback by their full names; `joints` are those that it says, if any."""
    named = tuple(one._replace(name=_in(parameters.namespace, one.name)) for one in parameters.feedback())
    if not joints:
        return named
    if observed := parameters.wrench == "observer":
        named = tuple(one for one in named if one.quantity is not Quantity.WRENCH)
    needed = 3 if observed else 1
    states = Topic(parameters.observer.topic, Quantity.JOINTS, Place.BASE, strict=False, joints=joints, needed=needed)
    return states, *named  # first: of a wrench in axes of the tool the pose must be known


def _in(namespace: str, name: str) -> str:
    return "/".join(filter(None, (namespace, name)))


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
        True, description="Parameter of the controller: target_wrench is in the axes of the tool, or else of the base"
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
        False, description="Parameter of the controller: target_wrench is that of the tool's frame"
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
        Topic("measured_cp", Quantity.POSE, Place.BASE, strict=False, dated=True),
        Topic("measured_cv", Quantity.TWIST, Place.BASE, strict=False, dated=True),
        Topic("measured_cf", Quantity.WRENCH, Place.BASE, strict=False, dated=True),
    )

    type: Literal["crtk"] = "crtk"
    wrenches: Literal["", "body", "spatial"] = quantity(
        "",
        description="Namespace of the arm's measured_cf: below body (axes and origin of the tool), below spatial "
        "(those of the base), or empty: below neither",
    )

    def feedback(self) -> tuple[Topic, ...]:
        """Topics on which it says how it is."""
        *motion, wrench = self.FEEDBACK
        place = {"body": Place.TOOL, "spatial": Place.ORIGIN, "": Place.BASE}[self.wrenches]
        return *motion, wrench._replace(name="/".join(filter(None, (self.wrenches, wrench.name))), place=place)

    def measures_reaction(self) -> bool:
        """Whether the wrench is that of the tool on its surroundings, as what follows from efforts of motors is.

        The dVRK has it so below body and spatial (sawIntuitiveResearchKit ab54da2, mtsIntuitiveResearchKitArm.cpp:
        get_robot_data). A plain measured_cf is, of a Universal Robot, what acts on the tool.
        """
        return bool(self.wrenches) if self.reaction is None else self.reaction


class AdmittanceControllerParameters(AdapterParameters):
    """The admittance_controller of ros2_controllers, which is commanded wrenches, and yields to them as a spring."""

    COMMANDS: ClassVar[tuple[Topic, ...]] = (
        Topic("admittance_controller/wrench_reference", Quantity.WRENCH, Place.SENSOR, strict=False),
    )
    FEEDBACK: ClassVar[tuple[Topic, ...]] = MoveitServoParameters.FEEDBACK

    type: Literal["admittance"] = "admittance"
    stiffness: tuple[float, float, float, float, float, float] = quantity(
        (3000.0, 3000.0, 3000.0, 100.0, 100.0, 100.0),
        unit="N/m, N m/rad",
        description="Parameter admittance.stiffness of the controller, with control.frame.id the arm's base",
    )

    def build(self) -> Adapter:
        """Adapter that converts messages of the topics."""
        return AdmittanceAdapter(self)


class Adapter:
    """Turns what is commanded into messages, and messages into what an arm says of itself.

    Args:
        parameters: validated.

    Attributes:
        joints: names of the joints that the arm says; empty: none.
        duration: time for which the next command is [s], which whoever commands sets.
    """

    def __init__(self, parameters: AdapterParameters):
        of = self.parameters = parameters
        self._observer: MomentumObserver | None = None
        self.joints: tuple[str, ...] = ()
        self.duration = 1e-3
        if of.wrench == "observer" or of.BY_JOINTS:
            self._model, self._home = named_arm(of.observer.model, of.observer.file)
            model = self._model.model
            self.joints = tuple(model.names)[1:]
            self._range = model.lowerPositionLimit - BEYOND, model.upperPositionLimit + BEYOND
            self._time = math.inf
        if of.wrench == "observer":
            self._observer = MomentumObserver(of.observer, self._model, 1.0)
        commanded = self.joints if of.BY_JOINTS else ()
        self.commands = tuple(one._replace(name=_in(of.namespace, one.name), joints=commanded) for one in of.commands())
        self.feedback = feedback_of(of, self.joints)
        self._R_TS = matrix(from_roll_pitch_yaw(*of.sensor_orientation))
        self._p_TS, self._sign = np.array(of.sensor_position), -1.0 if of.measures_reaction() else 1.0
        frames = {Place.TOOL: of.tool_frame, Place.SENSOR: of.sensor_frame}
        self._frames = {
            topic.name: frames.get(topic.place, of.base_frame) for topic in (*self.commands, *self.feedback)
        }
        self._topics = {topic.name: topic for topic in (*self.commands, *self.feedback)}
        self._commanded, self._reported = ([self.blank(one) for one in of] for of in (self.commands, self.feedback))
        self._R, self._R_inverse, self._R_BT = (np.eye(3) for _ in range(3))
        self._R_T = self._R.T  # a view
        self._arm, self._back, self._T_from_S = np.zeros(3), np.zeros(3), -self._p_TS
        self._measured = np.zeros(6)
        if len(self._topics) < len(self.commands) + len(self.feedback):
            raise ParameterError([f"adapter.type = {of.type}: a topic is both a command and a feedback"])

    def blank(self, topic: Topic) -> Sent:
        """A message of a topic, whose values are filled in place."""
        n = len(topic.joints)
        sizes = {Quantity.POSE: 7, Quantity.JOINTS: 1 + 3 * n, Quantity.TRAJECTORY: 1 + n}
        return Sent(topic.name, topic.quantity, self.frame_of(topic), np.zeros(sizes.get(topic.quantity, 6)))

    def frame_of(self, topic: Topic) -> str:
        """The frame_id of a topic's messages."""
        return self._frames[topic.name]

    @property
    def problem(self) -> str:
        """Reason why the last command does not bring the arm to the commanded pose; empty if it does."""
        return ""

    def settle(self, pose: np.ndarray) -> None:
        """Replace a commanded pose (7,) by the pose to which the arm is moved, where the two differ."""

    def forget(self) -> None:
        """End the motion: the next command begins at the pose that the arm has then."""

    def command(self, pose: np.ndarray, twist: np.ndarray, wrench: np.ndarray, tool: np.ndarray) -> list[Sent]:
        """The messages that command an arm, until the next call; all arguments in the axes of its base.

        Args:
            pose: (7,) that the tool is to have. twist: (6,) that it is to have, at its origin.
            wrench: (6,) of the tool on its surroundings, at its origin.
            tool: (7,) pose of the tool as measured, in whose axes some arms take a wrench.
        """
        for topic, sent in zip(self.commands, self._commanded, strict=True):
            quantity = topic.quantity
            values = pose if quantity is Quantity.POSE else twist if quantity is Quantity.TWIST else wrench
            self.express(topic, values, tool, sent.values)
        return self._commanded

    def report(
        self, pose: np.ndarray, twist: np.ndarray, wrench: np.ndarray, joints: JointSample | None = None
    ) -> list[Sent]:
        """The messages that an arm sends of its tool, and of its joints, until the next call.

        The arguments are as in `ArmState`; `joints` are needed where they are observed.
        """
        for topic, sent in zip(self.feedback, self._reported, strict=True):
            quantity = topic.quantity
            if quantity is Quantity.JOINTS:
                assert joints is not None
                sent.values[0], sent.values[1:] = joints.time, joints.values.reshape(-1)
            elif quantity is Quantity.WRENCH:
                np.multiply(wrench, self._sign, out=self._measured)
                self.express(topic, self._measured, pose, sent.values)
            else:
                self.express(topic, pose if quantity is Quantity.POSE else twist, pose, sent.values)
        return self._reported

    def take(self, topic: str, frame: str, values: np.ndarray, state: ArmState) -> tuple[Quantity, ...]:
        """Take a message of an arm into what it says of itself; of a pose first, for what is in its axes.

        Returns:
            what is known anew.

        Raises:
            MessageError: it cannot be used; nothing is changed then.
        """
        found = self.checked(topic, frame, values)
        if found.quantity is Quantity.POSE:
            state.pose[:] = values
            state.pose[3:] /= _length(values[3:])
        elif found.quantity is Quantity.TWIST:
            self.bring_to_base(found, values, state.pose, state.twist)
        elif found.quantity is Quantity.WRENCH:
            self.bring_to_base(found, values, state.pose, state.wrench)
            state.wrench *= self._sign
        known = self._take_joints(values, state) if found.joints else _KNOWN[found.quantity]
        state.has.update(known)
        return known

    def _take_joints(self, values: np.ndarray, state: ArmState) -> tuple[Quantity, ...]:
        """Take the wrench that follows from a sample of the joints; none from the first, nor from one after a gap."""
        state.wrench[:] = self._observe(values)
        return _KNOWN[Quantity.WRENCH]

    def _observe(self, values: np.ndarray) -> np.ndarray:
        """External wrench that the observer finds from a sample of the joints (6,) [N, N m]."""
        observer, time = self._observer, float(values[0])
        assert observer is not None
        period, self._time = time - self._time, time
        q, v, torque = values[1:].reshape(3, -1)
        if not 0.0 < period <= GAP:
            observer.reset()
        return observer.update(q, v, torque, period)

    def checked(self, topic: str, frame: str, values: np.ndarray) -> Topic:
        """The topic of a message that can be used.

        Raises:
            MessageError: it cannot.
        """
        found = self._topics[topic]
        allowed = self.frame_of(found)
        if frame != allowed and (frame or found.strict) and not found.joints:
            raise MessageError(f"{topic}: frame_id is {frame[:80]!r}: must be {allowed!r}")
        if not is_finite(values[: 1 + found.needed * len(found.joints)] if found.joints else values):
            raise MessageError(f"{topic}: not finite{self._lacking(found, values)}")
        if found.quantity is Quantity.POSE and not abs((length := _length(values[3:])) - 1.0) <= TURN:
            raise MessageError(f"{topic}: quaternion of length {length:.3g}: must be 1")
        self._check_size(found, values)
        return found

    def _lacking(self, topic: Topic, values: np.ndarray) -> str:
        """Names of the joints for which a message has no values."""
        n = len(topic.joints)
        rows = np.isfinite(values[1 : 1 + topic.needed * n].reshape(topic.needed, n)).all(axis=0) if n else ()
        names = [name for name, whole in zip(topic.joints, rows, strict=False) if not whole]
        what = "position, velocity and effort" if topic.needed == 3 else "position"
        return f": needs {what} of {', '.join(names)}" if names else ""

    def _check_size(self, topic: Topic, values: np.ndarray) -> None:
        """Refuse what is larger than an arm can have it: it is in another unit than SI's."""
        of, size = self.parameters, _length(values[:3])
        if topic.quantity is Quantity.POSE and size > of.reach:
            raise MessageError(f"{topic.name}: tool {size:.4g} m from the base: must be at most reach = {of.reach:g} m")
        if topic.joints:
            low, high = self._range
            for name, q, least, most in zip(topic.joints, values[1 : 1 + len(topic.joints)], low, high, strict=True):
                if not least <= q <= most:
                    bound = f"must be from {least + BEYOND:.3g} to {most - BEYOND:.3g}"
                    raise MessageError(f"{topic.name}: {name} at {q:.4g} rad or m: {bound}; is it in another unit?")
        if topic.quantity is Quantity.WRENCH:
            for found, largest, unit in zip((size, _length(values[3:])), of.largest, ("N", "N m"), strict=True):
                if found > largest:
                    bound = f"must be at most {largest:g} {unit} (largest)"
                    raise MessageError(f"{topic.name}: {found:.4g} {unit}: {bound}; is it in another unit?")

    def express(self, topic: Topic, values: np.ndarray, tool: np.ndarray, out: np.ndarray) -> None:
        """Fill `out` with a quantity at the tool's origin in the axes of the base, as messages of a topic have it.

        Args:
            topic: of the adapter.
            values: a pose (7,), or a twist or wrench (6,).
            tool: (7,) pose of the tool.
            out: as `values`, not the same array.
        """
        if topic.quantity is Quantity.POSE or topic.place is Place.BASE:
            out[:] = values
            return
        self._place(topic, tool)
        if topic.quantity is Quantity.TWIST:
            np.matmul(self._R_T, values[:3], out=out[:3])
            np.matmul(self._R_T, values[3:], out=out[3:])
        else:
            move_wrench(values, self._R_inverse, self._arm, out)

    def bring_to_base(self, topic: Topic, values: np.ndarray, tool: np.ndarray, out: np.ndarray) -> None:
        """The inverse of `express`."""
        if topic.quantity is Quantity.POSE or topic.place is Place.BASE:
            out[:] = values
            return
        self._place(topic, tool)
        if topic.quantity is Quantity.TWIST:
            np.matmul(self._R, values[:3], out=out[:3])
            np.matmul(self._R, values[3:], out=out[3:])
        else:
            np.negative(self._arm, out=self._arm)
            np.matmul(self._R_T, self._arm, out=self._back)
            move_wrench(values, self._R, self._back, out)

    def _place(self, topic: Topic, tool: np.ndarray) -> None:
        """Find axes of a topic in the base, R_BS, and the tool's origin from its point, p_PT in axes of the base."""
        if topic.place is Place.ORIGIN:
            self._R[:], self._arm[:] = _UPRIGHT, tool[:3]
        elif topic.place is Place.SENSOR:
            rotation_of(tool, 3, self._R_BT)
            np.matmul(self._R_BT, self._R_TS, out=self._R)
            np.matmul(self._R_BT, self._T_from_S, out=self._arm)
        else:
            rotation_of(tool, 3, self._R)
            self._arm[:] = 0.0
        self._R_inverse[:] = self._R.T


class AdmittanceAdapter(Adapter):
    """Adapter of an arm that is a spring between its pose when the controller was started, and what pushes it.

    The controller moves its sensor's frame, which is displaced by x from that of its joints' reference, by

        M d2x/dt2 + D dx/dt + K x = measured wrench + wrench_reference

    in the axes of its control frame, here the base, with x = (translation, angle times axis in the base). So the wrench
    K x_d, about the sensor's origin, leads it to the displacement x_d as a spring K that ends there. The reference is
    where the arm is when it is first commanded.
    """

    def __init__(self, parameters: AdmittanceControllerParameters):
        super().__init__(parameters)
        self._stiffness, self._rest = np.array(parameters.stiffness), np.zeros(7)
        self._pull, self._pulled, self._anchor, self._p_TS_in_base = (np.zeros(n) for n in (6, 6, 3, 3))
        self._anchored = False

    def command(self, pose: np.ndarray, twist: np.ndarray, wrench: np.ndarray, tool: np.ndarray) -> list[Sent]:
        """The wrench that leads the arm to a pose, and that which its tool is to exert there; see `Adapter.command`."""
        if not self._anchored:
            self._rest[:], self._anchored = tool, True
            self._find_sensor(tool, self._anchor)
        (topic,), (sent,) = self.commands, self._commanded
        rotation_difference(pose[3:], self._rest[3:], self._pull[3:])
        self._find_sensor(pose, self._pull[:3])
        self._pull[:3] -= self._anchor
        self._pull *= self._stiffness
        self.express(topic, wrench, tool, sent.values)
        np.matmul(self._R_T, self._pull[:3], out=self._pulled[:3])
        np.matmul(self._R_T, self._pull[3:], out=self._pulled[3:])
        np.add(sent.values, self._pulled, out=sent.values)
        return self._commanded

    def _find_sensor(self, tool: np.ndarray, place: np.ndarray) -> None:
        """Fill `place` (3,) with the sensor's origin in the base, with a pose of the tool (7,)."""
        rotation_of(tool, 3, self._R_BT)
        np.matmul(self._R_BT, self._p_TS, out=self._p_TS_in_base)
        np.add(tool[:3], self._p_TS_in_base, out=place)
