"""The Z-width by simulation: which stiffness and damping of a virtual coupling a sampled device renders with a hand.

The device is a mass M with the damping b under a force that is held over each tick; its motion, and that of a hand that
holds it, is exact. Its position h is read every tick, in steps of a resolution if it has one. The coupling is BROWN's,
by backward differences, with a wall or a point mass at x behind it (`coupling`), and acts in both directions:

    e(k) = h(k) - x(k),   f(k) = K e(k) + B/T (e(k) - e(k-1)),   the device feels -f(k - delay), the mass f(k)

A passive hand holds the device, which is let go at a displacement A with the velocity A b/M, with which it alone would
move by A: without stiffness a displacement excites nothing. The loop is *unstable* if its force grows, *oscillates* if
its force neither grows nor decays (a limit cycle of quantisation), and *settles* otherwise.

The adversarial hand is the worst of all. It moves the device as it wants to, with a constant velocity within each tick:
so the damping b dissipates least for given samples, which is where the factor 1 - cos theta of BROWN (8) comes from.
Work that accelerates the mass M comes back. In a tick of the displacement dh it gains

    -f(k - delay) dh - b dh^2 / T

It moves in bursts that begin and end at rest, A w(k) cos(theta k) with a window w, and searches for the frequency theta
at which it gains most. A coupling is *active* if it gives energy in a burst, or if its force grows afterwards while the
device is at rest. With a resolution the hand also moves to and fro across one step, for the power that it gets
(`quantisation`); this, which no damping prevents, does not count as active.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple

import numpy as np
import scipy.linalg
from pydantic import model_validator

from haptic_control.passivity.coupling import Grid, ratio_of
from haptic_sim.kernels import kernel
from haptic_sim.parameters import Parameters, quantity

TICKS = 8192  # of a simulation with a passive hand
BURST = 2048  # of one of the adversarial hand
LONGER = 8  # times as long is one with which it looks again where it has gained nothing by little
WINDOWS = 4  # of a simulation: the force of the last is compared with that of the one before
BISECTIONS = 12  # between two values of the damping
STEADY = 0.02  # relative change of the force from window to window that is none, with a resolution
FREQUENCIES = 72  # that the adversarial hand tries, two thirds of them uniform in (0, pi], the others towards 0
_LOWEST = 2e-2  # [rad] of them
_SEARCH = 16  # steps of its search beside the best
_UNDECIDED = -0.3  # a gain, of what the damping takes, above which it looks again
_BEYOND = 1e6  # times the force of the first displacement: there is no need to go on
SETTLES, OSCILLATES, UNSTABLE = 0, 1, 2
VERDICTS = ("settles", "oscillates", "unstable")


class Hand(NamedTuple):
    """A passive hand at the end of an arm: a mass on a spring and a damper, which holds the device by another pair.

    Attributes:
        mass: of the hand [kg]; stiffness, damping: of the arm [N/m, N s/m].
        grip_stiffness, grip_damping: between hand and device [N/m, N s/m].
    """

    mass: float
    stiffness: float
    damping: float
    grip_stiffness: float
    grip_damping: float


HANDS = {
    "relaxed": Hand(0.3, 100.0, 3.0, 500.0, 2.0),
    "firm": Hand(1.0, 800.0, 20.0, 3000.0, 15.0),
    "clamp": Hand(10.0, 1e5, 100.0, 2e4, 1.0),
}
"""Chosen, of the order of what is measured at fingers and at an arm; the clamp hardly moves and hardly damps."""
HandName = Literal["none", "relaxed", "firm", "clamp", "passive", "adversarial"]


class ZWidthParameters(Parameters):
    """A device, what is sampled, who holds it, and a grid of couplings."""

    rate: float = quantity(unit="Hz", description="Servo rate, 1/T", gt=0.0)
    device_mass: float = quantity(unit="kg", description="Mass M of the device", gt=0.0)
    device_damping: float = quantity(unit="N s/m", description="Viscous damping b of the device itself", gt=0.0)
    mass: float | None = quantity(
        None, unit="kg", description="Mass m behind the coupling; without it a virtual wall", gt=0.0
    )
    integrator: int = quantity(3, description="Integrator of the mass, the method of BROWN Table 1", ge=1, le=3)
    resolution: float = quantity(
        0.0, unit="m", description="Resolution of the measured position; 0: it is continuous", ge=0.0
    )
    delay: int = quantity(0, unit="ticks", description="Delay of the force", ge=0, le=1000)
    hand: HandName = quantity(
        "none",
        description="Hand on the device; passive: each of none, relaxed, firm and clamp, of which the worst counts",
    )
    amplitude: float = quantity(
        1e-3,
        unit="m",
        description="First displacement, and by how much the first velocity moves the device alone; amplitude of an "
        "adversarial hand",
        gt=0.0,
    )
    stiffness: Grid | None = quantity(
        None, description="Lowest and highest stiffness [N/m], and the number of values; null: see `grid`"
    )
    damping: Grid | None = quantity(
        None, description="Lowest and highest damping [N s/m], and the number of values; null: see `grid`"
    )

    @model_validator(mode="after")
    def _steps_are_smaller_than_the_motion(self) -> ZWidthParameters:
        if self.resolution > 0.1 * self.amplitude:
            raise ValueError(
                f".resolution = {self.resolution:g} m: must be at most a tenth of the amplitude ({self.amplitude:g} m)"
            )
        return self

    def grid(self) -> tuple[np.ndarray, np.ndarray]:
        """Values of the stiffness (n,) [N/m] and of the damping (m,) [N s/m].

        By default 40 of each, up to 1.2 times what can be passive, 2 b/T and b, with an adversarial hand, and else to
        about where the loop of the device and the mass alone is not stable.
        """
        b, M, m = self.device_damping, self.device_mass, self.mass
        if self.hand == "adversarial":
            highest = 2.4 * b * self.rate, 1.2 * b
        else:
            per_tick = (M if m is None else M * m / (M + m)) * self.rate / (1 + self.delay)
            highest = 0.8 * per_tick * self.rate / (1 + self.delay), 1.1 * per_tick
        grids = (self.stiffness or (0.0, highest[0], 40)), (self.damping or (0.0, highest[1], 40))
        return np.linspace(*grids[0]), np.linspace(*grids[1])


class ZWidth(NamedTuple):
    """Result of `measure`.

    Attributes:
        stiffness (n,), damping (m,): the grid [N/m, N s/m].
        verdict (n, m): SETTLES, OSCILLATES or UNSTABLE; of an adversarial hand SETTLES where it gains nothing, UNSTABLE
            where it does.
        ripple (n, m): peak to peak of the device in the end [m]; zero with an adversarial hand.
        power (n, m): largest mean power that an adversarial hand gains [W], not positive where it gains nothing.
        boundary (p, 2): stiffness and damping at which the verdict changes to or from UNSTABLE.
        required (n, m): least damping of the device by BROWN (8) [N s/m]; infinite where the loop is not stable.
        poles (n, m): largest |z| of the loop with the hand, without quantisation; empty with an adversarial hand.
    """

    stiffness: np.ndarray
    damping: np.ndarray
    verdict: np.ndarray
    ripple: np.ndarray
    power: np.ndarray
    boundary: np.ndarray
    required: np.ndarray
    poles: np.ndarray


class Loop(NamedTuple):
    """Constants of the sampled loop, for kernels.

    Attributes:
        period: T [s]; mobility: T/m of the mass [s/kg], 0 of a wall; part: of its new velocity in its step.
        resolution: [m]; delay: [ticks]; device_damping: b [N s/m]; amplitude: [m]; velocity: first one [m/s].
    """

    period: float
    mobility: float
    part: float
    resolution: float
    delay: int
    device_damping: float
    amplitude: float
    velocity: float

    @classmethod
    def of(cls, given: ZWidthParameters) -> Loop:
        """The loop of some parameters."""
        T, part = 1.0 / given.rate, {1: 0.0, 2: 1.0, 3: 0.5}[given.integrator]
        mobility = 0.0 if given.mass is None else T / given.mass
        b, amplitude = given.device_damping, given.amplitude
        velocity = amplitude * b / given.device_mass
        return cls(T, mobility, part, given.resolution, given.delay, b, amplitude, velocity)


def hands_of(given: ZWidthParameters) -> list[Hand | None]:
    """The passive hands that are tried, None: no hand."""
    if given.hand == "passive":
        return [None, *HANDS.values()]
    return [HANDS.get(given.hand)]


def motion(mass: float, damping: float, hand: Hand | None, period: float) -> tuple[np.ndarray, np.ndarray]:
    """Exact motion over a tick of (h, v, hand's position, hand's velocity) under a held force on the device.

    Args:
        mass, damping: of the device [kg, N s/m].
        hand: that holds it; None: no hand.
        period: T [s].

    Returns:
        A (4, 4), B (4,) of s' = A s + B f.
    """
    system = np.zeros((5, 5))
    system[0, 1], system[1, 1], system[1, 4] = 1.0, -damping / mass, 1.0 / mass
    if hand is not None:
        grip = np.array([-hand.grip_stiffness, -hand.grip_damping, hand.grip_stiffness, hand.grip_damping])
        system[1, :4] += grip / mass
        system[2, 3] = 1.0
        system[3, :4] = (np.array([0.0, 0.0, -hand.stiffness, -hand.damping]) - grip) / hand.mass
    step = scipy.linalg.expm(system * period)
    return np.ascontiguousarray(step[:4, :4]), step[:4, 4].copy()


def measure(given: ZWidthParameters, threads: int = 1, progress: Callable[[int], object] | None = None) -> ZWidth:
    """Simulate a grid of couplings.

    Args:
        given: see ZWidthParameters.
        threads: which simulate rows of the grid at the same time.
        progress: called with the number of rows done.
    """
    K, B = given.grid()
    loop, adversarial = Loop.of(given), given.hand == "adversarial"
    T = loop.period
    systems = [motion(given.device_mass, given.device_damping, hand, T) for hand in hands_of(given)]
    A, F = np.stack([step for step, _ in systems]), np.stack([force for _, force in systems])
    theta = np.concatenate(
        [np.linspace(0.0, math.pi, 2 * FREQUENCIES // 3 + 1)[1:], np.geomspace(_LOWEST, 0.06, FREQUENCIES // 3)]
    )
    verdict, results = np.empty((K.size, B.size), np.int64), np.empty((2, K.size, B.size))
    crossings = np.full((K.size, 8), np.nan)
    short, long = (envelope(loop.amplitude, ticks) for ticks in (BURST, LONGER * BURST))
    bursts = np.array([burst(one, short) for one in theta])

    def row(i: int) -> None:
        results[:, i] = 0.0
        if adversarial:
            _row_of_bursts(loop, theta, bursts, long, K[i], B, verdict[i], results[1, i], crossings[i])
        else:
            _row_of_hands(loop, A, F, K[i], B, verdict[i], results[0, i], crossings[i])

    pool = ThreadPoolExecutor(threads)
    try:
        for done, _ in enumerate(pool.map(row, range(K.size)), start=1):
            if progress is not None:
                progress(done)
    finally:  # interrupted: rows that have not begun do not
        pool.shutdown(cancel_futures=True)
    where = np.argwhere(np.isfinite(crossings))
    boundary = np.array([(K[i], crossings[i, j]) for i, j in where]).reshape(-1, 2)
    required = required_map(given, K, B)
    poles = np.empty((0, 0)) if adversarial else spectral_radius(given, K, B)
    return ZWidth(K, B, verdict, results[0], results[1], boundary, required, poles)


def worst_forces(given: ZWidthParameters, stiffness: float, damping: float, ticks: int) -> tuple[np.ndarray, float]:
    """The hand that gains most with forces that are held over each tick, without quantisation.

    Displacements are a linear map of the forces, dx = G F, so that the gain -F . dx of a hand with |F| = 1 is at most
    the largest eigenvalue of -(G + G^T)/2, and is that with its eigenvector.

    Args:
        given: device and loop.
        stiffness, damping: of the coupling [N/m, N s/m].
        ticks: for which the hand acts, from rest on.

    Returns:
        Forces of the hand (ticks,) [N], and its gain [J]: negative if every hand loses.
    """
    loop = Loop.of(given)._replace(resolution=0.0)
    A, B = motion(given.device_mass, given.device_damping, None, loop.period)
    s, mass, delayed = np.zeros(4), np.zeros(3), np.zeros(loop.delay + 1)
    moved = np.empty(ticks)  # in each tick, by a force of 1 N in the first
    for k in range(ticks):
        delayed[k % (loop.delay + 1)] = couple(loop, stiffness, damping, s[0], mass)
        new = A @ s + B * (float(k == 0) - delayed[(k + 1) % (loop.delay + 1)])
        moved[k], s = new[0] - s[0], new
    gains, forces = np.linalg.eigh(-0.5 * (scipy.linalg.toeplitz(moved) + moved[0] * np.eye(ticks)))
    return forces[:, -1], float(gains[-1])


def required_map(given: ZWidthParameters, stiffness: np.ndarray, damping: np.ndarray) -> np.ndarray:
    """Least damping of the device for each coupling by BROWN (8) (n, m) [N s/m], infinite for unstable loops."""
    T, m = 1.0 / given.rate, given.mass
    rows = []
    for K in stiffness:  # one at a time: a coupling without a spring is another transfer function, see `feedback`
        most = K * T + damping
        some = np.where(most > 0.0, most, 1.0)
        a = np.zeros(damping.shape) if m is None else some * T / m
        ratio, _, stable = ratio_of(a, K * T / some, given.integrator, given.delay)
        rows.append(np.where(most > 0.0, np.where(stable, ratio, np.inf) * (0.5 * K * T + damping), 0.0))
    return np.array(rows)


def spectral_radius(given: ZWidthParameters, stiffness: np.ndarray, damping: np.ndarray) -> np.ndarray:
    """Largest |z| of the loop of a passive hand, of the worst one, without quantisation (n, m).

    Roots at z = 1 that the coupling does not see, those of a device that nobody holds and of a free mass, are left out.
    """
    K, B = np.meshgrid(stiffness, damping, indexing="ij")
    return np.max([_radius(given, hand, K, B) for hand in hands_of(given)], axis=0)


def _radius(given: ZWidthParameters, hand: Hand | None, K: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Largest |z| of the loop of one hand, as `spectral_radius`, from the matrix of the loop.

    The state is that of device and hand, the mass' position and velocity, its displacement before, and the forces that
    are in transit.
    """
    T, loop = 1.0 / given.rate, Loop.of(given)
    A, F = motion(given.device_mass, given.device_damping, hand, T)
    n = 7 + given.delay
    x, v, before, first = 4, 5, 6, 7
    force = np.zeros((*K.shape, n))  # f(k) of the state
    force[..., 0], force[..., x] = K + B / T, -(K + B / T)
    force[..., before] = -B / T
    matrix = np.zeros((*K.shape, n, n))
    matrix[..., :4, :4] = A
    if given.delay:
        matrix[..., :4, n - 1] -= F
        matrix[..., first, :] = force
        for i in range(first + 1, n):
            matrix[..., i, i - 1] = 1.0
    else:
        matrix[..., :4, :] -= F[:, None] * force[..., None, :]
    matrix[..., v, v] = matrix[..., x, x] = 1.0
    matrix[..., v, :] += loop.mobility * force
    matrix[..., x, v] += T
    matrix[..., x, :] += loop.part * T * loop.mobility * force
    matrix[..., before, 0], matrix[..., before, x] = 1.0, -1.0
    if given.mass is None:
        keep = [i for i in range(n) if i not in (x, v)]
        matrix = matrix[..., keep, :][..., :, keep]
    if hand is None:
        keep = [i for i in range(matrix.shape[-1]) if i not in (2, 3)]
        matrix = matrix[..., keep, :][..., :, keep]
    z = np.linalg.eigvals(matrix)
    drift = np.abs(z - 1.0) < 1e-7
    return np.asarray(np.abs(np.where(drift, 0.0, z)).max(axis=-1))


