"""Scenes of one tool under exact constraints (FAULRING III, YUN V), as a few parameters each, and their solvers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from haptic_sim.constraints import sources
from haptic_sim.constraints.description import IDENTITY, DescriptionError
from haptic_sim.constraints.drawing import SLENDER, Circle, Drawing
from haptic_sim.constraints.equations import Spring
from haptic_sim.constraints.errors import ConstraintError
from haptic_sim.constraints.projection import ProjectionSolver
from haptic_sim.constraints.stabilised import StabilisedSolver
from haptic_sim.constraints.system import System
from haptic_sim.parameters import ParameterError, Parameters, quantity
from haptic_sim.rotations import from_roll_pitch_yaw
from haptic_sim.scenes import SceneParameters

Positive = Annotated[float, Field(gt=0.0, le=1e3)]
Three = tuple[float, float, float]
Six = tuple[float, float, float, float, float, float]


class ConstraintParameters(Parameters):
    """Method that keeps the exact constraints of a tool, and its variant."""

    solver: Literal["projection", "stabilised"] = quantity(
        "projection",
        description="Method that keeps the tool on its constraints: projection returns to the manifold (FAULRING), "
        "stabilised decays towards it from any start (YUN)",
    )
    gamma: float = quantity(
        10.0,
        unit="1/s",
        description="Rate at which the error of the constraints decays with `stabilised`",
        ge=0.0,
        le=1e4,
    )
    integrator: Literal["rk4", "explicit"] = quantity(
        "rk4", description="Integrator of `projection`; explicit is FAULRING's algorithm 1 as corrected"
    )
    parametrised: bool = quantity(
        True, description="Whether `explicit` integrates the independent coordinates of the source's parametrisation"
    )
    rolling: Literal["true", "printed"] = quantity(
        "true",
        description="Rolling constraint of the scene rolling_spheres: true (without slip) or printed (YUN 44-45)",
    )

    @model_validator(mode="before")
    @classmethod
    def _yaml_reads_true_as_truth(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("rolling"), bool):
            return data | {"rolling": str(data["rolling"]).lower()}
        return data

    @model_validator(mode="after")
    def _one_integrator(self) -> ConstraintParameters:
        if self.solver == "stabilised" and self.integrator != "rk4":
            raise ValueError(f".integrator = {self.integrator}: solver=stabilised has rk4 only")
        return self


@dataclass(frozen=True)
class ConstrainedSetup:
    """A tool under constraints at its start.

    Attributes:
        system: system and constraints.
        q, v: initial state; may be off the constraints, where the solver allows it.
        disturbance: what is added to q at `disturbance_time` [s] by external means.
    """

    system: System
    q: np.ndarray
    v: np.ndarray
    disturbance: np.ndarray | None = None
    disturbance_time: float = 0.0

    @classmethod
    def of(cls, formulas: dict[str, Any], q: Sequence[float], v: Sequence[float], **given: Any) -> ConstrainedSetup:
        """One of the `sources`, with the values of its parameters in `given`, and what else `from_formulas` takes."""
        names = formulas["coordinates"]
        start = dict(zip(names, map(float, q), strict=True))
        start |= {f"{name}_dot": float(rate) for name, rate in zip(names, v, strict=True)}
        system = System.from_formulas(**formulas, start=start, **given)
        return cls(system, system.q, system.v)

    @property
    def world(self) -> None:
        """The virtual world: there is none."""
        return None

    @property
    def planar(self) -> bool:
        """Whether the held body moves in the plane z = 0."""
        return self.system.planar

    @property
    def driven(self) -> bool:
        """Whether constraints prescribe a motion, which supplies energy."""
        return self.system.driven


class Picture(NamedTuple):
    """Appearance of a tool without a world. Body 0 is the tool: the hand point, with the axes of the held body.

    Attributes:
        names: of the bodies.
        shapes: body, kind, and numbers of each shape about the origin of its body [m]: `cylinder` about z (radius, half
            of its height), `ball` (radius), `plane` across z, `ring` about z (radius, thickness), `rod` along x (from,
            to, radius).
        pivot: position of body 1, whose angle about z is the first coordinate [m], (3,); None: there is no such body.
        fixed: poses of the last bodies, which do not move (7,).
    """

    names: tuple[str, ...] = ("tool",)
    shapes: tuple[tuple[int, str, tuple[float, ...]], ...] = ()
    pivot: tuple[float, ...] | None = None
    fixed: tuple[tuple[float, ...], ...] = ()


_ORIGIN = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
_THICK = 0.15  # thickness of a disk that has none, per its radius


class ConstrainedParameters(SceneParameters):
    """Parameters of a tool under exact constraints alone."""

    ENGINE: ClassVar[str] = "haptics"
    CONSTRAINED: ClassVar[bool] = True

    def picture(self) -> Picture:
        """Appearance of the tool in a view."""
        return Picture()

    def drawn(self, system: System) -> Drawing | None:
        """Drawing by formulas of the system that this is the scene of; None: nothing is drawn."""
        return None


class _DiskParameters(ConstrainedParameters):
    """The rigid body of FAULRING III-A and B."""

    mass: float = quantity(0.25, unit="kg", description="Mass of the disk", gt=0.0, le=1e3)
    inertia: tuple[Positive, Positive, Positive] = quantity(
        (0.0025, 0.0025, 0.0025), unit="kg m^2", description="Principal moments of the disk about its centre"
    )
    damping: float = quantity(1.0, unit="N s/m", description="Damping of the disk's translation", ge=0.0, le=1e6)
    rotational_damping: float = quantity(
        0.1, unit="N m s/rad", description="Damping of the disk's rotation", ge=0.0, le=1e6
    )
    gravity: Three = quantity((0.0, 0.0, 0.0), unit="m/s^2", description="Acceleration of free fall")

    @model_validator(mode="after")
    def _inertia_of_a_body(self) -> Any:
        largest, total = max(self.inertia), sum(self.inertia)
        if not 2.0 * largest <= total * (1.0 + 1e-9):
            raise ValueError(f".inertia = {list(self.inertia)} kg m^2: none must be above the sum of the others")
        return self

    def values(self) -> dict[str, float]:
        """Values of the parameters of `sources.DISK`."""
        keys = ("mass", "J1", "J2", "J3", "damping", "rotational_damping", "g1", "g2", "g3")
        return dict(
            zip(keys, (self.mass, *self.inertia, self.damping, self.rotational_damping, *self.gravity), strict=True)
        )


class RollingDiskParameters(_DiskParameters):
    """An upright disk that rolls on the plane x3 = 0 without slip (FAULRING III-A)."""

    type: Literal["rolling_disk"] = "rolling_disk"
    radius: float = quantity(0.03, unit="m", description="Radius of the disk", gt=0.0, le=10.0)
    start: tuple[float, float, float, float] = quantity(
        (0.0, 0.0, 0.3, 0.0),
        unit="m, rad",
        description="Position x1, x2, heading x4 and spin x5 of the disk at the start",
    )
    velocity: Six = quantity(
        (0.0,) * 6, unit="m/s, rad/s", description="Rates of the disk's coordinates x1 to x6 at the start"
    )

    def setup(self, constraint: ConstraintParameters) -> ConstrainedSetup:
        """The system of this scene, with its configuration and velocity at the start [m, rad, m/s, rad/s]."""
        x1, x2, x4, x5 = self.start
        return ConstrainedSetup.of(
            sources.ROLLING_DISK,
            (x1, x2, self.radius, x4, x5, 0.5 * math.pi),
            self.velocity,
            parameters=self.values() | {"radius": self.radius},
            parametrisation={
                "start": {"x1": x1, "x2": x2, "x4": x4, "x5": x5},
                "coordinates": sources.ROLLING_DISK_PLACED,
            },
        )

    def picture(self) -> Picture:
        """Appearance of the disk on the ground."""
        disk = (self.radius, 0.5 * _THICK * self.radius)
        return Picture(("tool", "ground"), ((0, "cylinder", disk), (1, "plane", ())), fixed=(_ORIGIN,))


class DiskOnSphereParameters(_DiskParameters):
    """A disk whose centre slides on a sphere, its axis along the normal (FAULRING III-B, corrected)."""

    type: Literal["disk_on_sphere"] = "disk_on_sphere"
    radius: float = quantity(0.05, unit="m", description="Radius of the sphere", gt=0.0, le=10.0)
    centre: Three = quantity((0.0, 0.0, 0.0), unit="m", description="Centre of the sphere")
    start: Three = quantity((0.3, 0.2, 0.9), unit="rad", description="Angles x4, x5, x6 of the disk at the start")
    velocity: Six = quantity(
        (0.0,) * 6, unit="m/s, rad/s", description="Rates of the disk's coordinates x1 to x6 at the start"
    )

    def setup(self, constraint: ConstraintParameters) -> ConstrainedSetup:
        """The system of this scene, with its configuration and velocity at the start [m, rad, m/s, rad/s]."""
        x4, x5, x6 = self.start
        axis = np.array([math.sin(x4) * math.sin(x6), -math.cos(x4) * math.sin(x6), math.cos(x6)])
        centre = dict(zip(("c1", "c2", "c3"), self.centre, strict=True))
        return ConstrainedSetup.of(
            sources.DISK_ON_SPHERE,
            (*(np.array(self.centre) + self.radius * axis), x4, x5, x6),
            self.velocity,
            parameters=self.values() | {"radius": self.radius} | centre,
            parametrisation={
                "start": {"x4": x4, "x5": x5, "x6": x6},
                "coordinates": sources.DISK_ON_SPHERE_PLACED,
            },
        )

    def picture(self) -> Picture:
        """Appearance of the disk on the sphere."""
        radius = 0.4 * self.radius
        shapes = (0, "cylinder", (radius, 0.5 * _THICK * radius)), (1, "ball", (self.radius,))
        return Picture(("tool", "sphere"), shapes, fixed=((*self.centre, 0.0, 0.0, 0.0, 1.0),))


class TwoLinkCircleParameters(ConstrainedParameters):
    """Two uniform links whose end point stays on a circle (FAULRING III-C)."""

    type: Literal["two_link_circle"] = "two_link_circle"
    length: float = quantity(0.15, unit="m", description="Length of each link", gt=0.0, le=10.0)
    mass: float = quantity(2.0, unit="kg", description="Mass of each link", gt=0.0, le=1e3)
    damping: float = quantity(0.01, unit="N m s/rad", description="Damping of each joint", ge=0.0, le=1e6)
    base: tuple[float, float] = quantity((-0.21, 0.0), unit="m", description="Position of the pivot of link 1")
    radius: float = quantity(0.05, unit="m", description="Radius of the end point's circle", gt=0.0, le=10.0)
    centre: tuple[float, float] = quantity((0.0, 0.0), unit="m", description="Centre of the end point's circle")
    start: float = quantity(0.0, unit="rad", description="Angle of the end point on the circle at the start")
    elbow: Literal["down", "up"] = quantity("down", description="Bend of the elbow at the start; down has q2 < 0")
    velocity: tuple[float, float] = quantity((0.0, 0.0), unit="rad/s", description="Rates of the joints at the start")

    def setup(self, constraint: ConstraintParameters) -> ConstrainedSetup:
        """The system of this scene, with its configuration and velocity at the start [m, rad, m/s, rad/s]."""
        x = self.centre[0] + self.radius * math.cos(self.start) - self.base[0]
        y = self.centre[1] + self.radius * math.sin(self.start) - self.base[1]
        distance = math.hypot(x, y)
        if not 0.0 < distance < 2.0 * self.length:
            raise ParameterError(
                [
                    f"scene.start = {self.start:g} rad: the end point is {distance:.6g} m from scene.base: must be "
                    f"between 0 and {2.0 * self.length:g} m, the length of the links"
                ]
            )
        bend = 2.0 * math.acos(0.5 * distance / self.length) * (-1.0 if self.elbow == "down" else 1.0)
        values = {
            "length": self.length,
            "mass": self.mass,
            "damping": self.damping,
            "bx": self.base[0],
            "by": self.base[1],
            "c1": self.centre[0],
            "c2": self.centre[1],
            "radius": self.radius,
            "elbow": math.copysign(1.0, bend),
        }
        return ConstrainedSetup.of(
            sources.TWO_LINK_CIRCLE,
            (math.atan2(y, x) - 0.5 * bend, bend),
            self.velocity,
            parameters=values,
            parametrisation={"start": {"z": self.start}, "coordinates": sources.TWO_LINK_CIRCLE_PLACED},
        )

    def picture(self) -> Picture:
        """Appearance of the arm and the circle; the tool is the end of link 2, with the axes of that link."""
        L, r = self.length, SLENDER * self.length
        shapes = (0, "rod", (0.0, -L, r)), (1, "rod", (0.0, L, r)), (2, "ring", (self.radius, 0.3 * r))
        circle = (*self.centre, 0.0, 0.0, 0.0, 0.0, 1.0)
        return Picture(("tool", "link 1", "circle"), shapes, (*self.base, 0.0), (circle,))


class RollingSpheresParameters(ConstrainedParameters):
    """A sphere that rolls on a large fixed one (YUN V-A); a displacement of the large one breaks the contact."""

    ROLLING: ClassVar[bool] = True

    type: Literal["rolling_spheres"] = "rolling_spheres"
    large: float = quantity(0.55, unit="m", description="Radius of the large sphere, R", gt=0.0, le=100.0)
    small: float = quantity(0.05, unit="m", description="Radius of the small sphere, r", gt=0.0, le=100.0)
    mass: float = quantity(1.0, unit="kg", description="Mass of the small sphere", gt=0.0, le=1e3)
    start: Six = quantity(
        (0.65, 0.2, 0.1, 0.3, 0.9, 0.2),
        unit="m, rad",
        description="Distance of the centres, latitude below the equator, longitude, psi, theta, phi at the start",
    )
    velocity: Six = quantity(
        (0.0, 0.1, 0.2, 0.5, 0.3, 1.0),
        unit="m/s, rad/s",
        description="Rates of the six coordinates of `start`; `stabilised` takes the nearest that the constraints "
        "allow, `projection` only such",
    )
    disturbance: float = quantity(
        0.05, unit="m", description="Increase of the distance of the spheres when the large one is displaced"
    )
    disturbance_time: float = quantity(5.0, unit="s", description="Time at which the large sphere is displaced", ge=0.0)

    def setup(self, constraint: ConstraintParameters) -> ConstrainedSetup:
        """The system of this scene, with its configuration and velocity at the start [m, rad, m/s, rad/s]."""
        printed = constraint.rolling == "printed"
        setup = ConstrainedSetup.of(
            sources.ROLLING_SPHERES_PRINTED if printed else sources.ROLLING_SPHERES,
            self.start,
            self.velocity,
            parameters={"mass": self.mass, "small": self.small, "large": self.large},
        )
        if not self.disturbance:
            return setup
        jump = np.array([self.disturbance, 0.0, 0.0, 0.0, 0.0, 0.0])
        return replace(setup, disturbance=jump, disturbance_time=self.disturbance_time)

    def picture(self) -> Picture:
        """Appearance of the two spheres."""
        shapes = (0, "ball", (self.small,)), (1, "ball", (self.large,))
        return Picture(("tool", "large sphere"), shapes, fixed=(_ORIGIN,))


class TwoLinkClosedLoopParameters(ConstrainedParameters):
    """A hinged and a free link, joined by constraints, whose end stays on a circle about the pivot (YUN V-B)."""

    type: Literal["two_link_closed_loop"] = "two_link_closed_loop"
    L1: float = quantity(2.0, unit="m", description="Length of link 1", gt=0.0, le=100.0)
    Lc1: float = quantity(
        1.0, unit="m", description="Distance from the pivot to the centre of mass of link 1", ge=0.0, le=100.0
    )
    L2: float = quantity(1.0, unit="m", description="Length of link 2", gt=0.0, le=100.0)
    Lc2: float = quantity(
        0.5, unit="m", description="Distance from the joint to the centre of mass of link 2", gt=0.0, le=100.0
    )
    l3: float = quantity(
        2.5, unit="m", description="Radius of the end point's circle about the pivot", gt=0.0, le=100.0
    )
    m1: float = quantity(10.0, unit="kg", description="Mass of link 1", gt=0.0, le=1e6)
    m2: float = quantity(6.0, unit="kg", description="Mass of link 2", gt=0.0, le=1e6)
    I1: float = quantity(3.0, unit="kg m^2", description="Inertia of link 1", gt=0.0, le=1e6)
    I1_about: Literal["pivot", "centroid"] = quantity("pivot", description="Point that the inertia of link 1 is about")
    I2: float = quantity(2.0, unit="kg m^2", description="Inertia of link 2 about its centroid", gt=0.0, le=1e6)
    gravity: float = quantity(9.81, unit="m/s^2", description="Acceleration of free fall, against y", ge=0.0, le=1e3)
    start: tuple[float, float, float, float] = quantity(
        (0.3, 2.0, 1.2, 1.3),
        unit="rad, m, m, rad",
        description="Angle theta1 of link 1, centre x2, y2 and angle theta2 (absolute) of link 2 at the start",
    )
    velocity: tuple[float, float, float, float] = quantity(
        (0.0, 0.0, 0.0, 0.0),
        unit="rad/s, m/s, m/s, rad/s",
        description="Rates of the four coordinates of `start`; `stabilised` takes the nearest that the constraints "
        "allow, `projection` only such",
    )

    def setup(self, constraint: ConstraintParameters) -> ConstrainedSetup:
        """The system of this scene, with its configuration and velocity at the start [m, rad, m/s, rad/s]."""
        values = {name: getattr(self, name) for name in ("L1", "Lc1", "L2", "Lc2", "l3", "m1", "m2", "I1", "I2")}
        if self.I1_about == "centroid":  # errata 6: about the pivot m1 Lc1^2 is 10 already
            values["I1"] += self.m1 * self.Lc1**2
        values["gravity"] = self.gravity
        return ConstrainedSetup.of(sources.TWO_LINK_CLOSED_LOOP, self.start, self.velocity, parameters=values)

    def picture(self) -> Picture:
        """Appearance of the closed chain."""
        r = SLENDER * self.L2
        shapes = (
            (0, "rod", (-self.Lc2, self.L2 - self.Lc2, r)),
            (1, "rod", (0.0, self.L1, r)),
            (2, "ring", (self.l3, 0.3 * r)),
        )
        return Picture(("tool", "link 1", "circle"), shapes, (0.0, 0.0, 0.0), (_ORIGIN,))


class HandFormulas(Parameters):
    """The held frame in the world, as formulas of the coordinates."""

    position: tuple[str, str, str] = quantity(
        ("0", "0", "0"), unit="m", description="Formulas of the position of the hand point in the world"
    )
    rotation: tuple[tuple[str, str, str], tuple[str, str, str], tuple[str, str, str]] = quantity(
        IDENTITY, description="Rows of the rotation from the held frame to the world, as formulas"
    )
    stiffness: float = quantity(
        0.0, unit="N/m", description="Stiffness of a spring from the hand point to `rest`", ge=0.0, le=1e9
    )
    rotational_stiffness: float = quantity(
        0.0, unit="N m/rad", description="Stiffness of a spring that turns the held frame to `rest`", ge=0.0, le=1e9
    )
    rest: Six = quantity(
        (0.0,) * 6,
        unit="m, rad",
        description="Frame in which the springs are free of forces: position, and roll, pitch, yaw",
    )

    def spring(self) -> Spring | None:
        """The springs, if there are any."""
        if not (self.stiffness or self.rotational_stiffness):
            return None
        x, y, z, w = from_roll_pitch_yaw(*self.rest[3:]).tolist()
        return Spring(self.stiffness, self.rotational_stiffness, self.rest[:3], (x, y, z, w))


class ParametrisationFormulas(Parameters):
    """Independent coordinates z, and psi(z) of all coordinates, for the integrator `explicit` (FAULRING II)."""

    start: dict[str, float | str] = quantity(
        {}, description="Independent coordinates at the start by name: numbers, or formulas of the parameters"
    )
    coordinates: dict[str, str] = quantity(
        {}, description="Formula of each coordinate, of the independent ones and the parameters"
    )


class CircleFormulas(Parameters):
    """A circle that is drawn."""

    centre: str = quantity(description="Name of the point at its centre")
    axis: tuple[str, str, str] = quantity(("0", "0", "1"), description="Formulas of a vector along its axis")
    radius: str = quantity(unit="m", description="Formula of its radius")


class DrawingFormulas(Parameters):
    """Drawing of the system in a view, beside the hand; nothing else depends on it."""

    points: dict[str, tuple[str, str, str]] = quantity(
        {}, unit="m", description="Formulas of positions in the world by name; those of no link and no circle are balls"
    )
    links: tuple[tuple[str, str], ...] = quantity((), description="Pairs of points between which a rod is drawn")
    circles: tuple[CircleFormulas, ...] = quantity((), description="Circles, as of wheels")


class FormulasParameters(ConstrainedParameters):
    """A constrained tool that is given by formulas."""

    type: Literal["formulas"] = "formulas"
    file: str | None = quantity(
        None,
        description="YAML file with the keys of this scene, in the working directory, in the experiment's folder or in "
        "config/systems; keys that are given beside it count before those of the file",
    )
    parameters: dict[str, float] = quantity({}, description="Values of the parameters by name")
    coordinates: tuple[str, ...] = quantity(
        description="Names of the coordinates; the rate of phi is phi_dot, the time is t"
    )
    definitions: dict[str, str] = quantity(
        {}, description="Formulas by name, for use in other formulas; each may use those before it"
    )
    kinetic: str = quantity(unit="J", description="Formula of the kinetic energy, quadratic in the rates")
    potential: str = quantity("0", unit="J", description="Formula of the potential energy")
    forces: dict[str, str] = quantity(
        {}, description="Formulas of generalised forces by coordinate, beside those of the potential energy"
    )
    positions: tuple[str, ...] = quantity((), description="Formulas of coordinates and time that the tool keeps at 0")
    velocities: tuple[str, ...] = quantity((), description="Formulas, linear in the rates, that the tool keeps at 0")
    hand: HandFormulas = quantity(HandFormulas(), description="The held frame, at which the operator's wrench acts")
    start: dict[str, float | str] = quantity(
        {}, description="Coordinates and rates at the start by name: numbers, or formulas of the parameters; else 0"
    )
    parametrisation: ParametrisationFormulas = quantity(
        ParametrisationFormulas(), description="Independent coordinates, for the integrator `explicit`"
    )
    drawing: DrawingFormulas = quantity(
        DrawingFormulas(), description="Drawing of the system in a view, beside the hand"
    )

    def setup(self, constraint: ConstraintParameters) -> ConstrainedSetup:
        """The system of this scene, with its configuration and velocity at the start [m, rad, m/s, rad/s]."""
        system = System.from_formulas(
            self.coordinates,
            self.kinetic,
            parameters=self.parameters,
            definitions=self.definitions,
            potential=self.potential,
            forces=self.forces,
            positions=self.positions,
            velocities=self.velocities,
            hand={"position": self.hand.position, "rotation": self.hand.rotation},
            start=self.start,
            parametrisation=self.parametrisation.model_dump() if self.parametrisation.start else None,
            spring=self.hand.spring(),
        )
        self.drawn(system)  # refuses what cannot be drawn
        return ConstrainedSetup(system, system.q, system.v)

    def drawn(self, system: System) -> Drawing:
        """Drawing of the system that this is the scene of.

        Raises:
            DescriptionError: as `Drawing`.
        """
        circles = [Circle(one.centre, one.axis, one.radius) for one in self.drawing.circles]
        return Drawing(system.description, system.parameters, self.drawing.points, self.drawing.links, circles)


CONSTRAINED = (
    FormulasParameters,
    RollingDiskParameters,
    DiskOnSphereParameters,
    TwoLinkCircleParameters,
    RollingSpheresParameters,
    TwoLinkClosedLoopParameters,
)
"""Scenes of an exactly constrained tool; they have no world."""

Solver = ProjectionSolver | StabilisedSolver


def build_setup(scene: Any, constraint: ConstraintParameters) -> ConstrainedSetup:
    """System, constraints and initial state of one of the CONSTRAINED scenes.

    Raises:
        ParameterError: what cannot be built; names the constraint.
    """
    try:
        setup: ConstrainedSetup = scene.setup(constraint)
    except DescriptionError as error:
        raise ParameterError([f"scene.{error}"]) from error
    except ConstraintError as error:
        raise ParameterError([f"scene: {error}"]) from error
    return setup


def build_solver(setup: ConstrainedSetup, constraint: ConstraintParameters, rate: float) -> Solver:
    """Solver that advances a tool by a tick at `rate` [Hz].

    Raises:
        ParameterError: the initial state is off the constraints where the solver needs it on them, or constraints
            contradict each other; names the constraint and the residual.
    """
    try:
        if constraint.solver == "stabilised":
            return StabilisedSolver(setup.system, setup.q, setup.v, constraint.gamma, 1.0 / rate)
        integrator: str = constraint.integrator
        if integrator == "explicit" and constraint.parametrised and setup.system.model.z:
            integrator = "parametrised"
        return ProjectionSolver(setup.system, setup.q, setup.v, 1.0 / rate, integrator)
    except ConstraintError as error:
        hint = "; solver=stabilised starts anywhere" if constraint.solver == "projection" else ""
        raise ParameterError([f"constraint.solver = {constraint.solver}: {error}{hint}"]) from error
