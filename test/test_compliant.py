"""The methods with penalties: groups of bodies that touch, who collides and who rests, against dense formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import sampled
from scipy.optimize import minimize, nnls
from world_builder import G, Response, Simulation, ball, box, copy_rows, plane, some_bodies, some_rows

from haptic_sim.contact.impacts import ACTIVE_SET
from haptic_sim.contact_rows import ContactRows
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.messages import COLLIDING, FREE, RESTING

T = 1e-3  # [s]
K, B = 4000.0, 30.0  # [N/m], [N s/m]
DOWN = [0.0, 0.0, -G]
METHODS = ("penalty", "impulse_augmented", "frictional_impulses")
IMPULSES = ("impulse_augmented", "frictional_impulses")


def dense_impulses(W: np.ndarray, v_n: np.ndarray, e: np.ndarray) -> np.ndarray:
    """THESIS (4.36), p = -A^+ (1 + e) b, or where that pulls the least of 1/2 p A p + p (1 + e) b over p >= 0."""
    c = (1.0 + e) * v_n
    p = -np.linalg.pinv(W @ W.T, rcond=1e-10) @ c
    if (p >= -1e-12 * np.abs(p).max()).all():
        return p
    # |W^T p + x|^2 with W x = c
    x = np.linalg.pinv(W) @ c
    extra = c - W @ x  # what no motion can have; its part of the objective is linear
    assert np.abs(extra).max() < 1e-9 * np.abs(c).max()
    return nnls(W.T, -x)[0]


@pytest.mark.parametrize("bodies", [1, 2, 4])
def test_impulses_of_a_group_are_those_of_the_dense_formula(bodies: int) -> None:
    """Of random bodies that all hang together, each contact with its own restitution; those that part take no part."""
    pulled = collided = 0
    for seed in range(60):
        rng = np.random.default_rng(20260 + seed)
        body = some_bodies(rng, bodies)
        rows = some_rows(rng, bodies, int(rng.integers(1, 6)))
        n = rows.count
        for i in range(min(n, bodies - 1)):
            rows.body[i] = i + 1, i + 2  # a chain
        response = Response(body, "impulse_augmented")
        du = response.respond(rows, T)
        W = response.dense(rows)[::3]
        v_n = W @ body.u
        approaching = np.flatnonzero(v_n < 0.0)
        groups = connected(rows)
        p = response.impulses(rows)[:, 0]
        if not approaching.size:
            assert response.method.state == RESTING
            continue
        collided += 1
        assert response.method.state == COLLIDING
        expected = np.zeros(n)
        for group in groups:
            members = [i for i in approaching if i in group]
            if members:
                expected[members] = dense_impulses(W[members], v_n[members], rows.restitution[members])
                pulled += (np.linalg.pinv(W[members] @ W[members].T) @ v_n[members] > 0.0).any()
            else:  # penalties
                for i in group:
                    expected[i] = T * max(0.0, K * 1e-4 - B * v_n[i])
        np.testing.assert_allclose(W.T @ p, du, rtol=0, atol=1e-10)
        np.testing.assert_allclose(W.T @ expected, du, rtol=0, atol=1e-7 * np.abs(du).max())
        after = body.u + du
        assert after @ after <= body.u @ body.u * (1 + 1e-12) or len(groups) > 1  # penalties of the others may push
        assert response.method.unresolved == 0
    assert collided > 40
    assert pulled > 0 or bodies > 1


def test_impulses_of_large_groups_are_near_the_dense_formula_and_passive() -> None:
    """More than ACTIVE_SET contacts and coordinates: a bounded number of sweeps; contact.md states the errors."""
    errors = []
    for seed in range(20):
        rng = np.random.default_rng(20400 + seed)
        bodies = 10
        body = some_bodies(rng, bodies)
        rows = some_rows(rng, bodies, 110)
        for i in range(bodies - 1):
            rows.body[i] = i + 1, i + 2  # a chain
        response = Response(body, "impulse_augmented")
        du = response.respond(rows, T)
        W = response.dense(rows)[::3]
        v_n = W @ body.u
        approaching = v_n < 0.0
        assert approaching.sum() > ACTIVE_SET
        W, v_n, e = W[approaching], v_n[approaching], rows.restitution[: rows.count][approaching]
        # |W^T p|^2 / 2 + p (1 + e) v_n, by its dual: the least |x| with W x >= -(1 + e) v_n
        found = minimize(
            lambda p, W=W, c=(1.0 + e) * v_n: (0.5 * np.sum((W.T @ p) ** 2) + c @ p, W @ (W.T @ p) + c),
            np.zeros(len(W)),
            jac=True,
            bounds=[(0.0, None)] * len(W),
            method="L-BFGS-B",
            options={"maxiter": 20000, "maxfun": 40000, "ftol": 1e-15, "gtol": 1e-11},
        )
        errors.append(np.linalg.norm(du - W.T @ found.x) / np.linalg.norm(body.u))
        assert (body.u + du) @ (body.u + du) <= body.u @ body.u * (1 + 1e-12)
        assert (response.impulses(rows)[:, 0] >= 0.0).all()
    assert np.median(errors) < 5e-3
    assert max(errors) < 0.05


def connected(rows: ContactRows) -> list[set[int]]:
    """Contacts by groups: those that share moving bodies."""
    groups: list[tuple[set[int], set[int]]] = []
    for i in range(rows.count):
        moving = {int(b) for b in rows.body[i] if b}
        joined = ({i}, moving)
        rest = []
        for members, held in groups:
            if held & joined[1]:
                joined = (members | joined[0], held | joined[1])
            else:
                rest.append((members, held))
        groups = [*rest, joined]
    return [members for members, _ in groups]


@pytest.mark.parametrize("method", IMPULSES)
@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_a_body_that_rests_against_a_wall_is_not_struck_into_it(method: str, e: float) -> None:
    """Its contact is old and at rest: it is of the group, and takes part. The striker rebounds as from the wall."""
    r = 0.05
    bodies = {
        "wall": plane((-1, 0, 0), -1.0),
        "resting": ball((1.0 - r + 1e-6, 0, 0), radius=r),
        "striker": ball((1.0 - 3 * r - 0.0105, 0, 0), (1.0, 0, 0), r, 0.5),
    }
    contact = {"restitution": e, "stiffness": 1e-6, "damping": 0.0}
    sim = Simulation(bodies, method, contact=contact).step(20)
    assert sim.v("striker")[0] == pytest.approx(-e, abs=1e-7)
    assert sim.v("resting")[0] == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_rounding_does_not_decide_who_takes_part(sign: float) -> None:
    """A contact at 1e-16 m/s, approaching or parting, is at rest; at 1e-6 m/s it parts, after THESIS (4.2)."""
    found = []
    for v in (sign * 1e-16, 0.0):
        rng = np.random.default_rng(20270)
        body = some_bodies(rng, 2)
        body.v[:] = 0.0
        body.v[0], body.v[6] = 1.0, v
        body.refresh()
        rows = ContactRows()
        rows.count = 2
        rows.id[:2], rows.body[:2] = (1, 2), ((2, 1), (0, 2))
        rows.normal[:2], rows.separation[:2] = (-1.0, 0, 0), -1e-4
        rows.point[0], rows.point[1] = body.q[:3], body.q[7:10]
        rows.point[0, 1:] = rows.point[1, 1:] = 0.0
        found.append(Response(body, "impulse_augmented").respond(rows, T))
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-12)
    assert found[0][0] < 0.0


@pytest.mark.parametrize("method", IMPULSES)
def test_one_group_collides_while_another_rests(method: str) -> None:
    """In the same step: impulses here, springs and dampers there, each as it would be alone."""
    rng = np.random.default_rng(20280)
    body = some_bodies(rng, 2)
    body.v[:] = 0.0
    body.v[0], body.v[6] = 0.7, 0.01
    body.refresh()
    rows = ContactRows()
    rows.count = 1
    rows.id[0], rows.body[0], rows.normal[0], rows.separation[0] = 2, (0, 2), (-1.0, 0, 0), -1e-3
    rows.point[0] = body.q[7:10]  # through the centre
    response = Response(body, method)
    response.respond(rows, T)
    assert response.method.state == COLLIDING
    both = copy_rows(rows, [0, 0])
    both.id[1], both.body[1], both.point[1] = 5, (0, 1), body.q[:3]
    both.restitution[1] = 0.4
    response.respond(both, T)  # contact 2 is old by now
    assert response.method.state == COLLIDING
    masses = [float(body.model.inertias[i].mass) for i in (1, 2)]
    p = response.impulses(both)[:, 0]
    np.testing.assert_allclose(p, [T * (K * 1e-3 + B * 0.01), 1.4 * 0.7 * masses[0]], rtol=1e-9)
    assert response.method.impulses.impact[:2].tolist() == [False, True]
    assert response.method.impulses.spring[0] == pytest.approx(T * K * 1e-3, rel=1e-12)
    response.respond(both, T)
    assert response.method.state == RESTING


@pytest.mark.parametrize("method", IMPULSES)
def test_a_wall_is_no_link_between_groups(method: str) -> None:
    """Two bodies on the same wall: a blow at one leaves the other's penalties as they are."""
    depth = G / (4 * K)
    bodies = {
        "floor": plane(),
        "block": box((1.0, 0, 0.025 - depth), (0.1, 0.1, 0.05)),
        "ball": ball((0, 0, 0.06), (0, 0, -1.0)),
    }
    sim = Simulation(bodies, method, contact={"restitution": 0.5}, gravity=DOWN)
    for _ in range(30):
        sim.step()
        np.testing.assert_allclose(sim.v("block"), np.zeros(6), rtol=0, atol=1e-11)
    assert sim.v("ball")[2] > 0.0


