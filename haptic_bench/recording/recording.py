"""The messages of a trial in the order of the ticks, whatever the order of their arrival.

So the bag of a lockstep trial holds the same messages in the same order, with the same times, as that of an offline
run. A message that is sent again is recorded once.

The messages of a tick are stored with the time at which the tick began, from the stamp of its first message: ROS time
in realtime, otherwise k T.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

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
        write: takes (topic, time [ns], bytes) in the order in which they are to be stored.
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
        write: Callable[[str, int, bytes], object],
        rate: float,
        schedule: SurveySchedule | None = None,
        patience: int | None = None,
        topics: tuple[str, ...] = ROW,
        world_every: int = 0,
    ):
        self._write, self._rate, self._schedule, self._patience = write, rate, schedule, patience
        self._topics, self._world_every = topics, world_every
        self.absent = 0
        self._waiting: defaultdict[str, dict[int, bytes]] = defaultdict(dict)
        self._initial = [topic for topic in topics if split_topic(topic)[1] == "tool_state"]  # are there before tick 0
        self._initial_stored = False
        self._events: set[int] = set()  # ticks of the operator's events
        self._surveyed = -1  # tick of the last survey that came without a schedule
        self._early: list[bytes] = []  # such surveys from before the first tick, which are stored with it
        self._begun = 0, 0  # the last tick of which something was stored, and when it began [ns]
        self.complete = 0
        self._await()

    def add(self, topic: str, tick: int, data: bytes) -> None:
        """Take a message; stores every tick that is complete with it."""
        waiting = self._waiting[topic]
        if topic == "operator_events":
            self._add_event(topic, tick, data)
            return
        stored = self._initial_stored if tick < 0 else topic != "local_geometry" and tick < self.complete
        if stored and tick >= 0 and self._patience is not None:
            self.absent -= 1
            self._write(topic, self.time_of(tick), data)
            return
        if stored or tick in waiting:
            return
        if topic == "local_geometry" and self._schedule is None:
            if tick <= self._surveyed:
                return
            self._surveyed = tick
            if self._initial_stored:
                self._write(topic, max(0, stamp_of(data)), data)
            else:
                self._early.append(data)
            return
        waiting[tick] = data
        self._lacking.discard((topic, tick))
        while not self._lacking:
            self._store()
        if self._patience is not None and tick > self.complete + self._patience:
            self._store()

    def _add_event(self, topic: str, tick: int, data: bytes) -> None:
        """Take an event of the operator, of which a tick has one or none: it is stored before the rest of its tick."""
        if tick in self._events:
            return
        self._events.add(tick)
        if tick < self.complete:
            self._write(topic, self.time_of(tick), data)
        else:
            self._waiting[topic][tick] = data

    def missing(self) -> str:
        """Which messages the first incomplete tick still lacks."""
        return ", ".join(f"{topic} {tick}" for topic, tick in self._row if (topic, tick) in self._lacking)

    def holds(self, topic: str, tick: int) -> bool:
        """Whether a message of an incomplete tick is there."""
        return tick in self._waiting[topic]

    def time_of(self, tick: int) -> int:
        """When a tick begins [ns], as far from the last one of which something was stored as k T says."""
        begun, time = self._begun
        return max(0, time + time_between(begun, tick, self._rate))

    def close(self) -> None:
        """Store what is there of incomplete ticks."""
        topics = ("operator_events", *self._topics, "world_state")
        ticks = sorted({tick for topic in topics for tick in self._waiting[topic]})
        for tick in ticks:
            self._begin(tick)
            time = self.time_of(max(tick, 0))
            self._store_early(time)
            self._store_event(tick, time)
            used = tick in self._waiting["tool_state"]  # else the tick was not executed
            surveyed = self._schedule.due(tick) if self._schedule is not None and used else None
            data = self._waiting["local_geometry"].pop(surveyed, None) if surveyed is not None else None
            if data is not None:
                self._write("local_geometry", time, data)
            for topic in self._of(tick):
                data = self._waiting[topic].pop(tick, None)
                if data is not None:
                    self._write(topic, time, data)
                elif 0 <= tick < ticks[-1]:
                    self.absent += 1
        self._store_early(0)

    def _store(self) -> None:
        """Store what is there of the first incomplete tick and go on with the next."""
        self._begin(self.complete)
        time = self.time_of(self.complete)
        self._store_early(time)
        self._store_event(self.complete, time)
        for topic, tick in self._row:
            data = self._waiting[topic].pop(tick, None)
            if data is None:
                self.absent += 1
            else:
                self._write(topic, time, data)
        self._initial_stored = True
        self.complete += 1
        self._await()

    def _store_early(self, time: int) -> None:
        """Store the surveys from before the first tick, which began at `time` [ns]."""
        for data in self._early:
            self._write("local_geometry", max(time, stamp_of(data)), data)
        self._early.clear()

    def _store_event(self, tick: int, time: int) -> None:
        """Store the operator's event of a tick, which began at `time` [ns], if there is one."""
        data = self._waiting["operator_events"].pop(tick, None)
        if data is not None:
            self._write("operator_events", time, data)

    def _begin(self, tick: int) -> None:
        """Note when a tick began, by its first message; the state of the tool is stamped with the end of its tick."""
        for topic in self._of(tick):
            data = self._waiting[topic].get(tick)
            if data is not None:
                lasted = time_between(tick, tick + 1, self._rate) if topic in self._initial else 0
                self._begun = tick, stamp_of(data) - lasted
                return

    def _of(self, tick: int) -> tuple[str, ...]:
        """Topics of a tick, in their order."""
        shown = self._world_every and tick >= 0 and not tick % self._world_every
        return (*self._topics, "world_state") if shown else self._topics

    def _await(self) -> None:
        """Find topics and ticks of the messages that make the first incomplete tick complete, in their order."""
        tick = self.complete
        row = [(topic, tick) for topic in self._of(tick)]
        surveyed = self._schedule.due(tick) if self._schedule is not None else None
        if surveyed is not None:
            row.insert(0, ("local_geometry", surveyed))
        if not self._initial_stored:
            row = [(topic, -1) for topic in self._initial] + row
        self._row = row
        self._lacking = {(topic, tick) for topic, tick in row if tick not in self._waiting[topic]}
