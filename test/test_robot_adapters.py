"""Adapters: what an arm is sent and what it says, in generic axes, against Pinocchio; and what is refused."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from haptic_robot.adapters import (
    ADAPTERS,
    AdapterParameters,
    AdmittanceControllerParameters,
    ArmState,
    CrispParameters,
    CrtkArmParameters,
    FziParameters,
    JointSample,
    MoveitServoParameters,
    Quantity,
)
from haptic_robot.joint_trajectory import JointTrajectoryParameters
from haptic_robot.models import SIX_AXES, serial_arm
from haptic_sim.messages import MessageError
from haptic_sim.rotations import from_roll_pitch_yaw, matrix

ARM = serial_arm(SIX_AXES)
JOINTS = JointSample(1.0, np.array([[0.4, 0.7, 1.1, -0.6, 0.8, -1.2], [0.0] * 6, [0.0] * 6]))
_DATA = ARM.model.createData()
pin.forwardKinematics(ARM.model, _DATA, JOINTS.values[0])
POSE = np.array(pin.SE3ToXYZQUAT(pin.updateFramePlacement(ARM.model, _DATA, ARM.tool)))  # of these joints
WANTED = np.array([0.5, -0.2, 0.5, *from_roll_pitch_yaw(0.6, -0.5, 1.3)])
TWIST = np.array([0.1, -0.2, 0.3, 0.5, -0.7, 0.2])
WRENCH = np.array([3.0, -7.0, 5.0, 0.3, -0.2, 0.6])
PLACE, ANGLES = (0.01, -0.02, 0.07), (0.4, 0.9, -0.6)
SENSOR = {"sensor_position": PLACE, "sensor_orientation": ANGLES}
ALL = (
    FziParameters,
    CrispParameters,
    MoveitServoParameters,
    CrtkArmParameters,
    AdmittanceControllerParameters,
    JointTrajectoryParameters,
)
X_BT = pin.SE3(matrix(POSE[3:]), POSE[:3])
X_TS = pin.SE3(matrix(from_roll_pitch_yaw(*ANGLES)), np.array(PLACE))
TOOL_IN_BASE_AXES = pin.SE3(np.eye(3), POSE[:3])


def wrench_in(X_BS: pin.SE3) -> np.ndarray:
    """WRENCH, which is at the tool's origin in the axes of the base, in a frame, by Pinocchio."""
    return X_BS.actInv(TOOL_IN_BASE_AXES.act(pin.Force(WRENCH))).vector


def sent_by(parameters: AdapterParameters) -> dict[str, np.ndarray]:
    return {one.topic: one.values for one in parameters.build().command(WANTED, TWIST, WRENCH, POSE)}


def said_by(parameters: AdapterParameters) -> dict[str, np.ndarray]:
    return {one.topic: one.values for one in parameters.build().report(POSE, TWIST, WRENCH, JOINTS)}


@pytest.mark.parametrize("kind", ALL)
def test_what_an_arm_says_is_what_is_taken(kind: type[AdapterParameters]) -> None:
    for reaction in (False, True):
        adapter, state = kind(reaction=reaction, **SENSOR).build(), ArmState()
        for one in adapter.report(POSE, TWIST, WRENCH, JOINTS):
            adapter.take(one.topic, one.frame, one.values, state)
        assert abs(state.pose[3:] @ POSE[3:]) == pytest.approx(1.0, abs=1e-14)
        np.testing.assert_allclose(state.pose[:3], POSE[:3], atol=1e-14)
        np.testing.assert_allclose(state.wrench, WRENCH, atol=1e-13)
        if Quantity.TWIST in state.has:
            np.testing.assert_allclose(state.twist, TWIST, atol=1e-15)


def test_moveit_servo_is_sent_poses_or_twists_in_the_axes_of_its_planning_frame() -> None:
    assert list(sent_by(MoveitServoParameters())) == ["servo_node/pose_target_cmds"]
    adapter = MoveitServoParameters(follows="twist", base_frame="planning").build()
    (one,) = adapter.command(WANTED, TWIST, WRENCH, POSE)
    assert (one.topic, one.frame) == ("servo_node/delta_twist_cmds", "planning")
    np.testing.assert_array_equal(one.values, TWIST)
    with pytest.raises(MessageError, match="frame_id is 'tool0': must be 'planning'"):
        adapter.checked("servo_node/delta_twist_cmds", "tool0", TWIST)


def test_fzi_takes_a_wrench_in_the_axes_of_its_tool_or_its_base_and_gives_that_of_its_sensor() -> None:
    name = "cartesian_compliance_controller"
    np.testing.assert_allclose(sent_by(FziParameters())[f"{name}/target_wrench"], wrench_in(X_BT), atol=1e-13)
    base = FziParameters(hand_frame_control=False)
    np.testing.assert_array_equal(sent_by(base)[f"{name}/target_wrench"], WRENCH)
    np.testing.assert_array_equal(sent_by(base)[f"{name}/target_frame"], WANTED)
    said = said_by(FziParameters(**SENSOR))
    np.testing.assert_allclose(said[f"{name}/ft_sensor_wrench"], wrench_in(X_BT * X_TS), atol=1e-13)
    said = said_by(FziParameters(reaction=True, **SENSOR))
    np.testing.assert_allclose(said[f"{name}/ft_sensor_wrench"], -wrench_in(X_BT * X_TS), atol=1e-13)


