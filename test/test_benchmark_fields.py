"""The benchmark of fields: every contestant is measured, and what is visited in contact does not grow with the mesh."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

pytest.importorskip("mujoco")
pytest.importorskip("igl")

from benchmarks import fields, suite


@pytest.mark.exhaustive
def test_every_contestant_is_measured_and_drawn() -> None:
    found = list(fields.growth(suite._row, sizes=(1000,), steps=3))
    times = [one for one in found if one["unit"] == "us"]
    assert len(times) == 1 + 2 * 4 and all(one["value"] > 0.0 for one in times)
    panel = fields.figure(found)
    assert not panel.empty
    for who in ("field", "triangles of coal", "24 convex pieces of MuJoCo", "octrees of MuJoCo"):
        assert f"{who}, {fields.DEEP}" in panel.svg and f"{who}, {fields.CLEAR}" in panel.svg


def test_the_clearance_of_two_tori_is_that_of_their_circles() -> None:
    turn = pin.exp3(np.array([0.5 * np.pi, 0.0, 0.0]))
    for gap in (-3e-4, 1e-3):
        pose = pin.SE3(turn, np.array([2.0 * (fields.LARGE - fields.SMALL) - gap, 0.0, 0.0]))
        assert fields.clearance(pose) == pytest.approx(gap, abs=1e-6)


def test_the_work_in_contact_does_not_grow_with_the_triangles() -> None:
    """The same surface from 1000 and from 16,000 triangles: its points, and so its cells, are others, and not more."""
    found = list(fields.steady(suite._row, splits=(0, 2), points=5000))
    leaves = [one["value"] for one in found if one["name"].endswith("leaves visited")]
    rows = [one["value"] for one in found if one["name"].endswith("rows")]
    assert len(leaves) == len(rows) == 2
    assert min(rows) > 1.0
    assert rows[1] < 1.25 * rows[0]
    assert leaves[1] < 1.25 * leaves[0]
