"""Mobility of a tool at a contact: its normal velocity for a unit impulse."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haptic_sim.dynamics.scaled import ScaledContacts, contact_velocity, coupling
from haptic_sim.kernels import kernel
from haptic_sim.records import array, record
from haptic_sim.vectors import cross, triple

LOADED = 1e-4  # [m] contacts of a body within so much of its deepest one share the load
SWEEPS = 50  # at most, of Gauss-Seidel, for what other contacts do to a body that is pushed
CLOSE = 1e-6  # of the largest change in a sweep: the change in the last one


@record
class Touched(NamedTuple):
    """Contacts of a tool with what it touches."""

    closing: np.ndarray = array("normal velocity, negative where they close", "contacts", unit="m/s")
    velocity: np.ndarray = array("normal velocity of what the tool touches", "contacts", unit="m/s")
    mobility: np.ndarray = array("mobility of what the tool touches, along the normal", "contacts", unit="1/kg")
    rotation: np.ndarray = array("angular velocity of what the tool touches, world axes", "contacts", 3, unit="rad/s")
    response: np.ndarray = array("memory: scaled velocity for a unit impulse", "nv")
    push: np.ndarray = array("memory: impulses of the contacts that do not let bodies pass", "contacts", unit="N s")
    square: np.ndarray = array("memory: mobility of their normals", "contacts", unit="1/kg")
    following: np.ndarray = array("memory: next contact of a group, -1: none", "contacts", dtype=np.int64)
    group: np.ndarray = array("memory: a tree of the group that a tree is in", "trees", dtype=np.int64)
    first: np.ndarray = array("memory: first contact of a group, -1: none", "trees", dtype=np.int64)
    deepest: np.ndarray = array("memory: least separation of a tree from the tool", "trees", unit="m")
    found: np.ndarray = array("memory: whether the load on a tree is done with", "trees", dtype=np.bool_)


@kernel
def measure(count, separation, contacts: ScaledContacts, tool, u, touched: Touched):
    """Fill in of each contact how fast it closes, and velocity and mobility of what the tool touches there.

    The mobility is the normal velocity for a unit impulse at each of the contacts that share the load: those of a tree
    that are about as deep as its deepest (LOADED), as a body that n contacts push together moves as if each pushed a
    body n times as light. What bodies rest against, and push in turn, counts: the mobility of a block at a wall is 0.
    Of all changes of u that the other contacts allow it is the nearest to the free one (Gauss-Seidel).

    Args:
        count, separation, contacts: of the contacts, assembled.
        tool: tree of the tool.
        u: scaled velocity (nv,).
        touched: filled in.
    """
    tree, deepest, found = contacts.tree, touched.deepest, touched.found
    _group(count, separation, contacts, tool, touched)
    for i in range(count):
        touched.closing[i] = contact_velocity(contacts, i, 0, u)
        touched.velocity[i] = touched.mobility[i] = 0.0
        if tree[i, 1] == tool and tree[i, 0] >= 0:
            touched.velocity[i] = -_side_velocity(contacts, i, 0, 0, u)
            deepest[tree[i, 0]], found[tree[i, 0]] = np.inf, False
    for i in range(count):
        if tree[i, 1] == tool and tree[i, 0] >= 0:
            deepest[tree[i, 0]] = min(deepest[tree[i, 0]], separation[i])
    for i in range(count):
        t = tree[i, 0]
        if tree[i, 1] != tool or t < 0:
            continue
        loaded = separation[i] <= deepest[t] + LOADED
        if loaded and found[t]:
            continue
        touched.response[:] = 0.0
        for j in range(i, count):
            if j == i or (loaded and tree[j, 0] == t and tree[j, 1] == tool and separation[j] <= deepest[t] + LOADED):
                _push_side(contacts, j, 0, 1.0, touched.response)
        _resist_penetration(touched.first[touched.group[t]], contacts, touched)
        for j in range(i, count):
            if j == i or (loaded and tree[j, 0] == t and tree[j, 1] == tool and separation[j] <= deepest[t] + LOADED):
                touched.mobility[j] = max(0.0, _side_velocity(contacts, j, 0, 0, touched.response))
        found[t] |= loaded


@kernel
def measure_rotations(count, rows, turning, tangent, u, rotation):
    """Fill `rotation` (C, 3) with the angular velocities of what the tool touches, in world axes [rad/s].

    Args:
        rows: `RowArrays` with the tool as the second body; turning: `ScaledContacts` of their rotations.
        tangent: first tangents of the contacts, (C, 3).
        u: scaled velocity (nv,).
    """
    for i in range(count):
        n, t = triple(rows.normal, i), triple(tangent, i)
        b = cross(n, t)
        x, y, z = (
            -_side_velocity(turning, i, 0, 0, u),
            -_side_velocity(turning, i, 1, 0, u),
            -_side_velocity(turning, i, 2, 0, u),
        )
        for j in range(3):
            rotation[i, j] = rows.rotation[i, j] + x * n[j] + y * t[j] + z * b[j]


@kernel
def _group(count, separation, contacts, tool, touched):
    """Put trees that touch each other into one group, with the contacts at which they do, without the tool's."""
    tree, group, first = contacts.tree, touched.group, touched.first
    for t in range(group.shape[0]):
        group[t], first[t] = t, -1
    for j in range(count):
        touched.square[j] = 0.0
        a, b = tree[j, 0], tree[j, 1]
        if a == tool or b == tool or separation[j] > LOADED:
            continue
        touched.square[j] = coupling(contacts, j, 0, j, 0)
        if a >= 0 and b >= 0:
            group[_head(group, a)] = _head(group, b)
    for t in range(group.shape[0]):
        group[t] = _head(group, t)
    for j in range(count - 1, -1, -1):
        if touched.square[j] > 0.0:
            g = group[max(tree[j, 0], tree[j, 1])]
            touched.following[j], first[g] = first[g], j


