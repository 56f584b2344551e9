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

import math
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from haptic_robot.adapters import AnyAdapterParameters, ArmState, FziParameters, Quantity, Sent
from haptic_robot.dynamics import chain_at
from haptic_robot.following import Follower, Following, FollowingParameters, Hand, speed_towards
from haptic_robot.links import link_poses, link_twists, links_of
from haptic_robot.models import named_arm
from haptic_robot.sensing import move_wrench
from haptic_robot.simulated import SimulatedArm, SimulatedArmParameters, joint_problems
from haptic_sim.contact.response import ContactParameters
from haptic_sim.dynamics.energy import DAMPING, INJECTED, KINETIC, NUMERICAL
from haptic_sim.dynamics.loose import rotation_of
from haptic_sim.kernels import bind, kernel
from haptic_sim.linalg import cholesky_solve
from haptic_sim.messages import (
    ABSENT,
    FREE,
    HELD,
    RESTING,
    MessageError,
    ToolCommand,
    ToolState,
    WorldState,
    stamp_next,
)
from haptic_sim.packed import Packed
from haptic_sim.parameters import NotNegativePair, ParameterError, quantity
from haptic_sim.records import allocate, array, record, shared, value
from haptic_sim.rotations import from_roll_pitch_yaw, matrix
from haptic_sim.scenes import ModelSource
from haptic_sim.spatial import advance_pose, quat_product
from haptic_sim.tool.engines import EngineContext, EngineParameters, Link
from haptic_sim.worlds.world_setup import WorldSetup

CONTACTS = 64  # that a world state has at most: a hole has 48


@record
class Led(NamedTuple):
    """The body that leads an arm, in world axes at the hand point, and the base of that arm."""

    inertia: np.ndarray = shared("inertia", 6, 6, unit="kg, kg m^2")
    damping: np.ndarray = shared("damping D", 6, 6, unit="N s/m, N m s/rad")
    L: np.ndarray = shared("Cholesky factor of inertia + period D", 6, 6)
    lever: np.ndarray = shared("from the hand point to the body's origin, in axes of the body", 3, unit="m")
    R_WB: np.ndarray = shared("axes of the arm's base in the world", 3, 3)
    p_WB: np.ndarray = shared("origin of the base", 3, unit="m")
    to_base: np.ndarray = shared("quaternion that turns world axes into those of the base", 4)
    scale: np.ndarray = shared("factors of the wrench that is felt", 6)
    period: float = value("duration of a tick", unit="s")
    pose: np.ndarray = array("pose: position, quaternion x y z w", 7, unit="m")
    twist: np.ndarray = array("twist", 6, unit="m/s, rad/s")
    in_base: np.ndarray = array("pose in the axes of the base", 7, unit="m")
    felt: np.ndarray = array("wrench of the arm that the hand feels", 6, unit="N, N m")
    impulse: np.ndarray = array("impulse of that wrench since the start", 6, unit="N s, N m s")
    energy: np.ndarray = array("account of `haptic_sim.dynamics.energy`", 8, unit="J")
    q: np.ndarray = array("coordinates of the free joint", 7, unit="m")
    v: np.ndarray = array("its velocity, in axes of the body", 6, unit="m/s, rad/s")
    R: np.ndarray = array("work", 3, 3)
    work: np.ndarray = array("work", 6)


@kernel
def see_in_base(packed):
    """Fill `in_base` from the pose."""
    a = packed.arrays
    for i in range(3):
        a.in_base[i] = 0.0
        for j in range(3):
            a.in_base[i] += a.R_WB[j, i] * (a.pose[j] - a.p_WB[j])
    x, y, z, w = quat_product(a.to_base, a.pose[3:])
    a.in_base[3], a.in_base[4], a.in_base[5], a.in_base[6] = x, y, z, w


@kernel
def see_joint(packed):
    """Fill the coordinates and the velocity of the free joint from pose and twist."""
    a = packed.arrays
    R, arm, speed = a.R, a.work[:3], a.work[3:]
    rotation_of(a.pose, 3, R)
    for i in range(3):
        arm[i] = R[i, 0] * a.lever[0] + R[i, 1] * a.lever[1] + R[i, 2] * a.lever[2]
        a.q[i], a.q[3 + i] = a.pose[i] + arm[i], a.pose[3 + i]
    a.q[6] = a.pose[6]
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        speed[i] = a.twist[i] + a.twist[3 + j] * arm[k] - a.twist[3 + k] * arm[j]
    for i in range(3):
        a.v[i] = R[0, i] * speed[0] + R[1, i] * speed[1] + R[2, i] * speed[2]
        a.v[3 + i] = R[0, i] * a.twist[3] + R[1, i] * a.twist[4] + R[2, i] * a.twist[5]


