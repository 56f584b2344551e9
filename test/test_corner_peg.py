"""Metrics and claims of the peg in the corner, on samples with known answers and on the experiment itself."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from conftest import sampled
from offline_runs import run_unrecorded, simulated_once

from haptic_bench import experiment
from haptic_bench.analysis.claims import Findings
from haptic_bench.recording.samples import Samples
from haptic_experiments import corner_peg
from haptic_sim.parameters import ParameterError

ANALYSIS = corner_peg.ANALYSIS
RATE = 512.0  # [Hz]
FIRST = math.sqrt(2 * 2.0 * 0.03 / 0.32)  # [s] x = F t^2 / 2 m
SECOND = math.sqrt(2 * 2.0 * 0.06 / 0.4)  # [s]

# as summaries and reports have them
CLAIMS = [
    "penetration_x",
    "penetration_y",
    "spread_penetration_y",
    "saturated_worst",
    "spread_least_degraded",
    "saturated_settles_last",
    "impulses_settle_faster",
    "impulses_bounce_less",
    "energy_lost_at_first_contact",
    "spread_energy",
    "coupled_penetration_x",
    "coupled_penetration_y",
    "coupled_energy",
    "forces_at_contact",
    "spread_forces_right",
    "spread_forces_lower",
    "impacts_passive",
]


@pytest.fixture(scope="module", autouse=True)
def each_trial_once():
    with simulated_once((corner_peg, "rigid")):
        yield


def trial(*settings):
    (only,) = experiment.load("corner_peg", settings)
    return only


def hand_made(ticks=100, **columns):
    """Samples at rest in the origin but for some columns."""
    table = {"tick": np.arange(ticks), "time": np.arange(ticks) / RATE}
    for prefix in ("hand", "tool"):
        table |= {f"{prefix}_{name}": np.zeros(ticks) for name in "px py pz qx qy qz vx vy vz wx wy wz".split()}
        table[f"{prefix}_qw"] = np.ones(ticks)
    for prefix in ("rendered", "env"):
        table |= {f"{prefix}_{name}": np.zeros(ticks) for name in "fx fy fz tx ty tz".split()}
    table["colliding"] = np.zeros(ticks, int)
    for name, values in columns.items():
        table[name] = np.broadcast_to(np.asarray(values, table[name].dtype), (ticks,)).copy()
    return Samples(table)


def metrics(samples, *settings):
    return ANALYSIS.analyse(trial(*settings), samples, compare=False).metrics


def claims(findings: Findings):
    return {claim.name: claim for claim in findings.claims}


@pytest.fixture(scope="module")
def default():
    chosen = trial()
    return chosen, ANALYSIS.analyse(chosen, run_unrecorded(chosen))


def test_names_are_those_of_the_contract(default):
    assert list(default[1].metrics) == [
        "max_penetration_x",
        "max_penetration_y",
        "settling_time",
        "kinetic_energy_after_first_impact",
        "peak_force",
        "ideal_first_impact_time",
        "ideal_second_impact_time",
    ]
    assert [claim.name for claim in default[1].claims] == CLAIMS


def test_penetration_of_an_aligned_peg():
    samples = hand_made(hand_px=np.linspace(0.0, 0.0312, 100), hand_py=np.linspace(0.0, -0.0605, 100))
    assert metrics(samples)["max_penetration_x"] == pytest.approx(1.2e-3, abs=1e-12)
    assert metrics(samples)["max_penetration_y"] == pytest.approx(0.5e-3, abs=1e-12)


def test_penetration_is_never_negative():
    assert metrics(hand_made())["max_penetration_x"] == 0.0
    assert metrics(hand_made())["max_penetration_y"] == 0.0


def test_penetration_of_a_turned_peg_is_that_of_its_deepest_corner():
    angle = 0.7  # [rad]
    samples = hand_made(hand_px=0.04, hand_py=-0.05, hand_qz=math.sin(angle / 2), hand_qw=math.cos(angle / 2))
    corners = np.array([(x, y) for x in (-0.021, 0.021) for y in (-0.0105, 0.0105)])
    turned = corners @ np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    found = metrics(samples)
    assert found["max_penetration_x"] == pytest.approx(turned[:, 0].max() + 0.04 - 0.051, abs=1e-12)
    assert found["max_penetration_y"] == pytest.approx(-turned[:, 1].min() + 0.05 - 0.0705, abs=1e-12)


def test_settling_time_is_the_last_departure():
    position, speed = np.zeros(100), np.zeros(100)
    position[:40] = 1.5e-4  # away until 39
    assert metrics(hand_made(hand_px=position))["settling_time"] == 39 / RATE
    speed[55] = 2.5e-3  # fast at 55
    assert metrics(hand_made(hand_px=position, hand_vy=speed))["settling_time"] == 55 / RATE
    assert metrics(hand_made(hand_px=0.6 * position, hand_vy=0.7 * speed))["settling_time"] is None
    speed[99] = 2.5e-3  # fast at the end
    assert metrics(hand_made(hand_px=position, hand_vy=speed))["settling_time"] is None


def test_energy_is_the_devices_60_ms_after_the_ideal_impact():
    tick = round((FIRST + 0.06) * RATE)
    speed = np.zeros(tick + 10)
    speed[tick] = 0.1  # [m/s]
    samples = hand_made(tick + 10, hand_vx=speed, hand_wz=3.0 * speed)
    name = "kinetic_energy_after_first_impact"
    assert metrics(samples)[name] == pytest.approx(0.5 * 2.0 * 0.01 + 0.5 * 0.005 * 0.09, rel=1e-12)
    heavier = metrics(samples, "device.mass=3", "device.inertia=0.01")
    assert heavier[name] == pytest.approx(0.5 * 3.0 * 0.01 + 0.5 * 0.01 * 0.09, rel=1e-12)
    assert metrics(hand_made(tick, hand_vx=0.1))[name] is None
    assert metrics(hand_made(tick + 1, hand_vx=0.1))[name] is not None


def test_peak_force_is_a_norm():
    force = np.zeros(100)
    force[7] = -12.0
    assert metrics(hand_made(rendered_fx=force, rendered_fy=0.75 * force, rendered_tz=99.0))["peak_force"] == 15.0


@pytest.mark.parametrize("settings", [(), ("rate=1000",), ("environment.method=penalty",)])
def test_ideal_impact_times_are_those_of_the_closed_form(settings):
    found = metrics(hand_made(), *settings)
    assert found["ideal_first_impact_time"] == pytest.approx(FIRST, abs=1e-9)
    assert found["ideal_second_impact_time"] == pytest.approx(SECOND, abs=1e-9)
    assert (round(FIRST, 5), round(SECOND, 5)) == (0.61237, 0.77460)


def test_no_impact_within_a_short_run():
    found = metrics(hand_made(), "duration=0.7")
    assert found["ideal_first_impact_time"] == pytest.approx(FIRST, abs=1e-9)
    assert found["ideal_second_impact_time"] is None
    assert metrics(hand_made(), "duration=0.5")["ideal_first_impact_time"] is None


def test_ideal_of_an_operator_that_lets_go():
    times = corner_peg.impact_times(corner_peg.rigid(trial("operator.release=0.7")))
    fall = 0.2 * 0.7**2 / 2  # [m] in y until the release, at 0.14 m/s from then on
    assert times == pytest.approx([FIRST, 0.7 + (0.06 - fall) / 0.14], abs=1e-9)


def test_ideal_of_a_recorded_operator(tmp_path):
    rows = ["time,fx,fy,fz,tx,ty,tz", "0,0.32,-0.4,0,0,0,0", "0.7,0.32,-0.4,0,0,0,0"]
    (tmp_path / "wrench.csv").write_text("\n".join(rows))
    recorded = trial("operator.type=file", f"operator.path={tmp_path / 'wrench.csv'}")
    released = trial("operator.release=0.7")
    expected = corner_peg.impact_times(corner_peg.rigid(released))
    assert corner_peg.impact_times(corner_peg.rigid(recorded)) == pytest.approx(expected, abs=1e-9)


def test_ideal_renders_its_impulses_within_a_tick():
    ideal = corner_peg.rigid(trial())
    struck = ideal["tick"] == int(FIRST * RATE)
    np.testing.assert_allclose(ideal["rendered_fx"][struck], -0.32 * FIRST * RATE, rtol=1e-9)  # p = m v = F t
    np.testing.assert_allclose(ideal["rendered_fx"][ideal["time"] > 0.7], -0.32, rtol=1e-9)
    assert ideal.pose("hand")[-1, :2] == pytest.approx([0.03, -0.06], abs=1e-9)
    assert ideal["tick"][np.searchsorted(ideal["time"], 1.0)] == 512


def test_the_published_statements_and_what_became_of_them(default):
    """One is a tie, and one fails: spread impulses are as large as the limit of the device, and penalties larger."""
    findings = default[1]
    expected = dict.fromkeys(CLAIMS, True)
    expected |= {"coupled_energy": None, "spread_forces_lower": False}
    assert {claim.name: claim.holds for claim in findings.claims} == expected
    assert claims(findings)["coupled_energy"].reason == "a tie: full and coupled differ by less than 1 %"
    assert claims(findings)["spread_forces_lower"].measured["spread"] == pytest.approx(15.0, rel=1e-12)
    assert set(findings.references) == {"ideal", *corner_peg.VARIANTS} - {"full"}
    measured = claims(findings)["penetration_x"].measured
    assert list(measured) == ["full", "spread", "penalty"]
    assert measured["full"] == findings.metrics["max_penetration_x"]
    assert all(value < 0.0 for value in claims(findings)["impacts_passive"].measured.values())
    assert findings.summary()["claims"][0]["source"].startswith("THESIS 4.5")


def test_default_metrics_are_near_the_ideal(default):
    chosen, findings = default
    found, ideal = findings.metrics, corner_peg.expected(chosen, findings.references["ideal"])
    assert 0.0 < found["max_penetration_x"] < 3e-4
    assert found["kinetic_energy_after_first_impact"] == pytest.approx(
        ideal["kinetic_energy_after_first_impact"][0], rel=5e-3
    )
    # p = m v = F t within a tick, beside the resting right wall; a tick late, it is larger by 0.4 N at most
    assert ideal["peak_force"][0] == pytest.approx(math.hypot(0.4 * SECOND * RATE, 0.32), rel=1e-9)
    assert ideal["peak_force"][0] <= found["peak_force"] <= ideal["peak_force"][0] + 0.4
    assert ideal["settling_time"][0] == pytest.approx(SECOND, abs=1e-9)
    assert ideal["ideal_first_impact_time"][0] == pytest.approx(FIRST, rel=1e-15)


def test_own_samples_stand_for_their_variant():
    chosen = trial("device.impulse_rendering=spread")
    samples = run_unrecorded(chosen)
    findings = ANALYSIS.analyse(chosen, samples)
    assert "spread" not in findings.references
    shifted = dict(zip(samples.names, (samples[name] for name in samples.names), strict=True))
    shifted["hand_px"] = np.where(shifted["time"] == 1.0, 0.035, shifted["hand_px"])
    claim = claims(ANALYSIS.analyse(chosen, Samples(shifted)))["penetration_x"]
    assert claim.holds is False
    assert claim.measured["spread"] == pytest.approx(0.005)


def test_a_penalty_method_on_a_limited_device_is_no_variant():
    chosen = trial("environment.method=penalty", "device.impulse_rendering=saturated")
    assert corner_peg.variant(chosen.experiment) is None
    assert corner_peg.variant(trial("environment.method=penalty").experiment) == "penalty"


@pytest.mark.parametrize("kind", ["direct", "virtual_coupling", "impedance_shaping"])
def test_a_controller_that_is_not_compared_is_no_variant(kind):
    """It is judged beside the published ones, not in the place of the four-channel controller."""
    assert corner_peg.variant(trial(f"controller.type={kind}").experiment) is None


COUPLED = (
    "environment.method=constraint",
    "controller.type=unilateral_coupling",
    "controller.stiffness=[1000, 1000, 2.5]",
    "controller.damping=[50, 50, 0.125]",
)


def test_rigid_contact_has_a_variant_for_each_controller():
    assert corner_peg.variant(trial("environment.method=constraint").experiment) == "constraint"
    assert corner_peg.variant(trial(*COUPLED).experiment) == "coupled"
    for settings in (
        ("environment.method=hybrid",),
        ("environment.method=frictional_impulses",),
        ("environment.method=penalty", "controller.type=unilateral_coupling"),
    ):
        assert corner_peg.variant(trial(*settings).experiment) is None


def test_references_have_the_gains_of_table_4_1(default):
    """Those of the other controller; the trial's own apply to variants that have its controller."""
    coupled = default[1].references["coupled"]
    np.testing.assert_array_equal(coupled["hand_px"], run_unrecorded(trial(*COUPLED))["hand_px"])
    chosen = trial(*COUPLED, "controller.force_scale=0", "duration=0.8")
    findings = ANALYSIS.analyse(chosen, run_unrecorded(chosen))
    short, whole = findings.references["penalty"]["hand_px"], default[1].references["penalty"]["hand_px"]
    np.testing.assert_array_equal(short, whole[: short.size])
    assert set(findings.references) == {"ideal", *corner_peg.VARIANTS} - {"coupled"}


