"""Whether the environment is there, in step with the lock file, and can be imported.

Standard library only, because the environment may not exist yet.
"""

from __future__ import annotations

import json
import operator
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from haptic_bench.set_up import prepare, requirements
from haptic_bench.set_up.finding import Finding
from haptic_bench.set_up.machine import read
from haptic_bench.set_up.programs import Environment, Program, last_line

IMPORTS = 90.0  # [s] for all imports, on a slow disk
OPTIONAL = {
    "launch_ros": "ros2 launch; ./haptics run and start do the same without it",
    "rosbag2_py": "ros2 bag; haptics writes its bags without it",
    "ros2cli": "the command ros2",
    "crtk_msgs": "operating_state and state_command of the CRTK bridge",
}
"""Modules that haptics works without, and what they are for."""
REMEDIES = {
    "crtk_msgs": "build https://github.com/collaborative-robotics/crtk_msgs in a colcon workspace and source it",
}
RELATIONS = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">=": "ge", ">": "gt"}
SHOWN = ("numpy", "numba", "pinocchio", "pydantic", "rclpy")
PROBE = """
import importlib, importlib.util, json, platform, sys
from importlib import metadata
found = {"python": platform.python_version(), "modules": {}, "optional": []}
packages = json.loads(sys.argv[3])
for name in sys.argv[1].split(","):
    try:
        module = importlib.import_module(name)
        found["modules"][name] = [True, str(getattr(module, "__version__", ""))]
        if not found["modules"][name][1]:
            try:
                found["modules"][name][1] = metadata.version(packages.get(name, name))
            except metadata.PackageNotFoundError:
                pass
    except BaseException as error:
        found["modules"][name] = [False, " ".join(f"{type(error).__name__}: {error}".split())[:200]]
for name in sys.argv[2].split(","):
    try:
        if importlib.util.find_spec(name) is not None:
            found["optional"].append(name)
    except (ImportError, ValueError):
        pass
print(json.dumps(found))
"""


def check_preparation(preparation: prepare.Preparation) -> Iterator[Finding]:
    """Whether the environment of a checkout is made, and if not, whether it can be."""
    area, due = "environment", preparation.due(("run",))
    made = [folder for folder in (preparation.venv, preparation.install, preparation.kernels) if folder not in due]
    if not due:
        yield Finding(area, "checkout", "ok", f"{preparation.home}: up to date")
    else:
        names = ", ".join(folder.name for folder in due)
        found = f"{preparation.home}: {names} not made from what is here now"
        yield Finding(area, "checkout", "warn", found, "the next command makes it; that takes one to three minutes")
    if preparation.venv not in made or preparation.install not in made:
        missing = [(what, package) for what, package, *names in prepare.TOOLS if not any(map(shutil.which, names))]
        if missing:
            whats, packages = zip(*missing, strict=True)
            yield Finding(area, "tools", "problem", f"no {', no '.join(whats)}", f"apt install {' '.join(packages)}")
    if preparation.origin:
        yield Finding(area, "ROS 2", "ok", f"{requirements.DISTRIBUTION}, sourced from {preparation.origin}")
    elif preparation.venv in made:
        yield from _check_lock(preparation)


def _check_lock(preparation: prepare.Preparation) -> Iterator[Finding]:
    """Whether what is installed is what the lock file names."""
    python = re.search(r"^version\s*=\s*(\S+)", read(preparation.venv / "pyvenv.cfg"), re.M)
    version = python[1] if python else platform.python_version()
    locked = {}
    for line in preparation.pins():
        pin, _, marker = line.partition(";")
        if applies(marker, version):
            name, _, number = pin.partition("==")
            locked[_name(name)] = number.strip()
    folder = str(prepare.site_packages(preparation.venv))
    installed = {_name(one.metadata["Name"] or ""): one.version for one in metadata.distributions(path=[folder])}
    missing = [name for name in locked if name not in installed]
    other = [name for name, version in locked.items() if installed.get(name, version) != version]
    if missing or other:
        names = [*(f"{name} is missing" for name in missing)]
        names += [f"{name} {installed[name]} in place of {locked[name]}" for name in other]
        found = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        remedy = f"remove {preparation.home} and start again"
        yield Finding("environment", "lock file", "problem" if missing else "warn", found, remedy)
    else:
        yield Finding("environment", "lock file", "ok", f"the {len(locked)} packages of requirements.lock")


