"""A world of MuJoCo as the surroundings of a local model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from haptic_sim.contact_rows import CAPACITY, ContactRows
from haptic_sim.dynamics.energy import UnstableError
from haptic_sim.kernels import kernel
from haptic_sim.linalg import cholesky
from haptic_sim.messages import ToolState
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, array, record, shared, value
from haptic_sim.tool.mobility import LOADED
from haptic_sim.tool.mujoco_books import MujocoBooks
from haptic_sim.tool.mujoco_fields import MeshContacts
from haptic_sim.tool.surroundings import SimulatedSurroundings
from haptic_sim.worlds.compiled import library, version
from haptic_sim.worlds.mujoco_files import MujocoTree
from haptic_sim.worlds.mujoco_meshes import MujocoMesh

BY_FIELDS = 1 << 62  # of the numbers of contacts by fields, which are less; those of MuJoCo's contacts are less, too
SAME = 1e-3  # [m] by which a contact moves at most on one of its two bodies while it keeps its identity


class MujocoSurroundings(SimulatedSurroundings):
    """Surroundings of a tool that MuJoCo simulates with it; see `haptic_sim.tool.surroundings.Surroundings`.

    MuJoCo steps with its own time step, as often as fits into the time of the survey. Its tool gets the forces of a
    `Follower` as generalised forces, and pushes other bodies by MuJoCo's contacts. (A mocap body would have no velocity
    in them.) The tool's weight and Coriolis forces are added, and damping, springs and dry friction of its joints taken
    away: those of the local model's tool are felt, and not twice. Its actuators exert no force; others keep the control
    of the keyframe.

    The constraints are MuJoCo's contacts of the tool with other bodies, from the tool's geoms being near others on: the
    geoms get a gap of `epsilon`, in which contacts are listed and without force. A contact is as deep as where MuJoCo's
    force begins (`margin`), and keeps its identity while it stays where it was (SAME) on the tool or on what it
    touches. Friction has MuJoCo's coefficients, the first of two directions where there are two, as far as the
    contact has these dimensions.

    Args:
        model, data: MuJoCo's; the tool's gaps, damping, springs, dry friction and actuators in the model are changed.
        tool: of `model`, and in the state of `data`, which is at time 0.
        epsilon, horizon: as of `SimulatedSurroundings`.
        rate, period, following: as of a `Follower`.
        restitution: of the contacts.
        meshes: that are not convex; contacts of those with fields are found by these.
        wrench: whether the wrench of MuJoCo's contacts is needed where nothing but the tool moves and contacts are
            found by fields. Without it the tool is placed there at the state that is surveyed, as in our own worlds:
            pieces that MuJoCo collides for a mesh do not hold it back.
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
        following: float = 20.0,
        restitution: float = 0.0,
        meshes: Iterable[MujocoMesh] = (),
        wrench: bool = True,
    ):
        own, world = tool.link[model.geom_bodyid] > 0, tool.world
        super().__init__(
            world,
            tool.others.size,
            epsilon=epsilon,
            horizon=horizon,
            radius=_radius(model, data, own, world.hand_pose()[:3]),
            rate=rate,
            step=float(model.opt.timestep),
            period=period,
            following=following,
        )
        self._mujoco, self._model, self._data, self._tool = library(), model, data, tool
        self._restitution = restitution
        tool.set_state(world.q, world.v, data.qpos, data.qvel)
        for table in (model.dof_damping, model.dof_frictionloss):
            table[tool.v] = 0.0
        joints = np.nonzero(tool.link[model.jnt_bodyid] > 0)[0]
        model.jnt_stiffness[joints] = 0.0
        for table in (model.actuator_gainprm, model.actuator_biasprm, model.actuator_gear):
            table[tool.actuators] = 0.0
        self._force = np.zeros(world.model.nv)
        release = version(self._mujoco)
        self._fields = MeshContacts(model, data, tool, meshes, restitution, margins=release >= (3, 9))
        self._by_fields = 0  # of the rows, the first ones
        self._placed = self._fields.covered.any() and not tool.others.size and not wrench
        self._gaps = _Gaps(model, own, release)
        self._features = Features()
        self._link = tool.link
        self._books: MujocoBooks | None = None  # none are kept
        self._bodies = Packed(_trees(model, data, tool, self._fields.covered)).arrays
        self._allocate_for(CAPACITY)
        self._refresh()

    def warm_up(self) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""
        self._features.number(np.zeros(1, np.int64), np.zeros((1, 3)), np.zeros((1, 3)))
        self._fields.warm_up()
        super().warm_up()

    @property
    def omissions(self) -> int | None:
        """Leaves of signed distance fields that surveys have left out; None: no fields."""
        return self._fields.omissions

    def keep_books(self) -> MujocoBooks:
        """Keep an energy balance of the bodies around the tool from now on, which is returned."""
        self._books = MujocoBooks(self._model, self._data, self._tool.link > 0)
        return self._books

    def push(
        self,
        q: np.ndarray,
        v: np.ndarray,
        acceleration: np.ndarray,
        felt: np.ndarray,
        place: np.ndarray,
        period: float,
    ) -> None:
        """Let MuJoCo's tool follow another, until the next push; see `Follower.force`."""
        self._refresh()
        self._apply(self._follower.force(q, v, acceleration, felt, place, period))

    def felt(self) -> np.ndarray:
        """The wrench at the hand of what held MuJoCo's tool back in its last step, weighted as THESIS (5.12) (6,)."""
        body, force = self._body, self._force
        self._tool.force(body.q, self._data.qfrc_constraint, force)
        if not force.any():
            return np.zeros(6)
        acceleration = body.J_H @ np.linalg.solve(body.D, force)
        wrench: np.ndarray = np.linalg.pinv(body.inverse_inertia.reshape(6, 6), 1e-9, hermitian=True) @ acceleration
        return wrench

    def _apply(self, force: np.ndarray) -> None:
        """Let MuJoCo's tool have generalised forces (nv,) besides those of gravity and velocity."""
        self._tool.push(self._body.q, force + self._body.data.nle, self._data.qfrc_applied)

    def _advance(self, tool: ToolState) -> None:
        """Let MuJoCo step until it is less than one of its steps behind the state of the local model's tool."""
        if self._placed:
            self._tool.set_state(tool.q, tool.v, self._data.qpos, self._data.qvel)
            self._refresh()
            return
        total, steps = np.zeros(6), 0
        self._refresh()
        for force in self._follower.follow(tool):
            self._apply(force)
            if self._books is not None:
                self._books.begin()
            self._mujoco.mj_step(self._model, self._data)
            if self._books is not None:
                self._books.end()
            total += self.felt()
            steps += 1
            self._refresh()
        if steps:
            self._wrench[:] = total / steps
        self._check()

    def _check(self) -> None:
        """Raise UnstableError where MuJoCo has given up; it would go on from its start."""
        kinds = self._mujoco.mjtWarning
        for kind in (kinds.mjWARN_BADQPOS, kinds.mjWARN_BADQVEL, kinds.mjWARN_BADQACC):
            if self._data.warning[kind].number:
                raise UnstableError(
                    f"unstable: MuJoCo's simulation at {self._follower.time:.4g} s; choose a shorter timestep in its "
                    "file, or a smaller environment.following"
                )

    def _refresh(self) -> None:
        """Bring the tool's body up to date with the engine's."""
        body, data = self._body, self._data
        self._tool.configuration(data.qpos, body.q)
        self._tool.velocity(body.q, data.qvel, body.v)
        body.refresh()

    def _fill_others(self, poses: np.ndarray, twists: np.ndarray) -> None:
        """Fill in where the other bodies are, as of `LocalGeometry`."""
        mujoco, model, data, others = self._mujoco, self._model, self._data, self._tool.others
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_comVel(model, data)
        poses[:, :3], poses[:, 3:] = data.xpos[others], data.xquat[others][:, [1, 2, 3, 0]]
        # MuJoCo gives the spatial velocities at the centres of mass of whole trees
        arm, v, w = data.xpos[others] - data.subtree_com[model.body_rootid[others]], twists[:, :3], twists[:, 3:]
        v[:], w[:] = data.cvel[others, 3:], data.cvel[others, :3]
        v += w[:, [1, 2, 0]] * arm[:, [2, 0, 1]] - w[:, [2, 0, 1]] * arm[:, [1, 2, 0]]

    def _find_contacts(self, reach: float) -> None:
        """Fill `rows` with the contacts of the tool nearer than `reach` [m], and with those of what it touches."""
        self._gaps.widen(reach)
        self._mujoco.mj_fwdPosition(self._model, self._data)
        contact, n = self._data.contact, self._data.ncon
        first = self._by_fields = self._fields.find(reach)
        if n + first > self.rows.capacity:
            self._allocate_for(2 * (n + first))
        rows, known = self.rows, self._fields.rows
        for name in ("id", "body", "point", "normal", "separation", "wall", "friction") if first else ():
            getattr(rows, name)[:first] = getattr(known, name)[:first]
        found = self._found
        found.geom[:n], found.frame[:n], found.pos[:n] = contact.geom, contact.frame, contact.pos
        found.dist[:n], found.includemargin[:n] = contact.dist, contact.includemargin
        found.dim[:n], found.friction[:n] = contact.dim, contact.friction
        self.rows.count = fill_rows(n, first, found, self._bodies, self._rows)

    def _identities(self, listed: np.ndarray) -> np.ndarray:
        """Identities of rows from survey to survey (n,)."""
        first, found = self._by_fields, self._found
        theirs = listed[listed >= first]
        numbers = self._features.number(self.rows.wall[theirs], found.own[theirs], found.other[theirs])
        if theirs.size == listed.size:
            return numbers
        # listed in ascending order: those by fields come first
        return np.concatenate([BY_FIELDS + self.rows.id[listed[listed < first]], numbers])

    def _allocate_for(self, capacity: int) -> None:
        """Allocate the arrays for `capacity` contacts."""
        rows = ContactRows(capacity)
        rows.restitution[:] = self._restitution
        self._found = Packed(allocate(Found, {"contacts": capacity})).arrays
        self._allocate(rows, self._bodies.start, self._bodies.size)


