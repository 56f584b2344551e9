"""The power of a design by simulation: how often the comparisons of a study are found, if the study is repeated.

Each run is a whole study with simulated participants of its own, analysed as a recorded one is; nothing of it is
recorded. A comparison is found in a run if its p-value, corrected, is below 5 %. The share of the runs in which it is
found estimates its power; the interval is that of Wilson (1927) for independent runs.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from haptic_bench.report import pages
from haptic_bench.running import forks
from haptic_bench.running.runner import Interruption
from haptic_bench.trials import workers
from haptic_sim.parameters import ParameterError
from haptic_study.analysis import Measure, estimate, groups, name_of, wilson
from haptic_study.comparisons import Comparison, comparisons
from haptic_study.file import Study, condition_labels, study_of
from haptic_study.journal import write_durably
from haptic_study.session import Session
from haptic_study.simulation import SimulatedParticipant, Unrecorded
from haptic_view import units
from haptic_view.figures import Figure

ALPHA = 0.05
"""Level of the tests."""


@dataclass(frozen=True)
class Power:
    """Power of a comparison: how often it is found.

    Attributes:
        task, name, first, second: of what; see `Comparison`.
        runs: in which it was tested.
        share: of these in which it was found, with its interval of 95 %.
        effect: mean size of the effect.
        difference: mean difference, and the quantiles of the runs between which 95 % of them are.
    """

    task: str
    name: str
    first: str
    second: str
    runs: int
    share: Measure
    effect: float
    difference: Measure


def run_once(
    study: Study, participants: Sequence[str], by: Mapping[str, Any], stop: Callable[[], bool]
) -> list[Comparison]:
    """Simulate a study once, and compare its conditions.

    Args:
        study: valid.
        participants: codes.
        by: the observer, its seed, and whether it has a device; see `SimulatedParticipant`.
        stop: whether to leave off.
    """
    found = []
    for participant in participants:
        recording = Unrecorded(Session(study, participant), {"by": dict(by)})
        SimulatedParticipant(recording).run(stop)
        found += estimate(recording.session, intervals=False)
    return comparisons(groups(found, condition_labels(study.parameters)), study.parameters.declared)


def run_on_worker(
    token: str,
    expected: dict[str, str],
    document: dict[str, Any],
    folder: str,
    participants: list[str],
    by: dict[str, Any],
) -> list[Comparison]:
    """`run_once` of a study's document, on a Dask worker."""
    workers.check_versions(expected)
    return run_once(study_of(document, Path(folder)), participants, by, workers.Asked(token).__bool__)


def repeat(
    study: Study,
    participants: Sequence[str],
    wanted: Sequence[Mapping[str, Any]],
    directory: Path,
    *,
    jobs: int = 0,
    scheduler: str = "",
) -> list[list[Comparison]]:
    """The comparisons of several runs, in the order of `wanted`: the observer of each run, and its seed.

    Without a scheduler `jobs` processes do them by Dask; 0: a fork for each core.

    Raises:
        ParameterError: a worker cannot do it.
        KeyboardInterrupt: it was interrupted.
    """
    if jobs <= 1 and not scheduler:
        share_out = forks.on_cores if jobs == 0 else lambda function, items: [function(one) for one in items]
        return share_out(lambda by: run_once(study, participants, by, lambda: False), wanted)
    common = (study.document, str(study.folder), list(participants))
    items = {f"run {i + 1}": (*common, dict(by)) for i, by in enumerate(wanted)}
    found = {}
    with Interruption() as interruption:
        for label, result in workers.share_out(
            run_on_worker, items, directory, interruption, jobs=jobs, scheduler=scheduler
        ):
            if result is None:
                raise ParameterError([f"{label}: its worker was killed again and again: out of memory, perhaps"])
            found[label] = result
        if interruption:
            raise KeyboardInterrupt
    return [found[label] for label in items]


def powers(runs: Sequence[Sequence[Comparison]]) -> list[Power]:
    """Power of each comparison."""
    by: dict[tuple[str, str, str, str], list[Comparison]] = {}
    for run in runs:
        for one in run:
            by.setdefault((one.task, one.name, one.first, one.second), []).append(one)
    result = []
    for key, own in by.items():
        share = sum(one.corrected < ALPHA for one in own) / len(own)
        differences = np.array([one.difference.value for one in own])
        low, high = np.quantile(differences, [0.025, 0.975])
        effect = float(np.mean([one.effect for one in own if math.isfinite(one.effect)] or [math.nan]))
        spread = Measure(float(differences.mean()), float(low), float(high))
        result.append(Power(*key, len(own), wilson(share, len(own)), effect, spread))
    return result


def write(study: Study, runs: Sequence[Sequence[Comparison]], participants: int, directory: Path) -> Path:
    """Write `power.tsv`, a row a run and comparison, and the page; returns the page."""
    text = io.StringIO()
    columns = ("run", "task", "measure", "first", "second", "participants", "difference", "low", "high", "effect", "p")
    print("\t".join((*columns, "p_corrected", "found")), file=text)
    for number, run in enumerate(runs, 1):
        for one in run:
            numbers = (one.difference.value, one.difference.low, one.difference.high, one.effect, one.p, one.corrected)
            names = (number, one.task, one.name, one.first, one.second, one.count)
            cells = [*map(str, names), *map(repr, numbers), str(int(one.corrected < ALPHA))]
            print("\t".join(cells), file=text)
    write_durably(directory / "power.tsv", text.getvalue())
    head = [
        "Measure",
        "Comparison",
        "Runs",
        "Found in",
        "95 % interval",
        "Mean effect size",
        "Difference (95 % of runs)",
    ]
    rows = [
        [
            f"{one.task}: {name_of(one.name)}",
            f"{one.second} less {one.first}",
            str(one.runs),
            units.text(one.share.value, 3),
            f"{units.text(one.share.low, 3)} to {units.text(one.share.high, 3)}",
            units.text(one.effect, 3),
            f"{units.text(one.difference.value, 3)} ({units.text(one.difference.low, 3)} to "
            f"{units.text(one.difference.high, 3)})",
        ]
        for one in powers(runs)
    ]
    caption = (
        f"{len(runs)} simulated studies of {participants} participants each. Found: p below {100 * ALPHA:g} % after "
        "Holm's correction over the comparisons of the measure. Intervals by Wilson (1927)."
    )
    title = f"Power of {study.parameters.title or study.name}"
    return pages.write_page(directory, title, [Figure("Comparisons", caption, [], [head, *rows])])
