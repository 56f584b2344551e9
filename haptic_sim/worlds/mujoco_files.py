"""Worlds that MuJoCo simulates: the tree of the tool as a Pinocchio model, and all other bodies by their names.

A local model simulates the tool alone, and surveys report what surrounds the tool. So the `WorldSetup` of a MuJoCo
model has one tree, that of the held body, without shapes: its joints (free, ball, hinge, slide) in MuJoCo's order, with
inertia, armature, damping, dry friction, springs and limits. The other bodies are frames, and those that move are
`elsewhere`.

Coordinates are MuJoCo's but for two: quaternions are x y z w, not w x y z, and a free body is given by its centre of
mass C instead of the origin O of its axes (see `haptic_sim.worlds.building`), whose velocity in world axes is

    v_C = v_O + R (w x c)        c: centre of mass, and w: angular velocity, in the body's axes.

Generalised forces follow from equal power: the torque about O is that about C, plus c x R^T f.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pinocchio as pin

from haptic_sim import inputs
from haptic_sim.dynamics.gravity import balance
from haptic_sim.dynamics.loose import PINOCCHIO_COORDINATES
from haptic_sim.geometry.shapes import locate
from haptic_sim.hand.held import unholdable
from haptic_sim.parameters import ParameterError, did_you_mean, listed
from haptic_sim.vectors import cross
from haptic_sim.worlds.compiled import CompiledTree, body_names, library, pose_of
from haptic_sim.worlds.mujoco_actuators import hold_at_control
from haptic_sim.worlds.mujoco_meshes import MujocoMesh, mesh_notes, sampled_meshes, with_pieces
from haptic_sim.worlds.parameters import WORLD, MujocoParameters
from haptic_sim.worlds.world_setup import MATERIAL, WorldSetup

LISTED = 20  # names in a message
STRONG = 100.0  # [m/s^2] of gravity, more than of any planet: the file is in other units


@dataclass(frozen=True)
class MujocoTree:
    """The tool of a MuJoCo model, as a world for a local model, and what leads from one to the other.

    Attributes (N: bodies of the MuJoCo model, G: its geoms):
        world: the tool's tree; the names of all bodies.
        link: joint of `world.model` that moves each body, 0 for those that are not of the tool, (N,) int64.
        others: the bodies that move elsewhere, in the order of `WorldSetup.elsewhere`, int64.
        q, v: where the tool's coordinates are in qpos, in the order of ours, and in qvel; int64, and a slice.
        centre: centre of mass of a free tool in its body's axes [m], (3,); None for a tool that is no free body.
        number: of each geom, among those of the tool and among the others that may touch it; -1 for the rest, (G,).
        surroundings: how many geoms may touch the tool: the pair of its geom i and of geom j is i surroundings + j.
        actuators: those that act on the tool, int64.
        held: the body that is held.
        hold: the point where it is, in its axes [m], (3,).
    """

    world: WorldSetup
    link: np.ndarray
    others: np.ndarray
    q: np.ndarray
    v: slice
    centre: np.ndarray | None
    number: np.ndarray
    surroundings: int
    actuators: np.ndarray
    held: int
    hold: np.ndarray

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


class Loaded(NamedTuple):
    """A scene at its start: MuJoCo's model and data, and the meshes that are not convex."""

    model: Any
    data: Any
    meshes: tuple[MujocoMesh, ...]


def load(parameters: MujocoParameters, folder: Path = Path()) -> tuple[Any, Any]:
    """Model and data of a scene at its start.

    Raises:
        ParameterError: MuJoCo is missing, or cannot read the file; or a mesh is not what `meshes` asks for.
    """
    return load_meshes(parameters, folder)[:2]


def load_meshes(parameters: MujocoParameters, folder: Path = Path()) -> Loaded:
    """Load a model, as `load`, with the meshes of `scene.meshes`, not with MuJoCo's `sampled_meshes`."""
    mujoco, path = library(), locate(parameters.file, folder)
    key = f"scene.file = {inputs.shown(str(path))}"
    try:
        inputs.read_bytes(path, inputs.DATA)  # MuJoCo would wait for a pipe
        # MuJoCo's own way to warn is a file in the working folder; what matters is read from the data.
        mujoco.set_mju_user_warning(lambda text: None)
        model, meshes = mujoco.MjModel.from_xml_path(str(path)), tuple[MujocoMesh, ...]()
        balanced = list[int]()
        if parameters.gravity_compensation and parameters.tool in (names := body_names(model)):
            balanced = _tree(model, names.index(parameters.tool))
        if balanced or parameters.meshes != "hull":
            model, meshes = with_pieces(path, model, parameters, balanced)
    except inputs.InputError as error:
        raise ParameterError([f"{key}: {error}"]) from error
    except ValueError as error:
        raise ParameterError([f"{key}: MuJoCo: {' '.join(str(error).split())}"]) from error
    data = mujoco.MjData(model)
    if parameters.keyframe is not None:
        number = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_KEY, parameters.keyframe)
        if number < 0:
            hint = did_you_mean(parameters.keyframe, [model.key(i).name for i in range(model.nkey)], LISTED)
            raise ParameterError([f"scene.keyframe = {parameters.keyframe}: unknown keyframe{hint}"])
        mujoco.mj_resetDataKeyframe(model, data, number)
    return Loaded(model, data, meshes)


