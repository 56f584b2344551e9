"""Simulated observers: how they explore, what they feel of a trial's samples, and what they answer.

An observer presses with an arm (`MotorParameters`), whose path differs from interval to interval. What it feels, its
percept s, is computed from what the device rendered (`PERCEPTS`), with noise that follows Weber's law:

    s' = s + sigma(s) n,    sigma(s)^2 = (w s / (z sqrt 2))^2 + noise^2,    n ~ N(0, 1),    z = Phi^-1(0.75) = 0.674

so that in a comparison of a with b, of which the larger is chosen, the difference has the variance
sigma(a)^2 + sigma(b)^2, and a is chosen with the probability

    P = Phi((a - b) / sqrt(sigma(a)^2 + sigma(b)^2))                             (Thurstone 1927, case III)

For b = (1 + w) a that is close to 75 %: w is the Weber fraction as `psychophysics.fitting.weber_fraction` has it. With
probability `lapse` the answer is drawn from all possible ones instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import ValidationError, model_validator
from scipy.special import ndtr

from haptic_bench.recording.samples import Samples
from haptic_sim import inputs
from haptic_sim.parameters import ParameterError, Parameters, did_you_mean, explain, quantity
from haptic_study.tasks import TaskParameters

Z_75 = 0.6744897501960817
"""Phi^-1(0.75)."""
LEAST_FORCE = 0.02
"""Part of the largest force below which a sample is not of a contact."""
LONGEST_LAG = 0.5
"""Longest lag of the force behind the hand that is felt as one [s]."""
STROKE, PRESSED = 0.3, 0.97
"""Parts of the greatest speed and of the largest force above which a sample is of a stroke."""


CHANGING = ("weber", "noise", "lapse", "force_noise", "criterion", "exponent")
"""Keys of an observer that may differ among conditions."""


class MotorParameters(Parameters):
    """Exploration of a simulated observer: its hand goes along a displacement and back, again and again."""

    displacement: tuple[float, float, float] = quantity(
        (0.0, 0.0, -0.02), unit="m", description="Displacement of the aim of the observer's hand, x, y, z"
    )
    along: tuple[float, float, float] = quantity(
        (0.0, 0.0, 0.0),
        unit="m",
        description="Displacement that follows, with the first one held, as a stroke along a surface",
    )
    time: float = quantity(0.4, unit="s", description="Time of each displacement, and of its return", gt=0.0, le=60.0)
    variation: float = quantity(
        0.1,
        description="Standard deviation of displacement and time among intervals, as part of them",
        ge=0.0,
        le=0.5,
    )
    stiffness: float = quantity(400.0, unit="N/m", description="Stiffness of the observer's arm", gt=0.0, le=1e5)
    damping: float = quantity(10.0, unit="N s/m", description="Damping of the observer's arm", ge=0.0, le=1e4)

    def settings(self, random: np.random.Generator) -> dict[str, Any]:
        """The operator of an interval, as settings of the experiment; the whole motion differs from time to time."""
        size, slowness = np.clip(1.0 + self.variation * random.standard_normal(2), 0.3, 1.7)
        first = [size * one for one in self.displacement]
        both = [one + size * more for one, more in zip(first, self.along, strict=True)]
        places = [[0.0] * 3, first, *([both] if any(self.along) else []), [0.0] * 3]
        path = [[round(i * slowness * self.time, 9), *place] for i, place in enumerate(places)]
        return {
            "operator.type": "arm",
            "operator.path": path,
            "operator.stiffness": self.stiffness,
            "operator.damping": self.damping,
        }


class ResponseParameters(Parameters):
    """Response time of a simulated observer.

    The time is exponentially modified normal (ex-Gaussian, Luce 1986): a normal part, for all that is no decision, and
    an exponential part with the mean time of a decision of a drift-diffusion model (Palmer, Huk and Shadlen 2005),

        T = residual + deviation n + e,    n ~ N(0, 1),    e ~ Exp(mean decision tanh(d) / d),

    where d is how far what is decided on is from the other answer, in its standard deviation (`TaskParameters.margin`):
    answers that were close take longest.
    """

    residual: float = quantity(
        0.4, unit="s", description="Mean of the part of the time that does not depend on the stimulus", ge=0.0, le=60.0
    )
    deviation: float = quantity(0.05, unit="s", description="Standard deviation of that part", ge=0.0, le=10.0)
    decision: float = quantity(
        0.6, unit="s", description="Mean time of a decision between equal percepts", ge=0.0, le=60.0
    )

    def time(self, margin: float, random: np.random.Generator) -> float:
        """A response time [s], to a decision of a margin."""
        mean = self.decision * (math.tanh(margin) / margin if margin > 0.0 else 1.0)
        normal = self.residual + self.deviation * float(random.standard_normal())
        return max(normal, 0.0) + mean * float(random.standard_exponential())


class ObserverParameters(Parameters):
    """A simulated observer."""

    percept: str = quantity("stiffness", description="Percept: stiffness, force, friction, delay, or metric:NAME")
    weber: float = quantity(
        0.1,
        description="Weber fraction: difference that is felt in 75 % of comparisons, over the stimulus",
        ge=0.0,
        le=2.0,
    )
    noise: float = quantity(
        0.0, description="Standard deviation of the percept that does not grow with the stimulus, in its unit", ge=0.0
    )
    lapse: float = quantity(
        0.0, description="Probability of an answer that does not depend on the stimulus", ge=0.0, le=1.0
    )
    force_noise: float = quantity(
        0.0, unit="N", description="Standard deviation of the force that is felt in each tick", ge=0.0, le=100.0
    )
    criterion: float = quantity(
        1.0, description="Least difference that is answered by yes or different, in standard deviations of the percept"
    )
    exponent: float = quantity(
        1.0, description="Exponent of Stevens's power law, of magnitude estimation", gt=0.0, le=5.0
    )
    between: float = quantity(
        0.0, description="Standard deviation of the logarithm of the Weber fraction among observers", ge=0.0, le=2.0
    )
    motor: MotorParameters | None = quantity(
        None, description="Exploration by the observer; null: as the operator of the experiment"
    )
    response: ResponseParameters = quantity(ResponseParameters(), description="Response time of the observer")
    conditions: dict[str, dict[str, float]] = quantity(
        {}, description="Keys of the observer that differ at a level of a factor, by FACTOR=LEVEL"
    )

    @model_validator(mode="after")
    def _differs_in_numbers(self) -> ObserverParameters:
        for label, changes in self.conditions.items():
            for key, value in changes.items():
                if key not in CHANGING:
                    raise ValueError(f"conditions.{label}.{key}: must be one of {', '.join(CHANGING)}")
                try:
                    ObserverParameters.model_validate({key: value})
                except ValidationError as error:
                    (line, *_) = explain(error, ObserverParameters)
                    raise ValueError(f"conditions.{label}.{line}") from error
        return self

    def within(self, levels: Mapping[str, str]) -> ObserverParameters:
        """The observer in a condition, of levels by factor."""
        changes: dict[str, float] = {}
        for name, level in levels.items():
            changes |= self.conditions.get(f"{name}={level}", {})
        return self.model_copy(update=changes) if changes else self

    def sigma(self, percept: float) -> float:
        """Standard deviation of a percept."""
        return math.hypot(self.weber * abs(percept) / (Z_75 * math.sqrt(2.0)), self.noise)

    def of_person(self, random: np.random.Generator) -> ObserverParameters:
        """The observer with a Weber fraction of its own."""
        factor = math.exp(self.between * random.standard_normal())
        conditions = {
            label: {key: min(value * factor, 2.0) if key == "weber" else value for key, value in changes.items()}
            for label, changes in self.conditions.items()
        }
        return self.model_copy(update={"weber": min(self.weber * factor, 2.0), "conditions": conditions})


def probability_larger(observer: ObserverParameters, value: float, reference: float) -> float:
    """Probability that an observer chooses a value as larger than a reference, in a two-alternative forced choice."""
    spread = math.hypot(observer.sigma(value), observer.sigma(reference))
    sensed = float(ndtr((value - reference) / spread)) if spread else 0.5 + 0.5 * float(np.sign(value - reference))
    return (1.0 - observer.lapse) * sensed + observer.lapse / 2.0


def observer_of(text: str, base: ObserverParameters) -> ObserverParameters:
    """An observer with some keys changed, as in `weber=0.08,lapse=0.02`.

    Raises:
        ParameterError: a key is unknown, or its value refused.
    """
    found: dict[str, Any] = base.model_dump()
    for pair in text.split(",") if text else []:
        key, equals, value = pair.partition("=")
        simple = ("percept", "between", *CHANGING)
        if not equals or key not in simple:
            hint = did_you_mean(key, simple)
            raise ParameterError([f"--observer {inputs.shown(pair)}: must be KEY=VALUE{hint}"])
        found[key] = value
    try:
        return ObserverParameters.model_validate(found)
    except ValidationError as error:
        raise ParameterError(f"--observer {line}" for line in explain(error, ObserverParameters)) from error


# What is felt


def _held(samples: Samples) -> str:
    """Body that the observer holds: the hand of a device, or the tool itself."""
    return "hand" if "hand_px" in samples.names else "tool"


def _contact(samples: Samples, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rendered forces (n, 3) [N] with noise, positions of the hand (n, 3) [m], and its velocities, in contact.

    The last are the samples that are in contact (rows,).
    """
    force = samples.wrench("rendered" if "rendered_fx" in samples.names else "env")[:, :3]
    size = np.linalg.norm(force, axis=1)
    touching = size > max(LEAST_FORCE * size.max(initial=0.0), 1e-9)
    who = _held(samples)
    return (force + noise)[touching], samples.pose(who)[touching, :3], samples.twist(who)[touching, :3], touching


