"""The command line: what it writes, prints and returns. Offline; the graph has tests of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Haptics, wait_until

from haptic_bench import cli, experiment
from haptic_bench.samples import Samples
from haptic_sim.energy import TERMS


def call(*arguments: str) -> int:
    """Exit status of a command in this process."""
    try:
        return cli.main(list(arguments))
    except SystemExit as exit_:  # argparse
        return int(exit_.code or 0)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An offline trial of the default experiment, shortened."""
    out = tmp_path_factory.mktemp("cli") / "trial"
    assert call("run", "corner_peg", "--mode", "offline", "--duration", "1", "--out", str(out)) == 0
    return out


def test_list_has_a_line_for_each_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(experiment.catalogue())
    (line,) = (line for line in lines if line.startswith("corner_peg "))
    assert line.split(maxsplit=1)[1] == "Peg pushed into a corner (THESIS 4.5, figures 4.13 to 4.24)"


def test_a_run_leaves_everything_in_its_directory(trial: Path) -> None:
    names = {path.name for path in trial.iterdir()}
    assert names >= {"bag", "samples.csv", "summary.json", "experiment.yaml", "report.html"}
    summary = json.loads((trial / "summary.json").read_text())
    assert summary["experiment"] == "corner_peg"
    assert (summary["mode"], summary["status"], summary["ticks"]) == ("offline", "done", 513)
    assert {"wall_time", "metrics", "claims", "timing", "machine", "versions"} <= set(summary)


def test_samples_follow_the_contract(trial: Path) -> None:
    wrench = ["fx", "fy", "fz", "tx", "ty", "tz"]
    pose = ["px", "py", "pz", "qx", "qy", "qz", "qw"]
    twist = ["vx", "vy", "vz", "wx", "wy", "wz"]
    header = ["tick", "time"]
    for prefix, suffixes in [
        ("hand", pose),
        ("hand", twist),
        ("operator", wrench),
        ("command", wrench),
        ("rendered", wrench),
        ("tool", pose),
        ("tool", twist),
        ("env", wrench),
    ]:
        header += [f"{prefix}_{suffix}" for suffix in suffixes]
    header += ["contacts", "colliding", "kinetic_energy", "q0", "q1", "q2", "v0", "v1", "v2"]
    header += ["sliding_contacts", *(f"energy_{term}" for term in TERMS)]
    first, *rows = (trial / "samples.csv").read_text().splitlines()
    assert first.split(",") == header
    assert len(rows) == 513
    samples = Samples.read_csv(trial / "samples.csv")
    np.testing.assert_array_equal(samples["tick"], np.arange(513))
    np.testing.assert_array_equal(samples["time"], np.arange(513) / 512)


def test_a_run_prints_its_directory_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "there"
    assert call("run", "corner_peg", "--mode", "offline", "--duration", "0.1", "--out", str(out)) == 0
    assert capsys.readouterr().out.splitlines()[0] == str(out)


def test_without_out_a_new_directory_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert call("run", "corner_peg", "--mode", "offline", "--duration", "0.05") == 0
    made = sorted((tmp_path / "trials").iterdir())
    assert len(made) == 2 and all(path.name.startswith("corner_peg-") for path in made)


def test_a_sweep_has_a_directory_for_each_value(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    settings = "device.impulse_rendering=[full,spread]"
    status = call("run", "corner_peg", "--mode", "offline", "--duration", "0.7", "--set", settings, "--out", str(out))
    assert status == 0
    assert (out / "report.html").is_file()
    for value in ("full", "spread"):
        summary = json.loads((out / f"device.impulse_rendering={value}" / "summary.json").read_text())
        assert summary["ticks"] == 359
    assert call("replay", str(out), "--verify") == 0
    assert call("report", str(out)) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "nothing"], "experiment 'nothing': unknown; known are: "),
        (
            ["run", "corner_peg", "--set", "contact.stiffness=-1"],
            "contact.stiffness = -1 N/m: must be > 0 N/m",
        ),
        (["run", "corner_peg", "--duration", "nan"], "duration = nan: must be finite"),
        (["run", "corner_peg", "--duration", "-3"], "duration = -3 s: must be > 0 s"),
        (["run", "corner_peg", "--mode", "sideways"], "invalid choice: 'sideways'"),
        (["report", "nowhere"], "nowhere: is not the directory of a trial"),
        (["replay", "nowhere", "--verify"], "nowhere: is not the directory of a trial"),
        (["benchmark", "nothing"], "benchmark 'nothing': unknown; known are: "),
        (["dance"], "invalid choice: 'dance'"),
    ],
)
def test_bad_input_is_exit_status_2(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(*arguments) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir()), "nothing may be written"


