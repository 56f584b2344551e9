"""Digest of the sources that a kernel was compiled from: compiled code is kept under it.

Numba's own cache depends on the file of a kernel only. But compiled code also contains the kernels that it calls, the
constants that it names, from any file, and the offsets of the fields of its records. Here the digest is one of

 - the kernel's bytecode, options and defaults, the values of the globals that it names, and the same of all kernels and
   functions that it reaches through them;
 - the types of its arguments, with the names of the fields of records (NamedTuple).

So a kernel that is found was compiled from the same source, wherever it is and however the program was started; after a
change only the kernels that depend on it are compiled again.
"""

from __future__ import annotations

import enum
import hashlib
import itertools
import re
import sys
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba.core import types as numba_types
from numba.core.dispatcher import Dispatcher
from numba.core.typing.templates import builtin_registry
from numba.extending import _Intrinsic

packages: set[str] = set()
"""The packages that define kernels: their functions and records may change, those of others change with a version."""


class Unknown(Exception):
    """Something of which it cannot be told whether it has changed: what was compiled from it is not kept."""


def stamp_of(kernel: Any) -> str:
    """Digest of all that a kernel is compiled from, beside the types of its arguments.

    Raises:
        Unknown: it names something whose changes cannot be detected.
    """
    reached, waiting = {id(kernel.py_func): kernel.py_func}, [kernel]
    own = []
    while waiting:
        text, others = _own(waiting.pop())
        own.append(text)
        for other in others:
            function = _function(other)
            if id(function) not in reached:
                reached[id(function)] = function
                waiting.append(other)
    return hashed("\n".join(sorted(own)))


@cache
def _own(subject: Any) -> tuple[str, tuple[Any, ...]]:
    """Text that changes whenever a kernel or function itself does, and the kernels and functions that it names."""
    function = _function(subject)
    others: list[Any] = []
    parts = [name_of(function), repr(_options(subject)), *_of_code(function.__code__, function.__doc__)]
    names = list(_names(function.__code__))
    for name in sorted(set(names) & function.__globals__.keys()):
        parts.append(f"{name}={_of_value(function.__globals__[name], names, others)}")
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        parts.append(f"{name}={_of_value(cell.cell_contents, names, others)}")
    for value in (function.__defaults__, function.__kwdefaults__):
        parts.append(_of_value(value, names, others))
    if not isinstance(subject, Dispatcher):
        others += _overloads(function)
    return hashed("\n".join(parts)), tuple(others)


def _function(subject: Any) -> Any:
    """The Python function of a kernel, or the function itself."""
    return subject.py_func if isinstance(subject, Dispatcher) else subject


def _options(subject: Any) -> list[tuple[str, str]]:
    """Options of the compilation of a kernel."""
    options = getattr(subject, "targetoptions", {})
    return sorted((name, repr(sorted(value) if isinstance(value, set) else value)) for name, value in options.items())


def _overloads(function: Any) -> list[Any]:
    """Functions that kernels call instead of a plain function: see numba.extending.overload."""
    templates = [kind.templates for known, kind in builtin_registry.globals if known is function]
    found = [getattr(template, "_overload_func", None) for template in itertools.chain(*templates)]
    return [one for one in found if one is not None]


def _of_code(code: types.CodeType, documentation: str | None = None) -> Iterator[str]:
    """Bytecode and constants."""
    yield repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_flags))
    yield repr((code.co_argcount, code.co_kwonlyargcount, getattr(code, "co_exceptiontable", b"")))
    for number, constant in enumerate(code.co_consts):
        if isinstance(constant, types.CodeType):
            yield from _of_code(constant)
        elif number or constant != documentation:
            yield _of_value(constant, (), [])


def _names(code: types.CodeType) -> Iterator[str]:
    """All names of globals and attributes in a function, and in those that are defined in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _of_value(value: Any, names: Any, others: list[Any]) -> str:
    """A text that changes whenever a value does; what has code of its own goes to `others`.

    Args:
        value: a global, a default or a constant.
        names: that the code uses, to know which attributes of a module matter.
        others: receives kernels and functions.
    """
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic, enum.Enum)):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, Dispatcher):
        others.append(value)
        return f"kernel {name_of(value.py_func)}"
    if isinstance(value, _Intrinsic):
        others.append(value._defn)
        return f"intrinsic {name_of(value._defn)}"
    if isinstance(value, types.FunctionType):
        if _is_ours(value.__module__) or _overloads(value) or value.__closure__:
            others.append(value)
        return f"function {name_of(value)}"
    if isinstance(value, type):
        return f"class {name_of(value)} {getattr(value, '_fields', '')}"
    if isinstance(value, types.ModuleType):
        if not _is_ours(value.__name__):
            return f"module {value.__name__}"
        used = [name for name in sorted(set(names)) if hasattr(value, name)]
        return f"module {[(name, _of_value(getattr(value, name), names, others)) for name in used]}"
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"array {value.dtype} {value.shape} {hashed(value.tobytes())}"
    if isinstance(value, (tuple, list)):
        return f"{name_of(type(value))} {[_of_value(one, names, others) for one in value]}"
    if isinstance(value, (set, frozenset, dict)):
        content = value.items() if isinstance(value, dict) else value
        return f"{type(value).__name__} {sorted(_of_value(one, names, others) for one in content)}"
    if isinstance(value, numba_types.Type):
        return of_type(value)
    if isinstance(value, (types.BuiltinFunctionType, np.ufunc)):
        return f"builtin {value.__name__}"
    if value is Ellipsis or value is NotImplemented:
        return repr(value)
    raise Unknown(f"{value!r} of {type(value)}")


@cache
def of_type(kind: Any) -> str:
    """A text that changes whenever the type of an argument does, or how kernels read it."""
    parts = [type(kind).__name__, str(kind)]
    if isinstance(kind, numba_types.BaseNamedTuple):
        record: Any = kind.instance_class  # type: ignore[attr-defined]
        found: Any = getattr(sys.modules.get(record.__module__), record.__name__, None)
        if found is not record or record.__module__ == "__main__":
            raise Unknown(f"{record} cannot be found by its name in another process")
        parts.append(f"{name_of(record)} {record._fields}")
    if isinstance(kind, numba_types.Dispatcher):
        parts[1] = stamp_of(kind.dispatcher)
    if _is_ours(type(kind).__module__):
        parts.append(_of_module(type(kind).__module__))
    for name in ("types", "dtype", "kind"):  # of a tuple, of what has elements, of a Packed
        inner = getattr(kind, name, None)
        inner = inner if isinstance(inner, (tuple, list)) else [inner]
        parts += [of_type(one) for one in inner if isinstance(one, numba_types.Type)]
    return "\n".join(parts)


@cache
def _of_module(name: str) -> str:
    """Digest of a module that tells the compiler how to read a type."""
    return hashed(Path(sys.modules[name].__file__ or "").read_bytes())


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in packages


def name_of(thing: Any) -> str:
    """Full name of a function or class, fit for a file."""
    return re.sub(r"[^\w.]", "_", f"{thing.__module__}.{thing.__qualname__}")


def hashed(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()
