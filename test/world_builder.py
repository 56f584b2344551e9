"""Worlds in motion for tests: bodies as short dicts, a whole environment around them, and what to read off it.

Momentum and energy are computed here from q, v and the inertias alone, not by the code under test.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio as pin

from haptic_sim.contact.methods import build_response
from haptic_sim.contact.response import ContactParameters
from haptic_sim.contact_rows import ContactRows
from haptic_sim.dynamics.multibody import Multibody, free_joint
from haptic_sim.messages import ToolCommand
from haptic_sim.tool.environment import Environment
from haptic_sim.worlds.loads import carry
from haptic_sim.worlds.parameters import WorldParameters
from haptic_sim.worlds.scenes import build_world
from haptic_sim.worlds.world_setup import WorldSetup

G = 9.81  # [m/s^2]
METHODS = ("penalty", "impulse_augmented", "frictional_impulses", "constraint", "hybrid")
RIGID = ("constraint", "hybrid")
IMPULSIVE = ("impulse_augmented", "frictional_impulses", "constraint", "hybrid")
UNLIMITED = np.full(6, np.inf)
DEFAULT: dict[str, Any] = {"penalty": "consistent", "friction": {}}  # of `ContactParameters`, as far as OLD differs
OLD: dict[str, Any] = {"penalty": "explicit", "friction": {"model": "none"}}  # on which the numbers of tests rest

Body = dict[str, Any]


def thesis_material(**keys: Any) -> ContactParameters:
    """Contacts by the law of THESIS (4.5), clamped, and without friction, but for what `keys` say."""
    return ContactParameters.model_validate({**OLD, **keys})


def plane(normal: Any = (0.0, 0.0, 1.0), offset: float = 0.0, **more: Any) -> Body:
    """A fixed half-space: solid where normal . p < offset."""
    return {"joint": "fixed", "shapes": [{"type": "plane", "normal": list(normal), "offset": offset}], **more}


def ball(position: Any, velocity: Any = (0.0,) * 6, radius: float = 0.05, mass: float = 1.0, **more: Any) -> Body:
    """A free uniform ball; `velocity` of three numbers is without spin."""
    shape = {"type": "sphere", "radius": radius}
    return _free(position, velocity, mass=mass, shapes=[shape], **more)


def box(position: Any, size: Any, velocity: Any = (0.0,) * 6, mass: float = 1.0, **more: Any) -> Body:
    """A free uniform box."""
    return _free(position, velocity, mass=mass, shapes=[{"type": "box", "size": list(size)}], **more)


def _free(position: Any, velocity: Any, **more: Any) -> Body:
    velocity = [float(x) for x in velocity]
    return {"joint": "free", "position": [float(x) for x in position], "velocity": (velocity + [0.0] * 6)[:6], **more}


def make_world(bodies: dict[str, Body], material: ContactParameters | None = None, **more: Any) -> WorldSetup:
    """A world of `bodies`; the last one that moves is held, if no `tool` is named; no gravity if none is given."""
    moving = [name for name, body in bodies.items() if body["joint"] != "fixed"]
    description = {"type": "world", "gravity": [0, 0, 0], "tool": moving[-1], "bodies": bodies, **more}
    return build_world(None, WorldParameters.model_validate(description), material or thesis_material())  # type: ignore[arg-type]


def random_drop(
    rng: np.random.Generator, count: int, masses: tuple[float, float], kinds: tuple[str, ...] = (), spread: float = 0.2
) -> dict[str, Body]:
    """Bodies of random shapes of 3 to 20 cm, one above the other over a floor, which move and turn.

    Args:
        rng: what is drawn from.
        count: number of bodies.
        masses: of bodies, smallest and largest; their logarithm is uniform [kg].
        kinds: of shapes that are drawn from: all of box, cylinder, capsule and sphere, if there are none.
        spread: how far apart they are sideways, as a multiple of their size.
    """
    size = float(np.exp(rng.uniform(np.log(0.03), np.log(0.2))))
    shapes: dict[str, tuple[dict[str, Any], float]] = {
        "box": ({"type": "box", "size": [size, size, 0.6 * size]}, 0.77 * size),
        "cylinder": ({"type": "cylinder", "radius": 0.5 * size, "length": 0.6 * size}, 0.6 * size),
        "capsule": ({"type": "capsule", "radius": 0.4 * size, "length": 0.6 * size}, 0.7 * size),
        "sphere": ({"type": "sphere", "radius": 0.5 * size}, 0.5 * size),
    }
    bodies, z = {"floor": plane()}, 0.0
    for i in range(count):
        shape, reach = shapes[str(rng.choice(kinds or tuple(shapes)))]
        z += reach + float(rng.uniform(0.02, 0.3))
        bodies[f"body{i}"] = _free(
            [*(spread * size * rng.random(2)).tolist(), z],
            [*rng.uniform(-1, 1, 3).tolist(), *rng.uniform(-5, 5, 3).tolist()],
            mass=float(np.exp(rng.uniform(*np.log(masses)))),
            rotation=rng.uniform(-3, 3, 3).tolist(),
            shapes=[shape],
        )
        z += reach
    return bodies


class Simulation:
    """An environment at work.

    Args:
        bodies: by name.
        method: of contact.
        rate: steps per second.
        contact: what differs from the law of THESIS without friction, `OLD`.
        carried: contacts carry the bodies, as in an experiment, where `contact` says nothing of their stiffness.
        more: of WorldParameters: gravity, tool, planar, ignore, allowed_overlap.

    Attributes:
        state: after the last step; q and v are in the order of the model.
        touched: steps with contacts so far.
    """

    def __init__(
        self,
        bodies: dict[str, Body],
        method: Any = "constraint",
        rate: float = 1000.0,
        contact: dict[str, Any] | None = None,
        *,
        carried: bool = False,
        **more: Any,
    ):
        self.material = thesis_material(**(contact or {}))
        self.world = make_world(bodies, self.material, **more)
        if carried:
            self.material = carry(self.material, self.world, rate, rigid=method in ("constraint", "hybrid"))
        self.environment = Environment(self.world, self.material, method, "full", UNLIMITED, rate)
        self.tool = self.environment._tool  # to look into what contacts do
        self.period, self.touched = 1.0 / rate, 0
        self.command, self.state = ToolCommand(), self.environment.tool_state()
        self.model, self._data = self.world.model, self.world.model.createData()

    def step(self, count: int = 1, wrench: Any = None) -> Simulation:
        """Go on for some steps under a wrench at the hand."""
        if wrench is not None:
            self.command.wrench[:] = wrench
        for _ in range(count):
            self.command.stamp(self.state.tick + 1, 0)
            self.environment.step(self.command, self.state)
            self.touched += self.state.contacts > 0
        return self

    @property
    def impulses(self) -> np.ndarray:
        """Impulses of the last step along (normal, tangent 1, tangent 2) [N s], (contacts in rows, 3)."""
        return self.tool.contact.impulses.p[: self.tool.rows.count]

    def joint(self, name: str) -> int:
        return self.world.body_names.index(name)

    def q(self, name: str) -> np.ndarray:
        """Coordinates of a body's joint."""
        joint = self.joint(name)
        first = self.model.idx_qs[joint]
        return np.array(self.state.q[first : first + self.model.nqs[joint]])

    def v(self, name: str) -> np.ndarray:
        """Velocities of a body's joint; those of a free body: of its centre of mass and, in its axes, angular."""
        joint = self.joint(name)
        first = self.model.idx_vs[joint]
        return np.array(self.state.v[first : first + self.model.nvs[joint]])

    def spin(self, name: str) -> np.ndarray:
        """Angular velocity of a free body in world axes [rad/s]."""
        q = self.q(name)
        return pin.Quaternion(q[3:]).toRotationMatrix() @ self.v(name)[3:]

    def kinetic_energy(self) -> float:
        return float(pin.computeKineticEnergy(self.model, self._data, np.array(self.state.q), np.array(self.state.v)))

    def potential_energy(self) -> float:
        return float(pin.computePotentialEnergy(self.model, self._data, np.array(self.state.q)))

    def energy(self) -> float:
        """Kinetic and potential [J]."""
        return self.kinetic_energy() + self.potential_energy()

    def momentum(self) -> tuple[np.ndarray, np.ndarray]:
        """Linear [N s] and angular momentum about the world's origin [N m s] of everything that moves."""
        model, data = self.model, self._data
        pin.forwardKinematics(model, data, np.array(self.state.q), np.array(self.state.v))
        linear, angular = np.zeros(3), np.zeros(3)
        for joint in range(1, model.njoints):
            inertia, X_WJ, v_J = model.inertias[joint], data.oMi[joint], data.v[joint]
            velocity = X_WJ.rotation @ (v_J.linear + np.cross(v_J.angular, inertia.lever))
            centre = X_WJ.act(inertia.lever)
            turning = X_WJ.rotation @ inertia.inertia @ v_J.angular
            linear += inertia.mass * velocity
            angular += inertia.mass * np.cross(centre, velocity) + turning
        return linear, angular


