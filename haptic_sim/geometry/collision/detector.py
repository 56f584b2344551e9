"""The collision detector: from the pose of a model to contact rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pinocchio as pin

from haptic_sim.contact_rows import ContactRows, RowArrays
from haptic_sim.dynamics.loose import first_loose, part_of, rotation_of
from haptic_sim.geometry.collision.broad_phase import BroadPhase, build_broad_phase, find_near
from haptic_sim.geometry.collision.clusters import merge_clusters
from haptic_sim.geometry.collision.features import HALFSPACE, PAIRS, Shapes, build_shapes
from haptic_sim.geometry.collision.field_contacts import BUDGET, FieldMemory, Held, build_memory
from haptic_sim.geometry.collision.manifold import fill_contacts
from haptic_sim.geometry.collision.narrow_phase import NarrowPhase
from haptic_sim.geometry.collision.planar import deepen
from haptic_sim.geometry.collision.regions import ManifoldMemory
from haptic_sim.geometry.collision.sink import Pairs, Sink, write_rows
from haptic_sim.geometry.collision.textured import Textures, apply_textures, build_textures
from haptic_sim.geometry.fields.field import SolidField, without_meshes
from haptic_sim.geometry.textures import TextureParameters
from haptic_sim.kernels import bind, kernel
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, array, part, record, shared, value

CLUSTERED = 4096  # contacts there is room for before clustering


class Overlap(NamedTuple):
    """Two geometry objects that overlap."""

    depth: float  # [m]
    first: str
    second: str


@record
class LooseShapes(NamedTuple):
    """Shapes of loose bodies (`haptic_sim.dynamics.loose`)."""

    shape: np.ndarray = shared("number of the shape", "loose", dtype=np.int64)
    q: np.ndarray = shared("first coordinate of its body", "loose", dtype=np.int64)
    R_BS: np.ndarray = shared("orientation in the axes of the body", "loose", 3, 3)
    p_BS: np.ndarray = shared("position in these axes", "loose", 3, unit="m")
    R_WB: np.ndarray = array("memory: orientation of a body", 3, 3)


@record
class DetectorArrays(NamedTuple):
    """Arrays of a detection for kernels: contacts go to `found`, merged from there to `sink`, and to rows."""

    shapes: Shapes = value("features of the shapes")
    pairs: Pairs = value("pairs of shapes that may touch")
    loose: LooseShapes = value("shapes that Pinocchio does not place")
    planar: bool = value("whether all motion is in the x-y plane")
    cluster: float = value("largest distance of contacts that are merged, 0: none are", unit="m")
    placement: np.ndarray = shared("rotation by columns and position of the shapes in the world", "shapes", 12)
    witness: np.ndarray = shared("results of coal, see `NarrowPhase`", "slots", "numbers")
    slot: np.ndarray = shared("row of a pair in `witness`", "pairs", dtype=np.int64)
    column: int = value("column of the normal in `witness`")
    bounds: np.ndarray = array("bounding boxes in the world, see `find_near`", "shapes", 6, unit="m")
    rests: np.ndarray = array("whether a shape is fixed or sleeps: two such do not touch", "shapes", dtype=np.bool_)
    bounded: np.ndarray = array("whether it rests, and has its box in `bounds`", "shapes", dtype=np.bool_)
    broad: BroadPhase = value("pairs by their shapes, and the order of the shapes")
    active: np.ndarray = array("whether coal measures the pair", "pairs", dtype=np.bool_)
    near: np.ndarray = array("pairs that may touch", "pairs", dtype=np.int64)
    changed: np.ndarray = array("pairs whose `active` changed", "pairs", dtype=np.int64)
    manifold: ManifoldMemory = part(ManifoldMemory, "memory of the manifolds")
    field_memory: FieldMemory = value("fields of shapes, and the memory of their contacts")
    textures: Textures = value("textures of shapes")
    order: np.ndarray = array("contacts of `found` in the order of their identities", "clustered", dtype=np.int64)
    member: np.ndarray = array("cluster that each of these contacts belongs to", "clustered", dtype=np.int64)
    found: Sink = value("contacts before they are merged; where none are, the same as `sink`")
    sink: Sink = value("contacts for the rows")
    rows: RowArrays = value("contact rows to fill")


class CollisionDetector:
    """Fills contact rows from the pose of a model.

    The same sequence of poses has the same contacts bit for bit; what came before a pose changes coal's
    nearest points by rounding (1e-17 m was seen).

    A contact is a point of B and a normal from A to B, where A and B are the bodies of the first and second geometry
    object of a collision pair. Its identity is made of the pair and of the features that touch (vertex and face, edge
    and edge, ...) and persists while these do. Rows are in the order of the pairs.
    """

    def __init__(
        self,
        model: pin.Model,
        geometry: pin.GeometryModel,
        restitution: np.ndarray,
        friction: np.ndarray,
        resistance: np.ndarray | None = None,
        *,
        planar: bool = False,
        cluster: float = 0.0,
        fields: Mapping[str, SolidField] | None = None,
        budget: int = BUDGET,
        textures: Mapping[str, TextureParameters] | None = None,
    ):
        """A detector of the collision pairs of `geometry`.

        Args:
            model: its joints are the bodies, 0 is what does not move.
            geometry: shapes, and the P pairs of them that may touch.
            restitution: coefficient of each pair, (P,).
            friction: static and kinetic coefficient of each pair, (P, 2).
            resistance: coefficients of rolling and torsional friction of each pair [m], (P, 2); 0 if left out.
            planar: all bodies move in the x-y plane only: contacts are put into it, and are one where they coincide.
                Boxes are as if deep across it, so that none passes another sideways.
            cluster: largest distance of contacts that are merged into one [m]; 0: none are (see `clusters`).
            fields: of the triangle meshes and of the solids that they may touch, by the names of the geometry objects
                (`fields_for`).
            budget: largest number of leaves of a shell that a detection visits (see `field_contacts`).
            textures: of shapes, by the names of the geometry objects.

        Raises:
            ValueError: a shape or pair that there are no contacts for, or an argument that does not fit; the message
                says which.
        """
        if not 0.0 <= cluster < math.inf:
            raise ValueError(f"cluster = {cluster:g} m: must be finite and >= 0")
        if planar:
            geometry = deepen(geometry)
        self._names = [item.name for item in geometry.geometryObjects]
        shapes = build_shapes(geometry)
        objects = np.array([(p.first, p.second) for p in geometry.collisionPairs], np.int64).reshape(-1, 2)
        for first, second in objects:
            if shapes.kind[first] == shapes.kind[second] == HALFSPACE:
                raise ValueError(f"pair {self._names[first]!r}, {self._names[second]!r}: two half-spaces cannot touch")
        count = len(objects)
        if not count < PAIRS:
            raise ValueError(f"{count} collision pairs: must be less than {PAIRS}")
        restitution, friction = np.array(restitution, float), np.array(friction, float)
        resistance = np.zeros((count, 2)) if resistance is None else np.array(resistance, float)
        if restitution.shape != (count,) or not friction.shape == resistance.shape == (count, 2):
            raise ValueError(
                f"restitution {restitution.shape}, friction {friction.shape} and resistance {resistance.shape}: must "
                f"be ({count},), ({count}, 2) and ({count}, 2), for each collision pair"
            )
        clustered_capacity = CLUSTERED if cluster else 0
        memory = build_memory(shapes.kind, objects, self._names, fields or {}, budget)
        loose, geometry = _take_loose(model, without_meshes(geometry))
        self._is_loose = loose.shape.size > 0
        self._narrow = NarrowPhase(part_of(model), geometry)
        self._arrays = allocate(
            DetectorArrays,
            {
                "shapes": len(shapes.kind),
                "pairs": count,
                "corners": int(np.diff(shapes.loop).max(initial=0)),
                "clustered": clustered_capacity,
            },
            shapes=shapes,
            broad=build_broad_phase(shapes.kind, objects),
            field_memory=memory,
            textures=build_textures(self._names, textures or {}, bool(planar)),
            pairs=Pairs(objects, shapes.body[objects], restitution, friction, resistance),
            loose=loose,
            planar=bool(planar),
            cluster=float(cluster),
            placement=self._narrow.placement,
            witness=self._narrow.witness,
            slot=self._narrow.slot,
            column=self._narrow.column,
            **dict.fromkeys(("found", "sink", "rows")),  # see `_pack`
        )
        self._single = allocate(Sink, {"contacts": clustered_capacity})
        self._sink = allocate(Sink, {"contacts": 0})
        self._rows: ContactRows | None = None

    @property
    def dropped(self) -> int:
        """Contacts of the last detection that there was no row for; the deepest are kept."""
        return int(self._sink.dropped[0] + self._single.dropped[0])

    @property
    def omitted(self) -> int:
        """Leaves of shells that the last detection had to leave out (`budget`)."""
        return int(self._arrays.field_memory.omitted.sum())

    @property
    def omissions(self) -> int:
        """Leaves of shells that all detections together had to leave out (`budget`)."""
        return int(self._arrays.field_memory.omissions[0])

    @property
    def visited(self) -> int:
        """Leaves of shells that the last detection has visited, of all sides of the pairs of fields."""
        return int(self._arrays.field_memory.visited.sum())

    def forget(self) -> None:
        """Let the next pose have nothing to do with the last one: no motion leads there, and no point has entered."""
        held = self._arrays.field_memory.held
        held.placed[:] = held.known[:] = False
        self.search()

    def search(self) -> None:
        """Search everything in the next detection: shapes, those that rest too, have been moved."""
        self._arrays.bounded[:] = False
        memory = self._arrays.field_memory
        memory.node_due[:] = memory.point_due[:] = -np.inf
        memory.tick[:] += 1  # the last distances of points are those of other poses
        memory.fresh[:] = True

    @property
    def state(self) -> Held:
        """State that the next detection depends on beside the pose; to be kept, and given back before `search`."""
        return self._arrays.field_memory.held

    @property
    def warming_margin(self) -> float:
        """Margin with which a detection calls what a trial calls [m]: all pairs are near, unless they are too many."""
        return 1e3 if self._narrow.has_all else 1e-3

    def set_materials(self, restitution: np.ndarray, friction: np.ndarray, resistance: np.ndarray) -> None:
        """Take other coefficients of the pairs, (P,), (P, 2) and (P, 2), from the next detection on."""
        pairs = self._arrays.pairs
        pairs.restitution[:], pairs.friction[:], pairs.resistance[:] = restitution, friction, resistance

    @property
    def rests(self) -> np.ndarray:
        """Whether a shape rests (shapes,); to be written: contacts of two shapes that rest are not found."""
        return self._arrays.rests

    @property
    def body(self) -> np.ndarray:
        """Joint of each shape, (shapes,)."""
        return self._arrays.shapes.body

    def detect(self, data: pin.Data, margin: float, rows: ContactRows, q: np.ndarray | None = None) -> None:
        """Fill `rows` with the contacts whose separation is less than `margin` [m].

        Args:
            data: of the model, with the placements of its joints up to date.
            margin: [m].
            rows: filled, in axes of the world.
            q: configuration; needed where bodies are loose (`haptic_sim.dynamics.loose`), on which `data` says nothing.
        """
        if rows is not self._rows:
            self._rows, self._sink = rows, allocate(Sink, {"contacts": rows.capacity})
            self._packed = packed = self._pack(self._sink, rows, self._arrays.cluster)
            self._bound = bind(_search, packed, 0.0), bind(_write, packed, 0, 0.0)
        search, write = self._bound
        rows.count = self._find(data, float(margin), self._packed, q, search, write)

    def deepest_overlap(self, data: pin.Data) -> Overlap | None:
        """The two shapes that overlap most, None if none do; no body is loose."""
        rows = ContactRows(1)  # the deepest contact is kept
        packed = self._pack(allocate(Sink, {"contacts": 1}), rows, 0.0)
        if not self._find(data, 0.0, packed, None, _search, _write):
            return None
        first, second = self._arrays.pairs.objects[rows.wall[0]]
        return Overlap(-float(rows.separation[0]), self._names[first], self._names[second])

    def check_start(self, data: pin.Data, allowed: float) -> None:
        """Refuse a pose in which shapes overlap.

        Raises:
            ValueError: bodies interpenetrate deeper than `allowed` [m]; the message names the two shapes.
        """
        overlap = self.deepest_overlap(data)
        if overlap is not None and not overlap.depth <= allowed:
            raise ValueError(
                f"{overlap.first!r} and {overlap.second!r} interpenetrate at the start by {overlap.depth:.3g} m: "
                f"must be at most {allowed:g} m"
            )

    def _pack(self, sink: Sink, rows: ContactRows, cluster: float) -> Packed:
        """Pack the arrays of the kernels."""
        found = self._single if cluster > 0.0 else sink
        return Packed(self._arrays._replace(cluster=cluster, found=found, sink=sink, rows=rows.arrays))

    def _find(
        self,
        data: pin.Data,
        margin: float,
        packed: Packed,
        q: np.ndarray | None,
        search: Callable[..., Any],
        write: Callable[..., Any],
    ) -> int:
        """Broad phase, coal where shapes are near that it measures, manifolds; returns the number of contacts.

        `search` and `write` are the kernels of these names, or their compiled code for arguments of these types.
        """
        narrow = self._narrow
        narrow.place(data)
        if self._is_loose:
            assert q is not None
            _place_loose(packed, q)
            narrow.take_placements()
        near, changes, measured, count = search(packed, margin)
        if changes:
            for pair in self._arrays.changed[:changes].tolist():
                narrow.switch(pair, bool(self._arrays.active[pair]))
            if narrow.witness is not self._arrays.witness:
                placement, witness = narrow.placement, narrow.witness
                self._arrays, self._rows = self._arrays._replace(placement=placement, witness=witness), None
                packed, write = Packed(packed.lent._replace(placement=placement, witness=witness)), _write
        if measured:
            narrow.measure()
            count = write(packed, near, margin)
        return count


def _take_loose(model: pin.Model, geometry: pin.GeometryModel) -> tuple[LooseShapes, pin.GeometryModel]:
    """The shapes of loose bodies, and a geometry in which they are on joint 0; the same one where there are none."""
    first = first_loose(model)
    numbers = [i for i, one in enumerate(geometry.geometryObjects) if one.parentJoint >= first]
    shapes = [geometry.geometryObjects[i] for i in numbers]
    loose = allocate(
        LooseShapes,
        shape=np.array(numbers, np.int64),
        q=np.array([model.idx_qs[one.parentJoint] for one in shapes], np.int64),
        R_BS=np.array([one.placement.rotation for one in shapes]).reshape(-1, 3, 3),
        p_BS=np.array([one.placement.translation for one in shapes]).reshape(-1, 3),
    )
    if numbers:
        geometry = geometry.copy()
        for i in numbers:
            geometry.geometryObjects[i].parentJoint = 0
    return loose, geometry


@kernel
def _place_loose(packed, q):
    """Fill in the placements of the shapes of loose bodies."""
    scene = packed.arrays
    loose, placement = scene.loose, scene.placement
    R, R_BS, p_BS = loose.R_WB, loose.R_BS, loose.p_BS
    for n in range(loose.shape.shape[0]):
        g, first = loose.shape[n], loose.q[n]
        rotation_of(q, first + 3, R)
        for i in range(3):
            for j in range(3):
                s = R[i, 0] * R_BS[n, 0, j] + R[i, 1] * R_BS[n, 1, j] + R[i, 2] * R_BS[n, 2, j]
                placement[g, 3 * j + i] = s
            s = R[i, 0] * p_BS[n, 0] + R[i, 1] * p_BS[n, 1] + R[i, 2] * p_BS[n, 2]
            placement[g, 9 + i] = q[first + i] + s


@kernel(error_model="numpy")
def _search(packed, margin):
    """Find near pairs, as `find_near`; without pairs to measure, also write the contacts: `count`."""
    near, changes, measured = find_near(packed.arrays, margin)
    count = _write(packed, near, margin) if measured == 0 else 0
    return near, changes, measured, count


@kernel(error_model="numpy")
def _write(packed, near, margin):
    """Write the contacts of the first `near` near pairs into rows; returns how many."""
    scene = packed.arrays
    fill_contacts(scene, near, margin)
    if scene.cluster > 0.0:
        merge_clusters(scene)
    if scene.textures.some:
        apply_textures(scene)
    return write_rows(scene)
