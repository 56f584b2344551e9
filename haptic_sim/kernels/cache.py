"""Compiled kernels are kept on disk, each under a digest of all that it was compiled from (digest.py).

A kept kernel names those that it calls by symbols (`Link`), which are loaded before it. A kernel that another process
is compiling is waited for. Loading takes a few milliseconds a kernel.

One folder serves all checkouts and installations of a user: `kernels` in HAPTICS_CACHE_DIR, which is `haptics` in the
user's cache (XDG_CACHE_HOME, ~/.cache) if it is not set. A file that is damaged, names a class that no longer exists,
or can have been written by another user (cache_folder.py), is ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import pickle
import re
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
from numba.core import sigutils
from numba.core.compiler import compile_result
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from haptic_sim import cache_folder
from haptic_sim.kernels import digest, progress

COPIED = 6000  # [B] of LLVM's bitcode; what is longer is called by its symbol, as no copy is inlined
VERSIONS_KEPT = 16  # of a kernel, those that were used last: checkouts and branches do not compile by turns

FORMAT = 4  # of a file; one of another format is not looked for
_TOOLS = (sys.version, numba.__version__, llvmlite.__version__, FORMAT)
_DIGEST = hashlib.sha256().digest_size

_compiled = 0
_compiling: set[Path] = set()  # by this process


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

    def result(self) -> Any:
        """The compiled kernel, whose symbol the linker then knows.

        Raises:
            LookupError: there is no such kernel, or it has changed.
        """
        module = sys.modules.get(self.module) or importlib.import_module(self.module)
        kernel: Any = getattr(module, self.name, None)
        if not isinstance(getattr(kernel, "_cache", None), KernelCache):
            raise LookupError(f"there is no kernel {self.module}.{self.name}")
        kernel.compile(self.arguments)
        result = kernel.overloads[self.arguments]
        if result.fndesc.llvm_func_name != self.symbol:
            raise LookupError(f"{self.symbol} is another kernel")
        return result


def folder() -> Path:
    """Folder of the compiled kernels."""
    return cache_folder.cache_folder("kernels")


class KernelCache:
    """Store of the compiled versions of one kernel for Numba, one for each tuple of argument types."""

    def __init__(self, kernel: Any):
        self._kernel = kernel
        self.name = digest.name_of(kernel.py_func)
        self._enabled = True

    @property
    def cache_path(self) -> str:
        """Folder of the compiled versions."""
        return str(folder())

    def enable(self) -> None:
        """Keep them."""
        self._enabled = True

    def disable(self) -> None:
        """Do not keep them, and do not use what is kept."""
        self._enabled = False

    def flush(self) -> None:
        """Delete all kept files of the kernel."""
        for path in self._kept():
            path.unlink(missing_ok=True)

    def load(self, signature: Any, context: Any) -> Any:
        """The compiled version for a signature; None if there is none, or if its file cannot be used."""
        _initialise(context)
        path = self._path(signature, context.codegen())
        try:
            content = cache_folder.read(path) if path else b""
        except OSError:
            return None
        if path is None:
            return None
        with contextlib.suppress(OSError):  # where it may only be read
            os.utime(path)
        with contextlib.suppress(Exception):  # whatever a class that has changed or gone raises when it is looked for
            if hashlib.sha256(content[_DIGEST:]).digest() == content[:_DIGEST]:
                return self._rebuild(context, *pickle.loads(content[_DIGEST:]))
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Load, as `load`, a kernel that is about to be compiled: another process may have compiled it meanwhile."""
        result = self.load(signature, context)
        if result is None and progress.report is not None:
            progress.report(_compiled, self.name)
        return result

    @contextlib.contextmanager
    def exclusively(self, signature: Any, context: Any) -> Iterator[None]:
        """While no other process compiles the version for a signature; without a folder to agree in, at once."""
        path = self._path(signature, context.codegen())
        if path is None or path in _compiling:
            yield
            return
        lock = path.with_suffix(".lock")
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):
                held.enter_context(cache_folder.locked(lock))
            _compiling.add(path)
            held.callback(_compiling.discard, path)
            yield

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a version that was compiled."""
        global _compiled
        _compiled += 1
        if progress.report is not None:
            progress.report(_compiled, self.name)
        library, symbol = result.library, result.fndesc.llvm_func_name
        bitcode = library.copy().as_bitcode()
        module, name = self._kernel.py_func.__module__, self._kernel.py_func.__name__
        # the symbol is for callers which, in another process, find the kernel by its name
        if len(bitcode) > COPIED and getattr(sys.modules.get(module), name, None) is self._kernel:
            library.link, bitcode = Link(module, name, tuple(result.signature.args), symbol), b""
        path = self._path(signature, result.codegen)
        if path is None or not _can_be_kept(library):
            return
        fndesc = result.fndesc
        fndesc.typemap = fndesc.calltypes = None  # of which callers need nothing
        environments = result._find_referenced_environments()
        code = (library.name, library._get_compiled_object(), bitcode)
        rest = (result.environment, result.signature, result.reload_init, environments)
        kept = dumps((code, library.links, library.link, fndesc, rest))
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

    def tag(self, arguments: Any, codegen: Any) -> str:
        """Digest of what the version for types of arguments is compiled from; empty if it is not known."""
        try:
            stamp = digest.stamp_of(self._kernel)
            key = ", ".join([*map(_shown_type, arguments), _shown_tools(codegen)])
        except digest.Unknown:
            return ""
        return stamp[:24] + digest.hashed(f"[{key}]")[:24]

    def _path(self, signature: Any, codegen: Any) -> Path | None:
        """Path of the version for a signature, existing or not; None if it cannot be kept."""
        arguments, _ = sigutils.normalize_signature(signature)
        tag = self.tag(arguments, codegen) if self._enabled else ""
        return folder() / f"{self.name}-{tag[:24]}-{tag[24:]}.nbc" if tag else None

    def _rebuild(self, context: Any, code: Any, links: Any, link: Link | None, fndesc: Any, rest: Any) -> Any:
        """The compiled version that is kept."""
        environment, signature, reload_init, environments = rest
        for initialise in reload_init:
            initialise()
        for one in links:
            one.result()
        codegen = context.codegen()
        library = self._kernel.library(codegen, *code)
        library.links, library.link = links, link
        codegen._engine._defined_symbols |= {fndesc.llvm_func_name, fndesc.llvm_cpython_wrapper_name}
        entry = context.get_executable(library, fndesc, environment)
        for one in environments:
            codegen.set_env(one.env_name, one)
        return compile_result(
            typing_context=context.typing_context,
            target_context=context,
            entry_point=entry,
            signature=signature,
            objectmode=False,
            lifted=(),
            fndesc=fndesc,
            library=library,
            environment=environment,
            reload_init=reload_init,
            referenced_envs=environments,
        )

    def _kept(self) -> list[Path]:
        pattern = re.compile(re.escape(self.name) + r"-([0-9a-f]{24})-[0-9a-f]{24}\.nbc")
        with contextlib.suppress(OSError):
            return [path for path in folder().iterdir() if pattern.fullmatch(path.name)]
        return []

    def _forget_old_versions(self) -> None:
        """Delete the files of all versions of the source but those used last."""
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


@cache
def _initialise(context: Any) -> None:
    """Load all that compiled code needs; what the compiler needs takes 0.2 s to import."""
    rtsys.initialize(context)


@cache
def _shown_type(kind: Any) -> str:
    return repr(digest.of_type(kind))


@cache
def _shown_tools(codegen: Any) -> str:
    """Compiler and target processor: LLVM takes long to find that out."""
    return f"{codegen.magic_tuple()!r}, {_TOOLS!r}"


def _can_be_kept(library: Any) -> bool:
    """Whether compiled code has no address of this process, and calls nothing that another process might not find."""
    module = library._final_module
    called = {one.name for one in module.functions if one.is_declaration and one.name.startswith("_ZN")}
    # of Numba's own symbols, the seed of hashes is known to the linker only where the compiler is: see `load`
    seed = any(one.name.startswith("_numba_hashsecret") for one in module.global_variables)
    return not (library.has_dynamic_globals or seed or called - {link.symbol for link in library.links})
