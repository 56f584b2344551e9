"""The virtual tool during a servo step: contact response, integration, and its ToolState for the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from haptic_sim.constraints.bodies import ConstrainedMultibody
from haptic_sim.contact.halves import append_halves
from haptic_sim.contact.methods import Method, build_response, contact_method
from haptic_sim.contact.response import CONTACTS, SLIDING, STATE, ContactParameters, Rendering
from haptic_sim.contact.sleeping import Sleep, SleepingBodies
from haptic_sim.contact_rows import ContactRows, capacity_for
from haptic_sim.dynamics.energy import EXCEEDED, UnstableError
from haptic_sim.dynamics.joints import LimitArrays, append_limits
from haptic_sim.dynamics.multibody import SurveyedMultibody, follow_single, refresh_bodies
from haptic_sim.fields.acting import Fields, switch_problems
from haptic_sim.hand import Hand
from haptic_sim.hand.held import find_wrench, refresh_hand
from haptic_sim.kernels import bind, kernel
from haptic_sim.messages import FREE, HAND, LocalGeometry, ToolCommand, ToolState, stamp_next
from haptic_sim.motions.drives import Drives
from haptic_sim.packed import Packed
from haptic_sim.parameters import ParameterError
from haptic_sim.records import allocate, record, shared, value
from haptic_sim.tool.dragged import DraggedBodies
from haptic_sim.tool.further_hand import FurtherHand, push_hand
from haptic_sim.tool.world_state import WorldObserver
from haptic_sim.worlds.textures import too_steep
from haptic_sim.worlds.world_setup import WorldSetup

SEMI_IMPLICIT = 2
"""The integrator of all tools but those of BROWN's other two methods: the new velocity moves the tool."""


@record
class ToolArrays(NamedTuple):
    """Arrays that a step reads to fill the ToolState after it."""

    body: Packed = value("arrays of the bodies, `BodyArrays`")
    hand: Packed = value("arrays of the hand, `HandArrays`")
    counts: np.ndarray = shared("counts of the `ContactResponse`", "counts", dtype=np.int64)
    du: np.ndarray = shared("change of the scaled velocity by contacts, and by the other hands", "nv")
    wrench: np.ndarray = shared("wrench of the contacts on the held body, at the hand", 6, unit="N, N m")
    energy: np.ndarray = shared("energies at the beginning of the step", 8, unit="J")
    complete: bool = value("whether `wrench` is all that contacts do at the hand")
    q: np.ndarray = shared("configuration", "nq")
    rate: float = value("steps a second", unit="Hz")
    period: float = value("duration of a step", unit="s")
    last_step: np.ndarray = shared("tangent vector of the step before, by the new velocity", "nv", unit="m, rad")


@record
class StepArrays(NamedTuple):
    """Arrays that a whole step reads and writes."""

    tool: Packed = value("`ToolArrays`")
    response: Packed = value("`ResponseArrays`")


