"""Pictures of a world that a program advances step by step: what moves, as an animation or at its end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from haptic_sim.messages import CONTACT
from haptic_sim.simulation import World
from haptic_view import drawing
from haptic_view.frame import Frame, Hand, slides
from haptic_view.scene import scene_of_model

RATE = 60.0  # [Hz] of the pictures


def frame_of(world: World, names: Sequence[str], number: int) -> Frame:
    """A world as it is, the bodies in the order of some names; `number` counts the frames."""
    bodies = world.bodies
    poses = np.array([[*bodies[name].position, *bodies[name].quaternion] for name in names])
    twists = np.array([[*bodies[name].velocity, *bodies[name].angular_velocity] for name in names])
    touching = world.contacts
    contacts = np.zeros(len(touching), CONTACT)
    for row, contact in zip(contacts, touching, strict=True):
        row["body_a"], row["body_b"] = (names.index(name) for name in contact.bodies)
        row["point"], row["normal"], row["force"] = contact.point, contact.normal, contact.force
        row["depth"] = contact.depth
    hand = Hand(world.pose, world.wrench)
    return Frame(number, world.time, poses, (hand,), contacts, slides(contacts, poses, twists))


class Film:
    """Takes pictures of a world while a program advances it.

        film = Film(world)
        while world.time < 2.0:
            world.step()
            film.take()
        film.save("ball.svg", "A ball bounces")

    Attributes:
        times: of the pictures [s], (S,).
    """

    def __init__(self, world: World):
        self._world = world
        self._names = tuple(world.start.moving)
        self._frames: list[Frame] = []
        self.take()

    def take(self) -> None:
        """Take a picture, if 1/60 s has passed since the last one."""
        world, time = self._world, self._world.time
        if self._frames and time < self._frames[-1].time + 1.0 / RATE - 1e-9:
            return
        self._frames.append(frame_of(world, self._names, len(self._frames)))

    @property
    def times(self) -> np.ndarray:
        """Times of the pictures [s], (S,)."""
        return np.array([frame.time for frame in self._frames])

    def save(self, path: str | os.PathLike[str], title: str, *, moves: bool = True) -> Path:
        """Write what was taken as SVG, as reports have it; returns the path.

        Args:
            path: of the file, which ends in .svg.
            title: what happens.
            moves: an animation that repeats; else the world at the end, with its contacts and forces.

        Raises:
            ValueError: the file does not end in .svg.
        """
        file = Path(path)
        if file.suffix != ".svg":
            raise ValueError(f"{file}: must end in .svg")
        taken = _Taken(self._world, self._frames, title)
        last = len(self._frames) - 1
        file.write_text(drawing.animation(taken, title) if moves else drawing.picture(taken, last, title), "utf-8")
        return file


class _Taken:
    """Recorded frames in the form that drawings need."""

    def __init__(self, world: World, frames: list[Frame], title: str):
        path = np.array([frame.hands[0].tool[:3] for frame in frames])
        self.scene = scene_of_model(world.model, title, path)
        self.times = np.array([frame.time for frame in frames])
        self._frames = frames

    def frame(self, index: int) -> Frame:
        return self._frames[index]

    def greatest_force(self) -> float:
        sizes = [np.linalg.norm(frame.contacts["force"], axis=1).max(initial=0.0) for frame in self._frames]
        return max(map(float, sizes), default=0.0)
