"""Scenes of held linkages: bodies and joints as they say, rank at the hand, and values that cannot be."""

import math

import numpy as np
import pinocchio as pin
import pytest
from pydantic import ValidationError
from world_builder import thesis_material

from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.hand import Hand
from haptic_sim.worlds.linkages import (
    HOLDS,
    CrankParameters,
    DoorParameters,
    LaparoscopicParameters,
    RobotArmParameters,
)
from haptic_sim.worlds.scenes import NoToolParameters, build_world


def world_of(scene):
    return build_world(NoToolParameters(), scene, thesis_material())


def held(scene):
    world = world_of(scene)
    body = Multibody(world.model, world.hand, world.q, world.v)
    return body, Hand(body, tolerance=world.rank_tolerance, fade=world.rank_fade)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("scene", "rank"),
    [
        (DoorParameters(), 1),
        (DoorParameters(lean=20.0, closing_angle=-30.0), 1),
        (CrankParameters(), 2),
        (LaparoscopicParameters(), 4),
        (RobotArmParameters(), 6),
        (RobotArmParameters(hold="elbow"), 3),
        (RobotArmParameters(robot="ur3"), 6),
        (RobotArmParameters(robot="ur10", hold="elbow"), 3),
    ],
)
def test_rank_at_the_hand(scene, rank):
    _, hand = held(scene)
    assert hand.rank == rank
    assert hand.listed == 6 - rank


def test_door_turns_about_its_hinge():
    scene = DoorParameters(width=0.9, height=2.0, thickness=0.04, mass=25.0, lean=7.0)
    body, _ = held(scene)
    assert body.D[0, 0] == pytest.approx(scene.inertia, rel=1e-12)
    assert scene.inertia == pytest.approx(25.0 * (0.9**2 / 3 + 0.04**2 / 12))
    assert body.J_H[3:, 0] == pytest.approx(scene.axis, abs=1e-14)
    assert body.J_H[:3, 0] == pytest.approx(np.cross(scene.axis, body.p_WH), abs=1e-14)


@pytest.mark.parametrize(("lean", "closing"), [(0.0, 0.0), (10.0, 0.0), (0.0, 35.0), (-5.0, -80.0)])
def test_closed_door_just_touches_its_frame(lean, closing):
    scene = DoorParameters(lean=lean, closing_angle=closing, angle=closing)
    world = world_of(scene)
    data, geometry = world.model.createData(), world.geometry.createData()
    for angle, sign in ((closing + 0.5, 1.0), (closing, 0.0), (closing - 0.1, -1.0)):
        pin.updateGeometryPlacements(world.model, data, world.geometry, geometry, np.array([math.radians(angle)]))
        pin.computeDistances(world.geometry, geometry)
        distance = geometry.distanceResults[0].min_distance
        # the frame is 0.38 m from the hinge
        expected = 0.38 * math.radians(angle - closing)
        assert distance == pytest.approx(expected, abs=1e-4) and sign * distance >= -1e-9


def test_a_door_that_leans_forward_closes_by_itself():
    body, _ = held(DoorParameters(lean=10.0, angle=60.0))
    m, w, g = 2.5, 0.4, 9.81
    assert body.bias[0] == pytest.approx(m * g * math.sin(math.radians(10.0)) * 0.5 * w * math.sin(math.radians(60.0)))


def test_crank_and_knob():
    scene = CrankParameters(angle=40.0, speed=3.0)
    body, _ = held(scene)
    a = math.radians(40.0)
    assert body.p_WH == pytest.approx([0.12 * math.cos(a), 0.0, 0.12 * math.sin(a)])
    assert body.twist == pytest.approx([-0.36 * math.sin(a), 0, 0.36 * math.cos(a), 0, 0, 0], abs=1e-14)
    # in coordinates of the crank and of the knob in the world, the inertia is diagonal
    T = np.array([[1.0, 0.0], [-1.0, 1.0]])
    knob = 0.4 * 0.1 * 0.02**2
    assert pytest.approx(np.diag([scene.inertia_with_knob, knob]), abs=1e-16) == T.T @ body.D @ T
    assert body.bias[0] == pytest.approx(scene.load * math.cos(a))


