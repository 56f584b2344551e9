"""The graph under ROS 2's launch: it comes up, ends clean on SIGINT, and goes down with any of its nodes."""

import signal
import sys
import tempfile
import unittest
from pathlib import Path

import launch_testing
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_testing.actions import ReadyToTest

from launch import LaunchDescription

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import graph_checks as graph
from conftest import DEADLINE, ROOT, wait_until


@launch_testing.parametrize("victim", [None, *graph.NODES])
def generate_test_description(victim):
    """A trial that does not end by itself."""
    folder = tempfile.TemporaryDirectory()
    out = Path(folder.name) / "out"
    arguments = {"mode": "lockstep", "duration": "3000", "out": str(out), "set": ";".join(graph.ASYNCHRONOUS)}
    trial = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(str(ROOT / "launch" / "bench.launch.py")), launch_arguments=arguments.items()
    )
    return LaunchDescription([trial, ReadyToTest()]), {"folder": folder, "out": out}


class TestGraph(unittest.TestCase):
    """While it runs; after this, launch sends SIGINT to what still does."""

    def test_graph(self, out, victim, proc_info):
        wait_until(graph.started(out), "the first chunk")
        with graph.observer() as observer:
            namespace = graph.check_topics(observer)
            graph.check_states(observer, namespace)
            graph.check_parameters(observer, namespace)
        if victim is not None:
            graph.kill(out, victim)
            other = "controller" if victim == "driver" else "driver"
            proc_info.assertWaitForShutdown(other, timeout=DEADLINE)


@launch_testing.post_shutdown_test()
class TestEnd(unittest.TestCase):
    """When all are down."""

    def test_exit_codes(self, victim, proc_info):
        codes = {info.process_name.rpartition("-")[0]: info.returncode for info in proc_info}
        self.assertEqual(codes, {node: -signal.SIGKILL if node == victim else 0 for node in graph.NODES})

    def test_what_was_recorded(self, out, victim):
        if victim is None:
            graph.check_interrupted(out, changed=1)
        else:
            graph.check_failed(out, victim)
