"""Leaves of fields that ticks have left out: counted in summary.json, said on the page, and only then."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Haptics, sampled, wait_until
from field_scenes import ring_on_floor

from haptic_bench import experiment
from haptic_bench.running.runner import Interruption
from haptic_bench.trials.trial import run_trial
from haptic_sim.geometry.collision.detector import CollisionDetector
from haptic_sim.tool.omissions import read_omissions, write_omissions


@pytest.mark.parametrize(("budget", "device"), sampled([(4096, True), (1, True), (1, False)], (1, True)))
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


SMALL = """
from typing import Literal

from haptic_sim.geometry.collision.detector import CollisionDetector
from haptic_sim.tool.engines import HapticsParameters

CollisionDetector.__init__.__kwdefaults__["budget"] = 1  # in the place of a large world


class SmallParameters(HapticsParameters):
    type: Literal["small"] = "small"
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("interrupted", [False, True], ids=["to its end", "interrupted"])
@pytest.mark.parametrize(
    ("device", "flags", "changes"),
    [
        (True, ["lockstep"], {}),
        (True, ["lockstep"], {"local_model": {"type": "full"}}),
        (False, ["lockstep"], {}),
        (True, ["realtime"], {}),
        (True, ["realtime", "--composed"], {}),
        (False, ["realtime"], {}),
    ],
    ids=["lockstep", "surveyed", "lockstep without a device", "realtime", "composed", "realtime without a device"],
)
def test_nodes_say_what_their_ticks_left_out_however_they_end(
    haptics: Callable[..., Haptics],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    device: bool,
    flags: list[str],
    changes: dict[str, object],
    interrupted: bool,
) -> None:
    """Where time is that of the trial, as many as offline, and those of the tick after the last, which is prepared."""
    graph_checks = pytest.importorskip("graph_checks", reason="needs ROS 2")
    (tmp_path / "small_budget.py").write_text(SMALL)
    monkeypatch.setenv("HAPTICS_PYTHONPATH", str(tmp_path))
    engine = {"engine": "small_budget:SmallParameters", **({"rate": 60} if "local_model" in changes else {})}
    file = ring_on_floor(
        tmp_path, device=device, environment=engine, duration=3000 if interrupted else 0.2, rate=200, **changes
    )

    def count(*mode: str) -> int:
        out = tmp_path / mode[0]
        run = haptics("run", file, "--mode", *mode, "--set", "analysis=trial", "--out", str(out))
        if interrupted:
            wait_until(graph_checks.started(out), "the first chunk")
            time.sleep(0.5)  # of ticks that follow
            run.interrupt()
        assert run.wait() == (130 if interrupted else 0), run.err
        found = json.loads((out / "summary.json").read_text())["omitted_leaves"]
        assert isinstance(found, int)
        return found

    found = count(*flags)
    assert found > 10
    if flags == ["lockstep"] and not interrupted:
        offline = count("offline")
        assert offline <= found < 1.1 * offline
