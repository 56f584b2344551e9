"""Systems of formulas that several tests use."""

from __future__ import annotations

import numpy as np

from haptic_sim.constraints import sources
from haptic_sim.constraints.scenes import ConstrainedSetup
from haptic_sim.constraints.system import System

DAMPED = {"damping": 1.0, "rotational_damping": 0.1}
LOPSIDED = {"J1": 0.0025, "J2": 0.0030, "J3": 0.0041}
_BODY = {"mass": 0.25, "J1": 0.0025, "J2": 0.0025, "J3": 0.0025, "damping": 0.0, "rotational_damping": 0.0}
_BODY |= {"g1": 0.0, "g2": 0.0, "g3": 0.0}

TILTED = sources.DISK | {
    # a disc of any tilt rolls on a plane that turns about the world's z: the velocity of its lowest point,
    # radius Rz(x4) (0, cos x6, sin x6) below the centre, is that of the plane there
    "positions": ["x3 - radius*sin(x6)"],
    "velocities": [
        "x1_dot + radius*(cos(x6)*cos(x4)*x4_dot + cos(x4)*x5_dot - sin(x6)*sin(x4)*x6_dot)"
        " + turning*(x2 - radius*cos(x4)*cos(x6))",
        "x2_dot + radius*(cos(x6)*sin(x4)*x4_dot + sin(x4)*x5_dot + sin(x6)*cos(x4)*x6_dot)"
        " - turning*(x1 + radius*sin(x4)*cos(x6))",
    ],
}
POINT = {
    "coordinates": ["x", "y", "z"],
    "kinetic": "m*(x_dot**2 + y_dot**2 + z_dot**2)/2",
    "hand": {"position": ["x", "y", "z"]},
}


def build(formulas: dict, q: object, **values: float) -> System:
    """A system at q, at rest."""
    return ConstrainedSetup.of(formulas, q, np.zeros(len(formulas["coordinates"])), parameters=values).system


def disk_of(formulas: dict, q: object, *parts: dict, **values: float) -> System:
    """One of a body in FAULRING's coordinates; parts are groups of values, such as DAMPED."""
    given = dict(_BODY)
    for part in (*parts, values):
        given |= part
    return build(formulas, q, **given)


def rows(formulas: dict, positions: list[str] = (), velocities: list[str] = ()) -> dict:
    """The same under other constraints."""
    return {key: value for key, value in formulas.items() if key not in ("positions", "velocities")} | {
        "positions": list(positions),
        "velocities": list(velocities),
    }
