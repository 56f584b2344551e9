"""The controller of an admittance display (FAULRING figure 2, equations 17, 18).

The wrench that the device senses acts on the virtual tool, and the device is moved as the tool moves:

    ToolCommand(k)   = s F_sensed(k)
    DeviceCommand(k) = tool's pose and twist at t_(k+1), and the acceleration
        a(k) = (v_tool(k+1) - v_tool(k)) / T                                  feedforward: the tool's over the tick
             + Kp e(k) + z(k) + Kd (v_tool(k) - v_device(k))                  feedback: e, both states at t_k
        z(k) = z(k-1) + Ki e(k) T, within +- integral_limit                   of the integral, as an acceleration

Every signal is of the time that it says: the tool answers tick k with its state at t_(k+1), and the feedforward of
tick k acts during tick k, so a device that accelerates as it is told has the tool's velocity at t_(k+1), not a tick
later. FAULRING's Algorithm 1 compares the tool at t_(k+1) with the device at t_k (lines 3, 12, 13), which takes the way
of one tick, v T, for an error; here both are at t_k. Where the tool's state is late (in realtime), it is carried on by
its twist to the time of the device's.

e is the difference of positions, and of orientations the logarithm of the rotation from the device to the tool, in
world axes: no coordinates that could become singular (FAULRING feeds back Euler angles, or joints).
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numba
import numpy as np

from haptic_sim.messages import MOTION, DeviceCommand, DeviceState, ToolCommand, ToolSizes, ToolState
from haptic_sim.parameters import Gains, Parameters, quantity, six
from haptic_sim.spatial import rotation_difference


class AdmittanceParameters(Parameters):
    """Gains of the admittance controller: a device's acceleration for its errors, in each direction."""

    type: Literal["admittance"] = "admittance"
    proportional: Gains = quantity(
        (1e4,) * 6, unit="1/s^2", description="Acceleration for an error of pose [m/s^2 per m]", live=True
    )
    integral: Gains = quantity(
        (1e5,) * 6, unit="1/s^3", description="Acceleration for an error of pose that stays", live=True
    )
    derivative: Gains = quantity((2e2,) * 6, unit="1/s", description="Acceleration for an error of twist", live=True)
    integral_limit: Gains = quantity(
        (1.0, 1.0, 1.0, 10.0, 10.0, 10.0),
        unit="m/s^2, rad/s^2",
        description="Largest acceleration that the integral asks for: against its winding up",
        live=True,
    )
    force_scale: float = quantity(
        1.0,
        description="Part of the sensed wrench that acts on the virtual tool",
        live=True,
        ge=0.0,
        le=100.0,
    )


class Admittance:
    """Moves a device as the tool moves; `coordinate` before the tool moves, `command` after it has answered."""

    MEMORY: ClassVar[bool] = True  # what it commands depends on more than the states that it is given

    def __init__(self, parameters: AdmittanceParameters):
        self._gains, self._limit = np.zeros((3, 6)), np.zeros(6)
        self._integral, self._feedback, self._twist = np.zeros(6), np.zeros(6), np.zeros(6)
        self._tick = -1
        self._time = self._tool_time = 0  # [ns] of the last states of device and tool; `_twist` is the latter's
        self.configure(parameters)

    def configure(self, parameters: AdmittanceParameters) -> None:
        """Take new gains, from the next tick on; what the integral asks for does not jump with its gain."""
        self.parameters = parameters
        self._gains[:] = six(parameters.proportional), six(parameters.integral), six(parameters.derivative)
        self._limit[:] = six(parameters.integral_limit)

    def rehearse(self, sizes: ToolSizes) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""
        tool = sizes.tool_state()
        self.coordinate(DeviceState(), tool, ToolCommand())
        self.command(tool, DeviceCommand())

    def coordinate(self, device: DeviceState, tool: ToolState, command: ToolCommand) -> None:
        """Fill the tool's command of the device's tick from what the device senses; note how far it is from the tool.

        The integral rests while the device says that it has not followed the last command.
        """
        tick, time, tool_time = device.tick, device.nanoseconds, tool.nanoseconds
        _compare(
            device.pose,
            device.twist,
            tool.pose,
            tool.twist,
            1e-9 * (time - tool_time),
            1e-9 * (time - self._time) if device.command_tick >= 0 else 0.0,
            self._gains,
            self._limit,
            self._integral,
            self._feedback,
        )
        self._twist[:], self._tool_time = tool.twist, tool_time
        np.multiply(device.operator_wrench, self.parameters.force_scale, out=command.wrench)
        self._tick, self._time = tick, time
        command.stamp(tick, time)
        command.tool_tick = tool.tick

    def command(self, tool: ToolState, command: DeviceCommand) -> None:
        """Fill the device's command of the tick that the tool has answered: where it is then, and how to follow."""
        command.stamp(tool.tick, self._time)
        command.device_tick = self._tick
        command.mode = MOTION
        command.pose[:] = tool.pose
        command.twist[:] = tool.twist
        elapsed = 1e-9 * (tool.nanoseconds - self._tool_time)
        _accelerate(tool.twist, self._twist, elapsed, self._feedback, command.acceleration)
        self._tool_time = tool.nanoseconds


def growth(parameters: AdmittanceParameters, rate: float) -> float:
    """By how much an error of a device that does as it is told is multiplied in a tick, in the worst direction.

    The largest modulus of the eigenvalues of the sampled loop, without the limit of the integral: with e the error of
    pose and w that of twist, a = Kp e + z' + Kd w, z' = z + Ki T e, and semi-implicit Euler has w' = w - T a,
    e' = e + T w'. Above 1 errors grow; a direction without feedback has 1.
    """
    T = 1.0 / rate
    worst = 0.0
    for Kp, Ki, Kd in zip(
        six(parameters.proportional), six(parameters.integral), six(parameters.derivative), strict=True
    ):
        w = np.array([-T * (Kp + Ki * T), 1.0 - T * Kd, -T])  # of e, w, z
        z = np.array([Ki * T, 0.0, 1.0])
        loop = np.array([np.array([1.0, 0.0, 0.0]) + T * w, w, z])
        size = 3 if Ki > 0.0 else 2  # without gain the integral stays what it is
        worst = max(worst, float(np.abs(np.linalg.eigvals(loop[:size, :size])).max()))
    return worst


@numba.njit(cache=True, nogil=True)
def _compare(x_device, v_device, x_tool, v_tool, late, elapsed, gains, limit, integral, feedback):
    """Fill `feedback` from the errors; the tool's state is `late` [s] older than the device's."""
    rotation_difference(x_tool[3:], x_device[3:], feedback[3:])
    for i in range(6):
        error = (x_tool[i] - x_device[i] if i < 3 else feedback[i]) + late * v_tool[i]
        integral[i] = min(max(integral[i] + gains[1, i] * error * elapsed, -limit[i]), limit[i])
        feedback[i] = gains[0, i] * error + integral[i] + gains[2, i] * (v_tool[i] - v_device[i])


@numba.njit(cache=True, nogil=True)
def _accelerate(twist, before, elapsed, feedback, acceleration):
    """Fill `acceleration`; `before` is the twist `elapsed` [s] ago, and becomes the new one."""
    for i in range(6):
        feedforward = (twist[i] - before[i]) / elapsed if elapsed > 0.0 else 0.0
        acceleration[i] = feedforward + feedback[i]
        before[i] = twist[i]
