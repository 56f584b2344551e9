"""Compiled kernels are kept on disk, each under a digest of all that it was compiled from.

Numba's own cache depends on the file of a kernel only. But compiled code also contains the kernels that it calls, the
constants that it names, from any file, and the offsets of the fields of its records. Here the name of a kept kernel is
a digest of

 - its bytecode, options and defaults, the values of the globals that it names, and the same of all kernels and
   functions that it reaches through them;
 - the types of its arguments, with the names of the fields of records (NamedTuple);
 - Python, Numba, llvmlite and the processor.

So a kernel that is found was compiled from the same source, wherever it is and however the program was started; after a
change only the kernels that depend on it are compiled again.

Numba copies into a kernel the optimised code of all kernels that it calls, and optimises it again: the time for this
grows with the square of the depth of calls. So a kernel whose code is longer than COPIED is not copied: its callers
have only its symbol, as objects of a C program do. A kept kernel names those that it calls in this way (`Link`), which
are loaded before it. This does not change the results of kernels in any bit, because the compiler may not reorder
arithmetic.

A kernel has one version for a number, also where another kernel calls it with a constant: Numba would compile one for
each constant, and one more for variables. The compiler puts the constant into a copied kernel in any case.

A kernel that another process is compiling is waited for. Loading takes a few milliseconds a kernel.

So one folder serves all checkouts and installations of a user: `kernels` in HAPTICS_CACHE_DIR, which is `haptics` in
the user's cache (XDG_CACHE_HOME, ~/.cache) if it is not set. A file that is damaged, names a class that no longer
exists, or can have been written by another user (cache_folder.py), is ignored.

This module is imported with Numba (haptic_sim/__init__.py), before any kernel is defined, and takes effect then.
Kernels of other packages use Numba's own cache: one that calls a kernel of ours has to be declared without
`cache=True`.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import hashlib
import importlib
import itertools
import os
import pickle
import re
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import llvmlite
import llvmlite.binding
import numba
import numpy as np
from numba.core import compiler, sigutils
from numba.core import types as numba_types
from numba.core.bytecode import FunctionIdentity
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.core.types.functions import BaseFunction
from numba.core.typing.templates import builtin_registry
from numba.extending import _Intrinsic

from haptic_sim import cache_folder

PACKAGES = ("haptic_sim", "haptic_ros", "haptic_control", "haptic_drivers", "haptic_bench")
COPIED = 6000  # [B] of LLVM's bitcode; what is longer is called by its symbol, as no copy is inlined
VERSIONS_KEPT = 16  # of a kernel, those that were used last: checkouts and branches do not compile by turns

FORMAT = 3  # of a file; one of another format is not looked for
_TOOLS = (sys.version, numba.__version__, llvmlite.__version__, FORMAT)
_DIGEST = hashlib.sha256().digest_size

Report = Callable[[int, str], object]
report: Report | None = None
"""Called before and after each kernel that is compiled: how many have been by this process, and the kernel's name."""

SAY_EVERY = 10.0  # [s]

_compiled = 0
_compiling: set[Path] = set()  # by this process


class Progress:
    """A `report` that says now and then how far compilation is."""

    def __init__(self, say: Callable[[str], object]):
        self._say = say
        self._next = 0.0

    def __call__(self, compiled: int, name: str) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + SAY_EVERY
            self._say(f"compiling kernels, which is done once and can take minutes: {compiled} so far")


class Link(NamedTuple):
    """A kernel that another calls by its symbol.

    Attributes:
        module, name: where the kernel is.
        arguments: their types.
        symbol: its name in the code of those that call it.
    """

    module: str
    name: str
    arguments: tuple[Any, ...]
    symbol: str

    def resolve(self, engine: Any) -> None:
        """Let the symbol be known to the linker, in the process that has `engine`.

        Raises:
            LookupError: there is no such kernel, or the symbol is taken by another one.
        """
        kernel = getattr(sys.modules.get(self.module) or importlib.import_module(self.module), self.name, None)
        if not isinstance(kernel, Dispatcher):
            raise LookupError(f"there is no kernel {self.module}.{self.name}")
        kernel.compile(self.arguments)
        result: Any = kernel.overloads[self.arguments]
        address = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
        if not engine.is_symbol_defined(self.symbol):
            llvmlite.binding.add_symbol(self.symbol, address)
        elif engine.get_function_address(self.symbol) != address:
            raise LookupError(f"{self.symbol} is another kernel")


