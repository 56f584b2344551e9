"""Regions, guides and magnets of any shape: distances, energies, closed forms, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from conftest import sampled

from haptic_sim import World
from haptic_sim.fields import distances
from haptic_sim.fields.kinds import ForbiddenParameters, GuideParameters, MagneticParameters
from haptic_sim.fields.law import FieldAnswer, FieldPlace
from haptic_sim.fields.sampled import sampled_distance, sampled_numbers
from haptic_sim.geometry.fields.distances import FieldError
from haptic_sim.geometry.shapes import GeneratedParameters, MeshParameters, placement
from haptic_sim.parameters import ParameterError
from haptic_sim.records import allocate

MASS = 0.2  # [kg]
RING, TUBE = 0.05, 0.015  # [m] radii of the torus
ERROR = 1e-3  # [m]
SPACING = 2.0 * ERROR
POSE: dict[str, Any] = {"position": [0.01, 0.02, -0.03], "rotation": [0.7, -0.3, 0.4]}
X_WS = placement(tuple(POSE["position"]), tuple(POSE["rotation"]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Meshes: a torus, a bowl, two boxes that overlap, two that are joined to an L, and a box."""
    found = tmp_path_factory.mktemp("meshes")
    trimesh.creation.torus(RING, TUBE, major_sections=96, minor_sections=48).export(found / "torus.stl")
    angle = np.linspace(0.0, 0.5 * math.pi, 40)
    inner = np.stack([0.05 * np.sin(angle), 0.05 - 0.05 * np.cos(angle)], axis=1)
    outer = np.stack([0.06 * np.sin(angle), 0.05 - 0.06 * np.cos(angle)], axis=1)
    trimesh.creation.revolve(np.concatenate([outer, inner[::-1]]), sections=96).export(found / "bowl.stl")
    boxes = [trimesh.creation.box((0.06, 0.04, 0.04)) for _ in range(2)]
    boxes[1].apply_translation([0.04, 0, 0])
    trimesh.util.concatenate(boxes).export(found / "overlap.stl")
    outline = [[0, 0], [0.06, 0], [0.06, 0.02], [0.02, 0.02], [0.02, 0.06], [0, 0.06]]
    corners = np.array([[*p, z] for z in (0.0, 0.02) for p in outline])
    sides = [[i, j, j + 6] for i, j in zip(range(6), [1, 2, 3, 4, 5, 0], strict=True)]
    sides += [[i, j + 6, i + 6] for i, j in zip(range(6), [1, 2, 3, 4, 5, 0], strict=True)]
    top = [[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 5]]
    bottom = [[c, b, a] for a, b, c in top]
    trimesh.Trimesh(corners, [*sides, *bottom, *(np.array(top) + 6).tolist()]).export(found / "l.stl")
    trimesh.creation.box((0.1, 0.06, 0.08)).export(found / "box.stl")
    return found


def mesh(folder: Path, name: str, **keys: Any) -> dict[str, Any]:
    return {"type": "mesh", "path": str(folder / f"{name}.stl"), "error": ERROR} | keys


def numbers_of(shape: dict[str, Any], *, outside: bool) -> np.ndarray:
    return distances.shape_numbers(MeshParameters(**shape), Path(), "shape", outside=outside)


def distance(numbers: np.ndarray, p: Any) -> tuple[float, np.ndarray]:
    d, *n = distances.signed_distance(numbers, 0, *map(float, p))
    return d, np.array(n)


def from_torus(p: np.ndarray) -> float:
    """Exact signed distance from the torus, in its axes [m]."""
    return math.hypot(math.hypot(p[0], p[1]) - RING, p[2]) - TUBE


def from_box(p: np.ndarray) -> float:
    """Exact signed distance from the box of box.stl [m]."""
    q = np.abs(p) - [0.05, 0.03, 0.04]
    return float(np.linalg.norm(np.maximum(q, 0.0)) + min(q.max(), 0.0))


def world(fields: dict[str, Any], start: dict[str, Any], *, rate: float = 1000.0, gravity: float = 0.0) -> World:
    ball = {"joint": "free", "mass": MASS, "shapes": [{"type": "sphere", "radius": 0.005}]} | start
    keys = {"bodies": {"ball": ball}, "tool": "ball", "gravity": [0, 0, -gravity], "fields": fields}
    return World(keys, rate=rate, environment={"method": "penalty"})


def total(one: World) -> float:
    energy = one.energy
    return energy["kinetic"] + energy["potential"] + energy["elastic"]


# Distances


