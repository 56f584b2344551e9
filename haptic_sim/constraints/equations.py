"""The equations of motion of a system of formulas, its start, and what it is."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from haptic_sim.constraints import generated
from haptic_sim.constraints.description import (
    IDENTITY,
    RATE,
    Description,
    DescriptionError,
    Parametrisation,
    constant,
    shortened,
)
from haptic_sim.constraints.errors import ConstraintError, vector
from haptic_sim.constraints.formulas import evaluate as evaluate_formula
from haptic_sim.constraints.model import Model, Workspace, allocate_workspace, evaluate, observe, sizes
from haptic_sim.constraints.singularities import find_singularities
from haptic_sim.kernels import kernel
from haptic_sim.linalg import RANK_TOLERANCE
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, array, record, value

Made = TypeVar("Made", bound="Equations")

STATE_SPACE = ("eta", "D", "S", "xi", "E", "S^T E", "S^T M S", "S^T (M gamma + V + G)")  # parts of `state_space`
_ROTATION = 1e-9  # what R R^T may differ from 1
_ANTISYMMETRY = 1e-12  # relative to the largest eigenvalue: least one of an inertia


@record
class _Arrays(NamedTuple):
    """Arrays that `_fill` reads and fills."""

    model: Model = value("the system and its constraints")
    workspace: Workspace = value("arrays that are filled")
    q: np.ndarray = array("configuration", "coordinates")
    v: np.ndarray = array("velocity", "coordinates")


@kernel
def _fill(packed, t):
    """Fill all terms of a workspace."""
    a = packed.arrays
    evaluate(a.model, t, a.q, a.v, a.workspace)
    observe(a.model, t, a.q, a.v, a.workspace)


@dataclass(frozen=True)
class Structure:
    """Structural properties of a system.

    Attributes:
        coordinates: names. positions, velocities: numbers of rows. rank: of all rows at the start.
        degrees_of_freedom: coordinates less rank.
        growth: dimensions of the distribution of allowed rates on the manifold of the positions, and of its successive
            extensions by Lie brackets, at a generic point near the start; the last does not grow any more. None where
            that was given up.
        integrable_velocities: combinations of the rows of velocities that are derivatives of positions (YUN remark 1);
            None where that was given up.
        cyclic: coordinates that appear in no formula. conserved: formulas of what does not change without a wrench.
        singular: where rows lose rank or the inertia is singular, as far as that is found: one coordinate after the
            other is moved from the start, the others as little as the positions demand. `possible` where the least
            singular value is small, but the rank is not lost in numbers.
        given_up: what is not known of the above, and why; empty where all is.
    """

    coordinates: tuple[str, ...]
    positions: int
    velocities: int
    rank: int
    degrees_of_freedom: int
    growth: tuple[int, ...] | None
    integrable_velocities: int | None
    cyclic: tuple[str, ...] | None
    conserved: dict[str, str] | None
    singular: tuple[str, ...]
    given_up: str

    @property
    def nonholonomy(self) -> int | None:
        """Degree of nonholonomy: extensions until the distribution does not grow any more, and 1; 1 if integrable."""
        return None if self.growth is None else len(self.growth)


def _rank(A: np.ndarray) -> int:
    """Rank of rows, each of which counts with length 1."""
    lengths = np.linalg.norm(A, axis=1, keepdims=True)
    return int(np.linalg.matrix_rank(A / np.where(lengths > 0.0, lengths, 1.0), RANK_TOLERANCE)) if A.size else 0


@dataclass(frozen=True)
class Spring:
    """A spring from the held frame to one that rests (FAULRING appendix II).

    Attributes:
        stiffness, rotational_stiffness: [N/m], [N m/rad]; the energy is 1/2 k_t d^2 + 1/2 k_r angle^2.
        origin, quat_xyzw: of the frame that rests, in the world.
    """

    stiffness: float = 0.0
    rotational_stiffness: float = 0.0
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quat_xyzw: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Stiffness and rest for a `Model`.

        Raises:
            ConstraintError: a stiffness is negative, or the quaternion has not length 1.
        """
        stiffness, rest = (
            np.array([self.stiffness, self.rotational_stiffness]),
            np.array([*self.origin, *self.quat_xyzw]),
        )
        if not (np.all(stiffness >= 0.0) and np.isfinite(stiffness).all() and np.isfinite(rest).all()):
            raise ConstraintError(f"spring: {self}: stiffness must be finite and >= 0, the rest finite")
        if not abs(np.linalg.norm(rest[3:]) - 1.0) < 1e-6:
            raise ConstraintError(f"spring.quat_xyzw = {list(self.quat_xyzw)}: must have length 1")
        return stiffness, rest


