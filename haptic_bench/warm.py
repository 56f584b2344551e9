"""Compile all kernels into their cache, so that the first trial does not wait for it."""

from __future__ import annotations

from haptic_bench import experiment
from haptic_bench.samples import simulated

ARCHITECTURES: tuple[tuple[str, ...], ...] = ((), ("local_model.type=full", "environment.rate=60"))


def main() -> None:
    """Run a few ticks of each architecture: a kernel is compiled when it is first called."""
    for settings in ARCHITECTURES:
        for trial in experiment.load("corner_peg", settings, duration=0.05):
            simulated(trial)


if __name__ == "__main__":
    main()
