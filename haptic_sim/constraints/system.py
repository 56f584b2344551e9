"""A constrained system that is made of formulas, and advanced step by step."""

from __future__ import annotations

import numpy as np

from haptic_sim.constraints.equations import Equations
from haptic_sim.constraints.errors import ConstraintError
from haptic_sim.constraints.projection import ProjectionSolver
from haptic_sim.constraints.stabilised import StabilisedSolver


class System(Equations):
    """Equations with a state: q (n,) and v (n,) are the configuration [m, rad] and velocity [m/s, rad/s] now."""

    _solver: ProjectionSolver | StabilisedSolver | None = None

    def step(self, wrench: np.ndarray | None = None, generalised: np.ndarray | None = None) -> int:
        """Advance q and v by a millisecond, or by the period of `advance_by`; see `ProjectionSolver.step`."""
        if self._solver is None:
            self.advance_by()
        assert self._solver is not None
        status: int = self._solver.step(wrench, generalised)
        self.q, self.v = self._solver.q.copy(), self._solver.v.copy()
        return status

    def advance_by(self, period: float = 1e-3, solver: str = "projection", gamma: float = 10.0) -> None:
        """Set the method of `step`: `projection` (FAULRING) or `stabilised` (YUN), from q and v as they are.

        Args:
            period: [s].
            solver: projection or stabilised.
            gamma: rate at which errors of the constraints decay with `stabilised` [1/s].

        Raises:
            ConstraintError: the state is off the constraints, or they contradict each other.
        """
        if solver not in ("projection", "stabilised"):
            raise ConstraintError(f"solver {solver!r}: must be projection or stabilised")
        stabilised = solver == "stabilised"
        self._solver = (
            StabilisedSolver(self, self.q, self.v, gamma, period)
            if stabilised
            else ProjectionSolver(self, self.q, self.v, period)
        )

    @property
    def time(self) -> float:
        """Time that `step` has advanced by [s]."""
        return 0.0 if self._solver is None else float(self._solver.time[0])
