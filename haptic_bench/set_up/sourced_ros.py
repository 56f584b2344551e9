"""The environment of a checkout where a ROS 2 is sourced: its packages instead of the wheels.

Standard library only, as prepare.py, which uses this module where ROS_DISTRO is set and AMENT_PREFIX_PATH names a
prefix with rclpy. The stages are below `.haptics/ros/`, so that shells with and without ROS 2 do not disturb each
other:

- environment: `venv/`, which sees the system's packages, with the missing ones from pip;
- interfaces: built as an overlay, or those of a sourced workspace in which this package was built;
- kernels: as with wheels.

The binaries of ROS 2 and of its Pinocchio were built for the NumPy of the system, so that NumPy is kept, and pip
chooses packages that fit it. Pinocchio and coal must be the system's too: those on PyPI need NumPy 2, and their
libraries have the same names, so that LD_LIBRARY_PATH would mix the two.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from haptic_bench.set_up import prepare, requirements
from haptic_bench.set_up.requirements import DISTRIBUTION, PACKAGES

MINORS = range(10, 13)  # of the Pythons that we support
WITHOUT_ROS = "start a shell without ROS 2 to use the wheels"
# Where a prefix may have Python packages: as packaged, as built on Debian and Ubuntu.
PACKAGE_FOLDERS = ("lib/python3.*/site-packages", "local/lib/python3.*/dist-packages", "lib/python3*/dist-packages")


SYSTEM = ("numpy", "rclpy", "pin", "coal")  # must be there before pip runs
TOOLS = ("colcon-cmake", "colcon-core", "colcon-ros", "ninja")  # build of the interfaces
TESTS = (
    "example-robot-data>=4",
    "hypothesis>=6.90",
    "mujoco>=3.1",
    "mypy>=1.8",
    "pytest>=7.4",
    "pytest-xdist>=3.5",
    "ruff>=0.6",
    "types-pyyaml",
)
# Their locked versions suit the locked NumPy; with the system's, pip chooses.
FITTED_TO_NUMPY = ("contourpy", "llvmlite", "matplotlib", "numba", "scipy")


class Ros(NamedTuple):
    """The ROS 2 that is sourced."""

    prefix: Path  # has rclpy
    minor: int  # of the Python 3 that rclpy was built for
    overlay: Path | None  # prefix in which this package is installed, of a workspace


class Found(NamedTuple):
    """What importing a package has shown; no version and no error if it is not there."""

    version: str = ""
    file: str = ""
    error: str = ""


def find(root):
    """The ROS 2 that is sourced; None if there is none.

    Raises:
        PreparationError: it is another distribution than ours.
    """
    ours = Path(root) / ".haptics"
    prefixes = [Path(path) for path in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if path]
    prefixes = [prefix for prefix in prefixes if ours not in prefix.parents]
    rclpy = next((path for prefix in prefixes for path in packages_of(prefix, "rclpy")), None)
    if rclpy is None:
        return None
    prefix = next(prefix for prefix in prefixes if prefix in rclpy.parents)
    if os.environ["ROS_DISTRO"] != DISTRIBUTION:
        raise prepare.PreparationError(
            f"ROS 2 {os.environ['ROS_DISTRO']} is sourced, {DISTRIBUTION} is needed: "
            f"source /opt/ros/{DISTRIBUTION}/setup.bash, or {WITHOUT_ROS}"
        )
    names = [path.name for path in rclpy.glob("_rclpy_pybind11.cpython-3*")] + [str(rclpy)]
    minor = re.search(r"cpython-3(\d+)|python3\.(\d+)", " ".join(names))
    index = "share/ament_index/resource_index/packages/haptics"
    return Ros(
        prefix,
        int(minor[1] or minor[2]) if minor else sys.version_info[1],
        next((prefix for prefix in prefixes if (prefix / index).is_file()), None),
    )


def packages_of(prefix, name="."):
    """The folders of a prefix that have a Python package; of all packages, without a name."""
    return [path / name for folder in PACKAGE_FOLDERS for path in prefix.glob(folder) if (path / name).is_dir()]


def interpreter(ros):
    """Path of the Python that the ROS installation uses."""
    name, built = f"python3.{ros.minor}", f"the ROS 2 in {ros.prefix} is for Python 3.{ros.minor}"
    if ros.minor not in MINORS:
        raise prepare.PreparationError(f"{built}, 3.{MINORS[0]} to 3.{MINORS[-1]} needed: {WITHOUT_ROS}")
    for path in (ros.prefix / "bin" / name, Path("/usr/bin") / name):  # a Conda environment has its own
        if os.access(path, os.X_OK):
            return str(path)
    if sys.version_info[1] == ros.minor:
        return getattr(sys, "_base_executable", sys.executable)
    path = shutil.which(name)
    if path is None:
        raise prepare.PreparationError(f"{built}, which is not here: install {name}, or {WITHOUT_ROS}")
    return path


def messages(folder):
    """The message definitions in a folder, by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.msg"))}


