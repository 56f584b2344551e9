"""Contacts by fields: closed forms, continuity in the pose, and what is searched."""

from __future__ import annotations

from copy import copy

import coal
import numpy as np
import pinocchio as pin
import pytest
from collision_scenes import GENERIC, Scene, at, convex, gem, random_pose
from field_scenes import PLANE, FieldScene, cone, cup, pipe, torus, turned

from haptic_sim.geometry.collision import CollisionDetector
from haptic_sim.geometry.fields.field import triangle_mesh
from haptic_sim.geometry.fields.shells import build_shell

ACCURACY = 4e-4


def turned_half_space(pose: pin.SE3) -> coal.Halfspace:
    n = pose.rotation[:, 2]
    return coal.Halfspace(n, float(n @ pose.translation))


@pytest.fixture(scope="module")
def two_tori():
    return FieldScene(torus(), torus(), accuracy=ACCURACY)


def test_torus_on_a_plane():
    scene = FieldScene(turned_half_space(GENERIC), torus(), accuracy=ACCURACY)
    for depth in (5e-4, -2e-4):
        found = scene.contacts(GENERIC * at(z=0.02 - depth))
        assert found.separation.min() == pytest.approx(-depth, abs=ACCURACY)
        np.testing.assert_allclose(found.normal, np.tile(GENERIC.rotation[:, 2], (len(found), 1)), atol=1e-12)
        local = (found.point - GENERIC.translation) @ GENERIC.rotation
        np.testing.assert_allclose(np.hypot(local[:, 0], local[:, 1]), 0.05, atol=0.01)
        assert np.abs(local.mean(axis=0)[:2]).max() < 0.01, "all around"


@pytest.mark.exhaustive
def test_torus_on_torus(two_tori):
    """One hangs in the other: the nearest points lie on the line between the centres of their circles."""
    for gap in (-4e-4, 3e-4):
        # circles of radius 0.05 in perpendicular planes, the second through the hole of the first
        pose = at(x=0.05 + 0.05 - 0.04 - gap, turn=(np.pi / 2, 0.0, 0.0))
        found = two_tori.contacts(GENERIC, GENERIC * pose)
        deepest = int(np.argmin(found.separation))
        assert found.separation[deepest] == pytest.approx(gap, abs=ACCURACY)
        local = GENERIC.actInv(found.point[deepest])
        np.testing.assert_allclose(local, [0.03, 0.0, 0.0], atol=4e-3)
        normal = GENERIC.rotation.T @ found.normal[deepest]
        assert normal @ [-1.0, 0.0, 0.0] > np.cos(np.radians(8.0))


@pytest.mark.parametrize("shape", ["cylinder", "mesh"])
def test_cylinder_in_a_bore(shape):
    """Pushed against the wall of a bore, 1 mm wider, it touches along a line."""
    pin_ = coal.Cylinder(0.0195, 0.08) if shape == "cylinder" else pipe(0.005, 0.0195, 0.08)
    scene = FieldScene(pipe(0.02, 0.03, 0.04), pin_, accuracy=ACCURACY)
    for depth in (2e-4, -2e-4):
        scene.detector.forget()
        found = scene.contacts(GENERIC, GENERIC * at(x=0.0005 + depth))
        assert found.separation.min() == pytest.approx(-depth, abs=ACCURACY)
        deep = found.separation < found.separation.min() + 0.5 * ACCURACY
        normals = found.normal[deep] @ GENERIC.rotation
        assert np.all(normals[:, 0] < -0.5)
        local = (found.point[deep] - GENERIC.translation) @ GENERIC.rotation
        assert np.all(local[:, 0] > 0.01)  # the radii differ by little
        assert local[:, 2].min() < -0.008 < 0.008 < local[:, 2].max()


