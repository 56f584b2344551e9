"""Tasks of a study: what is presented in a trial, what is asked, and what an answer counts as.

A trial presents one to three intervals, each a run of the study's experiment. The method of a task chooses the level of
the stimulus; `value_of` says which value of the stimulus's keys that is. The outcome of an answer, 1 or 0, is what
adaptive methods and psychometric functions are given: of a forced choice 1 where the comparison was chosen, of yes/no 1
for "yes", of same/different 1 for "different", of a free manipulation 1 for success.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Protocol

from pydantic import BeforeValidator, Field, model_validator

from haptic_sim import inputs
from haptic_sim.parameters import Parameters, quantity

Answer = float | str


class Senses(Protocol):
    """Quantities that a decision about percepts depends on: see `observers.ObserverParameters`."""

    criterion: float
    exponent: float

    def sigma(self, percept: float) -> float:
        """Standard deviation of a percept."""


def _keys(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class TaskParameters(Parameters):
    """Keys common to all tasks."""

    INTERVALS: ClassVar[int] = 1
    ANSWERS: ClassVar[tuple[str, ...]] = ()
    """Answers to choose from; empty: a number, or what is measured."""
    BINARY: ClassVar[bool] = True
    """Whether the outcome of an answer is 1 or 0; else it is a number."""
    MEASURES: ClassVar[tuple[str, ...]] = ()
    """Measures that the analysis makes of the answers."""

    question: str = quantity(description="Question that follows the intervals of a trial")
    instructions: str = quantity("", description="Instructions before the first trial of the task, in Markdown")
    method: dict[str, Any] = quantity(
        description="Method that chooses the levels of the trials, with its type: constant_stimuli, staircase, "
        "interleaved, quest_plus, psi, limits",
    )
    practice: tuple[float, ...] = quantity((), description="Levels of practice trials before the first block")
    function: Literal["cumulative_normal", "weibull", "logistic"] = quantity(
        "cumulative_normal", description="Psychometric function that is fitted to the answers"
    )
    lapses: Annotated[float, Field(ge=0.0, lt=0.5)] | tuple[float, float] = quantity(
        0.02,
        description="Part of the trials that fits take to be answered at random; or bounds of guess and lapse rates, "
        "which are free then",
    )

    @property
    def intervals(self) -> int:
        """Number of intervals of a trial."""
        return self.INTERVALS

    @property
    def answers(self) -> tuple[str, ...]:
        """Answers to choose from; empty: any number."""
        return self.ANSWERS

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of what the analysis may make of the answers."""
        return (*self.MEASURES, "response_time")

    @property
    def guess(self) -> float:
        """Probability of outcome 1 without any difference, of who guesses."""
        return 0.0

    def values(self, level: float, comparison: int) -> list[float]:
        """Value of the stimulus in each interval, where the comparison is that of a number from 0 on."""
        raise NotImplementedError

    def settings(self, value: float) -> dict[str, Any]:
        """Settings of the experiment for a value of the stimulus."""
        raise NotImplementedError

    def checked(self, answer: Any) -> Answer:
        """An answer.

        Raises:
            ValueError: it is none.
        """
        if answer not in self.answers:
            raise ValueError(f"must be one of {', '.join(self.answers)}")
        return str(answer)

    def outcome(self, answer: Answer, comparison: int) -> float:
        """Outcome that an answer counts as."""
        raise NotImplementedError

    def decide(self, percepts: Sequence[float], senses: Senses) -> Answer:
        """The answer of a simulated observer to the percepts of the intervals."""
        raise NotImplementedError

    def margin(self, percepts: Sequence[float], senses: Senses) -> float:
        """Distance of percepts from those with another answer, in the standard deviation of the decision variable."""
        return 0.0


