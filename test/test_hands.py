"""Several hands in one world: the bodies that they hold, what they feel, and the trials that they make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from offline_runs import run_unrecorded
from world_builder import thesis_material

from haptic_bench import experiment
from haptic_bench.analysis.base import analysis_of
from haptic_bench.experiment import Trial
from haptic_sim.contact.methods import Method
from haptic_sim.parameters import ParameterError
from haptic_sim.tool.environment import Environment
from haptic_sim.worlds.parameters import HoldParameters, WorldParameters
from haptic_sim.worlds.scenes import NoToolParameters, build_world
from haptic_sim.worlds.world_setup import WorldSetup

RATE = 1000.0
GAINS = {"stiffness": [400.0] * 3 + [2.0] * 3, "damping": [40.0] * 3 + [0.2] * 3}


def cube(x: float, mass: float, **more: Any) -> dict[str, Any]:
    shape = {"type": "box", "size": [0.1, 0.1, 0.1]}
    return {"joint": "free", "position": [x, 0, 0], "mass": mass, "shapes": [shape], **more}


def world_of(bodies: dict[str, Any], hands: Sequence[dict[str, Any]], tool: str = "a", **scene: Any) -> WorldSetup:
    parameters = WorldParameters.model_validate({"gravity": [0, 0, 0], "bodies": bodies, "tool": tool, **scene})
    holds = [HoldParameters.model_validate({"name": f"hand_{i}", **hand}) for i, hand in enumerate(hands)]
    return build_world(NoToolParameters(), parameters, thesis_material(), hands=holds)


def momenta(environment: Environment) -> tuple[np.ndarray, np.ndarray]:
    """Linear momentum of all bodies, and angular momentum about the world's origin."""
    body = environment._tool.body
    linear, angular = np.zeros(3), np.zeros(3)
    for joint in range(1, body.model.njoints):
        inertia, placement = body.model.inertias[joint], body.data.oMi[joint]
        first = body.model.joints[joint].idx_v
        v, w = body.v[first : first + 3], placement.rotation @ body.v[first + 3 : first + 6]
        turned = placement.rotation @ inertia.inertia @ placement.rotation.T
        linear += inertia.mass * v
        angular += inertia.mass * np.cross(placement.translation, v) + turned @ w
    return linear, angular


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["penalty", "impulse_augmented", "frictional_impulses", "constraint", "hybrid"])
def test_momentum_is_what_the_hands_give(method: Method) -> None:
    """Two tools press a third body between them, off its middle: contacts change no momentum of the whole."""
    world = world_of({"a": cube(-0.2, 1.0), "b": cube(0.2, 2.0), "c": cube(0.0, 0.5)}, [{"tool": "b"}])
    environment = Environment(world, method=method, rate=RATE)
    (other,) = environment.hands
    given, touched = np.zeros(6), 0
    for k in range(600):
        wrenches = np.array([[3.0, 0.3, 0.1, 0.0, 0.0, 0.01], [-4.0, 0.1, 0.0, 0.02, 0.0, 0.0]])
        poses = environment.state.pose[:3].copy(), other.state.pose[:3].copy()
        for wrench, p in zip(wrenches, poses, strict=True):
            given += np.concatenate([wrench[:3], wrench[3:] + np.cross(p, wrench[:3])]) / RATE
        other.command.stamp(k, 0)
        other.command.wrench[:] = wrenches[1]
        touched += environment.advance(wrenches[0]).contacts > 0
    linear, angular = momenta(environment)
    assert touched > 0
    np.testing.assert_allclose(linear, given[:3], rtol=0, atol=1e-12)
    # positions at which contacts act are those at the beginning of a step
    np.testing.assert_allclose(angular, given[3:], rtol=0, atol=2e-4)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(-2.0, 2.0), min_size=12, max_size=12))
def test_of_a_body_that_two_hands_hold_each_feels_the_other(values: list[float]) -> None:
    """The wrench that a hand feels is the other's, moved to its own point; the body moves as under their sum."""
    points = np.array([[-0.05, 0.02, 0.0], [0.06, 0.0, 0.03]])
    world = world_of({"a": cube(0.0, 2.0)}, [{"tool": "a", "hold": points[1].tolist()}], hold=points[0].tolist())
    environment = Environment(world, rate=RATE)
    (other,) = environment.hands
    one, two = np.array(values[:6]), np.array(values[6:])
    other.command.wrench[:] = two
    state = environment.advance(one)
    lever = points[1] - points[0]
    np.testing.assert_allclose(state.wrench, [*two[:3], *(two[3:] + np.cross(lever, two[:3]))], atol=1e-12)
    np.testing.assert_allclose(other.state.wrench, [*one[:3], *(one[3:] + np.cross(-lever, one[:3]))], atol=1e-12)
    force = one[:3] + two[:3]
    torque = one[3:] + two[3:] + np.cross(points[0], one[:3]) + np.cross(points[1], two[:3])
    rate = torque / (2.0 * 0.1**2 / 6) / RATE
    np.testing.assert_allclose(state.twist[3:], rate, atol=1e-12)
    expected = force / 2.0 / RATE + np.cross(rate, points[1])
    turned = 0.1 * np.dot(rate, rate) / RATE  # by how much the step turns the lever, times the rate
    np.testing.assert_allclose(other.state.twist[:3], expected, atol=turned + 1e-12)


