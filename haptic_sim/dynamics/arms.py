"""Arms of the sources, as Pinocchio models with a hold point."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pinocchio as pin

# THESIS Table 5.1; the centres of mass are at mid-link
LENGTHS = (0.042, 0.042, 0.03)  # [m]
MASSES = (3.0, 3.0, 1.0)  # [kg]
INERTIAS = (0.015, 0.015, 0.005)  # [kg m^2] about z at the centre of mass
HOLDS = ("proximal", "middle", "distal")


def three_links(hold: Literal["proximal", "middle", "distal"] = "distal") -> tuple[pin.Model, int]:
    """The planar arm of THESIS Table 5.1 without gravity, q relative angles; held at a link's centre of mass.

    Returns:
        the model and the index of the hand's frame.
    """
    if hold not in HOLDS:
        raise ValueError(f"hold = {hold!r}: must be one of {', '.join(HOLDS)}")
    model = pin.Model()
    model.gravity.linear[:] = 0.0
    joint, offset, joints = 0, 0.0, []
    for name, length, mass, inertia in zip(HOLDS, LENGTHS, MASSES, INERTIAS, strict=True):
        joint = model.addJoint(joint, pin.JointModelRZ(), pin.SE3(np.eye(3), np.array([offset, 0.0, 0.0])), name)
        # The other two moments do not matter in the plane; equal ones are those of a possible body.
        body = pin.Inertia(mass, np.array([length / 2, 0.0, 0.0]), inertia * np.eye(3))
        model.appendBodyToJoint(joint, body, pin.SE3.Identity())
        joints.append(joint)
        offset = length
    held = HOLDS.index(hold)
    centre = pin.SE3(np.eye(3), np.array([LENGTHS[held] / 2, 0.0, 0.0]))
    return model, model.addFrame(pin.Frame("hand", joints[held], centre, pin.FrameType.OP_FRAME))
