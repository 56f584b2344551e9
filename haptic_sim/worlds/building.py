"""Worlds: any number of free bodies, linkages and fixed bodies, as parameters and as a Pinocchio model.

A body has axes of its own, in which its shapes, its centre of mass and its hold point are given. The model has one
joint for each body that moves:

 - free: translation in world axes, then a spherical joint; its frame is at the centre of mass and has the body's axes.
   The coordinates are (x, y, z, quaternion x y z w), the velocities that of the centre of mass in world axes and the
   angular one in the body's axes: the inertia is constant, and any step keeps linear momentum exactly.
 - planar: x, y and the angle about z in world axes, its frame at the centre of mass.
 - revolute and prismatic: the body's axes, turned or moved along an axis of the parent.

Fixed bodies belong to joint 0. A tree is the set of all bodies connected to the world by one joint; it has consecutive
coordinates, and the inertia matrix is block diagonal over trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.constraints.errors import ConstraintError
from haptic_sim.dynamics.gravity import balance
from haptic_sim.dynamics.loose import PINOCCHIO_COORDINATES, part_of
from haptic_sim.geometry.collision.field_contacts import MOST_SLOPE
from haptic_sim.geometry.fields.distances import FieldError
from haptic_sim.geometry.fields.field import fields_for
from haptic_sim.hand.held import unholdable
from haptic_sim.parameters import ParameterError, did_you_mean
from haptic_sim.random_numbers import displaced
from haptic_sim.spatial import planar_angle
from haptic_sim.worlds.assembly import add_geometry, add_hand, assemble, materials_of, overlapping_links
from haptic_sim.worlds.constraints import build_constraints
from haptic_sim.worlds.fields import build_fields
from haptic_sim.worlds.motions import build_motions, build_pulls, without_friction
from haptic_sim.worlds.overlaps import describe_overlaps, find_overlaps, overlaps_of
from haptic_sim.worlds.parameters import WORLD, HoldParameters, WorldParameters
from haptic_sim.worlds.plan import Link, Plan, root
from haptic_sim.worlds.planned_bodies import add_bodies
from haptic_sim.worlds.planned_files import add_files
from haptic_sim.worlds.world_setup import MATERIAL, WorldSetup

MOST_DRAWS = 100  # of a start at random in which bodies overlap
MAX_COORDINATES = 6000  # velocities: solvers have tables of their square, 0.3 GB each for so many


def build(
    parameters: WorldParameters,
    folder: Path,
    *,
    restitution: float = 0.0,
    friction: tuple[float, float] = (0.0, 0.0),
    prefix: str = "",
    seed: int = 0,
    hands: Sequence[HoldParameters] = (),
) -> WorldSetup:
    """The world that `parameters` describe.

    Args:
        folder: where the paths of files start from, unless they are there as given.
        restitution, friction: of contacts between bodies without own values; static and kinetic.
        prefix: what goes before the keys in messages, "scene." for example.
        seed: of where bodies are with `jitter`.
        hands: further ones, beside that of `parameters`.

    Raises:
        ParameterError: one line for each problem, with key, value and reason.
    """
    plan = Plan()
    problems = [*add_files(plan, parameters, folder), *add_bodies(plan, parameters, folder)]
    if not problems:
        problems = list(_name_problems(plan, parameters, hands))
    if problems:
        raise ParameterError(prefix + problem for problem in problems)
    if problems := [problem for i, one in enumerate(hands) for problem in _hold_problems(plan, one, f"hands[{i}].")]:
        raise ParameterError(problems)
    if sum(len(link.v) for link in plan.links) > PINOCCHIO_COORDINATES:  # loose bodies come last
        plan.links.sort(key=lambda link: _may_be_loose(plan, link, parameters, hands))
    model, q, v, laws, ordered = assemble(plan, parameters.gravity)
    balanced = balance(model, _balanced(plan, ordered, parameters))
    hand = add_hand(model, plan, "hand", parameters)
    further = tuple(add_hand(model, plan, f"hand_{one.name}", one) for one in hands)
    for i, (one, frame) in enumerate(zip(hands, further, strict=True)):
        if problem := unholdable(model.inertias[model.frames[frame].parentJoint], parameters.planar):
            raise ParameterError([f"hands[{i}].tool = {one.tool}: cannot be held: its link {problem}"])
    geometry, pairs = add_geometry(plan, parameters, ())
    try:
        fields = fields_for(geometry, {shape.name: shape.field for shape in plan.shapes if shape.field is not None})
    except FieldError as error:
        raise ParameterError([f"{prefix}bodies: {error}"]) from error
    shape_bodies = tuple(shape.body for shape in plan.shapes)
    overlaps = overlaps_of(model, geometry, q, shape_bodies, parameters.allowed_overlap, fields)
    if left_out := overlapping_links(plan, overlaps):
        geometry, pairs = add_geometry(plan, parameters, left_out)
    held = int(model.frames[hand].parentJoint)
    motions = build_motions(
        model, q, v, laws, parameters.motions, files=tuple(parameters.files), tool=held, folder=folder, prefix=prefix
    )
    laws = without_friction(laws, motions)
    pulls = build_pulls(model, parameters.pulls, tool=held, prefix=prefix)
    force_fields = build_fields(
        model,
        parameters.fields,
        hand=hand,
        tool=parameters.tool,
        centre=lambda name: plan.places[name].centre,
        folder=folder,
        prefix=prefix,
    )
    constraints = {**plan.constraints, **parameters.constraints}
    if constraints and (motions or pulls or force_fields):
        key = "motions" if motions else "pulls" if pulls else "fields"
        where = "leave out constraints" if parameters.constraints else f"{next(iter(constraints))} is one, of a file"
        raise ParameterError([f"{prefix}{key}: support only worlds without exact constraints; {where}"])
    problems = list(_plane_problems(model, plan, ordered, q, parameters)) if parameters.planar else []
    problem = unholdable(model.inertias[model.frames[hand].parentJoint], parameters.planar)
    if problem:
        problems.append(f"tool = {parameters.tool}: cannot be held: its link {problem}")
    values = materials_of(plan, pairs, (restitution, *friction, 0.0, 0.0))
    for pair, (_, static, kinetic, _, _) in zip(pairs, values, strict=True):
        if static < kinetic:
            bodies = " and ".join(plan.shapes[i].body for i in pair)
            problem = f"friction of {bodies}: static = {static:g}: must be >= kinetic = {kinetic:g}"
            if f"bodies: {problem}" not in problems:
                problems.append(f"bodies: {problem}")
    if problems:
        raise ParameterError(prefix + problem for problem in problems)
    roots = [link for link in ordered if link.parent is None]
    parents = {id(link.parent) for link in ordered}
    free = [link for link in ordered if link.free and id(link) not in parents]
    own = materials_of(plan, pairs, (np.nan,) * len(MATERIAL))
    sizes = [sum(model.nvs[i] for i in model.subtrees[link.number]) for link in roots]
    world = WorldSetup(
        model=model,
        hand=hand,
        geometry=geometry,
        q=q,
        v=v,
        planar=parameters.planar,
        own=np.array(own, float).reshape(-1, len(MATERIAL)),
        tree_start=np.array([model.idx_vs[link.number] for link in roots], np.int64),
        tree_size=np.array(sizes, np.int64),
        free_joints=np.array([link.number for link in free], np.int64),
        free_inertia=np.array([link.inertia.inertia for link in free], float).reshape(-1, 3, 3),
        body_names=(WORLD, *(link.name for link in ordered)),
        shape_bodies=shape_bodies,
        rank_tolerance=parameters.rank_tolerance,
        rank_fade=parameters.rank_fade,
        constraints=build_constraints(model, constraints, prefix),
        laws=laws,
        meshes=tuple(plan.meshes),
        notes=tuple(prefix + note for note in plan.notes),
        further=further,
        motions=motions,
        pulls=pulls,
        force_fields=force_fields,
        balanced=balanced,
        solid_fields=fields,
        textures={shape.name: shape.texture for shape in plan.shapes if shape.texture is not None},
    )
    if any(parameters.jitter):
        world = _jittered(world, plan, parameters, seed, prefix)
    if world.constraints:
        world = _on_manifold(world, prefix)
    if in_vain := list(_textures_on_fields(world, prefix)):
        raise ParameterError(in_vain)
    overlaps = find_overlaps(world, parameters.allowed_overlap)
    if overlaps:
        raise ParameterError(prefix + line for line in describe_overlaps(overlaps, parameters, plan.meshes))
    return world


def _textures_on_fields(world: WorldSetup, prefix: str) -> Iterator[str]:
    """A sentence for each body with a texture that is too steep for a contact by a signed distance field."""
    shapes, refused = world.geometry.geometryObjects, set()
    for pair in world.geometry.collisionPairs:
        both = (pair.first, pair.second)
        if not any(isinstance(shapes[one].geometry, coal.BVHModelBase) for one in both):
            continue
        for one, other in (both, both[::-1]):
            body, opposite = world.shape_bodies[one], world.shape_bodies[other]
            texture = world.textures.get(shapes[one].name)
            if texture is None or body in refused or texture.largest_slope <= MOST_SLOPE:
                continue
            refused.add(body)
            is_field = isinstance(shapes[one].geometry, coal.BVHModelBase)
            what = "it collides" if is_field else f"it meets {opposite}, which collides"
            would = texture.amplitude * MOST_SLOPE / texture.largest_slope
            yield (
                f"{prefix}bodies.{body}: texture.amplitude = {texture.amplitude:g} m: must be at most {would:.3g} m, "
                f"as {what} as a signed distance field, and its slope is up to {texture.largest_slope:.3g}"
            )


def _jittered(world: WorldSetup, plan: Plan, parameters: WorldParameters, seed: int, prefix: str) -> WorldSetup:
    """The same world, its free and planar bodies displaced at random; where some overlap, these are drawn again.

    Raises:
        ParameterError: they overlap in every start that was drawn.
    """
    draws = {link.name: 0 for link in plan.links if link.free or link.planar}
    for _ in range(MOST_DRAWS):
        start = replace(world, q=_displaced_start(world, plan, parameters, seed, draws))
        overlaps = find_overlaps(start, parameters.allowed_overlap)
        roots = [{_root_of(plan, name) for name in names} for _, *names in overlaps]
        redrawn = {root for pair in roots if len(pair) > 1 for root in pair if root in draws}
        if not redrawn:
            return start  # what still overlaps does so without jitter
        for name in redrawn:
            draws[name] += 1
    (depth, a, b), pair = next(
        (o, pair) for o, pair in zip(overlaps, roots, strict=True) if not pair.isdisjoint(redrawn)
    )
    jitter = ", ".join(f"{size:g}" for size in parameters.jitter)
    raise ParameterError(
        [
            f"{prefix}jitter = [{jitter}]: with seed = {seed}, {a} and {b} overlap by {depth:.4g} m in the last of "
            f"{MOST_DRAWS} starts drawn: choose less, or place {min(pair & redrawn)} farther away"
        ]
    )


def _displaced_start(
    world: WorldSetup, plan: Plan, parameters: WorldParameters, seed: int, draws: dict[str, int]
) -> np.ndarray:
    """Configuration with each body of `draws` displaced by as many draws of its own."""
    q = world.q.copy()
    for link in plan.links:
        if link.name in draws:
            place = q[world.model.idx_qs[link.number] :][: link.q.size]
            pose = place if link.free else np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
            source, planar = f"scene.jitter.{link.name}", link.planar or parameters.planar
            pose = displaced(pose, parameters.jitter, seed, planar, source, draws[link.name])
            if link.free:
                place[:] = pose
            else:
                place += pose[0], pose[1], planar_angle(pose)
    return q


def _balanced(plan: Plan, ordered: list[Link], parameters: WorldParameters) -> list[pin.Inertia]:
    """Part of each joint's link whose weight is balanced: gravity does not act on it."""
    tool = root(plan.places[parameters.tool].link) if parameters.gravity_compensation else None
    return [pin.Inertia.Zero()] + [
        link.inertia if root(link) is tool and tool is not None else link.balanced for link in ordered
    ]


