"""A hardware device behind the driver: frames, limits, scales, and what ends its force."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from fake_hardware import DATA, TICK, Bench, Fake, data
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.spatial.transform import Rotation

from haptic_bench.experiment import read_resolved
from haptic_bench.experiment.loading import find, load_document, read_document, write_resolved
from haptic_bench.experiment.shown import build_scene, sources_of
from haptic_bench.experiment.system import load_system
from haptic_control.guard import GuardParameters
from haptic_drivers.devices.life import Request
from haptic_drivers.devices.link import Link
from haptic_drivers.devices.parameters import HardwareParameters, build_hardware
from haptic_drivers.parameters import HandParameters
from haptic_sim.messages import DISABLED, ENABLED, FAULT, PAUSED, DeviceReading, DeviceState, Reason
from haptic_sim.parameters import ParameterError
from haptic_view.controls import describe
from haptic_view.live import LiveFrames

PUSH = (1.0, -2.0, 3.0, 0.0, 0.0, 0.0)


def test_a_command_reaches_the_device_in_its_tick() -> None:
    bench = Bench()
    bench.step(PUSH)
    np.testing.assert_array_equal(bench.fake.force, PUSH)
    state = bench.step(PUSH)
    np.testing.assert_array_equal(state.rendered_wrench, PUSH)
    assert (state.state, state.reason, state.command_tick, bench.fake.calls) == (ENABLED, 0, 0, ["open", "enable"])
    bench.driver.release()
    assert not bench.fake.force.any() and bench.fake.calls[-1] == "disable"
    bench.link.close()
    assert bench.fake.calls[-1] == "close"


@pytest.mark.parametrize("axis", range(3))
def test_a_push_along_each_axis_of_a_rotated_mount(axis: int) -> None:
    """Where the hand goes in the world, and where the force goes in the base: R, and R^T."""
    rotation = Rotation.from_rotvec([0.3, -0.5, 0.7])
    bench = Bench(mount=[0.1, 0.2, 0.3, *rotation.as_quat()])
    bench.step()
    before = bench.state.pose.copy()
    unit = np.eye(3)[axis]
    state = bench.step(move=unit)
    np.testing.assert_allclose(state.pose[:3] - before[:3], rotation.apply(unit) / 1000, atol=1e-15)
    np.testing.assert_allclose(state.twist[:3], rotation.apply(unit), atol=1e-15)
    np.testing.assert_allclose(Rotation.from_quat(state.pose[3:]).as_matrix(), rotation.as_matrix(), atol=1e-15)
    bench.step([*unit, 0, 0, 0])
    np.testing.assert_allclose(bench.fake.force[:3], rotation.inv().apply(unit), atol=1e-15)


def test_the_hand_is_shown_where_the_tool_is_held_until_there_is_force() -> None:
    """Wherever the device is, and however it is turned, when it is enabled."""
    turned = Rotation.from_rotvec([0.2, 0.4, -0.3])
    hand = HandParameters(pose=(0.5, 0.6, 0.7, *Rotation.from_rotvec([0, 0, 1.0]).as_quat()), planar=False)
    bench = Bench(hand=hand, aligned="start", presence="side")
    bench.fake.pose[3:] = turned.as_quat()
    bench.step(PUSH, 5, move=(0.4, 0.2, 0.1))
    np.testing.assert_allclose(bench.state.pose, hand.pose, atol=1e-15)
    assert not bench.state.twist[:3].any() and bench.state.reason == Reason.NO_PRESENCE
    bench.fake.pressed = [0, 1]
    bench.step(PUSH, move=(0.4, 0.2, 0.1))
    np.testing.assert_allclose(bench.state.pose, hand.pose, atol=1e-15)
    more = Rotation.from_rotvec([0.1, 0.0, 0.05])
    bench.fake.pose[3:] = (more * turned).as_quat()
    bench.step(PUSH, 3, move=(0.4, 0.2, 0.1))
    np.testing.assert_allclose(bench.state.pose[:3], np.array(hand.pose[:3]) + [0.0012, 0.0006, 0.0003], atol=1e-15)
    found = Rotation.from_quat(bench.state.pose[3:]) * Rotation.from_quat(hand.pose[3:]).inv()
    np.testing.assert_allclose(found.as_rotvec(), more.as_rotvec(), atol=1e-14)
    assert bench.fake.force.any()
    bench.replay()


def test_nothing_is_written_where_there_is_no_motor() -> None:
    bench = Bench(actuated=["x", "y"])
    bench.step(PUSH)
    np.testing.assert_array_equal(bench.fake.force, [1.0, -2.0, 0, 0, 0, 0])
    np.testing.assert_array_equal(bench.step(PUSH).rendered_wrench, [1.0, -2.0, 0, 0, 0, 0])


def test_limits_and_the_rate_of_change_bound_what_is_written() -> None:
    bench = Bench(bound={**DATA["bound"], "rate": [1000.0, 1000.0, 1000.0, 0, 0, 0]})
    found = []
    for _ in range(12):
        bench.step([100.0, 0, 0, 0, 0, 0])
        found.append(bench.fake.force[0])
    np.testing.assert_allclose(found, [1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 8], rtol=1e-12)


def test_the_force_starts_softly() -> None:
    bench = Bench(soft_start=0.01)
    found = []
    for _ in range(12):
        bench.step([1.0, 0, 0, 0, 0, 0])
        found.append(bench.fake.force[0])
    np.testing.assert_allclose(found, [*np.arange(0.0, 1.0, 0.1), 1.0, 1.0], atol=1e-15)


def test_buttons_and_the_age_of_the_reading_are_told() -> None:
    bench = Bench()
    bench.fake.pressed = [0, 1]
    state = bench.step()
    np.testing.assert_array_equal(state.buttons[: len(state)], [0, 1])
    bench.fake.silent = True
    assert [round(1e3 * bench.step().reading_age) for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("how", ["silent", "broken", "nan", "jump", "fault"])
def test_what_goes_wrong_ends_in_zero_force_within_5_ms_and_the_device_can_be_used_again(how: str) -> None:
    bench = Bench()
    bench.step(PUSH, 10)
    assert bench.fake.force.any()
    match how:
        case "silent" | "broken":
            setattr(bench.fake, how, True)
        case "nan":
            bench.fake.pose[1] = np.nan
        case "jump":
            bench.fake.pose[1] += 0.1
        case "fault":
            bench.fake.fault = "motor 2 is too hot"
    bench.step(PUSH, 6)
    assert not bench.fake.force.any()
    state = bench.step(PUSH, 300)
    assert not bench.fake.force.any() and state.state == FAULT and state.reason == Reason.FAILED
    assert np.isfinite(state.pose).all() and bench.said
    assert not bench.driver.fault, "the trial goes on"
    bench.fake.silent = bench.fake.broken = False
    bench.fake.fault = ""
    bench.fake.pose[1] = 0.3
    assert bench.link.ask(Request.ENABLE) == ""
    bench.settle()
    bench.step(PUSH, 3)
    np.testing.assert_array_equal(bench.fake.force, PUSH)


def test_an_emergency_stop_is_latched() -> None:
    bench = Bench()
    bench.step(PUSH, 3)
    assert bench.link.ask(Request.STOP) == ""
    assert not bench.fake.force.any(), "at once, not in the next tick"
    assert bench.step(PUSH, 2).reason == Reason.STOPPED and bench.state.state == DISABLED
    assert "latched" in bench.link.ask(Request.ENABLE)
    assert not bench.step(PUSH, 2).rendered_wrench.any()
    assert bench.link.ask(Request.RESET) == bench.link.ask(Request.ENABLE) == ""
    bench.step(PUSH)
    np.testing.assert_array_equal(bench.fake.force, PUSH)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"bound": {"wrench": [1, 1, 1]}}, "bound.rate = null: hardware needs one"),
        ({"sensed": ["x", "up"]}, "must be one of x, y, z"),
        ({"mount": [0, 0, 0, 0, 0, 0, 2]}, "quaternion"),
        ({"workspace": [0, 0, 0, 1, -1, 1]}, "must be less than"),
        ({"presence": "foot"}, "must be one of none, sensor, top, side"),
        ({"impulse_rendering": "full"}, "hardware has limits"),
        ({"wall": [100, 1]}, "give workspace"),
    ],
)
def test_data_that_is_wrong_is_refused(keys: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        data(**keys)


def test_a_driver_is_found_by_its_module() -> None:
    with pytest.raises(ParameterError, match=r"there is no module nothing; must be one of haply_2diy"):
        build_hardware(data(module="nothing"))
    with pytest.raises(ParameterError, match="has no Connection"):
        build_hardware(data(module="haptic_drivers.devices.interface"))


def test_the_data_says_what_it_is() -> None:
    assert HardwareParameters.model_validate(DATA).mask(("x", "rz")).tolist() == [1, 0, 0, 0, 0, 1]


@pytest.fixture
def device_file(tmp_path: Path) -> Path:
    path = tmp_path / "fake.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in DATA.items() if key != "name"}), encoding="utf-8")
    return path


def test_an_experiment_names_a_device_by_its_file(device_file: Path, tmp_path: Path) -> None:
    """The keys of the file are those of the section; a resolved experiment has them all, and needs no file."""
    settings = ["device.watchdog=0.03", "device.bound.velocity=[1,10]"]
    document = read_document(find("static_wall")) | {"device": {"type": "hardware", "name": str(device_file)}}
    (trial,) = load_document(document, device_file, settings)
    device = trial.experiment.device
    assert isinstance(device, HardwareParameters)
    assert (device.module, device.watchdog, device.bound.velocity) == ("fake_hardware", 0.03, (1.0, 10.0))
    assert device.bound.rate == tuple(DATA["bound"]["rate"])
    assert any("operator.type = constant: has no effect, " in note for note in trial.notes)
    assert trial.experiment.analysis == "trial", "a person does not do what the analysis expects"
    with pytest.raises(ParameterError, match="is held by a person; leave the pointer out"):
        load_document(document, device_file, ["operator={type: pointer}"])
    assert not trial.experiment.random
    device_file.unlink()
    write_resolved(trial, tmp_path)
    assert read_resolved(tmp_path / "experiment.yaml").experiment == trial.experiment
    for mode in ("offline", "lockstep"):
        with pytest.raises(ParameterError, match="runs in real time only; add --mode realtime"):
            trial.in_mode(mode)
    assert trial.in_mode("realtime").experiment.guard.acts


def test_a_device_that_is_not_there_is_named(device_file: Path) -> None:
    document = read_document(find("static_wall"))
    with pytest.raises(ParameterError, match=r"device.name = nothing: is not a device of config/devices"):
        load_document(document | {"device": {"type": "hardware", "name": "nothing"}}, device_file)
    device_file.write_text("module: fake_hardware\nsensd: [x]\n")
    with pytest.raises(ParameterError, match=r"device.sensd: unknown key; did you mean sensed"):
        load_document(document | {"device": {"type": "hardware", "name": str(device_file)}}, device_file)


def test_a_world_is_started_with_a_hardware_device(device_file: Path) -> None:
    trial = load_system("three_joints", str(device_file), ["scene.tool=forearm"])
    assert trial.experiment.device.type == "hardware" and trial.experiment.controller.type == "virtual_coupling"


def run_free(bench: Bench, mass: float, commands: Any, requests: Any) -> tuple[float, list[float]]:
    """A mass in the device's base under what is written: the work of the hand's force at the real hand, and the port's.

    Returns:
        Energy that the hand has given to the device by what it felt [J], and what the states say of it, tick by tick.
    """
    given, told = 0.0, []
    position, velocity = bench.fake.pose[:3].copy(), np.array([0.05, 0.0, 0.0])
    for k, wrench in enumerate(commands):
        for request, value in requests.get(k, ()):
            bench.link.ask(request, value)
        bench.fake.twist[:3], bench.fake.pose[:3] = velocity, position
        state = bench.step(wrench)
        told.append(float(state.port_energy.sum()))
        force = bench.fake.force[:3].copy()
        velocity = velocity + force / mass / 1000.0
        position = position + velocity / 1000.0
        given -= float(force @ velocity) / 1000.0
    return given, told


@given(
    scales=st.lists(st.tuples(st.integers(5, 150), st.floats(0.2, 5.0), st.floats(0.0, 3.0)), max_size=4),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=15, deadline=None)
def test_the_port_counts_what_the_hand_feels_whatever_the_scales_are(
    scales: list[tuple[int, float, float]], seed: int
) -> None:
    """And so the guard, which keeps the port passive, keeps the real hand passive while scales ramp."""
    rotation = Rotation.from_rotvec([0.3, -0.5, 0.7])
    guard = GuardParameters.model_validate({"type": "passivity"})
    bench = Bench(guard, mount=[0.1, 0.2, 0.3, *rotation.as_quat()], ramp=0.05, mass=0.2)
    requests: dict[int, list[tuple[Request, float]]] = {}
    for tick, motion, force in scales:
        requests.setdefault(tick, []).extend([(Request.SCALE_MOTION, motion), (Request.SCALE_FORCE, force)])
    rng = np.random.default_rng(seed)
    commands = np.zeros((160, 6))
    commands[:, :3] = np.repeat(rng.normal(0.0, 1.0, (16, 3)), 10, axis=0)
    given, told = run_free(bench, 0.2, [*commands, np.zeros(6)], requests)
    assert told[-1] == pytest.approx(given, abs=1e-12)
    bench.replay()
    assert min(told) > -1e-9
    assert bench.driver.guarded


def test_a_scale_that_is_asked_for_ramps_and_the_pose_never_jumps() -> None:
    bench = Bench(ramp=0.1)
    poses, scales = [], []
    for k in range(300):
        if k == 50:
            assert bench.link.ask(Request.SCALE_MOTION, 0.5) == ""
        state = bench.step((0,) * 6, move=(0.1, 0.0, 0.0))
        poses.append(state.pose[0])
        scales.append(bench.driver.reading.motion_scale)
    steps = np.diff(poses)
    np.testing.assert_allclose(steps[:49], 1e-4, rtol=1e-9)
    np.testing.assert_allclose(steps[-50:], 0.5e-4, rtol=1e-9)
    assert (np.diff(steps) <= 1e-16).all() and max(np.abs(np.diff(scales))) <= 0.01 + 1e-12
    assert "must be between" in bench.link.ask(Request.SCALE_MOTION, 0.0)
    bench.link.ask(Request.SCALE_FORCE, 2.0)
    bench.step((1.0, 0, 0, 0, 0, 0), 200, move=(0.0, 0.0, 0.0))
    assert bench.fake.force[0] == pytest.approx(2.0), "the force on the hand by that of the tool, not by the motion"
    bench.link.ask(Request.SCALE_FORCE, 0.0)
    assert bench.step((1.0, 0, 0, 0, 0, 0), 300).reason == Reason.SCALED_TO_ZERO


def test_a_clutch_moves_the_device_apart_from_the_tool_without_force() -> None:
    bench = Bench(clutch="top")
    bench.step(PUSH, 20, move=(0.1, 0.0, 0.0))
    held = bench.state.pose.copy()
    bench.fake.pressed = [1, 0]
    state = bench.step(PUSH, 100, move=(0.1, 0.2, 0.0))
    np.testing.assert_allclose(state.pose, held + np.array([1e-4, 2e-4, 0, 0, 0, 0, 0]), atol=1e-12)
    assert state.reason == Reason.CLUTCHED and not bench.fake.force.any()
    bench.fake.pressed = [0, 0]
    state = bench.step(PUSH, 2, move=(0.1, 0.0, 0.0))
    np.testing.assert_allclose(state.pose[:3], held[:3] + [2e-4, 2e-4, 0], atol=1e-12)
    assert bench.fake.force.any()
    bench.replay()


SIX = ["x", "y", "z", "rx", "ry", "rz"]
WRIST = {"sensed": SIX, "actuated": SIX, "wrench_limit": [8.0] * 3 + [1.0] * 3}
WRIST["bound"] = {"wrench": [10.0] * 3 + [1.0] * 3, "rate": [1e5] * 6, "velocity": [2.0, 20.0]}
BASE = Rotation.from_rotvec([0.3, -0.5, 0.7])


def wrist(**keys: Any) -> Bench:
    """A device with all six directions, on a base that is turned."""
    bench = Bench(mount=[0.1, 0.2, 0.3, *BASE.as_quat()], **WRIST, **keys)
    bench.fake.limit = np.array(WRIST["bound"]["wrench"]) * (1 + 1e-12)
    return bench


def turn(bench: Bench, vector: Any, **how: Any) -> DeviceState:
    """A tick in which the hand turns by a rotation vector in the base [rad]; further arguments as of `step`."""
    bench.fake.pose[3:] = (Rotation.from_rotvec(vector) * Rotation.from_quat(bench.fake.pose[3:])).as_quat()
    bench.fake.twist[3:] = 1000.0 * np.array(vector)
    return bench.step(**how)


def shown(state: DeviceState) -> Rotation:
    return Rotation.from_quat(state.pose[3:])


@pytest.mark.parametrize("aligned", ["start", "mount"])
def test_a_clutch_turns_the_device_apart_from_the_tool_without_torque(aligned: str) -> None:
    """Then the tool turns about the axis of the world about which the hand does, and so does the torque."""
    hand = HandParameters(pose=(0.5, 0.6, 0.7, *Rotation.from_rotvec([0, 0, 1.0]).as_quat()), planar=False)
    bench = wrist(clutch="top", aligned=aligned, hand=hand)
    bench.fake.pose[3:] = Rotation.from_rotvec([0.4, 0.1, 0.2]).as_quat()
    pull = np.array([0.0, 0.0, 0.0, 0.1, -0.2, 0.3])
    for _ in range(20):
        turn(bench, (0.002, 0.001, -0.003), wrench=pull)
    bench.fake.pressed = [1, 0]
    held = shown(turn(bench, (0.002, 0.001, -0.003), wrench=pull))  # that tick was closed to its end
    for _ in range(200):
        state = turn(bench, (-0.003, 0.004, 0.001), wrench=pull)
        assert (shown(state) * held.inv()).magnitude() < 1e-12
        assert not state.twist.any() and not bench.fake.force.any() and state.reason == Reason.CLUTCHED
    bench.fake.pressed = [0, 0]
    state = turn(bench, (-0.003, 0.004, 0.001), wrench=pull)
    assert (shown(state) * held.inv()).magnitude() < 1e-12
    np.testing.assert_allclose(bench.fake.force[3:], BASE.inv().apply(pull[3:]), atol=1e-15)
    turned = Rotation.identity()
    for vector in ((0.002, -0.001, 0.003), (0.0, 0.005, 0.001)):
        state = turn(bench, vector, wrench=pull)
        turned = Rotation.from_rotvec(BASE.apply(vector)) * turned
        assert (shown(state) * (turned * held).inv()).magnitude() < 1e-12
        np.testing.assert_allclose(state.twist[3:], 1000.0 * BASE.apply(vector), rtol=1e-12)
    bench.replay()


@given(
    presses=st.lists(st.tuples(st.integers(1, 40), st.booleans(), st.floats(0.2, 5.0)), min_size=1, max_size=8),
    aligned=st.sampled_from(["start", "mount"]),
    acts=st.booleans(),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=25, deadline=None)
def test_the_pose_never_jumps_and_each_closing_of_the_clutch_has_the_energy_of_the_hand(
    presses: list[tuple[int, bool, float]], aligned: str, acts: bool, seed: int
) -> None:
    """A free body under what is written, a clutch that is pressed and released, and a scale that ramps."""
    mass, inertia, rng = 0.2, 1e-3, np.random.default_rng(seed)
    guard = GuardParameters.model_validate({"type": "passivity" if acts else "none"})
    hand = HandParameters(pose=(0.5, 0.6, 0.7, *Rotation.random(rng=rng).as_quat()), planar=False)
    bench = wrist(guard=guard, hand=hand, clutch="top", aligned=aligned, ramp=0.02, mass=mass, inertia=inertia)
    bench.fake.pose[3:] = Rotation.random(rng=rng).as_quat()
    velocity = np.array([0.05, 0.0, -0.02, 1.0, -0.5, 2.0])
    given, before, wrench = 0.0, None, np.zeros(6)
    for ticks, open_, scale in presses:
        bench.fake.pressed = [int(open_), 0]
        assert bench.link.ask(Request.SCALE_MOTION, scale) == ""
        for tick in range(ticks):
            if tick % 10 == 0:
                wrench = rng.normal(0.0, 1.0, 6) * np.repeat([2.0, 0.1], 3)
            last = bench.driver.reading.motion_scale
            bench.fake.twist[:] = velocity
            state = bench.step(wrench)
            if before is not None:
                most = max(last, bench.driver.reading.motion_scale) * np.linalg.norm(velocity[:3]) / 1000.0
                assert np.linalg.norm(state.pose[:3] - before.pose[:3]) <= most + 1e-12
                turned = (shown(state) * shown(before).inv()).magnitude()
                assert turned <= np.linalg.norm(velocity[3:]) / 1000.0 + 1e-12
            before = DeviceState()
            before.load(state.to_bytes())
            # of all ticks since the clutch was closed, also of the last before it opens
            assert state.port_energy.sum() == pytest.approx(given, abs=1e-12)
            assert not acts or state.port_energy.sum() > -1e-9
            force = bench.fake.force.copy()
            if bench.driver.reading.reason != Reason.NONE:
                given = 0.0
                assert not force.any()
            velocity = velocity + force / np.repeat([mass, inertia], 3) / 1000.0
            given -= float(force @ velocity) / 1000.0
            bench.fake.pose[:3] += velocity[:3] / 1000.0
            turning = Rotation.from_rotvec(velocity[3:] / 1000.0)
            bench.fake.pose[3:] = (turning * Rotation.from_quat(bench.fake.pose[3:])).as_quat()
    bench.replay()


@pytest.mark.parametrize("wrong", ["jump", "nan"])
def test_a_reading_that_is_wrong_when_the_clutch_opens_does_not_move_the_tool(wrong: str) -> None:
    """And the work of the last tick before it opens is counted, as that of all others."""
    bench = wrist(clutch="top", aligned="mount")
    poses, push = [], np.array([1.0, 0, 0, 0, 0, 0])
    for k in range(40):
        bench.fake.pressed = [int(10 <= k < 30), 0]
        if k in (10, 11):
            bench.fake.pose[0] += {10: 0.1, 11: -0.1}[k] if wrong == "jump" else 0.0
            bench.fake.pose[4] = np.nan if wrong == "nan" and k == 10 else 0.0
        poses.append(bench.step(push, move=BASE.inv().apply([0.1, 0.0, 0.0])).pose[:3].copy())
        if k == 9:
            energy = bench.state.port_energy[0]
    moved = np.diff(poses, axis=0)
    assert np.linalg.norm(moved, axis=1).max() < 1.01e-4 * 2, "of two ticks, as one reading was rejected"
    np.testing.assert_allclose(poses[29], poses[12], atol=1e-15)
    assert energy == pytest.approx(-9 * 1e-4, rel=1e-9)
    assert bench.driver.rejected == 1 and bench.fake.force.any()
    bench.replay()


def test_a_hand_is_not_placed_by_a_quaternion_of_zeros() -> None:
    bench = wrist(aligned="start")
    bench.fake.pose[3:] = 0.0
    state = bench.step(PUSH, 2)
    assert np.isfinite(state.pose).all() and not bench.fake.force.any()
    assert state.state == FAULT and "no orientation: its quaternion has the length 0" in bench.link.life.fault
    bench.fake.pose[6] = 1.0
    assert bench.link.ask(Request.ENABLE) == ""
    bench.settle()
    bench.step(PUSH, 2)
    assert bench.fake.force.any()


def test_clutching_keeps_the_length_of_a_quaternion_that_is_told_in_single_precision() -> None:
    bench = wrist(clutch="top", aligned="mount")
    rng = np.random.default_rng(2026)
    for k in range(2000):
        bench.fake.pressed = [k // 2 % 2, 0]
        bench.fake.pose[3:] = 1.0001 * Rotation.from_rotvec(rng.normal(0.0, 0.002, 3)).as_quat()
        state = bench.step()
    assert np.linalg.norm(state.pose[3:]) == pytest.approx(1.0001, abs=1e-9)


def test_walls_push_back_into_the_workspace_and_never_pull() -> None:
    bench = Bench(workspace=[-0.1, -0.1, -0.1, 0.1, 0.1, 0.1], wall=[500.0, 10.0])
    bench.fake.pose[:3] = [0.102, 0.0, -0.104]
    bench.step()
    np.testing.assert_allclose(bench.fake.force[:3], [-1.0, 0.0, 2.0], atol=1e-12)
    bench.step(move=(0.1, 0.0, 0.1))  # further in along x, out of it along z
    depth = bench.fake.pose[0] - 0.1, -0.1 - bench.fake.pose[2]
    np.testing.assert_allclose(bench.fake.force[:3], [-500 * depth[0] - 1.0, 0, 500 * depth[1] - 1.0], atol=1e-12)
    bench.step(move=(-0.2, 0.0, 0.9))  # so fast that the damper would pull
    assert bench.fake.force[2] == 0.0
    bench.fake.pose[:3] = [0.2, 0.0, 0.0]
    bench.fake.pose[:3] = [0.1, 0.0, 0.0]
    assert not bench.step(move=(0.0, 0.0, 0.0)).rendered_wrench[1:].any()


def test_the_weight_that_is_held_is_compensated_for_beside_the_port() -> None:
    """m g upwards in the world, about the centre of the mass in the hand, and not in what the hand feels."""
    rotation = Rotation.from_rotvec([0.3, -0.5, 0.7])
    bound = {"wrench": [10.0] * 6, "rate": [1e5] * 6, "velocity": [2.0, 20.0]}
    keys = {"held_mass": 0.1, "held_centre": [0.0, 0.0, 0.05], "actuated": SIX, "bound": bound}
    bench = Bench(mount=[0, 0, 0, *rotation.as_quat()], **keys)
    hand = Rotation.from_rotvec([0.4, 0.1, 0.2])
    bench.fake.pose[3:] = hand.as_quat()
    bench.fake.limit = np.full(6, 10.0)
    bench.step(count=3)
    up = rotation.inv().apply([0.0, 0.0, 0.981])
    np.testing.assert_allclose(bench.fake.force[:3], up, atol=1e-12)
    np.testing.assert_allclose(bench.fake.force[3:], np.cross(hand.apply([0, 0, 0.05]), up), atol=1e-12)
    state = bench.step(move=(0.0, 0.0, 0.1))
    assert not state.rendered_wrench.any() and not state.port_energy.any()
    bench.link.ask(Request.PAUSE)
    bench.step()
    assert not bench.fake.force.any()


def test_the_watchdog_of_the_link_ends_the_force_of_a_servo_thread_that_stands_still() -> None:
    bench = Bench()
    bench.step(PUSH, 3)
    bench.fake.now += 25 * TICK
    bench.link.check()
    assert not bench.fake.force.any()
    assert bench.step(PUSH).reason == Reason.NONE and not bench.fake.force.any()  # of the tick before it stood still
    assert bench.step(PUSH).reason == Reason.WATCHDOG and bench.fake.force.any()


class Hanging(Fake):
    """A device whose library does not return from a call until it is let go."""

    def __init__(self, device: HardwareParameters):
        super().__init__(device)
        self.hangs, self.entered, self.may = "", threading.Event(), threading.Event()

    def _called(self, name: str) -> None:
        super()._called(name)
        if self.hangs == name:
            self.entered.set()
            assert self.may.wait(60.0)


@pytest.mark.parametrize("call", ["read", "write"])
@pytest.mark.parametrize("end", ["stop", "release"])
def test_a_stop_does_not_wait_for_a_call_that_hangs(call: str, end: str) -> None:
    """The force ends as soon as the call returns, before anything else is written."""
    bench = Bench(kind=Hanging)
    bench.step(PUSH, 3)
    fake: Any = bench.fake
    fake.hangs = call
    servo = threading.Thread(target=bench.step, args=(PUSH,), daemon=True)
    servo.start()
    assert fake.entered.wait(60.0)
    stops = threading.Thread(
        target=bench.driver.release if end == "release" else lambda: bench.link.ask(Request.STOP), daemon=True
    )
    stops.start()
    stops.join(20.0)
    stopped, written = not stops.is_alive(), len(fake.written)
    fake.hangs = ""
    fake.may.set()
    servo.join(60.0)
    assert stopped, "before the call returned"
    after = [wrench.any() for wrench in fake.written[written:]]
    assert not fake.force.any() and fake.calls[-1] == "disable" and not any(after[call == "write" :])
    assert bench.step(PUSH, 2).reason == (Reason.STOPPED if end == "stop" else Reason.NOT_ENABLED)


def test_a_call_that_never_returns_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog fails, whose end is that of the process (test_dead_threads.py); and closing does not wait."""
    failed: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: failed.append(arguments.exc_value))
    monkeypatch.setattr("haptic_drivers.devices.link.HUNG", 0.05)
    fake = Hanging(data())
    link = Link(fake, fake.device, 1e-3, fake.clock)
    link.open()
    link.enable()
    fake.now, fake.hangs = TICK, "read"
    servo = threading.Thread(target=link.take, args=(0, DeviceReading()), daemon=True)
    servo.start()
    assert fake.entered.wait(60.0)
    watched = link._watched
    assert watched is not None
    watched.join(60.0)
    link.close()
    assert [str(one) for one in failed] == [
        "fake: a call of its library has not returned for 0.05 s; the device may keep its last force: switch it off"
    ]
    fake.may.set()
    servo.join(60.0)
    assert not fake.on


