"""The boundary of passivity in the whole system: the worst hand that linear algebra finds, and other hands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from claim_checks import names

from haptic_bench import experiment
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import MessageStore, Samples
from haptic_bench.replay.resimulation import resimulate
from haptic_control.passivity.coupling import wall_damping
from haptic_experiments.coupling_wall import (
    ANALYSIS,
    FORCE,
    LONGEST,
    SIDES,
    WORLDS,
    gained,
    required_damping,
    variant,
    worst_hand,
)
from haptic_sim.parameters import ParameterError


def trial(*settings: str) -> Trial:
    (only,) = experiment.load("coupling_wall", settings)
    return only


OWN = trial()
K, B, T = 1000.0, 1.2, 1e-3


@pytest.fixture(scope="module")
def measured() -> dict[str, tuple[np.ndarray, float]]:
    return {name: (gained(OWN, run, damping), gain) for name, (run, damping, gain) in ANALYSIS.runs(OWN).items()}


def verdicts(measured: dict[str, tuple[np.ndarray, float]]) -> dict[str, bool | None]:
    return {claim.name: claim.holds for claim in ANALYSIS.claims(measured)}


def run_of(world: str, part: float, forces: np.ndarray) -> np.ndarray:
    """Energy that a hand of some forces (n,) gains over time, with a part of the required damping."""
    table = np.zeros((forces.size, 7))
    table[:, 0], table[:, 1] = np.arange(forces.size) * T, forces
    damping = part * required_damping(OWN.experiment, world)
    one = variant(OWN, damping, world, table)
    duration = {"duration": (forces.size - 1) * T}
    one = replace(one, experiment=one.experiment.model_copy(update=duration))
    return gained(OWN, ANALYSIS.run_unrecorded(one), damping)


def test_all_claims_hold(measured: dict[str, tuple[np.ndarray, float]]) -> None:
    assert verdicts(measured) == dict.fromkeys(names(ANALYSIS.CLAIMS), True)
    assert len(measured) == len(WORLDS) * len(SIDES)


def test_a_long_trial_takes_no_more_memory_for_the_worst_hand() -> None:
    """A minute has 60,001 ticks; a matrix of so many rows and columns would take 29 GB."""
    minute = trial("duration=60")
    damping = SIDES["outside"] * required_damping(minute.experiment, "integrator 2")
    table, gain = worst_hand(minute.experiment, damping, "integrator 2")
    assert len(table) == LONGEST and gain > 0.0
    one = variant(minute, damping, "integrator 2", table)
    assert one.experiment.last_tick == LONGEST - 1
    assert gained(one, ANALYSIS.run_unrecorded(one), damping)[-1] == pytest.approx(gain, rel=1e-3)


def test_the_boundaries_are_those_of_brown() -> None:
    """Of the wall K T/2 + B; method 2 requires more, method 3 as much, method 1 here a little less."""
    required = {world: required_damping(OWN.experiment, world) for world in WORLDS}
    wall = wall_damping(K, B, T)
    assert required["wall"] == pytest.approx(wall) and required["integrator 3"] == pytest.approx(wall)
    assert required["integrator 2"] == pytest.approx(wall * 4.0 / (4.0 - 0.05 * 3.4))
    assert 0.9 * wall < required["integrator 1"] < wall


@pytest.mark.parametrize("world", WORLDS)
def test_no_hand_gains_inside_whatever_it_does(world: str) -> None:
    """Hands that are not from the analysis: noise, a step, alternating forces, and the worst hand of the other side."""
    rng = np.random.default_rng(9)
    other = worst_hand(OWN.experiment, SIDES["outside"] * required_damping(OWN.experiment, world), world)[0][:, 1]
    n = other.size
    hands = [rng.normal(0.0, 0.05, n), np.full(n, 0.05), 0.05 * (-1.0) ** np.arange(n), other]
    for forces in hands:
        assert run_of(world, SIDES["inside"], forces).max() <= 1e-12


def test_the_worst_hand_is_the_worst(measured: dict[str, tuple[np.ndarray, float]]) -> None:
    """Neighbours of the same size gain less, outside."""
    world = "integrator 3"
    damping = SIDES["outside"] * required_damping(OWN.experiment, world)
    forces = worst_hand(OWN.experiment, damping, world)[0][:, 1]
    best = measured[f"{world}, outside"][0][-1]
    assert np.linalg.norm(forces) == pytest.approx(FORCE)
    rng = np.random.default_rng(1)
    for _ in range(5):
        near = forces + rng.normal(0.0, 0.2 * FORCE / np.sqrt(forces.size), forces.size)
        assert run_of(world, SIDES["outside"], FORCE * near / np.linalg.norm(near))[-1] < best


def test_the_hand_of_the_file_is_the_worst_one_just_inside() -> None:
    device: Any = OWN.experiment.device
    assert device.damping[0] == pytest.approx(SIDES["inside"] * required_damping(OWN.experiment, "integrator 3"))
    assert OWN.table is not None
    table, _ = worst_hand(OWN.experiment, device.damping[0], "integrator 3")
    forces = table[:, 1] * np.sign(table[:, 1] @ OWN.table[:, 1])  # an eigenvector has two signs
    np.testing.assert_allclose(OWN.table[:, 1], forces, rtol=0, atol=1e-3 * FORCE)
    np.testing.assert_allclose(OWN.table[:, 0], table[:, 0], rtol=0, atol=1e-12)


def test_a_run_that_is_wrong_fails(measured: dict[str, tuple[np.ndarray, float]]) -> None:
    inside, outside = measured["wall, inside"], measured["wall, outside"]
    swapped = measured | {"wall, inside": outside, "wall, outside": inside}
    assert verdicts(swapped)["inside_gives_nothing"] is False and verdicts(swapped)["outside_gives_energy"] is False
    gains_for_a_tick = inside[0].copy()
    gains_for_a_tick[3] = 1e-9
    assert verdicts(measured | {"wall, inside": (gains_for_a_tick, inside[1])})["inside_gives_nothing"] is False
    assert verdicts(measured | {"wall, outside": (1.01 * outside[0], outside[1])})["as_predicted"] is False
    assert verdicts({name: one for name, one in measured.items() if "wall" not in name})["as_predicted"] is None


def test_quantisation_changes_what_is_measured_and_not_what_is_true() -> None:
    one = trial("device.resolution=[1e-6, 0]", "operator.type=sine", "operator.amplitude=[0.05,0,0,0,0,0]",
                "operator.frequency=20")  # fmt: skip
    store = MessageStore()
    ANALYSIS.simulate(one, store)
    samples = ANALYSIS.samples(one, store.messages)
    steps = samples["hand_px"] / 1e-6
    np.testing.assert_allclose(steps, np.rint(steps), rtol=0, atol=1e-6)
    true = gained(one, samples)
    read = -np.cumsum(samples["operator_fx"][:-1] * np.diff(samples["hand_px"]))
    assert np.abs(true[:-1] - read).max() < 0.05 * 2e-6 and np.any(true[:-1] != read)
    verdict = resimulate(one, store.messages)
    assert (verdict.difference, verdict.unverified) == ("", [])


def test_a_passive_hand_on_a_device_with_a_mass(measured: dict[str, tuple[np.ndarray, float]]) -> None:
    """Other hands and devices are settings; what is passive stays at rest with an arm."""
    one = trial("device.mass=0.05", "operator.type=arm", "operator.path=[[[0,0,0,0],[0.05,0.001,0,0]]]", "duration=1")
    samples: Samples = ANALYSIS.run_unrecorded(one)
    metrics = ANALYSIS.analyse(one, samples, compare=False).metrics
    assert metrics["margin"] == pytest.approx(0.085)
    assert np.abs(samples["hand_vx"][-100:]).max() < 1e-3


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("device.damping=null", "device.mass=0.05"), "needs a device with damping, not device.damping = null"),
        (("device.damping=[0,0]", "device.mass=1"), "needs a device with damping, not device.damping = [0.0, 0.0]"),
        (("controller.type=direct",), "needs controller.type = virtual_coupling, not direct"),
        (("scene.type=enclosure",), "needs the scene empty"),
    ],
)
def test_what_the_study_is_not_about_is_refused(settings: tuple[str, ...], said: str) -> None:
    with pytest.raises(ParameterError) as error:
        trial(*settings)
    assert any(said in problem for problem in error.value.problems)


def test_an_active_coupling_is_refused_unless_it_may_be() -> None:
    active = ("device.damping=[1.6, 0.001]", "device.mass=0.05")
    with pytest.raises(ParameterError, match="is not passive"):
        trial(*active, "controller.allow_active=false")
    assert trial(*active).experiment.controller.type == "virtual_coupling"
    with pytest.raises(ParameterError, match="diverges"):  # next to no mass: it does so without any hand
        trial(active[0])