def turned(bodies: dict[str, Body], X: pin.SE3) -> dict[str, Body]:
    """The same bodies in a world that is written in other axes: everything is moved by X.

    For fixed bodies of planes, and for free ones.
    """
    result = {}
    for name, body in bodies.items():
        changed = dict(body)
        here = pin.SE3(
            pin.rpy.rpyToMatrix(*body.get("rotation", (0, 0, 0))), np.array(body.get("position", (0, 0, 0)), float)
        )
        there = X * here
        changed["position"] = there.translation.tolist()
        changed["rotation"] = pin.rpy.matrixToRpy(there.rotation).tolist()
        if "velocity" in body:
            velocity = np.array(body["velocity"], float)
            changed["velocity"] = [*(X.rotation @ velocity[:3]), *(X.rotation @ velocity[3:])]
        result[name] = changed
    return result


class Response:
    """A contact method for hand-made rows on a body, with the material of each row as the rows say."""

    def __init__(self, body: Multibody, method: Any, rendering: Any = "full", limit: Any = UNLIMITED, **material: Any):
        self.parameters = thesis_material(**material)
        self.body = body
        self.method = build_response(method, body, self.parameters, rendering, np.array(limit, float), 256)

    def respond(self, rows: ContactRows, period: float = 1e-3, external: np.ndarray | None = None) -> np.ndarray:
        """What the contacts do to u, (nv,)."""
        external = np.zeros(self.body.nv) if external is None else external
        self.method.respond(rows, self.body, external, period)
        return np.array(self.method.du)

    def dense(self, rows: ContactRows) -> np.ndarray:
        """W of the last response as a matrix (3 contacts, nv), rows normal, tangent 1, tangent 2 of each contact."""
        scaled, W = self.method.scaled, np.zeros((3 * rows.count, self.body.nv))
        for i in range(rows.count):
            for side in range(2):
                tree = scaled.tree[i, side]
                if tree >= 0:
                    first, size = scaled.start[tree], scaled.size[tree]
                    W[3 * i : 3 * i + 3, first : first + size] += scaled.W[i, :, side, :size]
        return W

    def impulses(self, rows: ContactRows) -> np.ndarray:
        """Of the last response, (contacts, 3)."""
        return np.array(self.method.impulses.p[: rows.count])


