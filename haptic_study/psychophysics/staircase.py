"""Staircases: the level goes down after correct answers and up after wrong ones.

After `down` correct answers in a row the level goes down by a step, after `up` wrong ones in a row it goes up; both
counts then begin again (Levitt 1971). With p the probability of a correct answer and q = 1 - p, a step that starts at
this level goes down with probability

    P(p) = p^(down-1) (1 - q^up) / (p^(down-1) + q^(up-1) - p^(down-1) q^(up-1)),

that of a run of `down` successes before one of `up` failures (Feller 1968, chapter VIII). Where a step up has r times
the size of a step down, the level drifts towards the probability with P = r / (1 + r): P = 1/2 for equal steps,
which is p^2 = 1/2 for `down` = 2 and p^3 = 1/2 for 3 (Levitt 1971, table I), and p = r / (1 + r) for the weighted
staircase with up = down = 1 (Kaernbach 1991). A `target` sets r.

Level and probability agree where a step is small beside the spread of the psychometric function; with steps as large as
the spread, staircases of equal steps settle elsewhere (Garcia-Perez 1998).
"""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import model_validator
from scipy import optimize

from haptic_sim.inputs import shown
from haptic_sim.parameters import quantity
from haptic_study.psychophysics.adaptive import AdaptiveMethod, Method, MethodParameters, mean_with_interval


class StaircaseParameters(MethodParameters):
    """Staircase: n-up m-down, or weighted by its target."""

    type: Literal["staircase"] = "staircase"
    start: float = quantity(description="First level")
    steps: tuple[float, ...] = quantity(
        description="Step down after each reversal, the first before any; the last one is kept"
    )
    up: int = quantity(1, ge=1, le=20, description="Wrong answers in a row after which the level goes up")
    down: int = quantity(2, ge=1, le=20, description="Correct answers in a row after which the level goes down")
    target: float | None = quantity(
        None, gt=0, lt=1, description="Probability of a correct answer that is aimed at; null: that of equal steps"
    )
    scale: Literal["linear", "decibel"] = quantity(
        "linear", description="Unit of a step: that of the level, or decibels, 20 log10 of a ratio of levels"
    )
    low: float | None = quantity(None, description="Lowest level; null: none")
    high: float | None = quantity(None, description="Highest level; null: none")
    reversals: int | None = quantity(None, ge=1, description="Reversals after which it ends; null: trials decide")
    trials: int | None = quantity(None, ge=1, description="Answers after which it ends at the latest; null: no limit")
    discard: int = quantity(2, ge=0, description="First reversals that the estimate leaves out")

    @model_validator(mode="after")
    def _check(self) -> StaircaseParameters:
        if not self.steps:
            raise ValueError(".steps: must have one step at least")
        for i, step in enumerate(self.steps):
            if not step > 0.0:
                raise ValueError(f".steps[{i}] = {step:g}: must be > 0")
        if self.reversals is None and self.trials is None:
            raise ValueError(".reversals: missing; give reversals or trials after which it ends")
        if self.scale == "decibel":
            for key, value in (("start", self.start), ("low", self.low), ("high", self.high)):
                if value is not None and not value > 0.0:
                    raise ValueError(f".{key} = {value:g}: must be > 0, as steps are in decibels")
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        if not low < high:
            raise ValueError(f".low = {low:g}: must be below high = {high:g}")
        if not low <= self.start <= high:
            raise ValueError(f".start = {shown(self.start)}: must be between low = {low:g} and high = {high:g}")
        return self

    def build(self, seed: int) -> AdaptiveMethod:
        """The staircase; the seed changes nothing."""
        return Staircase(self)


class Staircase(Method):
    """A staircase; see `StaircaseParameters`.

    Attributes:
        reversals: levels at which the direction changed.
        at_limits: answers that would have moved the level beyond a limit.
        ratio: of a step up to a step down.
    """

    def __init__(self, parameters: StaircaseParameters):
        super().__init__()
        self.parameters = parameters
        self.reversals: list[float] = []
        self.at_limits = 0
        share = (
            0.5
            if parameters.target is None
            else step_down_probability(parameters.target, parameters.up, parameters.down)
        )
        self.ratio = share / (1.0 - share)
        self._level = float(parameters.start)
        self._right = self._wrong = self._direction = 0

    @property
    def target(self) -> float:
        """Probability of a correct answer at the level that it converges to."""
        one = self.parameters
        return converges_to(one.up, one.down, self.ratio) if one.target is None else one.target

    @property
    def finished(self) -> bool:
        """Whether the reversals or the trials are there."""
        one = self.parameters
        enough = one.reversals is not None and len(self.reversals) >= one.reversals
        return enough or (one.trials is not None and len(self.answers) >= one.trials)

    @property
    def estimate(self) -> dict[str, Any]:
        """Mean of the midpoints between neighbouring reversals (Levitt 1971); in decibels, of their logarithms.

        The first `discard` reversals are left out, and one more where the rest is odd. The interval takes the midpoints
        for independent, which is an approximation.
        """
        kept = [self._coordinate(one) for one in self.reversals[self.parameters.discard :]]
        kept = kept[len(kept) % 2 :]
        midpoints = [0.5 * (kept[i] + kept[i + 1]) for i in range(0, len(kept), 2)]
        mean, interval = mean_with_interval(midpoints)
        return {
            "threshold": None if mean is None else self._of_coordinate(mean),
            "interval": None
            if interval is None
            else (self._of_coordinate(interval[0]), self._of_coordinate(interval[1])),
            "target": self.target,
            "reversals": len(self.reversals),
            "at_limits": self.at_limits,
        }

    def _next(self) -> float:
        return self._level

    def _take(self, level: float, outcome: int) -> None:
        one = self.parameters
        self._right, self._wrong = (self._right + 1, 0) if outcome else (0, self._wrong + 1)
        direction = (self._wrong == one.up) - (self._right == one.down)
        if direction == 0:
            return
        self._right = self._wrong = 0
        reverses = direction == -self._direction
        used = len(self.reversals) + reverses
        step = one.steps[min(used, len(one.steps) - 1)] * (self.ratio if direction > 0 else 1.0)
        moved = self._of_coordinate(self._coordinate(level) + direction * step)
        limited = min(max(moved, -math.inf if one.low is None else one.low), math.inf if one.high is None else one.high)
        self.at_limits += limited != moved
        if limited == level:
            return  # on a limit, which is no change of direction
        if reverses:
            self.reversals.append(level)
        self._direction, self._level = direction, limited

    def _coordinate(self, level: float) -> float:
        """Coordinate that a step is added to."""
        return 20.0 * math.log10(level) if self.parameters.scale == "decibel" else level

    def _of_coordinate(self, coordinate: float) -> float:
        return 10.0 ** (coordinate / 20.0) if self.parameters.scale == "decibel" else coordinate


def step_down_probability(p: float, up: int, down: int) -> float:
    """Probability that the next step goes down, of the probability p of a correct answer (equation above)."""
    successes, failures = p ** (down - 1), (1.0 - p) ** (up - 1)
    return successes * (1.0 - (1.0 - p) * failures) / (successes + failures - successes * failures)


def converges_to(up: int, down: int, ratio: float = 1.0) -> float:
    """Probability of a correct answer to which a staircase converges, of the ratio of a step up to a step down."""
    share = ratio / (1.0 + ratio)
    return float(optimize.brentq(lambda p: step_down_probability(p, up, down) - share, 1e-9, 1.0 - 1e-9, xtol=1e-14))
