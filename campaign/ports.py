"""Short trials of a guarded port by the hundred thousand, in one compiled loop of the kernels that the driver runs.

Each trial has a random device (50 g to 5 kg, with or without damping and encoders), random limits and guard, a hand and
a controller. Commands are what a controller with any fault may send: pumping with the motion or with the hand, walls
of either sign that are late, noise, values that are huge, infinite or no number, or none for some ticks; readings of
some ticks are no numbers. The hand is that of the probe `hands`, or noise.

The books are kept here once more, from the true motion of the device and the wrench that it held:

    E(k+1) = E(k) - f(k) . (x(k+1) - x(k)),   E >= -allowed - BELOW

where everything is measured exactly. Encoders, and readings that are lost, let a tick bring another displacement than
the guard predicted. Then each tick must keep within what that error costs, |f . (dx - dx of the prediction)|, which is
summed up (`excused`): the energy that was observed may be below zero by no more than that.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from campaign.cases import Outcome
from campaign.hands import BELOW
from haptic_control.guard import GuardParameters, Port, reset_port
from haptic_drivers.bound import Bound, BoundParameters
from haptic_drivers.driver import REJECTED, accept_state
from haptic_drivers.encoder import differentiate, round_pose
from haptic_drivers.force_device import ForceArrays, release_wrench, render_wrench
from haptic_drivers.inertial import MotionArrays, move, move_exactly, predict_move
from haptic_sim.dynamics.held_motion import held_motion
from haptic_sim.kernels import kernel
from haptic_sim.messages import FORCE, DeviceState
from haptic_sim.packed import Packed
from haptic_sim.random_numbers import gaussian, uniform
from haptic_sim.records import allocate, array, record
from haptic_sim.spatial import rotation_difference

BATCH = 10_000  # trials of a case
TICKS = 300  # of a trial
SEED = 20350
LAG = 64  # ticks by which a command may be late, at most
FASTEST = (2.0, 60.0)  # [m/s, rad/s] beyond which no hand drives a device on

HANDS = ("pump", "brake", "bang", "elastic", "noise")
PUMP, BRAKE, BANG, ELASTIC, NOISE = range(5)
COMMANDS = ("pump", "wall", "outward", "bang", "noise", "with the hand", "alternating")
WITH_MOTION, WALL, OUTWARD, TO_RANDOM_SIDES, RANDOM, WITH_HAND, ALTERNATING = range(7)


@record
class Trials(NamedTuple):
    """Random parameters of each trial; pairs are of translation and rotation."""

    period: np.ndarray = array("period of the servo", "trials", unit="s")
    inertia: np.ndarray = array("mass and inertia", "trials", 2, unit="kg, kg m^2")
    held: np.ndarray = array("coefficients of a step, as of `held_motion`", "trials", 2, 4)
    damped: np.ndarray = array("whether the device has a damping", "trials", dtype=np.int64)
    resolution: np.ndarray = array("resolution of encoders; 0: exact", "trials", 2, unit="m, rad")
    limit: np.ndarray = array("largest wrench", "trials", 2, unit="N, N m")
    bound: np.ndarray = array("largest wrench that passes the last bound", "trials", 2, unit="N, N m")
    speed: np.ndarray = array("beyond which nothing drives the device on", "trials", 2, unit="m/s, rad/s")
    soft_start: np.ndarray = array("ticks of the soft start", "trials", dtype=np.int64)
    allowed: np.ndarray = array("energy that may be given", "trials", 2, unit="J")
    exchanges: np.ndarray = array("as of Port", "trials", dtype=np.int64)
    largest: np.ndarray = array("as of Port", "trials", 2, unit="N s/m, N m s/rad")
    acts: np.ndarray = array("whether the guard acts", "trials", dtype=np.int64, fill=1)
    hand: np.ndarray = array("kind of the hand", "trials", dtype=np.int64)
    strength: np.ndarray = array("largest wrench of the hand", "trials", 2, unit="N, N m")
    grip: np.ndarray = array("stiffness and damping of an elastic hand", "trials", 2, unit="N/m, N s/m")
    command: np.ndarray = array("kind of the command", "trials", dtype=np.int64)
    size: np.ndarray = array("size of the command, or its stiffness", "trials", 2, unit="N, N m or N/m, N m/rad")
    late: np.ndarray = array("ticks by which the command is late", "trials", dtype=np.int64)
    dwell: np.ndarray = array("ticks for which a random side is kept", "trials", dtype=np.int64, fill=1)
    broken: np.ndarray = array("part of the commands that are no finite number", "trials")
    missing: np.ndarray = array("part of the ticks without a command", "trials")
    lost: np.ndarray = array("part of the readings that are no numbers", "trials")
    seed: np.ndarray = array("seed of all that is random in the trial", "trials", dtype=np.uint64)


@record
class Found(NamedTuple):
    """Results of each trial."""

    given: np.ndarray = array("the largest energy that the port gave, by the true motion", "trials", unit="J")
    part: np.ndarray = array("the same of translation and of rotation by itself", "trials", 2, unit="J")
    observed: np.ndarray = array("the same of the sum, by the measured motion", "trials", unit="J")
    excused: np.ndarray = array("what errors of the predicted displacement may have cost", "trials", unit="J")
    beyond: np.ndarray = array("ticks with a wrench beyond a limit or no number", "trials", dtype=np.int64)
    acted: np.ndarray = array("ticks in which the guard changed the command", "trials", dtype=np.int64)
    fault: np.ndarray = array("whether readings stopped the device", "trials", dtype=np.int64)


class Bench(NamedTuple):
    """One device of each kind, which trial after trial takes the numbers of."""

    device: Packed
    port: Packed
    motion: Packed
    state: Packed


def bench(planar: bool) -> Bench:
    """A device that moves in the plane, or in space."""
    port = Port.of(GuardParameters(type="passivity"), FORCE, 1e-3, (1.0, 1.0), acts=True)
    bound = Bound.of(BoundParameters(wrench=(1.0,) * 6), (1.0,) * 6)
    device = allocate(ForceArrays, limit=np.ones(6), drive=np.zeros((0, 6)), bound=bound, port=port)
    axes = np.array((0, 1, 5) if planar else range(6), np.int64)
    motion = allocate(MotionArrays, axes=axes, inertia=np.ones(6), pose=np.zeros(7))
    return Bench(Packed(device), Packed(port), Packed(motion), DeviceState().packed)


def drawn(rng: np.random.Generator, count: int) -> Trials:
    """Random trials."""

    def between(low: float, high: float, *shape: int) -> np.ndarray:
        return low * (high / low) ** rng.uniform(size=(count, *shape))

    def often(part: float, *shape: int) -> np.ndarray:
        return (rng.uniform(size=(count, *shape)) < part).astype(np.int64)

    trials = allocate(Trials, {"trials": count})
    t = trials
    t.period[:] = 1.0 / rng.choice([500.0, 1000.0, 2000.0, 4000.0], count)
    t.inertia[:, 0] = between(0.05, 5.0)
    t.inertia[:, 1] = t.inertia[:, 0] * 2.5e-3 * between(0.3, 3.0)
    t.damped[:] = often(0.5)
    damping = between(1e-3, 10.0, 2) * (1.0, 1e-3)
    for n in range(count):
        for part in range(2):
            mass, T = t.inertia[n, part], t.period[n]
            t.held[n, part] = (
                held_motion(mass, damping[n, part], T) if t.damped[n] else (1.0, T / mass, T, T * T / mass)
            )
    t.resolution[:] = (often(0.4) * between(1e-7, 1e-4))[:, None] * between(0.3, 30.0, 2)
    t.limit[:] = between(0.1, 100.0, 1) * (1.0, 0.03)
    t.bound[:] = np.where(often(0.5, 1), between(0.1, 100.0, 1) * (1.0, 0.03), np.inf)
    t.speed[:] = np.where(often(0.3, 1), between(0.02, 2.0, 1) * (1.0, 30.0), np.inf)
    t.soft_start[:] = often(0.3) * between(1.0, 200.0)
    t.allowed[:] = often(0.2, 1) * between(1e-6, 1e-2, 2)
    t.exchanges[:] = often(0.7)
    t.largest[:] = t.inertia / (2.0 * t.period[:, None]) * np.where(often(0.5, 1), 1.0, between(1e-3, 1.0, 2))
    t.hand[:] = rng.integers(len(HANDS), size=count)
    t.strength[:] = between(0.05, 20.0, 1) * (1.0, 0.02)
    t.grip[:] = np.stack([between(10.0, 3000.0), between(0.01, 10.0)], axis=1)
    t.command[:] = rng.integers(len(COMMANDS), size=count)
    t.size[:] = between(0.1, 1e5, 1) * (1.0, 0.01)
    t.late[:] = often(0.7) * rng.integers(0, LAG, count)
    t.dwell[:] = between(1.0, 100.0)
    t.broken[:] = often(0.3) * between(1e-3, 0.5)
    t.missing[:] = often(0.3) * between(1e-3, 0.5)
    t.lost[:] = often(0.2) * between(1e-3, 0.3)
    t.seed[:] = rng.integers(1 << 63, size=count)
    return trials


def run(trials: Trials, planar: bool, ticks: int = TICKS) -> Found:
    """Result of the trials."""
    found = allocate(Found, {"trials": len(trials.seed)})
    run_trials(*bench(planar), Packed(trials), Packed(found), ticks)
    return found


def faults(trials: Trials, found: Found) -> list[str]:
    """Faults of the trials, one line each."""
    exact = (trials.resolution == 0.0).all(axis=1) & (trials.lost == 0.0)
    allowed = BELOW + trials.allowed.sum(axis=1)
    wrong = np.where(exact, found.given > allowed, found.observed > allowed + found.excused)
    separate = exact & (trials.exchanges == 0)
    wrong |= separate & (found.part > BELOW + trials.allowed).any(axis=1)
    wrong |= (found.beyond > 0) | ~np.isfinite(found.given)
    return [
        f"trial {n}: {HANDS[trials.hand[n]]} hand, command {COMMANDS[trials.command[n]]}: gave {found.given[n]:.3g} J, "
        f"observed {found.observed[n]:.3g} J, of which errors of readings {found.excused[n]:.3g} J; "
        f"{found.beyond[n]} ticks beyond a limit"
        for n in np.flatnonzero(wrong)
    ]


def case(number: int, folder: Path) -> Outcome:
    """Some trials: of a planar device in cases of even numbers."""
    trials = drawn(np.random.default_rng([SEED, number]), BATCH)
    found = run(trials, number % 2 == 0)
    lines = faults(trials, found)
    tried = f"{BATCH} trials of {TICKS} ticks, the guard acted in {np.count_nonzero(found.acted)}"
    exact = (trials.resolution == 0.0).all(axis=1) & (trials.lost == 0.0)
    given = found.given - trials.allowed.sum(axis=1)
    tried += f"; gave at most {given[exact].max():.3g} J, {given[~exact].max():.3g} J with encoders or lost readings"
    return Outcome(tried, [*lines[:20], *([f"and {len(lines) - 20} more"] if len(lines) > 20 else [])], BATCH)


@kernel
def run_trials(device, packed_port, motion, state, packed_trials, packed_found, ticks):
    """Fill a Found for Trials; all Packed."""
    t, found, a, s = packed_trials.arrays, packed_found.arrays, device.arrays, state.arrays
    port, m = packed_port.arrays, motion.arrays
    hand, command, side, before = np.zeros(6), np.zeros(6), np.zeros(6), np.zeros(7)
    start, encoder, twist, turned, aside = np.zeros(7), np.zeros(7), np.zeros(6), np.zeros(3), np.zeros(6)
    measured, rendered, ahead, fastest = np.zeros(7), np.zeros(6), np.zeros(6), np.full(2, np.inf)
    poses, energy = np.zeros((LAG, 7)), np.zeros(2)
    for n in range(t.seed.shape[0]):
        period, seed = t.period[n], t.seed[n]
        _prepare(a, m, t, n)
        reset_port(port)
        start[:] = m.pose
        encoder[0], twist[:], ahead[:], doubtful, dead = math.nan, 0.0, 0.0, 0, False
        energy[:], observed = 0.0, 0.0
        for k in range(ticks):
            # the hand, and what is read
            _pull(t, n, k, m.pose, m.twist, start, side, hand)
            s.pose[:], s.twist[:] = m.pose, m.twist
            s.operator_wrench[:], s.rendered_wrench[:] = hand, a.rendered
            if t.resolution[n, 0] > 0.0:
                round_pose(t.resolution[n], start, s.pose)
                differentiate(1.0 / period, 1.0, encoder, twist, s.pose)
                s.twist[:] = twist
            lost = k > 0 and t.lost[n] > uniform(seed, 8 * k)
            if lost:
                s.pose[1] = math.nan
            lost = accept_state(packed_port, state, 0, fastest, (doubtful + 1) * period, period, -1, -1) != 0
            doubtful = doubtful + 1 if lost else 0
            dead |= doubtful >= REJECTED
            if k > 0:  # what the last tick did, as it was measured; a lost reading as it was predicted
                rotation_difference(s.pose[3:], measured[3:], turned)
                for part in range(2):
                    error = 0.0
                    for i in range(3 * part, 3 * part + 3):
                        predicted = port.free[i] + port.compliance[i] * rendered[i] if rendered[i] != 0.0 else 0.0
                        if lost:
                            observed -= rendered[i] * predicted
                            ahead[i] += predicted
                        else:
                            moved = (s.pose[i] - measured[i] if i < 3 else turned[i - 3]) - ahead[i]
                            observed -= rendered[i] * moved
                            error += rendered[i] * (moved - predicted)
                    found.excused[n] += abs(error)
                found.observed[n] = max(found.observed[n], -observed)
            if not lost:
                measured[:], ahead[:] = s.pose, 0.0
            # the command, and what the driver does with it
            poses[k % LAG] = s.pose
            _ask(t, n, k, poses, s.twist, start, hand, aside, command)
            a.bound.scale[0] = 1.0 if k >= t.soft_start[n] else k / t.soft_start[n]
            predict_move(motion, port.twist, port.operator, port.free, port.compliance)
            if dead or t.missing[n] > uniform(seed, 8 * k + 1) or render_wrench(device, command, period) < 0:
                release_wrench(device)
            rendered[:] = a.rendered
            before[:] = m.pose
            if t.damped[n]:
                move_exactly(motion, hand, a.rendered, period)
            else:
                move(motion, hand, a.rendered, period)
            # the books
            rotation_difference(m.pose[3:], before[3:], turned)
            for i in range(3):
                energy[0] -= a.rendered[i] * (m.pose[i] - before[i])
                energy[1] -= a.rendered[3 + i] * turned[i]
            found.given[n] = max(found.given[n], -(energy[0] + energy[1]))
            for part in range(2):
                found.part[n, part] = max(found.part[n, part], -energy[part])
            for i in range(6):
                most = min(t.limit[n, i // 3], t.bound[n, i // 3])
                found.beyond[n] += not abs(a.rendered[i]) <= most
        found.acted[n] = max(port.acted[0], port.acted[1])
        found.fault[n] = dead


@kernel
def _prepare(a, m, t, n):
    """Give the device the numbers of a trial, at rest at the origin."""
    for i in range(6):
        part = i // 3
        a.limit[i], a.bound.wrench[i], a.bound.start[i] = t.limit[n, part], t.bound[n, part], t.limit[n, part]
        m.inertia[i], m.twist[i], m.pose[i] = t.inertia[n, part], 0.0, 0.0
        a.rendered[i] = a.bound.before[i] = 0.0
        for row in range(4):
            m.held[row, i] = t.held[n, part, row]
    m.pose[6] = 1.0
    a.bound.starting[0] = t.soft_start[n] > 0
    port = a.port
    port.acts[0], port.exchanges[0] = t.acts[n], t.exchanges[n]
    a.bound.velocity[:] = t.speed[n]
    port.allowed[:], port.largest[:] = t.allowed[n], t.largest[n]


@kernel
def _pull(t, n, k, pose, twist, start, side, hand):
    """Fill the wrench of the hand (6,) in a tick; `side` (6,) is kept for `dwell` ticks."""
    kind, seed = t.hand[n], t.seed[n]
    if k % t.dwell[n] == 0:
        for i in range(6):
            side[i] = 1.0 if uniform(seed, 8 * k + 2 + i) < 0.5 else -1.0
    for i in range(6):
        part, most = i // 3, t.strength[n, i // 3]
        toward = side[i] if abs(twist[i]) < 1e-9 else math.copysign(1.0, twist[i])
        if kind == PUMP:
            hand[i] = most * toward
        elif kind == BRAKE:
            hand[i] = -most * toward
        elif kind == BANG:
            hand[i] = most * side[i]
        elif kind == NOISE:
            hand[i] = most * gaussian(seed, 6 * k + i)
        elif part == 0:
            pulled = t.grip[n, 0] * (start[i] - pose[i]) - t.grip[n, 1] * twist[i]
            hand[i] = min(max(pulled, -most), most)
        else:
            hand[i] = min(max(-1e-3 * t.grip[n, 1] * twist[i], -most), most)
        if hand[i] * twist[i] > 0.0 and abs(twist[i]) > FASTEST[part]:
            hand[i] = 0.0


@kernel
def _ask(t, n, k, poses, twist, start, hand, aside, command):
    """Fill the command (6,) of a tick; `poses` has those that were read in the last ticks by turns."""
    kind, seed = t.command[n], t.seed[n] ^ np.uint64(0x5DEECE66D)
    pose = poses[max(k - t.late[n], 0) % LAG]
    if k % t.dwell[n] == 0:
        for i in range(6):
            aside[i] = 1.0 if uniform(seed, 8 * k + i) < 0.5 else -1.0
    for i in range(6):
        size = t.size[n, i // 3]
        if kind == WITH_MOTION:
            command[i] = size * (aside[i] if twist[i] == 0.0 else math.copysign(1.0, twist[i]))
        elif kind in (WALL, OUTWARD):
            away = pose[i] - start[i] if i < 3 else 2.0 * pose[i]
            command[i] = -size * away if kind == WALL else size * away
        elif kind == TO_RANDOM_SIDES:
            command[i] = size * aside[i]
        elif kind == RANDOM:
            command[i] = size * gaussian(seed, 6 * k + i)
        elif kind == WITH_HAND:
            command[i] = math.copysign(size, hand[i])
        else:
            command[i] = size if k % 2 == 0 else -size
    if t.broken[n] > uniform(seed, 8 * k + 6):
        chosen = uniform(seed, 8 * k + 7)
        command[int(6.0 * chosen)] = (math.nan, math.inf, -math.inf, 1e300)[int(4.0 * ((37.0 * chosen) % 1.0))]
