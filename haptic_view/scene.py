"""Scene of a virtual world for drawings: its bodies with their shapes as triangles, and its hands.

A scene is made once, from the world at its start. Where the bodies are at an instant is a `Frame` (`frame.py`); a page
(`page.py`) and the drawings of a report (`drawing.py`) show both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pinocchio as pin

from haptic_sim.constraints.drawing import SLENDER, Drawing
from haptic_sim.constraints.scenes import ConstrainedParameters, ConstrainedSetup
from haptic_sim.dynamics.loose import forward_kinematics
from haptic_sim.fields.acting import Field
from haptic_sim.geometry.shapes import solid
from haptic_sim.rotations import matrices
from haptic_sim.scenes import ModelSource
from haptic_sim.simulation import Model
from haptic_sim.spatial import quat_from_matrix
from haptic_sim.tool.engines import Link, Start
from haptic_sim.tool.tool_side import ToolSections, hand_pose
from haptic_sim.worlds import compiled
from haptic_sim.worlds.world_setup import WorldSetup
from haptic_view.frame import Chart
from haptic_view.reliefs import is_drawable
from haptic_view.shapes import (
    Relief,
    Shape,
    at,
    ball,
    cylinder,
    moved,
    plane,
    pose_of,
    prism,
    ring,
    shape_of_coal,
    shape_of_geom,
    stick,
)
from haptic_view.visuals import VisualError, load_visuals

PLANE = {False: 2.0, True: 1.2}  # half the side of a plane that is drawn, in space and in the plane, per size
SLAB = 0.05  # thickness of a plane that is drawn, per size
NOWHERE = np.zeros((0, 3))
_X, _Z = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])
AT_REST = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
THICK = 0.015  # radius of the point of a field, and thickness of its curve, per size of the scene
LINES = 60  # of a curve that is drawn
FLAT = 0.02  # half the thickness of what moves in the plane, as it is drawn, per size of the scene


@dataclass(frozen=True)
class Holding:
    """A hand in the scene.

    Attributes:
        name: of a further hand; empty: the first.
        body: number of the held body.
        X_HB: pose of the held body's axes in the hand's (4, 4).
    """

    name: str
    body: int
    X_HB: np.ndarray


Place = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Poses of the scene's bodies (B, 7) from those of a world state (N, 7) and the configuration (nq,)."""


@dataclass(frozen=True)
class Scene:
    """Scene to draw.

    Attributes:
        title: of the experiment.
        planar: everything moves in the plane of x and y, and is seen from above.
        bodies: names.
        moving: whether each body can move.
        shapes: of all bodies.
        hands: the first hand first.
        poses: of the bodies at the start [m, quat_xyzw], (B, 7).
        centre: of what moves and touches at the start [m], (3,).
        size: half the diagonal of that [m].
        rate: of the servo [Hz].
        charts: that the trial has values for.
        named: names of the bodies in a world state.
        place: see `Place`.
        from_configuration: the same from the configuration alone, for a trial without world states.
        notes: what is not drawn, and why.
        linked: numbers of the bodies that joints connect with a held body, itself included.
        fields: regions, surfaces and curves of the fields of the world, in its axes, by the names of the fields.
    """

    title: str
    planar: bool
    bodies: tuple[str, ...]
    moving: tuple[bool, ...]
    shapes: tuple[Shape, ...]
    hands: tuple[Holding, ...]
    poses: np.ndarray
    centre: np.ndarray
    size: float
    rate: float
    charts: tuple[Chart, ...]
    named: tuple[str, ...]
    place: Place
    from_configuration: Callable[[np.ndarray], np.ndarray]
    notes: tuple[str, ...] = ()
    linked: tuple[int, ...] = ()
    fields: tuple[tuple[str, Shape], ...] = ()

    @property
    def held(self) -> tuple[int, ...]:
        """Numbers of the bodies that hands hold."""
        return tuple(hand.body for hand in self.hands)


