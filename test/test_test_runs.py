"""Report at the end of a run of the tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

SECOND = """
from itertools import count
from pytest import mark

runs = count()


@mark.flaky(reruns=2)
def test_that_passes_when_it_is_run_again():
    assert next(runs) == 1
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        ((), 0, "RERUN test_second.py::test_that_passes_when_it_is_run_again"),
        (("-p", "no:rerunfailures"), 1, "FAILED test_second.py::test_that_passes_when_it_is_run_again"),
    ],
    ids=["rerun", "once"],
)
def test_a_test_that_needed_another_run_is_named(
    tmp_path: Path, options: tuple[str, ...], status: int, said: str
) -> None:
    """With the options of this project, also where nothing is run again."""
    pytest.importorskip("pytest_rerunfailures")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "test_second.py").write_text(SECOND)
    program = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "test_second.py"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout.splitlines() or f"{said} " in done.stdout
