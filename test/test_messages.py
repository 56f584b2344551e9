"""Messages against rosbags: the same bytes, the same values, and nothing else is taken for a message."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from haptic_sim.messages import (
    COLLIDING,
    CONSTRAINT,
    CONTACT,
    FORCE,
    FREE,
    MOTION,
    REASONS,
    RESTING,
    STATES,
    TOPICS,
    BackwardPacket,
    DeviceCommand,
    DeviceReading,
    DeviceState,
    FieldAssignmentError,
    ForwardPacket,
    LocalGeometry,
    Message,
    MessageError,
    OperatorEvent,
    Reason,
    ToolCommand,
    ToolState,
    WorldState,
    columns,
    stamp_next,
    tick_time,
    time_between,
)

TYPES = get_typestore(Stores.ROS2_JAZZY)
TYPES.register(
    {
        name: definition
        for file in sorted((ROOT / "msg").glob("*.msg"))
        for name, definition in get_types_from_msg(file.read_text(), f"haptics/msg/{file.stem}").items()
    }
)

CLASSES = list(dict.fromkeys(TOPICS.values()))
LENGTHS: dict[type[Message], dict[str, Any]] = {  # of the sequences; of the last one its capacity
    OperatorEvent: {},
    DeviceReading: {"buttons": 6},
    DeviceState: {"buttons": 5},
    DeviceCommand: {},
    ToolCommand: {},
    ForwardPacket: {},
    BackwardPacket: {},
    ToolState: {"q": 4, "v": 3, "multipliers": 2, "constraint_directions": 18},
    LocalGeometry: {"q": 4, "v": 3, "inertia": 9, "gravity": 3, "poses": 2, "twists": 2, "constraints": 7},
    WorldState: {
        "bodies": ("floor", "b", "Kugel_ä"),
        "poses": 3,
        "twists": 3,
        "q_names": ("b", "arm/joint.qx"),
        "q": 2,
        "v_names": (),
        "v": 0,
        "contacts": 7,
    },
}
FRAMES = ["w" * n for n in range(1, 10)]  # every alignment of what follows the frame's name


def make(cls: type[Message], frame: str = "world") -> Any:
    return cls(frame, **LENGTHS[cls])


def values_of(message: Message) -> dict[str, np.ndarray]:
    """Name to view of every field of numbers; of the last sequence only what is in use."""
    fields = {field.name: message._views[field.name] for field in message.FIELDS if not field.is_text}
    last = message.FIELDS[-1]
    if last.sequence:
        fields[last.name] = fields[last.name][: len(message)]
    return fields


def fill(message: Message, rng: np.random.Generator, count: int | None = None) -> None:
    """Random values over the whole range of each type; a tail of `count`, or of a random number of values."""
    last = message.FIELDS[-1]
    if last.sequence:
        message.resize(int(rng.integers(LENGTHS[type(message)][last.name] + 1)) if count is None else count)
    message.stamp(0, int(rng.integers(10**18)))
    for view in values_of(message).values():
        for part in [view[name] for name in view.dtype.names] if view.dtype.names else [view]:
            if part.dtype.kind == "f":
                part[...] = rng.normal(size=part.shape) * 10.0 ** rng.integers(-300, 300, part.shape)
            else:
                info = np.iinfo(part.dtype)
                part[...] = rng.integers(info.min, info.max, part.shape, dtype=part.dtype, endpoint=True)


def build(name: str, values: Iterator[Any]) -> Any:
    """A rosbags message whose numbers are taken from `values`, in the order of its definition."""
    return TYPES.types[name](*(_take(node, values) for _, node in TYPES.fielddefs[name][1]))


def _take(node: Any, values: Iterator[Any]) -> Any:
    kind, detail = node
    if kind == Nodetype.NAME:
        return build(detail, values)
    if kind == Nodetype.BASE:
        return next(values)
    (item_kind, item), length = detail
    length = length or next(values)  # a sequence is preceded by its length
    if item_kind == Nodetype.NAME:
        return [build(item, values) for _ in range(length)]
    if item[0] == "string":
        return [next(values) for _ in range(length)]
    return np.array([next(values) for _ in range(length)], np.dtype(item[0]))


def as_rosbags(message: Message) -> Any:
    """The same message made by rosbags from its values, of which it knows only the order in `msg/*.msg`."""
    time = TYPES.types["builtin_interfaces/msg/Time"](*divmod(message.nanoseconds, 10**9))
    header = TYPES.types["std_msgs/msg/Header"](time, message.frame)
    flat: list[Any] = []
    for field in message.FIELDS:
        view = LENGTHS[type(message)][field.name] if field.is_text else values_of(message)[field.name]
        if field.sequence:
            flat.append(len(view))
        flat += flattened(view)
    rest = iter(flat)
    fields = TYPES.fielddefs[message.TYPE][1]
    assert fields[0][0] == "header"
    built = TYPES.types[message.TYPE](header, *(_take(node, rest) for _, node in fields[1:]))
    assert next(rest, None) is None
    return built


def flattened(values: Any) -> list[Any]:
    """All numbers, or strings, of a field."""
    if not isinstance(values, np.ndarray):
        return list(values)
    if values.dtype.names:
        return [n for row in values for name in values.dtype.names for n in np.atleast_1d(row[name]).tolist()]
    return list(values.ravel().tolist())


def numbers(value: Any) -> list[Any]:
    """All numbers and strings of a rosbags message in the order of its definition, without header and constants."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list):
        return [n for item in value for n in numbers(item)]
    if hasattr(value, "__msgtype__"):
        names = [name for name, _ in TYPES.fielddefs[value.__msgtype__][1]]
        return [n for name in names if name != "header" for n in numbers(getattr(value, name))]
    return [value]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("cls", CLASSES)
