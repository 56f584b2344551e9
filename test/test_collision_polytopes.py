"""Contacts of boxes and convex meshes, turned anywhere, against plain geometry."""

from __future__ import annotations

from pathlib import Path

import coal
import numpy as np
import pinocchio as pin
import pytest
import trimesh
from collision_scenes import GENERIC, Scene, at, convex, gem, random_pose, sorted_rows

from haptic_sim import Model, World
from haptic_sim.geometry.collision import features
from haptic_sim.geometry.collision.features import BOX_FACES, box_vertices, build_shapes, convex_faces
from haptic_sim.geometry.collision.narrow_phase import NarrowPhase

CUBE = (0.1, 0.1, 0.1)
GAP = 4e-4


def cube_points() -> np.ndarray:
    return np.array([(x, y, z) for x in (-0.05, 0.05) for y in (-0.05, 0.05) for z in (-0.05, 0.05)])


def in_first_body(points: np.ndarray) -> np.ndarray:
    """Points of the world in the axes of a body at GENERIC."""
    return (points - GENERIC.translation) @ GENERIC.rotation


@pytest.mark.parametrize("gap", [GAP, -GAP, 0.0])
@pytest.mark.parametrize("upper", [coal.Box(*CUBE), convex(cube_points())], ids=["box", "mesh"])
def test_a_stack_touches_at_four_corners(gap: float, upper: coal.ShapeBase) -> None:
    found = Scene(coal.Box(*CUBE), upper).contacts(GENERIC, GENERIC * at(z=0.1 + gap))
    assert len(found) == 4
    np.testing.assert_allclose(found.separation, gap, rtol=0, atol=1e-15)
    np.testing.assert_allclose(found.normal, np.tile(GENERIC.rotation[:, 2], (4, 1)), rtol=0, atol=1e-15)
    corners = [[x, y, 0.05 + gap] for x in (-0.05, 0.05) for y in (-0.05, 0.05)]
    np.testing.assert_allclose(sorted_rows(in_first_body(found.point)), sorted_rows(np.array(corners)), atol=1e-9)


@pytest.mark.parametrize("turned", [False, True])
def test_a_normal_that_coal_has_turned_round_is_turned_back(monkeypatch: pytest.MonkeyPatch, turned: bool) -> None:
    """For cubes that overlapped by 1 um coal gave the opposite normal once, by which they were through each other."""
    measure, overlap = NarrowPhase.measure, 1e-6

    def turn_round(self: NarrowPhase) -> None:
        measure(self)
        z = GENERIC.rotation[:, 2]
        p = GENERIC.translation + 0.05 * z
        self.witness[0, self.column : self.column + 9] = [*(-z if turned else z), *p, *(p + 0.7 * overlap * z)]

    monkeypatch.setattr(NarrowPhase, "measure", turn_round)
    found = Scene(coal.Box(*CUBE), coal.Box(*CUBE)).contacts(GENERIC, GENERIC * at(z=0.1 - overlap))
    np.testing.assert_allclose(found.separation, -overlap, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.normal, np.tile(GENERIC.rotation[:, 2], (4, 1)), rtol=0, atol=1e-12)


def test_boxes_that_just_touch_never_push_sideways() -> None:
    """Nearly parallel and some um apart, coal gave a side's normal, by which the boxes were 60 mm in each other."""
    rng = np.random.default_rng(20530)
    half, upper = np.array([0.03, 0.03, 0.01]), np.array([0.03, 0.03, 0.03])
    scene = Scene(coal.Box(*(2 * half)), coal.Box(*(2 * upper)))
    touched = 0
    for _ in range(1500):
        tilt, gap = 10 ** rng.uniform(-7, -4), rng.choice([-1, 1]) * 10 ** rng.uniform(-9, -5)
        a = pin.SE3(pin.exp3(tilt * np.array([*rng.normal(size=2), 0.0])), np.zeros(3))
        b = pin.SE3(
            pin.exp3(tilt * np.array([*rng.normal(size=2), 0.0])),
            np.array([*rng.normal(size=2) * 1e-5, half[2] + upper[2] + gap]),
        )
        found = scene.contacts(a, b)
        touched += len(found)
        assert len(found) > 0
        assert found.normal[:, 2].min() > 1 - 1e-6
        assert np.abs(found.separation - gap).max() < 1e-5 + tilt, "corners are 0.04 m from the middle"
    assert touched > 4000


