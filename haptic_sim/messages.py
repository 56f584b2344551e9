"""What travels between the cores, in the very bytes in which it travels between the nodes.

A message is one preallocated buffer that holds its CDR serialisation; its values are NumPy views into that
buffer. A core fills the views, a node publishes the buffer; received bytes are copied into the buffer and read
through the same views. So every mode passes the same representation, and nothing is allocated or converted in
a servo step. The layouts are those of `msg/*.msg`, flattened: a pose is 7 numbers (position, quaternion
x y z w), a twist and a wrench are 6 ([linear, angular], [force, torque]).

A layout has fixed offsets because the frame and the lengths of the sequences are fixed for a trial. Only the
last field may be a sequence of changing length; it has a capacity.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numba
import numpy as np

_CDR_LITTLE_ENDIAN = b"\x00\x01\x00\x00"
_NANO = 1_000_000_000

FREE, COLLIDING, RESTING = 0, 1, 2  # ToolState.contact_state
FORCE, MOTION = 0, 1  # DeviceCommand.mode

CONSTRAINT = np.dtype(
    [
        ("id", "<u8"),
        ("body", "<u4"),
        ("link", "<u4"),
        ("position", "<f8", 3),
        ("normal", "<f8", 3),
        ("separation", "<f8"),
        ("normal_velocity", "<f8"),
        ("friction_static", "<f8"),
        ("friction_kinetic", "<f8"),
    ]
)
"""haptics/msg/LocalConstraint."""


class MessageError(ValueError):
    """Received bytes are not the message that was expected; the text says what differs."""


@dataclass(frozen=True)
class Field:
    """One field of a message: NumPy type, number of values; `sequence` if a length precedes the values."""

    name: str
    dtype: Any
    count: int = 1
    sequence: bool = False


def tick_time(tick: int, rate: float) -> int:
    """Time of a tick since the start of the trial [ns]."""
    return round(tick * _NANO / rate)


class Message:
    """A message of fixed layout over its own CDR buffer.

    Args:
        frame: frame of all quantities; a received message with another one is refused.
        lengths: number of values of each sequence; of the last one its capacity.
    """

    TYPE: ClassVar[str]
    FIELDS: ClassVar[tuple[Field, ...]]

    tick: int

    def __init_subclass__(cls) -> None:
        for field in cls.FIELDS:
            if field.count == 1 and not field.sequence:
                setattr(cls, field.name, _scalar(field.name))

    def __init__(self, frame: str = "world", **lengths: int):
        self.frame = frame
        name = frame.encode() + b"\0"
        end = 8 + 4 + len(name)
        places: list[tuple[Field, int, int, int]] = []  # field, offset of its length or -1, offset, count
        for field in self.FIELDS:
            dtype = np.dtype(field.dtype)
            count, length_at = field.count, -1
            if field.sequence:
                length_at = -(-end // 4) * 4
                end, count = length_at + 4, lengths.pop(field.name, 0)
            # an empty sequence of fixed length adds no padding; one of changing length may need its place
            last = field is self.FIELDS[-1]
            align = min(8, dtype.itemsize) if count or (last and field.sequence) else 1
            start = -(-end // align) * align
            places.append((field, length_at, start, count))
            end = start + dtype.itemsize * count
        if lengths:
            raise TypeError(f"{type(self).__name__} has no sequence named {', '.join(lengths)}")

        self.capacity = end
        # The body starts 4 bytes after the encapsulation header: put it on an 8-byte boundary for the views.
        memory = np.zeros(end + 16, np.uint8)
        start = 4 + (-(memory.ctypes.data + 4)) % 8
        self._buffer = memory[start - 4 : start + end]
        self._buffer[:4] = np.frombuffer(_CDR_LITTLE_ENDIAN, np.uint8)
        self._memory = self._buffer.data  # reads, writes and copies in a fraction of NumPy's time
        body = self._buffer[4:]
        self._sec, self._nanosec = self._memory[4:8].cast("i"), self._memory[8:12].cast("I")
        body[8:12].view("<u4")[0] = len(name)
        body[12 : 12 + len(name)] = np.frombuffer(name, np.uint8)
        self._prefix = len(name) + 16
        self._views: dict[str, np.ndarray] = {}
        self._scalars: dict[str, memoryview] = {}
        self._constraint_tail: np.ndarray | None = None
        runs: list[tuple[int, int]] = []  # begin and end of neighbouring float64 fields, in values
        self.offsets: dict[str, tuple[int, Any, int]] = {}
        for field, length_at, start, count in places:
            dtype = np.dtype(field.dtype)
            view = body[start : start + dtype.itemsize * count].view(dtype)
            self._views[field.name] = view
            self.offsets[field.name] = (start, dtype, count)
            if field is self.FIELDS[-1] and field.sequence:
                if dtype == CONSTRAINT:
                    self._constraint_tail = view.view("<f8").reshape(count, 12)[:, 2:]  # after id, body and link
            elif dtype == np.float64 and count:
                begin = start // 8
                if runs and runs[-1][1] == begin:
                    begin = runs.pop()[0]
                runs.append((begin, start // 8 + count))
            if length_at >= 0:
                body[length_at : length_at + 4].view("<u4")[0] = count
            if field.count == 1 and not field.sequence:
                self._scalars[field.name] = view.data.cast("B").cast(dtype.char)
            else:
                setattr(self, field.name, view)
        self._values = body[: body.size // 8 * 8].view("<f8")
        tail, length_at, start, _ = places[-1]
        runs.append((-(-start // 8), 0))  # values of the last sequence, so far none
        self._runs = np.array(runs, np.int64)
        self._tail_run = (
            self._runs[-1:].reshape(2).data if np.dtype(tail.dtype) == np.float64 and tail.sequence else None
        )
        self._tail = (
            (self._memory[4 + length_at : 8 + length_at].cast("I"), length_at + 4, start, np.dtype(tail.dtype).itemsize)
            if tail.sequence
            else None
        )
        # What tells the bytes of this layout apart: byte order, frame, lengths of the sequences.
        lengths_at = [at + 4 for field, at, _, _ in places if at >= 0 and field is not tail]
        self._marks = _marks(self._prefix - 12, [*lengths_at, *([length_at + 4] if tail.sequence else [])])
        self._expected = self._marks.unpack_from(self._memory)[: 2 + len(lengths_at)]
        self._size, self._count = end, 0
        if self._tail is not None:
            self.resize(0)
        self.is_finite()  # loads the kernel before the first message comes

    @property
    def nanoseconds(self) -> int:
        """The header's stamp [ns]."""
        return self._sec[0] * _NANO + self._nanosec[0]

    def view(self, name: str) -> np.ndarray:
        """The values of a field in the buffer; (1,) where it is a number, for kernels."""
        return self._views[name]

    def stamp(self, tick: int, time: int) -> None:
        """Set tick and stamp; time in ns since the start of the trial."""
        self.tick = tick
        self._sec[0], self._nanosec[0] = divmod(time, _NANO)

    def resize(self, count: int) -> None:
        """Set the number of values of the last sequence.

        Raises:
            MessageError: more than its capacity.
        """
        assert self._tail is not None
        length, empty_end, start, itemsize = self._tail
        if start + count * itemsize > self.capacity:
            raise MessageError(
                f"{self.TYPE}: {count} {self.FIELDS[-1].name}: must be at most {(self.capacity - start) // itemsize}"
            )
        length[0] = self._count = count
        if self._tail_run is not None:
            self._tail_run[1] = self._tail_run[0] + count
        self._size = start + count * itemsize if count else empty_end

    def __len__(self) -> int:
        """Number of values in the last sequence."""
        return self._count

    def to_bytes(self) -> bytes:
        """The CDR serialisation."""
        return self._memory[: 4 + self._size].tobytes()

    def load(self, data: bytes | Message) -> None:
        """Take the values of received bytes, or of a message of the same layout.

        Raises:
            MessageError: they are of another frame, type or length.
        """
        if isinstance(data, Message):
            self.copy_from(data)
            return
        size = self._size
        if len(data) < self._marks.size:
            raise MessageError(self._explain(data, size))
        found = self._marks.unpack_from(data)
        if self._tail is None:
            if found != self._expected or not 4 + size <= len(data) < 8 + size:  # some middlewares pad to four bytes
                raise MessageError(self._explain(data, size))
        else:
            count = found[-1]
            _, empty_end, start, itemsize = self._tail
            size = start + count * itemsize if count else empty_end
            if found[:-1] != self._expected or not 4 + size <= len(data) < 8 + size:
                raise MessageError(self._explain(data, size))
            if count != self._count:
                self.resize(count)
        self._memory[4 : 4 + size] = data[4 : 4 + size]

    def copy_from(self, other: Message) -> None:
        """Take the values of a message of the same layout."""
        self._memory[:] = other._memory
        if self._count != other._count:
            self.resize(other._count)

    def is_finite(self) -> bool:
        """Whether no value is NaN or infinite."""
        tail, count = self._constraint_tail, self._count
        if tail is not None and count and not np.isfinite(tail[:count]).all():
            return False
        return _all_finite(self._values, self._runs)

    def _explain(self, data: bytes, size: int) -> str:
        if len(data) >= 16:
            length = int.from_bytes(data[12:16], "little")
            frame = data[16 : 16 + length].rstrip(b"\0")
            if length <= len(data) and frame != self.frame.encode():
                return f"{self.TYPE}: frame_id = {frame.decode(errors='replace')!r}: must be {self.frame!r}"
        return f"{self.TYPE}: {len(data)} bytes: must be {4 + size} in little-endian CDR"


