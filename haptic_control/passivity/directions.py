"""A coupling with matrices, as in six degrees of freedom, in its worst direction.

With a stiffness K, a damping B, a mass M behind the coupling and the damping D of the device as symmetric matrices,
H = C (1 + g T^2 M^-1 C)^-1 with C = K + B/T d is symmetric too. The argument of BROWN (8) holds for each combination of
directions, so that the device is passive exactly if H is stable and at every frequency

    D > T/2 / (1 - cos theta) Re{(1 - z^-1) H(z)}

as matrices: if the largest eigenvalue of D^-1/2 (right side) D^-1/2, the `scale`, is less than 1. Its eigenvector is
the worst direction. Directions of different units (translation, rotation) need no common scale.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.linalg

from haptic_control.passivity.conditions import supremum
from haptic_control.passivity.coupling import INTEGRATORS
from haptic_control.passivity.transfer import difference, is_stable
from haptic_sim.parameters import ParameterError

_ROUNDING = 1e-9  # of an eigenvalue, relative to the largest


class DirectionalAnalysis(NamedTuple):
    """Result of `analyse_directions`.

    Attributes:
        scale: by which the damping of the device would have to be multiplied; passive below 1.
        wall_scale: the same of a virtual wall, K T/2 + B.
        worst_frequency: [Hz]; worst_direction: motion (n,), of length 1.
        stable: whether the loop is; passive: stable and scale < 1.
    """

    scale: float
    wall_scale: float
    worst_frequency: float
    worst_direction: np.ndarray
    stable: bool
    passive: bool


def checked_matrix(name: str, values: np.ndarray, definite: bool = False) -> np.ndarray:
    """A symmetric matrix (n, n) without negative eigenvalues, `definite`: with positive ones only.

    Raises:
        ParameterError: it is not.
    """
    matrix = np.asarray(values, float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size or not np.isfinite(matrix).all():
        raise ParameterError([f"{name}: has the shape {matrix.shape}: must be a square matrix of finite numbers"])
    size = float(np.abs(matrix).max())
    wrong = np.abs(matrix - matrix.T)
    if wrong.max() > _ROUNDING * size:
        i, j = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        raise ParameterError(
            [f"{name}: [{i}][{j}] = {matrix[i, j]:g} and [{j}][{i}] = {matrix[j, i]:g}: must be symmetric"]
        )
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least < -_ROUNDING * size or (definite and not least > _ROUNDING * size):
        rule = "positive definite" if definite else "positive semidefinite"
        raise ParameterError([f"{name}: has the eigenvalue {least:g}: must be {rule}"])
    return 0.5 * (matrix + matrix.T)


def analyse_directions(
    stiffness: np.ndarray,
    damping: np.ndarray,
    rate: float,
    device_damping: np.ndarray,
    mass: np.ndarray | None = None,
    integrator: int = 3,
    delay: int = 0,
) -> DirectionalAnalysis:
    """Whether a device renders a coupling with matrices passively.

    Args:
        stiffness, damping: K, B (n, n), symmetric positive semidefinite.
        rate: 1/T [Hz].
        device_damping: D (n, n), symmetric positive definite.
        mass: M (n, n), symmetric positive definite; None: a virtual wall.
        integrator: method of BROWN Table 1; delay: of the force [ticks].

    Raises:
        ParameterError: a matrix is not as it has to be, or the sizes differ.
    """
    T = 1.0 / rate
    given = {"stiffness": (stiffness, False), "damping": (damping, False), "device_damping": (device_damping, True)}
    if mass is not None:
        given["mass"] = (mass, True)
    matrices = {name: checked_matrix(name, values, definite) for name, (values, definite) in given.items()}
    n = len(matrices["stiffness"])
    for name, matrix in matrices.items():
        if len(matrix) != n:
            raise ParameterError([f"{name}: has {len(matrix)} rows, stiffness has {n}: must have as many"])
    K, B, D = (matrices[name] for name in ("stiffness", "damping", "device_damping"))
    L = np.linalg.cholesky(D)
    to_device = np.linalg.inv(L)  # L^-1 A L^-T has the eigenvalues of D^-1/2 A D^-1/2
    wall_scale = float(np.linalg.eigvalsh(to_device @ (0.5 * K * T + B) @ to_device.T)[-1])
    coupled = scipy.linalg.orth(K * T + B, rcond=_ROUNDING)  # directions without spring and damper are not
    if not coupled.size:
        return DirectionalAnalysis(0.0, 0.0, 0.0, np.eye(n)[0], True, True)
    K, B, to_device = coupled.T @ K @ coupled, coupled.T @ B @ coupled, to_device @ coupled
    inverse = None if mass is None else T**2 * coupled.T @ np.linalg.inv(matrices["mass"]) @ coupled

    def required(theta: np.ndarray) -> np.ndarray:
        d = difference(theta)[:, None, None]
        C = K + B / T * d
        H = C
        if inverse is not None:
            g = np.polynomial.polynomial.polyval(d, INTEGRATORS[integrator])
            H = C @ np.linalg.inv(d**2 * np.eye(len(K)) + g * (inverse @ C)) * d**2
        H = H * np.exp(-1j * delay * theta)[:, None, None]
        A = 0.5 * T * (H.real - H.imag / np.tan(0.5 * theta)[:, None, None])
        return to_device @ (0.5 * (A + A.swapaxes(1, 2))) @ to_device.T

    y = np.empty(0, complex) if inverse is None else _poles(K, B / T, inverse, INTEGRATORS[integrator])
    scale, theta = supremum(lambda theta: np.linalg.eigvalsh(required(theta))[..., -1], y, delay)
    vector = _motion(L, np.linalg.eigh(required(np.maximum(theta, 1e-5)[None])[0])[1][:, -1])
    stable = bool(is_stable(y))
    return DirectionalAnalysis(
        float(scale), wall_scale, float(theta) / (2.0 * math.pi) * rate, vector, stable, stable and bool(scale < 1.0)
    )


def _motion(L: np.ndarray, eigenvector: np.ndarray) -> np.ndarray:
    """The motion L^-T u of length 1, its largest component positive."""
    motion = np.linalg.solve(L.T, eigenvector)
    return motion / np.linalg.norm(motion) * np.sign(motion[np.argmax(np.abs(motion))])


def _poles(K: np.ndarray, B: np.ndarray, inverse: np.ndarray, numerator: np.ndarray) -> np.ndarray:
    """Poles y of det(d^2 + numerator(d) inverse (K + B d)), but for those at d = 0 that directions without spring have.

    K + B is positive definite; such a pole cancels, as the coupling does not see where the mass is.
    """
    n = len(K)
    degree = max(2, numerator.size)
    A = np.zeros((degree + 1, n, n))  # of powers of d
    A[2] += np.eye(n)
    for i, factor in enumerate(numerator):
        A[i] += factor * inverse @ K
        A[i + 1] += factor * inverse @ B
    left, right = np.zeros((2, degree * n, degree * n))  # (left - y right) v = 0
    right[:n, :n] = A[0]
    left[:n] = np.hstack([-one for one in A[1:]])
    left[n:, :-n] = np.eye((degree - 1) * n)
    right[n:, n:] = np.eye((degree - 1) * n)
    above, below = scipy.linalg.eig(left, right, right=False, homogeneous_eigvals=True)
    eigenvalues = np.linalg.eigvalsh(K)
    free = int(np.sum(eigenvalues <= _ROUNDING * np.linalg.norm(K + B)))
    order = np.argsort(np.abs(below) / np.hypot(np.abs(above), np.abs(below)))[free:]  # 1/|y| is least for those
    return above[order] / below[order]
