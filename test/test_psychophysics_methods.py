"""Methods of measurement: replay, levels of theory, the posterior of questplus, refusals."""

from __future__ import annotations

import json
import math
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import psychometric_oracles as oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haptic_sim.inputs import ParameterError
from haptic_study.psychophysics.functions import FUNCTIONS, weibull_of_customary
from haptic_study.psychophysics.methods import (
    METHODS,
    ConstantStimuli,
    Interleaved,
    MethodParameters,
    QuestPlus,
    Staircase,
    StaircaseParameters,
    method_of,
    replay,
)
from haptic_study.psychophysics.staircase import converges_to, step_down_probability

RECORDED = json.loads(oracles.RECORDED.read_text(encoding="utf-8"))
STAIRCASE: dict[str, Any] = {"type": "staircase", "start": 10, "steps": [2, 1, 0.3], "reversals": 12}
GRID = {"low": 0.5, "high": 10, "number": 20}
QUEST: dict[str, Any] = {
    "type": "quest_plus",
    "levels": GRID,
    "threshold": GRID,
    "spread": {"low": 0.2, "high": 5, "number": 6, "spacing": "logarithmic"},
    "lapse": [0, 0.03],
    "prior": {"threshold": {"mean": 5, "deviation": 3}},
    "trials": 25,
}
PSI: dict[str, Any] = {"type": "psi", "levels": GRID, "threshold": GRID, "spread": [0.5, 1, 2], "trials": 20}
CONSTANT: dict[str, Any] = {"type": "constant_stimuli", "levels": [1, 2, 3, 4, 5, 6, 7], "repetitions": 20}
LIMITS: dict[str, Any] = {"type": "limits", "levels": [1, 2, 3, 4, 5, 6, 7], "series": 6, "vary": 2}
INTERLEAVED: dict[str, Any] = {"type": "interleaved", "tracks": [STAIRCASE, LIMITS, {**STAIRCASE, "start": 1}]}
ALL = {one["type"]: one for one in (STAIRCASE, QUEST, PSI, CONSTANT, LIMITS, INTERLEAVED)}


def run(method: Any, probability: Callable[[float], float], seed: int, most: int = 100_000) -> Any:
    rng = np.random.default_rng(seed)
    for _ in range(most):
        if method.finished:
            break
        level = method.level
        method.answer(level, int(rng.random() < probability(level)))
    return method


def observer(x: float) -> float:
    return float(FUNCTIONS["cumulative_normal"].probability(x, 4.0, 1.2, 0.5, 0.02))


# -- all methods -------------------------------------------------------------------------------------------------------


def test_every_method_is_tested() -> None:
    assert METHODS.keys() == ALL.keys()


@settings(max_examples=8)
@given(seed=st.integers(0, 2**40), kind=st.sampled_from(sorted(ALL)), cut=st.integers(0, 60))
def test_answers_that_are_repeated_give_the_same_state(seed: int, kind: str, cut: int) -> None:
    """Also by way of JSON, as a journal keeps them, from any place on."""
    method = run(method_of(ALL[kind], seed), observer, seed % 1000, most=cut)
    again = replay(method_of(ALL[kind], seed), json.loads(json.dumps(method.answers)))
    assert again.finished == method.finished
    assert repr(again.estimate) == repr(method.estimate)
    assert method.finished or again.level == method.level


@pytest.mark.parametrize("kind", sorted(ALL))
def test_methods_end_and_find_the_threshold(kind: str) -> None:
    guess = 0.0 if kind == "limits" else 0.5

    def probability(x: float) -> float:
        return float(FUNCTIONS["cumulative_normal"].probability(x, 4.0, 0.5, guess, 0.0))

    method = run(method_of(ALL[kind], 3), probability, 5)
    assert method.finished and method.estimate["threshold"] == pytest.approx(4.0, abs=1.0)
    with pytest.raises(ParameterError, match=f"^level: the method has finished after {len(method.answers)} answers"):
        _ = method.level
    with pytest.raises(ParameterError, match="received after the method has finished"):
        method.answer(4.0, 1)


@pytest.mark.parametrize("kind", sorted(ALL))
def test_estimates_before_any_answer_are_unknown_or_the_prior(kind: str) -> None:
    found = method_of(ALL[kind]).estimate
    assert (found["threshold"] is None and found["interval"] is None) or kind in ("quest_plus", "psi")


