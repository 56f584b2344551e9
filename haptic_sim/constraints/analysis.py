"""Structure of a system of formulas: growth of its distribution, cyclic coordinates, its state-space form.

A program of its own, as `derivation` is: `python -m haptic_sim.constraints.analysis WHAT` reads JSON (`document`,
`parameters`, `points`) and writes a line of JSON, [name, value], for each part of the answer as soon as it is found.

growth (YUN remark 1): fields X that span the rates which the rows allow, A(q) X = 0, are followed with all their
derivatives at a point up to an order. The derivatives of A are SymPy's; those of X follow from A X = 0, where the free
rates are constant, and those of a bracket [X, Y] = DY X - DX Y by the product rule. Each extension of the
distribution, D_(k+1) = D_k + [D_1, D_k], needs one order more; it ends when nothing is added. Rows with a term b(q, t)
are rows of (q, t), A qd - b td = 0; their dimensions count without that of the time.

state_space: YUN (24-29). The rates of columns in which A is regular depend on the others, eta: qd = S eta + xi.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import sympy

from haptic_sim.constraints.derivation import Size, Symbols, limit_memory, reduced
from haptic_sim.constraints.description import Description

TOO_LONG = "(a formula that is too long to be written)"
RANK_TOLERANCE = 1e-9  # singular value of fields of unit length
MOST_ORDERS = 6  # derivatives of the rows
_EXPLICIT = 2  # free rates up to which the inertia is inverted as a formula

_DETERMINANT = 4  # rows whose determinant is formed: its terms are as many as their permutations
_READABLE = 400  # characters of a conserved quantity that is written out
_WORKABLE = 20_000  # nodes of a formula of S with which it is worth while to go on
_LONGEST = 2000  # nodes of the tree of a formula of the state-space form that is written out; longer ones fill pages

Jet = list[np.ndarray]  # value (n,), first derivatives (n, n), second ones (n, n, n), ...


def growth(description: Description, parameters: dict[str, float], points: list[list[float]]) -> list[int]:
    """Dimensions of the distribution and of its extensions, the largest over points that satisfy the positions."""
    s = Symbols(description)
    A, b = s.velocity_rows()
    coordinates = list(s.q)
    timed = any(entry != 0 for entry in b)
    if timed:
        A = [[*row, -entry] for row, entry in zip(A, b, strict=True)]
        coordinates.append(s.t)
    values = dict(zip(s.p, (sympy.Float(parameters[name]) for name in description.parameters), strict=True))
    levels = [[entry.xreplace(values) for row in A for entry in row]]
    tensors: list[list[np.ndarray]] = [[] for _ in points]
    found: list[int] = []
    for order in range(MOST_ORDERS + 1):
        if order:
            levels.append([entry.diff(q) for entry in levels[-1] for q in coordinates])
        function = sympy.lambdify(coordinates, levels[order], "math", cse=True)
        for place, point in zip(tensors, points, strict=True):
            at = [*point, 0.0][: len(coordinates)]
            shape = (len(A), len(coordinates), *[len(coordinates)] * order)
            place.append(np.array(function(*at), float).reshape(shape))
        dimensions = [_growth_at(place, description.n + timed, order) for place in tensors]
        length = max(map(len, dimensions))
        found = [max(d[min(i, len(d) - 1)] for d in dimensions) for i in range(length)]
        if len(found) < order + 1:  # one did not grow any more
            break
        rank = np.linalg.matrix_rank(tensors[0][0][: s.k], RANK_TOLERANCE) if s.k else 0
        if found[-1] == len(coordinates) - rank:
            break
    return [dimension - timed for dimension in found]


def _growth_at(A: list[np.ndarray], n: int, order: int) -> list[int]:
    """Dimensions of D_1, ..., D_(order + 1) at a point, up to where they grow, from A and its derivatives there."""
    first = _null_fields(A, n, order)
    dimensions, fields, newest = [len(first)], list(first), first
    for level in range(order):
        pairs = [(x, y) for x in first for y in newest]
        brackets = [_bracket(x, y) for x, y in pairs]
        # the terms of a bracket may cancel: what is left is measured by them
        scale = max((_length(y[1]) * _length(x[0]) + _length(x[1]) * _length(y[0]) for x, y in pairs), default=0.0)
        newest = [brackets[i] for i in _new_ones(fields, brackets, scale)]
        if not newest:
            break
        fields += newest
        dimensions.append(len(fields))
        first = [jet[: order - level] for jet in first]
    return dimensions


def _null_fields(A: list[np.ndarray], n: int, order: int) -> list[Jet]:
    """Jets of fields that span the null space of A: free rates are constant, the others follow."""
    m = A[0].shape[0]
    rows, pivots = _regular_part(A[0])
    free = [j for j in range(n) if j not in pivots]
    inverse = np.linalg.inv(A[0][np.ix_(rows, pivots)]) if rows else np.zeros((0, 0))
    jets = []
    for j in free:
        X: Jet = []
        for r in range(order + 1):
            tensor = np.zeros((n,) * (r + 1))
            if r == 0:
                tensor[j] = 1.0
            right = np.zeros((m,) + (n,) * r)
            for a in range(r + 1):  # the derivative of order r of A X, without A D^r X of the dependent rates
                right += _product(A[a], X[r - a] if a else tensor, a, r - a)
            tensor[pivots] -= np.tensordot(inverse, right[rows], 1) if rows else 0.0
            X.append(tensor)
        jets.append(X)
    return jets


def _product(A: np.ndarray, X: np.ndarray, a: int, b: int) -> np.ndarray:
    """The part of the derivative of order a + b of A X that has a derivatives on A, (m, n, ..., n), symmetric."""
    whole = np.tensordot(A, X, axes=([1], [0]))  # (m, a indices, b indices)
    return _spread(whole, a, b)


def _spread(whole: np.ndarray, a: int, b: int) -> np.ndarray:
    """Sum over the ways in which a + b derivatives are shared out, of which a are on the first factor."""
    r = a + b
    total = np.zeros_like(whole)
    for chosen in itertools.combinations(range(r), a):
        rest = [i for i in range(r) if i not in chosen]
        order = [0] * r
        for position, index in enumerate((*chosen, *rest)):
            order[index] = position
        total += np.transpose(whole, [0, *(1 + i for i in order)])
    return total


def _bracket(x: Jet, y: Jet) -> Jet:
    """[X, Y] = DY X - DX Y, to one order less."""
    jet = []
    for r in range(min(len(x), len(y)) - 1):
        tensor = np.zeros_like(x[r])
        for a in range(r + 1):  # a derivatives on the field that is differentiated already
            for f, g, sign in ((y, x, 1.0), (x, y, -1.0)):
                whole = np.tensordot(f[a + 1], g[r - a], axes=([1], [0]))
                tensor += sign * _spread(whole, a, r - a)
        jet.append(tensor)
    return jet


def _length(tensor: np.ndarray) -> float:
    return float(np.linalg.norm(tensor))


def _new_ones(fields: list[Jet], more: list[Jet], scale: float) -> list[int]:
    """Indices of those of `more`, of this size, whose values are not in the span of the ones before them."""
    basis: list[np.ndarray] = []
    for jet in fields:
        _extend(basis, jet[0])
    return [i for i, jet in enumerate(more) if scale > 0.0 and _extend(basis, jet[0] / scale)]


def _extend(basis: list[np.ndarray], vector: np.ndarray) -> bool:
    rest = vector.astype(float).copy()
    length = float(np.linalg.norm(rest))
    for _ in range(2):
        for one in basis:
            rest -= one * (one @ rest)
    remainder = float(np.linalg.norm(rest))
    if not (length > RANK_TOLERANCE and remainder > RANK_TOLERANCE):
        return False
    basis.append(rest / remainder)
    return True


def _regular_part(A: np.ndarray) -> tuple[list[int], list[int]]:
    """Rows and columns of a regular part of A of full rank, the columns with the largest pivots."""
    rest, rows, columns = A.astype(float).copy(), [], []
    largest = np.abs(rest).max(initial=0.0)
    for _ in range(min(A.shape)):
        i, j = np.unravel_index(int(np.argmax(np.abs(rest))), rest.shape)
        if not abs(rest[i, j]) > RANK_TOLERANCE * largest:
            break
        rows.append(int(i))
        columns.append(int(j))
        rest = rest - np.outer(rest[:, j], rest[i]) / rest[i, j]
        rest[:, columns] = 0.0
        rest[rows] = 0.0
    return rows, columns


def structure(
    description: Description, parameters: dict[str, float], points: list[list[float]]
) -> Iterator[tuple[str, Any]]:
    """Properties of the formulas by the names of `Structure`; the quick ones first."""
    yield "cyclic", cyclic(description)
    yield "conserved", conserved(description)
    yield "growth", growth(description, parameters, points)


def cyclic(description: Description) -> list[str]:
    """Coordinates that appear in no formula: a translation or a turn along them changes nothing."""
    s = Symbols(description)
    A, b = s.velocity_rows()
    found = set().union(*(e.free_symbols for e in (s.T, s.V, *s.F, *s.c, *itertools.chain(*A), *b)))
    return [name for name, q in zip(description.coordinates, s.q, strict=True) if q not in found]


def conserved(description: Description) -> dict[str, str]:
    """Quantities that do not change where no wrench acts, by name.

    The momentum of a coordinate that appears nowhere, if no row binds its rate; the energy, if there are no forces and
    nothing depends on time.
    """
    s = Symbols(description)
    A, b = s.velocity_rows()
    found = {}
    for i in (description.coordinates.index(name) for name in cyclic(description)):
        if s.F[i] == 0 and all(row[i] == 0 for row in A):
            found[f"momentum of {description.coordinates[i]}"] = _shown(s, s.T.diff(s.v[i]))
    if all(force == 0 for force in s.F) and all(entry == 0 for entry in b) and not s.T.has(s.t):
        shown = _shown(s, s.T + s.V)
        found["energy"] = shown if len(shown) <= _READABLE else "kinetic + potential"
    return found


def state_space(
    description: Description, parameters: dict[str, float], points: list[list[float]]
) -> Iterator[tuple[str, Any]]:
    """YUN (24-29): which rates are eta, and the formulas, by their names."""
    s = Symbols(description)
    A, b = s.velocity_rows()
    gamma = sympy.Symbol("gamma_")
    wanted = [entry - gamma * s.c[i] if i < s.k else entry for i, entry in enumerate(b)]
    values = dict(zip(s.p, (sympy.Float(parameters[name]) for name in description.parameters), strict=True))
    values |= dict(zip(s.q, map(sympy.Float, points[0]), strict=True)) | {s.t: sympy.Float(0.0)}
    numbers = np.array([[float(entry.xreplace(values)) for entry in row] for row in A]).reshape(len(A), description.n)
    rows, pivots = _regular_part(numbers)
    free = [j for j in range(description.n) if j not in pivots]
    eta = [sympy.Symbol(f"eta{i + 1}_") for i in range(len(free))]
    bound = sympy.Matrix(len(rows), len(rows), [A[i][j] for i in rows for j in pivots])
    inverse = _inverse(bound) if rows else sympy.zeros(0, 0)
    dependent = -inverse * sympy.Matrix(len(rows), len(free), [A[i][j] for i in rows for j in free])
    offset = inverse * sympy.Matrix(len(rows), 1, [wanted[i] for i in rows])
    S, xi = sympy.zeros(description.n, len(free)), sympy.zeros(description.n, 1)
    for column, j in enumerate(free):
        S[j, column] = 1
    for row, j in enumerate(pivots):
        xi[j] = _simple(offset[row])
        for column in range(len(free)):
            S[j, column] = _simple(dependent[row, column])
    yield "eta", [f"{description.coordinates[j]}_dot" for j in free]
    yield "D", [_shown(s, _simple(bound.det(method="berkowitz"))) if len(rows) <= _DETERMINANT else TOO_LONG]
    yield "S", _table(s, S)
    yield "xi", [row[0] for row in _table(s, xi)]
    E = sympy.Matrix(s.wrench_map()).T
    yield "E", _table(s, E)
    if any(_is_longer(entry, _WORKABLE) for entry in (*S, *xi)):
        yield "given up", "S^T E, S^T M S, S^T (M gamma + V + G), f, g: S is too long for formulas that hold it"
        return
    B = (S.T * E).applyfunc(_simple)
    yield "S^T E", _table(s, B)
    M = sympy.Matrix(s.inertia())
    H = (S.T * M * S).applyfunc(_simple)
    yield "S^T M S", _table(s, H)
    rates = S * sympy.Matrix(len(free), 1, eta) + xi
    drift = rates.applyfunc(lambda e: _along(s, e))
    V = sympy.Matrix(s.bias())
    G = sympy.Matrix([s.V.diff(q) - force for q, force in zip(s.q, s.F, strict=True)])
    h = (S.T * (M * drift + V + G)).applyfunc(_simple)
    yield "S^T (M gamma + V + G)", [row[0] for row in _table(s, h)]
    if len(free) <= _EXPLICIT:
        solved = _inverse(H) if free else sympy.zeros(0, 0)
        f = [*rates, *(-solved * h)]
        yield "f", [_shown(s, _simple(entry)) for entry in f]
        g = [*([[sympy.Integer(0)] * 6] * description.n), *(solved * B).tolist()]
        yield "g", [[_shown(s, _simple(entry)) for entry in row] for row in g]


def _along(s: Symbols, expression: Any) -> Any:
    """Rate of an expression of q and t at constant eta."""
    return sympy.Add(*(expression.diff(q) * v for q, v in zip(s.q, s.v, strict=True))) + expression.diff(s.t)


def _inverse(matrix: Any) -> Any:
    """The inverse, without SymPy's search for zeros by simplification: of names for the entries, where it is larger."""
    if matrix.rows == 1:
        return sympy.Matrix([[1 / matrix[0, 0]]])
    if matrix.rows == 2:
        (a, b), (c, d) = matrix.tolist()
        return sympy.Matrix([[d, -b], [-c, a]]) / _simple(a * d - b * c)
    names: dict[Any, Any] = {}

    def named(entry: Any) -> Any:
        return entry if entry.is_number else names.setdefault(entry, sympy.Symbol(f"entry{len(names)}_"))

    inverse = matrix.applyfunc(named).inv(method="LU", iszerofunc=lambda entry: entry == 0)
    return inverse.xreplace({name: entry for entry, name in names.items()})


