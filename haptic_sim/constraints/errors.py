"""The error of a constraint or a state that cannot be used, and the check of vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from haptic_sim.errors import HapticsError


class ConstraintError(HapticsError, ValueError):
    """A constraint or a state that cannot be used; the message names it and gives the residual or the shape."""


def vector(name: str, value: Sequence[float] | np.ndarray, size: int) -> np.ndarray:
    """`value` as a finite vector of `size` entries.

    Raises:
        ConstraintError: it is none.
    """
    array = np.asarray(value, float)
    if array.shape != (size,):
        raise ConstraintError(f"{name} has the shape {array.shape}: must be ({size},)")
    if not np.all(np.isfinite(array)):
        raise ConstraintError(f"{name} = {array.tolist()}: must be finite")
    return array
