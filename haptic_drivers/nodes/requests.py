"""Requests to a hardware device, and its emergency stop, as topics and a service in the driver's namespace.

    device_request    haptics/msg/DeviceRequest    what is asked; what is refused is said in the log
    emergency_stop    std_msgs/Bool                true stops; it ends by a request RESET alone, while DISABLED
    emergency_stop    std_srvs/Trigger             the same as a service, where std_srvs is installed

They have a thread of their own, which no callback of the driver's parameters or lifecycle can hold up.

A stop is received from every publisher, whatever its quality of service. One that keeps its last message (transient
local), as `ros2 topic pub` does, also stops a driver that comes later, as after a restart: the stop is still pressed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from haptics.msg import DeviceRequest
from rclpy.clock import Clock, ClockType
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import Bool

from haptic_drivers.devices.life import Request
from haptic_ros.callbacks import OwnThread

try:
    from std_srvs.srv import Trigger
except ImportError:  # of ROS 2's own packages; the wheels have none
    Trigger = None

STOP = "emergency_stop"
DISCOVERY_PERIOD = 0.1  # [s] between two looks for publishers of a stop
REQUESTS = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)  # volatile: no stale "enable" at a restart


class DeviceRequests:
    """Takes the requests of a driver.

    Args:
        node: a driver.
        ask: takes a request and its value at once; returns why not, empty if it is done.
    """

    def __init__(self, node: Any, ask: Callable[[Request, float], str]):
        self._node, self._ask = node, ask
        self._own = OwnThread(node, "requests")
        self._requests = node.create_subscription(
            DeviceRequest, "device_request", self._take, REQUESTS, callback_group=self._own
        )
        self._stops: dict[tuple[ReliabilityPolicy, DurabilityPolicy], Any] = {}
        self._listen(ReliabilityPolicy.BEST_EFFORT, DurabilityPolicy.VOLATILE)  # which receives all from now on
        steady = Clock(clock_type=ClockType.STEADY_TIME)  # there may be no simulated time
        self._timer = node.create_timer(DISCOVERY_PERIOD, self._discover, callback_group=self._own, clock=steady)
        self._service = None
        if Trigger is not None:
            self._service = node.create_service(Trigger, STOP, self._serve, callback_group=self._own)
        self._own.start()

    def close(self) -> None:
        """Take none any more."""
        self._own.close()
        self._node.destroy_timer(self._timer)
        for one in (self._requests, *self._stops.values()):
            self._node.destroy_subscription(one)
        if self._service is not None:
            self._node.destroy_service(self._service)

    def _discover(self) -> None:
        """Listen to each publisher of a stop in the quality that it offers: nothing is lost, and none is warned."""
        for publisher in self._node.get_publishers_info_by_topic(STOP):
            self._listen(publisher.qos_profile.reliability, publisher.qos_profile.durability)

    def _listen(self, reliability: ReliabilityPolicy, durability: DurabilityPolicy) -> None:
        if (reliability, durability) not in self._stops:
            qos = QoSProfile(depth=10, reliability=reliability, durability=durability)
            subscription = self._node.create_subscription(Bool, STOP, self._stop, qos, callback_group=self._own)
            self._stops[reliability, durability] = subscription

    def _take(self, message: Any) -> None:
        try:
            request = Request(message.request)
        except ValueError:
            self._node.get_logger().error(
                f"device_request: request = {message.request}: must be at most {max(Request)}"
            )
            return
        self._execute(request, message.value)

    def _execute(self, request: Request, value: float = 0.0) -> str:
        refused = self._ask(request, value)
        if refused:
            self._node.get_logger().error(f"refused: {refused}")
        else:
            self._node.get_logger().info(f"device: {request.name.lower()}")
        return refused

    def _stop(self, message: Any) -> None:
        if message.data:
            self._execute(Request.STOP)

    def _serve(self, request: Any, response: Any) -> Any:
        refused = self._execute(Request.STOP)
        response.success, response.message = not refused, refused or "no force until a request RESET"
        return response
