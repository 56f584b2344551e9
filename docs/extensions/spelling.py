"""Checks the spelling of all pages: a word that neither the dictionary nor `docs/words.txt` has is a warning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from spellchecker import SpellChecker
from sphinx.application import Sphinx
from sphinx.util import logging

WORD = re.compile(r"(?<![\w./-])[A-Z]?[a-z]{3,}(?![\w/(=^]|\.\w)")
"""A word in small letters: neither an abbreviation, nor a name of code, a file or an address."""
NOT_PROSE = (nodes.literal, nodes.literal_block, nodes.raw, nodes.math, nodes.math_block, nodes.comment)


def prose(document: nodes.document) -> Iterator[nodes.Text]:
    """The texts of a page that are in words."""
    for text in document.findall(nodes.Text):
        node = text.parent
        while node is not None and not isinstance(node, NOT_PROSE) and "sig" not in node.get("classes", ()):
            node = node.parent
        if node is None:
            yield text


def check(app: Sphinx, document: nodes.document) -> None:
    """Warn of each word of a page that is not known, once."""
    known = app.config.spelling_known
    for text in prose(document):
        for word in dict.fromkeys(WORD.findall(text.astext())):
            if word.lower() not in known:
                known.add(word.lower())
                logging.getLogger(__name__).warning(
                    "%s: not in the dictionary; if it is right, add it to docs/words.txt", word, location=text.parent
                )


def prepare(app: Sphinx) -> None:
    """Load the dictionary of American English, and the words of the field."""
    words = (Path(app.srcdir) / "words.txt").read_text(encoding="utf-8").split()
    app.config.spelling_known = {*SpellChecker().word_frequency.words(), *words}


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", prepare)
    app.connect("doctree-read", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
