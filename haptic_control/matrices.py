"""Gains and inertias as symmetric matrices of the six directions, and how they are written in an experiment."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import AfterValidator

from haptic_sim.parameters import six

_ROUNDING = 1e-9  # of an element, or of an eigenvalue, relative to the diagonal


def matrix_of(values: tuple[float, ...]) -> np.ndarray:
    """A matrix (6, 6) from its 36 values, row by row, or from a diagonal of three or six (see `Gains`)."""
    return np.array(values, float).reshape(6, 6) if len(values) == 36 else np.diag(six(values))


def _number_of_values(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) not in (3, 6, 36):
        raise ValueError(
            f"has {len(values)} values: must have 3 (x, y, rotation about z), 6, or 36, the rows of a matrix"
        )
    return values


def _symmetric(values: tuple[float, ...]) -> tuple[float, ...]:
    """Refuse a matrix that has a negative eigenvalue in any units of length."""
    for i, value in enumerate(values if len(values) < 36 else values[::7]):
        if not value >= 0.0:
            raise ValueError(f"[{i if len(values) < 36 else 7 * i}] = {value:g}: must be >= 0")
    if len(values) < 36:
        return values
    matrix = matrix_of(values)
    scale = np.sqrt(np.diag(matrix))
    size = np.outer(scale, scale)
    wrong = np.abs(matrix - matrix.T) > _ROUNDING * np.maximum(size, np.abs(matrix))
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        raise ValueError(
            f"has {matrix[i, j]:g} in row {i + 1}, column {j + 1}, and {matrix[j, i]:g} in row {j + 1}, column "
            f"{i + 1}: must be symmetric"
        )
    least = -np.inf
    if not matrix[size == 0.0].any():  # a direction without a diagonal has nothing else
        least = np.linalg.eigvalsh(matrix / np.where(size > 0.0, size, 1.0))[0]
    if not least >= -_ROUNDING:
        raise ValueError("has a negative eigenvalue: must be positive semidefinite")
    return values


def _definite(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) != 36:
        raise ValueError(f"has {len(values)} values: must have 36, the rows of a matrix")
    matrix = matrix_of(values)
    scale = np.sqrt(np.diag(matrix))
    if not (scale.min() > 0.0 and np.linalg.eigvalsh(matrix / np.outer(scale, scale))[0] > _ROUNDING):
        raise ValueError("has an eigenvalue that is not positive: must be positive definite")
    return values


MatrixGains = Annotated[tuple[float, ...], AfterValidator(_number_of_values), AfterValidator(_symmetric)]
"""Gains as `Gains`, or as a symmetric positive semidefinite matrix: its 36 values, row by row."""

InertiaMatrix = Annotated[tuple[float, ...], AfterValidator(_number_of_values), AfterValidator(_symmetric),
                          AfterValidator(_definite)]  # fmt: skip
"""A symmetric positive definite matrix (6, 6), row by row [kg, kg m, kg m^2]."""
