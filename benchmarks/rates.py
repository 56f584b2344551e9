"""Benchmark of local models: what a hand feels of a wall, against the rate of the environment.

Two trials of THESIS 6.4.2 are simulated offline at a servo rate of 1 kHz, with a device that is coupled directly: they
differ in nothing but what answers between two updates. An environment of rate f computes for one period 1/f.

 - `static_wall`: largest penetration of the hand, and largest step of the force;
 - `tight_clearance`: motion of the hand in a hole that fits it exactly, and largest step of the force;
 - `static_wall` again, by bisection: the highest contact stiffness with which the wall gives back no more energy than
   it got, damped as DAMPING_TIME says. What is stable need not be monotonic: the bisection finds one bound.

A force step is that from one tick to the next, of those in which no collision is resolved: the wall's force after an
impact counts, its impulse does not. A local model that applies the environment's impulses (held) resolves none itself:
they are among its steps.
"""

from __future__ import annotations

import csv
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

import numpy as np

from haptic_bench import experiment
from haptic_bench.analysis.base import analysis_of
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_bench.report import pages
from haptic_bench.trials.trial import progress_bar
from haptic_experiments.common.local_models import felt_clearance, inside
from haptic_experiments.static_wall import wall_position
from haptic_view.figures import Axis, Figure, Line, draw, style_of

SERVO = 1000  # [Hz]
RATES = (5, 10, 20, 60, 200, 1000)  # [Hz] of the environment
DURATION = 3.0  # [s] of each trial
DAMPING_TIME = 1.0 / 150.0  # [s] damping over stiffness, as 100 N s/m on 15,000 N/m (THESIS 6.4.3)
SOFTEST, STIFFEST = 10.0, 1e5  # [N/m] between which a stiffness is sought
HALVINGS = 8  # of the decades between them: to 3.7 %
MORE = 0.05  # of the energy that the push gives on its way to the wall: a wall that gives back more adds some

CONTENDERS: Mapping[str, Mapping[str, str]] = {
    "full": {"epsilon": "0.005"},
    "full, prediction": {"epsilon": "0.005", "prediction": "velocity"},
    "full, no deformation": {"epsilon": "0.005", "deformation": "false"},
    "full, epsilon 0": {"epsilon": "0"},
    "intermediate_representation": {"type": "intermediate_representation", "epsilon": "0"},
    "resolve": {"type": "resolve", "epsilon": "0.005"},
    "held": {"type": "held", "epsilon": "0"},
}
"""Keys of `local_model`, by what they are called in the table."""
NO_STIFFNESS = ("resolve",)  # its force has none


@dataclass(frozen=True)
class Cell:
    """Results of a contender at a rate of the environment.

    Attributes:
        contender: of CONTENDERS.
        rate: of the environment [Hz].
        force_step: largest change of the force between ticks without collisions [N].
        penetration: largest penetration of the hand into the wall [m], infinite if it passed through the enclosure.
        clearance: motion of the hand in the hole, peak to peak [m], infinite if it left it.
        stiffness: highest stable contact stiffness [N/m]; NaN where there is none to choose.
        bound: what the stiffness is: "": found; "at least", "below": the ends of what was tried.
    """

    contender: str
    rate: int
    force_step: float
    penetration: float
    clearance: float
    stiffness: float
    bound: str


def load(name: str, contender: str, rate: int, *settings: str) -> Trial:
    """An experiment as it is measured."""
    keys = [f"local_model.{key}={value}" for key, value in CONTENDERS[contender].items()]
    common = [f"rate={SERVO}", f"environment.rate={rate}", "environment.publish=null", "controller.type=direct"]
    (trial,) = experiment.load(name, [*common, *keys, *settings], duration=DURATION)
    return trial


def run(trial: Trial) -> tuple[Samples, bool]:
    """The samples of a trial as long as the hand is in the enclosure, and whether it is so to the end."""
    with np.errstate(over="ignore", invalid="ignore"):  # of what diverges
        samples, reason = analysis_of(trial.experiment).attempt(trial)
    kept = inside(trial.experiment, samples.finite())
    return kept, not reason and len(kept) == trial.experiment.last_tick + 1


def largest_step(samples: Samples) -> float:
    """Largest change of the force on the tool from one tick without a collision to the next [N]."""
    force = samples.wrench("env")[samples["colliding"] == 0, :3]
    return float(np.linalg.norm(np.diff(force, axis=0), axis=1).max(initial=0.0))


def excess_energy(trial: Trial, samples: Samples) -> float:
    """Largest energy of the hand beyond what the push has given it, of that up to the wall.

    The push is constant, so that the hand has less than what it has got of the push, unless the wall gives some.
    """
    of = trial.experiment
    force = samples.wrench("operator")[0, :3]
    place = samples.pose("hand")[:, :3]
    got = (place - place[0]) @ force
    to_the_wall = float(np.linalg.norm(force)) * (place[0, 1] - wall_position(of))
    mass, inertia = (getattr(of.device, name) for name in ("mass", "inertia"))
    twist = samples.twist("hand")
    kinetic = 0.5 * mass * np.sum(twist[:, :3] ** 2, axis=1) + 0.5 * inertia * np.sum(twist[:, 3:] ** 2, axis=1)
    return float((kinetic - got).max()) / to_the_wall


def is_stable(contender: str, rate: int, stiffness: float) -> bool:
    """Whether a wall of a stiffness [N/m] gives back no more energy than it got."""
    contact = (f"contact.stiffness={stiffness!r}", f"contact.damping={stiffness * DAMPING_TIME!r}")
    trial = load("static_wall", contender, rate, *contact)
    samples, whole = run(trial)
    return whole and excess_energy(trial, samples) <= MORE


