"""Variants of a sweep over seeds: their runs, means with intervals, paired differences, and boxes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from haptic_bench.analysis.claims import Quantity
from haptic_bench.report import variants

LABELS = [f"seed={seed},device.axes=[1,{b}],relay.delay={b}" for b in (0, 1) for seed in (7, 8, 9)]
KEYS = ["seed", "device.axes", "relay.delay"]


def test_runs_that_differ_by_a_seed_are_a_variant() -> None:
    first, second = variants.variants(LABELS, KEYS)
    assert first == variants.Variant("device.axes=[1,0], relay.delay=0", {"7": 0, "8": 1, "9": 2})
    assert second.runs == {"7": 3, "8": 4, "9": 5}
    assert variants.variants(["relay.seed=1", "relay.seed=2"], ["relay.seed"])[0].label == "all runs"


@pytest.mark.parametrize(
    ("labels", "keys"), [(["rate=1", "rate=2"], ["rate"]), (["seed=1,rate=1", "seed=2,rate=2"], ["seed", "rate"])]
)
def test_without_repetitions_there_are_no_variants(labels: list[str], keys: list[str]) -> None:
    assert variants.variants(labels, keys) == []


def test_the_interval_is_that_of_the_t_distribution() -> None:
    mean, half = variants.mean_and_interval(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    # t(0.975, 4) of the printed tables is 2.776; the standard error is sqrt(2.5 / 5)
    assert (mean, half) == (3.0, pytest.approx(2.776 * 0.5**0.5, rel=1e-3))
    assert variants.mean_and_interval(np.array([2.0])) == (2.0, None)


def test_95_of_100_intervals_hold_the_mean() -> None:
    runs = np.random.default_rng(20260).normal(3.0, 2.0, (2000, 4))
    held = [abs(mean - 3.0) < half for mean, half in map(variants.mean_and_interval, runs) if half is not None]
    assert np.mean(held) == pytest.approx(0.95, abs=0.015)  # three standard errors


def test_differences_are_of_the_same_seeds() -> None:
    found = variants.variants(LABELS, KEYS)
    metrics = {"peak": [1.0, 5.0, 9.0, 2.0, 6.0, None]}
    shown = variants.table(found, metrics, {"peak": Quantity("Peak", "mN", 1e3)})
    rows = [re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", shown)[1:]]
    assert rows[0] == ["Peak [mN]"]
    assert [row[-3] for row in rows[1:]] == ["3", "2"]
    assert [row[-1] for row in rows[1:]] == ["", "1000 ± 0"]  # each of two runs is larger by 1 N, whatever its seed
    assert "95 % interval by Student's t distribution" in shown


def test_a_box_is_of_quartiles_and_extremes() -> None:
    x, y = variants._box(np.array([0.0, 1.0, 2.0, 3.0, 10.0]), 4.0)
    finite = np.isfinite(x)
    assert (x[finite].min(), x[finite].max()) == (0.0, 10.0)
    assert {1.0, 2.0, 3.0} <= set(x[finite]) and (y[finite].min(), y[finite].max()) == (3.7, 4.3)
