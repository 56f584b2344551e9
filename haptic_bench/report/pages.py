"""The report of a trial or a sweep: one self-contained page of HTML, and its figures as files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from haptic_bench.analysis import health, ideal_device
from haptic_bench.analysis.base import analyse, analysis_of
from haptic_bench.analysis.claims import Findings, Quantity
from haptic_bench.analysis.figures import Curve, draw_all, port_figure
from haptic_bench.analysis.health import Health
from haptic_bench.experiment import Experiment, Trial, read_resolved
from haptic_bench.recording.frames import SampledFrames
from haptic_bench.recording.samples import ColumnError, Samples
from haptic_bench.recording.summary import read_summary, runs_of
from haptic_bench.recording.world_record import read_tables
from haptic_bench.report import facts, html, parameters, variants
from haptic_sim.parameters import ParameterError
from haptic_view import drawing, units, vector
from haptic_view.figures import Figure, Panel, Style, style_of

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
    "forces. Bodies that hide their contacts from all sides are cut open by an upright plane through the middle of the "
    "contacts: pale is the section, and only contacts near it are shown. The command haptics view shows the trial on a "
    "page."
)
HALT = (
    '<label class="motion"><input type="checkbox" class="halt"> <span class="moves">hold still</span>'
    '<span class="rests">show the motion</span></label>'
)
"""Script that stops the motion of drawings on a page, or starts it for who wants less motion; see report.css."""
CLAIMS = "Claims and measurements"
REFERENCES = "Statements on other runs of this analysis, of which this trial is none"
LABEL = 48  # characters of a run's label in figures and tables
COLUMNS = 5  # of numbers that a table has beside each other
DRAWN = 12  # runs in a figure


def write(directory: Path, findings: Findings | None = None, *, damage: str = "", kinds: Collection[str] = ()) -> Path:
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
    try:
        if "sweep" in summary:
            page, figures = _sweep_page(runs_of(directory, summary), summary["sweep"])
        else:
            run = _Run.read(directory, "", summary)
            measured = health.read(directory, run.trial.experiment.rate, _mapping(summary.get("timing")))
            page, figures = _trial_page(run, directory, findings, measured, damage)
        _write_figures(directory / "figures", figures, kinds)
    except ColumnError as error:
        raise ParameterError([f"{directory}, samples.csv: not the samples of a trial: {error}"]) from error
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
        """The statements that this run helps to decide."""
        return self._statements("claims")

    @property
    def statements(self) -> list[Mapping[str, Any]]:
        """The claims, and the statements that other runs decide."""
        return self.claims + self._statements("references")

    def _statements(self, key: str) -> list[Mapping[str, Any]]:
        found = self.summary.get(key)
        return [_mapping(claim) for claim in found] if isinstance(found, list) else []


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


def write_page(
    directory: Path, title: str, figures: Iterable[Figure], parts: Iterable[str] = (), kinds: Collection[str] = ()
) -> Path:
    """Write a page of figures, and each of their panels, into a directory that exists; returns the page.

    Args:
        directory: of the page.
        title: its heading.
        figures: what it shows.
        parts: HTML between heading and figures.
        kinds: of files that each panel is written to besides SVG, of `vector.KINDS`.
    """
    shown = shown_of(figures)
    draw_all(shown)
    _write_figures(directory / "figures", shown, kinds)
    target = directory / "report.html"
    target.write_text(
        html.page(title, [f"<header>\n<h1>{escape(title)}</h1>\n</header>", *parts, _figures(shown)]), encoding="utf-8"
    )
    return target


# One trial


def _trial_page(
    run: _Run, directory: Path, findings: Findings | None, measured: Health | None, damage: str
) -> tuple[str, list[Figure]]:
    experiment, summary, samples = run.trial.experiment, run.summary, run.samples
    figures: list[Figure] = []
    scene: list[Figure] = []
    expected: Mapping[str, tuple[float, str]] = {}
    complete = run.status == "done"
    if samples is not None and len(samples) > 1:
        analysis = analysis_of(experiment)
        findings = findings or analyse(run.trial, samples, compare=complete)
        curve = Curve("this run", run.trial, samples, Style())
        scene = _scene(run.trial, samples, directory)
        device = ideal_device.figures(findings, samples, analysis.quantity)
        figures = shown_of([*analysis.figures(run.trial, samples, findings), *device, *_port([curve])])
        expected = analysis.expected(run.trial, findings)
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
    shown_in = _page_units([run], expected)
    verdict = _mapping(summary.get("display")).get("text")
    lines = [
        *([("Verdict", str(verdict))] if verdict else []),
        *facts.facts(run.trial, _mapping(summary.get("guard")), shown_in.get("J")),
        ("Recorded", ticks),
    ]
    timing = _mapping(summary.get("timing"))
    clock = None if measured is None else health.drawn(measured)
    shown = [*scene, *figures, *([] if clock is None else [clock])]
    draw_all(shown)
    parts = [
        _header(experiment, [(str(summary.get("mode", "")), ""), (run.status, run.status), *_verdicts([run])], lines),
        "".join(f'<p class="notice">{escape(notice)}</p>' for notice in notices),
        _figures(scene),
        html.section(CLAIMS, _claims_table([run], shown_in, _names(run.claims))),
        html.section("Metrics", _metrics_table([run], shown_in, expected)),
        html.section(REFERENCES, _claims_table([run], shown_in, _names(run.statements, besides=_names(run.claims)))),
        html.section("Figures", _figures(figures)),
        "" if measured is None else _health(measured, clock),
        html.section("Said at the start", _list(_texts(summary, "notes"))),
        html.section("Timing", _timing_table({name: timing[name] for name in timing if _is_other(name, measured)})),
        _provenance(experiment, summary),
        _footer([run]),
    ]
    return html.page(experiment.title or experiment.name, parts), shown


def _scene(trial: Trial, samples: Samples, directory: Path) -> list[Figure]:
    """The scene at its decisive moments, and in motion; nothing for an analysis without time, or without its files."""
    if analysis_of(trial.experiment).OFFLINE_ONLY or "contacts" not in samples.names:
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
        Panel(f"scene_{name}", title := name.replace("_", " "), partial(drawing.picture, frames, index, title))
        for name, index in moments.items()
    ]
    if moves:
        panels.append(Panel("scene_motion", "the whole trial", partial(drawing.animation, frames)))
    return [Figure("The scene", SCENE, panels)]


# A sweep


def _sweep_page(folders: Mapping[str, Path], sweep: Mapping[str, Any]) -> tuple[str, list[Figure]]:
    keys = _texts(sweep, "keys")
    if not folders:
        raise ParameterError(["summary.json: the sweep has no runs"])
    runs = [_Run.read(folder, _short(label, keys), read_summary(folder)) for label, folder in folders.items()]
    groups = variants.variants(list(folders), keys)
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
        figures = shown_of([*analysis_of(experiment).sweep_figures(chosen), *_port(chosen)])
    shown_in = _page_units(runs)
    metrics, quantities = _by_metric(runs, shown_in)
    figures = [*variants.boxes(groups, metrics, quantities), *figures]
    draw_all(figures)
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
            [("Sweep of", ", ".join(keys)), *facts.scale(experiment), ("All numbers", "sweep.csv")],
        ),
        "".join(f'<p class="notice">{escape(notice)}</p>' for notice in notices),
        html.section("Variants", _variants_table(groups, runs, shown_in)),
        html.section(
            CLAIMS, _claims_table(runs, shown_in, _names(one for run in runs for one in run.statements), links)
        ),
        html.section("Metrics", _metrics_table(runs, shown_in, {}, links)),
        html.section("Figures", _figures(figures)),
        _footer(runs),
    ]
    return html.page(f"{experiment.title or experiment.name}: sweep of {', '.join(keys)}", parts), figures


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


def _header(experiment: Experiment, tags: Iterable[tuple[str, str]], lines: Iterable[facts.Fact]) -> str:
    """Title and verdict first, then the facts."""
    marks = "".join(f'<span class="tag {_word(kind)}">{escape(text)}</span>' for text, kind in tags if text)
    named = [f"<code>{escape(experiment.name)}</code>", *([escape(experiment.source)] if experiment.source else [])]
    description = f"<p>{html.marked(experiment.description)}</p>\n" if experiment.description else ""
    return (
        f"<header>\n<h1>{escape(experiment.title or experiment.name)}</h1>\n<p>{marks}</p>\n"
        f'<p class="soft">{" · ".join(named)}</p>\n{description}{html.facts(lines)}\n</header>'
    )


def _verdicts(runs: Sequence[_Run]) -> Iterator[tuple[str, str]]:
    """Numbers of claims that hold, as tags of the header."""
    found = [claim.get("holds") for run in runs for claim in run.claims]
    for holds, text, kind in (
        (True, "✓ {} hold", "done"),
        (False, "✗ {} do not hold", "failed"),
        (None, "{} undecided", ""),
    ):
        if count := found.count(holds):
            yield f"claims: {text.format(count)}", kind


def _heads(runs: Sequence[_Run], links: Sequence[str], single: str) -> list[str]:
    if not links:
        return [single]
    labels = [escape(run.label).replace(",", ",<wbr>").replace("=", "=<wbr>") for run in runs]
    return [f'<a href="{link}">{label}</a>' for label, link in zip(labels, links, strict=True)]


def _names(claims: Iterable[Mapping[str, Any]], besides: Collection[str] = ()) -> list[str]:
    """Names of claims, each once, without those of others."""
    names = dict.fromkeys(str(claim.get("name")) for claim in claims)
    return [name for name in names if name not in besides]


def _claims_table(runs: Sequence[_Run], shown_in: PageUnits, names: Collection[str], links: Sequence[str] = ()) -> str:
    """A row for each claim of `names`: its verdict in each run, and what was measured if that is the same for all."""
    by_name: dict[str, dict[int, Mapping[str, Any]]] = {}
    for i, run in enumerate(runs):
        for claim in run.statements:
            if claim.get("name") in names:
                by_name.setdefault(str(claim.get("name")), {})[i] = claim
    rows = []
    for name, found in by_name.items():
        first, *others = found.values()
        statement, source = (html.shown(str(first.get(key, ""))) for key in ("statement", "source"))
        declared = analysis_of(runs[0].trial.experiment).claimed(name)
        same = all(claim.get("measured") == first.get("measured") for claim in others)
        quantity = _UNKNOWN if declared is None else declared.measured
        measured = _measured(first, quantity, shown_in) if same else "differs: see the runs"
        criterion = "" if declared is None else declared.criterion
        if len(runs) > COLUMNS:
            verdicts = [f"<td>{_counted([claim.get('holds') for claim in found.values()])}</td>"]
        else:
            verdicts = [_verdict(found[i], criterion) if i in found else "<td></td>" for i in range(len(runs))]
        rows.append(
            f'{"".join(verdicts)}<th scope="row">{statement}<span class="source">{source}</span></th>'
            f'<td class="measured">{measured}</td>'
        )
    heads = [f"In {len(runs)} runs"] if len(runs) > COLUMNS else _heads(runs, links, "Verdict")
    return html.table([*heads, "Statement", "Measured"], rows, stacked=len(heads) == 1)


def _counted(verdicts: Sequence[bool | None]) -> str:
    """Numbers of claims that hold, do not, and are undecided."""
    counts = {"hold": verdicts.count(True), "do not hold": verdicts.count(False), "undecided": verdicts.count(None)}
    return ", ".join(f"{count} {text}" for text, count in counts.items() if count)


def _measured(claim: Mapping[str, Any], quantity: Quantity, shown_in: PageUnits) -> str:
    """Measured values that decide a claim: a table of rows and columns where the numbers are named "row, column"."""
    measured = _mapping(claim.get("measured"))
    quantity = _fitted(quantity, measured.values(), shown_in)
    text = f"{quantity.text} [{quantity.unit}]" if quantity.unit else quantity.text
    values = {str(name): _number(value, quantity, 4) for name, value in measured.items()}
    places = {name: name.split(", ") for name in values}
    if len(values) > 2 and all(len(place) == 2 for place in places.values()):
        rows, columns = (list(dict.fromkeys(place[i] for place in places.values())) for i in (0, 1))
        cells = [
            f'<th scope="row">{escape(row)}</th>'
            + "".join(f'<td class="number">{values.get(f"{row}, {column}", "")}</td>' for column in columns)
            for row in rows
        ]
        shown = html.table(["", *map(escape, columns)], cells, numbers=len(columns))
    else:
        shown = "".join(f'<span class="value">{escape(name)}: {value}</span>' for name, value in values.items())
    return f'{shown}<span class="text">{escape(text)}</span>'


def _verdict(claim: Mapping[str, Any], criterion: str) -> str:
    """The cell of a verdict, with what the numbers must be."""
    holds, reason = claim.get("holds"), str(claim.get("reason", ""))
    because = f'<span class="source">{escape(criterion)}</span>' if criterion else ""
    if holds is None:
        because += f'<span class="source">{escape(reason)}</span>' if reason else ""
        return f'<td class="verdict open">\N{EN DASH} undecided{because}</td>'
    if holds:
        return f'<td class="verdict holds">✓ holds{because}</td>'
    return f'<td class="verdict fails">✗ does not hold{because}</td>'


def _by_metric(runs: Sequence[_Run], shown_in: PageUnits) -> tuple[dict[str, list[Any]], dict[str, Quantity]]:
    """Values of the metrics in each run, and how they are shown, by name."""
    names = list(dict.fromkeys(name for run in runs for name in run.metrics))
    known = analysis_of(runs[0].trial.experiment).quantity
    values = {name: [run.metrics.get(name) for run in runs] for name in names}
    return values, {name: _fitted(known(name) or _UNKNOWN, values[name], shown_in) for name in names}


def _variants_table(groups: Sequence[variants.Variant], runs: Sequence[_Run], shown_in: PageUnits) -> str:
    """Means and differences of the variants of a sweep over seeds; empty of any other sweep."""
    return variants.table(groups, *_by_metric(runs, shown_in)) if groups else ""


def _metrics_table(
    runs: Sequence[_Run],
    shown_in: PageUnits,
    expected: Mapping[str, tuple[float, str]],
    links: Sequence[str] = (),
) -> str:
    """A row for each metric and a column for each run; of many runs, folded, a row for each and a few metrics."""
    _, quantities = _by_metric(runs, shown_in)
    if len(runs) > COLUMNS:
        names = list(quantities)
        tables = "".join(
            _metrics_by_run(runs, links, {name: quantities[name] for name in names[i : i + COLUMNS]})
            for i in range(0, len(names), COLUMNS)
        )
        return html.folded(f"The {len(runs)} runs one by one", tables)
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
    return html.table(["", *_heads(runs, links, "This run"), "Unit", *theory], rows, numbers=len(runs))


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
    return html.table(["Run", *heads], rows, numbers=len(heads))


def _number(value: Any, quantity: Quantity, digits: int) -> str:
    if value is None:
        return '<span class="soft" title="not reached in this run">\N{EN DASH}</span>'
    if not _is_number(value):
        return escape(str(value))
    if not quantity.unit and float(value).is_integer() and abs(value) < 1e6:  # a count, or a code
        return f"{value:.0f}".replace("-", "\N{MINUS SIGN}")
    return units.text(value * quantity.scale, digits)


PageUnits = Mapping[str, tuple[str, float]]
"""The unit of each kind of quantity on a page, by `units.base`, and how many of it are the SI unit."""


def _page_units(runs: Sequence[_Run], expected: Mapping[str, tuple[float, str]] = {}) -> PageUnits:
    """One unit for each kind of quantity among metrics and claims, in which the largest value reads well."""
    analysis = analysis_of(runs[0].trial.experiment)
    largest: dict[str, float] = {}
    usual: dict[str, Quantity] = {}

    def take(quantity: Quantity | None, values: Iterable[Any]) -> None:
        if quantity is not None and (base := units.base(quantity.unit)):
            usual.setdefault(base, quantity)
            largest[base] = max(largest.get(base, 0.0), _largest(values))

    for run in runs:
        for name, value in run.metrics.items():
            take(analysis.quantity(name), [value, expected.get(name, (None,))[0]])
        for claim in run.claims:
            declared = analysis.claimed(str(claim.get("name")))
            take(None if declared is None else declared.measured, _mapping(claim.get("measured")).values())
    return {base: units.fitting(largest[base], one.unit, one.scale) for base, one in usual.items()}


def _largest(values: Iterable[Any]) -> float:
    """The largest size of the numbers among some values."""
    return max((abs(value) for value in values if _is_number(value)), default=0.0)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)  # a truth value is none


def _fitted(quantity: Quantity, values: Iterable[Any], shown_in: PageUnits) -> Quantity:
    """A quantity in its unit of the page; one without such a unit in one in which the values read well."""
    unit, scale = shown_in.get(units.base(quantity.unit)) or units.fitting(
        _largest(values), quantity.unit, quantity.scale
    )
    return replace(quantity, unit=unit, scale=scale)


def _figures(figures: Sequence[Figure]) -> str:
    shown = []
    for figure in figures:
        panels = "".join(
            f'<div class="{"tall" if panel.tall else ""}{" standalone" if len(figure.panels) == 1 else ""}">'
            f"{panel.svg[panel.svg.index('<svg') :]}{HALT if panel.moves else ''}</div>\n"
            for panel in figure.panels
        )
        table = ""
        if figure.table:
            head, *rows = figure.table
            table = html.table(
                [html.shown(cell) for cell in head],
                [
                    f'<th scope="row">{html.shown(first)}</th>'
                    + "".join(f'<td class="number">{html.shown(cell)}</td>' for cell in rest)
                    for first, *rest in rows
                ],
                numbers=len(head) - 1,
            )
        shown.append(
            f"<figure>\n<h3>{escape(figure.title)}</h3>\n<figcaption>{html.shown(figure.caption)}</figcaption>\n"
            f'<div class="panels">\n{panels}</div>\n{table}\n</figure>'
        )
    return "\n".join(shown)


def _health(measured: Health, clock: Figure | None) -> str:
    """Measurements of the driver in realtime: in words, in numbers, as figures."""
    words = "".join(f"<li>{escape(text)}</li>\n" for text in health.sentences(measured))
    rows = [
        f'<th scope="row">{escape(row.name)}<span class="source">{escape(row.meaning)}</span></th>'
        f'<td class="number">{escape(row.value)}</td><td>{escape(row.unit)}</td>'
        for row in health.table(measured)
    ]
    shown = "" if clock is None else _figures([clock])
    return html.section(
        "Health", f"<ul>\n{words}</ul>\n{shown}\n{html.table(['', 'This run', 'Unit'], rows, numbers=1)}"
    )


def _is_other(name: str, measured: Health | None) -> bool:
    """Whether a figure of the timing is not on the page of health."""
    return measured is None or name not in health.KEYS


_TIMES = {"start_up": Quantity("From the command to the first tick", "s")}


def _timing_table(values: Mapping[str, Any]) -> str:
    """Figures of the timing that are on no page of health."""
    rows = []
    for name, value in values.items():
        quantity = _TIMES.get(name, _UNKNOWN)
        text = _number(value, quantity, 3) if name in _TIMES and value is not None else escape(html.text(value))
        label = f'{escape(quantity.text)}<span class="source"><code>{escape(str(name))}</code></span>'
        rows.append(f'<th scope="row">{label}</th><td class="number">{text}</td><td>{escape(quantity.unit)}</td>')
    return html.table(["", "This run", "Unit"], rows, numbers=1)


def _texts(summary: Mapping[str, Any], key: str) -> list[str]:
    """A list of texts of a summary; empty if it has none."""
    found = summary.get(key)
    return [str(text) for text in found] if isinstance(found, list) else []


def _list(texts: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(text)}</li>\n" for text in texts)
    return f"<ul>\n{items}</ul>" if items else ""


def _provenance(experiment: Experiment, summary: Mapping[str, Any]) -> str:
    content = parameters.section(experiment)
    for title, key in (("Versions", "versions"), ("Machine", "machine"), ("Bag", "bag")):
        values = summary.get(key, "no digest: older than digests" if key == "bag" else None)
        content += html.folded(title, html.values_table(values if isinstance(values, dict) else {key: values}))
    return html.section("Provenance", content)


def _footer(runs: Sequence[_Run]) -> str:
    named = " ".join(run.trial.experiment.source for run in runs)
    cited = "".join(f"<p>{name}: {escape(text)}</p>" for name, text in SOURCES.items() if name in named)
    lead = "<p>When you use these results, cite the source beside the software:</p>" if cited else ""
    return f"<footer>\n{lead}{cited}<p>Written by <code>haptics report</code>.</p>\n</footer>"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _word(text: str) -> str:
    return text if text in ("done", "interrupted", "failed") else ""