def test_cone_in_a_cup():
    """With its tip down in a hemisphere of radius R, a flat cone touches with its rim."""
    R, r, h = 0.04, 0.025, 0.006
    scene = FieldScene(cup(R, 0.046), cone(r, h), accuracy=ACCURACY)
    contact = -np.sqrt(R * R - r * r)  # height of the rim
    tip = contact - h
    assert tip > -R, "the rim touches first"
    for depth in (3e-4, -3e-4):
        slope = -contact / R  # of the normal along z
        found = scene.contacts(GENERIC, GENERIC * at(z=tip - depth / slope))
        assert found.separation.min() == pytest.approx(-depth, abs=ACCURACY)
        normals = found.normal @ GENERIC.rotation
        deep = found.separation < found.separation.min() + ACCURACY
        assert np.median(normals[deep, 2]) == pytest.approx(slope, abs=0.02)


def test_sphere_in_a_sphere():
    scene = FieldScene(cup(0.04, 0.046), coal.Sphere(0.015), accuracy=ACCURACY)
    direction = np.array([0.4, 0.3, -1.0]) / np.linalg.norm([0.4, 0.3, -1.0])
    for depth in (3e-4, -3e-4):
        found = scene.contacts(GENERIC, GENERIC * at(*((0.025 + depth) * direction)))
        deepest = int(np.argmin(found.separation))
        assert found.separation[deepest] == pytest.approx(-depth, abs=ACCURACY)
        assert GENERIC.rotation.T @ found.normal[deepest] @ -direction > np.cos(np.radians(6.0))


@pytest.mark.parametrize(
    "shape", [coal.Box(0.03, 0.02, 0.04), coal.Capsule(0.01, 0.03), gem()], ids=["box", "capsule", "gem"]
)
def test_solids_on_a_convex_mesh_are_as_deep_as_coal_finds(shape):
    """A ball of triangles and its hull are the same solid, and coal knows the depth of two convex ones."""
    sphere = turned(*ball_profile(0.03), 60)
    hull = convex(sphere[0])
    scene = FieldScene(sphere, shape, accuracy=ACCURACY)
    rng = np.random.default_rng(3)
    checked = 0
    for _ in range(12):
        pose, direction = random_pose(rng, 0.0), rng.normal(size=3)
        direction /= np.linalg.norm(direction)
        request, result = coal.DistanceRequest(), coal.DistanceResult()
        pose.translation = 0.2 * direction
        coal.distance(hull, coal.Transform3s(), shape, transform(pose), request, result)
        # along this direction they touch at most at this distance; go on until they overlap by half a millimetre
        for _ in range(30):
            pose.translation -= (result.min_distance + 5e-4) * direction
            result = coal.DistanceResult()
            coal.distance(hull, coal.Transform3s(), shape, transform(pose), request, result)
        scene.detector.forget()
        found = scene.contacts(at(), pose)
        assert len(found)
        assert found.separation.min() == pytest.approx(result.min_distance, abs=1.5 * ACCURACY)
        checked += 1
    assert checked == 12


def transform(pose: pin.SE3) -> coal.Transform3s:
    return coal.Transform3s(pose.rotation, pose.translation)


def ball_profile(radius: float) -> tuple[np.ndarray, np.ndarray]:
    angle = np.linspace(-0.5 * np.pi + 0.01, 0.5 * np.pi - 0.01, 40)
    return radius * np.cos(angle), radius * np.sin(angle)


def paths(seed: int, steps: int, size: float):
    """Poses along a smooth random path about a place, and the length of a step at a distance of 70 mm."""
    rng = np.random.default_rng(seed)
    shift, turn = rng.normal(size=(2, 3, 3))
    for k in range(steps):
        t = k * size
        wave = np.sin(np.outer([1.0, 1.7, 2.3], [t, t, t]) + np.arange(3))
        yield pin.SE3(pin.exp3(0.3 * (turn * wave).sum(axis=0)), 4e-3 * (shift * wave).sum(axis=0))


def wrench(found, stiffness: float = 1000.0) -> np.ndarray:
    """Of springs on B at the origin of the world [N, N m]."""
    forces = stiffness * np.maximum(-found.separation, 0.0)[:, None] * found.normal
    return np.concatenate([forces.sum(axis=0), np.cross(found.point, forces).sum(axis=0)])


