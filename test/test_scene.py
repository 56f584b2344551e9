"""Drawing of bodies: closed surfaces of the shapes that collide."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import coal
import numpy as np
import pytest
import trimesh
import yaml
from conftest import ROOT

from haptic_bench import experiment
from haptic_bench.experiment.shown import build_scene
from haptic_sim.geometry.convex import convex_shape
from haptic_view import shapes

POINTS = np.random.default_rng(20263).normal(size=(30, 3))
SHAPES = {
    "box": (coal.Box(2.0, 3.0, 4.0), 24.0),
    "sphere": (coal.Sphere(0.7), 4.0 / 3.0 * np.pi * 0.7**3),
    "cylinder": (coal.Cylinder(0.5, 2.0), np.pi * 0.5**2 * 2.0),
    "capsule": (coal.Capsule(0.5, 2.0), np.pi * 0.5**2 * 2.0 + 4.0 / 3.0 * np.pi * 0.5**3),
    "polytope": (convex_shape(POINTS), trimesh.Trimesh(POINTS).convex_hull.volume),
    "ring": (None, 2.0 * np.pi**2 * 2.0 * 0.1**2),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shape_is_closed_faces_outward_and_fills_the_volume_of_what_collides(name: str) -> None:
    geometry, volume = SHAPES[name]
    shape = shapes.ring(0, 2.0, 0.1) if geometry is None else shapes.shape_of_coal(0, geometry)
    mesh = trimesh.Trimesh(shape.vertices, shape.faces)
    assert mesh.is_watertight and mesh.is_winding_consistent
    exact = name in ("box", "polytope")
    assert mesh.volume == pytest.approx(volume, rel=1e-12 if exact else 0.11 if name == "ring" else 0.03)
    if not exact:
        assert mesh.volume < volume  # within it
    if name != "polytope":
        np.testing.assert_allclose(mesh.bounds.sum(axis=0), 0.0, atol=1e-9)


def test_view_starts_without_what_takes_long_to_import() -> None:
    code = (
        "import sys\nimport haptic_bench.commands.view\n"
        "print([name for name in ('trimesh', 'scipy.spatial', 'scipy.linalg', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


URDF = """<robot name="r"><link name="base"/><link name="arm">
  <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
  <visual><origin xyz="0.1 0.2 0.3" rpy="0 0 0.7"/><geometry><mesh filename="{mesh}" scale="2 2 2"/></geometry></visual>
  <visual><origin xyz="0 0 1"/><geometry><sphere radius="0.1"/></geometry></visual>
  <collision><geometry><box size="0.2 0.2 0.2"/></geometry></collision></link>
  <link name="tip"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision></link>
  <joint name="a" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/></joint>
  <joint name="b" type="continuous"><parent link="arm"/><child link="tip"/><axis xyz="0 0 1"/></joint></robot>"""


@pytest.mark.parametrize("mesh", ["v.obj", "v.stl", "package://nowhere/v.stl"])
def test_links_of_a_urdf_file_look_as_it_says_and_collide_as_before(tmp_path: Path, mesh: str) -> None:
    """In the link's axes; what cannot be read is said once, and the link is drawn as it collides."""
    shape = trimesh.creation.cylinder(radius=0.3, height=1.0, sections=7)
    for name in ("v.obj", "v.stl"):
        shape.export(tmp_path / name)
    (tmp_path / "r.urdf").write_text(URDF.format(mesh=mesh))
    document = {
        "duration": 0.1,
        "rate": 500,
        "device": {"type": "none"},
        "operator": {"type": "constant", "wrench": [0.0] * 6},
        "scene": {"type": "world", "files": {"r": {"path": "r.urdf"}}, "tool": "r/tip", "ignore": [["r", "r"]]},
    }
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    [trial] = experiment.load(str(tmp_path / "own.yaml"))

    def drawn(visual: bool) -> tuple[dict[str, list[np.ndarray]], tuple[str, ...]]:
        made = build_scene(trial, visual=visual)
        found: dict[str, list[np.ndarray]] = {}
        for one in made.shapes:
            found.setdefault(made.bodies[one.body], []).append(one.vertices)
        return found, made.notes

    plain, notes = drawn(False)
    assert len(plain["r/arm"]) == 1 and not notes
    shown, notes = drawn(True)
    np.testing.assert_array_equal(shown["r/tip"][0], plain["r/tip"][0])
    if mesh.startswith("package"):
        np.testing.assert_array_equal(shown["r/arm"][0], plain["r/arm"][0])
        (note,) = notes
        assert note.startswith("scene.files.r: its visual meshes are not shown: Mesh package://nowhere/v.stl")
        return
    assert not notes
    body, ball = shown["r/arm"]
    c, s = np.cos(0.7), np.sin(0.7)
    expected = 2.0 * shape.vertices @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]).T + (0.1, 0.2, 0.3)
    for point in expected:
        assert np.linalg.norm(body - point, axis=1).min() < 1e-5
    np.testing.assert_allclose(np.linalg.norm(ball - (0, 0, 1), axis=1), 0.1, atol=1e-12)
