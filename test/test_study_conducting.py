"""A session with a person without a browser: what is shown, what is recorded, and what ends a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from study_sessions import small

from haptic_study import journal, showing
from haptic_study.conducting import CLOSED, Conductor
from haptic_study.dataset import Dataset, Recording
from haptic_study.file import Study
from haptic_study.intervals import Begun, Ended, Failed, Gone, Pressed, Ready, Stored
from haptic_study.outlets import OutletError, mark_of
from haptic_study.session import End, Paused, Step, Trial
from haptic_study.tables import events

PERSON = {"kind": "person", "device": "pointer"}
METHOD = {"type": "constant_stimuli", "levels": [200.0, 300.0], "repetitions": 1}
SECOND = 1_000_000_000  # [ns]


class Presented:
    """Stands in for the process that presents intervals: notes what it is asked for."""

    def __init__(self) -> None:
        self.number = 0
        self.asked: list[str] = []
        self.settings: list[dict[str, Any]] = []

    def prepare(self, settings: Sequence[Mapping[str, Any]], directories: Sequence[Path], **how: Any) -> int:
        assert all(one.is_dir() and not any(one.iterdir()) for one in directories)
        self.number += 1
        self.settings = [dict(one) for one in settings]
        self.asked.append("prepare")
        return self.number

    def start(self) -> None:
        self.asked.append("start")

    def enough(self) -> None:
        self.asked.append("enough")

    def abort(self) -> None:
        self.number += 1
        self.asked.append("abort")


class Front:
    """A session with a person, whose clock is set by the test."""

    def __init__(self, recording: Recording, **more: Any):
        self.recording, self.clock = recording, 100 * SECOND
        self.presented = Presented()
        self.conductor = Conductor(recording, self.presented, clock=lambda: self.clock, expected=12, **more)
        self.conductor.join()

    def press(self, value: str, **more: Any) -> None:
        self.conductor.press(value, self.clock, **more)

    def to_trial(self) -> Trial:
        """Go on to the next trial that is prepared."""
        while not isinstance(self.conductor.step, Trial):
            if self.conductor.screen.items:
                self.conductor.fill({"age": "31", "hand": "left"}, self.clock)
            else:
                self.clock += SECOND
                self.conductor.wait()
                self.press(showing.AGREE)
                self.press(showing.CONTINUE)
        return self.conductor.step

    def present(self, *, stored: bool = True) -> Trial:
        """Present the next trial, of intervals of 2 s with 0.5 s between; the question is left."""
        trial = self.to_trial()
        number = self.presented.number
        self.clock += SECOND // 4
        self.conductor.receive(Ready(number, 0.2))
        self.press(showing.START)
        for i in range(trial.intervals):
            self.clock += SECOND // 2
            self.conductor.receive(Begun(number, i, self.clock))
            self.clock += 2 * SECOND
            self.conductor.receive(Ended(number, i, self.clock, 1001, 3))
        if stored:
            self.conductor.receive(Stored(number, {}))
        return trial

    def answer(self, value: str = "1", **more: Any) -> Trial:
        trial = self.present()
        self.clock += 3 * SECOND // 2
        self.press(value, **more)
        return trial


def begin(tmp_path: Path, study: Study, **more: Any) -> Front:
    dataset = Dataset.create(tmp_path, study)
    return Front(dataset.begin("01", 1, PERSON), **more)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals are written without waiting for the disk, which has its own tests."""
    monkeypatch.setattr(journal.os, "fsync", lambda handle: None)


def test_a_session_from_consent_to_end(tmp_path: Path) -> None:
    """Each trial has its directories and its times, of which the response is counted from the last tick."""
    told: list[str] = []
    front = begin(
        tmp_path, small(consent="Do you agree?"), subscribers=[lambda step, event: told.append(event["event"])]
    )
    conductor = front.conductor
    assert [one.label for one in conductor.screen.choices] == ["I agree", "I do not agree"]
    while not conductor.ended:
        if isinstance(front.to_trial(), Trial):
            front.answer("2", by="key")
        conductor.wait()
    rows = events(front.recording.session)
    assert [row["trial"] for row in rows] == list(range(1, 13))
    assert all(row["response_time"] == pytest.approx(1.5, abs=1e-6) for row in rows)
    assert all(row["duration"] == pytest.approx(4.5, abs=1e-6) for row in rows)
    assert rows[0]["directories"].split() == [f"sourcedata/sub-01/ses-01/trials/0001-1-1-{i}" for i in (1, 2)]
    entries = front.recording.entries
    assert entries[1]["agreed"] is True
    begun = [one for one in entries if one["event"] == "begin"]
    assert "gap" not in begun[0] and all(one["gap"] == pytest.approx(0.25) for one in begun[1:])
    answered = [one for one in entries if one["event"] == "answer"]
    assert all(one["missed"] == [3, 3] and one["by"] == "key" for one in answered)
    assert conductor.screen.progress == 1.0 and "Thank you" in conductor.screen.text
    assert told[0] == "open" and told[-1] == "end" and told.count("interval") == 24 and told.count("answer") == 12


