"""Results of a study: thresholds and their intervals for each participant, and means over all.

Of a task with answers of two kinds a psychometric function is fitted (`psychophysics.fitting`):

- Two-alternative forced choice with comparisons on both sides of the reference: the probability that the comparison is
  judged larger, over its value; the point of subjective equality, the just noticeable difference, the Weber fraction.
- Any other forced choice: the probability of a correct answer over the size of the difference, with the guess rate of
  the number of alternatives; the just noticeable difference is the threshold, halfway from guessing.
- Yes/no, over the value, and same/different, over the size of the difference, with a free guess rate (that of false
  alarms, catch trials being those without a difference).

Of yes/no and same/different by the method of constant stimuli, with catch trials, there are d' and the criterion, too,
as means over the levels (`psychophysics.detection`). Adaptive methods present a level too seldom for it.

Magnitude estimation gives the exponent of Stevens's power law, adjustment the mean of what was set, a free manipulation
the rate of success, the mean time of the successes where the task names the metric that is the time, and the means of
metrics. Of every task whose answers have times there is the median response time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from haptic_bench.report.variants import mean_and_interval
from haptic_bench.running import forks
from haptic_sim.parameters import ParameterError
from haptic_study.dataset import Dataset
from haptic_study.observers import ObserverParameters, probability_larger
from haptic_study.psychophysics import detection
from haptic_study.psychophysics.fitting import Fit, fit, jnd, likelihood_interval
from haptic_study.psychophysics.methods import AdaptiveMethod, ConstantStimuli
from haptic_study.session import Row, Session
from haptic_study.simulation import observer_of_session
from haptic_study.tasks import AnyTask, ForcedChoiceParameters, FreeParameters, StimulusTask, TaskParameters

Z_975 = 1.959963984540054
"""Phi^-1(0.975)."""


@dataclass(frozen=True)
class Measure:
    """A number with its 95 % interval; NaN where there is none."""

    value: float
    low: float = math.nan
    high: float = math.nan

    def holds(self, truth: float) -> bool:
        """Whether the interval holds a value."""
        return self.low <= truth <= self.high

    def times(self, factor: float) -> Measure:
        """The measure in another unit."""
        return Measure(*(factor * one for one in (self.value, self.low, self.high)))


@dataclass(frozen=True)
class Data:
    """Answers to be fitted.

    Attributes:
        levels: of the stimulus, or of the size of the difference.
        outcomes: 1 or 0 of each trial.
        kind: `comparison` (larger or smaller than the reference), `correct`, `yes`, or `different`.
    """

    levels: np.ndarray
    outcomes: np.ndarray
    kind: str

    def counts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Different levels, positive answers at each, and trials at each."""
        levels, where = np.unique(self.levels, return_inverse=True)
        return levels, np.bincount(where, self.outcomes), np.bincount(where).astype(float)


@dataclass(frozen=True)
class Estimate:
    """Measured value of one participant, in one task and one condition.

    Attributes:
        participant, session, task, condition: where.
        trials: that count.
        measures: by name; see UNITS.
        data, fit: of a psychometric function; None where there is none.
        problem: why nothing could be estimated; empty if it could.
        levels: of the trials in their order.
        factors: level of each factor of the condition.
    """

    participant: str
    session: int
    task: str
    condition: str
    trials: int
    measures: dict[str, Measure] = field(default_factory=dict)
    data: Data | None = None
    fit: Fit | None = None
    problem: str = ""
    levels: tuple[float, ...] = ()
    factors: Mapping[str, str] = field(default_factory=dict)


NAMES = {
    "pse": "Point of subjective equality",
    "jnd": "Just noticeable difference",
    "weber": "Weber fraction",
    "threshold": "Threshold",
    "lapse": "Lapse rate",
    "method": "Estimate of the method",
    "d_prime": "Sensitivity d'",
    "criterion": "Criterion",
    "exponent": "Exponent of the power law",
    "set": "Value that was set",
    "success": "Rate of success",
    "time": "Time of a success [s]",
    "response_time": "Response time [s]",
}
"""Names of measures; any other is a metric of the experiment's analysis."""
OF_STIMULUS = ("pse", "jnd", "threshold", "set")
"""Measures with the unit of the stimulus."""


def name_of(measure: str) -> str:
    """Name of a measure; a metric has its own name."""
    return NAMES.get(measure, measure)


