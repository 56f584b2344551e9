"""The functions of the commands `haptics study ...`; haptic_bench/commands/command_line.py declares them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from haptic_bench.commands.cli import kinds_of
from haptic_bench.commands.command_line import DONE, FAILED
from haptic_bench.commands.options import whole
from haptic_bench.running import forks
from haptic_bench.running.runner import Interruption
from haptic_bench.set_up import failures
from haptic_bench.trials import workers
from haptic_bench.trials.trial import new_directory
from haptic_sim import inputs
from haptic_sim.kernels import progress
from haptic_sim.parameters import ParameterError, listed
from haptic_study import file, page, repetition, running, sharing, tables
from haptic_study.analysis import estimates_of, groups, name_of, recoveries
from haptic_study.dataset import SOURCE, Dataset, Recording
from haptic_study.journal import JournalError, write_durably
from haptic_study.observers import ObserverParameters, observer_of
from haptic_study.outlets import mark_of, open_outlets, send
from haptic_study.plan import check_felt, plan
from haptic_study.presenting import PresentationError, present
from haptic_study.session import End
from haptic_study.simulation import observer_of_session, run_session

SIMULATION = "simulation.json"
"""File in `sourcedata` with the simulated participants."""


def _in_words(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """The command, whose failures are said in a line."""

    @wraps(command)
    def run(options: argparse.Namespace) -> int:
        try:
            return command(options)
        except (JournalError, PresentationError) as error:
            print(f"haptics: {error}", file=sys.stderr)
            return FAILED

    return run


@_in_words
def list_studies(options: argparse.Namespace) -> int:
    """`haptics study list`."""
    for name in file.known_studies():
        study = file.load(name)
        print(f"{name}  {study.parameters.title} ({study.parameters.source})")
    return DONE


@_in_words
def validate(options: argparse.Namespace) -> int:
    """`haptics study validate STUDY`."""
    study = file.load(options.study)
    print(f"{study.name}: valid, {plan(study)}")
    return DONE


@_in_words
def simulate(options: argparse.Namespace) -> int:
    """`haptics study simulate STUDY`."""
    study = file.load(options.study)
    count, seed = whole("--participants", options.participants), whole("--seed", options.seed)
    if not count:
        raise ParameterError([f"--participants {options.participants}: must be at least 1"])
    observer = observer_of(options.observer, study.parameters.observer)
    foreseen = plan(study)
    jobs = _workers(options)
    device = options.percepts == "device"
    if not device:
        check_felt(study)
    repeats = whole("--repeat", options.repeat)
    codes = [f"{i + 1:0{max(2, len(str(count)))}d}" for i in range(count)]
    if repeats is not None:
        return _repeat(options, study, codes, observer, jobs)
    if options.out is not None and (Path(options.out) / SOURCE).exists():
        dataset = Dataset.open(Path(options.out))
        dataset.check_same(study)
        count = len(dataset.sessions())
        raise ParameterError(
            [f"{options.out}: has {count} sessions; `haptics study resume {options.out}` continues them"]
        )
    directory = new_directory(options.out, study.name)
    print(f"{study.name}: {foreseen}", file=sys.stderr)
    print(f"haptics: after an interruption: haptics study resume {directory}", file=sys.stderr, flush=True)
    dataset = Dataset.create(directory, study, file.find_study(options.study))
    with dataset.held():
        wanted = {
            "participants": codes,
            "device": device,
            "observer": observer.model_dump(mode="json"),
            "seed": seed or 0,
            "record": options.record,
        }
        write_durably(directory / SOURCE / SIMULATION, json.dumps(wanted, indent=2) + "\n")
        return _simulate(dataset, wanted, jobs, options.scheduler)


def _workers(options: argparse.Namespace) -> int:
    """Number of processes that are asked for; 0: as many as cores, by forks.

    Raises:
        ParameterError: the options do not fit, or there is no Dask for them.
    """
    jobs = whole("--jobs", options.jobs)
    if jobs == 0:
        raise ParameterError(["--jobs 0: must be at least 1"])
    if jobs is not None and options.scheduler:
        raise ParameterError(["--jobs, --scheduler: a scheduler has its own workers; leave --jobs out"])
    if (jobs or 0) > 1 or options.scheduler:
        workers.require()
    return jobs or 0


def _repeat(
    options: argparse.Namespace, study: file.Study, codes: list[str], observer: ObserverParameters, jobs: int
) -> int:
    """Simulate a study several times, for its power."""
    count, seed = whole("--repeat", options.repeat) or 0, whole("--seed", options.seed) or 0
    if not count:
        raise ParameterError([f"--repeat {options.repeat}: must be at least 1"])
    if options.record:
        raise ParameterError(["--record, --repeat: runs for the power of a study are not recorded; leave one out"])
    if not file.condition_labels(study.parameters):
        raise ParameterError([f"--repeat: {study.name} has no conditions to be compared; give it factors"])
    directory = new_directory(options.out, f"{study.name}_power")
    kept = observer.model_dump(mode="json")
    device = options.percepts == "device"
    wanted = [{"kind": "simulated", "observer": kept, "seed": seed + i, "device": device} for i in range(count)]
    if device:
        _prepare(study, observer)
    runs = repetition.repeat(study, codes, wanted, directory, jobs=jobs, scheduler=options.scheduler)
    written = repetition.write(study, runs, len(codes), directory)
    print(directory)
    for one in repetition.powers(runs):
        number = f"{round(one.share.value * one.runs)} of {one.runs} runs"
        share = f"found in {number}, {one.share.value:.2f} ({one.share.low:.2f} to {one.share.high:.2f})"
        print(f"  {one.task}: {name_of(one.name)}, {one.second} less {one.first}: {share}")
    print(f"  report: {written}")
    return DONE


def _prepare(study: file.Study, observer: ObserverParameters) -> None:
    """Compile what a trial needs before processes fork."""
    progress.report = progress.Progress(lambda text: print(f"haptics: {text}", file=sys.stderr))
    present(study, observer_of_session(observer, "first").motion("first"))


@_in_words
def run(options: argparse.Namespace) -> int:
    """`haptics study run STUDY --participant CODE`."""
    study = file.load(options.study)
    if options.seed is not None:
        study = replace(study, parameters=study.parameters.model_copy(update={"seed": whole("--seed", options.seed)}))
    session = whole("--session", options.session) or 1
    running.device_settings(study, options.device)
    foreseen = plan(study)
    directory = Path(options.out or Path("trials") / study.name)
    if (directory / SOURCE).exists():
        dataset = Dataset.open(directory)
        dataset.check_same(study)
    else:
        dataset = Dataset.create(new_directory(str(directory), study.name), study, file.find_study(options.study))
    by = {"kind": "person", "device": options.device, "began": running.began()}
    with dataset.held():
        print(f"{study.name}: {foreseen}", file=sys.stderr)
        with dataset.begin(options.participant, session, by) as recording:
            return _conduct(dataset, recording, options, foreseen.trials[1])


def _conduct(dataset: Dataset, recording: Recording, options: argparse.Namespace, expected: int) -> int:
    """Conduct a session with a person, and write tables and page."""
    ports = [
        None if one is None else whole(name, one)
        for name, one in (("--port", options.port), ("--experimenter-port", options.experimenter_port))
    ]
    progress.report = progress.Progress(lambda text: print(f"haptics: {text}", file=sys.stderr))
    device, study = recording.first["by"].get("device"), dataset.study
    with Interruption() as interruption, open_outlets(options.outlet, study.parameters.codes) as outlets:
        problem = running.conduct(
            recording,
            device,
            interruption,
            ports=ports,
            expected=expected,
            subscribers=[lambda step, event: send(outlets, mark_of(study, step, event))],
        )
    if problem:
        print(f"haptics: {problem}", file=sys.stderr)
    if not recording.ended:
        print(f"haptics: haptics study resume {dataset.directory}", file=sys.stderr)
    done = _conclude(dataset)
    return FAILED if problem else interruption.status if interruption and not recording.ended else done


def _open_session(dataset: Dataset, options: argparse.Namespace) -> tuple[str, int] | None:
    """The session with a person that is to be resumed; None: there is none.

    Raises:
        ParameterError: several can be, and none is named.
    """
    open_ones = []
    for participant, number in dataset.sessions():
        if options.participant in (None, participant) and options.session in (None, str(number)):
            session, first = dataset.replayed(participant, number)
            if first.get("by", {}).get("kind") == "person" and not isinstance(session.step, End):
                open_ones.append((participant, number))
    if len(open_ones) > 1:
        known = listed([f"{code}, session {number}" for code, number in open_ones], 12)
        raise ParameterError([f"{dataset.directory}: sessions of {known} have not ended; add --participant CODE"])
    return open_ones[0] if open_ones else None


@_in_words
def resume(options: argparse.Namespace) -> int:
    """`haptics study resume DIR`."""
    dataset = Dataset.open(Path(options.study))
    with dataset.held():
        if (found := _open_session(dataset, options)) is not None:
            with dataset.resume(*found) as recording:
                _print_progress(recording)
                return _conduct(dataset, recording, options, plan(dataset.study).trials[1])
        path = dataset.directory / SOURCE / SIMULATION
        if not path.is_file():
            raise ParameterError([f"{dataset.directory}: has no session that could be resumed"])
        wanted = inputs.read_json(inputs.read_text(path))
        for participant, number in dataset.sessions():
            with dataset.resume(participant, number) as recording:
                if not recording.ended:
                    _print_progress(recording)
        return _simulate(dataset, wanted)


def _print_progress(recording: Recording) -> None:
    """Say how far a session has come that is resumed."""
    session = recording.session
    answered = sum(row.status == "answered" for row in session.rows)
    cut = "" if recording.cut is None else f"; trial {recording.cut.number} was cut and is presented again"
    print(f"participant {session.participant}, session {session.number}: {answered} trials answered{cut}")


def _simulate(dataset: Dataset, wanted: dict[str, Any], jobs: int = 0, scheduler: str = "") -> int:
    """Run what is left of the simulated sessions, and write tables and page."""
    by = {"kind": "simulated", "observer": wanted["observer"], "seed": wanted["seed"]}
    if not wanted.get("device", True):
        by["device"] = False
    else:
        _prepare(dataset.study, ObserverParameters.model_validate(wanted["observer"]))
    participants = wanted["participants"]

    def notify(participant: str) -> None:
        """Whoever waits sees each session end."""
        failures.notify(f"participant {participant} has been simulated, {len(participants)} in all")

    if jobs > 1 or scheduler:
        with Interruption() as interruption:
            sharing.run_sessions(
                dataset, participants, by, wanted["record"], interruption, jobs=jobs, scheduler=scheduler, notify=notify
            )
            if interruption:
                raise KeyboardInterrupt
    else:

        def simulate(participant: str) -> None:
            """Run the session of a participant, in a fork where there are several cores."""
            run_session(dataset, participant, by, wanted["record"], lambda: False)
            notify(participant)

        if jobs == 1:
            for participant in participants:
                simulate(participant)
        else:
            forks.on_cores(simulate, participants)
    return _conclude(dataset)


@_in_words
def report(options: argparse.Namespace) -> int:
    """`haptics study report DIR`."""
    kinds = kinds_of(options.figures)
    dataset = Dataset.open(Path(options.study))
    with dataset.held():
        return _conclude(dataset, kinds)


@_in_words
def exclude(options: argparse.Namespace) -> int:
    """`haptics study exclude DIR PARTICIPANT TRIAL --reason TEXT`."""
    dataset = Dataset.open(Path(options.study))
    trial, session = whole("TRIAL", options.trial), whole("--session", options.session)
    with dataset.held():
        if (options.participant, session) not in dataset.sessions():
            known = listed([f"{code}, session {number}" for code, number in dataset.sessions()], 12)
            problem = f"participant {inputs.shown(options.participant)}, session {session}: is not there"
            raise ParameterError([f"{problem} (known: {known})"])
        with dataset.resume(options.participant, session or 1) as recording:
            recording.apply({"event": "exclude", "trial": trial, "reason": options.reason, "time": recording.time})
        return _conclude(dataset)


def _conclude(dataset: Dataset, kinds: Sequence[str] = ()) -> int:
    """Write tables and page, and print the results over all."""
    tables.write(dataset)
    estimates = estimates_of(dataset)
    written = page.write(dataset, estimates, kinds)
    print(dataset.directory)
    for one in groups(estimates, file.condition_labels(dataset.study.parameters)):
        interval = f" ({one.mean.low:.4g} to {one.mean.high:.4g})" if len(one.values) > 1 else ""
        print(
            f"  {page.where(one)}: {name_of(one.name)} {one.mean.value:.4g}{interval}, {len(one.values)} participants"
        )
    for found in recoveries(dataset, estimates):
        truth = f"{name_of(found.name)} of the simulated observers {found.truth:.4g}"
        print(f"  {page.where(found)}: {truth}; {found.held} of {found.count} intervals hold it")
    print(f"  report: {written}")
    return DONE
