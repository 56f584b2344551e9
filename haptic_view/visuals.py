"""Visual meshes and shapes of the links of URDF files, xacro or not; nothing collides with them."""

from __future__ import annotations

from typing import NamedTuple

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.errors import HapticsError
from haptic_sim.scenes import ModelSource
from haptic_sim.worlds.file_trees import ModelFileError
from haptic_sim.worlds.model_files import read_document
from haptic_sim.worlds.xml_files import text_of

MOST_TRIANGLES = 300_000  # of a file; more would make a browser stutter


class Visual(NamedTuple):
    """A part of a link: what it looks like, and its pose in the link's axes (4, 4)."""

    link: str
    X_LV: np.ndarray
    geometry: coal.CollisionGeometry


class VisualError(HapticsError, ValueError):
    """The visual meshes of a file cannot be shown; the text says why."""


def load_visuals(source: ModelSource) -> list[Visual]:
    """The visuals of a URDF file, whose meshes are looked for as those that collide; none of another file.

    Raises:
        VisualError: they cannot be read, or are too many.
    """
    if source.path.suffix not in (".urdf", ".xacro"):
        return []
    try:
        root = read_document(source)
    except ModelFileError as error:
        raise VisualError(error.problems[0].removeprefix(": ")) from error
    if root.tag != "robot":
        return []
    text, folders = text_of(root), [str(folder) for folder in source.path.resolve().parents]
    try:
        model = pin.buildModelFromXML(text)
        geometry = pin.buildGeomFromUrdfString(model, text, pin.GeometryType.VISUAL, package_dirs=folders)
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
