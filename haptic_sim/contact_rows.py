"""Contact rows: the only description of the world that contact methods get.

A row is one point at which two bodies touch or nearly touch. Kernels take rows, never bodies or worlds, so that the
environment and the local model run the same kernels. A body is given by the number of its Pinocchio joint; 0 is a fixed
body.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haptic_sim.records import allocate, array, record

CAPACITY = 256  # rows, of worlds with up to FEW velocities
FEW = 240


def capacity_for(velocities: int) -> int:
    """Rows for contacts of a world with so many velocities: beyond FEW, two for each, 12 for each free body."""
    return CAPACITY + 2 * max(0, velocities - FEW)


@record
class RowArrays(NamedTuple):
    """Contacts between bodies A and B, for kernels, in the axes of the world.

    The limit of a joint is a row too: it has no bodies, point and tangents, and its normal has no meaning.
    """

    id: np.ndarray = array("identity that persists from step to step", "rows", dtype=np.int64)
    body: np.ndarray = array("bodies A and B; of tool and surroundings, the tool is B", "rows", 2, dtype=np.int64)
    point: np.ndarray = array("contact point of B; that of A is point - separation normal", "rows", 3, unit="m")
    normal: np.ndarray = array("unit normal from A to B", "rows", 3)
    separation: np.ndarray = array("distance along the normal, negative where they overlap", "rows", unit="m")
    velocity: np.ndarray = array(
        "velocity of A's point along the normal if A is not a body of the model", "rows", unit="m/s"
    )
    rotation: np.ndarray = array("angular velocity of A if A is not a body of the model", "rows", 3, unit="rad/s")
    plane: np.ndarray = array(
        "number of the plane that moves as a mass along the normal in place of body A, -1: none",
        "rows",
        dtype=np.int64,
        fill=-1,
    )
    mobility: np.ndarray = array("inverse mass of that plane", "rows", unit="1/kg")
    wall: np.ndarray = array("number of the pair of shapes that touch", "rows", dtype=np.int64)
    weight: np.ndarray = array(
        "part of the stiffness and damping of a penalty that acts; more than 1 on a slope of a texture", "rows", fill=1
    )
    restitution: np.ndarray = array("coefficient of restitution", "rows")
    friction: np.ndarray = array("static and kinetic coefficients of friction", "rows", 2)
    resistance: np.ndarray = array("coefficients of rolling and torsional friction", "rows", 2, unit="m")
    coordinate: np.ndarray = array(
        "coordinate that a joint limit bounds; -1: a contact", "rows", dtype=np.int64, fill=-1
    )
    direction: np.ndarray = array(
        "normal velocity per velocity of that coordinate: 1 for a lower limit, -1 for an upper one", "rows"
    )
    half_of: np.ndarray = array(
        "contact of two colliding bodies of which this row stands for one body (`contact.halves`), else -1",
        "rows",
        dtype=np.int64,
        fill=-1,
    )


class ContactRows:
    """Preallocated rows of contacts; the first `count` are in use. The arrays are those of `RowArrays`.

    Args:
        limits: rows beyond the capacity for contacts, for `haptic_sim.dynamics.joints.append_limits`.
        halves: whether there are two more for each contact, for `haptic_sim.contact.halves.append_halves`.
    """

    def __init__(self, capacity: int = CAPACITY, limits: int = 0, halves: bool = False):
        self.capacity, self.count = capacity, 0
        capacity += limits + (2 * capacity if halves else 0)
        self.arrays = allocate(RowArrays, {"rows": capacity})
        self.id, self.body, self.point, self.normal, self.separation, self.velocity = self.arrays[:6]
        self.wall, self.restitution, self.friction = self.arrays.wall, self.arrays.restitution, self.arrays.friction
