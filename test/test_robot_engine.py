"""A robot in the place of the world: a simulated arm behind the topics of an adapter, and what the hand feels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from conftest import sampled

from haptic_bench.analysis.base import analysis_of
from haptic_bench.experiment import load, load_document
from haptic_bench.experiment.shown import build_scene
from haptic_bench.report.facts import facts
from haptic_experiments.robot_wall import ANALYSIS, robot_of, series_stiffness, taken_damping
from haptic_robot.adapters import AdapterParameters, CrispParameters, CrtkArmParameters, FziParameters, Quantity
from haptic_robot.engine import RobotParameters, RobotSide, RosRobotParameters
from haptic_robot.following import Following
from haptic_robot.simulated import SimulatedArm, SimulatedArmParameters
from haptic_sim.messages import HELD, RELEASED, ToolCommand, ToolState
from haptic_sim.parameters import ParameterError
from haptic_sim.rotations import matrix
from haptic_sim.tool.engines import EngineContext
from haptic_sim.tool.tool_side import build_start
from haptic_view.shapes import at

RATE = 1000.0
BALL = {"joint": "free", "mass": 0.5, "shapes": [{"type": "sphere", "radius": 0.02}]}
DOCUMENT: dict[str, Any] = {
    "name": "led",
    "duration": 0.1,
    "rate": RATE,
    "scene": {"type": "world", "gravity": [0, 0, 0], "bodies": {"ball": BALL}, "tool": "ball"},
    "device": {"type": "inertial", "mass": 0.5, "inertia": 0.005},
    "controller": {"type": "direct"},
    "operator": {"type": "constant", "wrench": [0, 0, 0, 0, 0, 0]},
    "environment": {"engine": "robot"},
}


def side(**engine: Any) -> tuple[RobotSide, ToolState, ToolCommand]:
    """A tool side with its state at the start, and a command without a wrench."""
    (trial,) = load_document(DOCUMENT | {"environment": {"engine": {"type": "robot"} | engine}}, Path("led.yaml"))
    experiment = trial.experiment
    robot = experiment.environment.engine
    assert isinstance(robot, RobotParameters | RosRobotParameters)
    context = EngineContext(build_start(experiment), experiment.contact, None, 2, None, None, RATE)  # type: ignore[arg-type]
    built, command = robot.build(context), ToolCommand()
    command.hand = HELD
    return built, built.tool_state(), command


def run(built: RobotSide, state: ToolState, command: ToolCommand, ticks: int) -> None:
    for _ in range(ticks):
        command.stamp(state.tick + 1, 0)
        built.step(command, state)


@pytest.mark.parametrize(
    "adapter",
    sampled(["fzi", "crtk", "crisp", "moveit_servo", "admittance", "joint_trajectory"], "crisp", "admittance"),
)
def test_an_arm_behind_each_adapter_follows_and_presses(adapter: str) -> None:
    """In axes of the base that are turned by a generic angle, it goes where the hand goes in the world."""
    angles = [0.3, -0.2, 0.5]
    built, state, command = side(adapter=adapter, orientation=angles, damping=[20.0, 0.1])
    arm = built._arm.arm
    start, begun = arm.pose[:3].copy(), state.pose[:3].copy()
    command.wrench[:3] = 2.0, -1.0, 0.5
    run(built, state, command, 200)
    command.wrench[:] = 0.0
    run(built, state, command, 600)
    assert built.following == Following.FOLLOWING and built.refused == 0 and built._arm.refused == 0
    moved = built._R_WB @ (arm.pose[:3] - start)
    assert np.linalg.norm(moved) > 5e-3
    np.testing.assert_allclose(moved, state.pose[:3] - begun, atol=2e-5)


def test_force_that_the_arm_feels_is_felt_in_the_world() -> None:
    """A bias of the sensor, 1 N along its z, reaches the hand in full after the fade, in the axes of the world."""
    bias = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    built, state, command = side(arm={"sensor": {"bias": bias}}, orientation=[0.3, -0.2, 0.5], damping=[1e4, 1e3])
    run(built, state, command, 20)
    assert np.linalg.norm(state.wrench[:3]) == pytest.approx(0.1, abs=1e-9)  # of 20 ms of 200
    run(built, state, command, 300)
    expected = built._R_WB @ np.array([0.0, 0.0, -1.0])  # the tool points down
    np.testing.assert_allclose(state.wrench[:3], expected, atol=0.02)


@pytest.mark.parametrize("silent", ["current_pose", "ft_sensor_wrench"])
def test_an_arm_that_says_nothing_is_held_and_not_felt(silent: str) -> None:
    built, state, command = side(arm={"sensor": {"bias": [1.0, 0, 0, 0, 0, 0]}}, damping=[20.0, 0.1])
    run(built, state, command, 300)
    assert np.linalg.norm(state.wrench[:3]) == pytest.approx(1.0, abs=0.01)
    receive = built.receive
    built.receive = lambda topic, *rest: None if topic.endswith(silent) else receive(topic, *rest)  # type: ignore[method-assign]
    command.wrench[:3] = 3.0, 0.0, 0.0
    run(built, state, command, 60)
    assert built.following == Following.STALE and not state.wrench.any()
    held = built._arm.target.copy()
    run(built, state, command, 50)
    np.testing.assert_array_equal(built._arm.target, held)
    built.receive = receive  # type: ignore[method-assign]
    run(built, state, command, 1)
    run(built, state, command, 1)
    assert built.following == Following.FOLLOWING and np.linalg.norm(state.wrench[:3]) < 0.05
    assert np.linalg.norm(built._arm.target[:3] - held[:3]) <= 2 * 0.25 / RATE


def test_an_arm_that_follows_twists_comes_to_where_the_hand_is_and_halts_without_commands() -> None:
    adapter = {"type": "moveit_servo", "follows": "twist"}
    built, state, command = side(adapter=adapter, orientation=[0.3, -0.2, 0.5], damping=[20.0, 0.1])
    arm = built._arm.arm
    start, begun = arm.pose[:3].copy(), state.pose[:3].copy()
    command.wrench[:3] = 2.0, -1.0, 0.5
    run(built, state, command, 200)
    command.wrench[:] = 0.0
    run(built, state, command, 2000)
    assert built.following == Following.FOLLOWING and built.refused == 0 and built._arm.refused == 0
    moved = built._R_WB @ (arm.pose[:3] - start)
    assert np.linalg.norm(moved) > 5e-3
    np.testing.assert_allclose(moved, state.pose[:3] - begun, atol=5e-5)
    alone = built._arm
    alone.take("servo_node/delta_twist_cmds", "base_link", np.array([0.1, 0, 0, 0, 0, 0]))
    begun = alone.target.copy()
    for _ in range(300):
        alone.step()
    assert alone.target[0] - begun[0] == pytest.approx(0.1 * 0.1, abs=2e-4)  # 0.1 m/s for the 0.1 s of its timeout


def test_a_commanded_wrench_is_that_of_the_controller_within_its_bounds_and_only_while_the_arm_follows() -> None:
    following = {"wrench": [3.0, 1.0], "wrench_rate": [100.0, 50.0]}
    built, state, command = side(
        wrench_scale=[0.5, 0.0], orientation=[0.3, -0.2, 0.5], following=following, damping=[1e4, 1e3]
    )
    built._arm._of = built._arm._of.model_copy(update={"timeout": 10.0})
    command.wrench[:3] = 4.0, 0.0, 0.0
    run(built, state, command, 10)
    pushed = built._follower.wrench
    assert np.linalg.norm(pushed) == pytest.approx(10 * 100.0 / RATE)  # it grows at its rate
    run(built, state, command, 40)
    np.testing.assert_allclose(built._R_WB @ pushed[:3], [2.0, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(built._arm._pushed[:3], pushed[:3], atol=1e-3)  # through the tool's axes, which move
    command.wrench[:3] = 40.0, 0.0, 0.0
    run(built, state, command, 40)
    assert np.linalg.norm(pushed) == pytest.approx(3.0) and not pushed[3:].any()
    command.hand = RELEASED
    run(built, state, command, 1)
    assert built.following == Following.RELEASED and not pushed.any() and not built._arm._pushed.any()


def test_an_arm_in_another_frame_is_not_followed() -> None:
    built, state, command = side(adapter={"type": "fzi"})
    built._arm._adapter = FziParameters(base_frame="elsewhere").build()
    built.receive("cartesian_compliance_controller/current_pose", "elsewhere", built._arm.arm.pose)
    assert "frame_id is 'elsewhere': must be 'base_link'" in built.problem
    run(built, state, command, 100)
    assert built.refused > 100 and built.following == Following.STALE and built._arm.refused > 0


@pytest.mark.parametrize("adapter", [FziParameters(), CrispParameters()])
def test_a_simulated_arm_refuses_what_a_controller_refuses_and_ends_old_wrenches(adapter: AdapterParameters) -> None:
    arm, topics = SimulatedArm(SimulatedArmParameters(), adapter, RATE), adapter.build()
    pose, wrench = (
        next(one for one in topics.commands if one.quantity is kind) for kind in (Quantity.POSE, Quantity.WRENCH)
    )
    frame = topics.frame_of(pose)
    for values in (np.full(7, np.nan), np.zeros(7)):
        arm.take(pose.name, frame, values)
    arm.take(pose.name, "elsewhere", arm.arm.pose)
    assert arm.refused == 3 and "elsewhere" in arm.problem
    start = arm.arm.pose.copy()
    arm.take(wrench.name, topics.frame_of(wrench), np.array([0.0, 0.0, 10.0, 0.0, 0.0, 0.0]))
    for _ in range(95):
        arm.step()
    assert np.linalg.norm(arm.arm.pose[:3] - start[:3]) > 5e-4  # 10 N on 3000 N/m
    for _ in range(900):
        arm.step()
    assert np.linalg.norm(arm.arm.pose[:3] - start[:3]) < 1e-5  # 0.1 s after the last command


def test_a_crtk_arm_ignores_the_frame_that_clients_leave_empty() -> None:
    arm = SimulatedArm(SimulatedArmParameters(control="admittance"), CrtkArmParameters(), RATE)
    goal = arm.arm.pose.copy()
    goal[0] += 0.01
    for _ in range(500):
        arm.take("servo_cp", "", goal)
        arm.step()
    assert arm.refused == 0
    np.testing.assert_allclose(arm.arm.pose[:3], goal[:3], atol=1e-3)


def test_a_scene_without_a_free_tool_is_refused() -> None:
    document = DOCUMENT | {"scene": {"type": "empty"}, "tool": {"type": "peg"}}
    with pytest.raises(ParameterError, match="its tool must be one free body in space"):
        (trial,) = load_document(document, Path("led.yaml"))
        analysis_of(trial.experiment).run_unrecorded(trial.in_mode("offline"))


def test_the_hand_feels_arm_and_wall_in_series() -> None:
    """A short press; the experiment's own claims run longer, with arms of three stiffnesses."""
    path = "operator.path=[[0.01,0,0,0],[0.3,0.03,0,0],[1.3,0.03,0,0]]"
    (trial,) = load("robot_wall", [path, "duration=1.3"])
    samples = ANALYSIS.run_unrecorded(trial.in_mode("offline"))
    metrics = ANALYSIS.judge(trial, samples, {}).metrics
    assert series_stiffness(robot_of(trial.experiment)) == pytest.approx(1.0 / (1.0 / 2000.0 + 1.0 / 4000.0))
    assert metrics["displayed_stiffness"] == pytest.approx(4000.0 / 3.0, rel=0.01)
    assert metrics["energy_given"] == 0.0


