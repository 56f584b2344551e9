"""Contacts of spheres, capsules and cylinders against closed forms; properties of all pairs of shapes."""

from __future__ import annotations

import itertools

import coal
import numpy as np
import pinocchio as pin
import pytest
from collision_scenes import GENERIC, Scene, at, gem, random_pose

GAP = 4e-4
SHAPES = {
    "box": lambda: coal.Box(0.1, 0.08, 0.12),
    "sphere": lambda: coal.Sphere(0.05),
    "capsule": lambda: coal.Capsule(0.03, 0.1),
    "cylinder": lambda: coal.Cylinder(0.04, 0.1),
    "gem": gem,
}
PAIRS = list(itertools.combinations_with_replacement(SHAPES, 2))
LYING = at(turn=(np.pi / 2, 0, 0))  # axis along -y
GROUND = {
    "half-space": (coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.05), at()),
    "box": (coal.Box(1.0, 1.0, 0.1), at()),
    "cap": (coal.Cylinder(0.5, 0.1), at()),
}


def on_ground(kind: str, shape: coal.ShapeBase, pose: pin.SE3):
    """Contacts of a shape on a ground at z = 0.05, all turned by GENERIC; points and normals in the ground's axes."""
    ground, _ = GROUND[kind]
    if kind == "half-space":
        n = GENERIC.rotation @ ground.n
        ground = coal.Halfspace(n, ground.d + float(n @ GENERIC.translation))
        found = Scene(ground, shape).contacts(GENERIC * pose)
    else:
        found = Scene(ground, shape).contacts(GENERIC, GENERIC * pose)
    found.point = (found.point - GENERIC.translation) @ GENERIC.rotation
    found.normal = found.normal @ GENERIC.rotation
    np.testing.assert_allclose(found.normal, np.tile([0, 0, 1], (len(found), 1)), rtol=0, atol=1e-9)
    return found


@pytest.mark.parametrize("s", [GAP, -GAP])
@pytest.mark.parametrize("ground", GROUND)
class TestOnFlatGround:
    def test_a_sphere_has_one(self, ground: str, s: float) -> None:
        found = on_ground(ground, coal.Sphere(0.03), at(0.01, 0.02, 0.08 + s))
        assert len(found) == 1
        assert found.separation[0] == pytest.approx(s, abs=1e-8)
        np.testing.assert_allclose(found.point[0], [0.01, 0.02, 0.05 + s], atol=1e-7)

    def test_a_lying_capsule_has_two(self, ground: str, s: float) -> None:
        found = on_ground(ground, coal.Capsule(0.03, 0.1), at(0.01, 0.02, 0.08 + s) * LYING)
        np.testing.assert_allclose(found.separation, [s, s], atol=1e-14)
        np.testing.assert_allclose(np.sort(found.point[:, 1]), [-0.03, 0.07], atol=1e-9)
        np.testing.assert_allclose(found.point[:, [0, 2]], [[0.01, 0.05 + s]] * 2, atol=1e-9)

    def test_a_tilted_capsule_has_one(self, ground: str, s: float) -> None:
        found = on_ground(
            ground, coal.Capsule(0.03, 0.1), at(z=0.08 + s + 0.05 * np.sin(0.4), turn=(np.pi / 2 - 0.4, 0, 0))
        )
        assert len(found) == 1
        assert found.separation[0] == pytest.approx(s, abs=1e-8)

    def test_a_lying_cylinder_has_two(self, ground: str, s: float) -> None:
        spun = at(0.01, 0.02, 0.08 + s) * LYING * at(turn=(0, 0, 0.7))
        found = on_ground(ground, coal.Cylinder(0.03, 0.1), spun)
        np.testing.assert_allclose(found.separation, [s, s], atol=1e-14)
        np.testing.assert_allclose(np.sort(found.point[:, 1]), [-0.03, 0.07], atol=1e-9)

    def test_a_standing_cylinder_has_four_fixed_to_it(self, ground: str, s: float) -> None:
        turn = 0.7
        found = on_ground(ground, coal.Cylinder(0.03, 0.1), at(0.01, 0.02, 0.1 + s, turn=(0, 0, turn)))
        assert len(found) == 4
        np.testing.assert_allclose(found.separation, s, atol=1e-14)
        angles = np.arctan2(found.point[:, 1] - 0.02, found.point[:, 0] - 0.01) - turn
        quarters = angles / (np.pi / 2)
        np.testing.assert_allclose(quarters, np.round(quarters), atol=1e-7)
        assert set(np.round(quarters).astype(int) % 4) == {0, 1, 2, 3}

    def test_a_tilted_cylinder_touches_with_the_lowest_point_of_its_rim(self, ground: str, s: float) -> None:
        for spin in (0.0, 0.3, 2.0):
            a = 0.6
            z = 0.05 * np.cos(a) + 0.03 * np.sin(a)
            found = on_ground(
                ground, coal.Cylinder(0.03, 0.1), at(z=0.05 + s + z) * at(turn=(a, 0, 0)) * at(turn=(0, 0, spin))
            )
            assert len(found) == 1
            assert found.separation[0] == pytest.approx(s, abs=1e-8)
            # the cap facing down is at -z; its lowest point lies at -y of the cylinder's axes before the spin
            y = np.cos(a) * -0.03 - np.sin(a) * -0.05
            np.testing.assert_allclose(found.point[0], [0, y, 0.05 + s], atol=1e-7)


