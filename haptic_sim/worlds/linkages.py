"""Scenes of held linkages: a door, a crank, an instrument through a fixed entry point, and the arm of a robot."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pinocchio as pin
from pydantic import model_validator

from haptic_sim.geometry.shapes import Vector
from haptic_sim.parameters import ParameterError, quantity
from haptic_sim.rotations import from_roll_pitch_yaw, matrix
from haptic_sim.scenes import SceneContext, SceneParameters
from haptic_sim.worlds.parameters import rank_fade_quantity, rank_tolerance_quantity

GRAVITY = 9.81  # [m/s^2]
BUMPER = 0.01  # [m] radius of what a door strikes
TIP = 0.004  # [m] radius of the tip of an instrument
_GIMBAL = {"mass": 0.02, "inertia": [1e-5, 1e-5, 1e-5]}  # small beside a tool, but of a possible body
_FLAT = 0.55  # moment of inertia of a wheel across its axle, of that about it; a disc has 0.5


class _Held(SceneParameters):
    """Keys common to all linkages."""

    rank_tolerance: float = rank_tolerance_quantity()
    rank_fade: float = rank_fade_quantity()
    gravity: float = quantity(GRAVITY, unit="m/s^2", description="Acceleration of free fall", ge=0.0, le=100.0)

    def _world(self, bodies: dict[str, Any], tool: str, hold: Any = (0, 0, 0)) -> dict[str, Any]:
        return {
            "gravity": [0, 0, -self.gravity],
            "bodies": bodies,
            "tool": tool,
            "hold": list(hold),
            "rank_tolerance": self.rank_tolerance,
            "rank_fade": self.rank_fade,
        }


class DoorParameters(_Held):
    """A door on a hinge along z, held by its handle; a bumper in its frame stops it.

    The closed leaf is along x, and opens towards y. A hinge that leans forward makes gravity close it.
    """

    type: Literal["door"] = "door"
    width: float = quantity(0.4, unit="m", description="Width of the leaf, from the hinge", gt=0.0, le=10.0)
    height: float = quantity(0.6, unit="m", description="Height of the leaf", gt=0.0, le=10.0)
    thickness: float = quantity(0.018, unit="m", description="Thickness of the leaf", gt=0.0, le=1.0)
    mass: float = quantity(2.5, unit="kg", description="Mass of the leaf, which is uniform", gt=0.0, le=1e3)
    handle: Vector = quantity(
        (0.36, 0.04, 0.0),
        unit="m",
        description="Position of the handle: from the hinge along the leaf, out of it, and up",
    )
    angle: float = quantity(
        60.0, unit="deg", description="Angle by which the door is open at the start", ge=-180.0, le=180.0
    )
    closing_angle: float = quantity(
        0.0, unit="deg", description="Angle at which the door strikes its frame", ge=-180.0, le=180.0
    )
    speed: float = quantity(
        0.0, unit="rad/s", description="Angular velocity of the door at the start; positive opens it"
    )
    lean: float = quantity(0.0, unit="deg", description="Lean of the hinge, forward along x", ge=-89.0, le=89.0)

    @property
    def inertia(self) -> float:
        """About the hinge [kg m^2]."""
        return self.mass * (self.width**2 / 3.0 + self.thickness**2 / 12.0)

    @property
    def axis(self) -> np.ndarray:
        """Direction of the hinge in world axes (3,)."""
        lean = math.radians(self.lean)
        return np.array([math.sin(lean), 0.0, math.cos(lean)])

    @model_validator(mode="after")
    def _starts_open(self) -> DoorParameters:
        if self.angle < self.closing_angle:
            raise ValueError(
                f".angle = {self.angle:g} deg: must be >= closing_angle = {self.closing_angle:g} deg, where it closes"
            )
        return self

    def world(self, context: SceneContext) -> dict[str, Any]:
        """The keys of this world, as `scene.type: world` has them, but for its type."""
        lean, closed = math.radians(self.lean), math.radians(self.closing_angle)
        upright = matrix(from_roll_pitch_yaw(0.0, lean, 0.0))
        at = np.array([self.width - 2.0 * BUMPER, -0.5 * self.thickness - BUMPER, 0.0])
        bumper = {
            "joint": "fixed",
            "position": (upright @ matrix(from_roll_pitch_yaw(0.0, 0.0, closed)) @ at).tolist(),
            "shapes": [{"type": "sphere", "radius": BUMPER}],
        }
        leaf = {
            "joint": "revolute",
            "rotation": [0, lean, 0],
            "axis": [0, 0, 1],
            "angle": math.radians(self.angle),
            "velocity": self.speed,
            "mass": self.mass,
            "shapes": [
                {
                    "type": "box",
                    "size": [self.width, self.thickness, self.height],
                    "position": [0.5 * self.width, 0, 0],
                }
            ],
        }
        return self._world({"frame": bumper, "leaf": leaf}, "leaf", self.handle)


class CrankParameters(_Held):
    """A crank with a flywheel, its axle along y, held by a knob that turns freely.

    At angle 0 the arm is along x; it rises where the angle grows. Its centre of mass is on the line from the axle to
    the knob, so that gravity loads it. A force through the axle cannot turn it: these are its dead points.
    """

    type: Literal["crank"] = "crank"
    radius: float = quantity(0.12, unit="m", description="Distance from the axle to the knob", gt=0.0, le=10.0)
    mass: float = quantity(1.5, unit="kg", description="Mass of arm and flywheel", gt=0.0, le=1e3)
    inertia: float = quantity(
        0.01, unit="kg m^2", description="Inertia of arm and flywheel, about the axle", gt=0.0, le=1e3
    )
    centre: float = quantity(
        0.03, unit="m", description="Distance of the centre of mass from the axle, towards the knob", ge=-10.0, le=10.0
    )
    knob_mass: float = quantity(0.1, unit="kg", description="Mass of the knob, a ball", gt=0.0, le=1e3)
    knob_radius: float = quantity(0.02, unit="m", description="Radius of the knob", gt=0.0, le=1.0)
    angle: float = quantity(0.0, unit="deg", description="Angle of the crank at the start")
    speed: float = quantity(0.0, unit="rad/s", description="Angular velocity of the crank at the start")

    @model_validator(mode="after")
    def _is_a_body(self) -> CrankParameters:
        least = self.mass * self.centre**2
        if not self.inertia > least:
            raise ValueError(
                f".inertia = {self.inertia:g} kg m^2: must be > mass * centre^2 = {least:g} kg m^2, which is there "
                "about the axle even if all mass is in one place"
            )
        return self

    @property
    def inertia_with_knob(self) -> float:
        """About the axle; the knob does not turn with the arm [kg m^2]."""
        return self.inertia + self.knob_mass * self.radius**2

    @property
    def load(self) -> float:
        """Torque of gravity about the axle at angle 0, against the arm rising [N m]."""
        return self.gravity * (self.mass * self.centre + self.knob_mass * self.radius)

    def world(self, context: SceneContext) -> dict[str, Any]:
        """The keys of this world, as `scene.type: world` has them, but for its type."""
        about = self.inertia - self.mass * self.centre**2
        crank = {
            "joint": "revolute",
            "axis": [0, -1, 0],
            "angle": math.radians(self.angle),
            "velocity": self.speed,
            "mass": self.mass,
            "centre_of_mass": [self.centre, 0, 0],
            "inertia": [_FLAT * about, about, _FLAT * about],
        }
        knob = {
            "joint": "revolute",
            "parent": "crank",
            "position": [self.radius, 0, 0],
            "axis": [0, -1, 0],
            # As its bearing has no friction, it does not turn with the arm.
            "velocity": -self.speed,
            "mass": self.knob_mass,
            "inertia": [0.4 * self.knob_mass * self.knob_radius**2] * 3,
            "centre_of_mass": [0, 0, 0],
        }
        return self._world({"crank": crank, "knob": knob}, "knob")


class LaparoscopicParameters(_Held):
    """A long instrument through a fixed entry point at the origin, held at its upper end; below there is tissue.

    At the start it is upright. It tilts about x and then y at the entry point, turns about its shaft and slides along
    it: two directions are blocked, forces across the shaft at the entry point.
    """

    type: Literal["laparoscopic"] = "laparoscopic"
    length: float = quantity(0.4, unit="m", description="Distance from the handle to the tip", gt=0.0, le=10.0)
    inserted: float = quantity(
        0.15, unit="m", description="Length of the instrument below the entry point at the start"
    )
    mass: float = quantity(0.3, unit="kg", description="Mass of the instrument", gt=0.0, le=1e3)
    centre: float = quantity(
        0.1, unit="m", description="Distance of the centre of mass from the handle, towards the tip", ge=0.0, le=10.0
    )
    inertia: tuple[float, float] = quantity(
        (3e-3, 1e-4),
        unit="kg m^2",
        description="Inertia of the instrument at its centre of mass, across and about the shaft",
    )
    tissue: float | None = quantity(
        0.17, unit="m", description="Depth of the surface of the tissue; null: there is no tissue", gt=0.0
    )

    @model_validator(mode="after")
    def _fits(self) -> LaparoscopicParameters:
        if not 0.0 <= self.inserted <= self.length:
            raise ValueError(f".inserted = {self.inserted:g} m: must be from 0 to length = {self.length:g} m")
        if self.tissue is not None and self.inserted + TIP > self.tissue:
            raise ValueError(
                f".inserted = {self.inserted:g} m: must be at most tissue - {TIP:g} m = {self.tissue - TIP:g} m, where "
                "the tip touches it"
            )
        across, about = self.inertia
        if not (across > 0.0 and 0.0 < about <= 2.0 * across):
            raise ValueError(f".inertia = [{across:g}, {about:g}] kg m^2: no body has this inertia")
        return self

    def world(self, context: SceneContext) -> dict[str, Any]:
        """The keys of this world, as `scene.type: world` has them, but for its type."""
        across, about = self.inertia
        bodies: dict[str, Any] = {
            "ring": {"joint": "revolute", "axis": [1, 0, 0], **_GIMBAL},
            "cradle": {"joint": "revolute", "parent": "ring", "axis": [0, 1, 0], **_GIMBAL},
            "sleeve": {"joint": "revolute", "parent": "cradle", "axis": [0, 0, 1], **_GIMBAL},
            "instrument": {
                "joint": "prismatic",
                "parent": "sleeve",
                "position": [0, 0, self.length - self.inserted],
                "axis": [0, 0, -1],
                "mass": self.mass,
                "centre_of_mass": [0, 0, -self.centre],
                "inertia": [across, across, about],
                "shapes": [{"type": "sphere", "radius": TIP, "position": [0, 0, -self.length]}],
            },
        }
        if self.tissue is not None:
            plane = {"type": "plane", "normal": [0, 0, 1], "offset": -self.tissue}
            bodies["tissue"] = {"joint": "fixed", "shapes": [plane]}
        return self._world(bodies, "instrument")


HOLDS = {"wrist": "wrist_3_link", "elbow": "forearm_link"}
"""Links of a robot by what they are held at: at the origin of each, which is on its joint's axis."""