def _root_of(plan: Plan, name: str) -> str:
    """Name of the first moving body of the tree that a body belongs to; empty if it does not move."""
    link = root(plan.places[name].link)
    return "" if link is None else link.name


def _on_manifold(world: WorldSetup, prefix: str) -> WorldSetup:
    """The same world with a start that meets its constraints.

    Raises:
        ParameterError: it is too far from them, or they contradict each other.
    """
    try:
        bodies = world.bodies(1e-3)
    except ConstraintError as error:
        raise ParameterError([f"{prefix}constraints.{error}"]) from error
    return replace(world, q=bodies.q, v=bodies.v)


def _name_problems(plan: Plan, parameters: WorldParameters, hands: Sequence[HoldParameters]) -> Iterator[str]:
    yield from _hold_problems(plan, parameters)
    for i, pair in enumerate(parameters.ignore):
        for j, name in enumerate(pair):
            if name not in plan.places and name not in parameters.files:
                yield f"ignore[{i}][{j}] = {name}: unknown body{did_you_mean(name, (*plan.places, *parameters.files))}"
    if not plan.links:
        free = " or ".join(f"files.{name}.base=free" for name in parameters.files)
        yield "bodies: none of them moves" + (f"; set {free} to let the whole of the file move" if free else "")
    parents = {id(link.parent) for link in plan.links}
    for link in plan.links:
        if link.bare and id(link) not in parents:
            yield f"bodies.{link.name}.bare: no body with mass is connected to it; give it mass, or name it as a parent"
    count = sum(len(link.v) for link in plan.links)
    if count > MAX_COORDINATES:
        yield f"bodies: they have {count} velocities together: must be at most {MAX_COORDINATES}"
    if count <= PINOCCHIO_COORDINATES:
        return
    first = sum(len(link.v) for link in plan.links if not _may_be_loose(plan, link, parameters, hands))
    if first > PINOCCHIO_COORDINATES:
        yield (
            f"bodies: linkages, planar bodies and those that are held have {first} velocities together: must be at "
            f"most {PINOCCHIO_COORDINATES}"
        )
    for key in ("constraints", "motions", "pulls", "fields"):
        if getattr(parameters, key) or (key == "constraints" and plan.constraints):
            yield (
                f"{key}: support only worlds with at most {PINOCCHIO_COORDINATES} velocities, and this one has "
                f"{count}; leave bodies out"
            )


