"""Impedance transmitted by each controller, relative to that of the world itself: 0.1 to 30 Hz, in contact.

Controller kernels, device and a tool in a spring and a damper are linear in one direction: their map of a tick is found
by unit vectors, and its frequency response is exact. The world itself is the same tool, held by the hand without a
device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from offline_runs import run_unrecorded

from haptic_bench import experiment
from haptic_control.four_channel import FourChannelParameters
from haptic_control.shaping import ShapingParameters
from haptic_control.unilateral import UnilateralParameters
from haptic_control.virtual_coupling import VirtualCouplingParameters
from haptic_drivers.inertial import InertialDevice
from haptic_sim.messages import RESTING, DeviceCommand, DeviceState, ToolCommand, ToolSizes, tick_time

RATE = 1000.0  # [Hz]
T = 1.0 / RATE
MASS, SPRING, DAMPER = 0.8, 1500.0, 6.0  # [kg, N/m, N s/m] of the tool and what it touches
FREQUENCIES = np.geomspace(0.1, 30.0, 60)  # [Hz]
AXES = range(6)


def tick(parameters: Any, device_mass: float, axis: int, state: np.ndarray, hand: float) -> np.ndarray:
    """(x, v of the device, x, v of the tool) along an axis after a tick with a hand's force; rotations are small."""
    controller: Any = parameters.build(RATE)
    device, tool, to_tool, to_device = DeviceState(), ToolSizes(0, 0).tool_state(), ToolCommand(), DeviceCommand()
    body = InertialDevice(device_mass, device_mass, planar=False)
    device.pose[6] = tool.pose[6] = 1.0
    size = 1.0 if axis < 3 else 0.5  # half an angle is the component of the quaternion
    device.pose[axis], device.twist[axis], tool.pose[axis], tool.twist[axis] = state * np.array([size, 1, size, 1])
    device.operator_wrench[axis] = hand
    tool.inverse_inertia[::7] = 1.0 / MASS
    device.stamp(0, tick_time(0, RATE))
    controller.coordinate(device, tool, to_tool)
    tool.wrench[axis] = -SPRING * state[2] - DAMPER * state[3]
    v_tool = state[3] + T / MASS * (to_tool.wrench[axis] + tool.wrench[axis])
    tool.contact_state = RESTING
    controller.command(tool, to_device)
    body.pose[:], body.twist[:] = device.pose, device.twist
    body.step(device.operator_wrench, to_device.wrench, T)
    return np.array([state[0] + T * body.twist[axis], body.twist[axis], state[2] + T * v_tool, v_tool])


def felt(parameters: Any, device_mass: float = MASS, axis: int = 0) -> np.ndarray:
    """Force over velocity of the hand at each frequency, as complex numbers."""
    h = 1e-6  # small rotations; the rest is linear
    A = np.array([tick(parameters, device_mass, axis, h * e, 0.0) / h for e in np.eye(4)]).T
    b = tick(parameters, device_mass, axis, np.zeros(4), h) / h
    z = np.exp(2j * np.pi * FREQUENCIES * T)
    return np.array([1.0 / np.linalg.solve(one * np.eye(4) - A, b)[1] for one in z])


def world() -> np.ndarray:
    """The same of the tool, held without a device."""
    A = np.array(
        [[1.0 - T**2 / MASS * SPRING, T - T**2 / MASS * DAMPER], [-T / MASS * SPRING, 1.0 - T / MASS * DAMPER]]
    )
    b = np.array([T**2 / MASS, T / MASS])
    z = np.exp(2j * np.pi * FREQUENCIES * T)
    return np.array([1.0 / np.linalg.solve(one * np.eye(2) - A, b)[1] for one in z])


def gains(**keys: Any) -> dict[str, Any]:
    return {"stiffness": (100.0,) * 6, "damping": (70.0,) * 6} | keys


