"""The probe `robots` finds what is unsafe in what was heard after a kill; its programs are processes of their own."""

from __future__ import annotations

import json
import os
import signal
import sys
import types
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from conftest import DEADLINE, wait_until

from campaign import robots, suite
from campaign.cases import Fork, Outcome, faults_of, finish
from campaign.robots import Series
from haptic_robot.adapters import Quantity

AT, UNTIL = 1000.0, 1000.7  # [s]
SPEED = 0.2  # [m/s] of the command before the kill


class Heard:
    """What a listener would have heard of an arm that moves and presses until some instants after a kill at AT.

    Args:
        commanded: until when the command changes [s].
        felt: until when there is a force [s].
        jump: of the command at the kill [m].
        settled: when the arm comes to rest [s].
        silent: whether the device says nothing after the kill.
    """

    def __init__(self, commanded=0.02, felt=0.02, jump=0.0, settled=0.05, silent=False):
        self._ends = {"servo_cp": commanded, "measured_cp": settled}
        self._felt, self._jump, self._silent = felt, jump, silent
        self._times = AT + np.arange(-200, 690) * 1e-3

    def values(self, name: str, quantity: Quantity) -> Series:
        values = np.zeros((len(self._times), 7 if quantity is Quantity.POSE else 6))
        if quantity is Quantity.POSE:
            values[:, 0] = SPEED * np.minimum(self._times - AT, self._ends[name])
            values[self._times > AT, 0] += self._jump * (name == "servo_cp")
        else:
            values[:, 0] = -8.0
        return Series(self._times, values)

    def column(self, topic: str, message: Any, field: str) -> Series:
        values = np.zeros((len(self._times), 6))
        values[self._times - AT <= self._felt + 1e-9, 0] = 5.0
        kept = self._times <= AT if self._silent else np.isfinite(self._times)
        return Series(self._times[kept], values[kept])


def _found(target: str = "controller", **given: Any) -> robots.After:
    return robots._after(cast(robots.Listener, Heard(**given)), AT, UNTIL, target)


@pytest.mark.parametrize("target", robots.TARGETS)
def test_what_is_safe_has_no_fault(target: str) -> None:
    found = _found(target)
    assert found.faults == []
    assert [found.commanded, found.felt] == pytest.approx([0.02, 0.02], abs=1.1e-3)  # of one message
    assert found.pressed == pytest.approx(8.0) and found.hand == pytest.approx(5.0)
    assert found.gap == pytest.approx(UNTIL - AT - 0.689, abs=1e-6)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"commanded": 0.08, "settled": 0.08}, "the arm was commanded something else 80 ms after the death"),
        ({"felt": 0.09}, "there was a force 90 ms after the death of the controller"),
        ({"jump": 0.008}, "what the arm was commanded jumped by 8.0 mm"),
        ({"settled": 0.6}, "the arm still moves at the end"),
        ({"silent": True}, "no force was received after the end of the controller"),
    ],
)
def test_what_is_unsafe_is_found(given: dict[str, Any], fault: str) -> None:
    assert any(line.startswith(fault) for line in _found(**given).faults), _found(**given).faults


def test_only_a_trial_without_recorder_or_program_may_go_on() -> None:
    goes_on = {"commanded": 0.5, "felt": 0.5, "settled": 0.5}
    for target in ("recorder", "program"):
        assert _found(target, **goes_on).faults == []
    assert len(_found("environment", **goes_on).faults) >= 2


def test_what_comes_after_a_stopped_process_goes_on_is_not_counted() -> None:
    """The trial is allowed to: but for a jump, which is looked for all the time."""
    heard = cast(robots.Listener, Heard(commanded=0.6, felt=0.6))
    assert max(robots._changes(heard.values("servo_cp", Quantity.POSE).until(AT + 0.04), AT)) <= 0.04
    assert robots._after(heard, AT, AT + 0.04, "controller").felt <= 0.04


