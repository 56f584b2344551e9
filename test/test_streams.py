"""Standard streams that are closed or full, paths that no system takes, and little memory: a sentence, and the right
status."""

from __future__ import annotations

import builtins
import json
import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import DEADLINE, PACKAGES, answer, python

from haptic_bench.set_up import failures
from haptic_bench.set_up.failures import LEAST_MEMORY

LIST, HELP = ("list",), ("view", "--help")
UNWRITABLE = "haptics: standard output cannot be written: {}\n"
CLOSED, FULL = UNWRITABLE.format("Bad file descriptor"), UNWRITABLE.format("No space left on device")


def shell(redirection: str, *arguments: str) -> tuple[int, str]:
    """Status and errors of `haptics ARGUMENTS` with redirected streams."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "haptic_bench", *arguments]
    environment = os.environ | {"PYTHONPATH": f"{PACKAGES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("redirection", "arguments", "status", "said"),
    [
        (">&-", LIST, 1, CLOSED),
        (">/dev/full", LIST, 1, FULL),
        (">/dev/full", HELP, 1, FULL),
        ("2>&-", ("list", "nosuch"), 2, ""),
        ("2>/dev/full", ("list", "nosuch"), 2, ""),
        ("2>/dev/full", ("validate", "arm_singularity"), 0, ""),  # which says what of its file is not simulated
        (">&- 2>&- <&-", LIST, 1, ""),
    ],
)
def test_output_that_cannot_be_written(redirection: str, arguments: tuple[str, ...], status: int, said: str) -> None:
    assert shell(redirection, *arguments) == (status, said)


@pytest.mark.exhaustive
def test_a_trial_whose_output_cannot_be_written_is_recorded(tmp_path: Path) -> None:
    settings = ("--mode", "offline", "--duration", "0.02", "--set", "analysis=trial", "--out", str(tmp_path / "out"))
    assert shell(">/dev/full", "run", "corner_peg", *settings) == (1, FULL)
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["status"] == "done"
    assert (tmp_path / "out" / "report.html").is_file()


def test_a_limit_on_the_memory_is_named(tmp_path: Path) -> None:
    limit = partial(resource.setrlimit, resource.RLIMIT_AS, (1 << 40, 1 << 40))
    code = "from haptic_bench.set_up import failures; print(failures.report(MemoryError('much')))"
    _, out, _ = python("-c", code, cwd=tmp_path, before=limit)
    assert out.startswith("MemoryError: much; memory is limited to 1048576 MiB (ulimit -v); details: ")


def test_an_error_is_said_without_details_where_these_need_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the system is that of a program, which then cannot be started: found by the campaign."""

    def full() -> str:
        raise MemoryError

    monkeypatch.setattr("platform.platform", full)
    monkeypatch.setattr(failures, "memory_limit", lambda: "")
    said = "MemoryError: much; no memory is left; no details could be written"
    assert failures.report(MemoryError("much")) == said


@pytest.mark.parametrize("kind", [MemoryError, TypeError])
def test_an_error_is_said_where_no_module_can_be_imported(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python itself says "'frame' object is not callable" there: found by the campaign."""
    importing = builtins.__import__

    def without_memory(name: str, *rest: Any) -> Any:
        if name in ("platform", "tempfile", "time", "traceback"):
            raise kind("'frame' object is not callable")
        return importing(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_memory)
    monkeypatch.setattr(failures, "memory_limit", lambda: "")
    said = failures.report(MemoryError("much"))
    monkeypatch.undo()
    assert said == "MemoryError: much; no memory is left; no details could be written"


@pytest.mark.parametrize("limit", [150_000, 400_000])  # [KiB] without which Python starts, and the libraries do not
def test_too_little_memory_to_run_is_said_before_a_library_ends_the_program(tmp_path: Path, limit: int) -> None:
    """OpenBLAS and the importer end the process in their own words, or in the middle of its own."""
    command = ["sh", "-c", f'ulimit -v {limit}; exec "$@"', "sh", sys.executable, "-m", "haptic_bench"]
    command += ["run", "corner_peg", "--mode", "offline", "--duration", "0.02", "--out", str(tmp_path / "out")]
    environment = os.environ | {"PYTHONPATH": f"{PACKAGES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE)
    said = f"memory is limited to {limit / 1024:.0f} MiB (ulimit -v): at least {LEAST_MEMORY} MiB are needed"
    assert (done.returncode, done.stderr) == (1, f"haptics: {said}; raise the limit\n")
    assert not (tmp_path / "out").exists()


def test_a_command_that_needs_more_memory_than_it_may_have_says_so(tmp_path: Path) -> None:
    """The limit is a real one, and so is the error."""
    limit = partial(resource.setrlimit, resource.RLIMIT_AS, (4 << 30, 4 << 30))
    code = (
        "import sys; from haptic_bench.commands import command_line; "
        "command_line._function = lambda name: lambda options: bytearray(1 << 34); "
        "sys.exit(command_line.main(['run', 'corner_peg']))"
    )
    status, out, said = python("-c", code, cwd=tmp_path, before=limit)
    assert (status, out) == (1, "")
    assert said.startswith("haptics: MemoryError; memory is limited to 4096 MiB (ulimit -v); details: "), said


LONG = "a" * 300
TAKES_A_PATH = (
    ("list", "{}.yaml"),
    ("validate", "{}.yaml"),
    ("run", "{}.yaml"),
    ("run", "corner_peg", "--mode", "offline", "--out", "{}"),
    ("run", "corner_peg", "--set", "contact.stiffness=[1,2]", "--mode", "offline", "--resume", "--out", "{}"),
    ("run", "coupling_wall", "--mode", "offline", "--set", "operator.type=file", "--set", "operator.path={}"),
    ("run", "mujoco_peg", "--mode", "offline", "--set", "scene.file={}.xml"),
    ("run", "ball_in_bowl", "--mode", "offline", "--set", "scene.file={}"),
    ("report", "{}"),
    ("replay", "{}"),
    ("repair", "{}"),
    ("view", "{}.yaml"),
    ("view", "{}"),
    ("start", "{}.yaml"),
    ("start", "corner_peg", "--device", "{}.yaml"),
    ("point", "{}", "--namespace", "a"),
    ("system", "{}"),
    ("identify", "{}.yaml"),
    ("identify", "inertial", "--free", "{}"),
    ("gallery", "{}"),
    ("trajectory", "{}"),
    ("passivity", "map", "--integrator", "3", "--out", "{}"),
    ("zwidth", "--rate", "1000", "--device-mass", "0.1", "--device-damping", "3", "--out", "{}"),
)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(LONG, id="name"),
        pytest.param("/".join(["b" * 200] * 30), id="path", marks=pytest.mark.exhaustive),
        pytest.param("loop", id="loop", marks=pytest.mark.exhaustive),
        pytest.param("loop/x", id="in"),
    ],
)
@pytest.mark.parametrize("arguments", TAKES_A_PATH, ids=lambda arguments: " ".join(arguments[:2]))
def test_a_path_that_no_system_takes_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for end in ("", ".yaml", ".xml"):
        Path(f"loop{end}").symlink_to(f"loop{end}")
    status, out, said = answer(*(one.format(path) for one in arguments))
    assert (status, out) == (2, ""), said
    assert said.startswith("haptics: ") and "Error" not in said and "Traceback" not in said
    assert path[:100] in said
