"""Fields as parts: what the law of a field is asked, what it answers, and the class of its parameters.

The law of a field is a kernel, of this package or of another one,

    law(place, keys, answer)

which is called once in a step, in the servo thread, for the point of a body at which the field acts. It reads

- `place`: a `FieldPlace`, where that point is and how it moves;
- `keys` (n,): the numbers that `FieldParameters.numbers` returns;

and fills in `answer`, a `FieldAnswer`, in which everything is 0 before the call. Nothing may be allocated. The force of
the field on the body is

    force - damping (v - medium) + push,

and its torque -turn_damping (w - spin). The parts differ in what they are in the energy balance:

- `force` is minus the gradient of `stored`, the energy that the field has stored where the point is. `stiffness` is an
  upper bound of how fast it grows, the largest eigenvalue of its derivative;
- `damping` is symmetric and positive semidefinite: it dissipates against a medium of velocity `medium`, which supplies
  what it drags;
- `push` is a force whose work is supplied.

An answer that is not finite is no field in that step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import AfterValidator

from haptic_sim.geometry.shapes import AnyShapeParameters, MeshParameters, Vector, locate
from haptic_sim.laws import numbers_among
from haptic_sim.parameters import Parameters, quantity
from haptic_sim.parts import Kind, Part
from haptic_sim.records import array, record

Interval = tuple[float, float | None]


@record
class FieldPlace(NamedTuple):
    """The point of a body at which a field acts, in world axes."""

    position: np.ndarray = array("position of the point", 3, unit="m")
    velocity: np.ndarray = array("velocity of the point", 3, unit="m/s")
    angular_velocity: np.ndarray = array("angular velocity of the body", 3, unit="rad/s")


@record
class FieldAnswer(NamedTuple):
    """Result of a field law at a point, in world axes."""

    force: np.ndarray = array("force of the stored energy, minus its gradient", 3, unit="N")
    stored: np.ndarray = array("stored energy, 0 at the least", 1, unit="J")
    far: np.ndarray = array("stored energy to which the field tends far away, where a region ends it", 1, unit="J")
    stiffness: np.ndarray = array("upper bound of the stiffness of `force`", 1, unit="N/m")
    damping: np.ndarray = array("damping matrix, symmetric and positive semidefinite", 3, 3, unit="N s/m")
    medium: np.ndarray = array("velocity of the medium that damps", 3, unit="m/s")
    turn_damping: np.ndarray = array("rotational damping", 1, unit="N m s/rad")
    spin: np.ndarray = array("angular velocity of the medium", 3, unit="rad/s")
    push: np.ndarray = array("force whose work is supplied", 3, unit="N")


def _in_order(intervals: tuple[Interval, ...]) -> tuple[Interval, ...]:
    if not intervals:
        raise ValueError("needs at least one interval; leave it out for a field that always acts")
    before = 0.0
    for i, (on, off) in enumerate(intervals):
        if not on >= before:
            raise ValueError(f"[{i}][0] = {on:g} s: must be at least {before:g} s")
        if off is None and i + 1 < len(intervals):
            raise ValueError(f"[{i}][1] = null: only the last interval lasts until the end")
        if off is not None and not off > on:
            raise ValueError(f"[{i}][1] = {off:g} s: must be after its beginning at {on:g} s")
        before = on if off is None else off
    return intervals


class Drawn(NamedTuple):
    """Drawn parts of a field, in the axes of the world.

    Attributes:
        shapes: regions and surfaces.
        points: of a curve, or one alone, (N, 3) [m]; N = 0: none.
    """

    shapes: tuple[Any, ...] = ()
    points: np.ndarray = np.zeros((0, 3))


class FieldParameters(Part):
    """Parameters of a field that acts on a point of a body."""

    LAW: ClassVar[Any] = None
    """The kernel of the law, see the module."""

    body: str | None = quantity(
        None, description="Body on which the field acts: NAME, or FILE/LINK; left out: the tool"
    )
    at: Vector | None = quantity(
        None,
        unit="m",
        description="Point of the body at which the field acts, in its axes; left out: the hold point of the tool, of "
        "another body its centre of mass",
    )
    region: AnyShapeParameters | None = quantity(
        None, description="Shape within which the field acts, placed in the world; left out: everywhere"
    )
    edge: float = quantity(
        0.005, unit="m", description="Depth within the region over which the field fades in", ge=1e-6, le=10.0
    )
    active: Annotated[tuple[Interval, ...], AfterValidator(_in_order)] | None = quantity(
        None,
        unit="s",
        description="Intervals [from, to] in which the field acts, to = null: until the end; left out: always",
    )
    fade: float = quantity(0.05, unit="s", description="Duration of switching the field on or off", ge=1e-3, le=100.0)

    def numbers(self, folder: Path) -> np.ndarray:
        """Numbers that the law gets, (n,); by default all numbers among the keys that are its own, in their order."""
        names = [name for name in type(self).model_fields if name not in FieldParameters.model_fields]
        return numbers_among(getattr(self, name) for name in names)

    @property
    def largest_stiffness(self) -> float:
        """Largest stiffness of the field [N/m]; 0: it is not known, and not checked against the rate."""
        return 0.0

    def drawn(self) -> Drawn:
        """Shapes that a view draws of the field beside its region."""
        return Drawn()

    def placed(self, folder: Path) -> FieldParameters:
        """The same, with paths of meshes that hold everywhere; `folder` is where they start from."""
        return placed_meshes(self, folder)


def placed_meshes(parameters: Any, folder: Path) -> Any:
    """Parameters in which each path of a mesh holds everywhere."""
    if isinstance(parameters, MeshParameters):
        return parameters.model_copy(update={"path": str(locate(parameters.path, folder).resolve())})
    changed = {}
    for name in type(parameters).model_fields:
        value = getattr(parameters, name)
        if isinstance(value, Parameters) and (new := placed_meshes(value, folder)) is not value:
            changed[name] = new
    return parameters.model_copy(update=changed) if changed else parameters


FIELDS = Kind("fields", FieldParameters)
AnyFieldParameters = Annotated[FieldParameters, FIELDS]
