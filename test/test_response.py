"""States of contact and what acts in each: a peg with hand-made contacts, so that each case stands alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from world_builder import thesis_material

from haptic_sim.contact.methods import build_response
from haptic_sim.contact.response import ContactParameters, DeviceLimits
from haptic_sim.contact_rows import ContactRows
from haptic_sim.dynamics.multibody import Multibody, planar_body
from haptic_sim.messages import COLLIDING, FREE, RESTING

T = 1.0 / 512.0  # [s]
MASS, INERTIA = 2.0, 0.005  # [kg], [kg m^2]
K, B = 4000.0, 30.0  # [N/m], [N s/m]
LEFT, UP = (-1.0, 0.0, 0.0), (0.0, 1.0, 0.0)
UNLIMITED = np.full(6, np.inf)


def peg(v: Any, q: Any = (0.0, 0.0, 0.0)) -> Multibody:
    model, hand = planar_body(MASS, INERTIA)
    return Multibody(model, hand, np.array(q, float), np.array(v, float))


class Response:
    """A contact method on the peg, with its generalized force."""

    def __init__(self, method: Any, parameters: ContactParameters, rendering: Any, limit: Any):
        self.method = build_response(method, peg((0, 0, 0)), parameters, rendering, np.array(limit, float), 256)
        self.parameters = parameters
        self.force = np.zeros(3)

    def respond(self, rows: ContactRows, body: Multibody, period: float) -> None:
        self.method.parameters = self.parameters
        rows.restitution[:] = self.parameters.restitution
        self.method.respond(rows, body, np.zeros(3), period)
        self.force = body.L @ self.method.du / period

    def __getattr__(self, name: str) -> Any:
        return getattr(self.method, name)


def response(
    method: Any = "impulse_augmented", rendering: Any = "full", limit: Any = UNLIMITED, **material: Any
) -> Response:
    parameters = thesis_material(**{"stiffness": K, "damping": B, **material})
    return Response(method, parameters, rendering, limit)


def advance(body: Multibody, force: np.ndarray, wrench: np.ndarray, period: float) -> None:
    """A step under a generalized force and a wrench at the hand."""
    du = np.zeros(body.nv)
    body.push(wrench, period, du)
    body.move(body.u + du + np.linalg.solve(body.by_coordinates(body.L), force) * period, period)


def contacts(*rows: dict[str, Any]) -> ContactRows:
    """Rows with id, point, normal, separation and, if they matter, velocity and wall."""
    result = ContactRows()
    result.count = len(rows)
    for i, row in enumerate(rows):
        result.id[i], result.wall[i] = row["id"], row.get("wall", 0)
        result.point[i], result.normal[i] = row["point"], row["normal"]
        result.body[i] = 0, 1
        result.separation[i], result.velocity[i] = row.get("separation", -1e-4), row.get("velocity", 0.0)
    return result


def right(id: int = 1, y: float = 0.0, **more: Any) -> dict[str, Any]:
    """A contact of the peg's right face with a wall, at height y."""
    return {"id": id, "point": (0.02, y, 0.0), "normal": LEFT, **more}


def lower(id: int = 2, x: float = 0.0, **more: Any) -> dict[str, Any]:
    return {"id": id, "point": (x, -0.01, 0.0), "normal": UP, "wall": 1, **more}


# THESIS 4.2: which state


def test_free_without_contacts() -> None:
    contact = response()
    for rows in (contacts(), contacts(right(separation=0.0), lower(separation=1e-9))):
        contact.respond(rows, peg((5.0, -5.0, 0)), T)
        assert (contact.state, contact.contacts) == (FREE, 0)
        np.testing.assert_array_equal(contact.wrench, np.zeros(6))
        np.testing.assert_array_equal(contact.force, np.zeros(3))


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_a_new_contact_that_approaches_collides(e: float) -> None:
    """The impulse m (1 + e) v / T stands in the place of the penalty, not beside it."""
    contact = response(restitution=e)
    contact.respond(contacts(right()), peg((0.1, 0.3, 0)), T)
    assert (contact.state, contact.contacts) == (COLLIDING, 1)
    np.testing.assert_allclose(contact.wrench, [-(1 + e) * MASS * 0.1 / T, 0, 0, 0, 0, 0], rtol=1e-14, atol=1e-15)


