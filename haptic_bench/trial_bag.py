"""The bag of a trial: its topics, what is written once, and the messages in the order of the tick."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from haptic_bench.bag import LATCHED_QOS, BagWriter, Topic, message_types, read
from haptic_bench.recording import ALONE, ROW, Recording
from haptic_sim.environment import SurveySchedule
from haptic_sim.messages import TOPICS, tick_time

EVENTS = "trial_events"
FLUSH = 256  # ticks between two chunks at most: what a killed recorder can lose


def versions() -> dict[str, str]:
    """Versions of what the numbers of a trial depend on."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "numba", "pin", "coal")},
    }


class TrialBag:
    """Writes the bag of a trial into its directory, whichever way the messages come.

    Args:
        directory: of the trial; holds `experiment.yaml`, receives `bag/`.
        name: of the experiment, the namespace of the bag's topics.
        rate: of the servo [Hz].
        schedule: of the surveys of an asynchronous environment, None if there is none.
        realtime: surveys come when they come, and a message may be lost.
        alone: there is no device.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        rate: float,
        schedule: SurveySchedule | None,
        *,
        realtime: bool = False,
        alone: bool = False,
    ):
        of_tick = ALONE if alone else ROW
        topics = [topic for topic in TOPICS if topic in of_tick or (topic == "local_geometry" and schedule is not None)]
        self._index = {topic: i for i, topic in enumerate([*topics, EVENTS])}
        self._writer = BagWriter(
            directory / "bag",
            [Topic(f"/{name}/{topic}", TOPICS[topic].TYPE) for topic in topics]
            + [Topic(f"/{name}/{EVENTS}", "haptics/msg/TrialEvent", LATCHED_QOS)],
        )
        self._rate, self._rows = rate, 0
        patience = 64 if realtime else None
        self._recording = Recording(self._write, rate, None if realtime else schedule, patience, of_tick)
        self._last_of_tick = of_tick[-1]
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

    def add(self, topic: str, tick: int, data: bytes) -> None:
        """Record a message."""
        self._recording.add(topic, tick, data)

    def holds(self, topic: str, tick: int) -> bool:
        """Whether a message of an incomplete tick is there."""
        return self._recording.holds(topic, tick)

    def missing(self) -> str:
        """Which messages the first incomplete tick still lacks."""
        return self._recording.missing()

    def close(self, event: str = "", tick: int = 0, detail: str = "") -> None:
        """Record how the trial ended and close the bag; again has no effect."""
        self._recording.close()
        if event:
            self.note("recorder", event, tick, detail)
        self._writer.close()

    def note(self, node: str, event: str, tick: int, detail: str = "") -> None:
        """Record a TrialEvent of a node."""
        self._write(EVENTS, tick_time(max(tick, 0), self._rate), self._event(node, event, tick, detail))

    def _write(self, topic: str, time: int, data: bytes) -> None:
        self._writer.write(self._index[topic], time, data)
        if topic == self._last_of_tick:
            self._rows += 1
            if not self._rows % FLUSH:
                self._writer.flush()

    def _event(self, node: str, name: str, tick: int, detail: str) -> bytes:
        store = message_types()
        kinds = store.types
        sec, nanosec = divmod(tick_time(max(tick, 0), self._rate), 1_000_000_000)
        stamp = kinds["builtin_interfaces/msg/Time"](sec, nanosec)
        header = kinds["std_msgs/msg/Header"](stamp, "world")
        event = kinds["haptics/msg/TrialEvent"](header, tick, node, name, detail)
        return bytes(store.serialize_cdr(event, "haptics/msg/TrialEvent"))


def read_messages(directory: Path) -> Mapping[str, list[bytes]]:
    """The messages of a trial's bag by the last part of the topic name."""
    return {name.rpartition("/")[2]: topic.messages for name, topic in read(directory / "bag").items()}
