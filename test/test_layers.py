"""The two storeys: cores know nothing of ROS, and the stairs go one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

PACKAGES = ("haptic_sim", "haptic_control", "haptic_drivers", "haptic_bench")
MAY_IMPORT = {
    "haptic_sim": {"haptic_sim"},
    "haptic_control": {"haptic_control", "haptic_sim"},
    "haptic_drivers": {"haptic_drivers", "haptic_sim"},
    "haptic_bench": set(PACKAGES),
}


def imported(path: Path) -> set[str]:
    """First parts of the names of all modules that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add((node.module or "").partition(".")[0])
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_the_stairs_go_one_way(package: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
        ours = imported(path) & set(PACKAGES)
        assert ours <= MAY_IMPORT[package], f"{path} imports {ours - MAY_IMPORT[package]}"


def test_cores_import_no_ros() -> None:
    ros = {"rclpy", "haptics", "rcl_interfaces", "std_msgs", "geometry_msgs", "launch", "launch_ros"}
    for package in PACKAGES[:3]:
        for path in (ROOT / package).rglob("*.py"):
            if "nodes" not in path.parts:
                assert not imported(path) & ros, f"{path} imports {imported(path) & ros}"


def test_cores_run_where_ros_is_not_installed() -> None:
    code = (
        "import sys\n"
        "sys.modules['rclpy'] = None  # any import of it fails\n"
        "from haptic_bench.experiment import load\n"
        "from haptic_bench.samples import simulated\n"
        "print(len(simulated(load('corner_peg', duration=0.1)[0])))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "52"


def test_launch_and_test_are_no_packages() -> None:
    for folder in ("launch", "test"):
        assert not (ROOT / folder / "__init__.py").exists()
