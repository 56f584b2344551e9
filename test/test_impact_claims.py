"""Peg, impacts and held linkages of THESIS 4.4 to 5.4: what decides each claim, and that a wrong trial turns it.

A mutation alters the samples of the trial, or of a variant that it is compared with. A claim that holds shall fail of
it; one that does not hold as published shall hold of what would be as published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from claim_checks import changed, names, scaled
from offline_runs import simulated_once

from haptic_bench import experiment
from haptic_bench.analysis.base import Analysis, analysis_of
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments import corner_peg, frictional_impact, linkage_impact
from haptic_experiments.linkage_topology import Variant

Mutation = Callable[[Trial, Samples], Samples]

UNDECIDED = {"corner_peg": ["coupled_energy"]}
FAIL = {
    "corner_peg": ["spread_forces_lower"],
    "linkage_topology": ["printed_distal"],
    "linkage_controlled": ["boundary_distal", "boundary_middle", "surveyed_explains"],
    "linkage_impact": ["printed_form", "distal_loses_all_along", "bodies_alone_keep_momentum"],
}


@pytest.fixture(scope="module", autouse=True)
def each_trial_once() -> Iterator[None]:
    with simulated_once((corner_peg, "rigid")):
        yield


class Compared:
    """An analysis whose runs are altered each time that it is asked."""

    def __init__(self, name: str):
        (self.trial,) = experiment.load(name, ())
        self.analysis = analysis_of(self.trial.experiment)

    def holds(self, mutation: Mutation) -> dict[str, bool | None]:
        """What is said of claims, by name."""
        compared = self

        class Altered(type(self.analysis)):  # type: ignore[misc]
            def run_unrecorded(self, trial: Trial) -> Samples:
                return mutation(trial, compared.analysis.run_unrecorded(trial))

        analysis: Analysis = Altered()
        findings = analysis.analyse(self.trial, analysis.run_unrecorded(self.trial))
        return {claim.name: claim.holds for claim in findings.claims}


def unaltered(trial: Trial, samples: Samples) -> Samples:
    return samples


# corner_peg


def of_peg(name: str, alter: Callable[[Samples], Samples]) -> Mutation:
    """What alters one of the variants."""
    return lambda trial, samples: alter(samples) if corner_peg.variant(trial.experiment) == name else samples


def deeper(x: float = 0.0, y: float = 0.0) -> Callable[[Samples], Samples]:
    """The hand goes further into the walls [m]."""
    return lambda samples: changed(samples, hand_px=x, hand_py=-y)


def restless(samples: Samples) -> Samples:
    """The hand comes to where it stays 2.9 s after the start."""
    return changed(samples, hand_py=np.where(samples["time"] < 2.9, 2e-4, 0.0))


def hopping(samples: Samples) -> Samples:
    """From 1.5 s on the hand leaves the lower wall ten times a second."""
    time = samples["time"]
    return changed(samples, hand_py=np.where((time > 1.5) & (np.floor(20.0 * time) % 2 == 0), 1e-3, 0.0))


def times(factor: float, *columns: str) -> Callable[[Samples], Samples]:
    return lambda samples: scaled(samples, factor, *columns)


# linkages


def of_linkage(hold: Any, dynamics: Any, penalty: bool, alter: Callable[[Trial, Samples], Samples]) -> Mutation:
    """What alters one of the variants."""
    wanted = Variant(hold, dynamics, penalty)
    return lambda trial, samples: alter(trial, samples) if Variant.of(trial) == wanted else samples


def drifting(speed: float) -> Callable[[Trial, Samples], Samples]:
    """The hand leaves the tool with a speed [m/s]."""

    def alter(trial: Trial, samples: Samples) -> Samples:
        moved = changed(samples, hand_py=speed * samples["time"])
        return moved.with_columns(analysis_of(trial.experiment).columns(trial, moved))

    return alter


def following(part: float) -> Callable[[Trial, Samples], Samples]:
    """The hand is nearer to the tool, at a part of its distance."""

    def alter(trial: Trial, samples: Samples) -> Samples:
        near = {
            f"hand_p{axis}": samples[f"tool_p{axis}"]
            + part * (samples[f"hand_p{axis}"] - samples[f"tool_p{axis}"])
            for axis in "xy"
        }  # fmt: skip
        moved = samples.with_columns(near)
        return moved.with_columns(analysis_of(trial.experiment).columns(trial, moved))

    return alter


def only_surveyed(alter: Callable[[Trial, Samples], Samples]) -> Callable[[Trial, Samples], Samples]:
    """What alters runs with the dynamics of the last update alone."""
    return lambda trial, samples: (
        alter(trial, samples) if trial.experiment.local_model.dynamics == "surveyed" else samples
    )


# linkage_impact


def energy(of: Callable[[Trial, Samples], np.ndarray]) -> Mutation:
    """Another kinetic energy after the collisions."""
    return lambda trial, samples: samples.with_columns({"kinetic_energy_after": of(trial, samples)})


def at(restitution: float, link: int, part: float) -> Mutation:
    """Collisions of a link with a restitution leave a part of the energy."""

    def left(trial: Trial, samples: Samples) -> np.ndarray:
        chosen = samples["restitution"] == restitution
        if linkage_impact.scene_of(trial.experiment).struck != link:
            chosen[:] = False
        return np.where(chosen, part * samples["kinetic_energy_before"], samples["kinetic_energy_after"])

    return energy(left)


def momentum(rule: str, part: float) -> Mutation:
    """A law of restitution keeps a part of the momentum."""

    def alter(trial: Trial, samples: Samples) -> Samples:
        if trial.experiment.contact.self_collision != rule or "momentum_before" not in samples.names:
            return samples
        return samples.with_columns({"momentum_after": part * samples["momentum_before"]})

    return alter


# frictional_impact


def after(body: str, **by: float) -> Mutation:
    """Other velocities of a body after its impact."""

    def alter(trial: Trial, samples: Samples) -> Samples:
        impact = frictional_impact.impact_of(trial, body, samples)
        assert impact is not None
        later = np.arange(len(samples)) > impact.tick
        return changed(samples, **{name: np.where(later, more, 0.0) for name, more in by.items()})

    return alter


TABLE: dict[str, list[tuple[str, Mutation]]] = {
    "corner_peg": [
        ("penetration_x", of_peg("full", deeper(x=1e-3))),
        ("penetration_y", of_peg("full", deeper(y=2e-3))),
        ("spread_penetration_y", of_peg("spread", deeper(y=1e-4))),
        ("saturated_worst", of_peg("scaled", deeper(x=1e-3))),
        ("spread_least_degraded", of_peg("spread", deeper(x=5e-4))),
        ("saturated_settles_last", of_peg("scaled", restless)),
        ("impulses_settle_faster", of_peg("full", restless)),
        ("impulses_settle_faster", of_peg("spread", restless)),
        ("impulses_bounce_less", of_peg("full", hopping)),
        ("energy_lost_at_first_contact", of_peg("full", times(1.1, "hand_vx", "hand_vy"))),
        ("spread_energy", of_peg("spread", times(1.1, "hand_vx", "hand_vy"))),
        ("coupled_penetration_x", of_peg("full", deeper(x=3e-3))),
        ("coupled_penetration_y", of_peg("full", deeper(y=4e-3))),
        ("coupled_energy", of_peg("full", times(1.1, "hand_vx", "hand_vy"))),
        ("forces_at_contact", of_peg("full", times(0.1, "rendered_fx", "rendered_fy"))),
        ("spread_forces_right", of_peg("spread", times(0.7, "rendered_fx"))),
        ("spread_forces_lower", of_peg("spread", times(1.2, "rendered_fy"))),
        ("impacts_passive", of_peg("full", times(2.1, "env_fx", "env_fy"))),
    ],
    "linkage_topology": [
        ("printed_distal", of_linkage("distal", "printed", True, following(0.8))),
        ("printed_middle", of_linkage("middle", "printed", True, drifting(0.03))),
        ("consistent_middle", of_linkage("middle", "consistent", True, drifting(0.003))),
        ("consistent_distal", of_linkage("distal", "consistent", False, drifting(0.001))),
        ("consistent_distal", of_linkage("distal", "consistent", True, drifting(0.001))),
        ("missing_terms", of_linkage("distal", "consistent", False, drifting(0.05))),
    ],
    "linkage_controlled": [
        ("printed_distal", of_linkage("distal", "printed", True, drifting(0.1))),
        ("printed_middle", of_linkage("middle", "printed", True, drifting(0.1))),
        ("boundary_distal", of_linkage("distal", "printed", False, drifting(0.02))),
        ("boundary_middle", of_linkage("middle", "printed", False, drifting(0.02))),
        ("surveyed_explains", of_linkage("distal", "printed", False, only_surveyed(drifting(0.02)))),
        ("consistent_distal", of_linkage("distal", "consistent", False, drifting(1e-4))),
        ("consistent_middle", of_linkage("middle", "consistent", True, drifting(1e-4))),
        ("missing_terms", of_linkage("middle", "consistent", False, drifting(1e-3))),
    ],
    "linkage_impact": [
        ("closed_form", energy(lambda trial, samples: 1.001 * samples["kinetic_energy_after"])),
        (
            "printed_form",
            energy(lambda trial, samples: linkage_impact.energy_left(trial.experiment, samples["restitution"], 1.0)),
        ),
        ("elastic_keeps_energy", at(1.0, 0, 0.999)),
        ("elastic_keeps_energy", at(1.0, 1, 1.001)),
        ("base_loses_part", at(0.0, 0, 1.0)),
        ("base_loses_part", at(0.0, 0, 0.0)),
        ("distal_loses_all", at(0.0, 1, 0.01)),
        ("distal_loses_all_along", at(0.0, 1, 0.0)),
        ("relative_velocity_keeps_momentum", momentum("consistent", 0.99)),
        ("bodies_alone_keep_momentum", momentum("printed", 1.0)),
    ],
    "frictional_impact": [
        ("ball_rolls_or_slides", after("ball", v0=0.1)),
        ("ball_rebounds_backwards", after("ball", v0=0.3)),
        ("rod_slip_state", after("rod", v6=0.1)),
        ("follows_routh", after("ball", v2=0.2)),
        ("follows_routh", after("rod", v8=0.2)),
        ("within_friction_cone", after("ball", v0=-0.2)),
        ("loses_energy", after("ball", v2=3.0)),
    ],
}
ROWS = [(analysis, claim, i) for analysis, rows in TABLE.items() for i, (claim, _) in enumerate(rows)]


@pytest.fixture(scope="module")
def analyses() -> dict[str, Compared]:
    return {name: Compared(name) for name in TABLE}


def published(analysis: str, claim: str) -> bool | None:
    """What the experiment as it is says."""
    return None if claim in UNDECIDED.get(analysis, []) else claim not in FAIL.get(analysis, [])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", TABLE)
def test_each_claim_has_a_mutation_and_is_what_is_known_of_it(name: str, analyses: dict[str, Compared]) -> None:
    declared = names(analyses[name].analysis.CLAIMS)  # type: ignore[arg-type]
    assert {claim for claim, _ in TABLE[name]} == set(declared)
    assert analyses[name].holds(unaltered) == {claim: published(name, claim) for claim in declared}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("analysis", "claim", "row"), ROWS)
def test_a_trial_that_is_wrong_turns_the_claim(
    analysis: str, claim: str, row: int, analyses: dict[str, Compared]
) -> None:
    found = analyses[analysis].holds(TABLE[analysis][row][1])[claim]
    assert found is (published(analysis, claim) is False)
