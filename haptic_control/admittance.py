"""The controller of an admittance display (FAULRING figure 2, equations 17, 18).

The wrench that the device senses acts on the virtual tool, and the device is moved as the tool moves:

    ToolCommand(k)   = s F_sensed(k)
    DeviceCommand(k) = tool's pose and twist at t_(k+1), and the acceleration
        a(k) = (v_tool(k+1) - v_tool(k)) / T                                  feedforward: the tool's over the tick
             + Kp e(k) + z(k) + Kd (v_tool(k) - v_device(k))                  feedback: e, both states at t_k
        z(k) = z(k-1) + Ki e(k) T, within +- integral_limit                   of the integral, as an acceleration

The tool answers tick k with its state at t_(k+1), and the feedforward of tick k acts during tick k. So a device that
follows the commanded acceleration has the tool's velocity at t_(k+1), not a tick later. FAULRING's Algorithm 1 compares
the tool at t_(k+1) with the device at t_k (lines 3, 12, 13), so that the displacement of one tick, v T, counts as an
error; here both are at t_k. Where the tool's state is late (in realtime), it is extrapolated by its twist to the time
of the device's state.

e is the difference of positions, and of orientations the logarithm of the rotation from the device to the tool, in
world axes: no coordinates that could become singular (FAULRING feeds back Euler angles, or joints).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np

from haptic_control.parameters import ControllerParameters
from haptic_control.stability import (
    TOLERANCE,
    CoupledInertias,
    Search,
    diverges,
    growth,
    largest,
    rounded_down,
    settings,
)
from haptic_sim.kernels import kernel
from haptic_sim.messages import MOTION, DeviceCommand, DeviceState, ToolCommand, ToolSizes, ToolState, time_between
from haptic_sim.parameters import Gains, quantity, six
from haptic_sim.spatial import rotation_difference


class AdmittanceParameters(ControllerParameters):
    """Gains of the admittance controller: a device's acceleration for its errors, in each direction."""

    # (s + p)^3 with p = 200/s: errors decay within some 20 ms. At 1 kHz the loop bears a delay of one more tick.

    type: Literal["admittance"] = "admittance"
    proportional: Gains = quantity(
        (1.2e5,) * 6, unit="1/s^2", description="Acceleration of the device for an error of its pose", live=True
    )
    integral: Gains = quantity(
        (8e6,) * 6,
        unit="1/s^3",
        description="Acceleration of the device for the integral of the error of its pose",
        live=True,
    )
    derivative: Gains = quantity(
        (6e2,) * 6, unit="1/s", description="Acceleration of the device for an error of its twist", live=True
    )
    integral_limit: Gains = quantity(
        (1.0, 1.0, 1.0, 10.0, 10.0, 10.0),
        unit="m/s^2, rad/s^2",
        description="Largest acceleration of the device by the integral, which prevents wind-up",
        live=True,
    )
    force_scale: float = quantity(
        1.0,
        description="Factor of the sensed wrench on the virtual tool",
        live=True,
        ge=0.0,
        le=100.0,
    )

    COMMANDS: ClassVar[int] = MOTION

    def build(self, rate: float) -> Admittance:
        """The controller, at the servo rate [Hz]."""
        return Admittance(self, rate)

    def loop_problem(self, inertias: CoupledInertias, rate: float, search: Search = largest) -> str:
        """Check the loop with a known device inertia; see `stability_problem`; `search` finds stable gains."""
        return admittance_problem(self, inertias, rate, search)


