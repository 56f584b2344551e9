"""Identification from motions of known masses: values, coverage of the intervals, and refused input."""

from __future__ import annotations

import math

import numpy as np
import pytest

from haptic_control.identification.fit import Identified, identify
from haptic_control.identification.motion import Model, move
from haptic_sim.parameters import ParameterError

TRIALS = 12
NAMES = ("mass", "damping", "friction", "delay", "stiffness")


def sines(count: int, rate: float, size: float, generator: np.random.Generator) -> np.ndarray:
    """A force of many frequencies and random phases, of that root mean square."""
    frequencies, phases = np.geomspace(0.7, 40.0, 24), generator.uniform(0.0, 2.0 * math.pi, 24)
    time = np.arange(count) / rate
    return (
        size * math.sqrt(2.0 / 24) * np.sin(2.0 * math.pi * np.outer(frequencies, time) + phases[:, None]).sum(axis=0)
    )


def recorded(
    model: Model, rate: float, seconds: float, size: float, seed: int, noise: float = 0.0, resolution: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Position as it is measured, and force."""
    generator = np.random.default_rng([20260, seed])
    force = sines(round(seconds * rate), rate, size, generator)
    out = np.empty((1, force.size))
    move(np.array(model), force, 1.0 / rate, np.array([0]), np.zeros((3, 1)), out)
    position = out[0] + noise * generator.normal(size=force.size)
    return (resolution * np.rint(position / resolution) if resolution else position), force


def truth_of(model: Model, rate: float) -> dict[str, float]:
    return model._replace(delay=model.delay / rate)._asdict()


DEVICES = {
    "noise": (Model(0.2, 0.3, 0.1, 1.37), 1000.0, 3.0, 1.0, {"noise": 1e-5}),
    "encoder": (Model(2.0, 5.0, 1.0, 3.6), 500.0, 4.0, 6.0, {"resolution": 1e-4}),
    "no friction": (Model(0.05, 1.0, 0.0, 0.0), 2000.0, 3.0, 0.5, {"noise": 2e-5}),
    "hand": (Model(0.5, 5.0, 0.1, 1.5, 300.0), 1000.0, 3.0, 2.0, {"resolution": 1e-5}),
}


@pytest.mark.exhaustive
@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    ["noise", "hand", "encoder", "no friction"],
)
def test_the_intervals_hold_the_truth_nearly_always(name: str) -> None:
    """An interval of 95 % misses 0.6 of 12 trials on average, and more than 3 with a probability of 0.2 %."""
    model, rate, seconds, size, sensor = DEVICES[name]
    truth, held = truth_of(model, rate), model.stiffness > 0.0
    trials = [
        identify(*recorded(model, rate, seconds, size, seed, **sensor), rate, held=held)  # type: ignore[arg-type]
        for seed in range(TRIALS)
    ]
    for key in NAMES if held else NAMES[:-1]:
        found = [getattr(one, key) for one in trials]
        missed = sum(abs(one.value - truth[key]) > one.half_width for one in found)
        assert missed <= 3, key
        errors = np.array([one.value - truth[key] for one in found])
        widths = np.array([one.half_width for one in found])
        # and they are not wider than they have to be: the root mean square of errors is half of them
        assert np.sqrt(np.mean(errors**2)) > 0.15 * np.median(widths), key
    noise = sensor.get("noise", sensor.get("resolution", 0.0) / math.sqrt(12.0))
    assert np.mean([one.noise.value for one in trials]) == pytest.approx(noise, rel=0.03)


@pytest.mark.parametrize("mass", [0.03, 0.3, 10.0])
@pytest.mark.parametrize("delay", [0.0, 0.5, 12.7])
def test_masses_and_delays(mass: float, delay: float) -> None:
    model = Model(mass, 2.0 * mass, 0.0, delay)
    found = identify(*recorded(model, 1000.0, 3.0, 5.0 * mass, 3), 1000.0)
    assert found.mass.value == pytest.approx(mass, rel=1e-6) and found.damping.value == pytest.approx(
        2.0 * mass, rel=1e-5
    )
    assert found.delay.value == pytest.approx(1e-3 * delay, abs=1e-8) and found.explained > 0.999999


def test_ticks_that_were_not_recorded() -> None:
    position, force = recorded(MODEL, 1000.0, 5.0, 1.0, 4, noise=1e-5)
    position[::40] = math.nan
    found = identify(position, force, 1000.0)
    assert abs(found.mass.value - MODEL.mass) < 2.0 * found.mass.half_width
    position[::10] = math.nan
    assert "more than 5 % of the ticks were not recorded" in refusal(position, force)


@pytest.mark.exhaustive
@pytest.mark.long
def test_intervals_allow_for_forces_that_were_not_recorded() -> None:
    """Single ticks and longer gaps, 2 % of the trial; a right interval is twice the root mean square of errors."""
    model, rate, seconds, size, sensor = DEVICES["noise"]
    off = []
    for seed in range(TRIALS):
        position, force = recorded(model, rate, seconds, size, seed, **sensor)
        generator, known = np.random.default_rng([seed, 2]), np.ones(force.size, dtype=bool)
        for length, count in ((1, 40), (5, 4)):
            for first in generator.integers(1, force.size - 10, size=count):
                known[first : first + length] = False
        position[~known] = math.nan
        ticks = np.arange(force.size)
        found = identify(position, np.interp(ticks, ticks[known], force[known]), rate)
        estimates = {name: getattr(found, name) for name in NAMES[:-1]}
        off.append([(one.value - truth_of(model, rate)[name]) / one.half_width for name, one in estimates.items()])
    assert (np.sqrt(np.mean(np.square(off), axis=0)) < 0.8).all()


def test_a_disturbance_widens_the_intervals() -> None:
    """A slow force that is not known, as of a cable, of a twentieth of the known one."""
    model, count = MODEL._replace(delay=0.0), 6000
    force = sines(count, 1000.0, 1.0, np.random.default_rng(5))
    slow = 0.05 * np.sin(2.0 * math.pi * 0.3 * np.arange(count) * 1e-3)
    out = np.empty((1, count))
    move(np.array(model), force + slow, 1e-3, np.array([0]), np.zeros((3, 1)), out)
    found = identify(out[0], force, 1000.0)
    assert found.mass.value == pytest.approx(model.mass, rel=0.02)
    assert abs(found.mass.value - model.mass) < 3.0 * found.mass.half_width


MODEL = Model(0.2, 0.3, 0.1, 1.37)


def refusal(position: np.ndarray, force: np.ndarray, *, held: bool = False) -> str:
    with pytest.raises(ParameterError) as caught:
        identify(position, force, 1000.0, held=held)
    (problem,) = caught.value.problems
    return problem


def test_a_trial_that_is_too_short() -> None:
    assert refusal(*recorded(MODEL, 1000.0, 2.0, 1.0, 0)).startswith("2 s of motion under a known force: at least 3 s")


def test_a_device_that_does_not_move() -> None:
    _, force = recorded(MODEL, 1000.0, 5.0, 1.0, 0)
    assert "did not move" in refusal(np.zeros(force.size), force)
    assert "did not move" in refusal(np.zeros(5000), np.ones(5000))


def test_a_device_that_sticks() -> None:
    position, force = recorded(MODEL._replace(friction=2.0), 1000.0, 5.0, 1.0, 0, noise=1e-7)
    assert "raise the force above its friction" in refusal(position, force)
    position, force = recorded(MODEL._replace(friction=1.2), 1000.0, 5.0, 1.0, 0, noise=1e-7)
    assert "at rest for" in refusal(position, force)


def test_a_motion_below_its_noise() -> None:
    position, force = recorded(MODEL, 1000.0, 5.0, 1.0, 0, noise=5e-3)
    assert "of the motion, at least 90% are needed" in refusal(position, force)


def test_a_motion_of_another_force() -> None:
    position, _ = recorded(MODEL, 1000.0, 5.0, 1.0, 0)
    _, force = recorded(MODEL, 1000.0, 5.0, 1.0, 1)
    assert "remove what else acts on it" in refusal(position, force)


def test_one_frequency_tells_less_than_many() -> None:
    """Its amplitude and phase are two numbers, for mass, damping, friction and delay: the rest is in the transients."""
    model, time = MODEL._replace(friction=0.0), 1e-3 * np.arange(6000)
    one, many = (
        identify(_measured(model, force), force, 1000.0)
        for force in (np.sin(2.0 * math.pi * 20.0 * time), sines(6000, 1000.0, 0.7, np.random.default_rng(0)))
    )
    assert one.damping.half_width > 100.0 * many.damping.half_width
    assert abs(one.damping.value - model.damping) < one.damping.half_width
    slow = 1e-3 * np.sin(2.0 * math.pi * 0.1 * time)
    assert "of the motion, at least 90% are needed" in refusal(_measured(model, slow), slow)


def _measured(model: Model, force: np.ndarray) -> np.ndarray:
    out = np.empty((1, force.size))
    move(np.array(model), force, 1e-3, np.array([0]), np.zeros((3, 1)), out)
    return np.asarray(out[0] + 1e-5 * np.random.default_rng(0).normal(size=force.size))


def test_a_hand_where_there_is_to_be_none() -> None:
    model = MODEL._replace(stiffness=200.0, damping=3.0)
    assert "as if a spring of 200 N/m" in refusal(*recorded(model, 1000.0, 5.0, 1.0, 0, noise=1e-6))


def test_a_trial_alone_is_the_same_twice() -> None:
    given = recorded(MODEL, 1000.0, 4.0, 1.0, 0, noise=1e-5)
    first, second = identify(*given, 1000.0), identify(*given, 1000.0)
    assert isinstance(first, Identified) and first == second
