"""Encoders of a device: positions in steps, velocities as their differences, and what does not go together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.spatial.transform import Rotation

from haptic_bench import experiment
from haptic_bench.recording.samples import MessageStore, of_trial
from haptic_bench.replay.resimulation import resimulate
from haptic_bench.running.offline import simulate
from haptic_drivers.driver import build_driver
from haptic_drivers.encoder import Encoder, EncoderParameters
from haptic_drivers.inertial import InertialParameters
from haptic_drivers.operators import SineParameters
from haptic_drivers.parameters import HandParameters
from haptic_sim.messages import FORCE, DeviceCommand, DeviceState
from haptic_sim.worlds.scenes import NoToolParameters

RATE = 1000.0  # [Hz]
T = 1.0 / RATE
START = np.array([0.1, -0.2, 0.3, *Rotation.from_rotvec([0.4, -0.9, 0.2]).as_quat()])
RESOLUTION = (1e-5, 1e-3)  # [m, rad]


def reads(poses: np.ndarray, twists: np.ndarray, **keys: Any) -> tuple[np.ndarray, np.ndarray]:
    """Poses (n, 7) and twists (n, 6) as encoders tell them."""
    encoder, state = Encoder(EncoderParameters.model_validate(keys), START, RATE), DeviceState()
    rows = []
    for pose, twist in zip(poses, twists, strict=True):
        state.pose[:], state.twist[:] = pose, twist
        encoder.read(state)
        rows.append((state.pose.copy(), state.twist.copy()))
    read_poses, read_twists = zip(*rows, strict=True)
    return np.array(read_poses), np.array(read_twists)


def wandering(n: int, size: float = 3e-4) -> tuple[np.ndarray, np.ndarray]:
    """Displacements (n, 3) and rotations (n,) from the start of a random walk that begins there."""
    steps = np.random.default_rng(5).normal(0.0, size, (n, 6))
    steps[0] = 0.0
    way = np.cumsum(steps, axis=0)
    return way[:, :3], way[:, 3:]


def poses_of(way: np.ndarray, turn: np.ndarray) -> np.ndarray:
    start = Rotation.from_quat(START[3:])
    return np.hstack([START[:3] + way, (Rotation.from_rotvec(turn) * start).as_quat()])


def test_positions_and_rotations_are_the_nearest_steps_from_the_start() -> None:
    way, turn = wandering(400)
    read, _ = reads(poses_of(way, turn), np.zeros((400, 6)), resolution=RESOLUTION)
    np.testing.assert_allclose(read[:, :3], START[:3] + 1e-5 * np.rint(way / 1e-5), rtol=0, atol=1e-15)
    turned = (Rotation.from_quat(read[:, 3:]) * Rotation.from_quat(START[3:]).inv()).as_rotvec()
    np.testing.assert_allclose(turned, 1e-3 * np.rint(turn / 1e-3), rtol=0, atol=1e-12)
    assert np.abs(read[:, :3] - START[:3] - way).max() <= 0.5e-5 + 1e-15
    np.testing.assert_array_equal(read[0], START)


def test_a_velocity_is_the_backward_difference_of_what_was_read() -> None:
    way, turn = wandering(200)
    read, twists = reads(poses_of(way, turn), np.full((200, 6), 7.0), resolution=RESOLUTION)
    np.testing.assert_array_equal(twists[0], np.zeros(6))
    np.testing.assert_allclose(twists[1:, :3], np.diff(read[:, :3], axis=0) / T, rtol=0, atol=1e-9)
    turns = Rotation.from_quat(read[:, 3:])
    np.testing.assert_allclose(twists[1:, 3:], (turns[1:] * turns[:-1].inv()).as_rotvec() / T, rtol=0, atol=1e-8)


def test_a_filter_follows_a_step_as_a_first_order_low_pass() -> None:
    """After n ticks 1 - exp(-2 pi f n T) of a velocity that begins suddenly."""
    n, f = 60, 30.0
    way = np.zeros((n + 1, 3))
    way[:, 0] = 0.2 * T * np.arange(n + 1)
    _, twists = reads(poses_of(way, 0 * way), np.zeros((n + 1, 6)), velocity="difference", velocity_cutoff=f)
    expected = 0.2 * -np.expm1(-2 * np.pi * f * T * np.arange(n + 1))
    np.testing.assert_allclose(twists[:, 0], expected, rtol=0, atol=1e-12)


def test_without_a_resolution_poses_are_exact_and_so_is_the_velocity_by_default() -> None:
    way, turn = wandering(5)
    twists = np.random.default_rng(1).normal(size=(5, 6))
    for part in (0, 1):  # of translation and of rotation, apart
        resolution = [0.0, 0.0]
        resolution[part] = RESOLUTION[part]
        read, _ = reads(poses_of(way, turn), twists, resolution=resolution)
        untouched = slice(3, 7) if part == 0 else slice(0, 3)
        np.testing.assert_array_equal(read[:, untouched], poses_of(way, turn)[:, untouched])
    read, read_twists = reads(poses_of(way, turn), twists, resolution=RESOLUTION, velocity="exact")
    np.testing.assert_array_equal(read_twists, twists)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"resolution": (-1e-6, 0.0)}, "must be >= 0"),
        ({"resolution": (np.nan, 0.0)}, "finite"),
        ({"velocity": "filtered"}, "'exact' or 'difference'"),
        ({"velocity_cutoff": 10.0}, "filters a velocity by differences"),
        ({"velocity": "difference", "velocity_cutoff": 0.0}, "greater than 0"),
        ({"resolution": (1e-6, 0.0), "twist_noise": (0.1, 0.0)}, "has the noise of the poses alone"),
    ],
)
def test_keys_that_make_no_sense_are_refused(keys: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        InertialParameters.model_validate(keys)


def test_an_activation_forgets_the_position_before() -> None:
    parameters = InertialParameters(mass=1.0, inertia=1.0, resolution=(1e-6, 0.0))
    operator = SineParameters(amplitude=(5.0, 0, 0, 0, 0, 0), frequency=3.0)
    hand = HandParameters(pose=(0.0, 0, 0, 0, 0, 0, 1))
    one = build_driver(parameters, operator, NoToolParameters(), RATE, hand=hand)
    state, command = DeviceState(), DeviceCommand()
    command.mode = FORCE
    for k in range(100):
        one.sense(k, state)
        command.stamp(k, 0)
        one.actuate(command)
    assert abs(state.twist[0]) > 0.1
    one.activate(100)
    one.sense(100, state)
    np.testing.assert_array_equal(state.twist, np.zeros(6))


def test_a_trial_of_encoders_is_simulated_again_from_its_messages() -> None:
    """Also where the device, which only the driver knows, is not where the messages say."""
    settings = ("device.resolution=[0.0001,0.001]", "device.damping=[2,0.01]", "device.velocity_cutoff=100")
    gains = ("controller.stiffness=[100,100,0.5]", "controller.damping=[70,70,0.375]")
    (trial,) = experiment.load("corner_peg", (*settings, *gains, "guard.type=none"), "0.2")
    store = MessageStore()
    simulate(trial, store)
    verdict = resimulate(trial, store.messages)
    assert (verdict.difference, verdict.unverified) == ("", [])
    samples = of_trial(trial, store.messages)
    steps = (samples["hand_px"] - samples["hand_px"][0]) / 1e-4
    assert np.ptp(samples["hand_px"]) > 1e-3
    np.testing.assert_allclose(steps, np.rint(steps), rtol=0, atol=1e-6)