def test_an_old_contact_that_still_approaches_rests() -> None:
    """f = -K s - B v_n, with no impulse."""
    contact, body = response(), peg((0.1, 0, 0))
    contact.respond(contacts(right()), body, T)
    contact.respond(contacts(right(separation=-2e-4)), body, T)
    assert (contact.state, contact.contacts) == (RESTING, 1)
    np.testing.assert_allclose(contact.wrench[0], -(K * 2e-4 + B * 0.1), rtol=1e-14)


def test_a_contact_that_arises_separating_rests_and_stays_resting() -> None:
    """THESIS figure 4.4: turning away already when it is first seen, no collision is due, then or later."""
    contact = response()
    contact.respond(contacts(right(separation=-1e-3)), peg((-0.1, 0, 0)), T)
    assert (contact.state, contact.contacts) == (RESTING, 1)
    np.testing.assert_allclose(contact.wrench[0], -(K * 1e-3 - B * 0.1), rtol=1e-14)
    contact.respond(contacts(right(separation=-1e-3)), peg((0.1, 0, 0)), T)
    assert contact.state == RESTING
    np.testing.assert_allclose(contact.wrench[0], -(K * 1e-3 + B * 0.1), rtol=1e-14)


def test_separating_means_not_approaching() -> None:
    """v_n = 0 is a separating contact (THESIS 4.2)."""
    contact = response()
    contact.respond(contacts(right()), peg((0.0, 0.3, 0)), T)
    assert contact.state == RESTING


def test_a_new_contact_that_does_not_approach_makes_no_collision_of_old_ones() -> None:
    """At v_n = 0 exactly: the old contact goes on resting, though it approaches."""
    contact, body = response(), peg((0.1, 0, 0))
    contact.respond(contacts(right()), body, T)
    contact.respond(contacts(right(separation=-1e-3), lower(separation=-1e-3)), body, T)
    assert (contact.state, contact.contacts) == (RESTING, 2)
    np.testing.assert_allclose(contact.wrench[:2], [-(K * 1e-3 + B * 0.1), K * 1e-3], rtol=1e-14)


def test_the_contact_velocity_is_that_of_the_point() -> None:
    """Figure 4.4 again: the centre moves into the wall, the point leaves it by the turn, w x r."""
    y = -0.01
    contact = response()
    contact.respond(contacts(right(y=y)), peg((0.01, 0, -2.0)), T)  # v_A = 0.01 - w y = 0.01 - 0.02
    assert contact.state == RESTING
    contact = response()
    contact.respond(contacts(right(y=y)), peg((0.03, 0, -2.0)), T)
    assert contact.state == COLLIDING
    p = (0.03 - 0.02) / (1 / MASS + y**2 / INERTIA)
    np.testing.assert_allclose(contact.wrench[[0, 5]], [-p / T, y * p / T], rtol=1e-13)


def test_a_contact_lost_and_met_again_is_new() -> None:
    contact, body = response(), peg((0.1, 0, 0))
    states = []
    for separation in (-1e-4, -1e-4, 1e-6, -1e-4, -1e-4):
        contact.respond(contacts(right(separation=separation)), body, T)
        states.append(contact.state)
    assert states == [COLLIDING, RESTING, FREE, COLLIDING, RESTING]


def test_old_contacts_that_approach_join_the_impulse() -> None:
    """All that approach share Newton's law; those that separate take no part, and no penalty acts."""
    contact, body = response(restitution=0.5), peg((0.1, -0.2, 0.0))
    contact.respond(contacts(right(1, -0.01), right(3, 0.01)), body, T)
    body.v[2] = 4.0  # w x r: the point at y = 0.01 gets -0.04, at y = -0.01 +0.04: both still approach
    body.refresh()
    rows = contacts(right(1, -0.01), right(3, 0.01), lower(2, 0.005), lower(4, -0.1, separation=-1e-3))
    contact.respond(rows, body, T)
    assert (contact.state, contact.contacts) == (COLLIDING, 4)
    # [v_x, v_y, w]: rows n . (v + w x r)
    J = np.array([[-1, 0, -0.01], [-1, 0, 0.01], [0, 1, 0.005], [0, 1, -0.1]], float)
    assert (J @ body.v < 0).all()
    D = np.diag([MASS, MASS, INERTIA])
    after = body.v + np.linalg.solve(D, contact.force) * T
    assert (J @ after >= -0.5 * J @ body.v - 1e-12).all()
    energy = 0.5 * after @ D @ after
    assert energy < 0.5 * body.v @ D @ body.v

    contact.respond(contacts(right(1, -0.01)), body, T)
    body.v[:] = 0.1, 0.2, 0.0  # now the lower side leaves
    body.refresh()
    contact.respond(contacts(right(1, -0.01, separation=-1e-3), right(5, 0.01), lower(2, separation=-5e-3)), body, T)
    assert (contact.state, contact.contacts) == (COLLIDING, 3)
    np.testing.assert_allclose(contact.wrench, [-1.5 * MASS * 0.1 / T, 0, 0, 0, 0, 0], rtol=0, atol=1e-10)


