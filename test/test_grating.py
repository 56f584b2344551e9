"""grating: held forces of a texture against closed forms and an independent integration; that each claim can fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from claim_checks import Run, load, names
from conftest import Haptics

from haptic_bench.recording.samples import Samples
from haptic_experiments import grating
from haptic_experiments.grating import DEEP, RATES, SHALLOW, Stroke

RNG = np.random.default_rng(20260)
M, B, K_H = 0.05, 3.0, 100.0  # mass [kg], damping [N s/m] and stiffness [N/m] of the experiment


@pytest.fixture(scope="module")
def run() -> Run:
    return Run("grating")


@pytest.fixture(scope="module")
def references(run: Run) -> Mapping[str, Samples]:
    trials = grating.variants_of(run.trial)
    return {label: run.analysis.run_unrecorded(trial) for label, trial in trials.items()}


def judged(run: Run, references: Mapping[str, Samples]) -> dict[str, bool | None]:
    return {claim.name: claim.holds for claim in run.analysis.judge(run.trial, run.samples, references).claims}


@pytest.mark.exhaustive
def test_all_claims_hold(run: Run, references: Mapping[str, Samples]) -> None:
    assert judged(run, references) == dict.fromkeys(names(grating.ANALYSIS.CLAIMS), True)


@pytest.mark.exhaustive
def test_each_claim_can_fail(run: Run, references: Mapping[str, Samples]) -> None:
    def altered(kind: str, **factors: float) -> dict[str, Samples]:
        return {
            label: one.with_columns({name: factor * one[name] for name, factor in factors.items()})
            if label.startswith(kind)
            else one
            for label, one in references.items()
        }

    assert judged(run, altered("images", rendered_fz=1.2))["images"] is False
    same = {**references, "images, 10 kHz": altered("images", rendered_fz=3.0)["images, 10 kHz"]}
    assert judged(run, same)["images_fall"] is False
    assert judged(run, altered("inside, 0.05", rendered_fz=1.3))["hold_is_bounded"] is False
    faster = judged(run, altered("inside, 0.05", hand_vz=100.0))
    assert faster["clean_inside"] is False
    assert faster["stiffer_at_higher_rates"] is False
    assert judged(run, altered("outside", hand_vx=0.0, hand_vy=0.0, hand_vz=0.0))["buzzes_outside"] is False
    assert judged(run, altered("groove", hand_vx=0.0, hand_vy=0.0, hand_vz=0.0))["groove"] is False
    assert set(judged(run, {}).values()) == {None}


def test_a_trial_without_its_stroke_decides_nothing_about_images() -> None:
    short = Run("grating", "duration=0.3")
    metrics = short.analysis.analyse(short.trial, short.samples, compare=False).metrics
    assert metrics["images"] is None and metrics["speed"] is None
    assert metrics["largest_force"] is not None


def test_images_of_a_held_sine_have_the_mean_square_of_the_closed_form() -> None:
    """Without a window: an integer number of periods, each sample held for 64 instants."""
    for periods, count in ((3, 100), (7, 64), (20, 50)):
        held = np.repeat(np.sin(2.0 * np.pi * periods * np.arange(count) / count + 0.3), 64)
        power = 2.0 * np.abs(np.fft.rfft(held) / held.size) ** 2
        images = power[count // 2 + 1 :].sum()
        expected = 0.5 * (1.0 - np.sinc(periods / count) ** 2)
        assert images == pytest.approx(expected, rel=2e-3)  # 64 instants have no image beyond the 32nd


def test_damping_and_stiffness_of_a_step_are_at_the_limit_together() -> None:
    """|eigenvalues|^2 of a step of a mass under held forces is 1 - b T/m + k T^2/(2 m)."""
    for _ in range(20):
        T, b = 10.0 ** RNG.uniform(-4, -3), RNG.uniform(0.5, 5.0)
        for k, stable in ((1.98 * b / T, True), (2.02 * b / T, False)):
            step = np.array([[1 - k * T * T / (2 * M), T - b * T * T / (2 * M)], [-k * T / M, 1 - b * T / M]])
            assert np.linalg.det(step) == pytest.approx(1 - b * T / M + k * T * T / (2 * M), abs=1e-12)
            assert bool(np.abs(np.linalg.eigvals(step)).max() < 1.0) is stable


@pytest.mark.exhaustive
def test_the_motion_is_that_of_an_independent_integration(run: Run) -> None:
    """A point under held forces of the closed-form potential, along the arm's path of half a cosine."""
    trial = grating.variants_of(run.trial)["inside, 0.2 mm, 1 kHz"]
    samples = run.analysis.run_unrecorded(trial)
    found = Stroke(trial, samples).position
    T, k, A, w, r = 1e-3, trial.experiment.contact.stiffness, 2e-4, 2.0 * np.pi / 2e-3, 2e-3
    x, v = np.array([0.0, 0.0, 2.1e-3]), np.zeros(3)
    path = grating.arm_of(trial.experiment).path
    start = x.copy()
    for i in range(len(samples)):
        np.testing.assert_allclose(found[i], x, atol=1e-9)
        t, j = i * T, max(n for n, row in enumerate(path) if row[0] <= i * T + 1e-12)
        aim, speed = np.array(path[j][1:]), np.zeros(3)
        if j + 1 < len(path):
            span, change = path[j + 1][0] - path[j][0], np.array(path[j + 1][1:]) - aim
            angle = np.pi * (t - path[j][0]) / span
            aim, speed = aim + 0.5 * (1 - np.cos(angle)) * change, 0.5 * np.pi / span * np.sin(angle) * change
        s = min(0.0, x[2] - r - A * (np.sin(w * x[0]) - 1.0))
        force = -k * s * np.array([-A * w * np.cos(w * x[0]), 0.0, 1.0])
        a = (force + K_H * (start + aim - x) + B * (speed - v)) / M
        x, v = x + T * v + 0.5 * T * T * a, v + T * a