def data_of(task: AnyTask, rows: Sequence[Row]) -> Data:
    """The answers of a task with answers of two kinds."""
    values = np.array([row.trial.values[max(row.trial.comparison, 0)] for row in rows])
    outcomes = np.array([row.outcome for row in rows], float)
    assert isinstance(task, StimulusTask)
    difference = values - task.reference
    if isinstance(task, ForcedChoiceParameters):
        if task.alternatives == 2 and (difference < 0.0).any() and (difference > 0.0).any():
            return Data(values, outcomes if task.ask == "larger" else 1.0 - outcomes, "comparison")
        return Data(np.abs(difference), outcomes, "correct")
    if task.intervals == 2:
        return Data(np.abs(difference), outcomes, "different")
    return Data(values, outcomes, "yes")


def estimate(session: Session, *, intervals: bool = True) -> list[Estimate]:
    """Estimates of a session, replayed from its journal, for each task and condition.

    Without `intervals` fits have none, which take most of the time.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in session.rows:
        if row.status == "answered" and not row.trial.practice:
            groups.setdefault((row.trial.task, row.trial.condition.label), []).append(row)
    return [_estimate(session, task, condition, rows, intervals) for (task, condition), rows in groups.items()]


def _estimate(session: Session, name: str, condition: str, rows: list[Row], intervals: bool) -> Estimate:
    task = session.study.parameters.tasks[name]
    levels = tuple(row.trial.level for row in rows)
    found = Estimate(
        session.participant,
        session.number,
        name,
        condition,
        len(rows),
        levels=levels,
        factors=dict(rows[0].trial.condition.levels),
    )
    method = session.methods[name, condition]
    found = replace(found, measures=_of_times(rows))  # known even where nothing else can be estimated
    try:
        if not (task.BINARY and isinstance(task, StimulusTask)):
            return replace(found, measures=_OF_KIND[task.type](task, rows) | found.measures)
        data = data_of(task, rows)
        detected = _of_detection(task, data) if isinstance(method, ConstantStimuli) else {}
        found = replace(found, data=data, measures=detected | found.measures)
        fitted = fit_of(task, data)
        measures = _of_fit(task, data, fitted, intervals) | _of_method(method) | found.measures
        return replace(found, measures=measures, fit=fitted)
    except ParameterError as error:
        return replace(found, problem="; ".join(error.problems))


def fit_of(task: TaskParameters, data: Data) -> Fit:
    """The psychometric function of answers.

    The lapse rate is fixed by default: a few trials do not determine it, and where it is free, fits take lapses for
    what a shallow function explains, too (Prins 2012; docs/studies.md has the biases). psignifit has a prior of the
    lapse rate for the same reason, Beta(1, 10) (Schuett et al. 2016).

    Raises:
        ParameterError: they do not determine one.
    """
    lapses = task.lapses
    if isinstance(lapses, tuple):
        guess: float | tuple[float, float] = lapses
        lapse: float | tuple[float, float] = lapses
    else:  # of random answers a part is positive: 1/m of m alternatives, half of yes and no
        guess = lapses / 2.0
        lapse = lapses * (1.0 - (task.guess if data.kind == "correct" else 0.5))
    if data.kind == "correct":
        guess = task.guess
    elif data.kind != "comparison":
        guess = (0.0, 0.5)
    return fit(*data.counts(), function=task.function, guess=guess, lapse=lapse)


def _of_fit(task: StimulusTask, data: Data, fitted: Fit, intervals: bool) -> dict[str, Measure]:
    def of(name: str) -> Measure:
        return Measure(getattr(fitted, name), *(likelihood_interval(fitted, name) if intervals else ()))

    threshold = of("threshold")
    found = {}
    if data.kind == "comparison":
        difference = Measure(jnd(fitted))
        if not fitted.function.logarithmic:  # then the distance from F = 1/4 to F = 3/4 is in proportion to the spread
            difference = of("spread").times(difference.value / fitted.spread)
        found = {"pse": threshold, "jnd": difference}
    elif data.kind == "correct":
        found = {"jnd": threshold}
    else:
        found = {"threshold": threshold}
    if "jnd" in found and task.reference > 0.0:
        found["weber"] = found["jnd"].times(1.0 / task.reference)
    if fitted.low[3] < fitted.high[3]:
        found["lapse"] = of("lapse")
    return found


def _of_detection(task: StimulusTask, data: Data) -> dict[str, Measure]:
    """d' and criterion, as means over the levels, with the false alarms of the trials without a difference.

    Same/different by differencing, which needs no knowledge of the stimuli, and which the simulated observer does.
    Nothing where there are no such trials, or where the levels are on both sides of the reference.
    """
    if data.kind not in ("yes", "different"):
        return {}
    levels, positive, total = data.counts()
    difference = levels - (task.reference if data.kind == "yes" else 0.0)
    same = difference == 0.0
    signals = difference[~same]
    if not same.any() or not len(signals) or signals.min() < 0.0 < signals.max():
        return {}
    noise = (int(positive[same][0]), int(total[same][0]))
    pairs = zip(positive[~same], total[~same], strict=True)
    counts = [detection.Counts(int(hits), int(of), *noise) for hits, of in pairs]
    if data.kind == "yes":
        found = detection.yes_no_levels(counts)
        half = Z_975 * found.error
        sensitivity = Measure(found.d_prime, found.d_prime - half, found.d_prime + half)
    else:
        by_level = [detection.same_different(one, "differencing") for one in counts]
        found = by_level[0]  # the criterion follows from the false alarms, which all levels have in common
        sensitivity = Measure(float(np.mean([one.d_prime for one in by_level])))
    return {"d_prime": sensitivity, "criterion": Measure(found.criterion)}


def _of_method(method: AdaptiveMethod) -> dict[str, Measure]:
    """Estimate of an adaptive method itself, in the unit of its levels."""
    if isinstance(method, ConstantStimuli):
        return {}
    found = method.estimate
    if found["threshold"] is None:
        return {}
    return {"method": Measure(found["threshold"], *(found["interval"] or ()))}


def _exponent(task: StimulusTask, rows: Sequence[Row]) -> dict[str, Measure]:
    """Slope of ln(answer) over ln(value), by least squares, with the interval of a linear regression."""
    pairs = [(row.trial.values[0], float(row.outcome or 0.0)) for row in rows]
    if any(value <= 0.0 for value, _ in pairs) or len({value for value, _ in pairs}) < 2 or len(pairs) < 3:
        raise ParameterError(["magnitude estimation: needs three answers to two values above 0 at least"])
    x, y = np.log(np.array(pairs)).T
    centred = x - x.mean()
    moment = float(centred @ centred)
    slope = float(centred @ y) / moment
    residual = y - y.mean() - slope * centred
    from scipy.special import stdtrit  # takes a while to import

    half = float(stdtrit(len(x) - 2, 0.975)) * math.sqrt(float(residual @ residual) / (len(x) - 2) / moment)
    return {"exponent": Measure(slope, slope - half, slope + half)}


def _set(task: StimulusTask, rows: Sequence[Row]) -> dict[str, Measure]:
    return {"set": mean_of([float(row.outcome or 0.0) for row in rows])}


def _free(task: FreeParameters, rows: Sequence[Row]) -> dict[str, Measure]:
    """Rate of success, mean time of the successes, and means of metrics."""
    found = {}
    if task.success is not None:
        rate = sum(float(row.outcome or 0.0) for row in rows) / len(rows)
        found["success"] = wilson(rate, len(rows))
        times = _metric([row for row in rows if row.outcome], task.time)
        found |= {"time": mean_of(times)} if times else {}
    for name in task.metrics:
        values = _metric(rows, name)
        found |= {name: mean_of(values)} if values else {}
    return found


def _metric(rows: Sequence[Row], name: str) -> list[float]:
    """Values of a metric, of the trials that have one."""
    values = [row.event.get("metrics", {}).get(name) for row in rows]
    return [float(one) for one in values if isinstance(one, int | float) and math.isfinite(one)]


def wilson(rate: float, count: float, quantile: float = Z_975) -> Measure:
    """A rate among `count` independent trials with the interval of Wilson (1927), which is within 0 and 1."""
    n, z = count, quantile
    middle, half = rate + z * z / (2 * n), z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    scale = 1.0 + z * z / n
    return Measure(rate, (middle - half) / scale, (middle + half) / scale)


def _of_times(rows: Sequence[Row]) -> dict[str, Measure]:
    """Median of the response times.

    The interval is from the k-th least to the k-th greatest, with the largest k for which the probability that the
    median is outside, 2 P(fewer than k of n are below it), is 5 % at most, whatever the distribution (Conover 1999).
    """
    times = np.sort([float(row.event["response_time"]) for row in rows if row.event.get("response_time") is not None])
    if not len(times):
        return {}
    from scipy.special import bdtr  # takes a while to import

    n = len(times)
    k = sum(1 for i in range(n // 2) if 2.0 * float(bdtr(i, n, 0.5)) <= 0.05)
    ends = (float(times[k - 1]), float(times[n - k])) if k else ()
    return {"response_time": Measure(float(np.median(times)), *ends)}


_OF_KIND: dict[str, Callable[..., dict[str, Measure]]] = {
    "magnitude_estimation": _exponent,
    "adjustment": _set,
    "free": _free,
}


def mean_of(values: Iterable[float]) -> Measure:
    """Mean of independent values and its interval by Student's t distribution."""
    mean, half = mean_and_interval(np.array(list(values)))
    return Measure(mean) if half is None else Measure(mean, mean - half, mean + half)