class VirtualTool:
    """A tool that answers wrench commands at the servo rate; where its contacts come from is its owner's affair.

    Args:
        surveyed: whether inertia and gravity are those of a survey.
        planes: how many contacts may be with planes that move as masses.
        find_rows: kernel that fills the rows at the beginning of a step, of `surroundings` (which may be replaced by
            others of the same type) and their number, and returns how many there are; without it, they are there.
    """

    DERIVED = ("_material", "_response", "_both", "_step", "_begin", "_end", "_fill_rows")  # see `_bind`

    def __init__(
        self,
        world: WorldSetup,
        contact: ContactParameters,
        method: Method,
        rendering: Rendering,
        wrench_limit: np.ndarray,
        rate: float,
        surveyed: bool = False,
        planes: int = 0,
        integrator: int = SEMI_IMPLICIT,
        find_rows: Any = None,
    ):
        self._world = world
        self.body = world.bodies(1.0 / rate, surveyed=surveyed, planes=planes)
        planar, tolerance, fade = world.planar, world.rank_tolerance, world.rank_fade
        self.others = tuple(
            FurtherHand(self.body, frame, planar=planar, tolerance=tolerance, fade=fade) for frame in world.further
        )
        # a hand feels what another does to the same tree, for which H is needed
        single = all(other.tree != self.body.arrays.hand_tree for other in self.others)
        self._moves_freely = self.body.held_single and self.body.nv_hand == (3 if planar else 6) and single
        self.hand = Hand(self.body, planar=planar, tolerance=tolerance, fade=fade, free=self._moves_freely)
        self._single = self.body.single and not self.others  # a step is one kernel
        self.rate, self.period = rate, 1.0 / rate
        part = contact_method(method)
        limited = sum(law.limited for law in world.laws) if part.IMPULSIVE else 0
        halves = contact.self_collision == "printed"
        self.rows = ContactRows(capacity_for(self.body.nv), limits=2 * limited, halves=halves)
        self.contact = build_response(part, self.body, contact, rendering, wrench_limit, self.rows.id.size, self.hand)
        self._rigid = part.RIGID
        if not part.RIGID and (problems := list(too_steep(world, contact.stiffness, self.period))):
            raise ParameterError(problems)
        self._integrator = integrator
        soft = not (part.IMPULSIVE or part.RIGID)
        if integrator != SEMI_IMPLICIT and not (self.body.single and soft and not self.others):
            what = f"environment.method = {part.type}" if self.body.single else "this one is not"
            what = "hands is not empty" if self.others else what
            raise ParameterError(
                [
                    f"environment.integrator = {integrator}: is for one free rigid tool whose contacts are penalties, "
                    f"and {what}; set environment.integrator={SEMI_IMPLICIT}"
                    + (" or environment.method=penalty" if self.body.single and not self.others else "")
                ]
            )
        limits = allocate(LimitArrays, joints=self.body.arrays.joints, rows=self.rows.arrays, v=self.body.v)
        self._limits = Packed(limits) if limited else None
        self._halves = Packed(self.rows.arrays) if halves else None
        self.energy = self.contact.balance
        self.drives: Drives | None = None
        if world.motions or world.pulls:
            found, flows = self.contact.impulses.p, self.energy.values
            self.drives = Drives(self.body, self.rows.arrays, found, flows, world.motions, world.pulls, self.period)
        self.fields: Fields | None = None
        if world.force_fields:
            self.fields = Fields(
                self.body,
                self.hand,
                [(other.body, other.hand) for other in self.others],
                world.force_fields,
                self.contact.u,
                self.energy.values,
                self.contact.of_fields,
                self.period,
                planar=planar,
            )
        self.dragged = DraggedBodies(self.body, world.body_frames)
        self.observer = WorldObserver(world, self.body, self.rows, self.contact, self.period)
        # whether something acts or changes that the energy balance does not know: then it judges nothing
        self.pushed = surveyed or planes > 0
        self._excess = ""  # why discrete time has added more energy than was supplied
        self.configure(contact)
        self._external = np.zeros(self.body.nv)
        self._pull = np.zeros(6)  # wrench of the pulls on the tool
        self._sizes = world.tool_sizes()
        body = self.body
        arrays = allocate(
            ToolArrays,
            body=body.packed,
            hand=self.hand.packed,
            counts=self.contact.counts,
            du=np.zeros(body.nu) if self.others else self.contact.du,
            wrench=self.contact.wrench,
            energy=self.contact.energy,
            complete=body.held_single and not body.has_laws and single,
            q=body.q,
            rate=rate,
            period=self.period,
            last_step=body.v / rate,
        )
        self._packed = Packed(arrays)
        # Of each hand, with further ones: what its command does to u, and what all else does that it feels.
        self._pushed = [np.zeros(body.nu), *(other.du for other in self.others)]
        self._felt = [arrays.du, *(np.zeros(body.nu) for _ in self.others)]
        self._seen = [
            Packed(arrays._replace(body=other.body.packed, hand=other.hand.packed, du=felt, complete=False))
            for other, felt in zip(self.others, self._felt[1:], strict=True)
        ]
        for other, seen in zip(self.others, self._seen, strict=True):
            other.state = self._initial_state(seen)
        self.surroundings = self._packed  # what `find_rows` takes
        self._find_rows = find_rows
        self._watch = self.energy.watch.data  # as a memoryview: reading it takes less than an element of an array
        self._listed = 0  # directions of topological constraint after the last step
        self._material: ContactParameters | None = None  # with which the step was bound
        self._step: Callable[..., int]

    def enable_sleep(self, sleep: Sleep, shape_joint: np.ndarray, rests: np.ndarray) -> SleepingBodies | None:
        """Let bodies sleep, and be seen so; None where none may.

        Args:
            sleep: when they fall asleep.
            shape_joint: joint of each shape that a detector knows, (shapes,).
            rests: whether that takes a shape as at rest, (shapes,).

        Raises:
            ParameterError: under exact constraints, and with a method that cannot keep what it remembers.
        """
        if not sleep.speed > 0.0 or self._single:
            return None
        if isinstance(self.body, ConstrainedMultibody):
            raise ParameterError(
                [
                    f"environment.sleep_speed = {sleep.speed:g} m/s: supports only bodies without exact constraints; "
                    "set environment.sleep_speed=0"
                ]
            )
        sleeping = SleepingBodies(
            sleep,
            self.body,
            self.rows,
            self.contact,
            self._always_awake(),
            shape_joint,
            rests,
            self.rate,
            self.tool_state().packed,
        )
        self.observer.sleeping = sleeping.packed
        return sleeping

    def _always_awake(self) -> set[int]:
        """Trees that never sleep: of joints with laws or drives, pulled, in fields, or held by a further hand."""
        world, trees = self._world, self.body.trees
        velocities = [law.velocity for law in world.laws if not law.idle]
        for motion in world.motions:
            velocities += motion.places.columns.tolist()
        found = set((np.searchsorted(trees.start, velocities, side="right") - 1).tolist())
        joints = [pull.joint for pull in world.pulls] + ([self.body.hand_joint] if world.pulls else [])
        joints += [one.joint for one in world.force_fields]
        found |= {int(trees.of_joint[joint]) for joint in joints}
        return (found | {other.tree for other in self.others}) - {-1}

    def configure(self, contact: ContactParameters) -> None:
        """Take another material, from the next step on."""
        self.contact.parameters = contact
        self.rows.restitution[:] = contact.restitution
        self.rows.friction[:] = contact.friction.static, contact.friction.kinetic

    def switch(self, strengths: Mapping[str, float]) -> None:
        """Let fields fade to a part of their strength, by name; those that are not named to all of it.

        Raises:
            ParameterError: there is no such field, or a strength is not from 0 to 1.
        """
        if self.fields is not None:
            self.fields.switch(strengths)
        elif problems := list(switch_problems(strengths, ())):
            raise ParameterError(problems)

    def set_levels(self, strengths: Mapping[str, float]) -> None:
        """Set strengths that have been checked, as `switch`; names of fields of other bodies are ignored."""
        if self.fields is not None:
            self.fields.set_levels(strengths)

    def survey(self, geometry: LocalGeometry) -> None:
        """Take inertia, gravity and the singular directions of a survey, if the tool has those of surveys."""
        body = self.body
        if not isinstance(body, SurveyedMultibody):
            return
        q = body.q.copy()
        body.q[:] = geometry.q
        body.evaluate()
        body.survey(geometry.inertia.reshape(body.nv, body.nv), geometry.gravity)
        self.hand.survey()
        body.q[:] = q
        body.refresh()
        self.hand.refresh()

    def tool_state(self) -> ToolState:
        """A message for this tool, holding the initial state (tick -1); steps that fill it are prepared."""
        state = self._initial_state(self._packed)
        self._bind(ToolCommand(), state)  # takes 2 ms, too long for the first tick
        return state

    def _initial_state(self, packed: Packed) -> ToolState:
        """Message for the hand of packed `ToolArrays`, holding the initial state (tick -1)."""
        state = self._sizes.tool_state()
        state.stamp(-1, 0)
        state.contact_state, state.contacts = FREE, 0
        state.command_tick = state.geometry_tick = -1
        listed = _fill(packed, state.packed)
        if isinstance(self.body, ConstrainedMultibody):
            _fill_constrained(self.body, state)
        state.resize(6 * listed)
        return state

    def refresh(self, command: ToolCommand, state: ToolState) -> None:
        """Bring what is in memory of others up to date with the configuration; messages as of `step`."""
        self.body.evaluate()
        self.dragged.clear()
        if self._material is not self.contact.parameters:
            self._bind(command, state)

    def warm_up(self) -> None:
        """Step with contacts that overlap and approach, and again with the same ones: whatever a trial calls, it calls.

        The state is of no use afterwards.
        """
        rows, body = self.rows, self.body
        if not rows.count:
            rows.count = 1
            rows.body[0], rows.point[0], rows.normal[0] = (0, body.hand_joint), body.p_WH, (1.0, 0.0, 0.0)
        n = rows.count
        rows.separation[:n], rows.velocity[:n], rows.restitution[:n] = -1e-6, 1.0, 0.5
        state = self.tool_state()
        for _ in range(2):
            self.step(ToolCommand(), state)

    def step(self, command: ToolCommand, state: ToolState, geometry_tick: int = -1) -> None:
        """Advance by one tick under `command` and the contacts in `self.rows`; `state` is that before and after.

        `geometry_tick` says from which LocalGeometry the contacts are, if from one.

        Raises:
            UnstableError: in the steps before, discrete time has added more energy than was supplied.
        """
        if self._excess:
            raise UnstableError(self._excess)
        if self._material is not self.contact.parameters:
            self._bind(command, state)
        if command.body != HAND:
            command = self.dragged.begin(command)
        pulled = bool(self.dragged.trees)
        if self._single:
            if pulled:
                self.dragged.push()
            if self.fields is not None:
                self.fields.begin(command.tick, command.wrench)
            self.rows.count = self._step(
                self._both, command.packed, state.packed, self.surroundings, self.rows.count, geometry_tick
            )
            if not self._moves_freely:
                self._list(self.hand.listed, state)
        else:
            self._list(self._step_several(command, state, geometry_tick), state)
        if pulled:
            self.dragged.end(self.contact.u, self.energy, self.period)
        if self.fields is not None:
            self._end_fields(self.fields, state)
        if self._watch[EXCEEDED] and not self.pushed:
            self._excess = self.contact.explain_excess(self.rows, self.period)

    def _list(self, listed: int, state: ToolState) -> None:
        """Make room for directions of topological constraint."""
        if (listed or self._listed) and 6 * listed != len(state):
            state.resize(6 * listed)
        self._listed = listed

    def _step_several(self, command: ToolCommand, state: ToolState, geometry_tick: int) -> int:
        """Step of bodies that Pinocchio evaluates; returns as `_fill`."""
        rows = self.rows
        contacts = count = rows.count if self._find_rows is None else self._fill_rows(self.surroundings, rows.count)
        if self._limits is not None:
            count = append_limits(self._limits, count, self.period, self._rigid)
        if self._halves is not None:
            count = append_halves(self._halves, count)
        rows.count = count
        if self.drives is not None:
            self.drives.begin(command.tick, command.wrench)
        if self.dragged.trees:
            self.dragged.push()
        if self.fields is not None and not self.others:
            self.fields.begin(command.tick, command.wrench)
        if self.others:
            listed = self._step_together(command, state, count, geometry_tick)
        elif isinstance(self.body, ConstrainedMultibody):
            listed = self._step_constrained(self.body, command, state)
            _fill_stamp(self._packed, command.packed, state.packed, geometry_tick)
        else:
            self._begin(self._response, count, command.wrench, self.period)
            self.body.follow()
            listed = self._end(self._packed, command.packed, state.packed, geometry_tick)
        if self.drives is not None:
            self._end_drives(self.drives, count, state)
        rows.count = contacts
        return listed

    def _end_drives(self, drives: Drives, count: int, state: ToolState) -> None:
        """Book what motions and pulls did in the step, and let the hand feel the pulls."""
        drives.end(count, self._pull, self.dragged.trees)
        state.wrench[:] += self._pull
        state.impulse[:] += self.period * self._pull

    def _end_fields(self, fields: Fields, state: ToolState) -> None:
        """Book what fields did in the step, and let the hands feel them."""
        fields.end()
        for one, felt in zip((state, *(other.state for other in self.others)), fields.felt, strict=True):
            one.wrench[:] += felt
            one.impulse[:] += self.period * felt

    def _step_together(self, command: ToolCommand, state: ToolState, count: int, geometry_tick: int) -> int:
        """Step with further hands, whose states it fills, too; returns as `_fill`.

        A hand feels what contacts and the other hands do.
        """
        body, contact, period = self.body, self.contact, self.period
        push_hand(body.packed, command.wrench, period, self._pushed[0])
        for other in self.others:
            other.push(period)
        if self.fields is not None:
            self.fields.begin(command.tick, command.wrench)
        self._begin(self._response, count, command.wrench, period)
        for felt, own in zip(self._felt, self._pushed, strict=True):
            felt[:] = contact.du
            for pushed in self._pushed:
                if pushed is not own:
                    felt += pushed
        for other in self.others:
            other.book(contact.u, contact.balance, period)
        body.follow()
        listed = self._end(self._packed, command.packed, state.packed, geometry_tick)
        for other, seen in zip(self.others, self._seen, strict=True):
            _fill_step(seen, other.state.packed)
            other.refresh()
            _fill_stamp(seen, other.command.packed, other.state.packed, geometry_tick)
            other.state.resize(6 * _fill(seen, other.state.packed))
        return listed

    def _step_constrained(self, body: ConstrainedMultibody, command: ToolCommand, state: ToolState) -> int:
        """Step under exact constraints; returns as `_fill`."""
        rows, contact, packed = self.rows, self.contact, self._packed
        body.push(command.wrench, self.period, self._external)
        contact.respond(rows, body, self._external, self.period)
        contact.conclude(rows, body, command.wrench, self.period)
        body.book(contact.impulses.p, rows.count, contact.u, contact.balance.values)
        _fill_step(packed, state.packed)
        body.move(contact.u, self.period)
        self.hand.refresh()
        listed = _fill(packed, state.packed)
        _fill_constrained(body, state)
        return listed

    def _bind(self, command: ToolCommand, state: ToolState) -> None:
        """Find the compiled code of a step, and let it take the material."""
        contact = self.contact
        self._response = response = contact.pack(self.rows, self.body)
        self._both = Packed(allocate(StepArrays, tool=self._packed, response=response))
        self._material = contact.parameters
        if self._single:
            step = build_step(contact.step_kernel, self._find_rows or keep_rows, self._integrator)
            self._step = bind(step, self._both, command.packed, state.packed, self.surroundings, 0, 0)
        else:
            self._begin = bind(contact.step_kernel, response, 0, command.wrench, self.period)
            self._end = bind(_end_step, self._packed, command.packed, state.packed, 0)
            if self._find_rows is not None:
                self._fill_rows = bind(self._find_rows, self.surroundings, 0)


