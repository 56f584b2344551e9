"""The detector: rows, margin, planar worlds, clusters, capacity, bad input, and coal's memory."""

from __future__ import annotations

import itertools

import coal
import numpy as np
import pinocchio as pin
import pytest
from collision_scenes import GENERIC, Contacts, Scene, at, convex, gem, random_pose

from haptic_sim.contact_rows import ContactRows
from haptic_sim.dynamics.multibody import planar_joint
from haptic_sim.geometry.collision import CollisionDetector
from haptic_sim.geometry.collision.broad_phase import find_near
from haptic_sim.geometry.collision.manifold import fill_contacts
from haptic_sim.geometry.collision.narrow_phase import NarrowPhase

CUBE = (0.1, 0.1, 0.1)
UP = np.array([0.0, 0.0, 1.0])


def floor(height: float = 0.0) -> coal.Halfspace:
    return coal.Halfspace(UP.copy(), height)


def test_rows_say_which_pair_and_bodies_touch() -> None:
    scene = Scene(floor(), coal.Box(*CUBE), coal.Sphere(0.05))
    found = scene.contacts(at(z=0.05), at(x=0.1, z=0.05))
    by_pair = {wall: found.body[found.wall == wall].tolist() for wall in set(found.wall.tolist())}
    assert by_pair == {0: [[0, 1]] * 4, 1: [[0, 2]], 2: [[1, 2]]}
    np.testing.assert_array_equal(found.restitution, found.wall / 2)
    np.testing.assert_array_equal(found.friction, np.arange(6.0).reshape(3, 2)[found.wall])
    assert (scene.rows.velocity[: len(found)] == 0.0).all()
    assert scene.rows.wall[: len(found)].tolist() == sorted(found.wall.tolist()), "rows are in the order of the pairs"


def test_the_point_is_that_of_the_second_body() -> None:
    for pairs, body in ([(0, 1)], [0, 1]), ([(1, 0)], [1, 0]):
        found = Scene(floor(), coal.Sphere(0.05), pairs=pairs).contacts(at(z=0.0505))
        assert found.body.tolist() == [body]
        np.testing.assert_allclose(found.point[0], [0, 0, 0.0005 if pairs == [(0, 1)] else 0.0], atol=1e-15)
        np.testing.assert_allclose(found.normal[0], UP if pairs == [(0, 1)] else -UP, atol=1e-15)
        assert found.separation[0] == pytest.approx(0.0005, abs=1e-15)


@pytest.mark.parametrize(
    "shape", [coal.Box(*CUBE), coal.Sphere(0.05), coal.Capsule(0.02, 0.06), coal.Cylinder(0.03, 0.1)]
)
@pytest.mark.parametrize("ground", [floor(0.05), coal.Box(1.0, 1.0, 0.1)], ids=["half-space", "box"])
def test_the_margin_is_open(ground: coal.ShapeBase, shape: coal.ShapeBase) -> None:
    scene = Scene(ground, shape)
    poses = [at()] if isinstance(ground, coal.Box) else []
    for margin in (0.0, 1e-3, 0.02):
        scene.margin = margin
        assert len(scene.contacts(*poses, at(z=0.1 + margin + 1e-6))) == 0
        assert len(scene.contacts(*poses, at(z=0.1 + margin - 1e-6))) > 0


def test_more_contacts_than_rows_leave_the_deepest() -> None:
    tilted = at(z=0.052, turn=(0.03, 0.02, 0.0))
    all_of_them = Scene(floor(), coal.Box(*CUBE), margin=1.0).contacts(tilted)
    assert len(all_of_them) == 8
    scene = Scene(floor(), coal.Box(*CUBE), margin=1.0, capacity=3)
    few = scene.contacts(tilted)
    assert scene.detector.dropped == 5
    np.testing.assert_array_equal(np.sort(few.separation), np.sort(all_of_them.separation)[:3])
    scene.contacts(at(z=5.0))
    assert scene.detector.dropped == 0


def test_pieces_of_one_body_keep_their_contacts_apart() -> None:
    """An L of two boxes on a floor; the same L of three bodies' worth of pairs, permuted, has the same points."""
    pieces = [(coal.Box(0.1, 0.1, 0.1), at()), (coal.Box(0.1, 0.1, 0.1), at(x=0.1))]
    found = Scene(floor(), pieces).contacts(at(z=0.05))
    assert len(found) == 8
    assert found.body.tolist() == [[0, 1]] * 8
    permuted = Scene(floor(), pieces, pairs=[(0, 2), (0, 1)]).contacts(at(z=0.05))
    assert sorted(map(tuple, permuted.point.tolist())) == sorted(map(tuple, found.point.tolist()))


