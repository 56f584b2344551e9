"""An environment that is a node of one's own: a mass before a wall that is a spring.

    ./haptics run examples/external_environment/external_mass.yaml --mode lockstep --namespace mass &
    ./haptics shell python examples/external_environment/environment.py --ros-args -r __ns:=/mass

It answers tool_command k with tool_state k. A repeated command gets the same answer.
"""

import contextlib
import signal

import rclpy
from haptics.msg import ToolCommand, ToolState, TrialEvent
from rclpy.duration import Duration
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.time import Time

RATE, MASS, STIFFNESS, WALL = 500.0, 0.5, 500.0, 0.002  # [Hz], [kg], [N/m], [m]
FREE, RESTING = 0, 2
SERVO = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
EVENTS = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)
LISTENERS = 2  # of a tool state: the controller and the recorder


class Environment(Node):
    """See the module."""

    def __init__(self) -> None:
        super().__init__("environment")  # the name by which the other nodes know it
        self.to_controller = self.create_publisher(ToolState, "tool_state", SERVO)
        self.events = self.create_publisher(TrialEvent, "trial_events", EVENTS)
        self.of_controller = self.create_subscription(ToolCommand, "tool_command", self.step, SERVO)
        self.create_subscription(TrialEvent, "trial_events", self.follow, EVENTS)
        self.place, self.velocity = [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
        self.state = ToolState(tick=-1, command_tick=-1, geometry_tick=-1)
        self.state.header.frame_id = "world"
        self.state.pose.orientation.w = 1.0
        self.state.inverse_inertia = [1.0 / MASS if i in (0, 7, 14) else 0.0 for i in range(36)]
        self.state.q, self.state.v = [*self.place, 0.0, 0.0, 0.0, 1.0], [0.0] * 6
        self.ready = False
        self.waiting = self.create_timer(0.02, self.announce)

    def announce(self) -> None:
        """Say where the tool is, until the first command; and once all peers are found, that this node is ready."""
        if self.state.tick >= 0:
            self.waiting.cancel()
            return
        self.to_controller.publish(self.state)
        found = self.to_controller.get_subscription_count() >= LISTENERS and self.of_controller.get_publisher_count()
        if found and not self.ready:
            self.ready = True
            self.events.publish(TrialEvent(tick=-1, node="environment", name="ready"))

    def follow(self, event: TrialEvent) -> None:
        """End with the trial."""
        if event.name in ("finished", "interrupted"):
            rclpy.try_shutdown()

    def step(self, command: ToolCommand) -> None:
        """Advance by tick k under the controller's wrench, which acts on the tool, and the wall's."""
        state = self.state
        if command.tick == state.tick + 1:
            wall = min(0.0, -STIFFNESS * (self.place[0] - WALL))
            for i, axis in enumerate("xyz"):
                pushed = wall if i == 0 else 0.0
                self.velocity[i] += (getattr(command.wrench.force, axis) + pushed) / MASS / RATE
                self.place[i] += self.velocity[i] / RATE
            state.tick, state.command_tick = command.tick, command.tick
            after = round((command.tick + 1) * 1e9 / RATE) - round(command.tick * 1e9 / RATE)  # [ns]
            state.header.stamp = (Time.from_msg(command.header.stamp) + Duration(nanoseconds=after)).to_msg()
            state.contacts, state.contact_state = int(wall < 0.0), RESTING if wall < 0.0 else FREE
            state.wrench.force.x = wall
            state.impulse[0] += wall / RATE
            state.kinetic_energy = 0.5 * MASS * sum(v * v for v in self.velocity)
            put(state.pose.position, self.place)
            put(state.twist.linear, self.velocity)
            state.q, state.v = [*self.place, 0.0, 0.0, 0.0, 1.0], [*self.velocity, 0.0, 0.0, 0.0]
        if command.tick == state.tick:
            self.to_controller.publish(state)


def put(vector, values) -> None:
    """Fill in a vector of a message."""
    vector.x, vector.y, vector.z = values


def main() -> None:
    """Run the node until the trial ends."""
    rclpy.init()
    signal.signal(signal.SIGTERM, lambda *_: rclpy.try_shutdown())
    with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
        rclpy.spin(Environment())


if __name__ == "__main__":
    main()
