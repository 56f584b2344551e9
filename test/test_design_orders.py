"""Orders of conditions: balance, existence by enumeration, dependence on seed, study and participant alone."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats

from haptic_sim.inputs import ParameterError
from haptic_sim.parameters import explain
from haptic_study.design import DesignParameters, blocks, constrained, full, latin_square, sequence, williams
from haptic_study.design.stable import Choices

FACTORS: dict[str, Any] = {"stiffness": [100, 200, 300, 400], "group": ["a", "b"], "hand": ["left", "right"]}


# -- squares -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(1, 31))
def test_williams_designs_are_balanced_for_carry_over(n: int) -> None:
    rows = williams(n)
    assert len(rows) == (n if n % 2 == 0 or n == 1 else 2 * n)
    follows = Counter(pair for row in rows for pair in itertools.pairwise(row))
    assert follows == {(a, b): len(rows) // n for a, b in itertools.permutations(range(n), 2)}
    places = Counter(place for row in rows for place in enumerate(row))
    assert len(places) == n * n and len(set(places.values())) == 1


@given(n=st.integers(1, 12), seed=st.none() | st.integers(0, 10**6))
def test_latin_squares(n: int, seed: int | None) -> None:
    square = np.array(latin_square(n, seed))
    for line in (*square, *square.T):
        assert sorted(line) == list(range(n))
    if seed is None:
        assert square.tolist() == [[(row + column) % n for column in range(n)] for row in range(n)]


def test_full_designs() -> None:
    conditions = full({"a": [1, 2], "b": ["x", "y", "z"]})
    assert [tuple(one.values()) for one in conditions] == list(itertools.product([1, 2], "xyz"))
    assert full({}) == [{}]


@pytest.mark.parametrize("n", [0, -1, 1001, 2.0, True, "3"])
def test_bad_sizes_are_refused(n: Any) -> None:
    with pytest.raises(ParameterError, match=r"n = .*: must be a number of conditions from 1 to 1000"):
        williams(n)


# -- constrained orders ------------------------------------------------------------------------------------------------


def runs(order: list[Any]) -> int:
    return max(len(list(group)) for _, group in itertools.groupby(order))


def exists(counts: tuple[int, ...], most: int) -> bool:
    """By enumeration of all orders."""

    def extend(rest: tuple[int, ...], last: int, run: int) -> bool:
        if not any(rest):
            return True
        for kind, count in enumerate(rest):
            longer = run + 1 if kind == last else 1
            left = tuple(one - (i == kind) for i, one in enumerate(rest))
            if count and longer <= most and extend(left, kind, longer):
                return True
        return False

    return extend(counts, -1, 0)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_orders_are_found_where_they_exist_and_refused_where_not(most: int) -> None:
    for counts in itertools.combinations_with_replacement(range(7), 3):
        items = [kind for kind, count in enumerate(counts) for _ in range(count)]
        if not 0 < len(items) <= 11:
            continue
        if exists(counts, most):
            for seed in range(3):
                order = constrained(items, most, seed)
                assert sorted(order) == items and runs(order) <= most
        else:
            with pytest.raises(
                ParameterError, match=f"no_more_than = {most}: no such order exists: {max(counts)} items"
            ):
                constrained(items, most)


@settings(max_examples=40)
@given(counts=st.lists(st.integers(0, 25), min_size=1, max_size=6), most=st.integers(1, 4), seed=st.integers(0, 99))
def test_large_orders(counts: list[int], most: int, seed: int) -> None:
    items = [kind for kind, count in enumerate(counts) for _ in range(count)]
    if any(count > most * (len(items) - count + 1) for count in counts):
        with pytest.raises(ParameterError, match="no such order exists"):
            constrained(items, most, seed)
    elif items:
        order = constrained(items, most, seed)
        assert sorted(order) == items and runs(order) <= most


def test_every_order_is_possible_and_without_a_binding_constraint_equally_probable() -> None:
    orders = Counter(tuple(constrained([0, 0, 1, 1], 2, seed)) for seed in range(600))
    assert len(orders) == 6 and stats.chisquare(list(orders.values())).pvalue > 1e-3
    assert len({tuple(constrained([0, 0, 1, 1], 1, seed)) for seed in range(40)}) == 2
    three = {tuple(constrained([0, 0, 1, 1, 2], 1, seed)) for seed in range(400)}
    admissible = {one for one in itertools.permutations([0, 0, 1, 1, 2]) if runs(list(one)) == 1}
    assert three == admissible


def test_what_is_alike_may_be_one_key() -> None:
    items = [{"side": side, "number": number} for side in "LR" for number in range(6)]
    order = constrained(items, 2, 3, by=lambda one: one["side"])
    assert runs([one["side"] for one in order]) <= 2 and sorted(map(str, order)) == sorted(map(str, items))
    with pytest.raises(ParameterError, match="no_more_than = 0: must be a whole number >= 1"):
        constrained(items, 0)


# -- sequences ---------------------------------------------------------------------------------------------------------


def design(**changes: Any) -> DesignParameters:
    return DesignParameters.model_validate({"factors": FACTORS} | changes)


def problems(**changes: Any) -> str:
    with pytest.raises(ValidationError) as error:
        design(**changes)
    return "\n".join(explain(error.value, DesignParameters))


@pytest.mark.parametrize("order", ["given", "random", "latin_square", "williams", "constrained"])
def test_each_participant_has_all_conditions_within_and_one_level_between(order: str) -> None:
    one = design(between=["group"], blocks=["hand"], order=order, repetitions=3)
    expected = Counter({(s, h): 3 for s in FACTORS["stiffness"] for h in FACTORS["hand"]})
    for participant in range(1, 13):
        conditions = sequence(one, 5, "stiffness", participant)
        assert len(conditions) == one.trials == 24
        assert Counter((c["stiffness"], c["hand"]) for c in conditions) == expected
        assert len({c["group"] for c in conditions}) == 1 and list(conditions[0]) == list(FACTORS)
        parts = blocks(one, 5, "stiffness", participant)
        assert [len({c["hand"] for c in block}) for block in parts] == [1, 1]
        if order == "constrained":
            assert all(runs([c["stiffness"] for c in block]) <= 2 for block in parts)


def test_groups_and_rows_are_balanced() -> None:
    """Groups after each two participants, rows of the Williams design within each group after each eight."""
    one = design(between=["group"], blocks=["hand"], order="williams", block_order="latin_square")
    first = [blocks(one, 9, "study", participant) for participant in range(1, 33)]
    groups = [each[0][0]["group"] for each in first]
    assert all(set(groups[i : i + 2]) == {"a", "b"} for i in range(0, 32, 2))
    for i in range(0, 32, 8):
        rows = Counter((each[0][0]["group"], each[0][0]["stiffness"]) for each in first[i : i + 8])
        assert set(rows.values()) == {1} and len(rows) == 8
        hands = Counter((each[0][0]["group"], each[0][0]["hand"]) for each in first[i : i + 8])
        assert set(hands.values()) == {2}
    assert groups != ["a", "b"] * 16 and groups != ["b", "a"] * 16


def test_random_orders_are_uniform() -> None:
    one = DesignParameters.model_validate({"factors": {"a": [1, 2, 3]}})
    orders = Counter(tuple(c["a"] for c in sequence(one, 1, "s", p)) for p in range(1, 1201))
    assert len(orders) == 6 and stats.chisquare(list(orders.values())).pvalue > 1e-3


def test_orders_depend_on_seed_study_and_participant() -> None:
    one = design(repetitions=4)
    base = sequence(one, 1, "study", 1)
    assert base == sequence(one, 1, "study", 1)
    for other in ((2, "study", 1), (1, "studz", 1), (1, "study", 2)):
        assert sequence(one, *other) != base


def test_choices_are_those_of_an_independent_computation() -> None:
    """So they do not change with the process, Python's hashes of texts or NumPy's generators."""
    choices = Choices(7, "study", 3, "order")
    for i in range(50):
        digest = hashlib.sha256(f'[7,"study",3,"order",{i}]'.encode()).hexdigest()
        assert choices.number(i) == (int(digest[:16], 16) >> 11) * 2.0**-53
    assert choices.shuffled(range(5)) == [3, 2, 1, 4, 0]  # studies that have begun rely on it


def test_purposes_are_not_confused() -> None:
    assert Choices(1, "ab", "c").number(0) != Choices(1, "a", "bc").number(0)
    assert Choices(1, "a", 1).number(0) != Choices(1, "a1").number(0)


@pytest.mark.parametrize("participant", [0, -1, 1.0, "1", True, None])
def test_participants_are_numbers(participant: Any) -> None:
    with pytest.raises(ParameterError, match=r"participant = .*: must be a number in order of enrolment, from 1"):
        sequence(design(), 1, "study", participant)


def test_bad_designs_are_refused() -> None:
    assert problems(factors={}) == "factors: must have one factor at least"
    assert problems(factors={"a": []}) == "factors.a = []: must be a list of levels, one at least"
    assert problems(factors={"a": [1, 2, 1]}) == "factors.a: level 1 repeated; must be there once"
    assert "factors.a = xy: must be a list" in problems(factors={"a": "xy"})
    assert problems(between=["grop"]).startswith("between[0] = grop: no such factor; did you mean group?")
    assert problems(blocks=["hand", "hand"]) == "blocks[1] = hand: repeated; must be there once"
    assert problems(blocks=["hand"], between=["hand"]).startswith("blocks: hand is between participants")
    assert problems(blocks=["hand"], alike=["hand"]).startswith("alike: hand is constant in a block")
    assert "order = shuffled: must be 'given'" in problems(order="shuffled")
    assert problems(repetitions=0) == "repetitions = 0: must be >= 1"
    assert "no_more_than = 2: no such order exists: 5 items are" in problems(
        factors={"a": [1]}, order="constrained", repetitions=5
    )
    assert problems(factors={"a": list(range(1001))}, order="williams").startswith(
        "order = williams: 1001 conditions; must be at most 1000"
    )
    assert "must be at most 100000 each" in problems(repetitions=10_000)
