"""Experiments: one YAML file each, validated before anything starts."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from pydantic import BaseModel, ValidationError, model_validator

from haptic_bench.catalogue import NotThere
from haptic_bench.catalogue import catalogue as catalogue
from haptic_bench.catalogue import find as _find
from haptic_control.admittance import AdmittanceParameters
from haptic_control.controllers import AnyControllerParameters, NoControllerParameters, stability_problem
from haptic_control.shaping import ShapingParameters
from haptic_control.stability import CoupledInertias
from haptic_drivers.admittance import AdmittanceDeviceParameters
from haptic_drivers.driver import AnyDeviceParameters, HandParameters, InertialParameters, NoDeviceParameters
from haptic_drivers.operators import AnyOperatorParameters, FileParameters, read_table
from haptic_sim import inputs
from haptic_sim.constraints.scenes import ConstraintParameters, RollingSpheresParameters
from haptic_sim.contact.response import UNLIMITED, ContactParameters, DeviceLimits
from haptic_sim.messages import ToolSizes
from haptic_sim.parameters import ParameterError, Parameters, explain, quantity, variant_of
from haptic_sim.tool.environment import EnvironmentParameters
from haptic_sim.tool.local_model import LocalModelParameters
from haptic_sim.tool.tool_side import (
    build_tool_side,
    hand_inertia,
    hand_mobility,
    hand_of,
    is_constrained,
    tool_sizes,
    world_of,
)
from haptic_sim.worlds.building import World, with_absolute_paths
from haptic_sim.worlds.parameters import NAME, WorldParameters
from haptic_sim.worlds.scenes import (
    AnySceneParameters,
    AnyToolParameters,
    NoToolParameters,
    tools_of,
)

MAX_TICKS = 10_000_000
LONGEST_FOLDER = 180  # [B]; names of files have 255 at most


class HealthParameters(Parameters):
    """How much of a realtime trial may go wrong. A tick is missed that has no answer in time, or is not recorded."""

    missed_share: float = quantity(
        0.2, description="A realtime trial that missed more than this part of its ticks has failed", ge=0.0, le=1.0
    )
    undecided_share: float = quantity(
        0.02,
        description="Claims of a realtime trial that missed more than this part of its ticks are undecided",
        ge=0.0,
        le=1.0,
    )


class Experiment(Parameters):
    """A bench experiment. The sections are the parameters of the cores."""

    name: str = quantity(description="Name, that of the file", pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$")
    title: str = quantity("", description="One line for lists and reports")
    source: str = quantity("", description="Where it was published")
    description: str = quantity("", description="What happens in it")
    duration: float = quantity(unit="s", description="Length of the trial", gt=0.0)
    rate: float = quantity(unit="Hz", description="Servo rate", gt=0.0, le=20000.0)
    seed: int = quantity(
        0,
        description="Seed of what is random: noise, pose_noise, twist_noise and jitter of the device, tremor of the "
        "operator, jitter of the scene; where all of them are 0, nothing is random",
        ge=0,
    )
    operator: AnyOperatorParameters = quantity(description="The simulated hand")
    device: AnyDeviceParameters = quantity(description="The haptic device")
    controller: AnyControllerParameters = quantity(
        NoControllerParameters(), description="Controller between device and tool"
    )
    tool: AnyToolParameters = quantity(NoToolParameters(), description="The virtual tool, if the scene has none")
    scene: AnySceneParameters = quantity(description="The virtual world")
    contact: ContactParameters = quantity(ContactParameters(), description="Material of the contacts")
    environment: EnvironmentParameters = quantity(EnvironmentParameters(), description="How the world is simulated")
    local_model: LocalModelParameters = quantity(LocalModelParameters(), description="The local model of interaction")
    constraint: ConstraintParameters = quantity(
        ConstraintParameters(), description="How the exact constraints of the tool are kept"
    )
    health: HealthParameters = quantity(HealthParameters(), description="How much of a realtime trial may go wrong")
    analysis: str = quantity("trial", description="Which metrics and figures are made", pattern=r"^[a-z][a-z0-9_]*$")

    @model_validator(mode="before")
    @classmethod
    def _a_device_that_is_moved_has_its_controller(cls, data: Any) -> Any:
        """The controller of an admittance device, where none is given."""
        if isinstance(data, dict):
            device, controller = data.get("device"), data.get("controller", {})
            moved = isinstance(device, dict) and device.get("type") == "admittance"
            if moved and isinstance(controller, dict) and controller.get("type", "none") == "none":
                return {**data, "controller": {**controller, "type": "admittance"}}
        return data

    @property
    def random(self) -> tuple[str, ...]:
        """What of it is random, and drawn from the seed: names of keys; empty where nothing is."""
        keys = {
            "device": ("noise", "pose_noise", "twist_noise", "jitter"),
            "operator": ("tremor",),
            "scene": ("jitter",),
        }
        return tuple(
            f"{section}.{key}"
            for section, names in keys.items()
            for key in names
            if any(getattr(getattr(self, section), key, ()))
        )

    @property
    def last_tick(self) -> int:
        """N: ticks 0 to N are executed."""
        return round(self.duration * self.rate)

    @property
    def namespace(self) -> str:
        """The name as a ROS name."""
        return re.sub(r"\W", "_", self.name, flags=re.ASCII)

    @property
    def asynchronous(self) -> bool:
        """Whether a local model answers the controller."""
        return self.local_model.type != "none"

    @property
    def alone(self) -> bool:
        """Whether the environment runs without a device, under the operator's wrench."""
        return self.device.type == "none"

    @property
    def limits(self) -> DeviceLimits:
        """What the tool's side has to know of the device's limits: of one that renders forces."""
        return self.device if isinstance(self.device, DeviceLimits) else UNLIMITED

    def world(self) -> World:
        """The virtual world at its start.

        Raises:
            ParameterError: it cannot be built.
        """
        return world_of(self)

    def tool_sizes(self) -> ToolSizes:
        """Of the virtual tool."""
        return tool_sizes(self)

    def hand(self) -> HandParameters:
        """Where the virtual tool is held at the start."""
        pose, planar = hand_of(self)
        return HandParameters(pose=tuple(pose.tolist()), planar=planar)

    def coupled_inertias(self) -> CoupledInertias:
        """What the controller couples, at the start."""
        device = self.device
        pose, planar = hand_of(self)
        mobility = hand_mobility(self, self.rate).ravel()
        mobility[np.abs(mobility) < 1e-15 * np.abs(mobility).max(initial=0.0)] = 0.0  # rounding
        tool = tuple(np.clip(mobility, -inputs.LARGEST, inputs.LARGEST).tolist())
        if isinstance(device, InertialParameters) and device.mass is not None and device.inertia is not None:
            return CoupledInertias(planar=planar, tool=tool, device=(device.mass, device.inertia))
        if isinstance(device, AdmittanceDeviceParameters):
            inertia, obeyed, drag = device.follows(self.rate)
            felt = tuple(device.sensed_inertia(pose).ravel().tolist())
            return CoupledInertias(planar=planar, tool=tool, device=inertia, obeyed=obeyed, drag=drag, felt=felt)
        return CoupledInertias(planar=planar, tool=tool)


