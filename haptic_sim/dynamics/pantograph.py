"""The twin pantograph of THESIS D.1: two five-bar linkages that hold a handle between them, in the plane.

Each pantograph k = 0, 1 has two arms of a proximal link (length l1), which a motor turns on the base, and a distal link
(l2); the distal links meet at its endpoint p_k. The handle, of length L, turns freely about both endpoints. So four
motors move three directions x = (x, y, phi) of the hand, which is in the middle of the handle:

    p_k = (x, y) + r_k,   r_0 = -L/2 (cos phi, sin phi),   r_1 = -r_0

Positions are in the axes of the device, whose origin is in the middle of the four base joints. Of an arm, u is the unit
vector along the proximal link at the angle theta, w that along the distal link at psi, and n(u) is u turned by 90
degrees. It closes as p = base + l1 u + l2 w. Its rates follow from dp/dt = l1 dtheta/dt n(u) + l2 dpsi/dt n(w),
multiplied by w and by u, with s = u x w = sin(psi - theta):

    dtheta/dt = w . dp/dt / (l1 s),   dpsi/dt = -u . dp/dt / (l2 s),   in short (dtheta/dt, dpsi/dt) = B dp/dt

The rows of B for theta, times J_k = dp_k/dx, are the Jacobian J of the interface: dtheta/dt = J dx/dt (4, 3), and
u = J^T T for motor torques T (THESIS D.3, where it is J_e). An arm is a double pendulum of uniform rods,

    A dtheta^2/2 + C dpsi^2/2 + h cos(psi - theta) dtheta dpsi,
    A = I_rotor + m1 l1^2/3 + (m_elbow + m2) l1^2,   C = m2 l2^2/3,   h = m2 l1 l2/2

which B and J_k map to the hand: M_d = diag(m_h, m_h, I_h) + sum J_k^T (m_end + sum B^T M_arm B) J_k, and C_d dx/dt from
the accelerations dB/dt dp/dt and dJ_k/dt dx/dt that the arms have at d2x/dt2 = 0 (D.2, D.3).

Two things are singular. An arm that is stretched or folded, s = 0, is at the boundary of the workspace. Distal links
that are parallel, w_1 x w_2 = 0, leave the endpoint free along itself whatever the motors do. Both end the use of the
linkage: `close_loops` says which of them is nearer than `margin`.

The motors' redundancy is used in one of two ways (`distribution`). THESIS D.4 minimises the force along the handle: of
the forces f = (f_0, f_1) on the endpoints with u = J_o^T f (D.5) it takes the smallest, f = J_o (J_o^T J_o)^-1 u, and
J_o^T J_o = diag(2, 2, L^2/2). As printed it maps f through J_e^T, which has other dimensions; torques that make these
forces are T = J_p^T f of each pantograph (errata, THESIS 11). `torque` takes the smallest torques, T = J (J^T J)^-1 u:
less heat, but the pantographs pull or push on the handle.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haptic_sim.kernels import kernel
from haptic_sim.parameters import Parameters, quantity
from haptic_sim.records import allocate, array, record, shared, value

ARMS = ("upper arm of the left", "lower arm of the left", "lower arm of the right", "upper arm of the right")
PANTOGRAPHS = ("left", "right")
MOTORS = ("left_upper", "left_lower", "right_lower", "right_upper")
"""Names of the motors, in the order of the arms that they turn."""
Mount = tuple[float, float, float]
"""Pose of a device in the world: x, y of its origin [m], and its angle [rad]."""
UNREACHABLE, STRETCHED, PARALLEL = 1, 5, 9
"""First of the problems of `close_loops`, of each arm, each arm and each pantograph."""


class LinkageParameters(Parameters):
    """Dimensions and masses of a twin pantograph."""

    base_distance: float = quantity(
        0.24, unit="m", description="Distance of a pantograph's base from the middle of the device", gt=0.0, le=10.0
    )
    base_width: float = quantity(
        0.12, unit="m", description="Distance between the two base joints of a pantograph", ge=0.0, le=10.0
    )
    proximal_length: float = quantity(
        0.15, unit="m", description="Length of the links that the motors turn", gt=0.0, le=10.0
    )
    distal_length: float = quantity(
        0.24, unit="m", description="Length of the links that meet at the endpoint", gt=0.0, le=10.0
    )
    handle_length: float = quantity(
        0.1,
        unit="m",
        description="Distance between the endpoints; chosen: twice the peak torque of 1.15 N m over the peak force of "
        "23 N of THESIS D.1",
        gt=0.0,
        le=10.0,
    )
    proximal_mass: float = quantity(0.01, unit="kg", description="Mass of a proximal link", ge=0.0, le=100.0)
    distal_mass: float = quantity(0.012, unit="kg", description="Mass of a distal link", ge=0.0, le=100.0)
    elbow_mass: float = quantity(0.008, unit="kg", description="Mass of the joint between them", ge=0.0, le=100.0)
    end_mass: float = quantity(
        0.015, unit="kg", description="Mass of the joint at the endpoint of a pantograph", ge=0.0, le=100.0
    )
    handle_mass: float = quantity(0.08, unit="kg", description="Mass of the handle", gt=0.0, le=100.0)
    handle_inertia: float = quantity(
        5e-5, unit="kg m^2", description="Inertia of the handle about its middle", gt=0.0, le=100.0
    )
    rotor_inertia: float = quantity(7e-6, unit="kg m^2", description="Inertia of the rotor of a motor", ge=0.0, le=10.0)
    margin: float = quantity(
        0.15,
        description="Sine of the angle between two links below which the linkage is too near a singularity to be used",
        gt=0.0,
        lt=1.0,
    )

    def numbers(self, mount: Mount) -> tuple[float, ...]:
        """All values in the order of their declaration, and where the device stands in the world."""
        return (*(getattr(self, name) for name in LinkageParameters.model_fields), *mount)

    @classmethod
    def read(cls, numbers: tuple[float, ...]) -> tuple[LinkageParameters, Mount]:
        """The parameters and the mount that `numbers` are of."""
        *values, x, y, angle = numbers
        return cls(**dict(zip(cls.model_fields, values, strict=True))), (x, y, angle)


NUMBERS = len(LinkageParameters.model_fields) + 3


@record
class Linkage(NamedTuple):
    """A twin pantograph for kernels: what it is, and its configuration as of the last `close_loops` or `find_inertia`.

    All vectors are in the device's axes. Arms are numbered 0, 1 of the left pantograph and 2, 3 of the right one.
    """

    bases: np.ndarray = shared("base joints", 4, 2, unit="m")
    sides: np.ndarray = shared("side to which an elbow is bent", 4)
    proximal: float = value("l1", unit="m")
    distal: float = value("l2", unit="m")
    half: float = value("L/2", unit="m")
    A: float = value("inertia of an arm about its base joint", unit="kg m^2")
    C: float = value("inertia of a distal link about its elbow", unit="kg m^2")
    h: float = value("coupling of the two", unit="kg m^2")
    moments: np.ndarray = shared("first moments of an arm, of theta and of psi", 2, unit="kg m")
    end: float = value("mass of an endpoint", unit="kg")
    handle: np.ndarray = shared("mass of the handle and its inertia", 2, unit="kg, kg m^2")
    margin: float = value("smallest sine of an angle between links")
    r: np.ndarray = array("endpoints from the hand", 2, 2, unit="m")
    u: np.ndarray = array("directions of the proximal links", 4, 2)
    w: np.ndarray = array("directions of the distal links", 4, 2)
    B: np.ndarray = array("rates of theta and psi of an arm per velocity of its endpoint", 4, 2, 2, unit="rad/m")
    jacobian: np.ndarray = array("J: rates of the motors per velocity of the hand", 4, 3, unit="rad/m, 1")
    inertia: np.ndarray = array("M_d at the hand", 3, 3, unit="kg, kg m, kg m^2")
    coriolis: np.ndarray = array("C_d dx/dt", 3, unit="N, N m")
    gradient: np.ndarray = array("derivative of the kinetic energy by x, at a constant dx/dt", 3, unit="N, N m")
    lever: np.ndarray = array("first moments of all masses: wrench of gravity per m/s^2", 3, 2, unit="kg, kg m")
    momentum: np.ndarray = array("M_d dx/dt", 3, unit="N s, N m s")
    at_end: np.ndarray = array("inertia of a pantograph at its endpoint", 2, 2, unit="kg")
    ends: np.ndarray = array("endpoints by forward kinematics", 2, 2, unit="m")
    factor: np.ndarray = array("Cholesky factor of a matrix", 3, 3)

    @classmethod
    def of(cls, p: LinkageParameters) -> Linkage:
        """The linkage of its parameters; no configuration yet."""
        x, y, l1, l2 = p.base_distance, 0.5 * p.base_width, p.proximal_length, p.distal_length
        return allocate(
            cls,
            bases=np.array([[-x, y], [-x, -y], [x, -y], [x, y]]),
            sides=np.array([1.0, -1.0, 1.0, -1.0]),
            proximal=l1,
            distal=l2,
            half=0.5 * p.handle_length,
            A=p.rotor_inertia + (p.proximal_mass / 3.0 + p.elbow_mass + p.distal_mass) * l1**2,
            C=p.distal_mass * l2**2 / 3.0,
            h=p.distal_mass * l1 * l2 / 2.0,
            moments=np.array([(p.proximal_mass / 2.0 + p.elbow_mass + p.distal_mass) * l1, p.distal_mass * l2 / 2.0]),
            end=p.end_mass,
            handle=np.array([p.handle_mass, p.handle_inertia]),
            margin=p.margin,
        )


class Motors:
    """Motion of the motors, by that of the hand.

    Args:
        numbers: of a linkage and its mount, as of `LinkageParameters.numbers`.

    Attributes:
        angles: as of `motor_angles` (4,) [rad]; rates: dtheta/dt = J dx/dt (4,) [rad/s].
    """

    def __init__(self, numbers: tuple[float, ...]):
        parameters, mount = LinkageParameters.read(numbers)
        self._linkage, self._mount = Linkage.of(parameters), np.array(mount)
        self._x, self._v = np.zeros(3), np.zeros(3)
        self.angles, self.rates = np.zeros(4), np.zeros(4)
        self.follow(np.array([0.0, 0, 0, 0, 0, 0, 1]), np.zeros(6))  # compiles what it calls

    def follow(self, pose: np.ndarray, twist: np.ndarray) -> bool:
        """Fill angles and rates at a planar pose (7,) and twist (6,) of the world; False: it does not reach."""
        hand_of_pose(self._mount, pose, self._x)
        into_device(self._mount, twist, self._v)
        if 0 < close_loops(self._linkage, self._x) < STRETCHED:
            return False
        motor_angles(self._linkage, self.angles)
        np.matmul(self._linkage.jacobian, self._v, out=self.rates)
        return True


def explain_problem(problem: int) -> str:
    """Explain the result of `close_loops`, as a clause that names the singularity."""
    if problem >= PARALLEL:
        name = PANTOGRAPHS[problem - PARALLEL]
        return f"the distal links of the {name} pantograph are nearly parallel, where its motors cannot hold it"
    if problem >= STRETCHED:
        return f"the {ARMS[problem - STRETCHED]} pantograph is nearly stretched or folded, the edge of the workspace"
    return f"the {ARMS[problem - UNREACHABLE]} pantograph does not reach the handle, which is out of the workspace"


@kernel
def close_loops(linkage, x):
    """Find the links that hold the handle at x (3,), their rates B and the Jacobian J (inverse kinematics).

    Returns:
        0, or the problem: a first of UNREACHABLE (nothing is filled in), STRETCHED, PARALLEL and the number of the arm
        or pantograph.
    """
    l1, l2 = linkage.proximal, linkage.distal
    cosine, sine = linkage.half * math.cos(x[2]), linkage.half * math.sin(x[2])
    problem = 0
    for k in range(2):
        sign = 2.0 * k - 1.0
        rx, ry = sign * cosine, sign * sine
        linkage.r[k, 0], linkage.r[k, 1] = rx, ry
        for a in range(2 * k, 2 * k + 2):
            dx, dy = x[0] + rx - linkage.bases[a, 0], x[1] + ry - linkage.bases[a, 1]
            squared = dx * dx + dy * dy
            along = 0.5 * (squared + l1 * l1 - l2 * l2)  # of l1 u along d, times |d|
            across = l1 * l1 * squared - along * along
            if not (across > 0.0 and squared > 0.0):
                return UNREACHABLE + a
            across = linkage.sides[a] * math.sqrt(across)
            ux, uy = (along * dx - across * dy) / (squared * l1), (along * dy + across * dx) / (squared * l1)
            wx, wy = (dx - l1 * ux) / l2, (dy - l1 * uy) / l2
            s = ux * wy - uy * wx
            linkage.u[a, 0], linkage.u[a, 1], linkage.w[a, 0], linkage.w[a, 1] = ux, uy, wx, wy
            B = linkage.B[a]
            B[0, 0], B[0, 1], B[1, 0], B[1, 1] = wx / (l1 * s), wy / (l1 * s), -ux / (l2 * s), -uy / (l2 * s)
            J = linkage.jacobian[a]
            J[0], J[1], J[2] = B[0, 0], B[0, 1], rx * B[0, 1] - ry * B[0, 0]
            if abs(s) < linkage.margin:
                problem = STRETCHED + a
        w = linkage.w
        if abs(w[2 * k, 0] * w[2 * k + 1, 1] - w[2 * k, 1] * w[2 * k + 1, 0]) < linkage.margin and problem == 0:
            problem = PARALLEL + k
    return problem


@kernel
def find_inertia(linkage, v):
    """Find M_d, C_d v, momentum, the gradient of the kinetic energy and the lever of gravity at a velocity v (3,).

    The configuration is that of the last `close_loops`. Momentum and gradient are those of Lagrange's equation,
    d(M_d v)/dt = wrenches + gradient.
    """
    l1, l2, A, C, h = linkage.proximal, linkage.distal, linkage.A, linkage.C, linkage.h
    M, coriolis, gradient, lever, at_end = (
        linkage.inertia, linkage.coriolis, linkage.gradient, linkage.lever, linkage.at_end,
    )  # fmt: skip
    for i in range(3):
        coriolis[i] = gradient[i] = lever[i, 0] = lever[i, 1] = 0.0
        for j in range(3):
            M[i, j] = 0.0
    M[0, 0] = M[1, 1] = lever[0, 0] = lever[1, 1] = linkage.handle[0]
    M[2, 2] = linkage.handle[1]
    for k in range(2):
        rx, ry = linkage.r[k, 0], linkage.r[k, 1]
        vx, vy = v[0] - v[2] * ry, v[1] + v[2] * rx
        at_end[0, 0] = at_end[1, 1] = linkage.end
        at_end[0, 1] = 0.0
        fx = fy = gx = gy = 0.0  # bias force and gradient at the endpoint
        lxx = lyy = linkage.end
        lxy = lyx = 0.0
        for a in range(2 * k, 2 * k + 2):
            ux, uy, wx, wy = linkage.u[a, 0], linkage.u[a, 1], linkage.w[a, 0], linkage.w[a, 1]
            B = linkage.B[a]
            s, c = ux * wy - uy * wx, ux * wx + uy * wy
            t, q = B[0, 0] * vx + B[0, 1] * vy, B[1, 0] * vx + B[1, 1] * vy
            # dB/dt: n(w) dpsi and n(u) dtheta turn the rows, ds/dt = c (dpsi - dtheta) scales them
            change = c * (q - t) / s
            tx, ty = -q * wy / (l1 * s) - change * B[0, 0], q * wx / (l1 * s) - change * B[0, 1]
            qx, qy = t * uy / (l2 * s) - change * B[1, 0], -t * ux / (l2 * s) - change * B[1, 1]
            at, aq = tx * vx + ty * vy, qx * vx + qy * vy
            off = h * c
            ft = A * at + off * aq - h * s * q * q
            fq = C * aq + off * at + h * s * t * t
            fx += B[0, 0] * ft + B[1, 0] * fq
            fy += B[0, 1] * ft + B[1, 1] * fq
            # derivative of the kinetic energy by the position of the endpoint: of M_arm, and of B dp/dt, which is dB/dt
            mt, mq, turn = A * t + off * q, C * q + off * t, h * s * t * q
            gx += (B[0, 0] - B[1, 0]) * turn + tx * mt + qx * mq
            gy += (B[0, 1] - B[1, 1]) * turn + ty * mt + qy * mq
            for i in range(2):
                for j in range(i, 2):
                    at_end[i, j] += A * B[0, i] * B[0, j] + C * B[1, i] * B[1, j]
                    at_end[i, j] += off * (B[0, i] * B[1, j] + B[1, i] * B[0, j])
            m1, m2 = linkage.moments[0], linkage.moments[1]
            lxx += -B[0, 0] * m1 * uy - B[1, 0] * m2 * wy
            lxy += B[0, 0] * m1 * ux + B[1, 0] * m2 * wx
            lyx += -B[0, 1] * m1 * uy - B[1, 1] * m2 * wy
            lyy += B[0, 1] * m1 * ux + B[1, 1] * m2 * wx
        at_end[1, 0] = at_end[0, 1]
        px, py = at_end[0, 0] * vx + at_end[0, 1] * vy, at_end[1, 0] * vx + at_end[1, 1] * vy
        w2 = v[2] * v[2]
        fx -= w2 * (at_end[0, 0] * rx + at_end[0, 1] * ry)
        fy -= w2 * (at_end[1, 0] * rx + at_end[1, 1] * ry)
        coriolis[0] += fx
        coriolis[1] += fy
        coriolis[2] += rx * fy - ry * fx
        gradient[0] += gx
        gradient[1] += gy
        gradient[2] += rx * gy - ry * gx - v[2] * (rx * px + ry * py)
        lever[0, 0] += lxx
        lever[0, 1] += lxy
        lever[1, 0] += lyx
        lever[1, 1] += lyy
        lever[2, 0] += rx * lyx - ry * lxx
        lever[2, 1] += rx * lyy - ry * lxy
        # J_k^T at_end J_k with J_k = (1 0 -ry; 0 1 rx)
        zx, zy = rx * at_end[0, 1] - ry * at_end[0, 0], rx * at_end[1, 1] - ry * at_end[1, 0]
        for i in range(2):
            for j in range(2):
                M[i, j] += at_end[i, j]
        M[0, 2] += zx
        M[1, 2] += zy
        M[2, 2] += rx * zy - ry * zx
    M[2, 0], M[2, 1] = M[0, 2], M[1, 2]
    for i in range(3):
        linkage.momentum[i] = M[i, 0] * v[0] + M[i, 1] * v[1] + M[i, 2] * v[2]


@kernel
def factorise(M, L):
    """Fill the lower triangle of L (3, 3) so that L L^T = M, which is symmetric and positive definite."""
    for j in range(3):
        for i in range(j, 3):
            s = M[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            L[i, j] = math.sqrt(s) if i == j else s / L[j, j]


@kernel
def solve(L, b):
    """Solve L L^T y = b in place (3,)."""
    for i in range(3):
        for k in range(i):
            b[i] -= L[i, k] * b[k]
        b[i] /= L[i, i]
    for i in range(2, -1, -1):
        for k in range(i + 1, 3):
            b[i] -= L[k, i] * b[k]
        b[i] /= L[i, i]


@kernel
def motor_angles(linkage, angles):
    """Fill the angles theta (4,) of the motors [rad], each from where its arm would point at the middle of the device.

    They are of the last `close_loops`.
    """
    for a in range(4):
        sign = 1.0 if a < 2 else -1.0
        angles[a] = math.atan2(sign * linkage.u[a, 1], sign * linkage.u[a, 0])


@kernel
def find_hand(linkage, angles, x):
    """Find the hand x (3,) from the angles of the motors (4,) (forward kinematics); whether the arms meet.

    Four angles say more than three directions. Where they do not agree, as encoders round them, the hand has the
    smallest sum of squared distances of its endpoints from those of the pantographs: in the middle between these, along
    their difference.

    Args:
        x: at first any hand that is less than half a turn from the one to be found, which says how often it has turned.
    """
    l1, l2 = linkage.proximal, linkage.distal
    for k in range(2):
        a, b = 2 * k, 2 * k + 1
        sign = 1.0 if k == 0 else -1.0
        ax = linkage.bases[a, 0] + sign * l1 * math.cos(angles[a])
        ay = linkage.bases[a, 1] + sign * l1 * math.sin(angles[a])
        bx = linkage.bases[b, 0] + sign * l1 * math.cos(angles[b])
        by = linkage.bases[b, 1] + sign * l1 * math.sin(angles[b])
        # the elbows, and the endpoint above the middle between them, to the right of the way from b to a
        dx, dy = ax - bx, ay - by
        squared = dx * dx + dy * dy
        height = l2 * l2 - 0.25 * squared
        if not (height >= 0.0 and squared > 0.0):
            return False
        part = math.sqrt(height / squared)
        linkage.ends[k, 0], linkage.ends[k, 1] = 0.5 * (ax + bx) + part * dy, 0.5 * (ay + by) - part * dx
    p = linkage.ends
    x[0], x[1] = 0.5 * (p[0, 0] + p[1, 0]), 0.5 * (p[0, 1] + p[1, 1])
    phi = math.atan2(p[1, 1] - p[0, 1], p[1, 0] - p[0, 0])
    x[2] = phi + 2.0 * math.pi * math.floor((x[2] - phi) / (2.0 * math.pi) + 0.5)
    return True


@kernel
def distribute(linkage, least_torque, torques):
    """Fill the torques of the motors per wrench at the hand (4, 3): see the module.

    Args:
        least_torque: whether the torques are the smallest, otherwise the force along the handle is.
    """
    J = linkage.jacobian
    if least_torque:
        M, L, row = linkage.inertia, linkage.factor, linkage.momentum  # as work arrays: J^T J is in place of M_d
        for i in range(3):
            for j in range(3):
                s = 0.0
                for a in range(4):
                    s += J[a, i] * J[a, j]
                M[i, j] = s
        factorise(M, L)
        for a in range(4):
            row[:] = J[a]
            solve(L, row)
            torques[a] = row
        return
    half = linkage.half
    for k in range(2):
        a, b = 2 * k, 2 * k + 1
        first, second = linkage.B[a, 0], linkage.B[b, 0]
        det = first[0] * second[1] - first[1] * second[0]
        for j in range(3):
            # force on the endpoint by a unit of the wrench, f = J_k (J_o^T J_o)^-1 u; and first T_a + second T_b = f
            fx = 0.5 if j == 0 else (0.0 if j == 1 else -linkage.r[k, 1] / (2.0 * half * half))
            fy = 0.5 if j == 1 else (0.0 if j == 0 else linkage.r[k, 0] / (2.0 * half * half))
            torques[a, j] = (fx * second[1] - fy * second[0]) / det
            torques[b, j] = (first[0] * fy - first[1] * fx) / det


@kernel
def hand_of_pose(mount, pose, x):
    """Fill the hand x (3,) in the device's axes from a planar pose (7,) of the world.

    The angle is that of the quaternion, within a turn.
    """
    c, s = math.cos(mount[2]), math.sin(mount[2])
    dx, dy = pose[0] - mount[0], pose[1] - mount[1]
    x[0], x[1] = c * dx + s * dy, c * dy - s * dx
    x[2] = 2.0 * math.atan2(pose[5], pose[6]) - mount[2]


@kernel
def pose_of_hand(mount, x, pose):
    """Fill the planar pose (7,) of the world from the hand x (3,) in the device's axes; z stays."""
    c, s = math.cos(mount[2]), math.sin(mount[2])
    pose[0], pose[1] = mount[0] + c * x[0] - s * x[1], mount[1] + s * x[0] + c * x[1]
    half = 0.5 * (x[2] + mount[2])
    pose[3] = pose[4] = 0.0
    pose[5], pose[6] = math.sin(half), math.cos(half)


@kernel
def into_device(mount, vector, out):
    """Fill `out` (3,) with the planar part of a wrench or twist (6,) of the world, in the device's axes."""
    c, s = math.cos(mount[2]), math.sin(mount[2])
    out[0], out[1], out[2] = c * vector[0] + s * vector[1], c * vector[1] - s * vector[0], vector[5]


@kernel
def into_world(mount, vector, out):
    """Fill the planar part of `out` (6,) in world axes with a vector (3,) in the device's."""
    c, s = math.cos(mount[2]), math.sin(mount[2])
    out[0], out[1], out[5] = c * vector[0] - s * vector[1], s * vector[0] + c * vector[1], vector[2]
