"""The functions of the commands run, list, validate, replay, report, repair, benchmark and test.

command_line.py declares the commands and calls these functions.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from haptic_bench import experiment
from haptic_bench.commands.command_line import DONE, FAILED, KINDS
from haptic_bench.commands.options import number, whole
from haptic_bench.experiment import reference
from haptic_bench.experiment.system import args_of, load_given
from haptic_bench.recording.bag import BagError
from haptic_bench.recording.summary import is_complete, read_summary, runs_of
from haptic_bench.replay import verification
from haptic_bench.replay.playback import Playing, play
from haptic_bench.report import pages
from haptic_bench.running import namespaces
from haptic_bench.running.runner import Interruption
from haptic_bench.running.viewing import Viewing
from haptic_bench.trials import sweep, trial, workers
from haptic_robot.adapters import ADAPTERS
from haptic_sim import inputs
from haptic_sim.kernels import progress
from haptic_sim.parameters import ParameterError, listed
from haptic_sim.parts import groups
from haptic_view import vector

LISTED = 12  # runs of a sweep that are shown one by one


def describe(options: argparse.Namespace) -> int:
    """`haptics list NAME [--json]`."""
    if options.experiment in KINDS:
        group = (groups() | {ADAPTERS.name: ADAPTERS})[options.experiment]  # no section declares it
        if options.json:
            print(json.dumps([reference.registered(entry) for entry in group.entries().values()], indent=2))
            return DONE
        for line in reference.parts(group):
            print(line)
        return DONE
    for line in reference.describe(experiment.load(options.experiment)[0].experiment, options.experiment):
        print(line)
    return DONE


def validate(options: argparse.Namespace) -> int:
    """`haptics validate EXPERIMENT|FILE`."""
    trials = load_given(
        options.experiment, options.settings, options.duration, args_of(options.args), tuple(options.packages)
    )
    _print_notes(trials)
    for one in trials:
        for device in (one.experiment.device, *(hand.device for hand in one.experiment.hands)):
            device.check_driver()
    for one in trials:
        ticks = one.experiment.last_tick + 1
        label = f", {one.label}" if one.label else ""
        print(f"{one.experiment.name}{label}: valid, {ticks} ticks at {one.experiment.rate:g} Hz")
    return DONE


def _print_notes(trials: Sequence[experiment.Trial]) -> None:
    """Say what is not simulated, or without effect, and warnings."""
    for note in dict.fromkeys(note for one in trials for note in one.notes):
        print(f"haptics: {note}", file=sys.stderr)


def _show_compilation(quiet: bool = False) -> None:
    """Show the progress of the compilation of kernels, on a terminal."""
    if not quiet and sys.stderr.isatty():
        progress.report = progress.Progress(lambda text: print(f"haptics: {text}", file=sys.stderr))


def run(options: argparse.Namespace) -> int:
    """`haptics run`."""
    _show_compilation(options.quiet)
    trials = experiment.load(options.experiment, options.settings, options.duration, options.zipped)
    _print_notes(trials)
    mode = options.mode or ("offline" if trials[0].experiment.standalone and not options.view else "realtime")
    if options.composed and mode == "offline":
        raise ParameterError(["--composed: --mode offline has no nodes; leave it out"])
    namespace = "" if options.namespace is None else namespaces.checked(options.namespace)
    jobs = whole("--jobs", options.jobs)
    jobs = 1 if jobs is None else jobs
    _check_workers(options, jobs, mode, trials)
    if options.side:
        _check_side(options.side, mode, trials)
    viewing = _viewing(options, mode, trials)
    directory = _resumed(options.out, trials) if options.resume else None
    if directory is None:
        directory = trial.new_directory(options.out, trials[0].experiment.namespace)
    with Interruption() as interruption:
        if options.side == "world":
            return _run_world(trials[0], mode, directory, interruption, composed=options.composed, namespace=namespace)
        summaries = sweep.run_all(
            trials,
            mode,
            directory,
            interruption,
            options.quiet,
            composed=options.composed,
            namespace=namespace,
            jobs=jobs,
            scheduler=options.scheduler,
            resume=options.resume,
            side=options.side or "",
            viewing=viewing,
        )
        interrupted = bool(interruption)
    print(directory)
    if len(trials) <= LISTED:
        for one, summary in zip(trials, summaries, strict=False):
            _print_summary(one.label, summary)
    else:
        states = Counter(summary["status"] for summary in summaries)
        print(f"  {len(trials)} runs: {', '.join(f'{count} {state}' for state, count in states.items())}")
    if trials[0].label:
        print(f"  table: {directory / 'sweep.csv'}")
    left = [one for one in summaries if not is_complete(one)]
    page = Path(summaries[0].get("results", directory) if len(summaries) == 1 else directory) / "report.html"
    print(f"  samples and page were left to `./haptics report {directory}`" if left else f"  report: {page}")
    for one, summary in zip(trials[:LISTED], summaries, strict=False):
        for notice in summary.get("notices", ()):
            print(f"haptics: {f'{one.label}: ' if one.label else ''}{notice}", file=sys.stderr)
    failures = [(one, found) for one, found in zip(trials, summaries, strict=False) if found["status"] == "failed"]
    for one, found in failures[:LISTED]:
        print(f"haptics: {f'{one.label}: ' if one.label else ''}{found['reason']}", file=sys.stderr)
    if len(failures) > LISTED:
        print(f"haptics: and {len(failures) - LISTED} more runs failed: see the table", file=sys.stderr)
    if failures:
        return FAILED
    return interruption.status if interrupted else DONE


def _viewing(options: argparse.Namespace, mode: str, trials: Sequence[experiment.Trial]) -> Viewing | None:
    """Address and settings of the page that shows the trial; None if none is asked for.

    Raises:
        ParameterError: it cannot be shown.
    """
    if not options.view:
        if options.host is not None or options.port is not None:
            raise ParameterError(["--host, --port: belong to the page; add --view"])
        return None
    if trials[0].label:
        raise ParameterError(["--view: shows one trial; give no list of values"])
    from haptic_bench.commands import view  # takes a while to import, for trials that are shown

    view.check(trials[0], mode)
    return view.place(options)


def _check_side(side: str, mode: str, trials: Sequence[experiment.Trial]) -> None:
    """Refuse what has no two sides.

    Raises:
        ParameterError: see above.
    """
    if trials[0].label:
        raise ParameterError([f"--side {side}: is for one trial; give no list of values"])
    if not trials[0].experiment.relayed:
        raise ParameterError([f"--side {side}: without a relay there are no sides; add --set relay.delay=0"])
    if mode == "offline":
        raise ParameterError([f"--side {side}: --mode offline has no nodes; leave it out"])


def _run_world(
    one: experiment.Trial, mode: str, directory: Path, interruption: Interruption, *, composed: bool, namespace: str
) -> int:
    """Run the world's side of a trial until its device's side, on another host, has ended it."""
    outcome = trial.run_graph(
        one, mode, directory, interruption, None, composed=composed, namespace=namespace, side="world"
    )
    print(directory)
    if outcome.status == "failed":
        print(f"haptics: {outcome.reason}", file=sys.stderr)
        return FAILED
    return interruption.status if interruption else DONE


def _check_workers(options: argparse.Namespace, jobs: int, mode: str, trials: Sequence[experiment.Trial]) -> None:
    """Refuse trials that cannot run on workers; prepare the workers if the command asks for them.

    Raises:
        ParameterError: see above.
    """
    if jobs < 1:
        raise ParameterError([f"--jobs {jobs}: must be at least 1"])
    if jobs == 1 and not options.scheduler:
        return
    asked = "--scheduler" if options.scheduler else f"--jobs {jobs}"
    if options.scheduler and jobs > 1:
        raise ParameterError(["--jobs, --scheduler: a scheduler has its own workers; leave --jobs out"])
    if mode == "realtime":
        raise ParameterError(
            [f"{asked}: realtime trials are never run side by side, they would miss ticks; add --mode offline"]
        )
    if options.namespace is not None:
        raise ParameterError([f"--namespace: is one name, {asked} runs trials side by side; leave one of them out"])
    if not trials[0].label:
        raise ParameterError([f"{asked}: is for sweeps; give a list of values for a key, or leave it out"])
    workers.require()


def _resumed(out: str | None, trials: Sequence[experiment.Trial]) -> Path | None:
    """The directory of a sweep that is resumed; None if it is yet to be made."""
    if out is None:
        raise ParameterError(["--resume: give the directory of the sweep with --out"])
    directory = Path(out)
    sweep.check_resumable(directory, trials)
    return directory if (directory / "summary.json").exists() else None


def _print_summary(label: str, summary: dict[str, Any]) -> None:
    speed = f", {summary['ticks'] / summary['wall_time']:.0f} a second" if summary["wall_time"] > 0.0 else ""
    print(
        f"  {label or summary['experiment']}: {summary['status']}, {summary['ticks']} ticks ({summary['mode']}{speed})"
    )
    if summary.get("seed"):
        print(f"    seed {summary['seed']}: {', '.join(summary['random']) or 'nothing is random'}")
    for name, value in summary["metrics"].items():
        print(f"    {name:36} {'-' if value is None else format(value, '.6g')}")
    if "display" in summary:
        print(f"    verdict: {summary['display']['text']}")
    if claims := summary["claims"]:
        print(f"    claims of this trial: {_counted(claims, 'hold', 'do not')}")
    if references := summary["references"]:
        by_source: dict[str, list[Mapping[str, Any]]] = {}
        for one in references:
            by_source.setdefault(_publication(one["source"]), []).append(one)
        counted = (f"{source}: {_counted(some, 'reproduced', 'not')}" for source, some in by_source.items())
        print(f"    statements on other variants, with the other keys of this trial: {'; '.join(counted)}")


def _publication(source: str) -> str:
    """The publication that the source of a statement names first."""
    found = re.match(r"THESIS|IGMS|FAULRING|YUN|BROWN", source)
    return found[0] if found else "beyond the publications"


def _counted(claims: Sequence[Mapping[str, Any]], holds: str, fails: str) -> str:
    """Numbers of claims that hold and do not hold, with the names of those that do not."""
    outcomes = [claim["holds"] for claim in claims]
    failed = [claim["name"] for claim in claims if claim["holds"] is False]
    named = f" ({', '.join(failed)})" if failed else ""
    undecided = f", {outcomes.count(None)} undecided" if None in outcomes else ""
    return f"{outcomes.count(True)} {holds}, {len(failed)} {fails}{named}{undecided}"


def replay(options: argparse.Namespace) -> int:
    """`haptics replay DIR [--verify]`."""
    _show_compilation()
    directory = Path(options.directory)
    summary = read_summary(directory)
    if not options.verify:
        return _play(directory, summary, options)
    given = {
        "--wait": options.wait is not None,
        "--rate": options.rate is not None,
        "--loop": options.loop,
        "--from": options.start is not None,
        "--to": options.end is not None,
        "--namespace": options.namespace is not None,
    }
    if any(given.values()):
        named = ", ".join(name for name, is_given in given.items() if is_given)
        raise ParameterError([f"{named}: for playing; --verify plays nothing, leave one of them out"])
    runs = runs_of(directory, summary).values() if "sweep" in summary else [directory]
    return DONE if all([_verify(one) for one in runs]) else FAILED


def _play(directory: Path, summary: dict[str, Any], options: argparse.Namespace) -> int:
    if "sweep" in summary:
        runs = [path.name for path in runs_of(directory, summary).values()]
        raise ParameterError([f"{directory}: is a sweep; choose one of its runs: {listed(runs, 5)}"])
    rate, end = number("--rate", options.rate), number("--to", options.end)
    start, wait = number("--from", options.start) or 0.0, whole("--wait", options.wait)
    if rate == 0.0:
        raise ParameterError(["--rate 0: must be > 0"])
    if end is not None and end < start:
        raise ParameterError([f"--to {end:g}: must be at least --from {start:g}"])
    how = Playing(rate or 1.0, options.loop, start, math.inf if end is None else end, wait)
    namespace = options.namespace if options.namespace is not None else str(summary.get("namespace", ""))
    if options.namespace is not None or namespace:
        namespace = "/" + namespaces.checked(namespace)
    with Interruption() as interruption:
        try:
            print(f"{play(directory, namespace, how, interruption)} messages")
        except BagError as error:
            raise ParameterError([str(error)]) from error
        return interruption.status if interruption else DONE


def _verify(directory: Path) -> bool:
    """Verify a trial and print the result; whether it is identical."""
    found = verification.verify(directory)
    for line in found.unverified[:5]:
        print(f"{directory}: not verifiable: {line}", file=sys.stderr)
    for note in found.notes:
        print(f"{directory}: {note}", file=sys.stderr)
    print(f"{directory}: {found.problem or 'identical, bit by bit'}")
    return not found.problem


def report(options: argparse.Namespace) -> int:
    """`haptics report DIR`."""
    kinds = kinds_of(options.figures)
    _show_compilation()
    directory, status = Path(options.directory), DONE
    summary = read_summary(directory)
    for one in runs_of(directory, summary).values() if "sweep" in summary else [directory]:
        found = read_summary(one)
        problem = verification.damage(one, found)
        if problem:
            print(f"{one}: {problem}", file=sys.stderr)
        if problem or is_complete(found):
            page = pages.write(one, damage=problem, kinds=kinds)
            continue
        found = trial.complete(experiment.read_resolved(one / "experiment.yaml"), one, found)
        page = Path(found.get("results", one)) / "report.html"
        if "results" in found:
            print(f"haptics: {one}: {found['reason']}", file=sys.stderr)
            status = FAILED
        elif kinds:
            pages.write(one, kinds=kinds)
    if "sweep" in summary:
        sweep.write_table(directory, summary)
        page = pages.write(directory, kinds=kinds)
    print(page)
    return status


def kinds_of(given: str | None) -> list[str]:
    """Kinds of files for figures, from the words of a user.

    Raises:
        ParameterError: one of them is unknown.
    """
    kinds = [] if given is None else [kind.strip().lower() for kind in given.split(",")]
    for kind in kinds:
        if kind not in vector.KINDS:
            known = f"must be {' or '.join(vector.KINDS)}, or several with commas between them, as pdf,png"
            raise ParameterError([f"--figures {inputs.shown(given)}: {known}"])
    return kinds


def repair(options: argparse.Namespace) -> int:
    """`haptics repair DIR`."""
    _show_compilation()
    directory = Path(options.directory)
    if not directory.is_dir():
        raise ParameterError([f"{directory}: is not a directory"])
    summary = read_summary(directory) if (directory / "summary.json").exists() else {}
    status = DONE
    for one in runs_of(directory, summary).values() if "sweep" in summary else [directory]:
        try:
            print(f"{one}: {verification.repair(one)}")
        except BagError as error:
            print(f"haptics: {error}", file=sys.stderr)
            status = FAILED
    if "sweep" in summary:
        pages.write(directory)
    return status


def benchmark(options: argparse.Namespace) -> int:
    """`haptics benchmark [NAME]`, or of two commits, `haptics benchmark [NAME] --compare A B`."""
    suite = _of_checkout("benchmark", "benchmarks.suite")
    status: int
    if options.compare is not None:
        compare = importlib.import_module("benchmarks.compare")
        names = suite.COMPARED if options.name is None else (suite.known(options.name),)
        status = compare.main(names, *options.compare, options.pairs, options.json)
        return status
    file = suite.record_of(options.name) if options.save else options.json
    status = suite.run(options.name, file, None if options.out is None else Path(options.out))
    return status


def campaign(options: argparse.Namespace) -> int:
    """`haptics campaign [PROBE ...]`."""
    suite = _of_checkout("campaign", "campaign.suite")
    minutes = number("--minutes", options.minutes)
    first, cases = whole("--first", options.first), whole("--cases", options.cases)
    directory = trial.new_directory(options.out, "campaign").resolve()
    status: int = suite.run(minutes, options.only, first, cases, directory)
    return status


def _of_checkout(command: str, module: str) -> Any:
    """A module that only a checkout has.

    Raises:
        ParameterError: this is none.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise ParameterError([f"{command}: not installed; run ./haptics {command} in a checkout"]) from error


def test(arguments: Sequence[str]) -> int:
    """`haptics test [--fast | --all] [PYTEST ARGS]`: without other arguments on all cores.

    --fast leaves out process graphs, programs and analyses; --all adds the exhaustive tests. One worker more than there
    are cores where there are tests of process graphs, which mostly wait.
    """
    root = Path(__file__).resolve().parents[2]
    rest = [argument for argument in arguments if argument not in ("--fast", "--all")]
    fast, all_ = "--fast" in arguments, "--all" in arguments
    options = [] if rest else ["-n", str((os.cpu_count() or 1) + (not fast)), "--dist", "worksteal"]
    if fast:
        options += ["-m", "not graph and not long and not exhaustive"]
    elif not all_ and not any(argument.startswith("-m") or "::" in argument for argument in rest):
        options += ["-m", "not exhaustive"]
    os.chdir(root)
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *options, *rest])