class Equations:
    """M(q) qdd + bias(q, qd) = forces + A(q)^T lambda, with A(q) qd = b(q, t); made by `from_formulas`.

    Attributes:
        description: the formulas.
        parameters: their values, by name.
        q, v: configuration and velocity at the start, (n,).
        coordinates: names; row_names: keys of the rows of A, those of positions first.
        model: for the kernels of the solvers. planar: whether the held frame moves in the plane z = 0.
        driven: whether some row prescribes a motion, so that its force does work.
    """

    def __init__(
        self,
        description: Description,
        parameters: Mapping[str, float],
        start: Mapping[str, str | float] | None = None,
        spring: Spring | None = None,
    ):
        """Derive the equations; arguments as of `from_formulas`."""
        self.description, self.parameters = description, dict(parameters)
        self.q, self.v = self._start(start or {})
        description.check_forms(self.q, self.parameters)
        kernels = generated.build(description)
        self.coordinates, self.row_names = description.coordinates, description.row_names
        self.planar, self.driven = kernels.planar, kernels.driven
        given = description.parametrisation
        self.model = Model(
            kernels.evaluate,
            kernels.observe,
            kernels.place,
            np.array([self.parameters[name] for name in description.parameters], float),
            np.array(kernels.angular, float),
            description.n,
            len(description.positions),
            len(self.row_names),
            len(given.start) if given is not None else 0,
            *((np.zeros(2), np.array([0.0] * 6 + [1.0])) if spring is None else spring.arrays()),
        )
        self.workspace = allocate_workspace(self.sizes)
        self._arrays = allocate(_Arrays, self.sizes, model=self.model, workspace=self.workspace)
        self._packed = Packed(self._arrays)
        self._check_start()
        self._rank_at_start = _rank(self.A(self.q))
        self._measure = np.sqrt(np.diag(self.M(self.q)))
        lengths = np.linalg.norm(self.A(self.q) / self._measure, axis=1)
        self._lengths = np.where(lengths > 0.0, lengths, 1.0)

    @classmethod
    def from_formulas(
        cls: type[Made],
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
        parametrisation: Mapping[str, Mapping[str, Any]] | None = None,
        spring: Spring | None = None,
    ) -> Made:
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
            spring: from the held frame to one that rests.

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
        return cls(description, parameters or {}, start, spring)

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
        return vector("q", q, self.n).copy(), vector("qd", v, self.n).copy()

    def evaluate(self, q: Sequence[float] | np.ndarray, v: Sequence[float] | np.ndarray, t: float = 0.0) -> Workspace:
        """All terms at a state, with those of the held frame and the energies. Overwritten by the next call."""
        q, v = self.state(q, v)
        self._arrays.q[:], self._arrays.v[:] = q, v
        _fill(self._packed, float(t))
        return self.workspace

    def M(self, q: Sequence[float] | np.ndarray) -> np.ndarray:
        """Inertia (n, n)."""
        return self.evaluate(q, np.zeros(self.n)).M.copy()

    def bias(self, q: Sequence[float] | np.ndarray, v: Sequence[float] | np.ndarray, t: float = 0.0) -> np.ndarray:
        """Forces beside M qdd: Coriolis and centrifugal forces, less those of the potential and `forces`, (n,)."""
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

    @property
    def labels(self) -> tuple[str, ...]:
        """Each row as errors name it: its key, and the formula."""
        formulas = (*self.description.positions, *self.description.velocities)
        return tuple(f"{key} ({shortened(text)})" for key, text in zip(self.row_names, formulas, strict=True))

    def placed(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The independent coordinates at the start of the parametrisation, and psi there; None without one."""
        d, given = self.description, self.description.parametrisation
        if given is None:
            return None
        z = {key: constant(f"parametrisation.start.{key}", one, self.parameters) for key, one in given.start.items()}
        psi = [
            evaluate_formula(d.trees[f"parametrisation.coordinates.{name}"], self.parameters | z)
            for name in d.coordinates
        ]
        return np.array(list(z.values())), np.array(psi, float)

    def structure(self) -> Structure:
        """Structural properties of the system: see `Structure`."""
        found, trouble = self._ask("structure", self._generic_points())
        A = self.A(self.q)
        k, rank, growth = self.k, self._rank_at_start, found.get("growth")
        missing = [name for name in ("cyclic", "conserved", "growth") if name not in found]
        return Structure(
            coordinates=self.coordinates,
            positions=k,
            velocities=self.m - k,
            rank=rank,
            degrees_of_freedom=self.n - rank,
            growth=None if growth is None else tuple(growth),
            integrable_velocities=None if growth is None else self.n - _rank(A[:k]) - growth[-1],
            cyclic=tuple(found["cyclic"]) if "cyclic" in found else None,
            conserved=found.get("conserved"),
            singular=self._singularities(),
            given_up=f"{', '.join(missing)}: {trouble}" if trouble else "",
        )

    def state_space(self) -> dict[str, Any]:
        """The state-space form of YUN (24-29) as formulas: qd = S eta + xi, xd = f(x) + g(x) u with x = (q, eta).

        Returns:
            By name: `eta` (the rates that it is made of), D (determinant of the rows' columns of the other rates: the
            form holds where it is not zero), S, xi, E (of the wrench u at the hand point), S^T E, S^T M S,
            S^T (M gamma + V + G); f and g solved, where there are one or two eta. `given up` says what is not among
            them, and why. A formula that would fill pages is `analysis.TOO_LONG`.
        """
        found, trouble = self._ask("state_space", [self.q])
        if trouble:
            missing = [name for name in STATE_SPACE if name not in found]
            found["given up"] = f"{', '.join([*missing, 'f', 'g'])}: {trouble}"
        return found

    def drift_and_input(
        self, q: Sequence[float] | np.ndarray, v: Sequence[float] | np.ndarray, gamma: float = 0.0, t: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """f and g of YUN (28-29) as numbers, for the state (q, qd): (2 n,) and (2 n, 6), of the rates of q and of qd.

        Args:
            gamma: rate of the stabilisation [1/s]; the velocity is taken as it is given.
        """
        w = self.evaluate(q, v, t)
        v = np.asarray(v, float)
        wanted = w.bdot - w.Adot @ v
        wanted[: self.k] -= gamma * (w.A[: self.k] @ v - w.b[: self.k])
        balance = np.block([[w.M, -w.A.T], [w.A, np.zeros((self.m, self.m))]])
        sides = np.zeros((self.n + self.m, 7))
        sides[:, 0] = np.concatenate([w.passive - w.bias, wanted])
        sides[: self.n, 1:] = np.vstack([w.J, w.E]).T
        solved = np.linalg.lstsq(balance, sides, rcond=None)[0][: self.n]
        return np.concatenate([v, solved[:, 0]]), np.vstack([np.zeros((self.n, 6)), solved[:, 1:]])

    def _ask(self, what: str, points: Sequence[np.ndarray]) -> tuple[dict[str, Any], str]:
        question = {
            "document": self.description.document(),
            "parameters": self.parameters,
            "points": [point.tolist() for point in points],
        }
        return generated.ask_parts(json.dumps(question), what)

    def _generic_points(self, count: int = 2) -> list[np.ndarray]:
        """Random configurations near the start that satisfy the positions."""
        random, points = np.random.default_rng(1), []
        for size in (0.2, 0.1, 0.05, 0.02, 0.0):
            for _ in range(2 * count):
                q = self._returned(self.q + size * random.standard_normal(self.n))
                if q is not None and np.isfinite(self.A(q)).all():
                    points.append(q)
                if len(points) == count:
                    return points
        return points or [self.q]

    def _returned(self, q: np.ndarray, fixed: int | None = None) -> np.ndarray | None:
        """The configuration brought to the positions by Newton steps, one coordinate fixed; None where that fails."""
        for _ in range(30):
            w = self.evaluate(q, np.zeros(self.n))
            c = w.c.copy()
            if not np.isfinite(c).all():
                return None
            if np.abs(c).max(initial=0.0) < 1e-12:
                return q
            A = w.A[: self.k].copy()
            if fixed is not None:
                A[:, fixed] = 0.0
            if not np.isfinite(A).all():
                return None
            q = q - np.linalg.lstsq(A, c, rcond=None)[0]
        return None

    def _singularities(self) -> tuple[str, ...]:
        """Names of the singularities near the start, as `Structure` has them."""
        angular = self.model.angular > 0.0
        reach = np.where(angular, math.pi, 2.0 * np.maximum(np.abs(self.q), 1.0))
        return find_singularities(self.coordinates, self.q, reach.tolist(), self._returned, self._least)

    def _least(self, q: np.ndarray) -> tuple[float, float]:
        """Least singular values of the rows (of those that count at the start) and the inertia, of the largest.

        Coordinates are measured by their inertia at the start, rows by their length there: units do not count.
        """
        w, least = self.evaluate(q, np.zeros(self.n)), []
        rows, inertia = w.A / self._measure, w.M / np.outer(self._measure, self._measure)
        for matrix, rank in ((rows / self._lengths[:, None], self._rank_at_start), (inertia, self.n)):
            if rank == 0 or not np.isfinite(matrix).all():
                least.append(1.0)
            else:
                values = np.linalg.svd(matrix, compute_uv=False)
                least.append(float(values[rank - 1] / values[0]) if values[0] > 0.0 else 0.0)
        return least[0], least[1]

    def fault(
        self, q: Sequence[float] | np.ndarray, v: Sequence[float] | np.ndarray, t: float = 0.0, where: str = "there"
    ) -> str:
        """Reason why a state has no motion: an undefined formula, or an indefinite inertia; empty if it has one."""
        d, w = self.description, self.evaluate(q, v, t)
        for key in d.trees:
            if not key.startswith("parametrisation") and not math.isfinite(d.value(key, q, v, self.parameters, t)):
                return (
                    f"{key}: has no finite value {where} (a division by zero, or a function outside of its "
                    "domain); must have one there"
                )
        for name in ("M", "bias", "passive", "A", "Adot", "b", "bdot", "J", "E", "Jdot", "Edot"):
            if not np.isfinite(getattr(w, name)).all():
                key = "kinetic" if name in ("M", "bias") else "potential, forces" if name == "passive" else "hand"
                return (
                    f"{'positions, velocities' if name in ('A', 'Adot', 'b', 'bdot') else key}: a derivative has no "
                    f"finite value {where}; must have one there"
                )
        eigenvalues, vectors = np.linalg.eigh(w.M)
        if not eigenvalues[0] > _ANTISYMMETRY * abs(eigenvalues[-1]):
            worst = self.coordinates[int(np.argmax(np.abs(vectors[:, 0])))]
            return (
                f"kinetic: the inertia is not positive definite {where} (least eigenvalue {eigenvalues[0]:.3g}, "
                f"along {worst} most): every motion must have a kinetic energy > 0"
            )
        return ""

    def _start(self, given: Mapping[str, str | float]) -> tuple[np.ndarray, np.ndarray]:
        d = self.description
        for name, number in self.parameters.items():
            if not math.isfinite(number):
                raise DescriptionError(f"parameters.{name} = {number}: must be finite")
        names = (*d.coordinates, *d.rates)
        for name in given:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                hint = f" (did you mean {near[0]}?)" if near else ""
                raise DescriptionError(
                    f"start.{name}: is neither a coordinate nor a rate{hint}: must be of {', '.join(names)}"
                )
        placed = self.placed()
        if placed is not None and not any(name in d.coordinates for name in given):
            given = {**given, **dict(zip(d.coordinates, placed[1].tolist(), strict=True))}
        values = {name: constant(f"start.{name}", given.get(name, 0.0), self.parameters) for name in names}
        q = np.array([values[name] for name in d.coordinates])
        return q, np.array([values[name + RATE] for name in d.coordinates])

    def _check_start(self) -> None:
        """Check the initial state: all formulas have values, the inertia is positive definite, R is a rotation."""
        fault = self.fault(self.q, self.v, 0.0, "at the start")
        if fault:
            raise DescriptionError(fault)
        w = self.evaluate(self.q, self.v)
        off = np.abs(w.R @ w.R.T - np.eye(3)).max()
        if not (off <= _ROTATION and np.linalg.det(w.R) > 0.0):
            raise DescriptionError(
                f"hand.rotation: is not a rotation at the start: R R^T differs from 1 by {off:.3g}, its determinant is "
                f"{np.linalg.det(w.R):.3g}; must be 0 and 1"
            )