def test_what_was_searched_before_does_not_matter(two_tori):
    """Cells and leaves that are left out touch nothing: all rows are those of a full search, bit for bit."""
    hung = at(x=0.0605, turn=(np.pi / 2, 0.0, 0.0))
    visited = full = 0
    for pose in paths(1, 60, 0.02):
        found = two_tori.contacts(at(), hung * pose)
        visited += int(two_tori.memory.visited.sum())
        two_tori.detector.search()
        again = two_tori.contacts(at(), hung * pose)
        full += int(two_tori.memory.visited.sum())
        assert found.id == again.id
        np.testing.assert_array_equal(found.separation, again.separation)
        np.testing.assert_array_equal(found.point, again.point)
        np.testing.assert_array_equal(found.normal, again.normal)
    assert visited <= full
    assert two_tori.detector.omitted == 0


def test_out_of_contact_almost_nothing_is_visited(two_tori):
    apart = at(x=0.05, turn=(np.pi / 2, 0.0, 0.0))  # 10 mm of clearance all around
    two_tori.detector.forget()
    counts = []
    for k in range(50):
        assert len(two_tori.contacts(at(), apart * at(y=1e-5 * k))) == 0
        counts.append(int(two_tori.memory.visited.sum()))
    assert np.mean(counts[1:]) < 5.0  # of hundreds


def test_out_of_contact_the_work_does_not_grow_with_the_points(two_tori):
    """With 4 times as many points, no more nodes are searched, of 4 times as many: 10 mm of clearance all around."""
    searched, nodes = [], []
    for spacing in (3e-3, 1.5e-3):
        scene = copy(two_tori)
        shell = build_shell(*torus(), spacing, spacing, 64)
        fields = {name: field._replace(shell=shell) for name, field in scene.fields.items()}
        scene.detector = CollisionDetector(scene.model, scene.geometry, np.zeros(1), np.zeros((1, 2)), fields=fields)
        due, changed = scene.memory.node_due, 0
        for k in range(100):
            before = due.copy()
            wave = 1e-3 * k * np.array([9.0, 7.0, 5.0])
            pose = pin.SE3(pin.exp3(np.array([0.02, 0.03, 0.05]) * np.sin(wave)), np.zeros(3))
            assert len(scene.contacts(at(), pose * at(x=0.05, turn=(np.pi / 2, 0.0, 0.0)))) == 0
            changed += int(np.count_nonzero(due != before)) if k else 0
        searched.append(changed)
        nodes.append(len(due))
    assert nodes[1] > 3 * nodes[0]
    assert searched[1] < 1.5 * searched[0]


def test_the_wrench_is_continuous_in_the_pose(two_tori):
    """|df| is at most a few stiffnesses times |dx|, on paths of steps of a micrometre; no row makes a jump."""
    hung = at(x=0.0605, turn=(np.pi / 2, 0.0, 0.0))
    stiffness = 1000.0  # [N/m] of a row
    steepest, touching = 0.0, 0
    for seed in range(6):
        before, last = np.zeros(6), at()
        two_tori.detector.forget()
        for k, pose in enumerate(paths(seed, 40, 1e-4)):
            found = two_tori.contacts(at(), hung * pose)
            now = wrench(found, stiffness)
            touching += bool(np.any(found.separation < 0.0))
            if k:
                moved = np.linalg.norm(pose.translation - last.translation) + 0.07 * np.linalg.norm(
                    pin.log3(last.rotation.T @ pose.rotation)
                )
                steepest = max(steepest, np.linalg.norm(now[:3] - before[:3]) / moved)
            before, last = now, pose
    assert touching > 40
    assert steepest < 20.0 * stiffness


def test_a_tick_visits_no_more_leaves_than_its_budget():
    scene = FieldScene(PLANE, torus(), accuracy=ACCURACY, budget=10)
    scene.contacts(at(z=0.0207))
    found = scene.contacts(at(z=0.0195))
    assert scene.memory.visited.max() == 10
    left_out = scene.detector.omitted
    assert left_out > 0 and scene.detector.omissions == left_out
    assert len(found) > 0
    for _ in range(100):  # those that could touch first came first; the others follow
        found = scene.contacts(at(z=0.0195))
        left_out += scene.detector.omitted
    assert scene.detector.omissions == left_out
    scene.detector.forget()
    full = scene.contacts(at(z=0.0195))
    assert scene.detector.omitted == 0
    assert len(full) > len(found)


