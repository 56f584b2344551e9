"""Exact constraints between the bodies of a world: rows, motion, contacts, and what switching does."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin
import pytest
from conftest import sampled
from pydantic import ValidationError
from scipy.integrate import solve_ivp
from world_builder import G, Simulation, ball, box, make_world, plane

from haptic_sim.constraints import bodies as constrained_bodies
from haptic_sim.constraints.bodies import ConstrainedMultibody
from haptic_sim.constraints.in_worlds import ROWS, build_rows, evaluate
from haptic_sim.constraints.switching import ENGAGING, OFF, RELEASING, RIGID, lightness
from haptic_sim.dynamics.energy import DAMPING, INJECTED
from haptic_sim.dynamics.multibody import Trees
from haptic_sim.packed import Packed
from haptic_sim.parameters import ParameterError, explain
from haptic_sim.worlds.parameters import WorldParameters

KINDS = {
    "point_on_plane": {"normal": [0.3, -0.2, 0.9]},
    "point_on_sphere": {"radius": 0.3},
    "point_fixed": {},
    "point_on_line": {"direction": [0.3, -0.2, 0.9]},
    "point_on_circle": {"radius": 0.3, "normal": [0.3, -0.2, 0.9]},
    "axis_along": {"axis": [0.1, 0.2, 1.0], "direction": [0.3, -0.2, 0.9]},
    "frame_on_frame": {"rotation": [0.3, -0.2, 0.5], "point_rotation": [0.1, 0.4, -0.2]},
    "axis_through_point": {"axis": [0.1, 0.2, 1.0]},
    "knife_edge": {"sideways": [0.1, 0.2, 1.0]},
    "rolling_ball": {"radius": 0.05, "normal": [0.3, -0.2, 0.9]},
}
POINTED = [kind for kind in KINDS if kind != "axis_along"]
SPIN = (0.3, -0.2, 0.4, 2.0, -3.0, 1.0)
BRICK = (0.1, 0.2, 0.15)


def brick(position=(0, 0, 0), velocity=(0,) * 6, mass=1.0, size=BRICK, **more):
    return box(position, size, velocity, mass, **more)


def bodies_of(simulation) -> ConstrainedMultibody:
    body = simulation.tool.body
    assert isinstance(body, ConstrainedMultibody)
    return body


def simulation(bodies, constraints, **more) -> Simulation:
    return Simulation(bodies, constraints=constraints, **more)


def moved(simulation, count, wrenches=None):
    """Multipliers, residuals, positions, velocities and modes of a run, each of them (count, ...)."""
    body, found = bodies_of(simulation), {"lambda": [], "c": [], "q": [], "v": [], "mode": [], "flows": []}
    for i in range(count):
        simulation.step(1, None if wrenches is None else wrenches[i])
        for name, value in (
            ("lambda", body.multipliers),
            ("c", body._rows.c),
            ("q", simulation.state.q),
            ("v", simulation.state.v),
            ("mode", body.modes),
            ("flows", simulation.tool.energy.values),
        ):
            found[name].append(np.array(value))
    return {name: np.array(values) for name, values in found.items()}


# Rows


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_the_rates_of_residuals_and_gamma_theirs(kind):
    """By central differences along a motion of two bodies with constant v; frames: where the constraint is met."""
    given = {"type": kind, "body": "b", "to": "a", **KINDS[kind]}
    if kind != "axis_along":
        given["at"] = [0.1, -0.05, 0.2]
    if kind not in ("axis_along", "knife_edge", "point_on_sphere", "point_on_circle"):
        given["point"] = [0.05, 0.1, -0.1]
    given["active"] = [[1e6, None]]  # not now: it is not met
    where = (0.1, 0.2, 0.3) if kind != "frame_on_frame" else (0, 0, 0)
    world = make_world(
        {"a": brick((0.2, 0, 0), rotation=[0.3, 0.5, -0.2]), "b": brick(where, rotation=[-0.1, 0.4, 0.6])},
        constraints={"it": given},
    )
    model, data, (constraint,) = world.model, world.model.createData(), world.constraints
    rows = build_rows((constraint,), model.njoints, model.idx_vs.tolist(), model.nv)
    support = Trees(model).support
    v = np.random.default_rng(7).normal(size=model.nv)
    q = np.array(world.q)
    if kind == "frame_on_frame":  # gamma is exact where it is met: put b there
        pin.forwardKinematics(model, data, q)
        a, _ = constraint.joints
        X_AF = pin.SE3(constraint.R_A.T, constraint.p_A)
        X_BF = pin.SE3(constraint.R_B.T, constraint.p_B)
        X_WB = data.oMi[a] * X_AF * X_BF.inverse()
        first = model.idx_qs[constraint.joints[1]]
        q[first : first + 3] = X_WB.translation
        q[first + 3 : first + 7] = pin.Quaternion(X_WB.rotation).coeffs()

    def at(time, rates=False):
        pin.computeAllTerms(model, data, pin.integrate(model, q, time * v), v)
        pin.forwardKinematics(model, data, pin.integrate(model, q, time * v), v, np.zeros(model.nv))
        for j in range(model.njoints):
            rows.placement[j, :9] = data.oMi[j].rotation.ravel()
            rows.placement[j, 9:] = data.oMi[j].translation
            rows.acceleration[j] = data.a[j].vector
        evaluate(Packed(rows).arrays, data.J.T, support, v, rates)
        return rows.c.copy(), rows.A @ v, rows.gamma.copy()

    step = 1e-5
    (c0, rate0, _), (c1, rate1, _), (_, rate, gamma) = at(-step), at(step), at(0.0, True)
    positions = ROWS[constraint.kind][1]
    assert (c1 - c0)[:positions] / (2 * step) == pytest.approx(rate[:positions], rel=1e-7, abs=1e-8)
    assert (rate1 - rate0) / (2 * step) == pytest.approx(gamma, rel=1e-6, abs=1e-6)
    assert np.all(c0[positions:] == 0.0)


# Motion under constraints


@pytest.mark.parametrize("kind", KINDS)
def test_what_holds_is_met_to_rounding_under_random_loads(kind):
    given = {"type": kind, "body": "b", "to": "a", **KINDS[kind]}
    if kind == "point_on_sphere":
        given["centre"] = [0.3, 0, 0]
    if kind == "point_on_circle":
        given["centre"] = list(0.3 * np.array([0.9, 0.0, -0.3]) / math.hypot(0.9, 0.3))
    if kind == "rolling_ball":
        given["point"] = list(-0.05 * np.array(given["normal"]) / np.linalg.norm(given["normal"]))
    turned = {"rotation": [0.1, 0.4, -0.2]} if kind == "frame_on_frame" else {}
    if kind == "frame_on_frame":
        given["rotation"], given["point_rotation"] = [0, 0, 0], [0.1, 0.4, -0.2]
    if kind == "axis_along":
        given["axis"] = given["direction"]
    s = simulation({"a": brick(), "b": brick(size=(0.05, 0.12, 0.2), **turned)}, {"it": given}, ignore=[["a", "b"]])
    rng, body = np.random.default_rng(3), bodies_of(s)
    for _ in range(300):
        s.step(1, rng.normal(size=6) * [20, 20, 20, 1, 1, 1])
        assert body.residual[0] < 1e-11
        assert body.residual[1] < 1e-10
    assert body.held == 0
    assert s.kinetic_energy() > 0.01  # it does move


def test_a_spherical_pendulum_goes_as_lagrange_says():
    """A ball whose centre keeps its distance: against DOP853 on x'' = g - n (n.g + v^2 / l); second order in T."""
    length, v0 = 0.5, np.array([0.4, 0.9, 0.0])

    def fall(_, y):
        x, v = y[:3], y[3:]
        a = np.array([0, 0, -G])
        return np.concatenate([v, a - x * (x @ a + v @ v) / length**2])

    exact = solve_ivp(fall, (0, 0.5), [0, 0, -length, *v0], method="DOP853", rtol=1e-12, atol=1e-12).y[:3, -1]
    errors = []
    for rate in (1000, 2000, 4000):
        given = {"hang": {"type": "point_on_sphere", "body": "bob", "radius": length}}
        s = simulation({"bob": ball((0, 0, -length), v0, 0.05, 2.0)}, given, gravity=[0, 0, -G], rate=rate)
        s.step(rate // 2)
        errors.append(np.linalg.norm(s.q("bob")[:3] - exact))
    assert errors[0] < 2e-3
    assert errors[0] / errors[1] == pytest.approx(2.0, rel=0.1) or errors[0] / errors[1] > 3.0
    assert errors[2] < 0.6 * errors[1]


def test_the_tension_of_a_pendulum():
    """m (g cos + v^2 / l), at rest and at the lowest point of a swing."""
    given = {"hang": {"type": "point_on_sphere", "body": "bob", "radius": 0.5}}
    for speed in (0.0, 1.0):
        s = simulation({"bob": ball((0, 0, -0.5), (speed, 0, 0), 0.05, 2.0)}, given, gravity=[0, 0, -G])
        s.step(2)
        assert abs(bodies_of(s).multipliers[0]) == pytest.approx(2.0 * (G + speed**2 / 0.5), rel=1e-4)


def test_a_ball_rolls_down_with_five_sevenths():
    slope = 0.3
    normal = [math.sin(slope), 0, math.cos(slope)]
    given = {"roll": {"type": "rolling_ball", "body": "b", "radius": 0.05, "normal": normal}}
    s = simulation({"b": ball(0.05 * np.array(normal))}, given, gravity=[0, 0, -G])
    s.step(200)
    assert np.linalg.norm(s.v("b")[:3]) == pytest.approx(5 / 7 * G * math.sin(slope) * 0.2, rel=1e-9)
    assert np.linalg.norm(s.spin("b")) == pytest.approx(np.linalg.norm(s.v("b")[:3]) / 0.05, rel=1e-9)


def test_a_knife_edge_goes_round():
    """It spins with w and slides with v along its blade: a circle of radius v / w, at constant speed."""
    given = {"blade": {"type": "knife_edge", "body": "b", "sideways": [0, 1, 0]}}
    bodies = {"b": {"joint": "planar", "mass": 1.0, "inertia": 0.01, "velocity": [0.5, 0, 2.0]}}
    s = simulation(bodies, given, planar=True)
    s.step(1000)
    x, y, angle = s.q("b")
    assert angle == pytest.approx(2.0, rel=1e-12)
    assert (x, y) == pytest.approx((0.25 * math.sin(2.0), 0.25 * (1 - math.cos(2.0))), rel=1e-5)
    assert s.kinetic_energy() == pytest.approx(0.5 * 0.25 + 0.5 * 0.01 * 4, rel=1e-5)


def test_welded_bodies_move_as_one_and_the_weld_bears_what_moves_the_other():
    given = {"weld": {"type": "frame_on_frame", "body": "a", "to": "b", "point": [-0.3, 0, 0]}}
    s = simulation({"a": brick((-0.3, 0, 0), mass=3.0), "b": brick()}, given)
    s.step(1, [8.0, 0, 0, 0, 0, 0])
    assert s.v("a")[:3] == pytest.approx([2e-3, 0, 0], abs=1e-15)
    assert s.v("b")[:3] == pytest.approx([2e-3, 0, 0], abs=1e-15)
    assert bodies_of(s).multipliers[:3] == pytest.approx([6.0, 0, 0], abs=1e-9)


def chain(velocity=SPIN):
    """Four bricks in a closed loop of ball joints, turning as one, which meets all constraints."""
    corners = np.array([[1, 1, 0], [-1, 1, 0.2], [-1, -1, 0], [1, -1, -0.2]]) * 0.2
    rate = np.array(velocity)
    bodies, given = {}, {}
    for i, corner in enumerate(corners):
        linear = rate[:3] + np.cross(rate[3:], corner)
        bodies[f"b{i}"] = brick(corner, [*linear, *rate[3:]], mass=0.5 + 0.3 * i, size=(0.05, 0.08, 0.03))
    for i in range(4):
        j = (i + 1) % 4
        middle = 0.5 * (corners[i] + corners[j])
        given[f"j{i}"] = {
            "type": "point_fixed",
            "body": f"b{i}",
            "to": f"b{j}",
            "at": list(middle - corners[i]),
            "point": list(middle - corners[j]),
        }
    return bodies, given


def test_a_closed_loop_of_free_bodies_keeps_its_momentum():
    s = simulation(*chain())
    linear, angular = s.momentum()
    energy, turned = s.kinetic_energy(), s.q("b0").copy()
    s.step(1000)
    for before, after in zip((linear, angular), s.momentum(), strict=True):
        assert after == pytest.approx(before, rel=1e-4, abs=1e-5)
    assert s.momentum()[0] == pytest.approx(linear, abs=1e-7)  # energy that is not to grow comes first
    assert np.linalg.norm(s.q("b0") - turned) > 0.1
    assert s.kinetic_energy() == pytest.approx(energy, rel=1e-3)
    assert bodies_of(s).residual[0] < 1e-11


@pytest.mark.long
def test_constraint_forces_do_no_work():
    """Over a time, energy changes by the hand's work alone, up to the step's error, which falls with the period."""
    lost = []
    for rate in (1000, 4000):
        s = simulation(*chain(), rate=rate)
        start, work = s.kinetic_energy(), 0.0
        for i in range(rate // 2):
            wrench = np.array([3.0, -2.0, 1.0, 0.1, 0.05, -0.1]) * math.sin(20 * i / rate)
            before = np.array(s.state.twist)
            s.step(1, wrench)
            work += wrench @ (before + s.state.twist) / 2 / rate
        lost.append(abs(s.kinetic_energy() - start - work))
    assert lost[0] < 2e-3 * start
    assert lost[1] < 0.5 * lost[0]


def test_redundant_constraints_share_and_change_nothing():
    once = {"a": {"type": "point_on_line", "body": "b", "direction": [1, 0, 0]}}
    twice = once | {"again": {"type": "point_on_plane", "body": "b", "normal": [0, 0, 2]}}
    found = []
    for given in (once, twice):
        s = simulation({"b": brick(velocity=(0.2, 0, 0, 0, 0, 0))}, given, gravity=[0, 0, -G])
        s.step(300, [0.5, 1.0, 0, 0, 0.02, 0])
        found.append((np.array(s.state.q), bodies_of(s)))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-12)
    body = found[1][1]
    assert len(body.dependent) == 1
    assert not found[0][1].dependent
    total = body._rows.A.T @ body.multipliers
    np.testing.assert_allclose(total[:3], [0, -1.0, G], atol=1e-9)
    shares = body._rows.A[:, 2] * body.multipliers  # equal rows bear equal parts
    assert sorted(shares)[-2:] == pytest.approx([G / 2, G / 2], rel=1e-9)


def test_a_linkage_at_its_end_stops_and_stays_finite():
    """The distance of two fixed points cannot be kept by a rod that is too short: it is held, not torn."""
    given = {
        "rod": {"type": "point_on_sphere", "body": "b", "radius": 0.3},
        "rail": {"type": "point_on_line", "body": "b", "direction": [1, 0, 0], "point": [0, 0, 0.2]},
    }
    s = simulation({"b": brick((math.sqrt(0.05), 0, 0.2))}, given)
    s.step(500, [50.0, 3.0, -20, 0, 0, 0])
    assert np.isfinite(np.array(s.state.q)).all()
    assert bodies_of(s).residual[0] < 1e-9


# Contacts


@pytest.mark.long
@pytest.mark.parametrize("method", ["penalty", "impulse_augmented", "frictional_impulses", "constraint", "hybrid"])
def test_constraints_hold_through_contacts(method):
    """A ball on a circle, in a plane across the floor: it falls on it, bounces and rests."""
    given = {"ring": {"type": "point_on_circle", "body": "b", "radius": 0.2, "normal": [0, 1, 0.2]}}
    direction = np.array([0, 0.2, -1.0]) / math.hypot(0.2, 1.0)
    start = 0.2 * (math.cos(0.3) * np.array([1.0, 0, 0]) - math.sin(0.3) * direction)
    bodies = {"floor": plane(offset=-0.2), "b": ball(start)}
    s = simulation(bodies, given, gravity=[0, 0, -G], method=method, contact={"restitution": 0.5})
    body, worst = bodies_of(s), 0.0
    for _ in range(1500):
        s.step()
        worst = max(worst, body.residual[0])
    assert s.touched > 100
    assert worst < 1e-11
    assert s.energy() < 0.0


def test_a_collision_under_a_constraint_returns_e_along_what_is_free():
    """A bead on a rail across a wall: the speed along the rail is reversed, times e."""
    direction = np.array([1.0, 0.5, 0.0]) / math.hypot(1, 0.5)
    given = {"rail": {"type": "point_on_line", "body": "b", "direction": list(direction)}}
    bodies = {"wall": plane((-1, 0, 0), -0.1), "b": ball((0, 0, 0), direction)}
    s = simulation(bodies, given, contact={"restitution": 0.6})
    s.step(100)
    assert s.v("b")[:3] == pytest.approx(-0.6 * direction, abs=1e-9)


# Switching: the law


FADE = 0.3


def drawn(start, active, speed=0.0, rate=1000, to=0.0, fade=FADE, **more):
    """A ball that is drawn to a plane across x from `start`."""
    given = {
        "p": {"type": "point_on_plane", "body": "b", "normal": [1, 0, 0], "point": [to, 0, 0], "active": active}
        | {"fade": fade}
    }
    return simulation({"b": ball((start, 0, 0), (speed, 0, 0), mass=2.0)}, given, rate=rate, **more)


def law(start, speed, force, end, mass=2.0):
    """c, its rate and the multiplier at a time from DOP853."""

    def parts(t, y):
        r = 1 - t / FADE
        d = 42 * (1 - r) / (FADE * r * (7 - 6 * r))
        return lightness(r, 1.0, 0.0), d * (y[1] + 2 * y[0] / (r * FADE))

    def rates(t, y):
        light, pull = parts(t, y)
        return [y[1], light * force / mass - pull]

    y = solve_ivp(rates, (0, end), [start, speed], method="DOP853", rtol=1e-11, atol=1e-14).y[:, -1]
    light, pull = parts(end, y)
    return y[0], y[1], mass * (-(1 - light) * force / mass - pull)


@pytest.mark.long
@pytest.mark.parametrize("end", sampled([0.1, 0.2, 0.29], 0.2))
@pytest.mark.parametrize(("start", "speed", "force"), [(0.01, 0, 0), (0.01, -0.05, 3.0), (0.0, 0.1, -2.0), (0, 0, 5.0)])
def test_engaging_converges_to_its_law(start, speed, force, end):
    errors = []
    for rate in (1000, 2000, 4000):
        s = drawn(start, [[0.001, None]], speed, rate)
        s.step(rate // 1000)
        exact = law(s.q("b")[0], speed, force, end)
        s.step(round(end * rate), [force, 0, 0, 0, 0, 0])
        errors.append(np.abs([s.q("b")[0] - exact[0], bodies_of(s).multipliers[0] - exact[2]]))
    assert np.all(errors[1] < 0.6 * errors[0] + 1e-9)
    assert np.all(errors[2] < 0.6 * errors[1] + 1e-9)
    size = abs(start) + FADE * abs(speed) + FADE**2 * abs(force)
    assert errors[0][0] < 5e-3 * size


def forces(case, rate, until=0.9):
    """Generalized force of all constraints and their modes in each step, (steps, nv), (steps, constraints)."""
    bodies, given, more = CASES[case]
    s, found, modes = simulation(bodies(), given, rate=rate, **more), [], []
    body = bodies_of(s)
    for _ in range(round(until * rate)):
        A = body._rows.A.copy()
        s.step(1, WRENCH)
        found.append(A.T @ body.multipliers)
        modes.append(body.modes.copy())
    assert body.held == 0
    return np.array(found), np.array(modes)


def rail(fade=FADE, active=((0.1, 0.7),)):
    return {"type": "point_on_line", "body": "b", "direction": [1, 0, 0], "fade": fade, "active": [*map(list, active)]}


WRENCH = np.array([0.4, 3.0, -2.0, 0.02, 0.03, -0.05])
CASES = {
    "under load": (lambda: {"b": brick((0, 0.02, -0.01))}, {"r": rail()}, {}),
    "at the same time": (
        lambda: {"b": brick((0, 0.02, -0.01), rotation=[0.2, 0.1, -0.3])},
        {
            "r": rail(),
            "s": rail() | {"type": "axis_along", "axis": [1, 0.2, 0], "direction": [1, 0, 0]},
            "t": {
                "type": "point_on_sphere",
                "body": "b",
                "centre": [0.3, 0, 0],
                "radius": 0.28,
                "active": [[0.2, 0.6]],
            },
        },
        {},
    ),
    "redundant": (
        lambda: {"b": brick((0, 0.02, -0.01))},
        {
            "r": rail(),
            "p": {"type": "point_on_plane", "body": "b", "normal": [0, 1, 1], "active": [[0.2, 0.6]], "fade": 0.2},
        },
        {},
    ),
    "bodies that spin": (
        lambda: {"b": brick((0, 0.02, -0.01), (0, 0, 0, 2, -1, 3))},
        {
            "r": rail() | {"at": [0.02, 0.05, 0.03]},
            "s": {"type": "frame_on_frame", "body": "b", "point": [-0.02, -0.05, -0.03], "active": [[0.15, 0.65]]},
        },
        {},
    ),
    "in contact": (
        lambda: {"floor": plane((0.3, 0, 1.0)), "b": ball((0, 0.02, 0.05 * math.hypot(0.3, 1.0)))},
        {"p": {"type": "point_on_plane", "body": "b", "normal": [1, 0.3, 0.1], "active": [[0.1, 0.7]]}},
        {"gravity": [0, 0, -G]},
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_force_on_bodies_is_continuous_over_switching(case):
    """Its largest change in a tick is half as large with ticks half as long; of a jump it would be as large."""
    largest = []
    for rate in (500, 1000, 2000):
        force, modes = forces(case, rate)
        assert all(set(of) >= {OFF, ENGAGING, RELEASING} for of in modes.T)
        assert RIGID in modes
        largest.append(np.abs(np.diff(force[round(0.02 * rate) :], axis=0)).max())  # a contact settles
    assert largest[0] / largest[1] == pytest.approx(2.0, rel=0.05)
    assert largest[1] / largest[2] == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("case", CASES)
def test_rigid_after_its_fade_and_on_the_manifold_at_once(case):
    bodies, given, more = CASES[case]
    s = simulation(bodies(), given, **more)
    body, worst = bodies_of(s), 0.0
    for _ in range(1000):
        s.step(1, WRENCH)
        worst = max(worst, body.residual[0])
    assert worst < 1e-11
    s = simulation(bodies(), given, **more)
    run = moved(s, 600, np.tile(WRENCH, (600, 1)))
    for k, constraint in enumerate(s.world.constraints):
        on = next(iter(constraint.active))[0]
        rigid = np.flatnonzero(run["mode"][:, k] == RIGID)
        late = 0.03 if case == "in contact" else 1e-9  # the floor is in the way for a while
        assert (rigid[0] + 1) / 1000 == pytest.approx(on + constraint.fade - 1e-3, abs=late)


@pytest.mark.parametrize("seed", range(4))
def test_letting_go_gives_no_energy_whatever_pushes(seed):
    """At no time after it has been switched off has the constraint given energy to the body; exactly, in each tick."""
    rng = np.random.default_rng(seed)
    s = drawn(0.0, [[0.0, 0.1]])
    s.step(99)
    given, force = [0.0], np.zeros(6)
    for i in range(400):
        if i % 10 == 0:
            force[0] = rng.normal() * 10
        before = s.v("b")[0]
        s.step(1, force)
        after = s.v("b")[0]
        given.append(given[-1] + 1.0 * (after**2 - before**2) - force[0] * (before + after) / 2 / 1000)
    assert max(given) < 1e-15
    assert min(given) < -1e-6


@pytest.mark.parametrize("seed", range(4))
def test_a_knife_edge_is_switched_without_giving_energy(seed):
    rng = np.random.default_rng(seed)
    bodies = {"b": {"joint": "planar", "mass": 1.0, "inertia": 0.01, "velocity": [0.3, 0.4, 2.0]}}
    given = {"blade": {"type": "knife_edge", "body": "b", "sideways": [0, 1, 0], "active": [[0.05, 0.5]], "fade": 0.2}}
    s = simulation(bodies, given, planar=True)
    start, work, most = s.kinetic_energy(), 0.0, -math.inf
    for i in range(800):
        if i % 10 == 0:
            wrench = rng.normal(size=6) * [5, 5, 0, 0, 0, 0.1]
        before = np.array(s.state.twist)
        s.step(1, wrench)
        work += wrench @ (before + s.state.twist) / 2 / 1000
        most = max(most, s.kinetic_energy() - start - work)
    assert most < 1e-5 * start
    assert s.kinetic_energy() - start - work < -0.01 * start  # it took what went sideways


def test_what_it_takes_to_draw_a_body_to_a_constraint():
    """1.85 m c^2 / fade^2 from rest without load, booked as injected, and taken out again as it arrives."""
    s = drawn(0.01, [[0.001, None]])
    run = moved(s, 500)
    given = run["flows"][:, INJECTED]
    assert given[-1] == pytest.approx(1.8472 * 2.0 * 0.01**2 / FADE**2, rel=0.02)
    assert run["flows"][-1, DAMPING] == pytest.approx(given[-1], rel=1e-3)
    assert abs(s.q("b")[0]) < 1e-13
    assert np.max(np.diff(np.abs(run["c"][:, 0]))) < 1e-12  # straight to it, never past it


def test_a_body_in_the_way_is_pushed_and_not_entered_and_rigid_once_it_gives_way():
    """A wall 6 mm before the plane: the ball waits at it; an obstacle that can be pushed away is."""
    given = {
        "p": {"type": "point_on_plane", "body": "b", "normal": [1, 0, 0], "point": [-0.01, 0, 0]}
        | {"active": [[0.001, None]], "fade": FADE}
    }
    s = simulation({"wall": plane((1, 0, 0), -0.054), "b": ball((0.01, 0, 0), mass=2.0)}, given)
    run = moved(s, 1500)
    assert s.q("b")[0] == pytest.approx(-0.004, abs=1e-6)
    assert np.all(run["mode"][1:] == ENGAGING)
    assert abs(run["lambda"][-1, 0]) == pytest.approx(172 * 0.006 / FADE**2 * 2.0, rel=0.05)
    assert np.abs(s.state.v).max() < 1e-6
    s = simulation({"other": ball((-0.104, 0, 0), mass=5.0), "b": ball((0.01, 0, 0), mass=2.0)}, given)
    s.step(1500)
    assert bodies_of(s).modes[0] == RIGID
    assert bodies_of(s).residual[0] < 1e-11


def test_a_constraint_that_contradicts_a_rigid_one_waits_until_that_is_let_go():
    given = {
        "hold": {"type": "point_fixed", "body": "b", "active": [[0.0, 1.0]]},
        "p": {
            "type": "point_on_plane",
            "body": "b",
            "normal": [1, 0, 0],
            "point": [0.01, 0, 0],
            "active": [[0.1, None]],
        },
    }
    s = simulation({"b": ball((0, 0, 0))}, given)
    run = moved(s, 1000)
    assert np.abs(run["q"][:, 0]).max() < 1e-12
    assert run["mode"][-1].tolist() == [RELEASING, ENGAGING]
    assert np.abs(run["lambda"]).max() < 1e-9
    run = moved(s, 1000)
    assert run["mode"][-1].tolist() == [OFF, RIGID]
    assert s.q("b")[0] == pytest.approx(0.01, abs=1e-12)
    assert np.abs(run["lambda"][:, 3]).max() < 500 * 0.01 / FADE**2


@pytest.mark.parametrize("force", [1.0, 100.0, 1e4])
def test_no_load_keeps_a_constraint_from_becoming_rigid_in_time(force):
    s = drawn(0.01, [[0.001, None]])
    s.step(301, [force, 0, 0, 0, 0, 0])
    assert bodies_of(s).modes[0] == RIGID
    assert bodies_of(s).residual[0] < 1e-11


@pytest.mark.long
def test_the_hand_is_told_how_it_moves_while_constraints_are_switched():
    """twist' = free_acceleration + inverse_inertia F, in every mode."""
    bodies, given, _ = CASES["bodies that spin"]
    s = simulation(bodies(), given, rate=10000, gravity=[0, 0, -2.0])
    seen = set()
    for _ in range(36):
        s.step(249, WRENCH)
        told = np.array(s.state.free_acceleration) + np.array(s.state.inverse_inertia).reshape(6, 6) @ WRENCH
        before = np.array(s.state.twist)
        modes = tuple(bodies_of(s).modes)
        s.step(1, WRENCH)
        if modes == tuple(bodies_of(s).modes):
            measured = (np.array(s.state.twist) - before) * 10000
            assert measured == pytest.approx(told, rel=5e-3, abs=5e-2), modes
            seen.update(modes)
    assert seen == {OFF, ENGAGING, RIGID, RELEASING}


