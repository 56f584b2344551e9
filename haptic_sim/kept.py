"""Arrays that take long to compute are kept on disk, under a digest of what they were computed from.

    arrays, found = kept("pieces", digest_of(vertices, triangles, error), build)

They are in a folder of the user's cache beside the compiled kernels, by the same rules of trust (cache_folder.py): what
another user can have written is not used. A file that is damaged is made again. Of processes that need the same arrays
at once, one computes them.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from haptic_sim import cache_folder

MOST = 1 << 31  # [bytes] of all files of a kind; those that were used longest ago go first
_DIGEST = hashlib.sha256().digest_size
_ENDING = ".arrays"


def digest_of(*parts: Any) -> str:
    """Digest of arrays, with their shapes and types, and of what else `repr` tells apart: numbers and texts."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype.str}{part.shape}".encode())
            found.update(np.ascontiguousarray(part).tobytes())
        else:
            found.update(repr(part).encode())
        found.update(b"\0")
    return found.hexdigest()


def kept(kind: str, digest: str, build: Callable[[], Mapping[str, np.ndarray]]) -> tuple[dict[str, np.ndarray], bool]:
    """The arrays of a digest by name, and whether they were kept; else they are built, and kept for the next time.

    Args:
        kind: folder below the user's cache.
        digest: of all that decides about the arrays, the versions of libraries included.
        build: computes them; whatever it raises is passed on, and nothing is kept.
    """
    path = cache_folder.cache_folder(kind) / f"{digest}{_ENDING}"
    if (found := _load(path)) is not None:
        return found, True
    with _exclusively(path):
        if (found := _load(path)) is not None:  # another process has built them meanwhile
            return found, True
        built = {name: np.asarray(array) for name, array in build().items()}
        _save(path, built)
    return built, False


def _load(path: Path) -> dict[str, np.ndarray] | None:
    """The arrays of a file; None if there is none, or it cannot be used."""
    try:
        content = cache_folder.read(path)
    except OSError:
        return None
    if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    with contextlib.suppress(OSError):  # where it may only be read
        os.utime(path)
    with np.load(io.BytesIO(content[_DIGEST:]), allow_pickle=False) as arrays:
        return dict(arrays)


def _save(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Keep arrays, and forget those that were used longest ago; where nothing can be kept, say so."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]  # names of arrays are not those of its own arguments
    content = buffer.getvalue()
    try:
        cache_folder.write(path, hashlib.sha256(content).digest() + content)
        _forget_old(path.parent)
    except OSError as error:
        warnings.warn(
            f"{path.parent.name} cannot be kept in {path.parent} ({error.strerror}), so that each start computes them: "
            "let HAPTICS_CACHE_DIR name a folder that can be written",
            RuntimeWarning,
            stacklevel=2,
        )


@contextlib.contextmanager
def _exclusively(path: Path) -> Iterator[None]:
    """While no other process builds the same; without a folder to agree in, at once."""
    lock = path.with_suffix(".lock")
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            held.enter_context(cache_folder.locked(lock))
        yield


def _forget_old(folder: Path) -> None:
    """Keep the files that were used last, as many as fit in MOST."""
    found = []
    for path in folder.glob(f"*{_ENDING}"):
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append((status.st_mtime, status.st_size, path))
    total = 0
    for _, size, path in sorted(found, reverse=True):
        total += size
        if total > MOST:
            path.unlink(missing_ok=True)
