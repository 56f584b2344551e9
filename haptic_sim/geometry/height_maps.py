"""Textures from images: a height map, projected onto a shape along an axis, as a bicubic B-spline.

The pixels c are the coefficients of a uniform cubic B-spline (de Boor 1978), with u and v in pixels of the image:

    h(u, v) = sum_ij B(u - j) B(v - i) c_ij,   B: cubic, with the support (-2, 2).

So h has two continuous derivatives, and lies between the lowest and the highest pixel, as the weights are positive and
sum up to 1: fine detail is smoothed, nothing overshoots. The derivatives are B-splines of a lower degree whose
coefficients are differences of pixels, which bounds them by the largest differences.

The height depends on the position alone, so that contacts have one potential on any shape, curved ones included.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import AfterValidator, PrivateAttr, model_validator

from haptic_sim import inputs
from haptic_sim.geometry.textures import TextureError, TextureParameters, check_direction
from haptic_sim.kernels import kernel
from haptic_sim.parameters import listed, quantity

KINDS = {".png": "PNG", ".pgm": "PGM", ".npy": "NumPy"}
"""Kinds of files by their endings."""
MOST_PIXELS = 1 << 22  # 2048 x 2048: 32 MB of numbers
WHITE = {"1": 1.0, "L": 255.0, "I": 65535.0, "I;16": 65535.0, "I;16B": 65535.0}
"""The largest value of a pixel, by the modes of Pillow that have one channel of whole numbers."""
_HEAD = 10  # numbers of the law before those of the pixels
PARALLEL = 1e-6  # sine of the angle below which two directions are parallel


def read_heights(path: Path) -> np.ndarray:
    """The pixels of a gray image, from 0 (black) to 1 (white), (rows, columns), the first row on top.

    Args:
        path: a file of one of KINDS; an array of NumPy has two axes, and floats from 0 to 1 or unsigned integers.

    Raises:
        TextureError: missing, of another kind, damaged, too large, in colour, not finite, or the same everywhere.
    """
    found = read_pixels(path)
    if found.min() == found.max():
        raise TextureError("is the same everywhere: a height map must have at least two heights; leave the texture out")
    return found


def read_pixels(path: Path) -> np.ndarray:
    """Read an image as `read_heights`; here it may be constant.

    Raises:
        TextureError: missing, of another kind, damaged, too large, in colour, or not finite.
    """
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise TextureError(f"cannot be read as a height map: its name must end in one of {listed(KINDS)}")
    try:
        content = inputs.read_bytes(path, inputs.DATA)
    except inputs.InputError as error:
        raise TextureError(str(error)) from error
    found = _array(content) if kind == ".npy" else _picture(content, KINDS[kind])
    if not np.all(np.isfinite(found)):
        raise TextureError("holds values that are not finite: every pixel must be a number")
    if found.min() < 0.0 or found.max() > 1.0:
        raise TextureError(f"holds values from {found.min():g} to {found.max():g}: floats must be from 0 to 1")
    return np.ascontiguousarray(found)


def _check_size(rows: int, columns: int) -> None:
    if not (rows > 0 and columns > 0 and rows * columns <= MOST_PIXELS):
        raise TextureError(
            f"has {columns} x {rows} pixels: must have at least one, and at most {MOST_PIXELS} in all; scale it down"
        )


def _picture(content: bytes, kind: str) -> np.ndarray:
    """The pixels of a PNG or PGM file; its size is looked at before it is decompressed."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # `_check_size` allows less
            with Image.open(io.BytesIO(content), formats=("PNG" if kind == "PNG" else "PPM",)) as image:
                _check_size(image.height, image.width)
                if image.mode not in WHITE or "transparency" in image.info:
                    has = {"P": "a palette", "LA": "an alpha channel", "RGBA": "colours and an alpha channel"}
                    found = has.get(image.mode, "transparency" if image.mode in WHITE else "colours")
                    raise TextureError(f"has {found}: a height map has one channel; save it as gray, of 8 or 16 bits")
                return np.asarray(image, dtype=float) / WHITE[image.mode]
    except Image.DecompressionBombError as error:
        raise TextureError(f"has more than {MOST_PIXELS} pixels: scale it down") from error
    except (OSError, SyntaxError, ValueError) as error:
        if isinstance(error, TextureError):
            raise
        raise TextureError(f"cannot be read as a {kind} file: it is damaged, or something else") from error