def test_contact_states_of_a_fall() -> None:
    """FREE, COLLIDING for one step, RESTING."""
    bodies = {"floor": plane(), "ball": ball((0, 0, 0.06), (0, 0, -0.5))}
    for method in IMPULSES:
        sim = Simulation(bodies, method, gravity=DOWN)
        states = []
        for _ in range(60):
            sim.step()
            states.append(sim.state.contact_state)
        k = states.index(COLLIDING)
        assert states[:k] == [FREE] * k
        assert states[k + 1 :] == [RESTING] * (59 - k)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "friction", sampled(["none", "coulomb", "reset_integrator", "karnopp", "dahl"], "coulomb", "dahl")
)
def test_the_order_of_contacts_does_not_matter(method: str, friction: str) -> None:
    for seed in range(6):
        rng = np.random.default_rng(20290 + seed)
        body = some_bodies(rng, 4)
        rows = some_rows(rng, 4, 6)
        rows.separation[:6] = rng.uniform(-1e-3, 1e-4, 6)
        order = rng.permutation(6)
        one, other = (Response(body, method, friction={"model": friction, "damping": 10.0}) for _ in range(2))
        for k in range(3):  # the second step has old contacts and bonds
            du = one.respond(rows, T)
            permuted = other.respond(copy_rows(rows, order), T)
            scale = max(1.0, np.abs(du).max())
            # the sweeps of impacts with friction are few, see `choose_effort`
            tolerance = 1e-6 if k > 0 else 2e-2 if method == "frictional_impulses" else 1e-4
            np.testing.assert_allclose(permuted, du, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [0, 256])