def copy_rows(rows: ContactRows, order: Any) -> ContactRows:
    """The same contacts in another order, in rows of their own."""
    result = ContactRows(rows.capacity)
    result.count = len(order)
    for to, of in zip(result.arrays, rows.arrays, strict=True):
        to[: len(order)] = of[list(order)]
    return result


def some_bodies(rng: np.random.Generator, count: int, speed: float = 1.0) -> Multibody:
    """Free bodies at the origin and around it, for hand-made contacts."""
    model = pin.Model()
    model.gravity.linear[:] = 0.0
    for i in range(count):
        joint = model.addJoint(0, free_joint(), pin.SE3.Identity(), f"body{i}")
        sides = rng.uniform(0.01, 0.1, 3)
        moments = np.diag([sides[1] + sides[2], sides[0] + sides[2], sides[0] + sides[1]])  # of a possible body
        model.appendBodyToJoint(joint, pin.Inertia(rng.uniform(0.5, 2.0), np.zeros(3), moments), pin.SE3.Identity())
    hand = model.addFrame(pin.Frame("hand", 1, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    q = pin.integrate(model, pin.neutral(model), 0.3 * rng.normal(size=model.nv))
    return Multibody(model, hand, q, speed * rng.normal(size=model.nv))


def some_rows(rng: np.random.Generator, bodies: int, count: int, separation: float = -1e-4) -> ContactRows:
    """Contacts of random bodies with each other and, for the most part, with what is fixed."""
    rows = ContactRows()
    rows.count = count
    for i in range(count):
        a = int(rng.integers(1, bodies + 1)) if rng.random() < 0.3 else 0
        a = a if bodies > 1 else 0
        b = int(rng.choice([k for k in range(1, bodies + 1) if k != a]))
        rows.id[i], rows.wall[i], rows.body[i] = i, i, (a, b)
        n = rng.normal(size=3)
        rows.normal[i] = n / np.linalg.norm(n)
        rows.point[i] = 0.3 * rng.normal(size=3)
        rows.separation[i] = separation
        rows.restitution[i] = rng.uniform()
        kinetic = rng.uniform(0.0, 0.5)
        rows.friction[i] = kinetic + rng.uniform(0.0, 0.2), kinetic
    return rows