def test_the_contact_takes_the_damping_that_the_linear_model_says() -> None:
    """Of the simulated arm, pressed on the wall by a target that swings: the force in phase with its velocity."""
    (trial,) = load("robot_wall")
    robot, w, amplitude = robot_of(trial.experiment), 2.0 * np.pi * 4.0, 5e-4
    arm = SimulatedArm(robot.arm, robot.adapter, RATE)
    rest, forces, rates = arm.target[0] + 0.03, [], []
    for i in range(1250):
        t = i / RATE
        arm.target[0] = rest + amplitude * np.sin(w * t)
        arm.step()
        if i >= 750:  # two periods, after three
            forces.append(arm._acting[0])
            rates.append(amplitude * w * np.cos(w * t))
    taken = float(np.dot(forces, rates) / np.dot(rates, rates))
    assert taken > 20.0
    assert taken == pytest.approx(taken_damping(robot, RATE, np.array([w]))[0], rel=0.02)


@pytest.mark.exhaustive
@pytest.mark.long
def test_all_claims_of_the_experiment_hold() -> None:
    (trial,) = load("robot_wall")
    trial = trial.in_mode("offline")
    samples = ANALYSIS.run_unrecorded(trial)
    claims = ANALYSIS.analyse(trial, samples).claims
    assert len(claims) == 6 and all(claim.holds for claim in claims)


