"""Parts of a system that runs until it is stopped: a world, and a device to touch it with.

The world is an experiment, of the catalogue or a YAML file; or a world file (MJCF, URDF, SDF or xacro, here or in
`config/worlds`), held by its last link that moves, or by that which `scene.tool` names. A device is a type of simulated
ones, a hardware device of `config/devices`, or a YAML file: with sections of an experiment, or with the data of a
hardware device.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from haptic_bench.catalogue import IS_A_MESH, MESHES, catalogue, config_folder, did_you_mean
from haptic_bench.experiment import analyses
from haptic_bench.experiment.devices import known_devices
from haptic_bench.experiment.loading import find, load, load_document, name_of, read_document
from haptic_bench.experiment.resolution import Trial
from haptic_control.parameters import CONTROLLERS
from haptic_drivers.parameters import DEVICES
from haptic_sim import inputs
from haptic_sim.errors import HapticsError
from haptic_sim.messages import FORCE
from haptic_sim.parameters import ParameterError
from haptic_sim.scenes import ModelSource
from haptic_sim.worlds.file_trees import ModelFileError
from haptic_sim.worlds.model_files import ROOTS, last_link
from haptic_sim.worlds.mujoco_files import last_body
from haptic_sim.worlds.packages import ROBOT, described

WORLD_FILES = tuple(ROOTS)
POINTED = ("pointer", "keyboard")
"""Devices of those who have none: the page of the trial, on which the hand of the world's own device is moved."""
SECTIONS = ("device", "controller", "operator")  # that a file of a device may have
STANDALONE: dict[str, Any] = {
    "name": "device",
    "duration": 1.0,
    "rate": 1000.0,
    "operator": {"type": "constant", "wrench": [0.0] * 6},
    "device": {"type": "inertial", "mass": 0.5, "inertia": 0.005},
    "controller": {"type": "crtk"},
    "scene": {
        "type": "world",
        "gravity": [0.0, 0.0, 0.0],
        "bodies": {"tool": {"joint": "free", "mass": 0.5, "inertia": [0.005] * 3}},
        "tool": "tool",
    },
    "environment": {"method": "penalty"},
    "standard_topics": {"rate": 200.0, "reliable": True},
}
"""A device without a world, which clients of CRTK command; the scene says no more than where it is held."""
IN_THE_PLANE = {"scene": {"type": "empty"}, "tool": {"type": "peg"}}
"""Changes of the keys above for a device that moves in the plane."""
VIEWED: dict[str, Any] = {"duration": 3600.0, "device": {"type": "none"}, "operator": {"type": "pointer"}}
"""Sections of a world file that is only looked at, whose bodies a pointer drags."""
LOW = {"stiffness": [1e3, 1e3, 1e3, 1.0, 1.0, 1.0], "damping": [20.0, 20.0, 20.0, 0.02, 0.02, 0.02]}
"""Gains of a coupling for devices of unknown inertia, where it is not known whether the default ones are stable."""


def simulated_devices() -> tuple[str, ...]:
    """Names of the devices that are simulated, and none."""
    return tuple(name for name in DEVICES.entries() if name != "hardware")


def load_system(
    world: str,
    device: str = "",
    settings: Sequence[str] = (),
    args: Mapping[str, str] | None = None,
    packages: Sequence[str] = (),
) -> Trial:
    """The trial whose graph is the system.

    Args:
        world: name of an experiment or of a world, or a file; none: there is no world, and clients of CRTK command the
            device.
        device: a type of simulated ones, a name in config/devices, or a YAML file; empty: as the world has it.
        settings: KEY=VALUE.
        args: values of the arguments of a xacro file.
        packages: folders in which packages and models that the file names are looked for first.

    Raises:
        ParameterError: one line for each problem.
    """
    if world == "none":
        document = _with_device(STANDALONE, device) | {"controller": STANDALONE["controller"]}
        part = DEVICES.find_or_none(document["device"].get("type"))
        if part is not None and part.PLANAR:
            document |= IN_THE_PLANE
        if document["device"].get("type") == "hardware":  # a client asks where the hand is: there is no tool to move
            document["device"] = document["device"] | {"aligned": "mount"}
        return _one(document, Path("device.yaml"), settings)
    file = _world_file(world)
    _check_args(file, args, packages)
    path = find(world) if file is None else file
    given = read_document(path) if file is None else _document(path, settings, args or {}, packages, mujoco=True)
    document = _with_device(given, device)
    kind = _type_of(document, "device") or "none"
    chosen = file is not None or bool(device) or kind == "hardware"  # an experiment's own device has its controller
    if "controller" in document or not chosen or not _takes_forces(kind):
        return _one(document, path, settings)
    trial = _one(document | {"controller": {"type": "virtual_coupling"}}, path, settings)
    if trial.coupled_inertias.device is not None:
        return trial
    return _one(document | {"controller": {"type": "virtual_coupling", **LOW}}, path, settings)


