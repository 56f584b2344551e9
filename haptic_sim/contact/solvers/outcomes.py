"""Status that a solver of this folder returns, and its meaning."""

from __future__ import annotations

SOLVED, NON_PULLING, ENERGY_LIMITED, NOT_CONVERGED, RAY, ITERATIONS, INACCURATE, TOO_MANY = range(8)

MEANING = {
    SOLVED: "solved the problem",
    NON_PULLING: "solved it again with impulses that only push",
    ENERGY_LIMITED: "reduced the rebound, which with friction would have added energy",
    NOT_CONVERGED: "reached the cap on sweeps",
    RAY: "ends on a secondary ray: no solution was found",
    ITERATIONS: "reached the cap on pivots",
    INACCURATE: "lost its accuracy to rounding",
    TOO_MANY: "was given more contacts than its memory holds",
}
