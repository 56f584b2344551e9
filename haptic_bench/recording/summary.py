"""summary.json: the results of a trial or a sweep, in its directory."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from haptic_sim import inputs
from haptic_sim.parameters import ParameterError


def read_summary(directory: Path) -> dict[str, Any]:
    """The summary of a trial or of a sweep.

    Raises:
        ParameterError: there is none, or it is not one.
    """
    path = directory / "summary.json"
    try:
        summary = inputs.read_json(inputs.read_text(path))
    except inputs.InputError as error:
        raise ParameterError([f"{inputs.shown(str(path))}: {error}; is this a trial's directory?"]) from error
    problem = _problem_of(summary)
    if problem:
        raise ParameterError([f"{path}: {problem}; is this a trial's directory?"])
    if "sweep" in summary:
        runs_of(directory, summary)
    return dict(summary)


def _problem_of(summary: Any) -> str:
    """What a summary lacks that everything that reads one relies on; empty if nothing."""
    if not isinstance(summary, dict):
        return "must be a mapping"
    for name in ("experiment", "mode", "status"):
        if not isinstance(summary.get(name), str):
            return f"{name} = {inputs.shown(summary.get(name))}: must be a text"
    return ""


def runs_of(directory: Path, summary: Mapping[str, Any]) -> dict[str, Path]:
    """Directories of a sweep's runs by label; empty for a trial.

    Raises:
        ParameterError: one is not a folder of the sweep: whoever follows it would read or write elsewhere.
    """
    sweep = summary.get("sweep", {"runs": []})
    runs = sweep.get("runs") if isinstance(sweep, dict) else None
    found: dict[str, Path] = {}
    for run in runs if isinstance(runs, list) else [None]:
        label, name = (run.get(key) if isinstance(run, dict) else None for key in ("label", "directory"))
        plain = isinstance(name, str) and "\0" not in name and name == Path(name).name and name != ".."
        folder = directory / str(name)
        if not (isinstance(label, str) and plain and folder.resolve().parent == directory.resolve()):
            where = f"{directory / 'summary.json'}: sweep.runs: {inputs.shown(run)}"
            raise ParameterError([f"{where}: must have a label, and the name of a directory in this one"])
        found[label] = folder
    return found


def write_summary(directory: Path, summary: dict[str, Any]) -> None:
    """Write summary.json."""
    text = json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False)
    draft = directory / "summary.json.draft"
    try:
        draft.write_text(text + "\n", encoding="utf-8")
        draft.replace(directory / "summary.json")
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def is_complete(summary: Mapping[str, Any]) -> bool:
    """Whether a trial's samples, metrics and page were written after it was closed."""
    return summary.get("complete") is not False
