"""Analysis of a study, beside SciPy's tests and closed forms; tasks and their outcomes."""

from __future__ import annotations

import json
import math
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psychometric_oracles as oracles
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri
from study_sessions import event_of, run, small

from haptic_sim.parameters import ParameterError
from haptic_study import page
from haptic_study.analysis import (
    Estimate,
    Group,
    Measure,
    _of_times,
    estimate,
    groups,
    mean_of,
    mean_of_rates,
    power_of_groups,
)
from haptic_study.comparisons import comparisons, variances
from haptic_study.dataset import Dataset
from haptic_study.design import stable
from haptic_study.mixed_models import NoStatsmodels, mixed_model
from haptic_study.observers import ObserverParameters
from haptic_study.psychophysics.effects import holm
from haptic_study.session import Session, Trial
from haptic_study.tasks import ForcedChoiceParameters, FreeParameters

STIMULUS = {"stimulus": "contact.stiffness", "reference": 300.0, "question": "?"}
RECORDED = json.loads(oracles.RECORDED.read_text(encoding="utf-8"))["statsmodels"]
SAME = {"type": "constant_stimuli", "levels": [200.0, 300.0, 400.0], "repetitions": 40}


def group(condition: str, values: dict[str, float]) -> Group:
    factors = dict(pair.split("=") for pair in condition.split(","))
    return Group("t", condition, "weber", values, mean_of(values.values()), 0.0, factors)


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
    assert found.p == pytest.approx(expected.pvalue)
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


@pytest.mark.parametrize(("d", "first", "second"), [(0.5, 64, 64), (0.8, 12, 30)])
def test_power_of_groups_is_that_of_simulated_studies(d: float, first: int, second: int) -> None:
    """Within four standard errors of 20000 studies; 0.80 for d = 0.5 and 64 in each (Cohen 1988, table 2.3.5)."""
    random, studies = np.random.default_rng(8), 20_000
    a, b = random.normal(0.0, 1.0, (studies, first)), random.normal(d, 1.0, (studies, second))
    found = float(np.mean(stats.ttest_ind(a, b, axis=1).pvalue < 0.05))
    expected = power_of_groups(d, first, second)
    assert found == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / studies))
    assert power_of_groups(0.0, first, second) == pytest.approx(0.05) and math.isnan(power_of_groups(d, 1, 1))
    assert power_of_groups(0.5, 64, 64) == pytest.approx(0.801, abs=1e-3)


def recorded_groups(between: str = "") -> list[Group]:
    """The values that statsmodels was given: of participants in conditions of two factors a and b."""
    values = np.array(RECORDED["values"])
    return [
        group(f"a={a},b={b}{between}", {f"{i}{between}": float(values[i, a, b]) for i in range(len(values))})
        for a in range(values.shape[1])
        for b in range(values.shape[2])
    ]


def test_the_analysis_of_variance_is_that_of_statsmodels() -> None:
    made = recorded_groups()
    made[1].values["incomplete"] = 100.0  # who has no other condition
    (found,) = variances(made)
    assert found.count == len(RECORDED["values"])
    for one in found.effects:
        F, effect, error, p = RECORDED["effects"][one.name]
        assert (one.F, one.effect, one.error, one.p_value) == pytest.approx((F, effect, error, p), rel=1e-9)


def test_groups_and_conditions_are_analysed_together() -> None:
    """Two groups with the same values: those of the groups and interactions with them have F = 0."""
    made = recorded_groups(",g=1") + recorded_groups(",g=2")
    (found,) = variances(made, between=("g",))
    F = {one.name: one.F for one in found.effects}
    assert set(F) == {"g", "a", "a:g", "b", "b:g", "a:b", "a:b:g"} and found.count == 2 * len(RECORDED["values"])
    assert all(F[name] == pytest.approx(0.0, abs=1e-9) for name in F if "g" in name)
    assert F["a"] > RECORDED["effects"]["a"][0]  # more participants say so
    two = [group("a=1", {"1": 1.0, "2": 2.0, "3": 4.0}), group("a=2", {"1": 2.0, "2": 2.5, "3": 9.0})]
    assert variances(two) == [] and len(comparisons(two)) == 1
    three = [group(f"g={k}", {f"{k}{i}": k * i + 1.0 / (i + k) for i in range(1, 4)}) for k in range(3)]
    (alone,) = variances(three, between=("g",))
    expected = stats.f_oneway(*(list(one.values.values()) for one in three))
    assert pytest.approx(expected.statistic) == alone.effects[0].F
    assert alone.effects[0].p_value == pytest.approx(expected.pvalue)


