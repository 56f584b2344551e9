"""Interface of what answers a controller at the servo rate: environment, local model, or part of another package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from haptic_sim.contact.response import ContactParameters
from haptic_sim.messages import LocalGeometry, ToolCommand, ToolState
from haptic_sim.snapshots import Snapshot
from haptic_sim.tool.dragged import Seen
from haptic_sim.tool.further_hand import FurtherHand
from haptic_sim.tool.world_state import Contact, Observer


class ToolSide(Protocol):
    """Environment, LocalModel or ConstrainedTool; the controller cannot distinguish them.

    It integrates the tool and all that moves with it, so its observer reports what the world looks like. `step` and
    `prepare` are called in the servo thread, where nothing may be allocated. The same commands give the same bits.
    """

    @property
    def observer(self) -> Observer:
        """Reports what the simulated world looks like."""

    @property
    def hands(self) -> Sequence[FurtherHand]:
        """Further hands on the same bodies; empty where the tool is all that is held."""

    @property
    def observe_body(self) -> Callable[[int], Seen] | None:
        """Pose and motion of a body other than the tool, by its number in world states; None: none is dragged."""

    @property
    def omissions(self) -> int | None:
        """Leaves of signed distance fields that steps have left out (`CollisionDetector.omissions`); None: no fields.

        An engine of another package may be without it (`omissions_of`).
        """

    def warm_up(self) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""

    def configure(self, contact: ContactParameters) -> None:
        """Take another material, from the next step on."""

    def set_levels(self, strengths: Mapping[str, float]) -> None:
        """Let fields fade to a part of their strength, from 0 to 1, by name, the others to all of it.

        Called where the scene has fields, which it has for engines with `FIELDS` alone.
        """

    def tool_state(self) -> ToolState:
        """A message with the tool's state at the start; its tick is -1."""

    def prepare(self) -> None:
        """Compute ahead what does not depend on the next command; called between two steps, if there is time."""

    def step(self, command: ToolCommand, state: ToolState) -> None:
        """Answer the command of a tick: turn the state before it into the state after it."""


class Simulation(Protocol):
    """A world that a program advances step by step: an `Environment`, or a `MujocoSimulation`.

    Bodies have the numbers of world states.
    """

    @property
    def state(self) -> ToolState:
        """The tool after the last `advance`: pose, twist, and the wrench of the world on it."""

    @property
    def time(self) -> float:
        """Time since the start [s]."""

    @property
    def energy(self) -> dict[str, float]:
        """Energies at the beginning of the last step, and what flowed since the start, by name [J]."""

    @property
    def fields(self) -> dict[str, dict[str, float]]:
        """Energy that each field stores, and that it dissipated, supplied and got by switching since the start [J]."""

    def switch(self, strengths: Mapping[str, float]) -> None:
        """Let fields fade to a part of their strength, by name; those that are not named to all of it.

        Raises:
            ParameterError: there is no such field, or a strength is not from 0 to 1.
        """

    @property
    def contacts(self) -> list[Contact]:
        """The points at which bodies touched in the last step; empty before the first."""

    @property
    def observer(self) -> Observer:
        """Reports what the simulated world looks like."""

    def pull(self, number: int, wrench: np.ndarray) -> None:
        """Let a wrench act in the next step on a body that moves, at its origin, world axes [N, N m], (6,)."""

    def load(self, forces: np.ndarray) -> None:
        """Let generalised forces act on the coordinates in the next step [N, N m], (nv,)."""

    def advance(self, wrench: ArrayLike | None = None) -> ToolState:
        """Advance by 1/rate, under a wrench on the tool where it is held, world axes [N, N m], (6,).

        Raises:
            ParameterError: the wrench is not six finite numbers.
            UnstableError: it cannot go on.
        """

    def jacobian(self, number: int) -> np.ndarray:
        """Jacobian of the twist of a body that moves, at its origin, world axes, by the velocities, (6, nv)."""

    def mobility(self, number: int) -> np.ndarray:
        """Inverse inertia of a body that moves, at its origin, world axes, (6, 6)."""

    def snapshot(self) -> Snapshot:
        """Complete state of the simulation: it decides how the simulation continues, bit by bit."""

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a state of this simulation, or of another one of the same simulator.

        Raises:
            ValueError: it is of something else.
        """


class Simulator(Protocol):
    """Makes simulations of one world, each with a state of its own; it does not change.

    Attributes (nq, nv: as its engine has them):
        q, v: configuration (nq,) and velocity (nv,) at the start.
        q_names, v_names: their names.
        q_limits: smallest and largest value of each coordinate [m, rad], infinite where there is none, (nq, 2).
    """

    @property
    def q(self) -> np.ndarray: ...

    @property
    def v(self) -> np.ndarray: ...

    @property
    def q_names(self) -> tuple[str, ...]: ...

    @property
    def v_names(self) -> tuple[str, ...]: ...

    @property
    def q_limits(self) -> np.ndarray: ...

    def simulation(self, q: np.ndarray, v: np.ndarray) -> Simulation:
        """Simulation that begins with a configuration and a velocity; a quaternion in it need not be a unit one.

        Raises:
            ParameterError: they do not meet the constraints.
        """


class LocalModelCore(ToolSide, Protocol):
    """A tool side that knows the surroundings of the tool from updates of a slower environment alone."""

    @property
    def age(self) -> float:
        """Age of the surroundings [s]."""

    @property
    def update_period(self) -> float:
        """Mean period of the last updates [s]."""

    def update(self, geometry: LocalGeometry, tick: int) -> None:
        """Take the surroundings of an update; called before `step` of `tick`.

        Raises:
            MessageError: the update cannot be used; the surroundings stay as they were.
        """
