"""The twin pantograph as a device: energy, friction, motors, encoders, shaping, and what it does at its limits."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.runtime import _nrt_python, rtsys

from haptic_bench import experiment
from haptic_bench.recording.samples import MessageStore, of_trial
from haptic_bench.running.offline import simulate
from haptic_control.device_model import DeviceModel, evaluate_device
from haptic_control.guard import GuardParameters
from haptic_control.operator_wrench import OperatorWrench
from haptic_control.shaping import ShapingParameters
from haptic_drivers.devices.interface import DeviceError
from haptic_drivers.driver import Driver, build_driver
from haptic_drivers.inertial import InertialDevice, InertialParameters
from haptic_drivers.motor_encoders import MotorEncoders
from haptic_drivers.operators import ConstantParameters
from haptic_drivers.pantograph import Pantograph, PantographParameters, step_pantograph
from haptic_drivers.parameters import HandParameters
from haptic_sim.dynamics.pantograph import Linkage, close_loops, motor_angles
from haptic_sim.messages import FAULT, FORCE, DeviceCommand, DeviceState, Reason
from haptic_sim.packed import Packed
from haptic_sim.parameters import ParameterError
from haptic_sim.worlds.scenes import PegParameters

RATE = 512.0  # [Hz]
T = 1.0 / RATE
NONE = np.zeros(6)
IDEAL = {"viscous_friction": 0.0, "coulomb_friction": 0.0, "counts": 0}
TURNED = (0.3, -0.2, 0.7)  # [m, m, rad] a mount


def pose(x: float = 0.0, y: float = 0.0, angle: float = 0.0) -> np.ndarray:
    return np.array([x, y, 0.0, 0.0, 0.0, math.sin(0.5 * angle), math.cos(0.5 * angle)])


def planar(x: float, y: float, turn: float) -> np.ndarray:
    return np.array([x, y, 0.0, 0.0, 0.0, turn])


def device(at: np.ndarray | None = None, **keys: Any) -> Pantograph:
    parameters = PantographParameters.model_validate({"shaped": False} | keys)
    return Pantograph(parameters, pose() if at is None else at)


def motor_angles_of(one: Pantograph) -> np.ndarray:
    linkage, angles = Linkage.of(PantographParameters().linkage), np.zeros(4)
    x, y = one.pose[:2]
    close_loops(linkage, np.array([x, y, 2.0 * math.atan2(one.pose[5], one.pose[6])]))
    motor_angles(linkage, angles)
    return angles


def driver(operator: Any = None, hand: HandParameters | None = None, guard: Any = None, **keys: Any) -> Driver:
    peg = PegParameters()
    parameters = PantographParameters.model_validate({"mass": peg.mass, "inertia": peg.inertia} | keys)
    operator = operator or ConstantParameters(wrench=(0.32, -0.4, 0.0, 0.0, 0.0, 0.003))
    return build_driver(parameters, operator, peg, RATE, hand=hand, guard=guard)


def render(one: Driver, tick: int, wrench: Any) -> np.ndarray:
    """What is rendered of a command, as the next state tells."""
    state, command = DeviceState(), DeviceCommand()
    one.sense(tick, state)
    command.stamp(tick, 0)
    command.mode = FORCE
    command.wrench[:] = wrench
    one.actuate(command)
    one.sense(tick + 1, state)
    return state.rendered_wrench.copy()


def test_the_energy_of_a_free_motion_is_kept_to_the_order_of_the_integration() -> None:
    """Without friction, under gravity, turned: the error falls with the fourth power of the step, or faster."""
    errors = []
    for steps in (20, 40):
        one = device(mount=(0.0, 0.0, 0.7), gravity=(2.0, -1.0), gravity_compensation=False, **IDEAL)
        one.step(planar(8.0, 5.0, 0.6), NONE, 0.02)
        before = one.energy()
        for _ in range(steps):
            one.step(NONE, NONE, 0.04 / steps)
        assert not one.fault and np.linalg.norm(one.twist[:2]) > 0.5 and abs(one.twist[5]) > 1.0
        errors.append(abs(one.energy() - before) / before)
    assert errors[0] < 1e-6
    assert errors[1] < errors[0] / 12.0


def test_the_work_of_all_torques_and_wrenches_is_the_change_of_energy() -> None:
    """Friction, motors and operator, each times the way that it was held over."""
    one, rng = device(), np.random.default_rng(4)
    expected, before = one.energy(), one.dissipated
    for _ in range(300):
        operator, rendered = (planar(*rng.normal(0.0, (0.6, 0.6, 0.02))) for _ in range(2))
        angles, start = motor_angles_of(one), one.pose.copy()
        one.step(operator, rendered, T)
        turned = 2.0 * (math.atan2(one.pose[5], one.pose[6]) - math.atan2(start[5], start[6]))
        expected += one.motor_torques @ (motor_angles_of(one) - angles)
        expected += operator[:2] @ (one.pose[:2] - start[:2]) + operator[5] * turned
    assert not one.fault
    assert one.energy() == pytest.approx(expected - (one.dissipated - before), abs=1e-9)
    assert one.dissipated > 1e-3


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([(1e-4, 2e-3), (0.0, 2e-2), (2e-2, 0.0)]))
def test_friction_dissipates_in_every_step(seed: int, friction: tuple[float, float]) -> None:
    one, rng = device(viscous_friction=friction[0], coulomb_friction=friction[1]), np.random.default_rng(seed)
    for _ in range(60):
        before = one.dissipated
        one.step(planar(*rng.normal(0.0, (1.0, 1.0, 0.05))), planar(*rng.normal(0.0, (1.0, 1.0, 0.05))), T)
        assert one.dissipated - before >= -4e-12  # four joints, rounding


def test_a_hand_that_pushes_less_than_friction_moves_nothing_and_one_that_pushes_more_does() -> None:
    """At rest in the middle: along y all motors turn alike, with T = F / 26.7 per metre (see the peak force)."""
    breakaway = 23.0 * 2e-3 / (0.0525 * 16.4)  # [N] the peak force is that of 16.4 A
    held, moved = device(), device()
    for _ in range(200):
        held.step(planar(0.0, 0.99 * breakaway, 0.0), NONE, T)
        moved.step(planar(0.0, 1.05 * breakaway, 0.0), NONE, T)
    assert np.abs(held.pose - pose()).max() < 1e-10
    assert moved.pose[1] > 1e-4


def test_peak_force_torque_and_acceleration_are_those_of_the_source() -> None:
    """THESIS D.1: 23 N and 1.15 N m at the handle, and 6 g at half the largest current."""
    one = device()
    most = [1.0 / np.abs(one.drive[:, i]).max() for i in (0, 1, 5)]
    assert most[1] == pytest.approx(23.0, rel=2e-3) and most[2] == pytest.approx(1.15, rel=2e-3)
    assert most[0] == pytest.approx(15.5, rel=5e-3)  # along x, the weakest direction
    assert 0.5 * most[1] / one.inertia()[1, 1] == pytest.approx(6.0 * 9.81, rel=0.01)


def test_a_wrench_beyond_the_motors_is_scaled_down_in_its_direction() -> None:
    one = driver(ConstantParameters(wrench=(0.0,) * 6), shaped=False, impulse_rendering="full")
    asked = planar(30.0, -20.0, 0.4)
    rendered = render(one, 0, asked)
    assert one.saturations == 1
    np.testing.assert_allclose(rendered / np.linalg.norm(rendered), asked / np.linalg.norm(asked), atol=1e-15)
    parts = np.abs(device().drive @ rendered)
    assert parts.max() == pytest.approx(1.0, rel=1e-12)
    assert np.array_equal(render(one, 1, planar(3.0, 1.0, 0.1)), planar(3.0, 1.0, 0.1))


def test_without_shaping_friction_and_gravity_the_device_accelerates_by_its_operational_space_inertia() -> None:
    start = pose(0.02, -0.03, 0.5)
    one, force = device(start, mount=(0.0, 0.0, 0.0), **IDEAL), np.array([1.0, -0.5, 0.02])
    expected = np.linalg.solve(one.inertia(), force)
    one.step(planar(*force), NONE, 1e-5)
    np.testing.assert_allclose(one.twist[[0, 1, 5]] / 1e-5, expected, rtol=1e-3)


def test_a_mounted_device_is_the_same_in_turned_axes() -> None:
    c, s = math.cos(TURNED[2]), math.sin(TURNED[2])
    R = np.array([[c, -s], [s, c]])
    at = np.array([0.02, -0.01])
    plain = device(pose(*at, 0.4), mount=(0.0, 0.0, 0.0))
    mounted = device(pose(*(R @ at + TURNED[:2]), 0.4 + TURNED[2]), mount=TURNED)
    force = np.array([0.7, 0.4])
    for _ in range(40):
        plain.step(planar(*force, 0.01), NONE, T)
        mounted.step(planar(*(R @ force), 0.01), NONE, T)
    np.testing.assert_allclose(mounted.pose[:2], R @ plain.pose[:2] + TURNED[:2], rtol=0, atol=1e-14)
    np.testing.assert_allclose(mounted.twist[:2], R @ plain.twist[:2], rtol=0, atol=1e-12)
    assert mounted.twist[5] == pytest.approx(plain.twist[5], abs=1e-12)
    np.testing.assert_allclose(
        np.abs(mounted.drive @ planar(*(R @ force), 0.1)), np.abs(plain.drive @ planar(*force, 0.1))
    )


def test_motors_that_carry_the_weight_have_less_left_for_the_hand() -> None:
    level, upright = device(), device(gravity=(0.0, -9.81))
    for _ in range(100):
        upright.step(NONE, NONE, T)
    np.testing.assert_allclose(upright.pose, pose(), rtol=0, atol=1e-12)
    assert np.abs(upright.drive[:, 1]).max() > np.abs(level.drive[:, 1]).max()
    falling = device(gravity=(0.0, -9.81), gravity_compensation=False)
    falling.step(NONE, NONE, T)
    assert falling.twist[1] == pytest.approx(-9.81 * T, rel=0.3)


def test_a_shaped_device_without_friction_moves_as_the_ideal_one() -> None:
    """THESIS 5.20: of 2 kg and 0.005 kg m^2, under the operator's and a commanded wrench."""
    keys = {"mass": 2.0, "inertia": 0.005, "shaped": True}
    one, ideal = device(**keys, **IDEAL), InertialDevice(2.0, 0.005, damping=(0.0, 0.0))
    rng = np.random.default_rng(2)
    for _ in range(400):
        operator, wrench = (planar(*rng.normal(0.0, (2.0, 2.0, 0.02))) for _ in range(2))
        one.step(operator, one.drive_wrench(wrench, operator, one.twist, T), T)
        ideal.step(operator, wrench, T)
    assert np.linalg.norm(ideal.pose[:2]) > 0.005
    np.testing.assert_allclose(one.pose[:2], ideal.pose[:2], rtol=0, atol=2e-5)
    np.testing.assert_allclose(one.twist[[0, 1]], ideal.twist[[0, 1]], rtol=0, atol=1e-3)


