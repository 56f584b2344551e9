"""Local model node: answers the controller at the servo rate, with the contact geometry that the environment sends."""

from __future__ import annotations

from typing import ClassVar

from haptic_ros.process import run
from haptic_ros.trial import QUIET
from haptic_sim.messages import Message, MessageError
from haptic_sim.nodes.tool import ToolNode
from haptic_sim.tool.protocol import LocalModelCore
from haptic_sim.tool.tool_side import build_local_model, build_surroundings

LATE = 3.0  # periods without an update after which the surroundings are old


class LocalModelNode(ToolNode):
    """The proxy as a node. In lockstep a tick waits for the survey that is due at it."""

    NAME: ClassVar[str] = "local_model"
    core: LocalModelCore

    def build(self) -> None:
        """Make the core from `self.config`."""
        config = self.config
        self.start = world = config.world()
        self.open_tool(lambda: build_local_model(world, config, config.device, config.rate))
        self._schedule = config.environment.schedule(config.rate)
        surroundings = build_surroundings(world, config, config.rate)
        self._geometry, self._received = surroundings.local_geometry(), surroundings.local_geometry()
        self._known: dict[int, bytes | Message] = {}
        self._surveyed_states: dict[int, bytes] = {0: self._state.to_bytes()}  # sent for a survey that is not back yet
        self._updated = self._used = -1  # tick of the last update that came, and of the one in use
        self._joined = -1  # tick from which on surveys are used
        self._held: bytes | Message | None = None  # a command that waits for its survey

    def prepared(self) -> bool:
        """Whether this node can start the trial."""
        return 0 in self._known or self._updated >= 0

    def receive(self, topic: str, data: bytes | Message) -> None:
        """Answer a message: its bytes, or in a composition the message itself; MessageError refuses it."""
        if self.realtime:
            self._receive_latest(topic, data)
            return
        if topic == "local_geometry":
            self._geometry.load(data)
            tick = self._geometry.tick
            if self._surveyed_states.pop(tick, None) is not None:
                self._known[tick] = data
            if self._held is None:
                return
            data, self._held = self._held, None
        self._command.load(data)
        tick = self._command.tick
        if tick == self._state.tick + 1:
            due = self._schedule.due(tick)
            if due is not None:
                if due not in self._known:
                    if topic == "tool_command" and due in self._surveyed_states:  # each time: this may be lost, too
                        self.send("tool_state", self._surveyed_states[due])
                    self._held = data
                    return
                self._geometry.load(self._known.pop(due))
                self._update(tick)
        self.command(data)
        if self._schedule.surveys(tick + 1) and tick < self.config.last_tick:
            self._surveyed_states[tick + 1] = self._state.to_bytes()

    def quiet(self) -> float | None:
        """Time without a message after which `repeat` is called [s]; None: never."""
        return super().quiet() if self.realtime else QUIET

    def repeat(self) -> None:
        """Publish the tool's state again; in lockstep that of a survey which is not back: it may never become due."""
        if self.realtime:
            super().repeat()
        elif self._surveyed_states:
            self.send("tool_state", next(iter(self._surveyed_states.values())))

    def _update(self, tick: int) -> None:
        """Take the survey in hand from a tick on; one that cannot be used leaves the surroundings as they were."""
        try:
            self.core.update(self._geometry, tick)
        except MessageError as error:
            self.refuse(error)

    def health(self) -> tuple[str, dict[str, object]]:
        """Content of /diagnostics for this node, with the age of the surroundings that the proxy feels."""
        trouble, values = super().health()
        age, period = self.core.age, self.core.update_period
        if age > LATE * period + self.config.environment.schedule(self.config.rate).delay / self.config.rate:
            trouble = (
                trouble or f"the surroundings are {1e3 * age:.0f} ms old, with updates every {1e3 * period:.0f} ms"
            )
        return trouble, values | {"age of surroundings [s]": round(age, 4), "update period [s]": round(period, 4)}

    def join(self, tick: int) -> None:
        """Be at the beginning of a tick.

        A node that is new waits for a survey of now; another keeps its planes, as they are all it has."""
        super().join(tick)
        if self._used < 0:
            self._updated, self._joined = -1, tick

    def _is_surrounded(self, data: bytes | Message) -> bool:
        """Whether a command finds surroundings that are known; where not, a survey is asked for."""
        command = self._command
        command.load(data)
        if self.is_away(command.tick):
            self.join(command.tick)
        if self.prepared():
            return True
        self._state.tick = command.tick - 1
        self.send_states()
        return False

    def _receive_latest(self, topic: str, data: bytes | Message) -> None:
        """Receive in realtime: the latest update acts from the next command on."""
        if topic == "tool_command":
            if self.endless and not self._is_surrounded(data):
                return
            if self._updated > self._used:
                self._used = self._updated
                self._update(self._state.tick + 1)
            self.command(data)
            return
        received = self._received
        received.load(data)
        if received.tick == self._updated or received.tick < self._joined:
            return  # the initial one, sent again, or from before this node came
        if received.tick < self._updated:
            raise MessageError(f"local_geometry {received.tick}: is of the past, after {self._updated}")
        if not received.is_finite():
            raise MessageError(f"local_geometry {received.tick}: not finite")
        self._geometry.load(received)
        self._updated = received.tick


def main() -> None:
    """Entry point of the process."""
    run(LocalModelNode)


if __name__ == "__main__":
    main()
