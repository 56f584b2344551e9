"""Worlds that MuJoCo simulates: the tree of the tool as a Pinocchio model, and all other bodies by their names.

A local model simulates the tool alone, and surveys tell it what surrounds the tool. So the `World` of a MuJoCo model
has one tree, that of the held body, without shapes: its joints (free, ball, hinge, slide) in MuJoCo's order, with
inertia, armature, damping, dry friction, springs and limits. The other bodies are frames, and those that move are
`elsewhere`.

Coordinates are MuJoCo's but for two: quaternions are x y z w, not w x y z, and a free body is given by its centre of
mass C instead of the origin O of its axes (see `haptic_sim.worlds.building`), whose velocity in world axes is

    v_C = v_O + R (w x c)        c: centre of mass, and w: angular velocity, in the body's axes.

Generalised forces follow from equal power: the torque about O is that about C, plus c x R^T f.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin

from haptic_sim import inputs
from haptic_sim.dynamics.joints import JointLaw
from haptic_sim.dynamics.multibody import free_joint
from haptic_sim.geometry.shapes import locate
from haptic_sim.hand.held import unholdable
from haptic_sim.parameters import ParameterError
from haptic_sim.vectors import cross
from haptic_sim.worlds.building import MAX_COORDINATES, World
from haptic_sim.worlds.parameters import WORLD, MujocoParameters

REQUIREMENT = "mujoco>=3.5"  # from there on the margins of two geoms add up
FREE, BALL, SLIDE, HINGE = range(4)
"""MuJoCo's types of joints, mjtJoint."""
LISTED = 20  # names in a message


def library() -> Any:
    """The module `mujoco`.

    Raises:
        ParameterError: it is not installed, or too old.
    """
    try:
        import mujoco  # not above: it is optional
    except ImportError as error:
        reason = f"MuJoCo is needed and not there: python3 -m pip install '{REQUIREMENT}'"
        raise ParameterError([reason]) from error
    if version(mujoco) < (3, 5):
        raise ParameterError([f"mujoco {mujoco.__version__} found: python3 -m pip install '{REQUIREMENT}'"])
    return mujoco


def version(mujoco: Any) -> tuple[int, int]:
    """Major and minor version."""
    major, minor, *_ = mujoco.__version__.split(".")
    return int(major), int(minor)


