"""A peg that searches a hole: its metrics beside closed forms, what decides the claim, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from claim_checks import Run, load

from haptic_bench.recording.samples import Samples
from haptic_experiments.peg_insertion import ANALYSIS, COMPARED, INSIDE, depth, insertion_time
from haptic_sim.parameters import ParameterError

HALF_LENGTH, HALF_WIDTH, PLATE = 0.021, 0.01, 0.1055  # [m] of the experiment


@pytest.fixture(scope="module")
def run() -> Run:
    return Run("peg_insertion")


def test_the_depth_is_that_of_the_lowest_corner() -> None:
    """Beside the corners themselves, at random angles."""
    random = np.random.default_rng(3)
    angles, heights = random.uniform(-math.pi, math.pi, 50), random.uniform(0.08, 0.2, 50)
    corners = np.array([[sx * HALF_LENGTH, sy * HALF_WIDTH] for sx in (-1, 1) for sy in (-1, 1)])
    lowest = [
        y + min(math.sin(a) * x_B + math.cos(a) * y_B for x_B, y_B in corners)
        for a, y in zip(angles, heights, strict=True)
    ]
    table = {"tool_qz": np.sin(angles / 2), "tool_qw": np.cos(angles / 2), "tool_py": heights}
    found = depth(load("peg_insertion").experiment, Samples({**table, "time": np.arange(50) * 1e-3}))
    assert found == pytest.approx(PLATE - np.array(lowest), abs=1e-12)


def test_the_time_is_that_of_the_first_sample_inside() -> None:
    height = np.full(6, PLATE + HALF_LENGTH)
    table = {"tool_qz": np.full(6, math.sqrt(0.5)), "tool_qw": np.full(6, math.sqrt(0.5)), "time": np.arange(6.0)}
    experiment = load("peg_insertion").experiment
    assert insertion_time(experiment, Samples({**table, "tool_py": height})) is None
    height[3:5] -= 1.01 * INSIDE
    assert insertion_time(experiment, Samples({**table, "tool_py": height})) == 3.0


def test_the_claim_holds_and_can_fail(run: Run) -> None:
    found = ANALYSIS.analyse(run.trial, run.samples)
    (claim,) = found.claims
    assert claim.holds and set(found.references) == set(COMPARED)
    swapped = dict(zip(COMPARED, reversed([found.references[name] for name in COMPARED]), strict=True))
    assert [one.holds for one in ANALYSIS.judge(run.trial, run.samples, swapped).claims] == [False]
    assert [one.holds for one in ANALYSIS.judge(run.trial, run.samples, {}).claims] == [None]
    metrics = found.metrics
    assert metrics["insertion_depth"] is not None and metrics["insertion_depth"] > INSIDE
    # the penalty alone is stiffer than the fall is deep: the peg goes on over the plate, to where the arm takes it
    assert found.references["penalty"]["tool_px"].max() > 0.08 > found.references["impulse_augmented"]["tool_px"].max()


@pytest.mark.long
def test_a_slower_hand_enters_with_penalties_too() -> None:
    path = "[[0,0,0,0],[0.45,0,-0.014,0],[0.9,0.06,-0.014,0],[1.35,0,0,0]]"
    slow = load("peg_insertion", f"operator.path={path}", "environment.method=penalty")
    assert depth(slow.experiment, ANALYSIS.run_unrecorded(slow)).max() > INSIDE


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("scene.slot_depth=0.004", "needs a hole of 0.005 m at least in scene.slot_depth"),
        ("device.type=none", "device"),
    ],
)
def test_what_does_not_fit_is_refused(setting: str, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        load("peg_insertion", setting)