# --- planar worlds ---


class PlanarScene:
    """Boxes that move in the plane, among half-planes."""

    def __init__(self, walls: list[coal.Halfspace], boxes: list[coal.ShapeBase], walls_first: bool = True):
        self.model, self.geometry = pin.Model(), pin.GeometryModel()
        for k, wall in enumerate(walls):
            self.geometry.addGeometryObject(pin.GeometryObject(f"wall {k}", 0, 0, pin.SE3.Identity(), wall))
        for k, box in enumerate(boxes):
            body = self.model.addJoint(0, planar_joint(), pin.SE3.Identity(), f"body {k}")
            self.geometry.addGeometryObject(pin.GeometryObject(f"box {k}", body, 0, pin.SE3.Identity(), box))
        for i, j in itertools.combinations(range(self.geometry.ngeoms), 2):
            if j >= len(walls):
                self.geometry.addCollisionPair(pin.CollisionPair(i, j))
        n = len(self.geometry.collisionPairs)
        self.detector = CollisionDetector(self.model, self.geometry, np.zeros(n), np.zeros((n, 2)), planar=True)
        self.data, self.rows = self.model.createData(), ContactRows()

    def contacts(self, *q: float, margin: float = 0.0) -> Contacts:
        pin.forwardKinematics(self.model, self.data, np.array(q))
        self.detector.detect(self.data, margin, self.rows)
        return Contacts.of(self.rows)


SIZE = (0.042, 0.021)
CORNERS = 0.5 * np.array(SIZE) * np.array([[1, -1], [1, 1], [-1, 1], [-1, -1]])
NORMALS = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])  # right, lower, left, upper wall, into the enclosure
REACH = np.array([0.051, 0.0705, 0.101, 0.1105])  # of the walls from the origin [m]


def peg() -> PlanarScene:
    walls = [coal.Halfspace(np.array([*n, 0.0], float), -reach) for n, reach in zip(NORMALS, REACH, strict=True)]
    return PlanarScene(walls, [coal.Box(*SIZE, 0.021)])


@pytest.mark.long
@pytest.mark.parametrize("margin", [0.0, 0.005, 10.0])
def test_a_peg_in_an_enclosure_has_the_contacts_of_plain_geometry(margin: float) -> None:
    rng = np.random.default_rng(20260)
    scene = peg()
    identities: dict[int, tuple[int, int]] = {}
    for _ in range(300):
        x, y, angle = rng.uniform(-0.2, 0.2), rng.uniform(-0.2, 0.2), rng.uniform(-7, 7)
        R = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        corners = CORNERS @ R.T + [x, y]
        separations = NORMALS @ corners.T + REACH[:, None]
        pairs = list(zip(*np.nonzero(separations < margin), strict=True))
        found = scene.contacts(x, y, angle, margin=margin)
        assert len(found) == len(pairs)
        for i, (wall, corner) in enumerate(pairs):
            assert found.separation[i] == pytest.approx(separations[wall, corner], abs=1e-14)
            np.testing.assert_allclose(found.point[i], [*corners[corner], 0.0], rtol=0, atol=1e-15)
            np.testing.assert_allclose(found.normal[i], [*NORMALS[wall], 0.0], rtol=0, atol=1e-15)
            assert identities.setdefault(found.id[i], (wall, corner)) == (wall, corner)
    assert len(set(identities.values())) == len(identities) == 16


def test_a_box_against_a_box_in_the_plane_has_two_contacts_in_it() -> None:
    scene = PlanarScene([], [coal.Box(0.1, 0.1, 0.01), coal.Box(0.1, 0.06, 0.02)])
    for turn in (0.0, 0.7):
        c, s = np.cos(turn), np.sin(turn)
        found = scene.contacts(0, 0, turn, 0.099 * c, 0.099 * s, turn)
        assert len(found) == 2
        np.testing.assert_allclose(found.separation, -0.001, atol=1e-9)
        np.testing.assert_allclose(found.normal, [[c, s, 0]] * 2, atol=1e-9)
        assert (found.point[:, 2] == 0.0).all()
        local = np.sort(-s * found.point[:, 0] + c * found.point[:, 1])
        np.testing.assert_allclose(local, [-0.03, 0.03], atol=1e-9)


