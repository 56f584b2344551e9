"""The plan of a world, put together: Pinocchio model, geometry, materials of pairs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pinocchio as pin

from haptic_sim.dynamics.joints import JointLaw
from haptic_sim.geometry.shapes import Vector
from haptic_sim.worlds.overlaps import SHOWN
from haptic_sim.worlds.parameters import WORLD, HoldParameters, WorldParameters
from haptic_sim.worlds.plan import Link, Plan
from haptic_sim.worlds.world_setup import MATERIAL


def assemble(plan: Plan, gravity: Vector) -> tuple[pin.Model, np.ndarray, np.ndarray, tuple[JointLaw, ...], list[Link]]:
    """The model, its configuration and velocity, the laws of its joints, and the links in the order of its joints."""
    model = pin.Model()
    model.name = WORLD
    model.gravity.linear = np.array(gravity)
    children: dict[int, list[Link]] = {}
    for link in plan.links:
        children.setdefault(id(link.parent), []).append(link)
    ordered: list[Link] = []
    laws: list[JointLaw] = []
    # Depth first, so that the coordinates of a tree are consecutive.
    stack = list(reversed(children.get(id(None), [])))
    while stack:
        link = stack.pop()
        parent = link.parent.number if link.parent is not None else 0
        link.number = model.addJoint(parent, link.joint, link.pose, link.joint_name)
        model.addJointFrame(link.number)
        model.appendBodyToJoint(link.number, link.inertia, pin.SE3.Identity())
        if link.source is not None:
            _copy_limits(*link.source, model, link.number)
        if link.armature > 0.0:
            model.armature[model.idx_vs[link.number]] = link.armature
        first_v, first_q = model.idx_vs[link.number], model.idx_qs[link.number]
        for law in link.laws:
            position = law.position + first_q if law.position >= 0 else -1
            laws.append(replace(law, velocity=law.velocity + first_v, position=position))
        ordered.append(link)
        stack += reversed(children.get(id(link), []))
    for name, place in plan.places.items():
        number = place.link.number if place.link is not None else 0
        model.addFrame(pin.Frame(name, number, place.pose, pin.FrameType.BODY))
    q = np.concatenate([link.q for link in ordered])
    v = np.concatenate([link.v for link in ordered])
    return model, q, v, tuple(law for law in laws if not law.idle), ordered


def _copy_limits(source: pin.Model, i: int, model: pin.Model, k: int) -> None:
    """Copy the values of a joint that a model has in arrays beside it."""
    a, b, n = source.idx_vs[i], model.idx_vs[k], source.nvs[i]
    for name in (
        "armature",
        "damping",
        "rotorInertia",
        "rotorGearRatio",
        "lowerDryFrictionLimit",
        "upperDryFrictionLimit",
        "lowerEffortLimit",
        "upperEffortLimit",
        "lowerVelocityLimit",
        "upperVelocityLimit",
    ):
        getattr(model, name)[b : b + n] = getattr(source, name)[a : a + n]
    a, b, n = source.idx_qs[i], model.idx_qs[k], source.nqs[i]
    for name in ("lowerPositionLimit", "upperPositionLimit"):
        getattr(model, name)[b : b + n] = getattr(source, name)[a : a + n]


def add_hand(model: pin.Model, plan: Plan, name: str, hold: WorldParameters | HoldParameters) -> int:
    place = plan.places[hold.tool]
    assert place.link is not None  # checked by _hold_problems
    point = place.centre if hold.hold is None else place.pose.act(np.array(hold.hold))
    pose = pin.SE3(place.pose.rotation, point)
    return int(model.addFrame(pin.Frame(name, place.link.number, pose, pin.FrameType.OP_FRAME)))


def overlapping_links(plan: Plan, overlaps: list[tuple[float, str, str]]) -> list[tuple[str, str]]:
    """Links of one linkage of a file that overlap at the start, which a note says."""
    found: dict[str, list[tuple[str, str]]] = {}
    for _, a, b in overlaps:
        at_a, at_b = plan.places[a], plan.places[b]
        if at_a.tree is not None and at_a.tree is at_b.tree:
            found.setdefault(at_a.file, []).append((a, b))
    for file, pairs in found.items():
        shown = ", ".join(f"{a} and {b}" for a, b in pairs[:SHOWN])
        more = f"; number of other pairs: {len(pairs) - SHOWN}" if len(pairs) > SHOWN else ""
        plan.notes.append(f"files.{file}: overlap at the start, and do not collide with each other: {shown}{more}")
    return [pair for pairs in found.values() for pair in pairs]


def add_geometry(
    plan: Plan, parameters: WorldParameters, left_out: Sequence[tuple[str, str]]
) -> tuple[pin.GeometryModel, list[tuple[int, int]]]:
    """Shapes and collision pairs, without pairs of bodies that are left out; the pairs also as numbers of shapes."""
    geometry = pin.GeometryModel()
    numbers = []
    for shape in plan.shapes:
        link = plan.places[shape.body].link
        numbers.append(link.number if link is not None else 0)
        geometry.addGeometryObject(pin.GeometryObject(shape.name, numbers[-1], 0, shape.pose, shape.geometry))
    ignored = {frozenset(pair) for pair in (*parameters.ignore, *left_out)}
    tool = plan.places[parameters.tool].link
    pairs = []
    for i, k in itertools.combinations(range(len(plan.shapes)), 2):
        if _collide(plan, parameters, ignored, plan.shapes[i].body, plan.shapes[k].body):
            # The second moves, and is the tool if one is.
            place_of_i = plan.places[plan.shapes[i].body]
            swap = numbers[k] == 0 or (place_of_i.link is tool and tool is not None)
            pairs.append((k, i) if swap else (i, k))
            # addCollisionPair would compare it with all others
            geometry.collisionPairs.append(pin.CollisionPair(*pairs[-1]))
    return geometry, pairs


def _collide(plan: Plan, parameters: WorldParameters, ignored: set[frozenset[str]], a: str, b: str) -> bool:
    """Whether two bodies do: not if neither moves, one hangs on the other, or the experiment says so."""
    at_a, at_b = plan.places[a], plan.places[b]
    if at_a.link is at_b.link:
        return False
    for one, other, name_of_other in ((at_a, at_b, b), (at_b, at_a, a)):
        if one.link is None or one.link.carrier is not other.link:
            continue
        if other.link is not None or one.link.parent_body == name_of_other:
            return False
    return not any(frozenset((x, y)) in ignored for x in (a, at_a.file) for y in (b, at_b.file) if x and y)


def materials_of(plan: Plan, pairs: list[tuple[int, int]], defaults: tuple[float, ...]) -> list[tuple[float, ...]]:
    """Coefficients of pairs of shapes in the order of `MATERIAL`.

    If neither body has a value of its own, that of the experiment is used; if one has, its value; if both have, the
    greater restitution and the geometric mean of each coefficient of friction, be it of sliding, rolling or torsion.
    """
    materials = [plan.places[shape.body].material for shape in plan.shapes]
    given = [tuple(getattr(material, name) for name in MATERIAL) for material in materials]

    @cache
    def combined(a: tuple[float | None, ...], b: tuple[float | None, ...]) -> tuple[float, ...]:
        found = []
        for name, x, y, default in zip(MATERIAL, a, b, defaults, strict=True):
            own = [value for value in (x, y) if value is not None]
            if len(own) < 2:
                found.append(float(own[0] if own else default))
            else:
                found.append(max(own) if name == "restitution" else float(np.sqrt(own[0] * own[1])))
        return tuple(found)

    return [combined(given[i], given[k]) for i, k in pairs]
