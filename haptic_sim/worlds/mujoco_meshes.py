"""Meshes of MuJoCo's worlds that are not convex: what MuJoCo collides for them, and what a hand feels of them.

MuJoCo takes the convex hull of a geom of type `mesh`. `scene.meshes` lets it take convex pieces: several geoms without
mass, which are added to the body of the geom; the geom stays, with its mass, and collides no more. With `field` surveys
feel the mesh itself, by a signed distance field, as in our own worlds. Geoms of type `sdf` are not convex in MuJoCo,
either: it samples their distances in an octree, and lists contacts where they overlap. So surveys feel their meshes by
a field in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from haptic_sim.geometry.fields.distances import FieldError
from haptic_sim.geometry.fields.field import SolidField
from haptic_sim.geometry.mesh_files import MeshError, merged
from haptic_sim.geometry.meshes import CONVEX_TOLERANCE, NotConvexError, Taken, remedy, take
from haptic_sim.parameters import ParameterError, listed
from haptic_sim.worlds.compiled import library
from haptic_sim.worlds.parameters import MujocoParameters

LISTED = 20  # names in a message
MOST_POINTS = 4000  # of a mesh whose distance from its hull is looked at


class MujocoMesh(NamedTuple):
    """A geom with a mesh that is not convex.

    Attributes:
        geom: number of the geom.
        pieces: numbers of the geoms that MuJoCo collides for it: itself, or its convex pieces.
        shape: what MuJoCo collides, in words.
        error: how far that is from the mesh [m]; None: not known.
        taken: the mesh with the field by which it is felt; None: it is felt as MuJoCo collides it.
    """

    geom: int
    pieces: tuple[int, ...]
    shape: str
    error: float | None
    taken: Taken | None = None

    @property
    def field(self) -> SolidField:
        """Distance field of the mesh."""
        assert self.taken is not None and self.taken.field is not None
        return self.taken.field


def collides(model: Any, geom: int) -> bool:
    """Whether a geom may touch another."""
    paired = model.npair and geom in (*model.pair_geom1, *model.pair_geom2)
    return bool(model.geom_contype[geom] or model.geom_conaffinity[geom] or paired)


def mesh_of(model: Any, geom: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (V, 3) [m] and triangles (T, 3) of the mesh of a geom, in the axes of the geom."""
    mesh = int(model.geom_dataid[geom])
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    face, faces = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
    return np.array(model.mesh_vert[first : first + count], float), np.array(model.mesh_face[face : face + faces])


def geom_name(model: Any, geom: int) -> str:
    """Name of a geom; of one without, that of its mesh, or its number."""
    mesh = int(model.geom_dataid[geom]) if model.geom_type[geom] in _of_meshes() else -1
    return model.geom(geom).name or (model.mesh(mesh).name if mesh >= 0 else "") or f"number {geom}"


def _of_meshes() -> tuple[int, int]:
    """Types of geoms with a mesh."""
    kinds = library().mjtGeom
    return int(kinds.mjGEOM_MESH), int(kinds.mjGEOM_SDF)


def with_pieces(path: Path, model: Any, parameters: MujocoParameters, balanced: Iterable[int]) -> tuple[Any, Any]:
    """The model of a file once more, with convex pieces, or bodies whose weight is balanced; and its meshes.

    Args:
        path: of the file.
        model: of the file.
        parameters: `meshes` and `error` are read.
        balanced: numbers of these bodies; MuJoCo has to know of them when it compiles.

    Raises:
        ParameterError: a mesh cannot be taken so.
    """
    mujoco, numbers = library(), set(balanced)
    found = dict(_concave(model, parameters)) if parameters.meshes != "hull" else {}
    pieces = {geom: one for geom, (one, _) in found.items() if one is not None}
    specification = mujoco.MjSpec.from_file(str(path))
    specification.compile()  # numbers the bodies and geoms
    for body in specification.bodies:
        if body.id in numbers:
            body.gravcomp = 1.0
    geoms = {geom.id: geom for geom in specification.geoms}
    added = {number: _add_pieces(mujoco, specification, model, geoms[number], one) for number, one in pieces.items()}
    compiled = specification.compile()
    meshes = []
    for number, (one, felt) in found.items():
        geom = int(geoms[number].id)
        if one is None:
            meshes.append(MujocoMesh(geom, (geom,), "its convex hull", hull_distance(compiled, geom), felt))
            continue
        compiled.geom_contype[geom] = compiled.geom_conaffinity[geom] = 0
        error = one.error or 0.0
        shape = f"{len(one.corners)} convex pieces"
        meshes.append(MujocoMesh(geom, tuple(int(piece.id) for piece in added[number]), shape, error, felt))
    return compiled, tuple(meshes)