PROGRAM = """
import os, signal, sys
print("out", sys.argv[1:], os.getsid(0) == os.getpid())
print("err", file=sys.stderr)
if sys.argv[1] == "wait":
    signal.pause()
sys.exit(3)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "forked_program.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "forked_program"


def test_a_fork_is_a_program(tmp_path: Path, module: str) -> None:
    ended = finish(Fork(tmp_path, module, "a", "b"), tmp_path)
    assert ended == (3, "out ['a', 'b'] False\n", "err\n")
    own = Fork(tmp_path, module, "a", output="all.txt", session=True)
    assert own.wait(DEADLINE) == own.poll() == 3
    assert sorted((tmp_path / "all.txt").read_text().splitlines()) == ["err", "out ['a'] True"]


def test_a_fork_is_killed_as_a_program_is(tmp_path: Path, module: str) -> None:
    waiting = Fork(tmp_path, module, "wait")
    assert waiting.poll() is None
    os.kill(waiting.pid, signal.SIGKILL)
    ended = finish(waiting, tmp_path)
    assert ended is not None and ended.status == -signal.SIGKILL
    assert len(list(faults_of(ended, {0}))) == 1
    waiting.kill()  # which has ended


def test_a_case_is_a_fork_of_what_is_warm_and_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warmed: list[int] = []
    probe = types.ModuleType("campaign.probe_of_test")
    probe.warm = lambda: warmed.append(os.getpid())  # type: ignore[attr-defined]
    probe.case = lambda number, folder: Outcome(  # type: ignore[attr-defined]
        f"{number} {len(warmed)}", ["a fault"], figures={"load": 1.5}
    )
    monkeypatch.setitem(sys.modules, probe.__name__, probe)
    monkeypatch.setattr(suite, "WARM", ("probe_of_test",))
    tally = suite.Tally()
    suite._case("probe_of_test", tally, 7, tmp_path)
    assert warmed == [os.getpid()]
    assert tally.faults == {7: ("7 2", ["a fault"])}  # in the fork it is called again: by the case
    (line,) = (tmp_path / "cases.jsonl").read_text().splitlines()
    kept = json.loads(line)
    assert (kept["probe"], kept["number"], kept["figures"]) == ("probe_of_test", 7, {"load": 1.5})


def test_a_case_that_dies_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = types.ModuleType("campaign.probe_of_test")
    probe.warm = lambda: None  # type: ignore[attr-defined]
    probe.case = lambda number, folder: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, probe.__name__, probe)
    monkeypatch.setattr(suite, "WARM", ("probe_of_test",))
    tally = suite.Tally()
    suite._case("probe_of_test", tally, 0, tmp_path)
    assert tally.faults[0][1] == ["the case ended with -9: "]


INTERRUPTED = """
import os, sys, time, types
from pathlib import Path
from campaign import suite

def case(number, folder):
    (folder / "begun").write_text(str(os.getpid()))
    time.sleep(1000.0)

probe = types.ModuleType("campaign.probe_of_test")
probe.warm, probe.case = lambda: None, case
sys.modules[probe.__name__] = probe
suite.PROBES, suite.TURNS, suite.WARM = {"probe_of_test": ""}, ("probe_of_test",), ("probe_of_test",)
sys.exit(suite.run(10.0, ["probe_of_test"], 0, 1, Path(sys.argv[1])))
"""


def test_a_campaign_that_is_interrupted_ends_its_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "interrupted_campaign.py").write_text(INTERRUPTED)
    monkeypatch.syspath_prepend(str(tmp_path))
    out = tmp_path / "out"
    out.mkdir()
    campaign = Fork(tmp_path, "interrupted_campaign", str(out))
    wait_until(lambda: [path for path in out.glob("*/begun") if path.read_text()], "the case")
    (begun,) = out.glob("*/begun")
    campaign.send_signal(signal.SIGINT)
    assert finish(campaign, tmp_path) is not None and campaign.poll() == 0
    assert json.loads((out / "campaign.json").read_text())["probes"]["probe_of_test"]["cases"] == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)
