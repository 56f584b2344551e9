"""The energy balance of a simulated world, and the test whether discretisation has added too much energy.

The *supplied* energy is the initial kinetic and elastic energy, the largest potential energy of gravity released so
far, and the positive work of the hand and of moving surroundings. The *remaining* energy is the maximum so far of
initial energy, work and released potential together, minus the dissipated energy. A trial is *unstable* when the
numerical energy exceeds both the remaining energy and SHARE of the supplied energy: then most of the motion is
numerical, as in a world that hops for ever under a hand whose work alternates in sign. SHARE is needed because a world
that has come to rest has dissipated all, and its small numerical energy is no instability. The condition must hold in
two successive steps, because a spring that a body enters within a step stores energy before its force has acted once.
It must be exceeded by FLOOR and the rounding errors of the energies, so that a world at rest is never judged, and by
what is numerical in any world, however stable, where little energy was supplied:

- **Held wrenches.** A step moves by the velocity v' after it, so that a wrench F which is held over it does the work
  T F . v'. The balance has it at the mean velocity (see `EnergyBalance`), less T F . (v' - v) / 2. This is lost to the
  balance where contacts undo within a step what F does, as those of a body do that is shaken on a floor: contacts which
  are passive with the work at v' leave it as numerical energy. For a steady F it is 1/2 T F . v, for one that changes
  from step to step it adds up. It is summed up, and allowed.
- **Gravity**, whose potential energy does fall by T W . v', with the weight W: -T W . (v' - v) / 2 a step is numerical,
  1/2 T W . (v_0 - v) in a motion from v_0 to v. With w^2 = W D^-1 W that is at most T w a (1 + e) / 2 for a motion of
  the energy a^2 / 2 that is left with e^2 a^2 / 2, of which max(e^2, SHARE) a^2 / 2 is allowed already. The difference
  is largest at a = T w (1 + e) / (2 max(e^2, SHARE)), where it is T^2 w^2 (1 + e)^2 / (8 max(e^2, SHARE)) <=
  0.73 T^2 w^2. As D >= J^T m J and W = J^T m g, w^2 <= g^2 sum m, of all bodies: so T^2 g^2 sum m is allowed, twice the
  kinetic energy that gravity gives them in a step from rest.
- **Impacts**, which come before all else in their step, from v to v". What dissipates is booked at the mean velocity
  of the step, where forces F have the work T F . (v - v") / 2 more than after the impacts. At a floor gravity has
  T m g a more, for a body of the velocity a; at a ceiling as much less, but what impacts without losses take is cut
  off at 0. So the sum of the positive ones is booked too much in stable worlds: it may be in the numerical energy,
  and is missing in the remaining one. It is allowed in both, with v' for v", as T F . (v" - v') / 2 is numerical energy
  that free motion takes. An instability that impacts feed adds a part of the energy m a^2 / 2 with each of them, for
  which this allowance grows only by the part 2 g T / a. So it is found as before, unless a is as small as a few g T.

All vanish with T. Free fall, a lift by the hand and semi-implicit Euler on lasting springs stay far below.
"""

from __future__ import annotations

import math

import numpy as np

from haptic_sim.errors import HapticsError
from haptic_sim.kernels import kernel

KINETIC, POTENTIAL, ELASTIC, INJECTED, DAMPING, FRICTION, IMPACT, NUMERICAL = range(8)
SUPPLIED, LOWEST, INJECTED_BEFORE, BEFORE, CHANGED, PENALTIES, EXCEEDED, START, NET, HELD, IMPACTS = range(11)
"""Places in `EnergyBalance.watch`."""
BY_PENALTIES, BY_MOTION = 1.0, 2.0
FLOOR, ROUNDING = 1e-6, 1e-9  # [J], and part of the energies that there are
SHARE = 0.5  # of the supplied energy: numerical energy that is always allowed
TERMS = ("kinetic", "potential", "elastic", "injected", "damping", "friction", "impact", "numerical")


class UnstableError(HapticsError, RuntimeError):
    """A trial that cannot go on, as its numerical energy exceeds what was supplied or nothing says how it moves.

    The text says why, and what would do.
    """


