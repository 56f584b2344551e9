"""`haptics bring-up` with a device of this process, and a person who does what it asks."""

from __future__ import annotations

import csv
import gzip
import os
import re
import shlex
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bring_up_hands import Clocked, Hands, run, write_data
from conftest import sampled

from haptic_bench.commands import bring_up, command_line
from haptic_bench.commands.bring_up import Answers
from haptic_bench.experiment.devices import read_device
from haptic_drivers.bring_up import push
from haptic_sim.rotations import matrix

__all__ = ["run"]
QUARTER = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])  # to the left, as R_WB
LIMIT = 8.0  # [N]
TURNED = ["orientation", "angular velocity"]
READ = ["found", "rate", "position", "return", "velocity", "zero", "noise", *TURNED, *TURNED]
PUSHED = ["push right", "push away", "push up", "command watchdog", "reading watchdog"]


def check_over(hands: Hands, *, forced: bool) -> None:
    """No force came early or was too large, and the device is closed without one."""
    device = Clocked.last
    assert not hands.early
    assert (hands.largest <= 0.1 * LIMIT * (1.0 + 1e-9)).all()
    assert hands.largest.any() == forced
    assert not device.is_open
    assert not device.force.any()
    assert device.calls[-1] == "close"


def test_a_turned_device_is_brought_up_and_its_data_written(
    run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out, log = write_data(tmp_path), tmp_path / "mine.yaml", tmp_path / "log"
    hands = Hands(QUARTER.T)
    status = run(hands, str(file), "--out", str(out), "--log", str(log))
    said = capsys.readouterr()
    assert status == 0, said.out + said.err
    shown = re.findall(r"^ok    ([a-z ]+):", said.out, re.M)
    assert shown == [*READ, "button", "button", *PUSHED]
    check_over(hands, forced=True)
    assert hands.largest.max() == pytest.approx(0.1 * LIMIT, rel=1e-6)
    text = out.read_text(encoding="utf-8")
    assert text.startswith("# what is known of it\n")
    assert matrix(np.array(read_device(str(out)).mount[3:])) == pytest.approx(QUARTER, abs=1e-9)
    assert f"report: {log / 'report.txt'}\ndata: {out}\nto measure it later:\n" in said.out
    later = [shlex.split(line)[1:] for line in said.out.splitlines() if line.startswith("  ./haptics ")]
    assert [command_line.parse(line).command.split(":")[1] for line in later] == ["run", "run", "identify", "tune"]
    report = (log / "report.txt").read_text(encoding="utf-8")
    assert f"nothing wrong was found; data: {out}" in report
    assert "expected: 0.1 m along one axis each" in report
    with gzip.open(log / "log.csv.gz", "rt", encoding="utf-8") as rows:
        table = list(csv.DictReader(rows))
    written = np.array([[float(row[f"written_{axis}"]) for axis in "xyz"] for row in table])
    assert np.abs(written).max() == pytest.approx(0.1 * LIMIT, rel=1e-9)
    # it is not overwritten, and nothing moves before that is known
    assert run(hands, str(file), "--out", str(out)) == 2
    assert f"{out}: exists; give another file with --out FILE, or --force" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("acts", "found"),
    sampled(
        [
            ("reversed", "push right: left felt; expected: right"),
            ("turned", "push right: away felt; expected: right"),
            ("none", "push right: none felt; expected: right"),
        ],
        ("reversed", "push right: left felt; expected: right"),
    ),
)
def test_a_wrong_force_is_found(
    acts: str, found: str, run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hands = Hands()
    hands.acts = {"reversed": -np.eye(3), "turned": QUARTER, "none": np.zeros((3, 3))}[acts]
    out = tmp_path / "mine.yaml"
    assert run(hands, str(write_data(tmp_path)), "--out", str(out), "--log", str(tmp_path / "log")) == 1
    assert f"stopped: {found}; the force is zero" in capsys.readouterr().err
    assert not out.exists()
    check_over(hands, forced=acts != "none")


@pytest.mark.parametrize("question", sampled(["hold", "away", "tip", "press", "held", "push"], "push"))
def test_an_interruption_at_any_stage_ends_without_force(
    question: str,
    run: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(push, "DURATION", 60.0)
    hands, out = Hands(), tmp_path / "mine.yaml"
    ask, interrupted = hands.ask, []

    def interrupt() -> None:
        if not interrupted:
            interrupted.append(1)
            os.kill(os.getpid(), signal.SIGINT)

    def asked(text: str, given_up: Callable[[], bool]) -> str | None:
        answer = ask(text, given_up)
        if question in text and question != "push":
            interrupt()
        return answer

    hands.ask = asked  # type: ignore[method-assign]
    if question == "push":
        hands.when_pushed = interrupt
    assert run(hands, str(write_data(tmp_path)), "--out", str(out), "--log", str(tmp_path / "log")) == 130
    assert "stopped: interrupted; the force is zero" in capsys.readouterr().err
    assert not out.exists()
    check_over(hands, forced=question == "push")


def test_an_error_of_the_driver_ends_without_force(
    run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hands = Hands()
    hands.when_pushed = lambda: setattr(Clocked.last, "broken", True)
    assert run(hands, str(write_data(tmp_path)), "--out", str(tmp_path / "m.yaml"), "--log", str(tmp_path / "log")) == 1
    assert "USB: no such device; the force is zero" in capsys.readouterr().err
    check_over(hands, forced=True)


@pytest.mark.exhaustive
def test_a_call_that_does_not_return_is_said(
    run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bring_up, "HUNG", 1.0)
    hands, returns = Hands(), threading.Event()
    hands.when_pushed = returns.wait
    file, out = write_data(tmp_path), tmp_path / "mine.yaml"
    try:
        assert run(hands, str(file), "--out", str(out), "--log", str(tmp_path / "log")) == 1
        text = "a call of the driver has not returned for 1 s; the device may keep its last force: switch it off"
        assert text in capsys.readouterr().err
    finally:
        returns.set()
    assert not out.exists()


@pytest.mark.exhaustive
def test_who_agrees_is_asked_for_two_trials(
    run: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands that follow are called; one that fails ends it with its status, and the data stays."""
    main, called = command_line.main, []

    def called_next(arguments: Any) -> int:
        if arguments[0] == "bring-up":
            return main(arguments)
        called.append(arguments)
        assert not Clocked.last.is_open
        return 2 if arguments[0] == "identify" else 0

    monkeypatch.setattr(command_line, "main", called_next)
    hands, out, log = Hands(), tmp_path / "mine.yaml", tmp_path / "log"
    hands.agrees = "yes"
    hands.move = lambda states: Hands.move(hands, states) if states else None  # type: ignore[method-assign]
    assert run(hands, str(write_data(tmp_path)), "--out", str(out), "--log", str(log)) == 2
    assert [one[0] for one in called] == ["run", "run", "identify"]
    assert [one[-1] for one in called] == [str(log / "free"), str(log / "held"), str(log / "held")]
    assert [one.split(":")[0] for one in hands.asked[-2:]] == ["the first trial", "the second trial"]
    assert out.exists()


def test_what_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers, line = tmp_path / "answers", tmp_path / "line"
    answers.write_text("\n", encoding="utf-8")
    line.mkdir()
    file = str(write_data(tmp_path))
    for arguments, words in (
        ([file, "--answers", "none"], "--answers none: "),
        ([file, "--out", "mine.txt"], "must end in .yaml"),
        ([file, "--out", "none/mine.yaml"], "the folder does not exist"),
        ([str(write_data(line, sensed=["x", "rz"]))], "sensed = x, rz: must contain x, y, z, or x and y"),
        (["none"], "is not a device of config/devices"),
        ([file, "--out", str(tmp_path / "m.yaml")], "standard input: not a terminal, so nobody can answer"),
    ):
        assert command_line.main(["bring-up", *arguments]) == 2
        assert words in capsys.readouterr().err
    given = ["--answers", str(answers), "--out", str(tmp_path / "mine.yaml"), "--log", str(tmp_path / "log")]
    assert command_line.main(["bring-up", file, *given]) == 1
    assert "stopped: there are no more answers; the force is zero" in capsys.readouterr().err
    report = (tmp_path / "log" / "report.txt").read_text(encoding="utf-8")
    assert report.startswith("haptics bring-up clocked: stopped: there are no more answers\n")


def test_answers_come_from_a_terminal_or_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        with Answers(None) as answers:
            os.write(ours, b"held\nri")
            assert answers.ask("?", lambda: False) == "held\n"
            assert answers.ask("?", lambda: True) == ""
            os.write(ours, b"ght\n")  # before the next question is shown: it answers none
            assert answers.ask("?", lambda: True) == ""
            typed = iter([lambda: os.write(ours, b"left\n") < 0])  # while it is shown
            assert answers.ask("?", lambda: next(typed, lambda: False)()) == "left\n"
            os.close(ours)  # it hangs up
            assert answers.ask("?", lambda: False) is None
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with Answers(str(pipe)) as answers, open(pipe, "wb", buffering=0) as writer:
        writer.write(b"one\ntwo\n\xff")
        assert [answers.ask("?", lambda: False) for _ in range(2)] == ["one\n", "two\n"]
        writer.write(b"\n")
        assert answers.ask("?", lambda: False) == "\ufffd\n"
