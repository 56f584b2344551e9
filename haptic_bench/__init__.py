"""Experiments: their catalogue, runs, recordings, replay, reports and the command line.

For programs: `run` runs a trial, a `Loop` is advanced tick by tick, `load_trial` loads a recorded trial, `save_figure`
draws curves in the style of the reports, `Film` takes pictures of a world that moves, `Viewer` shows one in the
browser. Each is imported at its first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from haptic_bench.trials.loop import Loop as Loop
    from haptic_bench.trials.recorded import RecordedTrial as RecordedTrial
    from haptic_bench.trials.recorded import load_trial as load_trial
    from haptic_bench.trials.recorded import run as run
    from haptic_view.figures import save_figure as save_figure
    from haptic_view.film import Film as Film
    from haptic_view.window import Viewer as Viewer

_MODULES = {
    "Film": "haptic_view.film",
    "Loop": "haptic_bench.trials.loop",
    "RecordedTrial": "haptic_bench.trials.recorded",
    "Viewer": "haptic_view.window",
    "load_trial": "haptic_bench.trials.recorded",
    "run": "haptic_bench.trials.recorded",
    "save_figure": "haptic_view.figures",
}
__all__ = ["Film", "Loop", "RecordedTrial", "Viewer", "load_trial", "run", "save_figure"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def main() -> None:
    """The command line, as an installed program."""
    import runpy

    runpy.run_module("haptic_bench", run_name="__main__")
