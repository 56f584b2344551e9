"""The steps of a first contact as data, and the directions in which a person moves the handle.

The world of a device in space has x away from the person, y to the left, z up (REP 103); that of one in the plane has x
to the right, y away.
"""

from __future__ import annotations

import re
from typing import NamedTuple

DISTANCE = 0.1  # [m] that the person moves the handle, where the workspace allows it
SHARE = 0.45  # of the shortest side of the workspace that a motion from its middle takes at most
FACTOR = 2.0  # by which a motion of a person may differ from what was asked


class Step(NamedTuple):
    """One step.

    Attributes:
        name: of what was looked at.
        asked: of the person or of the device; expected, found: with units.
        remedy: what to do if it is wrong, or what corrects it; empty: nothing is to be done.
        passed: whether the next step may follow.
    """

    name: str
    asked: str
    expected: str
    found: str
    remedy: str
    passed: bool


class Motion(NamedTuple):
    """A direction that a person knows, the opposite one, and its unit vector in the world (3,)."""

    name: str
    opposite: str
    direction: tuple[float, float, float]


SPACE = (
    Motion("right", "left", (0.0, -1.0, 0.0)),
    Motion("away", "toward", (1.0, 0.0, 0.0)),
    Motion("up", "down", (0.0, 0.0, 1.0)),
)
PLANE = (Motion("right", "left", (1.0, 0.0, 0.0)), Motion("away", "toward", (0.0, 1.0, 0.0)))
TURNS = (
    Motion("turn the handle to the left about the vertical axis", "", (0.0, 0.0, 1.0)),
    Motion("tip the handle over to the right", "", (1.0, 0.0, 0.0)),
)
"""Turns of a person, with the axis in the world, right-handed; those in the plane are the first alone."""


def motions_of(sensed: tuple[str, ...]) -> tuple[Motion, ...]:
    """The motions of a device that measures these directions; none if that is neither space nor the plane x, y."""
    translations = {name for name in sensed if name in "xyz"}
    return SPACE if translations == set("xyz") else PLANE if translations == set("xy") else ()


def distance_of(workspace: tuple[float, ...] | None, motions: tuple[Motion, ...]) -> float:
    """Displacement of the handle from the middle of the workspace by a person, in whole centimetres [m]."""
    if workspace is None:
        return DISTANCE
    shortest = min(workspace[3 + i] - workspace[i] for i in range(len(motions)))
    return min(DISTANCE, max(0.01, int(100.0 * SHARE * shortest) / 100.0))


NAMED = re.compile(r"(?:answer|which way did it push): (\w+(?:, (?:or )?\w+)*)(?:; Enter ends here)?$")


def named_answers(request: str) -> tuple[str, ...]:
    """The answers that a request names at its end; an empty one is that of Enter alone."""
    found = NAMED.search(request)
    words = tuple(re.split(r", (?:or )?", found[1])) if found else ()
    return (*words, "") if request.endswith(("press Enter", "Enter ends here")) else words
