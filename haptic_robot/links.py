"""The links of a simulated arm as a view draws them: from each joint to those that it carries, or to the tool."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from haptic_robot.dynamics import Chain
from haptic_robot.models import ArmModel
from haptic_sim.spatial import quat_from_matrix
from haptic_sim.tool.engines import Link

PREFIX = "arm/"  # of the names of links
SLENDER = 0.04  # radius of a link per length of the longest
AT_REST = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


def links_of(arm: ArmModel) -> tuple[Link, ...]:
    """The base and the body of each joint of an arm, without their poses."""
    model = arm.model
    ends: list[list[np.ndarray]] = [[] for _ in range(model.njoints)]
    for child in range(1, model.njoints):
        ends[model.parents[child]].append(model.jointPlacements[child].translation)
    tool = model.frames[arm.tool]
    ends[tool.parentJoint].append(tool.placement.translation)
    longest = max(float(np.linalg.norm(end)) for found in ends for end in found)
    frames: list[dict[str, np.ndarray]] = [{} for _ in range(model.njoints)]
    for frame in model.frames:
        if frame.type == pin.FrameType.BODY:
            frames[frame.parentJoint][frame.name] = frame.placement.homogeneous
    return tuple(
        Link(
            f"{PREFIX}{'base' if i == 0 else model.names[i]}",
            AT_REST,
            np.zeros(3),
            np.array(ends[i]).reshape(-1, 3),
            SLENDER * longest,
            frames[i],
        )
        for i in range(model.njoints)
    )


def link_poses(chain: Chain, R_WB: np.ndarray, p_WB: np.ndarray) -> np.ndarray:
    """Poses of base and bodies of an arm in the world (n, 7) [m, quat_xyzw], with the axes and origin of its base."""
    poses = np.empty((len(chain.p), 7))
    for pose, R, p in zip(poses, chain.R, chain.p, strict=True):
        pose[:3] = p_WB + R_WB @ p
        quat_from_matrix(np.ascontiguousarray(R_WB @ R), pose[3:])
    return poses


def link_twists(chain: Chain, R_WB: np.ndarray) -> np.ndarray:
    """Twists of these at their origins in the axes of the world (n, 6) [m/s, rad/s]."""
    linear = chain.V[:, :3] + np.cross(chain.V[:, 3:], chain.p)  # V is at the origin of the base
    return np.hstack([linear @ R_WB.T, chain.V[:, 3:] @ R_WB.T])
