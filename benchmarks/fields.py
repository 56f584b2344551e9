"""Benchmark of contacts by fields: time of a detection against the size of the meshes, and of building a field.

Two tori hang in each other: a shell of points in a field of samples, and the other way round. The path is a slow
rocking at 1 kHz, in contact or with clearance. Times are of the processor, so that other work of the machine does not
count. The same two meshes are given to others at the same poses, tick by tick, as long as their patience lasts:

- coal's distance by its trees of triangles; of meshes that overlap it says only that they do, not how deep;
- MuJoCo's octrees of signed distances (geoms of type `sdf`), which look for the deepest points by gradient descent from
  a number of starts;
- MuJoCo's convex pieces: hulls of SECTORS sectors of each torus, which stand out on the inner side.

Once more a field has a number of points that does not change: the triangles of one torus are split into four, again and
again. What touches is the same, and so are the leaves that are visited and the rows.

    ./haptics benchmark fields --json FILE
    ./haptics shell python -m benchmarks.fields FILE docs/images/fields.svg

draws the times against the size.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import coal
import mujoco
import numpy as np
import pinocchio as pin

from haptic_sim.contact_rows import ContactRows
from haptic_sim.geometry.collision import CollisionDetector
from haptic_sim.geometry.fields.distances import build_grid, gather_grids
from haptic_sim.geometry.fields.field import FACE_SPACING, MEMORY, SolidField, build_field, sample, triangle_mesh
from haptic_sim.geometry.fields.shells import build_shell
from haptic_view.figures import SOLID, Axis, Line, Panel, Style, draw, style_of

LARGE, SMALL = 0.05, 0.02  # radii of the torus [m]
TICKS = 2000  # of the headline
STEPS, PATIENCE = 500, 1.5  # poses of a path, and processor time [s] after which no further ones are measured
MARGIN = 1e-4  # [m]
SIZES = (1000, 10_000, 100_000, 1_000_000)  # of triangles and of points
SPLITS = (0, 2, 4, 5)  # times that the triangles of the torus of SIZES[0] are split into four
STEADY = 30_000  # points of it
POINTS = 100  # within reach
SECTORS = 24
CLEAR, DEEP, SAME = "1 mm of clearance", "0.1 to 0.3 mm deep", "in contact"
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
    """Field with `samples` samples along the longest side of the box around the mesh, and about `points` points.

    Its accuracy is that of a field with points that far apart; the grid is coarser where it would be too large.
    """
    spacing = float(np.ptp(mesh[0], axis=0).max()) / samples
    area = 4.0 * np.pi**2 * LARGE * SMALL
    gap = float(np.sqrt(area / (0.947 * points)))
    shell = build_shell(*mesh, gap, gap, 64)
    return SolidField(build_grid(*mesh, spacing, MEMORY), shell, gap / FACE_SPACING, 0.0, True)


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

    def time(self, pose: pin.SE3) -> float:
        """Time of a detection [s]."""
        here = pin.SE3ToXYZQUAT(pin.SE3.Identity())
        pin.forwardKinematics(self.model, self.data, np.concatenate([here, pin.SE3ToXYZQUAT(pose)]))
        begun = time.thread_time_ns()
        self.detector.detect(self.data, MARGIN, self.rows)
        return 1e-9 * (time.thread_time_ns() - begun)

    def least(self) -> float:
        """Least separation of the last detection [m], MARGIN without rows."""
        return float(self.rows.separation[: self.rows.count].min(initial=MARGIN))


class Triangles:
    """coal's distance of two meshes."""

    def __init__(self, mesh: coal.BVHModelBase):
        self.mesh, self.request, self.start = mesh, coal.DistanceRequest(), coal.Transform3s()

    def time(self, pose: pin.SE3) -> float:
        """Time of a distance [s]."""
        self.result, there = coal.DistanceResult(), coal.Transform3s(pose.rotation, pose.translation)
        begun = time.thread_time_ns()
        coal.distance(self.mesh, self.start, self.mesh, there, self.request, self.result)
        return 1e-9 * (time.thread_time_ns() - begun)


