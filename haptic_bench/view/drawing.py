"""Drawings of a scene for reports: as it is at an instant, and a short animation that repeats; each one SVG of its own.

The projection is parallel; convex shapes are drawn by the faces that are seen, those with many faces by their outline.
An animation has the same number of points in all its pictures, between which the browser interpolates (SMIL).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Protocol

import numpy as np

from haptic_bench.view.frame import Frame
from haptic_bench.view.scene import Scene, Shape, at

WIDTH, HEIGHT = 480.0, 330.0  # [px], as the panels of reports
TOP = 24.0  # [px] of that for the line of text
MARGIN = 14.0  # [px] around what is shown
AWAY = {True: (0.0, 0.0, 1.0), False: (0.55, -0.75, 0.45)}  # towards the eye, of planar scenes and others
LIGHT = np.array([0.3, -0.4, 0.86])
FACES = 12  # of a shape; one with more is drawn by its outline
OUTLINE = 28  # points
PICTURES = 60  # of an animation
SAMPLED = 60  # frames from which is found where bodies are to be shown
POINTS = 9000  # of an animation; one with more has fewer pictures
LOOP = 4.0  # [s] for a repetition of an animation
ARROW = 70.0  # [px] length of the greatest force
SHORTEST = 6.0  # [px] of an arrow
SMALLEST = 0.05  # of the scene's size: what is shown is at least that large
NEAR = 0.6  # of the extent of what moves: how much is shown around that
WHOLE = 2.5  # of the same: what stands there and is smaller is shown as a whole
VISIBLE = 2.0  # [px] of a motion
WAY = 400  # points of the way of a hand

FIXED, EDGE, TOOL, DEVICE = "#ced2d8", "#5b636d", "#0072b2", "#3d9bd1"
MOVING = ("#e2bd79", "#a0c4aa", "#cda0b2", "#9ebad6", "#d6c696")
STICKS, SLIDES, FORCE = "#009e73", "#d55e00", "#b8578f"


class Frames(Protocol):
    """What is drawn of a trial."""

    scene: Scene
    times: np.ndarray

    def frame(self, index: int) -> Frame: ...

    def greatest_force(self) -> float: ...


class _Eye:
    """The projection of a trial, in which all that moves stays in sight, and the scene as it is around that."""

    def __init__(self, frames: Frames):
        scene = frames.scene
        self.away = np.array(AWAY[scene.planar]) / np.linalg.norm(AWAY[scene.planar])
        up = np.array([0.0, 1.0, 0.0] if scene.planar else [0.0, 0.0, 1.0])
        self._right = np.cross(up, self.away)
        self._right /= np.linalg.norm(self._right)
        self._up = np.cross(self.away, self._right)
        flat = self._flat(_in_sight(frames))
        low, high = flat.min(axis=0), flat.max(axis=0)
        self._centre = 0.5 * (low + high)
        room = np.array([WIDTH, HEIGHT - TOP]) - 2.0 * MARGIN
        self.scale = float((room / np.maximum(high - low, SMALLEST * scene.size)).min())

    def _flat(self, points: np.ndarray) -> np.ndarray:
        """Points (N, 3) to the right and up [m], (N, 2)."""
        return np.stack([points @ self._right, points @ self._up], axis=-1)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Places (N, 2) of points (N, 3) in the drawing [px]."""
        right, up = self.scale * (self._flat(np.asarray(points, float)) - self._centre).T
        return np.stack([0.5 * WIDTH + right, 0.5 * (HEIGHT + TOP) - up], axis=-1)


def _chosen(frames: Frames, most: int) -> list[Frame]:
    """At most so many frames, evenly over the trial."""
    last = len(frames.times) - 1
    return [frames.frame(int(i)) for i in np.unique(np.linspace(0, last, min(last + 1, most)).astype(int))]


def _ways_of_hands(frames: Frames) -> np.ndarray:
    """Points of the hands over the trial, (times, hands, 3): of the tools, and of the devices where there are any."""
    pairs = [[(hand.tool, hand.device) for hand in frame.hands] for frame in _chosen(frames, WAY)]
    return np.array([[pose[:3] for pair in pairs_now for pose in pair if pose is not None] for pairs_now in pairs])


def _ways_of_bodies(frames: Frames) -> np.ndarray:
    """Vertices of all that can move over the trial, (times, N, 3)."""
    moving = [shape for shape in frames.scene.shapes if frames.scene.moving[shape.body]]
    chosen = _chosen(frames, SAMPLED) if moving else []
    return np.array([np.concatenate([at(f.poses[s.body], s.vertices) for s in moving]) for f in chosen]).reshape(
        len(chosen), -1, 3
    )


