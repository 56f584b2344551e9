"""The programs of docs/psychophysics.md run and print what the page shows."""

from __future__ import annotations

import re
from typing import Any

import pytest
from conftest import ROOT

PAGE = (ROOT / "docs" / "psychophysics.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.S)


def test_the_page_has_programs() -> None:
    assert len(PROGRAMS) == PAGE.count("```python") == 3


@pytest.mark.parametrize(("program", "output"), PROGRAMS)
def test_programs_print_what_the_page_shows(program: str, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(compile(program, "docs/psychophysics.md", "exec"), names)
    assert capsys.readouterr().out == output