@dataclass(frozen=True)
class Group:
    """A measure over all participants, in one task and one condition.

    Attributes:
        task, condition, name: of what.
        values: of each participant, by code; of several sessions the mean.
        mean: with its interval.
        deviation: standard deviation among participants.
        factors: level of each factor of the condition.
    """

    task: str
    condition: str
    name: str
    values: dict[str, float]
    mean: Measure
    deviation: float
    factors: Mapping[str, str]


def groups(estimates: Sequence[Estimate], conditions: Sequence[str] = ()) -> list[Group]:
    """Each measure over all participants.

    Args:
        estimates: of all sessions.
        conditions: labels in the order of the study, which participants need not have; groups of a measure are in it.
    """
    found: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    factors = {one.condition: one.factors for one in estimates}
    for one in estimates:
        for name, measure in one.measures.items():
            if math.isfinite(measure.value):
                people = found.setdefault((one.task, one.condition, name), {})
                people.setdefault(one.participant, []).append(measure.value)
    result = []
    trials = {(one.task, one.condition, one.participant): 0 for one in estimates}
    for one in estimates:
        trials[one.task, one.condition, one.participant] += one.trials
    for key, people in found.items():
        values = {code: float(np.mean(some)) for code, some in people.items()}
        numbers = np.array(list(values.values()))
        deviation = float(numbers.std(ddof=1)) if len(numbers) > 1 else math.nan
        mean = mean_of(numbers)
        if key[2] == "success":
            mean = mean_of_rates(numbers, sum(trials[key[0], key[1], code] for code in values))
        result.append(Group(*key, values, mean, deviation, factors[key[1]]))
    place = {label: i for i, label in enumerate(conditions)}
    questions = list(dict.fromkeys((one.task, one.name) for one in result))
    return sorted(result, key=lambda one: (questions.index((one.task, one.name)), place.get(one.condition, 0)))