def _joint_rules(experiment: Experiment) -> list[str]:
    """What the sections must satisfy together; one line for each breach."""
    problems = []
    environment, rate = experiment.environment, experiment.rate
    if experiment.duration * rate > MAX_TICKS:
        problems.append(
            f"duration = {experiment.duration:g} s at rate = {rate:g} Hz: must be at most {MAX_TICKS} ticks"
        )
    tools = tools_of(experiment.scene)
    if experiment.tool.type not in tools:
        kind = experiment.scene.type
        problems.append(
            f"tool.type = {experiment.tool.type}: "
            + (
                f"the scene {kind} has a tool of its own; leave tool out, or set tool.type=none"
                if tools == ("none",)
                else f"the scene {kind} is around a tool; give tool.type={' or '.join(tools)}"
            )
        )
    if experiment.alone:
        for name in ("controller", "local_model"):
            kind = getattr(experiment, name).type
            if kind != "none":
                problems.append(f"{name}.type = {kind}: without a device there is none; set {name}.type=none")
    elif experiment.controller.type == "none":
        problems.append("controller.type = none: a device needs one; set controller.type=four_channel")
    else:
        problems += _admittance_rules(experiment)
    problems += _constraint_rules(experiment)
    if not experiment.asynchronous:
        for key in ("rate", "delay"):
            value = getattr(environment, key)
            if value is not None and not (key == "rate" and value == rate):
                problems.append(
                    f"environment.{key} = {value:g}: an environment without a local model runs at the servo rate; "
                    "leave it out, or set local_model.type=full"
                )
    elif environment.rate is not None and environment.rate > rate:
        problems.append(f"environment.rate = {environment.rate:g} Hz: must be at most the servo rate ({rate:g} Hz)")
    return problems


