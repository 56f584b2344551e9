"""Trees of MJCF files, as MuJoCo's own compiler reads them.

The compiler resolves classes, includes, frames, replication, angles, and masses of geoms and meshes. Bodies, joints and
geoms are taken from the compiled model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.geometry.convex import convex_shape
from haptic_sim.geometry.fields.distances import FieldError
from haptic_sim.geometry.mesh_files import MeshError, merged
from haptic_sim.geometry.meshes import Taken, remedy, take_of_file
from haptic_sim.geometry.sampling import on_sphere
from haptic_sim.parameters import ParameterError
from haptic_sim.worlds.compiled import CompiledTree, body_names, library, pose_of
from haptic_sim.worlds.file_trees import FileShape, FileTree, Meshes, ModelFileError, attach
from haptic_sim.worlds.mjcf_equality import INSTEAD, equality_constraints
from haptic_sim.worlds.parameters import WORLD

PLANE, HFIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH, SDF = range(9)
"""MuJoCo's types of geoms, mjtGeom."""
CORNERS = 200  # of the polytope in an ellipsoid


def load_mjcf(path: Path, meshes: Meshes, allowed: float | None = None) -> tuple[list[FileTree], list[str]]:
    """The trees of a file, that of the world's own geoms first, and what of it is not simulated.

    `meshes` is how meshes are taken, `allowed` the error of what they are taken as [m]: see `FileParameters`.

    Raises:
        ModelFileError: MuJoCo is not installed, or cannot compile the file; or it describes what worlds do not have.
    """
    try:
        mujoco = library()
    except ParameterError as error:
        raise ModelFileError(*(f": is MJCF: {problem}" for problem in error.problems)) from error
    mujoco.set_mju_user_warning(lambda text: None)
    try:
        model = mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise ModelFileError(_located(str(error))) from error
    if problems := list(_problems(model)):
        raise ModelFileError(*problems)
    data, names, ignored = mujoco.MjData(model), body_names(model), list(_unread_shapes(model))
    mujoco.mj_kinematics(model, data)
    trees = []
    if shapes := tuple(_shapes(model, {0: (0, pin.SE3.Identity())}, names, meshes, allowed)):
        trees.append(FileTree(pin.Model(), False, shapes))
    for root in range(1, model.nbody):
        if model.body_parentid[root] == 0:
            bodies = [root, *(i for i in range(root + 1, model.nbody) if model.body_rootid[i] == root)]
            tree = CompiledTree(model, data, bodies, names, free_joints=False)
            trees.append(_file_tree(model, tree, bodies, names, meshes, allowed))
            ignored += tree.ignored
    attach(trees, equality_constraints(model, names))
    inactive = int(model.neq - np.count_nonzero(model.eq_active0))
    ignored += [f"equality constraints that are not active ({inactive})"] if inactive else []
    return trees, ignored


def _located(text: str) -> str:
    """The text of an error of MuJoCo, its line first."""
    text = " ".join(text.removeprefix("XML Error:").split())
    found = re.search(r",? line (\d+)", text)
    return f": MuJoCo: {text}" if found is None else f", line {found[1]}: MuJoCo: {text.replace(found[0], '', 1)}"


def _problems(model: Any) -> Iterator[str]:
    """Features that worlds do not have, and values that no joint has."""
    if model.nflex:
        yield f": <flex>: worlds have no deformable bodies; {INSTEAD}"
    forces = ("stiffness", "damping", "frictionloss", "armature", "limited")
    for i in range(model.ntendon):
        if any(getattr(model, f"tendon_{force}")[i] for force in forces):
            yield f": <tendon> {model.tendon(i).name or i}: worlds have no tendons with forces of their own; {INSTEAD}"
    for i in range(model.njnt):
        v, (lower, upper) = int(model.jnt_dofadr[i]), model.jnt_range[i]
        if lower > upper:
            yield f": joint {model.joint(i).name or i}: its lower limit, {lower:g}, is above its upper one, {upper:g}"
        for name, value in (
            ("damping", model.dof_damping[v]),
            ("frictionloss", model.dof_frictionloss[v]),
            ("armature", model.dof_armature[v]),
            ("stiffness", model.jnt_stiffness[i]),
        ):
            if not value >= 0.0:
                yield f": joint {model.joint(i).name or i}: {name} = {value:g}: must be >= 0"


