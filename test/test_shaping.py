"""Impedance shaping as a controller: closed forms, and what a device under it does beside the tool."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from offline_runs import run_unrecorded
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation
from world_builder import thesis_material

from haptic_bench import experiment
from haptic_control import shaping
from haptic_control.four_channel import FourChannel, FourChannelParameters
from haptic_control.shaping import ImpedanceShaping, ShapingParameters, shaping_problem
from haptic_control.stability import CoupledInertias
from haptic_drivers.inertial import InertialDevice
from haptic_sim.dynamics.arms import LENGTHS, three_links
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.hand import Hand
from haptic_sim.messages import DeviceCommand, DeviceState, ToolCommand, ToolSizes, ToolState
from haptic_sim.parameters import ParameterError
from haptic_sim.spatial import advance_pose
from haptic_sim.tool.environment import Environment
from haptic_sim.worlds.parameters import WorldParameters
from haptic_sim.worlds.scenes import EmptyParameters, NoToolParameters, ThreeLinksParameters, build_world
from haptic_sim.worlds.world_setup import WorldSetup

PLANE = (0, 1, 5)
FREE = {"stiffness": (0.0,) * 3, "damping": (0.0,) * 3}
UNIT = {"device_mass": 1.0, "device_inertia": 1.0}


def controller(**keys: Any) -> ImpedanceShaping:
    return ImpedanceShaping(ShapingParameters.model_validate(UNIT | keys), 1000.0)


def random_states(seed: int, count: int) -> tuple[DeviceState, ToolState]:
    """Any states, the tool's with `count` directions of topological constraint."""
    rng = np.random.default_rng(seed)
    device, tool = DeviceState(), ToolSizes(3, 3).tool_state()
    for state in (device, tool):
        state.pose[:3], state.twist[:] = 0.1 * rng.normal(size=3), rng.normal(size=6)
        state.pose[3:] = Rotation.random(random_state=rng).as_quat()
    device.operator_wrench[:], tool.wrench[:] = rng.normal(size=6), rng.normal(size=6)
    W = rng.normal(size=(6, 6 - count))
    tool.inverse_inertia[:] = (W @ W.T).ravel()
    tool.free_acceleration[:] = rng.normal(size=6)
    tool.resize(6 * count)
    tool.constraint_directions[: 6 * count] = np.linalg.svd(W)[0].T[6 - count :].ravel()
    return device, tool


def commanded(one: ImpedanceShaping, device: DeviceState, tool: ToolState) -> np.ndarray:
    """What the device is told."""
    command = DeviceCommand()
    one.coordinate(device, tool, ToolCommand())
    one.command(tool, command)
    return command.wrench.copy()


def difference(B: np.ndarray, A: np.ndarray) -> np.ndarray:
    turn = (Rotation.from_quat(B[3:]) * Rotation.from_quat(A[3:]).inv()).as_rotvec()
    return np.concatenate([B[:3] - A[:3], turn])


@pytest.mark.parametrize("dynamics", ["printed", "consistent"])
@pytest.mark.parametrize(("penalty", "count"), [(False, 2), (True, 0), (True, 1), (True, 3)])
def test_the_command_is_equations_5_15_and_5_20_to_5_24(dynamics: str, penalty: bool, count: int) -> None:
    """With the missing terms, or as printed."""
    for seed in range(10):
        device, tool = random_states(seed, count)
        K, B, Kd, Bd, Cd = (np.random.default_rng(seed).random((5, 6)) * 10).tolist()
        M = np.diag([1.7] * 3 + [0.2] * 3)
        rest = [0.1, 0.2, -0.1, *Rotation.from_rotvec([0.1, -0.3, 0.4]).as_quat()]
        one = controller(
            stiffness=K, damping=B, desired_stiffness=Kd, desired_damping=Bd, device_damping=Cd, rest=rest,
            device_mass=1.7, device_inertia=0.2, dynamics=dynamics, topology_penalty=penalty, topology_stiffness=30.0,
            topology_damping=4.0,
        )  # fmt: skip
        apart, rate = difference(tool.pose, device.pose), tool.twist - device.twist
        F = device.operator_wrench + tool.wrench + K * apart + B * rate
        F -= Bd * device.twist + Kd * difference(device.pose, np.array(rest))
        a = tool.inverse_inertia.reshape(6, 6) @ F
        if dynamics == "consistent":
            a += tool.free_acceleration
        if penalty:
            n = tool.constraint_directions[: 6 * count].reshape(count, 6)
            a += n.T @ (30.0 * n @ apart + 4.0 * n @ rate)
        expected = M @ a + Cd * device.twist - device.operator_wrench
        np.testing.assert_allclose(commanded(one, device, tool), expected, rtol=1e-10, atol=1e-11)


