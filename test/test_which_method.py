"""The table of docs/contact.md that says which method is for what: each row on a small scene, with what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml
from conftest import ROOT
from offline_runs import run_unrecorded
from world_builder import G, Simulation, ball, box, plane

from haptic_bench.analysis.verdict import verdict_of
from haptic_bench.experiment import load

HEADING = "## Which method for what"
DOWN = [0.0, 0.0, -G]


class Choice(NamedTuple):
    """A row of the table: what is for a task."""

    method: str
    contact: dict[str, Any]
    rate: float

    def simulate(self, bodies: dict[str, Any], **more: Any) -> Simulation:
        """A world of bodies with it."""
        return Simulation(bodies, self.method, self.rate, self.contact, gravity=DOWN, **more)


def choices() -> dict[str, Choice]:
    """The rows of the table by their tasks."""
    text = (ROOT / "docs" / "contact.md").read_text(encoding="utf-8").split(HEADING)[1]
    table = text[text.index("| --- ") :].split("\n\n")[0]
    rows = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]
    return {row[0]: Choice(row[1], yaml.safe_load(row[2]), float(row[3])) for row in rows}


def stiff_wall(choice: Choice) -> None:
    """A tool of 0.5 kg arrives with 0.1 m/s under 10 N: it enters by hardly more than F / k, where it comes to rest."""
    bodies = {"wall": plane(), "tool": ball([0, 0, 0.0503], [0, 0, -0.1], mass=0.5)}
    simulation = choice.simulate(bodies)
    force, k = 10.0 + 0.5 * G, simulation.material.stiffness
    depths = []
    for _ in range(round(0.3 * choice.rate)):
        simulation.step(1, [0, 0, -10.0, 0, 0, 0])
        depths.append(0.05 - simulation.q("tool")[2])
    assert max(depths) < 1.2 * force / k
    assert depths[-1] == pytest.approx(force / k, rel=0.02)


def peg_in_hole(choice: Choice) -> None:
    """A peg 0.2 mm thinner than its slot slides in by its weight, and enters its walls by no more than F / k."""
    walls = {
        "floor": plane(),
        "left": plane([1, 0, 0], -0.0151),
        "right": plane([-1, 0, 0], -0.0151),
    }
    peg = box([0, 0, 0.08], [0.03, 0.03, 0.1], mass=0.3)
    simulation = choice.simulate(walls | {"peg": peg})
    beyond = 0.0
    for k in range(round(0.4 * choice.rate)):
        push = 3.0 * np.sin(40.0 * k / choice.rate)
        simulation.step(1, [push, 0, 0, 0, 0, 0])
        beyond = max(beyond, abs(simulation.q("peg")[0]) - 1e-4)
    assert simulation.q("peg")[2] == pytest.approx(0.05, abs=1e-3)
    assert beyond < 1.5 * 3.0 / (2 * simulation.material.stiffness)
    assert simulation.state.energy[7] < 0.01 * 0.3 * G * 0.03


def stack(choice: Choice) -> None:
    """Six boxes stay where they are."""
    boxes = {f"b{i}": box([0, 0, 0.05 + 0.1 * i], [0.1, 0.1, 0.1]) for i in range(6)}
    simulation = choice.simulate({"floor": plane()} | boxes, allowed_overlap=1e-3)
    simulation.step(round(0.5 * choice.rate))
    for i in range(6):
        np.testing.assert_allclose(simulation.q(f"b{i}")[:3], [0, 0, 0.05 + 0.1 * i], atol=1e-4)


def rolling(choice: Choice) -> None:
    """A ball that is thrown along the floor with v rolls with 5/7 v."""
    simulation = choice.simulate({"floor": plane(), "ball": ball([0, 0, 0.05], [0.7, 0, 0])})
    simulation.step(round(0.4 * choice.rate))
    assert simulation.v("ball")[0] == pytest.approx(0.5, rel=5e-3)
    assert simulation.spin("ball")[1] == pytest.approx(0.5 / 0.05, rel=5e-3)


def sliding(choice: Choice) -> None:
    """A box slides by v^2 / (2 mu g), and stays; pushed with less than its static friction it does not move."""
    simulation = choice.simulate({"floor": plane(), "box": box([0, 0, 0.02], [0.1, 0.1, 0.04], [0.5, 0, 0])})
    kinetic, static = simulation.material.friction.kinetic, simulation.material.friction.static
    simulation.step(round(0.5 * choice.rate))
    way = simulation.q("box")[0]
    assert way == pytest.approx(0.25 / (2.0 * kinetic * G), rel=0.02)
    simulation.step(round(0.2 * choice.rate), [0.5 * static * G, 0, 0, 0, 0, 0])
    assert simulation.q("box")[0] == pytest.approx(way, abs=1e-4)


def light_bodies(choice: Choice) -> None:
    """A box of 2 g that falls by 10 cm: what discretisation adds is less than 1 % of m g h, and it comes to rest."""
    bodies = {"floor": plane(), "box": box([0, 0, 0.11], [0.02] * 3, mass=0.002, rotation=[0.3, 0.2, 0])}
    simulation = choice.simulate(bodies)
    given = 0.002 * G * 0.1
    least = start = simulation.potential_energy()
    for _ in range(round(0.8 * choice.rate)):
        simulation.step()
        least = min(least, simulation.energy())
        assert simulation.energy() < start + 0.01 * given
    assert simulation.kinetic_energy() < 0.01 * given


def impact_chains(choice: Choice) -> None:
    """Newton's cradle."""
    row = {f"b{i}": ball([0.1 * i, 0, 0.5], [1.0 if i == 0 else 0.0, 0, 0]) for i in range(5)}
    simulation = Simulation(row, choice.method, choice.rate, choice.contact)
    simulation.step(10)
    np.testing.assert_allclose([simulation.v(f"b{i}")[0] for i in range(5)], [0, 0, 0, 0, 1], atol=1e-6)


def mujoco_scene(choice: Choice) -> None:
    """The hand is passive in the experiment of a peg in MuJoCo's world."""
    settings = [f"environment.method={choice.method}", f"rate={choice.rate}", "duration=0.1"]
    settings += [f"contact.{key}={value}" for key, value in choice.contact.items()]
    (trial,) = load("mujoco_peg", settings)
    trial = trial.in_mode("offline")
    verdict = verdict_of(trial, run_unrecorded(trial))
    assert verdict is not None and verdict.text.startswith("passive")


SCENES: dict[str, Callable[[Choice], None]] = {
    "a stiff wall in one direction": stiff_wall,
    "a peg in a hole": peg_in_hole,
    "a stack": stack,
    "rolling": rolling,
    "sliding and sticking": sliding,
    "light bodies": light_bodies,
    "a chain of impacts": impact_chains,
    "a world of MuJoCo": mujoco_scene,
}


@pytest.mark.parametrize("task", SCENES)
def test_each_row_of_the_table_does_what_it_says(task: str) -> None:
    SCENES[task](choices()[task])


def test_each_row_has_a_scene() -> None:
    assert list(choices()) == list(SCENES)
