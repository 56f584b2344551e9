"""Textures as parts: heights over the surfaces of shapes, and the class of their parameters.

The law of a texture is a kernel, of this package or of another one,

    law(place, keys, answer)

which is called in the servo thread for each contact of a shape that has the texture. It reads

- `place`: a `TexturePlace`, a point of the surface in the axes of the shape;
- `keys` (n,): the numbers that `TextureParameters.numbers` returns;

and fills in `answer`, a `TextureAnswer`, in which everything is 0 before the call. Nothing may be allocated. A texture
is engraved: its height is from -`depth` to 0, so that nothing of it is outside of the shape. `gradient` must be that of
`height`, or the force of a contact is not conservative. What of it is along the normal has no effect. An answer that
is not finite is no texture there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import AfterValidator

from haptic_sim.errors import HapticsError
from haptic_sim.kernels import kernel
from haptic_sim.laws import numbers_among
from haptic_sim.parameters import quantity
from haptic_sim.parts import Kind, Part
from haptic_sim.records import allocate, array, record

SHORTEST = 1e-9  # of a direction
POINTS, WITHIN, NEAR = 100, 0.05, 1e-7  # at which a law is looked at: number, within [m], [m] of differences
DERIVED = 1e-3  # error of a gradient from differences, of 1 and the gradient


class TextureError(HapticsError, ValueError):
    """A texture that cannot be used; the text gives the reason and goes after the name of the texture."""


@record
class TexturePlace(NamedTuple):
    """A point of a surface, in the axes of the shape."""

    position: np.ndarray = array("position of the point", 3, unit="m")
    normal: np.ndarray = array("outward unit normal of the shape without its texture", 3)


@record
class TextureAnswer(NamedTuple):
    """The texture at that point."""

    height: np.ndarray = array("height over the surface, 0 at the most", 1, unit="m")
    gradient: np.ndarray = array("gradient of the height by the position", 3)


class Coordinates(NamedTuple):
    """Triangles of a mesh with the coordinates of an image (UV), which may differ where two triangles meet.

    Attributes:
        corners: of each triangle [m], in the axes of the shape, (n, 3, 3).
        uv: of its corners, from (0, 0) on the left below to (1, 1) on the right on top of the image, (n, 3, 2).
    """

    corners: np.ndarray
    uv: np.ndarray


@dataclass(frozen=True)
class Surface:
    """Surface of the shape that a texture is on; its properties are found when they are asked for.

    Attributes:
        points: returns points on the surface [m], and its outward unit normals there, (n, 3) each, in the axes of the
            shape.
        coordinates: returns the coordinates of the mesh; raises TextureError where there are none.
    """

    points: Callable[[], tuple[np.ndarray, np.ndarray]]
    coordinates: Callable[[], Coordinates]


class SurfaceParameters(Part):
    """Parameters of the surface of a shape."""

    def placed(self, absolute: Callable[[str], str]) -> SurfaceParameters:
        """Copy with absolute paths of files, as `absolute` makes them."""
        return self

    def loaded(self, locate: Callable[[str], Path]) -> SurfaceParameters:
        """Copy with the content of its files, if it has any; `locate` returns the path of a file that it names.

        Raises:
            TextureError: a file cannot be used; the text goes after the key of the texture.
        """
        return self

    def fitted(self, surface: Surface) -> SurfaceParameters:
        """Copy of the texture for the shape that it is on.

        Raises:
            TextureError: it cannot be on this shape; the text goes after the key of the texture.
        """
        return self


TEXTURES = Kind("textures", SurfaceParameters)
AnyTextureParameters = Annotated[SurfaceParameters, TEXTURES]


class NoTextureParameters(SurfaceParameters):
    """A smooth surface."""

    ABSENT: ClassVar[bool] = True
    type: Literal["none"] = "none"


class TextureParameters(SurfaceParameters):
    """Parameters of the texture of a shape."""

    LAW: ClassVar[Any] = None
    """The kernel of the law, see the module."""

    amplitude: float = quantity(
        unit="m", description="Amplitude: half of the height from the grooves to the ridges", gt=0.0, le=0.1
    )

    def numbers(self) -> np.ndarray:
        """Numbers that the law gets, (n,); by default all numbers among the keys, in their order."""
        return numbers_among(getattr(self, name) for name in type(self).model_fields)

    @property
    def depth(self) -> float:
        """Largest depth of the texture under the surface [m]; in proportion to `amplitude`."""
        return 2.0 * self.amplitude

    @property
    def largest_slope(self) -> float:
        """Upper bound of the length of the gradient; in proportion to `amplitude`; 0: it is not known."""
        return 0.0

    @property
    def largest_curvature(self) -> float:
        """Upper bound of the second derivative [1/m]; in proportion to `amplitude`; 0: it is not known."""
        return 0.0


@kernel
def ridges(place, keys, answer):
    """Law of a grating: amplitude, wavelength, direction (3) of unit length, phase."""
    x = place.position
    wave = 2.0 * math.pi / keys[1]
    angle = wave * (keys[2] * x[0] + keys[3] * x[1] + keys[4] * x[2]) + keys[5]
    answer.height[0] = keys[0] * (math.sin(angle) - 1.0)
    slope = keys[0] * wave * math.cos(angle)
    for i in range(3):
        answer.gradient[i] = slope * keys[2 + i]


def check_direction(values: tuple[float, float, float]) -> tuple[float, float, float]:
    """A direction of any length but zero."""
    if max(map(abs, values)) < SHORTEST:
        raise ValueError(f"must not be {'shorter than ' + format(SHORTEST, 'g') if any(values) else 'zero'}")
    return values


class GratingParameters(TextureParameters):
    """Sinusoidal ridges across a direction: h = A sin(2 pi d . x / wavelength + phase) - A."""

    LAW: ClassVar[Any] = ridges
    type: Literal["grating"] = "grating"
    wavelength: float = quantity(unit="m", description="Distance from ridge to ridge", ge=1e-5, le=10.0)
    direction: Annotated[tuple[float, float, float], AfterValidator(check_direction)] = quantity(
        (1.0, 0.0, 0.0), description="Direction across the ridges, in the axes of the shape, of any length"
    )
    phase: float = quantity(0.0, unit="rad", description="Phase of the sine at the origin of the shape")

    def numbers(self) -> np.ndarray:
        """Numbers of `ridges`."""
        d = np.array(self.direction) / np.linalg.norm(self.direction)
        return np.array([self.amplitude, self.wavelength, *d, self.phase])

    @property
    def largest_slope(self) -> float:
        """2 pi A / wavelength."""
        return 2.0 * math.pi * self.amplitude / self.wavelength

    @property
    def largest_curvature(self) -> float:
        """(2 pi / wavelength)^2 A [1/m]."""
        return (2.0 * math.pi / self.wavelength) ** 2 * self.amplitude


def contradiction(texture: TextureParameters) -> str:
    """Contradiction between the law of a texture and its height, depth or slope, at random points; empty: none."""
    rng, place, answer = np.random.default_rng(20260), allocate(TexturePlace), allocate(TextureAnswer)
    numbers, slope, steps = texture.numbers(), texture.largest_slope or np.inf, NEAR * np.eye(3)

    def look(x: np.ndarray) -> tuple[float, np.ndarray]:
        place.position[:], answer.height[0], answer.gradient[:] = x, 0.0, 0.0
        type(texture).LAW(place, numbers, answer)
        return float(answer.height[0]), answer.gradient.copy()

    for x in rng.uniform(-WITHIN, WITHIN, (POINTS, 3)):
        n = rng.normal(size=3)
        n /= np.linalg.norm(n)
        place.normal[:] = n
        height, gradient = look(x)
        differences = np.array([look(x + d)[0] - look(x - d)[0] for d in steps]) / (2.0 * NEAR)
        at = f"at {x.tolist()} m"
        if not -texture.depth * (1.0 + 1e-9) <= height <= 1e-9 * texture.depth:
            return f"{at}: height = {height:g} m: must be from {-texture.depth:g} m to 0"
        along, found = (one - (one @ n) * n for one in (gradient, differences))
        if not np.linalg.norm(along - found) <= DERIVED * (1.0 + np.linalg.norm(found)):
            return f"{at}: gradient = {along.tolist()}, that of the height is {found.tolist()}"
        if np.linalg.norm(along) > slope * (1.0 + 1e-9):
            return f"{at}: a slope of {np.linalg.norm(along):g}, largest_slope = {slope:g}"
    return ""
