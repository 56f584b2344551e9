"""A robot in the place of the world: to a controller it is a tool side as any other.

The scene's tool is a rigid body that the arm is led by. The controller's wrench F and what the arm feels, G, move it,

    M dv/dt = F + g G - D v

and the arm is commanded its pose, through `following`, which also says which part g of G the hand feels. So the hand
feels the mass of that body and, in contact, what the arm's sensor measures; the arm's own inertia is hidden by its
controller. At rest the wrench of the hand is that of the contact. The arm's compliance K_r is in series with what it
touches, K_w: a hand feels K_r K_w / (K_r + K_w) against its own displacement.

Messages for the arm go to `send`, those of the arm to `receive`. With a simulated arm both are in this process, and
a trial has the same bits in every mode.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import ClassVar, Literal

import numpy as np

from haptic_robot.adapters import AnyAdapterParameters, ArmState, FziParameters, Quantity, Sent
from haptic_robot.following import Follower, Following, FollowingParameters, Hand
from haptic_robot.simulated import SimulatedArm, SimulatedArmParameters
from haptic_sim.contact.response import ContactParameters
from haptic_sim.dynamics.energy import DAMPING, INJECTED, KINETIC, NUMERICAL
from haptic_sim.messages import FREE, RESTING, MessageError, ToolCommand, ToolState, WorldState, stamp_next
from haptic_sim.parameters import NotNegativePair, ParameterError, quantity
from haptic_sim.rotations import from_roll_pitch_yaw, matrix
from haptic_sim.spatial import advance_pose, quat_product
from haptic_sim.tool.engines import EngineContext, EngineParameters
from haptic_sim.worlds.building import WorldSetup

CONTACTS = 64  # that a world state has at most: a hole has 48
_NEEDED = frozenset((Quantity.POSE, Quantity.WRENCH))


class _RobotParameters(EngineParameters):
    """An arm that the hand moves, and what keeps it safe."""

    LABEL: ClassVar[str] = "the robot"

    adapter: AnyAdapterParameters = quantity(
        FziParameters(), description="Controller of the arm; its type alone, or a mapping with its keys"
    )
    following: FollowingParameters = quantity(FollowingParameters(), description="How the arm may follow the hand")
    position: tuple[float, float, float] = quantity(
        (0.0, 0.0, 0.0), unit="m", description="Origin of the arm's base in the world"
    )
    orientation: tuple[float, float, float] = quantity(
        (0.0, 0.0, 0.0), unit="rad", description="Axes of the arm's base in the world: roll, pitch, yaw"
    )
    damping: NotNegativePair = quantity(
        (0.0, 0.0), unit="N s/m, N m s/rad", description="Damping D of the body that leads the arm"
    )
    force_scale: NotNegativePair = quantity(
        (1.0, 1.0), description="Factor of what the hand feels of the arm's wrench: force, torque"
    )

    def simulated(self, rate: float) -> SimulatedArm | None:
        """The arm that is simulated; None: it is beyond the topics of the adapter."""
        return None

    def build(self, context: EngineContext) -> RobotSide:
        """The tool that leads the arm, at the servo rate.

        Raises:
            ParameterError: the scene's tool is not one free body.
        """
        world = context.start
        if not isinstance(world, WorldSetup) or world.model.nv != 6 or world.planar:
            needed = "must be one free body in space; use a scene of type world with one body of joint: free"
            raise ParameterError([f"environment.engine = {self.type}: its tool {needed}"])
        return RobotSide(self, world, context.rate)


class RobotParameters(_RobotParameters):
    """A simulated robot arm that the hand moves, and what keeps it safe."""

    type: Literal["robot"] = "robot"
    arm: SimulatedArmParameters = quantity(SimulatedArmParameters(), description="The arm that is simulated")

    def simulated(self, rate: float) -> SimulatedArm:
        """The arm that is simulated."""
        return SimulatedArm(self.arm, self.adapter, rate)


class RosRobotParameters(_RobotParameters):
    """An arm that is commanded on topics of ROS, and what keeps it safe; in realtime only."""

    LABEL: ClassVar[str] = "the arm"
    OFFLINE: ClassVar[bool] = False
    LINK: ClassVar[str] = "haptic_robot.nodes.link:RobotLink"

    type: Literal["ros_robot"] = "ros_robot"


class RobotSide:
    """A body that leads an arm, and what that says of itself.

    Args:
        parameters: validated.
        world: whose tool leads.
        rate: of the servo [Hz].

    Attributes:
        send: takes what the arm is commanded; None: nobody does.
        incoming: messages of the arm (topic, frame_id, values), which another thread may append to.
        refused: messages of the arm that could not be used.
        problem: why the last of them was refused.
    """

    hands: tuple[()] = ()
    observe_body: None = None

    def __init__(self, parameters: _RobotParameters, world: WorldSetup, rate: float):
        of = self.parameters = parameters
        self._rate, self._T = rate, 1.0 / rate
        self._sizes, self._names, self._fixed = world.tool_sizes(), tuple(world.moving), world.fixed_poses()
        self._mobility, self._inertia = world.hand_mobility(), np.linalg.inv(world.hand_mobility())
        self._damping = np.diag(np.repeat(of.damping, 3))
        self._pose, self._twist = world.hand_pose(), np.zeros(6)
        self._lever = matrix(self._pose[3:]).T @ (world.q[:3] - self._pose[:3])  # from the hold to the body's origin
        self._R_WB, self._p_WB = matrix(from_roll_pitch_yaw(*of.orientation)), np.array(of.position)
        x, y, z, w = from_roll_pitch_yaw(*of.orientation)
        self._to_base = np.array([-x, -y, -z, w])
        self.adapter, self._arm_state = of.adapter.build(), ArmState()
        self._follower, self._in_base, self._none = Follower(of.following, rate), np.zeros(7), np.zeros(6)
        self._felt, self._scale = np.zeros(6), np.repeat(of.force_scale, 3)
        self._impulse, self._energy = np.zeros(6), np.zeros(8)
        self.refused, self.problem = 0, ""
        self.send: Callable[[Sent], None] | None = None
        self.incoming: deque[tuple[str, str, np.ndarray]] = deque(maxlen=64)
        self._arm = of.simulated(rate)
        self.observer = self
        self._listen()

    @property
    def following(self) -> Following:
        """What the arm did with the hand in the last tick."""
        return self._follower.state

    def warm_up(self) -> None:
        """Call every kernel once, so that none is loaded during a trial."""
        self.step(ToolCommand(), self.tool_state())

    def configure(self, contact: ContactParameters) -> None:
        """The arm's surroundings have a material of their own."""

    def set_levels(self, strengths: Mapping[str, float]) -> None:
        """There are no fields."""

    def prepare(self) -> None:
        """Nothing can be computed ahead."""

    def hold(self) -> list[Sent]:
        """Messages with which the arm stays where it is commanded, without a wrench."""
        return self.adapter.command(self._follower.command, self._none, self._none, self._arm_state.pose)

    def receive(self, topic: str, frame: str, values: np.ndarray) -> None:
        """Take a message of the arm; what cannot be used is refused, and its pose grows older."""
        try:
            self.adapter.take(topic, frame, values, self._arm_state)
        except MessageError as error:
            self.refused, self.problem = self.refused + 1, str(error)

    def tool_state(self) -> ToolState:
        """A message with the state at the start; its tick is -1."""
        state = self._sizes.tool_state()
        state.stamp(-1, 0)
        state.command_tick = state.geometry_tick = -1
        state.inverse_inertia.reshape(6, 6)[:] = self._mobility
        self._fill(state)
        return state

    def step(self, command: ToolCommand, state: ToolState) -> None:
        """Answer the command of a tick: the arm is commanded where the tool is, and the tool moves on."""
        known, follower = self._arm_state, self._follower
        while self.incoming:
            self.receive(*self.incoming.popleft())
        if known.has >= _NEEDED:  # an arm whose force is silent is as little known as one whose place is
            follower.feed(known.pose)
            known.clear()
        follower.step(Hand(self._hand()))
        self._feel(known.wrench)
        self._lead()
        self._advance(command.wrench)
        state.wrench[:] = self._felt
        touches = bool(self._felt.any())
        state.contacts, state.contact_state = int(touches), RESTING if touches else FREE
        stamp_next(command.packed, state.packed, self._rate)
        self._fill(state)
        if self._arm is not None:
            self._arm.step()
        self._listen()

    def _listen(self) -> None:
        """Take what a simulated arm sends."""
        if self._arm is not None:
            for one in self._arm.report():
                self.incoming.append((one.topic, one.frame, one.values))

    def _hand(self) -> np.ndarray:
        """Pose of the tool in the axes of the arm's base (7,)."""
        self._in_base[:3] = self._R_WB.T @ (self._pose[:3] - self._p_WB)
        self._in_base[3:] = quat_product(self._to_base, self._pose[3:])
        return self._in_base

    def _feel(self, wrench: np.ndarray) -> None:
        """What the hand feels of the arm's wrench, in world axes."""
        for part in (slice(0, 3), slice(3, 6)):
            self._felt[part] = self._R_WB @ wrench[part]
        self._felt *= self._follower.gain * self._scale

    def _lead(self) -> None:
        """Command the arm, once it has said where it is."""
        follower = self._follower
        if follower.state == Following.WAITING:
            return
        pushed = follower.push(self._none)
        for one in self.adapter.command(follower.command, self._none, pushed, self._arm_state.pose):
            if self._arm is not None:
                self._arm.take(one.topic, one.frame, one.values)
            elif self.send is not None:
                self.send(one)

    def _advance(self, wrench: np.ndarray) -> None:
        """Semi-implicit Euler of the leading body, with its damper implicit."""
        T, v, energy = self._T, self._twist, self._energy
        acting = wrench + self._felt
        kinetic = energy[KINETIC]
        v[:] = np.linalg.solve(self._inertia + T * self._damping, self._inertia @ v + T * acting)
        advance_pose(v, T, self._pose)
        worked, damped = T * (acting @ v), T * (v @ self._damping @ v)
        energy[KINETIC] = 0.5 * v @ self._inertia @ v
        energy[INJECTED] += worked
        energy[DAMPING] += damped
        energy[NUMERICAL] += energy[KINETIC] - kinetic - worked + damped
        self._impulse += T * self._felt

    def _fill(self, state: ToolState) -> None:
        state.pose[:], state.twist[:] = self._pose, self._twist
        R = matrix(self._pose[3:])
        arm = R @ self._lever
        state.q[:3], state.q[3:] = self._pose[:3] + arm, self._pose[3:]
        state.v[:3] = R.T @ (self._twist[:3] + np.cross(self._twist[3:], arm))  # of a free joint: in axes of the body
        state.v[3:] = R.T @ self._twist[3:]
        state.impulse[:], state.energy[:] = self._impulse, self._energy
        state.kinetic_energy = self._energy[KINETIC]

    def world_state(self) -> WorldState:
        """A message with the bodies of the scene."""
        count = len(self._names)
        return WorldState(
            bodies=self._names, poses=count, twists=count, q_names=(), q=0, v_names=(), v=0, contacts=CONTACTS
        )

    def observe_bodies(self, state: WorldState) -> None:
        """Fill in where the tool is, and how it moves."""
        arm = matrix(self._pose[3:]) @ self._lever
        for i, name in enumerate(self._names):
            if name in self._fixed:
                state.poses[i] = self._fixed[name]
                continue
            state.poses[i, :3], state.poses[i, 3:] = self._pose[:3] + arm, self._pose[3:]
            state.twists[i, :3] = self._twist[:3] + np.cross(self._twist[3:], arm)
            state.twists[i, 3:] = self._twist[3:]

    def observe_contacts(self, state: WorldState) -> None:
        """Fill in where a simulated arm touches, as contacts of the tool and the first body that does not move.

        What an arm beyond topics touches has no points that are known.
        """
        tool = next(i for i, name in enumerate(self._names) if name not in self._fixed)
        other = next((i for i, name in enumerate(self._names) if name in self._fixed), tool)
        found = islice(() if self._arm is None else self._arm.contacts(), CONTACTS)
        count = 0
        for count, (place, normal, depth, force) in enumerate(found, 1):
            one = state.contacts[count - 1]
            one["id"], one["body_a"], one["body_b"], one["depth"] = count, other, tool, depth
            one["point"] = self._R_WB @ place + self._p_WB
            one["normal"], one["force"] = self._R_WB @ normal, self._R_WB @ force
        state.resize(count)
