"""`haptics identify`: both trials, what it writes and where, what it refuses, and who takes the data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import answer

from haptic_bench.commands import identify as command
from haptic_bench.experiment.identified import read_identified, write_identified
from haptic_bench.recording.samples import Samples
from haptic_bench.trials.recorded import load_trial
from haptic_control.excitation import ExcitationParameters
from haptic_control.identification.device import Motion, combine, identify_motion, interval, result_of, rounded
from haptic_control.identification.fit import Estimate, Identified
from haptic_sim.parameters import ParameterError

DEVICE = """\
type: inertial
mass: 0.31            # what has to be found
inertia: 0.0007
damping: [0.9, 0.002]
resolution: [1.0e-5, 1.0e-4]
pose_noise: [1.0e-5, 1.0e-4]
"""
QUICK = (
    "--set",
    "rate=500",
    "--set",
    "controller.turn=4",
    "--set",
    "controller.force=[1, 0, 0, 0, 0, 0.01]",
    "--quiet",
)


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder with a device's file, both trials of it, and what was found."""
    folder = tmp_path_factory.mktemp("identify")
    (folder / "own.yaml").write_text(DEVICE)
    done = answer(
        "identify", str(folder / "own.yaml"), *QUICK, "--trials", str(folder / "trials"), "--json",
        "--out", str(folder / "found.yaml"),
    )  # fmt: skip
    assert done.status == 0, done.err
    return folder, json.loads(done.out)


@pytest.mark.long
def test_a_simulated_device_is_found(trials: tuple[Path, dict[str, Any]]) -> None:
    found = trials[1]["directions"]
    assert list(found) == ["x", "rz"]
    for name, mass, damping in (("x", 0.31, 0.9), ("rz", 0.0007, 0.002)):
        for key, value in (("mass", mass), ("damping", damping), ("friction", 0.0), ("delay", 0.0)):
            one = found[name][key]
            half = one["high"] - one["value"]
            assert abs(one["value"] - value) < 2.0 * half, (name, key)  # four deviations: one trial alone
        assert found[name]["mass"]["high"] - mass < 1e-3 * mass
    noise = found["x"]["noise"]["value"]
    assert noise == pytest.approx(np.hypot(1e-5, 1e-5 / np.sqrt(12.0)), rel=0.05)


def test_the_hand_is_found(trials: tuple[Path, dict[str, Any]]) -> None:
    """Its force is held over a tick, half a tick late: b loses k T/2, and a mass of -b T/2 comes to it."""
    hand, T = trials[1]["hand"], 1.0 / 500.0
    k, b = command.HAND["stiffness"], command.HAND["damping"]
    assert isinstance(k, float) and isinstance(b, float)
    assert hand["x"]["stiffness"]["value"] == pytest.approx(k, rel=2e-3)
    assert hand["x"]["damping"]["value"] == pytest.approx(b - 0.5 * k * T, rel=0.02)
    assert hand["x"]["mass"]["value"] == pytest.approx(-0.5 * b * T, abs=1e-3)
    assert hand["rz"]["stiffness"]["value"] == pytest.approx(command.HAND["turn_stiffness"], rel=0.02)


