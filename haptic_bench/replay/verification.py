"""Verification of a recorded trial: is it undamaged, and does it simulate again to the same bits? Its repair."""

from __future__ import annotations

import filecmp
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from haptic_bench.analysis.base import analysis_of
from haptic_bench.experiment import Trial, changed_packages, read_resolved
from haptic_bench.recording import bag, trial_bag
from haptic_bench.recording.samples import Samples
from haptic_bench.recording.summary import is_complete, read_summary
from haptic_bench.replay.resimulation import resimulate
from haptic_bench.running.runner import Outcome
from haptic_bench.trials.trial import MODES, conclude
from haptic_drivers.events import recorded_events
from haptic_sim.libyaml import LOADER
from haptic_sim.parameters import ParameterError

REPLACED = ("samples.csv", "bodies.csv", "contacts.csv", "summary.json")  # beside the bag, by a repair


@dataclass(frozen=True)
class Verification:
    """Result of a comparison: the first difference, empty if there is none; what could not be compared; notes."""

    problem: str = ""
    unverified: Sequence[str] = field(default_factory=list)
    notes: Sequence[str] = field(default_factory=list)


def damage(directory: Path, summary: Mapping[str, Any]) -> str:
    """Damage of a trial's bag, by its own checks and by its summary; empty if none is known."""
    return _read(directory, summary, read_resolved(directory / "experiment.yaml"))[0]


def _read(
    directory: Path, summary: Mapping[str, Any], trial: Trial
) -> tuple[str, Mapping[str, Sequence[bytes]], Samples | None]:
    """Damage of the bag, if any; its messages by topic, and the samples that they make."""
    recorded = summary.get("bag")
    problem = trial_bag.damage(directory, recorded) if isinstance(recorded, dict) else ""
    if problem:
        return problem, {}, None
    try:
        messages = trial_bag.read_messages(directory)
    except bag.BagError as error:
        return ("" if recorded == {} else f"the bag is damaged: {error}"), {}, None
    try:
        samples = analysis_of(trial.experiment).samples(trial, messages)
    except ValueError as error:
        return f"the bag is of another trial, or damaged: its messages are not of this experiment: {error}", {}, None
    ticks = summary.get("ticks")
    if ticks != len(samples):
        problem = f"the bag is of another trial, or damaged: it holds {len(samples)} ticks, summary.json gives {ticks}"
        return problem, messages, samples
    return "", messages, samples


def has_digest(summary: Mapping[str, Any]) -> bool:
    """Whether a trial was concluded with a digest of its bag."""
    return isinstance(summary.get("bag"), dict)


def verify(directory: Path) -> Verification:
    """Simulate a recorded trial again and compare, bit by bit.

    A trial whose ticks waited for each other is simulated again as a whole. In realtime each core is, from the inputs
    that it had.

    Raises:
        ParameterError: the directory is not that of a trial.
    """
    file = directory / "experiment.yaml"
    trial, summary = read_resolved(file), read_summary(directory)
    problem, messages, recorded = _read(directory, summary, trial)
    if problem:
        return Verification(problem)
    trial = with_recorded_events(trial, messages)
    if recorded is None or not len(recorded):
        return Verification("nothing was recorded")
    if is_complete(summary) and "results" not in summary and (problem := _changed_tables(directory, recorded)):
        return Verification(problem)
    notes = changed_packages(file)
    if not has_digest(summary):
        notes.append("summary.json has no digest of the bag: it is older than digests")
    timing, verdict = summary.get("timing", {}), None
    try:
        if summary["mode"] == "realtime" or trial.experiment.external or _was_changed(messages):
            whole = not any(timing.get(key, 1) for key in ("lost_messages", "foreign_messages"))
            verdict = resimulate(trial, messages, whole=whole)
    except (ValueError, LookupError) as error:
        return Verification(f"the bag is damaged: its messages cannot be followed: {error}")
    if verdict is None:
        return Verification(_compare_samples(recorded, trial), notes=notes)
    problem = verdict.difference or ("" if verdict.compared else "nothing could be compared")
    return Verification(problem, verdict.unverified, notes)


def _changed_tables(directory: Path, recorded: Samples) -> str:
    """The tables of a trial that are not those of its bag; empty: none."""
    with tempfile.TemporaryDirectory(prefix="haptics-verify-") as folder:
        recorded.write_csv(Path(folder, "samples.csv"))
        if recorded.world is not None:
            recorded.world.write_csv(Path(folder))
        found = []
        for path in sorted(Path(folder).iterdir()):
            table = directory / path.name
            if not table.is_file():
                found.append(f"{path.name} is missing")
            elif not filecmp.cmp(path, table, shallow=False):
                found.append(f"{path.name} differs from what the bag gives")
    return f"{', '.join(found)}: put the file back as it was recorded" if found else ""


