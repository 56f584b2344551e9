"""Messages of subscriptions, taken as bytes on an rcl wait set, and with the identity (GID) of their publisher.

Four things are used beyond the documented interface of rclpy (tested: ROS 2 Jazzy, rclpy 7.1, rcl 9.2):

- The `handle` of contexts, publishers and subscriptions, and the wait set of `rclpy_implementation`. Reason: an
  executor of rclpy makes a task of each message, which costs more than the answer to it. Superfluous with an executor
  that hands serialised messages to a waiting thread.
- `handle.publish_raw`. Reason: `Publisher.publish` enters the handle and looks at the type of the message each time.
  Superfluous with a method of rclpy for serialised messages alone.
- `handle.get_now` of clocks. Reason: `Clock.now` enters the handle and makes two objects with their checks each time.
  Superfluous with a method of rclpy for the number alone.
- `rcl_take_serialized_message`, by ctypes. Reason: rclpy's message info does not say which publisher a message is of,
  and messages of the trial's nodes must be distinguished from others. Superfluous with the GID in that info. Where rcl
  is not found or is of another kind, messages are not distinguished, and the node warns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from rclpy.guard_condition import GuardCondition
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy

_RCL_RET_OK = 0
GID = 16  # bytes, since ROS 2 Iron
Taken = tuple[bytes, "int | None", bytes]
"""A serialised message, its number among its publisher's (None: not numbered), and the publisher's GID (or none)."""


def raw_publish(publisher: Any) -> Callable[[bytes | bytearray], None]:
    """Function that publishes serialised messages of a publisher, as long as that exists; without its checks."""
    publish: Callable[[bytes | bytearray], None] = publisher.handle.publish_raw
    return publish


def raw_time(clock: Any) -> Callable[[], int]:
    """Function that reads a clock of rclpy [ns], as long as that exists."""
    now = clock.handle.get_now

    def read() -> int:
        time: int = now().nanoseconds
        return time

    return read


class Source:
    """A subscription whose messages a servo thread takes.

    Args:
        topic: its name in the node.
        subscription: of rclpy, with `raw=True`, in a callback group that no executor runs.
        taker: takes messages with their publisher's GID; None: without.

    Attributes:
        take: gives the next message; None if there is none.
        publishers: gives the number of publishers.
        deep: whether its queue holds several messages.
    """

    def __init__(self, topic: str, subscription: Any, taker: Taker | None = None):
        handle = subscription.handle
        self.topic, self.handle, self.pointer = topic, handle, handle.pointer
        self.deep = subscription.qos_profile.depth > 1
        self.publishers: Callable[[], int] = handle.get_publisher_count
        self._kind = subscription.msg_type
        self.take: Callable[[], Taken | None] = self._take if taker is None else partial(taker.take, handle)

    def _take(self) -> Taken | None:
        taken = self.handle.take_message(self._kind, True)
        return None if taken is None else (taken[0], taken[1]["publication_sequence_number"], b"")


class Waiting:
    """A wait for messages of several sources, which another thread can end.

    Args:
        context: of rclpy.
        sources: in use until `close`.
    """

    def __init__(self, context: Any, sources: Sequence[Source]):
        self._guard = GuardCondition(callback=None, callback_group=None, context=context)
        self._in_use = ExitStack()  # of the handles, from now until `close`: entering them at each wait costs 4 us
        self._handles = [source.handle for source in sources]
        for handle in (self._guard.handle, *self._handles):
            self._in_use.enter_context(handle)
        self._set = _rclpy.WaitSet(len(sources), 1, 0, 0, 0, 0, context.handle)

    def close(self) -> None:
        """Let go of the subscriptions, which can only then be destroyed."""
        self._in_use.close()

    def wake(self) -> None:
        """End a wait from another thread."""
        self._guard.trigger()

    def wait(self, timeout: float | None) -> list[int]:
        """Wait up to `timeout` [s] (None: for ever); the `pointer` of each source that has a message."""
        wait_set = self._set
        wait_set.clear_entities()
        for handle in self._handles:
            wait_set.add_subscription(handle)
        wait_set.add_guard_condition(self._guard.handle)
        wait_set.wait(-1 if timeout is None else round(timeout * 1e9))
        ready: list[int] = wait_set.get_ready_entities("subscription")
        return ready


class _Allocator(ctypes.Structure):
    """rcutils_allocator_t"""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("allocate", "free", "reallocate", "zero_allocate", "state"))


class _Bytes(ctypes.Structure):
    """rcutils_uint8_array_t"""

    _fields_ = (
        ("buffer", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
        ("allocator", _Allocator),
    )


class _MessageInfo(ctypes.Structure):
    """rmw_message_info_t"""

    _fields_ = (
        ("source_timestamp", ctypes.c_int64),
        ("received_timestamp", ctypes.c_int64),
        ("publication_sequence_number", ctypes.c_uint64),
        ("reception_sequence_number", ctypes.c_uint64),
        ("implementation", ctypes.c_char_p),
        ("gid", ctypes.c_uint8 * GID),
        ("from_intra_process", ctypes.c_bool),
    )


class Taker:
    """Takes serialised messages of subscriptions, with the GID of their publisher.

    Raises:
        OSError: rcl is not found; AttributeError: it is of another kind.
    """

    def __init__(self) -> None:
        rcl, rcutils = ctypes.CDLL("librcl.so"), ctypes.CDLL("librcutils.so")
        rcutils.rcutils_get_default_allocator.restype = _Allocator
        self._take = rcl.rcl_take_serialized_message
        self._take.argtypes = (ctypes.c_void_p, ctypes.POINTER(_Bytes), ctypes.POINTER(_MessageInfo), ctypes.c_void_p)
        self._reset_error = (
            rcl.rcutils_reset_error if hasattr(rcl, "rcutils_reset_error") else rcutils.rcutils_reset_error
        )
        self._message, self._info = _Bytes(), _MessageInfo()
        self._message.allocator = rcutils.rcutils_get_default_allocator()
        rcutils.rcutils_uint8_array_resize.argtypes = (ctypes.POINTER(_Bytes), ctypes.c_size_t)
        rcutils.rcutils_uint8_array_resize(self._message, 4096)

    def take(self, handle: Any) -> Taken | None:
        """The next message of a subscription's handle, its number among its publisher's, and the publisher's GID."""
        result = self._take(handle.pointer, self._message, self._info, None)
        if result != _RCL_RET_OK:
            self._reset_error()
            return None
        info = self._info
        data = ctypes.string_at(self._message.buffer, self._message.length)
        return data, info.publication_sequence_number, bytes(info.gid)
