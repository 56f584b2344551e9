"""The report of a trial or a sweep: one self-contained page of HTML, and its figures as files."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from haptic_bench.analysis import health, ideal_device, units, vector
from haptic_bench.analysis.figures import NO_ENERGY, Curve, Figure, Panel, Style, port_figure, style_of
from haptic_bench.analysis.health import Health
from haptic_bench.experiment import Experiment, Trial, read_resolved
from haptic_bench.recording.samples import Samples
from haptic_bench.recording.summary import read_summary, runs_of
from haptic_bench.recording.world_record import read_tables
from haptic_bench.studies import Analysis, Quantity, analyse, study_of
from haptic_bench.view import drawing
from haptic_bench.view.recorded import SampledFrames
from haptic_control.activation import passivity_fact
from haptic_control.unilateral import UnilateralParameters
from haptic_control.virtual_coupling import VirtualCouplingParameters
from haptic_drivers.driver import NoDeviceParameters
from haptic_sim.contact.response import DeviceLimits
from haptic_sim.parameters import ParameterError
from haptic_sim.tool.tool_side import is_constrained

SOURCES = {
    "THESIS": "D. Constantinescu, Efficient and Transparent Haptic Rendering of Rigid Body Motion with "
    "Constraints, PhD thesis, Department of Electrical and Computer Engineering, The University of British "
    "Columbia, December 2004.",
    "IGMS": "W. Son, K. Kim, N. M. Amato and J. C. Trinkle, A Generalized Framework for Interactive Dynamic Simulation "
    "for MultiRigid Bodies, IEEE Transactions on Systems, Man, and Cybernetics, Part B: Cybernetics, vol. 34, no. 2, "
    "pp. 912\N{EN DASH}924, April 2004, doi:10.1109/TSMCB.2003.818434.",
    "FAULRING": "E. L. Faulring, K. M. Lynch, J. E. Colgate and M. A. Peshkin, Haptic Display of Constrained Dynamic "
    "Systems via Admittance Displays, IEEE Transactions on Robotics, vol. 23, no. 1, pp. 101\N{EN DASH}111, February "
    "2007.",
    "YUN": "X. Yun and N. Sarkar, Unified Formulation of Robotic Systems with Holonomic and Nonholonomic Constraints, "
    "IEEE Transactions on Robotics and Automation, vol. 14, no. 4, pp. 640\N{EN DASH}650, August 1998.",
    "BROWN": "J. M. Brown and J. E. Colgate, Minimum Mass for Haptic Display Simulations, Proceedings of the ASME "
    "Dynamic Systems and Control Division, DSC-Vol. 64, pp. 249\N{EN DASH}256, November 1998.",
}
_UNKNOWN = Quantity("")
SCENE = (
    "Blue: the virtual tool and its path; circle: hand of the device. Contacts with their normals and forces: green "
    "discs where they stick, orange diamonds and dashed arrows where they slide. Each picture has its own scale of "
    "forces. The command haptics view shows the trial on a page."
)
HALT = (
    '<label class="motion"><input type="checkbox" class="halt"> <span class="moves">hold still</span>'
    '<span class="rests">show the motion</span></label>'
)
"""What stops the motion of drawings on a page, or starts it for who wants less motion; see report.css."""
LABEL = 48  # characters of a run's label in figures and tables
COLUMNS = 5  # of numbers that a table has beside each other
DRAWN = 12  # runs in a figure


def write(directory: Path, analysis: Analysis | None = None, *, damage: str = "", kinds: Collection[str] = ()) -> Path:
    """Write `report.html` and `figures/*.svg` of a trial's or a sweep's directory, in place of those there.

    Reads `experiment.yaml`, `samples.csv`, `summary.json` and, after realtime, `timing.npz`; neither the bag nor ROS.
    The page of a sweep is about all its runs; each run's own page is written by its own call.

    Args:
        directory: of the trial or the sweep.
        analysis: that of the trial if it was just made; else its references are simulated again.
        damage: what of the trial's bag is not as it was recorded.
        kinds: of files that each figure is written to besides SVG, of `vector.KINDS`.

    Returns:
        The page's path.

    Raises:
        ParameterError: a file is missing or is not what it should be.
    """
    summary = read_summary(directory)
    if "sweep" in summary:
        page, figures = _sweep_page(runs_of(directory, summary), summary["sweep"])
    else:
        run = _Run.read(directory, "", summary)
        measured = health.read(directory, run.trial.experiment.rate, _mapping(summary.get("timing")))
        page, figures = _trial_page(run, directory, analysis, measured, damage)
    _write_figures(directory / "figures", figures, kinds)
    path, draft = directory / "report.html", directory / "report.html.draft"
    draft.write_text(page, encoding="utf-8")
    draft.replace(path)
    return path


@dataclass(frozen=True)
class _Run:
    """Content of a trial's directory; `label` distinguishes the trials of a sweep."""

    label: str
    trial: Trial
    samples: Samples | None
    summary: dict[str, Any]

    @classmethod
    def read(cls, directory: Path, label: str, summary: dict[str, Any]) -> _Run:
        trial = read_resolved(directory / "experiment.yaml")
        return cls(label, trial, _read_samples(directory / "samples.csv"), summary)

    @property
    def status(self) -> str:
        return str(self.summary.get("status", "unknown"))

    @property
    def metrics(self) -> Mapping[str, Any]:
        return _mapping(self.summary.get("metrics"))

    @property
    def claims(self) -> list[Mapping[str, Any]]:
        claims = self.summary.get("claims")
        return [_mapping(claim) for claim in claims] if isinstance(claims, list) else []


