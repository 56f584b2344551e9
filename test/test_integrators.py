"""Integrators of the tool's position (BROWN Table 1): difference equations, transfer functions, where they apply."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from haptic_bench import experiment
from haptic_bench.recording.samples import MessageStore
from haptic_bench.replay.resimulation import resimulate
from haptic_bench.running.offline import simulate
from haptic_control.passivity.coupling import point_mass
from haptic_sim.parameters import ParameterError
from haptic_sim.simulation import World
from haptic_sim.tool.environment import Environment

RATE, MASS = 500.0, 0.3  # [Hz], [kg]
T = 1.0 / RATE
BALL = {"joint": "free", "mass": MASS, "shapes": [{"type": "sphere", "radius": 0.05}]}


def environment(integrator: int, **body: Any) -> Environment:
    world = World({"bodies": {"ball": BALL | body}, "tool": "ball", "gravity": [0, 0, 0]}, rate=RATE)
    return Environment(world.start, method="penalty", rate=RATE, integrator=integrator)


def table_1(integrator: int, forces: np.ndarray, v: float = 0.0) -> np.ndarray:
    """Positions x_1 ... x_n of the difference equations, from x_0 = 0."""
    x, rows = 0.0, []
    for force in forces:
        new = v + T / MASS * force
        x += T * {1: v, 2: new, 3: 0.5 * (v + new)}[integrator]
        v = new
        rows.append(x)
    return np.array(rows)


@pytest.mark.parametrize("integrator", [1, 2, 3])
def test_the_tool_obeys_the_difference_equations_of_table_1(integrator: int) -> None:
    forces = np.random.default_rng(2).normal(size=200)
    one = environment(integrator, velocity=[0.2, 0, 0, 0, 0, 0])
    rows = [[state.pose[0], state.twist[0], state.v[0]] for state in (one.advance([f, 0, 0, 0, 0, 0]) for f in forces)]
    x, twist, v = np.array(rows).T
    np.testing.assert_allclose(x, table_1(integrator, forces, 0.2), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(twist, np.diff(x, prepend=0.0) / T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(v, 0.2 + np.cumsum(T / MASS * forces), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("integrator", [1, 2, 3])
def test_its_impulse_response_is_that_of_the_transfer_function_of_the_analysis(integrator: int) -> None:
    """T^2/m g(z) as a series in z^-1, from its values on a circle that is larger than the poles at 1."""
    n, radius = 64, 1.2
    z = radius * np.exp(2j * np.pi * np.arange(4 * n) / (4 * n))
    E = point_mass(MASS, T, integrator)
    d = 1.0 - 1.0 / z
    values = np.polynomial.polynomial.polyval(d, E.numerator) / np.polynomial.polynomial.polyval(d, E.denominator)
    series = np.fft.ifft(values).real[:n] * radius ** np.arange(n)  # of z^-k
    one = environment(integrator)
    x = [one.advance([float(k == 0), 0, 0, 0, 0, 0]).pose[0] for k in range(n - 1)]
    np.testing.assert_allclose([0.0, *x], series, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("integrator", [1, 3])
def test_a_turn_about_an_axis_obeys_them_too(integrator: int) -> None:
    """But for the Cayley transform of `free_rotation`, a turn of 2 atan(T w / 2)."""
    torques = np.random.default_rng(4).normal(0.0, 1e-3, size=100)
    one = environment(integrator, velocity=[0, 0, 0, 0, 0, 1.5])
    inertia = 0.4 * MASS * 0.05**2
    states = [(state.pose.copy(), state.twist.copy()) for state in (one.advance([0, 0, 0, 0, 0, t]) for t in torques)]
    angles = np.unwrap([Rotation.from_quat(pose[3:]).as_rotvec()[2] for pose, _ in states])
    expected = table_1(integrator, torques * MASS / inertia, 1.5)
    np.testing.assert_allclose(angles, expected, rtol=2e-6)
    np.testing.assert_allclose([twist[5] for _, twist in states], np.diff(angles, prepend=0.0) / T, rtol=1e-8)


def test_a_spinning_body_turns_as_fast_with_each() -> None:
    """Without a torque the momentum is kept, and integrators differ by less than a step."""
    turned = []
    for integrator in (1, 2, 3):
        one = environment(integrator, velocity=[0, 0, 0, 3.0, 1.0, 2.0], inertia=[1e-3, 2e-3, 2.5e-3])
        for _ in range(300):
            one.advance()
        turned.append(Rotation.from_quat(one.state.pose[3:]))
    step = T * np.linalg.norm([3.0, 1.0, 2.0])
    assert max((turned[i] * turned[1].inv()).magnitude() for i in (0, 2)) < 5.0 * step


@pytest.mark.parametrize("integrator", ["1", "3"])
def test_a_trial_is_simulated_again(integrator: str) -> None:
    trials = experiment.load("static_wall", ("local_model.type=none", "environment.rate=null",
                                             "environment.method=penalty", "analysis=trial",
                                             f"environment.integrator={integrator}"), "0.3")  # fmt: skip
    store = MessageStore()
    simulate(trials[0], store)
    verdict = resimulate(trials[0], store.messages)
    assert (verdict.difference, verdict.unverified) == ("", []) and verdict.compared > 400


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("corner_peg", (), "integrator = 1: is for one free rigid tool whose contacts are penalties, and"),
        ("static_wall", ("environment.method=penalty",), "integrator = 1: is for a tool in a synchronous world"),
        (
            "rolling_disk",
            (),
            "integrator = 1: is for a tool in a synchronous world, and here are exact constraints",
        ),
        ("laparoscopic", ("environment.method=penalty",), "for one free rigid tool whose contacts are penalties, and"),
        ("corner_peg", ("environment.integrator=4",), "environment.integrator = 4: must be <= 3"),
    ],
)
def test_where_they_do_not_apply_they_are_refused(name: str, settings: tuple[str, ...], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        experiment.load(name, ("environment.integrator=1", *settings))[0].tool_side()
