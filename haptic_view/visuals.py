"""What the links of URDF files look like: their visual meshes and shapes, which nothing collides with."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.errors import HapticsError

MOST_TRIANGLES = 300_000  # of a file; more would make a browser stutter


class Visual(NamedTuple):
    """A part of a link: what it looks like, and its pose in the link's axes (4, 4)."""

    link: str
    X_LV: np.ndarray
    geometry: coal.CollisionGeometry


class VisualError(HapticsError, ValueError):
    """Why the visual meshes of a file cannot be shown."""


def load_visuals(path: Path) -> list[Visual]:
    """The visuals of a URDF file, whose meshes are looked for as those that collide; none of another file.

    Raises:
        VisualError: they cannot be read, or are too many.
    """
    if path.suffix != ".urdf":
        return []
    folders = [str(folder) for folder in path.resolve().parents]
    try:
        model = pin.buildModelFromUrdf(str(path))
        geometry = pin.buildGeomFromUrdf(model, str(path), pin.GeometryType.VISUAL, package_dirs=folders)
    except (ValueError, RuntimeError, IndexError) as error:  # how exceptions of C++ arrive
        raise VisualError(str(error).rpartition("message:")[2].strip().partition("\n")[0] or repr(error)) from error
    found, triangles = [], 0
    for item in geometry.geometryObjects:
        frame = model.frames[item.parentFrame]
        triangles += getattr(item.geometry, "num_tris", 0)
        found.append(Visual(frame.name, (frame.placement.inverse() * item.placement).homogeneous, item.geometry))
    if triangles > MOST_TRIANGLES:
        raise VisualError(f"they have {triangles} triangles: must be at most {MOST_TRIANGLES}")
    return found