_links: WeakKeyDictionary[Any, tuple[Link, ...]] = WeakKeyDictionary()
"""What a caller of a compiled kernel has to be linked with, by the kernel's library."""


def _links_of(library: Any) -> Iterator[Link]:
    """What the code of a library calls by symbols: that of a kernel, or of what the compiler puts between kernels."""
    for one in library._linking_libraries:
        yield from _links[one] if one in _links else _links_of(one)


class Unknown(Exception):
    """Something of which it cannot be told whether it has changed: what was compiled from it is not kept."""


def _register() -> None:
    """Let the kernels of our packages be kept by this module."""
    # Numba numbers the functions that a process compiles, and the number is in their symbols. From one process to the
    # next it must not begin anew: two closures of one name, kept by two processes, would be one symbol in a third.
    FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(5), "big"))
    numbas_own, numbas_compile = Dispatcher.enable_caching, Dispatcher.compile
    numbas_template = Dispatcher.get_call_template

    def enable_caching(self: Any) -> None:
        if _is_ours(self.py_func.__module__):
            self._cache = KernelCache(self)
            self.targetoptions["no_cfunc_wrapper"] = True  # which would be for calls from C, of which there are none
        else:
            numbas_own(self)

    def compile_or_load(self: Any, signature: Any) -> Any:
        arguments, _ = sigutils.normalize_signature(signature)
        existing = self.overloads.get(tuple(arguments))
        if existing is not None:
            return existing.entry_point
        if not isinstance(self._cache, KernelCache) or not self._can_compile:
            return numbas_compile(self, signature)
        with global_compiler_lock:
            # Outside of Numba's own function, which measures each call of LLVM, once more for each kernel that is being
            # loaded: that would take longer than loading.
            result = self._cache.load(signature, self.targetctx)
            if result is not None:
                self.targetctx.insert_user_function(result.entry_point, result.fndesc, [result.library])
                self.add_overload(result)
                return result.entry_point
            with self._cache.alone(signature, self.targetctx):
                _hasten_compiler()
                return numbas_compile(self, signature)

    def get_call_template(self: Any, arguments: Any, keywords: Any) -> Any:
        if isinstance(self._cache, KernelCache):
            arguments = tuple(map(numba_types.unliteral, arguments))
            keywords = {name: numba_types.unliteral(kind) for name, kind in keywords.items()}
        return numbas_template(self, arguments, keywords)

    Dispatcher.enable_caching = enable_caching  # type: ignore[method-assign]  # Numba has no other place for it
    Dispatcher.compile = compile_or_load  # type: ignore[method-assign, assignment]
    Dispatcher.get_call_template = get_call_template  # type: ignore[method-assign, assignment]


@cache
def _hasten_compiler() -> None:
    """Spare the compiler what takes more than half of its time, and changes nothing of the arithmetic.

    Numba tells the sizes in the error of an assignment to a slice of another size: making a text of numbers takes the
    compiler 2 s, and is then in the code of each kernel. And for each place where two numbers are added, it searches
    all that it knows of an addition, NumPy's first, and looks at the signature of what it finds: here once for an
    operation and its types, and once for a function.
    """
    from numba.core import base
    from numba.np import arrayobj  # as the compiler does; what only loads kernels is spared it

    if hasattr(base, "_has_loc"):  # neither this nor the next is in every version of Numba
        base._has_loc = cache(base._has_loc)
    constant = getattr(arrayobj, "ol_raise_with_shape_context_generic", None)
    for function, kind in builtin_registry.globals:
        if constant is not None and function is arrayobj.raise_with_shape_context:
            for template in kind.templates:
                template._overload_func = staticmethod(constant)

    numbas = BaseFunction.get_call_type
    found: dict[Any, Any] = {}
    numbers = (numba_types.Number, numba_types.Boolean)

    def get_call_type(self: Any, context: Any, arguments: Any, keywords: Any) -> Any:
        if keywords or not all(isinstance(one, numbers) for one in arguments):
            return numbas(self, context, arguments, keywords)
        key = self, tuple(arguments)
        if key not in found:
            found[key] = numbas(self, context, arguments, keywords)
        return found[key]

    BaseFunction.get_call_type = get_call_type  # type: ignore[method-assign, assignment]  # as above