def test_out_that_is_not_empty_or_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious").write_text("data")
    for out, said in (
        (tmp_path, "is not empty"),
        (tmp_path / "precious", "is a file"),
        (tmp_path / "precious/x", "--out"),
    ):
        assert call("run", "corner_peg", "--mode", "offline", "--out", str(out)) == 2
        assert said in capsys.readouterr().err
    assert (tmp_path / "precious").read_text() == "data"


def test_verify_finds_a_changed_value(trial: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(trial, copy)
    assert call("replay", str(copy), "--verify") == 0
    text = (copy / "experiment.yaml").read_text().replace("stiffness: 4000.0", "stiffness: 4001.0")
    (copy / "experiment.yaml").write_text(text)
    capsys.readouterr()
    assert call("replay", str(copy), "--verify") == 1
    assert "differs from tick" in capsys.readouterr().out


def test_an_offline_run_can_be_interrupted(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    out = tmp_path / "long"
    run = haptics("run", "corner_peg", "--mode", "offline", "--duration", "3000", "--out", str(out))
    wait_until((out / "bag" / "bag_0.mcap").is_file, "the bag to be opened")
    run.interrupt()
    assert run.wait() == 130, run.err
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    rows = (out / "samples.csv").read_text().count("\n") - 1
    assert rows == summary["ticks"] > 0
    assert (out / "report.html").is_file()


def test_a_trial_that_diverges_fails_and_says_where(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    out = tmp_path / "out"
    gains = "controller.stiffness=[1e9,1e9,1e9]"
    run = haptics("run", "corner_peg", "--mode", "offline", "--set", gains, "--out", str(out))
    assert run.wait() == 1
    assert "haptics: diverged: " in run.err and "is not finite from tick" in run.err and "Traceback" not in run.err
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "failed" and "diverged" in summary["reason"]
    assert "diverged" in (out / "report.html").read_text()
    for command in (("report", str(out)), ("replay", str(out), "--verify")):
        again = haptics(*command)
        assert again.wait() == 0, again.err


def test_a_sweep_names_its_values_as_in_yaml_and_takes_one(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    short = ("--mode", "offline", "--duration", "0.02")
    for values, names in (("[true,false]", ["true", "false"]), ("[true]", ["true"])):
        out = tmp_path / "".join(names)
        key = "controller.topology_penalty"
        run = haptics("run", "linkage_topology", *short, "--set", f"{key}={values}", "--out", str(out))
        assert run.wait() == 0, run.err
        summary = json.loads((out / "summary.json").read_text())
        assert [one["directory"] for one in summary["sweep"]["runs"]] == [f"{key}={name}" for name in names]
        assert all((out / f"{key}={name}" / "summary.json").is_file() for name in names)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--duration", "{"], "--duration {: must be a number of seconds"),
        (["--set", "contact.restitution=[0.5,0.50]"], "contact.restitution: 0.5 is there twice"),
    ],
)
def test_bad_values_are_named(haptics: Callable[..., Haptics], tmp_path: Path, arguments: list[str], said: str) -> None:
    run = haptics("run", "corner_peg", "--mode", "offline", *arguments, "--out", str(tmp_path / "out"))
    assert run.wait() == 2 and said in run.err
    assert not (tmp_path / "out").exists()


def test_of_a_key_that_is_given_twice_the_last_counts() -> None:
    (trial,) = experiment.load("corner_peg", ["contact.restitution=[0.1,0.2]", "contact.restitution=0.4"])
    assert trial.experiment.contact.restitution == 0.4 and not trial.label


def test_a_summary_that_is_not_json_is_named(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = haptics("run", "corner_peg", "--mode", "offline", "--duration", "0.02", "--out", str(out))
    assert run.wait() == 0, run.err
    (out / "summary.json").write_text("xx")
    for command in (("report", str(out)), ("replay", str(out), "--verify")):
        again = haptics(*command)
        assert again.wait() == 2 and "summary.json: not JSON" in again.err