@numba.njit(cache=True, nogil=True)
def _all_finite(values, runs):
    finite = True
    for run in range(runs.shape[0]):
        for i in range(runs[run, 0], runs[run, 1]):
            finite &= math.isfinite(values[i])
    return finite


def _marks(frame: int, lengths: Sequence[int]) -> struct.Struct:
    """What reads byte order, frame id (of `frame` bytes) and the lengths at some places from serialised bytes."""
    end, layout = 12 + frame, f"<2s10x{frame}s"
    for at in lengths:
        layout += f"{at - end}xI"
        end = at + 4
    return struct.Struct(layout)


def _scalar(name: str) -> property:
    def read(self: Message) -> Any:
        return self._scalars[name][0]

    def write(self: Message, value: Any) -> None:
        self._scalars[name][0] = value

    return property(read, write)


def columns(layout: Message, messages: Sequence[bytes]) -> np.ndarray:
    """The fields of many messages of one layout, without the last sequence, as a structured array."""
    names, formats, offsets = ["sec", "nanosec"], ["<i4", "<u4"], [0, 4]
    end = 8
    for field in layout.FIELDS:
        start, dtype, count = layout.offsets[field.name]
        if field is layout.FIELDS[-1] and field.sequence:
            break
        if count == 0:
            continue
        names.append(field.name)
        formats.append(dtype if field.count == 1 and not field.sequence else (dtype, count))  # type: ignore[arg-type]
        offsets.append(start)
        end = start + dtype.itemsize * count
    dtype = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": end})
    return np.frombuffer(b"".join(message[4 : 4 + end] for message in messages), dtype)


