"""Forces of meshes as fields are continuous along random paths; those of convex pieces jump at their seams."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pinocchio as pin
import pytest
from collision_scenes import Scene, at, convex
from field_scenes import FieldScene, torus
from test_field_contacts import wrench

from haptic_sim.geometry.decomposition import decompose

COARSE = (60, 30)  # sections of a torus
STIFFNESS = 1000.0  # of a row [N/m]
SEEDS, STEPS, LENGTH = 6, 80, 2.0  # paths, steps of each, and its end
HALVINGS = 24
Path = Callable[[float], pin.SE3]


def random_path(seed: int) -> Path:
    """Poses of a torus that rocks in the hole of another one, up to about 1 mm and 0.1 rad, over 0 <= t <= LENGTH."""
    shift, turn = np.random.default_rng(seed).normal(size=(2, 3, 3))
    hung = at(x=0.0605, turn=(np.pi / 2, 0.0, 0.0))

    def pose(t: float) -> pin.SE3:
        wave = np.sin(np.outer([1.0, 1.7, 2.3], [t, t, t]) + np.arange(3))
        return hung * pin.SE3(pin.exp3(0.05 * (turn * wave).sum(axis=0)), 5e-4 * (shift * wave).sum(axis=0))

    return pose


def distance(a: pin.SE3, b: pin.SE3) -> float:
    """Path of a point of the torus between two poses at most [m]."""
    return float(
        np.linalg.norm(a.translation - b.translation) + 0.07 * np.linalg.norm(pin.log3(a.rotation.T @ b.rotation))
    )


def steepest_and_jump(scene: Scene) -> tuple[float, float]:
    """Largest |df|/|dx| of a step along all paths [N/m], and the largest change of a force over no path [N].

    The steps with the largest changes of each path are halved again and again: of a continuous force nothing is left.
    """
    steepest = jump = 0.0
    for seed in range(SEEDS):
        pose = random_path(seed)

        def force(t: float, pose: Path = pose) -> np.ndarray:
            scene.detector.forget()
            return wrench(scene.contacts(at(), pose(t)), STIFFNESS)[:3]

        times = np.linspace(0.0, LENGTH, STEPS + 1)
        forces = [force(t) for t in times]
        changes = [float(np.linalg.norm(b - a)) for a, b in pairwise(forces)]
        for k in np.argsort(changes)[-4:]:
            steepest = max(steepest, changes[k] / distance(pose(times[k]), pose(times[k + 1])))
            (begin, end), (first, last) = times[k : k + 2], forces[k : k + 2]
            for _ in range(HALVINGS):
                middle = 0.5 * (begin + end)
                here = force(middle)
                if np.linalg.norm(here - first) > np.linalg.norm(last - here):
                    end, last = middle, here
                else:
                    begin, first = middle, here
            jump = max(jump, float(np.linalg.norm(last - first)))
    return steepest, jump


def in_pieces(pieces) -> Scene:
    """Two bodies of the same convex pieces, of which each is given by its corners (n, 3) [m]."""
    shapes = [(convex(np.asarray(corners)), pin.SE3.Identity()) for corners in pieces]
    return Scene(shapes, shapes, capacity=1024)


def sectors(count: int) -> list[np.ndarray]:
    """The corners of sectors of a torus, whose hulls stand out on its inner side."""
    corners = torus(sections=COARSE)[0]
    place = np.mod(np.arctan2(corners[:, 1], corners[:, 0]), 2.0 * np.pi) * count / (2.0 * np.pi)
    return [corners[np.abs((place - i - 0.5 + 0.5 * count) % count - 0.5 * count) <= 0.5 + 1e-6] for i in range(count)]


@pytest.mark.parametrize("accuracy", [4e-4, pytest.param(2e-4, marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_forces_of_fields_have_a_bounded_slope(accuracy):
    """A row has STIFFNESS, and the cells of both shells that touch at one place are at most some tens."""
    steepest, jump = steepest_and_jump(FieldScene(torus(), torus(), accuracy=accuracy))
    assert 0.5 * STIFFNESS < steepest < 20.0 * STIFFNESS
    assert jump < 1e-6


def test_forces_of_pieces_jump_at_seams():
    _, jump = steepest_and_jump(in_pieces(sectors(20)))
    assert jump > 0.05


@pytest.mark.exhaustive
def test_forces_of_a_decomposition_jump_at_seams():
    pytest.importorskip("coacd")
    _, jump = steepest_and_jump(in_pieces(decompose(*torus(sections=COARSE), None).pieces))
    assert jump > 0.05
