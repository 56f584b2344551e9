"""Loading an experiment: its YAML file with settings applied, validated before anything starts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from haptic_bench.catalogue import NotThere, catalogue, config_folder, did_you_mean
from haptic_bench.catalogue import find as _find
from haptic_bench.experiment import analyses
from haptic_bench.experiment.devices import with_device_data
from haptic_bench.experiment.model import Experiment
from haptic_bench.experiment.resolution import Trial, resolve
from haptic_bench.experiment.rules import broken_rules
from haptic_bench.experiment.settings import Settings, variants
from haptic_drivers.tool_operator import draggable
from haptic_sim import inputs, parts
from haptic_sim.libyaml import DUMPER
from haptic_sim.parameters import ParameterError, explain, similar

OPERATOR_FILE = "operator.csv"  # beside experiment.yaml


def find(name: str) -> Path:
    """The file of an experiment, by name or as a path.

    Raises:
        ParameterError: there is none.
    """
    try:
        return _find(name)
    except NotThere as error:
        raise ParameterError([str(error)]) from error


def read_document(path: Path) -> dict[str, Any]:
    """The content of an experiment file.

    Raises:
        ParameterError: unreadable, not YAML (names the line), or not a mapping.
    """
    return {"name": name_of(path)} | inputs.read_mapping(path)


def name_of(path: Path) -> str:
    """Name of the experiment in a file: that of the file, with _ for what topics cannot have."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", path.stem)
    return name if name[0].isalpha() else f"experiment_{name}"


def load(
    name: str,
    settings: Settings = (),
    duration: float | str | None = None,
    zipped: Sequence[str] = (),
) -> list[Trial]:
    """The trials of an experiment with `--set KEY=VALUE` settings; more than one when a setting sweeps.

    Args:
        name: of an experiment, or its file.
        settings: KEY=VALUE, of a key that is given twice, the last counts; or values by key.
        duration: [s]; as the experiment says if None.
        zipped: KEY,KEY: lists that go together, first with first, instead of each value with each.

    Raises:
        ParameterError: one line for each problem.
    """
    path = find(name)
    trials = load_document(read_document(path), path, settings, duration, zipped)
    if any(trial.experiment.bridged for trial in trials):
        raise ParameterError(
            ["controller.type = crtk: is of a system without a world, which has no trials; use `haptics start`"]
        )
    return trials


def load_document(
    document: dict[str, Any],
    path: Path,
    settings: Settings = (),
    duration: float | str | None = None,
    zipped: Sequence[str] = (),
) -> list[Trial]:
    """Load the content of an experiment's file, as `load`; other files are looked for beside `path`."""
    trials = []
    for changed, varied in variants(document, settings, duration, zipped):
        try:
            trials.append(_validate(changed, path, varied))
        except ParameterError as error:
            raise type(error)(line + _meant(line, document, changed) for line in error.problems) from error
    return trials


def _meant(problem: str, document: Any, changed: Any) -> str:
    """Hint where something is missing in an entry that settings have made, beside one of a similar name."""
    key, _, what = problem.partition(": ")
    for name in key.split(".") if what.startswith("missing") else ():
        if not (isinstance(document, dict) and isinstance(changed, dict)) or name not in changed:
            break
        if name not in document and (near := similar(name, document)):
            return f"; settings have made this entry: did you mean {near}?"
        document, changed = document.get(name), changed[name]
    return ""


def find_system(name: str, folder: Path) -> Path:
    """The file of a system of formulas: here, in a folder, or in that of the systems that come with haptics.

    Raises:
        ParameterError: there is none.
    """
    try:
        given = inputs.check_path(name)
    except inputs.InputError as error:
        raise ParameterError([f"scene.file = {inputs.shown(name)}: {error}"]) from error
    config = config_folder()
    places = (Path(), folder, config.parent, config / "systems")
    for place in places:
        for path in (place / given, place / f"{given}.yaml"):
            if path.is_file():
                return path
    known = sorted(path.stem for path in (config / "systems").glob("*.yaml"))
    raise ParameterError(
        [
            f"scene.file = {inputs.shown(name)}: is not there, neither here nor in {folder} nor in config/systems"
            f"{did_you_mean(name, known)}"
        ]
    )


def read_system(path: Path) -> dict[str, Any]:
    """The keys of the scene in the file of a system.

    Raises:
        ParameterError: see `read_document`.
    """
    content = read_document(path)
    if content.pop("type", "formulas") != "formulas":
        raise ParameterError([f"{path}: type: must be formulas, or left out"])
    return {key: value for key, value in content.items() if key not in ("name", "title", "source", "description")}