class Admittance:
    """Moves a device as the tool moves; `coordinate` before the tool moves, `command` after it has answered."""

    remembers: ClassVar[bool] = True  # what it commands depends on more than the states that it is given

    def __init__(self, parameters: AdmittanceParameters, rate: float):
        self._rate, self.passed = rate, np.zeros(6)  # see FourChannel
        self._gains, self._limit = np.zeros((3, 6)), np.zeros(6)
        self._integral, self._feedback, self._twist = np.zeros(6), np.zeros(6), np.zeros(6)
        self._tick, self._tool_tick = 0, -1  # of the last states of device and tool; `_twist` is the latter's
        self._time = 0  # stamp of the former [ns]
        self.configure(parameters)

    def configure(self, parameters: AdmittanceParameters) -> None:
        """Take new gains, from the next tick on; what the integral asks for does not jump with its gain."""
        self.parameters = parameters
        self._gains[:] = six(parameters.proportional), six(parameters.integral), six(parameters.derivative)
        self._limit[:] = six(parameters.integral_limit)

    def warm_up(self, sizes: ToolSizes) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""
        tool = sizes.tool_state()
        self.coordinate(DeviceState(), tool, ToolCommand())
        self.command(tool, DeviceCommand())

    def coordinate(self, device: DeviceState, tool: ToolState, command: ToolCommand) -> None:
        """Fill the tool's command of the device's tick from what the device senses; note how far it is from the tool.

        The integral rests while the device says that it has not followed the last command.
        """
        tick = device.tick
        _compare(
            device.pose,
            device.twist,
            tool.pose,
            tool.twist,
            self._elapsed(tool.tick + 1, tick),
            self._elapsed(self._tick, tick) if device.command_tick >= 0 else 0.0,
            self._gains,
            self._limit,
            self._integral,
            self._feedback,
        )
        self._twist[:], self._tool_tick = tool.twist, tool.tick
        np.multiply(device.operator_wrench, self.parameters.force_scale, out=self.passed)
        command.wrench[:] = self.passed
        self._tick, self._time = tick, device.nanoseconds
        command.stamp(tick, self._time)
        command.tool_tick = tool.tick

    def command(self, tool: ToolState, command: DeviceCommand) -> None:
        """Fill the device's command of the tick that the tool has answered: where it is then, and how to follow."""
        command.stamp(tool.tick, self._time)
        command.device_tick = self._tick
        command.mode = MOTION
        command.pose[:] = tool.pose
        command.twist[:] = tool.twist
        elapsed = self._elapsed(self._tool_tick, tool.tick)
        _accelerate(tool.twist, self._twist, elapsed, self._feedback, command.acceleration)
        self._tool_tick = tool.tick

    def _elapsed(self, first: int, last: int) -> float:
        """Time between two ticks [s], by the count of ticks: stamps are those of a clock."""
        return 1e-9 * time_between(first, last, self._rate)