def stiffness(samples: Samples, noise: np.ndarray) -> float:
    """Slope of the rendered force over the depth of the hand [N/m], both along the mean force, by least squares.

    0 without a contact.
    """
    force, position, *_ = _contact(samples, noise)
    if len(force) < 3:
        return 0.0
    normal = force.mean(axis=0)
    normal /= np.linalg.norm(normal)
    depth = -(position @ normal)
    depth -= depth.mean()
    moment = float(depth @ depth)
    return float(depth @ (force @ normal)) / moment if moment > 0.0 else 0.0


def largest_force(samples: Samples, noise: np.ndarray) -> float:
    """Largest rendered force [N]; 0 without a contact."""
    force = _contact(samples, noise)[0]
    return float(np.linalg.norm(force, axis=1).max(initial=0.0))


def friction(samples: Samples, noise: np.ndarray) -> float:
    """Rendered force against the motion over the force normal to it, as means over the stroke: a coefficient.

    The stroke is where the hand moves while it presses hardest: while the pressing begins and ends, the hand moves
    along the normal, too. 0 without one.
    """
    force, _, velocity, _ = _contact(samples, noise)
    speed, size = np.linalg.norm(velocity, axis=1), np.linalg.norm(force, axis=1)
    stroke = (speed > STROKE * speed.max(initial=0.0)) & (size > PRESSED * size.max(initial=0.0))
    if not stroke.any():
        return 0.0
    force, direction = force[stroke], velocity[stroke] / speed[stroke, None]
    along = np.einsum("ij,ij->i", force, direction)
    normal = np.linalg.norm(force - along[:, None] * direction, axis=1)
    return float(-along.sum() / normal.sum()) if normal.sum() > 0.0 else 0.0