@kernel
def _row_of_hands(loop, A, F, K, damping, verdict, ripple, crossings):
    """Fill the results of a stiffness with passive hands, of the worst of which each is."""
    found = 0
    for j in range(damping.shape[0]):
        verdict[j], ripple[j] = _worst_hand(loop, A, F, K, damping[j])
        if j > 0 and (verdict[j] == UNSTABLE) != (verdict[j - 1] == UNSTABLE) and found < crossings.shape[0]:
            low, high = damping[j - 1], damping[j]
            for _ in range(BISECTIONS):
                middle = 0.5 * (low + high)
                if (_worst_hand(loop, A, F, K, middle)[0] == UNSTABLE) == (verdict[j - 1] == UNSTABLE):
                    low = middle
                else:
                    high = middle
            crossings[found] = 0.5 * (low + high)
            found += 1


@kernel
def _worst_hand(loop, A, F, K, B):
    """Verdict and ripple with the worst of the hands."""
    worst, ripple = SETTLES, 0.0
    for i in range(A.shape[0]):
        found, moves = simulate(loop, A[i], F[i], K, B, TICKS)
        worst, ripple = max(worst, found), max(ripple, moves)
        if worst == UNSTABLE:
            break
    return worst, ripple


@kernel
def couple(loop, K, B, h, state):
    """The force f of the coupling [N] at the position h of the device [m]; moves the mass.

    `state`: position, velocity and displacement before of the mass [m, m/s, m].
    """
    if loop.resolution > 0.0:
        h = loop.resolution * np.rint(h / loop.resolution)
    e = h - state[0]
    f = K * e + B * (e - state[2]) / loop.period
    v = state[1] + loop.mobility * f
    state[0] += loop.period * (loop.part * v + (1.0 - loop.part) * state[1])
    state[1], state[2] = v, e
    return f