@pytest.mark.parametrize("outcome", [2, -1, True, 0.5, None, "1"])
def test_outcomes_are_0_or_1(outcome: Any) -> None:
    method = method_of(STAIRCASE)
    with pytest.raises(ParameterError, match=r"outcome = .*: must be one of 0, 1"):
        method.answer(method.level, outcome)


def test_another_level_than_the_presented_one() -> None:
    with pytest.raises(ParameterError, match="level of answer 1: 9 received, 10 expected; repeat the answers"):
        method_of(STAIRCASE).answer(9.0, 1)


# -- staircases --------------------------------------------------------------------------------------------------------


def drift_free(up: int, down: int, ratio: float) -> float:
    """Where the mean step of the Markov chain of the runs is 0: an independent solution, by bisection.

    States are the lengths of the present run; their stationary probabilities give the rates of steps.
    """

    def drift(p: float) -> float:
        states = [("start", 0)] + [("right", i) for i in range(1, down)] + [("wrong", i) for i in range(1, up)]
        index = {one: i for i, one in enumerate(states)}
        P, mean_step = np.zeros((len(states), len(states))), np.zeros(len(states))
        for (kind, length), i in index.items():
            right = length + 1 if kind == "right" else 1
            wrong = length + 1 if kind == "wrong" else 1
            P[i, index[("start", 0) if right == down else ("right", right)]] += p
            P[i, index[("start", 0) if wrong == up else ("wrong", wrong)]] += 1.0 - p
            mean_step[i] = -p * (right == down) + ratio * (1.0 - p) * (wrong == up)
        stationary = np.linalg.lstsq(
            np.vstack([P.T - np.eye(len(states)), np.ones(len(states))]), np.append(np.zeros(len(states)), 1.0)
        )[0]
        return float(stationary @ mean_step)

    low, high = 1e-6, 1.0 - 1e-6
    while high - low > 1e-12:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if drift(middle) > 0.0 else (low, middle)
    return low


@pytest.mark.parametrize(
    ("up", "down", "expected"),
    [(1, 1, 0.5), (1, 2, 0.5**0.5), (1, 3, 0.5 ** (1 / 3)), (1, 4, 0.5**0.25), (2, 1, 1.0 - 0.5**0.5)],
)
def test_levels_of_levitt(up: int, down: int, expected: float) -> None:
    assert converges_to(up, down) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("up", [1, 2, 3])
@pytest.mark.parametrize("down", [1, 2, 4])
@pytest.mark.parametrize("ratio", [0.4, 1.0, 3.0])
def test_levels_are_those_of_the_markov_chain(up: int, down: int, ratio: float) -> None:
    assert converges_to(up, down, ratio) == pytest.approx(drift_free(up, down, ratio), abs=1e-8)


@given(target=st.floats(0.05, 0.95))
def test_weighted_steps_of_kaernbach(target: float) -> None:
    """Size of a step up over that of a step down: p / (1 - p)."""
    parameters = StaircaseParameters(start=1, steps=(1,), up=1, down=1, target=target, trials=1)
    staircase = Staircase(parameters)
    assert staircase.ratio == pytest.approx(target / (1.0 - target))
    assert converges_to(1, 1, staircase.ratio) == pytest.approx(target, abs=1e-9) == staircase.target


@pytest.mark.parametrize(
    ("up", "down", "target"), [(1, 2, None), (1, 3, None), (2, 1, None), (1, 1, 0.75), (1, 1, 0.9), (2, 3, 0.6)]
)
def test_staircases_converge_to_the_level_of_theory(up: int, down: int, target: float | None) -> None:
    """With steps of a twentieth of the spread, so that their bias is small; 4 standard errors of the mean."""
    parameters = {"start": 0.0, "steps": [0.05], "up": up, "down": down, "target": target, "trials": 6000}
    staircase = method_of({"type": "staircase", **parameters})
    normal = FUNCTIONS["cumulative_normal"]
    run(staircase, lambda x: float(normal.probability(x, 0.0, 1.0)), 11)
    assert isinstance(staircase, Staircase)
    levels = np.array([level for level, _ in staircase.answers[1000:]], float)
    batches = levels.reshape(10, -1).mean(axis=1)
    error = max(float(batches.std(ddof=1)) / math.sqrt(10), 0.02)
    expected = float(normal.inverse(staircase.target, 0.0, 1.0))
    assert batches.mean() == pytest.approx(expected, abs=4.0 * error + 0.03)


