"""The methods `constraint` and `hybrid`: the law of a step, solvers against each other and MuJoCo, drift, failures."""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np
import pytest
from world_builder import RIGID, G, Response, Simulation, ball, box, copy_rows, plane, some_bodies, some_rows

from haptic_sim.contact.response import ContactParameters
from haptic_sim.contact.rigid import SLOP
from haptic_sim.contact_rows import ContactRows
from haptic_sim.dynamics.scaled import contact_velocity
from haptic_sim.messages import COLLIDING, FREE, RESTING

T = 1e-3  # [s]
DOWN = [0.0, 0.0, -G]
COULOMB = {"model": "coulomb"}


def velocities(method: Any, count: int, u: np.ndarray) -> np.ndarray:
    """At the contacts of the last step, along normal and tangents, (contacts, 3)."""
    return np.array([[contact_velocity(method.scaled, i, d, u) for d in range(3)] for i in range(count)]).reshape(-1, 3)


@pytest.mark.parametrize("method", RIGID)
@pytest.mark.parametrize("solver", ["lemke", "gauss_seidel"])
def test_each_step_obeys_signorini_and_coulomb(method: str, solver: str) -> None:
    """Without impacts: 0 <= p_n, c_n + s / T >= 0, one of them zero; |p_t| <= mu p_n, against the slip where it slides.

    Of hand-made contacts, in all of which something moves: gaps that close within the step and gaps that do not.
    """
    closed = slid = stuck = 0
    for seed in range(40):
        rng = np.random.default_rng(20260 + seed)
        body = some_bodies(rng, 3, speed=0.3)
        rows = some_rows(rng, 3, 4)
        rows.separation[:4] = rng.choice([0.0, 1e-4, 1e-3, 3e-3], 4)
        rows.friction[:4] *= 0.5 if seed % 2 else 8.0
        response = Response(body, method, solver=solver, friction=COULOMB, bounce=10.0, facets=16, tolerance=1e-12)
        response.respond(rows, T)
        assert response.method.state in (RESTING, FREE)
        p, c = response.impulses(rows), velocities(response.method, 4, response.method.u)
        slack = 1e-5 if solver == "lemke" else 1e-8  # compliant contacts yield by 1e-6 of the velocity they stop
        for i in range(4):
            gap = c[i, 0] + rows.separation[i] / T
            assert p[i, 0] >= 0.0
            assert gap >= -slack
            assert min(p[i, 0], gap) < slack
            friction, mu = np.hypot(*p[i, 1:]), rows.friction[i, 0]  # nothing slid before: the static coefficient
            assert friction <= mu * p[i, 0] * (1 + 1e-9)
            if p[i, 0] < 1e-6:
                continue
            closed += 1
            speed = np.hypot(*c[i, 1:])
            if speed > 1e-3:
                slid += 1
                least = math.cos(math.pi / 16) if solver == "lemke" else 1.0 - 1e-5
                assert -p[i, 1:] @ c[i, 1:] >= least * mu * p[i, 0] * speed * (1 - 1e-6)
            else:
                stuck += speed < 1e-6
        assert response.method.contacts == np.count_nonzero(p[:, 0])
        assert response.method.unresolved == 0
    assert closed > 30 and slid > 20 and stuck >= 5


@pytest.mark.parametrize("method", RIGID)
@pytest.mark.parametrize("count", [3, 12])
def test_the_order_of_contacts_does_not_matter(method: str, count: int) -> None:
    """Of any solver, impacts included, where the motion is unique: with little friction, on separate points."""
    for seed in range(12):
        for mu in (0.0, 0.2):
            rng = np.random.default_rng(20270 + seed)
            body = some_bodies(rng, 4)
            rows = some_rows(rng, 4, count)
            rows.separation[:count] = 0.0
            rows.friction[:count] = mu
            if method == "hybrid":
                rows.restitution[:count] = 0.0  # one at a time: order follows the approach, not the numbering
            material = {"friction": COULOMB, "tolerance": 1e-12, "bounce": 10.0}
            du = Response(body, method, **material).respond(rows, T)
            order = rng.permutation(count)
            permuted = Response(body, method, **material).respond(copy_rows(rows, order), T)
            np.testing.assert_allclose(permuted, du, rtol=0, atol=2e-5 * max(1.0, np.abs(du).max()))


