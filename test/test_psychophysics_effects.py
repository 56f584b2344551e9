"""Sizes of effects, corrections and analysis of variance: numbers of statsmodels and SciPy, closed forms, refusals."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import psychometric_oracles as oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from haptic_sim.inputs import ParameterError
from haptic_study.psychophysics import effects

RECORDED = json.loads(oracles.RECORDED.read_text(encoding="utf-8"))["statsmodels"]
GROUPED = json.loads(oracles.RECORDED.read_text(encoding="utf-8"))["grouped"]


def test_anova_agrees_with_statsmodels() -> None:
    found = effects.repeated_measures_anova(RECORDED["values"], ("a", "b"))
    assert [one.name for one in found] == list(RECORDED["effects"]) == ["a", "b", "a:b"]
    for one in found:
        F, effect, error, p = RECORDED["effects"][one.name]
        assert (one.F, one.effect, one.error, one.p_value) == pytest.approx((F, effect, error, p), rel=1e-9)


def test_anova_agrees_with_an_installed_statsmodels() -> None:
    pytest.importorskip("statsmodels")
    for name, row in oracles.statsmodels(np.array(RECORDED["values"])).items():
        assert row == pytest.approx(RECORDED["effects"][name], rel=1e-9)
    assert oracles.corrections(RECORDED["p_values"]) == RECORDED["corrections"]


def test_anova_of_two_levels_is_the_paired_t_test() -> None:
    values = np.random.default_rng(1).normal(0.0, 1.0, (12, 2)) + [0.0, 0.5]
    one = effects.repeated_measures_anova(values, ("a",))[0]
    t = stats.ttest_rel(values[:, 0], values[:, 1])
    assert t.statistic**2 == pytest.approx(one.F) and t.pvalue == pytest.approx(one.p_value)
    assert one.epsilon == pytest.approx(1.0) and one.corrected_p_value == pytest.approx(one.p_value)
    dz = effects.cohen_dz(values[:, 0], values[:, 1])
    assert dz == pytest.approx(t.statistic / math.sqrt(12))
    assert one.partial_eta_squared == pytest.approx(dz**2 * 12 / (dz**2 * 12 + 11))


def test_anova_is_that_of_sums_of_squares_and_epsilon_that_of_the_centred_covariance() -> None:
    """The textbook's computation: means of conditions and participants; Box's epsilon of the doubly centred matrix."""
    x = np.array(RECORDED["values"])[:, :, 0]
    n, k = x.shape
    residual = x - x.mean(axis=1, keepdims=True) - x.mean(axis=0) + x.mean()
    effect = n * np.sum((x.mean(axis=0) - x.mean()) ** 2) / (k - 1)
    error = np.sum(residual**2) / ((k - 1) * (n - 1))
    one = effects.repeated_measures_anova(x, ("a",))[0]
    assert pytest.approx(effect / error) == one.F
    S = np.cov(x, rowvar=False)
    S = S - S.mean(axis=0) - S.mean(axis=1)[:, None] + S.mean()
    assert one.epsilon == pytest.approx(np.trace(S) ** 2 / ((k - 1) * np.sum(S * S)))
    assert 1.0 / (k - 1) <= one.epsilon <= 1.0 and one.corrected_p_value == pytest.approx(
        stats.f.sf(one.F, one.epsilon * (k - 1), one.epsilon * (k - 1) * (n - 1))
    )


def test_corrections_agree_with_statsmodels() -> None:
    for name, known in RECORDED["corrections"].items():
        assert getattr(effects, name)(RECORDED["p_values"]) == pytest.approx(known, abs=1e-12)


@given(p=st.lists(st.floats(0.0, 1.0), max_size=12))
def test_corrections_are_ordered_and_keep_order(p: list[float]) -> None:
    values = np.array(p)
    holm, hochberg = effects.holm(p), effects.benjamini_hochberg(p)
    assert (values <= hochberg + 1e-15).all() and (hochberg <= holm + 1e-12).all()
    assert (holm <= effects.bonferroni(p) + 1e-15).all()
    for adjusted in (holm, hochberg):
        assert (np.diff(adjusted[np.argsort(values)]) >= 0.0).all()
    assert hochberg == pytest.approx(stats.false_discovery_control(values) if p else values)


def test_cohen_d() -> None:
    """By hand: means 4 and 2, variances 4 and 1 with 2 and 4 degrees of freedom."""
    assert effects.cohen_d([2, 4, 6], [1, 1, 2, 3, 3]) == pytest.approx(2.0 / math.sqrt((2 * 4 + 4 * 1) / 6))
    assert effects.cohen_d([1, 1], [1, 1]) == 0.0 and effects.cohen_d([2, 2], [1, 1]) == math.inf


def test_pairwise_comparisons() -> None:
    values = np.array(RECORDED["values"])[:, :, 0].T
    found = effects.pairwise({"soft": values[0], "middle": values[1], "hard": values[2]})
    p = [float(stats.ttest_rel(values[i], values[j]).pvalue) for i, j in ((0, 1), (0, 2), (1, 2))]
    assert [one[:2] for one in found] == [("soft", "middle"), ("soft", "hard"), ("middle", "hard")]
    assert [one[3] for one in found] == pytest.approx(effects.holm(p))
    assert [one[2] for one in found] == pytest.approx(
        [stats.ttest_rel(values[i], values[j]).statistic for i, j in ((0, 1), (0, 2), (1, 2))]
    )


def test_bad_values_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"first = .1.: must be two finite numbers at least"):
        effects.cohen_d([1.0], [1.0, 2.0])
    with pytest.raises(ParameterError, match="second: 3 values; must be 2, one for each of first"):
        effects.cohen_dz([1.0, 2.0], [1.0, 2.0, 4.0])
    with pytest.raises(ParameterError, match=r"p_values = .1.5.: must be a list of numbers from 0 to 1"):
        effects.holm([1.5])
    with pytest.raises(ParameterError, match="p_values"):
        effects.benjamini_hochberg([math.nan])
    with pytest.raises(ParameterError, match=r"values\[1, 0\]: not finite; must be the mean"):
        effects.repeated_measures_anova([[1, 2], [math.nan, 3]], ("a",))
    with pytest.raises(ParameterError, match="values: 2 dimensions; must be 3"):
        effects.repeated_measures_anova([[1, 2], [2, 3]], ("a", "b"))
    with pytest.raises(ParameterError, match="two participants, and two levels"):
        effects.repeated_measures_anova([[1, 2]], ("a",))


@pytest.mark.parametrize("name", ["equal", "unequal"])
def test_groups_and_factors_within_are_those_of_other_packages(name: str) -> None:
    """pingouin for groups of equal sizes; for unequal ones regressions of contrasts by statsmodels."""
    recorded = GROUPED[name]
    found = {one.name: one for one in effects.mixed_anova(recorded["values"], ["a"], {"g": recorded["groups"]})}
    assert list(found) == ["g", "a", "a:g"]
    for key, (F, effect, error, *p) in recorded["effects"].items():
        assert (found[key].F, found[key].effect, found[key].error) == pytest.approx((F, effect, error), rel=1e-9)
        if p:
            assert found[key].p_value == pytest.approx(p[0], rel=1e-9)
    if "epsilon" in recorded:
        assert found["a"].epsilon == pytest.approx(recorded["epsilon"], rel=1e-9)
        assert found["a"].corrected_p_value > found["a"].p_value


def test_two_groups_are_compared_by_students_test() -> None:
    """F = t^2, of two groups and of two groups' differences between two conditions."""
    rng = np.random.default_rng(3)
    groups, values = ["a"] * 7 + ["b"] * 5, rng.normal(size=(12, 2))
    (alone,) = effects.mixed_anova(values[:, 0], [], {"g": groups})
    t = stats.ttest_ind(values[:7, 0], values[7:, 0])
    assert (alone.F, alone.p_value) == pytest.approx((t.statistic**2, t.pvalue))
    change = values[:, 1] - values[:, 0]
    interaction = {one.name: one for one in effects.mixed_anova(values, ["w"], {"g": groups})}["w:g"]
    t = stats.ttest_ind(change[:7], change[7:])
    assert (interaction.F, interaction.p_value) == pytest.approx((t.statistic**2, t.pvalue))


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ({"g": ["a"] * 3}, "groups.g: 3 levels, 1 of them different; must be 4, two different ones"),
        ({"g": ["a"] * 4}, "groups.g: 4 levels, 1 of them different"),
        ({"g": list("aabb"), "h": list("xxyy")}, "groups: 4 participants in 2 of 4 groups"),
    ],
)
def test_groups_that_cannot_be_compared_are_refused(groups: dict[str, list[str]], said: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(said)):
        effects.mixed_anova(np.arange(8.0).reshape(4, 2), ["w"], groups)