class About(NamedTuple):
    """Data of the trial in a scene: title, rate of the servo [Hz], and the charts that there are values for."""

    title: str
    rate: float
    charts: tuple[Chart, ...]


def scene_of(
    about: About, sections: ToolSections, start: Start, travelled: np.ndarray = NOWHERE, *, visual: bool = False
) -> Scene:
    """The scene of a tool's side.

    Args:
        about: what the scene has of its trial.
        sections: that describe the tool's side.
        start: that is built from them.
        travelled: where the hands have been [m], (N, 3), which the scene then shows; it is unknown before the trial.
        visual: whether links have their visual meshes, where a file says some, instead of the shapes that collide.

    Raises:
        ParameterError: a file of the world is no longer there.
    """
    if isinstance(start, ConstrainedSetup):
        assert isinstance(sections.scene, ConstrainedParameters)
        return _constrained(about, sections.scene, start, travelled)
    names, joints, X_JB = _bodies(start)
    at_start = _kinematics(start, joints, X_JB)
    shapes = list(_shapes_of_world(start, names, X_JB))
    poses = at_start(start.q)
    loaded = sections.environment.engine.compiled(sections.scene)
    if loaded is not None:  # what MuJoCo has beside the tool's tree
        model, data = loaded
        more, theirs = _shapes_of_mujoco(model, names)
        shapes += more
        compiled.library().mj_kinematics(model, data)
        for i, body in theirs.items():
            poses[i, :3], poses[i, 3:] = data.xpos[body], np.roll(data.xquat[body], -1)
    seen, notes = _visuals(sections.scene.model_files(), names) if visual else ([], ())
    shown = {shape.body for shape in seen}
    shapes = [shape for shape in shapes if shape.body not in shown] + seen
    shapes += _sticks(start, names, joints, X_JB, {shape.body for shape in shapes})
    engine = sections.environment.engine
    links = engine.links()
    more, unseen = _of_links(links, engine.link_files() if visual else {}, len(names))
    shapes += more
    moving = tuple(joint > 0 or name in start.elsewhere for name, joint in zip(names, joints, strict=True))
    hands = [
        _holding(name, start, frame, joints, X_JB)
        for name, frame in zip(("", *(hand.name for hand in sections.hands)), (start.hand, *start.further), strict=True)
    ]
    others = [i for i, name in enumerate(names) if name in start.elsewhere]

    def from_configuration(q: np.ndarray) -> np.ndarray:
        found = at_start(q)
        found[others] = poses[others]
        return np.concatenate([found, poses[len(found) :]])

    poses = np.concatenate([poses, *(link.pose[None] for link in links)])
    return _scene(
        about,
        (*names, *(link.name for link in links)),
        (*moving, *(True for _ in links)),
        shapes,
        hands,
        poses,
        lambda given, q: given,
        from_configuration,
        travelled,
        planar=start.planar,
        notes=(*notes, *unseen),
        linked=_linked(start, joints, [hand.body for hand in hands]),
        fields=start.force_fields,
    )


def scene_of_model(model: Model, title: str, travelled: np.ndarray = NOWHERE) -> Scene:
    """The scene of a world that a program advances; `travelled` as above."""
    return scene_of(About(title, model.rate, ()), model.sections, model.start, travelled)


def _linked(world: WorldSetup, joints: Sequence[int], held: Sequence[int]) -> tuple[int, ...]:
    """Numbers of the bodies in the trees of held ones, from the joint of each body."""
    roots = [next(iter(world.model.supports[joint].tolist()[1:]), 0) for joint in joints]
    trees = {roots[body] for body in held} - {0}
    return tuple(body for body, root in enumerate(roots) if root in trees)


