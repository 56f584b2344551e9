"""Benchmark of the view: frames a second and CPU, opening of a recorded trial, missed ticks with a view and without.

Trials with a view and without alternate, so that other work of the machine affects both. The page has a client, which
reads all that it gets, as a browser does, and draws nothing.
"""

from __future__ import annotations

import contextlib
import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from haptic_bench import experiment
from haptic_bench.analysis import health
from haptic_bench.running.runner import Interruption
from haptic_bench.running.viewing import Viewing
from haptic_bench.trials import trial
from haptic_view.page import HOST, free_port

PAIRS = 5
DURATION = 4.0  # [s] of a trial
LONG = 60.0  # [s] of the trial that is opened
OPENINGS = 3
Row = Callable[[str, float, str, str, bool | None], dict[str, Any]]


def measure(row: Row) -> list[dict[str, Any]]:
    """Run all of it; `row` makes a line of the table from name, value, unit, target and whether that is met."""
    with Interruption() as interruption:
        frames, cpu = _drawn(interruption)
        pairs = [(_missed(interruption, view=False), _missed(interruption, view=True)) for _ in range(PAIRS)]
        opening, used = _opening(interruption)
    for without, beside in pairs:
        print(f"    missed ticks: without a view {without:.2f} %, with it {beside:.2f} %", flush=True)
    bare = [without for without, _ in pairs]
    more = statistics.median(beside - without for without, beside in pairs)
    noise = sorted(bare)[-2] - sorted(bare)[1]  # without the best and the worst
    return [
        row("20 bodies: frames", frames, "1/s", ">= 30", frames >= 29.5),
        row("20 bodies: CPU of the viewer", cpu, "% core", "<= 25", cpu <= 25.0),
        row("missed ticks without a view", statistics.median(bare), "%", "", None),
        row("missed ticks without a view, inner range", noise, "%", "", None),
        row("missed ticks more with a view", more, "%", "<= range", more <= noise),
        row(f"opening of a trial of {LONG:g} s", opening, "s", "<= 3", opening <= 3.0),
        row("the same: CPU", used, "s", "", None),
    ]


@contextlib.contextmanager
def _client(port: int) -> Iterator[None]:
    """A client of the page, as soon as it is there, which reads what it gets."""
    import viser
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import connect
    from websockets.typing import Subprotocol

    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            with contextlib.suppress(OSError, WebSocketException, TimeoutError):
                protocol = Subprotocol(f"viser-v{viser.__version__}")
                with connect(f"ws://{HOST}:{port}", subprotocols=[protocol], max_size=None) as socket:
                    while not ended.is_set():
                        socket.recv(0.5)
            ended.wait(0.2)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(2.0)


def _run(directory: Path, name: str, settings: list[str], interruption: Interruption, *, view: bool) -> Any:
    """Run a realtime trial in a directory, with a view that has a client or without; returns the trial."""
    (one,) = experiment.load(name, settings, duration=DURATION)
    port = free_port(HOST, None)
    viewing = Viewing(HOST, port) if view else None
    with _client(port) if view else contextlib.nullcontext():
        outcome = trial.run_graph(one, "realtime", directory, interruption, None, viewing=viewing)
    if interruption:
        raise KeyboardInterrupt
    if outcome.status != "done":
        raise RuntimeError(f"benchmark of the view: {outcome.status} {outcome.reason}".rstrip())
    return one


def _drawn(interruption: Interruption) -> tuple[float, float]:
    """Frames a second and CPU [% of a core] of a view of 20 bodies."""
    with tempfile.TemporaryDirectory() as folder:
        _run(Path(folder), "stack", ["environment.publish=60"], interruption, view=True)
        text = Path(folder, "viewer.log").read_text(encoding="utf-8")
    found = re.search(r"drawn ([\d.]+) frames/s, ([\d.]+) %", text)
    if found is None:
        raise RuntimeError("benchmark of the view: it has drawn nothing")
    return float(found[1]), float(found[2])


def _missed(interruption: Interruption, *, view: bool) -> float:
    """Part of the periods of corner_peg at 1 kHz that had no answer in time [%]."""
    with tempfile.TemporaryDirectory() as folder:
        one = _run(Path(folder), "corner_peg", ["rate=1000"], interruption, view=view)
        counts = json.loads(Path(folder, "timing.json").read_text(encoding="utf-8"))
        measured = health.read(Path(folder), one.experiment.rate, counts)
    assert measured is not None
    periods = measured.ticks + measured.skipped
    return 100.0 * (1.0 - (measured.answers.size - measured.overdue) / periods) if periods else 100.0


def _opening(interruption: Interruption) -> tuple[float, float]:
    """Time from the command to the page of a long trial, and CPU time of that [s]."""
    (one,) = experiment.load("corner_peg", ["rate=1000"], duration=LONG)
    times, used = [], []
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        trial.close(one, "offline", directory, trial.run_offline(one, directory, interruption, None))
        for _ in range(OPENINGS):
            command = [sys.executable, "-m", "haptic_bench", "view", folder, "--port", str(free_port(HOST, None))]
            begun = time.monotonic()
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                process.stdout.readline()
                times.append(time.monotonic() - begun)
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                process.terminate()
                process.wait()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(times), statistics.median(used)