@pytest.mark.exhaustive
@pytest.mark.parametrize("label", ["inside, 0.05 mm, 1 kHz", "inside, 0.2 mm, 5 kHz", "inside, 1 mm, 10 kHz"])
def test_the_sum_of_energies_never_grows_while_the_hand_rests(
    run: Run, references: Mapping[str, Samples], label: str
) -> None:
    stroke = Stroke(grating.variants_of(run.trial)[label], references[label])
    time, T = stroke.samples["time"], stroke.period
    rests = (time >= 0.1) & (time <= 0.6)
    aim = np.array([0.0, 0.0, 2.1e-3 - 0.0101])
    hand = 0.5 * K_H * np.sum((stroke.position - aim) ** 2, axis=1)
    kinetic = 0.5 * M * np.sum(stroke.velocity**2, axis=1)
    total = 0.5 * stroke.stiffness * stroke.overlap**2 + hand + (1.0 - B * T / (2.0 * M)) * kinetic
    assert np.diff(total[rests]).max() <= 1e-15
    assert total[rests][0] - total[rests][-1] > 1e-7  # and it does fall


@pytest.mark.exhaustive
def test_what_the_hold_generates_is_the_numerical_energy_of_the_tool(
    run: Run, references: Mapping[str, Samples]
) -> None:
    for label in ("inside, 0.2 mm, 1 kHz", "inside, 1 mm, 5 kHz"):
        stroke = Stroke(grating.variants_of(run.trial)[label], references[label])
        numerical = np.diff(stroke.samples["energy_numerical"])
        np.testing.assert_allclose(numerical[:-1], stroke.generated[: len(numerical) - 1], atol=1e-12)


@pytest.mark.exhaustive
def test_the_groove_of_the_claim_is_too_sharp_for_the_force_at_rest(
    run: Run, references: Mapping[str, Samples]
) -> None:
    """F c > 2 b/T at 1 kHz and not at 5 kHz, with the force of the ball at rest; so the wall alone is no reason."""
    label = f"inside, {1e3 * DEEP:g} mm, 5 kHz"
    stroke = Stroke(grating.variants_of(run.trial)[label], references[label])
    texture = grating.grating_of(stroke.trial.experiment)
    rests = (stroke.samples["time"] > 0.5) & (stroke.samples["time"] < 0.6)
    sharp = float(stroke.force[rests, 2].mean()) * texture.largest_curvature
    assert 2.0 * B * RATES[0] < sharp < 2.0 * B * RATES[1]
    assert 2.0 * stroke.stiffness < 2.0 * B * RATES[0]


def test_what_the_analysis_needs_is_named() -> None:
    for settings, text in (
        (["environment.integrator=2"], r"environment\.integrator = 3"),
        (["device.damping=null"], r"device\.damping = \[0, 0\]"),
        (["contact.damping=1"], r"contact\.damping = 0"),
        (["operator.damping=0"], "an arm without mass, with damping"),
        (["scene.bodies.plate.shapes[0].texture={type: none}"], "a grating along x"),
    ):
        with pytest.raises(ValueError, match=text):
            load("grating", *settings)


@pytest.mark.exhaustive
def test_another_grating_of_the_trial_is_none_of_those_that_are_compared(run: Run) -> None:
    assert run.analysis.label(run.trial) == "images, 1 kHz"
    other = grating.variant(run.trial, RATES[0], 2.0 * SHALLOW, 500.0)
    assert run.analysis.label(replace(run.trial, experiment=other.experiment)) is None


def test_lockstep_and_offline_give_the_same_bits(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    pytest.importorskip("rclpy", reason="needs ROS 2")
    from graph_checks import check_lockstep_is_offline

    check_lockstep_is_offline(haptics, tmp_path, "grating", "--set", "analysis=trial", "--set", "duration=0.3")
