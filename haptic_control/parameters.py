"""Controllers as parts: what the parameters of each of them say, and what it builds."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from haptic_control.stability import CoupledInertias, Search, largest, no_search
from haptic_sim.messages import FORCE, DeviceCommand, DeviceState, ToolCommand, ToolSizes, ToolState
from haptic_sim.parameters import quantity
from haptic_sim.parts import Kind, Part


class Controller(Protocol):
    """Couples a device and a virtual tool.

    In each tick `coordinate` is called, then the tool moves, then `command` is called, all in the servo thread. Nothing
    may be allocated there. The same states give the same bits in every mode, so nothing here may know of a clock.

    Attributes:
        remembers: whether what it commands depends on more than the states that it is given; after a gap in a
            recording, that cannot be simulated again.
        passed: may be there: the operator's wrench as the last `coordinate` passed it on to the tool (6,) [N, N m]. In
            realtime what else is on the tool is bounded after a gap of commands (`haptic_control.soft_return`).
    """

    @property
    def remembers(self) -> bool: ...

    def configure(self, parameters: Any) -> None:
        """Take new gains, of the class that built it, from the next tick on."""

    def warm_up(self, sizes: ToolSizes) -> None:
        """Call everything once, so that nothing is compiled or loaded during a trial; it is not used afterwards."""

    def coordinate(self, device: DeviceState, tool: ToolState, command: ToolCommand) -> None:
        """Fill the tool's command of the device's tick from both states at t_k: tick, time, wrench [N, N m]."""

    def command(self, tool: ToolState, command: DeviceCommand) -> None:
        """Fill the device's command of the tick that the tool has answered."""


class KnownDevice(NamedTuple):
    """Properties of a device that a controller knows.

    Attributes:
        type: of the device.
        mass, inertia: that it shows to who commands it [kg], [kg m^2]; None: it has none, or it is not known.
        states_inertia: whether mass and inertia are what it moves with.
        damping: of a simulated device [N s/m], [N m s/rad]; None: it has none, or it is not known.
        linkage: numbers of a twin pantograph, where it is one.
    """

    type: str
    mass: float | None = None
    inertia: float | None = None
    states_inertia: bool = False
    damping: tuple[float, float] | None = None
    linkage: tuple[float, ...] | None = None


NO_DEVICE = KnownDevice("none")


@cache  # gains that were left out are tried in hundreds of ways, and a signature takes 10 us
def _searches(loop_problem: Callable[..., str]) -> bool:
    """Whether the `loop_problem` of a class takes a search."""
    return "search" in inspect.signature(loop_problem).parameters


class ControllerParameters(Part):
    """Parameters of a controller between a device and a virtual tool."""

    COMMANDS: ClassVar[int] = FORCE
    """Mode of its commands: FORCE or MOTION, which the device has to accept."""
    PASSES_FORCES: ClassVar[bool] = True
    """Whether the controller passes on the wrench of the operator or of the world, energy that no guard counts."""

    LABEL: ClassVar[str] = ""
    """Medium through which contact is felt, as a report names it; empty: it is not named."""
    BRIDGES: ClassVar[bool] = False
    """Whether the controller leaves the device to clients of another interface, so that no world is simulated."""

    NEEDS_DEVICE: ClassVar[bool] = False
    """Whether the controller needs the properties of its device, so that it fits no other device."""
    GAINS: ClassVar[tuple[str, ...]] = ()
    """Names of the gains (`haptic_sim.parameters.Gains`): those left out are lowered until the loop is stable."""

    @property
    def lasts(self) -> float | None:
        """Duration for which the controller acts [s]; None: as long as it is called."""
        return None

    def build(self, rate: float) -> Controller:
        """The controller, at the servo rate [Hz]."""
        raise TypeError(f"{type(self).__name__}: is not a controller")

    def completed(self, device: KnownDevice, pose: tuple[float, ...]) -> ControllerParameters:
        """Copy with the omitted keys that depend on the device, or on the pose of the tool's hand (7,).

        Raises:
            ParameterError: the device does not say what is needed.
        """
        return self

    def stability_problem(self, inertias: CoupledInertias, rate: float) -> str:
        """Reason why the sampled loop of these inertias diverges at `rate` [Hz], with stable gains.

        Returns:
            A line that begins with the keys of the gains; empty if the loop is stable, or the device not known.
        """
        return self.loop_problem(inertias, rate) if inertias.device is not None else ""

    def is_stable(self, inertias: CoupledInertias, rate: float) -> bool:
        """Whether `stability_problem` is empty; without its search for stable gains, which takes longer."""
        if inertias.device is None:
            return True
        if _searches(type(self).loop_problem):
            return not self.loop_problem(inertias, rate, no_search)
        return not self.loop_problem(inertias, rate)

    @property
    def spring_and_damper(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Stiffness and damping (6, 6), where they are all that acts between device and tool; None: there is more."""
        return None

    def loop_problem(self, inertias: CoupledInertias, rate: float, search: Search = largest) -> str:
        """Check the loop with a known device inertia, see `stability_problem`; empty too where no analysis exists.

        A controller whose analysis searches for stable gains calls `search` for that; others may leave that
        argument out.
        """
        return ""


CONTROLLERS = Kind("controllers", ControllerParameters)
AnyControllerParameters = Annotated[ControllerParameters, CONTROLLERS]


class AnalysedControllerParameters(ControllerParameters):
    """Parameters of a controller whose passivity is analysed: its wrenches are linear in the states, near rest."""

    allow_active: bool = quantity(
        False,
        description="Whether the controller may run although the analysis finds that the device is not passive with "
        "it; it is analysed where the device states its damping",
    )


class NoControllerParameters(ControllerParameters):
    """Controller of a trial without a device: none."""

    ABSENT: ClassVar[bool] = True
    OFFLINE: ClassVar[bool] = False

    type: Literal["none"] = "none"
