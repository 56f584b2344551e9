"""The health of a realtime trial: the driver's timing measurements as numbers, texts and figures."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from haptic_bench.experiment import HealthParameters
from haptic_sim.parameters import ParameterError
from haptic_view.figures import BLACK, BLUE, BUCKETS, ORANGE, VERMILION, Axis, Figure, Line, Panel, Style, draw, thin

LATE = 0.25  # of a period: a tick that begins later leaves its answer noticeably less time
LINEAR = 100.0  # [µs] up to which deviations are drawn on a linear scale
KEYS = (
    "scheduler",
    "period_p50",
    "period_p99",
    "round_trip_p50",
    "round_trip_p99",
    "missed",
    "skipped_periods",
    "lost_messages",
    "lost_by_topic",
    "unsent_messages",
    "foreign_messages",
    "executed",
    "saturations",
    "bounded",
    "expired",
    "refused",
)
"""Keys of a summary's `timing` that the page of health shows, so that no other table has to."""


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    name: str
    value: str
    unit: str
    meaning: str


@dataclass(frozen=True)
class Health:
    """Measurements of the timing of n ticks.

    Attributes:
        rate: that was asked for [Hz].
        begun: when each tick began, since the start of the trial [ns], (n,).
        round_trip: from each state's publication to its command [ns], -1 where none came in time, (n,).
        command_age: of the command that was rendered, in ticks, -1 before the first, (n,).
        counts: what was counted beside the ticks, as in `timing.json`; empty if that is missing.
    """

    rate: float
    begun: np.ndarray
    round_trip: np.ndarray
    command_age: np.ndarray
    counts: Mapping[str, Any]

    @property
    def ticks(self) -> int:
        """Ticks that were executed."""
        return self.begun.size

    @property
    def time(self) -> np.ndarray:
        """Times at which the ticks began [s], (n,)."""
        return 1e-9 * self.begun

    @property
    def periods(self) -> np.ndarray:
        """Time from each tick to the next [s], (n - 1,), empty for n < 2."""
        return 1e-9 * np.diff(self.begun)

    @property
    def missed(self) -> np.ndarray:
        """Ticks without an answer within their period."""
        return np.flatnonzero(self.round_trip < 0)

    @property
    def answers(self) -> np.ndarray:
        """Round trips of the ticks that were answered [s]."""
        return 1e-9 * self.round_trip[self.round_trip >= 0]

    @property
    def overdue(self) -> int:
        """Answers that were taken after the end of their period: the driver itself was woken late."""
        return int(np.count_nonzero(self.answers > 1.0 / self.rate))

    @property
    def achieved(self) -> float | None:
        """Ticks a second; None for fewer than 2 ticks."""
        return None if self.ticks < 2 else (self.ticks - 1) / float(self.time[-1] - self.time[0])

    def skipped_before(self) -> np.ndarray:
        """Periods without a tick up to each tick, found as the driver's deadlines do: they move on when a tick
        begins a whole period late or more, and never back; (n,)."""
        period = 1e9 / self.rate
        return np.maximum.accumulate(np.maximum(np.floor(self.begun / period - np.arange(self.ticks)), 0.0))

    def lateness(self) -> np.ndarray:
        """Delay of the start of each tick after its deadline [s], (n,)."""
        return self.time - (np.arange(self.ticks) + self.skipped_before()) / self.rate

    @property
    def skipped(self) -> int:
        """Periods without a tick: as counted, else as the ticks' times tell."""
        counted = self.counts.get("skipped_periods")
        if isinstance(counted, int):
            return counted
        return int(self.skipped_before()[-1]) if self.ticks else 0


