"""End of a program of haptics after its work (haptic_bench/set_up/failures.py)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import DEADLINE, PACKAGES

PROGRAM = """
import atexit, sys, threading
from haptic_bench.set_up import failures


class Module:
    def __del__(self):
        print("teardown")


module = Module()
atexit.register(print, "registered")
sys.stdout.write("text without an end ")
{}
failures.leave(3)
"""


def end_of(before: str) -> tuple[int, str, str]:
    """Status and output of the program, which does something before its end."""
    environment = os.environ | {"PYTHONPATH": str(PACKAGES), "PYTHONUNBUFFERED": ""}
    command = [sys.executable, "-c", PROGRAM.format(before)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE)
    return done.returncode, done.stdout, done.stderr


THREAD = "import time; threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()"


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("", "text without an end registered\n"),
        ("threading.Thread(target=threading.Event().wait, daemon=True).start()", "text without an end registered\n"),
        (THREAD, "text without an end thread\nregistered\nteardown\n"),
        ("import cProfile; cProfile.Profile().enable()", "text without an end registered\nteardown\n"),
        ("sys.modules['rclpy'] = threading", "text without an end registered\nteardown\n"),
    ],
)
def test_a_program_ends_without_a_teardown_where_nothing_needs_it(before: str, said: str) -> None:
    assert end_of(before) == (3, said, "")


def test_a_program_whose_last_words_cannot_be_written_keeps_its_status() -> None:
    """Python alone would end with status 120."""
    assert end_of("import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1)") == (3, "", "")
