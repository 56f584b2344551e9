"""The four-channel controller (THESIS figures 4.14b and D.3, appendix D.2), in its general form.

Two force channels carry the operator's wrench to the virtual tool and the environment's wrench to the device; two
position channels couple device and tool by springs, dampers and an integral; and each side may have a controller of its
own. With r and u the differences of pose and twist, tool less device, the wrenches that act besides are

    Fc(k) = K r + z + B u                           z(k) = z(k-1) + Ki r T, within +- integral_limit
    ToolCommand(k)   = S^-1 C3 F_operator(k) - (K1 r + z + (B1 + B_adp) u) - (K_t x_tool + B_t v_tool)
    DeviceCommand(k) = S (C2 F_environment(k) + Fc(k)) - (K_d x_device + B_d v_device)

Both states are those at t_k. In the transfer functions of figure D.3, from velocities to forces,

    C1  = B1 + B_adp + K1/s + Ki/s^2               from the device to the tool      tool_damping, tool_stiffness
    C2, C3                                         force channels                   environment_scale, force_scale
    C4  = -(B + K/s + Ki/s^2)                      from the tool to the device      damping, stiffness, integral
    C_d = -C4 + B_d + K_d/s                        of the device                    local_device_damping, _stiffness
    Cvt = C1 + B_t + K_t/s                         of the tool                      local_tool_damping, _stiffness

Without local controllers, with K1 = K and B1 = B (their defaults) and C2 = C3 = 1 this is (D.6), C1 = Cvt and
C4 = -C_d: the same Fc acts on both sides, so the coupling adds no momentum. (D.6) gives a damping of 35, Table 4.1 one
of 70 (errata 11): the default is Table 4.1. Orientations differ by the logarithm of the rotation between them.

**Adaptive damping** (D.6): B_adp = K_b |F_environment|, up to a limit, with the force for the linear and the torque for
the angular directions, as the last tick had them (errata 11: the absolute value). It is of the tool's side alone, C1
and Cvt. The B_min of (D.6) is tool_damping less damping. Without a limit an impulse, which is a wrench of p / T, would
make the loop diverge.

**Position scaling**: x_device stands for reference + s (x_device - reference), its velocity for s v, and S scales
forces by s: by the principle of virtual work, F_d . v_d = F_t . (s v_d). So `position_scale` alone scales no power.
Orientations and torques are not scaled. The channels have factors of power of their own: the operator's wrench has C3
times the power on the tool that it has on the device, the environment's wrench C2 times on the device what it has on
the tool, and spring and damper K/K1 = B/B1 times. If C2 = 1/C3 = K/K1 = B/B1, and there is neither an integral, which
acts on both alike, nor adaptive damping, all agree: power is scaled by one factor, and what is passive stays so. With
other values a wrench takes from one side more or less than it gives to the other.

**Integral**: it does not grow beyond its limit, rests while the device has rendered no command, and does not grow
further where the device rendered less than commanded in that direction (anti-windup).

The gains must suit the coupled inertias: see `haptic_control.coupled_loop`. The force channels and the operator are not
part of that loop, but for the error of an observed operator's wrench.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import AfterValidator, model_validator

from haptic_control.coupled_loop import coupling_problem
from haptic_control.operator_wrench import OperatorWrench, OperatorWrenchParameters
from haptic_control.parameters import ControllerParameters, KnownDevice
from haptic_control.stability import CoupledInertias, Search, largest
from haptic_sim.hand.rendering import pose_difference
from haptic_sim.kernels import bind, kernel
from haptic_sim.messages import FORCE, DeviceCommand, DeviceState, ToolCommand, ToolSizes, ToolState, time_between
from haptic_sim.packed import Packed
from haptic_sim.parameters import Gains, quantity, six
from haptic_sim.records import allocate, array, record, value
from haptic_sim.spatial import rotation_difference

_IDENTITY = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def _pose(values: tuple[float, ...]) -> tuple[float, ...]:
    if not abs(sum(value**2 for value in values[3:]) - 1.0) < 1e-6:
        raise ValueError("[3:7]: the quaternion must have length 1")
    return values


Pose = Annotated[tuple[float, float, float, float, float, float, float], AfterValidator(_pose)]


def force_scale_quantity() -> Any:
    """The key `force_scale` of every controller that passes the operator's wrench on."""
    return quantity(1.0, description="Factor of the operator's wrench on the virtual tool", live=True, ge=0.0, le=100.0)


