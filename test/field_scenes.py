"""Shared by the tests of fields: surfaces of revolution with closed forms, and scenes of triangle meshes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import coal
import numpy as np
import pinocchio as pin
import trimesh
import yaml
from collision_scenes import Scene

from haptic_sim.geometry.fields.field import build_field, fields_for, triangle_mesh

Mesh = tuple[np.ndarray, np.ndarray]


def turned(r: np.ndarray, z: np.ndarray, sections: int) -> Mesh:
    """The closed surface of a closed line of points (r, z), r > 0, that turns about z; the solid is on its left."""
    n = len(r)
    angle = 2.0 * np.pi * np.arange(sections) / sections
    vertices = np.stack([np.outer(np.cos(angle), r), np.outer(np.sin(angle), r), np.tile(z, (sections, 1))], axis=-1)
    k, i = np.meshgrid(np.arange(sections), np.arange(n), indexing="ij")
    here, up = k * n + i, k * n + (i + 1) % n
    beside, across = (k + 1) % sections * n + i, (k + 1) % sections * n + (i + 1) % n
    quads = np.stack([here, beside, across, up], axis=-1).reshape(-1, 4)
    return vertices.reshape(-1, 3), np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])


def torus(large: float = 0.05, small: float = 0.02, sections: tuple[int, int] = (120, 60)) -> Mesh:
    """A torus about z."""
    angle = 2.0 * np.pi * np.arange(sections[1]) / sections[1]
    return turned(large + small * np.cos(angle), small * np.sin(angle), sections[0])


def torus_distance(p: np.ndarray, large: float = 0.05, small: float = 0.02) -> np.ndarray:
    """Signed distance of points (n, 3) [m] from a torus."""
    return np.hypot(np.hypot(p[:, 0], p[:, 1]) - large, p[:, 2]) - small


def pipe(inner: float, outer: float, height: float, sections: int = 160) -> Mesh:
    """A pipe about z, centred."""
    h = 0.5 * height
    levels = np.linspace(-h, h, 9)
    r = np.concatenate([np.full(9, outer), np.full(9, inner)])
    return turned(r, np.concatenate([levels, levels[::-1]]), sections)


def cup(inner: float, outer: float, sections: int = 160, rings: int = 60) -> Mesh:
    """The lower half of a hollow sphere about the origin, open above; its pole is left out by a hole of no area."""
    angle = np.linspace(-0.5 * np.pi + 1e-3, 0.0, rings)
    r = np.concatenate([outer * np.cos(angle), inner * np.cos(angle[::-1])])
    return turned(r, np.concatenate([outer * np.sin(angle), inner * np.sin(angle[::-1])]), sections)


def cone(radius: float, height: float, sections: int = 160) -> Mesh:
    """A cone with its tip at the origin and its base above."""
    angle = 2.0 * np.pi * np.arange(sections) / sections
    rim = np.stack([radius * np.cos(angle), radius * np.sin(angle), np.full(sections, height)], axis=-1)
    vertices = np.concatenate([[[0.0, 0.0, 0.0], [0.0, 0.0, height]], rim])
    k = np.arange(sections)
    here, beside = 2 + k, 2 + (k + 1) % sections
    return vertices, np.concatenate(
        [
            np.stack([np.zeros(sections, int), beside, here], axis=-1),
            np.stack([np.ones(sections, int), here, beside], axis=-1),
        ]
    )


class FieldScene(Scene):
    """Free bodies as of `Scene`; a mesh (vertices, triangles) collides by its field.

    Args:
        sharp: numbers of the meshes that have points on sharp features alone.
    """

    def __init__(self, *shapes, accuracy: float = 4e-4, sharp: tuple[int, ...] = (), **options):
        geometry, pieces, given = pin.GeometryModel(), [], {}
        for k, shape in enumerate(shapes):
            name = f"shape {k}"
            if isinstance(shape, tuple):
                given[name] = build_field(*shape, accuracy, everywhere=k not in sharp)
                shape = triangle_mesh(*shape)
            pieces.append(shape)
            geometry.addGeometryObject(pin.GeometryObject(name, 0, 0, pin.SE3.Identity(), shape))
        for i in range(len(shapes)):
            for j in range(i + 1, len(shapes)):
                geometry.addCollisionPair(pin.CollisionPair(i, j))
        self.fields = fields_for(geometry, given)
        super().__init__(*pieces, fields=self.fields, **options)

    @property
    def memory(self):
        return self.detector._arrays.field_memory


PLANE = coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0)


def ring_on_floor(folder: Path, *, device: bool = True, **changes: Any) -> str:
    """Path of an experiment, in a folder: a ring that collides by a field lies just above a floor, and is pushed down.

    Args:
        folder: receives the file of the ring, too.
        device: whether it is held by one.
        changes: replace keys of the experiment.
    """
    trimesh.creation.torus(0.02, 0.005, major_sections=48, minor_sections=24).export(folder / "ring.stl")
    shape = {"type": "mesh", "path": str(folder / "ring.stl"), "as": "field", "error": 2.5e-4}
    bodies = {
        "ring": {"joint": "free", "mass": 0.1, "position": [0, 0, 0.0055], "shapes": [shape]},
        "floor": {"joint": "fixed", "shapes": [{"type": "plane"}]},
    }
    held = {"device": {"type": "inertial", "mass": 0.2, "inertia": 1e-4}, "controller": {"type": "virtual_coupling"}}
    document = {
        "name": "rings",
        "duration": 0.05,
        "rate": 1000,
        **(held if device else {"device": {"type": "none"}}),
        "operator": {"type": "constant", "wrench": [0, 0, -1, 0, 0, 0]},
        "scene": {"type": "world", "tool": "ring", "bodies": bodies},
        **changes,
    }
    file = folder / "rings.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(file)
