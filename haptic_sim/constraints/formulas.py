"""Formulas: a grammar of numbers, names and a few functions, whose texts are data and never code.

    sum      = product {("+" | "-") product}
    product  = factor {("*" | "/") factor}
    factor   = ("+" | "-") factor | power
    power    = atom ["**" factor]
    atom     = number | name | function "(" sum {"," sum} ")" | "(" sum ")"

A text is read into a tree of tuples, whose size, depth and exponents are bounded: ("number", 2.0), ("name", "x"),
("+", a, b), ("-", a, b), ("*", a, b), ("/", a, b), ("**", a, b), ("sin", a), ("atan2", a, b). There is no unary minus:
-a is 0 - a. Nothing of a text reaches Python's `eval`, or a parser that evaluates.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np

from haptic_sim.errors import HapticsError

Tree = tuple[Any, ...]

LONGEST = 20_000  # characters of a formula
DEEPEST = 60  # parentheses, signs and exponents within each other
LARGEST = 5_000  # numbers, names and operations of a formula
STEEPEST = 16.0  # size of an exponent that is a number

FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "sin": (1, np.sin),
    "cos": (1, np.cos),
    "tan": (1, np.tan),
    "asin": (1, np.arcsin),
    "acos": (1, np.arccos),
    "atan": (1, np.arctan),
    "atan2": (2, np.arctan2),
    "sqrt": (1, np.sqrt),
    "exp": (1, np.exp),
    "log": (1, np.log),
    "abs": (1, np.abs),
    "sinh": (1, np.sinh),
    "cosh": (1, np.cosh),
    "tanh": (1, np.tanh),
}
CONSTANTS = {"pi": math.pi}
RESERVED = frozenset((*FUNCTIONS, *CONSTANTS, "t"))
ALLOWED = (
    f"a formula has numbers, names, + - * / **, parentheses, pi, and the functions {', '.join(FUNCTIONS)}"  # for errors
)

_TOKEN = re.compile(
    r"[ \t\r\n]*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)|(?P<name>[A-Za-z][A-Za-z0-9_]*)"
    r"|(?P<mark>\*\*|[-+*/(),])|(?P<end>\Z))"
)
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "**": np.power,
}


class FormulaError(HapticsError, ValueError):
    """Error in a formula, with the place in it; the text follows the formula's name."""


def parse(text: str, names: Collection[str]) -> Tree:
    """The tree of a formula.

    Args:
        text: of the formula.
        names: that it may hold, beside functions and pi.

    Raises:
        FormulaError: it is none; tells the place, what is there, and what is allowed.
    """
    if len(text) > LONGEST:
        raise FormulaError(f"has {len(text)} characters: must have at most {LONGEST}")
    return _Reader(text, names).read()