def folder() -> Path:
    """Where compiled kernels are kept."""
    return cache_folder.cache_folder("kernels")


class KernelCache:
    """What Numba asks for the compiled versions of one kernel, one for each tuple of argument types."""

    def __init__(self, kernel: Any):
        self._kernel = kernel
        self.name = _name(kernel.py_func)
        self._enabled = True

    @property
    def cache_path(self) -> str:
        """Where they are."""
        return str(folder())

    def enable(self) -> None:
        """Keep them."""
        self._enabled = True

    def disable(self) -> None:
        """Do not keep them, and do not use what is kept."""
        self._enabled = False

    def flush(self) -> None:
        """Forget them all."""
        for path in self._kept():
            path.unlink(missing_ok=True)

    def load(self, signature: Any, context: Any) -> Any:
        """The compiled version for a signature; None if there is none."""
        rtsys.initialize(context)  # all that compiled code needs; what the compiler needs takes 0.2 s to import
        path = self._path(signature, context.codegen())
        kept = None if path is None else _load(path, context)
        if kept is None:
            return None
        result, links, size = kept
        self._link(result, links, size)
        return result

    def load_overload(self, signature: Any, context: Any) -> Any:
        """As `load`, when a kernel is about to be compiled: another process may have done it meanwhile."""
        result = self.load(signature, context)
        if result is None and report is not None:
            report(_compiled, self.name)
        return result

    @contextlib.contextmanager
    def alone(self, signature: Any, context: Any) -> Iterator[None]:
        """While no other process compiles the version for a signature; without a folder to agree in, at once."""
        path = self._path(signature, context.codegen())
        if path is None or path in _compiling:
            yield
            return
        lock = path.with_suffix(".lock")
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):
                cache_folder.make(lock.parent)
                file = held.enter_context(open(lock, "w"))
                held.callback(lock.unlink, missing_ok=True)
                fcntl.flock(file, fcntl.LOCK_EX)
            _compiling.add(path)
            held.callback(_compiling.discard, path)
            yield

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a version that was compiled."""
        global _compiled
        _compiled += 1
        if report is not None:
            report(_compiled, self.name)
        links = tuple(dict.fromkeys(_links_of(result.library)))
        module = result.library._final_module
        called = {one.name for one in module.functions if one.is_declaration}
        unknown = {name for name in called if name.startswith("_ZN")} - {link.symbol for link in links}
        # of Numba's own symbols, the seed of hashes is known to the linker only where the compiler is: see `load`
        unknown |= {one.name for one in module.global_variables if one.name.startswith("_numba_hashsecret")}
        dynamic = any(not part.can_cache for part in result.lifted) or result.library.has_dynamic_globals
        path = None if dynamic or unknown else self._path(signature, result.codegen)
        if path is None:
            _links[result.library] = links
            return
        unlisted = result._replace(type_annotation="")  # else a third of what is kept is the source with its types
        (name, kind, (machine_code, bitcode)), *rest = unlisted._reduce()
        size = len(bitcode)
        symbols: set[str] = set()
        if self._is_linked(size):  # its bitcode will not be copied
            module = result.library._shared_module
            defined = (one for one in (*module.functions, *module.global_variables) if not one.is_declaration)
            symbols = {one.name for one in defined}
            bitcode = _nothing(result.library).as_bitcode()
        kept = dumps((links, size, symbols, ((name, kind, (machine_code, bitcode)), *rest)))
        self._link(result, links, size)
        try:
            cache_folder.write(path, hashlib.sha256(kept).digest() + kept)
            self._forget_old_versions()
        except OSError as error:
            warnings.warn(
                f"compiled kernels cannot be kept in {path.parent} ({error.strerror}), so that each start compiles "
                "them: let HAPTICS_CACHE_DIR name a folder that can be written",
                RuntimeWarning,
                stacklevel=2,
            )

    def _link(self, result: Any, links: tuple[Link, ...], size: int) -> None:
        """Say what callers of a compiled version are linked with: a copy of it, or itself.

        Args:
            result: the compiled version.
            links: that it has.
            size: of its code, as COPIED.
        """
        library, function = result.library, self._kernel.py_func
        if self._is_linked(size):
            library._shared_module = _nothing(library)
            arguments, symbol = tuple(result.signature.args), result.fndesc.llvm_func_name
            links = (Link(function.__module__, function.__name__, arguments, symbol),)
        _links[library] = links

    def _is_linked(self, size: int) -> bool:
        """Whether callers have the symbol of a version of so many bytes, not a copy: they must find it by its name."""
        function = self._kernel.py_func
        return size > COPIED and getattr(sys.modules.get(function.__module__), function.__name__, None) is self._kernel

    def _path(self, signature: Any, codegen: Any) -> Path | None:
        """Where the version for a signature is, or will be; None if it cannot be kept."""
        if not self._enabled:
            return None
        try:
            stamp = stamp_of(self._kernel)
            arguments, result = sigutils.normalize_signature(signature)
            key = [*map(_of_type, arguments), str(result), codegen.magic_tuple(), _TOOLS]
        except Unknown:
            return None
        return folder() / f"{self.name}-{stamp[:24]}-{_hash(repr(key))[:24]}.nbc"

    def _kept(self) -> list[Path]:
        pattern = re.compile(re.escape(self.name) + r"-([0-9a-f]{24})-[0-9a-f]{24}\.nbc")
        with contextlib.suppress(OSError):
            return [path for path in folder().iterdir() if pattern.fullmatch(path.name)]
        return []

    def _forget_old_versions(self) -> None:
        """Of the versions of the source, keep those that were used last."""
        latest: dict[str, float] = {}
        kept = self._kept()
        for path in kept:
            with contextlib.suppress(OSError):
                stamp = path.name.split("-")[-2]
                latest[stamp] = max(latest.get(stamp, 0.0), path.stat().st_mtime)
        old = set(sorted(latest, key=lambda stamp: latest[stamp])[:-VERSIONS_KEPT])
        for path in kept:
            if path.name.split("-")[-2] in old:
                path.unlink(missing_ok=True)


def _nothing(library: Any) -> Any:
    """What is copied into the callers of a kernel that they are linked with."""
    return llvmlite.binding.parse_assembly(str(library.codegen._create_empty_module("nothing")))


def _load(path: Path, context: Any) -> tuple[Any, tuple[Link, ...], int] | None:
    """What a file holds: the compiled version, what it is linked with, the size of its bitcode.

    None if there is no file, or if it is damaged, names what has gone, or can have been written by another user.
    """
    try:
        content = cache_folder.read(path)
    except OSError:
        return None
    with contextlib.suppress(OSError):  # where it may only be read
        os.utime(path)
    try:
        if hashlib.sha256(content[_DIGEST:]).digest() == content[:_DIGEST]:
            links, size, symbols, compiled = pickle.loads(content[_DIGEST:])
            engine = context.codegen()._engine
            for link in links:
                link.resolve(engine)
            engine._defined_symbols |= symbols
            return compiler.CompileResult._rebuild(context, *compiled), links, size
    except Exception:  # whatever a class that has changed or gone raises when it is looked for
        pass
    with contextlib.suppress(OSError):
        path.unlink()
    return None


# What a kernel was compiled from


def stamp_of(kernel: Any) -> str:
    """Digest of all that a kernel is compiled from, beside the types of its arguments.

    Raises:
        Unknown: it names something of which nobody can tell whether it has changed.
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
    return _hash("\n".join(sorted(own)))


