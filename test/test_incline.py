"""The block on a slope: Coulomb's law on samples with known answers and on the experiment itself."""

import math

import numpy as np
import pytest
from offline_runs import run_unrecorded

from haptic_bench import experiment
from haptic_bench.analysis.figures import Curve
from haptic_bench.recording.samples import Samples
from haptic_experiments import incline
from haptic_view.figures import style_of

ANALYSIS = incline.ANALYSIS
# as summaries and reports have them
METRICS = ["first_slip_time", "final_speed", "displacement", "acceleration", "friction_angle"]
RATE = 1000.0  # [Hz]
NAMES = ["sticks_below", "slides_above", "method_independent", "sticks_below_printed", "slides_above_printed"]
DECIDED = {name: name != "slides_above_printed" for name in NAMES}
"""As printed the reset integrator slides with a bond that is as long as it was when it broke, up to a step late."""
LIMIT = math.degrees(math.atan(0.25))  # [deg]


def trial(*settings):
    (only,) = experiment.load("incline", settings)
    return only


def run(*settings):
    """A trial and its samples, with the columns of the analysis."""
    chosen = trial(*settings)
    return chosen, run_unrecorded(chosen)


def hand_made(ticks=100, sliding=0, speed=0.0, angle=12.0):
    """Samples of a block that moves along the slope; `sliding` of its four contacts slide."""
    time = np.arange(ticks) / RATE
    along = np.broadcast_to(np.asarray(speed, float), (ticks,))
    table = {"tick": np.arange(ticks), "time": time, "contacts": np.full(ticks, 4)}
    table["sliding_contacts"] = np.broadcast_to(np.asarray(sliding, int), (ticks,)).copy()
    way = np.concatenate([[0.0], np.cumsum(along[1:] / RATE)])[:ticks]
    for name, part in (("x", math.cos(math.radians(angle))), ("z", -math.sin(math.radians(angle)))):
        table[f"tool_p{name}"], table[f"tool_v{name}"] = 3.0 + part * way, part * along
    table |= {f"operator_{name}": np.zeros(ticks) for name in "fx fy fz tx ty tz".split()}
    samples = Samples(table)
    return samples.with_columns(ANALYSIS.columns(trial(f"scene.angle={angle}"), samples))


def metrics(samples, *settings):
    return ANALYSIS.analyse(trial(*settings), samples, compare=False).metrics


def holds(findings):
    return {claim.name: claim.holds for claim in findings.claims}


def law(angle, kinetic=0.2):
    return 9.81 * (math.sin(math.radians(angle)) - kinetic * math.cos(math.radians(angle)))


@pytest.fixture(scope="module")
def default():
    chosen, samples = run("duration=0.4")
    return chosen, samples, ANALYSIS.analyse(chosen, samples)


@pytest.mark.parametrize("angle", [0.0, 12.0, 40.0])
def test_columns(angle):
    samples = hand_made(4, sliding=[0, 1, 4, 0], speed=[0.0, 1.0, 2.0, -3.0], angle=angle)
    np.testing.assert_allclose(samples["speed"], [0.0, 1.0, 2.0, -3.0], atol=1e-15)
    assert samples["sliding"].tolist() == [0, 1, 1, 0]


def test_metrics_of_a_sliding_block():
    ticks = np.arange(200)
    speed = np.maximum(ticks - 40, 0) * 0.7 / RATE
    found = metrics(hand_made(200, np.where(ticks >= 40, 4, 0), speed))
    assert found["first_slip_time"] == 0.04
    assert found["acceleration"] == pytest.approx(0.7, rel=1e-12)
    assert found["final_speed"] == pytest.approx(0.7 * 0.159, rel=1e-12)
    assert found["displacement"] == pytest.approx(np.sum(speed[1:]) / RATE, rel=1e-12)
    assert found["friction_angle"] == pytest.approx(math.atan(0.25), rel=1e-15)
    assert list(found) == METRICS


def test_acceleration_is_that_of_the_last_time_in_which_all_contacts_slide():
    ticks = np.arange(300)
    sliding = np.zeros(300, int)
    sliding[20:100], sliding[100:120], sliding[120:220] = 4, 2, 4
    speed = np.where(ticks < 120, 5.0 * ticks, 0.3 * ticks) / RATE
    assert metrics(hand_made(300, sliding, speed))["acceleration"] == pytest.approx(0.3, rel=1e-9)
    sliding[:] = 0
    sliding[50:59] = 4  # too short
    assert metrics(hand_made(300, sliding, speed))["acceleration"] is None
    assert metrics(hand_made(300))["acceleration"] is None


