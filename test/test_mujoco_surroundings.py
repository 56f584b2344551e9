"""MuJoCo as the surroundings of a local model: the forces that our own engine gives, and contacts before they touch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from field_scenes import torus
from offline_runs import run_unrecorded
from world_builder import thesis_material

from haptic_bench import experiment
from haptic_sim.messages import LocalGeometry, ToolCommand
from haptic_sim.parameters import ParameterError
from haptic_sim.tool.local_model import FullParameters, Proxy
from haptic_sim.tool.mujoco_surroundings import SAME, Features, MujocoSurroundings, band
from haptic_sim.tool.surroundings import Surroundings, WorldSurroundings
from haptic_sim.worlds.building import build
from haptic_sim.worlds.mujoco_files import find_tool
from haptic_sim.worlds.parameters import MujocoParameters, WorldParameters

mujoco = pytest.importorskip("mujoco")

RATE, EPSILON = 1000.0, 0.005  # [Hz], [m]
HALF, MASS = (0.04, 0.03, 0.02), 0.5  # [m], [kg] of the box
"""Of the tool: a box above the floor."""


def opened(bodies: str, head: str = "", option: str = 'timestep="0.001"', epsilon: float = EPSILON, **keys: Any) -> Any:
    """A MuJoCo world and what surrounds the tool in it."""
    model = mujoco.MjModel.from_xml_string(f"<mujoco><option {option}/>{head}<worldbody>{bodies}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    tool = find_tool(model, data, MujocoParameters(file="-", tool="tool"))
    return model, data, tool, MujocoSurroundings(model, data, tool, epsilon=epsilon, rate=RATE, **keys)


def box(height: float, extra: str = "", body: str = "") -> str:
    size = " ".join(map(str, HALF))
    return f"""<body name="tool" pos="0 0 {height}" {body}><freejoint/>
        <geom name="tool" type="box" size="{size}" mass="{MASS}" {extra}/></body>"""


FLOOR = '<geom name="floor" type="plane" size="1 1 1"/>'


def listed(surroundings: Surroundings) -> np.ndarray:
    """The constraints of a survey at the start."""
    geometry = surroundings.local_geometry()
    surroundings.report(geometry, np.zeros(6))  # type: ignore[attr-defined]
    return geometry.constraints[: len(geometry)].copy()


def feel(surroundings: Surroundings, world: Any, target: np.ndarray, seconds: float = 1.0, every: int = 17) -> Any:
    """A spring of 2000 N/m and a damper between a point [m] and the hand; the tool's state after that time."""
    contact = thesis_material(stiffness=5000.0, damping=20.0)
    local = FullParameters(epsilon=EPSILON)
    model = Proxy(world, contact, "penalty", "full", np.full(6, np.inf), RATE, local, every / RATE)
    state, command, geometry = model.tool_state(), ToolCommand(), surroundings.local_geometry()
    for tick in range(round(seconds * RATE)):
        if not tick % every:
            surroundings.survey(state, tick // every, geometry)
            model.update(geometry, tick)
        command.stamp(tick, 0)
        command.wrench[:3] = 2000.0 * (target - state.pose[:3]) - 40.0 * state.twist[:3]
        command.wrench[3:] = -0.05 * state.twist[3:]
        model.step(command, state)
    return state


@pytest.mark.exhaustive
@pytest.mark.parametrize("sideways", [0.0, 0.003])
@pytest.mark.parametrize("depth", [0.0, 0.002, 0.006])
def test_a_pressed_box_is_felt_as_in_our_own_engine(depth: float, sideways: float) -> None:
    """A hand's spring ends `depth` below where the box touches the floor, which tilts no face of it: the same force at
    the hand within 2 %, and that of springs in series, with the weight: four corners of 5000 N/m."""
    start = HALF[2] + 1e-3
    bodies = {
        "floor": {"joint": "fixed", "shapes": [{"type": "plane", "normal": [0, 0, 1], "offset": 0.0}]},
        "tool": {
            "joint": "free",
            "position": [0, 0, start],
            "mass": MASS,
            "shapes": [{"type": "box", "size": [2 * side for side in HALF]}],
        },
    }
    ours = build(WorldParameters.model_validate({"bodies": bodies, "tool": "tool"}), Path())
    target = np.array([sideways, 0.0, HALF[2] - depth])
    own = feel(WorldSurroundings(ours, thesis_material(), epsilon=EPSILON, rate=RATE), ours, target)
    _, _, tool, surroundings = opened(FLOOR + box(start))
    theirs = feel(surroundings, tool.world, target)
    weight, stiffness = 9.81 * MASS, 4 * 5000.0
    pressed = (2000.0 * depth + weight) / (2000.0 + stiffness)  # how deep
    assert theirs.contacts == own.contacts == 4
    assert own.wrench[2] == pytest.approx(stiffness * pressed, rel=1e-3)
    assert theirs.wrench[2] == pytest.approx(own.wrench[2], rel=0.02)
    assert theirs.pose[2] == pytest.approx(HALF[2] - pressed, abs=2e-5)
    np.testing.assert_allclose(theirs.wrench[:2], own.wrench[:2], atol=1e-3)


def test_mujocos_own_force_is_told() -> None:
    """The wrench of a survey, while MuJoCo's tool follows one that rests: what its contacts do in equilibrium."""
    _, _, tool, surroundings = opened(FLOOR + box(HALF[2]), following=200.0)
    geometry = surroundings.local_geometry()
    state = tool.world.tool_sizes().tool_state()
    sunk = 1e-3
    for step in range(30):
        state.tick = 20 * step - 1
        state.q[:], state.v[:] = tool.world.q, 0.0
        state.q[2] -= sunk
        surroundings.survey(state, step, geometry)
    lag = geometry.q[2] - state.q[2]
    assert 0.5 * sunk < lag <= sunk
    np.testing.assert_allclose(geometry.wrench, [0, 0, MASS * 200.0**2 * lag, 0, 0, 0], rtol=1e-3, atol=1e-2)
    np.testing.assert_array_equal(geometry.gravity, tool.world.model.createData().g * 0 + [0, 0, 9.81 * MASS, 0, 0, 0])


@pytest.mark.parametrize("release", [(3, 5), (3, 8), (3, 9), (4, 0)])
@pytest.mark.parametrize("margin", [0.0, 0.002])
def test_the_band_has_both_meanings_of_margin_and_gap(release: tuple[int, int], margin: float) -> None:
    """Listed `reach` before the force begins, which is where it was."""
    gap, reach = 0.0005, EPSILON
    new_margin, new_gap = band(release, margin, gap, reach)
    if release >= (3, 9):
        force, listed = (margin, new_margin), (margin + gap, new_margin + new_gap)
    else:
        force, listed = (margin - gap, new_margin - new_gap), (margin, new_margin)
    assert force[1] == pytest.approx(force[0])
    assert listed[1] == pytest.approx(listed[0] + reach)


@pytest.mark.parametrize("margin", [0.0, 0.003])
@pytest.mark.parametrize("gap", [-1e-4, 1e-4, 0.0049, 0.0051])
def test_near_contacts_are_listed_without_force(gap: float, margin: float) -> None:
    """Separation counts from where MuJoCo's force begins, the margin of both; epsilon beyond that nothing is listed."""
    model, data, _, surroundings = opened(FLOOR + box(HALF[2] + margin + gap, f'margin="{margin}"'))
    found = listed(surroundings)
    assert len(found) == (4 if gap < EPSILON else 0)
    np.testing.assert_allclose(found["separation"], gap, atol=1e-9)
    np.testing.assert_allclose(found["normal"], np.tile([0, 0, 1.0], (len(found), 1)), atol=1e-12)
    np.testing.assert_allclose(found["position"][:, 2], margin, atol=1e-9)
    mujoco.mj_forward(model, data)
    assert (data.qfrc_constraint.any()) == (gap < 0)


def test_the_normal_is_to_the_tool_whichever_geom_comes_first() -> None:
    """A ball below the tool and one above, before and after it in the file."""
    ball = '<body name="{0}" pos="0 0 {1}"><geom type="sphere" size="0.01"/></body>'
    first, last = ball.format("below", -HALF[2] - 0.012), ball.format("above", HALF[2] + 0.012)
    for bodies in (first + box(0.0) + last, last + box(0.0) + first):
        _, _, tool, surroundings = opened(bodies)
        found = listed(surroundings)
        named = {tool.world.touching[row["body"]]: row for row in found}
        assert set(named) == {("below", "tool"), ("above", "tool")}
        for name, side in (("below", 1.0), ("above", -1.0)):
            row = named[name, "tool"]
            np.testing.assert_allclose(row["normal"], [0, 0, side], atol=1e-9)
            np.testing.assert_allclose(row["position"], [0, 0, -side * (HALF[2] + 0.002)], atol=1e-9)
            assert row["separation"] == pytest.approx(0.002, abs=1e-9)
            assert row["friction_static"] == row["friction_kinetic"] == 1.0


def test_a_contact_without_friction_dimensions_has_none() -> None:
    plane = FLOOR.replace("/>", ' condim="1"/>')
    assert set(listed(opened(plane + box(HALF[2], 'condim="1"'))[3])["friction_kinetic"]) == {0.0}


def test_what_the_tool_touches_moves_with_its_velocity_and_mobility() -> None:
    """A block of 0.2 kg below the tool, which four contacts push together: 1 / m for the resultant of each of them,
    4 / m in all; a contact alone, 1 / m + its lever. It moves up and turns."""
    block = '<body name="block" pos="0 0 -0.03"><freejoint/><geom type="box" size=".1 .1 .0095" mass="0.2"/></body>'
    _, data, tool, surroundings = opened(block + box(0.0))
    v, w = np.array([0.0, 0.0, 0.05]), np.array([0.3, -0.2, 0.1])
    data.qvel[:3], data.qvel[3:6] = v, w  # of the block
    found = listed(surroundings)
    assert len(found) == 4
    for row in found:
        expected = v[2] + np.cross(w, row["position"] - [0, 0, -0.03])[2]
        assert row["normal_velocity"] == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(found["mobility"], 4 / 0.2, rtol=1e-6)
    geometry = surroundings.local_geometry()
    surroundings.report(geometry, np.zeros(6))
    assert tool.world.elsewhere == ("block",)
    np.testing.assert_allclose(geometry.poses, [[0, 0, -0.03, 0, 0, 0, 1]], atol=1e-12)
    np.testing.assert_allclose(geometry.twists, [[*v, *w]], atol=1e-12)
    ball = '<body name="ball" pos=".02 .01 -.031"><freejoint/><geom type="sphere" size=".01" mass=".3"/></body>'
    (row,) = listed(opened(ball + box(0.0))[3])
    assert row["mobility"] == pytest.approx(1 / 0.3, rel=1e-6)


@pytest.mark.parametrize(("dimensions", "torsional", "rolling"), [(3, 0.0, 0.0), (4, 0.003, 0.0), (6, 0.003, 0.002)])
def test_rolling_and_torsional_friction_are_those_of_a_contact_with_their_dimensions(
    dimensions: int, torsional: float, rolling: float
) -> None:
    """With the angular velocity of what the tool touches; MuJoCo takes the larger coefficient of two geoms."""
    more = f'condim="{dimensions}" friction="1 0.003 0.002"'
    block = f'<body pos="0 0 -0.03"><freejoint/><geom type="box" size=".1 .1 .0095" mass="0.2" {more}/></body>'
    _, data, _, surroundings = opened(block + box(0.0, more))
    data.qvel[3:6] = w = 0.3, -0.2, 0.1  # of the block
    found = listed(surroundings)
    assert len(found) == 4
    assert set(found["friction_torsional"]) == {torsional}
    assert set(found["friction_rolling"]) == {rolling}
    expected = np.array(w) if dimensions > 3 else np.zeros(3)
    np.testing.assert_allclose(found["angular_velocity"], np.tile(expected, (4, 1)), atol=1e-12)


def test_what_a_linkage_yields_is_seen_at_its_contact() -> None:
    """A slide of 2 kg with armature 1 kg that moves at 60 degrees to the normal."""
    slide = """<body name="slide" pos="0 0 -.041"><joint type="slide" axis=".866025403784 0 .5" armature="1"/>
        <geom type="sphere" size=".02" mass="2"/></body>"""
    _, data, _, surroundings = opened(slide + box(0.0))
    data.qvel[0] = 0.4
    (row,) = listed(surroundings)
    assert row["mobility"] == pytest.approx(0.25 / 3.0, rel=1e-6)
    assert row["normal_velocity"] == pytest.approx(0.2, rel=1e-6)


def test_identities_hold_while_a_corner_slides_and_another_comes() -> None:
    features = Features()
    corners = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]) * 0.02
    pair = np.array([3, 3, 3, 3])
    first = features.number(pair, corners, corners)
    assert len(set(first)) == 4
    slid = features.number(pair[:3], corners[[2, 0, 1]], corners[[2, 0, 1]] + [0.5, 0, 0])  # on a face of the other
    np.testing.assert_array_equal(slid, first[[2, 0, 1]])
    back = features.number(pair, corners, corners + [0.6, 0, 0])
    np.testing.assert_array_equal(back[:3], first[:3])
    assert back[3] not in first  # gone for a survey: a new one
    other = features.number(pair + 1, corners, corners + [0.6, 0, 0])
    assert not set(other) & {*first, *back}
    far = features.number(pair + 1, corners + 2 * SAME, corners + [0.6, 0, 2 * SAME])
    assert not set(far) & set(other)


