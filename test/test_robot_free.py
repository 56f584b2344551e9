"""Impedance that the hand feels of an arm in free motion: limits of the closed form, and claims of the experiment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from haptic_bench.experiment import Trial, load
from haptic_experiments.robot_free import (
    ANALYSIS,
    LINES,
    arm_response,
    excitation,
    expected,
    felt,
    pressed,
    robot_of,
    without_forces,
)
from haptic_experiments.robot_wall import series_stiffness, with_robot

W = 2.0 * np.pi * LINES


def the_trial(damping: float = 4.0) -> Trial:
    (trial,) = load("robot_free", [f"environment.engine.damping=[{damping},0.1]"])
    return trial


def test_the_file_of_the_operator_is_the_excitation() -> None:
    table = the_trial().table
    assert table is not None
    np.testing.assert_allclose(table, excitation(), atol=1e-9)
    period = len(table) // 2
    np.testing.assert_allclose(table[:period, 1], table[period : 2 * period, 1], atol=1e-9)


def test_the_closed_form_has_the_limits_that_it_should() -> None:
    """Far below the resonance of the coupling it is (m - D^2/(4 K) + D T/2) jw + D/2; both masses without forces.

    D T/2 comes of the damper of the leading body, which is implicit.
    """
    slow = slice(0, 3)
    for damping in (0.0, 4.0, 40.0):
        trial = the_trial(damping)
        found = expected(trial.experiment)[slow]
        inertia = 0.5 - damping**2 / (4.0 * 2000.0) + 0.0005 * damping
        np.testing.assert_allclose(found.real, damping / 2.0, atol=0.01 * max(1.0, damping))
        np.testing.assert_allclose(found.imag, inertia * W[slow], rtol=0.03)
    alone = expected(without_forces(the_trial(0.0)).experiment)[slow]
    np.testing.assert_allclose(alone.imag, 1.0 * W[slow], rtol=0.05)


def test_on_a_wall_it_is_arm_and_wall_in_series_at_rest() -> None:
    trial = pressed(the_trial())
    series = series_stiffness(robot_of(trial.experiment))
    assert series == pytest.approx(1.0 / (1.0 / 2000.0 + 1.0 / 4000.0))
    assert -expected(trial.experiment)[0].imag * W[0] == pytest.approx(series, rel=0.01)
    assert trial.table is not None and trial.table[:, 1].min() > 0.0  # it stays on the wall


def test_the_arm_follows_slow_commands_and_not_fast_ones() -> None:
    robot = robot_of(the_trial().experiment)
    moved, force = arm_response(robot, 1000.0)
    assert abs(moved[0] - 1.0) < 0.2 and abs(moved[-1]) < 0.2 and not force.any()


def test_more_damping_hides_the_device_s_own_mass() -> None:
    """The claim that only the device's mass is felt fails with the damping that a wall requires."""
    trial = the_trial(100.0)
    slow = expected(trial.experiment)[5].imag / W[5]
    assert abs(slow / 0.5 - 1.0) > 0.02


@pytest.mark.exhaustive
@pytest.mark.long
def test_all_claims_of_the_experiment_hold_and_a_late_force_fails_them() -> None:
    trial = the_trial().in_mode("offline")
    samples = ANALYSIS.run_unrecorded(trial)
    claims = ANALYSIS.analyse(trial, samples).claims
    assert len(claims) == 5 and all(claim.holds for claim in claims)
    robot = robot_of(pressed(trial).experiment)
    late = robot.arm.model_copy(update={"sensor": robot.arm.sensor.model_copy(update={"delay": 0.02})})
    wrong = with_robot(pressed(trial), robot.model_copy(update={"arm": late}))
    measured = felt(wrong.experiment, ANALYSIS.run_unrecorded(replace(wrong, table=pressed(trial).table)))
    assert measured is not None and np.abs(measured / expected(wrong.experiment) - 1.0).max() > 0.01
