"""The trees of files, as parts of the plan of a world."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin

from haptic_sim.constraints.parameters import AnyWorldConstraintParameters, JointCouplingParameters
from haptic_sim.dynamics.joints import JointLaw, free_joint_laws
from haptic_sim.dynamics.multibody import coordinate_names
from haptic_sim.geometry.meshes import Taken
from haptic_sim.parameters import did_you_mean
from haptic_sim.worlds.file_joints import listed
from haptic_sim.worlds.file_trees import FileTree, ModelFileError
from haptic_sim.worlds.model_files import load_trees
from haptic_sim.worlds.parameters import (
    WORLD,
    FileParameters,
    Material,
    WorldParameters,
)
from haptic_sim.worlds.plan import Link, Place, Plan, Shape, free_link, to_centre
from haptic_sim.worlds.world_setup import MATERIAL, MeshOfBody

QUATERNION_TOLERANCE = 1e-3  # of the length of a given one


def add_files(plan: Plan, parameters: WorldParameters, folder: Path) -> Iterator[str]:
    for name, file in parameters.files.items():
        path: str | Path = file.path
        try:
            source = file.source(folder)
            path = source.path
            trees, unread = load_trees(source, file.meshes, file.error, free=file.base == "free")
            trees = [replace(tree, laws=_counted(tree.laws, file)) for tree in trees]
            if file.constraints == "none":
                names = [one for tree in trees for one in tree.constraints]
                unread = [*unread, f"constraints {listed(names)}"] if names else unread
                trees = [replace(tree, constraints={}) for tree in trees]
            for tree in trees if file.limits != "all" else ():
                tree.model.lowerEffortLimit[:], tree.model.upperEffortLimit[:] = -np.inf, np.inf
            states, moved = _file_states(file, trees)
            for tree, (_, q, _) in zip(trees, states, strict=True):
                tree.follow(q)
        except ModelFileError as error:
            yield from (f"files.{name}.path = {path}{problem}" for problem in error.problems)
        except ValueError as error:
            yield f"files.{name}{error}"
        else:
            for tree, (X_FB, q, v) in zip(trees, states, strict=True):
                _add_tree(plan, name, file, tree, file.pose * X_FB, q, v)
            notes = [f"not simulated: {', '.join(unread)}"] if unread else []
            notes += [f"starts at the limits of {', '.join(moved)}"] if moved else []
            if notes:
                plan.notes.append(f"files.{name}.path = {path}: {'; '.join(notes)}")


def _counted(laws: tuple[JointLaw, ...], file: FileParameters) -> tuple[JointLaw, ...]:
    """The laws of a file with the limits that its parameters let count."""
    changed = []
    for law in laws:
        if file.limits == "none":
            law = replace(law, lower=-np.inf, upper=np.inf)
        if file.limits != "all":
            law = replace(law, speed=np.inf)
        changed.append(replace(law, restitution=file.limit_restitution))
    return tuple(changed)


def _file_states(
    file: FileParameters, trees: list[FileTree]
) -> tuple[list[tuple[pin.SE3, np.ndarray, np.ndarray]], list[str]]:
    """Start of each tree: pose of its root instead of that in the file, coordinates of its joints, all velocities.

    Besides, the joints that start at a limit, because the file shows them beyond it.

    Raises:
        ValueError: wrong numbers; the text goes after the key of the file.
    """
    nq = sum(tree.model.nq + 7 * tree.free for tree in trees)
    nv = sum(tree.model.nv + 6 * tree.free for tree in trees)
    for key, values, count in (("q", file.q, nq), ("v", file.v, nv)):
        if values is not None and len(values) != count:
            names = ", ".join(name for tree in trees for name in _coordinates_of(tree, key == "v"))
            raise ValueError(f".{key} has {len(values)} values: must have {count}: {names}")
    _check_names(file, trees)
    q, v = np.array(file.q or (), float), np.array(file.v or (0.0,) * nv)
    states, moved = [], []
    for tree in trees:
        X_FB, joints = pin.SE3.Identity(), tree.configuration()
        tree.set_joints(joints, file.joints)
        if file.q is not None:
            if tree.free:
                root, q = q[:7], q[7:]
                if not abs(np.linalg.norm(root[3:]) - 1.0) < QUATERNION_TOLERANCE:
                    raise ValueError(".q: a quaternion in it must have length 1")
                root[3:] /= np.linalg.norm(root[3:])
                X_FB = pin.XYZQUATToSE3(root) * tree.root_pose().inverse()
            joints, q = q[: tree.model.nq], q[tree.model.nq :]
            if not pin.isNormalized(tree.model, joints, QUATERNION_TOLERANCE):
                raise ValueError(".q: a quaternion in it must have length 1")
            joints = pin.normalize(tree.model, joints)
        for law in tree.laws:
            if law.limited and not law.lower <= joints[law.position] <= law.upper:
                if file.q is not None or law.name in file.joints:
                    key = "q" if file.joints == {} else "joints"
                    unit = tree.unit_of(law.name)
                    raise ValueError(
                        f".{key}: joint {law.name} = {joints[law.position]:g} {unit}: must be in its range, "
                        f"{law.lower:g} to {law.upper:g} {unit}"
                    )
                joints[law.position] = min(max(joints[law.position], law.lower), law.upper)
                moved.append(law.name)
        count = tree.model.nv + 6 * tree.free
        states.append((X_FB, joints, v[:count]))
        v = v[count:]
    return states, moved


def _check_names(file: FileParameters, trees: list[FileTree]) -> None:
    """Raise a ValueError unless all names of `files.NAME.joints` are of joints with one coordinate."""
    known = [name for tree in trees for name in tree.single_joints()]
    for name in file.joints:
        if name not in known:
            raise ValueError(f".joints.{name}: unknown joint{did_you_mean(name, known)}")
    if file.joints and file.q is not None:
        raise ValueError(".joints: must be left out where q gives all coordinates")


def _coordinates_of(tree: FileTree, velocities: bool) -> list[str]:
    """Names of the coordinates of a tree, or of its velocities, in the order of `files.NAME.q`."""
    base = ("vx", "vy", "vz", "wx", "wy", "wz") if velocities else ("x", "y", "z", "qx", "qy", "qz", "qw")
    return [f"base.{part}" for part in base if tree.free] + list(coordinate_names(tree.model)[velocities])


def _add_tree(
    plan: Plan, name: str, file: FileParameters, tree: FileTree, X_WF: pin.SE3, q: np.ndarray, v: np.ndarray
) -> None:
    """Links and shapes of one tree of a file; X_WF: pose of what it has fixed in the world."""
    model = tree.model
    full = {body: f"{name}/{body}" for body, _, _ in tree.bodies()}
    full.setdefault(WORLD, f"{name}/{WORLD}")
    first = {joint: full[body] for body, joint, _ in reversed(list(tree.bodies()))}
    # Joint axes J of the file become axes C of the model: those at the centre of mass for free bodies, which take other
    # coordinates; the others stay. What the file fixes goes with joint 0.
    weights = model.inertias if file.gravity_compensation else tree.balanced or [pin.Inertia.Zero()] * model.njoints
    links: list[Link | None] = [None]
    X_CJ = [X_WF]
    if tree.free:
        X_FB = tree.root_pose()
        inertia = X_FB.actInv(model.inertias[0])
        laws = free_joint_laws(first[0], tree.root_damping, tree.root_damping)
        links[0] = free_link(first[0], inertia, X_WF * X_FB, v[:6], X_FB.actInv(weights[0]), laws)
        X_CJ[0] = to_centre(inertia) * X_FB.inverse()
        v = v[6:]
    for joint in range(1, model.njoints):
        above = tree.parent_body(joint)
        parent, inertia = model.parents[joint], model.inertias[joint].copy()
        i, j = model.idx_qs[joint], model.idx_vs[joint]
        q_J, v_J = q[i : i + model.nqs[joint]], v[j : j + model.nvs[joint]]
        pose = X_CJ[parent] * model.jointPlacements[joint]
        link_name = first.get(joint, f"{name}/{model.names[joint]}")
        if links[parent] is None and model.joints[joint].shortname() == "JointModelFreeFlyer":
            links.append(free_link(link_name, inertia, pose * pin.XYZQUATToSE3(q_J), v_J, weights[joint].copy()))
            X_CJ.append(to_centre(inertia))
            continue
        link = Link(
            name=link_name,
            joint_name=f"{name}/{model.names[joint]}",
            joint=model.joints[joint],
            parent=links[parent],
            pose=pose,
            inertia=inertia,
            q=q_J,
            v=v_J,
            parent_body=None if above is None else full[above],
            source=(model, joint),
            balanced=weights[joint].copy(),
            bare=joint not in first,
            laws=tuple(
                replace(
                    law,
                    velocity=law.velocity - model.idx_vs[joint],
                    position=law.position - model.idx_qs[joint] if law.position >= 0 else -1,
                )
                for law in tree.laws
                if 0 <= law.velocity - model.idx_vs[joint] < model.nvs[joint]
            ),
        )
        links.append(link)
        X_CJ.append(pin.SE3.Identity())
    plan.links += [link for link in links if link is not None]
    for body, joint, pose in tree.bodies():
        carrier = links[joint]
        X_CB = X_CJ[joint] * pose
        centre = X_CB.translation.copy()
        if carrier is not None and first[joint] == full[body]:
            centre = carrier.inertia.lever.copy()
        plan.places[full[body]] = Place(carrier, X_CB, centre, _material(file, tree, body), name, tree)
    plan.constraints |= {f"{name}/{one}": _of_file(name, given) for one, given in tree.constraints.items()}
    bound = any(getattr(given, "to", "") == WORLD for given in tree.constraints.values())
    if full[WORLD] not in plan.places and (bound or any(shape.body == WORLD for shape in tree.shapes)):
        plan.places[full[WORLD]] = Place(None, X_WF, X_WF.translation.copy(), file, name)
    last: Taken | None = None
    hulls = [
        (one.taken.error, one) for one in tree.shapes if one.taken and one.taken.chosen == "hull" and one.taken.error
    ]
    if hulls:
        error, worst = max(hulls, key=lambda pair: pair[0])
        of = f"mesh {worst.mesh} of {worst.body}"
        plan.notes.append(f"files.{name}.path = {file.path}: hulls collide, largest error {error:.2g} m: {of}")
    for i, shape in enumerate(tree.shapes):
        full_name, taken = full[shape.body], shape.taken
        if taken is not None and taken is not last:
            source = f"files.{name}.path = {file.path}: mesh {shape.mesh} of {shape.body}"
            plan.meshes.append(MeshOfBody(full_name, len(plan.shapes), len(taken.geometry), taken, source))
            if taken.chosen in ("pieces", "field"):
                plan.notes.append(f"{source}: {taken.summary}")
        last = taken
        field = None if taken is None else taken.field
        pose = X_CJ[shape.joint] * shape.pose
        plan.shapes.append(Shape(full_name, f"{full_name}.{i}", pose, shape.geometry, field))


def _of_file(file: str, given: AnyWorldConstraintParameters) -> AnyWorldConstraintParameters:
    """A constraint of a file with the names that its bodies and joints have in the world."""
    if isinstance(given, JointCouplingParameters):
        sums = {
            key: {f"{file}/{joint}": factor for joint, factor in getattr(given, key).items()}
            for key in ("joints", "to")
        }
        return given.model_copy(update=sums)
    return given.model_copy(update={"body": f"{file}/{given.body}", "to": f"{file}/{given.to}"})


def _material(file: FileParameters, tree: FileTree, body: str) -> Material:
    """Material of the surface of a link: from the keys of the file, else from the file itself."""
    restitution, friction = tree.materials.get(body, (None, None))
    own = {"restitution": restitution, "friction_static": friction, "friction_kinetic": friction}
    given = {key: value for key in MATERIAL if (value := getattr(file, key)) is not None}
    return Material(**own | given) if tree.materials else file
