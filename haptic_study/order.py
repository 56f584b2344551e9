"""The blocks of a session: which conditions a participant has, in which order (`design`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from haptic_sim import inputs
from haptic_sim.parameters import ParameterError
from haptic_study import design
from haptic_study.file import Condition, Study


@dataclass(frozen=True)
class Block:
    """Trials of one task, in one condition or in several that are mixed.

    Attributes:
        number: from 1 on in the session.
        task: its name.
        conditions: one, or all that are mixed.
    """

    number: int
    task: str
    conditions: tuple[Condition, ...]


def number_of(participant: str) -> int:
    """Number by which a participant has a row of a square, or a group: the one at the end of the code.

    Raises:
        ParameterError: the code has none.
    """
    found = re.fullmatch(r"[A-Za-z]*0*([1-9][0-9]{0,8})", participant)
    if found is None:
        shown = inputs.shown(participant)
        raise ParameterError(
            [f"participant {shown}: must end with a number from 1 on, as 01, by which orders are balanced"]
        )
    return int(found[1])


def blocks(study: Study, participant: str) -> list[Block]:
    """The blocks of a participant, in each session alike.

    Raises:
        ParameterError: the participant's code has no number.
    """
    parameters = study.parameters
    number = number_of(participant)
    conditions: list[tuple[Condition, ...]] = [(study.condition({}),)]
    if parameters.factors:
        found = design.blocks(design_of(study), parameters.seed, study.name, number)
        conditions = [tuple(study.condition(levels) for levels in block) for block in found]
    pairs = [(task, some) for some in conditions for task in parameters.tasks]
    return [Block(i, task, some) for i, (task, some) in enumerate(pairs, 1)]


def design_of(study: Study) -> design.DesignParameters:
    """The design of a study with factors, with a trial of each condition: its method has the others."""
    parameters = study.parameters
    within = [name for name, one in parameters.factors.items() if not one.between]
    return design.DesignParameters(
        factors={name: tuple(one.settings) for name, one in parameters.factors.items()},
        between=tuple(name for name in parameters.factors if name not in within),
        blocks=tuple(within) if parameters.design.blocked else (),
        block_order=parameters.design.order,
        order="given",
    )
