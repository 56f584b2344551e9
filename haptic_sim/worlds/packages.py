"""Paths of files that others name by a package or a model: `package://`, `model://`, `file://`, `$(find ...)`.

A package is looked for in the folders that are given, then above the file that names it, then where ROS 2
(AMENT_PREFIX_PATH) and Gazebo (GZ_SIM_RESOURCE_PATH, ...) have them. What Gazebo has fetched from its library of
models, Fuel, is read from where it is kept; nothing is fetched here.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote, unquote

from haptic_sim.inputs import InputError, check_path, shown
from haptic_sim.worlds.file_trees import ModelFileError
from haptic_sim.worlds.xml_files import read_xml

AMENT = "AMENT_PREFIX_PATH"
RESOURCES = ("GZ_SIM_RESOURCE_PATH", "IGN_GAZEBO_RESOURCE_PATH", "SDF_PATH", "GAZEBO_MODEL_PATH")
ROBOT = "robot://"
FUEL = "GZ_FUEL_CACHE_PATH"
_FUEL = re.compile(r"https?://([^/]+)/1\.0/([^/]+)/models/([^/]+)(?:/(\d+|tip))?(?:/files/(.+))?/?", re.DOTALL)
_SCHEME = re.compile(r"(package|model)://([^/]+)/?(.*)", re.DOTALL)


class Packages:
    """Finds packages for a file.

    Args:
        file: that names them.
        folders: in which they are looked for first; each has packages in it, or is one.
    """

    def __init__(self, file: Path, folders: Sequence[Path] = ()):
        self._folders, self._above = tuple(folders), tuple(Path(os.path.abspath(file)).parents)
        self._found: dict[str, Path | None] = {}

    def find(self, name: str) -> Path | None:
        """The folder of a package or model; None if there is none."""
        if name not in self._found:
            self._found[name] = next(self._candidates(name), None)
        return self._found[name]

    def locate(self, uri: str) -> Path | None:
        """The file that is named by a URI or a path, as files beside it are; None if there is none."""
        if match := _SCHEME.fullmatch(uri):
            folder = self.find(match[2])
            return None if folder is None else _existing(folder / match[3])
        if match := _FUEL.fullmatch(uri):
            return _fetched(*match.groups())
        path = Path(uri.removeprefix("file://"))
        return next((found for folder in self._above if (found := _existing(folder / path))), None)

    def searched(self) -> str:
        """Text about the folders in which packages are searched, and the remedy, for messages."""
        places = ["the folders above the file", AMENT, RESOURCES[0]]
        given = f"{', '.join(map(str, self._folders))}, " if self._folders else ""
        return f"looked for in {given}{', '.join(places)}; name the folder that has it in `packages` (--packages)"

    def _candidates(self, name: str) -> Iterator[Path]:
        if not name or "/" in name or name in (".", ".."):
            return
        for folder in (*self._folders, *self._above):
            if _package_name(folder) == name:
                yield folder
            if (inside := folder / name).is_dir():
                yield inside
        for folder in self._folders:
            yield from (one for one in _folders_in(folder) if _package_name(one) == name)
        for prefix in _paths(AMENT):
            if (share := prefix / "share" / name).is_dir():
                yield share
        for variable in RESOURCES:
            for folder in _paths(variable):
                if (inside := folder / name).is_dir():
                    yield inside


def remedy(uri: str) -> str:
    """Remedy for a model that is not found."""
    if _FUEL.fullmatch(uri):
        return f"fetch it with Gazebo's `gz fuel download -u {shown(uri)}`, once, or name a folder that has it"
    return f"name the folder that has it in `packages`, or in {RESOURCES[0]}"


def _fetched(server: str, owner: str, name: str, version: str | None, rest: str | None) -> Path | None:
    """A model of Fuel, or a file of it, in the folder where gz-fuel-tools keeps them, SERVER/OWNER/models/NAME/VERSION.

    Without a version, or with `tip`, the newest of those that are there.
    """
    try:
        kept = Path(os.environ.get(FUEL) or Path.home() / ".gz" / "fuel")
    except RuntimeError:  # there is no home
        return None
    plain = unquote(name).lower()
    for written in (plain, quote(plain)):
        if {server, owner, written} & {".", ".."} or "/" in written:
            continue
        models = _existing(kept / server / owner.lower() / "models" / written)
        versions = [] if models is None else [one for one in models.iterdir() if one.name.isdecimal()]
        if version not in (None, "tip"):
            versions = [one for one in versions if one.name == version]
        if versions:
            folder = max(versions, key=lambda one: int(one.name))
            return folder if not rest else _existing(folder / unquote(rest))
    return None


def package_of(uri: str) -> str:
    """The package or model that a URI names; empty if it names none."""
    match = _SCHEME.fullmatch(uri)
    return match[2] if match else ""


def _paths(variable: str) -> list[Path]:
    return [Path(path) for path in os.environ.get(variable, "").split(os.pathsep) if path]


def _folders_in(folder: Path) -> list[Path]:
    """The folders in a folder, as checkouts, which may have another name than their package; sorted."""
    try:
        return sorted(one for one in folder.iterdir() if one.is_dir())
    except OSError:
        return []


def _existing(path: Path) -> Path | None:
    try:
        return path if check_path(str(path)).exists() else None
    except (InputError, OSError, ValueError):
        return None


def _package_name(folder: Path) -> str:
    """The name in the package.xml of a folder; empty without one."""
    path = folder / "package.xml"
    try:
        return (read_xml(path).findtext("name") or "").strip() if path.is_file() else ""
    except (ModelFileError, OSError):
        return ""


def described(path: str) -> Path | None:
    """The file of a robot by name, `robot://NAME` of the package robot_descriptions; None of another path.

    Raises:
        ModelFileError: the package is not installed, has no such robot, or cannot fetch it.
    """
    if not path.startswith(ROBOT):
        return None
    name = path.removeprefix(ROBOT)
    if not re.fullmatch(r"[a-z0-9_]{1,100}", name):
        raise ModelFileError(f": {shown(name)}: must be a name of robot_descriptions, as robot://ur5e_description")
    name = name if name.endswith("_description") else f"{name}_description"
    try:
        importlib.import_module("robot_descriptions")
    except ImportError as error:
        remedy = "python3 -m pip install robot_descriptions, or name the file of a checkout"
        raise ModelFileError(f": robots by name need the package robot_descriptions ({error}): {remedy}") from error
    try:
        module = importlib.import_module(f"robot_descriptions.{name}")
    except ModuleNotFoundError as error:
        known = "https://github.com/robot-descriptions/robot_descriptions.py"
        raise ModelFileError(f": robot_descriptions has no {name} ({error}); {known} lists them") from error
    except Exception as error:  # it fetches repositories with git
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        remedy = (
            "it fetches the robot with git, once; fetch it where there is a network, or name the file of a checkout"
        )
        raise ModelFileError(f": robot_descriptions cannot provide {name}: {shown(first)}; {remedy}") from error
    for key in ("URDF_PATH", "XACRO_PATH", "MJCF_PATH", "SDF_PATH"):
        if found := getattr(module, key, None):
            return Path(str(found))
    raise ModelFileError(f": {name} of robot_descriptions has no URDF, xacro, MJCF or SDF file")
