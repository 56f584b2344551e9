"""The catalogue: names and files of the experiments that come with haptics. Standard library only."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from haptic_sim.errors import HapticsError
from haptic_sim.installed import PACKAGES, shared_folder

MESHES = (
    ".stl",
    ".obj",
    ".ply",
    ".off",
    ".gltf",
    ".glb",
    ".dae",
)  # as haptic_sim.geometry.mesh_files, which loads NumPy
IS_A_MESH = "is a mesh, the shape of a body; write it into a world, as docs/shapes.md does in `A shape of your own`"

_HEADLINE = re.compile(r"(title|source):[ \t]+(?:\"(.*)\"|'(.*)'|(.*?))[ \t]*")


class NotThere(HapticsError, ValueError):
    """An argument names something that does not exist; the text is a line for the user."""


def config_folder() -> Path:
    """Folder of the experiments: in the checkout, or below the prefix in which this package is installed.

    Raises:
        NotThere: nowhere.
    """
    folder = shared_folder("config", "experiments")
    if folder is None:
        raise NotThere(f"the experiments were not found: no share/haptics/config above {PACKAGES}; install it again")
    return folder


def catalogue() -> dict[str, Path]:
    """Files of the known experiments by name."""
    return {path.stem: path for path in sorted((config_folder() / "experiments").glob("*.yaml"))}


def headline(path: Path) -> tuple[str, str]:
    """Title and source in a file of the catalogue, where each stands in a line of its own."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        match = _HEADLINE.fullmatch(line)
        if match:
            found[match[1]] = (match[2] or match[3] or match[4] or "").replace("''", "'")
    return found.get("title", ""), found.get("source", "")


def find(name: str) -> Path:
    """The file of an experiment, by name or as a path: what has a separator, or the suffix of YAML or a mesh, is one.

    Raises:
        NotThere: there is none.
    """
    known = catalogue()
    if name in known:
        return known[name]
    if os.sep in name or name.endswith((".yaml", ".yml")) or name.lower().endswith(MESHES):
        return _file(name)
    raise NotThere(f"experiment {shortened(name)}: unknown{did_you_mean(name, known)}")


def _file(name: str) -> Path:
    shown = shortened(name)
    try:
        os.stat(name)
    except OSError as error:
        raise NotThere(f"experiment {shown}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # a NUL, or bytes that are no UTF-8
        raise NotThere(f"experiment {shown}: is not a path: {error}") from error
    if not name.endswith((".yaml", ".yml")):
        if name.lower().endswith(MESHES):
            raise NotThere(f"experiment {shown}: {IS_A_MESH}")
        raise NotThere(f"experiment {shown}: must be a .yaml file, or the name of a known experiment")
    return Path(name)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Hint for an unknown name: the most similar known names, and all known names."""
    known = list(known)
    near = difflib.get_close_matches(name[:100], known, n=1)
    return (f"; did you mean {near[0]}?" if near else "") + f" (known: {', '.join(known)})"


def shortened(text: str, limit: int = 200) -> str:
    """A text as an error message quotes it: printable, on one line, cut off where it is long."""
    text = text if len(text) <= limit else text[: limit - 3] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)
