"""FAULRING's three tools as experiments: their claims, columns and figures, and what makes a claim fail."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from conftest import sampled
from offline_runs import run_unrecorded

from haptic_bench import experiment
from haptic_bench.analysis.base import analysis_of
from haptic_bench.analysis.claims import Findings
from haptic_bench.analysis.figures import Curve
from haptic_bench.recording.samples import Samples
from haptic_experiments.common import exact_tools
from haptic_sim.parameters import ParameterError
from haptic_view.figures import Style

TOOLS = ("rolling_disk", "disk_on_sphere", "two_link_circle")
LOCAL = {"rolling_disk": "parallel_parking", "disk_on_sphere": "radial_error", "two_link_circle": "link2_does_not"}


def run(name: str, *settings: str, compare: bool = False) -> tuple[Any, Samples, Findings]:
    (trial,) = experiment.load(name, settings)
    analysis = analysis_of(trial.experiment)
    samples = run_unrecorded(trial)
    return trial, samples, analysis.analyse(trial, samples, compare=compare)


def holds(findings: Findings) -> dict[str, bool | None]:
    return {claim.name: claim.holds for claim in findings.claims}


@pytest.fixture(scope="module", params=TOOLS)
def whole(request: pytest.FixtureRequest) -> tuple[Any, Samples, Findings]:
    return run(request.param, compare=True)


@pytest.mark.exhaustive
def test_every_claim_holds(whole: tuple[Any, Samples, Findings]) -> None:
    trial, _, findings = whole
    found = holds(findings)
    assert found and all(value is True for value in found.values())
    assert {LOCAL[trial.experiment.name], "constraints_hold", "follows_reference", "explicit_energy"} <= set(found)


def test_columns_are_in_the_sources_coordinates(whole: tuple[Any, Samples, Findings]) -> None:
    trial, samples, _ = whole
    names = {f"{x}{i}" for x in ("x", "xd") for i in range(1, 7)}
    assert names | {"lambda1", "residual_holonomic", "residual_nonholonomic", "energy"} <= set(samples.names)
    # rates are those of the coordinates, to the second order of the period
    for i in range(1, 7):
        x, rate = samples[f"x{i}"], samples[f"xd{i}"]
        mean = 0.5 * (rate[:-1] + rate[1:]) / trial.experiment.rate
        np.testing.assert_allclose(np.diff(x), mean, rtol=0, atol=2e-6)
    np.testing.assert_allclose(samples["energy"], samples["energy_kinetic"] + samples["energy_potential"], atol=0)


@pytest.mark.drawn
def test_figures_and_a_sweep_can_be_drawn(whole: tuple[Any, Samples, Findings]) -> None:
    trial, samples, findings = whole
    analysis = analysis_of(trial.experiment)
    panels = [panel for figure in analysis.figures(trial, samples, findings) for panel in figure.panels]
    assert len({panel.name for panel in panels}) == len(panels) >= 6
    assert analysis.sweep_figures([Curve("one", trial, samples, Style()), Curve("two", trial, samples, Style())])


@pytest.mark.parametrize("name", sampled(TOOLS, "rolling_disk"))
def test_the_explicit_algorithm_is_told_from_the_reference(name: str) -> None:
    """It keeps the constraints, but does not follow the equations in independent coordinates."""
    _, _, findings = run(name, "constraint.integrator=explicit", compare=True)
    found = holds(findings)
    assert found["constraints_hold"] is True and found["follows_reference"] is False


def test_a_disk_that_slides_is_noticed() -> None:
    trial, samples, _ = run("rolling_disk", "duration=2")
    analysis = analysis_of(trial.experiment)
    sideways = samples["v1"] + 1e-3 * np.sin(samples["time"])
    slid = samples.with_columns({"v1": sideways})
    slid = slid.with_columns(analysis.columns(trial, slid))
    assert holds(analysis.analyse(trial, slid, compare=False))["rolls"] is False
    lifted = samples.with_columns({"tool_pz": samples["tool_pz"] + 2e-9})
    assert holds(analysis.analyse(trial, lifted, compare=False))["height_and_tilt"] is False


def test_pushed_sideways_the_disk_stays_where_it_is() -> None:
    heading = 0.3
    across = [-math.sin(heading), math.cos(heading), 0.0, 0.0, 0.0, 0.0]
    _, samples, _ = run("rolling_disk", "operator.type=constant", f"operator.wrench={across}", "duration=1")
    assert np.hypot(samples["x1"], samples["x2"]).max() < 1e-15
    # and the plane answers the push with as much
    np.testing.assert_allclose(samples.wrench("env")[:, :3], [[-across[0], -across[1], 0.0]] * len(samples), atol=1e-12)


def test_tangential_speed_is_positive_counter_clockwise() -> None:
    _, samples, _ = run("two_link_circle", "duration=1")
    angle = np.unwrap(np.arctan2(samples["x2"], samples["x1"]))
    np.testing.assert_allclose(
        np.gradient(angle, samples["time"])[5:-5] * 0.05, samples["tangential_speed"][5:-5], atol=1e-4
    )
    assert samples["tangential_speed"][-1] > 0.0
    links = samples["energy_link1"] + samples["energy_link2"]
    np.testing.assert_allclose(links, samples["energy"], rtol=1e-12, atol=1e-18)


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("two_link_circle", ["scene.length=0.05"], "scene.start = 0 rad: the end point is 0.26 m from scene.base"),
        ("two_link_circle", ["operator.centre=[0.1,0]"], r"operator.centre = \[0.1, 0.0\] m: must be scene.centre"),
        ("rolling_disk", ["scene.velocity=[1,0,0,0,0,0]"], "constraint.solver = projection: "),
        ("rolling_disk", ["constraint.rolling=printed"], "is for the scene rolling_spheres"),
        ("rolling_disk", ["scene.inertia=[0.0025,0.0025,0]"], r"scene.inertia\[2\] = 0"),
        ("disk_on_sphere", ["local_model.type=full"], "set local_model.type=none"),
        ("disk_on_sphere", ["constraint.solver=stabilised", "constraint.integrator=explicit"], "has rk4 only"),
    ],
)
def test_what_cannot_be_is_named(name: str, settings: list[str], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        experiment.load(name, settings)


def test_energy_is_the_sum() -> None:
    samples = Samples({"energy_kinetic": np.array([1.0, 2.0]), "energy_potential": np.array([-1.0, 3.0])})
    np.testing.assert_array_equal(exact_tools.energy(samples), [0.0, 5.0])
