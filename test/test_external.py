"""A controller that is a node of one's own: the example in lockstep, recorded and verified, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import DEADLINE, ROOT, Haptics

from haptic_bench import experiment
from haptic_bench.running.runner import Interruption
from haptic_bench.trials.recorded import load_trial
from haptic_bench.trials.trial import run_trial
from haptic_sim.parameters import ParameterError

EXAMPLE = ROOT / "examples" / "external_controller"
WALL = str(EXAMPLE / "external_wall.yaml")
SPRING = ("controller.type=virtual_coupling", "controller.stiffness=[300,300,300,0,0,0]")
SPRING += ("controller.damping=[5,5,5,0,0,0]",)


def test_a_graph_without_a_controller_waits_for_it_by_its_name() -> None:
    graph = pytest.importorskip("haptic_bench.running.graph")
    pytest.importorskip("haptic_ros.ros_parameters", reason="needs ROS 2")
    (trial,) = experiment.load(WALL)
    assert trial.experiment.external == ("controller",)
    assert "controller.type = external: the trial begins when a node controller of yours" in "".join(trial.notes)
    specs = graph.node_specs(trial, Path())
    assert [spec.name for spec in specs] == ["driver", "environment", "recorder"]
    assert "controller" in specs[0].nodes["driver"]["nodes"]
    with pytest.raises(ParameterError, match=r"--composed: .* is a node of its own"):
        graph.node_specs(trial, Path(), composed=True)


def test_offline_there_is_no_node_to_wait_for() -> None:
    (trial,) = experiment.load(WALL)
    with pytest.raises(ParameterError, match="is a node of your own, which only the ROS graph has; add --mode"):
        trial.in_mode("offline")


@pytest.mark.exhaustive
@pytest.mark.long
def test_the_example_is_the_virtual_coupling_that_it_copies(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    """In lockstep, to rounding; device and tool are verified bit by bit from its commands."""
    pytest.importorskip("rclpy", reason="needs ROS 2")
    namespace = f"external_{tmp_path.name}".replace("-", "_")
    run = haptics("run", WALL, "--mode", "lockstep", "--namespace", namespace, "--out", str(tmp_path / "own"))
    command = [sys.executable, str(EXAMPLE / "controller.py"), "--ros-args", "-r", f"__ns:=/{namespace}"]
    with subprocess.Popen(command) as node:
        try:
            assert run.wait() == 0, run.err
            assert node.wait(DEADLINE) == 0
        finally:
            node.kill()
    verified = haptics("replay", str(tmp_path / "own"), "--verify")
    assert verified.wait() == 0 and "identical, bit by bit" in verified.out
    assert "controller: is a node of the user's own" in verified.err
    (trial,) = experiment.load(WALL, SPRING)
    (tmp_path / "ours").mkdir()
    with Interruption() as interruption:
        run_trial(trial, "offline", tmp_path / "ours", interruption)
    own, ours = (load_trial(str(tmp_path / name)).samples for name in ("own", "ours"))
    assert len(own) == len(ours) == 151
    for name in ("hand", "tool"):
        assert np.abs(own.pose(name) - ours.pose(name)).max() < 1e-12
    assert np.abs(own.wrench("rendered") - ours.wrench("rendered")).max() < 1e-9
    assert np.abs(ours.wrench("rendered")).max() > 2.0


MASS = str(ROOT / "examples" / "external_environment" / "external_mass.yaml")


def test_an_environment_of_ones_own_is_waited_for_and_refused_where_there_is_none() -> None:
    (trial,) = experiment.load(MASS)
    assert trial.experiment.external == ("environment",)
    assert "environment.engine = external: the trial begins when a node environment of yours" in "".join(trial.notes)
    with pytest.raises(ParameterError, match=r"engine = external: is a node of your own, which only the ROS"):
        trial.in_mode("offline")
    for setting, said in (
        ("local_model.type=full", "environment.engine = external answers at the servo rate, and feeds no local model"),
    ):
        with pytest.raises(ParameterError, match=said):
            experiment.load(MASS, [setting])
    with pytest.raises(ParameterError, match="external answers a controller; give a device"):
        experiment.load(MASS, ["device.type=none", "controller.type=none"])


@pytest.mark.exhaustive
@pytest.mark.long
def test_the_example_of_an_environment_is_the_engine_that_it_copies(
    haptics: Callable[..., Haptics], tmp_path: Path
) -> None:
    """In lockstep, to rounding; the driver and the controller are verified bit by bit from its states."""
    pytest.importorskip("rclpy", reason="needs ROS 2")
    namespace = f"external_{tmp_path.name}".replace("-", "_")
    run = haptics("run", MASS, "--mode", "lockstep", "--namespace", namespace, "--out", str(tmp_path / "own"))
    script = Path(MASS).with_name("environment.py")
    command = [sys.executable, str(script), "--ros-args", "-r", f"__ns:=/{namespace}"]
    with subprocess.Popen(command) as node:
        try:
            assert run.wait() == 0, run.err
            assert node.wait(DEADLINE) == 0
        finally:
            node.kill()
    verified = haptics("replay", str(tmp_path / "own"), "--verify")
    assert verified.wait() == 0 and "identical, bit by bit" in verified.out
    assert "environment: is a node of the user's own" in verified.err
    engine = "environment.engine={type: point_mass:PointMassParameters, stiffness: 500, wall: 0.002}"
    (trial,) = experiment.load(MASS, [engine])
    (tmp_path / "ours").mkdir()
    with Interruption() as interruption:
        run_trial(trial, "offline", tmp_path / "ours", interruption)
    own, ours = (load_trial(str(tmp_path / name)).samples for name in ("own", "ours"))
    assert len(own) == len(ours) == 151
    for name in ("hand", "tool"):
        assert np.abs(own.pose(name) - ours.pose(name)).max() < 1e-12
    assert np.abs(own.wrench("env") - ours.wrench("env")).max() < 1e-9
    assert np.abs(ours.wrench("env")).max() > 1.0