class FourChannelParameters(OperatorWrenchParameters):
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
    force_scale: float = force_scale_quantity()
    environment_scale: float = quantity(
        1.0, description="Factor of the environment's wrench on the device", live=True, ge=0.0, le=100.0
    )
    tool_stiffness: Gains | None = quantity(
        None,
        unit="N/m, N m/rad",
        description="Stiffness of the position channel to the tool; null: as stiffness",
        live=True,
    )
    tool_damping: Gains | None = quantity(
        None,
        unit="N s/m, N m s/rad",
        description="Damping of the position channel to the tool; null: as damping",
        live=True,
    )
    integral: Gains = quantity(
        (0.0, 0.0, 0.0),
        unit="N/(m s), N m/(rad s)",
        description="Wrench of the position channels for the integral of the difference of poses",
        live=True,
    )
    integral_limit: Gains | None = quantity(
        None,
        unit="N, N m",
        description="Largest wrench of the integral, which prevents wind-up; required where integral is not 0",
        live=True,
    )
    contact_damping: Gains = quantity(
        (0.0, 0.0, 0.0),
        unit="s/m, s/rad",
        description="Adaptive damping of the tool per size of the environment's force, or torque",
        live=True,
    )
    contact_damping_limit: Gains | None = quantity(
        None,
        unit="N s/m, N m s/rad",
        description="Largest adaptive damping; required where contact_damping is not 0",
        live=True,
    )
    local_device_stiffness: Gains = quantity(
        (0.0, 0.0, 0.0),
        unit="N/m, N m/rad",
        description="Stiffness between the device and the reference",
        live=True,
    )
    local_device_damping: Gains = quantity(
        (0.0, 0.0, 0.0), unit="N s/m, N m s/rad", description="Damping of the device against the ground", live=True
    )
    local_tool_stiffness: Gains = quantity(
        (0.0, 0.0, 0.0), unit="N/m, N m/rad", description="Stiffness between the tool and the reference", live=True
    )
    local_tool_damping: Gains = quantity(
        (0.0, 0.0, 0.0), unit="N s/m, N m s/rad", description="Damping of the tool against the ground", live=True
    )
    position_scale: float = quantity(
        1.0,
        description="Displacement of the tool from the reference for that of the device, which scales forces too",
        ge=1e-3,
        le=1e3,
    )
    reference: Pose | None = quantity(
        None,
        unit="m",
        description="Pose about whose position displacements are scaled, and in which springs to the reference are at "
        "rest, quaternion x y z w; null: that of the tool's hand at the start",
    )

    @model_validator(mode="after")
    def _limits_are_given(self) -> FourChannelParameters:
        for gain, limit in (("integral", "integral_limit"), ("contact_damping", "contact_damping_limit")):
            if any(getattr(self, gain)) and getattr(self, limit) is None:
                raise ValueError(f".{limit} = null: {gain} is not 0; give its limit")
        return self

    @property
    def scale(self) -> np.ndarray:
        """The diagonal of S (6,)."""
        return np.array([*(3 * [self.position_scale]), 1.0, 1.0, 1.0])

    @property
    def needs_reference(self) -> bool:
        """Whether the controller uses the reference."""
        return self.position_scale != 1.0 or any(self.local_device_stiffness) or any(self.local_tool_stiffness)

    GAINS: ClassVar[tuple[str, ...]] = ("stiffness", "damping")

    def build(self, rate: float) -> FourChannel:
        """The controller, at the servo rate [Hz]."""
        return FourChannel(self, rate)

    def completed(self, device: KnownDevice, pose: tuple[float, ...]) -> ControllerParameters:
        """Copy with the omitted keys that depend on the device, or on the pose of the tool's hand (7,)."""
        completed = super().completed(device, pose)
        if self.needs_reference and self.reference is None:
            return completed.model_copy(update={"reference": pose})
        return completed

    def loop_problem(self, inertias: CoupledInertias, rate: float, search: Search = largest) -> str:
        """Check the loop with a known device inertia; see `stability_problem`; `search` finds stable gains."""
        return coupling_problem(self, inertias, rate, search)


