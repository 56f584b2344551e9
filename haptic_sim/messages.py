"""Messages between the cores, in the same bytes as between the nodes.

A message is one preallocated buffer that holds its CDR serialisation; its values are NumPy views into that
buffer. A core fills the views, and a node publishes the buffer; received bytes are copied into the buffer and read
through the same views. So every mode passes the same representation, and nothing is allocated or converted in
a servo step. Fields, constants and layouts are those of `msg/*.msg`, flattened (haptic_sim/msg_files.py): a pose is
7 numbers (position, quaternion x y z w), a twist and a wrench are 6 ([linear, angular], [force, torque]).

A layout has fixed offsets because the frame, the names and the lengths of the sequences are fixed for a trial. Only the
last field may be a sequence of changing length; it has a capacity.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np

from haptic_sim import definitions
from haptic_sim.errors import HapticsError
from haptic_sim.kernels import bind, kernel
from haptic_sim.msg_files import Field, definition
from haptic_sim.packed import Packed

_CDR_LITTLE_ENDIAN = b"\x00\x01\x00\x00"
_NANO = 1_000_000_000

_STATE, _TOOL, _COMMAND = definitions.DeviceState, definitions.ToolState, definitions.DeviceCommand
_EVENT, _ON_TOOL = definitions.OperatorEvent, definitions.ToolCommand

FREE, COLLIDING, RESTING = _TOOL.FREE, _TOOL.COLLIDING, _TOOL.RESTING  # ToolState.contact_state
FORCE, MOTION, NOTHING = _COMMAND.FORCE, _COMMAND.MOTION, _COMMAND.NOTHING  # DeviceCommand.mode
ABSENT, RELEASED, HELD = _ON_TOOL.ABSENT, _ON_TOOL.RELEASED, _ON_TOOL.HELD  # ToolCommand.hand
GRAB, MOVE, RELEASE = _EVENT.GRAB, _EVENT.MOVE, _EVENT.RELEASE  # OperatorEvent.phase
HAND = -1  # OperatorEvent.body and ToolCommand.body: no other body, but the hand
DISABLED, ENABLED, PAUSED, FAULT = _STATE.DISABLED, _STATE.ENABLED, _STATE.PAUSED, _STATE.FAULT  # DeviceState.state
STATES = ("disabled", "enabled", "paused", "fault")  # in their order
MOST_BUTTONS = 16  # of a device


class Reason(IntEnum):
    """DeviceState.reason: why a device renders nothing."""

    NONE = _STATE.NONE
    NOT_ENABLED = _STATE.NOT_ENABLED
    ON_PAUSE = _STATE.ON_PAUSE
    NO_PRESENCE = _STATE.NO_PRESENCE
    STOPPED = _STATE.STOPPED
    FAILED = _STATE.FAILED
    OLD_READING = _STATE.OLD_READING
    NO_COMMAND = _STATE.NO_COMMAND
    WATCHDOG = _STATE.WATCHDOG
    CLUTCHED = _STATE.CLUTCHED
    SCALED_TO_ZERO = _STATE.SCALED_TO_ZERO
    NO_CONTACT = _STATE.NO_CONTACT
    PASSIVE = _STATE.PASSIVE
    SATURATED = _STATE.SATURATED
    NOT_HOMED = _STATE.NOT_HOMED


REASONS: dict[int, str] = {
    Reason.NONE: "",
    Reason.NOT_ENABLED: "the device is not enabled",
    Reason.ON_PAUSE: "the device is paused",
    Reason.NO_PRESENCE: "nobody holds the device",
    Reason.STOPPED: "emergency stop",
    Reason.FAILED: "the device has a fault",
    Reason.OLD_READING: "timeout: no reading of the device",
    Reason.NO_COMMAND: "nothing is commanded",
    Reason.WATCHDOG: "the last command is too old",
    Reason.CLUTCHED: "the clutch is open",
    Reason.SCALED_TO_ZERO: "the force is scaled to zero",
    Reason.NO_CONTACT: "there is no contact: the commanded wrench is zero",
    Reason.PASSIVE: "the guard suppresses the force",
    Reason.SATURATED: "a limit of the device suppresses the force",
    Reason.NOT_HOMED: "the device does not know its position",
}
"""Text for each reason of zero force."""

_HANDS = np.full(len(Reason), ABSENT, np.uint8)
"""The hand on an enabled device, by the reason why it renders nothing: HELD where it follows what is commanded."""
_HANDS[[Reason.NONE, Reason.SCALED_TO_ZERO, Reason.NO_CONTACT, Reason.PASSIVE, Reason.SATURATED]] = HELD
_HANDS[Reason.CLUTCHED] = RELEASED

CONSTRAINT, CONTACT = definition("LocalConstraint").element, definition("ContactState").element
"""Elements of LocalGeometry.constraints and WorldState.contacts."""


class MessageError(HapticsError, ValueError):
    """Received bytes are not the message that was expected; the text says what differs."""


class FieldAssignmentError(HapticsError, AttributeError):
    """A core has bound an array field of a message to another array; not a MessageError, which refuses a message."""


def tick_time(tick: int, rate: float) -> int:
    """Time of a tick since the start of the trial [ns]."""
    return round(tick * _NANO / rate)


def time_between(first: int, last: int, rate: float) -> int:
    """Time from one tick to another [ns]; added to the stamp of the one it gives that of the other."""
    return tick_time(last, rate) - tick_time(first, rate)


def stamp_of(data: bytes) -> int:
    """The stamp in the header of a serialised message [ns]; of shorter bytes, which others may send, any number."""
    return int.from_bytes(data[4:8], "little", signed=True) * _NANO + int.from_bytes(data[8:12], "little")


def tick_place(frame: str = "world") -> int:
    """Offset of the tick in a serialised message [B]: it is first in all of them, after a header with this frame."""
    return 4 + -(-(8 + 4 + len(frame.encode()) + 1) // 8) * 8


AnyMessage = TypeVar("AnyMessage", bound="Message")


class Message:
    """A message of fixed layout over its own CDR buffer.

    Args:
        frame: frame of all quantities; a received message with another one is refused.
        lengths: number of elements of each sequence, of the last one its capacity; of TEXT the strings themselves.
    """

    TYPE: ClassVar[str]
    FIELDS: ClassVar[tuple[Field, ...]]
    Arrays: ClassVar[Any]
    DERIVED: ClassVar[tuple[str, ...]] = ("packed",)

    tick: int

    def __init_subclass__(cls) -> None:
        for field in cls.FIELDS:
            if field.is_scalar:
                setattr(cls, field.name, _scalar(field))
            elif not field.is_text:
                setattr(cls, field.name, _Values(field.name))

    def __init__(self, frame: str = "world", **lengths: int | Sequence[str]):
        self.frame = frame
        name = frame.encode() + b"\0"
        end = 8 + 4 + len(name)
        places: list[tuple[Field, int, int, int]] = []  # field, offset of its length or -1, offset, count
        texts: dict[str, bytes] = {}  # serialised sequences of strings
        last = self.FIELDS[-1]
        for field in self.FIELDS:
            if field.is_text:
                strings = lengths.pop(field.name, ())
                assert not isinstance(strings, int)
                texts[field.name] = serialised = _serialise(strings)
                start = -(-end // 4) * 4
                places.append((field, start, start, len(serialised)))
                setattr(self, field.name, tuple(strings))
                end = start + len(serialised)
                continue
            dtype = np.dtype(field.dtype)
            count, length_at = field.count, -1
            if field.sequence:
                length_at = -(-end // 4) * 4
                elements = lengths.pop(field.name, 0)
                assert isinstance(elements, int)
                end, count = length_at + 4, field.width * elements
            # an empty sequence of fixed length adds no padding; one of changing length may need its place
            align = min(8, dtype.itemsize) if count or (field is last and field.sequence) else 1
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
        self._views: dict[str, np.ndarray] = {"sec": body[:4].view("<i4"), "nanosec": body[4:8].view("<u4")}
        self._scalars: dict[str, memoryview] = {}
        self._mixed_tail: np.ndarray | None = None
        runs: list[tuple[int, int]] = []  # begin and end of neighbouring float64 fields, in values
        self.offsets: dict[str, tuple[int, Any, int]] = {}
        marks: list[tuple[int, str]] = []  # offset and format of what else identifies the bytes of this layout
        for field, length_at, start, count in places:
            if field.is_text:
                body[start : start + count] = np.frombuffer(texts[field.name], np.uint8)
                self.offsets[field.name] = (start, np.dtype("u1"), count)
                marks.append((start + 4, f"{count}s"))
                continue
            dtype = np.dtype(field.dtype)
            view = body[start : start + dtype.itemsize * count].view(dtype)
            if field.width > 1:
                view = view.reshape(-1, field.width)
            self._views[field.name] = view
            self.offsets[field.name] = (start, dtype, count)
            if field is last and field.sequence:
                if dtype.names:
                    self._mixed_tail = _floats(view)
            elif dtype == np.float64 and count:
                begin = start // 8
                if runs and runs[-1][1] == begin:
                    begin = runs.pop()[0]
                runs.append((begin, start // 8 + count))
            if length_at >= 0:
                body[length_at : length_at + 4].view("<u4")[0] = count // field.width
                marks.append((length_at + 4, "I"))
            if field.is_scalar:
                self._scalars[field.name] = view.data.cast("B").cast(dtype.char)
                view[0] = field.default
            else:
                self.__dict__[field.name] = view
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
        # What identifies the bytes of this layout: byte order, frame, strings, lengths of the sequences but the last.
        self._marks = _marks(self._prefix - 12, marks)
        self._expected = self._marks.unpack_from(self._memory)[: 2 + len(marks) - tail.sequence]
        self._size, self._count = end, 0
        if self._tail is not None:
            self.resize(0)
        numbers = Packed(_Numbers(self._values, self._runs))
        self._numbers_are_finite: Callable[[], bool] = partial(bind(_all_finite, numbers), numbers)

    @classmethod
    def of_layout(cls: type[AnyMessage], data: bytes, capacity: int = 0) -> AnyMessage:
        """A message with frame, names and lengths as in serialised bytes; `capacity` of the last sequence.

        Raises:
            MessageError: they are not such a message.
        """
        try:
            if data[:2] != _CDR_LITTLE_ENDIAN[:2]:
                raise ValueError
            frame, at = read_text(data, 12)
            lengths: dict[str, int | Sequence[str]] = {}
            for field in cls.FIELDS:
                if field is cls.FIELDS[-1] and field.sequence:
                    lengths[field.name] = capacity
                    break
                count = field.count
                if field.sequence:
                    at += -at % 4
                    (count,) = struct.unpack_from("<I", data, at)
                    at += 4
                if field.is_text:
                    if 5 * count > len(data):
                        raise ValueError
                    strings = []
                    for _ in range(count):
                        string, at = read_text(data, at)
                        strings.append(string)
                    lengths[field.name] = strings
                    continue
                dtype, values = np.dtype(field.dtype), count * field.width
                if field.sequence:
                    lengths[field.name] = count
                if values:
                    at += (4 - at) % min(8, dtype.itemsize)  # alignment counts from the body, after four bytes
                    at += values * dtype.itemsize
                if at > len(data):
                    raise ValueError
            return cls(frame, **lengths)
        except (ValueError, struct.error) as error:
            raise MessageError(f"{cls.TYPE}: {len(data)} bytes: not a valid message in little-endian CDR") from error

    @property
    def nanoseconds(self) -> int:
        """The header's stamp [ns]."""
        return self._sec[0] * _NANO + self._nanosec[0]

    def view(self, name: str) -> np.ndarray:
        """The values of a field, or of `sec` or `nanosec`, in the buffer; (1,) where it is a number, for kernels."""
        return self._views[name]

    def arrays(self) -> Any:
        """Arrays that kernels read and fill, a NamedTuple: see haptic_sim/definitions.py."""
        return type(self).Arrays(*map(self.view, type(self).Arrays._fields))

    @cached_property
    def packed(self) -> Packed:
        """Arrays of the message, packed as one argument of kernels."""
        return Packed(self.arrays())

    def stamp(self, tick: int, time: int) -> None:
        """Set tick and stamp [ns]: ROS time in realtime, else since the start of the trial."""
        self._scalars["tick"][0] = tick
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
            self._memory[:] = data._memory
            if self._count != data._count:
                self.resize(data._count)
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

    def is_finite(self) -> bool:
        """Whether no value is NaN or infinite."""
        tail, count = self._mixed_tail, self._count
        if tail is not None and count and not np.isfinite(tail[:count]).all():
            return False
        return self._numbers_are_finite()

    def _explain(self, data: bytes, size: int) -> str:
        if len(data) >= 16:
            length = int.from_bytes(data[12:16], "little")
            frame = data[16 : 16 + length].rstrip(b"\0")
            if length <= len(data) and frame != self.frame.encode():
                return f"{self.TYPE}: frame_id = {frame.decode(errors='replace')!r}: must be {self.frame!r}"
        return f"{self.TYPE}: {len(data)} bytes: must be {4 + size} in little-endian CDR"


