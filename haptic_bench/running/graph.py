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

from haptic_bench.experiment import Experiment, Trial
from haptic_bench.set_up import requirements
from haptic_ros.graph import ROLES, graph_of
from haptic_sim.contact.response import DeviceLimits
from haptic_sim.libyaml import DUMPER
from haptic_sim.messages import split_topic, topic_of
from haptic_sim.parameters import ParameterError
from haptic_sim.worlds.parameters import HoldParameters

ENDLESS = 2**53  # ticks
SIDES = ("haptics", "dynamics")  # of a system


@dataclass(frozen=True)
class NodeSpec:
    """One process: the module of an executable of the package, and its nodes by name with their (nested) parameters.

    The node of a further hand is named HAND/NAME, and is in a namespace of the hand's name.
    """

    module: str
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
    def executable(self) -> str:
        """The executable, which runs main() of the module."""
        return self.module.rpartition(".")[2]


def require_ros(instead: str) -> None:
    """Refuse what needs nodes where there is no ROS 2; `instead` says what goes without it.

    Raises:
        ParameterError: there is none.
    """
    if lacking := requirements.unmet(("rclpy",)):
        raise ParameterError([f"nodes need ROS 2: {lacking[0]}; {instead}"])


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
    controller, their bridge is in its place, and there is no environment.

    Raises:
        ParameterError: the graph of this trial cannot run so, or there is no ROS.
    """
    require_ros("--mode offline runs a trial without it")
    experiment = trial.experiment
    if experiment.bridged and (record or composed or side or not endless or mode != "realtime"):
        raise ParameterError(
            [
                "controller.type = crtk: is for a system (`haptics start`, system.launch.py) that is not composed, "
                "not recorded, and on one host; leave out what says otherwise"
            ]
        )
    if composed and experiment.external:
        raise ParameterError([f"--composed: {', '.join(experiment.external)} is a node of its own; leave it out"])
    from haptic_ros.ros_parameters import encode  # needs ROS

    names = _names(trial, record)
    common = {
        "rate": experiment.rate,
        "last_tick": ENDLESS if endless else experiment.last_tick,
        "mode": mode,
        "nodes": names,
        "networked": bool(side),
        "standard_topics": encode(experiment.standard_topics),
    }
    leader = {"directory": str(directory), "progress": progress, "paused": paused}
    own = _parameters(trial, directory, leader, namespace or experiment.namespace, leads_side=side == "world")
    graph = graph_of(tuple(names))
    roles = {name: graph.role(name) for name in names if name not in experiment.external}
    if side in SIDES:
        roles = {name: role for name, role in roles.items() if (role is ROLES["surveyor"]) == (side == "dynamics")}
    elif side:
        roles = {name: role for name, role in roles.items() if role.beyond == (side == "world")}
    composable = (name for name, role in roles.items() if role.composed and not split_topic(name)[0])
    inside = list(composable) if composed else []
    separate = [
        NodeSpec(role.module, {name: common | own[name]}, role.arguments)
        for name, role in roles.items()
        if name not in inside
    ]
    if not inside:
        return separate
    return [
        NodeSpec("haptic_bench.nodes.composed", {name: common | own[name] for name in inside}, tuple(inside)),
        *separate,
    ]


def _names(trial: Trial, record: bool) -> list[str]:
    """Names of the nodes of a trial, the leader first."""
    experiment = trial.experiment
    if experiment.bridged:
        return ["driver", "controller"]
    first = () if experiment.standalone else ("driver",)
    relay = ("device_relay", "world_relay") if experiment.relayed else ()
    answers = ("local_model",) if experiment.asynchronous else ()
    between = () if experiment.standalone else ("controller",)
    recorder = ("recorder",) if record else ()
    others = [topic_of(hand, name) for hand in trial.hands if hand for name in ("driver", "controller")]
    devices = [name for name in experiment.external if split_topic(name)[1] == "device"]
    return [*first, *relay, *between, *answers, "environment", *recorder, *others, *devices]


def _parameters(
    trial: Trial, directory: Path, leader: dict[str, Any], name: str, *, leads_side: bool
) -> dict[str, dict[str, Any]]:
    """Parameters of each node beside the common ones, by its name; `name` is that of the bag's topics."""
    from haptic_ros.ros_parameters import NULL, encode  # needs ROS

    experiment = trial.experiment

    def some(*keys: str) -> dict[str, Any]:
        return encode(experiment, keys)

    world = some("tool", "scene", "contact", "environment", "constraint") | {"seed": experiment.seed}
    operator = {"operator": _operator(trial, directory)}
    limits = {name: encode(experiment.limits)[name] for name in DeviceLimits.model_fields}
    hands = [hand.model_dump(include=set(HoldParameters.model_fields)) for hand in experiment.hands]
    tool_side = world | some("local_model") | {"device": limits, "hands": json.dumps(hands)}
    relay = some("relay") | {"guard": experiment.relay_guard, "inertias": encode(trial.coupled_inertias)}
    relay |= {"pose": trial.hand.pose}
    recorder = some("environment") | {"name": name, "directory": str(directory), "pointed": experiment.operator.EVENTS}
    recorder |= {"tool_sizes": tuple(trial.tool_sizes), "hardware": json.dumps(experiment.hardware_hands)}
    own = {
        "device_relay": relay | {"watchdog": getattr(experiment.device, "watchdog", None)},
        "world_relay": relay | {"leads_side": leads_side},
        "local_model": tool_side,
        "environment": world | operator | leader
        if experiment.standalone
        else tool_side | {"directory": str(directory)},
        "recorder": recorder,
    }
    if experiment.bridged:
        topics = {"standard_topics": encode(experiment.standard_topics) | {"rate": NULL}}  # the bridge has them
        own |= {"driver": _driver(trial) | operator | leader | topics, "controller": _bridge(experiment)}
    elif not experiment.standalone:
        own |= {"driver": _driver(trial) | operator | leader, "controller": _controller(trial)}
    for hand, each in trial.hands.items():
        if hand:
            own[topic_of(hand, "driver")] = _driver(each) | {"of_hand": hand}
            own[topic_of(hand, "controller")] = _controller(each) | {"of_hand": hand}
    return own