def as_four_channel(parameters: Any) -> FourChannelParameters:
    """The parameters of any controller with a spring and a damper as those of the general form."""
    if isinstance(parameters, FourChannelParameters):
        return parameters
    names = ("stiffness", "damping", "force_scale", *OperatorWrenchParameters.model_fields)
    return FourChannelParameters.model_construct(**{name: getattr(parameters, name) for name in names})


@record
class FourChannelArrays(NamedTuple):
    """Gains, and what is kept from the state at t_k until the tool has answered, for kernels."""

    stiffness: np.ndarray = array("K", 6, unit="N/m, N m/rad")
    damping: np.ndarray = array("B", 6, unit="N s/m, N m s/rad")
    tool_stiffness: np.ndarray = array("K1", 6, unit="N/m, N m/rad")
    tool_damping: np.ndarray = array("B1", 6, unit="N s/m, N m s/rad")
    integral: np.ndarray = array("Ki", 6, unit="N/(m s), N m/(rad s)")
    integral_limit: np.ndarray = array("largest z", 6, unit="N, N m")
    contact_damping: np.ndarray = array("K_b", 6, unit="s/m, s/rad")
    contact_damping_limit: np.ndarray = array("largest B_adp", 6, unit="N s/m, N m s/rad")
    device_stiffness: np.ndarray = array("K_d", 6, unit="N/m, N m/rad")
    device_damping: np.ndarray = array("B_d", 6, unit="N s/m, N m s/rad")
    to_ground: np.ndarray = array("K_t and B_t of the tool", 2, 6, unit="N/m, N m/rad, N s/m, N m s/rad")
    reference: np.ndarray = array("pose about which positions are scaled, and at which local springs rest", 7, unit="m")
    operator_scale: np.ndarray = array("C3 S^-1", 6)
    device_scale: np.ndarray = array("S: of positions to the tool, of forces to the device", 6)
    environment_scale: float = value("C2")
    scaled: bool = value("whether positions are scaled")
    tool_gains: bool = value("whether K1, B1 are not K, B")
    local: bool = value("whether there are local controllers")
    z: np.ndarray = array("wrench of the integral", 6, unit="N, N m")
    coordination: np.ndarray = array("wrench Fc of the tool on the device", 6, unit="N, N m")
    on_device: np.ndarray = array("wrench of the device's local controller on it", 6, unit="N, N m")
    difference: np.ndarray = array("pose less the reference", 6, unit="m, rad")
    commanded: np.ndarray = array("last wrench that the device was commanded", 6, unit="N, N m")
    commanded_tick: np.ndarray = array("tick of the command", 1, dtype=np.int64, fill=-1)
    tick: np.ndarray = array("tick of the device's last state", 1, dtype=np.int64, fill=-1)
    sec: np.ndarray = array("stamp of that state", 1, unit="s", dtype=np.int32)
    nanosec: np.ndarray = array("the rest of it", 1, unit="ns", dtype=np.uint32)


