"""Driver node: owns the device and the clock of the trial.

Starts the first tick when all nodes are ready, asks again where an answer is late, renders what is commanded, and ends
the trial after the last tick or when interrupted.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, ClassVar

from rclpy.serialization import deserialize_message

from haptic_drivers.driver import InertialParameters, build_driver
from haptic_drivers.operators import AnyOperatorParameters, FileParameters, read_table
from haptic_sim.messages import DeviceCommand, DeviceState
from haptic_sim.nodes.servo import EVENTS, POLL, READY_TIMEOUT, ServoError, ServoNode, TrialParameters, run
from haptic_sim.parameters import quantity
from haptic_sim.scene import PegParameters
from haptics.msg import TrialEvent

RESEND = 0.05  # [s] without an answer after which a state is sent again
LEAD = 512  # ticks that the driver may be ahead of the recorder
CLOSING = 1.0  # [s] for the recorder to close the bag of an interrupted trial


class DriverTrialParameters(TrialParameters):
    """What the driver needs to know of a trial."""

    device: InertialParameters = quantity(description="The haptic device")
    operator: AnyOperatorParameters = quantity(description="The simulated hand")
    tool: PegParameters = quantity(description="The virtual tool, whose inertia a device may share")
    progress: bool = quantity(False, description="Write the number of ticks done to the standard output")


class DriverNode(ServoNode):
    """A driver as a node."""

    Config: ClassVar[Any] = DriverTrialParameters
    SUBSCRIBES: ClassVar[tuple[str, ...]] = ("device_command", EVENTS)
    PUBLISHES: ClassVar[tuple[str, ...]] = ("device_state",)
    config: DriverTrialParameters

    def build(self) -> None:
        """See ServoNode."""
        config = self.config
        table = None
        if isinstance(config.operator, FileParameters):
            path = Path(config.operator.path)
            table = read_table(path.read_text(encoding="utf-8").splitlines(), str(path))
        self._core = build_driver(config.device, config.operator, config.tool, config.rate, table)
        self._state, self._command = DeviceState(), DeviceCommand()
        self._command.tick = -1
        self._ready: set[str] = set()
        self._recorded, self._closed = 0, "recorder" not in config.nodes

    def receive(self, topic: str, data: bytes) -> None:
        """See ServoNode."""
        if topic == EVENTS:
            event = deserialize_message(data, TrialEvent)
            if event.name == "ready":
                self._ready.add(event.node)
            elif event.name == "recorded":
                self._recorded = event.tick
            elif event.name == "closed":
                self._closed = True
            return
        self._command.load(data)

    def serve(self) -> None:
        """Run the trial."""
        if not self._gather():
            return
        tick = 0
        self._report(tick)
        last = self.config.last_tick
        recorded = "recorder" in self.config.nodes
        while tick <= last and not self.stopping:
            if not self._tick(tick):
                break
            tick += 1
            if not tick & 63:
                self._report(tick)
                if recorded:
                    self._await(lambda done=tick: self._recorded >= done - LEAD, "recorder: is behind")
        self._core.sense(tick, self._state)
        self.send("device_state", self._state.to_bytes())
        self._report(tick)
        finished = tick > last
        self.tell("finished" if finished else "interrupted", tick)
        if finished:
            self._await(lambda: self._closed, "recorder: the bag was not closed")
            self.end(0)
        else:
            deadline = time.monotonic() + CLOSING
            while not self._closed and time.monotonic() < deadline:
                self._listen(POLL)

    def _gather(self) -> bool:
        """Wait until all nodes of the trial are ready; False if interrupted."""
        deadline = time.monotonic() + READY_TIMEOUT
        others = set(self.config.nodes) - {self.get_name()}
        announced = False
        while not (announced and others <= self._ready):
            if self.stopping:
                return False
            self._listen(POLL)
            announced = announced or self.announce_if_ready(deadline)
            if time.monotonic() > deadline:
                missing = ", ".join(sorted(others - self._ready))
                raise ServoError(f"not ready after {READY_TIMEOUT:g} s: {missing}")
        self.tell("started", 0)
        return True

    def _tick(self, tick: int) -> bool:
        """Execute a tick; False if interrupted before its command came."""
        self._core.sense(tick, self._state)
        data = self._state.to_bytes()
        self.send("device_state", data)
        silent_since = time.monotonic()
        while self._command.tick != tick:
            if self.stopping:
                return False
            if not self._listen(RESEND):
                if time.monotonic() - silent_since > self.config.patience:
                    raise ServoError(f"tick {tick}: no command within {self.config.patience:g} s")
                self.send("device_state", data)
        self._core.actuate(self._command)
        return True

    def _report(self, tick: int) -> None:
        if self.config.progress:
            print(f"tick {tick}", flush=True)

    def _listen(self, timeout: float) -> bool:
        """Take what arrives within `timeout` [s]; False if nothing does."""
        heard = False
        for topic, data in self.inbox.wait(timeout):
            heard = True
            self.take(topic, data)
        return heard

    def _await(self, condition: Any, reason: str) -> None:
        deadline = time.monotonic() + self.config.patience
        while not condition() and not self.stopping:
            self._listen(POLL)
            if time.monotonic() > deadline:
                raise ServoError(f"{reason} for {self.config.patience:g} s")


def main() -> None:
    """Entry point of the process."""
    sys.exit(run(DriverNode, "driver"))


if __name__ == "__main__":
    main()
