"""One page of many trials: a picture, what they are, their claims, and links to their reports."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from haptic_bench.catalogue import headline
from haptic_bench.recording.summary import read_summary
from haptic_bench.report.html import page
from haptic_bench.report.pages import HALT
from haptic_sim.parameters import ParameterError

TITLE = "Experiments of haptics"
PICTURES = ("scene_motion.svg", "scene_end.svg")  # the first that there is; else any figure
_VERDICTS = {True: ("✓", "holds", "hold"), False: ("✗", "fails", "do not"), None: ("\N{EN DASH}", "open", "undecided")}


def write_gallery(directory: Path, experiments: Mapping[str, Path]) -> Path:
    """Write `index.html` into a directory that holds a trial's directory for each experiment; returns the page.

    The page holds its pictures itself. An experiment whose trial is not there, or has failed, says so.

    Args:
        directory: of the gallery.
        experiments: files of the experiments by name.
    """
    cards = "\n".join(_card(directory / name, name, path) for name, path in experiments.items())
    head = f'<header>\n<h1>{escape(TITLE)}</h1>\n<p class="soft">{len(experiments)} experiments</p>\n{HALT}\n</header>'
    target = directory / "index.html"
    target.write_text(page(TITLE, [head, f'<div class="gallery">\n{cards}\n</div>']), encoding="utf-8")
    return target


def _card(directory: Path, name: str, path: Path) -> str:
    """Card of one experiment on the page."""
    title, source = headline(path)
    try:
        summary = read_summary(directory)
    except ParameterError:
        summary = {"status": "not run"}
    heading = f"{escape(title or name)}"
    if (directory / "report.html").is_file():
        heading = f'<a href="{escape(name)}/report.html">{heading}</a>'
    status = str(summary.get("status", "unknown"))
    words = "" if status == "done" else f'<p class="notice">{escape(status)}: {escape(_reason(summary))}</p>'
    return (
        f'<figure class="card">\n{_picture(directory / "figures", title or name)}\n<h3>{heading}</h3>\n'
        f'<p class="soft"><code>{escape(name)}</code>{" · " + escape(source) if source else ""}</p>\n'
        f"{words}{_claims(summary.get('claims'))}\n</figure>"
    )


def _reason(summary: Mapping[str, Any]) -> str:
    return str(summary.get("reason") or "no trial was recorded")


def _picture(folder: Path, title: str) -> str:
    """The scene in motion, which can be stopped; or the first figure: as data, as names within figures would meet."""
    found = [folder / name for name in PICTURES if (folder / name).is_file()] or sorted(folder.glob("*.svg"))
    if not found:
        return '<div class="nothing">no picture</div>'
    if found[0].name in PICTURES:
        svg = found[0].read_text(encoding="utf-8")
        return svg[svg.index("<svg") :].replace('aria-label="', f'aria-label="{escape(title)}: ', 1)
    data = base64.b64encode(found[0].read_bytes()).decode("ascii")
    return (
        f'<img alt="{escape(title)}: {escape(found[0].stem.replace("_", " "))}" src="data:image/svg+xml;base64,{data}">'
    )


def _claims(claims: Any) -> str:
    """The claims with their verdicts, folded below how many hold."""
    known: Sequence[Mapping[str, Any]] = [claim for claim in claims or () if isinstance(claim, Mapping)]
    if not known:
        return '<p class="soft">no claims</p>'
    found = [claim.get("holds") for claim in known]
    words = [
        f'<span class="verdict {kind}">{found.count(holds)} {word}</span>'
        for holds, (_, kind, word) in _VERDICTS.items()
        if holds in found
    ]
    rows = []
    for claim in known:
        mark, kind, _ = _VERDICTS[claim.get("holds")]
        rows.append(f'<li><span class="verdict {kind}">{mark}</span> {escape(str(claim.get("statement", "")))}</li>')
    return f"<details><summary>claims: {', '.join(words)}</summary>\n<ul>\n{''.join(rows)}\n</ul></details>"
