"""The state of what is advanced step by step, to be kept and given back, to it or to another one built alike.

A state is all that an object and the objects in it hold and change: arrays, numbers, and the bytes of messages, by the
path of attributes that leads there. An object that follows from others, or belongs to another library, is left out; a
class names such attributes in `DERIVED`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from pydantic import BaseModel

from haptic_sim.packed import Packed

_ATOMS = (bool, int, float, str, bytes, type(None), BaseModel, np.generic)
"""Types whose objects do not change: an attribute gets another one."""

_OWN_PREFIX = "haptic_"
"""Objects are looked into whose classes are of modules that begin so."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Snapshot:
    """A state, by paths; equal to another one with the same bits."""

    arrays: Mapping[str, np.ndarray]
    atoms: Mapping[str, Any]

    @cached_property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shapes of the arrays; a state is often given back many times."""
        return {path: array.shape for path, array in self.arrays.items()}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Snapshot):
            return NotImplemented
        mine, theirs = self.arrays, other.arrays
        same = mine.keys() == theirs.keys() and self.atoms == other.atoms
        return same and all(mine[path].tobytes() == theirs[path].tobytes() for path in mine)

    __hash__ = None  # type: ignore[assignment]  # it is compared by its contents, which are large


class Memory:
    """Memory that holds the state of an object; the object must not get other arrays.

    Args:
        root: the object.
    """

    def __init__(self, root: Any):
        self._arrays: dict[str, np.ndarray] = {}
        self._holders: dict[str, tuple[Any, str]] = {}
        for path, holder, name, value in _walk(root):
            if isinstance(value, np.ndarray):
                self._arrays[path] = value
            else:
                self._holders[path] = holder, name
        self._shapes = {path: array.shape for path, array in self._arrays.items()}
        self._paths = {id(array): path for path, array in self._arrays.items()}

    def take(self) -> Snapshot:
        """The state at present."""
        return Snapshot(
            {path: array.copy() for path, array in self._arrays.items()},
            {path: getattr(holder, name) for path, (holder, name) in self._holders.items()},
        )

    def give(self, snapshot: Snapshot, *some: np.ndarray) -> None:
        """Let the object be in a state; of its arrays `some` alone, where they are named.

        Raises:
            ValueError: the state is of something that was built otherwise.
        """
        if snapshot.shapes != self._shapes or snapshot.atoms.keys() != self._holders.keys():
            raise ValueError("the state is of something that was built otherwise")
        paths = [self._paths[id(one)] for one in some] or snapshot.arrays
        for path in paths:
            self._arrays[path][...] = snapshot.arrays[path]
        for path, atom in snapshot.atoms.items():
            holder, name = self._holders[path]
            setattr(holder, name, atom)


def _walk(root: Any) -> Iterator[tuple[str, Any, str, Any]]:
    """All arrays that can be written, and the atoms that are attributes: path, who holds it by which name, value."""
    known: set[int] = set()
    waiting: list[tuple[str, Any]] = [("", root)]
    while waiting:
        path, value = waiting.pop()
        if id(value) in known:
            continue
        known.add(id(value))
        if isinstance(value, np.ndarray):
            if value.flags.writeable:
                yield path, None, "", value
        elif isinstance(value, Packed):
            waiting.append((path, value.lent))
        elif isinstance(value, tuple | list):
            names = getattr(value, "_fields", range(len(value)))
            waiting += [(f"{path}.{name}", one) for name, one in zip(names, value, strict=True) if not _is_atom(one)]
        elif _is_own(value):
            for name, one in vars(value).items():
                if name in getattr(value, "DERIVED", ()):
                    continue
                if _is_atom(one):
                    yield f"{path}.{name}", value, name, one
                else:
                    waiting.append((f"{path}.{name}", one))


def _is_atom(value: Any) -> bool:
    return isinstance(value, _ATOMS) and not isinstance(value, Packed)


def _is_own(value: Any) -> bool:
    kind = type(value)
    constant = dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    ours = kind.__module__.startswith(_OWN_PREFIX) and not callable(value) and not isinstance(value, ModuleType | type)
    return ours and not constant and hasattr(value, "__dict__")