# Asks the Python that will be the environment's for its parts.
CHECK = """
import sys
sys.path.insert(0, sys.argv[1])
from haptic_bench.set_up import prepare, requirements
from haptic_bench.set_up.requirements import DISTRIBUTION, PACKAGES
try:
    prepare.check_machine(sys.argv[2:])
except prepare.PreparationError as error:
    sys.exit(str(error))
"""


class SourcedPreparation(prepare.Preparation):
    """What one checkout needs beside the ROS 2 that is sourced."""

    recipes = (Path(__file__), Path(requirements.__file__))

    def __init__(self, root, ros):
        super().__init__(root, ".haptics/ros")
        self.ros = ros
        self.system = self.home / "system.json"  # files of the system's packages that were relied on

    # -- is it whole? ----------------------------------------------------------------------------------------

    def key(self, stage):
        """As with wheels, and what is sourced."""
        key = f"{super().key(stage)} {self.ros.prefix}"
        if stage == "interfaces" and self.ros.overlay:
            key += f" {self.ros.overlay} {self._overlay_differs()}"
        return key

    def listing(self, stage):
        """As with wheels, and the system's packages, which must be as they were when pip chose."""
        names = super().listing(stage)
        if stage == "environment":
            names += [f"{file} {os.stat(file).st_mtime_ns}" for file in json.loads(self.system.read_text())]
        return names

    def _overlay_differs(self):
        """Whether the workspace has been built from other messages than those of the checkout."""
        return messages(self.ros.overlay / "share" / "haptics" / "msg") != messages(self.root / "msg")

    @staticmethod
    def site_packages(prefix):
        """Folder of the Python packages below a prefix; one that does not exist if there is none."""
        return next(iter(packages_of(prefix)), prefix / "lib" / "python3" / "site-packages")

    # -- how programs run in it ------------------------------------------------------------------------------

    def environment(self):
        """Environment variables of a program of the checkout: those of the sourced shell, and ours first."""
        variables = {name: value for name, value in os.environ.items() if name not in prepare.FOREIGN}
        variables["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
        built = [self.install] if self.install.is_dir() and not self.ros.overlay else []
        prepare.put_first(variables, "PATH", self.venv / "bin")
        prepare.put_first(variables, "LD_LIBRARY_PATH", *(prefix / "lib" for prefix in built))
        prepare.put_first(variables, "AMENT_PREFIX_PATH", *built)
        prepare.put_first(variables, "CMAKE_PREFIX_PATH", *built)
        # What pip has installed comes before the packages of ROS 2, which it may have to replace.
        folders = map(self.site_packages, [*built, self.venv])
        prepare.put_first(variables, "PYTHONPATH", self.root, *folders)
        variables |= {
            "PYTHONNOUSERSITE": "1",  # a NumPy in ~/.local would replace the system's
            "PYTHONSAFEPATH": "1",
            "VIRTUAL_ENV": str(self.venv),
        }
        return self.defaults() | variables

    # -- how it is made --------------------------------------------------------------------------------------

    def what(self, stage):
        """What a stage does, for its line of progress."""
        if stage == "environment":
            return f"installing what ROS 2 in {self.ros.prefix} lacks"
        if stage == "interfaces" and self.ros.overlay:
            return f"taking the interfaces of {self.ros.overlay}"
        return super().what(stage)

    def check_machine(self, stages):
        """Raises PreparationError if the machine, its Python for ROS 2, or the sourced workspace will not do."""
        python = interpreter(self.ros)
        if self.ros.overlay:
            if self._overlay_differs():
                raise prepare.PreparationError(
                    f"{self.ros.overlay} was built from other messages than those in {self.root / 'msg'}: build that "
                    "workspace again (colcon build --packages-select haptics), or start a shell without it"
                )
            stages = [stage for stage in stages if stage != "interfaces"]
        command = [python, "-c", CHECK, str(self.root), *stages]
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True)
        if done.returncode:
            raise prepare.PreparationError((done.stderr.strip() or f"{python} does not run").splitlines()[-1])

    def _make_environment(self, lock):
        """The virtual environment, with what the system lacks."""
        prepare.remove(self.venv)
        prepare.remove(self.install)
        python = interpreter(self.ros)
        self._run("venv", [python, "-m", "venv", "--system-site-packages", self.venv], self.environment(), lock)
        found, present = self._probe(SYSTEM)
        complain(found, SYSTEM)
        self._install(found, present, lock)
        found, _ = self._probe(PACKAGES)
        complain(found, PACKAGES)
        files = [one.file for one in found.values() if one.file and self.venv not in Path(one.file).parents]
        self.system.write_text(json.dumps(files))

    def _install(self, found, present, lock):
        """Lets pip install what is missing: in the locked version, unless that one depends on NumPy's."""
        wanted = {name: bounds for name, bounds in PACKAGES.items() if name not in SYSTEM}
        kept = {name: version for name, version in present.items() if name in wanted and wanted[name].allow(version)}
        kept["numpy"] = found["numpy"].version
        free = {*present, *kept, *FITTED_TO_NUMPY}
        pins = [line for line in self.pins() if not line.startswith("ros-") and line.partition("==")[0] not in free]
        pins += [f"{name}=={version}" for name, version in kept.items()]
        constraints = self.home / "constraints.txt"
        constraints.write_text("\n".join([*pins, ""]))
        options = "--disable-pip-version-check --no-input --prefer-binary --only-binary".split()
        names = [f"{name}{bounds}" for name, bounds in wanted.items()]
        command = [self.python, "-m", "pip", "install", *options, ",".join(FITTED_TO_NUMPY), "-c", constraints]
        command += [*names, *TOOLS, *TESTS]
        try:
            self._run("pip install", command, self.environment(), lock)
        except prepare.PreparationError as error:
            if "ResolutionImpossible" in (self.logs / "pip-install.log").read_text(errors="replace"):
                numpy = f"NumPy {found['numpy'].version} ({found['numpy'].file})"
                raise prepare.PreparationError(f"{error}; not all can be had for {numpy}: {WITHOUT_ROS}") from None
            raise

    def _probe(self, names):
        """What importing packages in the environment shows, by name; and the versions of all that is installed.

        After a package whose import ends the process there are no more.
        """
        modules = {name: PACKAGES[name].module for name in names}
        command = [self.python, "-c", PROBE, json.dumps(modules)]
        done = subprocess.run(command, env=self.environment(), cwd=self.home, capture_output=True, text=True)
        (self.logs / "probe.log").write_text(done.stdout + done.stderr)
        found, present = {}, {}
        for line in done.stdout.splitlines():
            with contextlib.suppress(ValueError):  # a package that talks
                answer = json.loads(line)
                if "present" in answer:
                    present = answer["present"]
                else:
                    name = answer.pop("name")
                    found[name] = Found(**answer)
        reason = re.search(r"compiled using NumPy \S+ cannot be run in\s+NumPy [\d.]*\d", done.stderr)
        if done.returncode and found and reason:  # NumPy has told it before the crash
            found[name] = Found(error=reason[0])
        if not found:
            raise prepare.PreparationError(f"{self.python} does not run as it should: see {self.logs / 'probe.log'}")
        return found, present

    def _make_interfaces(self, lock):
        """The messages, by the sourced ROS 2; none where a workspace has them."""
        if self.ros.overlay:
            prepare.remove(self.install)
        else:
            super()._make_interfaces(lock)


