"""Benchmark of the contact methods: time of a step against the number of contacts, beside MuJoCo's on the same scene.

A step of ours is `Environment.step`: coal, Pinocchio, contacts, integration and energy balance. MuJoCo's is `mj_step`
with an elliptic cone. Both are called from Python. Scenes:

 - corner: a box held in a corner of two planes, 8 contacts;
 - feet: one body on 1 to 200 feet, so that the degrees of freedom stay 6;
 - impact: the same body striking the floor with all its feet at once, put back before every step, which is the most
   expensive step (methods that have no collisions are left out);
 - tower: boxes on top of each other, 4 contacts for each box; wall: boxes in bond, each on two others;
 - falling and scattered: boxes and balls that fall without any contact, and that lie on the floor, side by side.

All methods and simulators take turns, some steps each, so that other work of the machine affects all alike: ratios are
of medians over the same interval. Targets are of wall time. The processor time of the thread is shown beside it (its
measurement takes 0.3 to 1 us), because the 99th percentile of the wall time may be caused by other work of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin

from benchmarks.turns import Contestant, Figures, take_turns
from haptic_sim.contact.methods import Method
from haptic_sim.contact.response import ContactParameters
from haptic_sim.geometry.shapes import BoxParameters, Placed, PlaneParameters, SphereParameters
from haptic_sim.messages import ToolCommand
from haptic_sim.tool.environment import Environment
from haptic_sim.worlds.building import build
from haptic_sim.worlds.parameters import FreeBodyParameters, WorldParameters
from haptic_sim.worlds.world_setup import WorldSetup

RATE = 1000.0  # [Hz] of the simulated time, and of the steps once a millisecond
SETTLE = 300  # steps before any is measured
ROUNDS, TURN = 12, 50  # turns of each contestant, steps of a turn
FEET = (1, 2, 4, 8, 16, 32, 64, 128, 200)
TOWERS = (1, 2, 3, 4, 10, 20, 30)
FEW = 16  # contacts up to which the largest ratio to MuJoCo's step is shown
SCATTERED = (40, 1000)  # bodies: those that Pinocchio takes, and the most of a world
MANY = 3.0  # most over MuJoCo's step of scattered bodies
BOXES, IMPACTS = 1.2, 1.5  # most over MuJoCo's step: of towers and walls in every method but Lemke, and of impacts
IMPULSIVE = ("impulse_augmented", "frictional_impulses", "constraint, Gauss-Seidel", "hybrid")
HOPELESS = 5e3  # [us] a step; a method that takes longer is not tried with more contacts
Row = Callable[[str, float, str, str, bool | None], dict[str, Any]]

METHODS: dict[str, tuple[Method, dict[str, Any]]] = {
    "penalty": ("penalty", {}),
    "impulse_augmented": ("impulse_augmented", {}),
    "frictional_impulses": ("frictional_impulses", {}),
    "constraint, Gauss-Seidel": ("constraint", {"solver": "gauss_seidel"}),
    "constraint, Lemke": ("constraint", {"solver": "lemke"}),
    "hybrid": ("hybrid", {}),
}
LEMKE, GAUSS_SEIDEL, MUJOCO = "constraint, Lemke", "constraint, Gauss-Seidel", "MuJoCo"
ON_MANY = ("impulse_augmented", GAUSS_SEIDEL)  # methods that are measured on many bodies
MOST_LEMKE = ContactParameters(solver="lemke").most_lemke


@dataclass(frozen=True)
class Scene:
    """A world, what holds its tool, and its material.

    Attributes:
        contacts: how many it has once settled.
        contact: of `ContactParameters`.
        friction: coefficient, 0: none.
        impact: put the bodies back to where they start, from which they strike, before every step.
    """

    name: str
    world: WorldParameters
    contacts: int
    contact: Mapping[str, Any] = field(default_factory=dict)
    friction: float = 0.5
    wrench: tuple[float, ...] = (0.0,) * 6
    impact: bool = False

    def parameters(self, settings: Mapping[str, Any]) -> ContactParameters:
        """Contact parameters with the settings of a method."""
        friction = (
            {"model": "reset_integrator", "static": self.friction, "kinetic": self.friction}
            if self.friction
            else {"model": "none"}
        )
        return ContactParameters.model_validate({**self.contact, **settings, "friction": friction})


# Scenes


def _plane(normal: Sequence[float], offset: float = 0.0) -> dict[str, Any]:
    return {"joint": "fixed", "shapes": [{"type": "plane", "normal": list(normal), "offset": offset}]}


def corner(friction: float = 0.0) -> Scene:
    """The peg of the experiment corner_peg as a body in space, pressed into the corner."""
    size = [0.042, 0.021, 0.021]
    peg = {"joint": "free", "mass": 2.0, "inertia": [0.005] * 3, "shapes": [{"type": "box", "size": size}]}
    bodies = {
        "right_wall": _plane((-1, 0, 0), -0.5 * size[0]),
        "lower_wall": _plane((0, 1, 0), -0.5 * size[1]),
        "peg": peg,
    }
    world = WorldParameters.model_validate({"gravity": [0, 0, 0], "bodies": bodies, "tool": "peg"})
    name = "corner" + (" with friction" if friction else "")
    return Scene(name, world, 8, friction=friction, wrench=(0.32, -0.4, 0.0, 0.0, 0.0, 0.0))


def feet(count: int, impact: bool = False) -> Scene:
    """A body on round feet in a ring; its centre of mass is lower than theirs, so that it stands on one or two."""
    radius, low = 0.1, 0.05  # [m]
    ring = 0.2 if count > 1 else 0.0  # [m]
    turns = [2.0 * math.pi * k / count for k in range(count)]
    balls = [
        {"type": "sphere", "radius": radius, "position": [ring * math.cos(a), ring * math.sin(a), 0.0]} for a in turns
    ]
    body = {
        "joint": "free",
        "position": [0.0, 0.0, radius - (1e-4 if impact else 0.0)],
        "velocity": [0.1, 0.05, -0.5 if impact else 0.0, 0.1, 0.05, 0.0] if impact else [0.0] * 6,
        "mass": 1.0,
        "inertia": [0.01, 0.01, 0.015],
        "centre_of_mass": [0.0, 0.0, low - radius],
        "shapes": balls,
    }
    world = WorldParameters.model_validate({"bodies": {"floor": _plane((0, 0, 1)), "body": body}, "tool": "body"})
    contact = {"stiffness": 2e4 / count, "damping": 50.0 / count, "restitution": 0.3 if impact else 0.0}
    return Scene("impact" if impact else "feet", world, count, contact, impact=impact)


def _boxes(name: str, places: Sequence[tuple[float, float]], contacts: int) -> Scene:
    """Cubes at (x, height of the centre).

    They weigh a tenth of what they would: on penalties, a tower of 30 would buckle under its weight.
    """
    bodies: dict[str, Any] = {"floor": _plane((0, 0, 1))}
    for i, (x, z) in enumerate(places):
        cube = {"type": "box", "size": [SIDE] * 3}
        bodies[f"box_{i}"] = {"joint": "free", "position": [x, 0.0, z], "mass": 1.0, "shapes": [cube]}
    world = WorldParameters.model_validate({"gravity": [0, 0, -1], "bodies": bodies, "tool": f"box_{len(places) - 1}"})
    return Scene(name, world, contacts, {"stiffness": 5e4})


SIDE = 0.1  # [m] of a box


def tower(boxes: int) -> Scene:
    """Boxes on top of each other."""
    return _boxes("tower", [(0.0, SIDE * (i + 0.5)) for i in range(boxes)], 4 * boxes)


def wall(rows: Sequence[int] = (7, 6, 4, 3)) -> Scene:
    """Boxes in bond, with gaps between neighbours: 4 contacts with the floor or with each of the two below."""
    pitch = 1.2 * SIDE
    places = []
    begin = 0.0
    for level, count in enumerate(rows):
        places += [(begin + pitch * i, SIDE * (level + 0.5)) for i in range(count)]
        begin += 0.5 * pitch
    return _boxes("wall", places, 4 * rows[0] + 8 * sum(rows[1:]))


def scattered(count: int, falling: bool = False) -> Scene:
    """Boxes and balls in turn on a floor, side by side at random places, or high above it."""
    rng = np.random.default_rng(20264)
    side = math.ceil(math.sqrt(count))
    bodies: dict[str, Any] = {"floor": _plane((0, 0, 1))}
    for i in range(count):
        place = 3.0 * SIDE * np.array([i % side, i // side]) + rng.uniform(-0.5, 0.5, 2) * SIDE
        shape = {"type": "sphere", "radius": 0.5 * SIDE} if i % 2 else {"type": "box", "size": [SIDE] * 3}
        position = [*place.tolist(), 0.5 * SIDE + (20.0 if falling else 0.0)]
        bodies[f"body_{i}"] = {"joint": "free", "position": position, "mass": 1.0, "shapes": [shape]}
    world = WorldParameters.model_validate({"bodies": bodies, "tool": "body_0"})
    name = f"{count} bodies, {'falling' if falling else 'scattered'}"
    balls = count // 2
    return Scene(name, world, 0 if falling else 4 * (count - balls) + balls, {"stiffness": 5e4})


# Contestants


class Ours:
    """A world with one of our methods."""

    def __init__(self, scene: Scene, method: Method, settings: Mapping[str, Any]):
        contact = scene.parameters(settings)
        world = build_world(scene)
        self._environment = Environment(world, contact, method, "full", np.full(6, np.inf), RATE)
        self._body = self._environment._tool.body
        self._environment._tool.pushed = True  # to be put back is no work that the energy balance knows
        self._command, self._state = ToolCommand(), self._environment.tool_state()
        self._command.wrench[:] = scene.wrench
        self._start = world.q.copy(), world.v.copy()
        self._away = world.q.copy()
        self._away[2] += 1.0

    @property
    def contacts(self) -> int:
        """Contacts of the last step."""
        return self._state.contacts

    def step(self) -> None:
        """One step."""
        self._environment.step(self._command, self._state)

    def put_back(self) -> None:
        """Reset to the start, without contacts that are known from steps before."""
        body = self._body
        body.q[:], body.v[:] = self._away, 0.0
        body.refresh()
        self.step()
        body.q[:], body.v[:] = self._start
        body.refresh()


class MuJoCo:
    """The same world with MuJoCo."""

    def __init__(self, scene: Scene):
        import mujoco

        self._step = mujoco.mj_step
        self._model = mujoco.MjModel.from_xml_string(mjcf(scene))
        self._data = mujoco.MjData(self._model)
        model = build_world(scene).model
        for name, body in scene.world.bodies.items():
            if isinstance(body, FreeBodyParameters):
                # MuJoCo's velocity is that of the body's origin, and angular in the body's axes.
                R = body.pose.rotation
                linear, angular = np.array(body.velocity[:3]), np.array(body.velocity[3:])
                self._data.joint(name).qvel[:3] = linear - np.cross(angular, R @ _centre(model, name))
                self._data.joint(name).qvel[3:] = R.T @ angular
        self._start = self._data.qpos.copy(), self._data.qvel.copy()
        self._data.body(scene.world.tool).xfrc_applied[:] = scene.wrench

    @property
    def contacts(self) -> int:
        """Contacts of the last step."""
        return int(self._data.ncon)

    def step(self) -> None:
        """One step."""
        self._step(self._model, self._data)

    def put_back(self) -> None:
        """Reset to the start."""
        self._data.qpos[:], self._data.qvel[:] = self._start
        self._data.qacc_warmstart[:] = 0.0


def build_world(scene: Scene) -> WorldSetup:
    """The world of a scene."""
    return build(scene.world, Path(), friction=(scene.friction, scene.friction))


def mjcf(scene: Scene) -> str:
    """A scene of fixed planes and of free bodies made of boxes and balls, in MuJoCo's format."""
    model = build_world(scene).model
    root = ElementTree.Element("mujoco")
    gravity = _text(scene.world.gravity)
    ElementTree.SubElement(root, "option", timestep=repr(1.0 / RATE), cone="elliptic", gravity=gravity)
    default = ElementTree.SubElement(root, "default")
    ElementTree.SubElement(
        default, "geom", condim="3" if scene.friction else "1", friction=_text((scene.friction or 1.0, 0.0, 0.0))
    )
    ElementTree.SubElement(root, "size", memory="1G")
    top = ElementTree.SubElement(root, "worldbody")
    for name, body in scene.world.bodies.items():
        element = top
        if isinstance(body, FreeBodyParameters):
            element = ElementTree.SubElement(top, "body", {"name": name, **_pose(body)})
            ElementTree.SubElement(element, "freejoint", name=name)
            inertia = model.inertias[model.getJointId(name)]
            centre = _centre(model, name)
            moments = inertia.inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
            ElementTree.SubElement(
                element, "inertial", mass=repr(inertia.mass), pos=_text(centre), fullinertia=_text(moments)
            )
        for shape in body.shapes:
            ElementTree.SubElement(element, "geom", _geom(shape))
    return ElementTree.tostring(root, encoding="unicode")


