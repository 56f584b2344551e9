"""The tutorial's files and commands, in their order, give the output that it shows."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from conftest import DEADLINE, ROOT, answer, python

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*\w)")
SPEED = re.compile(r"\d+ a second")


def run(command: str, folder: Path) -> str:
    """What a command of the page prints."""
    if not command.startswith("./haptics "):
        shell = ["bash", "-c", command]
        return subprocess.run(shell, cwd=folder, capture_output=True, text=True, timeout=DEADLINE).stdout
    arguments = shlex.split(command)[1:]
    program = arguments[2:] if arguments[:2] == ["shell", "python"] else ["-m", "haptic_bench", *arguments]
    done = python(*program, cwd=folder)
    return done.out + done.err


def same(found: str, shown: str) -> bool:
    """Whether a line is the one that is shown: the same words, the same numbers but for rounding."""
    found, shown = (SPEED.sub("N a second", line.rstrip()) for line in (found, shown))
    if NUMBER.sub("#", found) != NUMBER.sub("#", shown):
        return False
    pairs = zip(NUMBER.findall(found), NUMBER.findall(shown), strict=True)
    return all(float(a) == pytest.approx(float(b), rel=1e-3, abs=1e-8) for a, b in pairs)


def agrees(found: list[str], shown: list[str]) -> bool:
    """Whether lines are those that are shown, where `...` stands for any number of them."""
    if not shown:
        return not found
    if shown[0] == "...":
        return any(agrees(found[i:], shown[1:]) for i in range(len(found) + 1))
    return bool(found) and same(found[0], shown[0]) and agrees(found[1:], shown[1:])


@pytest.mark.parametrize(
    ("found", "shown", "right"),
    [
        (["a 1.0", "b"], ["a 1.0001", "b"], True),
        (["a 1.0", "b"], ["a 1.1", "b"], False),
        (["a 1.0", "b"], ["...", "b"], True),
        (["a 1.0", "b"], ["...", "a"], False),
        (["done, 7 ticks (offline, 12 a second)"], ["done, 7 ticks (offline, 99 a second)"], True),
        (["one_0.mcap: 7"], ["one_1.mcap: 7"], False),
        ([], ["a"], False),
    ],
)
def test_lines_are_compared(found: list[str], shown: list[str], right: bool) -> None:
    assert agrees(found, shown) == right


@pytest.mark.exhaustive
@pytest.mark.graph
def test_every_command_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of each command is a process, as is the graph; the others need none."""
    monkeypatch.chdir(tmp_path)
    seen: set[str] = set()
    count = 0
    for language, name, content in BLOCKS:
        if name:
            (tmp_path / name).write_text(content)
        if language != "console":
            continue
        if "lockstep" in content and importlib.util.find_spec("rclpy") is None:
            continue
        for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines()
            kind = " ".join(command.split()[:2])
            if command.startswith("./haptics") and kind in seen and "lockstep" not in command:
                done = answer(*shlex.split(command)[1:])
                found = (done.out + done.err).splitlines()
            else:
                found = run(command, tmp_path).splitlines()
            seen.add(kind)
            assert agrees(found, shown), f"$ {command}\n" + "\n".join(found)
            count += 1
    assert count > 15
    assert (tmp_path / "push.svg").is_file()
