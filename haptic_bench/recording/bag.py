"""Rosbag2 directories with MCAP storage, written, read and repaired without ROS.

The format is that of `ros2 bag`, rosbags and the mcap tools: `bag_0.mcap`, and `metadata.yaml` of version 9 (Jazzy).

Messages are kept in memory until their chunk is in the file (`mcap_file`). What an exception has left half written is
overwritten by what comes next. So an interrupted run, and one on a full disk, close to a valid bag.

Chunks are not compressed (nor are rosbag2's by default). So their bytes do not depend on the version of a compressor,
and the complete messages of a chunk that was cut off can still be recovered.
"""

from __future__ import annotations

import difflib
import errno
import functools
import os
import shutil
import struct
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from operator import index
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import yaml
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.reader import SeekingReader
from mcap.records import Channel, Chunk, Metadata, Schema
from mcap.stream_reader import get_chunk_data_stream
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from haptic_bench.recording.mcap_file import (
    FRAME,
    HEAD_SIZE,
    INDEX_HEAD,
    MAGIC,
    MESSAGE,
    Contents,
    Entry,
    McapLayout,
    Part,
    contents,
)
from haptic_sim import msg_files
from haptic_sim.errors import HapticsError
from haptic_sim.libyaml import DUMPER, LOADER

STORAGE_NAME = "bag_0.mcap"
METADATA_NAME = "metadata.yaml"
CHUNK_SIZE = 64 * 1024  # [B]; what a killed process can lose at most
END_OF_TIME = 2**63 - 1  # [ns]; rosbag2's starting time of a bag without messages

_CHUNK_HEAD = struct.Struct("<28xIQ")  # of one that is not compressed: length of the compression's name, of the records

# What the decoders raise on damaged bytes.
_DAMAGE = (ValueError, OverflowError, MemoryError, RuntimeError, struct.error, McapError, zstandard.ZstdError)

_NO_END = "has no end: its writer did not finish; bag.repair recovers what is there"

_OWN = "haptics/msg/"

# The messages of ROS 2 that ours contain, but for builtin_interfaces.
_XYZ = "float64 x\nfloat64 y\nfloat64 z"
_CONTAINED = {
    "std_msgs/msg/Header": "builtin_interfaces/Time stamp\nstring frame_id",
    "geometry_msgs/msg/Point": _XYZ,
    "geometry_msgs/msg/Vector3": _XYZ,
    "geometry_msgs/msg/Quaternion": f"{_XYZ}\nfloat64 w",
    "geometry_msgs/msg/Pose": "Point position\nQuaternion orientation",
    "geometry_msgs/msg/Twist": "Vector3 linear\nVector3 angular",
    "geometry_msgs/msg/Accel": "Vector3 linear\nVector3 angular",
    "geometry_msgs/msg/Wrench": "Vector3 force\nVector3 torque",
}

# A disk, a quota or a file size limit that is used up: space can be made.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class BagError(HapticsError):
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
    """Messages of one topic of a bag: log times [ns], int64, and serialized messages, both in file order."""

    type: str
    log_times: np.ndarray
    messages: list[bytes]


@functools.cache
def message_types() -> Typestore:
    """The message types of ROS 2 Jazzy and of this package, to describe, serialize and deserialize messages."""
    return _with_own(get_typestore(Stores.ROS2_JAZZY))


@functools.cache
def own_types() -> Typestore:
    """The message types of this package and those that they contain alone: all types of ROS 2 take 0.1 s to import."""
    types = get_typestore(Stores.EMPTY)
    for name, text in _CONTAINED.items():
        types.register(get_types_from_msg(text, name))
    return _with_own(types)


def _with_own(types: Typestore) -> Typestore:
    """Types with those of this package added."""
    own = {}
    for name, text in msg_files.texts().items():
        own.update(get_types_from_msg(text, f"{_OWN}{name}"))
    types.register(own)
    return types