# Imports packages and tells what it finds, each on a line as soon as it is known: an import may end the process.
PROBE = r"""
import importlib, json, re, sys
from importlib import metadata

present = {}
for one in metadata.distributions():  # of two, the first is the one that is imported
    present.setdefault(re.sub(r"[-_.]+", "-", one.metadata["Name"] or "").lower(), one.version)
print(json.dumps({"present": present}), flush=True)
for name, module in json.loads(sys.argv[1]).items():
    answer = {"name": name}
    print(json.dumps(answer | {"error": "its import ends the process"}), flush=True)
    try:
        found = importlib.import_module(module)
        answer["file"] = found.__file__ or ""
        answer["version"] = getattr(found, "__version__", "") or metadata.version(name)
    except ImportError as error:
        if error.name != module:
            answer["error"] = str(error)
    except Exception as error:
        answer["error"] = f"{type(error).__name__}: {error}"
    print(json.dumps(answer), flush=True)
"""


def complain(found, expected):
    """Raises PreparationError, a line for each package that will not do."""
    numpy = found["numpy"]
    lines = []
    for name in filter(found.get, expected):
        bounds, one = PACKAGES[name], found[name]
        remedy = bounds.remedy or f"remove it from {one.file or 'the system'} and try again"
        error = " ".join(one.error.split())
        if one == Found():
            lines.append(f"{bounds.module} is not there, {name} {bounds} needed: {remedy}")
        elif re.search(r"NumPy|numpy\.|_ARRAY_API not found", error) and numpy.version:
            lines.append(
                f"{bounds.module} does not go with NumPy {numpy.version} ({numpy.file}), it was built for another "
                f"({error}): remove that NumPy so that the system's is used, or {WITHOUT_ROS}"
            )
        elif error:
            lines.append(f"{bounds.module} cannot be imported ({error}): {remedy}, or {WITHOUT_ROS}")
        elif not bounds.allow(one.version):
            lines.append(f"{name} {one.version} found ({one.file}), {bounds} needed: {remedy}, or {WITHOUT_ROS}")
    if lines:
        raise prepare.PreparationError("\nhaptics: ".join(lines))
