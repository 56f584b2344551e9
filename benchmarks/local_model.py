"""Benchmark of the local model: time of a step of the proxy, called from Python with messages.

 - resting: a free body of 6 degrees of freedom on 12, and on 64 constraints, all in contact, with bonds of friction;
 - colliding: the same body, put back before every step, strikes 12 constraints with friction on;
 - linkage: an arm of six hinges whose last link is on 12 constraints, with its own dynamics (`current`) and with
   those of the last survey (`surveyed`);
 - NumPy: penalties and friction of the resting body in plain NumPy (`PlainProxy`), which moves it in the same way.

Besides, a survey of MuJoCo's contacts, beside MuJoCo's own step of the same world (`mujoco_contestants`).

All take turns, some steps each, one after another and once a millisecond, so that other work of the machine affects all
alike (`turns`). A row for the memory that 10,000 steps hold at most, beyond what was held before, shows that a step
makes no arrays: what remains are Python's numbers.
"""

from __future__ import annotations

import gc
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.turns import Contestant, Figures, take_turns
from haptic_bench import experiment
from haptic_sim.contact.methods import Method
from haptic_sim.contact.response import REMEMBERED, ContactParameters
from haptic_sim.messages import LocalGeometry, ToolCommand
from haptic_sim.tool.local_model import FullParameters, Proxy
from haptic_sim.tool.mujoco_surroundings import MujocoSurroundings
from haptic_sim.tool.tool_side import build_surroundings
from haptic_sim.worlds.compiled import library
from haptic_sim.worlds.parameters import WorldParameters
from haptic_sim.worlds.scenes import NoToolParameters, build_world
from haptic_sim.worlds.world_setup import WorldSetup

RATE = 1000.0  # [Hz]
ROUNDS, TURN, SETTLE = 20, 100, 300  # turns of each contestant, steps of a turn, steps before any is measured
STEPS = 10_000  # whose memory is measured
SIDE, MASS = 0.04, 1.0  # [m], [kg] of the body
STIFFNESS, DAMPING = 24e3, 180.0  # [N/m], [N s/m] of all constraints together
STATIC, KINETIC = 0.4, 0.3  # coefficients of friction
WRENCH = (0.1, 0.05, -1.0, 0.0, 0.0, 0.0)  # [N, N m]
FEW, MANY = 12, 64  # constraints
NUMPY = "NumPy, 12 constraints"
Row = Callable[[str, float, str, str, bool | None], dict[str, Any]]


def material(count: int, restitution: float = 0.0) -> ContactParameters:
    """Contact parameters for `count` contacts, which share stiffness and damping, by the law of `PlainProxy`."""
    return ContactParameters.model_validate(
        {
            "penalty": "explicit",
            "stiffness": STIFFNESS / count,
            "damping": DAMPING / count,
            "restitution": restitution,
            "friction": {"model": "reset_integrator", "static": STATIC, "kinetic": KINETIC},
        }
    )


def free_world() -> WorldSetup:
    """A cube that moves freely."""
    body = {"joint": "free", "mass": MASS, "shapes": [{"type": "box", "size": [SIDE] * 3}]}
    scene = WorldParameters.model_validate({"tool": "cube", "gravity": [0, 0, 0], "bodies": {"cube": body}})
    return build_world(NoToolParameters(), scene, material(1))


def arm_world() -> WorldSetup:
    """An arm of six hinges, held by its last link."""
    axes = ((0, 0, 1), (0, 1, 0), (0, 1, 0), (1, 0, 0), (0, 1, 0), (1, 0, 0))
    bodies = {
        f"link_{k}": {
            "joint": "revolute",
            "parent": f"link_{k - 1}" if k else "world",
            "axis": list(axis),
            "angle": 0.3,
            "position": [0.0, 0.0, 0.0] if k == 0 else [0.2, 0.0, 0.0],
            "mass": 1.0,
            "inertia": [2e-3, 4e-3, 4e-3],
            "centre_of_mass": [0.1, 0.0, 0.0],
        }
        for k, axis in enumerate(axes)
    }
    scene = WorldParameters.model_validate({"tool": "link_5", "gravity": [0, 0, 0], "bodies": bodies})
    return build_world(NoToolParameters(), scene, material(1))