@dataclass(frozen=True)
class MujocoTree:
    """The tool of a MuJoCo model, as a world for a local model, and what leads from one to the other.

    Attributes (N: bodies of the MuJoCo model, G: its geoms):
        world: the tool's tree; the names of all bodies.
        link: joint of `world.model` that moves each body, 0 for those that are not of the tool, (N,) int64.
        others: the bodies that move elsewhere, in the order of `World.elsewhere`, int64.
        q, v: where the tool's coordinates are in qpos, in the order of ours, and in qvel; int64, and a slice.
        centre: centre of mass of a free tool in its body's axes [m], (3,); None for a tool that is no free body.
        number: of each geom, among those of the tool and among the others that may touch it; -1 for the rest, (G,).
        surroundings: how many geoms may touch the tool: the pair of its geom i and of geom j is i surroundings + j.
    """

    world: World
    link: np.ndarray
    others: np.ndarray
    q: np.ndarray
    v: slice
    centre: np.ndarray | None
    number: np.ndarray
    surroundings: int

    def configuration(self, qpos: np.ndarray, q: np.ndarray) -> None:
        """Fill in our configuration (nq,)."""
        q[:] = qpos[self.q]
        if self.centre is not None:
            q[:3] += _rotation(q[3:7]) @ self.centre

    def velocity(self, q: np.ndarray, qvel: np.ndarray, v: np.ndarray) -> None:
        """Fill in our velocity (nv,) in the configuration q."""
        v[:] = qvel[self.v]
        if self.centre is not None:
            v[:3] += _rotation(q[3:7]) @ _cross(v[3:6], self.centre)

    def set_state(self, q: np.ndarray, v: np.ndarray, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Fill in the tool's part of MuJoCo's state from ours."""
        qpos[self.q], qvel[self.v] = q, v
        if self.centre is not None:
            R = _rotation(q[3:7])
            qpos[self.q[:3]] -= R @ self.centre
            qvel[self.v.start : self.v.start + 3] -= R @ _cross(v[3:6], self.centre)

    def push(self, q: np.ndarray, force: np.ndarray, applied: np.ndarray) -> None:
        """Fill in the tool's part of MuJoCo's generalised forces from ours (nv,)."""
        applied[self.v] = force
        if self.centre is not None:
            applied[self.v.start + 3 : self.v.start + 6] += _cross(self.centre, _rotation(q[3:7]).T @ force[:3])

    def force(self, q: np.ndarray, theirs: np.ndarray, force: np.ndarray) -> None:
        """Fill in our generalised force (nv,) from MuJoCo's."""
        force[:] = theirs[self.v]
        if self.centre is not None:
            force[3:6] -= _cross(self.centre, _rotation(q[3:7]).T @ force[:3])


def load(parameters: MujocoParameters, folder: Path = Path()) -> tuple[Any, Any]:
    """Model and data of a scene at its start.

    Raises:
        ParameterError: MuJoCo is missing, or cannot read the file.
    """
    mujoco, path = library(), locate(parameters.file, folder)
    key = f"scene.file = {inputs.shown(str(path))}"
    try:
        inputs.read_bytes(path, inputs.DATA)  # MuJoCo would wait for a pipe
        # MuJoCo's own way to warn is a file in the working folder; what matters is read from the data.
        mujoco.set_mju_user_warning(lambda text: None)
        model = mujoco.MjModel.from_xml_path(str(path))
        if parameters.gravity_compensation and parameters.tool in (names := body_names(model)):
            model = _balanced(mujoco, path, _tree(model, names.index(parameters.tool)))
    except inputs.InputError as error:
        raise ParameterError([f"{key}: {error}"]) from error
    except ValueError as error:
        raise ParameterError([f"{key}: MuJoCo: {' '.join(str(error).split())}"]) from error
    data = mujoco.MjData(model)
    if parameters.keyframe is not None:
        number = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_KEY, parameters.keyframe)
        if number < 0:
            known = _listed([model.key(i).name for i in range(model.nkey)])
            raise ParameterError([f"scene.keyframe = {parameters.keyframe}: unknown keyframe (known: {known})"])
        mujoco.mj_resetDataKeyframe(model, data, number)
    return model, data


def _balanced(mujoco: Any, path: Path, bodies: list[int]) -> Any:
    """The model of a file, with the weight of these bodies balanced; MuJoCo has to know of it when it compiles."""
    specification = mujoco.MjSpec.from_file(str(path))
    specification.compile()  # numbers the bodies
    for body in specification.bodies:
        if body.id in bodies:
            body.gravcomp = 1.0
    return specification.compile()


def build_mujoco_world(parameters: MujocoParameters, folder: Path = Path()) -> World:
    """The world of a scene, for the local model.

    Raises:
        ParameterError: it cannot be loaded, or its tool is missing, fixed, or has what a local model does not render.
    """
    model, data = load(parameters, folder)
    return find_tool(model, data, parameters).world


def body_names(model: Any) -> tuple[str, ...]:
    """Names of all bodies; of one without a name, `body` and its number."""
    return tuple(model.body(i).name or f"body{i}" for i in range(model.nbody))


