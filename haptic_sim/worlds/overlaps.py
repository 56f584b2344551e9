"""Overlaps of bodies of a world at its start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.contact_rows import ContactRows
from haptic_sim.dynamics.loose import joint_placements
from haptic_sim.geometry.collision import CollisionDetector
from haptic_sim.geometry.fields.field import CELLS, SolidField
from haptic_sim.worlds.parameters import WorldParameters
from haptic_sim.worlds.world_setup import MeshOfBody, WorldSetup

HUGE = 1.0  # [m] of an overlap, more than of bodies that are only placed wrongly
SHOWN = 5  # pairs of bodies that overlap
ROWS_OF_A_PAIR = 2 * CELLS  # contact rows of a pair of shapes with fields, at most


def find_overlaps(world: WorldSetup, allowed: float = 0.0) -> list[tuple[float, str, str]]:
    """Depth [m] and names of each two bodies that overlap by more than `allowed` at the start, the deepest first."""
    return overlaps_of(world.model, world.geometry, world.q, world.shape_bodies, allowed, world.solid_fields)


def overlaps_of(
    model: pin.Model,
    geometry: pin.GeometryModel,
    q: np.ndarray,
    bodies: Sequence[str],
    allowed: float,
    fields: Mapping[str, SolidField],
) -> list[tuple[float, str, str]]:
    """Overlaps, as `find_overlaps`, of the shapes of these bodies."""
    pairs = np.array([(pair.first, pair.second) for pair in geometry.collisionPairs], np.int64).reshape(-1, 2)
    shapes, placements = geometry.geometryObjects, joint_placements(model, q)
    poses = [placements[shape.parentJoint] * shape.placement for shape in shapes]
    low, high = _bounds(shapes, poses)
    near = ((low[pairs[:, 0]] <= high[pairs[:, 1]]) & (low[pairs[:, 1]] <= high[pairs[:, 0]])).all(axis=1)
    request, deepest = coal.DistanceRequest(), dict[tuple[str, str], float]()
    meshes = np.array([isinstance(shape.geometry, coal.BVHModelBase) for shape in shapes], bool)
    by_field = near & meshes[pairs].any(axis=1)
    for first, second, depth in _overlaps_of_fields(shapes, poses, pairs[by_field], fields):
        names = bodies[second], bodies[first]
        if depth > max(allowed, deepest.get(names, 0.0)):
            deepest[names] = depth
    for first, second in pairs[near & ~by_field].tolist():
        result = coal.DistanceResult()
        at = [coal.Transform3s(poses[i].rotation, poses[i].translation) for i in (first, second)]
        coal.distance(shapes[first].geometry, at[0], shapes[second].geometry, at[1], request, result)
        names = bodies[second], bodies[first]
        if -result.min_distance > max(allowed, deepest.get(names, 0.0)):
            deepest[names] = -float(result.min_distance)
    return sorted(((depth, *names) for names, depth in deepest.items()), key=lambda overlap: -overlap[0])


def _overlaps_of_fields(
    shapes: Sequence[pin.GeometryObject], poses: Sequence[pin.SE3], pairs: np.ndarray, fields: Mapping[str, SolidField]
) -> Iterator[tuple[int, int, float]]:
    """The pairs (P, 2) of shapes at these poses that overlap, and how deep [m]; in each, one has a field."""
    if not len(pairs):
        return
    geometry = pin.GeometryModel()
    for shape, pose in zip(shapes, poses, strict=True):
        geometry.addGeometryObject(pin.GeometryObject(shape.name, 0, 0, pose, shape.geometry))
    for first, second in pairs.tolist():
        geometry.collisionPairs.append(pin.CollisionPair(first, second))
    model, rows = pin.Model(), ContactRows(ROWS_OF_A_PAIR * len(pairs))
    found = CollisionDetector(model, geometry, np.zeros(len(pairs)), np.zeros((len(pairs), 2)), fields=fields)
    data = model.createData()
    pin.forwardKinematics(model, data, np.zeros(0))
    found.detect(data, 0.0, rows)
    for pair in np.unique(rows.wall[: rows.count]).tolist():
        depth = -float(rows.separation[: rows.count][rows.wall[: rows.count] == pair].min())
        yield int(pairs[pair, 0]), int(pairs[pair, 1]), depth


def _bounds(shapes: Sequence[pin.GeometryObject], poses: Sequence[pin.SE3]) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of boxes around the shapes, world axes, (G, 3) [m]; half-spaces are everywhere."""
    low, high = np.full((len(poses), 3), -np.inf), np.full((len(poses), 3), np.inf)
    for i, (shape, pose) in enumerate(zip(shapes, poses, strict=True)):
        if not isinstance(shape.geometry, coal.Halfspace):
            shape.geometry.computeLocalAABB()
            box = shape.geometry.aabb_local
            centre, half = 0.5 * (box.min_ + box.max_), 0.5 * (box.max_ - box.min_)
            centre, half = pose.act(centre), np.abs(pose.rotation) @ half
            low[i], high[i] = centre - half, centre + half
    return low, high


def describe_overlaps(
    overlaps: list[tuple[float, str, str]], parameters: WorldParameters, meshes: Sequence[MeshOfBody]
) -> Iterator[str]:
    """A line for each pair of bodies that overlap too deep; `meshes` are those of all bodies."""
    for depth, a, b in overlaps[:SHOWN]:
        yield (
            f"bodies: {a} and {b} overlap by {depth:.4g} m at the start: must be at most allowed_overlap = "
            f"{parameters.allowed_overlap:g} m; move one of them, or name the pair in ignore"
        )
    if len(overlaps) > SHOWN:
        yield f"bodies: number of other pairs that overlap: {len(overlaps) - SHOWN}"
    together = {name for _, *names in overlaps for name in names}
    questions = [f"{one.source}: {why}" for one in meshes if one.body in together and (why := one.taken.question)]
    yield from questions
    from_files = {one.body for one in meshes}
    if not questions and any(depth > HUGE and from_files & set(names) for depth, *names in overlaps):
        yield f"bodies: an overlap of more than {HUGE:g} m: lengths are in metres, not in millimetres (meshes: scale)"
    files = sorted({tuple(sorted(name.partition("/")[0] for name in names)) for _, *names in overlaps})
    for a, b in files if len(overlaps) > 1 else ():
        if {a, b} & parameters.files.keys():
            pair = f"ignore = [[{a}, {b}]] is for all bodies of {a} and {b}"
            yield f"bodies: if they are to pass through each other: {pair}"
