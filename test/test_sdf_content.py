"""Content of SDF that few formats have: merged includes, gearboxes, polylines, inertia of meshes, Gazebo's XML."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from test_sdf import at, link, model, poses, trees_of

import haptic_sim
from haptic_sim.geometry.polygons import PolygonError, convex_parts
from haptic_sim.scenes import ModelSource
from haptic_sim.worlds.model_files import ModelFileError, load_trees

ARM = (
    link("a", "<pose>0.1 0.2 0 0 0 0.3</pose>")
    + link("b", '<pose relative_to="F">0 0 0.4 0.2 0 0</pose>')
    + '<frame name="F"><pose>0.3 0 0 0 0.5 0</pose></frame>'
    + '<joint name="j" type="revolute"><parent>a</parent><child>b</child>'
    '<axis><xyz expressed_in="__model__">0 1 1</xyz></axis></joint>'
    + '<model name="inner"><pose>0 0 1 0 0 0.7</pose>' + link("c") + "</model>"
)  # fmt: skip


@pytest.mark.parametrize("frame", ["", "F"])
def test_a_merged_model_is_where_it_would_be_included(tmp_path: Path, frame: str) -> None:
    """The same poses, axis and inertia as of the model in its own scope, without its name."""
    (tmp_path / "arm.sdf").write_text(model(ARM, name="arm"))
    placed = f"<placement_frame>{frame}</placement_frame>" if frame else ""
    text = model(
        "<pose>1 0 0 0 0.4 0</pose>" + link("base") + '<frame name="G"><pose>0 1 0 0.1 0 0</pose></frame>'
        '<include {}><uri>arm.sdf</uri><pose relative_to="G">2 0 0 0 0 0.6</pose>' + placed + "</include>"
    )
    nested = trees_of(tmp_path, text.replace("{}", ""), "nested.sdf")
    merged = trees_of(tmp_path, text.replace("{}", 'merge="true"'), "merged.sdf")
    expected = {name.removeprefix("arm::"): pose for name, pose in poses(nested).items()}
    found = poses(merged)
    assert found.keys() == expected.keys() == {"base", "a", "b", "inner::c"}
    for name, pose in expected.items():
        assert found[name].isApprox(pose, 1e-12), name
    if not frame:
        X = at(1, 0, 0, 0, 0.4, 0) * at(0, 1, 0, 0.1, 0, 0) * at(2, 0, 0, 0, 0, 0.6)
        assert found["b"].isApprox(X * at(0.3, 0, 0, 0, 0.5, 0) * at(0, 0, 0.4, 0.2, 0, 0), 1e-12)
    turned = []
    for trees in (nested, merged):
        tree = next(tree for tree in trees if tree.model.njoints == 2)
        data = tree.model.createData()
        pin.forwardKinematics(tree.model, data, np.array([0.8]))
        turned.append(data.oMi[1])
    assert turned[0].isApprox(turned[1], 1e-12)


def test_models_of_a_merged_model_are_put_into_a_world(tmp_path: Path) -> None:
    (tmp_path / "set.sdf").write_text(model(ARM[ARM.index("<model") :], name="set"))
    include = '<include merge="true"><uri>{}</uri><pose>5 0 0 0 0 0</pose></include>'
    world = f'<sdf version="1.10"><world name="w">{include}</world></sdf>'
    found = poses(trees_of(tmp_path, world.format("set.sdf")))
    assert found["inner::c"].isApprox(at(5, 0, 1, 0, 0, 0.7), 1e-12)
    (tmp_path / "arm.sdf").write_text(model(ARM, name="arm"))
    with pytest.raises(ModelFileError, match="the model has links of its own: a world has models alone"):
        trees_of(tmp_path, world.format("arm.sdf"))
    twice = model('<include merge="true"><uri>arm.sdf</uri></include>' + link("a"))
    with pytest.raises(ModelFileError, match="<link> a: must be a name without :: that nothing else has"):
        trees_of(tmp_path, twice)


HINGE = '<joint name="{0}" type="revolute"><parent>{1}</parent><child>{2}</child><axis><xyz>{3}</xyz></axis></joint>'
GEARBOX = (
    '<joint name="g" type="gearbox"><parent>{}</parent><child>{}</child><gearbox_ratio>2.5</gearbox_ratio>'
    "<gearbox_reference_body>{}</gearbox_reference_body><axis><xyz>0 0 1</xyz></axis>"
    "<axis2><xyz>{}</xyz></axis2></joint>"
)
WHEELS = (
    link("base") + link("hub") + link("in", "<pose>0.3 0 0 0 0 0.4</pose>") + link("out", "<pose>0 0.3 0 0 0 0</pose>")
    + '<joint name="w" type="fixed"><parent>world</parent><child>base</child></joint>'
    + '<joint name="h" type="fixed"><parent>base</parent><child>hub</child></joint>'
)  # fmt: skip


@pytest.mark.parametrize(
    ("along", "axis2", "sign"), [("0 0 1", "0 0 1", 1), ("0 0 -1", "0 0 1", -1), ("0 0 1", "0 0 -1", -1)]
)
def test_a_gearbox_couples_angles_in_the_frame_of_its_reference(
    tmp_path: Path, along: str, axis2: str, sign: int
) -> None:
    """theta_2 = -ratio theta_1, each about the gearbox's axis, whichever way the hinges count."""
    text = model(
        WHEELS + HINGE.format("one", "base", "in", "0 0 1") + HINGE.format("two", "hub", "out", along)
        + GEARBOX.format("in", "out", "base", axis2)
    )  # fmt: skip
    (tmp_path / "gear.sdf").write_text(text)
    world = haptic_sim.World(haptic_sim.load(tmp_path / "gear.sdf", tool="in"))
    for _ in range(500):
        world.step([0.0, 3.0, 0.0, 0.0, 0.0, 1.0])
    q = world.coordinates
    assert abs(q["gear/one"]) > 0.1
    assert q["gear/two"] == pytest.approx(-2.5 * sign * q["gear/one"], abs=1e-9)