class MujocoPair:
    """Two free bodies of MuJoCo with the same shapes, and the contacts that it finds."""

    def __init__(self, meshes: list[tuple[np.ndarray, np.ndarray]], kind: mujoco.mjtGeom):
        spec = mujoco.MjSpec()
        for i, (vertices, triangles) in enumerate(meshes):
            mesh = spec.add_mesh(name=f"mesh {i}")
            mesh.uservert = vertices.ravel().tolist()
            if len(triangles):
                mesh.userface = triangles.ravel().tolist()
        for k in range(2):
            body = spec.worldbody.add_body(name=f"body {k}")
            body.add_freejoint()
            for i in range(len(meshes)):
                body.add_geom(type=kind, meshname=f"mesh {i}", margin=MARGIN)
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)

    def time(self, pose: pin.SE3) -> float:
        """Time of `mj_collision` [s]."""
        x, y, z, qx, qy, qz, qw = pin.SE3ToXYZQUAT(pose)
        self.data.qpos[:] = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, x, y, z, qw, qx, qy, qz]
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        begun = time.thread_time_ns()
        mujoco.mj_collision(self.model, self.data)
        return 1e-9 * (time.thread_time_ns() - begun)

    def least(self) -> float:
        """Least distance of the contacts [m], MARGIN without."""
        return min((contact.dist for contact in self.data.contact), default=MARGIN)


