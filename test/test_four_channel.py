"""The four-channel controller against SciPy's rotations, at generic poses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from haptic_control.four_channel import FourChannel, FourChannelParameters
from haptic_sim.messages import FORCE, MOTION, DeviceCommand, DeviceState, ToolCommand, ToolState

RATE = 512.0  # [Hz]
STIFFNESS, DAMPING = (100.0, 110.0, 120.0, 0.5, 0.6, 0.7), (70.0, 71.0, 72.0, 0.3, 0.4, 0.5)


class Loop:
    """Controller and messages, at generic states."""

    def __init__(self, seed: int = 20260, **gains: Any) -> None:
        self.core = FourChannel(
            FourChannelParameters.model_validate({"stiffness": STIFFNESS, "damping": DAMPING} | gains), RATE
        )
        self.device, self.tool = DeviceState(), ToolState(q=3, v=3, constraint_directions=36)
        self.tool_command, self.device_command = ToolCommand(), DeviceCommand()
        rng = np.random.default_rng(seed)
        for state in (self.device, self.tool):
            state.pose[:3], state.pose[3:] = rng.normal(size=3), Rotation.random(rng=rng).as_quat()
            state.twist[:] = rng.normal(size=6)
        self.device.operator_wrench[:] = rng.normal(size=6)
        self.environment = rng.normal(size=6)
        self.device.stamp(7, 13_671_875)

    def tick(self) -> tuple[np.ndarray, np.ndarray]:
        """Commands to tool and device of one tick."""
        self.core.coordinate(self.device, self.tool, self.tool_command)
        self.tool.wrench[:] = self.environment
        self.core.command(self.tool, self.device_command)
        return self.tool_command.wrench.copy(), self.device_command.wrench.copy()

    def coordination(self, stiffness: Any = STIFFNESS, damping: Any = DAMPING) -> np.ndarray:
        """K (x_T - x_D) + B (v_T - v_D), with log(R_WT R_WD^T) of the orientations, by SciPy."""
        R_WT, R_WD = (Rotation.from_quat(state.pose[3:]) for state in (self.tool, self.device))
        x = np.concatenate([self.tool.pose[:3] - self.device.pose[:3], (R_WT * R_WD.inv()).as_rotvec()])
        return np.array(stiffness) * x + np.array(damping) * (self.tool.twist - self.device.twist)


@pytest.mark.parametrize("seed", range(30))
def test_coordination_is_spring_and_damper_between_the_poses(seed: int) -> None:
    loop = Loop(seed)
    Fc = loop.coordination()
    to_tool, to_device = loop.tick()
    np.testing.assert_allclose(to_tool, loop.device.operator_wrench - Fc, rtol=0, atol=1e-12)
    np.testing.assert_allclose(to_device, loop.environment + Fc, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_the_coupling_adds_no_momentum(seed: int) -> None:
    """What it takes from the tool it gives to the device, in every direction."""
    loop = Loop(seed)
    to_tool, to_device = loop.tick()
    on_both = (to_tool - loop.device.operator_wrench) + (to_device - loop.environment)
    np.testing.assert_allclose(on_both, np.zeros(6), rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [0.0, 0.25, 1.0, 40.0])
def test_the_operators_wrench_is_scaled_towards_the_tool_only(scale: float) -> None:
    loop, one = Loop(force_scale=scale), Loop()
    (to_tool, to_device), (_, to_device_of_one) = loop.tick(), one.tick()
    expected = scale * loop.device.operator_wrench - loop.coordination()
    np.testing.assert_allclose(to_tool, expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(to_device, to_device_of_one)


def test_planar_gains_act_along_x_and_y_and_about_z() -> None:
    loop = Loop(stiffness=(100, 90, 0.5), damping=(70, 60, 0.375))
    stiffness, damping = (100, 90, 0, 0, 0, 0.5), (70, 60, 0, 0, 0, 0.375)
    to_tool, _ = loop.tick()
    np.testing.assert_allclose(
        to_tool, loop.device.operator_wrench - loop.coordination(stiffness, damping), rtol=0, atol=1e-12
    )
    np.testing.assert_array_equal(to_tool[2:5], loop.device.operator_wrench[2:5])


def test_a_planar_case_by_hand() -> None:
    """Tool 2 mm to the right and 0.1 rad ahead, device 0.01 m/s faster: 0.2 - 0.7 N and 0.05 N m."""
    loop = Loop(stiffness=(100, 100, 0.5), damping=(70, 70, 0.375))
    for state, x, angle, v in ((loop.device, 0.01, 0.3, 0.03), (loop.tool, 0.012, 0.4, 0.02)):
        state.pose[:] = x, 0.5, 0, 0, 0, np.sin(angle / 2), np.cos(angle / 2)
        state.twist[:] = v, 0, 0, 0, 0, 0
    loop.device.operator_wrench[:] = 0.32, -0.4, 0, 0, 0, 0
    loop.environment[:] = -3.0, 0, 0, 0, 0, 0
    to_tool, to_device = loop.tick()
    np.testing.assert_allclose(to_tool, [0.32 + 0.5, -0.4, 0, 0, 0, -0.05], rtol=0, atol=1e-14)
    np.testing.assert_allclose(to_device, [-3.0 - 0.5, 0, 0, 0, 0, 0.05], rtol=0, atol=1e-14)


def test_equal_states_are_not_coupled() -> None:
    loop = Loop()
    loop.tool.pose[:], loop.tool.twist[:] = loop.device.pose, loop.device.twist
    to_tool, to_device = loop.tick()
    np.testing.assert_allclose(to_tool, loop.device.operator_wrench, rtol=0, atol=1e-15)
    np.testing.assert_allclose(to_device, loop.environment, rtol=0, atol=1e-15)


@pytest.mark.parametrize("which", ["device", "tool"])
def test_the_sign_of_a_quaternion_does_not_matter(which: str) -> None:
    loop, other = Loop(), Loop()
    getattr(other, which).pose[3:] *= -1.0
    np.testing.assert_array_equal(loop.tick(), other.tick())


def test_everything_turned_turns_the_wrenches() -> None:
    """With gains equal in all directions, by 0.7 rad about a generic axis."""
    gains = {"stiffness": (100.0,) * 3 + (0.5,) * 3, "damping": (70.0,) * 3 + (0.4,) * 3}
    axis = np.array([0.3, -0.5, 0.8])
    turn = Rotation.from_rotvec(0.7 * axis / np.linalg.norm(axis))
    loop, turned = Loop(**gains), Loop(**gains)

    def rotate(six: np.ndarray) -> np.ndarray:
        return turn.apply(six.reshape(2, 3)).ravel()

    for state in (turned.device, turned.tool):
        state.pose[:3] = turn.apply(state.pose[:3])
        state.pose[3:] = (turn * Rotation.from_quat(state.pose[3:])).as_quat()
        state.twist[:] = rotate(state.twist)
    turned.device.operator_wrench[:] = rotate(turned.device.operator_wrench)
    turned.environment = rotate(turned.environment)
    for wrench, expected in zip(turned.tick(), loop.tick(), strict=True):
        np.testing.assert_allclose(wrench, rotate(expected), rtol=0, atol=1e-12)


def test_commands_say_what_they_answer() -> None:
    """ToolCommand k from device state k and tool state k - 1; DeviceCommand k from tool state k."""
    loop = Loop()
    loop.tool.stamp(6, 999)
    loop.core.coordinate(loop.device, loop.tool, loop.tool_command)
    assert (loop.tool_command.tick, loop.tool_command.tool_tick) == (7, 6)
    assert loop.tool_command.nanoseconds == 13_671_875
    loop.tool.stamp(7, 15_625_000)
    loop.device_command.mode = MOTION
    loop.core.command(loop.tool, loop.device_command)
    assert (loop.device_command.tick, loop.device_command.device_tick) == (7, 7)
    assert loop.device_command.nanoseconds == 13_671_875
    assert loop.device_command.mode == FORCE


def test_both_commands_of_a_tick_hold_the_coordination_of_its_beginning() -> None:
    """The tool has moved in between: the device gets the same Fc(k) all the same."""
    loop = Loop()
    Fc = loop.coordination()
    loop.core.coordinate(loop.device, loop.tool, loop.tool_command)
    loop.tool.pose[:3] += 1.0
    loop.tool.twist[:] += 1.0
    loop.tool.wrench[:] = loop.environment
    loop.core.command(loop.tool, loop.device_command)
    np.testing.assert_allclose(loop.device_command.wrench, loop.environment + Fc, rtol=0, atol=1e-12)


def test_new_gains_hold_from_the_next_tick_on() -> None:
    loop = Loop()
    loop.core.coordinate(loop.device, loop.tool, loop.tool_command)
    Fc = loop.coordination()
    loop.core.configure(FourChannelParameters(stiffness=(1, 1, 1), damping=(0, 0, 0)))
    loop.tool.wrench[:] = 0.0
    loop.core.command(loop.tool, loop.device_command)
    np.testing.assert_allclose(loop.device_command.wrench, Fc, rtol=0, atol=1e-12)
    to_tool, _ = loop.tick()
    expected = loop.device.operator_wrench - loop.coordination((1, 1, 0, 0, 0, 1), (0,) * 6)
    np.testing.assert_allclose(to_tool, expected, rtol=0, atol=1e-12)


def test_defaults_are_those_of_table_4_1() -> None:
    parameters = FourChannelParameters()
    assert parameters.stiffness == (100.0, 100.0, 0.5)
    assert parameters.damping == (70.0, 70.0, 0.375)
    assert parameters.force_scale == 1.0
