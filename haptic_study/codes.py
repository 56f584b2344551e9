"""Codes of a session's events, by which other recorders (EEG, motion capture) align their data with the study's.

A study's file may give codes of its own under `codes`: of an event, or of an event with a label, as `answer yes`,
`begin delay=0.02`, `interval 2`. An event with a label has the code of that if the file names it, else that of the
event in the file, else that of `DEFAULTS`. Codes are whole numbers from 1 to 255, one byte; 0: the event has none, and
is not sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from haptic_sim import inputs
from haptic_sim.parameters import did_you_mean

DEFAULTS = {
    "open": 1,
    "end": 2,
    "stop": 3,
    "pause": 4,
    "resume": 5,
    "continue": 6,
    "form": 7,
    "begin": 10,
    "interval": 11,
    "answer": 20,
    "repeat": 30,
    "drop": 31,
    "exclude": 0,
}
"""Codes of the events of a session (`session`), of its begin and end, and of the begin of an interval."""
LARGEST = 255


class Mark(NamedTuple):
    """An event as other recorders have it.

    Attributes:
        time: of the event in the session [s]; NaN where it is not known.
        code: from 1 to 255; 0: it has none.
        name: of the event, with its label if there is one.
        trial: number of the trial; 0: it is of none.
    """

    time: float
    code: int
    name: str
    trial: int = 0


def code_of(codes: Mapping[str, int], event: str, labels: Sequence[str] = ()) -> int:
    """The code of an event.

    Args:
        codes: of the study's file.
        event: its name.
        labels: that it has; the first that the file names decides.
    """
    for key in (*(f"{event} {label}" for label in labels), event):
        if key in codes:
            return codes[key]
    return DEFAULTS.get(event, 0)


def problems(codes: Mapping[str, int], labels: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Errors of the codes of a file, as lines.

    Args:
        codes: see `code_of`.
        labels: that each event may have.
    """
    for key, code in codes.items():
        event, _, label = key.partition(" ")
        if event not in DEFAULTS:
            yield f"codes.{key}: unknown event{did_you_mean(event, DEFAULTS)}"
        elif label and label not in labels.get(event, ()):
            hint = did_you_mean(label, labels.get(event, ()))
            yield f"codes.{key}: {inputs.shown(label)} is not a label of {event}{hint}"
        if not 0 <= code <= LARGEST:
            yield f"codes.{key} = {code}: must be from 0 (not sent) to {LARGEST}, a byte"
