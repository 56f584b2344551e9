"""Equations of motion from formulas, by SymPy, and kernels from these; a program of its own.

`python -m haptic_sim.constraints.derivation` reads a `Description.document` and writes Python source. So SymPy is
imported in a process of its own only, which can be ended where a derivation does not end.

From T(q, v), V(q), F(q, v, t), c(q, t) and the rows a(q, v, t) (all formulas):
    M = d2T/dv2,  bias = d(dT/dv)/dq v - dT/dq,  passive = F - dV/dq
    A = dc/dq, b = -dc/dt and A = da/dv, b = -a(q, 0, t); Adot, bdot along v
    J = dp/dq and the columns vee(dR/dq_j R^T) of E, Jdot and Edot along v
Subexpressions that several of them share are computed once.
"""

from __future__ import annotations

import itertools
import math
import resource
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import sympy
from sympy.printing.pycode import PythonCodePrinter

from haptic_sim.constraints.description import REFUSED, Description, DescriptionError, shortened
from haptic_sim.constraints.formulas import Tree, fold

MEMORY = 4 << 30  # [bytes] that a derivation may take
_REDUCED = 300  # terms up to which sin^2 + cos^2 = 1 is used
_STATES = 8  # random ones at which an expression vanishes that is not written as zero
_ZERO = 1e-9  # of the sum of its terms: an expression below this is zero


class Size(sympy.Function):
    """|x|, whose derivative is the sign of x (SymPy's own has those of a complex number)."""

    def fdiff(self, argindex: int = 1) -> Any:
        """The derivative."""
        return Side(self.args[0])


class Side(sympy.Function):
    """The sign of x."""

    def fdiff(self, argindex: int = 1) -> Any:
        """The derivative, without that of the jump."""
        return sympy.Integer(0)


_FUNCTIONS = {
    name: getattr(sympy, name)
    for name in ("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sqrt", "exp", "log", "sinh", "cosh", "tanh")
} | {"abs": Size}
_JOINS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
}


def _number(value: float) -> Any:
    """A number, exactly where it is written with few digits."""
    if abs(value) == math.pi:
        return sympy.pi if value > 0.0 else -sympy.pi
    if value == int(value):
        return sympy.Integer(int(value))
    text = repr(value)
    return sympy.Rational(text) if len(text) <= 16 and "e" not in text else sympy.Float(value)


