"""Writes the pages that are made from the sources, before Sphinx reads them, into `docs/generated/`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from other_pages import PICTURES, SOURCES, command_page, experiment_page, message_page, picture_of, source_pages
from python_pages import python_pages
from sphinx.application import Sphinx

from haptic_bench.commands import command_line

FOLDER = "generated"
GALLERY = "HAPTICS_GALLERY"
"""The variable with the directory of the gallery that is shown (haptic_bench/commands/docs.py)."""


def write(app: Sphinx) -> None:
    """All pages; a page that has not changed is left as it is, so that Sphinx does not read it again."""
    root, folder = Path(app.srcdir).parent, Path(app.srcdir, FOLDER)
    gallery = Path(os.environ[GALLERY]) if GALLERY in os.environ else None
    pages = {
        **dict(python_pages(root)),
        "messages": message_page(root),
        "command_line": command_page(*command_line.parsers()),
        "experiments": experiment_page(root, gallery),
        **dict(source_pages(root)),
        "sources/index": "# Sources\n\n```{toctree}\n" + "\n".join(map(str.lower, SOURCES)) + "\n```\n",
        **{name.lower(): _outside(root, name) for name in ("CONTRIBUTING", "CHANGELOG")},
    }
    kept = {folder / f"{name}.md" for name in pages}
    for path in folder.rglob("*.md") if folder.is_dir() else ():
        if path not in kept:
            path.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    shutil.rmtree(folder / PICTURES, ignore_errors=True)
    if gallery:
        (folder / PICTURES).mkdir()
        for trial in gallery.iterdir():
            if picture := picture_of(trial):
                shutil.copyfile(picture, folder / PICTURES / f"{trial.name}{picture.suffix}")


def _outside(root: Path, name: str) -> str:
    """A page of the checkout's root, with its links as they are from here."""
    text = (root / f"{name}.md").read_text(encoding="utf-8")
    return text.replace("](docs/", "](../").replace("](CONTRIBUTING.md", "](contributing.md")


def lead_inside(app: Sphinx, page: str, source: list[str]) -> None:
    """Links to texts beside `docs/` lead to their pages."""
    if not page.startswith(FOLDER):
        source[0] = source[0].replace("](../CONTRIBUTING.md", f"]({FOLDER}/contributing.md")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write)
    app.connect("source-read", lead_inside)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
