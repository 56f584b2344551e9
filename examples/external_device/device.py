"""A device that is a node of one's own: a simulated handle that a hand pushes, in the place of hardware.

    ./haptics run examples/external_device/external_handle.yaml --mode lockstep --namespace handle &
    ./haptics shell python examples/external_device/device.py --ros-args -r __ns:=/handle

In lockstep it answers device_written k - 1 with device_measured k, and a repeated command gets the same answer. With
`-p realtime:=true` it measures at its own rate, renders the newest command, and nothing when that is too old.
"""

import contextlib
import signal
import time

import rclpy
from haptics.msg import DeviceCommand, DeviceReading, TrialEvent
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

RATE, MASS, DAMPING, PUSH = 500.0, 0.5, 8.0, 2.0  # [Hz], [kg], [N s/m], [N]: of the handle, and of the hand along x
WATCHDOG = 0.02  # [s] after which the last command is not rendered any more
SERVO = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
EVENTS = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class Device(Node):
    """A mass with viscous damping that moves along x."""

    def __init__(self) -> None:
        super().__init__("device")  # the name by which the trial knows it
        self.realtime = self.declare_parameter("realtime", False).value
        self.to_driver = self.create_publisher(DeviceReading, "device_measured", SERVO)
        self.events = self.create_publisher(TrialEvent, "trial_events", EVENTS)
        self.of_driver = self.create_subscription(DeviceCommand, "device_written", self.receive, SERVO)
        self.create_subscription(TrialEvent, "trial_events", self.follow, EVENTS)
        self.position = self.velocity = self.force = 0.0
        self.received = 0.0  # when the last command came [s]
        self.reading = DeviceReading(tick=0)
        self.reading.header.frame_id = "base"
        self.reading.pose.orientation.w = 1.0
        self.waiting = self.create_timer(0.02, self.announce)
        if self.realtime:
            self.create_timer(1.0 / RATE, self.measure)

    def announce(self) -> None:
        """Publish that this node is ready, once the driver is found."""
        if self.to_driver.get_subscription_count() and self.of_driver.get_publisher_count():
            self.events.publish(TrialEvent(tick=-1, node="device", name="ready"))
            self.waiting.cancel()

    def follow(self, event: TrialEvent) -> None:
        """End with the trial."""
        if event.name in ("finished", "interrupted"):
            rclpy.try_shutdown()

    def receive(self, command: DeviceCommand) -> None:
        """Take what is to be rendered; in lockstep, move for a period and answer."""
        self.force = command.wrench.force.x if command.mode == DeviceCommand.FORCE else 0.0
        self.received = time.monotonic()
        if not self.realtime:
            if command.tick == self.reading.tick:
                self.move()
            self.to_driver.publish(self.reading)

    def measure(self) -> None:
        """In realtime: move for a period, and publish where the handle is."""
        if time.monotonic() - self.received > WATCHDOG:
            self.force = 0.0  # the driver has ended, or is late
        self.move()
        self.to_driver.publish(self.reading)

    def move(self) -> None:
        """Integrate the handle over a period under the hand's push and what is rendered."""
        self.velocity += (PUSH + self.force - DAMPING * self.velocity) / MASS / RATE
        self.position += self.velocity / RATE
        self.reading.tick += 1
        self.reading.pose.position.x, self.reading.twist.linear.x = self.position, self.velocity


def main() -> None:
    """Run the node until the trial ends."""
    rclpy.init()
    signal.signal(signal.SIGTERM, lambda *_: rclpy.try_shutdown())
    with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
        rclpy.spin(Device())


if __name__ == "__main__":
    main()
