"""Rosbag2 directories with MCAP storage, written, read and repaired without ROS.

What `ros2 bag`, rosbags and the mcap tools read: `bag_0.mcap`, and `metadata.yaml` of version 9 (Jazzy).

The record encodings are those of the mcap package, but chunks are put together here and not by its Writer:
a KeyboardInterrupt inside `Writer.add_message` leaves half a record in the chunk, and a list of finished
records is faster (1.0 us a message of 330 B with its share of chunk and index, against 2.5 us). Here
a message is in the list or not, and a chunk counts once it is in the file, so an interrupted run closes to a
sound bag.

Chunks are not compressed (nor are rosbag2's by default): their bytes depend on no compressor's version, and
the whole messages of a chunk that was cut off can still be recovered.
"""

from __future__ import annotations

import difflib
import errno
import functools
import os
import shutil
import struct
import textwrap
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from operator import index
from pathlib import Path
from types import TracebackType

import numpy as np
import yaml
import zstandard
from mcap.data_stream import ReadDataStream, RecordBuilder
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import (
    Channel,
    Chunk,
    ChunkIndex,
    DataEnd,
    Footer,
    Header,
    McapRecord,
    MessageIndex,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
    SummaryOffset,
)
from mcap.stream_reader import get_chunk_data_stream
from mcap.writer import MCAP0_MAGIC as MAGIC
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

STORAGE_NAME = "bag_0.mcap"
METADATA_NAME = "metadata.yaml"
CHUNK_SIZE = 64 * 1024  # [B]; what a killed process can lose at most
END_OF_TIME = 2**63 - 1  # [ns]; rosbag2's starting time of a bag without messages

_FRAME = struct.Struct("<BQ")  # of every record: opcode, length of the body
_MESSAGE = struct.Struct("<HIQQ")  # channel, sequence, log time, publish time; then the data
_FRAMED_MESSAGE = struct.Struct("<BQHIQQ")
_CHUNK_HEAD = struct.Struct("<28xIQ")  # of one that is not compressed: length of the compression's name, of the records
_INDEX_HEAD = struct.Struct("<HI")  # of a message index: channel, length of the entries of two uint64

# What the decoders raise on damaged bytes.
_DAMAGE = (ValueError, OverflowError, MemoryError, RuntimeError, struct.error, McapError, zstandard.ZstdError)


# A disk, a quota or a file size limit that is used up: room can be made.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class BagError(Exception):
    """A bag that cannot be written, read or repaired: the file or folder, and what is wrong with it."""

    def __init__(self, path: Path | str, problem: str):
        super().__init__(f"{path}: {problem}")


def qos_profile(reliability: str, durability: str, depth: int = 1) -> str:
    """Offered quality of service as rosbag2 stores it: a YAML list of one profile, keep last, no deadline."""
    forever = {"sec": 9223372036, "nsec": 854775807}  # RMW_DURATION_INFINITE
    profile = {
        "history": "keep_last",
        "depth": depth,
        "reliability": reliability,
        "durability": durability,
        "deadline": dict(forever),
        "lifespan": dict(forever),
        "liveliness": "automatic",
        "liveliness_lease_duration": dict(forever),
        "avoid_ros_namespace_conventions": False,
    }
    return yaml.safe_dump([profile], sort_keys=False).strip()


SERVO_QOS = qos_profile("best_effort", "volatile")
LATCHED_QOS = qos_profile("reliable", "transient_local")


@dataclass(frozen=True)
class Definition:
    """Definition of a message type: its text with those of all nested types, and its hash (REP 2011)."""

    text: str
    type_hash: str
    encoding: str = "ros2msg"


@dataclass(frozen=True)
class Topic:
    """A topic of a bag. Without a definition, the type is looked up in `message_types()`."""

    name: str
    type: str
    qos: str = SERVO_QOS
    definition: Definition | None = None


@dataclass(frozen=True)
class BagTopic:
    """What a bag holds of one topic: log times [ns], int64, and serialized messages, both in file order."""

    type: str
    log_times: np.ndarray
    messages: list[bytes]