def test_turned_by_45_degrees_the_common_face_is_an_octagon() -> None:
    found = Scene(coal.Box(*CUBE), coal.Box(*CUBE)).contacts(GENERIC, GENERIC * at(z=0.1 - GAP, turn=(0, 0, np.pi / 4)))
    assert len(found) == 8
    np.testing.assert_allclose(found.separation, -GAP, rtol=0, atol=1e-15)
    d = 0.05 * (np.sqrt(2) - 1)  # the turned cube's side x + y = 0.05 sqrt(2) cuts x = 0.05 there
    octagon = [[s * 0.05, t * d, 0.05 - GAP] for s in (-1, 1) for t in (-1, 1)]
    octagon += [[t * d, s * 0.05, 0.05 - GAP] for s in (-1, 1) for t in (-1, 1)]
    np.testing.assert_allclose(sorted_rows(in_first_body(found.point)), sorted_rows(np.array(octagon)), atol=1e-9)


def test_faces_that_overlap_in_part_touch_in_their_common_rectangle() -> None:
    found = Scene(coal.Box(*CUBE), coal.Box(0.06, 0.2, 0.1)).contacts(GENERIC, GENERIC * at(0.05, 0.08, 0.1 + GAP))
    corners = [[x, y, 0.05 + GAP] for x in (0.02, 0.05) for y in (-0.02, 0.05)]
    np.testing.assert_allclose(sorted_rows(in_first_body(found.point)), sorted_rows(np.array(corners)), atol=1e-9)
    np.testing.assert_allclose(found.separation, GAP, rtol=0, atol=1e-15)


@pytest.mark.parametrize("s", [GAP, -GAP])
def test_a_corner_on_a_face(s: float) -> None:
    """The cube stands on its corner (-, -, -), a diagonal along the face's normal, then tilted by 0.2 rad."""
    diagonal = pin.Quaternion.FromTwoVectors(np.ones(3) / np.sqrt(3), np.array([0.0, 0.0, 1.0])).toRotationMatrix()
    R = pin.exp3(np.array([0.2, 0.0, 0.0])) @ diagonal
    corner = R @ np.full(3, -0.05)
    pose = pin.SE3(R, np.array([0.01, -0.02, 0.05 + s]) - corner)
    found = Scene(coal.Box(*CUBE), coal.Box(*CUBE)).contacts(GENERIC, GENERIC * pose)
    assert len(found) == 1
    assert found.separation[0] == pytest.approx(s, abs=1e-15)
    np.testing.assert_allclose(in_first_body(found.point)[0], [0.01, -0.02, 0.05 + s], atol=1e-12)
    np.testing.assert_allclose(found.normal[0], GENERIC.rotation[:, 2], atol=1e-15)


@pytest.mark.parametrize("s", [GAP, -GAP])
def test_crossing_edges(s: float) -> None:
    """Edges along x and, above it, along y: cubes turned by 45 degrees about the edges' directions."""
    lower, upper = at(turn=(np.pi / 4, 0, 0)), at(turn=(0, np.pi / 4, 0))
    reach = 0.05 * np.sqrt(2)
    upper.translation = np.array([0.013, -0.021, 2 * reach + s])
    found = Scene(coal.Box(*CUBE), coal.Box(*CUBE)).contacts(GENERIC * lower, GENERIC * upper)
    assert len(found) == 1
    assert found.separation[0] == pytest.approx(s, abs=1e-9)
    np.testing.assert_allclose(in_first_body(found.point)[0], [0.013, 0.0, reach + s], atol=1e-9)
    np.testing.assert_allclose(found.normal[0], GENERIC.rotation[:, 2], atol=1e-6)


def test_parallel_edges_touch_at_both_ends() -> None:
    """While they are apart: once they overlap, the shortest way out is along a face's normal."""
    turned = at(turn=(np.pi / 4, 0, 0))
    above = at(0.03, 0.0, 0.1 * np.sqrt(2) + GAP) * turned
    found = Scene(coal.Box(*CUBE), coal.Box(*CUBE)).contacts(GENERIC * turned, GENERIC * above)
    assert len(found) == 2
    np.testing.assert_allclose(found.separation, GAP, atol=1e-9)
    np.testing.assert_allclose(np.sort(in_first_body(found.point)[:, 0]), [-0.02, 0.05], atol=1e-9)


