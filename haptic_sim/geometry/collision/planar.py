"""Shapes for planar worlds: boxes deep along z, so that contact normals stay in the plane."""

from __future__ import annotations

import coal
import numpy as np
import pinocchio as pin


def deepen(geometry: pin.GeometryModel) -> pin.GeometryModel:
    """A copy in which boxes are deep along z, so that the shortest way out of an overlap is in the x-y plane.

    Only boxes with one axis along z are: those of planar worlds. Half-spaces need no depth, spheres about z = 0 have
    their contacts in the plane.
    """
    deep = geometry.clone()
    boxes = [item for item in deep.geometryObjects if isinstance(item.geometry, coal.Box)]
    reach = 4.0 * max((2.0 * float(np.linalg.norm(item.geometry.halfSide)) for item in boxes), default=0.0)
    for item in boxes:
        across = np.abs(item.placement.rotation[2])
        axis = int(np.argmax(across))
        if across[axis] > 1.0 - 1e-9:
            sides = 2.0 * np.array(item.geometry.halfSide)
            sides[axis] = reach
            item.geometry = coal.Box(*sides)
    return deep