@pytest.mark.parametrize("axis", AXES)
def test_four_channels_transmit_the_world_where_device_and_tool_have_the_same_inertia(axis: int) -> None:
    """Magnitude and phase within 2 %: in fact to rounding, whatever the gains, the adaptive damping and the scale."""
    for parameters in (
        FourChannelParameters.model_validate(gains()),
        FourChannelParameters.model_validate(gains(tool_damping=(300.0,) * 6, tool_stiffness=(0.0,) * 6)),
        FourChannelParameters.model_validate(gains(contact_damping=(60.0,) * 6, contact_damping_limit=(70.0,) * 6)),
    ):
        ratio = felt(parameters, axis=axis) / world()
        np.testing.assert_allclose(ratio, 1.0, rtol=0, atol=1e-6)


def test_impedance_shaping_transmits_the_world_through_a_device_of_another_inertia() -> None:
    """Which it has to know."""
    known = ShapingParameters.model_validate(gains(device_mass=3.0, device_inertia=3.0, topology_penalty=False))
    np.testing.assert_allclose(felt(known, device_mass=3.0) / world(), 1.0, rtol=0, atol=1e-6)
    wrong = ShapingParameters.model_validate(gains(device_mass=2.0, device_inertia=2.0, topology_penalty=False))
    assert np.abs(felt(wrong, device_mass=3.0) / world() - 1.0).max() > 0.1


def test_what_is_not_transparent_is_found_not_to_be() -> None:
    """Another inertia, a coupling without forces, or a scaled force: each is further off than 2 %."""
    for parameters, device_mass in (
        (FourChannelParameters.model_validate(gains()), 2.0 * MASS),
        (FourChannelParameters.model_validate(gains(environment_scale=0.9)), MASS),
        (VirtualCouplingParameters.model_validate(gains()), MASS),
        (UnilateralParameters.model_validate(gains()), MASS),
    ):
        assert np.abs(felt(parameters, device_mass) / world() - 1.0).max() > 0.05


@pytest.mark.parametrize("scale", [0.5, 4.0])
def test_position_scaling_transmits_the_square_of_its_scale(scale: float) -> None:
    """F_d = s F_t and v_d = v_t / s: the impedance is s^2 that of the world, with a device of s^2 the tool's mass."""
    parameters = FourChannelParameters.model_validate(gains(position_scale=scale, reference=(0, 0, 0, 0, 0, 0, 1)))
    ratio = felt(parameters, device_mass=scale**2 * MASS) / world()
    np.testing.assert_allclose(ratio, scale**2, rtol=1e-6)


def test_power_scaling_transmits_its_factor() -> None:
    """C2 = 1/C3 = K/K1 = B/B1 = 1/4: the hand feels a quarter of the world, with a device of a quarter of the mass."""
    keys = gains(force_scale=4.0, environment_scale=0.25, tool_stiffness=(400.0,) * 6, tool_damping=(280.0,) * 6)
    ratio = felt(FourChannelParameters.model_validate(keys), device_mass=0.25 * MASS) / world()
    np.testing.assert_allclose(ratio, 0.25, rtol=1e-6)


def test_the_virtual_coupling_transmits_what_is_in_series() -> None:
    """At low frequencies the springs of coupling and world, K k / (K + k), in place of the world's k."""
    parameters = VirtualCouplingParameters.model_validate(gains(damping=(5.0,) * 6))
    z = np.exp(2j * np.pi * FREQUENCIES[:1] * T)
    stiffness = (felt(parameters)[:1] * (z - 1.0) / T).real
    np.testing.assert_allclose(stiffness, 100.0 * SPRING / (100.0 + SPRING), rtol=5e-3)


@pytest.mark.parametrize("settings", [[], ["controller.contact_damping=[60, 60, 60]",
                                           "controller.contact_damping_limit=[30, 30, 0.1]"]])  # fmt: skip
def test_trajectories_of_hand_and_tool_agree_where_their_inertias_do(settings: list[str]) -> None:
    """Through two impacts and to rest."""
    (trial,) = experiment.load("corner_peg", ["analysis=trial", *settings])
    samples = run_unrecorded(trial)
    assert samples["colliding"].any()
    np.testing.assert_allclose(samples.pose("hand"), samples.pose("tool"), rtol=0, atol=1e-9)
    np.testing.assert_allclose(samples.twist("hand"), samples.twist("tool"), rtol=0, atol=1e-9)