def test_penalty_method_never_collides() -> None:
    contact = response("penalty")
    contact.respond(contacts(right(separation=-1e-3)), peg((0.1, 0, 0)), T)
    assert (contact.state, contact.contacts) == (RESTING, 1)
    np.testing.assert_allclose(contact.wrench[0], -(K * 1e-3 + B * 0.1), rtol=1e-14)


def test_penalties_never_pull() -> None:
    contact = response("penalty")
    contact.respond(contacts(right(separation=-1e-4)), peg((-5.0, 0, 0)), T)
    assert contact.state == RESTING
    np.testing.assert_array_equal(contact.wrench, np.zeros(6))


def test_stiffness_per_wall_is_shared_by_its_points_that_overlap() -> None:
    """Three points overlap at one wall, one at another; a fourth of the first is near only."""
    rows = contacts(
        right(1, -0.01, separation=-1e-3),
        right(3, 0.0, separation=-1e-3),
        right(5, 0.01, separation=-3e-3),
        right(7, 0.02, separation=1e-3),
        lower(2, separation=-2e-3),
    )
    body = peg((-0.01, 0.0, 0.0))
    for per, share in (("point", 1.0), ("wall", 3.0)):
        contact = response("penalty", per=per)
        contact.respond(rows, body, T)
        each = np.array([K * s - B * 0.01 for s in (1e-3, 1e-3, 3e-3)]) / share
        np.testing.assert_allclose(contact.wrench[0], -each.sum(), rtol=1e-13)
        np.testing.assert_allclose(contact.wrench[1], K * 2e-3, rtol=1e-13)
        np.testing.assert_allclose(contact.wrench[5], each @ [-0.01, 0.0, 0.01], rtol=1e-12)
        assert contact.contacts == 4


@pytest.mark.parametrize("e", [0.0, 1.0])
def test_a_moving_wall_strikes_a_peg_at_rest(e: float) -> None:
    """The restitution is that of the relative velocity: the peg leaves with (1 + e) of the wall's."""
    contact, body = response(restitution=e), peg((0, 0, 0))
    contact.respond(contacts(right(velocity=0.1)), body, T)
    assert contact.state == COLLIDING
    advance(body, contact.force, np.zeros(6), T)
    np.testing.assert_allclose(body.v, [-(1 + e) * 0.1, 0, 0], rtol=1e-14, atol=1e-16)


def test_a_wall_that_moves_along_presses_by_its_damper_alone() -> None:
    contact = response("penalty")
    contact.respond(contacts(right(separation=-1e-3, velocity=-0.1)), peg((0.1, 0, 0)), T)
    np.testing.assert_allclose(contact.wrench[0], -K * 1e-3, rtol=1e-14)  # no relative velocity
    contact.respond(contacts(right(separation=-1e-3, velocity=0.2)), peg((0.1, 0, 0)), T)
    np.testing.assert_allclose(contact.wrench[0], -(K * 1e-3 + B * 0.3), rtol=1e-14)


# THESIS 4.5.2: impulses that the device cannot render, as printed; see test_spread for the consistent way


def struck(rendering: Any, limit: Any, y: float = 0.004) -> tuple[Response, Multibody]:
    """A corner hit: impulse in x and y, and a torque."""
    contact, body = response(rendering=rendering, limit=limit), peg((0.2, -0.3, 1.0))
    contact.respond(contacts(right(1, y), lower(2, 0.006)), body, T)
    assert contact.state == COLLIDING
    return contact, body