def _is_longer(expression: Any, nodes: int) -> bool:
    """Whether the tree of an expression has more nodes; counts no further, as it may have millions."""
    return next(itertools.islice(sympy.preorder_traversal(expression), nodes, None), None) is not None


def _simple(expression: Any) -> Any:
    """The expression, shorter where that is quickly found: without quotients, and not long."""
    if (
        _is_longer(expression, 300)
        or expression.count_ops() > 150
        or any(power.exp.is_negative for power in expression.atoms(sympy.Pow))
    ):
        return expression
    return min(expression, sympy.factor_terms(reduced(expression)), key=lambda e: e.count_ops())


def _table(s: Symbols, matrix: Any) -> list[list[str]]:
    return [[_shown(s, entry) for entry in row] for row in matrix.tolist()]


def _shown(s: Symbols, expression: Any) -> str:
    """A formula in the names of the description; `gamma` is the rate of the stabilisation, eta1, ... are (24)."""
    if _is_longer(expression, _LONGEST):
        return TOO_LONG
    d = s.description
    names: dict[Any, Any] = {}
    for symbols, texts in ((s.q, d.coordinates), (s.v, d.rates), (s.p, d.parameters)):
        names |= {symbol: sympy.Symbol(text) for symbol, text in zip(symbols, texts, strict=True)}
    for symbol in expression.free_symbols:
        if str(symbol).endswith("_") and symbol not in names:
            names[symbol] = sympy.Symbol(str(symbol)[:-1])
    named = expression.xreplace(names).replace(Size, lambda x: sympy.Function("abs")(x))
    return str(named)


def main() -> int:
    """Answer what is asked on standard input."""
    limit_memory()
    given = json.loads(sys.stdin.read())
    description = Description.read(given["document"])
    arguments = description, given["parameters"], given["points"]
    parts = structure(*arguments) if sys.argv[1:] == ["structure"] else state_space(*arguments)
    for part in parts:
        print(json.dumps(part), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
