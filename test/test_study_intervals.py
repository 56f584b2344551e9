"""Trials on the clock in one process, and the process that presents them to a person."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import wait_until
from fake_haply_2diy import board
from study_sessions import small

from haptic_bench.analysis.base import analysis_of
from haptic_bench.experiment import read_resolved
from haptic_bench.recording.summary import read_summary
from haptic_bench.recording.trial_bag import read_messages
from haptic_bench.replay.verification import verify, with_recorded_events
from haptic_bench.trials.paced import PacedTrial
from haptic_bench.trials.trial import read_samples
from haptic_drivers.devices import life
from haptic_drivers.pointing import Sender
from haptic_sim.parameters import ParameterError
from haptic_study.file import Study
from haptic_study.intervals import Begun, Ended, Failed, Frame, Gone, Intervals, Noted, Ready, Report, Stored

PATIENCE = 60.0  # [s] for a report
SHORT = {"duration": 0.3}


def pressing(paced: PacedTrial, last: int) -> Callable[[int], bool]:
    """A pointer that presses the tip into the surface, and ends the trial after a tick."""
    sender = Sender(paced.offer)

    def attend(tick: int) -> bool:
        if tick == 5:
            sender.grab(oriented=False)
        elif tick % 10 == 5:
            sender.move((0.0, 0.0, -0.0004 * tick, 0.0, 0.0, 0.0, 1.0))
        return tick == last

    return attend


@pytest.mark.exhaustive
def test_a_trial_on_the_clock_has_the_bits_of_an_offline_run(tmp_path: Path) -> None:
    """What a pointer did in it, given to an offline run, gives the same samples; the trial is one of as many ticks."""
    one = small().trial({"duration": 0.6})
    paced, other = PacedTrial(one), PacedTrial(one)  # of the same trial: neither changes the other
    other.run(lambda tick: tick == 3)
    paced.run(pressing(paced, 250))
    paced.write(tmp_path)
    summary = read_summary(tmp_path)
    assert (summary["status"], summary["ticks"], summary["mode"]) == ("done", 251, "realtime")
    assert summary["timing"]["executed"] == 251 and summary["bag"]
    assert verify(tmp_path).problem == ""
    trial = read_resolved(tmp_path / "experiment.yaml")
    recorded = read_samples(trial, tmp_path)
    assert np.abs(recorded.wrench("rendered")).max() > 0.5  # [N]: it was pressed
    again = analysis_of(trial.experiment).run_unrecorded(with_recorded_events(trial, read_messages(tmp_path)))
    for name in recorded.names:
        np.testing.assert_array_equal(recorded[name], again[name][: len(recorded)], err_msg=name)
    assert recorded.names == paced.samples().names and len(paced.samples()) == 251


def test_a_trial_that_ends_by_an_error_leaves_the_device_without_force() -> None:
    paced = PacedTrial(small().trial(SHORT))
    released: list[int] = []
    driver = paced._loop.hands[0].driver
    driver.release = lambda: released.append(1)  # type: ignore[method-assign]

    def attend(tick: int) -> bool:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        paced.run(attend)
    assert released == [1]


def test_hardware_that_is_not_open_is_refused() -> None:
    device = {"type": "hardware", "name": "haply_2diy", "connection": {"port": "/dev/null"}}
    study = small(experiment=PLANE | {"device": device}, tasks__discrimination__reference=300.0)
    with pytest.raises(ParameterError, match="hardware that is not open"):
        PacedTrial(study.trial({}))


class Reports:
    """What the process has reported."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self.frames, self.lost = 0, ""

    def put(self, report: Report) -> None:
        if isinstance(report, Noted) and "lost" in report.text:
            self.lost = report.text  # on a machine that stalls, its stand-in may be late
        self._queue.put(report)

    def next(self) -> Report:
        """The next report that is not a frame."""
        while isinstance(found := self._queue.get(timeout=PATIENCE), Frame | Noted):
            if isinstance(found, Noted):
                print(found.text)
                continue
            self.frames += 1
            assert "tool_state" in found.messages
        return found

    def kinds(self, count: int) -> list[type]:
        return [type(self.next()) for _ in range(count)]


def folders(tmp_path: Path, count: int = 2) -> list[Path]:
    found = [tmp_path / str(len(list(tmp_path.iterdir())) + i) for i in range(count)]
    for one in found:
        one.mkdir()
    return found


