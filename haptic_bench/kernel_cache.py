"""Kernels that a changed source has made stale are compiled again.

Numba keeps a compiled kernel while its own file stays as it is, but it has compiled into it the kernels that it calls,
from whichever file. So the cache remembers the contents of all files with kernels: where one has changed, what was
compiled from it and from all that import it, directly or not, is forgotten; and what was compiled for arguments of its
types, which Numba could not even read any more where a type has gone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

_IMPORT = re.compile(r"^from ([.\w]+) import", re.MULTILINE)
_PACKAGES = ("haptic_sim", "haptic_control", "haptic_drivers", "haptic_bench")


def refresh(root: Path | None = None, cache: Path | None = None) -> list[str]:
    """Forget the kernels that are stale; returns the modules that they are of.

    Args:
        root: folder with the packages; this one's if left out.
        cache: Numba's cache; what NUMBA_CACHE_DIR names if left out. Without one, nothing is done.
    """
    if cache is None:
        name = os.environ.get("NUMBA_CACHE_DIR")
        if not name:
            return []
        cache = Path(name)
    sources = _sources(root or Path(__file__).resolve().parent.parent)
    now = {module: hashlib.sha256(text.encode()).hexdigest() for module, text in sources.items()}
    record = cache / "sources.json"
    try:
        before = json.loads(record.read_text(encoding="utf-8"))
    except FileNotFoundError:
        before = now
    except ValueError:  # cut short when it was written
        before = {}
    changed = {module for module, digest in now.items() if before.get(module) != digest}
    stale = sorted(_dependents(changed, sources))
    for module in stale:
        for file in cache.glob(f"*/{module.rpartition('.')[2]}.*.nb[ic]"):
            file.unlink(missing_ok=True)
    if changed:
        names = [module.encode() for module in changed]
        for index in cache.glob("*/*.nbi"):
            if any(name in index.read_bytes() for name in names):
                index.unlink(missing_ok=True)
    if before != now or not record.exists():
        cache.mkdir(parents=True, exist_ok=True)
        scratch = record.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(now), encoding="utf-8")
        scratch.replace(record)
    return stale


def _sources(root: Path) -> dict[str, str]:
    """Text of the files with kernels, by module."""
    found = {}
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "njit" in text or "structref" in text:
                found[".".join(path.relative_to(root).with_suffix("").parts)] = text
    return found


def _dependents(changed: Iterable[str], sources: Mapping[str, str]) -> set[str]:
    """The changed modules, and all that import one of them."""
    imports = {module: _imported(module, text) for module, text in sources.items()}
    stale = set(changed)
    while True:
        more = {module for module, names in imports.items() if module not in stale and names & stale}
        if not more:
            return stale
        stale |= more


def _imported(module: str, text: str) -> set[str]:
    names = set()
    for name in _IMPORT.findall(text):
        if name.startswith("."):
            package = module.split(".")[: -(len(name) - len(name.lstrip(".")))]
            name = ".".join([*package, name.lstrip(".")])
        names.add(name)
    return names