class _Numbers(NamedTuple):
    """The numbers of a message that have to be finite."""

    values: np.ndarray  # the buffer as float64
    runs: np.ndarray  # begin and end of neighbouring fields in it, (runs, 2)


@kernel
def _all_finite(packed):
    values, runs = packed.arrays.values, packed.arrays.runs
    finite = True
    for run in range(runs.shape[0]):
        for i in range(runs[run, 0], runs[run, 1]):
            finite &= math.isfinite(values[i])
    return finite


def _marks(frame: int, places: Sequence[tuple[int, str]]) -> struct.Struct:
    """Reader of byte order, frame id (`frame` bytes) and values of a format at some offsets in serialised bytes."""
    end, layout = 12 + frame, f"<2s10x{frame}s"
    for at, kind in places:
        layout += f"{at - end}x{kind}"
        end = at + struct.calcsize(f"<{kind}")
    return struct.Struct(layout)


def _serialise(strings: Sequence[str]) -> bytes:
    """A sequence of strings in CDR, from a place that is a multiple of four."""
    data = bytearray(struct.pack("<I", len(strings)))
    for string in strings:
        text = string.encode() + b"\0"
        data += bytes(-len(data) % 4) + struct.pack("<I", len(text)) + text
    return bytes(data)


def read_text(data: bytes, at: int) -> tuple[str, int]:
    """The string whose length is in `data` at the next multiple of four, and where it ends."""
    at += -at % 4
    (length,) = struct.unpack_from("<I", data, at)
    text = data[at + 4 : at + 4 + length]
    if len(text) != length or text[-1:] != b"\0":
        raise ValueError
    return text[:-1].decode(), at + 4 + length


