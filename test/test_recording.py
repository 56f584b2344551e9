"""A trial is stored in the order of ticks, whatever the order of arrival."""

from __future__ import annotations

import itertools
import struct
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import sampled

from haptic_bench.recording.recording import Recording
from haptic_bench.recording.trial_bag import TrialBag
from haptic_sim.messages import tick_time
from haptic_sim.tool.parameters import SurveySchedule

RATE = 512.0  # [Hz]
Stored = tuple[str, int, bytes]
ROW = ["device_state", "tool_command", "tool_state", "device_command"]  # within a tick, design of the tick


def data(topic: str, tick: int, start: int = 0) -> bytes:
    """What a message begins with, its stamp; the state of the tool is that at the end of its tick."""
    time = start + tick_time(tick + 1 if topic == "tool_state" else tick, RATE)
    return struct.pack("<4xiI", *divmod(time, 10**9)) + f"{topic} {tick}".encode()


def canonical(last: int, schedule: SurveySchedule | None = None, world_every: int = 0) -> list[tuple[str, int, int]]:
    """(topic, tick, time [ns]) of ticks 0 to `last`: initial state, then ticks, surveys before, world states after."""
    rows = [("tool_state", -1, 0)]
    for k in range(last + 1):
        surveyed = schedule.due(k) if schedule is not None else None
        if surveyed is not None:
            rows.append(("local_geometry", surveyed, tick_time(k, RATE)))
        rows += [(topic, k, tick_time(k, RATE)) for topic in ROW]
        if world_every and k % world_every == 0:
            rows.append(("world_state", k, tick_time(k, RATE)))
    return rows


class Store:
    """A recording and what it has written."""

    def __init__(self, schedule: SurveySchedule | None = None, **options: int) -> None:
        self.written: list[Stored] = []
        self.recording = Recording(self._write, RATE, schedule, **options)

    def _write(self, time: int, topics: tuple[str, ...], messages: Sequence[bytes]) -> None:
        assert topics
        self.written += [(topic, time, data) for topic, data in zip(topics, messages, strict=True)]

    def add(self, topic: str, tick: int) -> None:
        self.recording.add(topic, tick, data(topic, tick))


def as_stored(rows: list[tuple[str, int, int]]) -> list[Stored]:
    return [(topic, time, data(topic, tick)) for topic, tick, time in rows]


def shuffled(rng: np.random.Generator, rows: list[tuple[str, int, int]], window: float) -> list[tuple[str, int, int]]:
    """Each message at most about a window away from its place."""
    order = np.argsort(np.arange(len(rows)) + rng.uniform(0, window, len(rows)), kind="stable")
    return [rows[i] for i in order]


@pytest.mark.parametrize("schedule", [None, SurveySchedule(9, 9), SurveySchedule(4, 0), SurveySchedule(3, 11)])
@pytest.mark.parametrize(
    ("window", "world_every"),
    sampled(itertools.product((1.0, 4.0, 30.0, 1e6), (0, 1, 7)), (1.0, 7), (4.0, 0), (1e6, 1)),
)
def test_any_order_of_arrival_is_stored_in_the_order_of_the_tick(
    window: float, schedule: SurveySchedule | None, world_every: int
) -> None:
    rng = np.random.default_rng(20260)
    rows = canonical(60, schedule, world_every)
    for _ in range(20):
        store = Store(schedule, world_every=world_every)
        for topic, tick, _ in shuffled(rng, rows, window):
            store.add(topic, tick)
        assert store.written == as_stored(rows)
        assert store.recording.complete == 61
        store.recording.close()
        assert store.written == as_stored(rows)


@pytest.mark.parametrize("schedule", [None, SurveySchedule(9, 9), SurveySchedule(3, 11)])
def test_repeated_messages_are_stored_once(schedule: SurveySchedule | None) -> None:
    """Sent again at once, or long after the tick is stored."""
    rng = np.random.default_rng(20261)
    rows = canonical(60, schedule)
    for _ in range(20):
        store = Store(schedule)
        twice = shuffled(rng, [row for row in rows for _ in range(2)], 60.0)
        for topic, tick, _ in [*twice, *rows]:
            store.add(topic, tick)
        assert store.written == as_stored(rows)
        store.recording.close()
        assert store.written == as_stored(rows)


