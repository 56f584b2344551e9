"""Parts that are installed as users install them: by pip into a fresh environment, by colcon into a workspace."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

tomllib = pytest.importorskip("tomllib")

pytestmark = pytest.mark.exhaustive

OWN = ROOT / "examples" / "own_parts"
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__")
SETUP = """
from setuptools import find_packages, setup

setup(
    name="lab_parts",
    version="0.1.0",
    packages=find_packages(),
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/lab_parts"]),
        ("share/lab_parts", ["package.xml"]),
    ],
    entry_points={entry_points},
)
"""
PACKAGE = """<?xml version="1.0"?>
<package format="3">
  <name>lab_parts</name><version>0.1.0</version><description>Parts</description>
  <maintainer email="lab@lab.example">Lab</maintainer><license>Apache-2.0</license>
  <exec_depend>haptics</exec_depend><export><build_type>ament_python</build_type></export>
</package>
"""


def listed(python: Path, environment: dict[str, str], folder: Path) -> dict[str, Any]:
    """The controllers that a program finds, which must be ours and those of the example package."""
    command = [str(python), "-m", "haptic_bench", "list", "controllers", "--json"]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return {one["name"]: one for one in json.loads(done.stdout)}


def test_pip_installs_into_a_fresh_environment(tmp_path: Path) -> None:
    """Nothing of the checkout but the libraries that both need; listed, run and verified."""
    fresh = tmp_path / "fresh"
    venv.create(fresh, symlinks=True)
    python = fresh / "bin" / "python"
    purelib = Path(sysconfig.get_path("purelib", vars={"base": str(fresh), "platbase": str(fresh)}))
    (purelib / "libraries.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    environment = {name: value for name, value in os.environ.items() if not name.endswith("PYTHONPATH")}
    environment["HAPTICS_CACHE_DIR"] = os.environ.get("HAPTICS_CACHE_DIR", str(ROOT / ".haptics" / "cache"))
    for source in (ROOT, OWN):
        copy = shutil.copytree(source, tmp_path / f"of_{source.name}", ignore=LEFT_OUT)
        options = ("install", "-q", "--no-deps", "--no-build-isolation", "--prefix", str(fresh), str(copy))
        subprocess.run([sys.executable, "-m", "pip", *options], check=True, env=environment)
    found = listed(python, environment, tmp_path)
    assert found["saturating_spring"]["package"] == "lab_parts" and found["direct"]["package"] == "haptics"
    where = "import haptic_sim, lab_parts; print(haptic_sim.__file__, lab_parts.__file__)"
    done = subprocess.run([python, "-c", where], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.count(str(fresh)) == 2
    for command in (("run", str(OWN / "own_wall.yaml"), "--duration", "0.05", "--mode", "offline", "--out", "trial"),
                    ("replay", "trial", "--verify")):  # fmt: skip
        program = [str(python), "-m", "haptic_bench", *command]
        done = subprocess.run(program, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "identical" in done.stdout


def test_colcon_installs_into_a_workspace(tmp_path: Path) -> None:
    """Ours by ament_cmake_python, whose metadata come from setup.cfg; the example as an ament_python package.

    Messages are not compiled, which is the matter of the environment's preparation; their definitions are installed.
    """
    ours, theirs = tmp_path / "src" / "haptics", tmp_path / "src" / "lab_parts"
    shutil.copytree(ROOT, ours, ignore=LEFT_OUT)
    shutil.rmtree(ours / "examples" / "own_parts")  # another package of the same name in the workspace
    cmake = (ours / "CMakeLists.txt").read_text()
    cmake = re.sub(r"rosidl_generate_interfaces\([^)]*\)", "install(DIRECTORY msg DESTINATION share/haptics)", cmake)
    cmake = re.sub(r"ament_export_dependencies\([^)]*\)", "", cmake)
    cmake = re.sub(r"find_package\((?!ament_cmake)\w+ REQUIRED\)", "", cmake)
    (ours / "CMakeLists.txt").write_text(cmake)
    shutil.copytree(OWN, theirs, ignore=LEFT_OUT)
    registered = tomllib.loads((theirs / "pyproject.toml").read_text())["project"]["entry-points"]
    points = {group: [f"{name} = {value}" for name, value in one.items()] for group, one in registered.items()}
    (theirs / "pyproject.toml").unlink()
    (theirs / "setup.py").write_text(SETUP.format(entry_points=points))
    (theirs / "package.xml").write_text(PACKAGE)
    (theirs / "resource").mkdir()
    (theirs / "resource" / "lab_parts").touch()
    options = ("build", "--merge-install", "--cmake-args", "-GNinja", "-DBUILD_TESTING=OFF")
    definitions = (f"-DPython3_EXECUTABLE={sys.executable}",)
    command = [sys.executable, "-m", "colcon", *options, *definitions]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    packages = next((tmp_path / "install").glob("lib/python3*/site-packages"))
    environment = os.environ | {"PYTHONPATH": str(packages), "HAPTICS_PYTHONPATH": ""}
    found = listed(Path(sys.executable), environment, tmp_path)
    assert found["saturating_spring"] == {
        "name": "saturating_spring", "module": "lab_parts.controller", "package": "lab_parts", "version": "0.1.0"
    }  # fmt: skip
    assert found["direct"]["package"] == "haptics" and found["direct"]["version"] == "0.1.0"
    where = "import haptic_control; print(haptic_control.__file__)"
    done = subprocess.run([sys.executable, "-c", where], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert str(packages) in done.stdout