def mean_of_rates(rates: np.ndarray, trials: int) -> Measure:
    """Mean of the rates of participants; its interval is that of Wilson (1927) with an effective number of trials.

    That is the number of independent trials whose rate would have the variance that the mean has by the differences
    among participants, p (1 - p) / (s^2 / n); the quantile is that of Student's t distribution with n - 1 degrees of
    freedom (Korn and Graubard 1998 do so with another interval of a proportion; Franco et al. 2019 compare them).
    Unlike the t interval of the mean it is within 0 and 1. Where all rates are equal, and of a single participant,
    trials are taken for independent.

    Args:
        rates: of participants.
        trials: of all together.
    """
    n, p = len(rates), float(rates.mean())
    variance = float(rates.var(ddof=1)) / n if n > 1 else 0.0
    if variance == 0.0:
        return wilson(p, trials)
    from scipy.special import stdtrit  # takes a while to import

    return wilson(p, p * (1.0 - p) / variance, float(stdtrit(n - 1, 0.975)))


@dataclass(frozen=True)
class Recovery:
    """Comparison of the estimates of simulated observers with the true values.

    Attributes:
        task, condition, name: of what.
        truth: mean of the true values.
        mean: of the estimates, with its interval.
        held: estimates whose interval holds the true value of its observer.
        count: estimates.
        deviation: root mean square of the errors.
    """

    task: str
    condition: str
    name: str
    truth: float
    mean: Measure
    held: int
    count: int
    deviation: float


def true_jnd(observer: ObserverParameters, reference: float) -> float:
    """Half of the distance between the values that an observer without lapses judges larger in 25 and 75 % of trials.

    It assumes that the percept is the stimulus: that the device renders it as it is.
    """
    return 0.5 * (_true_value(observer, reference, 0.75) - _true_value(observer, reference, 0.25))


def true_threshold(observer: ObserverParameters, reference: float) -> float:
    """Difference from the reference at which an observer without lapses answers "larger" in 75 % of trials."""
    return _true_value(observer, reference, 0.75) - reference


def _true_value(observer: ObserverParameters, reference: float, p: float) -> float:
    """The value that an observer without lapses judges larger than a reference with a probability."""
    from scipy.optimize import brentq  # takes a while to import

    sure = observer.model_copy(update={"lapse": 0.0})
    if sure.sigma(reference) == 0.0:
        return reference
    scale = 20.0 * sure.sigma(reference)
    low = max(reference - scale, 1e-9 * reference) if reference > 0.0 else reference - scale
    return float(brentq(lambda value: probability_larger(sure, value, reference) - p, low, reference + 3.0 * scale))


