"""Leaves of fields that ticks have left out: counted in summary.json, said on the page, and only then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trimesh
import yaml

from haptic_bench import experiment
from haptic_bench.running.runner import Interruption
from haptic_bench.trials.trial import run_trial
from haptic_sim.geometry.collision.detector import CollisionDetector
from haptic_sim.tool.omissions import read_omissions, write_omissions


@pytest.mark.parametrize(("budget", "device"), [(4096, "inertial"), (1, "inertial"), (1, "none")])
def test_a_trial_says_what_its_ticks_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, budget: int, device: str
) -> None:
    """A ring that falls flat on a floor touches it with many leaves at the same time."""
    monkeypatch.setitem(CollisionDetector.__init__.__kwdefaults__, "budget", budget)  # in the place of a large world
    trimesh.creation.torus(0.02, 0.005, major_sections=48, minor_sections=24).export(tmp_path / "ring.stl")
    shape = {"type": "mesh", "path": str(tmp_path / "ring.stl"), "as": "field", "error": 2.5e-4}
    bodies = {
        "ring": {"joint": "free", "mass": 0.1, "position": [0, 0, 0.0055], "shapes": [shape]},
        "floor": {"joint": "fixed", "shapes": [{"type": "plane"}]},
    }
    document = {
        "name": "rings",
        "duration": 0.05,
        "rate": 1000,
        "device": {"type": device, **({"mass": 0.2, "inertia": 1e-4} if device == "inertial" else {})},
        **({"controller": {"type": "virtual_coupling"}} if device == "inertial" else {}),
        "operator": {"type": "constant", "wrench": [0, 0, -1, 0, 0, 0]},
        "scene": {"type": "world", "tool": "ring", "bodies": bodies},
    }
    (tmp_path / "rings.yaml").write_text(yaml.safe_dump(document))
    (trial,) = experiment.load(str(tmp_path / "rings.yaml"), [])
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