def test_the_tool_is_told_what_the_four_channel_controller_tells_it() -> None:
    device, tool = random_states(3, 1)
    keys = {"stiffness": (10.0, 20.0, 3.0), "damping": (4.0, 5.0, 6.0), "force_scale": 0.7}
    told, as_told = ToolCommand(), ToolCommand()
    controller(**keys).coordinate(device, tool, told)
    FourChannel(FourChannelParameters.model_validate(keys), 1000.0).coordinate(device, tool, as_told)
    assert told.to_bytes() == as_told.to_bytes()


def test_the_state_of_the_tick_counts_and_the_wrench_of_its_end() -> None:
    """The tool's state is replaced between the two calls: mobility, drift and directions are those at t_k."""
    device, tool = random_states(1, 2)
    _, after = random_states(2, 3)
    after.wrench[:] = tool.wrench
    one, command = controller(dynamics="consistent"), DeviceCommand()
    one.coordinate(device, tool, ToolCommand())
    one.command(after, command)
    np.testing.assert_array_equal(command.wrench, commanded(controller(dynamics="consistent"), device, tool))


def test_the_choice_of_a_basis_and_its_signs_do_not_matter() -> None:
    rng = np.random.default_rng(5)
    for count in (1, 2, 3):
        device, tool = random_states(count, count)
        before = commanded(controller(), device, tool)
        rows = tool.constraint_directions[: 6 * count].reshape(count, 6)
        turn = np.linalg.qr(rng.normal(size=(count, count)))[0]
        tool.constraint_directions[: 6 * count] = (turn @ rows).ravel()
        np.testing.assert_allclose(commanded(controller(), device, tool), before, rtol=0, atol=1e-12)
        tool.constraint_directions[: 6 * count] *= -1.0
        np.testing.assert_allclose(commanded(controller(), device, tool), before, rtol=0, atol=1e-12)


def test_gains_and_laws_change_with_the_next_tick() -> None:
    device, tool = random_states(4, 1)
    one = controller(dynamics="consistent")
    commanded(one, device, tool)
    for keys in ({"dynamics": "printed"}, {"topology_penalty": False}, {"topology_stiffness": 99.0}):
        one.configure(ShapingParameters.model_validate(UNIT | keys))
        np.testing.assert_array_equal(commanded(one, device, tool), commanded(controller(**keys), device, tool))


def test_a_device_of_unknown_inertia_is_refused() -> None:
    with pytest.raises(TypeError, match="device_mass and device_inertia"):
        ImpedanceShaping(ShapingParameters(device_mass=1.0), 1000.0)
    with pytest.raises(ValueError, match="quaternion must have length 1"):
        ShapingParameters(rest=(0, 0, 0, 0, 0, 0, 2))


@pytest.mark.parametrize("seed", range(10))
def test_a_device_of_any_inertia_accelerates_as_the_tool_does(seed: int) -> None:
    """A rigid body that is held off its centre of mass and turns, by Pinocchio: with its matrix, at any velocity."""
    rng = np.random.default_rng(seed)
    Q = rng.normal(size=(3, 3))
    body = pin.Inertia(0.7, 0.05 * rng.normal(size=3), 1e-2 * (Q @ Q.T + np.eye(3)))
    matrix = tuple(body.matrix().ravel().tolist())
    device, tool = random_states(seed, 0)
    keys = {"dynamics": "consistent", "stiffness": (10.0,) * 6, "damping": (2.0,) * 6}
    command = commanded(controller(**keys, device_matrix=matrix, device_axes="hand"), device, tool)
    blocks = np.kron(np.eye(2), Rotation.from_quat(device.pose[3:]).as_matrix())
    v = pin.Motion(blocks.T @ device.twist)
    force = pin.Force(blocks.T @ (command + device.operator_wrench)) - v.cross(body * v)
    rate = np.linalg.solve(body.matrix(), force.vector)
    rate[:3] += np.cross(v.angular, v.linear)
    to_tool = ToolCommand()
    one = controller(**keys)
    one.coordinate(device, tool, to_tool)
    coordination = device.operator_wrench - to_tool.wrench
    W = tool.inverse_inertia.reshape(6, 6)
    wanted = W @ (device.operator_wrench + tool.wrench + coordination) + tool.free_acceleration
    np.testing.assert_allclose(blocks @ rate, wanted, rtol=1e-8, atol=1e-8)


