"""Reception of a serialised message together with its publisher, which rclpy does not give: by rcl itself, with ctypes.

The identity of a publisher (its GID) is the middleware's: it is known in the graph of the node, and comes with each
message.
"""

from __future__ import annotations

import ctypes
from typing import Any

_RCL_RET_OK, _RCL_RET_SUBSCRIPTION_TAKE_FAILED = 0, 401
GID = 16  # bytes, since ROS 2 Iron


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

    def take(self, handle: Any) -> tuple[bytes, int, bytes] | None:
        """The next message of a subscription's handle, its number among its publisher's, and the publisher's GID."""
        result = self._take(handle.pointer, self._message, self._info, None)
        if result != _RCL_RET_OK:
            self._reset_error()
            return None
        info = self._info
        data = ctypes.string_at(self._message.buffer, self._message.length)
        return data, info.publication_sequence_number, bytes(info.gid)