def test_a_driver_that_is_deactivated_while_its_device_is_opened_again_leaves_it_disabled() -> None:
    bench = Bench()
    bench.step(PUSH, 2)
    bench.fake.broken = True
    bench.step(PUSH, 2)
    bench.fake.broken, may = False, threading.Event()
    opens = bench.fake.open
    bench.fake.open = lambda: (may.wait(10.0), opens())  # type: ignore[method-assign, assignment]
    assert bench.link.ask(Request.ENABLE) == ""
    assert "is just being opened" in bench.link.ask(Request.ENABLE)
    bench.driver.release()
    may.set()
    bench.settle()
    assert (bench.link.life.state, bench.fake.on) == (DISABLED, False)
    assert "the driver is not active" in bench.link.ask(Request.ENABLE)


def test_nothing_that_was_read_before_counts_after_the_device_was_opened_again() -> None:
    """Nor is the last pose younger than it is; it is shown at rest until there is a new one."""
    bench = Bench(presence="top")
    bench.fake.pressed = [1, 0]
    bench.step(PUSH, 3, move=(0.1, 0.0, 0.0))
    assert bench.fake.force.any() and bench.state.twist.any()
    shown, bench.fake.homed = bench.state.pose.copy(), False
    assert bench.step(PUSH, 3, move=(0.0, 0.0, 0.0)).state == FAULT and "home it" in bench.link.life.fault
    before = bench.driver.reading.age
    bench.fake.homed, bench.fake.silent, bench.fake.twist[0] = True, True, 0.3
    bench.step(PUSH, 10)
    assert bench.link.ask(Request.ENABLE) == ""
    bench.settle()
    state = bench.step(PUSH, 2)
    assert (state.state, state.reason) == (ENABLED, Reason.OLD_READING)
    assert state.reading_age == pytest.approx(before + 12e-3)
    assert not state.twist.any() and not state.buttons[: len(state)].any()
    np.testing.assert_array_equal(state.pose, shown)
    bench.fake.silent, bench.fake.pose[0] = False, 0.3  # it was moved meanwhile
    state = bench.step(PUSH, 2, move=(0.0, 0.0, 0.0))
    assert state.reason == Reason.NONE and state.reading_age == 0.0 and bench.fake.force.any()
    assert bench.driver.rejected == 0
    bench.replay()