def _with_system(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Copy of the experiment with the formulas of the file that the scene names, where it has no keys of its own."""
    match document:
        case {"scene": {"type": "formulas", "file": str(file), **keys}}:
            own = {"type": "formulas", **keys}
        case _:
            return document
    of_file = read_system(find_system(file, folder))
    merged = of_file | own
    for key in ("parameters", "start"):  # of which one may be changed alone
        match own.get(key), of_file.get(key):
            case dict(ours), dict(theirs):
                merged[key] = theirs | ours
    return document | {"scene": merged}


def _validate(
    document: dict[str, Any], path: Path, varied: tuple[tuple[str, str], ...] = (), *, resolved: bool = False
) -> Trial:
    document = with_device_data(_with_system(document, path.parent), path.parent)
    if resolved and (missing := parts.missing(document.get("packages"))):
        raise ParameterError(f"packages.{line}" for line in missing)
    try:
        experiment = Experiment.model_validate(document)
    except ValidationError as error:
        raise ParameterError(explain(error, Experiment)) from error
    analyses.find(experiment.analysis)
    experiment = experiment.model_copy(
        update={"packages": parts.packages_of(experiment) | analyses.package_of(experiment.analysis)}
    )
    by_person = experiment.operator.EVENTS or experiment.hardware
    if by_person and not analyses.find(experiment.analysis).TAKES_POINTER:
        experiment = experiment.model_copy(
            update={"analysis": "trial"}
        )  # a person does not do what the analysis expects
    problems = broken_rules(experiment)
    if problems:
        raise ParameterError(problems)
    scene = experiment.scene
    if resolved:  # the trial's own copies, whatever is where the user is
        scene = scene.with_files(lambda name: path.parent / name)
    experiment = experiment.model_copy(update={"scene": scene.placed(path.parent)})
    experiment, start = resolve(experiment, again=resolved)
    problems = analyses.find(experiment.analysis).check(experiment)
    if problems:
        raise ParameterError(problems)
    table, key = None, experiment.operator.file_key
    if key:
        file = Path(getattr(experiment.operator, key))
        # Relative to where the user is, else to the experiment's file; a resolved one has it beside itself.
        if not file.is_absolute() and (resolved or not os.path.exists(file)):
            file = path.parent / file
        try:
            lines = inputs.read_text(file, inputs.DATA).splitlines()
            table = experiment.operator.read_file(lines, str(file), draggable(start, standalone=experiment.standalone))
        except inputs.InputError as error:
            raise ParameterError([f"operator.{key} = {inputs.shown(str(file))}: {error}"]) from error
    return Trial(experiment, table, varied, start)


def assemble(sections: Mapping[str, Any]) -> Trial:
    """The trial of sections that a program gives: parameters, or their content.

    Raises:
        ParameterError: one line for each problem.
    """
    return _validate({"name": "loop", "duration": 1.0, **sections}, Path("loop"))


def declared(name: str) -> Experiment | None:
    """The experiment of the catalogue as its file says, open keys being None; None: there is none of that name."""
    path = catalogue().get(name)
    if path is None:
        return None
    document = with_device_data(_with_system(read_document(path), path.parent), path.parent)
    experiment = Experiment.model_validate(document)
    return experiment.model_copy(update={"scene": experiment.scene.placed(path.parent)})


def read_resolved(path: Path) -> Trial:
    """The trial of a resolved `experiment.yaml` in a trial's directory."""
    return _validate(read_document(path), path, resolved=True)


def changed_packages(path: Path) -> list[str]:
    """Packages of a resolved `experiment.yaml` that are installed in another version, one line each."""
    return [f"packages.{line}" for line in parts.changed(read_document(path).get("packages"))]


def resolved(trial: Trial) -> dict[str, str]:
    """Content of the files that say what a trial is, by name: `experiment.yaml`, and those of operator and motions.

    Raises:
        ParameterError: a trajectory's file is no longer there.
    """
    experiment = trial.experiment
    files: dict[str, str] = {}

    def copied(original: str) -> str:
        name = f"trajectory_{len(files) + 1}{Path(original).suffix}"
        try:
            files[name] = inputs.read_text(original, inputs.DATA)
        except inputs.InputError as error:
            raise ParameterError([f"scene.motions: {inputs.shown(original)}: {error}"]) from error
        return name

    experiment = experiment.model_copy(update={"scene": experiment.scene.with_files(copied)})
    if trial.table is not None:
        files[OPERATOR_FILE] = experiment.operator.write_file(trial.table)
        experiment = _with_operator_beside(experiment)
    document = experiment.model_dump(mode="json")
    text = yaml.dump(document, Dumper=DUMPER, sort_keys=False, allow_unicode=True, width=100)
    return files | {"experiment.yaml": text}


def _with_operator_beside(experiment: Experiment) -> Experiment:
    operator = experiment.operator
    operator = operator.model_copy(update={operator.file_key: OPERATOR_FILE})
    return experiment.model_copy(update={"operator": operator})


def write_resolved(trial: Trial, directory: Path) -> Trial:
    """Write `experiment.yaml`, and the files of operator and motions beside it, so that the directory needs no others.

    Returns:
        The trial as it is read back.
    """
    for name, text in resolved(trial).items():
        (directory / name).write_text(text, encoding="utf-8")
    if trial.table is None:
        return trial
    return replace(trial, experiment=_with_operator_beside(trial.experiment), built=trial.start)
