"""An exactly constrained tool as the tool's side: what it tells of the hand, its energies, and what it refuses."""

from __future__ import annotations

import itertools
import math
import re
from functools import cache

import numpy as np
import pytest
from conftest import sampled
from pydantic import ValidationError
from world_builder import thesis_material

from haptic_sim.constraints import tool as constrained_tool
from haptic_sim.constraints.projection import ADVANCED
from haptic_sim.constraints.scenes import (
    ConstraintParameters,
    DiskOnSphereParameters,
    FormulasParameters,
    RollingDiskParameters,
    RollingSpheresParameters,
    TwoLinkCircleParameters,
    TwoLinkClosedLoopParameters,
    build_setup,
    build_solver,
)
from haptic_sim.constraints.tool import ConstrainedTool, build_constrained_tool
from haptic_sim.contact.response import DeviceLimits
from haptic_sim.dynamics.energy import TERMS, UnstableError
from haptic_sim.messages import FREE, ToolCommand, tick_time
from haptic_sim.parameters import ParameterError, explain
from haptic_sim.tool.parameters import EnvironmentParameters
from haptic_sim.tool.tool_side import build_start, build_tool_side, hand_pose, is_constrained, tool_sizes, world_of
from haptic_sim.worlds.scenes import NoToolParameters

LOPSIDED = (0.0025, 0.0030, 0.0041)
WRENCH = np.array([0.7, -0.4, 0.5, 0.02, -0.015, 0.03])
ROLLING = 0.03 * 4.0  # [m/s] of a disk that spins with 4 rad/s
DISK = RollingDiskParameters(
    inertia=LOPSIDED, velocity=(-ROLLING * math.cos(0.3), -ROLLING * math.sin(0.3), 0.0, 2.0, 4.0, 0.0)
)
SPHERE = DiskOnSphereParameters(inertia=LOPSIDED, gravity=(0.0, 0.0, -2.0))
CIRCLE = TwoLinkCircleParameters(velocity=(3.0, 0.0))  # at angle 0 the first joint moves along the circle
SPHERES = RollingSpheresParameters()
LOOP = TwoLinkClosedLoopParameters()
PROJECTED = ConstraintParameters()
STABILISED = ConstraintParameters(solver="stabilised", gamma=10.0)
TOOLS = {
    "disk": (DISK, PROJECTED),
    "disk, stabilised": (DISK, STABILISED),
    "sphere": (SPHERE, PROJECTED),
    "circle": (CIRCLE, PROJECTED),
    "circle, stabilised": (CIRCLE, STABILISED),
    "spheres": (SPHERES, STABILISED),
    "loop": (LOOP, STABILISED),
}
WHOLE = [name for name in TOOLS if name != "loop"]
"""Whose constraint forces all act on the held body."""


class Sections:
    """What an experiment says of the tool's side."""

    def __init__(self, scene, constraint=PROJECTED):
        self.tool, self.contact, self.environment = NoToolParameters(), thesis_material(), EnvironmentParameters()
        self.scene, self.constraint = scene, constraint


def tool(name, rate=1000.0) -> ConstrainedTool:
    return build_constrained_tool(*TOOLS[name], rate)


def stepped(core, ticks, wrench=WRENCH):
    """The tool's states, before the first tick and after each."""
    state, command = core.tool_state(), ToolCommand()
    states = [core.tool_state()]
    for tick in range(ticks):
        command.stamp(tick, tick_time(tick, core.rate))
        command.wrench[:] = wrench
        core.step(command, state)
        states.append(core.tool_state())
        states[-1].load(state)
    return states


@cache
def course(name):
    """Two seconds of a tool."""
    return tuple(stepped(tool(name), 2000))


@pytest.mark.parametrize("name", TOOLS)
def test_a_wrench_accelerates_the_hand_as_told(name):
    """twist' = free_acceleration + inverse_inertia F, in the middle of three states of a fine step."""
    for wrench in (np.zeros(6), WRENCH, -3.0 * WRENCH[::-1]):
        before, middle, after = stepped(tool(name, 1e5), 2, wrench)
        measured = (after.twist - before.twist) / 2e-5
        told = middle.free_acceleration + middle.inverse_inertia.reshape(6, 6) @ wrench
        assert measured == pytest.approx(told, rel=1e-6, abs=1e-5)