@pytest.mark.parametrize("method", RIGID)
def test_impacts_do_not_depend_on_the_order_of_contacts(method: str) -> None:
    """`hybrid` takes the fastest approach first, which is the same one in any order."""
    for seed in range(12):
        rng = np.random.default_rng(20280 + seed)
        body = some_bodies(rng, 4)
        rows = some_rows(rng, 4, 3)
        rows.friction[:3] = 0.2
        du = Response(body, method, friction=COULOMB, tolerance=1e-12).respond(rows, T)
        permuted = Response(body, method, friction=COULOMB, tolerance=1e-12).respond(copy_rows(rows, [2, 0, 1]), T)
        np.testing.assert_allclose(permuted, du, rtol=0, atol=1e-4 * max(1.0, np.abs(du).max()))


def test_both_solvers_agree_without_friction() -> None:
    """Then the motion is unique; Lemke's contacts are compliant by 1e-6."""
    for seed in range(30):
        rng = np.random.default_rng(20290 + seed)
        body = some_bodies(rng, 3)
        rows = some_rows(rng, 3, 5, separation=0.0)
        rows.friction[:5] = 0.0
        found = [
            Response(body, "constraint", solver=s, bounce=10.0).respond(rows, T) for s in ("lemke", "gauss_seidel")
        ]
        np.testing.assert_allclose(found[0], found[1], rtol=0, atol=3e-5 * np.abs(found[1]).max())


@pytest.mark.parametrize("facets", [4, 8, 16, 32])
def test_facets_bound_what_the_pyramid_costs(facets: int) -> None:
    """`contact.facets`: one contact that slides has the friction of Coulomb's cone to 1 - cos(pi / n), and no more.

    The slip it ends with turns away from the first edge, that of the slip without contact.
    """
    worst = 1.0
    errors = []
    for seed in range(60):
        rng = np.random.default_rng(20300 + seed)
        body = some_bodies(rng, 1)
        rows = some_rows(rng, 1, 1, separation=0.0)
        rows.friction[0] = 0.2
        found = []
        for solver in ("lemke", "gauss_seidel"):
            response = Response(body, "constraint", solver=solver, facets=facets, friction=COULOMB, bounce=10.0)
            response.respond(rows, T)
            c = velocities(response.method, 1, response.method.u)[0]
            found.append((response.impulses(rows)[0], c))
        (p, c), (q, c_true) = found
        if not q[0] > 0.0 or np.hypot(*c_true[1:]) < 0.05:
            continue
        part = np.hypot(*p[1:]) / (0.2 * p[0])
        worst = min(worst, part)
        assert math.cos(math.pi / facets) - 1e-9 <= part <= 1.0 + 1e-9
        errors.append(np.linalg.norm(p - q) / np.linalg.norm(q))
    assert len(errors) > 15
    # directions err by up to half a facet's angle: mu p_n sin(pi / n)
    assert max(errors) < 0.25 * math.sin(math.pi / facets) + 1e-6
    assert worst < 1.0 - 0.1 * (1.0 - math.cos(math.pi / facets))  # the pyramid was felt


