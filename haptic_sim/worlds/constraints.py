"""Exact constraints of a world, built from their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pinocchio as pin

from haptic_sim.constraints import in_worlds
from haptic_sim.constraints.in_worlds import WorldConstraint
from haptic_sim.constraints.parameters import (
    WORLD,
    AnyWorldConstraintParameters,
    AxisAlongParameters,
    AxisThroughPointParameters,
    FrameOnFrameParameters,
    JointCouplingParameters,
    KnifeEdgeParameters,
    PointFixedParameters,
    PointOnCircleParameters,
    PointOnLineParameters,
    PointOnPlaneParameters,
    PointOnSphereParameters,
    RollingBallParameters,
)
from haptic_sim.parameters import ParameterError, did_you_mean
from haptic_sim.rotations import from_roll_pitch_yaw, matrix

_AXES = np.eye(3)


def build_constraints(
    model: pin.Model, parameters: Mapping[str, AnyWorldConstraintParameters], prefix: str = ""
) -> tuple[WorldConstraint, ...]:
    """The constraints between the joints of a model whose BODY frames are its bodies.

    Args:
        prefix: what goes before the keys in messages.

    Raises:
        ParameterError: an unknown body, or two that do not move against each other; one line for each problem.
    """
    places = {
        frame.name: (int(frame.parentJoint), frame.placement)
        for frame in model.frames
        if frame.type == pin.FrameType.BODY
    }
    places[WORLD] = (0, pin.SE3.Identity())
    problems, constraints = [], []
    singles = {model.names[j]: j for j in range(1, model.njoints) if (model.nqs[j], model.nvs[j]) == (1, 1)}
    for name, given in parameters.items():
        if isinstance(given, JointCouplingParameters):
            unknown = [
                f"constraints.{name}.{key}.{joint}: must be a hinge or a slide with one coordinate"
                f"{did_you_mean(joint, singles)}"
                for key, joints in (("joints", given.joints), ("to", given.to))
                for joint in joints
                if joint not in singles
            ]
            if not given.joints:
                unknown.append(f"constraints.{name}.joints: must have at least one joint")
            if not unknown:
                constraints.append(_coupling(name, given, singles))
            problems += unknown
            continue
        wrong = [
            f"constraints.{name}.{key} = {body}: unknown body{did_you_mean(body, places)}"
            for key, body in (("body", given.body), ("to", given.to))
            if body not in places
        ]
        if not wrong:
            (b, X_B), (a, X_A) = places[given.body], places[given.to]
            if a == b:
                wrong = [f"constraints.{name}.body = {given.body}: does not move against {given.to}"]
            else:
                constraints.append(_constraint(name, given, (a, b), X_A, X_B))
        problems += wrong
    if problems:
        raise ParameterError(prefix + problem for problem in problems)
    return tuple(constraints)


def _coupling(name: str, given: JointCouplingParameters, joints: Mapping[str, int]) -> WorldConstraint:
    """Joints by name become joints by number."""
    left, right = ({joints[joint]: factor for joint, factor in part.items()} for part in (given.joints, given.to))
    return WorldConstraint(
        name=name,
        kind=in_worlds.JOINT_COUPLING,
        joints=(0, 0),
        p_A=np.zeros(3),
        p_B=np.zeros(3),
        R_A=_AXES,
        R_B=_AXES,
        active=given.active,
        fade=given.fade,
        sums=(left, right),
        polynomial=given.polynomial,
    )


def _constraint(name: str, given: Any, joints: tuple[int, int], X_A: pin.SE3, X_B: pin.SE3) -> WorldConstraint:
    """Points and axes of the bodies become those of their joints."""
    at = getattr(given, "at", (0.0, 0.0, 0.0))
    point, axes_A, axes_B, radius = (0.0, 0.0, 0.0), _AXES, _AXES, 1.0
    match given:
        case PointOnPlaneParameters():
            kind, point, axes_A = in_worlds.POINT_ON_PLANE, given.point, _along(given.normal)
        case PointOnSphereParameters():
            kind, point, radius = in_worlds.POINT_ON_SPHERE, given.centre, given.radius
        case PointFixedParameters():
            kind, point = in_worlds.POINT_FIXED, given.point
        case PointOnLineParameters():
            kind, point, axes_A = in_worlds.POINT_ON_LINE, given.point, _along(given.direction)
        case PointOnCircleParameters():
            kind, point, radius = in_worlds.POINT_ON_CIRCLE, given.centre, given.radius
            axes_A = _along(given.normal)
        case AxisAlongParameters():
            kind, axes_A, axes_B = in_worlds.AXIS_ALONG, _along(given.direction), _along(given.axis)
        case FrameOnFrameParameters():
            kind, point = in_worlds.FRAME_ON_FRAME, given.point
            axes_A = matrix(from_roll_pitch_yaw(*given.point_rotation)).T
            axes_B = matrix(from_roll_pitch_yaw(*given.rotation)).T
        case AxisThroughPointParameters():
            kind, point, axes_B = in_worlds.AXIS_THROUGH_POINT, given.point, _along(given.axis)
        case KnifeEdgeParameters():
            kind, axes_B = in_worlds.KNIFE_EDGE, _along(given.sideways)
        case RollingBallParameters():
            kind, point, axes_A = in_worlds.ROLLING_BALL, given.point, _along(given.normal)
            radius = given.radius
    return WorldConstraint(
        name=name,
        kind=kind,
        joints=joints,
        p_A=X_A.act(np.array(point, float)),
        p_B=X_B.act(np.array(at, float)),
        R_A=axes_A @ X_A.rotation.T,
        R_B=axes_B @ X_B.rotation.T,
        radius=radius,
        active=given.active,
        fade=given.fade,
    )


def _along(direction: tuple[float, float, float]) -> np.ndarray:
    """Right-handed axes, one a row, of which the third is along `direction`."""
    third = np.array(direction, float) / np.linalg.norm(direction)
    first = np.cross(third, _AXES[int(np.argmin(np.abs(third)))])
    first /= np.linalg.norm(first)
    return np.array([first, np.cross(third, first), third])
