"""Linkages from URDF and MJCF files, by Pinocchio's loaders.

Pinocchio 4.1 reads of an MJCF file only the first body of the world, forgets the pose of one without joints, and
misplaces one with a free joint and a rotated pose. Each body of the world is therefore handed to it in a document of
its own, inside an empty one and without its free joint: it then hangs on the world by a fixed pose, which Pinocchio
gets right, and is set free afterwards.
"""

from __future__ import annotations

import copy
import itertools
import re
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.meshes import MeshError, Taken, convex_pieces, convex_shape, merged
from haptic_sim.shapes import impossible

CONVEX = (coal.Box, coal.Sphere, coal.Cylinder, coal.Capsule, coal.Halfspace, coal.Convex)
_ROOT = "root of the document"  # the empty body around each of an MJCF file; a name that no file has
_NUMBERS = set(
    "pos quat axisangle euler xyaxes zaxis size fromto mass density diaginertia fullinertia axis armature ref "
    "xyz rpy radius length value ixx ixy ixz iyy iyz izz".split()
)
# Elements of MJCF that would change the world, were they not left out without a word.
_NOT_READ = {"frame", "replicate", "attach", "composite", "flexcomp", "flex", "hfield", "tendon"}


class ModelFileError(ValueError):
    """A file that cannot be used; `problems` holds one reason a line, each to go after the name of the file."""

    def __init__(self, *problems: str):
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True)
class FileShape:
    """A convex shape of a link.

    Attributes:
        body: the link.
        joint: number of the joint that carries it, 0 for what is fixed.
        pose: in the axes of the joint.
    """

    body: str
    joint: int
    pose: pin.SE3
    geometry: coal.CollisionGeometry


@dataclass(frozen=True)
class FileTree:
    """Part of a file: what hangs on one root.

    Attributes:
        model: joints and inertias; what is fixed to the root belongs to joint 0.
        free: whether the root is a free body; else it is fixed.
        shapes: for collisions.
    """

    model: pin.Model
    free: bool
    shapes: tuple[FileShape, ...]

    def bodies(self) -> Iterator[tuple[str, int, pin.SE3]]:
        """Name, number of the joint and pose in the joint's axes of each link."""
        for frame in self.model.frames:
            if frame.type == pin.FrameType.BODY and frame.name != _ROOT:
                yield frame.name, frame.parentJoint, frame.placement

    def root_pose(self) -> pin.SE3:
        """Pose of the root's first link in the file."""
        return next((pose for _, joint, pose in self.bodies() if joint == 0), pin.SE3.Identity())

    def parent_body(self, joint: int) -> str | None:
        """The link that joint number `joint` is fastened to."""
        for frame in self.model.frames:
            if frame.type == pin.FrameType.JOINT and frame.parentJoint == joint:
                above = self.model.frames[frame.parentFrame]
                while above.type != pin.FrameType.BODY and above.parentFrame != 0:
                    above = self.model.frames[above.parentFrame]
                return above.name if above.type == pin.FrameType.BODY and above.name != _ROOT else None
        return None


def load_trees(path: Path, meshes: Taken, *, free: bool = False) -> list[FileTree]:
    """The trees of a URDF (.urdf) or MJCF (.xml) file, in its order.

    Joint limits, friction and damping stay in the models; MJCF's actuators, keyframes, contact settings and gravity,
    and the coupling of URDF's mimic joints, are not taken.

    Args:
        path: the file. URDF meshes are looked for beside it and in the folders above, by package:// too.
        meshes: how meshes are taken, see `convex_pieces`.
        free: whether what the file fixes to the world is free.

    Raises:
        ModelFileError: missing, malformed, or describes what cannot be.
    """
    kinds = {".urdf": "robot", ".xml": "mujoco"}
    if path.suffix not in kinds:
        raise ModelFileError(": must be a .urdf (URDF) or .xml (MJCF) file")
    root = _parse(path)
    if root.tag != kinds[path.suffix]:
        raise ModelFileError(f": must have the root element <{kinds[path.suffix]}>, has <{root.tag}>")
    if root.tag == "mujoco":
        _include(root, path.parent)
    problems = list(_number_problems(root)) or list(_axis_problems(root))
    if problems:
        raise ModelFileError(*problems)
    trees = _load_urdf(path, root, meshes) if root.tag == "robot" else _load_mjcf(path, root, meshes)
    if free:
        if len(trees) != 1:
            raise ModelFileError(
                f": has {len(trees)} roots: must have one, and no shapes in the world, for base = free"
            )
        trees = [replace(trees[0], free=True)]
    problems = [line for tree in trees for line in _tree_problems(tree)]
    if problems:
        raise ModelFileError(*problems)
    return trees


def _parse(path: Path) -> ElementTree.Element:
    try:
        return ElementTree.parse(path).getroot()
    except OSError as error:
        raise ModelFileError(f": cannot be read: {error.strerror}") from error
    except ElementTree.ParseError as error:
        raise ModelFileError(f", line {error.position[0]}: not XML: {error}") from error
    except (LookupError, ValueError) as error:  # its encoding
        raise ModelFileError(f": not XML: {error}") from error


