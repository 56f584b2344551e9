"""The function of the command identify: what a device is, from trials that are recorded or run, into its data file."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from haptic_bench import experiment as experiments
from haptic_bench.catalogue import catalogue, did_you_mean
from haptic_bench.commands.command_line import DONE
from haptic_bench.experiment import Trial
from haptic_bench.experiment.devices import find_device, known_devices
from haptic_bench.experiment.identified import is_file, read_keys, write_identified
from haptic_bench.experiment.system import simulated_devices
from haptic_bench.recording.samples import POSE, WRENCH, Samples
from haptic_bench.running.runner import Interruption
from haptic_bench.trials import trial
from haptic_bench.trials.recorded import RecordedTrial, load_trial
from haptic_control.identification.device import Motion, Result, hand_of, identify_motion, motion_of, result_of
from haptic_control.identification.fit import Estimate, Identified
from haptic_drivers.bound import Bound
from haptic_drivers.parameters import DEVICES
from haptic_sim import inputs
from haptic_sim.messages import FORCE
from haptic_sim.parameters import ParameterError

EXPERIMENT = "identification"
PLANE: dict[str, Any] = {"scene": {"type": "empty"}, "tool": {"type": "peg"}}
"""Sections of the same experiment in the plane."""
HAND = {  # a relaxed one, that holds the device where it is [N/m, N s/m, N m/rad, N m s/rad]
    "type": "arm",
    "path": [[0.0, 0.0, 0.0, 0.0]],
    "stiffness": 300.0,
    "damping": 5.0,
    "turn_stiffness": 0.5,
    "turn_damping": 0.005,
}
UNITS = {
    "mass": ("kg", "kg m^2"),
    "damping": ("N s/m", "N m s/rad"),
    "friction": ("N", "N m"),
    "stiffness": ("N/m", "N m/rad"),
    "delay": ("s", "s"),
    "noise": ("m", "rad"),
}
OF_DEVICE, OF_HAND = ("mass", "damping", "friction", "delay", "noise"), ("mass", "damping", "stiffness")

_Found = Mapping[str, Mapping[str, Estimate]]  # by direction and name


def identify(options: argparse.Namespace) -> int:
    """`haptics identify DEVICE`."""
    if options.free is None:
        if options.held is not None:
            raise ParameterError(["--held: the trial without a hand is needed, too; give --free DIR"])
        directories = _run(options)
        if directories is None:
            return 130
    else:
        if options.settings or options.trials is not None:
            raise ParameterError(["--set, --trials: are for trials that are run; leave them out with --free"])
        directories = {"free": Path(options.free)}
        if options.held is not None:
            directories["held"] = Path(options.held)
            if os.path.realpath(options.held) == os.path.realpath(options.free):
                raise ParameterError([f"--held {options.held}: is the trial of --free; must be one with a hand"])
    loaded = {name: load_trial(path) for name, path in directories.items()}
    found = {name: _identify(one, directories[name], held=name == "held") for name, one in loaded.items()}
    free, held = found["free"], found.get("held", {})
    result = result_of(free)
    hands = {name: hand_of(free[name], one) for name, one in held.items() if name in free}
    written = _write(options, result, directories)
    device = {name: {key: getattr(one, key) for key in OF_DEVICE} for name, one in free.items()}
    if options.json:
        print(json.dumps(_as_json(options.device, directories, device, hands, result, written), indent=2))
    else:
        _print(directories, device, hands, result, written)
    return DONE


# -- the trials --------------------------------------------------------------------------------------------------------


def _run(options: argparse.Namespace) -> dict[str, Path] | None:
    """Run the trial without a hand and that with one on a simulated device; None if that was interrupted."""
    device = _simulated(options.device)
    free = _trial(device, None, options.settings)
    held = _trial(free.experiment.device.model_dump(mode="json"), HAND, options.settings)
    folder = trial.new_directory(options.trials, EXPERIMENT)
    directories = {"free": folder / "free", "held": folder / "held"}
    with Interruption() as interruption:
        for (name, directory), one in zip(directories.items(), (free, held), strict=True):
            directory.mkdir()
            with trial.progress_bar(one.experiment.last_tick + 1, name, options.quiet) as show:
                summary = trial.run_trial(one, "offline", directory, interruption, show)
            if interruption:
                return None
            if summary["status"] != "done":
                raise ParameterError([f"{directory}: {summary.get('reason', summary['status'])}"])
    return directories


def _trial(device: Mapping[str, Any], hand: Mapping[str, Any] | None, settings: list[str]) -> Trial:
    """The trial of a device, in space or, where it moves in the plane only, there."""
    path = experiments.find(EXPERIMENT)
    document = {**experiments.read_document(path), "device": dict(device)}
    if hand is not None:
        document["operator"] = dict(hand)
    try:
        trials = experiments.load_document(document, path, settings)
    except ParameterError:
        plane = {**document, **PLANE}
        force = document["controller"]["force"]
        plane["controller"] = {**document["controller"], "force": [force[0], force[1], force[5]]}
        try:
            trials = experiments.load_document(plane, path, settings)
        except ParameterError:
            trials = []
        if not trials:
            raise
    if len(trials) > 1:
        raise ParameterError(["--set: a list of values sweeps, one trial a value: that is for `haptics run`"])
    (one,) = trials
    controller = one.experiment.controller
    given = any(text.startswith("duration=") for text in settings)
    if controller.lasts is None or given:
        return one
    return replace(one, experiment=one.experiment.model_copy(update={"duration": controller.lasts}))


def _simulated(name: str) -> dict[str, Any]:
    """The section `device` of a simulated device: a type, an experiment's, or a file's.

    Raises:
        ParameterError: there is none, or it is hardware, which has to be recorded.
    """
    if name in known_devices():
        raise ParameterError(_to_record(name))
    if name in simulated_devices():
        return _forced(name, {"type": name})
    if name in catalogue():
        found = experiments.read_document(experiments.find(name)).get("device", {})
    elif is_file(name):
        found = read_keys(find_device(name))
    else:
        known = [*known_devices(), *simulated_devices(), *catalogue()]
        raise ParameterError(
            [f"device {inputs.shown(name)}: is not a device, experiment or .yaml file{did_you_mean(name, known)}"]
        )
    if "module" in found:
        raise ParameterError(_to_record(name))
    return _forced(name, dict(found))


def _forced(name: str, device: dict[str, Any]) -> dict[str, Any]:
    """A simulated device, if a force moves it."""
    part = DEVICES.find_or_none(device.get("type"))
    if part is not None and (part.ABSENT or part.COMMANDS != FORCE):
        raise ParameterError(
            [f"device {name}: has the type {device['type']}, which no force moves: it has no such data"]
        )
    return device


def _to_record(name: str) -> list[str]:
    """Instructions for the recording with hardware."""
    device = f"--set 'device={{type: hardware, name: {name}}}'"
    return [
        f"device {name}: is hardware: record two trials, then haptics identify {name} --free free --held held",
        f"nobody touches it: haptics run {EXPERIMENT} --mode realtime {device} --out free",
        f"a hand holds it still: haptics run {EXPERIMENT} --mode realtime {device} --out held",
    ]


def _identify(loaded: RecordedTrial, directory: Path, *, held: bool) -> dict[str, Identified]:
    """Identified inertia and damping of a recorded trial, by direction.

    Raises:
        ParameterError: it does not tell; names the trial.
    """
    experiment = loaded.experiment
    device = experiment.device
    if device.limits is None:
        raise ParameterError([f"{directory}: device.type = {device.type}: has no rendered force to identify it by"])
    if loaded.status != "done":
        raise ParameterError([f"{directory}: the trial is {loaded.status}; record it again"])
    try:
        limit = np.minimum(device.limits.limit(), Bound.of(device.last_bound).wrench)
        return identify_motion(motion_in(loaded.samples, experiment.rate, limit), held=held)
    except ParameterError as error:
        raise ParameterError(f"{directory}: {problem}" for problem in error.problems) from error


def motion_in(samples: Samples, rate: float, limit: np.ndarray) -> Motion:
    """The motion of the hand in the samples of a trial at `rate` [Hz]; `limit` of what is rendered (6,) [N, N m].

    Raises:
        ParameterError: too many ticks are missing, or columns.
    """
    names = ("rendered", "operator")
    needed = ["tick", *(f"hand_{one}" for one in POSE), *(f"{name}_{one}" for name in names for one in WRENCH)]
    if missing := [name for name in needed if name not in samples.names]:
        raise ParameterError([f"samples.csv: has no columns {', '.join(missing)}"])
    rendered, operator = map(samples.wrench, names)
    return motion_of(samples["tick"], samples.pose("hand"), rendered, operator, limit, rate)


# -- what is found -----------------------------------------------------------------------------------------------------


def _write(
    options: argparse.Namespace, result: Result, directories: Mapping[str, Path]
) -> tuple[Path, dict[str, Any]] | None:
    """Write the data of hardware, or what --out names: the file, and what was there before; None: nothing."""
    if options.out is not None:
        try:
            path = inputs.check_path(options.out)
        except inputs.InputError as error:
            raise ParameterError([f"--out {inputs.shown(options.out)}: {error}"]) from error
    elif options.device in known_devices():
        path = known_devices()[options.device]
    elif is_file(options.device) and "module" in read_keys(find_device(options.device)):
        path = find_device(options.device)
    else:
        return None
    comments = {key: _comment(key, result) for key in result.values}
    header = f"identified by haptics identify {options.device}, from {' and '.join(map(str, directories.values()))}"
    return path, write_identified(path, result.values, comments, header)


def _comment(key: str, result: Result) -> str:
    """Unit and interval of a value."""
    intervals = ", ".join(f"{low:.10g} to {high:.10g}" for low, high in result.intervals[key])
    return f"{result.units[key]}; 95 %: {intervals}"


def _as_json(
    device: str,
    directories: Mapping[str, Path],
    found: _Found,
    hands: _Found,
    result: Result,
    written: tuple[Path, dict[str, Any]] | None,
) -> dict[str, Any]:
    def listed(values: _Found) -> dict[str, Any]:
        return {
            name: {key: {"value": one.value, "low": one.low, "high": one.high} for key, one in of.items()}
            for name, of in values.items()
        }

    return {
        "device": device,
        "trials": {name: str(path) for name, path in directories.items()},
        "directions": listed(found),
        "hand": listed(hands),
        "data": result.values,
        "intervals": result.intervals,
        "notes": result.notes,
        "file": None if written is None else str(written[0]),
    }


def _print(
    directories: Mapping[str, Path],
    found: _Found,
    hands: _Found,
    result: Result,
    written: tuple[Path, dict[str, Any]] | None,
) -> None:
    for name, path in directories.items():
        print(f"{name}: {path}")
    print("device, with 95 % intervals:")
    for line in _table(found, OF_DEVICE):
        print(f"  {line}")
    if hands:
        print("hand (the trial with it, less the device):")
        for line in _table(hands, OF_HAND):
            print(f"  {line}")
    for note in result.notes:
        print(f"note: {note}")
    if written is None:
        print("data (write it with --out FILE):")
    else:
        print(f"data, written to {written[0]}:")
    for key, value in result.values.items():
        before = "" if written is None or written[1][key] is None else f"  (before: {written[1][key]})"
        print(f"  {key}: {value}  # {_comment(key, result)}{before}")


def _table(found: _Found, names: tuple[str, ...]) -> Iterator[str]:
    """Lines of a table of translations, and of one of rotations."""
    for turns in (False, True):
        rows = {name: values for name, values in found.items() if name.startswith("r") == turns}
        if rows:
            yield f"{'':4}" + "".join(f"{f'{name} [{UNITS[name][turns]}]':>23}" for name in names)
        for name, values in rows.items():
            yield f"{name:4}" + "".join(
                f"{f'{values[key].value:.5g} ± {values[key].half_width:.1g}':>23}" for key in names
            )
