"""A trial in lockstep under ROS 2's launch ends by itself and leaves the bits of an offline run."""

import sys
import tempfile
import unittest
from pathlib import Path

import launch_testing
from launch.actions import IncludeLaunchDescription, RegisterEventHandler
from launch.event_handlers import OnProcessExit
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_testing.actions import ReadyToTest

from launch import LaunchDescription

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import graph_checks as graph
from conftest import DEADLINE, ROOT

from haptic_bench.commands import command_line


@launch_testing.parametrize("composed", ["false", "true"])
@launch_testing.ready_to_test_action_timeout(DEADLINE)
def generate_test_description(composed):
    """The trial; ready when a first process, the driver, has ended, as there is nothing to test before."""
    folder = tempfile.TemporaryDirectory()
    out = Path(folder.name) / "out"
    arguments = {"mode": "lockstep", "duration": "1.5", "composed": composed, "out": str(out)}
    trial = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(str(ROOT / "launch" / "bench.launch.py")), launch_arguments=arguments.items()
    )
    ready = RegisterEventHandler(OnProcessExit(on_exit=[ReadyToTest()], handle_once=True))
    return LaunchDescription([trial, ready]), {"folder": folder, "out": out}


@launch_testing.post_shutdown_test()
class TestTrial(unittest.TestCase):
    """When all are down."""

    def test_exit_codes(self, proc_info):
        launch_testing.asserts.assertExitCodes(proc_info)

    def test_bits(self, out):
        offline = out.with_name("offline")
        arguments = ["run", "corner_peg", "--mode", "offline", "--duration", "1.5", "--out", str(offline)]
        self.assertEqual(command_line.main(arguments), 0)
        graph.check_same_bits(out, offline)
