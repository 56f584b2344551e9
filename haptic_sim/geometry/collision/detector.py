"""The collision detector: from the pose of a model to contact rows."""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
import pinocchio as pin

from haptic_sim.contact_rows import ContactRows, RowArrays
from haptic_sim.geometry.collision.broad_phase import find_near
from haptic_sim.geometry.collision.clusters import merge_clusters
from haptic_sim.geometry.collision.features import HALFSPACE, PAIRS, Shapes, build_shapes
from haptic_sim.geometry.collision.manifold import fill_contacts
from haptic_sim.geometry.collision.narrow_phase import NarrowPhase
from haptic_sim.geometry.collision.planar import deepen
from haptic_sim.geometry.collision.regions import Work
from haptic_sim.geometry.collision.sink import Pairs, Sink, write_rows
from haptic_sim.packed import Packed

CLUSTERED = 4096  # contacts there is room for before clustering


class Overlap(NamedTuple):
    """Two geometry objects that overlap."""

    depth: float  # [m]
    first: str
    second: str


class DetectorArrays(NamedTuple):
    """What a detection works on, for kernels; see `find_near`, `fill_contacts` and `merge_clusters`.

    Attributes:
        single: contacts before they are merged.
    """

    placement: np.ndarray
    shapes: Shapes
    pairs: Pairs
    bounds: np.ndarray
    active: np.ndarray
    near: np.ndarray
    changed: np.ndarray
    witness: np.ndarray
    column: int
    planar: bool
    work: Work
    cluster: float
    single: Sink
    order: np.ndarray
    member: np.ndarray


class Detection(NamedTuple):
    """A detection into certain rows, for kernels: contacts go into a sink of as much room, and from there to rows."""

    arrays: DetectorArrays
    sink: Sink
    rows: RowArrays


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
        *,
        planar: bool = False,
        cluster: float = 0.0,
    ):
        """A detector of the collision pairs of `geometry`.

        Args:
            model: its joints are the bodies, 0 is what does not move.
            geometry: shapes, and the P pairs of them that may touch.
            restitution: coefficient of each pair, (P,).
            friction: static and kinetic coefficient of each pair, (P, 2).
            planar: all bodies move in the x-y plane only: contacts are put into it, and are one where they coincide.
                Boxes are as if deep across it, so that none passes another sideways.
            cluster: largest distance of contacts that are merged into one [m]; 0: none are (see `clusters`).

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
        if restitution.shape != (count,) or friction.shape != (count, 2):
            raise ValueError(
                f"restitution {restitution.shape} and friction {friction.shape}: must be ({count},) and ({count}, 2), "
                "for each collision pair"
            )
        room = CLUSTERED if cluster else 0
        self._pairs = Pairs(objects, shapes.body[objects], restitution, friction)
        self._narrow = NarrowPhase(model, geometry)
        self._active, self._changed = np.zeros(count, np.bool_), np.zeros(count, np.int64)
        self._arrays = DetectorArrays(
            placement=self._narrow.placement,
            shapes=shapes,
            pairs=self._pairs,
            bounds=np.zeros((len(shapes.kind), 6)),
            active=self._active,
            near=np.zeros(count, np.int64),
            changed=self._changed,
            witness=self._narrow.witness,
            column=self._narrow.column,
            planar=bool(planar),
            work=Work.allocate(int(np.diff(shapes.loop).max(initial=0))),
            cluster=float(cluster),
            single=Sink.allocate(room),
            order=np.zeros(room, np.int64),
            member=np.zeros(room, np.int64),
        )
        self._rows: ContactRows | None = None
        self._sink = Sink.allocate(0)

    @property
    def dropped(self) -> int:
        """Contacts of the last detection that there was no row for; the deepest are kept."""
        return int(self._sink.counts[1] + self._arrays.single.counts[1])

    def set_materials(self, restitution: np.ndarray, friction: np.ndarray) -> None:
        """Take other coefficients of the pairs, (P,) and (P, 2), from the next detection on."""
        self._pairs.restitution[:], self._pairs.friction[:] = restitution, friction

    def detect(self, data: pin.Data, margin: float, rows: ContactRows) -> None:
        """Fill `rows` with the contacts whose separation is less than `margin` [m].

        Args:
            data: of the model, with the placements of its joints up to date.
            margin: [m].
            rows: filled, in axes of the world.
        """
        if rows is not self._rows:
            self._rows, self._sink = rows, Sink.allocate(rows.capacity)
            self._packed = Packed(Detection(self._arrays, self._sink, rows.arrays))
        rows.count = self._find(data, margin, self._packed)

    def deepest_overlap(self, data: pin.Data) -> Overlap | None:
        """The two shapes that overlap most, None if none do."""
        rows = ContactRows(1)  # the deepest contact is kept
        alone = Detection(self._arrays._replace(cluster=0.0), Sink.allocate(1), rows.arrays)
        if not self._find(data, 0.0, Packed(alone)):
            return None
        first, second = self._pairs.objects[rows.wall[0]]
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

    def _find(self, data: pin.Data, margin: float, packed: Packed) -> int:
        """Broad phase, coal where shapes are near that it measures, manifolds; returns the number of contacts."""
        narrow = self._narrow
        narrow.place(data)
        near, changes, measured, count = _search(packed, float(margin))
        if changes:
            for pair in self._changed[:changes].tolist():
                narrow.switch(pair, bool(self._active[pair]))
        if measured:
            narrow.measure()
            count = _write(packed, near, float(margin))
        return count


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _search(packed, margin):
    """As `find_near`; if there is nothing to measure, also as `_write`, whose result comes last."""
    a = packed.arrays.arrays
    near, changes, measured = find_near(
        a.placement, a.shapes, a.pairs.objects, margin, a.bounds, a.active, a.near, a.changed
    )
    count = _write(packed, near, margin) if measured == 0 else 0
    return near, changes, measured, count


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _write(packed, near, margin):
    """Write the contacts of the first `near` near pairs into rows; returns how many."""
    detection = packed.arrays
    a, sink = detection.arrays, detection.sink
    found = a.single if a.cluster > 0.0 else sink
    fill_contacts(
        a.near, near, a.placement, a.shapes, a.pairs.objects, a.witness, a.column, a.planar, margin, a.work, found
    )
    if a.cluster > 0.0:
        merge_clusters(found, a.pairs.body, a.cluster, a.order, a.member, sink)
    return write_rows(sink, a.pairs, detection.rows)
