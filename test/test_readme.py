"""The front page: short, with a program that runs and links that lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import ROOT, python

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) < 150


def test_its_links_lead_to_files() -> None:
    for link in re.findall(r"\]\(([^)#]+)", TEXT):
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_its_program_runs(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    done = python("-c", program, cwd=tmp_path)
    assert done.status == 0, done.err
    assert done.out.startswith("0.2 [")