@dataclass(frozen=True)
class Missed:
    """Number of ticks of a realtime trial that had no answer in time or are not in its samples."""

    ticks: int
    executed: int
    health: HealthParameters
    foreign: int = 0  # messages of a foreign publisher, which were refused: while there is one, nobody is heard

    @classmethod
    def of(cls, parameters: HealthParameters, timing: Mapping[str, Any], recorded: int) -> Missed | None:
        """Timing that the leader measured of a trial with so many samples; None without one, or without a tick."""
        executed = timing.get("executed")
        if not executed:
            return None
        foreign = int(timing.get("foreign_messages") or 0)
        return cls(max(int(timing.get("missed", 0)), executed - recorded), executed, parameters, foreign)

    @property
    def share(self) -> float:
        """The part of the ticks that were executed."""
        return self.ticks / self.executed

    @property
    def too_many(self) -> bool:
        """Whether so many ticks are missed that the trial has failed."""
        return self.share > self.health.missed_share

    @property
    def undecides(self) -> bool:
        """Whether so many ticks are missed that all claims are undecided."""
        return self.share > self.health.undecided_share

    def notice(self, claims: bool) -> str:
        """Notice of what was missed, and that no claim is judged on it, where the trial has `claims`."""
        return (
            f"{self.ticks} of {self.executed} ticks had no answer in time or were not recorded: more than "
            f"health.undecided_share = {self.health.undecided_share:g} of them"
        ) + (", so its claims are undecided" if claims else "")

    @property
    def reason(self) -> str:
        """Reason why the trial has failed."""
        return (
            f"{self.ticks} of {self.executed} ticks had no answer in time or were not recorded: more than "
            f"health.missed_share = {self.health.missed_share:g} of them"
        ) + (f"; its topics had a foreign publisher ({self.foreign} messages refused)" if self.foreign else "")


def read(directory: Path, rate: float, timing: Mapping[str, Any]) -> Health | None:
    """The health of the trial in `directory`; None if it did not run in realtime.

    Args:
        directory: of the trial.
        rate: that was asked for [Hz].
        timing: of the trial's summary, which holds what the driver counted.

    Raises:
        ParameterError: `timing.npz` is not what a driver leaves.
    """
    path = directory / "timing.npz"
    try:
        with np.load(path) as data:
            begun, round_trip, command_age = (
                np.asarray(data[name], np.int64) for name in ("begun", "round_trip", "command_age")
            )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ParameterError([f"{path}: not what a driver measures: {error}"]) from error
    if begun.ndim != 1 or not begun.shape == round_trip.shape == command_age.shape:
        raise ParameterError([f"{path}: begun, round_trip and command_age must have one value a tick each"])
    return Health(rate, begun, round_trip, command_age, timing)


# In numbers


def table(health: Health) -> list[Row]:
    """Table of the numbers, with their meanings."""
    achieved = health.achieved
    oldest = health.command_age.max(initial=-1)
    return [
        Row("Scheduler", str(health.counts.get("scheduler", "\N{EN DASH}")), "", "what the driver's loop was given"),
        Row(
            "Rate",
            "\N{EN DASH}" if achieved is None else f"{achieved:.2f} of {health.rate:g}",
            "Hz",
            "ticks a second, of those asked for",
        ),
        _percentiles("Period", 1e3 * health.periods, "from the beginning of a tick to that of the next"),
        _percentiles("Round trip", 1e3 * health.answers, "from the device's state to the command that answers it"),
        Row("Missed ticks", f"{health.missed.size} of {health.ticks}", "", "no answer within the period"),
        Row("Skipped periods", str(health.skipped), "", "no tick at all, as the driver was late"),
        Row("Oldest command", str(oldest) if oldest >= 0 else "\N{EN DASH}", "ticks", "age of what was rendered"),
        _counted(health, "expired", "Ticks without force", "the last command was older than the watchdog allows"),
        _counted(health, "saturations", "Saturations", "ticks whose wrench was clipped to the device's limits"),
        _counted(health, "bounded", "Bounded ticks", "ticks whose wrench was cut to device.bound"),
        _counted(health, "refused", "Refused messages", "not finite, malformed or out of order"),
        _counted(health, "lost_messages", "Lost messages", "were sent but did not reach the recorder"),
        _counted(health, "foreign_messages", "Foreign messages", "of another publisher: not recorded"),
        _counted(
            health,
            "unsent_messages",
            "Messages not sent",
            "a node saw the next message before it could answer the one before, and skipped that",
        ),
    ]


def _percentiles(name: str, values: np.ndarray, meaning: str) -> Row:
    """Median and 99th percentile of values [ms]."""
    text = "\N{EN DASH}"
    if values.size:
        text = " / ".join(f"{np.percentile(values, part):.4g}" for part in (50, 99))
    return Row(f"{name}, median / 99th percentile", text, "ms", meaning)


def _counted(health: Health, key: str, name: str, meaning: str) -> Row:
    value = health.counts.get(key)
    return Row(name, "\N{EN DASH}" if value is None else str(value), "", meaning)


# In words


