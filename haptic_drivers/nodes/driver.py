"""Driver node: has the device, and leads the trial.

In each tick it publishes the state of the device, requests a late answer again, and renders the command. The driver of
a further hand does not lead: it begins a tick when the first driver has begun it.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

import numpy as np
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn

from haptic_control.guard import GuardParameters
from haptic_drivers.devices.link import Link
from haptic_drivers.devices.parameters import MeasuredDeviceParameters
from haptic_drivers.driver import build_driver
from haptic_drivers.nodes.external import TYPES, ExternalDevice
from haptic_drivers.nodes.requests import DeviceRequests
from haptic_drivers.operators import AnyOperatorParameters
from haptic_drivers.parameters import AnyDeviceParameters, HandParameters
from haptic_ros.graph import EVENTS, LEADING, OPERATOR
from haptic_ros.leader import LeaderNode, LeaderTrialParameters
from haptic_ros.process import run
from haptic_ros.servo import ServoNode
from haptic_ros.standard_topics import DeviceTopics
from haptic_sim import inputs
from haptic_sim.messages import (
    REASONS,
    STATES,
    DeviceCommand,
    DeviceState,
    Message,
    MessageError,
    OperatorEvent,
    pack,
)
from haptic_sim.parameters import ParameterError, quantity
from haptic_sim.worlds.scenes import AnyToolParameters


class DriverTrialParameters(LeaderTrialParameters):
    """Parameters of a trial that the driver needs."""

    device: AnyDeviceParameters = quantity(description="The haptic device")
    operator: AnyOperatorParameters = quantity(description="The simulated hand")
    tool: AnyToolParameters = quantity(description="The virtual tool, whose inertia a device may share")
    hand: HandParameters = quantity(description="Pose of the tool's hand at the start")
    seed: int = quantity(0, description="Seed of everything random", ge=0)
    guard: GuardParameters = quantity(GuardParameters(), description="The guard of the device's port")


class DriverNode(LeaderNode):
    """A driver as a node."""

    NAME: ClassVar[str] = "driver"
    Config: ClassVar[Any] = DriverTrialParameters
    config: DriverTrialParameters
    _link: Link | None = None  # to hardware, as long as it is open
    _requests: DeviceRequests | None = None
    _external: ExternalDevice | None = None  # the same device, where it is a node of the user's own

    def build(self) -> None:
        """Make the core from `self.config`."""
        config = self.config
        table = table_of(config.operator)
        arguments = (config.device, config.operator, config.tool, config.rate, table, config.hand, config.seed)
        build_driver(*arguments, config.guard).warm_up()
        self._link = self._open(config)
        self._core = build_driver(*arguments, config.guard, self._link)
        self._core.clock = time.monotonic if config.realtime else None
        self._state, self._command, self._received = DeviceState(), DeviceCommand(), DeviceCommand()
        pack(self._state, self._command, self._received)
        self._command.tick = self._sensed = self._commanded = -1  # ticks of the last state and of the last command
        self._event = OperatorEvent()  # as it was received
        self._leading, self._led = DeviceState(), -1  # the first driver's state, and its tick
        self._resumes = True  # whether the next tick is the first of an activation
        self.open_trial()

    def _open(self, config: DriverTrialParameters) -> Link | None:
        """The line to the device, which is open; None of a simulated one.

        Raises:
            ParameterError: the device cannot be opened, or the trial is not in realtime.
        """
        self._close_device()
        device = config.device
        if device.EXTERNAL:
            return self._open_external(config)
        if device.HARDWARE and not config.realtime:
            raise ParameterError([f"mode = {config.mode}: {device.label} is hardware, which runs in real time only"])
        link = device.connect(config.rate, self.notify)
        if link is not None:
            self._requests = DeviceRequests(self, link.ask)
        return link

    def _open_external(self, config: DriverTrialParameters) -> Link:
        """The line to a device that is a node of the user's own; in lockstep its time is that of the trial."""
        device, period = config.device, 1.0 / config.rate
        assert isinstance(device, MeasuredDeviceParameters)
        self._external = external = ExternalDevice(self)
        clock = time.monotonic_ns if config.realtime else external.time
        link = Link(external, device, period, clock, watch=config.realtime, notify=self.notify)
        link.open()
        self._requests = DeviceRequests(self, link.ask)
        return link

    def types(self) -> dict[str, str]:
        """The topics by which it meets others before the start, and the types of their messages."""
        return super().types() | ({} if self._external is None else TYPES)

    def prepared(self) -> bool:
        """Whether this node can start the trial."""
        return self._external is None or self._external.is_found()

    def release(self) -> None:
        """Leave what this node drives without force, at once; from any thread."""
        if (link := self._link) is not None:
            link.release()

    def _close_device(self) -> None:
        """Close the device, if there is one."""
        link, self._link = self._link, None
        if self._requests is not None:
            self._requests.close()
            self._requests = None
        if link is not None:
            link.close()
        external, self._external = self._external, None
        if external is not None:
            external.destroy()

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the topics and the device."""
        cleaned = super().on_cleanup(state)
        self._close_device()
        return cleaned

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the device, and end the process."""
        ended = super().on_shutdown(state)
        self._close_device()
        return ended

    def destroy_node(self) -> None:
        """Close the device and all that is of this node, however it ends."""
        self._close_device()
        super().destroy_node()

    def standard_topics(self, rate: float, reliable: bool) -> DeviceTopics:
        """The topics of standard messages that this node has; None: none."""
        return DeviceTopics(self, rate, reliable, self.config.device.known().linkage)

    def has(self, topic: str) -> bool:
        """Whether this node has an optional topic of its role with its present parameters."""
        operator = self.config.operator
        if topic == "device_reading":
            return self.config.device.HARDWARE and self.config.recorded
        return is_live(operator) if topic == OPERATOR else operator.EVENTS

    def serve(self) -> None:
        """The servo thread's work: run the trial; whatever ends it, the device is left passive."""
        try:
            if self.config.of_hand:
                self._resumes = True
                ServoNode.serve(self)
                if self._broken:
                    self._fail(self._broken)
            else:
                super().serve()
        finally:
            self._core.release()

    def next_tick(self) -> int:
        """The first tick whose computation is yet to come."""
        return self._sensed + 1

    def receive(self, topic: str, data: bytes | Message) -> None:
        """Answer a message: its bytes, or in a composition the message itself; MessageError refuses it."""
        if topic == EVENTS:
            self.receive_event(data)
        elif topic == LEADING:
            self._leading.load(data)
            again = self._leading.tick == self._led
            self._led = self._leading.tick
            if again and not self.realtime and self._sensed >= 0:
                self.again()  # in case it was lost, or what answers it
            self._keep_up()
        elif topic == OPERATOR:
            assert self._core.events is not None
            self._event.load(data)
            self._core.events.offer(self._event)
        else:
            self._take_command(data)
            if self.config.of_hand and not self.realtime:
                self._keep_up()

    def _keep_up(self) -> None:
        """Begin, for a further hand, the ticks that the first driver has begun; in lockstep, when the last is answered.

        A tick that was missed is made up for, so that the time of all hands is the same.
        """
        while self._sensed < self._led:
            if self._resumes:
                self._resumes = False
                self.resume(self._led)
                self.begin(self._led)
                continue
            if not self.realtime and self._commanded != self._sensed:
                return
            self.complete()
            self.begin(self._sensed + 1)

    def _take_command(self, data: bytes | Message) -> None:
        """Take a device command."""
        received = self._received
        received.load(data)
        tick, last = received.tick, self._commanded
        if tick <= last:
            if not self.realtime:
                return  # an answer that was sent again
            raise MessageError(f"device_command {tick}: is of the past, after {last}")
        if tick > self._sensed:
            if self.endless:
                self.reached = max(self.reached, tick)
                return
            raise MessageError(f"device_command {tick}: is of the future, at {self._sensed}")
        if not received.is_finite():
            raise MessageError(f"device_command {tick}: not finite")
        self._command, self._received, self._commanded = received, self._command, tick

    def resume(self, tick: int) -> None:
        """Begin an activation at `tick` from zero force; a command of an earlier tick is of the activation before."""
        self._core.activate(tick)
        self._core.enable()
        self._command.tick, self._commanded = -1, tick - 1

    def begin(self, tick: int) -> int:
        """Publish what begins a tick; returns when [ns, monotonic]."""
        if self._external is not None:
            self._external.begin(tick)
        time_of_tick = self.time_of(tick)
        self._core.sense(tick, self._state, time_of_tick)
        if (event := self._core.event(tick)) is not None:
            event.stamp(tick, time_of_tick)
            self.send("operator_events", event)
        self._broken = self._broken or self._core.fault
        self._sensed = tick
        sent = time.monotonic_ns()
        self.send("device_state", self._state)
        if "device_reading" in self.transport.publishers:
            self.send("device_reading", self._core.reading)
        return sent

    def again(self) -> None:
        """Publish it again: no answer came."""
        self.send("device_state", self._state)

    def answered(self) -> int:
        """The last tick that was answered, -1: none."""
        return self._commanded

    def complete(self) -> None:
        """End a tick with the latest command.

        In realtime, what commands again after a gap begins softly; in a graph that only runs also what begins late.
        """
        core, command = self._core, self._command
        if self.endless and core.resumes(command):
            core.activate(command.tick, self._sensed)
        if self.realtime:
            core.follow(command)
        else:
            core.actuate(command)

    def conclude(self, tick: int) -> None:
        """Publish the state after the last tick; `tick` is the first that was not executed."""
        self.begin(tick)

    def counts(self) -> dict[str, int]:
        """Further entries of the timing."""
        core = self._core
        return {
            "saturations": core.saturations,
            "bounded": core.bounded,
            "expired": core.expired,
            "refused": self.refused + core.refused,
            "rejected_readings": core.rejected,
        }

    def health(self) -> tuple[str, dict[str, object]]:
        """Content of /diagnostics for this node: its trouble (empty: none) and values."""
        trouble, values = super().health()
        core, state = self._core, self._state
        if self._link is not None:
            life = self._link.life
            values |= {"device": self._link.title, "fault": life.fault}
            values |= {"motion scale": life.motion_scale, "force scale": life.force_scale}
            values["age of the reading [s]"] = state.reading_age
            trouble = life.fault or trouble
        if core.rejected:
            trouble = f"{core.rejected} readings of the device were rejected"
        if core.expired:
            trouble = f"{core.expired} ticks without force: the last command was too old"
        return trouble, values | {
            "state": STATES[state.state],
            "no force because": REASONS[state.reason],
            "saturations": core.saturations,
            "bounded ticks": core.bounded,
            "ticks without force": core.expired,
            "rejected readings": core.rejected,
            "guard": "passivity" if core.guard_acts else "none",
            "ticks changed by the guard": core.guarded,
            "port energy [J]": state.port_energy.tolist(),
            "energy kept by the guard [J]": state.port_dissipated.tolist(),
        }


def table_of(operator: AnyOperatorParameters) -> np.ndarray | None:
    """The rows of the operator's file, None for those without one.

    Raises:
        ParameterError: the file cannot be read, or as `read_file`.
    """
    key = operator.file_key
    if not key:
        return None
    path = getattr(operator, key)
    try:
        return operator.read_file(inputs.read_text(path, inputs.DATA).splitlines(), path)
    except inputs.InputError as error:
        raise ParameterError([f"operator.{key} = {inputs.shown(path)}: {error}"]) from error


def is_live(operator: AnyOperatorParameters) -> bool:
    """Whether the operator is a person, whose events come on a topic."""
    return operator.EVENTS and not operator.file_key


def main() -> None:
    """Entry point of the process."""
    run(DriverNode)


if __name__ == "__main__":
    main()
