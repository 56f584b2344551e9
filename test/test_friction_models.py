"""Friction laws of other packages: they are called as ours act, and kept within what friction can be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from foreign_laws import AnswerParameters, OwnDahlParameters
from pydantic import ValidationError
from test_friction import BREAKAWAY, DEADBAND, KINETIC, STATIC, Rows, random_rows, random_velocity

from haptic_bench.analysis.base import analysis_of
from haptic_bench.experiment import load
from haptic_bench.recording.samples import Samples
from haptic_sim.contact.foreign_friction import foreign_forces
from haptic_sim.contact.friction import FrictionLaw, FrictionParameters
from haptic_sim.contact.friction_models import DAHL, FrictionModelParameters
from haptic_sim.packed import Packed

LAW = "foreign_laws:OwnDahlParameters"


def forces(model: FrictionModelParameters, rows: Rows, velocity: np.ndarray) -> np.ndarray:
    """Of a law of another package, in place of that of the rows."""
    parameters = FrictionParameters(
        model=model, static=STATIC, kinetic=KINETIC, breakaway=BREAKAWAY, deadband=DEADBAND, damping=rows.damping
    )
    law, n, rubbing = Packed(FrictionLaw.of(parameters)).arrays, len(rows.normal), rows.rubbing
    rubbing.slip[:], rubbing.normal_force[:], rubbing.mobility[:] = velocity, rows.normal_force, rows.mobility
    foreign_forces(law, n, rows.normal, np.tile(rows.mu, (n, 1)), rows.period, rows.bonds, rubbing)
    return rubbing.force.copy()


def test_a_law_of_another_package_gives_what_ours_gives() -> None:
    """The law of Dahl, written twice: to rounding, as ours projects a bond once more."""
    rng = np.random.default_rng(20290)
    ours, others = (random_rows(np.random.default_rng(1), DAHL, 20) for _ in range(2))
    for _ in range(60):
        v = random_velocity(rng, 20)
        expected = ours.step(v)
        np.testing.assert_allclose(forces(OwnDahlParameters(), others, v), expected, rtol=1e-7, atol=1e-12)
        np.testing.assert_array_equal(others.bonds.sliding == 0, ours.bonds.sliding == 0)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"x": 0.01, "z": 5.0}, [0.01, 0.0, 0.0]),  # without what is along the normal
        ({"x": 30.0, "y": -40.0}, [0.6 * STATIC, -0.8 * STATIC, 0.0]),  # within the cone
        ({"x": math.nan}, [0.0, 0.0, 0.0]),
        ({"y": math.inf}, [0.0, 0.0, 0.0]),
        ({"x": 0.01, "stiffness": -1.0}, [0.0, 0.0, 0.0]),
        ({"x": 0.01, "viscosity": -1.0}, [0.0, 0.0, 0.0]),
    ],
)
def test_what_friction_cannot_be_is_not_taken(keys: dict[str, float], expected: list[float]) -> None:
    rows = Rows(DAHL, np.array([[0.0, 0.0, 1.0]]), np.array([1.0]))
    found = forces(AnswerParameters.model_construct(**keys), rows, np.array([[1e-3, 0.0, 0.0]]))
    np.testing.assert_allclose(found, [expected], atol=1e-15)
    assert np.isfinite(rows.bonds.strain).all() and rows.bonds.stiffness[0] == 0.0
    released = forces(AnswerParameters(x=0.01), Rows(DAHL, rows.normal, np.zeros(1)), np.zeros((1, 3)))
    assert not released.any()


def attempt(*settings: str) -> tuple[Samples, str]:
    (trial,) = load("peg_friction", ("duration=1.5", "analysis=trial", *settings))
    return analysis_of(trial.experiment).attempt(trial.in_mode("offline"))


def run(*settings: str) -> Samples:
    samples, reason = attempt(*settings)
    assert not reason
    return samples


def test_a_trial_with_a_law_of_another_package_is_one_with_ours() -> None:
    one, other = run("contact.friction.model=dahl"), run(f"contact.friction.model={LAW}")
    np.testing.assert_allclose(one["tool_px"], other["tool_px"], atol=1e-3 * np.ptp(one["tool_px"]))
    assert np.ptp(one["tool_px"]) > 0.0


@pytest.mark.parametrize("part", [1.0, -1.0])
def test_friction_that_drives_gives_no_energy(part: float) -> None:
    """It is scaled down to what gains nothing; the same law against the motion is friction."""
    model = f"{{type: foreign_laws:DrivingParameters, part: {part}}}"
    samples = run(f"contact.friction.model={model}", "contact.penalty=consistent")
    energies = {name: samples[f"energy_{name}"] for name in ("kinetic", "elastic", "injected", "friction", "numerical")}
    assert energies["numerical"].max() <= 1e-2 * np.abs(energies["injected"]).max()
    assert (energies["friction"][-1] > 0.0) == (part < 0.0)
    assert (np.diff(energies["friction"]) >= 0.0).all()


def test_the_energy_of_friction_that_drives_is_numerical_where_nothing_scales_it() -> None:
    _, reason = attempt("contact.friction.model=foreign_laws:DrivingParameters", "contact.penalty=explicit")
    assert "unstable" in reason


def test_a_law_is_refused_as_ours_are() -> None:
    for given, said in (
        ({"model": {"type": "coulom"}}, "coulom"),
        ({"model": {"type": LAW, "part": 1.0}}, "Extra inputs"),
        ({"model": {"type": LAW}, "form": "printed"}, "one form only; leave it out"),
        ({"model": {"type": "os:getcwd"}}, "not one of the friction_models"),
    ):
        with pytest.raises(ValidationError, match=said):
            FrictionParameters.model_validate(given)