def applies(marker: str, python: str) -> bool:
    """Whether a line of the lock file with this environment marker is for a version of Python; yes if unknown."""
    facts = {
        "platform_python_implementation": platform.python_implementation(),
        "sys_platform": sys.platform,
        "platform_machine": platform.machine(),
        "platform_system": platform.system(),
    }
    for part in marker.split(" and ") if " or " not in marker else ():
        found = re.fullmatch(r"\s*(\w+)\s*(<=|>=|==|!=|<|>)\s*['\"]([^'\"]*)['\"]\s*", part)
        if not found:
            continue
        name, relation, text = found.groups()
        if name in ("python_version", "python_full_version"):
            bound = requirements.number(text.removesuffix(".*"))
            ours = requirements.number(python)
            if text.endswith(".*") or name == "python_version":
                ours = ours[: len(bound)]
        elif name in facts:
            ours, bound = facts[name], text
        else:
            continue
        if not getattr(operator, RELATIONS[relation])(ours, bound):
            return False
    return True


def _name(name: str) -> str:
    return re.sub("[-_.]+", "-", name).strip().lower()


def check_imports(environment: Environment) -> Iterator[Finding]:
    """Check that all packages that are needed can be imported, and in which versions."""
    modules = [*(bounds.module for bounds in requirements.PACKAGES.values()), "haptics.msg"]
    packaged = {bounds.module: name for name, bounds in requirements.PACKAGES.items()}
    packaged["rclpy"] = f"ros-{requirements.DISTRIBUTION}-rclpy"
    arguments = (",".join(modules), ",".join(OPTIONAL), json.dumps(packaged))
    done = Program(environment, PROBE, arguments).wait(IMPORTS)
    if done.status:
        reason = "not within 90 s" if done.status == -1 else last_line(done.err)
        yield Finding("packages", "imports", "problem", f"failed: {reason}", "remove .haptics and start again")
        return
    found = json.loads(done.out.splitlines()[-1])
    versions = [f"Python {found['python']}"]
    for name, bounds in requirements.PACKAGES.items():
        there, version = found["modules"][bounds.module]
        if not there:
            remedy = bounds.remedy or f"python3 -m pip install '{name}{bounds}', or remove .haptics and start again"
            if bounds.extra and version.startswith("ModuleNotFoundError"):
                use = f"not there; needed for {requirements.EXTRAS[bounds.extra]}"
                yield Finding("packages", name, "warn", use, remedy)
            else:
                yield Finding("packages", name, "problem", f"cannot be imported: {version}", remedy)
        elif version and not bounds.allow(version):
            remedy = bounds.remedy or f"python3 -m pip install '{name}{bounds}'"
            yield Finding("packages", name, "problem", f"{version}, {bounds} is needed", remedy)
        elif bounds.module in SHOWN:
            versions.append(f"{name} {version}".strip())
    yield Finding("packages", "versions", "ok", ", ".join(versions))
    there, reason = found["modules"]["haptics.msg"]
    if there:
        yield Finding("packages", "messages", "ok", "haptics.msg")
    elif not found["modules"]["rclpy"][0]:
        yield Finding("packages", "messages", "warn", "not there, without ROS 2", "trials run with --mode offline")
    else:
        yield Finding("packages", "messages", "problem", reason, "remove .haptics and start again, or colcon build")
    for name, use in OPTIONAL.items():
        if name in found["optional"]:
            yield Finding("packages", name, "ok", "there")
        else:
            remedy = REMEDIES.get(name, f"source a ROS 2 {requirements.DISTRIBUTION} that has it")
            yield Finding("packages", name, "ok", f"not there; only needed for {use}", remedy)


def is_checkout(root: Path) -> bool:
    """Whether a folder is a checkout, which has an environment of its own, and not an installation."""
    return (root / "requirements.lock").is_file() and (root / "haptics").is_file()