@pytest.mark.exhaustive
def test_a_process_presents_trial_after_trial(tmp_path: Path) -> None:
    reports, study = Reports(), small()
    two = [SHORT | {"contact.stiffness": value} for value in (200.0, 400.0)]
    with Intervals(study, SHORT, reports.put) as intervals:
        first, places = 0, folders(tmp_path)
        number = intervals.prepare(two, places, between=0.05)
        assert isinstance(ready := reports.next(), Ready) and ready.number == number
        intervals.start()
        assert reports.kinds(4) == [Begun, Ended, Begun, Ended]
        assert isinstance(stored := reports.next(), Stored) and stored.metrics == {}
        for place, settings in zip(places, two, strict=True):
            assert read_summary(place)["status"] == "done" and read_summary(place)["ticks"] == 151
            stiffness = read_resolved(place / "experiment.yaml").experiment.contact.stiffness
            assert stiffness == settings["contact.stiffness"]
        assert reports.frames >= 4
        # one that is aborted at once, one that is refused, one that is ended early
        intervals.prepare([{"duration": 30.0}], folders(tmp_path, 1))
        assert reports.kinds(1) == [Ready]
        intervals.start()
        assert reports.kinds(1) == [Begun]
        intervals.abort()
        number = intervals.prepare([{"contact.stiffness": -1.0}], folders(tmp_path, 1))
        assert isinstance(failed := reports.next(), Failed) and "must be" in failed.problem and failed.number == number
        (place,) = folders(tmp_path, 1)
        intervals.prepare([{"duration": 30.0}], [place], metrics=True, shown=False)
        assert reports.kinds(1) == [Ready]
        intervals.start()
        first = reports.frames
        assert reports.kinds(1) == [Begun]
        intervals.enough()
        assert isinstance(ended := reports.next(), Ended) and ended.ticks < 15_000
        assert isinstance(stored := reports.next(), Stored) and stored.metrics
        assert reports.frames == first and read_summary(place)["ticks"] == ended.ticks
    assert reports.kinds(1) == [Gone]


PLANE: dict[str, Any] = {
    "name": "plane",
    "rate": 200.0,
    "duration": 30.0,
    "operator": {"type": "constant", "wrench": [0.0] * 6},
    "controller": {"type": "virtual_coupling", "stiffness": [200, 200, 1], "damping": [2, 2, 0.01]},
    "tool": {"type": "peg"},
    "scene": {"type": "slotted_enclosure", "start": [-0.04, 0.15]},
    "environment": {"method": "penalty"},
    "guard": {"type": "none"},
}


def on_board(port: str) -> Study:
    """A study on a device of hardware."""
    device = {"type": "hardware", "name": "haply_2diy", "soft_start": 0.0, "watchdog": 1.0, "reading_watchdog": 1.0}
    device |= {"connection": {"port": port}, "wall": [0.0, 0.0]}
    return small(experiment=PLANE | {"device": device}, person__view=False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("ends", ["abort", "close"])
def test_hardware_stays_open_between_trials_and_has_no_force_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    monkeypatch.setattr(life, "LOST", 30.0)  # a stand-in that the machine stalls is not tested here
    with board() as fake:
        reports, study = Reports(), on_board(fake.port)
        with Intervals(study, {}, reports.put) as intervals:

            def pulls() -> bool:
                """The hand moves to and fro, which the coupling to the tool resists."""
                assert not reports.lost, reports.lost
                fake.angles[1] = 168.0 - 4.0 * abs(time.monotonic() % 0.5 - 0.25)
                return any(fake.torques)

            for _ in range(2):
                (place,) = folders(tmp_path, 1)
                intervals.prepare([{}], [place])
                assert reports.kinds(1) == [Ready]
                assert not any(fake.torques)
                intervals.start()
                assert reports.kinds(1) == [Begun]
                wait_until(pulls, "force")
                intervals.enough()
                assert reports.kinds(2) == [Ended, Stored]
                wait_until(lambda: not any(fake.torques), "the end of the force")
                assert len(read_messages(place)["device_reading"]) == read_summary(place)["ticks"] + 1
                assert verify(place).problem == ""
            intervals.prepare([{}], folders(tmp_path, 1))
            assert reports.kinds(1) == [Ready]
            intervals.start()
            assert reports.kinds(1) == [Begun]
            wait_until(pulls, "force")
            if ends == "abort":
                intervals.abort()
                wait_until(lambda: not any(fake.torques), "the end of the force")
        assert not any(fake.torques)
