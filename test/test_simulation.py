"""A world for programs: what it tells is what Newton says, whether from a file or from data."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import ROOT, python

from haptic_bench import run
from haptic_bench.experiment import Experiment
from haptic_sim import Environment, Model, World, load
from haptic_sim.parameters import ParameterError
from haptic_sim.simulation import IGNORED_SECTIONS, WorldDocument

MASS, GRAVITY, SIDE = 0.5, 9.81, 0.1
SCENE: dict[str, Any] = {
    "tool": "box",
    "gravity": [0.0, 0.0, -GRAVITY],
    "bodies": {
        "floor": {"joint": "fixed", "shapes": [{"type": "plane", "normal": [0, 0, 1], "offset": 0.0}]},
        "box": {
            "joint": "free",
            "mass": MASS,
            "position": [0.0, 0.0, SIDE / 2],
            "shapes": [{"type": "box", "size": [SIDE, SIDE, SIDE]}],
        },
    },
}


def test_a_box_that_rests_is_carried() -> None:
    """Contacts push with its weight and what the wrench adds; on the box, along the normal of the floor."""
    world = World(SCENE, environment={"method": "constraint"}, rate=500.0)
    assert world.contacts == []
    push = np.array([0.0, 0.0, -2.0, 0.0, 0.0, 0.0])
    for _ in range(200):
        world.step(push)
    assert world.time == pytest.approx(0.4)
    assert set(world.bodies) >= {"floor", "box"}
    np.testing.assert_allclose(world.bodies["box"].position, [0.0, 0.0, SIDE / 2], atol=1e-5)
    np.testing.assert_allclose(world.bodies["box"].velocity, 0.0, atol=1e-8)
    contacts = world.contacts
    assert {contact.bodies for contact in contacts} == {("floor", "box")}
    total = sum(contact.force for contact in contacts)
    np.testing.assert_allclose(total, [0.0, 0.0, MASS * GRAVITY + 2.0], rtol=1e-6, atol=1e-6)
    for contact in contacts:
        np.testing.assert_allclose(contact.normal, [0.0, 0.0, 1.0], atol=1e-9)
        assert abs(contact.point[2]) < 1e-4 and abs(contact.depth) < 1e-4
    np.testing.assert_allclose(world.wrench[:3], total, rtol=1e-9, atol=1e-9)


def test_environments_share_a_world_and_are_what_it_is() -> None:
    """Bit by bit; the one does not move the other's bodies."""
    world = World(SCENE, environment={"method": "constraint"}, rate=500.0)
    one, other = (Environment(world.start, method="constraint", rate=500.0) for _ in range(2))
    assert one.contacts == [] and one.time == 0.0
    push = np.array([0.5, 0.0, -2.0, 0.0, 0.0, 0.1])
    for _ in range(100):
        tool = one.advance(push)
        world.step(push)
    assert tool is one.state and one.time == world.time == pytest.approx(0.2)
    np.testing.assert_array_equal(tool.pose, world.pose)
    np.testing.assert_array_equal(tool.wrench, world.wrench)
    assert one.energy == world.energy and one.energy["friction"] >= 0.0
    total = sum(contact.force for contact in one.contacts)
    np.testing.assert_array_equal(total, sum(contact.force for contact in world.contacts))
    np.testing.assert_array_equal(other.state.pose[:3], [0.0, 0.0, SIDE / 2])


def test_a_body_in_free_fall_keeps_its_energy() -> None:
    """Semi-implicit Euler: after n steps of T it has the velocity g n T and has fallen g T^2 n (n + 1) / 2."""
    scene = SCENE | {"bodies": {"box": SCENE["bodies"]["box"]}}
    world, rate, steps = World(scene, rate=1000.0), 1000.0, 100
    before, initial = world.bodies["box"], world.energy
    for _ in range(steps):
        world.step()
    after = world.bodies["box"]
    np.testing.assert_allclose(after.velocity, [0.0, 0.0, -GRAVITY * steps / rate], rtol=1e-12)
    fallen = GRAVITY / rate**2 * steps * (steps + 1) / 2
    np.testing.assert_allclose(before.position - after.position, [0.0, 0.0, fallen], rtol=1e-9, atol=1e-15)
    assert initial.keys() == world.energy.keys() and not any(initial.values())
    energy = world.energy  # at the beginning of the last step
    assert energy["kinetic"] == pytest.approx(MASS * (GRAVITY * (steps - 1) / rate) ** 2 / 2, rel=1e-9)