def _centre(model: pin.Model, name: str) -> np.ndarray:
    """Centre of mass of a free body in its axes; there is its joint."""
    return model.frames[model.getFrameId(name, pin.FrameType.BODY)].placement.inverse().translation


def _geom(shape: Any) -> dict[str, str]:
    if isinstance(shape, PlaneParameters):
        normal = np.array(shape.normal) / np.linalg.norm(shape.normal)
        return {"type": "plane", "size": "0 0 1", "pos": _text(shape.offset * normal), "zaxis": _text(normal)}
    if isinstance(shape, BoxParameters):
        return {"type": "box", "size": _text(0.5 * np.array(shape.size)), **_pose(shape)}
    if isinstance(shape, SphereParameters):
        return {"type": "sphere", "size": repr(shape.radius), **_pose(shape)}
    raise ValueError(f"shape {shape.type}: is in none of the scenes")


def _pose(placed: Placed) -> dict[str, str]:
    R = placed.pose.rotation
    return {"pos": _text(placed.position), "xyaxes": _text((*R[:, 0], *R[:, 1]))}


def _text(values: Iterable[float]) -> str:
    return " ".join(repr(float(x)) for x in values)


# Measuring


def race(scene: Scene, names: Iterable[str]) -> dict[str, Figures]:
    """Measure methods by name, and MuJoCo, on a scene."""
    runners: dict[str, Ours | MuJoCo] = {name: Ours(scene, *METHODS[name]) for name in names}
    runners[MUJOCO] = MuJoCo(scene)
    for runner in runners.values():
        for _ in range(3 if scene.impact else SETTLE):
            if scene.impact:
                runner.put_back()
            runner.step()
    contestants = {
        name: Contestant(runner.step, runner.put_back if scene.impact else None) for name, runner in runners.items()
    }
    times = take_turns(contestants, ROUNDS, TURN, None if scene.impact else 1.0 / RATE)
    figures: dict[str, Figures] = {
        name: {"contacts": runners[name].contacts, **one.figures()} for name, one in times.items()
    }
    for one in figures.values():
        for kind in ("tight", "paced"):
            if f"{kind}_p50" in one:
                one[f"{kind}_over_mujoco"] = one[f"{kind}_p50"] / figures[MUJOCO][f"{kind}_p50"]
    return figures


