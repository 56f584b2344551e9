"""Programs of the environment that `haptics doctor` asks: with a deadline, and ended with all that they started.

Standard library only, because the environment may not exist yet.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from haptic_bench.set_up import failures


class Environment(NamedTuple):
    """The Python of the environment, and the variables of its programs."""

    python: str
    variables: Mapping[str, str]


class Ended(NamedTuple):
    """End of a program: its status (-1: not in time), and its output."""

    status: int
    out: str
    err: str


class Program:
    """A program that runs now, in a process group of its own.

    Args:
        environment: whose Python it is for.
        code: of Python; arguments: of the program.
        variables: that differ from those of the environment.
    """

    def __init__(
        self,
        environment: Environment,
        code: str,
        arguments: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ):
        self._child = subprocess.Popen(
            [environment.python, "-c", code, *arguments],
            env={**environment.variables, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        failures.groups.add(self._child.pid)

    def wait(self, seconds: float) -> Ended:
        """Wait for the end of the program, at most `seconds` [s]; then it is killed."""
        try:
            out, err = self._child.communicate(timeout=seconds)
            status = self._child.returncode
        except subprocess.TimeoutExpired:
            status = -1
            self.end()
            out, err = self._child.communicate()
        self.end()
        return Ended(status, out, err)

    def end(self) -> None:
        """Kill it and what it has started."""
        with contextlib.suppress(OSError):  # all have ended
            os.killpg(self._child.pid, signal.SIGKILL)
        failures.groups.discard(self._child.pid)


def last_line(text: str) -> str:
    """The last line that says something, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"


def this_environment() -> Environment:
    """Environment of this program."""
    return Environment(sys.executable, dict(os.environ))
