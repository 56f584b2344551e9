"""Required versions of other packages, and which of them are missing or too old.

Standard library only, because it is used before any other import.
"""

import functools
import importlib
import re
import sys
from importlib import metadata
from typing import NamedTuple

DISTRIBUTION = "jazzy"
ROS = "ROS 2"
EXTRAS = {
    "bags": "trials: to run, record, replay and report them",
    "meshes": "shapes that are meshes, and fields of them",
    "formulas": "constraints that formulas give",
    ROS: "nodes; trials run with --mode offline without it",
}
"""Purpose of packages that haptics can be used without, by the extra of setup.py."""


class Bounds(NamedTuple):
    """Versions of a package that can be used: from `lowest` on, before `end`."""

    module: str
    lowest: str
    end: str = ""
    remedy: str = ""  # if pip is not to install it
    extra: str = ""  # of setup.py, where haptics can be used without it

    def __str__(self):
        return f">={self.lowest}" + (f",<{self.end}" if self.end else "")

    def allow(self, version):
        """Whether a version is within."""
        return number(self.lowest) <= number(version) and not (self.end and number(version) >= number(self.end))


# What runs, by the name of its distribution; the bounds are those of setup.py.
PACKAGES = {
    "numpy": Bounds("numpy", "1.26", remedy="apt install python3-numpy"),
    "rclpy": Bounds("rclpy", "7.0", remedy=f"apt install ros-{DISTRIBUTION}-rclpy", extra=ROS),
    "pin": Bounds("pinocchio", "3.4", "5", remedy=f"apt install ros-{DISTRIBUTION}-pinocchio"),
    "coal": Bounds("coal", "3.0", remedy=f"apt install ros-{DISTRIBUTION}-coal"),
    "libigl": Bounds("igl", "2.5", extra="meshes"),
    "llvmlite": Bounds("llvmlite", "0.43"),
    "matplotlib": Bounds("matplotlib", "3.8", extra="bags"),
    "mcap": Bounds("mcap", "1.5", extra="bags"),
    "numba": Bounds("numba", "0.60", "0.69"),  # see haptic_sim/kernels/numba_inside.py
    "pydantic": Bounds("pydantic", "2.6"),
    "pyyaml": Bounds("yaml", "6.0"),
    "rosbags": Bounds("rosbags", "0.10", extra="bags"),
    "scipy": Bounds("scipy", "1.11"),
    "setproctitle": Bounds("setproctitle", "1.3", extra="bags"),
    "sympy": Bounds("sympy", "1.12", extra="formulas"),
    "tqdm": Bounds("tqdm", "4.60", extra="bags"),
    "transforms3d": Bounds("transforms3d", "0.4.1"),
    "trimesh": Bounds("trimesh", "4.0", extra="meshes"),
    "zstandard": Bounds("zstandard", "0.21", extra="bags"),
}

SYSTEM = tuple(name for name, bounds in PACKAGES.items() if bounds.remedy)
"""Packages that pip is not to install where a ROS 2 is there: they were built for each other."""


NODES = tuple(name for name, bounds in PACKAGES.items() if bounds.extra in ("", "bags", ROS))
"""Packages that nodes are not started without."""


def number(version):
    """A version as numbers, to compare."""
    return [int(digits) for digits in re.findall(r"\d+", re.split(r"[^\d.]", version)[0])]


def unmet(names=tuple(PACKAGES), *, missing=True):
    """A line for each package that is not there (if `missing` ones count), or not in a version that we can use."""
    lines = []
    for name in names:
        bounds = PACKAGES[name]
        remedy = bounds.remedy or f"python3 -m pip install '{name}{bounds}'"
        version, place = _found(name, bounds.module)
        if version is None:
            lines += [f"{name} {bounds} is needed and not there: {remedy}"] if missing else []
        elif version and not bounds.allow(version):
            lines.append(f"{name} {version} found ({place}), {bounds} needed: {remedy}")
    return lines


def check(*, missing=True):
    """End the program if anything is lacking that nodes need, with a line for each; `missing` as for `unmet`."""
    others = [name for name in PACKAGES if name not in NODES]
    lines = unmet(NODES, missing=missing) + unmet(others, missing=False)
    if lines:
        sys.exit("\n".join(f"haptics: {line}" for line in lines))


def lacking(module):
    """Lines on a module that cannot be imported; one for all that is missing of an extra, none if it is not known."""
    top = module.partition(".")[0]
    name = next((name for name, bounds in PACKAGES.items() if bounds.module == top), None)
    extra = PACKAGES[name].extra if name else ""
    if extra not in EXTRAS or extra == ROS:
        return unmet([name] if name else [])
    missing = [
        one for one, bounds in PACKAGES.items() if bounds.extra == extra and _found(one, bounds.module)[0] is None
    ]
    wanted = " ".join(f"'{one}{PACKAGES[one]}'" for one in missing)
    needed = f"{', '.join(missing)}: needed for {EXTRAS[extra]} (the extra `{extra}`), and not there"
    return [f"{needed}: python3 -m pip install {wanted}"] if missing else []


@functools.cache  # which reads a file of the package, and stays as it is while a program runs
def _found(name, module):
    """Version of a package, None if it is not there, and where it is; without a version if it tells none."""
    try:
        found = metadata.distribution(name)
        return found.version, found.locate_file("")
    except metadata.PackageNotFoundError:  # ROS 2 packages that CMake installs have no record
        try:
            imported = importlib.import_module(module)
        except ImportError:
            return None, ""
        return getattr(imported, "__version__", ""), imported.__file__ or ""
