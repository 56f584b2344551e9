"""Energy that has entered a relay between hand and arm, for random guards, delays, losses, arms and walls."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import sampled

from haptic_bench.experiment import load
from haptic_experiments.delayed_wall import GUARDED
from haptic_experiments.robot_wall import ANALYSIS, ROUNDING, least_energy, relayed, robot_of, with_robot

PATH = "operator.path=[[0.01,0,0,0],[0.12,0.03,0,0],[0.2,0.03,0,0],[0.28,0,0,0]]"


def least(seed: int, guard: str) -> float:
    """The least energy that has entered the relay [J]."""
    rng = np.random.default_rng([20263, seed])
    (trial,) = load("robot_wall", [PATH, "duration=0.35", f"seed={seed}"])
    robot = robot_of(trial.experiment)
    x, y, z = robot.arm.wall.position
    wall = {"stiffness": float(10 ** rng.uniform(2.5, 4.5)), "damping": float(rng.uniform(0.0, 60.0))}
    near = robot.arm.wall.model_copy(update=wall | {"position": (x - float(rng.uniform(0.0, 0.019)), y, z)})
    robot = robot.model_copy(update={"arm": robot.arm.model_copy(update={"wall": near})})
    trial = relayed(with_robot(trial.in_mode("offline"), robot), guard, float(rng.uniform(0.0, 0.06)))
    following = robot.following.model_copy(update={"hand_watchdog": 0.2, "fade": float(rng.uniform(0.0, 0.1))})
    link = {"jitter": float(rng.uniform(0.0, 0.02)), "loss": float(rng.uniform(0.0, 0.4)), "seed": seed}
    relay = trial.experiment.relay.model_copy(update=link)
    led = robot_of(trial.experiment).model_copy(update={"following": following})
    return least_energy(ANALYSIS.run_unrecorded(with_robot(trial, led, relay=relay)))


@pytest.mark.parametrize("guard", sampled(GUARDED, "passivity"))
def test_energy_that_has_entered_a_guarded_relay_is_never_negative(guard: str) -> None:
    for seed in range(7):
        assert least(seed, guard) >= -ROUNDING, seed


def test_without_a_guard_it_is_negative() -> None:
    """So what the tests above look at can be otherwise."""
    assert min(least(seed, "none") for seed in range(2)) < -1e-4


@pytest.mark.exhaustive
@pytest.mark.long
@pytest.mark.parametrize("guard", GUARDED)
def test_energy_is_never_negative_over_a_thousand_delays_losses_and_walls(guard: str) -> None:
    for seed in range(7, 341):
        assert least(seed, guard) >= -ROUNDING, seed