class Symbols:
    """The formulas of a description as SymPy's expressions."""

    def __init__(self, description: Description):
        self.description = d = description
        self.t = sympy.Symbol("t")
        self.q = [sympy.Symbol(f"q{i}") for i in range(d.n)]
        self.v = [sympy.Symbol(f"v{i}") for i in range(d.n)]
        self.p = [sympy.Symbol(f"p{i}") for i in range(len(d.parameters))]
        self._names: dict[str, Any] = {"t": self.t}
        self._names |= zip(d.coordinates, self.q, strict=True)
        self._names |= zip(d.rates, self.v, strict=True)
        self._names |= zip(d.parameters, self.p, strict=True)
        for name, tree in d.defined.items():
            self._names[name] = self.expression(tree)
        self.k, self.m = len(d.positions), len(d.positions) + len(d.velocities)
        self.T = self["kinetic"]
        self.V = self["potential"]
        self.F = [self[f"forces.{name}"] if name in d.forces else sympy.Integer(0) for name in d.coordinates]
        self.c = [self[f"positions[{i}]"] for i in range(self.k)]
        self.rows = [self[f"velocities[{i}]"] for i in range(self.m - self.k)]
        self.position = [self[f"hand.position[{i}]"] for i in range(3)]
        self.rotation = [[self[f"hand.rotation[{i}][{j}]"] for j in range(3)] for i in range(3)]
        self.still = dict.fromkeys(self.v, sympy.Integer(0))

    def __getitem__(self, key: str) -> Any:
        return self.expression(self.description.trees[key])

    def expression(self, tree: Tree, names: dict[str, Any] | None = None) -> Any:
        """A tree as an expression."""
        known = self._names if names is None else names

        def leaf(node: Tree) -> Any:
            return _number(node[1]) if node[0] == "number" else known[node[1]]

        def join(kind: str, arguments: list[Any]) -> Any:
            return (_JOINS.get(kind) or _FUNCTIONS[kind])(*arguments)

        return fold(tree, leaf, join)

    def along(self, expression: Any, time: bool = True) -> Any:
        """Rate of change along v."""
        rate = sympy.Add(*(expression.diff(q) * v for q, v in zip(self.q, self.v, strict=True)))
        return rate + expression.diff(self.t) if time else rate

    def velocity_rows(self) -> tuple[list[list[Any]], list[Any]]:
        """A and b of all rows."""
        A = [[c.diff(q) for q in self.q] for c in self.c]
        b = [-c.diff(self.t) for c in self.c]
        for row in self.rows:
            A.append([row.diff(v).xreplace(self.still) for v in self.v])
            b.append(-row.xreplace(self.still))
        return A, b

    def angular_velocity(self) -> list[list[Any]]:
        """E (3, n): the angular velocity of the held frame in world axes is E v."""
        R = self.rotation
        E: list[list[Any]] = [[], [], []]
        for q in self.q:
            dR = [[entry.diff(q) for entry in row] for row in R]
            for axis, (i, j) in enumerate(((2, 1), (0, 2), (1, 0))):
                E[axis].append(reduced(sympy.Add(*(dR[i][k] * R[j][k] for k in range(3)))))
        return E

    def wrench_map(self) -> list[list[Any]]:
        """Jacobian (6, n) of the hand: its transpose maps a wrench at the hand point to generalised forces."""
        return [*([entry.diff(q) for q in self.q] for entry in self.position), *self.angular_velocity()]

    def inertia(self) -> list[list[Any]]:
        """M (n, n)."""
        p = [self.T.diff(v) for v in self.v]
        return [[p[i].diff(v).xreplace(self.still) for v in self.v] for i in range(len(self.v))]

    def bias(self) -> list[Any]:
        """Coriolis and centrifugal forces."""
        return [self.along(self.T.diff(v)) - self.T.diff(q) for q, v in zip(self.q, self.v, strict=True)]

    def angles(self) -> list[bool]:
        """Flag of each coordinate: it is an angle, which occurs within a sine, cosine or tangent."""
        everything = [self.T, self.V, *self.F, *self.c, *self.rows, *self.position, *itertools.chain(*self.rotation)]
        found: set[Any] = set()
        for expression in everything:
            for function in expression.atoms(sympy.sin, sympy.cos, sympy.tan):
                found |= function.args[0].free_symbols
        return [q in found for q in self.q]


