"""Maximum likelihood of psychometric functions, for many tables of answers at once.

With n_k trials at level k, of which c_k were positive, the logarithm of the likelihood is

    l = sum_k c_k ln p_k + (n_k - c_k) ln(1 - p_k),      p_k = psi(x_k; threshold, spread, guess, lapse)

(Wichmann and Hill 2001a; without the binomial coefficients, which do not depend on the parameters). Its gradient
and expected information are, with J = dp/dtheta,

    g = sum_k J_k (c_k - n_k p_k) / (p_k (1 - p_k)),      I = sum_k n_k J_k J_k' / (p_k (1 - p_k)).

`maximise` takes steps of Fisher scoring, I d = g, damped as by Levenberg and Marquardt and kept within bounds: a
parameter on its bound whose gradient points outward is held. The parameters are theta = (coordinate of the threshold,
ln spread, guess, lapse), in which the steps are of similar size.

A step moves the threshold by at most the spread, and ln spread by at most 1: where no level is near the threshold, its
information is next to zero, and a longer step would be rejected together with those of the other parameters. Where the
answers contradict the function, expected and observed information differ, and scoring converges slowly. Then the
observed one takes its place, by differences of the gradient and with the magnitudes of its eigenvalues.
"""

from __future__ import annotations

import numpy as np

from haptic_study.psychophysics.functions import PsychometricFunction

SCORING = 30  # iterations with expected information, after which it is the observed one
STEP = 1e-5  # of differences of the gradient
SMALLEST = 1e-12  # probability: bounds l where an answer contradicts a function without lapses
DECREMENT = 1e-11  # of the logarithm of the likelihood that a further step would gain at most
ITERATIONS = 300