def test_a_device_that_is_not_homed_when_it_is_opened_again_is_disabled() -> None:
    bench = Bench()
    bench.step(PUSH, 3)
    bench.fake.homed = False
    state = bench.step(PUSH, 2)
    assert (state.state, state.reason) == (FAULT, Reason.NOT_HOMED) and not bench.fake.force.any()
    assert bench.link.ask(Request.ENABLE) == ""
    bench.settle()
    state = bench.step(PUSH, 2)
    assert (state.state, state.reason) == (DISABLED, Reason.NOT_HOMED)
    bench.fake.homed = True  # as its user has made it
    assert bench.link.ask(Request.ENABLE) == "" and bench.step(PUSH, 2).state == ENABLED


def test_a_device_that_can_home_is_homed_while_it_is_disabled() -> None:
    class Homed(Fake):
        def home(self) -> None:
            self._called("home")
            self.homed = True

        def disable(self) -> None:
            if self.on:
                super().disable()

    bench = Bench(kind=Homed)
    bench.link.ask(Request.DISABLE)
    bench.fake.homed = False
    bench.step(PUSH)
    assert "home it" in bench.link.ask(Request.ENABLE)
    assert bench.link.ask(Request.HOME) == "" and bench.fake.calls[-1] == "home"
    bench.step(PUSH)
    assert bench.link.ask(Request.ENABLE) == ""
    bench.step(PUSH)
    np.testing.assert_array_equal(bench.fake.force, PUSH)


