"""The unilateral coupling: its law at generic states, and closed forms of the hand that it holds at a rigid wall."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from offline_runs import run_unrecorded
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from haptic_bench import experiment
from haptic_bench.recording.samples import Samples
from haptic_control.unilateral import UnilateralCoupling, UnilateralParameters
from haptic_sim.messages import COLLIDING, FORCE, FREE, RESTING, DeviceCommand, DeviceState, ToolCommand, ToolState

STIFFNESS, DAMPING = (1000.0, 1100.0, 1200.0, 2.5, 2.6, 2.7), (50.0, 51.0, 52.0, 0.1, 0.2, 0.3)
MASS, FX, FY = 2.0, 0.32, -0.4  # [kg, N] of corner_peg
K, B, WALL = 1000.0, 50.0, 4000.0  # [N/m, N s/m, N/m for each of two points]


class Loop:
    """Coupling and messages, at generic states."""

    def __init__(self, seed: int = 20260, **gains: Any) -> None:
        self.core = UnilateralCoupling(
            UnilateralParameters.model_validate({"stiffness": STIFFNESS, "damping": DAMPING} | gains), 1000.0
        )
        self.device, self.tool = DeviceState(), ToolState(q=3, v=3, constraint_directions=36)
        self.tool_command, self.device_command = ToolCommand(), DeviceCommand()
        rng = np.random.default_rng(seed)
        for state in (self.device, self.tool):
            state.pose[:3], state.pose[3:] = rng.normal(size=3), Rotation.random(rng=rng).as_quat()
            state.twist[:] = rng.normal(size=6)
        self.device.operator_wrench[:] = rng.normal(size=6)
        self.device.stamp(7, 13_671_875)

    def tick(self, contact_state: int) -> tuple[np.ndarray, np.ndarray]:
        """Commands to tool and device of a tick in which the tool was in that state, with a wrench of contact."""
        self.core.coordinate(self.device, self.tool, self.tool_command)
        self.tool.contact_state = contact_state
        self.tool.wrench[:] = 100.0
        self.core.command(self.tool, self.device_command)
        return self.tool_command.wrench.copy(), self.device_command.wrench.copy()

    def coupling(self) -> np.ndarray:
        """K (x_T - x_D) + B (v_T - v_D), with log(R_WT R_WD^T) of the orientations, by SciPy."""
        R_WT, R_WD = (Rotation.from_quat(state.pose[3:]) for state in (self.tool, self.device))
        x = np.concatenate([self.tool.pose[:3] - self.device.pose[:3], (R_WT * R_WD.inv()).as_rotvec()])
        return np.array(STIFFNESS) * x + np.array(DAMPING) * (self.tool.twist - self.device.twist)


def trial(*settings: str) -> experiment.Trial:
    """corner_peg with rigid contact through the coupling."""
    chosen = [
        "environment.method=constraint",
        "controller.type=unilateral_coupling",
        f"controller.stiffness=[{K}, {K}, 2.5]",
        f"controller.damping=[{B}, {B}, 0.125]",
        *settings,
    ]
    (only,) = experiment.load("corner_peg", chosen)
    return only


@pytest.fixture(scope="module")
def whole() -> Samples:
    return run_unrecorded(trial())


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("contact_state", [COLLIDING, RESTING])
def test_in_contact_the_device_feels_the_coupling_and_nothing_else(seed: int, contact_state: int) -> None:
    loop = Loop(seed)
    Fc = loop.coupling()
    to_tool, to_device = loop.tick(contact_state)
    np.testing.assert_allclose(to_device, Fc, rtol=0, atol=1e-10)
    np.testing.assert_allclose(to_tool, loop.device.operator_wrench - Fc, rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(20))
def test_in_free_motion_the_device_feels_nothing_and_the_tool_still_follows(seed: int) -> None:
    loop = Loop(seed)
    to_tool, to_device = loop.tick(FREE)
    np.testing.assert_array_equal(to_device, 0.0)
    np.testing.assert_allclose(to_tool, loop.device.operator_wrench - loop.coupling(), rtol=0, atol=1e-10)


def test_the_operators_wrench_can_be_kept_from_the_tool() -> None:
    loop = Loop(force_scale=0.0)
    to_tool, to_device = loop.tick(RESTING)
    np.testing.assert_array_equal(to_tool, -to_device)


def test_new_gains_apply_from_the_next_tick() -> None:
    loop = Loop()
    loop.tick(RESTING)
    loop.core.configure(UnilateralParameters(stiffness=(0.0, 0.0, 0.0), damping=(0.0, 0.0, 0.0)))
    to_tool, to_device = loop.tick(RESTING)
    np.testing.assert_array_equal(to_device, 0.0)
    np.testing.assert_array_equal(to_tool, loop.device.operator_wrench)


def test_commands_are_stamped_as_the_four_channel_controllers_are() -> None:
    loop = Loop()
    loop.tool.stamp(7, 15_625_000)
    loop.tick(FREE)
    assert (loop.device_command.tick, loop.device_command.device_tick, loop.device_command.mode) == (7, 7, FORCE)
    assert (loop.tool_command.tick, loop.tool_command.nanoseconds) == (7, 13_671_875)


def test_the_gains_are_those_of_table_4_1() -> None:
    assert UnilateralParameters().stiffness == (1000.0, 1000.0, 2.5)
    assert UnilateralParameters().damping == (50.0, 50.0, 0.125)


def test_in_free_motion_hand_and_tool_move_as_one(whole: Samples) -> None:
    """The coupling is inactive there (THESIS 4.5): x_k = F/m T^2 k (k + 1) / 2, by semi-implicit Euler."""
    free = whole["contacts"] == 0
    count = int(np.argmin(free))
    k = np.arange(count)
    for axis, force in (("x", FX), ("y", FY)):
        expected = force / MASS / 512.0**2 * 0.5 * k * (k + 1)
        np.testing.assert_allclose(whole[f"hand_p{axis}"][:count], expected, rtol=0, atol=1e-14)
        np.testing.assert_allclose(whole[f"tool_p{axis}"][:count], expected, rtol=0, atol=1e-14)
        np.testing.assert_array_equal(whole[f"rendered_f{axis}"][:count], 0.0)
    assert not free[count:].any()  # and once there, the tool never leaves the walls


def test_a_tool_that_only_follows_lags_by_its_inertia() -> None:
    """With force_scale 0 and a hand that accelerates by F/m, the spring must give the tool the same: lag F/K."""
    samples = run_unrecorded(trial("controller.force_scale=0", "scene.gap=[0.5, 0.5]", "duration=1.2"))
    assert not samples["contacts"].any()
    for axis, force in (("x", FX), ("y", FY)):
        lag = samples[f"hand_p{axis}"] - samples[f"tool_p{axis}"]
        assert lag[-1] == pytest.approx(force / K, rel=1e-5)
        np.testing.assert_array_equal(samples[f"rendered_f{axis}"], 0.0)


def test_at_rest_the_hand_is_beyond_the_wall_by_force_over_stiffness(whole: Samples) -> None:
    np.testing.assert_allclose(whole["tool_px"][-1], 0.03, rtol=0, atol=1e-8)
    np.testing.assert_allclose(whole["tool_py"][-1], -0.06, rtol=0, atol=1e-8)
    assert whole["hand_px"][-1] - whole["tool_px"][-1] == pytest.approx(FX / K, rel=1e-6)
    assert whole["hand_py"][-1] - whole["tool_py"][-1] == pytest.approx(FY / K, rel=1e-6)
    assert whole["rendered_fx"][-1] == pytest.approx(-FX, rel=1e-6)
    # the wall carries the operator's wrench on the tool and the coupling's
    assert whole["env_fx"][-1] == pytest.approx(-2.0 * FX, rel=1e-6)


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_at_rest_on_penalties_two_springs_are_in_line(scale: float) -> None:
    samples = run_unrecorded(trial("environment.method=penalty", f"controller.force_scale={scale}", "duration=6"))
    for axis, force, gap in (("x", FX, 0.03), ("y", FY, -0.06)):
        tool = samples[f"tool_p{axis}"][-1] - gap
        assert tool == pytest.approx((1.0 + scale) * force / (2.0 * WALL), rel=1e-4)
        assert samples[f"hand_p{axis}"][-1] - gap == pytest.approx(tool + force / K, rel=1e-4)


def test_the_hand_at_the_wall_is_a_damped_oscillator() -> None:
    """m x'' = F - K (x - gap) - B x' while the tool is at the wall; a ticking servo yields more, in proportion to T.

    Fc is held from t_k, which takes K T / 2 and more from the damping.
    """
    speed = math.sqrt(2.0 * FX * 0.03 / MASS)
    answer = solve_ivp(
        lambda _, s: [s[1], (FX - K * s[0] - B * s[1]) / MASS], (0.0, 0.1), [0.0, speed], rtol=1e-10, max_step=1e-4
    )
    exact = answer.y[0].max()
    errors = []
    for rate in (512, 2048, 8192):
        samples = run_unrecorded(trial(f"rate={rate}", "duration=0.72"))
        errors.append((samples["hand_px"].max() - 0.03) / exact - 1.0)
    assert 0.0 < errors[2] < errors[1] < errors[0] < 0.1
    assert errors[0] / errors[2] == pytest.approx(16.0, rel=0.5)


def test_repeated_runs_are_equal_in_every_bit(whole: Samples) -> None:
    again = run_unrecorded(trial())
    assert again.names == whole.names
    for name in whole.names:
        np.testing.assert_array_equal(again[name], whole[name])
