"""Private English stays out: phrases that docs/style.md replaces by terms of the field."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

STYLE = ROOT / "docs" / "style.md"
SUFFIXES = {".py", ".md", ".yaml", ".msg", ".html", ".js"}


def phrases() -> list[str]:
    """The left column of the table "instead of | write", but for examples of whole sentences."""
    rows = STYLE.read_text(encoding="utf-8").partition("| instead of | write |")[2].partition("\n\n")[0].splitlines()
    left = [row.split("|")[1].strip() for row in rows[2:]]
    return [one for one in left if len(one) < 32 and one != "as it should be"]


def texts() -> list[Path]:
    folders = ["config", "docs", "examples", "launch", "msg", *(path.name for path in ROOT.glob("haptic_*"))]
    found = [path for name in folders for path in (ROOT / name).rglob("*") if path.suffix in SUFFIXES]
    return [*found, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def test_the_table_has_phrases() -> None:
    assert len(phrases()) >= 8


@pytest.mark.parametrize("phrase", phrases())
def test_no_text_has_a_phrase_that_style_replaces(phrase: str) -> None:
    pattern = re.compile(r"\s+".join(map(re.escape, phrase.split())), re.IGNORECASE)
    found = [str(path) for path in texts() if path != STYLE and pattern.search(path.read_text(encoding="utf-8"))]
    assert not found, f"{phrase!r}: see docs/style.md"


def documented(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and docstring of each class and function."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
            yield node.lineno, text


def test_docstrings_are_sentences_and_not_references() -> None:
    packages = [path for folder in ROOT.glob("haptic_*") for path in folder.rglob("*.py")]
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in packages
        for line, text in documented(ast.parse(path.read_text(encoding="utf-8")))
        if text.startswith("See ")
    ]
    assert not found


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring: of modules, classes, functions, and of the constants and fields before them."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            for one in node.body:
                match one:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        yield one.lineno, text


@pytest.mark.parametrize("folder", ("haptic_*", "benchmarks", "campaign", "launch"))
def test_docstrings_name_what_they_describe(folder: str) -> None:
    """A docstring is shown without the name of its class: "Velocity of the hand [m/s]", not "Of the hand [m/s]"."""
    paths = [path for found in ROOT.glob(folder) for path in found.rglob("*.py")]
    lines = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in paths
        for line, text in docstrings(ast.parse(path.read_text(encoding="utf-8")))
        if text.startswith("Of ")
    ]
    assert paths and not lines, "begin with the quantity or the action: see docs/style.md"


def words_of(name: str) -> set[str]:
    """The words of an identifier."""
    return set(re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().strip("_").split("_"))


@pytest.mark.exhaustive
def test_no_name_has_a_word_that_style_keeps_out() -> None:
    """But for the key `connection.apart` of a device's data, which files of users have."""
    listed = re.search(r"that no name has: ([a-z, ]+)\.", STYLE.read_text(encoding="utf-8").replace("\n  ", " "))
    assert listed is not None
    words, found = set(listed[1].split(", ")), []
    assert {"told", "rub"} <= words
    folders = (*ROOT.glob("haptic_*"), ROOT / "benchmarks", ROOT / "campaign")
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        kept_out = words - {"apart"} if path.name == "haply_2diy.py" else words
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name) | ast.arg(arg=name):
                    if words_of(name) & kept_out:
                        found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {name}")
    assert not found