class Runner:
    """A proxy of a world's tool on constraints below it, all in contact, and what it is stepped with.

    Args:
        world: whose tool it is of.
        count: constraints.
        method: of contact.
        dynamics: of the local model.
        impact: put the tool back before every step, so that it strikes all constraints.
    """

    def __init__(
        self,
        world: WorldSetup,
        count: int,
        method: Method = "impulse_augmented",
        dynamics: str = "current",
        impact: bool = False,
    ):
        parameters = FullParameters.model_validate({"type": "full", "dynamics": dynamics})
        given = material(count, 0.3 if impact else 0.0)
        self.proxy = Proxy(world, given, method, "full", np.full(6, np.inf), RATE, parameters)
        self.state, self.command = self.proxy.tool_state(), ToolCommand()
        self._body, self._counts = self.proxy.tool.body, self.proxy.tool.contact.counts
        self._q = self._body.q.copy()
        self.points = bottom(count)
        self.proxy.update(self._geometry(world, given), 0)
        self.command.wrench[:] = WRENCH
        self._put_back = self._strike if impact else None
        self.proxy.tool.pushed |= impact  # what puts it back supplies energy

    def _geometry(self, world: WorldSetup, given: ContactParameters) -> LocalGeometry:
        """An update with planes at points of the tool's bottom."""
        body, n = self._body, len(self.points)
        nq, nv = body.q.size, body.nv
        geometry = LocalGeometry(q=nq, v=nv, inertia=nv * nv, gravity=nv, constraints=n)
        geometry.stamp(0, 0)
        geometry.q[:], geometry.pose[:] = body.q, body.pose
        inertia = np.tril(body.arrays.M)
        geometry.inertia[:] = (inertia + np.tril(inertia, -1).T).ravel()
        geometry.resize(n)
        found = geometry.constraints[:n]
        found["id"] = found["body"] = np.arange(n)
        found["link"] = body.hand_joint
        found["position"], found["normal"] = body.p_WH + self.points, (0.0, 0.0, 1.0)
        found["friction_static"], found["friction_kinetic"] = STATIC, KINETIC
        found["restitution"] = given.restitution
        return geometry

    def _strike(self) -> None:
        """Put the tool where it strikes all constraints at once."""
        body = self._body
        body.q[:], body.v[:] = self._q, 0.0
        body.q[2] -= 1e-4
        body.v[:3] = 0.1, 0.05, -0.5
        body.refresh()
        self._counts[REMEMBERED] = 0

    def prepare(self) -> None:
        """Prepare a step."""
        self.command.stamp(self.state.tick + 1, 0)
        if self._put_back is not None:
            self._put_back()

    def step(self) -> None:
        """The step."""
        self.proxy.step(self.command, self.state)

    @property
    def contestant(self) -> Contestant:
        """Contestant to be measured."""
        return Contestant(self.step, self.prepare)


def bottom(count: int) -> np.ndarray:
    """Points of the cube's bottom, from its centre [m] (count, 3)."""
    rng = np.random.default_rng(12)
    xy = rng.uniform(-0.5 * SIDE, 0.5 * SIDE, (count, 2))
    return np.column_stack([xy - xy.mean(axis=0), np.full(count, -0.5 * SIDE)])