@functools.cache
def message_types() -> Typestore:
    """The message types of ROS 2 Jazzy and of this package, to describe, serialize and deserialize messages.

    Raises:
        BagError: the package's `.msg` files are neither in the checkout nor below the prefix of an installation.
    """
    packages = Path(__file__).resolve().parents[1]
    folders = [packages / "msg", *(prefix / "share" / "haptics" / "msg" for prefix in (packages, *packages.parents))]
    files = next((found for folder in folders if (found := sorted(folder.glob("*.msg")))), None)
    if files is None:
        raise BagError(f"{packages} and above", "no .msg files of the package haptics")
    types = get_typestore(Stores.ROS2_JAZZY)
    own = {}
    for file in files:
        own.update(get_types_from_msg(file.read_text(encoding="utf-8"), f"haptics/msg/{file.stem}"))
    types.register(own)
    return types


class BagWriter:
    """Writes a new bag. Use it as a context manager, or call `close()`.

    Complete chunks go to the operating system at once: a process that is killed loses what came after the
    last chunk or `flush()`, and `repair()` makes a sound bag of the rest. The same calls give the same bytes.

    Args:
        path: folder of the bag, made if missing.
        topics: topics, in the order of the indices that `write` takes; names are unique.
        storage_name: name of the MCAP file in the folder.

    Raises:
        BagError: the folder is not empty, a name comes twice, or a type is unknown.
    """

    def __init__(self, path: Path | str, topics: Iterable[Topic], *, storage_name: str = STORAGE_NAME):
        self.path = Path(path)
        self._topics = tuple(topics)
        self._schemas, self._channels = _describe(self.path, self._topics)
        self._storage_name = storage_name
        self._pending: list[tuple[int, int, bytes]] = []  # channel, log time [ns], message record
        self._pending_size = 0  # [B]
        # Both by offset in the file, so that work which is done again after an interrupt counts once.
        self._chunks: dict[int, tuple[ChunkIndex, Counter[int]]] = {}
        self._metadata: dict[int, MetadataIndex] = {}
        self._end = 0  # of what counts in the file; whatever lies beyond is overwritten [B]

        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise BagError(self.path, "is not an empty folder: a bag needs one of its own")
        self.path.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path / storage_name, "xb", buffering=0)  # noqa: SIM115 (closed by close)
        # Schemas and channels first, outside of any chunk: the file tells its topics from the beginning.
        header = [Header("ros2", "haptics"), *self._schemas, *self._channels]
        try:
            self._end = self._put(MAGIC + b"".join(map(_encode, header)))
        except BaseException:
            self._file.close()
            raise

    def write(self, topic: int, log_time: int, data: bytes, publish_time: int | None = None) -> None:
        """Append a message: about 1 us.

        Args:
            topic: index into the topics.
            log_time: when it was received [ns], >= 0, in any order.
            data: the serialized message (CDR), copied unless it is bytes.
            publish_time: when it was sent [ns]; log_time if None.

        Raises:
            BagError: unknown topic, negative time, or the bag is closed.
            TypeError: data is not bytes-like, or a time is not an integer.
            OSError: the file cannot be written.
        """
        log_time = index(log_time)  # a NumPy integer would end up in metadata.yaml
        publish_time = log_time if publish_time is None else publish_time
        if type(data) is not bytes:
            data = memoryview(data).tobytes()
        known = 0 <= topic < len(self._topics) and not self._file.closed
        if not (known and 0 <= log_time <= END_OF_TIME and 0 <= publish_time <= END_OF_TIME):
            raise BagError(self.path, self._refusal(topic, log_time, publish_time))
        channel = topic + 1
        head = _FRAMED_MESSAGE.pack(Opcode.MESSAGE, _MESSAGE.size + len(data), channel, 0, log_time, publish_time)
        record = head + data
        self._pending.append((channel, log_time, record))
        self._pending_size += len(record)
        if self._pending_size >= CHUNK_SIZE:
            self.flush()

    def add_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """Put named strings into the bag, at once: what a trial was made with. `read_metadata` returns them.

        Raises:
            BagError: the name is rosbag2's own, or the bag is closed.
            TypeError: a key or a value is not a string.
        """
        if name == "rosbag2":
            raise BagError(self.path, "metadata name 'rosbag2' is reserved for rosbag2's own")
        for key, value in values.items():
            if not (isinstance(key, str) and isinstance(value, str)):
                raise TypeError(f"metadata {name!r}: {key!r} = {value!r}: both must be strings")
        self._put_metadata(Metadata(name, dict(values)))

    def flush(self) -> None:
        """Hand everything written so far to the operating system (which is not yet the disk).

        Raises:
            OSError: the file cannot be written; what was flushed before is safe.
        """
        if not self._pending:
            return
        start = self._end
        data, chunk_index, counts = _chunk(self._pending, start)
        end = self._put(data)
        # No call between these lines: an interrupt comes before or after them.
        self._chunks[start] = chunk_index, counts
        self._end, self._pending, self._pending_size = end, [], 0

    def close(self) -> None:
        """Write what is pending, the index and `metadata.yaml`. A closed bag stays as it is.

        Where the disk is full, as many of the last chunks are given up as the index and `metadata.yaml` need.

        Raises:
            OSError: a file could not be written: the bag is sound, but lacks the last messages; or, if nothing could
                be written at all, `repair()` recovers what was.
        """
        if self._file.closed:
            return
        problem: OSError | None = None
        with self._file:
            try:
                self.flush()
            except OSError as error:
                problem, self._pending, self._pending_size = error, [], 0
            end, dropped = self._end, 1
            while True:
                try:
                    self._finish()
                    break
                except OSError as error:
                    problem = problem or error
                    if not self._chunks or error.errno not in _FULL:
                        raise problem from None
                for start in sorted(self._chunks)[-dropped:]:
                    del self._chunks[start]
                    end = start
                dropped *= 2  # the index of a long bag takes the room of many chunks
                self._metadata = {at: index for at, index in self._metadata.items() if at < end}
                self._end = end
                self._file.truncate(end)
        if problem is not None:
            raise problem

    def _finish(self) -> None:
        """Write the index behind what counts in the file, and `metadata.yaml`."""
        metadata, end = dict(self._metadata), self._end
        counts: Counter[int] = sum((counts for _, counts in self._chunks.values()), Counter())
        chunks = [chunk for chunk, _ in self._chunks.values()]
        start = min((chunk.message_start_time for chunk in chunks), default=END_OF_TIME)
        duration = max((chunk.message_end_time for chunk in chunks), default=start) - start
        information = self._information(counts, start, duration)
        try:
            self._put_metadata(Metadata("rosbag2", {"serialized_metadata": information.strip()}))
            statistics = Statistics(
                attachment_count=0,
                channel_count=len(self._channels),
                channel_message_counts={channel.id: counts[channel.id] for channel in self._channels},
                chunk_count=len(chunks),
                message_count=counts.total(),
                message_start_time=start if chunks else 0,
                message_end_time=start + duration if chunks else 0,
                metadata_count=len(self._metadata),
                schema_count=len(self._schemas),
            )
            records: dict[Opcode, Sequence[McapRecord]] = {
                Opcode.SCHEMA: self._schemas,
                Opcode.CHANNEL: self._channels,
                Opcode.STATISTICS: [statistics],
                Opcode.CHUNK_INDEX: chunks,
                Opcode.METADATA_INDEX: list(self._metadata.values()),
            }
            at = self._put(_encode(DataEnd(0)))
            at = self._put(_summary(records, at) + MAGIC, at)
            self._file.truncate(at)
            text = "rosbag2_bagfile_information:\n" + textwrap.indent(information, "  ")
            temporary = self.path / f"{METADATA_NAME}.tmp"
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, self.path / METADATA_NAME)
        except OSError:
            self._metadata, self._end = metadata, end
            raise

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()  # also after an error: what was recorded is kept

    def _put(self, data: bytes, offset: int | None = None) -> int:
        """Write behind what counts (or at an offset); returns the end of it in the file."""
        if self._file.closed:
            raise BagError(self.path, "is closed")
        self._file.seek(self._end if offset is None else offset)
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        return self._file.tell()

    def _put_metadata(self, record: Metadata) -> None:
        start = self._end
        end = self._put(_encode(record))
        self._metadata[start] = MetadataIndex(start, end - start, record.name)
        self._end = end

    def _refusal(self, topic: int, log_time: int, publish_time: int) -> str:
        if self._file.closed:
            return "is closed"
        if not 0 <= topic < len(self._topics):
            return f"topic {topic}: must be an index into {[topic.name for topic in self._topics]}"
        return f"log time {log_time} ns, publish time {publish_time} ns: must be >= 0 and below 2**63"

    def _information(self, counts: Mapping[int, int], start: int, duration: int) -> str:
        """Content of metadata.yaml, in the order in which rosbag2 writes it."""
        topics = [
            {
                "topic_metadata": {
                    "name": channel.topic,
                    "type": topic.type,
                    "serialization_format": channel.message_encoding,
                    "offered_qos_profiles": yaml.safe_load(topic.qos) or [],
                    "type_description_hash": channel.metadata["topic_type_hash"],
                },
                "message_count": counts[channel.id],
            }
            for topic, channel in zip(self._topics, self._channels, strict=True)
        ]
        span = {
            "duration": {"nanoseconds": duration},
            "starting_time": {"nanoseconds_since_epoch": start},
            "message_count": sum(counts.values()),
        }
        information = {
            "version": 9,
            "storage_identifier": "mcap",
            **span,
            "topics_with_message_count": topics,
            "compression_format": "",
            "compression_mode": "",
            "relative_file_paths": [self._storage_name],
            "files": [{"path": self._storage_name, **span}],
            "custom_data": None,
            "ros_distro": "jazzy",
        }
        return yaml.dump(information, Dumper=_WithoutAliases, sort_keys=False)


