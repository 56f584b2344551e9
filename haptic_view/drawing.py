"""Drawings of a scene for reports: as it is at an instant, and a short animation that repeats; each one SVG of its own.

The projection is parallel. In the plane shapes are drawn by their outlines. A picture in space shows what is seen of
all bodies together, as outlines of what a depth buffer has of them (`rendering.py`); where they hide all contacts, they
are cut open (`viewpoint.py`).

An animation of convex shapes has the same number of points in all its pictures, between which the browser interpolates
(SMIL): faces that are seen, and outlines of shapes with many faces. Where a shape is not convex, or where bodies are
cut open, pictures follow each other. What moves is there a second time, as it is at the end: that is shown to who wants
less motion, on paper, and where the page around it stops the motion (report.css).
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape

import numpy as np

from haptic_view import rendering
from haptic_view.frame import Frame
from haptic_view.scene import AT_REST, Scene
from haptic_view.shapes import Shape, at
from haptic_view.viewpoint import PATH, Frames, of_trial, paths_of_bodies, paths_of_hands

WIDTH, HEIGHT = 480.0, 330.0  # [px], as the panels of reports
TOP, BOTTOM = 24.0, 22.0  # [px] of that for the line of text, and for the legend
MARGIN = 14.0  # [px] around what is shown
LIGHT = np.array([0.3, -0.4, 0.86])
FACES = 12  # of a shape; one with more is drawn by its outline
OUTLINE = 28  # points
PICTURES = 60  # of an animation
LARGEST = 270_000  # characters of what is seen in a picture, which else has fewer steps of light, or an animation
MOVING_STEPS = 4  # of light, of which one is made in an animation
OPEN = ", cut open"  # of a section
NOTHING = "M0 0"  # a path of which nothing is seen
POINTS = 9000  # of an animation; one with more has fewer pictures
LOOP = 4.0  # [s] for a repetition of an animation
ARROW = 70.0  # [px] length of the greatest force in a picture
SHORTENED = 0.3  # of ARROW: length of the greatest force where the picture has no room for more
BORDER = 3.0  # [px] between an arrow and the border of the picture
SHORTEST = 6.0  # [px] of an arrow
WEAK = 1e-4  # of the greatest force of the trial: a picture of weaker ones has short arrows
NORMAL = 11.0  # [px] length of a contact normal
NEAR_CUT = 24.0  # [px] from a section, up to which contacts are shown
FAR = 100.0  # sizes of the scene, by which what lies behind all others is moved away
BESIDE = 4.0  # [px] beside the drawing that is rendered, too, so that no outline runs along its border
JOINED_STEPS = 1, 2, 4  # of light, of which one is made in a picture: the fewest with which it is small enough
FINER, MOVING_FINER = 4, 2  # pixels of what is rendered along one of a picture, and of an animation
JOINED = 2  # of these along one of those from which outlines are taken
SMALLEST = 0.05  # of the scene's size: what is shown is at least that large
NEAR = 0.6  # of the extent of what moves: how much is shown around that
WHOLE = 2.5  # of the same: what stands there and is smaller is shown as a whole
VISIBLE = 2.0  # [px] of a motion
RAYS = 10  # along a side of where two shapes overlap in the drawing, which tell the one that hides the other

FIXED, EDGE, TOOL, DEVICE = "#ced2d8", "#5b636d", "#0072b2", "#3d9bd1"
MOVING = ("#e2bd79", "#a0c4aa", "#cda0b2", "#9ebad6", "#d6c696")
STICKS, SLIDES, NORMALS, FIELD = "#009e73", "#d55e00", "#6a7079", "#a2588a"
SECTION = 0.55  # part of white in the colour of a section
OUTLINED = f'stroke="{EDGE}" stroke-width="0.6" stroke-linejoin="round"'
LESS_MOTION = (
    ".still{display:none}@media print,(prefers-reduced-motion:reduce){.moving{display:none}.still{display:inline}}"
)


class _Eye:
    """The projection of a trial, in which all that moves stays in sight, and the scene as it is around that."""

    def __init__(self, frames: Frames):
        scene = frames.scene
        self.view = of_trial(frames)
        self.away = self.view.away
        up = np.array([0.0, 1.0, 0.0] if scene.planar else [0.0, 0.0, 1.0])
        self._right = np.cross(up, self.away)
        self._right /= np.linalg.norm(self._right)
        self._up = np.cross(self.away, self._right)
        points = _in_sight(frames)
        if self.view.cut is not None:
            points = points - np.maximum((points - self.view.cut) @ self.view.normal, 0.0)[:, None] * self.view.normal
        flat = self._flat(points)
        low, high = flat.min(axis=0), flat.max(axis=0)
        self._centre = 0.5 * (low + high)
        area = np.array([WIDTH, HEIGHT - TOP - BOTTOM]) - 2.0 * MARGIN
        self.scale = float((area / np.maximum(high - low, SMALLEST * scene.size)).min())
        along = self.scale * np.stack([self._right, -self._up, self.away])
        middle = [0.5 * WIDTH, 0.5 * (HEIGHT + TOP - BOTTOM)] - self.scale * self._centre * [1.0, -1.0]
        self.project = np.concatenate([along, [[middle[0]], [middle[1]], [0.0]]], axis=1)  # (3, 4), see `rendering`

    def _flat(self, points: np.ndarray) -> np.ndarray:
        """Points (N, 3) to the right and up [m], (N, 2)."""
        return np.stack([points @ self._right, points @ self._up], axis=-1)

    def shows(self, points: np.ndarray) -> np.ndarray:
        """Whether points (N, 3) are shown: all of them, or those near a section, (N,)."""
        if self.view.cut is None:
            return np.ones(len(points), bool)
        return np.asarray(np.abs((points - self.view.cut) @ self.view.normal) <= NEAR_CUT / self.scale)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Places (N, 2) of points (N, 3) in the drawing [px]."""
        places: np.ndarray = np.asarray(points, float) @ self.project[:2, :3].T + self.project[:2, 3]
        return places