def test_bytes_are_those_of_rosbags_and_are_read_back_by_it(cls: type[Message], frame: str) -> None:
    rng = np.random.default_rng(20260)
    message = make(cls, frame)
    tail = list(LENGTHS[cls].values())[-1] if cls.FIELDS[-1].sequence else 0
    for count in (0, 1, 2, tail // 2, tail - 1, tail) if cls.FIELDS[-1].sequence else (None,) * 4:
        fill(message, rng, count)
        data = message.to_bytes()
        assert data == bytes(TYPES.serialize_cdr(as_rosbags(message), cls.TYPE))
        read = TYPES.deserialize_cdr(data, cls.TYPE)
        assert read.header.frame_id == frame
        assert read.header.stamp.sec * 10**9 + read.header.stamp.nanosec == message.nanoseconds
        fields = {name: LENGTHS[cls].get(name, ()) for name in (field.name for field in cls.FIELDS)} | values_of(
            message
        )
        assert numbers(read) == [n for values in fields.values() for n in flattened(values)]


@pytest.mark.parametrize("cls", CLASSES)
def test_fields_are_those_of_the_definition_flattened(cls: type[Message]) -> None:
    def count(node: Any) -> int:
        kind, detail = node
        if kind == Nodetype.NAME:
            return sum(count(inner) for _, inner in TYPES.fielddefs[detail][1])
        return 1 if kind == Nodetype.BASE else detail[1] * count(detail[0])

    def scalar(node: Any) -> np.dtype:
        kind, detail = node
        while kind in (Nodetype.ARRAY, Nodetype.SEQUENCE):
            kind, detail = detail[0]
        if kind == Nodetype.NAME:
            return ELEMENTS.get(detail, np.dtype("<f8"))
        return np.dtype(detail[0])

    defined = TYPES.fielddefs[cls.TYPE][1][1:]  # without the header
    assert [name for name, _ in defined] == [field.name for field in cls.FIELDS]
    for (_, node), field in zip(defined, cls.FIELDS, strict=True):
        assert field.sequence == (node[0] == Nodetype.SEQUENCE)
        assert field.sequence or field.count == count(node)
        if field.is_text:
            assert node[1][0] == (Nodetype.BASE, ("string", 0))
            continue
        assert np.dtype(field.dtype) == scalar(node)
        assert not field.sequence or np.dtype(field.dtype).names or field.width == count(node[1][0])


ELEMENTS = {"haptics/msg/LocalConstraint": CONSTRAINT, "haptics/msg/ContactState": CONTACT}


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements_are_the_definition_flattened(name: str) -> None:
    fields, element = TYPES.fielddefs[name][1], ELEMENTS[name]
    assert [name for name, _ in fields] == list(element.names or ())
    for name, (kind, detail) in fields:
        expected = ("<f8", 3) if kind == Nodetype.NAME else detail[0]
        assert element[name] == np.dtype(expected), name


def test_constants_are_those_of_the_definitions() -> None:
    assert [TYPES.types["haptics/msg/ToolState"].__dict__[n] for n in ("FREE", "COLLIDING", "RESTING")] == [
        FREE,
        COLLIDING,
        RESTING,
    ]
    assert TYPES.types["haptics/msg/DeviceCommand"].FORCE == FORCE
    assert TYPES.types["haptics/msg/DeviceCommand"].MOTION == MOTION
    of_state = TYPES.types["haptics/msg/DeviceState"].__dict__
    assert [of_state[name.upper()] for name in STATES] == list(range(len(STATES)))
    assert {one: of_state[one.name] for one in Reason} == {one: one.value for one in Reason}
    assert set(REASONS) == set(Reason)


def test_columns_refuse_messages_of_before_a_field_was_added() -> None:
    state = DeviceState()
    shorter = state.to_bytes()[: -(8 + 2 + 2 + 4)]  # reading_age, state and reason, padding, the number of buttons
    with pytest.raises(MessageError, match="another version of haptics"):
        columns(state, [shorter, shorter])


def test_topics_are_in_the_order_of_the_tick() -> None:
    assert list(TOPICS.items()) == [
        ("operator_events", OperatorEvent),
        ("device_reading", DeviceReading),
        ("device_state", DeviceState),
        ("relay_forward", ForwardPacket),
        ("relayed_device_state", DeviceState),
        ("tool_command", ToolCommand),
        ("tool_state", ToolState),
        ("device_command", DeviceCommand),
        ("relay_backward", BackwardPacket),
        ("relayed_device_command", DeviceCommand),
        ("local_geometry", LocalGeometry),
        ("world_state", WorldState),
    ]


@pytest.mark.parametrize("cls", CLASSES)
def test_loaded_values_and_bytes_are_those_sent(cls: type[Message]) -> None:
    rng = np.random.default_rng(20261)
    sent, received = make(cls, "wor"), make(cls, "wor")
    for _ in range(20):
        fill(sent, rng)
        data = sent.to_bytes()
        received.load(data)
        assert received.to_bytes() == data
        assert len(received) == len(sent)
        assert received.tick == sent.tick
        assert received.nanoseconds == sent.nanoseconds
        for name, view in values_of(sent).items():
            np.testing.assert_array_equal(values_of(received)[name], view)


@pytest.mark.parametrize("cls", CLASSES)
def test_bytes_of_rosbags_are_loaded(cls: type[Message]) -> None:
    rng = np.random.default_rng(20262)
    sent, received = make(cls), make(cls)
    fill(sent, rng)
    received.load(bytes(TYPES.serialize_cdr(as_rosbags(sent), cls.TYPE)))
    assert received.to_bytes() == sent.to_bytes()


@pytest.mark.parametrize("cls", CLASSES)
def test_bytes_that_are_sent_need_no_padding(cls: type[Message]) -> None:
    """What the middleware pads would be recorded in lockstep with other bytes than offline."""
    assert len(make(cls, "wo").to_bytes()) % 4 == 0


@pytest.mark.parametrize("cls", CLASSES)
def test_padding_to_four_bytes_is_accepted(cls: type[Message]) -> None:
    """Middlewares pad a serialised message to a multiple of four bytes."""
    rng = np.random.default_rng(20263)
    sent, received = make(cls, "wo"), make(cls, "wo")
    fill(sent, rng)
    for padding in range(4):
        received.load(sent.to_bytes() + b"\0" * padding)
        assert received.to_bytes() == sent.to_bytes()


def kept(message: Message, data: bytes) -> str:
    """What is said of refused bytes; the message must be as before, and must still take good ones."""
    before, length = message.to_bytes(), len(message)
    with pytest.raises(MessageError) as caught:
        message.load(data)
    assert (len(message), message.to_bytes()) == (length, before), f"changed by {len(data)} refused bytes"
    message.load(before)
    assert message.to_bytes() == before
    return str(caught.value)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("held", [0, 2])
def test_truncated_bytes_are_refused_and_change_nothing(cls: type[Message], held: int) -> None:
    rng = np.random.default_rng(20264)
    sent, received = make(cls), make(cls)
    fill(sent, rng, 5 if cls.FIELDS[-1].sequence else None)
    fill(received, rng, held if cls.FIELDS[-1].sequence else None)
    data = sent.to_bytes()
    for end in range(len(data)):
        assert cls.TYPE in kept(received, data[:end])


@pytest.mark.parametrize("cls", CLASSES)
def test_the_expected_size_is_named(cls: type[Message]) -> None:
    rng = np.random.default_rng(20265)
    sent, received = make(cls), make(cls)
    fill(sent, rng, 3 if cls.FIELDS[-1].sequence else None)
    data = sent.to_bytes()
    with pytest.raises(MessageError) as caught:
        received.load(data[:-1])
    expected = f"{cls.TYPE}: {len(data) - 1} bytes: must be {len(data)} in little-endian CDR"
    assert str(caught.value) == expected


@pytest.mark.parametrize("extra", [4, 40, 100])
@pytest.mark.parametrize("cls", CLASSES)
def test_bytes_after_the_end_are_refused(cls: type[Message], extra: int) -> None:
    rng = np.random.default_rng(20266)
    sent, received = make(cls), make(cls)
    fill(sent, rng, 1 if cls.FIELDS[-1].sequence else None)
    fill(received, rng, 1 if cls.FIELDS[-1].sequence else None)
    kept(received, sent.to_bytes() + b"\0" * extra)


@pytest.mark.parametrize("cls", CLASSES)
def test_another_frame_is_refused_by_name(cls: type[Message]) -> None:
    rng = np.random.default_rng(20267)
    received = make(cls, "world")
    fill(received, rng)
    for frame in ("w", "worl", "wormy", "world2", "a_much_longer_frame"):
        sent = make(cls, frame)
        fill(sent, rng)
        assert kept(received, sent.to_bytes()) == f"{cls.TYPE}: frame_id = {frame!r}: must be 'world'"


@pytest.mark.parametrize("sent", CLASSES)
@pytest.mark.parametrize("received", CLASSES)
def test_another_type_is_refused(sent: type[Message], received: type[Message]) -> None:
    if sent is received:
        return
    rng = np.random.default_rng(20268)
    message, other = make(received), make(sent)
    fill(message, rng)
    for _ in range(20):
        fill(other, rng)
        if not LENGTHS[received] and 0 <= len(other.to_bytes()) - len(message.to_bytes()) < 4:
            continue  # nothing but the size tells bytes of fixed length apart
        kept(message, other.to_bytes())


@pytest.mark.parametrize(
    ("cls", "lengths"),
    [
        (ToolState, {"q": 3, "v": 4, "constraint_directions": 18}),
        (ToolState, {"q": 4, "v": 2, "constraint_directions": 18}),
        (LocalGeometry, {"q": 3, "v": 4, "inertia": 9, "gravity": 3, "constraints": 7}),
        (LocalGeometry, {"q": 4, "v": 3, "inertia": 3, "gravity": 9, "constraints": 7}),
        (WorldState, LENGTHS[WorldState] | {"bodies": ("floor", "c", "Kugel_ä")}),
        (WorldState, LENGTHS[WorldState] | {"bodies": ("floor", "", "Kugel_ä")}),
        (WorldState, LENGTHS[WorldState] | {"q_names": ("c", "arm/joint.qx")}),
    ],
)
def test_other_lengths_of_inner_sequences_are_refused(cls: type[Message], lengths: dict[str, int]) -> None:
    """Also where the total size is the same: the values would be taken for those of another field, or body."""
    rng = np.random.default_rng(20269)
    message, other = make(cls), cls(**lengths)
    fill(message, rng, 0)
    other.resize(0)
    kept(message, other.to_bytes())


def test_another_byte_order_is_refused() -> None:
    message = ToolCommand()
    data = bytearray(message.to_bytes())
    data[1] = 0  # big-endian CDR
    assert kept(message, bytes(data)) == f"haptics/msg/ToolCommand: {len(data)} bytes: must be {len(data)} in " + (
        "little-endian CDR"
    )


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (DeviceReading, "buttons"),
        (DeviceState, "buttons"),
        (ToolState, "constraint_directions"),
        (LocalGeometry, "constraints"),
        (WorldState, "contacts"),
    ],
)
def test_more_than_the_capacity_is_refused(cls: type[Message], name: str) -> None:
    capacity = LENGTHS[cls][name]
    message = make(cls)
    message.resize(capacity)
    before = message.to_bytes()
    with pytest.raises(MessageError) as caught:
        message.resize(capacity + 1)
    assert str(caught.value) == f"{cls.TYPE}: {capacity + 1} {name}: must be at most {capacity}"
    assert message.to_bytes() == before
    bigger = cls(**LENGTHS[cls] | {name: capacity + 1})
    bigger.resize(capacity + 1)
    kept(message, bigger.to_bytes())


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("cls", CLASSES)
def test_every_float_is_checked_for_finiteness(cls: type[Message], frame: str) -> None:
    rng = np.random.default_rng(20270)
    message = make(cls, frame)
    last = message.FIELDS[-1]
    fill(message, rng, LENGTHS[cls][last.name] if last.sequence else None)
    for view in values_of(message).values():  # integers whose bits read as NaN are finite all the same
        for part in [view[name] for name in view.dtype.names] if view.dtype.names else [view]:
            if part.dtype.kind != "f":
                part[...] = -1 if part.dtype.kind == "i" else np.iinfo(part.dtype).max
    assert message.is_finite()
    checked = 0
    for view in values_of(message).values():
        for part in [view[name] for name in view.dtype.names] if view.dtype.names else [view]:
            if part.dtype.kind != "f":
                continue
            for index in np.ndindex(part.shape):
                good = part[index]
                for bad in (np.nan, np.inf, -np.inf):
                    part[index] = bad
                    assert not message.is_finite()
                part[index] = good
                checked += 1
    assert message.is_finite()
    floats = {
        OperatorEvent: 10,
        DeviceReading: 22,
        DeviceState: 30,
        DeviceCommand: 25,
        ToolCommand: 7,
        ToolState: 1 + 6 + 6 + 7 + 6 + 36 + 6 + 2 + 8 + 9 + 18,
    }
    floats[LocalGeometry] = 1 + 7 + 4 + 3 + 9 + 3 + 6 + 2 * 7 + 2 * 6 + 7 * 17
    floats[WorldState] = 3 * 7 + 3 * 6 + 2 + 7 * 10
    floats[ForwardPacket], floats[BackwardPacket] = 7 + 4 * 6 + 10, 6 + 6 + 10
    assert checked == floats[cls]