def find_tool(model: Any, data: Any, parameters: MujocoParameters, prefix: str = "scene.") -> MujocoTree:
    """The tool of a model, in the state that `data` has now.

    Args:
        model, data: MuJoCo's.
        parameters: `tool`, `hold` and how near a linkage is to being blocked; the file is not read.
        prefix: what goes before the keys in messages.

    Raises:
        ParameterError: as of `build_mujoco_world`.
    """
    mujoco, names = library(), body_names(model)
    if parameters.tool not in names:
        raise ParameterError([f"{prefix}tool = {parameters.tool}: unknown body (known: {_listed(names)})"])
    held = names.index(parameters.tool)
    if not model.body_weldid[held]:
        raise ParameterError([f"{prefix}tool = {parameters.tool}: must be a body that moves"])
    bodies = _tree(model, held)
    problems = [f"{prefix}tool = {parameters.tool}: {why}" for why in _not_rendered(mujoco, model, set(bodies))]
    if problems:
        raise ParameterError(problems)
    mujoco.mj_kinematics(model, data)  # where everything is at the start
    tree = _Tree(model, data, bodies, names)
    if tree.model.nv > MAX_COORDINATES:
        reason = f"its linkage has {tree.model.nv} velocities: must be at most {MAX_COORDINATES}"
        raise ParameterError([f"{prefix}tool = {parameters.tool}: {reason}"])
    joint, X_JB = tree.places[held]
    hold = _hold(mujoco, model, held, parameters, prefix)
    hand = tree.model.addFrame(
        pin.Frame("hand", joint, pin.SE3(X_JB.rotation, X_JB.act(hold)), pin.FrameType.OP_FRAME), False
    )
    problem = unholdable(tree.model.inertias[joint])
    if problem:
        raise ParameterError([f"{prefix}tool = {parameters.tool}: cannot be held: its link {problem}"])
    others = [i for i in range(1, model.nbody) if i not in tree.places and _moves(model, i)]
    _add_bodies(tree, model, data, names)
    number, pairs, surroundings = _pairs(model, set(bodies), names)
    q_place, first, nv = tree.q_place(), model.body_dofadr[bodies[0]], tree.model.nv
    free = tree.centre is not None
    alone = free and tree.model.njoints == 2
    world = World(
        model=tree.model,
        hand=hand,
        geometry=pin.GeometryModel(),
        q=np.zeros(tree.model.nq),
        v=np.zeros(nv),
        planar=False,
        own=np.zeros((0, 3)),
        tree_start=np.zeros(1, np.int64),
        tree_size=np.array([nv], np.int64),
        free_joints=np.array([1] if alone else [], np.int64),
        free_inertia=np.array([tree.model.inertias[1].inertia] if alone else [], float).reshape(-1, 3, 3),
        body_names=(WORLD, *tree.joint_bodies),
        shape_bodies=(),
        rank_tolerance=parameters.rank_tolerance,
        rank_fade=parameters.rank_fade,
        laws=tuple(law for law in tree.laws if not law.idle),
        notes=tuple(f"{prefix}tool = {parameters.tool}: {note}" for note in tree.notes()),
        elsewhere=tuple(names[i] for i in others),
        pairs=pairs,
    )
    link = np.zeros(model.nbody, np.int64)
    for body, (joint, _) in tree.places.items():
        link[body] = joint
    tool = MujocoTree(
        world,
        link,
        np.array(others, np.int64),
        q_place,
        slice(int(first), int(first) + nv),
        tree.centre,
        number,
        surroundings,
    )
    tool.configuration(data.qpos, world.q)
    tool.velocity(world.q, data.qvel, world.v)
    for law in world.laws:
        if law.limited:
            world.q[law.position] = min(max(world.q[law.position], law.lower), law.upper)
    return tool