def _read_samples(path: Path) -> Samples | None:
    """The samples, None if there is not even one: a trial may have ended before its first tick."""
    try:
        with path.open(encoding="ascii") as file:
            rows = sum(1 for _, line in zip(range(2), file, strict=False) if line.strip())
        return Samples.read_csv(path).finite() if rows == 2 else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ParameterError([f"{path}: not the samples of a trial: {error}"]) from error


def _write_figures(folder: Path, figures: Iterable[Figure], kinds: Collection[str] = ()) -> None:
    folder.mkdir(exist_ok=True)
    for kind in vector.KINDS:
        for old in folder.glob(f"*.{kind}"):
            old.unlink()
    for figure in figures:
        for panel in figure.panels:
            for kind in ("svg", *(kind for kind in kinds if kind != "svg")):
                (folder / f"{panel.name}.{kind}").write_bytes(panel.document(kind))


def shown_of(figures: Iterable[Figure]) -> list[Figure]:
    """Figures without the panels that show nothing, and without those that have no other."""
    kept = [replace(figure, panels=[panel for panel in figure.panels if not panel.empty]) for figure in figures]
    return [figure for figure in kept if figure.panels or figure.table]


def write_page(directory: Path, title: str, figures: Iterable[Figure]) -> Path:
    """Write a page of figures alone, and each of their panels, into a directory that exists; returns the page."""
    shown = shown_of(figures)
    _write_figures(directory / "figures", shown)
    target = directory / "report.html"
    target.write_text(
        page(title, [f"<header>\n<h1>{escape(title)}</h1>\n</header>", _figures(shown)]), encoding="utf-8"
    )
    return target


# One trial


