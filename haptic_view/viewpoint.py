"""Viewpoint of a scene: chosen so that what moves does not move along the line of sight."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from haptic_sim.kernels import kernel
from haptic_sim.rotations import matrices
from haptic_view.frame import Frame
from haptic_view.scene import Scene
from haptic_view.shapes import Shape, at

ABOVE = np.array([0.0, 0.0, 1.0])  # towards the eye, of planar scenes
USUAL = np.array([0.55, -0.75, 0.45]) / np.linalg.norm([0.55, -0.75, 0.45])  # of the others, where nothing moves
ELEVATIONS = (26.0, 45.0, 65.0)  # [deg], from which it is chosen
AZIMUTHS = range(0, 360, 15)  # [deg]
TURNED = 0.5  # what motion that is seen is worth less for a view from the opposite side
BEHIND = 0.5  # and for one from behind a wall
HIDDEN = 1.0  # and for one in which fixed bodies hide the motion
VIEWED_POINTS = 40  # points of a motion, and of the hands at the start, that are to be seen
STILL = 0.01  # of the size of the scene: less is no motion
SAMPLED = 60  # frames of a trial from which is found where bodies are
CONTACTS = 12  # of a trial, at different times, that are to be seen
UNSEEN = 1.0  # what motion is worth less for a view in which bodies hide all of them
MOST_TRIANGLES = 50_000  # of a shape that may hide a contact: the search looks at each
AWAY = 0.02  # of the size of the scene: what is nearer to a contact does not hide it
OVER_SECTION = 20.0  # [deg], from which a section is seen
PATH = 400  # points of the path of a hand


class Frames(Protocol):
    """Frames of a trial that are drawn."""

    scene: Scene
    times: np.ndarray

    def frame(self, index: int) -> Frame: ...

    def greatest_force(self) -> float: ...

    def __hash__(self) -> int: ...


def chosen_frames(frames: Frames, most: int) -> list[Frame]:
    """Frames at equal intervals over the trial, at most `most`."""
    last = len(frames.times) - 1
    return [frames.frame(int(i)) for i in np.unique(np.linspace(0, last, min(last + 1, most)).astype(int))]


def paths_of_hands(frames: Frames) -> np.ndarray:
    """Points of the hands over the trial, (times, hands, 3): of the tools, and of the devices where there are any."""
    pairs = [[(hand.tool, hand.device) for hand in frame.hands] for frame in chosen_frames(frames, PATH)]
    return np.array([[pose[:3] for pair in pairs_now for pose in pair if pose is not None] for pairs_now in pairs])


def paths_of_bodies(frames: Frames) -> np.ndarray:
    """Vertices of all that can move over the trial, (times, N, 3)."""
    moving = [shape for shape in frames.scene.shapes if frames.scene.moving[shape.body]]
    chosen = chosen_frames(frames, SAMPLED) if moving else []
    return np.array([np.concatenate([at(f.poses[s.body], s.vertices) for s in moving]) for f in chosen]).reshape(
        len(chosen), -1, 3
    )


def towards_eye(
    scene: Scene, paths: Sequence[np.ndarray], unseen: Callable[[np.ndarray], float] | None = None
) -> np.ndarray:
    """Unit vector from the scene to the eye, (3,).

    Planar scenes are seen from above. Of the directions from around and above, that one is taken from which most of
    the motion is seen, its smaller directions too, which fixed bodies do not hide, and in which no body hides where
    bodies touch; among equals the one that is nearest to the usual one, and in front of the walls.

    Args:
        scene: what there is to see.
        paths: points over time, (times, N, 3) each; the motion of each group counts the same.
        unseen: part of the contacts that is hidden from a direction, see `Contacts`.
    """
    if scene.planar:
        return ABOVE
    spreads = [spread for path in paths if (spread := _spread(path, STILL * scene.size)) is not None]
    boxes, targets = _Boxes(scene), _targets(scene, paths)
    walls = [(shape, scene.poses[shape.body]) for shape in scene.shapes if shape.ground]
    outward = [at(pose, shape.vertices) for shape, pose in walls]
    normals = [half[: len(half) // 2].mean(axis=0) - half[len(half) // 2 :].mean(axis=0) for half in outward]

    def is_behind(away: np.ndarray) -> bool:
        return any(normal @ away < -1e-3 * np.linalg.norm(normal) for normal in normals)

    if not (spreads or boxes.hide(targets, USUAL) or is_behind(USUAL) or (unseen and unseen(USUAL))):
        return USUAL

    def worth(away: np.ndarray) -> float:
        seen = sum(float(np.linalg.norm(np.cross(spread, away), axis=1).sum()) for spread in spreads)
        seen /= max(len(spreads), 1)
        behind = is_behind(away)
        turned = TURNED * 0.5 * float(1.0 - away @ USUAL)
        hidden = HIDDEN * boxes.hide(targets, away) + (UNSEEN * unseen(away) if unseen is not None else 0.0)
        return seen - turned - BEHIND * behind - hidden

    return max([USUAL, *_around()], key=worth)


class _Boxes:
    """Boxes around the fixed shapes of a scene, along the axes of their bodies."""

    def __init__(self, scene: Scene):
        fixed = [s for s in scene.shapes if not (scene.moving[s.body] or s.ground or s.hollow)]
        poses = scene.poses[[shape.body for shape in fixed]]
        self._R_WB, self._origins = matrices(poses[:, 3:]), poses[:, None, :3]
        self._low = np.array([shape.vertices.min(axis=0) for shape in fixed]).reshape(-1, 1, 3)
        self._high = np.array([shape.vertices.max(axis=0) for shape in fixed]).reshape(-1, 1, 3)

    def hide(self, points: np.ndarray, away: np.ndarray) -> float:
        """Part of some points (N, 3) that a box hides from an eye far away; no box hides those within it."""
        start = (points - self._origins) @ self._R_WB  # in the axes of the boxes, (B, N, 3)
        along = (away @ self._R_WB)[:, None]
        along[np.abs(along) < 1e-12] = 1e-12
        crossed = np.stack([(self._low - start) / along, (self._high - start) / along])
        enters, leaves = crossed.min(axis=0).max(axis=2), crossed.max(axis=0).min(axis=2)
        hidden = ((enters > 0.0) & (enters < leaves)).any(axis=0)
        return float(hidden.mean()) if len(points) else 0.0


class Contacts:
    """Contact points in a trial, the deepest contact at each of some times, and the shapes that may hide it then.

    A box around a mug has the opening of its handle in it: here what hides is found by triangles.

    Attributes:
        middle: of the contacts at these times [m], (3,).
    """

    def __init__(self, frames: Frames):
        scene = frames.scene
        shapes = [s for s in scene.shapes if not s.ground and 0 < len(s.faces) <= MOST_TRIANGLES]
        touching = [frame for frame in chosen_frames(frames, SAMPLED) if len(frame.contacts)] if shapes else []
        chosen = touching[:: max(1, -(-len(touching) // CONTACTS))]
        self._near = AWAY * scene.size
        self._seen: list[tuple[np.ndarray, np.ndarray]] = []  # triangles from a contact (T, 3, 3), their normals (T, 3)
        places = []
        for frame in chosen:
            point = frame.contacts["point"][np.argmax(frame.contacts["depth"])]
            if np.isfinite(point).all():
                places.append(frame.contacts["point"].mean(axis=0))
                parts = [self._of(s, at(frame.poses[s.body], s.vertices) - point) for s in shapes]
                corners, normals = (np.concatenate(of) for of in zip(*parts, strict=True))
                self._seen.append((corners, normals))
        self.middle = np.mean(places, axis=0) if places else np.zeros(3)

    def _of(self, shape: Shape, vertices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Triangles and their normals; none of a convex shape that touches there, which is in its own way."""
        corners = vertices[shape.faces]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        outside = np.einsum("ij,ij->i", normals, -corners[:, 0]) / np.maximum(np.linalg.norm(normals, axis=1), 1e-30)
        kept = slice(None) if not shape.convex or outside.max() > self._near else slice(0)
        return corners[kept], normals[kept]

    def hide(self, away: np.ndarray) -> float:
        """Part of the contacts that is hidden from an eye far away in this direction."""
        hidden = sum(_is_hidden(corners, normals, away, self._near) for corners, normals in self._seen)
        return hidden / max(len(self._seen), 1)


