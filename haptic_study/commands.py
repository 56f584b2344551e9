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
from haptic_bench.trials.trial import new_directory
from haptic_sim import inputs
from haptic_sim.kernels import progress
from haptic_sim.parameters import ParameterError, listed
from haptic_study import file, page, running, tables
from haptic_study.analysis import NAMES, estimates_of, groups, recoveries
from haptic_study.dataset import SOURCE, Dataset, Recording
from haptic_study.journal import JournalError, write_durably
from haptic_study.observers import ObserverParameters, observer_of
from haptic_study.plan import plan
from haptic_study.presenting import PresentationError, present
from haptic_study.session import End
from haptic_study.simulation import SimulatedParticipant, observer_of_session

SIMULATION = "simulation.json"
"""In `sourcedata`: which simulated participants there are to be."""


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
            "participants": [f"{i + 1:0{max(2, len(str(count)))}d}" for i in range(count)],
            "observer": observer.model_dump(mode="json"),
            "seed": seed or 0,
            "record": options.record,
        }
        write_durably(directory / SOURCE / SIMULATION, json.dumps(wanted, indent=2) + "\n")
        return _simulate(dataset, wanted)


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
    device = recording.first["by"].get("device")
    with Interruption() as interruption:
        problem = running.conduct(recording, device, interruption, ports=ports, expected=expected)
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
                _say_where(recording)
                return _conduct(dataset, recording, options, plan(dataset.study).trials[1])
        path = dataset.directory / SOURCE / SIMULATION
        if not path.is_file():
            raise ParameterError([f"{dataset.directory}: has no session that could be resumed"])
        wanted = inputs.read_json(inputs.read_text(path))
        for participant, number in dataset.sessions():
            with dataset.resume(participant, number) as recording:
                if not recording.ended:
                    _say_where(recording)
        return _simulate(dataset, wanted)


def _say_where(recording: Recording) -> None:
    """Say how far a session has come that is resumed."""
    session = recording.session
    answered = sum(row.status == "answered" for row in session.rows)
    cut = "" if recording.cut is None else f"; trial {recording.cut.number} was cut and is presented again"
    print(f"participant {session.participant}, session {session.number}: {answered} trials answered{cut}")


def _simulate(dataset: Dataset, wanted: dict[str, Any]) -> int:
    """Run what is left of the simulated sessions, and write tables and page."""
    progress.report = progress.Progress(lambda text: print(f"haptics: {text}", file=sys.stderr))
    present(dataset.study, _first_motion(dataset, wanted))  # compiles before the processes fork

    def run(participant: str) -> None:
        by = {"kind": "simulated", "observer": wanted["observer"], "seed": wanted["seed"]}
        begun = (participant, 1) in dataset.sessions()  # also where a process has ended in the middle of it
        opened = dataset.resume(participant, 1) if begun else dataset.begin(participant, 1, by)
        with opened as recording:
            SimulatedParticipant(dataset, recording, record=wanted["record"]).run()

    forks.on_cores(run, wanted["participants"])
    return _conclude(dataset)


def _first_motion(dataset: Dataset, wanted: dict[str, Any]) -> dict[str, Any]:
    return observer_of_session(ObserverParameters.model_validate(wanted["observer"]), "first").motion("first")


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
    for one in groups(estimates):
        interval = f" ({one.mean.low:.4g} to {one.mean.high:.4g})" if len(one.values) > 1 else ""
        print(f"  {page.where(one)}: {NAMES[one.name]} {one.mean.value:.4g}{interval}, {len(one.values)} participants")
    for found in recoveries(dataset, estimates):
        truth = f"{NAMES[found.name]} of the simulated observers {found.truth:.4g}"
        print(f"  {found.task}: {truth}; {found.held} of {found.count} intervals hold it")
    print(f"  report: {written}")
    return DONE
