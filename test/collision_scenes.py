"""Shared by the tests of collision detection: two shapes put anywhere, and the contacts between them."""

from __future__ import annotations

from dataclasses import dataclass

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.contact_rows import ContactRows
from haptic_sim.geometry.collision import CollisionDetector

GENERIC = pin.SE3(pin.exp3(np.array([0.7, -0.4, 1.1])), np.array([0.13, -0.31, 0.22]))


@dataclass
class Contacts:
    """A copy of the rows in use."""

    id: list[int]
    body: np.ndarray
    point: np.ndarray
    normal: np.ndarray
    separation: np.ndarray
    wall: np.ndarray
    restitution: np.ndarray
    friction: np.ndarray

    @classmethod
    def of(cls, rows: ContactRows) -> Contacts:
        n = rows.count
        found = cls(
            rows.id[:n].tolist(),
            rows.body[:n].copy(),
            rows.point[:n].copy(),
            rows.normal[:n].copy(),
            rows.separation[:n].copy(),
            rows.wall[:n].copy(),
            rows.restitution[:n].copy(),
            rows.friction[:n].copy(),
        )
        for x in (found.point, found.normal, found.separation):
            assert np.isfinite(x).all()
        np.testing.assert_allclose(np.linalg.norm(found.normal, axis=1), 1.0, rtol=0, atol=1e-12)
        assert len(set(found.id)) == n, "identities differ within a step"
        return found

    def __len__(self) -> int:
        return len(self.id)


class Scene:
    """Free bodies of one shape each (or several, a list), body k + 1 of shape k; half-spaces are fixed (body 0)."""

    def __init__(self, *shapes, pairs=None, capacity: int = 256, margin: float = 1e-3, **options):
        self.model, self.geometry = pin.Model(), pin.GeometryModel()
        self.margin = margin
        bodies = []
        for k, shape in enumerate(shapes):
            body = 0
            if not isinstance(shape, coal.Halfspace):
                body = self.model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), f"body {k}")
            pieces = shape if isinstance(shape, list) else [(shape, pin.SE3.Identity())]
            for piece, placement in pieces:
                name = f"shape {self.geometry.ngeoms}"
                self.geometry.addGeometryObject(pin.GeometryObject(name, body, 0, placement, piece))
                bodies.append(body)
        if pairs is None:
            pairs = [(i, j) for i in range(len(bodies)) for j in range(i + 1, len(bodies)) if bodies[i] != bodies[j]]
        for first, second in pairs:
            self.geometry.addCollisionPair(pin.CollisionPair(first, second))
        self.pairs = pairs
        count = len(pairs)
        options.setdefault("restitution", np.linspace(0.0, 1.0, count))
        options.setdefault("friction", np.arange(2.0 * count).reshape(count, 2))
        self.detector = CollisionDetector(self.model, self.geometry, **options)
        self.rows = ContactRows(capacity)
        self.data = self.model.createData()

    def place(self, *poses: pin.SE3) -> None:
        pin.forwardKinematics(self.model, self.data, np.concatenate([pin.SE3ToXYZQUAT(pose) for pose in poses]))

    def contacts(self, *poses: pin.SE3) -> Contacts:
        self.place(*poses)
        self.detector.detect(self.data, self.margin, self.rows)
        return Contacts.of(self.rows)


def at(x: float = 0.0, y: float = 0.0, z: float = 0.0, turn: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> pin.SE3:
    """A pose: position [m] and rotation vector [rad]."""
    return pin.SE3(pin.exp3(np.array(turn, float)), np.array([x, y, z], float))


def random_pose(rng: np.random.Generator, reach: float) -> pin.SE3:
    direction = rng.normal(size=3)
    return pin.SE3(pin.Quaternion(rng.normal(size=4)).normalized().toRotationMatrix(), reach * direction)


def convex(points: np.ndarray) -> coal.Convex:
    vectors = coal.StdVec_Vec3s()
    for point in np.array(points, float):
        vectors.append(point)
    return coal.Convex.convexHull(vectors, True, "Qt")


def gem() -> coal.Convex:
    """Twelve points about a centre, of no symmetry."""
    rng = np.random.default_rng(5)
    points = rng.normal(size=(12, 3))
    return convex(0.06 * points / np.linalg.norm(points, axis=1)[:, None] * [1.0, 0.8, 1.2])


def sorted_rows(x: np.ndarray) -> np.ndarray:
    """Rows in an order that does not depend on theirs."""
    x = np.round(np.asarray(x), 9) + 0.0
    return x[np.lexsort(x.T[::-1])]
