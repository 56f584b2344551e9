"""The bag of a trial: its topics, the messages that are written once, and the messages in the order of the ticks."""

from __future__ import annotations

import functools
import hashlib
import platform
import struct
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from haptic_bench.recording.bag import (
    LATCHED_QOS,
    BagError,
    BagWriter,
    Topic,
    own_types,
    read,
    read_metadata,
    read_numbers,
)
from haptic_bench.recording.recording import RELAYED, Recording, row_of
from haptic_ros.graph import EVENTS
from haptic_sim.messages import TOPICS, MessageError, read_text, split_topic, tick_place
from haptic_sim.tool.parameters import SurveySchedule

FLUSH = 256  # ticks between two chunks at most: what a killed recorder can lose


@functools.cache  # which reads a file of each package
def versions() -> dict[str, str]:
    """Versions of what the numbers of a trial depend on."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "numba", "pin", "coal")},
    }


class TrialBag:
    """Writes the bag of a trial into its directory, from messages of the graph or of an offline run.

    Args:
        directory: of the trial; holds `experiment.yaml`, receives `bag/`.
        name: of the experiment, the namespace of the bag's topics.
        rate: of the servo [Hz].
        schedule: of the surveys of an asynchronous environment, None if there is none.
        realtime: surveys come when they come, and a message may be lost.
        standalone: there is no device.
        relayed: there is a relay.
        world_every: ticks from one world state to the next, 0: there are none.
        hands: names of further hands, whose topics are in namespaces of their own.
        pointed: the operator is a pointer, which has events.
        hardware: names of the hands that hold hardware, whose readings are recorded.

    Attributes:
        add: records a message: its topic, tick and bytes.
        add_tick: records messages of a tick: the tick, and their bytes by topic.
        drop_later: forgets messages of a topic that wait for later ticks than one.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        rate: float,
        schedule: SurveySchedule | None,
        *,
        realtime: bool = False,
        standalone: bool = False,
        relayed: bool = False,
        world_every: int = 0,
        hands: Sequence[str] = (),
        pointed: bool = False,
        hardware: Sequence[str] = (),
    ):
        of_tick = row_of(hands, standalone=standalone, relayed=relayed, hardware=hardware)
        more = {
            "operator_events": pointed,
            "local_geometry": schedule is not None,
            "world_state": world_every > 0,
        }
        topics = [topic for topic in TOPICS if topic in of_tick or more.get(topic)]
        topics += [topic for topic in of_tick if topic not in TOPICS]
        self._index = {topic: i for i, topic in enumerate([*topics, EVENTS])}
        self._writer = BagWriter(
            directory / "bag",
            [Topic(f"/{name}/{topic}", TOPICS[split_topic(topic)[1]].TYPE) for topic in topics]
            + [Topic(f"/{name}/{EVENTS}", "haptics/msg/TrialEvent", LATCHED_QOS)],
        )
        self._known: dict[tuple[str, ...], tuple[int, ...]] = {}
        self._rows = 0
        patience = 64 if realtime else None
        self._recording = Recording(self._write, rate, None if realtime else schedule, patience, of_tick, world_every)
        self._last_of_tick = of_tick[-1]
        self.add, self.add_tick = self._recording.add, self._recording.add_tick
        self.drop_later = self._recording.drop_later
        experiment = (directory / "experiment.yaml").read_text(encoding="utf-8")
        self._writer.add_metadata("experiment", {"yaml": experiment})
        self._writer.add_metadata("versions", versions())

    @property
    def complete(self) -> int:
        """All ticks before this one are recorded entirely."""
        return self._recording.complete

    @property
    def absent(self) -> int:
        """Messages that never came: lost, or never sent."""
        return self._recording.absent

    def holds(self, topic: str, tick: int) -> bool:
        """Whether a message of an incomplete tick is there."""
        return self._recording.holds(topic, tick)

    def missing(self) -> str:
        """Messages that the first incomplete tick still lacks, as a text."""
        return self._recording.missing()

    def close(self, event: str = "", tick: int = 0, detail: str = "") -> None:
        """Record how the trial ended and close the bag; again has no effect.

        Raises:
            OSError: the disk is full, say; what was written before makes a sound bag all the same.
        """
        try:
            self._recording.close()
            if event:
                self.note("recorder", event, tick, detail)
        finally:
            self._writer.close()

    def note(self, node: str, event: str, tick: int, detail: str = "") -> None:
        """Record a TrialEvent of a node."""
        time = self._recording.time_of(max(tick, 0))
        self._write(time, (EVENTS,), [self._event(time, node, event, tick, detail)])

    def _write(self, time: int, topics: tuple[str, ...], messages: Sequence[bytes]) -> None:
        """Write messages of a time; each FLUSH ticks a chunk ends behind the tick's last message."""
        if self._last_of_tick in topics:
            self._rows += 1
            if not self._rows % FLUSH:
                end = topics.index(self._last_of_tick) + 1
                self._writer.write_together(self._numbers(topics[:end]), time, messages[:end])
                self._writer.flush()
                topics, messages = topics[end:], messages[end:]
        if topics:
            self._writer.write_together(self._known.get(topics) or self._numbers(topics), time, messages)

    def _numbers(self, topics: tuple[str, ...]) -> tuple[int, ...]:
        """The indices of topics in the bag; those of a tick are the same in each."""
        return self._known.setdefault(topics, tuple(self._index[topic] for topic in topics))

    def _event(self, time: int, node: str, name: str, tick: int, detail: str) -> bytes:
        store = own_types()
        kinds = store.types
        sec, nanosec = divmod(time, 1_000_000_000)
        stamp = kinds["builtin_interfaces/msg/Time"](sec, nanosec)
        header = kinds["std_msgs/msg/Header"](stamp, "world")
        event = kinds["haptics/msg/TrialEvent"](header, tick, node, name, detail)
        return bytes(store.serialize_cdr(event, "haptics/msg/TrialEvent"))


