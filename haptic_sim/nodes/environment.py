"""Environment node: answers the controller, or surveys the surroundings for a local model.

Synchronous: subscribes to tool_command, publishes tool_state and world_state. Asynchronous (a local model is among the
trial's nodes): subscribes to tool_state, publishes local_geometry. Each further hand has a tool_command and a
tool_state of its own; a tick is executed when the commands of all hands are there.
"""

from __future__ import annotations

import importlib
from collections import OrderedDict
from typing import Any, ClassVar

from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn

from haptic_ros.process import run
from haptic_ros.realtime import Deadlines
from haptic_ros.trial import POLL
from haptic_sim.messages import Message, MessageError, ToolCommand, split_topic, topic_of
from haptic_sim.nodes.tool import ToolNode, ToolTrialParameters, check_command
from haptic_sim.parameters import quantity
from haptic_sim.tool.further_hand import FurtherHand
from haptic_sim.tool.omissions import invalid_steps_of, omissions_of, write_omissions
from haptic_sim.tool.tool_side import build_start, build_surroundings, build_tool_side, fields_of
from haptic_sim.worlds.isolated import isolate_tool


class EnvironmentTrialParameters(ToolTrialParameters):
    """Parameters of a trial that the environment needs."""

    directory: str = quantity("", description="Directory of the trial: receives what ticks had to leave out")