@pytest.mark.parametrize("rendering", ["full", "saturated"])
def test_full_and_saturated_impulses_are_not_scaled_here(rendering: str) -> None:
    free, _ = struck("full", UNLIMITED)
    contact, _ = struck(rendering, np.full(6, 1e-3))
    np.testing.assert_array_equal(contact.wrench, free.wrench)
    np.testing.assert_array_equal(contact.force, free.force)


@pytest.mark.parametrize("rendering", ["scaled", "printed_spread"])
@pytest.mark.parametrize("direction", [0, 1, 5])
def test_impulses_are_scaled_to_the_tightest_limit(rendering: str, direction: int) -> None:
    """All by the same factor, to the limit in the direction that needs it most: force and torque alike."""
    free, _ = struck("full", UNLIMITED)
    assert (np.abs(free.wrench[[0, 1, 5]]) > [100.0, 100.0, 0.1]).all()
    limit = 0.9 * np.abs(free.wrench)
    limit[direction] = 0.3 * abs(free.wrench[direction])
    contact, _ = struck(rendering, limit)
    np.testing.assert_allclose(contact.wrench, 0.3 * free.wrench, rtol=1e-14, atol=0)
    np.testing.assert_allclose(contact.force, 0.3 * free.force, rtol=1e-14, atol=0)
    assert abs(contact.wrench[direction]) <= limit[direction] * (1 + 1e-15)


@pytest.mark.parametrize("rendering", ["scaled", "printed_spread"])
def test_impulses_within_the_limits_are_not_scaled(rendering: str) -> None:
    free, _ = struck("full", UNLIMITED)
    contact, _ = struck(rendering, np.maximum(np.abs(free.wrench), 1e-9))
    np.testing.assert_array_equal(contact.wrench, free.wrench)


def test_penalties_are_never_scaled() -> None:
    contact = response("penalty", "scaled", np.full(6, 1e-3))
    contact.respond(contacts(right(separation=-1e-2)), peg((0, 0, 0)), T)
    np.testing.assert_allclose(contact.wrench[0], -K * 1e-2, rtol=1e-14)


def strike_until_rest(rendering: Any, limit: float, e: float = 0.0) -> tuple[list[int], list[float]]:
    """States and velocities of a peg that meets a wall with 0.1 m/s; the contact stays."""
    contact = response(rendering=rendering, limit=[limit, limit, 0, 0, 0, 1.0], restitution=e)
    body = peg((0.1, 0, 0))
    states, velocities = [], []
    for _ in range(40):
        contact.respond(contacts(right(separation=-1e-12)), body, T)
        states.append(contact.state)
        advance(body, contact.force, np.zeros(6), T)
        velocities.append(float(body.v[0]))
    return states, velocities


def test_spread_impulses_go_on_until_none_is_scaled() -> None:
    """m v = 0.2 N s at 15 N: T F = 0.0293 N s a step, so six at the limit and the rest in the seventh."""
    states, velocities = strike_until_rest("printed_spread", 15.0)
    steps = math.ceil(MASS * 0.1 / (15.0 * T))
    assert steps == 7
    assert states[: steps + 1] == [COLLIDING] * steps + [RESTING]
    assert COLLIDING not in states[steps:]
    expected = [0.1 - 15.0 * T / MASS * k for k in range(1, steps)]
    np.testing.assert_allclose(velocities[: steps - 1], expected, rtol=1e-13)
    assert abs(velocities[steps - 1]) < 1e-15


def test_scaled_impulses_act_once() -> None:
    states, velocities = strike_until_rest("scaled", 15.0)
    assert states == [COLLIDING] + [RESTING] * 39
    assert velocities[0] == pytest.approx(0.1 - 15.0 * T / MASS, rel=1e-14)
    assert velocities[1] == pytest.approx(velocities[0] * (1 - B * T / MASS), rel=1e-9)  # the damper goes on


