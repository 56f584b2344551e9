"""The device's model against Pinocchio, and the observer of the operator's wrench against the true one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from offline_runs import run_unrecorded
from scipy.spatial.transform import Rotation

from haptic_bench import experiment
from haptic_control.activation import port_of
from haptic_control.coupled_loop import coupling_problem
from haptic_control.device_model import DeviceModel, DeviceModelParameters, evaluate_device
from haptic_control.direct import DirectParameters
from haptic_control.four_channel import FourChannelParameters
from haptic_control.operator_wrench import OperatorWrench, OperatorWrenchParameters
from haptic_control.shaping import ShapingParameters, shaping_problem
from haptic_control.stability import CoupledInertias
from haptic_drivers.inertial import InertialDevice
from haptic_sim.messages import DeviceCommand, DeviceState, ToolCommand, ToolSizes, tick_time
from haptic_sim.packed import Packed
from haptic_sim.parameters import ParameterError
from haptic_sim.spatial import advance_pose

RATE = 1000.0  # [Hz]
T = 1.0 / RATE


def rigid_body(rng: np.random.Generator) -> pin.Inertia:
    """A body that is held off its centre of mass."""
    Q = rng.normal(size=(3, 3))
    return pin.Inertia(0.7, 0.05 * rng.normal(size=3), 1e-3 * (Q @ Q.T + np.eye(3)))


def model_of(matrix: np.ndarray, **keys: Any) -> DeviceModel:
    return DeviceModel.of(DeviceModelParameters(device_matrix=tuple(matrix.ravel().tolist()), **keys))


# The device's model


@pytest.mark.parametrize("seed", range(20))
def test_a_rigid_body_in_the_axes_of_the_hand_is_that_of_pinocchio(seed: int) -> None:
    """Force and torque at the hand point of a moving body: I a + v x* I v of spatial algebra, turned to world axes."""
    rng = np.random.default_rng(seed)
    body, turn = rigid_body(rng), Rotation.random(rng=rng)
    v, a = rng.normal(size=(2, 6))
    pose = np.concatenate([rng.normal(size=3), turn.as_quat()])
    model = model_of(body.matrix(), device_axes="hand", device_damping=(3.0, 3.0, 0.2))
    evaluate_device(Packed(model).arrays, pose, v)
    R = turn.as_matrix()
    blocks = np.kron(np.eye(2), R)
    spatial = pin.Motion(blocks.T @ v)
    # a is the derivative of v in fixed axes; spatial acceleration of the point leaves out w x v
    rate = pin.Motion(blocks.T @ a - np.concatenate([np.cross(spatial.angular, spatial.linear), np.zeros(3)]))
    expected = blocks @ (body * rate + spatial.cross(body * spatial)).vector
    damping = np.array([3.0, 3.0, 0, 0, 0, 0.2]) * v
    np.testing.assert_allclose(model.inertia @ a + model.coriolis, expected + damping, rtol=1e-9, atol=1e-12)


def test_a_matrix_in_world_axes_does_not_turn() -> None:
    rng = np.random.default_rng(20260)
    matrix = rigid_body(rng).matrix()
    model = model_of(matrix)
    evaluate_device(
        Packed(model).arrays, np.concatenate([np.zeros(3), Rotation.random(rng=rng).as_quat()]), rng.normal(size=6)
    )
    np.testing.assert_array_equal(model.inertia, matrix)
    np.testing.assert_array_equal(model.coriolis, np.zeros(6))


# The observer


def observed(operator: np.ndarray, rendered: np.ndarray, bandwidth: float, body: Any, **keys: Any) -> np.ndarray:
    """The estimate at each tick, of a device under wrenches (ticks, 6) that `body` integrates with its own steps."""
    known = {"device_mass": 0.4, "device_inertia": 0.002} | keys
    observer = OperatorWrench(
        OperatorWrenchParameters.model_validate(
            {"operator_wrench": "observed", "observer_bandwidth": bandwidth} | known
        ),
        RATE,
    )
    state, estimates = DeviceState(), []
    for k, (force, own) in enumerate(zip(operator, rendered, strict=True)):
        state.stamp(k, tick_time(k, RATE))
        state.pose[:], state.twist[:] = body.pose, body.twist
        estimates.append(observer.at(state).copy())
        body.step(force, own, T)
        state.rendered_wrench[:] = own
    return np.array(estimates)


def wrenches(seed: int, ticks: int, frequency: float) -> tuple[np.ndarray, np.ndarray]:
    """The operator's, a sine in each direction, and what is rendered: noise."""
    rng = np.random.default_rng(seed)
    phase = 2.0 * np.pi * (frequency * T * np.arange(ticks)[:, None] + rng.random(6))
    scale = np.array([1.0, 1.0, 1.0, 0.01, 0.01, 0.01])
    return scale * np.sin(phase), scale * rng.normal(size=(ticks, 6))


