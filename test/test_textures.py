"""Textures of shapes: rows against gradients of the potential and closed forms, energy, refusals."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import coal
import numpy as np
import pinocchio as pin
import pytest
from collision_scenes import Scene, at, random_pose
from world_builder import ball, plane

from haptic_sim import World
from haptic_sim.geometry.textures import GratingParameters, TextureAnswer, TexturePlace, ridges
from haptic_sim.kernels import kernel
from haptic_sim.parameters import ParameterError
from haptic_sim.records import allocate

K = 700.0  # [N/m]
ROOT = Path(__file__).resolve().parents[1]


def grating(**keys: Any) -> GratingParameters:
    return GratingParameters.model_validate({"wavelength": 0.02, "amplitude": 1e-3, "direction": [1, 2, 0.5]} | keys)


def height(texture: GratingParameters, x: np.ndarray) -> float:
    """Closed form of the height."""
    d = np.array(texture.direction) / np.linalg.norm(texture.direction)
    return texture.amplitude * (np.sin(2.0 * np.pi * (d @ x) / texture.wavelength + texture.phase) - 1.0)


def gradient_of(potential: Any, pose: pin.SE3, step: float = 1e-7) -> np.ndarray:
    """Derivative of a potential by a displacement of a pose, and by a rotation about its origin, world axes, (6,)."""
    found = np.zeros(6)
    for i in range(6):
        values = []
        for side in (step, -step):
            move = np.zeros(6)
            move[i] = side
            moved = pin.SE3(pin.exp3(move[3:]) @ pose.rotation, pose.translation + move[:3])
            values.append(potential(moved))
        found[i] = (values[0] - values[1]) / (2.0 * step)
    return found


def wrench_of(scene: Scene, about: np.ndarray) -> np.ndarray:
    """Wrench on the second shape about a point of a spring in the only row, world axes, (6,)."""
    rows = scene.rows
    assert rows.count == 1
    force = -K * rows.arrays.weight[0] * rows.separation[0] * rows.normal[0]
    return np.concatenate([force, np.cross(rows.point[0] - about, force)])


def energy_of(scene: Scene) -> float:
    return 0.5 * K * float(scene.rows.arrays.weight[0]) * float(scene.rows.separation[0]) ** 2


def test_gradient_of_the_law_is_that_of_its_height() -> None:
    rng = np.random.default_rng(1)
    texture = grating(phase=0.3)
    place, answer = allocate(TexturePlace), allocate(TextureAnswer)
    for x in rng.normal(scale=0.05, size=(20, 3)):
        place.position[:] = x
        ridges(place, texture.numbers(), answer)
        assert answer.height[0] == pytest.approx(height(texture, x), abs=1e-15)
        assert -texture.depth <= answer.height[0] <= 0.0
        for i in range(3):
            d = np.zeros(3)
            d[i] = 1e-7
            slope = (height(texture, x + d) - height(texture, x - d)) / 2e-7
            assert answer.gradient[i] == pytest.approx(slope, abs=1e-7)
        assert np.linalg.norm(answer.gradient) <= texture.largest_slope * (1.0 + 1e-12)


@pytest.mark.parametrize("textured", [(0,), (1,), (0, 1)])
def test_a_row_has_the_wrench_of_its_potential_between_two_balls(textured: tuple[int, ...]) -> None:
    """s' = |c_B - c_A| - r_A - r_B - h_A - h_B with heights where the line of centres leaves the balls."""
    rng = np.random.default_rng(20260)
    radii = (0.04, 0.025)
    textures = [grating(), grating(wavelength=0.03, direction=[0.2, -1.0, 1.0])]
    scene = Scene(*map(coal.Sphere, radii), margin=0.1, textures={f"shape {i}": textures[i] for i in textured})
    for _ in range(10):
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
        expected = -gradient_of(potential, X_B)
        found = wrench_of(scene, X_B.translation)
        assert energy_of(scene) == pytest.approx(potential(X_B), rel=1e-12)
        scale = float(np.linalg.norm(expected[:3]))
        np.testing.assert_allclose(found[:3], expected[:3], atol=1e-6 * scale)
        moment = expected[3:]
        if len(textured) == 2:  # what is along the force is left out
            along = found[:3] / np.linalg.norm(found[:3])
            moment = moment - (moment @ along) * along
        np.testing.assert_allclose(found[3:], moment, atol=1e-6 * 0.02 * scale)