@pytest.mark.parametrize("limit", [15.0, 14.0, 20.0, 60.0, 200.0])
def test_spread_with_restitution_asks_again_for_what_is_left(limit: float) -> None:
    """p = min((1 + e) m v, F T) as long as the peg approaches, until a step is not scaled."""
    e, v, expected, scaled = 0.5, 0.1, [], True
    while scaled and v > 0.0:
        scaled = (1 + e) * MASS * v > limit * T
        v -= min((1 + e) * MASS * v, limit * T) / MASS
        expected.append(v)
    states, velocities = strike_until_rest("printed_spread", limit, e)
    steps = len(expected)
    assert states == [COLLIDING] * steps + [RESTING] * (40 - steps)
    np.testing.assert_allclose(velocities[:steps], expected, rtol=1e-12)


def test_spread_ends_when_nothing_approaches_any_more() -> None:
    contact = response(rendering="printed_spread", limit=np.full(6, 1.0))
    contact.respond(contacts(right()), peg((0.1, 0, 0)), T)
    contact.respond(contacts(right(separation=-1e-3)), peg((-0.01, 0, 0)), T)
    assert contact.state == RESTING
    np.testing.assert_allclose(contact.wrench[0], -(K * 1e-3 - B * 0.01), rtol=1e-14)
    contact.respond(contacts(right(separation=-1e-3)), peg((0.1, 0, 0)), T)
    assert contact.state == RESTING  # and does not come back


def test_spread_ends_with_the_contact() -> None:
    contact = response(rendering="printed_spread", limit=np.full(6, 1.0))
    contact.respond(contacts(right()), peg((0.1, 0, 0)), T)
    contact.respond(contacts(), peg((0.1, 0, 0)), T)
    assert contact.state == FREE
    contact.respond(contacts(right()), peg((-0.1, 0, 0)), T)
    assert contact.state == RESTING


def test_an_impulse_is_not_scaled_by_a_direction_in_which_it_has_nothing() -> None:
    """A device without force along y and without torque renders a blow along x through the centre."""
    contact = response(rendering="scaled", limit=[np.inf, 0, 0, 0, 0, 0])
    contact.respond(contacts(right()), peg((0.1, -0.3, 0)), T)
    np.testing.assert_allclose(contact.wrench, [-MASS * 0.1 / T, 0, 0, 0, 0, 0], rtol=1e-14, atol=0)


def test_a_direction_that_cannot_be_rendered_at_all_takes_the_impulse_with_it() -> None:
    """No torque, and the impulse has one: none of it acts; at most the penalty, a hundredth of it, does."""
    free, _ = struck("full", UNLIMITED)
    contact = response(rendering="scaled", limit=[np.inf, np.inf, 0, 0, 0, 0])
    contact.respond(contacts(right(1, 0.004), lower(2, 0.006)), peg((0.2, -0.3, 1.0)), T)
    assert (np.abs(contact.wrench) <= 0.05 * np.abs(free.wrench)).all()


def test_a_wall_holds_though_its_torque_cannot_be_rendered() -> None:
    """Spread goes on colliding with an impulse of zero: the penalty must act, or the peg passes the wall."""
    contact, body = response(rendering="printed_spread", limit=[np.inf, np.inf, 0, 0, 0, 0]), peg((0.2, -0.3, 1.0))
    contact.respond(contacts(right(1, 0.004), lower(2, 0.006)), body, T)
    contact.respond(contacts(right(1, 0.004, separation=-1e-2), lower(2, 0.006)), body, T)
    assert contact.wrench[0] <= -K * 1e-2


@pytest.mark.parametrize("y", [0.0, -0.0137, 0.3, 1.0 / 3.0])
@pytest.mark.parametrize("rendering", ["scaled", "printed_spread"])
def test_a_torque_of_rounding_does_not_take_the_impulse_with_it(rendering: str, y: float) -> None:
    """A face that meets a wall has no torque but rounding; a device without torque renders its force."""
    half = 0.0105
    contact = response(rendering=rendering, limit=[np.inf, np.inf, 0, 0, 0, 0])
    body = peg((0.137, 0.0, 0.0), (0.01, y, 0.0))
    rows = contacts(right(1), right(3))
    rows.point[0, 1], rows.point[1, 1] = y - half, y + half
    contact.respond(rows, body, T)
    assert contact.state == COLLIDING
    assert contact.wrench[0] == pytest.approx(-MASS * 0.137 / T, rel=1e-12)