@pytest.mark.parametrize("frequency", [0.5, 5.0, 40.0])
def test_the_estimate_is_the_low_pass_of_the_true_wrench_and_nothing_else(frequency: float) -> None:
    """Whatever is rendered: F_o(k) = F_o(k-1) + a (F(k-1) - F_o(k-1)), exactly; and as far off as its formula says."""
    ticks, bandwidth = 4000, 300.0
    operator, rendered = wrenches(1, ticks, frequency)
    found = observed(operator, rendered, bandwidth, InertialDevice(0.4, 0.002, planar=False))
    a, expected = 1.0 - np.exp(-bandwidth * T), np.zeros((ticks, 6))
    for k in range(1, ticks):
        expected[k] = expected[k - 1] + a * (operator[k - 1] - expected[k - 1])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
    z = np.exp(2j * np.pi * frequency * T)
    error = np.abs(found - operator)[2000:].max(axis=0) / np.abs(operator).max(axis=0)
    np.testing.assert_allclose(error, abs(1.0 - a / (z - 1.0 + a)), rtol=0.01)


def test_the_damping_of_a_device_is_not_taken_for_the_operators_wrench() -> None:
    """With the exact motion of a damped device the mean of both ends is wrong by (c T / m)^2 / 12 of the damping."""
    operator, rendered = wrenches(2, 3000, 3.0)
    damping = (40.0, 0.2)  # c T / m = 0.1
    keys = {"device_damping": (40.0,) * 3 + (0.2,) * 3}

    def device() -> InertialDevice:
        return InertialDevice(0.4, 0.002, planar=False, damping=damping)

    exact = observed(operator, rendered, 300.0, InertialDevice(0.4, 0.002, planar=False))
    known = observed(operator, rendered, 300.0, device(), **keys)
    unknown = observed(operator, rendered, 300.0, device())
    scale = np.abs(operator).max(axis=0)
    assert (np.abs(known - exact).max(axis=0) / scale).max() < 2e-3
    assert (np.abs(unknown - exact).max(axis=0) / scale).min() > 0.5


class FreeBody:
    """A rigid body at the hand, by Pinocchio's dynamics and many small steps."""

    def __init__(self, inertia: pin.Inertia, twist: np.ndarray) -> None:
        self.inertia, self.twist = inertia, twist.copy()
        self.pose = np.array([0.0, 0, 0, 0, 0, 0, 1])
        self.path = [(self.pose.copy(), self.twist.copy())]

    def step(self, operator: np.ndarray, rendered: np.ndarray, period: float, parts: int = 40) -> None:
        for _ in range(parts):
            blocks = np.kron(np.eye(2), Rotation.from_quat(self.pose[3:]).as_matrix())
            v = pin.Motion(blocks.T @ self.twist)
            force = pin.Force(blocks.T @ (operator + rendered)) - v.cross(self.inertia * v)
            rate = np.linalg.solve(self.inertia.matrix(), force.vector)
            rate[:3] += np.cross(v.angular, v.linear)
            self.twist += period / parts * blocks @ rate
            advance_pose(self.twist, period / parts, self.pose)
        self.path.append((self.pose.copy(), self.twist.copy()))


class Replayed:
    """A body that moves as another did."""

    def __init__(self, path: list[tuple[np.ndarray, np.ndarray]]) -> None:
        self._states = iter(path)
        self.pose, self.twist = next(self._states)

    def step(self, *_: Any) -> None:
        self.pose, self.twist = next(self._states)