def test_forces_of_switching_constraints_are_those_that_move_the_body():
    """D dv = T (F + A^T lambda), with all constraints, in all modes."""
    bodies, given, _ = CASES["at the same time"]
    s = simulation(bodies(), given)
    body = bodies_of(s)
    for tick in range(1100):
        A, D, v = body._rows.A.copy(), body.D.copy(), np.array(s.state.v)
        active = np.repeat(body.modes != OFF, [c.rows for c in body.constraints])
        s.step(1, WRENCH)
        if tick % 50 == 25:
            R = pin.Quaternion(s.q("b")[3:]).toRotationMatrix()
            push = np.concatenate([WRENCH[:3], R.T @ WRENCH[3:]])
            force = D @ (np.array(s.state.v) - v) * 1000
            expected = push + (A * active[:, None]).T @ body.multipliers
            # first order: rows and axes turn within the step
            np.testing.assert_allclose(force[:3], expected[:3], atol=0.03)


@pytest.mark.long
def test_switching_is_the_same_with_contacts_of_all_methods():
    """In the end the constraint holds to rounding and the ball rests on the floor."""
    bodies, given, more = CASES["in contact"]
    for method in ("penalty", "impulse_augmented", "frictional_impulses", "constraint", "hybrid"):
        s = simulation(bodies(), given, method=method, **more)
        s.step(650, np.zeros(6))
        body = bodies_of(s)
        assert body.modes[0] == RIGID
        assert body.residual[0] < 1e-11
        assert s.energy() < 0.6
        s.step(500)
        assert body.modes[0] == OFF


