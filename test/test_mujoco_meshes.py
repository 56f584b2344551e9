"""Meshes that are not convex in MuJoCo's worlds: what MuJoCo collides for them, and what the hand feels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from conftest import sampled
from field_scenes import torus
from offline_runs import run_unrecorded

from haptic_bench.analysis.verdict import verdict_of
from haptic_bench.experiment.loading import load_document
from haptic_sim.contact.response import ContactParameters
from haptic_sim.messages import LocalGeometry
from haptic_sim.parameters import ParameterError
from haptic_sim.tool.haptic_tool import HapticTool
from haptic_sim.tool.mujoco_surroundings import BY_FIELDS, MujocoSurroundings
from haptic_sim.tool.surroundings import WorldSurroundings
from haptic_sim.worlds.building import build
from haptic_sim.worlds.mujoco_files import build_mujoco_world, find_tool, load_meshes
from haptic_sim.worlds.mujoco_meshes import sampled_meshes
from haptic_sim.worlds.parameters import MujocoParameters, WorldParameters

mujoco = pytest.importorskip("mujoco")

R, TUBE = 0.05, 0.02  # [m] of the torus: its hole has a radius of 30 mm
ERROR = 1e-3  # [m] of pieces, and of fields


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("meshes")
    vertices, triangles = torus(R, TUBE, (48, 24))
    trimesh.Trimesh(vertices, triangles).export(folder / "ring.stl")
    return folder


RING = '<geom name="ring" type="{kind}" mesh="ring" friction="0.3" {extra}/>'


def scene(folder: Path, bodies: str, name: str = "world.xml", tail: str = "") -> Path:
    text = f"""<mujoco><option timestep="0.002"/><asset><mesh name="ring" file="ring.stl"/></asset>
        <worldbody>{bodies}</worldbody>{tail}</mujoco>"""
    (folder / name).write_text(text)
    return folder / name


def ring(kind: str = "mesh", extra: str = "") -> str:
    return RING.format(kind=kind, extra=extra)


def ball(height: float, radius: float = 0.015, x: float = 0.0) -> str:
    return f"""<body name="tool" pos="{x} 0 {height}"><freejoint/>
        <geom name="ball" type="sphere" size="{radius}" mass="0.1" friction="0.1"/></body>"""


def opened(path: Path, meshes: str, epsilon: float = 0.005, **keys: Any) -> tuple[Any, MujocoSurroundings]:
    parameters = MujocoParameters(file=str(path), tool="tool", meshes=meshes, error=ERROR, **keys)
    loaded = load_meshes(parameters)
    known = (*loaded.meshes, *sampled_meshes(loaded.model))
    tool = find_tool(loaded.model, loaded.data, parameters, meshes=known)
    return loaded, MujocoSurroundings(loaded.model, loaded.data, tool, epsilon=epsilon, rate=1000.0, meshes=known)


def survey(surroundings: MujocoSurroundings) -> LocalGeometry:
    geometry = surroundings.local_geometry()
    surroundings.report(geometry, np.zeros(6))
    return geometry


def nearest(geometry: LocalGeometry) -> Any:
    constraints = geometry.constraints[: len(geometry)]
    return constraints[np.argmin(constraints["separation"])]


@pytest.mark.parametrize("gap", sampled([0.003, 0.0005, -0.001], 0.0005))
@pytest.mark.parametrize("kind", ["mesh", "sdf"])
def test_a_ball_in_the_hole_is_near_the_tube_as_its_closed_form_says(folder: Path, gap: float, kind: str) -> None:
    """Beside the inner rim of the hole: distance, normal and place, before it touches, too."""
    radius = 0.015
    x = R - TUBE - radius - gap
    _, surroundings = opened(scene(folder, ring(kind) + ball(0.0, radius, x)), "field")
    row = nearest(survey(surroundings))
    assert row["separation"] == pytest.approx(gap, abs=0.6 * ERROR)
    np.testing.assert_allclose(row["normal"], [-1, 0, 0], atol=0.05)
    np.testing.assert_allclose(row["position"], [R - TUBE, 0, 0], atol=1.5e-3)
    assert row["friction_kinetic"] == pytest.approx(0.3) and row["id"] >= BY_FIELDS
    assert row["mobility"] == 0.0


def test_the_middle_of_the_hole_is_free_and_full_in_a_hull(folder: Path) -> None:
    path = scene(folder, ring() + ball(0.0))
    for meshes, free in (("hull", False), ("pieces", True), ("field", True)):
        _, surroundings = opened(path, meshes)
        geometry = survey(surroundings)
        assert (len(geometry) == 0) == free, meshes
        mujoco.mj_forward(surroundings._model, surroundings._data)
        assert (surroundings._data.ncon == 0) == free, "MuJoCo's own step has pieces"


def test_the_tools_own_mesh_is_felt(folder: Path) -> None:
    """A torus as the tool, over a fixed post that its hole is for; as in our own world."""
    post = '<geom name="post" type="box" size=".01 .01 .05" friction="0.3"/>'
    tool = f'<body name="tool" pos="0.0185 0 0"><freejoint/>{ring()}</body>'
    _, surroundings = opened(scene(folder, post + tool), "field")
    geometry = survey(surroundings)
    found = geometry.constraints[: len(geometry)]
    bodies = {
        "post": {"joint": "fixed", "shapes": [{"type": "box", "size": [0.02, 0.02, 0.1]}]},
        "ring": {
            "joint": "free",
            "density": 1000.0,
            "position": [0.0185, 0, 0],
            "shapes": [{"type": "mesh", "path": "ring.stl", "as": "field", "error": ERROR}],
        },
    }
    world = build(WorldParameters(type="world", bodies=bodies, tool="ring"), folder)
    own = WorldSurroundings(world, ContactParameters(), epsilon=0.005, rate=1000.0)
    expected = own.local_geometry()
    own.report(expected, np.zeros(6))
    ours = expected.constraints[: len(expected)]
    corner = R - TUBE - np.hypot(0.0285, 0.01)  # of the post, in the hole
    for rows in (found, ours):
        assert rows["separation"].min() == pytest.approx(corner, abs=0.6 * ERROR)
        assert (rows["normal"][:, 0] < -0.9).any()
    assert len(found) == pytest.approx(len(ours), abs=6)
    assert len(survey(opened(folder / "world.xml", "hull")[1])) > 0


def test_pieces_are_geoms_of_the_body_and_change_no_mass(folder: Path) -> None:
    """With what a pair, an exclusion and the geom say of contacts; the mesh itself stays as a geom that is drawn."""
    body = '<body name="r" pos="0 0 .3"><freejoint/>{}</body>'
    tail = '<contact><pair geom1="ring" geom2="ball" condim="1" margin="0.002"/></contact>'
    path = scene(folder, body.format(ring(extra='priority="2" solref="0.01 1"')) + ball(0.0), tail=tail)
    plain = mujoco.MjModel.from_xml_path(str(path))
    (model, _, meshes), _ = opened(path, "pieces")
    (mesh,) = meshes
    assert mesh.error is not None and mesh.error <= ERROR and len(mesh.pieces) > 8
    np.testing.assert_array_equal(model.body_mass, plain.body_mass)
    np.testing.assert_array_equal(model.body_inertia, plain.body_inertia)
    assert model.geom(mesh.geom).name == "ring" and not model.geom_contype[mesh.geom]
    for piece in mesh.pieces:
        assert model.geom_bodyid[piece] == model.body("r").id and model.geom_priority[piece] == 2
        np.testing.assert_array_equal(model.geom_solref[piece], [0.01, 1.0])
    assert model.npair == len(mesh.pieces) and set(model.pair_dim) == {1}
    np.testing.assert_array_equal(np.sort(model.pair_geom1), np.sort(mesh.pieces))
    vertices, _ = torus(R, TUBE, (48, 24))
    corners = []
    for piece in mesh.pieces:
        first, count = model.mesh_vertadr[model.geom_dataid[piece]], model.mesh_vertnum[model.geom_dataid[piece]]
        turned = np.zeros(9)
        mujoco.mju_quat2Mat(turned, model.geom_quat[piece])
        corners.append(model.mesh_vert[first : first + count] @ turned.reshape(3, 3).T + model.geom_pos[piece])
    np.testing.assert_allclose(np.ptp(np.concatenate(corners), axis=0), np.ptp(vertices, axis=0), atol=2 * ERROR)


def test_an_excluded_body_has_no_contacts_by_fields(folder: Path) -> None:
    body = f'<body name="r"><freejoint/>{ring()}</body>'
    at = R - TUBE - 0.015 - 0.001
    tail = '<contact><exclude body1="r" body2="tool"/></contact>'
    assert len(survey(opened(scene(folder, body + ball(0.0, x=at), tail=tail), "field")[1])) == 0
    assert len(survey(opened(scene(folder, body + ball(0.0, x=at)), "field")[1])) > 0


def test_a_margin_moves_where_the_force_begins(folder: Path) -> None:
    at = R - TUBE - 0.015 - 0.004
    path = scene(folder, ring(extra='margin="0.003"') + ball(0.0, x=at))
    row = nearest(survey(opened(path, "field")[1]))
    assert row["separation"] == pytest.approx(0.001, abs=0.6 * ERROR)
    assert row["position"][0] == pytest.approx(R - TUBE - 0.003, abs=0.6 * ERROR)


def test_a_ring_that_moves_is_felt_with_its_velocity_and_mass(folder: Path) -> None:
    body = '<body name="r"><freejoint/><geom name="ring" type="mesh" mesh="ring" mass="0.5"/></body>'
    loaded, surroundings = opened(scene(folder, body + ball(0.0, x=R - TUBE - 0.0155)), "field")
    place = loaded.model.joint(int(loaded.model.body("r").jntadr[0])).dofadr[0]
    loaded.data.qvel[place] = -0.1
    row = nearest(survey(surroundings))
    assert row["normal_velocity"] == pytest.approx(0.1, rel=0.05)
    assert row["mobility"] > 1.0 / 0.5 * 0.9


@pytest.mark.exhaustive
def test_a_torus_meets_a_height_field_and_every_primitive(folder: Path) -> None:
    """A torus lies 1 mm above each; its hull, too, and only the field has a hole."""
    tool = f'<body name="tool" pos="0 0 {TUBE + 0.001}"><freejoint/>{ring()}</body>'
    heights = " ".join(["1"] * 120 + ["0"])
    shapes = {
        "plane": '<geom type="plane" size="1 1 1"/>',
        "box": '<geom type="box" size=".1 .1 .02" pos="0 0 -.02"/>',
        "cylinder": '<geom type="cylinder" size=".1 .02" pos="0 0 -.02"/>',
        "ellipsoid": '<geom type="ellipsoid" size="20 20 .02" pos="0 0 -.02"/>',
        "hfield": '<geom type="hfield" hfield="h" pos="0 0 -.02"/>',
    }
    for name, shape in shapes.items():
        if name == "ellipsoid":  # as a polytope; a small one through the hole
            shape = '<geom type="ellipsoid" size=".02 .02 .05"/>'
        path = scene(
            folder,
            shape + tool,
            tail=f'<asset><hfield name="h" nrow="11" ncol="11" size=".2 .2 .02 .05" elevation="{heights}"/></asset>',
        )
        geometry = survey(opened(path, "field", epsilon=0.02)[1])
        assert len(geometry) > 0, name
        if name == "ellipsoid":
            assert nearest(geometry)["separation"] > 0.005
        else:
            assert nearest(geometry)["separation"] == pytest.approx(0.001, abs=4e-4), name
            assert nearest(geometry)["normal"][2] == pytest.approx(1.0, abs=0.02), name


def felt(folder: Path, meshes: str, path: list[list[float]], duration: float, body: str = "", **keys: Any) -> Any:
    """Samples and verdict of a ball that an arm leads along a path, at a fixed ring or a body."""
    document = {
        "name": "ring",
        "duration": duration,
        "rate": 1000.0,
        "operator": {"type": "arm", "path": path, "stiffness": 500.0, "damping": 5.0},
        "contact": {"stiffness": 2000.0, "damping": 2.0},
        "scene": {
            "type": "mujoco",
            "file": str(scene(folder, (body or ring()) + ball(0.06), "felt.xml")),
            "tool": "tool",
            "meshes": meshes,
            "gravity_compensation": True,
            **({} if meshes == "hull" else {"error": ERROR}),
        },
        "environment": {"rate": 100.0},
        "local_model": {"type": "full", "constraints": "dynamic"},
    }
    (trial,) = load_document(document | keys, folder / "felt.yaml")
    trial = trial.in_mode("offline")
    samples = run_unrecorded(trial)
    return samples, verdict_of(trial, samples)


def test_a_ball_passes_the_hole_of_a_ring_and_not_that_of_its_hull(folder: Path) -> None:
    down = [[0, 0, 0, 0], [0.8, 0, 0, -0.12]]
    for meshes, passes in (("hull", False), ("field", True), ("pieces", True)):
        samples, verdict = felt(folder, meshes, down, 1.0)
        assert (samples["hand_pz"][-1] < -0.05) == passes, meshes
        assert (np.abs(samples["env_fz"]).max() < 0.05) == passes, meshes
        assert verdict.verdict == "passive"


@pytest.mark.exhaustive
def test_a_ball_in_the_hole_feels_the_tube_without_jumps(folder: Path) -> None:
    """Pressed outwards and led around in the hole at 100 Hz: where the tube is, with steps as in our own engine."""
    angle = np.linspace(0.0, 2.0 * np.pi, 25)
    circle = [[1.2 + 1.6 * i / 24, 0.02 * np.cos(a), 0.02 * np.sin(a), -0.06] for i, a in enumerate(angle)]
    lead = [[0, 0, 0, 0], [0.7, 0, 0, -0.06], [1.0, 0.02, 0, -0.06], *circle]
    device = {
        "device": {"type": "inertial", "mass": 0.1, "inertia": 1e-4},
        "controller": {"type": "virtual_coupling"},
    }
    own = {
        "type": "world",
        "tool": "tool",
        "gravity_compensation": True,
        "bodies": {
            "ring": {
                "joint": "fixed",
                "friction_static": 0.3,
                "friction_kinetic": 0.3,
                "shapes": [{"type": "mesh", "path": "ring.stl", "as": "field", "error": ERROR}],
            },
            "tool": {"joint": "free", "mass": 0.1, "position": [0, 0, 0.06]}
            | {"shapes": [{"type": "sphere", "radius": 0.015}]},
        },
    }
    found = {}
    for name, keys in (("mujoco", device), ("haptics", device | {"scene": own})):
        samples, verdict = felt(folder, "field", lead, 3.0, **keys)
        force, quiet = samples.wrench("env")[:, :3], samples["colliding"] == 0
        around = samples["time"] > 1.1
        radius = np.hypot(samples["tool_px"], samples["tool_py"])[around]
        assert verdict.verdict == "passive", verdict.text
        assert np.abs(radius - (R - TUBE - 0.015)).max() < 1.6e-3, "as deep as the spring of a contact says"
        assert np.median(np.linalg.norm(force[around], axis=1)) == pytest.approx(1.3, abs=0.25)
        later = around[1:] & quiet[1:] & quiet[:-1]
        found[name] = np.linalg.norm(np.diff(force, axis=0), axis=1)[later].max()
    assert found["mujoco"] < 0.7 and found["mujoco"] < 1.5 * found["haptics"]


@pytest.mark.exhaustive
def test_a_ring_is_pushed_by_a_ball_in_its_hole(folder: Path) -> None:
    """The ring lies on a floor and goes along with the ball. The hand does half of the work of its friction, no more:
    between updates planes do not know of dry friction (docs/local_model.md)."""
    body = f"""<geom name="floor" type="plane" size="1 1 1" pos="0 0 -{TUBE}" friction="0.3"/>
        <body name="r"><freejoint/><geom name="ring" type="mesh" mesh="ring" mass="0.2" friction="0.3"/></body>"""
    lead = [[0, 0, 0, 0], [0.6, 0, 0, -0.06], [1.4, 0.08, 0, -0.06]]
    slow = {"environment": {"rate": 200.0, "following": 50.0}, "local_model": {"type": "full"}}  # kinematic planes
    samples, verdict = felt(folder, "field", lead, 1.6, body, **slow)
    world = samples.world
    assert world is not None
    moved = float(world.poses[-1, world.bodies.index("r"), 0])
    assert moved == pytest.approx(samples["hand_px"][-1] - (R - TUBE - 0.015), abs=4e-3) and moved > 0.05
    assert verdict.verdict == "passive", verdict.text
    slid = 0.3 * 0.2 * 9.81 * moved
    assert samples["others_energy_impact"][-1] == pytest.approx(slid, rel=0.3), "friction of contacts is among these"
    assert -samples["port_energy_translation"].min() < 1e-3
    assert 0.3 * slid < samples["port_energy_translation"][-1] < 1.1 * slid


def notes(path: Path, **keys: Any) -> list[str]:
    world = build_mujoco_world(MujocoParameters(file=str(path), tool="tool", **keys))
    return [note for note in world.notes if note.startswith("scene.meshes")]


def test_what_the_hand_feels_and_what_mujoco_collides_is_said(folder: Path) -> None:
    path = scene(folder, ring() + ball(0.1))
    (note,) = notes(path)
    assert note == (
        "scene.meshes: collide and are felt as convex hulls, in which their meshes lie up to so deep: ring by 0.02 m; "
        "scene.meshes=field lets the meshes be felt"
    )
    (note,) = notes(path, meshes="pieces", error=ERROR)
    assert note.startswith("scene.meshes: ring: collides as ") and " convex pieces, up to 0.000" in note
    (note,) = notes(path, meshes="field", error=ERROR)
    assert note.startswith("scene.meshes: ring: is felt as its mesh (signed distance field of ")
    assert "; what MuJoCo moves collides as " in note and note.endswith(" m away from the mesh")
    (note,) = notes(scene(folder, ring("sdf") + ball(0.1)))
    assert "is felt as its mesh (" in note and note.endswith(
        "collides as samples in an octree, up to 0.00017 m away from the mesh"
    )
    assert notes(scene(folder, '<geom type="box" size=".1 .1 .1"/>' + ball(0.2)), meshes="field") == []


def test_a_mesh_that_cannot_be_decomposed_is_felt_and_moves_as_its_hull(folder: Path) -> None:
    """An open bowl: MuJoCo has its hull, and the hand its field."""
    bowl = trimesh.creation.icosphere(subdivisions=3, radius=0.05)
    upper = np.all(bowl.vertices[bowl.faces][:, :, 2] < 0.01, axis=1)
    trimesh.Trimesh(bowl.vertices, bowl.faces[upper]).export(folder / "bowl.stl")
    text = (
        scene(folder, ring() + ball(0.1))
        .read_text()
        .replace("ring.stl", "bowl.stl")
        .replace('name="ring" file', 'inertia="shell" name="ring" file')
    )
    (folder / "bowl.xml").write_text(text)
    with pytest.raises(ParameterError, match=r"scene.meshes = pieces: ring: .*scene.meshes: (field|hull)"):
        notes(folder / "bowl.xml", meshes="pieces")


def test_a_program_feels_sampled_distances_before_they_overlap(folder: Path) -> None:
    path = scene(folder, ring("sdf") + ball(0.0, x=R - TUBE - 0.018))
    model = mujoco.MjModel.from_xml_path(str(path))
    tool = HapticTool(model, mujoco.MjData(model), "tool")
    found = tool._known
    assert nearest(found)["separation"] == pytest.approx(0.003, abs=0.6 * ERROR)