class StimulusTask(TaskParameters):
    """A task about a stimulus: keys of the experiment that all have the same value."""

    stimulus: Annotated[tuple[str, ...], BeforeValidator(_keys)] = quantity(
        description="Key of the experiment that is the stimulus, or a list of keys that all have its value",
        min_length=1,
    )
    unit: str = quantity("", description="Unit of the stimulus")
    reference: float = quantity(description="Value of the stimulus in the reference interval")
    level: Literal["value", "difference", "ratio"] = quantity(
        "value",
        description="Meaning of the levels of the method: the value of the stimulus, its difference from the "
        "reference, or its ratio to the reference",
    )

    @model_validator(mode="after")
    def _has_a_ratio(self) -> StimulusTask:
        if self.level == "ratio" and self.reference == 0.0:
            raise ValueError("reference = 0: has no ratios; choose level: difference")
        return self

    def value_of(self, level: float) -> float:
        """Value of the stimulus at a level."""
        match self.level:
            case "difference":
                return self.reference + level
            case "ratio":
                return self.reference * level
        return level

    def settings(self, value: float) -> dict[str, Any]:
        """Settings of the experiment for a value of the stimulus."""
        return dict.fromkeys(self.stimulus, value)

    def values(self, level: float, comparison: int) -> list[float]:
        """Value of the stimulus in each interval, where the comparison is that of a number from 0 on."""
        found = [self.reference] * self.intervals
        found[comparison] = self.value_of(level)
        return found


