"""A controller that is a node of one's own: a spring and a damper, in the place of the node `controller`.

    ./haptics run examples/external_controller/external_wall.yaml --mode lockstep --namespace wall &
    ./haptics shell python examples/external_controller/controller.py --ros-args -r __ns:=/wall

It answers device_state k with tool_command k and tool_state k with device_command k. A repeated state gets
the same answer.
"""

import contextlib
import signal

import rclpy
from haptics.msg import DeviceCommand, DeviceState, ToolCommand, ToolState, TrialEvent
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

STIFFNESS, DAMPING = 300.0, 5.0  # [N/m], [N s/m]
SERVO = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
EVENTS = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)
LISTENERS = 2  # of a command: the tool's side or the driver, and the recorder


class Controller(Node):
    """See the module."""

    def __init__(self) -> None:
        super().__init__("controller")  # the name by which the other nodes know it
        self.to_tool = self.create_publisher(ToolCommand, "tool_command", SERVO)
        self.to_device = self.create_publisher(DeviceCommand, "device_command", SERVO)
        self.events = self.create_publisher(TrialEvent, "trial_events", EVENTS)
        self.of_device = self.create_subscription(DeviceState, "device_state", self.coordinate, SERVO)
        self.of_tool = self.create_subscription(ToolState, "tool_state", self.command, SERVO)
        self.create_subscription(TrialEvent, "trial_events", self.follow, EVENTS)
        self.tool = self.answer = None
        self.waiting = self.create_timer(0.02, self.announce)

    def announce(self) -> None:
        """Tell that this node is ready, once all its peers are found and the tool has said where it is."""
        found = all(one.get_subscription_count() >= LISTENERS for one in (self.to_tool, self.to_device))
        if found and self.of_device.get_publisher_count() and self.tool is not None:
            self.events.publish(TrialEvent(tick=-1, node="controller", name="ready"))
            self.waiting.cancel()

    def follow(self, event: TrialEvent) -> None:
        """End with the trial."""
        if event.name in ("finished", "interrupted"):
            rclpy.try_shutdown()

    def coordinate(self, device: DeviceState) -> None:
        """Command the tool in tick k, from its newest state: in lockstep that of tick k - 1."""
        if self.tool is None:
            return  # the trial has not begun
        if self.answer is not None and self.answer.tick == device.tick:
            self.to_device.publish(self.answer)
            return
        self.force, self.device = [0.0, 0.0, 0.0], device
        for i, axis in enumerate("xyz"):
            distance = getattr(self.tool.pose.position, axis) - getattr(device.pose.position, axis)
            rate = getattr(self.tool.twist.linear, axis) - getattr(device.twist.linear, axis)
            self.force[i] = STIFFNESS * distance + DAMPING * rate
        sent = ToolCommand(header=device.header, tick=device.tick, tool_tick=self.tool.tick)
        put(sent.wrench.force, [-one for one in self.force])
        self.to_tool.publish(sent)

    def command(self, tool: ToolState) -> None:
        """Command the device in tick k."""
        self.tool = tool
        if tool.tick >= 0 and (self.answer is None or self.answer.tick < tool.tick):
            answer = DeviceCommand(header=self.device.header, tick=tool.tick, device_tick=self.device.tick)
            put(answer.wrench.force, self.force)
            self.answer = answer
            self.to_device.publish(answer)


def put(vector, values) -> None:
    """Fill in a vector of a message."""
    vector.x, vector.y, vector.z = values


def main() -> None:
    """Run the node until the trial ends."""
    rclpy.init()
    signal.signal(signal.SIGTERM, lambda *_: rclpy.try_shutdown())
    with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
        rclpy.spin(Controller())


if __name__ == "__main__":
    main()