@record
class Trees(NamedTuple):
    """Bodies of MuJoCo as kernels for contacts take them (`BodyArrays`), and what that is made from.

    J_W, L and u are filled in for trees that the tool touches, and for those that these touch.
    """

    J_W: np.ndarray = array("see `BodyArrays`", "nv", 6)
    L: np.ndarray = array("see `BodyArrays`", "nv", "width")
    u: np.ndarray = array("scaled velocity L^T v", "nv")
    support: np.ndarray = shared("whether a coordinate moves a body", "bodies", "nv", dtype=np.bool_)
    tree_of: np.ndarray = shared("tree of each body, -1 of one that does not move", "bodies", dtype=np.int64)
    start: np.ndarray = shared("first coordinate of each tree", "trees", dtype=np.int64)
    size: np.ndarray = shared("number of coordinates of each tree", "trees", dtype=np.int64)
    hand_tree: int = value("tree of the tool")
    known: np.ndarray = array("whether a tree is filled in", "trees", dtype=np.bool_)
    body: np.ndarray = shared("body of each geom", "geoms", dtype=np.int32)
    number: np.ndarray = shared("see `MujocoTree`", "geoms", dtype=np.int64)
    surroundings: int = value("see `MujocoTree`")
    covered: np.ndarray = shared("pairs with contacts by fields, by their number", "geom_pairs", dtype=np.bool_)
    own: np.ndarray = shared("whether a body is of the tool", "bodies", dtype=np.bool_)
    root: np.ndarray = shared("body at whose centre of mass the motion of a coordinate is given", "nv", dtype=np.int64)
    qvel: np.ndarray = shared("MuJoCo's velocity", "nv")
    cdof: np.ndarray = shared("motion of each coordinate [angular, linear] at the centre of mass", "nv", 6)
    centre: np.ndarray = shared("centre of mass of what hangs on a body, world axes", "bodies", 3, unit="m")
    p_WB: np.ndarray = shared("position of the bodies", "bodies", 3, unit="m")
    R_WB: np.ndarray = shared("orientation of the bodies, row major", "bodies", 9)
    M: np.ndarray = shared("inertia: the lower triangle by rows, without what is always zero", "entries")
    M_count: np.ndarray = shared("number of entries of each row", "nv", dtype=np.int32)
    M_first: np.ndarray = shared("first entry of each row", "nv", dtype=np.int32)
    M_column: np.ndarray = shared("columns of the entries", "entries", dtype=np.int32)


