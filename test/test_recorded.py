"""Trials for programs: what is run in memory is what the command line leaves on disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import starting
from conftest import PACKAGES, ROOT

from haptic_bench import load_trial, run
from haptic_bench.experiment import find, read_document
from haptic_bench.recording.summary import write_summary
from haptic_sim.parameters import ParameterError

SETTINGS = {"contact.friction.static": 0.4, "contact.friction.kinetic": 0.3}


@pytest.fixture(scope="module", autouse=True)
def blank_pages() -> Iterator[None]:
    """No test here looks at pictures."""
    with starting.blank_pages():
        yield


def test_in_memory_and_on_disk_it_is_the_same(tmp_path: Path) -> None:
    in_memory = run("incline", SETTINGS, duration=0.05)
    on_disk = run("incline", SETTINGS, duration=0.05, out=tmp_path / "out")
    assert (in_memory.status, on_disk.status) == ("done", "done")
    assert on_disk.directory == tmp_path / "out"
    assert (on_disk.directory / "report.html").is_file()
    assert in_memory.directory is None
    assert in_memory.experiment.contact.friction.static == on_disk.experiment.contact.friction.static == 0.4
    assert in_memory.samples.names == on_disk.samples.names
    for name in in_memory.samples.names:
        np.testing.assert_array_equal(in_memory.samples[name], on_disk.samples[name])
    assert in_memory.metrics == on_disk.metrics
    assert in_memory.claims == on_disk.claims
    assert len(in_memory.samples) == in_memory.summary["ticks"]


def test_an_unstable_trial_has_failed_in_memory_as_on_disk(tmp_path: Path) -> None:
    stiff = {"contact.stiffness": 1e7, "device.impulse_rendering": "scaled"}
    in_memory = run("corner_peg", stiff, duration=0.8)
    on_disk = run("corner_peg", stiff, duration=0.8, out=tmp_path / "out")
    assert (in_memory.status, on_disk.status) == ("failed", "failed")
    assert in_memory.summary["reason"].startswith("unstable: springs of penalties")
    assert in_memory.summary["reason"] == on_disk.summary["reason"]
    assert len(in_memory.samples) == on_disk.summary["ticks"] < 0.8 * 512
    assert in_memory.metrics == on_disk.metrics


def test_an_active_display_has_failed_in_memory_as_on_disk(tmp_path: Path) -> None:
    held = {"local_model.type": "held", "local_model.epsilon": 0}
    in_memory = run("tight_clearance", held, duration=0.4)
    on_disk = run("tight_clearance", held, duration=0.4, out=tmp_path / "out")
    assert (in_memory.status, on_disk.status) == ("failed", "failed")
    assert in_memory.summary["reason"] == on_disk.summary["reason"]
    assert in_memory.summary["display"] == on_disk.summary["display"]
    assert [claim["holds"] for claim in in_memory.claims] == [claim["holds"] for claim in on_disk.claims]


def test_an_experiment_as_data_is_that_of_the_file() -> None:
    document = read_document(find("incline"))
    again, known = run(document, duration=0.02), run("incline", duration=0.02)
    np.testing.assert_array_equal(again.samples["tool_px"], known.samples["tool_px"])


def test_values_of_all_kinds_are_taken() -> None:
    wrench = np.array([0.5, 0, 0, 0, 0, 1e-9])
    trial = run(
        "incline", {"operator.wrench": wrench, "environment.method": "penalty", "seed": np.int64(3)}, duration=0.01
    )
    assert trial.experiment.operator.wrench == tuple(wrench.tolist())
    assert (trial.experiment.environment.method.type, trial.experiment.seed) == ("penalty", 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"experiment": "inclin"}, "experiment inclin: unknown; did you mean incline\\?"),
        ({"experiment": "incline", "settings": {"contact.stifness": 3}}, "contact.stifness: unknown key"),
        ({"experiment": "incline", "settings": {"rate": [500, 1000]}}, "a list of values sweeps"),
        ({"experiment": "incline", "mode": "fast"}, "mode = fast: must be one of offline, lockstep, realtime"),
        ({"experiment": {"name": "mine"}}, "operator"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        run(**arguments)


def test_a_sweep_is_told_to_choose_a_trial(tmp_path: Path) -> None:
    runs = [{"label": label, "directory": label} for label in ("rate=500", "rate=1000")]
    sweep = {"keys": ["rate"], "runs": runs}
    write_summary(tmp_path, {"experiment": "incline", "mode": "offline", "status": "done", "sweep": sweep})
    with pytest.raises(ParameterError, match="directory of a sweep; load one of its trials: rate=500, rate=1000"):
        load_trial(tmp_path)
    with pytest.raises(ParameterError, match="cannot be read"):
        load_trial(tmp_path / "nowhere")


def test_samples_as_a_dataframe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever pandas does with it: it gets all columns, and time becomes the index."""

    class DataFrame:
        def __init__(self, columns: dict[str, np.ndarray]):
            self.columns = columns

        def set_index(self, name: str) -> tuple[str, dict[str, np.ndarray]]:
            return name, self.columns

    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=DataFrame))  # type: ignore[arg-type]
    trial = run("incline", duration=0.01)
    index, columns = trial.to_dataframe()
    assert index == "time" and list(columns) == trial.samples.names


@pytest.mark.exhaustive
def test_an_installation_needs_no_ros(tmp_path: Path) -> None:
    """As pip lays it out: packages and share below one prefix; and without the packages of ROS 2."""
    packages = tmp_path / "lib" / "python3" / "site-packages"
    for name in (
        "haptic_sim",
        "haptic_ros",
        "haptic_control",
        "haptic_drivers",
        "haptic_view",
        "haptic_bench",
        "haptic_experiments",
        "haptic_study",
    ):
        shutil.copytree(PACKAGES / name, packages / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("config", "msg"):
        shutil.copytree(ROOT / name, tmp_path / "share" / "haptics" / name)
    registered = ConfigParser()
    registered.read(ROOT / "setup.cfg")
    info = packages / "haptics-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: haptics\nVersion: 0.1.0\n")
    groups = registered["options.entry_points"].items()
    (info / "entry_points.txt").write_text("\n".join(f"[{group}]{lines}" for group, lines in groups))
    program = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('rclpy', 'ament_index_python', 'haptics', 'launch')))\n"
        f"sys.path.insert(0, {str(packages)!r})\n"
        "import haptic_bench\n"
        "from haptic_bench.commands import command_line; from haptic_bench import load_trial, run\n"
        f"assert haptic_bench.__file__.startswith({str(packages)!r})\n"
        "print(len(run('incline', duration=0.01).samples))\n"
        "assert command_line.main(['list']) == 0\n"
        "assert command_line.main(['run', 'incline', '--mode', 'offline', '--duration', '0.01', '--out', 'out']) == 0\n"
        "print(load_trial('out').status)\n"
    )
    environment = os.environ | {"AMENT_PREFIX_PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "11" and lines[-1] == "done"
    assert any(line.startswith("incline ") for line in lines)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: run(None), "experiment = null: must be a path, as text or a pathlib.Path"),  # type: ignore[arg-type]
        (lambda: run("corner_peg", "a=1"), "settings = a=1: must be a mapping of keys to values"),  # type: ignore[arg-type]
        (lambda: load_trial(None), "directory = null: must be a path, as text or a pathlib.Path"),  # type: ignore[arg-type]
    ],
)
def test_arguments_of_another_type_are_named(call: Any, said: str) -> None:
    with pytest.raises(ParameterError) as error:
        call()
    assert error.value.problems == [said]