def test_distance_from_a_torus_is_that_of_its_closed_form(folder: Path) -> None:
    """Nearly so: facets of the mesh, h^2 / 8 (1/r_1 + 1/r_2) on smooth parts, and h in the middle of a thin part."""
    numbers = numbers_of(mesh(folder, "torus", **POSE), outside=True)
    rng = np.random.default_rng(20266)
    facets = TUBE * (1.0 - math.cos(math.pi / 48)) + (RING + TUBE) * (1.0 - math.cos(math.pi / 96))
    rounded = SPACING**2 / 8.0 * (1.0 / TUBE + 1.0 / (RING - TUBE))
    near = 0
    for p in rng.uniform([-0.08, -0.08, -0.03], [0.08, 0.08, 0.03], (1000, 3)):
        exact, (d, n) = from_torus(p), distance(numbers, X_WS.act(p))
        assert d == pytest.approx(exact, abs=0.6 * SPACING)
        if abs(exact) < 0.5 * TUBE and math.hypot(p[0], p[1]) > RING - TUBE:
            near += 1
            assert d == pytest.approx(exact, abs=1.5 * (facets + rounded))
            across = math.hypot(p[0], p[1]) - RING
            radial = np.array([*(p[:2] / math.hypot(p[0], p[1]) * across), p[2]]) / math.hypot(across, p[2])
            assert n == pytest.approx(X_WS.rotation @ radial, abs=0.12)
    assert near > 100


@pytest.mark.parametrize("name", ["torus", "bowl", "box", "l", "overlap"])
def test_gradients_are_those_of_the_distance_and_hardly_longer_than_one(folder: Path, name: str) -> None:
    """Also at the border of the grid and beyond, where only those of the box of samples turn."""
    numbers = numbers_of(mesh(folder, name, **POSE), outside=True)
    rng = np.random.default_rng(20267)
    inside = 0
    for p in X_WS.translation + rng.uniform(-0.1, 0.1, (800, 3)):
        d, n = distance(numbers, p)
        inside += d < 0.0
        assert np.linalg.norm(n) <= (1.02 if d < 0.009 else 1.23)
        step = 1e-7 * np.eye(3)
        ahead = np.array([distance(numbers, p + e)[0] for e in step])
        behind = np.array([distance(numbers, p - e)[0] for e in step])
        if name != "overlap" or np.abs(ahead + behind - 2.0 * d).max() < 1e-9:  # not where the nearest piece changes
            assert (ahead - behind) / 2e-7 == pytest.approx(n, abs=1e-5)
    assert inside > 5


def test_distance_is_continuous_at_the_border_of_its_samples_and_coarse_beyond(folder: Path) -> None:
    numbers = numbers_of(mesh(folder, "box"), outside=True)
    for axis in np.eye(3):
        far = np.array([distance(numbers, a * axis)[0] for a in np.arange(0.03, 0.3, 1e-4)])
        assert np.all(np.abs(np.diff(far)) <= 1.02e-4)
    rng = np.random.default_rng(20268)
    ratios = [distance(numbers, p)[0] / from_box(p) for p in rng.normal(size=(500, 3)) if from_box(p) > 0.02]
    assert min(ratios) > 0.86
    assert max(ratios) < 1.23
    assert max(ratios) - min(ratios) > 0.01  # it is coarse: a test that would not see the samples end is none


def test_within_a_convex_mesh_the_distance_is_exact_and_outside_it_is_sampled(folder: Path) -> None:
    within, around = (numbers_of(mesh(folder, "box"), outside=outside) for outside in (False, True))
    assert within[0] == distances.POLYTOPE
    assert around[0] == distances.SAMPLED
    corner = np.array([0.055, 0.035, 0.045])
    assert distance(within, corner)[0] == pytest.approx(0.005, abs=1e-9)  # a lower bound
    assert distance(around, corner)[0] == pytest.approx(0.005 * math.sqrt(3.0), abs=0.5 * SPACING)
    assert distance(within, [0.0, 0.0, 0.03])[0] == pytest.approx(-0.01, abs=1e-9)


def test_pieces_that_overlap_are_one_region_without_faces_inside(folder: Path) -> None:
    """The least of the distances of both: on the face of one within the other it is not 0."""
    within, around = (numbers_of(mesh(folder, "overlap"), outside=outside) for outside in (False, True))
    assert within[0] == around[0] == distances.UNION
    at_face = [0.03, 0.0, 0.0]  # an end of the first box, 0.02 m within the second one
    assert distance(within, at_face)[0] == pytest.approx(-0.02, abs=1e-9)
    assert distance(around, at_face)[0] == pytest.approx(-0.02, abs=0.6 * SPACING)
    d, n = distance(within, [0.02, 0.019, 0.0])
    assert (d, *n) == pytest.approx((-0.001, 0.0, 1.0, 0.0), abs=1e-9)
    assert distance(around, [0.02, 0.03, 0.0])[0] == pytest.approx(0.01, abs=0.1 * SPACING)


