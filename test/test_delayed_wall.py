"""A remote wall: what decides the claims, and which settings are refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from claim_checks import changed, load, names, scaled

from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.delayed_wall import (
    ANALYSIS,
    DELAYS,
    GUARDS,
    displayed_stiffness,
    label,
    series_stiffness,
    variant,
)
from haptic_sim.parameters import ParameterError

Runs = tuple[Trial, dict[str, Samples]]


@pytest.fixture(scope="module")
def runs() -> Runs:
    own = load("delayed_wall")
    return own, dict(ANALYSIS.analyse(own, ANALYSIS.run_unrecorded(own)).references)


def verdicts(own: Trial, runs: dict[str, Samples]) -> dict[str, bool | None]:
    return {claim.name: claim.holds for claim in ANALYSIS.judge(own, next(iter(runs.values())), runs).claims}


@pytest.mark.exhaustive
def test_the_claims_hold(runs: Runs) -> None:
    own, found = runs
    assert ANALYSIS.label(own) == "wave, 50 ms" and len(found) == len(GUARDS) * len(DELAYS)
    assert verdicts(own, found) == dict.fromkeys(names(ANALYSIS.CLAIMS), True)


@pytest.mark.parametrize("guard", GUARDS)
def test_a_run_of_any_guard_is_compared_with_the_same_runs(guard: str) -> None:
    own = load("delayed_wall", f"guard.type={guard}").in_mode("offline")
    assert own.experiment.guard.at_device == (guard == "passivity")
    others = [load("delayed_wall", f"guard.type={other}").in_mode("offline") for other in GUARDS]
    for name, other in zip(GUARDS, others, strict=True):
        found = variant(own, name, own.experiment.relay.delay, own.experiment.duration).experiment
        assert found == other.experiment


@pytest.mark.exhaustive
def test_without_delay_the_hand_feels_wall_and_coupling_in_series(runs: Runs) -> None:
    own, found = runs
    expected = 1.0 / (1.0 / 8000.0 + 1.0 / 1000.0)
    assert displayed_stiffness(own.experiment, found["none, 0 ms"]) == pytest.approx(expected, rel=1e-4)
    assert series_stiffness(variant(own, "wave", 1e-9, 1.0)) == pytest.approx(expected, rel=0.05)


def gives(joules: float) -> Callable[[Samples], Samples]:
    """A relay that delivers so much more."""
    return lambda samples: changed(samples, relay_device_delivered_translation=joules)


def test_waves_that_are_held_do_not_feel_jitter() -> None:
    """Bit by bit what a constant delay gives; without the buffer the wall is softer."""
    jittery = ("relay.delay=0.015", "relay.jitter=0.01", "relay.seed=3")
    held, constant, free = (
        ANALYSIS.run_unrecorded(load("delayed_wall", "duration=0.8", *settings))
        for settings in ((*jittery, "relay.wave.play_out=0.025"), ("relay.delay=0.025",), jittery)
    )
    for name in held.names:
        assert np.array_equal(held[name], constant[name]), name
    assert not np.array_equal(free["hand_px"], constant["hand_px"])
    assert free["hand_px"].max() > constant["hand_px"].max() + 1e-3


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("claim", "run", "wrong"),
    [
        ("becomes_active", "none, 0 ms", gives(2e-9)),
        ("becomes_active", "none, 20 ms", gives(-10.0)),
        ("becomes_unstable", "none, 0 ms", lambda samples: changed(samples, hand_vx=0.02)),
        ("becomes_unstable", "none, 200 ms", lambda samples: scaled(samples, 1e-3, "hand_vx")),
        ("stays_passive", "tank, 100 ms", gives(1.0)),
        ("stays_passive", "passivity, 20 ms", gives(2e-9)),
        ("stays_bounded", "wave, 200 ms", lambda samples: changed(samples, hand_px=0.03)),
        ("stays_bounded", "wave, 0 ms", lambda samples: changed(samples, hand_px=-0.02)),
        ("feels_the_line", "wave, 50 ms", lambda samples: scaled(samples, 1.15, "rendered_fx")),
        ("feels_the_line", "wave, 100 ms", lambda samples: scaled(samples, 0.85, "rendered_fx")),
        ("feels_softer", "tank, 50 ms", lambda samples: scaled(samples, 2.0, "rendered_fx")),
        ("feels_softer", "passivity, 100 ms", lambda samples: scaled(samples, 2.0, "rendered_fx")),
    ],
)
def test_what_is_otherwise_fails(claim: str, run: str, wrong: Callable[[Samples], Samples], runs: Runs) -> None:
    own, found = runs
    assert verdicts(own, found | {run: wrong(found[run])})[claim] is False


@pytest.mark.exhaustive
def test_claims_are_open_without_the_other_runs(runs: Runs) -> None:
    own, found = runs
    findings = ANALYSIS.analyse(own, found[label("wave", 0.025)], compare=False)
    assert {claim.holds for claim in findings.claims} == {None}
    assert findings.metrics["displayed_stiffness"] == pytest.approx(series_stiffness(own), rel=0.05)
    short = ANALYSIS.analyse(own, found["wave, 50 ms"].until(0.3), compare=False)
    assert short.metrics["hand_speed"] is None and short.metrics["displayed_stiffness"] is None


@pytest.mark.parametrize("guard", GUARDS)
def test_jitter_and_losses_keep_guarded_relays_passive(guard: str) -> None:
    own = load("delayed_wall", f"guard.type={guard}", "relay.jitter=0.01", "relay.loss=0.2", "relay.seed=3")
    samples = ANALYSIS.run_unrecorded(own)
    energy = ANALYSIS.analyse(own, samples, compare=False).metrics["relay_energy"]
    assert energy is not None and (energy < -1e-3) == (guard == "none") and (energy >= -1e-9) == (guard != "none")
    content = samples["relay_world_content_tick"]
    assert np.all(np.diff(content) >= 0) and content.max() < samples["tick"].max() - 20


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["controller.type=four_channel"], "guard.type = wave: with a relay it is for a controller that takes motion"),
        (["relay.wave.impedance=[10,0.05]"], r"relay.wave.impedance\[0\] = 10 N s/m: in translation the world's end"),
        (["relay.wave.impedance=[40,0.0104]"], r"impedance\[1\] = 0.0104 N m s/rad: .* 0.0105 N m s/rad"),
        (["relay.delay=null"], "guard.type = wave: is of a relay"),
        (["relay.delay=null", "guard.type=none", "relay.jitter=0.01"], "relay.jitter = 0.01: there is no relay"),
        (["relay.delay=null", "guard.type=none"], "needs a relay"),
        (["relay.delay=-0.1"], "relay.delay = -0.1 s: must be >= 0 s"),
        (["relay.wave.play_out=0.01"], "relay.wave.play_out = 0.01 s: must be at least relay.delay = 0.025 s"),
        (["relay.loss=1"], "relay.loss = 1: must be < 1"),
        (["controller.type=direct", "guard.type=none"], "needs controller.type = virtual_coupling, not direct"),
    ],
)
def test_what_cannot_be_guaranteed_is_refused(settings: list[str], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        load("delayed_wall", *settings)


def test_a_relay_is_for_devices_that_take_forces() -> None:
    settings = ["relay.delay=0.01", "analysis=trial", "device.type=admittance", "controller.type=admittance"]
    with pytest.raises(ParameterError, match=r"forces, not for device.type = admittance; set"):
        load("corner_peg", *settings)