@kernel
def move_led(packed, wrench, measured, gain):
    """Advance by a period, with semi-implicit Euler and the damper implicit; returns whether the arm is felt.

    Args:
        packed: a Led.
        wrench: of the controller (6,) [N, N m], world axes.
        measured: of the arm's surroundings on its tool (6,), axes of the base.
        gain: part of that which is felt.
    """
    a = packed.arrays
    T, v, x, felt, energy = a.period, a.twist, a.work, a.felt, a.energy
    touches = False
    for i in range(3):
        for part in range(0, 6, 3):
            turned = 0.0
            for j in range(3):
                turned += a.R_WB[i, j] * measured[part + j]
            felt[part + i] = gain * a.scale[part + i] * turned
            touches |= felt[part + i] != 0.0
    for i in range(6):
        x[i] = T * (wrench[i] + felt[i])
        for j in range(6):
            x[i] += a.inertia[i, j] * v[j]
    cholesky_solve(a.L, 6, x)
    worked = damped = kinetic = 0.0
    for i in range(6):
        v[i] = x[i]
    for i in range(6):
        worked += T * (wrench[i] + felt[i]) * v[i]
        a.impulse[i] += T * felt[i]
        for j in range(6):
            damped += T * v[i] * a.damping[i, j] * v[j]
            kinetic += 0.5 * v[i] * a.inertia[i, j] * v[j]
    advance_pose(v, T, a.pose)
    energy[INJECTED] += worked
    energy[DAMPING] += damped
    energy[NUMERICAL] += kinetic - energy[KINETIC] - worked + damped
    energy[KINETIC] = kinetic
    see_joint(packed)
    return touches


_NEEDED = frozenset((Quantity.POSE, Quantity.WRENCH))


