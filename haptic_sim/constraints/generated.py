"""Kernels of systems that are given by formulas: derived once, kept, compiled, called by their address.

The source that `derivation` makes of a description is kept in `formulas` in the user's cache, under a digest of the
formulas and of what derives from them; its machine code is kept as that of all kernels. A second start neither derives
nor compiles. The kernels of the solvers call the generated ones by their addresses, so that they are the same for all
systems, and are compiled once.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from numba.core import types

from haptic_sim import cache_folder, kernels
from haptic_sim.constraints.description import REFUSED, Description, DescriptionError

PATIENCE = 60  # [s] of a core that a derivation may take, which is the same on a busy machine
KEPT = 128  # systems, those that were used last

_ARRAY = types.Array(types.float64, 1, "C")
_TERMS = (types.float64, _ARRAY, _ARRAY, _ARRAY, _ARRAY)
_PLACE = (_ARRAY, _ARRAY, _ARRAY, _ARRAY)
_FILES = ("derivation.py", "description.py", "formulas.py")  # what decides about the source


class Kernels(NamedTuple):
    """Compiled kernels of a system.

    Attributes:
        evaluate, observe, place: addresses of the kernels, see `derivation.source`; place is 0 without parametrisation.
        angular: which coordinates are angles.
        planar: whether the held frame moves in the plane z = 0.
        driven: whether some row prescribes a motion, A v = b with b that is not always zero.
    """

    evaluate: int
    observe: int
    place: int
    angular: tuple[bool, ...]
    planar: bool
    driven: bool


def build(description: Description) -> Kernels:
    """The compiled kernels of a system.

    Raises:
        DescriptionError: the derivation refuses a formula, fails, or takes longer than PATIENCE.
    """
    module: Any = _module(description.document())
    place = getattr(module, "place", None)
    return Kernels(
        kernels.address_of(module.evaluate, _TERMS),
        kernels.address_of(module.observe, _TERMS),
        kernels.address_of(place, _PLACE) if place is not None else 0,
        module.ANGULAR,
        module.PLANAR,
        module.DRIVEN,
    )


def folder() -> Path:
    """Folder in which the sources are kept."""
    return cache_folder.cache_folder("formulas")


def derive(document: str) -> str:
    """Run the program `derivation` on a document: returns the source of the kernels.

    Raises:
        DescriptionError: it fails, or does not end in time.
    """
    return ask("derivation", document)


def ask(program: str, document: str, *arguments: str) -> str:
    """The answer of a program of this folder that imports SymPy.

    Raises:
        DescriptionError: it refuses the formulas, fails, or does not end in time.
    """
    answer, trouble = _ask(program, document, *arguments)
    if trouble:
        raise DescriptionError(f"kinetic, positions, velocities, hand: {trouble}")
    return answer


def ask_parts(document: str, what: str) -> tuple[dict[str, Any], str]:
    """Answer of the program `analysis`, by the names of the parts; and the reason why there are no more, or nothing."""
    answer, trouble = _ask("analysis", document, what)
    lines = answer.splitlines(keepends=True)
    return dict(json.loads(line) for line in lines if line.endswith("\n")), trouble


def _ask(program: str, document: str, *arguments: str) -> tuple[str, str]:
    """Output of a program, and its error, or nothing."""
    command = [sys.executable, "-m", f"haptic_sim.constraints.{program}", *arguments]
    root = str(Path(__file__).resolve().parents[2])
    found = os.environ.get("PYTHONPATH")
    environment = os.environ | {
        "PYTHONHASHSEED": "0",  # the order of what SymPy puts in sets is that of hashes
        "PYTHONPATH": f"{root}:{found}" if found else root,
        "SYMPY_CACHE_SIZE": "100000",  # its 1000 results are less than what the derivatives of one system share
    }
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (PATIENCE, PATIENCE + 1))
        try:
            out, err = process.communicate(document.encode())
        except BaseException:  # Ctrl-C
            process.kill()
            raise
    if process.returncode == -signal.SIGXCPU:
        return out.decode(errors="ignore"), (
            f"the {program} did not end within {PATIENCE} s; must be formulas that are shorter, with names in "
            "definitions for what they share"
        )
    trouble = ""
    if process.returncode == REFUSED:
        raise DescriptionError(err.decode().strip())
    if process.returncode:
        reason = err.decode().strip().splitlines()[-1:] or [f"ended with status {process.returncode}"]
        trouble = f"the {program} failed: {reason[0][:200]}"
    return out.decode(), trouble


@cache
def _versions() -> str:
    """Digest of what derives."""
    texts = [Path(__file__).with_name(name).read_bytes() for name in _FILES]
    return hashlib.sha256(b"".join(texts) + importlib.metadata.version("sympy").encode()).hexdigest()


def _module(document: str) -> ModuleType:
    """The module with the kernels of a description, derived if it is not kept."""
    digest = hashlib.sha256(f"{_versions()}{document}".encode()).hexdigest()[:32]
    name = f"haptic_sim.constraints.formulas_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    path = folder() / f"formulas_{digest}.py"
    with contextlib.ExitStack() as held:
        try:
            if not _is_whole(path):
                held.enter_context(cache_folder.locked(path.with_suffix(".lock")))
                if not _is_whole(path):
                    _write(path, derive(document))
                    _forget_old()
            os.utime(path)
        except OSError as error:
            warnings.warn(
                f"code generated from formulas cannot be stored in {path.parent} ({error.strerror}), so that each "
                "start derives it: let HAPTICS_CACHE_DIR name a folder that can be written",
                RuntimeWarning,
                stacklevel=2,
            )
            path = Path(held.enter_context(tempfile.TemporaryDirectory())) / path.name
            _write(path, derive(document))
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            spec.loader.exec_module(module)
        finally:
            sys.dont_write_bytecode = before
        sys.modules[name] = module
    return module


def _is_whole(path: Path) -> bool:
    """Whether there is a source, as it was written."""
    try:
        digest, _, source = cache_folder.read(path).partition(b"\n")
    except OSError:
        return False
    return digest == b"# " + hashlib.sha256(source).hexdigest().encode()


def _write(path: Path, source: str) -> None:
    """Write a source under a line with its digest."""
    content = source.encode()
    cache_folder.write(path, b"# " + hashlib.sha256(content).hexdigest().encode() + b"\n" + content)


def _forget_old() -> None:
    """Delete all generated sources but those used last, with their machine code."""
    with contextlib.suppress(OSError):
        paths = sorted(folder().glob("formulas_*.py"), key=lambda path: path.stat().st_mtime)
        for path in paths[:-KEPT]:
            path.unlink(missing_ok=True)
            for compiled in cache_folder.cache_folder("kernels").glob(f"haptic_sim.constraints.{path.stem}.*"):
                compiled.unlink(missing_ok=True)