def read(path: Path | str) -> dict[str, BagTopic]:
    """Read a bag: one that was written here, or any that rosbag2 recorded with MCAP storage.

    Returns:
        The topics by name, in the order of the bag; those without messages too.

    Raises:
        BagError: no such bag, not MCAP, damaged, or its writer did not finish it.
    """
    topics: dict[str, tuple[str, list[int], list[bytes]]] = {}
    for file in _storage_files(Path(path)):
        content = _load_sound(file)
        for topic in content.topics().values():
            topics.setdefault(topic.name, (topic.type, [], []))
        names = {channel.id: channel.topic for channel in content.channels.values()}
        for channel, log_time, _, data in content.messages:
            _, log_times, messages = topics[names[channel]]
            log_times.append(log_time)
            messages.append(data)
    return {
        name: BagTopic(type_, np.array(log_times, dtype=np.int64), messages)
        for name, (type_, log_times, messages) in topics.items()
    }


def read_numbers(path: Path | str, place: Callable[[str], int | None]) -> dict[str, np.ndarray]:
    """One number of every message of some topics, found by the index: takes milliseconds where `read` takes seconds.

    Args:
        path: folder of a bag that was written here.
        place: where in its messages [B] a topic, by its name, has an int64, little endian; None if it is not wanted.

    Returns:
        The numbers by topic, int64, in the order of the file.

    Raises:
        BagError: no such bag, not of our writer, or damaged.
    """
    found: dict[str, list[np.ndarray]] = {}
    for file in _storage_files(Path(path)):
        for topic, at in _message_places(file).items():
            offset = place(topic)
            if offset is not None:
                found.setdefault(topic, []).append(_int64_at(file, at + offset))
    return {topic: np.concatenate(numbers) for topic, numbers in found.items()}


