"""Meshes with coordinates of an image (UV), as files that programs of modelling write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np


def globe(radius: float = 0.03, columns: int = 48, rows: int = 24) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A sphere with longitude and latitude as coordinates, a seam at longitude 0: vertices, coordinates, triangles."""
    longitude, latitude = np.meshgrid(
        np.linspace(0.0, 2.0 * np.pi, columns + 1), np.linspace(-0.5 * np.pi, 0.5 * np.pi, rows + 1)
    )
    z = np.stack([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)], -1)
    uv = np.stack([longitude / (2.0 * np.pi), latitude / np.pi + 0.5], axis=-1)
    i = (np.arange(rows)[:, None] * (columns + 1) + np.arange(columns)).ravel()
    above = i + columns + 1
    triangles = np.concatenate([np.stack([i, i + 1, above + 1], 1), np.stack([i, above + 1, above], 1)])
    vertices = np.round(radius * z.reshape(-1, 3), 9)
    corners = vertices[triangles]
    areas = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    return vertices, uv.reshape(-1, 2), triangles[areas > 1e-12]


def crate(size: Sequence[float], seed: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A box, each face of which shows another turned part of the image, so that the heights jump at its edges."""
    rng, half = np.random.default_rng(seed), 0.5 * np.array(size)
    vertices: list[np.ndarray] = []
    uv: list[np.ndarray] = []
    triangles: list[list[int]] = []
    for axis in range(3):
        for side in (-1.0, 1.0):
            across, other = (axis + 1) % 3, (axis + 2) % 3
            angle, at = rng.uniform(0.0, 2.0 * np.pi), rng.uniform(-1.0, 1.0, 2)
            turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], float)
            place = np.zeros((4, 3))
            place[:, axis], place[:, across], place[:, other] = side, corners[:, 0], corners[:, 1]
            vertices.append(place * half)
            uv.append(at + 10.0 * (corners * half[[across, other]]) @ turned.T)
            first = 4 * len(triangles) // 2
            quad = [[0, 1, 2], [0, 2, 3]] if side > 0 else [[0, 2, 1], [0, 3, 2]]
            triangles += [[first + k for k in one] for one in quad]
    return np.concatenate(vertices), np.concatenate(uv), np.array(triangles)


def write_obj(path: Path, vertices: np.ndarray, uv: np.ndarray, triangles: np.ndarray) -> Path:
    """A file whose vertices each have their coordinates."""
    lines = [f"v {x:.17g} {y:.17g} {z:.17g}" for x, y, z in vertices]
    lines += [f"vt {u:.17g} {v:.17g}" for u, v in uv]
    lines += ["f " + " ".join(f"{k + 1}/{k + 1}" for k in one) for one in triangles]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
