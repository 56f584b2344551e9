"""Events of a person with a pointer: checked where they come in, and given out once a tick.

A table of events has a row for each: time [s], phase, whether it is oriented, body, point (3,) and pose (7,), as of
`OperatorEvent`. It is read from a file, or taken from a recorded trial, which then runs again as it did.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from haptic_sim import inputs
from haptic_sim.messages import GRAB, HAND, MOVE, RELEASE, MessageError, OperatorEvent
from haptic_sim.parameters import ParameterError

PHASES = {"grab": GRAB, "move": MOVE, "release": RELEASE}
EVENT_COLUMNS = ("time", "phase", "oriented", "body", "px", "py", "pz", "x", "y", "z", "qx", "qy", "qz", "qw")
LARGEST = 1e3  # [m]; no pointer is further from where it took hold
MOST_WAITING = 64  # events; more than ever come in a tick of any rate
_RELEASE_EVENT = np.array([0.0, RELEASE, 0, HAND, *(6 * [0.0]), 0.0, 0.0, 0.0, 1.0])


Bodies = Mapping[str, bool]
"""Bodies that a pointer may drag beside the hand: whether each body of a world moves, in the order of world states."""


def event_problem(event: OperatorEvent, bodies: Bodies | None) -> str:
    """Reason why an event cannot be followed; empty if it can. `bodies` None: not known, so that any index is valid."""
    if event.phase not in PHASES.values():
        return f"phase = {event.phase}: must be {GRAB}, {MOVE} or {RELEASE}"
    if not event.is_finite():
        return "is not finite"
    if max(np.abs(event.point).max(), np.abs(event.pose[:3]).max()) > LARGEST:
        return f"is more than {LARGEST:g} m away"
    if problem := _body_problem(event.body, bodies):
        return problem
    if not 0.5 < math.hypot(*event.pose[3:]) < 2.0:
        return f"orientation {event.pose[3:].tolist()}: must be a unit quaternion x y z w"
    return ""


def _body_problem(body: int, bodies: Bodies | None) -> str:
    """Reason why a body cannot be dragged; empty if it can."""
    if body == HAND or (bodies is None and body >= 0):
        return ""
    if not bodies:
        return f"body = {body}: is not there; {HAND} is the hand"
    names = list(bodies)
    found = f"{names[body]} does not move" if 0 <= body < len(names) else "is not there"
    if 0 <= body < len(names) and bodies[names[body]]:
        return ""
    known = ", ".join(f"{i} ({name})" for i, name in enumerate(names) if bodies[name])
    return f"body = {body}: {found}; must be {HAND}, the hand, or one of {known}"


class Events:
    """Events of a pointer, from a table or received during the trial; at most one acts in a tick.

    A received event is ignored if it is repeated or late, or if it comes from another source while one source holds a
    body. An event that cannot be followed releases the body.

    Args:
        table: rows in the order of time; None: events are received by `offer`.
        bodies: that can be dragged beside the hand.

    Attributes:
        taken: the last event that took effect; `taken_at`: its time [s], NaN before the first.
        body: index of the body on which the operator's wrench acts, as the operator commands.
        ignored: number of ignored events.
    """

    def __init__(self, table: np.ndarray | None = None, bodies: Bodies = MappingProxyType({})):
        self._table = None if table is None else np.ascontiguousarray(table, float)
        self._row, self._bodies = 0, bodies
        self._waiting: deque[np.ndarray] = deque()
        self._source, self._sequence, self._holds = -1, -1, False  # of the last event that was not ignored
        self.taken, self.taken_at = OperatorEvent(), math.nan
        self.body, self.ignored = HAND, 0

    @property
    def live(self) -> bool:
        """Whether events are received during the trial."""
        return self._table is None

    def offer(self, event: OperatorEvent) -> None:
        """Queue a received event, which acts in one of the next ticks.

        Raises:
            MessageError: it cannot be followed; the pointer releases the body that it holds.
        """
        others = event.source != self._source
        if (others and self._holds) or (not others and event.sequence <= self._sequence):
            self.ignored += 1
            return
        problem = event_problem(event, self._bodies)
        if problem or len(self._waiting) >= MOST_WAITING:
            event.phase = RELEASE
            event.point[:] = event.pose[:] = 0.0
            event.body, event.oriented, event.pose[6] = HAND, 0, 1.0
            self._waiting.clear()
        elif not self._holds and event.phase != GRAB:
            self.ignored += 1
            return
        self._source, self._sequence = event.source, event.sequence
        self._holds = event.phase != RELEASE
        row = row_of(event, 0.0)
        if event.phase == MOVE and self._waiting and self._waiting[-1][1] == MOVE:
            self._waiting[-1] = row  # only where the pointer is now counts
        else:
            self._waiting.append(row)
        if problem:
            raise MessageError(f"operator_events_in: {problem}")

    def grabs(self, time: float) -> int | None:
        """The body that the `next` event takes hold of; None if it takes hold of none."""
        row = self._due(time)
        return None if row is None or row[1] != GRAB else int(row[3])

    def _due(self, time: float) -> np.ndarray | None:
        if self._table is None:
            return self._waiting[0] if self._waiting else None
        if self._row >= len(self._table) or self._table[self._row, 0] > time:
            return None
        return self._table[self._row]

    def next(self, time: float) -> OperatorEvent | None:
        """The event that acts in the tick that begins at `time` [s]; None if there is none."""
        row = self._due(time)
        if row is None:
            return None
        if self._table is None:
            self._waiting.popleft()
        else:
            self._row += 1
        return self._take(row, time)

    def release(self, time: float) -> OperatorEvent:
        """An event that lets go in the tick at `time` [s], before the next event can act."""
        return self._take(_RELEASE_EVENT, time)

    def _take(self, row: np.ndarray, time: float) -> OperatorEvent:
        event = self.taken
        event.source, event.sequence = max(self._source, 0), max(self._sequence, 0)
        event.phase, event.oriented, event.body = (int(value) for value in row[1:4])
        event.point[:], event.pose[:] = row[4:7], row[7:]
        self.taken_at = time
        return event

    def event_of(self, tick: int, time: float) -> OperatorEvent | None:
        """The event that took effect in a tick, which begins at `time` [s], with that tick; None if there was none."""
        if time != self.taken_at:
            return None
        self.taken.tick = tick
        return self.taken

    def lose(self) -> None:
        """Nobody holds any more: no sign of it came for too long, or it cannot be held."""
        self._holds = False
        self._waiting.clear()


def row_of(event: OperatorEvent, time: float) -> np.ndarray:
    """The row of an event in a table."""
    return np.array([time, event.phase, event.oriented, event.body, *event.point, *event.pose])


def recorded_events(messages: Iterable[bytes], rate: float) -> np.ndarray:
    """The table of the events that took effect in a trial, from its serialised OperatorEvents."""
    event, rows = OperatorEvent(), []
    for data in messages:
        event.load(data)
        rows.append(row_of(event, event.tick / rate))
    return np.array(sorted(rows, key=lambda row: float(row[0]))).reshape(-1, len(EVENT_COLUMNS))


def read_events(lines: Iterable[str], name: str, bodies: Bodies | None = None) -> np.ndarray:
    """Rows of a file of events, (n, 14), see the module; `bodies` as of `event_problem`.

    Raises:
        ParameterError: a line that is no event that can be followed, or is before the line before; names the line.
    """
    rows: list[np.ndarray] = []
    event = OperatorEvent()
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.split(",")]
        where = f"{name}, line {number}"
        if number == 1:
            if tuple(cells) != EVENT_COLUMNS:
                found = inputs.shown(line.strip())
                raise ParameterError([f"{where}: {found!r}: must be the header {','.join(EVENT_COLUMNS)}"])
            continue
        if not line.strip():
            continue
        row = _read_row(cells)
        if row is None:
            raise ParameterError(
                [
                    f"{where}: {inputs.shown(line.strip())!r}: must be a time >= 0, grab, move or release, 0 or 1, "
                    f"{HAND} for the hand, and ten finite numbers"
                ]
            )
        event.phase, event.oriented, event.body = (int(value) for value in row[1:4])
        event.point[:], event.pose[:] = row[4:7], row[7:]
        if problem := event_problem(event, bodies):
            raise ParameterError([f"{where}: {problem}"])
        if rows and row[0] < rows[-1][0]:
            raise ParameterError(
                [f"{where}: time = {row[0]:g} s: must not be before the line before ({rows[-1][0]:g} s)"]
            )
        rows.append(row)
    if not rows:
        raise ParameterError([f"{name}: no rows: must have the header {','.join(EVENT_COLUMNS)} and at least one row"])
    return np.array(rows)


def _read_row(cells: Sequence[str]) -> np.ndarray | None:
    """The values of a line, None if it is none."""
    if len(cells) != len(EVENT_COLUMNS) or cells[1] not in PHASES or cells[2] not in ("0", "1"):
        return None
    try:
        time, body = inputs.number(cells[0]), inputs.whole_number(cells[3])
        rest = [inputs.number(cell) for cell in cells[4:]]
    except inputs.InputError:
        return None
    if time < 0.0 or not -(2**31) <= body < 2**31:
        return None
    return np.array([time, PHASES[cells[1]], int(cells[2]), body, *rest])


def write_events(table: np.ndarray) -> str:
    """The file of a table, which `read_events` reads to the same bits."""
    names = {value: name for name, value in PHASES.items()}
    lines = [",".join(EVENT_COLUMNS)]
    for row in table.tolist():
        time, phase, oriented, body, *rest = row
        numbers = ",".join(_text(value) for value in rest)
        lines.append(f"{_text(time)},{names[int(phase)]},{int(oriented)},{int(body)},{numbers}")
    return "\n".join(lines) + "\n"


def _text(value: float) -> str:
    """A number as it is read again; one below what is read is none."""
    return repr(0.0 if abs(value) < sys.float_info.min else value)