def moves(frames: Frames) -> bool:
    """Whether anything moves as far as it can be seen in a drawing."""
    eye = _Eye(frames)
    for ways in (_ways_of_hands(frames), _ways_of_bodies(frames)):
        places = np.array([eye(points) for points in ways])
        if places.size and np.ptp(places, axis=0).max() >= VISIBLE:
            return True
    return False


def _in_sight(frames: Frames) -> np.ndarray:
    """Points (N, 3) that a drawing has to show: hands and what moves, all the time, and what stands near to them."""
    scene = frames.scene
    found = [_ways_of_hands(frames).reshape(-1, 3), _ways_of_bodies(frames).reshape(-1, 3)]
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
    """The scene at one of its frames, with the way of the tool up to there.

    Args:
        frames: of the trial.
        index: of the frame.
        what: happens there, for the line of text.
    """
    scene, frame = frames.scene, frames.frame(index)
    eye = _Eye(frames)
    parts = _bodies_at(scene, frame, eye)
    parts += _way(frames, index, eye)
    parts += _contacts(frame, eye, ARROW / eye.scale / max(frames.greatest_force(), 1e-12))
    parts += _hands(frame, eye)
    return _document(parts, f"{what}, {_time(frame.time)}")


def animation(frames: Frames) -> str:
    """The whole trial in a few seconds, again and again."""
    scene = frames.scene
    eye = _Eye(frames)
    outlines = [_Outline(shape) for shape in scene.shapes]
    moving = sum(one.points for one, shape in zip(outlines, scene.shapes, strict=True) if scene.moving[shape.body])
    count = int(np.clip(POINTS // max(moving, 1), 5, PICTURES))
    last = len(frames.times) - 1
    wanted = np.linspace(frames.times[0], frames.times[-1], count)
    chosen = np.clip(np.searchsorted(frames.times, wanted), 0, last)
    shown = [frames.frame(int(i)) for i in chosen]
    parts = []
    for number in _order(scene, shown[0], eye):
        shape, outline = scene.shapes[number], outlines[number]
        paths = [outline.path(frame.poses[shape.body], eye) for frame in shown]
        colour = _colour(scene, shape)
        style = f'fill="{colour}" stroke="{EDGE}" stroke-width="0.7" stroke-linejoin="round" fill-rule="nonzero"'
        if shape.hollow:
            style = f'fill="none" stroke="{EDGE}" stroke-width="1.2"'
        parts.append(_animated(f'<path {style} d="{paths[0]}"', "d", paths))
    parts += _way(frames, last, eye)
    for hand in range(len(scene.hands)):
        for kind, colour in ("tool", TOOL), ("device", DEVICE):
            poses = [getattr(frame.hands[hand], kind) for frame in shown]
            if any(pose is None for pose in poses):
                continue
            places = eye(np.array([pose[:3] for pose in poses]))
            style = (
                f'fill="#ffffff" fill-opacity="{1.0 if kind == "tool" else 0.5}" stroke="{colour}" stroke-width="1.4"'
            )
            points = [f"M{x - 3:.1f} {y:.1f}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0" for x, y in places]
            parts.append(_animated(f'<path {style} d="{points[0]}"', "d", points))
    speed = (frames.times[-1] - frames.times[0]) / LOOP
    times = f"{speed:.2g}"
    text = f"the whole trial, {_time(frames.times[-1])}, {'at' if times == '1' else f'{times} times'} its speed"
    return _document(parts, text if speed > 0.0 else "the whole trial")


def _animated(element: str, attribute: str, values: Sequence[str]) -> str:
    """An element without its end, whose attribute takes some values one after the other; it rests at the last."""
    if all(value == values[0] for value in values):
        return f"{element}/>"
    held = [*values, values[-1], values[-1]]
    tag = element[1:].partition(" ")[0]
    return (
        f'{element}><animate attributeName="{attribute}" dur="{LOOP + 1.0:g}s" repeatCount="indefinite" '
        f'values="{";".join(held)}"/></{tag}>'
    )


class _Outline:
    """How a shape is drawn with the same number of points wherever it is."""

    def __init__(self, shape: Shape):
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
    """The shapes of a scene, the farthest first, shaded by a light from above."""
    parts = []
    for number in _order(scene, frame, eye):
        shape = scene.shapes[number]
        outline, pose, colour = _Outline(shape), frame.poses[shape.body], _colour(scene, shape)
        edge = f'stroke="{EDGE}" stroke-width="0.7" stroke-linejoin="round"'
        if shape.hollow:
            parts.append(f'<path fill="none" stroke="{EDGE}" stroke-width="1.2" d="{outline.path(pose, eye)}"/>')
        elif shape.smooth or not shape.convex or scene.planar or not (faces := _polygons(shape)):
            parts.append(f'<path fill="{colour}" {edge} d="{outline.path(pose, eye)}"/>')
        else:
            placed = at(pose, shape.vertices)
            seen = eye(placed)
            for face in faces:
                normal = _normal(placed[face])
                if normal @ eye.away > 1e-9:
                    light = float(normal @ LIGHT / np.linalg.norm(normal))
                    parts.append(f'<path fill="{_shaded(colour, light)}" {edge} d="{_closed(seen[face])}"/>')
    return parts


def _order(scene: Scene, frame: Frame, eye: _Eye) -> list[int]:
    """Numbers of the shapes, the farthest first; planes, and what does not move in the plane, lie behind all others."""
    depth = []
    for number, shape in enumerate(scene.shapes):
        middle = at(frame.poses[shape.body], shape.vertices).mean(axis=0)
        behind = shape.ground or (scene.planar and not scene.moving[shape.body])
        depth.append((not behind, float(middle @ eye.away), number))
    return [number for _, _, number in sorted(depth)]


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


def _way(frames: Frames, index: int, eye: _Eye) -> list[str]:
    """The way of the tools up to a frame."""
    chosen = np.unique(np.linspace(0, index, min(index + 1, WAY)).astype(int))
    parts = []
    for hand in range(len(frames.scene.hands)) if len(chosen) > 1 else ():
        places = eye(np.array([frames.frame(int(i)).hands[hand].tool[:3] for i in chosen]))
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline fill="none" stroke="{TOOL}" stroke-width="1" opacity="0.55" points="{points}"/>')
    return parts


def _contacts(frame: Frame, eye: _Eye, per_newton: float) -> list[str]:
    """Points and forces of the contacts."""
    parts = []
    for contact, slides in zip(frame.contacts, frame.slides, strict=True):
        colour = SLIDES if slides else STICKS
        start, end = eye(np.stack([contact["point"], contact["point"] + per_newton * contact["force"]]))
        parts += _arrow(start, end, colour)
        parts.append(f'<circle cx="{start[0]:.1f}" cy="{start[1]:.1f}" r="2.6" fill="{colour}"/>')
    return parts


def _hands(frame: Frame, eye: _Eye) -> list[str]:
    """Hand points of the tools, and of the devices."""
    parts = []
    for hand in frame.hands:
        if hand.device is not None:
            x, y = eye(hand.device[None, :3])[0]
            style = 'fill="#ffffff" fill-opacity="0.5"'
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" {style} stroke="{DEVICE}" stroke-width="1.6"/>')
        x, y = eye(hand.tool[None, :3])[0]
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="#ffffff" stroke="{TOOL}" stroke-width="1.2"/>')
    return parts


def _arrow(start: np.ndarray, end: np.ndarray, colour: str) -> list[str]:
    along = end - start
    length = float(np.linalg.norm(along))
    if length < SHORTEST:
        return []
    along /= length
    across = np.array([-along[1], along[0]])
    head = np.stack([end, end - 6.0 * along + 2.6 * across, end - 6.0 * along - 2.6 * across])
    neck = end - 4.0 * along
    return [
        f'<path fill="none" stroke="{colour}" stroke-width="1.6" '
        f'd="M{start[0]:.1f} {start[1]:.1f}L{neck[0]:.1f} {neck[1]:.1f}"/>',
        f'<path fill="{colour}" d="{_closed(head)}"/>',
    ]


def _closed(points: np.ndarray) -> str:
    """A closed path through points in the drawing."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + "Z"


def _time(time: float) -> str:
    return f"{time:.3g} s" if time < 100.0 else f"{time:.0f} s"


def _document(parts: Sequence[str], text: str) -> str:
    content = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" '
        f'aria-label="{escape(text)}" font-family="DejaVu Sans, sans-serif">\n'
        f'<rect width="{WIDTH:g}" height="{HEIGHT:g}" fill="#ffffff"/>\n{content}\n'
        f'<rect width="{WIDTH:g}" height="{TOP:g}" fill="#ffffff" opacity="0.85"/>\n'
        f'<text x="8" y="16" font-size="11" fill="#222222">{escape(text)}</text>\n</svg>\n'
    )