@pytest.mark.long
def test_a_constraint_that_is_let_go_while_it_engages_fades():
    largest = []
    for rate in (1000, 2000, 4000):
        s = drawn(0.02, [[0.1, 0.25]], rate=rate)
        run = moved(s, rate, np.tile([2.0, 0, 0, 0, 0, 0], (rate, 1)))
        assert RIGID not in run["mode"]
        assert run["mode"][-1] == OFF
        largest.append(np.abs(np.diff(run["lambda"][:, 0])).max())
    assert largest[1] < 0.6 * largest[0]
    assert largest[2] < 0.6 * largest[1]


def test_switching_works_with_fades_of_a_tick():
    s = drawn(0.01, [[0.1, 0.2], [0.3, None]], fade=1e-3)
    s.step(150)
    assert bodies_of(s).modes[0] == RIGID
    assert bodies_of(s).residual[0] < 1e-11
    s.step(100)
    assert bodies_of(s).modes[0] == OFF
    s.step(100, [5.0, 0, 0, 0, 0, 0])
    assert bodies_of(s).modes[0] == RIGID
    assert bodies_of(s).residual[0] < 1e-11


def test_a_step_compiles_nothing_anew():
    bodies, given, more = CASES["in contact"]
    simulation(bodies(), given, **more).step(1000, WRENCH)
    known = len(constrained_bodies.prepare_step.signatures), len(constrained_bodies.apply_external.signatures)
    bodies, given, more = CASES["at the same time"]
    simulation(bodies(), given, **more).step(1000, WRENCH)
    assert (len(constrained_bodies.prepare_step.signatures), len(constrained_bodies.apply_external.signatures)) == known


