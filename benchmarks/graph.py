"""Benchmark of the ROS graph in realtime: round trips, answers in time, CPU time, lost messages.

Trials alternate with empty chains (nodes that only pass messages on), so that other work of the machine affects both.
Figures are medians over the repetitions, ratios are medians of the ratios of neighbouring runs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from haptic_bench import experiment
from haptic_bench.analysis import health
from haptic_bench.analysis.health import Health
from haptic_bench.running.runner import Interruption
from haptic_bench.trials import trial
from haptic_ros import graph

EMPTY_CHAIN = Path(__file__).with_name("empty_chain.py")
ROLES = ("recorder", "environment", "controller", "driver")
REPETITIONS = 3
DURATION = 4.0  # [s] of a trial
FASTEST = 5000  # [Hz] of composed nodes
OVER_EMPTY = {"p50": 1.15, "p99": 1.2}  # most of a round trip over the empty chain's
CPU = 15.0  # [% of a core] most of a node
COMPOSED = {"p50": 30.0, "p99": 90.0}  # [us] most of a round trip at 1 kHz
SETTLED = 0.5  # [s] from the first tick after which CPU is counted
Row = Callable[[str, float, str, str, bool | None], dict[str, Any]]


@dataclass
class Measured:
    """Results of the repetitions of a trial."""

    p50: list[float] = field(default_factory=list)  # [us] of the round trips
    p99: list[float] = field(default_factory=list)
    in_time: list[float] = field(default_factory=list)  # [%] of the periods
    rate: list[float] = field(default_factory=list)  # [Hz]
    lost: list[int] = field(default_factory=list)  # messages
    cpu: dict[str, list[float]] = field(default_factory=dict)  # [%] of a core, by node

    def add(self, one: Health, cpu: Mapping[str, float]) -> None:
        """Take over a trial."""
        p50, p99 = np.percentile(one.answers, (50, 99)) if one.answers.size else (np.inf, np.inf)
        self.p50.append(1e6 * float(p50))
        self.p99.append(1e6 * float(p99))
        self.in_time.append(100.0 * in_time(one))
        self.rate.append(one.achieved or 0.0)
        self.lost.append(int(one.counts["lost_messages"]))
        for name, value in cpu.items():
            self.cpu.setdefault(name, []).append(value)


def in_time(one: Health) -> float:
    """Part of the periods in which a tick was answered before the next; one without a tick counts as not answered."""
    periods = one.ticks + one.skipped
    return (one.answers.size - one.overdue) / periods if periods else 0.0


def measure(row: Row) -> list[dict[str, Any]]:
    """Run all of it; `row` makes a line of the table from name, value, unit, target and whether that is met."""
    split = {512: Measured(), 1000: Measured()}
    composed = {1000: Measured(), FASTEST: Measured()}
    ratios: dict[tuple[int, str], list[float]] = {}
    idle: dict[str, list[float]] = {}  # [%] of a core, by role in the empty chain
    with Interruption() as interruption:
        for _ in range(REPETITIONS):
            for rate, measured in split.items():
                measured.add(*_trial(rate, interruption, composed=False))
                empty = _empty_chain(rate, interruption)
                for name, value in (("p50", measured.p50[-1]), ("p99", measured.p99[-1])):
                    ratios.setdefault((rate, name), []).append(value / (1e6 * empty[f"round_trip_{name}"]))
                for role, value in empty["cpu"].items() if rate == 1000 else ():
                    idle.setdefault(role, []).append(value)
                _notify(f"{rate} Hz", measured)
                _notify_empty(rate, empty)
            for rate, measured in composed.items():
                measured.add(*_trial(rate, interruption, composed=True))
                _notify(f"{rate} Hz composed", measured)
    return [*_split_rows(row, split, ratios, idle), *_composed_rows(row, composed)]


def _split_rows(
    row: Row,
    split: Mapping[int, Measured],
    ratios: Mapping[tuple[int, str], list[float]],
    idle: Mapping[str, list[float]],
) -> list[dict[str, Any]]:
    rows = []
    for rate, needed in ((512, 99.0), (1000, 97.0)):
        measured = split[rate]
        for name in ("p50", "p99"):
            value = statistics.median(getattr(measured, name))
            rows.append(row(f"{rate} Hz: {name} of the round trip", value, "us", "", None))
            ratio = statistics.median(ratios[rate, name])
            most = OVER_EMPTY[name]
            rows.append(row(f"{rate} Hz: {name} over an empty chain's", ratio, "", f"<= {most:g}", ratio <= most))
        part = statistics.median(measured.in_time)
        rows.append(row(f"{rate} Hz: answered within the period", part, "%", f">= {needed:g}", part >= needed))
    for name, values in split[1000].cpu.items():
        value = statistics.median(values)
        rows.append(row(f"1000 Hz: CPU of the {name}", value, "% core", f"<= {CPU:g}", value <= CPU))
        if name in idle:
            rows.append(row(f"1000 Hz: CPU of an empty {name}", statistics.median(idle[name]), "% core", "", None))
    lost = max(split[1000].lost)
    rows.append(row("1000 Hz: lost messages, at most", lost, "", "0", lost == 0))
    return rows


def _composed_rows(row: Row, composed: Mapping[int, Measured]) -> list[dict[str, Any]]:
    rows = []
    for rate, measured in composed.items():
        for name, most in COMPOSED.items():
            value, aimed = statistics.median(getattr(measured, name)), rate == 1000
            title = f"composed, {rate} Hz: {name} of the round trip"
            rows.append(row(title, value, "us", f"<= {most:g}" if aimed else "", value <= most if aimed else None))
        part = statistics.median(measured.in_time)
        rows.append(row(f"composed, {rate} Hz: within the period", part, "%", ">= 99.9", part >= 99.9))
    achieved = statistics.median(composed[FASTEST].rate)
    rows.append(row(f"composed, {FASTEST} Hz: achieved rate", achieved, "Hz", "", None))
    return rows


def _notify(name: str, measured: Measured) -> None:
    print(
        f"    {name}: round trip {measured.p50[-1]:.0f} / {measured.p99[-1]:.0f} us, "
        f"{measured.in_time[-1]:.2f} % within the period, {measured.lost[-1]} messages lost",
        flush=True,
    )


def _notify_empty(rate: int, empty: Mapping[str, float]) -> None:
    p50, p99 = (1e6 * empty[f"round_trip_{name}"] for name in ("p50", "p99"))
    print(
        f"    {rate} Hz, empty chain: round trip {p50:.0f} / {p99:.0f} us, {empty['missed']} ticks missed", flush=True
    )


# A trial


def _trial(rate: int, interruption: Interruption, *, composed: bool) -> tuple[Health, dict[str, float]]:
    """Run corner_peg; its health, and how much of a core each process took [%].

    Raises:
        RuntimeError: the trial did not come to its end.
        KeyboardInterrupt: it was interrupted.
    """
    (one,) = experiment.load("corner_peg", [f"rate={rate}"], duration=DURATION)
    usage = _Usage(round(SETTLED * rate), round((DURATION - SETTLED) * rate))
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        outcome = trial.run_graph(one, "realtime", directory, interruption, usage, composed=composed)
        if interruption:
            raise KeyboardInterrupt
        if outcome.status != "done":
            raise RuntimeError(f"benchmark of the graph: {outcome.status} {outcome.reason}".rstrip())
        counts = json.loads((directory / "timing.json").read_text(encoding="utf-8"))
        measured = health.read(directory, float(rate), counts)
    assert measured is not None
    return measured, usage.parts()


class _Usage:
    """CPU time of this process's nodes between two ticks, both of which are reported by the driver."""

    def __init__(self, first: int, last: int):
        self._first, self._last = first, last
        self._pids: dict[str, int] = {}
        self._begin: tuple[float, dict[str, float]] | None = None
        self._end: tuple[float, dict[str, float]] | None = None

    def __call__(self, tick: int) -> None:
        """Called with the ticks done."""
        if not self._pids:
            self._pids = _nodes()
        elif self._begin is None and tick >= self._first:
            self._begin = self._read()
        elif self._end is None and tick >= self._last:
            self._end = self._read()

    def parts(self) -> dict[str, float]:
        """CPU time of each node over the time that passed [%]."""
        if self._begin is None or self._end is None:
            return {}
        (begun, before), (ended, after) = self._begin, self._end
        return {name: 100.0 * (after[name] - before[name]) / (ended - begun) for name in after}

    def _read(self) -> tuple[float, dict[str, float]]:
        return time.monotonic(), {name: _cpu_time(pid) for name, pid in self._pids.items()}


