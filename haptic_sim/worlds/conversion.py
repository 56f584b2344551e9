"""Model files as the keys of a world, to be edited: `scene` with bodies, joints, shapes and constraints.

A joint of a file is a body of the world with the joint's axes. It has the name of the link that has these axes, or else
that of the joint; further links that go with it are bodies fixed to it. Shapes from meshes become meshes of their own,
one a convex piece.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.constraints.parameters import AnyWorldConstraintParameters, JointCouplingParameters
from haptic_sim.worlds.file_trees import FileShape, FileTree, ModelFileError
from haptic_sim.worlds.parameters import WORLD


class Converted(NamedTuple):
    """A world.

    Attributes:
        scene: keys of a scene of the type world, without `tool`.
        meshes: by the names of their files, corners (n, 3) [m] and triangles (m, 3); None: of their hull.
        names: of bodies, by links of the file.
    """

    scene: dict[str, Any]
    meshes: dict[str, tuple[np.ndarray, np.ndarray | None]]
    names: dict[str, str]


def convert(trees: list[FileTree], folder: str) -> Converted:
    """The world of a model file.

    Args:
        trees: of the file.
        folder: of the meshes, as the world names it.

    Raises:
        ModelFileError: it has joints that no body of a world has.
    """
    return _Conversion(folder).convert(trees)


class _Conversion:
    """State of the conversion."""

    def __init__(self, folder: str):
        self._folder = folder
        self._bodies: dict[str, dict[str, Any]] = {}
        self._names: dict[str, str] = {}
        self._joints: dict[str, str] = {}
        self._meshes: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}
        self._used = {WORLD}

    def convert(self, trees: list[FileTree]) -> Converted:
        """All of it."""
        for tree in trees:
            self._add(tree)
        constraints = {
            self._unique(name): self._constraint(given) for tree in trees for name, given in tree.constraints.items()
        }
        scene: dict[str, Any] = {"type": "world", "bodies": self._bodies}
        return Converted(scene | ({"constraints": constraints} if constraints else {}), self._meshes, self._names)

    def _add(self, tree: FileTree) -> None:
        model, q = tree.model, tree.configuration()
        tree.follow(q)
        for law in tree.laws:
            if law.limited:
                q[law.position] = min(max(q[law.position], law.lower), law.upper)
        links: dict[int, list[tuple[str, pin.SE3]]] = {}
        for link, joint, pose in tree.bodies():
            links.setdefault(joint, []).append((link, pose))
        shapes: dict[str, list[FileShape]] = {}
        for shape in tree.shapes:
            shapes.setdefault(shape.body, []).append(shape)
        if WORLD in shapes and all(link != WORLD for link, _ in links.get(0, [])):
            links.setdefault(0, []).append((WORLD, pin.SE3.Identity()))
        carriers = [WORLD]
        if tree.free:
            (root, X), *others = links.get(0, [("root", pin.SE3.Identity())])
            inertia = X.actInv(model.inertias[0])
            damping = {"damping": tree.root_damping, "turn_damping": tree.root_damping} if tree.root_damping else {}
            carrier = self._body(root, {"joint": "free"} | _placed(X) | _mass(inertia) | damping, root)
            self._balance(carrier, model.inertias[0], tree, 0)
            self._add_shapes(carrier, root, X, shapes, tree)
            links[0] = [(link, X.inverse() * pose) for link, pose in others]
            carriers[0] = carrier
        for link, pose in links.get(0, []):
            if link == WORLD and link not in shapes and pose.isIdentity(0.0) and not tree.free:
                self._names[link] = WORLD
                continue
            body = self._body(link, {"joint": "fixed"} | _parent(carriers[0]) | _placed(pose), link)
            X_J = X * pose if tree.free else pose
            self._add_shapes(body, link, X_J, shapes, tree)
        for joint in range(1, model.njoints):
            parent = int(model.parents[joint])
            placement = model.jointPlacements[joint]
            if tree.free and parent == 0:
                placement = X.inverse() * placement
            self._joint(tree, joint, carriers[parent], placement, q, links.get(joint, []), shapes, carriers)

    def _joint(
        self,
        tree: FileTree,
        joint: int,
        parent: str,
        placement: pin.SE3,
        q: np.ndarray,
        links: list[tuple[str, pin.SE3]],
        shapes: dict[str, list[FileShape]],
        carriers: list[str],
    ) -> None:
        """The body of a joint, and those that are fixed to it."""
        model = tree.model
        name, inertia = model.names[joint], model.inertias[joint]
        own = next((link for link, pose in links if pose.isIdentity(1e-12)), None)
        keys = _kind(tree, joint, q, parent, placement)
        keys |= _mass(inertia) if inertia.mass > 0.0 else {"bare": True}
        carrier = self._body(own or name, keys, own)
        self._joints[name] = carrier
        carriers.append(carrier)
        if inertia.mass > 0.0:
            self._balance(carrier, inertia, tree, joint)
        for link, pose in links:
            if link == own:
                self._add_shapes(carrier, link, pin.SE3.Identity(), shapes, tree)
            else:
                body = self._body(link, {"joint": "fixed"} | _parent(carrier) | _placed(pose), link)
                self._add_shapes(body, link, pose, shapes, tree)

    def _body(self, wanted: str, keys: dict[str, Any], link: str | None) -> str:
        name = self._unique(wanted)
        self._bodies[name] = keys
        if link is not None:
            self._names[link] = name
        return name

    def _unique(self, wanted: str) -> str:
        """A name for a body or a constraint that is new."""
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", wanted)
        name = name if name[:1].isalpha() else f"body_{name}"
        found, k = name, 2
        while found in self._used:
            found, k = f"{name}_{k}", k + 1
        self._used.add(found)
        return found

    def _balance(self, body: str, inertia: pin.Inertia, tree: FileTree, joint: int) -> None:
        """Say that gravity does not pull at a body; it pulls at all of it or at nothing."""
        if tree.balanced and tree.balanced[joint].mass > 0.0:
            if abs(tree.balanced[joint].mass - inertia.mass) > 1e-9 * inertia.mass:
                raise ModelFileError(
                    f": {body}: a part of its weight is balanced; convert balances all or nothing of it"
                )
            self._bodies[body]["gravity_compensation"] = True

    def _add_shapes(
        self, body: str, link: str, X_JB: pin.SE3, shapes: Mapping[str, list[FileShape]], tree: FileTree
    ) -> None:
        """Give a body the shapes and the surface of its link; X_JB: its pose in the joint's axes."""
        found = [self._shape(body, k, X_JB, shape) for k, shape in enumerate(shapes.get(link, ()))]
        if found:
            self._bodies[body]["shapes"] = found
        restitution, friction = tree.materials.get(link, (None, None))
        values = {"restitution": restitution, "friction_static": friction, "friction_kinetic": friction}
        self._bodies[body] |= {key: value for key, value in values.items() if value is not None}

    def _shape(self, body: str, k: int, X_JB: pin.SE3, shape: FileShape) -> dict[str, Any]:
        geometry, at = shape.geometry, _placed(X_JB.inverse() * shape.pose)
        match geometry:
            case coal.Box():
                return {"type": "box", "size": _floats(2.0 * geometry.halfSide), **at}
            case coal.Sphere():
                return {"type": "sphere", "radius": float(geometry.radius), **at}
            case coal.Cylinder() | coal.Capsule():
                kind = type(geometry).__name__.lower()
                return {
                    "type": kind,
                    "radius": float(geometry.radius),
                    "length": 2.0 * float(geometry.halfLength),
                    **at,
                }
            case coal.Halfspace():
                return {"type": "plane", "normal": _floats(geometry.n), "offset": float(geometry.d), **at}
        file = f"{body}_{k}.obj"
        if isinstance(geometry, coal.BVHModelBase):  # it has a field
            assert shape.taken is not None and shape.taken.field is not None
            self._meshes[file] = shape.taken.vertices, shape.taken.faces
            accuracy = float(shape.taken.field.accuracy)
            return {"type": "mesh", "path": f"{self._folder}/{file}", "as": "field", "error": accuracy, **at}
        self._meshes[file] = np.array(geometry.points(), float), None
        return {"type": "mesh", "path": f"{self._folder}/{file}", **at}

    def _constraint(self, given: AnyWorldConstraintParameters) -> dict[str, Any]:
        keys: dict[str, Any] = given.model_dump(mode="json", exclude_defaults=True) | {"type": given.type}
        if isinstance(given, JointCouplingParameters):
            for key in ("joints", "to"):
                keys[key] = {self._joints[joint]: factor for joint, factor in getattr(given, key).items()}
            return keys
        keys["body"] = self._names[given.body]
        keys["to"] = self._names.get(given.to, WORLD)
        return keys