def is_world_file(world: str) -> bool:
    """Whether a word names a world file, here or in `config/worlds`, and no experiment."""
    return world.startswith(ROBOT) or world.endswith(WORLD_FILES) or (world not in catalogue() and world in _known())


def _known() -> dict[str, Path]:
    """The world files of `config/worlds`."""
    return {path.stem: path for path in sorted((config_folder() / "worlds").glob("*")) if path.suffix in WORLD_FILES}


def args_of(settings: Sequence[str]) -> dict[str, str]:
    """Arguments of a xacro file from NAME=VALUE.

    Raises:
        ParameterError: one has another form, or is there twice.
    """
    args: dict[str, str] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name or name in args:
            reason = "is given twice" if name in args else "must be NAME=VALUE"
            raise ParameterError([f"--arg {inputs.shown(text)}: {reason}"])
        args[name] = value
    return args


def load_given(
    name: str, settings: Sequence[str], duration: str | None, args: Mapping[str, str], packages: Sequence[str]
) -> list[Trial]:
    """The trials of an experiment, or that in which a world file is seen; `duration` is text [s], see `load_viewed`.

    Raises:
        ParameterError: one line for each problem.
    """
    if is_world_file(name):
        return [load_viewed(name, [*settings, *([] if duration is None else [f"duration={duration}"])], args, packages)]
    _check_args(None, args, packages)
    return load(name, settings, duration)


def load_viewed(
    world: str, settings: Sequence[str] = (), args: Mapping[str, str] | None = None, packages: Sequence[str] = ()
) -> Trial:
    """The trial in which a world file is seen: without a device, a pointer drags all that moves.

    MJCF, too, is simulated by this package: what MuJoCo simulates needs a device.

    Args:
        world: a file, or the name of one of `config/worlds`.
        settings: KEY=VALUE.
        args: values of the arguments of a xacro file.
        packages: folders in which packages and models that the file names are looked for first.

    Raises:
        ParameterError: one line for each problem.
    """
    path = find_world_file(world)
    _check_args(path, args, packages)
    document = _document(path, settings, args or {}, packages, mujoco=False) | VIEWED
    document |= {"contact": {"friction": {"model": "coulomb"}}, "environment": {"method": "constraint"}}
    return _one(document, path, settings)


def find_world_file(world: str) -> Path:
    """A world file, by name or as a path.

    Raises:
        ParameterError: it is none.
    """
    path = _world_file(world)
    if path is None:
        raise ParameterError([f"world {inputs.shown(world)}: must be a file {', '.join(WORLD_FILES)}"])
    return path


def _check_args(path: Path | None, args: Mapping[str, str] | None, packages: Sequence[str]) -> None:
    """Refuse arguments of what has none, and packages of what names none.

    Raises:
        ParameterError: see above.
    """
    if args and (path is None or path.suffix != ".xacro"):
        raise ParameterError([f"--arg {min(args)}: is an argument of a xacro file; leave it out"])
    if packages and (path is None or path.suffix == ".xml"):
        raise ParameterError([f"--packages {packages[0]}: is for files URDF, xacro and SDF; leave it out"])


def _world_file(world: str) -> Path | None:
    """The world file of that name; None if it names an experiment.

    Raises:
        ParameterError: it names neither.
    """
    known = _known()
    if world.startswith(ROBOT):
        try:
            return described(world)
        except ModelFileError as error:
            raise ParameterError([f"world {world}{problem}" for problem in error.problems]) from error
    if world in catalogue() or world.endswith((".yaml", ".yml")):
        return None
    if world in known:
        return known[world]
    shown = inputs.shown(world)
    if world.lower().endswith(MESHES):
        raise ParameterError([f"world {shown}: {IS_A_MESH}"])
    if not world.endswith(WORLD_FILES):
        near = did_you_mean(world, [*catalogue(), *known])
        raise ParameterError(
            [f"world {shown}: must be an experiment, or a file {', '.join(WORLD_FILES)} or .yaml{near}"]
        )
    path = Path(world)
    try:
        if not inputs.check_path(world).is_file():
            raise ParameterError([f"world {shown}: there is no such file"])
    except (inputs.InputError, OSError) as error:
        raise ParameterError([f"world {shown}: {error}"]) from error
    return path.resolve()