def _trial_page(
    run: _Run, directory: Path, analysis: Analysis | None, measured: Health | None, damage: str
) -> tuple[str, list[Figure]]:
    experiment, summary, samples = run.trial.experiment, run.summary, run.samples
    figures: list[Figure] = []
    scene: list[Figure] = []
    expected: Mapping[str, tuple[float, str]] = {}
    complete = run.status == "done"
    if samples is not None and len(samples) > 1:
        study = study_of(experiment)
        analysis = analysis or analyse(run.trial, samples, compare=complete)
        curve = Curve("this run", run.trial, samples, Style())
        scene = _scene(run.trial, samples, directory)
        device = ideal_device.figures(analysis, samples, study.quantity)
        figures = shown_of([*study.figures(run.trial, samples, analysis), *device, *_port([curve])])
        expected = study.expected(run.trial, analysis)
    notices = []
    if damage:
        notices.append(f"The recording is damaged: {damage}.")
        notices.append("What follows is from samples.csv, as it was written when the trial ended.")
    if not complete:
        reason = summary.get("reason")
        notices.append(f"This run was not completed ({run.status})" + (f": {reason}" if reason else "."))
        notices.append("Below is what was recorded; it is not compared with other variants.")
    notices += _texts(summary, "notices")
    if not figures:
        count = 0 if samples is None else len(samples)
        notices.append(f"No figures: {count} sample{'' if count == 1 else 's'} recorded, at least 2 are needed.")
    ticks = f"{0 if samples is None else len(samples)} ticks recorded"
    if isinstance(summary.get("wall_time"), int | float):
        ticks += f" in {summary['wall_time']:.3g} s"
    passivity = passivity_fact(experiment.controller, run.trial.coupled_inertias, experiment.rate)
    facts = [
        _method(experiment),
        f"operator: {experiment.operator.type}",
        *_rendering(experiment),
        *_scale(experiment),
        *filter(None, [passivity]),
        *_guard(_mapping(summary.get("guard"))),
        _seed(experiment),
        ticks,
    ]
    timing = _mapping(summary.get("timing"))
    clock = None if measured is None else health.drawn(measured)
    parts = [
        _header(experiment, [(str(summary.get("mode", "")), ""), (run.status, run.status)], facts),
        "".join(f'<p class="notice">{escape(notice)}</p>' for notice in notices),
        _figures(scene),
        _section("What was published, and what was found", _claims_table([run])),
        _section("Metrics", _metrics_table([run], expected)),
        _section("Figures", _figures(figures)),
        "" if measured is None else _health(measured, clock),
        _section("Said at the start", _list(_texts(summary, "notes"))),
        _section("Timing", _timing_table({name: timing[name] for name in timing if _is_other(name, measured)})),
        _provenance(experiment, summary),
        _footer([run]),
    ]
    shown = [*scene, *figures, *([] if clock is None else [clock])]
    return page(experiment.title or experiment.name, parts), shown


def _scene(trial: Trial, samples: Samples, directory: Path) -> list[Figure]:
    """The scene at its decisive moments, and in motion; nothing for a study without time, or without its files."""
    if study_of(trial.experiment).OFFLINE_ONLY or "contacts" not in samples.names:
        return []
    try:
        frames = SampledFrames(trial, samples, read_tables(directory))
    except (ParameterError, ValueError, OSError, KeyError):  # an older trial, or its tables are damaged
        return []
    if not frames.scene.shapes:
        return []
    last, contact, moves = len(frames.times) - 1, frames.first_contact(), drawing.moves(frames)
    moments = {"start": 0, "end": last} if moves else {"end": last}  # which are the same
    if contact is not None and 0 < contact < last:
        moments = {"start": 0, "first_contact": contact, "end": last}
    panels = [
        Panel(f"scene_{name}", name.replace("_", " "), drawing.picture(frames, index, name.replace("_", " ")))
        for name, index in moments.items()
    ]
    if moves:
        panels.append(Panel("scene_motion", "the whole trial", drawing.animation(frames)))
    return [Figure("The scene", SCENE, panels)]


# A sweep


def _sweep_page(folders: Mapping[str, Path], sweep: Mapping[str, Any]) -> tuple[str, list[Figure]]:
    keys = [str(key) for key in sweep["keys"]] if isinstance(sweep.get("keys"), list) else []
    if not folders:
        raise ParameterError(["summary.json: the sweep has no runs"])
    runs = [_Run.read(folder, _short(label, keys), read_summary(folder)) for label, folder in folders.items()]
    links = [quote(f"{folder.name}/report.html") for folder in folders.values()]
    experiment = runs[0].trial.experiment
    shown = [run for run in runs if run.samples is not None and len(run.samples) > 1]
    curves = [
        Curve(run.label, run.trial, run.samples, style_of(i)) for i, run in enumerate(shown) if run.samples is not None
    ]
    figures: list[Figure] = []
    chosen = (
        [curves[round(i * (len(curves) - 1) / (DRAWN - 1))] for i in range(DRAWN)] if len(curves) > DRAWN else curves
    )
    if curves:
        figures = shown_of([*study_of(experiment).sweep_figures(chosen), *_port(chosen)])
    notices = [
        f"{run.label} was not completed ({run.status})"
        + (f": {run.summary['reason']}" if run.summary.get("reason") else ".")
        for run in runs
        if run.status != "done"
    ]
    notices += [f"{run.label} has too few samples to be drawn." for run in runs if run not in shown]
    if len(chosen) < len(curves):
        drawn = f"The figures show {len(chosen)} of the {len(curves)} runs, evenly chosen in their order."
        figures = [replace(figure, caption=f"{figure.caption} {drawn}".strip()) for figure in figures]
    modes = dict.fromkeys(str(run.summary.get("mode", "")) for run in runs)
    states = dict.fromkeys(run.status for run in runs)
    parts = [
        _header(
            experiment,
            [
                (f"{len(runs)} runs", ""),
                *((mode, "") for mode in modes),
                *((state, state) for state in states),
            ],
            [f"sweep of {', '.join(keys)}", *_scale(experiment), "all numbers are in sweep.csv"],
        ),
        "".join(f'<p class="notice">{escape(notice)}</p>' for notice in notices),
        _section("Metrics", _metrics_table(runs, {}, links)),
        _section("What was published, and what was found", _claims_table(runs, links)),
        _section("Figures", _figures(figures)),
        _footer(runs),
    ]
    return page(f"{experiment.title or experiment.name}: sweep of {', '.join(keys)}", parts), figures