class _Reader:
    """Reads one formula by recursive descent."""

    def __init__(self, text: str, names: Collection[str]):
        self._text, self._names = text, names
        self._place = self._next = self._depth = self._size = 0
        self._kind = self._token = ""
        self._advance()

    def read(self) -> Tree:
        if self._kind == "end":
            raise FormulaError(f"is empty: must be a formula, such as 0; {ALLOWED}")
        tree = self._sum()
        if self._kind != "end":
            raise self._wrong("an operation or the end")
        return tree

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._next)
        if match is None:
            blank = re.compile(r"[ \t\r\n]*").match(self._text, self._next)
            self._place = blank.end() if blank else self._next
            raise FormulaError(f"{self._here()}: {self._text[self._place]!r} is not allowed; {ALLOWED}")
        self._kind = match.lastgroup or "end"
        self._token, self._place, self._next = match[self._kind], match.start(self._kind), match.end()

    def _here(self, place: int | None = None) -> str:
        """The place that an error names: the number of the character, and the text around it."""
        place = self._place if place is None else place
        before, after = self._text[max(0, place - 15) : place], self._text[place : place + 15]
        ahead = "..." if place > 15 else ""
        return f"character {place + 1} ({ahead}{before}>>>{after}{'...' if place + 15 < len(self._text) else ''})"

    def _wrong(self, wanted: str) -> FormulaError:
        found = "the end" if self._kind == "end" else repr(self._token)
        return FormulaError(f"{self._here()}: {found} found, {wanted} expected; {ALLOWED}")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise FormulaError(f"{self._here()}: more than {DEEPEST} nested parentheses or signs")

    def _counted(self, tree: Tree) -> Tree:
        self._size += 1
        if self._size > LARGEST:
            raise FormulaError(f"{self._here()}: more than {LARGEST} numbers, names and operations")
        return tree

    def _sum(self) -> Tree:
        tree = self._product()
        while self._token in ("+", "-") and self._kind == "mark":
            mark = self._token
            self._advance()
            tree = self._counted((mark, tree, self._product()))
        return tree

    def _product(self) -> Tree:
        tree = self._factor()
        while self._token in ("*", "/") and self._kind == "mark":
            mark, place = self._token, self._place
            self._advance()
            right = self._factor()
            if mark == "/" and value_of(right) == 0.0:
                raise FormulaError(f"{self._here(place)}: division by zero")
            tree = self._counted((mark, tree, right))
        return tree

    def _factor(self) -> Tree:
        if self._kind == "mark" and self._token in ("+", "-"):
            self._deeper()
            mark = self._token
            self._advance()
            tree = self._factor()
            self._depth -= 1
            if mark == "-":
                tree = ("number", -tree[1]) if tree[0] == "number" else self._counted(("-", ("number", 0.0), tree))
            return tree
        return self._power()

    def _power(self) -> Tree:
        base = self._atom()
        if self._token != "**":
            return base
        place = self._place
        self._advance()
        self._deeper()
        exponent = self._factor()
        self._depth -= 1
        value = value_of(exponent)
        if value is None:
            return self._counted(("**", base, exponent))
        if not abs(value) <= STEEPEST:
            raise FormulaError(f"{self._here(place)}: the exponent {value:g} must be at most {STEEPEST:g} in size")
        number = value_of(base)
        if number is None:
            return self._counted(("**", base, ("number", value)))
        try:
            power = float(number**value)
        except (ArithmeticError, TypeError, ValueError):
            raise FormulaError(f"{self._here(place)}: {number:g} ** {value:g} is not a finite real number") from None
        return self._number(power, place)

    def _number(self, value: float, place: int) -> Tree:
        if not abs(value) <= 1e15:
            raise FormulaError(f"{self._here(place)}: the number {value:g} must be at most 1e15 in size")
        return self._counted(("number", value))

    def _atom(self) -> Tree:
        kind, token, place = self._kind, self._token, self._place
        if kind == "number":
            self._advance()
            return self._number(float(token), place)
        if kind == "name":
            self._advance()
            if token in FUNCTIONS:
                return self._call(token, place)
            if self._kind == "mark" and self._token == "(":
                raise FormulaError(f"{self._here(place)}: {token!r} is not a function; {ALLOWED}")
            if token in CONSTANTS:
                return self._counted(("number", CONSTANTS[token]))
            if token not in self._names:
                near = difflib.get_close_matches(token, self._names, 1)
                hint = f" (did you mean {near[0]}?)" if near else ""
                known = ", ".join(sorted(self._names)) or "no names"
                raise FormulaError(
                    f"{self._here(place)}: {token!r} is not a coordinate, parameter or time{hint}: allowed are {known}"
                )
            return self._counted(("name", token))
        if kind == "mark" and token == "(":
            self._deeper()
            self._advance()
            tree = self._sum()
            self._close()
            return tree
        raise self._wrong("a number, a name or a parenthesis")

    def _call(self, name: str, place: int) -> Tree:
        if self._token != "(":
            raise FormulaError(f"{self._here(place)}: the function {name} needs its argument in parentheses")
        self._deeper()
        self._advance()
        arguments = [self._sum()]
        while self._token == "," and self._kind == "mark":
            self._advance()
            arguments.append(self._sum())
        self._close()
        count = FUNCTIONS[name][0]
        if len(arguments) != count:
            raise FormulaError(f"{self._here(place)}: {name} has {len(arguments)} arguments: must have {count}")
        return self._counted((name, *arguments))

    def _close(self) -> None:
        if self._token != ")":
            raise self._wrong("')'")
        self._depth -= 1
        self._advance()


def evaluate(tree: Tree, values: Mapping[str, Any]) -> Any:
    """The value of a formula where its names have values (numbers or arrays); not a number where it has none."""
    done: list[Any] = []
    with np.errstate(all="ignore"):
        for node in _children_first(tree):
            kind = node[0]
            if kind == "number":
                done.append(np.float64(node[1]))
            elif kind == "name":
                done.append(values[node[1]])
            elif kind in _OPERATIONS:
                right = done.pop()
                done.append(_OPERATIONS[kind](done.pop(), right))
            else:
                count, function = FUNCTIONS[kind]
                arguments = done[len(done) - count :]
                del done[len(done) - count :]
                done.append(function(*arguments))
    return done[0]


def value_of(tree: Tree) -> float | None:
    """The value of a formula without names; None if it has any."""
    return None if any(True for _ in names_in(tree)) else float(evaluate(tree, {}))


def names_in(tree: Tree) -> Iterator[str]:
    """The names of a formula, each as often as it is there."""
    return (node[1] for node in _children_first(tree) if node[0] == "name")


def _children_first(tree: Tree) -> Iterator[Tree]:
    """All nodes, each after those that it is made of; without recursion."""
    waiting: list[tuple[Tree, bool]] = [(tree, False)]
    while waiting:
        node, ready = waiting.pop()
        if ready or node[0] in ("number", "name"):
            yield node
        else:
            waiting.append((node, True))
            waiting.extend((child, False) for child in reversed(node[1:]))


def fold(tree: Tree, leaf: Callable[[Tree], Any], join: Callable[[str, list[Any]], Any]) -> Any:
    """Fold a formula: results of `leaf` for numbers and names, joined by `join` for operations and functions."""
    done: list[Any] = []
    for node in _children_first(tree):
        if node[0] in ("number", "name"):
            done.append(leaf(node))
        else:
            count = len(node) - 1
            arguments = done[len(done) - count :]
            del done[len(done) - count :]
            done.append(join(node[0], arguments))
    return done[0]
