"""Linkages from files: URDF by Pinocchio's loader, MJCF by MuJoCo's compiler, SDF by our own reader, and xacro of them.

Documents are read here first, within bounds: what the loaders would take for zero, or drop, is refused with its line.
"""

from __future__ import annotations

import stat
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.geometry.mesh_files import MeshError, check_file, is_text_stl
from haptic_sim.geometry.shapes import impossible
from haptic_sim.inputs import DATA, InputError, numbers, shown
from haptic_sim.scenes import ModelSource
from haptic_sim.worlds.file_joints import mjcf_notes
from haptic_sim.worlds.file_trees import FileTree, Meshes, ModelFileError
from haptic_sim.worlds.mjcf import load_mjcf
from haptic_sim.worlds.packages import Packages, package_of
from haptic_sim.worlds.sdf import load_sdf
from haptic_sim.worlds.urdf import load_urdf
from haptic_sim.worlds.xacro import expand, is_xacro
from haptic_sim.worlds.xml_files import MOST_ELEMENTS, MOST_FILES, Element, at, read_xml

ROOTS = {
    ".urdf": ("robot",),
    ".xml": ("mujoco",),
    ".xacro": ("robot", "sdf"),
    ".sdf": ("sdf",),
    ".world": ("sdf",),
}
"""Root elements of files by how their names end."""
SUFFIXES = ".urdf (URDF), .xml (MJCF), .xacro, .sdf or .world (SDF)"
# Attributes that are numbers, and how many of them.
_NUMBERS = {
    **dict.fromkeys("mass density armature ref radius length value ixx ixy ixz iyy iyz izz".split(), 1),
    **dict.fromkeys("pos euler zaxis diaginertia axis xyz rpy scale".split(), 3),
    **dict.fromkeys("quat axisangle".split(), 4),
    **dict.fromkeys("xyaxes fromto fullinertia".split(), 6),
    "size": 0,
}
_ONLY_OF = {"value": "mass", "scale": "mesh"}
_NOT_ZERO = {"quat", "zaxis", "scale"}  # all numbers zero is an error; for scale, any
MOST_LINKS = 1000  # the loaders go down a chain by recursion, which ends in a crash


def load_trees(
    source: ModelSource | Path, meshes: Meshes | None, error: float | None = None, *, free: bool = False
) -> tuple[list[FileTree], list[str]]:
    """The trees of a model file, in its order, and what it says that is not simulated.

    Args:
        source: the file, URDF, MJCF, SDF, or a xacro file of URDF or SDF.
        meshes: how meshes are taken, see `FileParameters.meshes`; None: the shapes of a URDF are left out.
        error: largest one of hulls, pieces and fields that is wanted [m]; None: as `geometry.meshes.take` has it.
        free: whether what the file fixes to the world is free.

    Raises:
        ModelFileError: missing, malformed, or describes what cannot be.
    """
    source = source if isinstance(source, ModelSource) else ModelSource(source)
    root = read_document(source)
    if root.tag == "robot":
        trees, unread = load_urdf(source.path, root, meshes, error)
    elif root.tag == "sdf":
        trees, unread = load_sdf(source, root, meshes, error)
    else:
        if not root.findall("worldbody"):
            raise ModelFileError(": has no <worldbody>")
        trees, ignored = load_mjcf(source.path, meshes or "hull", error)
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


def read_document(source: ModelSource) -> Element:
    """The document of a model file, checked: without macros, includes, and relative paths of meshes of URDF.

    Raises:
        ModelFileError: missing, malformed, or says what cannot be.
    """
    path = source.path
    if path.suffix not in ROOTS:
        raise ModelFileError(f": must be a {SUFFIXES} file")
    root = read_xml(path)
    packages = Packages(path, source.packages)
    if gone := [folder for folder in source.packages if not folder.is_dir()]:
        raise ModelFileError(
            *(f": packages: {folder}: must be a folder that has packages in it, or is one" for folder in gone)
        )
    if is_xacro(path, root):
        root = expand(path, root, source.args, packages)
    elif source.args:
        raise ModelFileError(f": args: {', '.join(map(shown, source.args))}: only a xacro file has arguments")
    if root.tag not in ROOTS[path.suffix]:
        allowed = " or ".join(f"<{tag}>" for tag in ROOTS[path.suffix])
        raise ModelFileError(f": must have the root element {allowed}, has <{root.tag}>")
    if root.tag == "mujoco":
        _include(root, path.parent, [0, 0])
    links = sum(element.tag in ("link", "body") for element in root.iter())
    if links > MOST_LINKS:
        raise ModelFileError(f": has {links} links: must have at most {MOST_LINKS}")
    if root.tag == "sdf":
        return root
    problems = list(_number_problems(root)) or list(_axis_problems(root))
    if not problems:
        problems = list(_locate_meshes(root, packages) if root.tag == "robot" else _mesh_problems(root, path))
    if problems:
        raise ModelFileError(*problems)
    return root