@pytest.mark.long
def test_a_rigid_body_that_turns_is_observed_with_its_matrix() -> None:
    body = rigid_body(np.random.default_rng(20260))
    twist = np.array([0.3, -0.2, 0.1, 4.0, -6.0, 5.0])
    operator, rendered = wrenches(3, 250, 3.0)
    keys = {"device_matrix": tuple(body.matrix().ravel().tolist())}
    free = FreeBody(body, twist)
    turning = observed(operator, rendered, 300.0, free, **keys, device_axes="hand")
    fixed = observed(operator, rendered, 300.0, Replayed(free.path), **keys, device_axes="world")
    ideal = observed(operator, rendered, 300.0, InertialDevice(0.4, 0.002, planar=False))
    scale = np.array([1.0, 1.0, 1.0, 0.01, 0.01, 0.01])
    assert (np.abs(turning - ideal).max(axis=0) / scale).max() < 0.1  # that of the small steps
    assert (np.abs(fixed - ideal).max(axis=0) / scale).max() > 1.0


@pytest.mark.long
def test_noise_of_the_twist_is_as_much_noise_of_the_estimate_as_its_formula_says() -> None:
    rng, ticks, s = np.random.default_rng(20260), 40000, 1e-4

    class Noisy(InertialDevice):
        def step(self, operator: np.ndarray, rendered: np.ndarray, period: float) -> None:
            self.twist[:] = s * rng.normal(size=6)  # it stands still

    for bandwidth in (30.0, 300.0, 3000.0):
        found = observed(np.zeros((ticks, 6)), np.zeros((ticks, 6)), bandwidth, Noisy(0.4, 0.002, planar=False))
        a = 1.0 - np.exp(-bandwidth * T)
        expected = np.array([0.4] * 3 + [0.002] * 3) * s * (a / T) * np.sqrt(2.0 / (2.0 - a))
        np.testing.assert_allclose(found[1000:].std(axis=0), expected, rtol=0.03)


# In the controllers


@pytest.mark.parametrize("kind", ["four_channel", "unilateral_coupling", "direct", "impedance_shaping"])
def test_every_controller_that_passes_the_operators_wrench_on_can_observe_it(kind: str) -> None:
    """A step of force reaches the hand and the tool as if it were measured, but for the observer's delay."""

    def run(*settings: str) -> Any:
        chosen = [f"controller.type={kind}", "analysis=trial", "duration=0.8", *settings]
        return run_unrecorded(experiment.load("corner_peg", chosen)[0])

    measured, found, none = (
        run(f"controller.operator_wrench={source}", *more)
        for source, more in (("measured", ()), ("observed", ("controller.observer_bandwidth=200",)), ("none", ()))
    )
    moved = measured["tool_px"][-1] - measured["tool_px"][0]
    assert abs(found["tool_px"][-1] - measured["tool_px"][-1]) < 0.05 * moved
    assert np.any(found["tool_px"] != measured["tool_px"])
    assert abs(none["tool_px"][-1] - measured["tool_px"][-1]) > 0.01 * moved


def test_what_the_device_measures_is_not_used_where_it_is_observed() -> None:
    (trial,) = experiment.load(
        "corner_peg", ["analysis=trial", "duration=0.2", "controller.operator_wrench=observed", "device.noise=[5, 1]"]
    )
    (quiet,) = experiment.load("corner_peg", ["analysis=trial", "duration=0.2", "controller.operator_wrench=observed"])
    noisy = run_unrecorded(trial)
    np.testing.assert_array_equal(noisy["hand_px"], run_unrecorded(quiet)["hand_px"])
    assert noisy["operator_fx"].std() > 1.0


def test_the_device_is_taken_from_the_experiment() -> None:
    (trial,) = experiment.load(
        "corner_peg",
        [
            "controller.operator_wrench=observed",
            "device.mass=2.5",
            "device.damping=[3, 0.01]",
            "analysis=trial",
            "controller.allow_active=true",
        ],
    )
    found = trial.experiment.controller
    assert (found.device_mass, found.device_inertia) == (2.5, 0.005)
    assert found.device_damping == (3.0, 3.0, 3.0, 0.01, 0.01, 0.01)
    shaped = ["controller={type: impedance_shaping, operator_wrench: observed}", "device.damping=[3, 0.01]"]
    (trial,) = experiment.load("corner_peg", [*shaped, "analysis=trial", "controller.allow_active=true"])
    assert not any(trial.experiment.controller.device_damping), "what it compensates has to be asked for"
    (plain,) = experiment.load("corner_peg", ["analysis=trial"])
    assert plain.experiment.controller.device_mass is None


