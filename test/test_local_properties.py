"""Properties of the local model over random constraints and random streams of updates.

Collisions add no kinetic energy, and elastic ones take none; updates that are late, lost, doubled or out of order never
push harder than the contacts allow that they tell of; with deformation no update makes the force jump.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from conftest import sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from world_builder import thesis_material

from haptic_sim.messages import COLLIDING, LocalGeometry, MessageError, ToolCommand
from haptic_sim.tool.local_model import FullParameters, Proxy
from haptic_sim.tool.surroundings import WorldSurroundings
from haptic_sim.worlds.parameters import WorldParameters
from haptic_sim.worlds.scenes import (
    EmptyParameters,
    EnclosureParameters,
    NoToolParameters,
    PegParameters,
    ThreeLinksParameters,
    build_world,
)
from haptic_sim.worlds.world_setup import WorldSetup

RATE = 500.0  # [Hz]
PERIOD = 10  # ticks from update to update
STIFFNESS, DAMPING = 4000.0, 30.0  # [N/m, N s/m]
UNLIMITED = np.full(6, np.inf)
few = settings(deadline=None, max_examples=60)
numbers = st.floats(-1.0, 1.0, allow_subnormal=False)


def brick() -> WorldSetup:
    scene: Any = {"gravity": [0, 0, 0], "tool": "brick"}
    scene["bodies"] = {"brick": {"joint": "free", "mass": 0.7, "shapes": [{"type": "box", "size": [0.1, 0.06, 0.04]}]}}
    return build_world(NoToolParameters(), WorldParameters.model_validate(scene), thesis_material())


TOOLS = {
    "peg": build_world(PegParameters(), EmptyParameters(), thesis_material()),
    "arm": build_world(ThreeLinksParameters(), EmptyParameters(), thesis_material()),
    "brick": brick(),
}


@st.composite
def planes(draw: Any) -> np.ndarray:
    """Normals and contact points of constraints (n, 6), of which some may be the same."""
    rows = draw(st.lists(st.tuples(*[numbers] * 6), min_size=1, max_size=12))
    found = np.array(rows, float)
    found[:, 3:] *= 0.05  # [m] from the hand
    return found


def listed(state: Any, rows: np.ndarray, planar: bool, links: list[int], e: float) -> LocalGeometry:
    """What overlaps the tool by a nanometre, as an update of its present state."""
    nv = state.v.size
    geometry = LocalGeometry(q=state.q.size, v=nv, inertia=nv * nv, gravity=nv, constraints=256)
    geometry.stamp(0, 0)
    geometry.q[:], geometry.pose[:], geometry.inertia[:] = state.q, state.pose, np.eye(nv).ravel()
    geometry.resize(len(rows))
    for i, row in enumerate(rows):
        normal = row[:3] * ([1, 1, 0] if planar else [1, 1, 1])
        if not np.linalg.norm(normal) > 0.1:
            normal = np.array([0.0, 1.0, 0.0])
        point = state.pose[:3] + row[3:] * ([1, 1, 0] if planar else [1, 1, 1])
        one = geometry.constraints[i]
        one["id"], one["body"], one["link"] = i, i, links[i % len(links)]
        one["normal"], one["separation"] = normal / np.linalg.norm(normal), -1e-9
        one["position"] = point + 1e-9 * one["normal"]
        one["restitution"] = e
    return geometry


@pytest.mark.parametrize("tool", ["peg", "arm"])
@few
@given(rows=planes(), speeds=st.tuples(*[numbers] * 6), e=st.sampled_from([0.0, 0.5, 1.0]))
def test_no_collision_adds_kinetic_energy_and_elastic_ones_keep_it(
    tool: str, rows: np.ndarray, speeds: tuple[float, ...], e: float
) -> None:
    world = TOOLS[tool]
    v = np.array(speeds)[: world.model.nv]
    moving = dataclasses.replace(world, v=v)
    contact = thesis_material(stiffness=1e-9, damping=0.0, restitution=e)
    model = Proxy(moving, contact, "impulse_augmented", "full", UNLIMITED, RATE, FullParameters())
    state = model.tool_state()
    links = list(range(1, world.model.njoints))
    model.update(listed(state, rows, world.planar, links, e), 0)
    body = model.tool.body
    before = 0.5 * body.v @ body.D @ body.v
    D = body.D.copy()
    command = ToolCommand()
    command.stamp(0, 0)
    model.step(command, state)
    if state.contact_state != COLLIDING:
        return
    after = 0.5 * state.v @ D @ state.v  # the inertia of the tick: it changes with the configuration only afterwards
    tolerance = 1e-6 * before + 1e-12
    if tool == "arm":  # whose Coriolis forces act in the tick, too
        tolerance += 0.02 * before
    assert after <= before + tolerance
    if e == 1.0:
        assert after >= before - tolerance


@pytest.mark.parametrize("tool", TOOLS)
@few
@given(rows=planes(), speeds=st.tuples(*[numbers] * 6), e=st.sampled_from([0.0, 0.5, 1.0]))
def test_what_collisions_dissipate_is_not_negative_and_nothing_if_elastic(
    tool: str, rows: np.ndarray, speeds: tuple[float, ...], e: float
) -> None:
    """By the sum of the works of the impulses, which the balance of energies has."""
    world = TOOLS[tool]
    moving = dataclasses.replace(world, v=np.array(speeds)[: world.model.nv])
    contact = thesis_material(stiffness=1e-9, damping=0.0, restitution=e)
    model = Proxy(moving, contact, "impulse_augmented", "full", UNLIMITED, RATE, FullParameters())
    state = model.tool_state()
    model.update(listed(state, rows, world.planar, list(range(1, world.model.njoints)), e), 0)
    command = ToolCommand()
    for k in range(2):
        command.stamp(k, 0)
        model.step(command, state)
    kinetic, impact = state.energy[0], state.energy[6]
    assert impact >= 0.0
    if e == 1.0:
        assert impact <= 0.03 * (kinetic + impact) + 1e-12  # what Coriolis forces add to the approach in a tick


# Streams of updates


@st.composite
def streams(draw: Any) -> list[list[tuple[int, int]]]:
    """For each tick: (tick of the survey, tick at which it was made) of the updates that arrive, in any order."""
    arrivals: list[list[tuple[int, int]]] = [[] for _ in range(300)]
    for tick in range(0, 300, PERIOD):
        made = min(299, tick + draw(st.integers(0, 6)))  # the environment's jitter
        for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2]))):  # lost, or doubled
            at = made + draw(st.integers(0, 25))  # and late, later ones before earlier ones
            if at < 300:
                arrivals[at].append((made, at))
    return [draw(st.permutations(each)) if len(each) > 1 else each for each in arrivals]


@pytest.mark.long
@pytest.mark.parametrize("release", sampled(["immediate", "gradual"], "immediate"))
@settings(deadline=None, max_examples=40)
@given(arrivals=streams(), push=st.floats(0.5, 4.0), angle=st.floats(-1.2, 1.2))
def test_a_stream_that_lies_never_pushes_harder_than_the_walls_that_it_tells_of(
    release: str, arrivals: list[list[tuple[int, int]]], push: float, angle: float
) -> None:
    """Walls stand still: each point is pushed by its depth in them, now or up to a period ago, and its damper."""
    world = build_world(PegParameters(), EnclosureParameters(gap=(0.004, 0.006)), thesis_material())
    contact = thesis_material(stiffness=STIFFNESS, damping=DAMPING)
    parameters = FullParameters.model_validate({"type": "full", "epsilon": 0.003, "release": release})
    model = Proxy(world, contact, "penalty", "full", UNLIMITED, RATE, parameters, PERIOD / RATE)
    surroundings = WorldSurroundings(world, contact, epsilon=0.003, rate=RATE, period=PERIOD / RATE)
    state, command, geometry = model.tool_state(), ToolCommand(), surroundings.local_geometry()
    made: dict[int, bytes] = {}
    force = push * np.array([np.cos(angle), -np.abs(np.sin(angle))])
    corners = np.array([[x, y] for x in (-0.021, 0.021) for y in (-0.0105, 0.0105)])
    walls = ((np.array([-1.0, 0.0]), -0.025), (np.array([0.0, 1.0]), -0.0165))
    due = {survey for each in arrivals for survey, _ in each}
    deepest, taken = 0.0, 0
    for tick in range(300):
        if tick in due:
            surroundings.survey(state, tick, geometry)
            made[tick] = geometry.to_bytes()
        for survey, _ in arrivals[tick]:
            geometry.load(made[survey])
            try:
                model.update(geometry, tick)
                taken += 1
            except MessageError as error:
                assert "is of the past" in str(error)
        angle_WT = 2.0 * np.arctan2(state.pose[5], state.pose[6])  # the peg turns about z alone
        cosine, sine = np.cos(angle_WT), np.sin(angle_WT)
        arms = corners @ np.array([[cosine, sine], [-sine, cosine]])
        places = state.pose[:2] + arms
        velocities = state.twist[:2] + state.twist[5] * arms @ np.array([[0.0, 1.0], [-1.0, 0.0]])
        depth = [np.maximum(offset - places @ normal, 0.0) for normal, offset in walls]
        closing = [np.maximum(-velocities @ normal, 0.0) for normal, _ in walls]
        command.stamp(tick, 0)
        command.wrench[:2] = force * (np.sin(0.05 * tick) + 0.5)
        model.step(command, state)
        now = float(sum(depths.sum() for depths in depth))
        deepest = max(deepest, now)
        damping = DAMPING * float(sum(c.sum() for c in closing))
        bound = STIFFNESS * (now if release == "immediate" else 2.0 * deepest) + damping
        size = float(np.linalg.norm(state.wrench[:2]))
        assert np.isfinite(state.wrench).all()
        if release == "gradual":  # dampers of what fades have the velocities of before
            bound += 4 * DAMPING * 0.5
        assert size <= bound * (1.0 + 1e-9) + 1e-9
    assert taken > 0 or not any(arrivals)


# Continuity


@pytest.mark.long
@settings(deadline=None, max_examples=60)
@given(depths=st.lists(st.floats(-2e-3, 2e-3), min_size=2, max_size=6))
def test_with_deformation_updates_change_the_force_by_no_more_than_a_periods_part(depths: list[float]) -> None:
    """A wall that each update has elsewhere: without deformation the force jumps by all of its change."""
    soft, half = 1e-6, 0.021
    found = {}
    for deformation in (True, False):
        world = build_world(PegParameters(), EmptyParameters(), thesis_material())
        parameters = FullParameters(deformation=deformation)
        contact = thesis_material(stiffness=soft, damping=0.0)
        model = Proxy(world, contact, "penalty", "full", UNLIMITED, RATE, parameters, PERIOD / RATE)
        state, command, force = model.tool_state(), ToolCommand(), []
        for k, depth in enumerate([0.0, *depths]):
            geometry = LocalGeometry(q=3, v=3, inertia=9, gravity=3, constraints=256)
            geometry.stamp(k * PERIOD, 0)
            geometry.pose[6], geometry.inertia[:] = 1.0, np.eye(3).ravel()
            geometry.resize(1)
            row = geometry.constraints[0]
            row["id"], row["body"], row["link"], row["normal"] = 1, 1, 1, [-1, 0, 0]
            row["separation"], row["position"] = -depth, [half - depth, 0, 0]
            model.update(geometry, k * PERIOD)
            for i in range(PERIOD):
                command.stamp(k * PERIOD + i, 0)
                model.step(command, state)
                force.append(-state.wrench[0] / soft)
        found[deformation] = np.abs(np.diff(force))
    jumps = np.abs(np.diff(np.maximum([0.0, *depths], 0.0)))
    np.testing.assert_allclose(found[False].max(), jumps.max(), rtol=1e-3, atol=1e-9)
    deepest = max(0.0, *depths)
    assert found[True].max() <= deepest / PERIOD * 1.01 + 1e-9