def box(x: float, y: float, z: float):
    """A box as a mesh."""
    signs = (-0.5, 0.5)
    points = np.array([(a * x, b * y, c * z) for a in signs for b in signs for c in signs])
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    return points, np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))])


@pytest.mark.parametrize("speed", [0.5, 2.0])
@pytest.mark.parametrize("tool", ["sphere", "gem"])
def test_a_plate_of_a_millimetre_is_not_passed(speed, tool):
    """Steps of up to 2 mm through a plate of 1 mm: the depth is that from the side where the tool has entered."""
    shape = coal.Sphere(0.01) if tool == "sphere" else gem()
    scene = FieldScene(box(0.1, 0.1, 0.001), shape, accuracy=2e-4)
    depths = 1e-3 * speed * (np.arange(12 if speed < 1.0 else 5) - 2.3)
    lowest = 0.01 if tool == "sphere" else float(-np.array(shape.points())[:, 2].min())
    for depth in depths:
        found = scene.contacts(GENERIC, GENERIC * at(0.011, 0.013, 0.0005 + lowest - depth))
        if depth > 0.0:
            assert found.separation.min() == pytest.approx(-depth, abs=5e-4)
            pushing = found.separation < -0.5 * depth
            assert np.all(found.normal[pushing] @ GENERIC.rotation[:, 2] > 0.5)
    for depth in depths[::-1]:  # and back again, until it is free
        found = scene.contacts(GENERIC, GENERIC * at(0.011, 0.013, 0.0005 + lowest - depth))
    assert np.all(found.separation > 0.0)
    assert scene.detector.state.used.max() == 0


def test_where_shapes_were_while_their_boxes_were_apart_does_not_count():
    """Around a plate: the path does not begin where they were last near (teeth of gears were 39 mm deep)."""
    scene = FieldScene(box(0.1, 0.1, 0.001), coal.Sphere(0.01), accuracy=2e-4)
    around = [(0.0, 0.0, 0.0104), (0.0, 0.0, 0.1), (0.2, 0.0, 0.0), (0.0, 0.0, -0.1), (0.0, 0.0, -0.0122)]
    for x in around:
        scene.contacts(GENERIC, GENERIC * at(*x))
    found = scene.contacts(GENERIC, GENERIC * at(0.0, 0.0, -0.0102))
    deepest = int(np.argmin(found.separation))
    assert found.separation[deepest] == pytest.approx(-3e-4, abs=2e-4)
    assert GENERIC.rotation[:, 2] @ found.normal[deepest] < -0.9


def test_a_plate_is_not_passed_in_the_step_in_which_boxes_come_near():
    """A ball of 2 mm whose middle is beyond that of the plate after the first step: the depth is from where it came."""
    scene = FieldScene(box(0.1, 0.1, 0.001), coal.Sphere(0.001), accuracy=1e-4)
    for z in (0.1, 0.0031, -0.0003):
        found = scene.contacts(at(), at(0.011, 0.013, z))
    deepest = int(np.argmin(found.separation))
    assert found.separation[deepest] == pytest.approx(-0.0018, abs=2e-4)
    assert found.normal[deepest, 2] > 0.9


def test_a_thread_of_a_millimetre_is_not_passed():
    """A sphere at 2 m/s across a wire."""
    scene = FieldScene(pipe_along_x(0.0005, 0.1), coal.Sphere(0.005), accuracy=1e-4)
    for k in range(6):
        z = 0.0063 - 2e-3 * k
        found = scene.contacts(GENERIC, GENERIC * at(0.01, 0.0, z))
        if k > 1:
            deepest = int(np.argmin(found.separation))
            assert found.separation[deepest] < -1e-3
            assert GENERIC.rotation[:, 2] @ found.normal[deepest] > 0.7


