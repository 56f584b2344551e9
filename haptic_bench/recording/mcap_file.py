"""MCAP files without compression: what is appended chunk by chunk, and the index at the end.

The bytes are those of mcap's `Writer`, with which a test compares them. For each message that makes an object and
fifteen calls of its stream, 5 us, most of the time of a recording; here the heads of all messages of a chunk are one
array, and so are the entries of its indexes. Records that a file has few of are mcap's: all but these and chunks.

Nothing here has a state or touches a file: what is to be appended follows from the parts that the file has. So nothing
is half done after an interrupt or on a full disk, and a file may lose its last parts and go on.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import (
    Channel,
    ChunkIndex,
    DataEnd,
    Footer,
    Header,
    McapRecord,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
    SummaryOffset,
)
from mcap.writer import MCAP0_MAGIC as MAGIC

FRAME = struct.Struct("<BQ")  # of every record: opcode, length of the body
MESSAGE = struct.Struct("<HIQQ")  # channel, sequence, log time, publish time; then the data
_CHUNK_HEAD = struct.Struct("<BQQQQIIQ")  # frame; first and last time, size, checksum, no compression, size again
INDEX_HEAD = struct.Struct("<HI")  # of a message index: channel, length of the entries of two uint64
_HEAD = np.dtype(  # of a message: frame and fields before the data
    [("opcode", "u1"), ("length", "<u8"), ("channel", "<u2"), ("sequence", "<u4"), ("log", "<u8"), ("publish", "<u8")]
)
HEAD_SIZE = _HEAD.itemsize  # [B]
_FOOTER_HEAD = struct.Struct("<BQQQ")  # what the checksum of the summary has of the footer
Entry = tuple[tuple[int, ...], int, Sequence[bytes], int]
"""Messages with the same times: indices of their channels, log time [ns], data, publish time [ns]."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a file, as the index has to know it; these stay in memory, so they are small.

    Attributes:
        end: where it ends in the file [B].
        index: of a chunk or of metadata; None of the head.
        counts: of a chunk: number of messages of each channel, in the order of `index.message_index_offsets`.
    """

    end: int
    index: ChunkIndex | MetadataIndex | None = None
    counts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Contents:
    """Content of all parts together.

    Attributes:
        counts: number of messages by channel, those without messages left out.
        start: the first log time [ns]; None without messages.
        end: the last log time [ns], at least 0.
    """

    counts: Mapping[int, int]
    start: int | None
    end: int


class McapLayout:
    """Makes the bytes of a file of some channels.

    Args:
        schemas: numbered from 1 on.
        channels: numbered from 1 on.
    """

    def __init__(self, schemas: Sequence[Schema], channels: Sequence[Channel]):
        self._schemas, self._channels = schemas, channels

    def head(self, library: str) -> tuple[bytes, Part]:
        """The beginning of a file."""
        data = MAGIC + _bytes_of([Header("ros2", library)])
        return data, Part(len(data))

    def chunk(self, messages: Sequence[Entry], parts: Sequence[Part]) -> tuple[bytes, Part]:
        """A chunk that is to follow some parts, at least one message; the first chunk has the definitions, too."""
        begin = parts[-1].end
        first = not any(isinstance(part.index, ChunkIndex) for part in parts)
        definitions = self._definitions() if first else b""
        together, log_times, several, publish_times = zip(*messages, strict=True)
        data = [*chain.from_iterable(several)]
        channels = np.fromiter(chain.from_iterable(together), np.uint16, len(data)) + 1
        sizes = np.fromiter(map(len, data), np.uint64, len(data)) + HEAD_SIZE
        lengths = [*map(len, several)]
        heads, entries = np.zeros(len(data), _HEAD), np.empty((len(data), 2), "<u8")
        heads["opcode"], heads["length"], heads["channel"] = Opcode.MESSAGE, sizes - FRAME.size, channels
        heads["log"] = entries[:, 0] = np.array(log_times, np.uint64).repeat(lengths)
        heads["publish"] = np.array(publish_times, np.uint64).repeat(lengths)
        entries[:, 1] = sizes.cumsum() - sizes + len(definitions)
        records = [definitions] * (1 + 2 * len(data))
        records[1::2], records[2::2] = heads.view(f"V{HEAD_SIZE}").tolist(), data
        content = b"".join(records)
        size, start, end = len(content), min(log_times), max(log_times)
        length = _CHUNK_HEAD.size + size
        head = _CHUNK_HEAD.pack(Opcode.CHUNK, length - FRAME.size, start, end, size, zlib.crc32(content), 0, size)
        behind, offsets, counts = [head, content], {}, []
        at = begin + length
        for channel in dict.fromkeys(chain.from_iterable(dict.fromkeys(together))):
            offsets[channel + 1] = at
            of_channel = entries.compress(channels == channel + 1, 0).tobytes()
            counts.append(len(of_channel) // 16)
            index = FRAME.pack(Opcode.MESSAGE_INDEX, INDEX_HEAD.size + len(of_channel))
            behind += (index, INDEX_HEAD.pack(channel + 1, len(of_channel)), of_channel)
            at += FRAME.size + INDEX_HEAD.size + len(of_channel)
        found = ChunkIndex(length, begin, "", size, end, at - begin - length, offsets, start, size)
        return b"".join(behind), Part(at, found, tuple(counts))

    def metadata(self, name: str, values: Mapping[str, str], parts: Sequence[Part]) -> tuple[bytes, Part]:
        """Named strings that are to follow some parts."""
        begin = parts[-1].end
        data = _bytes_of([Metadata(name, dict(values))])
        return data, Part(begin + len(data), MetadataIndex(begin, len(data), name))

    def end(self, parts: Sequence[Part]) -> bytes:
        """The end of a file of some parts: its summary and index."""
        before = _bytes_of([DataEnd(0)])
        start = parts[-1].end + len(before)
        chunks = [part.index for part in parts if isinstance(part.index, ChunkIndex)]
        metadata = [part.index for part in parts if isinstance(part.index, MetadataIndex)]
        groups: list[tuple[Opcode, Sequence[McapRecord]]] = [
            (Opcode.SCHEMA, self._schemas),
            (Opcode.CHANNEL, self._channels),
            (Opcode.STATISTICS, [self._statistics(contents(parts), len(chunks), len(metadata))]),
            (Opcode.CHUNK_INDEX, chunks),
            (Opcode.ATTACHMENT_INDEX, []),
            (Opcode.METADATA_INDEX, metadata),
        ]
        summary, offsets = b"", []
        for opcode, records in groups:
            group = _bytes_of(records)
            offsets.append(SummaryOffset(opcode, start + len(summary), len(group)))
            summary += group
        offset_start = start + len(summary)
        summary += _bytes_of(offsets)
        checked = summary + _FOOTER_HEAD.pack(Opcode.FOOTER, 20, start, offset_start)
        return before + summary + _bytes_of([Footer(start, offset_start, zlib.crc32(checked))]) + MAGIC

    def _definitions(self) -> bytes:
        """Each schema before the first channel that has it, as mcap's Writer is told them."""
        known: set[int] = set()
        records: list[McapRecord] = []
        for channel in self._channels:
            if channel.schema_id not in known:
                known.add(channel.schema_id)
                records.append(self._schemas[channel.schema_id - 1])
            records.append(channel)
        return _bytes_of(records)

    def _statistics(self, held: Contents, chunks: int, metadata: int) -> Statistics:
        return Statistics(
            attachment_count=0,
            channel_count=len(self._channels),
            channel_message_counts=dict(held.counts),
            chunk_count=chunks,
            message_count=sum(held.counts.values()),
            message_end_time=held.end,
            message_start_time=held.start or 0,
            metadata_count=metadata,
            schema_count=len(self._schemas),
        )


def contents(parts: Iterable[Part]) -> Contents:
    """Content of some parts together."""
    chunks = [(part.index, part.counts) for part in parts if isinstance(part.index, ChunkIndex)]
    counts: dict[int, int] = {}
    for index, found in chunks:
        for channel, count in zip(index.message_index_offsets, found, strict=True):
            counts[channel] = counts.get(channel, 0) + count
    indexes = [index for index, _ in chunks]
    start = min((index.message_start_time for index in indexes), default=None)
    return Contents(counts, start, max((index.message_end_time for index in indexes), default=0))


def _bytes_of(records: Iterable[McapRecord]) -> bytes:
    builder = RecordBuilder()
    for record in records:
        record.write(builder)
    return bytes(builder.end())
