"""The tool of a world without what else moves in it: what a local model simulates at the servo rate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin

from haptic_sim.dynamics.gravity import balance
from haptic_sim.dynamics.loose import joint_placements
from haptic_sim.parameters import ParameterError
from haptic_sim.spatial import quat_from_matrix
from haptic_sim.worlds.world_setup import WorldSetup


def isolate_tool(world: WorldSetup) -> WorldSetup:
    """The tree that the held body belongs to, as the only one that moves; the world itself where it is.

    Bodies, shapes and pairs of shapes keep their names and numbers. All other bodies are fixed where they start.

    Raises:
        ParameterError: exact constraints hold in a world with other bodies that move.
    """
    if len(world.tree_start) < 2:
        return world
    if world.constraints:
        raise ParameterError(
            [f"constraints.{world.constraints[0].name}: a local model takes none where other bodies move, too"]
        )
    if world.pulls:
        raise ParameterError(
            [f"scene.pulls.{world.pulls[0].name}: acts at the servo rate; set local_model.type=none, or leave it out"]
        )
    model, joints = world.model, held_joints(world)
    if not joints:
        raise ParameterError(["tool: is fixed: a local model moves the tool"])
    first_v, first_q = model.idx_vs[joints[0]], model.idx_qs[joints[0]]
    tree, number = model_of(model, joints, world.q)
    balanced = balance(tree, [world.balanced[joint] for joint in (0, *joints)]) if world.balanced else ()
    nv, nq = tree.nv, tree.nq
    free = [(number[joint], k) for k, joint in enumerate(world.free_joints.tolist()) if joint in number]
    return replace(
        world,
        model=tree,
        hand=tree.getFrameId(model.frames[world.hand].name, model.frames[world.hand].type),
        geometry=_geometry(world, number),
        q=world.q[first_q : first_q + nq].copy(),
        v=world.v[first_v : first_v + nv].copy(),
        tree_start=np.zeros(1, np.int64),
        tree_size=np.array([nv], np.int64),
        free_joints=np.array([joint for joint, _ in free], np.int64),
        free_inertia=world.free_inertia[[k for _, k in free]],
        motions=(),
        force_fields=tuple(replace(one, joint=number[one.joint]) for one in world.force_fields if one.joint in number),
        balanced=balanced,
        body_names=("world", *(world.body_names[joint] for joint in joints)),
        laws=tuple(
            replace(
                law,
                velocity=law.velocity - first_v,
                position=law.position - first_q if law.position >= 0 else law.position,
            )
            for law in world.laws
            if first_v <= law.velocity < first_v + nv
        ),
    )


def held_joints(world: WorldSetup) -> list[int]:
    """The joints of the tree that the held body belongs to, in the order of the model; none if it is fixed."""
    joints = world.model.supports[world.model.frames[world.hand].parentJoint].tolist()
    return list(world.model.subtrees[joints[1]]) if len(joints) > 1 else []


def other_bodies(world: WorldSetup) -> list[int]:
    """The frames of the bodies that move and are not of the tool, in the order of `LocalGeometry.poses`."""
    held, elsewhere = held_joints(world), set(world.elsewhere)
    return [
        i
        for i, frame in enumerate(world.model.frames)
        if frame.type == pin.FrameType.BODY
        and (frame.name in elsewhere or (frame.parentJoint and frame.parentJoint not in held))
    ]


def fill_bodies(model: pin.Model, data: pin.Data, frames: list[int], poses: np.ndarray, twists: np.ndarray) -> None:
    """Fill in the poses (N, 7) [m, quat_xyzw] and twists at their origins (N, 6) [m/s, rad/s] of frames, world axes."""
    for k, i in enumerate(frames):
        placement = data.oMf[i]
        poses[k, :3] = placement.translation
        quat_from_matrix(placement.rotation, poses[k, 3:])
        twists[k] = pin.getFrameVelocity(model, data, i, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED).vector


def tool_coordinates(world: WorldSetup) -> tuple[slice, slice]:
    """Indices of the coordinates of the held tree in the q and v of a world."""
    model, joints = world.model, held_joints(world)
    if not joints:
        return slice(0, 0), slice(0, 0)
    q, v = model.idx_qs[joints[0]], model.idx_vs[joints[0]]
    return (
        slice(q, q + sum(model.nqs[joint] for joint in joints)),
        slice(v, v + sum(model.nvs[joint] for joint in joints)),
    )


def model_of(model: pin.Model, joints: list[int], q: np.ndarray) -> tuple[pin.Model, dict[int, int]]:
    """A model of some of the joints, and their numbers in it; frames of the others are fixed where they are at q."""
    placements = joint_placements(model, q)
    tree, number = pin.Model(), {0: 0}
    tree.name, tree.gravity = model.name, model.gravity
    for joint in joints:
        k = tree.addJoint(
            number[model.parents[joint]], model.joints[joint], model.jointPlacements[joint], model.names[joint]
        )
        tree.appendBodyToJoint(k, model.inertias[joint], pin.SE3.Identity())
        number[joint] = k
    first, nv = model.idx_vs[joints[0]], tree.nv
    tree.armature = model.armature[first : first + nv]
    for frame in list(model.frames)[1:]:
        joint = frame.parentJoint
        if joint in number:
            copy = pin.Frame(frame.name, number[joint], 0, frame.placement, frame.type)
        elif frame.type == pin.FrameType.BODY:
            copy = pin.Frame(frame.name, 0, 0, placements[joint] * frame.placement, frame.type)
        else:
            continue
        tree.addFrame(copy, False)
    return tree, number


def _geometry(world: WorldSetup, number: dict[int, int]) -> pin.GeometryModel:
    """The shapes, on the joints that remain."""
    placements = joint_placements(world.model, world.q)
    geometry = pin.GeometryModel()
    for shape in world.geometry.geometryObjects:
        joint = shape.parentJoint
        placement = shape.placement if joint in number else placements[joint] * shape.placement
        geometry.addGeometryObject(pin.GeometryObject(shape.name, number.get(joint, 0), placement, shape.geometry))
    for pair in world.geometry.collisionPairs:
        geometry.addCollisionPair(pin.CollisionPair(pair.first, pair.second))
    return geometry