def test_planar_worlds_have_two_facets_and_the_exact_law() -> None:
    """In the plane the cone is two edges: Lemke's and Gauss-Seidel's answers are the same."""
    shape = {"type": "box", "size": [0.1, 0.05, 0.05]}
    block = {"joint": "planar", "position": [0, 0.04], "angle": 0.2, "velocity": [1.0, -1.0, 2.0], "mass": 1.0}
    bodies = {"floor": plane((0, 1, 0)), "block": {**block, "shapes": [shape]}}
    end = []
    for solver in ("lemke", "gauss_seidel"):
        contact = {"solver": solver, "friction": COULOMB}
        sim = Simulation(bodies, "constraint", contact=contact, gravity=[0, -G, 0], planar=True).step(150)
        end.append(sim.q("block"))
        assert sim.q("block")[1] == pytest.approx(0.025, abs=2e-4)
    np.testing.assert_allclose(end[0], end[1], rtol=0, atol=1e-5)


def test_too_many_contacts_for_lemke_go_to_gauss_seidel() -> None:
    """A box has four: with room for three the answer is that of Gauss-Seidel, bit for bit."""
    bodies = {"floor": plane(), "box": box((0, 0, 0.05), (0.1, 0.1, 0.1), (0.5, 0.2, 0))}
    contact = {"friction": COULOMB}
    few = Simulation(bodies, contact={**contact, "solver": "lemke", "lemke_contacts": 3}, gravity=DOWN).step(50)
    other = Simulation(bodies, contact={**contact, "solver": "gauss_seidel"}, gravity=DOWN).step(50)
    np.testing.assert_array_equal(few.state.q, other.state.q)
    automatic = Simulation(bodies, contact={**contact, "lemke_contacts": 4}, gravity=DOWN).step(50)
    lemke = Simulation(bodies, contact={**contact, "solver": "lemke"}, gravity=DOWN).step(50)
    np.testing.assert_array_equal(automatic.state.q, lemke.state.q)
    assert (lemke.state.q != other.state.q).any()


@pytest.mark.parametrize("method", RIGID)
def test_a_solver_that_cannot_converge_is_counted_and_harmless(method: str) -> None:
    """A tolerance that no rounding reaches: impulses still lie in the cones, add no energy and are numbers."""
    bodies = {
        "floor": plane(),
        "low": box((0, 0, 0.05), (0.11, 0.1, 0.1), (0.5, 0.2, 0)),
        "high": box((0.01, 0, 0.15), (0.09, 0.12, 0.1), (-0.5, 0.2, 0)),
    }
    contact = {"friction": COULOMB, "solver": "gauss_seidel"}
    sim = Simulation(bodies, method, contact=contact, gravity=DOWN)
    response = sim.tool.contact
    response.parameters = response.parameters.model_copy(update={"tolerance": 1e-300})  # not to be had by a file
    energy = sim.energy()
    for _ in range(60):
        sim.step()
        assert sim.energy() <= energy + 1e-12
        energy = sim.energy()
        p = sim.impulses
        assert (p[:, 0] >= 0.0).all()
        mu = sim.tool.rows.friction[: len(p), 0]
        assert (np.hypot(p[:, 1], p[:, 2]) <= mu * p[:, 0] * (1 + 1e-12)).all()
    assert np.isfinite(sim.state.q).all()
    assert sim.tool.contact.unresolved > 10
    fine = Simulation(bodies, method, contact={"friction": COULOMB, "solver": "gauss_seidel"}, gravity=DOWN).step(60)
    assert fine.tool.contact.unresolved == 0
    np.testing.assert_allclose(sim.state.q, fine.state.q, rtol=0, atol=2e-5)  # it had converged all the same


