"""Direct coupling: wrenches are passed on, and device and tool stay together only while their dynamics are the same."""

from __future__ import annotations

import numpy as np
import pytest
from offline_runs import run_unrecorded

from haptic_bench import experiment
from haptic_bench.recording.samples import Samples
from haptic_control.direct import DirectParameters
from haptic_control.stability import CoupledInertias
from haptic_sim.messages import DeviceCommand, DeviceState, ToolCommand, ToolState


def corner_peg(*settings: str) -> Samples:
    (trial,) = experiment.load("corner_peg", ["controller.type=direct", *settings], duration=1.0)
    return run_unrecorded(trial)


def test_each_side_gets_the_others_wrench_wherever_they_are() -> None:
    controller = DirectParameters(force_scale=0.5).build(1000.0)
    device, tool = DeviceState(), ToolState(q=3, v=3)
    rng = np.random.default_rng(20260)
    for state in (device, tool):
        state.pose[:3], state.twist[:] = rng.normal(size=3), rng.normal(size=6)
        state.pose[6] = 1.0
    device.operator_wrench[:], tool.wrench[:] = rng.normal(size=6), rng.normal(size=6)
    to_tool, to_device = ToolCommand(), DeviceCommand()
    controller.coordinate(device, tool, to_tool)  # type: ignore[union-attr]
    controller.command(tool, to_device)  # type: ignore[union-attr]
    np.testing.assert_array_equal(to_tool.wrench, 0.5 * device.operator_wrench)
    np.testing.assert_array_equal(to_device.wrench, tool.wrench)


def test_a_device_like_the_tool_stays_with_it_through_impacts() -> None:
    samples = corner_peg()
    assert samples["colliding"].any()
    np.testing.assert_allclose(samples.pose("hand"), samples.pose("tool"), rtol=0, atol=1e-12)


def test_a_heavier_device_leaves_the_tool_by_half_the_difference_of_accelerations() -> None:
    """Until the first contact, of a force F on m and 2 m: x_T - x_D = F / (4 m) t^2, up to a tick of rounding."""
    samples = corner_peg("device.mass=4.0")
    free = samples["time"] < 0.5
    apart = (samples["tool_px"] - samples["hand_px"])[free]
    t, T = samples["time"][free], 1.0 / 512.0
    np.testing.assert_allclose(apart, 0.32 / 8.0 * t * (t + T), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("rate", [50.0, 1000.0])
def test_there_is_no_loop_to_check(rate: float) -> None:
    inertias = CoupledInertias(tool=tuple(np.eye(6).ravel().tolist()), device=(1e-3, 1e-6))
    assert DirectParameters().stability_problem(inertias, rate) == ""