def delay(samples: Samples, noise: np.ndarray) -> float:
    """Half of the time by which the rendered force lags behind the hand [s]: the delay each way of a link between them.

    The lag is where Pearson's correlation of the force in contact with the earlier positions of the hand, both along
    the mean force, is largest. Of a linear spring behind a link, f(t) = k (x(t - lag) - x_0), it is 1 there, however
    the hand moves and wherever the surface is. Between two samples it is that of the parabola through three
    correlations. Lags longer than `LONGEST_LAG` are not found; a lead is felt as no lag; 0 without a contact.
    """
    force, _, _, touching = _contact(samples, noise)
    if len(force) < 3:
        return 0.0
    normal = force.mean(axis=0)
    normal /= np.linalg.norm(normal)
    period = float(samples["time"][1] - samples["time"][0])
    lags = np.arange(min(round(LONGEST_LAG / period), len(samples) - 1) + 1)
    # before the first sample the hand was at rest, where it begins
    earlier = np.maximum(np.flatnonzero(touching)[:, None] - lags, 0)
    moved = -(samples.pose(_held(samples))[:, :3] @ normal)[earlier]
    moved -= moved.mean(axis=0)
    push = force @ normal - float((force @ normal).mean())
    size = np.linalg.norm(moved, axis=0)
    correlation = np.divide(push @ moved, size, out=np.full(len(lags), -np.inf), where=size > 0.0)
    best = int(np.argmax(correlation))
    if not 0 < best < len(lags) - 1:
        return 0.5 * period * best
    before, at, after = correlation[best - 1 : best + 2]
    curvature = before - 2.0 * at + after
    between = 0.5 * (before - after) / curvature if -np.inf < curvature < 0.0 else 0.0
    return 0.5 * period * (best + between)


