"""The tool's side of the servo graph: answers each ToolCommand with a ToolState."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from pydantic import model_validator

from haptic_ros.realtime import CoreShare, on_core
from haptic_ros.servo import ServoNode
from haptic_ros.standard_topics import WorldTopics
from haptic_ros.trial import ServoError, TrialParameters
from haptic_sim.constraints.scenes import ConstraintParameters
from haptic_sim.contact.response import ContactParameters, DeviceLimits
from haptic_sim.fields.acting import switch_problems
from haptic_sim.messages import HAND, Message, MessageError, ToolCommand, pack
from haptic_sim.nodes.field_switch import FieldSwitch
from haptic_sim.parameters import quantity
from haptic_sim.scenes import AnySceneParameters
from haptic_sim.tool.local_model import AnyLocalModelParameters
from haptic_sim.tool.parameters import EnvironmentParameters
from haptic_sim.tool.protocol import ToolSide
from haptic_sim.tool.tool_side import Start, fields_of, world_of
from haptic_sim.tool.world_state import WorldStates
from haptic_sim.worlds.description import describe
from haptic_sim.worlds.parameters import HoldParameters
from haptic_sim.worlds.scenes import AnyToolParameters
from haptic_sim.worlds.world_setup import WorldSetup


def check_command(topic: str, command: ToolCommand) -> None:
    """Make sure that a command of a controller can be executed.

    Raises:
        MessageError: it cannot.
    """
    if not command.is_finite():
        raise MessageError(f"{topic} {command.tick}: not finite")
    if command.body != HAND:
        raise MessageError(f"{topic} {command.tick}: body = {command.body}: must be {HAND}, the virtual tool")


class WorldTrialParameters(TrialParameters):
    """Description of the virtual world of a trial."""

    seed: int = quantity(0, description="Seed of everything random", ge=0)
    tool: AnyToolParameters = quantity(description="The virtual tool")
    scene: AnySceneParameters = quantity(description="Scene around the tool")
    contact: ContactParameters = quantity(description="Material of the contacts")
    environment: EnvironmentParameters = quantity(description="Simulation of the world")
    constraint: ConstraintParameters = quantity(description="Method that keeps exact constraints")
    hands: tuple[HoldParameters, ...] = quantity((), description="Poses at which further hands hold the world")

    @model_validator(mode="after")
    def _fields_are_there(self) -> WorldTrialParameters:
        if problems := list(switch_problems(self.environment.fields, tuple(fields_of(self.scene)))):
            raise ValueError("." + "; ".join(problems))
        return self

    def world(self) -> WorldSetup:
        """The virtual world at its start."""
        return world_of(self)


class ToolTrialParameters(WorldTrialParameters):
    """Parameters of a trial that environment and local model need."""

    local_model: AnyLocalModelParameters = quantity(description="The local model of interaction")
    device: DeviceLimits = quantity(description="Limits of the device")


def world_topics(node: ServoNode, start: Start | None, rate: float) -> WorldTopics:
    """The standard topics of a node that publishes world states of what starts as given."""
    if not isinstance(start, WorldSetup):
        return WorldTopics(node, rate, "", (), {})
    text, joints = describe(start, node.root.strip("/").replace("/", "_"))
    return WorldTopics(node, rate, text, joints, start.fixed_poses())


class ToolNode(FieldSwitch):
    """Answers tool commands; a repeated tick gets the same answer.

    Derived classes set `start`, what their core starts from.
    """

    Config: ClassVar = ToolTrialParameters
    config: ToolTrialParameters
    core: ToolSide
    start: Start | None = None
    _core_share: CoreShare | None = None

    def open_tool(self, make: Callable[[], ToolSide]) -> None:
        """Make the core that answers, after another was warmed up."""
        make().warm_up()
        self.core = core = make()
        self._command = ToolCommand()
        self._state = core.tool_state()
        pack(self._command, self._state)
        every = self.config.environment.publish_every(self.config.rate)
        self._worlds = WorldStates(core.observer, every, self.config.rate, partial(self.send, "world_state"))
        self._worlds.warm_up()
        self._concluded = -1  # the last tick whose world state was sent, where it has one
        core.prepare()  # which takes longest for the first tick: kernels are bound to their arrays

    def standard_topics(self, rate: float, reliable: bool) -> WorldTopics | None:
        """The topics of standard messages that this node has; None: none."""
        return world_topics(self, self.start, rate) if "world_state" in self.transport.published() else None

    def raise_priority(self) -> None:
        """Set the realtime priority of this thread; it gets a core of its own while it takes much of one."""
        graph = self.config.graph
        share = CoreShare(graph.loop_of(self.role), 1 + graph.relayed)
        super().raise_priority()
        if self.scheduler.startswith("SCHED_FIFO"):
            share.begin()
            self._core_share = share

    def health(self) -> tuple[str, dict[str, object]]:
        """Content of /diagnostics for this node: its trouble (empty: none) and values, with its present core."""
        trouble, values = super().health()
        if self._core_share is not None:
            values["scheduler"] = on_core(self.scheduler, self._core_share.core)
        return trouble, values

    def has(self, topic: str) -> bool:
        """Whether this node publishes the world's state."""
        return self.config.environment.publish is not None

    def reconfigure(self) -> None:
        """Take a changed `self.config`; called between two messages."""
        self.core.configure(self.config.contact)
        if fields_of(self.config.scene):
            self.core.set_levels(self.config.environment.fields)

    def next_tick(self) -> int:
        """The first tick whose computation is yet to come."""
        return self._state.tick + 1

    def idle(self) -> bool:
        """Repeat the initial state until the first command."""
        if self._state.tick < 0:
            self.send_states(self.time_of(0))
        return self._state.tick >= 0

    def send_states(self, initial: int | None = None) -> None:
        """Publish the tool's state; `initial` is the time [ns] of that before the first tick."""
        if initial is not None:
            self._state.stamp(-1, initial)
        self.send("tool_state", self._state)

    def repeat(self) -> None:
        """Publish the tool's state again, which a new controller has to know."""
        self.send_states()

    def join(self, tick: int) -> None:
        """Be at the beginning of a tick, with the tool and the world as they are."""
        self._state.tick, self._state.command_tick = tick - 1, -1

    def is_away(self, tick: int) -> bool:
        """Whether the command of a tick comes to a tool that has had none for long, or is new."""
        return bool(self.endless and tick - self.next_tick() >= self.config.gap)

    def look_ahead(self) -> None:
        """Do what the next tick needs and does not depend on its messages; called when a tick has been answered."""
        if self._concluded < (tick := self._state.tick):
            self._concluded = tick
            self._worlds.conclude(self._state)
        self.core.prepare()

    def command(self, data: bytes | Message) -> None:
        """Answer a tool command."""
        command, state = self._command, self._state
        command.load(data)
        last, expected, realtime = command.tick, state.tick + 1, self.realtime
        if last > self.config.last_tick:
            return  # a controller of the user's own answers the device's state after the trial
        if last == expected - 1 and not realtime:
            self.send("tool_state", state)
            return
        if last < expected or (last > expected and not realtime):
            raise MessageError(f"tool_command {last}: must be {expected}")
        check_command("tool_command", command)
        if self.is_away(last):
            self.join(last)
        self.step_up_to(last)

    def step_up_to(self, last: int) -> None:
        """Execute ticks up to `last`.

        A command that was lost is replaced by the next, so that the tool's time is the trial's.

        Raises:
            ServoError: in a graph that only runs, the tool has diverged: a new node begins where the world does.
        """
        first = self._state.tick + 1
        for tick in range(first, last + 1):
            if tick > first:
                self.look_ahead()
            self.core.step(self._command, self._state)
            if self.endless and not math.isfinite(self._state.kinetic_energy):
                raise ServoError(f"the tool has diverged: its kinetic energy is not finite in tick {tick}")
            self.send_states()
        if self.transport.composition is None:  # which does so when the driver has the answer
            self.look_ahead()
            if self._core_share is not None:
                self._core_share.look(last)