def test_a_question_is_a_family_of_its_own() -> None:
    """Three conditions: three tests of the difference, corrected together; its Weber fraction is not tested again."""
    rng = np.random.default_rng(4)
    made = [group(f"a={k}", {f"{i}": float(x) for i, x in enumerate(rng.normal(0.02 * k, 0.03, 10))}) for k in range(3)]
    others = [replace(one, name="jnd") for one in made] + [replace(one, name="pse") for one in made]
    alone, all_ = comparisons(others[:3]), comparisons(made + others)
    assert [one.name for one in all_] == ["jnd"] * 3 + ["pse"] * 3
    assert all_[:3] == alone and [one.corrected for one in all_[3:]] == [one.corrected for one in alone]
    assert [one.corrected for one in alone] == pytest.approx(holm([one.p for one in alone]))
    assert len(comparisons(made)) == 3  # the Weber fraction alone is a question


def test_declared_comparisons_alone_are_tested() -> None:
    levels = [0.1, 0.2, 0.4]
    factors = {"mass": {"key": "device.mass", "levels": levels}}
    asked = {"measure": "weber", "conditions": ["mass=0.1", "mass=0.4"]}
    declared = small(factors=factors, comparisons={"heavy": asked}).parameters.declared
    rng = np.random.default_rng(4)
    made = [
        replace(
            group(f"mass={k}", {f"{i}": float(x) for i, x in enumerate(rng.normal(k, 0.3, 10))}), task="discrimination"
        )
        for k in levels
    ]
    (found,) = comparisons(made, declared)
    assert (found.first, found.second) == ("mass=0.1", "mass=0.4") and found.corrected == found.p
    for change, said in (
        ({"measure": "jnt"}, "must be one of jnd, pse, weber"),
        ({"conditions": ["mass=0.1", "mass=0.5"]}, "is not a condition"),
        ({"task": "t"}, "is not a task"),
    ):
        with pytest.raises(ParameterError, match=said):
            small(factors=factors, comparisons={"heavy": {**asked, **change}})


@pytest.mark.parametrize(("people", "trials", "a", "b"), [(12, 12, 18.0, 2.0), (24, 8, 3.0, 3.0)])
def test_intervals_of_mean_rates_hold_the_mean(people: int, trials: int, a: float, b: float) -> None:
    """Of 1000 studies of people whose rates are beta distributed, with the standard error of 0.7 %; within 0 and 1."""
    rng, held = np.random.default_rng(6), 0
    for _ in range(1000):
        rates = rng.binomial(trials, rng.beta(a, b, people)) / trials
        found = mean_of_rates(rates, people * trials)
        assert 0.0 <= found.low <= found.value <= found.high <= 1.0
        held += found.holds(a / (a + b))
    assert 930 <= held <= 980
    sure = mean_of_rates(np.ones(12), 144)
    assert (sure.value, sure.high) == (1.0, pytest.approx(1.0)) and 0.95 < sure.low < 1.0  # 3.84 / (144 + 3.84)


def test_the_median_time_has_an_interval_of_order_statistics() -> None:
    """Of 20 values the 6th least and greatest: 2 P(at most 5 of 20) = 4.1 % (Conover 1999)."""
    rows: list[Any] = [types.SimpleNamespace(event={"response_time": 0.1 * i}) for i in range(1, 21)]
    measure = _of_times(rows)["response_time"]  # it reads nothing else of a row
    assert (measure.value, measure.low, measure.high) == pytest.approx((1.05, 0.6, 1.5))
    assert _of_times([]) == {}


def test_a_study_without_statsmodels_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [group(f"a={k}", {f"{i}": k + 0.1 * i * i for i in range(6)}) for k in range(2)]
    monkeypatch.setitem(sys.modules, "statsmodels.regression.mixed_linear_model", None)
    with pytest.raises(NoStatsmodels, match="mixed models: need statsmodels: pip install statsmodels"):
        mixed_model(made)


def test_a_mixed_model_of_whole_data_is_the_paired_test() -> None:
    """Two conditions, nobody missing: the difference, and its error that of the paired t test."""
    pytest.importorskip("statsmodels")
    rng = np.random.default_rng(8)
    person = rng.normal(0.0, 1.0, 14)
    made = [
        group(f"a={k}", {f"{i}": float(x) for i, x in enumerate(person + 0.4 * k + rng.normal(0.0, 0.3, 14))})
        for k in range(2)
    ]
    model = mixed_model(made)
    assert model is not None and model.participants == 14
    difference = model.coefficients[1]
    (paired,) = comparisons(made)
    t = stats.ttest_rel(list(made[1].values.values()), list(made[0].values.values())).statistic
    half = difference.value.high - difference.value.value
    assert difference.name == "a=1" and difference.value.value == pytest.approx(paired.difference.value)
    assert difference.value.value / (half / 1.959964) == pytest.approx(t, rel=1e-3)


