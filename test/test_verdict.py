"""The verdict on a trial: energy that its display gave to the hand, plausible motion, and claims of what was run."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import answer
from offline_runs import run_unrecorded

from haptic_bench.analysis.base import analyse
from haptic_bench.analysis.claims import Quantity, Statement
from haptic_bench.analysis.verdict import WINDOW, Verdict, _largest, measure, verdict_of
from haptic_bench.experiment import HealthParameters, Trial, load
from haptic_bench.experiment.loading import load_document
from haptic_bench.recording.samples import WRENCH, Samples
from haptic_control.stability import CoupledInertias

RATE = 1000.0
HEALTH = HealthParameters()
ENERGIES = ("kinetic", "potential", "elastic", "injected", "damping", "friction", "impact", "numerical")


def table(n: int, **columns: np.ndarray) -> Samples:
    """Samples of a device that rests and renders nothing, but for some columns; `port` is the energy of its port."""
    zero = np.zeros(n)
    names = [f"energy_{name}" for name in ENERGIES]
    names += [f"{kind}_{axis}" for kind in ("hand", "tool") for axis in ("vx", "vy", "vz", "wx", "wy", "wz")]
    names += [f"{kind}_{axis}" for kind in ("command", "rendered") for axis in WRENCH] + [
        "port_energy_translation",
        "port_energy_rotation",
    ]
    return Samples({"tick": np.arange(n), **dict.fromkeys(names, zero), **columns})


def judged(samples: Samples, *hands: str) -> Verdict:
    return measure(samples, RATE, dict.fromkeys(hands or ("",)), HEALTH)


def test_a_display_that_returns_what_it_received_is_passive() -> None:
    phase = np.linspace(0.0, 6.0 * math.pi, 500)
    found = judged(table(500, port_energy_translation=0.3 * (1.0 - np.cos(phase))))
    assert found.energy_given == found.unexplained == 0.0
    assert found.text == "passive"


def test_what_translation_gives_rotation_may_have_received() -> None:
    samples = table(
        3, port_energy_translation=np.array([0.0, -0.2, -0.5]), port_energy_rotation=np.array([0, 0.2, 0.4])
    )
    assert judged(samples).unexplained == pytest.approx(0.1)


@pytest.mark.parametrize(("friction", "active"), [(0.0, 0.0), (0.15, 0.05)])
def test_what_the_world_had_stored_is_not_active(friction: float, active: float) -> None:
    """A weight of 1 N that sinks by 0.3 m onto the hand gives it 0.3 J, less what friction takes on the way."""
    way = np.linspace(0.0, 0.3, 100)
    given = np.minimum(way, 0.2)
    samples = table(100, energy_potential=-way, energy_friction=friction / 0.3 * way, port_energy_translation=-given)
    found = judged(samples)
    assert found.energy_given == pytest.approx(0.2)
    assert found.unexplained == pytest.approx(np.max(given - way * (1.0 - friction / 0.3)), abs=1e-12)
    assert found.unexplained == pytest.approx(active + (0.05 if friction else 0.0), abs=1e-9)
    assert ("which the world had stored" in found.text) == (active == 0.0)


def test_what_supplied_stores_release_does_not_count() -> None:
    """Where a motion lifts the weight again, nothing says that the hand got what the weight had stored."""
    way = np.linspace(0.0, 0.3, 100)
    samples = table(100, energy_potential=-way, port_energy_translation=-way)
    assert measure(samples, RATE, {"": None}, HEALTH, supplied=True).unexplained == pytest.approx(0.3)
    trial = one("push_arm", "duration=0.1")
    assert verdict_of(trial, run_unrecorded(trial)).stored == 0.0


@pytest.mark.parametrize(
    ("swings", "given", "limit"),
    [(0, 0.0015, 1e-3), (1, 0.0015, 2e-3), (1, 0.0025, 2e-3), (9, 0.009, 0.01), (9, 0.011, 0.01)],
)
def test_a_part_of_what_is_exchanged_may_be_given(swings: int, given: float, limit: float) -> None:
    """0.1 J goes to and fro in each swing: 1 % of it is allowed, 1 mJ at least and 10 mJ at most."""
    port = np.array([0.0, 0.1] * swings + [0.0, -given])
    found = judged(table(len(port), port_energy_translation=port))
    assert found.limit == pytest.approx(limit, rel=0.02)
    assert found.energy_given == pytest.approx(given)
    assert found.verdict == ("active" if given > limit * 1.02 else "passive")


def test_the_inertia_that_a_device_has_beyond_the_tool_is_not_given_to_the_hand() -> None:
    """A device of 1 kg that feels as 0.3 kg needs 0.7 v^2 / 2 of its drive, which no hand takes that feels 0.3 kg."""
    tool = tuple(np.diag([1 / 0.3] * 3 + [1 / 0.01] * 3).ravel().tolist())
    inertias = CoupledInertias(tool=tool, device=(1.0, 0.01))
    speed = np.linspace(0.0, 0.5, 50)
    samples = table(50, hand_vx=speed, port_energy_translation=-0.35 * speed**2)
    found = measure(samples, RATE, {"": inertias}, HEALTH)
    assert found.energy_given == pytest.approx(0.35 * 0.25) and found.unexplained == pytest.approx(0.0, abs=1e-12)
    assert found.text == "passive: the drive supplied 87.5 mJ to the device's own inertia"
    lighter = inertias.model_copy(update={"device": (0.3, 0.01)})
    assert measure(samples, RATE, {"": lighter}, HEALTH).verdict == "active"


def test_a_heavy_device_renders_a_light_tool() -> None:
    document = {
        "name": "light",
        "duration": 0.5,
        "rate": 1000.0,
        "scene": {"type": "world", "gravity": [0, 0, 0], "bodies": {"ball": {"joint": "free", "mass": 0.3}}},
        "operator": {"type": "constant", "wrench": [0.5, 0, 0, 0, 0, 0]},
        "device": {"type": "inertial", "mass": 1.0, "inertia": 0.001},
        "controller": {"type": "four_channel"},
    }
    document["scene"] |= {"tool": "ball"}
    document["scene"]["bodies"]["ball"]["shapes"] = [{"type": "sphere", "radius": 0.02}]
    (trial,) = load_document(document, Path("light.yaml"))
    trial = trial.in_mode("offline")
    found = verdict_of(trial, run_unrecorded(trial))
    assert found.energy_given > 0.02 and found.verdict == "passive"


def test_an_unstable_trial_has_diverged() -> None:
    found = verdict_of(one("corner_peg", "duration=0.1"), table(3), "unstable: discrete time has added 3 J")
    assert found.verdict == "diverged" and found.text == "failed: unstable: discrete time has added 3 J"


def test_all_hands_count_together() -> None:
    """What one hand puts in may come out at the other."""
    left = {f"left_{name}": values for name, values in zip(table(3).names, [np.zeros(3)] * 99, strict=False)}
    left["left_port_energy_translation"] = np.array([0.0, -0.4, -0.4])
    samples = table(3, port_energy_translation=np.array([0.0, 0.5, 0.5])).with_columns(left)
    assert judged(samples, "", "left_").unexplained == 0.0
    assert judged(samples, "left_").unexplained == pytest.approx(0.4)


@pytest.mark.parametrize("rate", [250.0, 1000.0, 8000.0])
def test_an_impulse_counts_as_one_at_any_rate(rate: float) -> None:
    force = np.zeros(300)
    force[100] = 2.0 * rate  # 2 N s in a tick
    assert measure(table(300, rendered_fx=force), rate, {"": None}, HEALTH).force == pytest.approx(
        2.0 / (round(WINDOW * rate) / rate)
    )


def test_a_device_at_its_limits_is_told() -> None:
    trial = one("coupling_wall", "device.wrench_limit=[5e-3,5e-3,1e-3]", "device.impulse_rendering=saturated")
    samples = run_unrecorded(trial)
    found = verdict_of(trial, samples)
    clipped = np.mean(np.abs(samples["command_fx"]) > 5e-3 / 0.99)
    assert found.limited == pytest.approx(clipped, abs=2 / len(samples)) and found.limited > 0.05
    assert f"in {100 * clipped:.2g} % of the ticks the device rendered less than was commanded" in found.text
    assert "in 100 % of the ticks the device rendered" in replace(found, limited=1.0).text


def test_without_a_device_the_numerical_energy_is_told() -> None:
    names = [name for name in table(2).names if not name.startswith(("port", "hand", "rendered"))]
    samples = Samples({name: np.zeros(2) for name in names}).with_columns({"energy_numerical": np.array([0, 2e-3])})
    found = judged(samples)
    assert (found.energy_given, found.verdict, found.force, found.numerical) == (0.0, "passive", 0.0, 2e-3)
    assert found.text == "no display; discretisation added 2 mJ"


DIVERGING = [
    "tight_clearance --set local_model.type=held --set local_model.epsilon=0",
    "tight_hole --set local_model.deformation=false --set local_model.epsilon=0 --set environment.rate=60",
    "static_wall --set local_model.epsilon=0 --set local_model.deformation=false --set environment.rate=30",
]


@pytest.mark.parametrize("command", DIVERGING)
def test_a_trial_that_diverges_fails_and_decides_no_claim(tmp_path: Path, command: str) -> None:
    status, out, err = answer("run", *command.split(), "--mode", "offline", "--out", str(tmp_path / "trial"))
    summary = json.loads((tmp_path / "trial" / "summary.json").read_text())
    assert status == 1
    assert summary["status"] == "failed"
    assert summary["reason"].startswith("diverged: ")
    assert summary["display"]["verdict"] == "diverged"
    assert summary["display"]["text"] == f"failed: {summary['reason']}"
    assert "verdict: failed: diverged" in out and summary["reason"] in err
    assert not [claim["name"] for claim in summary["claims"] if claim["holds"]]


def one(name: str, *settings: str) -> Trial:
    (trial,) = load(name, settings)
    return trial.in_mode("offline")


def test_a_display_that_gives_energy_fails_unless_that_is_expected() -> None:
    trial = one("delayed_wall", "guard.type=none", "relay.delay=0.02")
    verdict = verdict_of(trial, samples := run_unrecorded(trial))
    assert verdict.verdict == "active"
    assert verdict.failure.startswith(f"the display gave the hand {verdict.unexplained:.3g} J, more than 10 mJ: ")
    expected = trial.experiment.model_copy(update={"health": HealthParameters(active="expected")})
    verdict = verdict_of(Trial(expected), samples)
    assert not verdict.failure and verdict.verdict == "active" and ", as expected; in " in verdict.text


def test_a_tool_under_exact_constraints_has_a_verdict() -> None:
    trial = one("rolling_disk", "device.type=admittance", "duration=0.2")
    verdict = verdict_of(trial, run_unrecorded(trial))
    assert verdict.text == "passive"


@pytest.mark.parametrize("name", ["corner_peg", "static_wall", "two_hands", "push_arm"])
def test_trials_of_the_catalogue_are_passive(name: str) -> None:
    trial = one(name)
    verdict = verdict_of(trial, run_unrecorded(trial))
    assert verdict.text.startswith("passive")


STATEMENT = Statement("a", "A is less than B", "", Quantity("x"))


def test_a_claim_that_only_other_runs_decide_is_a_reference() -> None:
    measured = {"A": 1.0, "B": 2.0}
    assert STATEMENT.judged(measured, True).beside(["A", "B"], None).reference
    assert STATEMENT.judged(measured, True).beside(["A", "B"], "C").reference
    assert not STATEMENT.judged(measured, True).beside(["B"], "A").reference
    assert STATEMENT.judged(measured, True, decided_by=["B"]).beside(["B"], "A").reference
    assert not STATEMENT.judged({"speed": 1.0}, True).beside(["A", "B"], None).reference
    assert not STATEMENT.judged({"A": 1.0, "this run": 2.0}, True).beside(["A", "B"], None).reference


def test_a_trial_that_failed_decides_nothing_but_what_is_about_that() -> None:
    claim = STATEMENT.judged({"A": 1.0}, True)
    assert claim.of_failed("diverged").holds is None
    assert claim.of_failed("diverged").reason == "the trial failed: diverged"
    about = Statement("b", "It diverges", "", Quantity("x"), of_instability=True).judged({"A": 1.0}, True)
    assert about.of_failed("diverged").holds
    reference = claim.beside(["A"], None)
    assert reference.of_failed("diverged").holds


def test_claims_of_a_variant_are_its_own_and_of_another_trial_references() -> None:
    """`tight_hole` as in the file is the variant LM5; with another clearance of geometry it is none."""
    for settings, references in (
        ((), {"drifts", "narrower_printed", "drifts_printed"}),
        (("local_model.epsilon=0.003",), {"narrower", "drifts", "no_drift", "narrower_printed", "drifts_printed"}),
    ):
        trial = one("tight_hole", "duration=0.5", *settings)
        claims = analyse(trial, run_unrecorded(trial)).claims
        assert {claim.name for claim in claims if claim.reference} == references


@pytest.mark.parametrize("restitution", [0.3, 0.8, 1.0])
def test_impacts_with_restitution_give_the_hand_nothing(restitution: float) -> None:
    """A peg that bounces in a corner, rendered by impulses; the work that the device's step adds is e (1 + e) m v^2."""
    trial = load("corner_peg", [f"contact.restitution={restitution}"])[0]
    samples = run_unrecorded(trial)
    found = verdict_of(trial, samples)
    assert found.stepped > 0.02
    assert found.unexplained == pytest.approx(0.0, abs=1e-12)
    assert "due to the steps of the simulated device" in found.text


