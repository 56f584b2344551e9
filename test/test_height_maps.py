"""Textures from images: the law against SciPy's splines and the potential, bounds, and files that are refused."""

from __future__ import annotations

import argparse
import io
import struct
import zlib
from pathlib import Path
from typing import Any

import coal
import numpy as np
import pinocchio as pin
import pytest
import yaml
from collision_scenes import Scene, random_pose
from PIL import Image
from scipy.ndimage import map_coordinates
from test_textures import ROOT, K, energy_of, gradient_of, world, wrench_of

from haptic_bench.commands import check
from haptic_bench.commands.command_line import DONE
from haptic_sim import World
from haptic_sim.geometry.height_maps import MOST_PIXELS, ImageParameters, read_heights, relief
from haptic_sim.geometry.textures import TextureAnswer, TextureError, TexturePlace
from haptic_sim.parameters import ParameterError
from haptic_sim.records import allocate

GRAY = np.random.default_rng(5).uniform(size=(7, 9))
AMPLITUDE, PIXEL = 1e-3, 5e-3


def texture(folder: Path, gray: np.ndarray = GRAY, **keys: Any) -> ImageParameters:
    np.save(folder / "relief.npy", gray)
    given = {"path": "relief.npy", "pixel": PIXEL, "amplitude": AMPLITUDE, **keys}
    return ImageParameters.model_validate(given).loaded(lambda path: folder / path)


def height(image: ImageParameters, x: np.ndarray) -> float:
    """By SciPy, in the axes of the shape."""
    right = np.array(image.right) / np.linalg.norm(image.right)
    up = np.array(image.up) - (np.array(image.up) @ right) * right
    up /= np.linalg.norm(up)
    rows, columns = image.pixels.shape
    at = [[0.5 * (rows - 1) - up @ x / image.pixel], [0.5 * (columns - 1) + right @ x / image.pixel]]
    mode = "grid-wrap" if image.repeats else "nearest"
    return float(map_coordinates(image.pixels, at, order=3, prefilter=False, mode=mode)[0])


def law(image: ImageParameters, x: np.ndarray) -> tuple[float, np.ndarray]:
    place, answer = allocate(TexturePlace), allocate(TextureAnswer)
    place.position[:] = x
    relief(place, image.numbers(), answer)
    return float(answer.height[0]), answer.gradient.copy()


@pytest.mark.parametrize("repeats", [True, False])
def test_the_law_is_the_spline_of_scipy_and_its_gradient(tmp_path: Path, repeats: bool) -> None:
    image = texture(tmp_path, repeats=repeats, right=[1, 2, 0.3], up=[0.1, 1, 1])
    rng = np.random.default_rng(2)
    for x in rng.normal(scale=0.05, size=(50, 3)):
        found, gradient = law(image, x)
        assert found == pytest.approx(height(image, x), abs=1e-14)
        assert -image.depth <= found <= 0.0
        steps = 1e-7 * np.eye(3)
        slopes = [(law(image, x + d)[0] - law(image, x - d)[0]) / 2e-7 for d in steps]
        np.testing.assert_allclose(gradient, slopes, atol=2e-7)
        assert np.linalg.norm(gradient) <= image.largest_slope
        bend = [(law(image, x + d)[1] - law(image, x - d)[1]) / 2e-7 for d in steps]
        assert np.abs(np.linalg.eigvalsh(0.5 * (np.array(bend) + np.array(bend).T))).max() <= image.largest_curvature


def test_a_ramp_is_a_plane_and_beyond_the_edge_its_last_pixel(tmp_path: Path) -> None:
    """A spline of degree 3 reproduces a linear function: 0.1 of the depth by each pixel to the right."""
    image = texture(tmp_path, np.tile(np.linspace(0.0, 1.0, 11), (11, 1)), repeats=False)
    found, gradient = law(image, np.array([0.3 * PIXEL, -0.7 * PIXEL, 0.4]))
    assert found == pytest.approx(image.depth * (0.53 - 1.0), rel=1e-12)
    np.testing.assert_allclose(gradient, [0.1 * image.depth / PIXEL, 0.0, 0.0], atol=1e-15)
    assert image.largest_slope == pytest.approx(0.1 * image.depth / PIXEL)
    for x, expected in ((1e6, 0.0), (-1e6, -image.depth)):
        found, gradient = law(image, np.array([x, 0.0, 0.0]))
        assert found == pytest.approx(expected, abs=1e-18) and not gradient.any()
    assert law(image, np.array([np.nan, 0.0, 0.0]))[0] == 0.0


