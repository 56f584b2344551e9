"""Damage to a recorded trial is found and named, wherever it is, and repaired where something is left."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import starting

from haptic_bench import experiment
from haptic_bench.analysis.base import Analysis
from haptic_bench.commands import command_line
from haptic_bench.recording.bag import BagError, BagWriter, Definition, Topic
from haptic_bench.recording.samples import Samples
from haptic_bench.recording.summary import read_summary, write_summary
from haptic_bench.replay import verification
from haptic_bench.report import pages
from haptic_bench.running.runner import Interruption
from haptic_bench.trials import trial
from haptic_sim.parameters import ParameterError


@pytest.fixture(scope="module", autouse=True)
def blank_pages() -> Iterator[None]:
    """No test here looks at pictures."""
    with starting.blank_pages():
        yield


def record(directory: Path, *settings: str) -> Path:
    """An offline trial of 103 ticks."""
    (one,) = experiment.load("corner_peg", ["duration=0.2", "analysis=trial", *settings])
    directory.mkdir()
    trial.run_trial(one, "offline", directory, Interruption())
    return directory


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("whole") / "trial")


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "trial"))


def storage(directory: Path) -> Path:
    return directory / "bag" / "bag_0.mcap"


def ticks(directory: Path) -> int:
    summary = read_summary(directory)
    rows = len(Samples.read_csv(directory / "samples.csv"))
    assert summary["ticks"] == rows
    return rows


def test_a_whole_trial_is_identical_and_needs_no_repair(whole: Path) -> None:
    assert verification.damage(whole, read_summary(whole)) == ""
    assert verification.verify(whole) == verification.Verification()
    assert verification.repair(whole) == "whole: nothing to repair"
    assert not (whole / "damaged").exists()


def test_a_bag_that_is_cut_anywhere_is_damaged_and_repaired(copy: Path) -> None:
    data = storage(copy).read_bytes()
    rng = np.random.default_rng(11)
    for size in [0, 7, len(data) - 1, *rng.integers(8, len(data), 8).tolist()]:
        storage(copy).write_bytes(data[:size])
        found = verification.verify(copy).problem
        assert found == f"bag/bag_0.mcap is cut off: it has {size} of {len(data)} bytes"
    storage(copy).write_bytes(data[: len(data) // 2])
    said = verification.repair(copy)
    left = ticks(copy)
    assert 0 < left < 103
    assert re.fullmatch(rf"repaired: .* is cut off: .*; {left} ticks are left of 103; what was .*/damaged", said)
    summary = read_summary(copy)
    assert summary["status"] == "failed" and f"{left} ticks are left of 103" in summary["reason"]
    assert verification.verify(copy) == verification.Verification()  # what is left simulates again
    assert (copy / "damaged" / "bag" / "bag_0.mcap").read_bytes() == data[: len(data) // 2]
    assert json.loads((copy / "damaged" / "summary.json").read_text())["ticks"] == 103


def test_a_trial_that_ended_before_its_bag_was_made_is_named(copy: Path) -> None:
    """Killed in the first second, it has an experiment.yaml alone: found by the campaign."""
    shutil.rmtree(copy / "bag")
    (copy / "summary.json").unlink()
    with pytest.raises(BagError, match="it was not concluded; it has no bag: it ended before anything was recorded"):
        verification.repair(copy)
    assert not (copy / "damaged").exists()


def test_one_flipped_bit_anywhere_is_damage(copy: Path) -> None:
    data = storage(copy).read_bytes()
    rng = np.random.default_rng(12)
    for at in [0, len(data) - 1, *rng.integers(0, len(data), 12).tolist()]:
        flipped = bytearray(data)
        flipped[at] ^= 1 << int(rng.integers(8))
        storage(copy).write_bytes(flipped)
        found = verification.verify(copy).problem
        assert "is damaged" in found or "another trial" in found, (at, found)


def test_a_flipped_bit_of_a_message_costs_its_chunk(copy: Path) -> None:
    data = bytearray(storage(copy).read_bytes())
    data[len(data) // 2] ^= 4
    storage(copy).write_bytes(data)
    assert "record at byte" in verification.verify(copy).problem
    assert "ticks are left of 103" in verification.repair(copy)
    assert 0 < ticks(copy) < 103


def test_a_bag_that_is_gone_or_of_another_trial_is_named(copy: Path, tmp_path: Path) -> None:
    other = record(tmp_path / "other", "contact.stiffness=2000")
    shutil.rmtree(copy / "bag")
    assert verification.verify(copy).problem == "bag/ is missing"
    shutil.copytree(other / "bag", copy / "bag")
    assert "is of another trial" in verification.verify(copy).problem
    before = storage(copy).read_bytes()
    assert command_line.main(["repair", str(copy)]) == 1
    assert storage(copy).read_bytes() == before


def test_a_trial_without_a_digest_is_said_to_have_none_and_its_ticks_are_counted(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = read_summary(copy)
    del summary["bag"]
    write_summary(copy, summary)
    assert command_line.main(["replay", str(copy), "--verify"]) == 0
    assert "has no digest of the bag" in capsys.readouterr().err
    write_summary(copy, summary | {"ticks": 155})
    assert command_line.main(["replay", str(copy), "--verify"]) == 1
    assert "it holds 103 ticks, summary.json gives 155" in capsys.readouterr().out


def test_the_report_says_what_is_damaged(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage(copy).write_bytes(storage(copy).read_bytes()[:5000])
    assert command_line.main(["report", str(copy)]) == 0
    assert "is cut off: it has 5000 of" in capsys.readouterr().err
    assert "The recording is damaged: bag/bag_0.mcap is cut off" in (copy / "report.html").read_text()


def test_a_trial_that_was_killed_is_concluded(copy: Path) -> None:
    for name in ("summary.json", "samples.csv", "report.html", "bag/metadata.yaml"):
        (copy / name).unlink()
    os.truncate(storage(copy), 100_000)
    assert command_line.main(["repair", str(copy)]) == 0
    summary = read_summary(copy)
    assert (summary["status"], summary["mode"], summary["ticks"]) == ("interrupted", "offline", ticks(copy))
    assert verification.verify(copy) == verification.Verification()


def test_of_an_interrupted_trial_what_was_recorded_is_simulated_again(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_a_trial_that_was_killed_is_concluded(copy)
    simulated = []
    run = Analysis.run_unrecorded
    monkeypatch.setattr(Analysis, "run_unrecorded", lambda self, trial: simulated.append(trial) or run(self, trial))
    assert verification.verify(copy) == verification.Verification()
    assert [trial.experiment.last_tick + 1 for trial in simulated] == [ticks(copy)]
    assert ticks(copy) < experiment.read_resolved(copy / "experiment.yaml").experiment.last_tick


def test_messages_that_are_not_of_the_experiment_are_damage(copy: Path) -> None:
    shutil.rmtree(copy / "bag")
    topics = [Topic(f"/x/{name}", f"evil/msg/{name}", definition=Definition("}}not a message{{", "")) for name in "ab"]
    topics += [Topic("/x/tool_state", "haptics/msg/ToolState"), Topic("/x/trial_events", "haptics/msg/TrialEvent")]
    with BagWriter(copy / "bag", topics) as bag:
        for i in range(len(topics)):
            bag.write(i, 0, b"\0\1\0\0\1")
    summary = {key: value for key, value in read_summary(copy).items() if key != "bag"}
    for mode in ("offline", "realtime"):
        write_summary(copy, summary | {"mode": mode})
        assert re.search("another trial, or damaged|is damaged", verification.verify(copy).problem)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "experiment = null: must be a text"),
        ("[" * 100_000, "summary.json: "),
        ('{"a":' * 100_000, "summary.json: "),
        ("null", "must be a mapping"),
        ('{"experiment": "a", "mode": 1, "status": []}', "mode = 1: must be a text"),
        ('{"experiment": "a", "mode": "", "status": "", "sweep": 3}', "sweep.runs"),
        ('{"experiment": "a", "mode": "", "status": "", "sweep": {"runs": [3]}}', "sweep.runs"),
        ("\xff", "summary.json: "),
    ],
)
def test_what_is_no_summary_is_named(copy: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    (copy / "summary.json").write_bytes(text.encode("latin-1"))
    for command in (["report"], ["replay", "--verify"], ["replay"], ["repair"]):
        assert command_line.main([command[0], str(copy), *command[1:]]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["..", ".", "", "/tmp", "../trial", "a/b", "a\0", "link"])
def test_a_sweep_names_no_folder_but_its_own(whole: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(whole, tmp_path / "victim")
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    (sweep / "link").symlink_to(tmp_path / "victim")
    (sweep / "summary.json").write_text(
        json.dumps(
            {"experiment": "a", "mode": "", "status": "", "sweep": {"runs": [{"label": "x", "directory": name}]}}
        )
    )
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for command in (["report"], ["replay", "--verify"], ["replay"], ["repair"]):
        assert command_line.main([command[0], str(sweep), *command[1:]]) == 2
    with pytest.raises(ParameterError, match="name of a directory"):
        pages.write(sweep)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("name", ["samples.csv", "bodies.csv", "contacts.csv"])
def test_a_table_that_is_not_that_of_the_bag_is_found(copy: Path, name: str) -> None:
    table = copy / name
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join([*lines[:-1], lines[-1].rstrip("\n"), "7\n"]))
    said = verification.verify(copy).problem
    assert said == f"{name} differs from what the bag gives: put the file back as it was recorded"
    table.unlink()
    assert verification.verify(copy).problem == f"{name} is missing: put the file back as it was recorded"
    assert (table.write_text("".join(lines)), verification.verify(copy).problem)[1] == ""


def test_values_that_differ_are_said_as_numbers(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again = Analysis.run_unrecorded

    def other(self: Analysis, one: object) -> Samples:
        found = again(self, one)  # type: ignore[arg-type]
        found["hand_px"][3] = 0.5
        return found

    monkeypatch.setattr(Analysis, "run_unrecorded", other)
    said = verification.verify(copy).problem
    assert re.fullmatch(r"hand_px differs from tick 3 on: [-+.e0-9]+ recorded, 0\.5 simulated", said), said