class _Tree:
    """The bodies of the tool as a Pinocchio model.

    Attributes:
        places: joint of each body, and the body's pose in its axes.
        centre: as of `MujocoTree`.
    """

    def __init__(self, model: Any, data: Any, bodies: list[int], names: tuple[str, ...]):
        self.model, self._mj = pin.Model(), model
        self.model.name = WORLD
        self.model.gravity.linear[:] = model.opt.gravity * (1.0 - float(model.body_gravcomp[bodies[0]]))
        self.places: dict[int, tuple[int, pin.SE3]] = {}
        self.centre: np.ndarray | None = None
        self.joint_bodies: list[str] = []
        self.laws: list[JointLaw] = []
        self._order: list[int] = []  # place in qpos of each of our coordinates
        self._ignored: list[str] = []
        if self._disabled("GRAVITY"):
            self.model.gravity.linear[:] = 0.0
        for body in bodies:
            self._add(body, data, names)

    def _add(self, body: int, data: Any, names: tuple[str, ...]) -> None:
        mj = self._mj
        above = int(mj.body_parentid[body])
        X_PB = _pose(mj.body_pos[body], mj.body_quat[body])
        if above in self.places:
            joint, X_JP = self.places[above]
            X_JB = X_JP * X_PB
        else:  # on what does not move
            joint, X_JB = 0, _pose(data.xpos[above], data.xquat[above]) * X_PB
        inertia = _inertia(mj, body)
        first = int(mj.body_jntadr[body])
        for k in range(first, first + int(mj.body_jntnum[body])):
            name = mj.joint(k).name or f"{names[body]}.{k - first}"
            self.joint_bodies.append(names[body])
            joint, X_JB = self._add_joint(k, name, joint, X_JB, inertia)
        self.places[body] = joint, X_JB
        self.model.appendBodyToJoint(joint, inertia, X_JB)

    def _add_joint(self, k: int, name: str, parent: int, X_PB: pin.SE3, inertia: pin.Inertia) -> tuple[int, pin.SE3]:
        """Add joint k of MuJoCo between a joint and a body that is at X_PB in its axes; returns as `places`."""
        mj, model = self._mj, self.model
        kind, q, v = int(mj.jnt_type[k]), int(mj.jnt_qposadr[k]), int(mj.jnt_dofadr[k])
        if kind == FREE:
            self.centre = self._centre_of(int(mj.jnt_bodyid[k]))
            self._order += [q, q + 1, q + 2, q + 4, q + 5, q + 6, q + 3]
            self._ignore(name, v, 6, ("armature", "damping", "frictionloss"))
            return model.addJoint(0, free_joint(), pin.SE3.Identity(), name), pin.SE3(np.eye(3), -self.centre)
        axis, anchor = np.array(mj.jnt_axis[k]), np.array(mj.jnt_pos[k])
        X_BJ = pin.SE3(np.eye(3), anchor)  # the joint's axes are the body's, at its anchor
        at = float(mj.qpos0[q])  # the coordinate in which the body is where the file has it
        if kind == BALL:
            joint, placed = pin.JointModelSpherical(), X_BJ
            self._order += [q + 1, q + 2, q + 3, q]
        elif kind == HINGE:
            joint, placed = pin.JointModelRevoluteUnaligned(axis), X_BJ * pin.SE3(pin.exp3(-at * axis), np.zeros(3))
            self._order.append(q)
        else:
            joint, placed = pin.JointModelPrismaticUnaligned(axis), X_BJ * pin.SE3(np.eye(3), -at * axis)
            self._order.append(q)
        count = 3 if kind == BALL else 1
        number = model.addJoint(parent, joint, X_PB * placed, name)
        first = model.idx_vs[number]
        model.armature[first : first + count] = mj.dof_armature[v : v + count]
        limited = bool(mj.jnt_limited[k]) and not self._disabled("LIMIT")
        lower, upper = mj.jnt_range[k] if limited and count == 1 else (-np.inf, np.inf)
        for i in range(count):
            self.laws.append(
                JointLaw(
                    name,
                    velocity=first + i,
                    position=model.idx_qs[number] if count == 1 else -1,
                    lower=float(lower),
                    upper=float(upper),
                    damping=float(mj.dof_damping[v + i]),
                    friction=float(mj.dof_frictionloss[v + i]),
                    stiffness=float(mj.jnt_stiffness[k]) if count == 1 else 0.0,
                    reference=float(mj.qpos_spring[q]),
                )
            )
        if count > 1 and (limited or mj.jnt_stiffness[k]):
            self._ignored.append(f"limits and springs of the ball joint {name}")
        for table in ("dof_dampingpoly", "jnt_stiffnesspoly"):  # since MuJoCo 3.6
            values = getattr(mj, table, None)
            if values is not None and np.any(values[v if table.startswith("dof") else k]):
                self._ignored.append(f"{table[4:]} of {name}")
        return number, X_BJ.inverse()

    def _disabled(self, flag: str) -> bool:
        return bool(self._mj.opt.disableflags & getattr(library().mjtDisableBit, f"mjDSBL_{flag}"))

    def _ignore(self, name: str, v: int, count: int, tables: tuple[str, ...]) -> None:
        said = [table for table in tables if np.any(getattr(self._mj, f"dof_{table}")[v : v + count])]
        if said:
            self._ignored.append(f"{', '.join(said)} of {name}")

    def _centre_of(self, root: int) -> np.ndarray:
        """Centre of mass of a body with those that are fixed on it, in its axes [m] (3,)."""
        mj, poses = self._mj, {root: pin.SE3.Identity()}
        total = _inertia(mj, root)
        for body in range(root + 1, mj.nbody):
            if mj.body_weldid[body] == root:
                poses[body] = poses[int(mj.body_parentid[body])] * _pose(mj.body_pos[body], mj.body_quat[body])
                total = total + poses[body].act(_inertia(mj, body))
        centre: np.ndarray = np.array(total.lever)
        return centre

    def q_place(self) -> np.ndarray:
        """As `MujocoTree.q`."""
        return np.array(self._order, np.int64)

    def notes(self) -> Iterator[str]:
        """What of the tool is not simulated."""
        opt = self._mj.opt
        medium = [name for name in ("density", "viscosity") if getattr(opt, name)]
        ignored = [*self._ignored, *(f"<option {name}>" for name in medium)]
        shaped = {int(b) for b, t in zip(self._mj.geom_bodyid, self._mj.geom_contype, strict=True) if t}
        if len({self.places[body][0] for body in shaped & self.places.keys()}) > 1:
            ignored.append("contacts of its links with each other")
        if ignored:
            yield f"not felt: {', '.join(ignored)}"


