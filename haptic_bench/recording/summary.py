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
    """Missing entries of a summary that all readers need; empty if none is missing."""
    match summary:
        case {"experiment": str(), "mode": str(), "status": str()}:
            return ""
        case dict():
            name = next(name for name in ("experiment", "mode", "status") if type(summary.get(name)) is not str)
            return f"{name} = {inputs.shown(summary.get(name))}: must be a text"
    return "must be a mapping"


def runs_of(directory: Path, summary: Mapping[str, Any]) -> dict[str, Path]:
    """Directories of a sweep's runs by label; empty for a trial.

    Raises:
        ParameterError: one is not a folder of the sweep: whoever follows it would read or write elsewhere.
    """
    match summary.get("sweep", {"runs": []}):
        case {"runs": list(runs)}:
            pass
        case _:
            runs = [None]
    found: dict[str, Path] = {}
    for run in runs:
        match run:
            case {"label": str(label), "directory": str(name)} if _is_in(directory, name):
                found[label] = directory / name
            case _:
                where = f"{directory / 'summary.json'}: sweep.runs: {inputs.shown(run)}"
                raise ParameterError([f"{where}: must have a label, and the name of a directory in this one"])
    return found


def _is_in(directory: Path, name: str) -> bool:
    """Whether a name is that of a folder in a directory, and leads nowhere else."""
    plain = "\0" not in name and name == Path(name).name and name != ".."
    return plain and (directory / name).resolve().parent == directory.resolve()


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
