"""Common part of the methods of measurement: they choose the next stimulus from the answers so far.

A method depends on its parameters, its seed and the list of its answers, and on nothing else: a study that was
interrupted builds it again and repeats the answers (`replay`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from scipy import stats

from haptic_sim.inputs import ParameterError, shown
from haptic_sim.parameters import Parameters

Level = float | dict[str, float]
"""A stimulus: its level, or the levels of several variables by name."""


class AdaptiveMethod(Protocol):
    """A method that chooses the next stimulus from the answers so far."""

    @property
    def level(self) -> Level:
        """The stimulus to be presented next.

        Raises:
            ParameterError: the method has finished.
        """

    def answer(self, level: Level, outcome: int) -> None:
        """Take the answer to a stimulus.

        Args:
            level: that was presented.
            outcome: 1 for a positive answer (correct, or yes), 0 for a negative one.

        Raises:
            ParameterError: the method has finished, or does not take this level or outcome.
        """

    @property
    def finished(self) -> bool:
        """Whether nothing is to be presented any more."""

    @property
    def estimate(self) -> dict[str, Any]:
        """Present estimate: `threshold`, and `interval` of 95 % (low, high); None where it is not known."""


class MethodParameters(Parameters):
    """Parameters of a method of measurement; `type` is its name."""

    type: str = ""

    def build(self, seed: int) -> AdaptiveMethod:
        """The method, before its first answer."""
        raise TypeError(f"{type(self).__name__}: is not a method")


class Method:
    """Checks and counts the answers of a method; a derived class has `_next` and `_take`."""

    OUTCOMES = 2

    def __init__(self) -> None:
        self.answers: list[tuple[Level, int]] = []

    @property
    def finished(self) -> bool:
        """Whether nothing is to be presented any more."""
        raise NotImplementedError

    @property
    def level(self) -> Any:
        """The stimulus to be presented next."""
        if self.finished:
            raise ParameterError(
                [f"level: the method has finished after {len(self.answers)} answers; read its estimate"]
            )
        return self._next()

    def answer(self, level: Level, outcome: int) -> None:
        """Take the answer to a stimulus."""
        if self.finished:
            raise ParameterError(
                [f"answer {len(self.answers) + 1}: received after the method has finished; expected none"]
            )
        if isinstance(outcome, bool) or outcome not in range(self.OUTCOMES):
            raise ParameterError(
                [f"outcome = {shown(outcome)}: must be one of {', '.join(map(str, range(self.OUTCOMES)))}"]
            )
        self._check(level)
        self._take(level, int(outcome))
        self.answers.append((level, int(outcome)))

    def _check(self, level: Level) -> None:
        expected = self._next()
        if level != expected:
            raise ParameterError(
                [
                    f"level of answer {len(self.answers) + 1}: {shown(level)} received, {shown(expected)} expected; "
                    "repeat the answers in their order, to a method with the same parameters and seed"
                ]
            )

    def _next(self) -> Any:
        raise NotImplementedError

    def _take(self, level: Any, outcome: int) -> None:
        raise NotImplementedError


def replay(method: AdaptiveMethod, answers: Iterable[tuple[Level, int]]) -> AdaptiveMethod:
    """The method after the answers (level, outcome) to it were repeated in their order.

    Raises:
        ParameterError: they are not those of this method.
    """
    for level, outcome in answers:
        method.answer(level, outcome)
    return method


def mean_with_interval(values: Any) -> tuple[float | None, tuple[float, float] | None]:
    """Mean of independent estimates, and its interval of 95 % by Student's distribution; None if there are too few."""
    values = np.asarray(values, float)
    if len(values) == 0:
        return None, None
    mean = float(values.mean())
    if len(values) < 2:
        return mean, None
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))
    return mean, (mean - half, mean + half)
