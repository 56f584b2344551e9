"""Claims of the analyses of friction and of bodies at rest: each turns with a run that is wrong in what it says.

A mutation alters one of the runs that are compared: its samples, or another run in its place. A claim that holds shall
fail of it; one that does not hold as published shall hold of what would be as published.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from claim_checks import changed, names, scaled

from haptic_bench import experiment
from haptic_bench.analysis.base import analysis_of
from haptic_bench.analysis.claims import Claim
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments import bounce_settle, incline, peg_friction, stack

Runs = dict[str, Samples]
Mutation = Callable[[Runs], Runs]
OWN = "own"  # the trial itself, among its references

DURATIONS = {"peg_friction": 4.0, "incline": 0.4, "bounce_settle": 1.65, "stack": 0.2}
"""[s]: long enough to decide everything."""
FAIL = {
    "peg_friction": [
        "slip_and_stick_any_damping",
        "bonds_do_not_drift",
        "overdamping_suppresses_oscillation",
        "damping_ends_compliance",
    ],
    "incline": ["slides_above_printed"],
}


def judge_peg(trial: Trial, runs: Runs) -> list[Claim]:
    references = {name: run for name, run in runs.items() if name != OWN}
    own = peg_friction.variant(trial.experiment)
    return peg_friction._claims(trial, peg_friction._runs(references, own, runs[OWN]))


def judge_incline(trial: Trial, runs: Runs) -> list[Claim]:
    variants = incline._variants(trial, trial.experiment.duration)
    first = next(iter(variants))
    return incline._claims(trial, variants, {first if name == OWN else name: run for name, run in runs.items()})


def judge_bounces(trial: Trial, runs: Runs) -> list[Claim]:
    return bounce_settle._claims(trial, bounce_settle.Motion.of(trial, runs[OWN]), runs)


def judge_stack(trial: Trial, runs: Runs) -> list[Claim]:
    return stack.ANALYSIS.analyse(trial, runs[OWN]).claims


JUDGES: dict[str, Callable[[Trial, Runs], list[Claim]]] = {
    "peg_friction": judge_peg,
    "incline": judge_incline,
    "bounce_settle": judge_bounces,
    "stack": judge_stack,
}


# mutations


def instead(name: str, other: str) -> Mutation:
    """One run is another's."""
    return lambda runs: {**runs, name: runs[other]}


def altered(name: str, alter: Callable[[Samples], Samples]) -> Mutation:
    return lambda runs: {**runs, name: alter(runs[name])}


def stuck(samples: Samples) -> Samples:
    """No contact ever slides."""
    return scaled(samples, 0, "sliding_contacts")


def creeping(samples: Samples) -> Samples:
    """4 µm a second."""
    return changed(samples, tool_px=4e-6 * samples["time"])


def from_tick(tick: int, **by: float) -> Callable[[Samples], Samples]:
    """Something is added from a tick on."""
    return lambda samples: changed(samples, **{n: np.where(samples["tick"] >= tick, x, 0.0) for n, x in by.items()})


def hopping(samples: Samples) -> Samples:
    """The ball collides again at 1.6 s, when it has long been at rest."""
    tick = 1600
    return changed(
        samples,
        v2=np.where(samples["tick"] == tick, -0.1, 0.0),
        colliding=(samples["tick"] == tick).astype(int),
    )


def after_first_bounce(factor: float) -> Callable[[Samples], Samples]:
    """The velocity after the first collision of the ball, that of gravity's step kept."""

    def alter(samples: Samples) -> Samples:
        first = int(np.flatnonzero(samples["colliding"])[0]) + 1
        return scaled(samples, np.where(samples["tick"] == first, factor, 1.0), "v2")

    return alter