def _admittance_rules(experiment: Experiment) -> list[str]:
    controller, moved = experiment.controller, isinstance(experiment.device, AdmittanceDeviceParameters)
    if not isinstance(controller, AdmittanceParameters):
        if not moved:
            return []
        return [
            f"controller.type = {controller.type}: an admittance device takes motion; set controller.type=admittance"
        ]
    if not moved:
        kind = experiment.device.type
        return [f"controller.type = admittance: device.type = {kind} takes forces; set device.type=admittance"]
    return []


def _constraint_rules(experiment: Experiment) -> list[str]:
    kind = experiment.scene.type
    if not is_constrained(experiment):
        if experiment.constraint == ConstraintParameters():
            return []
        return [f"constraint: is for tools under exact constraints alone, not for the scene {kind}; leave it out"]
    if experiment.constraint.rolling != "true" and not isinstance(experiment.scene, RollingSpheresParameters):
        return [f"constraint.rolling = {experiment.constraint.rolling}: is for the scene rolling_spheres; leave it out"]
    if experiment.asynchronous:
        return [
            f"local_model.type = {experiment.local_model.type}: the scene {kind} is a tool under exact constraints, "
            "which answers at the servo rate; set local_model.type=none"
        ]
    return []


@dataclass(frozen=True)
class Trial:
    """An experiment ready to run: validated, its files read.

    `wrenches` holds the rows of a `file` operator (see `read_table`). `varied` are the keys and the values, as texts,
    by which a trial of a sweep differs, `notes` what is to be said at the start (`World.notes`).
    """

    experiment: Experiment
    wrenches: np.ndarray | None = None
    varied: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The KEY=VALUE of a sweep."""
        return ",".join(f"{key}={value}" for key, value in self.varied)

    @property
    def folder(self) -> str:
        """Name of its directory in that of the sweep: the label, or as much of it as a file system takes."""
        name = self.label.encode()
        if len(name) <= LONGEST_FOLDER:
            return self.label
        return f"{name[:LONGEST_FOLDER].decode(errors='ignore')}~{hashlib.sha256(name).hexdigest()[:12]}"


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
    try:
        document = inputs.read_yaml(inputs.read_text(path))
    except inputs.InputError as error:
        raise ParameterError([f"{inputs.shown(str(path))}: {error}"]) from error
    if not isinstance(document, dict):
        raise ParameterError([f"{path}: must be a mapping of keys to values"])
    return {"name": path.stem} | document


def load(
    name: str,
    settings: Sequence[str] = (),
    duration: float | str | None = None,
    zipped: Sequence[str] = (),
) -> list[Trial]:
    """The trials of an experiment with `--set KEY=VALUE` settings; more than one when a setting sweeps.

    Args:
        name: of an experiment, or its file.
        settings: KEY=VALUE; of a key that is given twice, the last counts.
        duration: [s]; as the experiment says if None.
        zipped: KEY,KEY: lists that go together, first with first, instead of each value with each.

    Raises:
        ParameterError: one line for each problem.
    """
    path = find(name)
    return load_document(read_document(path), path, settings, duration, zipped)


def load_document(
    document: dict[str, Any],
    path: Path,
    settings: Sequence[str] = (),
    duration: float | str | None = None,
    zipped: Sequence[str] = (),
) -> list[Trial]:
    """As `load`, of the content of an experiment's file; other files are looked for beside `path`."""
    pairs = [_parse_setting(setting) for setting in settings]
    if duration is not None:
        with contextlib.suppress(inputs.InputError):  # a text that is no number is named when it is checked
            duration = inputs.number(duration) if isinstance(duration, str) else duration
        pairs.append(("duration", duration))
    pairs = list(dict(pairs).items())  # of a key that is given twice, the last counts
    settings_of = list(_sweeps(Experiment, document, pairs))
    swept = {key for key, _, sweeps in settings_of if sweeps}
    axes = _axes({key: values for key, values, _ in settings_of}, swept, zipped)
    trials = []
    for combination in itertools.product(*axes):
        values = dict(itertools.chain.from_iterable(combination))
        ordered = [(key, values[key]) for key, _, _ in settings_of]
        varied = tuple((key, _label(value)) for key, value in ordered if key in swept)
        trials.append(_validate(_apply(Experiment, document, ordered), path, varied))
    return trials


