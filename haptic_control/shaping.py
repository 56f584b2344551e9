"""Impedance shaping: the device accelerates as the hand of the virtual tool does (THESIS 5.3, 5.4).

    Fc(k) = K (x_tool - x_device) + B (v_tool - v_device)      of the tool on the device
    ToolCommand(k) = s F_operator(k) - Fc(k)
    a(k) = J D^-1 J^T (F_operator(k) + Fenv(k) + Fc(k) - b_d v_device - k_d (x_device - x_rest)) [+ drift] + topology
    DeviceCommand(k) = M_d a(k) + C_d v_device - F_operator(k)

This is (5.14), (5.15), (5.21) to (5.24), derived and corrected in `haptic_sim.hand.rendering`. J D^-1 J^T, the drift
dJ/dt v - J D^-1 B and the directions of topological constraint are those of the tool at t_k; Fenv is that of the tick.
The other controllers leave the device's own inertia to the hand; here M_d and C_d have to be known.
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

import numpy as np

from haptic_control.coupled_loop import spring_problem
from haptic_control.device_model import DeviceModel, evaluate_device
from haptic_control.four_channel import FourChannel, Pose, force_scale_quantity
from haptic_control.operator_wrench import OperatorWrenchParameters
from haptic_control.stability import (
    LIMIT,
    OBSERVER_PROBLEM,
    CoupledInertias,
    Search,
    diverges,
    largest,
    linear_map,
    rounded_down,
    settings,
    spring_loop,
)
from haptic_sim.hand.rendering import add_topology, hand_acceleration, shaping_wrench, total_wrench
from haptic_sim.kernels import kernel
from haptic_sim.messages import DeviceCommand, DeviceState, ToolCommand, ToolState
from haptic_sim.packed import Packed
from haptic_sim.parameters import Gains, quantity, six
from haptic_sim.records import allocate, array, record, shared, value

_LENGTH = 1.0  # [m] in which the directions of a ToolState measure torques


class ShapingParameters(OperatorWrenchParameters):
    """Coordination, desired impedance and topology, and the device's own inertia."""

    NEEDS_DEVICE: ClassVar[bool] = True

    type: Literal["impedance_shaping"] = "impedance_shaping"
    stiffness: Gains = quantity(
        (100.0, 100.0, 0.5), unit="N/m, N m/rad", description="Stiffness of the coordination", live=True
    )
    damping: Gains = quantity(
        (70.0, 70.0, 0.375), unit="N s/m, N m s/rad", description="Damping of the coordination", live=True
    )
    force_scale: float = force_scale_quantity()
    dynamics: Literal["consistent", "printed"] = quantity(
        "consistent",
        description="consistent: the device accelerates as the tool's hand does under the same wrench; printed: THESIS "
        "(5.15), without the terms of velocity and gravity",
        live=True,
    )
    topology_penalty: bool = quantity(
        True, description="Whether a spring and a damper act in directions of topological constraint", live=True
    )
    topology_stiffness: float = quantity(
        10.0,
        unit="1/s^2",
        description="Stiffness of the topology penalties, for a device of unit inertia",
        live=True,
        ge=0.0,
        le=1e6,
    )
    topology_damping: float = quantity(
        7.0,
        unit="1/s",
        description="Damping of the topology penalties, for a device of unit inertia",
        live=True,
        ge=0.0,
        le=1e4,
    )
    desired_stiffness: Gains = quantity(
        (0.0, 0.0, 0.0),
        unit="N/m, N m/rad",
        description="Desired stiffness k_d between the device and its pose of rest",
        live=True,
    )
    desired_damping: Gains = quantity(
        (0.0, 0.0, 0.0),
        unit="N s/m, N m s/rad",
        description="Desired damping b_d between the device and the ground",
        live=True,
    )
    rest: Pose = quantity(
        (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
        unit="m",
        description="Pose of rest of the device, at which the desired stiffness exerts no wrench; quaternion x y z w",
    )

    @property
    def needs_device(self) -> bool:
        """Whether the controller uses the inertia of the device."""
        return True

    @property
    def compensates(self) -> bool:
        """Whether `device_damping` is compensated for, instead of known to an observer."""
        return True

    GAINS: ClassVar[tuple[str, ...]] = ("stiffness", "damping")

    def build(self, rate: float) -> ImpedanceShaping:
        """The controller, at the servo rate [Hz]."""
        return ImpedanceShaping(self, rate)

    def loop_problem(self, inertias: CoupledInertias, rate: float, search: Search = largest) -> str:
        """Check the loop with a known device inertia; see `stability_problem`; `search` finds stable gains."""
        return shaping_problem(self, inertias, rate, search)


@record
class ShapingArrays(NamedTuple):
    """Gains, and what is kept from the state at t_k until the tool has answered, for kernels."""

    damping: np.ndarray = array("b_d", 6, unit="N s/m, N m s/rad")
    stiffness: np.ndarray = array("k_d", 6, unit="N/m, N m/rad")
    rest: np.ndarray = array("pose at which k_d is at rest", 7, unit="m")
    model: DeviceModel = value("M_d and C_d of the device")
    consistent: bool = value("whether terms of velocity and gravity count")
    topology_stiffness: float = value("stiffness of the topology penalties", unit="1/s^2")
    topology_damping: float = value("damping of the topology penalties", unit="1/s")
    coordination: np.ndarray = shared("wrench Fc of the tool on the device", 6, unit="N, N m")
    mobility: np.ndarray = array("J D^-1 J^T of the tool, row major", 36)
    operator: np.ndarray = array("operator's wrench F_h", 6, unit="N, N m")
    wrench: np.ndarray = array("total wrench but for the environment's", 6, unit="N, N m")
    none: np.ndarray = array("zero: the environment's wrench before it is known", 6, unit="N, N m")
    before: np.ndarray = array("acceleration of the device without the environment's wrench", 6)
    acceleration: np.ndarray = array("acceleration of the device", 6, unit="m/s^2, rad/s^2")


class ImpedanceShaping(FourChannel):
    """A controller that lets the device accelerate as the hand of the virtual tool does."""

    parameters: ShapingParameters

    def __init__(self, parameters: ShapingParameters, rate: float):
        scalars = dict.fromkeys(("consistent", "topology_stiffness", "topology_damping"))  # see `configure`
        model = DeviceModel.of(parameters, moves=False)
        self._arrays = allocate(ShapingArrays, coordination=np.zeros(6), model=model, **scalars)
        super().__init__(parameters, rate)

    def configure(self, parameters: ShapingParameters) -> None:
        """Take new gains, from the next tick on; the wrench of the integral does not jump with its gain."""
        super().configure(parameters)
        a = self._arrays
        a.model.fill(parameters)
        a.damping[:], a.stiffness[:] = six(parameters.desired_damping), six(parameters.desired_stiffness)
        a.rest[:] = parameters.rest
        self._packed = Packed(
            a._replace(
                coordination=self._coordination,
                consistent=parameters.dynamics == "consistent",
                topology_stiffness=parameters.topology_stiffness,
                topology_damping=parameters.topology_damping,
            )
        )

    def coordinate(self, device: DeviceState, tool: ToolState, command: ToolCommand) -> None:
        """Fill the tool's command of the device's tick from both states at t_k."""
        super().coordinate(device, tool, command)
        _accelerate(
            self._packed,
            device.pose,
            device.twist,
            self._operator_wrench,
            tool.pose,
            tool.twist,
            tool.inverse_inertia,
            tool.free_acceleration,
            tool.constraint_directions,
            len(tool) // 6 if self.parameters.topology_penalty else 0,
        )

    def command(self, tool: ToolState, command: DeviceCommand) -> None:
        """Fill the device's command of the tick that the tool has answered, with the same coordination wrench."""
        super().command(tool, command)
        _shape(self._packed, tool.wrench, command.wrench)


def shaping_problem(
    parameters: ShapingParameters, inertias: CoupledInertias, rate: float, search: Search = largest
) -> str:
    """Reason why the loop of these inertias diverges at `rate` [Hz], with stable gains; empty if it does not.

    With Z = M_d / (inertia of the device), 1 where the device is known, the coordination wrench moves the tool by W_t
    and the device by Z W_t; so (1 + Z) W_t is in place of A in `haptic_control.stability`. The desired impedance moves
    the device by -Z W_t (b_d v + k_d x), and C_d v pushes it, which cancels the damping where the device has it.
    The penalties of topology form a loop of their own, in the directions in which W_t is zero: a spring and a damper
    of Z k and Z b, which must not diverge wherever a direction is blocked.
    """
    T, axes, W, ours = 1.0 / rate, inertias.axes, inertias.of_tool(), inertias.of_device()
    Z = ours @ parameters.inertia()[np.ix_(axes, axes)]
    k, b, C = (
        np.array(six(gains))[axes]
        for gains in (parameters.desired_stiffness, parameters.desired_damping, parameters.device_damping)
    )
    if inertias.damping is not None:
        C = C - inertias.per_axis(inertias.damping)  # compensation of damping that is present is stable
    ZW = Z @ W

    def loop(K: np.ndarray, B: np.ndarray, part: float = 0.0, pushed: bool = False) -> np.ndarray:
        """Loop of the difference of poses; with `part` of the desired impedance or if `pushed`, also of the device."""
        if not (part * (k.any() or b.any()) or pushed):
            return spring_loop((W + ZW) * K, (W + ZW) * B, T)
        spring, damper = part * ZW * k, part * ZW * b - pushed * ours * C
        return spring_loop(
            np.block([[(W + ZW) * K, -spring], [-ZW * K, spring]]),
            np.block([[(W + ZW) * B, -damper], [-ZW * B, damper]]),
            T,
        )

    stiffness, damping = parameters.topology_stiffness, parameters.topology_damping
    share = LIMIT / max(float(np.linalg.norm(Z, 2)) * (T**2 * stiffness + 2.0 * T * damping), LIMIT)
    if parameters.topology_penalty and share < 1.0:
        return (
            f"controller.topology_stiffness = {stiffness:g} 1/s^2, controller.topology_damping = {damping:g} 1/s: the "
            f"sampled penalties at rate = {rate:g} Hz diverge wherever the tool blocks a direction; the largest "
            f"stable gains: controller.topology_stiffness={rounded_down(share * stiffness)} "
            f"controller.topology_damping={rounded_down(share * damping)}; lower them, or raise the rate"
        )
    K, B = (np.array(six(gains))[axes] for gains in (parameters.stiffness, parameters.damping))
    if C.max() > 0.0 and diverges(loop(K, B, 1.0, True)) and not diverges(loop(K, B, 1.0)):
        are, _ = settings(("device_damping",), (parameters.device_damping,), (0.0 * C,), axes)
        return (
            f"{are}: it is made up for, and the simulated device has none, so it would go ever faster; set "
            "controller.device_damping=[0,0,0]"
        )
    if diverges(loop(K, B, 1.0)) and not diverges(loop(K, B)):
        part = search(lambda c: diverges(loop(K, B, c)))
        given = (parameters.desired_stiffness, parameters.desired_damping)
        are, would = settings(("desired_stiffness", "desired_damping"), given, (part * k, part * b), axes)
        return (
            f"{are}: the sampled loop of the desired impedance at rate = {rate:g} Hz diverges; the largest stable "
            f"gains: {would}; lower them, or raise the rate"
        )
    return spring_problem(parameters, inertias, rate, np.diag(W + ZW), loop, search) or _observer_problem(
        parameters, inertias, rate
    )


def _observer_problem(p: ShapingParameters, inertias: CoupledInertias, rate: float) -> str:
    """Whether the error of an observed operator's wrench makes the loop diverge; nothing else does.

    Device and tool feel the estimate, and the device's own command subtracts it.
    """
    if p.operator_wrench != "observed":
        return ""
    T, axes, W, (a, b, d, e) = 1.0 / rate, inertias.axes, inertias.of_tool(), inertias.device_step(1.0 / rate)
    M = p.inertia()[np.ix_(axes, axes)]
    K, B, k_d, b_d, C = (
        np.diag(np.array(six(gains))[axes])
        for gains in (p.stiffness, p.damping, p.desired_stiffness, p.desired_damping, p.device_damping)
    )
    share = 1.0 - np.exp(-p.observer_bandwidth / rate)

    def tick(
        r: np.ndarray, v: np.ndarray, w: np.ndarray, x: np.ndarray, F: np.ndarray, before: np.ndarray, f: np.ndarray
    ) -> tuple[np.ndarray, ...]:  # fmt: skip
        F = F + share * (M @ (w - before) / T + C @ (w + before) / 2.0 - f - F)
        Fc = K @ r + B @ (v - w)
        f = M @ W @ (F + Fc - b_d @ w - k_d @ (x - r)) + C @ w - F
        v_next = v + T * (W @ (p.force_scale * F - Fc))
        return r + T * v_next - d * w - e @ f, v_next, a * w + b @ f, x + T * v_next, F, w, f

    n = axes.size
    kept = np.ones(7 * n, bool)
    kept[3 * n : 4 * n] = bool(k_d.any())
    return OBSERVER_PROBLEM.format(rate=rate) if diverges(linear_map(tick, 7, n)[np.ix_(kept, kept)]) else ""


@kernel
def _accelerate(packed, x_device, v_device, operator, x_tool, v_tool, mobility, drift, directions, count):
    """Find the acceleration but for the environment's part, and keep the rest until its wrench is known."""
    a = packed.arrays
    evaluate_device(a.model, x_device, v_device)
    for i in range(6):
        a.operator[i] = operator[i]
    for i in range(36):
        a.mobility[i] = mobility[i]
    total_wrench(operator, a.none, a.coordination, a.damping, a.stiffness, v_device, x_device, a.rest, a.wrench)
    hand_acceleration(mobility, a.wrench, drift, a.consistent, a.before)
    k, b, difference = a.topology_stiffness, a.topology_damping, a.wrench
    rows = directions.reshape(6, 6)
    add_topology(rows, count, _LENGTH, k, b, x_tool, v_tool, x_device, v_device, difference, a.before)


@kernel
def _shape(packed, environment, command):
    """Fill `command` with what gives the device its acceleration (5.20)."""
    a = packed.arrays
    hand_acceleration(a.mobility, environment, a.before, True, a.acceleration)  # added to that before
    shaping_wrench(a.model.inertia, a.model.coriolis, a.operator, a.acceleration, command)