@pytest.mark.parametrize("name", TOOLS)
def test_pose_and_twist_belong_together(name):
    before, middle, after = stepped(tool(name, 1e5), 2)
    assert (after.pose[:3] - before.pose[:3]) / 2e-5 == pytest.approx(middle.twist[:3], rel=1e-6, abs=1e-6)
    (x, y, z, w), rate = middle.pose[3:], (after.pose[3:] - before.pose[3:]) / 2e-5
    # quat' = omega quat / 2
    half = 0.5 * np.array([[w, z, -y], [-z, w, x], [y, -x, w], [-x, -y, -z]]) @ middle.twist[3:]
    assert rate == pytest.approx(half, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", TOOLS)
def test_the_inverse_inertia_is_that_of_a_passive_body(name):
    inverse = stepped(tool(name), 20)[-1].inverse_inertia.reshape(6, 6)
    assert inverse == pytest.approx(inverse.T, abs=0.0)
    assert np.linalg.eigvalsh(inverse).min() > -1e-12 * np.abs(inverse).max()


def test_the_disk_cannot_be_moved_where_it_is_held():
    """Lift, sideways push and tilt: no acceleration; along the heading it has m + Jzz / r^2."""
    inverse = tool("disk").tool_state().inverse_inertia.reshape(6, 6)
    heading = np.array([math.cos(0.3), math.sin(0.3), 0.0])
    across, up = np.array([-heading[1], heading[0], 0.0]), np.array([0.0, 0.0, 1.0])
    for push in (np.r_[across, 0, 0, 0], np.r_[up, 0, 0, 0], np.r_[0, 0, 0, heading]):
        assert inverse @ push == pytest.approx(np.zeros(6), abs=1e-12)
    along = np.r_[heading, 0, 0, 0] @ inverse @ np.r_[heading, 0, 0, 0]
    assert along == pytest.approx(1.0 / (0.25 + LOPSIDED[2] / 0.03**2), rel=1e-12)


@pytest.mark.parametrize("name", ["disk", "sphere", "circle"])
def test_constraint_forces_do_no_work(name):
    for before, after in itertools.pairwise(stepped(tool(name), 200)):
        power = after.wrench @ before.twist
        assert abs(power) < 1e-9 * (1.0 + np.linalg.norm(after.wrench))


@pytest.mark.parametrize("name", ["disk", "disk, stabilised", "sphere"])
def test_newtons_law_with_the_wrench_of_the_constraints(name):
    """m dv/dt = F + constraints + weight - damping, at the beginning of a tick."""
    scene = TOOLS[name][0]
    states = stepped(tool(name), 50)
    for before, after in itertools.pairwise(states):
        acceleration = before.free_acceleration + before.inverse_inertia.reshape(6, 6) @ WRENCH
        forces = WRENCH[:3] + after.wrench[:3] + 0.25 * np.array(scene.gravity) - before.twist[:3]
        assert 0.25 * acceleration[:3] == pytest.approx(forces, abs=1e-9)


def test_the_circle_pushes_along_its_radius():
    for before, after in itertools.pairwise(course("circle")[:301]):
        outward = before.pose[:2] / np.linalg.norm(before.pose[:2])
        assert after.wrench == pytest.approx(np.r_[after.multipliers[0] * outward, 0, 0, 0, 0], abs=1e-8)


@pytest.mark.long
@pytest.mark.parametrize("name", sampled(["disk", "sphere", "circle"], "disk"))
def test_energies_balance_and_time_adds_next_to_nothing(name):
    states = course(name)[:1001]
    energy = {term: np.array([s.energy[i] for s in states[1:]]) for i, term in enumerate(TERMS)}
    stored = energy["kinetic"] + energy["potential"]
    gained = energy["injected"] - energy["damping"] + energy["numerical"]
    assert stored - stored[0] == pytest.approx(gained, abs=1e-12)
    assert np.abs(energy["numerical"]).max() < 1e-7 * np.abs(energy["injected"]).max()
    assert np.all(np.diff(energy["damping"]) >= 0.0)
    assert states[-1].kinetic_energy > 0.0 and not energy["impact"].any() and not energy["friction"].any()


TURNTABLE = {
    "parameters": {"m": 0.2, "I": 0.01, "w": 4.0},
    "coordinates": ["r", "phi"],
    "kinetic": "m*(r_dot**2 + r**2*phi_dot**2)/2 + I*phi_dot**2/2",
    "hand": {"position": ["r*cos(phi)", "r*sin(phi)", "0"]},
    "start": {"r": 0.1, "phi_dot": "w"},
}
"""A body in a radial slot of a table that turns at w: r = r0 cosh(w t), torque 2 m r r_dot w."""


@pytest.mark.parametrize("solver", ["projection", "stabilised"])
@pytest.mark.parametrize("rows", [{"velocities": ["phi_dot - w"]}, {"positions": ["phi - w*t"]}])
@pytest.mark.exhaustive
def test_the_work_of_a_turntable_is_injected(solver, rows):
    """Power = w times torque, whose integral is m w^2 (r^2 - r0^2): twice what the radial motion has."""
    scene = FormulasParameters.model_validate(TURNTABLE | rows)
    states = stepped(build_constrained_tool(scene, ConstraintParameters(solver=solver), 1000.0), 400, np.zeros(6))[1:]
    energy = {term: np.array([s.energy[i] for s in states]) for i, term in enumerate(TERMS)}
    r = 0.1 * np.cosh(4.0 * 1e-3 * np.arange(len(states)))  # energies are those of the beginning of a tick
    work = 0.2 * 4.0**2 * (r**2 - 0.01)
    assert work[-1] > 0.1
    assert energy["injected"] == pytest.approx(work, abs=1e-6)
    assert np.abs(energy["numerical"]).max() < 1e-6
    np.testing.assert_array_equal(energy["damping"], 0.0)
    torques = [s.multipliers[0] for s in states]
    assert torques == pytest.approx(2.0 * 0.2 * r * 0.1 * 4.0 * np.sinh(4.0 * 1e-3 * np.arange(len(r))) * 4.0, abs=1e-5)


@pytest.mark.parametrize(("scene", "bound"), [(DISK, 0.3), (SPHERE, 0.3), (CIRCLE, 5.0)])
def test_the_explicit_algorithm_errs_by_thousands_of_times_as_much(scene, bound):
    errors = []
    for integrator in ("rk4", "explicit"):
        core = build_constrained_tool(scene, ConstraintParameters(integrator=integrator), 1000.0)
        states = stepped(core, 500)
        assert max(s.residual[0] for s in states) < 1e-10
        errors.append(max(abs(s.energy[7]) for s in states))
    assert 1e3 * errors[0] < errors[1] < bound


@pytest.mark.long
@pytest.mark.parametrize("name", ["disk", "sphere", "circle"])
def test_residuals_stay_at_rounding(name):
    states = course(name)
    assert max(s.residual[0] for s in states) < 1e-12
    assert max(s.residual[1] for s in states) < 1e-14


def test_stabilised_and_projected_tools_agree_on_the_manifold():
    ends = [stepped(tool(name), 500)[-1] for name in ("disk", "disk, stabilised")]
    assert ends[0].q == pytest.approx(ends[1].q, abs=1e-9)
    assert ends[0].multipliers == pytest.approx(ends[1].multipliers, abs=1e-7)


def test_a_displaced_sphere_comes_back_at_the_rate():
    """The contact error jumps at the disturbance and decays as exp(-gamma t); the work of displacing is injected."""
    scene = SPHERES.model_copy(update={"disturbance_time": 0.2, "disturbance": 0.04})
    core = build_constrained_tool(scene, STABILISED, 1000.0)
    error = np.array([s.q[0] - 0.6 for s in stepped(core, 500, np.zeros(6))])
    assert error[0] == pytest.approx(0.05)
    assert error[200] == pytest.approx(0.05 * math.exp(-2.0), rel=1e-6)
    assert error[201] == pytest.approx((error[200] + 0.04) * math.exp(-0.01), rel=1e-6)
    assert error[500] == pytest.approx((error[200] + 0.04) * math.exp(-3.0), rel=1e-6)


@pytest.mark.long
def test_a_straight_linkage_neither_jumps_nor_vanishes():
    """The circle leaves the reach of the links: they pass through the straight line, elbow to the other side."""
    scene = TwoLinkCircleParameters(radius=0.1, start=0.9, damping=0.0)
    core = build_constrained_tool(scene, PROJECTED, 1000.0)
    states = stepped(core, 3000, np.array([0.0, -0.3, 0, 0, 0, 0]))
    bends = np.sin([s.q[1] for s in states])
    assert bends.min() < 0.0 < bends.max()
    assert all(s.is_finite() for s in states)
    steps = np.abs(np.diff([s.v for s in states], axis=0)).max()
    assert steps < 0.05
    assert max(s.residual[0] for s in states) < 1e-10


@pytest.mark.parametrize("name", ["disk", "disk, stabilised", "circle"])
def test_a_tool_goes_on_in_whatever_message_it_is_given(name):
    """The state is the tool's own; a message only tells of it."""
    core, command, other = tool(name), ToolCommand(), tool(name)
    state, messages = core.tool_state(), [other.tool_state(), other.tool_state()]
    for tick in range(20):
        command.tick = tick
        command.wrench[:] = math.cos(tick) * WRENCH
        core.step(command, state)
        message, last = messages[tick % 2], messages[(tick + 1) % 2]
        message.load(last)
        message.constraint_directions[:] = 1.0
        message.resize(6)  # what another tool may have left
        other.step(command, message)
        assert message.to_bytes() == state.to_bytes()
        assert np.array_equal(state.q, core.solver.q) and np.array_equal(state.multipliers, core.solver.multipliers)
        assert (core.solver.status, core.solver.rank) == (ADVANCED, core.setup.system.m)
        assert core.solver.residual <= state.residual[0] + 1e-15


@pytest.mark.parametrize("constraint", [PROJECTED, STABILISED, ConstraintParameters(integrator="explicit")])
def test_the_tool_moves_as_its_solver_alone(constraint):
    """Bit by bit: what lies around the solver's step, and its workspace that both use, change nothing in it."""
    core = build_constrained_tool(CIRCLE, constraint, 1000.0)
    solver = build_solver(core.setup, constraint, 1000.0)
    for state in stepped(core, 200)[1:]:
        solver.step(WRENCH)
        assert np.array_equal(state.q, solver.q) and np.array_equal(state.v, solver.v)
        assert np.array_equal(state.multipliers, solver.multipliers)


def test_a_state_is_whole():
    core = tool("disk")
    first = core.tool_state()
    assert (first.tick, first.command_tick, first.contact_state, first.contacts) == (-1, -1, FREE, 0)
    assert first.pose[:3] == pytest.approx([0.0, 0.0, 0.03])
    assert (first.q.size, first.v.size, first.multipliers.size, len(first)) == (6, 6, 4, 0)
    after = stepped(core, 3)[-1]
    assert (after.tick, after.command_tick, after.nanoseconds) == (2, 2, 3_000_000)
    assert after.is_finite()


def test_a_step_compiles_nothing():
    kernels = [k for k in vars(constrained_tool).values() if hasattr(k, "signatures")]
    core = tool("disk")
    core.warm_up()
    known = [len(k.signatures) for k in kernels]
    for other in ("disk", "sphere", "circle"):
        stepped(tool(other), 5)
    assert [len(k.signatures) for k in kernels] == known


def test_the_tool_side_of_an_experiment():
    sections = Sections(CIRCLE)
    assert is_constrained(sections)
    start = build_start(sections)
    assert tuple(tool_sizes(start)) == (2, 2, 1)
    pose = hand_pose(start)
    assert start.planar and pose[:3] == pytest.approx([0.05, 0.0, 0.0], abs=1e-15)
    assert isinstance(build_tool_side(sections, DeviceLimits(), 1000.0), ConstrainedTool)
    with pytest.raises(ParameterError, match=r"scene.type = two_link_circle: .* without a world"):
        world_of(sections)


@pytest.mark.parametrize(
    ("scene", "constraint", "message"),
    [
        (
            RollingDiskParameters(velocity=(0.0, 0.1, 0.0, 0.0, 0.0, 0.0)),
            PROJECTED,
            r"velocities\[1\] .* is not met by the initial velocity .*residual 0\.1; solver=stabilised",
        ),
        (SPHERES, PROJECTED, r"positions\[0\] .* is not met by the initial configuration .*residual 0\.05"),
        (LOOP, PROJECTED, r"positions\[\d\] .* is not met by the initial configuration .*residual"),
        (DISK, ConstraintParameters(solver="stabilised", gamma=9000.0), r"gamma = 9000.0 1/s: must be from 0 to 2500"),
        (TwoLinkCircleParameters(base=(-0.9, 0.0)), PROJECTED, r"scene.start = 0 rad: the end point is 0.95 m from"),
    ],
)
def test_what_cannot_start_is_named(scene, constraint, message):
    with pytest.raises(ParameterError, match=message):
        build_constrained_tool(scene, constraint, 1000.0)


def test_the_inertia_of_a_disk_is_that_of_a_body():
    with pytest.raises(ValidationError) as caught:
        RollingDiskParameters(inertia=(1.0, 1.0, 5.0))
    problem = "inertia = [1.0, 1.0, 5.0] kg m^2: none must be above the sum of the others"
    assert problem in "\n".join(explain(caught.value, RollingDiskParameters))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rolling": False}, "rolling = false: must be 'true' or 'printed'"),
        ({"rolling": "slips"}, "rolling = slips: must be 'true' or 'printed'"),
        ({"gamma": -1.0}, "gamma = -1 1/s: must be >= 0 1/s"),
        ({"solver": "baumgarte"}, "solver = baumgarte: must be 'projection' or 'stabilised'"),
        ({"solver": "stabilised", "integrator": "explicit"}, "integrator = explicit: solver=stabilised has rk4 only"),
        ({"gama": 1.0}, "gama: unknown key; did you mean gamma?"),
    ],
)
def test_bad_parameters_are_explained(values, message):
    with pytest.raises(ValidationError) as caught:
        ConstraintParameters.model_validate(values)
    assert message in "\n".join(explain(caught.value, ConstraintParameters))


