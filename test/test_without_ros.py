"""Answers of an installation by pip without ROS 2 and without viser: missing parts, and commands that work."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import haptic_bench
import haptic_sim
from haptic_bench.commands import command_line
from haptic_bench.commands.command_line import DONE
from haptic_bench.set_up import requirements
from haptic_bench.set_up.failures import BAD_INPUT
from haptic_sim.parameters import ParameterError


@pytest.fixture
def no_ros(monkeypatch: pytest.MonkeyPatch) -> None:
    found = requirements._found
    monkeypatch.setattr(
        requirements, "_found", lambda name, module: (None, "") if name == "rclpy" else found(name, module)
    )


@pytest.mark.usefixtures("no_ros")
@pytest.mark.parametrize("mode", ["lockstep", "realtime"])
def test_a_mode_of_nodes_names_ros_and_the_mode_without_it(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "trial")
    assert command_line.main(["run", "incline", "--mode", mode, "--duration", "0.05", "--out", out]) == BAD_INPUT
    error = capsys.readouterr().err
    assert "nodes need ROS 2: rclpy >=7.0 is needed and not there" in error
    assert "--mode offline runs a trial without it" in error


@pytest.mark.usefixtures("no_ros")
@pytest.mark.parametrize("command", [("view", "corner_peg"), ("run", "corner_peg", "--mode", "realtime", "--view")])
def test_a_view_of_what_runs_names_ros_and_what_can_be_seen_without_it(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(command) == BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("haptics: nodes need ROS 2: rclpy >=7.0 is needed and not there")
    assert line.endswith("; --mode offline runs a trial without it, and `haptics view DIR` shows its result")


@pytest.mark.usefixtures("no_ros")
def test_a_part_is_checked_but_in_lockstep(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["check", "constant", "--set", "operator.wrench=[1,0,0,0,0,0]"]) == DONE
    out = capsys.readouterr().out
    assert "not checked in lockstep, which needs ROS 2: rclpy" in out
    assert "passed  finite under random inputs" in out
    assert "failed" not in out and "passed  the same bits offline and in lockstep" not in out


def test_a_view_of_a_program_says_how_to_get_viser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)
    ball = {"joint": "free", "mass": 1.0, "shapes": [{"type": "sphere", "radius": 0.1}]}
    with pytest.raises(ParameterError, match=r"a view needs viser: python3 -m pip install 'haptics\[view\]'"):
        haptic_bench.Viewer(haptic_sim.World({"bodies": {"ball": ball}, "tool": "ball"}))