def _floats(elements: np.ndarray) -> np.ndarray:
    """The float64 values at the end of each element, which follow its integers, (elements, values)."""
    kind = elements.dtype
    assert kind.names is not None and kind.fields is not None
    first = next(kind.fields[name][1] for name in kind.names if kind.fields[name][0].base == np.float64)
    return elements.view("<f8").reshape(elements.size, kind.itemsize // 8)[:, first // 8 :]


def _scalar(field: Field) -> property:
    name = field.name

    def read(self: Message) -> Any:
        return self._scalars[name][0]

    def write(self: Message, value: Any) -> None:
        self._scalars[name][0] = value

    return property(read, write, doc=field.meaning)


class _Values:
    """Refuses that an array field is bound to another array, which would not be in the buffer, and so never sent.

    Without `__get__`, so that the array is read from the instance as any attribute is.
    """

    def __init__(self, name: str):
        self._name = name

    def __set__(self, message: Message, value: Any) -> None:
        if value is message.__dict__.get(self._name):  # what `message.wrench += other` binds after adding in place
            return
        name = self._name
        raise FieldAssignmentError(
            f"{type(message).__name__}.{name} = {type(value).__name__}: must keep its array, which is part of the "
            f"message; write the values into it: {name}[:] = ..."
        )


def columns(layout: Message, messages: Sequence[bytes]) -> np.ndarray:
    """The fields of many messages of one layout, without strings and the last sequence, as a structured array.

    Raises:
        MessageError: one of them is shorter: it is of another version of the message.
    """
    names, formats, offsets = ["sec", "nanosec"], ["<i4", "<u4"], [0, 4]
    end = 8
    for field in layout.FIELDS:
        start, dtype, count = layout.offsets[field.name]
        if field is layout.FIELDS[-1] and field.sequence:
            break
        if count == 0 or field.is_text:
            continue
        names.append(field.name)
        formats.append(dtype if field.is_scalar else (dtype, count))  # type: ignore[arg-type]
        offsets.append(start)
        end = start + dtype.itemsize * count
    dtype = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": end})
    if (shortest := min(map(len, messages), default=4 + end)) < 4 + end:
        raise MessageError(
            f"{layout.TYPE}: {shortest} bytes: must be at least {4 + end}; it is of another version of haptics"
        )
    return np.frombuffer(b"".join(message[4 : 4 + end] for message in messages), dtype)


class DeviceState(definitions.DeviceState, Message):
    def __init__(self, frame: str = "world", buttons: int = MOST_BUTTONS):
        super().__init__(frame, buttons=buttons)


class DeviceReading(definitions.DeviceReading, Message):
    def __init__(self, frame: str = "world", buttons: int = MOST_BUTTONS):
        super().__init__(frame, buttons=buttons)


class DeviceCommand(definitions.DeviceCommand, Message):
    pass


class ToolCommand(definitions.ToolCommand, Message):
    _fill_hand: Callable[..., object] | None = None  # compiled for the messages that come

    def set_hand(self, device: DeviceState) -> None:
        """Say of the hand what the state of its device says; what that leaves open is ABSENT."""
        given = device.packed, self.packed
        if self._fill_hand is None:
            self._fill_hand = bind(_fill_hand, *given)
        self._fill_hand(*given)


class ToolState(definitions.ToolState, Message):
    pass


class LocalGeometry(definitions.LocalGeometry, Message):
    pass


class WorldState(definitions.WorldState, Message):
    pass


class ForwardPacket(definitions.ForwardPacket, Message):
    pass  # state and reason stand before the numbers: at the end the middleware would pad them


class BackwardPacket(definitions.BackwardPacket, Message):
    pass


class OperatorEvent(definitions.OperatorEvent, Message):
    pass


RelayPacket: TypeAlias = ForwardPacket | BackwardPacket


def pack(*messages: Message) -> None:
    """Make `packed` of messages, which takes too long for the first tick that needs it."""
    for message in messages:
        _ = message.packed


@kernel
def _fill_hand(device, command):
    """Fill in what a ToolCommand says of the hand, from a DeviceState; both are packed."""
    device, command = device.arrays, command.arrays
    known = device.state[0] == ENABLED and device.reason[0] < _HANDS.size
    command.hand[0] = _HANDS[device.reason[0]] if known else ABSENT
    command.hand_age[0] = device.reading_age[0]


@kernel
def stamp_next(command, state, rate):
    """Give a ToolState the tick after its own, and the time of the tick after that; see `Message.stamp`.

    Args:
        command: the ToolCommand that it answers, packed.
        state: the ToolState, packed.
        rate: [Hz].
    """
    command, state = command.arrays, state.arrays
    tick, of_command = state.tick[0] + 1, command.tick[0]
    time = command.sec[0] * _NANO + command.nanosec[0]
    time += np.int64(np.rint((tick + 1) * _NANO / rate)) - np.int64(np.rint(of_command * _NANO / rate))
    state.tick[0], state.command_tick[0] = tick, of_command
    state.sec[0], state.nanosec[0] = time // _NANO, time % _NANO


class ToolSizes(NamedTuple):
    """Numbers of a tool that the layout of its ToolState depends on."""

    q: int  # numbers of its configuration
    v: int  # numbers of its velocity
    multipliers: int = 0  # rows of its exact constraints

    def tool_state(self) -> ToolState:
        """A message for this tool."""
        return ToolState(q=self.q, v=self.v, multipliers=self.multipliers, constraint_directions=36)


TOPICS: dict[str, type[Message]] = {
    "operator_events": OperatorEvent,
    "device_reading": DeviceReading,
    "device_state": DeviceState,
    "relay_forward": ForwardPacket,
    "relayed_device_state": DeviceState,
    "tool_command": ToolCommand,
    "tool_state": ToolState,
    "device_command": DeviceCommand,
    "relay_backward": BackwardPacket,
    "relayed_device_command": DeviceCommand,
    "local_geometry": LocalGeometry,
    "world_state": WorldState,
}
"""Topics that are recorded, in the order of the tick."""

INPUTS: dict[str, type[Message]] = {"operator_events_in": OperatorEvent}
"""Topics that anybody may publish."""


def topic_of(hand: str, topic: str) -> str:
    """The name of a hand's topic: that of a further hand is in a namespace of the hand's name."""
    return f"{hand}/{topic}" if hand else topic


def split_topic(name: str) -> tuple[str, str]:
    """Hand, empty for the first, and topic of a name that `topic_of` made."""
    hand, _, topic = name.rpartition("/")
    return hand, topic
