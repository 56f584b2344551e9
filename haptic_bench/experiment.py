"""Experiments: one YAML file each, validated before anything starts."""

from __future__ import annotations

import itertools
import json
import re
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from pydantic import BaseModel, ValidationError, model_validator

from haptic_control.admittance import AdmittanceParameters, growth
from haptic_control.controllers import AnyControllerParameters, NoControllerParameters
from haptic_control.shaping import ShapingParameters
from haptic_drivers.admittance import AdmittanceDeviceParameters
from haptic_drivers.driver import AnyDeviceParameters, HandParameters, InertialParameters
from haptic_drivers.operators import AnyOperatorParameters, FileParameters, read_table
from haptic_sim.constrained_scene import ConstraintParameters, RollingSpheresParameters
from haptic_sim.contact.response import ContactParameters, DeviceLimits
from haptic_sim.environment import EnvironmentParameters
from haptic_sim.local_model import LocalModelParameters
from haptic_sim.messages import ToolSizes
from haptic_sim.parameters import ParameterError, Parameters, explain, quantity, variant_of
from haptic_sim.scene import (
    AnySceneParameters,
    AnyToolParameters,
    NoToolParameters,
    PegParameters,
    tools_of,
)
from haptic_sim.tool_side import build_tool_side, hand_of, is_constrained, tool_sizes, world_of
from haptic_sim.world_parameters import WorldParameters
from haptic_sim.worlds import World, with_absolute_paths

MAX_TICKS = 10_000_000


