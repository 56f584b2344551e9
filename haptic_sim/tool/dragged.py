"""Any body of a world, seen and pulled at the origin of its axes: by a pointer without a device, or by a program.

A body is seen as if a hand held it there (`Multibody.held_at`). A wrench on it acts during a step as one of the bodies'
own forces, and its work is entered into the energy balance at the mean velocity of the step, as that of the hand. So
does a generalised force on a coordinate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from haptic_sim.dynamics.energy import HELD, INJECTED, EnergyBalance
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.kernels import kernel
from haptic_sim.messages import HAND, ToolCommand
from haptic_sim.tool.further_hand import book_held, hold_hand


class Seen(NamedTuple):
    """A body at present, at the origin of its axes; in world axes. The arrays are filled again by the next look."""

    pose: np.ndarray
    """Position, quaternion x y z w [m], (7,)."""
    twist: np.ndarray
    """[m/s, rad/s], (6,)."""
    mobility: np.ndarray
    """Inverse inertia there, under exact constraints, too [1/kg, 1/(kg m), 1/(kg m^2)], (6, 6)."""


class DraggedBodies:
    """The bodies of a world, which can be pulled in a step.

    Args:
        body: the bodies, as they move.
        frames: of their axes, in the order of world states.

    Attributes:
        pulls: the bodies that are pulled in the step, with the wrenches.
        trees: that they belong to, or that generalised forces act on.
    """

    DERIVED = ("_known", "pulls", "trees")

    def __init__(self, body: Multibody, frames: Sequence[int]):
        self._body, self._frames = body, frames
        self._known: dict[int, tuple[Multibody, Seen]] = {}
        self._command = ToolCommand()  # what is left for the hand
        self._before, self._along = np.zeros(body.nu), np.zeros(6)
        self._forces, self._v = np.zeros(body.nv), np.zeros(body.nv)
        self.pulls: list[tuple[Multibody, np.ndarray]] = []
        self.trees: set[int] = set()

    def observe_body(self, number: int) -> Seen:
        """A body that moves, by its number in world states."""
        body, seen = self._refreshed(number)
        find_constrained_mobility(body.packed, self._along, seen.mobility)
        return seen

    def jacobian(self, number: int) -> np.ndarray:
        """Jacobian of the twist of a body at the origin of its axes, in world axes, by the velocities, (6, nv)."""
        body, _ = self._refreshed(number)
        jacobian: np.ndarray = body.arrays.J_H.copy()
        return jacobian

    def _refreshed(self, number: int) -> tuple[Multibody, Seen]:
        if number not in self._known:
            body = self._body.held_at(self._frames[number])
            self._known[number] = body, Seen(body.pose, body.twist, np.zeros((6, 6)))
        body, seen = self._known[number]
        body.refresh_at_hand()
        return body, seen

    def pull(self, number: int, wrench: np.ndarray) -> None:
        """Let a wrench act on a body that moves in the next step; in world axes [N, N m], (6,), kept until its end."""
        body, _ = self._refreshed(number)
        self.pulls.append((body, wrench))
        self.trees.add(body.arrays.hand_tree)

    def load(self, forces: np.ndarray) -> None:
        """Let generalised forces act on the coordinates in the next step [N, N m], (nv,)."""
        self._forces[:] = forces
        trees = self._body.trees
        self.trees.update((np.searchsorted(trees.start, np.flatnonzero(forces), side="right") - 1).tolist())

    def pushed_by(self, command: ToolCommand) -> set[int]:
        """Trees that something other than the hand acts on in the next step, with this command."""
        if command.body == HAND:
            return self.trees
        body, _ = self._refreshed(command.body)
        return self.trees | {body.arrays.hand_tree}

    def begin(self, command: ToolCommand) -> ToolCommand:
        """A step begins in which the command's wrench is on one of these; returns the command without it."""
        self.pull(command.body, command.wrench.copy())
        self._command.stamp(command.tick, command.nanoseconds)
        self._command.tool_tick = command.tool_tick
        return self._command

    def push(self) -> None:
        """Let the wrenches act, after all that compensates the bodies' own forces."""
        body = self._body
        self._before[:], self._v[:] = body.u, body.v
        for pulled, wrench in self.pulls:
            hold_hand(pulled.packed, wrench)
        body.arrays.bias[:] -= self._forces

    def end(self, u: np.ndarray, balance: EnergyBalance, period: float) -> None:
        """After the step: enter their work into the energy balance; `u` is the scaled velocity now."""
        values, watch = balance.values, balance.watch
        for pulled, wrench in self.pulls:
            book_held(pulled.packed, wrench, self._before, u, values, watch, period)
        values[INJECTED] += period * float(self._forces @ (self._v + self._body.v)) * 0.5
        watch[HELD] += period * float(self._forces @ (self._body.v - self._v)) * 0.5
        self.clear()

    def clear(self) -> None:
        """Remove all forces: nothing acts on the bodies in the next step."""
        self._forces[:] = 0.0
        self.pulls.clear()
        self.trees.clear()


@kernel
def find_constrained_mobility(packed, along, out):
    """Fill the mobility (6, 6) at the hand of packed `BodyArrays`, less what exact constraints take of it.

    `along` (6,) is overwritten: the motion of the hand along one constraint at a time.
    """
    a = packed.arrays
    first = a.start[a.hand_tree]
    end = first + a.size[a.hand_tree]
    for i in range(6):
        for k in range(6):
            out[i, k] = a.inverse_inertia[6 * i + k]
    for r in range(a.rank[1]):
        part = a.part[r] * (2.0 - a.part[r])  # of a row that is taken in part from both sides
        for i in range(6):
            along[i] = 0.0
            for j in range(first, end):
                along[i] += a.W_H[i, j] * a.Q[r, j]
        for i in range(6):
            for k in range(6):
                out[i, k] -= part * along[i] * along[k]