PERCEPTS: dict[str, Callable[[Samples, np.ndarray], float]] = {
    "stiffness": stiffness,
    "force": largest_force,
    "friction": friction,
    "delay": delay,
}
"""Percepts of samples, with the noise (n, 3) [N] of the forces of each tick."""


def check_percept(percept: str) -> None:
    """Refuse an unknown percept.

    Raises:
        ParameterError: it is unknown.
    """
    if not percept.startswith("metric:") and percept not in PERCEPTS:
        hint = did_you_mean(percept, [*PERCEPTS, "metric:NAME"])
        raise ParameterError([f"observer.percept = {inputs.shown(percept)}: unknown{hint}"])


class Observer:
    """A simulated observer of one session.

    Args:
        parameters: of this observer.
        random: numbers for a label, the same whenever it is asked: the trial and what is drawn.
    """

    def __init__(self, parameters: ObserverParameters, random: Callable[..., np.random.Generator]):
        check_percept(parameters.percept)
        self.parameters, self._random = parameters, random

    def motion(self, *labels: Any) -> dict[str, Any]:
        """Settings of the experiment for how the observer explores in an interval."""
        motor = self.parameters.motor
        return {} if motor is None else motor.settings(self._random("motor", *labels))

    def feel(
        self, samples: Samples, metrics: Mapping[str, Any], *labels: Any, levels: Mapping[str, str] | None = None
    ) -> float:
        """The percept of an interval, with its noise, in a condition of levels by factor."""
        parameters, random = self.parameters.within(levels or {}), self._random("percept", *labels)
        if parameters.percept.startswith("metric:"):
            value = metrics.get(parameters.percept.removeprefix("metric:"))
            felt = float(value) if isinstance(value, int | float) else 0.0
        else:
            noise = parameters.force_noise * random.standard_normal((len(samples), 3))
            felt = PERCEPTS[parameters.percept](samples, noise)
        return felt + parameters.sigma(felt) * float(random.standard_normal())

    def sense(self, value: float, *labels: Any, levels: Mapping[str, str] | None = None) -> float:
        """The percept of a stimulus that is felt as it is, with its noise: without device and exploration."""
        parameters, random = self.parameters.within(levels or {}), self._random("percept", *labels)
        return value + parameters.sigma(value) * float(random.standard_normal())

    def answer(
        self, task: TaskParameters, percepts: Sequence[float], *labels: Any, levels: Mapping[str, str] | None = None
    ) -> Any:
        """The answer to the percepts of a trial's intervals."""
        parameters, random = self.parameters.within(levels or {}), self._random("answer", *labels)
        lapses = random.random() < parameters.lapse
        if lapses and task.answers:
            return task.answers[int(random.integers(len(task.answers)))]
        return task.decide(percepts, parameters)

    def response_time(
        self, task: TaskParameters, percepts: Sequence[float], *labels: Any, levels: Mapping[str, str] | None = None
    ) -> float:
        """Time from the end of the last interval to the answer [s]."""
        margin = task.margin(percepts, self.parameters.within(levels or {}))
        return self.parameters.response.time(margin, self._random("response", *labels))