class Experiment(Parameters):
    """A bench experiment. The sections are the parameters of the cores."""

    name: str = quantity(description="Name, that of the file", pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$")
    title: str = quantity("", description="One line for lists and reports")
    source: str = quantity("", description="Where it was published")
    description: str = quantity("", description="What happens in it")
    duration: float = quantity(unit="s", description="Length of the trial", gt=0.0)
    rate: float = quantity(unit="Hz", description="Servo rate", gt=0.0, le=20000.0)
    seed: int = quantity(0, description="Seed of everything random", ge=0)
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
        return self.device if isinstance(self.device, DeviceLimits) else DeviceLimits()

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
    device = experiment.device
    if isinstance(device, InertialParameters) and not isinstance(experiment.tool, PegParameters):
        problems += [
            f"device.{key} = null: the tool has none to take over; give device.{key}"
            for key in ("mass", "inertia")
            if getattr(device, key) is None
        ]
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
    factor = growth(controller, experiment.rate)
    if factor <= 1.0 + 1e-9:
        return []
    return [
        f"controller.proportional, integral, derivative: errors would grow by {100.0 * (factor - 1.0):.3g} % in a tick "
        f"at rate = {experiment.rate:g} Hz; lower them, or raise the rate"
    ]


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

    `wrenches` holds the rows of a `file` operator (see `read_table`), `label` the KEY=VALUE of a sweep.
    """

    experiment: Experiment
    wrenches: np.ndarray | None = None
    label: str = ""


def config_folder() -> Path:
    """Where the experiments are: in the checkout, or in the installed package's share folder."""
    checkout = Path(__file__).resolve().parent.parent / "config"
    if checkout.is_dir():
        return checkout
    from ament_index_python.packages import get_package_share_directory  # only there when installed with ROS

    return Path(get_package_share_directory("haptics")) / "config"


def catalogue() -> dict[str, Path]:
    """Files of the known experiments by name."""
    return {path.stem: path for path in sorted((config_folder() / "experiments").glob("*.yaml"))}


def find(name: str) -> Path:
    """The file of an experiment, by name or as a path.

    Raises:
        ParameterError: there is none; lists the known ones.
    """
    known = catalogue()
    if name in known:
        return known[name]
    path = Path(name)
    if path.suffix in (".yaml", ".yml") and path.is_file():
        return path
    raise ParameterError([f"experiment {name!r}: unknown; known are: {', '.join(known)}"])


def read_document(path: Path) -> dict[str, Any]:
    """The content of an experiment file.

    Raises:
        ParameterError: unreadable, not YAML (names the line), or not a mapping.
    """
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError([f"{path}: cannot be read: {error}"]) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise ParameterError([f"{path}{line}: not YAML: {getattr(error, 'problem', error)}"]) from error
    if not isinstance(document, dict):
        raise ParameterError([f"{path}: must be a mapping of keys to values"])
    document.setdefault("name", path.stem)
    return document


class _Loader(yaml.SafeLoader):
    """YAML without silently overwritten duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=deep)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is there twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def load(name: str, settings: Sequence[str] = (), duration: float | None = None) -> list[Trial]:
    """The trials of an experiment with `--set KEY=VALUE` settings; more than one when a setting sweeps.

    Raises:
        ParameterError: one line for each problem.
    """
    path = find(name)
    document = read_document(path)
    pairs = [_parse_setting(setting) for setting in settings]
    if duration is not None:
        pairs.append(("duration", duration))
    pairs = list(dict(pairs).items())  # of a key that is given twice, the last counts
    settings_of = list(_sweeps(Experiment, document, pairs))
    variants = [[(key, value) for value in values] for key, values, _ in settings_of]
    trials = []
    for combination in itertools.product(*variants):
        label = ",".join(
            f"{key}={_label(value)}"
            for (key, value), (_, _, swept) in zip(combination, settings_of, strict=True)
            if swept
        )
        trials.append(_validate(_apply(Experiment, document, combination), path, label))
    return trials


def _parse_setting(setting: str) -> tuple[str, Any]:
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise ParameterError([f"--set {setting}: must be KEY=VALUE, as in --set contact.stiffness=2000"])
    try:
        return key, yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ParameterError([f"--set {setting}: the value is not YAML"]) from error


def _label(value: Any) -> str:
    """A value as in YAML, for the name of a directory."""
    if isinstance(value, list):
        return f"[{','.join(map(_label, value))}]"
    text = json.dumps(value) if value is None or isinstance(value, bool) else str(value)
    return text.replace("/", "_").replace(" ", "")


def _sweeps(
    model: type[BaseModel], document: dict[str, Any], pairs: Sequence[tuple[str, Any]]
) -> Iterator[tuple[str, list[Any], bool]]:
    """Each setting with its values, and whether it sweeps: where a list is given for a key that takes one value.

    Raises:
        ParameterError: two values of a sweep are the same, or would have the same directory.
    """
    for key, value in pairs:
        if isinstance(value, list) and value:
            takes_list = _takes_list(model, document, key.split("."))
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
    for depth, name in enumerate(path):
        field = getattr(model, "model_fields", {}).get(name)
        if field is None:
            return True
        if depth == len(path) - 1:
            return any(typing.get_origin(part) in (tuple, list) for part in _parts(field.annotation))
        document = document.get(name, {}) if isinstance(document, dict) else {}
        tag = document.get("type") if isinstance(document, dict) else None
        model = variant_of(model, name, tag) or field.annotation
    return True


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
        *parents, last = key.split(".")
        target = result
        for name in parents:
            target = target.setdefault(name, {})
            if not isinstance(target, dict):
                raise ParameterError([f"--set {key}: {name} has no keys of its own"])
        if last == "type" and len(parents) == 1:
            variant = variant_of(model, parents[0], value) if isinstance(value, str) else None
            if variant is not None and target.get("type") != value:
                given = {k.split(".")[1] for k, _ in settings if k.startswith(parents[0] + ".")}
                for name in list(target):
                    if name not in variant.model_fields and name not in given:
                        del target[name]
        target[last] = value
    return result


def _copy(document: Any) -> Any:
    return {k: _copy(v) for k, v in document.items()} if isinstance(document, dict) else document


def _validate(document: dict[str, Any], path: Path, label: str = "", *, resolved: bool = False) -> Trial:
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
    experiment = _with_inertia_of_device(experiment)
    _check_world(experiment)
    problems = study_of(experiment).check(experiment)
    if problems:
        raise ParameterError(problems)
    wrenches = None
    if isinstance(experiment.operator, FileParameters):
        file = Path(experiment.operator.path)
        # Relative to where the user is, else to the experiment's file; a resolved one has it beside itself.
        if not file.is_absolute() and (resolved or not file.exists()):
            file = path.parent / file
        try:
            wrenches = read_table(file.read_text(encoding="utf-8").splitlines(), str(file))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a text file"
            raise ParameterError([f"operator.path = {file}: cannot be read: {reason}"]) from error
    return Trial(experiment, wrenches, label)


def _with_inertia_of_device(experiment: Experiment) -> Experiment:
    """The same experiment, whose controller knows the inertia of the simulated device if it has to know one."""
    controller, device = experiment.controller, experiment.device
    if not isinstance(controller, ShapingParameters):
        return experiment
    known = device.inertia_with(experiment.tool) if isinstance(device, InertialParameters) else (None, None)
    names = ("device_mass", "device_inertia")
    update = {name: value for name, value in zip(names, known, strict=True) if getattr(controller, name) is None}
    if None in update.values():
        raise ParameterError(f"controller.{name} = null: device.type = {device.type} has none" for name in update)
    return experiment.model_copy(update={"controller": controller.model_copy(update=update)})


def _check_world(experiment: Experiment) -> None:
    """Whether the world can be built, and run with the parts of the experiment."""
    if is_constrained(experiment):
        build_tool_side(experiment, DeviceLimits(), experiment.rate)
        return
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


def read_resolved(path: Path) -> Trial:
    """The trial of a resolved `experiment.yaml` in a trial's directory."""
    return _validate(read_document(path), path, resolved=True)


def write_resolved(trial: Trial, directory: Path) -> Experiment:
    """Write `experiment.yaml`, and the operator's wrenches beside it, so that the directory stands alone."""
    experiment = trial.experiment
    if trial.wrenches is not None:
        rows = [",".join(repr(float(value)) for value in row) for row in trial.wrenches]
        (directory / "operator.csv").write_text("\n".join(["time,fx,fy,fz,tx,ty,tz", *rows]) + "\n")
        operator = experiment.operator.model_copy(update={"path": "operator.csv"})
        experiment = experiment.model_copy(update={"operator": operator})
    text = yaml.safe_dump(experiment.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=100)
    (directory / "experiment.yaml").write_text(text, encoding="utf-8")
    return experiment
