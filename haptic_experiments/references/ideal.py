"""The ideal: one rigid planar body among rigid, frictionless, fixed half-planes, simulated event by event.

This is the motion in a perfectly rigid world under a given wrench (the "ideal" of THESIS 4.5). It is a reference for
the contact code of the servo loop and shares no code with it. Between events the motion is integrated with the resting
contacts held on their walls. Events are

- an impact, when a vertex reaches a wall: Newton's law at all touching vertices at once, without pulling;
- an opening, when a wall would have to pull to keep a vertex;
- a breakpoint, where the wrench is not smooth.

Notation: q = (x, y, theta) is the pose of the body in the world, at its centre of mass [m, m, rad], and v its rate; the
wrench is (fx, fy, tau) at the centre of mass in world axes [N, N, N m]. A *pair* is a vertex r and a wall, with the
separation s = n . (c + R r) - offset, where c = (x, y) and R is the rotation by theta. Its rate is J v, with
J = (nx, ny, n . R r turned by 90 degrees). D = diag(mass, mass, inertia).

The accuracy is limited by the constants below and the tolerances of the integrator. A wall is one-sided and unbounded,
so only vertices can touch it. Without friction the motion and the total wrench of the walls are unique; the
distribution of this wrench over dependent contacts (four in a corner) is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:  # scipy.integrate takes long to import: not for commands and nodes that simulate no ideal
    from scipy.integrate import DenseOutput, OdeSolution

Wrench = Callable[[float], ArrayLike]

TOUCH = 1e-12  # [m] a pair nearer than this touches; one that is deeper has met its wall
REST_SPEED = 1e-6  # [m/s] a touching pair that is slower comes to rest if forces hold it: Zeno's bounces end
REST_FLIGHT = 1e-6  # [s] so does one whose next flight would be shorter than this
OPENING = 1e-10  # [m/s^2] a resting pair that accelerates away faster, though walls push it only, is not held
MAX_STEP = 0.05  # [s] of the integrator; a shorter pulse of the wrench must be announced by breakpoints
MAX_TURN = 0.1  # [rad] between two looks at the separations
MAX_EVENTS = 20_000  # impacts and openings of a simulation
MAX_ROUNDS = 50  # of an impact that makes other touching pairs collide; then it is plastic
RANK = 1e-9  # relative singular value below which contacts depend on each other


@dataclass(frozen=True, eq=False)
class PlanarBody:
    """A rigid body in the plane.

    Attributes:
        mass: [kg], > 0.
        inertia: about the centre of mass [kg m^2], > 0.
        vertices: of the convex polygon, about the centre of mass in body axes [m], (n, 2), in any order: only
            the convex hull of the points can touch a half-plane.

    Raises:
        ValueError: a value is not acceptable.
    """

    mass: float
    inertia: float
    vertices: np.ndarray

    def __post_init__(self) -> None:
        _positive("body.mass", self.mass, "kg")
        _positive("body.inertia", self.inertia, "kg m^2")
        vertices = np.array(self.vertices, float)
        if vertices.ndim != 2 or vertices.shape[1] != 2 or not len(vertices):
            raise ValueError(f"body.vertices: shape = {vertices.shape}: must be (n, 2) with n >= 1")
        for i, vertex in enumerate(vertices):
            _finite(f"body.vertices[{i}]", vertex, "m", 2)
        vertices.flags.writeable = False
        object.__setattr__(self, "vertices", vertices)


@dataclass(frozen=True, eq=False)
class Wall:
    """A fixed, rigid, frictionless half-plane: points p are free where normal . p >= offset.

    Attributes:
        normal: unit normal towards the free side, in the world, (2,).
        offset: [m].

    Raises:
        ValueError: a value is not acceptable.
    """

    normal: np.ndarray
    offset: float

    def __post_init__(self) -> None:
        normal = _finite("wall.normal", self.normal, "", 2)
        length = math.hypot(*normal)
        if not abs(length - 1.0) <= 1e-9:
            raise ValueError(f"wall.normal: length = {length:.12g}: must be 1")
        if not math.isfinite(self.offset):
            raise ValueError(f"wall.offset = {self.offset} m: must be finite")
        normal /= length
        normal.flags.writeable = False
        object.__setattr__(self, "normal", normal)


@dataclass(frozen=True, eq=False)
class Impact:
    """One collision, resolved at all touching pairs at once.

    Attributes:
        time: [s]. Several impacts may have the same time: one may make other touching pairs collide.
        contacts: the pairs (vertex, wall) that took an impulse, as indices.
        impulses: their normal impulses [N s], all > 0; one choice where the contacts depend on each other.
        impulse: of the walls on the body, at its centre of mass in the world [N s, N s, N m s], (3,); unique.
        kinetic_energy_before, kinetic_energy_after: [J].
    """

    time: float
    contacts: tuple[tuple[int, int], ...]
    impulses: tuple[float, ...]
    impulse: np.ndarray
    kinetic_energy_before: float
    kinetic_energy_after: float


@dataclass(frozen=True, eq=False)
class _Phase:
    """Motion between two events, while the same pairs are held."""

    start: float
    held: np.ndarray  # indices of pairs
    wrench: Callable[[float], np.ndarray]
    solution: OdeSolution


@dataclass(frozen=True, eq=False)
class IdealMotion:
    """A simulated motion, to be sampled at any time from 0 to `duration` [s].

    Attributes:
        duration: [s].
        impacts: in the order of time.
    """

    duration: float
    impacts: list[Impact]
    _scene: _Scene
    _phases: list[_Phase]

    def sample(self, times: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Poses (x, y, theta) [m, m, rad] and velocities [m/s, m/s, rad/s] at n times [s], (n, 3) each.

        At the time of an impact, the velocity is the one after it.

        Raises:
            ValueError: a time is outside the motion.
        """
        q, v = np.empty((2, np.size(times), 3))
        for phase, chosen, now in self._by_phase(times):
            q[chosen], v[chosen] = self._state(phase, now)
        return q, v

    def contact_wrench(self, times: ArrayLike) -> np.ndarray:
        """Wrench of the walls on the body between impacts [N, N, N m], at n times [s], (n, 3).

        At the centre of mass, in world axes. Where it jumps, the value after the jump.

        Raises:
            ValueError: a time is outside the motion.
        """
        wrench = np.zeros((np.size(times), 3))
        for phase, chosen, now in self._by_phase(times):
            if len(phase.held):
                given = np.array([phase.wrench(t) for t in now])
                a = self._scene.acceleration(*self._state(phase, now), given, phase.held)
                wrench[chosen] = self._scene.inertia * a - given
        return wrench

    def _state(self, phase: _Phase, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        y = phase.solution(times)
        return self._scene.on_walls(y[:3].T, y[3:6].T, phase.held)

    def _by_phase(self, times: ArrayLike) -> Iterator[tuple[_Phase, np.ndarray, np.ndarray]]:
        times = np.ravel(np.asarray(times, float))
        outside = times[~((times >= 0.0) & (times <= self.duration))]
        if outside.size:
            raise ValueError(f"time = {outside[0]} s: must be from 0 to {self.duration} s")
        index = np.searchsorted([phase.start for phase in self._phases], times, side="right") - 1
        for i in np.unique(index):
            chosen = np.flatnonzero(index == i)
            yield self._phases[i], chosen, times[chosen]


def simulate(
    body: PlanarBody,
    walls: Sequence[Wall],
    wrench: Wrench,
    duration: float,
    restitution: float,
    q0: ArrayLike = (0.0, 0.0, 0.0),
    v0: ArrayLike = (0.0, 0.0, 0.0),
    breakpoints: ArrayLike = (),
    rtol: float = 1e-11,
    atol: float = 1e-13,
) -> IdealMotion:
    """Simulate the body from (q0, v0) under `wrench(t)`.

    Args:
        body: what moves.
        walls: what it cannot enter.
        wrench: of time [s], (fx, fy, tau) at the centre of mass in the world [N, N, N m]; finite.
        duration: [s], > 0.
        restitution: e of Newton's law, from 0 (plastic) to 1 (elastic).
        q0: pose (x, y, theta) at time 0 [m, m, rad], outside the walls.
        v0: its rate [m/s, m/s, rad/s].
        breakpoints: times [s] where the wrench jumps or bends; there only its limits from both sides count.
        rtol, atol: tolerances of the integrator, relative and absolute (SI units).

    Raises:
        ValueError: an argument is not acceptable, or the body starts inside a wall.
        RuntimeError: more than MAX_EVENTS impacts and openings, or the integrator fails.
    """
    _positive("duration", duration, "s")
    _positive("rtol", rtol, "")
    _positive("atol", atol, "")
    if not 0.0 <= restitution <= 1.0:
        raise ValueError(f"restitution = {restitution}: must be from 0 to 1")
    q, v = _finite("q0", q0, "m, m, rad", 3), _finite("v0", v0, "m/s, m/s, rad/s", 3)
    knots = _finite("breakpoints", breakpoints, "s")
    knots = np.unique(np.concatenate([[0.0, duration], knots[(knots > 0.0) & (knots < duration)]]))
    scene = _Scene(body, walls)
    for (vertex, wall), gap in zip(scene.pairs, scene.gaps(q), strict=True):
        if gap < -TOUCH:
            raise ValueError(f"q0: depth of vertex {vertex} in wall {wall} = {-gap:.6g} m: must be 0")

    impacts: list[Impact] = []
    phases: list[_Phase] = []
    events = 0
    for start, end in pairwise(knots.tolist()):
        smooth = _between(wrench, start, end)
        t = start
        while t < end:
            if events > MAX_EVENTS:
                raise RuntimeError(f"events = {events} at t = {t:.9g} s: must be <= MAX_EVENTS = {MAX_EVENTS}")
            q, v, held = scene.settle(t, q, v, smooth(t), restitution, impacts)
            t, q, v, solution = scene.advance(t, end, q, v, smooth, held, rtol, atol)
            if solution is not None:
                phases.append(_Phase(float(solution.t_min), held, smooth, solution))
            events += t < end
    return IdealMotion(duration, impacts, scene, phases)


class _Scene:
    """All pairs of a vertex and a wall. Methods on q, v and wrenches take (3,) or (n, 3)."""

    def __init__(self, body: PlanarBody, walls: Sequence[Wall]):
        self.pairs = [(i, j) for i in range(len(body.vertices)) for j in range(len(walls))]
        self.inertia = np.array([body.mass, body.mass, body.inertia])  # diagonal of D
        self._root = np.sqrt(self.inertia)
        self._arms = np.array([body.vertices[i] for i, _ in self.pairs]).reshape(-1, 2)
        self._normals = np.array([walls[j].normal for _, j in self.pairs]).reshape(-1, 2)
        self._offsets = np.array([walls[j].offset for _, j in self.pairs])

    def gaps(self, q: np.ndarray) -> np.ndarray:
        """Separation of each pair [m], (..., pairs)."""
        return q[..., :2] @ self._normals.T + self._arms_in_wall_axes(q)[0] - self._offsets

    def rates(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Rate J v of each separation [m/s], (..., pairs)."""
        return v[..., :2] @ self._normals.T + v[..., 2:] * self._arms_in_wall_axes(q)[1]

    def acceleration(self, q: np.ndarray, v: np.ndarray, wrench: np.ndarray, held: np.ndarray) -> np.ndarray:
        """Acceleration with J a + dJ/dt v = 0 at the held pairs, dependent or not (as in THESIS 4.36)."""
        a = wrench / self._root
        if len(held):
            g, bias = self._constraints(q, v, held)
            a = a - _times(np.linalg.pinv(g, RANK), _times(g, a) + bias)
        return a / self._root

    def on_walls(self, q: np.ndarray, v: np.ndarray, held: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest state, in the metric of D, with separations and rates of the held pairs zero.

        It takes away the drift of the integrator, 1e-12 m or so: the second Newton step is exact to rounding.
        """
        if not len(held):
            return q, v
        for _ in range(2):
            g, _ = self._constraints(q, v, held)
            q = q - _times(np.linalg.pinv(g, RANK), self.gaps(q)[..., held]) / self._root
        g, _ = self._constraints(q, v, held)
        return q, v - _times(np.linalg.pinv(g, RANK), self.rates(q, v)[..., held]) / self._root

    def settle(
        self,
        time: float,
        q: np.ndarray,
        v: np.ndarray,
        wrench: np.ndarray,
        restitution: float,
        impacts: list[Impact],
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Resolve the impacts of the touching pairs and append them; state and held pairs after them."""
        touching = np.flatnonzero(self.gaps(q) <= TOUCH)
        if not len(touching):
            return q, v, touching
        q, _ = self.on_walls(q, v, touching)
        g, bias = self._constraints(q, v, touching)
        rest = np.maximum(REST_SPEED, -0.5 * REST_FLIGHT * (g @ (wrench / self._root) + bias))
        rounds = 0
        while np.any(self.rates(q, v)[touching] < -rest):
            impact = self._collide(time, q, v, touching, restitution if rounds < MAX_ROUNDS else 0.0)
            v = v + impact.impulse / self.inertia
            impacts.append(impact)
            rounds += 1

        # Slow pairs come to rest if forces hold them: 0 <= lambda, 0 <= J a + dJ/dt v, one of the two zero.
        # The velocity, whose normal parts there are below `rest`, is projected in the metric of D on J v = 0
        # (held pairs) and J v >= 0 (other touching pairs): a convex cone, so the kinetic energy cannot rise.
        slow = touching[np.abs(self.rates(q, v)[touching]) <= rest]
        held = slow[self._openings(q, v, wrench, slow) <= OPENING]
        g, _ = self._constraints(q, v, touching)
        g = np.concatenate([g, -g[np.isin(touching, held)]])
        v = v + g.T @ _non_pulling(g, self._root * v) / self._root
        return q, v, held

    def advance(
        self,
        start: float,
        end: float,
        q: np.ndarray,
        v: np.ndarray,
        wrench: Callable[[float], np.ndarray],
        held: np.ndarray,
        rtol: float,
        atol: float,
    ) -> tuple[float, np.ndarray, np.ndarray, OdeSolution | None]:
        """Integrate with the pairs `held` to `end` or the first event; time, q, v, and None if it is at once.

        The integrator also has the integral of the wrench, so that its step follows what the walls take.
        """
        from scipy.integrate import DOP853, OdeSolution

        def rate(t: float, y: np.ndarray) -> np.ndarray:
            now = wrench(t)
            return np.concatenate([y[3:6], self.acceleration(y[:3], y[3:6], now, held), now])

        y = np.concatenate([q, v, np.zeros(3)])
        # A free body can begin with the longest step: its acceleration does not depend on its state.
        step = None if len(held) else min(MAX_STEP, end - start)
        solver = DOP853(rate, start, y, end, rtol=rtol, atol=atol, max_step=MAX_STEP, first_step=step)
        times, pieces, event = [start], [], None
        while solver.status == "running" and event is None:
            message = solver.step()
            if solver.status == "failed":
                raise RuntimeError(f"integrator at t = {solver.t:.9g} s: {message}")
            pieces.append(solver.dense_output())
            event = self._first_event(pieces[-1], wrench, held)
            times.append(solver.t if event is None else event)
        if event is not None:
            if event <= times[-2]:  # at the start of the last step
                times.pop()
                pieces.pop()
            if not pieces:
                return start, q, v, None
        solution = OdeSolution(times, pieces)
        y = solution(times[-1])
        q, v = self.on_walls(y[:3], y[3:6], held)
        return float(times[-1]), q, v, solution

    def _arms_in_wall_axes(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """n . R r and n . (R r turned by 90 degrees) [m], (..., pairs) each."""
        c, s = np.cos(q[..., 2:]), np.sin(q[..., 2:])
        x, y = c * self._arms[:, 0] - s * self._arms[:, 1], s * self._arms[:, 0] + c * self._arms[:, 1]
        nx, ny = self._normals.T
        return nx * x + ny * y, ny * x - nx * y

    def _constraints(self, q: np.ndarray, v: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """G = J D^-1/2, (..., pairs, 3), and dJ/dt v [m/s^2], (..., pairs).

        With G, the metric of D is the usual one: G a = J D^-1/2 a, and A = J D^-1 J^T = G G^T.
        """
        along, across = (arms[..., pairs] for arms in self._arms_in_wall_axes(q))
        nx, ny = np.broadcast_arrays(*self._normals[pairs].T, across)[:2]
        return np.stack([nx, ny, across], axis=-1) / self._root, -(v[..., 2:] ** 2) * along

    def _openings(self, q: np.ndarray, v: np.ndarray, wrench: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """Normal accelerations of resting pairs when the walls push but do not pull [m/s^2], (pairs,)."""
        if not len(pairs):
            return np.empty(0)
        g, bias = self._constraints(q, v, pairs)
        a = wrench / self._root
        a = a + g.T @ _non_pulling(g, a + np.linalg.pinv(g, RANK) @ bias)
        return g @ a + bias

    def _collide(self, time: float, q: np.ndarray, v: np.ndarray, touching: np.ndarray, restitution: float) -> Impact:
        """Newton's law at all touching pairs at once, without pulling (THESIS 4.28 and 4.36, errata 4).

        With b = J v- and A = J D^-1 J^T, find p >= 0 with J v+ + e b >= 0, one of the two zero at each pair:

            0 <= p,    0 <= A p + (1 + e) b,    p . (A p + (1 + e) b) = 0.

        These are the conditions for p >= 0 to minimise |G^T p + (1 + e) D^1/2 v-|^2, with G = J D^-1/2.
        Where no contact has to pull, this is 4.28, p = -(1 + e) A^-1 b, and with a pseudo-inverse 4.36.

        Energy: dKE = p . b + 1/2 p . A p, and complementarity gives p . A p = -(1 + e) p . b. Therefore
        dKE = (1 - e)/2 p . b, and p . b <= 0, as A >= 0: energy never rises, whatever the signs of the b_i,
        and is kept for e = 1. (Where 4.28 holds: dKE = -(1 - e^2)/2 b . A^-1 b, which is 4.27 with errata 1.)

        Penetration: J v+ >= -e b, so no pair with b <= 0 approaches afterwards. One with b > 0 may, if
        another pair's impulse turns it back: then it collides in the next round, at the same time.
        """
        g, _ = self._constraints(q, v, touching)
        p = _non_pulling(g, (1.0 + restitution) * self._root * v)
        pushed = p > 1e-12 * p.max(initial=0.0)
        impulse = self._root * (g.T @ p)
        after = v + impulse / self.inertia
        return Impact(
            time=time,
            contacts=tuple(self.pairs[i] for i in touching[pushed]),
            impulses=tuple(p[pushed].tolist()),
            impulse=impulse,
            kinetic_energy_before=0.5 * float(v @ (self.inertia * v)),
            kinetic_energy_after=0.5 * float(after @ (self.inertia * after)),
        )

    def _first_event(self, state: DenseOutput, wrench: Callable[[float], np.ndarray], held: np.ndarray) -> float | None:
        """Time of the first impact or opening within a step of the integrator, given its dense output."""
        start, end = state.t_min, state.t_max
        turn = (end - start) * max(abs(state(start)[5]), abs(state(end)[5]))
        times = np.linspace(start, end, 9 + int(turn / MAX_TURN))
        y = state(times)
        landing = self._first_landing(state, times, y, held)

        def kept(t: float) -> float:
            y = state(t)
            # At twice the limit of `settle`, so that rounding cannot hold the pair again.
            return 2.0 * OPENING - self._openings(y[:3], y[3:6], wrench(t), held).max()

        if len(held):
            before = times[0]
            for t in times:
                if kept(t) < 0.0:
                    opening = _root(kept, before, t)
                    return opening if landing is None else min(opening, landing)
                if landing is not None and t >= landing:
                    break
                before = t
        return landing

    def _first_landing(self, state: DenseOutput, times: np.ndarray, y: np.ndarray, held: np.ndarray) -> float | None:
        """Time at which the first pair that is not held reaches its wall.

        Between two looks, as the body turns by less than MAX_TURN, a separation has at most one extremum;
        so a root is searched for in pieces on which it only rises or only falls.
        """
        from scipy.optimize import brentq

        q, v = y[:3].T, y[3:6].T
        gaps, rates = self.gaps(q), self.rates(q, v)
        dips = (rates[:-1] < 0.0) & (rates[1:] > 0.0)
        dips &= gaps[:-1] + rates[:-1] * np.diff(times)[:, None] < -TOUCH  # its tangent lies below it
        near = dips | (gaps[1:] < -TOUCH)
        near[:, held] = False
        for k in np.flatnonzero(near.any(axis=1)):
            landings = []
            for pair in np.flatnonzero(near[k]).tolist():

                def gap(t: float, pair: int = pair, above: float = 0.0) -> float:
                    return self.gaps(state(t)[:3])[pair] + above

                def rate(t: float, pair: int = pair) -> float:
                    y = state(t)
                    return self.rates(y[:3], y[3:6])[pair]

                ends = [times[k], times[k + 1]]
                if rates[k, pair] * rates[k + 1, pair] < 0.0:
                    ends.insert(1, brentq(rate, *ends, xtol=1e-15))
                for a, b in pairwise(ends):
                    if gap(b) < -TOUCH:
                        # a piece that starts on the wall, within rounding, ends TOUCH deep
                        landings.append(_root(partial(gap, above=0.0 if gap(a) > 0.0 else TOUCH), a, b))
                        break
            if landings:
                return min(landings)
        return None


def _non_pulling(g: np.ndarray, motion: np.ndarray) -> np.ndarray:
    """The p >= 0 that minimises |g^T p + motion|, (contacts,): contacts that push stop what they can of it.

    The active-set method of Lawson and Hanson (Solving Least Squares Problems, 1974, chapter 23); it pushes
    with independent rows of g only. SciPy's nnls is not used: its answer may be no minimum (scipy issue
    25389; with 1.17.1, a body at rest between opposite walls was set in motion).

    Raises:
        RuntimeError: it does not end.
    """
    p = np.zeros(len(g))
    pushing = np.zeros(len(g), bool)
    enough = 1e-13 * np.linalg.norm(motion) * np.linalg.norm(g)  # a dependent row is left with rounding only
    for _ in range(10 + 3 * len(g)):
        approach = np.where(pushing, -np.inf, -g @ (g.T @ p + motion))
        if not len(g) or approach.max() <= enough:
            return p
        new = approach.argmax()
        pushing[new] = True
        while True:
            aim = np.zeros(len(g))
            aim[pushing] = np.linalg.lstsq(g[pushing].T, -motion, rcond=None)[0]
            if aim[new] <= 0.0:  # its approach was rounding
                return p
            pulling = pushing & (aim <= 0.0)
            if not pulling.any():
                break
            p += min(p[pulling] / (p[pulling] - aim[pulling])) * (aim - p)  # as far as none pulls
            pushing &= p > 1e-13 * p.max()
            p[~pushing] = 0.0
        p = aim
    raise RuntimeError(f"contacts = {len(g)}: no non-pulling solution found")


def _times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Matrix-vector product over leading dimensions."""
    return (matrix @ vector[..., None])[..., 0]


def _root(function: Callable[[float], float], a: float, b: float) -> float:
    """A root of a function that is negative at b; a if it is not positive there."""
    from scipy.optimize import brentq

    return a if function(a) <= 0.0 else float(brentq(function, a, b, xtol=1e-15, rtol=1e-15))


def _between(wrench: Wrench, start: float, end: float) -> Callable[[float], np.ndarray]:
    """The wrench between two breakpoints, at which it takes its limits from inside."""
    first, last = math.nextafter(start, math.inf), math.nextafter(end, -math.inf)

    def inside(t: float) -> np.ndarray:
        t = min(max(t, first), last)
        return _finite(f"wrench({t:.9g} s)", wrench(t), "N, N, N m", 3)

    return inside


def _positive(name: str, value: float, unit: str) -> None:
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} = {value} {unit}".rstrip() + ": must be finite and > 0")


def _finite(name: str, values: ArrayLike, unit: str, count: int | None = None) -> np.ndarray:
    array = np.array(values, float)
    if count is not None and array.shape != (count,):
        raise ValueError(f"{name}: shape = {array.shape}: must be ({count},)")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} = {array.tolist()} {unit}".rstrip() + ": must be finite")
    return array