def _kind(tree: FileTree, joint: int, q: np.ndarray, parent: str, placement: pin.SE3) -> dict[str, Any]:
    """The keys of a joint: its kind, where it is, its state at the start, and its laws."""
    model, kind = tree.model, tree.model.joints[joint].shortname()
    at, name = q[model.idx_qs[joint] :][: model.nqs[joint]], model.names[joint]
    if kind == "JointModelFreeFlyer" and parent == WORLD:
        return {"joint": "free"} | _placed(placement * pin.XYZQUATToSE3(at))
    ends = _parent(parent) | _placed(placement)
    laws = [law for law in tree.laws if model.idx_vs[joint] <= law.velocity < model.idx_vs[joint] + model.nvs[joint]]
    if kind == "JointModelSpherical":
        turn = {"turn": _floats(pin.rpy.matrixToRpy(pin.Quaternion(at).matrix()))} if np.any(at[:3]) else {}
        damping = {"damping": laws[0].damping} if laws else {}
        return {"joint": "ball"} | ends | turn | damping
    axis = _axis(model, joint)
    if axis is None:
        raise ModelFileError(f": joint {name}: convert knows hinges, slides, ball joints and free ones, not this one")
    turns, direction = axis
    position = float(math.atan2(at[1], at[0]) if model.nqs[joint] == 2 else at[0])
    keys: dict[str, Any] = {"joint": "revolute" if turns else "prismatic"} | ends | {"axis": _floats(direction)}
    if position:
        keys["angle" if turns else "travel"] = position
    for law in laws:
        if law.limited:
            ends_of_range = [-1e9 if law.lower == -math.inf else law.lower, 1e9 if law.upper == math.inf else law.upper]
            keys["range"] = _floats(ends_of_range)
        values = {"speed_limit": law.speed, "damping": law.damping, "friction": law.friction}
        values |= {"stiffness": law.stiffness, "rest": law.reference if law.stiffness else 0.0}
        keys |= {key: float(value) for key, value in values.items() if 0.0 != value < math.inf}
    if (armature := float(model.armature[model.idx_vs[joint]])) > 0.0:
        keys["armature"] = armature
    return keys


