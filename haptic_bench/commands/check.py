"""The functions of the commands `check` and `new`: the properties of a part, and a package for parts of one's own."""

from __future__ import annotations

import argparse
import copy
import keyword
import operator
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from haptic_bench.analysis.properties import properties_of_analysis
from haptic_bench.catalogue import catalogue, config_folder, did_you_mean
from haptic_bench.commands.command_line import DONE, FAILED
from haptic_bench.experiment import StartError, Trial, load, load_document
from haptic_bench.running.properties import Finding, properties
from haptic_bench.running.runner import Interruption
from haptic_bench.set_up import requirements
from haptic_bench.trials.trial import run_trial
from haptic_sim import inputs
from haptic_sim.messages import FORCE
from haptic_sim.parameters import ParameterError
from haptic_sim.parts import Group, PartError, groups
from haptic_sim.tool.tool_side import textures_of
from haptic_sim.worlds.scenes import tools_of

SECTIONS = {
    "controllers": "controller",
    "operators": "operator",
    "devices": "device",
    "scenes": "scene",
    "local_models": "local_model",
    "engines": "environment.engine",
    "contact_methods": "environment.method",
    "friction_models": "contact.friction.model",
    "fields": "scene.fields",
    "textures": "scene.bodies.floor.shapes.0.texture",
    "analyses": "analysis",
}
"""Kinds whose parts are checked, and their keys of an experiment."""
OF_EXPERIMENTS = ("scenes", "analyses")
"""Kinds whose parts are checked in the experiment of their name, where there is one, with all that they run with."""
EXPERIMENT: dict[str, Any] = {
    "name": "check",
    "duration": 0.2,
    "rate": 1000.0,
    "scene": {
        "type": "world",
        "gravity": [0.0, 0.0, 0.0],
        "bodies": {
            "wall": {"joint": "fixed", "shapes": [{"type": "plane", "normal": [-1, 0, 0], "offset": -0.021}]},
            "ball": {"joint": "free", "mass": 0.5, "shapes": [{"type": "sphere", "radius": 0.02}]},
        },
        "tool": "ball",
    },
    "device": {"type": "inertial", "mass": 0.5, "inertia": 0.005},
    "operator": {"type": "constant", "wrench": [2.0, 0.5, 0.0, 0.0, 0.0, 0.01]},
    "controller": {"type": "virtual_coupling"},
    "contact": {"stiffness": 4000.0, "damping": 20.0},
}
"""A hand pushes a ball against a wall."""
CHECKED = "checked"
"""Name of a field that is checked, in the world."""
LONGEST = 1000  # ticks of a trial in which a part is checked
ON_A_FLOOR = {
    "scene": {
        **EXPERIMENT["scene"],
        "bodies": {
            "floor": {"joint": "fixed", "shapes": [{"type": "plane", "offset": -0.021}]},
            "ball": EXPERIMENT["scene"]["bodies"]["ball"],
        },
    },
    "operator": {"type": "constant", "wrench": [0.5, 0.3, -2.0, 0.0, 0.0, 0.01]},
}
"""The hand pushes it down and along a floor, whose texture is looked at."""
IN_THE_PLANE = {"scene": {"type": "empty"}, "tool": {"type": "peg"}}


def check(options: argparse.Namespace) -> int:
    """`haptics check [KIND/]PART [--in EXPERIMENT] [--set KEY=VALUE] [--offline]`."""
    status, lacking, found = DONE, requirements.unmet(("rclpy",)), _found(options.part)
    if len(found) > 1 and (options.settings or options.within is not None):
        kinds = [kind.name for kind, _ in found]
        raise ParameterError(
            [
                f"part {inputs.shown(options.part)}: is one of the {' and one of the '.join(kinds)}; with --set or "
                f"--in say of which: {' or '.join(f'{kind}/{options.part}' for kind in kinds)}"
            ]
        )
    for kind, name in found:
        trial, problem = _built(kind, name, options)
        print(f"{name}, of the {kind.name}:")
        if lacking and not options.offline:
            print(f"  not checked in lockstep, which needs ROS 2: {lacking[0]}")
        for finding in _findings(kind.name, trial, problem, lockstep=not (options.offline or lacking)):
            print(f"  {'failed' if finding.problem else 'passed'}  {finding.text}")
            if finding.problem:
                print(f"          {finding.problem}")
                status = FAILED
    return status


def _found(name: str) -> list[tuple[Group, str]]:
    """The kinds that have a part of a name, or of MODULE:CLASS; of KIND/NAME that kind alone.

    Raises:
        ParameterError: none has, or the part cannot be imported.
    """
    of, slash, rest = name.partition("/")
    if slash and of not in SECTIONS:
        raise ParameterError([f"part {inputs.shown(name)}: unknown kind{did_you_mean(of, list(SECTIONS))}"])
    kinds = [groups()[each] for each in ((of,) if slash else SECTIONS)]
    name = rest if slash else name
    found = [kind for kind in kinds if (kind.find_or_none(name) if ":" in name else name in kind.entries())]
    if not found and ":" in name:
        raise ParameterError(dict.fromkeys(map(_refusal, kinds, [name] * len(kinds))))
    if not found:
        known = sorted({one for kind in kinds for one in kind.entries()})
        raise ParameterError([f"part {inputs.shown(name)}: unknown{did_you_mean(name, known)}"])
    return [(kind, name) for kind in found]


def _refusal(kind: Group, name: str) -> str:
    """Reason why MODULE:CLASS is not a part of a kind."""
    try:
        return f"{kind.load(name)}"
    except PartError as error:
        return str(error)


