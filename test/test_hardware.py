"""A hardware device behind the driver: frames, limits, scales, and what ends its force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from fake_hardware import DATA, Bench, data
from pydantic import ValidationError
from scipy.spatial.transform import Rotation

from haptic_bench.experiment import read_resolved
from haptic_bench.experiment.loading import find, load_document, read_document, write_resolved
from haptic_bench.experiment.system import load_system
from haptic_drivers.devices.life import Request
from haptic_drivers.devices.parameters import HardwareParameters, build_hardware
from haptic_drivers.driver import HandParameters
from haptic_sim.messages import DISABLED, ENABLED, FAULT, Reason
from haptic_sim.parameters import ParameterError

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
    wait_until_open(bench)
    bench.step(PUSH, 3)
    np.testing.assert_array_equal(bench.fake.force, PUSH)


def wait_until_open(bench: Bench) -> None:
    """The device is opened by another thread."""
    import threading

    for thread in threading.enumerate():
        if thread.name == "device opening":
            thread.join(10.0)


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
    with pytest.raises(ParameterError, match=r"there is no module haptic_drivers[.]devices[.]nothing"):
        build_hardware(data(module="nothing"))
    with pytest.raises(ParameterError, match="has no Connection"):
        build_hardware(data(module="interface"))


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
    assert any("has no effect, a person holds the device" in note for note in trial.notes)
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
    with pytest.raises(ParameterError, match=r"device.name = nothing: is no device of config/devices"):
        load_document(document | {"device": {"type": "hardware", "name": "nothing"}}, device_file)
    device_file.write_text("module: fake_hardware\nsensd: [x]\n")
    with pytest.raises(ParameterError, match=r"device.sensd: unknown key; did you mean sensed"):
        load_document(document | {"device": {"type": "hardware", "name": str(device_file)}}, device_file)


def test_a_world_is_started_with_a_hardware_device(device_file: Path) -> None:
    trial = load_system("three_joints", str(device_file), ["scene.tool=forearm"])
    assert trial.experiment.device.type == "hardware" and trial.experiment.controller.type == "virtual_coupling"