def _axis(model: pin.Model, joint: int) -> tuple[bool, np.ndarray] | None:
    """Whether a joint turns, and its axis; None of one that is no hinge and no slide."""
    one = model.joints[joint]
    if one.nv != 1:
        return None
    data = one.createData()
    one.calc(data, pin.neutral(model), np.zeros(model.nv))
    subspace = np.asarray(data.S).reshape(6)
    turns, slides = np.any(subspace[3:]), np.any(subspace[:3])
    return None if turns and slides else (bool(turns), subspace[3:] if turns else subspace[:3])


def _placed(X: pin.SE3) -> dict[str, Any]:
    """Position and rotation, where they are not zero."""
    found = {"position": X.translation, "rotation": pin.rpy.matrixToRpy(X.rotation)}
    return {key: _floats(value) for key, value in found.items() if np.any(value)}


def _parent(name: str) -> dict[str, Any]:
    return {} if name == WORLD else {"parent": name}


def _mass(inertia: pin.Inertia) -> dict[str, Any]:
    moments = np.array(inertia.inertia)
    values = [*np.diag(moments), moments[0, 1], moments[0, 2], moments[1, 2]]
    centre = {"centre_of_mass": _floats(inertia.lever)} if np.any(inertia.lever) else {}
    return {"mass": float(inertia.mass), "inertia": _floats(values)} | centre


def _floats(values: Any) -> list[float]:
    return [float(value) + 0.0 for value in values]


def mesh_text(corners: np.ndarray, faces: np.ndarray | None) -> Iterator[str]:
    """Lines of an OBJ file of corners (n, 3) [m] and triangles (m, 3), which are read to the same bits.

    Where `faces` is None, it is the convex hull of the corners.
    """
    import trimesh  # takes a while to import

    if faces is None:
        hull = trimesh.convex.convex_hull(corners)
        corners, faces = hull.vertices, hull.faces
    yield from ("v " + " ".join(repr(float(value)) for value in corner) for corner in corners)
    yield from ("f " + " ".join(str(int(k) + 1) for k in face) for face in faces)
