"""Analyses of MuJoCo's worlds: what they claim holds, and fails where the hand would feel it wrong."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from claim_checks import Run

from haptic_bench import experiment
from haptic_experiments.common import mujoco_worlds
from haptic_experiments.mujoco_drawer import law
from haptic_experiments.mujoco_peg import Hole
from haptic_sim.parameters import ParameterError

pytest.importorskip("mujoco")

CLAIMS = {
    "mujoco_peg": ("walls", "bottom", "passive"),
    "mujoco_drawer": ("resistance", "paid", "passive"),
    "mujoco_clutter": ("paid", "passive"),
}


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return {name: Run(name) for name in CLAIMS}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CLAIMS)
def test_the_claims_hold(runs: dict[str, Run], name: str) -> None:
    assert runs[name].holds() == dict.fromkeys(CLAIMS[name], True)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "settings", "fails"),
    [
        ("mujoco_peg", "local_model.epsilon=0", {"walls", "bottom"}),
        ("mujoco_drawer", "environment.following=200 duration=2.2", {"resistance", "paid"}),
        ("mujoco_clutter", "environment.following=200 duration=2.2", {"paid"}),
    ],
)
def test_claims_fail_where_the_hand_feels_it_wrong(name: str, settings: str, fails: set[str]) -> None:
    """Walls that are known late; a tool that follows so stiffly that the hand does not feel what it pushes."""
    found = Run(name, *settings.split()).holds()
    assert {claim for claim, holds in found.items() if holds is False} == fails


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CLAIMS)
def test_a_hand_that_gains_work_is_noticed(runs: dict[str, Run], name: str) -> None:
    run = runs[name]
    turned = {f"rendered_f{axis}": -run.samples[f"rendered_f{axis}"] for axis in "xyz"}
    assert run.holds(run.samples.with_columns(turned))["passive"] is False


@pytest.mark.exhaustive
def test_walls_that_are_felt_elsewhere_are_noticed(runs: dict[str, Run]) -> None:
    run = runs["mujoco_peg"]
    stretched = {f"hand_p{axis}": 1.5 * run.samples[f"hand_p{axis}"] for axis in "xy"}
    assert run.holds(run.samples.with_columns(stretched))["walls"] is False
    deeper = {"hand_pz": 1.01 * run.samples["hand_pz"] - 0.01 * run.samples["hand_pz"][0]}
    assert run.holds(run.samples.with_columns(deeper))["bottom"] is False


def test_the_hole_and_the_drawer_are_those_of_the_files() -> None:
    hole = Hole(experiment.load("mujoco_peg")[0].experiment)
    assert hole.play == pytest.approx({"x": 5e-4, "y": 5e-4}, abs=1e-8)
    assert (hole.travel, hole.depth, hole.half) == pytest.approx((0.05, 0.04, 0.03), abs=1e-8)
    assert law(experiment.load("mujoco_drawer")[0].experiment) == (3.0, 10.0)


@pytest.mark.exhaustive
def test_the_work_of_mujocos_contacts_is_force_by_way(runs: dict[str, Run]) -> None:
    """Of the drawer: dry friction and damping over the way that it is pushed, at a mean speed of 35 mm/s."""
    samples = runs["mujoco_drawer"].samples
    gap = 0.34 - 0.015 - samples["hand_px"][0]  # between the tip, a ball, and the front
    pushed = samples["hand_px"].max() - samples["hand_px"][0] - gap
    assert 0.05 < pushed < 0.08
    expected = (3.0 + 10.0 * 0.035) * pushed
    assert samples[mujoco_worlds.ENGINE_WORK][-1] == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    ("name", "other", "said"),
    [
        ("mujoco_peg", "mujoco_clutter.xml", "set analysis=trial"),
        ("mujoco_drawer", "mujoco_peg.xml", "needs a joint drawer in"),
    ],
)
def test_an_analysis_of_another_world_is_refused(name: str, other: str, said: str) -> None:
    tool = "rod" if "clutter" in other else "peg"
    path = Path(experiment.find(name)).parent.parent / "worlds" / other
    with pytest.raises(ParameterError, match=said):
        experiment.load(name, [f"scene.file={path}", f"scene.tool={tool}", "scene.hold=null"])


@pytest.mark.parametrize(
    ("file", "tool"), [("quadruped.xml", "ball"), ("manipulator.xml", "ball"), ("stacker.xml", "box0")]
)
def test_models_of_a_public_collection_are_felt_unchanged(file: str, tool: str) -> None:
    """dm_control's suite, where it is installed: a ball or a box is pushed onto the floor, and holds the hand up."""
    found = importlib.util.find_spec("dm_control")
    if found is None or found.origin is None:
        pytest.skip("dm_control is not installed")
    scene = Path(found.origin).parent / "suite" / file
    drop = {"quadruped.xml": 2.9, "manipulator.xml": 0.39, "stacker.xml": 0.37}[file]  # [m]
    settings = [
        f"scene.file={scene}",
        f"scene.tool={tool}",
        "analysis=trial",
        f"operator.path=[[[0.1, 0, 0, 0], [2.0, 0, 0, -{drop}]]]",
        "operator.stiffness=200",
        "duration=2.5",
        "device.mass=2",
        "device.inertia=0.1",
        "controller.type=impedance_shaping",
        "controller.stiffness=[50,50,50,0.1,0.1,0.1]",
        "controller.damping=[5,5,5,0.002,0.002,0.002]",
    ]
    samples = Run("mujoco_clutter", *settings).samples
    assert samples["contacts"].max() > 0
    assert samples["env_fz"].max() > 0.1