@kernel
def simulate(loop, A, F, K, B, ticks):
    """Simulate a device that is let go with a displacement and a velocity.

    Returns the verdict, and the ripple in the last window [m].
    """
    s, new, mass = np.zeros(4), np.zeros(4), np.zeros(3)
    delayed = np.zeros(loop.delay + 1)
    s[0] = s[2] = mass[2] = loop.amplitude
    s[1] = s[3] = loop.velocity
    window = ticks // WINDOWS
    peak, before = 0.0, 0.0
    lowest, highest = np.inf, -np.inf
    scale = (K + B / loop.period) * loop.amplitude
    for k in range(WINDOWS * window):
        if k % window == 0:
            before, peak = peak, 0.0
            lowest, highest = np.inf, -np.inf
        delayed[k % (loop.delay + 1)] = couple(loop, K, B, s[0], mass)
        f = delayed[(k + 1) % (loop.delay + 1)]  # of k - delay
        peak, lowest, highest = max(peak, abs(f)), min(lowest, s[0]), max(highest, s[0])
        if peak > _BEYOND * scale:
            return UNSTABLE, np.inf
        for i in range(4):
            new[i] = A[i, 0] * s[0] + A[i, 1] * s[1] + A[i, 2] * s[2] + A[i, 3] * s[3] - F[i] * f
        for i in range(4):
            s[i] = new[i]
    ripple = highest - lowest
    if peak <= 1e-12 * scale:
        return SETTLES, ripple
    if loop.resolution == 0.0:
        return (UNSTABLE if peak >= before else SETTLES), ripple
    if peak > (1.0 + STEADY) * before:
        return UNSTABLE, ripple
    return (OSCILLATES if peak > (1.0 - STEADY) * before and ripple > 0.01 * loop.resolution else SETTLES), ripple