REQUESTS = [Request.ENABLE, Request.DISABLE, Request.PAUSE, Request.RESUME, Request.STOP, Request.RESET, Request.HOME]
FAULTS = ["silent", "broken", "nan", "jump", "fault", "away", "unhomed", "good"]


@pytest.mark.parametrize("silent", [0, 1, 4])
def test_silence_and_then_readings_that_are_wrong_have_one_limit(silent: int) -> None:
    """The age of the last reading that was believed counts, whatever came after it; then there is a fault as well."""
    bench = Bench()
    bench.step(PUSH, 3)
    bench.fake.silent = True
    bench.step(PUSH, silent)
    bench.fake.silent, bench.fake.pose[1] = False, np.nan
    forces = []
    for _ in range(10):
        state = bench.step(PUSH)
        forces.append(bench.fake.force.any())
    assert not any(forces[5 - silent :])
    assert (state.state, bench.driver.rejected) == (FAULT, 10)
    bench.replay()


@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from([*REQUESTS, *FAULTS])), min_size=1, max_size=25))
@settings(max_examples=40, deadline=None)
def test_whatever_is_asked_and_goes_wrong_the_force_is_zero_and_the_device_can_be_used_again(script: Any) -> None:
    bench = Bench(presence="sensor")
    fake = bench.fake
    fake.present = 1
    wrong, since = False, 0
    for ticks, what in script:
        if isinstance(what, Request):
            stopped, state = bench.link.life.stopped, bench.link.life.state
            refused = bench.link.ask(what)
            if stopped and what != Request.RESET:
                assert bench.link.life.stopped, "nothing outvotes an emergency stop"
                assert bench.link.life.state != ENABLED
            if what == Request.STOP:
                assert not refused and not fake.force.any()
            if what == Request.RESET and state != DISABLED:
                assert refused and bench.link.life.stopped == stopped
        else:
            since = 0 if what not in ("good", "jump") and not wrong else since
            wrong = what not in ("good", "jump")  # after a jump, which the driver rejects, it is where it is
            fake.silent, fake.broken = what == "silent", what == "broken"
            fake.fault, fake.homed = "too hot" if what == "fault" else "", what != "unhomed"
            fake.present = 0 if what == "away" else 1
            fake.pose[1] = np.nan if what == "nan" else fake.pose[1] + 0.1 if what == "jump" else 0.0
        bench.settle()
        for _ in range(ticks):
            bench.step(PUSH)
            since += 1
            life = bench.link.life
            if fake.force.any():
                assert life.state == ENABLED and not life.stopped
                assert not wrong or since <= 5  # also where one fault follows another
            assert np.isfinite(bench.state.pose).all()
    fake.silent = fake.broken = False
    fake.fault, fake.homed, fake.present = "", True, 1
    fake.pose[1] = 0.0
    bench.step()
    for request in (Request.DISABLE, Request.RESET, Request.ENABLE):
        bench.link.ask(request)
        bench.settle()
        bench.step()
    bench.step(PUSH, 3)
    np.testing.assert_array_equal(fake.force, PUSH)
    bench.replay()


def test_the_view_says_why_nothing_is_felt(device_file: Path) -> None:
    document = read_document(find("static_wall")) | {"device": {"type": "hardware", "name": str(device_file)}}
    (trial,) = load_document(document, device_file)
    frames = LiveFrames(build_scene(trial), trial.tool_sizes, sources_of(trial.experiment))
    tool = trial.tool_sizes.tool_state()
    tool.pose[6] = 1.0
    frames.take("tool_state", tool.to_bytes())
    state = DeviceState()
    state.pose[6], state.state, state.reason = 1.0, PAUSED, Reason.ON_PAUSE
    frames.take("device_state", state.to_bytes())
    frame = frames.frame()
    assert frame is not None and "no force: the device is paused" in describe(frame)
