"""A constrained system, made of formulas: its equations of motion, and its start."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from haptic_sim.constraints import generated
from haptic_sim.constraints.description import (
    IDENTITY,
    RATE,
    Description,
    DescriptionError,
    Parametrisation,
    constant,
)
from haptic_sim.constraints.errors import ConstraintError
from haptic_sim.constraints.library import evaluate, observe
from haptic_sim.constraints.model import FormulaModel, Workspace, allocate_workspace, sizes

_ROTATION = 1e-9  # what R R^T may differ from 1
_ANTISYMMETRY = 1e-12  # relative to the largest eigenvalue: least one of an inertia


class System:
    """M(q) qdd + bias(q, qd) = forces + A(q)^T lambda, with A(q) qd = b(q, t); made by `from_formulas`.

    Attributes:
        description: the formulas.
        parameters: their values, by name.
        q, v: configuration and velocity at the start, (n,).
        coordinates: names; row_names: keys of the rows of A, those of positions first.
        model: for the kernels of the solvers. planar: whether the held frame moves in the plane z = 0.
    """

    def __init__(
        self, description: Description, parameters: Mapping[str, float], start: Mapping[str, str | float] | None = None
    ):
        """See `from_formulas`."""
        self.description, self.parameters = description, dict(parameters)
        self.q, self.v = self._start(start or {})
        description.check_forms(self.q, self.parameters)
        kernels = generated.build(description)
        self.coordinates, self.row_names, self.planar = description.coordinates, description.row_names, kernels.planar
        given = description.parametrisation
        self.model = FormulaModel(
            kernels.evaluate,
            kernels.observe,
            kernels.place,
            np.array([self.parameters[name] for name in description.parameters], float),
            np.array(kernels.angular, float),
            description.n,
            len(description.positions),
            len(self.row_names),
            len(given.start) if given is not None else 0,
        )
        self.workspace = allocate_workspace(self.sizes)
        self._check_start()

    @classmethod
    def from_formulas(
        cls,
        coordinates: Sequence[str],
        kinetic: str,
        *,
        parameters: Mapping[str, float] | None = None,
        definitions: Mapping[str, str] | None = None,
        potential: str = "0",
        forces: Mapping[str, str] | None = None,
        positions: Sequence[str] = (),
        velocities: Sequence[str] = (),
        hand: Mapping[str, Any] | None = None,
        start: Mapping[str, str | float] | None = None,
        parametrisation: Mapping[str, Mapping[str, str]] | None = None,
    ) -> System:
        """A system of formulas; the first one of its kind is derived and compiled, which takes seconds.

        Args:
            coordinates: names, in the order of q; the rate of phi is phi_dot, the time is t.
            kinetic: kinetic energy [J], quadratic in the rates.
            parameters: values by name.
            definitions: formulas by name, for use in others; each may use those before it.
            potential: potential energy [J].
            forces: generalised forces by coordinate, beside those of the potential.
            positions: formulas that are 0, of coordinates and time.
            velocities: formulas that are 0, linear in the rates.
            hand: `position` (3 formulas [m]) and `rotation` (3 rows of 3 formulas; identity if left out) of the held
                frame in the world.
            start: coordinates and rates by name: numbers, or formulas of the parameters; 0 where left out.
            parametrisation: `start` and `coordinates` of a `Parametrisation`.

        Raises:
            DescriptionError: a formula is wrong: names it, the place in it, and what is allowed.
        """
        hand = hand or {}
        description = Description(
            tuple(coordinates),
            tuple(parameters or {}),
            kinetic,
            potential,
            dict(definitions or {}),
            dict(forces or {}),
            tuple(positions),
            tuple(velocities),
            tuple(hand.get("position", ("0", "0", "0"))),
            tuple(tuple(row) for row in hand.get("rotation", IDENTITY)),
            None if parametrisation is None else Parametrisation(**parametrisation),
        )
        return cls(description, parameters or {}, start)

    name = "formulas"

    @property
    def system(self) -> System:
        """Itself."""
        return self

    @property
    def n(self) -> int:
        """Number of coordinates."""
        return self.model.n

    @property
    def k(self) -> int:
        """Number of holonomic rows."""
        return self.model.k

    @property
    def m(self) -> int:
        """Number of rows."""
        return self.model.m

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of the records of a solver."""
        return sizes(self.n, self.k, self.m)

    def state(self, q: Sequence[float] | np.ndarray, v: Sequence[float] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Copies of configuration and velocity, checked for shape and finiteness."""
        checked = []
        for name, given in (("q", q), ("v", v)):
            array = np.array(given, float)
            if array.shape != (self.n,) or not np.isfinite(array).all():
                raise ConstraintError(f"{name} = {array.tolist()}: must be {self.n} finite numbers")
            checked.append(array)
        return checked[0], checked[1]

    def evaluate(self, q: Sequence[float] | np.ndarray, v: Sequence[float] | np.ndarray, t: float = 0.0) -> Workspace:
        """All terms at a state, with those of the held frame and the energies. Overwritten by the next call."""
        q, v = self.state(q, v)
        evaluate(self.model, float(t), q, v, self.workspace)
        observe(self.model, float(t), q, v, self.workspace)
        return self.workspace

    def M(self, q: Sequence[float] | np.ndarray) -> np.ndarray:
        """Inertia (n, n)."""
        return self.evaluate(q, np.zeros(self.n)).M.copy()

    def bias(self, q: Sequence[float] | np.ndarray, v: Sequence[float] | np.ndarray, t: float = 0.0) -> np.ndarray:
        """What stands beside M qdd: Coriolis and centrifugal forces, less those of the potential and `forces`, (n,)."""
        w = self.evaluate(q, v, t)
        return w.bias - w.passive

    def A(self, q: Sequence[float] | np.ndarray, t: float = 0.0) -> np.ndarray:
        """Rows of the constraints (m, n), those of positions first."""
        return self.evaluate(q, np.zeros(self.n), t).A.copy()

    def energy(self, q: Sequence[float] | np.ndarray, v: Sequence[float] | np.ndarray, t: float = 0.0) -> float:
        """Kinetic and potential energy [J]."""
        w = self.evaluate(q, v, t)
        return float(0.5 * np.asarray(v, float) @ w.M @ np.asarray(v, float) + w.potential[0])

    def residuals(
        self, q: Sequence[float] | np.ndarray, v: Sequence[float] | np.ndarray, t: float = 0.0
    ) -> tuple[float, float]:
        """Norms of the holonomic residuals c(q, t) and of the nonholonomic ones A(q) qd - b."""
        w = self.evaluate(q, v, t)
        rest = w.A[self.k :] @ np.asarray(v, float) - w.b[self.k :]
        return float(np.linalg.norm(w.c)), float(np.linalg.norm(rest))

    def _start(self, given: Mapping[str, str | float]) -> tuple[np.ndarray, np.ndarray]:
        d = self.description
        for name, value in self.parameters.items():
            if not math.isfinite(value):
                raise DescriptionError(f"parameters.{name} = {value}: must be finite")
        names = (*d.coordinates, *d.rates)
        for name in given:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                hint = f" (did you mean {near[0]}?)" if near else ""
                raise DescriptionError(
                    f"start.{name}: is no coordinate and no rate{hint}: must be of {', '.join(names)}"
                )
        values = {name: constant(f"start.{name}", given.get(name, 0.0), self.parameters) for name in names}
        q = np.array([values[name] for name in d.coordinates])
        return q, np.array([values[name + RATE] for name in d.coordinates])

    def _check_start(self) -> None:
        """That everything has a value at the start, the inertia is positive definite, the rotation is one."""
        d, w = self.description, self.evaluate(self.q, self.v)
        for key in d.trees:
            if not key.startswith("parametrisation") and not math.isfinite(
                d.value(key, self.q, self.v, self.parameters)
            ):
                raise DescriptionError(
                    f"{key}: has no finite value at the start (a division by zero, or a function outside of its "
                    "domain); must have one there"
                )
        for name in ("M", "bias", "passive", "A", "Adot", "b", "bdot", "J", "E", "Jdot", "Edot"):
            if not np.isfinite(getattr(w, name)).all():
                key = "kinetic" if name in ("M", "bias") else "potential, forces" if name == "passive" else "hand"
                raise DescriptionError(
                    f"{'positions, velocities' if name in ('A', 'Adot', 'b', 'bdot') else key}: a derivative has no "
                    "finite value at the start; must have one there"
                )
        eigenvalues, vectors = np.linalg.eigh(w.M)
        if not eigenvalues[0] > _ANTISYMMETRY * abs(eigenvalues[-1]):
            worst = self.coordinates[int(np.argmax(np.abs(vectors[:, 0])))]
            raise DescriptionError(
                f"kinetic: the inertia is not positive definite at the start (least eigenvalue {eigenvalues[0]:.3g}, "
                f"along {worst} most): every motion must have a kinetic energy > 0"
            )
        off = np.abs(w.R @ w.R.T - np.eye(3)).max()
        if not (off <= _ROTATION and np.linalg.det(w.R) > 0.0):
            raise DescriptionError(
                f"hand.rotation: is no rotation at the start: R R^T differs from 1 by {off:.3g}, its determinant is "
                f"{np.linalg.det(w.R):.3g}; must be 0 and 1"
            )