@pytest.mark.parametrize("textured", [0, 1])
def test_a_row_has_the_wrench_of_its_potential_between_plane_and_ball(textured: int) -> None:
    rng = np.random.default_rng(7)
    n, radius, texture = np.array([0.6, 0.0, 0.8]), 0.02, grating()
    scene = Scene(coal.Halfspace(n, 0.01), coal.Sphere(radius), margin=0.1, textures={f"shape {textured}": texture})
    for _ in range(10):
        X_B = random_pose(rng, 0.02)
        X_B.translation += (0.01 + radius - 0.003 - n @ X_B.translation) * n

        def potential(X: pin.SE3) -> float:
            s = float(n @ X.translation) - 0.01 - radius
            foot = X.translation - (s + radius) * n
            s -= height(texture, foot) if textured == 0 else height(texture, X.rotation.T @ (-radius * n))
            return 0.5 * K * s * s

        scene.contacts(X_B)
        expected, found = -gradient_of(potential, X_B), wrench_of(scene, X_B.translation)
        scale = float(np.linalg.norm(expected[:3]))
        np.testing.assert_allclose(found[:3], expected[:3], atol=1e-6 * scale)
        np.testing.assert_allclose(found[3:], expected[3:], atol=1e-6 * radius * scale)


def test_a_slope_of_a_long_grating_is_an_inclined_plane() -> None:
    """Where its second derivative is zero: the separation and the normal of the plane, and |f|^2 of its stiffness."""
    texture = grating(wavelength=1.0, amplitude=0.08, direction=[1, 0, 0])
    slope, radius = texture.largest_slope, 0.01
    scene = Scene(coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0), coal.Sphere(radius), margin=0.1,
                  textures={"shape 0": texture})  # fmt: skip
    n = np.array([-slope, 0.0, 1.0]) / np.hypot(slope, 1.0)
    for z in (-0.072, -0.0701):
        contacts = scene.contacts(at(0.0, 0.0, z))
        np.testing.assert_allclose(contacts.normal[0], n, atol=1e-12)
        # the ball's lowest point has the vertical distance z - r - h from the plane z = h + slope x
        assert contacts.separation[0] == pytest.approx((z - radius + 0.08) / np.hypot(slope, 1.0), abs=1e-12)
        np.testing.assert_allclose(contacts.point[0], np.array([0, 0, z]) - radius * n, atol=1e-12)
        assert scene.rows.arrays.weight[0] == pytest.approx(1.0 + slope * slope)


def test_box_on_a_textured_plane_has_the_heights_at_its_corners() -> None:
    texture = grating()
    scene = Scene(coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0), coal.Box(0.1, 0.06, 0.04), margin=0.05,
                  textures={"shape 0": texture})  # fmt: skip
    contacts = scene.contacts(at(0.003, 0.002, 0.018, (0.0, 0.0, 0.4)))
    assert len(contacts) >= 4
    weights = scene.rows.arrays.weight[: len(contacts)]
    for point, s, n, weight in zip(contacts.point, contacts.separation, contacts.normal, weights, strict=True):
        if point[2] < 0.01:
            vertical = point[2] - height(texture, np.array([point[0], point[1], 0.0]))
            assert s * np.sqrt(weight) == pytest.approx(vertical, abs=1e-12)
            assert n[2] == pytest.approx(1.0 / np.sqrt(weight), abs=1e-12)


def test_shapes_without_texture_have_the_same_rows_beside_one_with_it() -> None:
    shapes = (coal.Box(0.1, 0.08, 0.06), coal.Sphere(0.03), coal.Cylinder(0.02, 0.1))
    pairs = [(0, 1), (0, 2)]
    smooth = Scene(*shapes, pairs=pairs, margin=0.05)
    beside = Scene(*shapes, coal.Sphere(0.01), pairs=pairs, margin=0.05, textures={"shape 3": grating()})
    rng = np.random.default_rng(3)
    for _ in range(20):
        poses = [random_pose(rng, 0.03) for _ in range(3)]
        one, other = smooth.contacts(*poses), beside.contacts(*poses, at(9.0))
        assert one.id == other.id
        for name in ("point", "normal", "separation"):
            assert getattr(one, name).tobytes() == getattr(other, name).tobytes()


@kernel
def _broken(place, keys, answer):
    answer.height[0] = np.nan


class Broken(GratingParameters):
    LAW = _broken


def test_a_law_that_is_not_finite_is_no_texture() -> None:
    shapes = (coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0), coal.Sphere(0.01))
    smooth = Scene(*shapes).contacts(at(z=0.009))
    broken = Scene(*shapes, textures={"shape 0": Broken(wavelength=0.01, amplitude=1e-3)}).contacts(at(z=0.009))
    assert broken.separation.tobytes() == smooth.separation.tobytes()
    assert broken.normal.tobytes() == smooth.normal.tobytes()


LAW_OF_THE_DOCS = """
import math
from typing import ClassVar, Literal

from haptic_sim.geometry.textures import TextureParameters
from haptic_sim.kernels import kernel
from haptic_sim.parameters import quantity

"""