def test_feedback_acts_on_the_hand_in_the_next_tick_after_it_has_come() -> None:
    """Counted: a force that comes after tick k is felt in tick k + 1, and not before."""
    built, state, command = side(type="ros_robot", adapter="crtk", following={"fade": 0.0}, damping=[1e4, 1e3])
    pose = np.array([0.5, 0.1, 0.4, 0.0, 0.0, 0.0, 1.0])

    def says(force: float) -> None:
        built.incoming.append(("measured_cp", "", pose))
        built.incoming.append(("measured_cf", "", np.array([force, 0.0, 0.0, 0.0, 0.0, 0.0])))

    felt = []
    for tick in range(8):
        says(float(tick))
        run(built, state, command, 1)
        felt.append(state.wrench[0])
    assert felt == [float(tick) for tick in range(8)]


def test_a_wrong_arm_file_is_named_when_the_experiment_is_loaded() -> None:
    for key, said in (
        ("arm={file: {path: nothing.urdf}}", "environment.engine.arm.file.path = nothing.urdf"),
        (
            "adapter={type: fzi, wrench: observer, observer: {file: {path: nothing.urdf}}}",
            "engine.adapter: arm.file.path",
        ),
    ):
        with pytest.raises(ParameterError, match=said):
            load("robot_wall", [f"environment.engine.{key}"])


