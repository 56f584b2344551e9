"""Gravity compensation: weights that are balanced, against Pinocchio's inverse dynamics and MuJoCo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest

from haptic_sim import World as Program
from haptic_sim.worlds.building import build
from haptic_sim.worlds.isolated import isolate_tool
from haptic_sim.worlds.parameters import MujocoParameters, WorldParameters
from haptic_sim.worlds.world_setup import WorldSetup

HERE = Path(__file__).parent
ARM = {"arm": {"path": "data/arm.urdf"}}
BALL = {"joint": "free", "mass": 2.0, "inertia": [0.01, 0.02, 0.025], "position": [3.0, 0.0, 0.0]}
ROD = {
    "joint": "revolute",
    "axis": [0.0, 1.0, 0.0],
    "mass": 1.5,
    "inertia": [0.02, 0.02, 0.001],
    "centre_of_mass": [0.3, 0.0, 0.1],
    "position": [6.0, 0.0, 0.0],
}


def world(**document: Any) -> WorldSetup:
    return build(WorldParameters.model_validate({"ignore": [["arm", "arm"]], "files": ARM, **document}), HERE)


@pytest.mark.parametrize(
    ("keys", "balanced"),
    [
        ({"files": {"arm": {**ARM["arm"], "gravity_compensation": True}}}, "arm"),
        ({"gravity_compensation": True}, "arm"),
        ({"bodies": {"ball": {**BALL, "gravity_compensation": True}, "rod": ROD}}, "ball"),
        ({"bodies": {"ball": BALL, "rod": {**ROD, "gravity_compensation": True}}}, "rod"),
    ],
)
def test_the_weight_of_the_chosen_links_alone_is_balanced(keys: dict[str, Any], balanced: str) -> None:
    """The bias is that of inverse dynamics with a force -m g at the centre of mass of each chosen link."""
    one = world(**{"bodies": {"ball": BALL, "rod": ROD}, "tool": "arm/lower", **keys})
    model, body, rng = one.model, one.bodies(1e-3), np.random.default_rng(20261)
    for _ in range(3):
        body.q[:] = pin.integrate(model, one.q, rng.normal(size=model.nv))
        body.v[:] = rng.normal(size=model.nv)
        body.refresh()
        data, external, potential = model.createData(), pin.StdVec_Force(), 0.0
        pin.forwardKinematics(model, data, body.q)
        for joint, inertia in enumerate(model.inertias):
            weight = pin.Force(inertia.mass * model.gravity.linear, np.zeros(3))
            centre = pin.SE3(data.oMi[joint].rotation.T, inertia.lever)  # world axes at the centre, in the joint's
            held = one.body_names[joint].startswith(balanced)
            external.append(centre.act(-weight) if held else pin.Force.Zero())
            potential -= 0.0 if held else float(weight.linear @ data.oMi[joint].act(inertia.lever))
        expected = pin.rnea(model, data, body.q, body.v, np.zeros(model.nv), external)
        np.testing.assert_allclose(body.data.nle, expected, atol=1e-9)
        assert body.potential_energy == pytest.approx(potential, abs=1e-9)


def test_a_balanced_arm_stays_and_moves_without_a_change_of_energy() -> None:
    still = Program({"gravity_compensation": True, "tool": "arm/lower", "files": ARM}, folder=HERE, rate=1000.0)
    start = dict(still.coordinates)
    for _ in range(200):
        still.step(np.zeros(6))
    assert dict(still.coordinates) == pytest.approx(start, abs=1e-12)


def test_a_balanced_body_floats_while_another_falls() -> None:
    bodies = {"ball": {**BALL, "gravity_compensation": True}, "other": {**BALL, "position": [0.0, 0.0, 0.0]}}
    simulation = Program({"tool": "ball", "bodies": bodies}, rate=1000.0)
    for _ in range(100):
        simulation.step(np.zeros(6))
    heights = {name: body.position[2] for name, body in simulation.bodies.items()}
    assert heights["ball"] == 0.0
    assert heights["other"] == pytest.approx(-9.81 * 0.1 * 0.101 / 2, rel=1e-9)  # semi-implicit Euler


def test_the_tool_of_a_local_model_is_balanced_as_in_the_world() -> None:
    whole = world(tool="arm/lower", bodies={"ball": BALL}, gravity_compensation=True)
    assert whole.balanced
    alone = isolate_tool(whole)
    assert not alone.balanced  # it is all that moves: it has no gravity
    np.testing.assert_allclose(alone.bodies(1e-3).data.g, 0.0, atol=1e-12)


def test_a_world_that_is_balanced_altogether_has_no_gravity() -> None:
    one = world(tool="arm/lower", gravity_compensation=True)
    assert not one.balanced
    assert not one.model.gravity.linear.any()


def test_mujocos_tool_is_balanced_too(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    from haptic_sim.worlds.mujoco_files import find_tool, load

    file = tmp_path / "arm.xml"
    file.write_text(
        "<mujoco><worldbody><body name='upper'><joint type='hinge' axis='0 1 0'/>"
        "<geom type='capsule' size='0.02' fromto='0 0 0 0.3 0 0'/><body name='lower' pos='0.3 0 0'>"
        "<joint type='hinge' axis='0 1 0'/><geom type='capsule' size='0.02' fromto='0 0 0 0.3 0 0'/></body></body>"
        "<body name='ball' pos='0 1 0'><freejoint/><geom size='0.1'/></body></worldbody></mujoco>"
    )
    parameters = MujocoParameters(file=str(file), tool="lower", gravity_compensation=True)
    model, data = load(parameters)
    tool = find_tool(model, data, parameters)
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(data.qacc[tool.v], 0.0, atol=1e-12)
    assert data.qacc[4] == pytest.approx(-9.81)  # the ball falls
    np.testing.assert_allclose(tool.world.bodies(1e-3).data.nle, 0.0, atol=1e-12)


def test_the_balance_of_energy_of_a_pushed_arm_leaves_out_what_is_balanced() -> None:
    simulation = Program({"gravity_compensation": True, "tool": "arm/lower", "files": ARM}, folder=HERE, rate=4000.0)
    for _ in range(1000):
        simulation.step([0.2, 0.0, 0.3, 0.0, 0.0, 0.0])
    energy = simulation.energy
    assert energy["potential"] == 0.0
    assert energy["injected"] > 1e-3
    assert abs(energy["numerical"]) < 0.01 * energy["injected"]
