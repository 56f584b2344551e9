"""What is recorded of a trial, in the order of the tick, whichever way and in whichever order it arrives.

So the bag of a lockstep trial holds the same messages in the same order, with the same times, as that of an offline
run. A message that is sent again is recorded once.
"""

from __future__ import annotations

from collections.abc import Callable

from haptic_sim.environment import SurveySchedule
from haptic_sim.messages import TOPICS, tick_time

ROW = ("device_state", "tool_command", "tool_state", "device_command")
ALONE = ("tool_command", "tool_state")
"""Topics of a trial without a device."""


class Recording:
    """Puts the messages of a trial in order.

    Args:
        write: takes (topic, time [ns], bytes) in the order in which they are to be stored.
        rate: of the servo [Hz].
        schedule: of the surveys of an asynchronous environment, None if there is none or if they come when they come.
        patience: a message that is this many ticks behind is given up; None waits for ever.
        topics: those of a tick, in their order.

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
    ):
        self._write, self._rate, self._schedule, self._patience = write, rate, schedule, patience
        self._topics = topics
        self.absent = 0
        self._waiting: dict[str, dict[int, bytes]] = {topic: {} for topic in TOPICS}
        self._initial_stored = False
        self._surveyed = -1  # tick of the last survey that was stored without a schedule
        self.complete = 0

    def add(self, topic: str, tick: int, data: bytes) -> None:
        """Take a message; stores every tick that is complete with it."""
        waiting = self._waiting[topic]
        stored = self._initial_stored if tick < 0 else topic != "local_geometry" and tick < self.complete
        if stored or tick in waiting:
            return
        if topic == "local_geometry" and self._schedule is None:
            if tick <= self._surveyed:
                return
            self._surveyed = tick
            self._write(topic, tick_time(max(tick, 0), self._rate), data)
            return
        waiting[tick] = data
        while self._store_row():
            pass
        if self._patience is not None and tick > self.complete + self._patience:
            self._give_up_row()

    def missing(self) -> str:
        """Which messages the first incomplete tick still lacks."""
        return ", ".join(f"{topic} {tick}" for topic, tick in self._row() if tick not in self._waiting[topic])

    def holds(self, topic: str, tick: int) -> bool:
        """Whether a message of an incomplete tick is there."""
        return tick in self._waiting[topic]

    def close(self) -> None:
        """Store what is there of incomplete ticks."""
        ticks = sorted({tick for topic in self._topics for tick in self._waiting[topic]})
        for tick in ticks:
            used = tick in self._waiting["tool_state"]  # else the tick was not executed
            surveyed = self._schedule.due(tick) if self._schedule is not None and used else None
            data = self._waiting["local_geometry"].pop(surveyed, None) if surveyed is not None else None
            if data is not None:
                self._write("local_geometry", tick_time(tick, self._rate), data)
            for topic in self._topics:
                data = self._waiting[topic].pop(tick, None)
                if data is not None:
                    self._write(topic, tick_time(max(tick, 0), self._rate), data)
                elif 0 <= tick < ticks[-1]:
                    self.absent += 1

    def _give_up_row(self) -> None:
        """Store what is there of the first incomplete tick and go on with the next."""
        time = tick_time(self.complete, self._rate)
        for topic, tick in self._row():
            data = self._waiting[topic].pop(tick, None)
            if data is None:
                self.absent += 1
            else:
                self._write(topic, time, data)
        self._initial_stored = True
        self.complete += 1

    def _row(self) -> list[tuple[str, int]]:
        """Topics and ticks of the messages that make the first incomplete tick complete, in their order."""
        tick = self.complete
        row = [(topic, tick) for topic in self._topics]
        surveyed = self._schedule.due(tick) if self._schedule is not None else None
        if surveyed is not None:
            row.insert(0, ("local_geometry", surveyed))
        if not self._initial_stored:
            row.insert(0, ("tool_state", -1))
        return row

    def _store_row(self) -> bool:
        waiting = self._waiting
        row = self._row()
        for topic, tick in row:
            if tick not in waiting[topic]:
                return False
        time = tick_time(self.complete, self._rate)
        for topic, tick in row:
            self._write(topic, time, waiting[topic].pop(tick))
        self._initial_stored = True
        self.complete += 1
        return True
