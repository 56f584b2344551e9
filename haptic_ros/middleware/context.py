"""Start of ROS 2 in a process.

Superfluous when Fast DDS does not wait for a process that has ended (fast_dds.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import rclpy
from rclpy.signals import SignalHandlerOptions

from haptic_ros.middleware import fast_dds


def initialise(args: Sequence[str]) -> None:
    """Initialise rclpy with `args`; the caller handles signals, and calls `rclpy.try_shutdown` at the end.

    First the unfinished ports of killed processes are removed, for which making a node would wait for ever.
    """
    fast_dds.remove_unfinished_ports()
    rclpy.init(args=list(args), signal_handler_options=SignalHandlerOptions.NO)