@pytest.mark.parametrize("schedule", [None, SurveySchedule(9, 9), SurveySchedule(3, 11)])
def test_ticks_that_come_whole_or_in_parts_are_stored_as_their_messages(schedule: SurveySchedule | None) -> None:
    """Whole ticks in any order of their messages, ticks in two parts, single messages before; events; sent again."""
    rng = np.random.default_rng(20262)
    rows = canonical(40, schedule, 7)
    ticks = [list(group) for _, group in itertools.groupby(rows, lambda row: (row[0] == "local_geometry", row[1]))]
    for _ in range(20):
        one, other = Store(schedule, world_every=7), Store(schedule, world_every=7)
        for group in ticks:
            tick = group[0][1]
            topics = [topic for topic, _, _ in shuffled(rng, group, 6.0)]
            if tick >= 0 and rng.random() < 0.2:
                topics.insert(0, "operator_events")
            for topic in topics:
                one.add(topic, tick)
            cut = int(rng.choice([0, 0, 1, 2, len(topics)]))
            for part in (topics[:cut], topics[cut:], topics if rng.random() < 0.2 else []):
                other.recording.add_tick(tick, {topic: data(topic, tick) for topic in part})
        assert other.written == one.written
        assert other.recording.complete == one.recording.complete == 41
        assert other.recording.time_of(45) == one.recording.time_of(45)


def test_the_first_of_two_messages_counts() -> None:
    store = Store()
    store.add("tool_state", -1)
    first = data("device_state", 0)
    store.recording.add("device_state", 0, first + b"first")
    store.recording.add("device_state", 0, first + b"second")
    for topic in ROW[1:]:
        store.add(topic, 0)
    assert store.written[1] == ("device_state", 0, first + b"first")
    assert len(store.written) == 5


def test_a_tick_is_stored_when_its_last_message_arrives() -> None:
    store = Store()
    counts = []
    for topic, tick in [("tool_state", -1), *((topic, 0) for topic in ROW), *((topic, 1) for topic in ROW)]:
        store.add(topic, tick)
        counts.append((len(store.written), store.recording.complete))
    assert counts == [(0, 0)] * 4 + [(5, 1)] * 4 + [(9, 2)]


def test_what_is_missing_is_named() -> None:
    store = Store(SurveySchedule(2, 1))
    assert store.recording.missing() == (
        "tool_state -1, local_geometry 0, device_state 0, tool_command 0, tool_state 0, device_command 0"
    )
    for topic, tick in (("tool_state", -1), ("device_state", 0), ("local_geometry", 0), ("tool_state", 0)):
        store.add(topic, tick)
    assert store.recording.missing() == "tool_command 0, device_command 0"
    assert store.recording.holds("tool_state", 0)
    assert not store.recording.holds("tool_command", 0)
    store.add("device_command", 0)
    store.add("tool_command", 0)
    assert not store.recording.holds("tool_state", 0)
    assert store.recording.missing() == "device_state 1, tool_command 1, tool_state 1, device_command 1"


def test_incomplete_ticks_are_stored_at_the_end_in_order() -> None:
    """A node died in tick 3; what it had answered, and the state after the last tick, are kept."""
    store = Store()
    rows = canonical(2)
    for topic, tick, _ in rows:
        store.add(topic, tick)
    for topic, tick in (("device_state", 4), ("device_command", 3), ("device_state", 3), ("tool_command", 4)):
        store.add(topic, tick)
    assert store.written == as_stored(rows)
    store.recording.close()
    rest = [("device_state", 3), ("device_command", 3), ("device_state", 4), ("tool_command", 4)]
    assert store.written == as_stored(rows) + [(t, tick_time(k, RATE), data(t, k)) for t, k in rest]
    store.recording.close()
    assert len(store.written) == len(rows) + 4


def test_a_trial_that_ended_at_once_keeps_the_initial_state() -> None:
    store = Store()
    store.add("device_state", 0)
    store.add("tool_state", -1)
    store.recording.close()
    assert store.written == as_stored([("tool_state", -1, 0), ("device_state", 0, 0)])


def test_the_survey_of_an_incomplete_tick_is_stored_before_it() -> None:
    """The local model has taken it: without it the tool state of that tick cannot be understood."""
    schedule = SurveySchedule(2, 2)
    store = Store(schedule)
    rows = canonical(3, schedule)
    for topic, tick, _ in rows:
        store.add(topic, tick)
    for topic, tick in (("local_geometry", 2), ("device_state", 4), ("tool_command", 4), ("tool_state", 4)):
        store.add(topic, tick)
    store.recording.close()
    time = tick_time(4, RATE)
    expected = [("local_geometry", 2), ("device_state", 4), ("tool_command", 4), ("tool_state", 4)]
    assert store.written == as_stored(rows) + [(t, time, data(t, k)) for t, k in expected]


def test_without_a_schedule_surveys_are_stored_when_they_come() -> None:
    """The first of them with the first tick."""
    store = Store()
    rows = canonical(1)
    for topic, tick, _ in [("local_geometry", 0, 0), *rows]:
        store.add(topic, tick)
    store.add("local_geometry", 3)
    surveys = [("local_geometry", 0, 0), ("local_geometry", 3, tick_time(3, RATE))]
    assert store.written == as_stored([surveys[0], *rows, surveys[1]])


