"""The examples run as they stand, and what they print is what mechanics says."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, python

pytestmark = [pytest.mark.drawn, pytest.mark.long]

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
GRAVITY = 9.81
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]\d+)?")


def printed(name: str, folder: Path) -> list[tuple[str, list[float]]]:
    """The lines that an example prints, up to their first number and the numbers, after it has drawn its picture."""
    done = python(str(ROOT / "examples" / f"{name}.py"), str(folder), cwd=folder)
    assert done.status == 0, done.err
    picture = folder / f"{name}.svg"
    assert picture.stat().st_size < 60_000
    assert len(ElementTree.parse(picture).findall(".//{*}path")) > 5
    lines = []
    for line in done.out.splitlines():
        first = NUMBER.search(line)
        lines.append((line[: first.start() if first else None], [float(number) for number in NUMBER.findall(line)]))
    return lines


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_is_short_and_shown_with_its_picture(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert f"(../examples/{path.name})" in page and f"(examples/{path.stem}.svg)" in page
    assert (ROOT / "docs" / "examples" / f"{path.stem}.svg").stat().st_size < 60_000
    films = [f"{path.stem}_motion.svg"] if "film.save" in path.read_text(encoding="utf-8") else []
    for film in films:
        assert f"(examples/{film})" in page
        assert (ROOT / "docs" / "examples" / film).stat().st_size < 100_000


def test_peg_at_wall(tmp_path: Path) -> None:
    mass, gap, force, stiffness = 2.0, 0.03, 0.32, 4000.0
    at, depth = math.sqrt(2.0 * mass * gap / force), 1e6 * force / stiffness
    found = dict(printed("peg_at_wall", tmp_path))
    for name, (met, deepest, rests) in found.items():
        rigid = "constraint" in name
        assert met == pytest.approx(at, abs=2e-3)
        assert rests == pytest.approx(0.0 if rigid else depth, abs=0.1 if rigid else 1.0)  # and what is left of o
        assert deepest >= rests
    # the speed v at the wall stores m v^2 / 2 in its spring, so that a penalty is entered by up to v sqrt(m / K)
    deepest = {name.partition(":")[0]: numbers[1] for name, numbers in found.items()}
    assert deepest["constraint"] < deepest["impulse_augmented"] < deepest["penalty"]
    assert 0.7 < deepest["penalty"] / (1e6 * force * at / math.sqrt(mass * stiffness)) < 1.0


def test_held_linkage(tmp_path: Path) -> None:
    """The two-link arm of any textbook: A = J M^-1 J^T with M and J written out."""
    a, b, length, mass = math.pi / 4, math.pi / 3, 1.0, 1.0
    inertia, half, both = mass * length**2 / 12, length / 2, a + b
    coupling = mass * length * half * math.cos(b)
    far = inertia + mass * half**2
    M = np.array([[2 * far + mass * length**2 + 2 * coupling, far + coupling], [far + coupling, far]])
    end = np.array(
        [
            [-length * (math.sin(a) + math.sin(both)), -length * math.sin(both)],
            [length * (math.cos(a) + math.cos(both)), length * math.cos(both)],
        ]
    )
    middle = np.array([[-half * math.sin(a), 0.0], [half * math.cos(a), 0.0]])
    (_, at_end), (_, at_middle) = printed("held_linkage", tmp_path)
    for J, found in ((end, at_end), (middle, at_middle)):
        np.testing.assert_allclose(np.reshape(found[:4], (2, 2)), J @ np.linalg.solve(M, J.T), atol=2e-4)


def test_rolling_disk(tmp_path: Path) -> None:
    (_, (slip, speed)), (_, (aside,)), (_, (apart,)) = printed("rolling_disk", tmp_path)
    assert slip < 1e-12 and speed > 0.05
    assert abs(aside) > 50.0 and apart < 1.0


def test_own_mechanism(tmp_path: Path) -> None:
    for _, (_, rest, expected) in printed("own_mechanism", tmp_path):
        assert rest == pytest.approx(expected, abs=0.05)


def test_urdf_arm(tmp_path: Path) -> None:
    (_, (upper, lower)), (_, (drift,)) = printed("urdf_arm", tmp_path)
    assert drift == 0.0
    assert upper == pytest.approx(math.degrees(math.atan(8.0 / ((2.0 / 2 + 1.0) * GRAVITY))), abs=0.01)
    assert lower == pytest.approx(math.degrees(math.atan(8.0 / (1.0 / 2 * GRAVITY))), abs=0.01)


def test_pulled_rod(tmp_path: Path) -> None:
    inertia, lever, force, mass = 1.2 * 0.5**2 / 3, 0.5, 2.0, 0.05
    (_, (pulled, left, bend, *_)), (_, (turned, _, kept, *_)) = printed("pulled_rod", tmp_path)
    angle = math.radians(pulled)
    assert 100.0 * inertia * angle == pytest.approx(force * lever * math.cos(angle), rel=1e-3)
    assert abs(left) < 0.01 and abs(bend) < 1e-2
    turned = math.radians(turned)
    assert kept == pytest.approx(force * lever * math.cos(turned) / (inertia + mass * lever**2), rel=0.01)


@pytest.mark.exhaustive
def test_friction_models(tmp_path: Path) -> None:
    found = printed("friction_models", tmp_path)
    assert len(found) == 4
    for _, (time, force) in found:
        assert force == pytest.approx(0.25 * 2 * 0.175, rel=0.025)
        assert force == pytest.approx(0.1 * math.sin(0.4 * math.pi * time), rel=2e-3)


def test_slope_sweep(tmp_path: Path) -> None:
    found = [numbers for _, numbers in printed("slope_sweep", tmp_path)]
    assert len(found) == 10
    for angle, acceleration, *_ in found:
        slope = math.radians(angle)
        slides = math.tan(slope) > 0.25
        expected = GRAVITY * (math.sin(slope) - 0.2 * math.cos(slope)) if slides else 0.0
        assert acceleration == pytest.approx(expected, rel=2e-3, abs=1e-4)


def test_bag_with_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    count, acceleration = printed("bag_with_pandas", tmp_path)[-1][1][:2]
    slope = math.radians(20.0)
    assert count == 402  # those of 401 ticks, and the state before the first
    assert acceleration == pytest.approx(GRAVITY * (math.sin(slope) - 0.2 * math.cos(slope)), rel=2e-3)


def test_bouncing_ball(tmp_path: Path) -> None:
    (_, tops), (_, (taken, numerical)) = printed("bouncing_ball", tmp_path)
    # a step of 0.5 ms changes the speed by 0.2 % of the one at the first impact
    for bounce, top in enumerate(tops, start=1):
        assert top == pytest.approx(0.4 * 0.8 ** (2 * bounce), rel=0.015)
    assert taken == pytest.approx(1e3 * 0.2 * GRAVITY * 0.4 * (1 - 0.8**2), rel=0.015)
    assert abs(numerical) < 1.0


def test_own_mesh(tmp_path: Path) -> None:
    ((_, (height, count, load)),) = printed("own_mesh", tmp_path)
    assert height == pytest.approx(100.0 / (2 * math.sqrt(6)), abs=2e-3)
    assert count == 3
    assert load == pytest.approx(1200.0 * 0.1**3 / (6 * math.sqrt(2)) * GRAVITY, rel=1e-3)


def test_own_loop(tmp_path: Path) -> None:
    """At the peak of 2 N, slowly reached: the wall and the coupling give way as springs."""
    lines = printed("own_loop", tmp_path)
    assert lines[0][1] == pytest.approx([2e3 / 4000.0, 2e3 / 400.0], abs=0.02)
    assert lines[1][1] == pytest.approx([2.0], abs=0.01)


def test_mujoco_loop(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    ((_, (felt, resists)),) = printed("mujoco_loop", tmp_path)
    assert resists == 40.0 * 0.05
    assert felt == pytest.approx(resists, rel=0.05)


@pytest.mark.graph
def test_a_trial_that_ends_before_anything_is_heard_is_said(tmp_path: Path) -> None:
    pytest.importorskip("rclpy", reason="needs ROS 2")
    (tmp_path / "own_node_trial").touch()  # so that it cannot begin
    done = python(str(ROOT / "examples" / "own_node.py"), str(tmp_path), cwd=tmp_path)
    assert done.status == 1 and "the trial ended by itself, with 2; 0 messages were heard" in done.err


@pytest.mark.exhaustive
@pytest.mark.graph
def test_own_node(tmp_path: Path) -> None:
    pytest.importorskip("rclpy", reason="needs ROS 2")
    ((_, (count, _, acceleration, *_)),) = printed("own_node", tmp_path)
    assert count >= 512
    assert acceleration == pytest.approx(0.32 / 2.0, rel=1e-3)


@pytest.mark.exhaustive
def test_twin_pantograph(tmp_path: Path) -> None:
    """In the middle all arms are alike: a motor turns by w / (l sin) of the way of its endpoint, w along a link."""
    base, width, near, far, handle, torque = 0.24, 0.12, 0.15, 0.24, 0.1, 0.0525 * 16.4
    x, y = base - handle / 2.0, -width / 2.0  # of the endpoint from the upper base joint
    reach = math.hypot(x, y)
    elbow = math.atan2(y, x) + math.acos((near**2 + reach**2 - far**2) / (2.0 * near * reach))
    w = np.array([x - near * math.cos(elbow), y - near * math.sin(elbow)]) / far
    s = abs(math.cos(elbow) * w[1] - math.sin(elbow) * w[0])
    along = 4.0 * torque * np.abs(w) / (near * s)
    peaks, acceleration, every = printed("twin_pantograph", tmp_path)
    np.testing.assert_allclose(peaks[1], [along[1], along[0], along[1] * handle / 2.0], atol=6e-3)
    assert acceleration[1] == pytest.approx([6.0], abs=0.05)
    assert 70.0 < every[1][0] < 120.0