def test_a_matrix_is_checked_as_mass_and_inertia_are() -> None:
    """A diagonal gives the same refusals; a matrix that couples directions is in the loop as it is simulated."""
    W = np.diag([2.0] * 3 + [50.0] * 3)
    coupled = CoupledInertias(planar=False, tool=tuple(W.ravel().tolist()), device=(0.5, 0.02))
    diagonal = tuple(np.diag([1.5] * 3 + [0.06] * 3).ravel().tolist())
    keys = {"stiffness": (100.0,) * 6, "damping": (300.0,) * 3 + (8.0,) * 3}
    pair = ShapingParameters.model_validate(keys | {"device_mass": 1.5, "device_inertia": 0.06})
    same = ShapingParameters.model_validate(keys | {"device_matrix": diagonal})
    assert shaping_problem(pair, coupled, 1000.0) == shaping_problem(same, coupled, 1000.0) != ""
    gentle = keys | {"damping": (245.0,) * 3 + (1.0,) * 3}
    crossed = np.array(diagonal).reshape(6, 6)
    crossed[0, 4] = crossed[4, 0] = 0.28
    for matrix, diverging in ((np.array(diagonal).reshape(6, 6), False), (crossed, True)):
        given = ShapingParameters.model_validate(gentle | {"device_matrix": tuple(matrix.ravel().tolist())})
        assert bool(shaping_problem(given, coupled, 1000.0)) == diverging
        one, hand = ImpedanceShaping(given, 1000.0), InertialDevice(0.5, 0.02, planar=False)
        device, tool = DeviceState(), ToolSizes(0, 0).tool_state()
        tool.pose[6], tool.twist[:], tool.inverse_inertia[:] = 1.0, 1e-6, W.ravel()
        for _ in range(2000):
            device.pose[:], device.twist[:] = hand.pose, hand.twist
            told, command = ToolCommand(), DeviceCommand()
            one.coordinate(device, tool, told)
            one.command(tool, command)
            tool.twist[:] += 1e-3 * W @ told.wrench
            advance_pose(tool.twist, 1e-3, tool.pose)
            hand.step(np.zeros(6), command.wrench, 1e-3)
        assert (np.abs(tool.twist).max() > 1e-4) == diverging


def test_no_kernel_is_compiled_again() -> None:
    one, kernels = controller(), (shaping._accelerate, shaping._shape)
    one.warm_up(ToolSizes(3, 3))
    before = [len(kernel.signatures) for kernel in kernels]
    for dynamics in ("printed", "consistent"):
        one.configure(ShapingParameters.model_validate(UNIT | {"dynamics": dynamics, "topology_stiffness": 5}))
        commanded(one, *random_states(0, 1))
    assert [len(kernel.signatures) for kernel in kernels] == before


# With a tool


@dataclass
class Course:
    """Poses and twists of hand and tool, one row a tick; commands to the device."""

    hand: np.ndarray
    tool: np.ndarray
    command: np.ndarray
    directions: np.ndarray

    @property
    def drift(self) -> np.ndarray:
        return np.linalg.norm(self.hand[:, :3] - self.tool[:, :3], axis=1)