def test_feedback_acts_on_the_hand_in_the_first_tick_after_it_has_come() -> None:
    """Counted in ticks: before it the hand is without force, and the state of that tick has it in full."""
    led, state, command = side(type="ros_robot", adapter="crtk", following={"fade": 0.0}, damping=[20.0, 0.1])
    pose, felt = np.array([0.5, 0.1, 0.4, 0, 0, 0, 1.0]), []
    for tick in range(12):
        led.incoming.append(("measured_cp", "", pose))
        led.incoming.append(("measured_cf", "", np.array([-4.0 if tick >= 6 else 0.0, 0, 0, 0, 0, 0])))
        run(led, state, command, 1)
        felt.append(float(state.wrench[0]))
    assert felt == [0.0] * 6 + [-4.0] * 6


def test_world_states_have_the_links_of_the_arm_where_pinocchio_has_them() -> None:
    built, state, command = side(orientation=[0.3, -0.2, 0.5], position=[0.1, 0.2, -0.3], damping=[20.0, 0.1])
    command.wrench[:3] = 2.0, -1.0, 0.5
    run(built, state, command, 150)
    world, arm = built.world_state(), built._arm.arm
    built.observe_bodies(world)
    assert world.bodies[1:] == ("arm/base", *(f"arm/joint_{i}" for i in range(1, 7)))
    data = arm.model.createData()
    pin.forwardKinematics(arm.model, data, arm.q, arm.v)
    X_WB = pin.SE3(built._R_WB, np.array([0.1, 0.2, -0.3]))
    for i in range(1, 7):
        X, twist = X_WB * data.oMi[i], pin.getVelocity(arm.model, data, i, pin.LOCAL_WORLD_ALIGNED)
        np.testing.assert_allclose(world.poses[1 + i, :3], X.translation, atol=1e-12)
        np.testing.assert_allclose(matrix(np.array(world.poses[1 + i, 3:])), X.rotation, atol=1e-12)
        np.testing.assert_allclose(world.twists[1 + i, :3], X_WB.rotation @ twist.linear, atol=1e-12)
        np.testing.assert_allclose(world.twists[1 + i, 3:], X_WB.rotation @ twist.angular, atol=1e-12)
    assert np.abs(world.twists[2:]).max() > 1e-3


def test_a_scene_has_the_links_of_the_arm_as_sticks_from_joint_to_joint() -> None:
    (trial,) = load("robot_wall", ["analysis=trial"])
    scene = build_scene(trial)
    assert scene.bodies[2:] == ("arm/base", *(f"arm/joint_{i}" for i in range(1, 7)))
    tips = {shape.body: at(scene.poses[shape.body], shape.vertices) for shape in scene.shapes if shape.body > 2}
    assert sorted(tips) == [3, 4, 5, 6, 7, 8]
    tool = scene.poses[0, :3]
    assert np.linalg.norm(tips[8] - tool, axis=1).min() < 0.02  # the last one ends at the tool
    assert "Contact" not in dict(facts(trial, {}, None))