class DeviceState(Message):
    """State of the device at t_k and what the operator applies, as the device knows it; driver to controller.

    An impedance device knows the simulated operator's wrench; an admittance device what its force sensor tells.
    """

    TYPE = "haptics/msg/DeviceState"
    FIELDS = (
        Field("tick", "<i8"),
        Field("pose", "<f8", 7),
        Field("twist", "<f8", 6),
        Field("operator_wrench", "<f8", 6),
        Field("rendered_wrench", "<f8", 6),
        Field("command_tick", "<i8"),
        Field("buttons", "<i4", sequence=True),
    )
    pose: np.ndarray
    twist: np.ndarray
    operator_wrench: np.ndarray
    rendered_wrench: np.ndarray
    command_tick: int
    buttons: np.ndarray


class DeviceCommand(Message):
    """What the device shall render during the tick; controller to driver."""

    TYPE = "haptics/msg/DeviceCommand"
    FIELDS = (
        Field("tick", "<i8"),
        Field("device_tick", "<i8"),
        Field("mode", "u1"),
        Field("wrench", "<f8", 6),
        Field("pose", "<f8", 7),
        Field("twist", "<f8", 6),
        Field("acceleration", "<f8", 6),
    )
    device_tick: int
    mode: int
    wrench: np.ndarray
    pose: np.ndarray
    twist: np.ndarray
    acceleration: np.ndarray


