"""What a tick of the servo path makes Python do, counted: numbers that the noise of a machine cannot move.

A tick is some tens of microseconds, and most of it is Python between kernels. For each of some closed loops these are
counted over the same ticks: instructions of Python's virtual machine, calls of functions in Python, and calls of
compiled functions (kernels, NumPy). Times are what the other benchmarks measure.

    ./haptics shell python -m benchmarks.counts > benchmarks/counts.json

writes the record with which a test compares.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from haptic_bench import experiment
from haptic_bench.running.offline import build_loop

SETTLE, TICKS = 300, 200  # ticks before anything is counted, and that are counted
LOOPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "synchronous": ("corner_peg", ()),
    "local model": ("tight_clearance", ()),
    "relay": ("delayed_wall", ()),
    "two hands": ("two_hands", ()),
    "exact constraints": ("laparoscopic", ()),
    "guarded device": ("corner_peg", ("guard.type=passivity",)),
}
"""Experiment and settings of each loop."""

Counts = dict[str, float]


def python_version() -> str:
    """Version by which instructions differ."""
    return ".".join(platform.python_version_tuple()[:2])


def count(step: Callable[[], object], ticks: int = TICKS) -> Counts:
    """Means of what Python does in a call of `step`."""
    found = {"instructions": 0, "Python calls": 0, "compiled calls": 0}

    def traced(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            found["Python calls"] += 1
        elif event == "opcode":
            found["instructions"] += 1
        return traced

    def profiled(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and argument is not sys.setprofile:
            found["compiled calls"] += 1

    before = sys.gettrace(), sys.getprofile()
    try:
        sys.settrace(traced)
        for _ in range(ticks):
            step()
        sys.settrace(None)
        sys.setprofile(profiled)
        for _ in range(ticks):
            step()
    finally:
        sys.setprofile(before[1])
        sys.settrace(before[0])
    return {name: number / ticks for name, number in found.items()}


def count_loop(name: str) -> Counts:
    """Means of what Python does in a tick of the loop of this name."""
    (trial,) = experiment.load(*LOOPS[name])
    loop = build_loop(trial, lambda topic, tick, data: None)
    for _ in range(SETTLE):
        loop.step()
    return count(loop.step)


def measure(row: Callable[..., dict[str, Any]]) -> list[dict[str, Any]]:
    """Count all loops; `row` makes a line of the table."""
    return [
        row(f"{what} a tick, {name}", value, "", "", None) for name in LOOPS for what, value in count_loop(name).items()
    ]


if __name__ == "__main__":
    record = {"python": python_version(), "loops": {name: count_loop(name) for name in LOOPS}}
    json.dump(record, sys.stdout, indent=2)
    print()