def sectors(mesh: tuple[np.ndarray, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The vertices of SECTORS sectors of a torus, whose hulls are taken."""
    angle = np.mod(np.arctan2(mesh[0][:, 1], mesh[0][:, 0]), 2.0 * np.pi) * SECTORS / (2.0 * np.pi)
    step = SECTORS / len(np.unique(np.round(angle, 6)))
    none = np.zeros((0, 3), np.int64)
    found = []
    for i in range(SECTORS):
        away = np.abs((angle - i - 0.5 + 0.5 * SECTORS) % SECTORS - 0.5 * SECTORS)
        found.append((mesh[0][away <= 0.5 + step], none))  # neighbours overlap by a step of the mesh
    return found


def clearance(pose: pin.SE3) -> float:
    """Distance of two tori [m], below 0 their depth: the least distance of their circles, less both tubes."""
    angle = np.linspace(0.0, 2.0 * np.pi, 4001)
    ring = LARGE * np.stack([np.cos(angle), np.sin(angle), 0.0 * angle], axis=-1) @ pose.rotation.T + pose.translation
    return float(np.hypot(np.hypot(ring[:, 0], ring[:, 1]) - LARGE, ring[:, 2]).min()) - 2.0 * SMALL


def within(one: SolidField, path: list[pin.SE3], reach: float) -> float:
    """Mean number of points of both shells within a distance [m]."""
    grids, points = gather_grids([one.grid]), one.shell.points
    distances, gradients, count = np.empty(len(points)), np.empty((len(points), 3)), 0
    for pose in path:
        for X in (pose, pose.inverse()):
            sample(grids, points @ X.rotation.T + X.translation, distances, gradients)
            count += int(np.count_nonzero(distances < reach))
    return count / len(path)


def depth_of(one: SolidField, points: int, reach: float, ticks: int) -> float:
    """The depth at the start of a path of so many ticks along which about so many points are within a distance [m]."""
    low, high = -2e-3, 6e-3
    for _ in range(12):
        middle = 0.5 * (low + high)
        few = within(one, poses(middle, ticks)[:: ticks // 10], reach) < points
        low, high = (middle, high) if few else (low, middle)
    return low


def compare(subjects: dict[str, Any], path: list[pin.SE3]) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Times [s] of each subject at the poses of a path, and the largest error of its least separation there [m].

    One subject follows another: by turns, each would find the caches full of the data of the others. A subject that is
    slow is measured at the first poses alone.
    """
    times: dict[str, np.ndarray] = {}
    errors = dict.fromkeys(subjects, 0.0)
    exact = [clearance(pose) for pose in path]
    for name, subject in subjects.items():
        found: list[float] = []
        for pose, depth in zip(path, exact, strict=True):
            found.append(subject.time(pose))
            if depth < 0.0 and hasattr(subject, "least"):
                errors[name] = max(errors[name], abs(subject.least() - depth))
            if sum(found) > PATIENCE:
                break
        times[name] = np.array(found)
    return times, errors


def headline(row: Row, ticks: int = TICKS) -> Iterator[dict[str, Any]]:
    """Building a field of 200,000 triangles, and detections of 64,000 points."""
    mesh = torus(200_000)
    begun = time.process_time()
    build_field(*mesh, 2.5e-4)
    built = time.process_time() - begun
    yield row("field of 200,000 triangles, built", built, "s", "<= 20", built <= 20.0)
    one = field(mesh, 256, 64_000)
    shape = triangle_mesh(*mesh)
    pair = Pair(shape, one)
    touching = poses(depth_of(one, POINTS, MARGIN, ticks), ticks)
    compare({"field": pair}, touching[:10])
    found = compare({"field": pair}, touching)[0]["field"]
    median, late = 1e6 * float(np.median(found)), 1e6 * float(np.quantile(found, 0.999))
    name = f"{len(one.shell.points)} points, 256 samples a side"
    yield row(f"{name}: points in contact", within(one, touching[:: ticks // 10], MARGIN), "", "", None)
    yield row(f"{name}: median", median, "us", "<= 200", median <= 200.0)
    yield row(f"{name}: 99.9 %", late, "us", "<= 600", late <= 600.0)
    for who, times in compare(others(mesh, shape), touching)[0].items():
        yield row(f"the same pair and poses, {who}: median", 1e6 * float(np.median(times)), "us", "", None)


def others(mesh: tuple[np.ndarray, np.ndarray], shape: coal.BVHModelBase) -> dict[str, Any]:
    """Other libraries that find the contacts of two such tori, by name."""
    return {
        "triangles of coal": Triangles(shape),
        f"{SECTORS} convex pieces of MuJoCo": MujocoPair(sectors(mesh), mujoco.mjtGeom.mjGEOM_MESH),
        "octrees of MuJoCo": MujocoPair([mesh], mujoco.mjtGeom.mjGEOM_SDF),
    }


def growth(row: Row, sizes: tuple[int, ...] = SIZES, steps: int = STEPS) -> Iterator[dict[str, Any]]:
    """Times against the number of triangles and points, beside others."""
    for size in sizes:
        mesh = torus(size)
        shape = triangle_mesh(*mesh)
        subjects: dict[str, Any] = {"field": Pair(shape, field(mesh, 128, size)), **others(mesh, shape)}
        for what, depth in (("3 mm of clearance", -3e-3), (CLEAR, -1e-3), (DEEP, 1.2e-4)):
            beside = subjects if what != "3 mm of clearance" else {"field": subjects["field"]}
            path = poses(depth, steps)
            subjects["field"].detector.forget()  # no motion leads from the last path to this one
            for subject in beside.values():
                subject.time(path[0])
            times, errors = compare(beside, path)
            for who, found in times.items():
                text = f"{size} triangles, {what}: {who}"
                yield row(text, 1e6 * float(np.median(found)), "us", "", None)
                if what == DEEP and errors[who]:
                    yield row(f"{text}, largest error", 1e3 * errors[who], "mm", "", None)


def steady(row: Row, splits: tuple[int, ...] = SPLITS, points: int = STEADY) -> Iterator[dict[str, Any]]:
    """The same surface and the same number of points, from ever more triangles: median time, leaves and rows."""
    import trimesh

    vertices, triangles = torus(SIZES[0])
    path = poses(1.2e-3, STEPS)  # its edges lie on the torus, its faces up to 0.6 mm below
    for times in range(splits[-1] + 1):
        if times in splits:
            pair = Pair(triangle_mesh(vertices, triangles), field((vertices, triangles), 128, points))
            pair.time(path[0])
            found, leaves, rows = [], 0, 0
            for pose in path:
                found.append(pair.time(pose))
                leaves, rows = leaves + pair.detector.visited, rows + pair.rows.count
            text = f"{len(triangles)} triangles, {SAME}: field of {points} points"
            yield row(text, 1e6 * float(np.median(found)), "us", "", None)
            yield row(f"{text}, leaves visited", leaves / len(path), "", "", None)
            yield row(f"{text}, rows", rows / len(path), "", "", None)
        vertices, triangles = trimesh.remesh.subdivide(vertices, triangles)


def measure(row: Row) -> Iterator[dict[str, Any]]:
    """All figures, as rows of a table, as they are measured."""
    yield from headline(row)
    yield from growth(row)
    yield from steady(row)


def figure(results: list[dict[str, Any]]) -> Panel:
    """Times against the number of triangles and points, from the rows of `measure`."""
    curves: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for result in results:
        size, _, what = result["name"].partition(" triangles, ")
        case, _, who = what.partition(": ")
        if case in (CLEAR, DEEP, SAME) and result["unit"] == "us":
            curves.setdefault((who, case), []).append((int(size), result["value"]))
    names = list(dict.fromkeys(who for who, _ in curves))
    lines = []
    for (who, case), points in sorted(curves.items(), key=lambda one: names.index(one[0][0])):
        x, y = np.array(points).T
        colour = style_of(names.index(who)).colour
        lines.append(Line(x, y, f"{who}, {case}", Style(colour, (2, 2) if case == CLEAR else SOLID)))
    title = "Median time of a detection, two tori in each other"
    return draw("fields", title, lines, Axis("triangles of each", log=True), Axis("time [us]", log=True), tall=True)


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(figure(json.loads(Path(sys.argv[1]).read_text())["results"]).svg, encoding="utf-8")