def _tree(model: Any, body: int) -> list[int]:
    """All bodies that hang on what moves and carries a body, in MuJoCo's order."""
    root = body
    while model.body_weldid[model.body_parentid[root]]:
        root = int(model.body_parentid[root])
    found = [root]
    for other in range(root + 1, model.nbody):
        if model.body_parentid[other] in found:
            found.append(other)
    return found


def _moves(model: Any, body: int) -> bool:
    """Whether a body has degrees of freedom, or is moved by the program (mocap)."""
    return bool(model.body_weldid[body]) or model.body_mocapid[model.body_rootid[body]] >= 0


def _not_rendered(mujoco: Any, model: Any, bodies: set[int]) -> Iterator[str]:
    """What of a tool with these bodies a local model cannot render; one reason each."""
    of_kind = {
        mujoco.mjtObj.mjOBJ_BODY: lambda i: {i},
        mujoco.mjtObj.mjOBJ_SITE: lambda i: {int(model.site_bodyid[i])},
        mujoco.mjtObj.mjOBJ_GEOM: lambda i: {int(model.geom_bodyid[i])},
        mujoco.mjtObj.mjOBJ_JOINT: lambda i: {int(model.jnt_bodyid[i])},
        mujoco.mjtObj.mjOBJ_TENDON: lambda i: _on_tendon(mujoco, model, i),
    }
    if model.nflex:
        yield "the model has a <flex>, which is not rendered"
    if len({float(model.body_gravcomp[body]) for body in bodies}) > 1:
        yield "its bodies differ in gravcomp, which is not rendered"
    for i in range(model.neq):
        kind = {
            mujoco.mjtEq.mjEQ_JOINT: mujoco.mjtObj.mjOBJ_JOINT,
            mujoco.mjtEq.mjEQ_TENDON: mujoco.mjtObj.mjOBJ_TENDON,
        }.get(mujoco.mjtEq(model.eq_type[i]), mujoco.mjtObj(model.eq_objtype[i]))
        ends = [int(end) for end in (model.eq_obj1id[i], model.eq_obj2id[i]) if end >= 0]
        if kind in of_kind and any(bodies & of_kind[kind](end) for end in ends):
            yield f"the equality constraint {_named(model.eq(i), i)} acts on it, which is not rendered"
    for i in range(model.ntendon):
        if bodies & _on_tendon(mujoco, model, i):
            yield f"the tendon {_named(model.tendon(i), i)} acts on it, which is not rendered"
    through = {
        mujoco.mjtTrn.mjTRN_JOINT: mujoco.mjtObj.mjOBJ_JOINT,
        mujoco.mjtTrn.mjTRN_JOINTINPARENT: mujoco.mjtObj.mjOBJ_JOINT,
        mujoco.mjtTrn.mjTRN_TENDON: mujoco.mjtObj.mjOBJ_TENDON,
        mujoco.mjtTrn.mjTRN_SITE: mujoco.mjtObj.mjOBJ_SITE,
        mujoco.mjtTrn.mjTRN_SLIDERCRANK: mujoco.mjtObj.mjOBJ_SITE,
        mujoco.mjtTrn.mjTRN_BODY: mujoco.mjtObj.mjOBJ_BODY,
    }
    for i in range(model.nu):
        kind = through.get(mujoco.mjtTrn(model.actuator_trntype[i]))
        ends = [int(end) for end in model.actuator_trnid[i] if end >= 0]
        if kind is not None and any(bodies & of_kind[kind](end) for end in ends):
            yield f"the actuator {_named(model.actuator(i), i)} acts on it, which is not rendered"