def test_codes_are_sent_when_things_happen_and_a_session_is_paused_when_they_cannot_be(tmp_path: Path) -> None:
    sent: list[str] = []
    study = small()

    def send(step: Step, event: Mapping[str, Any]) -> None:
        mark = mark_of(study, step, event)
        if len(sent) == 5:
            raise OutletError("serial port /dev/x: code 20 of answer 1 was not sent: gone")
        sent.append(f"{mark.name}: {mark.code}, trial {mark.trial}")

    front = begin(tmp_path, study, subscribers=[send])
    front.to_trial()
    before = len(sent)
    sent[:] = sent[:0]
    front.present(stored=False)
    assert sent == ["begin: 10, trial 1", "interval 1: 11, trial 1", "interval 2: 11, trial 1"] and before
    front.press("1")
    assert sent[3:] == ["answer 1: 20, trial 1"], "before it is recorded"
    front.conductor.receive(Stored(front.presented.number, {}))
    assert sent[3:] == ["answer 1: 20, trial 1"], "not twice"
    front.present(stored=False)
    front.conductor.wait()
    assert isinstance(front.conductor.step, Paused) and "was not sent: gone" in front.conductor.step.reason


def test_an_answer_waits_until_the_trial_is_on_the_disk(tmp_path: Path) -> None:
    front = begin(tmp_path, small())
    trial = front.present(stored=False)
    front.press("1")
    assert front.conductor.step == front.recording.session.step and not front.recording.session.rows
    front.press("2")  # it was answered
    front.conductor.receive(Stored(front.presented.number - 1, {}))  # of another trial
    assert not front.recording.session.rows
    front.conductor.receive(Stored(front.presented.number, {}))
    assert [row.answer for row in front.recording.session.rows] == ["1"]
    assert front.recording.session.rows[0].trial.number == trial.number


def test_what_was_pressed_twice_or_late_has_no_effect(tmp_path: Path) -> None:
    front = begin(tmp_path, small(instructions="Read."))
    front.to_trial()
    before = front.conductor.serial
    front.press(showing.START)  # it is not ready
    front.press("1")
    assert front.conductor.serial == before and "start" not in front.presented.asked
    front.present()
    serial, count = front.conductor.serial, len(front.recording.entries)
    front.press("1", serial=serial - 1)
    front.press("3", serial=serial)
    assert len(front.recording.entries) == count
    front.press("1", serial=serial)
    front.press("1", serial=serial)
    assert len(front.recording.entries) == count + 1


def test_who_does_not_agree_ends_the_session(tmp_path: Path) -> None:
    front = begin(tmp_path, small(consent="Do you agree?"))
    front.press(showing.DECLINE)
    assert front.conductor.step == End("no consent") and not front.presented.asked


def test_a_wrong_form_is_shown_again_with_what_is_wrong(tmp_path: Path) -> None:
    front = begin(tmp_path, small())
    conductor = front.conductor
    conductor.fill({"age": "old", "hand": "left"}, front.clock)
    assert conductor.screen.problems == ("age = old: must be a number",)
    conductor.fill({"age": "31", "hand": "left"}, front.clock)
    assert not conductor.screen.problems and not conductor.screen.items


