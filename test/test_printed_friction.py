"""Friction as it is printed (THESIS 4.6-4.12): against an integration of its own, and what it does that it should not.

The peg of figure 4.6: m = 2 kg between two contacts of 0.175 N each, at 512 Hz.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from conftest import sampled
from offline_runs import run_unrecorded
from test_dissipation import watch
from test_friction import (
    BREAKAWAY,
    CONTACTS,
    DEADBAND,
    KINETIC,
    MASS,
    MODELS,
    NAMES,
    NORMAL_FORCE,
    STATIC,
    STICTION_STIFFNESS,
    TURN,
    Rows,
    drive,
    one_row,
    random_rows,
    random_velocity,
)
from world_builder import G, Simulation, box, plane

from haptic_bench import experiment
from haptic_bench.recording.samples import MessageStore, Samples
from haptic_bench.running.offline import simulate
from haptic_sim.contact import friction
from haptic_sim.contact.friction import friction_forces
from haptic_sim.contact.friction_models import COULOMB, DAHL, KARNOPP, RESET_INTEGRATOR, SLIDES, STICKS
from haptic_sim.dynamics.energy import UnstableError

H = 1 / 512  # [s]
KINETIC_FORCE, STATIC_FORCE = KINETIC * NORMAL_FORCE, STATIC * NORMAL_FORCE  # of a contact [N]
all_models = pytest.mark.parametrize("model", MODELS, ids=NAMES.get)


def swing(t: float) -> float:
    """Force on the peg in the experiment [N]."""
    return 0.1 * math.sin(2 * math.pi * 0.2 * t)


def integrate(model: int, duration: float, damping: float = 0.0, form: str = "printed") -> np.ndarray:
    """Position, friction on the peg and whether it slips at each tick, (ticks, 3): the equations for one direction."""
    x = v = z = centre = 0.0
    slips = False
    out = np.zeros((round(duration / H) + 1, 3))
    for k in range(len(out)):
        if model == RESET_INTEGRATOR:
            slips = (v > -DEADBAND and z >= BREAKAWAY) or (v < DEADBAND and z <= -BREAKAWAY)  # (4.8)
            K_r, a = KINETIC_FORCE / BREAKAWAY, STATIC / KINETIC - 1
            f = -K_r * z if slips else -((1 + a) * K_r * z + damping * v)  # (4.6)
            z += 0.0 if slips else H * v
        elif model == KARNOPP:
            k_f = STATIC_FORCE / BREAKAWAY
            if not slips:
                slips = abs(x - centre) > BREAKAWAY
            elif abs(v) < DEADBAND:
                slips, centre = False, x - KINETIC_FORCE / k_f * np.sign(v)  # (4.10)
            f = -KINETIC_FORCE * np.sign(v) if slips else k_f * (centre - x)  # (4.9)
        elif model == DAHL:
            slips = abs(z) >= BREAKAWAY * (1 - 1e-9)
            f = -KINETIC_FORCE * z / BREAKAWAY  # (4.11)
            z += H * v * (1 - z / BREAKAWAY * np.sign(v)) if slips else H * v  # (4.12)
            z = min(max(z, -BREAKAWAY), BREAKAWAY)
        else:
            slips = abs(v) > DEADBAND
            f = -KINETIC_FORCE * np.sign(v) if slips else -STATIC_FORCE * v / DEADBAND
        out[k] = x, CONTACTS * f, slips
        v += H / MASS * (swing(k * H) + CONTACTS * f)
        x += H * v
    return out


def peg(*settings: str) -> Samples:
    (trial,) = experiment.load("peg_friction", ["contact.friction.form=printed", *settings])
    return run_unrecorded(trial)


@pytest.mark.parametrize(
    ("model", "damping", "duration"),
    [
        (RESET_INTEGRATOR, 118.0, 10.0),
        (RESET_INTEGRATOR, 0.0, 3.0),  # it amplifies rounding, too
        (KARNOPP, 0.0, 10.0),
        (DAHL, 0.0, 10.0),
        (COULOMB, 0.0, 10.0),
    ],
)
def test_the_peg_moves_as_the_printed_equations_say(model: int, damping: float, duration: float) -> None:
    expected = integrate(model, duration, damping)
    found = peg(f"contact.friction.model={NAMES[model]}", f"contact.friction.damping={damping}", f"duration={duration}")
    assert len(found) == len(expected)
    np.testing.assert_allclose(found["tool_px"], expected[:, 0], rtol=0, atol=1e-11)
    np.testing.assert_allclose(found["env_fx"], expected[:, 1], rtol=0, atol=1e-8)
    np.testing.assert_array_equal(found["sliding_contacts"] > 0, expected[:, 2] > 0)
    assert 0 < np.count_nonzero(expected[:, 2]) < len(expected)


def test_a_damping_of_1180_is_unstable_as_printed() -> None:
    """z' = z + h v, v' = v - (h / m)(2 K z + 2 beta v): an eigenvalue below -1 beyond m / h = 1024 N s/m or so."""
    found = peg("contact.friction.damping=1180")
    assert len(found) < 100
    (trial,) = experiment.load("peg_friction", ["contact.friction.form=printed", "contact.friction.damping=1180"])
    said = r"contact\.friction\.form = printed, for which stiffness or damping is too large at rate = 512 Hz"
    with pytest.raises(UnstableError, match=said):
        simulate(trial, MessageStore())
    last = found["tool_vx"][-11:]
    assert (last[1:] * last[:-1] < 0).all()
    k, d = CONTACTS * STICTION_STIFFNESS * H / MASS, CONTACTS * 1180 * H / MASS
    eigenvalues = np.linalg.eigvals([[1, H], [-k, 1 - d]])
    assert abs(last[-1] / last[0]) ** 0.1 == pytest.approx(-eigenvalues.min(), rel=1e-2)
    assert len(peg("contact.friction.damping=1000", "duration=1")) == 513


def test_forward_euler_amplifies_the_oscillation_of_stiction() -> None:
    """By (1 + h^2 w^2)^(1/2) a step, the modulus of both eigenvalues of z' = z + h v, v' = v - h w^2 z."""
    rows = one_row(RESET_INTEGRATOR, printed=True)
    w = math.sqrt(CONTACTS * STICTION_STIFFNESS / MASS)
    step = np.array([[1.0, H], [-H * w**2, 1.0]])
    np.testing.assert_allclose(np.abs(np.linalg.eigvals(step)), math.sqrt(1 + (H * w) ** 2), rtol=1e-12)
    state = np.array([0.0, 1e-6])
    v = state[1]
    for _ in range(400):
        v += H / MASS * CONTACTS * rows.step(np.array([[v, 0.0, 0.0]]))[0, 0]
        state = step @ state
        assert v == pytest.approx(state[1], rel=1e-9, abs=1e-15)
    assert rows.bonds.sliding[0] == STICKS


def test_what_the_largest_force_of_each_model_is() -> None:
    """Drawn out slowly: the reset integrator and the finger pad break at the static friction, Dahl at the kinetic."""
    step = 1e-7  # [m]
    for model, most in ((RESET_INTEGRATOR, STATIC_FORCE), (KARNOPP, STATIC_FORCE), (DAHL, KINETIC_FORCE)):
        rows = one_row(model, printed=True, deadband=1e-6)
        force = -drive(rows, np.tile([step, 0.0, 0.0], (300, 1)))[:, 0]
        assert force.max() == pytest.approx(most, rel=0.011)
        assert force.max() <= most * (1 + 1e-12)
        assert force[-1] == pytest.approx(KINETIC_FORCE, rel=0.011)
        assert rows.bonds.sliding[0] == SLIDES


def test_sticking_again_the_reset_integrator_jumps_and_gains_energy() -> None:
    """From mu_k N to mu_s N, 1/2 a K_r z0^2 from nowhere, and only once it moves back faster than the dead band."""
    rows = one_row(RESET_INTEGRATOR, printed=True)
    drive(rows, np.tile([BREAKAWAY / 10, 0.0, 0.0], (20, 1)))
    assert rows.bonds.sliding[0] == SLIDES
    before = rows.energy()
    slowly = rows.step(np.array([[-0.9 * DEADBAND, 0.0, 0.0]]))[0, 0]
    assert slowly == pytest.approx(-KINETIC_FORCE, rel=1e-9)  # pushes it on without becoming shorter
    assert rows.energy() == before
    back = rows.step(np.array([[-1.1 * DEADBAND, 0.0, 0.0]]))[0, 0]
    assert rows.bonds.sliding[0] == STICKS
    assert back == pytest.approx(-STATIC_FORCE, rel=1e-9)
    stretched = -back / STICTION_STIFFNESS - 1.1 * DEADBAND * H
    assert rows.energy() == pytest.approx(0.5 * STICTION_STIFFNESS * stretched**2, rel=1e-9)
    gain = 0.5 * (STATIC / KINETIC - 1) * KINETIC_FORCE / BREAKAWAY * BREAKAWAY**2
    assert 0.5 * STICTION_STIFFNESS * (back / STICTION_STIFFNESS) ** 2 - before == pytest.approx(gain, rel=1e-9)


def test_the_finger_pad_sticks_at_the_centre_of_4_10_and_misses_the_dead_band() -> None:
    rows = one_row(KARNOPP, printed=True)
    fast = np.array([[1e-2, 0.0, 0.0]])
    for _ in range(5):
        assert rows.step(fast)[0, 0] <= 0.0
    for sign in (-1, 1, -1, 1):  # past the dead band within a step: it slips on, the other way
        assert rows.step(sign * 2e-4 * TURN[:1])[0] == pytest.approx(-sign * KINETIC_FORCE * one_way(TURN[0]), rel=1e-9)
        assert rows.bonds.sliding[0] == SLIDES
    slow = np.array([[0.5 * DEADBAND, 0.0, 0.0]])
    assert rows.step(slow)[0, 0] == pytest.approx(-KINETIC_FORCE, rel=1e-12)
    assert rows.bonds.sliding[0] == STICKS
    z = KINETIC_FORCE / (STATIC_FORCE / BREAKAWAY)
    np.testing.assert_allclose(rows.bonds.strain[0], [z, 0, 0], rtol=1e-12)  # a - c
    consistent = one_row(KARNOPP)
    for _ in range(5):
        consistent.step(fast)
    consistent.step(-2e-4 * fast / 1e-2)
    assert consistent.bonds.sliding[0] == STICKS


def one_way(v: np.ndarray) -> np.ndarray:
    """Direction of a vector in the plane of `one_row`."""
    flat = v * [1, 1, 0]
    return flat / np.linalg.norm(flat)


@all_models
def test_forces_turn_with_the_frame_and_do_not_see_the_normal_velocity(model: int) -> None:
    rng = np.random.default_rng(20293)
    n = 40
    rows = random_rows(rng, model, n, printed=True)
    turned = Rows(model, rows.normal @ TURN.T, rows.normal_force, damping=rows.damping, printed=True)
    for _ in range(30):
        v = random_velocity(rng, n)
        expected = rows.step(v) @ TURN.T
        lifted = v + rng.normal(size=(n, 1)) * 1e-3 * rows.normal
        found = turned.step(lifted @ TURN.T)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * rows.normal_force.max())
        assert (np.abs(np.sum(found * turned.normal, axis=1)) <= 1e-12 * turned.normal_force).all()
    np.testing.assert_array_equal(turned.bonds.sliding, rows.bonds.sliding)
    np.testing.assert_array_equal(turned.viscosity, rows.viscosity)


@pytest.mark.parametrize("model", [RESET_INTEGRATOR, KARNOPP, DAHL], ids=NAMES.get)
def test_in_the_plane_sliding_friction_turns_with_the_motion(model: int) -> None:
    """On a circle of 5 mm: of kinetic friction, against the motion but for the lag z_0 / R."""
    R, steps = 5e-3, 4000
    angle = np.linspace(0, 4 * math.pi, steps + 1)
    x = R * (np.outer(np.cos(angle), TURN[0]) + np.outer(np.sin(angle), TURN[2]))
    d = np.diff(x, axis=0)
    rows = Rows(model, TURN[1:2], np.array([NORMAL_FORCE]), printed=True)
    force = drive(rows, d)[50:]
    along = (d / np.linalg.norm(d, axis=1)[:, None])[50:]
    # the reset integrator's bond breaks up to a step late, and stays that long
    late = np.linalg.norm(d[0]) / BREAKAWAY if model == RESET_INTEGRATOR else 0.0
    length = np.linalg.norm(force, axis=1)
    assert (length >= KINETIC_FORCE * (1 - 1e-9)).all()
    assert (length <= KINETIC_FORCE * (1 + late + 1e-9)).all()
    lag = 1.1 * BREAKAWAY * (1 + late) / R + 2 * np.linalg.norm(d[0]) / R
    np.testing.assert_allclose(force / length[:, None], -along, rtol=0, atol=lag)


@pytest.mark.parametrize("mu", [(0.0, 0.0), (0.3, 0.0), (0.3, 0.3), (0.2, 0.3)])
@pytest.mark.parametrize("deadband", [0.0, 1e-4])
@all_models
def test_at_the_border_and_without_a_number(model: int, mu: tuple[float, float], deadband: float) -> None:
    rows = one_row(model, mu=mu, deadband=deadband, printed=True, damping=50.0)
    for speed in (0.0, 1e-6, 1e-4, 1e-2, 1.0, 1e-2, 1e-4, 1e-6, 0.0, -1e-6, -1.0, -1.0):
        force = rows.step(np.array([[speed, 0.0, 0.0]]))
        assert np.isfinite(force).all() and np.isfinite(rows.bonds.strain).all()
        assert np.isfinite(rows.viscosity).all()
    for bad in (np.nan, np.inf):
        np.testing.assert_array_equal(rows.step(np.array([[bad, 0.0, 0.0]])), 0.0)
        assert not rows.bonds.strain.any()
        rows.step(np.array([[1e-2, 0.0, 0.0]]))
    rows.normal_force[:] = 0.0
    np.testing.assert_array_equal(rows.step(np.array([[1e-2, 0.0, 0.0]])), 0.0)
    assert not rows.bonds.strain.any()


@all_models
def test_the_kernel_is_its_python_function(model: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(20294)
    compiled = random_rows(rng, model, 8, printed=True)
    plain = Rows(
        model,
        compiled.normal,
        compiled.normal_force,
        damping=compiled.damping,
        printed=True,
        kernel=friction_forces.py_func,
    )
    for name in ("release", "_apply_printed_law"):
        monkeypatch.setattr(friction, name, getattr(friction, name).py_func)
    for _ in range(30):
        v = random_velocity(rng, 8)
        np.testing.assert_allclose(plain.step(v), compiled.step(v), rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", sampled(["penalty", "impulse_augmented", "frictional_impulses"], "penalty"))
@all_models
def test_what_a_printed_law_adds_is_numerical(model: int, method: str) -> None:
    """A block that is pushed about: the balance closes, nothing that was dissipated comes back (see `watch`)."""
    settings: dict[str, Any] = {"model": NAMES[model], "form": "printed", "damping": 20.0, "breakaway": 1e-4}
    contact = {"stiffness": 2e4, "damping": 90.0, "friction": settings}
    bodies = {"floor": plane(), "block": box((0, 0, 0.025), (0.1, 0.1, 0.05), (0, 0, 0), 1.0)}
    sim = Simulation(bodies, method, 1000.0, contact, gravity=[0, 0, -G])
    rng = np.random.default_rng(20295)
    table = watch(sim, 1500, 5.0, rng)
    assert table[-1, 5] > 1e-3  # friction


def test_sticking_again_is_the_largest_numerical_gain_of_a_trial() -> None:
    """1/2 a K_r z0^2 for each contact in that step, and what holding the force over it adds."""
    gain = CONTACTS * 0.5 * (STATIC / KINETIC - 1) * KINETIC_FORCE * BREAKAWAY
    samples = peg("duration=4")
    sticks = np.flatnonzero(np.diff((samples["sliding_contacts"] > 0).astype(int)) < 0)
    assert len(sticks) == 1
    # energies are those of the beginning of a tick, the state of sliding that of the step before
    grown = np.diff(samples["energy_numerical"])
    assert abs(int(np.argmax(grown)) - int(sticks[0])) <= 1
    held = STATIC_FORCE * CONTACTS * H * (STATIC_FORCE * CONTACTS + 0.1) / MASS * H / 2
    assert gain <= grown.max() <= gain + held
