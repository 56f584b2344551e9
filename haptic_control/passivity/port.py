"""The port between hand and device: whether a device that a controller connects to a world is passive there.

The controller is linear near rest: it gives the wrench on the tool and that of the device from the states of both, the
hand's wrench F and the world's wrench E on the tool. Its matrices are found from the controller itself, by moving one
input at a time, so that each kind of controller is analysed by what it does. With the tool, a mass of the inverse
inertia W at the hand that is integrated by a method of BROWN Table 1, in one of three worlds,

    free: E = 0,    contact: E = -K_c r_t - B_c v_t (springs of penalties),    rigid: E = -(the wrench on the tool),

and V = dx/T, the mean velocity of the device over a tick, the wrench of the device is H V + G F, and

    F = Z V,   Z = (1 + G)^-1 (Z_d - H).

The device is passive if what closes the loop is stable and the Hermitian part of Z has no negative eigenvalue at any
frequency: then no hand whose force is held over a tick gets energy from it.

Z_d = D for a controller that does not use the hand's force, and passes on no force of the world: the device is reduced
to its damping D, whatever its mass. The condition is then BROWN (8) with matrices, which holds for every hand. Where
forces are passed on, the motion depends on the mass of the device, which Z_d then has (`held_motion`). V and F are in
the directions with a motor, with the others held.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np

from haptic_control.stability import TOLERANCE
from haptic_sim.dynamics.held_motion import held_motion
from haptic_sim.messages import FREE, RESTING, DeviceCommand, DeviceState, ToolCommand, ToolSizes, ToolState

World = Literal["free", "contact", "rigid"]
_STEP = 1e-6  # of an input that is moved [m, rad, m/s, rad/s, N, N m]: products of rotations are beyond rounding
_ROUNDING = 1e-9  # of a number that counts as zero, relative to the largest
_FREQUENCIES = np.concatenate([np.geomspace(1e-4, 0.03, 40), np.linspace(0.03, math.pi * (1.0 - 1e-6), 400)])
_BESIDE = np.concatenate([-np.geomspace(1e-5, 0.1, 16), np.geomspace(1e-5, 0.1, 16)])  # a pole, never at it [rad]


class Coupler(Protocol):
    """A controller, as far as it is analysed."""

    def coordinate(self, device: DeviceState, tool: ToolState, command: ToolCommand) -> None: ...

    def command(self, tool: ToolState, command: DeviceCommand) -> None: ...


class Connection(NamedTuple):
    """A controller near rest, in n directions.

    Attributes:
        tool: wrench on the tool (5, n, n), by pose and twist of the device, F, pose and twist of the tool.
        device: wrench of the device (6, n, n), by the same, and E.
    """

    tool: np.ndarray
    device: np.ndarray

    @property
    def passes_forces(self) -> bool:
        """Whether a force is passed on, of the hand to the tool or of the world to the device."""
        size = max(float(np.abs(self.tool).max(initial=1.0)), 1.0)
        return bool(max(np.abs(self.tool[2]).max(), np.abs(self.device[5]).max()) > _ROUNDING * size)


class Device(NamedTuple):
    """A device in n directions.

    Attributes:
        inertia: [kg, kg m^2] (n,).
        damping: [N s/m, N m s/rad] (n,).
        driven: projection of a wrench onto the directions with a motor (n, n), which mixes only directions of the same
            inertia and damping; None: all. In the others the hand moves the device alone, and is taken to hold it.
    """

    inertia: np.ndarray
    damping: np.ndarray
    driven: np.ndarray | None = None

    @property
    def basis(self) -> np.ndarray:
        """Orthonormal vectors (n, m) of the directions with a motor."""
        if self.driven is None:
            return np.eye(len(self.inertia))
        values, vectors = np.linalg.eigh(self.driven)
        return vectors[:, values > _ROUNDING]


class Port(NamedTuple):
    """Result of `analyse_port`.

    Attributes:
        passive: whether the device is passive at the hand.
        direction: in which it is least so, of the n directions; None if it is.
        theta: frequency omega T at which [rad].
        stable: whether the loop is.
    """

    passive: bool
    direction: int | None
    theta: float
    stable: bool


def connection_of(controller: Coupler, axes: np.ndarray, world: World, mobility: Sequence[float]) -> Connection:
    """The matrices of a controller near rest.

    What a controller remembers from tick to tick (integrals, filters) is not in them.

    Args:
        controller: after which it has to be built anew.
        axes: directions, of the six of a wrench.
        world: the tool touches something unless it is free.
        mobility: inverse inertia of the tool at the hand (36,).
    """
    n = axes.size
    device, tool = DeviceState(), ToolSizes(6, 6, 0).tool_state()
    device.pose[6] = tool.pose[6] = 1.0
    tool.inverse_inertia[:] = mobility
    tool.contact_state = FREE if world == "free" else RESTING
    states = (device.pose, device.twist, device.operator_wrench, tool.pose, tool.twist, tool.wrench)
    tool_command, device_command = ToolCommand(), DeviceCommand()

    def wrenches(which: int, axis: int, size: float) -> tuple[np.ndarray, np.ndarray]:
        state = states[which]
        at_rest = state.copy()
        turned = which in (0, 3) and axis >= 3
        state[axis] = math.sin(0.5 * size) if turned else size
        if turned:
            state[6] = math.cos(0.5 * size)
        controller.coordinate(device, tool, tool_command)
        controller.command(tool, device_command)
        state[:] = at_rest
        return tool_command.wrench[axes].copy(), device_command.wrench[axes].copy()

    found = np.zeros((2, 6, n, n))
    for which in range(6):
        for j, axis in enumerate(axes.tolist()):
            more, less = (wrenches(which, axis, size) for size in (_STEP, -_STEP))
            for k in range(2):
                found[k, which, :, j] = (more[k] - less[k]) / (2.0 * _STEP)
    return Connection(found[0, :5], found[1])


def analyse_port(
    connection: Connection,
    world: World,
    W: np.ndarray,
    device: Device,
    contact: tuple[np.ndarray, np.ndarray],
    period: float,
    integrator: int = 2,
) -> Port:
    """Whether a device is passive at the hand.

    Args:
        connection: in n directions, of the same world.
        world: what the tool touches.
        W: inverse inertia of the tool at the hand (n, n).
        device: see `Device`.
        contact: stiffness and damping of a penalty contact in each direction (n,) [N/m, N s/m].
        period: T [s].
        integrator: of the tool, a method of BROWN Table 1; with 1 and 3 its twist is the backward difference of its
            pose (`EnvironmentParameters.integrator`).
    """
    n, T, U = len(W), period, device.basis
    if not U.shape[1]:
        return Port(True, None, 0.0, True)
    massless = not connection.passes_forces
    motion = np.array(
        [held_motion(m, b, T) for m, b in zip(*device[:2], strict=True)]
    ).T  # v' = a v + b F, dx = c v + d F
    a, b, c, d = (np.zeros((4, n)) if massless else motion).reshape(4, n)
    A, B, H = _open_loop(connection, world, W, contact, T, integrator)
    rows = slice(n, 2 * n)  # the device's twist: V of the tick before, or as its mass makes it
    if massless:
        B[rows, :n] = np.eye(n)
        closed = A[2 * n :, 2 * n :]  # with the device held
    else:
        A[rows, rows] = np.diag(a - b * c / d)
        B[rows, :n] = np.diag(b / d * T)
        closed = _closed_loop(A, U @ U.T @ H, (a, b, c, d), n)
    stable = bool(np.abs(np.linalg.eigvals(closed)).max(initial=0.0) <= 1.0 + TOLERANCE)
    angles = np.abs(np.angle(np.linalg.eigvals(A)))
    theta = np.unique(np.concatenate([_FREQUENCIES, (angles[:, None] + _BESIDE).ravel()]))
    theta = theta[(theta >= _FREQUENCIES[0]) & (theta <= _FREQUENCIES[-1])]
    z = np.exp(1j * theta)[:, None, None]
    states = np.linalg.solve(z * np.eye(5 * n) - A, np.broadcast_to(B, (theta.size, *B.shape)))
    wrench = H[:, : 5 * n] @ states
    wrench[:, :, n:] += H[:, 5 * n :]
    if massless:
        found = U.T @ (np.diag(device.damping) - wrench[:, :, :n]) @ U  # Z
    else:
        own = np.diag(T / d) - np.diag(c / d) @ states[:, rows, :n]
        found = np.linalg.solve(U.T @ (own - wrench[:, :, :n]) @ U, U.T @ (np.eye(n) + wrench[:, :, n:]) @ U)  # 1 / Z
    eigenvalues, vectors = np.linalg.eigh(found + found.conj().swapaxes(1, 2))
    least = eigenvalues[:, 0]
    allowed = _ROUNDING * np.abs(found).max(axis=(1, 2))
    worst = int(np.argmin(least + allowed))
    passive = stable and bool(np.all(least >= -allowed))
    direction = None if passive else int(np.argmax(np.abs(U @ vectors[worst, :, 0])))
    return Port(passive, direction, float(theta[worst]), stable)


def _open_loop(
    connection: Connection,
    world: World,
    W: np.ndarray,
    contact: tuple[np.ndarray, np.ndarray],
    period: float,
    integrator: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tool and controller from (V, F) to the device's wrench: x' = A x + B u, wrench = H (x, F).

    The states are pose and twist of the device, pose, velocity and twist of the tool; the rows of the device's twist
    are still open.
    """
    n, T, tool, device = len(W), period, connection.tool, connection.device
    none = np.zeros((n, n))
    on_tool = np.hstack([tool[0], tool[1], tool[3], none, tool[4], tool[2]])  # of states and F
    on_device = np.hstack([device[0], device[1], device[3], none, device[4], device[2]])
    pose, velocity, twist, E = (np.zeros((n, 6 * n)) for _ in range(4))  # the first three after the tick
    if world == "rigid":
        E = -on_tool
    else:
        if world == "contact":
            E[:, 2 * n : 4 * n] = np.hstack([np.diag(-contact[0]), np.diag(-contact[1])])
        before = np.zeros((n, 6 * n))
        before[:, 3 * n : 4 * n] = np.eye(n)
        velocity = before + T * W @ (on_tool + E)
        new = {1: 0.0, 2: 1.0, 3: 0.5}[integrator]  # part of the velocity after, of the one that moves the tool
        twist = new * velocity + (1.0 - new) * before
        pose = T * twist
        pose[:, 2 * n : 3 * n] += np.eye(n)
    A, B = np.zeros((5 * n, 5 * n)), np.zeros((5 * n, 2 * n))
    A[:n, :n], B[:n, :n] = np.eye(n), T * np.eye(n)
    for i, rows in ((2, pose), (3, velocity), (4, twist)):
        A[i * n : (i + 1) * n], B[i * n : (i + 1) * n, n:] = rows[:, : 5 * n], rows[:, 5 * n :]
    return A, B, on_device + device[5] @ E


def _closed_loop(A: np.ndarray, H: np.ndarray, motion: tuple[np.ndarray, ...], n: int) -> np.ndarray:
    """The states from tick to tick without a hand: the device moves by its own wrench."""
    a, b, c, d = motion
    loop = A.copy()
    loop[:n] = np.diag(d) @ H[:, : 5 * n]
    loop[:n, :n] += np.eye(n)
    loop[:n, n : 2 * n] += np.diag(c)
    loop[n : 2 * n] = np.diag(b) @ H[:, : 5 * n]
    loop[n : 2 * n, n : 2 * n] += np.diag(a)
    return loop
