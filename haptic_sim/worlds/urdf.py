"""Linkages from URDF documents, by Pinocchio's loader."""

from __future__ import annotations

import copy
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from pathlib import Path

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.constraints.parameters import JointCouplingParameters
from haptic_sim.geometry.fields.distances import FieldError
from haptic_sim.geometry.mesh_files import MeshError, merged
from haptic_sim.geometry.meshes import Taken, remedy, take_of_file
from haptic_sim.inputs import InputError, number, shown
from haptic_sim.worlds.file_joints import check_leaders, listed, placed, urdf_laws, urdf_notes
from haptic_sim.worlds.file_trees import FileShape, FileTree, Meshes, ModelFileError
from haptic_sim.worlds.xml_files import Element, at, text_of

CONVEX = (coal.Box, coal.Sphere, coal.Cylinder, coal.Capsule, coal.Halfspace, coal.Convex)


def load_urdf(
    path: Path, root: Element, meshes: Meshes | None, allowed: float | None = None
) -> tuple[list[FileTree], list[str]]:
    """The tree of a document, and what of it is not simulated.

    Args:
        path: of the file.
        root: of the document, with absolute paths of meshes.
        meshes: how they are taken, see `FileParameters.meshes`; None: there are no shapes.
        allowed: error that is wanted of what they are taken as [m], see `FileParameters.error`.

    Raises:
        ModelFileError: it describes what cannot be.
    """
    problems = [line for link in root.findall("link") for line in _link_problems(link)]
    problems += _structure_problems(root)
    if problems:
        raise ModelFileError(*problems)
    couplings, free = _couplings(root)
    laws, text = urdf_laws(root), text_of(_with_coordinates(root, couplings))
    folders = [str(folder) for folder in path.resolve().parents]
    try:
        model = pin.buildModelFromXML(text)
        geometry = pin.GeometryModel()
        if meshes is not None:
            pin.buildGeomFromUrdfString(model, text, pin.GeometryType.COLLISION, geometry, folders)
    except (ValueError, RuntimeError, IndexError) as error:  # how exceptions of C++ arrive
        raise ModelFileError(_located(error, path, root)) from error
    hulls: list[str] = []
    shapes = () if meshes is None else tuple(_shapes(model, geometry, meshes, allowed, hulls))
    trees = [FileTree(model, False, shapes, placed(laws, model), constraints=dict(couplings))]
    dents = [f"dents of the meshes of {listed(hulls)}, whose hulls collide"] if hulls else []
    return trees, urdf_notes(root) + free + dents


def _couplings(root: Element) -> tuple[dict[str, JointCouplingParameters], list[str]]:
    """The joints that follow others (<mimic>), by the name of the constraint; those that follow none, for the notes.

    Raises:
        ModelFileError: what they follow is no hinge or slide, or follows them.
    """
    kinds = {joint.get("name", ""): joint.get("type") for joint in root.findall("joint")}
    known = [name for name, kind in kinds.items() if kind in ("revolute", "continuous", "prismatic")]
    found: dict[str, JointCouplingParameters] = {}
    free: list[str] = []
    leaders: dict[str, tuple[str, str]] = {}
    for joint in root.findall("joint"):
        if (mimic := joint.find("mimic")) is None:
            continue
        name, leader = joint.get("name", ""), mimic.get("joint", "")
        where = f"{at(mimic)}joint {name}: <mimic>"
        if kinds[name] == "fixed" or (leader and leader not in kinds):  # as in files put together from parts
            why = "which is fixed" if kinds[name] == "fixed" else f"as no joint of the file is {shown(leader)}"
            free.append(f"<mimic> of {shown(name)}, {why}")
            continue
        leaders[name] = leader, where
        values = []
        for key, default in (("offset", "0"), ("multiplier", "1")):
            try:
                values.append(number(mimic.get(key, default)))
            except InputError as error:
                raise ModelFileError(f"{where} {key} = {shown(mimic.get(key))}: {error}") from error
        found[f"{name}_mimic"] = JointCouplingParameters(
            joints={name: 1.0}, to={leader: 1.0}, polynomial=(values[0], values[1])
        )
    check_leaders(leaders, known)
    return found, free


