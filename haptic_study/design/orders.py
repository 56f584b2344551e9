"""Orders of conditions: factorial designs, Latin squares, designs balanced for carry-over, constrained orders."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from haptic_sim.inputs import ParameterError, shown
from haptic_study.design.stable import Choices

T = TypeVar("T")
LARGEST_SQUARE = 1000  # rows: far more conditions than a person has time for


def full(factors: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All conditions of a full factorial design, the last factor varying fastest.

    Raises:
        ParameterError: a factor has no levels, or one of them twice.
    """
    for name, levels in factors.items():
        if isinstance(levels, str) or not isinstance(levels, Sequence) or not levels:
            raise ParameterError([f"factors.{name} = {shown(levels)}: must be a list of levels, one at least"])
        repeated = [one for i, one in enumerate(levels) if one in levels[:i]]
        if repeated:
            raise ParameterError([f"factors.{name}: level {shown(repeated[0])} repeated; must be there once"])
    return [dict(zip(factors, levels, strict=True)) for levels in itertools.product(*factors.values())]


def latin_square(n: int, seed: int | None = None) -> list[list[int]]:
    """A Latin square: each condition once in each row (participant) and once in each column (position).

    Args:
        n: number of conditions, 0 to n - 1.
        seed: shuffles rows, columns and conditions of the cyclic square; by default that square itself.

    Returns:
        n rows of n conditions. Neighbours are not balanced: see `williams`.
    """
    _check_size(n)
    rows, columns, symbols = (list(range(n)) for _ in range(3))
    if seed is not None:
        rows, columns, symbols = (
            Choices(seed, "latin_square", one).shuffled(range(n)) for one in ("row", "column", "symbol")
        )
    return [[symbols[(row + column) % n] for column in columns] for row in rows]


def williams(n: int) -> list[list[int]]:
    """A design balanced for first-order carry-over: each condition follows each other equally often (Williams 1949).

    The first row is 0, 1, n-1, 2, n-2, ..., whose n - 1 differences modulo n are all different for even n; the other
    rows add 1, 2, ... to it. For odd n the differences of that row and of its reverse hold each difference twice.

    Args:
        n: number of conditions, 0 to n - 1.

    Returns:
        n rows for even n, 2 n for odd n (1 for n = 1), of n conditions. Each is equally often at each position.
    """
    _check_size(n)
    first = [(i + 1) // 2 if i % 2 else (n - i // 2) % n for i in range(n)]
    rows = [[(one + shift) % n for one in first] for shift in range(n)]
    return rows if n % 2 == 0 or n == 1 else rows + [row[::-1] for row in rows]


def _check_size(n: Any) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= LARGEST_SQUARE:
        raise ParameterError([f"n = {shown(n)}: must be a number of conditions from 1 to {LARGEST_SQUARE}"])


def constrained(
    items: Sequence[T],
    no_more_than: int = 2,
    seed: int = 0,
    by: Callable[[T], Hashable] | None = None,
    purpose: Sequence[str | int] = (),
) -> list[T]:
    """A random order with at most `no_more_than` items alike in a row.

    With r = `no_more_than`, the N - c items that are not of a kind leave N - c + 1 places for those c of the kind, each
    with r at most: c <= r (N - c + 1) is necessary for every kind. It is also sufficient, and with the run at the end
    of what is already placed counted against the first place, it says of each next item whether the rest can be placed.
    The next item is drawn among those that leave such a rest, with the probability of its share in what remains: where
    no constraint takes effect that is a shuffle; orders near the constraint are not equally probable.

    Args:
        items: to be ordered.
        no_more_than: longest run of items that are alike.
        seed: of the study; purpose: what else the order depends on.
        by: what of an item decides whether it is like another one; by default the item itself.

    Raises:
        ParameterError: no such order exists; says why.
    """
    if isinstance(no_more_than, bool) or not isinstance(no_more_than, int) or no_more_than < 1:
        raise ParameterError([f"no_more_than = {shown(no_more_than)}: must be a whole number >= 1"])
    kinds = [by(item) if by is not None else item for item in items]
    waiting = {kind: [] for kind in kinds}  # type: dict[Any, list[T]]
    choices = Choices(seed, "constrained", *purpose)
    for i in choices.shuffled(range(len(items))):
        waiting[kinds[i]].append(items[i])
    counts = Counter({kind: len(those) for kind, those in waiting.items()})
    _check_order_exists(counts, len(items), no_more_than)
    order: list[T] = []
    last, run = None, 0
    for index in range(len(items)):
        admissible = [
            kind
            for kind, count in counts.items()
            if count > 0
            and not (order and kind == last and run == no_more_than)
            and _can_follow(kind, counts, last if order else kind, run, no_more_than)
        ]
        total = sum(counts[kind] for kind in admissible)
        left = choices.number(len(items) + index) * total
        for kind in admissible:
            left -= counts[kind]
            if left < 0.0:
                break
        run = run + 1 if order and kind == last else 1
        last = kind
        counts[kind] -= 1
        order.append(waiting[kind].pop())
    return order


def _check_order_exists(counts: Counter[Any], size: int, most: int) -> None:
    for kind, count in counts.items():
        others = size - count
        if count > most * (others + 1):
            raise ParameterError(
                [
                    f"no_more_than = {most}: no such order exists: {count} items are {shown(kind)}, and the "
                    f"{others} others leave {others + 1} places with {most} at most; must be {most * (others + 1)} "
                    f"at most: use a larger no_more_than or fewer repetitions"
                ]
            )


def _can_follow(kind: Any, counts: Counter[Any], last: Any, run: int, most: int) -> bool:
    """Whether the items that remain after one of `kind` can be placed.

    The run at the end then has s items of `kind`: before the first other item only r - s more have a place.
    """
    size = sum(counts.values()) - 1
    s = run + 1 if kind == last else 1
    for other, count in counts.items():
        remaining = count - (other == kind)
        places = size - remaining + 1
        if remaining > most * places - (s if other == kind else 0):
            return False
    return True
