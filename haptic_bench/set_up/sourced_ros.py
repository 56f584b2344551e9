"""The environment of a checkout where a ROS 2 is sourced: its packages instead of the wheels.

Standard library only, as prepare.py. Used where ROS_DISTRO is set and AMENT_PREFIX_PATH names a prefix with rclpy. The
folders are below `.haptics/ros/`, so that shells with and without ROS 2 do not disturb each other. `venv/` sees the
system's packages; pip installs what is missing (uv would not count what is outside `venv/`).

The binaries of ROS 2 and of its Pinocchio were built for the NumPy of the system, so that NumPy is kept, and pip
chooses packages that fit it. Pinocchio and coal must be the system's too: those on PyPI need NumPy 2, and their
libraries have the same names, so that LD_LIBRARY_PATH would mix the two.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path

from haptic_bench.set_up import prepare, requirements
from haptic_bench.set_up.requirements import DISTRIBUTION, PACKAGES, SYSTEM

WITHOUT_ROS = "start a shell without ROS 2 to use the wheels"
TOOLS = ("colcon-cmake", "colcon-core", "colcon-ros", "ninja")  # build of the messages
TESTS = (
    "example-robot-data>=4",
    "hypothesis>=6.90",
    "mujoco>=3.5",
    "mypy>=1.8",
    "pytest>=7.4",
    "pytest-xdist>=3.5",
    "ruff>=0.6",
    "types-pyyaml",
)
# Their locked versions suit the locked NumPy; with the system's, pip chooses.
FITTED_TO_NUMPY = ("contourpy", "llvmlite", "matplotlib", "numba", "scipy")
# Prints the versions of all installed packages; fails with a line for each of the system's that will not do.
CHECK = """
import importlib, json, re, sys
from importlib import metadata
from haptic_bench.set_up.requirements import PACKAGES, SYSTEM, unmet
lines = unmet(SYSTEM)
for name in SYSTEM if not lines else ():
    try:
        importlib.import_module(PACKAGES[name].module)
    except Exception as error:
        lines.append(f"{PACKAGES[name].module} cannot be imported ({error}): {PACKAGES[name].remedy}")
if lines:
    sys.exit("\\n".join(lines))
found = {re.sub("[-_.]+", "-", str(one.metadata["Name"])).lower(): one.version for one in metadata.distributions()}
print(json.dumps(found | {"numpy": sys.modules["numpy"].__version__}))
"""


def find(root):
    """The preparation of a checkout where a ROS 2 is sourced; None if there is none.

    Raises:
        PreparationError: it is another distribution than ours.
    """
    prefixes = [Path(path) for path in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if path]
    found = [
        (prefix, path)
        for prefix in prefixes
        for folder in prepare.PACKAGE_FOLDERS
        for path in prefix.glob(f"{folder}/rclpy")
        if Path(root) / ".haptics" not in prefix.parents
    ]
    if not found:
        return None
    prefix, rclpy = found[0]
    if os.environ["ROS_DISTRO"] != DISTRIBUTION:
        raise prepare.PreparationError(
            f"ROS 2 {os.environ['ROS_DISTRO']} is sourced, {DISTRIBUTION} is needed: "
            f"source /opt/ros/{DISTRIBUTION}/setup.bash, or {WITHOUT_ROS}"
        )
    names = [path.name for path in rclpy.glob("_rclpy_pybind11.cpython-3*")] + [str(rclpy)]
    minor = re.search(r"cpython-3(\d+)|python3\.(\d+)", " ".join(names))
    return SourcedPreparation(root, prefix, int(minor[1] or minor[2]) if minor else sys.version_info[1])


class SourcedPreparation(prepare.Preparation):
    """Preparation of one checkout beside a ROS 2 in a prefix, built for a minor version of Python 3."""

    recipes = (*prepare.Preparation.recipes, Path(__file__), Path(requirements.__file__))

    def __init__(self, root, prefix, minor):
        super().__init__(root, ".haptics/ros")
        self.origin = str(prefix)
        self.minor = minor

    def environment(self):
        """Environment variables of a program of the checkout: those of the sourced shell, and ours first."""
        variables = {name: value for name, value in os.environ.items() if name not in prepare.FOREIGN}
        variables["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
        built = [self.install] if self.install.is_dir() else []
        prepare.put_first(variables, "PATH", self.venv / "bin")
        prepare.put_first(variables, "LD_LIBRARY_PATH", *(prefix / "lib" for prefix in built))
        prepare.put_first(variables, "AMENT_PREFIX_PATH", *built)
        prepare.put_first(variables, "CMAKE_PREFIX_PATH", *built)
        # What pip has installed comes before the packages of ROS 2, which it may have to replace.
        prepare.put_first(variables, "PYTHONPATH", self.root, *map(prepare.site_packages, [*built, self.venv]))
        variables |= {
            "PYTHONNOUSERSITE": "1",  # a NumPy in ~/.local would replace the system's
            "PYTHONSAFEPATH": "1",
            "VIRTUAL_ENV": str(self.venv),
        }
        return self.defaults() | variables

    def interpreter(self):
        """Path of the Python that ROS 2 uses."""
        name = f"python3.{self.minor}"
        folders = [f"{self.origin}/bin", "/usr/bin", os.environ.get("PATH", "")]  # a Conda environment has its own
        path = shutil.which(name, path=os.pathsep.join(folders))
        if path is None:
            raise prepare.PreparationError(
                f"the ROS 2 in {self.origin} is for Python 3.{self.minor}, which is not here: install {name}, "
                f"or {WITHOUT_ROS}"
            )
        return path

    def _install_packages(self):
        """Install missing packages: in the locked version, unless that one depends on NumPy's."""
        self._run("venv", [self.interpreter(), "-m", "venv", "--system-site-packages", self.venv])
        self._run("check of ROS 2", [self.python, "-c", CHECK])
        lines = (self.home / "log" / "check-of-ROS-2.log").read_text().splitlines()
        present = json.loads(next(line for line in lines if line.startswith("{")))  # beside what packages say
        free = {*present, *FITTED_TO_NUMPY}
        pins = [line for line in self.pins() if not line.startswith("ros-") and line.partition("==")[0] not in free]
        constraints = self.home / "constraints.txt"
        constraints.write_text("\n".join([*pins, f"numpy=={present['numpy']}", ""]))
        options = ["--no-input", "--prefer-binary", "--only-binary", ",".join(FITTED_TO_NUMPY), "-c", constraints]
        names = [f"{name}{bounds}" for name, bounds in PACKAGES.items() if name not in SYSTEM]
        self._run("installation", [self.python, "-m", "pip", "install", *options, *names, *TOOLS, *TESTS])

    def _run(self, what, command):
        try:
            super()._run(what, command)
        except prepare.PreparationError as error:
            raise prepare.PreparationError(f"{error}; or {WITHOUT_ROS}") from None