def test_the_tool_pushes_what_it_meets_and_follows_the_proxy() -> None:
    """A tool that moves at 0.1 m/s sweeps a block along; in free space it is where the surveyed states are."""
    block = '<body name="block" pos=".1 0 .02"><freejoint/><geom type="box" size=".02 .02 .02" mass="0.1"/></body>'
    _, data, tool, surroundings = opened(FLOOR + block + box(HALF[2] + 0.001), following=200.0)
    geometry = surroundings.local_geometry()
    state = tool.world.tool_sizes().tool_state()
    for step in range(60):
        tick = 17 * step - 1
        state.tick = tick
        state.q[:], state.v[:] = tool.world.q, 0.0
        state.q[0], state.v[0] = 0.1 * (tick + 1) / RATE, 0.1
        surroundings.survey(state, step, geometry)
        assert geometry.tick == tick + 1
        if geometry.q[0] < 0.03:
            np.testing.assert_allclose(geometry.q[:3], state.q[:3], atol=2e-4)
    assert geometry.q[0] == pytest.approx(state.q[0], abs=2e-3)
    assert geometry.poses[0, 0] == pytest.approx(geometry.q[0] + HALF[0] + 0.02, abs=2e-3)
    assert geometry.wrench[0] < -0.05
    assert data.time == pytest.approx(17 * 59 / RATE)