def _of_links(
    links: Sequence[Link], files: Mapping[str, ModelSource], first: int
) -> tuple[list[Shape], tuple[str, ...]]:
    """Shapes of an engine's links, the bodies from `first` on, and a line for each file that cannot be shown.

    They are what a file shows, or else sticks.
    """
    shapes: list[Shape] = []
    notes = []
    for name, source in files.items():
        try:
            found = load_visuals(source)
        except VisualError as error:
            notes.append(f"{name}: its visual meshes are not shown: {error}")
            continue
        for link, X, geometry in found:
            for i, one in enumerate(links, first):
                if link in one.frames:
                    shapes.append(moved(shape_of_coal(i, geometry), one.frames[link] @ X))
    if not shapes:
        for i, one in enumerate(links, first):
            shapes += [
                stick(i, one.origin, end, one.radius) for end in one.ends if np.linalg.norm(end - one.origin) > 1e-6
            ]
    return shapes, tuple(notes)


def _visuals(files: Mapping[str, ModelSource], names: tuple[str, ...]) -> tuple[list[Shape], tuple[str, ...]]:
    """Visual shapes of links of files, and a line for each file of which they cannot be shown."""
    shapes: list[Shape] = []
    notes = []
    for name, source in files.items():
        try:
            for link, X, geometry in load_visuals(source):
                if f"{name}/{link}" in names:
                    shapes.append(moved(shape_of_coal(names.index(f"{name}/{link}"), geometry), X))
        except VisualError as error:
            notes.append(f"scene.files.{name}: its visual meshes are not shown: {error}")
    return shapes, tuple(notes)


def _scene(
    about: About,
    names: tuple[str, ...],
    moving: tuple[bool, ...],
    shapes: list[Shape],
    hands: list[Holding],
    poses: np.ndarray,
    place: Place,
    from_configuration: Callable[[np.ndarray], np.ndarray],
    travelled: np.ndarray,
    *,
    planar: bool,
    named: tuple[str, ...] | None = None,
    notes: tuple[str, ...] = (),
    linked: tuple[int, ...] = (),
    fields: tuple[Field, ...] = (),
) -> Scene:
    """A scene, its planes cut to its size and its planar shapes made flat."""
    points = _points(shapes, poses, moving, travelled, hands[0].body)
    low, high = points.min(axis=0), points.max(axis=0)
    if planar:
        low[2] = high[2] = 0.0
    size = max(0.5 * float(np.linalg.norm(high - low)), 1e-3)
    centre = 0.5 * (low + high)
    fitted = tuple(_fitted(shape, poses[shape.body], centre, size, planar) for shape in shapes)
    fine = {names[one.body] for one in fitted if one.relief is not None and not is_drawable(one)}
    notes += tuple(f"bodies.{name}: its texture is not shown: it is too fine for its surface" for name in sorted(fine))
    return Scene(
        about.title,
        planar,
        names,
        moving,
        fitted,
        tuple(hands),
        poses,
        centre,
        size,
        about.rate,
        about.charts,
        names if named is None else named,
        place,
        from_configuration,
        notes,
        linked or tuple(hand.body for hand in hands),
        tuple(
            (field.name, _fitted(shape, AT_REST, centre, size, planar))
            for field in fields
            for shape in _shapes_of_field(field, size)
        ),
    )


