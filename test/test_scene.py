"""What is drawn of bodies: closed surfaces of the shapes that collide."""

from __future__ import annotations

import subprocess
import sys

import coal
import numpy as np
import pytest
import trimesh
from conftest import ROOT

from haptic_bench.view import scene
from haptic_sim.geometry.meshes import convex_shape

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
    shape = scene._ring(0, 2.0, 0.1) if geometry is None else scene._shape_of_coal(0, geometry)
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