class PlainProxy:
    """The same cube on the same constraints in plain NumPy: penalties, bonds of friction, and the motion they cause.

    As `haptic_sim.contact` has it for contacts that last, without impacts, the energy balance and messages. Valid for a
    body of three equal moments of inertia, whose gyroscopic terms vanish.
    """

    def __init__(self, points: np.ndarray):
        count = len(points)
        self.material = material(count)
        self.p_B, self.c = points, points.copy()
        self.n = np.tile([0.0, 0.0, 1.0], (count, 1))
        self.x, self.R = np.zeros(3), np.eye(3)
        self.v, self.omega = np.zeros(3), np.zeros(3)  # world axes
        self.strain, self.stiffness, self.slides = np.zeros((count, 3)), np.zeros(count), np.zeros(count, bool)
        self.inertia = MASS * SIDE**2 / 6.0
        self.wrench = np.array(WRENCH)

    def step(self) -> np.ndarray:
        """Advance by 1 / RATE; returns the wrench of the contacts at the centre (6,) [N, N m]."""
        h, n = 1.0 / RATE, self.n
        law, k, b = self.material.friction, self.material.stiffness, self.material.damping
        r = self.p_B @ self.R.T
        s = np.einsum("ij,ij->i", n, self.x + r - self.c)
        velocity = self.v + np.cross(self.omega, r)
        v_n = np.einsum("ij,ij->i", n, velocity)
        touches = s < 0.0
        N = np.where(touches, np.maximum(0.0, -(k * s + b * v_n)), 0.0)
        # friction: bonds in the tangent plane
        slip = velocity - v_n[:, None] * n
        speed = np.linalg.norm(slip, axis=1)
        norms = tangential_norms(r, n, self.inertia)
        mobility = norms * np.sum(norms[N > 0.0])
        static = STATIC * N
        z0 = np.maximum(law.breakaway, 0.5 * h * h * mobility * static)
        K, z_k = static / z0, z0 * (KINETIC / STATIC)
        keep = np.where(self.stiffness < K, self.stiffness / np.where(K > 0.0, K, 1.0), 1.0)
        z = keep[:, None] * (self.strain - np.einsum("ij,ij->i", self.strain, n)[:, None] * n)
        turned = (np.einsum("ij,ij->i", z, slip) < 0.0) | (speed == 0.0) | (speed <= law.deadband)
        slides = self.slides & ~turned
        z = z + h * slip
        length = np.linalg.norm(z, axis=1)
        slides |= length > z0
        shorten = slides & (length > z_k)
        z[shorten] *= (z_k[shorten] / length[shorten])[:, None]
        bonded = N > 0.0
        self.strain, self.stiffness = np.where(bonded[:, None], z, 0.0), np.where(bonded, K, 0.0)
        self.slides = slides & bonded
        force = N[:, None] * n - self.stiffness[:, None] * self.strain
        wrench = np.concatenate([force.sum(axis=0), np.cross(r, force).sum(axis=0)])
        # semi-implicit Euler; the body turns by the Cayley transform of h times its angular velocity
        total = wrench + self.wrench
        self.v = self.v + h * total[:3] / MASS
        self.omega = self.omega + h * total[3:] / self.inertia
        self.x = self.x + h * self.v
        half = 0.5 * h * self.omega
        skew = np.array([[0.0, -half[2], half[1]], [half[2], 0.0, -half[0]], [-half[1], half[0], 0.0]])
        self.R = np.linalg.solve(np.eye(3) - skew, np.eye(3) + skew) @ self.R
        return wrench


def tangential_norms(r: np.ndarray, n: np.ndarray, inertia: float) -> np.ndarray:
    """Largest singular value of the two tangential rows of J D^-1/2 at points r from the centre [kg^-1/2] (n,)."""
    aside = np.where(np.abs(n[:, 2:]) < 0.9, [0.0, 0.0, 1.0], [1.0, 0.0, 0.0])
    t = np.cross(aside, n)
    t /= np.linalg.norm(t, axis=1)[:, None]
    b = np.cross(n, t)
    one = np.concatenate([t / math.sqrt(MASS), np.cross(r, t) / math.sqrt(inertia)], axis=1)
    two = np.concatenate([b / math.sqrt(MASS), np.cross(r, b) / math.sqrt(inertia)], axis=1)
    p, q, c = (np.einsum("ij,ij->i", x, y) for x, y in ((one, one), (one, two), (two, two)))
    found: np.ndarray = np.sqrt(0.5 * (p + c) + np.sqrt(0.25 * (p - c) ** 2 + q * q))
    return found


def held_memory(one: Runner, steps: int) -> int:
    """Bytes that Python and NumPy hold at most during some steps, beyond those before."""
    one.prepare()
    one.step()
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(100):  # until what was held before, and is let go of now, is known
            one.step()
        begun, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in range(steps):
            one.step()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - begun


def runners() -> dict[str, Runner]:
    """Contestants by name."""
    cube, arm = free_world(), arm_world()
    return {
        f"free body, {FEW} constraints": Runner(cube, FEW),
        f"free body, {MANY} constraints": Runner(cube, MANY),
        f"impulse_augmented, impact on {FEW}": Runner(cube, FEW, impact=True),
        f"frictional_impulses, impact on {FEW}": Runner(cube, FEW, "frictional_impulses", impact=True),
        f"arm of 6, {FEW} constraints": Runner(arm, FEW),
        f"arm of 6, surveyed, {FEW} constraints": Runner(arm, FEW, dynamics="surveyed"),
    }


