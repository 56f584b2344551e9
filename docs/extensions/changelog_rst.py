"""CHANGELOG.rst (REP 132) from CHANGELOG.md: `python docs/extensions/changelog_rst.py > CHANGELOG.rst` at a release.

The file is made when a version is tagged and is not kept, so that CHANGELOG.md stays the only source.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PACKAGE = "haptics"
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def rst(markdown: str) -> str:
    """The changelog in reStructuredText.

    Args:
        markdown: sections `## Unreleased` and `## VERSION (YYYY-MM-DD)`, each with a list.
    """
    title = f"Changelog for package {PACKAGE}"
    lines = ["^" * len(title), title, "^" * len(title)]
    for line in markdown.splitlines():
        if line.startswith("## "):
            heading = line[3:].strip().replace("Unreleased", "Forthcoming")
            lines += ["", heading, "-" * len(heading)]
        elif line.startswith(("- ", "  ")) and len(lines) > 3:
            lines.append(_inline(line))
    return "\n".join(lines) + "\n"


def _inline(line: str) -> str:
    """A line of a list, with its code and without its links and emphasis."""
    parts = _LINK.sub(r"\1", line).split("`")
    text = [re.sub(r"([*|_\\])", r"\\\1", part) for part in parts[::2]]
    if len(parts) % 2 == 0:  # code that goes on in the next line
        return "'".join(re.sub(r"([*|_\\])", r"\\\1", part) for part in parts)
    return "".join(a + (f"``{b}``" if b else "") for a, b in zip(text, [*parts[1::2], ""], strict=True))


if __name__ == "__main__":
    sys.stdout.write(rst((Path(__file__).resolve().parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")))