def _axes(
    values_of: dict[str, list[Any]], swept: set[str], zipped: Sequence[str]
) -> list[list[tuple[tuple[str, Any], ...]]]:
    """The settings that vary together, for each of their values.

    Raises:
        ParameterError: what is zipped are not lists of the same length.
    """
    together: dict[str, list[str]] = {}  # keys by the first of their group
    seen: set[str] = set()
    for text in zipped:
        keys = text.split(",")
        lengths = {key: len(values_of[key]) for key in keys if key in swept}
        shown = f"--zip {inputs.shown(text)}"
        if len(keys) < 2 or len(set(keys)) < len(keys):
            raise ParameterError([f"{shown}: must be two keys or more, as in --zip contact.stiffness,contact.damping"])
        for key in keys:
            if key not in swept:
                raise ParameterError([f"{shown}: {inputs.shown(key)} has no list of values; give one with --set"])
            if key in seen:
                raise ParameterError([f"{shown}: {key} is zipped already"])
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{key} has {count}" for key, count in lengths.items())
            raise ParameterError([f"{shown}: must be lists of the same length; {counts} values"])
        seen.update(keys)
        together[min(keys, key=list(values_of).index)] = keys
    axes = []
    for key in values_of:
        if key in together or key not in seen:
            keys = together.get(key, [key])
            rows = zip(*(values_of[one] for one in keys), strict=True)
            axes.append([tuple(zip(keys, row, strict=True)) for row in rows])
    return axes


_INDEX = re.compile(r"\[(\d{1,4})\]")  # of an entry of a list


def _steps(key: str) -> list[str]:
    """The names and indices on the way to a key."""
    return _INDEX.sub(r".\1", key).split(".")


def _parse_setting(setting: str) -> tuple[str, Any]:
    key, equals, text = setting.partition("=")
    shown = f"--set {inputs.shown(setting)}"
    if not equals or not all(
        _INDEX.sub("", part).isidentifier() or NAME.fullmatch(_INDEX.sub("", part)) for part in key.split(".")
    ):
        example = "contact.stiffness=2000, or scene.bodies.box.shapes[0].size=[0.1,0.1,0.2]"
        raise ParameterError([f"{shown}: must be KEY=VALUE, as in --set {example}"])
    try:
        return key, inputs.read_yaml(text)
    except inputs.InputError as error:
        raise ParameterError([f"{shown}: the value is no YAML: {str(error).rpartition('not YAML: ')[2]}"]) from error


def _label(value: Any) -> str:
    """A value as in YAML, for the name of a directory."""
    if isinstance(value, list):
        return f"[{','.join(map(_label, value))}]"
    text = json.dumps(value) if value is None or isinstance(value, bool) else str(value)
    return re.sub(r"[/\0]", "_", text).replace(" ", "")