def test_the_unilateral_coupling_yields_where_impulses_stop(default):
    """THESIS 4.5.1: deeper penetration, more kinetic energy kept and smaller forces than with impulses."""
    found = claims(default[1])
    for name, low, high in (
        ("coupled_penetration_x", "full", "coupled"),
        ("coupled_penetration_y", "full", "coupled"),
        ("coupled_energy", "full", "coupled"),
        ("forces_at_contact", "coupled", "full"),
    ):
        assert found[name].measured[low] < found[name].measured[high], name
    # an undamped spring of K = 1000 N/m would yield by v sqrt(m / K) = 4.4 mm at v = F t / m
    assert 1e-3 < found["coupled_penetration_x"].measured["coupled"] < 0.16 * FIRST * math.sqrt(2.0 / 1000.0)


def test_a_penetration_that_stays_is_a_peak_and_one_that_grows_is_none():
    assert corner_peg._passed_peak(np.array([0.0, 1.0, 2.0])) is None
    assert corner_peg._passed_peak(np.array([0.0, 2.0, 2.0])) == 2.0
    assert corner_peg._passed_peak(np.array([0.0, 2.0, 1.0])) == 2.0
    assert corner_peg._passed_peak(np.array([2.0])) is None
    assert corner_peg._passed_peak(np.zeros(3)) is None


