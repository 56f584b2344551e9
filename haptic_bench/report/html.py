"""Parts of a page of HTML: sections, tables, texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import yaml

from haptic_sim.libyaml import DUMPER
from haptic_view import units


def page(title: str, parts: Iterable[str]) -> str:
    """A page of HTML that needs no other file, from its parts."""
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    body = "\n".join(part for part in parts if part)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def section(title: str, content: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>" if content else ""


def table(heads: Sequence[str], rows: Sequence[str], numbers: int = 0, *, stacked: bool = False) -> str:
    """A table of HTML cells, with `numbers` columns of numbers from the second on; empty without rows.

    On a narrow screen the cells of a `stacked` table are below each other.
    """
    if not rows:
        return ""
    kinds = ["number" if 0 < i <= numbers else "" for i in range(len(heads))]
    head = "".join(f'<th scope="col" class="{kind}">{cell}</th>' for kind, cell in zip(kinds, heads, strict=True))
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    kind = "scroll stacked" if stacked else "scroll"
    return f'<div class="{kind}"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def folded(title: str, table: str) -> str:
    return f"<details>\n<summary>{escape(title)}</summary>\n{table}\n</details>\n" if table else ""


def shown(text: str) -> str:
    """A text as HTML, its numbers as in print."""
    return escape(units.typeset(text))


def marked(text: str) -> str:
    """A text as HTML in which what stands between backticks is code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", shown(text))


def text(value: Any) -> str:
    """A value as YAML on one line, a text without quotes, and nothing as a dash."""
    match value:
        case None:
            return "\N{EN DASH}"
        case str():
            return value
    return yaml_of(value)


def yaml_of(value: Any) -> str:
    """A value as YAML on one line."""
    shown: str = yaml.dump(
        plain(value), Dumper=DUMPER, default_flow_style=True, sort_keys=False, allow_unicode=True, width=1 << 20
    )
    return shown.removesuffix("\n").removesuffix("\n...")


def plain(value: Any) -> Any:
    """A value of lists, mappings, texts and numbers of six digits."""
    match value:
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case float():
            return float(f"{value:.6g}")
    return value


def values_table(values: Mapping[str, Any]) -> str:
    return table(
        ["", "Value"],
        [
            f'<th scope="row"><code>{escape(str(name))}</code></th><td>{escape(text(value))}</td>'
            for name, value in values.items()
        ],
    )


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Facts, each with what it is about, in two columns."""
    lines = "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows)
    return f'<dl class="facts">\n{lines}\n</dl>'
