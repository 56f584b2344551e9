"""Benchmark of contacts by fields: time of a detection against the size of the meshes, and of building a field.

Two tori hang in each other: a shell of points in a field of samples, and the other way round. The path is a slow
rocking at 1 kHz, in contact or with a millimetre of clearance. Times are of the processor, so that other work of the
machine does not count. coal's distance of the same two meshes by its trees of triangles is measured at the same poses;
of meshes that overlap it says only that they do, not how deep.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.contact_rows import ContactRows
from haptic_sim.geometry.collision import CollisionDetector
from haptic_sim.geometry.fields.distances import build_grid, gather_grids
from haptic_sim.geometry.fields.field import MEMORY, SolidField, build_field, sample, triangle_mesh
from haptic_sim.geometry.fields.shells import build_shell

LARGE, SMALL = 0.05, 0.02  # radii of the torus [m]
TICKS = 2000
MARGIN = 1e-4  # [m]
Row = Callable[[str, float, str, str, bool | None], dict[str, Any]]


def torus(triangles: int) -> tuple[np.ndarray, np.ndarray]:
    """About so many triangles: vertices (n, 3) [m] and triangles (m, 3)."""
    around = max(int(np.sqrt(0.5 * triangles / 2.5)), 6)
    along = int(0.5 * triangles / around)
    u, v = np.meshgrid(2.0 * np.pi * np.arange(along) / along, 2.0 * np.pi * np.arange(around) / around, indexing="ij")
    r = LARGE + SMALL * np.cos(v)
    vertices = np.stack([r * np.cos(u), r * np.sin(u), SMALL * np.sin(v)], axis=-1).reshape(-1, 3)
    i, j = np.meshgrid(np.arange(along), np.arange(around), indexing="ij")
    a, b = i * around + j, (i + 1) % along * around + j
    c, d = (i + 1) % along * around + (j + 1) % around, i * around + (j + 1) % around
    quads = np.stack([a, b, c, d], axis=-1).reshape(-1, 4)
    return vertices, np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])


def field(mesh: tuple[np.ndarray, np.ndarray], samples: int, points: int) -> SolidField:
    """With so many samples along the longest side of the box around the mesh, and about so many points."""
    spacing = float(np.ptp(mesh[0], axis=0).max()) / samples
    area = 4.0 * np.pi**2 * LARGE * SMALL
    gap = float(np.sqrt(area / (0.947 * points)))
    return SolidField(build_grid(*mesh, spacing, MEMORY), build_shell(*mesh, gap, gap, 64), 0.5 * spacing, 0.0)


def poses(depth: float, ticks: int) -> list[pin.SE3]:
    """The second torus through the hole of the first, rocking; nearest points `depth` [m] in each other."""
    found = []
    for k in range(ticks):
        t = 1e-3 * k
        rock = np.array([0.02 * np.sin(9.0 * t), 0.03 * np.sin(7.0 * t), 0.05 * np.sin(5.0 * t)])
        place = np.array([2.0 * LARGE - 2.0 * SMALL + depth, 0.0, 0.0])
        turn = pin.exp3(rock) @ pin.exp3(np.array([0.5 * np.pi, 0.0, 0.0]))
        found.append(pin.SE3(turn, pin.exp3(0.3 * rock) @ place))
    return found


class Pair:
    """Two free bodies and their detector."""

    def __init__(self, mesh: coal.BVHModelBase, one: SolidField):
        self.model, geometry = pin.Model(), pin.GeometryModel()
        for k in range(2):
            joint = self.model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), f"body {k}")
            geometry.addGeometryObject(pin.GeometryObject(f"torus {k}", joint, 0, pin.SE3.Identity(), mesh))
        geometry.addCollisionPair(pin.CollisionPair(0, 1))
        self.data, self.rows = self.model.createData(), ContactRows()
        fields = {"torus 0": one, "torus 1": one}
        self.detector = CollisionDetector(self.model, geometry, np.zeros(1), np.zeros((1, 2)), fields=fields)

    def times(self, path: list[pin.SE3]) -> tuple[np.ndarray, float]:
        """Time of each detection [s], and the mean number of rows."""
        found, rows = np.empty(len(path)), 0
        here = pin.SE3ToXYZQUAT(pin.SE3.Identity())
        for k, pose in enumerate(path):
            pin.forwardKinematics(self.model, self.data, np.concatenate([here, pin.SE3ToXYZQUAT(pose)]))
            begun = time.thread_time_ns()
            self.detector.detect(self.data, MARGIN, self.rows)
            found[k] = 1e-9 * (time.thread_time_ns() - begun)
            rows += self.rows.count
        return found, rows / len(path)


def in_contact(one: SolidField, path: list[pin.SE3]) -> float:
    """Mean number of points of both shells within the margin."""
    grids, points = gather_grids([one.grid]), one.shell.points
    distances, gradients, count = np.empty(len(points)), np.empty((len(points), 3)), 0
    for pose in path:
        for X in (pose, pose.inverse()):
            sample(grids, points @ X.rotation.T + X.translation, distances, gradients)
            count += int(np.count_nonzero(distances < MARGIN))
    return count / len(path)


def coal_times(mesh: coal.BVHModelBase, path: list[pin.SE3]) -> np.ndarray:
    """Time of each of coal's distances [s]."""
    found = np.empty(len(path))
    request, start = coal.DistanceRequest(), coal.Transform3s()
    for k, pose in enumerate(path):
        result, there = coal.DistanceResult(), coal.Transform3s(pose.rotation, pose.translation)
        begun = time.thread_time_ns()
        coal.distance(mesh, start, mesh, there, request, result)
        found[k] = 1e-9 * (time.thread_time_ns() - begun)
    return found


def measure(row: Row, largest: int = 1_000_000) -> list[dict[str, Any]]:
    """All figures, as rows of a table."""
    results = []
    mesh = torus(200_000)
    begun = time.process_time()
    build_field(*mesh, 2.5e-4)
    built = time.process_time() - begun
    results.append(row("field of 200,000 triangles, built", built, "s", "<= 20", built <= 20.0))
    one = field(mesh, 256, 64_000)
    pair = Pair(triangle_mesh(*mesh), one)
    touching = poses(3e-5, TICKS)
    pair.times(touching[:10])
    times, rows = pair.times(touching)
    median, late = 1e6 * float(np.median(times)), 1e6 * float(np.quantile(times, 0.999))
    name = f"{len(one.shell.points)} points, 256 samples a side"
    results.append(row(f"{name}: points in contact", in_contact(one, touching[::200]), "", "", None))
    results.append(row(f"{name}: rows", rows, "", "", None))
    results.append(row(f"{name}: median", median, "us", "<= 200", median <= 200.0))
    results.append(row(f"{name}: 99.9 %", late, "us", "<= 600", late <= 600.0))
    for size in (size for size in (1000, 10_000, 100_000, 1_000_000) if size <= largest):
        mesh = torus(size)
        pair, shape = Pair(triangle_mesh(*mesh), field(mesh, 128, size)), triangle_mesh(*mesh)
        for what, depth in (("1 mm of clearance", -1e-3), ("in contact", 1.2e-4)):
            path = poses(depth, 500)
            pair.detector.forget()
            pair.times(path[:2])
            times, _ = pair.times(path)
            ours, theirs = 1e6 * float(np.median(times)), 1e6 * float(np.median(coal_times(shape, path[:20])))
            results.append(row(f"{size} triangles and points, {what}", ours, "us", "", None))
            results.append(row(f"{size} triangles, {what}: coal's distance", theirs, "us", "", None))
    return results