def test_a_staircase_by_hand() -> None:
    """2 down, 1 up; steps 4, then 2 after the first reversal, then 1."""
    staircase = method_of({"type": "staircase", "start": 20, "steps": [4, 2, 1], "reversals": 4, "discard": 0})
    levels = []
    for outcome in (1, 1, 1, 1, 0, 1, 1, 0, 1, 0):
        levels.append(staircase.level)
        staircase.answer(staircase.level, outcome)
    # 20 20 -> 16 16 -> 12 (wrong, reversal, step 2) -> 14 14 (right twice, reversal, step 1) -> 13 (wrong) -> 14 14
    assert levels == [20, 20, 16, 16, 12, 14, 14, 13, 14, 14]
    assert isinstance(staircase, Staircase) and staircase.reversals == [12, 14, 13]
    assert not staircase.finished and staircase.estimate["threshold"] == 13.5  # of the last even number of reversals


def test_steps_in_decibels_and_limits() -> None:
    specification = {"type": "staircase", "start": 8, "steps": [20], "down": 1, "low": 0.05, "high": 10, "trials": 8}
    staircase = method_of(specification | {"scale": "decibel", "discard": 0})
    levels = []
    for outcome in (1, 1, 1, 1, 0, 0, 0, 0):
        levels.append(staircase.level)
        staircase.answer(staircase.level, outcome)
    assert levels == pytest.approx([8, 0.8, 0.08, 0.05, 0.05, 0.5, 5, 10])
    found = staircase.estimate
    assert found["reversals"] == 1 and found["at_limits"] == 4 and staircase.finished


# -- QUEST+ ------------------------------------------------------------------------------------------------------------


def of_oracle(func: str, trials: int) -> QuestPlus:
    """The method that questplus is asked for."""

    def model(stimuli: Any, parameters: Any) -> np.ndarray:
        threshold, spread = parameters["threshold"], parameters["slope"]
        if func == "weibull":
            threshold, spread = weibull_of_customary(threshold, spread)
        family = FUNCTIONS["cumulative_normal" if func == "norm_cdf" else "weibull"]
        p = family.probability(stimuli["level"], threshold, spread, 0.5, parameters["lapse"])
        return np.stack([1.0 - p, p])

    prior = np.exp(-0.5 * ((np.array(oracles.QUEST["threshold"]) - 4.0) / 2.5) ** 2)
    grid = {name: oracles.QUEST[name] for name in ("threshold", "slope", "lapse")}
    return QuestPlus(model, {"level": oracles.QUEST["intensity"]}, grid, {"threshold": prior}, trials=trials)


@pytest.mark.parametrize("one", RECORDED["questplus"], ids=lambda one: str(one["func"]))
def test_quest_plus_agrees_with_questplus(one: dict[str, Any]) -> None:
    """Every stimulus, every expected entropy, and the posterior, to 1e-9."""
    method = of_oracle(one["func"], len(one["answers"]))
    for (level, outcome), entropy in zip(one["answers"], one["expected_entropies"], strict=True):
        assert method.level == level
        assert method.expected_entropies().min() == pytest.approx(entropy, abs=1e-9)
        method.answer(level, outcome)
    assert method.posterior == pytest.approx(np.array(one["posterior"]), abs=1e-9)
    location, slope = ("mean", "sd") if one["func"] == "norm_cdf" else ("threshold", "slope")
    found = method.estimate["parameters"]
    assert [found["threshold"], found["slope"], found["lapse"]] == pytest.approx(
        [one["mean"][location], one["mean"][slope], one["mean"]["lapse_rate"]], abs=1e-9
    )
    method._statistic = "mode"
    assert method.estimate["threshold"] == one["mode"][location]


def test_quest_plus_agrees_with_an_installed_questplus() -> None:
    pytest.importorskip("questplus")
    for one in RECORDED["questplus"]:
        found = oracles.questplus(one["func"], 10)
        assert found["answers"] == one["answers"][:10]
        assert found["expected_entropies"] == pytest.approx(one["expected_entropies"][:10], abs=1e-9)


