"""The servo graph of an experiment as data: its nodes with their parameters.

This list is used twice: `launch/bench.launch.py` turns it into launch_ros actions, the built-in runner into processes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from haptic_bench.experiment import Trial
from haptic_sim.contact.response import DeviceLimits
from haptic_sim.libyaml import DUMPER
from haptic_sim.messages import split_topic, topic_of
from haptic_sim.parameters import ParameterError
from haptic_sim.worlds.parameters import HoldParameters

MODULES = {
    "driver": "haptic_drivers.nodes.driver",
    "controller": "haptic_control.nodes.controller",
    "crtk": "haptic_control.nodes.crtk",
    "local_model": "haptic_sim.nodes.local_model",
    "environment": "haptic_sim.nodes.environment",
    "relay": "haptic_control.nodes.relay",
    "recorder": "haptic_bench.nodes.recorder",
    "composed": "haptic_bench.nodes.composed",
    "alone": "haptic_bench.nodes.alone",
    "viewer": "haptic_bench.nodes.viewer",
}


ENDLESS = 2**53  # ticks
SIDES = ("haptics", "dynamics")  # of a system
DYNAMICS = ("environment",)
"""The node of a system with a local model that may run on a host of its own; all others are with the device."""
WORLD_SIDE = ("world_relay", "controller", "local_model", "environment")
"""Nodes on the world's side of a relay; all others are on the device's."""


@dataclass(frozen=True)
class NodeSpec:
    """One process: an executable of the package, and the nodes in it by name with their (nested) parameters.

    The node of a further hand is named HAND/NAME, and is in a namespace of the hand's name.
    """

    executable: str
    nodes: dict[str, dict[str, Any]]
    arguments: tuple[str, ...] = ()
    package: str = "haptics"

    @property
    def name(self) -> str:
        """Name of the process: that of its first node."""
        return next(iter(self.nodes))

    def remappings(self) -> list[str]:
        """Arguments that name the nodes."""
        if len(self.nodes) == 1:
            return ["-r", f"__node:={split_topic(self.name)[1]}"]
        return [part for name in self.nodes for part in ("-r", f"{name}:__node:={name}")]

    def namespace(self, trial: str) -> str:
        """Namespace of its nodes, in that of a trial."""
        hand = split_topic(self.name)[0]
        return f"{trial.rstrip('/')}/{hand}" if hand else trial

    @property
    def module(self) -> str:
        """The Python module whose main() the executable runs."""
        return MODULES[self.executable]


def node_specs(
    trial: Trial,
    directory: Path,
    *,
    mode: str = "lockstep",
    composed: bool = False,
    record: bool = True,
    progress: bool = False,
    namespace: str = "",
    side: str = "",
    paused: bool = False,
    endless: bool = False,
) -> list[NodeSpec]:
    """The nodes of a trial that is recorded in `directory`; the leader comes first.

    Composed: driver, controller and what answers the controller are one process. Without `record` no recorder. Without
    a device the environment leads, alone, and is one process anyway. Each further hand has a driver and a controller of
    its own. `namespace` is that of the bag's topics, without the slash in front; empty: of the experiment's name. With
    a `side` of a relay (`device`, `world`) the nodes of that side alone: the others run on another host. `paused`: the
    first tick waits until the leader's parameter of that name is false. `endless`: the graph runs until it is stopped;
    its sides are `haptics` and `dynamics`, the environment behind a local model. Where clients of CRTK are the
    controller, there is none.

    Raises:
        ParameterError: the graph of this trial cannot run so.
    """
    experiment = trial.experiment
    if experiment.bridged:
        return _bridge_specs(trial, directory, progress=progress, endless=endless and not (record or composed or side))
    leading = ["environment"] if experiment.alone else ["driver", "controller", "environment"]
    names = [*leading, *(("recorder",) if record else ())]
    if experiment.asynchronous:
        names.insert(2, "local_model")
    if experiment.relayed:
        names[1:1] = ["device_relay", "world_relay"]
    others = {name: each for name, each in trial.hands.items() if name}
    names += [topic_of(hand, name) for hand in others for name in ("driver", "controller")]
    common = {
        "rate": experiment.rate,
        "last_tick": ENDLESS if endless else experiment.last_tick,
        "mode": mode,
        "nodes": names,
        "standard_topics": experiment.standard_topics.model_dump(),
    }
    from haptic_ros.ros_parameters import encode  # needs ROS

    sections = {
        name: encode(getattr(experiment, name))
        for name in (
            "tool",
            "scene",
            "contact",
            "environment",
            "local_model",
            "constraint",
            "relay",
        )
    }
    sections["operator"] = _operator(trial, directory)
    limits = {name: encode(experiment.limits)[name] for name in DeviceLimits.model_fields}

    def some(*keys: str) -> dict[str, Any]:
        return {key: sections[key] for key in keys}

    tool_side = some("tool", "scene", "contact", "environment", "constraint", "local_model") | {
        "device": limits,
        "seed": experiment.seed,
        "hands": json.dumps([hand.model_dump(include=set(HoldParameters.model_fields)) for hand in experiment.hands]),
    }
    leader = {"directory": str(directory), "progress": progress, "paused": paused}
    inertias = encode(trial.coupled_inertias)
    relay = some("relay") | {"guard": experiment.relay_guard, "inertias": inertias, "pose": trial.hand.pose}
    own: dict[str, dict[str, Any]] = {
        "driver": _driver(trial) | some("operator") | leader,
        "controller": _controller(trial),
        "device_relay": relay | {"watchdog": getattr(experiment.device, "watchdog", None)},
        "world_relay": relay | {"leads_side": side == "world"},
        **{topic_of(hand, "driver"): _driver(each) | {"of_hand": hand} for hand, each in others.items()},
        **{topic_of(hand, "controller"): _controller(each) | {"of_hand": hand} for hand, each in others.items()},
        "local_model": tool_side,
        "environment": some("tool", "scene", "contact", "environment", "constraint", "operator")
        | {"seed": experiment.seed}
        | leader
        if experiment.alone
        else tool_side,
        "recorder": some("environment")
        | {"name": namespace or experiment.namespace, "directory": str(directory)}
        | {"pointed": experiment.operator.EVENTS}
        | {"hardware": json.dumps(experiment.hardware_hands)},
    }
    parameters = {name: common | own[name] for name in names}
    if experiment.alone:
        rest = [NodeSpec(name, {name: parameters[name]}) for name in names[1:]]
        return [NodeSpec("alone", {"environment": parameters["environment"]}), *rest]
    names = [name for name in names if name not in experiment.external]
    if composed and experiment.external:
        raise ParameterError(["--composed: controller.type = external is a node of its own; leave it out"])
    if side in SIDES:
        names = [name for name in names if (name in DYNAMICS) == (side == "dynamics")]
    elif side:
        names = [name for name in names if (name in WORLD_SIDE) == (side == "world")]
    if not composed or side == "dynamics":
        return [_process(name, parameters[name]) for name in names]
    answers = "local_model" if experiment.asynchronous else "environment"
    inside = [name for name in names if name in ("driver", "device_relay", "world_relay", "controller", answers)]
    together = NodeSpec("composed", {name: parameters[name] for name in inside}, tuple(inside))
    return [together, *(_process(name, parameters[name]) for name in names if name not in inside)]


def _bridge_specs(trial: Trial, directory: Path, *, progress: bool, endless: bool) -> list[NodeSpec]:
    """The driver, and the bridge to clients of CRTK in the place of the controller, which has the standard topics."""
    if not endless:
        raise ParameterError(
            [
                "controller.type = crtk: is for a system (`haptics start`, system.launch.py) that is not composed, "
                "not recorded, and on one host; leave out what says otherwise"
            ]
        )
    from haptic_ros.ros_parameters import encode  # needs ROS

    experiment = trial.experiment
    common = {"rate": experiment.rate, "last_tick": ENDLESS, "mode": "realtime", "nodes": ["driver", "controller"]}
    topics = experiment.standard_topics.model_dump()
    driver = {"operator": _operator(trial, directory), "directory": str(directory), "progress": progress}
    driver |= {"standard_topics": topics | {"rate": None}}
    bridge = {
        "controller": encode(experiment.controller),
        "hardware": bool(experiment.hardware),
        "linkage": experiment.device.known().linkage,
        "standard_topics": topics | {"reliable": True},
    }
    return [
        NodeSpec("driver", {"driver": common | _driver(trial) | driver}),
        NodeSpec("crtk", {"controller": common | bridge}),
    ]


def _process(name: str, parameters: dict[str, Any]) -> NodeSpec:
    """One node in a process of its own."""
    end, _, kind = name.partition("_")
    if kind == "relay":
        return NodeSpec(kind, {name: parameters}, (end,))
    return NodeSpec(split_topic(name)[1], {name: parameters})


def _operator(trial: Trial, directory: Path) -> dict[str, Any]:
    """Parameters of the operator of the first hand, whose file is in the trial's directory."""
    from haptic_ros.ros_parameters import encode  # needs ROS

    operator: dict[str, Any] = encode(trial.experiment.operator)
    if key := trial.experiment.operator.file_key:
        operator[key] = str(directory / operator[key])
    return operator


