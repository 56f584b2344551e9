"""The function of the command `trajectory`: a recorded motion, saved, compared and checked for collisions."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

from haptic_bench import experiment
from haptic_bench.analysis import motions
from haptic_bench.commands.command_line import DONE
from haptic_bench.recording.samples import Samples
from haptic_bench.trials.recorded import load_trial
from haptic_sim import inputs
from haptic_sim.motions import trajectory as trajectories
from haptic_sim.motions.motion import Motion
from haptic_sim.parameters import ParameterError

SHOWN = 5  # pairs of bodies that collide


def trajectory(options: argparse.Namespace) -> int:
    """`haptics trajectory DIR [MOTION] [--out FILE]`."""
    recorded = load_trial(options.directory)
    trial = experiment.read_resolved(Path(options.directory, "experiment.yaml"))
    motion = _motion(trial, options.motion, options.directory)
    rate = _rate(options.rate)
    found = motions.edited(trial, recorded.samples, motion)
    if options.out is not None:
        _write(Path(options.out), trial, recorded.samples, motion, rate)
    change = np.abs(found.x - found.nominal)
    row, column = np.unravel_index(int(np.argmax(change)), change.shape)
    print(
        f"{motion.name}: {len(found.time)} ticks, {found.time[-1]:g} s, trajectory of {motion.trajectory.duration:g} s"
    )
    name = motion.places.names[column]
    at_the_end = change[-1].max()
    print(
        f"  largest change: {change[row, column]:.4g} of {name} at {found.time[row]:g} s; at the end {at_the_end:.4g}"
    )
    every = max(1, round(0.01 * trial.experiment.rate))
    contact, world = trial.experiment.contact, trial.world
    for label, rows in (("trajectory", motions.configurations(world, motion)), ("recorded", found.q[::every])):
        pairs = motions.collisions(world, contact, motion, rows)
        listed = [f"{a} and {b} by {1e3 * depth:.3g} mm" for (a, b), depth in sorted(pairs.items())[:SHOWN]]
        print(f"  {label}: {'overlaps: ' + ', '.join(listed) if listed else 'collides with nothing'}")
    if options.out is not None:
        print(f"  {options.out}")
    return DONE


def _motion(trial: experiment.Trial, name: str | None, directory: str) -> Motion:
    found = {} if trial.experiment.asynchronous else {motion.name: motion for motion in trial.world.motions}
    if not found:
        raise ParameterError(
            [f"{directory}: has no motion: nothing of its world follows a trajectory at the servo rate"]
        )
    if name is None and len(found) > 1:
        raise ParameterError([f"{directory}: has several motions; name one of {', '.join(found)}"])
    if name is not None and name not in found:
        raise ParameterError([f"{name}: unknown motion (known: {', '.join(found)})"])
    return found[name or next(iter(found))]


def _rate(text: str | None) -> float:
    if text is None:
        return 100.0
    try:
        rate = inputs.number(text)
    except inputs.InputError as error:
        raise ParameterError([f"--rate {inputs.shown(text)}: {error}"]) from error
    if not rate > 0.0:
        raise ParameterError([f"--rate {inputs.shown(text)}: must be > 0"])
    return rate


def _write(path: Path, trial: experiment.Trial, samples: Samples, motion: Motion, rate: float) -> None:
    if path.suffix != ".json":
        raise ParameterError([f"--out {inputs.shown(os.fspath(path))}: must be a .json file"])
    content = motions.as_trajectory(trial, samples, motion, rate)
    try:
        trajectories.write(path, content)
    except OSError as error:
        raise ParameterError([f"--out {inputs.shown(os.fspath(path))}: {error.strerror}"]) from error
