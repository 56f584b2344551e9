"""Conditions of a participant in their order, from the design, the seed, the study and the participant's number.

Nothing else goes in, so that the order is found again after an interruption, on any machine. A factor is between
participants (each has one of its levels), or within them; one that is within may be constant in each block of trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import model_validator

from haptic_sim.inputs import ParameterError, shown
from haptic_sim.parameters import Parameters, did_you_mean, quantity
from haptic_study.design.orders import LARGEST_SQUARE, constrained, full, latin_square, williams
from haptic_study.design.stable import Choices

Condition = dict[str, Any]
"""Level of each factor, by the name of the factor."""
LARGEST_DESIGN = 100_000  # trials of a participant
ByRow = Literal["given", "random", "latin_square", "williams"]


class DesignParameters(Parameters):
    """Design of a study: factors, and in which order a participant gets their levels."""

    factors: dict[str, tuple[Any, ...]] = quantity(description="Levels of each factor, by the name of the factor")
    between: tuple[str, ...] = quantity((), description="Factors of which each participant has one level")
    blocks: tuple[str, ...] = quantity((), description="Factors that are constant within a block of trials")
    block_order: ByRow = quantity("random", description="Order of the blocks; of a square, each participant has a row")
    order: Literal["given", "random", "latin_square", "williams", "constrained"] = quantity(
        "random", description="Order of the conditions in a block; of a square, each participant has a row"
    )
    repetitions: int = quantity(1, ge=1, le=10_000, description="Trials of each condition in its block")
    no_more_than: int = quantity(2, ge=1, le=10_000, description="Longest run of trials alike, of a constrained order")
    alike: tuple[str, ...] = quantity(
        (), description="Factors whose levels make trials alike, of a constrained order; none: all"
    )

    @model_validator(mode="after")
    def _check(self) -> DesignParameters:
        if not self.factors:
            raise ValueError(".factors: must have one factor at least")
        for key in ("between", "blocks", "alike"):
            names = getattr(self, key)
            for i, name in enumerate(names):
                if name not in self.factors:
                    raise ValueError(f".{key}[{i}] = {shown(name)}: no such factor{did_you_mean(name, self.factors)}")
                if name in names[:i]:
                    raise ValueError(f".{key}[{i}] = {shown(name)}: repeated; must be there once")
        for name in self.blocks:
            if name in self.between:
                raise ValueError(f".blocks: {shown(name)} is between participants; must be within them")
        for name in self.alike:
            if name not in self.inner:
                raise ValueError(
                    f".alike: {shown(name)} is constant in a block; must be one of {', '.join(self.inner)}"
                )
        sizes = {key: math.prod(len(self.factors[name]) for name in names) for key, names in self._parts().items()}
        trials = sizes["blocks"] * sizes["order"] * self.repetitions
        if max(trials, sizes["between"]) > LARGEST_DESIGN:
            raise ValueError(
                f".factors: {trials} trials for {sizes['between']} groups: must be at most {LARGEST_DESIGN} each"
            )
        for key, size, order in (("block_order", "blocks", self.block_order), ("order", "order", self.order)):
            if order in ("latin_square", "williams") and sizes[size] > LARGEST_SQUARE:
                raise ValueError(f".{key} = {order}: {sizes[size]} conditions; must be at most {LARGEST_SQUARE}")
        try:
            full(self.factors)
            if self.order == "constrained":
                _constrained(self, full(self._levels(self.inner)), 0, ())
        except ParameterError as error:
            raise ValueError(f".{error}") from None
        return self

    @property
    def inner(self) -> tuple[str, ...]:
        """Factors whose levels change within a block."""
        return tuple(name for name in self.factors if name not in self.between and name not in self.blocks)

    @property
    def trials(self) -> int:
        """Number of trials of a participant."""
        return self.repetitions * math.prod(
            len(levels) for name, levels in self.factors.items() if name not in self.between
        )

    def _parts(self) -> dict[str, tuple[str, ...]]:
        return {"between": self.between, "blocks": self.blocks, "order": self.inner}

    def _levels(self, names: Sequence[str]) -> dict[str, tuple[Any, ...]]:
        return {name: self.factors[name] for name in names}


def blocks(design: DesignParameters, seed: int, study: str, participant: int) -> list[list[Condition]]:
    """The blocks of a participant, each with its conditions in their order.

    Groups of `between` are assigned in random order, all of them once before any of them again, and so are the rows of
    squares within each group: with G groups and R rows, groups are balanced after each G participants, rows after G R.
    A square repeats the row of the participant in each repetition, in each block.

    Args:
        design: of the study.
        seed: of the study; study: its name.
        participant: number in order of enrolment, from 1.

    Raises:
        ParameterError: the number of the participant is not one.
    """
    if isinstance(participant, bool) or not isinstance(participant, int) or participant < 1:
        raise ParameterError([f"participant = {shown(participant)}: must be a number in order of enrolment, from 1"])
    groups = full(design._levels(design.between))
    index, group = _assigned(len(groups), participant - 1, seed, study, "group")
    outer = full(design._levels(design.blocks))
    inner = full(design._levels(design.inner))
    result = []
    for number, place in enumerate(
        _row(design.block_order, len(outer), index, seed, study, participant, "blocks", group)
    ):
        purpose = (study, participant, "order", number)
        if design.order == "constrained":
            conditions = _constrained(design, inner, seed, purpose)
        elif design.order == "random":
            conditions = Choices(seed, *purpose).shuffled(inner * design.repetitions)
        else:
            row = _row(design.order, len(inner), index, seed, study, participant, "order", group)
            conditions = [inner[one] for one in row] * design.repetitions
        result.append([_in_order(design, groups[group] | outer[place] | one) for one in conditions])
    return result


def sequence(design: DesignParameters, seed: int, study: str, participant: int) -> list[Condition]:
    """The conditions of a participant in their order, block after block; see `blocks`."""
    return [condition for block in blocks(design, seed, study, participant) for condition in block]


def _assigned(size: int, index: int, *purpose: Any) -> tuple[int, int]:
    """Round of `size` participants that number `index` belongs to, and its own value of 0 to size - 1 in that round."""
    seed, *source = purpose
    turn = index // size
    return turn, Choices(seed, *source, turn).shuffled(range(size))[index % size]


def _row(
    order: ByRow, size: int, index: int, seed: int, study: str, participant: int, what: str, group: int
) -> list[int]:
    """The order of `size` conditions of participant `index` of a group."""
    if order == "given":
        return list(range(size))
    if order == "random":
        return Choices(seed, study, participant, what).shuffled(range(size))
    rows = williams(size) if order == "williams" else latin_square(size)
    return rows[_assigned(len(rows), index, seed, study, what, "row", group)[1]]


def _constrained(
    design: DesignParameters, inner: list[Condition], seed: int, purpose: Sequence[str | int]
) -> list[Condition]:
    names = design.alike or design.inner
    return constrained(
        inner * design.repetitions,
        design.no_more_than,
        seed,
        by=lambda condition: tuple(shown(condition[name]) for name in names),
        purpose=purpose,
    )


def _in_order(design: DesignParameters, condition: Condition) -> Condition:
    """The condition with its factors in the order of the design."""
    return {name: condition[name] for name in design.factors}
