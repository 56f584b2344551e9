"""A closed loop for programs: operator, device, controller and world, advanced tick by tick in this process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from haptic_bench.experiment import Trial
from haptic_bench.running.offline import LoopOfHands, build_loop
from haptic_bench.trials.recorded import load_one
from haptic_sim.messages import DeviceCommand, DeviceState, ToolState
from haptic_sim.parameters import ParameterError


class Loop:
    """The closed loop of an experiment, without files and processes, and with the same bits as `run`.

        loop = Loop("corner_peg", {"controller.type": "direct"})
        while loop.time < 0.5:
            loop.step()
            print(loop.time, loop.device.pose, loop.tool.pose, loop.command.wrench)

    What the properties return are the messages of the loop, which the next step fills again: copy what has to last.

    Args:
        experiment: name of one of the catalogue, path of a YAML file, or its content.
        settings: values by dotted key, as in {"contact.stiffness": 2000.0}.

    Raises:
        ParameterError: bad input, one line for each problem.
    """

    def __init__(
        self, experiment: str | os.PathLike[str] | Mapping[str, Any], settings: Mapping[str, Any] | None = None
    ):
        self.trial: Trial = load_one(experiment, settings or {})
        self._loop = build_loop(self.trial, _discard)

    def step(self) -> None:
        """Advance by a tick.

        Raises:
            UnstableError, DeviceError: the loop cannot go on.
        """
        self._loop.step()

    @property
    def ticks(self) -> int:
        """Number of ticks done."""
        return self._loop.ticks

    @property
    def time(self) -> float:
        """Time that has passed [s]."""
        return self._loop.ticks / self.trial.experiment.rate

    @property
    def tool(self) -> ToolState:
        """The virtual tool after the last tick: pose, twist, and the wrench of the world on it."""
        return self._loop.tool_state

    @property
    def device(self) -> DeviceState:
        """The device at the beginning of the last tick: pose and twist of the hand; of the first hand.

        Raises:
            ParameterError: the experiment has no device.
        """
        return self._hands().hands[0].device_state

    @property
    def command(self) -> DeviceCommand:
        """What the device was commanded at the end of the last tick: the wrench on the hand; of the first hand.

        Raises:
            ParameterError: the experiment has no device.
        """
        return self._hands().hands[0].device_command

    def _hands(self) -> LoopOfHands:
        if not isinstance(self._loop, LoopOfHands):
            raise ParameterError(["device.type = none: the operator's wrench acts on the tool; there is no device"])
        return self._loop


def _discard(topic: str, tick: int, data: bytes) -> None:
    """Messages that nobody takes."""
