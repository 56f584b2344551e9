"""A process of a node answers signals whatever its node does."""

from __future__ import annotations

import importlib
import inspect
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DEADLINE, python

SLOW = """
import time
from haptic_sim.kernels import progress
from haptic_ros.process import run
from haptic_ros.servo import ServoNode
from haptic_ros.trial import TrialParameters


class Slow(ServoNode):
    NAME, Config = "slow", TrialParameters

    def build(self):
        progress.report(3, "a_kernel")
        while True:
            time.sleep(0.01)


run(Slow)
"""
ARGUMENTS = ["--ros-args", "-p", "trial.rate:=1000.0", "-p", "trial.last_tick:=1", "-p", "trial.nodes:=[slow]"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_node_that_compiles_says_so_and_ends_when_it_is_told_to(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, *ARGUMENTS], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            said = next(line for line in process.stderr if "[slow]" in line)
            assert "compiling kernels, which is done once and can take minutes: 3 so far" in said
            process.send_signal(number)
            assert process.wait(DEADLINE) == 0
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("module", "usage"),
    [
        ("haptic_drivers.nodes.driver", "driver"),
        ("haptic_control.nodes.relay", "relay device|world"),
        ("haptic_bench.nodes.composed", "composed NODE..."),
        *(
            pytest.param(module, module.rpartition(".")[2], marks=pytest.mark.exhaustive)
            for module in (
                "haptic_control.nodes.controller",
                "haptic_control.nodes.crtk",
                "haptic_sim.nodes.local_model",
                "haptic_sim.nodes.environment",
                "haptic_bench.nodes.recorder",
                "haptic_bench.nodes.standalone",
            )
        ),
    ],
)
def test_a_node_says_what_it_is_and_how_it_is_started(tmp_path: Path, module: str, usage: str) -> None:
    done = python("-m", module, "--help", cwd=tmp_path)
    assert done.status == 0, done.err
    assert done.out.startswith(
        f"usage: {usage} --ros-args -r __ns:=/NAMESPACE --params-file DIRECTORY/parameters.yaml\n"
    )
    about = importlib.import_module(module).__doc__ or ""
    assert about.splitlines()[0] in done.out


def test_what_is_prepared_before_nodes_are_forked_is_not_done_again_in_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """rclpy's logger asks for the module of the code that logs, and Python for the files of all modules at first."""
    process, servo = (pytest.importorskip(f"haptic_ros.{name}", reason="needs ROS 2") for name in ("process", "servo"))
    process.prepare_forks()
    asked: list[str] = []
    realpath = inspect.os.path.realpath
    monkeypatch.setattr(inspect.os.path, "realpath", lambda path: asked.append(path) or realpath(path))
    servo.find_modules()
    assert not asked
    monkeypatch.setattr(inspect, "modulesbyfile", {})
    monkeypatch.setattr(inspect, "_filesbymodname", {})
    servo.find_modules()
    assert len(asked) > 100