def test_thin_boxes_deep_in_each_other_part_in_the_plane() -> None:
    scene = PlanarScene([], [coal.Box(0.1, 0.1, 0.001), coal.Box(0.1, 0.1, 0.001)])
    found = scene.contacts(0, 0, 0, 0.06, 0.01, 0.0)
    np.testing.assert_allclose(found.normal, [[1, 0, 0]] * len(found), atol=1e-9)
    np.testing.assert_allclose(found.separation, -0.04, atol=1e-9)


# --- clusters (THESIS 6.8-6.10) ---


def test_clusters_are_close_have_the_least_separation_and_the_mean_normal() -> None:
    """A sphere in a groove of two half-spaces at 0.2 rad to the horizontal: two contacts 2 r sin(0.2) apart."""
    a, r = 0.2, 0.05
    sides = [coal.Halfspace(np.array([s * np.sin(a), 0.0, np.cos(a)]), 0.0) for s in (-1.0, 1.0)]
    ball = at(x=0.001, z=r / np.cos(a))
    apart = Scene(*sides, coal.Sphere(r), cluster=1.9 * r * np.sin(a)).contacts(ball)
    assert len(apart) == 2
    one = Scene(*sides, coal.Sphere(r), cluster=2.1 * r * np.sin(a)).contacts(ball)
    assert len(one) == 1
    assert one.separation[0] == apart.separation.min() < 0.0 < apart.separation.max()
    np.testing.assert_allclose(one.normal[0], UP, atol=1e-12)
    np.testing.assert_allclose(one.point[0], apart.point.mean(axis=0), atol=1e-15)
    assert one.id[0] == min(apart.id)


def test_every_member_of_a_cluster_is_within_reach_of_every_other() -> None:
    """Not chained: of three contacts in a row 0.1 m apart, a reach of 0.11 m joins two."""
    pieces = [(coal.Sphere(0.05), at(x=0.1 * k)) for k in range(3)]
    found = Scene(floor(), pieces, cluster=0.11).contacts(at(z=0.05))
    np.testing.assert_allclose(found.point[:, 0], [0.05, 0.2], atol=1e-12)


def test_clusters_do_not_join_bodies_or_directions() -> None:
    two = Scene(floor(), coal.Sphere(0.05), coal.Sphere(0.05), pairs=[(0, 1), (0, 2)], cluster=1.0)
    assert len(two.contacts(at(z=0.05), at(x=0.02, z=0.05))) == 2
    wall = coal.Halfspace(np.array([1.0, 0.0, 0.0]), 0.0)
    assert len(Scene(floor(), wall, coal.Sphere(0.05), cluster=1.0).contacts(at(x=0.05, z=0.05))) == 2


# --- the start, and bad input ---


def test_bodies_that_interpenetrate_at_the_start_are_named() -> None:
    scene = Scene(floor(), coal.Box(*CUBE), coal.Sphere(0.05))
    scene.place(at(z=0.048), at(x=0.5, z=0.03))
    overlap = scene.detector.deepest_overlap(scene.data)
    assert overlap is not None
    assert (overlap.first, overlap.second) == ("shape 0", "shape 2")
    assert overlap.depth == pytest.approx(0.02, abs=1e-12)
    scene.detector.check_start(scene.data, 0.021)
    with pytest.raises(ValueError, match=r"'shape 0' and 'shape 2' interpenetrate at the start by 0\.02 m: must be at"):
        scene.detector.check_start(scene.data, 0.019)
    scene.place(at(z=0.06), at(x=0.5, z=0.06))
    assert scene.detector.deepest_overlap(scene.data) is None


def test_what_has_no_contacts_is_refused() -> None:
    with pytest.raises(ValueError, match="'shape 0' is a Cone: must be one of Box"):
        Scene(coal.Cone(0.1, 0.1), coal.Box(*CUBE))
    with pytest.raises(ValueError, match="two half-spaces cannot touch"):
        Scene(floor(), floor(1.0), pairs=[(0, 1)])
    with pytest.raises(ValueError, match=r"cluster = -1 m: must be finite and >= 0"):
        Scene(floor(), coal.Box(*CUBE), cluster=-1.0)
    with pytest.raises(ValueError, match=r"friction \(1, 1\) and resistance \(1, 2\): must be \(1,\), \(1, 2\)"):
        Scene(floor(), coal.Box(*CUBE), friction=np.zeros((1, 1)))


