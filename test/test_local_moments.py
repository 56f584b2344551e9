"""Rolling and torsional friction with a local model: closed forms, bodies that turn, energy, messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from world_builder import METHODS, RIGID, Body, G, ball, make_world, plane, thesis_material

from haptic_sim.contact.response import ContactParameters, DeviceLimits
from haptic_sim.dynamics.energy import FRICTION, INJECTED, NUMERICAL
from haptic_sim.messages import LocalGeometry, ToolCommand, ToolState
from haptic_sim.tool.local_model import FullParameters
from haptic_sim.tool.local_model.baselines import ExtrapolatedParameters, HeldParameters, ResolveParameters
from haptic_sim.tool.local_model.parameters import LocalModelContext
from haptic_sim.tool.local_model.proxy import IntermediateParameters
from haptic_sim.tool.surroundings import WorldSurroundings

R, M = 0.05, 1.0  # of the balls [m], [kg]
I = 0.4 * M * R * R  # noqa: E741  # their inertia
RHO, SIGMA = 2e-3, 1.5e-3  # [m]
RATE = 1000.0  # [Hz]
SAG = M * G / ContactParameters().stiffness  # of a ball at rest on penalties [m]
BASELINES = (
    IntermediateParameters(),
    HeldParameters(),
    ExtrapolatedParameters(),
    ResolveParameters(force_coefficient=1.0),
)


def run(
    bodies: dict[str, Body],
    local: Any,
    method: Any,
    ticks: int,
    every: int = 16,
    gravity: Any = (0, 0, -G),
    rolling: float = RHO,
    torsional: float = SIGMA,
) -> tuple[Any, ToolState, LocalGeometry]:
    """A local model and an environment at RATE / every; returns the first, its state, and the last update."""
    friction = {"static": 0.6, "kinetic": 0.5, "rolling": rolling, "torsional": torsional}
    if method in RIGID:
        friction["model"] = "coulomb"  # type: ignore[assignment]
    material = thesis_material(penalty="consistent", friction=friction)
    world = make_world(bodies, material, gravity=list(gravity), allowed_overlap=0.01)
    period = every / RATE
    limits = DeviceLimits(impulse_rendering="full")
    model = local.build(LocalModelContext(world, material, method, limits, RATE, period))
    surroundings = WorldSurroundings(
        world, material, method, epsilon=local.epsilon, rate=RATE, period=period, wrench=local.WRENCH
    )
    state, geometry, command = model.tool_state(), surroundings.local_geometry(), ToolCommand()
    for tick in range(ticks):
        if tick % every == 0:
            state.tick = tick - 1
            surroundings.survey(state, tick // every, geometry)
            model.update(geometry, tick)
        command.stamp(tick, 0)
        model.step(command, state)
    return model, state, geometry


def height(method: str) -> float:
    """Of the centre of a ball that rests on a plane [m]."""
    return R - (0.0 if method in RIGID else SAG)


@pytest.mark.parametrize(
    ("local", "method"), [*((FullParameters(), method) for method in METHODS), *((one, "penalty") for one in BASELINES)]
)
def test_a_spinning_tool_slows_by_sigma_times_the_normal_impulse(local: Any, method: str) -> None:
    """I dw = -sigma p_n, with the impulse that the state reports; the hand feels the moment as a torque."""
    w = 5.0
    _, state, geometry = run(
        {"floor": plane(), "ball": ball((0, 0, height(method)), (0, 0, 0, 0, 0, w))}, local, method, 100
    )
    impulse = state.impulse[2]
    assert impulse == pytest.approx(M * G * 0.1, rel=0.1)  # penalties may begin without a force
    if local.type == "resolve":  # its moments grow with the rotation since an update
        assert 0.9 < (w - state.twist[5]) * I / (SIGMA * impulse) < 1.0
    else:
        assert w - state.twist[5] == pytest.approx(SIGMA * impulse / I, rel=1e-6)
    assert state.wrench[5] == pytest.approx(-SIGMA * state.wrench[2], rel=1e-6)
    constraint = geometry.constraints[0]
    assert (constraint["friction_rolling"], constraint["friction_torsional"]) == (RHO, SIGMA)
    np.testing.assert_array_equal(constraint["angular_velocity"], 0.0)


@pytest.mark.parametrize("method", ["penalty", "constraint"])
def test_a_rolling_tool_slows_by_what_rolling_friction_takes(method: str) -> None:
    """By (5 / 7) rho g / r beyond what it does without, as the point of a constraint turns with the tool."""
    v = 0.3
    bodies = {"floor": plane(), "ball": ball((0, 0, height(method)), (v, 0, 0, 0, v / R, 0))}
    with_it, without = (run(bodies, FullParameters(), method, 100, rolling=rho)[1].twist[0] for rho in (RHO, 0.0))
    assert without - with_it == pytest.approx(5.0 / 7.0 * RHO * G / R * 0.1, rel=0.02)


def turntable(inertia: float) -> Body:
    """A disk that turns about z, its top at z = 0."""
    shape = {"type": "cylinder", "radius": 0.2, "length": 0.02}
    more = {"mass": 1.0, "inertia": [inertia] * 3, "position": [0, 0, -0.01], "shapes": [shape]}
    return {"joint": "revolute", "axis": [0, 0, 1], **more}


@pytest.mark.parametrize("every", [1, 16])
def test_a_tool_and_the_body_that_it_turns_end_at_one_speed(every: int) -> None:
    """Their angular momentum about the axis is conserved, though they are in two simulations.

    Until then the body has dw/dt = sigma m g / J. The environment's tool follows within a few per cent.
    """
    w, J = 5.0, 2.0 * I
    bodies = {"table": turntable(J), "ball": ball((0, 0, R), (0, 0, 0, 0, 0, w))}
    _, state, geometry = run(bodies, FullParameters(), "constraint", 112 + every, every)
    assert geometry.twists[0, 5] == pytest.approx(SIGMA * M * G / J * 0.112, rel=0.02)
    assert w - state.twist[5] == pytest.approx(SIGMA * M * G / I * (0.112 + 1e-3 * every), rel=1e-3)
    np.testing.assert_allclose(geometry.constraints[0]["angular_velocity"][2], geometry.twists[0, 5], atol=0.1)
    _, state, geometry = run(bodies, FullParameters(), "constraint", 2000 + every, every)
    assert state.twist[5] == pytest.approx(I * w / (I + J), rel=0.02)
    assert geometry.twists[0, 5] == pytest.approx(state.twist[5], rel=1e-3)


def test_static_constraints_do_not_turn() -> None:
    w, J = 5.0, 2.0 * I
    bodies = {"table": turntable(J), "ball": ball((0, 0, R), (0, 0, 0, 0, 0, w))}
    _, state, geometry = run(bodies, FullParameters(constraints="static"), "constraint", 400)
    np.testing.assert_allclose(state.twist[3:], 0.0, atol=1e-12)
    assert geometry.twists[0, 5] > 0.5


@pytest.mark.parametrize("method", METHODS)
def test_what_a_turning_body_gives_a_tool_is_booked_as_supplied(method: str) -> None:
    """A plane that turns spins a ball up: I dw/dt = sigma m g, and the energy balance of the ball closes."""
    turns = np.array([0.0, 0.0, 3.0])
    bodies = {"floor": plane(), "ball": ball((0, 0, height(method)))}
    model, state, geometry = run(bodies, FullParameters(deformation=False), method, 16)
    geometry.constraints[0]["angular_velocity"] = turns
    command, begun = ToolCommand(), model.tool.energy.values.copy()
    for tick in range(16, 66):
        if tick % 16 == 0:
            geometry.stamp(tick, 0)
            geometry.q[:] = state.q
            model.update(geometry, tick)
        command.stamp(tick, 0)
        model.step(command, state)
    assert state.twist[5] == pytest.approx(SIGMA * M * G / I * 0.05, rel=1e-3)
    injected, numerical, friction = (model.tool.energy.values - begun)[[INJECTED, NUMERICAL, FRICTION]]
    assert injected == pytest.approx(SIGMA * M * G * 3.0 * 0.05, rel=1e-3)
    assert injected - friction == pytest.approx(0.5 * I * state.twist[5] ** 2, rel=1e-3)
    assert abs(numerical) < 1e-9