def test_true_is_what_yaml_makes_of_it():
    assert ConstraintParameters.model_validate({"rolling": True}) == ConstraintParameters()
    printed = build_setup(SPHERES, ConstraintParameters(rolling="printed")).system
    true = build_setup(SPHERES, ConstraintParameters()).system
    q, v = np.array(SPHERES.start), np.array(SPHERES.velocity)
    assert np.abs(printed.evaluate(q, v).A.copy() - true.evaluate(q, v).A).max() > 1e-3


@pytest.mark.exhaustive
@pytest.mark.parametrize("solver", [PROJECTED, ConstraintParameters(integrator="explicit"), STABILISED])
@pytest.mark.parametrize(
    ("changes", "tick", "problem"),
    [
        # the kinetic energy x x_dot^2/2 is constant: x = (x0^1.5 + 1.5 sqrt(x0) v0 t)^(2/3) is zero at 66.7 ms
        (
            {"kinetic": "(x*x_dot**2 + y_dot**2)/2", "start": {"x": 0.1, "x_dot": -1.0}},
            66,
            "kinetic: the inertia is not",
        ),
        ({"forces": {"y": "1/(t - 0.05)"}}, 50, r"forces\.y: has no finite value there \(a division by zero"),
        ({"potential": "y*sqrt(x)", "start": {"x": 0.1, "x_dot": -1.0}}, 100, "potential.* finite value there"),
    ],
)
def test_a_system_that_has_no_motion_any_more_ends_its_trial(solver, changes, tick, problem):
    scene = {"coordinates": ["x", "y"], "kinetic": "(x_dot**2 + y_dot**2)/2", "hand": {"position": ["x", "y", "0"]}}
    tool = build_constrained_tool(
        FormulasParameters.model_validate({"type": "formulas"} | scene | changes), solver, 1e3
    )
    command, state = ToolCommand(), tool.tool_state()
    command.wrench[0] = np.nan  # not the fault of the formulas
    tool.step(command, state)
    command.wrench[0] = 0.0
    with pytest.raises(UnstableError, match=f"tick (\\d+): no motion at x = .*, y = .*: {problem}") as error:
        for _ in range(200):
            tool.step(command, state)
    # a stage of the step before may come to it; the tick of the wrench that was no number did not move the tool
    assert abs(int(re.match(r"tick (\d+)", str(error.value))[1]) - tick) <= 3