def recoveries(dataset: Dataset, estimates: Sequence[Estimate]) -> list[Recovery]:
    """Accuracy of the recovered just noticeable differences and Weber fractions of simulated observers."""
    truths: dict[tuple[str, int], ObserverParameters] = {}
    for participant, number in dataset.sessions():
        by = dataset.answerer(participant, number)
        if by.get("kind") == "simulated":
            parameters = ObserverParameters.model_validate(by["observer"])
            one = observer_of_session(parameters, by["seed"], dataset.study.name, participant, number)
            truths[participant, number] = one.parameters
    found: dict[tuple[str, str, str], list[tuple[Measure, float]]] = {}
    for estimated in estimates:
        task = dataset.study.parameters.tasks[estimated.task]
        observer = truths.get((estimated.participant, estimated.session))
        if observer is None or estimated.data is None or not isinstance(task, ForcedChoiceParameters):
            continue
        observer = observer.within(estimated.factors)
        truths_of = {}
        if estimated.data.kind == "comparison":
            truths_of = {"pse": task.reference, "jnd": true_jnd(observer, task.reference)}
        elif task.alternatives == 2 and task.ask == "larger":
            truths_of = {"jnd": true_threshold(observer, task.reference)}
            if task.level != "ratio":
                truths_of["method"] = truths_of["jnd"] + (task.reference if task.level == "value" else 0.0)
        if "jnd" in truths_of and task.reference > 0.0:
            truths_of["weber"] = truths_of["jnd"] / task.reference
        for name, value in truths_of.items():
            if name in estimated.measures:
                key = (estimated.task, estimated.condition, name)
                found.setdefault(key, []).append((estimated.measures[name], value))
    result = []
    for key, pairs in found.items():
        errors = np.array([measure.value - truth for measure, truth in pairs])
        result.append(
            Recovery(
                *key,
                truth=float(np.mean([truth for _, truth in pairs])),
                mean=mean_of(measure.value for measure, _ in pairs),
                held=sum(measure.holds(truth) for measure, truth in pairs),
                count=len(pairs),
                deviation=float(np.sqrt(np.mean(errors * errors))),
            )
        )
    return result


def power_of_t(effect: float, count: int, alpha: float = 0.05) -> float:
    """Power of a two-sided t test of paired differences (Cohen 1988).

    Args:
        effect: mean of the differences, in their standard deviations.
        count: of the differences.
        alpha: level of the test.
    """
    return _power(effect * math.sqrt(count), count - 1, alpha)


def power_of_groups(effect: float, first: int, second: int, alpha: float = 0.05) -> float:
    """Power of a two-sided t test of two independent groups with the same standard deviation (Cohen 1988).

    Args:
        effect: difference of the means, in the standard deviation of a group.
        first, second: number of values in each group.
        alpha: level of the test.
    """
    # the difference of the means has the variance sigma^2 (1 / n_1 + 1 / n_2)
    return _power(effect * math.sqrt(first * second / (first + second)), first + second - 2, alpha)


def _power(shift: float, degrees: int, alpha: float) -> float:
    """P(|T| > t_(1 - alpha/2)), with T noncentral t of a noncentrality `shift`; NaN without degrees of freedom."""
    from scipy.special import nctdtr, stdtrit  # take a while to import

    if degrees < 1:
        return math.nan
    limit, shift = stdtrit(degrees, 1.0 - 0.5 * alpha), abs(shift)
    within, opposite = np.nan_to_num(nctdtr(degrees, shift, [limit, -limit]))  # SciPy has no value for some below 1e-16
    return float(1.0 - within + opposite)


def detectable_effect(count: int, power: float = 0.8) -> float:
    """The smallest effect, in standard deviations of the differences, that `power_of_t` finds with a power."""
    from scipy.optimize import brentq  # takes a while to import

    if count < 3:
        return math.nan
    high = 0.1
    while power_of_t(high, count) < power:
        high *= 1.2
    return float(brentq(lambda effect: power_of_t(effect, count) - power, 0.0, high))


def estimates_of(dataset: Dataset) -> list[Estimate]:
    """Estimates of all sessions of a study; sessions are shared out among the cores."""
    found = forks.on_cores(lambda pair: estimate(dataset.replayed(*pair)[0]), dataset.sessions())
    return [one for some in found for one in some]
