"""Collision geometry of meshes: sound, repaired, or decomposed where they are concave, with errors of closed forms."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import trimesh
from test_shapes import l_shape

from haptic_sim.geometry import decomposition, meshes, soundness
from haptic_sim.geometry.decomposition import surface_error
from haptic_sim.geometry.mesh_files import MeshError
from haptic_sim.geometry.meshes import Mass, hull_mass, mesh_mass, remedy, sum_of_masses, take


def box(size: tuple[float, float, float], at: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> trimesh.Trimesh:
    found = trimesh.creation.box(extents=size)
    found.apply_translation(at)
    return found


def corners_of(*boxes: trimesh.Trimesh) -> tuple[np.ndarray, ...]:
    return tuple(np.array(one.vertices) for one in boxes)


def turned(mesh: trimesh.Trimesh) -> trimesh.Trimesh:
    return trimesh.Trimesh(mesh.vertices, mesh.faces[:, ::-1], process=False)


# Mending


def test_a_mesh_that_is_inside_out_is_turned() -> None:
    taken = take(turned(l_shape()))
    assert "it was inside out, and is turned" in taken.summary
    assert taken.mass[0] == pytest.approx(3.0)


def test_triangles_that_are_turned_the_wrong_way_or_there_twice() -> None:
    mesh = l_shape()
    faces = mesh.faces.copy()
    faces[[2, 7]] = faces[[2, 7]][:, ::-1]
    found, notes = soundness.mended(trimesh.Trimesh(mesh.vertices, faces, process=False))
    assert found.is_winding_consistent and found.volume == pytest.approx(3.0)
    assert notes == ("triangles that were turned the wrong way are turned",)
    twice = trimesh.Trimesh(mesh.vertices, np.concatenate([mesh.faces, mesh.faces[3:5, [1, 2, 0]]]), process=False)
    found, notes = soundness.mended(twice)
    assert len(found.faces) == len(mesh.faces) and notes == ("2 triangles that it has twice are left out",)


def test_small_holes_are_closed_and_large_ones_refused() -> None:
    ball = trimesh.creation.icosphere(subdivisions=4, radius=0.1)
    around = [i for i, face in enumerate(ball.faces) if 40 in face]
    holes = trimesh.Trimesh(ball.vertices, np.delete(ball.faces, [*around, 500], axis=0), process=False)
    found, notes = soundness.mended(holes)
    assert found.is_watertight and found.volume == pytest.approx(ball.volume, rel=2e-3)
    assert len(notes) == 1 and re.fullmatch(r"2 holes of at most 0\.0\d+ m across are closed", notes[0])
    half = trimesh.Trimesh(ball.vertices, ball.faces[: len(ball.faces) // 2], process=False)
    said = r"^has a hole of 0\.\d+ m\^2: must be at most 0\.\d+ m\^2, as a circle of a tenth of its diagonal is"
    for how in ("automatic", "field"):
        with pytest.raises(MeshError, match=said) as caught:
            take(half, how)
        assert remedy(caught.value, "meshes") == "; close it, or set meshes: hull to take its convex hull"
    assert take(half, "hull").chosen == "hull"
    # the remedy's area does, and one that is smaller does not
    found = re.search(r"; close it, set largest_hole: (\S+) to have it closed by a flat fan, or", remedy(caught.value))
    assert found is not None
    largest = float(found[1])
    for how in ("automatic", "field"):
        taken = take(half, how, largest_hole=largest)
        assert taken.chosen == "field" and taken.mass[0] == pytest.approx(0.5 * ball.volume, rel=0.01)
        assert taken.notes[0].startswith("1 hole of at most")
        with pytest.raises(MeshError, match=rf"must be at most largest_hole = {0.9 * largest:g} m\^2, to be closed"):
            take(half, how, largest_hole=0.9 * largest)
    with pytest.raises(MeshError, match=r"^largest_hole: 1: only a field closes holes"):
        take(half, "pieces", largest_hole=1.0)


def test_holes_that_a_field_closes_are_reported() -> None:
    """Of a torus, two of 576 triangles: a hole of the area of both; of 40, the tube is open on both sides."""
    whole = trimesh.creation.torus(0.05, 0.015, major_sections=24, minor_sections=12)
    part = trimesh.Trimesh(whole.vertices, whole.faces[:-2], process=False)
    hole = whole.area - part.area
    notes = take(part, "field", 2e-3).notes
    assert notes == (f"1 hole of at most {hole:.2g} m^2 is closed",)
    with pytest.raises(MeshError, match=r"^has a hole of"):
        take(trimesh.Trimesh(whole.vertices, whole.faces[:-80], process=False), "field", 2e-3)
    crack = box((1, 1, 1))  # a vertex on an edge of one of its two triangles: a hole without an area
    a, b, c = crack.faces[0]
    vertices = np.vstack([crack.vertices, 0.5 * (crack.vertices[a] + crack.vertices[b])])
    faces = np.vstack([crack.faces[1:], [[a, 8, c], [8, b, c]]])
    assert take(trimesh.Trimesh(vertices, faces, process=False), "field", 0.05).notes == (
        "1 hole of at most 0 m^2 is closed",
    )


def test_edges_with_three_triangles_and_surfaces_with_one_side() -> None:
    fin = trimesh.util.concatenate([box((1, 1, 1)), trimesh.Trimesh([[0, 0, 2]], np.zeros((0, 3), int))])
    faces = np.concatenate([fin.faces, [[*fin.faces[0][:2], 8]]])
    said = "is not closed: 1 of its 20 edges has an odd number of triangles, more than two"
    with pytest.raises(MeshError, match=said):
        take(trimesh.Trimesh(fin.vertices, faces, process=False), "pieces")
    taken = take(trimesh.Trimesh(fin.vertices, faces, process=False))
    assert taken.chosen == "field" and taken.notes[0] == f"winding numbers say what is solid, as it {said}"
    assert taken.mass[0] == pytest.approx(1.0, rel=0.01)
    # a Klein bottle as a grid whose one end is joined the other way around
    n = 6
    grid = np.arange(n * n).reshape(n, n)
    right = np.roll(grid, -1, axis=1)
    up = np.roll(grid, -1, axis=0)
    up[-1] = grid[0][-np.arange(n) % n]
    corner = np.roll(up, -1, axis=1)
    faces = np.concatenate([np.stack([grid, right, corner], -1), np.stack([grid, corner, up], -1)]).reshape(-1, 3)
    points = np.random.default_rng(0).normal(size=(n * n, 3))
    with pytest.raises(MeshError, match="has one side only"):  # which no hole that is closed gives an inside
        take(trimesh.Trimesh(points, faces, process=False), largest_hole=1e3)
    with pytest.raises(MeshError, match="has one side only") as caught:
        take(trimesh.Trimesh(points, faces, process=False))
    assert remedy(caught.value) == "; set as: hull to take its convex hull"  # a field needs an inside


def test_the_mass_of_a_mesh_that_is_not_closed_does_not_depend_on_the_origin() -> None:
    ball = trimesh.creation.icosphere(3, 0.1)
    torn = trimesh.Trimesh(ball.vertices, np.vstack([ball.faces, ball.faces[:1, ::-1]]), process=False)
    for at in ((0.0, 0.0, 0.0), (3.0, -2.0, 1.0)):
        moved = trimesh.Trimesh(torn.vertices + at, torn.faces, process=False)
        volume, centre, inertia = mesh_mass(moved)
        assert volume == pytest.approx(ball.volume, rel=2e-3)
        assert centre == pytest.approx(np.array(at), abs=2e-4)
        assert inertia == pytest.approx(ball.moment_inertia, rel=5e-3, abs=5e-3 * ball.moment_inertia[0, 0])
    two = trimesh.util.concatenate([box((1, 1, 1)), box((1, 1, 1), (1.0, 1.0, 0.0))])  # touch at an edge: closed
    two.merge_vertices()
    assert mesh_mass(two)[0] == pytest.approx(2.0, rel=1e-12)


def test_solids_that_touch_along_an_edge() -> None:
    # two cubes that share an edge, as in what solid modellers write: four triangles at it, two of them each way
    first, second = box((1, 1, 1)), box((1, 1, 1))
    second.apply_translation((1.0, 1.0, 0.0))
    both = trimesh.util.concatenate([first, second])
    both.merge_vertices()
    assert len(both.vertices) == 14
    found, notes = soundness.mended(both)
    assert not notes and found.volume == pytest.approx(2.0)
    assert take(both).chosen == "connected pieces"
    found, notes = soundness.mended(turned(both))
    assert notes == ("it was inside out, and is turned",) and found.volume == pytest.approx(2.0)
    faces = both.faces.copy()
    faces[3] = faces[3][::-1]
    found, notes = soundness.mended(trimesh.Trimesh(both.vertices, faces, process=False))
    assert notes == ("triangles that were turned the wrong way are turned",) and found.volume == pytest.approx(2.0)


def test_coarse_pieces_name_what_is_finer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meshes, "COARSE", -1.0)
    taken = take(l_shape(), "pieces")
    assert taken.chosen == "pieces"
    assert re.search(r"this is \S+ % of its diagonal: a field is finer, and so are pieces with", taken.summary)


@pytest.mark.parametrize("error", [None, 0.02])
def test_a_mesh_that_is_not_convex_has_a_field(error: float | None) -> None:
    taken = take(turned(l_shape()), error=error)
    assert taken.chosen == "field" and taken.field is not None
    assert re.match(r"signed distance field of \d+ points, .* it was inside out, and is turned$", taken.summary)
    assert taken.mass[0] == pytest.approx(3.0)
    assert taken.error is not None and taken.error < (0.02 if error else 0.01)


def test_a_slot_without_width() -> None:
    # two walls at the same place, each divided by its other diagonal: its edges have four triangles
    vertices = [[0, 0, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1]]
    flat = np.array([[0, 1, 2], [0, 2, 3], [1, 0, 3], [1, 3, 2]])
    both = trimesh.util.concatenate([box((1, 1, 1), (0.5, 0.5, 0.5)), trimesh.Trimesh(vertices, flat, process=False)])
    both.merge_vertices()
    found, notes = soundness.mended(both)
    assert not notes and found.volume == pytest.approx(1.0)


def test_shells_within_shells() -> None:
    outer, inner = box((1, 1, 1)), box((0.5, 0.5, 0.5))
    both = trimesh.util.concatenate([outer, inner])
    said = "has 2 shells, of which shell 1 lies within shell 0 and is turned as if both were solid"
    with pytest.raises(MeshError, match=f"^{said}"):
        take(both, "pieces")
    taken = take(both)
    assert taken.chosen == "field" and taken.notes[0].startswith(f"winding numbers say what is solid, as it {said}")
    assert taken.mass[0] == pytest.approx(1.0, rel=1e-3)
    found, notes = soundness.mended(trimesh.util.concatenate([outer, turned(inner)]))
    assert not notes and found.volume == pytest.approx(1.0 - 0.125)
    # within the cavity there may be something solid again
    kernel = box((0.1, 0.1, 0.1))
    found, notes = soundness.mended(trimesh.util.concatenate([outer, turned(inner), kernel]))
    assert not notes and found.volume == pytest.approx(1.0 - 0.125 + 0.001)
    with pytest.raises(MeshError, match=r"is not convex: it is a cavity"):
        take(trimesh.util.concatenate([outer, turned(inner)]), "connected")


def test_a_shell_in_another_counts_once_in_the_mass_of_a_field() -> None:
    both = trimesh.util.concatenate([box((0.1, 0.1, 0.1)), box((0.04, 0.04, 0.04))])
    taken = take(both, "field", 2e-3)
    assert taken.mass[0] == pytest.approx(1e-3, rel=2e-3)
    assert taken.notes == (
        "a part of it lies within another one: what it encloses more than once or inside out changes its volume by "
        "-6 %",
    )
    hollow = take(trimesh.util.concatenate([box((0.1, 0.1, 0.1)), turned(box((0.04, 0.04, 0.04)))]), "field", 2e-3)
    assert hollow.mass[0] == pytest.approx(0.1**3 - 0.04**3) and hollow.notes == ()


def test_flat_meshes_and_single_triangles() -> None:
    one = trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    flat = trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 1]], process=False)
    slab = box((0.1, 0.1, 1e-10))
    slab.apply_transform(trimesh.transformations.rotation_matrix(0.7, [1, 2, 3]))
    for mesh in (one, flat, slab):
        for how in ("automatic", "pieces", "hull", "field", "connected"):
            with pytest.raises(
                MeshError, match=r"^is flat, without volume: give it a thickness, or take .*box"
            ) as caught:
                take(mesh, how)
            assert remedy(caught.value) == ""
    beside = trimesh.util.concatenate([box((1, 1, 1)), trimesh.Trimesh(flat.vertices + 3.0, flat.faces, process=False)])
    with pytest.raises(MeshError, match=r"^piece 1 of 2 has no volume") as caught:
        take(beside)
    assert remedy(caught.value) == "; take it out, or set as: hull or as: field"
    for how in ("hull", "field"):
        assert take(beside, how, 9.0 if how == "hull" else 0.02).chosen == how


def test_triangles_that_intersect_are_counted() -> None:
    cross = trimesh.util.concatenate([box((3, 1, 1)), box((1, 3, 1.2))])
    assert soundness.self_intersections(np.array(cross.vertices), np.array(cross.faces)) > 0
    assert soundness.self_intersections(*map(np.array, (l_shape().vertices, l_shape().faces))) == 0


def mass_of_boxes(*parts: tuple[float, tuple[float, float, float], tuple[float, float, float]]) -> Mass:
    """Volume, centroid and inertia of boxes with signs, sizes and places: closed forms."""
    found = []
    for sign, size, at in parts:
        x, y, z = np.square(size)
        volume = sign * math.prod(size)
        found.append((volume, np.array(at), volume / 12.0 * np.diag([y + z, x + z, x + y])))
    return sum_of_masses(found)


def assert_mass(found: Mass, expected: Mass, share: float) -> None:
    length = expected[0] ** (1.0 / 3.0)
    assert found[0] == pytest.approx(expected[0], rel=share)
    np.testing.assert_allclose(found[1], expected[1], rtol=0, atol=share * length)
    np.testing.assert_allclose(found[2], expected[2], rtol=0, atol=share * expected[2].max())


@pytest.mark.parametrize("inside_out", [False, True])
@pytest.mark.parametrize("overlap", [1e-9, 0.4])
def test_what_two_boxes_have_in_common_counts_once(overlap: float, inside_out: bool) -> None:
    """Both are their own convex pieces; the mass is that of the union, to rounding where they cross by rounding."""
    at = (1.5 - overlap, 0.1, -0.05)
    both = trimesh.util.concatenate([box((2, 1, 1)), box((1, 0.5, 0.6), at)])
    taken = take(turned(both) if inside_out else both)
    assert taken.chosen == "connected pieces"
    common = (-1.0, (overlap, 0.5, 0.6), (1.0 - 0.5 * overlap, 0.1, -0.05))
    expected = mass_of_boxes((1.0, (2, 1, 1), (0, 0, 0)), (1.0, (1, 0.5, 0.6), at), common)
    assert_mass(taken.mass, expected, 1e-3 if overlap > 0.1 else 1e-8)
    assert ("it was inside out, and is turned" in taken.notes) == inside_out
    assert taken.notes[-1].endswith(
        "changes its volume by -5.2 %" if overlap > 0.1 else "intersect, by too little to change its mass"
    )


@pytest.mark.parametrize("how", ["pieces", "automatic"])
@pytest.mark.parametrize("inside_out", [False, True])
@pytest.mark.parametrize("overlap", [1e-9, 0.2])
def test_where_triangles_intersect_the_mass_is_that_of_the_inside_and_not_of_the_pieces(
    overlap: float, inside_out: bool, how: Literal["pieces", "automatic"]
) -> None:
    """A box that goes into an L, by rounding or really: pieces of CoACD have a volume that differs."""
    at = (2.25 - overlap, 0.45, 0.55)
    mesh = trimesh.util.concatenate([l_shape(), box((0.5, 0.5, 0.6), at)])
    taken = take(turned(mesh) if inside_out else mesh, how)
    common = (-1.0, (overlap, 0.5, 0.6), (2.0 - 0.5 * overlap, 0.45, 0.55))
    squares = [(1.0, (1.0, 1.0, 1.0), (x, y, 0.5)) for x, y in ((0.5, 0.5), (1.5, 0.5), (0.5, 1.5))]
    expected = mass_of_boxes(*squares, (1.0, (0.5, 0.5, 0.6), at), common)
    assert_mass(taken.mass, expected, 1e-3 if overlap > 0.1 else 1e-8)
    if how == "pieces":
        of_pieces = sum_of_masses([hull_mass(corners) for corners in taken.corners])
        assert abs(of_pieces[0] / expected[0] - 1.0) > 2e-3
    assert ("it was inside out, and is turned" in taken.notes) == inside_out
    said = "changes its volume by -1.9 %" if overlap > 0.1 else "intersect, by too little to change its mass"
    assert taken.notes[-1].endswith(said)


def test_a_mug_of_90_metres_is_questioned() -> None:
    taken = take(box((60.0, 60.0, 90.0)))
    assert taken.summary == "it is 90 m long: if it is in millimetres, set scale: [0.001, 0.001, 0.001]"
    assert take(box((6.0, 6.0, 9.0))).summary == ""


def test_the_winding_number_counts_shells() -> None:
    ball = trimesh.creation.icosphere(subdivisions=2)
    for point, expected in (([0.1, 0.2, -0.3], 1.0), ([1.5, 0.2, 0.0], 0.0)):
        assert soundness.winding_number(ball.vertices, ball.faces, np.array(point)) == pytest.approx(expected, abs=1e-9)


# Error of pieces


def test_pieces_that_are_the_mesh_have_no_error() -> None:
    """A box in two and in three parts, one of them turned into the seam of the others."""
    whole = box((2, 1, 1))
    halves = corners_of(box((1, 1, 1), (-0.5, 0, 0)), box((1, 1, 1), (0.5, 0, 0)))
    arrays = np.array(whole.vertices), np.array(whole.faces)
    assert surface_error(*arrays, halves) < 1e-6
    over = corners_of(box((1.5, 1, 1), (-0.25, 0, 0)), box((1.5, 1, 1), (0.25, 0, 0)), box((0.5, 0.5, 0.5)))
    assert surface_error(*arrays, over) < 1e-6


@pytest.mark.parametrize("shift", [-0.07, 0.07])
def test_the_error_is_the_same_either_way(shift: float) -> None:
    """A side of one of two halves that lies within the mesh, and one that sticks out."""
    whole = box((2, 1, 1))
    pieces = corners_of(box((1, 1, 1), (-0.5, 0, 0)), box((1 + shift, 1, 1), (0.5 + 0.5 * shift, 0, 0)))
    found = surface_error(np.array(whole.vertices), np.array(whole.faces), pieces)
    assert found == pytest.approx(abs(shift), rel=0.03)


def test_the_error_of_a_hull_is_the_height_of_its_side_over_the_notch() -> None:
    """The middle of the slanted side of the L's hull is half a side away from the mesh."""
    mesh = l_shape()
    found = surface_error(np.array(mesh.vertices), np.array(mesh.faces), (np.array(mesh.vertices),))
    assert found == pytest.approx(0.5, rel=0.05)


