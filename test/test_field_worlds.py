"""Worlds of meshes with fields: they rest, gain no energy, stop at thin parts, and go on from a state bit by bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
import trimesh
from field_scenes import cup, torus

from haptic_sim.contact.response import ContactParameters
from haptic_sim.contact.sleeping import Sleep
from haptic_sim.parameters import ParameterError
from haptic_sim.tool.environment import Environment
from haptic_sim.worlds.building import build
from haptic_sim.worlds.parameters import WorldParameters

METHODS = ("penalty", "impulse_augmented", "frictional_impulses", "constraint", "hybrid")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Meshes: a torus, a cup, a plate of 1 mm, and a star, which is concave everywhere."""
    folder = tmp_path_factory.mktemp("meshes")
    trimesh.Trimesh(*torus(0.03, 0.012, (48, 24))).export(folder / "torus.stl")
    trimesh.Trimesh(*cup(0.04, 0.046, 64, 24)).export(folder / "cup.stl")
    trimesh.creation.box((0.1, 0.1, 0.001)).export(folder / "plate.stl")
    star = trimesh.creation.icosphere(subdivisions=3, radius=0.02)
    x = star.vertices / 0.02
    star.vertices *= (1.0 + 0.35 * np.sin(4.0 * x[:, 0]) * np.sin(4.0 * x[:, 1] + 1.0) * np.cos(3.0 * x[:, 2]))[:, None]
    star.export(folder / "star.stl")
    return folder


def mesh(name: str, accuracy: float = 4e-4) -> dict[str, Any]:
    return {"type": "mesh", "path": f"{name}.stl", "as": "field", "error": accuracy}


def world(folder: Path, bodies: dict[str, Any], tool: str, **keys: Any):
    return build(WorldParameters(type="world", bodies=bodies, tool=tool, **keys), folder)


def contact(**keys: Any) -> ContactParameters:
    return ContactParameters(**{"stiffness": 4000.0, "damping": 4.0, "restitution": 0.0, **keys})


def fixed(*shapes: dict[str, Any]) -> dict[str, Any]:
    return {"joint": "fixed", "shapes": list(shapes)}


def free(*shapes: dict[str, Any], density: float = 2000.0, **keys: Any) -> dict[str, Any]:
    return {"joint": "free", "density": density, "shapes": list(shapes), **keys}


@pytest.mark.parametrize("method", METHODS)
def test_a_sphere_comes_to_rest_in_a_cup(folder, method):
    bodies = {
        "cup": fixed(mesh("cup")),
        "ball": free({"type": "sphere", "radius": 0.015}, position=[0.006, 0.0, -0.023]),
    }
    environment = Environment(world(folder, bodies, "ball"), contact(), method)
    for _ in range(700):
        state = environment.advance()
    centre = state.pose[:3]
    depth = np.linalg.norm(centre) - 0.025
    assert abs(depth) < 8e-4, "on the inner surface"
    assert state.kinetic_energy < 5e-4
    assert environment.contacts


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", METHODS)
def test_drops_of_concave_meshes_gain_no_energy(folder, method):
    """What their motion has is never more than what gravity has given, and little of it is left at the end."""
    bodies = {
        "ground": fixed({"type": "plane"}),
        "ring": free(mesh("torus"), position=[0.0, 0.0, 0.016]),
        "star": free(mesh("star"), position=[0.031, 0.004, 0.06], rotation=[0.4, 0.7, 0.1]),
    }
    scene = world(folder, bodies, "star")
    environment = Environment(scene, contact(), method)
    totals, energy = [], environment.energy
    for _ in range(600):
        environment.advance()
        energy = environment.energy
        totals.append(energy["kinetic"] + energy["potential"] + energy["elastic"])
    assert totals[0] > totals[-1] + 0.01, "it has fallen"
    assert np.maximum(0.0, np.diff(totals)).max() < 2e-4
    assert max(totals) < totals[0] + 1e-5
    assert energy["kinetic"] < 2e-3


def test_a_plate_of_a_millimetre_stops_a_tool_at_two_metres_per_second(folder):
    for method in METHODS:
        bodies = {
            "plate": fixed(mesh("plate", 2e-4)),
            "ball": free(
                {"type": "sphere", "radius": 0.01}, position=[0.011, 0.013, 0.0205], velocity=[0, 0, -2.0, 0, 0, 0]
            ),
        }
        environment = Environment(world(folder, bodies, "ball", gravity=[0, 0, 0]), contact(), method)
        lowest = 1.0
        for _ in range(80):
            lowest = min(lowest, environment.advance().pose[2])
        assert environment.state.pose[2] > 0.0, method
        assert environment.state.twist[2] > -0.05, method


def test_a_state_is_given_back_bit_by_bit(folder):
    bodies = {
        "plate": fixed(mesh("plate", 2e-4)),
        "ball": free({"type": "sphere", "radius": 0.01}, position=[0.0, 0.0, 0.0125], velocity=[0.3, 0, -2.0, 0, 0, 0]),
    }
    environment = Environment(world(folder, bodies, "ball"), contact(), "penalty")
    for _ in range(4):
        environment.advance()
    kept = environment.snapshot()
    ahead = [environment.advance().pose.copy() for _ in range(20)]
    environment.restore(kept)
    again = [environment.advance().pose.copy() for _ in range(20)]
    np.testing.assert_array_equal(ahead, again)