@record
class Found(NamedTuple):
    """MuJoCo's contacts, and where rows made from them are."""

    geom: np.ndarray = array("two geoms", "contacts", 2, dtype=np.int32)
    frame: np.ndarray = array("normal from the first to the second, and two tangents", "contacts", 9)
    pos: np.ndarray = array("midpoint", "contacts", 3, unit="m")
    dist: np.ndarray = array("distance", "contacts", unit="m")
    includemargin: np.ndarray = array("distance at which a force begins", "contacts", unit="m")
    dim: np.ndarray = array("dimensions of the force", "contacts", dtype=np.int32)
    friction: np.ndarray = array("coefficients: sliding ones first", "contacts", 5)
    own: np.ndarray = array("place of a row on the tool, axes of its body", "contacts", 3, unit="m")
    other: np.ndarray = array("place of a row on the other body, axes of that", "contacts", 3, unit="m")


def _trees(model: Any, data: Any, tool: MujocoTree, covered: np.ndarray) -> Trees:
    """The record of a model, with the arrays of `data`, which stay where they are."""
    bodies, nv = model.nbody, model.nv
    moves = np.zeros((bodies, nv), np.bool_)
    tree_of = np.full(bodies, -1, np.int64)
    for body in range(1, bodies):
        first, count = int(model.body_dofadr[body]), int(model.body_dofnum[body])
        moves[body], tree_of[body] = moves[model.body_parentid[body]], tree_of[model.body_parentid[body]]
        if count:
            moves[body, first : first + count], tree_of[body] = True, model.dof_treeid[first]
    start, size = np.unique(model.dof_treeid, return_index=True, return_counts=True)[1:]
    return allocate(
        Trees,
        {"nv": nv, "width": int(size.max(initial=1)), "trees": start.size},
        support=moves,
        tree_of=tree_of,
        start=start.astype(np.int64),
        size=size.astype(np.int64),
        hand_tree=int(tree_of[np.argmax(tool.link > 0)]),
        body=model.geom_bodyid,
        number=tool.number,
        surroundings=tool.surroundings,
        covered=covered,
        own=tool.link > 0,
        root=model.body_rootid[model.dof_bodyid].astype(np.int64),
        qvel=data.qvel,
        cdof=data.cdof,
        centre=data.subtree_com,
        p_WB=data.xpos,
        R_WB=data.xmat,
        M=data.M,
        M_count=model.M_rownnz,
        M_first=model.M_rowadr,
        M_column=model.M_colind,
    )