ABOVE = f"{math.degrees(math.atan(1.1 * 0.25)):.4g}°"
TABLE: dict[str, list[tuple[str, Mutation]]] = {
    "peg_friction": [
        ("slip_and_stick", altered("printed karnopp", stuck)),
        ("slip_and_stick_any_damping", instead("printed overdamped", "overdamped")),
        ("no_creep", instead("loaded printed critical", "loaded printed coulomb")),
        ("no_creep", instead("loaded printed coulomb", "loaded printed karnopp")),
        ("bonds_do_not_drift", instead("loaded printed dahl", "loaded dahl")),
        ("damping_suppresses_oscillation", instead("printed critical", "printed undamped")),
        ("overdamping_suppresses_oscillation", instead("printed overdamped", "overdamped")),
        ("oscillation_by_model", instead("printed dahl", "printed critical")),
        ("oscillation_by_model", instead("printed critical", "printed karnopp")),
        ("finger_pad_misses_transitions", instead("experiment printed karnopp", "experiment karnopp")),
        ("finger_pad_misses_transitions", instead("experiment printed critical", "experiment printed karnopp")),
        ("damping_ends_compliance", altered("loaded printed critical", lambda s: scaled(s, 0.05, "tool_px"))),
        ("slip_and_stick_consistent", altered(OWN, stuck)),
        ("slip_and_stick_consistent", instead("overdamped", "printed overdamped")),
        ("breaks_at_static_friction", instead("dahl", "printed dahl")),
        ("breaks_at_static_friction", instead("undamped", "printed undamped")),
        ("no_creep_consistent", altered("loaded dahl", creeping)),
        ("no_creep_consistent", instead("loaded coulomb", "loaded karnopp")),
        ("damping_suppresses_oscillation_consistent", instead("overdamped", "undamped")),
        ("no_missed_transitions", instead("experiment karnopp", "experiment printed karnopp")),
        ("compliance_consistent", instead("loaded dahl", "loaded printed dahl")),
        ("finger_pad_is_undamped_bond", instead("karnopp", "dahl")),
        ("finger_pad_is_undamped_bond", instead("printed karnopp", "printed undamped")),
    ],
    "incline": [
        ("sticks_below", altered("constraint at 12°", lambda s: changed(s, speed=2e-6))),
        ("sticks_below", altered(OWN, lambda s: changed(s, sliding=1))),
        ("slides_above", altered(f"penalty at {ABOVE}", lambda s: scaled(s, 1.002, "speed"))),
        ("slides_above", instead(f"penalty at {ABOVE}", f"penalty as printed at {ABOVE}")),
        ("method_independent", instead("constraint at 12°", f"constraint at {ABOVE}")),
        ("sticks_below_printed", instead("penalty as printed at 12°", f"penalty as printed at {ABOVE}")),
        ("slides_above_printed", instead(f"penalty as printed at {ABOVE}", f"penalty at {ABOVE}")),
    ],
    "bounce_settle": [
        ("restitution", altered(OWN, after_first_bounce(1.001))),
        ("bounce_heights", altered(OWN, lambda s: changed(s, q2=np.where(s["tick"] < 450, 4e-3, 0.0)))),
        ("switches", altered(OWN, hopping)),
        ("switches", altered(OWN, from_tick(1640, q2=2e-4))),
        ("lies_on_the_floor", altered(OWN, from_tick(1000, q2=2e-5))),
        ("energy_never_grows", altered(OWN, from_tick(1500, energy_kinetic=1e-6))),
        ("printed_wall_pulls", instead("wall as printed", "wall")),
        ("printed_wall_pulls", instead("wall", "wall as printed")),
    ],
    "stack": [
        ("stands", altered(OWN, from_tick(50, q7=1.1e-4))),
        ("energy_never_grows", altered(OWN, from_tick(50, energy_kinetic=1e-6))),
        ("carries_its_weight", altered(OWN, lambda s: scaled(s, 1.002, "env_fz"))),
    ],
}
ROWS = [(analysis, claim, i) for analysis, rows in TABLE.items() for i, (claim, _) in enumerate(rows)]


class Compared:
    """An analysis's runs, simulated once."""

    def __init__(self, name: str):
        (self.trial,) = experiment.load(name, [f"duration={DURATIONS[name]}"])
        self.analysis = analysis_of(self.trial.experiment)
        own = self.analysis.run_unrecorded(self.trial)
        self._runs = {OWN: own, **self.analysis.analyse(self.trial, own).references}
        self._judge = JUDGES[name]

    def holds(self, mutation: Mutation) -> dict[str, bool | None]:
        """What is said of claims, by name."""
        return {claim.name: claim.holds for claim in self._judge(self.trial, mutation(self._runs))}


@pytest.fixture(scope="module")
def analyses() -> dict[str, Compared]:
    return {name: Compared(name) for name in TABLE}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", TABLE)
def test_each_claim_has_a_mutation_and_is_what_is_known_of_it(name: str, analyses: dict[str, Compared]) -> None:
    declared = names(analyses[name].analysis.CLAIMS)  # type: ignore[arg-type]
    assert {claim for claim, _ in TABLE[name]} == set(declared)
    found = analyses[name].holds(lambda runs: runs)
    assert found == {claim: claim not in FAIL.get(name, []) for claim in declared}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("analysis", "claim", "row"), ROWS)
def test_a_run_that_is_wrong_turns_the_claim(
    analysis: str, claim: str, row: int, analyses: dict[str, Compared]
) -> None:
    found = analyses[analysis].holds(TABLE[analysis][row][1])[claim]
    assert found is (claim in FAIL.get(analysis, []))