@kernel
def keep_rows(packed, count):
    """Let the rows be those that are there."""
    return count


@cache
def build_step(respond: Any, find_rows: Any, integrator: int = SEMI_IMPLICIT) -> Any:
    """The kernel of a step of a single body, in which the kernel `respond` finds how contacts let it move.

    Args:
        respond: `ContactResponse.step_kernel`.
        find_rows: see `VirtualTool`.
        integrator: of the position, the method of BROWN Table 1.

    Returns:
        kernel of the packed `StepArrays`, command, state and what `find_rows` takes, the number of rows, and the tick
        of the geometry; it returns the number of rows.
    """

    @kernel
    def step(packed, command, state, surroundings, count, geometry_tick):
        a = packed.arrays
        tool = a.tool.arrays
        count = find_rows(surroundings, count)
        respond(a.response, count, command.arrays.wrench, tool.period)
        follow_single(tool.body)
        _end_step(a.tool, command, state, geometry_tick)
        return count

    if integrator == SEMI_IMPLICIT:
        return step
    part = {1: 0.0, 3: 0.5}[integrator]  # of the new velocity in the step

    @kernel
    def step_explicitly(packed, command, state, surroundings, count, geometry_tick):
        a = packed.arrays
        tool = a.tool.arrays
        count = find_rows(surroundings, count)
        respond(a.response, count, command.arrays.wrench, tool.period)
        _blend_steps(part, tool.body, tool.last_step)
        follow_single(tool.body)
        _end_step(a.tool, command, state, geometry_tick)
        _fill_mean_twist(tool.body, tool.period, state)
        return count

    return step_explicitly