@pytest.mark.parametrize("method", ["penalty", "constraint", "hybrid", "impulse_augmented", "frictional_impulses"])
@pytest.mark.parametrize("angle", [0.0, 8.0, 13.9])
def test_below_the_angle_of_friction_it_sticks(method, angle):
    chosen, samples = run(f"scene.angle={angle}", f"environment.method={method}", "duration=0.2")
    assert not samples["sliding"].any()
    assert abs(samples["speed"][-1]) < 1e-6
    way = incline._displacement(chosen, samples)[-1]
    if method in ("constraint", "hybrid"):
        assert abs(way) < 1e-8
    else:
        # bonds are strained, and the centre of mass tilts over: moment m g h/2 sin a, stiffness 4 K (l/2)^2
        sine, strain = math.sin(math.radians(angle)), math.tan(math.radians(angle)) / 0.25 * 1e-4
        tilt = 9.81 * 0.025 * sine / (4 * 20000 * 0.05**2)
        # bonds get shorter while the lower contacts take over load: see the module friction
        assert way == pytest.approx(strain + 0.025 * tilt, rel=0.03, abs=1e-12)


@pytest.mark.parametrize("method", ["penalty", "constraint", "hybrid", "impulse_augmented", "frictional_impulses"])
@pytest.mark.parametrize("angle", [14.1, 20.0, 45.0])
def test_above_it_slides_as_coulombs_law_says(method, angle):
    _, samples = run(f"scene.angle={angle}", f"environment.method={method}", "duration=0.2")
    assert incline.acceleration(samples) == pytest.approx(law(angle), rel=1e-6)
    assert samples["sliding_contacts"][-1] == 4


@pytest.mark.parametrize(
    ("method", "lowest", "highest"),
    [
        ("constraint", LIMIT - 1e-3, LIMIT + 1e-3),
        ("penalty", LIMIT - 0.1, LIMIT),  # weight shifts to the lower contacts while the bonds are strained
    ],
)
def test_where_it_breaks_away(method, lowest, highest):
    below, above = (
        run(f"scene.angle={angle}", f"environment.method={method}", "duration=0.3")[1] for angle in (lowest, highest)
    )
    assert not below["sliding"].any()
    assert above["sliding"].any()


def test_a_flat_block_breaks_away_at_the_angle_of_friction_with_penalties_too():
    """Without a lever arm friction does not make the block pitch."""
    flat = ("scene.size=[0.1, 0.1, 0.002]", "duration=0.3")
    assert not run(f"scene.angle={LIMIT - 0.01}", *flat)[1]["sliding"].any()
    assert run(f"scene.angle={LIMIT + 0.01}", *flat)[1]["sliding"].any()


def test_the_bonds_of_the_default_are_critically_damped():
    """2 sqrt(K m) shared by four contacts, K = mu_s m g / z0."""
    friction, scene = trial().experiment.contact.friction, trial().experiment.scene
    stiffness = friction.static * scene.mass * scene.gravity / friction.breakaway
    assert friction.damping == pytest.approx(2.0 * math.sqrt(stiffness * scene.mass) / 4, rel=0.01)


def test_all_claims_hold_on_the_default_experiment(default):
    findings = default[2]
    assert holds(findings) == DECIDED
    above = math.degrees(math.atan(1.1 * 0.25))
    assert set(findings.references) == {
        "constraint at 12°",
        "penalty as printed at 12°",
        f"penalty as printed at {above:.4g}°",
        f"penalty at {above:.4g}°",
        f"constraint at {above:.4g}°",
    }
    sliding = findings.claims[1].measured
    assert list(sliding.values()) == pytest.approx([law(above)] * 3, rel=1e-6)


@pytest.mark.parametrize("method", ["penalty", "constraint", "hybrid"])
def test_all_claims_hold_above_the_angle_of_friction(method):
    chosen, samples = run("scene.angle=20", f"environment.method={method}", "duration=0.3")
    findings = ANALYSIS.analyse(chosen, samples)
    assert holds(findings) == DECIDED
    assert findings.metrics["acceleration"] == pytest.approx(law(20.0), rel=1e-6)
    theory = ANALYSIS.expected(chosen, findings)
    assert theory["acceleration"][0] == pytest.approx(law(20.0), rel=1e-12)
    assert theory["final_speed"][0] == pytest.approx(0.3 * law(20.0), rel=1e-12)
    assert len(findings.references) == (7 if method == "hybrid" else 5)


def test_a_block_that_should_stick_and_slides_is_caught():
    chosen, samples = run("contact.friction.damping=0", "duration=0.3")  # undamped bonds overshoot and break
    assert samples["sliding"].any()
    found = holds(ANALYSIS.analyse(chosen, samples))
    assert found["sticks_below"] is False
    assert found["method_independent"] is False