def test_another_experiment_is_refused():
    with pytest.raises(ParameterError, match=r"analysis = corner_peg: needs a peg on a device in an enclosure"):
        corner_peg.variant(experiment.load("incline", ["analysis=trial"])[0].experiment)


def test_impacts_of_rigid_contact_are_impulses():
    """Up to the wall in the tick that would cross it, the rest in the next: m v in all, at a wall never crossed."""
    samples = run_unrecorded(trial("environment.method=constraint"))
    mass = 2.0
    for force, speed, gap, push in (("env_fx", "tool_vx", 0.03, 0.32), ("env_fy", "tool_vy", -0.06, -0.4)):
        struck = int(np.argmax(np.abs(samples[force])))
        momentum = mass * samples[speed][struck]
        assert momentum == pytest.approx(push * (struck / RATE), rel=1e-9)  # m v = F t until then
        np.testing.assert_array_equal(samples[force][:struck], 0.0)
        after = struck + 4
        taken = -samples[force][struck:after].sum() / RATE  # the push goes on
        assert taken == pytest.approx(momentum + push * (after - struck) / RATE, rel=1e-6)
        assert abs(samples[force][struck : struck + 2]).sum() == pytest.approx(abs(momentum) * RATE, rel=0.01)
        np.testing.assert_allclose(samples[force][after:], -push, rtol=1e-5)  # 1e-9 m/s of 2 kg in a tick: 1e-6 N
        np.testing.assert_allclose(samples["rendered" + force[3:]], samples[force], rtol=0, atol=1e-12)
        position = samples[f"tool_p{force[-1]}"]
        assert (np.sign(gap) * (position - gap)).max() < 1e-8
        assert position[-1] == pytest.approx(gap, abs=1e-8)