@kernel
def _head(group, t):
    """The tree that stands for the group of a tree."""
    while group[t] != t:
        t = group[t]
    return t


@kernel
def _resist_penetration(first, contacts, touched):
    """Let the contacts of a group, from `first` on, push back what the response would move into each other."""
    response, push, square, following = touched.response, touched.push, touched.square, touched.following
    W, tree, start, size = contacts.W, contacts.tree, contacts.start, contacts.size
    j = first
    while j >= 0:
        push[j] = 0.0
        j = following[j]
    largest = 0.0
    for _ in range(SWEEPS):
        change = 0.0
        j = first
        while j >= 0:
            v = 0.0
            for side in range(2):
                t = tree[j, side]
                if t >= 0:
                    for k in range(size[t]):
                        v += W[j, 0, side, k] * response[start[t] + k]
            gain = max(0.0, push[j] - v / square[j]) - push[j]
            if gain != 0.0:
                for side in range(2):
                    t = tree[j, side]
                    if t >= 0:
                        for k in range(size[t]):
                            response[start[t] + k] += W[j, 0, side, k] * gain
                push[j] += gain
                change = max(change, gain * gain * square[j])
            j = following[j]
        largest = max(largest, change)
        if change <= CLOSE * CLOSE * largest:
            break


@kernel
def _side_velocity(contacts, i, d, side, u):
    """The part of the velocity of contact i in direction d that one of its sides has."""
    s, tree = 0.0, contacts.tree[i, side]
    if tree >= 0:
        for k in range(contacts.size[tree]):
            s += contacts.W[i, d, side, k] * u[contacts.start[tree] + k]
    return s


@kernel
def _push_side(contacts, i, side, p, u):
    """Change u by a normal impulse of contact i on one of its sides."""
    tree = contacts.tree[i, side]
    if tree >= 0:
        for k in range(contacts.size[tree]):
            u[contacts.start[tree] + k] += contacts.W[i, 0, side, k] * p