def test_the_energy_balance_has_the_work_of_all_hands() -> None:
    world = world_of({"a": cube(0.0, 2.0), "b": cube(0.5, 1.0)}, [{"tool": "b"}, {"tool": "a", "hold": [0.05, 0, 0]}])
    environment = Environment(world, rate=RATE)
    for k in range(300):
        for hand, wrench in zip(environment.hands, ([0, 2, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]), strict=True):
            hand.command.stamp(k, 0)
            hand.command.wrench[:] = wrench
        environment.advance([0.0, 1.0, 0.0, 0.0, 0.0, 0.1])
    energy = environment.energy
    assert energy["injected"] > 0.1
    assert energy["kinetic"] == pytest.approx(energy["injected"], rel=1e-12)
    a, b = environment.state.kinetic_energy, environment.hands[0].state.kinetic_energy
    assert environment.hands[1].state.kinetic_energy == pytest.approx(a, rel=1e-12)  # of the same body
    assert 0.0 < b < energy["kinetic"] < a + b + 0.1


def test_two_links_of_an_arm_can_be_held() -> None:
    """A wrench at the second hand does what its generalised forces do, and the first feels it."""
    link = {"joint": "revolute", "axis": [0, 0, 1], "mass": 1.0, "inertia": [0.01] * 3, "centre_of_mass": [0.15, 0, 0]}
    bodies = {"one": link, "two": {**link, "parent": "one", "position": [0.3, 0, 0], "angle": 0.8}}
    world = world_of(bodies, [{"tool": "one"}], tool="two")
    environment = Environment(world, method="penalty", rate=RATE)
    (other,) = environment.hands
    body = environment._tool.body
    D, J = body.D.copy(), other.body.J_H.copy()
    other.command.wrench[:] = 0.3, -1.0, 0.0, 0.0, 0.0, 0.2
    state = environment.advance()
    np.testing.assert_allclose(body.v, np.linalg.solve(D, J.T @ other.command.wrench) / RATE, atol=1e-14)
    np.testing.assert_array_equal(other.state.wrench, 0.0)  # a hand does not feel its own command
    assert np.linalg.norm(state.wrench) > 0.1


DOCUMENT: dict[str, Any] = {
    "duration": 0.5,
    "rate": RATE,
    "operator": {"type": "sine", "amplitude": [2.0, 0.5, 0, 0, 0, 0.01], "frequency": 2.0},
    "device": {"type": "inertial"},
    "controller": {"type": "four_channel", **GAINS},
    "hands": [
        {
            "name": "left",
            "tool": "b",
            "operator": {"type": "constant", "wrench": [-1.5, 0, 0.3, 0, 0, 0]},
            "device": {"type": "inertial"},
            "controller": {"type": "four_channel", **GAINS},
        }
    ],
    "scene": {
        "type": "world",
        "gravity": [0, 0, 0],
        "tool": "a",
        "bodies": {"a": cube(-0.5, 1.0), "b": cube(0.5, 2.0)},
    },
}


def load(*settings: str, **changes: Any) -> Trial:
    (trial,) = experiment.load_document({"name": "hands", **DOCUMENT, **changes}, Path("hands.yaml"), settings)
    return trial


def test_hands_that_do_not_touch_are_as_alone() -> None:
    """Each in a world of its own body gives the same motion, but for rounding."""
    together = run_unrecorded(load())
    first = run_unrecorded(load(hands=[]))
    left = {key: value for key, value in DOCUMENT["hands"][0].items() if key not in ("name", "tool")}
    second = run_unrecorded(load(hands=[], scene={**DOCUMENT["scene"], "tool": "b"}, **left))
    for prefix, alone in (("", first), ("left_", second)):
        for name in ("hand", "tool", "command", "rendered"):
            columns = [column for column in alone.names if column.startswith(f"{name}_")]
            for column in columns:
                np.testing.assert_allclose(together[f"{prefix}{column}"], alone[column], rtol=0, atol=1e-12)
    assert np.abs(together["left_hand_px"][-1] - together["left_hand_px"][0]) > 0.01


