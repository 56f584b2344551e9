"""The systems of the sources as formulas: FAULRING III, YUN V. Their scenes give the values of the parameters.

Body coordinates of FAULRING: (x1, x2, x3, x4, x5, x6), R = Rz(x4) Rx(x6) Rz(x5); singular at sin x6 = 0. Residuals are
in m or rad. That of the circle, (d^2 - r^2) / (2 r), is the distance to first order, so that its multiplier is the
force in N; FAULRING (38) is 2 r times this row.
"""

from __future__ import annotations

from typing import Any


def _euler_zxz(first: str, tilt: str, second: str) -> list[list[str]]:
    """Rows of Rz(first) Rx(tilt) Rz(second)."""
    a, b, c = f"cos({first})", f"cos({tilt})", f"cos({second})"
    d, e, f = f"sin({first})", f"sin({tilt})", f"sin({second})"
    return [
        [f"{a}*{c} - {d}*{b}*{f}", f"-{a}*{f} - {d}*{b}*{c}", f"{d}*{e}"],
        [f"{d}*{c} + {a}*{b}*{f}", f"-{d}*{f} + {a}*{b}*{c}", f"-{a}*{e}"],
        [f"{e}*{f}", f"{e}*{c}", b],
    ]


def _planar(angle: str) -> list[list[str]]:
    """Rows of Rz(angle)."""
    return [[f"cos({angle})", f"-sin({angle})", "0"], [f"sin({angle})", f"cos({angle})", "0"], ["0", "0", "1"]]


DISK: dict[str, Any] = {
    "coordinates": ["x1", "x2", "x3", "x4", "x5", "x6"],
    "definitions": {  # angular velocity along the principal axes
        "w1": "sin(x5)*sin(x6)*x4_dot + cos(x5)*x6_dot",
        "w2": "cos(x5)*sin(x6)*x4_dot - sin(x5)*x6_dot",
        "w3": "cos(x6)*x4_dot + x5_dot",
    },
    "kinetic": "mass*(x1_dot**2 + x2_dot**2 + x3_dot**2)/2 + (J1*w1**2 + J2*w2**2 + J3*w3**2)/2",
    "potential": "-mass*(g1*x1 + g2*x2 + g3*x3)",
    "forces": {  # FAULRING (41), with the generalised forces [R f; W^T n] (errata 4)
        "x1": "-damping*x1_dot",
        "x2": "-damping*x2_dot",
        "x3": "-damping*x3_dot",
        "x4": "-rotational_damping*(x4_dot + cos(x6)*x5_dot)",
        "x5": "-rotational_damping*w3",
        "x6": "-rotational_damping*x6_dot",
    },
    "hand": {"position": ["x1", "x2", "x3"], "rotation": _euler_zxz("x4", "x6", "x5")},
}
"""A disk in space, its axis along the third of the body; J1, J2, J3 are its principal moments, g1, g2, g3 gravity."""

ROLLING_DISK: dict[str, Any] = DISK | {  # FAULRING (21-24)
    "positions": ["x3 - radius", "x6 - pi/2"],
    "velocities": ["x1_dot + radius*cos(x4)*x5_dot", "x2_dot + radius*sin(x4)*x5_dot"],
}

DISK_ON_SPHERE: dict[str, Any] = DISK | {  # FAULRING III-B, its axis (s4 s6, -c4 s6, c6) along the normal (errata 3)
    "positions": [
        "x1 - c1 - radius*sin(x4)*sin(x6)",
        "x2 - c2 + radius*cos(x4)*sin(x6)",
        "x3 - c3 - radius*cos(x6)",
    ],
}

ROLLING_DISK_PLACED = {"x1": "x1", "x2": "x2", "x3": "radius", "x4": "x4", "x5": "x5", "x6": "pi/2"}
"""psi(z) of its independent coordinates."""

DISK_ON_SPHERE_PLACED = {
    "x1": "c1 + radius*sin(x4)*sin(x6)",
    "x2": "c2 - radius*cos(x4)*sin(x6)",
    "x3": "c3 + radius*cos(x6)",
    "x4": "x4",
    "x5": "x5",
    "x6": "x6",
}

