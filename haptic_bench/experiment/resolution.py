"""Resolution of an experiment: open keys get their values, the world is built, and the whole is checked.

The result is a `Trial`, from which all that run, record, analyse or report it take the experiment and its world.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field, replace
from typing import Any

import numpy as np

from haptic_bench.experiment.model import Experiment, FurtherHandParameters
from haptic_bench.experiment.unused import unused_keys
from haptic_control.activation import may_act, not_analysed, passivity_problem
from haptic_control.held_loop import arm_problem
from haptic_control.parameters import ControllerParameters
from haptic_control.stability import CoupledInertias
from haptic_drivers.devices.link import Source
from haptic_drivers.driver import Driver, build_driver
from haptic_drivers.events import Bodies
from haptic_drivers.parameters import DeviceStart, HandParameters
from haptic_drivers.tool_operator import draggable
from haptic_sim import inputs
from haptic_sim.contact.response import UNLIMITED
from haptic_sim.messages import FORCE, ToolSizes, split_topic
from haptic_sim.motions.drives import unstable
from haptic_sim.parameters import ParameterError, in_space
from haptic_sim.tool.protocol import LocalModelCore, ToolSide
from haptic_sim.tool.tool_side import (
    Start,
    build_local_model,
    build_start,
    build_surroundings,
    build_tool_side,
    device_inertia,
    hand_inertia,
    hand_mobility,
    hand_pose,
    local_model_context,
    tool_sizes,
    world_of,
)
from haptic_sim.worlds.isolated import isolate_tool
from haptic_sim.worlds.loads import carry, explain_carrying
from haptic_sim.worlds.world_setup import WorldSetup

HALVINGS = 20  # of default gains
SOFT_HALVINGS = 3  # of a default stiffness from which on it is reported
LIGHTER = (
    1.25  # mobility of a tool in other configurations, in terms of that at the start, that default gains allow for
)
LONGEST_FOLDER = 180  # [B]; names of files have 255 at most


class StartError(ParameterError):
    """The start of an experiment cannot be built, though all its keys are valid."""


@dataclass(frozen=True)
class Trial:
    """An experiment resolved, ready to run: validated, its files read, its world built.

    What runs, records, analyses and reports it takes from here what the virtual world is, and builds none.

    Attributes:
        experiment: all its keys; those of operator, controller and device say what is built at each run.
        table: rows of the operator's file (see `operators.read_file`); of a pointer without one, where a recorded
            trial is simulated again, its recorded events.
        varied: keys and values, as texts, by which a trial of a sweep differs.
        start: the virtual world, or the tool under exact constraints, at its start; `built`, where that is given.

    Raises:
        ParameterError: the world of the experiment cannot be built.
    """

    experiment: Experiment
    table: np.ndarray | None = None
    varied: tuple[tuple[str, str], ...] = ()
    built: InitVar[Start | None] = None
    start: Start = field(init=False, repr=False, compare=False)

    def __post_init__(self, built: Start | None) -> None:
        object.__setattr__(self, "start", build_start(self.experiment) if built is None else built)

    def __repr__(self) -> str:
        """One line that says what runs."""
        varied = "".join(f", {key}={value}" for key, value in self.varied)
        experiment = self.experiment
        return f"Trial({experiment.name}{varied}, {experiment.duration:g} s at {experiment.rate:g} Hz)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process builds the world itself."""
        return Trial, (self.experiment, self.table, self.varied)

    @property
    def world(self) -> WorldSetup:
        """The virtual world at its start.

        Raises:
            ParameterError: there is none, but a tool under exact constraints alone.
        """
        return world_of(self.experiment, self.start)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes at the start: content of files that is not simulated, keys without effect, warnings."""
        experiment, start = self.experiment, self.start
        unused = tuple(unused_keys(experiment))
        hands: dict[str, Experiment | FurtherHandParameters] = {"": experiment}
        hands |= {f"hands[{i}].": hand for i, hand in enumerate(experiment.hands)}
        unused += tuple(
            f"{place}operator.type = {one.operator.type}: has no effect, {one.device.label} is not simulated"
            for place, one in hands.items()
            if one.device.HARDWARE and not experiment.bridged
        )
        checked = ((place, one.device.unchecked() if one.controller.GAINS else "") for place, one in hands.items())
        unused += tuple(f"{place}{line}" for place, line in checked if line)
        inertias = self.coupled_inertias
        if left_out := not_analysed(experiment.controller, inertias):
            unused += (left_out,)
        unused += tuple(_loosely_held(experiment, inertias))
        unused += tuple(
            f"{_external_key(name)} = external: the trial begins when a node {name} of yours is ready in its namespace"
            for name in experiment.external
        )
        if (world := start.world) is None:
            return unused
        context = local_model_context(world, experiment, experiment.limits, experiment.rate)
        soft = explain_carrying(experiment.contact, world, rigid=experiment.environment.method.RIGID)
        return (*world.notes, *unused, *soft, *experiment.local_model.notes(context))

    @property
    def meshes(self) -> list[dict[str, Any]]:
        """Collision geometry of the meshes of bodies, as entered in summary.json."""
        world = self.start.world
        return [
            {
                "body": mesh.body,
                "as": mesh.taken.chosen,
                "triangles": len(mesh.taken.faces),
                "pieces": mesh.count,
                "error": mesh.taken.error,
            }
            for mesh in (() if world is None else world.meshes)
        ]

    @property
    def tool_sizes(self) -> ToolSizes:
        """Sizes of the virtual tool's messages."""
        return tool_sizes(isolate_tool(self.world) if self.experiment.asynchronous else self.start)

    @property
    def hands(self) -> dict[str, Trial]:
        """The trial as each hand has it, by name: itself for the first, which has none; see `Experiment.of_hand`."""
        if not self.experiment.hands:
            return {"": self}
        world, names = self.world, self.experiment.hand_names
        return {"": self} | {
            name: Trial(self.experiment.of_hand(name), built=world.held_at(frame))
            for name, frame in zip(names, world.further, strict=True)
        }

    @property
    def hand(self) -> HandParameters:
        """Pose of the virtual tool's hand at the start."""
        return _hand(self.start)

    @property
    def draggable(self) -> Bodies:
        """Bodies that a pointer can drag beside the hand."""
        experiment = self.experiment
        return draggable(self.start, standalone=experiment.standalone and not experiment.environment.engine.ONE_HAND)

    @property
    def moves_freely(self) -> bool:
        """Whether all that a pointer can drag moves in all directions of its world at the start."""
        start = self.start
        if self.draggable and (world := start.world) is not None:
            free = world.tree_size == (3 if world.planar else 6)
            return bool(free.all()) and free.size == world.model.njoints - 1
        try:
            hand_inertia(start)
        except ParameterError:
            return False
        return True

    @property
    def coupled_inertias(self) -> CoupledInertias:
        """Inertias that the controller couples, at the start."""
        return coupled_inertias(self.experiment, self.start)

    def in_mode(self, mode: str) -> Trial:
        """The same trial, with what it leaves to the mode (offline, lockstep, realtime) decided.

        Raises:
            ParameterError: it has hardware, which has a clock of its own, and the mode is not realtime.
        """
        experiment, guard = self.experiment, self.experiment.guard
        if mode != "realtime" and (names := experiment.realtime_devices):
            raise ParameterError(
                [f"--mode {mode}: {names[0]} is hardware, which runs in real time only; add --mode realtime"]
            )
        engine = experiment.environment.engine
        if mode != "realtime" and engine.LINK:
            why = f"{engine.LABEL or engine.type} moves in real time; add --mode realtime"
            raise ParameterError([f"--mode {mode}: environment.engine = {engine.type}: {why}"])
        if mode == "offline" and experiment.external:
            why = "is a node of your own, which only the ROS graph has; add --mode lockstep"
            raise ParameterError([f"{_external_key(name)} = external: {why}" for name in experiment.external])
        acts = guard.acts or (mode == "realtime" and guard.type is None and guard.at_device is None)
        update: dict[str, Any] = {}
        if experiment.relayed:
            update = {"type": experiment.relay_guard, "at_device": acts}
        elif guard.type is None:
            update = {"type": "passivity" if acts and not experiment.standalone else "none"}
        guard = guard.model_copy(update=update)
        return replace(self, experiment=experiment.model_copy(update={"guard": guard}), built=self.start)

    def with_ticks(self, ticks: int) -> Trial:
        """The same trial of so many ticks."""
        experiment = self.experiment
        shorter = experiment.model_copy(update={"duration": max(ticks - 1, 0.25) / experiment.rate})
        return replace(self, experiment=shorter, built=self.start)

    def driver(self, source: Source | None = None) -> Driver:
        """The driver of the first hand, with its device; `source` of the readings of hardware."""
        experiment = self.experiment
        parts = experiment.device, experiment.operator, experiment.tool
        return build_driver(*parts, experiment.rate, self.table, self.hand, experiment.seed, experiment.guard, source)

    def tool_side(self) -> ToolSide:
        """The tool's side, which answers the controller; without a device it has no limits of one."""
        experiment = self.experiment
        if experiment.asynchronous:
            return self.local_model()
        return build_tool_side(experiment, experiment.limits, experiment.rate, start=self.start)

    def local_model(self) -> LocalModelCore:
        """The local model of an asynchronous experiment."""
        experiment = self.experiment
        return build_local_model(self.world, experiment, experiment.limits, experiment.rate)

    @property
    def label(self) -> str:
        """The settings KEY=VALUE that distinguish the trial in its sweep."""
        return ",".join(f"{key}={value}" for key, value in self.varied)

    @property
    def folder(self) -> str:
        """Name of its directory in that of the sweep: the label, or as much of it as a file system takes."""
        name = self.label.encode()
        if len(name) <= LONGEST_FOLDER:
            return self.label
        return f"{name[:LONGEST_FOLDER].decode(errors='ignore')}~{hashlib.sha256(name).hexdigest()[:12]}"


