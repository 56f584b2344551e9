"""Laws of a place: kernels of this package or of another one, which are called by their address.

The law of a field of force, or of a texture, is a kernel law(place, keys, answer): it reads the record `place` and the
numbers `keys` (n,) of its parameters, and fills in the record `answer`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numba
import numpy as np
from numba.core import types

from haptic_sim import kernels
from haptic_sim.packed import Packed


def address_of(law: Any, place: Packed, answer: Packed) -> int:
    """Address of the law that is compiled for these records."""
    keys = types.Array(types.float64, 1, "C")
    return kernels.address_of(law, (numba.typeof(place.arrays), keys, numba.typeof(answer.arrays)))


def numbers_among(values: Iterable[Any]) -> np.ndarray:
    """All numbers of some values, in their order, (n,); texts are left out."""
    return np.array([x for one in values for x in np.ravel(one).tolist() if not isinstance(one, str)], float)