@kernel
def _row_of_bursts(loop, theta, bursts, long, K, damping, verdict, power, crossings):
    """Fill the results of a stiffness with the adversarial hand."""
    found = 0
    for j in range(damping.shape[0]):
        verdict[j], power[j] = _worst_burst(loop, theta, bursts, long, K, damping[j], False)
        if j > 0 and verdict[j] != verdict[j - 1] and found < crossings.shape[0]:
            low, high = damping[j - 1], damping[j]
            for _ in range(BISECTIONS):
                middle = 0.5 * (low + high)
                if _worst_burst(loop, theta, bursts, long, K, middle, True)[0] == verdict[j - 1]:
                    low = middle
                else:
                    high = middle
            crossings[found] = 0.5 * (low + high)
            found += 1


@kernel
def _worst_burst(loop, theta, bursts, long, K, B, at_once):
    """Verdict and largest power; `at_once`: of the first burst that gains.

    `bursts` (n, BURST) are those at the frequencies theta (n,), `long` the envelope of a longer one.
    """
    if K == 0.0 and B == 0.0:
        return SETTLES, -np.inf
    most, largest, best = -np.inf, -np.inf, 0.0
    for i in range(theta.shape[0]):
        gained, power = gain(loop, K, B, bursts[i])
        largest = max(largest, power)
        if gained > most:
            most, best = gained, theta[i]
        if at_once and most > 0.0:
            return UNSTABLE, largest
    # the neighbours of the best in the sorted frequencies are at most so far from it
    found = _search(loop, K, B, best / 1.1, best * 1.1, envelope(loop.amplitude, BURST))
    most, largest = max(most, found[0]), max(largest, found[1])
    if _UNDECIDED < most <= 0.0:  # a resonance may be narrower than the burst
        width = 2.0 * math.pi / BURST
        found = _search(loop, K, B, found[2] - width, found[2] + width, long)
        most, largest = max(most, found[0]), max(largest, found[1])
    if loop.resolution > 0.0 and not at_once:
        largest = max(largest, dither(loop, K, B))
    return (UNSTABLE if most > 0.0 else SETTLES), largest