@pytest.mark.parametrize("device", ["inertial", "admittance"])
def test_two_devices_hold_one_body(device: str) -> None:
    """Pushed by both along a line through its middle, the body moves as under both forces; the devices stay with it."""
    push = {"type": "constant", "wrench": [0.3, 0, 0, 0, 0, 0]}
    controllers = {"inertial": {"type": "four_channel", **GAINS}, "admittance": {"type": "admittance"}}
    second = {"tool": "a", "hold": [0.05, 0, 0], "operator": push, "device": {"type": device}}
    hands = [{**DOCUMENT["hands"][0], **second, "controller": controllers[device]}]
    scene = {**DOCUMENT["scene"], "hold": [-0.05, 0, 0], "bodies": {"a": cube(0.0, 1.0)}}
    samples = run_unrecorded(load(operator=push, scene=scene, hands=hands))
    for hand in ("", "left_"):
        apart = samples.pose(f"{hand}hand")[:, :3] - samples.pose(f"{hand}tool")[:, :3]
        assert np.abs(apart).max() < 1e-3
    if device == "inertial":  # exactly as heavy as the body
        metrics = analysis_of(load().experiment).analyse(load(operator=push, scene=scene, hands=hands), samples).metrics
        assert metrics["max_force"] is None and metrics["rms_torque"] is None, "they would count the other hand"
        assert metrics["max_rendered_force"] is not None
        gone = samples["tool_px"][-1] - samples["tool_px"][0]
        ticks = len(samples) - 1
        assert gone == pytest.approx(0.6 * ticks * (ticks + 1) / 2 / RATE**2, rel=1e-9)


def test_each_hand_has_random_numbers_of_its_own() -> None:
    noisy = {"type": "inertial", "noise": [0.1, 0.01]}
    trial = load(device=noisy, hands=[{**DOCUMENT["hands"][0], "device": noisy}], duration=0.05)
    assert trial.experiment.random == ("device.noise", "hands[0].device.noise")
    samples = run_unrecorded(trial)
    first = samples["operator_tz"] - run_unrecorded(load(duration=0.05))["operator_tz"]
    assert np.std(first) > 0.003
    assert abs(np.corrcoef(first, samples["left_operator_tz"])[0, 1]) < 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hands": [{**DOCUMENT["hands"][0], "tool": "x"}]}, "hands[0].tool = x: unknown body (known: a, b)"),
        ({"hands": [DOCUMENT["hands"][0]] * 2}, "hands[1].name = left: is the name of hands[0]; choose another"),
        ({"hands": [{**DOCUMENT["hands"][0], "name": "driver"}]}, "hands[0].name = driver: is the name of a topic or"),
        ({"hands": [{**DOCUMENT["hands"][0], "name": "a/b"}]}, "hands[0].name = a/b: "),
        ({"hands": [{**DOCUMENT["hands"][0], "device": {"type": "none"}}]}, "hands[0].device.type = none: a further"),
        ({"local_model": {"type": "full"}}, "local_model.type = full: supports one hand only"),
        (
            {"device": {"type": "inertial", "impulse_rendering": "spread"}},
            "impulse_rendering = spread: supports one hand only",
        ),
        ({"device": {"type": "none"}, "controller": {"type": "none"}}, "device.type = none: beside further hands"),
    ],
)
def test_what_is_not_possible_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as refused:
        load(**change)
    assert any(message in problem for problem in refused.value.problems), refused.value.problems


def test_gains_that_are_too_stiff_for_a_body_held_together_are_refused() -> None:
    """Each hand moves its part of the body, which is half as heavy as the whole."""
    both = [{**DOCUMENT["hands"][0], "tool": "a"}]
    stiff = {"type": "four_channel", "stiffness": [0.0] * 6, "damping": [1100.0, 1100.0, 1100.0, 0.2, 0.2, 0.2]}
    load(hands=both)
    device = {"type": "inertial", "mass": 1.5}
    assert load(hands=[], controller=stiff, device=device)
    with pytest.raises(ParameterError, match="the sampled coupling"):
        load(hands=both, controller=stiff, device=device)


def test_a_trial_as_a_further_hand_has_it() -> None:
    trial = load()
    first, left = trial.hands.values()
    assert first is trial and list(trial.hands) == ["", "left"]
    assert left.hand.pose[:3] == (0.5, 0.0, 0.0) and trial.hand.pose[:3] == (-0.5, 0.0, 0.0)
    assert left.experiment.device.mass == 2.0 and trial.experiment.device.mass == 1.0  # those of their tools
    assert left.experiment.hands == ()
