"""The motion of a mass with friction under a held force that arrives late, integrated exactly.

    m a = F(t - delay) + o - b v - k x - c sign(v)

At rest the dry friction takes up to c. F is held over each tick, so that with a delay of (d + p) ticks, 0 <= p < 1, a
tick has two parts of a constant force, p T and (1 - p) T. In each part the motion has a closed form until the velocity
changes its sign; that instant is found by secants. With S the velocity response to a unit of momentum at rest, and P
its integral,

    S'' = -(b/m) S' - (k/m) S,  S(0) = 0, S'(0) = 1
    x(h) = x + v S + (F - k x)/m P,   v(h) = v S' + (F - k x)/m S

S is summed as its power series, which converges within some terms because a tick is short.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haptic_sim.kernels import kernel

TERMS = 40  # of the series: enough up to STIFFEST
STIFFEST = 5.0  # largest b T/m, and root of k T^2/m: beyond, a tick is longer than what the mass does by itself
SMALL = 1e-17
SECANTS = 30
REVERSALS = 8  # in a part of a tick


class Model(NamedTuple):
    """Parameters of the motion along or about one axis; of a rotation N m, kg m^2, N m s/rad, ... instead.

    Attributes:
        mass: m [kg]; damping: b [N s/m]; friction: c [N].
        delay: of the force [ticks].
        stiffness: k [N/m], about the position 0.
    """

    mass: float
    damping: float
    friction: float
    delay: float
    stiffness: float = 0.0


@kernel
def move(model, force, period, starts, states, out):
    """Fill the positions (pieces, ticks) of pieces of a motion, each of which has its own initial state.

    Args:
        model: parameters (5,) in the order of `Model`.
        force: held over each tick (n,) [N]; before and after it is zero.
        period: T [s].
        starts: tick at which each piece begins (pieces,).
        states: position and velocity there, and the constant force o in the piece (3, pieces) [m, m/s, N].
        out: filled with the position at the beginning of each tick [m].
    """
    mass, damping, friction, stiffness = model[0], model[1], model[2], model[4]
    whole = int(np.floor(model[3]))
    part = model[3] - whole
    constants = (mass, damping, friction, stiffness)
    first, second = part * period, (1.0 - part) * period
    late, now = _respond(constants, first), _respond(constants, second)
    for i in range(starts.size):
        p, u, offset = states[0, i], states[1, i], states[2, i]
        for j in range(out.shape[1]):
            out[i, j] = p
            tick = starts[i] + j - whole
            if part > 0.0:
                before = force[tick - 1] if 0 < tick <= force.size else 0.0
                p, u = _advance(constants, p, u, before + offset, first, late)
            held = force[tick] if 0 <= tick < force.size else 0.0
            p, u = _advance(constants, p, u, held + offset, second, now)


@kernel
def _respond(constants, h):
    """S', S and P after a time h [1, s, s^2]."""
    mass, damping, _, stiffness = constants
    rate, square = damping * h / mass, stiffness * h * h / mass
    last, term = 0.0, 1.0  # terms n - 1 and n of S' = sum a_n h^n
    S1, S, P = 1.0, h, 0.5 * h * h
    for n in range(1, TERMS):
        # n a_n = -(b/m) a_(n-1) - (k/m) a_(n-2) / (n - 1), from the equation of S
        last, term = term, -(rate * term + square * last / max(n - 1, 1)) / n
        S1 += term
        S += term * h / (n + 1)
        P += term * h * h / ((n + 1) * (n + 2))
        if abs(term) + abs(last) < SMALL:
            break
    return S1, S, P


@kernel
def _advance(constants, x, v, force, h, response):
    """Position and velocity after `h` [s] under a constant force; `response` as of `_respond` for the whole of h."""
    mass, _, friction, stiffness = constants
    for _ in range(REVERSALS):
        if v == 0.0:
            drive = force - stiffness * x
            if abs(drive) <= friction:
                return x, v
            sign = np.sign(drive)
        else:
            sign = np.sign(v)
        acceleration = (force - sign * friction - stiffness * x) / mass
        S1, S, P = response
        after = v * S1 + acceleration * S
        if friction == 0.0 or after * sign >= 0.0:
            return x + v * S + acceleration * P, after
        turn = _find_rest(constants, v, acceleration, h, after)
        S1, S, P = _respond(constants, turn)
        x, v, h = x + v * S + acceleration * P, 0.0, h - turn
        response = _respond(constants, h)
    return x, v


@kernel
def _find_rest(constants, v, acceleration, h, after):
    """Time at which the velocity v changes its sign, which after h [s] is `after`; by secants within a bracket."""
    low, high, v_low, v_high = 0.0, h, v, after
    for _ in range(SECANTS):
        time = low + (high - low) * v_low / (v_low - v_high)
        S1, S, _ = _respond(constants, time)
        found = v * S1 + acceleration * S
        if abs(found) <= 1e-14 * abs(v):
            return time
        if found * v > 0.0:
            low, v_low, v_high = time, found, 0.5 * v_high  # so that the other end moves, too
        else:
            high, v_high = time, found
    return time
