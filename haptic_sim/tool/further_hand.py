"""A further hand on the bodies of a virtual tool: its command acts there, and its ToolState is seen from there.

The bodies of a world are simulated together, so that a second tool is one more of them, and a body that two hands hold
is one body with two hand points. What a hand feels is all that acts on its tool but its own command: contacts, and the
other hands (`VirtualTool` sums up `felt`).
"""

from __future__ import annotations

import numpy as np

from haptic_sim.dynamics.energy import HELD, INJECTED, EnergyBalance
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.hand import Hand
from haptic_sim.kernels import kernel
from haptic_sim.messages import ToolCommand, ToolState


class FurtherHand:
    """The hand at a frame, with the command that acts in the next step.

    Args:
        body: whose frame it is.
        frame: of the model.
        planar, tolerance, fade: as of `Hand`.

    Attributes:
        command: is loaded by whoever steps the tool; state: the hand's ToolState after a step, see `VirtualTool`.
        body: the same bodies, held there.
        du: what the command does to the scaled velocity in a step (nv,).
        tree: that the hand belongs to.
    """

    state: ToolState

    def __init__(self, body: Multibody, frame: int, *, planar: bool, tolerance: float, fade: float):
        self.body = held = body.held_at(frame)
        self.tree, self.du = held.arrays.hand_tree, np.zeros(held.nu)
        self.command = ToolCommand()
        self.command.tick = -1
        self.hand = Hand(held, planar=planar, tolerance=tolerance, fade=fade)

    def push(self, period: float) -> None:
        """Let the command act in a step of `period` [s], as a force that the bodies' own forces hold."""
        push_hand(self.body.packed, self.command.wrench, period, self.du)
        hold_hand(self.body.packed, self.command.wrench)

    def book(self, u: np.ndarray, balance: EnergyBalance, period: float) -> None:
        """Enter the work of the command into the energy balance; `u` is the scaled velocity after the step."""
        values, watch = balance.values, balance.watch
        book_held(self.body.packed, self.command.wrench, self.body.u, u, values, watch, period)

    def refresh(self) -> None:
        """Bring the hand up to date with the body."""
        self.body.refresh_at_hand()
        self.hand.refresh()


@kernel
def push_hand(packed, wrench, period, du):
    """Fill du = T L^-1 J^T F of a wrench at the hand of packed `BodyArrays`; du stays 0 outside of the hand's tree."""
    a = packed.arrays
    L, J_H, first = a.L, a.J_H, a.start[a.hand_tree]
    for j in range(first, first + a.size[a.hand_tree]):
        s = 0.0
        for i in range(6):
            s += J_H[i, j] * wrench[i]
        s *= period
        for k in range(first, j):
            s -= L[j, k - first] * du[k]
        du[j] = s / L[j, j - first]


@kernel
def hold_hand(packed, wrench):
    """Take J^T F from `bias`, which is on the other side of the equations of motion, until the next refresh."""
    a = packed.arrays
    first = a.start[a.hand_tree]
    for j in range(first, first + a.size[a.hand_tree]):
        for i in range(6):
            a.bias[j] -= a.J_H[i, j] * wrench[i]


@kernel
def book_held(packed, wrench, before, after, values, watch, period):
    """Work at the mean of the scaled velocities before and after a step, which is what changes the kinetic energy."""
    a = packed.arrays
    first = a.start[a.hand_tree]
    for i in range(6):
        s = begin = 0.0
        for j in range(first, first + a.size[a.hand_tree]):
            s += a.W_H[i, j] * 0.5 * (before[j] + after[j])
            begin += a.W_H[i, j] * before[j]
        values[INJECTED] += period * wrench[i] * s
        watch[HELD] += period * wrench[i] * (s - begin)