@pytest.mark.long
def test_it_is_written_and_the_passivity_analysis_takes_it(trials: tuple[Path, dict[str, Any]]) -> None:
    folder, found = trials
    path = folder / "found.yaml"
    assert found["file"] == str(path)
    text = path.read_text()
    assert text.startswith("# identified by haptics identify") and "# N s/m, N m s/rad; 95 %: 0." in text
    known = read_identified(str(path))
    assert known.model_dump() == {key: _tuple(value) for key, value in found["data"].items()}
    assert known.mass == pytest.approx(0.31, rel=1e-3) and known.damping is not None
    coupling = ("passivity", "coupling", "--stiffness", "300", "--damping", "0.1", "--rate", "1000")
    told = json.loads(answer(*coupling, "--device", str(path), "--json").out)
    assert told["required_damping"] == pytest.approx(0.25) and told["margin"] == known.damping[0] - 0.25
    path.write_text(text.replace(f"delay: {known.delay}", "delay: 0.0012"))
    late = json.loads(answer(*coupling, "--device", str(path), "--json").out)
    given = ("--device-damping", str(known.damping[0]), "--delay", "2", "--json")
    assert late == json.loads(answer(*coupling, *given).out)
    path.write_text(text)
    assert answer("passivity", "tune", "--rate", "1000", "--device", str(path)).status == 0


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@pytest.mark.long
def test_the_same_from_recorded_trials(trials: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = trials
    given = ("--free", str(folder / "trials" / "free"), "--held", str(folder / "trials" / "held"))
    done = answer("identify", str(folder / "own.yaml"), *given, "--out", str(folder / "again.yaml"))
    assert done.status == 0 and f"data, written to {folder / 'again.yaml'}" in done.out
    assert read_identified(str(folder / "again.yaml")) == read_identified(str(folder / "found.yaml"))
    done = answer("identify", str(folder / "own.yaml"), *given, "--out", str(folder / "again.yaml"))
    assert "(before: " in done.out  # what is overwritten is said
    assert (folder / "own.yaml").read_text() == DEVICE
    done = answer("identify", str(folder / "own.yaml"), *given)
    assert done.status == 0 and "data (write it with --out FILE)" in done.out
    assert (folder / "own.yaml").read_text() == DEVICE  # a simulated device is what its file says


@pytest.mark.long
def test_what_is_refused(trials: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder = trials[0]
    free, held = (str(folder / "trials" / name) for name in ("free", "held"))
    own = str(folder / "own.yaml")
    for arguments, said in (
        (("identify", own, "--free", held), f"{held}: x: an operator acts with "),
        (("identify", own, "--held", held), "--held: the trial without a hand is needed, too"),
        (("identify", own, "--free", free, "--set", "rate=500"), "leave them out with --free"),
        (("identify", own, "--free", free, "--held", free), f"--held {free}: is the trial of --free"),
        (("identify", "nothing"), "device nothing: is not a device, experiment or .yaml file"),
        (("identify", "haply_2diy"), "device haply_2diy: is hardware: record two trials"),
        (("identify", "rolling_disk", "--trials", str(tmp_path / "a"), *QUICK[:4]), ""),
        (("identify", own, *QUICK, "--set", "duration=1", "--trials", str(tmp_path / "b")), "at least 3 s are needed"),
    ):
        done = answer(*arguments)
        assert done.status == 2 and said in done.err and "Traceback" not in done.err, done.err
    one = answer("identify", own, "--free", str(tmp_path))
    assert one.status == 2 and "is this a trial's directory?" in one.err


FILE = """\
# Of our laboratory
title: a device
damping:
  - 1.0   # estimated
  - 0.1
mass: 2.0  # estimated
axes: [1, 2]
"""


def test_other_lines_of_a_file_stay(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(FILE)
    values, comments = (
        {"mass": 1.5, "damping": [0.5, 0.25], "delay": 0.001},
        dict.fromkeys(("mass", "damping", "delay"), "x"),
    )
    assert write_identified(path, values, comments, "header") == {"mass": 2.0, "damping": [1.0, 0.1], "delay": None}
    assert path.read_text() == (
        "# Of our laboratory\ntitle: a device\ndamping: [0.5, 0.25]  # x\nmass: 1.5  # x\naxes: [1, 2]\n"
        "delay: 0.001  # x\n"
    )
    path.write_text("{mass: 2.0}\n")
    with pytest.raises(ParameterError, match="cannot be changed line by line"):
        write_identified(path, values, comments, "header")
    assert path.read_text() == "{mass: 2.0}\n"


def motion(**changes: Any) -> Motion:
    n = 5000
    force = np.zeros((n, 6))
    force[:, 0] = np.sin(0.05 * np.arange(n)) + np.sin(0.011 * np.arange(n))
    still = Motion(np.zeros((n, 6)), force, np.zeros((n, 6)), np.full(6, 5.0), 1000.0)
    return still._replace(**changes)


def test_a_device_at_its_limit() -> None:
    with pytest.raises(ParameterError, match=r"x: the device was at its limit of 1 N in \d+% of the ticks"):
        identify_motion(motion(rendered=np.clip(motion().rendered, -1.0, 1.0), limit=np.ones(6)), held=False)
    with pytest.raises(ParameterError, match="rendered no wrench"):
        identify_motion(motion(rendered=np.zeros((5000, 6))), held=False)
    with pytest.raises(ParameterError, match="x: the device did not move"):
        identify_motion(motion(), held=False)


def test_the_noise_of_a_force_sensor_is_no_hand() -> None:
    noise = 0.2 * np.random.default_rng(0).normal(size=(5000, 6))
    with pytest.raises(ParameterError, match="x: the device did not move"):
        identify_motion(motion(operator=noise), held=False)
    slow = np.cumsum(noise, axis=0)
    slow *= 0.2 / slow.std(axis=0)
    with pytest.raises(ParameterError, match="x: an operator acts with"):
        identify_motion(motion(operator=slow), held=False)


@pytest.mark.long
def test_ticks_that_were_not_recorded(trials: tuple[Path, dict[str, Any]]) -> None:
    folder, whole = trials
    samples = load_trial(folder / "trials" / "free").samples
    kept = np.sort(np.random.default_rng(0).permutation(np.arange(1, len(samples)))[len(samples) // 100 :])
    some = Samples({name: samples[name][kept] for name in samples.names})
    found = identify_motion(command.motion_in(some, 500.0, np.full(6, 15.0)), held=False)["x"]
    for key in ("mass", "damping", "noise"):
        value, limits = getattr(found, key), whole["directions"]["x"][key]
        assert abs(value.value - limits["value"]) < 3.0 * (limits["high"] - limits["value"]), key


def test_columns_that_are_missing_are_named() -> None:
    table = {name: np.zeros(3) for name in ("tick", "time", "hand_px")}
    with pytest.raises(ParameterError, match=r"has no columns hand_py, hand_pz, .*rendered_fx.*operator_tz"):
        command.motion_in(Samples(table), 500.0, np.full(6, 15.0))


def test_a_device_that_no_force_moves(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("type: admittance\n")
    for name in (str(path), "admittance", "none"):
        done = answer("identify", name)
        assert done.status == 2 and "which no force moves" in done.err, done.err


def test_directions_that_differ() -> None:
    alike = [Estimate(1.0, 0.1), Estimate(1.05, 0.1)]
    rounding = [Estimate(-1.5e-15, 1e-16), Estimate(3.4e-16, 1e-16)]  # of a friction that is zero
    assert not combine(rounding, "least").differs
    assert combine(alike) == (Estimate(pytest.approx(1.025), pytest.approx(0.1)), False)
    apart = [Estimate(1.0, 0.01), Estimate(2.0, 0.01)]
    assert combine(apart).differs and combine(apart).estimate.value == pytest.approx(1.5)
    assert combine(apart).estimate.low < 1.0 and combine(apart).estimate.high > 2.0
    assert combine(apart, "least").estimate == apart[0] and combine(apart, "largest").estimate == apart[1]


def test_digits() -> None:
    assert rounded(Estimate(0.123456, 0.002)) == 0.1235 and rounded(Estimate(-1e-9, 1e-8)) == 0.0
    assert interval(Estimate(0.001, 0.002)) == (0.0, 0.003)
    assert rounded(Estimate(1e-17, 1e-18)) == 0.0  # of an ideal device that is simulated


def test_what_is_found_of_an_ideal_device_can_be_written(tmp_path: Path) -> None:
    nothing, something = Estimate(1e-17, 1e-18), Estimate(0.3, 1e-9)
    free = {"x": Identified(something, nothing, nothing, Estimate(1e-8, 1e-9), nothing, nothing, 1.0, 8.0)}
    found = result_of(free).values
    assert found["damping"] == [0.0, 0.0] and found["delay"] == 0.0
    write_identified(tmp_path / "found.yaml", found, dict.fromkeys(found, ""), "an ideal device")
    assert read_identified(str(tmp_path / "found.yaml")).delay == 0.0


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"band": [40.0, 1.0]}, "the lowest frequency must be below the highest"),
        ({"force": [0.0, 0.0, 0.0]}, "must not be 0 in all directions"),
        ({"turn": 0.5}, "greater than or equal to 1"),
    ],
)
def test_excitations_that_are_none(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ExcitationParameters.model_validate(values)