def test_a_gearbox_without_hinges_is_refused_with_what_to_add(tmp_path: Path) -> None:
    text = model(WHEELS + HINGE.format("one", "base", "in", "0 0 1") + GEARBOX.format("in", "out", "base", "0 0 1"))
    with pytest.raises(ModelFileError, match="no hinge about its axis is between out and the reference body base; add"):
        trees_of(tmp_path, text)
    lone = text.replace("<gearbox_reference_body>base</gearbox_reference_body>", "")
    with pytest.raises(ModelFileError, match="gearbox: needs <gearbox_reference_body>"):
        trees_of(tmp_path, lone)


def star(rng: np.random.Generator, corners: int) -> np.ndarray:
    """A simple polygon about the origin."""
    turn = np.sort(rng.choice(720, corners, replace=False)) * (np.pi / 360.0)
    radius = rng.uniform(0.2, 1.0, corners)
    return np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=1)


def area(points: np.ndarray) -> float:
    x, y = points.T
    return float(0.5 * (x * np.roll(y, -1) - y * np.roll(x, -1)).sum())


def test_convex_parts_fill_a_polygon() -> None:
    """Areas add up, parts are convex, and their centroids are in the polygon by its winding number."""
    rng = np.random.default_rng(20263)
    for trial in range(40):
        points = star(rng, int(rng.integers(5, 30)))
        parts = convex_parts(points if trial % 2 else points[::-1])
        assert sum(map(area, parts)) == pytest.approx(abs(area(points)), rel=1e-12)
        for part in parts:
            ahead = np.roll(part, -1, axis=0) - part
            then = np.roll(ahead, -1, axis=0)
            assert np.all(ahead[:, 0] * then[:, 1] - ahead[:, 1] * then[:, 0] >= -1e-12)
            spokes = points - part.mean(axis=0)
            turns = np.angle(np.roll(spokes @ [1, 1j], -1) / (spokes @ [1, 1j])).sum() / (2.0 * np.pi)
            assert abs(turns) == pytest.approx(1.0)
        assert len(parts) <= len(points) - 2
    assert len(convex_parts(np.array([[0, 0], [1, 0], [2, 0], [2, 1], [0, 1], [0, 0]]))) == 1


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([[0, 0], [1, 0]], "has 2 different points: must have 3 or more"),
        ([[0, 0], [1, 0], [2, 0]], "has no area"),
        ([[0, 0], [1, 1], [1, 0], [0, 2]], "cross or touch"),
        ([[0, 0], [2, 0], [2, 2], [1, 0], [0, 2]], "cross or touch"),
        (np.zeros((501, 2)), "has 501 points: must have at most 500"),
    ],
)
def test_polygons_that_are_none_are_refused(points: list[list[float]], said: str) -> None:
    with pytest.raises(PolygonError, match=said):
        convex_parts(np.array(points, float))