@pytest.mark.parametrize("cls", [ToolState, LocalGeometry, WorldState])
def test_one_bad_message_does_not_spoil_the_next(cls: type[Message]) -> None:
    """What a refused message leaves behind the end of a later, shorter one is no value of the latter."""
    rng = np.random.default_rng(20271)
    sent, received = make(cls), make(cls)
    fill(sent, rng, 6)
    tail = values_of(sent)[cls.FIELDS[-1].name]
    (tail[tail.dtype.names[-1]] if tail.dtype.names else tail)[5] = np.nan
    received.load(sent.to_bytes())
    assert not received.is_finite()
    fill(sent, rng, 2)
    received.load(sent.to_bytes())
    assert received.is_finite()


@pytest.mark.parametrize("cls", CLASSES)
def test_columns_are_the_views_of_each_message(cls: type[Message]) -> None:
    rng = np.random.default_rng(20272)
    layout, messages, rows = make(cls), [], []
    for _ in range(9):
        fill(layout, rng)
        messages.append(layout.to_bytes())
        rows.append(
            {name: np.array(view) for name, view in values_of(layout).items()}
            | {"sec": layout.nanoseconds // 10**9, "nanosec": layout.nanoseconds % 10**9}
        )
    table = columns(make(cls), messages)
    fields = [field for field in cls.FIELDS if not (field.sequence and field is cls.FIELDS[-1])]
    fields = [field for field in fields if not field.is_text and np.size(rows[0][field.name])]
    assert list(table.dtype.names) == ["sec", "nanosec", *(field.name for field in fields)]
    assert table.shape == (9,)
    for name in table.dtype.names:
        expected = np.array([np.ravel(row[name]).squeeze() for row in rows])
        np.testing.assert_array_equal(table[name], expected, strict=False)
        assert table[name].shape == expected.shape


def test_columns_leave_out_empty_sequences_and_take_no_messages() -> None:
    layout = ToolState(q=0, v=2, constraint_directions=6)
    layout.v[:] = [1.5, -2.5]
    layout.kinetic_energy = 7.0
    assert "q" not in columns(layout, [layout.to_bytes()]).dtype.names
    np.testing.assert_array_equal(columns(layout, [layout.to_bytes()])["v"], [[1.5, -2.5]])
    assert columns(layout, []).shape == (0,)


@pytest.mark.parametrize("rate", [512.0, 1000.0, 333.3])
def test_tick_times_are_exact(rate: float) -> None:
    """To the nanosecond: a time is never off by more than its own rounding, over an hour."""
    ticks = [*range(5000), *range(5000, round(3600 * rate), 7919)]
    for tick in ticks:
        assert tick_time(tick, rate) == round(Fraction(tick) * 10**9 / Fraction(rate))


def test_a_stamp_is_seconds_and_nanoseconds() -> None:
    message = ToolCommand()
    message.stamp(1537, tick_time(1537, 512.0))
    assert (message.tick, message.nanoseconds) == (1537, 3_001_953_125)
    read = TYPES.deserialize_cdr(message.to_bytes(), ToolCommand.TYPE)
    assert (read.header.stamp.sec, read.header.stamp.nanosec) == (3, 1_953_125)


def test_views_share_the_buffer_and_are_aligned() -> None:
    for frame in FRAMES:
        for cls in CLASSES:
            message = make(cls, frame)
            for name, view in values_of(message).items():
                assert view.dtype.itemsize in (1, 4, 8, 96, 152)
                if view.size:
                    assert view.ctypes.data % min(view.dtype.itemsize, 8) == 0, (frame, name)
                    assert np.shares_memory(view, message._buffer)


def test_copies_are_equal_and_apart() -> None:
    rng = np.random.default_rng(20273)
    one, other = make(LocalGeometry), make(LocalGeometry)
    fill(one, rng, 3)
    other.load(one)
    assert (other.to_bytes(), len(other)) == (one.to_bytes(), 3)
    before = one.to_bytes()
    fill(other, rng, 1)
    assert one.to_bytes() == before


@pytest.mark.parametrize("cls", CLASSES)
def test_a_message_is_loaded_as_its_bytes_are(cls: type[Message]) -> None:
    """Whatever was there before, longer or not finite, is gone."""
    rng = np.random.default_rng(20274)
    sent, from_bytes, from_message = make(cls), make(cls), make(cls)
    for count in (6, 2, 0, 3) if cls.FIELDS[-1].sequence else (None,) * 2:
        fill(sent, rng, None if count is None else min(count, LENGTHS[cls][cls.FIELDS[-1].name]))
        from_bytes.load(sent.to_bytes())
        from_message.load(sent)
        assert from_message.to_bytes() == from_bytes.to_bytes() == sent.to_bytes()
        assert len(from_message) == len(sent)
        assert from_message.is_finite()
        for view in values_of(from_message).values():
            if view.dtype.kind == "f":
                view[...] = np.nan
        assert not from_message.is_finite()


def test_a_length_of_no_sequence_is_refused() -> None:
    with pytest.raises(TypeError) as caught:
        ToolState(q=3, v=3, positions=2)
    assert str(caught.value) == "ToolState has no sequence named positions"


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("cls", CLASSES)
def test_a_layout_is_read_from_bytes(cls: type[Message], frame: str) -> None:
    """Names and lengths of a message that was recorded, without the world that it is of."""
    rng = np.random.default_rng(20275)
    sent = make(cls, frame)
    for _ in range(5):
        fill(sent, rng)
        data = sent.to_bytes()
        again = cls.of_layout(data, len(sent))
        again.load(data)
        assert again.to_bytes() == data
        for field in cls.FIELDS:
            if field.is_text:
                assert getattr(again, field.name) == LENGTHS[cls][field.name]


@pytest.mark.parametrize("cls", CLASSES)
def test_a_layout_is_not_read_from_bytes_that_are_no_message(cls: type[Message]) -> None:
    """Whatever the bytes: a message of that layout does not take them, or they are refused; nothing else happens."""
    rng = np.random.default_rng(20276)
    sent = make(cls)
    fill(sent, rng)
    data = sent.to_bytes()
    hostile = [data[:end] for end in range(0, len(data), 7)]
    for _ in range(200):
        changed = bytearray(data)
        at = int(rng.integers(len(data) // 4)) * 4
        changed[at : at + 4] = rng.choice([b"\xff\xff\xff\xff", b"\0\0\0\x40", b"\x01\0\0\0"])
        hostile.append(bytes(changed))
    for bad in hostile:
        try:
            layout = cls.of_layout(bad, 7)
            layout.load(bad)
        except MessageError as error:
            assert cls.TYPE in str(error)
        else:
            assert layout.to_bytes()[:16] == bad[:16]


@pytest.mark.parametrize("rate", [512.0, 1000.0, 997.3])
def test_a_tool_state_is_stamped_as_far_ahead_of_its_command_as_ticks_are(rate: float) -> None:
    command, state = ToolCommand(), ToolState()
    command.stamp(12_345, 1_700_000_000_999_999_999)
    state.stamp(12_345, 0)
    stamp_next(command.packed, state.packed, rate)
    assert (state.tick, state.command_tick) == (12_346, 12_345)
    assert state.nanoseconds == command.nanoseconds + time_between(12_345, 12_347, rate)


@pytest.mark.parametrize("kind", CLASSES)
def test_array_fields_cannot_be_bound_to_other_arrays(kind: type[Message]) -> None:
    """A message sends its buffer: a field that is another array would change nothing, without a word."""
    message = kind(**LENGTHS[kind])
    arrays = [field.name for field in kind.FIELDS if not (field.is_scalar or field.is_text)]
    for name in arrays:
        held = getattr(message, name)
        with pytest.raises(
            FieldAssignmentError, match=rf"^{kind.__name__}\.{name} = ndarray: .*: {name}\[:\] = \.\.\.$"
        ):
            setattr(message, name, held.copy())
        assert getattr(message, name) is held


def test_array_fields_can_be_changed_in_place() -> None:
    command = DeviceCommand()
    command.wrench[:] = 1.0
    command.wrench += 2.0
    assert command.view("wrench").tolist() == [3.0] * 6