@kernel
def _search(loop, K, B, low, high, shape):
    """Largest gain, largest power and best frequency of bursts between two frequencies, by golden section search."""
    low, high = max(low, 1e-3), min(high, math.pi)
    golden = 0.5 * (math.sqrt(5.0) - 1.0)
    inner, outer = high - golden * (high - low), low + golden * (high - low)
    at_inner, at_outer = gain(loop, K, B, burst(inner, shape)), gain(loop, K, B, burst(outer, shape))
    most, largest = -np.inf, -np.inf
    for _ in range(_SEARCH):
        most, largest = max(most, at_inner[0], at_outer[0]), max(largest, at_inner[1], at_outer[1])
        if at_inner[0] > at_outer[0]:
            high, outer, at_outer = outer, inner, at_inner
            inner = high - golden * (high - low)
            at_inner = gain(loop, K, B, burst(inner, shape))
        else:
            low, inner, at_inner = inner, outer, at_outer
            outer = low + golden * (high - low)
            at_outer = gain(loop, K, B, burst(outer, shape))
    return most, largest, 0.5 * (low + high)


@kernel
def envelope(amplitude, ticks):
    """The largest displacement in each tick of a burst, A w(k) (ticks,) [m]: a window that begins and ends at rest."""
    shape = np.empty(ticks)
    for k in range(ticks):
        shape[k] = amplitude * math.sin(math.pi * (k + 1) / ticks) ** 2
    return shape