def _layout(topics: tuple[Topic, ...]) -> McapLayout:
    """The layout of a file of some topics that have definitions; topics of a type share its schema."""
    schemas: dict[str, Schema] = {}
    channels = []
    for number, topic in enumerate(topics, start=1):
        definition = topic.definition
        assert definition is not None
        if topic.type not in schemas:
            text = definition.text.encode()
            schemas[topic.type] = Schema(len(schemas) + 1, text, definition.encoding, topic.type)
        about = {"offered_qos_profiles": topic.qos, "topic_type_hash": definition.type_hash}
        channels.append(Channel(number, topic.name, "cdr", about, schemas[topic.type].id))
    return McapLayout([*schemas.values()], channels)


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
        self._topics = _with_definitions(self.path, tuple(topics))
        self._storage_name, self._layout = storage_name, _layout(self._topics)
        self._pending: list[Entry] = []  # of the next chunk
        self._pending_size = 0  # [B]
        self._written: set[tuple[int, ...]] = set()  # topics of which messages were written together
        self._parts: list[Part] = []
        self._stored = 0  # the number of `_parts` that are in the file: all, but in the middle of a call

        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise BagError(self.path, "is not an empty folder: a bag needs one of its own")
        self.path.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path / storage_name, "xb", buffering=0)  # noqa: SIM115 (closed by close)
        try:
            self._append(*self._layout.head("haptics"))
        except BaseException:
            self._file.close()
            raise

    def write(self, topic: int, log_time: int, data: bytes, publish_time: int | None = None) -> None:
        """Append a message.

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
        if type(data) is not bytes:
            data = memoryview(data).tobytes()
        log_time = index(log_time)  # a NumPy integer would end up in metadata.yaml
        publish_time = log_time if publish_time is None else index(publish_time)
        known = 0 <= topic < len(self._topics) and not self._file.closed
        if not (known and 0 <= log_time <= END_OF_TIME and 0 <= publish_time <= END_OF_TIME):
            raise BagError(self.path, self._refusal(topic, log_time, publish_time))
        self._pending.append(((topic,), log_time, (data,), publish_time))
        self._pending_size += HEAD_SIZE + len(data)
        if self._pending_size >= CHUNK_SIZE:
            self.flush()

    def write_together(self, topics: tuple[int, ...], log_time: int, messages: Sequence[bytes]) -> None:
        """Append messages, of bytes, one of each topic, all received and sent at `log_time`, an int.

        The bytes of the bag are those of as many calls of `write`, and so are the errors.
        """
        size = self._pending_size + sum(map(len, messages)) + HEAD_SIZE * len(messages)
        if topics in self._written and size < CHUNK_SIZE and 0 <= log_time <= END_OF_TIME:
            self._pending.append((topics, log_time, messages, log_time))
            self._pending_size = size
        else:  # checked one by one; and a chunk ends behind the one that fills it
            for topic, data in zip(topics, messages, strict=True):
                self.write(topic, log_time, data)
            self._written.add(topics)

    def add_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """Put named strings into the bag, at once: what a trial was made with. `read_metadata` returns them.

        Raises:
            BagError: the name is rosbag2's own, or the bag is closed.
            TypeError: a key or a value is not a string.
            OSError: the file cannot be written.
        """
        if name == "rosbag2":
            raise BagError(self.path, "metadata name 'rosbag2' is reserved for rosbag2's own")
        for key, value in values.items():
            if not (isinstance(key, str) and isinstance(value, str)):
                raise TypeError(f"metadata {name!r}: {key!r} = {value!r}: both must be strings")
        if self._file.closed:
            raise BagError(self.path, "is closed")
        self._append(*self._layout.metadata(name, values, self._in_file()))

    def flush(self) -> None:
        """Hand everything written so far to the operating system (which is not yet the disk).

        Raises:
            OSError: the file cannot be written; what was flushed before is safe.
        """
        if self._pending:
            data, part = self._layout.chunk(self._pending, self._in_file())
            self._put(data, part)
            # No call between these stores: an interrupt comes before all or after all.
            self._stored, self._pending, self._pending_size = self._stored + 1, [], 0

    def close(self) -> None:
        """Write what is pending, the index and `metadata.yaml`. A closed bag stays as it is.

        Where the disk is full, as many of the last chunks are given up as the index and `metadata.yaml` need.

        Raises:
            OSError: a file could not be written: the bag is sound, but lacks the last messages; or, if nothing could
                be written at all, `repair()` recovers what was.
        """
        if self._file.closed:
            return
        self._written.clear()
        problem: OSError | None = None
        space = 0  # to be made [B]
        with self._file:
            while True:
                index, information = b"", ""
                try:
                    self.flush()
                    index, information = self._conclude()
                    self._finish(index, information)
                    break
                except OSError as error:
                    problem = problem or error
                    if error.errno not in _FULL or not (self._pending or self._stored > 1):
                        raise problem from None
                # First what is not in the file, then what the index takes, then more.
                space = max(2 * space, len(index) + len(information))
                most = self._parts[self._stored - 1].end - space
                while self._stored > 1 and self._parts[self._stored - 1].end > most:
                    self._stored -= 1
                self._pending = []
                self._file.truncate(self._parts[self._stored - 1].end)
        if problem is not None:
            raise problem

    def _in_file(self) -> list[Part]:
        """The parts that are in the file; what an interrupt has left behind them is forgotten."""
        del self._parts[self._stored :]
        return self._parts

    def _append(self, data: bytes, part: Part) -> None:
        """Put a part into the file."""
        self._put(data, part)
        self._stored += 1

    def _put(self, data: bytes, part: Part) -> None:
        """Write a part behind those that are in the file; it counts when `_stored` says so."""
        self._write_at(data, part.end - len(data))
        self._parts.append(part)

    def _conclude(self) -> tuple[bytes, str]:
        """The end of the file, after what is in it, and the content of `metadata.yaml`."""
        parts = self._in_file()
        information = self._information(contents(parts))
        data, part = self._layout.metadata("rosbag2", {"serialized_metadata": information.strip()}, parts)
        document = "rosbag2_bagfile_information:\n" + textwrap.indent(information, "  ")
        return data + self._layout.end([*parts, part]), document

    def _finish(self, index: bytes, information: str) -> None:
        self._file.truncate(self._write_at(index, self._parts[self._stored - 1].end))
        temporary = self.path / f"{METADATA_NAME}.tmp"
        temporary.write_text(information, encoding="utf-8")
        os.replace(temporary, self.path / METADATA_NAME)

    def _write_at(self, data: bytes, offset: int) -> int:
        """Write at an offset of the file; returns the end of what was written. Done again it does no harm."""
        self._file.seek(offset)
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        return offset + len(data)

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()  # also after an error: what was recorded is kept

    def _refusal(self, topic: int, log_time: int, publish_time: int) -> str:
        if self._file.closed:
            return "is closed"
        if not 0 <= topic < len(self._topics):
            return f"topic {topic}: must be an index into {[topic.name for topic in self._topics]}"
        return f"log time {log_time} ns, publish time {publish_time} ns: must be >= 0 and below 2**63"

    def _information(self, held: Contents) -> str:
        """Content of metadata.yaml, in the order in which rosbag2 writes it."""
        topics = [
            {
                "topic_metadata": {
                    "name": topic.name,
                    "type": topic.type,
                    "serialization_format": "cdr",
                    "offered_qos_profiles": _profiles(topic.qos),
                    "type_description_hash": topic.definition.type_hash if topic.definition else "",
                },
                "message_count": held.counts.get(channel, 0),
            }
            for channel, topic in enumerate(self._topics, start=1)
        ]
        start = END_OF_TIME if held.start is None else held.start
        span = {
            "duration": {"nanoseconds": 0 if held.start is None else held.end - start},
            "starting_time": {"nanoseconds_since_epoch": start},
            "message_count": sum(held.counts.values()),
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
    """Offsets in an MCAP file of the data of each message [B], by topic, from the index behind each chunk."""
    starts = dict[str, list[np.ndarray]]()
    data = _mapped(file)
    with _reader(file) as reader:
        summary = reader.get_summary()
        if summary is None:
            raise ValueError("no summary")
        for chunk in summary.chunk_indexes:
            begin = chunk.chunk_start_offset + FRAME.size
            _, size = _CHUNK_HEAD.unpack_from(data, begin)
            begin += _CHUNK_HEAD.size
            if chunk.compression or begin + size != chunk.chunk_start_offset + chunk.chunk_length:
                raise ValueError("chunk that is compressed, or of another length")
            for channel, offset in chunk.message_index_offsets.items():
                _, size = INDEX_HEAD.unpack_from(data, offset + FRAME.size)
                entries = np.frombuffer(data, "<u8", size // 8, offset + FRAME.size + INDEX_HEAD.size).reshape(-1, 2)
                places = begin + FRAME.size + MESSAGE.size + entries[:, 1].astype(np.int64)
                starts.setdefault(summary.channels[channel].topic, []).append(places)
    return {topic: np.concatenate(places) for topic, places in starts.items()}


@contextmanager
def _reader(file: Path) -> Iterator[SeekingReader]:
    """mcap's reader of a file by its index; what goes wrong with it is a BagError."""
    if _mapped(file)[-len(MAGIC) :] != MAGIC:
        raise BagError(file, _NO_END)
    try:
        with file.open("rb") as stream:
            yield SeekingReader(stream)
    except (*_DAMAGE, KeyError) as error:
        raise BagError(file, f"its index cannot be followed: {error!r}") from error


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
    """Metadata that `BagWriter.add_metadata` put into a bag, by name; the last of a name counts.

    Raises:
        BagError: as for `read`.
    """
    found: dict[str, dict[str, str]] = {}
    for file in _storage_files(Path(path)):
        with _reader(file) as reader:
            found.update({record.name: record.metadata for record in reader.iter_metadata()})
    found.pop("rosbag2", None)
    return found


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


