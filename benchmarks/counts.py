"""Counts of what a tick of the servo path makes Python do: numbers that the noise of a machine cannot move.

A tick is some tens of microseconds, and most of it is Python between kernels. For each of some closed loops these are
counted over the same ticks: instructions of Python's virtual machine, calls of functions in Python, and calls of
compiled functions (kernels, NumPy). Instructions of Python are counted for each package, too, so that a core that does
a tenth more is found though it is a small part of the tick. Times are what the other benchmarks measure.

Of steps that are mostly compiled code, and of the loops, the machine's instructions are counted (`instructions`). They
differ from processor to processor; the record is of one.

    ./haptics shell python -m benchmarks.counts > benchmarks/counts.json

writes the record with which a test compares.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.instructions import KERNELS, Step, UncountableError, count_instructions, target
from haptic_bench import experiment
from haptic_bench.running.offline import build_loop
from haptic_bench.trials.trial import open_bag

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
COMPOSED = "synchronous, composed nodes"
"""Recorded loop as the servo thread of composed nodes makes it; needs ROS."""
RECORDED = "synchronous, with its bag"
"""The loop whose messages are written into a bag; chunk by chunk, so that its steps are not alike."""

ROOT = Path(__file__).resolve().parents[1]
UNCOUNTABLE = 3  # exit status of a process that cannot count
OUTSIDE = "others"  # what is of no package of the checkout

Counts = dict[str, float]


def python_version() -> str:
    """Version by which instructions differ."""
    return ".".join(platform.python_version_tuple()[:2])


def package_of(file: str) -> str:
    """Package of a source file, with its folder: haptic_sim.tool."""
    path = Path(file)
    if not path.is_relative_to(ROOT) or ".haptics" in path.parts:
        return OUTSIDE
    return ".".join(path.relative_to(ROOT).parts[:-1][:2]) or OUTSIDE


def count(step: Step, ticks: int = TICKS) -> Counts:
    """Means of what Python does in a call of `step`."""
    found: dict[str, int] = dict.fromkeys(("instructions", "Python calls", "compiled calls"), 0)
    files: dict[str, int] = {}

    def traced(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            found["Python calls"] += 1
        elif event == "opcode":
            file = frame.f_code.co_filename
            files[file] = files.get(file, 0) + 1
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
    for file, number in files.items():
        found["instructions"] += number
        of = f"instructions of {package_of(file)}"
        found[of] = found.get(of, 0) + number
    return {name: number / ticks for name, number in found.items()}


def step_of(name: str) -> Step:
    """A tick of the loop of this name, which has settled."""
    (trial,) = experiment.load(*LOOPS[name])
    loop = build_loop(trial, lambda tick, messages: None)
    for _ in range(SETTLE):
        loop.step()
    return loop.step


def count_recorded() -> Counts:
    """Count, as `count`, for the loop RECORDED."""
    (trial,) = experiment.load(*LOOPS["synchronous"])
    with tempfile.TemporaryDirectory() as folder:
        experiment.write_resolved(trial, Path(folder))
        book = open_bag(trial.experiment, Path(folder), trial.experiment.namespace)
        loop = build_loop(trial, book.add_tick)
        for _ in range(SETTLE):
            loop.step()
        found = count(loop.step)
        book.close()
    return found


def count_composed() -> Counts:
    """Count, as `count`, for the loop COMPOSED."""
    from benchmarks.composed import composed_tick  # needs ROS

    (trial,) = experiment.load(*LOOPS["synchronous"])
    with composed_tick(trial) as step:
        for _ in range(SETTLE):
            step()
        return count(step)


def count_all() -> dict[str, Counts]:
    """Counts of all loops by name."""
    found = {name: count(step_of(name)) for name in LOOPS} | {RECORDED: count_recorded()}
    return found | {COMPOSED: count_composed()}


def count_machine(name: str) -> int:
    """Instructions of the machine in a step of a kernel, or a tick of a loop.

    Raises:
        UncountableError: they cannot be counted here.
    """
    return count_instructions(KERNELS[name]() if name in KERNELS else step_of(name))


def count_in_new_process(name: str) -> int:
    """Count, as `count_machine`, in a new process: what others left in the memory allocator takes instructions, too.

    Raises:
        UncountableError: they cannot be counted here.
    """
    command = [sys.executable, "-m", "benchmarks.counts", name]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode == UNCOUNTABLE:
        raise UncountableError(found.stderr.strip())
    if found.returncode:
        raise RuntimeError(f"instructions of {name} could not be counted: {found.stderr.strip()}")
    return int(found.stdout)


def measure(row: Callable[..., dict[str, Any]]) -> list[dict[str, Any]]:
    """Count all loops and kernels; `row` makes a line of the table."""
    found = [
        row(f"{what} a tick, {name}", value, "", "", None)
        for name, counted in count_all().items()
        for what, value in counted.items()
    ]
    try:
        found += [
            row(f"machine's a step, {name}", count_in_new_process(name), "", "", None) for name in (*KERNELS, *LOOPS)
        ]
    except UncountableError as error:
        print(f"    {error}", flush=True)
    return found


def main(arguments: list[str]) -> int:
    """Print the machine's instructions of a step of one name, or without a name the record; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counts", description="Print the record of all counts.")
    about = f"print the machine's instructions of its step alone; one of: {'; '.join((*KERNELS, *LOOPS))}"
    parser.add_argument("name", metavar="NAME", nargs="?", choices=(*KERNELS, *LOOPS), help=about)
    name = parser.parse_args(arguments).name
    if name is not None:
        try:
            print(count_machine(name))
        except UncountableError as error:
            print(error, file=sys.stderr)
            return UNCOUNTABLE
        return 0
    record = {
        "python": python_version(),
        "loops": count_all(),
        "target": target(),
        "machine": {name: count_in_new_process(name) for name in (*KERNELS, *LOOPS)},
    }
    json.dump(record, sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