def highest_stiffness(stable: Callable[[float], bool]) -> tuple[float, str]:
    """The highest stable stiffness [N/m] by bisection of its logarithm, and which bound it is, see `Cell`."""
    if stable(STIFFEST):
        return STIFFEST, "at least"
    if not stable(SOFTEST):
        return SOFTEST, "below"
    low, high = math.log10(SOFTEST), math.log10(STIFFEST)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if stable(10.0**middle) else (low, middle)
    return 10.0**low, ""


def measure(contender: str, rate: int) -> Cell:
    """Measure a contender at a rate of the environment."""
    wall, hole = (load(name, contender, rate) for name in ("static_wall", "tight_clearance"))
    pushed, stays = run(wall)
    shaken, fits = run(hole)
    if contender in NO_STIFFNESS:
        stiffness, bound = math.nan, ""
    else:
        stiffness, bound = highest_stiffness(lambda K: is_stable(contender, rate, K))
    return Cell(
        contender,
        rate,
        max(largest_step(pushed), largest_step(shaken)),
        wall_position(wall.experiment) - float(pushed["hand_py"].min()) if stays else math.inf,
        felt_clearance(shaken, "x") if fits else math.inf,
        stiffness,
        bound,
    )


def measure_all(contenders: Sequence[str], rates: Sequence[int]) -> Iterator[Cell]:
    """Measure on all cores; cells as they are done."""
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), _prepare) as pool:
        # the slow environments first: the pool ends evenly
        due = [pool.submit(measure, contender, rate) for rate in rates for contender in contenders]
        try:
            for done in as_completed(due):
                yield done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _prepare() -> None:
    """Leave interruptions to the command, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def describe(cell: Cell) -> list[str]:
    """The numbers of a cell as they are shown: step [N], penetration [mm], clearance [mm], stiffness [N/m]."""
    depth, motion = (
        "passed" if math.isinf(value) else f"{1e3 * value:.3g}" for value in (cell.penetration, cell.clearance)
    )
    sign = {"": "", "at least": "\N{GREATER-THAN OR EQUAL TO}", "below": "<"}[cell.bound]
    stiffness = "-" if math.isnan(cell.stiffness) else f"{sign}{cell.stiffness:.3g}"
    return [f"{cell.force_step:.3g}", depth, motion, stiffness]


TITLES = ("force step [N]", "penetration [mm]", "clearance [mm]", "stiffness [N/m]")


def figures(cells: Sequence[Cell]) -> list[Figure]:
    """The four numbers over the rate of the environment, and the table."""
    names = [name for name in CONTENDERS if any(cell.contender == name for cell in cells)]
    of = {
        name: sorted((cell for cell in cells if cell.contender == name), key=lambda cell: cell.rate) for name in names
    }
    panels = []
    for key, title, scale in (
        ("force_step", "largest force step between ticks [N]", 1.0),
        ("penetration", "largest penetration of the hand [mm]", 1e3),
        ("clearance", "motion in a hole that fits exactly [mm]", 1e3),
        ("stiffness", "highest stable contact stiffness [N/m]", 1.0),
    ):
        lines = [
            Line(
                np.array([cell.rate for cell in of[name]], float),
                np.array([max(scale * getattr(cell, key), 1e-6) for cell in of[name]]),
                name,
                style_of(i),
            )
            for i, name in enumerate(names)
        ]
        panels.append(draw(key, title, lines, Axis("rate of the environment [Hz]", log=True), Axis(title, log=True)))
    table = [["local model", "rate [Hz]", *TITLES]]
    table += [[name, f"{cell.rate}", *describe(cell)] for name in names for cell in of[name]]
    caption = (
        f"Offline at a servo rate of {SERVO} Hz, {DURATION:g} s each: a peg of 2 kg pushed against a wall with 0.5 N, "
        "and shaken with 1 N in a hole that fits it exactly, on contacts of 4000 N/m and 30 N s/m; the environment "
        "computes for one period. The highest stable stiffness is that of a wall which gives back no more energy than "
        f"it got, damped by {DAMPING_TIME:.2g} s times the stiffness, sought between {SOFTEST:g} and {STIFFEST:g} N/m. "
        "The force of resolve has no stiffness. passed: the hand passed through the walls."
    )
    return [Figure("Local models and the rate of the environment", caption, panels, table)]


def rows(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """The cells for JSON, which has neither infinities nor NaN: None stands for both."""
    return [
        {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in asdict(cell).items()
        }
        for cell in cells
    ]


def write(cells: Sequence[Cell], directory: Path) -> Path:
    """Write rates.csv, figures and the page into a directory; returns the page."""
    directory.mkdir(parents=True, exist_ok=True)
    order = list(CONTENDERS)
    ordered = sorted(cells, key=lambda cell: (order.index(cell.contender), cell.rate))
    with (directory / "rates.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(ordered[0])), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(cell) for cell in ordered)
    return pages.write_page(directory, "Local models against the rate of the environment", figures(ordered))


def tabulate(out: Path) -> list[Cell]:
    """Measure all, show what is done, and write the page into a directory."""
    cells: list[Cell] = []
    with progress_bar(len(CONTENDERS) * len(RATES), "rates", quiet=False, unit="cells") as show:
        for cell in measure_all(list(CONTENDERS), RATES):
            cells.append(cell)
            if show is not None:
                show(len(cells))
            else:
                numbers = ", ".join(f"{title}: {number}" for title, number in zip(TITLES, describe(cell), strict=True))
                print(f"    {cell.contender}, {cell.rate} Hz: {numbers}", flush=True)
    print(f"    {write(cells, out)}", flush=True)
    return cells
