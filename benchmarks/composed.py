"""A tick of composed nodes in this process: what their servo thread does on the clock, but for its wait between ticks.

Nothing else is at work: no executor, no recorder, and nobody takes the messages that are published.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import rclpy
from rclpy.lifecycle import TransitionCallbackReturn

from haptic_bench.experiment import Trial
from haptic_bench.nodes.composed import KINDS
from haptic_bench.running.graph import node_specs, write_parameters
from haptic_ros.composition import Composition
from haptic_ros.leader import LeaderNode


@contextmanager
def composed_tick(trial: Trial) -> Iterator[Callable[[], None]]:
    """Function that makes a tick of a trial by composed nodes, from the first on; ROS must not be in use here.

    Raises:
        RuntimeError: a node cannot be configured.
    """
    with tempfile.TemporaryDirectory() as folder:
        specs = node_specs(trial, Path(folder), mode="realtime", composed=True)
        (spec,) = [one for one in specs if len(one.nodes) > 1]
        parameters = Path(folder) / "parameters.yaml"
        write_parameters([spec], parameters)
        rclpy.init(args=["--ros-args", "--params-file", str(parameters), "-r", "__ns:=/composed_tick"])
        nodes = [KINDS[name](name) for name in spec.nodes]
    leader = nodes[0]
    assert isinstance(leader, LeaderNode)
    try:
        composition = Composition(nodes)
        for node in nodes:
            node.transport.composition = composition
        for node in reversed(nodes):
            if node.trigger_configure() != TransitionCallbackReturn.SUCCESS:
                raise RuntimeError(f"{node.get_name()} cannot be configured")
        composition.open()
        for node in reversed(nodes):
            node.idle()  # the tool's side says where the tool is
        leader.resume(0)
        ticks = itertools.count()

        def step() -> None:
            leader.begin(next(ticks))
            leader.complete()
            leader.rest()

        yield step
    finally:
        leader.transport.close_inbox()
        for node in nodes:
            node.destroy_node()
        rclpy.shutdown()