def test_a_standing_cylinder_that_tips_has_its_lowest_point() -> None:
    a = 2e-3
    found = on_ground("box", coal.Cylinder(0.03, 0.1), at(z=0.1, turn=(a * np.cos(0.5), a * np.sin(0.5), 0)))
    assert len(found) == 4
    assert found.separation.min() == pytest.approx(0.05 * (1 - np.cos(a)) - 0.03 * np.sin(a), abs=1e-12)


def test_a_box_that_overhangs_a_cap_touches_where_its_edges_leave_it() -> None:
    found = Scene(coal.Cylinder(0.05, 0.1), coal.Box(0.1, 0.04, 0.1)).contacts(
        GENERIC, GENERIC * at(x=0.05, z=0.1 - GAP)
    )
    points = (found.point - GENERIC.translation) @ GENERIC.rotation
    np.testing.assert_allclose(found.separation, -GAP, atol=1e-12)
    x = np.sqrt(0.05**2 - 0.02**2)
    expected = {(0.0, -0.02), (0.0, 0.02), (round(x, 6), -0.02), (round(x, 6), 0.02), (0.05, 0.0)}
    assert {(round(p, 6) + 0.0, round(q, 6) + 0.0) for p, q in points[:, :2]} == expected


def test_a_coin_that_overhangs_a_coin() -> None:
    found = Scene(coal.Cylinder(0.05, 0.02), coal.Cylinder(0.05, 0.02)).contacts(GENERIC, GENERIC * at(x=0.03, z=0.02))
    points = (found.point - GENERIC.translation) @ GENERIC.rotation
    expected = {(-0.02, 0.0), (0.05, 0.0), (0.015, 0.047697), (0.015, -0.047697)}  # sqrt(0.05^2 - 0.015^2)
    assert {(round(p, 6) + 0.0, round(q, 6) + 0.0) for p, q in points[:, :2]} == expected


@pytest.mark.parametrize("shape", [coal.Capsule(0.03, 0.1), coal.Cylinder(0.03, 0.1)], ids=["capsules", "cylinders"])
def test_logs_on_each_other_touch_along_a_line(shape: coal.ShapeBase) -> None:
    found = Scene(shape, shape).contacts(GENERIC * LYING, GENERIC * at(0.0, 0.02, 0.06 - GAP) * LYING)
    points = (found.point - GENERIC.translation) @ GENERIC.rotation
    np.testing.assert_allclose(found.separation, [-GAP, -GAP], atol=1e-9)
    np.testing.assert_allclose(np.sort(points[:, 1]), [-0.03, 0.05], atol=1e-7)
    np.testing.assert_allclose(points[:, 2], 0.03 - GAP, atol=1e-7)


@pytest.mark.parametrize("one,other", PAIRS)
def test_the_least_separation_is_coals_and_the_frame_does_not_matter(one: str, other: str) -> None:
    rng = np.random.default_rng(20260)
    scene = Scene(SHAPES[one](), SHAPES[other](), margin=2e-3)
    curved_rim = "cylinder" in (one, other)
    oracle, result = coal.DistanceRequest(), coal.DistanceResult()
    shapes = [item.geometry for item in scene.geometry.geometryObjects]
    touching = 0
    for _ in range(200):
        X, Y = random_pose(rng, 0.02), random_pose(rng, 0.045)
        found = scene.contacts(X, Y)
        result.clear()
        transforms = [coal.Transform3s(pose.rotation, pose.translation) for pose in (X, Y)]
        distance = coal.distance(shapes[0], transforms[0], shapes[1], transforms[1], oracle, result)
        if len(found) == 0:
            assert distance > 2e-3 - 1e-6
            continue
        touching += 1
        # faces within 2 degrees of coal's normal are taken to be aligned with it
        assert found.separation.min() == pytest.approx(distance, abs=3e-4 + 0.1 * abs(distance))
        moved = scene.contacts(GENERIC * X, GENERIC * Y)
        if moved.id != found.id:
            assert curved_rim, "only coal's witness on a curved rim may move"
            continue
        atol = 5e-3 if curved_rim else 1e-5  # coal's nearest points, the overlap of which is 1e-6 accurate
        np.testing.assert_allclose(
            moved.point, found.point @ GENERIC.rotation.T + GENERIC.translation, rtol=0, atol=atol
        )
        np.testing.assert_allclose(moved.separation, found.separation, rtol=0, atol=1e-5)
    assert touching > 60


@pytest.mark.parametrize("one,other", PAIRS)
def test_shapes_about_one_centre_have_finite_contacts(one: str, other: str) -> None:
    scene = Scene(SHAPES[one](), SHAPES[other]())
    for pose in (at(), at(turn=(0.3, 0.2, 0.1)), at(1e-9)):
        found = scene.contacts(GENERIC, GENERIC * pose)  # checks that they are finite
        assert len(found) > 0
        assert -0.2 < found.separation.min() < -0.02
