"""Shells with points on sharp features alone: what they keep, and that contacts are found without the others."""

from __future__ import annotations

import coal
import numpy as np
import pinocchio as pin
import pytest
import trimesh
from collision_scenes import at
from field_scenes import PLANE, FieldScene, pipe, torus

from haptic_sim.geometry import meshes
from haptic_sim.geometry.fields.field import FieldError, build_field
from haptic_sim.geometry.mesh_files import MeshError

ACCURACY = 4e-4
RADIUS, HALF = 0.03, 0.02  # of a pipe [m]
SLAB = trimesh.creation.box((0.12, 0.12, 0.03))


@pytest.fixture(scope="module")
def resting() -> FieldScene:
    """A slab with points everywhere, and a pipe with points on its edges."""
    slab = np.array(SLAB.vertices), np.array(SLAB.faces)
    return FieldScene(slab, pipe(0.02, RADIUS, 2.0 * HALF), accuracy=ACCURACY, sharp=(1,))


def test_a_pipe_has_points_on_its_edges_alone() -> None:
    points = build_field(*pipe(0.02, RADIUS, 2.0 * HALF), ACCURACY, everywhere=False).shell.points
    np.testing.assert_allclose(np.abs(points[:, 2]), HALF, atol=1e-12)
    r = np.hypot(points[:, 0], points[:, 1])
    assert np.minimum(np.abs(r - RADIUS), np.abs(r - 0.02)).max() < ACCURACY


def test_strong_curvature_counts_as_sharp() -> None:
    """A plane on a rod of radius r is missed by r^2 / (2 radius) between points, r = 6 accuracies."""
    thin, thick = 9.0 * ACCURACY, 36.0 * ACCURACY
    mesh = torus(0.05, thin)
    assert len(build_field(*mesh, ACCURACY, everywhere=False).shell.points) == len(
        build_field(*mesh, ACCURACY).shell.points
    )
    with pytest.raises(FieldError, match="nowhere strongly curved: leave out points: sharp"):
        build_field(*torus(0.05, thick), ACCURACY, everywhere=False)


@pytest.mark.parametrize("tilt", [0.0, 0.3, 1.1, 0.5 * np.pi])
def test_a_pipe_on_a_slab_is_as_deep_as_its_lowest_point(resting: FieldScene, tilt: float) -> None:
    """On its edge, its end or its side: the lowest point is R sin(tilt) + h cos(tilt) below the middle."""
    rng = np.random.default_rng(int(10.0 * tilt))
    below = RADIUS * np.sin(tilt) + HALF * np.cos(tilt)
    for depth in (2e-4, 8e-4):
        spin, heading = (pin.SE3(pin.exp3(np.array([0.0, 0.0, a])), np.zeros(3)) for a in rng.uniform(0.0, 6.0, 2))
        shift = rng.uniform(-0.01, 0.01, 2)
        pose = at(x=shift[0], y=shift[1], z=0.015 + below - depth) * heading * at(turn=(tilt, 0.0, 0.0)) * spin
        resting.detector.forget()
        found = resting.contacts(at(), pose)
        assert found.separation.min() == pytest.approx(-depth, abs=ACCURACY)


def test_one_of_two_shapes_needs_all_points() -> None:
    mesh = pipe(0.02, RADIUS, 2.0 * HALF)
    with pytest.raises(FieldError, match="shape 0 and shape 1 may touch, and both have points: sharp"):
        FieldScene(mesh, mesh, accuracy=ACCURACY, sharp=(0, 1))
    with pytest.raises(FieldError, match="shape 1 has points: sharp and may touch shape 0, a plane"):
        FieldScene(PLANE, mesh, accuracy=ACCURACY, sharp=(1,))
    FieldScene(coal.Sphere(0.01), mesh, accuracy=ACCURACY, sharp=(1,))


def test_only_fields_have_points() -> None:
    with pytest.raises(MeshError, match="points: sharp: only a field has points; set as: field"):
        meshes.take(SLAB, "hull", None, "sharp")
    taken = meshes.take(SLAB, "field", 1e-3, "sharp")
    assert "points on sharp parts" in taken.summary