@settings(max_examples=30, deadline=None)
@given(st.floats(-0.05, 0.05), st.floats(-0.05, 0.05), st.floats(-6.0, 6.0))
def test_what_encoders_tell_is_within_half_a_step_of_each_motor(x: float, y: float, angle: float) -> None:
    """The error of an endpoint is at most what half a step of both of its motors makes; the hand is between two."""
    p = PantographParameters(mount=(0.0, 0.0, 0.0), velocity="exact")
    state, start = DeviceState(), pose(x, y, angle)
    state.pose[:] = start
    MotorEncoders(p, RATE).read(state)
    linkage = Linkage.of(p.linkage)
    close_loops(linkage, np.array([x, y, angle]))
    half = math.pi / p.counts
    reach = [np.abs(np.linalg.inv(linkage.B[2 * k : 2 * k + 2, 0])).sum(axis=1) * half for k in (0, 1)]
    bound = 1.01 * np.array(reach).mean(axis=0)
    assert np.all(np.abs(state.pose[:2] - start[:2]) <= bound)
    turned = 2.0 * math.atan2(
        state.pose[5] * start[6] - state.pose[6] * start[5], state.pose[6] * start[6] + state.pose[5] * start[5]
    )
    assert abs(turned) <= 1.01 * np.sum([np.hypot(*one) for one in reach]) / p.linkage.handle_length