@cache
def _own(subject: Any) -> tuple[str, tuple[Any, ...]]:
    """Of a kernel or function: a text that changes whenever itself does, and the kernels and functions it names."""
    function = _function(subject)
    others: list[Any] = []
    parts = [_name(function), repr(_options(subject)), *_of_code(function.__code__, function.__doc__)]
    names = list(_names(function.__code__))
    for name in sorted(set(names) & function.__globals__.keys()):
        parts.append(f"{name}={_of_value(function.__globals__[name], names, others)}")
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        parts.append(f"{name}={_of_value(cell.cell_contents, names, others)}")
    for value in (function.__defaults__, function.__kwdefaults__):
        parts.append(_of_value(value, names, others))
    if not isinstance(subject, Dispatcher):
        others += _overloads(function)
    return _hash("\n".join(parts)), tuple(others)


def _function(subject: Any) -> Any:
    """The Python function of a kernel, or the function itself."""
    return subject.py_func if isinstance(subject, Dispatcher) else subject


def _options(subject: Any) -> list[tuple[str, str]]:
    """How a kernel is compiled."""
    options = getattr(subject, "targetoptions", {})
    return sorted((name, repr(sorted(value) if isinstance(value, set) else value)) for name, value in options.items())


def _overloads(function: Any) -> list[Any]:
    """What kernels call instead of a plain function: see numba.extending.overload."""
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
        return f"kernel {_name(value.py_func)}"
    if isinstance(value, _Intrinsic):
        others.append(value._defn)
        return f"intrinsic {_name(value._defn)}"
    if isinstance(value, types.FunctionType):
        if _is_ours(value.__module__) or _overloads(value) or value.__closure__:
            others.append(value)
        return f"function {_name(value)}"
    if isinstance(value, type):
        return f"class {_name(value)} {getattr(value, '_fields', '')}"
    if isinstance(value, types.ModuleType):
        if not _is_ours(value.__name__):
            return f"module {value.__name__}"
        used = [name for name in sorted(set(names)) if hasattr(value, name)]
        return f"module {[(name, _of_value(getattr(value, name), names, others)) for name in used]}"
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"array {value.dtype} {value.shape} {_hash(value.tobytes())}"
    if isinstance(value, (tuple, list)):
        return f"{_name(type(value))} {[_of_value(one, names, others) for one in value]}"
    if isinstance(value, (set, frozenset, dict)):
        content = value.items() if isinstance(value, dict) else value
        return f"{type(value).__name__} {sorted(_of_value(one, names, others) for one in content)}"
    if isinstance(value, numba_types.Type):
        return _of_type(value)
    if isinstance(value, (types.BuiltinFunctionType, np.ufunc)):
        return f"builtin {value.__name__}"
    if value is Ellipsis or value is NotImplemented:
        return repr(value)
    raise Unknown(f"{value!r} of {type(value)}")


