"""What a study has measured, beside SciPy's tests and closed forms; tasks and their outcomes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from study_sessions import run, small

from haptic_study.analysis import Estimate, Group, Measure, estimate, groups, mean_of
from haptic_study.comparisons import comparisons
from haptic_study.design import stable
from haptic_study.observers import ObserverParameters
from haptic_study.session import Session, Trial
from haptic_study.tasks import ForcedChoiceParameters, FreeParameters

STIMULUS = {"stimulus": "contact.stiffness", "reference": 300.0, "question": "?"}
SAME = {"type": "constant_stimuli", "levels": [200.0, 300.0, 400.0], "repetitions": 40}


def group(condition: str, values: dict[str, float]) -> Group:
    return Group("t", condition, "weber", values, mean_of(values.values()), 0.0)


def test_paired_differences_are_those_of_scipy() -> None:
    random = np.random.default_rng(5)
    first = {f"{i:02d}": float(x) for i, x in enumerate(random.normal(0.1, 0.02, 12))}
    second = {code: value + float(random.normal(0.02, 0.02)) for code, value in first.items()}
    (found,) = comparisons([group("a=1", first), group("a=2", second)])
    expected = stats.ttest_rel(list(second.values()), list(first.values()))
    low, high = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue) == found.corrected
    assert (found.difference.low, found.difference.high) == pytest.approx((low, high))
    assert found.effect == pytest.approx(expected.statistic / math.sqrt(12))


def test_groups_are_compared_by_welch() -> None:
    random = np.random.default_rng(6)
    first = {f"{i}": float(x) for i, x in enumerate(random.normal(0.1, 0.02, 9))}
    second = {f"{i + 20}": float(x) for i, x in enumerate(random.normal(0.13, 0.05, 14))}
    (found,) = comparisons([group("g=1", first), group("g=2", second)])
    expected = stats.ttest_ind(list(second.values()), list(first.values()), equal_var=False)
    low, high = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue) and math.isnan(found.power)
    assert (found.difference.low, found.difference.high) == pytest.approx((low, high))


def test_conditions_that_differ_in_two_factors_are_not_compared() -> None:
    values = {"1": 0.1, "2": 0.2}
    made = [
        group(f"a={a},b={b}", {code: x * (1 + a + 3 * b) for code, x in values.items()}) for a in (0, 1) for b in (0, 1)
    ]
    pairs = [(one.first, one.second) for one in comparisons(made)]
    assert pairs == [
        ("a=0,b=0", "a=0,b=1"),
        ("a=0,b=0", "a=1,b=0"),
        ("a=0,b=1", "a=1,b=1"),
        ("a=1,b=0", "a=1,b=1"),
    ]


def of_task(task: dict[str, Any], answer: Any) -> Estimate:
    session = Session(small(tasks={"t": {"method": SAME, **STIMULUS, **task}}), "01")
    run(session, answer)
    (found,) = estimate(session)
    return found


def test_a_power_law_is_found_exactly() -> None:
    found = of_task({"type": "magnitude_estimation"}, lambda trial: 7.0 * trial.values[0] ** 0.8)
    assert found.measures["exponent"].value == pytest.approx(0.8)
    assert found.measures["exponent"].low == pytest.approx(0.8)


def test_what_was_set_is_averaged() -> None:
    task = {"type": "adjustment", "step": 10.0, "limits": [100.0, 500.0]}

    def towards(trial: Trial) -> str:
        difference = trial.values[trial.comparison] - 300.0
        return "done" if difference == 0.0 else "up" if difference < 0.0 else "down"

    assert of_task(task, towards).measures["set"].value == 300.0


def test_a_rate_of_success_has_wilsons_interval() -> None:
    task = {"type": "free", "success": {"metric": "any", "at_least": 1.0}}
    session = Session(small(tasks={"t": {"method": SAME, "question": "?", **task}}), "01")
    run(session, lambda trial: "success" if trial.number % 4 else "failure")
    (found,) = estimate(session)
    expected = stats.binomtest(90, 120).proportion_ci(method="wilson")
    measure = found.measures["success"]
    assert (measure.value, measure.low, measure.high) == pytest.approx((0.75, expected.low, expected.high))
    success = session.study.parameters.tasks["t"]
    assert isinstance(success, FreeParameters)
    assert success.success.holds({"any": 1.0}) and not success.success.holds({"any": 0.9})
    assert not success.success.holds({}) and not success.success.holds({"any": None})


@pytest.mark.parametrize("ask", ["larger", "smaller"])
def test_the_question_does_not_change_the_function(ask: str) -> None:
    """Who is asked for the softer surface gives the same point of equality, 20 N/m below the reference."""

    def answer(trial: Trial) -> str:
        felt = [value + 20.0 * (i == trial.comparison) for i, value in enumerate(trial.values)]
        felt = [x + 30.0 * float(stable.generator(trial.number, i).standard_normal()) for i, x in enumerate(felt)]
        return str(1 + int(np.argmax(felt) if ask == "larger" else np.argmin(felt)))

    found = of_task({"type": "forced_choice", "ask": ask, "method": {**SAME, "levels": [240.0, 280.0, 320.0]}}, answer)
    assert found.data is not None and found.data.kind == "comparison"
    assert found.measures["pse"].value == pytest.approx(280.0, abs=15.0)


def test_false_alarms_are_the_guess_rate() -> None:
    task = {
        "type": "yes_no",
        "catch": 0.3,
        "reference": 0.0,
        "method": {**SAME, "levels": [5.0, 50.0, 80.0, 300.0, 400.0]},
    }

    def answer(trial: Trial) -> str:
        return "yes" if trial.values[0] > 100.0 or trial.number % 5 == 0 else "no"

    found = of_task(task, answer)
    assert found.fit is not None and found.fit.guess == pytest.approx(0.2, abs=0.08)
    assert 5.0 < found.measures["threshold"].value < 300.0


@pytest.mark.parametrize(
    ("ask", "percepts", "chosen"),
    [
        ("larger", (1.0, 3.0, 2.0), "2"),
        ("smaller", (1.0, 3.0, 2.0), "1"),
        ("odd", (1.1, 1.0, 9.0), "3"),
        ("odd", (5.0, 1.0, 5.2), "2"),
    ],
)
def test_an_observer_decides_by_the_question(ask: str, percepts: tuple[float, ...], chosen: str) -> None:
    task = ForcedChoiceParameters.model_validate({**STIMULUS, "method": SAME, "alternatives": 3, "ask": ask})
    assert task.decide(percepts, ObserverParameters()) == chosen
    assert task.outcome(chosen, int(chosen) - 1) == 1.0 and task.outcome(chosen, int(chosen) % 3) == 0.0


def test_excluded_and_dropped_trials_do_not_count() -> None:
    session = Session(small(), "01")
    run(session)
    session.apply({"event": "exclude", "trial": 3, "reason": "spoke"})
    (found,) = estimate(session)
    assert found.trials == 11


def test_sessions_of_a_participant_are_averaged_first() -> None:
    def one(code: str, session: int, value: float) -> Estimate:
        return Estimate(code, session, "t", "", 1, {"weber": Measure(value)})

    (found,) = groups([one("01", 1, 0.1), one("01", 2, 0.3), one("02", 1, 0.4)])
    assert found.values == {"01": pytest.approx(0.2), "02": 0.4} and found.mean.value == pytest.approx(0.3)