def test_a_decomposition_has_no_gaps_between_its_pieces(folder: Path) -> None:
    """Its pieces touch; the region is the mesh itself."""
    numbers = numbers_of(mesh(folder, "l", **{"as": "pieces", "error": 2e-3}), outside=False)
    assert numbers[0] == distances.SAMPLED
    for p in np.linspace([0.01, 0.01, 0.01], [0.05, 0.01, 0.01], 200):
        assert distance(numbers, p)[0] < -0.005
    assert distance(numbers, [0.04, 0.04, 0.01])[0] == pytest.approx(0.02, abs=2e-3)


@pytest.mark.parametrize("name", ["mug", "gear"])
def test_a_generated_shape_is_a_region(name: Any) -> None:
    shape = GeneratedParameters(shape=name)
    numbers = distances.shape_numbers(shape, Path(), "shape", outside=False)
    assert numbers[0] == distances.SAMPLED
    surface = shape.triangles(Path())
    points, faces = trimesh.sample.sample_surface(surface, 300, seed=3)
    spacing = numbers[13 + 3]
    off = [distance(numbers, p)[0] for p in points]
    assert np.abs(off).max() < spacing
    assert np.mean(np.abs(off)) < 0.2 * spacing
    for p, normal in zip(points, surface.face_normals[faces], strict=True):
        assert distance(numbers, p + 2.0 * spacing * normal)[0] > distance(numbers, p - 2.0 * spacing * normal)[0]


# Energy