@kernel
def burst(theta, shape):
    """Positions of the hand (ticks,) [m] in a burst at the frequency theta [rad] with an envelope (ticks,) [m]."""
    ticks = shape.shape[0]
    middle = ticks // 2 - 1
    path = np.empty(ticks)
    for k in range(middle, ticks):
        wave = math.cos(theta * (k - middle))
        path[k] = shape[k] * wave
        if 2 * middle - k >= 0:
            path[2 * middle - k] = shape[2 * middle - k] * wave
    return path


@kernel
def gain(loop, K, B, path):
    """Energy gained by the hand along positions (ticks,) [m]: as a part of the dissipated one, and as mean power [W].

    Infinite where the coupling's force grows while the device is held at rest afterwards.
    """
    ticks = path.shape[0]
    mass, delayed = np.zeros(3), np.zeros(loop.delay + 1)
    T, gained, lost = loop.period, 0.0, 0.0
    here, f, before, after = 0.0, 0.0, 0.0, 0.0
    rest = ticks // 2
    scale = (K + B / T) * loop.amplitude
    for k in range(ticks + rest):
        delayed[k % (loop.delay + 1)] = couple(loop, K, B, here, mass)
        f = delayed[(k + 1) % (loop.delay + 1)]  # of k - delay
        if abs(f) > _BEYOND * scale:
            return np.inf, np.inf
        if k < ticks:
            step = path[k] - here
            gained -= f * step  # the device pushes with -f
            lost += loop.device_damping * step * step / T
            here = path[k]
        elif k < ticks + rest // 2:
            before = max(before, abs(f))
        else:
            after = max(after, abs(f))
    if after > before and after > 1e-9 * scale:
        return np.inf, np.inf
    return (gained - lost) / lost, (gained - lost) / (ticks * T)


@kernel
def dither(loop, K, B):
    """The largest mean power [W] of moving to and fro across a step of the resolution.

    With n = 2 delay + 1 ticks each way, the force of a step up arrives when the way down begins. Of a wall that gives
    (K + 2 B/(n T))^2 resolution^2 / (16 b), by (K + 2 B/(n T)) resolution T / (4 b) in each tick.
    """
    T, b, n = loop.period, loop.device_damping, 2 * loop.delay + 1
    most = -np.inf
    for part in (1.0, 0.7, 0.4):  # of that displacement: behind a mass the force is less
        size = part * (K + 2.0 * B / (n * T)) * loop.resolution * T / (4.0 * b)
        mass, delayed = np.zeros(3), np.zeros(loop.delay + 1)
        here, gained, ticks = 0.5 * (loop.resolution - n * size), 0.0, 2 * n * (BURST // (2 * n))
        for k in range(2 * ticks):
            delayed[k % (loop.delay + 1)] = couple(loop, K, B, here, mass)
            f = delayed[(k + 1) % (loop.delay + 1)]
            step = size if k // n % 2 == 0 else -size
            if k >= ticks:
                gained -= f * step + b * step * step / T
            here += step
        most = max(most, gained / (ticks * T))
    return most
