"""Devices with a world each: `ros2 launch haptics hardware.launch.py device:=inverse3 world:=corner_peg`.

`device:=left=inverse3,right=omega3` starts two, each with its own nodes in the namespace that it is given, and its own
copy of the world. Two hands in one world are an experiment with `hands`: docs/hands.md.
"""

from __future__ import annotations

from pathlib import Path

from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource

from haptic_bench.experiment.devices import known_devices
from haptic_bench.experiment.system import DEVICES
from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity

SYSTEM = str(Path(__file__).resolve().parent / "system.launch.py")
ARGUMENTS = [
    DeclareLaunchArgument(
        "device",
        description=f"Hardware: {', '.join(known_devices())}; simulated: {', '.join(DEVICES)}; or a .yaml file; "
        "several: NAMESPACE=DEVICE, with ',' between",
    ),
    DeclareLaunchArgument("world", default_value="corner_peg", description="World of each device; none: CRTK"),
    DeclareLaunchArgument(
        "controller", default_value="", description="Type of controller; empty: that of the world, or a stable coupling"
    ),
    DeclareLaunchArgument("namespace", default_value="", description="Of a single device; empty: the world's name"),
    DeclareLaunchArgument("set", default_value="", description="KEY=VALUE of the experiment; several separated by ';'"),
]


def generate_launch_description() -> LaunchDescription:
    """What `ros2 launch` asks for; further arguments are those of system.launch.py."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start)])


def start(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """A system for each device."""
    values = {argument.name: context.launch_configurations[argument.name] for argument in ARGUMENTS}
    controller = [f"controller.type={values['controller']}"] if values["controller"] else []
    common = {"world": values["world"], "set": ";".join([*filter(None, [values["set"]]), *controller])}
    entities: list[LaunchDescriptionEntity] = []
    for one in values["device"].split(","):
        namespace, _, device = one.strip().rpartition("=")
        given = common | {"device": device, "namespace": namespace or values["namespace"]}
        entities.append(IncludeLaunchDescription(PythonLaunchDescriptionSource(SYSTEM), launch_arguments=given.items()))
    return entities