def moves(frames: Frames) -> bool:
    """Whether anything moves as far as it can be seen in a drawing."""
    eye = _Eye(frames)
    for paths in (paths_of_hands(frames), paths_of_bodies(frames)):
        places = np.array([eye(points) for points in paths])
        if places.size and np.ptp(places, axis=0).max() >= VISIBLE:
            return True
    return False


def _in_sight(frames: Frames) -> np.ndarray:
    """Points (N, 3) that a drawing has to show: hands and what moves, all the time, and what stands near to them."""
    scene = frames.scene
    found = [paths_of_hands(frames).reshape(-1, 3), paths_of_bodies(frames).reshape(-1, 3)]
    moving = np.concatenate(found)
    moving = moving[np.isfinite(moving).all(axis=1)]
    found = [moving]
    extent = float(np.ptp(moving, axis=0).max())
    near = moving.min(axis=0) - NEAR * extent, moving.max(axis=0) + NEAR * extent
    for shape in scene.shapes:
        if scene.moving[shape.body]:
            continue
        vertices = at(scene.poses[shape.body], shape.vertices)
        if shape.ground:  # its middle is the point that is nearest to the scene
            vertices = vertices.mean(axis=0)[None]
        whole = not shape.ground and np.ptp(vertices, axis=0).max() < WHOLE * extent
        found.append(vertices if whole else np.clip(vertices, *near))
    return np.concatenate(found)


def picture(frames: Frames, index: int, what: str) -> str:
    """The scene at one of its frames, with the path of the tool up to there.

    Args:
        frames: of the trial.
        index: of the frame.
        what: happens there, for the line of text.
    """
    scene, frame = frames.scene, frames.frame(index)
    eye = _Eye(frames)
    forces = np.linalg.norm(frame.contacts["force"], axis=1)
    greatest = max(float(forces.max(initial=0.0)), WEAK * frames.greatest_force(), 1e-9)
    newtons_per_pixel = greatest / _longest_arrow(frame, eye, greatest)
    parts = _bodies_at(scene, frame, eye) + _fields(scene, eye)
    parts += _paths(frames, index, eye)
    parts += _contacts(frame, eye, 1.0 / (newtons_per_pixel * eye.scale))
    parts += _hands(frame, eye)
    drawn = forces / newtons_per_pixel >= SHORTEST
    legend = _legend(frame, bool(index), newtons_per_pixel if drawn.any() else None)
    cut = "" if eye.view.cut is None else OPEN
    return _document(parts, legend, f"{what}, {_time(frame.time)}{cut}", _describe(scene, frame, forces))


def animation(frames: Frames, what: str = "the whole trial") -> str:
    """The whole trial in a few seconds, again and again.

    Args:
        frames: of the trial.
        what: happens, for the line of text.
    """
    scene = frames.scene
    eye = _Eye(frames)
    rendered = eye.view.cut is not None or (not scene.planar and any(map(_has_dents, scene.shapes)))
    shown, parts = (_rendered_motion if rendered else _moving_outlines)(frames, eye)
    last = len(frames.times) - 1
    parts += _fields(scene, eye)
    parts += _paths(frames, last, eye)
    parts += _moving_hands(shown, eye)
    speed = (frames.times[-1] - frames.times[0]) / LOOP
    times = f"{speed:.2g}"
    text = f"{what}, {_time(frames.times[-1])}, {'at' if times == '1' else f'{times} times'} its speed"
    description = f"An animation that repeats. {_describe(scene, shown[-1], np.zeros(0), when='At the end ')}"
    return _document(
        parts,
        _legend(shown[-1], True, None, contacts=False),
        (text if speed > 0.0 else what) + ("" if eye.view.cut is None else OPEN),
        description,
        LESS_MOTION,
    )