def reduced(expression: Any) -> Any:
    """The expression with sin^2 + cos^2 = 1 used, if it is a short polynomial of sines and cosines."""
    angles = {f.args[0] for f in expression.atoms(sympy.sin, sympy.cos)}
    if not angles:
        return expression
    expanded = sympy.expand(expression)
    for angle in sorted(angles, key=sympy.default_sort_key):
        if len(sympy.Add.make_args(expanded)) > _REDUCED:
            return expression
        sine, square = sympy.sin(angle), 1 - sympy.cos(angle) ** 2
        expanded = sympy.expand(
            sympy.Add(
                *(
                    term / sine**power * sine ** (power % 2) * square ** (power // 2)
                    if (power := int(term.as_powers_dict().get(sine, 0))) >= 2
                    else term
                    for term in sympy.Add.make_args(expanded)
                )
            )
        )
    return expanded if expanded.count_ops() < expression.count_ops() else expression


def check_forms(s: Symbols) -> None:
    """Check in all states: the kinetic energy is quadratic in the rates, the rows of velocities are linear in them.

    Raises:
        DescriptionError: one is not.
    """
    momenta = [s.T.diff(v) for v in s.v]
    curvatures = [momentum.diff(v) for momentum in momenta for v in s.v]
    lower = [entry.xreplace(s.still) for entry in (s.T, *momenta)]
    if not all(_vanishes(entry) for entry in (*lower, *(one - one.xreplace(s.still) for one in curvatures))):
        raise DescriptionError(
            f"kinetic: {shortened(s.description.kinetic)} is not quadratic in the rates: each of its terms must have "
            f"two of {', '.join(s.description.rates)} as factors, as m*{s.description.rates[0]}**2/2 has"
        )
    for i, row in enumerate(s.rows):
        slopes = [row.diff(v) for v in s.v]
        if not all(_vanishes(slope - slope.xreplace(s.still)) for slope in slopes):
            raise DescriptionError(
                f"velocities[{i}]: {shortened(s.description.velocities[i])} is not linear in the rates: each of its "
                f"terms must have at most one of {', '.join(s.description.rates)} as a factor"
            )


def _vanishes(expression: Any) -> bool:
    """Whether an expression is zero: as it is written, or at all random states at which it has a value."""
    if expression == 0:
        return True
    names = sorted(expression.free_symbols, key=str)
    terms = sympy.Add.make_args(expression)
    values = sympy.lambdify(names, terms, [{"Size": np.abs, "Side": np.sign}, "numpy"])
    at = np.random.default_rng(0).uniform(-2.0, 2.0, (len(names), _STATES))
    with np.errstate(all="ignore"):
        found = np.stack([np.broadcast_to(np.asarray(one, float), _STATES) for one in values(*at)])
    found = found[:, np.isfinite(found).all(axis=0)]
    return bool(np.all(np.abs(found.sum(axis=0)) <= _ZERO * np.abs(found).sum(axis=0)))


class _Printer(PythonCodePrinter):
    """Expressions as source for Numba."""

    def _print_Float(self, expression: Any) -> str:
        return repr(float(expression))

    def _print_Size(self, expression: Any) -> str:
        return f"abs({self._print(expression.args[0])})"

    def _print_Side(self, expression: Any) -> str:
        return f"math.copysign(1.0, {self._print(expression.args[0])})"

    def _print_ImaginaryUnit(self, expression: Any) -> str:
        return "math.nan"

    def _print_ComplexInfinity(self, expression: Any) -> str:
        return "math.nan"


def source(description: Description) -> str:
    """Python source of the kernels `evaluate` and `observe`, and of `place` where there is a parametrisation.

    `evaluate` fills M, bias, passive, c, A, Adot, b, bdot, J, E, in this order, rows first; `observe` what comes after
    them: the position of the held frame, its orientation, Jdot, Edot, the potential energy, and of the forces F: their
    power F v, its rate at constant v, and its derivatives by v. What is always zero is not written.

    Raises:
        DescriptionError: see `check_forms`.
    """
    s = Symbols(description)
    check_forms(s)
    A, b = s.velocity_rows()
    M = s.inertia()
    dynamics = [
        *itertools.chain(*M),
        *s.bias(),
        *(force - s.V.diff(q) for force, q in zip(s.F, s.q, strict=True)),
        *s.c,
        *itertools.chain(*A),
        *(s.along(entry) for entry in itertools.chain(*A)),
        *b,
        *(s.along(entry) for entry in b),
        *(entry.diff(q) for entry in s.position for q in s.q),
    ]
    E = list(itertools.chain(*s.angular_velocity()))
    power = sympy.Add(*(force * v for force, v in zip(s.F, s.v, strict=True)))
    observed = [
        *s.position,
        *itertools.chain(*s.rotation),
        *(s.along(entry.diff(q), time=False) for entry in s.position for q in s.q),
        *(s.along(entry, time=False) for entry in E),
        s.V,
        power,
        s.along(power),
        *(power.diff(v) for v in s.v),
    ]
    R = s.rotation
    planar = s.position[2] == 0 and all(R[i][j] == (i == j) for i, j in ((0, 2), (1, 2), (2, 0), (2, 1), (2, 2)))
    lines = [
        '"""Equations of motion, derived from formulas."""',
        "import math",
        "",
        "from haptic_sim.kernels import kernel",
        "",
        f"PLANAR = {planar}",
        f"DRIVEN = {any(entry != 0 for entry in b)}",
        f"ANGULAR = {tuple(s.angles())!r}",
        "",
    ]
    names = [*((str(s.t), "t"),), *_items("q", s.q), *_items("v", s.v), *_items("p", s.p)]
    lines += _kernel("evaluate", "t, q, v, p, out", names, [*dynamics, *E], 0)
    lines += _kernel("observe", "t, q, v, p, out", names, observed, len(dynamics) + len(E))
    if description.parametrisation is not None:
        lines += _place(s)
    return "\n".join(lines) + "\n"


def _place(s: Symbols) -> list[str]:
    """Kernel that fills psi(z) (n,), its derivatives (n, z) and their rates (n, z)."""
    given = s.description.parametrisation
    assert given is not None
    z = [sympy.Symbol(f"z{i}") for i in range(len(given.start))]
    u = [sympy.Symbol(f"u{i}") for i in range(len(z))]
    names = dict(zip(given.start, z, strict=True)) | dict(zip(s.description.parameters, s.p, strict=True))
    psi = [
        s.expression(s.description.trees[f"parametrisation.coordinates.{name}"], names)
        for name in s.description.coordinates
    ]
    derivatives = [entry.diff(one) for entry in psi for one in z]
    rates = [sympy.Add(*(entry.diff(one) * rate for one, rate in zip(z, u, strict=True))) for entry in derivatives]
    items = [*_items("z", z), *_items("u", u), *_items("p", s.p)]
    return _kernel("place", "z, u, p, out", items, [*psi, *derivatives, *rates], 0)


def _items(array: str, symbols: Sequence[Any]) -> list[tuple[str, str]]:
    return [(str(symbol), f"{array}[{i}]") for i, symbol in enumerate(symbols)]


def _kernel(
    name: str, arguments: str, values: Iterable[tuple[str, str]], outputs: Sequence[Any], offset: int
) -> list[str]:
    printer = _Printer({"fully_qualified_modules": True})
    kept = [(i, expression) for i, expression in enumerate(outputs) if expression != 0]
    shared, results = sympy.cse([expression for _, expression in kept], sympy.numbered_symbols("s"))
    used = {str(symbol) for one in (*(e for _, e in shared), *results) for symbol in one.free_symbols}
    body = [f"{symbol} = {value}" for symbol, value in values if symbol in used and symbol != value]
    body += [f"{symbol} = {printer.doprint(expression)}" for symbol, expression in shared]
    body += [f"out[{offset + i}] = {printer.doprint(e)}" for (i, _), e in zip(kept, results, strict=True)]
    return [
        "",
        '@kernel(error_model="numpy")',
        f"def {name}({arguments}):",
        *(f"    {line}" for line in body or ["pass"]),
        "",
    ]


def limit_memory() -> None:
    """Let this process fail rather than take more than MEMORY."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.setrecursionlimit(20_000)


def main() -> int:
    """Derive what standard input describes; 0, or 1 or REFUSED with the reason on standard error."""
    limit_memory()
    try:
        sys.stdout.write(source(Description.read(sys.stdin.read())))
    except DescriptionError as error:
        sys.stderr.write(str(error))
        return REFUSED
    except MemoryError:
        sys.stderr.write(f"needs more than {MEMORY >> 30} GB of memory")
        return 1
    except RecursionError:
        sys.stderr.write("is too deep")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
