"""The page of a study: what was measured of each participant and over all, with its figures."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from html import escape
from pathlib import Path

import numpy as np

from haptic_bench.report import html, pages
from haptic_sim.parameters import listed
from haptic_study.analysis import (
    OF_STIMULUS,
    Estimate,
    Group,
    Measure,
    Recovery,
    detectable_effect,
    fit_of,
    groups,
    name_of,
    recoveries,
)
from haptic_study.analysis import Data as Answers
from haptic_study.comparisons import Comparison, Variance, comparisons, questions, variances
from haptic_study.dataset import Dataset
from haptic_study.file import condition_labels
from haptic_study.mixed_models import MixedModel, NoStatsmodels, mixed_model
from haptic_study.tasks import TaskParameters
from haptic_view import units
from haptic_view.figures import BLACK, Axis, Figure, Line, Panel, Style, draw, style_of

MOST = 42  # participants whose curves are drawn
KINDS = {
    "comparison": "Comparison judged larger",
    "correct": "Correct",
    "yes": "Answered yes",
    "different": "Answered different",
}
INTERVALS = (
    "Intervals of participants are of 95 %, by the profile likelihood (Wilks 1938); those of means by Student's t "
    "distribution among participants; those of rates of success by Wilson (1927)."
)


def write(dataset: Dataset, estimates: Sequence[Estimate], kinds: Collection[str] = ()) -> Path:
    """Write `report.html` and its figures into the directory of a study, as `kinds` besides SVG; returns the page."""
    title = dataset.study.parameters.title or dataset.study.name
    parts = [_header(dataset, estimates)]
    return pages.write_page(dataset.directory, title, _figures(dataset, estimates), parts, kinds)


def _header(dataset: Dataset, estimates: Sequence[Estimate]) -> str:
    study = dataset.study
    people = dict.fromkeys(one for one, _ in dataset.sessions())
    kinds = [dataset.answerer(*one).get("kind", "person") for one in dataset.sessions()]
    simulated = sum(kind == "simulated" for kind in kinds)
    rows = [
        ("Study", f"{study.name}, digest {study.digest[:12]}"),
        ("Participants", f"{len(people)} ({listed(list(people), 12)})"),
        ("Sessions", f"{len(kinds)}, {simulated} of them of simulated observers"),
        ("Trials", str(sum(one.trials for one in estimates))),
    ]
    description = f"<p>{html.shown(study.parameters.description)}</p>" if study.parameters.description else ""
    unsolved = [one for one in estimates if one.problem]
    notes = "".join(
        f'<p class="notice">{escape(one.participant)}, {escape(where(one))}: {escape(one.problem)}</p>'
        for one in unsolved
    )
    return f"{description}\n{html.facts(rows)}\n{notes}"


def where(one: Estimate | Group | Recovery) -> str:
    """Task and condition of a result."""
    return f"{one.task}, {one.condition}" if one.condition else one.task


def _figures(dataset: Dataset, estimates: Sequence[Estimate]) -> Iterator[Figure]:
    parameters = dataset.study.parameters
    kept = [one for one in estimates if one.measures]
    for name, task in parameters.tasks.items():
        own = [one for one in kept if one.task == name]
        conditions = list(dict.fromkeys(one.condition for one in own))
        panels = [
            panel
            for i, condition in enumerate(conditions)
            for panel in _psychometric(name, task, condition, [one for one in own if one.condition == condition], i)
        ]
        if panels:
            caption = "Lines: functions of participants; dots and black line: answers of all, and their function."
            yield Figure(f"Psychometric functions: {name}", caption, panels)
        if task.method.get("type") not in ("constant_stimuli", "limits"):
            yield Figure(
                f"Levels: {name}", "Levels that the method chose, trial by trial.", [*_tracks(name, task, own)]
            )
    found = groups(kept, condition_labels(parameters))
    yield _of_group(dataset, found)
    yield from _of_people(dataset, kept)
    if compared := comparisons(found, parameters.declared):
        yield _compared(compared)
    between = [name for name, factor in parameters.factors.items() if factor.between]
    if varied := variances(found, between):
        yield _varied(varied)
    if parameters.factors:
        yield _modelled(found)
    if recovered := recoveries(dataset, kept):
        yield _recovered(recovered)


def _unit(task: TaskParameters) -> str:
    unit = getattr(task, "unit", "")
    return f" [{unit}]" if unit else ""


def _stimulus(task: TaskParameters, data: Answers) -> str:
    what = ", ".join(getattr(task, "stimulus", ()))
    return f"{'Difference of ' if data.kind in ('correct', 'different') else ''}{what}{_unit(task)}"


def _psychometric(
    name: str, task: TaskParameters, condition: str, estimates: Sequence[Estimate], number: int
) -> Iterator[Panel]:
    """The functions of a condition, if there are any."""
    fitted = [one for one in estimates if one.fit is not None and one.data is not None]
    if not fitted:
        return
    data = [one.data for one in fitted if one.data is not None]
    all_ = Answers(
        np.concatenate([one.levels for one in data]), np.concatenate([one.outcomes for one in data]), data[0].kind
    )
    levels, positive, total = all_.counts()
    x = np.linspace(levels[0], levels[-1], 121)
    lines = [Line(levels, positive / total, "answers of all", Style(BLACK), points=True)]
    lines.append(Line(x, fit_of(task, all_).probability(x), "all", Style(BLACK, width=2.0)))
    for i, one in enumerate(fitted[:MOST]):
        assert one.fit is not None
        lines.append(Line(x, one.fit.probability(x), "_person", Style(style_of(i).colour, width=0.7)))
    title = f"{name}{', ' if condition else ''}{condition}"
    y = Axis(KINDS[all_.kind], span=(-0.02, 1.02))
    yield draw(f"psychometric_{name}_{number + 1}", title, lines, Axis(_stimulus(task, all_)), y)


def _tracks(name: str, task: TaskParameters, estimates: Sequence[Estimate]) -> Iterator[Panel]:
    lines = [
        Line(np.arange(1, len(one.levels) + 1), np.array(one.levels), one.participant, style_of(i))
        for i, one in enumerate(estimates[:MOST])
    ]
    if lines:
        yield draw(f"levels_{name}", name, lines, Axis("Trial"), Axis(f"Level{_unit(task)}"))


def _text(measure: Measure, digits: int = 3) -> str:
    if not math.isfinite(measure.value):
        return "\N{EN DASH}"
    value = units.text(measure.value, digits)
    if not math.isfinite(measure.low):
        return value
    return f"{value} ({units.text(measure.low, digits)} to {units.text(measure.high, digits)})"


def _name(dataset: Dataset, task: str, name: str) -> str:
    unit = _unit(dataset.study.parameters.tasks[task]) if name in OF_STIMULUS else ""
    return f"{name_of(name)}{unit}"


def _of_group(dataset: Dataset, found: Sequence[Group]) -> Figure:
    """Measures over all participants."""
    head = ["Task", "Measure", "Participants", "Mean (95 % interval)", "Standard deviation"]
    rows = [
        [
            where(one),
            _name(dataset, one.task, one.name),
            str(len(one.values)),
            _text(one.mean),
            _text(Measure(one.deviation)),
        ]
        for one in found
    ]
    return Figure("All participants", INTERVALS, [*_spread(dataset, found)], [head, *rows] if rows else [])


def _spread(dataset: Dataset, found: Sequence[Group]) -> Iterator[Panel]:
    """Values of participants and their mean, a panel a measure."""
    for task, name in dict.fromkeys((one.task, one.name) for one in found if one.name != "lapse"):
        own = [one for one in found if (one.task, one.name) == (task, name)]
        lines = []
        for i, one in enumerate(own):
            values = np.array(list(one.values.values()))
            lines.append(Line(values, np.full(len(values), float(i)), "_people", style_of(i), points=True))
            ends = np.array([one.mean.low, one.mean.high])
            lines.append(Line(ends, np.full(2, i + 0.15), "_interval", Style(BLACK, width=2.0)))
        names = tuple(one.condition or "all trials" for one in own)
        y = Axis("", span=(len(own) - 0.5, -0.5), names=names)
        yield draw(f"measure_{task}_{name}", f"{task}: {name_of(name)}", lines, Axis(_name(dataset, task, name)), y)


def _of_people(dataset: Dataset, estimates: Sequence[Estimate]) -> Iterator[Figure]:
    """A row for each session and condition, a table for each task."""
    for task in dataset.study.parameters.tasks:
        own = [one for one in estimates if one.task == task]
        names = list(dict.fromkeys(name for one in own for name in one.measures))
        head = ["Participant", "Session", "Condition", "Trials", *(_name(dataset, task, name) for name in names)]
        rows = [
            [
                one.participant,
                str(one.session),
                one.condition or "\N{EN DASH}",
                str(one.trials),
                *(_text(one.measures.get(name, Measure(math.nan))) for name in names),
            ]
            for one in own
        ]
        if rows:
            yield Figure(f"Participants: {task}", "Intervals of 95 % in parentheses.", [], [head, *rows])


def _compared(found: Sequence[Comparison]) -> Figure:
    """Differences between conditions."""
    head = [
        "Measure",
        "Conditions",
        "Participants",
        "Difference (95 % interval)",
        "Effect size",
        "p",
        "p, corrected",
        "Power",
    ]
    rows = [
        [
            f"{one.task}: {name_of(one.name)}",
            f"{one.second} less {one.first}",
            str(one.count),
            _text(one.difference),
            units.text(one.effect, 3),
            units.text(one.p, 2),
            units.text(one.corrected, 2),
            units.text(one.power, 2),
        ]
        for one in found
    ]
    caption = (
        "Paired differences within participants with Student's t test and Cohen's d_z; between groups those of Welch's "
        "test and Cohen's d. Corrected: Holm's procedure over the rows of a measure. Power: probability that a study "
        "of as many participants finds an effect of this size, at a level of 5 %; of groups by Student's test."
    )
    return Figure("Differences between conditions", caption, [], [head, *rows])


def _varied(found: Sequence[Variance]) -> Figure:
    """Analyses of variance, a row an effect."""
    head = ["Measure", "Participants", "Effect", "F", "p", "Epsilon", "p, corrected", "Partial eta squared"]
    rows = [
        [
            f"{one.task}: {name_of(one.name)}",
            str(one.count),
            effect.name.replace(":", " \N{MULTIPLICATION SIGN} "),
            f"F({effect.effect}, {effect.error}) = {units.text(effect.F, 3)}",
            units.text(effect.p_value, 2),
            units.text(effect.epsilon, 3),
            units.text(effect.corrected_p_value, 2),
            units.text(effect.partial_eta_squared, 3),
        ]
        for one in found
        for effect in one.effects
    ]
    caption = (
        "Factors within participants who have a value in each condition, and between groups of them (type III sums of "
        "squares). Corrected: degrees of freedom times the epsilon of Greenhouse and Geisser (1959), for differences "
        "between conditions with unequal variances; p-values are not corrected for the number of rows."
    )
    return Figure("Analysis of variance", caption, [], [head, *rows])


def _modelled(found: Sequence[Group]) -> Figure:
    """Mixed models, a row a coefficient."""
    try:
        models = [mixed_model(own) for own in questions(found) if len(own) > 1]
    except NoStatsmodels as error:
        return Figure("Mixed models", "", [], [["Not computed"], [str(error)]])
    head = ["Measure", "Participants", "Coefficient", "Value (95 % interval)", "p"]
    rows = [row for one in models if one is not None for row in _rows_of(one)]
    caption = (
        "Linear mixed models with a random intercept for each participant, by restricted maximum likelihood; intervals "
        "and p-values by Wald, not corrected. Coefficients are differences from the first level of each factor. In the "
        "last rows of a measure: standard deviations among participants, and of the residuals."
    )
    return Figure("Mixed models", caption, [], [head, *rows] if rows else [])


def _rows_of(model: MixedModel) -> Iterator[list[str]]:
    measure, people = f"{model.task}: {name_of(model.name)}", str(model.participants)
    for one in model.coefficients:
        yield [measure, people, one.name or "first levels", _text(one.value), units.text(one.p, 2)]
    yield [measure, people, "among participants", units.text(model.between, 3), ""]
    yield [measure, people, "residual", units.text(model.within, 3), ""]


def _recovered(found: Sequence[Recovery]) -> Figure:
    """Comparison of the estimates of simulated observers with the true values."""
    head = [
        "Task",
        "Measure",
        "True mean",
        "Mean of estimates (95 % interval)",
        "Root mean square error",
        "Intervals that hold the true value",
        "Detectable difference",
    ]
    rows = []
    for one in found:
        scale = one.deviation * math.sqrt(2.0)  # of a difference of two independent errors
        rows.append(
            [
                where(one),
                name_of(one.name),
                units.text(one.truth, 3),
                _text(one.mean),
                units.text(one.deviation, 3),
                f"{one.held} of {one.count}",
                _text(Measure(detectable_effect(one.count) * scale)),
            ]
        )
    caption = (
        "Estimates of simulated observers beside their true values. Detectable difference: between two conditions of "
        "as many participants, found with a power of 80 % at a level of 5 % where the estimates have these errors."
    )
    return Figure("Recovery of simulated observers", caption, [], [head, *rows])