def _with_coordinates(root: Element, couplings: Mapping[str, JointCouplingParameters]) -> Element:
    """The document in which coupled joints that turn without end have one coordinate, which counts turns."""
    coupled = {name for one in couplings.values() for name in (*one.joints, *one.to)}
    if not any(joint.get("name") in coupled and joint.get("type") == "continuous" for joint in root.findall("joint")):
        return root
    changed = copy.deepcopy(root)
    for joint in changed.findall("joint"):
        if joint.get("name") in coupled and joint.get("type") == "continuous":
            joint.set("type", "revolute")
            for limit in joint.findall("limit"):
                joint.remove(limit)
            ElementTree.SubElement(joint, "limit", lower="-1e9", upper="1e9", effort="0", velocity="0")
    return changed


_SHAPES = {  # of URDF: attributes that each needs, and how many numbers they have
    "box": {"size": 3},
    "sphere": {"radius": 1},
    "cylinder": {"radius": 1, "length": 1},
    "mesh": {"filename": 0},
}


_INERTIAL = {"mass": {"value"}, "inertia": {"ixx", "ixy", "ixz", "iyy", "iyz", "izz"}}


def _link_problems(link: ElementTree.Element) -> Iterator[str]:
    """Faults of a link that the loader would add up without a check, or drop silently."""
    name, inertials = link.get("name"), link.findall("inertial")
    if len(inertials) > 1:
        yield f"{at(inertials[1])}link {name}: has {len(inertials)} <inertial>: must have at most one"
    for inertial in inertials:
        given = {child.tag: set(child.attrib) for child in inertial}
        missing = [f"<{tag}>" for tag, keys in _INERTIAL.items() if not keys <= given.get(tag, set())]
        if missing:
            yield f"{at(inertial)}link {name}: <inertial> needs {' and '.join(missing)} with all of its numbers"
    mass = link.find("inertial/mass")
    if mass is not None and number(mass.get("value", "0")) < 0.0:
        yield f"{at(mass)}link {name}: mass = {mass.get('value')} kg: must be >= 0"
    for collision in link.findall("collision"):
        shapes = [shape for geometry in collision.findall("geometry") for shape in geometry]
        if len(shapes) != 1 or shapes[0].tag not in _SHAPES:
            found = ", ".join(f"<{shape.tag}>" for shape in shapes) or "none"
            known = ", ".join(f"<{tag}>" for tag in _SHAPES)
            yield f"{at(collision)}link {name}: <collision> has the shapes {found}: must have one of {known}"
            continue
        (shape,) = shapes
        for key, count in _SHAPES[shape.tag].items():
            values = shape.get(key, "").split()
            if not values or (count and len(values) != count):
                found = f"has {len(values)} numbers: must have {count}" if values else "missing"
                yield f"{at(shape)}link {name}: <{shape.tag}> {key}: {found}"
            elif count and not min(map(number, values)) > 0.0:
                yield f"{at(shape)}link {name}: <{shape.tag}> {key} = {shape.get(key)}: must be > 0"


_KINDS = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")


def _structure_problems(root: ElementTree.Element) -> Iterator[str]:
    """Reasons why links and joints do not form a tree; the loader only says that they do not."""
    links, joints = root.findall("link"), root.findall("joint")
    if not links:
        yield ": has no links"
        return
    for parts in (links, joints):
        seen: set[str] = set()
        for part in parts:
            name = part.get("name", "")
            if not name or name in seen:
                reason = f"{name}: another {part.tag} has this name" if name else "has no name"
                yield f"{at(part)}{part.tag} {reason}"
            seen.add(name)
    known = {link.get("name", "") for link in links}
    children: set[str] = set()
    for joint in joints:
        where, kind, limit = f"{at(joint)}joint {joint.get('name', '')}", joint.get("type"), joint.find("limit")
        ends = {tag: joint.find(tag) for tag in ("parent", "child")}
        names = {tag: "" if end is None else end.get("link", "") for tag, end in ends.items()}
        if kind not in _KINDS:
            yield f"{where}: type = {kind}: must be one of {', '.join(_KINDS)}"
        if kind in ("revolute", "prismatic") and (limit is None or not {"effort", "velocity"} <= limit.attrib.keys()):
            yield f"{where}: needs <limit> with lower, upper, effort and velocity"
        for tag, name in names.items():
            if name not in known:
                yield f"{where}: its {tag} is the link {name or '(none)'}, which is not in the file"
        if names["child"] in children:
            yield f"{where}: its child {names['child']} is already the child of another joint"
        children.add(names["child"])
    roots = [link.get("name", "") for link in links if link.get("name") not in children]
    if len(roots) != 1:
        found = f"{len(roots)} links without a parent ({', '.join(roots[:5])})" if roots else "no link without a parent"
        yield f": has {found}: must have one, its root"