class EnergyBalance:
    """Energies at the beginning of a step, and what flowed since the start of the trial [J].

    kinetic + potential + elastic = their sum at the start + injected - damping - friction - impact + numerical

    Attributes:
        values: (8,) in the order of TERMS. kinetic; potential, of gravity; elastic, in penalty springs, bonds of
            friction and fields; injected by the hand, by surroundings that move and by fields that flow, push or are
            switched; dissipated by the damping of penalties and fields, by friction, and by collisions and rigid
            contacts; numerical: what discrete time has added, so that the
            balance closes (penalties held over a step add energy, semi-implicit Euler in free fall takes 1/2 m g^2 T^2
            a step). What dissipates is booked at the mean velocity of the step and never falls: a damper, friction, or
            a rigid contact or limit against which the hand pushes, that drives a body at that velocity does so by
            sampling, and that is numerical. Of impacts only the sum is judged, see `response`.
        start: kinetic + potential + elastic at the start, NaN before it, (1,).
        watch: what was supplied, lowest potential so far, injected and numerical energy of the step before, whether
            parameters were changed since, what of the numerical energy came from penalties [J], and once it has
            was too much what added most of it, BY_PENALTIES or BY_MOTION; energy of the start, and what was supplied at
            most less what hand and gravity took back; sum of T F . (v' - v) / 2 of held wrenches; what impacts took at
            most by the work of other forces in their steps, (11,).
    """

    def __init__(self) -> None:
        self.values = np.zeros(8)
        self.start = np.full(1, np.nan)
        self.watch = np.zeros(11)
        self.watch[LOWEST] = np.nan

    @property
    def exceeded(self) -> bool:
        """Whether discrete time has added more energy than was supplied."""
        return bool(self.watch[EXCEEDED])

    def open(self, kinetic: float, potential: float, elastic: float) -> None:
        """State of the world at the beginning of a step."""
        open_balance(self.values, self.start, kinetic, potential, elastic)


@kernel
def open_balance(values, start, kinetic, potential, elastic):
    """Kernel of `EnergyBalance.open`."""
    total = kinetic + potential + elastic
    if math.isnan(start[0]):
        start[0] = total
    v = values
    v[KINETIC], v[POTENTIAL], v[ELASTIC] = kinetic, potential, elastic
    v[NUMERICAL] = total - start[0] - v[INJECTED] + v[DAMPING] + v[FRICTION] + v[IMPACT]


@kernel
def watch_balance(values, watch, fallen):
    """Enter what was supplied up to the beginning of a step, after `open_balance`, and judge the numerical energy.

    `fallen` is T^2 g^2 sum m, see the module [J].
    """
    v, w = values, watch
    numerical = v[NUMERICAL]
    if math.isnan(w[LOWEST]):
        w[SUPPLIED], w[LOWEST] = v[KINETIC] + v[ELASTIC], v[POTENTIAL]
        w[START] = w[SUPPLIED] + v[POTENTIAL]
    else:
        w[PENALTIES] += v[ELASTIC]
    w[SUPPLIED] += max(0.0, v[INJECTED] - w[INJECTED_BEFORE]) + max(0.0, w[LOWEST] - v[POTENTIAL])
    if w[CHANGED] != 0.0:  # springs that are made stiffer while they are compressed
        w[SUPPLIED] += max(0.0, numerical - w[BEFORE])
        w[START] += max(0.0, numerical - w[BEFORE])
        w[CHANGED] = 0.0
    w[LOWEST] = min(w[LOWEST], v[POTENTIAL])
    w[INJECTED_BEFORE] = v[INJECTED]
    w[NET] = max(w[NET], w[START] + v[INJECTED] - v[POTENTIAL])
    left = w[NET] - v[DAMPING] - v[FRICTION] - v[IMPACT]
    rounding = FLOOR + ROUNDING * (v[KINETIC] + abs(v[POTENTIAL]) + v[ELASTIC])
    most = max(left + w[IMPACTS], SHARE * w[SUPPLIED]) + w[IMPACTS] + max(0.0, w[HELD]) + fallen + rounding
    if min(numerical, w[BEFORE]) > most and w[EXCEEDED] == 0.0:
        w[EXCEEDED] = BY_PENALTIES if w[PENALTIES] > 0.5 * numerical else BY_MOTION
    w[BEFORE] = numerical
