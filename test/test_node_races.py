"""Nodes whose threads are stopped at the worst instant: start and end cross, parameters change while they are built."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import python

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

from rclpy.parameter import Parameter  # noqa: E402
from test_link_races import PATIENCE, Stopped  # noqa: E402
from test_nodes import Bench, bench, configured  # noqa: E402, F401

from haptic_ros.servo import ServoNode  # noqa: E402


def pause(node: Any, paused: bool) -> None:
    """Change a parameter, as a request of another node does in the thread of the executor."""
    (result,) = node.set_parameters([Parameter("trial.paused", value=paused)])
    assert result.successful, result.reason


def test_a_parameter_that_is_changed_while_the_core_is_built_acts(
    bench: Bench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was granted, and did nothing: for minutes, where kernels are compiled."""
    node = bench.node("driver")
    build = node.build
    monkeypatch.setattr(node, "build", lambda: (pause(node, True), build()))
    configured(node)
    node.apply_changes()
    assert node.config.paused


def test_a_change_of_the_configuration_before_does_not_undo_a_later_one(
    bench: Bench,  # noqa: F811
) -> None:
    """It had not been used yet, and had the values of all parameters as they were then."""
    node = configured(bench.node("driver"))
    pause(node, True)
    node.trigger_cleanup()
    pause(node, False)
    configured(node)
    node.apply_changes()
    assert not node.config.paused
