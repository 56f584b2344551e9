"""The driver of a device: reads its state, enforces its limits, applies what is asked of it."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numba
import numpy as np
from pydantic import Field

from haptic_drivers.inertial import InertialDevice
from haptic_drivers.operators import (
    ConstantParameters,
    FileParameters,
    Operator,
    SineParameters,
    build_operator,
)
from haptic_sim.contact.response import DeviceLimits
from haptic_sim.messages import FORCE, DeviceCommand, DeviceState, tick_time
from haptic_sim.parameters import Parameters, quantity
from haptic_sim.scene import NoToolParameters, PegParameters


class InertialParameters(DeviceLimits):
    """A simulated impedance device with purely inertial planar dynamics, kinematically equal to the tool."""

    type: Literal["inertial"] = "inertial"
    watchdog: float = quantity(
        0.02,
        unit="s",
        description="A command older than this is not rendered: the force is zero",
        gt=0.0,
        le=1.0,
    )
    mass: float | None = quantity(None, unit="kg", description="Mass; null: the tool's", gt=0.0, le=1e3)
    inertia: float | None = quantity(
        None, unit="kg m^2", description="Inertia about the hand point; null: the tool's", gt=0.0, le=1e3
    )


class NoDeviceParameters(Parameters):
    """No device: the operator's wrench acts on the tool."""

    type: Literal["none"] = "none"


AnyDeviceParameters = Annotated[InertialParameters | NoDeviceParameters, Field(discriminator="type")]


class Driver:
    """Owns a simulated device and the operator's hand on it.

    Args:
        device: integrates its own dynamics.
        operator: applies a wrench to it.
        limit: largest wrench that is rendered, in each direction (6,) [N, N m].
        rate: of the servo [Hz].
        watchdog: age beyond which a command is not rendered [s].

    Attributes:
        saturations: ticks in which a command was clipped; refused: commands that were not finite, or not forces;
        expired: ticks without force because the last command was too old.
    """

    def __init__(
        self,
        device: InertialDevice,
        operator: Operator,
        limit: np.ndarray,
        rate: float,
        watchdog: float = 0.02,
    ):
        self._device, self._operator = device, operator
        self._limit = np.array(limit, float)
        self._rate, self._period = rate, 1.0 / rate
        self._wrench, self._rendered = np.zeros(6), np.zeros(6)
        self._command_tick = -1
        self._patience = max(1, round(watchdog * rate))
        self._tick = -1
        self.saturations = self.refused = self.expired = 0

    def rehearse(self) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""
        self.sense(0, DeviceState())
        self.actuate(DeviceCommand())

    def sense(self, tick: int, state: DeviceState) -> None:
        """Fill the state at t_k, and what the operator applies."""
        self._tick = tick
        self._operator.wrench(tick / self._rate, self._wrench)
        state.stamp(tick, tick_time(tick, self._rate))
        state.pose[:] = self._device.pose
        state.twist[:] = self._device.twist
        state.operator_wrench[:] = self._wrench
        state.rendered_wrench[:] = self._rendered
        state.command_tick = self._command_tick

    def actuate(self, command: DeviceCommand) -> None:
        """Render the command within the limits during the tick of the last `sense`.

        Zero force if it is not a finite wrench, or older than the watchdog allows (tick -1: there is none yet).
        """
        if command.tick < 0 or self._tick - command.tick > self._patience:
            self.expired += 1
            self._command_tick = -1
            self._rendered[:] = 0.0
        elif command.mode != FORCE or (clipped := _clip(command.wrench, self._limit, self._rendered)) < 0:
            self.refused += 1
            self._command_tick = -1
            self._rendered[:] = 0.0
        else:
            self._command_tick = command.tick
            self.saturations += clipped
        self._device.step(self._wrench, self._rendered, self._period)


def build_driver(
    device: InertialParameters,
    operator: ConstantParameters | SineParameters | FileParameters,
    tool: PegParameters | NoToolParameters,
    rate: float,
    table: np.ndarray | None = None,
) -> Driver:
    """The driver of a simulated device; `table` holds the rows of a `file` operator."""
    mass, inertia = device.mass, device.inertia
    if isinstance(tool, PegParameters):
        mass, inertia = mass or tool.mass, inertia or tool.inertia
    if mass is None or inertia is None:
        raise TypeError("a device with the tool's inertia needs a tool that has one")
    simulated = InertialDevice(mass, inertia)
    return Driver(simulated, build_operator(operator, table), device.limit(), rate, device.watchdog)


@numba.njit(cache=True, nogil=True)
def _clip(wrench, limit, rendered):
    """Clip each direction to its limit; returns 1 if any was, 0 if none, -1 if the wrench is not finite."""
    clipped = 0
    for i in range(6):
        if not math.isfinite(wrench[i]):
            return -1
        rendered[i] = min(max(wrench[i], -limit[i]), limit[i])
        if rendered[i] != wrench[i]:
            clipped = 1
    return clipped