def sentences(health: Health) -> list[str]:
    """Sentences about the missed ticks and their causes."""
    if not health.ticks:
        return ["No tick was executed."]
    sentences = [_of_rate(health), *_of_missed(health), _of_overdue(health), _of_skipped(health), *_of_counts(health)]
    return [text for text in sentences if text]


def _of_rate(health: Health) -> str:
    achieved = health.achieved
    if achieved is None or achieved >= 0.99 * health.rate:
        return ""
    return (
        f"The machine did not hold the rate: {achieved:.4g} ticks a second instead of {health.rate:g}. "
        "Choose a lower rate, or run composed."
    )


def _of_missed(health: Health) -> list[str]:
    missed, time = health.missed, health.time
    if not missed.size:
        if health.overdue:
            return ["Every tick was answered."]
        return [f"{_all(health.ticks, 'tick')} answered within {'its' if health.ticks == 1 else 'their'} period."]
    first, length = longest_run(missed)
    where = f"at {time[missed[0]]:.3f} s"
    if missed.size > 1:
        where = f"longest run of them: {_count(length, 'tick')}, at {time[first]:.3f} s"
    sentences = [
        f"{missed.size} of {_count(health.ticks, 'tick')} had no answer within "
        f"{'its' if missed.size == 1 else 'their'} period ({where})."
    ]
    late = int(np.count_nonzero(health.lateness()[missed] > LATE / health.rate))
    others = missed.size - late
    if late:
        subject = "this tick" if missed.size == 1 else f"{late} of these"
        sentences.append(
            f"In {subject} the driver itself began more than a quarter of a period late, which left the answer "
            "less time."
        )
    if others:
        subject = (
            "It" if missed.size == 1 else "All" if not late else f"The other {others}" if others > 1 else "The other"
        )
        verb = "was" if subject == "It" or others == 1 else "were"
        sentences.append(
            f"{subject} {verb} begun in time: the answer came late or was lost, as when a node of the graph waits for "
            "the processor."
        )
    return sentences


def longest_run(ticks: np.ndarray) -> tuple[int, int]:
    """First and length of the longest run of neighbours among ascending ticks, (n,), n > 0."""
    starts = np.flatnonzero(np.diff(ticks, prepend=ticks[0] - 2) != 1)
    lengths = np.diff(starts, append=ticks.size)
    longest = int(lengths.argmax())
    return int(ticks[starts[longest]]), int(lengths[longest])


def _of_overdue(health: Health) -> str:
    if not health.overdue:
        return ""
    return (
        f"{_count(health.overdue, 'answer was', 'answers were')} taken after a whole period or more: "
        "the driver itself was woken late."
    )


def _of_skipped(health: Health) -> str:
    skipped = health.skipped
    if not skipped:
        return "No period was skipped: the driver was never a whole period late."
    text = f"{_count(skipped, 'period was', 'periods were')} skipped because the driver itself was late"
    if not health.periods.size:
        return f"{text}."
    longest = int(health.periods.argmax())
    return (
        f"{text} (longest time between two ticks: {1e3 * health.periods[longest]:.3g} ms, "
        f"at {health.time[longest]:.3f} s)."
    )


def _of_counts(health: Health) -> list[str]:
    if not any(key in health.counts for key in ("lost_messages", "expired", "saturations", "refused")):
        return ["What the driver counted beside the ticks was not kept: timing.json is missing."]
    texts = {
        "expired": ("In {} the force was zero: the last command was older than the watchdog allows.", "tick", "ticks"),
        "saturations": ("In {} the wrench was clipped to the device's limits.", "tick", "ticks"),
        "bounded": ("In {} the wrench was cut to device.bound, which nothing passes.", "tick", "ticks"),
        "refused": ("{} refused; the log of the driver says why.", "message was", "messages were"),
        "lost_messages": (f"{{}} did not reach the recorder{_by_topic(health)}.", "message", "messages"),
        "unsent_messages": (
            "{} never sent: a node saw only the message after the one to be answered.",
            "message was",
            "messages were",
        ),
    }
    sentences = []
    for key, (text, one, many) in texts.items():
        value = health.counts.get(key)
        if isinstance(value, int) and value:
            sentences.append(text.format(_count(value, one, many)))
        elif key == "lost_messages" and value == 0:
            sentences.append("Every message that was sent reached the recorder.")
    return sentences


def _by_topic(health: Health) -> str:
    """Number of lost messages of each topic, in brackets; empty where that is not known."""
    lost = health.counts.get("lost_by_topic") or {}
    return f" ({', '.join(f'{count} of {topic}' for topic, count in sorted(lost.items()))})" if lost else ""


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _all(number: int, one: str) -> str:
    return f"The only {one} was" if number == 1 else f"All {number} {one}s were"