def _built(kind: Group, name: str, options: argparse.Namespace) -> tuple[Trial | None, str]:
    """A short trial in which a part takes part; without one, why the world of a scene cannot be built.

    Raises:
        ParameterError: see `_trial`.
    """
    try:
        return _trial(kind, name, options), ""
    except StartError as error:
        if kind.name != "scenes" or not all(problem.startswith("scene.") for problem in error.problems):
            raise
        return None, "; ".join(error.problems)
    except ParameterError:
        raise
    except Exception as error:  # whatever the scene of someone else raises
        if kind.name != "scenes":
            raise
        return None, f"{type(error).__name__}: {error}"


def _trial(kind: Group, name: str, options: argparse.Namespace) -> Trial:
    """A short trial in which a part takes part.

    Raises:
        ParameterError: it takes part in no trial offline, or keys of it are missing or wrong.
    """
    part, key = kind.load(name), SECTIONS[kind.name]
    if not getattr(part, "OFFLINE", True):
        raise ParameterError([f"part {name}: takes part in no trial offline; try it with haptics start"])
    if options.within is not None:
        (trial, *_) = load(options.within, options.settings)
        if kind.name == "textures":
            key, used = "scene.bodies.NAME.shapes[i].texture", textures_of(trial.experiment.scene)
        else:
            used = operator.attrgetter(key)(trial.experiment)
        several = tuple(used.values()) if isinstance(used, dict) else (used,)
        if not any(one == name or type(one) is part for one in several):
            types = ", ".join(one if isinstance(one, str) else one.type for one in several) or "none"
            found = f"{key} = {types}" if isinstance(used, str | dict) else f"{key}.type = {types}"
            raise ParameterError([f"--in {options.within}: its {found}; must be {name}"])
    elif kind.name in OF_EXPERIMENTS and name in catalogue():
        (trial, *_) = load(name, options.settings)
    else:
        document: dict[str, Any] = copy.deepcopy(EXPERIMENT) | _fitting(kind.name, part)
        section: Any = document
        *path, last = key.split(".")
        for each in path:
            section = section[int(each)] if isinstance(section, list) else section.setdefault(each, {})
        given: Any = name if kind.name == "analyses" else {"type": name}
        section[last] = {CHECKED: given} if kind.name == "fields" else given
        (trial, *_) = load_document(document, Path("check.yaml"), options.settings)
    trial = trial.in_mode("offline")
    return trial.with_ticks(min(trial.experiment.last_tick + 1, LONGEST))


def _fitting(kind: str, part: Any) -> dict[str, Any]:
    """The sections of an experiment that a part needs beside itself."""
    found: dict[str, Any] = {}
    if getattr(part, "COMMANDS", FORCE) != FORCE:
        found = {"device" if kind == "controllers" else "controller": {"type": "admittance"}}
    if getattr(part, "PLANAR", False):
        found |= IN_THE_PLANE
    if kind == "textures":
        found |= copy.deepcopy(ON_A_FLOOR)
    if kind == "local_models":
        found |= {"environment": {"rate": 60.0}}
    if "none" not in (tools := tools_of(part)):
        found |= {"tool": {"type": tools[0]}}
    return found


def _findings(kind: str, trial: Trial | None, problem: str, *, lockstep: bool) -> Iterator[Finding]:
    if kind == "scenes":
        yield Finding("its world is built", problem)
    if trial is None:
        return
    if kind == "analyses":
        yield from properties_of_analysis(trial)
        return
    yield from properties(kind, trial)
    if lockstep:
        yield Finding("the same bits offline and in lockstep", _lockstep_problem(trial))


def _lockstep_problem(trial: Trial) -> str:
    """Difference between a trial offline and one of the ROS graph in lockstep; empty: none."""
    with tempfile.TemporaryDirectory(prefix="haptics-check-") as folder, Interruption() as interruption:
        samples = []
        for mode in ("offline", "lockstep"):
            directory = Path(folder, mode)
            directory.mkdir()
            summary = run_trial(trial, mode, directory, interruption)
            if summary["status"] != "done":
                return f"{mode}: the trial has {summary['status']}: {summary.get('reason', '')}"
            samples.append((directory / "samples.csv").read_bytes())
    return "" if samples[0] == samples[1] else "samples.csv of the two trials differ"


def new(options: argparse.Namespace) -> int:
    """`haptics new PACKAGE`: the example package under a name of its own, in a new folder of that name."""
    name, template = options.package, config_folder().parent / "examples" / "own_parts"
    if not name.isidentifier() or keyword.iskeyword(name) or not name.isascii():
        raise ParameterError([f"package {inputs.shown(name)}: must be a name of Python, as my_parts"])
    if not template.is_dir():
        raise ParameterError([f"the example package is not there: no {template}; install haptics again"])
    folder = Path(name)
    try:
        folder.mkdir()
    except OSError as error:
        raise ParameterError([f"package {name}: {error.strerror}; choose another name or folder"]) from error
    for file in sorted(template.rglob("*")):
        if file.is_dir() or "__pycache__" in file.parts or file.suffix == ".pyc":
            continue
        target = folder / str(file.relative_to(template)).replace("lab_parts", name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file.read_text(encoding="utf-8").replace("lab_parts", name), encoding="utf-8")
        print(target)
    print(f"next: pip install --no-deps --upgrade --target parts ./{name}")
    print(f"      PYTHONPATH=parts haptics run {name}/own_wall.yaml --mode offline")
    return DONE