# What is refused


def refused(bodies, constraints):
    with pytest.raises(ParameterError) as caught:
        make_world(bodies, constraints=constraints)
    return str(caught.value)


def test_unknown_bodies_are_named_and_those_that_there_are():
    message = refused({"b": brick()}, {"hold": {"type": "point_fixed", "body": "c", "to": "d"}})
    assert "constraints.hold.body = c: unknown body (known: " in message
    assert "constraints.hold.to = d: unknown body (known: " in message
    assert refused({"b": brick()}, {"hold": {"type": "point_fixed", "body": "b", "to": "b"}}).endswith(
        "constraints.hold.body = b: does not move against b"
    )


def test_a_start_off_the_manifold_is_refused_with_its_residual():
    message = refused({"b": brick((0.02, 0, 0))}, {"hold": {"type": "point_fixed", "body": "b"}})
    assert "hold: is not met at the start: residual 0.02 m: must be at most 0.0001" in message
    message = refused({"b": brick(velocity=(0, 0.3, 0, 0, 0, 0))}, {"hold": {"type": "point_fixed", "body": "b"}})
    assert "hold: is not met by the velocity at the start: residual 0.3 m/s: must be at most 0.0001" in message
    message = refused(
        {"b": brick(rotation=[0, 0, 0.1])},
        {"up": {"type": "axis_along", "body": "b", "axis": [1, 0, 0], "direction": [1, 0, 0]}},
    )
    assert "up: is not met at the start: residual 0.0998 rad" in message