def _on_tendon(mujoco: Any, model: Any, tendon: int) -> set[int]:
    """The bodies that a tendon acts on."""
    wrap = mujoco.mjtWrap
    tables = {
        wrap.mjWRAP_JOINT: model.jnt_bodyid,
        wrap.mjWRAP_SITE: model.site_bodyid,
        wrap.mjWRAP_SPHERE: model.geom_bodyid,
        wrap.mjWRAP_CYLINDER: model.geom_bodyid,
    }
    first = int(model.tendon_adr[tendon])
    places = range(first, first + int(model.tendon_num[tendon]))
    kinds = [(i, tables.get(wrap(model.wrap_type[i]))) for i in places]
    return {int(table[model.wrap_objid[i]]) for i, table in kinds if table is not None}


def _named(view: Any, number: int) -> str:
    return view.name or f"number {number}"


def _hold(mujoco: Any, model: Any, body: int, parameters: MujocoParameters, prefix: str) -> np.ndarray:
    """The hold point in the body's axes [m] (3,)."""
    hold = parameters.hold
    if hold is None:
        return np.array(model.body_ipos[body])
    if not isinstance(hold, str):
        return np.array(hold)
    sites = {model.site(i).name: i for i in range(model.nsite) if model.site_bodyid[i] == body}
    if hold not in sites:
        known = _listed([name for name in sites if name]) or "none"
        raise ParameterError([f"{prefix}hold = {hold}: unknown site of {parameters.tool} (known: {known})"])
    return np.array(model.site_pos[sites[hold]])


def _add_bodies(tree: _Tree, model: Any, data: Any, names: tuple[str, ...]) -> None:
    """Frames of all bodies; of the world's if it has shapes."""
    for body in range(model.nbody):
        if body == 0 and not model.body_geomnum[0]:
            continue
        joint, X_JB = tree.places.get(body, (0, None))
        X_JB = _pose(data.xpos[body], data.xquat[body]) if X_JB is None else X_JB
        tree.model.addFrame(pin.Frame(names[body], joint, X_JB, pin.FrameType.BODY), False)


def _pairs(model: Any, bodies: set[int], names: tuple[str, ...]) -> tuple[np.ndarray, tuple[tuple[str, str], ...], int]:
    """Numbers of the geoms, names of the bodies of each pair of geoms, and how many geoms may touch the tool."""
    number = np.full(model.ngeom, -1, np.int64)
    paired = {*model.pair_geom1.tolist(), *model.pair_geom2.tolist()}
    touch = [i for i in range(model.ngeom) if model.geom_contype[i] or model.geom_conaffinity[i] or i in paired]
    own = [i for i in touch if model.geom_bodyid[i] in bodies]
    others = [i for i in touch if model.geom_bodyid[i] not in bodies]
    number[own], number[others] = np.arange(len(own)), np.arange(len(others))
    pairs = tuple((names[model.geom_bodyid[j]], names[model.geom_bodyid[i]]) for i in own for j in others)
    return number, pairs, len(others)


def _inertia(model: Any, body: int) -> pin.Inertia:
    """Of a body, in its axes."""
    X_BC = _pose(model.body_ipos[body], model.body_iquat[body])
    moments = X_BC.rotation @ np.diag(model.body_inertia[body]) @ X_BC.rotation.T
    return pin.Inertia(float(model.body_mass[body]), np.array(model.body_ipos[body]), moments)


def _pose(position: np.ndarray, quat_wxyz: np.ndarray) -> pin.SE3:
    w, x, y, z = (float(value) for value in quat_wxyz)
    return pin.SE3(pin.Quaternion(w, x, y, z).normalized().matrix(), np.array(position))


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Vector product (3,) of two vectors, in a twentieth of the time of NumPy's: once or twice in each step."""
    return np.array(cross.py_func(a.tolist(), b.tolist()))


def _rotation(quat_xyzw: np.ndarray) -> np.ndarray:
    x, y, z, w = (float(value) for value in quat_xyzw)
    R: np.ndarray = pin.Quaternion(w, x, y, z).matrix()
    return R


def _listed(names: Any) -> str:
    names = list(names)
    return ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")