POLYLINE = (
    "<geometry><polyline><point>-0.5 -0.5</point><point>-0.5 0.5</point><point>0.5 0.5</point><point>0 0</point>"
    "<point>0.5 -0.5</point><height>2</height></polyline></geometry>"
)


def test_a_polyline_is_extruded_upwards_with_its_dent(tmp_path: Path) -> None:
    """A square without the triangle of its dent: area 0.75 m^2 and centroid by hand."""
    text = model(
        '<link name="a"><inertial auto="true"><density>100</density></inertial>'
        f'<collision name="c">{POLYLINE}</collision></link>'
    )
    (tree,) = trees_of(tmp_path, text)
    assert 2 <= len(tree.shapes) <= 3
    inertia = tree.model.inertias[0]
    assert inertia.mass == pytest.approx(100 * 0.75 * 2)
    assert inertia.lever == pytest.approx([(0.0 - 0.25 / 3) / 0.75 * 1.0, 0.0, 1.0])


def ring(radius: float, corners: int, centre: tuple[float, float] = (0.0, 0.0)) -> np.ndarray:
    turn = 2.0 * np.pi * np.arange(corners) / corners
    return np.array(centre) + radius * np.stack([np.cos(turn), np.sin(turn)], axis=1)


def windings(points: np.ndarray, place: np.ndarray) -> int:
    spokes = (points - place) @ [1, 1j]
    return abs(round(float(np.angle(np.roll(spokes, -1) / spokes).sum() / (2.0 * np.pi))))


def test_convex_parts_leave_holes_out() -> None:
    """Stars with stars in them, with islands in these: areas add up, and no part's centroid is in a hole."""
    rng = np.random.default_rng(20264)
    for trial in range(20):
        outer, hole = 10.0 * star(rng, 12), 1.9 * star(rng, 9)  # radii from 2 to 10, from 0.38 to 1.9
        island = 0.1 * star(rng, 5)
        aside = ring(0.3, 6, (20.0, 0.0))  # another one beside
        outlines = [outer, hole[::-1] if trial % 2 else hole, island, aside]
        if any(windings(outer, corner) != 1 for corner in hole) or any(windings(hole, c) != 1 for c in island):
            continue  # the star is not around it
        order = rng.permutation(4)
        try:
            parts = convex_parts(*(outlines[k] for k in order))
        except PolygonError:
            assert trial  # edges of stars with few corners meet those within
            continue
        expected = abs(area(outer)) - abs(area(hole)) + abs(area(island)) + abs(area(aside))
        assert sum(map(area, parts)) == pytest.approx(expected, rel=1e-12)
        for part in parts:
            ahead = np.roll(part, -1, axis=0) - part
            then = np.roll(ahead, -1, axis=0)
            assert np.all(ahead[:, 0] * then[:, 1] - ahead[:, 1] * then[:, 0] >= -1e-9)
            assert sum(windings(outline, part.mean(axis=0)) for outline in outlines) % 2 == 1