@kernel
def fill_rows(count, first, found, trees, rows):
    """Make rows of the contacts of the tool, and of those that what it touches rests against; returns how many.

    Args:
        count: MuJoCo's contacts.
        first: rows that are there already, of contacts of the tool by fields.
        found: `Found`; the places of the rows are filled in.
        trees: `Trees`; those of the rows are filled in.
        rows: `RowArrays`.
    """
    own, tree_of, known = trees.own, trees.tree_of, trees.known
    known[:] = False
    _fill_tree(trees.hand_tree, trees)
    for n in range(first):
        rows.coordinate[n] = -1
        if tree_of[rows.body[n, 0]] >= 0:
            _fill_tree(tree_of[rows.body[n, 0]], trees)
    n = first
    for i in range(count):
        g, h = found.geom[i, 0], found.geom[i, 1]
        a, b = trees.body[g], trees.body[h]
        if own[a] == own[b]:
            continue
        if own[b]:
            g, h = h, g
        if trees.covered[trees.number[g] * trees.surroundings + trees.number[h]]:
            continue
        _fill_row(i, n, found, trees, rows, own[a])
        other = tree_of[b if own[a] else a]
        if other >= 0:
            _fill_tree(other, trees)
        n += 1
    touches = n
    changed = n > 0
    while changed:  # what rests on, or against, a tree that is known is known next
        changed = False
        for i in range(count):
            a, b = trees.body[found.geom[i, 0]], trees.body[found.geom[i, 1]]
            if own[a] or own[b] or found.dist[i] - found.includemargin[i] > LOADED:
                continue
            s, t = tree_of[a], tree_of[b]
            if s >= 0 and t >= 0 and known[s] != known[t]:
                _fill_tree(t if known[s] else s, trees)
                changed = True
    for i in range(count if touches else 0):
        a, b = trees.body[found.geom[i, 0]], trees.body[found.geom[i, 1]]
        if own[a] or own[b] or found.dist[i] - found.includemargin[i] > LOADED:
            continue
        t = max(tree_of[a], tree_of[b])
        if t >= 0 and known[t]:
            _fill_row(i, n, found, trees, rows, False)
            n += 1
    return n


