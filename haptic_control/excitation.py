"""Excites a device so that its motion identifies its dynamics: the controller of trials for `haptics identify`.

Each direction in turn is driven by a sum of sines with frequencies in a band, in geometric progression, and with phases
that keep the peaks low (Schroeder, IEEE Transactions on Information Theory 16, 1970):

    F_i(t) = force_i w(t) sqrt(2/N) sum over n of sin(2 pi f_n t - pi n (n - 1) / N),   N = LINES

where w rises and falls by half a cosine at the ends of the turn. Dry friction acts against the direction of motion, so
directions that are moved together could not be distinguished. A weak spring with a damper keeps the device near the
tool, which gets no wrench and stays where it is:

    DeviceCommand_i = F_i + k_i (x_tool - x_device) - HOLD k_i v_device,   k_i = force_i / reach

The spring is no disturbance: what the device renders is recorded, whatever it is made of.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
from pydantic import model_validator

from haptic_control.parameters import ControllerParameters
from haptic_sim.hand.rendering import pose_difference
from haptic_sim.kernels import kernel
from haptic_sim.messages import FORCE, DeviceCommand, DeviceState, ToolCommand, ToolSizes, ToolState
from haptic_sim.parameters import Gains, PositivePair, quantity, six

LINES = 24
RAMP = 0.25  # [s] in which the excitation of a turn rises, and falls
HOLD = 0.05  # damper of the spring, per stiffness [s]


class ExcitationParameters(ControllerParameters):
    """Drives the device by sines of many frequencies, for its identification; nothing of the world is felt."""

    type: Literal["excitation"] = "excitation"
    force: Gains = quantity(
        (1.0, 1.0, 0.02),
        unit="N, N m",
        description="Root mean square of the excitation in each direction, whose peaks are some twice as high; 0: none",
    )
    band: PositivePair = quantity((1.0, 40.0), unit="Hz", description="Lowest and highest frequency of the excitation")
    turn: float = quantity(
        8.0, unit="s", description="Time for which each direction is excited, one after the other", ge=1.0, le=600.0
    )
    reach: PositivePair = quantity(
        (0.05, 0.3),
        unit="m, rad",
        description="Displacement, and rotation, at which the spring that keeps the device in place pulls with `force`",
    )

    @model_validator(mode="after")
    def _band_is_in_order(self) -> ExcitationParameters:
        low, high = self.band
        if not low < high:
            raise ValueError(f".band = [{low:g}, {high:g}] Hz: the lowest frequency must be below the highest")
        if not any(self.force):
            raise ValueError(".force: must not be 0 in all directions")
        return self

    @property
    def directions(self) -> tuple[int, ...]:
        """Directions that are excited, in order: 0 to 5."""
        return tuple(i for i, force in enumerate(six(self.force)) if force)

    @property
    def lasts(self) -> float:
        """Duration of the excitation [s]."""
        return self.duration

    @property
    def duration(self) -> float:
        """Time until each direction has had its turn [s]."""
        return self.turn * len(self.directions)

    def build(self, rate: float) -> Excitation:
        """The controller, at the servo rate [Hz]."""
        return Excitation(self, rate)


class Excitation:
    """Sums of sines that drive the device, and the weak spring that keeps it near the tool.

    `coordinate` is called before the tool moves, `command` after it has answered.

    Args:
        parameters: of the excitation.
        rate: of the servo [Hz].
    """

    remembers: ClassVar[bool] = False  # what it commands depends on the tick and the states that it is given alone

    def __init__(self, parameters: ExcitationParameters, rate: float):
        self._rate, self._wrench, self._difference = rate, np.zeros(6), np.zeros(6)
        self._tick, self._time, self.passed = -1, 0, np.zeros(6)  # of the operator's wrench nothing is passed on
        self.configure(parameters)

    def configure(self, parameters: ExcitationParameters) -> None:
        """Take new parameters, from the next tick on."""
        p = self.parameters = parameters
        n = np.arange(LINES)
        self._sines = np.stack([2.0 * math.pi * np.geomspace(*p.band, LINES), -math.pi * n * (n - 1) / LINES])
        self._force, self._directions = np.array(six(p.force)), np.array(p.directions)
        self._stiffness = self._force / np.repeat(p.reach, 3)

    def warm_up(self, sizes: ToolSizes) -> None:
        """Call every kernel once, so that none is loaded during a trial."""
        tool = sizes.tool_state()
        self.coordinate(DeviceState(), tool, ToolCommand())
        self.command(tool, DeviceCommand())

    def coordinate(self, device: DeviceState, tool: ToolState, command: ToolCommand) -> None:
        """Fill the tool's command of the device's tick: no wrench."""
        self._tick, self._time = device.tick, device.nanoseconds
        _excite(
            self._tick / self._rate,
            self.parameters.turn,
            self._directions,
            self._sines,
            self._force,
            self._stiffness,
            device.pose,
            device.twist,
            tool.pose,
            self._wrench,
            self._difference,
        )
        command.stamp(self._tick, self._time)
        command.tool_tick = tool.tick
        command.wrench[:] = 0.0

    def command(self, tool: ToolState, command: DeviceCommand) -> None:
        """Fill the device's command of the tick that the tool has answered."""
        command.stamp(tool.tick, self._time)
        command.device_tick = self._tick
        command.mode = FORCE
        command.wrench[:] = self._wrench


@kernel
def _excite(time, turn, directions, sines, force, stiffness, pose, twist, rest, wrench, difference):
    """Fill the device's `wrench` (6,) at a time [s]; `rest` is the pose to which the spring pulls (7,)."""
    pose_difference(pose, rest, difference)
    for i in range(6):
        wrench[i] = -stiffness[i] * (difference[i] + HOLD * twist[i])
    turns = math.floor(time / turn)
    i, since = directions[turns % directions.size], time - turns * turn
    s = 0.0
    for n in range(sines.shape[1]):
        s += math.sin(sines[0, n] * since + sines[1, n])
    edge = min(since, turn - since) / RAMP
    part = 0.5 * (1.0 - math.cos(math.pi * max(edge, 0.0))) if edge < 1.0 else 1.0
    wrench[i] += force[i] * part * math.sqrt(2.0 / sines.shape[1]) * s
