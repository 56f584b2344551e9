"""A mechanical system as formulas: coordinates, energies, forces, constraints, the held frame; read and checked.

A formula may hold the parameters, the coordinates, their rates (`phi_dot` is that of `phi`), the time t, and the names
that `definitions` give to formulas, each of which may use those before it. Where not everything is allowed, as in a
position, the error says what is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from haptic_sim.constraints.errors import ConstraintError
from haptic_sim.constraints.formulas import (
    FUNCTIONS,
    RESERVED,
    FormulaError,
    Tree,
    evaluate,
    names_in,
    parse,
)

MOST_COORDINATES = 24
MOST_ROWS = 24
RATE = "_dot"
IDENTITY = (("1", "0", "0"), ("0", "1", "0"), ("0", "0", "1"))
_TRIES = 12  # random states at which forms are checked
REFUSED = 3  # exit status of a program that refuses a formula
_FORM = 1e-8  # relative error with which an energy counts as quadratic, a row as linear


class DescriptionError(ConstraintError):
    """A formula that cannot be used; the text begins with its key."""


@dataclass(frozen=True)
class Parametrisation:
    """Independent coordinates z and formulas psi(z) of all coordinates (FAULRING II).

    Attributes:
        start: number, or formula of the parameters, for each z at the start, by name.
        coordinates: formula of z and the parameters for each coordinate, by name.
    """

    start: Mapping[str, str | float]
    coordinates: Mapping[str, str]


@dataclass(frozen=True)
class Description:
    """Formulas of a system, as texts.

    Attributes:
        coordinates: names, in the order of q; parameters: names, in the order of their values.
        kinetic: kinetic energy [J], quadratic in the rates; potential: potential energy [J].
        definitions: names for formulas that others use.
        forces: generalised forces by coordinate, beside those of the potential.
        positions: c(q, t) = 0; velocities: linear in the rates, = 0.
        position, rotation: of the held frame in the world, (3,) [m] and (3, 3).
        parametrisation: of the configurations on the constraints, or None.

    Raises:
        DescriptionError: a formula is wrong: names it, the place in it, and what is allowed.
    """

    coordinates: tuple[str, ...]
    parameters: tuple[str, ...]
    kinetic: str
    potential: str = "0"
    definitions: Mapping[str, str] = field(default_factory=dict)
    forces: Mapping[str, str] = field(default_factory=dict)
    positions: tuple[str, ...] = ()
    velocities: tuple[str, ...] = ()
    position: tuple[str, ...] = ("0", "0", "0")
    rotation: tuple[tuple[str, ...], ...] = IDENTITY
    parametrisation: Parametrisation | None = None
    trees: dict[str, Tree] = field(init=False, repr=False, compare=False)
    defined: dict[str, Tree] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check_names()
        object.__setattr__(self, "defined", {})
        object.__setattr__(self, "trees", {})
        q, p = set(self.coordinates), set(self.parameters)
        v = {name + RATE for name in self.coordinates}
        moving: set[str] = set()  # definitions that hold rates
        timed: set[str] = set()  # or the time
        for name, text in self.definitions.items():
            tree = self._parse(f"definitions.{name}", text, q | p | v | {"t"} | set(self.defined))
            used = set(names_in(tree))
            if used & (v | moving):
                moving.add(name)
            if used & ({"t"} | timed):
                timed.add(name)
            self.defined[name] = tree
        defined = set(self.defined)
        anywhere = q | p | v | {"t"} | defined
        still = (q | p | {"t"} | defined) - moving
        self._add("kinetic", self.kinetic, anywhere)
        self._add("potential", self.potential, still - {"t"} - timed)
        for name, text in self.forces.items():
            if name not in q:
                raise DescriptionError(f"forces.{name}: is not a coordinate: must be of {', '.join(self.coordinates)}")
            self._add(f"forces.{name}", text, anywhere)
        for i, text in enumerate(self.positions):
            self._add(f"positions[{i}]", text, still)
        for i, text in enumerate(self.velocities):
            self._add(f"velocities[{i}]", text, anywhere)
        if len(self.position) != 3 or len(self.rotation) != 3 or any(len(row) != 3 for row in self.rotation):
            raise DescriptionError("hand: must have a position of 3 formulas, and a rotation of 3 rows of 3 formulas")
        for i, text in enumerate(self.position):
            self._add(f"hand.position[{i}]", text, still - {"t"} - timed)
        for i, row in enumerate(self.rotation):
            for j, text in enumerate(row):
                self._add(f"hand.rotation[{i}][{j}]", text, still - {"t"} - timed)
        if self.parametrisation is not None:
            self._add_parametrisation(self.parametrisation, p)

    def _check_names(self) -> None:
        if not 1 <= len(self.coordinates) <= MOST_COORDINATES:
            raise DescriptionError(f"coordinates: has {len(self.coordinates)} names: must have 1 to {MOST_COORDINATES}")
        rows = len(self.positions) + len(self.velocities)
        if rows > MOST_ROWS:
            raise DescriptionError(f"positions, velocities: are {rows} rows: must be at most {MOST_ROWS}")
        seen: dict[str, str] = {}
        groups = {
            "coordinates": self.coordinates,
            "parameters": self.parameters,
            "definitions": tuple(self.definitions),
        }
        if self.parametrisation is not None:
            groups["parametrisation.start"] = tuple(n for n in self.parametrisation.start if n not in self.coordinates)
        for key, names in groups.items():
            for name in names:
                check_name(key, name)
                for taken in (name, name + RATE) if key == "coordinates" else (name,):
                    if taken in seen:
                        raise DescriptionError(f"{key}: the name {taken!r} is already used in {seen[taken]}")
                    seen[taken] = key

    def _add_parametrisation(self, given: Parametrisation, p: set[str]) -> None:
        if not given.start:
            raise DescriptionError("parametrisation.start: must have at least one independent coordinate")
        for name, text in given.start.items():
            if isinstance(text, str):
                self._parse(f"parametrisation.start.{name}", text, p)
        missing = [name for name in self.coordinates if name not in given.coordinates]
        unknown = [name for name in given.coordinates if name not in self.coordinates]
        if missing or unknown:
            wrong = f"lacks {missing[0]}" if missing else f"{unknown[0]} is not a coordinate"
            raise DescriptionError(
                f"parametrisation.coordinates: {wrong}: must have a formula for each of {', '.join(self.coordinates)}"
            )
        for name in self.coordinates:
            self._add(f"parametrisation.coordinates.{name}", given.coordinates[name], p | set(given.start))

    def _parse(self, key: str, text: str, names: set[str]) -> Tree:
        try:
            return parse(text, names)
        except FormulaError as error:
            raise DescriptionError(f"{key}: {error}") from error

    def _add(self, key: str, text: str, names: set[str]) -> None:
        self.trees[key] = self._parse(key, text, names)

    @property
    def n(self) -> int:
        """Number of coordinates."""
        return len(self.coordinates)

    @property
    def rates(self) -> tuple[str, ...]:
        """Names of the rates of the coordinates."""
        return tuple(name + RATE for name in self.coordinates)

    @property
    def row_names(self) -> tuple[str, ...]:
        """Keys of the rows, those of positions first."""
        return (
            *(f"positions[{i}]" for i in range(len(self.positions))),
            *(f"velocities[{i}]" for i in range(len(self.velocities))),
        )

    def document(self) -> str:
        """The formulas of the equations of motion as JSON: what is derived from them is kept under its digest."""
        given = self.parametrisation
        return json.dumps(
            {
                "coordinates": self.coordinates,
                "parameters": self.parameters,
                "kinetic": self.kinetic,
                "potential": self.potential,
                "definitions": dict(self.definitions),
                "forces": dict(self.forces),
                "positions": self.positions,
                "velocities": self.velocities,
                "position": self.position,
                "rotation": self.rotation,
                "parametrisation": given and {"start": list(given.start), "coordinates": dict(given.coordinates)},
            }
        )

    @classmethod
    def read(cls, document: str) -> Description:
        """The description of a `document`."""
        content = json.loads(document)
        for key in ("coordinates", "parameters", "positions", "velocities", "position"):
            content[key] = tuple(content[key])
        content["rotation"] = tuple(map(tuple, content["rotation"]))
        if content["parametrisation"] is not None:
            given = content["parametrisation"]
            content["parametrisation"] = Parametrisation(dict.fromkeys(given["start"], 0.0), given["coordinates"])
        return cls(**content)

    def value(
        self,
        key: str,
        q: Sequence[float] | np.ndarray,
        v: Sequence[float] | np.ndarray,
        parameters: Mapping[str, float],
        t: float = 0.0,
    ) -> float:
        """The value of the formula of a key at a state; not a number where it has none."""
        names = self._names(q, map(np.float64, v), parameters, t)
        return float(evaluate(self.trees[key], names))

    def _values(self, keys: Sequence[str], q: np.ndarray, v: np.ndarray, parameters: Mapping[str, float]) -> np.ndarray:
        """Values of the formulas of some keys at a configuration, with m different rates (m, n); (keys, m)."""
        names = self._names(q, v.T, parameters, 0.0)
        return np.stack([np.broadcast_to(evaluate(self.trees[key], names), len(v)) for key in keys])

    def _names(
        self, q: Sequence[float] | np.ndarray, rates: Iterable[Any], parameters: Mapping[str, float], t: float
    ) -> dict[str, Any]:
        """Values of all names in formulas; each rate may be a number or several (m,)."""
        names: dict[str, Any] = {**parameters, "t": np.float64(t)}
        names |= zip(self.coordinates, map(np.float64, q), strict=True)
        names |= zip(self.rates, rates, strict=True)
        for name, tree in self.defined.items():
            names[name] = evaluate(tree, names)
        return names

    def check_forms(self, q: np.ndarray, parameters: Mapping[str, float]) -> None:
        """Check near q at t = 0: the kinetic energy is quadratic in the rates, the rows of velocities are linear.

        What is found here is said at once; the derivation decides for all states and times.

        Raises:
            DescriptionError: one is not.
        """
        random = np.random.default_rng(0)
        keys = ["kinetic", *(f"velocities[{i}]" for i in range(len(self.velocities)))]
        tried = 0
        for _ in range(4 * _TRIES):
            at = q + 0.3 * random.standard_normal(self.n)
            u, w = random.standard_normal((2, self.n))
            rates = np.stack([u, w, u + w, u - w, np.zeros(self.n), 2.0 * u])
            T, *rows = self._values(keys, at, rates, parameters)
            if not np.isfinite(T).all():
                continue
            tried += 1
            size = max(map(abs, T)) + 1e-300
            quadratic = abs(T[2] + T[3] - 2.0 * (T[0] + T[1])) <= _FORM * size and abs(T[4]) <= _FORM * size
            if not (quadratic and abs(T[5] - 4.0 * T[0]) <= _FORM * size):
                raise DescriptionError(
                    f"kinetic: {shortened(self.kinetic)} is not quadratic in the rates: each of its terms must have "
                    f"two of {', '.join(self.rates)} as factors, as m*{self.rates[0]}**2/2 has"
                )
            for i, row in enumerate(rows):
                c = row[[0, 1, 2, 4, 5]]
                size = max(map(abs, c)) + 1e-300
                linear = abs(c[2] - c[0] - c[1] + c[3]) <= _FORM * size
                if np.isfinite(c).all() and not (linear and abs(c[4] - 2.0 * c[0] + c[3]) <= _FORM * size):
                    raise DescriptionError(
                        f"velocities[{i}]: {shortened(self.velocities[i])} is not linear in the rates: each of its "
                        f"terms must have at most one of {', '.join(self.rates)} as a factor"
                    )
            if tried == _TRIES:
                break


def check_name(key: str, name: str) -> None:
    """Check that a name can be used in formulas.

    Raises:
        DescriptionError: it cannot.
    """
    if not (name.isascii() and name[:1].isalpha() and name.replace("_", "a").isalnum() and len(name) <= 40):
        raise DescriptionError(f"{key}: {name[:60]!r} is not a name: must be letters, digits and _, a letter first")
    if name in RESERVED:
        what = "the time" if name == "t" else "a function" if name in FUNCTIONS else "a constant"
        raise DescriptionError(f"{key}: {name!r} is {what} in formulas: choose another name")


def constant(key: str, text: str | float, parameters: Mapping[str, float]) -> float:
    """The value of a number, or of a formula of the parameters.

    Raises:
        DescriptionError: it is none, or not finite.
    """
    if not isinstance(text, str):
        return float(text)
    try:
        value = float(evaluate(parse(text, parameters.keys()), parameters))
    except FormulaError as error:
        raise DescriptionError(f"{key}: {error}") from error
    if not math.isfinite(value):
        raise DescriptionError(f"{key}: {shortened(text)} is not finite with these parameters")
    return value


def shortened(text: str, limit: int = 60) -> str:
    """A formula as an error shows it."""
    return text if len(text) <= limit else text[: limit - 3] + "..."
