"""Height maps of SDF as solids: volumes and heights by hand, contact with a tool, conversion, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trimesh
import yaml
from PIL import Image
from test_sdf import at, link, model

import haptic_sim
from haptic_bench.experiment.conversion import convert_file
from haptic_sim.geometry.fields.distances import gather_grids
from haptic_sim.geometry.fields.field import sample
from haptic_sim.geometry.terrain import terrain
from haptic_sim.worlds.file_trees import FileShape
from haptic_sim.worlds.model_files import ModelFileError, load_trees

SLOPE = np.tile(np.arange(17, dtype=np.uint8) * 10, (17, 1))  # rises along x, as a plane does
MAP = "<geometry><heightmap><uri>map.png</uri><size>{size}</size><pos>0.1 0 0.05</pos></heightmap></geometry>"
SPHERE = '<collision name="c"><geometry><sphere><radius>0.02</radius></sphere></geometry></collision>'
BALL = link("ball", "<pose>0.1 0 0.3 0 0 0</pose>" + SPHERE)


def world(*, size: str = "0.4 0.4 0.1", pose: str = "0 0 0 0 0 0") -> str:
    ground = f'<link name="g"><pose>{pose}</pose><collision name="c">{MAP.format(size=size)}</collision></link>'
    return (
        '<sdf version="1.10"><world name="w"><model name="ground"><static>true</static>'
        + ground
        + '</model><model name="tool">'
        + BALL
        + "</model></world></sdf>"
    )


def written(folder: Path, pixels: np.ndarray = SLOPE, **keys: str) -> Path:
    Image.fromarray(pixels).save(folder / "map.png")
    (folder / "x.sdf").write_text(world(**keys))
    return folder / "x.sdf"


def ground(path: Path) -> FileShape:
    (shape,) = (shape for tree in load_trees(path, "either")[0] for shape in tree.shapes if shape.taken is not None)
    return shape


def test_a_height_map_is_a_closed_solid_with_the_volume_of_its_triangles() -> None:
    """Each triangle stands on a third of its corners' heights; a plane has its volume in closed form."""
    heights = np.random.default_rng(20264).uniform(-0.2, 1.0, (6, 9))
    vertices, faces = terrain(heights, (4.0, 2.0), 0.5)
    solid = trimesh.Trimesh(vertices, faces, process=False)
    assert solid.is_watertight and solid.is_winding_consistent
    a, b, c, d = heights[:-1, :-1], heights[:-1, 1:], heights[1:, :-1], heights[1:, 1:]
    cell = 4.0 / 8 * 2.0 / 5
    assert solid.volume == pytest.approx(cell * float(((2 * a + b + c + 2 * d) / 6).sum()) + 4.0 * 2.0 * 0.5)
    plane, faces = terrain(np.tile(np.linspace(0.0, 1.0, 9), (6, 1)), (4.0, 2.0), 0.5)
    assert trimesh.Trimesh(plane, faces, process=False).volume == pytest.approx(4.0 * 2.0 * (0.5 + 0.5))


def test_a_height_map_lies_where_the_file_has_it(tmp_path: Path) -> None:
    """The brightest pixel is at the height of the size, black at zero, the first row at the largest y."""
    pixels = np.zeros((5, 5), np.uint8)
    pixels[0, 1], pixels[3, 4] = 200, 50
    taken = ground(written(tmp_path, pixels, size="0.4 0.8 0.1")).taken
    assert taken is not None and taken.field is not None
    found = {tuple(np.round(vertex, 12)) for vertex in taken.vertices}
    # x = 0.1 - 0.2 + 0.1 column, y = 0.4 - 0.2 row, z = 0.05 + 0.1 pixel / 200
    assert {(0.0, 0.4, 0.15), (0.3, -0.2, 0.075), (-0.1, 0.4, 0.05), (0.3, -0.4, 0.05)} <= found
    assert taken.vertices[:, 2].min() == pytest.approx(0.05 - 0.1 * 0.8)
    deep = Image.fromarray(np.where(pixels > 0, pixels.astype(np.int32) * 257, 0).astype(np.uint16))
    deep.save(tmp_path / "map.png")
    again = ground(tmp_path / "x.sdf").taken
    assert again is not None and np.allclose(again.vertices, taken.vertices, rtol=0, atol=1e-12)


