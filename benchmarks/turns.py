"""Times of steps, measured in turns, so that other work of the machine affects all compared functions alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

COLD = 3  # steps of a turn that do not count, the first ones

Figures = dict[str, float]


@dataclass(frozen=True)
class Contestant:
    """Function to measure: `step`; `before` is called ahead of every step, which its time leaves out."""

    step: Callable[[], object]
    before: Callable[[], object] | None = None


@dataclass
class Times:
    """Times of the steps of one contestant, one after another and once a period [s]."""

    tight: list[float] = field(default_factory=list)
    tight_cpu: list[float] = field(default_factory=list)
    paced: list[float] = field(default_factory=list)
    paced_cpu: list[float] = field(default_factory=list)

    def figures(self) -> Figures:
        """Medians and 99th percentiles [us]."""
        figures: Figures = {}
        for name in ("tight", "tight_cpu", "paced", "paced_cpu"):
            values = getattr(self, name)
            if values:
                p50, p99 = np.percentile(values, (50, 99))
                figures |= {f"{name}_p50": 1e6 * float(p50), f"{name}_p99": 1e6 * float(p99)}
        return figures


def take_turns(
    contestants: Mapping[str, Contestant], rounds: int, steps: int, period: float | None
) -> dict[str, Times]:
    """Measure contestants by name, `steps` steps each in every round: one after another, then once a `period` [s].

    Without a period there are no steps of the latter kind. The garbage collector is off.
    """
    times = {name: Times() for name in contestants}
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, one in contestants.items():
                _turn(one, times[name].tight, times[name].tight_cpu, steps, None)
        for _ in range(rounds if period is not None else 0):
            for name, one in contestants.items():
                _turn(one, times[name].paced, times[name].paced_cpu, steps, period)
    finally:
        if collecting:
            gc.enable()
    return times


def _turn(one: Contestant, wall: list[float], cpu: list[float], steps: int, period: float | None) -> None:
    step, prepare, wall_clock, cpu_clock = one.step, one.before, time.perf_counter, time.thread_time
    due = wall_clock()
    for i in range(steps):
        if prepare is not None:
            prepare()
        if period is not None:
            due = max(due + period, wall_clock() - period)  # what was missed is not caught up
            while (left := due - wall_clock()) > 0.0:
                time.sleep(max(left - 1e-4, 0.0))  # the end of the wait awake
        before = cpu_clock()
        begun = wall_clock()
        step()
        ended = wall_clock()
        after = cpu_clock()
        if i >= COLD:
            wall.append(ended - begun)
            cpu.append(after - before)