def _tree_problems(tree: FileTree) -> Iterator[str]:
    """What is wrong with moving links; what is fixed together counts as one, under its first name."""
    names = {joint: name for name, joint, _ in reversed(list(tree.bodies()))}
    for joint in range(0 if tree.free else 1, tree.model.njoints):
        inertia = tree.model.inertias[joint]
        name = names.get(joint, tree.model.names[joint])
        if not 0.0 < inertia.mass < np.inf:
            yield f": link {name}: mass = {inertia.mass:g} kg: must be > 0, the link moves"
        elif reason := impossible(np.array(inertia.inertia)):
            yield f": link {name}: no body has this inertia: {reason}"
    for shape in tree.shapes:
        if isinstance(shape.geometry, coal.Halfspace) and (tree.free or shape.joint > 0):
            yield f": link {shape.body}: only a fixed body can have a plane"


def _load_urdf(path: Path, root: ElementTree.Element, meshes: Taken) -> list[FileTree]:
    problems = [line for link in root.iter("link") for line in _link_problems(link)]
    if problems:
        raise ModelFileError(*problems)
    folders = [str(folder) for folder in path.resolve().parents]
    try:
        model = pin.buildModelFromUrdf(str(path))
        geometry = pin.buildGeomFromUrdf(model, str(path), pin.GeometryType.COLLISION, package_dirs=folders)
    except (ValueError, RuntimeError, IndexError) as error:  # how exceptions of C++ arrive
        raise ModelFileError(f": {_first_line(error, path)}") from error
    return [FileTree(model, False, tuple(_shapes(model, geometry, meshes)))]


def _link_problems(link: ElementTree.Element) -> Iterator[str]:
    """What is wrong with the mass of a link; Pinocchio adds up what is fixed together without looking."""
    mass = link.find("inertial/mass")
    if mass is not None and float(mass.get("value", "0")) < 0.0:
        yield f": link {link.get('name')}: mass = {mass.get('value')} kg: must be >= 0"


def _first_line(error: Exception, path: Path) -> str:
    """The sentence of an exception of Pinocchio or coal, which may stand below lines about their sources."""
    text = str(error).rpartition("message:")[2]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0].replace(f"The file {path} does not", "does not") if lines else repr(error)


def _number_problems(root: ElementTree.Element) -> Iterator[str]:
    """Attributes that should be numbers and are not; the loaders take what they cannot read for zero."""
    for element in root.iter():
        for key in sorted(_NUMBERS & set(element.attrib)):
            text = element.attrib[key]
            if key == "value" and element.tag != "mass":
                continue
            try:
                values = np.array([float(word) for word in text.split()])
            except ValueError:
                values = np.array([])
            if not (len(values) and np.all(np.isfinite(values))):
                yield f": <{element.tag}> {key} = {text}: must be finite numbers"


def _axis_problems(root: ElementTree.Element) -> Iterator[str]:
    """Joints that turn or slide about nothing: Pinocchio makes them not a number."""
    for joint in root.iter("joint"):
        axis = joint.find("axis")
        text = joint.get("axis", "") if axis is None else axis.get("xyz", "")
        moves = joint.get("type") not in ("fixed", "floating", "free", "ball")
        if moves and text and not any(float(word) for word in text.split()):
            yield f": joint {joint.get('name', '')}: axis = {text}: must not be zero"


def _load_mjcf(path: Path, root: ElementTree.Element, meshes: Taken) -> list[FileTree]:
    unread = sorted({element.tag for element in root.iter()} & _NOT_READ)
    if unread:
        raise ModelFileError(*(f": <{tag}> is not read" for tag in unread))
    if len(root.findall("equality/*")):
        raise ModelFileError(": <equality>: worlds have no equality constraints")
    worlds = root.findall("worldbody")
    if not worlds:
        raise ModelFileError(": has no <worldbody>")
    _name_everything(worlds)
    bodies = [body for world in worlds for body in world.findall("body")]
    geoms = [geom for world in worlds for geom in world.findall("geom")]
    trees = []
    if geoms:
        trees.append(_load_document(path, _document(root, path, geoms), False, meshes))
    for body in bodies:
        free = [joint for joint in body if joint.tag == "freejoint" or joint.get("type") == "free"]
        for joint in free:
            body.remove(joint)
        trees.append(_load_document(path, _document(root, path, [body]), bool(free), meshes))
    return trees


def _include(element: ElementTree.Element, folder: Path, depth: int = 0) -> None:
    """Put the content of included files where they are included."""
    if depth > 20:
        raise ModelFileError(": <include>: files include each other")
    for i in reversed(range(len(element))):
        child = element[i]
        if child.tag == "include":
            file = folder / child.get("file", "")
            try:
                included = _parse(file)
            except ModelFileError as error:
                raise ModelFileError(f": <include> {file}{error}") from error
            _include(included, folder, depth + 1)
            element[i : i + 1] = list(included)
        else:
            _include(child, folder, depth)


