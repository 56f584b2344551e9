"""A side of a system on two hosts: `ros2 launch haptics two_hosts.launch.py side:=haptics world:=two_hosts`.

`side:=haptics` has the device and all nodes at the servo rate, `side:=dynamics` the environment: docs/two_hosts.md.
"""

from pathlib import Path

from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration

from launch import LaunchDescription

SYSTEM = str(Path(__file__).resolve().parent / "system.launch.py")


def generate_launch_description() -> LaunchDescription:
    """Description for `ros2 launch`; arguments are those of system.launch.py."""
    side = DeclareLaunchArgument("side", choices=["haptics", "dynamics"], description="Which nodes run on this host")
    world = DeclareLaunchArgument("world", default_value="two_hosts", description="A world with a local model")
    given = {"world": LaunchConfiguration("world"), "side": LaunchConfiguration("side")}
    system = IncludeLaunchDescription(PythonLaunchDescriptionSource(SYSTEM), launch_arguments=given.items())
    return LaunchDescription([side, world, system])