def test_levels_with_commas_are_compared() -> None:
    """A level may be a list, whose name has commas."""
    made = [
        Group("t", f"s={level},h=a", "jnd", values, mean_of(values.values()), 0.0, {"s": level, "h": "a"})
        for level, values in (("[1,2]", {"1": 1.0, "2": 2.0}), ("[3,4]", {"1": 3.0, "2": 5.0}))
    ]
    (found,) = comparisons(made)
    assert (found.first, found.second) == ("s=[1,2],h=a", "s=[3,4],h=a")


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
    assert success.success is not None
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


def positive(task: dict[str, Any], rate: dict[float, float]) -> Estimate:
    """Of answers of which that part is positive, at each size of the difference, as evenly as whole trials allow."""
    seen: dict[float, int] = {}

    def answer(trial: Trial) -> str:
        difference = max(trial.values) - min(trial.values) if len(trial.values) > 1 else trial.values[0] - 300.0
        n = seen[difference] = seen.get(difference, 0) + 1
        part = rate[difference]
        return trial.answers[int(n * part) - int((n - 1) * part)]

    return of_task(task, answer)


def test_d_prime_of_yes_no_is_the_mean_over_the_levels() -> None:
    """Of rates without rounding d' = mean z(H) - z(F); the log-linear correction of 40 trials moves it by little."""
    method = {**SAME, "levels": [350.0, 400.0], "repetitions": 60}
    found = positive({"type": "yes_no", "catch": 0.4, "method": method}, {0.0: 0.2, 50.0: 0.5, 100.0: 0.9})
    measure = found.measures["d_prime"]
    expected = 0.5 * (ndtri(0.5) + ndtri(0.9)) - ndtri(0.2)
    assert measure.value == pytest.approx(expected, abs=0.1) and measure.low < expected < measure.high
    assert found.measures["criterion"].value == pytest.approx(
        -0.25 * (ndtri(0.5) + ndtri(0.9)) - 0.5 * ndtri(0.2), abs=0.05
    )


def test_d_prime_of_same_different_is_that_of_differencing() -> None:
    """Who calls different what differs by more than k = 1.5: F = 2 Phi(-k / sqrt 2), H of two tails (d' = 1 and 3)."""
    k, root = 1.5, math.sqrt(2.0)
    rate = {size: float(ndtr((d - k) / root) + ndtr((-d - k) / root)) for size, d in ((0, 0), (50, 1), (100, 3))}
    method = {**SAME, "levels": [350.0, 400.0], "repetitions": 100}
    found = positive({"type": "same_different", "method": method}, rate)
    assert found.measures["d_prime"].value == pytest.approx(2.0, abs=0.15)
    assert found.measures["criterion"].value == pytest.approx(k, abs=0.1)


def test_d_prime_needs_trials_without_a_difference_and_a_side() -> None:
    for task in (
        {"type": "yes_no", "method": {**SAME, "levels": [350.0, 400.0]}},
        {"type": "yes_no", "catch": 0.5, "method": {**SAME, "levels": [200.0, 400.0]}},
    ):
        assert "d_prime" not in of_task(task, lambda trial: trial.answers[trial.number % 2]).measures


def test_the_page_has_detection_and_the_analysis_of_variance(tmp_path: Path) -> None:
    """Of three participants in three conditions, whose answers "yes" become more from one to the next."""
    task = {**STIMULUS, "type": "yes_no", "catch": 0.5, "method": {**SAME, "levels": [350.0, 400.0], "repetitions": 5}}
    levels = [0.1, 0.2, 0.4]
    study = small(tasks={"t": task}, factors={"mass": {"key": "device.mass", "levels": levels}}, questionnaires={})
    dataset = Dataset.create(tmp_path, study)
    estimates = []
    for code in ("01", "02", "03"):

        def says(trial: Trial, code: str = code) -> str:
            part = 0.3 + 0.15 * levels.index(float(trial.condition.levels["mass"])) + 0.3 * (trial.values[0] > 300.0)
            return "yes" if stable.uniform(code, trial.number) < part else "no"

        with dataset.begin(code, 1, {"kind": "person"}) as recording:
            while not recording.ended:
                recording.apply(event_of(recording.session, says))
        estimates += estimate(dataset.replayed(code, 1)[0])
    assert len(estimates) == 9 and all("d_prime" in one.measures for one in estimates)
    text = page.write(dataset, estimates).read_text(encoding="utf-8")
    assert "Analysis of variance" in text and "F(2, 4) = " in text
    assert "random intercept" in text or "need statsmodels: pip install statsmodels" in text
    assert "Sensitivity d&#x27;" in text and "Criterion" in text


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
