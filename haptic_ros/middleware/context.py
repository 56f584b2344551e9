"""Start and end of ROS 2 in a process.

`initialise` is superfluous when Fast DDS does not wait for a process that has ended (fast_dds.py),
`is_destroyed_handle` when an executor of rclpy that shuts down waits for its last callback.
"""

from __future__ import annotations

from collections.abc import Sequence

import rclpy
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.signals import SignalHandlerOptions

from haptic_ros.middleware import fast_dds


def initialise(args: Sequence[str]) -> None:
    """Initialise rclpy with `args`; the caller handles signals, and calls `rclpy.try_shutdown` at the end.

    First the unfinished ports of killed processes are removed, for which making a node would wait for ever.
    """
    fast_dds.remove_unfinished_ports()
    rclpy.init(args=list(args), signal_handler_options=SignalHandlerOptions.NO)


def is_destroyed_handle(error: BaseException | None) -> bool:
    """Whether the error is that of a callback whose handle rclpy's shutdown has destroyed before it ended."""
    return isinstance(error, _rclpy.InvalidHandle)