def _chosen(frames: Frames, count: int) -> list[Frame]:
    """Frames in the number `count`, at equal intervals of time."""
    wanted = np.linspace(frames.times[0], frames.times[-1], count)
    return [frames.frame(int(i)) for i in np.clip(np.searchsorted(frames.times, wanted), 0, len(frames.times) - 1)]


def _moving_outlines(frames: Frames, eye: _Eye) -> tuple[list[Frame], list[str]]:
    """Frames of an animation, and the outlines of shapes in these, between which a browser interpolates."""
    scene = frames.scene
    outlines = [_Outline(shape) for shape in scene.shapes]
    moving = sum(one.points for one, shape in zip(outlines, scene.shapes, strict=True) if scene.moving[shape.body])
    shown = _chosen(frames, int(np.clip(POINTS // max(moving, 1), 5, PICTURES)))
    parts = []
    for number in _order(scene, shown[0], eye):
        shape, outline = scene.shapes[number], outlines[number]
        colour = _colour(scene, shape)
        style = f'fill="{colour}" stroke="{EDGE}" stroke-width="0.7" stroke-linejoin="round" fill-rule="nonzero"'
        if shape.hollow:
            style = f'fill="none" stroke="{EDGE}" stroke-width="1.2"'
        paths = [outline.path(frame.poses[shape.body], eye) for frame in shown]
        parts.append(_animated(style, paths, smooth=outline.corresponding))
    return shown, parts


def _rendered_motion(frames: Frames, eye: _Eye) -> tuple[list[Frame], list[str]]:
    """Frames of an animation, and what is seen in these: of what stands still once, and over it of what moves."""
    scene, rendered = frames.scene, _Rendering(frames.scene, eye)
    moving = [number for number, shape in enumerate(scene.shapes) if scene.moving[shape.body]]
    still = [number for number, shape in enumerate(scene.shapes) if not scene.moving[shape.body]]
    start, end = frames.frame(0), frames.frame(len(frames.times) - 1)
    paths = rendered.regions(rendered.image(start, still, rendered.empty(FINER)), still)
    parts = [f'<path {style} d="{path}"/>' for style, path in paths.items()]
    behind = rendered.image(start, still, rendered.empty(MOVING_FINER))

    def seen(frame: Frame) -> dict[str, str]:
        return rendered.few_regions(rendered.image(frame, moving, behind), moving)

    size = sum(map(len, seen(end).values()))
    shown = _chosen(frames, int(np.clip((LARGEST - sum(map(len, parts))) // max(size, 1) - 2, 5, PICTURES)))
    pictures = [seen(frame) for frame in shown]
    styles = sorted(dict.fromkeys(style for one in pictures for style in one), key=lambda style: EDGE not in style)
    parts += [_animated(style, [one.get(style, NOTHING) for one in pictures], smooth=False) for style in styles]
    return shown, parts


def _moving_hands(shown: Sequence[Frame], eye: _Eye) -> list[str]:
    parts = []
    for hand in range(len(shown[0].hands)):
        for kind, colour in ("tool", TOOL), ("device", DEVICE):
            poses = [getattr(frame.hands[hand], kind) for frame in shown]
            if any(pose is None for pose in poses):
                continue
            opacity = 1.0 if kind == "tool" else 0.5
            style = f'fill="#ffffff" fill-opacity="{opacity}" stroke="{colour}" stroke-width="1.4"'
            places = eye(np.array([pose[:3] for pose in poses]))
            parts.append(_animated(style, [f"M{x - 3:.1f} {y:.1f}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0" for x, y in places]))
    return parts


def _animated(style: str, paths: Sequence[str], *, smooth: bool = True) -> str:
    """A path that takes some shapes one after the other and rests at the last; and as it is at the last.

    `smooth`: it changes from each into the next, whose points correspond.
    """
    if all(path == paths[0] for path in paths):
        return f'<path {style} d="{paths[0]}"/>'
    held = [*paths, paths[-1]] if smooth else paths
    times = np.linspace(0.0, LOOP / (LOOP + 1.0), len(paths)).tolist() + [1.0] * smooth
    return (
        f'<path class="moving" {style} d="{paths[0]}"><animate attributeName="d" dur="{LOOP + 1.0:g}s" '
        f'calcMode="{"linear" if smooth else "discrete"}" keyTimes="{";".join(f"{time:.4g}" for time in times)}" '
        f'repeatCount="indefinite" values="{";".join(held)}"/></path>\n'
        f'<path class="still" {style} d="{paths[-1]}"/>'
    )


class _Outline:
    """Outline of a shape with a constant number of points in all poses; a mesh that is not convex with any number.

    Attributes:
        corresponding: whether the points of two pictures belong together.
        points: number of them.
    """

    def __init__(self, shape: Shape):
        self.corresponding = not _has_dents(shape)
        self._shape = shape
        self._faces = [] if shape.smooth or not shape.convex else _polygons(shape)
        self.points = sum(map(len, self._faces)) or OUTLINE
        turns = (np.arange(OUTLINE) + 0.5) * 2.0 * math.pi / OUTLINE  # none across a rod, where both its ends would do
        self._turns = turns
        middle = shape.vertices.mean(axis=0)
        axis = np.linalg.svd(shape.vertices - middle, full_matrices=False)[2][0]
        self._axis = np.stack([middle, middle + axis])

    def path(self, pose: np.ndarray, eye: _Eye) -> str:
        """The shape in a pose: its faces, those that are not seen as points; or its outline."""
        placed = at(pose, self._shape.vertices)
        seen = eye(placed)
        if not self.corresponding:
            return _silhouette(seen[self._shape.faces])
        if not self._faces:
            # turned with the shape, so that points of two pictures that belong together are about the same of the shape
            along = np.subtract(*eye(at(pose, self._axis)))
            turns = self._turns + math.atan2(along[1], along[0])
            return _closed(seen[np.argmax(seen @ np.stack([np.cos(turns), np.sin(turns)]), axis=0)])
        parts = []
        for face in self._faces:
            polygon = seen[face]
            front = _normal(placed[face]) @ eye.away > 1e-9
            parts.append(_closed(polygon if front else np.tile(polygon.mean(axis=0), (len(polygon), 1))))
        return "".join(parts)


def _silhouette(triangles: np.ndarray) -> str:
    """The outline of triangles (N, 3, 2) [px] together, with its holes, as far as it is in the drawing."""
    mask = rendering.silhouette(triangles + [BESIDE, 0.0], (WIDTH + 2.0 * BESIDE, HEIGHT), FINER)
    return "".join(_closed(line - [BESIDE, 0.0]) for line in rendering.outlines(mask, FINER, JOINED))


def _has_dents(shape: Shape) -> bool:
    return not (shape.convex or shape.smooth or shape.hollow or shape.ground)


def _polygons(shape: Shape) -> list[np.ndarray]:
    """The faces of a convex shape, counter-clockwise from outside, by numbers of vertices; none if there are many."""
    corners = shape.vertices[shape.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    areas = np.linalg.norm(normals, axis=1)
    faces, normals = shape.faces[areas > 1e-15], normals[areas > 1e-15] / areas[areas > 1e-15, None]
    groups: list[tuple[np.ndarray, set[int]]] = []
    for face, normal in zip(faces, normals, strict=True):
        found = next((group for group in groups if group[0] @ normal > 1.0 - 1e-6), None)
        if found is None:
            if len(groups) == FACES:
                return []
            groups.append((normal, set(face.tolist())))
        else:
            found[1].update(face.tolist())
    return [_around(shape.vertices, np.array(sorted(members)), normal) for normal, members in groups]


def _around(vertices: np.ndarray, members: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """The vertices of a plane convex face in their order around its normal."""
    offset = vertices[members] - vertices[members].mean(axis=0)
    u = np.cross(normal, np.eye(3)[int(np.argmin(np.abs(normal)))])
    order = np.argsort(np.arctan2(offset @ np.cross(normal, u), offset @ u))
    ordered: np.ndarray = members[order]
    return ordered


def _normal(polygon: np.ndarray) -> np.ndarray:
    """Normal of a plane polygon (N, 3), as long as its area."""
    first = polygon[0]
    total: np.ndarray = 0.5 * np.cross(polygon[1:-1] - first, polygon[2:] - first).sum(axis=0)
    return total


def _bodies_at(scene: Scene, frame: Frame, eye: _Eye) -> list[str]:
    """The shapes of a scene: in the plane their outlines, the farthest first, and in space what is seen of them."""
    if not scene.planar:
        rendered, all_shapes = _Rendering(scene, eye), range(len(scene.shapes))
        paths = rendered.regions(rendered.image(frame, all_shapes, rendered.empty(FINER)), all_shapes)
        return [f'<path {style} d="{path}"/>' for style, path in paths.items()]
    parts = []
    for shape in (scene.shapes[number] for number in _order(scene, frame, eye)):
        path = _Outline(shape).path(frame.poses[shape.body], eye)
        if shape.hollow:
            parts.append(f'<path fill="none" stroke="{EDGE}" stroke-width="1.2" d="{path}"/>')
        else:
            style = f'stroke="{EDGE}" stroke-width="0.7" stroke-linejoin="round"'
            parts.append(f'<path fill="{_colour(scene, shape)}" {style} d="{path}"/>')
    return parts


class _Rendering:
    """Rendered image of a scene in space."""

    def __init__(self, scene: Scene, eye: _Eye):
        self._scene, self._eye = scene, eye
        self._surfaces = [rendering.surface_of(shape) for shape in scene.shapes]
        self._first = np.concatenate([[0], np.cumsum([one.patches for one in self._surfaces])])
        self._project = eye.project + [[0.0, 0.0, 0.0, BESIDE], np.zeros(4), np.zeros(4)]
        view = eye.view
        self._cut = np.zeros(4) if view.cut is None else np.array([*view.normal, view.normal @ view.cut])

    def empty(self, finer: int) -> rendering.Image:
        return rendering.empty((WIDTH + 2.0 * BESIDE, HEIGHT), finer)

    def image(self, frame: Frame, shapes: Iterable[int], before: rendering.Image) -> rendering.Image:
        """Some of the shapes, by their numbers, at a frame, with what an image shows already."""
        image = before.copy()
        poses = {number: frame.poses[self._scene.shapes[number].body].copy() for number in shapes}
        for number in poses:
            if self._scene.shapes[number].ground and _is_behind(self._scene.shapes[number], frame, self._eye):
                poses[number][:3] -= FAR * self._scene.size * self._eye.away
        placed = [(number, self._first[number], self._surfaces[number], pose) for number, pose in poses.items()]
        rendering.draw(image, placed, self._project, LIGHT / np.linalg.norm(LIGHT), self._cut)
        return image

    def regions(self, image: rendering.Image, shapes: Sequence[int]) -> dict[str, str]:
        """Paths of a picture of some shapes, by their style, in the order in which they are drawn."""
        for joined in JOINED_STEPS:
            found = self._all_regions(image, shapes, joined)
            if sum(map(len, found.values())) <= LARGEST:
                break
        return found

    def _all_regions(self, image: rendering.Image, shapes: Sequence[int], joined: int) -> dict[str, str]:
        fills: dict[str, list[str]] = {}
        edges: dict[str, list[str]] = {}
        for seen, number in self._seen(image, shapes, joined):
            shades = _shades(self._colour(number), joined)
            patches = np.unique(seen.patch[seen.whole])
            if len(patches):  # below what is too narrow to have an outline
                fills.setdefault(_plain(shades[seen.usual]), []).append(seen.path(seen.whole))
            for patch in patches:
                mask = seen.patch == patch
                found = np.unique(seen.step[mask])
                for step in found if len(found) > 1 else ():
                    fills.setdefault(_plain(shades[step]), []).append(seen.path(mask & (seen.step == step)))
                filled = "none" if len(found) > 1 else shades[found[0]]
                edges.setdefault(f'fill="{filled}" {OUTLINED}', []).append(seen.path(mask))
            edges.setdefault(self._of_section(number), []).append(seen.path(seen.section))
        return {style: path for style, paths in (fills | edges).items() if (path := "".join(paths))}

    def few_regions(self, image: rendering.Image, shapes: Sequence[int]) -> dict[str, str]:
        """Paths, as `regions`, for an animation: outlines of shapes, and of a few steps of light on them."""
        found: dict[str, str] = {}
        for seen, number in self._seen(image, shapes, MOVING_STEPS):
            shades, of = _shades(self._colour(number), MOVING_STEPS), f'data-shape="{number}"'
            found[f'{of} fill="{shades[seen.usual]}" {OUTLINED}'] = seen.path(seen.whole, short=True)
            for step in set(np.unique(seen.step[seen.whole]).tolist()) - {seen.usual}:
                path = seen.path(seen.whole & (seen.step == step), short=True)
                found[f"{of} {_plain(shades[step])}"] = path
            found[f"{of} {self._of_section(number)}"] = seen.path(seen.section, short=True)
        return {style: path for style, path in found.items() if path}

    def _seen(self, image: rendering.Image, shapes: Iterable[int], joined: int) -> Iterator[tuple[_Seen, int]]:
        """Visible ones of the shapes, and their numbers."""
        from scipy.ndimage import find_objects  # takes long to import: only where a picture is drawn

        owner = np.searchsorted(self._first, image.patch, side="right")  # number of the shape + 1; 0: nothing
        cut = image.patch < -1
        owner[cut] = -1 - image.patch[cut]
        boxes = dict(enumerate(find_objects(owner)))
        for number in shapes:
            if (box := boxes.get(number)) is not None:
                yield _Seen(image, number, self._first[number : number + 2], box, joined), number

    def _colour(self, number: int) -> str:
        return _colour(self._scene, self._scene.shapes[number])

    def _of_section(self, number: int) -> str:
        return f'fill="{_mixed(self._colour(number), SECTION)}" {OUTLINED}'


Box = tuple[slice, slice]
"""Rows and columns of an image."""


class _Seen:
    """The part of an image in which a shape is seen.

    Attributes:
        patch, step: of that part; of the steps of light, some are one.
        whole, section: where the shape is seen, and where its section.
        usual: the step that most of it has.
    """

    def __init__(self, image: rendering.Image, number: int, patches: np.ndarray, box: Box, joined: int):
        part = tuple(slice(side.start - side.start % JOINED, side.stop + side.stop % JOINED) for side in box)
        self._finer = image.finer
        self._from = np.array([part[1].start, part[0].start]) / image.finer - [BESIDE, 0.0]
        self.patch, self.step = image.patch[part], image.step[part] // joined
        self.whole = (self.patch >= patches[0]) & (self.patch < patches[1])
        self.section = self.patch == -2 - number
        self.usual = int(np.bincount(self.step[self.whole]).argmax()) if self.whole.any() else 0

    def path(self, mask: np.ndarray, *, short: bool = False) -> str:
        """Closed outlines of a part of it."""
        lines = rendering.outlines(mask, self._finer, JOINED)
        return "".join((_short if short else _closed)(line + self._from) for line in lines)


def _shades(colour: str, joined: int) -> list[str]:
    """A colour in steps of light, of which some are one."""
    steps = rendering.STEPS // joined
    return [_shaded(colour, (2.0 * k + 1.0) / steps - 1.0) for k in range(steps)]


def _plain(shade: str) -> str:
    return f'fill="{shade}" stroke="{shade}" stroke-width="0.6"'  # which covers the gap between two regions


def _fields(scene: Scene, eye: _Eye) -> list[str]:
    """The regions, surfaces and curves of fields, through which one sees."""
    style = f'fill="{FIELD}" fill-opacity="0.15" stroke="{FIELD}" stroke-width="0.8" stroke-dasharray="3 2"'
    return [f'<path {style} d="{_Outline(shape).path(AT_REST, eye)}"/>' for _, shape in scene.fields]


def _order(scene: Scene, frame: Frame, eye: _Eye) -> list[int]:
    """Numbers of the shapes, what hides others after them, else the farthest first.

    Planes, and what does not move in the plane, lie behind all others.
    """
    depth, solids = [], []
    for number, shape in enumerate(scene.shapes):
        placed = at(frame.poses[shape.body], shape.vertices)
        behind = shape.ground or (scene.planar and not scene.moving[shape.body])
        depth.append((not behind, float(placed.mean(axis=0) @ eye.away), number))
        if not behind and not scene.planar:
            solids.append((number, _Solid(placed, eye)))
    hidden_by: dict[int, set[int]] = {number: set() for number, _ in solids}
    for (a, one), (b, other) in itertools.combinations(solids, 2):
        if before := one.before(other):
            hidden_by[b if before > 0.0 else a].add(a if before > 0.0 else b)
    left, ordered = [number for _, _, number in sorted(depth)], []
    while left:
        hiding = set().union(*(hidden_by.get(number, ()) for number in left))
        ordered.append(next((number for number in left if number not in hiding), left[0]))
        left.remove(ordered[-1])
    return ordered


def _is_behind(shape: Shape, frame: Frame, eye: _Eye) -> bool:
    """Whether a plane is seen from behind."""
    top = at(frame.poses[shape.body], shape.vertices)[shape.faces[0]]
    return bool(_normal(top) @ eye.away < 0.0)


class _Solid:
    """The convex hull of a shape, as rays along the view meet it."""

    def __init__(self, points: np.ndarray, eye: _Eye):
        from scipy.spatial import ConvexHull, QhullError  # takes long to import: only where a picture is drawn

        seen = eye(points)
        self.low, self.high = seen.min(axis=0), seen.max(axis=0)
        self._planes: np.ndarray | None = None
        spread = np.stack([*seen.T, eye.scale * (points @ eye.away)], axis=-1)  # depth towards the eye, in pixels
        with contextlib.suppress(QhullError):  # it is flat
            self._planes = ConvexHull(spread).equations

    def before(self, other: _Solid) -> float:
        """Difference in the distance to the eye to another shape [px], where one hides the other, else 0."""
        low, high = np.maximum(self.low, other.low), np.minimum(self.high, other.high)
        if self._planes is None or other._planes is None or not (low < high).all():
            return 0.0
        part = (np.arange(RAYS) + 0.5) / RAYS
        rays = low + (high - low) * np.stack(np.meshgrid(part, part), axis=-1).reshape(-1, 2)
        (hit, mine), (also_hit, others) = self._intersect(rays), other._intersect(rays)
        both = hit & also_hit
        return float(np.mean(mine[both] - others[both])) if both.any() else 0.0

    def _intersect(self, rays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whether rays (N, 2) meet it, (N,), and the middle of what is within it [px], (N,)."""
        assert self._planes is not None
        across, along, offset = self._planes[:, :2], self._planes[:, 2], self._planes[:, 3]
        beyond = rays @ across.T + offset
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = -beyond / along
        front, back = along > 1e-9, along < -1e-9
        near, far = ends[:, front].min(axis=1), ends[:, back].max(axis=1)
        outside = (beyond[:, ~(front | back)] > 0.0).any(axis=1)
        return (near > far) & ~outside, 0.5 * (near + far)


def _colour(scene: Scene, shape: Shape) -> str:
    if shape.body in scene.held:
        return TOOL
    if not scene.moving[shape.body]:
        return FIXED
    return MOVING[sum(scene.moving[: shape.body]) % len(MOVING)]


def _shaded(colour: str, light: float) -> str:
    """A colour in a light from -1 (turned away) to 1."""
    values = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    factor = 0.78 + 0.22 * light
    return "#" + "".join(f"{max(0, min(255, round(value * factor + 14))):02x}" for value in values)


def _mixed(colour: str, white: float) -> str:
    """A colour with a part of white."""
    values = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(value + white * (255 - value)):02x}" for value in values)


def _paths(frames: Frames, index: int, eye: _Eye) -> list[str]:
    """The paths of the tools up to a frame."""
    chosen = np.unique(np.linspace(0, index, min(index + 1, PATH)).astype(int))
    parts = []
    for hand in range(len(frames.scene.hands)) if len(chosen) > 1 else ():
        places = eye(np.array([frames.frame(int(i)).hands[hand].tool[:3] for i in chosen]))
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        under = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)  # which shows it on the tool, of the same colour
        parts.append(f'<path fill="none" stroke="#ffffff" stroke-width="2.4" opacity="0.5" d="{under}"/>')
        parts.append(f'<polyline fill="none" stroke="{TOOL}" stroke-width="1" opacity="0.55" points="{points}"/>')
    return parts


def _contacts(frame: Frame, eye: _Eye, per_newton: float) -> list[str]:
    """Points, normals and forces of the contacts: sticking ones as discs, sliding ones as diamonds with dashes."""
    parts = []
    shown = eye.shows(frame.contacts["point"])
    for contact, slides in zip(frame.contacts[shown], frame.slides[shown], strict=True):
        normal = contact["point"] + NORMAL / eye.scale * contact["normal"]
        start, end, along = eye(np.stack([contact["point"], contact["point"] + per_newton * contact["force"], normal]))
        parts.append(f'<path fill="none" stroke="{NORMALS}" stroke-width="1" d="{_line(start, along)}"/>')
        parts += _arrow(start, end, SLIDES if slides else STICKS, dashed=bool(slides))
        parts.append(_contact_point(start, bool(slides)))
    return parts


def _longest_arrow(frame: Frame, eye: _Eye, greatest: float) -> float:
    """Length of the arrow of the greatest force [px] with which all arrows end in the picture, if it is not short."""
    contacts = frame.contacts[eye.shows(frame.contacts["point"])]
    starts = eye(contacts["point"])
    along = eye(contacts["point"] + contacts["force"] * ARROW / (greatest * eye.scale)) - starts
    low, high = np.array([BORDER, TOP + BORDER]), np.array([WIDTH - BORDER, HEIGHT - BOTTOM - BORDER])
    room = np.where(along > 0.0, high - starts, starts - low) / np.maximum(np.abs(along), 1e-9)
    return ARROW * float(np.clip(room.min(initial=1.0), SHORTENED, 1.0))


def _contact_point(place: np.ndarray, slides: bool) -> str:
    x, y = place
    if slides:
        corners = 4.0 * np.array([[-1.0, 0.0], [0.0, -1.0], [1.0, 0.0], [0.0, 1.0]]) + place
        return f'<path fill="{SLIDES}" d="{_closed(corners)}"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{STICKS}"/>'


def _hands(frame: Frame, eye: _Eye) -> list[str]:
    """Hand points of the tools, and of the devices."""
    parts = []
    for hand in frame.hands:
        if hand.device is not None:
            parts.append(_hand_point(eye(hand.device[None, :3])[0], device=True))
        parts.append(_hand_point(eye(hand.tool[None, :3])[0], device=False))
    return parts


def _hand_point(place: np.ndarray, device: bool) -> str:
    x, y = place
    if device:
        style = f'fill="#ffffff" fill-opacity="0.5" stroke="{DEVICE}" stroke-width="1.6"'
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" {style}/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="#ffffff" stroke="{TOOL}" stroke-width="1.2"/>'


def _arrow(start: np.ndarray, end: np.ndarray, colour: str, dashed: bool = False) -> list[str]:
    along = end - start
    length = float(np.linalg.norm(along))
    if length < SHORTEST:
        return []
    along /= length
    across = np.array([-along[1], along[0]])
    head = np.stack([end, end - 6.0 * along + 2.6 * across, end - 6.0 * along - 2.6 * across])
    dashes = ' stroke-dasharray="4 2"' if dashed else ""
    shaft = _line(start, end - 4.0 * along)
    return [
        f'<path fill="none" stroke="{colour}" stroke-width="1.6"{dashes} d="{shaft}"/>',
        f'<path fill="{colour}" d="{_closed(head)}"/>',
    ]


def _legend(frame: Frame, path: bool, newtons_per_pixel: float | None, *, contacts: bool = True) -> list[str]:
    """A line of what is drawn: each sign with its name, and an arrow with its force [N]; only what there is."""
    height = HEIGHT - 0.5 * BOTTOM
    signs: list[tuple[float, list[str], str]] = []  # width of the sign, the sign from 0 on, its name

    def at_x(x: float) -> np.ndarray:
        return np.array([x, height])

    signs.append((10.0, [f'<rect fill="{TOOL}" x="0" y="{height - 4.0:g}" width="10" height="8"/>'], "tool"))
    if path:
        line = f'<path fill="none" stroke="{TOOL}" stroke-width="1" opacity="0.55" d="{_line(at_x(0.0), at_x(14.0))}"/>'
        signs.append((14.0, [line], "its path"))
    if any(hand.device is not None for hand in frame.hands):
        signs.append((10.0, [_hand_point(at_x(5.0), device=True)], "hand of the device"))
    for slides, name in ((False, "sticks"), (True, "slides")):
        if contacts and (np.asarray(frame.slides) == slides).any():
            signs.append((8.0, [_contact_point(at_x(4.0), slides)], name))
    if newtons_per_pixel is not None:
        force = _round_below(0.6 * ARROW * newtons_per_pixel)
        length = force / newtons_per_pixel
        arrow = _arrow(at_x(0.0), at_x(length), NORMALS)
        signs.append((length, arrow, f"{force:g} N"))
    parts, x = [], 8.0
    for width, sign, name in signs:
        parts.append(f'<g transform="translate({x:.1f} 0)">{"".join(sign)}</g>')
        parts.append(_text(x + width + 4.0, height + 3.2, 9.0, name))
        x += width + 4.0 + 5.2 * len(name) + 12.0
    return parts


def _round_below(value: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is not above a positive value."""
    power = 10.0 ** math.floor(math.log10(value))
    return float(next(power * step for step in (5.0, 2.0, 1.0) if power * step <= value * (1.0 + 1e-9)))


def _line(start: np.ndarray, end: np.ndarray) -> str:
    return f"M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"


def _closed(points: np.ndarray) -> str:
    """A closed path through points in the drawing."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + "Z"


def _short(points: np.ndarray) -> str:
    """Closed path through points, as `_closed`, in fewer characters: steps from point to point."""
    tenths = np.round(10.0 * points).astype(int)
    steps = np.diff(tenths, axis=0)
    numbers = [f"{value / 10.0:g}".replace("0.", ".", 1 if abs(value) < 10 else 0) for value in steps.ravel().tolist()]
    text = "".join(number if number[0] == "-" else f" {number}" for number in numbers).lstrip()
    return f"M{tenths[0, 0] / 10.0:g} {tenths[0, 1] / 10.0:g}l{text}z"


def _time(time: float) -> str:
    return f"{time:.3g} s" if time < 100.0 else f"{time:.0f} s"


def _describe(scene: Scene, frame: Frame, forces: np.ndarray, when: str = "") -> str:
    """Description of a picture in words, for screen readers."""
    texts = []
    for holding, hand in zip(scene.hands, frame.hands, strict=True):
        place = ", ".join(f"{axis} {_millimetres(value)}" for axis, value in zip("xyz", hand.tool[:3], strict=True))
        named = f" of hand {holding.name}" if holding.name else ""
        texts.append(f"{when}the tool{named} is at {place} mm")
    count = len(frame.contacts)
    if len(forces):
        slide = int(np.count_nonzero(frame.slides))
        sizes = f"largest force {forces.max():.3g} N"
        texts.append(
            f"{count} contact{'s' if count > 1 else ''}, of which {slide} slide{'s' if slide == 1 else ''}; {sizes}"
        )
    elif not when:
        texts.append("no contacts")
    description = "; ".join(texts)
    return f"{description[:1].upper()}{description[1:]}."


def _millimetres(value: float) -> str:
    text = f"{1e3 * value:.1f}"
    return "0.0" if text == "-0.0" else text.replace("-", "\N{MINUS SIGN}")


def _text(x: float, y: float, size: float, text: str) -> str:
    return f'<text class="ink" x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="#222222">{escape(text)}</text>'


def _document(parts: Sequence[str], legend: Sequence[str], text: str, description: str, style: str = "") -> str:
    """A drawing: what is seen between a line of text and the legend."""
    content = "\n".join(parts)
    within = f'x="0" y="{TOP:g}" width="{WIDTH:g}" height="{HEIGHT - TOP - BOTTOM:g}"'
    seen = f'viewBox="0 {TOP:g} {WIDTH:g} {HEIGHT - TOP - BOTTOM:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="scene" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" '
        f'aria-label="{escape(f"{text}. {description}")}" font-family="DejaVu Sans, sans-serif">\n'
        f"<title>{escape(text)}</title>\n<desc>{escape(description)}</desc>\n"
        + (f"<style>{style}</style>\n" if style else "")
        + f'<rect class="paper" width="{WIDTH:g}" height="{HEIGHT:g}" fill="#ffffff"/>\n'
        f"<svg {within} {seen}>\n{content}\n</svg>\n"
        + "\n".join([_text(8.0, 16.0, 11.0, text), *legend])
        + "\n</svg>\n"
    )
