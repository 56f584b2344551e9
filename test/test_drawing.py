"""Drawings of scenes in reports: what is drawn is where the samples say, at the moments that are named, and small."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace
from typing import Any

import coal
import numpy as np
import pinocchio as pin
import pytest
import yaml

from haptic_bench import Film, experiment
from haptic_bench.analysis.base import analysis_of
from haptic_bench.experiment.shown import build_scene
from haptic_bench.recording.frames import SampledFrames
from haptic_bench.recording.samples import MessageStore
from haptic_bench.recording.world_record import read_tables
from haptic_sim import World
from haptic_sim.messages import CONTACT
from haptic_view import drawing, film, viewpoint
from haptic_view.scene import scene_of_model
from haptic_view.shapes import at

SVG = "{http://www.w3.org/2000/svg}"


def sampled(name: str, *settings: str) -> tuple[SampledFrames, Any]:
    """Frames and samples of an offline run in memory."""
    (trial,) = experiment.load(name, list(settings))
    store, analysis = MessageStore(), analysis_of(trial.experiment)
    analysis.simulate(trial, store)
    samples = analysis.samples(trial, store.messages)
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


@pytest.mark.exhaustive
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


def test_an_outline_of_a_mesh_has_its_area_and_holes() -> None:
    """A square of 100 px with a hole of 40 px, in eight triangles, and once more turned by 30 degrees."""
    outer = 50.0 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    inner = 0.4 * outer
    triangles = [(outer[i], outer[i - 1], inner[i]) for i in range(4)] + [
        (inner[i], inner[i - 1], outer[i - 1]) for i in range(4)
    ]
    for angle in (0.0, np.pi / 6):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        path = drawing._silhouette(np.array(triangles) @ turn.T + [200.0, 150.0])
        loops = [np.array(re.findall(r"(-?[\d.]+) (-?[\d.]+)", one), float) for one in path.split("M")[1:]]
        areas = sorted(0.5 * float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) for x, y in (loop.T for loop in loops))
        assert len(loops) == 2 and all(len(loop) < 120 for loop in loops)
        assert np.abs(areas) == pytest.approx([1600, 10000] if areas[0] > -5000 else [10000, 1600], rel=0.02)
        assert areas[0] * areas[1] < 0  # the hole runs the other way round


def test_a_contact_is_hidden_where_a_ray_of_coal_meets_a_body() -> None:
    """A ball on a plate, which touch and do not count, behind a wall and a door that moves, from random directions."""
    sides = {"plate": ([0.2, 0.2, 0.02], [0.0, 0.0, -0.01]), "wall": ([0.02, 0.2, 0.2], [0.1, 0.0, 0.1])}
    sides["door"] = ([0.16, 0.02, 0.1], [-0.01, -0.1, 0.08])
    bodies = {
        name: {
            **({"joint": "free", "mass": 1.0} if name == "door" else {"joint": "fixed"}),
            "position": place,
            "shapes": [{"type": "box", "size": size}],
        }
        for name, (size, place) in sides.items()
    }
    ball = {"joint": "free", "mass": 0.1, "position": [0, 0, 0.01], "shapes": [{"type": "sphere", "radius": 0.01}]}
    world = World({"tool": "ball", "bodies": {"ball": ball, **bodies}})
    scene = scene_of_model(world.model, "hidden")
    contact = np.zeros(2, CONTACT)
    contact["point"][1], contact["depth"][:] = [5.0, 5.0, 5.0], [1e-4, 1e-5]  # the deepest one counts
    frame = SimpleNamespace(contacts=contact, poses=scene.poses)
    contacts = viewpoint.Contacts(SimpleNamespace(scene=scene, times=np.arange(3.0), frame=lambda _: frame))
    rng, found = np.random.default_rng(20263), set()
    for away in rng.normal(size=(200, 3)):
        away /= np.linalg.norm(away)
        R = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), away).matrix()
        sight = coal.Transform3s(R, 0.5 * away)
        hidden = any(
            coal.collide(
                coal.Box(*size), coal.Transform3s(np.eye(3), np.array(place)), coal.Capsule(1e-9, 0.98), sight,
                coal.CollisionRequest(), coal.CollisionResult(),
            )
            for size, place in (sides["wall"], sides["door"])
        )  # fmt: skip
        assert contacts.hide(away) == hidden, away
        found.add(hidden)
    assert found == {False, True}
    assert contacts.hide(viewpoint.towards_eye(scene, [], contacts.hide)) == 0.0


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


@pytest.mark.parametrize(
    "name",
    [
        "two_hands",
        "crank",
        *(pytest.param(one, marks=pytest.mark.exhaustive) for one in ("stack", "two_link_circle", "mujoco_clutter")),
    ],
)
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


def moved(direction: list[float]) -> np.ndarray:
    """Paths of a point that moves to and fro."""
    return (np.sin(np.linspace(0.0, 6.0, 50))[:, None] * np.array(direction))[:, None]


@pytest.mark.parametrize("direction", [[0.55, -0.75, 0.45], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.3, 0.3, 0.0]])
def test_no_motion_is_along_the_line_of_sight(direction: list[float]) -> None:
    scene = build_scene(experiment.load("push_arm")[0])
    away = viewpoint.towards_eye(scene, [moved(direction)])
    unit = np.array(direction) / np.linalg.norm(direction)
    assert np.linalg.norm(away) == pytest.approx(1.0)
    assert np.linalg.norm(np.cross(away, unit)) > 0.8  # of the motion is seen
    assert away[2] > 0.0  # never from below the floor


@pytest.mark.parametrize("normal", [[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-0.8, 0.0, 0.6], [-0.5, 0.5, 0.2]])
def test_a_wall_is_not_seen_from_behind_before_anything_moves(normal: list[float]) -> None:
    bodies = {
        "tool": {"joint": "free", "mass": 0.5, "shapes": [{"type": "sphere", "radius": 0.02}]},
        "wall": {"joint": "fixed", "shapes": [{"type": "plane", "normal": normal, "offset": -0.04}]},
    }
    scene = scene_of_model(World({"tool": "tool", "bodies": bodies}).model, "wall")
    assert viewpoint.USUAL @ normal < 0.0
    assert viewpoint.towards_eye(scene, []) @ normal > -1e-3


def test_a_scene_without_motion_is_seen_as_usual_and_a_planar_one_from_above(peg: tuple[SampledFrames, Any]) -> None:
    ball = {"joint": "free", "mass": 0.5, "shapes": [{"type": "sphere", "radius": 0.02}]}
    scene = scene_of_model(World({"tool": "ball", "bodies": {"ball": ball}}).model, "ball")
    assert np.array_equal(viewpoint.towards_eye(scene, [moved([0.0, 1e-6, 0.0])]), viewpoint.USUAL)
    assert np.array_equal(viewpoint.of_trial(peg[0]).away, [0.0, 0.0, 1.0])


def test_a_picture_says_what_it_shows(peg: tuple[SampledFrames, Any]) -> None:
    frames, _ = peg
    index = frames.first_contact()
    assert index is not None
    root = ElementTree.fromstring(drawing.picture(frames, index, "first contact"))
    assert root.get("role") == "img" and str(root.get("aria-label")).startswith("first contact, 0.6")
    said = root.findtext(f"{SVG}desc") or ""
    count, contacts = len(frames.frame(index).contacts), frames.frame(index).contacts
    assert f"{count} contacts, of which {int(frames.frame(index).slides.sum())} slide" in said
    assert f"largest force {np.linalg.norm(contacts['force'], axis=1).max():.3g} N" in said
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[1:4] == ["tool", "its path", "hand of the device"] and "slides" in texts
    (scale,) = [text for text in texts if str(text).endswith(" N")]
    # the arrow of the legend is as long as one of that force in the picture, whose greatest has ARROW
    longest = drawing.ARROW * float(str(scale).split()[0]) / np.linalg.norm(contacts["force"], axis=1).max()
    signs = [group for group in root.iter(f"{SVG}g") if group.get("transform")]
    found = re.findall(r"[ML](-?[\d.]+) ", signs[-1][1].get("d", ""))
    assert float(found[0]) == pytest.approx(longest, abs=0.1)


def test_who_wants_less_motion_sees_the_end(peg: tuple[SampledFrames, Any]) -> None:
    root = ElementTree.fromstring(drawing.animation(peg[0]))
    style = root.findtext(f"{SVG}style") or ""
    assert "prefers-reduced-motion" in style and "print" in style
    moving = [one for one in root.iter(f"{SVG}path") if one.get("class") == "moving"]
    still = [one.get("d") for one in root.iter(f"{SVG}path") if one.get("class") == "still"]
    last = [str(one[0].get("values")).split(";")[-1] for one in moving]
    assert still == last and len(still) > 1


def test_a_film_shows_a_world_where_it_is(tmp_path: Any) -> None:
    bodies = {
        "floor": {"joint": "fixed", "shapes": [{"type": "plane"}]},
        "ball": {"joint": "free", "mass": 1.0, "position": [0, 0, 0.3], "shapes": [{"type": "sphere", "radius": 0.1}]},
    }
    world = World({"tool": "ball", "bodies": bodies}, environment={"method": "constraint"})
    film = Film(world)
    while world.time < 0.4:
        world.step()
        film.take()
    assert np.all(np.diff(film.times) >= 1 / 60 - 1e-9) and len(film.times) == 24
    svg = film.save(tmp_path / "ball.svg", "A ball falls").read_text(encoding="utf-8")
    assert "A ball falls, 0.3" in svg and 'class="moving"' in svg
    still = film.save(tmp_path / "end.svg", "A ball rests", moves=False).read_text(encoding="utf-8")
    assert "largest force 9.81 N" in still and "z 100.0 mm" in still
    with pytest.raises(ValueError, match=r"ball\.png: must end in \.svg"):
        film.save(tmp_path / "ball.png", "A ball falls")


def test_a_wide_table_hides_what_is_below_it_and_nothing_that_stands_on_it() -> None:
    """The middle of the table is nearer to the eye than the box, which is nearer to its far corner."""

    def box(size: list[float], at: list[float], joint: str) -> dict[str, Any]:
        mass = {"mass": 1.0} if joint == "free" else {}
        return mass | {"joint": joint, "shapes": [{"type": "box", "size": size}], "position": at}

    rng = np.random.default_rng(3)
    for _ in range(10):
        place = rng.uniform(-0.4, 0.4, 2).tolist()
        bodies = {
            "box": box([0.1, 0.1, 0.1], [*place, 0.05], "free"),
            "table": box([1.0, 1.0, 0.1], [0.0, 0.0, -0.05], "fixed"),
            "base": box([0.2, 0.2, 0.5], [*rng.uniform(-0.3, 0.3, 2).tolist(), -0.36], "fixed"),
        }
        one = World({"tool": "box", "bodies": bodies})
        frames = film._Taken(one, Film(one)._frames, "table")
        order = drawing._order(frames.scene, frames.frame(0), drawing._Eye(frames))
        drawn = [frames.scene.bodies[frames.scene.shapes[number].body] for number in order]
        assert drawn == ["base", "table", "box"]


def test_no_fixed_body_stands_between_the_eye_and_the_tool() -> None:
    """A ball behind a wall: the usual direction looks at the wall, as a ray of coal says."""
    wall = {"joint": "fixed", "position": [0.0, -0.2, 0.2], "shapes": [{"type": "box", "size": [1.0, 0.05, 1.0]}]}
    ball = {"joint": "free", "mass": 0.1, "shapes": [{"type": "sphere", "radius": 0.02}]}
    world = World({"tool": "ball", "bodies": {"wall": wall, "ball": ball}})
    scene = scene_of_model(world.model, "hidden")

    def hidden(away: np.ndarray) -> bool:
        sight = coal.Capsule(1e-6, 2.0)
        X = np.eye(4)
        X[:3, :3] = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), away).matrix()
        at_ball = coal.Transform3s(X[:3, :3], 1.05 * away)
        at_wall = coal.Transform3s(np.eye(3), np.array([0.0, -0.2, 0.2]))
        box = coal.Box(1.0, 0.05, 1.0)
        return bool(coal.collide(box, at_wall, sight, at_ball, coal.CollisionRequest(), coal.CollisionResult()))

    assert hidden(viewpoint.USUAL)
    for path in ([], [moved([0.0, 0.1, 0.0])], [moved([0.1, 0.0, 0.0])]):
        assert not hidden(viewpoint.towards_eye(scene, path))


def test_the_first_contact_is_that_of_any_link_of_the_tool(tmp_path: Any) -> None:
    """Held by its upper link, an arm in the plane touches a post with its lower one, after 2 cm of free motion."""
    link = {"joint": "revolute", "axis": [0, 0, 1], "mass": 1.0, "inertia": [0.01, 0.01, 0.01]}
    tip = [{"type": "sphere", "radius": 0.04, "position": [0.3, 0.0, 0.0]}]
    post = {"joint": "fixed", "position": [0.6, 0.1, 0.0], "shapes": [{"type": "sphere", "radius": 0.04}]}
    document = {
        "duration": 0.4,
        "rate": 500,
        "operator": {"type": "constant", "wrench": [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]},
        "device": {"type": "none"},
        "scene": {
            "type": "world",
            "gravity": [0, 0, 0],
            "tool": "upper",
            "hold": [0.3, 0.0, 0.0],
            "bodies": {
                "upper": link | {"centre_of_mass": [0.15, 0.0, 0.0]},
                "lower": link
                | {"parent": "upper", "position": [0.3, 0, 0], "centre_of_mass": [0, 0, 0], "shapes": tip},
                "post": post,
            },
        },
    }
    (tmp_path / "arm.yaml").write_text(yaml.safe_dump(document))
    frames, samples = sampled(str(tmp_path / "arm.yaml"))
    assert [frames.scene.bodies[i] for i in frames.scene.linked] == ["upper", "lower"]
    first = frames.first_contact()
    assert first is not None and first > 0
    assert frames.times[first - 1] < samples["time"][np.argmax(samples["contacts"] > 0)] <= frames.times[first] + 1e-9


def hidden_ball(lid: bool) -> film._Taken:
    """A ball that rests in a box of six walls, or of five; half a second."""
    sides = {"floor": ([0.2, 0.2, 0.02], [0, 0, -0.01])} | ({"lid": ([0.2, 0.2, 0.02], [0, 0, 0.13])} if lid else {})
    for name, x, y in (("left", -0.09, 0), ("right", 0.09, 0), ("front", 0, -0.09), ("back", 0, 0.09)):
        sides[name] = ([0.02, 0.2, 0.12] if x else [0.16, 0.02, 0.12], [x, y, 0.06])
    bodies: dict[str, Any] = {
        name: {"joint": "fixed", "position": place, "shapes": [{"type": "box", "size": size}]}
        for name, (size, place) in sides.items()
    }
    ball = {"joint": "free", "mass": 0.1, "position": [0.02, 0, 0.05], "shapes": [{"type": "sphere", "radius": 0.04}]}
    one = World({"tool": "ball", "bodies": bodies | {"ball": ball}}, environment={"method": "constraint"})
    taken = Film(one)
    while one.time < 0.5:
        one.step()
        taken.take()
    return film._Taken(one, taken._frames, "a ball")


def test_bodies_that_hide_all_contacts_are_cut_open_through_them() -> None:
    closed = hidden_ball(lid=True)
    view = viewpoint.of_trial(closed)
    assert view.cut is not None
    last = len(closed.times) - 1
    assert (view.cut - closed.frame(last).contacts["point"][0]) @ view.normal == pytest.approx(0.0, abs=1e-3)
    assert view.normal[2] == 0.0 and view.away @ view.normal == pytest.approx(np.cos(np.radians(20.0)))
    for svg in (drawing.picture(closed, last, "end"), drawing.animation(closed)):
        root = ElementTree.fromstring(svg)
        assert "cut open" in str(root.findtext(f"{SVG}title"))
        colours = {path.get("fill") for path in root.iter(f"{SVG}path")}
        assert {drawing._mixed(colour, drawing.SECTION) for colour in (drawing.TOOL, drawing.FIXED)} <= colours
    assert "sticks" in drawing.picture(closed, last, "end")
    opened = hidden_ball(lid=False)
    assert viewpoint.of_trial(opened).cut is None
    assert "cut open" not in drawing.picture(opened, last, "end")


def test_a_contact_far_from_a_section_is_not_shown() -> None:
    closed = hidden_ball(lid=True)
    eye, frame = drawing._Eye(closed), closed.frame(len(closed.times) - 1)
    assert len(drawing._contacts(frame, eye, 1.0)) > 0
    contacts = frame.contacts.copy()
    contacts["point"] += 0.05 * eye.view.normal
    moved_away = SimpleNamespace(contacts=contacts, slides=frame.slides)
    assert drawing._contacts(moved_away, eye, 1.0) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("force", [[0.0, 5.0, 0.0], [0.0, -5.0, 0.0], [4.0, 3.0, 0.0]])
def test_arrows_end_within_the_picture(peg: tuple[SampledFrames, Any], force: list[float]) -> None:
    frames, _ = peg
    eye, frame = drawing._Eye(frames), frames.frame(len(frames.times) - 1)
    contacts = frame.contacts[:1].copy()
    contacts["force"] = force
    shortened = 0
    for x, y in np.random.default_rng(1).uniform([20.0, 50.0], [460.0, 280.0], (40, 2)):  # [px]
        off = ([x, y] - eye(np.zeros((1, 3)))[0]) / eye.scale * [1.0, -1.0]
        contacts["point"] = [*off, 0.0]
        length = drawing._longest_arrow(SimpleNamespace(contacts=contacts), eye, 5.0)  # type: ignore[arg-type]
        assert drawing.SHORTENED * drawing.ARROW <= length <= drawing.ARROW
        shortened += length < drawing.ARROW
        start, end = eye(
            np.concatenate([contacts["point"], contacts["point"] + contacts["force"] * length / (5.0 * eye.scale)])
        )
        assert start == pytest.approx([x, y])
        inside = (end > 0.0).all() and end[0] < drawing.WIDTH and drawing.TOP < end[1] < drawing.HEIGHT - drawing.BOTTOM
        assert inside or length == pytest.approx(drawing.SHORTENED * drawing.ARROW)
    assert 0 < shortened < 40


def test_a_path_of_small_steps_is_the_same_path() -> None:
    points = np.array([[12.34, 5.0], [12.3, -0.04], [0.0, 17.77], [12.0, 5.55]])
    numbers = re.findall(r"-?(?:\d+\.?\d*|\.\d+)", drawing._short(points))
    found = np.cumsum(np.array(numbers, float).reshape(-1, 2), axis=0)
    assert found == pytest.approx(points, abs=0.051)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["nut_and_bolt", "gears", "mug_on_hook", "bone_saddle"])
def test_pictures_of_concave_shapes_are_small_and_only_the_thread_is_cut_open(name: str) -> None:
    frames, _ = sampled(name, "analysis=trial")
    last = len(frames.times) - 1
    for svg in (drawing.picture(frames, 0, "start"), drawing.picture(frames, last, "end"), drawing.animation(frames)):
        assert ("cut open" in svg) == (name == "nut_and_bolt")
        assert len(svg) < 300_000


def test_a_large_picture_has_fewer_steps_of_light(monkeypatch: pytest.MonkeyPatch) -> None:
    frames, _ = sampled("two_hands", "duration=0.05")
    ball_scene = hidden_ball(lid=False)
    full = drawing.picture(ball_scene, 0, "start")
    monkeypatch.setattr(drawing, "LARGEST", len(full) // 2)
    fewer = drawing.picture(ball_scene, 0, "start")
    assert len(set(re.findall(r'fill="(#\w+)"', fewer))) < len(set(re.findall(r'fill="(#\w+)"', full)))
    assert len(fewer) < 0.8 * len(full)
    ElementTree.fromstring(drawing.animation(frames))


def test_ticks_without_a_world_state_are_drawn_from_their_samples(peg: tuple[SampledFrames, Any]) -> None:
    """Of a trial whose controller hardly answered, no tick that was recorded need be one with a world state."""
    _, samples = peg
    (trial,) = experiment.load("corner_peg", ["analysis=trial", "duration=0.9"])
    rows = np.flatnonzero(~np.isin(samples["tick"], samples.world.tick))[:4]
    few = type(samples)({name: samples[name][rows] for name in samples.names}, samples.world)
    frames = SampledFrames(trial, few, few.world)
    assert len(frames.times) == 1
    np.testing.assert_array_equal(frames.frame(0).hands[0].tool, few.pose("tool")[0])
    assert "<path" in drawing.picture(frames, 0, "then")
