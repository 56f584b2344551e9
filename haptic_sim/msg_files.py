"""Definitions of the messages, read from `msg/*.msg`, and the layouts that follow from them.

Of the language of ROS 2 messages, this reads what ours use: comments, integer constants, default values, and fields
that are numbers, strings, other messages, arrays of constant length or sequences. A field is flattened: a message of
float64 numbers alone is so many of them (a pose is 7: position, quaternion x y z w), another one is an element of
a structured array.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from haptic_sim.errors import HapticsError
from haptic_sim.installed import PACKAGES, shared_folder

TEXT = "text"  # Field.dtype of a string
HEADER = "std_msgs/Header"

_NUMBERS = {f"{sign}int{8 * size}": f"<{sign or 'i'}{size}" for sign in ("u", "") for size in (1, 2, 4, 8)}
_NUMBERS |= {"float32": "<f4", "float64": "<f8"}
_GEOMETRY = {"Point": 3, "Vector3": 3, "Quaternion": 4, "Pose": 7, "Twist": 6, "Accel": 6, "Wrench": 6}  # float64
_LINE = re.compile(
    r"(?P<type>[\w/]+)(?P<array>\[(?P<length>\d*)\])?\s+(?P<name>\w+)(?P<constant>\s*=)?\s*(?P<value>-?\d+)?"
)


class DefinitionError(HapticsError):
    """A definition of a message was not found, or cannot be read; the text says where, and what can."""


@dataclass(frozen=True)
class Field:
    """One field of a message: NumPy type, number of values; `sequence` if a length precedes the values.

    An element of a sequence may have several values, `width`. A sequence of TEXT is constant for a layout. `default` is
    the value of a number in a new message, `meaning` the comment beside the field.
    """

    name: str
    dtype: Any
    count: int = 1
    sequence: bool = False
    width: int = 1
    default: int = 0
    meaning: str = ""

    @property
    def is_text(self) -> bool:
        """Whether the values are strings."""
        return isinstance(self.dtype, str) and self.dtype == TEXT

    @property
    def is_scalar(self) -> bool:
        """Whether the field is a single number."""
        return self.count == 1 and not self.sequence


class _Member(NamedTuple):
    """A field as a file has it; `length` of an array, 0 of a sequence, None of a single value."""

    type: str
    length: int | None
    name: str
    default: int
    meaning: str


@dataclass(frozen=True)
class Definition:
    """Definition in a file of the name NAME.msg.

    Attributes:
        meaning: the comment at the beginning of the file.
        constants: values by name.
        members: fields as they are written.
    """

    name: str
    meaning: str
    constants: dict[str, int]
    members: tuple[_Member, ...]

    @property
    def type(self) -> str:
        """Name of the type in ROS."""
        return f"haptics/msg/{self.name}"

    @property
    def is_servo(self) -> bool:
        """Whether a `Message` has its layout: it has a header, and all its strings are in sequences."""
        return self.members[0].type == HEADER and all(
            one.type != "string" or one.length == 0 for one in self.members[1:]
        )

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields behind the header, flattened."""
        return tuple(_flattened(one) for one in self.members if one.type != HEADER)

    @cached_property
    def element(self) -> np.dtype:
        """The type of one such message as an element of a sequence.

        Raises:
            DefinitionError: a field would need padding before it, or is a sequence.
        """
        end = 0
        for field in self.fields:
            dtype = np.dtype("u1" if field.is_text else field.dtype)
            if field.sequence or field.is_text or end % dtype.itemsize:
                raise DefinitionError(
                    f"{self.name}.msg: {field.name}: must be of constant length and begin at a multiple of its size, "
                    "to be an element of a sequence"
                )
            end += dtype.itemsize * field.count
        return np.dtype([(one.name, one.dtype, *([] if one.is_scalar else [one.count])) for one in self.fields])


def _flattened(member: _Member) -> Field:
    dtype, count = _of_type(member.type)
    sequence = member.length == 0
    return Field(
        member.name,
        dtype,
        1 if sequence else count * (member.length or 1),
        sequence,
        count if sequence else 1,
        member.default,
        member.meaning,
    )


def _of_type(name: str) -> tuple[Any, int]:
    """NumPy type of the values of one element, and how many it has."""
    package, _, kind = name.rpartition("/")
    if package == "geometry_msgs" and kind in _GEOMETRY:
        return "<f8", _GEOMETRY[kind]
    if name in _NUMBERS:
        return _NUMBERS[name], 1
    if name == "string":
        return TEXT, 1
    fields = definition(name).fields
    if all(field.dtype == "<f8" and not field.sequence for field in fields):
        return "<f8", sum(field.count for field in fields)
    return definition(name).element, 1


@cache
def texts() -> dict[str, str]:
    """Contents of the files, by name of the message.

    Raises:
        DefinitionError: there are none.
    """
    folder = shared_folder("msg", "*.msg")
    if folder is None:
        raise DefinitionError(f"msg/*.msg: not found in {PACKAGES}, nor in share/haptics above; install haptics again")
    return {file.stem: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.msg"))}


def names() -> list[str]:
    """The messages that have definitions."""
    return list(texts())


@cache
def definition(name: str) -> Definition:
    """Definition of a message.

    Raises:
        DefinitionError: nothing, or it cannot be read.
    """
    if name not in texts():
        raise DefinitionError(f"{name}: is not a message: must be one of {', '.join(texts())}, a number or string")
    return parse(name, texts()[name])


def parse(name: str, text: str) -> Definition:
    """The definition in the text of NAME.msg.

    Raises:
        DefinitionError: a line is neither constant nor field, or uses what is not supported.
    """
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    constants: dict[str, int] = {}
    members = []
    for number, line in _statements(lines):
        code, _, comment = line.partition("#")
        found = _LINE.fullmatch(code.strip())
        if found is None or (found["constant"] and (found["array"] or found["value"] is None)):
            raise DefinitionError(
                f"{name}.msg:{number}: {code.strip()!r}: must be TYPE NAME, TYPE[] NAME, TYPE[LENGTH] NAME, TYPE NAME "
                "DEFAULT or TYPE NAME=VALUE"
            )
        value = int(found["value"] or 0)
        if found["constant"]:
            constants[found["name"]] = value
            continue
        length = int(found["length"] or 0) if found["array"] else None
        members.append(_Member(found["type"], length, found["name"], value, comment.strip()))
    return Definition(name, "\n".join(line[1:].strip() for line in lines[:first]), constants, tuple(members))


def _statements(lines: list[str]) -> Iterator[tuple[int, str]]:
    """The lines with more than a comment, with their numbers."""
    for number, line in enumerate(lines, 1):
        if line.partition("#")[0].strip():
            yield number, line