@kernel
def _blend_steps(part, packed, last):
    """Move by a `part` of the step with the new velocity and the rest of that with the old one, which was `last`."""
    step = packed.arrays.step
    for j in range(step.shape[0]):
        new = step[j]
        step[j] = part * new + (1.0 - part) * last[j]
        last[j] = new


@kernel
def _fill_mean_twist(packed, period, state):
    """Fill in the twist with which the tool has moved: a coupling's damper needs the difference of its positions."""
    a = packed.arrays
    for i in range(6):
        s = 0.0
        for j in range(a.step.shape[0]):
            s += a.J_H[i, j] * a.step[j]
        state.arrays.twist[i] = s / period


@kernel
def _end_step(packed, command, state, geometry_tick):
    """Bring bodies and hand up to date after a step and fill the state; returns as `_fill`."""
    a = packed.arrays
    _fill_step(packed, state)
    refresh_bodies(a.body)
    refresh_hand(a.hand)
    _fill_stamp(packed, command, state, geometry_tick)
    return _fill(packed, state)


@kernel
def _fill_stamp(packed, command, state, geometry_tick):
    """Fill in ticks and time."""
    stamp_next(command, state, packed.arrays.rate)
    state.arrays.geometry_tick[0] = geometry_tick


@kernel
def _fill_step(packed, to):
    """Fill in what contacts did in a step, with bodies and hand as they were in it."""
    a, state = packed.arrays, to.arrays
    counts = a.counts
    state.contact_state[0], state.contacts[0], state.sliding[0] = counts[STATE], counts[CONTACTS], counts[SLIDING]
    _copy(a.energy, state.energy)
    if a.complete:
        _copy(a.wrench, state.wrench)
    else:
        find_wrench(a.hand, a.du, a.period, state.wrench)  # at the hand as it was in the step
    for i in range(6):
        state.impulse[i] += a.period * state.wrench[i]


@kernel
def _fill(packed, to):
    """Fill in the state after a step; returns how many directions the hand is constrained in."""
    a, state = packed.arrays, to.arrays
    body, hand = a.body.arrays, a.hand.arrays
    _copy(body.pose, state.pose)
    _copy(body.twist, state.twist)
    _copy(a.q, state.q)
    _copy(body.v, state.v)
    _copy(body.inverse_inertia, state.inverse_inertia)
    _copy(hand.drift, state.free_acceleration)
    state.kinetic_energy[0] = body.hand_energy[0]
    listed = hand.mobility.counts[1]
    for i in range(listed):
        _copy(hand.mobility.directions[i], state.constraint_directions[6 * i : 6 * i + 6])
    return listed


def _fill_constrained(body: ConstrainedMultibody, state: ToolState) -> None:
    """Fill in what exact constraints do besides."""
    state.free_acceleration[:] += body.drift
    state.multipliers[:] = body.multipliers
    state.residual[:] = body.residual


@kernel
def _copy(source, target):
    for i in range(source.shape[0]):
        target[i] = source[i]
