"""Linkages from URDF and MJCF files: URDF by Pinocchio's loader, MJCF by MuJoCo's compiler (`haptic_sim.worlds.mjcf`).

Documents are read here first, within bounds: what the loaders would take for zero, or drop, is refused with its line.
"""

from __future__ import annotations

import re
import stat
import xml.etree.ElementTree as ElementTree
import xml.parsers.expat as expat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.geometry.mesh_files import MeshError, merged
from haptic_sim.geometry.meshes import convex_shape, hull_would_do, take
from haptic_sim.geometry.shapes import impossible
from haptic_sim.inputs import DATA, MODEL, InputError, number, numbers, read_bytes, shown
from haptic_sim.worlds.file_joints import listed, mjcf_notes, placed, urdf_laws, urdf_notes
from haptic_sim.worlds.file_trees import FileShape, FileTree, Meshes, ModelFileError
from haptic_sim.worlds.mjcf import load_mjcf

CONVEX = (coal.Box, coal.Sphere, coal.Cylinder, coal.Capsule, coal.Halfspace, coal.Convex)
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


def load_trees(path: Path, meshes: Meshes | None, *, free: bool = False) -> tuple[list[FileTree], list[str]]:
    """The trees of a URDF (.urdf) or MJCF (.xml) file, in its order, and what it says that is not simulated.

    Args:
        path: the file. URDF meshes are looked for beside it and in the folders above, by package:// too.
        meshes: how meshes are taken, see `FileParameters.meshes`; None: the shapes of a URDF are left out.
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
        trees, ignored = _load_urdf(path, root, meshes)
        unread = urdf_notes(root) + ignored
    else:
        if not root.findall("worldbody"):
            raise ModelFileError(": has no <worldbody>")
        trees, ignored = load_mjcf(path, meshes or "hull")
        unread = mjcf_notes(root) + ignored
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


def last_link(path: Path, *, free: bool = False) -> str:
    """The link of a file that moves and comes last, such as the hand of an arm; empty if there is none.

    Args:
        path: the file.
        free: whether what the file fixes to the world is free.

    Raises:
        ModelFileError: as of `load_trees`.
    """
    trees, _ = load_trees(path, None, free=free)
    for tree in reversed(trees):
        moving = [f.name for f in tree.model.frames if f.type == pin.FrameType.BODY and (f.parentJoint or tree.free)]
        if moving:
            return str(moving[-1])
    return ""


class _Element(ElementTree.Element):
    """An element that knows its line."""

    line = 0


class _Reader:
    """Builds a document of bounded size and depth from what expat reads."""

    def __init__(self) -> None:
        self._expat = expat.ParserCreate()
        self._expat.StartElementHandler, self._expat.EndElementHandler = self._start, self._end
        self._builder = ElementTree.TreeBuilder(element_factory=_Element)
        self._depth = self._count = 0

    def read(self, content: bytes) -> ElementTree.Element:
        """The root of the document."""
        for begin in range(0, len(content), _PART):
            self._expat.Parse(content[begin : begin + _PART], False)
        self._expat.Parse(b"", True)
        return self._builder.close()

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth, self._count = self._depth + 1, self._count + 1
        if self._depth > DEPTH:
            raise InputError(f"has more than {DEPTH} elements in each other")
        if self._count > MOST_ELEMENTS:
            raise InputError(f"has more than {MOST_ELEMENTS} elements")
        element = self._builder.start(tag, attributes)
        assert isinstance(element, _Element)
        element.line = self._expat.CurrentLineNumber

    def _end(self, tag: str) -> None:
        self._depth -= 1
        self._builder.end(tag)


def _parse(path: Path) -> ElementTree.Element:
    """The document of a file, of bounded size and depth."""
    try:
        return _Reader().read(read_bytes(path, MODEL))
    except InputError as error:
        raise ModelFileError(f": {error}") from error
    except expat.ExpatError as error:
        raise ModelFileError(f", line {error.lineno}: not XML: {error}") from error
    except (LookupError, ValueError) as error:  # its encoding
        raise ModelFileError(f": not XML: {error}") from error


def _at(element: ElementTree.Element) -> str:
    """Where an element is in its file."""
    return f", line {getattr(element, 'line', 0)}: "


def _tree_problems(tree: FileTree) -> Iterator[str]:
    """What is wrong with moving links; what is fixed together counts as one, under its first name."""
    names = {joint: name for name, joint, _ in reversed(list(tree.bodies()))}
    compiled = bool(tree.start)  # MuJoCo's compiler has looked at the masses; between joints of one body there is none
    joints = range(0 if tree.free else 1, 1 if compiled else tree.model.njoints)
    for joint in joints:
        inertia = tree.model.inertias[joint]
        name = names.get(joint, tree.model.names[joint])
        if not 0.0 < inertia.mass < np.inf:
            lacking = "; give it an <inertial>, or make its joint fixed" if inertia.mass == 0.0 else ""
            yield f": link {name}: mass = {inertia.mass:g} kg: must be > 0, the link moves{lacking}"
        elif reason := impossible(np.array(inertia.inertia)):
            yield f": link {name}: no body has this inertia: {reason}"
    for shape in tree.shapes:
        if isinstance(shape.geometry, coal.Halfspace) and (tree.free or shape.joint > 0):
            yield f": link {shape.body}: only a fixed body can have a plane"


def _load_urdf(path: Path, root: ElementTree.Element, meshes: Meshes | None) -> tuple[list[FileTree], list[str]]:
    """Its tree, and what of it is not simulated."""
    problems = [line for link in root.findall("link") for line in _link_problems(link)]
    problems += _structure_problems(root)
    if problems:
        raise ModelFileError(*problems)
    laws = urdf_laws(root)
    folders = [str(folder) for folder in path.resolve().parents]
    try:
        model = pin.buildModelFromUrdf(str(path))
        geometry = pin.GeometryModel()
        if meshes is not None:
            pin.buildGeomFromUrdf(model, str(path), pin.GeometryType.COLLISION, geometry, folders)
    except (ValueError, RuntimeError, IndexError) as error:  # how exceptions of C++ arrive
        raise ModelFileError(_located(error, path, root)) from error
    hulls: list[str] = []
    shapes = () if meshes is None else tuple(_shapes(model, geometry, meshes, hulls))
    trees = [FileTree(model, False, shapes, placed(laws, model))]
    return trees, [f"dents of the meshes of {listed(hulls)}, whose hulls collide"] if hulls else []


_SHAPES = {  # of URDF: attributes that each needs, and how many numbers they have
    "box": {"size": 3},
    "sphere": {"radius": 1},
    "cylinder": {"radius": 1, "length": 1},
    "mesh": {"filename": 0},
}


_INERTIAL = {"mass": {"value"}, "inertia": {"ixx", "ixy", "ixz", "iyy", "iyz", "izz"}}


def _link_problems(link: ElementTree.Element) -> Iterator[str]:
    """What is wrong with a link that the loader would add up without looking, or drop without a word."""
    name, inertials = link.get("name"), link.findall("inertial")
    if len(inertials) > 1:
        yield f"{_at(inertials[1])}link {name}: has {len(inertials)} <inertial>: must have at most one"
    for inertial in inertials:
        given = {child.tag: set(child.attrib) for child in inertial}
        missing = [f"<{tag}>" for tag, keys in _INERTIAL.items() if not keys <= given.get(tag, set())]
        if missing:
            yield f"{_at(inertial)}link {name}: <inertial> needs {' and '.join(missing)} with all of its numbers"
    mass = link.find("inertial/mass")
    if mass is not None and number(mass.get("value", "0")) < 0.0:
        yield f"{_at(mass)}link {name}: mass = {mass.get('value')} kg: must be >= 0"
    for collision in link.findall("collision"):
        shapes = [shape for geometry in collision.findall("geometry") for shape in geometry]
        if len(shapes) != 1 or shapes[0].tag not in _SHAPES:
            found = ", ".join(f"<{shape.tag}>" for shape in shapes) or "none"
            known = ", ".join(f"<{tag}>" for tag in _SHAPES)
            yield f"{_at(collision)}link {name}: <collision> has the shapes {found}: must have one of {known}"
            continue
        (shape,) = shapes
        for key, count in _SHAPES[shape.tag].items():
            values = shape.get(key, "").split()
            if not values or (count and len(values) != count):
                found = f"has {len(values)} numbers: must have {count}" if values else "missing"
                yield f"{_at(shape)}link {name}: <{shape.tag}> {key}: {found}"
            elif count and not min(map(number, values)) > 0.0:
                yield f"{_at(shape)}link {name}: <{shape.tag}> {key} = {shape.get(key)}: must be > 0"


_KINDS = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")


def _structure_problems(root: ElementTree.Element) -> Iterator[str]:
    """Why links and joints are no tree; the loader says no more than that they are none."""
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
                yield f"{_at(part)}{part.tag} {reason}"
            seen.add(name)
    known = {link.get("name", "") for link in links}
    children: set[str] = set()
    for joint in joints:
        where, kind, limit = f"{_at(joint)}joint {joint.get('name', '')}", joint.get("type"), joint.find("limit")
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
            return f"{_at(mesh)}mesh {name}: cannot be read as a mesh; export it again, as STL, OBJ or DAE"
        if name and f"{name} could not be found" in lines[0]:
            return f"{_at(mesh)}mesh {name}: not found; it was looked for beside the file, and in the folders above"
    return f": Pinocchio: {lines[0].replace(f'The file {path} does not', 'does not')}; `check_urdf` of ROS says more"


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
                yield f"{_at(element)}<{element.tag}> {key} = {shown(text)}: {reason}"


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
            yield f"{_at(joint)}joint {joint.get('name', '')}: axis = {text}: must not be zero"


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


def _shapes(model: pin.Model, geometry: pin.GeometryModel, meshes: Meshes, hulls: list[str]) -> Iterator[FileShape]:
    """The shapes of a model; links where the hull of a mesh stands for pieces that are not convex go to `hulls`."""
    for item in geometry.geometryObjects:
        frame = model.frames[item.parentFrame]
        while frame.type != pin.FrameType.BODY and frame.parentFrame != 0:
            frame = model.frames[frame.parentFrame]
        body = frame.name if frame.type == pin.FrameType.BODY else "world"
        pose = item.placement.copy()
        if isinstance(item.geometry, coal.BVHModelBase):
            try:
                shapes, hull = _of_mesh(item.geometry, meshes)
            except MeshError as error:
                advice = "; set meshes: hull to take its convex hull" if hull_would_do(error) else ""
                raise ModelFileError(f": link {body}: mesh {item.meshPath} {error}{advice}") from error
            if hull and body not in hulls:
                hulls.append(body)
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


def _of_mesh(mesh: coal.BVHModelBase, meshes: Meshes) -> tuple[list[coal.Convex], bool]:
    """The convex shapes of a mesh, and whether its hull is taken because its pieces are not convex."""
    faces = np.array([[mesh.tri_indices(i)[k] for k in range(3)] for i in range(mesh.num_tris)], int)
    triangles = merged(np.array(mesh.vertices()), faces)
    try:
        taken = take(triangles, "connected" if meshes == "either" else meshes)
    except MeshError as error:
        if meshes != "either" or not hull_would_do(error):
            raise
        return [convex_shape(corners) for corners in take(triangles, "hull").corners], True
    return [convex_shape(corners) for corners in taken.corners], False


def _extent(geometry: coal.CollisionGeometry) -> float:
    """The least of the numbers that give a shape its size; negative or NaN if one is wrong."""
    sizes = [
        value
        for name in ("radius", "halfLength", "halfSide")
        if (part := getattr(geometry, name, None)) is not None
        for value in np.atleast_1d(part)
    ]
    return float(np.min(sizes)) if sizes else np.inf