def _array(content: bytes) -> np.ndarray:
    """The values of an NPY file; its header is looked at before memory is taken."""
    file = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if len(shape) != 2 or dtype.kind not in "fu":
            raise TextureError(
                f"holds {dtype} of shape {tuple(shape)}: must be two axes of floats or of unsigned integers"
            )
        _check_size(*shape)
        file.seek(0)
        found = np.load(file, allow_pickle=False)
    except TextureError:
        raise
    except Exception as error:  # whatever a damaged header raises
        raise TextureError("cannot be read as a NumPy file: it is damaged, or something else") from error
    return np.asarray(found, float) / (float(np.iinfo(dtype).max) if dtype.kind == "u" else 1.0)


@kernel
def relief(place, keys, answer):
    """Law of a height map: size of a pixel, whether it repeats, rows, columns, right and up (2, 3), heights."""
    rows, columns = int(keys[2]), int(keys[3])
    x, pixel, repeats = place.position, keys[0], keys[1] > 0.0
    u = (keys[4] * x[0] + keys[5] * x[1] + keys[6] * x[2]) / pixel + 0.5 * (columns - 1)
    v = 0.5 * (rows - 1) - (keys[7] * x[0] + keys[8] * x[1] + keys[9] * x[2]) / pixel
    if not math.isfinite(u + v):
        return
    height, slope_u, slope_v = spline(keys, _HEAD, rows, columns, repeats, u, v)
    answer.height[0] = height
    for k in range(3):
        answer.gradient[k] = (slope_u * keys[4 + k] - slope_v * keys[7 + k]) / pixel


@kernel
def spline(keys, first, rows, columns, repeats, u, v):
    """The height and its slopes by u and v, in pixels to the right and downwards; pixels begin at keys[first]."""
    if repeats:
        u -= columns * math.floor(u / columns)
        v -= rows * math.floor(v / rows)
    else:
        u, v = min(max(u, -2.0), columns + 1.0), min(max(v, -2.0), rows + 1.0)
    j, i = math.floor(u), math.floor(v)
    across, down = _weights(u - j), _weights(v - i)
    to_right, to_bottom = _slopes(u - j), _slopes(v - i)
    height = slope_u = slope_v = 0.0
    for a in range(4):
        row = _index(i + a - 1, rows, repeats)
        value = slope = 0.0
        for b in range(4):
            pixel_height = keys[first + row * columns + _index(j + b - 1, columns, repeats)]
            value += across[b] * pixel_height
            slope += to_right[b] * pixel_height
        height += down[a] * value
        slope_u += down[a] * slope
        slope_v += to_bottom[a] * value
    return height, slope_u, slope_v


@kernel
def _index(i, count, repeats):
    """The pixel that stands for number i of a row or a column."""
    return i % count if repeats else min(max(i, 0), count - 1)


@kernel
def _weights(t):
    """Cubic B-splines of the four pixels around a place, t behind the second."""
    s = 1.0 - t
    return (
        s * s * s / 6.0,
        (4.0 + t * t * (3.0 * t - 6.0)) / 6.0,
        (4.0 + s * s * (3.0 * s - 6.0)) / 6.0,
        t * t * t / 6.0,
    )


@kernel
def _slopes(t):
    """Derivatives of the spline weights by t."""
    s = 1.0 - t
    return -0.5 * s * s, 0.5 * t * (3.0 * t - 4.0), -0.5 * s * (3.0 * s - 4.0), 0.5 * t * t


T = TypeVar("T", bound="ImageFileParameters")


