"""The viewer of a trial as a process beside its nodes: nothing that becomes of it changes the trial."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from haptic_bench.running.graph import NodeSpec
from haptic_bench.running.runner import Process

STOP = 1.5  # [s] for the viewer to end
START = 60.0  # [s] for its page to be there


@dataclass(frozen=True)
class Viewing:
    """Address of the page, and the ways in which it controls the trial.

    Attributes:
        host, port: of the page.
        controlled: whether the trial can be begun anew, and kept, from the page.
        paused: whether the trial waits for the start.
        recorded: whether the trial has a recorder.
        attached: whether the trial runs already; then the viewer finds out by itself what it is.
    """

    host: str
    port: int
    controlled: bool = False
    paused: bool = False
    recorded: bool = True
    attached: bool = False


class Viewer:
    """A viewer that runs while the context is open.

    Args:
        viewing: where and how.
        directory: holds the trial's `experiment.yaml`, unless it is attached to; receives `viewer.log`.
        namespace: of the trial's topics, with the slash in front.
        on_line: called with each line that it writes, by another thread.

    Attributes:
        address: of the page, as soon as it is there; whoever has it may steer.
    """

    def __init__(
        self, viewing: Viewing, directory: Path, namespace: str, on_line: Callable[[str], object] = lambda line: None
    ):
        self._on_line, self._ready, self.address = on_line, threading.Event(), ""
        self._problem = ""
        reading, self._writing = os.pipe()
        how = ["yes" if one else "no" for one in (viewing.controlled, viewing.paused, viewing.recorded)]
        arguments = ("" if viewing.attached else str(directory), viewing.host, str(viewing.port), str(reading), *how)
        spec = NodeSpec("haptic_bench.nodes.viewer", {"viewer": {}}, arguments)
        importlib.import_module(spec.module)
        name = f"viewer_{os.getpid()}" if viewing.attached else "viewer"
        ros = ["--ros-args", "-r", f"__ns:={namespace}", "-r", f"__node:={name}", "--disable-external-lib-logs"]
        self._process = Process(spec, [*arguments, *ros], directory / "viewer.log", self._ready, self._line)
        os.close(reading)

    def _line(self, line: str) -> bool:
        if line.startswith("ready "):
            self.address = line.removeprefix("ready ")
            self._ready.set()
        elif line.startswith("fails "):
            self._problem = line.removeprefix("fails ")
        elif line == "reset" or line.startswith("record "):
            self._on_line(line)
        elif line.startswith("say "):
            print(f"haptics: {line[4:]}", file=sys.stderr)
        else:
            return False
        return True

    def __enter__(self) -> Viewer:
        self._process.start_reading()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.poll()
        self._process.send(signal.SIGINT)
        self._process.kill_after(time.monotonic() + STOP)
        self._process.finish()
        os.close(self._writing)

    def wait(self, interrupted: threading.Event) -> str:
        """Wait until the page is there, or is to stop; why there is none, empty otherwise."""
        deadline = time.monotonic() + START
        while time.monotonic() < deadline and not interrupted.is_set():
            if self._process.status is not None:
                return self._problem or self._process.describe()
            if self._ready.wait(0.05):
                return "" if self._process.status is None else self._process.describe()
        return "" if interrupted.is_set() else f"it is not there after {START:g} s"

    @property
    def ended(self) -> bool:
        """Whether the process of the viewer has ended."""
        return self._process.status is not None

    def send_line(self, line: str) -> None:
        """Write a line to it; one that has ended, or does not read, gets none."""
        with contextlib.suppress(OSError):
            os.set_blocking(self._writing, False)
            os.write(self._writing, f"{line}\n".encode())