def growth(contacts: Sequence[float], cost: Sequence[float]) -> float:
    """Exponent by which the cost grows with the contacts, fitted over the upper half of the (logarithmic) range."""
    x, y = np.log(np.array(contacts, float)), np.log(np.array(cost, float))
    upper = x >= 0.5 * (x[0] + x[-1])
    return float(np.polyfit(x[upper], y[upper], 1)[0])


# Table


class Table:
    """Figures of contestants on scenes, as they come."""

    def __init__(self, row: Row):
        self._row = row
        self.figures: dict[tuple[str, int, str], Figures] = {}  # by scene, contacts and contestant
        self.rows: list[dict[str, Any]] = []

    def measure(self, scene: Scene, names: Iterable[str] = METHODS) -> None:
        """Measure a scene, without methods that have become hopeless with fewer contacts."""
        names = [name for name in names if self._is_feasible(scene, name)]
        for name, one in race(scene, names).items():
            self.figures[scene.name, scene.contacts, name] = one
            _notify(scene, name, one)
            title = f"{scene.name}, {scene.contacts} contacts: {name}"
            self.rows.append({**self._row(title, one["tight_p50"], "us", "", None), "figures": one})

    def _is_feasible(self, scene: Scene, name: str) -> bool:
        if name == LEMKE and scene.contacts > MOST_LEMKE:
            return False
        return all(cost < HOPELESS for _, cost in self.costs(scene.name, name))

    def costs(self, scene: str, name: str, figure: str = "tight_p50") -> list[tuple[int, float]]:
        """Contacts and a figure of a contestant, with contacts ascending."""
        found = self.figures.items()
        return sorted((n, one[figure]) for (s, n, m), one in found if s == scene and m == name and figure in one)

    def limit(self, name: str, value: float, unit: str, most: float | None = None) -> None:
        """A row of the table with the most that is aimed at, if something is."""
        target = "" if most is None else f"<= {most:g}"
        self.rows.append(self._row(name, value, unit, target, None if most is None else value <= most))


