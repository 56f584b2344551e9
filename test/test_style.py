"""The tree is clean to ruff and mypy."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import ROOT

# Garbage collection takes a third of the time of mypy, which sets a threshold of its own. With this one it takes 640 MB
# instead of 480 MB.
MYPY = """
import gc
from unittest import mock
from mypy.main import main
gc.set_threshold(2_000_000, 30, 30)
with mock.patch("gc.set_threshold"):
    main()
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("-m", "ruff", "check", "."),
        ("-m", "ruff", "format", "--check", "."),
        pytest.param(("-c", MYPY), marks=pytest.mark.exhaustive),
    ],
    ids=["ruff-check", "ruff-format", "mypy"],
)
def test_tool(arguments: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