def _concave(model: Any, parameters: MujocoParameters) -> Iterator[tuple[int, tuple[Taken | None, Taken | None]]]:
    """Geoms with meshes that are not convex: their pieces, None if there are none; and the field that is asked for."""
    kept: dict[int, tuple[Taken | None, Taken | None] | None] = {}
    for geom in range(model.ngeom):
        if int(model.geom_type[geom]) != _of_meshes()[0] or not collides(model, geom):
            continue
        mesh = int(model.geom_dataid[geom])
        if mesh not in kept:
            try:
                kept[mesh] = _taken(model, geom, parameters)
            except (MeshError, FieldError) as error:
                what = f"scene.meshes = {parameters.meshes}: {geom_name(model, geom)}: {error}"
                raise ParameterError([f"{what}{remedy(error, 'scene.meshes')}"]) from error
        if (found := kept[mesh]) is not None:
            yield geom, found


def _taken(model: Any, geom: int, parameters: MujocoParameters) -> tuple[Taken | None, Taken | None] | None:
    """Pieces and field of a geom's mesh; None if it is convex."""
    mesh = merged(*mesh_of(model, geom))
    if parameters.meshes == "pieces":
        pieces = take(mesh, "pieces", parameters.error)
        return None if pieces.chosen == "itself" else (pieces, None)
    try:
        if take(mesh, "connected").chosen == "itself":
            return None
    except (MeshError, NotConvexError):
        pass  # a field needs no closed surface
    try:
        parts = take(mesh, "pieces", parameters.error)
    except MeshError:  # an open or a large mesh: MuJoCo has its hull
        parts = None
    return parts, take(mesh, "field", parameters.error)


def _add_pieces(mujoco: Any, specification: Any, model: Any, geom: Any, taken: Taken) -> list[Any]:
    """Give a body the pieces of a geom, and pairs of the geom to them."""
    number, added = int(geom.id), []
    name = geom.name or f"geom{number}"
    for k, corners in enumerate(taken.corners):
        piece = f"{name}/piece{k}"
        mesh = specification.add_mesh(name=piece, uservert=corners.ravel().tolist())
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX
        one = geom.parent.add_geom(name=piece, type=mujoco.mjtGeom.mjGEOM_MESH, meshname=piece, mass=0.0)
        one.pos, one.quat = model.geom_pos[number], model.geom_quat[number]
        for key in ("contype", "conaffinity", "condim", "priority", "friction", "solmix", "solref", "solimp"):
            setattr(one, key, getattr(model, f"geom_{key}")[number])
        one.margin, one.gap, one.group = (getattr(model, f"geom_{key}")[number] for key in ("margin", "gap", "group"))
        added.append(one)
    for pair in list(specification.pairs):
        if geom.name and geom.name in (pair.geomname1, pair.geomname2):
            for one in added:
                ends = [one.name if end == geom.name else end for end in (pair.geomname1, pair.geomname2)]
                copy = specification.add_pair(geomname1=ends[0], geomname2=ends[1])
                for key in ("condim", "friction", "solref", "solreffriction", "solimp", "margin", "gap"):
                    setattr(copy, key, getattr(pair, key))
            specification.delete(pair)
    return added


def sampled_meshes(model: Any) -> tuple[MujocoMesh, ...]:
    """The geoms of type `sdf` with a mesh that collide, with their fields; of others MuJoCo alone knows the shape.

    Raises:
        ParameterError: a mesh has no field.
    """
    found, kept = [], dict[int, Taken]()
    for geom in range(model.ngeom):
        mesh = int(model.geom_dataid[geom])
        sampled = int(model.geom_type[geom]) == _of_meshes()[1] and model.geom_plugin[geom] < 0 and mesh >= 0
        if not sampled or not collides(model, geom):
            continue
        try:
            taken = kept.setdefault(mesh, take(merged(*mesh_of(model, geom)), "field"))
        except (MeshError, FieldError) as error:
            raise ParameterError([f"scene.file: geom {geom_name(model, geom)}: {error}"]) from error
        found.append(MujocoMesh(geom, (geom,), "samples in an octree", octree_error(model, geom), taken))
    return tuple(found)


