"""Leaves of fields that ticks have left out: counted in summary.json, said on the page, and only then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from field_scenes import ring_on_floor

from haptic_bench import experiment
from haptic_bench.running.runner import Interruption
from haptic_bench.trials.trial import run_trial
from haptic_sim.geometry.collision.detector import CollisionDetector
from haptic_sim.tool.omissions import read_omissions, write_omissions


@pytest.mark.parametrize(("budget", "device"), [(4096, True), (1, True), (1, False)])
def test_a_trial_says_what_its_ticks_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, budget: int, device: bool
) -> None:
    """A ring that falls flat on a floor touches it with many leaves at the same time."""
    monkeypatch.setitem(CollisionDetector.__init__.__kwdefaults__, "budget", budget)  # in the place of a large world
    (trial,) = experiment.load(ring_on_floor(tmp_path, device=device), [])
    out = tmp_path / "out"
    out.mkdir()
    with Interruption() as interruption:
        summary = run_trial(trial, "offline", out, interruption)
    assert summary["status"] == "done"
    count = summary["omitted_leaves"]
    assert json.loads((out / "summary.json").read_text())["omitted_leaves"] == count
    page = (out / "report.html").read_text(encoding="utf-8")
    said = f"{count} leaves of signed distance fields were left out of ticks: contacts may begin late"
    if budget == 1:
        assert count > 10
        assert said in summary["notices"] and said in page
    else:
        assert count == 0
        assert "notices" not in summary and "left out of ticks" not in page


def test_a_trial_without_fields_has_no_such_count(tmp_path: Path) -> None:
    (trial,) = experiment.load("corner_peg", ["duration=0.01", "analysis=trial"])
    out = tmp_path / "out"
    out.mkdir()
    with Interruption() as interruption:
        assert "omitted_leaves" not in run_trial(trial, "offline", out, interruption)


def test_a_count_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_omissions(tmp_path, None)
    write_omissions(tmp_path, 0)
    write_omissions("", 3)
    assert list(tmp_path.iterdir()) == [] and read_omissions(tmp_path) == 0
    write_omissions(tmp_path, 3)
    assert read_omissions(tmp_path) == 3
    (tmp_path / "omissions.json").write_text('{"leaves": "3"}')
    assert read_omissions(tmp_path) == 0