class FourChannel:
    """Couples device and tool; `coordinate` before the tool moves, `command` after it has answered.

    Args:
        parameters: its gains, or those of a spring and a damper alone.
        rate: of the servo [Hz].
    """

    def __init__(self, parameters: Any, rate: float):
        scalars = dict.fromkeys(("environment_scale", "scaled", "tool_gains", "local"))  # see `configure`
        self._channels = allocate(FourChannelArrays, **scalars)
        self._coordination = self._channels.coordination
        self._operator = OperatorWrench(parameters, rate)
        self._rate = rate
        self._coordinate: Callable[..., object] | None = None  # compiled for the messages that come
        self._answer: Callable[..., object] | None = None
        self.configure(parameters)

    @property
    def remembers(self) -> bool:
        """Whether what it commands depends on more than the states that it is given."""
        return self._operator.remembers or bool(self._channels.integral.any())

    @property
    def passed(self) -> np.ndarray:
        """Operator's wrench within the last tool command (6,) [N, N m]; the rest couples tool and device."""
        return self._channels.operator_scale * self._operator_wrench

    def configure(self, parameters: Any) -> None:
        """Take new gains, from the next tick on; the wrench of the integral does not jump with its gain."""
        self.parameters = parameters
        self._operator.configure(parameters)
        p, a = as_four_channel(parameters), self._channels
        scale = p.scale
        for array_, values in (
            (a.stiffness, p.stiffness),
            (a.damping, p.damping),
            (a.tool_stiffness, p.tool_stiffness or p.stiffness),
            (a.tool_damping, p.tool_damping or p.damping),
            (a.integral, p.integral),
            (a.integral_limit, p.integral_limit or (0.0,) * 6),
            (a.contact_damping, p.contact_damping),
            (a.contact_damping_limit, p.contact_damping_limit or (0.0,) * 6),
            (a.device_stiffness, p.local_device_stiffness),
            (a.device_damping, p.local_device_damping),
            (a.to_ground[0], p.local_tool_stiffness),
            (a.to_ground[1], p.local_tool_damping),
        ):
            array_[:] = six(values)
        a.z[a.integral == 0.0] = 0.0
        self._integrates = bool(a.integral.any())
        a.reference[:] = p.reference or _IDENTITY
        a.device_scale[:], a.operator_scale[:] = scale, p.force_scale / scale
        self._packed_channels = Packed(
            a._replace(
                environment_scale=p.environment_scale,
                scaled=p.position_scale != 1.0,
                tool_gains=p.tool_stiffness is not None or p.tool_damping is not None,
                local=bool(a.device_stiffness.any() or a.device_damping.any() or a.to_ground.any()),
            )
        )

    def warm_up(self, sizes: ToolSizes) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""
        tool = sizes.tool_state()
        self.coordinate(DeviceState(), tool, ToolCommand())
        self.command(tool, DeviceCommand())

    def coordinate(self, device: DeviceState, tool: ToolState, command: ToolCommand) -> None:
        """Fill the tool's command of the device's tick from both states at t_k."""
        elapsed = 0.0
        if self._integrates and device.command_tick >= 0:
            elapsed = 1e-9 * time_between(max(int(self._channels.tick[0]), 0), device.tick, self._rate)
        self._operator_wrench = self._operator.at(device)
        given = self._packed_channels, device.packed, self._operator_wrench, tool.packed, elapsed, command.packed
        if self._coordinate is None:
            self._coordinate = bind(_coordinate, *given)
        self._coordinate(*given)

    def command(self, tool: ToolState, command: DeviceCommand) -> None:
        """Fill the device's command of the tick that the tool has answered, with the same coordination wrench."""
        if self._answer is None:
            self._answer = bind(_answer, self._packed_channels, tool.packed, command.packed)
        self._answer(self._packed_channels, tool.packed, command.packed)


