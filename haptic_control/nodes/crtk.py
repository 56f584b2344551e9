"""Bridge to clients of CRTK, the convention of surgical and medical robots: it takes the place of a controller.

The driver publishes device_state of tick k, and is answered with device_command k: the wrench that a client has
commanded with `servo_cf`. All limits are the driver's, as with any controller.
"""

from __future__ import annotations

import math
import time
from typing import Any, ClassVar

from geometry_msgs.msg import WrenchStamped
from haptics import msg
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.qos import QoSProfile, ReliabilityPolicy

from haptic_control.crtk import STATES, CrtkParameters, HeldWrench, StateOfDevice, StateReport
from haptic_control.device_model import Numbers
from haptic_ros.process import run
from haptic_ros.servo import ServoNode
from haptic_ros.standard_topics import RELIABLE, DeviceTopics, base_frame
from haptic_ros.trial import TrialParameters
from haptic_sim.messages import FORCE, NOTHING, DeviceCommand, DeviceState, Message, MessageError
from haptic_sim.parameters import quantity

try:
    from crtk_msgs.msg import OperatingState, StringStamped
except ImportError:  # in no registry
    OperatingState = StringStamped = None

STATE_PERIOD = 0.005  # [s] between two looks whether the state has changed
SERVO = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Takes from publishers of both kinds; of commands the last one counts."""


class CrtkTrialParameters(TrialParameters):
    """Parameters of a trial that the bridge needs."""

    controller: CrtkParameters = quantity(CrtkParameters(), description="Interface of the device by the convention")
    hardware: bool = quantity(False, description="Whether the driver takes requests; a simulated device takes none")
    linkage: Numbers | None = quantity(
        None, description="A device that is a twin pantograph: the numbers of device.linkage, then of device.mount"
    )


class CrtkNode(ServoNode):
    """The bridge as a node; in its graph it is the controller."""

    NAME: ClassVar[str] = "controller"
    Config: ClassVar[Any] = CrtkTrialParameters
    config: CrtkTrialParameters

    def build(self) -> None:
        """Make the core from `self.config`."""
        parameters = self.config.controller
        self._device, self._command = DeviceState(), DeviceCommand()
        self._command.tick = -1
        self._states = StateOfDevice(self.config.hardware)
        self._last_received = math.inf  # when the device's last state came [s]; before the first it is DISABLED
        self._held = HeldWrench(base_frame(self), parameters.watchdog)
        self._reports = StateReport(parameters.state_rate)
        self._requests = self.create_publisher(msg.DeviceRequest, "device_request", RELIABLE)
        self._servo = self.create_subscription(WrenchStamped, "servo_cf", self._take_wrench, SERVO)
        if OperatingState is None:
            self.get_logger().warning(
                "crtk_msgs is not installed: operating_state and state_command are left out (docs/crtk.md)"
            )
            self._state_topics: tuple[Any, ...] = ()
            return
        self._reporter = self.create_publisher(OperatingState, "operating_state", RELIABLE)
        commands = self.create_subscription(StringStamped, "state_command", self._take_state_command, RELIABLE)
        self._state_topics = self._reporter, commands, self.create_timer(STATE_PERIOD, self._report_state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the topics."""
        self.destroy_subscription(self._servo)
        self.destroy_publisher(self._requests)
        if self._state_topics:
            reporter, commands, timer = self._state_topics
            self.destroy_timer(timer)
            self.destroy_subscription(commands)
            self.destroy_publisher(reporter)
        return super().on_cleanup(state)

    def standard_topics(self, rate: float, reliable: bool) -> DeviceTopics:
        """The topics of standard messages that this node has; None: none."""
        return DeviceTopics(self, rate, reliable, self.config.linkage)

    def next_tick(self) -> int:
        """The first tick whose computation is yet to come."""
        return self._command.tick + 1

    # In the servo thread

    def receive(self, topic: str, data: bytes | Message) -> None:
        """Answer a message: its bytes, or in a composition the message itself; MessageError refuses it."""
        device, command, now = self._device, self._command, time.monotonic()
        device.load(data)
        self.last_sent[topic] = data if isinstance(data, bytes) else data.to_bytes()
        self._last_received = now
        if device.tick > command.tick:  # else of a driver that is new, and learns from the answer how late it is
            command.stamp(device.tick, device.nanoseconds)
            command.device_tick = device.tick
        if self._state() != "ENABLED":
            self._held.forget()  # what was commanded before is not rendered when the device is enabled again
        wrench = self._held.at(now)
        command.mode = NOTHING if wrench is None else FORCE
        command.wrench[:] = 0.0 if wrench is None else wrench
        self.send("device_command", command)

    # In the executor's thread

    def _state(self) -> str:
        """One of STATES."""
        return self._report()[0]

    def _report(self) -> tuple[str, bool]:
        """State, and whether the device is homed; FAULT if none of its states arrives."""
        silent = time.monotonic() > self._last_received + self.config.controller.silence
        return self._states.of("FAULT" if silent else STATES[self._device.state], self._device.reason)

    def _take_wrench(self, message: WrenchStamped) -> None:
        """Hold a wrench for the servo thread."""
        force, torque = message.wrench.force, message.wrench.torque
        wrench = force.x, force.y, force.z, torque.x, torque.y, torque.z
        try:
            if (state := self._state()) != "ENABLED":
                raise MessageError(f"servo_cf in state {state}: is followed in ENABLED")
            self._held.take(message.header.frame_id, wrench, time.monotonic())
        except MessageError as error:
            self.refuse(error)

    def _take_state_command(self, message: Any) -> None:
        """Ask the driver for what a client commands; say so when that is not allowed."""
        try:
            if request := self._states.ask(message.string, self._state()):
                number = getattr(msg.DeviceRequest, request.upper())
                self._requests.publish(msg.DeviceRequest(request=number))
        except MessageError as error:
            self.refused += 1
            self.get_logger().warning(f"refused: {error}")

    def _report_state(self) -> None:
        """Publish operating_state, if that is due."""
        report = self._report()
        if self._reports.due(report, time.monotonic()):
            message = OperatingState(state=report[0], is_homed=report[1], is_busy=False)
            stamp = self._reports.stamp(self.get_clock().now().nanoseconds)
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 1_000_000_000)
            self._reporter.publish(message)


def main() -> None:
    """Entry point of the process."""
    run(CrtkNode)


if __name__ == "__main__":
    main()
