"""The virtual coupling: a spring and a damper on SE(3) between device and virtual tool, and nothing else.

    ToolCommand(k)   = wrench of spring and damper on the tool
    DeviceCommand(k) = their wrench on the device

Neither the operator's nor the environment's wrench is passed on: the hand feels the tool through the coupling alone
(Colgate, Stanley, Brown 1995; the coupling that BROWN analyses), and no force has to be measured. The stiffness K and
the damping B are symmetric positive semidefinite matrices in world axes.

The spring is conservative for rotations of any size, because its wrenches are the gradient of a potential. With
p = p_tool - p_device, and the unit quaternion (eps, eta) of the rotation from the device to the tool in world axes,

    U = 1/2 p^T K_pp p + p^T K_pr (2 eta eps) + 1/2 (2 eps)^T K_rr (2 eps)
    f = K_pp p + K_pr (2 eta eps),   m = K_rr 2 eps,   n = K_pr^T p
    on the tool:   force -f,  torque -(eta m + eps x m) - (eta^2 n - (n . eps) eps + eta eps x n)
    on the device: force  f,  torque   eta m - eps x m  +  eta^2 n - (n . eps) eps - eta eps x n

which follow from d(eps)/dt = (eta (w_t - w_d) + (w_t + w_d) x eps) / 2 and d(eta)/dt = -eps . (w_t - w_d) / 2. For
small rotations 2 eps is the rotation vector and U = 1/2 (p, 2 eps)^T K (p, 2 eps). U is smooth everywhere, the same for
both signs of the quaternion, and nowhere negative: with |eta| <= 1 it lies between the diagonal blocks alone and all
of K, each positive semidefinite. An isotropic rotational spring k has the torque k sin(angle): the largest at a
right angle, none at half a turn, where the torque k angle of the four-channel controller jumps. K is
constant in the world frame, not in that of one of the bodies, so that a spring which is not isotropic may exert a
torque on both in sum, as one with a guide in the world frame does; the guide takes no power.

The damper acts on the difference u of the twists: B u on the device, -B u on the tool, which takes u^T B u >= 0.
Sampled, neither is exactly passive: see `haptic_control.stability`, and `haptic_control.passivity` for the damping that
a device needs.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from haptic_control.coupled_loop import Channels, channels_loop, inverse_inertia, spring_problem
from haptic_control.matrices import MatrixGains, matrix_of
from haptic_control.parameters import AnalysedControllerParameters
from haptic_control.stability import (
    CoupledInertias,
    Search,
    diverges,
    largest,
    rounded_down,
    spring_loop,
    worst,
)
from haptic_sim.kernels import kernel
from haptic_sim.messages import FORCE, DeviceCommand, DeviceState, ToolCommand, ToolSizes, ToolState
from haptic_sim.parameters import quantity


class VirtualCouplingParameters(AnalysedControllerParameters):
    """Spring and damper of the virtual coupling, each as a diagonal or as a matrix."""

    LABEL: ClassVar[str] = "a virtual coupling"

    type: Literal["virtual_coupling"] = "virtual_coupling"
    stiffness: MatrixGains = quantity(
        (1000.0, 1000.0, 2.5),
        unit="N/m, N m/rad",
        description="Stiffness of the coupling in world axes: three or six gains, or the 36 values of a symmetric "
        "matrix, row by row",
        live=True,
    )
    damping: MatrixGains = quantity(
        (50.0, 50.0, 0.125),
        unit="N s/m, N m s/rad",
        description="Damping of the coupling in world axes: three or six gains, or the 36 values of a symmetric "
        "matrix, row by row",
        live=True,
    )

    GAINS: ClassVar[tuple[str, ...]] = ("stiffness", "damping")
    PASSES_FORCES: ClassVar[bool] = False

    def build(self, rate: float) -> VirtualCoupling:
        """The controller, at the servo rate [Hz]."""
        return VirtualCoupling(self)

    @property
    def spring_and_damper(self) -> tuple[np.ndarray, np.ndarray]:
        """Stiffness and damping (6, 6), which are all that acts between device and tool."""
        return matrix_of(self.stiffness), matrix_of(self.damping)

    def loop_problem(self, inertias: CoupledInertias, rate: float, search: Search = largest) -> str:
        """Check the loop with a known device inertia; see `stability_problem`; `search` finds stable gains."""
        return virtual_coupling_problem(self, inertias, rate, search)


class VirtualCoupling:
    """Couples device and tool; `coordinate` before the tool moves, `command` after it has answered."""

    remembers: ClassVar[bool] = False  # what it commands depends on the states that it is given alone

    def __init__(self, parameters: VirtualCouplingParameters):
        self._stiffness, self._damping, self._on_device = np.zeros((6, 6)), np.zeros((6, 6)), np.zeros(6)
        self._parts = np.zeros((3, 4))  # eps and eta, m, n
        self._tick, self._time, self.passed = -1, 0, np.zeros(6)  # of the operator's wrench nothing is passed on
        self.configure(parameters)

    def configure(self, parameters: VirtualCouplingParameters) -> None:
        """Take new gains, from the next tick on."""
        self.parameters = parameters
        self._stiffness[:], self._damping[:] = matrix_of(parameters.stiffness), matrix_of(parameters.damping)

    def warm_up(self, sizes: ToolSizes) -> None:
        """Call every kernel once, so that none is loaded during a trial."""
        tool = sizes.tool_state()
        self.coordinate(DeviceState(), tool, ToolCommand())
        self.command(tool, DeviceCommand())

    def coordinate(self, device: DeviceState, tool: ToolState, command: ToolCommand) -> None:
        """Fill the tool's command of the device's tick from both states at t_k."""
        couple(
            device.pose,
            device.twist,
            tool.pose,
            tool.twist,
            self._stiffness,
            self._damping,
            self._parts,
            self._on_device,
            command.wrench,
        )
        self._tick, self._time = device.tick, device.nanoseconds
        command.stamp(self._tick, self._time)
        command.tool_tick = tool.tick

    def command(self, tool: ToolState, command: DeviceCommand) -> None:
        """Fill the device's command of the tick that the tool has answered."""
        command.stamp(tool.tick, self._time)
        command.device_tick = self._tick
        command.mode = FORCE
        command.wrench[:] = self._on_device