def test_a_cube_on_a_half_space_touches_with_its_lower_corners() -> None:
    scene = Scene(coal.Halfspace(GENERIC.rotation[:, 2].copy(), 0.0), coal.Box(*CUBE))
    base = pin.SE3(GENERIC.rotation, np.zeros(3))
    flat = scene.contacts(base * at(z=0.05 - GAP))
    assert len(flat) == 4
    np.testing.assert_allclose(flat.separation, -GAP, atol=1e-15)
    edge = scene.contacts(base * at(z=0.05 * np.cos(0.3) + 0.05 * np.sin(0.3), turn=(0.3, 0, 0)))
    assert len(edge) == 2
    assert set(edge.id) < set(flat.id), "corners keep their identities when the cube tilts"
    assert flat.body.tolist() == [[0, 1]] * 4


def test_the_pair_the_other_way_round_has_the_same_contacts() -> None:
    rng = np.random.default_rng(20260)
    shapes = coal.Box(0.1, 0.08, 0.12), gem()
    one, other = Scene(*shapes, pairs=[(0, 1)]), Scene(*shapes, pairs=[(1, 0)])
    seen = 0
    for _ in range(300):
        X, Y = random_pose(rng, 0.02), random_pose(rng, 0.035)
        a, b = one.contacts(X, Y), other.contacts(X, Y)
        b_point = b.point - b.separation[:, None] * b.normal  # of the first body of the pair (1, 0): the gem
        if len(a) == 0 or a.separation.min() < -0.01:
            continue  # deep in each other, the shortest way out is a matter of rounding
        seen += 1
        np.testing.assert_allclose(sorted_rows(a.point), sorted_rows(b_point), rtol=0, atol=1e-6)
        np.testing.assert_allclose(sorted_rows(a.normal), sorted_rows(-b.normal), rtol=0, atol=1e-6)
    assert seen > 15


def test_faces_keep_their_identities_in_small_motions() -> None:
    rng = np.random.default_rng(20260)
    scene = Scene(coal.Box(*CUBE), coal.Box(*CUBE))
    first = scene.contacts(GENERIC, GENERIC * at(z=0.1))
    for _ in range(200):
        x, y, z, a, b, c = rng.uniform(-1e-5, 1e-5, 6)
        shaken = scene.contacts(GENERIC, GENERIC * at(x, y, 0.1 + z, turn=(a, b, c)))
        assert shaken.id == first.id
        np.testing.assert_allclose(shaken.point, first.point, atol=1e-4)


@pytest.mark.long
def test_what_was_before_does_not_matter() -> None:
    rng = np.random.default_rng(20260)
    used = Scene(coal.Box(*CUBE), gem())
    for _ in range(50):
        X, Y = random_pose(rng, 0.02), random_pose(rng, 0.035)
        a, b = used.contacts(X, Y), Scene(coal.Box(*CUBE), gem()).contacts(X, Y)
        assert a.id == b.id
        np.testing.assert_allclose(a.point, b.point, rtol=0, atol=1e-14)


def test_coplanar_triangles_are_one_face() -> None:
    points = cube_points()
    loops = convex_faces(points)
    assert sorted(len(loop) for loop in loops) == [4] * 6
    for loop in loops:
        corners = points[loop]
        normal = np.cross(corners[1] - corners[0], corners[2] - corners[1])
        assert normal @ corners[0] > 0.0, "anticlockwise seen from outside"


def test_shapes_share_nothing_but_what_may_only_be_read() -> None:
    """Features of a hull are kept, for the next detector of the same one."""
    geometry = Scene(gem(), gem()).geometry
    first = build_shapes(geometry)
    expected = [array.copy() for array in first]
    for array in first:
        array[...] = 7
    computed = features._hull.cache_info().misses
    for array, other in zip(build_shapes(geometry), expected, strict=True):
        np.testing.assert_array_equal(array, other, strict=True)
        assert array.flags.writeable
    assert features._hull.cache_info().misses == computed
    for array in features._hull(np.array(gem().points(), float).tobytes()):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 7


