"""The documentation site: pages that are made from the sources, and a whole build with warnings as errors."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from conftest import ROOT, answer

sys.path.append(str(ROOT / "docs" / "extensions"))

import other_pages
import python_pages

from haptic_bench.catalogue import catalogue
from haptic_bench.commands import command_line
from haptic_sim.installed import PACKAGE_NAMES


def test_each_package_has_a_page() -> None:
    assert sorted(python_pages.PACKAGES) == sorted(PACKAGE_NAMES)


def test_a_docstring_becomes_markdown() -> None:
    text = python_pages.markdown(
        "Distance of *two* bodies, |x| < 1.\n\n    d = |x| - r\n\nArgs:\n    a: first `body_a`.\n    b: second,\n"
        "        of two.\n\nRaises:\n    ValueError: there is none.\n"
    )
    assert text.splitlines() == [
        "Distance of \\*two\\* bodies, \\|x\\| \\< 1.",
        "",
        "    d = |x| - r",
        "",
        "",
        "**Args**",
        "",
        "- `a`: first `body_a`.",
        "- `b`: second,",
        "  of two.",
        "",
        "",
        "**Raises**",
        "",
        "- `ValueError`: there is none.",
    ]


@pytest.mark.exhaustive
def test_every_public_name_with_a_docstring_is_in_the_python_pages() -> None:
    pages = dict(python_pages.python_pages(ROOT))
    for name in ("World", "Loop", "load_trial", "load_study", "HapticsError"):
        assert f"[`{name}`](" in pages["python/index"]
    assert "{py:function} load(path: " in pages["python/haptic_sim"]
    assert "`from haptic_sim import World`" in pages["python/haptic_sim"]
    assert "{py:method} step(" in pages["python/haptic_sim"]
    assert "-> haptic_sim.simulation.World" in pages["python/haptic_sim"]
    assert r"impulse of moment on B, (contacts, 3) \[N m s\]" in pages["python/haptic_sim.contact"]


def test_messages_have_the_meaning_of_each_field() -> None:
    page = other_pages.message_page(ROOT)
    for path in (ROOT / "msg").glob("*.msg"):
        assert f"## {path.stem}\n" in page
    assert "| `geometry_msgs/Vector3` | `normal` | unit, from A to B |" in page


def test_each_command_and_each_experiment_has_its_part() -> None:
    page = other_pages.command_page(*command_line.parsers())
    for name in ("run", "study", "passivity", "docs"):
        assert f"## {name}\n" in page
    experiments = other_pages.experiment_page(ROOT)
    for name in catalogue():
        assert f"## {name}\n" in experiments


def test_an_experiment_shows_its_picture_and_its_claims(tmp_path: Path) -> None:
    figures = tmp_path / "bicycle" / "figures"
    figures.mkdir(parents=True)
    for name in ("energy.svg", "scene_motion.svg"):
        (figures / name).write_text("<svg/>")
    claims = [{"statement": "it <stays>", "holds": True}, {"statement": "it falls", "holds": False}]
    (figures.parent / "summary.json").write_text(json.dumps({"status": "done", "claims": claims}))
    page = other_pages.experiment_page(ROOT, tmp_path)
    assert "](pictures/bicycle.svg)" in page
    assert other_pages.picture_of(figures.parent) == figures / "scene_motion.svg"
    assert "| it \\<stays> | holds |\n| it falls | **does not hold** |" in page
    assert page.count("Not run for this page.") == len(catalogue()) - 1


def test_equations_lead_to_the_lines_that_cite_them() -> None:
    pages = dict(other_pages.source_pages(ROOT))
    assert set(pages) == {"sources/thesis", "sources/igms", "sources/faulring", "sources/yun", "sources/brown"}
    row = next(line for line in pages["sources/thesis"].splitlines() if line.startswith("| 4.36 |"))
    place, _, number = row.split("`")[1].rpartition(":")
    assert "4.36" in (ROOT / place).read_text(encoding="utf-8").splitlines()[int(number) - 1]
    assert "KE = KE0 - 1/2" in pages["sources/thesis"], "the corrections"


def test_every_page_of_docs_is_in_the_table_of_contents() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").splitlines()
    for path in (ROOT / "docs").glob("*.md"):
        assert path.stem == "index" or path.stem in index, f"docs/index.md: {path.stem} is missing"


@pytest.mark.exhaustive
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    said = answer("docs", str(tmp_path / "site"))
    assert said.status == 0, said.err
    assert said.out.strip() == str(tmp_path / "site" / "index.html")
    for page in ("index", "contact", "generated/python/haptic_sim", "generated/sources/thesis", "generated/messages"):
        assert (tmp_path / "site" / f"{page}.html").is_file()