def test_the_observed_velocity_has_less_noise_than_differences_and_does_not_lag() -> None:
    one, state = device(), DeviceState()
    sensors = {
        kind: MotorEncoders(PantographParameters(mount=(0.0, 0.0, 0.0), velocity=kind), RATE)
        for kind in ("difference", "observed")
    }
    errors: dict[str, list[np.ndarray]] = {kind: [] for kind in sensors}
    for k in range(500):
        push = planar(0.4 * math.sin(12.0 * k * T), 0.3 * math.cos(9.0 * k * T), 0.0)
        hold = planar(*(20.0 * one.pose[:2]), 0.1 * one.pose[5]) + np.array([2.0, 2.0, 0.0, 0.0, 0.0, 2e-3]) * one.twist
        for kind, sensor in sensors.items():
            state.pose[:], state.twist[:], state.operator_wrench[:] = one.pose, one.twist, push - hold
            sensor.read(state)
            if k > 100:
                errors[kind].append(state.twist[[0, 1, 5]] - one.twist[[0, 1, 5]])
        one.step(push - hold, NONE, T)
    assert not one.fault
    spread = {kind: np.std(values, axis=0) for kind, values in errors.items()}
    assert np.all(spread["observed"] < 0.3 * spread["difference"])
    assert np.all(np.abs(np.mean(errors["observed"], axis=0)) < [1e-4, 1e-4, 2e-3])