class ToolCommand(Message):
    """Wrench on the virtual tool during the tick; controller to environment or local model."""

    TYPE = "haptics/msg/ToolCommand"
    FIELDS = (Field("tick", "<i8"), Field("tool_tick", "<i8"), Field("wrench", "<f8", 6))
    tool_tick: int
    wrench: np.ndarray


class ToolStateArrays(NamedTuple):
    """What kernels fill of a ToolState: the values in its buffer, (1,) where they are a number."""

    contact_state: np.ndarray
    contacts: np.ndarray
    sliding: np.ndarray
    kinetic_energy: np.ndarray
    wrench: np.ndarray
    pose: np.ndarray
    twist: np.ndarray
    inverse_inertia: np.ndarray
    free_acceleration: np.ndarray
    residual: np.ndarray
    energy: np.ndarray
    q: np.ndarray
    v: np.ndarray
    multipliers: np.ndarray
    constraint_directions: np.ndarray


class ToolState(Message):
    """Environment wrench during the tick and the tool's state after it; environment or local model to controller."""

    TYPE = "haptics/msg/ToolState"
    FIELDS = (
        Field("tick", "<i8"),
        Field("command_tick", "<i8"),
        Field("geometry_tick", "<i8"),
        Field("contact_state", "u1"),
        Field("contacts", "<u4"),
        Field("sliding", "<u4"),
        Field("kinetic_energy", "<f8"),
        Field("wrench", "<f8", 6),
        Field("pose", "<f8", 7),
        Field("twist", "<f8", 6),
        Field("inverse_inertia", "<f8", 36),
        Field("free_acceleration", "<f8", 6),
        Field("residual", "<f8", 2),
        Field("energy", "<f8", 8),
        Field("q", "<f8", sequence=True),
        Field("v", "<f8", sequence=True),
        Field("multipliers", "<f8", sequence=True),
        Field("constraint_directions", "<f8", sequence=True),
    )
    command_tick: int
    geometry_tick: int
    contact_state: int
    contacts: int
    sliding: int
    kinetic_energy: float
    wrench: np.ndarray
    pose: np.ndarray
    twist: np.ndarray
    inverse_inertia: np.ndarray
    free_acceleration: np.ndarray
    residual: np.ndarray
    energy: np.ndarray
    q: np.ndarray
    v: np.ndarray
    multipliers: np.ndarray
    constraint_directions: np.ndarray

    def arrays(self) -> ToolStateArrays:
        """What kernels fill."""
        return ToolStateArrays(*(self.view(name) for name in ToolStateArrays._fields))


class ToolSizes(NamedTuple):
    """Numbers of a tool that the layout of its ToolState depends on.

    Attributes:
        q, v: of its configuration and of its velocity; multipliers: of its exact constraints.
    """

    q: int
    v: int
    multipliers: int = 0

    def tool_state(self) -> ToolState:
        """A message for this tool."""
        return ToolState(q=self.q, v=self.v, multipliers=self.multipliers, constraint_directions=36)


class LocalGeometry(Message):
    """The surroundings of the tool at an update of the environment; environment to local model."""

    TYPE = "haptics/msg/LocalGeometry"
    FIELDS = (
        Field("tick", "<i8"),
        Field("step", "<u8"),
        Field("epsilon", "<f8"),
        Field("pose", "<f8", 7),
        Field("q", "<f8", sequence=True),
        Field("v", "<f8", sequence=True),
        Field("inertia", "<f8", sequence=True),
        Field("gravity", "<f8", sequence=True),
        Field("constraints", CONSTRAINT, sequence=True),
    )
    step: int
    epsilon: float
    pose: np.ndarray
    q: np.ndarray
    v: np.ndarray
    inertia: np.ndarray
    gravity: np.ndarray
    constraints: np.ndarray


TOPICS: dict[str, type[Message]] = {
    "device_state": DeviceState,
    "tool_command": ToolCommand,
    "tool_state": ToolState,
    "device_command": DeviceCommand,
    "local_geometry": LocalGeometry,
}
"""Servo topics, in the order of the tick."""
