"""A body of a program's own MuJoCo simulation in a hand: what it presses on, it feels."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from haptic_sim.parameters import ParameterError
from haptic_sim.tool.haptic_tool import HapticTool

mujoco = pytest.importorskip("mujoco")

WORLD = """<mujoco><option timestep="0.01"/><worldbody><geom type="plane" size="1 1 1"/>
    <body name="block" pos="0 0 .0199"><freejoint/><geom type="box" size=".05 .05 .02" mass="2"/></body>
    <body name="stylus" pos="0 0 .06" gravcomp="1"><freejoint/><geom type="sphere" size=".01" mass=".2"/></body>
    </worldbody></mujoco>"""
PUSH = np.array([0.0, 0.0, -3.0, 0.0, 0.0, 0.0])  # [N, N m]


def opened() -> tuple[Any, Any, HapticTool]:
    model = mujoco.MjModel.from_xml_string(WORLD)
    data = mujoco.MjData(model)
    return model, data, HapticTool(model, data, "stylus")


def wrench(tool: HapticTool) -> np.ndarray:
    """Of a hand that presses down, brakes, and keeps the orientation."""
    held = np.concatenate([np.zeros(3), 0.2 * tool.state.pose[3:6]])
    return PUSH - np.array([20.0, 20.0, 20.0, 1e-3, 1e-3, 1e-3]) * tool.state.twist - held


@pytest.mark.exhaustive
def test_it_feels_what_it_presses_on() -> None:
    """3 N on a block that lies on the floor: as much at the hand, and on MuJoCo's block."""
    model, data, tool = opened()
    for _ in range(300):
        for _ in range(10):
            tool.advance(wrench(tool))
        tool.synchronise()
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(tool.state.wrench[:3], -PUSH[:3], atol=0.02)
    pressed = np.zeros(6)
    forces = []
    for i in range(data.ncon):
        mujoco.mj_contactForce(model, data, i, pressed)
        if model.geom_bodyid[data.contact[i].geom].tolist() == [0, model.body("block").id]:
            forces.append(pressed[0])
    assert sum(forces) == pytest.approx(2.0 * 9.81 + 3.0, rel=0.02)


@pytest.mark.exhaustive
def test_the_hand_may_have_a_thread_of_its_own() -> None:
    model, data, tool = opened()
    done = threading.Event()
    failed: list[Exception] = []

    def servo() -> None:
        try:
            while not done.is_set():
                tool.advance(wrench(tool))
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=servo)
    thread.start()
    for _ in range(200):
        tool.synchronise()
        mujoco.mj_step(model, data)
    done.set()
    thread.join()
    assert not failed and np.isfinite(tool.state.q).all()


@pytest.mark.parametrize("wrong", [[0.0] * 5, [np.nan] * 6])
def test_a_wrong_wrench_is_refused(wrong: list[float]) -> None:
    with pytest.raises(ParameterError, match="must be six finite numbers"):
        opened()[2].advance(wrong)


def test_a_tool_that_is_not_there_is_named() -> None:
    model = mujoco.MjModel.from_xml_string(WORLD)
    with pytest.raises(ParameterError, match=r"^tool = pen: unknown body \(known: world, block, stylus\)$"):
        HapticTool(model, mujoco.MjData(model), "pen")