@kernel
def _coordinate(packed, device, operator, tool, elapsed, command):
    """Fill the tool's command, and the wrenches that act on the device besides the environment's.

    Args:
        packed: the channels; device: the DeviceState; tool: the ToolState; command: the ToolCommand; all packed.
        operator: wrench of the operator.
        elapsed: since the last tick, for the integral; 0 if it rests [s].
    """
    a, device, tool, filled = packed.arrays, device.arrays, tool.arrays, command.arrays
    tick, sec, nanosec = device.tick[0], device.sec[0], device.nanosec[0]
    a.tick[0] = filled.tick[0] = tick
    a.sec[0], a.nanosec[0] = filled.sec[0], filled.nanosec[0] = sec, nanosec
    filled.tool_tick[0] = tool.tick[0]
    follows = device.command_tick[0] == a.commanded_tick[0]  # what was rendered and commanded can be compared
    x_device, v_device, rendered = device.pose, device.twist, device.rendered_wrench
    x_tool, v_tool, environment, command = tool.pose, tool.twist, tool.wrench, filled.wrench
    rotation = command[3:]  # as a place for the orientation difference
    rotation_difference(x_tool[3:], x_device[3:], rotation)
    force = math.sqrt(environment[0] ** 2 + environment[1] ** 2 + environment[2] ** 2)
    torque = math.sqrt(environment[3] ** 2 + environment[4] ** 2 + environment[5] ** 2)
    for i in range(6):
        x = x_device[i] if i < 3 else 0.0
        v = v_device[i]
        if a.scaled and i < 3:
            x = a.reference[i] + a.device_scale[i] * (x - a.reference[i])
            v *= a.device_scale[i]
        r = x_tool[i] - x if i < 3 else rotation[i - 3]
        u = v_tool[i] - v
        wrench = a.stiffness[i] * r + a.damping[i] * u
        on_tool = a.tool_stiffness[i] * r + a.tool_damping[i] * u if a.tool_gains else wrench
        if a.integral[i] > 0.0:
            more = a.integral[i] * r * elapsed
            short = a.commanded[i] - rendered[i] if follows else 0.0
            if not short * more > 0.0:
                a.z[i] = min(max(a.z[i] + more, -a.integral_limit[i]), a.integral_limit[i])
            wrench += a.z[i]
            on_tool += a.z[i]
        if a.contact_damping[i] > 0.0:
            adaptive = a.contact_damping[i] * (force if i < 3 else torque)
            on_tool += min(adaptive, a.contact_damping_limit[i]) * u
        a.coordination[i] = wrench
        command[i] = a.operator_scale[i] * operator[i] - on_tool
    if a.local:
        _to_ground(x_tool, v_tool, a.reference, a.to_ground[0], a.to_ground[1], a.difference, a.on_device)
        for i in range(6):
            command[i] += a.on_device[i]
        _to_ground(x_device, v_device, a.reference, a.device_stiffness, a.device_damping, a.difference, a.on_device)


@kernel
def _to_ground(x, v, reference, stiffness, damping, difference, wrench):
    """Fill `wrench` (6,) with that of a spring to the reference and a damper to the ground."""
    pose_difference(x, reference, difference)
    for i in range(6):
        wrench[i] = -stiffness[i] * difference[i] - damping[i] * v[i]


@kernel
def _answer(packed, tool, command):
    """Fill the device's command from the environment's wrench of the tick; it has the stamp of the device's state."""
    a, tool, filled = packed.arrays, tool.arrays, command.arrays
    environment, command = tool.wrench, filled.wrench
    a.commanded_tick[0] = filled.tick[0] = tool.tick[0]
    filled.sec[0], filled.nanosec[0], filled.device_tick[0] = a.sec[0], a.nanosec[0], a.tick[0]
    filled.mode[0] = FORCE
    for i in range(6):
        wrench = a.environment_scale * environment[i] + a.coordination[i]
        if a.scaled:
            wrench *= a.device_scale[i]
        if a.local:
            wrench += a.on_device[i]
        command[i] = a.commanded[i] = wrench