def test_any_number_of_contacts_up_to_the_capacity(method: str, count: int) -> None:
    rng = np.random.default_rng(20300)
    body = some_bodies(rng, 3)
    rows = some_rows(rng, 3, count)
    response = Response(body, method, friction={"model": "coulomb"})
    before = np.array(body.u)
    du = response.respond(rows, T)
    assert np.isfinite(du).all()
    np.testing.assert_allclose(response.dense(rows).T @ response.impulses(rows).ravel(), du, rtol=0, atol=1e-9)
    if method != "penalty":
        assert (before + du) @ (before + du) <= before @ before * (1 + 1e-12)
        assert response.method.state == (COLLIDING if count else FREE)


@pytest.mark.parametrize("rendering", ["scaled", "printed_spread"])
def test_limits_of_the_device_are_the_tools_affair(rendering: str) -> None:
    """Impulses of bodies that do not touch the tool are whole, however weak the device."""
    bodies = some_bodies(np.random.default_rng(20310), 2)
    bodies.v[:] = 0.0
    bodies.v[0], bodies.v[6] = 0.5, 0.5
    bodies.refresh()
    rows = ContactRows()
    rows.count = 2
    rows.id[:2], rows.body[:2], rows.normal[:2] = (1, 2), ((0, 1), (0, 2)), (-1.0, 0, 0)
    rows.separation[:2] = -1e-6
    rows.point[0], rows.point[1] = bodies.q[:3], bodies.q[7:10]
    masses = [float(bodies.model.inertias[i].mass) for i in (1, 2)]
    for method in IMPULSES:
        limit = [1.0, 0, 0, 0, 0, 0]
        p = Response(bodies, method, rendering, limit)
        p.respond(rows, T)
        np.testing.assert_allclose(p.impulses(rows)[:, 0], [1.0 * T, 0.5 * masses[1]], rtol=1e-9)