def test_crisp_takes_a_wrench_about_the_origin_of_the_base_or_in_the_frame_of_its_tool() -> None:
    """With J of Pinocchio's WORLD, tau = J^T w; with that of LOCAL. Both are the torques of WRENCH at the tool."""
    model = pin.buildSampleModelManipulator()
    data, q = model.createData(), np.array([0.3, -0.7, 1.1, 0.4, 0.9, -0.5])
    frame = model.nframes - 1
    pin.computeJointJacobians(model, data, q)
    X = pin.updateFramePlacement(model, data, frame)
    tool = np.concatenate([X.translation, pin.Quaternion(X.rotation).coeffs()])
    expected = pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED).T @ WRENCH
    for local, axes in ((False, pin.WORLD), (True, pin.LOCAL)):
        adapter = CrispParameters(use_local_jacobian=local).build()
        sent = {one.topic: one.values for one in adapter.command(WANTED, TWIST, WRENCH, tool)}
        torque = pin.getFrameJacobian(model, data, frame, axes).T @ sent["target_wrench"]
        np.testing.assert_allclose(torque, expected, atol=1e-12)


def test_crtk_arms_have_wrenches_below_body_or_spatial() -> None:
    assert set(sent_by(CrtkArmParameters(namespace="PSM1"))) == {"PSM1/servo_cp"}
    np.testing.assert_array_equal(said_by(CrtkArmParameters())["measured_cf"], WRENCH)
    for reaction, sign in ((None, -1.0), (True, -1.0), (False, 1.0)):  # from efforts of motors: what the arm exerts
        spatial = said_by(CrtkArmParameters(wrenches="spatial", reaction=reaction))["spatial/measured_cf"]
        np.testing.assert_allclose(spatial, sign * wrench_in(pin.SE3.Identity()), atol=1e-13)
        body = said_by(CrtkArmParameters(wrenches="body", reaction=reaction))["body/measured_cf"]
        np.testing.assert_allclose(body, sign * wrench_in(X_BT), atol=1e-13)


def test_an_admittance_controller_is_led_by_the_wrench_of_a_spring_that_ends_where_it_is_to_be() -> None:
    """As the source of admittance_rule computes it: x of the sensor's frame from its reference, K x at its origin."""
    stiffness = np.array([900.0, 700.0, 800.0, 30.0, 20.0, 40.0])
    adapter = AdmittanceControllerParameters(stiffness=tuple(stiffness), sensor_frame="ft", **SENSOR).build()
    adapter.command(POSE, TWIST, np.zeros(6), POSE)  # its reference
    now = pin.SE3(matrix(WANTED[3:]), WANTED[:3] + np.array([0.02, 0.01, -0.03]))  # it has not come there yet
    tool = np.concatenate([now.translation, WANTED[3:]])
    (one,) = adapter.command(WANTED, TWIST, WRENCH, tool)
    reference, wanted = X_BT * X_TS, pin.SE3(matrix(WANTED[3:]), WANTED[:3]) * X_TS
    displaced = np.concatenate(
        [wanted.translation - reference.translation, pin.log3(wanted.rotation @ reference.rotation.T)]
    )
    sensor = now * X_TS
    spring = pin.Force(stiffness * displaced).vector.reshape(2, 3) @ sensor.rotation
    pushed = sensor.actInv(pin.SE3(np.eye(3), now.translation).act(pin.Force(WRENCH))).vector
    np.testing.assert_allclose(one.values, spring.ravel() + pushed, atol=1e-10)
    assert (one.topic, one.frame) == ("admittance_controller/wrench_reference", "ft")


@pytest.mark.parametrize("kind", ALL)
def test_what_cannot_be_used_is_refused_and_changes_nothing(kind: type[AdapterParameters]) -> None:
    adapter = kind().build()
    for one in adapter.report(POSE, TWIST, WRENCH, JOINTS):
        state, broken = ArmState(), one.values.copy()
        broken[2] = np.nan
        strange = [(one.frame, broken, "not finite")]
        if one.quantity is not Quantity.JOINTS:
            strange.append(("elsewhere", one.values, "frame_id is 'elsewhere'"))
        if one.quantity is Quantity.POSE:
            strange.append((one.frame, 2.0 * one.values, "quaternion of length 2"))
        for frame, values, said in strange:
            with pytest.raises(MessageError, match=said):
                adapter.take(one.topic, frame, values, state)
        assert not state.has and not state.wrench.any() and not state.twist.any()


def test_a_controller_that_checks_frames_gets_no_empty_one() -> None:
    fzi = FziParameters().build()
    with pytest.raises(MessageError, match="frame_id is '': must be 'base_link'"):
        fzi.checked(fzi.commands[0].name, "", POSE)
    crtk = CrtkArmParameters().build()
    assert crtk.checked("servo_cp", "", POSE).quantity is Quantity.POSE


def test_adapters_are_parts() -> None:
    assert set(ADAPTERS.entries()) == {"fzi", "crisp", "moveit_servo", "crtk", "admittance", "joint_trajectory"}
