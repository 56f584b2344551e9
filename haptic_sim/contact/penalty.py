"""Penalty forces of resting contact (THESIS 4.5)."""

from __future__ import annotations

import numba


@numba.njit(cache=True, nogil=True)
def penalty_forces(count, separation, v_n, stiffness, damping, force):
    """Fill `force` (C,) [N] along the normals: f = -K s - B v_n where s < 0, zero elsewhere.

    THESIS (4.5) has no clamp, so a point that leaves quickly would be pulled back (errata 7): clamped at zero.
    Separation [m], normal velocity [m/s], stiffness [N/m] and damping [N s/m] have a value for each row.
    """
    for i in range(count):
        f = 0.0
        if separation[i] < 0.0:
            f = -stiffness[i] * separation[i] - damping[i] * v_n[i]
        force[i] = f if f > 0.0 else 0.0
