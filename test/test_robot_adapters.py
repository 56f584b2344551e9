"""Adapters: what an arm is sent and what it says, in generic axes, against Pinocchio; and what is refused."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from haptic_robot.adapters import (
    ADAPTERS,
    AdapterParameters,
    ArmState,
    CrispParameters,
    CrtkArmParameters,
    FziParameters,
    MoveitServoParameters,
    Quantity,
)
from haptic_sim.messages import MessageError
from haptic_sim.rotations import from_roll_pitch_yaw, matrix

POSE = np.array([0.4, -0.3, 0.6, *from_roll_pitch_yaw(0.7, -0.4, 1.1)])
WANTED = np.array([0.5, -0.2, 0.5, *from_roll_pitch_yaw(0.6, -0.5, 1.3)])
TWIST = np.array([0.1, -0.2, 0.3, 0.5, -0.7, 0.2])
WRENCH = np.array([3.0, -7.0, 5.0, 0.3, -0.2, 0.6])
PLACE, ANGLES = (0.01, -0.02, 0.07), (0.4, 0.9, -0.6)
SENSOR = {"sensor_position": PLACE, "sensor_orientation": ANGLES}
ALL = (FziParameters, CrispParameters, MoveitServoParameters, CrtkArmParameters)
X_BT = pin.SE3(matrix(POSE[3:]), POSE[:3])
X_TS = pin.SE3(matrix(from_roll_pitch_yaw(*ANGLES)), np.array(PLACE))
TOOL_IN_BASE_AXES = pin.SE3(np.eye(3), POSE[:3])


def wrench_in(X_BS: pin.SE3) -> np.ndarray:
    """WRENCH, which is at the tool's origin in the axes of the base, in a frame, by Pinocchio."""
    return X_BS.actInv(TOOL_IN_BASE_AXES.act(pin.Force(WRENCH))).vector


def sent_by(parameters: AdapterParameters) -> dict[str, np.ndarray]:
    return {one.topic: one.values for one in parameters.build().command(WANTED, TWIST, WRENCH, POSE)}


def said_by(parameters: AdapterParameters) -> dict[str, np.ndarray]:
    return {one.topic: one.values for one in parameters.build().report(POSE, TWIST, WRENCH)}


@pytest.mark.parametrize("kind", ALL)
def test_what_an_arm_says_is_what_is_taken(kind: type[AdapterParameters]) -> None:
    for reaction in (False, True):
        adapter, state = kind(reaction=reaction, **SENSOR).build(), ArmState()
        for one in adapter.report(POSE, TWIST, WRENCH):
            adapter.take(one.topic, one.frame, one.values, state)
        np.testing.assert_allclose(state.pose, POSE, atol=1e-15)
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
    np.testing.assert_array_equal(said_by(CrtkArmParameters(wrenches="spatial"))["spatial/measured_cf"], WRENCH)
    body = said_by(CrtkArmParameters(wrenches="body"))["body/measured_cf"]
    np.testing.assert_allclose(body, wrench_in(X_BT), atol=1e-13)


@pytest.mark.parametrize("kind", ALL)
def test_what_cannot_be_used_is_refused_and_changes_nothing(kind: type[AdapterParameters]) -> None:
    adapter = kind().build()
    for one in adapter.report(POSE, TWIST, WRENCH):
        state, broken = ArmState(), one.values.copy()
        broken[2] = np.nan
        strange = [("elsewhere", one.values, "frame_id is 'elsewhere'"), (one.frame, broken, "not finite")]
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
    assert set(ADAPTERS.entries()) == {"fzi", "crisp", "moveit_servo", "crtk"}