def test_from_a_file_it_is_that_of_the_experiment(tmp_path: Path) -> None:
    """Its tool moves as in an offline trial, whose operator's wrench is applied."""
    document = yaml.safe_load((ROOT / "config" / "experiments" / "incline.yaml").read_text())
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(document))
    trial = run(path, duration=0.05)
    samples = trial.samples
    world = World.from_yaml(path)
    for k in range(len(samples)):
        np.testing.assert_array_equal(world.pose, samples.pose("tool")[k])
        world.step(samples.wrench("operator")[k])
        np.testing.assert_array_equal(world.wrench, samples.wrench("env")[k])


def test_all_keys_of_an_experiment_are_of_the_world_or_known_not_to_be() -> None:
    assert set(IGNORED_SECTIONS) == Experiment.model_fields.keys() - WorldDocument.model_fields.keys()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"scene": SCENE | {"tool": "bx"}}, "bx"),
        ({"scene": SCENE, "rate": 0.0}, "rate"),
        ({"scene": SCENE, "contact": {"stifness": 3.0}}, "contact.stifness: unknown key"),
        ({"scene": SCENE, "tool": {"type": "peg"}}, "tool.type = peg"),
    ],
)
def test_bad_data_is_named(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        World(**arguments)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: World(None), "scene = null: must be a mapping of keys to values"),
        (lambda: World(5), "scene = 5: must be a mapping of keys to values"),
        (lambda: World("x"), "scene = x: must be a mapping of keys to values"),
        (lambda: World([]), "scene = []: must be a mapping of keys to values"),
        (
            lambda: World(SCENE, environment="constraint"),
            "environment = constraint: must be a mapping of keys to values",
        ),
        (lambda: World.from_yaml(None), "path = null: must be a path, as text or a pathlib.Path"),
        (lambda: load(3), "path = 3: must be a path, as text or a pathlib.Path"),
    ],
)
def test_arguments_of_another_type_are_named(call: Any, said: str) -> None:
    with pytest.raises(ParameterError) as error:
        call()
    assert error.value.problems == [said]


@pytest.mark.parametrize("make", [lambda world: pickle.loads(pickle.dumps(world)), copy.copy, copy.deepcopy])
def test_a_world_that_was_pickled_or_copied_goes_on_with_the_same_bits(make: Any) -> None:
    world = World(SCENE)
    for _ in range(20):
        world.step([1.0, 0, -3.0, 0, 0, 0.01])
    other = make(world)
    for one in (world, other):
        for _ in range(20):
            one.step([1.0, 0, -3.0, 0, 0, 0.01])
    assert other.pose.tobytes() == world.pose.tobytes() and other.time == world.time
    assert other.energy == world.energy


def test_what_belongs_to_a_model_is_not_dropped_where_a_model_is_given() -> None:
    model = Model(SCENE)
    with pytest.raises(ParameterError) as error:
        World(model, rate=500.0, contact={"stiffness": 3000.0})
    assert error.value.problems == [
        "contact: belongs to the model, which is given: give it to that",
        "rate: belongs to the model, which is given: give it to that",
    ]
    assert repr(World(model)) == f"World({repr(model)[6:-1]}, t = 0 s)"


@pytest.mark.parametrize("wrench", [[1.0, 2.0], [np.nan] * 6])
def test_a_wrench_must_be_six_finite_numbers(wrench: list[float]) -> None:
    with pytest.raises(ParameterError, match="must be six finite numbers"):
        World(SCENE).step(wrench)
    with pytest.raises(ParameterError, match="must be six finite numbers"):
        Environment(World(SCENE).start).advance(wrench)


def test_the_examples_of_the_documentation_run(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "library.md").read_text()
    examples = [part.partition("```")[0] for part in page.split("```python\n")[1:]]
    assert len(examples) == 12  # the last is of a subscriber, see test_shell.py
    world, model, state, many, theirs, environment, trial, loop, parts, film, viewer, _ = examples
    model, theirs = (part.replace("examples/arm.urdf", str(ROOT / "examples" / "arm.urdf")) for part in (model, theirs))
    for program in (
        world + environment + parts + film + viewer,
        model + state + many + theirs,
        trial + loop,
    ):
        done = python("-c", program, cwd=tmp_path)
        assert done.status == 0, done.err
