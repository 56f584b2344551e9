"""Narrow phase: coal's signed distance of the near pairs, read without a Python object for each.

Pinocchio keeps placements and distance results in C++ vectors. The elements' arrays that Python sees are views
of that memory, so one strided array over the whole vector is too, and a kernel reads all results from it: a call
of `computeDistances` with only the near pairs active, and no more work in Python (per pair, the three attributes
would cost 1.3 us and `pin.computeDistance` 3.5 us, where coal takes 0.4-3 us for two boxes). Whether the memory is
laid out so is tested when the detector is built; if it is not, attributes are copied instead.
"""

from __future__ import annotations

import numpy as np
import pinocchio as pin

PLACEMENT = 12  # rotation by columns, position
# Of coal's distances of shapes that are apart [m]: at its own 1e-6 normals on rims are wrong by up to 0.08 rad. That of
# overlapping shapes stays at 1e-6: below, its algorithm (EPA) fails on two cylinders once in 30 times.
TOLERANCE = 1e-9
SLOTS = 4096  # pairs that coal has memory for at first, some 14 kB each
WITNESS = 9  # normal from first to second, nearest point of the first, of the second


class NarrowPhase:
    """coal's distances of pairs that are switched on.

    Attributes:
        placement: of the geometry objects in the world, (G, 12): rotation by columns, position [m].
        witness: (slots, .): of a pair from column `column` on the normal from first to second, and their nearest
            points [m]; of pairs that are not switched on it is old.
        slot: row of `witness` of each pair, (P,) int64; where there are more pairs than slots, of those that are on,
            and witness and placement are others when a switch has made more slots.
    """

    def __init__(self, model: pin.Model, geometry: pin.GeometryModel, *, share: bool = True, slots: int = SLOTS):
        self._model, self._geometry, self._share = model, geometry, share
        self._pairs = [(pair.first, pair.second) for pair in geometry.collisionPairs]
        self.slot = np.full(len(self._pairs), -1, np.int64)
        self._pair_in: dict[int, int] = {}  # by slot, where slots are fewer than pairs
        self._allocate(min(len(self._pairs), slots))

    def _allocate(self, slots: int) -> None:
        """Make coal's memory for so many pairs at a time: of the first ones, until they are exchanged."""
        geometry, model = self._geometry, self._model
        self._all = slots == len(self._pairs)
        if self._all:
            self.slot[:] = np.arange(slots)
        else:
            geometry = pin.GeometryModel()
            for item in self._geometry.geometryObjects:
                geometry.addGeometryObject(item)
            for first, second in self._pairs[:slots]:
                geometry.addCollisionPair(pin.CollisionPair(first, second))
            self.slot[:] = -1
        self._slots, self._free = geometry, list(range(slots - 1, -1, -1))
        self._data = geometry.createData()
        for request in self._data.distanceRequests:
            request.gjk_tolerance = TOLERANCE
        objects = geometry.ngeoms
        model_data = model.createData()
        pin.forwardKinematics(model, model_data, pin.neutral(model))
        pin.updateGeometryPlacements(model, model_data, geometry, self._data)
        pin.computeDistances(geometry, self._data)  # results to compare the memory with
        self._results = [self._data.distanceResults[i] for i in range(slots)]
        self._placements = [self._data.oMg[i] for i in range(objects)]
        self.column = 0
        placement, witness = self._shared() if self._share else (None, None)
        self._copy_placement, self._copy_witness = placement is None, witness is None and slots > 0
        self.placement = np.zeros((objects, PLACEMENT)) if placement is None else placement
        if witness is None:
            self.column, witness = 0, np.zeros((slots, WITNESS))
        self.witness = witness
        self._data.deactivateAllCollisionPairs()
        self._active = self._data.activeCollisionPairs

    @property
    def has_all(self) -> bool:
        """Whether there is memory for all pairs at a time."""
        return self._all

    @property
    def shared(self) -> bool:
        """Whether results are read in place."""
        return not (self._copy_placement or self._copy_witness)

    def place(self, data: pin.Data) -> None:
        """Move the shapes to where `data` has their joints."""
        pin.updateGeometryPlacements(self._model, data, self._slots, self._data)
        if self._copy_placement:
            for row, pose in zip(self.placement, self._placements, strict=True):
                row[:9], row[9:] = pose.rotation.ravel(order="F"), pose.translation

    def take_placements(self) -> None:
        """Take what others have written into `placement`."""
        if self._copy_placement:
            for row, pose in zip(self.placement, self._placements, strict=True):
                pose.rotation, pose.translation = row[:9].reshape(3, 3, order="F"), row[9:]

    def switch(self, pair: int, on: bool) -> None:
        """Switch a pair on or off."""
        if not self._all and on:
            self._take_slot(pair)
        slot = int(self.slot[pair])
        self._active[slot] = on
        if not self._all and not on:
            self.slot[pair] = -1
            del self._pair_in[slot]
            self._free.append(slot)

    def _take_slot(self, pair: int) -> None:
        """Give a pair a slot; if none is free, make twice as many."""
        if not self._free:
            known, placement = sorted(self._pair_in.values()), self.placement
            self._pair_in.clear()
            self._allocate(min(2 * len(self._active), len(self._pairs)))
            self.placement[:] = placement
            self.take_placements()
            for one in known:
                if not self._all:
                    self._take_slot(one)
                self._active[int(self.slot[one])] = True
            if self._all:
                return
        slot, (first, second) = self._free.pop(), self._pairs[pair]
        self.slot[pair], self._pair_in[slot] = slot, pair
        objects = self._slots.geometryObjects
        self._slots.collisionPairs[slot] = pin.CollisionPair(first, second)
        self._data.distance_functors[slot] = pin.ComputeDistance(objects[first], objects[second])

    def measure(self) -> None:
        """Distances of the pairs that are on."""
        pin.computeDistances(self._slots, self._data)
        if self._copy_witness:
            for slot, result in enumerate(self._results):
                if self._active[slot]:
                    self.witness[slot] = _witness(result)

    def _shared(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Views of Pinocchio's memory, None where it is not laid out as expected."""
        placement = witness = None
        if self._placements:
            placement = _rows([p.rotation for p in self._placements], PLACEMENT)
            if placement is not None and placement.shape[1] == PLACEMENT:
                known = [np.concatenate([p.rotation.ravel(order="F"), p.translation]) for p in self._placements]
                placement = placement if np.array_equal(placement, known) else None
        if self._results:
            starts = [r.cached_gjk_guess for r in self._results]  # the first member; the normal comes later
            self.column = (_place(self._results[0].normal) - _place(starts[0])) // 8
            witness = _rows(starts, self.column + WITNESS) if self.column >= 0 else None
            if witness is not None:
                known = [_witness(r) for r in self._results]
                part = witness[:, self.column : self.column + WITNESS]
                witness = witness if np.array_equal(part, known, equal_nan=True) else None
        return placement, witness


def _witness(result) -> np.ndarray:
    return np.concatenate([result.normal, result.getNearestPoint1(), result.getNearestPoint2()])


def _place(x: np.ndarray) -> int:
    return int(x.__array_interface__["data"][0])


def _rows(each: list[np.ndarray], least: int) -> np.ndarray | None:
    """A view with a row of at least so many numbers for each array, from where it begins to where the next does.

    None if they do not lie at equal distances, or are copies.
    """
    places = [_place(x) for x in each]
    stride = places[1] - places[0] if len(places) > 1 else 8 * least
    equal = places == [places[0] + k * stride for k in range(len(places))]
    if each[0].flags.owndata or not equal or stride % 8 or stride < 8 * least:
        return None
    return np.lib.stride_tricks.as_strided(each[0].ravel(order="K"), (len(places), stride // 8), (stride, 8))
