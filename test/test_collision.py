"""Contacts of the peg against plain geometry: its four corners and four half-planes."""

from __future__ import annotations

import numpy as np
import pytest

from haptic_sim.collision import CollisionDetector
from haptic_sim.contact.rows import ContactRows
from haptic_sim.multibody import Multibody
from haptic_sim.scene import EnclosureParameters, PegParameters, World, build_world

TOOL = PegParameters(size=(0.042, 0.021))
SCENE = EnclosureParameters(gap=(0.03, 0.06), far_gap=(0.08, 0.1))
HALF = 0.5 * np.array(TOOL.size)
CORNERS = HALF * np.array([[1, -1], [1, 1], [-1, 1], [-1, -1]])
NORMALS = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])  # right, lower, left, upper wall, into the enclosure
REACH = np.array([0.021 + 0.03, 0.0105 + 0.06, 0.021 + 0.08, 0.0105 + 0.1])  # of the walls from the origin [m]


class Peg:
    """The peg, put anywhere."""

    def __init__(self, capacity: int = 256) -> None:
        self.world: World = build_world(TOOL, SCENE)
        self.body = Multibody(self.world.model, self.world.hand, self.world.q, self.world.v)
        self.detector = CollisionDetector(self.world)
        self.rows = ContactRows(capacity)

    def contacts(self, x: float, y: float, angle: float, margin: float = 0.0) -> ContactRows:
        self.body.q[:] = x, y, angle
        self.body.refresh()
        self.detector.detect(self.body, margin, self.rows)
        return self.rows


def expected(x: float, y: float, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """Corners (4, 2), and their separations from each wall (wall, corner)."""
    R = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    corners = CORNERS @ R.T + [x, y]
    return corners, NORMALS @ corners.T + REACH[:, None]


@pytest.mark.parametrize("margin", [0.0, 0.005, 0.05, 10.0])
def test_contacts_are_those_of_plain_geometry(margin: float) -> None:
    rng = np.random.default_rng(20260)
    peg = Peg()
    identities: dict[int, tuple[int, int]] = {}
    seen = 0
    for _ in range(500):
        x, y, angle = rng.uniform(-0.2, 0.2), rng.uniform(-0.2, 0.2), rng.uniform(-7, 7)
        corners, separations = expected(x, y, angle)
        rows = peg.contacts(x, y, angle, margin)
        pairs = list(zip(*np.nonzero(separations < margin), strict=True))
        assert rows.count == len(pairs)
        for i, (wall, corner) in enumerate(pairs):
            assert rows.separation[i] == pytest.approx(separations[wall, corner], abs=1e-14)
            np.testing.assert_allclose(rows.point[i], [*corners[corner], 0.0], rtol=0, atol=1e-15)
            np.testing.assert_allclose(rows.normal[i], [*NORMALS[wall], 0.0], rtol=0, atol=1e-15)
            assert (rows.velocity[i], rows.wall[i]) == (0.0, wall)
            # an identity belongs to one pair of wall and corner, wherever the peg is
            assert identities.setdefault(int(rows.id[i]), (wall, corner)) == (wall, corner)
        seen += len(pairs)
    assert len(set(identities.values())) == len(identities) == 16
    assert seen > 1000


def test_free_peg_has_no_contacts() -> None:
    assert Peg().contacts(0.0, 0.0, 0.0).count == 0
    assert Peg().contacts(0.0299, -0.0599, 0.0).count == 0


def test_a_face_on_a_wall_has_two_contacts_and_a_corner_of_the_enclosure_four() -> None:
    peg = Peg()
    rows = peg.contacts(0.03 + 1e-6, 0.0, 0.0)
    assert rows.count == 2
    np.testing.assert_allclose(rows.separation[:2], -1e-6, rtol=0, atol=1e-15)
    np.testing.assert_allclose(rows.point[:2, :2] - [0.03 + 1e-6, 0], [[0.021, -0.0105], [0.021, 0.0105]], atol=1e-15)
    rows = peg.contacts(0.03 + 1e-6, -0.06 - 2e-6, 0.0)
    assert rows.count == 4
    np.testing.assert_allclose(rows.separation[:4], [-1e-6, -1e-6, -2e-6, -2e-6], rtol=0, atol=1e-15)
    assert rows.wall[:4].tolist() == [0, 0, 1, 1]
    assert len(set(rows.id[:4].tolist())) == 4


@pytest.mark.parametrize("angle", [0.1, -0.1, 0.7, np.pi / 2 + 0.2])
def test_a_tilted_peg_hits_with_one_corner(angle: float) -> None:
    peg = Peg()
    corners, _ = expected(0.0, 0.0, angle)
    corner = int(np.argmax(corners[:, 0]))
    rows = peg.contacts(REACH[0] - corners[corner, 0] + 1e-7, 0.0, angle)
    assert rows.count == 1
    assert rows.separation[0] == pytest.approx(-1e-7, abs=1e-15)
    np.testing.assert_allclose(rows.point[0], [REACH[0] + 1e-7, corners[corner, 1], 0.0], rtol=0, atol=1e-15)


def test_the_margin_is_open_and_counts_each_corner() -> None:
    """A wall nearer than the margin lists only those corners that are nearer than the margin themselves."""
    peg = Peg()
    assert peg.contacts(0.0, 0.0, 0.0, 0.0299).count == 0
    assert peg.contacts(0.0, 0.0, 0.0, 0.0301).count == 2
    assert peg.contacts(0.0, 0.0, 0.0, 0.0721).count == 6  # the far corners too, and the lower wall's


def test_identities_persist_while_the_peg_moves() -> None:
    peg = Peg()
    first = peg.contacts(0.031, 0.0, 0.0)
    ids = first.id[:2].tolist()
    for k in range(100):
        rows = peg.contacts(0.031 + 1e-4 * k, -5e-4 * k, 1e-3 * k)
        assert rows.id[: rows.count].tolist()[:2] == ids


def test_more_contacts_than_room_are_cut_off() -> None:
    peg = Peg(capacity=3)
    rows = peg.contacts(0.031, -0.061, 0.0)
    assert rows.count == 3
    assert rows.wall.tolist() == [0, 0, 1]