def test_the_law_of_the_documentation_has_the_wrench_of_its_potential(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "textures.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    path = tmp_path / "dimples.py"
    path.write_text(LAW_OF_THE_DOCS + code)
    dimples = runpy.run_path(str(path))["DimplesParameters"](wavelength=0.02, amplitude=1e-3)
    radius, rng, wave = 0.02, np.random.default_rng(3), 2.0 * np.pi / 0.02
    plane_and_ball = (coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0), coal.Sphere(radius))
    scene = Scene(*plane_and_ball, margin=0.1, textures={"shape 0": dimples})

    def potential(X: pin.SE3) -> float:
        x, y, z = X.translation
        s = z - radius - 0.5e-3 * (np.sin(wave * x) + np.sin(wave * y) - 2.0)
        return 0.5 * K * float(s) ** 2

    for _ in range(5):
        X_B = at(*rng.uniform(-0.02, 0.02, 2), radius - 0.004)
        scene.contacts(X_B)
        expected, found = -gradient_of(potential, X_B), wrench_of(scene, X_B.translation)
        np.testing.assert_allclose(found[:3], expected[:3], atol=1e-6 * float(np.linalg.norm(expected[:3])))


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"type": "grating", "wavelength": 0.0, "amplitude": 1e-4}, r"texture\.wavelength"),
        ({"type": "grating", "wavelength": 1e-2, "amplitude": float("nan")}, r"texture\.amplitude"),
        ({"type": "grating", "wavelength": 1e-2, "amplitude": 1e-3, "direction": [0, 0, 0]}, "must not be zero"),
        ({"type": "gratng", "wavelength": 1e-2}, "gratng"),
    ],
)
def test_bad_textures_are_refused(keys: dict[str, Any], text: str) -> None:
    scene = world(keys)
    with pytest.raises(ParameterError, match=text):
        World(scene)


def world(texture: dict[str, Any], **more: Any) -> dict[str, Any]:
    floor = plane()
    floor["shapes"][0]["texture"] = texture
    return {"bodies": {"floor": floor, "ball": ball([0, 0, 0.02], radius=0.02, mass=0.1)}, "tool": "ball"} | more


@pytest.mark.parametrize("law", ["explicit", "consistent"])
def test_a_ball_that_slides_without_friction_over_a_grating_keeps_its_energy(law: str) -> None:
    """The work of the forces closes: what is kinetic, potential and elastic stays, to the order of the step."""
    texture = {"type": "grating", "wavelength": 0.02, "amplitude": 5e-4}
    scene = world(texture)
    scene["bodies"]["ball"]["velocity"] = [0.3, 0.05, 0.0, 0.0, 0.0, 0.0]
    scene["bodies"]["ball"]["position"] = [0.0, 0.0, 0.0194]
    changes = []
    for rate in (2000.0, 8000.0):
        one = World(
            scene,
            rate=rate,
            contact={"stiffness": 500.0, "damping": 0.0, "penalty": law, "friction": {"model": "none"}},
            environment={"method": "penalty"},
        )
        start = None
        largest = 0.0
        for _ in range(int(0.2 * rate)):
            one.step()
            energy = one.energy
            total = energy["kinetic"] + energy["potential"] + energy["elastic"]
            start = total if start is None else start
            largest = max(largest, total - start)
        changes.append(largest)
    kinetic = 0.5 * 0.1 * 0.3**2
    assert changes[0] < 0.02 * kinetic
    assert changes[1] < 0.35 * changes[0] + 1e-9


def test_a_texture_that_is_too_steep_names_the_largest_amplitude_that_would_do() -> None:
    """k (1 + g^2 + d c) = 4 m / T^2 with g = 2 pi A / L, c = (2 pi / L)^2 A and d = 2 A, solved for A."""
    k, m, rate, wavelength = 2000.0, 0.1, 1000.0, 2e-3
    bound = wavelength / (2.0 * np.pi) * np.sqrt((4.0 * m * rate**2 / k - 1.0) / 3.0)
    keys = {"type": "grating", "wavelength": wavelength}
    contact = {"stiffness": k, "friction": {"model": "none"}}

    def make(amplitude: float, **more: Any) -> World:
        return World(world({**keys, "amplitude": amplitude}), rate=rate, contact=contact, **more)

    with pytest.raises(ParameterError, match=r"bodies\.floor: texture\.amplitude = 0\.01 m: must be at most") as caught:
        make(0.01, environment={"method": "penalty"})
    named = float(str(caught.value).partition("at most ")[2].split()[0])
    assert named == pytest.approx(0.99 * bound, rel=1e-2)
    make(named, environment={"method": "penalty"})
    make(0.01, environment={"method": "constraint"})  # without stiffness