def test_the_edge_of_the_workspace_is_a_fault_that_names_it_and_renders_nothing() -> None:
    one = driver(ConstantParameters(wrench=(2.0, 0.0, 0.0, 0.0, 0.0, 0.0)), friction_compensation=1.0)
    state, tick = DeviceState(), 0
    while not one.fault and tick < 1000:
        render(one, tick, NONE)
        tick += 1
    assert one.fault.startswith("device: the ") and "pantograph" in one.fault and "device.mount" in one.fault
    one.sense(tick, state)
    where = state.pose.copy()
    np.testing.assert_array_equal(render(one, tick, planar(5.0, 0.0, 0.0)), NONE)
    one.sense(tick + 1, state)
    assert state.state == FAULT and state.reason == Reason.FAILED
    np.testing.assert_array_equal(state.pose, where)


def test_a_fault_says_the_angle_within_half_a_turn() -> None:
    one = driver(ConstantParameters(wrench=(0.1, 0.0, 0.0, 0.0, 0.0, 0.02)), friction_compensation=1.0)
    state, tick = DeviceState(), 0
    turned = before = 0.0
    while not one.fault and tick < 2000:
        render(one, tick, NONE)
        one.sense(tick, state)
        angle = 2.0 * np.arctan2(state.pose[5], state.pose[6])
        turned, before = turned + np.remainder(angle - before + np.pi, 2.0 * np.pi) - np.pi, angle
        tick += 1
    (said,) = re.findall(r"at (-?[\d.]+) degrees", one.fault)
    assert turned > 1.1 * np.pi and abs(float(said)) <= 180.0