def test_a_controller_without_a_device_is_refused() -> None:
    with pytest.raises(TypeError, match="needs device_mass and device_inertia, or device_matrix"):
        DirectParameters(operator_wrench="observed").build(RATE)
    with pytest.raises(ParameterError) as caught:
        experiment.load("corner_peg", ["controller.observer_bandwidth=0"])
    assert caught.value.problems == ["controller.observer_bandwidth = 0 1/s: must be > 0 1/s"]
    matrix = np.eye(6)
    matrix[0, 0] = 0.0
    given = ",".join(map(str, matrix.ravel()))
    with pytest.raises(ParameterError) as caught:
        experiment.load("corner_peg", [f"controller.device_matrix=[{given}]"])
    assert "has an eigenvalue that is not positive: must be positive definite" in caught.value.problems[0]


def test_an_observed_wrench_is_analysed_as_a_measured_one() -> None:
    """The passivity of the port to the hand depends on whether its force is passed on."""

    def found(source: str) -> Any:
        settings = ["controller.type=unilateral_coupling", f"controller.operator_wrench={source}"]
        settings += ["device.damping=[3, 0.01]"]
        allowed = "controller.allow_active=true"
        (trial,) = experiment.load("corner_peg", [*settings, allowed, "analysis=trial"])
        return port_of(trial.experiment.controller, trial.coupled_inertias, trial.experiment.rate)

    assert found("observed") == found("measured")
    assert found("none") != found("measured")


def inertias(mass: float, inertia: float, device: tuple[float, float]) -> CoupledInertias:
    W = np.diag([*(3 * [1.0 / mass]), *(3 * [1.0 / inertia])])
    return CoupledInertias(planar=False, tool=tuple(W.ravel().tolist()), device=device)


def run_with_error(parameters: Any, ticks: int = 4000) -> float:
    """The largest difference of twists, of a device and a light tool that start a little apart."""
    controller: Any = parameters.build(RATE)
    hand, tool = InertialDevice(0.5, 0.01, planar=False), ToolSizes(0, 0).tool_state()
    tool.pose[6], tool.pose[0] = 1.0, 1e-6
    tool.inverse_inertia[::7] = [*(3 * [20.0]), *(3 * [500.0])]
    tool.stamp(-1, 0)
    state, to_tool, to_device = DeviceState(), ToolCommand(), DeviceCommand()
    for k in range(ticks):
        state.stamp(k, tick_time(k, RATE))
        state.pose[:], state.twist[:] = hand.pose, hand.twist
        controller.coordinate(state, tool, to_tool)
        tool.twist[:] += T * tool.inverse_inertia[::7] * to_tool.wrench
        advance_pose(tool.twist, T, tool.pose)
        tool.stamp(k, tick_time(k + 1, RATE))
        controller.command(tool, to_device)
        hand.step(np.zeros(6), to_device.wrench, T)
        state.rendered_wrench[:] = to_device.wrench
        if not np.abs(tool.twist).max() < 10.0:
            break
    return float(np.abs(tool.twist).max())


@pytest.mark.parametrize("kind", [FourChannelParameters, ShapingParameters])
def test_an_observer_that_knows_another_device_is_refused_where_its_error_diverges(kind: Any) -> None:
    """In the map of the loop as in the simulated kernels; with the device's own inertia it does not."""
    problem = {FourChannelParameters: coupling_problem, ShapingParameters: shaping_problem}[kind]
    keys = {"stiffness": (100.0,) * 3 + (0.5,) * 3, "damping": (5.0,) * 3 + (0.1,) * 3, "operator_wrench": "observed",
            "force_scale": 3.0, "observer_bandwidth": 1000.0}  # fmt: skip
    coupled = inertias(0.05, 0.002, (0.5, 0.01))
    seen = set()
    for mass in (0.5, 0.6, 2.0, 5.0):
        given = kind.model_validate(keys | {"device_mass": mass, "device_inertia": 0.01})
        said = problem(given, coupled, RATE)
        assert (run_with_error(given) >= 1.0) == bool(said), (mass, said)
        assert not said or said.startswith("controller.operator_wrench = observed: with the inertia and damping")
        seen.add(bool(said))
        if mass == 0.5:
            assert not said
    assert seen == {True, False}