def test_time_that_is_no_multiple_of_mujocos_step_is_kept() -> None:
    """Steps of 3 ms, surveys every 17 ms: never ahead, never a step behind."""
    _, data, tool, surroundings = opened(FLOOR + box(0.1), option='timestep="0.003"')
    state, geometry = tool.world.tool_sizes().tool_state(), surroundings.local_geometry()
    state.q[:] = tool.world.q
    for step in range(20):
        state.tick = 17 * step - 1
        surroundings.survey(state, step, geometry)
        assert 0.0 <= 17e-3 * step - data.time + 1e-9 < 0.003 + 1e-9


def test_a_world_that_is_too_slow_loses_time() -> None:
    """A gap of 1 s at 60 Hz: two periods are simulated, the tool arrives, and later surveys go on as ever."""
    _, data, tool, surroundings = opened(box(0.1), following=200.0)
    state, geometry = tool.world.tool_sizes().tool_state(), surroundings.local_geometry()
    state.q[:] = tool.world.q
    state.tick = -1
    surroundings.survey(state, 0, geometry)
    state.tick, state.q[0] = 999, tool.world.q[0] + 0.001
    surroundings.survey(state, 1, geometry)
    assert data.time == pytest.approx(0.033)
    assert geometry.tick == 1000
    for step in range(2, 12):
        state.tick += 17
        surroundings.survey(state, step, geometry)
    assert data.time == pytest.approx(0.033 + 10 * 0.017)
    assert geometry.q[0] == pytest.approx(state.q[0], abs=1e-5)