def test_the_first_row_is_on_top_and_the_first_column_on_the_left(tmp_path: Path) -> None:
    gray = np.zeros((9, 9))
    gray[0, 8] = 1.0  # to the right, on top
    image = texture(tmp_path, gray, repeats=False)
    corner = 4.0 * PIXEL
    heights = {(i, j): law(image, np.array([i * corner, j * corner, 0.0]))[0] for i in (-1, 1) for j in (-1, 1)}
    assert max(heights, key=heights.__getitem__) == (1, 1)
    assert heights[-1, -1] == pytest.approx(-image.depth)


@pytest.mark.parametrize("textured", [(0,), (1,), (0, 1)])
def test_a_row_has_the_wrench_of_its_potential_between_two_balls(tmp_path: Path, textured: tuple[int, ...]) -> None:
    """On curved shapes, too: the height depends on the position alone."""
    rng, radii = np.random.default_rng(20260), (0.04, 0.025)
    textures = [texture(tmp_path), texture(tmp_path, GRAY.T, right=[0.2, 1, 0], up=[0, 1, -1])]
    scene = Scene(*map(coal.Sphere, radii), margin=0.1, textures={f"shape {i}": textures[i] for i in textured})
    for _ in range(5):
        X_A, X_B = random_pose(rng, 0.03), random_pose(rng, 0.03)
        direction = rng.normal(size=3)
        X_B.translation = X_A.translation + 0.0645 * direction / np.linalg.norm(direction)

        def potential(X: pin.SE3, X_A: pin.SE3 = X_A) -> float:
            between = X.translation - X_A.translation
            distance = float(np.linalg.norm(between))
            n = between / distance
            s = distance - sum(radii)
            if 0 in textured:
                s -= height(textures[0], X_A.rotation.T @ (radii[0] * n))
            if 1 in textured:
                s -= height(textures[1], X.rotation.T @ (-radii[1] * n))
            return 0.5 * K * s * s

        scene.contacts(X_A, X_B)
        expected, found = -gradient_of(potential, X_B), wrench_of(scene, X_B.translation)
        assert energy_of(scene) == pytest.approx(potential(X_B), rel=1e-10)
        scale = float(np.linalg.norm(expected[:3]))
        np.testing.assert_allclose(found[:3], expected[:3], atol=1e-6 * scale)


def saved(folder: Path, name: str, image: Image.Image) -> Path:
    image.save(folder / name)
    return folder / name


def test_files_of_8_and_16_bits_have_the_same_heights(tmp_path: Path) -> None:
    gray = np.array([[0, 128, 255], [51, 102, 204]], np.uint8)
    expected = gray / 255.0
    files = [
        saved(tmp_path, "8.png", Image.fromarray(gray)),
        saved(tmp_path, "16.png", Image.fromarray(gray.astype(np.uint16) * 257)),
        saved(tmp_path, "8.pgm", Image.fromarray(gray)),
    ]
    for name, values in (("8.npy", gray), ("16.npy", gray.astype(np.uint16) * 257), ("float.npy", expected)):
        np.save(tmp_path / name, values)
        files.append(tmp_path / name)
    for file in files:
        np.testing.assert_allclose(read_heights(file), expected, atol=1e-15)


