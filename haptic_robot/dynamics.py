"""Dynamics of an arm of joints with one coordinate each, in kernels that allocate nothing.

All quantities are in the axes of the arm's base B; twists and wrenches are [linear, angular] at the base's origin O,
after Featherstone (Rigid Body Dynamics Algorithms, 2008). A joint i turns about, or slides along, its axis w:

    S_i = (p x w, w)  or  (w, 0)                       V_i = V_k + S_i v_i
    A_i = A_k + V_k x S_i v_i,   A_0 = -g              of its predecessor k, without joint accelerations

A body of mass m, inertia I about its centre of mass c, needs the wrench (section 2.15, by Newton and Euler)

    F = m (a + alpha x c + w x (v + w x c)),   N = I alpha + w x I w + c x F

so that h_i = S_i . (wrenches of the bodies that joint i moves), the recursive Newton-Euler algorithm (chapter 5). The
composite rigid body algorithm (chapter 6) gives M_ij = S_j . (C_i S_i) with the inertia C_i of all bodies that joint i
moves, for each j on the way from i to the base.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from haptic_robot.models import ArmModel
from haptic_sim.kernels import kernel
from haptic_sim.linalg import cholesky, cholesky_solve, symmetric_eigen
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, array, record, shared, value
from haptic_sim.spatial import quat_from_matrix

SINGULAR = 1e-3  # of the largest: smaller singular values of the tool's mobility are taken as this


@record
class Chain(NamedTuple):
    """An arm; its bodies are numbered from 1, 0 is the base."""

    parent: np.ndarray = shared("body before each", "bodies", dtype=np.int64)
    turns: np.ndarray = shared("whether the joint of a body turns, or slides", "bodies", dtype=np.bool_)
    axis: np.ndarray = shared("axis of the joint, in its own axes", "bodies", 3)
    R_0: np.ndarray = shared("axes of the joint at q = 0 in those of the body before", "bodies", 3, 3)
    p_0: np.ndarray = shared("origin of the joint at q = 0 in the body before", "bodies", 3, unit="m")
    mass: np.ndarray = shared("mass of a body", "bodies", unit="kg")
    lever: np.ndarray = shared("centre of mass in the axes of the joint", "bodies", 3, unit="m")
    inertia: np.ndarray = shared("inertia about the centre of mass", "bodies", 3, 3, unit="kg m^2")
    armature: np.ndarray = shared("reflected inertia of the motors", "n", unit="kg m^2")
    gravity: np.ndarray = shared("acceleration of gravity", 3, unit="m/s^2")
    tool: int = value("body of the tool")
    R_T: np.ndarray = shared("axes of the tool in those of its body", 3, 3)
    p_T: np.ndarray = shared("origin of the tool in its body", 3, unit="m")
    q: np.ndarray = array("configuration", "n", unit="rad, m")
    v: np.ndarray = array("its velocity", "n", unit="rad/s, m/s")
    M: np.ndarray = array("inertia", "n", "n")
    h: np.ndarray = array("Coriolis, centrifugal and gravity terms", "n", unit="N m, N")
    J: np.ndarray = array("Jacobian of the tool's twist at its origin", 6, "n")
    pose: np.ndarray = array("pose of the tool: position, quaternion x y z w", 7, unit="m")
    twist: np.ndarray = array("twist of the tool at its origin", 6, unit="m/s, rad/s")
    R: np.ndarray = array("axes of a body", "bodies", 3, 3)
    p: np.ndarray = array("origin of a body", "bodies", 3, unit="m")
    S: np.ndarray = array("twist of a joint of unit speed, at O", "bodies", 6)
    V: np.ndarray = array("twist of a body, at O", "bodies", 6)
    A: np.ndarray = array("spatial acceleration of a body, at O, without joint accelerations", "bodies", 6)
    W: np.ndarray = array("wrench that the bodies need which a joint moves, at O", "bodies", 6)
    moved: np.ndarray = array("mass that a joint moves, and that times the centre of mass", "bodies", 4)
    C: np.ndarray = array("inertia of what a joint moves, about O", "bodies", 3, 3)
    rotation: np.ndarray = array("work", 3, 3)
    work: np.ndarray = array("work", 6)
    solved: np.ndarray = array("work", "n")
    L: np.ndarray = array("Cholesky factor of the last matrix", "n", "n")
    across: np.ndarray = array("J M^-1", 6, "n")
    shown: np.ndarray = array("mobility of the tool", 6, 6)
    values: np.ndarray = array("its eigenvalues", 6)
    vectors: np.ndarray = array("its eigenvectors, by rows", 6, 6)


def chain_at(arm: ArmModel, q: np.ndarray) -> Chain:
    """The chain of an arm at rest in a configuration (nv,), with everything that follows from it."""
    chain = chain_of(arm)
    chain.q[:] = q
    evaluate_chain(Packed(chain))
    return chain


def chain_of(arm: ArmModel) -> Chain:
    """The chain of an arm, of which each joint has one coordinate, with q = 0 and v = 0."""
    model, tool = arm
    n, data = model.nv, model.createData()
    pin.computeJointJacobians(model, data, np.zeros(n))
    S = np.zeros((n + 1, 6))
    for i in range(1, n + 1):
        S[i] = pin.getJointJacobian(model, data, i, pin.LOCAL).reshape(6, -1)[:, i - 1]
    turns = np.linalg.norm(S[:, 3:], axis=1) > 0.5
    frame = model.frames[tool]
    return allocate(
        Chain,
        {"bodies": n + 1, "n": n},
        parent=np.array(model.parents, np.int64),
        turns=turns,
        axis=np.where(turns[:, None], S[:, 3:], S[:, :3]),
        R_0=np.array([one.rotation for one in model.jointPlacements]),
        p_0=np.array([one.translation for one in model.jointPlacements]),
        mass=np.array([one.mass for one in model.inertias]),
        lever=np.array([one.lever for one in model.inertias]),
        inertia=np.array([one.inertia for one in model.inertias]),
        armature=np.array(model.armature, float),
        gravity=np.array(model.gravity.linear, float),
        tool=int(frame.parentJoint),
        R_T=np.ascontiguousarray(frame.placement.rotation),
        p_T=np.array(frame.placement.translation),
    )


@kernel
def _place(a, i):
    """Place body i, and find the twist of its joint and its own twist and acceleration."""
    k, q, v = a.parent[i], a.q[i - 1], a.v[i - 1]
    axis, R, S, V, A = a.axis[i], a.rotation, a.S[i], a.V[i], a.A[i]
    for r in range(3):
        a.p[i, r] = a.p[k, r]
        for c in range(3):
            R[r, c] = 0.0
            a.p[i, r] += a.R[k, r, c] * a.p_0[i, c]
            for m in range(3):
                R[r, c] += a.R[k, r, m] * a.R_0[i, m, c]
    cosine, sine = (math.cos(q), math.sin(q)) if a.turns[i] else (1.0, 0.0)
    for r in range(3):
        along = R[r, 0] * axis[0] + R[r, 1] * axis[1] + R[r, 2] * axis[2]
        S[3 + r] = along
        for c in range(3):
            d, e = (c + 1) % 3, (c + 2) % 3
            turned = R[r, d] * axis[e] - R[r, e] * axis[d]  # row times the cross product's matrix of the axis
            a.R[i, r, c] = cosine * R[r, c] + sine * turned + (1.0 - cosine) * along * axis[c]
    if a.turns[i]:
        for r in range(3):
            d, e = (r + 1) % 3, (r + 2) % 3
            S[r] = a.p[i, d] * S[3 + e] - a.p[i, e] * S[3 + d]
    else:
        for r in range(3):
            S[r], S[3 + r] = S[3 + r], 0.0
            a.p[i, r] += q * S[r]
    for r in range(3):
        d, e = (r + 1) % 3, (r + 2) % 3
        V[r], V[3 + r] = a.V[k, r] + S[r] * v, a.V[k, 3 + r] + S[3 + r] * v
        A[3 + r] = a.A[k, 3 + r] + v * (a.V[k, 3 + d] * S[3 + e] - a.V[k, 3 + e] * S[3 + d])
        A[r] = a.A[k, r] + v * (
            a.V[k, 3 + d] * S[e] - a.V[k, 3 + e] * S[d] + a.V[k, d] * S[3 + e] - a.V[k, e] * S[3 + d]
        )


@kernel
def _load(a, i):
    """Fill the wrench that body i needs, and its inertia about O."""
    m, R, C, W, moved, work = a.mass[i], a.R[i], a.C[i], a.W[i], a.moved[i], a.rotation
    V, A, c, momentum = a.V[i], a.A[i], a.work[:3], a.work[3:]
    for r in range(3):
        c[r] = a.p[i, r] + R[r, 0] * a.lever[i, 0] + R[r, 1] * a.lever[i, 1] + R[r, 2] * a.lever[i, 2]
        for s in range(3):
            work[r, s] = R[r, 0] * a.inertia[i, 0, s] + R[r, 1] * a.inertia[i, 1, s] + R[r, 2] * a.inertia[i, 2, s]
    square = c[0] * c[0] + c[1] * c[1] + c[2] * c[2]
    moved[0] = m
    for r in range(3):
        moved[1 + r] = m * c[r]
        momentum[r] = W[3 + r] = 0.0
        for s in range(3):
            about = work[r, 0] * R[s, 0] + work[r, 1] * R[s, 1] + work[r, 2] * R[s, 2]
            momentum[r] += about * V[3 + s]
            W[3 + r] += about * A[3 + s]
            C[r, s] = about + m * ((square if r == s else 0.0) - c[r] * c[s])
    for r in range(3):
        d, e = (r + 1) % 3, (r + 2) % 3
        # v + w x c of the centre of mass, then a + alpha x c + w x that
        first = V[d] + V[3 + e] * c[r] - V[3 + r] * c[e]
        second = V[e] + V[3 + r] * c[d] - V[3 + d] * c[r]
        W[r] = m * (A[r] + A[3 + d] * c[e] - A[3 + e] * c[d] + V[3 + d] * second - V[3 + e] * first)
        W[3 + r] += V[3 + d] * momentum[e] - V[3 + e] * momentum[d]
    for r in range(3):
        d, e = (r + 1) % 3, (r + 2) % 3
        W[3 + r] += c[d] * W[e] - c[e] * W[d]


@kernel
def _gather(a, i):
    """Fill row i of M and h from what joint i moves, and add that to what the joint before moves."""
    k, S, W, C, moved, F = a.parent[i], a.S[i], a.W[i], a.C[i], a.moved[i], a.work
    total = 0.0
    for r in range(3):
        d, e = (r + 1) % 3, (r + 2) % 3
        total += S[r] * W[r] + S[3 + r] * W[3 + r]
        F[r] = moved[0] * S[r] + S[3 + d] * moved[1 + e] - S[3 + e] * moved[1 + d]
        F[3 + r] = moved[1 + d] * S[e] - moved[1 + e] * S[d]
        for s in range(3):
            F[3 + r] += C[r, s] * S[3 + s]
    a.h[i - 1] = total
    j = i
    while j > 0:
        between = 0.0
        for r in range(6):
            between += a.S[j, r] * F[r]
        a.M[i - 1, j - 1] = a.M[j - 1, i - 1] = between
        j = a.parent[j]
    a.M[i - 1, i - 1] += a.armature[i - 1]
    if k > 0:
        for r in range(6):
            a.W[k, r] += W[r]
        for r in range(4):
            a.moved[k, r] += moved[r]
        for r in range(3):
            for s in range(3):
                a.C[k, r, s] += C[r, s]


@kernel
def evaluate_chain(packed):
    """Fill M, h, J, pose and twist from q and v."""
    a = packed.arrays
    n, k = a.q.shape[0], a.tool
    for r in range(3):
        a.A[0, r] = -a.gravity[r]
        for c in range(3):
            a.R[0, r, c] = 1.0 if r == c else 0.0
    for i in range(1, n + 1):
        _place(a, i)
        _load(a, i)
    for i in range(n, 0, -1):
        _gather(a, i)
    R, p = a.rotation, a.pose
    for r in range(3):
        p[r] = a.p[k, r]
        for c in range(3):
            p[r] += a.R[k, r, c] * a.p_T[c]
            R[r, c] = a.R[k, r, 0] * a.R_T[0, c] + a.R[k, r, 1] * a.R_T[1, c] + a.R[k, r, 2] * a.R_T[2, c]
    quat_from_matrix(R, p[3:])
    a.J[:] = 0.0
    while k > 0:
        for r in range(3):
            d, e = (r + 1) % 3, (r + 2) % 3
            a.J[r, k - 1] = a.S[k, r] + a.S[k, 3 + d] * p[e] - a.S[k, 3 + e] * p[d]
            a.J[3 + r, k - 1] = a.S[k, 3 + r]
        k = a.parent[k]
    for r in range(6):
        a.twist[r] = 0.0
        for j in range(n):
            a.twist[r] += a.J[r, j] * a.v[j]


@kernel
def torques_at_tool(packed, wrench, damping, torque):
    """Fill `torque` (n,) with h + J^T F + tau_0 of `haptic_robot.compliance`.

    Args:
        packed: a Chain.
        wrench: F (6,) [N, N m].
        damping: d of motions that do not move the tool [N m s/rad]; 0: tau_0 is not computed.
    """
    a = packed.arrays
    n = a.q.shape[0]
    for j in range(n):
        torque[j] = a.h[j]
        for r in range(6):
            torque[j] += a.J[r, j] * wrench[r]
    if damping == 0.0 or not cholesky(a.M, n, a.L):
        return
    X, shown, values, vectors, w, hidden = a.across, a.shown, a.values, a.vectors, a.work, a.solved
    for r in range(6):
        X[r] = a.J[r]
        cholesky_solve(a.L, n, X[r])
    for r in range(6):
        for s in range(6):
            shown[r, s] = 0.0
            for j in range(n):
                shown[r, s] += 0.5 * (a.J[r, j] * X[s, j] + a.J[s, j] * X[r, j])
    symmetric_eigen(shown, 6, values, vectors)
    least = SINGULAR * max(values[5], 1e-300)
    apply_bounded_inverse(values, vectors, least, a.twist, w)
    for j in range(n):  # hidden = N^T v
        hidden[j] = a.v[j]
        for r in range(6):
            hidden[j] -= X[r, j] * w[r]
    for r in range(6):
        shown[0, r] = 0.0  # of use no more
        for j in range(n):
            shown[0, r] += X[r, j] * hidden[j]
    apply_bounded_inverse(values, vectors, least, shown[0], w)
    for j in range(n):
        for r in range(6):
            hidden[j] -= a.J[r, j] * w[r]
        torque[j] -= damping * hidden[j]


@kernel
def apply_bounded_inverse(values, vectors, least, x, y):
    """Fill y (6,) with the inverse of a matrix times x, by its eigenvalues, none below `least`, and eigenvectors."""
    for r in range(6):
        y[r] = 0.0
    for m in range(6):
        part = 0.0
        for r in range(6):
            part += vectors[m, r] * x[r]
        part /= max(values[m], least)
        for r in range(6):
            y[r] += part * vectors[m, r]
