"""Sleeping bodies: what is at rest costs nothing until something touches it.

**Islands.** An island is a set of trees (free bodies, or linkages without laws of joints) connected by contacts. It
falls asleep when all of its trees have been at rest for a time: each step, the root mean square velocity of the tree's
mass, |u| / sqrt(m), was at most `Sleep.speed`, and some contact pushed the tree; a tree that no contact pushes is at
rest only if it does not move at all and no force acts on it. Bodies in flight, that slide or roll faster than that, or
that are driven, are awake, and so is what touches them.

**Asleep.** Velocities are zero, configurations are kept bit by bit, and contacts of the island are taken from the rows
of the step into `SleepArrays`, with what the method remembers of them: their springs stay compressed and their bonds
stretched, and the energy of both stays in the balance. The kinetic energy that is removed is a numerical loss.

**Awake.** An island wakes as a whole, before the step, when a body that is awake comes within the margin of a contact,
when a wrench or force acts on one of its bodies, when the wrench on its hand is another one, or when the material
changes. The contacts of the same poses are found again, and each has its memory back, so that the island goes on as if
it had been awake, but for the velocities that were removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from haptic_sim.contact.groups import find_place, find_root
from haptic_sim.contact.response import ASLEEP, PENDING, ContactResponse
from haptic_sim.contact_rows import ContactRows
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.kernels import bind, kernel
from haptic_sim.messages import FREE, RESTING
from haptic_sim.packed import Packed
from haptic_sim.parameters import ParameterError
from haptic_sim.records import allocate, array, record, shared, value


class Sleep(NamedTuple):
    """Rule for the transition of resting bodies to sleep.

    Attributes:
        speed: at which a body is at rest [m/s]; 0: none falls asleep.
        time: for which it has to be [s].
    """

    speed: float = 0.0
    time: float = 0.5


NEVER = Sleep()
SLEPT, TOUCHING, ROWS, GIVEN_BACK, READY = range(5)
"""Places in `SleepArrays.numbers`: contacts of bodies that sleep; those of them that overlap or push; rows of the last
step; contacts that have got their memory back since; trees that are awake and have been at rest for long enough."""


@record
class SleepArrays(NamedTuple):
    """Arrays of the kernels: which trees sleep, and the contacts of those trees."""

    speed: float = value("velocity at which a tree is at rest", unit="m/s")
    steps: int = value("steps for which it has to be")
    may: np.ndarray = shared("whether a tree may fall asleep", "trees", dtype=np.bool_)
    mass: np.ndarray = shared("mass of each tree", "trees", unit="kg")
    part: int = value("number of coordinates of the trees that Pinocchio evaluates")
    shape_joint: np.ndarray = shared("joint of each shape", "shapes", dtype=np.int64)
    rests: np.ndarray = shared("whether the detector takes a shape as at rest", "shapes", dtype=np.bool_)

    still: np.ndarray = array("steps for which a tree has been at rest", "trees", dtype=np.int64)
    island: np.ndarray = array("island of a tree that sleeps: one of its trees", "trees", dtype=np.int64)
    group: np.ndarray = array("union-find forest of the trees", "trees", dtype=np.int64)
    stays: np.ndarray = array("whether a group stays awake", "trees", dtype=np.bool_)
    pushed: np.ndarray = array("whether a contact pushed a tree in the last step", "trees", dtype=np.bool_)
    row_id: np.ndarray = array("identities of the rows of the last step", "contacts", dtype=np.int64)
    numbers: np.ndarray = array("numbers of contacts and trees, see SLEPT", 5, dtype=np.int64)
    command: np.ndarray = array("wrench on the hand in the last step", 6, unit="N, N m")
    felt: np.ndarray = array("wrench of the contacts at the hand when it fell asleep", 6, unit="N, N m")

    id: np.ndarray = array("identity of a contact of bodies that sleep", "contacts", dtype=np.int64)
    wall: np.ndarray = array("pair of shapes that it is of", "contacts", dtype=np.int64)
    tree: np.ndarray = array("a tree that it is of", "contacts", dtype=np.int64)
    row: np.ndarray = array("its row in the step before, -1: it was new", "contacts", dtype=np.int64)
    point: np.ndarray = array("contact point of B", "contacts", 3, unit="m")
    normal: np.ndarray = array("unit normal from A to B", "contacts", 3)
    separation: np.ndarray = array("distance along the normal", "contacts", unit="m")
    impulse: np.ndarray = array("impulse on B in the last step, world axes", "contacts", 3, unit="N s")
    elastic: np.ndarray = array("energy of its spring and bond", "contacts", unit="J")
    memory: np.ndarray = shared("what the method remembers of each, numbers of the `Keeper`", "contacts", dtype=object)


class SleepingBodies:
    """Lets the bodies of a world sleep; one for each `Environment`.

    Args:
        sleep: when they fall asleep.
        body, rows, response: the bodies, their contacts, and the method.
        awake: trees that never sleep.
        shape_joint: joint of each shape, (shapes,).
        rests: of a detector, whether a shape rests; written here, (shapes,).
        rate: steps a second [Hz].
        state: a packed `ToolState` as those that `observe` gets.

    Raises:
        ParameterError: the method cannot keep what it remembers.
    """

    DERIVED = ("_body", "_rows", "_response", "_state", "_of", "_bound")

    def __init__(
        self,
        sleep: Sleep,
        body: Multibody,
        rows: ContactRows,
        response: ContactResponse,
        awake: Iterable[int],
        shape_joint: np.ndarray,
        rests: np.ndarray,
        rate: float,
        state: Packed,
    ):
        keeper = response.keeper
        if keeper is None:
            raise ParameterError(
                [
                    f"environment.sleep_speed = {sleep.speed:g} m/s: this contact method cannot store the contact "
                    "memory of bodies that sleep; set environment.sleep_speed=0"
                ]
            )
        self._body, self._rows, self._response = body, rows, response
        trees, of_joint = body.trees, body.trees.of_joint
        may = np.ones(trees.start.size, np.bool_)
        may[list(awake)] = False
        mass = np.zeros(trees.start.size)
        for joint, tree in enumerate(of_joint):
            if tree >= 0:
                mass[tree] += body.model.inertias[joint].mass
        capacity = rows.id.size
        self.arrays = allocate(
            SleepArrays,
            {"trees": trees.start.size, "contacts": capacity, "shapes": len(shape_joint)},
            speed=float(sleep.speed),
            steps=max(1, round(sleep.time * rate)),
            may=may,
            mass=mass,
            part=int(body.part.nv),
            shape_joint=shape_joint,
            rests=rests,
            memory=np.zeros(capacity, keeper.numbers),
        )
        self.packed = Packed(self.arrays)
        rests[:] = of_joint[shape_joint] < 0
        self._numbers, self._awake = self.arrays.numbers.data, body.arrays.awake.data
        self._kernels = _build(keeper.lay_aside, keeper.take_up)
        self._trees, self._period, self._state = trees.start.size, 1.0 / rate, state
        self._of: Packed | None = None

    @property
    def asleep(self) -> np.ndarray:
        """Whether each tree sleeps, (trees,)."""
        sleeps: np.ndarray = self._body.arrays.moving == 0
        return sleeps

    @property
    def all(self) -> bool:
        """Whether all trees sleep."""
        return not self._awake[1]

    def wake_touched(self) -> bool:
        """Wake the islands that rows touch; whether there were any: then contacts are to be found anew."""
        return self._awake[1] < self._trees and bool(
            self._kernels["touched"](self.packed, self._pack(), self._rows.count)
        )

    def wake_pushed(self, wrench: np.ndarray, trees: Iterable[int]) -> bool:
        """Wake what a new wrench at the hand (6,), or other forces on `trees`, act on; returns as `wake_touched`."""
        woken = bool(self._bind()[0](self.packed, self._of, wrench))
        for tree in trees:
            woken |= bool(self._kernels["tree"](self.packed, self._pack(), tree))
        return woken

    def wake_all(self) -> None:
        """Wake all bodies."""
        for tree in range(self._trees):
            self._kernels["tree"](self.packed, self._pack(), tree)

    def fall_asleep(self, felt: np.ndarray) -> None:
        """Let the islands fall asleep that have been at rest, and take their contacts out of the rows.

        `felt` (6,) is the wrench of the contacts at the hand in the last step [N, N m].
        """
        if self._numbers[READY]:
            self._rows.count = self._kernels["fall"](self.packed, self._pack(), self._rows.count, felt)

    def observe(self, count: int, state: Packed) -> None:
        """After a step with so many contacts: find which trees are at rest.

        Adds the contacts of bodies that sleep to a packed `ToolState`.
        """
        self._bind()[1](self.packed, self._of, count, state, self._period)

    def warm_up(self, state: Packed) -> None:
        """Call every kernel once; the state is of no use afterwards."""
        self.observe(0, state)
        self._kernels["fall"](self.packed, self._pack(), 0, np.zeros(6))
        self._kernels["touched"](self.packed, self._pack(), 0)
        self.wake_pushed(np.zeros(6), range(self._trees))

    def _pack(self) -> Packed:
        """`ResponseArrays`, with the material of this step."""
        return self._response.pack(self._rows, self._body)

    def _bind(self) -> tuple[Any, Any]:
        """Bind the kernels that each step calls, compiled for the material of this step."""
        response = self._pack()
        if response is not self._of:
            pushed, observe = self._kernels["pushed"], self._kernels["observe"]
            self._of = response
            self._bound = (
                bind(pushed, self.packed, response, self.arrays.command),
                bind(observe, self.packed, response, 0, self._state, self._period),
            )
        return self._bound


@kernel
def _trees_of(body, rows, i):
    """Trees of the two sides of row i."""
    return body.tree_of[rows.body[i, 0]], body.tree_of[rows.body[i, 1]]


@kernel
def _count_awake(sleep, a):
    """After trees have fallen asleep or have woken: which shapes rest, how many trees do not, and elastic energy."""
    body = a.body
    body.awake[0] = body.awake[1] = 0
    for t in range(body.moving.shape[0]):
        if body.moving[t] > 0:
            body.awake[1] += 1
            body.awake[0] += body.start[t] < sleep.part
    for g in range(sleep.rests.shape[0]):
        t = body.tree_of[sleep.shape_joint[g]]
        sleep.rests[g] = t < 0 or body.moving[t] == 0
    a.amounts[ASLEEP] = 0.0
    sleep.numbers[TOUCHING] = 0
    for s in range(sleep.numbers[SLEPT]):
        f = sleep.impulse[s]
        sleep.numbers[TOUCHING] += sleep.separation[s] < 0.0 or f[0] != 0.0 or f[1] != 0.0 or f[2] != 0.0
        a.amounts[ASLEEP] += sleep.elastic[s]


@kernel
def _observe(packed, response, count, state, period):
    """Kernel of `SleepingBodies.observe`."""
    sleep, a = packed.arrays, response.arrays
    if sleep.numbers[SLEPT] > 0:
        _complete(sleep, a.body, state.arrays, period)
    body, rows, p, pushed, still = a.body, a.rows, a.impulses.p, sleep.pushed, sleep.still
    sleep.numbers[ROWS], sleep.numbers[GIVEN_BACK] = count, 0
    for t in range(pushed.shape[0]):
        pushed[t] = False
    for i in range(count):
        sleep.row_id[i] = rows.id[i]
        if p[i, 0] != 0.0:
            one, other = _trees_of(body, rows, i)
            if one >= 0:
                pushed[one] = True
            if other >= 0:
                pushed[other] = True
    ready = 0
    for t in range(pushed.shape[0]):
        if not sleep.may[t] or body.moving[t] == 0:
            continue
        square, forced = 0.0, False
        for j in range(body.start[t], body.start[t] + body.size[t]):
            square += a.u[j] * a.u[j]
            forced = forced or a.external[j] != 0.0
        most = sleep.mass[t] * sleep.speed * sleep.speed if pushed[t] else 0.0
        if square <= most and (pushed[t] or not forced):
            still[t] += 1
            ready += still[t] >= sleep.steps
        else:
            still[t] = 0
    sleep.numbers[READY] = ready


@kernel
def _complete(sleep, body, state, period):
    """Add the contacts of bodies that sleep to a state."""
    state.contacts[0] += sleep.numbers[TOUCHING]
    if sleep.numbers[TOUCHING] > 0 and state.contact_state[0] == FREE:
        state.contact_state[0] = RESTING
    if body.hand_tree >= 0 and body.moving[body.hand_tree] == 0:
        for i in range(6):
            state.wrench[i] += sleep.felt[i]
            state.impulse[i] += period * sleep.felt[i]


@kernel
def _find_islands(sleep, a, count):
    """Fill `group` with the islands, and say which of them stay awake; whether some fall asleep."""
    body, rows, group, stays = a.body, a.rows, sleep.group, sleep.stays
    for t in range(group.shape[0]):
        group[t], stays[t] = t, False
    for i in range(count):
        one, other = _trees_of(body, rows, i)
        if one >= 0 and other >= 0:
            group[find_root(group, one)] = find_root(group, other)
    for t in range(group.shape[0]):
        if body.moving[t] > 0 and not (sleep.may[t] and sleep.still[t] >= sleep.steps):
            stays[find_root(group, t)] = True
    some = False
    for t in range(group.shape[0]):
        some = some or (body.moving[t] > 0 and not stays[find_root(group, t)])
    return some


@kernel
def _stop(sleep, a, t):
    """Let a tree fall asleep."""
    body = a.body
    sleep.island[t] = find_root(sleep.group, t)
    body.moving[t] = 0
    for j in range(body.start[t], body.start[t] + body.size[t]):
        body.kinetic_energy[0] -= 0.5 * body.u[j] * body.u[j]
        body.u[j] = body.v[j] = body.step[j] = a.u[j] = a.external[j] = a.du[j] = 0.0
    if t == body.hand_tree:
        body.hand_energy[0] = 0.0
        for i in range(6):
            body.twist[i] = 0.0


@kernel
def _take_row(sleep, a, i, s):
    """Take row i as contact s of bodies that sleep, with its impulse of the last step."""
    rows, p, tangent = a.rows, a.impulses.p, a.tangent
    one, other = _trees_of(a.body, rows, i)
    sleep.id[s], sleep.wall[s], sleep.separation[s] = rows.id[i], rows.wall[i], rows.separation[i]
    sleep.tree[s] = one if one >= 0 else other
    sleep.elastic[s] = 0.0
    k = find_place(rows.id[i], sleep.row_id, sleep.numbers[ROWS], i)
    sleep.row[s] = k
    for d in range(3):
        sleep.point[s, d], sleep.normal[s, d], sleep.impulse[s, d] = rows.point[i, d], rows.normal[i, d], 0.0
    if k >= 0:
        n, t, f = rows.normal[i], tangent[k], sleep.impulse[s]
        for d in range(3):
            x, y = (d + 1) % 3, (d + 2) % 3
            f[d] = p[k, 0] * n[d] + p[k, 1] * t[d] + p[k, 2] * (n[x] * t[y] - n[y] * t[x])


@kernel
def _move_row(rows, i, n):
    """Let row n be what row i is, as a detector fills it."""
    rows.id[n], rows.wall[n], rows.separation[n] = rows.id[i], rows.wall[i], rows.separation[i]
    rows.velocity[n], rows.restitution[n], rows.weight[n] = rows.velocity[i], rows.restitution[i], rows.weight[i]
    for d in range(2):
        rows.body[n, d], rows.friction[n, d] = rows.body[i, d], rows.friction[i, d]
        rows.resistance[n, d] = rows.resistance[i, d]
    for d in range(3):
        rows.point[n, d], rows.normal[n, d] = rows.point[i, d], rows.normal[i, d]


@kernel
def _move_contact(sleep, s, n):
    """Let contact n of bodies that sleep be what contact s is."""
    sleep.id[n], sleep.wall[n], sleep.tree[n], sleep.row[n] = sleep.id[s], sleep.wall[s], sleep.tree[s], sleep.row[s]
    sleep.separation[n], sleep.elastic[n] = sleep.separation[s], sleep.elastic[s]
    sleep.memory[n] = sleep.memory[s]
    for d in range(3):
        sleep.point[n, d], sleep.normal[n, d], sleep.impulse[n, d] = (
            sleep.point[s, d],
            sleep.normal[s, d],
            sleep.impulse[s, d],
        )


@cache
def _build(lay_aside: Any, take_up: Any) -> dict[str, Any]:
    """The kernels of `SleepingBodies` with those of a `Keeper`."""

    @kernel
    def fall(packed, response, count, felt):
        sleep, a = packed.arrays, response.arrays
        body, rows, numbers = a.body, a.rows, sleep.numbers
        if a.counts[PENDING] != 0 or not _find_islands(sleep, a, count):
            return count
        hand = body.hand_tree
        for t in range(body.moving.shape[0]):
            if body.moving[t] > 0 and not sleep.stays[find_root(sleep.group, t)]:
                _stop(sleep, a, t)
                if t == hand:
                    for i in range(6):
                        sleep.felt[i] = felt[i]
        first = numbers[SLEPT]
        n = 0
        for i in range(count):
            one, other = _trees_of(body, rows, i)
            t = one if one >= 0 else other
            if t >= 0 and body.moving[t] == 0:
                _take_row(sleep, a, i, numbers[SLEPT])
                numbers[SLEPT] += 1
            else:
                _move_row(rows, i, n)
                n += 1
        lay_aside(response, sleep, first, numbers[SLEPT])
        _count_awake(sleep, a)
        if body.awake[1] == 0:
            body.kinetic_energy[0] = 0.0
        numbers[READY] = 0
        return n

    @kernel
    def wake(packed, response, tree):
        sleep, a = packed.arrays, response.arrays
        body, rows, numbers = a.body, a.rows, sleep.numbers
        sleep.still[tree] = 0
        if body.moving[tree] > 0:
            return False
        island = sleep.island[tree]
        for t in range(body.moving.shape[0]):
            if body.moving[t] == 0 and sleep.island[t] == island:
                body.moving[t] = body.size[t]
                sleep.still[t] = 0
        n = 0
        for s in range(numbers[SLEPT]):
            if body.moving[sleep.tree[s]] > 0:
                numbers[GIVEN_BACK] += 1
                take_up(response, sleep, s, rows.id.shape[0] - numbers[GIVEN_BACK])
            else:
                _move_contact(sleep, s, n)
                n += 1
        numbers[SLEPT] = n
        _count_awake(sleep, a)
        return True

    @kernel
    def wake_touched(packed, response, count):
        a = response.arrays
        body, rows = a.body, a.rows
        woken = False
        for i in range(count):
            one, other = _trees_of(body, rows, i)
            if one >= 0 and body.moving[one] == 0:
                woken = wake(packed, response, one)
            if other >= 0 and body.moving[other] == 0:
                woken = wake(packed, response, other)
        return woken

    @kernel
    def wake_pushed(packed, response, wrench):
        sleep, hand = packed.arrays, response.arrays.body.hand_tree
        same = True
        for i in range(6):
            same = same and sleep.command[i] == wrench[i]
            sleep.command[i] = wrench[i]
        return hand >= 0 and not same and wake(packed, response, hand)

    return {"fall": fall, "tree": wake, "touched": wake_touched, "pushed": wake_pushed, "observe": _observe}
