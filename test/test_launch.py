"""The launch tests in launch/, each in a process of its own, as launch_testing wants it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).resolve().parent / "launch").glob("test_*.launch.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_launch(file: Path) -> None:
    if find_spec("launch_testing") is None:
        pytest.skip("launch_testing is not installed (comes with ROS 2's own packages)")
    if not installed("driver"):
        pytest.skip("the nodes are not installed (colcon build does that)")
    run = subprocess.run(
        [sys.executable, "-m", "launch_testing.launch_test", str(file)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr


def installed(executable: str) -> bool:
    """Whether launch would find an executable of the package."""
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    return any(Path(prefix, "lib", "haptics", executable).is_file() for prefix in prefixes)