# As figures


def drawn(health: Health) -> Figure | None:
    """The figures; None for fewer than 2 ticks."""
    if health.ticks < 2:
        return None
    return Figure(
        "Clock and answers",
        "Above, over the time of the trial: how far each period was from the nominal one, and how long each answer "
        "took; missed ticks are marked. Below: the part of all ticks that took longer than a given time (the curve of "
        "the round trips ends at the part that was missed), and how old the rendered command was.",
        [_of_periods(health), _of_round_trips(health), _of_distribution(health), _of_age(health)],
    )


def _marks(health: Health, y: float) -> Line:
    """Missed ticks at height y, at most one a bucket: closer ones cannot be distinguished."""
    time = health.time[health.missed]
    if time.size:
        bucket = np.floor(BUCKETS * time / max(health.time[-1], time[-1], 1e-9))
        time = time[np.unique(bucket, return_index=True)[1]]
    return Line(time, np.full(time.size, y), "missed ticks", Style(VERMILION))


def _of_periods(health: Health) -> Panel:
    deviation = 1e6 * (health.periods - 1.0 / health.rate)
    line = Line(*thin(health.time[1:], deviation), "each period", Style(BLUE, width=0.9))
    lowest = min(float(deviation.min()), 0.0)
    below = 2.0 * min(lowest, -LINEAR) if lowest < -LINEAR else -1.15 * LINEAR  # marks stand below the curve
    title = f"Period, from the nominal {1e3 / health.rate:.4g} ms"
    return draw(
        "health_period", title, [line], "time [s]", Axis("deviation [µs]", linear=LINEAR), marks=_marks(health, below)
    )


def _of_round_trips(health: Health) -> Panel:
    answered = health.round_trip >= 0
    values = 1e6 * health.answers
    period = 1e6 / health.rate
    lines = [
        Line(*thin(health.time[answered], values), "each round trip", Style(BLUE, width=0.9)),
        Line(health.time[[0, -1]], np.full(2, period), "one period", Style(BLACK, (5, 1.8), 1.0)),
    ]
    above = 1.4 * max(period, float(values.max(initial=0.0)))
    marks = _marks(health, above)
    return draw("health_round_trip", "Round trip", lines, "time [s]", Axis("round trip [µs]", log=True), marks=marks)


def _of_distribution(health: Health) -> Panel:
    periods, answers = 1e6 * np.sort(health.periods), 1e6 * np.sort(health.answers)
    nominal = 1e6 / health.rate
    least = 100.0 / (2 * health.ticks)
    lines = []
    if answers.size:
        lines.append(_longer(answers, health.ticks, "round trips", Style(BLUE)))
    lines.append(_longer(periods, periods.size, "periods", Style(ORANGE, (5, 1.8))))
    lines.append(Line(np.full(2, nominal), np.array([least, 100.0]), "one period", Style(BLACK, (1.3, 1.3), 1.0)))
    return draw(
        "health_distribution",
        "How many took longer",
        lines,
        Axis("time [µs]", log=True),
        Axis("part that took longer [%]", log=True),
    )


def _longer(values: np.ndarray, total: int, label: str, style: Style) -> Line:
    """Part of `total` [%] that is longer than each of n ascending values, or has none, as a curve that steps down.

    Of a long curve only points are left out that the logarithm puts closer together than can be seen; both ends stay.
    """
    longer = np.arange(total, total - values.size, -1)  # than a value a little smaller
    if values.size > BUCKETS:
        from_top = np.unique(np.geomspace(longer[-1], longer[0], BUCKETS).round().astype(int))
        evenly = np.linspace(longer[-1], longer[0], BUCKETS // 2).round().astype(int)
        kept = np.unique(np.concatenate([total - from_top, total - evenly]))
        values, longer = values[kept], longer[kept]
    return Line(values, 100.0 * longer / total, label, style)


def _of_age(health: Health) -> Panel:
    known = health.command_age >= 0
    line = Line(
        *thin(health.time[known], health.command_age[known].astype(float)),
        "age of what is rendered",
        Style(BLUE, width=0.9),
        steps=True,
    )
    return draw(
        "health_command_age", "Age of the rendered command", [line], "time [s]", Axis("age [ticks]", counts=True)
    )