def _bridge(experiment: Experiment) -> dict[str, Any]:
    """Parameters of the bridge to clients of CRTK, which has the standard topics in the place of the driver."""
    from haptic_ros.ros_parameters import encode  # needs ROS

    return {
        **encode(experiment, ("controller",)),
        "hardware": bool(experiment.hardware),
        "linkage": experiment.device.known().linkage,
        "standard_topics": encode(experiment.standard_topics) | {"reliable": True},
    }


def _operator(trial: Trial, directory: Path) -> dict[str, Any]:
    """Parameters of the operator of the first hand, whose file is in the trial's directory."""
    from haptic_ros.ros_parameters import encode  # needs ROS

    operator: dict[str, Any] = encode(trial.experiment, ("operator",))["operator"]
    if key := trial.experiment.operator.file_key:
        operator[key] = str(directory / operator[key])
    return operator


def _driver(trial: Trial) -> dict[str, Any]:
    """Parameters of the driver of a hand; see `Trial.hands`."""
    from haptic_ros.ros_parameters import encode  # needs ROS

    experiment = trial.experiment
    sections = encode(experiment, ("device", "operator", "tool", "guard"))
    return sections | {"hand": encode(trial.hand), "seed": experiment.seed}


def _controller(trial: Trial) -> dict[str, Any]:
    """Parameters of the controller of a hand."""
    from haptic_ros.ros_parameters import encode  # needs ROS

    inertias = encode(trial.coupled_inertias)
    return {
        **encode(trial.experiment, ("controller",)),
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
