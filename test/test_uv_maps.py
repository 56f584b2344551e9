"""Height maps by coordinates of a mesh: closed forms, one potential at seams and edges, files, refusals."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import coal
import numpy as np
import pinocchio as pin
import pytest
import yaml
from collision_scenes import Scene
from test_height_maps import GRAY
from test_textured_worlds import BOX, KINETIC, run, sliding
from test_textures import ROOT, energy_of, wrench_of
from test_triaxial import CROSSINGS, led_around
from uv_meshes import crate, globe, write_obj

from haptic_bench.commands import check
from haptic_bench.commands.command_line import DONE
from haptic_sim import World
from haptic_sim.geometry.mesh_files import read_mesh
from haptic_sim.geometry.shapes import MeshParameters, solid
from haptic_sim.geometry.textures import (
    Coordinates,
    Surface,
    TextureAnswer,
    TextureError,
    TexturePlace,
    contradiction,
)
from haptic_sim.geometry.uv_maps import NEAR, UVParameters, nodes_near, pixel_size, sampled
from haptic_sim.parameters import ParameterError
from haptic_sim.records import allocate

A = 1e-4  # amplitude [m]
SIZE = (0.04, 0.05, 0.02)  # of the box that `led_around` goes around


def texture(folder: Path, gray: np.ndarray, mesh: Any, **keys: Any) -> UVParameters:
    """A texture on a mesh of vertices, coordinates and triangles."""
    np.save(folder / "relief.npy", gray)
    one = UVParameters.model_validate({"path": "relief.npy", "amplitude": A, **keys}).loaded(lambda path: folder / path)
    vertices, uv, triangles = mesh
    return one.fitted(Surface(lambda: (vertices, vertices), lambda: Coordinates(vertices[triangles], uv[triangles])))


def law(numbers: np.ndarray, x: np.ndarray) -> tuple[float, np.ndarray]:
    place, answer = allocate(TexturePlace), allocate(TextureAnswer)
    place.position[:] = x
    sampled(place, numbers, answer)
    return float(answer.height[0]), answer.gradient.copy()


def waves(count: int, columns: int = 256) -> np.ndarray:
    """An image of waves from the left to the right, with the closed form 1/2 + 1/2 cos(2 pi count u)."""
    u = (np.arange(columns) + 0.5) / columns
    return np.tile(0.5 + 0.5 * np.cos(2.0 * np.pi * count * u), (8, 1))


def test_on_a_globe_it_is_the_image_by_longitude_to_the_second_order_of_the_spacing(tmp_path: Path) -> None:
    """h = A (cos(4 longitude) - 1), across the seam at longitude 0, too."""
    mesh, errors = globe(columns=192, rows=96), []
    rng = np.random.default_rng(1)
    places = np.stack([rng.uniform(0.0, 2.0 * np.pi, 200), rng.uniform(-0.6, 0.6, 200)], -1)
    places[:50, 0] = rng.uniform(-0.05, 0.05, 50)
    for spacing in (0.002, 0.001):
        numbers = texture(tmp_path, waves(4), mesh, spacing=spacing).numbers()
        found = []
        for longitude, latitude in places:
            z = np.cos(latitude) * np.array([np.cos(longitude), np.sin(longitude), np.tan(latitude)])
            h, g = law(numbers, 0.03 * z)
            east = np.array([-np.sin(longitude), np.cos(longitude), 0.0])
            slope = -4.0 * A * np.sin(4.0 * longitude) / (0.03 * np.cos(latitude))
            found.append([h - A * (np.cos(4.0 * longitude) - 1.0), 0.01 * (east @ g - slope)])
        errors.append(np.abs(found).max(axis=0))
    assert errors[0][0] < 0.05 * A and errors[0][1] < 0.05 * A
    assert errors[1][0] < 0.35 * errors[0][0]
    assert errors[1][1] < 0.5 * errors[0][1]  # facets of 1 mm have constant slopes


@pytest.mark.parametrize("per_wave", [4.0, 8.0])
def test_of_a_wave_along_an_axis_the_spline_leaves_what_the_docs_say(tmp_path: Path, per_wave: float) -> None:
    """At a node (c(-d) + 6 c(0) + c(d)) / 8 of samples c of a cosine: (3 + cos(2 pi d / L)) / 4 of the amplitude."""
    plate = crate((0.08, 0.08, 0.02))
    wavelength = 0.01
    plate[1][:, 0], plate[1][:, 1] = plate[0][:, 0] / wavelength, plate[0][:, 1]
    one = texture(tmp_path, waves(1, 2048), plate, spacing=wavelength / per_wave)
    numbers, k = one.numbers(), 2.0 * np.pi / wavelength
    xs = np.linspace(-0.01, 0.01, 801)
    found = np.array([law(numbers, np.array([x, 0.0, 0.01]))[0] for x in xs])
    left = 2.0 * np.mean((found - found.mean()) * np.cos(k * xs)) / A
    assert left == pytest.approx(np.sinc(1.0 / per_wave) ** 3, rel=3e-3)  # of the frequency itself, without its images
    nodes = numbers[4] + numbers[0] * np.arange(numbers[1])
    near = nodes[np.abs(nodes) < 0.01]
    at_nodes = np.array([law(numbers, np.array([x, 0.0, 0.01]))[0] + A for x in near])
    expected = A * (3.0 + np.cos(2.0 * np.pi / per_wave)) / 4.0 * np.cos(k * near)
    np.testing.assert_allclose(at_nodes, expected, atol=5e-3 * A)


@pytest.mark.parametrize("mesh", [globe(columns=24, rows=12), crate(SIZE)], ids=["globe", "crate"])
def test_gradient_depth_and_bounds_are_those_of_the_height(tmp_path: Path, mesh: Any) -> None:
    one = texture(tmp_path, GRAY, mesh, spacing=0.002)
    assert contradiction(one) == ""
    rng, numbers, near = np.random.default_rng(7), one.numbers(), 1e-6
    for x in rng.uniform(-0.04, 0.04, (60, 3)):
        d = rng.normal(size=3)
        d /= np.linalg.norm(d)
        bent = law(numbers, x + near * d)[1] - law(numbers, x - near * d)[1]
        assert np.linalg.norm(law(numbers, x)[1]) <= one.largest_slope
        assert np.linalg.norm(bent) <= 2.0 * near * one.largest_curvature * (1.0 + 1e-6)
    twice = texture(tmp_path, GRAY, mesh, spacing=0.002, amplitude=2.0 * A)
    assert twice.largest_slope == pytest.approx(2.0 * one.largest_slope)
    assert law(numbers, np.array([np.nan, 0.0, 0.0]))[0] == 0.0


def box_scene(folder: Path) -> Scene:
    """A box as a mesh that collides as its hull, with a jump of the height at each edge, and a ball."""
    path = write_obj(folder / "crate.obj", *crate(SIZE))
    shape = MeshParameters.model_validate({"path": str(path), "as": "hull"})
    one = texture(folder, GRAY, crate(SIZE), spacing=0.0015)
    (geometry,) = solid(shape, folder).geometry
    return Scene(geometry, coal.Sphere(0.01), margin=0.01, textures={"shape 0": one})


def test_a_closed_path_over_seams_and_edges_does_no_work(tmp_path: Path) -> None:
    """In each step the work is what the spring loses, but for the error of the trapezoidal rule."""
    scene, rest = box_scene(tmp_path), []
    for count in (1000, 4000):
        work, stored = led_around(scene, "box", count)
        moved = float(np.abs(work).sum())
        assert moved > 1e-4
        rest.append(float(np.sort(np.abs(work + stored))[: count - CROSSINGS].sum()) / moved)
    assert rest[1] < 1e-3 and rest[1] < 0.12 * rest[0]
    assert abs(float(work.sum())) < 2e-3 * moved


def test_the_force_is_minus_the_gradient_of_the_energy_at_random_places(tmp_path: Path) -> None:
    scene, rng, near = box_scene(tmp_path), np.random.default_rng(3), 1e-7
    half, faces = 0.5 * np.array(SIZE), 0
    for _ in range(60):
        out = rng.normal(size=3)
        out *= 0.035 / np.linalg.norm(out)
        foot = np.clip(out, -half, half)  # on a face, an edge or a corner
        x = foot + (0.01 - 3e-4) * (out - foot) / np.linalg.norm(out - foot)

        def energy(at: np.ndarray) -> float:
            scene.contacts(pin.SE3.Identity(), pin.SE3(np.eye(3), at))
            return energy_of(scene)

        expected = np.array([energy(x - near * d) - energy(x + near * d) for d in np.eye(3)]) / (2.0 * near)
        energy(x)
        found = wrench_of(scene, x)[:3]
        np.testing.assert_allclose(found, expected, atol=1e-4 * float(np.linalg.norm(expected)))
        faces += np.count_nonzero(out - foot) == 1
    assert 10 < faces < 50


def test_forces_are_continuous_across_triangles_and_seams(tmp_path: Path) -> None:
    """On a face that two charts share, of which the heights jump by up to the whole depth: no step stays large."""
    vertices, uv, triangles = crate((0.08, 0.06, 0.02))
    corners = np.arange(3 * len(triangles)).reshape(-1, 3)
    uv = uv[triangles].reshape(-1, 2)
    uv[3 * (len(triangles) - 2) : 3 * (len(triangles) - 1)] += [0.31, 0.47]  # one triangle of the top: a seam across it
    mesh = vertices[triangles].reshape(-1, 3), uv, corners
    one = texture(tmp_path, GRAY, mesh, spacing=0.002)
    scene = Scene(coal.Box(0.08, 0.06, 0.02), coal.Sphere(0.01), margin=0.01, textures={"shape 0": one})
    steps, ranges = [], []
    for count in (400, 800, 1600):
        forces = []
        for t in np.linspace(-1.0, 1.0, count):
            scene.contacts(pin.SE3.Identity(), pin.SE3(np.eye(3), np.array([0.03 * t, -0.02 * t, 0.0195])))
            forces.append(wrench_of(scene, np.zeros(3))[:3])
        steps.append(np.linalg.norm(np.diff(forces, axis=0), axis=1).max())
        ranges.append(np.ptp(np.array(forces)[:, 0]))
    assert steps[1] < 0.55 * steps[0] and steps[2] < 0.55 * steps[1]
    assert ranges[2] > 10.0 * steps[2] > 0.0


def test_nodes_near_a_mesh_are_those_that_are_near_one_by_one() -> None:
    """Of an open prism of long thin triangles, against the distances from its cylinder."""
    angle = np.linspace(0.0, 2.0 * np.pi, 40, endpoint=False)
    ring = 0.01 * np.stack([np.cos(angle), np.sin(angle), np.zeros(40)], -1)
    ends = ring - [0, 0, 0.05], ring + [0, 0, 0.05]
    (a, b), (c, d) = ends, (np.roll(one, 1, axis=0) for one in ends)
    corners, d_ = np.concatenate([np.stack([a, b, c], 1), np.stack([c, b, d], 1)]), 0.002
    first, counts = np.array([-0.016, -0.014, -0.06]), np.array([17, 15, 61])
    nodes, triangles, points = nodes_near(first, counts, d_, corners)
    places = first + d_ * np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), -1)
    across = np.hypot(places[..., 0], places[..., 1])
    distance = np.hypot(across - 0.01, np.maximum(np.abs(places[..., 2]) - 0.05, 0.0))
    near = np.zeros(counts, bool)
    near[tuple(nodes.T)] = True
    flat = 0.01 * (1.0 - np.cos(np.pi / 40))  # of a prism beside its cylinder
    assert near[distance < NEAR * d_ - flat].all() and not near[distance > NEAR * d_ + flat].any()
    np.testing.assert_allclose(np.linalg.norm(first + d_ * nodes - points, axis=1), distance[tuple(nodes.T)], atol=flat)
    assert triangles.shape == (len(nodes),)


def test_coordinates_outside_of_the_image_repeat_it_or_its_edge(tmp_path: Path) -> None:
    ramp = np.tile(np.linspace(0.0, 1.0, 64), (4, 1))
    plate = crate((0.04, 0.04, 0.01))
    plate[1][:, 0], plate[1][:, 1] = plate[0][:, 0] / 0.01, 0.5  # from -2 to 2
    plate[1][:, 1] += plate[0][:, 1]
    heights = {}
    for repeats in (True, False):
        numbers = texture(tmp_path, ramp, plate, spacing=5e-4, repeats=repeats).numbers()
        heights[repeats] = [law(numbers, np.array([x, 0.0, 0.005]))[0] for x in (-0.015, -0.005, 0.005, 0.015)]
    np.testing.assert_allclose(heights[True], -A, atol=0.02 * A)
    np.testing.assert_allclose(heights[False], [-2 * A, -2 * A, -A, 0.0], atol=0.02 * A)


def test_degenerate_triangles_do_no_harm_and_a_map_of_no_area_is_refused(tmp_path: Path) -> None:
    vertices, uv, triangles = crate(SIZE)
    plain = texture(tmp_path, GRAY, (vertices, uv, triangles), spacing=0.002)
    more = np.concatenate([triangles, [[0, 0, 1], [2, 2, 2], [0, 1, 0]]])
    beside = texture(tmp_path, GRAY, (vertices, uv, more), spacing=0.002)
    x = np.array([0.004, 0.006, 0.01])
    assert law(beside.numbers(), x)[0] == pytest.approx(law(plain.numbers(), x)[0], abs=0.02 * A)
    folded = uv.copy()
    folded[:4] = 0.3  # a face that has one point of the image
    assert np.isfinite(texture(tmp_path, GRAY, (vertices, folded, triangles), spacing=0.002).numbers()).all()
    with pytest.raises(TextureError, match=r"cover no area of the image, .* use type: triaxial"):
        texture(tmp_path, GRAY, (vertices, 0.0 * uv, triangles))


def test_spacing_is_a_pixel_on_the_mesh_and_one_that_is_too_small_names_what_would_do(tmp_path: Path) -> None:
    vertices, uv, triangles = crate(SIZE)
    assert pixel_size(Coordinates(vertices[triangles], uv[triangles]), (50, 50)) == pytest.approx(0.1 / 50)
    one = texture(tmp_path, np.tile(GRAY, (7, 5)), (vertices, uv, triangles))
    assert one.numbers()[0] == pytest.approx(0.1 / np.sqrt(49 * 45))
    noise = np.random.default_rng(8).uniform(size=(600, 600))
    averaged = texture(tmp_path, noise, (vertices, uv, triangles), spacing=0.002)
    assert np.abs(averaged.nodes + A).max() < 0.15 * A  # of 12 pixels along each axis
    with pytest.raises(TextureError, match=r"\.spacing = 1e-05 m: needs .* set it to (.*) m") as error:
        texture(tmp_path, GRAY, crate(SIZE), spacing=1e-5)
    assert float(str(error.value).split()[-2]) == pytest.approx((0.04 * 0.05 * 0.02 / (1 << 21)) ** (1 / 3), rel=0.3)


@pytest.mark.parametrize("how", ["hull", pytest.param("field", marks=pytest.mark.exhaustive)])
def test_a_ball_that_slides_over_a_mesh_with_coordinates_keeps_its_energy(tmp_path: Path, how: str) -> None:
    """And is pushed by the texture."""
    vertices, _, triangles = crate((0.4, 0.1, 0.02))
    uv = vertices[:, :2] / 0.16
    np.save(tmp_path / "relief.npy", GRAY)
    path = write_obj(tmp_path / "plate.obj", vertices, uv, triangles)
    keys = {"type": "uv", "path": str(tmp_path / "relief.npy"), "amplitude": 5e-4, "spacing": 0.004}
    shape = {"type": "mesh", "path": str(path), "as": how, "position": BOX["position"], "texture": keys, "error": 4e-4}
    errors = []
    for rate in (2000.0, 8000.0):
        _, totals, forces = run(sliding({"joint": "fixed", "shapes": [shape]}), rate)
        errors.append(float(np.abs(totals - totals[0]).max()))
        assert np.abs(forces[:, 0]).max() > 0.02
    assert errors[0] < 0.02 * KINETIC and errors[1] < 0.5 * errors[0]


def test_refusals_name_the_key_and_what_to_do(tmp_path: Path) -> None:
    np.save(tmp_path / "relief.npy", GRAY)
    keys = {"type": "uv", "path": str(tmp_path / "relief.npy"), "amplitude": A}
    path = write_obj(tmp_path / "crate.obj", *crate(SIZE))
    mesh = {"type": "mesh", "path": str(path), "position": BOX["position"]}

    def world(shape: dict[str, Any], **more: Any) -> World:
        return World(sliding({"joint": "fixed", "shapes": [shape | {"texture": keys | more}]}))

    with pytest.raises(ParameterError, match=r"shapes\[0\]\.texture: a shape of the type box has no coordinates .*tri"):
        world(BOX)
    with pytest.raises(ParameterError, match=r"texture\.path = .*x\.png: cannot be read"):
        world(mesh, path="x.png")
    with pytest.raises(ParameterError, match=r"texture\.amplitude = 0\.05 m: must be at most"):
        world(mesh, amplitude=0.05, spacing=0.002)
    stl = tmp_path / "crate.stl"
    read_mesh(path).export(stl)
    with pytest.raises(ParameterError, match=r"texture: .*crate\.stl lacks coordinates .* 12 of its 12 triangles: un"):
        world(mesh | {"path": str(stl)})


@pytest.mark.exhaustive
def test_a_texture_by_coordinates_has_all_properties(tmp_path: Path) -> None:
    """Those of `haptics check`, of a plate of the experiment `grating` as a mesh."""
    np.save(tmp_path / "relief.npy", GRAY)
    document = yaml.safe_load((ROOT / "config" / "experiments" / "grating.yaml").read_text(encoding="utf-8"))
    vertices, _, triangles = crate((0.1, 0.04, 0.01))
    write_obj(tmp_path / "plate.obj", vertices, vertices[:, :2] / 0.02, triangles)
    mesh: dict[str, Any] = {"type": "mesh", "path": "plate.obj", "position": [0, 0, -0.005]}
    mesh["texture"] = {"type": "uv", "path": "relief.npy", "amplitude": 2e-5, "spacing": 1e-3}
    document["scene"]["bodies"]["plate"]["shapes"] = [mesh]
    (tmp_path / "relief.yaml").write_text(yaml.safe_dump(document | {"analysis": "trial"}), encoding="utf-8")
    options = argparse.Namespace(part="uv", within=str(tmp_path / "relief.yaml"), settings=[], offline=True)
    assert check.check(options) == DONE
