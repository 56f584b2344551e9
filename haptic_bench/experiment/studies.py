"""The study of an experiment, found by its name.

A study is a module of `haptic_bench.studies`, which an experiment names in its key `analysis`. Studies import
experiments, so no module here may import a study: it is looked up by name when an experiment needs it.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from haptic_sim.parameters import ParameterError

PACKAGE = "haptic_bench.studies"
_FOLDER = Path(__file__).resolve().parents[1] / "studies"


def names() -> list[str]:
    """All studies; `trial` is for any experiment, and comes first."""
    modules = {path.stem for path in _FOLDER.glob("*.py")} - {"__init__", "study", "trial"}
    return ["trial", *sorted(modules)]


def find(name: str) -> Any:
    """The study of a name, a `haptic_bench.studies.Study`.

    Raises:
        ParameterError: there is none of that name.
    """
    if name not in names():
        raise ParameterError([f"analysis = {name}: must be one of {', '.join(names())}"])
    return importlib.import_module(f"{PACKAGE}.{name}").STUDY
