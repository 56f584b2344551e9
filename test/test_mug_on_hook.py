"""mug_on_hook: what the hand feels is where the shapes are; with the hull of the mug it is not."""

from __future__ import annotations

import pytest
from claim_checks import Run, load, names

from haptic_experiments import mug_on_hook


@pytest.fixture(scope="module")
def run() -> Run:
    return Run("mug_on_hook")


@pytest.mark.exhaustive
def test_the_claims_hold(run: Run) -> None:
    assert run.holds() == dict.fromkeys(names(mug_on_hook.ANALYSIS.CLAIMS), True)
    mug = next(mesh for mesh in run.trial.meshes if mesh["body"] == "mug")
    assert mug["as"] == "pieces" and mug["pieces"] > 10 and 0.0 < mug["error"] <= 0.0015


def test_the_hull_has_no_opening() -> None:
    holds = Run("mug_on_hook", "scene.bodies.mug.shapes[0].as=hull", "scene.bodies.mug.shapes[0].error=0.04").holds()
    assert holds["through"] is False and holds["passive"] is True  # where it rests is within the error of the hull


@pytest.mark.exhaustive
def test_a_mug_that_rests_elsewhere_is_found(run: Run) -> None:
    lower = run.samples.with_columns({"tool_pz": run.samples["tool_pz"] - 0.003 * (run.samples["time"] > 2.5)})
    assert run.holds(lower)["hangs"] is False


@pytest.mark.exhaustive
def test_mass_is_that_of_the_mug_and_not_of_its_hull(run: Run) -> None:
    """Its centre of mass is on the side of the handle, and below the middle, where the bottom is."""
    world = run.trial.world
    joint = world.model.getJointId("mug")
    assert world.model.inertias[joint].mass == pytest.approx(0.3)
    moments = world.free_inertia[0].diagonal()
    assert 0.3 * 0.04**2 * 0.5 < moments[2] < 0.3 * 0.05**2  # nearly that of a thin wall about its axis
    assert len(world.shape_bodies) > 10


def test_it_needs_mug_and_hook() -> None:
    with pytest.raises(ValueError, match="analysis = mug_on_hook: needs a body mug with the generated shape"):
        load("rolling_touch", "analysis=mug_on_hook")


@pytest.mark.exhaustive
def test_figures_are_drawn(run: Run) -> None:
    findings = run.analysis.analyse(run.trial, run.samples)
    figure = run.analysis.figures(run.trial, run.samples, findings)[0]
    assert [panel.name for panel in figure.panels] == ["down", "rod"]
    assert not any(panel.empty for panel in figure.panels)
