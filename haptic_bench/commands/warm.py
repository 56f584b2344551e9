"""Compile the kernels of a command before it runs, on all cores, so that no trial waits for them.

A kernel is compiled when it is first called, and kept for all later processes (haptic_sim/kernels). So the
parts of a trial are called in several forks, each of which finds the kernels that the others have compiled. Then a
few ticks of the trial, and of the references that its analysis compares it with, call the remaining kernels. Those
that only a later trial needs are compiled when they are called. What draws reports is imported, too, so that its
bytecode is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from haptic_bench import experiment
from haptic_bench.analysis.base import analysis_of
from haptic_bench.commands import command_line
from haptic_bench.experiment import Trial
from haptic_sim.contact.methods import Method, contact_method
from haptic_sim.contact_rows import ContactRows
from haptic_sim.kernels import progress
from haptic_sim.tool.environment import detector
from haptic_sim.tool.tool_side import is_constrained
from haptic_sim.tool.virtual_tool import VirtualTool
from haptic_view.figures import import_matplotlib

DURATION = 0.05  # [s]
RUNS = 4  # of a sweep, which mostly call the same kernels
ALL: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("corner_peg", ("scene.gap=[1e-5,1e-5]", "analysis=trial")),
    ("corner_peg", ("scene.gap=[1e-5,1e-5]", "device.impulse_rendering=spread", "analysis=trial")),
    ("corner_peg", ("local_model.type=full", "environment.rate=60", "analysis=trial")),
    ("incline", ("analysis=trial",)),
    ("bounce_settle", ("scene.height=0.01", "analysis=trial")),
    ("stack", ("scene.boxes=3", "analysis=trial")),
    ("frictional_impact", ("scene.gap=0.001", "analysis=trial")),
    ("constrained_contact", ("analysis=trial",)),
    ("rolling_disk", ("analysis=trial",)),
    ("rolling_disk", ("device.type=admittance", "device.noise=[0.01,0.001]", "analysis=trial")),
    ("door", ("analysis=trial",)),
)
"""Experiments and settings of trials that together call nearly every kernel."""


def main(arguments: list[str]) -> None:
    """Compile what a command needs: the kernels of the experiment that it runs, or all for tests and benchmarks."""
    trials = list(trials_of(arguments))
    with ProcessPoolExecutor(os.cpu_count(), get_context("fork"), _prepare) as pool:
        for calls in ([*parts_of(trials), import_matplotlib], [partial(analyse, trial) for trial in trials]):
            for done in [pool.submit(call) for call in calls]:
                with contextlib.suppress(Exception):  # of which the command itself will tell
                    done.result()


def trials_of(arguments: list[str]) -> Iterator[Trial]:
    """Short trials that call the kernels of a command."""
    if arguments[:1] in (["test"], ["benchmark"], ["campaign"]):
        for name, settings in ALL:
            yield from experiment.load(name, list(settings), duration=DURATION)
        return
    options = command_line.parse(arguments) if arguments else argparse.Namespace()
    if getattr(options, "command", "") == "haptic_bench.commands.cli:run":
        yield from experiment.load(options.experiment, options.settings, duration=DURATION)[:RUNS]


def parts_of(trials: Sequence[Trial]) -> Iterator[Callable[[], None]]:
    """Calls of the parts of trials, longest first: contact by each method, and collision detection."""
    in_contact = [trial for trial in trials if not is_constrained(trial.experiment)]
    methods: dict[Method, Trial] = {}
    for trial in in_contact:
        for method in (trial.experiment.environment.method, *analysis_of(trial.experiment).METHODS):
            methods.setdefault(contact_method(method), trial)
    responses = [partial(respond, trial, method) for method, trial in methods.items()]
    yield from responses[:1]
    yield from (partial(detect, trial) for trial in in_contact[:1])
    yield from responses[1:]


def respond(trial: Trial, method: Method) -> None:
    """Call the kernels of contact: by far the most."""
    one = trial.experiment
    limits = one.limits
    VirtualTool(trial.world, one.contact, method, limits.impulse_rendering, limits.limit(), one.rate).warm_up()


def detect(trial: Trial) -> None:
    """Call the kernels of collision detection."""
    one = trial.experiment
    world = trial.world
    bodies = world.bodies(1.0 / one.rate)
    detector(world, one.contact).detect(bodies.data, 1e3, ContactRows(), bodies.q)


def analyse(trial: Trial) -> None:
    """Simulate a trial as its analysis does, and what it is compared with."""
    analysis = analysis_of(trial.experiment)
    analysis.analyse(trial, analysis.run_unrecorded(trial))


def _prepare() -> None:
    """Let this process print the name of each kernel that it has compiled, and seldom look for garbage."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)  # the compiler makes many small objects, of which hardly any are in circles
    known = 0

    def notify(compiled: int, name: str) -> None:
        nonlocal known
        if compiled > known:
            known = compiled
            print(name, flush=True)

    progress.report = notify


if __name__ == "__main__":
    main(sys.argv[1:])
