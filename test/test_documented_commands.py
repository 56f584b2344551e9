"""The commands that the pages show: each is one that the program takes; those that end by themselves are run."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from conftest import ROOT, python

from haptic_bench.commands import command_line

PAGES = {  # that of the tutorial has a test of its own
    path.name: path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
    if path.stem != "tutorial"
}
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^(?:\$ )?(?:[A-Z]+=\S+ )*\./haptics(?: (.*))?$", re.MULTILINE)
MENTIONED = re.compile(r"`\./haptics ([^`]+)`")
REMARK = re.compile(r"(?:\s{2,}|\s+#\s).*$")
OPTIONAL = re.compile(r"\s\[(?:(-[^\]]*)|[A-Z]+)\]")
ELSEWHERE = {"export", "study", "shell", "test", "doctor", "docs", "gallery", "benchmark", "campaign"}
"""Commands with tests of their own; the last four take minutes and more."""
ENDLESS = {"start", "view", "point"}
OF_THE_READER = re.compile(
    r"\b(DIR|DIRECTORY|NAME|FILE|DEVICE|STUDY)\b|inverse3|\b\w+\.(urdf|xacro|json)|realtime|--namespace|--side|pointer|--scheduler"
    r"|\b(own|wrong|felt|my_peg|left|right)\.yaml|own_parts|--view"
)
"""Placeholders, files and hardware of the reader, and another command beside it."""


def commands(text: str) -> list[str]:
    """The command lines of a page, without the remarks behind them."""
    found = [line for block in BLOCK.findall(text) for line in SHOWN.findall(re.sub(r"\\\n *", "", block))]
    plain = [OPTIONAL.sub(r" \1", f" {REMARK.sub('', line)}").rstrip(" &").strip() for line in found]
    return [line for line in plain if line and "..." not in line and line.split()[0] != "test"]


def ended(text: str) -> list[str]:
    """Those that need nothing of the reader's, and end by themselves."""
    own = [line for line in commands(text) if line.split()[0] not in ELSEWHERE | ENDLESS]
    return list(dict.fromkeys(line for line in own if not OF_THE_READER.search(line)))


def test_commands_are_found_on_a_page() -> None:
    text = (
        "`./haptics list NAME`\n```text\n./haptics run a --set b=[1,2] [--quiet]   # why\n"
        "$ ./haptics gallery [NAME]\nno\n"
        "A=1 ./haptics view &\n./haptics start a \\\n  --device b    until it is stopped\n```\n"
    )
    assert commands(text) == ["run a --set b=[1,2] --quiet", "gallery", "view", "start a --device b"]


@pytest.mark.parametrize("page", sorted(PAGES))
def test_the_program_takes_each_command(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One that is mentioned in a sentence may lack arguments."""
    mentioned = [one for one in MENTIONED.findall(PAGES[page]) if not one.startswith(("test", "COMMAND"))]
    for line in [*commands(PAGES[page]), *mentioned]:
        try:
            command_line.parse([one for one in shlex.split(OPTIONAL.sub(r" \1", line)) if one != "..."])
        except SystemExit as end:
            said = capsys.readouterr().err
            assert not end.code or (line in mentioned and re.search("are required|is missing", said)), f"{line}: {said}"


@pytest.mark.exhaustive
@pytest.mark.graph
@pytest.mark.parametrize("page", sorted(name for name, text in PAGES.items() if ended(text)))
def test_each_command_that_ends_by_itself_ends_well(page: str, tmp_path: Path) -> None:
    """But for those of which the page says that they fail."""
    for folder in ("config", "examples"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    failing = [line for line in PAGES[page].splitlines() if "# fails" in line]
    for line in ended(PAGES[page]):
        arguments = shlex.split(line)
        if arguments[0] == "run" and "--mode" not in arguments:
            arguments += ["--mode", "offline"]
        said = python("-m", "haptic_bench", *arguments, cwd=tmp_path)
        assert said.status == any(f"./haptics {line} " in one for one in failing), f"{line}: {said.out}{said.err}"
