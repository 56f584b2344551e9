"""Records of arrays: the name, shape, unit and meaning of a field are written once, where the field is declared.

A record is a NamedTuple, which Numba's kernels take as it is. Each field has a declaration as its default:

    @record
    class Impulses(NamedTuple):
        \"\"\"Impulses at contacts.\"\"\"

        p: np.ndarray = array("impulse in the axes of the contact", "contacts", 3, unit="N s")
        slides: np.ndarray = array("whether the contact slides", "contacts", dtype=np.bool_)
        memory: GaussSeidelMemory = part(GaussSeidelMemory, "memory of the solver")
        u: np.ndarray = shared("scaled velocity of the bodies", "nv")
        period: float = value("time step", unit="s")

    impulses = allocate(Impulses, {"contacts": 128}, u=bodies.u, period=1e-3)

A dimension is a number, the name of a size, or an expression of such names ("2 * rows + 1"). `allocate` makes the
arrays and, with the same sizes, the parts; a field that is given is taken as it is, and a `shared` array or a `value`
has to be given. `help(Impulses)` shows the declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import CodeType
from typing import Any, NamedTuple, TypeVar

import numpy as np

Record = TypeVar("Record", bound=tuple)


class Field(NamedTuple):
    """Declaration of one field; it is made by `array`, `shared`, `part` or `value`."""

    meaning: str
    shape: tuple[int | str, ...] = ()  # of an array
    unit: str = ""
    dtype: Any = None  # of an array
    fill: Any = None  # what an array holds at first; None: the field has to be given
    kind: Any = None  # of a part: its record
    copies: int = 0  # of a part: how many in a tuple, 0: one alone

    @property
    def text(self) -> str:
        """The declaration in one line, as help() shows it."""
        shape = f"({', '.join(map(str, self.shape))}{',' if len(self.shape) == 1 else ''})" if self.dtype else ""
        kind = np.dtype(self.dtype)
        dtype = "" if kind == np.float64 else f"of {', '.join(kind.names)}" if kind.names else kind.name
        notes = " ".join(filter(None, (shape, dtype, f"[{self.unit}]" if self.unit else "")))
        return f"{self.meaning}, {notes}" if notes else self.meaning


def array(meaning: str, *shape: int | str, unit: str = "", dtype: Any = np.float64, fill: Any = 0) -> Any:
    """Declare an array; `allocate` makes it, filled with `fill`."""
    return Field(meaning, shape, unit, dtype, fill)


def numbers(*names: str) -> Any:
    """The dtype of an array whose elements are several numbers with names, read as `block[i].mu`."""
    return np.dtype((np.record, [(name, np.float64) for name in names]))


def shared(meaning: str, *shape: int | str, unit: str = "", dtype: Any = np.float64) -> Any:
    """Declare an array that belongs to another object; it is given to `allocate`."""
    return Field(meaning, shape, unit, dtype)


def part(kind: type[tuple], meaning: str, copies: int = 0) -> Any:
    """Declare a record within a record, or a tuple of so many; `allocate` makes it with the same sizes."""
    return Field(meaning, kind=kind, copies=copies)


def value(meaning: str, unit: str = "") -> Any:
    """Declare a number, or a record that belongs to another object; it is given to `allocate`."""
    return Field(meaning, unit=unit)


def record(kind: type[Record]) -> type[Record]:
    """Decorate a NamedTuple whose fields all have declarations: they become the fields' docstrings.

    Raises:
        TypeError: a field has none.
    """
    for name in kind._fields:  # type: ignore[attr-defined]
        field = kind._field_defaults.get(name)  # type: ignore[attr-defined]
        if not isinstance(field, Field):
            raise TypeError(f"{kind.__name__}.{name}: must be declared with array(), shared(), part() or value()")
        getattr(kind, name).__doc__ = field.text
    return kind


def allocate(kind: type[Record], sizes: Mapping[str, int] | None = None, /, **given: Any) -> Record:
    """Make a record.

    Args:
        sizes: of the dimensions that have names.
        given: fields that exist already.

    Raises:
        TypeError: a size or a value is missing, or a given field is not one of the record's.
    """
    declared: dict[str, Field] = kind._field_defaults  # type: ignore[attr-defined]
    if given and (unknown := sorted(set(given) - set(declared))):
        raise TypeError(f"{kind.__name__}: {', '.join(unknown)}: must be of {', '.join(declared)}")
    known = sizes or {}
    return kind(
        *[given[name] if name in given else _make(kind, name, field, known) for name, field in declared.items()]
    )


def _make(kind: Any, name: str, field: Field, sizes: Mapping[str, int]) -> Any:
    """The array or part that a field declares."""
    if field.kind is not None:
        if field.copies:
            return tuple(allocate(field.kind, sizes) for _ in range(field.copies))
        return allocate(field.kind, sizes)
    if field.fill is None:
        raise TypeError(f"{kind.__name__}.{name}: must be given")
    try:
        shape = [_number(size, sizes) if isinstance(size, str) else size for size in field.shape]
    except NameError as error:
        raise TypeError(f"{kind.__name__}.{name}: size {error.name} is missing") from None
    # np.full takes five times as long, which shows where worlds are built
    return np.full(shape, field.fill, field.dtype) if field.fill else np.zeros(shape, field.dtype)


def _number(size: str, sizes: Mapping[str, int]) -> int:
    """The value of a dimension: of the size of that name, or of an expression."""
    found = sizes.get(size)
    return eval(_code(size), {}, sizes) if found is None else found


@cache
def _code(expression: str) -> CodeType:
    return compile(expression, expression, "eval")