def test_distances_from_a_slope_are_those_from_a_plane(tmp_path: Path) -> None:
    """Distances by the field are those from the plane z = 0.05 + 0.25 (x + 0.1), turned with the link."""
    pose = (0.02, 0.03, 0.04, 0.1, 0.2, 0.7)
    shape = ground(written(tmp_path, pose=" ".join(map(str, pose))))
    assert shape.taken is not None and shape.taken.field is not None
    X, rng = at(*pose), np.random.default_rng(5)
    assert shape.pose.isApprox(X, 1e-12)
    normal = np.array([-0.25, 0.0, 1.0]) / np.hypot(0.25, 1.0)
    x, y, height = rng.uniform((0.05, -0.05, -0.005), (0.15, 0.05, 0.02), (50, 3)).T
    places = np.stack([x, y, 0.05 + 0.25 * (x + 0.1)], axis=1) + height[:, None] * normal
    found, gradients = np.zeros(50), np.zeros((50, 3))
    sample(gather_grids([shape.taken.field.grid]), places, found, gradients)
    assert np.abs(found - height).max() < 2e-4
    assert np.abs(gradients - normal).max() < 0.02


def test_a_ball_falls_onto_a_height_map_and_touches_it_there(tmp_path: Path) -> None:
    path = written(tmp_path, np.full((9, 9), 90, np.uint8))  # flat, and as high as the size, 0.1 m above 0.05 m
    made = haptic_sim.World(haptic_sim.load(path, tool="tool::ball"))
    for _ in range(1000):
        made.step([0.0] * 6)
        if made.contacts:
            break
    assert made.contacts
    assert made.pose[2] == pytest.approx(0.15 + 0.02, abs=0.002)


def test_convert_writes_a_height_map_as_a_mesh_with_a_field(tmp_path: Path) -> None:
    found = convert_file(str(written(tmp_path)), tmp_path / "made.yaml")
    (name, text), *others = ((name, text) for name, text in found.meshes.items() if "ground" in name or "g_0" in name)
    assert not others
    (shape,) = (shape for body in found.document["scene"]["bodies"].values() for shape in body.get("shapes", ())
                if shape["type"] == "mesh")  # fmt: skip
    assert shape["as"] == "field" and shape["path"] == name
    corners = np.array([line.split()[1:] for line in text.splitlines() if line.startswith("v ")], float)
    taken = ground(tmp_path / "x.sdf").taken
    assert taken is not None and np.array_equal(corners, taken.vertices)
    yaml.safe_load(found.text("x.sdf"))


@pytest.mark.parametrize(
    ("pixels", "size", "said"),
    [
        (np.zeros((4, 5), np.uint8), "1 1 1", "has 5 x 4 pixels: must be square, of 2 to 513 pixels a side; crop it"),
        (np.zeros((1, 1), np.uint8), "1 1 1", "has 1 x 1 pixels: must be square"),
        (np.zeros((514, 514), np.uint8), "1 1 1", "has 514 x 514 pixels: must be square, of 2 to 513"),
        (SLOPE, "1 0 1", r"x\.sdf.*size = 1 0 1 m: must be > 0|size = 1 0 1 m: must be > 0"),
        (SLOPE, "1 1 -1", "size = 1 1 -1 m: must be > 0"),
        (np.zeros((4, 4, 3), np.uint8), "1 1 1", "has colours: a height map has one channel; save it as gray"),
    ],
)
def test_height_maps_that_cannot_be_used_are_refused(tmp_path: Path, pixels: np.ndarray, size: str, said: str) -> None:
    with pytest.raises(ModelFileError, match=said):
        load_trees(written(tmp_path, pixels, size=size), "either")


def test_a_height_map_that_is_missing_or_damaged_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / "map.png").write_bytes((tmp_path / "map.png").read_bytes()[:40])
    with pytest.raises(ModelFileError, match=r"link ground::g: height map map\.png: cannot be read as a PNG file"):
        load_trees(path, "either")
    (tmp_path / "map.png").unlink()
    with pytest.raises(ModelFileError, match=r"link ground::g: height map map\.png: not found"):
        load_trees(path, "either")
    Image.fromarray(SLOPE).save(tmp_path / "map.png")
    moving = model(
        '<link name="a"><inertial auto="true"/><collision name="c">' + MAP.format(size="1 1 1") + "</collision></link>"
    )
    path.write_text(moving)
    with pytest.raises(ModelFileError, match="auto: a height map has no volume; give mass"):
        load_trees(path, "either")