def test_offline_a_fault_ends_the_trial_with_its_text() -> None:
    trial = experiment.load(
        "corner_peg",
        ["device.type=pantograph", "device.mount=[0.09,0,0]", "duration=1", "operator.wrench=[-3,0,0,0,0,0]"],
    )[0]
    with pytest.raises(DeviceError, match=r"out of the workspace|edge of the workspace|parallel"):
        simulate(trial, MessageStore())


@pytest.mark.parametrize(
    ("settings_", "text"),
    [
        (["device.mount=[0.5,0,0]"], "device.mount = [0.5, 0, 0]: the device cannot start with the tool"),
        (["device.linkage.margin=0.9"], "the device cannot start with the tool, device: the "),
    ],
)
def test_a_mount_from_which_the_tool_is_out_of_reach_is_refused(settings_: list[str], text: str) -> None:
    with pytest.raises(ParameterError) as raised:
        experiment.load("corner_peg", ["device.type=pantograph", *settings_])
    assert text in str(raised.value)


def test_a_velocity_of_encoders_has_no_noise_of_its_own() -> None:
    with pytest.raises(
        ValueError, match=r"twist_noise = \[0\.1, 0\.0\]: a velocity from encoders has their errors alone"
    ):
        PantographParameters(twist_noise=(0.1, 0.0))


def test_keys_without_effect_are_named() -> None:
    keys = ["device.type=pantograph", "device.shaped=false", "device.mass=1", "controller.damping=[7,7,0.02]"]
    keys += ["device.velocity=difference", "device.observer_bandwidth=100"]
    notes = experiment.load("corner_peg", keys)[0].notes
    assert "device.mass: not used, as device.shaped = false" in notes
    assert "device.observer_bandwidth: not used, as device.velocity = difference" in notes


def test_in_space_there_is_no_pantograph() -> None:
    with pytest.raises(ParameterError, match=r"device\.type = pantograph: moves in the plane"):
        experiment.load("arm_singularity", ["device.type=pantograph"])


def test_bound_soft_start_and_guard_act_as_with_other_devices() -> None:
    still = ConstantParameters(wrench=(0.0,) * 6)
    bounded = driver(still, shaped=False, bound={"wrench": [2.0, 2.0, 0.1], "rate": [100.0, 100.0, 5.0]})
    first = render(bounded, 0, planar(5.0, 0.0, 0.0))
    assert first[0] == pytest.approx(100.0 * T) and bounded.bounded == 1
    soft = driver(still, shaped=False, soft_start=1.0)
    render(soft, 0, planar(5.0, 0.0, 0.0))
    assert render(soft, 256, planar(4.0, 0.0, 0.0))[0] == pytest.approx(2.0)
    guarded = driver(still, shaped=False, guard=GuardParameters(type="passivity"))
    for tick in range(40):  # pushes a resting hand on: energy from nothing
        render(guarded, tick, planar(1.0, 0.0, 0.0))
    free = driver(still, shaped=False)
    for tick in range(40):
        render(free, tick, planar(1.0, 0.0, 0.0))
    states = DeviceState(), DeviceState()
    for one, state in zip((guarded, free), states, strict=True):
        one.sense(40, state)
    assert guarded.guarded > 0
    assert abs(states[0].pose[0]) < 0.2 * abs(states[1].pose[0])


def test_a_controller_that_knows_the_linkage_has_the_inertia_and_the_momentum_of_the_device() -> None:
    """In turned axes, along a free motion: the momenta change by what the bias says, and M_d a + C_d v is zero."""
    one, numbers = device(pose(0.3, -0.2, 1.1), mount=TURNED, **IDEAL), PantographParameters().linkage.numbers(TURNED)
    model = DeviceModel.of(ShapingParameters(device_linkage=numbers, device_damping=(0.5, 0.4, 0.01)))
    one.step(planar(9.0, -6.0, 0.4), NONE, 0.02)
    period, states = 1e-4, []
    for _ in range(3):
        evaluate_device(Packed(model).arrays, one.pose, one.twist)
        states.append((model.momentum.copy(), model.bias.copy(), model.coriolis.copy(), one.twist.copy()))
        np.testing.assert_allclose(model.inertia[np.ix_((0, 1, 5), (0, 1, 5))], one.inertia(), rtol=1e-12, atol=1e-16)
        one.step(NONE, NONE, period)
    damping = np.array([0.5, 0.4, 0.0, 0.0, 0.0, 0.01]) * states[1][3]
    change = (states[2][0] - states[0][0]) / (2.0 * period)
    np.testing.assert_allclose(change, damping - states[1][1], rtol=1e-4, atol=1e-6)
    evaluate_device(Packed(model).arrays, one.pose, one.twist)
    acceleration = (states[2][3] - states[0][3]) / (2.0 * period)
    np.testing.assert_allclose(model.inertia @ acceleration, damping - states[1][2], rtol=0.03, atol=1e-3)
    assert np.linalg.norm(states[1][1]) > 0.1


