"""Linkages from URDF and MJCF files, by Pinocchio's loaders.

Pinocchio 4.1 reads of an MJCF file only the first body of the world, ignores the pose of a body without joints, and
misplaces a body with a free joint and a rotated pose. Each body of the world is therefore loaded from a document of its
own, inside an empty body and without its free joint. It then has a fixed pose in the world, which Pinocchio reads
correctly, and gets its free joint afterwards.
"""

from __future__ import annotations

import copy
import itertools
import os
import re
import stat
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.dynamics.joints import JointLaw
from haptic_sim.geometry.meshes import MeshError, Taken, check_size, convex_pieces, convex_shape, merged
from haptic_sim.geometry.shapes import impossible
from haptic_sim.inputs import DATA, MODEL, InputError, number, numbers, read_bytes, shown
from haptic_sim.worlds.file_joints import ModelFileError, mjcf_laws, mjcf_notes, placed, urdf_laws, urdf_notes

CONVEX = (coal.Box, coal.Sphere, coal.Cylinder, coal.Capsule, coal.Halfspace, coal.Convex)
_ROOT = "root of the document"  # the empty body around each of an MJCF file; a name that no file has
# Attributes that are numbers, and how many of them.
_NUMBERS = {
    **dict.fromkeys("mass density armature ref radius length value ixx ixy ixz iyy iyz izz".split(), 1),
    **dict.fromkeys("pos euler zaxis diaginertia axis xyz rpy scale".split(), 3),
    **dict.fromkeys("quat axisangle".split(), 4),
    **dict.fromkeys("xyaxes fromto fullinertia".split(), 6),
    "size": 0,
}
_ONLY_OF = {"value": "mass", "scale": "mesh"}
_NOT_ZERO = {"quat", "zaxis", "scale"}  # of the last, none
MOST_LINKS = 1000  # the loaders go down a chain by recursion, which ends in a crash
MOST_ELEMENTS = 200_000
MOST_FILES = 200  # that are included
_PART = 1 << 16  # [bytes] of a file that are parsed at once
DEPTH = 1100  # of elements in each other: MOST_LINKS bodies of MJCF, and some
# Elements of MJCF that would change the world, were they not left out without a word.
_NOT_READ = {"frame", "replicate", "attach", "composite", "flexcomp", "flex", "hfield", "tendon"}


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
        laws: limits, damping, friction and springs of its joints.
    """

    model: pin.Model
    free: bool
    shapes: tuple[FileShape, ...]
    laws: tuple[JointLaw, ...] = ()

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


def load_trees(path: Path, meshes: Taken, *, free: bool = False) -> tuple[list[FileTree], list[str]]:
    """The trees of a URDF (.urdf) or MJCF (.xml) file, in its order, and what it says that is not simulated.

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
        _include(root, path.parent, [0, 0])
    links = sum(element.tag in ("link", "body") for element in root.iter())
    if links > MOST_LINKS:
        raise ModelFileError(f": has {links} links: must have at most {MOST_LINKS}")
    problems = list(_number_problems(root)) or list(_axis_problems(root)) or list(_mesh_problems(root, path))
    if problems:
        raise ModelFileError(*problems)
    if root.tag == "robot":
        unread = urdf_notes(root)
        trees = _load_urdf(path, root, meshes)
    else:
        unread = mjcf_notes(root)  # before the document is taken apart
        trees = _load_mjcf(path, root, meshes)
    if free:
        if len(trees) != 1:
            raise ModelFileError(
                f": has {len(trees)} roots: must have one, and no shapes in the world, for base = free"
            )
        trees = [replace(trees[0], free=True)]
    problems = [line for tree in trees for line in _tree_problems(tree)]
    if problems:
        raise ModelFileError(*problems)
    return trees, unread


def _parse(path: Path) -> ElementTree.Element:
    """The document of a file, of bounded size and depth."""
    root, depth, count = None, 0, 0
    try:
        content = read_bytes(path, MODEL)
        parser: ElementTree.XMLPullParser[Any] = ElementTree.XMLPullParser(("start", "end"))
        for begin in range(0, len(content), _PART):
            parser.feed(content[begin : begin + _PART])
            events: Any = parser.read_events()
            for event, element in events:
                root = element if root is None else root
                depth += 1 if event == "start" else -1
                count += event == "start"
                if depth > DEPTH:
                    raise InputError(f"has more than {DEPTH} elements in each other")
                if count > MOST_ELEMENTS:
                    raise InputError(f"has more than {MOST_ELEMENTS} elements")
        parser.close()
    except InputError as error:
        raise ModelFileError(f": {error}") from error
    except ElementTree.ParseError as error:
        raise ModelFileError(f", line {error.position[0]}: not XML: {error}") from error
    except (LookupError, ValueError) as error:  # its encoding
        raise ModelFileError(f": not XML: {error}") from error
    assert isinstance(root, ElementTree.Element)  # a document without one is no XML
    return root


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
    laws = urdf_laws(root)
    folders = [str(folder) for folder in path.resolve().parents]
    try:
        model = pin.buildModelFromUrdf(str(path))
        geometry = pin.buildGeomFromUrdf(model, str(path), pin.GeometryType.COLLISION, package_dirs=folders)
    except (ValueError, RuntimeError, IndexError) as error:  # how exceptions of C++ arrive
        raise ModelFileError(f": {_first_line(error, path)}") from error
    return [FileTree(model, False, tuple(_shapes(model, geometry, meshes)), placed(laws, model))]


