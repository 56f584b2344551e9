"""A device that is a node of one's own: what the driver has of it, by two topics in the driver's namespace.

    device_measured    haptics/msg/DeviceReading    the node publishes what it has measured
    device_written     haptics/msg/DeviceCommand    the driver publishes what the node shall render

The driver reads and writes it as it does hardware (`haptic_drivers.devices.interface`), so its limits, watchdogs, guard
and emergency stop act. In lockstep the two exchange one message each before a tick; a command is repeated until it is
answered. Both messages are at the hand point in the axes of the device's base, `header.frame_id` is `base`.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import Any

import numpy as np
from haptics import msg
from rclpy.qos import QoSProfile, ReliabilityPolicy

from haptic_drivers.devices.interface import Reading
from haptic_ros.inbox import Inbox, ServoGroup, subscribe
from haptic_ros.middleware.reception import raw_publish
from haptic_ros.trial import ServoError
from haptic_sim.messages import FAULT, FORCE, NOTHING, DeviceCommand, DeviceReading, MessageError, tick_time

MEASURED, WRITTEN = "device_measured", "device_written"
TYPES = {MEASURED: DeviceReading.TYPE, WRITTEN: DeviceCommand.TYPE}
FRAME = "base"
REPEAT = 0.05  # [s] without a reading after which a command is sent again, in lockstep


class ExternalDevice:
    """A device that is a node of the user's own, as `Hardware`.

    Args:
        node: the driver, which is being configured.
    """

    def __init__(self, node: Any):
        self._node, self._tick = node, 0
        qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        self._publisher = node.create_publisher(msg.DeviceCommand, WRITTEN, qos)
        self._publish = raw_publish(self._publisher)
        self._subscription = subscribe(node, msg.DeviceReading, MEASURED, qos, ServoGroup())
        self._inbox = Inbox(node.context, {MEASURED: self._subscription})
        self._measured, self._received = DeviceReading(FRAME), DeviceReading(FRAME)
        self._command = DeviceCommand(FRAME)
        self._command.mode = NOTHING
        self._measured.tick = self._read_tick = -1  # of the newest reading, and of the last that was read

    def destroy(self) -> None:
        """Remove publisher and subscription; the servo thread has ended."""
        self._inbox.close()
        self._node.destroy_publisher(self._publisher)
        self._node.destroy_subscription(self._subscription)

    def is_found(self) -> bool:
        """Whether the node has been discovered."""
        return self._publisher.get_subscription_count() > 0 and self._subscription.get_publisher_count() > 0

    def time(self) -> int:
        """Time of the tick in lockstep [ns]."""
        return tick_time(self._tick, self._node.config.rate)

    def begin(self, tick: int) -> None:
        """A tick begins; in lockstep send what was written in the one before, and wait for the reading of this one.

        Raises:
            ServoError: there is no reading.
        """
        self._tick = tick
        node, silent_since = self._node, time.monotonic()
        while not node.realtime and self._measured.tick != tick:
            self._send(tick - 1)
            self._receive(REPEAT)
            if node.stopping:
                return
            if self._measured.tick != tick and time.monotonic() - silent_since > node.config.patience:
                within = f"within {node.config.patience:g} s"
                raise ServoError(f"tick {tick}: no {MEASURED} {tick} of the node device {within}: {self._reason()}")

    def _reason(self) -> str:
        """Reason why no current reading was taken, as far as it is known."""
        publishers = self._subscription.get_publisher_count()
        if publishers > 1:
            return f"the topic has {publishers} publishers, so that its messages are refused; it must have one"
        return f"the newest is of tick {self._measured.tick}"

    def _send(self, tick: int) -> None:
        node = self._node
        self._command.stamp(
            tick, node.get_clock().now().nanoseconds if node.realtime else max(0, tick_time(tick, node.config.rate))
        )
        self._command.device_tick = self._measured.tick
        self._publish(self._command.to_bytes())

    def _receive(self, timeout: float) -> None:
        """Take the newest reading, if there is one within `timeout` [s]."""
        for _, data in self._inbox.wait(timeout):
            try:
                reading = self._received
                reading.load(data)
                if not 0.0 <= reading.age < math.inf:
                    raise MessageError(
                        f"{MEASURED} {reading.tick}: age = {reading.age:g} s: must be finite, at least 0"
                    )
                self._measured, self._received = reading, self._measured
            except MessageError as error:
                self._node.refuse(error)

    # As Hardware

    def open(self) -> None:
        """Do nothing: the topics are open as long as the driver is configured."""

    def close(self) -> None:
        """Zero force. Raises nothing."""
        with contextlib.suppress(Exception):  # the middleware may have ended
            self.disable()

    def enable(self) -> None:
        """Enable the device: commands are of mode FORCE from now on."""
        self._command.mode = FORCE

    def disable(self) -> None:
        """Zero force, and mode NOTHING from now on."""
        self._command.mode = NOTHING
        self.write(np.zeros(6))

    def read(self, reading: Reading) -> bool:
        """Fill in the newest reading; whether it is newer than that of the last call: its tick is another."""
        if self._node.realtime:
            self._receive(0.0)
        found = self._measured
        if found.tick == self._read_tick:
            return False
        self._read_tick = found.tick
        now = time.monotonic_ns() if self._node.realtime else self.time()
        reading.pose[:], reading.twist[:], reading.time_ns = found.pose, found.twist, now - round(1e9 * found.age)
        pressed = min(len(found), len(reading.buttons))
        reading.buttons[:] = 0
        reading.buttons[:pressed] = found.buttons[:pressed]
        reading.fault = "reported by the node device" if found.state == FAULT else ""
        return True

    def write(self, wrench: np.ndarray) -> None:
        """Command a wrench on the hand in the axes of the base (6,) [N, N m]; in lockstep with the next tick."""
        self._command.wrench[:] = wrench
        if self._node.realtime:
            self._send(self._tick)
