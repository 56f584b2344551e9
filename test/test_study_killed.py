"""A session with a person whose program, or the process of its intervals, is killed at random instants.

The person is scripted, the rest is what `haptics study run` has: conductor, process of intervals, journal, trials.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import queue
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import wait_until
from study_sessions import small

from haptic_bench.replay.verification import verify
from haptic_study import showing
from haptic_study.conducting import Conductor
from haptic_study.dataset import Dataset
from haptic_study.intervals import Intervals
from haptic_study.running import device_settings
from haptic_study.session import End, Paused, Session, Trial

PERSON = {"kind": "person", "device": "pointer"}
KILLS = int(os.environ.get("HAPTICS_KILLS", "6"))


def attend(folder: Path, said: Path) -> None:
    """Answer trials by their numbers for ever; says on a line of its own each answer that the program has taken."""
    dataset = Dataset.open(folder)
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    device = device_settings(dataset.study, "pointer")
    first = {**dataset.study.parameters.person.settings, **device}
    recording = dataset.resume("01", 1)
    with Intervals(dataset.study, first, inbox.put) as intervals, open(said, "w", buffering=1) as lines:
        (child,) = [one.pid for one in multiprocessing.active_children()]
        print(json.dumps([os.getpid(), child]), file=lines)
        conductor = Conductor(recording, intervals, device=device)
        conductor.join()
        taken = len(recording.session.rows)
        while not conductor.problem:
            with contextlib.suppress(queue.Empty):
                conductor.receive(inbox.get(timeout=0.01))
            conductor.wait()
            for row in recording.session.rows[taken:]:
                print(row.trial.number, row.answer, file=lines)
            taken = len(recording.session.rows)
            if isinstance(conductor.step, Paused):  # as an experimenter does
                print("paused", conductor.step.reason.replace(" ", "_"), file=lines)
                conductor.control("resume")
            step, choices = conductor.step, [one.value for one in conductor.screen.choices]
            if isinstance(step, Trial) and step.begun:
                choices = [one for one in choices if one != showing.ENOUGH]
                choices = choices[step.number % 2 :] if len(choices) == 2 else choices
            for value in choices[:1]:
                conductor.press(value, time.monotonic_ns(), by="key")
    sys.exit(3)


def kill_again_and_again(folder: Path, kills: int) -> int:
    """Number of answers that were taken in a session that was killed so often, none of which was lost."""
    method = {"type": "constant_stimuli", "levels": [200.0, 400.0], "repetitions": 5000}
    study = small(
        tasks__discrimination__method=method,
        person={"settings": {"duration": 0.2}, "between": 0.02},
        rest={},
        questionnaires={},
    )
    dataset = Dataset.create(folder, study)
    dataset.begin("01", 1, PERSON).close()
    random, taken, said = np.random.default_rng(2026), dict[int, str](), folder.parent / "said"
    for _ in range(kills):
        said.unlink(missing_ok=True)
        program = os.fork()
        if program == 0:
            with contextlib.suppress(BaseException):
                attend(folder, said)
            os._exit(3)
        wait_until(lambda: said.exists() and said.read_text().count("\n") > 0, "the session")
        own, intervals = json.loads(said.read_text().splitlines()[0])
        assert own == program
        if random.random() < 0.6:  # else it is killed while it prepares the first trial, mostly
            wait_until(lambda: any(line[0].isdigit() for line in said.read_text().splitlines()), "the first answer")
        time.sleep(float(random.uniform(0.0, 3.0)))
        os.kill(intervals if random.random() < 0.3 else program, signal.SIGKILL)
        os.waitpid(program, 0)
        wait_until(partial(_has_ended, intervals), "the end of the process of intervals")
        for line in said.read_text().splitlines(keepends=True)[1:]:
            if line.endswith("\n"):
                number, answer = line.split()
                if number != "paused":
                    taken[int(number)] = answer
                elif "HAPTICS_KILLS" in os.environ:
                    print(answer)
        session = dataset.replayed("01", 1)[0]
        recorded = {row.trial.number: row.answer for row in session.rows}
        assert taken.items() <= recorded.items()
        assert list(recorded) == list(range(1, len(recorded) + 1))
    return len(taken)


def _has_ended(process: int) -> bool:
    return not Path("/proc", str(process)).exists()


@pytest.mark.graph
@pytest.mark.exhaustive
def test_kills_of_a_session_with_a_person_lose_no_answer(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    answers = kill_again_and_again(folder, KILLS)
    assert answers > 0
    dataset = Dataset.open(folder)
    session, uncut = dataset.replayed("01", 1)[0], Session(dataset.study, "01")
    while len(uncut.rows) < len(session.rows):
        match uncut.step:
            case Trial(begun=False) as trial:
                uncut.apply(trial.beginning)
            case Trial() as trial:
                row = session.rows[len(uncut.rows)]
                uncut.apply({"event": "answer", "trial": trial.number, "answer": row.answer})
            case End():
                raise AssertionError("the session has ended")
            case _:
                uncut.apply({"event": "continue"})
    assert [row.trial.values for row in uncut.rows] == [row.trial.values for row in session.rows]
    for row in session.rows:
        for place in row.event["directories"]:
            assert verify(folder / place).problem == ""
