"""bone_saddle: forces on a scan of 200,000 triangles are along the gradient of what it was made from."""

from __future__ import annotations

import numpy as np
import pytest
from claim_checks import Run, load, names

from haptic_experiments import bone_saddle
from haptic_sim.geometry.generate import bone_function


@pytest.fixture(scope="module")
def run() -> Run:
    return Run("bone_saddle")


@pytest.mark.exhaustive
def test_the_claims_hold(run: Run) -> None:
    assert run.holds() == dict.fromkeys(names(bone_saddle.ANALYSIS.CLAIMS), True)
    (bone,) = run.trial.meshes
    assert bone["as"] == "field" and bone["triangles"] > 200_000 and bone["error"] <= 0.00025


@pytest.mark.exhaustive
def test_claims_fail_for_other_trials(run: Run) -> None:
    samples, at = run.samples, len(run.samples) // 2
    assert run.holds(samples.with_columns({"env_fy": samples["env_fy"] + 0.3}))["normal"] is False
    deeper = {"tool_pz": samples["tool_pz"] - 0.002}
    assert run.holds(samples.with_columns(deeper))["onset"] is False
    step = samples["env_fz"] + 0.1 * (np.arange(len(samples)) >= at)
    assert run.holds(samples.with_columns({"env_fz": step}))["no_step"] is False


def test_nearest_points_are_on_the_surface_and_below_the_points() -> None:
    """Of points that are put at a distance along the normals of points of the surface."""
    rng = np.random.default_rng(3)
    ray = np.stack([rng.uniform(0.02, 0.04, 50), rng.uniform(-0.004, 0.004, 50), np.full(50, 0.02)], axis=-1)
    surface, _ = bone_saddle.nearest(ray, ray, 0.12)
    gradient = bone_saddle._gradient(surface / 0.1)
    normal = gradient / np.linalg.norm(gradient, axis=1, keepdims=True)
    found, directions = bone_saddle.nearest(surface + 0.002 * normal, surface + 0.0003 * rng.normal(size=(50, 3)), 0.12)
    assert np.abs(bone_function(found / 0.1)).max() < 1e-12
    assert np.abs(found - surface).max() < 1e-8
    assert np.abs(directions - normal).max() < 1e-5


def test_it_needs_bone_and_probe() -> None:
    with pytest.raises(ValueError, match="analysis = bone_saddle: needs a fixed body bone with the generated shape"):
        load("rolling_touch", "analysis=bone_saddle")


@pytest.mark.exhaustive
def test_figures_are_drawn(run: Run) -> None:
    findings = run.analysis.analyse(run.trial, run.samples)
    figure = run.analysis.figures(run.trial, run.samples, findings)[0]
    assert [panel.name for panel in figure.panels] == ["force", "angle", "depth"]
    assert not any(panel.empty for panel in figure.panels)
