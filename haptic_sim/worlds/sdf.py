"""Worlds and models of SDF documents (Gazebo), from version 1.4 on, as trees of links.

A link that no joint moves is free, unless its model is static or a joint fixes it to the world. A second joint of a
link closes a loop: it is an exact constraint. Links without <inertial> have 1 kg and 1 kg m^2, as in Gazebo.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import pinocchio as pin

from haptic_sim.constraints.parameters import (
    AnyWorldConstraintParameters,
    AxisAlongParameters,
    FrameOnFrameParameters,
    JointCouplingParameters,
    PointFixedParameters,
)
from haptic_sim.dynamics.joints import JointLaw
from haptic_sim.geometry.shapes import impossible
from haptic_sim.inputs import LARGEST, InputError, number, shown
from haptic_sim.scenes import ModelSource
from haptic_sim.worlds.file_joints import check_leaders, listed
from haptic_sim.worlds.file_trees import FileShape, FileTree, Meshes, ModelFileError, attach
from haptic_sim.worlds.packages import Packages
from haptic_sim.worlds.parameters import WORLD
from haptic_sim.worlds.sdf_frames import Scope, flag, number_in, pose_of, read_scopes, values, version_of
from haptic_sim.worlds.sdf_shapes import Shapes, material
from haptic_sim.worlds.xml_files import at

FIRST_VERSION, LAST_VERSION = (1, 4), (1, 12)  # versions of SDF that are read
KINDS = ("revolute", "continuous", "prismatic", "fixed", "ball", "universal", "revolute2", "screw", "gearbox")
_READ = {
    "world": {"model", "include", "frame", "joint", "gravity", "name", "light", "scene", "gui"},
    "model": {"model", "include", "frame", "joint", "link", "pose", "static", "name"},
    "link": {"pose", "inertial", "collision", "visual", "gravity", "name"},
    "joint": {"pose", "parent", "child", "axis", "axis2", "screw_thread_pitch", "thread_pitch", "name"}
    | {"gearbox_ratio", "gearbox_reference_body"},
    "axis": {"xyz", "limit", "dynamics", "mimic", "use_parent_model_frame", "initial_position"},
    "limit": {"lower", "upper", "effort", "velocity"},
}
_READ["axis2"] = _READ["axis"]


@dataclass
class _Link:
    """A link: where it is, its inertia in its axes, its shapes, and the joint that moves it."""

    name: str
    element: Element
    scope: Scope
    pose: pin.SE3
    inertia: pin.Inertia
    static: bool
    weightless: bool
    joint: _Joint | None = None


@dataclass
class _Joint:
    """A joint between two links (None: the world); its pose, and its axes in its frame."""

    name: str
    element: Element
    kind: str
    parent: str | None
    child: str
    pose: pin.SE3
    axes: list[np.ndarray]
    pitch: float = 0.0
    reference: str | None = None  # of a gearbox: the body in which its links turn; None: the world
    ratio: float = 1.0


@dataclass
class _File:
    shapes: Shapes
    links: dict[str, _Link] = field(default_factory=dict)
    joints: list[_Joint] = field(default_factory=list)
    unread: Counter[str] = field(default_factory=Counter)
    plain: list[str] = field(default_factory=list)  # links without <inertial>


def load_sdf(
    source: ModelSource, root: Element, meshes: Meshes | None, allowed: float | None = None
) -> tuple[list[FileTree], list[str]]:
    """The trees of a document, that of what is fixed first, and what of it is not simulated.

    Args:
        source: the file.
        root: of its document.
        meshes: how meshes are taken, see `FileParameters.meshes`; None: there are no shapes.
        allowed: error that is wanted of what they are taken as [m], see `FileParameters.error`.

    Raises:
        ModelFileError: it describes what cannot be.
    """
    packages = Packages(source.path, source.packages)
    tops = read_scopes(root, source.path, packages)
    file = _File(Shapes(packages, meshes, allowed))
    gravity = None
    for top in tops:
        if top.is_world:
            gravity = top.element.find("gravity")
        for scope in top.scopes():
            _read(scope, file)
    for joint in file.joints:
        link = file.links[joint.child]
        if joint.kind != "gearbox" and link.joint is None and not link.static and not _goes_around(file, joint):
            link.joint = joint
    if not file.links:
        raise ModelFileError(": has no <link>")
    trees = [_tree(file, roots) for roots in _components(file)]
    file.joints = [joint for joint in file.joints if not _at_rest(file, joint)]
    closing = [joint for joint in file.joints if joint.kind != "gearbox" and file.links[joint.child].joint is not joint]
    constraints = {name: one for joint in closing for name, one in _closed(file, joint)}
    constraints |= {joint.name: _gearbox(file, joint) for joint in file.joints if joint.kind == "gearbox"}
    constraints |= _mimics(file)
    attach(trees, constraints)
    return trees, [*_version_notes(root), *_notes(file, closing), *_gravity_notes(gravity)]


def _version_notes(root: Element) -> Iterator[str]:
    given = root.get("version")
    nearest = max(FIRST_VERSION, min(version_of(root), LAST_VERSION))
    if given is None or version_of(root) != nearest:
        found = "which it does not give" if given is None else shown(given.strip())
        yield f"differences of its version of SDF, {found}, from {nearest[0]}.{nearest[1]}"


def _notes(file: _File, closing: list[_Joint]) -> Iterator[str]:
    for what, count in sorted((file.unread + file.shapes.unread).items()):
        yield f"<{what}>" if count == 1 else f"<{what}> ({count})"
    if file.shapes.hulls:
        yield f"dents of the meshes of {listed(file.shapes.hulls)}, whose hulls collide"
    if limited := [joint.name for joint in closing if joint.element.find("axis/limit") is not None]:
        yield f"limits of {listed(limited)}, which close loops"
    if file.plain:
        yield f"mass and inertia but 1 kg and 1 kg m^2 of {listed(file.plain)}, without <inertial>"


def _gravity_notes(gravity: Element | None) -> Iterator[str]:
    found = values(gravity, 3, (0.0, 0.0, -9.81))
    if np.abs(np.array(found) - (0.0, 0.0, -9.81)).max() > 0.02:
        yield f"<gravity> {' '.join(f'{value:g}' for value in found)}: set scene.gravity"


def _read(scope: Scope, file: _File) -> None:
    """Add the links and joints of a scope."""
    X_FS = scope.in_file()
    _count_unread(scope.element, file)
    for name, element in scope.named.items():
        if element.tag == "link":
            full = scope.full(name)
            if full in file.links:
                raise ModelFileError(f"{at(element)}link {full}: another link has this name")
            inertia = _inertia(element, file, full, scope)
            weightless = not flag(element, "gravity", True)
            pose = X_FS * scope.pose(name)
            file.links[full] = _Link(full, element, scope, pose, inertia, scope.static, weightless)
    for name, element in scope.named.items():
        if element.tag == "joint":
            file.joints += _joint(scope, name, element, X_FS)


def _count_unread(element: Element, file: _File) -> None:
    """Count what is not read below an element that is."""
    for child in element:
        known = _READ.get(str(element.tag))
        if known is not None and child.tag not in known and ":" not in str(child.tag):
            file.unread[str(child.tag)] += 1
        elif child.tag in _READ and child.tag not in ("model", "include", "world"):
            _count_unread(child, file)


def _inertia(link: Element, file: _File, name: str, scope: Scope) -> pin.Inertia:
    """The inertia of a link in its axes; of one that is static, none."""
    if scope.static:
        return pin.Inertia.Zero()
    given = link.find("inertial")
    if given is None:
        file.plain.append(name)
        return pin.Inertia(1.0, np.zeros(3), np.eye(3))
    if given.get("auto", "") in ("1", "true"):
        density = values(given.find("density"), 1, (1000.0,))[0]
        return file.shapes.filled(link, density, name, scope, given)
    (mass,) = values(given.find("mass"), 1, (1.0,))
    if not mass >= 0.0:
        raise ModelFileError(f"{at(given)}link {name}: mass = {mass:g} kg: must be >= 0")
    tensor = given.find("inertia")
    part = {key: number_in(tensor, key, 1.0 if key in ("ixx", "iyy", "izz") else 0.0) for key in _MOMENTS}
    moments = np.array([[part[_MOMENTS[3 * i + k]] for k in range(3)] for i in range(3)])
    X_LC = pose_of(given.find("pose"))
    if mass > 0.0 and (reason := impossible(moments)):
        raise ModelFileError(f"{at(given)}link {name}: no body has this inertia: {reason}")
    return X_LC.act(pin.Inertia(mass, np.zeros(3), moments))


_MOMENTS = ("ixx", "ixy", "ixz", "ixy", "iyy", "iyz", "ixz", "iyz", "izz")


def _joint(scope: Scope, name: str, element: Element, X_FS: pin.SE3) -> Iterator[_Joint]:
    full, kind = scope.full(name), element.get("type", "")
    where = f"{at(element)}joint {full}: "
    if kind not in KINDS:
        raise ModelFileError(f"{where}type = {shown(kind)}: must be one of {', '.join(KINDS)}")
    ends = []
    for key in ("parent", "child"):
        given = (element.findtext(key) or "").strip()
        if not given:
            raise ModelFileError(f"{where}needs <{key}>")
        found = scope.body(given, element)
        ends.append(None if found is None else found[0].full(found[1]))
    parent, child = ends
    if parent == child:
        raise ModelFileError(f"{where}its parent and its child are the same link, {parent or WORLD}")
    X_FJ = X_FS * scope.pose(name)
    axes = [_axis(scope, element.find(key), X_FS.inverse() * X_FJ, where) for key in ("axis", "axis2")]
    if kind in ("fixed", "ball"):
        axes = []
    elif kind not in ("universal", "revolute2", "gearbox"):
        axes = axes[:1]
    if kind == "gearbox" and element.findtext("gearbox_reference_body", "").strip():
        found = scope.body(element.findtext("gearbox_reference_body", "").strip(), element)
        reference = None if found is None else found[0].full(found[1])
        ratio = number_in(element, "gearbox_ratio", 1.0)
        if child is None or parent is None or not ratio:
            raise ModelFileError(f"{where}gearbox: needs two links and a ratio that is not 0")
        yield _Joint(full, element, kind, parent, child, X_FJ, axes, reference=reference, ratio=ratio)
        return
    if kind == "gearbox":
        raise ModelFileError(f"{where}gearbox: needs <gearbox_reference_body>, the link in which both wheels turn")
    if child is None:  # the world: the other way round
        if parent is None:
            return
        child, parent, axes = parent, None, [-axis for axis in reversed(axes)]
    pitch = 0.0
    if kind == "screw":  # travel [m] of a turn; before 1.10 as radians a metre, left-handed
        old = element.find("thread_pitch")
        pitch = number_in(element, "screw_thread_pitch", 0.0 if old is not None else 1.0)
        if element.find("screw_thread_pitch") is None and old is not None:
            pitch = -2.0 * math.pi / (number_in(element, "thread_pitch", 1.0) or math.inf)
    yield _Joint(full, element, kind, parent, child, X_FJ, axes, pitch)


def _axis(scope: Scope, element: Element | None, X_SJ: pin.SE3, where: str) -> np.ndarray:
    """Direction of an axis in the frame of its joint, of length 1."""
    xyz = None if element is None else element.find("xyz")
    axis = np.array(values(xyz, 3, (0.0, 0.0, 1.0)))
    if not np.any(axis):
        raise ModelFileError(f"{where}axis = 0 0 0: must not be zero")
    frame = "" if xyz is None else xyz.get("expressed_in", "")
    if frame:
        axis = X_SJ.rotation.T @ scope.pose(frame).rotation @ axis
    elif element is not None and (scope.version < (1, 5) or flag(element, "use_parent_model_frame")):
        axis = X_SJ.rotation.T @ axis
    return axis / np.linalg.norm(axis)


def _goes_around(file: _File, joint: _Joint) -> bool:
    """Whether a joint would make a link carry itself."""
    name = joint.parent
    while name is not None and name != joint.child:
        above = file.links[name].joint
        name = None if above is None else above.parent
    return name is not None


def _at_rest(file: _File, joint: _Joint) -> bool:
    """Whether neither of its links moves, as in a model that is static."""
    return file.links[joint.child].static and (joint.parent is None or file.links[joint.parent].static)


def _root(file: _File, name: str) -> _Link | None:
    """The link that carries a link and that no joint moves; None if it is the world."""
    while True:
        link = file.links[name]
        if link.joint is None:
            return link
        if link.joint.parent is None:
            return None
        name = link.joint.parent


def _components(file: _File) -> list[list[_Link]]:
    """The links of each tree, parents first: what is fixed, what hangs on the world by a joint, free ones."""
    fixed = [link for link in file.links.values() if link.joint is None and link.static]
    children: dict[str | None, list[_Link]] = {}
    for link in file.links.values():
        if link.joint is not None:
            children.setdefault(link.joint.parent, []).append(link)
    found = [fixed] if fixed else []

    def below(roots: list[_Link]) -> list[_Link]:
        order, stack = [], list(reversed(roots))
        while stack:
            link = stack.pop()
            order.append(link)
            stack += reversed(children.get(link.name, []))
        return order

    found += [below([link]) for link in children.get(None, [])]
    found += [below([link]) for one in fixed for link in children.get(one.name, [])]
    found += [below([link]) for link in file.links.values() if link.joint is None and not link.static]
    return found


def _tree(file: _File, links: list[_Link]) -> FileTree:
    """One tree; what is fixed to its root belongs to joint 0."""
    root = links[0]
    free = root.joint is None and not root.static
    model, frames, places = pin.Model(), dict[str, int](), dict[str, tuple[int, pin.SE3]]()
    laws: list[JointLaw] = []
    shapes: list[FileShape] = []
    weightless = [pin.Inertia.Zero()]
    for link in links:
        joint, above = 0, 0
        X = link.pose
        if link.joint is not None:
            parent = link.joint.parent
            if parent in places:
                joint, X_P = places[parent]
                above = frames[parent]
                X = X_P * file.links[parent].pose.inverse() * link.pose
            X_LJ = link.pose.inverse() * link.joint.pose
            for k, made in enumerate(_pin_joints(link.joint)):
                name = link.joint.name if k == 0 else f"{link.joint.name}.{k}"
                joint = model.addJoint(joint, made, X * X_LJ, name)
                weightless.append(pin.Inertia.Zero())
                above = model.addFrame(pin.Frame(name, joint, above, pin.SE3.Identity(), pin.FrameType.JOINT), False)
                X = X_LJ.inverse()  # both axes of two go through the frame of the joint
                _add_law(model, joint, link.joint, "axis2" if k else "axis", laws)
        frames[link.name] = model.addFrame(pin.Frame(link.name, joint, above, X, pin.FrameType.BODY), False)
        places[link.name] = joint, X
        model.appendBodyToJoint(joint, link.inertia, X)
        if link.weightless:
            weightless[joint] += X.act(pin.Inertia(link.inertia.mass, link.inertia.lever, np.zeros((3, 3))))
        for X_LS, shape, taken, mesh in file.shapes.of(link.element, link.name, link.scope, link.pose):
            shapes.append(FileShape(link.name, joint, X * X_LS, shape, taken, mesh))
    balanced = tuple(weightless) if any(link.weightless for link in links) else ()
    materials = {link.name: found for link in links if (found := material(link.element)) != (None, None)}
    return FileTree(model, free, tuple(shapes), tuple(laws), (), balanced, materials=materials)


def _pin_joints(joint: _Joint) -> Iterator[pin.JointModel]:
    match joint.kind:
        case "ball":
            yield pin.JointModelSpherical()
        case "prismatic":
            yield pin.JointModelPrismaticUnaligned(joint.axes[0])
        case "screw":
            yield pin.JointModelHelicalUnaligned(joint.axes[0], joint.pitch / (2.0 * math.pi))
        case _:
            for axis in joint.axes:
                yield pin.JointModelRevoluteUnaligned(axis)


def _limit(element: Element | None, key: str, default: float) -> float:
    """A limit; what is infinite, or larger than anything, stands for none."""
    found = None if element is None else element.find(f"limit/{key}")
    text = "" if found is None else (found.text or "").strip()
    if not text:
        return default
    try:
        value = number(text)
    except InputError as error:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not abs(value) > LARGEST:
            assert found is not None
            raise ModelFileError(f"{at(found)}<{key}> {shown(text)}: {error}") from error
    return math.copysign(math.inf, value) if abs(value) >= LARGEST else value


def _add_law(model: pin.Model, number_of: int, joint: _Joint, key: str, laws: list[JointLaw]) -> None:
    """Limits, damping, friction and spring of a coordinate."""
    if joint.kind == "ball":
        return
    element = joint.element.find(key)
    dynamics = None if element is None else element.find("dynamics")
    lower, upper = _limit(element, "lower", -math.inf), _limit(element, "upper", math.inf)
    if joint.kind == "continuous":
        lower, upper = -math.inf, math.inf
    if not lower <= upper:
        raise ModelFileError(
            f"{at(joint.element)}joint {joint.name}: its lower limit, {lower:g}, is above its upper one, {upper:g}"
        )
    speed, effort = _limit(element, "velocity", -1.0), _limit(element, "effort", -1.0)
    v, q = model.idx_vs[number_of], model.idx_qs[number_of]
    if 0.0 <= effort < math.inf:
        model.lowerEffortLimit[v], model.upperEffortLimit[v] = -effort, effort
    law = JointLaw(
        model.names[number_of],
        velocity=v,
        position=q,
        lower=lower,
        upper=upper,
        speed=speed if speed > 0.0 else math.inf,
        damping=number_in(dynamics, "damping", 0.0),
        friction=number_in(dynamics, "friction", 0.0),
        stiffness=number_in(dynamics, "spring_stiffness", 0.0),
        reference=number_in(dynamics, "spring_reference", 0.0),
    )
    for name in ("damping", "friction", "stiffness"):
        if not getattr(law, name) >= 0.0:
            raise ModelFileError(
                f"{at(joint.element)}joint {joint.name}: {name} = {getattr(law, name):g}: must be >= 0"
            )
    if not law.idle:
        laws.append(law)


# Loops and couplings


def _closed(file: _File, joint: _Joint) -> Iterator[tuple[str, AnyWorldConstraintParameters]]:
    """The constraints of a joint whose child another joint moves already."""
    ends: dict[str, Any] = {"body": joint.child, "to": joint.parent or WORLD}
    X_B = file.links[joint.child].pose.inverse() * joint.pose
    X_A = joint.pose if joint.parent is None else file.links[joint.parent].pose.inverse() * joint.pose
    if file.links[joint.child].static:
        raise ModelFileError(f"{at(joint.element)}joint {joint.name}: its child {joint.child} is static")
    at_B, point = tuple(X_B.translation), tuple(X_A.translation)
    along: dict[str, Any] = {}
    if joint.axes:
        along = {"axis": tuple(X_B.rotation @ joint.axes[0]), "direction": tuple(X_A.rotation @ joint.axes[0])}
    match joint.kind:
        case "fixed":
            rpy = [tuple(pin.rpy.matrixToRpy(X.rotation)) for X in (X_B, X_A)]
            yield (
                joint.name,
                FrameOnFrameParameters(**ends, at=at_B, point=point, rotation=rpy[0], point_rotation=rpy[1]),
            )
        case "ball":
            yield joint.name, PointFixedParameters(**ends, at=at_B, point=point)
        case "revolute" | "continuous":
            yield joint.name, PointFixedParameters(**ends, at=at_B, point=point)
            yield f"{joint.name}_axis", AxisAlongParameters(**ends, **along)
        case _:
            raise ModelFileError(
                f"{at(joint.element)}joint {joint.name}: closes a loop: must be fixed, ball, revolute or continuous"
            )


def _gearbox(file: _File, joint: _Joint) -> JointCouplingParameters:
    """The coupling of a gearbox, theta_2 = -ratio theta_1 (SDF's specification of `gearbox_ratio`).

    theta_1 is the angle from the reference body to the parent about `axis`, theta_2 that to the child about `axis2`.
    """
    (first, one), (second, two) = (
        _turning(file, joint, link, joint.pose.rotation @ axis)
        for link, axis in zip((joint.parent, joint.child), joint.axes, strict=True)
    )
    return JointCouplingParameters(
        joints={second.name: 1.0}, to={first.name: 1.0}, polynomial=(0.0, -joint.ratio * one * two)
    )


def _turning(file: _File, gearbox: _Joint, link: str | None, axis: np.ndarray) -> tuple[_Joint, float]:
    """The hinge between the reference body of a gearbox and one of its links, and the sign of its angle."""

    def carrier(name: str | None) -> str | None:
        while name is not None and (joint := file.links[name].joint) is not None and joint.kind == "fixed":
            name = joint.parent
        return name if name is None or not file.links[name].static else None

    ends = [carrier(link), carrier(gearbox.reference)]
    for joint in file.joints:
        moved = file.links[joint.child].joint is joint and joint.kind in ("revolute", "continuous")
        if moved and (between := [joint.child, carrier(joint.parent)]) in (ends, ends[::-1]):
            along = float(joint.pose.rotation @ joint.axes[0] @ axis)
            if 1.0 - abs(along) < 1e-6:
                return joint, math.copysign(1.0, along) * (1.0 if between == ends else -1.0)
    raise ModelFileError(
        f"{at(gearbox.element)}joint {gearbox.name}: gearbox: no hinge about its axis is between {link or WORLD} and "
        f"the reference body {gearbox.reference or WORLD}; add the revolute joint, or couple two joints by <mimic>"
    )


def _mimics(file: _File) -> dict[str, JointCouplingParameters]:
    """The couplings of joints that follow others, by the names of the constraints."""
    known = [one.name for one in file.joints if file.links[one.child].joint is one and one.axes]
    found: dict[str, JointCouplingParameters] = {}
    leaders: dict[str, tuple[str, str]] = {}
    for joint in file.joints:
        for element in joint.element.findall("axis/mimic"):
            given = element.get("joint", "")
            full = file.links[joint.child].scope.full(given)
            leader = full if full in known else given
            leaders[joint.name] = leader, f"{at(element)}joint {joint.name}: <mimic>"
            multiplier, offset = number_in(element, "multiplier", 1.0), number_in(element, "offset", 0.0)
            reference = number_in(element, "reference", 0.0)
            found[f"{joint.name}_mimic"] = JointCouplingParameters(
                joints={joint.name: 1.0}, to={leader: 1.0}, polynomial=(offset - multiplier * reference, multiplier)
            )
    check_leaders(leaders, known)
    return found