def _document(
    path: Path, settings: Sequence[str], args: Mapping[str, str], packages: Sequence[str], *, mujoco: bool
) -> dict[str, Any]:
    """An experiment with a world file as its scene, held at its last link that moves if `settings` say no other.

    Args:
        path: the file.
        settings: KEY=VALUE.
        args: values of the arguments of a xacro file.
        packages: folders in which packages and models that the file names are looked for first.
        mujoco: whether MuJoCo simulates a file of MJCF.
    """
    held = _names_tool(settings)
    mujoco = mujoco and path.suffix == ".xml"
    scene: dict[str, Any] = {"gravity_compensation": True}  # a robot without its drives would fall with the hand
    if mujoco:
        scene |= {"type": "mujoco", "file": str(path), "tool": "" if held else last_body(path)}
    else:
        link = "" if held else _last_link(ModelSource(path, args, tuple(map(Path, packages))))
        file: dict[str, Any] = {"path": str(path)} | ({"args": dict(args)} if args else {})
        file |= {"packages": [os.path.abspath(one) for one in packages]} if packages else {}
        scene |= {"type": "world", "files": {"model": file}, "tool": f"model/{link}"}
    document: dict[str, Any] = {
        "name": name_of(path),
        "duration": 1.0,
        "rate": 1000.0,
        "operator": {"type": "constant", "wrench": [0.0] * 6},
        "device": {"type": "inertial", "mass": 0.5, "inertia": 0.005},
        "contact": {"stiffness": 4000.0, "damping": 20.0},
        "scene": scene,
        "environment": {"method": "penalty"},
    }
    return document | ({"local_model": {"epsilon": 0.01}} if mujoco else {})


def _names_tool(settings: Sequence[str]) -> bool:
    return any(text.partition("=")[0] == "scene.tool" for text in settings)


def held_by_default(world: str, settings: Sequence[str] = ()) -> bool:
    """Whether a world is held by its last link that moves because nothing says which body is held."""
    return (world.endswith(WORLD_FILES) or world.startswith(ROBOT)) and not _names_tool(settings)


def _last_link(source: ModelSource) -> str:
    try:
        return last_link(source) or last_link(source, free=True)
    except (HapticsError, OSError):
        return ""  # the world says what is wrong with the file


def _type_of(document: dict[str, Any], section: str) -> Any:
    """The type of a section of a document; None: it has none."""
    match document.get(section):
        case {"type": kind}:
            return kind
    return None


def _with_device(document: dict[str, Any], device: str) -> dict[str, Any]:
    """The same experiment with another device, and without the analysis of its own.

    The controller stays where both devices take forces, and needs to know nothing of them.
    """
    kind, control = _type_of(document, "device"), _type_of(document, "controller")
    if device in ("", kind):
        return document
    if not analyses.find(document.get("analysis", "trial")).OFFLINE_ONLY:
        document = document | {"analysis": "trial"}
    if device in POINTED:
        held = (
            document if kind not in (None, "none", "hardware", "external") else document | {"device": VIEWED["device"]}
        )
        return held | {"operator": VIEWED["operator"]}
    controller = CONTROLLERS.find_or_none(control)
    fits = controller is None or not (controller.ABSENT or controller.NEEDS_DEVICE or controller.COMMANDS != FORCE)
    stays = fits and _takes_forces(kind) and _takes_forces(device)
    replaced = ("device",) if stays else ("device", "controller")
    rest = {key: value for key, value in document.items() if key not in replaced}
    if device in known_devices():
        return rest | {"device": {"type": "hardware", "name": device}}
    if device.endswith((".yaml", ".yml")):
        given = read_document(Path(device))
        if "module" in given:
            return rest | {"device": {"type": "hardware", "name": str(Path(device).resolve())}}
        given.pop("name")
        if "type" in given:
            given = {"device": given}
        if unknown := set(given) - set(SECTIONS):
            raise ParameterError(
                [
                    f"device {device}: {min(unknown)}: must have the sections {', '.join(SECTIONS)}, or the keys of a "
                    "device, type among them"
                ]
            )
        return document | given
    if device not in (known := simulated_devices()) and ":" not in device:
        raise ParameterError(
            [
                f"device {inputs.shown(device)}: must be a simulated device ({', '.join(known)}), hardware "
                f"({', '.join(known_devices())}), {' or '.join(POINTED)}, or a .yaml file, whose key module names a "
                "driver of your own with dots (my_package.my_device)"
            ]
        )
    return rest | {"device": {"type": device}}


def _takes_forces(device: Any) -> bool:
    """Whether a device, by its type, takes forces; of one that is not known nothing else is said."""
    kind = DEVICES.find_or_none(device)
    return kind is None or (not kind.ABSENT and bool(kind.COMMANDS == FORCE))


def _one(document: dict[str, Any], path: Path, settings: Sequence[str]) -> Trial:
    trial, *others = load_document(document, path, settings)
    if others:
        raise ParameterError(["--set: a list of values sweeps, one trial a value: that is for `haptics run`"])
    return trial