def octree_error(model: Any, geom: int) -> float | None:
    """Largest distance that MuJoCo's octree has where the surface of a geom's mesh is [m]; None: it cannot be read.

    Looked at in corners and centres of triangles. A leaf interpolates linearly between the values in its eight corners.
    """
    if not hasattr(model, "oct_coeff"):
        return None
    mesh = int(model.geom_dataid[geom])
    first, count = int(model.mesh_octadr[mesh]), int(model.mesh_octnum[mesh])
    if count == 0:
        return None
    boxes, child, values = (
        np.array(table[first : first + count]) for table in (model.oct_aabb, model.oct_child, model.oct_coeff)
    )
    vertices, triangles = mesh_of(model, geom)
    points = np.concatenate([vertices, vertices[triangles].mean(axis=1)])
    node = np.zeros(len(points), np.int64)
    place = 1 << np.arange(3)
    while True:
        u = (points - boxes[node, :3] + boxes[node, 3:]) / (2.0 * boxes[node, 3:])
        below = child[node, 0] >= 0
        if not below.any():
            break
        node[below] = child[node[below], ((u[below] > 0.5) * place).sum(axis=1)]
    corner = (np.arange(8)[:, None] & place) > 0
    weights = np.where(corner, u[:, None], 1.0 - u[:, None]).prod(axis=2)
    return float(np.abs((weights * values[node]).sum(axis=1)).max())


def hull_distance(model: Any, geom: int) -> float:
    """Largest depth of corners and centres of triangles of a geom's mesh in MuJoCo's hull of it [m]."""
    start = int(model.mesh_graphadr[model.geom_dataid[geom]])
    if start < 0:  # a mesh that does not collide
        return 0.0
    vertices, triangles = mesh_of(model, geom)
    corners, faces = model.mesh_graph[start : start + 2].tolist()
    begin = start + 2 + 3 * corners + 3 * faces  # behind places and numbers of corners, and their neighbours
    hull = vertices[np.array(model.mesh_graph[begin : begin + 3 * faces]).reshape(-1, 3)]
    normals = np.cross(hull[:, 1] - hull[:, 0], hull[:, 2] - hull[:, 0])
    sizes = np.linalg.norm(normals, axis=1)
    sound = sizes > 1e-9 * sizes.max()
    normals = normals[sound] / sizes[sound, None]
    normals *= np.where(np.einsum("ij,ij->i", normals, hull[sound, 0] - vertices.mean(axis=0)) < 0.0, -1.0, 1.0)[
        :, None
    ]
    offsets = np.einsum("ij,ij->i", normals, hull[sound, 0])
    points = np.concatenate([vertices, vertices[triangles].mean(axis=1)])
    points = points[:: max(1, len(points) // MOST_POINTS)]
    return max(0.0, max(float((offsets - normals @ point).min()) for point in points))


def mesh_notes(model: Any, meshes: Iterable[MujocoMesh], touching: Iterable[int], remedies: bool) -> Iterator[str]:
    """Notes on meshes that are not convex, and on the shapes that MuJoCo collides.

    Args:
        model: MuJoCo's.
        meshes: that are not convex, as they are taken.
        touching: geoms that may touch the tool, and its own.
        remedies: whether `scene.meshes` can be set.
    """
    pieces = {piece for mesh in meshes for piece in mesh.pieces}
    for mesh in meshes:
        far = "" if mesh.error is None else f", up to {mesh.error:.2g} m away from the mesh"
        if mesh.taken is None:
            yield f"{geom_name(model, mesh.geom)}: collides as {mesh.shape}{far}"
        else:
            felt = f"is felt as its mesh ({mesh.taken.summary})"
            yield f"{geom_name(model, mesh.geom)}: {felt}; what MuJoCo moves collides as {mesh.shape}{far}"
    hulls: dict[str, float] = {}
    for geom in touching:
        if int(model.geom_type[geom]) == _of_meshes()[0] and geom not in pieces:
            vertices, _ = mesh_of(model, geom)
            deep = hull_distance(model, geom)
            if deep > CONVEX_TOLERANCE * float(np.linalg.norm(np.ptp(vertices, axis=0))):
                hulls[geom_name(model, geom)] = deep
    if hulls:
        instead = "; scene.meshes=field lets the meshes be felt" if remedies else ""
        names = listed((f"{name} by {deep:.2g} m" for name, deep in hulls.items()), LISTED)
        yield f"collide and are felt as convex hulls, in which their meshes lie up to so deep: {names}{instead}"


def groups_of(meshes: Iterable[MujocoMesh]) -> Mapping[int, MujocoMesh]:
    """Meshes that are felt by fields, by the geoms that MuJoCo collides for them."""
    return {piece: mesh for mesh in meshes if mesh.taken is not None for piece in mesh.pieces}