def _port(curves: Sequence[Curve]) -> list[Figure]:
    """The figure of the device's port, if there is something to see."""
    figure = port_figure(curves)
    return [] if figure is None else [figure]


def _short(label: str, keys: Sequence[str]) -> str:
    """A run's label without what the page's heading says."""
    for key in keys:
        label = label.replace(f"{key}=", "" if len(keys) == 1 else f"{key.rpartition('.')[2]}=")
    return label if len(label) <= LABEL else f"{label[: LABEL - 1]}\N{HORIZONTAL ELLIPSIS}"


# Parts of a page


def page(title: str, parts: Iterable[str]) -> str:
    """A page of HTML that needs no other file, from its parts."""
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    body = "\n".join(part for part in parts if part)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _header(experiment: Experiment, tags: Iterable[tuple[str, str]], facts: Iterable[str]) -> str:
    marks = "".join(f'<span class="tag {_word(kind)}">{escape(text)}</span>' for text, kind in tags if text)
    named = [f"<code>{escape(experiment.name)}</code>", *([escape(experiment.source)] if experiment.source else [])]
    description = f"<p>{_marked(experiment.description)}</p>\n" if experiment.description else ""
    return (
        f"<header>\n<h1>{escape(experiment.title or experiment.name)}</h1>\n"
        f'<p class="soft">{" · ".join(named)}</p>\n'
        f"{description}<p>{marks}</p>\n<p>{escape(' · '.join(facts))}</p>\n"
        "</header>"
    )


def _shown(text: str) -> str:
    """A text as HTML, its numbers as in print."""
    return escape(units.typeset(text))


def _marked(text: str) -> str:
    """A text as HTML in which what stands between backticks is code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", _shown(text))


def _method(experiment: Experiment) -> str:
    if is_constrained(experiment):
        constraint = experiment.constraint
        kept = f"stabilised with gamma {constraint.gamma:g}/s" if constraint.solver == "stabilised" else "projected"
        return f"exact constraints, {kept}, {constraint.integrator} integration"
    method = experiment.environment.method.replace("_", "-")
    text = f"{method} contact"
    if "impulse" in method and isinstance(experiment.device, DeviceLimits):
        rendering = experiment.device.impulse_rendering
        text += f", impulses {'in full' if rendering == 'full' else rendering}"
    if isinstance(experiment.controller, UnilateralParameters):
        text += " through the unilateral coupling"
    elif isinstance(experiment.controller, VirtualCouplingParameters):
        text += " through a virtual coupling"
    return text


def _rendering(experiment: Experiment) -> list[str]:
    """Text about the limits of the device's rendering."""
    device = experiment.device
    if isinstance(device, NoDeviceParameters):
        return []
    said = [f"device: {getattr(device, 'name', '') or device.type}"]
    if isinstance(device, DeviceLimits) and device.impulse_rendering == "full":
        said.append("device limitations ignored (device.impulse_rendering: full)")
    elif isinstance(device, DeviceLimits):
        said.append(f"device renders up to {_text(device.wrench_limit)} N, N m")
    if device.bound.wrench is not None:
        said.append(f"bounded at {_text(device.bound.wrench)} N, N m")
    if device.bound.rate is not None:
        said.append(f"changing by at most {_text(device.bound.rate)} N/s, N m/s")
    return said


def _guard(found: Mapping[str, Any]) -> list[str]:
    """Text about the guard of the device's port, and what passed the port: translation and rotation."""
    if not found:
        return []
    least = f"least energy of the port {_energies(found['least_energy'])}"
    if found["type"] != "passivity":
        return [f"port not guarded: {least}"]
    acted = "guard of the port never acted"
    if found["acted"]:
        kept = f"kept {_energies(found['kept'])} from the hand"
        acted = f"guard of the port acted in {found['acted']} ticks, {kept}"
    return [f"{acted}: {least}"]


