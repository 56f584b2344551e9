"""Control of a device that renders a linkage's inertia and topology at its hand (THESIS 5.3, 5.4).

The device has the dynamics M_d a + C_d v = F_h + f (5.20), with the operator's wrench F_h and the control wrench f.
Impedance shaping has it accelerate as the tool's hand does under the same wrenches. With D vdot + B = J^T F and
a = J vdot + dJ/dt v for the tool,
    a = J D^-1 J^T F + (dJ/dt v - J D^-1 B),                                                     `hand_acceleration`
    F = F_h + F_env + F_pc - b_d v - k_d x,                                                       `total_wrench`
and (5.21), with C_d v kept and F_h subtracted, f = M_d a + C_d v - F_h                           `shaping_wrench`

  - `consistent`: this law. F_env = J^#T tau stands for the contacts' tau exactly: J D^-1 J^T J^#T tau = J D^-1 tau.
  - `printed`: (5.15), (5.21) and (5.23) leave out the `drift` in brackets; with it missing the device leaves the tool
    even from a common start (errata 9). It is zero for a tool that is a free body, held at its centre of mass and
    without gravity in the plane.

J D^-1 J^T loses rank in directions of topological constraint. There the device has no acceleration, but its position
may differ from that of the tool. Penalties along these directions n_i (5.23, 5.24) add
    a_add = sum of (k n_i . (x_tool - x_device) + b n_i . (v_tool - v_device)) n_i,               `add_topology`
k [1/s^2], b [1/s]. The n_i are wrenches (`haptic_sim.hand.mobility`), orthonormal with torques divided by a length l;
so the acceleration along n_i has the angular part n_i / l^2, and a_add does not depend on the unit of length; with
l = 1 m it is as printed. It depends on the sum of n_i n_i^T only, not on the choice of a basis, and does not act in
other directions: a difference that is a motion of the linkage causes no force (n_i . J dq = 0), and a_add is orthogonal
to such motions in the metric diag(1, 1, 1, l^2, l^2, l^2).

Orientations differ by the logarithm of the rotation between them, about world axes, not by angles.
"""

from __future__ import annotations

from haptic_sim.kernels import kernel
from haptic_sim.spatial import rotation_difference


@kernel
def pose_difference(pose_B, pose_A, difference):
    """Fill `difference` (6,) with B - A: positions, and the rotation vector from A to B in world axes."""
    for i in range(3):
        difference[i] = pose_B[i] - pose_A[i]
    rotation_difference(pose_B[3:], pose_A[3:], difference[3:])


@kernel
def total_wrench(operator, environment, coordination, damping, stiffness, twist, pose, centre, wrench):
    """Fill `wrench` (6,) with F_h + F_env + F_pc - b_d v - k_d (x - centre) (THESIS 5.14).

    Args:
        operator, environment, coordination: on the device [N, N m] (6,).
        damping, stiffness: of the desired impedance, in world axes (6,).
        twist, pose: of the device.
        centre: pose in which the spring is at rest.
    """
    pose_difference(pose, centre, wrench)
    for i in range(6):
        wrench[i] = operator[i] + environment[i] + coordination[i] - damping[i] * twist[i] - stiffness[i] * wrench[i]


@kernel
def hand_acceleration(inverse_inertia, wrench, drift, consistent, acceleration):
    """Fill `acceleration` (6,) [m/s^2, rad/s^2] with what a wrench does to the tool's hand (THESIS 5.15).

    Args:
        inverse_inertia: J D^-1 J^T, row major (36,).
        wrench: total at the hand [N, N m] (6,).
        drift: dJ/dt v - J D^-1 B (6,); counts if `consistent`, otherwise the law is as printed.
    """
    for i in range(6):
        s = drift[i] if consistent else 0.0
        for j in range(6):
            s += inverse_inertia[6 * i + j] * wrench[j]
        acceleration[i] = s


@kernel
def add_topology(
    directions,
    count,
    length,
    stiffness,
    damping,
    pose_tool,
    twist_tool,
    pose_device,
    twist_device,
    difference,
    acceleration,
):
    """Add penalties along the directions of topological constraint to `acceleration` (6,) (THESIS 5.24, without M_d).

    Args:
        directions: wrenches [force, torque], one a row, of which the first `count` count, (count or more, 6).
        length: in which their torques are measured [m].
        stiffness: [1/s^2], THESIS has N/(kg m); damping: [1/s].
        pose_tool, twist_tool, pose_device, twist_device: (7,), (6,).
        difference: memory (6,); tool less device afterwards.
    """
    pose_difference(pose_tool, pose_device, difference)
    for i in range(count):
        s = 0.0
        for j in range(6):
            rate = twist_tool[j] - twist_device[j]
            s += directions[i, j] * (stiffness * difference[j] + damping * rate)
        for j in range(6):
            acceleration[j] += s * directions[i, j] / (1.0 if j < 3 else length * length)


@kernel
def shaping_wrench(inertia, coriolis, operator, acceleration, wrench):
    """Fill the control `wrench` (6,) with M_d a + C_d v - F_h (THESIS 5.20, 5.21, 5.23).

    Args:
        inertia: M_d of the device (6, 6).
        coriolis: C_d v [N, N m] (6,).
        operator: F_h (6,).
        acceleration: that the device is to have (6,).
    """
    for i in range(6):
        s = coriolis[i] - operator[i]
        for j in range(6):
            s += inertia[i, j] * acceleration[j]
        wrench[i] = s
