"""Bases of the classes of messages, made from `msg/*.msg` at import: `DeviceState`, `DeviceStateArrays`, ...

For each message that a `Message` may be, a class of its name has its type, fields, constants and documentation, and a
NamedTuple what kernels read and fill of it: the values in its buffer, with the stamp before them.

What type checkers and editors know of them is definitions.pyi, which `python -m haptic_sim.msg_stub` writes.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from haptic_sim.msg_files import Definition, Field, definition, names

STAMP = (Field("sec", "<i4", meaning="stamp [s]"), Field("nanosec", "<u4", meaning="the rest of it [ns]"))


def _arrays(of: Definition) -> Any:
    """The NamedTuple of a message's arrays."""
    fields = [*STAMP, *(field for field in of.fields if not field.is_text)]
    kind = namedtuple(f"{of.name}Arrays", [field.name for field in fields], module=__name__)
    kind.__doc__ = f"What kernels read and fill of a {of.name}: the values in its buffer."
    for field in fields:
        shape = "sequence" if field.sequence else f"({field.count},)"
        getattr(kind, field.name).__doc__ = f"{field.meaning}, {shape} of {np.dtype(field.dtype).name}"
    return kind


for _name in names():
    if (_one := definition(_name)).is_servo:
        globals()[f"{_name}Arrays"] = _arrays(_one)
        globals()[_name] = type(
            _name,
            (),
            {
                "__doc__": _one.meaning,
                "TYPE": _one.type,
                "FIELDS": _one.fields,
                "Arrays": globals()[f"{_name}Arrays"],
                **_one.constants,
            },
        )