def arm() -> dict[str, Any]:
    link = {"joint": "revolute", "axis": [0, 0, 1], "mass": 1.0, "inertia": [0.01] * 3, "centre_of_mass": [0.5, 0, 0]}
    return {"upper": link, "lower": {**link, "parent": "upper", "position": [1.0, 0, 0]}}


def linkage() -> Multibody:
    world = Simulation(arm(), "penalty").world
    return Multibody(world.model, world.hand, world.q, world.v)


@pytest.mark.parametrize("method", IMPULSES)
@pytest.mark.parametrize("e", [0.0, 0.3, 1.0])
def test_a_linkage_at_a_wall_obeys_newtons_law_with_its_own_inertia(method: str, e: float) -> None:
    """THESIS (4.34) for one contact: dv = -(1 + e) D^-1 J^T (J D^-1 J^T)^-1 J v."""
    body = linkage()
    body.q[:], body.v[:] = (0.3, 0.8), (1.0, -0.4)
    body.refresh()
    rows = ContactRows()
    rows.count = 1
    rows.id[0], rows.body[0], rows.separation[0], rows.restitution[0] = 1, (0, 2), -1e-4, e
    tip = np.array([np.cos(0.3) + np.cos(1.1), np.sin(0.3) + np.sin(1.1), 0.0])
    rows.point[0], rows.normal[0] = tip, (0.6, -0.8, 0.0)
    J = np.array([[-tip[1], -np.sin(1.1)], [tip[0], np.cos(1.1)]])  # of the tip
    row = np.array([0.6, -0.8]) @ J
    assert row @ body.v < 0.0
    expected = -(1 + e) * np.linalg.solve(body.D, row) * (row @ body.v) / (row @ np.linalg.solve(body.D, row))
    du = Response(body, method).respond(rows, T)
    np.testing.assert_allclose(np.linalg.solve(body.L.T, du), expected, rtol=0, atol=1e-9)


def test_unsolved_impulses_are_counted_and_add_no_energy() -> None:
    """The sweeps are too few for many contacts that hang together: counted, finite, in the cones, and passive."""
    unresolved = 0
    for seed in range(10):
        rng = np.random.default_rng(20320 + seed)
        body = some_bodies(rng, 3)
        rows = some_rows(rng, 3, 24)
        response = Response(body, "frictional_impulses", friction={"model": "coulomb"})
        du = response.respond(rows, T)
        unresolved += response.method.unresolved
        after, p = body.u + du, response.impulses(rows)
        assert np.isfinite(du).all()
        assert after @ after <= body.u @ body.u * (1 + 1e-12)
        assert (np.hypot(p[:, 1], p[:, 2]) <= rows.friction[:24, 1] * p[:, 0] * (1 + 1e-9) + 1e-15).all()
    assert unresolved > 5
