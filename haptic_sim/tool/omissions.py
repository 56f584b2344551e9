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


def write_omissions(directory: str | Path, count: int | None) -> None:
    """Leave a count in a trial's directory, if there is one and something was left out."""
    if count and str(directory):
        with contextlib.suppress(OSError):  # the disk is full, which the recorder says
            (Path(directory) / NAME).write_text(json.dumps({"leaves": count}), encoding="utf-8")


def read_omissions(directory: Path) -> int:
    """The count of a trial's directory; 0: nothing was left out."""
    try:
        found = inputs.read_json(inputs.read_text(directory / NAME))
    except inputs.InputError:
        return 0
    return found["leaves"] if isinstance(found, dict) and type(found.get("leaves")) is int else 0
