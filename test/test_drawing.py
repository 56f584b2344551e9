"""Drawings of scenes in reports: what is drawn is where the samples say, at the moments that are named, and small."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest

from haptic_bench import experiment
from haptic_bench.recording.samples import MessageStore
from haptic_bench.recording.world_record import read_tables
from haptic_bench.studies import study_of
from haptic_bench.view import drawing
from haptic_bench.view.recorded import SampledFrames
from haptic_bench.view.scene import at

SVG = "{http://www.w3.org/2000/svg}"


def sampled(name: str, *settings: str) -> tuple[SampledFrames, Any]:
    """Frames and samples of an offline run in memory."""
    (trial,) = experiment.load(name, list(settings))
    store, study = MessageStore(), study_of(trial.experiment)
    study.simulate(trial, store)
    samples = study.samples(trial, store.messages)
    return SampledFrames(trial, samples, samples.world), samples


@pytest.fixture(scope="module")
def peg() -> tuple[SampledFrames, Any]:
    return sampled("corner_peg", "analysis=trial", "duration=0.9")


def corners(svg: str, colour: str) -> np.ndarray:
    """Corners of the one path of a colour."""
    (path,) = [one for one in ElementTree.fromstring(svg).iter(f"{SVG}path") if one.get("fill") == colour]
    return np.array(re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.get("d", "")), float)


def test_the_tool_is_drawn_where_it_is_and_as_large_as_it_is(peg: tuple[SampledFrames, Any]) -> None:
    frames, samples = peg
    size = np.array([0.042, 0.021])  # [m], of the experiment
    scale = drawing._Eye(frames).scale
    places = []
    for index in (0, len(frames.times) - 1):
        found = corners(drawing.picture(frames, index, "then"), drawing.TOOL)
        assert np.ptp(found, axis=0) == pytest.approx(scale * size, abs=0.2)
        places.append(0.5 * (found.max(axis=0) + found.min(axis=0)) / scale)
    row = int(np.searchsorted(samples["time"], frames.times[-1]))
    moved = samples.pose("tool")[row, :2] - samples.pose("tool")[0, :2]
    assert places[1] - places[0] == pytest.approx(moved * [1.0, -1.0], abs=2e-4)  # y of a drawing goes down


def ways(frames: SampledFrames) -> np.ndarray:
    """Where the corners of all that moves are, and the hands, at many moments, in the drawing [px]."""
    found, eye = [], drawing._Eye(frames)
    for index in range(len(frames.times)):
        frame = frames.frame(int(index))
        moving = [shape for shape in frames.scene.shapes if frames.scene.moving[shape.body]]
        found += [eye(at(frame.poses[shape.body], shape.vertices)) for shape in moving]
        found += [eye(pose[None, :3]) for hand in frame.hands for pose in (hand.tool, hand.device) if pose is not None]
    return np.concatenate(found)


@pytest.mark.parametrize("name", ["corner_peg", "rolling_touch", "chaplygin_sleigh", "crank"])
def test_all_that_moves_stays_in_sight_and_is_as_large_as_there_is_room(name: str) -> None:
    frames, _ = sampled(name)
    places = ways(frames)
    low, high = places.min(axis=0), places.max(axis=0)
    assert (low > [0.0, drawing.TOP]).all() and (high < [drawing.WIDTH, drawing.HEIGHT]).all()
    filled = (high - low) / [drawing.WIDTH, drawing.HEIGHT - drawing.TOP]
    assert filled.max() > (0.4 if name == "corner_peg" else 0.8)  # of which the walls have their part


def test_a_motion_that_nobody_sees_is_none(peg: tuple[SampledFrames, Any]) -> None:
    assert drawing.moves(peg[0])
    assert not drawing.moves(sampled("coupling_wall", "analysis=trial", "duration=0.05")[0])


def test_a_turning_outline_keeps_its_shape_between_pictures() -> None:
    """Points of two pictures that belong together are interpolated: they have to be the same points of the shape."""
    frames, _ = sampled("two_link_closed_loop")
    eye, scene = drawing._Eye(frames), frames.scene
    (shape,) = [shape for shape in scene.shapes if scene.moving[shape.body] and shape.body in scene.held]
    outline = drawing._Outline(shape)
    poses = [np.array([0.0, 0.0, 0.0, 0.0, 0.0, np.sin(0.5 * a), np.cos(0.5 * a)]) for a in (0.3, 0.7)]
    first, second = (
        np.array(re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", outline.path(pose, eye)), float) for pose in poses
    )
    middle, expected = 0.5 * (first + second), np.cos(0.2)  # a chord is shorter than its arc
    for pair in ((0, len(first) // 2), (3, 3 + len(first) // 2)):
        length, between = (np.linalg.norm(points[pair[0]] - points[pair[1]]) for points in (first, middle))
        assert between == pytest.approx(expected * length, rel=0.01)


def test_the_first_contact_is_that_of_the_samples(peg: tuple[SampledFrames, Any]) -> None:
    frames, samples = peg
    index = frames.first_contact()
    assert index is not None
    first = samples["time"][np.flatnonzero(samples["contacts"])[0]]
    assert frames.times[index - 1] < first + 1e-9 <= frames.times[index] + 1 / 60  # frames come at 60 Hz
    assert len(frames.frame(index).contacts) > 0
    assert len(frames.frame(index - 1).contacts) == 0


def test_an_animation_repeats_interpolates_and_is_small(peg: tuple[SampledFrames, Any]) -> None:
    svg = drawing.animation(peg[0])
    assert len(svg) < 60_000
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
    for animate in ElementTree.fromstring(svg).iter(f"{SVG}animate"):
        assert animate.get("repeatCount") == "indefinite"
        values = str(animate.get("values")).split(";")
        assert len({re.sub(r"-?[\d.]+", "0", value) for value in values}) == 1  # so that it can be interpolated


@pytest.mark.parametrize("name", ["two_hands", "stack", "two_link_circle", "mujoco_clutter", "crank"])
def test_any_scene_is_drawn(name: str) -> None:
    if name.startswith("mujoco"):
        pytest.importorskip("mujoco")
    frames, _ = sampled(name, "duration=0.05")
    for svg in (drawing.picture(frames, 0, "start"), drawing.animation(frames)):
        ElementTree.fromstring(svg)
        assert len(svg) < 300_000
        assert "nan" not in svg


def test_the_tables_of_a_trial_are_read_as_they_were_written(tmp_path: Any) -> None:
    world = sampled("stack", "duration=0.1")[1].world
    world.write_csv(tmp_path)
    found = read_tables(tmp_path)
    assert found is not None
    assert found.bodies == world.bodies
    for name in ("tick", "poses", "twists", "contact_tick"):
        assert np.array_equal(getattr(found, name), getattr(world, name)), name
    for name in ("body_a", "body_b", "point", "normal", "depth", "force"):
        assert np.array_equal(found.contacts[name], world.contacts[name]), name
    assert read_tables(tmp_path / "elsewhere") is None
