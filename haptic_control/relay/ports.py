"""The two ports of a relay: what energy passes through them, and the guards that bound it (kernels).

In tick k a wrench f(k) is held at each port while a pose moves by dx(k): at the device's end that of the device, at the
world's end the pose that the controller is shown. The work, of translation and rotation apart, is

    f(k) . dx(k) out of the relay at the device's end,   -f(k) . dx(k) at the world's end

At the world's end f(k) is known when the relay chooses dx(k). At the device's end the relay chooses f(k), and dx(k) is
what the device makes of it: d + c f with the displacement d without a wrench and the compliance c of a tick, known
beforehand for a device of known inertia (`haptic_control.guard`), else T v and 0. So a guard can bound the work of the
same tick. Each end keeps an account of the energy that may still leave through its port (`available`), settled by what
was rendered and measured. The other end pays into it: every packet carries the sum of all that was paid since the
start, so that a lost packet loses no energy, and a late one pays late.

passivity (Ryu, Artigas and Preusche 2010): an end pays the other what its own port has absorbed. The device's end takes
as much of the wrench along the motion away as the account requires (impedance causality), the world's end as much of
the motion against the wrench (admittance causality), as `haptic_control.guard` does.

wave (Niemeyer and Slotine 1991, 2004), with the wave impedance b and F the force of the device on the relay, or of the
relay on the world:

    u = (b v + F) / sqrt(2 b)  from the device to the world,   w = (b v - F) / sqrt(2 b)  back,   F v = (u^2 - w^2) / 2

with v = dx / T. The integrals of u and w cross, and T u^2 / 2 and T w^2 / 2 are paid. What has arrived of an integral
and was not played yet is played in one tick, or exponentially (the wave filter), as far as the account allows: a gap is
a zero wave, and what several packets carried together comes out without gaining energy (Niemeyer and Slotine 1998). As
the whole integral is played, positions do not drift.

A pose that was kept from the device's returns to it when it may, so it does not drift; slowly (`correction`), because a
wrench that is held while the pose jumps does work that no wall does.

tank (Franken et al. 2011): what a port absorbs fills the tank of its end, what leaves through it empties it, and a
share of each tank is sent to the other in each tick. A damper at the device fills the tank up to its level, from the
operator; with an empty tank nothing but the damper is rendered.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haptic_control.guard import passive_motion, passive_wrench
from haptic_sim.kernels import kernel
from haptic_sim.records import array, record, shared, value
from haptic_sim.spatial import advance_pose, rotation_difference

NONE, PASSIVITY, WAVE, TANK = range(4)
ROUNDING = 1e-9  # part of an energy by which an account may be off


@record
class Ledger(NamedTuple):
    """Energies at one end since the start, translation and rotation; what of it crosses, crosses as it is."""

    paid: np.ndarray = array("energy that this end has paid to the other", 2, unit="J")
    absorbed: np.ndarray = array("energy that has entered the relay through this port", 2, unit="J")
    delivered: np.ndarray = array("energy that has left the relay through this port", 2, unit="J")
    dissipated: np.ndarray = array("energy that the guard has kept from leaving", 2, unit="J")
    available: np.ndarray = array("energy that may still leave through this port", 2, unit="J")
    wave: np.ndarray = array("integral of the wave that this end has sent", 6, unit="J^(1/2) s^(1/2)")


@record
class Port(NamedTuple):
    """One end of a relay, for kernels."""

    guard: int = value("NONE, PASSIVITY, WAVE or TANK")
    period: float = value("servo period", unit="s")
    impedance: np.ndarray = shared("wave impedance b", 2, unit="N s/m, N m s/rad")
    played: float = value("part of the arrived wave that is played in a tick")
    correction: float = value("rate at which the shown pose returns to the device's", unit="1/s")
    level: np.ndarray = shared("level up to which the damper fills the tank", 2, unit="J")
    capacity: np.ndarray = shared("largest energy in a tank", 2, unit="J")
    share: float = value("part of a tank that is sent in a tick")
    damping: np.ndarray = shared("damping at the device with an empty tank", 2, unit="N s/m, N m s/rad")
    ledger: Ledger = value("energies of this end")
    received: np.ndarray = array("energy that the other end has paid, as far as it has arrived", 2, unit="J")
    incoming: np.ndarray = array("integral of the other end's wave, as far as it has arrived", 6)
    used: np.ndarray = array("integral of the wave that was played", 6)
    wanted: np.ndarray = array("motion of the shown pose to where it shall be", 6, unit="m, rad")
    allowed: np.ndarray = array("part of it that the guard allows", 6, unit="m, rad")
    moved: np.ndarray = array("motion of a tick", 6, unit="m, rad")
    inertia: np.ndarray = shared("inertia of the device, infinite where it cannot move or is not known", 6, unit="kg")
    started: np.ndarray = array("whether a state of the device has come", 1, dtype=np.int64)
    pose: np.ndarray = array("pose of the device at its last state", 7, unit="m")
    free: np.ndarray = array("displacement of the device in the tick without a wrench of the relay", 6, unit="m, rad")
    compliance: np.ndarray = array("its displacement by that wrench", 6, unit="m/N, rad/N m")


@kernel
def receive(packed, paid, wave):
    """Take what the other end has paid (2,), and the integral of its wave (6,), as they have arrived."""
    port = packed.arrays
    ledger = port.ledger
    for g in range(2):
        ledger.available[g] += paid[g] - port.received[g]
        port.received[g] = paid[g]
    for i in range(6):
        port.incoming[i] = wave[i]


@kernel
def settle(packed, pose, twist, operator, rendered):
    """Account at the device's end for the last tick, and foresee the device's displacement in the next.

    What was rendered need not be what was commanded, nor the device move as foreseen: what the account then lacks is
    paid first. A wave whose energy is not there is sent as far as it is: without force, as while a link is broken, the
    motion of the device would send b v^2 / 2, which nobody has supplied.

    Args:
        pose, twist: of the device (7,), (6,).
        operator: wrench of the operator (6,).
        rendered: wrench of the device in the last tick (6,).
    """
    port = packed.arrays
    ledger, moved, period = port.ledger, port.moved, port.period
    if port.started[0]:
        for i in range(3):
            moved[i] = pose[i] - port.pose[i]
        rotation_difference(pose[3:], port.pose[3:], moved[3:])
        for g in range(2):
            work, square, played, part = 0.0, 0.0, 0.0, 1.0
            b = port.impedance[g]
            root = math.sqrt(2.0 * b)
            for i in range(3 * g, 3 * g + 3):
                work += rendered[i] * moved[i]
                if port.guard == WAVE:
                    u = (b * moved[i] / period - rendered[i]) / root
                    w = (b * moved[i] / period + rendered[i]) / root
                    square += u * u
                    played += w * w
            sent, played = 0.5 * period * square, 0.5 * period * played
            lacking = played - ledger.available[g]
            if port.guard == WAVE and lacking > ROUNDING * played:
                # What was rendered is not what was commanded, and the motion would send more than there is.
                paid = max(sent - lacking, 0.0)
                part = math.sqrt(paid / sent) if sent > 0.0 else 0.0
                played -= sent - paid
                sent = paid
            for i in range(3 * g, 3 * g + 3):
                if port.guard == WAVE:
                    ledger.wave[i] += part * (period * ((b * moved[i] / period - rendered[i]) / root))
            _book(port, g, work, played, sent)
    port.started[0] = 1
    port.pose[:] = pose
    for i in range(6):
        port.compliance[i] = period * period / port.inertia[i]
        port.free[i] = period * twist[i] + port.compliance[i] * operator[i]


@kernel
def command_wrench(packed, wanted, wrench):
    """Fill `wrench` (6,), which the device renders during the tick; `wanted` (6,) has arrived."""
    port = packed.arrays
    period, free, compliance = port.period, port.free, port.compliance
    for g in range(2):
        first = 3 * g
        available = max(port.ledger.available[g], 0.0)
        part, damping = 0.0, 0.0
        if port.guard == WAVE:
            damping = port.impedance[g]
            part = math.sqrt(2.0 * damping) * _play(port, g, available) / period
        elif port.guard == TANK and available < port.level[g]:
            damping = port.damping[g] * (1.0 - available / port.level[g])
        for i in range(first, first + 3):
            wrench[i] = wanted[i]
            if port.guard == WAVE:
                wrench[i] = part * (port.incoming[i] - port.used[i])
                port.used[i] += wrench[i] * period / math.sqrt(2.0 * damping)
            elif port.guard == TANK and available == 0.0:
                wrench[i] = 0.0
            if damping > 0.0:  # at the mean velocity of the tick, (d + c f) / T
                wrench[i] = (wrench[i] - damping * free[i] / period) / (1.0 + damping * compliance[i] / period)
        if port.guard == PASSIVITY or port.guard == TANK:
            kept = passive_wrench(wrench, first, free, compliance, available, 0.0, 0.0, period)
            port.ledger.dissipated[g] += kept


@kernel
def move(packed, wrench, target, velocity, pose, twist):
    """Move the pose that the controller is shown, against the wrench of the last tick, and say its twist.

    Args:
        wrench: of the last DeviceCommand (6,).
        target, velocity: pose (7,) and twist (6,) of the device as they have arrived.
        pose: of the tick before (7,); moved in place.
        twist: filled (6,).
    """
    port = packed.arrays
    ledger, period = port.ledger, port.period
    wanted, allowed, moved = port.wanted, port.allowed, port.moved
    for i in range(3):
        wanted[i] = target[i] - pose[i]
    rotation_difference(target[3:], pose[3:], wanted[3:])
    for g in range(2):
        first, last = 3 * g, 3 * g + 3
        played, square, work, free = 0.0, 0.0, 0.0, True  # free: nothing keeps the pose from the device's
        for i in range(first, last):
            moved[i] = 0.0
            allowed[i] = wanted[i]
        if port.guard == WAVE:
            b = port.impedance[g]
            root = math.sqrt(2.0 * b)
            part = _play(port, g, max(ledger.available[g], 0.0))
            for i in range(first, last):
                u = part * (port.incoming[i] - port.used[i]) / period
                port.used[i] += period * u
                twist[i] = (root * u + wrench[i]) / b
                w = u + 2.0 * wrench[i] / root
                ledger.wave[i] += period * w
                played += u * u
                square += w * w
                moved[i] = period * twist[i]
                work -= wrench[i] * moved[i]
                allowed[i] = period * port.correction * (wanted[i] - moved[i])
            played *= 0.5 * period
        elif port.guard != NONE:
            distance, speed = 0.0, 0.0
            for i in range(first, last):
                distance += wanted[i] ** 2
                speed += velocity[i] ** 2
            distance = math.sqrt(distance)
            most = period * (2.0 * math.sqrt(speed) + port.correction * distance)  # after a gap it catches up
            if distance > most:
                free = False
                for i in range(first, last):
                    allowed[i] *= most / distance
        if port.guard != NONE:
            available = max(ledger.available[g] - played, 0.0)
            kept = passive_motion(allowed, first, wrench, available, 0.0, 0.0, period)
            ledger.dissipated[g] += kept
            free &= kept == 0.0
        cost = 0.0
        for i in range(first, last):
            cost -= wrench[i] * allowed[i]
            if port.guard == WAVE:
                moved[i] += allowed[i]
            else:
                twist[i] = velocity[i]
                if not free:
                    moved[i] = allowed[i]
                    twist[i] = allowed[i] / period
        if port.guard != WAVE and free:
            for i in range(3 + g):  # to the last bit
                pose[first + i] = target[first + i]
        _book(port, g, work + cost, played + cost, 0.5 * period * square)
    advance_pose(moved, 1.0, pose)


@kernel
def _play(port, g, available):
    """The part of what has arrived of the other end's wave, and was not played yet, that is played in this tick."""
    square = 0.0
    for i in range(3 * g, 3 * g + 3):
        square += (port.incoming[i] - port.used[i]) ** 2
    energy = 0.5 * port.played**2 * square / port.period
    return port.played * math.sqrt(available / energy) if energy > available else port.played


@kernel
def _book(port, g, work, played, sent):
    """Account for the `work` that has left through the port, with the energies of the waves played and sent [J]."""
    ledger = port.ledger
    if work > 0.0:
        ledger.delivered[g] += work
    else:
        ledger.absorbed[g] -= work
    if port.guard == WAVE:
        ledger.available[g] -= played
        ledger.paid[g] += sent
    elif port.guard == TANK:
        ledger.available[g] -= work
        over = ledger.available[g] - port.capacity[g]
        if over > 0.0:
            ledger.dissipated[g] += over
            ledger.available[g] -= over
        sent = port.share * max(ledger.available[g], 0.0)
        ledger.available[g] -= sent
        ledger.paid[g] += sent
    else:
        ledger.available[g] -= max(work, 0.0)
        ledger.paid[g] = ledger.absorbed[g]