def pipe_along_x(radius: float, length: float):
    """A wire along x."""
    angle = 2.0 * np.pi * np.arange(16) / 16
    ring = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    stations = np.linspace(-0.5 * length, 0.5 * length, 41)
    vertices = np.concatenate([np.column_stack([np.full(16, x), ring]) for x in stations])
    k, i = np.meshgrid(np.arange(40), np.arange(16), indexing="ij")
    a, b, c, d = 16 * k + i, 16 * k + (i + 1) % 16, 16 * (k + 1) + (i + 1) % 16, 16 * (k + 1) + i
    sides = np.stack([a, b, c, d], axis=-1).reshape(-1, 4)
    fan = np.arange(1, 15)
    first = np.stack([0 * fan, fan + 1, fan], axis=-1)
    last = 640 + np.stack([0 * fan, fan, fan + 1], axis=-1)
    return vertices, np.concatenate([sides[:, [0, 1, 2]], sides[:, [0, 2, 3]], first, last])


def test_what_is_held_is_part_of_the_state():
    """Given back, it goes on with the same bits."""
    scene = FieldScene(box(0.1, 0.1, 0.001), coal.Sphere(0.01), accuracy=2e-4)
    poses = [at(0.011, 0.013, 0.0105 + 1e-3 - 1.3e-3 * k) for k in range(6)]
    for pose in poses[:3]:
        scene.contacts(at(), pose)
    kept = [array.copy() for array in scene.detector.state]
    on = [scene.contacts(at(), pose) for pose in poses[3:]]
    scene.contacts(at(), at(z=0.1))
    for array, before in zip(scene.detector.state, kept, strict=True):
        array[...] = before
    scene.detector.search()
    for pose, expected in zip(poses[3:], on, strict=True):
        found = scene.contacts(at(), pose)
        assert found.id == expected.id
        np.testing.assert_array_equal(found.separation, expected.separation)
        np.testing.assert_array_equal(found.normal, expected.normal)


def test_contacts_turn_with_the_world():
    scene = FieldScene(cup(0.04, 0.046), coal.Sphere(0.015), accuracy=ACCURACY)
    pose = at(0.01, 0.004, -0.0235)
    here = scene.contacts(at(), pose)
    there = scene.contacts(GENERIC, GENERIC * pose)
    assert here.id == there.id
    np.testing.assert_allclose(there.separation, here.separation, atol=1e-12)
    np.testing.assert_allclose((there.point - GENERIC.translation) @ GENERIC.rotation, here.point, atol=1e-9)
    np.testing.assert_allclose(there.normal @ GENERIC.rotation, here.normal, atol=1e-9)


def test_a_mesh_without_a_field_is_refused():
    with pytest.raises(ValueError, match="'shape 0' may touch a shape with a field and has none"):
        Scene(triangle_mesh(*torus()), coal.Sphere(0.01))


def test_springs_of_rows_have_the_potential_of_their_separations(two_tori):
    """The work of the wrench along a small motion is what the energy of the springs loses."""
    hung = at(x=0.0605, turn=(np.pi / 2, 0.0, 0.0))
    stiffness, step = 1000.0, 1e-6
    rng = np.random.default_rng(11)

    def energy(pose: pin.SE3) -> float:
        two_tori.detector.forget()
        found = two_tori.contacts(at(), pose)
        return 0.5 * stiffness * float((np.minimum(found.separation, 0.0) ** 2).sum())

    checked = 0
    for pose in list(paths(3, 60, 0.05))[::6]:
        pose = hung * pose
        two_tori.detector.forget()
        found = two_tori.contacts(at(), pose)
        force = wrench(found, stiffness)
        if not -0.01 < found.separation.min(initial=0.0) < 0.0:
            continue  # in the middle of a part the shells' own normals take part
        checked += 1
        for _ in range(4):
            shift, turn = rng.normal(size=3), rng.normal(size=3) / 0.05
            motion = [pin.SE3(pin.exp3(s * step * turn), s * step * shift) * pose for s in (1.0, -1.0)]
            gained = (energy(motion[1]) - energy(motion[0])) / (2.0 * step)
            work = force[:3] @ shift + force[3:] @ turn
            scale = np.linalg.norm(force[:3]) * np.linalg.norm(shift) + np.linalg.norm(force[3:]) * np.linalg.norm(turn)
            assert work == pytest.approx(gained, abs=0.03 * scale)
    assert checked > 1