class ForcedChoiceParameters(StimulusTask):
    """m-alternative forced choice: one interval is the comparison, the others are the reference.

    The answer is the number of the interval, from 1 on, that has most of the stimulus (`larger`), least of it
    (`smaller`), or differs from the others (`odd`, of three intervals).
    """

    MEASURES: ClassVar = ("jnd", "pse", "weber", "lapse", "method")

    type: Literal["forced_choice"] = "forced_choice"
    alternatives: Literal[2, 3] = quantity(2, description="Number of intervals")
    ask: Literal["larger", "smaller", "odd"] = quantity("larger", description="Interval that the question asks for")

    @model_validator(mode="after")
    def _has_an_odd_one(self) -> ForcedChoiceParameters:
        if self.ask == "odd" and self.alternatives == 2:
            raise ValueError("ask = odd: of two intervals none is odd; choose alternatives: 3")
        return self

    @property
    def intervals(self) -> int:
        """Number of intervals of a trial."""
        return self.alternatives

    @property
    def answers(self) -> tuple[str, ...]:
        """Answers to choose from."""
        return tuple(str(i + 1) for i in range(self.alternatives))

    @property
    def guess(self) -> float:
        """Probability of outcome 1 without any difference."""
        return 1.0 / self.alternatives

    def outcome(self, answer: Answer, comparison: int) -> float:
        """1 where the comparison was chosen."""
        return float(answer == str(comparison + 1))

    def decide(self, percepts: Sequence[float], senses: Senses) -> Answer:
        """The interval whose percept is largest, smallest, or farthest from the median."""
        ranked = self._ranked(percepts)
        return self.answers[ranked.index(max(ranked))]

    def margin(self, percepts: Sequence[float], senses: Senses) -> float:
        """Margin of the chosen interval over the next one, in the quantity that is asked for."""
        ranked = self._ranked(percepts)
        first, second = sorted(range(len(ranked)), key=lambda i: -ranked[i])[:2]
        return _over(ranked[first] - ranked[second], math.hypot(*(senses.sigma(percepts[i]) for i in (first, second))))

    def _ranked(self, percepts: Sequence[float]) -> list[float]:
        """Score of each interval in the quantity that is asked for."""
        middle = sorted(percepts)[len(percepts) // 2]
        asked = {
            "larger": percepts,
            "smaller": [-one for one in percepts],
            "odd": [abs(one - middle) for one in percepts],
        }
        return list(asked[self.ask])


class YesNoParameters(StimulusTask):
    """One interval, in which the stimulus is at the level, or in catch trials at the reference."""

    ANSWERS: ClassVar = ("no", "yes")

    MEASURES: ClassVar = ("threshold", "d_prime", "criterion", "lapse", "method")

    type: Literal["yes_no"] = "yes_no"
    catch: float = quantity(
        0.0, description="Part of the trials with the reference in place of the level", ge=0.0, lt=1.0
    )

    def values(self, level: float, comparison: int) -> list[float]:
        """Value of the stimulus; a comparison of -1 is a catch trial."""
        return [self.reference if comparison < 0 else self.value_of(level)]

    def outcome(self, answer: Answer, comparison: int) -> float:
        """1 for yes."""
        return float(answer == "yes")

    def decide(self, percepts: Sequence[float], senses: Senses) -> Answer:
        """Yes where the percept is above the reference by the criterion."""
        return "yes" if self._beyond(percepts, senses) > 0.0 else "no"

    def margin(self, percepts: Sequence[float], senses: Senses) -> float:
        """Distance of the percept from the criterion."""
        return _over(abs(self._beyond(percepts, senses)), senses.sigma(percepts[0]))

    def _beyond(self, percepts: Sequence[float], senses: Senses) -> float:
        return percepts[0] - (self.reference + senses.criterion * senses.sigma(self.reference))


class SameDifferentParameters(StimulusTask):
    """Two intervals: the reference twice, or the reference and the comparison in either order."""

    INTERVALS: ClassVar = 2
    ANSWERS: ClassVar = ("same", "different")

    MEASURES: ClassVar = ("threshold", "d_prime", "criterion", "lapse", "method")

    type: Literal["same_different"] = "same_different"
    catch: float = quantity(0.5, description="Part of the trials with the reference twice", ge=0.0, lt=1.0)

    def values(self, level: float, comparison: int) -> list[float]:
        """Value of the stimulus in each interval; a comparison of -1 is a catch trial."""
        return [self.reference] * 2 if comparison < 0 else super().values(level, comparison)

    def outcome(self, answer: Answer, comparison: int) -> float:
        """1 for different."""
        return float(answer == "different")

    def decide(self, percepts: Sequence[float], senses: Senses) -> Answer:
        """Different where the percepts differ by the criterion, in standard deviations of their difference."""
        first, second = percepts
        spread = math.hypot(senses.sigma(first), senses.sigma(second))
        return "different" if abs(second - first) > senses.criterion * spread else "same"

    def margin(self, percepts: Sequence[float], senses: Senses) -> float:
        """Distance of the magnitude of the difference from the criterion."""
        first, second = percepts
        spread = math.hypot(senses.sigma(first), senses.sigma(second))
        return _over(abs(abs(second - first) - senses.criterion * spread), spread)


class MagnitudeEstimationParameters(StimulusTask):
    """One interval, to which the person gives a number > 0 in proportion to the sensation (Stevens)."""

    BINARY: ClassVar = False

    MEASURES: ClassVar = ("exponent",)

    type: Literal["magnitude_estimation"] = "magnitude_estimation"

    def checked(self, answer: Any) -> Answer:
        """A number > 0.

        Raises:
            ValueError: something else.
        """
        return _positive(answer)

    def outcome(self, answer: Answer, comparison: int) -> float:
        """The number."""
        return float(answer)

    def decide(self, percepts: Sequence[float], senses: Senses) -> Answer:
        """A power of the percept (Stevens 1957)."""
        return max(percepts[0], 1e-6) ** senses.exponent


class AdjustmentParameters(StimulusTask):
    """The reference, and a comparison that begins at the level and that the person changes until both are alike.

    Each answer `down` or `up` changes the comparison by a step, after which both are presented again; `done` ends the
    trial, whose outcome is the value that was set. `limits` bound the comparison.
    """

    INTERVALS: ClassVar = 2
    ANSWERS: ClassVar = ("down", "up", "done")
    BINARY: ClassVar = False

    MEASURES: ClassVar = ("set",)

    type: Literal["adjustment"] = "adjustment"
    step: float = quantity(description="Change of the comparison by an answer, in the unit of the stimulus", gt=0.0)
    limits: tuple[float, float] = quantity(description="Least and greatest value of the comparison")
    presentations: int = quantity(30, description="Largest number of presentations of a trial", ge=1, le=1000)

    @model_validator(mode="after")
    def _is_a_range(self) -> AdjustmentParameters:
        if not self.limits[0] < self.limits[1]:
            raise ValueError(
                f"limits = [{self.limits[0]:g}, {self.limits[1]:g}]: the first must be less than the second"
            )
        return self

    def changed(self, value: float, answer: Answer) -> float:
        """The comparison after an answer."""
        step = {"up": self.step, "down": -self.step}[str(answer)]
        return min(max(value + step, self.limits[0]), self.limits[1])

    def outcome(self, answer: Answer, comparison: int) -> float:
        """Is the value that was set, which the session knows."""
        raise TypeError("the outcome of an adjustment is the value that was set")

    def decide(self, percepts: Sequence[float], senses: Senses) -> Answer:
        """Done where the difference is within half a step and the criterion; else the way to the reference."""
        first, second = percepts
        if abs(second - first) <= max(0.5 * self.step, senses.criterion * senses.sigma(first)):
            return "done"
        return "up" if second < first else "down"


class SuccessParameters(Parameters):
    """Criterion of the success of a free manipulation: a metric of the trial is within bounds."""

    metric: str = quantity(description="Metric of the experiment's analysis that decides")
    at_least: float | None = quantity(None, description="Least value of a success; null: there is none")
    at_most: float | None = quantity(None, description="Greatest value of a success; null: there is none")

    def holds(self, metrics: Mapping[str, Any]) -> bool:
        """Whether a trial with these metrics has succeeded; without the metric it has not."""
        value = metrics.get(self.metric)
        if not isinstance(value, int | float) or math.isnan(value):
            return False
        low = -math.inf if self.at_least is None else self.at_least
        return low <= value <= (math.inf if self.at_most is None else self.at_most)


class FreeParameters(TaskParameters):
    """A free manipulation in one interval, of which metrics of the trial are measured, or decide whether it succeeds.

    The experiment's duration is its time limit. With `stimulus` the method sets the level of a key, without the
    method's levels are without effect. With `seeds` each trial has a seed of its own: so a study of the system has
    repetitions that differ by noise, with seeds in place of people.
    """

    type: Literal["free"] = "free"
    stimulus: Annotated[tuple[str, ...], BeforeValidator(_keys)] = quantity(
        (), description="Key of the experiment that the method sets, or a list of keys"
    )
    unit: str = quantity("", description="Unit of the stimulus")
    success: SuccessParameters | None = quantity(
        None, description="Criterion of a successful manipulation; null: metrics are measured, and none decides"
    )
    metrics: tuple[str, ...] = quantity((), description="Metrics of the experiment's analysis that are measured")
    seeds: bool = quantity(False, description="Whether the experiment has another seed in each trial")
    time: str = quantity(
        "", description="Metric of the experiment's analysis that is the time of a success; empty: no time is measured"
    )

    def values(self, level: float, comparison: int) -> list[float]:
        """The level."""
        return [level]

    def settings(self, value: float) -> dict[str, Any]:
        """Settings of the experiment for a value of the stimulus."""
        return dict.fromkeys(self.stimulus, value)

    @model_validator(mode="after")
    def _measures_something(self) -> FreeParameters:
        if self.success is None and not self.metrics:
            raise ValueError("success, metrics: both are missing; one says what is measured")
        if same := set(self.metrics) & {"success", "time", "response_time"}:
            raise ValueError(f"metrics: {same.pop()}: is the name of another measure")
        return self

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of what the analysis may make of the trials."""
        decided = ("success", "time") if self.success is not None else ()
        return (*decided, *self.metrics)

    def answer_to(self, metrics: Mapping[str, Any]) -> str:
        """The answer that the metrics of a trial are: success or failure, or that it was measured."""
        if self.success is None:
            return "measured"
        return "success" if self.success.holds(metrics) else "failure"

    def checked(self, answer: Any) -> Answer:
        """`success` or `failure`, as the metric decided, or `measured` where none decides.

        Raises:
            ValueError: something else.
        """
        allowed = ("measured",) if self.success is None else ("success", "failure")
        if answer not in allowed:
            raise ValueError(f"must be {' or '.join(allowed)}")
        return str(answer)

    def outcome(self, answer: Answer, comparison: int) -> float:
        """0 for failure, else 1."""
        return float(answer != "failure")

    def decide(self, percepts: Sequence[float], senses: Senses) -> Answer:
        """Is measured, not felt."""
        raise TypeError("the answer of a free manipulation is measured")


AnyTask = Annotated[
    ForcedChoiceParameters
    | YesNoParameters
    | SameDifferentParameters
    | MagnitudeEstimationParameters
    | AdjustmentParameters
    | FreeParameters,
    Field(discriminator="type"),
]


def _over(distance: float, deviation: float) -> float:
    """A distance in standard deviations; without noise it is infinite unless it is 0."""
    if deviation > 0.0:
        return distance / deviation
    return math.inf if distance > 0.0 else 0.0


def _positive(answer: Any) -> float:
    try:
        value = inputs.number(answer) if isinstance(answer, str) else float(answer)
    except (TypeError, ValueError, inputs.InputError) as error:
        raise ValueError("must be a number > 0") from error
    if isinstance(answer, bool) or not 0.0 < value < math.inf:
        raise ValueError("must be a number > 0")
    return value