class RobotArmParameters(_Held):
    """An arm of six joints from the package example-robot-data, held by its wrist or by its elbow."""

    type: Literal["robot_arm"] = "robot_arm"
    robot: Literal["ur3", "ur5", "ur10"] = quantity("ur5", description="Robot of the package example-robot-data")
    hold: Literal["wrist", "elbow"] = quantity(
        "wrist", description="Link that is held: wrist (the last link) or elbow (the forearm, at its joint)"
    )
    q: tuple[float, float, float, float, float, float] = quantity(
        (0.0, -0.9, 1.5, -0.6, -1.5, 0.0),
        unit="rad",
        description="Angles of the arm's joints at the start, at which it is at rest",
    )
    gravity: float = quantity(
        0.0,
        unit="m/s^2",
        description="Acceleration of free fall; 0: the weight of the arm is balanced",
        ge=0.0,
        le=100.0,
    )

    def world(self, context: SceneContext) -> dict[str, Any]:
        """The keys of this world, as `scene.type: world` has them, but for its type."""
        file = robots() / "ur_description" / "urdf" / f"{self.robot}_robot.urdf"
        arm = {"path": str(file), "meshes": "hull", "q": list(self.q)}
        world = self._world({}, f"arm/{HOLDS[self.hold]}")
        return {**world, "files": {"arm": arm}, "ignore": [["arm", "arm"]]}


def robots() -> Path:
    """The folder of the robots of example-robot-data.

    Raises:
        ParameterError: the package is not there.
    """
    share = Path("share", "example-robot-data", "robots")
    for prefix in Path(pin.__file__).parents:
        if (prefix / share).is_dir():
            return prefix / share
    raise ParameterError(["scene.type = robot_arm: needs the package example-robot-data, which is not installed"])
