"""Noise of sensors, tremor and jitter: their size, their independence, and the same numbers whenever asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from haptic_bench import experiment
from haptic_bench.recording.samples import MessageStore, of_trial
from haptic_bench.replay.resimulation import resimulate
from haptic_bench.running.offline import simulate
from haptic_drivers.noise import SensorNoise, SensorParameters, Tremor
from haptic_drivers.operators import ConstantParameters, build_operator, wrench_at_rest
from haptic_sim.messages import DeviceState
from haptic_sim.parameters import ParameterError
from haptic_sim.random_numbers import displaced, stream
from haptic_sim.simulation import World as Program
from haptic_sim.worlds.building import build
from haptic_sim.worlds.overlaps import find_overlaps
from haptic_sim.worlds.parameters import WorldParameters
from haptic_sim.worlds.world_setup import WorldSetup

SENSORS = SensorParameters(pose_noise=(1e-3, 1e-2), twist_noise=(0.2, 0.4))


def measured(noise: SensorNoise, ticks: Any) -> np.ndarray:
    """What is measured of a device at rest at the origin, (ticks, 19)."""
    rows = []
    for tick in ticks:
        state = DeviceState()
        state.pose[6] = 1.0
        noise.add(tick, state)
        rows.append(np.concatenate([state.pose, state.twist, state.operator_wrench]))
    return np.array(rows)


def test_noise_has_its_size_and_its_sources_are_independent() -> None:
    rows = measured(SensorNoise(SENSORS, (2.0, 0.1), 3, planar=False), range(4000))
    pose, twist, wrench = rows[:, :7], rows[:, 7:13], rows[:, 13:]
    sizes = [*(3 * [1e-3]), *(3 * [0.2]), *(3 * [0.4]), *(3 * [2.0]), *(3 * [0.1])]
    values = np.column_stack([pose[:, :3], twist, wrench])
    # of n samples the standard deviation is known to 1 / sqrt(2 n) of itself, a correlation to 1 / sqrt(n)
    np.testing.assert_allclose(values.std(axis=0), sizes, rtol=5 / np.sqrt(8000))
    np.testing.assert_allclose(np.linalg.norm(pose[:, 3:], axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(2.0 * pose[:, 3:6].std(axis=0), 1e-2, rtol=5 / np.sqrt(8000))
    correlation = np.corrcoef(np.column_stack([values, pose[:, 3:6]]).T) - np.eye(18)
    assert np.abs(correlation).max() < 5 / np.sqrt(4000)


def test_a_tick_has_its_noise_whenever_it_is_asked_for() -> None:
    one, other = (SensorNoise(SENSORS, (2.0, 0.1), seed, planar=False) for seed in (3, 4))
    in_order = measured(one, range(20))
    np.testing.assert_array_equal(measured(one, [7, 7, 3]), in_order[[7, 7, 3]])
    assert not np.any(measured(other, range(20))[:, :3] == in_order[:, :3])
    assert len({stream(seed, name) for seed in range(50) for name in ("a", "b", "ab")}) == 150


def test_in_the_plane_nothing_leaves_it() -> None:
    rows = measured(SensorNoise(SENSORS, (2.0, 0.1), 3, planar=True), range(5))
    out_of_plane = [2, 3, 4, 9, 10, 11, 15, 16, 17]
    assert not rows[:, out_of_plane].any()
    assert rows[:, [0, 1, 5, 7, 8, 12, 13, 14, 18]].all()
    moved = displaced(np.array([1.0, 2, 0, 0, 0, 0, 1]), (0.01, 0.1), 5, True)
    assert not moved[[2, 3, 4]].any()
    assert 0.0 < np.hypot(*(moved[:2] - [1.0, 2.0])) < 0.06
    np.testing.assert_array_equal(displaced(moved, (0.0, 0.0), 5, True), moved)


def test_tremor_has_its_size_within_its_band() -> None:
    """A minute of it at 1 kHz: the root mean square as given, and next to nothing outside 8 to 12 Hz."""
    tremor, wrenches = Tremor((0.5, 0, 0, 0, 0, 0.02), (8.0, 12.0), 1), np.zeros((60000, 6))
    for k, wrench in enumerate(wrenches):
        tremor.add(k * 1e-3, wrench)
    assert not wrenches[:, 1:5].any()
    np.testing.assert_allclose(wrenches[:, [0, 5]].std(axis=0), [0.5, 0.02], rtol=0.02)
    power = np.abs(np.fft.rfft(wrenches[:, 0] * np.hanning(60000))) ** 2
    frequency = np.fft.rfftfreq(60000, 1e-3)
    assert power[(frequency > 7.9) & (frequency < 12.1)].sum() > 0.9999 * power.sum()
    assert abs(np.corrcoef(wrenches[:, 0], wrenches[:, 5])[0, 1]) < 0.1


def test_tremor_is_added_to_what_the_hand_applies_and_ends_with_it() -> None:
    parameters = ConstantParameters(wrench=(1, 2, 3, 0, 0, 0), tremor=(0.1,) * 6, release=0.5)
    wrench, again, other = np.zeros(6), np.zeros(6), np.zeros(6)
    for time in (0.1, 0.3, 0.1):
        wrench_at_rest(build_operator(parameters, seed=8), time, wrench)
        wrench_at_rest(build_operator(parameters, seed=8), time, again)
        wrench_at_rest(build_operator(parameters, seed=9), time, other)
        np.testing.assert_array_equal(wrench, again)
        assert not np.any(wrench == other)
        assert np.abs(wrench - [1, 2, 3, 0, 0, 0]).max() < 0.1 * np.sqrt(2 * 16)
    wrench_at_rest(build_operator(parameters, seed=8), 0.6, wrench)
    assert not wrench.any()


RANDOM = ("operator.tremor=[0.05, 0.05, 0, 0, 0, 0]", "device.pose_noise=[1e-5, 1e-4]", "device.twist_noise=[1e-3, 0]",
          "device.noise=[0.01, 0]", "device.jitter=[1e-4, 0]")  # fmt: skip


def test_the_seed_decides_and_a_random_trial_simulates_again() -> None:
    found = []
    for settings in (("seed=1",), ("seed=2",), (*RANDOM, "seed=1"), (*RANDOM, "seed=1"), (*RANDOM, "seed=2")):
        (trial,) = experiment.load("corner_peg", ("duration=0.2", "guard.type=none", *settings))
        store = MessageStore()
        simulate(trial, store)
        found.append(store.messages)
    still, same, one, again, other = found
    assert still == same
    assert one == again
    assert one["device_state"] != other["device_state"]
    verdict = resimulate(trial, other)
    assert (verdict.difference, verdict.unverified) == ("", [])
    assert of_trial(trial, other)["hand_px"][0] != of_trial(trial, still)["hand_px"][0]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ((), ()),
        (RANDOM, ("device.noise", "device.pose_noise", "device.twist_noise", "device.jitter", "operator.tremor")),
        (("device.jitter=[1e-4, 0]",), ("device.jitter",)),
    ],
)
def test_what_is_random_is_named(settings: tuple[str, ...], expected: tuple[str, ...]) -> None:
    (trial,) = experiment.load("corner_peg", settings)
    assert trial.experiment.random == expected


# Bodies of a world

FLOOR = {"joint": "fixed", "shapes": [{"type": "plane", "normal": [0, 0, 1]}]}


def box(**more: Any) -> dict[str, Any]:
    """A box that stands on the floor."""
    shape = {"type": "box", "size": [0.1, 0.1, 0.1]}
    return {"joint": "free", "position": [0, 0, 0.05], "mass": 1.0, "shapes": [shape], **more}


def start(seed: int, bodies: dict[str, Any], jitter: tuple[float, float] = (0.01, 0.02), **more: Any) -> WorldSetup:
    """A world whose bodies start at random."""
    document = {"bodies": bodies, "tool": next(reversed(bodies)), "jitter": jitter, **more}
    return build(WorldParameters.model_validate({"type": "world", **document}), Path(), seed=seed, prefix="scene.")


def test_bodies_start_where_the_seed_says_and_do_not_overlap() -> None:
    bodies = {"floor": FLOOR, "a": box(), "b": box(position=[0, 0, 0.15])}
    starts = np.array([start(seed, bodies).q for seed in range(40)])
    for seed in (0, 39):
        np.testing.assert_array_equal(start(seed, bodies).q, starts[seed])
    assert len(np.unique(starts[:, :3])) == 120
    assert max(depth for seed in range(40) for depth, *_ in find_overlaps(start(seed, bodies)) or [(0.0,)]) <= 1e-3
    still = start(3, bodies, (0.0, 0.0))
    np.testing.assert_array_equal(still.q, start(4, bodies, (0.0, 0.0)).q)
    apart = np.array([start(seed, {"a": box()}).q for seed in range(200)])
    assert np.std(apart[:, :3] - [0, 0, 0.05], axis=0) == pytest.approx([0.01] * 3, rel=0.2)
    assert np.std(2 * apart[:, 3:6], axis=0) == pytest.approx([0.02] * 3, rel=0.2)
    flat = {"a": {"joint": "planar", "angle": 0.3, "mass": 1.0, "inertia": 0.1}}
    plane = np.array([start(seed, flat, planar=True, gravity=[0, 0, 0]).q for seed in range(200)])
    assert np.std(plane - [0, 0, 0.3], axis=0) == pytest.approx([0.01, 0.01, 0.02], rel=0.2)


def test_a_start_that_cannot_be_without_overlap_names_seed_and_body() -> None:
    lid = {"joint": "fixed", "shapes": [{"type": "plane", "normal": [0, 0, -1], "offset": -0.1}]}
    with pytest.raises(ParameterError) as raised:
        start(7, {"floor": FLOOR, "lid": lid, "crate": box()}, (0.3, 0.0))
    (line,) = str(raised.value).splitlines()
    assert line.startswith("scene.jitter = [0.3, 0]: with seed = 7, ")
    assert line.endswith("choose less, or place crate farther away")


def test_a_trial_with_jitter_simulates_again(tmp_path: Path) -> None:
    document = {
        "duration": 0.05,
        "rate": 1000.0,
        "operator": {"type": "constant", "wrench": [0, 0, 0, 0, 0, 0]},
        "device": {"type": "none"},
        "scene": {"type": "world", "tool": "box", "jitter": [0.01, 0], "bodies": {"floor": FLOOR, "box": box()}},
    }
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(document))
    positions = []
    for seed in (1, 1, 2):
        (trial,) = experiment.load(str(path), (f"seed={seed}",))
        assert trial.experiment.random == ("scene.jitter",)
        store = MessageStore()
        simulate(trial, store)
        verdict = resimulate(trial, store.messages)
        assert (verdict.difference, verdict.unverified) == ("", [])
        positions.append(of_trial(trial, store.messages)["tool_px"][0])
    assert positions[0] == positions[1] != positions[2]
    assert Program.from_yaml(path).bodies["box"].position[0] != 0.0