class _WithoutAliases(DUMPER):
    """yaml-cpp's output has none either, and they read badly."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _with_definitions(path: Path, topics: tuple[Topic, ...]) -> tuple[Topic, ...]:
    """Topics that name their definition; their names and quality of service are checked."""
    twice = [name for name, count in Counter(topic.name for topic in topics).items() if count > 1]
    if twice:
        raise BagError(path, f"topic {twice[0]} comes twice")
    for topic in topics:
        try:
            _profiles(topic.qos)
        except yaml.YAMLError as error:
            raise BagError(path, f"topic {topic.name}: quality of service is not YAML: {error}") from error
    return tuple(replace(topic, definition=topic.definition or _definition(path, topic)) for topic in topics)


def _definition(path: Path, topic: Topic) -> Definition:
    types = _types_for(topic.type)
    if topic.type not in types.fielddefs:
        types = message_types()  # among which the name that was meant may be
        near = difflib.get_close_matches(topic.type, types.fielddefs, n=1)
        hint = f"; is it {near[0]}?" if near else ""
        raise BagError(path, f"topic {topic.name}: unknown message type {topic.type!r}{hint}")
    return _definition_of(topic.type)


def _types_for(kind: str) -> Typestore:
    """Types among which one with this name is, if there is any."""
    return own_types() if kind.startswith(_OWN) else message_types()


@functools.cache
def _definition_of(kind: str) -> Definition:
    types = _types_for(kind)
    text, _ = types.generate_msgdef(kind, ros_version=2)
    return Definition(text, types.hash_rihs01(kind))


@functools.cache
def _profiles(qos: str) -> Any:
    """Quality of service, read from its text; nobody changes it."""
    return yaml.load(qos, LOADER) or []


@dataclass
class _Content:
    """Readable content of an MCAP file, and the fault that prevents the rest."""

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
            channel, _, log_time, publish_time = MESSAGE.unpack_from(body)
            if not (channel in self.channels and log_time <= END_OF_TIME):
                raise ValueError(f"message of channel {channel} at {log_time} ns")
            self.messages.append((channel, log_time, publish_time, body[MESSAGE.size :]))
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
            information = yaml.load(metadata.read_text(encoding="utf-8"), LOADER)["rosbag2_bagfile_information"]
            files = [path / Path(name).name for name in information["relative_file_paths"]]
        except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())  # PyYAML's text has lines
            raise BagError(metadata, f"is not the metadata of a bag: {reason}") from error
    if not files:
        raise BagError(path, "holds no MCAP file")
    return files


def _load_sound(file: Path) -> _Content:
    content = _load(file)
    if content.problem is not None:
        raise BagError(file, content.problem)
    return content


def _load(file: Path) -> _Content:
    """Everything that can be read of an MCAP file, whole or not (mcap's readers stop at the first damage)."""
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
                content.problem = f"record at byte {begin - FRAME.size} is damaged: {error!r}"
        if opcode == Opcode.FOOTER:
            finished = data[end:] == MAGIC
            break
    if not finished and content.problem is None:
        content.problem = _NO_END
    return content


def _records(data: bytes | memoryview, offset: int = 0) -> Iterator[tuple[int, int, int]]:
    """Opcode, begin and end of the body of each record; the last may end beyond the data."""
    while offset + FRAME.size <= len(data):
        opcode, length = FRAME.unpack_from(data, offset)
        begin = offset + FRAME.size
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