def run(
    world: WorldSetup,
    one: ImpedanceShaping,
    seconds: float,
    *,
    rate: float = 1000.0,
    operator: Sequence[float] = (0.0,) * 6,
    offset: Sequence[float] = (0.0,) * 3,
) -> Course:
    """Device and tool from the tool's pose, and an offset [m], at the tool's twist."""
    tool_side = Environment(world, thesis_material(), "penalty", "full", np.full(6, np.inf), rate)
    tool, device_state, asked, command = tool_side.tool_state(), DeviceState(), ToolCommand(), DeviceCommand()
    mass, inertia = one.parameters.device_mass, one.parameters.device_inertia
    assert mass is not None and inertia is not None
    device = InertialDevice(mass, inertia, tool.pose, planar=world.planar)
    device.pose[:3] += offset
    device.twist[:] = tool.twist
    rows: tuple[list[np.ndarray], ...] = ([], [], [], [])
    for k in range(round(seconds * rate) + 1):
        device_state.stamp(k, 0)
        device_state.pose[:], device_state.twist[:] = device.pose, device.twist
        device_state.operator_wrench[:] = operator
        for row, values in zip(rows, (device.pose, tool.pose), strict=False):
            row.append(values.copy())
        rows[3].append(np.array(len(tool) // 6))
        one.coordinate(device_state, tool, asked)
        tool_side.step(asked, tool)
        one.command(tool, command)
        rows[2].append(command.wrench.copy())
        device.step(device_state.operator_wrench, command.wrench, 1.0 / rate)
    return Course(*(np.array(row) for row in rows))


def arm(**keys: Any) -> WorldSetup:
    return build_world(ThreeLinksParameters.model_validate(keys), EmptyParameters(), thesis_material())


def swing(hold: str) -> WorldSetup:
    """An arm in space, with gravity: a shoulder of two hinges, and an elbow."""
    link = {"joint": "revolute", "mass": 1.0, "centre_of_mass": [0.15, 0, 0], "inertia": [0.01, 0.02, 0.03]}
    bodies = {
        "first": {**link, "axis": [0, 0, 1], "angle": 0.3, "velocity": 1.0},
        "second": {**link, "axis": [0, 1, 0], "angle": 0.5, "velocity": -0.5, "parent": "first"},
        "third": {**link, "axis": [0, 1, 0.2], "angle": -0.9, "velocity": 0.8, "parent": "second",
                  "position": [0.3, 0, 0]},
    }  # fmt: skip
    scene = WorldParameters.model_validate({"bodies": bodies, "tool": hold})
    return build_world(NoToolParameters(), scene, thesis_material())


WORLDS = {
    **{hold: lambda hold=hold: arm(hold=hold, rates=(1.0, -2.0, 1.5)) for hold in ("proximal", "middle", "distal")},
    **{f"{hold} in space": lambda hold=hold: swing(hold) for hold in ("first", "second", "third")},
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_consistent_law_keeps_device_and_tool_together_from_a_common_start(name: str) -> None:
    """Exactly in continuous time, so that the drift of a discrete one goes with the step; the printed one's does not.

    Without coordination and without penalties, under a wrench, in motion, and in space with gravity.
    """
    keys = {**FREE, "topology_penalty": False}
    operator = (0.3, -0.2, 0.0, 0.0, 0.0, 0.01)
    drifts = [
        run(WORLDS[name](), controller(**keys, dynamics="consistent"), 0.3, rate=rate, operator=operator).drift[-1]
        for rate in (1000.0, 2000.0, 4000.0)
    ]
    printed = run(WORLDS[name](), controller(**keys, dynamics="printed"), 0.3, operator=operator)
    assert drifts[0] < 0.02 * printed.drift[-1]
    np.testing.assert_allclose([drifts[0] / drifts[1], drifts[1] / drifts[2]], 2.0, rtol=0.1)


@pytest.mark.parametrize("hold", ["proximal", "middle", "distal"])
def test_the_printed_law_lets_the_device_go_straight_where_the_hand_goes_round(hold: str) -> None:
    """A stretched arm turns as one body: the hand moves in a circle, the device along its tangent."""
    omega, radius = 1.5, sum(LENGTHS[: ("proximal", "middle", "distal").index(hold)])
    radius += 0.5 * LENGTHS[("proximal", "middle", "distal").index(hold)]
    world = arm(hold=hold, angles=(0, 0, 0), rates=(omega, 0, 0))
    course = run(world, controller(**FREE, topology_penalty=False, dynamics="printed"), 0.8)
    angle = omega * 1e-3 * np.arange(len(course.drift))
    expected = radius * np.hypot(np.cos(angle) - 1.0, np.sin(angle) - angle)
    np.testing.assert_allclose(course.drift, expected, rtol=0, atol=1e-10)
    assert expected[-1] > 0.3 * radius


def test_the_printed_law_against_an_independent_integration() -> None:
    """DOP853 of tool and device as continuous systems, from rest under a force, with the coordination."""
    model, frame = three_links("distal")
    data, q0 = model.createData(), np.array([np.pi / 4, np.pi / 6, -np.pi / 6])
    K, B, F_h = np.array([100.0, 100.0, 0.5]), np.array([70.0, 70.0, 0.375]), np.array([1.0, 0.0, 0.0])
    offset = np.array([0.005, 0.003, 0.0])

    def hand(q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pin.computeJointJacobians(model, data, q)
        J = pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED)[list(PLANE)]
        pin.updateFramePlacement(model, data, frame)
        return J, np.array([*data.oMf[frame].translation[:2], q.sum()])

    def rates(_: float, s: np.ndarray) -> np.ndarray:
        q, v, x, w = s.reshape(4, 3)
        J, pose = hand(q, v)
        coordination = K * (pose - x) + B * (J @ v - w)
        nle = pin.nonLinearEffects(model, data, q, v)
        D = pin.crba(model, data, q)
        D = np.triu(D) + np.triu(D, 1).T
        acceleration = np.linalg.solve(D, J.T @ (F_h - coordination) - nle)
        return np.concatenate([v, acceleration, w, J @ np.linalg.solve(D, J.T @ (F_h + coordination))])

    start = np.concatenate([q0, np.zeros(3), hand(q0, np.zeros(3))[1] + offset, np.zeros(3)])
    exact = solve_ivp(rates, (0.0, 0.8), start, method="DOP853", rtol=1e-11, atol=1e-13).y[:, -1].reshape(4, 3)
    expected = np.linalg.norm(hand(exact[0], exact[1])[1][:2] - exact[2][:2])
    one = {"topology_penalty": False, "dynamics": "printed"}
    errors = [
        abs(
            run(arm(), controller(**one), 0.8, rate=rate, operator=(1, 0, 0, 0, 0, 0), offset=offset).drift[-1]
            - expected
        )
        for rate in (1000.0, 2000.0)
    ]
    assert errors[0] < 0.01 * expected
    assert errors[0] / errors[1] == pytest.approx(2.0, rel=0.1)  # of first order


@pytest.mark.parametrize("hold", ["proximal", "middle"])
def test_penalties_leave_free_directions_untouched_and_take_away_a_blocked_offset(hold: str) -> None:
    """What penalties add to the device's acceleration is orthogonal to every motion of the hand."""
    world = arm(hold=hold)
    body = Multibody(world.model, world.hand, world.q, world.v)
    tool = Environment(world, thesis_material(), "penalty", "full", np.full(6, np.inf), 1000.0).tool_state()
    device, rng = DeviceState(), np.random.default_rng(1)
    for _ in range(10):
        device.pose[:] = tool.pose
        device.pose[:2] += 0.01 * rng.normal(size=2)
        device.twist[list(PLANE)] = rng.normal(size=3)
        added = commanded(controller(), device, tool) - commanded(controller(topology_penalty=False), device, tool)
        assert np.abs(added).max() > 1e-3
        np.testing.assert_allclose(added @ body.J_H, 0.0, atol=1e-12)
    # An offset that the linkage blocks is that of a damped oscillator: it is gone after 5 s, and stays without penalty.
    n = tool.constraint_directions[:6] / np.linalg.norm(tool.constraint_directions[:2])
    offset = np.array([*(0.005 * n[:2]), 0.0])
    with_penalty, without = (
        run(world, controller(topology_penalty=p, dynamics="consistent"), 5.0, offset=offset) for p in (True, False)
    )
    assert with_penalty.drift[-1] < 0.05 * without.drift[-1]


@pytest.mark.parametrize("hold", ["proximal", "middle", "distal"])
@pytest.mark.parametrize("angles", [(0, 0, 0), (0.4, 0, 0.3), (0.4, math.pi, 0), (0, math.pi, math.pi)])
@pytest.mark.parametrize("dynamics", ["printed", "consistent"])
def test_everything_is_finite_at_exact_singularities(hold: str, angles: tuple[float, ...], dynamics: str) -> None:
    course = run(
        arm(hold=hold, angles=angles, rates=(0.5, 1.0, -2.0)),
        controller(dynamics=dynamics),
        0.2,
        operator=(1.0, -0.5, 0, 0, 0, 0.01),
        offset=(0.005, 0.003, 0),
    )
    for values in (course.hand, course.tool, course.command):
        assert np.isfinite(values).all()
    assert np.abs(course.command).max() < 10.0  # [N, N m] of 1 N on a device of 1 kg


def sweep(fade: float, steps: int) -> np.ndarray:
    """Commands to a device beside the arm's distal link while the elbow goes through its singularity, with contact."""
    model, frame = three_links("distal")
    body = Multibody(model, frame, np.array([0.4, -0.2, 0.7]), np.array([0.5, 1.0, -0.5]))
    hand = Hand(body, planar=True, tolerance=1e-3, fade=fade)
    device, tool, one = DeviceState(), ToolSizes(3, 3).tool_state(), controller()
    torque, du = np.array([0.03, 0.05, -0.02]), np.zeros(3)  # of a contact on some link [N m]
    planned, command, commands = ToolCommand(), DeviceCommand(), []
    for angle in np.linspace(-0.2, 0.2, steps):
        body.q[1] = angle
        body.refresh()
        hand.refresh()
        du[:] = np.linalg.solve(np.tril(body.L), torque)
        hand.wrench(du, 1.0, tool.wrench)
        tool.pose[:], tool.twist[:] = body.pose, body.twist
        tool.inverse_inertia[:], tool.free_acceleration[:] = body.inverse_inertia, hand.drift
        tool.resize(6 * hand.listed)
        tool.constraint_directions[: 6 * hand.listed] = hand.directions[: hand.listed].ravel()
        device.pose[:] = tool.pose
        device.pose[:2] += 0.005, 0.003
        one.coordinate(device, tool, planned)
        one.command(tool, command)
        commands.append([*command.wrench, *tool.wrench])
    return np.array(commands)


@pytest.mark.long
def test_there_is_no_force_jump_in_a_singularity_with_fading() -> None:
    """Where the rendered wrench is continuous its largest step halves with that of the sweep; a jump would stay."""
    largest = {
        fade: [np.abs(np.diff(sweep(fade, steps), axis=0)).max(axis=0) for steps in (2000, 4000, 8000)]
        for fade in (0.0, 1.0)
    }
    felt = [0, 1, 5]
    smooth, abrupt = (np.array(largest[fade])[:, felt] for fade in (1.0, 0.0))
    np.testing.assert_allclose(smooth[1:] / smooth[:-1], 0.5, atol=0.05)
    assert abrupt[-1].max() > 0.9 * abrupt[0].max()
    assert abrupt[-1].max() > 10.0 * smooth[-1].max()
    assert np.isfinite(sweep(1.0, 2001)).all()  # which has the singular configuration itself


# In experiments


def test_a_free_body_under_a_device_of_its_own_inertia_is_coupled_by_four_channels() -> None:
    """J D^-1 J^T = M_d^-1 then, and M_d a - F_h = Fenv + Fc: impedance shaping changes nothing."""
    shaped, coupled = (
        run_unrecorded(experiment.load("corner_peg", [f"controller.type={kind}", "analysis=trial"])[0])
        for kind in ("impedance_shaping", "four_channel")
    )
    for column in ("hand_px", "hand_py", "tool_px", "tool_py", "hand_qz"):
        np.testing.assert_allclose(shaped[column], coupled[column], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["tool.hold=elbow"], "tool.hold = elbow: must be 'proximal', 'middle' or 'distal'"),
        (["tool.rank_tolerance=-1"], "tool.rank_tolerance = -1 m: must be >= 0 m"),
        (["tool.masses=[1,0,1]"], "tool.masses[1] = 0: must be > 0"),
        (["tool.inertias=[1,1,-1]"], "tool.inertias[2] = -1: must be > 0"),
        (["tool.type=none"], "tool.type = none: the scene empty is around a tool; give tool.type=peg or three_links"),
        (["device.offset=[1]"], "device.offset = [1]: has 1 values: must have 2 (x, y) or 3"),
        (["device.offset=[0,0,1]"], "device.offset[2] = 1 m: must be 0 in the plane of x and y"),
        (["controller.topology_stiffness=-1"], "controller.topology_stiffness = -1 1/s^2: must be >= 0 1/s^2"),
        (["controller.dynamics=true"], "controller.dynamics = true: must be 'consistent' or 'printed'"),
    ],
)
def test_bad_settings_are_named(settings: list[str], said: str) -> None:
    with pytest.raises(ParameterError) as caught:
        experiment.load("linkage_topology", settings)
    assert any(said in problem for problem in caught.value.problems), caught.value.problems


def test_the_controller_takes_the_inertia_of_its_device() -> None:
    def known(name: str, *settings: str) -> tuple[float | None, float | None]:
        found = experiment.load(name, settings)[0].experiment.controller
        assert isinstance(found, ShapingParameters)
        return found.device_mass, found.device_inertia

    assert known("linkage_topology", "device.mass=2.5") == (2.5, 1.0)
    assert known("linkage_topology", "device.mass=2.5", "controller.device_mass=3") == (3.0, 1.0)
    shaped = ("controller.type=impedance_shaping", "analysis=trial")
    assert known("corner_peg", *shaped) == (2.0, 0.005)  # the peg's
    assert known("corner_peg", *shaped, "device.mass=7") == (7.0, 0.005)