class _RobotParameters(EngineParameters):
    """An arm that the hand moves, and what keeps it safe."""

    LABEL: ClassVar[str] = "the robot"
    CONTACT: ClassVar[bool] = False

    adapter: AnyAdapterParameters = quantity(
        FziParameters(), description="Controller of the arm; its type alone, or a mapping with its keys"
    )
    following: FollowingParameters = quantity(
        FollowingParameters(), description="Limits within which the arm follows the hand"
    )
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

    wrench_scale: NotNegativePair = quantity(
        (0.0, 0.0),
        description="Factor of the controller's wrench that the arm is commanded beside its pose: force, torque",
    )
    approach_rate: float = quantity(
        10.0,
        unit="1/s",
        description="Speed over distance with which an arm that follows twists is led to its command",
        gt=0.0,
        le=200.0,
    )

    def check(self, experiment: Any) -> list[str]:
        """Conflicts with the other sections of an experiment."""
        delay, allowed = experiment.relay.delay or 0.0, self.following.hand_watchdog
        problems = super().check(experiment)
        try:
            self.adapter.build()
        except ParameterError as error:
            problems += (f"environment.engine.adapter: {line}" for line in error.problems)
        if delay + experiment.relay.jitter >= allowed:
            problems.append(
                f"environment.engine.following.hand_watchdog = {allowed:g} s: the arm would never follow a hand "
                f"that is relay.delay = {delay:g} s away (relay.jitter {experiment.relay.jitter:g} s); must be more"
            )
        return problems

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

    def check(self, experiment: Any) -> list[str]:
        """Conflicts with the other sections of an experiment, and problems of the arm."""
        problems = super().check(experiment)
        try:
            arm, _ = named_arm(self.arm.model, self.arm.file)
        except ParameterError as error:
            problems += (f"environment.engine.{line}" for line in error.problems)
        if not problems:
            problems += (f"environment.engine.{line}" for line in joint_problems(self.adapter.build(), arm))
        return problems

    def simulated(self, rate: float) -> SimulatedArm:
        """The arm that is simulated."""
        return SimulatedArm(self.arm, self.adapter, rate)

    def links(self) -> tuple[Link, ...]:
        """The links of the simulated arm, and its base."""
        arm, q = named_arm(self.arm.model, self.arm.file)
        poses = link_poses(chain_at(arm, q), matrix(from_roll_pitch_yaw(*self.orientation)), np.array(self.position))
        return tuple(link._replace(pose=pose) for link, pose in zip(links_of(arm), poses, strict=True))

    def link_files(self) -> Mapping[str, ModelSource]:
        """The file of the simulated arm, if it has one."""
        return {"arm": self.arm.file.source()} if self.arm.file.path else {}


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
        send: takes what the arm is commanded, whose values are used again; None: nobody does.
        listen: called at the beginning of a tick, hands what has come to `receive`; None: nobody does.
        lock: held while the arm is commanded; whoever commands it from another thread (`hold`) has to hold it, too.
        clock: monotonic time [s] by which arm and hand grow older; None: by periods.
        permitted: whether the arm may be commanded; what it was commanded before it may not is forgotten.
        incoming: messages of the arm (topic, frame_id, values) that are received in the next tick.
        refused: messages of the arm that could not be used.
        problem: why the last of them was refused.
    """

    hands: tuple[()] = ()
    observe_body: None = None
    omissions: None = None

    def __init__(self, parameters: _RobotParameters, world: WorldSetup, rate: float):
        of = self.parameters = parameters
        self._rate, self._T = rate, 1.0 / rate
        self._sizes, self._names, self._fixed = world.tool_sizes(), tuple(world.moving), world.fixed_poses()
        self._mobility = world.hand_mobility()
        inertia, damping = np.linalg.inv(self._mobility), np.diag(np.repeat(of.damping, 3))
        pose, turned = world.hand_pose(), from_roll_pitch_yaw(*of.orientation)
        self._led = led = allocate(
            Led,
            inertia=inertia,
            damping=damping,
            L=np.linalg.cholesky(inertia + self._T * damping),
            lever=matrix(pose[3:]).T @ (world.q[:3] - pose[:3]),
            R_WB=matrix(turned),
            p_WB=np.array(of.position),
            to_base=turned * np.array([-1.0, -1.0, -1.0, 1.0]),
            scale=np.repeat(of.force_scale, 3),
            period=self._T,
        )
        led.pose[:] = pose
        self._body, self._R_WB = Packed(led), led.R_WB
        self._see = bind(see_in_base, self._body)
        self._move = bind(move_led, self._body, led.twist, led.felt, 0.0)
        see_joint(self._body)
        self.adapter, self._arm_state = of.adapter.build(), ArmState()
        self._follower, self._none = Follower(of.following, rate), np.zeros(6)
        self._wanted, self._speed, self._fastest = np.zeros(6), np.zeros(6), np.array(of.following.speed)
        self.refused, self.problem = 0, ""
        self.send: Callable[[Sent], None] | None = None
        self.listen: Callable[[], object] | None = None
        self.clock: Callable[[], float] | None = None
        self.lock: AbstractContextManager[Any] = nullcontext()
        self._now = self._hand_since = math.nan
        self._since = dict.fromkeys(Quantity, math.nan)
        self._hand_tick = self._hand_first = -1
        self.permitted = True
        self.incoming: deque[tuple[str, str, np.ndarray]] = deque(maxlen=64)
        self._arm = of.simulated(rate)
        self._links = tuple(link.name for link in of.links())
        self.observer = self
        self._report()

    @property
    def following(self) -> Following:
        """Status of the arm's motion with the hand in the last tick."""
        return self._follower.state

    @property
    def waits_for(self) -> str:
        """Reason why the arm is not commanded although its pose is known; empty if there is none."""
        return self._follower.problem

    @property
    def limited(self) -> str:
        """Reason why the arm is not commanded to the full pose of the body that leads it; empty if it is."""
        return self.adapter.problem

    def warm_up(self) -> None:
        """Call every kernel once, so that none is loaded during a trial."""
        self.step(ToolCommand(), self.tool_state())

    def configure(self, contact: ContactParameters) -> None:
        """The arm's surroundings have a material of their own."""

    def set_levels(self, strengths: Mapping[str, float]) -> None:
        """Ignore the strengths: there are no force fields."""

    def prepare(self) -> None:
        """Nothing can be computed ahead."""

    def hold(self) -> list[Sent]:
        """Messages with which the arm stays where it is commanded, without a wrench; until the next command."""
        return self.adapter.command(self._follower.command, self._none, self._none, self._arm_state.pose)

    def receive(self, topic: str, frame: str, values: np.ndarray, since: float | None = None) -> None:
        """Take a message of the arm; what cannot be used is refused, and its pose grows older.

        Args:
            topic, frame, values: as of `Sent`.
            since: a time of the clock at which it had not come yet [s]; None: that of this tick.
        """
        try:
            known = self.adapter.take(topic, frame, values, self._arm_state)
        except MessageError as error:
            self.refused, self.problem = self.refused + 1, str(error)
            return
        for one in known:
            self._since[one] = self._now if since is None else since

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
        before, elapsed = self._now, None
        if self.clock is not None:
            self._now = now = self.clock()
            elapsed = now - before if before == before else self._T
        if self.listen is not None:
            self.listen()
        while self.incoming:
            self.receive(*self.incoming.popleft())
        if not self.permitted:
            follower.forget()
            known.clear()
        elif known.has >= _NEEDED:  # an arm whose force is silent is as little known as one whose place is
            follower.feed(known.pose, self._arm_age())
            known.clear()
        self._see(self._body)
        age = self._hand_age(command, state.tick + 1, before)
        follower.step(Hand(self._led.in_base, age, command.hand != ABSENT, command.hand == HELD), elapsed)
        self._lead(command.wrench)
        wrench = command.wrench if age <= self.parameters.following.hand_watchdog else self._none
        touches = self._move(self._body, wrench, known.wrench, float(follower.gain))
        state.wrench[:] = self._led.felt
        state.contacts, state.contact_state = int(touches), RESTING if touches else FREE
        stamp_next(command.packed, state.packed, self._rate)
        self._fill(state)
        if self._arm is not None:
            self._arm.step()
        self._report()

    def _arm_age(self) -> float:
        """Largest age of the last pose and force of the arm [s]: since a tick in which they had not come yet."""
        if self.clock is None:
            return 0.0
        return max(0.0, self._now - min(self._since[one] for one in _NEEDED))

    def _hand_age(self, command: ToolCommand, tick: int, before: float) -> float:
        """Largest age of the hand [s] at a tick; `before` is the clock's time at the last one.

        To what the command says, periods are added for which it has been acting already; with a clock, the time since
        the last tick without it, as far as that is known, where that is longer. So a command of a tick to come does
        not act for longer than the watchdog allows in the ticks that are made up for before that tick.
        """
        if self.clock is None:
            return float(command.hand_age + max(0, tick - command.tick) * self._T)
        if command.tick != self._hand_tick or self._hand_tick < 0:
            self._hand_tick, self._hand_first, self._hand_since = command.tick, tick, before
        acting = (tick - self._hand_first) * self._T
        since = self._hand_since
        return float(command.hand_age + (max(acting, self._now - since) if since == since else acting))

    def _report(self) -> None:
        """Take what a simulated arm sends."""
        if self._arm is not None:
            for one in self._arm.report():
                self.incoming.append((one.topic, one.frame, one.values))

    def _lead(self, wrench: np.ndarray) -> None:
        """Command the arm, once it has said where it is; `wrench` (6,) of the controller, world axes."""
        follower, known = self._follower, self._arm_state
        if follower.state == Following.WAITING:
            self.adapter.forget()
            return
        move_wrench(wrench, self._R_WB.T, self._none[:3], self._wanted)
        for i, scale in enumerate(self.parameters.wrench_scale):
            self._wanted[3 * i : 3 * i + 3] *= scale
        pushed = follower.push(self._wanted)
        if follower.state == Following.STALE:  # where the arm is, relative to its command, is not known
            self._speed[:] = 0.0
        else:
            rate = self.parameters.approach_rate
            speed_towards(known.pose, follower.command, rate, self._fastest, self._speed)
        with self.lock:
            self.adapter.duration = follower.share * self._T
            for one in self.adapter.command(follower.command, self._speed, pushed, known.pose):
                if self._arm is not None:
                    self._arm.take(one.topic, one.frame, one.values)
                elif self.send is not None:
                    self.send(one)
            self.adapter.settle(follower.command)

    def _fill(self, state: ToolState) -> None:
        led = self._led
        state.pose[:], state.twist[:], state.q[:], state.v[:] = led.pose, led.twist, led.q, led.v
        state.impulse[:], state.energy[:] = led.impulse, led.energy
        state.kinetic_energy = led.energy[KINETIC]

    def world_state(self) -> WorldState:
        """A message with the bodies of the scene."""
        bodies = (*self._names, *self._links)
        count = len(bodies)
        return WorldState(bodies=bodies, poses=count, twists=count, q_names=(), q=0, v_names=(), v=0, contacts=CONTACTS)

    def observe_bodies(self, state: WorldState) -> None:
        """Fill in where the tool is, and how it moves."""
        led = self._led
        for i, name in enumerate(self._names):
            if name in self._fixed:
                state.poses[i] = self._fixed[name]
                continue
            state.poses[i] = led.q
            state.twists[i, :3], state.twists[i, 3:] = led.R @ led.v[:3], led.twist[3:]
        if self._arm is not None:
            first, chain = len(self._names), self._arm.arm.chain.arrays
            state.poses[first:] = link_poses(chain, self._R_WB, led.p_WB)
            state.twists[first:] = link_twists(chain, self._R_WB)

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
            one["point"] = self._R_WB @ place + self._led.p_WB
            one["normal"], one["force"] = self._R_WB @ normal, self._R_WB @ force
        state.resize(count)