@pytest.mark.parametrize("shaped", [True, False])
def test_the_operators_wrench_is_observed_on_a_device_of_links(shaped: bool) -> None:
    """What the motors render is known, as is the linkage: without friction the estimate is the operator's wrench."""
    keys = ["device.type=pantograph", f"device.shaped={str(shaped).lower()}", "duration=0.25", "device.velocity=exact"]
    keys += ["device.viscous_friction=0", "device.coulomb_friction=0", "device.counts=0"]
    keys += ["controller.operator_wrench=observed", "controller.damping=[7,7,0.02]"]
    trial = experiment.load("corner_peg", keys)[0]
    controller = trial.experiment.controller
    assert len(controller.device_linkage) == 16
    assert controller.device_mass == (2.0 if shaped else None)
    observer = OperatorWrench(controller, RATE)
    store = MessageStore()
    simulate(trial, store)
    state = DeviceState()
    for message in store.messages["device_state"]:
        state.load(message)
        estimate = observer.at(state)
    np.testing.assert_allclose(estimate, [0.32, -0.4, 0.0, 0.0, 0.0, 0.0], rtol=0, atol=2e-3)


def test_impedance_shaping_without_the_devices_own_controller_moves_the_linkage_as_the_tool() -> None:
    """THESIS 5.20 with the operational-space inertia: hand and tool stay together under a constant wrench."""
    keys = ["device.type=pantograph", "controller.type=impedance_shaping", "device.velocity=exact", "duration=0.5"]
    keys += ["device.viscous_friction=0", "device.coulomb_friction=0", "device.counts=0"]
    for shaped in ("true", "false"):
        trial = experiment.load("corner_peg", [*keys, f"device.shaped={shaped}"])[0]
        store = MessageStore()
        simulate(trial, store)
        samples = of_trial(trial, store.messages)
        apart = np.linalg.norm(samples.pose("hand")[:, :2] - samples.pose("tool")[:, :2], axis=1)
        assert np.linalg.norm(samples.pose("hand")[-1, :2]) > 0.02
        assert apart.max() < 1e-4


def test_two_runs_have_the_same_bits_and_the_ideal_device_is_what_it_was() -> None:
    trial = experiment.load("corner_peg", ["device.type=pantograph", "duration=0.3"])[0]
    stores = MessageStore(), MessageStore()
    for store in stores:
        simulate(trial, store)
    assert stores[0].messages == stores[1].messages
    assert isinstance(experiment.load("corner_peg", [])[0].experiment.device, InertialParameters)


def test_a_step_allocates_nothing_and_compiles_nothing() -> None:
    one = device()
    one.step(planar(0.1, 0.0, 0.0), NONE, T)
    push = planar(0.1, 0.0, 0.0)
    _nrt_python.memsys_enable_stats()
    try:
        compiled, before = len(step_pantograph.signatures), rtsys.get_allocation_stats()
        for _ in range(50):
            one.step(push, NONE, T)
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    handed_over = 2 * 50  # Numba counts the two arrays of each call
    assert (after.alloc - before.alloc, len(step_pantograph.signatures)) == (handed_over, compiled)