def test_instrument_slides_and_turns_at_the_entry_point():
    scene = LaparoscopicParameters()
    body, hand = held(scene)
    handle = np.array([0.0, 0.0, 0.25])
    assert body.p_WH == pytest.approx(handle)
    for axis in range(3):
        w = np.eye(3)[axis]
        assert body.J_H[:, axis] == pytest.approx([*np.cross(w, handle), *w], abs=1e-14)
    assert body.J_H[:, 3] == pytest.approx([0, 0, -1, 0, 0, 0], abs=1e-14)
    # each blocked direction is a force across the shaft at the entry point
    for n in hand.directions[: hand.listed]:
        at_entry = n[3:] + np.cross(handle, n[:3])
        assert at_entry == pytest.approx(0.0, abs=1e-12) and abs(n[2]) < 1e-12


def test_handle_at_the_entry_point_has_no_lever_but_the_hand_keeps_its_rank():
    body, hand = held(LaparoscopicParameters(inserted=0.4, tissue=None))
    assert body.p_WH == pytest.approx(0.0)
    assert hand.rank == 4
    # a force across the shaft moves nothing now: it is a blocked direction itself
    assert np.linalg.norm(body.J_H.T @ [1.0, 0, 0, 0, 0, 0]) < 1e-12
    assert np.abs(hand.directions[:2, :2]).max() == pytest.approx(1.0)


def test_gimbal_lies_down_into_a_singularity():
    scene = LaparoscopicParameters(tissue=None)
    world = world_of(scene)
    q = np.array([0.0, 0.5 * math.pi, 0.0, 0.0])  # the shaft along the first axis
    body = Multibody(world.model, world.hand, q, world.v)
    assert Hand(body).rank == 3


@pytest.mark.parametrize("hold", HOLDS)
def test_robot_is_held_on_a_joint(hold):
    world = world_of(RobotArmParameters(hold=hold))
    assert world.body_names[world.model.frames[world.hand].parentJoint] == f"arm/{HOLDS[hold]}"
    assert len(world.geometry.collisionPairs) == 0
    assert world.model.gravity.linear == pytest.approx(0.0)


def test_stretched_arm_is_blocked_outward():
    q = (0.0, -0.9, 0.0, -0.6, -1.5, 0.0)
    body, hand = held(RobotArmParameters(q=q))
    assert (hand.rank, hand.listed) == (5, 1)
    assert np.abs(body.J_H.T @ hand.directions[0]).max() < 1e-9
    # as a force outward, from the shoulder's to the wrist's joint, across their parallel axes along y
    data = body.data
    shoulder, wrist = (data.oMi[i].translation for i in (2, 4))
    n = hand.directions[0]
    outward = (wrist - shoulder) * [1.0, 0.0, 1.0]
    assert abs(n[[0, 2]] @ outward[[0, 2]]) == pytest.approx(
        np.linalg.norm(n[[0, 2]]) * np.linalg.norm(outward), rel=1e-9
    )


def test_fading_reaches_the_hand():
    _, hand = held(RobotArmParameters(q=(0.0, -0.9, 0.05, -0.6, -1.5, 0.0), rank_fade=40.0))
    assert hand.rank == 6 and hand.listed == 1
    assert 0.0 < np.linalg.norm(hand.directions[0]) < 1.0


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (DoorParameters, {"angle": 10.0, "closing_angle": 20.0}, r"\.angle = 10 deg: must be >= closing_angle = 20"),
        (DoorParameters, {"mass": 0.0}, "greater than 0"),
        (DoorParameters, {"lean": 90.0}, "less than or equal to 89"),
        (DoorParameters, {"width": math.nan}, "finite"),
        (CrankParameters, {"inertia": 0.001, "centre": 0.03}, r"\.inertia = 0\.001 .* must be > mass \* centre\^2"),
        (CrankParameters, {"knob_mass": -1.0}, "greater than 0"),
        (LaparoscopicParameters, {"inserted": 0.5}, r"\.inserted = 0\.5 m: must be from 0 to length = 0\.4"),
        (LaparoscopicParameters, {"inserted": 0.168}, r"must be at most tissue"),
        (LaparoscopicParameters, {"inertia": (1e-3, 3e-3)}, "no body has this inertia"),
        (LaparoscopicParameters, {"inertia": (0.0, 1e-4)}, "no body has this inertia"),
        (RobotArmParameters, {"hold": "shoulder"}, "'wrist' or 'elbow'"),
        (RobotArmParameters, {"robot": "ur7"}, "'ur3', 'ur5' or 'ur10'"),
        (RobotArmParameters, {"rank_tolerance": -1.0}, "greater than or equal to 0"),
        (RobotArmParameters, {"q": (0.0, 1.0)}, "Field required"),
    ],
)
def test_what_cannot_be_is_refused(kind, values, message):
    with pytest.raises(ValidationError, match=message):
        kind(**values)
