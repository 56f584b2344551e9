"""Impacts and rests of random bodies, of very different masses and at random contacts, add no energy."""

from __future__ import annotations

import itertools

import numpy as np
import pinocchio as pin
import pytest
from conftest import sampled
from world_builder import Response

from haptic_sim.contact_rows import ContactRows
from haptic_sim.dynamics.multibody import Multibody, free_joint

TRIALS = 2000  # of each method and kind
NOTHING = 1e-12  # of the energy that is there
IMPULSIVE = ("impulse_augmented", "frictional_impulses", "constraint", "hybrid")
BODIES, MOST = 3, 6
PERIOD = 1e-3  # [s]


def some_bodies(rng: np.random.Generator) -> Multibody:
    """Free bodies of a gram to a tonne, of any shape."""
    model = pin.Model()
    model.gravity.linear[:] = 0.0
    for i in range(BODIES):
        joint = model.addJoint(0, free_joint(), pin.SE3.Identity(), f"body{i}")
        mass, sides = 10.0 ** rng.uniform(-3, 3), 10.0 ** rng.uniform(-4, -1, 3)
        moments = mass * np.diag([sides[1] + sides[2], sides[0] + sides[2], sides[0] + sides[1]])
        model.appendBodyToJoint(joint, pin.Inertia(mass, np.zeros(3), moments), pin.SE3.Identity())
    hand = model.addFrame(pin.Frame("hand", 1, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    q = pin.integrate(model, pin.neutral(model), 0.3 * rng.normal(size=model.nv))
    return Multibody(model, hand, q, np.zeros(model.nv))


def largest_gain(method: str, trials: int, seed: int, rests: bool = False) -> tuple[float, int]:
    """Largest energy added, as a part of what is there, and how many impacts or rests there were.

    Each trial is a step with new contacts, velocities in scaled coordinates at random, which share the energy among
    the bodies whatever their masses, and impulses of other forces as large, where it is of rests. What those forces
    do at the velocity after the step is their work (semi-implicit Euler).
    """
    rng = np.random.default_rng(seed)
    worst, met = 0.0, 0
    friction = {"model": "coulomb"} if method != "impulse_augmented" else {"model": "none"}
    of_rests = method in ("constraint", "hybrid") and rests
    for start in range(0, trials, 500):
        body = some_bodies(rng)
        response = Response(body, method, stiffness=1e-6, damping=0.0, friction=friction)
        rows = ContactRows()
        u = body.arrays.u
        n_all = rng.integers(1, MOST + 1, 500)
        for k in range(min(500, trials - start)):
            n = rows.count = int(n_all[k])
            rows.id[:n] = (start + k) * MOST + np.arange(n)
            rows.body[:n, 1] = rng.integers(1, BODIES + 1, n)
            a = rng.integers(0, BODIES + 1, n)
            rows.body[:n, 0] = np.where(a == rows.body[:n, 1], 0, a)
            normals = rng.normal(size=(n, 3))
            rows.normal[:n] = normals / np.linalg.norm(normals, axis=1)[:, None]
            rows.point[:n] = 0.1 * rng.normal(size=(n, 3))
            rows.separation[:n] = -1e-15  # springs that push groups without an impact give nothing
            rows.restitution[:n] = 0.0 if rests else rng.uniform(size=n)
            rows.friction[:n, 0] = rows.friction[:n, 1] = rng.uniform(0, 1.5, n)
            u[:] = rng.normal(size=u.size)
            external = rng.normal(size=u.size) if of_rests else np.zeros(u.size)
            if rests and k % 2:
                u[:] *= 1e-6
            response.method.respond(rows, body, external, PERIOD)
            p = response.method.impulses.p[:n]
            if not p.any():
                continue
            met += 1
            after = response.method.u
            there = 0.5 * u @ u + 0.5 * external @ external
            gain = 0.5 * (after @ after) - 0.5 * (u @ u) - external @ after
            worst = max(worst, gain / there)
    return worst, met


@pytest.mark.exhaustive
@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "rests"),
    sampled(itertools.product(IMPULSIVE, (False, True)), *((method, False) for method in IMPULSIVE)),
)
def test_no_impact_and_no_rest_adds_energy(method: str, rests: bool) -> None:
    worst, met = largest_gain(method, TRIALS, 20260, rests)
    assert met > TRIALS / 2
    assert worst < NOTHING
