"""Writes the stub of haptic_sim/definitions.py from `msg/*.msg`, so that type checkers and editors know the messages.

`python -m haptic_sim.msg_stub > haptic_sim/definitions.pyi`
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import numpy as np

from haptic_sim.definitions import STAMP
from haptic_sim.msg_files import Definition, Field, definition, names

_WIDTH = 120


def stub() -> str:
    """The text of definitions.pyi."""
    lines = [
        "# Written by python -m haptic_sim.msg_stub > haptic_sim/definitions.pyi",
        "from collections.abc import Sequence",
        "from typing import ClassVar, NamedTuple",
        "",
        "import numpy as np",
        "",
        "from haptic_sim.msg_files import Field",
        "",
        "STAMP: tuple[Field, Field]",
    ]
    for one in map(definition, names()):
        if one.is_servo:
            lines += ["", *_of_arrays(one), "", *_of_message(one)]
    return "\n".join(lines) + "\n"


def _of_arrays(one: Definition) -> Iterator[str]:
    yield f"class {one.name}Arrays(NamedTuple):"
    yield from _documented(f"What kernels read and fill of a {one.name}: the values in its buffer.")
    yield ""
    yield from (f"    {field.name}: np.ndarray" for field in (*STAMP, *one.fields) if not field.is_text)


def _of_message(one: Definition) -> Iterator[str]:
    yield f"class {one.name}:"
    yield from _documented(one.meaning)
    yield ""
    yield "    TYPE: ClassVar[str]"
    yield "    FIELDS: ClassVar[tuple[Field, ...]]"
    yield f"    Arrays: ClassVar[type[{one.name}Arrays]]"
    yield from (f"    {name}: ClassVar[int]" for name in one.constants)
    lengths = {field.name: "Sequence[str]" if field.is_text else "int" for field in one.fields if field.sequence}
    for field in one.fields:
        yield f"    {field.name}: {_type(field)}"
        yield from _documented(field.meaning)
    if lengths:
        yield ""
        yield "    def __init__("
        yield from (f"        {one}," for one in ("self", "frame: str = ...", "*"))
        yield from (f"        {name}: {kind} = ...," for name, kind in lengths.items())
        yield "    ) -> None: ..."


def _documented(text: str) -> Iterator[str]:
    if not text:
        return
    wrapped = textwrap.wrap(" ".join(text.split()), _WIDTH - len('    """"""'))
    yield from (f"    {line}" for line in f'"""{chr(10).join(wrapped)}"""'.splitlines())


def _type(field: Field) -> str:
    if field.is_text:
        return "tuple[str, ...]"
    if not field.is_scalar:
        return "np.ndarray"
    return "float" if np.dtype(field.dtype).kind == "f" else "int"


if __name__ == "__main__":
    print(stub(), end="")
