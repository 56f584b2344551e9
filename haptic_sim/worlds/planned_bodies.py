"""The bodies of an experiment, as parts of the plan of a world."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin

from haptic_sim.dynamics.joints import JointLaw, free_joint_laws
from haptic_sim.dynamics.multibody import planar_joint
from haptic_sim.geometry.mesh_files import MeshError
from haptic_sim.geometry.shapes import (
    PlaneParameters,
    Solid,
    coordinates_of,
    locate,
    placement,
    solid,
    surface_of,
    uniform,
)
from haptic_sim.geometry.textures import Surface, SurfaceParameters, TextureError
from haptic_sim.parameters import did_you_mean
from haptic_sim.rotations import from_roll_pitch_yaw
from haptic_sim.worlds.parameters import (
    WORLD,
    BallBodyParameters,
    FixedBodyParameters,
    FreeBodyParameters,
    PlanarBodyParameters,
    PrismaticBodyParameters,
    RevoluteBodyParameters,
    WorldParameters,
    tensor,
)
from haptic_sim.worlds.plan import Link, Place, Plan, Shape, free_link, to_centre
from haptic_sim.worlds.world_setup import MeshOfBody


def add_bodies(plan: Plan, parameters: WorldParameters, folder: Path) -> Iterator[str]:
    solids: dict[str, list[Solid]] = {}
    textures: dict[str, list[SurfaceParameters]] = {}
    for name, body in parameters.bodies.items():
        solids[name], textures[name] = [], []
        for i, shape in enumerate(body.shapes):
            try:
                solids[name].append(found := solid(shape, folder))
            except MeshError as error:
                yield f"bodies.{name}.shapes[{i}]{error}"
                continue
            try:
                loaded = shape.texture.loaded(partial(locate, folder=folder))
                on = Surface(partial(surface_of, found), partial(coordinates_of, shape, folder))
                textures[name].append(loaded.fitted(on))
            except TextureError as error:
                yield f"bodies.{name}.shapes[{i}].texture{error}"
            if found.taken is not None and (summary := found.taken.summary):
                plan.notes.append(f"bodies.{name}.shapes[{i}].{found.source}: {summary}")
        if name in parameters.files:
            yield f"bodies.{name}: a file has this name too"
    broken = {name for name, body in parameters.bodies.items() if len(body.shapes) > len(textures[name])}
    order, problems = _parents_first(plan, parameters)
    yield from problems
    if broken or problems:
        return
    for name in order:
        body = parameters.bodies[name]
        X_JB = pin.SE3.Identity()  # body in its joint
        link = None
        if isinstance(body, FixedBodyParameters):
            link, X_JB = _fixed(plan, body)
        else:
            inertia = _inertia(body, solids[name])
            link, X_JB = _link(plan, name, body, inertia)
            plan.links.append(link)
        moves = link is not None and not isinstance(body, FixedBodyParameters)
        centre = link.inertia.lever.copy() if link is not None and moves else X_JB.translation.copy()
        plan.places[name] = Place(link, X_JB, centre, body)
        if link is not None and not moves and any(isinstance(shape, PlaneParameters) for shape in body.shapes):
            yield f"bodies.{name}.shapes: a plane must be of a body that does not move, and its parent does"
    # Shapes in the order of the experiment, whatever hangs on what.
    for name, of_body in solids.items():
        numbers = itertools.count()
        for i, (one, surface) in enumerate(zip(of_body, textures[name], strict=True)):
            if one.taken is not None:
                source = f"bodies.{name}.shapes[{i}].{one.source}"
                plan.meshes.append(MeshOfBody(name, len(plan.shapes), len(one.geometry), one.taken, source))
            pose = plan.places[name].pose * one.pose
            texture: Any = None if surface.ABSENT else surface
            plan.shapes += [
                Shape(name, f"{name}.{next(numbers)}", pose, geometry, one.field, texture) for geometry in one.geometry
            ]


def _fixed(plan: Plan, body: FixedBodyParameters) -> tuple[Link | None, pin.SE3]:
    """The joint that a body is fixed to, and its pose in the joint's axes; none: the world."""
    if body.parent == WORLD:
        return None, body.pose
    place = plan.places[body.parent]
    return place.link, place.pose * body.pose


def _parents_first(plan: Plan, parameters: WorldParameters) -> tuple[list[str], list[str]]:
    """Names of bodies, parents before children, and what is wrong with parents."""
    order: list[str] = []
    problems: list[str] = []
    for start in parameters.bodies:
        chain: list[str] = []
        name = start
        while name in parameters.bodies and name not in order:
            if name in chain:
                loop = ", ".join(chain[chain.index(name) :])
                problems.append(f"bodies.{name}.parent = {_parent(parameters, name)}: cyclic parent chain ({loop})")
                return [], problems
            chain.append(name)
            name = _parent(parameters, name)
        if name not in (WORLD, *parameters.bodies, *plan.places):
            hint = did_you_mean(name, (WORLD, *parameters.bodies, *plan.places))
            problems.append(f"bodies.{chain[-1]}.parent = {name}: unknown body{hint}")
        order += reversed(chain)
    return order, problems