def _driver(trial: Trial) -> dict[str, Any]:
    """Parameters of the driver of a hand; see `Trial.hands`."""
    from haptic_ros.ros_parameters import encode  # needs ROS

    experiment = trial.experiment
    sections = {name: encode(getattr(experiment, name)) for name in ("device", "operator", "tool", "guard")}
    return sections | {"hand": encode(trial.hand), "seed": experiment.seed}


def _controller(trial: Trial) -> dict[str, Any]:
    """Parameters of the controller of a hand."""
    from haptic_ros.ros_parameters import encode  # needs ROS

    inertias = encode(trial.coupled_inertias)
    return {
        "controller": encode(trial.experiment.controller),
        "wrench_limit": trial.experiment.limits.wrench_limit,
        "tool_sizes": tuple(trial.tool_sizes),
        "inertias": inertias,
    }


def write_parameters(specs: list[NodeSpec], path: Path, namespace: str = "") -> None:
    """Write a ROS parameter file for all nodes of a trial in a namespace; where that is empty, for any."""
    from haptic_ros.ros_parameters import flatten  # needs ROS

    # With further hands, a pattern of a node's name would be one of several nodes.
    several = any("/" in name for spec in specs for name in spec.nodes)
    place = namespace.rstrip("/") if several and namespace else "/**"
    document = {
        f"{place}/{name}": {"ros__parameters": flatten(parameters)}
        for spec in specs
        for name, parameters in spec.nodes.items()
    }
    path.write_text(yaml.dump(document, Dumper=_ParameterDumper, sort_keys=False), encoding="utf-8")


class _ParameterDumper(DUMPER):
    """Quotes also those texts that only rcl's reader takes for booleans and numbers, such as the coordinate y."""


_ParameterDumper.add_implicit_resolver(
    "tag:rcl", re.compile(r"[yn]|nan|inf(?:inity)?|0x[0-9a-f.]+p[-+0-9]+", re.IGNORECASE), list("yYnNiI0")
)
