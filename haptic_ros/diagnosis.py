"""What a node says of itself on /diagnostics, once a second."""

from __future__ import annotations

import threading
import traceback
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

PERIOD = 1.0  # [s]
CLOSING = 1.0  # [s] for what is being published to be done


class Diagnosis:
    """Publishes the health of a ServoNode, in a thread of its own, from now on until `close`.

    It is no timer of the executor: a turn of that takes Python's lock for more than a millisecond, in each of which the
    servo thread waits for it several times.
    """

    def __init__(self, node: Any):
        self._node, self._closing = node, threading.Event()
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._thread = threading.Thread(target=self._run, name="diagnosis", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Publish no more."""
        self._closing.set()
        self._thread.join(CLOSING)
        self._node.destroy_publisher(self._publisher)

    def _run(self) -> None:
        while not self._closing.wait(PERIOD):
            try:
                self._publish()
            except Exception:
                if not self._closing.is_set():
                    self._node.get_logger().error(f"nothing is said on /diagnostics:\n{traceback.format_exc()}")

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
