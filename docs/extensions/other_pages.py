"""Pages of messages, command line and experiments, and of the sources: which line of code cites which equation."""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from haptic_bench.catalogue import catalogue

SOURCES = {
    "THESIS": (
        "D. Constantinescu, *Efficient and Transparent Haptic Rendering of Rigid Body Motion with Constraints*, "
        "PhD thesis, The University of British Columbia, 2004"
    ),
    "IGMS": (
        "W. Son, K. Kim, N. M. Amato and J. C. Trinkle, *A Generalized Framework for Interactive Dynamic Simulation "
        "for MultiRigid Bodies*"
    ),
    "FAULRING": (
        "E. L. Faulring, K. M. Lynch, J. E. Colgate and M. A. Peshkin, *Haptic Display of Constrained Dynamic Systems "
        "via Admittance Displays*, 2007"
    ),
    "YUN": (
        "X. Yun and N. Sarkar, *Unified Formulation of Robotic Systems with Holonomic and Nonholonomic "
        "Constraints*, 1998"
    ),
    "BROWN": "J. M. Brown and J. E. Colgate, *Minimum Mass for Haptic Display Simulations*, 1998",
}
"""The works that are implemented, by the names that comments in the code use."""
PICTURES = "pictures"
_PLACE = r"""
    \((?:[A-Z]\.?)?\d+[^)]*\)                                  # (4.36), (A.3)
    | [A-Z]?[\d.]+\d                                           # 4.5.2, D.1
    | [IVX]+-[A-Z][\w-]*                                       # III-F-4
    | (?:figures?|Table|algorithm|Appendix|errata)\ [\w.]+
"""
_CITATION = re.compile(rf"\b({'|'.join(SOURCES)})\b[ ,]*({_PLACE})?", re.X)
_CODE = ("haptic_sim", "haptic_control", "haptic_drivers", "haptic_robot", "haptic_experiments", "haptic_bench")


def message_page(root: Path) -> str:
    """The messages, as their files say."""
    lines = ["# Messages", "", "Interfaces of the package `haptics`. Quantities are in SI units.", ""]
    for path in sorted((root / "msg").glob("*.msg")):
        comments: list[str] = []
        rows: list[str] = []
        for line in path.read_text(encoding="utf-8").splitlines():
            code, _, comment = line.partition("#")
            if code.strip():
                kind, _, name = code.strip().partition(" ")
                rows.append(f"| `{kind}` | `{name.strip()}` | {_cell(comment.strip())} |")
            elif comment and rows:
                rows[-1] = f"{rows[-1][:-2]} {_cell(comment.strip())} |"
            elif comment:
                comments.append(_cell(comment.strip()))
        lines += [f"## {path.stem}", "", " ".join(comments), "", "| type | field | meaning |", "| --- | --- | --- |"]
        lines += [*rows, ""]
    return "\n".join(lines) + "\n"


def command_page(parser: argparse.ArgumentParser, commands: Mapping[str, argparse.ArgumentParser]) -> str:
    """The command line, as its help says."""
    lines = ["# Command line", "", f"```text\n{parser.format_help().strip()}\n```", ""]
    for name, command in commands.items():
        lines += [f"## {name}", "", f"```text\n{command.format_help().strip()}\n```", ""]
    return "\n".join(lines) + "\n"


def experiment_page(root: Path, gallery: Path | None = None) -> str:
    """Each experiment: what it is, where it comes from, what it shows, and its claims.

    Args:
        root: of the checkout.
        gallery: directory that `haptics gallery` wrote, for pictures and claims; None: only the pictures of the docs.
    """
    lines = [
        "# All experiments",
        "",
        "`./haptics gallery DIR` runs them all, and `./haptics docs --gallery DIR` shows here what came out.",
        "",
    ]
    for name, path in catalogue().items():
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
        title = str(settings.get("title", name))
        lines += [f"## {name}", "", f"**{_cell(title)}**", ""]
        lines += [f"Source: {_cell(settings['source'])}.", ""] if settings.get("source") else []
        kept = root / "docs" / "images" / f"{name}.svg"
        if picture := gallery and picture_of(gallery / name):
            lines += [f"![{_cell(title)}]({PICTURES}/{name}{picture.suffix})", ""]
        elif kept.is_file():
            lines += [f"![{_cell(title)}](../images/{kept.name})", ""]
        lines += [_cell(str(settings.get("description", "")).strip()), "", f"```text\n./haptics run {name}\n```", ""]
        if gallery:
            lines += [*_outcome(gallery / name), ""]
    return "\n".join(lines) + "\n"


def picture_of(trial: Path) -> Path | None:
    """The animation of a trial, else its last scene, else any figure; None: it has none."""
    figures = trial / "figures"
    first = [figures / name for name in ("scene_motion.svg", "scene_end.svg")]
    return next((path for path in [*first, *sorted(figures.glob("*.svg"))] if path.is_file()), None)


def _outcome(trial: Path) -> list[str]:
    """The claims of a trial with their verdicts; why there are none where it has failed or was not run."""
    if not (trial / "summary.json").is_file():
        return ["Not run for this page."]
    summary = json.loads((trial / "summary.json").read_text(encoding="utf-8"))
    if summary.get("status") != "done":
        return [f"The run {_cell(str(summary.get('status')))}: {_cell(str(summary.get('reason')))}"]
    verdicts = {True: "holds", False: "**does not hold**", None: "undecided"}
    rows = [f"| {_cell(one['statement'])} | {verdicts[one.get('holds')]} |" for one in summary.get("claims") or ()]
    return ["| claim | in this run |", "| --- | --- |", *rows] if rows else []


def source_pages(root: Path) -> Iterator[tuple[str, str]]:
    """A page for each work: what of it is implemented where, and the corrections."""
    places: dict[str, dict[str, list[str]]] = {name: defaultdict(list) for name in SOURCES}
    for package in _CODE:
        for path in sorted((root / package).rglob("*.py")):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                for name, what in _CITATION.findall(line):
                    if what and not what.startswith("errata"):
                        places[name][what.strip("().")].append(f"{path.relative_to(root)}:{number}")
    errata = _errata(root)
    for name, title in SOURCES.items():
        lines = [f"# {name}", "", f"{title}.", "", "## Where it is in the code", ""]
        lines += ["| equation, section, figure | cited at |", "| --- | --- |"]
        for what, where in sorted(places[name].items(), key=lambda one: _order(one[0])):
            lines.append(f"| {what} | {', '.join(f'`{one}`' for one in where)} |")
        lines += ["", "## Corrections", "", errata[name], ""]
        yield f"sources/{name.lower()}", "\n".join(lines)


def _errata(root: Path) -> dict[str, str]:
    """The list of misprints, by source; links lead out of the folder of the generated pages."""
    text = (root / "docs" / "errata.md").read_text(encoding="utf-8")
    found = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    return {name: found[name].strip().replace("](", "](../../") for name in SOURCES}


def _order(what: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.findall(r"\d+|\D+", what)]


def _cell(text: str) -> str:
    return re.sub(r"([<*\[\]|$])", r"\\\1", text)