def test_without_a_schedule_repeated_surveys_are_stored_once() -> None:
    store = Store()
    for tick in (0, 0, 3, 0, 3):
        store.add("local_geometry", tick)
    store.recording.close()
    assert [message[2] for message in store.written] == [data("local_geometry", 0), data("local_geometry", 3)]


def test_a_message_that_never_comes_is_given_up() -> None:
    """With a patience of 5 ticks: the rest of its tick is stored, and everything after it; one is absent."""
    store = Store(patience=5)
    rows = [row for row in canonical(40) if row[:2] != ("tool_state", 7)]
    for topic, tick, _ in rows:
        store.add(topic, tick)
        assert tick <= store.recording.complete + 6
    store.recording.close()
    assert store.written == as_stored(rows)
    assert store.recording.absent == 1


def test_what_comes_when_it_was_given_up_is_stored_late() -> None:
    store = Store(patience=5)
    rows = canonical(40)
    late = [row for row in rows if row[1] == 7 and row[0] != "device_state"]
    for topic, tick, _ in [row for row in rows if row not in late] + late:
        store.add(topic, tick)
    assert store.written == as_stored([row for row in rows if row not in late] + late)
    store.recording.close()
    assert (len(store.written), store.recording.absent) == (len(rows), 0)


def test_what_is_absent_from_the_last_ticks_is_counted_at_the_end() -> None:
    """Within the patience; the state after the last tick is the only message of its tick."""
    store = Store(patience=64)
    for topic, tick, _ in canonical(9):
        if (topic, tick) not in (("tool_command", 4), ("device_command", 9)):
            store.add(topic, tick)
    store.add("device_state", 10)
    store.recording.close()
    store.recording.close()
    assert store.recording.absent == 2


def test_ticks_are_stored_with_the_time_of_a_clock() -> None:
    """By its first message; the recorder waited for the first tick. Tick 7 was 3 ms late, of 9 one message is left."""
    start, late = 1_790_000_000_123_456_789, 3_000_000
    store = Store(patience=5)
    store.recording.add("local_geometry", 0, data("local_geometry", 0, start - 10**9))
    store.recording.add("tool_state", -1, data("tool_state", -1, start - 10**9))
    expected = [start, start]
    for k in range(20):
        began = start + tick_time(k, RATE) + (late if k >= 7 else 0)
        came = ["tool_state"] if k == 9 else ROW
        for topic in came:
            store.recording.add(topic, k, data(topic, k, start + (late if k >= 7 else 0)))
        expected += [began] * len(came)
    store.recording.close()
    assert [time for _, time, _ in store.written] == expected
    assert store.recording.time_of(25) == start + tick_time(25, RATE) + late
    assert store.recording.absent == 3


def test_without_patience_nothing_is_given_up() -> None:
    store = Store()
    rows = [row for row in canonical(400) if row[:2] != ("tool_state", 7)]
    for topic, tick, _ in rows:
        store.add(topic, tick)
    assert (store.recording.complete, store.recording.absent) == (7, 0)
    store.add("tool_state", 7)
    assert store.written == as_stored(canonical(400))


def test_a_world_state_that_never_came_is_missing_and_at_last_given_up() -> None:
    """In lockstep it is waited for; in realtime its tick is stored without."""
    store = Store(world_every=5)
    for topic, tick, _ in canonical(7, None):
        store.add(topic, tick)
    assert store.recording.complete == 0
    assert store.recording.missing() == "world_state 0"
    store.add("world_state", 0)
    assert store.recording.complete == 5
    store.recording.close()
    assert store.written == as_stored([row for row in canonical(7, None, 5) if row[:2] != ("world_state", 5)])
    assert store.recording.absent == 1


def test_of_what_is_recorded_the_index_of_the_bag_stays_in_memory(tmp_path: Path) -> None:
    """MCAP has it at the end of a file: about 0.8 kB for a chunk of 64 kB, however long a trial lasts."""
    (tmp_path / "experiment.yaml").write_text("")
    book, file = TrialBag(tmp_path, "trial", RATE, None), tmp_path / "bag" / "bag_0.mcap"

    def record(first: int, last: int) -> None:
        for tick in range(first, last):
            for topic in ROW:
                book.add(topic, tick, data(topic, tick).ljust(500, b"."))

    book.add("tool_state", -1, data("tool_state", -1))
    record(0, 500)
    tracemalloc.start()
    try:
        kept, size = tracemalloc.get_traced_memory()[0], file.stat().st_size
        record(500, 2500)
        kept, size = tracemalloc.get_traced_memory()[0] - kept, file.stat().st_size - size
    finally:
        tracemalloc.stop()
        book.close("finished", 2500)
    assert book.complete == 2500
    assert size > 4e6
    assert kept < 0.02 * size
