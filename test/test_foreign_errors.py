"""What a part of another package raises is said with its file and line, and the trial has failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from haptic_bench.experiment import load
from haptic_bench.running.properties import properties
from haptic_bench.running.runner import Interruption
from haptic_bench.trials.trial import run_trial
from haptic_control.parameters import ControllerParameters
from haptic_sim.messages import DeviceCommand, DeviceState, ToolCommand, ToolSizes, ToolState


class Faulty:
    """A controller with a fault."""

    remembers = False

    def __init__(self, fault: str):
        self._fault = fault

    def configure(self, parameters: Any) -> None: ...

    def warm_up(self, sizes: ToolSizes) -> None: ...

    def coordinate(self, device: DeviceState, tool: ToolState, command: ToolCommand) -> None:
        command.stamp(device.tick, device.nanoseconds)
        if self._fault == "rebinds":
            command.wrench = device.operator_wrench * 1.0
        elif self._fault == "exit":
            raise SystemExit(3)
        elif self._fault == "divides":
            _ = 1 // 0

    def command(self, tool: ToolState, command: DeviceCommand) -> None:
        command.stamp(tool.tick, tool.nanoseconds)
        command.device_tick = tool.tick - (self._fault == "tick")


class FaultyParameters(ControllerParameters):
    """A controller with a fault."""

    type: Literal["faulty"] = "faulty"
    fault: str = "none"

    def build(self, rate: float) -> Any:
        return Faulty(self.fault)


FAULTS = {
    "rebinds": "FieldAssignmentError: ToolCommand.wrench = ndarray: must keep its array",
    "exit": "SystemExit: 3",
    "divides": "ZeroDivisionError: integer division or modulo by zero",
}


def faulty(fault: str) -> Any:
    settings = (f"controller={{type: {__name__}:FaultyParameters, fault: {fault}}}", "duration=0.05", "analysis=trial")
    return load("coupling_wall", settings)[0].in_mode("offline")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_trial_whose_part_raises_has_failed_with_its_file_and_line(fault: str, tmp_path: Path) -> None:
    with Interruption() as interruption:
        summary = run_trial(faulty(fault), "offline", tmp_path, interruption)
    assert summary["status"] == "failed"
    place, _, reason = summary["reason"].partition(", in coordinate: ")
    assert place.startswith(f"{__file__}, line ") and reason.startswith(FAULTS[fault])
    assert (tmp_path / "summary.json").exists()


@pytest.mark.parametrize("fault", FAULTS)
def test_the_check_of_a_part_says_what_it_raises(fault: str) -> None:
    (problem,) = [one.problem for one in properties("controllers", faulty(fault)) if one.problem]
    assert problem.startswith(__file__) and FAULTS[fault] in problem


def test_the_check_of_a_controller_finds_commands_of_another_tick() -> None:
    (problem,) = [one.problem for one in properties("controllers", faulty("tick")) if one.problem]
    assert problem == "in tick 0: device_tick = -1; must be 0, `device.tick` of `coordinate`"


def test_an_error_that_is_in_no_part_of_others_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("haptic_bench.running.offline.HandLoop.follow", None)
    with pytest.raises(TypeError, match="not callable"), Interruption() as interruption:
        run_trial(faulty("none"), "offline", tmp_path, interruption)