def along(field: Any, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Stored energies (N,) [J] and forces (N, 3) [N] of a field at points (N, 3) [m], at rest."""
    place, answer, keys = allocate(FieldPlace), allocate(FieldAnswer), np.asarray(field.numbers(Path()), float)
    stored, forces = np.zeros(len(points)), np.zeros((len(points), 3))
    for i, p in enumerate(points):
        place.position[:] = p
        for part in answer:
            part[...] = 0.0
        type(field).LAW(place, keys, answer)
        stored[i], forces[i] = answer.stored[0], answer.force
    return stored, forces


FIELDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "forbidden": lambda shape: ForbiddenParameters(shape=shape, stiffness=800.0),
    "bounded": lambda shape: ForbiddenParameters(shape=shape, stiffness=800.0, largest_force=3.0),
    "kept inside": lambda shape: ForbiddenParameters(shape=shape, stiffness=800.0, keep="inside"),
    "guide": lambda shape: GuideParameters(
        along={"type": "surface", "shape": shape}, stiffness=600.0, largest_force=4.0, reach=0.03, edge=0.01
    ),
    "magnet": lambda shape: MagneticParameters(to={"type": "surface", "shape": shape}, largest_force=2.0),
}


@pytest.mark.parametrize("kind", sampled(FIELDS, "magnet"))
@pytest.mark.parametrize("name", ["torus", pytest.param("bowl", marks=pytest.mark.exhaustive)])
def test_work_along_random_paths_is_that_of_the_stored_energy(folder: Path, name: str, kind: str) -> None:
    """By the trapezoidal rule: what is missing falls with the steps, also where gradients jump (factor 4)."""
    field = FIELDS[kind](mesh(folder, name, **POSE))
    most = {"bounded": 3.0, "guide": 4.0, "magnet": 2.0}.get(kind, math.inf)
    missing = []
    for steps in (300, 2400):
        rng = np.random.default_rng(20269)
        worst = largest = 0.0
        for _ in range(3):
            a, b, c = rng.uniform(-0.05, 0.05, (3, 3))
            t = np.linspace(0.0, 2.0 * math.pi, steps + 1)[:, None]
            path = a + b * np.sin(t) + c * np.sin(2.0 * t + 1.0)
            stored, forces = along(field, path)
            work = np.concatenate([[0.0], np.cumsum(0.5 * ((forces[1:] + forces[:-1]) * np.diff(path, axis=0)).sum(1))])
            worst = max(worst, np.abs(stored[0] - work - stored).max())
            largest = max(largest, stored.max())
            # beyond the samples of a guide or magnet, the gradient may be longer
            assert np.linalg.norm(forces, axis=1).max() <= (1.23 if kind in ("guide", "magnet") else 1.02) * most
        assert largest > 1e-3
        missing.append(worst / largest)
    assert missing[1] < 1e-2
    assert missing[1] < 0.25 * missing[0]


def test_a_ball_thrown_onto_a_torus_keeps_its_energy(folder: Path) -> None:
    """Without damping, but for the order of the period: half of it at twice the rate."""
    field = {"type": "forbidden", "shape": mesh(folder, "torus", **POSE), "stiffness": 800.0, "damping": 0.0}
    start = {"position": X_WS.act(np.array([0.048, 0.01, 0.05])).tolist()}
    velocity = X_WS.rotation @ [0.03, 0.05, -0.4]
    worst = []
    for rate in (1000.0, 4000.0):
        one = world({"ring": field}, start | {"velocity": [*velocity.tolist(), 0, 0, 0]}, rate=rate)
        energies = []
        for _ in range(int(0.4 * rate)):
            one.step()
            energies.append(total(one))
        assert max(energies) > 0.0 and one.twist[:3] @ X_WS.rotation[:, 2] > 0.1  # it has bounced
        worst.append(np.ptp(energies) / energies[0])
    assert worst[0] < 0.05
    assert worst[1] < 0.5 * worst[0]


def test_a_spring_within_a_mesh_conserves_energy_at_its_edge(folder: Path) -> None:
    field = {
        "type": "spring",
        "point": [0, 0, 0],
        "stiffness": 10.0,
        "region": mesh(folder, "torus"),
        "edge": 0.01,
    }
    start = {"position": [-0.1, 0.01, 0.002], "velocity": [0.8, 0, 0, 0, 0, 0]}
    one = world({"spring": field}, start, rate=4000.0)
    energies, changed = [], 0
    for _ in range(1200):
        one.step()
        energies.append(total(one))
        changed += bool(np.any(one.wrench))
    assert one.pose[0] > 0.08 and changed > 100
    assert np.ptp(energies) < 0.01 * energies[0]


# Closed forms


def test_a_tool_rests_on_the_ring_and_passes_freely_through_its_hole(folder: Path) -> None:
    field = {"type": "forbidden", "shape": mesh(folder, "torus"), "stiffness": 800.0, "damping": 20.0}
    line = {"type": "curve", "points": [[RING, 0, -1], [RING, 0, 1]], "between": "lines"}
    guide = {"type": "guide", "along": line, "stiffness": 1000.0}  # it would slip off
    one = world({"ring": field, "guide": guide}, {"position": [RING, 0, TUBE]})
    for _ in range(3000):
        one.step(np.array([0, 0, -2.0, 0, 0, 0]))
    assert one.pose[2] == pytest.approx(TUBE - 2.0 / 800.0, abs=1e-4)
    assert one.wrench[2] == pytest.approx(2.0, rel=1e-3)
    through = world({"ring": field}, {"position": [0, 0, 0.1], "velocity": [0, 0, -1.0, 0, 0, 0]})
    for _ in range(200):
        through.step()
        assert through.wrench.tolist() == [0.0] * 6
    assert through.pose[2] == pytest.approx(-0.1, abs=1e-9)


def test_a_ball_comes_to_rest_at_the_bottom_of_a_bowl(folder: Path) -> None:
    """At the depth m g / k below its lowest point; its frequency is that of a pendulum as long as the bowl's radius."""
    bowl = {"type": "forbidden", "shape": mesh(folder, "bowl"), "stiffness": 4000.0, "damping": 30.0}
    start = {"position": [0.008, 0, 0.05 - math.sqrt(0.05**2 - 0.008**2)]}
    one = world({"bowl": bowl}, start, gravity=9.81)
    x = []
    for _ in range(1000):
        one.step()
        x.append(one.pose[0])
    crossings = np.flatnonzero(np.diff(np.sign(x)))
    assert len(crossings) >= 3
    half = np.diff(crossings).mean() * 1e-3
    assert half == pytest.approx(math.pi * math.sqrt((0.05 + MASS * 9.81 / 4000.0) / 9.81), rel=0.05)
    oil = {"type": "viscous", "damping": 3.0}
    one = world({"bowl": bowl, "oil": oil}, start, gravity=9.81)
    for _ in range(3000):
        one.step()
    assert one.pose[:3] == pytest.approx([0.0, 0.0, -MASS * 9.81 / 4000.0], abs=1.5e-4)
    assert one.wrench[2] == pytest.approx(MASS * 9.81, rel=1e-3)


def test_a_guide_leads_along_the_surface_of_a_mesh(folder: Path) -> None:
    """Pushed along the ring, the tool stays on it, from both sides and from far away."""
    guide = {
        "type": "guide",
        "along": {"type": "surface", "shape": mesh(folder, "torus")},
        "stiffness": 600.0,
        "damping": 15.0,
        "largest_force": 5.0,
    }
    oil = {"type": "viscous", "damping": 2.0}
    for start in ([0.02, 0.0, 0.06], [0.05, 0.004, 0.0], [0.2, 0.1, 0.1]):
        one = world({"guide": guide, "oil": oil}, {"position": start})
        for _ in range(2500):
            p = one.pose[:3]
            push = 0.3 * np.array([-p[1], p[0], 0.0]) / max(math.hypot(p[0], p[1]), 1e-3)
            one.step(np.array([*push, 0, 0, 0]))
        assert abs(from_torus(one.pose[:3])) < 1e-3
        assert np.hypot(*one.twist[:2]) > 0.05


def test_a_tool_that_starts_inside_is_pushed_out_with_a_bounded_force(folder: Path) -> None:
    """The energy that it had stored is kinetic when it has left."""
    field = {
        "type": "forbidden",
        "shape": mesh(folder, "torus"),
        "stiffness": 800.0,
        "damping": 0.0,
        "largest_force": 3.0,
    }
    one = world({"ring": field}, {"position": [RING, 0, 0.009]}, rate=4000.0)
    largest = 0.0
    for _ in range(4000):
        one.step()
        largest = max(largest, float(np.linalg.norm(one.wrench[:3])))
    depth = TUBE - 0.009
    stored = 0.5 * 3.0**2 / 800.0 + 3.0 * (depth - 3.0 / 800.0)
    assert one.wrench.tolist() == [0.0] * 6
    assert 0.5 * MASS * float(one.twist[:3] @ one.twist[:3]) == pytest.approx(stored, rel=0.03)
    assert 2.9 < largest < 1.02 * 3.0


# What is refused


def test_a_shape_with_too_many_samples_is_refused_with_what_would_do(folder: Path) -> None:
    torus = trimesh.load(folder / "torus.stl")
    vertices, faces = np.array(torus.vertices, float), np.array(torus.faces, np.int64)
    with pytest.raises(
        FieldError,
        match=r"^error = 1e-05 m: its distances would have 6.4e\+10 samples: must be at most 1e\+06; allow an error of "
        r"0.00046 m$",
    ):
        sampled_numbers(vertices, faces, 1e-5, outside=False, most=1_000_000)
    assert len(sampled_numbers(vertices, faces, 4.6e-4, outside=False, most=1_000_000)) <= 1_000_007


@pytest.mark.parametrize("outside", [False, True])
def test_a_wall_that_is_too_thin_for_its_samples_is_refused(outside: bool) -> None:
    """The spline of |x| is from h / 4 to h / 2 at 0, by where the samples are: by so much a wall is less deep."""
    for thickness, there in ((0.4, False), (2.0, True)):
        wall = trimesh.creation.box((0.1, 0.1, thickness * SPACING))
        vertices, faces = np.array(wall.vertices, float), np.array(wall.faces, np.int64)
        if there:
            numbers = sampled_numbers(vertices, faces, ERROR, outside=outside)
            depth = -sampled_distance(numbers, 0, 0.0, 0.0, 0.0)[0]
            assert (0.5 * thickness - 0.51) * SPACING < depth < (0.5 * thickness - 0.24) * SPACING
            continue
        with pytest.raises(
            FieldError, match=r"^error = 0.001 m: it is too thin for samples 0.002 m apart, and nothing"
        ):
            sampled_numbers(vertices, faces, ERROR, outside=outside)


def test_a_shape_whose_field_would_be_too_large_is_named(folder: Path) -> None:
    field = {"type": "forbidden", "shape": mesh(folder, "torus", error=1e-7)}
    with pytest.raises(ParameterError) as caught:
        world({"ring": field}, {})
    assert f"scene.fields.ring.shape.path = {folder / 'torus.stl'}: error = 1e-07 m: its surface of" in str(
        caught.value
    )
    assert "allow an error of" in str(caught.value)


def test_a_region_with_a_texture_is_refused(folder: Path) -> None:
    field = {
        "type": "forbidden",
        "shape": mesh(folder, "torus", texture={"type": "sine", "height": 1e-4, "length": 0.01}),
    }
    with pytest.raises(ParameterError, match=r"ring\.shape\.texture"):
        world({"ring": field}, {})