def test_constraints_that_contradict_each_other_are_named():
    given = {
        "left": {"type": "point_fixed", "body": "b"},
        "right": {"type": "point_fixed", "body": "b", "point": [5e-5, 0, 0]},
    }
    message = refused({"b": brick()}, given)
    assert "contradicts the others at the start" in message
    assert "left: " in message or "right: " in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"normal": [0, 0, 0]}, "normal"),
        ({"normal": [math.nan, 0, 1]}, "normal"),
        ({"fade": 0.0}, "fade"),
        ({"fade": math.inf}, "fade"),
        ({"active": []}, "needs at least one interval"),
        ({"active": [[-1.0, 2.0]]}, "must be >= 0 s"),
        ({"active": [[2.0, 1.0]]}, "must be after its beginning"),
        ({"active": [[0.0, 1.0], [0.5, 2.0]]}, "must be after the interval before"),
        ({"active": [[0.0, 1.0], [1.1, 2.0]]}, "must be at least fade"),
        ({"active": [[0.0, None], [1.0, 2.0]]}, "must be after the interval before"),
        ({"type": "point_on_plain"}, "point_on_plain"),
        ({"radius": 1.0}, "radius"),
    ],
)
def test_parameters_are_checked(change, message):
    given = {"type": "point_on_plane", "body": "b", "normal": [0, 0, 1]} | change
    with pytest.raises(ValidationError) as caught:
        make_world({"b": brick()}, constraints={"p": given})
    text = "\n".join(explain(caught.value, WorldParameters))
    assert message in text
    assert "constraints.p" in text


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300])
def test_wrenches_that_are_no_numbers_do_not_hang(value):
    bodies, given, more = CASES["at the same time"]
    s = simulation(bodies(), given, **more)
    s.step(250, WRENCH)
    with np.errstate(all="ignore"):
        s.step(300, [value, 0, 0, 0, 0, 0])
    assert s.state.tick == 549


def test_trials_repeat_to_the_bit():
    runs = []
    for _ in range(2):
        bodies, given, more = CASES["in contact"]
        s = simulation(bodies(), given, **more)
        runs.append(moved(s, 900, np.tile(WRENCH, (900, 1))))
    for name in runs[0]:
        assert runs[0][name].tobytes() == runs[1][name].tobytes()
