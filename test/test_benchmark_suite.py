"""The benchmarks' table and record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import suite
from haptic_bench.commands import command_line
from haptic_sim.parameters import ParameterError


def results() -> list[suite.Result]:
    return [suite._row("fast", 1.0, "us", "<= 2", True), suite._row("slow", 3.0, "us", "<= 2", False)]


def test_save_writes_a_record_with_machine_versions_and_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(suite, "BENCHMARKS", {"control": results})
    assert command_line.main(["benchmark", "control", "--save"]) == 0
    (path,) = (tmp_path / "records").iterdir()
    record = json.loads(path.read_text(encoding="utf-8"))
    assert path.name == f"control_{record['commit'] or 'unknown'}.json"
    assert record["results"] == results()
    assert record["machine"]["cores"] >= 1
    assert record["versions"]
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in shown] == ["met", "MISSED"]


def test_an_unknown_benchmark_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(ParameterError, match="'contacts': unknown; known are: offline, lockstep, graph, contact"):
        suite.known("contacts")