def potential(pose_device: np.ndarray, pose_tool: np.ndarray, stiffness: np.ndarray) -> float:
    """Energy U of the spring [J].

    Args:
        pose_device, pose_tool: (7,) [m, quat_xyzw].
        stiffness: K (6, 6), symmetric.
    """
    p, difference = pose_tool[:3] - pose_device[:3], np.zeros(4)
    _relative_rotation(pose_tool[3:], pose_device[3:], difference)
    eps, eta = difference[:3], difference[3]
    turned = 2.0 * stiffness[3:, 3:] @ eps
    return float(0.5 * p @ stiffness[:3, :3] @ p + p @ stiffness[:3, 3:] @ (2.0 * eta * eps) + turned @ eps)


def virtual_coupling_problem(
    parameters: VirtualCouplingParameters, inertias: CoupledInertias, rate: float, search: Search = largest
) -> str:
    """Reason why the coupling of these inertias diverges at `rate` [Hz], with stable gains; empty if it does not.

    `search` finds the stable gains.
    """
    A, T, block = inverse_inertia(inertias), 1.0 / rate, np.ix_(inertias.axes, inertias.axes)

    def loop(K: np.ndarray, B: np.ndarray) -> np.ndarray:
        if inertias.ideal:
            return spring_loop(A @ K, A @ B, T)
        return channels_loop(Channels.spring(K, B), inertias, rate)

    if len(parameters.stiffness) < 36 and len(parameters.damping) < 36:
        return spring_problem(parameters, inertias, rate, np.diag(A), lambda K, B: loop(np.diag(K), np.diag(B)), search)
    K, B = (matrix_of(gains)[block] for gains in (parameters.stiffness, parameters.damping))
    if not diverges(loop(K, B)):
        return ""
    where = inertias.describe(worst(loop(K, B), np.diag(K) / rate**2 + 2.0 * np.diag(B) / rate))
    names = "controller.damping"
    part = search(lambda c: diverges(loop(K, c * B)))
    if part == 0.0:
        names = "controller.stiffness and controller.damping"
        part = search(lambda c: diverges(loop(c * K, c * B)))
    return (
        f"{names}: the sampled coupling at rate = {rate:g} Hz diverges {where}; the largest stable gains are "
        f"{rounded_down(part)} times the given ones; recommended, with half of that, for a margin: "
        f"{rounded_down(0.5 * part)} times; lower them, or raise the rate"
    )


@kernel
def _relative_rotation(tool, device, difference):
    """Fill `difference` (4,) with the quaternion of the rotation from the device to the tool, world axes, w >= 0."""
    x, y, z, w = tool[0], tool[1], tool[2], tool[3]
    a, b, c, d = -device[0], -device[1], -device[2], device[3]
    difference[0] = w * a + x * d + y * c - z * b
    difference[1] = w * b - x * c + y * d + z * a
    difference[2] = w * c + x * b - y * a + z * d
    difference[3] = w * d - x * a - y * b - z * c
    if difference[3] < 0.0:
        for i in range(4):
            difference[i] = -difference[i]


@kernel
def couple(x_device, v_device, x_tool, v_tool, K, B, parts, on_device, on_tool):
    """Fill the wrenches of spring and damper on device and tool (6,), by the equations of the module."""
    q, m, n = parts[0], parts[1], parts[2]
    _relative_rotation(x_tool[3:], x_device[3:], q)
    eta, along = q[3], 0.0
    for i in range(3):
        force = m[i] = n[i] = 0.0
        for j in range(3):
            p = x_tool[j] - x_device[j]
            force += K[i, j] * p + K[i, 3 + j] * (2.0 * eta * q[j])
            n[i] += K[3 + i, j] * p
            m[i] += K[3 + i, 3 + j] * (2.0 * q[j])
        on_device[i] = force
        on_tool[i] = -force
        along += n[i] * q[i]
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        between = eta * m[i] + eta * eta * n[i] - along * q[i]
        crossed = q[j] * m[k] - q[k] * m[j] + eta * (q[j] * n[k] - q[k] * n[j])
        on_device[3 + i] = between - crossed
        on_tool[3 + i] = -between - crossed
    for i in range(6):
        damper = 0.0
        for j in range(6):
            damper += B[i, j] * (v_tool[j] - v_device[j])
        on_device[i] += damper
        on_tool[i] -= damper
