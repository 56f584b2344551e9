"""Shapes that are generated from a few numbers: mug, hook, gear, bolt, nut and a bone as a scanner would give it.

All are closed surfaces of triangles in metres, counter-clockwise from outside, and the same for the same numbers. They
serve experiments and tests; `SHAPES` has them by name.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence

import numpy as np

Triangles = tuple[np.ndarray, np.ndarray]
"""Vertices (V, 3) [m] and triangles (F, 3)."""

ISO_DEPTH = 5.0 / 8.0 * math.sqrt(3.0) / 2.0
"""Depth of engagement of the ISO metric thread (ISO 68-1), times its pitch."""
INVOLUTE_STEPS = 5  # points of each flank of a tooth


def mug(
    radius: float = 0.04,
    height: float = 0.09,
    wall: float = 0.004,
    base: float = 0.006,
    handle: float = 0.006,
    reach: float = 0.03,
    span: float = 0.05,
    sides: int = 48,
) -> Triangles:
    """A mug with its axis along z, its bottom at z = 0, and its handle towards x.

    The handle is a tube along half an ellipse, which begins and ends on the outer wall.

    Args:
        radius: of the outer wall [m].
        height: of the mug [m].
        wall: thickness of the wall [m].
        base: thickness of the bottom [m].
        handle: radius of the tube of the handle [m].
        reach: how far the middle of the tube is from the outer wall at most [m].
        span: distance of the two ends of the handle along z [m].
        sides: of the polygon that stands for a circle.
    """
    # Of the grid on the outer wall a patch of cells is left out at each end of the handle; the rim of a patch is joined
    # to the first ring of the tube, which has as many points.
    angle = 2.0 * math.pi * np.arange(sides) / sides
    half = max(1, round(handle / (radius * 2.0 * math.pi / sides)))  # cells from the middle of a patch to its rim
    middles = 0.5 * height + 0.5 * span * np.array([-1.0, 1.0])
    step = handle / half
    heights = [0.0, *(m + step * k for m in middles for k in range(-half, half + 1)), height]
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    rings = [np.c_[radius * circle, np.full(sides, z)] for z in heights]
    inner = radius - wall
    rings += [np.c_[inner * circle, np.full(sides, z)] for z in (height, base)]
    vertices = [np.concatenate(rings), np.array([[0.0, 0.0, base], [0.0, 0.0, 0.0]])]
    count = len(rings)
    open_cells = {
        (1 + (2 * half + 1) * end + row, (column - half) % sides)
        for end in range(2)
        for row in range(2 * half)
        for column in range(2 * half)
    }
    cells = [(row, column) for row in range(count - 1) for column in range(sides) if (row, column) not in open_cells]
    faces = [face for row, column in cells for face in _cell(row, column, sides)]
    faces += [[(count - 1) * sides + i, (count - 1) * sides + (i + 1) % sides, count * sides] for i in range(sides)]
    faces += [[(i + 1) % sides, i, count * sides + 1] for i in range(sides)]

    rims = []  # around each patch, counter-clockwise from outside: along y, then up
    for end in range(2):
        low, high = 1 + (2 * half + 1) * end, 1 + (2 * half + 1) * end + 2 * half
        corner = [(low, k) for k in range(-half, half)] + [(row, half) for row in range(low, high)]
        corner += [(high, k) for k in range(half, -half, -1)] + [(row, -half) for row in range(high, low, -1)]
        rims.append([row * sides + column % sides for row, column in corner])
    grid = vertices[0]
    turn = math.pi * np.linspace(0.0, 1.0, 25)[1:-1]
    start = radius * math.cos(half * 2.0 * math.pi / sides)
    path = np.stack([start + reach * np.sin(turn), 0 * turn, 0.5 * height - 0.5 * span * np.cos(turn)], axis=-1)
    tangents = np.stack([reach * np.cos(turn), 0 * turn, 0.5 * span * np.sin(turn)], axis=-1)
    # the points of a ring have the places that those of the rim have around the middle of their patch
    rim = grid[rims[0]]
    around = np.arctan2(rim[:, 2] - middles[0], rim[:, 1])
    tube = _tube(path, tangents, np.array([0.0, 1.0, 0.0]), np.full(len(path), handle), around)
    first = sum(map(len, vertices))
    vertices.append(tube)
    n = len(around)
    faces += [face for row in range(len(path) - 1) for column in range(n) for face in _cell(row, column, n, first)]
    # the upper patch is met from below: its rim is gone around the other way, seen along the tube
    upper = grid[rims[1]]
    turned = np.argsort(
        np.angle(np.exp(1j * (np.arctan2(middles[1] - upper[:, 2], upper[:, 1]) - around[0]))) % 6.28318
    )
    last = [rims[1][i] for i in turned]
    faces += _band(rims[0], [first + i for i in range(n)])
    faces += _band([first + (len(path) - 1) * n + i for i in range(n)], last)
    used, numbers = np.unique(np.array(faces), return_inverse=True)  # within the patches there are others
    return np.concatenate(vertices)[used], numbers.reshape(-1, 3)


def hook(
    rod: float = 0.004, length: float = 0.06, radius: float = 0.015, angle: float = 0.75 * math.pi, sides: int = 16
) -> Triangles:
    """A rod along x from the origin that bends upwards, with a round end: what a mug hangs on.

    Args:
        rod: radius of the rod [m].
        length: of its straight part [m].
        radius: of the bend, of the middle of the rod [m].
        angle: of the bend [rad].
        sides: of the polygon that stands for a circle.
    """
    turn = np.linspace(0.0, angle, 2 + math.ceil(angle / 0.15))
    bend = np.stack([length + radius * np.sin(turn), 0 * turn, radius * (1.0 - np.cos(turn))], axis=-1)
    tangents = np.stack([np.cos(turn), 0 * turn, np.sin(turn)], axis=-1)
    round_end = np.linspace(0.0, 0.5 * math.pi, 6)[1:-1]
    path = np.concatenate([[[0.0, 0.0, 0.0]], bend, bend[-1] + rod * np.sin(round_end)[:, None] * tangents[-1]])
    tangents = np.concatenate([[[1.0, 0.0, 0.0]], tangents, np.repeat(tangents[-1:], len(round_end), axis=0)])
    radii = np.concatenate([np.full(len(bend) + 1, rod), rod * np.cos(round_end)])
    around = 2.0 * math.pi * np.arange(sides) / sides
    rings = _tube(path, tangents, np.array([0.0, 1.0, 0.0]), radii, around)
    tip = bend[-1] + rod * tangents[-1]
    return _capped(rings.reshape(len(path), sides, 3), np.zeros(3), tip)


def gear(
    teeth: int = 20,
    module: float = 0.004,
    width: float = 0.012,
    bore: float = 0.01,
    pressure_angle: float = math.radians(20.0),
    backlash: float = 0.0,
) -> Triangles:
    """A spur gear with involute teeth and a bore, its axis along z; a tooth is at y = 0 towards x.

    Args:
        teeth: number of teeth, at least 12.
        module: pitch diameter divided by the number of teeth [m].
        width: along its axis [m].
        bore: radius of the bore [m].
        pressure_angle: [rad].
        backlash: by how much each tooth is thinner at the pitch circle than half the pitch [m].
    """
    outline = gear_outline(teeth, module, pressure_angle, backlash)
    turn = np.unwrap(np.arctan2(outline[:, 1], outline[:, 0]))
    inner = bore * np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    half = np.full((len(outline), 1), 0.5 * width)
    return _looped([np.c_[outline, -half], np.c_[outline, half], np.c_[inner, half], np.c_[inner, -half]])


def gear_outline(teeth: int, module: float, pressure_angle: float, backlash: float) -> np.ndarray:
    """Corners of the profile of a gear (N, 2) [m], counter-clockwise: involutes, top lands, radial flanks below."""
    pitch, tip, root = 0.5 * module * teeth, 0.5 * module * (teeth + 2), 0.5 * module * (teeth - 2.5)
    base = pitch * math.cos(pressure_angle)
    # half the angle of a tooth at a radius: that at the pitch circle less the involute's angle, which grows outwards
    half = 0.5 * (math.pi / teeth - backlash / pitch) + math.tan(pressure_angle) - pressure_angle
    roll = np.linspace(0.0, math.sqrt((tip / base) ** 2 - 1.0), INVOLUTE_STEPS)
    radii = base * np.sqrt(1.0 + roll**2)
    angles = half - (roll - np.arctan(roll))
    if root < base:  # the foot stands a little wider, so that angles grow along the whole profile
        radii, angles = np.r_[root, radii], np.r_[half * 1.02, angles]
    flank = np.concatenate([-angles, angles[::-1]]), np.concatenate([radii, radii[::-1]])
    turn = np.concatenate([flank[0] + 2.0 * math.pi * k / teeth for k in range(teeth)])
    r = np.tile(flank[1], teeth)
    return np.stack([r * np.cos(turn), r * np.sin(turn)], axis=-1)


def bolt(
    diameter: float = 0.02,
    pitch: float = 0.0025,
    length: float = 0.04,
    head: float = 0.0125,
    across: float = 0.03,
    clearance: float = 0.0,
    sides: int = 48,
) -> Triangles:
    """A hexagon bolt with an ISO metric thread (ISO 68-1) along z: its head below z = 0, its thread above.

    Args:
        diameter: major diameter of the thread [m].
        pitch: of the thread [m].
        length: of the thread [m].
        head: height of the head; 0: a threaded rod [m].
        across: width of the head across its flats [m].
        clearance: by how much all of the thread is smaller in radius [m].
        sides: points of a turn.
    """
    turn = 2.0 * math.pi * np.arange(sides) / sides
    layers = np.linspace(0.0, length, 1 + math.ceil(length / pitch * THREAD_LAYERS))
    rings = [
        _ring(turn, thread_radius(z - pitch * turn / (2.0 * math.pi), diameter, pitch) - clearance, z) for z in layers
    ]
    if head > 0.0:
        rings = [_ring(turn, _hexagon(turn, across), -head), _ring(turn, _hexagon(turn, across), 0.0), *rings]
    bottom = -head if head > 0.0 else 0.0
    return _capped(np.array(rings), np.array([0.0, 0.0, bottom]), np.array([0.0, 0.0, length]))


def nut(
    diameter: float = 0.02,
    pitch: float = 0.0025,
    height: float = 0.016,
    across: float = 0.03,
    clearance: float = 0.00015,
    sides: int = 48,
) -> Triangles:
    """A hexagon nut whose thread fits that of `bolt`, from z = 0 up.

    Args:
        diameter: major diameter of the thread [m].
        pitch: of the thread [m].
        height: of the nut [m].
        across: width across its flats [m].
        clearance: by how much all of the thread is larger in radius [m].
        sides: points of a turn.
    """
    turn = 2.0 * math.pi * np.arange(sides) / sides
    layers = np.linspace(height, 0.0, 1 + math.ceil(height / pitch * THREAD_LAYERS))
    outside = [_ring(turn, _hexagon(turn, across), z) for z in (0.0, height)]
    inside = [
        _ring(turn, thread_radius(z - pitch * turn / (2.0 * math.pi), diameter, pitch) + clearance, z) for z in layers
    ]
    return _looped([*outside, *inside])


THREAD_LAYERS = 16
"""Layers of points a pitch of a thread; its corners, at eighths and quarters of the pitch, are among them."""


def thread_radius(z: np.ndarray, diameter: float, pitch: float) -> np.ndarray:
    """Radius of the basic profile of an ISO metric thread along its axis [m]: crests P/8 wide, roots P/4."""
    place = np.abs((np.asarray(z) / pitch + 0.5) % 1.0 - 0.5)  # from the middle of a crest, in pitches
    flank = np.clip((place - 1.0 / 16.0) / (5.0 / 16.0), 0.0, 1.0)
    radius: np.ndarray = 0.5 * diameter - ISO_DEPTH * pitch * flank
    return radius


def bone(length: float = 0.12, cells: int = 158) -> Triangles:
    """A bone with a saddle between two condyles and a rough surface, as a scan of it would be: an implicit surface.

    Args:
        length: of the bone along x [m].
        cells: of the grid along x; the number of triangles goes with its square, and is 200,000 for 158.
    """
    low, high = np.array([-0.62, -0.34, -0.24]), np.array([0.62, 0.34, 0.26])
    vertices, faces = implicit_surface(bone_function, low, high, cells)
    return vertices * (length / BONE_LENGTH), faces


BONE_LENGTH = 1.2
"""Length of the bone of `bone_function`, in its units."""


def bone_function(p: np.ndarray) -> np.ndarray:
    """The function that is zero on the surface of `bone`, below zero within it; p (..., 3) in its units."""
    shaft = np.hypot(p[..., 1], p[..., 2]) - 0.13 - 0.05 * (2.0 * p[..., 0]) ** 2
    shaft = np.maximum(shaft, np.abs(p[..., 0]) - 0.45)
    found = shaft
    for x, y, z, r in ((0.4, 0.13, 0.03, 0.17), (0.4, -0.13, 0.03, 0.17), (-0.42, 0.0, 0.02, 0.165)):
        ball = np.sqrt((p[..., 0] - x) ** 2 + (p[..., 1] - y) ** 2 + (p[..., 2] - z) ** 2) - r
        blend = np.maximum(0.08 - np.abs(found - ball), 0.0) / 0.08
        found = np.minimum(found, ball) - 0.02 * blend * blend
    rough = np.sin(61.0 * p[..., 0]) * np.sin(53.0 * p[..., 1] + 1.0) * np.sin(47.0 * p[..., 2] + 2.0)
    result: np.ndarray = found + 0.002 * rough
    return result


def implicit_surface(
    inside: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray, cells: int
) -> Triangles:
    """The surface where a function is zero, by marching tetrahedra: closed where it does not leave the box.

    Args:
        inside: function of points (..., 3), below zero within.
        low, high: corners of the box (3,).
        cells: of the grid along x.
    """
    step = (high[0] - low[0]) / cells
    counts = np.ceil((high - low) / step).astype(int) + 1
    axes = [low[i] + step * np.arange(counts[i]) for i in range(3)]
    values = inside(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)).ravel()
    values[values == 0.0] = 1e-12
    strides = np.array([counts[1] * counts[2], counts[2], 1])
    cubes = np.indices(counts - 1).reshape(3, -1).T @ strides
    signs = values < 0.0
    corners = cubes[:, None] + np.array([strides @ [i >> 2, (i >> 1) & 1, i & 1] for i in range(8)])
    some = signs[corners].sum(axis=1)
    corners = corners[(some > 0) & (some < 8)]
    tetrahedra = np.concatenate([corners[:, one] for one in _KUHN])
    edges = []
    count = signs[tetrahedra].sum(axis=1)
    for inner in (1, 2, 3):
        chosen = tetrahedra[count == inner]
        order = np.argsort(~signs[chosen], axis=1, kind="stable")  # those within first, an even permutation or not
        a, b, c, d = np.take_along_axis(chosen, order, axis=1).T
        even = _is_even(order)
        if inner == 1:
            found = [(a, b), (a, c), (a, d)]
        elif inner == 3:
            found = [(d, a), (d, b), (d, c)]
        else:
            found = [(a, c), (a, d), (b, d), (a, c), (b, d), (b, c)]
        for k in range(0, len(found), 3):
            corner = np.stack([np.stack(np.broadcast_arrays(*pair), axis=-1) for pair in found[k : k + 3]], axis=1)
            edges.append(np.where(even[:, None, None], corner, corner[:, [0, 2, 1]]))
    pairs = np.sort(np.concatenate(edges).reshape(-1, 2), axis=1)
    keys, faces = np.unique(pairs[:, 0] * np.int64(values.size) + pairs[:, 1], return_inverse=True)
    first, second = keys // values.size, keys % values.size
    part = np.clip(values[first] / (values[first] - values[second]), 0.02, 0.98)  # no needles
    points = [np.stack(np.unravel_index(one, counts), axis=-1) * step + low for one in (first, second)]
    return points[0] + part[:, None] * (points[1] - points[0]), faces.reshape(-1, 3)


_KUHN = ((0, 4, 6, 7), (0, 6, 2, 7), (0, 2, 3, 7), (0, 3, 1, 7), (0, 1, 5, 7), (0, 5, 4, 7))
"""Six tetrahedra of a cube around its diagonal, all of one orientation; corners by the bits of x, y, z."""


def _is_even(order: np.ndarray) -> np.ndarray:
    """Whether permutations of four (N, 4) are even."""
    swaps = sum((order[:, i] > order[:, k]).astype(int) for i in range(4) for k in range(i + 1, 4))
    return np.asarray(swaps) % 2 == 0


def _hexagon(turn: np.ndarray, across: float) -> np.ndarray:
    """Radius of a hexagon at angles [m]; its corners are at multiples of 60 degrees."""
    radius: np.ndarray = 0.5 * across / np.cos((turn % (math.pi / 3.0)) - math.pi / 6.0)
    return radius


def _ring(turn: np.ndarray, radius: np.ndarray, z: float) -> np.ndarray:
    return np.stack([radius * np.cos(turn), radius * np.sin(turn), np.full(len(turn), z)], axis=-1)


def _cell(row: int, column: int, sides: int, first: int = 0) -> list[list[int]]:
    """Two triangles between two neighbours of a ring and those of the next ring."""
    a, b = first + row * sides + column, first + row * sides + (column + 1) % sides
    return [[a, b, b + sides], [a, b + sides, a + sides]]


def _band(lower: Sequence[int], upper: Sequence[int]) -> list[list[int]]:
    """Triangles between two rings of the same number of points, given by their numbers."""
    n = len(lower)
    faces = []
    for i in range(n):
        k = (i + 1) % n
        faces += [[lower[i], lower[k], upper[k]], [lower[i], upper[k], upper[i]]]
    return faces


def _tube(
    path: np.ndarray, tangents: np.ndarray, side: np.ndarray, radii: np.ndarray, around: np.ndarray
) -> np.ndarray:
    """Rings around a path in the plane that is normal to `side`, one after the other (N * len(around), 3)."""
    along = tangents / np.linalg.norm(tangents, axis=1, keepdims=True)
    other = np.cross(along, side)
    offset = np.cos(around)[None, :, None] * side + np.sin(around)[None, :, None] * other[:, None, :]
    rings: np.ndarray = (path[:, None, :] + radii[:, None, None] * offset).reshape(-1, 3)
    return rings


def _capped(rings: np.ndarray, bottom: np.ndarray, top: np.ndarray) -> Triangles:
    """Rings of points (N, S, 3), counter-clockwise seen from the last, closed by fans around two points."""
    count, sides = rings.shape[:2]
    faces = [face for row in range(count - 1) for column in range(sides) for face in _cell(row, column, sides)]
    n, last = count * sides, (count - 1) * sides
    faces += [[(i + 1) % sides, i, n] for i in range(sides)]
    faces += [[last + i, last + (i + 1) % sides, n + 1] for i in range(sides)]
    return np.concatenate([rings.reshape(-1, 3), [bottom, top]]), np.array(faces)


def _looped(rings: Sequence[np.ndarray]) -> Triangles:
    """Rings of points (S, 3) each, the last joined to the first: a ring around the axis z."""
    count, sides = len(rings), len(rings[0])
    numbers = [list(range(row * sides, (row + 1) * sides)) for row in range(count)]
    faces = [face for row in range(count) for face in _band(numbers[row], numbers[(row + 1) % count])]
    return np.concatenate(rings), np.array(faces)


SHAPES: dict[str, Callable[..., Triangles]] = {one.__name__: one for one in (mug, hook, gear, bolt, nut, bone)}


def numbers_of(name: str) -> dict[str, float]:
    """The numbers of a shape with their defaults."""
    return {key: one.default for key, one in inspect.signature(SHAPES[name]).parameters.items()}
