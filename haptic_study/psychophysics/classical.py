"""Methods whose stimuli are fixed beforehand: constant stimuli and limits; and several methods in turn, interleaved."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, model_validator

from haptic_sim.parameters import quantity
from haptic_sim.random_numbers import stream
from haptic_study.design.stable import Choices
from haptic_study.psychophysics import fitting
from haptic_study.psychophysics.adaptive import AdaptiveMethod, Level, Method, MethodParameters, mean_with_interval


def _ascending(levels: tuple[float, ...]) -> tuple[float, ...]:
    if len(levels) < 2:
        raise ValueError("must be two levels at least")
    for i in range(1, len(levels)):
        if not levels[i] > levels[i - 1]:
            raise ValueError(f"[{i}] = {levels[i]:g}: must be above the level before it")
    return levels


Levels = Annotated[tuple[float, ...], AfterValidator(_ascending)]
"""Different levels of a stimulus, in ascending order."""


class ConstantStimuliParameters(MethodParameters):
    """Constant stimuli: each level equally often, in random order."""

    type: Literal["constant_stimuli"] = "constant_stimuli"
    levels: Levels = quantity(description="Levels in ascending order")
    repetitions: int = quantity(ge=1, le=10_000, description="Answers to each level; each level once before any again")
    function: Literal["cumulative_normal", "weibull", "logistic"] = quantity(
        "cumulative_normal", description="Psychometric function of the estimate"
    )
    guess: float = quantity(0.5, ge=0, lt=1, description="Guess rate of the estimate")
    largest_lapse: float = quantity(0.1, ge=0, lt=0.5, description="Upper bound of the lapse rate of the estimate")

    @model_validator(mode="after")
    def _check(self) -> ConstantStimuliParameters:
        if self.guess + self.largest_lapse >= 1.0:
            raise ValueError(f".guess = {self.guess:g}: guess + largest_lapse must be < 1")
        if self.function == "weibull" and self.levels[0] < 0.0:
            raise ValueError(f".levels[0] = {self.levels[0]:g}: must be >= 0 for a Weibull function")
        return self

    def build(self, seed: int) -> AdaptiveMethod:
        """The levels in an order of the seed."""
        return ConstantStimuli(self, seed)


class ConstantStimuli(Method):
    """The method of constant stimuli; see `ConstantStimuliParameters`."""

    def __init__(self, parameters: ConstantStimuliParameters, seed: int):
        super().__init__()
        self.parameters = parameters
        rounds = range(parameters.repetitions)
        self.order = [
            one
            for i in rounds
            for one in Choices(seed, "constant_stimuli", i).shuffled([*map(float, parameters.levels)])
        ]

    @property
    def finished(self) -> bool:
        """Whether all levels were answered as often as they should be."""
        return len(self.answers) == len(self.order)

    @property
    def estimate(self) -> dict[str, Any]:
        """Threshold of a psychometric function of largest likelihood, and its interval by the profile likelihood.

        None while the answers are to fewer than two levels.
        """
        one = self.parameters
        levels = [level for level, _ in self.answers]
        smallest = 0.0 if one.function == "weibull" else -np.inf
        if len({level for level in levels if isinstance(level, float) and level > smallest}) < 2:
            return {"threshold": None, "interval": None}
        outcomes, trials = [outcome for _, outcome in self.answers], np.ones(len(levels))
        found = fitting.fit(levels, outcomes, trials, one.function, one.guess, (0.0, one.largest_lapse))
        interval = fitting.likelihood_interval(found)
        return {"threshold": found.threshold, "interval": interval, "spread": found.spread, "lapse": found.lapse}

    def _next(self) -> float:
        return self.order[len(self.answers)]

    def _take(self, level: Any, outcome: int) -> None:
        pass  # the order does not depend on the answers


class LimitsParameters(MethodParameters):
    """Limits: series of ascending and descending levels by turns, each until the answer changes."""

    type: Literal["limits"] = "limits"
    levels: Levels = quantity(description="Levels in ascending order")
    series: int = quantity(10, ge=2, le=1000, description="Number of series, ascending and descending ones by turns")
    vary: int = quantity(0, ge=0, description="A series starts up to so many levels after the first, at random")

    @model_validator(mode="after")
    def _check(self) -> LimitsParameters:
        if self.vary > len(self.levels) - 2:
            most = len(self.levels) - 2
            raise ValueError(f".vary = {self.vary}: must be at most {most}, so that two levels remain in each series")
        return self

    def build(self, seed: int) -> AdaptiveMethod:
        """The series, whose first levels depend on the seed where they vary."""
        return Limits(self, seed)


class Limits(Method):
    """The method of limits; see `LimitsParameters`.

    Attributes:
        crossings: of the series that ended, the level midway between the last two, where the answer changed; None where
            the first answer was the changed one already, or no answer changed.
    """

    def __init__(self, parameters: LimitsParameters, seed: int):
        super().__init__()
        self.parameters = parameters
        self.crossings: list[float | None] = []
        self._choices = Choices(seed, "limits")
        self._begin()

    @property
    def finished(self) -> bool:
        """Whether all series have ended."""
        return len(self.crossings) == self.parameters.series

    @property
    def estimate(self) -> dict[str, Any]:
        """Mean of the crossings with its interval, and the means of ascending and of descending series.

        A difference of the two is that of habituation or anticipation (Jones and Tan 2013).
        """
        mean, interval = mean_with_interval([one for one in self.crossings if one is not None])
        ascending, descending = (
            mean_with_interval([one for one in self.crossings[i::2] if one is not None])[0] for i in (0, 1)
        )
        missing = sum(one is None for one in self.crossings)
        return {
            "threshold": mean,
            "interval": interval,
            "ascending": ascending,
            "descending": descending,
            "without_crossing": missing,
        }

    def _begin(self) -> None:
        """Start a series."""
        index = len(self.crossings)
        shift = int(self._choices.number(index) * (self.parameters.vary + 1))
        levels = self.parameters.levels
        self._series = [float(one) for one in (levels if index % 2 == 0 else levels[::-1])[shift:]]
        self._place = 0

    def _next(self) -> float:
        return self._series[self._place]

    def _take(self, level: Any, outcome: int) -> None:
        ascending = len(self.crossings) % 2 == 0
        changed = outcome == int(ascending)
        if not changed and self._place + 1 < len(self._series):
            self._place += 1
            return
        found = changed and self._place > 0
        self.crossings.append(0.5 * (self._series[self._place - 1] + self._series[self._place]) if found else None)
        self._begin()


class Interleaved(Method):
    """Several methods by turns, so that the next stimulus cannot be foreseen.

    Args:
        tracks: the methods.
        order: `random`, each unfinished one equally probable, or `alternate`.
        seed: of the random order.
    """

    def __init__(self, tracks: list[AdaptiveMethod], order: str, seed: int):
        super().__init__()
        self.tracks, self._order = tracks, order
        self._choices = Choices(seed, "interleaved")
        self._last = -1

    @property
    def finished(self) -> bool:
        """Whether all methods have finished."""
        return all(one.finished for one in self.tracks)

    @property
    def track(self) -> int:
        """Index of the method whose stimulus is next."""
        unfinished = [i for i, one in enumerate(self.tracks) if not one.finished]
        if self._order == "random":
            return unfinished[int(self._choices.number(len(self.answers)) * len(unfinished))]
        return next((i for i in unfinished if i > self._last), unfinished[0])

    @property
    def estimate(self) -> dict[str, Any]:
        """Mean of the thresholds, without an interval, and the estimates of all methods (`tracks`)."""
        estimates = [one.estimate for one in self.tracks]
        known = [one["threshold"] for one in estimates if one["threshold"] is not None]
        mean = float(np.mean(known)) if len(known) == len(estimates) else None
        return {"threshold": mean, "interval": None, "tracks": estimates}

    def _next(self) -> Level:
        return self.tracks[self.track].level

    def _check(self, level: Level) -> None:
        pass  # by the method that takes it

    def _take(self, level: Any, outcome: int) -> None:
        track = self.track
        self.tracks[track].answer(level, outcome)
        self._last = track


def track_seed(seed: int, index: int) -> int:
    """Seed of an interleaved method."""
    return stream(seed, f"track {index}")