def admittance_loop(
    gains: np.ndarray, force_scale: float, inertias: CoupledInertias, rate: float, direction: int | None = None
) -> np.ndarray:
    """The sampled loop, for small motions and without the limit of the integral, as a map of (e, w, z[, a, v_tool]).

    e is the error of pose and w that of twist, a = O (Kp e + z' + Kd w) with z' = z + Ki T e, and semi-implicit Euler
    has w' = w - T a, e' = e + T w'. O is the part of a commanded acceleration that the device takes. A device whose
    inner servo compensates for more friction than there is accelerates besides by `drag` (v_tool - w). With a force
    sensor that adds E a(k-1) to what the operator applies, the tool accelerates by W_t s E a(k-1), which is fed
    forward, and the device by -M^-1 E a(k-1) besides.

    Args:
        gains: proportional, integral, derivative (3, 6).
        force_scale: s.
        inertias: of tool and device.
        rate: of the servo [Hz].
        direction: one of the six directions, without the force sensor, which couples them; otherwise all that move.
    """
    T, axes = 1.0 / rate, inertias.axes if direction is None else np.array([direction])
    n = axes.size
    one, zero, block = np.eye(n), np.zeros((n, n)), np.ix_(axes, axes)
    obeyed, drag = (np.diag(np.repeat(pair, 3)[axes]) for pair in (inertias.obeyed, inertias.drag))
    Kp, Ki, Kd = (np.diag(row[axes]) for row in gains)
    W, E = (np.array(matrix).reshape(6, 6)[block] for matrix in (inertias.tool, inertias.felt))
    E = E if direction is None else zero
    follow = W @ (force_scale * E)  # a of the tool for a(k-1) of the device
    back = E / np.repeat(inertias.device or (1.0, 1.0), 3)[axes][:, None]
    z = np.hstack([Ki * T, zero, one, zero, zero])
    a = np.hstack([obeyed @ (Kp + Ki * T), obeyed @ Kd - drag, obeyed, obeyed @ follow - back, drag])
    tool = np.hstack([zero, zero, zero, follow, zero])
    w = np.hstack([zero, one, zero, zero, zero]) + T * (tool - a)
    e = np.hstack([one, zero, zero, zero, zero]) + T * w
    v = np.hstack([zero, zero, zero, zero, one]) + T * tool
    loop = np.vstack([e, w, z, a, v])
    states = 5 * n if E.any() else 3 * n
    kept = np.arange(states)
    kept = kept[(kept // n != 2) | (gains[1, axes[kept % n]] > 0.0)]  # without gain an integral stays what it is
    return loop[np.ix_(kept, kept)]


def admittance_problem(
    parameters: AdmittanceParameters, inertias: CoupledInertias, rate: float, search: Search = largest
) -> str:
    """Reason why the tracking error of a device that is moved at `rate` [Hz] grows, with stable gains; empty if stable.

    In a direction that diverges, the three gains are scaled together: c Kd, c^2 Kp and c^3 Ki have the same response,
    slower by the factor 1/c. Where the integral term makes the loop diverge at any rate (Ki >= Kp Kd), it is reduced.
    A direction without gains has no loop. `search` finds the stable gains.
    """
    scale = parameters.force_scale
    given = (parameters.proportional, parameters.integral, parameters.derivative)
    gains = np.array([six(one) for one in given])

    def factor_of(k: int, some: np.ndarray) -> float:
        return growth(admittance_loop(np.outer(some, np.eye(6)[k]), scale, inertias, rate, k))

    suggested, hopeless, factor = gains.copy(), "", 1.0
    for k in np.flatnonzero(gains.any(axis=0)).tolist():
        found = factor_of(k, gains[:, k])
        if not found <= 1.0 + TOLERANCE:
            factor = max(factor, found)
            suggested[:, k] = _slower(gains[:, k], lambda some, k=k: factor_of(k, some) > 1.0 + TOLERANCE, search)  # type: ignore[misc]
            if not suggested[:, k].any():
                hopeless = "; the device compensates for more friction than it has: lower device.friction_error"
    if factor > 1.0:
        _, would = settings(("proportional", "integral", "derivative"), given, suggested, np.arange(6))
        return (
            f"controller.proportional, integral, derivative: errors would grow by {100.0 * (factor - 1.0):.3g} % in a "
            f"tick at rate = {rate:g} Hz; lower them, or raise the rate"
            + (hopeless or f"; the largest stable gains: {would}")
        )
    if not any(inertias.felt) or not diverges(admittance_loop(gains, scale, inertias, rate)):
        return ""
    part = search(lambda c: diverges(admittance_loop(gains, c * scale, inertias, rate)))
    return (
        f"controller.force_scale = {scale:g}: what the force sensor adds to the operator's wrench "
        f"(device.handle_error) would move a tool as light as this one ever faster; the largest stable gains: "
        f"controller.force_scale={rounded_down(part * scale)}; lower it, or device.handle_error"
    )


def _slower(gains: np.ndarray, diverging: Callable[[np.ndarray], bool], search: Search) -> np.ndarray:
    """The largest gains of a direction (3,) that do not diverge: see `admittance_problem`."""
    Kp, Ki, Kd = gains
    if Ki >= Kp * Kd:
        if not diverging(np.array([Kp, 0.0, Kd])):
            return np.array([Kp, Ki * search(lambda c: diverging(np.array([Kp, c * Ki, Kd]))), Kd])
        Ki = 0.5 * Kp * Kd
    c = search(lambda c: diverging(np.array([c**2 * Kp, c**3 * Ki, c * Kd])))
    return np.array([c**2 * Kp, c**3 * Ki, c * Kd])


@kernel
def _compare(x_device, v_device, x_tool, v_tool, late, elapsed, gains, limit, integral, feedback):
    """Fill `feedback` from the errors; the tool's state is `late` [s] older than the device's."""
    rotation_difference(x_tool[3:], x_device[3:], feedback[3:])
    for i in range(6):
        error = (x_tool[i] - x_device[i] if i < 3 else feedback[i]) + late * v_tool[i]
        integral[i] = min(max(integral[i] + gains[1, i] * error * elapsed, -limit[i]), limit[i])
        feedback[i] = gains[0, i] * error + integral[i] + gains[2, i] * (v_tool[i] - v_device[i])


@kernel
def _accelerate(twist, before, elapsed, feedback, acceleration):
    """Fill `acceleration`; `before` is the twist `elapsed` [s] ago, and becomes the new one."""
    for i in range(6):
        feedforward = (twist[i] - before[i]) / elapsed if elapsed > 0.0 else 0.0
        acceleration[i] = feedforward + feedback[i]
        before[i] = twist[i]
