"""The command line: what it writes, prints and returns. Offline; the graph has tests of its own."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Haptics, answer, python, wait_until

from haptic_bench import experiment
from haptic_bench.catalogue import headline
from haptic_bench.commands import cli, command_line
from haptic_bench.recording.samples import Samples
from haptic_bench.trials.trial import new_directory
from haptic_sim.dynamics.energy import TERMS
from haptic_sim.kernels import progress

PLAIN = ("--set", "analysis=trial")  # without the references of an analysis


def call(*arguments: str) -> int:
    """Exit status of a command in this process."""
    try:
        return command_line.main(list(arguments))
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
    assert line.split(maxsplit=1)[1] == "A peg pushed into a corner (THESIS 4.5, figures 4.13 to 4.24)"


def test_titles_of_the_list_are_those_of_the_files() -> None:
    for path in experiment.catalogue().values():
        document = experiment.read_document(path)
        assert headline(path) == (document["title"], document["source"])


def test_help_needs_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert call() == 0
    first = capsys.readouterr().out
    assert call("--help") == 0
    assert capsys.readouterr().out == first
    assert "haptics run corner_peg --set contact.stiffness=[1000,4000]" in first
    assert call("--version") == 0
    assert capsys.readouterr().out.startswith("haptics ")


def test_list_of_an_experiment_says_what_it_is_and_its_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("list", "bounce_settle") == 0
    out = capsys.readouterr().out
    trial = experiment.load("bounce_settle")[0].experiment
    assert out.startswith(f"bounce_settle: {trial.title}\npublished in {trial.source}\n")
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    key = lines["contact.restitution"]
    assert key.endswith("Coefficient of restitution (default: 0.0)")
    assert key.split()[1] == str(trial.contact.restitution) and key.endswith(
        "Coefficient of restitution (default: 0.0)"
    )
    assert " N/m " in lines["contact.stiffness"]
    assert lines["scene.type"].split()[1] == trial.scene.type


def test_validate_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("validate", "corner_peg", "--set", "contact.stiffness=[100,200]", "--duration", "1") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"corner_peg, contact.stiffness={value}: valid, 513 ticks at 512 Hz" for value in (100, 200)
    ]
    assert call("validate", "corner_peg", "--set", "contact.stiffness=x") == 2
    assert capsys.readouterr().err == "haptics: contact.stiffness = x: must be a number\n"
    assert not list(tmp_path.iterdir())


def test_an_error_of_ours_is_one_line_and_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: object) -> None:
        raise ZeroDivisionError("of ours\nin two lines")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(cli, "load_given", fail)
    assert call("validate", "corner_peg") == 1
    (line,) = capsys.readouterr().err.splitlines()
    (file,) = tmp_path.iterdir()
    assert line == (
        f"haptics: ZeroDivisionError: of ours in two lines; an error of haptics, not of yours; details: {file}"
    )
    text = file.read_text()
    assert "Traceback" in text and "['validate', 'corner_peg']" in text
    file.unlink()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert call("validate", "corner_peg") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "no file of details could be written: No such file or directory" in line and "test_cli.py" in line


def test_a_working_directory_that_is_gone_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert call("run", "corner_peg") == 2
    assert "the working directory: No such file or directory" in capsys.readouterr().err


@pytest.mark.long
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
    header += [f"port_{name}_{part}" for name in ("energy", "dissipated") for part in ("translation", "rotation")]
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


def test_a_directory_is_given_to_one_program_as_long_as_it_is_empty(tmp_path: Path) -> None:
    """Of two that are started at once, both found it empty, and each overwrote what the other wrote."""
    new_directory(str(tmp_path / "there"), "x")
    asks = "import sys; from haptic_bench.trials.trial import new_directory; new_directory(sys.argv[1], 'x')"
    other = python("-c", asks, str(tmp_path / "there"), cwd=tmp_path)
    assert other.status == 1 and "another program has just taken it; give another directory" in other.err
    new_directory(str(tmp_path / "elsewhere"), "x")
    assert python("-c", asks, str(tmp_path / "there"), cwd=tmp_path).status == 0


@pytest.mark.long
def test_without_out_a_new_directory_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert call("run", "corner_peg", "--mode", "offline", "--duration", "0.05") == 0
    made = sorted((tmp_path / "trials").iterdir())
    assert len(made) == 2 and all(path.name.startswith("corner_peg-") for path in made)


@pytest.mark.long
def test_a_sweep_has_a_directory_for_each_value(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    settings = ("--set", "device.impulse_rendering=[full,spread]", *PLAIN)
    assert call("run", "corner_peg", "--mode", "offline", "--duration", "0.7", *settings, "--out", str(out)) == 0
    assert (out / "report.html").is_file()
    for value in ("full", "spread"):
        summary = json.loads((out / f"device.impulse_rendering={value}" / "summary.json").read_text())
        assert summary["ticks"] == 359
    assert call("replay", str(out), "--verify") == 0
    assert call("report", str(out)) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "nothing"], "experiment nothing: unknown (known: arm_singularity, "),
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
        (["dance"], "command dance: unknown (known: list, "),
        (["rum"], "command rum: unknown; did you mean run? (known: list, "),
        (["run", "corner_pag"], "experiment corner_pag: unknown; did you mean corner_peg? (known: arm_singularity, "),
        (["run", "/nope.yaml"], "experiment /nope.yaml: cannot be read: No such file or directory"),
        (["run", "nope.yml"], "experiment nope.yml: cannot be read: No such file or directory"),
        (["run", "/"], "experiment /: must be a .yaml file, or the name of a known experiment"),
        (["run", "corner_peg", "--composd"], "--composd: unknown option; did you mean --composed? (known: "),
        (["run", "corner_peg", "--duration", ""], "duration = : must be a number"),
        (["run", "corner_peg", "--duration", "1_0"], "duration = 1_0: must be a number"),
        (["list", "nothing"], "experiment nothing: unknown (known: "),
        (["--frob"], "--frob: unknown option (known: "),
        (["run"], "the following arguments are required: experiment"),
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
    run = haptics("run", "corner_peg", "--mode", "offline", "--duration", "3000", "--out", str(out), *PLAIN)
    wait_until((out / "bag" / "bag_0.mcap").is_file, "the bag to be opened")
    run.interrupt()
    assert run.wait() == 130, run.err
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    rows = (out / "samples.csv").read_text().count("\n") - 1
    assert rows == summary["ticks"] > 0
    assert (out / "report.html").is_file()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_trial_that_diverges_fails_and_says_where(tmp_path: Path) -> None:
    out = tmp_path / "out"
    stiff = ("--set", "operator.damping=1e4", *PLAIN)  # a hand for which a tick is too long
    run = answer("run", "laparoscopic", "--mode", "offline", *stiff, "--out", str(out))
    assert run.status == 1
    assert "not finite; a simulated device has diverged: lower the gains of operator or controller" in run.err
    assert "from tick" in run.err and "Traceback" not in run.err
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "failed" and "diverged" in summary["reason"]
    assert "diverged" in (out / "report.html").read_text()
    for command in (("report", str(out)), ("replay", str(out), "--verify")):
        again = answer(*command)
        assert again.status == 0, again.err


@pytest.mark.long
def test_a_sweep_names_its_values_as_in_yaml_and_takes_one(tmp_path: Path) -> None:
    short = ("--mode", "offline", "--duration", "0.02", *PLAIN)
    for values, names in (("[true,false]", ["true", "false"]), ("[true]", ["true"])):
        out = tmp_path / "".join(names)
        key = "controller.topology_penalty"
        run = answer("run", "linkage_topology", *short, "--set", f"{key}={values}", "--out", str(out))
        assert run.status == 0, run.err
        summary = json.loads((out / "summary.json").read_text())
        assert [one["directory"] for one in summary["sweep"]["runs"]] == [f"{key}={name}" for name in names]
        assert all((out / f"{key}={name}" / "summary.json").is_file() for name in names)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--duration", "{"], "duration = {: must be a number"),
        (["--set", "contact.restitution=[0.5,0.50]"], "contact.restitution: duplicate value 0.5"),
    ],
)
def test_bad_values_are_named(tmp_path: Path, arguments: list[str], said: str) -> None:
    run = answer("run", "corner_peg", "--mode", "offline", *arguments, "--out", str(tmp_path / "out"))
    assert run.status == 2 and said in run.err
    assert not (tmp_path / "out").exists()


def test_of_a_key_that_is_given_twice_the_last_counts() -> None:
    (trial,) = experiment.load("corner_peg", ["contact.restitution=[0.1,0.2]", "contact.restitution=0.4"])
    assert trial.experiment.contact.restitution == 0.4 and not trial.label


def test_a_summary_that_is_not_json_is_named(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = answer("run", "corner_peg", "--mode", "offline", "--duration", "0.02", "--out", str(out), *PLAIN)
    assert run.status == 0, run.err
    (out / "summary.json").write_text("xx")
    for command in (("report", str(out)), ("replay", str(out), "--verify")):
        again = answer(*command)
        assert again.status == 2 and "summary.json: not JSON" in again.err


@pytest.mark.parametrize("mode", ["offline", "lockstep"])
def test_an_unstable_trial_fails_and_names_what_would_do(
    haptics: Callable[..., Haptics], tmp_path: Path, mode: str
) -> None:
    """A peg that stores more in springs, within a step, than the hand has given it, and stays in them."""
    out = tmp_path / "out"
    settings = ("environment.method=penalty", "contact.stiffness=1e7", "contact.damping=1e5", "analysis=trial")
    arguments = [argument for setting in settings for argument in ("--set", setting)]
    command = ("run", "corner_peg", "--mode", mode, "--duration", "1", *arguments, "--out", str(out))
    if mode == "offline":
        status, _, said = answer(*command)
    else:
        run = haptics(*command)
        status, said = run.wait(), run.err
    assert status == 1
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "failed"
    assert summary["reason"].startswith("unstable: springs of penalties")
    assert "contact.stiffness = 1e+07 N/m" in summary["reason"] and "a smaller stiffness" in summary["reason"]
    assert summary["reason"] in said and "Traceback" not in said
    rows = (out / "samples.csv").read_text().splitlines()
    assert 300 < len(rows) - 1 == summary["ticks"] < 500  # it meets the wall after 0.61 s
    assert (out / "report.html").is_file()
    if mode == "offline":
        again = haptics("replay", str(out), "--verify")
        assert again.wait() == 0, again.err


@pytest.mark.parametrize(
    ("terminal", "quiet", "said"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_compilation_is_shown_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool, quiet: bool, said: bool
) -> None:
    monkeypatch.setattr(progress, "report", None)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    cli._show_compilation(quiet)
    if progress.report is not None:
        progress.report(3, "haptic_sim.contact.step")
    shown = capsys.readouterr().err
    assert shown == ("haptics: compiling kernels, which is done once and can take minutes: 3 so far\n" if said else "")
