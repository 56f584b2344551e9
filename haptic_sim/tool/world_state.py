"""The state of the simulated world: WorldState messages, filled outside the steps that they describe.

The state at t_k is taken when tick k-1 has been answered, the contacts of tick k when tick k has been answered: neither
delays the servo path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pinocchio as pin

from haptic_sim.contact.response import ContactResponse
from haptic_sim.contact.sleeping import SLEPT
from haptic_sim.contact_rows import ContactRows, RowArrays
from haptic_sim.dynamics.multibody import BodyArrays, Multibody, coordinate_names
from haptic_sim.kernels import kernel
from haptic_sim.messages import ToolState, WorldState, time_between
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, array, record, shared, value
from haptic_sim.spatial import quat_from_matrix
from haptic_sim.worlds.world_setup import WorldSetup


@dataclass(frozen=True)
class Contact:
    """A point at which two bodies touched in the last step, in the axes of the world.

    Attributes:
        bodies: names of a and b; of the tool and its surroundings, b is the tool.
        point: on b [m], (3,).
        normal: unit vector from a to b, (3,).
        depth: by which they overlapped, negative for a gap across which they acted on each other [m].
        force: mean over the step, on b [N], (3,); b acts on a with the opposite.
    """

    bodies: tuple[str, str]
    point: np.ndarray
    normal: np.ndarray
    depth: float
    force: np.ndarray


def contacts_of(state: WorldState) -> list[Contact]:
    """The contacts that a world state holds."""
    names = state.bodies
    return [
        Contact(
            (names[one["body_a"]], names[one["body_b"]]),
            one["point"].copy(),
            one["normal"].copy(),
            float(one["depth"]),
            one["force"].copy(),
        )
        for one in state.contacts[: len(state)]
    ]


class Observer(Protocol):
    """Reports what a simulated world looks like; one for each `ToolSide`."""

    def world_state(self) -> WorldState:
        """A message for this world."""

    def observe_bodies(self, state: WorldState) -> None:
        """Fill in where everything is, and how it moves."""

    def observe_contacts(self, state: WorldState) -> None:
        """Fill in the contacts of the last step."""


class WorldStates:
    """Makes the world states of a trial: of tick 0, and of every `every` ticks from there on (0: none).

    Args:
        observer: of the world, which is at its start.
        every: ticks from one world state to the next.
        rate: of the servo [Hz].
        send: takes each of them; its buffer is filled again afterwards.
    """

    def __init__(self, observer: Observer, every: int, rate: float, send: Callable[[WorldState], object]):
        self._observer, self._every, self._rate, self._send = observer, every, rate, send
        self._state = observer.world_state()
        if every:
            observer.observe_bodies(self._state)

    def warm_up(self) -> None:
        """Call every kernel once, so that none is loaded during a trial."""
        self._observer.observe_contacts(self._state)
        self._observer.observe_bodies(self._state)

    def conclude(self, answer: ToolState) -> None:
        """Conclude a tick: to be called once when it has been answered."""
        tick = answer.tick
        if not self._every:
            return
        if not tick % self._every:
            self._state.stamp(tick, answer.nanoseconds - time_between(tick, tick + 1, self._rate))
            self._observer.observe_contacts(self._state)
            self._send(self._state)
        if not (tick + 1) % self._every:
            self._observer.observe_bodies(self._state)


@record
class _Bodies(NamedTuple):
    """Arrays that are read of the bodies, for kernels."""

    R: np.ndarray = array("orientations of the bodies' axes", "bodies", 3, 3)
    p: np.ndarray = array("positions of the bodies' axes", "bodies", 3, unit="m")
    joint: np.ndarray = shared("joint that moves each body", "bodies", dtype=np.int64)
    arrays: BodyArrays = value("arrays of the `Multibody`")


@record
class _Contacts(NamedTuple):
    """Arrays that are read of the contacts, for kernels."""

    rows: RowArrays = value("rows of the contacts")
    tangent: np.ndarray = shared("first tangents", "contacts", 3)
    p: np.ndarray = shared("impulses along normal and tangents", "contacts", 3, unit="N s")
    bodies: np.ndarray = shared("numbers of the two bodies of each pair of shapes", "pairs", 2, dtype=np.int64)


class WorldObserver:
    """The observer of a multibody world.

    Args:
        world: at its start.
        body: its bodies, as they move.
        rows: their contacts; response: what these did in the last step.
        period: of the servo [s].
    """

    DERIVED = ("sleeping", "_placements", "_R", "_p", "_bodies", "_contacts", "_loose", "_bodies_of", "_R_BF", "_p_BF")

    def __init__(self, world: WorldSetup, body: Multibody, rows: ContactRows, response: ContactResponse, period: float):
        model = body.model
        self.sleeping: Packed | None = None  # `SleepArrays`, where bodies may sleep
        frames, names = world.body_frames, list(world.moving)
        self._body, self._rows, self._period, self._names = body, rows, period, tuple(names)
        self._q_names, self._v_names = coordinate_names(model)
        # Pinocchio's Python arrays are views: they follow its data without being asked for again.
        placements = [body.data.oMf[i] for i in frames]
        self._placements = [(placement.rotation, placement.translation) for placement in placements]
        joint = np.array([model.frames[i].parentJoint for i in frames], np.int64)
        bodies = allocate(_Bodies, {"bodies": len(frames)}, joint=joint, arrays=body.arrays)
        self._R, self._p = bodies.R, bodies.p
        first, all_frames = body.part.njoints, [model.frames[i] for i in frames]
        self._loose = np.flatnonzero(joint >= first)  # whose frames Pinocchio does not place
        self._bodies_of = joint[self._loose] - first
        self._R_BF = np.array([all_frames[i].placement.rotation for i in self._loose]).reshape(-1, 3, 3)
        self._p_BF = np.array([all_frames[i].placement.translation for i in self._loose]).reshape(-1, 3)
        self._bodies = Packed(bodies)
        number = {name: i for i, name in enumerate(names)}
        pairs = [(number[a], number[b]) for a, b in world.touching]
        of_pair = np.array(pairs, np.int64).reshape(-1, 2)
        self._contacts = Packed(
            allocate(_Contacts, rows=rows.arrays, tangent=response.tangent, p=response.impulses.p, bodies=of_pair)
        )

    def world_state(self) -> WorldState:
        """A message for this world."""
        body, count = self._body, len(self._names)
        return WorldState(
            bodies=self._names,
            poses=count,
            twists=count,
            q_names=self._q_names,
            q=body.q.size,
            v_names=self._v_names,
            v=body.v.size,
            contacts=self._rows.capacity,
        )

    def observe_bodies(self, state: WorldState) -> None:
        """Fill in where everything is, and how it moves."""
        body = self._body
        pin.updateFramePlacements(body.part, body.data)
        for i, (rotation, translation) in enumerate(self._placements):
            self._R[i], self._p[i] = rotation, translation
        if body.is_loose:
            places, loose = self._loose, body.arrays.loose
            self._R[places] = loose.R_WB[self._bodies_of] @ self._R_BF
            self._p[places] = loose.p_WB[self._bodies_of] + np.einsum(
                "nij,nj->ni", loose.R_WB[self._bodies_of], self._p_BF
            )
        _fill_bodies(self._bodies, state.poses, state.twists)
        state.q[:], state.v[:] = body.q, body.v

    def observe_contacts(self, state: WorldState) -> None:
        """Fill in the contacts of the last step."""
        contacts = state.contacts
        integers, numbers = contacts.view("<u4").reshape(-1, 24), contacts.view("<f8").reshape(-1, 12)
        identities = contacts.view("<i8").reshape(-1, 12)
        count = _fill_contacts(self._contacts, self._rows.count, self._period, identities, integers, numbers)
        if self.sleeping is not None:
            count = _append_slept(self._contacts, self.sleeping, count, self._period, identities, integers, numbers)
        state.resize(count)


@kernel
def _fill_bodies(packed, poses, twists):
    """Fill the poses (N, 7) and twists (N, 6) of the bodies at the origins of their axes."""
    a = packed.arrays
    body = a.arrays
    for i in range(poses.shape[0]):
        x, y, z = a.p[i, 0], a.p[i, 1], a.p[i, 2]
        poses[i, 0], poses[i, 1], poses[i, 2] = x, y, z
        quat_from_matrix(a.R[i], poses[i, 3:])
        for k in range(6):
            twists[i, k] = 0.0
        tree = body.tree_of[a.joint[i]]
        if tree < 0:
            continue
        # as the hand's, in the same order of operations
        for j in range(body.start[tree], body.start[tree] + body.size[tree]):
            if body.support[a.joint[i], j]:
                wx, wy, wz = body.J_W[j, 3], body.J_W[j, 4], body.J_W[j, 5]
                twists[i, 0] += (body.J_W[j, 0] + wy * z - wz * y) * body.v[j]
                twists[i, 1] += (body.J_W[j, 1] + wz * x - wx * z) * body.v[j]
                twists[i, 2] += (body.J_W[j, 2] + wx * y - wy * x) * body.v[j]
                twists[i, 3] += wx * body.v[j]
                twists[i, 4] += wy * body.v[j]
                twists[i, 5] += wz * body.v[j]


@kernel
def _fill_contacts(packed, count, period, identities, integers, numbers):
    """Fill the elements of `WorldState.contacts`, seen as int64, uint32 and float64; returns how many."""
    a = packed.arrays
    rows, p = a.rows, a.p
    n = 0
    for i in range(count):
        pair = rows.wall[i]
        if not 0 <= pair < a.bodies.shape[0]:
            continue  # not of two shapes
        pushes = p[i, 0] != 0.0 or p[i, 1] != 0.0 or p[i, 2] != 0.0
        if not (rows.separation[i] < 0.0 or pushes):
            continue
        identities[n, 0] = rows.id[i]
        integers[n, 2], integers[n, 3] = a.bodies[pair, 0], a.bodies[pair, 1]
        nx, ny, nz = rows.normal[i, 0], rows.normal[i, 1], rows.normal[i, 2]
        tx, ty, tz = a.tangent[i, 0], a.tangent[i, 1], a.tangent[i, 2]
        bx, by, bz = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx
        s = 1.0 / period
        for k in range(3):
            numbers[n, 2 + k] = rows.point[i, k]
        numbers[n, 5], numbers[n, 6], numbers[n, 7] = nx, ny, nz
        numbers[n, 8] = -rows.separation[i]
        numbers[n, 9] = s * (p[i, 0] * nx + p[i, 1] * tx + p[i, 2] * bx)
        numbers[n, 10] = s * (p[i, 0] * ny + p[i, 1] * ty + p[i, 2] * by)
        numbers[n, 11] = s * (p[i, 0] * nz + p[i, 1] * tz + p[i, 2] * bz)
        n += 1
    return n


@kernel
def _append_slept(packed, sleeping, count, period, identities, integers, numbers):
    """Append the contacts of bodies that sleep, with their last forces, after `count` others; see `_fill_contacts`."""
    a, sleep = packed.arrays, sleeping.arrays
    n = count
    for i in range(sleep.numbers[SLEPT]):
        pair, f = sleep.wall[i], sleep.impulse[i]
        if n >= identities.shape[0] or not (sleep.separation[i] < 0.0 or f[0] != 0.0 or f[1] != 0.0 or f[2] != 0.0):
            continue
        identities[n, 0] = sleep.id[i]
        integers[n, 2], integers[n, 3] = a.bodies[pair, 0], a.bodies[pair, 1]
        for k in range(3):
            numbers[n, 2 + k], numbers[n, 5 + k] = sleep.point[i, k], sleep.normal[i, k]
            numbers[n, 9 + k] = f[k] / period
        numbers[n, 8] = -sleep.separation[i]
        n += 1
    return n
