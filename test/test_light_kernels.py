"""Imports of a cached kernel when it is loaded."""

from __future__ import annotations

import re
import sys
from typing import Any

from haptic_bench import experiment
from haptic_bench.running.offline import build_loop
from haptic_sim.kernels.dispatcher import Kernel


def test_kernels_of_a_trial_load_without_scipy() -> None:
    """Numba's own code for `max()` or LAPACK is kept with a kernel; to load that imports scipy.linalg."""
    (trial,) = experiment.load("corner_peg")
    loop = build_loop(trial.in_mode("offline"), lambda tick, messages: None)
    for _ in range(5):
        loop.step()
    kernels = {
        value: f"{name}.{attribute}"
        for name, module in sys.modules.items()
        if name.startswith(("haptic_sim.dynamics.", "haptic_sim.contact."))
        for attribute, value in vars(module).items()
        if isinstance(value, Kernel)
    }
    loaded: dict[str, list[Any]] = {
        name: list(kernel.overloads.values()) for kernel, name in kernels.items() if kernel.overloads
    }
    assert len(loaded) > 50
    heavy = re.compile("5numba2np(9arraymath|6linalg)")
    found = {
        name
        for name, results in loaded.items()
        for result in results
        for environment in result.referenced_envs or ()  # none of a kernel that this process has compiled
        if heavy.search(environment.env_name)
    }
    assert not found
