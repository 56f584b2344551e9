"""Equality constraints of MJCF as exact constraints: connect, weld, joint, and fixed tendons; MuJoCo has soft ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio as pin

from haptic_sim.constraints.parameters import (
    AnyWorldConstraintParameters,
    FrameOnFrameParameters,
    JointCouplingParameters,
    PointFixedParameters,
)
from haptic_sim.worlds.compiled import HINGE, SLIDE, joint_name, pose_of
from haptic_sim.worlds.file_trees import ModelFileError
from haptic_sim.worlds.parameters import WORLD

CONNECT, WELD, JOINT, TENDON = range(4)
"""MuJoCo's types of equality constraints, mjtEq."""
BODY, SITE = 1, 6
"""MuJoCo's types of objects, mjtObj: body and site."""
INSTEAD = "take it out, or let MuJoCo simulate the world (scene.type = mujoco)"
WRAPS_JOINT = 1
"""MuJoCo's type of a joint in the path of a tendon, mjtWrap."""


def equality_constraints(model: Any, names: tuple[str, ...]) -> dict[str, AnyWorldConstraintParameters]:
    """The active equality constraints of a compiled model by name.

    Args:
        model: MuJoCo's.
        names: of its bodies.

    Raises:
        ModelFileError: one has no exact counterpart.
    """
    found: dict[str, AnyWorldConstraintParameters] = {}
    for i in range(model.neq):
        if model.eq_active0[i]:
            name = model.equality(i).name or f"equality{i}"
            given = _constraint(model, names, i, name)
            if given is not None:
                found[name.replace("/", "_")] = given
    return found


def _constraint(model: Any, names: tuple[str, ...], i: int, name: str) -> AnyWorldConstraintParameters | None:
    kind, data = int(model.eq_type[i]), np.array(model.eq_data[i], float)
    if kind in (CONNECT, WELD):
        return _of_bodies(model, names, i, kind, data)
    one, other = int(model.eq_obj1id[i]), int(model.eq_obj2id[i])
    if kind == JOINT:
        sums = [_of_joint(model, names, joint, name) for joint in (one, other) if joint >= 0]
    elif kind == TENDON:
        sums = [_of_tendon(model, names, tendon, name) for tendon in (one, other) if tendon >= 0]
    else:
        raise ModelFileError(f": <equality> {name}: worlds have connect, weld, joint and tendon alone; {INSTEAD}")
    (left, at_left), (right, at_right) = (*sums, ({}, 0.0))[:2]
    # left - at_left = p(right - at_right)
    shifted = np.polynomial.Polynomial(data[:5])(np.polynomial.Polynomial([-at_right, 1.0]))
    coefficients = np.zeros(5)
    coefficients[: len(shifted.coef)] = shifted.coef
    coefficients[0] += at_left
    last = int(np.flatnonzero(coefficients)[-1]) if coefficients.any() else 0
    return JointCouplingParameters(joints=left, to=right, polynomial=tuple(coefficients[: last + 1].tolist()))


def _of_bodies(
    model: Any, names: tuple[str, ...], i: int, kind: int, data: np.ndarray
) -> AnyWorldConstraintParameters | None:
    """A connect or weld; None between bodies that do not move against each other."""
    ids = int(model.eq_obj1id[i]), int(model.eq_obj2id[i])
    if int(model.eq_objtype[i]) == SITE:  # frames of two sites
        bodies = [int(model.site_bodyid[k]) for k in ids]
        X = [pose_of(model.site_pos[k], model.site_quat[k]) for k in ids]
    elif kind == CONNECT:
        bodies = list(ids)
        X = [pin.SE3(np.eye(3), data[3 * k : 3 * k + 3]) for k in range(2)]
    else:  # the pose of the second body in the first one
        bodies = list(ids)
        X = [pose_of(data[3:6], data[6:10]), pin.SE3.Identity()]
    if model.body_weldid[bodies[0]] == model.body_weldid[bodies[1]]:
        return None
    if model.body_weldid[bodies[0]] == 0:  # what does not move is what the other is bound to
        bodies.reverse()
        X.reverse()
    ends: dict[str, Any] = {"body": names[bodies[0]], "to": names[bodies[1]] if bodies[1] else WORLD}
    ends |= {"at": tuple(X[0].translation), "point": tuple(X[1].translation)}
    if kind == CONNECT:
        return PointFixedParameters(**ends)
    rotations = [tuple(pin.rpy.matrixToRpy(one.rotation)) for one in X]
    return FrameOnFrameParameters(**ends, rotation=rotations[0], point_rotation=rotations[1])


def _of_joint(model: Any, names: tuple[str, ...], joint: int, name: str) -> tuple[dict[str, float], float]:
    """A hinge or slide as a sum, and its value where the model shows it."""
    if int(model.jnt_type[joint]) not in (HINGE, SLIDE):
        raise ModelFileError(f": <equality> {name}: must be of hinges and slides")
    return {joint_name(model, names, joint): 1.0}, float(model.qpos0[model.jnt_qposadr[joint]])


def _of_tendon(model: Any, names: tuple[str, ...], tendon: int, name: str) -> tuple[dict[str, float], float]:
    """A fixed tendon as a sum, and its value where the model shows it."""
    first = int(model.tendon_adr[tendon])
    joints: dict[str, float] = {}
    for k in range(first, first + int(model.tendon_num[tendon])):
        if int(model.wrap_type[k]) != WRAPS_JOINT:
            raise ModelFileError(f": <equality> {name}: its tendon must be a fixed one; {INSTEAD}")
        part, _ = _of_joint(model, names, int(model.wrap_objid[k]), name)
        joints |= {joint: float(model.wrap_prm[k]) for joint in part}
    return joints, float(model.tendon_length0[tendon])