def _located(error: Exception, path: Path, root: ElementTree.Element) -> str:
    """The sentence of an exception of Pinocchio or coal, which may stand below lines of their own, and what to do."""
    text = str(error).rpartition("message:")[2]
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [repr(error)]
    for mesh in root.iter("mesh"):
        name = mesh.get("filename", "")
        if name and lines[0].endswith(Path(name).name) and "resource" in lines[0]:
            return f"{at(mesh)}mesh {name}: cannot be read as a mesh; export it again, as STL, OBJ or DAE"
        if name and f"{name} could not be found" in lines[0]:
            return f"{at(mesh)}mesh {name}: not found; it was looked for beside the file, and in the folders above"
    return f": Pinocchio: {lines[0].replace(f'The file {path} does not', 'does not')}; see also `check_urdf` of ROS"


def _shapes(
    model: pin.Model, geometry: pin.GeometryModel, meshes: Meshes, allowed: float | None, hulls: list[str]
) -> Iterator[FileShape]:
    """The shapes of a model; links where the hull of a mesh stands for pieces that are not convex go to `hulls`."""
    for item in geometry.geometryObjects:
        frame = model.frames[item.parentFrame]
        while frame.type != pin.FrameType.BODY and frame.parentFrame != 0:
            frame = model.frames[frame.parentFrame]
        body = frame.name if frame.type == pin.FrameType.BODY else "world"
        pose = item.placement.copy()
        if isinstance(item.geometry, coal.BVHModelBase):
            taken, hull = take_mesh(item.geometry, meshes, allowed, body, item.meshPath)
            if hull and body not in hulls:
                hulls.append(body)
            for shape in taken.geometry:
                yield FileShape(body, item.parentJoint, pose, shape, taken, os.path.basename(item.meshPath))
        elif isinstance(item.geometry, CONVEX):
            if not _extent(item.geometry) > 0.0:
                raise ModelFileError(f": link {body}: shape {type(item.geometry).__name__.lower()}: has no extent")
            yield FileShape(body, item.parentJoint, pose, item.geometry.clone())
        else:
            kind = type(item.geometry).__name__.lower()
            raise ModelFileError(
                f": link {body}: shape {kind}: must be a box, sphere, cylinder, capsule, plane or mesh"
            )


def take_mesh(
    mesh: coal.BVHModelBase, meshes: Meshes, allowed: float | None, body: str, name: str
) -> tuple[Taken, bool]:
    """Collision geometry of a mesh of a link, and whether its hull is taken because its pieces cannot be.

    Raises:
        ModelFileError: they cannot be made.
    """
    try:
        return _of_mesh(mesh, meshes, allowed)
    except (MeshError, FieldError) as error:
        raise ModelFileError(f": link {body}: mesh {name} {error}{remedy(error, 'meshes')}") from error


def mesh_arrays(mesh: coal.BVHModelBase) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (V, 3) [m] and triangles (T, 3) of a mesh that coal has loaded."""
    faces = np.array([[mesh.tri_indices(i)[k] for k in range(3)] for i in range(mesh.num_tris)], int)
    return np.array(mesh.vertices()), faces


def _of_mesh(mesh: coal.BVHModelBase, meshes: Meshes, allowed: float | None) -> tuple[Taken, bool]:
    """Collision geometry of a mesh, and whether its hull is taken because its pieces are not convex."""
    triangles = merged(*mesh_arrays(mesh))
    try:
        return take_of_file(triangles, "connected" if meshes == "either" else meshes, allowed), False
    except MeshError as error:
        if meshes != "either" or not remedy(error):
            raise
        return take_of_file(triangles, "hull", allowed), True


def _extent(geometry: coal.CollisionGeometry) -> float:
    """The least of the numbers that give a shape its size; negative or NaN if one is wrong."""
    sizes = [
        value
        for name in ("radius", "halfLength", "halfSide")
        if (part := getattr(geometry, name, None)) is not None
        for value in np.atleast_1d(part)
    ]
    return float(np.min(sizes)) if sizes else np.inf