def _parent(parameters: WorldParameters, name: str) -> str:
    return getattr(parameters.bodies[name], "parent", WORLD)


def _inertia(body: Any, pieces: list[Solid]) -> pin.Inertia:
    """Inertia of a moving body in its axes."""
    if getattr(body, "bare", False):
        return pin.Inertia.Zero()
    shapes = uniform(pieces)
    planar = isinstance(body, PlanarBodyParameters)
    if body.inertia is not None:
        centre = np.zeros(3) if shapes is None else np.array(shapes.lever)
        if body.centre_of_mass is not None:
            centre = np.array([*body.centre_of_mass, 0.0][:3])
        # The other two moments do not matter in the plane; equal ones are those of a possible body.
        moments = body.inertia * np.eye(3) if planar else tensor(body.inertia)
        total = pin.Inertia(body.mass, centre, moments)
    else:
        assert shapes is not None  # moving bodies without inertia have shapes with volume
        scale = body.density if body.mass is None else body.mass / shapes.mass
        moments = np.array(shapes.inertia) * scale
        total = pin.Inertia(
            shapes.mass * scale, np.array(shapes.lever), moments[2, 2] * np.eye(3) if planar else moments
        )
    if planar:
        total.lever = np.array([total.lever[0], total.lever[1], 0.0])
    return total


def _link(plan: Plan, name: str, body: Any, inertia: pin.Inertia) -> tuple[Link, pin.SE3]:
    """The joint of a moving body, and the body's pose in its axes."""
    centred = to_centre(inertia)
    if isinstance(body, FreeBodyParameters):
        balanced = inertia if body.gravity_compensation else pin.Inertia.Zero()
        laws = free_joint_laws(name, body.damping, body.turn_damping)
        return free_link(name, inertia, body.pose, np.array(body.velocity), balanced, laws), centred
    parent, pose, X_JB = None, pin.SE3.Identity(), pin.SE3.Identity()
    if isinstance(body, PlanarBodyParameters):
        joint, X_JB = planar_joint(), centred
        X_WB = placement((*body.position, 0.0), (0.0, 0.0, body.angle))
        q = [*X_WB.act(np.array(inertia.lever))[:2], body.angle]
        inertia = pin.Inertia(inertia.mass, np.zeros(3), inertia.inertia)
    else:
        pose = body.pose
        if body.parent != WORLD:
            place = plan.places[body.parent]
            parent, pose = place.link, place.pose * body.pose
        axis = np.array(getattr(body, "axis", (0.0, 0.0, 1.0)))
        axis = axis / np.linalg.norm(axis)
        if isinstance(body, BallBodyParameters):
            joint, q = pin.JointModelSpherical(), [*from_roll_pitch_yaw(*body.turn)]
        elif isinstance(body, RevoluteBodyParameters):
            joint, q = pin.JointModelRevoluteUnaligned(axis), [body.angle]
        else:
            joint, q = pin.JointModelPrismaticUnaligned(axis), [body.travel]
    link = Link(
        name=name,
        joint_name=name,
        joint=joint,
        parent=parent,
        pose=pose,
        inertia=inertia,
        q=np.array(q, float),
        v=np.array(body.velocity, float).reshape(-1),
        planar=isinstance(body, PlanarBodyParameters),
        balanced=inertia if body.gravity_compensation else pin.Inertia.Zero(),
        parent_body=getattr(body, "parent", None),
        laws=() if isinstance(body, PlanarBodyParameters) else _laws(name, body),
        armature=getattr(body, "armature", 0.0),
        bare=getattr(body, "bare", False),
    )
    return link, X_JB


def _laws(
    name: str, body: RevoluteBodyParameters | PrismaticBodyParameters | BallBodyParameters
) -> tuple[JointLaw, ...]:
    if isinstance(body, BallBodyParameters):
        return tuple(JointLaw(name, velocity=k, damping=body.damping) for k in range(3))
    lower, upper = body.range or (-np.inf, np.inf)
    law = JointLaw(
        name,
        velocity=0,
        position=0,
        lower=lower,
        upper=upper,
        speed=body.speed_limit or np.inf,
        damping=body.damping,
        friction=body.friction,
        stiffness=body.stiffness,
        reference=body.rest,
        restitution=body.limit_restitution,
    )
    return (law,)