def test_a_world_that_mujoco_gives_up_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its log
    _, _, tool, surroundings = opened(FLOOR + box(0.1))
    state, geometry = tool.world.tool_sizes().tool_state(), surroundings.local_geometry()
    state.q[:] = tool.world.q
    state.tick, state.q[0] = 5, 1e9
    with pytest.raises(RuntimeError, match="unstable: MuJoCo's simulation at"):
        surroundings.survey(state, 0, geometry)
        state.tick = 500
        surroundings.survey(state, 0, geometry)


def test_the_nearest_are_kept_where_there_are_more_than_a_message_takes() -> None:
    places = [(1e-3 * (i % 20) - 0.01, 1e-3 * (i // 20) - 0.01, -0.0215 - 1e-6 * i) for i in range(400)]
    balls = "".join(f'<geom type="sphere" size=".001" pos="{x} {y} {z}"/>' for x, y, z in places)
    found = listed(opened(balls + box(0.0))[3])
    assert len(found) == 256
    np.testing.assert_allclose(np.sort(found["separation"]), 0.0005 + 1e-6 * np.arange(256), atol=1e-9)


def test_offline_runs_are_repeatable_and_stamped() -> None:
    trial = experiment.load("mujoco_peg", ["duration=0.3"])[0]
    first, second = run_unrecorded(trial), run_unrecorded(trial)
    for name in first.names:
        np.testing.assert_array_equal(first[name], second[name])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["environment.engine=haptics"], "environment.engine = haptics: the scene mujoco is simulated by mujoco"),
        (["local_model.type=none", "environment.rate=null"], "local_model.type = none: what MuJoCo simulates is felt"),
        (["environment.rate=null"], "environment.rate = null: MuJoCo's world needs one"),
        (["scene.tool=pag"], "scene.tool = pag: unknown body; did you mean peg? (known: world, block, peg)"),
        (["scene.tool=block"], "scene.tool = block: must be a body that moves"),
        (["scene.file=none.xml"], "cannot be read: No such file"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: list[str], said: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        experiment.load("mujoco_peg", settings)
    assert said in "; ".join(refusal.value.problems)


def test_mujoco_is_for_its_own_scenes() -> None:
    settings = ["environment.engine=mujoco", "local_model.type=full", "environment.rate=60"]
    with pytest.raises(ParameterError, match="the scene enclosure is simulated by haptics"):
        experiment.load("corner_peg", settings)


def test_a_geometry_is_what_a_local_model_expects() -> None:
    surroundings = opened(FLOOR + box(HALF[2]))[3]
    geometry = surroundings.local_geometry()
    assert isinstance(geometry, LocalGeometry)
    surroundings.warm_up()


def test_what_is_felt_acts_on_its_own_line() -> None:
    """A tool that is beside the one of the local model is not turned by a force that its contacts balance."""
    _, _, _, surroundings = opened(box(1.0))
    body = surroundings._body
    place = body.p_WH + np.array([0.01, -0.02, 0.0])
    at_contact = np.array([1.0, 2.0, 5.0])  # under the tool that follows: no torque about its hand point
    felt = np.concatenate([at_contact, np.cross(body.p_WH - place, at_contact)])
    still = np.zeros(body.nv)
    force = surroundings._follower.force(body.q, still, still, felt, place, 1e-3)
    np.testing.assert_allclose(force, -body.J_H.T @ np.concatenate([at_contact, np.zeros(3)]), atol=1e-12)


def test_contacts_with_fields_of_mujoco_are_listed_once_they_overlap_which_is_said() -> None:
    """A ball above the tube of a torus: MuJoCo's `sdf` has contacts from the overlap on, not from epsilon on."""
    vertices, triangles = torus(0.05, 0.02, (36, 18))
    numbers = [" ".join(map(repr, array.ravel().tolist())) for array in (vertices, triangles)]
    head = f'<asset><mesh name="ring" vertex="{numbers[0]}" face="{numbers[1]}"/></asset>'
    found = {}
    for gap in (0.0015, -0.0012):
        ball = f"""<body name="tool" pos="0.05 0 {0.035 + gap}"><freejoint/>
            <geom type="sphere" size="0.015" mass="0.1"/></body>"""
        _, _, tool, surroundings = opened(f'<geom name="ring" type="sdf" mesh="ring"/>{ball}', head)
        found[gap] = listed(surroundings)
        assert any("signed distance fields of MuJoCo" in one and one.endswith(": ring") for one in tool.world.notes)
    assert len(found[0.0015]) == 0
    deepest = found[-0.0012][np.argmin(found[-0.0012]["separation"])]
    assert deepest["separation"] == pytest.approx(-0.0012, abs=1e-3)
    assert deepest["normal"][2] > 0.95