def _was_changed(messages: Mapping[str, Sequence[bytes]]) -> bool:
    """Whether a parameter was changed while the trial ran, which only its messages know."""
    return any(trial_bag.read_event(data)[2] == "changed" for data in messages.get("trial_events", ()))


def with_recorded_events(trial: Trial, messages: Mapping[str, Sequence[bytes]]) -> Trial:
    """The trial with what its pointer did, from the messages of its bag; itself without a pointer."""
    if not trial.experiment.operator.EVENTS:
        return trial
    table = recorded_events(messages.get("operator_events", ()), trial.experiment.rate)
    return replace(trial, table=table, built=trial.start)


def _compare_samples(recorded: Samples, trial: Trial) -> str:
    analysis = analysis_of(trial.experiment)
    if not analysis.OFFLINE_ONLY and len(recorded) < trial.experiment.last_tick:  # it was interrupted
        trial = trial.with_ticks(len(recorded))
    again = analysis.run_unrecorded(trial)  # an unstable one ends as when it was recorded
    if len(recorded) > len(again):
        return f"{len(recorded)} ticks recorded, {len(again)} simulated"
    for name in recorded.names:
        was_nan, now_nan = np.isnan(recorded[name]), np.isnan(again[name][: len(recorded)])
        unequal = (recorded[name] != again[name][: len(recorded)]) & ~(was_nan & now_nan)
        if unequal.any():
            row = int(unequal.argmax())
            was, now = recorded[name][row], again[name][row]
            return f"{name} differs from tick {row} on: {was.item()!r} recorded, {now.item()!r} simulated"
    return ""


def repair(directory: Path) -> str:
    """Complete a trial whose bag is damaged, or that was never concluded; a line that says what was done.

    What is replaced is kept in a folder `damaged` of the directory.

    Raises:
        ParameterError: the directory is not that of a trial.
        BagError: there is nothing that a repair could begin with.
    """
    trial = read_resolved(directory / "experiment.yaml")
    summary: dict[str, Any] = {}
    found = "it was not concluded"
    if (directory / "summary.json").exists():
        summary = read_summary(directory)
        found = damage(directory, summary)
        if not found:
            rest = "" if is_complete(summary) else f"; `haptics report {directory}` writes samples and page"
            return f"whole: nothing to repair{rest}"
    if trial_bag.is_foreign(directory):
        raise bag.BagError(directory, f"{found}; put its own bag back")
    if not (directory / "bag").is_dir():
        raise bag.BagError(directory, f"{found}; it has no bag: it ended before anything was recorded; run it again")
    kept = _keep(directory)
    bag.repair(directory / "bag", always=True)
    left = len(analysis_of(trial.experiment).samples(trial, trial_bag.read_messages(directory)))
    ticks = summary.get("ticks")
    if ticks == left:
        status, reason = str(summary["status"]), str(summary.get("reason", ""))
        done = f"repaired: {found}; all {left} ticks are there"
    else:
        status = "failed" if summary else "interrupted"
        reason = done = f"repaired: {found}; {left} ticks are left" + (f" of {ticks}" if summary else "")
    time = summary.get("wall_time")
    outcome = Outcome(
        status,
        reason,
        wall_time=time if isinstance(time, float) else 0.0,
        namespace=str(summary.get("namespace", "")),
    )
    conclude(trial, str(summary.get("mode", "")) or _mode(directory), directory, outcome)
    return f"{done}; what was replaced is in {kept}"


def _keep(directory: Path) -> Path:
    """Move the files that a repair replaces to a folder beside; returns the folder."""
    number = 1
    while (kept := directory / ("damaged" if number == 1 else f"damaged_{number}")).exists():
        number += 1
    kept.mkdir()
    (kept / "bag").mkdir()
    for path in (directory / "bag").iterdir():
        if path.is_file():
            try:
                os.link(path, kept / "bag" / path.name)  # a repair puts new files in their place
            except OSError:
                shutil.copyfile(path, kept / "bag" / path.name)
    for name in REPLACED:
        if (directory / name).is_file():
            (directory / name).rename(kept / name)
    return kept


def _mode(directory: Path) -> str:
    """The mode of a trial without a summary, from the parameters of its nodes; offline has none."""
    try:
        document = yaml.load((directory / "parameters.yaml").read_text(encoding="utf-8"), LOADER)
        given = [node["ros__parameters"] for node in document.values()]
        modes = [one["trial.mode"] if "trial.mode" in one else one["mode"] for one in given]  # of older trials
    except FileNotFoundError:
        return "offline"
    except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError, RecursionError) as error:
        raise ParameterError([f"{directory / 'parameters.yaml'}: not the parameters of nodes: {error}"]) from error
    if not modes or modes[0] not in MODES:
        raise ParameterError([f"{directory / 'parameters.yaml'}: mode must be one of {', '.join(MODES)}"])
    return str(modes[0])
