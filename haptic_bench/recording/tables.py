"""A recorded trial as one table: columns with unit and frame, events, and what was run.

This is what `haptics export` writes, whatever the format (`exports`). The columns are those of `samples.csv`, bit by
bit; docs/export.md has their meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from haptic_bench.recording.bag import BagError
from haptic_bench.recording.samples import Samples
from haptic_bench.recording.trial_bag import read_event, read_messages
from haptic_ros.graph import EVENTS
from haptic_sim.parameters import ParameterError

WORLD = "world"  # the frame of every pose, twist and wrench
GENERALISED = "SI"  # of coordinates of joints: m and m/s of slides, rad and rad/s of hinges
# Units by what the end of a column's name is; the first that fits counts.
_UNITS = tuple(
    (re.compile(pattern), unit, framed)
    for pattern, unit, framed in (
        (r"^(tick|contacts|colliding|sliding_contacts|operator_body)$", "1", False),
        (r"(content_tick|device_state|device_reason)$", "1", False),
        (r"^time$|reading_age$", "s", False),
        (r"energy|absorbed|delivered|dissipated|available", "J", False),
        (r"_p[xyz]$", "m", True),
        (r"_q[xyzw]$", "1", True),
        (r"_v[xyz]$", "m/s", True),
        (r"_w[xyz]$", "rad/s", True),
        (r"_f[xyz]$", "N", True),
        (r"_t[xyz]$", "N m", True),
        (r"^(q|v|lambda)\d+$|^residual_", GENERALISED, False),
    )
)


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        values: (rows,) float64 or int64.
        unit: of SI; 1 for what has none.
        frame: whose axes it is in; empty: it has none.
    """

    values: np.ndarray
    unit: str
    frame: str


class Event(NamedTuple):
    """Event in a trial: time [s], kind, and details."""

    time: float
    node: str
    name: str
    detail: str


class TrialTable(NamedTuple):
    """A trial as a table.

    Attributes:
        columns: of equal length, by name, in the order of `samples.csv`.
        events: in the order of time.
        metadata: what was run: experiment, title, rate [Hz], status, mode, versions, and all keys.
    """

    columns: dict[str, Column]
    events: tuple[Event, ...]
    metadata: dict[str, Any]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())).values)

    def described(self) -> dict[str, Any]:
        """Metadata, and unit and frame of each column, as JSON has it."""
        columns = {name: {"unit": one.unit, "frame": one.frame} for name, one in self.columns.items()}
        return {**self.metadata, "columns": columns}


def unit_of(name: str) -> tuple[str, str]:
    """Unit and frame of a column of samples; those of a name that is not known are empty."""
    for pattern, unit, framed in _UNITS:
        if pattern.search(name):
            return unit, WORLD if framed else ""
    return "", ""


def read_events(directory: Path, rate: float) -> tuple[Event, ...]:
    """The events of a trial's bag; `rate` of the servo [Hz].

    Raises:
        ParameterError: the bag cannot be read.
    """
    try:
        recorded: Mapping[str, Sequence[bytes]] = read_messages(directory)
    except (BagError, OSError) as error:
        raise ParameterError([f"{error}; `haptics repair {directory}` repairs a bag that was cut"]) from error
    found = []
    for data in recorded.get(EVENTS, ()):
        tick, node, name, detail = read_event(data)
        found.append(Event(tick / rate, node, name, detail))
    return tuple(sorted(found))


def table_of(samples: Samples, events: Sequence[Event], metadata: Mapping[str, Any]) -> TrialTable:
    """The table of samples, with its events and what was run."""
    columns = {name: Column(samples[name], *unit_of(name)) for name in samples.names}
    return TrialTable(columns, tuple(events), dict(metadata))