@pytest.mark.parametrize("method", RIGID)
@pytest.mark.parametrize("count", [0, 1, 256])
def test_any_number_of_contacts_up_to_the_capacity(method: str, count: int) -> None:
    """Far more than there are degrees of freedom, in all directions and at any depth: no energy, no NaN."""
    rng = np.random.default_rng(20310)
    body = some_bodies(rng, 3)
    rows = some_rows(rng, 3, count)
    rows.separation[:count] = rng.uniform(-1e-2, 1e-3, count)
    response = Response(body, method, friction=COULOMB)
    before = np.array(body.u)
    du = response.respond(rows, T)
    after = before + du
    assert np.isfinite(du).all()
    assert after @ after <= (before @ before) * (1 + 1e-12)
    if count != 1:  # one contact may part
        assert (response.method.state == FREE) == (count == 0)
    assert (response.impulses(rows)[:, 0] >= 0.0).all()
    np.testing.assert_allclose(response.dense(rows).T @ response.impulses(rows).ravel(), du, rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", RIGID)
def test_overlap_is_recovered_out_of_what_sliding_dissipates(method: str) -> None:
    """At rest it stays as it is, and no energy appears; sliding, it goes, and energy never rises by it."""
    depth = 5e-4
    for speed in (0.0, 1.0):
        bodies = {"floor": plane(), "box": box((0, 0, 0.05 - depth), (0.1, 0.1, 0.1), (speed, 0, 0))}
        contact = {"friction": {**COULOMB, "static": 0.3, "kinetic": 0.3}, "solver": "gauss_seidel"}
        sim = Simulation(bodies, method, contact=contact, gravity=DOWN)
        energy = sim.energy()
        for _ in range(200):
            sim.step()
            assert sim.energy() <= energy + 1e-13
            energy = sim.energy()
        left = 0.05 - sim.q("box")[2]
        assert left == pytest.approx(depth, abs=1e-9) if speed == 0.0 else left < 2 * SLOP


@pytest.mark.parametrize("method", RIGID)
def test_nothing_drifts_at_rest(method: str) -> None:
    """Two boxes of different sizes on each other, for 2 s: less than a micrometre."""
    bodies = {
        "floor": plane(),
        "low": box((0, 0, 0.05), (0.11, 0.1, 0.1), mass=2.0),
        "high": box((0.01, 0, 0.13), (0.09, 0.08, 0.06)),
    }
    sim = Simulation(bodies, method, contact={"friction": {**COULOMB, "static": 0.5}}, gravity=DOWN)
    start = [sim.q(name) for name in ("low", "high")]
    sim.step(2000)
    for name, q in zip(("low", "high"), start, strict=True):
        np.testing.assert_allclose(sim.q(name), q, rtol=0, atol=1e-6)
    assert sim.state.contact_state == RESTING
    assert sim.tool.contact.unresolved == 0


@pytest.mark.parametrize("method", RIGID)
def test_slow_contacts_do_not_bounce(method: str) -> None:
    """`contact.bounce`: an approach at it is stopped, one beyond it bounces."""
    for speed, end in ((0.019, 0.0), (0.021, 0.5 * 0.021)):
        bodies = {"wall": plane((-1, 0, 0), -0.0501), "ball": ball((0, 0, 0), (speed, 0, 0))}
        contact = {"restitution": 0.5, "bounce": 0.02}
        sim = Simulation(bodies, method, contact=contact)
        states = set()
        for _ in range(20):
            sim.step()
            states.add(sim.state.contact_state)
        assert sim.v("ball")[0] == pytest.approx(-end, abs=1e-9)
        assert (COLLIDING in states) == (end > 0.0)


# MuJoCo, within its compliance


def mujoco_forces(bodies: str, gravity: str, friction: float, seconds: float = 1.5) -> dict[frozenset[str], np.ndarray]:
    """Force [N] between each pair of touching geoms once they have settled, in world axes, on the second's body."""
    xml = f"""
    <mujoco><option timestep="0.001" gravity="{gravity}" cone="elliptic" impratio="100" solver="Newton"
      tolerance="1e-12"/>
      <default><geom friction="{friction} 0 0" condim="3" solref="0.004 1" solimp="0.99 0.999 0.0001"/></default>
      <worldbody><geom name="floor" type="plane" size="5 5 1"/>{bodies}</worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    for _ in range(round(seconds / 0.001)):
        mujoco.mj_step(model, data)
    forces: dict[frozenset[str], np.ndarray] = {}
    for i in range(data.ncon):
        contact, wrench = data.contact[i], np.zeros(6)
        mujoco.mj_contactForce(model, data, i, wrench)
        names = frozenset(model.geom(int(g)).name for g in (contact.geom1, contact.geom2))
        force = contact.frame.reshape(3, 3).T @ wrench[:3]
        forces[names] = forces.get(names, np.zeros(3)) + force
    return forces


def our_forces(sim: Simulation) -> dict[frozenset[str], np.ndarray]:
    """The same of the last step."""
    rows = sim.tool.rows
    forces: dict[frozenset[str], np.ndarray] = {}
    names = sim.world.body_names
    for i in range(rows.count):
        pair = frozenset(names[j].replace("world", "floor") for j in rows.body[i])
        n, t = rows.normal[i], sim.tool.contact.tangent[i]
        p = sim.impulses[i]
        force = (p[0] * n + p[1] * t + p[2] * np.cross(n, t)) / sim.period
        forces[pair] = forces.get(pair, np.zeros(3)) + force
    return forces


@pytest.mark.parametrize("method", RIGID)
@pytest.mark.parametrize("angle", [0.0, 12.0])
def test_a_stack_bears_the_same_forces_as_mujocos(method: str, angle: float) -> None:
    """Two boxes at rest on a floor, or on a slope on which they stick: gravity leans. Within 1 %, friction too."""
    a = math.radians(angle)
    gravity = [G * math.sin(a), 0.0, -G * math.cos(a)]
    theirs = mujoco_forces(
        """<body pos="0 0 0.05"><freejoint/><geom name="low" type="box" size="0.055 0.05 0.05" mass="2"/></body>
        <body pos="0.01 0 0.13"><freejoint/><geom name="high" type="box" size="0.045 0.04 0.03" mass="1"/></body>""",
        " ".join(map(str, gravity)),
        0.5,
    )
    bodies = {
        "floor": plane(),
        "low": box((0, 0, 0.05), (0.11, 0.1, 0.1), mass=2.0),
        "high": box((0.01, 0, 0.13), (0.09, 0.08, 0.06)),
    }
    contact = {"friction": {**COULOMB, "static": 0.5, "kinetic": 0.5}}
    sim = Simulation(bodies, method, contact=contact, gravity=gravity).step(100)
    ours = our_forces(sim)
    assert set(ours) == set(theirs) == {frozenset(("floor", "low")), frozenset(("low", "high"))}
    for pair, mass in ((frozenset(("floor", "low")), 3.0), (frozenset(("low", "high")), 1.0)):
        sign = np.sign(ours[pair][2])
        np.testing.assert_allclose(sign * ours[pair], -mass * np.array(gravity), rtol=0, atol=1e-3 * mass)
        np.testing.assert_allclose(np.abs(theirs[pair]), np.abs(ours[pair]), rtol=0, atol=0.01 * mass * G)


def test_parameters_of_the_solvers_have_bounds() -> None:
    for key, value in (("facets", 3), ("facets", 64), ("lemke_contacts", 0), ("tolerance", 0.0), ("bounce", -1.0)):
        with pytest.raises(ValueError, match=key):
            ContactParameters.model_validate({key: value})


def test_rows_that_are_gone_leave_nothing_behind() -> None:
    """Warm starts follow identities: another contact with the same number of rows starts from nothing."""
    rng = np.random.default_rng(20320)
    body = some_bodies(rng, 2)
    rows = some_rows(rng, 2, 3, separation=0.0)
    fresh = Response(body, "constraint", friction=COULOMB, solver="gauss_seidel", bounce=10.0).respond(rows, T)
    used = Response(body, "constraint", friction=COULOMB, solver="gauss_seidel", bounce=10.0)
    other = some_rows(rng, 2, 3, separation=0.0)
    other.id[:3] = 7, 8, 9
    used.respond(other, T)
    np.testing.assert_array_equal(used.respond(rows, T), fresh)
    used.respond(ContactRows(), T)
    np.testing.assert_array_equal(used.respond(rows, T), fresh)