def last_body(path: Path) -> str:
    """The body of a file that moves and comes last, such as the hand of an arm; empty if there is none.

    Raises:
        ParameterError: as of `load`.
    """
    model, _ = load(MujocoParameters(file=str(path), tool=""))
    names = body_names(model)
    return next((names[i] for i in range(model.nbody - 1, 0, -1) if _holdable(model, i)), "")


def _holdable(model: Any, body: int) -> bool:
    """Whether a body has degrees of freedom; mocap bodies have none."""
    return bool(model.body_weldid[body]) and bool(model.body_treeid[body] >= 0)


def build_mujoco_world(parameters: MujocoParameters, folder: Path = Path()) -> WorldSetup:
    """The world of a scene, for the local model.

    Raises:
        ParameterError: it cannot be loaded, has a <flex>, or its tool is missing or fixed.
    """
    model, data, meshes = load_meshes(parameters, folder)
    return find_tool(model, data, parameters, meshes=(*meshes, *sampled_meshes(model))).world


def find_tool(
    model: Any,
    data: Any,
    parameters: MujocoParameters,
    prefix: str = "scene.",
    meshes: tuple[MujocoMesh, ...] = (),
) -> MujocoTree:
    """The tool of a model, in the state that `data` has now.

    Args:
        model, data: MuJoCo's.
        parameters: `tool`, `hold` and how near a linkage is to being blocked; the file is not read.
        prefix: what goes before the keys in messages.
        meshes: that are not convex, as they are taken.

    Raises:
        ParameterError: as of `build_mujoco_world`.
    """
    mujoco, names = library(), body_names(model)
    if parameters.tool not in names:
        raise ParameterError(
            [f"{prefix}tool = {parameters.tool}: unknown body{did_you_mean(parameters.tool, names, LISTED)}"]
        )
    held = names.index(parameters.tool)
    if not _holdable(model, held):
        raise ParameterError([f"{prefix}tool = {parameters.tool}: must be a body that moves"])
    bodies = _tree(model, held)
    if model.nflex:
        raise ParameterError([f"{prefix}file: has a <flex>, whose contacts are not rendered; take it out of the file"])
    mujoco.mj_kinematics(model, data)  # where everything is at the start
    tree = CompiledTree(model, data, bodies, names)
    if tree.model.nv > PINOCCHIO_COORDINATES:
        reason = f"its linkage has {tree.model.nv} velocities: must be at most {PINOCCHIO_COORDINATES}"
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
    balanced = balance(tree.model, tree.balanced)
    number, pairs, surroundings = _pairs(model, set(bodies), names)
    q_place, first, nv = tree.q_place(), model.body_dofadr[bodies[0]], tree.model.nv
    actuators = _actuators(mujoco, model, set(bodies))
    laws, at_control = hold_at_control(mujoco, model, data, tree.laws, actuators, int(first))
    could_hold = False
    if parameters.actuators == "none":
        could_hold = sum(law.stiffness for law in laws) > sum(law.stiffness for law in tree.laws)
        laws, at_control = list(tree.laws), []
    notes = _notes(mujoco, model, tree, at_control, could_hold, meshes)
    touching = [int(g) for g in np.flatnonzero(number >= 0)]
    of_meshes = mesh_notes(model, meshes, touching, remedies=bool(prefix))
    free = tree.centre is not None
    single = free and tree.model.njoints == 2
    world = WorldSetup(
        model=tree.model,
        hand=hand,
        geometry=pin.GeometryModel(),
        q=np.zeros(tree.model.nq),
        v=np.zeros(nv),
        planar=False,
        own=np.zeros((0, len(MATERIAL))),
        tree_start=np.zeros(1, np.int64),
        tree_size=np.array([nv], np.int64),
        free_joints=np.array([1] if single else [], np.int64),
        free_inertia=np.array([tree.model.inertias[1].inertia] if single else [], float).reshape(-1, 3, 3),
        body_names=(WORLD, *tree.joint_bodies),
        shape_bodies=(),
        rank_tolerance=parameters.rank_tolerance,
        rank_fade=parameters.rank_fade,
        laws=tuple(law for law in laws if not law.idle),
        notes=(
            *(f"{prefix}tool = {parameters.tool}: {note}" for note in notes),
            *(f"{prefix}meshes: {note}" for note in of_meshes),
        ),
        elsewhere=tuple(names[i] for i in others),
        pairs=pairs,
        balanced=balanced,
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
        np.array(actuators, np.int64),
        held,
        hold,
    )
    tool.configuration(data.qpos, world.q)
    tool.velocity(world.q, data.qvel, world.v)
    for law in world.laws:
        if law.limited:
            world.q[law.position] = min(max(world.q[law.position], law.lower), law.upper)
    return tool