def measure(row: Row) -> list[dict[str, Any]]:
    """Run all of it; `row` makes a line of the table from name, value, unit, target and whether that is met."""
    table = Table(row)
    for friction in (0.0, 0.5):
        table.measure(corner(friction))
    for count in FEET:
        table.measure(feet(count))
    for count in FEET:
        table.measure(feet(count, impact=True), IMPULSIVE)
    for boxes in TOWERS:
        table.measure(tower(boxes))
    table.measure(wall())
    for count in SCATTERED:
        for falling in (True, False):
            table.measure(scattered(count, falling), ON_MANY)
    _conclude(table)
    return table.rows


def _conclude(table: Table) -> None:
    """The rows with targets."""
    peg = table.figures["corner", 8, "impulse_augmented"]
    table.limit("corner, 8 contacts: impulse_augmented", peg["tight_p50"], "us", 40.0)
    for (scene, contacts, name), one in table.figures.items():
        if name == GAUSS_SEIDEL and (scene, contacts) in (("tower", 80), ("wall", 132)):
            table.limit(f"20 boxes, {contacts} contacts: constraint", one["tight_p50"], "us", 1000.0)
    for name in METHODS:
        for kind, title in (("tight", "tight"), ("paced", "1 kHz")):
            ratios = [
                one[f"{kind}_over_mujoco"]
                for (scene, contacts, method), one in table.figures.items()
                if method == name and contacts <= FEW and scene != "impact"
            ]
            table.limit(f"{name}: most over MuJoCo's up to {FEW} contacts, {title}", max(ratios), "")
            at_few = table.figures["feet", FEW, name][f"{kind}_over_mujoco"]
            table.limit(f"{name}: over MuJoCo's on {FEW} feet, {title}", at_few, "")
        boxes = _worst(table, name, ("tower", "wall"))
        table.limit(f"{name}: most over MuJoCo's of towers and walls", boxes, "", None if name == LEMKE else BOXES)
        if name in ON_MANY:
            many = _worst(table, name, [f"{SCATTERED[-1]} bodies, {state}" for state in ("falling", "scattered")])
            table.limit(f"{name}: most over MuJoCo's of {SCATTERED[-1]} bodies", many, "", MANY)
        if name in IMPULSIVE:
            table.limit(f"{name}: most over MuJoCo's of impacts", _worst(table, name, ("impact",)), "", IMPACTS)
    for scene, names in (("feet", tuple(METHODS)), ("impact", IMPULSIVE), ("tower", tuple(METHODS))):
        for name in names:
            costs = table.costs(scene, name)
            linear = scene != "tower" and name != LEMKE  # the tower's degrees of freedom grow too
            exponent = growth(*zip(*costs, strict=True))
            table.limit(f"{name}: cost on {scene} grows with contacts to the", exponent, "", 1.1 if linear else None)
    lemke, sweeps = table.costs("feet", LEMKE), dict(table.costs("feet", GAUSS_SEIDEL))
    table.limit(f"{LEMKE}: at most twice Gauss-Seidel's", _last(n for n, x in lemke if x <= 2 * sweeps[n]), "contacts")
    table.limit(f"{LEMKE}: a step in a millisecond", _last(n for n, x in lemke if x <= 1000.0), "contacts")


def _worst(table: Table, name: str, scenes: Sequence[str]) -> float:
    """Largest ratio of a method's step to MuJoCo's on some scenes."""
    found = table.figures.items()
    return max(one["tight_over_mujoco"] for (scene, _, method), one in found if scene in scenes and method == name)


def _last(values: Iterable[int]) -> int:
    return max(values, default=0)


def _notify(scene: Scene, name: str, one: Figures) -> None:
    def times(kind: str) -> str:
        if f"{kind}_p50" not in one:
            return ""
        wall, cpu = (f"{one[kind + what + '_p50']:.1f} / {one[kind + what + '_p99']:.1f}" for what in ("", "_cpu"))
        return f"  {wall:>18} (CPU {cpu:>16}) us {one[kind + '_over_mujoco']:5.1f}"

    print(
        f"    {scene.name:20} {scene.contacts:4} {name:25}{times('tight')}{times('paced')}  {one['contacts']:g} touch",
        flush=True,
    )