def test_limits_of_a_device() -> None:
    full = DeviceLimits(impulse_rendering="full", wrench_limit=(1.0, 2.0, 3.0))
    np.testing.assert_array_equal(full.limit(), np.full(6, np.inf))
    for rendering in ("saturated", "scaled", "spread"):
        planar = DeviceLimits(impulse_rendering=rendering, wrench_limit=(1.0, 2.0, 3.0))
        np.testing.assert_array_equal(planar.limit(), [1.0, 2.0, 0.0, 0.0, 0.0, 3.0])
        spatial = DeviceLimits(impulse_rendering=rendering, wrench_limit=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
        np.testing.assert_array_equal(spatial.limit(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])


# what holds whatever the contacts


def random_contacts(rng: np.random.Generator, count: int) -> ContactRows:
    angle = rng.uniform(-np.pi, np.pi, count)
    return contacts(
        *(
            {
                "id": i,
                "point": (*rng.uniform(-0.03, 0.03, 2), 0.0),
                "normal": (np.cos(a), np.sin(a), 0.0),
                "separation": rng.uniform(-1e-3, 2e-4),
                "wall": i % 3,
            }
            for i, a in enumerate(angle)
        )
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("rendering", "e"),
    [
        ("full", 0.6),
        ("scaled", 1.0),
        ("printed_spread", 0.0),
        *(
            pytest.param(rendering, e, marks=pytest.mark.exhaustive)
            for rendering, others in (("full", (0.0, 1.0)), ("scaled", (0.0, 0.6)), ("printed_spread", (0.6, 1.0)))
            for e in others
        ),
    ],
)
def test_no_colliding_step_adds_energy(rendering: str, e: float) -> None:
    rng = np.random.default_rng(20260)
    collisions = 0
    contact = response(rendering=rendering, limit=[5.0, 5.0, 0, 0, 0, 0.1], restitution=e)
    body = peg((0.0, 0.0, 0.0))
    for _ in range(300):
        body.v[:] = rng.normal(size=3) * [0.2, 0.2, 10.0]
        body.q[:] = *rng.uniform(-0.1, 0.1, 2), rng.uniform(-3, 3)
        body.refresh()
        before = body.kinetic_energy[0]
        contact.respond(contacts(), body, T)  # so that all the others are new
        contact.respond(random_contacts(rng, int(rng.integers(1, 10))), body, T)
        advance(body, contact.force, np.zeros(6), T)
        if contact.state == COLLIDING:
            collisions += 1
            assert body.kinetic_energy[0] <= before * (1 + 1e-12)
        assert contact.unresolved == 0
    assert collisions > 200


@pytest.mark.parametrize("method", ["penalty", "impulse_augmented"])
def test_force_and_wrench_are_the_sum_of_pushes_at_the_points(method: str) -> None:
    """The generalized force is J_H^T wrench; a wrench from n pushes with f >= 0, whoever computes it."""
    rng = np.random.default_rng(20261)
    for _ in range(100):
        contact = response(method, per="wall")
        body = peg(rng.normal(size=3) * [0.2, 0.2, 10.0], (*rng.uniform(-0.1, 0.1, 2), 0.7))
        rows = random_contacts(rng, int(rng.integers(1, 10)))
        contact.respond(rows, body, T)
        np.testing.assert_allclose(contact.force, body.J_H.T @ contact.wrench, rtol=1e-11, atol=1e-9)
        if method == "penalty":
            expected = np.zeros(6)
            for i in range(rows.count):
                s, n, r = rows.separation[i], rows.normal[i], rows.point[i] - body.p_WH
                share = np.count_nonzero(
                    (rows.separation[: rows.count] < 0) & (rows.wall[: rows.count] == rows.wall[i])
                )
                v_n = n @ (body.twist[:3] + np.cross(body.twist[3:], r))
                f = n * max(0.0, -K * s - B * v_n) / max(share, 1) if s < 0 else np.zeros(3)
                expected += np.concatenate([f, np.cross(r, f)])
            np.testing.assert_allclose(contact.wrench, expected, rtol=1e-11, atol=1e-12)


def test_materials_can_be_replaced_between_steps() -> None:
    contact, body = response("penalty"), peg((0, 0, 0))
    contact.respond(contacts(right(separation=-1e-3)), body, T)
    contact.parameters = thesis_material(stiffness=1000.0)
    contact.respond(contacts(right(separation=-1e-3)), body, T)
    np.testing.assert_allclose(contact.wrench[0], -1.0, rtol=1e-14)