TWO_LINK_CIRCLE: dict[str, Any] = {  # FAULRING (33-38)
    "coordinates": ["q1", "q2"],
    "definitions": {
        "x": "bx + length*(cos(q1) + cos(q1 + q2)) - c1",
        "y": "by + length*(sin(q1) + sin(q1 + q2)) - c2",
        "second": "q1_dot + q2_dot",
    },
    "kinetic": "mass*length**2*(q1_dot**2/6 + q1_dot**2/2 + second**2/6 + cos(q2)*q1_dot*second/2)",
    "forces": {"q1": "-damping*q1_dot", "q2": "-damping*q2_dot"},  # relative rates (errata 9)
    "positions": ["((x**2 + y**2)/radius - radius)/2"],
    "hand": {"position": ["x + c1", "y + c2", "0"], "rotation": _planar("q1 + q2")},
}

_END_X, _END_Y = "(c1 + radius*cos(z) - bx)", "(c2 + radius*sin(z) - by)"
_BEND = f"elbow*acos(({_END_X}**2 + {_END_Y}**2)/(2*length**2) - 1)"
# FAULRING (40), with the inverse kinematics of equal links: half the bend to each side; `elbow` is 1 or -1
TWO_LINK_CIRCLE_PLACED = {"q1": f"atan2({_END_Y}, {_END_X}) - {_BEND}/2", "q2": _BEND}

_SPHERE: dict[str, Any] = {
    "coordinates": ["distance", "latitude", "longitude", "psi", "theta", "phi"],
    "kinetic": "mass/2*(distance_dot**2 + distance**2*(latitude_dot**2 + cos(latitude)**2*longitude_dot**2))"
    " + mass*small**2/5*(psi_dot**2 + theta_dot**2 + phi_dot**2 + 2*cos(theta)*psi_dot*phi_dot)",
    "positions": ["distance - (large + small)"],
    "hand": {
        "position": [
            "distance*cos(latitude)*cos(longitude)",
            "distance*cos(latitude)*sin(longitude)",
            "-distance*sin(latitude)",
        ],
        "rotation": _euler_zxz("psi", "theta", "phi"),
    },
}

ROLLING_SPHERES: dict[str, Any] = _SPHERE | {  # v = r omega x n (errata 2), with R + r for the distance (errata 7)
    "velocities": [
        "(large + small)*latitude_dot - small*sin(psi - longitude)*theta_dot"
        " + small*sin(theta)*cos(psi - longitude)*phi_dot",
        "(large + small)*cos(latitude)*longitude_dot - small*cos(latitude)*psi_dot"
        " - small*sin(latitude)*cos(psi - longitude)*theta_dot"
        " - small*(sin(latitude)*sin(theta)*sin(psi - longitude) + cos(latitude)*cos(theta))*phi_dot",
    ],
}

ROLLING_SPHERES_PRINTED: dict[str, Any] = _SPHERE | {  # YUN (44-45), with the sign of theta_dot that S(q) has
    "velocities": [
        "(large + small)*latitude_dot - small*sin(theta)*cos(phi)*psi_dot + small*sin(phi)*theta_dot",
        "(large + small)*longitude_dot - small*sin(theta)*sin(phi)*psi_dot - small*cos(phi)*theta_dot",
    ],
}

TWO_LINK_CLOSED_LOOP: dict[str, Any] = {  # YUN (46-49), (53); cos(pi + a) = -cos a
    "coordinates": ["theta1", "x2", "y2", "theta2"],
    "kinetic": "I1*theta1_dot**2/2 + m2*(x2_dot**2 + y2_dot**2)/2 + I2*theta2_dot**2/2",
    "potential": "gravity*(m1*Lc1*sin(theta1) + m2*y2)",
    "positions": [
        "x2 - L1*cos(theta1) - Lc2*cos(theta2)",
        "y2 - L1*sin(theta1) - Lc2*sin(theta2)",
        "l3**2 - L1**2 - L2**2 - 2*L1*L2*cos(theta1 - theta2)",
    ],
    "hand": {"position": ["x2", "y2", "0"], "rotation": _planar("theta2")},
}