def _may_be_loose(plan: Plan, link: Link, parameters: WorldParameters, hands: Sequence[HoldParameters]) -> bool:
    """Whether a link is a free body on which nothing hangs and which is not held."""
    names = [parameters.tool, *(one.tool for one in hands)]
    held = [plan.places[name].link for name in names if name in plan.places]
    return link.free and all(one is not link for one in held) and all(one.parent is not link for one in plan.links)


def _hold_problems(plan: Plan, hold: WorldParameters | HoldParameters, prefix: str = "") -> Iterator[str]:
    place = plan.places.get(hold.tool)
    if place is None:
        yield f"{prefix}tool = {hold.tool}: unknown body{did_you_mean(hold.tool, plan.places)}"
    elif place.link is None:
        base = f"; set files.{place.file}.base=free to let the whole of it move" if place.file else ""
        yield f"{prefix}tool = {hold.tool}: must be a body that moves{base}"


def _plane_problems(
    model: pin.Model, plan: Plan, ordered: list[Link], q: np.ndarray, parameters: WorldParameters
) -> Iterator[str]:
    """Faults of a planar world: bodies that leave the plane of x and y."""
    if parameters.gravity[2] != 0.0:
        yield f"gravity[2] = {parameters.gravity[2]:g} m/s^2: must be 0 in a planar world (y is up)"
    part = part_of(model)
    data, out_of_plane = part.createData(), np.ones(model.nv)  # loose bodies move in space
    pin.computeJointJacobians(part, data, q[: part.nq])
    out_of_plane[: part.nv] = np.abs(data.J.reshape(6, part.nv)[2:5]).max(axis=0)
    for link in ordered:
        first = model.idx_vs[link.number]
        if out_of_plane[first : first + model.nvs[link.number]].max() > 1e-9:
            yield f"bodies.{link.name}: leaves the plane of x and y; must not in a planar world"
    for shape in plan.shapes:
        if isinstance(shape.geometry, coal.Halfspace):
            normal = shape.pose.rotation @ shape.geometry.n  # a plane is fixed: its pose is in the world
            if abs(normal[2]) > 1e-9:
                yield f"bodies.{shape.body}: its plane must stand upright on the plane of x and y in a planar world"


def _show(values: np.ndarray) -> str:
    return "[" + ", ".join(f"{value:g}" for value in values) + "]"