@kernel
def _fill_row(i, n, found, trees, rows, turned):
    """Make row n of contact i, with the first of its bodies as the second of the row if it is `turned`."""
    g, h = found.geom[i, 0], found.geom[i, 1]
    sign = 1.0
    if turned:
        g, h, sign = h, g, -1.0
    a, b = trees.body[g], trees.body[h]
    half = 0.5 * found.dist[i]
    for k in range(3):
        normal = sign * found.frame[i, k]
        rows.normal[n, k] = normal
        rows.point[n, k] = found.pos[i, k] + half * normal
    for k in range(3):
        x = y = 0.0
        for j in range(3):
            x += trees.R_WB[b, 3 * j + k] * (rows.point[n, j] - trees.p_WB[b, j])
            y += trees.R_WB[a, 3 * j + k] * (rows.point[n, j] - 2.0 * half * rows.normal[n, j] - trees.p_WB[a, j])
        found.own[n, k], found.other[n, k] = x, y
    rows.separation[n] = found.dist[i] - found.includemargin[i]
    rows.body[n, 0], rows.body[n, 1] = a, b
    rows.coordinate[n] = -1
    rows.wall[n] = trees.number[h] * trees.surroundings + trees.number[g]
    friction = found.friction[i, 0] if found.dim[i] > 1 else 0.0
    rows.friction[n, 0] = rows.friction[n, 1] = friction
    rows.resistance[n, 0] = found.friction[i, 3] if found.dim[i] > 4 else 0.0
    rows.resistance[n, 1] = found.friction[i, 2] if found.dim[i] > 3 else 0.0


@kernel
def _fill_tree(t, trees):
    """Fill in J_W, L and u of a tree that is not known yet."""
    if trees.known[t]:
        return
    trees.known[t] = True
    J_W, L, u, cdof = trees.J_W, trees.L, trees.u, trees.cdof
    first, n = trees.start[t], trees.size[t]
    for j in range(first, first + n):
        c = trees.centre[trees.root[j]]
        wx, wy, wz = cdof[j, 0], cdof[j, 1], cdof[j, 2]
        J_W[j, 0] = cdof[j, 3] + c[1] * wz - c[2] * wy
        J_W[j, 1] = cdof[j, 4] + c[2] * wx - c[0] * wz
        J_W[j, 2] = cdof[j, 5] + c[0] * wy - c[1] * wx
        J_W[j, 3], J_W[j, 4], J_W[j, 5] = wx, wy, wz
        for k in range(j - first + 1):
            L[j, k] = 0.0
        for e in range(trees.M_first[j], trees.M_first[j] + trees.M_count[j]):
            L[j, trees.M_column[e] - first] = trees.M[e]
    block = L[first : first + n]
    cholesky(block, n, block)
    for k in range(first, first + n):
        u[k] = 0.0
        for j in range(k, first + n):
            u[k] += L[j, k - first] * trees.qvel[j]


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


@kernel
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


def _radius(model: Any, data: Any, own: np.ndarray, hand: np.ndarray) -> float:
    """Radius of a body about its origin, or of the tool about its hand point [m]; of a linkage, at the start."""
    reach = (
        np.where(own, np.linalg.norm(data.geom_xpos - hand, axis=1), np.linalg.norm(model.geom_pos, axis=1))
        + model.geom_rbound
    )
    moves = model.body_weldid[model.geom_bodyid] > 0
    return float(reach[moves].max(initial=0.0))
