"""The benchmark of many worlds: all contestants move the same box, which stays on its floor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import suite, worlds

pytest.importorskip("mujoco")


def test_every_contestant_is_measured() -> None:
    found = worlds.measure(suite._row, counts=(1, 3), steps=4, turns=1, workers=2)
    assert len(found) == 2 * (7 + 3) and all(one["value"] > 0.0 and one["met"] is None for one in found)


def test_they_simulate_the_same_scene(tmp_path: Path) -> None:
    """Pressed and pushed within the cone of friction, the box rests in all."""
    wrenches = np.zeros((2, 200, 6))
    wrenches[:, :, 0], wrenches[:, :, 2] = 1.0, -2.0
    for name, advance in worlds.contestants(tmp_path, 2).items():
        found = advance(wrenches)
        places = found.poses[:, -1, :3] if hasattr(found, "poses") else found[0][:, -1, 1:4]  # type: ignore[index]
        np.testing.assert_allclose(places, [[0.0, 0.0, 0.05]] * 2, atol=1e-3, err_msg=name)
