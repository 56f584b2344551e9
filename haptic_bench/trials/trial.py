"""A trial from its experiment to its report: run, record, sample, analyse."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from haptic_bench.analysis.base import analysis_of
from haptic_bench.analysis.claims import Findings
from haptic_bench.analysis.health import Missed
from haptic_bench.experiment import Experiment, Trial, write_resolved
from haptic_bench.recording import bag
from haptic_bench.recording.samples import Samples, complete_ticks
from haptic_bench.recording.summary import write_summary
from haptic_bench.recording.trial_bag import TrialBag, cannot_record, digest, read_messages, read_ticks, versions
from haptic_bench.report import pages
from haptic_bench.running import forks, namespaces, runner
from haptic_bench.running.foreign_errors import describe_foreign
from haptic_bench.running.graph import node_specs
from haptic_bench.running.runner import Interruption, Outcome
from haptic_bench.running.viewing import Viewer, Viewing
from haptic_bench.running.views import write_views
from haptic_bench.trials.judgement import judge
from haptic_drivers.bound import BoundParameters, count_bounded
from haptic_drivers.devices.interface import DeviceError
from haptic_drivers.events import recorded_events, write_events
from haptic_sim import inputs
from haptic_sim.dynamics.energy import UnstableError
from haptic_sim.parameters import ParameterError
from haptic_sim.tool.omissions import read_omissions, write_omissions
from haptic_view.figures import import_matplotlib

MODES = ("offline", "lockstep", "realtime")

_reserved: list[int] = []  # the directory that was made last, as an open file


def new_directory(out: str | None, name: str) -> Path:
    """The directory of a trial, made and empty; without `out` a new one under ./trials/.

    No other program is given it, also as long as it is empty: it is locked until this one ends, or makes another.

    Raises:
        ParameterError: `out` is a file, is not empty, cannot be made, or another program has it.
    """
    if out is None:
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        for suffix in ("", *(f"-{i}" for i in range(2, 1000))):
            path = Path("trials") / f"{name}-{stamp}{suffix}"
            with contextlib.suppress(FileExistsError):
                _make(path, exist_ok=False)
                return path
        raise ParameterError([f"trials/{name}-{stamp}: exists, as do the names up to -999; give a name with --out"])
    try:
        path = inputs.check_path(out)
    except inputs.InputError as error:
        raise ParameterError([f"--out {inputs.shown(out)}: {error}"]) from error
    if os.path.lexists(path) and not os.path.isdir(path):
        kind = "a link to nothing" if os.path.islink(path) and not os.path.exists(path) else "a file"
        raise ParameterError([f"--out {inputs.shown(out)}: is {kind}; must be a new or empty directory"])
    _make(path, exist_ok=True)
    if not _reserve(path):
        raise ParameterError([f"--out {inputs.shown(out)}: another program has just taken it; give another directory"])
    if os.listdir(path):
        raise ParameterError([f"--out {inputs.shown(out)}: is not empty; must be a new or empty directory"])
    return path


def _reserve(path: Path) -> bool:
    """Lock a directory, in the place of the one before; whether no other program has it."""
    while _reserved:
        os.close(_reserved.pop())
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    _reserved.append(file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True


def _make(path: Path, exist_ok: bool) -> None:
    try:
        path.mkdir(parents=True, exist_ok=exist_ok)
    except FileExistsError:
        raise
    except OSError as error:
        raise ParameterError([f"--out {inputs.shown(str(path))}: cannot be made: {error.strerror}"]) from error


def run_trial(
    trial: Trial,
    mode: str,
    directory: Path,
    interruption: Interruption,
    show: Callable[[int], object] | None = None,
    *,
    composed: bool = False,
    namespace: str = "",
    side: str = "",
    viewing: Viewing | None = None,
) -> dict[str, Any]:
    """Run a trial in an empty directory, which then holds all its files; returns the summary.

    Args:
        trial: what to run.
        mode: one of MODES.
        directory: exists and is empty.
        interruption: ends the trial early; what was recorded is kept and summarised.
        show: called with the number of ticks done.
        composed: run the servo path of the graph in one process.
        namespace: of the topics, without the slash in front; empty: the experiment's name, or that name with a number
            where another trial has it.
        side: of a relay, `device` or `world`, whose nodes run here; empty: all nodes do.
        viewing: where a page shows it meanwhile; None: none does.
    """
    directory, trial = directory.resolve(), trial.in_mode(mode)
    if mode != "offline" and analysis_of(trial.experiment).OFFLINE_ONLY:
        raise ParameterError([f"--mode {mode}: {trial.experiment.name} has no ticks; it runs offline only"])
    operator = trial.experiment.operator
    if mode == "offline" and operator.EVENTS and trial.table is None:
        raise ParameterError(
            [
                "operator.events = null: the events of a pointer come from a person, on the page of `haptics view "
                "EXPERIMENT`; offline they come from a file, as operator.events=DIR/events.csv of a recorded trial"
            ]
        )
    with analysis_of(trial.experiment).beginning(trial) if mode == "offline" else contextlib.nullcontext():
        try:
            if mode == "offline":
                outcome = run_offline(trial, directory, interruption, show, namespace=namespace)
            else:
                outcome = run_graph(
                    trial,
                    mode,
                    directory,
                    interruption,
                    show,
                    composed=composed,
                    namespace=namespace,
                    side=side,
                    viewing=viewing,
                )
        except OSError as error:  # a full disk, or a directory that may not be written
            outcome = Outcome("failed", cannot_record(error, directory))
        return conclude(trial, mode, directory, outcome, interruption)


def run_graph(
    trial: Trial,
    mode: str,
    directory: Path,
    interruption: Interruption,
    show: Callable[[int], object] | None,
    *,
    composed: bool = False,
    namespace: str = "",
    side: str = "",
    viewing: Viewing | None = None,
) -> Outcome:
    """Run and record a trial as the ROS graph; arguments as for `run_trial`."""
    directory = directory.resolve()
    if composed and trial.experiment.hands:
        raise ParameterError(["--composed: supports one hand only; leave it out"])
    inside = trial.experiment.hand_names
    with namespaces.claim(
        namespace or trial.experiment.namespace, exactly=bool(namespace or side), inside=inside, side=side
    ) as claimed:
        written = write_resolved(trial.in_mode(mode), directory)
        specs = node_specs(
            written, directory, mode=mode, composed=composed, progress=True, namespace=namespace, side=side
        )
        with contextlib.nullcontext() if viewing is None else Viewer(viewing, directory, claimed) as viewer:
            if viewer is not None:
                problem = viewer.wait(interruption.event)
                text = f"without a view: {problem}" if problem else f"view: {viewer.address or 'interrupted'}"
                print(f"haptics: {text}", file=sys.stderr, flush=True)
            return runner.run(specs, directory, claimed, interruption, show)


def run_system(
    trial: Trial,
    directory: Path,
    interruption: Interruption,
    *,
    composed: bool = False,
    namespace: str = "",
    restart: bool = True,
    side: str = "",
) -> Outcome:
    """Run the graph of a trial until it is interrupted, with nodes that may end; arguments as for `run_trial`.

    With `restart` a node that ends is started again, but no end of a relay, which counts the energy that has crossed.
    """
    directory, experiment = directory.resolve(), trial.experiment
    if side and not experiment.asynchronous:
        raise ParameterError([f"--side {side}: needs a local model; add --set local_model.type=full"])
    name, inside = namespace or experiment.namespace, experiment.hand_names
    with namespaces.claim(name, exactly=bool(namespace or side), inside=inside, side=side) as claimed:
        written = write_resolved(trial.in_mode("realtime"), directory)
        specs = node_specs(
            written, directory, mode="realtime", composed=composed, record=False, progress=True, endless=True, side=side
        )
        if side != "dynamics":
            print(f"haptics: {write_views(directory, claimed)}", file=sys.stderr)
        return runner.keep(specs, directory, claimed, interruption, restart=restart and not experiment.relayed)


def run_offline(
    trial: Trial,
    directory: Path,
    interruption: Interruption,
    show: Callable[[int], object] | None,
    *,
    namespace: str = "",
) -> Outcome:
    """Run and record a trial in this process; arguments as for `run_trial`."""
    experiment = write_resolved(trial.in_mode("offline"), directory).experiment
    analysis = analysis_of(experiment)
    called = time.monotonic()
    namespace = namespace or experiment.namespace
    book = open_bag(experiment, directory, namespace)
    started = time.monotonic()
    finished, reason = False, ""
    try:
        try:
            done = analysis.simulate(
                trial, book.add_tick, show, lambda: bool(interruption), partial(write_omissions, directory)
            )
            finished = done > analysis.last_tick(experiment)
        finally:
            book.close("finished" if finished else "interrupted", book.complete)
    except (UnstableError, DeviceError) as error:
        reason = str(error)
    except (Exception, SystemExit) as error:
        reason = describe_foreign(error, experiment)
        if not reason and isinstance(error, OSError):
            reason = cannot_record(error, directory / "bag")
        if not reason:
            raise
    status = "failed" if reason else "done" if finished else "interrupted"
    return Outcome(status, reason, started - called, time.monotonic() - started, f"/{namespace}")


def open_bag(experiment: Experiment, directory: Path, namespace: str) -> TrialBag:
    """The bag of a trial whose ticks follow each other in one process, in a directory with its `experiment.yaml`."""
    return TrialBag(
        directory,
        namespace,
        experiment.rate,
        experiment.environment.schedule(experiment.rate) if experiment.asynchronous else None,
        standalone=experiment.standalone,
        relayed=experiment.relayed,
        world_every=analysis_of(experiment).world_every(experiment),
        hands=experiment.hand_names,
        pointed=experiment.operator.EVENTS,
        hardware=experiment.hardware_hands,
    )


def conclude(
    trial: Trial,
    mode: str,
    directory: Path,
    outcome: Outcome,
    interruption: Interruption | None = None,
    *,
    command: str = "./haptics report",
) -> dict[str, Any]:
    """Close a trial whose nodes have ended, and write its samples, metrics and report; returns the summary.

    Args:
        trial: what was run.
        mode: one of MODES.
        directory: of the trial.
        outcome: how it ended.
        interruption: a signal after that which ended the trial leaves samples, metrics and page to `haptics report`;
            None: they are made whatever comes.
        command: how the user calls that.
    """
    summary = close(trial, mode, directory, outcome)
    if not summary["ticks"] or interruption is None:
        return complete(trial, directory, summary)
    what = f"trial closed: {summary['status']}, {summary['ticks']} ticks; writing samples and page"
    offer = f"{what} (Ctrl-C again to leave that to `{command} {directory}`)"
    return interruption.run_interruptibly(lambda: complete(trial, directory, summary), offer) or summary


def close(trial: Trial, mode: str, directory: Path, outcome: Outcome) -> dict[str, Any]:
    """Close or repair a trial's bag and write the summary without its samples; returns the summary.

    Takes little time however long the trial was: of the bag, only the digest looks at every byte. The summary says
    `"complete": false`, until `complete` has done the rest.
    """
    folder = directory / "bag"
    if outcome.status != "done" and folder.is_dir() and not (folder / bag.METADATA_NAME).exists():
        with contextlib.suppress(bag.BagError, OSError):  # nothing was recorded yet, or there is no room
            bag.repair(folder)
    ticks = count_ticks(trial, directory)
    status, reason = outcome.status, outcome.reason
    timing = {"start_up": outcome.start_up, **_measured(directory)}
    missed = Missed.of(trial.experiment.health, timing, ticks)
    if missed is not None and status == "done" and missed.too_many:
        status, reason = "failed", reason or missed.reason
    claims = bool(analysis_of(trial.experiment).CLAIMS)
    omitted = read_omissions(directory)
    notices = [*([missed.notice(claims)] if missed is not None and missed.undecides else []), *_foreign(timing)]
    if omitted:
        notices.append(f"{omitted} leaves of signed distance fields were left out of ticks: contacts may begin late")
    invalid = read_omissions(directory, "invalid_steps")
    if invalid:
        notices.append(f"{invalid} steps: contacts had no impulse, the contact method gave a number that is not finite")
    summary: dict[str, Any] = {
        "experiment": trial.experiment.name,
        "mode": mode,
        "status": status,
        **({"reason": reason} if reason else {}),
        "complete": False,
        **({"namespace": outcome.namespace} if outcome.namespace else {}),
        **({"notes": list(trial.notes)} if trial.notes else {}),
        **({"meshes": meshes} if (meshes := trial.meshes) else {}),
        "seed": trial.experiment.seed,
        "random": list(trial.experiment.random),
        "ticks": ticks,
        "wall_time": outcome.wall_time,
        **Findings({}).summary(),
        **({"missed_share": None if missed is None else missed.share} if mode == "realtime" else {}),
        **({"omitted_leaves": omitted} if any(mesh["as"] == "field" for mesh in trial.meshes) else {}),
        **({"invalid_contact_steps": invalid} if invalid else {}),
        **({"notices": notices} if notices else {}),
        "timing": timing,
        "machine": machine(),
        "versions": versions(),
        "bag": digest(directory),
    }
    summary = _finite(summary)
    with contextlib.suppress(OSError):  # the disk is full: `complete` says so, and finds another place
        write_summary(directory, summary)
    return summary


def complete(trial: Trial, directory: Path, closed: Mapping[str, Any]) -> dict[str, Any]:
    """Write samples.csv, the whole summary and the page of a trial that was closed; returns the summary.

    Where the directory takes no more they are written into a new one among the temporary files, which the reason of the
    trial's failure and `results` of the summary name.

    Args:
        trial: what was run.
        directory: of the trial.
        closed: its summary as `close` left it.
    """
    samples = read_samples(trial, directory)
    timing = dict(closed["timing"])
    missed = Missed.of(trial.experiment.health, timing, len(samples))
    undecided = missed is not None and missed.undecides
    with forks.meanwhile(import_matplotlib):
        judged = judge(trial, samples, closed["status"], closed.get("reason", ""), undecided=undecided)
    findings, finite = judged.findings, samples.finite()
    summary = {
        **{key: value for key, value in closed.items() if key != "complete"},
        **judged.summary({"ticks": len(samples)}),
        **({"coordinates": samples.world.coordinates} if samples.world is not None else {}),
        "timing": timing | _bounded(trial, finite),
        **_guarded(trial, finite),
    }
    summary = _finite(summary)
    # Of what diverges, the last numbers may be too large for any figure.
    with np.errstate(all=None if len(finite) == len(samples) else "ignore"):
        try:
            _write_results(directory, samples, summary, findings)
            _write_events(trial, directory)
        except OSError as error:
            summary |= {"status": "failed", "reason": judged.reason or cannot_record(error, directory)}
            _write_to_fallback(trial, directory, samples, summary, findings)
    return summary


def count_ticks(trial: Trial, directory: Path) -> int:
    """The rows that the samples of a trial have, which are not made for it where that is possible."""
    experiment = trial.experiment
    analysis = analysis_of(experiment)
    if analysis.OFFLINE_ONLY:  # no trial in time: its rows are its own affair
        return len(read_samples(trial, directory))
    try:
        found = read_ticks(directory)
        hands = experiment.hand_names
        return len(complete_ticks(found, standalone=experiment.standalone, relayed=experiment.relayed, hands=hands))
    except bag.BagError:
        return 0


def _write_results(directory: Path, samples: Samples, summary: dict[str, Any], findings: Findings) -> None:
    """Write the results of a trial beside its `experiment.yaml`."""
    # Whoever kills this process finds each file whole, or none.
    with tempfile.TemporaryDirectory(prefix=".draft-", dir=directory) as draft:
        samples.write_csv(Path(draft) / "samples.csv")
        if samples.world is not None:
            samples.world.write_csv(Path(draft))
        for path in Path(draft).iterdir():
            path.replace(directory / path.name)
    write_summary(directory, summary)
    pages.write(directory, findings)


def _write_events(trial: Trial, directory: Path) -> None:
    """Write what the trial's pointer did, as a file from which the same operator runs again."""
    if trial.experiment.operator.EVENTS:
        with contextlib.suppress(bag.BagError):  # which has no messages then
            messages = read_messages(directory).get("operator_events", ())
            text = write_events(recorded_events(messages, trial.experiment.rate))
            (directory / "events.csv").write_text(text, encoding="utf-8")


