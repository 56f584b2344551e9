"""Compile all kernels into their cache, so that the first trial does not wait for it."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from haptic_bench import experiment
from haptic_bench.samples import simulated

TRIALS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("corner_peg", ("scene.gap=[1e-5,1e-5]",)),
    ("corner_peg", ("scene.gap=[1e-5,1e-5]", "device.impulse_rendering=spread")),
    ("corner_peg", ("local_model.type=full", "environment.rate=60")),
    ("incline", ()),
    ("bounce_settle", ("scene.height=0.01",)),
    ("stack", ("scene.boxes=3",)),
    ("frictional_impact", ("scene.gap=0.001",)),
)
"""Short trials that together call every kernel: each is compiled when it is first called."""


def simulate(name: str, settings: tuple[str, ...]) -> None:
    """Run a few ticks."""
    for trial in experiment.load(name, [*settings, "analysis=trial"], duration=0.05):
        simulated(trial)


def main() -> None:
    """Run them all: the first, whose kernels all share, then the others side by side."""
    simulate(*TRIALS[0])
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for done in [pool.submit(simulate, *trial) for trial in TRIALS[1:]]:
            done.result()


if __name__ == "__main__":
    main()
