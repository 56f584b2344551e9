"""Export of recorded trials: what is written equals the samples, and what cannot be exported is refused."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

from haptic_bench import run
from haptic_bench.commands import command_line
from haptic_bench.commands.export import exported_table
from haptic_bench.recording import exports
from haptic_bench.recording.exports import FORMATS
from haptic_bench.recording.samples import Samples
from haptic_bench.recording.tables import Column, unit_of
from haptic_sim.parameters import ParameterError

PACKAGES = (  # with what they need beside the packages of the environment
    *("h5py==3.16.0", "zarr==3.1.6", "donfig", "numcodecs", "google-crc32c", "packaging", "typing-extensions"),
    *("pyarrow", "pandas", "python-dateutil", "six", "tzdata"),
)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short trial of an arm at a wall, with its directory."""
    out = tmp_path_factory.mktemp("export") / "trial"
    run("robot_wall", {"analysis": "trial"}, duration=0.05, out=out)
    return out


def call(*arguments: str) -> int:
    try:
        return command_line.main(list(arguments))
    except SystemExit as exit_:
        return int(exit_.code or 0)


def test_csv_has_the_samples_bit_by_bit_with_units_and_events(trial: Path, tmp_path: Path) -> None:
    assert call("export", str(trial), "--format", "csv", "--out", str(tmp_path / "out")) == 0
    folder, samples = tmp_path / "out/trial_0", Samples.read_csv(trial / "samples.csv")
    found = Samples.read_csv(folder / "samples.csv")
    assert found.names == samples.names
    for name in samples.names:
        np.testing.assert_array_equal(found[name], samples[name])
    described = json.loads((folder / "metadata.json").read_text())
    assert described["columns"]["hand_px"] == {"unit": "m", "frame": "world"}
    assert described["rate"] == 1000.0 and described["keys"]["environment"]["engine"]["type"] == "robot"
    with (folder / "events.csv").open() as file:
        events = list(csv.DictReader(file))
    assert [one["name"] for one in events][-1:] == ["finished"]


def test_every_column_of_a_trial_has_a_unit(trial: Path) -> None:
    table = exported_table(trial)
    assert not [name for name, column in table.columns.items() if not column.unit]
    units = {"hand_wx": "rad/s", "left_rendered_tz": "N m", "port_energy_rotation": "J", "q3": "SI", "tick": "1"}
    assert {name: unit_of(name)[0] for name in units} == units


@pytest.mark.parametrize(("hostile", "problem"), [("missing", "is not the directory"), ("damaged", "summary.json")])
def test_a_directory_that_is_no_trial_is_refused(
    hostile: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if hostile == "damaged":
        (tmp_path / "summary.json").write_text("{]")
    assert call("export", str(tmp_path), "--format", "csv", "--out", str(tmp_path / "out")) == 2
    said = capsys.readouterr().err
    assert problem in said and "Traceback" not in said and not (tmp_path / "out").exists()


def test_a_package_that_is_missing_is_named_and_nothing_is_left(
    trial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("h5py", "zarr", "pyarrow"):
        monkeypatch.setitem(sys.modules, module, None)
    for form, package in (("hdf5", "h5py"), ("zarr", "zarr>=3"), ("lerobot", "pyarrow")):
        assert call("export", str(trial), "--format", form, "--out", str(tmp_path / form)) == 2
        assert f"--format {form}: needs {package}, which is not installed" in capsys.readouterr().err
        assert not (tmp_path / form).exists()


def test_trials_that_are_no_episodes_of_one_dataset_are_refused(trial: Path) -> None:
    """Another rate, other columns, and a tick that was lost."""
    table = exported_table(trial)
    slower = table._replace(metadata=table.metadata | {"rate": 512.0})
    more = table._replace(columns=table.columns | {"extra": Column(np.zeros(table.rows), "1", "")})
    kept = np.delete(np.arange(table.rows), 10)
    lost = table._replace(columns={n: c._replace(values=c.values[kept]) for n, c in table.columns.items()})
    with pytest.raises(ParameterError) as caught:
        exports._check_episodes([table, slower, more, lost])
    first, second, third = caught.value.problems
    assert "trial 1: rate = 512 Hz" in first and "trial 2" in second and "extra" in second
    assert "trial 3: has 1 gaps between its ticks" in third


def test_the_command_offers_the_formats_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("export", "anywhere", "--format", "matlab") == 2
    said = capsys.readouterr().err
    assert all(form in said for form in FORMATS)


@pytest.mark.exhaustive
def test_each_format_gives_back_the_samples(trial: Path, tmp_path: Path) -> None:
    """With the packages that the formats need in a folder of their own; skipped where they cannot be installed."""
    target = tmp_path / "packages"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), *PACKAGES]
    done = subprocess.run(install, capture_output=True, text=True, timeout=400)
    if done.returncode:
        pytest.skip(f"no packages: {done.stderr[-200:]}")
    path = os.pathsep.join(filter(None, (str(target), str(ROOT), os.environ.get("PYTHONPATH", ""))))
    script = [sys.executable, str(ROOT / "test/exported_formats.py"), str(trial), str(tmp_path / "out")]
    read = subprocess.run(script, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=200)
    assert read.returncode == 0, read.stderr