def _write_to_fallback(
    trial: Trial, directory: Path, samples: Samples, summary: dict[str, Any], findings: Findings
) -> None:
    """Write the results of a trial where there is room, and say in its summary where they are; as far as possible."""
    for name in ("samples.csv", "bodies.csv", "contacts.csv", "report.html"):  # may have been written in part
        with contextlib.suppress(OSError):
            (directory / name).unlink(missing_ok=True)
    try:
        fallback = Path(tempfile.mkdtemp(prefix=f"haptics-{trial.experiment.namespace[:40]}-"))
        write_resolved(trial, fallback)
        if (directory / "timing.npz").is_file():
            shutil.copyfile(directory / "timing.npz", fallback / "timing.npz")
        summary |= {"reason": f"{summary['reason']}; its results are in {fallback}", "results": str(fallback)}
        _write_results(fallback, samples, summary, findings)
    except OSError as error:
        summary["reason"] += f"; nor can its results be written: {error.filename}: {error.strerror}"
    with contextlib.suppress(OSError):
        write_summary(directory, summary)


def _foreign(timing: Mapping[str, Any]) -> list[str]:
    """Text of the warning that another publisher has used the trial's topics."""
    count = timing.get("foreign_messages", 0)
    return [f"{count} messages of a foreign publisher on the trial's topics were not recorded"] if count else []


