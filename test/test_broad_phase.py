"""The broad phase finds what the comparison of all pairs finds, in the same order."""

from __future__ import annotations

import coal
import numpy as np
import pytest
from collision_scenes import Scene, at, random_pose
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from haptic_sim.geometry.collision.broad_phase import find_near, sort_by
from haptic_sim.geometry.collision.features import HALFSPACE


def all_pairs(scene: Scene, margin: float) -> list[int]:
    """The pairs whose boxes are nearer than the margin, each compared."""
    arrays = scene.detector._arrays
    near = []
    for p, (a, b) in enumerate(scene.pairs):
        kinds = arrays.shapes.kind[[a, b]]
        if (kinds == HALFSPACE).any():
            plane, g = (a, b) if kinds[0] == HALFSPACE else (b, a)
            normal, centre, offset = arrays.bounds[plane, :3], arrays.bounds[g, :3], arrays.bounds[plane, 3]
            R = arrays.placement[g, :9].reshape(3, 3).T  # by columns
            near += [p] * bool(normal @ centre - offset - np.abs(normal @ R) @ arrays.shapes.box[g, 3:] < margin)
        else:
            apart = np.abs(arrays.bounds[a, :3] - arrays.bounds[b, :3])
            near += [p] * bool((apart <= arrays.bounds[a, 3:] + arrays.bounds[b, 3:] + margin).all())
    return near


def shape(rng: np.random.Generator) -> coal.ShapeBase:
    size = 10.0 ** rng.uniform(-2.0, 0.0)
    if rng.random() < 0.1:
        return coal.Halfspace(rng.normal(size=3), rng.normal())
    return coal.Sphere(size) if rng.random() < 0.5 else coal.Box(*(size * rng.uniform(0.2, 1.0, 3)))


@pytest.mark.exhaustive
@settings(max_examples=examples(40))
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 40),
    share=st.floats(0.0, 1.0),
    margin=st.sampled_from([0.0, 1e-3, 0.3, 1e3]),
)
def test_it_finds_what_the_comparison_of_all_pairs_finds(seed: int, count: int, share: float, margin: float) -> None:
    """Random shapes of which some pairs may touch, from step to step far apart or on one another."""
    rng = np.random.default_rng(seed)
    shapes = [shape(rng) for _ in range(count)]
    flat = [isinstance(one, coal.Halfspace) for one in shapes]
    pairs = [
        (i, k) if rng.random() < 0.5 else (k, i)
        for i in range(count)
        for k in range(i)
        if not (flat[i] and flat[k]) and rng.random() < share
    ]
    scene = Scene(*shapes, pairs=[pairs[i] for i in rng.permutation(len(pairs))])
    arrays = scene.detector._arrays
    before: list[int] = []
    for step in range(4):
        if step != 2 and not all(flat):  # in which nothing moves
            reach = 10.0 ** rng.uniform(-1.0, 1.5)
            scene.place(*(random_pose(rng, reach) for one in flat if not one))
        scene.detector._narrow.place(scene.data)
        near, changes, measured = find_near(_packed(scene), margin)
        found = arrays.near[:near].tolist()
        assert found == all_pairs(scene, margin)
        solid = [p for p in found if not (flat[scene.pairs[p][0]] or flat[scene.pairs[p][1]])]
        assert np.flatnonzero(arrays.active).tolist() == solid
        assert measured == len(solid)
        assert sorted(arrays.changed[:changes].tolist()) == sorted(set(solid) ^ set(before))
        before = solid


def _packed(scene: Scene) -> object:
    detector = scene.detector
    return detector._pack(detector._sink, scene.rows, 0.0).arrays


def test_boxes_that_touch_along_the_axis_are_near() -> None:
    """Lower and upper ends that are equal but for rounding."""
    rng = np.random.default_rng(20440)
    scene = Scene(coal.Box(0.1, 0.1, 0.1), coal.Box(0.1, 0.1, 0.1))
    for _ in range(200):
        x = rng.uniform(-1e3, 1e3)
        scene.place(at(x=x), at(x=x + 0.1))
        scene.detector._narrow.place(scene.data)
        near, _, _ = find_near(_packed(scene), 0.0)
        assert scene.detector._arrays.near[:near].tolist() == all_pairs(scene, 0.0)


@pytest.mark.parametrize("order", ["sorted", "nearly", "reversed", "random", "equal"])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 1000])
def test_items_are_sorted_by_their_keys(order: str, n: int) -> None:
    rng = np.random.default_rng(20441)
    key, items = np.sort(rng.normal(size=n)), np.arange(n)
    if order == "nearly" and n:
        key += 1e-4 * rng.normal(size=n)
    elif order == "reversed":
        key = key[::-1].copy()
    elif order == "random":
        key = rng.permutation(key)
    elif order == "equal":
        key[:] = 1.0
    sort_by(items, n, key)
    np.testing.assert_array_equal(np.sort(items), np.arange(n))
    np.testing.assert_array_equal(key[items], np.sort(key))
