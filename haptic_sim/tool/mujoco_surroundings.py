"""A world of MuJoCo as the surroundings of a local model."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pinocchio as pin

from haptic_sim.contact_rows import CAPACITY
from haptic_sim.dynamics.energy import UnstableError
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.messages import COLLIDING, LocalGeometry, ToolState
from haptic_sim.tool.surroundings import LOADED
from haptic_sim.worlds.mujoco_files import MujocoTree, library, version

SAME = 1e-3  # [m] by which a contact moves at most on one of its two bodies while it keeps its identity


LONGEST = 2.0  # periods from survey to survey that MuJoCo makes up for at once


class MujocoSurroundings:
    """What surrounds a tool that MuJoCo simulates with it; see `haptic_sim.tool.surroundings.Surroundings`.

    MuJoCo steps with its own time step, as often as fits into the time of the survey. Its tool follows the surveyed
    states along the line between them under generalised forces: what accelerates it as them, less the wrench F of the
    contacts that the hand feels, and a critically damped spring in the coordinates of the tool's tree, w = `following`,

        D (a + w^2 dq + 2 w dv) - J^T F.

    So it pushes other bodies as hard as the hand feels it, by MuJoCo's contacts. (A mocap body would have no velocity
    in them.) The spring is for drift: it adds D w^2 dq to that force, where the hand's tool is dq deeper than MuJoCo's,
    so that what yields is felt by less than it resists, the part m w^2 / K for a tool of mass m and contacts of
    stiffness K. The tool's weight and Coriolis forces are added, and damping, springs and dry friction of its joints
    taken away: those of the local model's tool are felt, and not twice.

    The constraints are MuJoCo's contacts of the tool with other bodies, from the tool's geoms being near others on: the
    geoms get a gap of `epsilon`, in which contacts are listed and without force. A contact is as deep as where MuJoCo's
    force begins (`margin`), and keeps its identity while it stays where it was (SAME) on the tool or on what it
    touches. Friction is MuJoCo's sliding coefficient; a contact without friction dimensions has none. The mobility of
    what the tool touches is that for a unit impulse at each of its contacts with the tool that are about as deep as its
    deepest (LOADED), by MuJoCo's inertia; other than in `WorldSurroundings`, what it rests against does not count.
    Where there are more contacts than a message takes, the nearest count.

    A world that is too slow for the clock loses time, so that surveys go on to come: of a gap between two of them no
    more than LONGEST periods are simulated.

    Args:
        model, data: MuJoCo's; the tool's gaps, damping, springs and dry friction in the model are changed.
        tool: of `model`, and in the state of `data`, which is at time 0.
        epsilon, horizon, rate, period, following: as of `WorldSurroundings`; w is at most half the rate of MuJoCo's
            steps.
        restitution: of the contacts.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        tool: MujocoTree,
        *,
        epsilon: float,
        horizon: float = 0.0,
        rate: float = 1000.0,
        period: float = 1.0 / 60.0,
        following: float = 200.0,
        restitution: float = 0.0,
    ):
        self._mujoco, self._model, self._data, self._tool = library(), model, data, tool
        self._epsilon, self._horizon, self._rate = max(epsilon, 0.0), horizon, rate
        self._following, self._restitution = following, restitution
        world = tool.world
        self._body = Multibody(world.model, world.hand, world.q, world.v)
        self._sizes = world.tool_sizes()
        tool.set_state(world.q, world.v, data.qpos, data.qvel)
        for table in (model.dof_damping, model.dof_frictionloss):
            table[tool.v] = 0.0
        joints = np.nonzero(tool.link[model.jnt_bodyid] > 0)[0]
        model.jnt_stiffness[joints] = 0.0
        self._steps, self._last = 0, -1  # of MuJoCo, with those left out, and tick of the last survey's state
        self._most = max(1, round(LONGEST * period / float(model.opt.timestep)))
        # the tool as of the last survey, and what it felt
        self._before, self._speed, self._felt = world.q.copy(), world.v.copy(), np.zeros(6)
        self._wrench, self._force = np.zeros(6), np.zeros(world.model.nv)
        self._own = tool.link[model.geom_bodyid] > 0
        self._radius = _radius(model, data, self._own, world.hand_pose()[:3])
        self._gaps = _Gaps(model, self._own, version(self._mujoco))
        self._features = Features()
        self._moved = _moved(model)
        self.refresh()

    def local_geometry(self) -> LocalGeometry:
        """See Surroundings."""
        nq, nv, others = self._sizes.q, self._sizes.v, self._tool.others.size
        return LocalGeometry(q=nq, v=nv, inertia=nv * nv, gravity=nv, poses=others, twists=others, constraints=CAPACITY)

    def rehearse(self) -> None:
        """See Surroundings."""
        state = self._sizes.tool_state()
        state.q[:], state.v[:], state.tick = self._body.q, self._body.v, 0
        self._features.number(np.zeros(1, np.int64), np.zeros((1, 3)), np.zeros((1, 3)))
        self.survey(state, 0, self.local_geometry())

    def survey(self, tool: ToolState, step: int, geometry: LocalGeometry) -> None:
        """See Surroundings; the world is less than one of its steps behind the state."""
        self._advance(tool)
        self.report(geometry, self._wrench)
        geometry.stamp(tool.tick + 1, tool.nanoseconds)
        geometry.step = step

    def refresh(self) -> None:
        """Bring the tool's coordinates up to date with MuJoCo's."""
        body, data = self._body, self._data
        self._tool.configuration(data.qpos, body.q)
        self._tool.velocity(body.q, data.qvel, body.v)
        body.refresh()

    def push(self, q: np.ndarray, v: np.ndarray, acceleration: np.ndarray, felt: np.ndarray, period: float) -> None:
        """Let MuJoCo's tool follow another, until the next push.

        Args:
            q, v, acceleration: of the other.
            felt: wrench of the contacts on it, at the hand [N, N m] (6,).
            period: until the next push [s].
        """
        body, w = self._body, min(self._following, 0.5 / period)
        self.refresh()
        lag = pin.difference(body.model, body.q, q)
        push = body.D @ (acceleration + w * w * lag + 2.0 * w * (v - body.v)) + body.data.nle - body.J_H.T @ felt
        self._tool.push(body.q, push, self._data.qfrc_applied)

    def felt(self) -> np.ndarray:
        """The wrench at the hand of what held MuJoCo's tool back in its last step, weighted as THESIS (5.12) (6,)."""
        body, force = self._body, self._force
        self._tool.force(body.q, self._data.qfrc_constraint, force)
        if not force.any():
            return np.zeros(6)
        acceleration = body.J_H @ np.linalg.solve(body.D, force)
        wrench: np.ndarray = np.linalg.pinv(body.inverse_inertia.reshape(6, 6), 1e-9, hermitian=True) @ acceleration
        return wrench

    def _advance(self, tool: ToolState) -> None:
        """Step to the time of a tool state, the tool following it."""
        body, model, data, ticks = self._body, self._model, self._data, tool.tick - self._last
        if ticks < 1:
            return
        period = float(model.opt.timestep)
        steps = int(np.floor((tool.tick + 1) / self._rate / period + 1e-6)) - self._steps
        begin, span = (self._last + 1) / self._rate, ticks / self._rate
        if steps > self._most:
            self._steps += steps - self._most
            steps, begin, span = self._most, self._steps * period, self._most * period
        way = pin.difference(body.model, self._before, tool.q)
        acceleration = (tool.v - self._speed) / span
        # an impulse is of a tick, not of a period
        felt = self._felt if tool.contact_state == COLLIDING else tool.wrench
        total = np.zeros(6)
        for _ in range(steps):
            self._steps += 1
            part = (self._steps * period - begin) / span
            goal = pin.integrate(body.model, self._before, part * way)
            self.push(goal, way / span, acceleration, (1.0 - part) * self._felt + part * felt, period)
            self._mujoco.mj_step(model, data)
            total += self.felt()
        if steps:
            self._wrench[:] = total / steps
        self._before[:], self._speed[:], self._felt[:] = tool.q, tool.v, felt
        self._last = tool.tick
        self._check()

    def _check(self) -> None:
        """Raise UnstableError where MuJoCo has given up; it would go on from its start."""
        kinds = self._mujoco.mjtWarning
        for kind in (kinds.mjWARN_BADQPOS, kinds.mjWARN_BADQVEL, kinds.mjWARN_BADQACC):
            if self._data.warning[kind].number:
                raise UnstableError(
                    f"unstable: MuJoCo's simulation at {self._steps * self._model.opt.timestep:.4g} s; choose a "
                    "shorter timestep in its file, or a smaller environment.following"
                )

    def report(self, geometry: LocalGeometry, wrench: np.ndarray) -> None:
        """Fill in what surrounds MuJoCo's tool as it is, and the wrench of its contacts; not stamp and step."""
        mujoco, model, data, body = self._mujoco, self._model, self._data, self._body
        self.refresh()
        speed = np.linalg.norm(body.twist[:3]) + self._radius * np.linalg.norm(body.twist[3:])
        self._gaps.widen(self._epsilon + self._horizon * float(speed))
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_comVel(model, data)
        geometry.epsilon = self._epsilon
        geometry.pose[:] = body.pose
        geometry.q[:], geometry.v[:] = body.q, body.v
        geometry.inertia[:] = body.D.ravel()
        geometry.gravity[:] = body.data.g
        geometry.wrench[:] = wrench
        others = self._tool.others
        geometry.poses[:, :3], geometry.poses[:, 3:] = data.xpos[others], data.xquat[others][:, [1, 2, 3, 0]]
        geometry.twists[:, :3] = self._velocity(others, data.xpos[others])
        geometry.twists[:, 3:] = data.cvel[others, :3]
        self._list(geometry)

    def _velocity(self, bodies: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Velocity of points of bodies in world axes [m/s] (n, 3)."""
        data = self._data
        centres = data.subtree_com[self._model.body_rootid[bodies]]  # at which MuJoCo gives the spatial velocities
        velocity: np.ndarray = data.cvel[bodies, 3:] + _cross(data.cvel[bodies, :3], points - centres)
        return velocity

    def _list(self, geometry: LocalGeometry) -> None:
        """Fill in the constraints on the tool."""
        model, tool, found = self._model, self._tool, self._data.contact
        geoms = np.array(found.geom).reshape(-1, 2)
        own = self._own[geoms]
        (listed,) = np.nonzero(own[:, 0] != own[:, 1])
        second = own[listed, 1]
        mine, other = (np.where(second, geoms[listed, k], geoms[listed, 1 - k]) for k in (1, 0))
        normal = np.where(second[:, None], 1.0, -1.0) * np.array(found.frame).reshape(-1, 9)[listed, :3]
        distance = np.array(found.dist)[listed]
        separation = distance - np.array(found.includemargin)[listed]
        middle = np.array(found.pos).reshape(-1, 3)[listed]
        point, touched = middle + 0.5 * distance[:, None] * normal, middle - 0.5 * distance[:, None] * normal
        link, body = model.geom_bodyid[mine], model.geom_bodyid[other]
        velocity = np.einsum("ij,ij->i", normal, self._velocity(body, touched))
        closing = np.einsum("ij,ij->i", normal, self._velocity(link, point)) - velocity
        keep = np.nonzero(separation < self._epsilon - self._horizon * np.minimum(closing, 0.0))[0]
        if keep.size > CAPACITY:
            keep = np.sort(keep[np.argsort(separation[keep], kind="stable")[:CAPACITY]])
        listed, mine, other, normal, separation = (a[keep] for a in (listed, mine, other, normal, separation))
        point, touched, link, body, velocity = (a[keep] for a in (point, touched, link, body, velocity))
        pair = tool.number[mine] * tool.surroundings + tool.number[other]
        places = (self._in_axes(link, point), self._in_axes(body, touched))
        geometry.resize(keep.size)
        constraints = geometry.constraints[: keep.size]
        constraints["id"] = self._features.number(pair, *places)
        constraints["body"] = pair
        constraints["link"] = tool.link[link]
        constraints["position"] = point - separation[:, None] * normal
        constraints["normal"] = normal
        constraints["separation"] = separation
        constraints["normal_velocity"] = velocity
        rubs = np.array(found.dim)[listed] > 1
        friction = np.where(rubs, np.array(found.friction).reshape(-1, 5)[listed, 0], 0.0)
        constraints["friction_static"] = constraints["friction_kinetic"] = friction
        constraints["restitution"] = self._restitution
        constraints["mobility"] = self._mobility(body, touched, normal, separation)

    def _in_axes(self, bodies: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Points in the axes of their bodies (n, 3)."""
        data = self._data
        way = points - data.xpos[bodies]
        found: np.ndarray = np.einsum("ijk,ij->ik", data.xmat[bodies].reshape(-1, 3, 3), way)
        return found

    def _mobility(
        self, bodies: np.ndarray, points: np.ndarray, normals: np.ndarray, separation: np.ndarray
    ) -> np.ndarray:
        """Of what the tool touches, along the normals [1/kg]; see `WorldSurroundings`."""
        model, data, mujoco = self._model, self._data, self._mujoco
        mobility = np.zeros(bodies.size)
        (moving,) = np.nonzero(model.body_weldid[bodies])
        if not moving.size:
            return mobility
        # n^T J: MuJoCo's motion axes of all coordinates, at the centre of mass of their tree
        arms = points[moving] - data.subtree_com[model.body_rootid[bodies[moving]]]
        J = _cross(arms, normals[moving]) @ data.cdof[:, :3].T + normals[moving] @ data.cdof[:, 3:].T
        J *= self._moved[bodies[moving]]
        solved = np.zeros_like(J)
        mujoco.mj_solveM(model, data, solved, J)
        A = J @ solved.T
        root = model.body_rootid[bodies[moving]]
        together = root[:, None] == root[None, :]
        depth = separation[moving]
        deepest = np.where(together, depth[None, :], np.inf).min(axis=1)
        loaded = depth <= deepest + LOADED
        shared = together & loaded[:, None] & loaded[None, :]
        mobility[moving] = np.where(loaded, np.where(shared, A, 0.0).sum(axis=1), np.diag(A))
        return np.maximum(mobility, 0.0)


class _Gaps:
    """The gaps of the tool's geoms, in which MuJoCo lists contacts without giving them a force.

    Args:
        model: whose geoms and pairs are changed.
        own: which geoms are the tool's.
        release: version of MuJoCo.
    """

    def __init__(self, model: Any, own: np.ndarray, release: tuple[int, int]):
        geoms, pairs = np.nonzero(own)[0], np.nonzero(own[model.pair_geom1] | own[model.pair_geom2])[0]
        self._release = release
        bodies = np.unique(model.geom_bodyid[geoms])
        self._bodies = (model.body_margin, bodies, model.body_margin[bodies])  # how near MuJoCo looks at their geoms
        self._tables = [
            (model.geom_margin, model.geom_gap, geoms, model.geom_margin[geoms], model.geom_gap[geoms]),
            (model.pair_margin, model.pair_gap, pairs, model.pair_margin[pairs], model.pair_gap[pairs]),
        ]

    def widen(self, reach: float) -> None:
        """Let contacts be listed from a distance of `reach` [m] beyond that of their force on."""
        margins, bodies, margin = self._bodies
        margins[bodies] = margin + reach
        for margins, gaps, places, margin, gap in self._tables:
            margins[places], gaps[places] = band(self._release, margin, gap, reach)


def band(release: tuple[int, int], margin: Any, gap: Any, reach: float) -> tuple[Any, Any]:
    """Margin and gap [m] with which contacts are listed `reach` [m] earlier, and have a force as before.

    MuJoCo 3.9 changed what they mean: from there on a contact is listed where distance < margin + gap and has a force
    where distance < margin; before, where distance < margin, and distance < margin - gap.
    """
    return (margin, gap + reach) if release >= (3, 9) else (margin + reach, gap + reach)


class Features:
    """Identities of contacts from survey to survey.

    A contact of two geoms is the same as one before if it has moved by less than SAME on one of the two: a corner of
    the tool on a face stays where it was on the tool, and one of the surroundings on a face of the tool on those.
    """

    def __init__(self) -> None:
        self._pair = np.zeros(0, np.int64)
        self._own = self._other = np.zeros((0, 3))
        self._id = np.zeros(0, np.int64)
        self._count = np.zeros(1, np.int64)  # of the numbers given so far

    def number(self, pair: np.ndarray, own: np.ndarray, other: np.ndarray) -> np.ndarray:
        """The identities (n,) of contacts.

        Args:
            pair: number of the pair of geoms (n,).
            own, other: where they are on the tool and on the other body, in the axes of these [m], (n, 3).
        """
        found = np.zeros(pair.size, np.int64)
        _number(pair, own, other, self._pair, self._own, self._other, self._id, found, self._count)
        self._pair, self._own, self._other, self._id = pair.astype(np.int64), own, other, found
        return found


@numba.njit(cache=True, nogil=True)
def _number(pair, own, other, old_pair, old_own, old_other, old_id, found, count):
    """Fill `found` with the identity of the nearest old contact of the pair, the nearest first, or with a new one."""
    n, m = pair.shape[0], old_pair.shape[0]
    distance, first, second = np.empty(n * m), np.empty(n * m, np.int64), np.empty(n * m, np.int64)
    near = 0
    for i in range(n):
        found[i] = -1
        for k in range(m):
            if pair[i] == old_pair[k]:
                a = b = 0.0
                for j in range(3):
                    a += (own[i, j] - old_own[k, j]) ** 2
                    b += (other[i, j] - old_other[k, j]) ** 2
                if min(a, b) < SAME * SAME:
                    distance[near], first[near], second[near] = min(a, b), i, k
                    near += 1
    taken = np.zeros(m, np.bool_)
    for c in np.argsort(distance[:near], kind="mergesort"):
        if found[first[c]] < 0 and not taken[second[c]]:
            found[first[c]], taken[second[c]] = old_id[second[c]], True
    for i in range(n):
        if found[i] < 0:
            found[i] = (pair[i] << 32) + count[0]
            count[0] += 1


@numba.njit(cache=True, nogil=True)
def _cross(a, b):
    """Products of rows (n, 3); NumPy's takes longer than all else of a survey."""
    c = np.empty((a.shape[0], 3))
    for i in range(a.shape[0]):
        c[i, 0] = a[i, 1] * b[i, 2] - a[i, 2] * b[i, 1]
        c[i, 1] = a[i, 2] * b[i, 0] - a[i, 0] * b[i, 2]
        c[i, 2] = a[i, 0] * b[i, 1] - a[i, 1] * b[i, 0]
    return c


def _moved(model: Any) -> np.ndarray:
    """Whether a coordinate moves a body, (bodies, nv) bool."""
    moved = np.zeros((model.nbody, model.nv), np.bool_)
    for body in range(1, model.nbody):
        first = int(model.body_dofadr[body])
        moved[body] = moved[model.body_parentid[body]]
        moved[body, first : first + int(model.body_dofnum[body])] = True
    return moved


def _radius(model: Any, data: Any, own: np.ndarray, hand: np.ndarray) -> float:
    """How far the tool reaches from its hand point at most [m]; of a linkage, in the pose of the start."""
    reach = np.linalg.norm(data.geom_xpos[own] - hand, axis=1) + model.geom_rbound[own]
    return float(reach.max(initial=0.0))