def test_expected_entropy_is_that_of_all_posteriors() -> None:
    """By its definition, with three outcomes and two variables of the stimulus."""
    rng = np.random.default_rng(1)
    table = rng.dirichlet([1.0, 2.0, 0.5], (12, 10)).transpose(2, 0, 1)
    method = QuestPlus(
        lambda stimuli, parameters: table[:, : stimuli["a"].shape[0], :],
        {"a": [0, 1, 2], "b": [0, 1, 2, 3]},
        {"threshold": [1, 2, 3, 4, 5], "other": [0, 1]},
        trials=3,
    )
    method.posterior = rng.dirichlet(np.ones(10))
    expected = np.zeros(12)
    for x in range(12):
        for outcome in range(3):
            joint = table[outcome, x] * method.posterior
            after = joint / joint.sum()
            expected[x] -= joint.sum() * np.sum(after * np.log(after))
    assert method.expected_entropies() == pytest.approx(expected, abs=1e-12)
    best = int(np.argmin(expected))
    assert method.level == {"a": best // 4, "b": best % 4}
    with pytest.raises(ParameterError, match="level = 1: must be a finite number for a, b"):
        method.answer(1.0, 0)
    method.answer(method.level, 2)
    assert len(method.answers) == 1


def test_quest_plus_takes_the_level_that_was_rendered() -> None:
    method = method_of(QUEST)
    assert isinstance(method, QuestPlus)
    before = method.posterior
    method.answer(3.21, 1)
    p = FUNCTIONS["cumulative_normal"].probability(3.21, *(method._combinations[key] for key in method.parameters))
    assert method.posterior == pytest.approx(before * p / np.sum(before * p))


def test_quest_plus_ends_when_the_threshold_is_precise_enough() -> None:
    method = run(method_of(QUEST | {"deviation": 0.6, "trials": 500}), observer, 2)
    assert isinstance(method, QuestPlus) and 5 < len(method.answers) < 500
    assert method._spread_of_measured() <= 0.6
    low, high = method.estimate["interval"]
    assert low < method.estimate["threshold"] < high and method.entropy > 0.0


def test_an_answer_that_no_parameters_allow() -> None:
    sure = {"type": "quest_plus", "levels": [0, 10], "threshold": [0.5, 1], "spread": 0.05, "guess": 0, "lapse": 0}
    with pytest.raises(ParameterError, match="outcome = 0 at level 10: impossible with all parameters; allow lapses"):
        method_of(sure | {"trials": 5}).answer(10.0, 0)


# -- classical methods -------------------------------------------------------------------------------------------------


def test_constant_stimuli_are_each_once_before_any_again() -> None:
    method = method_of(CONSTANT, 4)
    assert isinstance(method, ConstantStimuli)
    rounds = np.array(method.order).reshape(20, 7)
    assert (np.sort(rounds, axis=1) == np.arange(1.0, 8.0)).all()
    assert len({tuple(one) for one in rounds}) > 1
    other = method_of(CONSTANT, 5)
    assert isinstance(other, ConstantStimuli) and other.order != method.order


def test_limits_by_hand() -> None:
    method = method_of({"type": "limits", "levels": [1, 2, 3, 4], "series": 4})
    for outcome in (0, 0, 1, 1, 0, 1, 1, 1, 1, 1):  # up to 3; down to 3; up at once; down without a change
        method.answer(method.level, outcome)
    found = method.estimate
    assert found["threshold"] == 3.0 and found["ascending"] == 2.5 and found["descending"] == 3.5
    assert found["without_crossing"] == 2 and method.finished


def test_interleaved_methods_take_turns() -> None:
    method = method_of(INTERLEAVED | {"order": "alternate"})
    assert isinstance(method, Interleaved)
    turns = []
    for _ in range(6):
        turns.append(method.track)
        method.answer(method.level, 1)
    assert turns == [0, 1, 2, 0, 1, 2]
    shuffled = run(method_of(INTERLEAVED, 8), observer, 4)
    assert isinstance(shuffled, Interleaved) and shuffled.finished
    assert len(shuffled.answers) == sum(len(one.answers) for one in shuffled.tracks)  # type: ignore[attr-defined]


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        (5, "method = 5: must be a mapping of keys to values"),
        ({}, "type: missing; must be one of staircase"),
        ({"type": "stairs"}, "type = stairs: unknown method, and not MODULE:CLASS; did you mean staircase"),
        ({"type": ["a"]}, "unknown method"),
        ({"type": "os:path"}, "type = os:path: must be derived from"),
        ({"type": "no_such_module:X"}, "cannot be imported: ModuleNotFoundError"),
        (STAIRCASE | {"step": [1]}, "step: unknown key; did you mean steps"),
        (STAIRCASE | {"steps": []}, "steps: must have one step at least"),
        (STAIRCASE | {"steps": [1, -1]}, r"steps\[1\] = -1: must be > 0"),
        (STAIRCASE | {"reversals": None}, "reversals: missing; give reversals or trials"),
        (STAIRCASE | {"start": math.nan}, "start = nan: must be finite"),
        (STAIRCASE | {"low": 11}, "start = 10: must be between low = 11 and high = inf"),
        (STAIRCASE | {"low": 12, "high": 11}, "low = 12: must be below high = 11"),
        (STAIRCASE | {"low": -1, "scale": "decibel"}, "low = -1: must be > 0, as steps are in decibels"),
        (STAIRCASE | {"target": 1.5}, "target = 1.5: must be < 1"),
        (QUEST | {"spread": [0, 1]}, r"spread\[0\] = 0: must be > 0"),
        (QUEST | {"levels": []}, "levels: must have one value at least"),
        (QUEST | {"levels": [2, 1]}, r"levels\[1\] = 1: must be above the value before it"),
        (QUEST | {"levels": {"low": 1, "high": 0, "number": 5}}, "levels.low = 1: must be below high = 0"),
        (QUEST | {"lapse": [0.4], "guess": 0.7}, "lapse = 0.4: guess . lapse must be < 1"),
        (QUEST | {"prior": {"slope": [1]}}, "prior.slope: unknown parameter; must be one of threshold"),
        (QUEST | {"prior": {"lapse": [1]}}, "prior.lapse: 1 weights; must be 2, one a value of lapse"),
        (QUEST | {"prior": {"lapse": [0, 0]}}, "prior.lapse: must be weights >= 0, not all of them 0"),
        (
            QUEST | {"levels": GRID | {"number": 10_000}, "guess": GRID | {"low": 0, "high": 0.5}},
            "must be 5e.06 at most",
        ),
        (PSI | {"lapse": [0, 0.1]}, "lapse: 2 values; must be one, as psi takes it for known; quest_plus takes more"),
        (CONSTANT | {"levels": [1]}, "levels = .1.: must be two levels at least"),
        (CONSTANT | {"levels": [1, 1]}, r"levels\[1\] = 1: must be above the level before it"),
        (LIMITS | {"vary": 6}, "vary = 6: must be at most 5"),
        (INTERLEAVED | {"tracks": []}, "tracks: 0 methods; must be 1 to 100"),
        (INTERLEAVED | {"tracks": [STAIRCASE | {"up": 0}]}, r"tracks\[0\].up = 0: must be >= 1"),
    ],
)
def test_bad_parameters_are_refused(given_: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        method_of(given_)


class OwnParameters(MethodParameters):
    """Presents one level."""

    level: float = 1.0

    def build(self, seed: int) -> Any:
        return Staircase(StaircaseParameters(start=self.level, steps=(1.0,), trials=1))


def test_a_method_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("lab_methods")
    module.OwnParameters = OwnParameters  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lab_methods", module)
    assert method_of({"type": "lab_methods:OwnParameters", "level": 3}).level == 3.0
    with pytest.raises(ParameterError, match="levle: unknown key; did you mean level"):
        method_of({"type": "lab_methods:OwnParameters", "levle": 3})


def test_the_chance_of_a_step_down_is_that_of_runs() -> None:
    """By simulation of runs, 4 standard errors."""
    rng = np.random.default_rng(9)
    for up, down, p in ((2, 3, 0.7), (3, 2, 0.4)):
        ends = []
        for _ in range(4000):
            right = wrong = 0
            while right < down and wrong < up:
                right, wrong = (right + 1, 0) if rng.random() < p else (0, wrong + 1)
            ends.append(right == down)
        assert np.mean(ends) == pytest.approx(step_down_probability(p, up, down), abs=4.0 * 0.5 / math.sqrt(4000))
