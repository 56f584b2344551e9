"""Requests to a hardware device, and its emergency stop, as topics and a service in the driver's namespace.

    device_request    haptics/msg/DeviceRequest    what is asked; what is refused is said in the log
    emergency_stop    std_msgs/Bool                true stops; it ends by a request RESET alone, while DISABLED
    emergency_stop    std_srvs/Trigger             the same as a service, where std_srvs is installed

A stop that was published before the driver came reaches it, if its publisher keeps it (transient local).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from haptics.msg import DeviceRequest
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import Bool

from haptic_drivers.devices.life import Request

try:
    from std_srvs.srv import Trigger
except ImportError:  # of ROS 2's own packages; the wheels have none
    Trigger = None

REQUESTS = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)  # volatile: no stale "enable" at a restart
BEST_EFFORT = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)  # hears whoever publishes, however
LATCHED = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class DeviceRequests:
    """Takes the requests of a driver, in the executor's threads.

    Args:
        node: a driver.
        ask: takes a request and its value at once; returns why not, empty if it is done.
    """

    def __init__(self, node: Any, ask: Callable[[Request, float], str]):
        self._node, self._ask = node, ask
        group = ReentrantCallbackGroup()
        self._taken = [
            node.create_subscription(DeviceRequest, "device_request", self._take, REQUESTS, callback_group=group),
            *(
                node.create_subscription(Bool, "emergency_stop", self._stop, qos, callback_group=group)
                for qos in (LATCHED, BEST_EFFORT)
            ),
        ]
        self._service = None
        if Trigger is not None:
            self._service = node.create_service(Trigger, "emergency_stop", self._serve, callback_group=group)

    def close(self) -> None:
        """Take none any more."""
        for one in self._taken:
            self._node.destroy_subscription(one)
        if self._service is not None:
            self._node.destroy_service(self._service)

    def _take(self, message: Any) -> None:
        try:
            request = Request(message.request)
        except ValueError:
            self._node.get_logger().error(
                f"device_request: request = {message.request}: must be at most {max(Request)}"
            )
            return
        self._do(request, message.value)

    def _do(self, request: Request, value: float = 0.0) -> str:
        refused = self._ask(request, value)
        if refused:
            self._node.get_logger().error(f"refused: {refused}")
        else:
            self._node.get_logger().info(f"device: {request.name.lower()}")
        return refused

    def _stop(self, message: Any) -> None:
        if message.data:
            self._do(Request.STOP)

    def _serve(self, request: Any, response: Any) -> Any:
        refused = self._do(Request.STOP)
        response.success, response.message = not refused, refused or "no force until a request RESET"
        return response
