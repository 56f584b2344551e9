"""A device for clients of CRTK: `ros2 launch haptics crtk.launch.py device:=inertial namespace:=arm`.

The driver, and a bridge in the place of the controller; no world is simulated: docs/crtk.md.
"""

from __future__ import annotations

from pathlib import Path

import launch.logging
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource

from haptic_bench.running.arguments import check_names, refusing
from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity

SYSTEM = str(Path(__file__).resolve().parent / "system.launch.py")
DEVICE = DeclareLaunchArgument("device", default_value="inertial", description="Device, as of system.launch.py")
OF_SYSTEM = ("restart", "out", "namespace", "set")


def generate_launch_description() -> LaunchDescription:
    """Description for `ros2 launch`."""
    system = PythonLaunchDescriptionSource(SYSTEM).get_launch_description(LaunchContext())
    further = [argument for argument in system.get_launch_arguments() if argument.name in OF_SYSTEM]
    return LaunchDescription([DEVICE, *further, OpaqueFunction(function=start)])


def start(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """A system without a world."""
    given = {name: context.launch_configurations[name] for name in (DEVICE.name, *OF_SYSTEM)}
    with refusing(launch.logging.get_logger("haptics")):
        check_names(context.argv, list(given), [Path(__file__).name])
    given["world"] = "none"
    return [IncludeLaunchDescription(PythonLaunchDescriptionSource(SYSTEM), launch_arguments=given.items())]
