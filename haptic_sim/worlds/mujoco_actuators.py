"""Actuators of a MuJoCo tool that hold it at their control, as springs and dampers of its joints.

An actuator on a joint q with the gear g, a fixed gain G and an affine bias (b0, b1, b2) exerts

    g (G u + b0 + b1 g q + b2 g dq/dt)

with its control u, which stays what it is at the start. For b1 < 0 this is a spring -k (q - r) with k = -g^2 b1 and
k r = g (G u + b0), and a damper -g^2 b2, as of a servo of position. Whatever else acts on the tool is no such law and
exerts no force: motors with a control, muscles, actuators with a state, on tendons or on ball joints.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from haptic_sim.dynamics.joints import JointLaw


def hold_at_control(
    mujoco: Any, model: Any, data: Any, laws: Iterable[JointLaw], actuators: Iterable[int], first: int
) -> tuple[list[JointLaw], list[int]]:
    """The laws of the tool's joints with those of its actuators.

    Args:
        model, data: MuJoCo's; the controls are those of `data`.
        laws: of the joints alone.
        actuators: numbers of those on the tool.
        first: MuJoCo's number of the tool's first velocity.

    Returns:
        The laws, and the numbers of the actuators that are in them.
    """
    of_velocity, held = {law.velocity: law for law in laws}, []
    for i in actuators:
        joint = _joint_of(mujoco, model, i)
        law = None if joint is None else of_velocity.get(int(model.jnt_dofadr[joint]) - first)
        found = None if law is None or law.position < 0 else _with_actuator(mujoco, model, data, law, i)
        if found is not None:
            of_velocity[found.velocity] = found
            held.append(i)
    return list(of_velocity.values()), held


def _joint_of(mujoco: Any, model: Any, i: int) -> int | None:
    """The hinge or slide that an actuator acts on; None for another transmission."""
    on_joint = mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT
    single = mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE
    joint = int(model.actuator_trnid[i, 0])
    if mujoco.mjtTrn(model.actuator_trntype[i]) not in on_joint or mujoco.mjtJoint(model.jnt_type[joint]) not in single:
        return None
    return joint


def _with_actuator(mujoco: Any, model: Any, data: Any, law: JointLaw, i: int) -> JointLaw | None:
    """A law with the spring and the damper of an actuator; None if it is no such law."""
    bias = mujoco.mjtBias(model.actuator_biastype[i])
    if (
        mujoco.mjtDyn(model.actuator_dyntype[i]) != mujoco.mjtDyn.mjDYN_NONE
        or mujoco.mjtGain(model.actuator_gaintype[i]) != mujoco.mjtGain.mjGAIN_FIXED
        or bias not in (mujoco.mjtBias.mjBIAS_NONE, mujoco.mjtBias.mjBIAS_AFFINE)
    ):
        return None
    u, gear = float(data.ctrl[i]), float(model.actuator_gear[i, 0])
    if model.actuator_ctrllimited[i]:
        lower, upper = model.actuator_ctrlrange[i]
        u = min(max(u, float(lower)), float(upper))
    b0, b1, b2 = model.actuator_biasprm[i, :3].tolist() if bias == mujoco.mjtBias.mjBIAS_AFFINE else (0.0, 0.0, 0.0)
    constant = gear * (float(model.actuator_gainprm[i, 0]) * u + b0)
    stiffness, damping = law.stiffness - gear**2 * b1, law.damping - gear**2 * b2
    if b1 > 0.0 or b2 > 0.0 or (constant and not b1):
        return None
    reference = (law.stiffness * law.reference + constant) / stiffness if stiffness else law.reference
    return replace(law, stiffness=stiffness, damping=damping, reference=reference)