def _bounded(trial: Trial, samples: Samples) -> dict[str, Any]:
    """Number of ticks in which the device was at its last bound, if it has one."""
    bound = trial.experiment.device.last_bound
    if bound == BoundParameters():
        return {}
    return {"bounded": count_bounded(bound, samples.wrench("rendered"), 1.0 / trial.experiment.rate)}


def _guarded(trial: Trial, samples: Samples) -> dict[str, Any]:
    """Measurements of the guard at the device's port, and its effect; empty without a device, or without a tick."""
    if "port_energy_translation" not in samples.names or not len(samples):
        return {}
    energy, kept = (samples.group(name, "translation", "rotation") for name in ("port_energy", "port_dissipated"))
    found = {
        "type": "passivity" if trial.experiment.guard.acts else "none",  # a relay's ports may have another
        "acted": int(np.count_nonzero(np.diff(kept, axis=0).any(axis=1))),
        "kept": kept[-1].tolist(),
        "least_energy": energy.min(axis=0).tolist(),
    }
    return {"guard": found}


def _measured(directory: Path) -> dict[str, Any]:
    """Measurements of the driver in realtime; empty in the other modes."""
    try:
        return dict(json.loads((directory / "timing.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}


def read_samples(trial: Trial, directory: Path) -> Samples:
    """The samples of a trial from its bag; empty if there is none."""
    try:
        messages = read_messages(directory)
    except bag.BagError:
        messages = {}
    return analysis_of(trial.experiment).samples(trial, messages)


def _finite(value: Any) -> Any:
    """A value with null in place of numbers that are not finite, which JSON does not know."""
    match value:
        case dict():
            return {key: _finite(one) for key, one in value.items()}
        case list() | tuple():
            return [_finite(one) for one in value]
        case float() if not math.isfinite(value):
            return None
    return value


def machine() -> dict[str, Any]:
    """Machine on which a measurement was made."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@contextlib.contextmanager
def progress_bar(total: int, title: str, quiet: bool, unit: str = "ticks") -> Iterator[Callable[[int], object] | None]:
    """A function that shows how many of `unit` are done; None unless the error output is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    class Bar(tqdm):
        monitor_interval = 0  # no thread of its own: beside one, nothing could be shared out among forks

    with Bar(total=total, desc=title, unit=f" {unit}", leave=False, dynamic_ncols=True) as bar:
        yield lambda done: bar.update(min(done, total) - bar.n)