def _message_places(file: Path) -> dict[str, np.ndarray]:
    """Where in an MCAP file the data of each message begins [B], by topic, from the index behind each chunk."""
    content, starts = _Content(), dict[int, list[np.ndarray]]()
    inside = 0  # where the records of the last chunk begin
    data = _mapped(file)
    try:
        for opcode, begin, end in _records(data, len(MAGIC)):
            if opcode in (Opcode.SCHEMA, Opcode.CHANNEL):
                content.take(opcode, data[begin:end].tobytes())
            elif opcode == Opcode.CHUNK:
                compression, size = _CHUNK_HEAD.unpack_from(data, begin)
                inside = begin + _CHUNK_HEAD.size
                if compression or inside + size != end:
                    raise ValueError("chunk that is compressed, or of another length")
            elif opcode == Opcode.MESSAGE_INDEX:
                channel, size = _INDEX_HEAD.unpack_from(data, begin)
                entries = np.frombuffer(data, "<u8", size // 8, begin + _INDEX_HEAD.size).reshape(-1, 2)
                starts.setdefault(channel, []).append(inside + _FRAMED_MESSAGE.size + entries[:, 1].astype(np.int64))
            elif opcode == Opcode.DATA_END:
                return {content.channels[number].topic: np.concatenate(at) for number, at in starts.items()}
    except (*_DAMAGE, KeyError) as error:
        raise BagError(file, f"its index cannot be followed: {error!r}") from error
    raise BagError(file, "has no end: its writer did not finish")


def _int64_at(file: Path, places: np.ndarray) -> np.ndarray:
    """The numbers at some places of a file [B], int64."""
    data = np.frombuffer(_mapped(file), np.uint8)
    if len(places) and not 0 <= places.min() <= places.max() <= len(data) - 8:
        raise BagError(file, "its index points outside of it")
    return data[places[:, None] + np.arange(8)].view("<i8").ravel().astype(np.int64)


def _mapped(file: Path) -> memoryview:
    """A file as bytes that are read when they are looked at.

    Raises:
        BagError: it cannot be read.
    """
    try:
        return np.memmap(file, np.uint8, mode="r").data
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise BagError(file, f"cannot be read: {error}") from error


def read_metadata(path: Path | str) -> dict[str, dict[str, str]]:
    """What `BagWriter.add_metadata` put into a bag, by name; the last of a name counts.

    Raises:
        BagError: as for `read`.
    """
    records = [record for file in _storage_files(Path(path)) for record in _load_sound(file).metadata]
    return {record.name: record.metadata for record in records if record.name != "rosbag2"}


def repair(path: Path | str, *, always: bool = False) -> int:
    """Make a sound bag of one whose writer died; leaves a sound one alone, unless it is `always` to be written anew.

    Keeps the metadata and every whole message before the end of the file, except those of damaged chunks. A
    chunk that was cut off has no checksum to test: its whole messages are taken as they are. Attachments
    (rosbag2 writes none) are dropped. The old file is replaced when the new one is on the disk.

    Returns:
        The number of messages in the bag.

    Raises:
        BagError: no such bag, not MCAP, or of several files.
    """
    path = Path(path)
    files = _mcap_files(path)  # metadata.yaml may be missing, or not worth believing
    if len(files) != 1:
        raise BagError(path, f"has {len(files)} MCAP files: only bags of one file can be repaired")
    content = _load(files[0])
    if content.problem is None and (path / METADATA_NAME).exists() and not always:
        return len(content.messages)

    topics = content.topics()
    names = {topic.name: topic for topic in topics.values()}  # rosbag2 may give one topic several channels
    indices = {channel: list(names).index(topic.name) for channel, topic in topics.items()}
    scratch = path / ".repair"
    shutil.rmtree(scratch, ignore_errors=True)  # of a repair that was killed
    try:
        with BagWriter(scratch, names.values(), storage_name=files[0].name) as writer:
            for record in content.metadata:
                if record.name != "rosbag2":
                    writer.add_metadata(record.name, record.metadata)
            for channel, log_time, publish_time, data in content.messages:
                writer.write(indices[channel], log_time, data, publish_time)
        # metadata.yaml last: a repair that is killed in between is not taken for finished.
        (path / METADATA_NAME).unlink(missing_ok=True)
        for name in (files[0].name, METADATA_NAME):
            with open(scratch / name, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(scratch / name, path / name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return len(content.messages)


class _WithoutAliases(yaml.SafeDumper):
    """yaml-cpp's output has none either, and they read badly."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _encode(record: McapRecord) -> bytes:
    builder = RecordBuilder()
    record.write(builder)
    return builder.end()


def _describe(path: Path, topics: tuple[Topic, ...]) -> tuple[list[Schema], list[Channel]]:
    """MCAP schemas and channels of topics; channel ids count from 1 in the order of the topics."""
    twice = [name for name, count in Counter(topic.name for topic in topics).items() if count > 1]
    if twice:
        raise BagError(path, f"topic {twice[0]} comes twice")
    schemas: dict[str, Schema] = {}
    channels = []
    for number, topic in enumerate(topics, start=1):
        definition = topic.definition or _definition(path, topic)
        try:
            yaml.safe_load(topic.qos)
        except yaml.YAMLError as error:
            raise BagError(path, f"topic {topic.name}: quality of service is not YAML: {error}") from error
        if topic.type not in schemas:
            text = definition.text.encode()
            schemas[topic.type] = Schema(id=len(schemas) + 1, name=topic.type, encoding=definition.encoding, data=text)
        about = {"offered_qos_profiles": topic.qos, "topic_type_hash": definition.type_hash}
        schema_id = schemas[topic.type].id
        channels.append(
            Channel(id=number, topic=topic.name, message_encoding="cdr", metadata=about, schema_id=schema_id)
        )
    return list(schemas.values()), channels


def _definition(path: Path, topic: Topic) -> Definition:
    types = message_types()
    if topic.type not in types.fielddefs:
        near = difflib.get_close_matches(topic.type, types.fielddefs, n=1)
        hint = f"; is it {near[0]}?" if near else ""
        raise BagError(path, f"topic {topic.name}: unknown message type {topic.type!r}{hint}")
    text, _ = types.generate_msgdef(topic.type, ros_version=2)
    return Definition(text, types.hash_rihs01(topic.type))


def _chunk(pending: list[tuple[int, int, bytes]], offset: int) -> tuple[bytes, ChunkIndex, Counter[int]]:
    """A chunk and its message indices, at an offset of the file; its index record; messages by channel."""
    entries: dict[int, list[tuple[int, int]]] = {}
    size = 0
    for channel, log_time, record in pending:
        entries.setdefault(channel, []).append((log_time, size))
        size += len(record)
    content = b"".join([record for _, _, record in pending])
    times = [log_time for _, log_time, _ in pending]
    start, end = min(times), max(times)
    chunk = _encode(
        Chunk(
            compression="",
            data=content,
            message_end_time=end,
            message_start_time=start,
            uncompressed_crc=zlib.crc32(content),
            uncompressed_size=size,
        )
    )
    message_index = RecordBuilder()
    index_offsets = {}
    for channel in sorted(entries):
        index_offsets[channel] = offset + len(chunk) + message_index.count
        MessageIndex(channel, entries[channel]).write(message_index)
    chunk_index = ChunkIndex(
        chunk_length=len(chunk),
        chunk_start_offset=offset,
        compression="",
        compressed_size=size,
        message_end_time=end,
        message_index_length=message_index.count,
        message_index_offsets=index_offsets,
        message_start_time=start,
        uncompressed_size=size,
    )
    counts = Counter({channel: len(entries[channel]) for channel in entries})
    return chunk + message_index.end(), chunk_index, counts


def _summary(records: Mapping[Opcode, Sequence[McapRecord]], start: int) -> bytes:
    """Summary section at an offset of the file, and the footer."""
    builder = RecordBuilder()
    offsets = []
    for opcode, group in records.items():
        begin = builder.count
        for record in group:
            record.write(builder)
        if group:
            offsets.append(SummaryOffset(opcode, start + begin, builder.count - begin))
    offset_start = start + builder.count
    for offset in offsets:
        offset.write(builder)
    summary = builder.end()
    # The checksum covers the summary and the footer up to the checksum itself.
    crc = zlib.crc32(_encode(Footer(start, offset_start, 0))[:-4], zlib.crc32(summary))
    return summary + _encode(Footer(start, offset_start, crc))


@dataclass
class _Content:
    """What can be read of an MCAP file, and what stood in the way of the rest."""

    schemas: dict[int, Schema] = field(default_factory=dict)
    channels: dict[int, Channel] = field(default_factory=dict)
    metadata: list[Metadata] = field(default_factory=list)
    messages: list[tuple[int, int, int, bytes]] = field(default_factory=list)  # channel, times [ns], data
    problem: str | None = None

    def topics(self) -> dict[int, Topic]:
        """The topics by channel."""
        topics = {}
        for channel in self.channels.values():
            schema = self.schemas[channel.schema_id]
            type_hash = channel.metadata.get("topic_type_hash", "")
            definition = Definition(schema.data.decode(errors="replace"), type_hash, schema.encoding)
            qos = channel.metadata.get("offered_qos_profiles", "")
            topics[channel.id] = Topic(channel.topic, schema.name, qos, definition)
        return topics

    def take(self, opcode: int, body: bytes) -> None:
        """Keep a record, in or outside of a chunk."""
        if opcode == Opcode.MESSAGE:
            channel, _, log_time, publish_time = _MESSAGE.unpack_from(body)
            if not (channel in self.channels and log_time <= END_OF_TIME):
                raise ValueError(f"message of channel {channel} at {log_time} ns")
            self.messages.append((channel, log_time, publish_time, body[_MESSAGE.size :]))
        elif opcode == Opcode.CHANNEL:
            channel = Channel.read(_stream(body))
            if channel.schema_id not in self.schemas:
                raise ValueError(f"channel {channel.topic} has no schema")
            self.channels[channel.id] = channel
        elif opcode == Opcode.SCHEMA:
            schema = Schema.read(_stream(body))
            self.schemas[schema.id] = schema
        elif opcode == Opcode.METADATA:
            self.metadata.append(Metadata.read(_stream(body)))


def _mcap_files(path: Path) -> list[Path]:
    if not path.is_dir():
        raise BagError(path, "is not a bag folder")
    return sorted(path.glob("*.mcap"), key=lambda file: (len(file.name), file.name))  # 10 after 9


def _storage_files(path: Path) -> list[Path]:
    """The files of a bag in their order, from metadata.yaml where there is one."""
    files = _mcap_files(path)
    metadata = path / METADATA_NAME
    if metadata.exists():
        try:
            information = yaml.safe_load(metadata.read_text(encoding="utf-8"))["rosbag2_bagfile_information"]
            files = [path / Path(name).name for name in information["relative_file_paths"]]
        except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
            raise BagError(metadata, f"is not the metadata of a bag: {error!r}") from error
    if not files:
        raise BagError(path, "holds no MCAP file")
    return files


def _load_sound(file: Path) -> _Content:
    content = _load(file)
    if content.problem is not None:
        raise BagError(file, content.problem)
    return content


def _load(file: Path) -> _Content:
    """Everything that can be read of an MCAP file, whole or not."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise BagError(file, f"cannot be read: {error.strerror}") from error
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise BagError(file, "is not an MCAP file")
    content = _Content()
    finished = False
    for opcode, begin, end in _records(data, len(MAGIC)):
        whole = end <= len(data)
        try:
            if opcode == Opcode.CHUNK:
                chunk = _chunk_content(data[begin:end], whole)
                for inner_opcode, inner_begin, inner_end in _records(chunk):
                    if inner_end <= len(chunk):
                        content.take(inner_opcode, chunk[inner_begin:inner_end])
            elif whole:
                content.take(opcode, data[begin:end])
        except _DAMAGE as error:
            if whole and content.problem is None:
                content.problem = f"record at byte {begin - _FRAME.size} is damaged: {error!r}"
        if opcode == Opcode.FOOTER:
            finished = data[end:] == MAGIC
            break
    if not finished and content.problem is None:
        content.problem = "has no end: its writer did not finish; bag.repair recovers what is there"
    return content


def _records(data: bytes | memoryview, offset: int = 0) -> Iterator[tuple[int, int, int]]:
    """Opcode, begin and end of the body of each record; the last may end beyond the data."""
    while offset + _FRAME.size <= len(data):
        opcode, length = _FRAME.unpack_from(data, offset)
        begin = offset + _FRAME.size
        offset = begin + length
        yield opcode, begin, offset


def _chunk_content(body: bytes, whole: bool) -> bytes:
    """Records of a chunk, decompressed and checked; of one that was cut off, what is there."""
    chunk = Chunk.read(_stream(body))
    if not whole:
        return b"" if chunk.compression else chunk.data
    stream, size = get_chunk_data_stream(chunk, validate_crc=True)
    if size != chunk.uncompressed_size:
        raise ValueError(f"chunk of {size} bytes instead of {chunk.uncompressed_size}")
    return stream.read(size)


def _stream(body: bytes) -> ReadDataStream:
    return ReadDataStream(BytesIO(body))