def test_a_mesh_with_dents_is_taken_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HAPTICS_CACHE_DIR", str(tmp_path))
    taken = take(l_shape(), "pieces")
    assert taken.chosen == "pieces" and len(taken.corners) == 2 and not taken.kept
    assert taken.error is not None and taken.error < 0.02
    assert taken.mass[0] == pytest.approx(3.0)  # of the mesh, not of its hull
    np.testing.assert_allclose(taken.mass[1], [5 / 6, 5 / 6, 0.5])
    assert re.fullmatch(r"2 convex pieces, largest error \S+ m, \S+ s, kept for later", taken.summary)
    again = take(l_shape(), "pieces")
    assert again.kept and again.summary.endswith("kept from before")
    for one, other in zip(taken.corners, again.corners, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(MeshError, match="is not convex: its surface lies"):
        take(l_shape(), "connected")


def test_an_error_that_cannot_be_met_names_what_can(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HAPTICS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(decomposition, "CONCAVITIES", (0.5, 0.3))
    ring = trimesh.creation.annulus(r_min=0.5, r_max=1.0, height=0.2, sections=12)
    with pytest.raises(MeshError, match=r"^error = 1e-09 m cannot be met: \d+ pieces reach \S+ m; ask for more, or"):
        take(ring, "pieces", 1e-9)


def test_without_coacd_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise decomposition.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(decomposition.metadata, "version", missing)
    with pytest.raises(MeshError, match=r"is not convex, and CoACD, .*; run pip install coacd$"):
        take(l_shape(), "pieces")


def test_a_failure_of_coacd_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decomposition.sys, "executable", "/bin/false")
    with pytest.raises(MeshError, match=r"CoACD fails with it \(status 1\); repair or simplify it"):
        decomposition._run(np.zeros((3, 3)), np.array([[0, 1, 2]]), 0.05)