def _sweeps(
    model: type[BaseModel], document: dict[str, Any], pairs: Sequence[tuple[str, Any]]
) -> Iterator[tuple[str, list[Any], bool]]:
    """Each setting with its values, and whether it sweeps: where a list is given for a key that takes one value.

    Raises:
        ParameterError: two values of a sweep are the same, or would have the same directory.
    """
    for key, value in pairs:
        if isinstance(value, list) and value:
            takes_list = _takes_list(model, document, _steps(key))
            if not takes_list or isinstance(value[0], list):
                labels = [_label(one) for one in value]
                for i, label in enumerate(labels):
                    if label in labels[:i]:
                        raise ParameterError([f"{key}: {label} is there twice; must be different values"])
                yield key, value, True
                continue
        yield key, [value], False


def _takes_list(model: Any, document: Any, path: Sequence[str]) -> bool:
    """Whether the key at `path` takes a list; True for unknown keys, whose error shall show the whole value."""
    steps = list(path)
    while steps:
        name = steps.pop(0)
        field = getattr(model, "model_fields", {}).get(name)
        if field is None:
            return True
        document = _member(document, name)
        kinds = list(_parts(field.annotation))
        while steps and (entries := [_entry(kind) for kind in kinds if typing.get_args(kind)]):
            kinds = [part for entry in entries for part in _parts(entry)]
            document = _member(document, steps.pop(0))
        if not steps:
            return any(typing.get_origin(kind) in (tuple, list) for kind in kinds)
        tag = _member(document, "type")
        variant = variant_of(model, name, tag if isinstance(tag, str) else None)
        model = variant or next((kind for kind in kinds if steps[0] in getattr(kind, "model_fields", {})), None)
    return True


def _member(document: Any, name: str) -> Any:
    """What a part of a document has under a name or an index; None if it has nothing there."""
    if isinstance(document, list):
        return document[int(name)] if name.isdigit() and int(name) < len(document) else None
    return document.get(name) if isinstance(document, dict) else None


def _entry(kind: Any) -> Any:
    """Of what the entries of a list or mapping are."""
    return typing.get_args(kind)[1 if typing.get_origin(kind) is dict else 0]


def _parts(annotation: Any) -> Iterator[Any]:
    """The members of a union, annotations taken off."""
    if typing.get_origin(annotation) is typing.Annotated:
        yield from _parts(annotation.__origin__)
    elif typing.get_origin(annotation) is typing.Union or type(annotation).__name__ == "UnionType":
        for member in typing.get_args(annotation):
            yield from _parts(member)
    else:
        yield annotation


