"""Many worlds of one model on threads: each moves as it does alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import ROOT

import haptic_sim
from haptic_sim import HapticsError, Model, World, rollout
from haptic_sim.parameters import ParameterError

BOXES: dict[str, Any] = {
    "tool": "upper",
    "bodies": {
        "floor": {"joint": "fixed", "shapes": [{"type": "plane"}]},
        "lower": {
            "joint": "free",
            "mass": 0.5,
            "position": [0.0, 0.0, 0.05],
            "shapes": [{"type": "box", "size": [0.1, 0.1, 0.1]}],
        },
        "upper": {
            "joint": "free",
            "mass": 0.5,
            "position": [0.0, 0.0, 0.15],
            "shapes": [{"type": "box", "size": [0.1, 0.1, 0.1]}],
        },
    },
}
ALONE = BOXES | {"tool": "lower", "bodies": {name: BOXES["bodies"][name] for name in ("floor", "lower")}}


def pushes(count: int, steps: int) -> np.ndarray:
    return np.random.default_rng(20260).normal(scale=2.0, size=(count, steps, 6)) * [1, 1, 1, 0.1, 0.1, 0.1]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("scene", [ALONE, BOXES], ids=["alone", "stacked"])
def test_each_moves_as_it_does_alone(scene: dict[str, Any], threads: int) -> None:
    """Contacts between bodies that coal measures, too; with fresh worlds, bit by bit."""
    model, wrenches = Model(scene, environment={"method": "constraint"}), pushes(6, 40)
    found = rollout(model, wrenches, threads=threads, keep_states=True)
    for i in range(6):
        world = World(model)
        for k in range(40):
            world.step(wrenches[i, k])
            np.testing.assert_array_equal(found.poses[i, k], world.pose)
            np.testing.assert_array_equal(found.twists[i, k], world.twist)
            np.testing.assert_array_equal(found.wrenches[i, k], world.wrench)
        assert found.states[i] == world.state
    np.testing.assert_allclose(found.times, np.arange(1, 41) / 1000.0)


@pytest.mark.exhaustive
def test_a_thousand_worlds_share_a_model() -> None:
    """From one state for all; against a world that is set back to it each time."""
    model, wrenches = Model(ALONE, environment={"method": "penalty"}), pushes(1000, 10)
    world = World(model)
    for _ in range(30):
        world.step()
    state = world.state
    found = rollout(model, wrenches, state, threads=4)
    for i in range(1000):
        world.state = state
        for wrench in wrenches[i]:
            world.step(wrench)
        np.testing.assert_array_equal(found.poses[i, -1], world.pose)
    assert found.times[0] == pytest.approx(0.031) and found.states == ()


def test_they_go_on_from_states_of_their_own() -> None:
    model, wrenches = Model(BOXES, environment={"method": "constraint"}), pushes(5, 20)
    whole = rollout(model, wrenches, threads=2)
    half = rollout(model, wrenches[:, :10], keep_states=True, threads=2)
    rest = rollout(model, wrenches[:, 10:], half.states, threads=2)
    np.testing.assert_array_equal(np.concatenate([half.poses, rest.poses], axis=1), whole.poses)


def test_worlds_of_mujoco_are_rolled_out_too() -> None:
    pytest.importorskip("mujoco")
    model, wrenches = haptic_sim.load(ROOT / "examples" / "arm.urdf", engine="mujoco", tool="lower"), pushes(4, 30)
    found = rollout(model, wrenches, threads=2)
    world = World(model)
    for wrench in wrenches[3]:
        world.step(wrench)
    np.testing.assert_array_equal(found.poses[3, -1], world.pose)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"wrenches": np.zeros((3, 6))}, r"wrenches of shape \(3, 6\): must be finite numbers \(N, T, 6\)"),
        ({"wrenches": np.full((1, 1, 6), np.nan)}, "must be finite"),
        ({"wrenches": np.zeros((3, 2, 6)), "states": []}, "states: 0 given, 3 rollouts"),
        ({"wrenches": np.zeros((3, 2, 6)), "threads": 0}, "threads = 0: must be at least 1"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        rollout(Model(ALONE), **arguments)


def test_no_worlds_and_no_steps_are_nothing() -> None:
    assert rollout(Model(ALONE), np.zeros((0, 3, 6))).poses.shape == (0, 3, 7)
    assert rollout(Model(ALONE), np.zeros((2, 0, 6))).poses.shape == (2, 0, 7)


def test_a_world_that_is_unstable_is_named() -> None:
    pytest.importorskip("mujoco")
    model, wrenches = (
        haptic_sim.load(ROOT / "examples" / "arm.urdf", engine="mujoco", tool="lower"),
        np.zeros((3, 30, 6)),
    )
    wrenches[1, 4:] = 1e13
    with pytest.raises(HapticsError, match=r"rollout 1, step \d+: unstable"):
        rollout(model, wrenches, threads=2)