def _name_everything(worlds: list[ElementTree.Element]) -> None:
    """Names for bodies and joints without one: Pinocchio would confuse them with each other."""
    number = itertools.count(1)
    seen = set()
    for world in worlds:
        for body in world.iter("body"):
            body.set("name", body.get("name") or f"body{next(number)}")
            if body.get("name") in seen:
                raise ModelFileError(f": two bodies are named {body.get('name')}")
            seen.add(body.get("name"))
            for i, joint in enumerate(body.findall("joint")):
                joint.set("name", joint.get("name") or f"{body.get('name')}_joint{i}")


def _document(root: ElementTree.Element, path: Path, content: list[ElementTree.Element]) -> ElementTree.Element:
    """An MJCF document with what counts for all bodies, and only `content` in its world."""
    document = ElementTree.Element("mujoco", model=root.get("model") or path.stem)
    compilers = root.findall("compiler")
    settings = {key: value for compiler in compilers for key, value in compiler.attrib.items()}
    # The document lies elsewhere: folders become absolute.
    assets = settings.pop("assetdir", "")
    for key in ("meshdir", "texturedir"):
        settings[key] = str((path.resolve().parent / settings.get(key, assets)).resolve())
    document.append(ElementTree.Element("compiler", settings))
    for tag in ("default", "asset"):
        for section in root.findall(tag):
            document.append(copy.deepcopy(section))
    world = ElementTree.SubElement(document, "worldbody")
    empty = ElementTree.Element("body", name=_ROOT)
    if settings.get("inertiafromgeom") == "false":  # then Pinocchio wants one
        ElementTree.SubElement(empty, "inertial", pos="0 0 0", mass="0", diaginertia="0 0 0")
    bodies = [element for element in content if element.tag == "body"]
    world.extend(element for element in content if element.tag != "body")
    empty.extend(bodies)
    world.append(empty)
    return document


def _load_document(path: Path, document: ElementTree.Element, free: bool, meshes: Taken) -> FileTree:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / path.name
        ElementTree.ElementTree(document).write(file)
        try:
            model = pin.buildModelFromMJCF(str(file))
            geometry = pin.buildGeomFromMJCF(model, str(file), pin.GeometryType.COLLISION)
        except (ValueError, RuntimeError, IndexError) as error:  # how exceptions of C++ arrive
            raise ModelFileError(f": {_first_line(error, file)}") from error
    _refuse_mass_of_meshes(document, geometry, model)
    return FileTree(model, free, tuple(_shapes(model, geometry, meshes)))


def _refuse_mass_of_meshes(document: ElementTree.Element, geometry: pin.GeometryModel, model: pin.Model) -> None:
    """Pinocchio takes 1 kg for each mesh of a body whose mass comes from its geoms."""
    compiler = document.find("compiler")
    always = compiler is not None and compiler.get("inertiafromgeom") == "true"
    given = {body.get("name") for body in document.iter("body") if body.find("inertial") is not None and not always}
    for item in geometry.geometryObjects:
        name = model.frames[item.parentFrame].name
        if isinstance(item.geometry, coal.Convex | coal.BVHModelBase) and item.parentFrame and name not in given:
            raise ModelFileError(f": link {name}: its mass would come from a mesh; give it <inertial>")


def _shapes(model: pin.Model, geometry: pin.GeometryModel, meshes: Taken) -> Iterator[FileShape]:
    for item in geometry.geometryObjects:
        frame = model.frames[item.parentFrame]
        while frame.type != pin.FrameType.BODY and frame.parentFrame != 0:
            frame = model.frames[frame.parentFrame]
        body = frame.name if frame.type == pin.FrameType.BODY else "world"
        pose = item.placement.copy()
        if isinstance(item.geometry, coal.BVHModelBase):
            mesh = item.geometry
            faces = np.array([[mesh.tri_indices(i)[k] for k in range(3)] for i in range(mesh.num_tris)], int)
            try:
                pieces = convex_pieces(merged(np.array(mesh.vertices()), faces), meshes)
                shapes = [convex_shape(piece) for piece in pieces]
            except MeshError as error:
                advice = (
                    "; set meshes: hull to take its convex hull"
                    if re.search("not closed|not convex", str(error))
                    else ""
                )
                raise ModelFileError(f": link {body}: mesh {item.meshPath} {error}{advice}") from error
            for shape in shapes:
                yield FileShape(body, item.parentJoint, pose, shape)
        elif isinstance(item.geometry, CONVEX):
            if not _extent(item.geometry) > 0.0:
                raise ModelFileError(f": link {body}: shape {type(item.geometry).__name__.lower()}: has no extent")
            yield FileShape(body, item.parentJoint, pose, item.geometry.clone())
        else:
            kind = type(item.geometry).__name__.lower()
            raise ModelFileError(
                f": link {body}: shape {kind}: must be a box, sphere, cylinder, capsule, plane or mesh"
            )


def _extent(geometry: coal.CollisionGeometry) -> float:
    """The least of the numbers that give a shape its size; negative or NaN if one is wrong."""
    sizes = [
        value
        for name in ("radius", "halfLength", "halfSide")
        if (part := getattr(geometry, name, None)) is not None
        for value in np.atleast_1d(part)
    ]
    return float(np.min(sizes)) if sizes else np.inf