def _energies(values: Sequence[float]) -> str:
    """Energies [J] of translation and rotation."""
    rounded = [value if abs(value) >= NO_ENERGY else 0.0 for value in values]
    shown = (units.fitting(abs(value), "J", 1.0) for value in rounded)
    texts = (f"{units.text(value * scale, 3)} {unit}" for value, (unit, scale) in zip(rounded, shown, strict=True))
    return "{} in translation, {} in rotation".format(*texts)


def _seed(experiment: Experiment) -> str:
    """Text about the seed and the random quantities."""
    return f"seed {experiment.seed}: {', '.join(experiment.random) or 'nothing is random'}"


def _scale(experiment: Experiment) -> list[str]:
    if experiment.asynchronous:
        rate = experiment.environment.rate or experiment.rate
        architecture = f"asynchronous: local model, environment at {rate:g} Hz"
    else:
        architecture = "synchronous environment"
    if experiment.alone:
        architecture = "no device: the operator's wrench acts on the tool"
    return [architecture, f"servo {experiment.rate:g} Hz", f"{experiment.duration:g} s planned"]


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>" if content else ""


def _heads(runs: Sequence[_Run], links: Sequence[str], single: str) -> list[str]:
    if not links:
        return [single]
    labels = [escape(run.label).replace(",", ",<wbr>").replace("=", "=<wbr>") for run in runs]
    return [f'<a href="{link}">{label}</a>' for label, link in zip(labels, links, strict=True)]


def _claims_table(runs: Sequence[_Run], links: Sequence[str] = ()) -> str:
    """A row for each claim, a column for each run, and what was measured where that is the same for all."""
    by_name: dict[str, dict[int, Mapping[str, Any]]] = {}
    for i, run in enumerate(runs):
        for claim in run.claims:
            by_name.setdefault(str(claim.get("name")), {})[i] = claim
    rows = []
    for name, found in by_name.items():
        first, *others = found.values()
        statement, source = (_shown(str(first.get(key, ""))) for key in ("statement", "source"))
        same = all(claim.get("measured") == first.get("measured") for claim in others)
        measured = (
            _measured(first, study_of(runs[0].trial.experiment).claimed(name) or _UNKNOWN)
            if same
            else "differs: see the runs"
        )
        verdicts = [_verdict(found[i]) if i in found else "<td></td>" for i in range(len(runs))]
        if len(runs) > COLUMNS:
            states = [claim.get("holds") for claim in found.values()]
            counts = {
                "hold": states.count(True),
                "do not hold": states.count(False),
                "undecided": states.count(None),
            }
            verdicts = [f"<td>{', '.join(f'{count} {text}' for text, count in counts.items() if count)}</td>"]
        rows.append(
            f'<th scope="row">{statement}<span class="source">{source}</span></th>'
            f'<td class="measured">{measured}</td>{"".join(verdicts)}'
        )
    if len(runs) > COLUMNS:
        return _table(["Statement", "Measured", f"In {len(runs)} runs"], rows)
    return _table(["Statement", "Measured", *_heads(runs, links, "Verdict")], rows)


def _measured(claim: Mapping[str, Any], quantity: Quantity) -> str:
    quantity = _fitted(quantity, _mapping(claim.get("measured")).values())
    values = "".join(
        f'<span class="value">{escape(str(name))}: {_number(value, quantity, 4)}</span>'
        for name, value in _mapping(claim.get("measured")).items()
    )
    text = f"{quantity.text} [{quantity.unit}]" if quantity.unit else quantity.text
    return f'{values}<span class="text">{escape(text)}</span>'


def _verdict(claim: Mapping[str, Any]) -> str:
    holds, reason = claim.get("holds"), str(claim.get("reason", ""))
    if holds is None:
        because = f'<span class="source">{escape(reason)}</span>' if reason else ""
        return f'<td class="verdict open">\N{EN DASH} undecided{because}</td>'
    return '<td class="verdict holds">✓ holds</td>' if holds else '<td class="verdict fails">✗ does not hold</td>'


