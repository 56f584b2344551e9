"""The servo graph of an experiment as data: its nodes with their parameters.

This list is used twice: `launch/bench.launch.py` turns it into launch_ros actions, the built-in runner into processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from haptic_bench.experiment import Trial
from haptic_sim.contact.response import DeviceLimits

MODULES = {
    "driver": "haptic_drivers.nodes.driver",
    "controller": "haptic_control.nodes.controller",
    "local_model": "haptic_sim.nodes.local_model",
    "environment": "haptic_sim.nodes.environment",
    "relay": "haptic_control.nodes.relay",
    "recorder": "haptic_bench.nodes.recorder",
    "composed": "haptic_bench.nodes.composed",
    "alone": "haptic_bench.nodes.alone",
}


@dataclass(frozen=True)
class NodeSpec:
    """One process: an executable of the package, and the nodes in it by name with their (nested) parameters."""

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
            return ["-r", f"__node:={self.name}"]
        return [part for name in self.nodes for part in ("-r", f"{name}:__node:={name}")]

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
) -> list[NodeSpec]:
    """The nodes of a trial that is recorded in `directory`; the leader comes first.

    Composed: driver, controller and what answers the controller are one process. Without `record` no recorder. Without
    a device the environment leads, alone, and is one process anyway. `namespace` is that of the bag's topics, without
    the slash in front; empty: of the experiment's name.
    """
    experiment = trial.experiment
    leading = ["environment"] if experiment.alone else ["driver", "controller", "environment"]
    names = [*leading, *(("recorder",) if record else ())]
    if experiment.asynchronous:
        names.insert(2, "local_model")
    if experiment.relayed:
        names[1:1] = ["device_relay", "world_relay"]
    common = {
        "rate": experiment.rate,
        "last_tick": experiment.last_tick,
        "mode": mode,
        "nodes": names,
    }
    from haptic_ros.ros_parameters import encode  # needs ROS

    sections = {
        name: encode(getattr(experiment, name))
        for name in (
            "device",
            "operator",
            "controller",
            "tool",
            "scene",
            "contact",
            "environment",
            "local_model",
            "constraint",
            "relay",
        )
    }
    if sections["operator"]["type"] == "file":
        sections["operator"]["path"] = str(directory / sections["operator"]["path"])
    limits = {name: encode(experiment.limits)[name] for name in DeviceLimits.model_fields}

    def some(*keys: str) -> dict[str, Any]:
        return {key: sections[key] for key in keys}

    tool_side = some("tool", "scene", "contact", "environment", "constraint", "local_model") | {
        "device": limits,
        "seed": experiment.seed,
    }
    leader = {"directory": str(directory), "progress": progress}
    inertias = encode(trial.coupled_inertias)
    relay = some("relay") | {"guard": experiment.relay_guard, "inertias": inertias, "pose": trial.hand.pose}
    own: dict[str, dict[str, Any]] = {
        "driver": some("device", "operator", "tool") | {"hand": encode(trial.hand), "seed": experiment.seed} | leader,
        "controller": some("controller") | {"tool_sizes": tuple(trial.tool_sizes), "inertias": inertias},
        "device_relay": relay,
        "world_relay": relay,
        "local_model": tool_side,
        "environment": some("tool", "scene", "contact", "environment", "constraint", "operator")
        | {"seed": experiment.seed}
        | leader
        if experiment.alone
        else tool_side,
        "recorder": some("environment") | {"name": namespace or experiment.namespace, "directory": str(directory)},
    }
    parameters = {name: common | own[name] for name in names}
    if experiment.alone:
        rest = [NodeSpec(name, {name: parameters[name]}) for name in names[1:]]
        return [NodeSpec("alone", {"environment": parameters["environment"]}), *rest]
    if not composed:
        return [_process(name, parameters[name]) for name in names]
    first = names.index("controller") + 2  # after what answers the controller
    inside, outside = names[:first], names[first:]
    together = NodeSpec("composed", {name: parameters[name] for name in inside}, tuple(inside))
    return [together, *(_process(name, parameters[name]) for name in outside)]


def _process(name: str, parameters: dict[str, Any]) -> NodeSpec:
    """One node in a process of its own."""
    end, _, kind = name.partition("_")
    if kind == "relay":
        return NodeSpec(kind, {name: parameters}, (end,))
    return NodeSpec(name, {name: parameters})


def write_parameters(specs: list[NodeSpec], path: Path) -> None:
    """Write a ROS parameter file for all nodes."""
    from haptic_ros.ros_parameters import flatten  # needs ROS

    document = {
        f"/**/{name}": {"ros__parameters": flatten(parameters)}
        for spec in specs
        for name, parameters in spec.nodes.items()
    }
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
