"""The messages of a trial in the order of the ticks, whatever the order of their arrival.

So the bag of a lockstep trial holds the same messages in the same order, with the same times, as that of an offline
run. A message that is sent again is recorded once.

The messages of a tick are stored with the time at which the tick began, from the stamp of its first message: ROS time
in realtime, otherwise k T.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from haptic_ros.graph import graph_of
from haptic_sim.messages import split_topic, stamp_of, time_between, topic_of
from haptic_sim.tool.parameters import SurveySchedule

ROW = graph_of(("driver", "controller", "environment")).row
RELAYED = graph_of(("driver", "device_relay", "world_relay", "controller", "environment")).row
"""Topics of a trial with a relay."""
STANDALONE = graph_of(("environment",)).row
"""Topics of a trial without a device."""


def row_of(
    hands: Iterable[str] = (), *, standalone: bool = False, relayed: bool = False, hardware: Collection[str] = ()
) -> tuple[str, ...]:
    """Topics of a tick, in their order; `hands` are the names of further hands, `hardware` of hands that hold it."""
    first = STANDALONE if standalone else RELAYED if relayed else ROW
    readings = (topic_of(hand, "device_reading") for hand in ("", *hands) if hand in hardware)
    return (*readings, *first, *(topic_of(hand, topic) for hand in hands for topic in ROW))


class Recording:
    """Puts the messages of a trial in order.

    Args:
        write: takes (time [ns], topics, bytes of their messages) in the order in which they are to be stored.
        rate: of the servo [Hz].
        schedule: of the surveys of an asynchronous environment, None if there is none or if they come when they come.
        patience: ticks for which a message is waited for; later ones are stored when they come. None waits for ever,
            and what comes for a tick that is stored was sent again.
        topics: those of a tick, in their order.
        world_every: ticks from one world state to the next, 0: there are none.

    Attributes:
        absent: messages of earlier ticks than the last that never came: lost, or never sent.
        complete: all ticks before this one are stored entirely.
    """

    def __init__(
        self,
        write: Callable[[int, tuple[str, ...], Sequence[bytes]], object],
        rate: float,
        schedule: SurveySchedule | None = None,
        patience: int | None = None,
        topics: tuple[str, ...] = ROW,
        world_every: int = 0,
    ):
        self._write, self._rate, self._schedule, self._patience = write, rate, schedule, patience
        self._topics, self._world_every = topics, world_every
        self._shown = (*topics, "world_state")  # of a tick with a world state
        self._names = {row: frozenset(row) for row in (self._topics, self._shown)}
        self.absent = 0
        self._waiting: defaultdict[int, dict[str, bytes]] = defaultdict(dict)  # messages of a tick by topic
        self._initial = [topic for topic in topics if split_topic(topic)[1] == "tool_state"]  # are there before tick 0
        self._initial_stored = False
        self._events: set[int] = set()  # ticks of the operator's events
        self._surveyed = -1  # tick of the last survey that came without a schedule
        self._early: list[bytes] = []  # such surveys from before the first tick, which are stored with it
        self._begun = 0, 0  # the last tick of which something was stored, and when it began [ns]
        self.complete = 0
        self._await()

    def add_tick(self, tick: int, messages: Mapping[str, bytes]) -> None:
        """Take messages of a tick, by topic: as `add` of each, in less time where they are all of the tick."""
        row = self._row
        others = self._current or self._before or self._early
        if tick != self.complete or others or messages.keys() != self._names[row]:
            for topic, one in messages.items():
                self.add(topic, tick, one)
        else:
            self._store_row(tick, row, [*map(messages.__getitem__, row)])

    def add(self, topic: str, tick: int, data: bytes) -> None:
        """Take a message; stores every tick that is complete with it."""
        if tick == self.complete and topic in self._row:  # nearly all of them
            if topic not in self._current:
                self._current[topic] = data
                self._lacking -= 1
                while not self._lacking:
                    self._store()
        elif topic == "operator_events":
            self._add_event(topic, tick, data)
        elif topic == "local_geometry" and self._schedule is None:
            self._add_survey(tick, data)
        else:
            self._add_other(topic, tick, data)

    def _add_other(self, topic: str, tick: int, data: bytes) -> None:
        """Take a message of another tick than the first incomplete one."""
        stored = self._initial_stored if tick < 0 else topic != "local_geometry" and tick < self.complete
        if stored:
            if tick >= 0 and self._patience is not None:
                self.absent -= 1
                self._write(self.time_of(tick), (topic,), (data,))
            return
        waiting = self._waiting[tick]
        if topic in waiting:
            return
        waiting[topic] = data
        if (topic, tick) in self._before:
            self._lacking -= 1
        while not self._lacking:
            self._store()
        if self._patience is not None and tick > self.complete + self._patience:
            self._store()

    def drop_later(self, topic: str, tick: int) -> None:
        """Forget the messages of a topic that are waiting for later ticks than this one."""
        for later, found in self._waiting.items():
            if later > tick:
                found.pop(topic, None)

    def _add_survey(self, tick: int, data: bytes) -> None:
        """Take a survey that comes without a schedule."""
        if tick <= self._surveyed:
            return
        self._surveyed = tick
        if self._initial_stored:
            self._write(max(0, stamp_of(data)), ("local_geometry",), (data,))
        else:
            self._early.append(data)

    def _add_event(self, topic: str, tick: int, data: bytes) -> None:
        """Take an event of the operator, of which a tick has one or none: it is stored before the rest of its tick."""
        if tick in self._events:
            return
        self._events.add(tick)
        if tick < self.complete:
            self._write(self.time_of(tick), (topic,), (data,))
        else:
            self._waiting[tick][topic] = data

    def missing(self) -> str:
        """Messages that the first incomplete tick still lacks, as a text."""
        needed = (*self._before, *((topic, self.complete) for topic in self._row))
        return ", ".join(f"{topic} {tick}" for topic, tick in needed if not self.holds(topic, tick))

    def holds(self, topic: str, tick: int) -> bool:
        """Whether a message of an incomplete tick is there."""
        return topic in self._waiting.get(tick, ())

    def time_of(self, tick: int) -> int:
        """Time at which a tick begins [ns]: k periods after the last one of which something was stored."""
        begun, time = self._begun
        return max(0, time if begun == tick else time + time_between(begun, tick, self._rate))

    def close(self) -> None:
        """Store what is there of incomplete ticks."""
        ticks = sorted(tick for tick, found in self._waiting.items() if found.keys() - {"local_geometry"})
        if self._patience is None:  # what begins a tick has not come of later ones: nobody has taken what is there
            begun = max((tick for tick in ticks if self._topics[0] in self._waiting[tick]), default=self.complete)
            ticks = [tick for tick in ticks if tick <= begun]
        for tick in ticks:
            row = self._row_of(tick)
            executed = "tool_state" in self._waiting[tick]
            self._begin(tick, row)
            time = self.time_of(max(tick, 0))
            self._store_early(time)
            self._put(time, [("operator_events", tick)])
            if executed and self._schedule is not None:
                self._put(time, self._survey_of(self._schedule, tick))
            absent = self._put(time, [(topic, tick) for topic in row])
            if 0 <= tick < ticks[-1]:
                self.absent += absent
        self._store_early(0)
        self._await()

    def _store(self) -> None:
        """Store what is there of the first incomplete tick and go on with the next."""
        tick, row, current = self.complete, self._row, self._current
        if self._lacking or self._before or self._early or len(current) != len(row):
            self._begin(tick, row)
            time = self.time_of(tick)
            self._store_early(time)
            self._put(time, [("operator_events", tick)])
            self.absent += self._put(time, self._before) + self._put(time, [(topic, tick) for topic in row])
            self._initial_stored = True
            self.complete += 1
            self._await()
        else:
            self._store_row(tick, row, [*map(current.__getitem__, row)])

    def _store_row(self, tick: int, row: tuple[str, ...], messages: Sequence[bytes]) -> None:
        """Store the messages of the first incomplete tick where these are all that is to be stored with it."""
        time = stamp_of(messages[0])  # no row begins with the state of the tool
        self._begun = tick, time
        self._write(time if time > 0 else 0, row, messages)
        del self._waiting[tick]
        self.complete = tick + 1
        self._await()

    def _put(self, time: int, wanted: Iterable[tuple[str, int]]) -> int:
        """Store what is there of some messages, by topic and tick, in their order; returns how many are not there."""
        taken = [(topic, self._take(topic, tick)) for topic, tick in wanted]
        found = [(topic, data) for topic, data in taken if data is not None]
        if found:
            self._write(time, tuple(topic for topic, _ in found), [data for _, data in found])
        return len(taken) - len(found)

    def _take(self, topic: str, tick: int) -> bytes | None:
        """Take out a message; None if it is not there."""
        found = self._waiting.get(tick, {})
        data = found.pop(topic, None)
        if not found:
            self._waiting.pop(tick, None)
        return data

    def _store_early(self, time: int) -> None:
        """Store the surveys from before the first tick, which began at `time` [ns]."""
        for data in self._early:
            self._write(max(time, stamp_of(data)), ("local_geometry",), (data,))
        self._early.clear()

    def _begin(self, tick: int, row: Iterable[str]) -> None:
        """Note when a tick began, by its first message; the state of the tool is stamped with the end of its tick."""
        found = self._waiting.get(tick, {})
        for topic in row:
            if topic in found:
                lasted = time_between(tick, tick + 1, self._rate) if topic in self._initial else 0
                self._begun = tick, stamp_of(found[topic]) - lasted
                return

    def _row_of(self, tick: int) -> tuple[str, ...]:
        """Topics of a tick, in their order."""
        every = self._world_every
        return self._shown if every and tick >= 0 and not tick % every else self._topics

    def _survey_of(self, schedule: SurveySchedule, tick: int) -> list[tuple[str, int]]:
        """The survey that is due in a tick by the schedule, by topic and tick, if there is one."""
        surveyed = schedule.due(tick)
        return [] if surveyed is None else [("local_geometry", surveyed)]

    def _await(self) -> None:
        """Find which messages make the first incomplete tick complete, and how many of them are not there yet."""
        tick = self.complete
        self._row = row = self._row_of(tick)
        self._current = current = self._waiting[tick]
        # Stored before the row, with ticks of their own.
        before = [] if self._initial_stored else [(topic, -1) for topic in self._initial]
        if self._schedule is not None:
            before += self._survey_of(self._schedule, tick)
        self._before = before
        self._lacking = len(row)
        if current or before:
            self._lacking -= sum(topic in current for topic in row)
            self._lacking += sum(not self.holds(*one) for one in before)