def _apply(model: type[BaseModel], document: dict[str, Any], settings: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A copy of `document` with the settings. Setting X.type drops the keys of X that the new variant does not have."""
    result = _copy(document)
    for key, value in settings:
        *parents, last = _steps(key)
        target: Any = result
        for name, after in itertools.pairwise([*parents, last]):
            place = _place(target, name, key)
            target = target.setdefault(place, {}) if isinstance(target, dict) else target[place]
            if not isinstance(target, list if after.isdigit() else dict):
                if after.isdigit():
                    missing = "is no list in the experiment; set it as a whole"
                elif isinstance(target, list):
                    missing = f"is a list; say which, as in {name}[0]"
                else:
                    missing = "has no keys of its own"
                raise ParameterError([f"--set {key}: {name} {missing}"])
        if last == "type" and len(parents) == 1:
            variant = variant_of(model, parents[0], value) if isinstance(value, str) else None
            if variant is not None and target.get("type") != value:
                given = {k.split(".")[1] for k, _ in settings if k.startswith(parents[0] + ".")}
                for name in list(target):
                    if name not in variant.model_fields and name not in given:
                        del target[name]
        target[_place(target, last, key)] = value
    return result


def _place(target: Any, name: str, key: str) -> Any:
    """Where a mapping or a list has what a step of a key names."""
    if not isinstance(target, list):
        return name
    if not name.isdigit() or int(name) >= len(target):
        raise ParameterError([f"--set {key}: [{name}] is not in the list, which has {len(target)} entries from [0] on"])
    return int(name)


def _copy(document: Any) -> Any:
    if isinstance(document, list):
        return [_copy(value) for value in document]
    return {k: _copy(v) for k, v in document.items()} if isinstance(document, dict) else document


def _validate(
    document: dict[str, Any], path: Path, varied: tuple[tuple[str, str], ...] = (), *, resolved: bool = False
) -> Trial:
    from haptic_bench.studies import study_of  # studies are of experiments

    try:
        experiment = Experiment.model_validate(document)
    except ValidationError as error:
        raise ParameterError(explain(error, Experiment)) from error
    problems = _joint_rules(experiment)
    if problems:
        raise ParameterError(problems)
    if isinstance(experiment.scene, WorldParameters):
        scene = with_absolute_paths(experiment.scene, path.parent)
        experiment = experiment.model_copy(update={"scene": scene})
    world = _check_world(experiment)
    experiment = _with_limits_of_device(experiment, world)
    experiment = _with_inertias(experiment)
    if not resolved:  # what has been run once is read back, whatever became of it
        _check_controller(experiment)
    problems = study_of(experiment).check(experiment)
    if problems:
        raise ParameterError(problems)
    wrenches = None
    if isinstance(experiment.operator, FileParameters):
        file = Path(experiment.operator.path)
        # Relative to where the user is, else to the experiment's file; a resolved one has it beside itself.
        if not file.is_absolute() and (resolved or not os.path.exists(file)):
            file = path.parent / file
        try:
            wrenches = read_table(inputs.read_text(file, inputs.DATA).splitlines(), str(file))
        except inputs.InputError as error:
            raise ParameterError([f"operator.path = {inputs.shown(str(file))}: {error}"]) from error
    return Trial(experiment, wrenches, varied, () if world is None else world.notes)


def _with_inertias(experiment: Experiment) -> Experiment:
    """The same experiment, whose device has an inertia of its own, which the controller knows if it has to."""
    controller, device = experiment.controller, experiment.device
    if isinstance(device, InertialParameters):
        device = _with_inertia_of_tool(device, experiment)
        experiment = experiment.model_copy(update={"device": device})
    if not isinstance(controller, ShapingParameters):
        return experiment
    known = (device.mass, device.inertia) if isinstance(device, InertialParameters) else (None, None)
    names = ("device_mass", "device_inertia")
    update = {name: value for name, value in zip(names, known, strict=True) if getattr(controller, name) is None}
    if None in update.values():
        raise ParameterError(f"controller.{name} = null: device.type = {device.type} has none" for name in update)
    return experiment.model_copy(update={"controller": controller.model_copy(update=update)})


def _with_limits_of_device(experiment: Experiment, world: World | None) -> Experiment:
    """The same experiment, with what the device renders said in full: for this tool, in this many directions.

    Args:
        experiment: whose device may have left something open.
        world: its virtual world, None for a tool under exact constraints alone.
    """
    device = experiment.device
    if isinstance(device, NoDeviceParameters):
        return experiment
    update: dict[str, Any] = {}
    if isinstance(device, DeviceLimits) and "impulse_rendering" not in device.model_fields_set:
        impulses = experiment.environment.method in ("impulse_augmented", "frictional_impulses")
        if world is None or not impulses or not world.bodies(1.0 / experiment.rate).held_alone:
            update["impulse_rendering"] = "saturated"
    planar = experiment.hand().planar if world is None else world.planar
    if not planar:
        if isinstance(device, DeviceLimits):
            update["wrench_limit"] = _in_space(device.wrench_limit)
        bound = {
            name: _in_space(values)
            for name, values in (("wrench", device.bound.wrench), ("rate", device.bound.rate))
            if values is not None
        }
        update["bound"] = device.bound.model_copy(update=bound)
    return experiment.model_copy(update={"device": device.model_copy(update=update)})


def _in_space(values: tuple[float, ...]) -> tuple[float, ...]:
    """A limit in all six directions from one in the plane: along z the smaller force, the torque about every axis."""
    return values if len(values) == 6 else (*values[:2], min(values[:2]), *(3 * values[2:]))


def _with_inertia_of_tool(device: InertialParameters, experiment: Experiment) -> InertialParameters:
    """The same device, with the tool's mass and inertia where it has none of its own."""
    missing = [name for name in ("mass", "inertia") if getattr(device, name) is None]
    if not missing:
        return device
    keys = " and ".join(f"device.{name}" for name in missing)
    try:
        found = dict(zip(("mass", "inertia"), hand_inertia(experiment), strict=True))
        taken = {name: found[name] for name in missing}
        InertialParameters.model_validate(taken)
        return device.model_copy(update=taken)
    except ValidationError as error:
        raise ParameterError(
            f"{problem} (the tool's, as it is null); give {keys}"
            for problem in explain(error, InertialParameters, "device.")
        ) from error
    except ParameterError as error:
        raise ParameterError(
            [f"{keys} = null: the tool at the hand has none to take over, {error}; give {keys}"]
        ) from error


def _check_controller(experiment: Experiment) -> None:
    """Whether the gains have a meaning in the world, and the loop that they close is stable.

    Raises:
        ParameterError: not so; names the largest gains that would do.
    """
    if experiment.alone:
        return
    inertias, controller = experiment.coupled_inertias(), experiment.controller
    planar = [] if inertias.planar else _planar_gains(controller)
    if planar:
        controller = controller.model_copy(update={name: _in_space(getattr(controller, name)) for name in planar})
    problem = stability_problem(controller, inertias, experiment.rate)
    if planar:
        keys = ", ".join(f"controller.{name} = {_listed(experiment.controller, name, ', ')}" for name in planar)
        settings = " ".join(f"controller.{name}={_listed(controller, name, ',')}" for name in planar)
        raise ParameterError(
            [
                f"{keys}: three values (x, y, rotation about z) are for a planar world, and this one is in space; give "
                f"six (x, y, z, rotations about x, y, z), as {settings}",
                *([problem] if problem else []),
            ]
        )
    if problem:
        raise ParameterError([problem])


def _planar_gains(controller: Any) -> list[str]:
    """The gains that have three values, not all 0, which means the same in space."""
    values = {name: getattr(controller, name) for name in type(controller).model_fields}
    return [name for name, value in values.items() if isinstance(value, tuple) and len(value) == 3 and any(value)]


def _listed(controller: Any, name: str, comma: str) -> str:
    return f"[{comma.join(f'{value:g}' for value in getattr(controller, name))}]"


def _check_world(experiment: Experiment) -> World | None:
    """The world, None if there is none, after making sure that it can run with the parts of the experiment."""
    if is_constrained(experiment):
        build_tool_side(experiment, UNLIMITED, experiment.rate)
        return None
    world = experiment.world()
    device = experiment.device
    if isinstance(device, InertialParameters) and world.planar and any(device.offset[2:]):
        raise ParameterError([f"device.offset[2] = {device.offset[2]:g} m: must be 0 in the plane of x and y"])
    if experiment.asynchronous and len(world.tree_start) > 1:
        raise ParameterError(
            [
                f"local_model.type = {experiment.local_model.type}: knows a tool among fixed bodies, but "
                f"{len(world.tree_start)} bodies or linkages move; set local_model.type=none"
            ]
        )
    return world


def read_resolved(path: Path) -> Trial:
    """The trial of a resolved `experiment.yaml` in a trial's directory."""
    return _validate(read_document(path), path, resolved=True)


def resolved(trial: Trial) -> dict[str, str]:
    """Content of the files that say what a trial is, by name: `experiment.yaml`, and the operator's wrenches."""
    experiment, files = trial.experiment, {}
    if trial.wrenches is not None:
        rows = [",".join(repr(float(value)) for value in row) for row in trial.wrenches]
        files["operator.csv"] = "\n".join(["time,fx,fy,fz,tx,ty,tz", *rows]) + "\n"
        experiment = _with_operator_beside(experiment)
    document = experiment.model_dump(mode="json")
    return files | {"experiment.yaml": yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)}


def _with_operator_beside(experiment: Experiment) -> Experiment:
    operator = experiment.operator.model_copy(update={"path": "operator.csv"})
    return experiment.model_copy(update={"operator": operator})


def write_resolved(trial: Trial, directory: Path) -> Experiment:
    """Write `experiment.yaml`, and the operator's wrenches beside it, so that the directory stands alone."""
    for name, text in resolved(trial).items():
        (directory / name).write_text(text, encoding="utf-8")
    return trial.experiment if trial.wrenches is None else _with_operator_beside(trial.experiment)