def test_worlds_with_the_same_mesh_do_not_influence_each_other(tmp_path: Path) -> None:
    """Stepped by turns, under other forces, each has the bits that it has alone."""
    trimesh.convex.convex_hull(np.array(gem().points(), float)).export(tmp_path / "gem.stl")
    shape = {"type": "mesh", "path": str(tmp_path / "gem.stl"), "as": "hull"}
    bodies = {
        "floor": {"joint": "fixed", "shapes": [{"type": "plane"}]},
        "gem": {"joint": "free", "mass": 0.5, "position": [0.0, 0.0, 0.065], "shapes": [shape]},
        "other": {"joint": "free", "mass": 0.5, "position": [0.0, 0.0, 0.153], "shapes": [shape]},
    }
    model = Model({"tool": "other", "bodies": bodies}, environment={"method": "constraint"})
    pushes = np.random.default_rng(20260).normal(scale=2.0, size=(2, 200, 6)) * [1, 1, 1, 0.1, 0.1, 0.1]

    def moved(world: World, push: np.ndarray) -> tuple[bytes, bytes, bytes]:
        world.step(push)
        return world.pose.tobytes(), world.twist.tobytes(), world.wrench.tobytes()

    alone = []
    for of_world in pushes:
        features._hull.cache_clear()
        world = World(model)
        alone.append([moved(world, push) for push in of_world])
    worlds = World(model), World(model)
    for k in range(pushes.shape[1]):
        for i, world in enumerate(worlds):
            assert moved(world, pushes[i, k]) == alone[i][k]
    assert alone[0][-1] != alone[1][-1]
    assert all(world.wrench.any() for world in worlds)


@pytest.mark.parametrize("half", [(0.05, 0.05, 0.05), (0.02, 0.03, 0.05), (1.0, 2e-3, 0.3)])
def test_the_faces_of_a_box_are_those_of_its_hull(half: tuple[float, float, float]) -> None:
    def from_least(loop: tuple[int, ...]) -> tuple[int, ...]:
        first = loop.index(min(loop))
        return loop[first:] + loop[:first]

    hull = [tuple(loop.tolist()) for loop in convex_faces(box_vertices(np.array(half)))]
    assert sorted(map(from_least, BOX_FACES)) == sorted(map(from_least, hull))


LEAN = 0.4  # [rad] of two plates that lean against each other, edge on edge


def leaning_plates(overlap: float, higher: float) -> tuple[pin.SE3, pin.SE3]:
    """Poses of plates 2 mm thick and 0.1 m high whose upper edges meet, the first one's `higher` than the other."""
    s, c = np.sin(LEAN), np.cos(LEAN)
    x, z = 0.05 * s + 0.001 * c - overlap / 2, 0.05 * c - 0.001 * s - higher / 2
    return at(-x, 0.0, -z, turn=(0.0, LEAN, 0.0)), at(x, 0.0, -z - higher, turn=(0.0, -LEAN, 0.0))


@pytest.mark.parametrize("overlap", [-1e-5, 0.0, 1e-7, 1e-5, 1e-3])
def test_parallel_edges_that_coincide_push_along_the_mean_of_their_normals(overlap: float) -> None:
    plates = Scene(coal.Box(0.002, 0.06, 0.1), coal.Box(0.002, 0.06, 0.1))
    first, second = leaning_plates(overlap, 0.0)
    found = plates.contacts(GENERIC * first, GENERIC * second)
    assert len(found) == 2
    np.testing.assert_allclose(found.separation, -overlap, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.normal, np.tile(GENERIC.rotation[:, 0], (2, 1)), rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.sort(in_first_body(found.point)[:, 1]), [-0.03, 0.03], atol=1e-12)


def test_the_normal_of_edges_that_slide_past_each_other_turns_continuously() -> None:
    """From the face of the one plate to that of the other, within the normal cones of both edges."""
    plates = Scene(coal.Box(0.002, 0.06, 0.1), coal.Box(0.002, 0.06, 0.1))
    angles = []
    for higher in np.linspace(-4e-4, 4e-4, 401):
        first, second = leaning_plates(2e-4, float(higher))
        found = plates.contacts(first, second)
        normal = found.normal[np.argmin(found.separation)]
        angles.append(np.arctan2(normal[2], normal[0]))
    assert angles[0] == pytest.approx(LEAN, abs=1e-9)
    assert angles[-1] == pytest.approx(-LEAN, abs=1e-9)
    assert -0.02 < np.diff(angles).min() <= np.diff(angles).max() < 1e-9


def test_edges_of_nearly_coplanar_triangles_may_lack_a_face() -> None:
    """A disc of 200 points that are not quite where they should be: merged faces overlap, and three edges have one."""
    rng = np.random.default_rng(39)
    angle = rng.uniform(0.0, 2.0 * np.pi, 200)
    points = np.column_stack([0.05 * np.cos(angle), 0.05 * np.sin(angle), rng.choice([-0.05, 0.05], 200)])
    disc = convex(points + 2e-6 * rng.uniform(-1.0, 1.0, points.shape))
    found = Scene(coal.Box(*CUBE), disc).contacts(GENERIC, GENERIC * at(z=0.1 - GAP))
    np.testing.assert_allclose(found.separation.min(), -GAP, rtol=0, atol=1e-5)