def _external_key(node: str) -> str:
    """The key by which a node is the user's own."""
    return "environment.engine" if node == "environment" else f"{split_topic(node)[1]}.type"


def resolve(experiment: Experiment, *, again: bool = False) -> tuple[Experiment, Start]:
    """The experiment with all keys that it leaves out filled in, and the start of its tool's side.

    Args:
        experiment: whose sections are valid, each and together.
        again: it has been run before, and is read back whatever became of it: its gains are not checked.

    Raises:
        StartError: its world cannot be built.
        ParameterError: its world cannot be run with its device, controller and local model.
    """
    try:
        start = build_start(experiment)
    except ParameterError as error:
        raise StartError(error.problems) from error
    if not again:
        experiment = _with_carrying_contact(experiment, start)
    _check_start(experiment, start)
    experiment = _with_resolved_hand(experiment, start, again)
    if (world := start.world) is None:
        return experiment, start
    hands = []
    for i, (hand, frame) in enumerate(zip(experiment.hands, world.further, strict=True)):
        try:
            resolved = _with_resolved_hand(experiment.of_hand(hand.name), world.held_at(frame), again)
        except ParameterError as error:
            raise ParameterError(f"hands[{i}].{problem}" for problem in error.problems) from error
        hands.append(hand.model_copy(update={"device": resolved.device, "controller": resolved.controller}))
    experiment = experiment.model_copy(update={"hands": tuple(hands)})
    if not again and not experiment.environment.engine.EXTERNAL:
        _check_sides(experiment, world, start)
    return experiment, start


