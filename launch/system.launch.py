"""A system that runs until it is stopped: `ros2 launch haptics system.launch.py world:=corner_peg device:=inertial`.

The same list of nodes as `haptics start`, under ROS 2's own launch. A node that ends is started again; meanwhile the
device is passive.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import launch.logging
from launch.actions import DeclareLaunchArgument, OpaqueFunction, RegisterEventHandler
from launch.event_handlers import OnShutdown
from launch_ros.actions import Node

from haptic_bench.set_up import requirements

if lacking := requirements.unmet():
    raise RuntimeError("; ".join(lacking))

from haptic_bench import experiment
from haptic_bench.experiment.devices import known_devices
from haptic_bench.experiment.system import load_system, simulated_devices
from haptic_bench.running import namespaces
from haptic_bench.running.arguments import check_names, refusing
from haptic_bench.running.graph import SIDES, node_specs, write_parameters
from haptic_bench.running.runner import PAUSE, comings_and_goings
from haptic_bench.running.views import write_views
from haptic_bench.trials.trial import new_directory
from haptic_sim.parameters import ParameterError
from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity

BOOLEAN = ["true", "false"]
FILES = ["system.launch.py", "two_hosts.launch.py"]  # whose arguments these are
ARGUMENTS = [
    DeclareLaunchArgument(
        "world",
        default_value="corner_peg",
        description="An experiment, or a file: .yaml, .xml (MJCF), .urdf; none: clients of CRTK command the device",
    ),
    DeclareLaunchArgument(
        "device",
        default_value="",
        description=f"Simulated: {', '.join(simulated_devices())}; hardware: {', '.join(known_devices())}; or a .yaml "
        "file with the section device or the data of a hardware device, whose key module names a driver of your own "
        "with dots (my_package.my_device); empty: as the world has it",
    ),
    DeclareLaunchArgument(
        "composed",
        default_value="false",
        choices=BOOLEAN,
        description="Driver, controller and what answers it in one process",
    ),
    DeclareLaunchArgument(
        "restart", default_value="true", choices=BOOLEAN, description="Start a node that ends again; false: it is left"
    ),
    DeclareLaunchArgument(
        "out", default_value="", description="New or empty directory of the parameters; empty: one under ./trials/"
    ),
    DeclareLaunchArgument(
        "side",
        default_value="",
        choices=["", *SIDES],
        description="haptics: the nodes beside the device; dynamics: the environment; empty: all",
    ),
    DeclareLaunchArgument("namespace", default_value="", description="Of nodes and topics; empty: the world's name"),
    DeclareLaunchArgument(
        "set",
        default_value="",
        description="KEY=VALUE changes a key of the experiment, as in contact.stiffness=2000; several separated by ';'",
    ),
]


def generate_launch_description() -> LaunchDescription:
    """Description for `ros2 launch`."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start)])


def start(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Validate everything, claim the namespace until launch ends, start the nodes."""
    values = {argument.name: context.launch_configurations[argument.name] for argument in ARGUMENTS}
    logger: Any = launch.logging.get_logger("haptics")
    settings = [setting.strip() for setting in values["set"].split(";") if setting.strip()]
    side = values["side"]
    with refusing(logger):
        check_names(context.argv, list(values), FILES)
        trial = load_system(values["world"], values["device"], settings)
        if side and not trial.experiment.asynchronous:
            raise ParameterError([f"side:={side}: needs a local model; add set:=local_model.type=full"])
        name = namespaces.checked(values["namespace"]) if values["namespace"] else trial.experiment.namespace
        exactly, inside = bool(values["namespace"] or side), trial.experiment.hand_names
        claim = namespaces.claim(name, exactly=exactly, inside=inside, side=side)
        namespace = claim.__enter__()
        directory = new_directory(values["out"] or None, trial.experiment.namespace).resolve()
        written = experiment.write_resolved(trial.in_mode("realtime"), directory)
        composed = values["composed"] == "true"
        specs = node_specs(
            written, directory, mode="realtime", composed=composed, record=False, endless=True, side=side
        )
    for note in trial.notes:
        logger.warning(note)
    restart = values["restart"] == "true" and not trial.experiment.relayed
    parameters: Path = directory / "parameters.yaml"
    write_parameters(specs, parameters, namespace)
    logger.info(f"{namespace}: parameters are in {parameters}")
    if side != "dynamics":
        logger.info(write_views(directory, namespace))
    # Launch leaves its processes behind when it is terminated or killed; with this, they end.
    environment = {"HAPTICS_PARENT": str(os.getpid()), **comings_and_goings()}
    nodes = [
        Node(
            package=spec.package,
            executable=spec.executable,
            exec_name=spec.name,
            namespace=spec.namespace(namespace),
            arguments=list(spec.arguments),
            ros_arguments=spec.remappings(),
            parameters=[str(parameters)],
            output="screen",
            additional_env=environment,
            respawn=restart,
            respawn_delay=PAUSE,
        )
        for spec in specs
    ]

    def release(*_: object) -> None:
        claim.__exit__(None, None, None)

    return [RegisterEventHandler(OnShutdown(on_shutdown=release)), *nodes]