def _metrics_table(runs: Sequence[_Run], expected: Mapping[str, tuple[float, str]], links: Sequence[str] = ()) -> str:
    """A row for each metric and a column for each run; of many runs, a row for each run, a few metrics at a time."""
    names = list(dict.fromkeys(name for run in runs for name in run.metrics))
    known = study_of(runs[0].trial.experiment).quantity
    quantities = {name: _fitted(known(name) or _UNKNOWN, [run.metrics.get(name) for run in runs]) for name in names}
    if len(runs) > COLUMNS:
        return "".join(
            _metrics_by_run(runs, links, {name: quantities[name] for name in names[i : i + COLUMNS]})
            for i in range(0, len(names), COLUMNS)
        )
    rows = []
    for name, quantity in quantities.items():
        label = f'{escape(quantity.text)}<span class="source"><code>{escape(name)}</code></span>'
        cells = [f'<th scope="row">{label}</th>']
        cells += [f'<td class="number">{_number(run.metrics.get(name), quantity, 5)}</td>' for run in runs]
        cells.append(f"<td>{escape(quantity.unit)}</td>")
        if expected:
            value, source = expected.get(name, (None, ""))
            number = (
                "" if value is None else f'{_number(value, quantity, 5)}<span class="source">{escape(source)}</span>'
            )
            cells.append(f"<td>{number}</td>")
        rows.append("".join(cells))
    theory = ["Theory"] if expected else []
    return _table(["", *_heads(runs, links, "This run"), "Unit", *theory], rows, numbers=len(runs))


def _metrics_by_run(runs: Sequence[_Run], links: Sequence[str], quantities: Mapping[str, Quantity]) -> str:
    """A row for each run."""
    heads = [
        f"{escape(quantity.text)}{f' [{escape(quantity.unit)}]' if quantity.unit else ''}"
        f'<span class="source"><code>{escape(name)}</code></span>'
        for name, quantity in quantities.items()
    ]
    rows = [
        f'<th scope="row">{head}</th>'
        + "".join(f'<td class="number">{_number(run.metrics.get(n), q, 4)}</td>' for n, q in quantities.items())
        for run, head in zip(runs, _heads(runs, links, "This run"), strict=False)
    ]
    return _table(["Run", *heads], rows, numbers=len(heads))


def _number(value: Any, quantity: Quantity, digits: int) -> str:
    if value is None:
        return '<span class="soft" title="not reached in this run">\N{EN DASH}</span>'
    if isinstance(value, bool) or not isinstance(value, int | float):
        return escape(str(value))
    if not quantity.unit and float(value).is_integer() and abs(value) < 1e6:  # a count, or a code
        return f"{value:.0f}".replace("-", "\N{MINUS SIGN}")
    return units.text(value * quantity.scale, digits)


