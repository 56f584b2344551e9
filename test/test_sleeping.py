"""Bodies that sleep: they cost nothing, lose nothing but their kinetic energy, and go on as if they had been awake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import sampled
from world_builder import G, ball, box, plane

from benchmarks import contact as scenes
from benchmarks.instructions import UncountableError, count_instructions
from haptic_sim import World
from haptic_sim.contact.sleeping import SLEPT, Sleep
from haptic_sim.messages import RESTING
from haptic_sim.parameters import ParameterError
from haptic_sim.tool.environment import Environment

SIDE = 0.1  # [m]
SPEED = 1e-5  # [m/s]
METHODS = ("penalty", "impulse_augmented", "frictional_impulses", "constraint", "hybrid")


def tower_world(method: str, speed: float = SPEED, **bodies: Any) -> World:
    """Three boxes on each other and a ball that is held far away, weightless."""
    cubes = {f"box_{i}": box([0.0, 0.0, SIDE * (i + 0.5)], [SIDE] * 3) for i in range(3)}
    held = ball([1.0, 0.0, 1.5 * SIDE], radius=0.05, mass=0.5)
    scene = {
        "gravity": [0, 0, -1.0],
        "tool": "ball",
        "bodies": {"floor": plane(), **cubes, "ball": held, **bodies},
    }
    environment = {"method": method, "sleep_speed": speed, "sleep_time": 0.1}
    contact = {"stiffness": 5e4, "damping": 100.0, "friction": {"static": 0.5, "kinetic": 0.5}}
    return World(scene, environment=environment, contact=contact)


CARRIED = [0.0, 0.0, 0.5, 0.0, 0.0, 0.0]  # weight of the ball


def sleeping(world: World) -> list[str]:
    """Bodies that sleep, but for a tool that is held without weight: that rests exactly, and sleeps, too."""
    core = world._core
    assert isinstance(core, Environment)
    bodies = core._sleeping
    assert bodies is not None
    model = world.start.model
    joints = [j for j in range(1, model.njoints) if model.names[j] != "ball"]
    return [model.names[j] for j in joints if bodies.asleep[bodies._body.trees.of_joint[j]]]


def settle(world: World, steps: int = 3000) -> None:
    """Go on until the boxes sleep."""
    for _ in range(steps):
        world.step(CARRIED)
        if sleeping(world):
            return
    raise AssertionError("the boxes do not fall asleep")


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", sampled(METHODS, "constraint"))
def test_what_falls_asleep_loses_its_kinetic_energy_alone(method: str) -> None:
    """It is a numerical loss; elastic and potential energy stay, and so do contacts, bit by bit."""
    world = tower_world(method)
    before: dict[str, float] = {}
    while not sleeping(world):
        assert world.time < 5.0
        before = world.energy
        world.step(CARRIED)
    assert sleeping(world) == ["box_0", "box_1", "box_2"]
    after, bodies, contacts = world.energy, world.bodies, world.contacts
    assert after["kinetic"] == 0.0  # the energies are those of the beginning of the step
    assert after["numerical"] <= before["numerical"] + 1e-12
    assert after["elastic"] == pytest.approx(before["elastic"], rel=1e-5, abs=1e-12)
    for _ in range(50):
        world.step(CARRIED)
    now = world.energy
    assert (now["elastic"], now["potential"]) == pytest.approx((after["elastic"], after["potential"]), abs=1e-15)
    assert now["numerical"] == pytest.approx(after["numerical"], abs=1e-12)
    assert all((world.bodies[name].position == body.position).all() for name, body in bodies.items())
    assert [c.force.tolist() for c in world.contacts] == [c.force.tolist() for c in contacts]
    assert sum(c.force[2] for c in contacts if c.bodies[0] == "floor") == pytest.approx(3.0, rel=1e-3)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", METHODS)
def test_a_tower_that_is_struck_goes_on_as_one_that_was_awake(method: str) -> None:
    """The ball is thrown at the middle box after the tower has been asleep for a while."""
    world, awake = tower_world(method), tower_world(method, speed=0.0)
    settle(world)
    while awake.time < world.time:
        awake.step(CARRIED)
    for one in (world, awake):
        for _ in range(200):
            one.step(CARRIED)
        for _ in range(200):
            one.step([-5.0, 0.0, 0.5, 0.0, 0.0, 0.0])  # 2 m/s
        for _ in range(450):
            one.step(CARRIED)
    assert not sleeping(world)
    moved = max(abs(world.bodies[f"box_{i}"].position[0]) for i in range(3))
    assert moved > 0.005
    for name, body in awake.bodies.items():
        np.testing.assert_allclose(world.bodies[name].position, body.position, atol=2e-4)
        np.testing.assert_allclose(world.bodies[name].velocity, body.velocity, atol=2e-2)
    for name in ("damping", "friction", "impact", "numerical"):
        assert world.energy[name] == pytest.approx(awake.energy[name], abs=2e-3)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", sampled(("penalty", "impulse_augmented", "constraint"), "constraint"))
def test_who_wakes_without_being_moved_stays(method: str) -> None:
    """Springs and bonds have their load from the first step on: nothing sinks in, jumps, or adds energy."""
    world = tower_world(method)
    settle(world)
    places = {name: body.position for name, body in world.bodies.items()}
    energy = world.energy["numerical"]
    world.step(CARRIED, wrenches={"box_1": [1e-9, 0, 0, 0, 0, 0]})
    assert not sleeping(world)
    for _ in range(20):
        world.step(CARRIED)
        assert max(np.abs(body.velocity).max() for body in world.bodies.values()) < 2e-5
    for name, place in places.items():
        np.testing.assert_allclose(world.bodies[name].position, place, atol=1e-7)
    assert world.energy["numerical"] < energy + 1e-10
    settle(world, 500)


def test_only_the_island_that_is_touched_wakes() -> None:
    """A box beside the tower sleeps on; who has come to rest again sleeps again."""
    world = tower_world("constraint", other=box([0.0, 1.0, 0.5 * SIDE], [SIDE] * 3))
    settle(world)
    assert sleeping(world) == ["box_0", "box_1", "box_2", "other"]
    world.step(CARRIED, wrenches={"box_2": [0.1, 0, 0, 0, 0, 0]})
    assert sleeping(world) == ["other"]
    for _ in range(1000):
        world.step(CARRIED)
    assert sleeping(world) == ["box_0", "box_1", "box_2", "other"]
    world.step(CARRIED, forces={"other.vx": 0.1})
    assert sleeping(world) == ["box_0", "box_1", "box_2"]


def test_a_change_of_the_material_wakes_all() -> None:
    """On ice they slide."""
    world = tower_world("penalty")
    settle(world)
    core = world._core
    assert isinstance(core, Environment)
    core.configure(world.model.sections.contact.model_copy(update={"stiffness": 1e4}))
    assert not sleeping(world)
    high = world.bodies["box_2"].position[2]
    for _ in range(100):
        world.step(CARRIED)
    assert world.bodies["box_2"].position[2] < high - 1e-5


@pytest.mark.parametrize("method", ("penalty", "constraint"))
def test_a_state_has_who_sleeps(method: str) -> None:
    """Get, set and copy, before and after falling asleep and waking: the bits are the same."""
    world = tower_world(method)
    start = world.state
    settle(world)
    asleep, other = world.state, world.copy()

    def on(one: World) -> Any:
        one.step(CARRIED, wrenches={"box_1": [0.3, 0, 0, 0, 0, 0]})
        for _ in range(100):
            one.step(CARRIED)
        return one.state

    ends = [on(world), on(other)]
    world.state = asleep
    assert sleeping(world)
    ends.append(on(world))
    world.state = start
    assert not sleeping(world)
    settle(world)
    ends.append(on(world))
    assert all(end == ends[0] for end in ends)


def test_a_tool_that_sleeps_is_felt_and_wakes_by_its_wrench() -> None:
    """It feels the floor as before, and what acts on it then makes it move at once."""
    scene = {"tool": "a", "bodies": {"floor": plane(), "a": box([0, 0, 0.05], [SIDE] * 3), "b": ball([1, 0, 0.05])}}
    world = World(scene, environment={"method": "constraint", "sleep_speed": SPEED}, contact={"margin": 0.01})
    for _ in range(1500):
        world.step()
    assert sleeping(world) == ["a", "b"]
    np.testing.assert_allclose(world.wrench, [0, 0, G, 0, 0, 0], atol=1e-6)
    assert world._tool.contact_state == RESTING and world._tool.contacts == 5
    world.step([20.0, 0, 0, 0, 0, 0])
    assert sleeping(world) == ["b"]
    assert world.twist[0] > 1e-3


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("method", ("penalty", "constraint"))
def test_who_flies_slides_or_rolls_does_not_sleep(method: str, seed: int) -> None:
    """Slowly, too: a ball thrown up, one that drifts without weight, a box on a slope, a ball that rolls."""
    rng = np.random.default_rng([20301, seed])
    angle = rng.uniform(0.15, 0.5)
    slope = [-np.sin(angle), 0.0, np.cos(angle)]  # a floor that rises along x
    friction = float(np.tan(angle) * rng.uniform(0.3, 0.9))
    sliding = box([0.05 * s for s in slope], [SIDE] * 3, rotation=[0.0, -float(angle), 0.0])
    environment = {"method": method, "sleep_speed": 1e-5, "sleep_time": 0.02}
    scene = {"tool": "held", "bodies": {"slope": plane(slope), "box": sliding, "held": ball([0.0, 5.0, 500.0])}}
    contact = {"friction": {"static": friction, "kinetic": friction}}
    world = World(scene, environment=environment, contact=contact)
    for _ in range(300):
        world.step()
        assert not sleeping(world)

    speed = 10.0 ** rng.uniform(-4.0, -1.0)
    turn = [speed, 0.0, 0.0, 0.0, speed / 0.05, 0.0]
    rolling = ball([0.0, 0.0, 0.05], turn)
    thrown = ball([3.0, 0.0, 20.0], [0.0, 0.0, rng.uniform(0.05, 0.3)])
    scene = {"tool": "held", "bodies": {"floor": plane(), "rolling": rolling, "held": thrown}}
    world = World(scene, environment=environment)
    for _ in range(400):
        world.step()
        assert not sleeping(world)

    drifting = {f"ball_{i}": ball([0.2 * i, 0, 0], [10.0 ** rng.uniform(-8.0, -3.0), 0.0, 0.0]) for i in range(3)}
    world = World({"gravity": [0, 0, 0], "tool": "ball_0", "bodies": drifting}, environment=environment)
    for _ in range(100):
        world.step()
        assert not sleeping(world)


def test_a_wall_at_rest_takes_next_to_nothing() -> None:
    """Of the 1.4e6 instructions of a step of 20 boxes with 132 contacts, mostly those of Python are left."""
    scene = scenes.wall()
    method, settings = scenes.METHODS["penalty"]
    world = Environment(
        scenes.build_world(scene), scene.parameters(settings), method, rate=1000.0, sleep=Sleep(1e-4, 0.02)
    )
    for _ in range(1500):
        world.advance()
        bodies = world._sleeping
        assert bodies is not None
        if bodies.asleep.all():
            break
    assert bodies.asleep.all() and bodies.arrays.numbers[SLEPT] == 132
    assert world.state.contacts == 132 and len(world.contacts) == 132
    try:
        assert count_instructions(world.advance) < 1e5
    except UncountableError as error:
        pytest.skip(str(error))


def test_what_cannot_sleep_is_refused() -> None:
    """With key, value and remedy."""
    scene = {"bodies": {"a": ball([0, 0, 0]), "b": ball([1, 0, 0])}, "tool": "a"}
    with pytest.raises(ParameterError, match=r"environment\.sleep_speed = -1 m/s: must be >= 0"):
        World(scene, environment={"sleep_speed": -1.0})
    with pytest.raises(ParameterError, match=r"environment\.sleep_speed = 0\.01 m/s: this contact method cannot store"):
        World(scene, environment={"sleep_speed": 0.01}, contact={"self_collision": "printed"})


@pytest.mark.parametrize("linkage", (True, False))
def test_who_is_awake_beside_them_moves_as_ever(linkage: bool) -> None:
    """A swinging arm, which Pinocchio evaluates, or free bodies in flight and in rotation."""
    arm = {"joint": "revolute", "axis": [0, 1, 0], "mass": 1.0, "inertia": [0.1] * 3, "centre_of_mass": [0.3, 0, 0]}
    turning = box([5.0, 0, 50.0], [0.1, 0.2, 0.3], [0.1, 0.2, 1.0, 3.0, 1.0, -2.0])
    moving = {"arm": {**arm, "position": [4.0, 0.0, 2.0]}} if linkage else {"spinning": turning}
    lying = {f"box_{i}": box([0.2 * i, 0, 0.05], [SIDE] * 3) for i in range(3)}
    scene = {"tool": "ball", "bodies": {"floor": plane(), **lying, **moving, "ball": ball([-3, 0, 40], [1, 0, 0])}}
    world, awake = (
        World(scene, environment={"method": "constraint", "sleep_speed": speed, "sleep_time": 0.05})
        for speed in (SPEED, 0.0)
    )
    push = [0.0, 1.0, 0.0, 0.01, 0.02, 0.03]
    for _ in range(600):
        world.step(push)
        awake.step(push)
    assert sleeping(world) == ["box_0", "box_1", "box_2"]
    for name, body in awake.bodies.items():
        np.testing.assert_allclose(world.bodies[name].position, body.position, atol=1e-6)
        np.testing.assert_allclose(world.bodies[name].quaternion, body.quaternion, atol=1e-9)
        np.testing.assert_allclose(world.bodies[name].velocity, body.velocity, atol=1e-8)
        np.testing.assert_allclose(world.bodies[name].angular_velocity, body.angular_velocity, atol=1e-8)
    assert world.energy["potential"] == pytest.approx(awake.energy["potential"], abs=1e-5)
    np.testing.assert_allclose(world.mobility("ball"), awake.mobility("ball"), atol=1e-12)
    np.testing.assert_allclose(world.jacobian("box_1"), awake.jacobian("box_1"), atol=1e-6)


def test_bodies_sleep_in_the_plane_and_in_large_worlds() -> None:
    """Where Pinocchio does not evaluate them, too."""
    square = {"joint": "planar", "mass": 1.0, "inertia": 0.01, "shapes": [{"type": "box", "size": [SIDE] * 3}]}
    floor = plane((0.0, 1.0, 0.0))
    bodies = {"floor": floor, "a": {**square, "position": [0, 0.05]}, "b": {**square, "position": [0.3, 0.05]}}
    flat = {"planar": True, "gravity": [0, -9.81, 0], "tool": "a", "bodies": bodies}
    many = {f"ball_{i}": ball([0.2 * i, 0.0, 0.05]) for i in range(50)}
    many |= {"floor": plane(), "held": ball([-1.0, 0, 5000.0])}
    for scene, expected in ((flat, 2), ({"tool": "held", "bodies": many}, 50)):
        world = World(scene, environment={"method": "constraint", "sleep_speed": SPEED, "sleep_time": 0.05})
        for _ in range(400):
            world.step()
        assert len(sleeping(world)) == expected
        places = world.coordinates
        for _ in range(20):
            world.step()
        still = [name for name in places if not name.startswith("held")]
        assert all(world.coordinates[name] == places[name] for name in still)
        world.step(forces={"b.vx" if expected == 2 else "ball_7.vx": 1.0})
        assert len(sleeping(world)) == expected - 1
