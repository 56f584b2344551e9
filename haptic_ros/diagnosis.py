"""Status of a node on /diagnostics, once a second while somebody subscribes to it."""

from __future__ import annotations

import struct
import threading
import time
import traceback
from collections.abc import Mapping
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray

from haptic_ros.middleware.reception import raw_time

PERIOD = 1.0  # [s]
CLOSING = 1.0  # [s] for what is being published to be done
# [s] between two parts of the work, in which nothing of it has Python's lock: more than a tick at 5 kHz takes, so that
# no tick waits for two of them
PAUSE = 1e-3

OK, WARN = b"\0", b"\1"  # as in diagnostic_msgs/DiagnosticStatus


class Diagnosis:
    """Watches over a ServoNode and publishes its health, in a thread of its own, from now on until `close`.

    It is no timer of the executor: a turn of that takes Python's lock for more than a millisecond, in each of which the
    servo thread waits for it several times. For the same reason the work is done in parts, and the message is written
    as bytes instead of as an object of rclpy.
    """

    def __init__(self, node: Any):
        self._node, self._closing = node, threading.Event()
        self._name, self._hardware = f"{node.get_fully_qualified_name()}: servo", node.get_name()
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._now = raw_time(node.get_clock())
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
                self._node.monitor()
                if self._publisher.get_subscription_count():
                    self._publish_status()
            except Exception:
                if not self._closing.is_set():
                    self._node.get_logger().error(f"no status is published on /diagnostics:\n{traceback.format_exc()}")

    def _publish_status(self) -> None:
        pause()
        trouble, values = self._node.health()
        pause()
        data = serialise(self._now(), self._name, trouble, self._hardware, values)
        pause()
        self._publisher.publish(data)


def pause() -> None:
    """Leave the processor to the servo thread, between two parts of what is done beside it."""
    time.sleep(PAUSE)


def serialise(nanoseconds: int, name: str, trouble: str, hardware: str, values: Mapping[str, object]) -> bytes:
    """A diagnostic_msgs/DiagnosticArray with one status, as CDR (little endian).

    Args:
        nanoseconds: its stamp.
        name: of the status.
        trouble: its message, with which it is a warning; empty: it is well.
        hardware: its `hardware_id`.
        values: its values, which are written as text.
    """
    data = bytearray(struct.pack("<iI", *divmod(nanoseconds, 1_000_000_000)))
    _add(data, "")  # frame_id
    _add_number(data, 1)  # of statuses
    data += WARN if trouble else OK
    for text in (name, trouble or "OK", hardware):
        _add(data, text)
    _add_number(data, len(values))
    for key, value in values.items():
        _add(data, key)
        _add(data, str(value))
    return b"\0\1\0\0" + bytes(data)


def _add(data: bytearray, text: str) -> None:
    """Append a string: its length with the zero at its end, and its text."""
    encoded = text.encode() + b"\0"
    _add_number(data, len(encoded))
    data += encoded


def _add_number(data: bytearray, number: int) -> None:
    """Append a uint32, which is aligned."""
    data += bytes(-len(data) % 4) + struct.pack("<I", number)
