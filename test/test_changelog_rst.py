"""CHANGELOG.rst, as it is made from CHANGELOG.md: read by the tools of ROS (REP 132)."""

from __future__ import annotations

import datetime
import sys

import pytest
from conftest import ROOT

sys.path.append(str(ROOT / "docs" / "extensions"))

import changelog_rst

SAMPLE = """# Changelog

Numbers may change.

## 0.2.0 (2027-01-31)

- Faster by *half*, `a_b` and [a page](docs/x.md); code `that goes
  on` in a name with_underscore.
- Second.

## 0.1.0 (2026-12-01)

- First.
"""


def read(text: str) -> object:
    """As catkin_pkg reads it, without complaints of docutils."""
    changelog = pytest.importorskip("catkin_pkg.changelog", reason="catkin_pkg is not installed")
    found = changelog.Changelog("haptics")
    changelog.populate_changelog_from_rst(found, text)
    return found


def test_versions_dates_and_entries_are_found() -> None:
    found = read(changelog_rst.rst(SAMPLE))
    versions = {version: (date, content) for version, date, content in found.foreach_version()}  # type: ignore[attr-defined]
    assert {version: date for version, (date, _) in versions.items()} == {
        "0.2.0": datetime.datetime(2027, 1, 31),
        "0.1.0": datetime.datetime(2026, 12, 1),
    }
    assert "with_underscore" in str(versions["0.2.0"][1][0])
    assert [len(content[0].bullets) for _, content in versions.values()] == [1, 2]


def test_the_changelog_becomes_valid_rst(capsys: pytest.CaptureFixture[str]) -> None:
    text = changelog_rst.rst((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert text.startswith("^") and "\nForthcoming\n-----------\n- " in text
    read(text)
    assert "WARNING" not in capsys.readouterr().err