def _nodes() -> dict[str, int]:
    """The nodes that this process has started, by name."""
    names = {role.module: role.module.rpartition(".")[2] for role in graph.ROLES.values()}
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                arguments = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ").split()
            except OSError:  # it has ended
                continue
            if parent == os.getpid():
                found.update({names[text]: int(entry.name) for text in arguments if text in names})
    return dict(sorted(found.items()))


def _cpu_time(pid: int) -> float:
    """CPU time of a process, in and for it [s]."""
    values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")


# The empty chain


def _empty_chain(rate: int, interruption: Interruption) -> dict[str, Any]:
    """Times of the empty chain at the same rate by a Stopwatch, and `cpu` of each role [% of a core].

    Raises:
        RuntimeError: it did not come to its end.
        KeyboardInterrupt: it was interrupted.
    """
    namespace = f"/empty_{uuid.uuid4().hex[:8]}"
    ticks = round(DURATION * rate)
    processes: list[subprocess.Popen[str]] = []
    try:
        for role in ROLES:
            processes.append(
                subprocess.Popen(
                    [sys.executable, str(EMPTY_CHAIN), role, namespace, str(ticks), str(rate)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE if role == "driver" else subprocess.DEVNULL,
                    start_new_session=True,
                    text=True,
                )
            )
        driver = processes[-1]
        deadline = time.monotonic() + 60.0 + 2.0 * DURATION
        seen: list[tuple[float, list[float]]] = []  # times, and CPU times of the processes
        while driver.poll() is None:
            if interruption:
                raise KeyboardInterrupt
            if time.monotonic() > deadline:
                raise RuntimeError("empty chain: does not end")
            seen.append((time.monotonic(), [_cpu_time(process.pid) for process in processes]))
            time.sleep(0.1)  # not by the event, which trials leave set: that would take a core from the chain
        output, _ = driver.communicate()
        if driver.returncode != 0:
            raise RuntimeError(f"empty chain: the driver ended with exit status {driver.returncode}")
        (begun, before), (ended, after) = seen[-round(10.0 * (DURATION - 2.0 * SETTLED))], seen[-round(10.0 * SETTLED)]
        used = [100.0 * (a - b) / (ended - begun) for a, b in zip(after, before, strict=True)]
        return {**json.loads(output), "cpu": dict(zip(ROLES, used, strict=True))}
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