def test_without_comparison_claims_are_undecided(default):
    chosen = default[0]
    findings = ANALYSIS.analyse(chosen, run_unrecorded(chosen), compare=False)
    assert list(findings.references) == ["ideal"]
    holds = {claim.name: claim.holds for claim in findings.claims}
    assert holds.pop("impacts_passive") is True  # the trial's own impacts decide
    assert set(holds.values()) == {None}


def test_a_run_that_ends_before_contact_decides_nothing():
    chosen = trial("duration=0.2")
    findings = ANALYSIS.analyse(chosen, run_unrecorded(chosen))
    assert all(claim.holds is None for claim in findings.claims)
    assert findings.metrics["max_penetration_x"] == 0.0
    assert findings.metrics["settling_time"] is None


def test_an_interrupted_run_is_compared_over_the_time_it_lasted():
    chosen = trial()
    whole = run_unrecorded(chosen)
    short = Samples({name: whole[name][:320] for name in whole.names})  # ends in the first contact
    findings = ANALYSIS.analyse(chosen, short)
    assert len(findings.references["penalty"]) == 320
    # the penetration still grows under penalties, so nothing can be said
    assert claims(findings)["penetration_x"].holds is None


def test_no_samples_give_no_metrics_but_the_ideal():
    found = ANALYSIS.analyse(trial(), hand_made(0)).metrics
    known = {"ideal_first_impact_time", "ideal_second_impact_time"}
    assert {name for name, value in found.items() if value is not None} == known