def mujoco_contestants() -> tuple[Contestant, Contestant, int]:
    """A survey of the rod among 100 objects of mujoco_clutter, MuJoCo's step of that world, and the contacts listed.

    Everything within 12 cm of the rod is listed; the rod is placed in the middle.
    """
    (trial,) = experiment.load("mujoco_clutter", ["local_model.epsilon=0.12"])
    surroundings = build_surroundings(trial.world, trial.experiment, RATE)
    assert isinstance(surroundings, MujocoSurroundings)
    mujoco, model, data = library(), surroundings._model, surroundings._data
    data.qpos[surroundings._tool.q[0]] = 0.0
    mujoco.mj_forward(model, data)
    geometry, wrench, stepped = surroundings.local_geometry(), np.zeros(6), mujoco.MjData(model)
    surroundings.report(geometry, wrench)
    return (
        Contestant(lambda: surroundings.report(geometry, wrench)),
        Contestant(lambda: mujoco.mj_step(model, stepped), lambda: mujoco.mj_copyData(stepped, model, data)),
        len(geometry),
    )


TARGETS: dict[str, tuple[tuple[str, float], ...]] = {
    f"free body, {FEW} constraints": (("tight_p50", 2.0), ("paced_p50", 5.0), ("paced_p99", 20.0)),
    f"free body, {MANY} constraints": (("tight_p50", 10.0),),
    f"impulse_augmented, impact on {FEW}": (("tight_p50", 10.0),),
    f"frictional_impulses, impact on {FEW}": (("tight_p50", 8.0),),
    f"arm of 6, {FEW} constraints": (("paced_p50", 30.0),),
    f"arm of 6, surveyed, {FEW} constraints": (("paced_p50", 15.0),),
}
"""Most microseconds of a step."""
NAMES = {"tight_p50": "", "paced_p50": ", 1 kHz", "paced_p99": ", 1 kHz, p99"}
FACTOR = 100.0  # times faster than NumPy
SURVEY = 3.0  # times MuJoCo's step that a survey of it may take
SURVEYS, SURVEY_PERIOD = 20, 5e-3  # of a turn, and [s] from one to the next
MEMORY = 8192  # [B] held after 10,000 steps: one number that is kept in each would be 240,000


def measure(row: Row) -> list[dict[str, Any]]:
    """Run all of it; `row` makes a line of the table from name, value, unit, target and whether that is met."""
    found = runners()
    plain = PlainProxy(bottom(FEW))
    contestants = {name: one.contestant for name, one in found.items()} | {NUMPY: Contestant(plain.step)}
    for one in contestants.values():
        for _ in range(SETTLE):
            if one.before is not None:
                one.before()
            one.step()
    times = take_turns(contestants, ROUNDS, TURN, 1.0 / RATE)
    rows = []
    figures: dict[str, Figures] = {name: one.figures() for name, one in times.items()}
    for name, figure in figures.items():
        tight, paced = (f"{figure[f'{kind}_p50']:.2f} / {figure[f'{kind}_p99']:.2f}" for kind in ("tight", "paced"))
        print(f"    {name:40} {tight:>16} {paced:>16} us", flush=True)
        rows.append({**row(name, figure["paced_p50"], "us", "", None), "figures": figure})
    for name, targets in TARGETS.items():
        for key, most in targets:
            value = figures[name][key]
            rows.append(row(name + NAMES[key], value, "us", f"<= {most:g}", value <= most))
    factor = figures[NUMPY]["tight_p50"] / figures[f"free body, {FEW} constraints"]["tight_p50"]
    rows.append(row(f"{NUMPY}, over the free body's time", factor, "", f">= {FACTOR:g}", factor >= FACTOR))
    survey, step, count = mujoco_contestants()
    for one in (survey, step):
        one.step()
    both = take_turns({"survey": survey, "step": step}, ROUNDS, min(TURN, SURVEYS), SURVEY_PERIOD)
    ratio = both["survey"].figures()["tight_p50"] / both["step"].figures()["tight_p50"]
    rows.append(row(f"survey of MuJoCo, {count} contacts, over its step", ratio, "", f"<= {SURVEY:g}", ratio <= SURVEY))
    memory = held_memory(found[f"free body, {FEW} constraints"], STEPS)
    rows.append(row(f"memory held by {STEPS:,} steps", memory, "B", f"<= {MEMORY}", memory <= MEMORY))
    return rows