def test_the_work_of_an_impulse_is_that_of_a_mass_that_is_pushed() -> None:
    """A mass of 2 kg at -1 m/s, given the impulse 3 N s in one tick: v+ = 0.5 m/s, J (v- + v+)/2 = -0.75 J, not 1.5."""
    speed, force = np.array([-1.0, -1.0, 0.5, 0.5]), np.array([0.0, 3.0 * RATE, 0.0, 0.0])
    samples = table(
        4,
        hand_vx=speed,
        rendered_fx=force,
        colliding=np.array([0, 1, 0, 0]),
        port_energy_translation=np.array([0.0, 0.0, -1.5, -1.5]),
    )
    device = CoupledInertias(tool=np.diag([0.5] * 6).ravel().tolist(), device=(2.0, 2.0))
    held = device.model_copy(update={"damping": (1.0, 1.0)})  # a damped device is integrated exactly
    assert measure(samples, RATE, {"": device}, HEALTH).unexplained == 0.0
    assert measure(samples, RATE, {"": device}, HEALTH).stepped == 1.5
    assert measure(samples, RATE, {"": held}, HEALTH).unexplained == 1.5


def test_what_impulses_give_the_device_stays_in_the_verdict() -> None:
    """Elastic impacts of a local model whose inertia is of the last update: the device gains kinetic energy.

    That which an ideal device has beyond the work of its hand, sum of T f_h . (v- + v+)/2, came from the display.
    """
    trial = load("local_impacts", ["contact.restitution=1.0", "duration=2.0"])[0]
    samples = run_unrecorded(trial)
    v, f_h = samples.twist("hand"), samples.wrench("operator")
    mass, about = trial.hands[""].coupled_inertias.device
    inertia = np.array([mass] * 3 + [about] * 3)
    worked = np.cumsum(np.sum(f_h[:-1] * (v[1:] + v[:-1]), axis=1)) / (2.0 * trial.experiment.rate)
    gained = 0.5 * np.square(v[1:]) @ inertia - worked
    found = verdict_of(trial, samples)
    assert found.stepped > 1.0 and gained.max() > 1.0
    assert found.energy_given - found.stepped >= gained.max() - 1e-9
    assert found.verdict == "active"


def test_no_energy_is_not_negative() -> None:
    assert not np.signbit(_largest(np.array([-0.0, -1.0])))