def _shapes_of_field(field: Field, size: float) -> Iterator[Shape]:
    """Shapes of a field in a scene of a size [m], in world axes."""
    for shape in field.drawn.shapes:
        found = solid(shape, Path())
        for geometry in found.geometry:
            yield moved(shape_of_coal(0, geometry), found.pose.homogeneous)
    points = field.drawn.points
    if len(points) == 1:
        yield replace(at_point := ball(0, (THICK * size,) * 3), vertices=at_point.vertices + points[0])
    step = max(1, (len(points) - 1) // LINES)
    shown = points[[*range(0, len(points) - 1, step), len(points) - 1]] if len(points) > 1 else points[:0]
    for start, end in pairwise(shown):
        yield stick(0, start, end, 0.5 * THICK * size)


def _points(
    shapes: list[Shape], poses: np.ndarray, moving: tuple[bool, ...], travelled: np.ndarray, held: int
) -> np.ndarray:
    """Points that a picture of the scene has to show, in the world: of moving bodies, and the near ones of others."""
    here = [at(poses[shape.body], shape.vertices) for shape in shapes]
    origins = poses[[i for i, one in enumerate(moving) if one], :3]
    for shape, vertices in zip(shapes, here, strict=True):
        if shape.body == held and len(travelled):  # as large as it is, wherever it goes
            offset = vertices - poses[held, :3]
            travelled = np.concatenate([travelled, travelled + offset.min(axis=0), travelled + offset.max(axis=0)])
    of_moving = [origins, travelled, *(v for v, shape in zip(here, shapes, strict=True) if moving[shape.body])]
    found = np.concatenate(of_moving) if sum(map(len, of_moving)) else poses[:1, :3]
    middle = 0.5 * (found.min(axis=0) + found.max(axis=0))
    reach = 4.0 * max(float(np.ptp(found, axis=0).max()), 1e-3)
    for vertices, shape in zip(here, shapes, strict=True):
        if shape.ground:
            foot = _foot(vertices, middle)
            near = foot[None] if np.linalg.norm(foot - middle) < reach else foot[:0]
        else:
            near = np.clip(vertices, middle - reach, middle + reach)
        if not moving[shape.body]:
            found = np.concatenate([found, near])
    return found


def _foot(corners: np.ndarray, point: np.ndarray) -> np.ndarray:
    """The point of a plane, of which three corners of a square are given, that is nearest to a point."""
    normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
    normal /= np.linalg.norm(normal)
    foot: np.ndarray = point - normal * (normal @ (point - corners[0]))
    return foot


def _fitted(shape: Shape, pose: np.ndarray, centre: np.ndarray, size: float, planar: bool) -> Shape:
    """A shape as it is drawn: a plane as a slab that is as large as the scene, in the plane of x and y all flat."""
    vertices, faces = np.array(shape.vertices), shape.faces
    if shape.ground:
        R, p = matrices(pose[None, 3:])[0], pose[:3]
        foot = _foot(vertices, R.T @ (centre - p))
        top = foot + (vertices - vertices.mean(axis=0)) * PLANE[planar] * size
        normal = np.cross(vertices[1] - vertices[0], vertices[2] - vertices[0])
        below = top - SLAB * size * normal / np.linalg.norm(normal)
        slab = prism(shape.body, top, below)
        vertices, faces = slab.vertices, slab.faces
    if planar:
        vertices[:, 2] = np.clip(vertices[:, 2], -FLAT * size, FLAT * size)
    return replace(shape, vertices=vertices, faces=faces)


# Worlds


def _bodies(world: WorldSetup) -> tuple[tuple[str, ...], list[int], list[pin.SE3]]:
    """Names, joints and poses in the joint's axes of the bodies, as in world states."""
    frames = [world.model.frames[i] for i in world.body_frames]
    return (
        tuple(world.moving),
        [int(frame.parentJoint) for frame in frames],
        [frame.placement for frame in frames],
    )


def _kinematics(world: WorldSetup, joints: list[int], X_JB: list[pin.SE3]) -> Callable[[np.ndarray], np.ndarray]:
    """Poses of the bodies from the configuration."""
    place = forward_kinematics(world.model)

    def poses(q: np.ndarray) -> np.ndarray:
        X_WJ = place(np.asarray(q, float))
        return np.array([pose_of((X_WJ[j] * X).homogeneous) for j, X in zip(joints, X_JB, strict=True)])

    return poses


def _holding(name: str, world: WorldSetup, frame: int, joints: list[int], X_JB: list[pin.SE3]) -> Holding:
    """A hand of a world: it holds the body of its joint that is drawn."""
    hand = world.model.frames[frame]
    body = joints.index(int(hand.parentJoint))
    return Holding(name, body, (hand.placement.inverse() * X_JB[body]).homogeneous)


def _shapes_of_world(world: WorldSetup, names: tuple[str, ...], X_JB: list[pin.SE3]) -> Iterator[Shape]:
    """The shapes of a world as they collide, but meshes themselves in place of their convex pieces."""
    meshes = {mesh.first: mesh.taken for mesh in world.meshes if mesh.taken.chosen == "pieces"}
    others = {mesh.first + k for mesh in world.meshes if mesh.first in meshes for k in range(1, mesh.count)}
    for i, (name, geometry) in enumerate(zip(world.shape_bodies, world.geometry.geometryObjects, strict=True)):
        if i in others:
            continue
        body = names.index(name)
        X_BS = X_JB[body].inverse() * geometry.placement
        if i in meshes:
            shape = Shape(body, meshes[i].vertices, meshes[i].faces, convex=False)
        else:
            shape = shape_of_coal(body, geometry.geometry)
        texture = world.textures.get(geometry.name)
        relief = None if texture is None else Relief(texture, X_BS.homogeneous)
        yield replace(moved(shape, X_BS.homogeneous), relief=relief)


def _sticks(
    world: WorldSetup, names: tuple[str, ...], joints: list[int], X_JB: list[pin.SE3], drawn: set[int]
) -> Iterator[Shape]:
    """Links for moving bodies without shapes: from the joint to what it carries."""
    model = world.model
    for i, (joint, X) in enumerate(zip(joints, X_JB, strict=True)):
        if i in drawn or not joint or names[i] in world.elsewhere:
            continue
        ends = [
            model.jointPlacements[child].translation
            for child in range(1, model.njoints)
            if model.parents[child] == joint
        ]
        ends += [
            model.frames[frame].placement.translation
            for frame in (world.hand, *world.further)
            if model.frames[frame].parentJoint == joint
        ]
        ends.append(model.inertias[joint].lever)
        ends = [X.actInv(end) for end in ends]
        origin = X.actInv(np.zeros(3))
        longest = max(float(np.linalg.norm(end - origin)) for end in ends)
        for end in ends if longest > 1e-6 else []:
            if np.linalg.norm(end - origin) > 0.05 * longest:
                yield stick(i, origin, end, SLENDER * longest)
        if longest <= 1e-6:  # all at one point: a ball as heavy as the body, of the density of water
            radius = (max(model.inertias[joint].mass, 1e-6) / (4.0 / 3.0 * math.pi * 1000.0)) ** (1.0 / 3.0)
            yield moved(ball(i, (radius,) * 3), pin.SE3(np.eye(3), origin).homogeneous)


# Worlds that MuJoCo simulates


def _shapes_of_mujoco(model: Any, names: tuple[str, ...]) -> tuple[list[Shape], dict[int, int]]:
    """The geoms that collide, of a body that has none all; and MuJoCo's number of each of our bodies."""
    mujoco = compiled.library()
    number = {name: i for i, name in enumerate(compiled.body_names(model))}
    theirs = {i: number[name] for i, name in enumerate(names) if name in number}
    found: list[Shape] = []
    for i, body in theirs.items():
        geoms = range(model.body_geomadr[body], model.body_geomadr[body] + model.body_geomnum[body])
        solid = [g for g in geoms if model.geom_contype[g] or model.geom_conaffinity[g]]
        for geom in solid or geoms:
            shape = shape_of_geom(mujoco, model, geom, i)
            if shape is not None:
                X = np.eye(4)
                X[:3, :3] = matrices(np.roll(model.geom_quat[geom], -1)[None])[0]
                X[:3, 3] = model.geom_pos[geom]
                found.append(moved(shape, X))
    return found, theirs


# Tools under exact constraints alone


def _constrained(about: About, scene: ConstrainedParameters, setup: ConstrainedSetup, travelled: np.ndarray) -> Scene:
    """The scene of a tool without a world: `tool` is its hand point, with the axes of the held body."""
    picture, start = scene.picture(), hand_pose(setup)
    names, pivot, fixed = picture.names, picture.pivot, [np.array(pose) for pose in picture.fixed]
    moving = tuple(number < len(names) - len(fixed) for number in range(len(names)))
    shapes = [_KINDS[kind](body, *numbers) for body, kind, numbers in picture.shapes]
    drawing: Drawing | None = scene.drawn(setup.system)
    if drawing is not None:
        shapes = list(_drawn(drawing, setup.q, start))
        names = ("tool", *_names_of(drawing))
        moving = (True,) * len(names)

    def place(given: np.ndarray, q: np.ndarray) -> np.ndarray:
        others = [] if drawing is None else _placed(drawing, q)
        return np.array([given[0], *([] if pivot is None else [_turned(np.array(pivot), q[0])]), *others, *fixed])

    def from_configuration(q: np.ndarray) -> np.ndarray:
        w, pose = setup.system.evaluate(q, np.zeros(setup.system.n)), np.zeros(7)
        pose[:3] = w.p
        quat_from_matrix(np.ascontiguousarray(w.R), pose[3:])
        return place(pose[None], q)

    hands = [Holding("", 0, np.eye(4))]
    poses = place(start[None], setup.q)
    return _scene(
        about,
        names,
        moving,
        shapes,
        hands,
        poses,
        place,
        from_configuration,
        travelled,
        planar=setup.planar,
        named=("tool",),
    )


_KINDS: dict[str, Callable[..., Shape]] = {
    "cylinder": cylinder,
    "ball": lambda body, radius: ball(body, (radius,) * 3),
    "plane": lambda body: plane(body, np.array([0.0, 0.0, 1.0]), 0.0),
    "ring": ring,
    "rod": lambda body, start, end, radius: stick(body, start * _X, end * _X, radius),
}
"""Shapes of `haptic_sim.constraints.scenes.Picture`."""


# Systems from formulas: a body for each link, along its axis x, each circle, about its axis z, and each ball


def _names_of(drawing: Drawing) -> Iterator[str]:
    yield from (f"{first} {second}" for first, second in drawing.links)
    yield from (f"circle {number + 1} about {circle.centre}" for number, circle in enumerate(drawing.circles))
    yield from drawing.balls


def _drawn(drawing: Drawing, q: np.ndarray, hand: np.ndarray) -> Iterator[Shape]:
    """The shapes at the start, of the hand first."""
    points, circles = drawing.at(q)
    lengths = [float(np.linalg.norm(points[second] - points[first])) for first, second in drawing.links]
    sizes = [*lengths, *(radius for _, radius in circles)]
    thickness = 0.5 * SLENDER * float(np.median(sizes)) if sizes else 0.0
    yield ball(0, ((2.0 * thickness) or 0.05 * max(float(np.linalg.norm(hand[:3])), 0.2),) * 3)
    for body, length in enumerate(lengths, 1):
        half = np.array([0.5 * length, 0.0, 0.0])
        yield stick(body, -half, half, thickness)
    for body, (_, radius) in enumerate(circles, 1 + len(lengths)):
        yield ring(body, radius, thickness)
    for body, _ in enumerate(drawing.balls, 1 + len(sizes)):
        yield ball(body, ((2.0 * thickness) or 0.02,) * 3)


def _placed(drawing: Drawing, q: np.ndarray) -> list[np.ndarray]:
    """Poses at a configuration."""
    points, circles = drawing.at(q)
    found = [
        _along(0.5 * (points[first] + points[second]), _X, points[second] - points[first])
        for first, second in drawing.links
    ]
    found += [_along(points[one.centre], _Z, axis) for one, (axis, _) in zip(drawing.circles, circles, strict=True)]
    return found + [_along(points[name], _Z, np.zeros(3)) for name in drawing.balls]


def _along(position: np.ndarray, axis: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """A pose in which an axis of the body has a direction in the world."""
    pose, length = np.zeros(7), float(np.linalg.norm(direction))
    pose[:3], pose[6] = position, 1.0
    if length > 0.0 and math.isfinite(length):
        pose[3:] = pin.Quaternion.FromTwoVectors(axis, direction / length).coeffs()
    return pose


def _turned(position: np.ndarray, angle: float) -> np.ndarray:
    """A pose turned about z."""
    return np.array([*position, 0.0, 0.0, math.sin(0.5 * angle), math.cos(0.5 * angle)])
