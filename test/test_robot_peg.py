"""A peg at the tool of a simulated arm in a hole: the contact, and Whitney's forces of insertion."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from haptic_bench.experiment import load
from haptic_experiments.robot_peg import (
    ANALYSIS,
    Geometry,
    forces,
    lateral_force,
    peg_depth,
    ring_forces,
    ring_overlap,
    two_point_force,
)
from haptic_experiments.robot_wall import robot_of
from haptic_robot.hole import ANGLES, Hole, HoleParameters
from haptic_robot.simulated import SimulatedArm
from haptic_sim.messages import HELD, ToolCommand
from haptic_sim.rotations import from_roll_pitch_yaw, matrix
from haptic_sim.spatial import advance_pose
from haptic_sim.tool.engines import EngineContext
from haptic_sim.tool.tool_side import build_start
from haptic_sim.tool.world_state import contacts_of

RATE = 1000.0
DOWN = from_roll_pitch_yaw(math.pi, 0.0, 0.4)  # the tool's z points into a hole along z
STILL = np.zeros(6)
TILTED = (0.3, -0.2, 0.9)


def hole(**other: Any) -> HoleParameters:
    return HoleParameters(**{"stiffness": 1e5, "damping": 0.0, **other})


def energy(of: HoleParameters, pose: np.ndarray) -> float:
    """Of all points that overlap, from the solids themselves: the plate and the peg as intersections of their sides."""
    R, p, a = matrix(pose[3:]), pose[:3], np.array(of.axis)
    total = 0.0
    for angle in ANGLES:
        q = p + of.peg_radius * (math.cos(angle) * R[:, 0] + math.sin(angle) * R[:, 1]) - np.array(of.position)
        z = float(q @ a)
        out = float(np.linalg.norm(q - z * a))
        sides = (-z, out - of.radius, (out - of.radius - (z + of.chamfer)) / math.sqrt(2.0))
        total += max(0.0, min(sides)) ** 2
    x = np.cross(np.eye(3)[np.argmin(np.abs(a))], a)
    x /= np.linalg.norm(x)
    for angle in ANGLES:
        edge = np.array(of.position) - of.chamfer * a
        edge = edge + of.radius * (math.cos(angle) * x + math.sin(angle) * np.cross(a, x))
        s = R.T @ (edge - p)
        total += max(0.0, min(of.peg_radius - math.hypot(s[0], s[1]), -s[2])) ** 2
    return 0.5 * of.stiffness * total


def random_pose(of: HoleParameters, rng: np.random.Generator) -> np.ndarray:
    """Of a peg that overlaps the hole a little, on the face, on the chamfer, or inside."""
    a = np.array(of.axis)
    turn = np.cross([0.0, 0.0, 1.0], a)
    pose = np.zeros(7)
    pose[3:] = DOWN
    advance_pose(np.concatenate([np.zeros(3), turn / np.linalg.norm(turn) * math.acos(a[2])]), 1.0, pose)
    advance_pose(np.concatenate([np.zeros(3), rng.uniform(-0.02, 0.02, 3)]), 1.0, pose)
    pose[:3] = np.array(of.position) - a * rng.choice([rng.uniform(-1e-4, 1e-3), rng.uniform(1e-3, 0.03)])
    pose[:3] += rng.uniform(-2e-3, 2e-3, 3) * rng.choice([0.05, 1.0])
    return pose


@pytest.mark.parametrize("chamfer", [0.0, 0.001])
def test_the_force_is_the_gradient_of_an_energy(chamfer: float) -> None:
    """At random poses, by central differences on the manifold: so no path through the contact gains energy."""
    of = hole(axis=TILTED, position=(0.4, 0.1, 0.2), chamfer=chamfer)
    rng, touched, h = np.random.default_rng(32), 0, 1e-8
    for _ in range(60):
        pose, wrench = random_pose(of, rng), np.zeros(6)
        built = Hole(of, RATE)
        built.add(pose, STILL, wrench)
        gradient = np.zeros(6)
        for i in range(6):
            ends = []
            for sign in (h, -h):
                moved = pose.copy()
                advance_pose(sign * np.eye(6)[i], 1.0, moved)
                ends.append(energy(of, moved))
            gradient[i] = (ends[0] - ends[1]) / (2.0 * h)
        np.testing.assert_allclose(wrench, -gradient, rtol=1e-4, atol=1e-4 * (1.0 + np.linalg.norm(gradient)))
        touched += bool(built.touching)
    assert touched > 30


def test_no_path_gains_energy_with_friction_and_damping() -> None:
    """Random paths that begin and end clear of the hole: what the hole has taken, less what its springs keep."""
    of = hole(friction=0.4, damping=20.0)
    rng, taken = np.random.default_rng(7), []
    for _ in range(6):
        built, pose, work = Hole(of, 20.0 * RATE), np.array([0.0, 0.0, 0.002, *DOWN]), 0.0
        sizes, phases = rng.uniform(-1.0, 1.0, (3, 6)), rng.uniform(0.0, 6.0, (3, 6))
        scale = np.array([4e-4, 4e-4, 8e-3, 0.01, 0.01, 0.01])
        for i in range(4000):
            t = i / 4000.0
            w = 2.0 * math.pi * np.array([[1.0], [3.0], [7.0]])
            v = scale * (sizes * np.cos(w * t + phases)).sum(axis=0) * 5.0
            v[2] += -0.15 if t < 0.5 else 0.15
            wrench = np.zeros(6)
            advance_pose(v / (20.0 * RATE), 0.5, pose)
            built.add(pose, v, wrench)
            advance_pose(v / (20.0 * RATE), 0.5, pose)
            work -= float(wrench @ v) / (20.0 * RATE)
        taken.append(work - built.stored() - energy(of, pose))
    assert min(taken) > 0.0


def test_friction_stays_within_its_cone() -> None:
    """Of each point, beside the force that it has without friction; and it takes energy."""
    rough, smooth = hole(axis=TILTED, friction=0.3), hole(axis=TILTED)
    rng, seen, sliding = np.random.default_rng(3), 0, 0
    for _ in range(100):
        pose, twist = random_pose(rough, rng), rng.normal(0.0, 0.1, 6)
        one, other, wrench, without = Hole(rough, RATE), Hole(smooth, RATE), np.zeros(6), np.zeros(6)
        one.add(pose, twist, wrench)
        other.add(pose, twist, without)
        assert (wrench - without) @ twist <= 1e-12
        for (place, n, _, force), (same, _, depth, normal) in zip(one.contacts(), other.contacts(), strict=True):
            np.testing.assert_array_equal(place, same)
            np.testing.assert_allclose(normal, smooth.stiffness * depth * n, atol=1e-9)
            size, friction = float(np.linalg.norm(normal)), force - normal
            assert abs(friction @ normal) <= 1e-9 * size * size
            assert np.linalg.norm(friction) <= 0.3 * size * (1.0 + 1e-9)
            seen, sliding = seen + 1, sliding + bool(np.linalg.norm(friction) > 0.29 * size)
    assert seen > 300 and sliding > 100


def test_a_peg_beside_the_axis_has_the_force_of_two_rings() -> None:
    """Parallel, and 20 um deep in the bore: the end's edge and the bore's edge each have `ring_forces`."""
    of, wrench = hole(), np.zeros(6)
    built = Hole(of, RATE)
    overlap = 2e-5
    pose = np.array([of.radius - of.peg_radius + overlap, 0.0, -0.01, *from_roll_pitch_yaw(math.pi, 0.0, 0.0)])
    built.add(pose, STILL, wrench)
    assert wrench[0] == pytest.approx(-2.0 * ring_forces(of, overlap)[0], rel=0.02)
    assert abs(wrench[1]) < 1e-9 * abs(wrench[0]) + 1e-9
    assert abs(wrench[2]) < 1e-9
    assert ring_overlap(of, ring_forces(of, overlap)[0]) == pytest.approx(overlap, rel=1e-6)


def test_two_stiff_contacts_without_a_lateral_force_have_whitney_s_friction() -> None:
    """F_z = 2 mu M / l, and none where clearance allows the tilt."""
    of = hole(stiffness=1e7, friction=0.2)
    tilt, depth, turning = 0.015, 0.03, 0.5
    length = depth - of.chamfer
    moment = turning * (tilt - 2.0 * (of.radius - of.peg_radius) / length)
    assert two_point_force(of, turning, tilt, depth, 0.0) == pytest.approx(2.0 * 0.2 * moment / length, rel=0.02)
    assert two_point_force(of, turning, 0.003, depth, 0.0) == 0.0


@pytest.mark.parametrize("lateral", [-0.15, 0.0, 0.1])
def test_two_stiff_contacts_are_on_the_line_of_the_jamming_diagram(lateral: float) -> None:
    """M / (r F_z) = L + mu (1 + L) F_x / F_z, L = l / (2 mu r), by statics without the two normal forces."""
    of = hole(stiffness=1e7, friction=0.3)
    tilt, depth, turning, r = 0.015, 0.03, 0.5, of.peg_radius
    length = depth - of.chamfer
    moment, slope = turning * (tilt - 2.0 * (of.radius - r) / length), length / (2.0 * 0.3 * r)
    found = two_point_force(of, turning, tilt, depth, lateral)
    assert found > 0.3 * abs(lateral)  # inside of the diagram: both contacts press
    assert moment / (r * found) == pytest.approx(slope + 0.3 * (1.0 + slope) * lateral / found, rel=0.02)


def test_a_peg_as_wide_as_the_hole_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"peg_radius = 0.011 m: must be less than radius = 0.01 m"):
        HoleParameters(stiffness=1e5, radius=0.01, peg_radius=0.011)
    with pytest.raises(ValidationError, match="has no direction"):
        HoleParameters(axis=(0.0, 0.0, 0.0))


def test_the_peg_goes_in_and_the_hand_feels_misalignment_and_friction(monkeypatch: pytest.MonkeyPatch) -> None:
    """One arm, with where its tool really is."""
    (trial,) = load("robot_peg")
    tips: list[np.ndarray] = []
    step = SimulatedArm.step

    def watched(arm: SimulatedArm) -> None:
        step(arm)
        tips[:] = [arm.arm.pose[:3].copy()]

    monkeypatch.setattr(SimulatedArm, "step", watched)
    experiment, samples = trial.experiment, ANALYSIS.run_unrecorded(trial.in_mode("offline"))
    geometry, depth, felt = Geometry(experiment), peg_depth(experiment, samples), forces(experiment, samples)
    assert depth is not None and felt is not None
    assert depth == pytest.approx(-float((tips[0] - geometry.centre) @ geometry.axis), abs=1e-5)
    assert lateral_force(experiment) == pytest.approx((0.8e-3 - 0.05e-3) / (1.0 / 2000.0 + 1.0 / 2000.0))
    assert depth > 0.0285
    assert np.linalg.norm(felt[1]) == pytest.approx(0.75, rel=0.02)
    assert felt[0] == pytest.approx(robot_of(experiment).arm.hole.friction * 0.75, rel=0.05)


@pytest.mark.parametrize(("name", "bodies"), [("robot_peg", ("plate", "peg")), ("robot_wall", ("wall", "tool"))])
def test_contacts_of_the_arm_are_in_the_world_state(name: str, bodies: tuple[str, str]) -> None:
    """Pushed until it touches, the forces of the contacts add up to what the hand feels."""
    engine = "environment.engine.following.fade=0.001"
    (trial,) = load(name, ["analysis=trial", engine])
    experiment, robot = trial.experiment, robot_of(trial.experiment)
    context = EngineContext(build_start(experiment), experiment.contact, None, 2, None, None, RATE)  # type: ignore[arg-type]
    side = robot.build(context)
    state, command, world = side.tool_state(), ToolCommand(), side.world_state()
    command.hand = HELD
    for _ in range(600):
        command.wrench[:3] = (0.0, 0.0, -5.0) if name == "robot_peg" else (8.0, 0.0, 0.0)
        command.stamp(state.tick + 1, 0)
        side.step(command, state)
        side.observe_contacts(world)
        found = contacts_of(world)
        if found and state.contacts:
            break
    assert found and {one.bodies for one in found} == {bodies}
    for one in found:
        assert one.depth > 0.0 and one.force @ one.normal >= 0.0
        assert np.linalg.norm(one.point - state.pose[:3]) < 0.02
    acting = side._arm._acting[:3]  # type: ignore[union-attr]
    np.testing.assert_allclose(sum(one.force for one in found), acting, rtol=1e-9)


@pytest.mark.exhaustive
@pytest.mark.long
def test_all_claims_hold() -> None:
    (trial,) = load("robot_peg")
    trial = trial.in_mode("offline")
    samples = ANALYSIS.run_unrecorded(trial)
    claims = ANALYSIS.analyse(trial, samples).claims
    assert len(claims) == 6 and all(claim.holds for claim in claims)
