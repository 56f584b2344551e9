"""The bytes of a file are those of mcap's Writer, whatever is written, and a file may lose its last parts."""

import itertools
from io import BytesIO

import numpy as np
import pytest
from mcap.records import Channel, Schema
from mcap.writer import CompressionType, Writer

from haptic_bench.recording.mcap_file import McapLayout, Part, contents

SCHEMAS = [Schema(1, b"float64 x", "ros2msg", "a/msg/A"), Schema(2, b"", "ros2msg", "a/msg/B")]
CHANNELS = [
    Channel(1, "/first", "cdr", {"offered_qos_profiles": "[]"}, 1),
    Channel(2, "/second", "cdr", {}, 2),
    Channel(3, "/third", "cdr", {"topic_type_hash": "RIHS01"}, 1),
]


def steps(seed: int) -> list:
    """Chunks of messages (lists) and metadata (dictionaries), in any order."""
    random = np.random.default_rng(seed)

    def message() -> tuple[int, int, bytes, int]:
        return (
            int(random.integers(1, 4)),
            int(random.integers(0, 2**63 if random.random() < 0.5 else 2)),
            random.bytes(int(random.integers(0, 300))),
            int(random.integers(0, 2**63 if random.random() < 0.5 else 2)),
        )

    return [
        {"step": str(step)} if random.random() < 0.3 else [message() for _ in range(random.integers(1, 20))]
        for step in range(random.integers(0, 12))
    ]


def theirs(given: list) -> bytes:
    stream = BytesIO()
    writer = Writer(stream, chunk_size=2**63, compression=CompressionType.NONE)
    writer.start("ros2", "haptics")
    known: set[int] = set()
    for channel in CHANNELS:
        if channel.schema_id not in known:
            known.add(channel.schema_id)
            schema = SCHEMAS[channel.schema_id - 1]
            writer.register_schema(schema.name, schema.encoding, schema.data)
        writer.register_channel(channel.topic, channel.message_encoding, channel.schema_id, channel.metadata)
    for step in given:
        if isinstance(step, dict):
            writer.add_metadata("named", step)
        else:
            for channel_id, log_time, data, publish_time in step:
                writer.add_message(channel_id, log_time, data, publish_time)
            writer.flush()
    writer.finish()
    return stream.getvalue()


def appended(layout: McapLayout, step: list | dict, parts: list[Part]) -> tuple[bytes, Part]:
    """What a step adds; neighbouring messages with the same times are given together."""
    if isinstance(step, dict):
        return layout.metadata("named", step, parts)
    entries = []
    for (log_time, publish_time), several in itertools.groupby(step, lambda message: (message[1], message[3])):
        channels, _, data, _ = zip(*several, strict=True)
        entries.append((tuple(channel - 1 for channel in channels), log_time, data, publish_time))
    return layout.chunk(entries, parts)


def ours(given: list) -> bytes:
    layout = McapLayout(SCHEMAS, CHANNELS)
    data, part = layout.head("haptics")
    parts = [part]
    for step in given:
        more, part = appended(layout, step, parts)
        data += more
        parts.append(part)
        assert part.end == len(data)
    return data + layout.end(parts)


@pytest.mark.parametrize("seed", range(20))
def test_the_bytes_are_those_of_mcaps_writer(seed: int) -> None:
    given = steps(seed)
    assert ours(given) == theirs(given)


def test_a_file_that_loses_its_last_parts_is_one_that_never_had_them() -> None:
    given = [[(1, 5, b"first", 6)], [(2, 1, b"second", 2)], {"a": "b"}]
    layout = McapLayout(SCHEMAS, CHANNELS)
    data, head = layout.head("haptics")
    parts: list[Part] = [head]
    for step in given:
        parts.append(appended(layout, step, parts)[1])
    for kept in range(1, len(parts) + 1):
        assert layout.end(parts[:kept]) == ours(given[: kept - 1])[parts[kept - 1].end :]
    assert contents(parts).counts == {1: 1, 2: 1} and (contents(parts).start, contents(parts).end) == (1, 5)
    assert contents(parts[:1]).start is None  # nothing, not the time 0
    again = appended(layout, given[1], parts[:1])  # the first chunk again: it has the definitions
    assert data + again[0] + layout.end([head, again[1]]) == theirs(given[1:2])
