"""Adapters of arms without a force sensor: the wrench follows from what the arm says of its joints."""

from __future__ import annotations

import numpy as np
import pytest
from sensor_msgs.msg import JointState

from haptic_robot.adapters import ArmState, FziParameters, JointSample, Quantity, Sent
from haptic_robot.models import SEVEN_AXES, SIX_AXES, Joint, serial_arm
from haptic_robot.nodes.topics import joint_values, message_of, values_of
from haptic_robot.simulated import SimulatedArm, SimulatedArmParameters
from haptic_sim.messages import MessageError
from haptic_sim.parameters import ParameterError

RATE = 1000.0
JOINTS = tuple(f"joint_{i}" for i in range(1, 7))


@pytest.mark.parametrize("joints", [SIX_AXES, SEVEN_AXES])
def test_at_generic_postures_the_wrench_is_that_on_the_tool(joints: tuple[Joint, ...]) -> None:
    """Of an arm that is pressed into a wall with a generic normal, beside what truly acts on its tool."""
    rng = np.random.default_rng(20264)
    model = "six_axes" if joints is SIX_AXES else "seven_axes"
    for _ in range(4):
        arm = serial_arm(joints)
        q = rng.uniform(0.3, 1.3, arm.model.nv) * rng.choice([-1.0, 1.0], arm.model.nv)
        place = SimulatedArm(SimulatedArmParameters(), FziParameters(), RATE, (arm, q)).arm.pose[:3].copy()
        normal = rng.normal(size=3)
        normal /= np.linalg.norm(normal)
        wall = {"position": tuple(place), "normal": tuple(normal), "stiffness": 4000.0, "damping": 50.0}
        adapter = FziParameters(wrench="observer", observer={"model": model})
        simulated = SimulatedArm(SimulatedArmParameters.model_validate({"wall": wall}), adapter, RATE, (arm, q))
        asked, taken, state = adapter.build(), adapter.build(), ArmState()
        target = simulated.arm.pose.copy()
        target[:3] -= 0.01 * normal
        errors = []
        for tick in range(500):
            for one in simulated.report():
                assert one.quantity is not Quantity.WRENCH
                taken.take(one.topic, one.frame, one.values, state)
            for one in asked.command(target, np.zeros(6), np.zeros(6), simulated.arm.pose):
                simulated.take(one.topic, one.frame, one.values)
            simulated.step()
            if tick >= 400:
                errors.append(state.wrench - simulated._acting)
        assert np.linalg.norm(simulated._acting[:3]) > 10.0 and simulated.refused == 0
        np.testing.assert_allclose(np.array(errors), 0.0, atol=0.15)  # 1 % of the force


def test_messages_of_joints_may_have_any_order_and_more_joints() -> None:
    message = JointState()
    message.name = ["gripper", *reversed(JOINTS)]
    message.position = [9.0, *(0.1 * i for i in range(6, 0, -1))]
    message.velocity = [9.0, *(1.0 * i for i in range(6, 0, -1))]
    message.effort = [9.0, *(10.0 * i for i in range(6, 0, -1))]
    message.header.stamp.sec, message.header.stamp.nanosec = 3, 500_000_000
    expected = np.concatenate([[3.5], np.outer([0.1, 1.0, 10.0], np.arange(1, 7)).ravel()])
    np.testing.assert_allclose(joint_values(message, JOINTS), expected)
    sent = message_of(Sent("joint_states", Quantity.JOINTS, "", expected), message.header.stamp, JOINTS)
    np.testing.assert_allclose(values_of(Quantity.JOINTS, sent, JOINTS), expected)
    message.effort = []
    assert np.isnan(joint_values(message, JOINTS)[13:]).all()


def test_what_the_joints_do_not_say_is_named_and_nothing_is_felt() -> None:
    adapter, state = FziParameters(wrench="observer").build(), ArmState()
    whole = adapter.report(state.pose, np.zeros(6), np.zeros(6), JointSample(1.0, np.full((3, 6), 0.3)))[0]
    for change, said in (
        (lambda values: values.__setitem__(13 + 2, np.nan), "needs position, velocity and effort of joint_3"),
        (lambda values: values.__setitem__(2, 57.3), "joint_2 at 57.3 rad or m: must be from -2.8 to 2.8; is it in"),
    ):
        values = whole.values.copy()
        change(values)
        with pytest.raises(MessageError, match=said):
            adapter.take(whole.topic, "", values, state)
    assert not state.has
    adapter.take(whole.topic, "any frame", whole.values, state)
    assert state.has == {Quantity.WRENCH} and not state.wrench.any()  # nothing follows from the first sample
    later = whole.values.copy()
    later[0] += 1.0
    adapter.take(whole.topic, "", later, state)
    assert not state.wrench.any()  # nor from one after a gap


def test_an_arm_whose_observer_has_no_file_is_named() -> None:
    with pytest.raises(ParameterError, match=r"arm\.file\.path = nothing\.urdf"):
        FziParameters(wrench="observer", observer={"file": {"path": "nothing.urdf"}}).build()
