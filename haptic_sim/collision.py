"""Collision detection: coal finds the near walls, a kernel the contact points of the tool on each."""

from __future__ import annotations

import numba
import pinocchio as pin

from haptic_sim.contact.rows import ContactRows
from haptic_sim.multibody import Multibody
from haptic_sim.scene import World


class CollisionDetector:
    """Fills contact rows from the pose of the tool.

    For each wall within the margin, coal gives the separating direction and the wall's nearest point; every corner of
    the tool that is within the margin of the plane through that point is a contact (vertex-face; a face that lies on a
    wall has several). A contact's identity is its pair of wall and corner.
    """

    def __init__(self, world: World):
        self._model, self._geometry = world.model, world.geometry
        self._data = world.geometry.createData()
        self._vertices = world.vertices
        self._results = list(self._data.distanceResults)

    def detect(self, tool: Multibody, margin: float, rows: ContactRows) -> None:
        """Fill `rows` with the contacts whose separation is less than `margin` [m]."""
        pin.updateGeometryPlacements(self._model, tool.data, self._geometry, self._data)
        pin.computeDistances(self._geometry, self._data)
        rows.count = 0
        for wall, result in enumerate(self._results):
            if result.min_distance < margin:
                rows.count = _corners_on_plane(
                    self._vertices,
                    tool.R_WH,
                    tool.p_WH,
                    result.normal,
                    result.getNearestPoint2(),
                    wall,
                    margin,
                    rows.count,
                    rows.id,
                    rows.point,
                    rows.normal,
                    rows.separation,
                    rows.velocity,
                    rows.wall,
                )
        rows.body[: rows.count, 1] = self._model.frames[tool.hand].parentJoint


@numba.njit(cache=True, nogil=True)
def _corners_on_plane(
    vertices,
    R_WH,
    p_WH,
    outward,
    on_plane,
    wall,
    margin,
    count,
    ids,
    point,
    normal,
    separation,
    velocity,
    walls,
):
    """Append the corners nearer than `margin` to the plane through `on_plane`; coal's normal points into the wall."""
    for m in range(vertices.shape[0]):
        if count == ids.shape[0]:
            break
        s = 0.0
        for i in range(3):
            x = p_WH[i]
            for j in range(3):
                x += R_WH[i, j] * vertices[m, j]
            point[count, i] = x
            normal[count, i] = -outward[i]
            s -= outward[i] * (x - on_plane[i])
        if s < margin:
            separation[count] = s
            velocity[count] = 0.0
            walls[count] = wall
            ids[count] = wall * 65536 + m
            count += 1
    return count
