"""Omissions of ticks from signed distance fields (`CollisionDetector.omissions`), as a file of a trial."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from haptic_sim import inputs
from haptic_sim.tool.protocol import ToolSide
from haptic_sim.tool.surroundings import Surroundings

NAME = "omissions.json"


def omissions_of(core: ToolSide | Surroundings) -> int | None:
    """Leaves that the ticks of a core have left out; None: it has no fields, or does not count them."""
    found: int | None = getattr(core, "omissions", None)
    return found


def invalid_steps_of(core: ToolSide) -> int:
    """Steps of a core in which its contact method gave a number that is not finite; 0 if it does not count them."""
    return int(getattr(core, "invalid_steps", 0))


def write_omissions(directory: str | Path, count: int | None, invalid_steps: int = 0) -> None:
    """Leave both counts in a trial's directory, if there is one and something was left out."""
    if (count or invalid_steps) and str(directory):
        found = {"leaves": count or 0, "invalid_steps": invalid_steps}
        with contextlib.suppress(OSError):  # the disk is full, which the recorder says
            (Path(directory) / NAME).write_text(json.dumps(found), encoding="utf-8")


def read_omissions(directory: Path, name: str = "leaves") -> int:
    """A count of a trial's directory, `leaves` or `invalid_steps`; 0: nothing was left out."""
    try:
        found = inputs.read_json(inputs.read_text(directory / NAME))
    except inputs.InputError:
        return 0
    return found[name] if isinstance(found, dict) and type(found.get(name)) is int else 0