def _check_sides(experiment: Experiment, world: WorldSetup, start: Start) -> None:
    """Build what would answer the controller, which refuses what it cannot render at its rate.

    Raises:
        ParameterError: it cannot be built, as with a texture that is too steep or a field that is too stiff.
    """
    if experiment.asynchronous:
        build_surroundings(world, experiment, experiment.rate)
        build_local_model(world, experiment, experiment.limits, experiment.rate)
    else:
        build_tool_side(experiment, experiment.limits, experiment.rate, start=start)


def _with_carrying_contact(experiment: Experiment, start: Start) -> Experiment:
    """The same experiment, with contacts that carry the bodies of its world, where their stiffness was left out."""
    if (world := start.world) is None or experiment.scene.ENGINE:
        return experiment
    contact = carry(experiment.contact, world, experiment.rate, rigid=experiment.environment.method.RIGID)
    return experiment.model_copy(update={"contact": contact})


def _with_resolved_hand(experiment: Experiment, start: Start, again: bool) -> Experiment:
    """The same experiment, with device and controller of its first hand filled in and checked."""
    experiment = _with_completed_parts(experiment, start)
    experiment = _with_dragged_inertia(experiment, start)
    if not again:
        experiment = _with_gains(experiment, start)
        check_controller(experiment, start)
    return experiment


def coupled_inertias(experiment: Experiment, start: Start) -> CoupledInertias:
    """Inertias that the controller of an experiment couples, at the start."""
    mobility = hand_mobility(start, experiment.constraint, experiment.rate).ravel()
    if (world := start.world) is not None:
        mobility *= world.hands_of_tree  # each of them moves its part of what they hold together
    mobility[np.abs(mobility) < 1e-15 * np.abs(mobility).max(initial=0.0)] = 0.0  # rounding
    tool = tuple(np.clip(mobility, -inputs.LARGEST, inputs.LARGEST).tolist())
    found = experiment.device.coupled(_device_start(experiment, start))
    if found and experiment.device.COMMANDS == FORCE:
        soft = world is not None and not experiment.environment.method.RIGID
        found["integrator"] = experiment.environment.integrator
        found["contact"] = (experiment.contact.stiffness, experiment.contact.damping) if soft else None
    return CoupledInertias(planar=start.planar, tool=tool, **found)