@pytest.mark.parametrize(
    ("method", "restitution"),
    sampled(
        itertools.product(("impulse_augmented", "frictional_impulses", "constraint", "hybrid"), (0.0, 0.5, 1.0)),
        ("impulse_augmented", 1.0),
        ("frictional_impulses", 0.5),
        ("constraint", 0.0),
        ("hybrid", 0.5),
    ),
)
def test_impacts_are_passive_whatever_the_method_and_restitution(method, restitution):
    chosen = trial(
        f"environment.method={method}",
        f"contact.restitution={restitution}",
        "operator.wrench=[0.32, -0.4, 0, 0, 0, 0.004]",
        "duration=2",
    )
    claim = claims(ANALYSIS.analyse(chosen, run_unrecorded(chosen), compare=False))["impacts_passive"]
    assert claim.holds is True
    assert claim.measured["full" if method == "impulse_augmented" else "this run"] is not None


def test_an_energy_increase_is_caught():
    chosen = trial()
    samples = run_unrecorded(chosen)
    table = {name: samples[name] for name in samples.names}
    tick = int(np.flatnonzero(table["colliding"])[0])
    speed, force = table["tool_vx"][tick], table["env_fx"][tick]
    assert force == pytest.approx(-2.0 * speed * RATE, rel=1e-9)  # plastic: takes all of it
    for factor, passive in ((1.9999, True), (2.0, True), (2.0001, False)):  # 2 is elastic
        table["env_fx"] = np.where(np.arange(len(samples)) == tick, factor * force, samples["env_fx"])
        claim = claims(ANALYSIS.analyse(chosen, Samples(table), compare=False))["impacts_passive"]
        assert claim.holds is passive, factor
    assert claim.measured["full"] == pytest.approx(0.5 * 2.0 * speed**2 * (1.0001**2 - 1.0), rel=1e-3)


def test_an_energy_increase_of_a_rigid_contact_is_caught():
    """A tool that leaves the wall faster than it came."""
    chosen = trial("environment.method=constraint")
    samples = run_unrecorded(chosen)
    tick = int(np.argmax(samples["contacts"] > 0))
    speed = samples["tool_vx"][tick]
    mass, free = 2.0, 0.32 / 2.0 / RATE  # what the operator adds to the speed in a tick [m/s]
    after = np.arange(len(samples)) > tick
    for factor, passive in ((-0.999, True), (-1.001, False)):
        table = {
            "tool_vx": np.where(after, factor * speed + free, samples["tool_vx"]),
            "tool_vy": np.full(len(samples), samples["tool_vy"][tick]),
            "env_fx": np.where(after | (samples["contacts"] == 0), 0.0, -mass * (1.0 - factor) * speed * RATE),
            "env_fy": np.zeros(len(samples)),
            "contacts": np.where(after, 0, samples["contacts"]),
        }
        claim = claims(ANALYSIS.analyse(chosen, samples.with_columns(table), compare=False))["impacts_passive"]
        assert claim.holds is passive, factor
        expected = 0.5 * mass * ((factor**2 - 1.0) * speed**2 - free**2)
        assert claim.measured["this run"] == pytest.approx(expected, rel=1e-6)


def test_the_asynchronous_architecture_is_compared_with_itself():
    chosen = trial("local_model.type=full", "environment.rate=64", "duration=1.0")
    findings = ANALYSIS.analyse(chosen, run_unrecorded(chosen))
    assert set(findings.references) == {"ideal", *corner_peg.VARIANTS} - {"full"}
    assert findings.metrics["max_penetration_x"] > 0.0


def test_analysis_does_not_depend_on_a_label(default):
    chosen, findings = default
    labelled = replace(chosen, varied=(("seed", "0"),))
    assert ANALYSIS.analyse(labelled, run_unrecorded(labelled)).summary() == findings.summary()