def test_an_overlap_at_the_start_is_refused(folder):
    bodies = {
        "cup": fixed(mesh("cup")),
        "ball": free({"type": "sphere", "radius": 0.015}, position=[0.0, 0.0, -0.03]),
    }
    with pytest.raises(ParameterError, match=r"ball and cup overlap by 0.00[45].* m at the start"):
        world(folder, bodies, "ball")


def test_a_body_in_the_hollow_of_a_mesh_is_free(folder):
    """Inside the hull of the cup, outside of the cup."""
    bodies = {
        "cup": fixed(mesh("cup")),
        "ball": free({"type": "sphere", "radius": 0.015}, position=[0.0, 0.0, -0.01]),
    }
    environment = Environment(world(folder, bodies, "ball", gravity=[0, 0, 0]), contact(), "penalty")
    for _ in range(5):
        environment.advance()
    assert environment.contacts == []


def test_what_does_not_fit_names_the_key_and_the_remedy(folder):
    with pytest.raises(ParameterError, match=r"shapes\[0\].*points: must be at most 500000; allow an error of"):
        world(folder, {"ring": free(mesh("torus", 1e-6))}, "ring")


def test_a_ring_falls_asleep_and_wakes_when_it_is_hit(folder):
    """A mesh with a field that rests takes no detection any more, and moves on when a ball hits it."""
    bodies = {
        "ground": fixed({"type": "plane"}),
        "ring": free(mesh("torus"), position=[0.0, 0.0, 0.012]),
        "ball": free({"type": "sphere", "radius": 0.01}, position=[0.03, 0.0, 0.3]),
    }
    scene = world(folder, bodies, "ball")
    environment = Environment(scene, contact(), "constraint", sleep=Sleep(1e-3, 0.02))
    visited, still = [], []
    for _ in range(320):
        environment.advance()
        visited.append(environment._detector.visited)
        still.append(float(np.abs(environment._tool.body.v[0:6]).max()))
    asleep = [k for k in range(50, 200) if still[k] == 0.0]
    assert asleep and asleep[-1] == 199, "the ring sleeps while the ball falls"
    hit = next(k for k in range(200, 320) if still[k] > 0.0)
    assert 0.215 < 1e-3 * hit < 0.25, "the ball has fallen onto it: sqrt(2 h / g)"


def test_a_ring_that_turns_about_a_fixed_point_is_stopped_by_a_post(folder):
    """A mesh with a field under exact constraints: its point stays where it is, and it does not pass the post."""
    pivot = [-0.03, 0.0, 0.012]
    bodies = {
        "post": fixed({"type": "box", "size": [0.01, 0.01, 0.1], "position": [0.03, 0.045, 0.0]}),
        "ring": free(mesh("torus"), position=[0.0, 0.0, 0.012]),
    }
    constraints = {"pin": {"type": "point_fixed", "body": "ring", "at": [-0.03, 0.0, 0.0], "point": pivot}}
    scene = world(folder, bodies, "ring", constraints=constraints, gravity=[0, 0, 0])
    for method in ("penalty", "constraint"):
        environment = Environment(scene, contact(), method)
        turned = []
        for _ in range(600):
            state = environment.advance([0.0, 0.2, 0.0, 0.0, 0.0, 0.0])
            turned.append(2.0 * np.arctan2(state.pose[5], state.pose[6]))
            R = pin.Quaternion(state.pose[6], *state.pose[3:6]).toRotationMatrix()
            np.testing.assert_allclose(state.pose[:3] + R @ [-0.03, 0.0, 0.0], pivot, atol=1e-6)
        assert environment.contacts, method
        assert np.ptp(turned[-100:]) < 0.01, "it leans on the post"
        assert 0.0 < turned[-1] < 0.5


def test_a_torus_of_an_mjcf_file_lies_on_a_plane_as_its_closed_form(folder):
    """Its tube of 12 mm, whose centre is 11 mm high, is 1 mm deep, along a circle of 30 mm."""
    (folder / "ring.xml").write_text(
        '<mujoco><asset><mesh name="torus" file="torus.stl"/></asset><worldbody><body name="ring" pos="0 0 0.011">'
        '<freejoint/><geom type="mesh" mesh="torus" density="2000"/></body></worldbody></mujoco>'
    )
    bodies = {
        "ground": fixed({"type": "plane"}),
        "tip": free({"type": "sphere", "radius": 0.005}, position=[0.0, 0.0, 0.5]),
    }
    files = {"file": {"path": "ring.xml", "meshes": "field"}}
    ring = world(folder, bodies, "tip", files=files, gravity=[0.0, 0.0, 0.0])
    (taken,) = [mesh.taken.field for mesh in ring.meshes]
    assert taken is not None
    environment = Environment(ring, contact(), "penalty")
    environment.advance()
    depth = np.array([one.depth for one in environment.contacts])
    assert abs(depth.max() - 1e-3) < taken.accuracy + taken.error
    deepest = [one for one in environment.contacts if one.depth > 8e-4]
    assert len(deepest) > 3
    for one in deepest:
        np.testing.assert_allclose(one.normal, [0.0, 0.0, 1.0], atol=1e-9)
        assert abs(np.hypot(*one.point[:2]) - 0.03) < 0.003