@pytest.mark.parametrize("at", ["presented", "asked"])
def test_a_closed_page_ends_the_trial_and_a_new_one_goes_on(tmp_path: Path, at: str) -> None:
    front = begin(tmp_path, small())
    conductor = front.conductor
    conductor.join()  # two browsers show it
    trial = front.to_trial()
    if at == "presented":
        conductor.receive(Ready(front.presented.number, 0.1))
        front.press(showing.START)
    else:
        front.present()
    conductor.leave()
    assert isinstance(conductor.step, Trial)
    conductor.leave()
    assert conductor.step == Paused(CLOSED) and front.presented.asked[-1] == "abort"
    conductor.join()
    front.press(showing.CONTINUE)
    again = conductor.step
    assert isinstance(again, Trial) and (again.number, again.attempt, again.begun) == (trial.number, 2, False)
    assert again.values == trial.values
    assert front.recording.entries[-1] == {
        "event": "repeat", "trial": trial.number, "reason": CLOSED, "time": front.recording.time,
    }  # fmt: skip
    assert "not open" not in conductor.text


def test_a_page_that_is_closed_while_nothing_is_presented_changes_nothing(tmp_path: Path) -> None:
    front = begin(tmp_path, small())
    serial = front.conductor.serial
    front.conductor.leave()
    assert front.conductor.serial == serial and "the participant's page is not open" in front.conductor.text


def test_the_experimenter_repeats_drops_pauses_and_ends(tmp_path: Path) -> None:
    front = begin(tmp_path, small())
    conductor = front.conductor
    trial = front.present()
    assert conductor.control("repeat") == "repeat: needs a reason, which the journal keeps"
    assert conductor.control("jump") == "jump: must be one of pause, resume, repeat, drop, stop"
    assert conductor.control("resume") == "event resume: the session is not paused"
    assert conductor.control("repeat", "slipped") == ""
    assert conductor.control("drop", "again") == f"event drop: trial {trial.number} has not begun"
    second = front.present()
    assert (second.number, second.attempt) == (trial.number, 2)
    assert conductor.control("drop", "slipped again") == ""
    third = front.answer()
    assert third.number == trial.number + 1
    assert conductor.control("pause", "a call") == "" and conductor.step == Paused("a call")
    assert conductor.control("pause") == "event pause: the session is paused; resume it first"
    assert conductor.control("resume") == ""
    assert "repeated, dropped, excluded | 1, 1, 0" in conductor.text
    assert conductor.control("stop") == "stop: needs a reason, which the journal keeps"
    assert conductor.control("stop", "ill") == "" and conductor.step == End("ill")
    assert "1 of about 12" in conductor.text and conductor.control("pause").startswith("event pause: the session has")
    dropped, answered = front.recording.session.rows
    assert (dropped.status, dropped.reason, answered.status) == ("dropped", "slipped again", "answered")


def test_a_killed_session_goes_on_with_the_same_trial(tmp_path: Path) -> None:
    front = begin(tmp_path, small())
    front.answer()
    cut = front.present()
    front.recording.close()  # what a kill leaves
    recording = Dataset.open(tmp_path).resume("01", 1)
    again = Front(recording)
    assert f"trial {cut.number} was cut and is presented again" in again.conductor.text
    step = again.conductor.step
    assert isinstance(step, Trial) and (step.number, step.attempt, step.values) == (cut.number, 2, cut.values)
    again.answer()
    assert [row.trial.number for row in recording.session.rows] == [1, 2]
    times = [one["time"] for one in recording.entries[1:]]
    assert times == sorted(times)


def test_a_trial_that_fails_pauses_the_session(tmp_path: Path) -> None:
    front = begin(tmp_path, small())
    front.to_trial()
    front.conductor.receive(Failed(front.presented.number, "unstable: energy"))
    assert front.conductor.step == Paused("unstable: energy") and not front.conductor.problem
    front.conductor.control("resume")
    front.answer()
    front.conductor.receive(Gone())
    assert isinstance(front.conductor.step, Paused) and "has ended; resume" in front.conductor.problem


def test_a_trial_that_begins_by_itself_waits_for_a_participant(tmp_path: Path) -> None:
    front = begin(tmp_path, small(person__start="automatic"))
    front.to_trial()
    front.conductor.leave()
    front.conductor.receive(Ready(front.presented.number, 0.1))
    assert front.presented.asked == ["prepare"]
    front.conductor.join()
    assert front.presented.asked == ["prepare", "start"]


