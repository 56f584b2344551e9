"""What a node says of itself on /diagnostics, once a second."""

from __future__ import annotations

from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue


class Diagnosis:
    """Publishes the health of a ServoNode, in its executor's thread, from now on until `close`."""

    def __init__(self, node: Any):
        self._node = node
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._timer = node.create_timer(1.0, self._publish)

    def close(self) -> None:
        """Publish no more."""
        self._node.destroy_timer(self._timer)
        self._node.destroy_publisher(self._publisher)

    def _publish(self) -> None:
        node = self._node
        node.monitor()
        trouble, values = node.health()
        status = DiagnosticStatus(
            level=DiagnosticStatus.WARN if trouble else DiagnosticStatus.OK,
            name=f"{node.get_fully_qualified_name()}: servo",
            message=trouble or "OK",
            hardware_id=node.get_name(),
            values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
        )
        message = DiagnosticArray(status=[status])
        message.header.stamp = node.get_clock().now().to_msg()
        self._publisher.publish(message)