@kernel
def _is_hidden(corners, normals, away, near):
    """Whether a ray from the origin meets a triangle (T, 3, 3), farther away than something is near."""
    for t in range(corners.shape[0]):
        slope = distance = 0.0
        for k in range(3):
            slope += normals[t, k] * away[k]
            distance += normals[t, k] * corners[t, 0, k]
        if abs(slope) < 1e-30:  # it is seen along its plane
            continue
        distance /= slope
        if not distance > near:
            continue
        inside = True
        for i in range(3):  # whether the ray passes each side where the triangle is
            j = (i + 1) % 3
            x, y, z = corners[t, i]
            u, v, w = corners[t, j]
            turn = (y * w - z * v) * away[0] + (z * u - x * w) * away[1] + (x * v - y * u) * away[2]
            inside = inside and turn * slope >= 0.0
        if inside:
            return True
    return False


def _targets(scene: Scene, paths: Sequence[np.ndarray]) -> np.ndarray:
    """Points that are to be seen, (N, 3): the hands at the start, and some of each motion."""
    found = [at(scene.poses[hand.body], np.linalg.inv(hand.X_HB)[None, :3, 3]) for hand in scene.hands]
    for path in paths:
        points = path.reshape(-1, 3)
        points = points[np.isfinite(points).all(axis=1)]
        found.append(points[:: max(1, len(points) // VIEWED_POINTS)])
    return np.concatenate(found) if found else np.zeros((0, 3))


def _spread(path: np.ndarray, least: float) -> np.ndarray | None:
    """Principal directions of the motion of points, (3, 3), as long as their part of it; None if it is small [m]."""
    moved = path - np.nanmean(path, axis=0) if path.size else path
    moved = moved.reshape(-1, 3)
    moved = moved[np.isfinite(moved).all(axis=1)]
    if not len(moved):
        return None
    squares, directions = np.linalg.eigh(moved.T @ moved / len(moved))
    sizes = np.sqrt(np.maximum(squares, 0.0))
    return None if sizes.max() < least else (directions * sizes / sizes.sum()).T


def _around() -> list[np.ndarray]:
    found = []
    for elevation in map(math.radians, ELEVATIONS):
        for azimuth in map(math.radians, AZIMUTHS):
            across = math.cos(elevation)
            found.append(np.array([across * math.cos(azimuth), across * math.sin(azimuth), math.sin(elevation)]))
    return found


class View(NamedTuple):
    """Viewpoint of a scene, and whether it is cut open.

    Attributes:
        away: unit vector from the scene to the eye, (3,).
        cut: a point of the plane of a section [m], whose half towards the eye is left out, (3,); None: nothing is.
        normal: of this plane, towards the eye, (3,).
    """

    away: np.ndarray
    cut: np.ndarray | None = None
    normal: np.ndarray = ABOVE


@lru_cache(maxsize=1)  # all drawings of a trial ask
def of_trial(frames: Frames) -> View:
    """View of a recorded trial: from the motion of its hands and of its bodies, and from where these touch.

    Where bodies hide all contacts whatever the direction, an upright plane through the middle of the contacts cuts them
    open.
    """
    if frames.scene.planar:
        return View(ABOVE)
    contacts = Contacts(frames)
    away = towards_eye(frames.scene, [paths_of_hands(frames), paths_of_bodies(frames)], contacts.hide)
    if contacts.hide(away) < 1.0:
        return View(away)
    normal = np.array([away[0], away[1], 0.0]) / math.hypot(away[0], away[1])
    height = math.radians(OVER_SECTION)
    return View(math.cos(height) * normal + math.sin(height) * ABOVE, contacts.middle, normal)
