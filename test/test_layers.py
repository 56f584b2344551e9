"""Imports: cores know no ROS, folders import only those before them, and no files import each other in a circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from conftest import ROOT

from haptic_sim.installed import PACKAGE_NAMES

PACKAGES = (*PACKAGE_NAMES, "stand_ins", "benchmarks", "campaign")
CORES = ("haptic_sim", "haptic_control", "haptic_drivers", "haptic_robot")
MAY_IMPORT = {
    "haptic_sim": {"haptic_sim"},
    "haptic_ros": {"haptic_ros", "haptic_sim"},
    "haptic_control": {"haptic_control", "haptic_sim"},
    "haptic_drivers": {"haptic_drivers", "haptic_control", "haptic_sim"},
    "haptic_robot": {"haptic_robot", "haptic_control", "haptic_sim"},
    "haptic_view": {*CORES, "haptic_view"},
    "haptic_bench": {*CORES, "haptic_ros", "haptic_view", "haptic_bench"},
    "haptic_experiments": {*CORES, "haptic_view", "haptic_bench", "haptic_experiments"},
    "haptic_study": {*CORES, "haptic_view", "haptic_bench", "haptic_study"},
    "stand_ins": {"stand_ins"},
    "benchmarks": set(PACKAGES),
    "campaign": set(PACKAGES),
}
FOLDERS = {
    "haptic_sim": (
        "dynamics",
        "hand",
        "geometry",
        "contact",
        "constraints",
        "motions",
        "fields",
        "worlds",
        "tool",
        "simulation",
        "rollouts",
        "nodes",
    ),
    "haptic_bench": (
        "set_up",
        "experiment",
        "recording",
        "nodes",
        "running",
        "analysis",
        "report",
        "trials",
        "replay",
        "commands",
        "__main__",
    ),
}
"""Folders of a package in the order of imports; modules outside of them come first, and import none of them."""
FIRST = {"kernels"}
"""Folders that belong to the modules which come first."""
API = {"haptic_sim": "rollouts", "haptic_bench": "trials"}
"""The folder or module whose names a package itself offers."""
WITHOUT_REASON = re.compile(rf"^ +from ({'|'.join(PACKAGES)})\b(?!.*  # )", re.M)
"""An import of ours that is indented, as in a function, on whose line no comment follows."""
ROS = {"rclpy", "haptics", "rcl_interfaces", "std_msgs", "geometry_msgs", "launch", "launch_ros"}


@cache
def imported(path: Path) -> list[tuple[str, str]]:
    """Modules that a file imports, anywhere in it, and the name that it takes from them (or none)."""
    return list(_imported(path))


def _imported(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, ""
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            for alias in node.names:
                yield node.module or "", alias.name


@cache
def arrows() -> dict[str, set[str]]:
    """Which of our modules imports which, lazily or not."""
    paths = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            paths[".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")] = path
    found = {}
    for module, path in paths.items():
        targets = {f"{name}.{item}" if f"{name}.{item}" in paths else name for name, item in imported(path)}
        found[module] = {target for target in targets if target in paths and target != module}
    return found


def is_node(module: str) -> bool:
    return "nodes" in module.split(".")


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_what_they_may(package: str) -> None:
    for module, targets in arrows().items():
        if module.partition(".")[0] == package:
            may = MAY_IMPORT[package] | ({"haptic_ros"} if is_node(module) else set())
            wrong = {target for target in targets if target.partition(".")[0] not in may}
            assert not wrong, f"{module} imports {wrong}"


def rank(module: str) -> int:
    """Place of a module in the order of imports of its package; 0: outside of the folders."""
    package, _, rest = module.partition(".")
    folder = rest.partition(".")[0] if rest else API[package]
    return FOLDERS[package].index(folder) + 1 if folder in FOLDERS[package] else 0


@pytest.mark.parametrize("package", FOLDERS)
def test_folders_import_those_before_them(package: str) -> None:
    for module, targets in arrows().items():
        for target in targets:
            if module.partition(".")[0] == target.partition(".")[0] == package:
                assert rank(target) <= rank(module), f"{module} imports {target}, which comes after it"


@pytest.mark.parametrize("package", FOLDERS)
def test_the_order_names_every_folder(package: str) -> None:
    folders = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
    named = {name for name in FOLDERS[package] if not (ROOT / package / f"{name}.py").is_file()}
    assert folders - FIRST == named


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Modules that import each other, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in sorted(edges[module]):
            if target not in index:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], index[target])
        if low[module] == index[module]:
            circle = []
            while not circle or circle[-1] != module:
                circle.append(stack.pop())
            if len(circle) > 1:
                found.append(sorted(circle))

    for module in sorted(edges):
        if module not in index:
            visit(module)
    return found


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": set()}) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_files_import_each_other_in_a_circle(package: str) -> None:
    assert [circle for circle in circles(arrows()) if any(one.startswith(package) for one in circle)] == []


def test_an_import_of_ours_in_a_function_says_why() -> None:
    """It may spare a start what it does not need; it may not hide a circle, which the tests above would show."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if not WITHOUT_REASON.search(text):
                continue
            for function in ast.walk(ast.parse(text)):
                if isinstance(function, ast.FunctionDef):
                    for node in ast.walk(function):
                        if isinstance(node, ast.ImportFrom):
                            said = WITHOUT_REASON.match(text.splitlines()[node.lineno - 1])
                            assert not said, f"{path}:{node.lineno}: without a reason"


def test_cores_import_no_ros() -> None:
    for package in CORES:
        for path in (ROOT / package).rglob("*.py"):
            if "nodes" not in path.parts:
                found = {name.partition(".")[0] for name, _ in imported(path)} & ROS
                assert not found, f"{path} imports {found}"


def test_cores_of_studies_import_haptic_sim_alone() -> None:
    for module, targets in arrows().items():
        if module.startswith(("haptic_study.design", "haptic_study.psychophysics")):
            for target in targets:
                own = target.startswith(("haptic_study.design", "haptic_study.psychophysics"))
                assert own or target.partition(".")[0] == "haptic_sim", f"{module} imports {target}"


def test_launch_and_test_are_no_packages() -> None:
    for folder in ("launch", "test"):
        assert not (ROOT / folder / "__init__.py").exists()
