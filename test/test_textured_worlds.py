"""Textures in worlds of all kinds: on meshes, in the plane, on links of mechanisms, with a local model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from claim_checks import Run
from world_builder import ball

from haptic_sim import World
from haptic_sim.parameters import ParameterError

GRATING = {"type": "grating", "wavelength": 0.02, "amplitude": 5e-4}
BOX = {"type": "box", "size": [0.4, 0.1, 0.02], "position": [0, 0, -0.01]}
MASS, RADIUS, SPEED = 0.1, 0.02, 0.3  # [kg], [m], [m/s] of the ball
KINETIC = 0.5 * MASS * SPEED**2  # [J]


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The box as a file of triangles, its top at z = 0."""
    import trimesh

    path = tmp_path_factory.mktemp("meshes") / "plate.stl"
    trimesh.creation.box([0.4, 0.1, 0.02]).apply_translation([0, 0, -0.01]).export(path)
    return str(path)


def sliding(plate: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A ball that slides over a plate, and presses on it with its weight."""
    return {
        "bodies": {
            "plate": plate,
            "ball": ball([0.003, 0, RADIUS - 6e-4], [SPEED, 0, 0], radius=RADIUS, mass=MASS),
        },
        "tool": "ball",
        **more,
    }


def run(scene: dict[str, Any], rate: float, duration: float = 0.2) -> tuple[World, np.ndarray, np.ndarray]:
    """The world after a time, the sum of its energies over it, and the force of the plate on the ball."""
    one = World(
        scene,
        rate=rate,
        contact={"stiffness": 500.0, "damping": 0.0, "penalty": "explicit", "friction": {"model": "none"}},
        environment={"method": "penalty"},
    )
    totals, forces = [], []
    for _ in range(int(duration * rate)):
        one.step()
        energy = one.energy
        totals.append(energy["kinetic"] + energy["potential"] + energy["elastic"])
        forces.append(one.wrench[:3].copy())
    return one, np.array(totals), np.array(forces)


def check_conserves(scene: dict[str, Any]) -> np.ndarray:
    """The energy stays, to the first order of the step, and the texture is felt; returns the forces."""
    errors = []
    for rate in (2000.0, 8000.0):
        _, totals, forces = run(scene, rate)
        errors.append(float(np.abs(totals - totals[0]).max()))
    assert errors[0] < 0.02 * KINETIC
    assert errors[1] < 0.4 * errors[0]
    assert np.abs(forces[:, 0]).max() > 0.05
    return forces


@pytest.mark.parametrize("how", ["hull", "pieces"])
def test_a_mesh_has_the_texture_of_a_box(mesh: str, how: str) -> None:
    """Of its flat face, whatever it collides as."""
    shape = {"type": "mesh", "path": mesh, "as": how, "texture": GRATING}
    found = check_conserves(sliding({"joint": "fixed", "shapes": [shape]}))
    _, _, expected = run(sliding({"joint": "fixed", "shapes": [BOX | {"texture": GRATING}]}), 8000.0)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("textured", ["plate", "ball"])
def test_a_texture_on_a_signed_distance_field_gives_no_energy(mesh: str, textured: str) -> None:
    """Of the field itself, and of a ball, which spins, on a smooth field."""
    shape = {"type": "mesh", "path": mesh, "as": "field", "error": 4e-4}
    scene = sliding({"joint": "fixed", "shapes": [shape | ({"texture": GRATING} if textured == "plate" else {})]})
    if textured == "ball":
        scene["bodies"]["ball"]["shapes"][0]["texture"] = GRATING | {"direction": [1, 0.3, 0.5], "amplitude": 2e-4}
        scene["bodies"]["ball"]["velocity"][4] = 10.0
    errors = []
    for rate in (2000.0, 8000.0):
        _, totals, forces = run(scene, rate)
        errors.append(float(np.abs(totals - totals[0]).max()))
        assert np.abs(forces[:, 0]).max() > 0.04  # 0.023 without a texture
    # and what the spring of a row leaves out, whatever the step (docs/shapes.md, Limits)
    assert errors[0] < 0.02 * KINETIC and errors[1] < 0.5 * errors[0] + 5e-4 * KINETIC


def test_a_texture_that_is_too_steep_for_a_signed_distance_field_is_refused(mesh: str) -> None:
    shape = {"type": "mesh", "path": mesh, "as": "field"}
    steep = GRATING | {"wavelength": 2e-3}
    said = r"bodies\.plate: texture\.amplitude = 0\.0005 m: must be at most 0\.000286 m, as it collides as a signed"
    with pytest.raises(ParameterError, match=said):
        World(sliding({"joint": "fixed", "shapes": [shape | {"texture": steep}]}))
    scene = sliding({"joint": "fixed", "shapes": [shape]})
    scene["bodies"]["ball"]["shapes"][0]["texture"] = steep
    with pytest.raises(ParameterError, match=r"bodies\.ball: texture\.amplitude = .* as it meets plate, which"):
        World(scene)


def test_a_ball_slides_over_a_texture_in_the_plane() -> None:
    shape = {"type": "box", "size": [0.4, 0.02, 0.1], "position": [0, -0.01, 0], "texture": GRATING}
    disk = {
        "joint": "planar",
        "position": [0.003, RADIUS - 6e-4],
        "velocity": [SPEED, 0, 0],
        "mass": MASS,
        "inertia": 1e-5,
        "shapes": [{"type": "sphere", "radius": RADIUS}],
    }
    scene = {
        "planar": True,
        "gravity": [0, -9.81, 0],
        "bodies": {"plate": {"joint": "fixed", "shapes": [shape]}, "ball": disk},
        "tool": "ball",
    }
    planar = check_conserves(scene)
    _, _, spatial = run(sliding({"joint": "fixed", "shapes": [BOX | {"texture": GRATING}]}), 8000.0)
    np.testing.assert_allclose(planar[:, :2], spatial[:, [0, 2]], atol=1e-9)


def test_a_texture_of_a_link_pushes_it_as_much_as_the_ball() -> None:
    """On a rail without friction: the momentum along it stays, and the energy."""
    plate = {
        "joint": "prismatic",
        "axis": [1, 0, 0],
        "mass": 0.3,
        "inertia": [1e-3] * 3,
        "shapes": [BOX | {"texture": GRATING}],
    }
    check_conserves(sliding(plate))
    one, _, _ = run(sliding(plate), 8000.0)
    momentum = MASS * one.twist[0] + 0.3 * one.velocities["plate"]
    assert abs(one.velocities["plate"]) > 1e-3
    assert momentum == pytest.approx(MASS * SPEED, rel=1e-9)


def test_a_texture_of_the_ball_turns_it_and_the_energy_stays() -> None:
    scene = sliding({"joint": "fixed", "shapes": [BOX]})
    scene["bodies"]["ball"]["shapes"][0]["texture"] = GRATING | {"direction": [1, 0.3, 0.5], "amplitude": 2e-4}
    scene["bodies"]["ball"]["velocity"][4] = 10.0
    errors = []
    for rate in (2000.0, 8000.0):
        _, totals, _ = run(scene, rate)
        errors.append(float(np.abs(totals - totals[0]).max()))
    assert errors[0] < 0.02 * KINETIC and errors[1] < 0.4 * errors[0]


def test_with_a_local_model_a_long_texture_is_felt_as_without() -> None:
    """Between two surveys the local model keeps the plane of each, from which a texture of 40 mm is not far."""
    texture = "scene.bodies.plate.shapes[0].texture={type: grating, wavelength: 0.04, amplitude: 0.0005}"
    settings = ("analysis=trial", "environment.integrator=2", texture)
    without = Run("grating", *settings).samples
    found = Run("grating", *settings, "environment.rate=200", "local_model={type: full}").samples
    stroke = without["time"] > 0.3
    felt = np.ptp(without["rendered_fz"][stroke])
    assert felt > 0.05
    np.testing.assert_allclose(found["rendered_fz"][stroke], without["rendered_fz"][stroke], atol=0.1 * felt)


def test_engines_without_textures_refuse_them_by_name() -> None:
    with pytest.raises(ValueError, match=r"plate\.shapes\[0\]\.texture: environment\.engine = external has no"):
        Run("grating", "analysis=trial", "environment.engine=external")


def test_a_region_of_a_field_has_no_texture() -> None:
    region = {"type": "sphere", "radius": 0.01, "position": [0, 0, 1], "texture": GRATING}
    fields = {"edge": {"type": "forbidden", "shape": region}}
    with pytest.raises(ParameterError, match=r"shape\.texture = grating: a region has no texture"):
        World(sliding({"joint": "fixed", "shapes": [BOX]}, fields=fields))
