"""The four-channel controller (THESIS figure 4.14b, appendix D.2).

Two force channels carry the operator's wrench to the virtual tool and the environment's wrench to the device; two
position channels couple device and tool by a spring and a damper:

    Fc(k) = K (x_tool - x_device) + B (v_tool - v_device)      of the tool on the device
    ToolCommand(k) = s F_operator(k) - Fc(k)
    DeviceCommand(k) = F_environment(k) + Fc(k)

Both states are those at t_k; the same Fc acts on both sides, so the coupling adds no momentum. Orientations differ by
the logarithm of the rotation between them. THESIS (D.6) gives a damping of 35, Table 4.1 one of 70 (errata 11): the
default is Table 4.1.

The gains must suit the coupled inertias: see `haptic_control.stability`. The force channels and the operator are not
part of that loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import numba
import numpy as np

from haptic_control.parameters import ControllerParameters
from haptic_control.stability import CoupledInertias, diverges, largest_gains, settings, spring_loop, worst
from haptic_sim.messages import FORCE, DeviceCommand, DeviceState, ToolCommand, ToolSizes, ToolState
from haptic_sim.parameters import Gains, quantity, six
from haptic_sim.spatial import rotation_difference


class FourChannelParameters(ControllerParameters):
    """Gains of the four-channel controller."""

    type: Literal["four_channel"] = "four_channel"
    stiffness: Gains = quantity(
        (100.0, 100.0, 0.5), unit="N/m, N m/rad", description="Stiffness of the position channels", live=True
    )
    damping: Gains = quantity(
        (70.0, 70.0, 0.375),
        unit="N s/m, N m s/rad",
        description="Damping of the position channels",
        live=True,
    )
    force_scale: float = quantity(
        1.0,
        description="Factor of the operator's wrench on the virtual tool",
        live=True,
        ge=0.0,
        le=100.0,
    )


class Coupling(Protocol):
    """Parameters of a spring and a damper between device and tool."""

    @property
    def stiffness(self) -> Gains: ...

    @property
    def damping(self) -> Gains: ...

    @property
    def force_scale(self) -> float: ...


class FourChannel:
    """Couples device and tool; `coordinate` before the tool moves, `command` after it has answered."""

    def __init__(self, parameters: Coupling):
        self.configure(parameters)
        self._coordination = np.zeros(6)
        self._tick, self._time = -1, 0

    def configure(self, parameters: Coupling) -> None:
        """Take new gains, from the next tick on."""
        self.parameters = parameters
        self._stiffness = np.array(six(parameters.stiffness))
        self._damping = np.array(six(parameters.damping))

    def rehearse(self, sizes: ToolSizes) -> None:
        """Call every kernel once, so that none is loaded during a trial."""
        tool = sizes.tool_state()
        self.coordinate(DeviceState(), tool, ToolCommand())
        self.command(tool, DeviceCommand())

    def coordinate(self, device: DeviceState, tool: ToolState, command: ToolCommand) -> None:
        """Fill the tool's command of the device's tick from both states at t_k."""
        _coordinate(
            device.pose,
            device.twist,
            device.operator_wrench,
            tool.pose,
            tool.twist,
            self._stiffness,
            self._damping,
            self.parameters.force_scale,
            self._coordination,
            command.wrench,
        )
        self._tick, self._time = device.tick, device.nanoseconds
        command.stamp(self._tick, self._time)
        command.tool_tick = tool.tick

    def command(self, tool: ToolState, command: DeviceCommand) -> None:
        """Fill the device's command of the tick that the tool has answered, with the same coordination wrench."""
        command.stamp(tool.tick, self._time)
        command.device_tick = self._tick
        command.mode = FORCE
        np.add(tool.wrench, self._coordination, out=command.wrench)


def inverse_inertia(inertias: CoupledInertias) -> np.ndarray:
    """A = W_t + W_d: what the coordination wrench accelerates the tool against the device with (n, n)."""
    assert inertias.device is not None
    return inertias.of_tool() + np.diag(1.0 / inertias.per_axis(inertias.device))


def coupling_problem(parameters: Coupling, inertias: CoupledInertias, rate: float) -> str:
    """Why the coupling of these inertias at `rate` [Hz] diverges, and which gains would do; empty if it does not.

    A unilateral coupling moves the tool alone as long as nothing touches it, which is W_t in place of A, and diverges
    with smaller gains where it moves the device too.
    """
    A = inverse_inertia(inertias)
    return spring_problem(parameters, inertias, rate, np.diag(A), lambda K, B: spring_loop(A * K, A * B, 1.0 / rate))


def spring_problem(
    parameters: Coupling,
    inertias: CoupledInertias,
    rate: float,
    diagonal: np.ndarray,
    loop: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> str:
    """As `coupling_problem`, for the `loop` of a stiffness and a damping (n,); `diagonal` of what is in place of A."""
    axes = inertias.axes
    K, B = (np.array(six(gains))[axes] for gains in (parameters.stiffness, parameters.damping))
    map_of_tick = loop(K, B)
    if not diverges(map_of_tick):
        return ""
    where = inertias.describe(worst(map_of_tick, K / rate**2 + 2.0 * B / rate))
    found = largest_gains(K, B, diagonal, 1.0 / rate, lambda K, B: diverges(loop(K, B)))
    names, given = ("stiffness", "damping"), (parameters.stiffness, parameters.damping)
    are, would = settings(names, given, found, axes)
    half = [np.where(less < gain, 0.5 * less, gain) for less, gain in zip(found, (K, B), strict=True)]
    _, recommended = settings(names, given, half, axes)
    return (
        f"{are}: the sampled coupling at rate = {rate:g} Hz diverges {where}; the largest gains that would do: "
        f"{would}; recommended, with half of what was lowered, for a margin: {recommended}; lower them, or raise the "
        "rate"
    )


@numba.njit(cache=True, nogil=True)
def _coordinate(x_device, v_device, operator, x_tool, v_tool, stiffness, damping, scale, coordination, command):
    rotation = command[3:]  # as a place for the orientation difference
    rotation_difference(x_tool[3:], x_device[3:], rotation)
    for i in range(6):
        difference = x_tool[i] - x_device[i] if i < 3 else rotation[i - 3]
        coordination[i] = stiffness[i] * difference + damping[i] * (v_tool[i] - v_device[i])
        command[i] = scale * operator[i] - coordination[i]
