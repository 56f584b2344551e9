"""The command line. Exit status: 0 done, 1 the run failed, 2 bad input, 130 interrupted."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from haptic_bench import experiment, trial
from haptic_bench.bag import BagError
from haptic_bench.runner import Interruption
from haptic_bench.samples import MessageStore, Samples
from haptic_bench.studies import study_of
from haptic_sim.parameters import ParameterError

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str]) -> int:
    """Run a command; returns the exit status."""
    if arguments[:1] == ["test"]:  # all that follows is pytest's
        return test(arguments[1:])
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except ParameterError as error:
        for problem in error.problems:
            print(f"haptics: {problem}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="haptics", description="Bench experiments of haptic rendering on ROS 2, without hardware."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("list", help="list the experiments")
    command.set_defaults(command=list_experiments)

    command = commands.add_parser("run", help="run an experiment and report it")
    command.add_argument("experiment", help="name of an experiment, or a YAML file")
    command.add_argument(
        "--mode",
        choices=trial.MODES,
        help="default: realtime for experiments with a device, offline for the others",
    )
    command.add_argument(
        "--composed", action="store_true", help="driver, controller and what answers it in one process"
    )
    command.add_argument("--duration", metavar="S", help="length of the trial [s]; default: the experiment's")
    command.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a key of the experiment, as in contact.stiffness=2000; a list sweeps it",
    )
    command.add_argument("--out", metavar="DIR", help="new or empty directory; default: one under ./trials/")
    command.add_argument("--quiet", action="store_true", help="no progress bar")
    command.set_defaults(command=run)

    command = commands.add_parser("replay", help="play a recorded trial back on its ROS topics")
    command.add_argument("directory", help="of a trial")
    command.add_argument(
        "--verify",
        action="store_true",
        help="instead, re-simulate it and compare with what was recorded, bit by bit",
    )
    command.set_defaults(command=replay)

    command = commands.add_parser("report", help="(re)write the report of a trial or a sweep")
    command.add_argument("directory", help="of a trial")
    command.set_defaults(command=report)

    command = commands.add_parser("benchmark", help="run the benchmarks, as a table and JSON")
    command.add_argument("name", nargs="?", help="one of them; default: all")
    command.add_argument("--json", metavar="FILE", help="write the results there")
    command.set_defaults(command=benchmark)

    commands.add_parser("test", help="run the test suite; arguments are pytest's", add_help=False)
    return parser


def list_experiments(options: argparse.Namespace) -> int:
    """`haptics list`."""
    known = experiment.catalogue()
    width = max(map(len, known), default=0)
    for name, path in known.items():
        document = experiment.read_document(path)
        print(f"{name:{width}}  {document.get('title', '')} ({document.get('source', '')})")
    return DONE


def run(options: argparse.Namespace) -> int:
    """`haptics run`."""
    duration = _duration(options.duration)
    trials = experiment.load(options.experiment, options.settings, duration)
    mode = options.mode or ("offline" if trials[0].experiment.alone else "realtime")
    if options.composed and mode == "offline":
        raise ParameterError(["--composed: composes nodes, which --mode offline has none of"])
    directory = trial.new_directory(options.out, trials[0].experiment.namespace)
    with Interruption() as interruption:
        summaries = trial.run_all(trials, mode, directory, interruption, options.quiet, composed=options.composed)
        interrupted = bool(interruption)
    print(directory)
    for one, summary in zip(trials, summaries, strict=False):
        _print_summary(one.label, summary)
    print(f"  report: {directory / 'report.html'}")
    failures = [summary for summary in summaries if summary["status"] == "failed"]
    for summary in failures:
        print(f"haptics: {summary['reason']}", file=sys.stderr)
    if failures:
        return FAILED
    return INTERRUPTED if interrupted else DONE


def _duration(text: str | None) -> Any:
    """What `--duration` gives; the experiment checks it."""
    try:
        return None if text is None else yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ParameterError([f"--duration {text}: must be a number of seconds"]) from error


def _print_summary(label: str, summary: dict[str, Any]) -> None:
    speed = f", {summary['ticks'] / summary['wall_time']:.0f} a second" if summary["wall_time"] > 0.0 else ""
    print(
        f"  {label or summary['experiment']}: {summary['status']}, {summary['ticks']} ticks ({summary['mode']}{speed})"
    )
    for name, value in summary["metrics"].items():
        print(f"    {name:36} {'-' if value is None else format(value, '.6g')}")
    verdicts = [claim["holds"] for claim in summary["claims"]]
    if verdicts:
        undecided = f", {verdicts.count(None)} undecided" if None in verdicts else ""
        print(f"    claims: {verdicts.count(True)} hold, {verdicts.count(False)} do not{undecided}")


def _trial_directory(name: str) -> Path:
    directory = Path(name)
    if not (directory / "summary.json").is_file():
        raise ParameterError([f"{name}: is not the directory of a trial (it has no summary.json)"])
    return directory


def replay(options: argparse.Namespace) -> int:
    """`haptics replay DIR [--verify]`."""
    directory = _trial_directory(options.directory)
    if not options.verify:
        return _play(directory)
    summary = trial.read_summary(directory)
    runs = [directory / run["directory"] for run in summary["sweep"]["runs"]] if "sweep" in summary else [directory]
    different = 0
    for one in runs:
        problem = _verify(one)
        print(f"{one}: {problem or 'identical, bit by bit'}")
        different += bool(problem)
    return FAILED if different else DONE


def _play(directory: Path) -> int:
    from haptic_bench.playback import play

    with Interruption() as interruption:
        try:
            print(f"{play(directory, interruption)} messages")
        except BagError as error:
            raise ParameterError([str(error)]) from error
        return INTERRUPTED if interruption else DONE


def _verify(directory: Path) -> str:
    """What differs between a recorded trial and its simulation; empty if nothing.

    A trial whose ticks waited for each other is simulated again as a whole. In realtime each core is, from the inputs
    that it had.
    """
    recorded_trial = experiment.read_resolved(directory / "experiment.yaml")
    recorded = trial.read_samples(recorded_trial, directory)
    if not len(recorded):
        return "nothing was recorded"
    summary = trial.read_summary(directory)
    if summary["mode"] != "realtime":
        return _compare_samples(recorded, recorded_trial)
    from haptic_bench.resimulation import resimulate
    from haptic_bench.trial_bag import read_messages

    verdict = resimulate(recorded_trial, read_messages(directory))
    for line in verdict.unverified[:5]:
        print(f"{directory}: not verifiable: {line}", file=sys.stderr)
    return verdict.difference or ("" if verdict.compared else "nothing could be compared")


def _compare_samples(recorded: Samples, recorded_trial: experiment.Trial) -> str:
    store, study = MessageStore(), study_of(recorded_trial.experiment)
    study.simulate(recorded_trial, store)
    again = study.samples(recorded_trial, store.messages)
    for name in recorded.names:
        was_nan, now_nan = np.isnan(recorded[name]), np.isnan(again[name][: len(recorded)])
        unequal = (recorded[name] != again[name][: len(recorded)]) & ~(was_nan & now_nan)
        if unequal.any():
            row = int(unequal.argmax())
            was, now = recorded[name][row], again[name][row]
            return f"{name} differs from tick {row} on: {was!r} recorded, {now!r} simulated"
    return ""


def report(options: argparse.Namespace) -> int:
    """`haptics report DIR`."""
    from haptic_bench import report as pages

    directory = _trial_directory(options.directory)
    summary = trial.read_summary(directory)
    for run in summary.get("sweep", {}).get("runs", []):
        pages.write(directory / run["directory"])
    print(pages.write(directory))
    return DONE


def benchmark(options: argparse.Namespace) -> int:
    """`haptics benchmark [NAME]`."""
    from haptic_bench import benchmark as suite

    return suite.run(options.name, options.json)


def test(arguments: Sequence[str]) -> int:
    """`haptics test [PYTEST ARGS]`."""
    root = Path(__file__).resolve().parent.parent
    os.chdir(root)
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *arguments])