def _hand(start: Start) -> HandParameters:
    """Pose of the virtual tool's hand at the start."""
    return HandParameters(pose=tuple(hand_pose(start).tolist()), planar=start.planar)


def _device_start(experiment: Experiment, start: Start) -> DeviceStart:
    """The start of a trial as its device has it."""

    def limits_impulses() -> bool:
        if not experiment.environment.method.SPREADS:
            return False
        world = start.world
        return world is not None and not world.further and world.bodies(1.0 / experiment.rate).held_single

    return DeviceStart(experiment.rate, _hand(start), experiment.seed, lambda: device_inertia(start), limits_impulses)


def _with_completed_parts(experiment: Experiment, start: Start) -> Experiment:
    """The same experiment, with the keys of device and controller that depend on each other and on the world.

    Raises:
        ParameterError: the device does not fit the world, or does not say what the controller needs.
    """
    controller, at = experiment.controller, _device_start(experiment, start)
    if problems := experiment.device.problems(at):
        raise ParameterError(problems)
    device = experiment.device.completed(at)
    completed = controller.completed(device.known(), at.hand.pose)
    return experiment.model_copy(update={"device": device, "controller": completed})


def _with_dragged_inertia(experiment: Experiment, start: Start) -> Experiment:
    """The same experiment, whose pointer knows the inertia that it drags: of the device, and of the tool coupled to it.

    Where the tool has none in some direction, it is taken to have that of the device; and where the controller lets
    the hand feel less, the spring is damped more than critically.
    """
    operator, device = experiment.operator, experiment.device
    if not operator.DRAGS or experiment.standalone:
        return experiment
    own = device.inertia_at_hand(_device_start(experiment, start))
    if own is None:
        raise ParameterError(
            [
                f"operator.type = {operator.type}: the inertia of device.type = {device.type} is not known; choose "
                "another"
            ]
        )
    try:
        tool = hand_inertia(start)
    except ParameterError:
        tool = own
    found = {"mass": min(own[0] + tool[0], 1e3), "inertia": min(own[1] + tool[1], 1e3)}
    update = {name: value for name, value in found.items() if getattr(operator, name) is None}
    return experiment.model_copy(update={"operator": operator.model_copy(update=update)})


def _with_gains(experiment: Experiment, start: Start) -> Experiment:
    """The same experiment, with gains that were left out for this world: in its dimension, and small enough for it.

    Stiffness and damping that were left out are the largest of their defaults and the halves of these, with which the
    loop is stable, and would be with a tool whose mobility at the hand is LIGHTER times as large.
    """
    if experiment.standalone:
        return experiment
    inertias, controller = coupled_inertias(experiment, start), experiment.controller
    lighter = inertias.model_copy(update={"tool": tuple(LIGHTER * mobility for mobility in inertias.tool)})
    given = controller.model_fields_set
    planar = [] if inertias.planar else [name for name in _planar_gains(controller) if name not in given]
    controller = controller.model_copy(update={name: in_space(getattr(controller, name)) for name in planar})
    own = [name for name in controller.GAINS if name not in given]
    for translation, rotation in sorted(itertools.product(range(HALVINGS), repeat=2), key=sum) if own else ():
        factors = np.repeat([0.5**translation, 0.5**rotation], (2, 1) if inertias.planar else 3)
        gains: dict[str, Any] = {name: tuple((factors * getattr(controller, name)).tolist()) for name in own}
        smaller = controller.model_copy(update=gains)
        if all(_may_run(smaller, coupled, experiment.rate) for coupled in (inertias, lighter)):
            return experiment.model_copy(update={"controller": smaller})
    return experiment.model_copy(update={"controller": controller})


def _may_run(controller: ControllerParameters, inertias: CoupledInertias, rate: float) -> bool:
    """Whether the loop of a controller is stable, and passive where it must be."""
    return controller.is_stable(inertias, rate) and may_act(controller, inertias, rate)


def _loop_problem(controller: ControllerParameters, inertias: CoupledInertias, rate: float) -> str:
    """Reason why the loop of a controller is unstable, or not passive where it must be; empty if there is none."""
    return controller.stability_problem(inertias, rate) or passivity_problem(controller, inertias, rate)