def _notes(
    mujoco: Any,
    model: Any,
    tree: CompiledTree,
    at_control: list[int],
    could_hold: bool,
    meshes: tuple[MujocoMesh, ...],
) -> Iterator[str]:
    """Notes on the tool: what is not simulated, or by MuJoCo alone, and which of its actuators act, or could."""
    names = {i: _named(model.actuator(i), i) for i in _actuators(mujoco, model, set(tree.places))}
    if at_control:
        acting = listed(map(names.pop, at_control), LISTED)
        yield f"its actuators hold it at their control, whatever force that takes: {acting}"
    if names:
        remedy = "; scene.actuators=control lets its servos hold it" if could_hold else ""
        yield f"its actuators exert no force: {listed(names.values(), LISTED)}{remedy}"
    if (strength := float(np.linalg.norm(tree.model.gravity.linear))) > STRONG:
        yield (
            f"falls with {strength:.4g} m/s^2, as in a file in centimetres and grams: here lengths are in metres, "
            "masses in kilograms, forces in newtons"
        )
    if held := list(_held(mujoco, model, set(tree.places))):
        yield f"acts in MuJoCo's world, and is felt only as far as it moves other bodies: {listed(held, LISTED)}"
    # MuJoCo lists contacts of such a geom where it overlaps another one, whatever the gap
    known = {mesh.geom for mesh in meshes}
    sampled = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_SDF).tolist()
    fields = [_named(model.geom(i), i) for i in sampled if i not in known]
    if fields:
        late = listed(fields, LISTED)
        yield f"contacts with signed distance fields of MuJoCo are felt only once they are found to overlap: {late}"
    medium = [name for name in ("density", "viscosity") if getattr(model.opt, name)]
    ignored = [*tree.ignored, *(f"<option {name}>" for name in medium)]
    shaped = {int(b) for b, t in zip(model.geom_bodyid, model.geom_contype, strict=True) if t}
    if len({tree.places[body][0] for body in shaped & tree.places.keys()}) > 1:
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


def _bodies_of(mujoco: Any, model: Any) -> dict[Any, Callable[[int], set[int]]]:
    """The bodies that an object belongs to, or acts on, by the type of the object."""
    return {
        mujoco.mjtObj.mjOBJ_BODY: lambda i: {i},
        mujoco.mjtObj.mjOBJ_SITE: lambda i: {int(model.site_bodyid[i])},
        mujoco.mjtObj.mjOBJ_GEOM: lambda i: {int(model.geom_bodyid[i])},
        mujoco.mjtObj.mjOBJ_JOINT: lambda i: {int(model.jnt_bodyid[i])},
        mujoco.mjtObj.mjOBJ_TENDON: lambda i: _on_tendon(mujoco, model, i),
    }


def _held(mujoco: Any, model: Any, bodies: set[int]) -> Iterator[str]:
    """Tendons and equality constraints that act on a tool with these bodies."""
    of_kind = _bodies_of(mujoco, model)
    for i in range(model.neq):
        kind = {
            mujoco.mjtEq.mjEQ_JOINT: mujoco.mjtObj.mjOBJ_JOINT,
            mujoco.mjtEq.mjEQ_TENDON: mujoco.mjtObj.mjOBJ_TENDON,
        }.get(mujoco.mjtEq(model.eq_type[i]), mujoco.mjtObj(model.eq_objtype[i]))
        ends = [int(end) for end in (model.eq_obj1id[i], model.eq_obj2id[i]) if end >= 0]
        if kind in of_kind and any(bodies & of_kind[kind](end) for end in ends):
            yield f"the equality constraint {_named(model.eq(i), i)}"
    for i in range(model.ntendon):
        if bodies & _on_tendon(mujoco, model, i):
            yield f"the tendon {_named(model.tendon(i), i)}"


def _actuators(mujoco: Any, model: Any, bodies: set[int]) -> list[int]:
    """Numbers of the actuators that act on a tool with these bodies."""
    of_kind, found = _bodies_of(mujoco, model), []
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
            found.append(i)
    return found


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
        known = listed(filter(None, sites), LISTED) or "none"
        raise ParameterError([f"{prefix}hold = {hold}: unknown site of {parameters.tool} (known: {known})"])
    return np.array(model.site_pos[sites[hold]])


def _add_bodies(tree: CompiledTree, model: Any, data: Any, names: tuple[str, ...]) -> None:
    """Frames of all bodies; of the world's if it has shapes."""
    for body in range(model.nbody):
        if body == 0 and not model.body_geomnum[0]:
            continue
        joint, X_JB = tree.places.get(body, (0, None))
        X_JB = pose_of(data.xpos[body], data.xquat[body]) if X_JB is None else X_JB
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


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Vector product (3,) of two vectors, in a twentieth of the time of NumPy's: once or twice in each step."""
    return np.array(cross.py_func(a.tolist(), b.tolist()))


def _rotation(quat_xyzw: np.ndarray) -> np.ndarray:
    x, y, z, w = (float(value) for value in quat_xyzw)
    R: np.ndarray = pin.Quaternion(w, x, y, z).matrix()
    return R
