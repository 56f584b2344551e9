"""Signals in the first seconds of a program: 128 and their number, one line at most, nothing remade."""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from conftest import DEADLINE, PACKAGES, ROOT, python, sampled

LAUNCHER = ROOT / "haptics"
SAID = {signal.SIGINT: "haptics: interrupted", signal.SIGTERM: "haptics: terminated"}
SAID[signal.SIGHUP] = "haptics: terminal closed"


def stamps() -> dict[str, int]:
    """When the folders of the environment were made."""
    return {path.parent.name: path.stat().st_mtime_ns for path in (ROOT / ".haptics").glob("*/stamp")}


def as_usual(number: signal.Signals) -> Callable[[], object]:
    """What a new process calls first, so that a signal ends it also where the tests are run by nohup."""
    return partial(signal.signal, number, signal.SIG_DFL)


@pytest.mark.graph
@pytest.mark.skipif(not (ROOT / ".haptics" / "kernels" / "stamp").exists(), reason="the checkout is not prepared")
@pytest.mark.parametrize(
    ("mode", "number"),
    sampled(
        itertools.product(("offline", "lockstep", "realtime"), SAID),
        ("offline", signal.SIGINT),
        ("lockstep", signal.SIGTERM),
        ("realtime", signal.SIGHUP),
    ),
)
def test_a_start_can_be_ended_at_any_instant(tmp_path: Path, mode: str, number: signal.Signals) -> None:
    before = stamps()
    settings = ("--mode", mode, "--duration", "3000", "--set", "analysis=trial")
    command = [LAUNCHER, "run", "corner_peg", *settings, "--out", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=-1, stderr=-1, text=True, preexec_fn=as_usual(number))
    time.sleep(random.Random(f"{mode} {number}").uniform(0.0, 2.0))  # an instant, not a wait for something
    process.send_signal(number)
    _, err = process.communicate(timeout=DEADLINE)
    # Before Python runs its first instruction, the kernel ends it: for a shell, the status is the same.
    assert process.returncode in (128 + number, -number), err
    closed = re.fullmatch(r"haptics: trial closed: interrupted, \d+ ticks; writing samples and page \(.*\)\n", err)
    assert err in ("", SAID[number] + "\n") or closed  # one line, at most
    assert stamps() == before


# Becomes `python -m haptic_bench list` as the launcher does, after a signal has come.
HANDED_ON = """
import os, sys
from haptic_bench.commands import start
from haptic_bench.set_up import failures
failures.hold_signals()
os.kill(os.getpid(), int(sys.argv[1]))
start.become([sys.executable, "-m", "haptic_bench", "list"], os.environ)
"""


@pytest.mark.parametrize("number", list(SAID))
def test_a_signal_between_the_launcher_and_the_program_is_handed_on(number: signal.Signals) -> None:
    environment = os.environ | {"PYTHONPATH": f"{PACKAGES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-c", HANDED_ON, str(int(number))]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=DEADLINE, preexec_fn=as_usual(number)
    )
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", SAID[number] + "\n")


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    code = (
        "import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from haptic_bench.set_up import failures; failures.end_at_signals()\n"
        "from haptic_bench.running.runner import Interruption\n"
        "os.kill(os.getpid(), signal.SIGHUP)\n"
        "with Interruption() as interruption: os.kill(os.getpid(), signal.SIGHUP); print(bool(interruption))\n"
    )
    done = python("-c", code, cwd=tmp_path)
    assert (done.status, done.out) == (0, "False\n"), done.err