def _link_problems(link: ElementTree.Element) -> Iterator[str]:
    """What is wrong with the mass of a link; Pinocchio adds up what is fixed together without looking."""
    mass = link.find("inertial/mass")
    if mass is not None and number(mass.get("value", "0")) < 0.0:
        yield f": link {link.get('name')}: mass = {mass.get('value')} kg: must be >= 0"


def _first_line(error: Exception, path: Path) -> str:
    """The sentence of an exception of Pinocchio or coal, which may stand below lines about their sources."""
    text = str(error).rpartition("message:")[2]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return repr(error)
    looked = " It was looked for beside the file, and in the folders above." if "could not be found" in lines[0] else ""
    return lines[0].replace(f"The file {path} does not", "does not") + looked


def _number_problems(root: ElementTree.Element) -> Iterator[str]:
    """Attributes that should be numbers and are not; the loaders take what they cannot read for zero."""
    for element in root.iter():
        for key in sorted(_NUMBERS.keys() & element.attrib.keys()):
            if element.tag != _ONLY_OF.get(key, element.tag):
                continue
            text, count = element.attrib[key], _NUMBERS[key]
            try:
                values = numbers(text)
                if not values:
                    raise InputError("must be finite numbers")
                if len(values) > 4 if count == 0 else len(values) != count:
                    raise InputError(f"has {len(values)} numbers: must have {count or '1 to 4'}")
                if key in _NOT_ZERO and not (all(values) if key == "scale" else any(values)):
                    raise InputError("must not be zero")
            except InputError as error:
                reason = (
                    "must be finite numbers" if str(error) in ("must be a number", "must be finite") else str(error)
                )
                yield f": <{element.tag}> {key} = {shown(text)}: {reason}"


def _mesh_problems(root: ElementTree.Element, path: Path) -> Iterator[str]:
    """Meshes that are no files, which the loaders would wait for, or too large."""
    here = path.resolve().parent
    settings = {key: value for compiler in root.findall("compiler") for key, value in compiler.attrib.items()}
    folder = settings.get("meshdir", settings.get("assetdir", ""))
    for mesh in root.iter("mesh"):
        name = mesh.get("filename") or mesh.get("file") or ""
        name = re.sub("^(package|file|model)://", "", name)
        for place in (here / folder, *here.parents) if name else ():
            try:
                found = (place / name).stat()
            except (OSError, ValueError):
                continue
            if not stat.S_ISREG(found.st_mode):
                yield f": mesh {shown(name)}: must be a file"
            elif found.st_size > DATA:
                yield f": mesh {shown(name)}: has {found.st_size} bytes: must have at most {DATA}"
            break


def _axis_problems(root: ElementTree.Element) -> Iterator[str]:
    """Joints that turn or slide about nothing: Pinocchio makes them not a number."""
    for joint in root.iter("joint"):
        axis = joint.find("axis")
        text = joint.get("axis", "") if axis is None else axis.get("xyz", "")
        moves = joint.get("type") not in ("fixed", "floating", "free", "ball")
        if moves and text and not any(numbers(text)):
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


def _include(element: ElementTree.Element, folder: Path, read: list[int], depth: int = 0) -> None:
    """Put the content of included files where they are included; `read` counts these files and their elements."""
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
            read[0] += 1
            read[1] += sum(1 for _ in included.iter())
            if read[0] > MOST_FILES or read[1] > MOST_ELEMENTS:
                raise ModelFileError(f": <include>: more than {MOST_FILES} files, or {MOST_ELEMENTS} elements in them")
            _include(included, folder, read, depth + 1)
            element[i : i + 1] = list(included)
        else:
            _include(child, folder, read, depth)


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
        settings[key] = os.path.realpath(path.resolve().parent / settings.get(key, assets))
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
    laws = mjcf_laws(document, model)
    return FileTree(model, free, tuple(_shapes(model, geometry, meshes)), laws)


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
            try:
                check_size(int(mesh.num_tris), meshes)
            except MeshError as error:
                advice = "; set meshes: hull to take its convex hull" if meshes != "hull" else ""
                raise ModelFileError(f": link {body}: mesh {item.meshPath} {error}{advice}") from error
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