class ImageFileParameters(TextureParameters):
    """Parameters of a texture from a gray image: black is 2 A deep, white is the surface."""

    path: str = quantity(
        description="Height map: a PNG or PGM file in gray, of 8 or 16 bits, or an array of NumPy (NPY), in the "
        "working directory or in the experiment's folder"
    )
    _pixels: np.ndarray | None = PrivateAttr(None)

    def placed(self: T, absolute: Callable[[str], str]) -> T:
        """Copy with an absolute path, as `absolute` makes it."""
        return self.model_copy(update={"path": absolute(self.path)})

    def loaded(self: T, locate: Callable[[str], Path]) -> T:
        """Copy with the pixels of its file; `locate` returns the path of the file.

        Raises:
            TextureError: see `read_heights`.
        """
        path = locate(self.path)
        taken = self.model_copy()
        try:
            taken._pixels = read_heights(path)
        except TextureError as error:
            raise TextureError(f".path = {inputs.shown(str(path))}: {error}") from error
        return taken

    @property
    def pixels(self) -> np.ndarray:
        """Heights of the pixels [m] (rows, columns), from -2 A to 0.

        Raises:
            TypeError: the file has not been read (see `loaded`).
        """
        if self._pixels is None:
            raise TypeError("a height map needs its file: see `loaded`")
        return np.asarray(self.depth * (self._pixels - 1.0))


class HeightMapParameters(ImageFileParameters):
    """Parameters of a height map that is projected onto a shape."""

    pixel: float = quantity(unit="m", description="Size of a pixel on the shape", ge=1e-6, le=1.0)
    repeats: bool = quantity(
        True, description="Whether the image is repeated over the shape; otherwise its edge goes on. Its centre is at "
        "the origin of the shape"
    )  # fmt: skip

    @property
    def largest_slope(self) -> float:
        """Upper bound of the slope of the B-spline: the largest differences along both axes, over the pixel size."""
        right, down = (np.abs(self._difference(self.pixels, axis)).max() for axis in (1, 0))
        return float(math.hypot(right, down) / self.pixel)

    @property
    def largest_curvature(self) -> float:
        """Upper bound of the curvature of the B-spline [1/m]: of the eigenvalues of its Hessian."""
        down, right = self._difference(self.pixels, 0), self._difference(self.pixels, 1)
        straight = max(np.abs(self._difference(one, axis)).max() for axis, one in ((0, down), (1, right)))
        return float(straight + np.abs(self._difference(down, 1)).max()) / self.pixel**2

    def _difference(self, values: np.ndarray, axis: int) -> np.ndarray:
        """Differences of neighbouring values along an axis, with those over the edge if the image repeats."""
        if self.repeats:
            return np.asarray(np.roll(values, -1, axis) - values)
        edge = [(1, 1) if one == axis else (0, 0) for one in range(2)]
        return np.diff(np.pad(values, edge, mode="edge"), axis=axis)


class ImageParameters(HeightMapParameters):
    """A height map from a gray image, projected onto the shape: black is 2 A deep, white is the surface."""

    LAW: ClassVar[Any] = relief
    type: Literal["image"] = "image"
    right: Annotated[tuple[float, float, float], AfterValidator(check_direction)] = quantity(
        (1.0, 0.0, 0.0), description="Direction to the right in the image, in the axes of the shape, of any length"
    )
    up: Annotated[tuple[float, float, float], AfterValidator(check_direction)] = quantity(
        (0.0, 1.0, 0.0), description="Direction up in the image, likewise; what of it is along `right` has no effect"
    )

    @model_validator(mode="after")
    def _not_parallel(self) -> Any:
        right, up = np.array(self.right), np.array(self.up)
        lengths = float(np.linalg.norm(right) * np.linalg.norm(up))
        if not float(np.linalg.norm(np.cross(right, up))) > PARALLEL * lengths:
            raise ValueError(".up: must not be parallel to `right`")
        return self

    def numbers(self) -> np.ndarray:
        """Numbers of `relief`."""
        pixels = self.pixels
        right = np.array(self.right) / np.linalg.norm(self.right)
        up = np.array(self.up) - (np.array(self.up) @ right) * right
        head = [self.pixel, float(self.repeats), *pixels.shape, *right, *(up / np.linalg.norm(up))]
        return np.concatenate([head, pixels.ravel()])