def cannot_record(error: OSError, path: Path) -> str:
    """Reason why a trial cannot be recorded, in one line."""
    return f"cannot be recorded: {error.filename or path}: {error.strerror}"


def read_messages(directory: Path) -> Mapping[str, list[bytes]]:
    """The messages of a trial's bag by the topic's name in the trial's namespace."""
    topics = read(directory / "bag")
    root = namespace_of(topics)
    return {name.removeprefix(root): topic.messages for name, topic in topics.items()}


def read_event(data: bytes) -> tuple[int, str, str, str]:
    """Tick, node, name and detail of a serialised TrialEvent; quicker than the types of all messages are made.

    Raises:
        MessageError: they are no such bytes.
    """
    try:
        frame, at = read_text(data, 12)
        at = tick_place(frame)
        node, after = read_text(data, at + 8)
        name, after = read_text(data, after)
        detail, _ = read_text(data, after)
        return int.from_bytes(data[at : at + 8], "little", signed=True), node, name, detail
    except (ValueError, struct.error) as error:
        raise MessageError(f"haptics/msg/TrialEvent: {len(data)} bytes: not a valid message") from error


def namespace_of(names: Iterable[str]) -> str:
    """The namespace of a trial's topics, with a slash before and behind it; those of further hands are deeper in it."""
    return min((name.rpartition("/")[0] + "/" for name in names), key=len, default="/")


def read_ticks(directory: Path) -> Mapping[str, np.ndarray]:
    """The ticks of the messages of a tick in a trial's bag, as `read_messages`, without reading the messages."""
    place = tick_place()
    found = read_numbers(directory / "bag", lambda name: place if split_topic(name)[1] in RELAYED else None)
    root = namespace_of(found)
    return {name.removeprefix(root): ticks for name, ticks in found.items()}


def digest(directory: Path) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of the files of a trial's bag, by name, as summary.json keeps them; empty without a bag."""
    folder = directory / "bag"
    files = sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    return {path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in files}


def damage(directory: Path, recorded: Mapping[str, Any]) -> str:
    """Damage of a trial's bag: what is not as it was recorded; empty if all is.

    Args:
        directory: of the trial.
        recorded: what `digest` gave when it was concluded.
    """
    folder = directory / "bag"
    if not folder.is_dir():
        return "bag/ is missing"
    for name, was in recorded.items():
        path = folder / Path(name).name
        if not path.is_file():
            return f"bag/{path.name} is missing"
        size, expected = path.stat().st_size, was.get("bytes") if isinstance(was, dict) else None
        if size == expected and _sha256(path) == was.get("sha256"):
            continue
        if is_foreign(directory):
            return f"bag/{path.name} is of another trial: its experiment is not that of experiment.yaml"
        if isinstance(expected, int) and size < expected:
            return f"bag/{path.name} is cut off: it has {size} of {expected} bytes"
        if size != expected:
            return f"bag/{path.name} is another file: it has {size} bytes, {expected} were recorded"
        try:
            read(folder)
            where = "outside of the messages' checksums"
        except BagError as error:
            where = str(error)
        return f"bag/{path.name} is damaged: its digest is not the one that was recorded ({where})"
    return ""


def is_foreign(directory: Path) -> bool:
    """Whether a bag that can be read says that it was made with another experiment than its directory."""
    try:
        made_with = read_metadata(directory / "bag").get("experiment", {}).get("yaml")
        return made_with is not None and made_with != (directory / "experiment.yaml").read_text(encoding="utf-8")
    except (BagError, OSError, UnicodeDecodeError):
        return False


def _sha256(path: Path) -> str:
    """Digest of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()