def _fitted(quantity: Quantity, values: Iterable[Any]) -> Quantity:
    """A quantity in a unit in which the largest of some values reads well."""
    sizes = [abs(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    unit, scale = units.fitting(max(sizes, default=0.0), quantity.unit, quantity.scale)
    return replace(quantity, unit=unit, scale=scale)


def _figures(figures: Sequence[Figure]) -> str:
    shown = []
    for figure in figures:
        panels = "".join(
            f'<div class="{"tall" if panel.tall else ""}{" alone" if len(figure.panels) == 1 else ""}">'
            f"{panel.svg[panel.svg.index('<svg') :]}{HALT if panel.moves else ''}</div>\n"
            for panel in figure.panels
        )
        table = ""
        if figure.table:
            head, *rows = figure.table
            table = _table(
                [_shown(cell) for cell in head],
                [
                    f'<th scope="row">{_shown(first)}</th>'
                    + "".join(f'<td class="number">{_shown(cell)}</td>' for cell in rest)
                    for first, *rest in rows
                ],
                numbers=len(head) - 1,
            )
        shown.append(
            f"<figure>\n<h3>{escape(figure.title)}</h3>\n<figcaption>{_shown(figure.caption)}</figcaption>\n"
            f'<div class="panels">\n{panels}</div>\n{table}\n</figure>'
        )
    return "\n".join(shown)


def _health(measured: Health, clock: Figure | None) -> str:
    """What the driver measured in realtime: in words, in numbers, as figures."""
    words = "".join(f"<li>{escape(text)}</li>\n" for text in health.sentences(measured))
    rows = [
        f'<th scope="row">{escape(row.name)}<span class="source">{escape(row.meaning)}</span></th>'
        f'<td class="number">{escape(row.value)}</td><td>{escape(row.unit)}</td>'
        for row in health.table(measured)
    ]
    shown = "" if clock is None else _figures([clock])
    return _section("Health", f"<ul>\n{words}</ul>\n{shown}\n{_table(['', 'This run', 'Unit'], rows, numbers=1)}")


def _is_other(name: str, measured: Health | None) -> bool:
    """Whether a figure of the timing is not on the page of health."""
    return measured is None or name not in health.KEYS


def _table(heads: Sequence[str], rows: Sequence[str], numbers: int = 0) -> str:
    """A table of HTML cells, with `numbers` columns of numbers from the second on; empty without rows."""
    if not rows:
        return ""
    kinds = ["number" if 0 < i <= numbers else "" for i in range(len(heads))]
    head = "".join(f'<th scope="col" class="{kind}">{cell}</th>' for kind, cell in zip(kinds, heads, strict=True))
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _values_table(values: Mapping[str, Any]) -> str:
    return _table(
        ["", "Value"],
        [
            f'<th scope="row"><code>{escape(str(name))}</code></th><td>{escape(_text(value))}</td>'
            for name, value in values.items()
        ],
    )


_TIMES = {"start_up": Quantity("From the command to the first tick", "s")}


def _timing_table(values: Mapping[str, Any]) -> str:
    """Figures of the timing that are on no page of health."""
    rows = []
    for name, value in values.items():
        quantity = _TIMES.get(name, _UNKNOWN)
        text = _number(value, quantity, 3) if name in _TIMES and value is not None else escape(_text(value))
        label = f'{escape(quantity.text)}<span class="source"><code>{escape(str(name))}</code></span>'
        rows.append(f'<th scope="row">{label}</th><td class="number">{text}</td><td>{escape(quantity.unit)}</td>')
    return _table(["", "This run", "Unit"], rows, numbers=1)


def _texts(summary: Mapping[str, Any], key: str) -> list[str]:
    """A list of texts of a summary; empty if it has none."""
    found = summary.get(key)
    return [str(text) for text in found] if isinstance(found, list) else []


def _list(texts: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(text)}</li>\n" for text in texts)
    return f"<ul>\n{items}</ul>" if items else ""


def _provenance(experiment: Experiment, summary: Mapping[str, Any]) -> str:
    rows = [
        f'<th scope="row"><code>{escape(key)}</code><span class="source">{escape(text)}</span></th>'
        f"<td>{escape(_text(value))}</td><td>{escape(unit)}</td>"
        for key, value, unit, text in _parameters(experiment)
    ]
    content = _folded("Parameters of the experiment", _table(["Key", "Value", "Unit"], rows))
    for title, key in (("Versions", "versions"), ("Machine", "machine"), ("Bag", "bag")):
        values = summary.get(key, "no digest: older than digests" if key == "bag" else None)
        content += _folded(title, _values_table(values if isinstance(values, dict) else {key: values}))
    return _section("Provenance", content)


def _folded(title: str, table: str) -> str:
    return f"<details>\n<summary>{escape(title)}</summary>\n{table}\n</details>\n" if table else ""


def _parameters(section: BaseModel, prefix: str = "") -> Iterable[tuple[str, Any, str, str]]:
    """Dotted key, value, unit and description of every parameter."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from _parameters(value, f"{prefix}{name}.")
        elif prefix or name not in ("name", "title", "source", "description"):
            extra = field.json_schema_extra
            unit = extra.get("unit", "") if isinstance(extra, dict) else ""
            yield prefix + name, value, str(unit), field.description or ""


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_text(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_text(item)}" for name, item in value.items())
    if isinstance(value, float):
        return f"{value:.6g}"
    return "\N{EN DASH}" if value is None else str(value)


def _footer(runs: Sequence[_Run]) -> str:
    named = " ".join(run.trial.experiment.source for run in runs)
    cited = "".join(f"<p>{name}: {escape(text)}</p>" for name, text in SOURCES.items() if name in named)
    lead = "<p>When you use these results, cite the source beside the software:</p>" if cited else ""
    return f"<footer>\n{lead}{cited}<p>Written by <code>haptics report</code>.</p>\n</footer>"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _word(text: str) -> str:
    return text if text in ("done", "interrupted", "failed") else ""
