"""A device for clients of CRTK: `ros2 launch haptics crtk.launch.py device:=inertial namespace:=arm`.

The driver, and a bridge in the place of the controller; no world is simulated: docs/crtk.md.
"""

from pathlib import Path

from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration

from launch import LaunchDescription

SYSTEM = str(Path(__file__).resolve().parent / "system.launch.py")


def generate_launch_description() -> LaunchDescription:
    """What `ros2 launch` asks for; further arguments are those of system.launch.py."""
    device = DeclareLaunchArgument("device", default_value="inertial", description="Device, as of system.launch.py")
    given = {"world": "none", "device": LaunchConfiguration("device")}
    system = IncludeLaunchDescription(PythonLaunchDescriptionSource(SYSTEM), launch_arguments=given.items())
    return LaunchDescription([device, system])
