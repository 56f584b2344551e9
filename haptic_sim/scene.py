"""Scenes: the virtual tool and its surroundings, as parameters and as a world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import coal
import numpy as np
import pinocchio as pin
from pydantic import AfterValidator

from haptic_sim.multibody import planar_body
from haptic_sim.parameters import Parameters, PositivePair, quantity


class PegParameters(Parameters):
    """A rectangular planar peg, held at its centre of mass."""

    type: Literal["peg"] = "peg"
    size: PositivePair = quantity((0.042, 0.021), unit="m", description="Extent along its own x and y")
    mass: float = quantity(2.0, unit="kg", description="Mass", gt=0.0, le=1e3)
    inertia: float = quantity(0.005, unit="kg m^2", description="Inertia about its centre of mass", gt=0.0, le=1e3)


def _outside_the_peg(gaps: tuple[float, float]) -> tuple[float, float]:
    for i, gap in enumerate(gaps):
        if not gap > 0.0:
            raise ValueError(f"[{i}] = {gap:g} m: the wall would be inside the peg; must be > 0")
    return gaps


Gaps = Annotated[tuple[float, float], AfterValidator(_outside_the_peg)]


class EnclosureParameters(Parameters):
    """Four fixed walls around the peg, which starts at the origin, aligned."""

    type: Literal["enclosure"] = "enclosure"
    gap: Gaps = quantity((0.03, 0.06), unit="m", description="From the peg's faces to the right and to the lower wall")
    far_gap: Gaps = quantity((0.1, 0.1), unit="m", description="From the peg's faces to the left and to the upper wall")


@dataclass(frozen=True)
class Wall:
    """A fixed half-space: solid where normal . p < offset."""

    name: str
    normal: tuple[float, float, float]
    offset: float  # [m]


@dataclass(frozen=True)
class World:
    """A tool among fixed walls.

    Attributes:
        model, hand: Pinocchio model of the tool and its held frame.
        geometry: coal shapes of tool and walls, one collision pair for each wall.
        vertices: corners of the tool in the hand's axes [m], (n, 3).
        walls: in the order of the collision pairs.
        q, v: initial configuration and velocity.
    """

    model: pin.Model
    hand: int
    geometry: pin.GeometryModel
    vertices: np.ndarray
    walls: tuple[Wall, ...]
    q: np.ndarray
    v: np.ndarray


def enclosure_walls(tool: PegParameters, scene: EnclosureParameters) -> tuple[Wall, ...]:
    """Right, lower, left and upper wall around a peg at the origin."""
    half_x, half_y = 0.5 * tool.size[0], 0.5 * tool.size[1]
    return (
        Wall("right wall", (-1.0, 0.0, 0.0), -(half_x + scene.gap[0])),
        Wall("lower wall", (0.0, 1.0, 0.0), -(half_y + scene.gap[1])),
        Wall("left wall", (1.0, 0.0, 0.0), -(half_x + scene.far_gap[0])),
        Wall("upper wall", (0.0, -1.0, 0.0), -(half_y + scene.far_gap[1])),
    )


def build_world(tool: PegParameters, scene: EnclosureParameters) -> World:
    """The world of a peg in an enclosure."""
    model, hand = planar_body(tool.mass, tool.inertia)
    depth = min(tool.size)  # out of the plane; without effect
    geometry = pin.GeometryModel()
    peg = geometry.addGeometryObject(
        pin.GeometryObject("tool", 1, 0, pin.SE3.Identity(), coal.Box(tool.size[0], tool.size[1], depth))
    )
    walls = enclosure_walls(tool, scene)
    for wall in walls:
        shape = coal.Halfspace(np.array(wall.normal), wall.offset)
        index = geometry.addGeometryObject(pin.GeometryObject(wall.name, 0, 0, pin.SE3.Identity(), shape))
        geometry.addCollisionPair(pin.CollisionPair(peg, index))
    # In the plane the corners at both depths are one contact: the peg has four.
    half = 0.5 * np.array([tool.size[0], tool.size[1], 0.0])
    vertices = half * np.array([[1, -1, 0], [1, 1, 0], [-1, 1, 0], [-1, -1, 0]], float)
    return World(model, hand, geometry, vertices, walls, np.zeros(3), np.zeros(3))