def test_convex_parts_of_a_plate_with_nine_holes() -> None:
    plate = np.array([[-2.0, -2.0], [2.0, -2.0], [2.0, 2.0], [-2.0, 2.0]])
    holes = [ring(0.3, 8, (x, y)) for x in (-1.0, 0.0, 1.0) for y in (-1.0, 0.0, 1.0)]
    parts = convex_parts(plate, *holes)
    # the area of a regular octagon is 2 sqrt(2) r^2
    assert sum(map(area, parts)) == pytest.approx(16.0 - 9 * 2.0 * np.sqrt(2.0) * 0.09)
    assert len(parts) <= 4 * (9 * 8 // 2)


@pytest.mark.parametrize(
    ("outlines", "said"),
    [
        ([ring(1.0, 4), ring(1.0, 4, (0.5, 0.0))], "must be simple polygons that do not meet"),
        ([ring(1.0, 4), ring(1.0, 4)], "cross or touch each other"),
        ([ring(1.0, 4), np.array([[0.0, 0.0], [0.1, 0.0]])], "has 2 different points: must have 3 or more"),
        ([ring(1.0, 4), np.zeros((0, 2))], "has 0 different points"),
        ([ring(1.0, 250), ring(0.5, 251)], "has 501 points: must have at most 500"),
        ([ring(1.0, 4), np.array([[0, 0], [0.1, 0.1], [0.1, 0], [0, 0.1]])], "cross or touch|has no area"),
    ],
)
def test_holes_that_are_none_are_refused(outlines: list[np.ndarray], said: str) -> None:
    with pytest.raises(PolygonError, match=said):
        convex_parts(*outlines)


def polylines(*outlines: np.ndarray, heights: tuple[str, ...]) -> str:
    lines = [
        "<polyline>" + "".join(f"<point>{x!r} {y!r}</point>" for x, y in outline.tolist()) + height + "</polyline>"
        for outline, height in zip(outlines, heights, strict=True)
    ]
    return f"<geometry>{''.join(lines)}</geometry>"


def test_a_polyline_with_a_hole_is_a_tube(tmp_path: Path) -> None:
    """Its mass, and its moment about its axis: that of a regular polygon is area r^2 (2 + cos t) / 6, t = 2 pi / n."""
    tube = polylines(ring(1.0, 12), ring(0.5, 12), heights=("<height>2</height>", ""))
    inertial = '<inertial auto="true"><density>10</density></inertial>'
    text = '<link name="a">' + inertial + '<collision name="c">{}</collision></link>'
    (tree,) = trees_of(tmp_path, model(text.format(tube)))
    inertia, turn = tree.model.inertias[0], 2.0 * np.pi / 12
    whole = 6.0 * np.sin(turn)  # area for the radius 1; of the hole a quarter
    assert inertia.mass == pytest.approx(10 * 2 * whole * 0.75)
    assert inertia.lever == pytest.approx([0.0, 0.0, 1.0], abs=1e-12)
    assert inertia.inertia[2, 2] == pytest.approx(10 * 2 * whole * (1 - 1 / 16) * (2 + np.cos(turn)) / 6)
    ball = link("b", '<pose>0 0 1 0 0 0</pose><collision name="c"><geometry><sphere><radius>0.4</radius></sphere>'
                "</geometry></collision>")  # fmt: skip
    (tmp_path / "x.sdf").write_text(model(text.format(tube) + ball))
    made = haptic_sim.World(haptic_sim.load(tmp_path / "x.sdf", tool="b"))
    made.step([0.0] * 6)
    assert not made.contacts  # the ball is in the bore, and free
    uneven = polylines(ring(1.0, 12), ring(0.5, 12), heights=("<height>2</height>", "<height>1</height>"))
    with pytest.raises(ModelFileError, match="height = 2 m and 1 m: outlines of a shape have one height"):
        trees_of(tmp_path, model(text.format(uneven)))


def test_automatic_inertia_of_a_mesh_is_that_of_its_volume(tmp_path: Path) -> None:
    corners = [(x, y, z) for x in (0, 1) for y in (0, 2) for z in (0, 3)]
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    lines = [f"v {x} {y} {z}" for x, y, z in corners]
    lines += [f"f {a + 1} {b + 1} {c + 1}\nf {a + 1} {c + 1} {d + 1}" for a, b, c, d in quads]
    (tmp_path / "box.obj").write_text("\n".join(lines))
    text = model(
        '<link name="a"><inertial auto="true"/><collision name="c"><geometry><mesh><uri>box.obj</uri>'
        "<scale>0.1 0.1 0.1</scale></mesh></geometry></collision></link>"
    )
    (tree,) = trees_of(tmp_path, text)
    inertia = tree.model.inertias[0]
    assert inertia.mass == pytest.approx(6.0)  # of water
    assert inertia.lever == pytest.approx([0.05, 0.1, 0.15])
    assert np.diag(inertia.inertia) == pytest.approx(6.0 / 12.0 * np.array([0.13, 0.1, 0.05]))


def test_comments_and_declarations_are_taken_as_gazebo_takes_them(tmp_path: Path) -> None:
    """`--` in comments, blanks before the declaration; lines of messages are those of the file."""
    text = '\n <?xml version="1.0"?>\n<!-- gz sim --iterations 9\n<a> -->\n' + model(link("a"))
    assert poses(trees_of(tmp_path, text)).keys() == {"a"}
    with pytest.raises(ModelFileError, match="line 5: <pose> 1 2: has 2 numbers"):
        trees_of(tmp_path, text.replace("<link", "<pose>1 2</pose><link"))
    with pytest.raises(ModelFileError, match="line 3: not XML"):
        trees_of(tmp_path, text.replace("-->", "--"))
    kept = model(link("a") + "<plugin><![CDATA[<!-- -- ]]></plugin>")
    assert poses(trees_of(tmp_path, kept)).keys() == {"a"}


def test_joints_of_static_models_are_no_joints(tmp_path: Path) -> None:
    text = model("<static>1</static>" + link("a") + link("b") + HINGE.format("j", "a", "b", "0 0 1") + link("c"))
    (tree,) = trees_of(tmp_path, text)
    assert tree.model.nv == 0
    assert not tree.free


def test_models_that_gazebo_fetched_are_found_where_it_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GZ_FUEL_CACHE_PATH", str(tmp_path / "kept"))
    for version in (2, 10):
        folder = (
            tmp_path / "kept" / "fuel.gazebosim.org" / "open robotics" / "models" / "construction cone" / str(version)
        )
        folder.mkdir(parents=True)
        (folder / "model.sdf").write_text(model(link(f"v{version}"), name="cone"))
    uri = "https://fuel.gazebosim.org/1.0/Open Robotics/models/Construction%20Cone"
    text = f'<sdf version="1.9"><world name="w"><include><uri>{uri}{{}}</uri></include></world></sdf>'
    for version, expected in (("", "v10"), ("/2", "v2"), ("/tip", "v10")):
        assert poses(trees_of(tmp_path, text.format(version))).keys() == {f"cone::{expected}"}
    with pytest.raises(ModelFileError, match="no such model; fetch it with Gazebo's `gz fuel download -u"):
        trees_of(tmp_path, text.format("/3"))
    escape = "https://fuel.gazebosim.org/1.0/../models/..%2F..%2Fkept"
    with pytest.raises(ModelFileError, match="there is no such model"):
        trees_of(tmp_path, text.format("").replace(uri, escape))


def test_a_model_is_named_by_file_as_gazebo_names_it(tmp_path: Path) -> None:
    (tmp_path / "m" / "wing").mkdir(parents=True)
    (tmp_path / "m" / "wing" / "model.sdf").write_text(model(link("a"), name="wing"))
    path = tmp_path / "x.sdf"
    path.write_text('<sdf version="1.9"><world name="w"><include><uri>file://wing</uri></include></world></sdf>')
    trees, _ = load_trees(ModelSource(path, {}, (tmp_path / "m",)), None)
    assert poses(trees).keys() == {"wing::a"}