class EnvironmentNode(ToolNode):
    """The full world as a node."""

    NAME: ClassVar[str] = "environment"
    Config: ClassVar = EnvironmentTrialParameters
    config: EnvironmentTrialParameters

    _link: Any = None
    asynchronous: bool
    """Whether a local model answers the controller."""

    def build(self) -> None:
        """Make the core from `self.config`."""
        config = self.config
        self.asynchronous = config.graph.asynchronous
        if self.asynchronous:
            world = config.world()
            self._schedule = config.environment.schedule(config.rate)
            build_surroundings(world, config, config.rate).warm_up()
            self._surroundings = build_surroundings(world, config, config.rate)
            self._geometry = self._surroundings.local_geometry()
            self._surveyed = isolate_tool(world).tool_sizes().tool_state()
            self._newest = False  # whether the state is one that was not surveyed yet
            self._answers: OrderedDict[int, bytes] = OrderedDict()  # the last surveys, by their tick
            self._steps = 0  # surveys so far
        else:
            self.start = start = build_start(config)
            self.open_tool(lambda: build_tool_side(config, config.device, config.rate, start=start))
            self._open_hands()
            if engine := config.environment.engine.LINK:
                module, name = engine.split(":")
                self._link = getattr(importlib.import_module(module), name)(self, self.core)

    def prepared(self) -> bool:
        """Whether this node can start the trial: what an engine connects it with is there, or has been awaited."""
        return super().prepared() and (self._link is None or self._link.prepared())

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close what connects an engine with other programs."""
        if self._link is not None:
            self._link.close()
            self._link = None
        return super().on_cleanup(state)

    def release(self) -> None:
        """Leave what other programs move at rest."""
        if self._link is not None:
            self._link.stay()

    def finish(self) -> None:
        """Write beside the bag what was left out of fields."""
        steps = 0 if self.asynchronous else invalid_steps_of(self.core)
        write_omissions(self.config.directory, self._omissions(), steps)

    def _omissions(self) -> int | None:
        return omissions_of(self._surroundings if self.asynchronous else self.core)

    def _open_hands(self) -> None:
        """Prepare to answer further hands."""
        names = (hand.name for hand in self.config.hands)
        self._others: dict[str, FurtherHand] = dict(zip(names, self.core.hands, strict=True))
        self._commands = {"": self._command} | {name: hand.command for name, hand in self._others.items()}
        self._states = {"": self._state} | {name: hand.state for name, hand in self._others.items()}
        for command in self._commands.values():
            command.tick = -1
        self._received_command = ToolCommand()

    def health(self) -> tuple[str, dict[str, object]]:
        """Content of /diagnostics for this node, with what ticks have left out of signed distance fields."""
        trouble, values = super().health()
        omissions = self._omissions()
        if omissions is None:  # no fields, or an engine of others
            return trouble, values
        if omissions:
            trouble = trouble or f"{omissions} leaves of signed distance fields were left out: contacts may begin late"
        return trouble, values | {"omitted leaves of fields": omissions}

    def reconfigure(self) -> None:
        """Take changed parameters of contact and strengths of fields; a survey has no forces."""
        if not self.asynchronous:
            super().reconfigure()
        elif fields_of(self.config.scene):
            self._surroundings.set_levels(self.config.environment.fields)

    def next_tick(self) -> int:
        """The first tick whose computation is yet to come; of a surveyor 0: no tick's computation is a survey's."""
        return 0 if self.asynchronous else super().next_tick()

    def idle(self) -> bool:
        """Called every 10 ms until it returns True: nothing is left to do before the first tick."""
        return self.asynchronous or super().idle()

    def raise_priority(self) -> None:
        """Work with the servo threads, where this node answers them; a survey is made beside them."""
        if not self.asynchronous:
            super().raise_priority()

    def serve(self) -> None:
        """The servo thread's work; in realtime a surveyor surveys the latest state at its own rate."""
        if not (self.asynchronous and self.realtime):
            super().serve()
            return
        deadlines = Deadlines(self.config.environment.rate or self.config.rate)
        announced = False
        step = 0
        while not self.stopping:
            while (left := deadlines.until(step)) > 0 and not self.stopping:
                self.listen(left * 1e-9 if announced else POLL)
                announced = announced or self.barrier.announce_if_ready()
            deadlines.settle(step)
            step += 1
            if self._newest and self._surveyed.is_finite():
                self._newest = False
                self._surroundings.survey(self._surveyed, step, self._geometry)
                self.send("local_geometry", self._geometry)

    def receive(self, topic: str, data: bytes | Message) -> None:
        """Answer a message: its bytes, or in a composition the message itself; MessageError refuses it."""
        if self.asynchronous:
            self._survey(data)
        elif self._others:
            self._gather(split_topic(topic)[0], data)
        else:
            self.command(data)

    def send_states(self, initial: int | None = None) -> None:
        """Publish the tool's state for each hand; `initial` is the time [ns] of that before the first tick."""
        super().send_states(initial)
        for name, other in self._others.items():
            if initial is not None:
                other.state.stamp(-1, initial)
            self.send(topic_of(name, "tool_state"), other.state)

    def join(self, tick: int) -> None:
        """Be at the beginning of a tick with all hands, and with the world as it is."""
        super().join(tick)
        for other in self._others.values():
            other.state.tick, other.state.command_tick = tick - 1, -1

    def repeat(self) -> None:
        """Publish the tools' states again, which a new controller has to know; a survey has none."""
        if not self.asynchronous:
            super().repeat()

    def _gather(self, name: str, data: bytes | Message) -> None:
        """Take the command of a hand, and execute the tick when those of all hands are there.

        In realtime also when the first hand goes on to the next tick: of a hand that is late, the latest command acts.
        """
        received, command, state = self._received_command, self._commands[name], self._states[name]
        received.load(data)
        tick, expected, realtime = received.tick, state.tick + 1, self.realtime
        topic = topic_of(name, "tool_command")
        if tick > self.config.last_tick:
            return  # as in `command`
        if tick == expected - 1 and not realtime:
            self.send(topic_of(name, "tool_state"), state)
            return
        if tick <= command.tick if realtime else tick != expected:
            raise MessageError(f"{topic} {tick}: must be {max(expected, command.tick + 1)}")
        check_command(topic, received)
        if self.is_away(tick):
            self.join(tick)
        if realtime and not name and command.tick >= expected:
            self.step_up_to(command.tick)
        command.load(received)
        if all(one.tick >= tick for one in self._commands.values()):
            self.step_up_to(tick)

    def _survey(self, data: bytes | Message) -> None:
        """Survey the state at the beginning of a tick that is due; a repeated one gets the same answer.

        In lockstep one after the other, as the world goes on with each: where one was lost, it will be asked for again,
        and those after it, too.
        """
        state = self._surveyed
        state.load(data)
        if self.realtime:
            self._newest = True
            return
        tick = state.tick + 1
        if not self._schedule.surveys(tick) or tick > self.config.last_tick:
            return
        if not state.is_finite():
            raise MessageError(f"tool_state {state.tick}: not finite")
        if tick not in self._answers:
            if tick // self._schedule.period != self._steps:
                return
            self._surroundings.survey(state, self._steps, self._geometry)
            self._steps += 1
            self._answers[tick] = self._geometry.to_bytes()
            while len(self._answers) > 64:
                self._answers.popitem(last=False)
        self.send("local_geometry", self._answers[tick])


def main() -> None:
    """Entry point of the process."""
    run(EnvironmentNode)


if __name__ == "__main__":
    main()
