"""Expressions of xacro files, `${...}`: the safe part of Python that they use, evaluated within bounds.

There are numbers, texts, lists, mappings, arithmetic, comparisons, conditionals, indexing, comprehensions, functions of
`math`, and a few of Python and of its texts and lists. Nothing else can be reached from an expression: an attribute
is a key of a mapping or one of METHODS, a call is of a function of this module. Numbers have at most BITS bits, texts
and lists LONGEST entries, and a document STEPS operations.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from haptic_sim.errors import HapticsError
from haptic_sim.inputs import shown
from haptic_sim.parameters import did_you_mean, listed

BITS = 4096  # of a whole number
LONGEST = 100_000  # characters of a text, entries of a list
STEPS = 2_000_000  # operations of a document, entries and characters of their results
DEPTH = 40  # of nested operations
CHARACTERS = 10_000  # of an expression


class ExpressionError(HapticsError, ValueError):
    """An expression has no value; the text says why."""


class Budget:
    """Remaining budget of the expressions of a document."""

    def __init__(self) -> None:
        self._left = STEPS

    def spend(self, steps: int = 1) -> None:
        """Count operations.

        Raises:
            ExpressionError: they are too many.
        """
        self._left -= steps
        if self._left < 0:
            raise ExpressionError(f"the expressions of the file take more than {STEPS} steps")


METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        "split rsplit strip lstrip rstrip lower upper title capitalize startswith endswith find count isdigit "
        "join partition rpartition".split()
    ),
    list: frozenset({"index", "count"}),
    tuple: frozenset({"index", "count"}),
    dict: frozenset({"get", "keys", "values", "items"}),
}
"""Methods of values that can be called."""
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_MATH = {
    name: getattr(math, name)
    for name in (
        "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh degrees e exp expm1 fabs floor fmod hypot inf "
        "isclose isfinite isinf isnan ldexp log log10 log1p log2 modf nan pi pow radians sin sinh sqrt tan tanh tau "
        "trunc"
    ).split()
}
_PLAIN: dict[str, Any] = {
    "list": list,
    "dict": dict,
    "len": len,
    "str": lambda value="": _text(value),
    "float": lambda value=0.0: float(value),
    "int": lambda value=0, base=10: _whole(value, base),
    "min": min,
    "max": max,
    "round": lambda value, digits=None: _rounded(value, digits),
    "True": True,
    "False": False,
    "None": None,
    "map": map,
    "sorted": lambda values, reverse=False: sorted(values, reverse=reverse),
    "range": lambda *ends: _range(*ends),
}
_PYTHON = _PLAIN | {
    "abs": abs,
    "all": all,
    "any": any,
    "bool": bool,
    "divmod": divmod,
    "enumerate": lambda values, start=0: list(enumerate(values, start)),
    "reversed": lambda values: list(reversed(values)),
    "sum": lambda values, start=0: _sum(values, start),
    "tuple": tuple,
    "zip": lambda *values: list(zip(*values)),  # noqa: B905  as Python's
    "repr": lambda value: _text(value),
}


class Namespace(dict[str, Any]):
    """Names that an expression reaches by a point, as `math.pi`."""


NAMES: dict[str, Any] = {**_MATH, **_PLAIN, "math": Namespace(_MATH), "python": Namespace(_PYTHON)}
"""Names that all expressions know."""


def evaluate(text: str, names: Mapping[str, Any], budget: Budget) -> Any:
    """The value of an expression.

    Args:
        text: of the expression.
        names: what its names stand for.
        budget: of the document.

    Raises:
        ExpressionError: it is none, has no value, or takes too much time or memory.
    """
    if len(text) > CHARACTERS:
        raise ExpressionError(f"has {len(text)} characters: must have at most {CHARACTERS}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f"not an expression: {getattr(error, 'msg', '') or error or 'too deep'}") from error
    try:
        return _Evaluation(names, budget).value(tree.body)
    except HapticsError:  # of this module, or of a property that the expression needs
        raise
    except ZeroDivisionError as error:
        raise ExpressionError("division by zero") from error
    except KeyError as error:
        raise ExpressionError(f"there is no entry {shown(error.args[0] if error.args else '')}") from error
    except TypeError as error:
        used = dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in names)
        texts = [f"{name} is the text {shown(names[name], 30)}" for name in used if isinstance(names[name], str)]
        raise OperandError(": ".join(filter(None, [str(error), listed(texts, 4)]))) from error
    except (ArithmeticError, AttributeError, LookupError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(str(error) or type(error).__name__) from error


class OperandError(ExpressionError):
    """Values that do not go together, as a text that is divided; an argument may be wrong."""


class _Evaluation:
    """Walks through the tree of one expression."""

    def __init__(self, names: Mapping[str, Any], budget: Budget):
        self._names, self._budget = names, budget
        self._local: dict[str, Any] = {}  # of comprehensions
        self._depth = 0

    def value(self, node: ast.expr) -> Any:
        """Value of a node; the count of operations includes it."""
        self._depth += 1
        if self._depth > DEPTH:
            raise ExpressionError(f"has more than {DEPTH} nested operations")
        take = getattr(self, f"_{type(node).__name__.lower()}", None)
        if take is None:
            raise ExpressionError(f"{_WORDS.get(type(node), type(node).__name__)} cannot be used here")
        found = take(node)
        self._depth -= 1
        return found if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) else self._sized(found)

    def _sized(self, value: Any) -> Any:
        """A new value, within its bounds; what it is made of counts as often as it is used."""
        size = 1
        if isinstance(value, int) and value.bit_length() > BITS:
            raise ExpressionError(f"a number has more than {BITS} bits")
        if isinstance(value, str | list | tuple | dict):
            size = _count(value)
            if size > LONGEST:
                raise ExpressionError(f"a text or list has more than {LONGEST} characters or entries")
        self._budget.spend(size)
        return value

    def _constant(self, node: ast.Constant) -> Any:
        if not isinstance(node.value, str | int | float | None):
            raise ExpressionError(f"{shown(repr(node.value))}: must be a number or a text")
        return node.value

    def _name(self, node: ast.Name) -> Any:
        if node.id in self._local:
            return self._local[node.id]
        if node.id.startswith("__") or node.id not in self._names:
            raise ExpressionError(f"unknown name {node.id}{did_you_mean(node.id, list(self._names))}")
        return self._names[node.id]

    def _attribute(self, node: ast.Attribute) -> Any:
        owner, name = self.value(node.value), node.attr
        if name.startswith("_"):
            raise ExpressionError(f"{name}: attributes that begin with _ cannot be used")
        if isinstance(owner, Mapping) and name in owner:
            return owner[name]
        for kind, methods in METHODS.items():
            if type(owner) is kind and name in methods:
                return _Method(owner, name)
        if isinstance(owner, Mapping):
            raise ExpressionError(f"there is no entry {name}{did_you_mean(name, [str(key) for key in owner])}")
        raise ExpressionError(f"{name}: no such part of {shown(_kind(owner))}")

    def _call(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        arguments: list[Any] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                arguments += self._entries(self.value(argument.value))
            else:
                arguments.append(self.value(argument))
        named = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise ExpressionError("** cannot be used here")
            named[keyword.arg] = self.value(keyword.value)
        if function is map:
            lists = [self._entries(one) for one in arguments[1:]]
            return [self._apply(arguments[0], [*each], {}) for each in zip(*lists, strict=False)]
        return self._apply(function, arguments, named)

    def _apply(self, function: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        if function is map or not callable(function):
            raise ExpressionError(f"{shown(_kind(function))} cannot be called here")
        self._budget.spend(sum(map(_count, arguments)))  # it goes over all entries of what it is given
        result: Any = function(*arguments, **named)
        return self._sized([*result] if isinstance(result, _VIEWS) else result)

    def _binop(self, node: ast.BinOp) -> Any:
        do = _BINARY.get(type(node.op))
        if do is None:
            raise ExpressionError(f"the operator {type(node.op).__name__} cannot be used here")
        a, b = self.value(node.left), self.value(node.right)
        if do is operator.pow:
            self._check_power(a, b)
        elif do is operator.mul:
            for one, other in ((a, b), (b, a)):
                if isinstance(one, str | list | tuple) and isinstance(other, int) and _count(one) * other > LONGEST:
                    raise ExpressionError(f"a text or list has more than {LONGEST} characters or entries")
        elif do is operator.mod and isinstance(a, str):
            if re.search(r"%[^%a-zA-Z]*(\*|\d{3})", a):
                raise ExpressionError("the width of a number in a text must be at most 99")
            if a.count("%") * (100 + _count(b)) > LONGEST:
                raise ExpressionError(f"a text has more than {LONGEST} characters")
        return do(a, b)

    @staticmethod
    def _check_power(a: Any = 0, b: Any = 0) -> None:
        if isinstance(a, int) and isinstance(b, int) and abs(a) > 1 and b * a.bit_length() > BITS:
            raise ExpressionError(f"a number has more than {BITS} bits")
        if isinstance(a, float | int) and isinstance(b, float) and a < 0 and not b.is_integer():
            raise ExpressionError("a negative number has no such power")

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        do = _UNARY.get(type(node.op))
        if do is None:
            raise ExpressionError(f"the operator {type(node.op).__name__} cannot be used here")
        return do(self.value(node.operand))

    def _boolop(self, node: ast.BoolOp) -> Any:
        found = None
        for one in node.values:
            found = self.value(one)
            if bool(found) is isinstance(node.op, ast.Or):
                break
        return found

    def _compare(self, node: ast.Compare) -> bool:
        a = self.value(node.left)
        for op, other in zip(node.ops, node.comparators, strict=True):
            b = self.value(other)
            if not _COMPARE[type(op)](a, b):
                return False
            a = b
        return True

    def _ifexp(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self.value(node.test) else node.orelse)

    def _list(self, node: ast.List) -> list[Any]:
        return [self.value(entry) for entry in node.elts]

    def _tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self.value(entry) for entry in node.elts)

    def _dict(self, node: ast.Dict) -> dict[Any, Any]:
        if any(key is None for key in node.keys):
            raise ExpressionError("** cannot be used here")
        pairs = zip(node.keys, node.values, strict=True)
        return {self.value(key): self.value(value) for key, value in pairs if key is not None}

    def _subscript(self, node: ast.Subscript) -> Any:
        owner = self.value(node.value)
        if not isinstance(owner, str | list | tuple | Mapping):
            raise ExpressionError(f"{shown(_kind(owner))} has no entries")
        if isinstance(node.slice, ast.Slice):
            ends = (node.slice.lower, node.slice.upper, node.slice.step)
            return owner[slice(*(None if end is None else self.value(end) for end in ends))]
        return owner[self.value(node.slice)]

    def _joinedstr(self, node: ast.JoinedStr) -> str:
        parts = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                if part.format_spec is not None or part.conversion not in (-1, 115):
                    raise ExpressionError("a format in a text cannot be used here; use round")
                parts.append(_text(self.value(part.value)))
            else:
                parts.append(str(self.value(part)))
        return "".join(parts)

    def _listcomp(self, node: ast.ListComp) -> list[Any]:
        return [self.value(node.elt) for _ in self._each(node.generators)]

    def _generatorexp(self, node: ast.GeneratorExp) -> list[Any]:
        return [self.value(node.elt) for _ in self._each(node.generators)]

    def _dictcomp(self, node: ast.DictComp) -> dict[Any, Any]:
        return {self.value(node.key): self.value(node.value) for _ in self._each(node.generators)}

    def _each(self, generators: list[ast.comprehension]) -> Iterator[None]:
        """Goes on with the names of a comprehension set, once for each of its entries."""
        first, *others = generators
        depth, before = self._depth, dict(self._local)
        for entry in self._entries(self.value(first.iter)):
            self._budget.spend()
            self._set(first.target, entry)
            if all(self.value(test) for test in first.ifs):
                if others:
                    yield from self._each(others)
                else:
                    yield
            self._depth = depth
        self._local = before

    def _set(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self._local[target.id] = value
            return
        if not isinstance(target, ast.Tuple | ast.List):
            raise ExpressionError("a comprehension sets names only")
        for name, part in zip(target.elts, self._entries(value), strict=True):
            self._set(name, part)

    @staticmethod
    def _entries(value: Any) -> list[Any]:
        if not isinstance(value, str | list | tuple | Mapping):
            raise ExpressionError(f"{shown(_kind(value))} has no entries")
        return list(value)


class _Method:
    """A method of a value, which can be called and nothing else."""

    def __init__(self, owner: Any, name: str):
        self._owner, self._name = owner, name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self._name == "join" and _count(self._owner) * _count(list(*arguments)) > LONGEST:
            raise ExpressionError(f"a text has more than {LONGEST} characters")
        return getattr(self._owner, self._name)(*arguments, **named)


_VIEWS: Any = (type({}.keys()), type({}.values()), type({}.items()))
_WORDS: dict[type[ast.AST], str] = {
    ast.Lambda: "lambda",
    ast.Await: "await",
    ast.NamedExpr: ":=",
    ast.Set: "a set",
    ast.SetComp: "a set",
    ast.Starred: "*",
    ast.Yield: "yield",
}


def _kind(value: Any) -> str:
    for kind, words in ((str, "a text"), (list, "a list"), (dict, "a mapping")):
        if isinstance(value, kind):
            return words
    return f"the value {shown(value)}"


def _text(value: Any) -> str:
    """A value as a text."""
    if callable(value):
        raise ExpressionError("a function is not a text")
    return str(value)


def _count(value: Any, found: int = 0) -> int:
    """Entries of nested lists, and characters of their texts, to a little more than LONGEST."""
    found += 1 + (len(value) if isinstance(value, str) else 0)
    entries = (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    for entry in entries:
        if found > LONGEST:
            break
        found = _count(entry, found)
    return found


def _rounded(value: Any, digits: int | None) -> Any:
    if digits is not None and not -400 <= digits <= 400:
        raise ExpressionError(f"round: {digits} digits: must be from -400 to 400")
    return round(value, digits)


def _whole(value: Any, base: int = 10) -> int:
    return int(value, base) if isinstance(value, str) else int(value)


def _range(*ends: int) -> list[int]:
    values = range(*ends)
    if len(values) > LONGEST:
        raise ExpressionError(f"a list has {len(values)} entries: must have at most {LONGEST}")
    return list(values)


def _sum(values: Any, start: Any = 0) -> Any:
    if not all(isinstance(value, int | float) for value in (*values, start)):
        raise ExpressionError("sum: must be of numbers")
    return sum(values, start)
