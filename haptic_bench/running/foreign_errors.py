"""Errors that are raised in parts of other packages, in words for their authors."""

from __future__ import annotations

import importlib.metadata
import traceback

from haptic_bench.experiment import Experiment
from haptic_sim.parts import packages_of


def describe_foreign(error: BaseException, experiment: Experiment) -> str:
    """What was raised, with file and line of the part of another package; empty if none of an experiment's is in it."""
    foreign, owners = packages_of(experiment), importlib.metadata.packages_distributions()
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if owners.get(top, [top])[0] in foreign:
            code, text = frame.f_code, f"{type(error).__name__}: {error}".rstrip(": ")
            return f"{code.co_filename}, line {line}, in {code.co_name}: {text}"
    return ""