def predict(
    function: PsychometricFunction, coordinates: np.ndarray, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p, 1 - p and dp/dtheta of parameters (B, 4) at coordinates (K,).

    Returns:
        (B, K), (B, K), (B, K, 4).
    """
    location, spread = theta[:, 0:1], np.exp(theta[:, 1:2])
    guess, lapse = theta[:, 2:3], theta[:, 3:4]
    z = (coordinates - location) / spread
    F, complement, density = function.core(z)
    height = 1.0 - guess - lapse
    J = np.empty((*z.shape, 4))
    J[..., 0] = -height * density / spread
    J[..., 1] = -height * density * np.where(np.isfinite(z), z, 0.0)  # at level 0 of a Weibull function: 0
    J[..., 2] = complement
    J[..., 3] = -F
    return guess + height * F, lapse + height * complement, J


def log_likelihood(p: np.ndarray, q: np.ndarray, correct: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """l of tables (B, K), of probabilities p and q = 1 - p of the same shape: (B,)."""
    terms = correct * np.log(np.maximum(p, SMALLEST)) + wrong * np.log(np.maximum(q, SMALLEST))
    return terms.sum(axis=-1)


def information(p: np.ndarray, q: np.ndarray, J: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Expected information (B, 4, 4) of tables with `total` (B, K) trials."""
    weight = total / (np.maximum(p, SMALLEST) * np.maximum(q, SMALLEST))
    return np.einsum("bki,bk,bkj->bij", J, weight, J)


def gradient(
    function: PsychometricFunction, coordinates: np.ndarray, theta: np.ndarray, correct: np.ndarray, total: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient of l (B, 4), and expected information (B, 4, 4)."""
    p, q, J = predict(function, coordinates, theta)
    residual = (correct - total * p) / (np.maximum(p, SMALLEST) * np.maximum(q, SMALLEST))
    return np.einsum("bki,bk->bi", J, residual), information(p, q, J, total)


def curvature(
    function: PsychometricFunction, coordinates: np.ndarray, theta: np.ndarray, correct: np.ndarray, total: np.ndarray
) -> np.ndarray:
    """Observed information (B, 4, 4), by differences of the gradient."""
    size = np.full_like(theta, STEP)
    size[:, 0] *= np.exp(theta[:, 1])
    H = np.empty((len(theta), 4, 4))
    for i in range(4):
        step = np.zeros_like(theta)
        step[:, i] = size[:, i]
        before, after = (gradient(function, coordinates, theta + s * step, correct, total)[0] for s in (-1.0, 1.0))
        H[:, i] = (before - after) / (2.0 * size[:, i : i + 1])
    return 0.5 * (H + H.transpose(0, 2, 1))


def maximise(
    function: PsychometricFunction,
    coordinates: np.ndarray,
    correct: np.ndarray,
    total: np.ndarray,
    start: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The parameters within bounds at which the likelihood of each table is largest, near where each starts.

    Args:
        function: the family.
        coordinates: of the levels (K,).
        correct, total: positive answers and trials (B, K).
        start: parameters theta (B, 4).
        low, high: bounds (4,); equal where a parameter is fixed.

    Returns:
        Parameters (B, 4), and l of each table (B,).
    """
    theta = np.clip(start, low, high)
    p, q, _ = predict(function, coordinates, theta)
    best = log_likelihood(p, q, correct, total - correct)
    damping = np.full(len(theta), 1e-3)
    active = np.arange(len(theta))
    for iteration in range(ITERATIONS):
        at, c, n = theta[active], correct[active], total[active]
        g, matrix = gradient(function, coordinates, at, c, n)
        if iteration >= SCORING:
            matrix = curvature(function, coordinates, at, c, n)
        held = ((at <= low) & (g <= 0.0)) | ((at >= high) & (g >= 0.0))
        g = np.where(held, 0.0, g)
        matrix = np.where(held[:, :, None] | held[:, None, :], 0.0, matrix)
        if iteration >= SCORING:
            values, vectors = np.linalg.eigh(matrix)
            matrix = np.einsum("bik,bk,bjk->bij", vectors, np.abs(values), vectors)
        diagonal = np.einsum("bii->bi", matrix)
        scale = np.where(held, 1.0, diagonal + 1e-9 * diagonal.sum(axis=1, keepdims=True) + 1e-12)
        matrix[:, range(4), range(4)] = np.where(held, 1.0, diagonal + damping[active, None] * scale)
        d = np.linalg.solve(matrix, g[:, :, None])[:, :, 0]
        longest = np.ones_like(d)
        longest[:, 0] = np.exp(at[:, 1])
        new = np.clip(at + np.clip(d, -longest, longest), low, high)
        p, q, _ = predict(function, coordinates, new)
        reached = log_likelihood(p, q, c, n - c)
        better = reached > best[active]
        theta[active[better]] = new[better]
        gained = np.where(better, reached - best[active], 0.0)
        best[active] += gained
        damping[active] = np.clip(damping[active] * np.where(better, 0.2, 8.0), 1e-9, 1e12)
        ends = (np.einsum("bi,bi->b", g, d) < DECREMENT) & (gained < DECREMENT)
        active = active[~(ends | (damping[active] >= 1e12))]
        if len(active) == 0:
            break
    return theta, best


def starts(
    function: PsychometricFunction,
    coordinates: np.ndarray,
    correct: np.ndarray,
    total: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> np.ndarray:
    """Starting points of each table: the best of a grid with a small, a middle and a large lapse rate, (B, 3, 4)."""
    axes = [np.linspace(low[0], high[0], 41), np.linspace(low[1], high[1], 15), np.linspace(low[2], high[2], 3)]
    chosen = []
    for share in (0.02, 0.3, 0.9):
        lapse = np.array([low[3] + share * (high[3] - low[3])])
        grid = np.stack(np.meshgrid(*axes, lapse, indexing="ij"), axis=-1).reshape(-1, 4)
        p, q, _ = predict(function, coordinates, grid)
        fits = correct @ np.log(np.maximum(p, SMALLEST)).T + (total - correct) @ np.log(np.maximum(q, SMALLEST)).T
        chosen.append(grid[np.argmax(fits, axis=1)])
    return np.stack(chosen, axis=1)