def check_controller(experiment: Experiment, start: Start) -> None:
    """Make sure that the gains have a meaning in the world, and that the loop that they close is stable.

    Raises:
        ParameterError: they have none, or the loop is unstable; names the largest stable gains.
    """
    if experiment.standalone:
        return
    inertias, controller = coupled_inertias(experiment, start), experiment.controller
    planar = [] if inertias.planar else _planar_gains(controller)
    if planar:
        controller = controller.model_copy(update={name: in_space(getattr(controller, name)) for name in planar})
    problem = _loop_problem(controller, inertias, experiment.rate)
    if planar:
        keys = ", ".join(f"controller.{name} = {_listed(experiment.controller, name, ', ')}" for name in planar)
        settings = " ".join(f"controller.{name}={_listed(controller, name, ',')}" for name in planar)
        raise ParameterError(
            [
                f"{keys}: three values (x, y, rotation about z) are for a planar world, and this one is in space; give "
                f"six (x, y, z, rotations about x, y, z), as {settings}",
                *([problem] if problem else []),
            ]
        )
    problem = problem or _arm_problem(experiment, inertias)
    if problem:
        raise ParameterError([problem])


def _loosely_held(experiment: Experiment, inertias: CoupledInertias) -> Iterator[str]:
    """Reasons why a tool in space may turn, or yield, more than its operator expects, because keys were omitted."""
    operator, controller = experiment.operator, experiment.controller
    turns = not inertias.planar and any(inertias.tool[7 * k] > 0.0 for k in range(3, 6))
    if turns and "turn_stiffness" not in operator.model_fields_set and not experiment.device.HARDWARE:
        arm = operator.spring_and_damper
        if arm is not None and not any(gains[1] for gains in arm):
            yield (
                "operator.turn_stiffness = 0 N m/rad: the arm does not keep the tool from turning, which contacts do; "
                "give operator.turn_stiffness and operator.turn_damping"
            )
    stiffness: tuple[float, ...] = getattr(controller, "stiffness", ())
    if "stiffness" not in controller.GAINS or len(stiffness) != 6 or inertias.planar:
        return
    default = in_space(type(controller).model_fields["stiffness"].default)
    for first, motion, unit, kind in ((0, "translation", "N/m", "kg"), (3, "rotation", "N m/rad", "kg m^2")):
        k = max(range(first, first + 3), key=lambda k: inertias.tool[7 * k])
        now = stiffness[k]
        halvings = math.log2(default[k] / now) if now > 0.0 else 0.0
        if halvings >= SOFT_HALVINGS and halvings == int(halvings) and inertias.tool[7 * k] > 0.0:  # see `_with_gains`
            yield (
                f"controller.stiffness = {now:g} {unit} in {motion}: 1/{2 ** int(halvings)} of the default, as the "
                f"tool has only {1.0 / inertias.tool[7 * k]:.2g} {kind} there; a larger inertia of its body, or a "
                "higher rate, allows more"
            )


def _arm_problem(experiment: Experiment, inertias: CoupledInertias) -> str:
    """Reason why a simulated operator's arm diverges with its device; empty if it does not, or is not analyzed."""
    arm, coupling = experiment.operator.spring_and_damper, experiment.controller.spring_and_damper
    if arm is None or coupling is None or experiment.device.HARDWARE or experiment.device.COMMANDS != FORCE:
        return ""
    return arm_problem(*arm, coupling, inertias, experiment.rate)


def _planar_gains(controller: Any) -> list[str]:
    """Names of the gains with three values that are not all zero; zeros mean the same in the plane and in space."""
    values = {name: getattr(controller, name) for name in type(controller).model_fields}
    return [name for name, value in values.items() if isinstance(value, tuple) and len(value) == 3 and any(value)]


def _listed(controller: Any, name: str, comma: str) -> str:
    return f"[{comma.join(f'{value:g}' for value in getattr(controller, name))}]"


def _check_start(experiment: Experiment, start: Start) -> None:
    """Make sure that the virtual world, or the tool under exact constraints, can run with the parts of an experiment.

    Raises:
        ParameterError: it cannot.
    """
    if (world := start.world) is None:
        build_tool_side(experiment, UNLIMITED, experiment.rate, start=start)
        return
    if experiment.asynchronous:
        isolate_tool(world)
        context = local_model_context(world, experiment, experiment.limits, experiment.rate)
        if wrong := experiment.local_model.problems(context):
            raise ParameterError(wrong)
    period = 1.0 / experiment.rate
    if problems := list(unstable(world.bodies(period), world.motions, period)) if world.motions else []:
        raise ParameterError(problems)