def _locate_meshes(root: Element, packages: Packages) -> Iterator[str]:
    """Give meshes of URDF their absolute paths; says which of those that collide are in packages that are not found."""
    colliding = {mesh for collision in root.iter("collision") for mesh in collision.iter("mesh")}
    for mesh in root.iter("mesh"):
        name = mesh.get("filename", "")
        if found := packages.locate(name) if name else None:
            if mesh in colliding:
                yield from _unusable(found, name)
            mesh.set("filename", str(found.absolute()))
        elif mesh in colliding and (package := package_of(name)):
            folder = packages.find(package)
            reason = (
                f"there is no package {package}; {packages.searched()}" if folder is None else f"is not in {folder}"
            )
            yield f"{at(mesh)}mesh {shown(name)}: {reason}"


def last_link(source: ModelSource | Path, *, free: bool = False) -> str:
    """The link of a file that moves and comes last, such as the hand of an arm; empty if there is none.

    Args:
        source: the file.
        free: whether what the file fixes to the world is free.

    Raises:
        ModelFileError: as of `load_trees`.
    """
    trees, _ = load_trees(source, None, free=free)
    for tree in reversed(trees):
        moving = [f.name for f in tree.model.frames if f.type == pin.FrameType.BODY and (f.parentJoint or tree.free)]
        if moving:
            return str(moving[-1])
    return ""


def _tree_problems(tree: FileTree) -> Iterator[str]:
    """Faults of moving links; links that are fixed together count as one, under the first name."""
    names = {joint: name for name, joint, _ in reversed(list(tree.bodies()))}
    compiled = bool(tree.start)  # MuJoCo's compiler has looked at the masses; between joints of one body there is none
    joints = range(0 if tree.free else 1, 1 if compiled else tree.model.njoints)
    for joint in joints:
        if joint not in names:
            continue  # between two joints of one body
        inertia, name = tree.model.inertias[joint], names[joint]
        if not 0.0 < inertia.mass < np.inf:
            lacking = "; give it an <inertial>, or make its joint fixed" if inertia.mass == 0.0 else ""
            yield f": link {name}: mass = {inertia.mass:g} kg: must be > 0, the link moves{lacking}"
        elif reason := impossible(np.array(inertia.inertia)):
            yield f": link {name}: no body has this inertia: {reason}"
    for shape in tree.shapes:
        if isinstance(shape.geometry, coal.Halfspace) and (tree.free or shape.joint > 0):
            yield f": link {shape.body}: only a fixed body can have a plane"


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
                yield f"{at(element)}<{element.tag}> {key} = {shown(text)}: {reason}"


def _mesh_problems(root: ElementTree.Element, path: Path) -> Iterator[str]:
    """Meshes of MJCF that are no files, which the compiler would wait for, or too large."""
    here = path.resolve().parent
    settings = {key: value for compiler in root.findall("compiler") for key, value in compiler.attrib.items()}
    folder = settings.get("meshdir", settings.get("assetdir", ""))
    for mesh in root.iter("mesh"):
        name = mesh.get("file", "")
        for place in (here / folder, *here.parents) if name else ():
            try:
                (place / name).stat()
            except (OSError, ValueError):
                continue
            wrong = list(_unusable(place / name, name))
            yield from wrong
            if not wrong and name.lower().endswith(".stl") and is_text_stl((place / name).read_bytes()):
                yield (
                    f"{at(mesh)}mesh {shown(name)}: is text STL, which MuJoCo does not read: export it as binary STL, "
                    "or as OBJ"
                )
            break


def _unusable(path: Path, name: str) -> Iterator[str]:
    """Reasons why an existing file cannot be used as a mesh; `name`: its name in the document."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        yield f": mesh {shown(name)}: must be a file"
    elif found.st_size > DATA:
        yield f": mesh {shown(name)}: has {found.st_size} bytes: must have at most {DATA}"
    else:
        try:
            check_file(path)
        except MeshError as error:
            yield f": mesh {shown(name)}: {error}"


def _axis_problems(root: ElementTree.Element) -> Iterator[str]:
    """Joints that turn or slide about nothing: Pinocchio makes them not a number."""
    for joint in root.iter("joint"):
        axis = joint.find("axis")
        text = joint.get("axis", "") if axis is None else axis.get("xyz", "")
        moves = joint.get("type") not in ("fixed", "floating", "free", "ball")
        if moves and text and not any(numbers(text)):
            yield f"{at(joint)}joint {joint.get('name', '')}: axis = {text}: must not be zero"


def _include(element: ElementTree.Element, folder: Path, read: list[int], depth: int = 0) -> None:
    """Put the content of included files where they are included; `read` counts these files and their elements."""
    if depth > 20:
        raise ModelFileError(": <include>: files include each other")
    for i in reversed(range(len(element))):
        child = element[i]
        if child.tag == "include":
            file = folder / child.get("file", "")
            try:
                included = read_xml(file)
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