# --- coal's memory, and compilation ---


def test_results_are_read_in_place_as_attributes_would_give_them() -> None:
    rng = np.random.default_rng(20260)
    scene = Scene(coal.Box(*CUBE), gem(), coal.Capsule(0.03, 0.1), coal.Cylinder(0.04, 0.1))
    shared = NarrowPhase(scene.model, scene.geometry)
    copied = NarrowPhase(scene.model, scene.geometry, share=False)
    assert shared.shared, "or every step is slower"
    assert not copied.shared
    for _ in range(20):
        scene.place(*(random_pose(rng, 0.05) for _ in range(4)))
        for narrow in (shared, copied):
            narrow.place(scene.data)
            for pair in range(6):
                narrow.switch(pair, pair != 2)
            narrow.measure()
        np.testing.assert_array_equal(shared.placement, copied.placement)
        part = shared.witness[:, shared.column : shared.column + 9]
        np.testing.assert_array_equal(np.delete(part, 2, axis=0), np.delete(copied.witness, 2, axis=0))


def test_pairs_that_are_far_apart_are_not_near() -> None:
    """No pair is left out that has a contact: against the same scene with a broad phase that leaves out none."""
    rng = np.random.default_rng(20260)
    shapes = [coal.Box(*CUBE), gem(), coal.Capsule(0.03, 0.1), coal.Cylinder(0.04, 0.1), coal.Sphere(0.05)]
    scene = Scene(floor(), *shapes)
    each = [Scene(*pair, margin=1e-3) for pair in itertools.combinations([floor(), *shapes], 2)]
    for _ in range(50):
        poses = [random_pose(rng, 0.08) for _ in range(5)]
        found = scene.contacts(*poses)
        placed = [None, *poses]
        for k, (one, (i, j)) in enumerate(zip(each, itertools.combinations(range(6), 2), strict=True)):
            result = one.contacts(*(placed[m] for m in (i, j) if placed[m] is not None))
            assert (found.wall == k).sum() == len(result)
    far = Scene(*shapes)
    far.contacts(*(at(x=float(k)) for k in range(5)))
    assert not far.detector._arrays.active.any()


def test_nothing_is_compiled_after_the_first_detection() -> None:
    Scene(floor(), coal.Box(*CUBE)).contacts(at())
    before = len(find_near.signatures), len(fill_contacts.signatures)
    Scene(coal.Box(*CUBE), coal.Sphere(0.1), coal.Cylinder(0.1, 0.1), margin=1).contacts(at(), at(), at(x=0.1))
    peg().contacts(0, 0, 0)
    Scene(floor(), convex(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])), cluster=0.1).contacts(GENERIC)
    assert (len(find_near.signatures), len(fill_contacts.signatures)) == before


def test_coal_has_memory_for_the_pairs_that_are_near() -> None:
    """With two slots at first, which are exchanged and doubled, there are the contacts of a slot for each pair."""
    rng = np.random.default_rng(20470)
    shapes = [coal.Box(*rng.uniform(0.1, 0.2, 3)) if k % 2 else coal.Capsule(0.05, 0.1) for k in range(8)]
    whole, few = Scene(*shapes, margin=0.01), Scene(*shapes, margin=0.01)
    arrays = few.detector._arrays
    few.detector._narrow = narrow = NarrowPhase(few.model, few.geometry, slots=2)
    few.detector._arrays = arrays._replace(placement=narrow.placement, witness=narrow.witness, slot=narrow.slot)
    most = 0
    for step in range(40):
        reach = 0.3 if step % 3 else 0.05
        poses = [random_pose(rng, reach) for _ in shapes]
        expected, found = whole.contacts(*poses), few.contacts(*poses)
        assert list(found.id) == list(expected.id)
        np.testing.assert_allclose(found.point, expected.point, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.separation, expected.separation, rtol=0, atol=1e-12)
        near = np.flatnonzero(few.detector._arrays.active)
        assert (narrow.slot[near] >= 0).all()
        assert len(set(narrow.slot[near].tolist())) == len(near)
        most = max(most, len(near))
    assert 4 < most <= len(narrow.witness) < 2 * most
