"""Identification of a device from a recorded motion: an output-error estimate with confidence intervals.

The motion along one axis is cut into pieces of PIECE seconds, each with a state of its own: position and velocity at
its start, and a constant force. So a slow force that is not in the model (a cable, a remainder of gravity, a hand that
wanders) does no harm. The parameters that all pieces share (`motion.Model`) minimise the sum of the squares of

    e = measured position - position of the model

by the Levenberg-Marquardt method; the states of the pieces are eliminated from the normal equations. Only
the position is compared, of which the noise is known to be that of the sensor: a velocity by differences is not used.
The initial guess is the least-squares solution of the equation of motion, integrated twice, for each whole delay.

With J the derivatives of the positions by the parameters, after the elimination, and e the residuals, the covariance is

    (J^T J)^-1 S (J^T J)^-1,   S = sum over lags l of (1 - |l|/L) sum_t J_t^T e_t e_(t-l) J_(t-l)

(Newey and West, Econometrica 55, 1987), as rounding errors of encoders, and what the model leaves out, are not white.
Where a variance is smaller than that of white residuals, the latter is taken. The force of ticks that were not
recorded is taken to lie between its neighbours; what such a line misses elsewhere adds to S, for each gap.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haptic_control.identification.motion import STIFFEST, Model, move
from haptic_sim.parameters import ParameterError

PIECE = 0.5  # [s]
FEWEST = 6  # pieces
LATEST = 0.05  # longest delay that is looked for [s]
CONFIDENT = 1.96  # standard deviations of an interval that has the value with a probability of 95 %
EXPLAINED = 0.9  # least part of the motion within the pieces
LAG = 0.05  # longest lag of correlated residuals [s]
NOISES = 5.0  # least motion over the residuals
UNKNOWN = 0.5  # half-width of the interval of the mass, relative, beyond which it is not known
STUCK = 0.5  # part of the time in which the device may be at rest
HELD = 0.7  # residuals with a spring over those without, below which the device was held
ROUNDS = 6  # of descents from neighbouring states
WORTH = 1e-4  # relative gain of a round that is worth another
_STEPS = 60
_SETTLED = 1e-9  # relative change of the sum of squares
_FINEST = 1e-6  # relative half-width that the method resolves


class Estimate(NamedTuple):
    """A value and the half-width of its 95 % confidence interval."""

    value: float
    half_width: float

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.value - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.value + self.half_width


class Identified(NamedTuple):
    """A device, or a device and the hand that holds it, along one axis; of a rotation kg m^2, N m s/rad, ... instead.

    Attributes:
        mass: [kg]; damping: [N s/m]; friction: dry [N]; stiffness: [N/m], 0 without a hand.
        delay: from a command to its effect in the measured position [s]; -T/2 of a device that is integrated by
            semi-implicit Euler, which is that much ahead of a held force.
        noise: standard deviation of the measured position [m].
        explained: part of the motion within the pieces that the model explains; time: of the motion that was used [s].
    """

    mass: Estimate
    damping: Estimate
    friction: Estimate
    delay: Estimate
    stiffness: Estimate
    noise: Estimate
    explained: float
    time: float


def identify(
    position: np.ndarray,
    force: np.ndarray,
    rate: float,
    *,
    held: bool = False,
    window: tuple[int, int] | None = None,
) -> Identified:
    """The device that moved like this.

    Args:
        position: measured at each tick (n,) [m] or [rad]; NaN where it was not.
        force: that is known to have acted on it, held over each tick (n,) [N] or [N m].
        rate: of the servo [Hz].
        held: a hand holds it, whose stiffness is to be found.
        window: the ticks from which to find it, from the first to before the second; None: those with a force.

    Raises:
        ParameterError: the motion does not tell; says why and what to do.
    """
    position, force = np.asarray(position, float), np.asarray(force, float)
    if window is None:
        acting = np.flatnonzero(force)
        window = (int(acting[0]), int(acting[-1]) + 1) if acting.size else (0, 0)
    if held:
        return _Problem(position, force, rate, window, held=True).fit()
    free, spring = (_attempt(_Problem(position, force, rate, window, held=one)) for one in (False, True))
    if isinstance(spring, Identified) and (isinstance(free, ParameterError) or _is_held(free, spring)):
        k = spring.stiffness.value
        raise ParameterError(
            [
                f"the device moves as if a spring of {k:.3g} N/m or N m/rad held it: let it go, or give this trial as "
                "the one with a hand"
            ]
        )
    if isinstance(free, ParameterError):
        raise free
    return free


def _attempt(problem: _Problem) -> Identified | ParameterError:
    try:
        return problem.fit()
    except ParameterError as error:
        return error


def _is_held(free: Identified, spring: Identified) -> bool:
    """Whether a spring explains a motion much better than none."""
    k = spring.stiffness
    return spring.noise.value < HELD * free.noise.value and k.value > 3.0 * k.half_width


class _Problem:
    """Least squares of one motion. Parameters are in the order of `Model`; a free device has no stiffness."""

    def __init__(self, position: np.ndarray, force: np.ndarray, rate: float, window: tuple[int, int], held: bool):
        self.rate, self.held, self.force = rate, held, force
        self.length = max(20, round(PIECE * rate))
        first, last = window
        pieces = (last - first) // self.length
        if pieces < FEWEST:
            raise ParameterError(
                [
                    f"{(last - first) / rate:.3g} s of motion under a known force: at least {FEWEST * PIECE:g} s are "
                    "needed; record a longer trial"
                ]
            )
        self.starts = first + self.length * np.arange(pieces)
        x = position[first : first + pieces * self.length].reshape(pieces, -1)
        self.known = np.isfinite(x)
        if np.count_nonzero(self.known) < 0.95 * x.size:
            raise ParameterError(["more than 5 % of the ticks were not recorded: repeat it on a quieter machine"])
        ticks = np.arange(x.size)
        self.x = np.interp(ticks, ticks[self.known.ravel()], x[self.known]).reshape(x.shape)
        self.gaps = _gaps(~np.isfinite(position))
        self.origin = float(np.mean(self.x))
        self.x -= self.origin
        self.size = float(np.std(force[first:last]))
        powers = np.linspace(-1.0, 1.0, self.length)[:, None] ** np.arange(3)
        self.parabolas = np.linalg.qr(powers)[0]  # what a piece does by its own state, but for damping
        self.wander = float(np.sqrt(np.mean(self.level(self.x) ** 2)))  # motion within the pieces
        if self.wander == 0.0 or self.size == 0.0:
            raise ParameterError(["the device did not move: it needs a force that changes, above its friction"])

    def level(self, columns: np.ndarray) -> np.ndarray:
        """Columns (pieces, ticks) without the parabola of each piece."""
        return np.asarray(columns - columns @ self.parabolas @ self.parabolas.T)

    def guess(self) -> np.ndarray:
        """Parameters by least squares of the equation of motion, integrated twice."""
        T = 1.0 / self.rate
        half = max(1, round(0.004 * self.rate))
        flat = self.x.ravel()
        rise = np.zeros_like(flat)
        rise[half:-half] = flat[2 * half :] - flat[: -2 * half]
        sign = np.sign(rise).reshape(self.x.shape)
        columns = [
            self.x,
            T * (np.cumsum(self.x, axis=1) - 0.5 * self.x - 0.5 * self.x[:, :1]),
            self._twice(sign),
        ]
        if self.held:
            columns.append(self._twice(self.x))
        A = np.stack([self.level(column).ravel() for column in columns], axis=1)
        scale = np.linalg.norm(A, axis=0)
        scale[scale == 0.0] = 1.0
        Q, R = np.linalg.qr(A / scale)
        best, delay, found = math.inf, 0, np.zeros(A.shape[1])
        for d in range(round(LATEST * self.rate) + 1):
            ticks = self.starts[:, None] + np.arange(self.length) - d
            late = np.where(ticks >= 0, self.force[np.maximum(ticks, 0)], 0.0)
            y = self.level(self._twice(late)).ravel()
            solution = np.linalg.lstsq(R, Q.T @ y, rcond=1e-12)[0] / scale
            error = float(np.linalg.norm(y - A @ solution)) / max(abs(solution[0]), 1e-300)
            if solution[0] > 0.0 and error < best:
                best, delay, found = error, d, solution
        if found[0] <= 0.0:
            raise ParameterError(
                [
                    "the device does not move as a mass under the known force: raise the force above its friction, or "
                    "remove what else acts on it"
                ]
            )
        mass, damping, friction = found[:3]
        stiffness = [found[3]] if self.held else []
        damping = min(max(damping, 0.0), 0.9 * STIFFEST * mass * self.rate)
        return np.array([mass, damping, max(friction, 0.0), delay, *stiffness])

    def _twice(self, values: np.ndarray) -> np.ndarray:
        """Integral of the integral of what is held over each tick of a piece."""
        T = 1.0 / self.rate
        first = T * (np.cumsum(values, axis=1) - values)  # at the beginning of each tick
        second = T * (np.cumsum(first, axis=1) - first) + 0.5 * T * first
        return np.asarray(second)

    def simulate(
        self,
        theta: np.ndarray,
        states: np.ndarray,
        pieces: slice = slice(None),
        force: np.ndarray | None = None,
    ) -> np.ndarray:
        """Positions (pieces, ticks) [m] of parameters, and of the states (3, pieces) as `move` has them.

        Of some pieces, or under another force, if they are given.
        """
        force = self.force if force is None else force
        model = np.zeros(len(Model._fields))
        model[: theta.size] = theta
        out = np.empty(self.x[pieces].shape)
        move(model, force, 1.0 / self.rate, self.starts[pieces], np.ascontiguousarray(states[:, pieces]), out)
        return out

    def _unknown(self, theta: np.ndarray, states: np.ndarray, J: np.ndarray) -> np.ndarray:
        """J^T d (gaps, n), with d what the likely error of the force in a gap does to the positions."""
        force, reference = self.force.copy(), self.simulate(theta, states)
        likely = {length: _between(force, length) for length in {last - first for first, last in self.gaps}}
        found = np.zeros((len(self.gaps), theta.size))
        for row, (first, last) in zip(found, self.gaps, strict=True):
            felt = np.array([first + theta[3] - 1.0, last + theta[3] + 1.0]) - self.starts[0]  # as ticks of the pieces
            pieces = slice(*np.clip(np.floor(felt / self.length).astype(int) + [0, 1], 0, len(self.starts)))
            force[first:last] += likely[last - first]
            moved = self.simulate(theta, states, pieces, force) - reference[pieces]
            force[first:last] = self.force[first:last]
            row[:] = np.einsum("pt,ptn->n", np.where(self.known[pieces], moved, 0.0), J[pieces])
        return found

    def fit(self) -> Identified:
        """The parameters of least squares.

        Raises:
            ParameterError: the motion does not tell them.
        """
        theta = self.guess()
        states, error = self._best(theta, self._starts())
        for _ in range(ROUNDS):
            theta, states, error = self._descend(theta, states, error)
            before = np.sum(error**2)
            states, error = self._best(theta, [states, *self._neighbours(theta, states)])
            if np.sum(error**2) > (1.0 - WORTH) * before:
                break
        found = self._conclude(theta, states, error)
        self._check(found, self.simulate(theta, states))
        return found

    def _descend(
        self, theta: np.ndarray, states: np.ndarray, error: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Parameters, states and residuals of the next minimum, by the Levenberg-Marquardt method."""
        cost, damping, starts = float(np.sum(error**2)), 1e-3, self._starts()
        for _ in range(_STEPS):
            J, local = self._derivatives(theta, states)
            for _ in range(8):
                step, change = _solve(J, local, error, damping)
                trial = self._allowed(theta + step)
                # Pieces do not depend on each other: each takes the best of the states that are at hand, so that one
                # in which the device comes to rest elsewhere does not hold the others back.
                tried = self._best(trial, [states + change, states, *starts])
                new = float(np.sum(tried[1] ** 2))
                if new < cost:
                    break
                damping *= 10.0
            else:
                break
            gain = (cost - new) / cost
            theta, (states, error), cost, damping = trial, tried, new, 0.1 * damping
            if gain < _SETTLED:
                break
        return theta, states, error

    def _starts(self) -> list[np.ndarray]:
        """Guesses of the states, by lines through the first ticks: moving, and at rest."""
        guesses = []
        for time in (0.005, 0.02):
            few = max(3, round(time * self.rate))
            slope, begin = np.polyfit(np.arange(few) / self.rate, self.x[:, :few].T, 1)
            guesses.append(np.stack([begin, slope, 0.0 * slope]))
            guesses.append(np.stack([begin + 0.5 * slope * few / self.rate, 0.0 * slope, 0.0 * slope]))
        return guesses

    def _neighbours(self, theta: np.ndarray, states: np.ndarray) -> list[np.ndarray]:
        """States with other velocities at the start, for pieces in which the device sticks where it did not."""
        fast = self.wander / PIECE
        push = np.stack([states[2], np.full_like(states[2], np.median(states[2]))])
        found = [np.stack([guess[0], guess[1], one]) for guess in self._starts() for one in push]
        for change in np.geomspace(0.003, 3.0, 8) * fast:
            for sign in (1.0, -1.0):
                other = states + np.array([[0.0], [sign * change], [0.0]])
                other[0] += np.mean(self._error(theta, other), axis=1)  # a free device is moved by as much
                found.append(other)
        return found

    def _best(self, theta: np.ndarray, states: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The best of some states for each piece, and the residuals (pieces, ticks)."""
        errors = np.stack([self._error(theta, one) for one in states])
        best = np.argmin(np.sum(errors**2, axis=2), axis=0)
        pieces = np.arange(len(best))
        return np.stack(states)[best, :, pieces].T, errors[best, pieces]

    def _error(self, theta: np.ndarray, states: np.ndarray) -> np.ndarray:
        return np.where(self.known, self.x - self.simulate(theta, states), 0.0)

    def _allowed(self, theta: np.ndarray) -> np.ndarray:
        """Parameters within what can be simulated."""
        theta = theta.copy()
        theta[0] = max(theta[0], 1e-9 * self.size)
        theta[1] = min(max(theta[1], -0.5 * theta[0] / PIECE), STIFFEST * theta[0] * self.rate)
        theta[3] = min(max(theta[3], -2.0), 2.0 * LATEST * self.rate)
        if self.held:
            theta[4] = min(max(theta[4], -10.0 * theta[0]), STIFFEST**2 * theta[0] * self.rate**2)
        return theta

    def _derivatives(self, theta: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of the positions by the parameters (pieces, ticks, n), and by the states (pieces, ticks, 3)."""
        scale = np.array([theta[0], theta[0] / PIECE, self.size, 1.0, theta[0] / PIECE**2])[: theta.size]
        J = np.empty((*self.x.shape, theta.size))
        for i, step in enumerate(1e-5 * scale):
            change = np.zeros(theta.size)
            change[i] = step
            J[..., i] = (self.simulate(theta + change, states) - self.simulate(theta - change, states)) / (2.0 * step)
        local = np.empty((*self.x.shape, 3))
        for i, step in enumerate(1e-5 * np.array([self.wander, self.wander / PIECE, self.size])):
            shift = np.zeros((3, 1))
            shift[i] = step
            local[..., i] = (self.simulate(theta, states + shift) - self.simulate(theta, states - shift)) / (2.0 * step)
        return np.where(self.known[..., None], J, 0.0), np.where(self.known[..., None], local, 0.0)

    def _conclude(self, theta: np.ndarray, states: np.ndarray, error: np.ndarray) -> Identified:
        """The estimate of parameters that were found, with its confidence."""
        T = 1.0 / self.rate
        count = int(np.count_nonzero(self.known))
        free = count - theta.size - states.size
        noise = math.sqrt(float(np.sum(error**2)) / free)
        J, local = self._derivatives(theta, states)
        J = _without(J, local)
        unknown = self._unknown(theta, states, J)
        deviation = _variances(J, error, noise, max(2, round(LAG * self.rate)), count / free, unknown) ** 0.5
        half = CONFIDENT * deviation + _FINEST * np.abs(theta)
        estimates = [Estimate(float(value), float(width)) for value, width in zip(theta, half, strict=True)]
        delay = Estimate(T * estimates[3].value, T * estimates[3].half_width)
        stiffness = estimates[4] if self.held else Estimate(0.0, 0.0)
        kurtosis = float(np.mean(error**4) / max(np.mean(error**2) ** 2, 1e-300))
        width = CONFIDENT * noise * math.sqrt(max(kurtosis - 1.0, 0.1) / (4.0 * free))
        explained = 1.0 - float(np.mean(error**2)) / self.wander**2
        spread = Estimate(noise, width)
        mass, b, c = estimates[:3]
        return Identified(mass, b, c, delay, stiffness, spread, explained, count * T)

    def _check(self, found: Identified, motion: np.ndarray) -> None:
        """Refuse a motion that does not tell; `motion` as the model has it (pieces, ticks)."""
        still = np.diff(motion, axis=1) == 0.0
        if np.mean(still) > STUCK:
            raise ParameterError(
                [f"the device is at rest for {np.mean(still):.0%} of the time: raise the force above its friction"]
            )
        if self.wander < NOISES * found.noise.value or found.explained < EXPLAINED:
            raise ParameterError(
                [
                    f"a mass with friction{' and a spring' if self.held else ''} explains {found.explained:.0%} of the "
                    f"motion, at least {EXPLAINED:.0%} are needed: move it more, above its noise, or remove what else "
                    "acts on it"
                ]
            )
        mass = found.mass
        if not mass.half_width < UNKNOWN * mass.value:
            raise ParameterError(
                [
                    "the force has too few frequencies, or the motion is too small, to tell mass, damping and delay "
                    "apart: use an excitation of many frequencies, or a larger one"
                ]
            )


def _local(local: np.ndarray) -> np.ndarray:
    """Orthonormal columns (pieces, ticks, 3) of what the states of pieces do."""
    return np.asarray(np.linalg.qr(local)[0])


def _without(columns: np.ndarray, local: np.ndarray) -> np.ndarray:
    """Columns (pieces, ticks, n) without what the states of their pieces can do."""
    Q = _local(local)
    return np.asarray(columns - Q @ (Q.transpose(0, 2, 1) @ columns))


def _solve(J: np.ndarray, local: np.ndarray, error: np.ndarray, damping: float) -> tuple[np.ndarray, np.ndarray]:
    """Levenberg-Marquardt step of the parameters, and of the states of the pieces (3, pieces)."""
    free = _without(J, local).reshape(-1, J.shape[-1])
    scale = np.linalg.norm(free, axis=0)
    scale[scale == 0.0] = 1.0
    A = free / scale
    step = np.linalg.solve(A.T @ A + damping * np.eye(A.shape[1]), A.T @ error.ravel()) / scale
    rest = (error - J @ step)[..., None]
    # a state that does nothing, of a piece in which the device sticks all the time, is left alone
    size = np.maximum(np.linalg.norm(local, axis=1, keepdims=True), 1e-300)
    states = np.linalg.pinv(local / size, rcond=1e-9) @ rest / size.transpose(0, 2, 1)
    return step, states[..., 0].T


def _gaps(missing: np.ndarray) -> list[tuple[int, int]]:
    """First tick, and tick after the last, of each run of missing ones."""
    edges = np.flatnonzero(np.diff(missing, prepend=False, append=False))
    return [(int(first), int(last)) for first, last in zip(edges[::2], edges[1::2], strict=True)]


def _between(force: np.ndarray, gap: int) -> float:
    """Root mean square [N, N m] of the middle deviation of a force from the line across a gap of so many ticks."""
    before = (gap + 1) // 2
    after = gap + 1 - before
    middle = force[before : force.size - after]
    line = (after * force[: middle.size] + before * force[before + after :]) / (before + after)
    return float(np.sqrt(np.mean((middle - line) ** 2))) if middle.size else float(np.max(np.abs(force)))


def _variances(
    J: np.ndarray, error: np.ndarray, noise: float, lags: int, correction: float, unknown: np.ndarray
) -> np.ndarray:
    """Variances of the parameters.

    Args:
        J, error: derivatives (pieces, ticks, n) and residuals (pieces, ticks).
        unknown: J^T d (gaps, n), with d what the likely error of a force that was not recorded does.
    """
    A = J.reshape(-1, J.shape[-1])
    scale = np.linalg.norm(A, axis=0)
    scale[scale == 0.0] = 1.0
    A = A / scale
    inverse = np.linalg.pinv(A.T @ A, rcond=1e-15)
    white = noise**2 * inverse
    scores = A * error.reshape(-1, 1)
    S = scores.T @ scores
    for lag in range(1, min(lags, len(scores))):
        product = scores[lag:].T @ scores[:-lag]
        S += (1.0 - lag / lags) * (product + product.T)
    robust = correction * inverse @ S @ inverse
    gaps = np.sum((unknown / scale @ inverse) ** 2, axis=0)
    return np.asarray((np.maximum(np.diag(robust), np.diag(white)) + gaps) / scale**2)