def test_buttons_of_the_device_start_and_answer(tmp_path: Path) -> None:
    front = begin(tmp_path, small(person__buttons=["continue", "2"]))
    front.to_trial()
    conductor, number = front.conductor, front.presented.number
    conductor.receive(Ready(number, 0.1))
    conductor.receive(Pressed(1, front.clock))  # no answer is asked for
    conductor.receive(Pressed(0, front.clock))
    assert front.presented.asked[-1] == "start"
    for i in range(2):
        conductor.receive(Begun(number, i, front.clock))
        front.clock += SECOND
        conductor.receive(Ended(number, i, front.clock, 501, 0))
    conductor.receive(Stored(number, {}))
    conductor.receive(Pressed(7, front.clock))
    conductor.receive(Pressed(1, front.clock + SECOND // 10))
    (row,) = front.recording.session.rows
    assert (row.answer, row.event["by"], row.event["response_time"]) == ("2", "device", 0.1)


@pytest.mark.parametrize("blind", [False, True])
def test_the_participant_sees_no_condition_and_a_blind_experimenter_neither(tmp_path: Path, blind: bool) -> None:
    factors = {"damping": {"key": "contact.damping", "levels": [0.731, 1.337]}}
    study = small(factors=factors, person__double_blind=blind, tasks__discrimination__practice=[417.0])
    front = begin(tmp_path, study)
    secret = ["0.731", "1.337", "417", "200", "280", "320", "400", "damping", "contact"]
    for _ in range(14):
        front.to_trial()
        number = front.presented.number
        front.conductor.receive(Ready(number, 0.1))
        front.press(showing.START)
        seen = [str(front.conductor.screen)]
        for i in range(2):
            front.conductor.receive(Begun(number, i, front.clock))
            seen.append(str(front.conductor.screen))
            front.conductor.receive(Ended(number, i, front.clock, 501, 0))
            seen.append(str(front.conductor.screen))
        front.conductor.receive(Stored(number, {}))
        text = front.conductor.text
        assert not [word for word in secret if any(word in one for one in seen)]
        assert any(word in text for word in secret) != blind
        assert any(f"{value:g}" in text for value in front.conductor.step.values) != blind  # type: ignore[union-attr]
        front.press("1")


def test_practice_is_told_whether_it_was_right(tmp_path: Path) -> None:
    front = begin(tmp_path, small(tasks__discrimination__practice=[450.0, 150.0]))
    for right in (True, False):
        trial = front.to_trial()
        largest = str(trial.values.index(max(trial.values)) + 1)
        front.answer(largest if right else "12".replace(largest, ""))
        assert ("was right" if right else "was not right") in front.conductor.screen.text
    front.answer()
    assert "right" not in front.conductor.screen.text


def test_a_free_manipulation_is_answered_by_its_metric(tmp_path: Path) -> None:
    task = {
        "type": "free", "question": "Press.", "stimulus": "contact.stiffness", "practice": [],
        "success": {"metric": "peak", "at_least": 2.0}, "method": METHOD,
    }  # fmt: skip
    front = begin(tmp_path, small(tasks={"press": task}))
    for peak, answer in ((3.0, "success"), (1.0, "failure")):
        front.present(stored=False)
        front.conductor.receive(Stored(front.presented.number, {"peak": peak}))
        row = front.recording.session.rows[-1]
        assert (row.answer, row.event["metrics"]) == (answer, {"peak": peak})
        assert "response_time" not in row.event


def test_a_number_is_asked_for_until_it_is_one(tmp_path: Path) -> None:
    task = {
        "type": "magnitude_estimation", "question": "How stiff?", "stimulus": "contact.stiffness", "reference": 300.0,
        "practice": [], "method": METHOD,
    }  # fmt: skip
    front = begin(tmp_path, small(tasks={"estimate": task}))
    front.present()
    front.conductor.enter_number("much", front.clock)
    assert front.conductor.screen.problems and front.conductor.screen.asks_number
    front.conductor.enter_number("12.5", front.clock)
    assert front.recording.session.rows[-1].answer == 12.5


def test_settings_of_a_person_and_a_device_reach_the_intervals(tmp_path: Path) -> None:
    front = begin(tmp_path, small(person__settings={"duration": 3.0}), device={"operator": {"type": "pointer"}})
    trial = front.to_trial()
    for value, settings in zip(trial.values, front.presented.settings, strict=True):
        assert settings == {"duration": 3.0, "contact.stiffness": value, "operator": {"type": "pointer"}}
