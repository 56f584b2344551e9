"""Contacts of a MuJoCo tool that has, or meets, meshes that are not convex: by fields, as in our own worlds.

Of pairs of geoms of which one has a mesh with a field, the contacts are those of our detector, in the poses that MuJoCo
has: shells of points in fields (`haptic_sim.geometry.collision.field_contacts`). All other contacts are MuJoCo's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.contact_rows import ContactRows
from haptic_sim.geometry.collision import CollisionDetector
from haptic_sim.geometry.fields.distances import FieldError
from haptic_sim.geometry.fields.field import SolidField, build_field, fields_for, triangle_mesh
from haptic_sim.geometry.meshes import PARTS, convex_shape
from haptic_sim.geometry.terrain import terrain
from haptic_sim.parameters import ParameterError
from haptic_sim.worlds.compiled import pose_of
from haptic_sim.worlds.mjcf import HFIELD, MESH, SDF, convex_geometries
from haptic_sim.worlds.mujoco_files import MujocoTree
from haptic_sim.worlds.mujoco_meshes import MujocoMesh, geom_name, groups_of, mesh_of


class MeshContacts:
    """The contacts by fields of a MuJoCo model.

    Args:
        model, data: MuJoCo's.
        tool: of the model.
        meshes: those that are not convex.
        restitution: of the contacts.

    Attributes:
        covered: which pairs of geoms have their contacts here, by their number (see `MujocoTree`), bool.
        rows: those of the last detection; bodies are MuJoCo's, `wall` the number of a pair.

    Raises:
        ParameterError: a shape that may touch such a mesh has no field.
    """

    def __init__(
        self, model: Any, data: Any, tool: MujocoTree, meshes: Iterable[MujocoMesh], restitution: float, margins: bool
    ):
        self._data, self._group, self._model = data, groups_of(meshes), model
        self.covered = np.zeros(max(1, int(tool.number.max(initial=0) + 1) * tool.surroundings), np.bool_)
        self.rows = ContactRows()
        own = tool.link[model.geom_bodyid] > 0
        touching = [g for g in range(model.ngeom) if tool.number[g] >= 0]
        self._shapes: dict[int, int] = {}  # by geom that has it
        self._geometry, self._given = pin.GeometryModel(), dict[str, SolidField]()
        friction, walls, forces = list[float](), list[int](), list[float]()
        for i in (g for g in touching if own[g]):
            for j in (g for g in touching if not own[g]):
                if (i not in self._group and j not in self._group) or not self._touch(i, j):
                    continue
                number = int(tool.number[i] * tool.surroundings + tool.number[j])
                self.covered[number] = True
                pair = pin.CollisionPair(self._shape(j), self._shape(i))
                if not self._geometry.existCollisionPair(pair):
                    self._geometry.addCollisionPair(pair)
                    sliding, begin = self._surface(i, j, margins)
                    friction.append(sliding)
                    forces.append(begin)
                    walls.append(number)
        self._walls, self._forces = np.array(walls, np.int64), np.array(forces)
        self._bodies = sorted({shape.parentJoint for shape in self._geometry.geometryObjects} - {0})
        self._detector: CollisionDetector | None = None
        if walls:
            # joints are there to carry poses: MuJoCo moves the bodies
            joints = pin.Model()
            for _ in range(1, max(self._bodies) + 1):
                joints.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), f"body{joints.njoints}")
            self._poses = joints.createData()
            try:
                fields = fields_for(self._geometry, self._given)
            except FieldError as error:
                raise ParameterError([f"scene.file: {error}"]) from error
            self._detector = CollisionDetector(
                joints,
                self._geometry,
                np.full(len(walls), restitution),
                np.repeat(np.array(friction)[:, None], 2, axis=1),
                fields=fields,
            )

    @property
    def omissions(self) -> int | None:
        """Leaves of fields that detections have left out; None: there are no fields."""
        return None if self._detector is None else self._detector.omissions

    def warm_up(self) -> None:
        """Call every kernel once; what was found is of no use afterwards."""
        if self._detector is not None:
            self.find(self._detector.warming_margin)

    def find(self, reach: float) -> int:
        """Fill `rows` with contacts nearer than `reach` [m] from where a force begins; returns how many."""
        if self._detector is None:
            return 0
        rows, data = self.rows, self._data
        for body in self._bodies:
            pose = self._poses.oMi[body]
            pose.rotation, pose.translation = data.xmat[body].reshape(3, 3), data.xpos[body]
        self._detector.detect(self._poses, reach + float(self._forces.max()), rows)
        n = rows.count
        rows.separation[:n] -= self._forces[rows.wall[:n]]
        rows.wall[:n] = self._walls[rows.wall[:n]]
        return n

    def _shape(self, geom: int) -> int:
        """Number of the shape of a geom, or of the mesh that it is a piece of."""
        model, mesh = self._model, self._group.get(geom)
        source = geom if mesh is None else mesh.geom
        if source not in self._shapes:
            name = geom_name(model, source)
            name = name if all(one.name != name for one in self._geometry.geometryObjects) else f"{name} {source}"
            if mesh is not None:
                assert mesh.taken is not None
                geometry: coal.CollisionGeometry = triangle_mesh(mesh.taken.vertices, mesh.taken.faces)
                self._given[name] = mesh.field
            elif model.geom_type[geom] == HFIELD:
                vertices, triangles = _terrain(model, int(model.geom_dataid[geom]))
                geometry = triangle_mesh(vertices, triangles)
                accuracy = float(np.linalg.norm(np.ptp(vertices, axis=0))) / PARTS
                try:
                    self._given[name] = build_field(vertices, triangles, accuracy)
                except FieldError as error:
                    raise ParameterError([f"scene.file: geom {name}: {error}"]) from error
            elif model.geom_type[geom] in (MESH, SDF):
                geometry = convex_shape(mesh_of(model, geom)[0])
            else:
                (geometry,) = convex_geometries(model, geom)
            body, pose = int(model.geom_bodyid[source]), pose_of(model.geom_pos[source], model.geom_quat[source])
            shape = pin.GeometryObject(name, body, 0, pose, geometry)
            self._shapes[source] = self._geometry.addGeometryObject(shape)
        return self._shapes[source]

    def _touch(self, i: int, j: int) -> bool:
        """Whether MuJoCo lets two geoms collide."""
        model = self._model
        if self._pair(i, j) >= 0:
            return True
        bodies = sorted((int(model.geom_bodyid[i]), int(model.geom_bodyid[j])))
        if (bodies[0] << 16) + bodies[1] in model.exclude_signature:
            return False
        kinds, others = model.geom_contype, model.geom_conaffinity
        return bool(kinds[i] & others[j] or kinds[j] & others[i])

    def _pair(self, i: int, j: int) -> int:
        """Number of the <pair> of two geoms, -1: there is none."""
        model = self._model
        ends = np.sort(np.stack([model.pair_geom1, model.pair_geom2], axis=1).reshape(-1, 2), axis=1)
        (found,) = np.nonzero((ends == sorted((i, j))).all(axis=1))
        return int(found[0]) if found.size else -1

    def _surface(self, i: int, j: int, margins: bool) -> tuple[float, float]:
        """Coefficient of sliding friction of two geoms, and the distance at which their force begins [m].

        As MuJoCo mixes them: the geom of the higher priority decides, else the larger number counts; margins add up.
        `margins`: whether they are without the gaps (see `mujoco_surroundings.band`).
        """
        model, pair = self._model, self._pair(i, j)
        if pair >= 0:
            gap = 0.0 if margins else float(model.pair_gap[pair])
            sliding = float(model.pair_friction[pair, 0]) if model.pair_dim[pair] > 1 else 0.0
            return sliding, float(model.pair_margin[pair]) - gap
        begin = float(model.geom_margin[[i, j]].sum()) - (0.0 if margins else float(model.geom_gap[[i, j]].sum()))
        first = model.geom_priority[i] - model.geom_priority[j]
        deciding = [i, j] if first == 0 else [i] if first > 0 else [j]
        sliding = float(model.geom_friction[deciding, 0].max()) if model.geom_condim[deciding].max() > 1 else 0.0
        return sliding, begin


def _terrain(model: Any, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of a height field of MuJoCo, whose first row has the least y."""
    rows, columns = int(model.hfield_nrow[number]), int(model.hfield_ncol[number])
    first = int(model.hfield_adr[number])
    x, y, top, depth = model.hfield_size[number].tolist()
    heights = top * np.array(model.hfield_data[first : first + rows * columns], float).reshape(rows, columns)[::-1]
    return terrain(heights, (2.0 * x, 2.0 * y), depth)
