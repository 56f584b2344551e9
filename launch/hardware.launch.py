"""Devices with a world each: `ros2 launch haptics hardware.launch.py device:=inverse3 world:=corner_peg`.

`device:=left=inverse3,right=omega3` starts two, each with its own nodes in the namespace that it is given, and its own
copy of the world. Two hands in one world are an experiment with `hands`: docs/hands.md.
"""

from __future__ import annotations

from pathlib import Path

import launch.logging
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource

from haptic_bench.experiment.devices import known_devices
from haptic_bench.experiment.system import simulated_devices
from haptic_bench.running.arguments import check_names, refusing
from haptic_sim.parameters import ParameterError
from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity

SYSTEM = str(Path(__file__).resolve().parent / "system.launch.py")
OWN = [
    DeclareLaunchArgument(
        "device",
        description=f"Hardware: {', '.join(known_devices())}; simulated: {', '.join(simulated_devices())}; or a .yaml "
        "file, whose key module names a driver of your own with dots (my_package.my_device); several: "
        "NAMESPACE=DEVICE, with ',' between",
    ),
    DeclareLaunchArgument(
        "controller", default_value="", description="Type of controller; empty: that of the world, or a stable coupling"
    ),
]
OF_SYSTEM = ("world", "composed", "restart", "out", "namespace", "set")


def generate_launch_description() -> LaunchDescription:
    """Description for `ros2 launch`."""
    system = PythonLaunchDescriptionSource(SYSTEM).get_launch_description(LaunchContext())
    further = [argument for argument in system.get_launch_arguments() if argument.name in OF_SYSTEM]
    return LaunchDescription([*OWN, *further, OpaqueFunction(function=start)])


def start(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """A system for each device."""
    values = {name: context.launch_configurations[name] for name in ("device", "controller", *OF_SYSTEM)}
    with refusing(launch.logging.get_logger("haptics")):
        check_names(context.argv, list(values), [Path(__file__).name])
        devices = devices_of(values["device"])
    several = len(devices) > 1
    common = {name: values[name] for name in OF_SYSTEM}
    if values["controller"]:
        common["set"] = ";".join(filter(None, [values["set"], f"controller.type={values['controller']}"]))
    entities: list[LaunchDescriptionEntity] = []
    for namespace, device in devices:
        given = common | {"device": device, "namespace": namespace or values["namespace"]}
        if several and values["out"]:
            given["out"] = str(Path(values["out"], namespace))
        entities.append(IncludeLaunchDescription(PythonLaunchDescriptionSource(SYSTEM), launch_arguments=given.items()))
    return entities


def devices_of(text: str) -> list[tuple[str, str]]:
    """Namespace and device of each; the namespace of a single one may be empty.

    Raises:
        ParameterError: several have not a namespace each.
    """
    parts = [one.strip().rpartition("=") for one in text.split(",")]
    namespaces = [namespace.strip("/") for namespace, _, _ in parts]
    if len(parts) > 1 and (not all(namespaces) or len(set(namespaces)) < len(parts)):
        raise ParameterError([f"device:={text}: several need a namespace each, as in left=omega3,right=omega3"])
    return [(namespace, device) for namespace, (_, _, device) in zip(namespaces, parts, strict=True)]
