"""Energies of the bodies around a tool that is felt through a local model: columns of the samples.

Messages of a local model have the energies of the tool alone. So the surveys of a trial are computed again from the
recorded states of the tool, by an engine that keeps books (`EngineParameters.BOOKS`): the same states give the same
motion, bit by bit, where no survey was lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from haptic_bench.experiment import Trial
from haptic_sim.dynamics.energy import TERMS, UnstableError
from haptic_sim.messages import LocalGeometry, columns
from haptic_sim.tool.tool_side import build_surroundings

PREFIX = "others_energy_"
SUPPLIED = f"{PREFIX}supplied"
"""Column: the part of `others_energy_injected` that is the work of actuators [J]."""


def energy_of_others(trial: Trial, messages: Mapping[str, Sequence[bytes]], ticks: np.ndarray) -> dict[str, np.ndarray]:
    """Columns of a trial at these ticks (rows,); none where an engine keeps no books.

    Of each tick at the first survey after it: what the tool and the others do to one another in a period of the surveys
    is in the books at its end, which are those at the beginning of the engine's last step.
    """
    experiment = trial.experiment
    if not (experiment.asynchronous and experiment.environment.engine.BOOKS and messages.get("local_geometry")):
        return {}
    if not trial.world.elsewhere:  # nothing else moves
        return {}
    surroundings = build_surroundings(trial.world, experiment, experiment.rate)
    books = surroundings.keep_books()  # type: ignore[attr-defined]  # an engine with BOOKS has it
    geometry, state = surroundings.local_geometry(), trial.tool_sizes.tool_state()
    states = dict(zip(columns(state, messages["tool_state"])["tick"].tolist(), messages["tool_state"], strict=True))
    known, values = list[float](), list[np.ndarray]()
    for step, tick in enumerate(_surveyed(geometry, messages["local_geometry"])):
        if tick - 1 not in states:
            continue
        state.load(states[tick - 1])
        try:
            surroundings.survey(state, step, geometry)
        except UnstableError:  # as in the trial, which ended there
            break
        known.append(float(tick))
        values.append(np.array([*books.values, books.supplied]))
    if not values or np.isnan(books.start[0]):  # no step was made
        return {}
    table = np.array(values)
    table[: int(np.argmax(table.any(axis=1)))] = [*books.start, 0.0]  # surveys before the first step
    names = [*(f"{PREFIX}{term}" for term in TERMS), SUPPLIED]
    place = np.minimum(np.searchsorted(known, ticks, side="right"), len(known) - 1)
    place[ticks <= known[0]] = 0  # the start
    return {name: np.ascontiguousarray(table[place, i]) for i, name in enumerate(names)}


def _surveyed(geometry: LocalGeometry, surveys: Sequence[bytes]) -> list[int]:
    """Ticks of recorded surveys, ascending."""
    found: list[int] = np.unique(columns(geometry, surveys)["tick"]).tolist()
    return found