@cache
def _of_type(kind: Any) -> str:
    """A text that changes whenever the type of an argument does, or how kernels read it."""
    parts = [type(kind).__name__, str(kind)]
    if isinstance(kind, numba_types.BaseNamedTuple):
        record = kind.instance_class  # type: ignore[attr-defined]
        if not _is_ours(record.__module__):
            raise Unknown(f"{record} is a record of another package")
        parts.append(f"{_name(record)} {record._fields}")
    if isinstance(kind, numba_types.Dispatcher):
        parts[1] = stamp_of(kind.dispatcher)
    if _is_ours(type(kind).__module__):
        parts.append(_of_module(type(kind).__module__))
    for name in ("types", "dtype", "kind"):  # of a tuple, of what has elements, of a Packed
        inner = getattr(kind, name, None)
        inner = inner if isinstance(inner, (tuple, list)) else [inner]
        parts += [_of_type(one) for one in inner if isinstance(one, numba_types.Type)]
    return "\n".join(parts)


@cache
def _of_module(name: str) -> str:
    """Digest of a module that tells the compiler how to read a type."""
    return _hash(Path(sys.modules[name].__file__ or "").read_bytes())


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def _name(thing: Any) -> str:
    """Full name of a function or class, fit for a file."""
    return re.sub(r"[^\w.]", "_", f"{thing.__module__}.{thing.__qualname__}")


def _hash(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


_register()
