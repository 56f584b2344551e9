"""Stiffness of contacts that carry the bodies of a world: columns, their buckling, and what follows for experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from world_builder import DEFAULT, METHODS, Body, G, Simulation, ball, box, make_world, plane

import haptic_sim
from haptic_bench.experiment.loading import load_document
from haptic_sim.contact.response import ContactParameters
from haptic_sim.worlds.loads import Load, buckling_factor, carry, explain_carrying, find_loads

DOWN = [0.0, 0.0, -G]
SIDE = 0.1  # [m]
ALONE = {"operator": {"type": "constant", "wrench": [0.0] * 6}, "device": {"type": "none"}}


def tower(count: int, side: float = SIDE) -> dict[str, Body]:
    """Boxes of 1 kg that lie on each other."""
    boxes = {f"box{i}": box((0, 0, side * (i + 0.5)), (side, side, side)) for i in range(count)}
    return {"floor": plane(), **boxes}


def bricks(rows: tuple[int, ...] = (6, 5, 4, 3, 2)) -> dict[str, Body]:
    """A wall in running bond, each brick of 1 kg on halves of two others: it narrows, so that none overhangs."""
    wall = {
        f"brick{row}_{k}": box((0.2 * k + 0.1 * row, 0, 0.1 * (row + 0.5)), (0.2, 0.1, 0.1))
        for row, count in enumerate(rows)
        for k in range(count)
    }
    return {"floor": plane(), **wall}


def loads_of(bodies: dict[str, Body], **more: Any) -> dict[str, Load]:
    return {load.body: load for load in find_loads(make_world(bodies, **{"gravity": DOWN, **more}))}


def test_the_factor_of_buckling_is_that_of_a_column_of_links() -> None:
    """Least kappa with kappa D^T D > M g l / n diag(n - i + 1/2), D: differences of successive tilts."""
    for n in range(1, 51):
        differences = np.eye(n) - np.eye(n, k=-1)
        pull = np.diag(np.arange(n, 0, -1) - 0.5) / n
        largest = scipy.linalg.eigh(pull, differences.T @ differences, eigvals_only=True)[-1]
        assert buckling_factor(n) == pytest.approx(largest, rel=0.01)


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_tower_buckles_below_the_stiffness_that_is_foretold(factor: float) -> None:
    """Four boxes, after a push to the side: 0.9 times falls, 1.1 times stands. A rigid tower would stand at 0.67."""
    critical = loads_of(tower(4))["box0"].buckling_stiffness
    assert critical == pytest.approx(1169.4, rel=0.01)
    contact = {**DEFAULT, "stiffness": factor * critical, "damping": 60.0}
    sim = Simulation(tower(4), "penalty", 500.0, contact, gravity=DOWN).step(250)
    sim.step(100, [0.05, 0.03, 0, 0, 0, 0])
    aside = np.abs(sim.q("box3")[:2]).max()
    sim.step(900, [0.0] * 6)
    after = np.abs(sim.q("box3")[:2]).max()
    assert after > 20.0 * aside if factor < 1.0 else after < 10.0 * aside
    if factor > 1.0:  # it returns
        assert np.abs(sim.step(500).q("box3")[:2]).max() < after


def test_columns_are_what_lies_above_without_gaps() -> None:
    loads = loads_of(tower(4))
    for i in range(4):
        load = loads[f"box{i}"]
        assert (load.mass, load.layers) == (4 - i, 4 - i)
        assert load.height == pytest.approx(SIDE * (4 - i))
        assert (load.size, load.width) == pytest.approx((SIDE, SIDE))
    wall = loads_of(bricks())  # 1, 2, 3, 3 and 2 bricks rest on the third one from the left, and on each other
    assert (wall["brick0_2"].mass, wall["brick0_2"].layers) == (11.0, 5)
    assert wall["brick0_2"].height == pytest.approx(0.5)
    fall = loads_of({"floor": plane(), "low": box((0, 0, 0.1), (0.4, 0.2, 0.1)), "high": ball((0.1, 0, 3.0))})
    assert (fall["low"].mass, fall["low"].layers) == (2.0, 2)
    assert fall["low"].height == pytest.approx(0.2)
    assert (fall["low"].size, fall["low"].width) == pytest.approx((0.1, 0.2))
    beside = loads_of({"floor": plane(), "low": box((0, 0, 0.1), (0.4, 0.2, 0.1)), "high": ball((0.3, 0, 3.0))})
    assert (beside["low"].mass, beside["high"].mass) == (1.0, 1.0)


def test_columns_follow_gravity() -> None:
    """A tower along x with gravity along -x is the same; without gravity there is no load."""
    boxes = {f"box{i}": box((SIDE * (i + 0.5), 0, 0), (SIDE,) * 3) for i in range(3)}
    loads = loads_of({"wall": plane((1, 0, 0)), **boxes}, gravity=[-G, 0, 0])
    assert (loads["box0"].mass, loads["box0"].layers) == (3.0, 3)
    assert loads_of(tower(3), gravity=[0, 0, 0]) == {}


def test_bodies_with_joints_and_bodies_that_gravity_does_not_pull_at_are_no_load() -> None:
    door: Body = {"joint": "revolute", "axis": [0, 0, 1], "mass": 50.0, "position": [0, 0, 1.2]}
    door["shapes"] = [{"type": "box", "size": [0.8, 0.04, 2], "position": [0.4, 0, 0]}]
    loads = loads_of({"floor": plane(), "box": box((0.4, 0, 0.05), (SIDE,) * 3), "door": door}, tool="box")
    assert loads["box"].mass == 1.0 and "door" not in loads
    assert loads_of(tower(1), gravity_compensation=True) == {}


def test_stiffness_and_damping_carry_the_bodies_where_they_were_left_out() -> None:
    """Ten boxes: twice their buckling stiffness; a heavy box: 1 % of its side on four corners; the rate bounds both."""

    def carried(bodies: dict[str, Body], rate: float = 1000.0, rigid: bool = False, **keys: Any) -> tuple[float, float]:
        contact = ContactParameters.model_validate(keys)
        found = carry(contact, make_world(bodies, gravity=DOWN), rate, rigid=rigid)
        return found.stiffness, found.damping

    default = ContactParameters()
    assert carried(tower(1)) == (default.stiffness, default.damping)
    stiffness, damping = carried(tower(10))
    assert stiffness == pytest.approx(2.0 * 14557.7, rel=0.01)
    assert damping == pytest.approx(30.0 / 4000.0 * stiffness, rel=0.01)
    heavy = {"floor": plane(), "box": box((0, 0, 0.05), (SIDE,) * 3, mass=100.0)}
    assert carried(heavy)[0] == pytest.approx(100.0 * G / (4 * 0.01 * SIDE), rel=0.01)
    assert carried(heavy, rate=60.0)[0] == pytest.approx(0.25 * 100.0 * 60.0**2, rel=0.01)
    assert carried(tower(10), stiffness=500.0) == (500.0, default.damping)
    assert carried(tower(10), damping=7.0) == (stiffness, 7.0)
    assert carried(tower(10), penalty="explicit") == (default.stiffness, default.damping)
    assert carried(tower(10), rigid=True) == (default.stiffness, default.damping)


def test_a_column_that_is_too_soft_is_listed() -> None:
    world = make_world(tower(10), gravity=DOWN)
    (line,) = explain_carrying(ContactParameters(), world, rigid=False)
    assert line == (
        "contact.stiffness = 4000 N/m: the 10 layers of 10 kg on box0 buckle below 1.46e+04 N/m, if they lie on it; "
        "leave it out, or choose environment.method = constraint"
    )
    assert explain_carrying(carry(ContactParameters(), world, 1000.0, rigid=False), world, rigid=False) == []
    assert explain_carrying(ContactParameters(), world, rigid=True) == []
    assert explain_carrying(ContactParameters(), make_world(tower(4), gravity=DOWN), rigid=False) == []


def test_programs_and_experiments_have_contacts_that_carry_their_bodies(tmp_path: Path) -> None:
    scene = {"type": "world", "gravity": DOWN, "tool": "box9", "bodies": tower(10)}
    document = {"name": "tower", "rate": 1000, "duration": 0.1, "scene": scene, **ALONE}
    (trial,) = load_document(document, tmp_path / "tower.yaml")
    expected = carry(ContactParameters(), trial.world, 1000.0, rigid=trial.experiment.environment.method.RIGID)
    assert trial.experiment.contact == expected
    assert not any("buckle" in note for note in trial.notes)
    (soft,) = load_document(document, tmp_path / "tower.yaml", ["contact.stiffness=4000"])
    assert soft.experiment.contact.stiffness == 4000.0
    assert any(note.startswith("contact.stiffness = 4000 N/m: the 10 layers") for note in soft.notes)
    model = haptic_sim.Model(scene, environment={"method": "penalty"})
    assert model.sections.contact.stiffness == expected.stiffness


@pytest.mark.parametrize("method", METHODS)
def test_ten_boxes_and_a_wall_stand_with_default_keys(method: str) -> None:
    """Ten boxes that just touch, and a wall of nine bricks: they settle by less than 6 mm, and stay within 3 mm."""
    for bodies, seconds in ((tower(10), 1.0), (bricks((4, 3, 2)), 0.5)):
        sim = Simulation(bodies, method, contact=DEFAULT, carried=True, gravity=DOWN)
        start = {name: sim.q(name)[:3] for name in bodies if name != "floor"}
        sim.step(round(1000 * seconds))
        for name, position in start.items():
            moved = sim.q(name)[:3] - position
            assert np.abs(moved[:2]).max() < 3e-3, name
            assert -6e-3 < moved[2] < 1e-6, name


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bodies", [tower(10), bricks()], ids=["ten boxes", "a wall of twenty"])
def test_towers_and_walls_stand_for_ten_seconds_with_default_keys(method: str, bodies: dict[str, Body]) -> None:
    sim = Simulation(bodies, method, contact=DEFAULT, carried=True, gravity=DOWN)
    start = {name: sim.q(name)[:3] for name in bodies if name != "floor"}
    sim.step(10000)
    for name, position in start.items():
        moved = sim.q(name)[:3] - position
        assert np.abs(moved[:2]).max() < 3e-3, name
        assert -6e-3 < moved[2] < 1e-6, name


def test_a_body_that_sinks_is_listed() -> None:
    bodies = {"floor": plane(), "box": box((0, 0, 0.25), (0.5,) * 3, mass=1000.0)}
    contact = ContactParameters(stiffness=1e4)
    (line,) = explain_carrying(contact, make_world(bodies, gravity=DOWN), rigid=False)
    assert line == (
        "contact.stiffness = 10000 N/m: 1e+03 kg on four contacts of box sink by 0.25 m; check mass and density, or "
        "choose environment.method = constraint"
    )
    assert explain_carrying(contact, make_world(bodies, gravity=DOWN), rigid=True) == []
    light = {"floor": plane(), "box": box((0, 0, 0.05), (0.1,) * 3, mass=1.0)}
    assert explain_carrying(ContactParameters(), make_world(light, gravity=DOWN), rigid=False) == []
