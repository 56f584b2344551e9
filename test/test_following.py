"""The tool of a slow world, in our engine and in MuJoCo: it pushes with what the hand feels, and follows the proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from world_builder import thesis_material

from haptic_sim.messages import LocalGeometry, ToolState
from haptic_sim.tool.mujoco_surroundings import MujocoSurroundings
from haptic_sim.tool.surroundings import SimulatedSurroundings, WorldSurroundings
from haptic_sim.worlds.building import build
from haptic_sim.worlds.mujoco_files import find_tool
from haptic_sim.worlds.parameters import MujocoParameters, WorldParameters
from haptic_sim.worlds.world_setup import WorldSetup

RATE, EVERY = 1000.0, 17  # [Hz], ticks from survey to survey
SIDE = 0.04  # [m] of the cubes
GAP = 1e-4  # [m]
ENGINES = ("haptics", "mujoco")


def cubes(**tool: Any) -> WorldSetup:
    """The tool, a cube of 0.5 kg at the origin, one of 1 kg at its right, and a wall behind that; no weight."""
    cube = [{"type": "box", "size": [SIDE] * 3}]
    bodies = {
        "wall": {"joint": "fixed", "shapes": [{"type": "plane", "normal": [-1, 0, 0], "offset": -1.5 * SIDE}]},
        "block": {"joint": "free", "mass": 1.0, "position": [SIDE, 0, 0], "shapes": cube},
        "tool": {"joint": "free", "mass": 0.5, "shapes": cube} | tool,
    }
    return build(WorldParameters.model_validate({"gravity": [0, 0, 0], "bodies": bodies, "tool": "tool"}), Path())


def opened(engine: str, following: float) -> SimulatedSurroundings:
    """The cubes, in one of the engines."""
    if engine == "haptics":
        return WorldSurroundings(cubes(), thesis_material(), epsilon=0.005, rate=RATE, following=following)
    mujoco = pytest.importorskip("mujoco")
    cube = f'<geom type="box" size="{SIDE / 2} {SIDE / 2} {SIDE / 2}" mass="{{}}"/>'
    model = mujoco.MjModel.from_xml_string(f"""<mujoco><option timestep="0.001" gravity="0 0 0"/><worldbody>
        <geom type="box" size=".1 .1 .1" pos="{1.5 * SIDE + 0.1} 0 0"/>
        <body name="block" pos="{SIDE} 0 0"><freejoint/>{cube.format(1.0)}</body>
        <body name="tool"><freejoint/>{cube.format(0.5)}</body></worldbody></mujoco>""")
    data = mujoco.MjData(model)
    tool = find_tool(model, data, MujocoParameters(file="-", tool="tool"))
    return MujocoSurroundings(model, data, tool, epsilon=0.005, rate=RATE, following=following)


def survey(
    surroundings: SimulatedSurroundings, count: int, speed: float = 0.0, force: float = 0.0
) -> tuple[LocalGeometry, ToolState]:
    """Surveys of a proxy that moves along x, on which contacts act with a force [N]; the last one."""
    geometry, state = surroundings.local_geometry(), surroundings._sizes.tool_state()
    state.q[:] = surroundings._body.q
    start = float(state.q[0])
    for step in range(count):
        state.tick = EVERY * step - 1
        time = EVERY * step / RATE
        state.q[0], state.v[0], state.impulse[0] = start + speed * time, speed, force * time
        surroundings.survey(state, step, geometry)
    return geometry, state


@pytest.mark.parametrize("engine", ENGINES)
def test_it_pushes_with_what_the_hand_feels(engine: str) -> None:
    """4 N through a block that is at a wall; the tool is not where the proxy is, but the spring of 5/s is weak."""
    geometry, state = survey(opened(engine, following=5.0), 60, force=-4.0)
    lag = state.q[0] - geometry.q[0]
    assert lag < 0.0
    np.testing.assert_allclose(geometry.wrench[0], -4.0 - 0.5 * 5.0**2 * lag, rtol=1e-2)
    np.testing.assert_allclose(geometry.wrench[1:], 0.0, atol=1e-3)


@pytest.mark.parametrize("engine", ENGINES)
def test_in_free_space_it_is_where_the_proxy_is(engine: str) -> None:
    """It moves away, at constant velocity but for the start: the spring has little to make up for."""
    geometry, state = survey(opened(engine, following=20.0), 60, speed=-0.1)
    np.testing.assert_allclose(geometry.q, state.q, atol=1e-6)
    np.testing.assert_allclose(geometry.v, state.v, atol=1e-6)


def test_the_forces_of_its_joints_are_not_felt_twice() -> None:
    """A slide with damping and dry friction: the same bits as without."""
    found = []
    for law in ({}, {"damping": 20.0, "friction": 1.0}):
        world = cubes(joint="prismatic", axis=[1, 0, 0], **law)
        surroundings = WorldSurroundings(world, thesis_material(), epsilon=0.005, rate=RATE)
        found.append(survey(surroundings, 40, speed=-0.1, force=1.0)[0].to_bytes())
    assert found[0] == found[1]


def test_a_world_of_ours_that_is_too_slow_loses_time() -> None:
    """A gap of 1 s at 60 Hz: a block that flies at 1 m/s goes on for two periods."""
    world = cubes(position=[-0.3, 0, 0])
    world.v[world.model.idx_vs[world.model.getJointId("block")] + 1] = 1.0
    surroundings = WorldSurroundings(world, thesis_material(), epsilon=0.005, rate=RATE)
    geometry, state = surroundings.local_geometry(), surroundings._sizes.tool_state()
    state.q[:], state.tick = surroundings._body.q, 999
    surroundings.survey(state, 0, geometry)
    assert geometry.tick == 1000
    np.testing.assert_allclose(geometry.poses[0, :3], [SIDE, 0.033, 0.0], atol=1e-9)


@pytest.mark.parametrize("asked", [False, True])
def test_the_wrench_of_a_world_that_stands_still_is_found_if_asked_for(asked: bool) -> None:
    bodies = {
        "wall": {"joint": "fixed", "shapes": [{"type": "plane", "normal": [-1, 0, 0], "offset": -0.5 * SIDE + GAP}]},
        "tool": {"joint": "free", "mass": 0.5, "shapes": [{"type": "box", "size": [SIDE] * 3}]},
    }
    scene = WorldParameters.model_validate({"gravity": [0, 0, 0], "bodies": bodies, "tool": "tool"})
    contact = thesis_material(stiffness=1000.0, damping=0.0)
    surroundings = WorldSurroundings(build(scene, Path()), contact, epsilon=0.005, rate=RATE, wrench=asked)
    wrench = survey(surroundings, 1)[0].wrench[0]
    assert wrench == pytest.approx(-4 * 1000.0 * GAP if asked else 0.0, rel=1e-9)