def test_a_wrong_acceleration_is_caught():
    chosen, samples = run("scene.angle=20", "duration=0.3")
    faster = samples.with_columns({"speed": 1.01 * samples["speed"]})
    found = holds(ANALYSIS.analyse(chosen, faster))
    assert found == {**DECIDED, "slides_above": False, "method_independent": False}


@pytest.mark.drawn
@pytest.mark.parametrize("duration", [0.001, 0.02])
def test_a_short_run_decides_nothing(duration):
    chosen, samples = run(f"duration={duration}")
    findings = ANALYSIS.analyse(chosen, samples)
    found = holds(findings)
    assert found["sticks_below"] is None
    assert found["slides_above"] is None
    assert findings.metrics["acceleration"] is None
    assert ANALYSIS.figures(chosen, samples, findings)


def test_without_comparison_claims_are_undecided(default):
    chosen, samples, _ = default
    findings = ANALYSIS.analyse(chosen, samples, compare=False)
    assert findings.references == {}
    assert set(holds(findings).values()) == {None}
    assert ANALYSIS.figures(chosen, samples, findings)


def test_no_samples_give_no_metrics_but_theory():
    found = ANALYSIS.analyse(trial(), hand_made(0)).metrics
    assert {name for name, value in found.items() if value is not None} == {"friction_angle"}


def test_coulombs_law_is_of_the_weight_alone():
    chosen, samples = run("operator.wrench=[0, 0, -20, 0, 0, 0]", "duration=0.25")
    findings = ANALYSIS.analyse(chosen, samples)
    assert set(holds(findings).values()) == {None}
    assert findings.references == {}


@pytest.mark.drawn
@pytest.mark.parametrize(
    "settings",
    [
        ("contact.friction.model=none",),
        ("contact.friction.static=0", "contact.friction.kinetic=0"),
        ("contact.friction.static=100", "contact.friction.kinetic=0", "scene.angle=80"),
        ("scene.gravity=0",),
        ("scene.angle=0",),
        ("scene.angle=89.9",),
        ("contact.per=wall",),
    ],
)
def test_hostile_values_are_reported(settings):
    chosen, samples = run("duration=0.05", *settings)
    findings = ANALYSIS.analyse(chosen, samples)
    numbers = [*findings.metrics.values(), *(v for claim in findings.claims for v in claim.measured.values())]
    assert all(value is None or math.isfinite(value) for value in numbers)
    assert ANALYSIS.figures(chosen, samples, findings)


def test_without_friction_it_slides_freely():
    chosen, samples = run("contact.friction.model=none", "environment.method=penalty", "duration=0.2")
    assert samples["speed"][-1] == pytest.approx(0.2 * law(12.0, 0.0), rel=1e-9)
    assert incline.Law.of(chosen.experiment).acceleration == pytest.approx(law(12.0, 0.0), rel=1e-12)


@pytest.mark.drawn
def test_figures(default):
    chosen, samples, findings = default
    figures = ANALYSIS.figures(chosen, samples, findings)
    titles = ["On this slope", "On a slope on the other side of the angle of friction", "Energy"]
    assert [figure.title for figure in figures] == titles
    names = [panel.name for figure in figures for panel in figure.panels]
    assert len(set(names)) == len(names)


def sweep(angles, methods):
    curves = []
    for i, (angle, method) in enumerate((angle, method) for angle in angles for method in methods):
        chosen, samples = run(f"scene.angle={angle}", f"environment.method={method}", "duration=0.2")
        curves.append(Curve(f"angle={angle},method={method}", chosen, samples, style_of(i)))
    return curves


@pytest.mark.drawn
def test_a_sweep_of_angles_is_drawn_beside_coulombs_law():
    curves = sweep((10, 13.5, 14.5, 20), ("penalty", "constraint"))
    figure, *others = ANALYSIS.sweep_figures(curves)
    assert figure.title == "Acceleration over the angle of the slope"
    assert [other.title for other in others] == ["Speed", "Energy"]
    assert figure.table[0] == [
        "angle of the slope [deg]",
        "Coulomb's law [m/s²]",
        "method=penalty [m/s²]",
        "method=constraint [m/s²]",
    ]
    assert [row[0] for row in figure.table[1:]] == ["10", "13.5", "14.5", "20"]
    for angle, *cells in figure.table[1:]:
        truth = law(float(angle)) if float(angle) > LIMIT else 0.0
        assert [float(cell) for cell in cells] == pytest.approx([truth] * 3, rel=1e-5)
    assert len(ANALYSIS.sweep_figures([*curves, curves[0]])) == 1


def test_a_sweep_of_something_else_has_no_angles():
    curves = sweep((12,), ("penalty", "constraint"))
    assert [figure.title for figure in ANALYSIS.sweep_figures(curves)] == ["Speed", "Energy"]