def _file_tree(
    model: Any, tree: CompiledTree, bodies: list[int], names: tuple[str, ...], meshes: Meshes, allowed: float | None
) -> FileTree:
    """Tree of one body of the world, with frames for its joints and bodies."""
    frames = {0: 0}
    for body in bodies:
        above = frames[int(model.body_parentid[body])]
        for joint in tree.joints.get(body, ()):
            frame = pin.Frame(tree.model.names[joint], joint, above, pin.SE3.Identity(), pin.FrameType.JOINT)
            above = tree.model.addFrame(frame, False)
        joint, X_JB = tree.places[body]
        frames[body] = tree.model.addFrame(pin.Frame(names[body], joint, above, X_JB, pin.FrameType.BODY), False)
    return FileTree(
        tree.model,
        tree.free,
        tuple(_shapes(model, {body: tree.places[body] for body in bodies}, names, meshes, allowed)),
        tuple(law for law in tree.laws if not law.idle),
        tuple(tree.start),
        tuple(tree.balanced),
        root_damping=tree.root_damping,
    )


def _collides(model: Any, geom: int) -> bool:
    paired = model.npair and geom in (*model.pair_geom1, *model.pair_geom2)
    return bool(model.geom_contype[geom] or model.geom_conaffinity[geom] or paired)


def _unread_shapes(model: Any) -> Iterator[str]:
    """Geoms for collisions that are none here, or another shape."""
    kinds = [int(model.geom_type[i]) for i in range(model.ngeom) if _collides(model, i)]
    if count := kinds.count(HFIELD):
        yield f"collisions of height fields ({count})"
    if count := sum(kind > MESH for kind in kinds):
        yield f"collisions of signed distance fields ({count})"
    if count := kinds.count(ELLIPSOID):
        yield f"collisions of ellipsoids but as polytopes of {CORNERS} corners ({count})"


def _shapes(
    model: Any, places: dict[int, tuple[int, pin.SE3]], names: tuple[str, ...], meshes: Meshes, allowed: float | None
) -> Iterator[FileShape]:
    """The shapes for collisions of bodies that are at `places`: joint, and pose in its axes."""
    for i in range(model.ngeom):
        body = int(model.geom_bodyid[i])
        if body not in places or not _collides(model, i):
            continue
        joint, X_JB = places[body]
        pose = X_JB * pose_of(model.geom_pos[i], model.geom_quat[i])
        link = names[body] if body else WORLD
        if model.geom_type[i] == MESH:
            mesh = int(model.geom_dataid[i])
            taken = _of_mesh(model, mesh, names[body], meshes, allowed)
            for geometry in taken.geometry:
                yield FileShape(link, joint, pose, geometry, taken, model.mesh(mesh).name)
        else:
            for geometry in convex_geometries(model, i):
                yield FileShape(link, joint, pose, geometry)


def convex_geometries(model: Any, geom: int) -> list[coal.CollisionGeometry]:
    """The convex shapes of a geom that is no mesh, in its axes."""
    kind, size = int(model.geom_type[geom]), model.geom_size[geom].tolist()
    match kind:
        case 0:
            return [coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0)]
        case 2:
            return [coal.Sphere(size[0])]
        case 3:
            return [coal.Capsule(size[0], 2.0 * size[1])]
        case 4:
            return [convex_shape(on_sphere(CORNERS) * size)]
        case 5:
            return [coal.Cylinder(size[0], 2.0 * size[1])]
        case 6:
            return [coal.Box(*(2.0 * np.array(size)))]
    return []


def _of_mesh(model: Any, mesh: int, body: str, meshes: Meshes, allowed: float | None) -> Taken:
    """Collision geometry of a mesh, in the axes that MuJoCo gives it."""
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    face, faces = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
    try:
        vertices = np.array(model.mesh_vert[first : first + count], float)
        triangles = merged(vertices, model.mesh_face[face : face + faces])
        return take_of_file(triangles, "hull" if meshes == "either" else meshes, allowed)  # as MuJoCo takes it
    except (MeshError, FieldError) as error:
        raise ModelFileError(f": link {body}: mesh {model.mesh(mesh).name} {error}{remedy(error, 'meshes')}") from error