def bomb(width: int, height: int) -> bytes:
    """A PNG file of few bytes that says it has many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


def npy(values: np.ndarray, **save: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, values, **save)
    return file.getvalue()


def npy_that_claims(shape: str) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def png(mode: str, **save: Any) -> bytes:
    file = io.BytesIO()
    image = Image.new(mode, (4, 4))
    image.putpixel((1, 1), 1 if mode in ("L", "P") else (1,) * len(mode))
    image.save(file, "PNG", **save)
    return file.getvalue()


HOSTILE = {
    "missing.png": (None, "cannot be read: No such file"),
    "name.tiff": (b"II*\0", r"its name must end in one of \.png, \.pgm"),
    "empty.png": (b"", "cannot be read as a PNG file"),
    "text.png": (b"hello", "cannot be read as a PNG file"),
    "other.pgm": (png("L"), "cannot be read as a PGM file"),
    "cut.png": (png("L")[:-30], "cannot be read as a PNG file"),
    "short.png": (bomb(100, 100), "cannot be read as a PNG file"),
    "colour.png": (png("RGB"), "has colours: a height map has one channel"),
    "alpha.png": (png("LA"), "has an alpha channel"),
    "both.png": (png("RGBA"), "has colours and an alpha channel"),
    "palette.png": (png("P"), "has a palette"),
    "transparent.png": (png("L", transparency=0), "has transparency"),
    "large.png": (bomb(5000, 5000), "has 5000 x 5000 pixels: must have at least one, and at most 4194304 in all"),
    "bomb.png": (bomb(60000, 60000), f"has more than {MOST_PIXELS} pixels"),
    "flat.npy": (npy(np.full((4, 4), 0.5)), "is the same everywhere"),
    "nothing.npy": (npy(np.zeros((0, 4))), "has 4 x 0 pixels: must have at least one"),
    "nan.npy": (npy(np.array([[0.0, np.nan]])), "holds values that are not finite"),
    "metres.npy": (npy(np.array([[0.0, 3.5]])), "holds values from 0 to 3.5: floats must be from 0 to 1"),
    "line.npy": (npy(np.linspace(0, 1, 5)), r"holds float64 of shape \(5,\): must be two axes"),
    "signed.npy": (npy(np.array([[0, -1]])), "holds int64 of shape"),
    "objects.npy": (npy(np.array([[None, 1]]), allow_pickle=True), "holds object of shape"),
    "claim.npy": (npy_that_claims("(1000000, 1000000)"), "has 1000000 x 1000000 pixels"),
    "negative.npy": (npy_that_claims("(-3, 4)"), "has 4 x -3 pixels"),
    "torn.npy": (npy(GRAY)[:-50], "cannot be read as a NumPy file"),
    "text.npy": (b"hello", "cannot be read as a NumPy file"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_files_that_are_no_height_map_are_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    content, text = HOSTILE[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(TextureError, match=text) as caught:
        read_heights(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_folders_and_pipes_are_refused(tmp_path: Path) -> None:
    import os

    (tmp_path / "folder.png").mkdir()
    os.mkfifo(tmp_path / "pipe.png")
    for name, text in (("folder.png", "is a directory"), ("pipe.png", "is a pipe")):
        with pytest.raises(TextureError, match=text):
            read_heights(tmp_path / name)


def test_a_world_reads_its_image_and_names_the_key_of_one_that_it_cannot(tmp_path: Path) -> None:
    np.save(tmp_path / "relief.npy", GRAY)
    keys = {"type": "image", "path": str(tmp_path / "relief.npy"), "pixel": 5e-3, "amplitude": 2e-4}
    contact = {"stiffness": 500.0, "friction": {"model": "none"}}
    one = World(world(keys), contact=contact)
    for _ in range(200):
        one.step()
    assert one.energy["elastic"] > 0.0 and np.isfinite(list(one.energy.values())).all()

    keys["path"] = str(tmp_path / "relif.npy")
    with pytest.raises(
        ParameterError, match=r"bodies\.floor\.shapes\[0\]\.texture\.path = .*relif\.npy: cannot be read"
    ):
        World(world(keys), contact=contact)
    keys |= {"path": "x.png", "up": [2, 0, 0]}
    with pytest.raises(ParameterError, match=r"texture\.up: must not be parallel"):
        World(world(keys), contact=contact)


@pytest.mark.parametrize("kind", ["image", pytest.param("triaxial", marks=pytest.mark.exhaustive)])
def test_an_image_beside_its_experiment_has_all_properties(tmp_path: Path, kind: str) -> None:
    saved(tmp_path, "leather.png", Image.fromarray((255.0 * GRAY).astype(np.uint8)))
    document = yaml.safe_load((ROOT / "config" / "experiments" / "grating.yaml").read_text(encoding="utf-8"))
    (shape,) = document["scene"]["bodies"]["plate"]["shapes"]
    shape["texture"] = {"type": kind, "path": "leather.png", "pixel": 5e-4, "amplitude": 5e-5}
    (tmp_path / "leather.yaml").write_text(yaml.safe_dump(document | {"analysis": "trial"}), encoding="utf-8")
    options = argparse.Namespace(part=kind, within=str(tmp_path / "leather.yaml"), settings=[], offline=True)
    assert check.check(options) == DONE


def test_an_image_that_is_too_steep_names_the_largest_amplitude_that_would_do(tmp_path: Path) -> None:
    """k (1 + g^2 + d c) = 4 m / T^2 with the bounds of the spline, which are in proportion to A, solved for A."""
    np.save(tmp_path / "relief.npy", GRAY)
    keys = {"type": "image", "path": str(tmp_path / "relief.npy"), "pixel": 1e-4, "amplitude": 5e-3}
    contact = {"stiffness": 2000.0, "friction": {"model": "none"}}
    image = texture(tmp_path, pixel=1e-4, amplitude=5e-3)
    part = (4.0 * 0.1 / (1e-6 * 2000.0) - 1.0) / (image.largest_slope**2 + image.depth * image.largest_curvature)
    with pytest.raises(ParameterError, match=r"texture\.amplitude = 0\.005 m: must be at most") as caught:
        World(world(keys), rate=1000.0, contact=contact, environment={"method": "penalty"})
    named = float(str(caught.value).partition("at most ")[2].split()[0])
    assert named == pytest.approx(0.99 * 5e-3 * np.sqrt(part), rel=1e-2)
    World(world({**keys, "amplitude": named}), rate=1000.0, contact=contact, environment={"method": "penalty"})
