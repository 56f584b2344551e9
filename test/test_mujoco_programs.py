"""Scenes of MuJoCo for programs: a world advances as MuJoCo alone does, and has all that other worlds have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

import haptic_bench
import haptic_sim
from haptic_sim import Model, World
from haptic_sim.parameters import ParameterError
from haptic_view.scene import scene_of_model

mujoco = pytest.importorskip("mujoco")

SCENE = """<mujoco><option timestep="0.002"/><worldbody>
    <geom name="floor" type="plane" size="1 1 .1"/>
    <body name="arm" pos="0 0 .5"><joint name="turn" axis="0 0 1" damping=".1"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass=".4"/>
      <body name="hand" pos=".3 0 0"><joint name="lift" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" mass=".2"/></body></body>
    <body name="box" pos="1 0 .1" euler="0 0 20"><freejoint name="free"/>
      <geom type="box" size=".1 .1 .1" mass="2"/></body>
    </worldbody><actuator><position name="servo" joint="turn" kp="3" ctrlrange="-1 1"/></actuator></mujoco>"""
PUSH = [0.3, 0.1, 0.2, 0.0, 0.01, 0.02]


@pytest.fixture
def model(tmp_path: Path) -> Model:
    path = tmp_path / "scene.xml"
    path.write_text(SCENE)
    return haptic_sim.load(path, tool="hand", engine="mujoco", rate=1000.0)


def test_a_world_moves_as_mujoco_moves_it(model: Model) -> None:
    """Bit by bit, at half the file's time step, under wrenches on tool and box and a torque of a joint."""
    world = World(model)
    plain = mujoco.MjModel.from_xml_string(SCENE)
    plain.opt.timestep = 0.001
    plain.actuator_gainprm[:], plain.actuator_biasprm[:], plain.actuator_gear[:] = 0.0, 0.0, 0.0  # those of the tool
    data = mujoco.MjData(plain)
    for _ in range(200):
        world.step(PUSH, wrenches={"box": [1.0, 0.0, 0.0, 0.0, 0.0, 0.3]}, forces={"turn": 0.05})
        mujoco.mj_kinematics(plain, data)
        mujoco.mj_comPos(plain, data)
        data.qfrc_applied[:] = 0.0
        data.qfrc_applied[0] = 0.05
        hand, box = plain.body("hand").id, plain.body("box").id
        held = data.xpos[hand] + data.xmat[hand].reshape(3, 3) @ plain.body_ipos[hand]
        push, pull = np.array(PUSH), np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.3])
        mujoco.mj_applyFT(plain, data, push[:3], push[3:], held, hand, data.qfrc_applied)
        mujoco.mj_applyFT(plain, data, pull[:3], pull[3:], data.xpos[box], box, data.qfrc_applied)
        mujoco.mj_step(plain, data)
    np.testing.assert_array_equal(list(world.coordinates.values()), data.qpos)
    np.testing.assert_array_equal(list(world.velocities.values()), data.qvel)
    assert world.time == pytest.approx(data.time) and list(world.coordinates)[:4] == [
        "turn",
        "lift",
        "free.x",
        "free.y",
    ]
    assert world.bodies["box"].position == pytest.approx(data.qpos[2:5])
    assert world.bodies["box"].quaternion == pytest.approx(np.roll(data.qpos[5:9], -1))
    assert world.bodies["box"].velocity == pytest.approx(data.qvel[2:5], abs=1e-12)
    assert not world.bodies["floor" if "floor" in world.bodies else "world"].velocity.any()


def test_a_step_is_never_longer_than_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "scene.xml"
    path.write_text(SCENE)
    slow, fast = (World(haptic_sim.load(path, tool="hand", engine="mujoco", rate=rate)) for rate in (250.0, 500.0))
    slow.step()
    fast.step()
    fast.step()
    assert slow.coordinates == fast.coordinates and slow.time == fast.time == 0.004


def test_contacts_carry_a_box(model: Model) -> None:
    world = World(model)
    for _ in range(1000):
        world.step()
    touching = [contact for contact in world.contacts if contact.bodies[1] == "box"]
    total = sum(contact.force for contact in touching)
    assert len(touching) == 4 and total == pytest.approx([0.0, 0.0, 2.0 * 9.81], abs=1e-3)
    for contact in touching:
        assert contact.normal == pytest.approx([0.0, 0.0, 1.0], abs=1e-6) and 0.0 < contact.depth < 1e-2
        assert contact.point[2] == pytest.approx(-contact.depth, abs=1e-9)
    assert world.energy["kinetic"] >= 0.0 and world.wrench == pytest.approx(np.zeros(6))


def test_the_tool_feels_what_holds_it(tmp_path: Path) -> None:
    """A ball in the hand that lies on the floor: the wrench is its weight, and what presses it."""
    path = tmp_path / "ball.xml"
    path.write_text("""<mujoco><worldbody><geom type="plane" size="1 1 .1"/>
        <body name="ball" pos="0 0 .05"><freejoint/><geom type="sphere" size=".05" mass=".3"/></body>
        </worldbody></mujoco>""")
    world = World(haptic_sim.load(path, engine="mujoco"))
    for _ in range(1000):
        world.step([0.0, 0.0, -1.0, 0.0, 0.0, 0.0])
    assert world.wrench == pytest.approx([0.0, 0.0, 0.3 * 9.81 + 1.0, 0.0, 0.0, 0.0], abs=1e-3)
    (contact,) = world.contacts
    assert contact.bodies[1] == "ball" and contact.force == pytest.approx(world.wrench[:3], abs=1e-6)


def test_a_state_is_gone_back_to_bit_by_bit(model: Model) -> None:
    world = World(model)
    for _ in range(300):
        world.step(PUSH)
    state, contacts, energy = world.state, world.contacts, world.energy
    other = world.copy()
    for one in (world, other):
        for _ in range(300):
            one.step(PUSH)
    assert world.state == other.state != state
    world.state = state
    assert world.state == state and world.energy == energy and len(world.contacts) == len(contacts) > 0
    np.testing.assert_array_equal([c.force for c in world.contacts], [c.force for c in contacts])
    for _ in range(300):
        world.step(PUSH)
    assert world.state == other.state
    world.reset()
    assert world.time == 0.0 and world.coordinates == model.coordinates
    world.reset({"lift": 0.3}, {"turn": 1.0})
    assert world.coordinates["lift"] == 0.3 and world.velocities["turn"] == 1.0 and world.contacts == []
    box = {"joint": "free", "mass": 1.0, "inertia": [1.0, 1.0, 1.0]}
    with pytest.raises(ParameterError, match=r"state: .* must be of a world of the same model"):
        world.state = World({"tool": "box", "bodies": {"box": box}}).state


def test_a_start_is_within_the_limits_of_the_joints(tmp_path: Path) -> None:
    path = tmp_path / "scene.xml"
    path.write_text(SCENE.replace('name="lift" ', 'name="lift" range="-30 30" '))
    for engine in ("mujoco", "haptics"):
        world = World(haptic_sim.load(path, tool="hand", engine=engine))
        lift, turn = (next(name for name in world.coordinates if name.endswith(one)) for one in ("lift", "turn"))
        world.reset({lift: 0.5, turn: 10.0})
        with pytest.raises(ParameterError, match=rf"coordinates.{lift} = 0.55: must be in \[-0.523599, 0.523599\]"):
            world.reset({lift: 0.55})


def test_a_jacobian_is_that_of_differences_and_a_mobility_what_a_wrench_does(model: Model) -> None:
    world = World(model)
    world.reset({"turn": 0.4, "lift": -0.3})
    J, point, step = world.jacobian("hand", [0.1, 0.02, 0.0]), np.array([0.1, 0.02, 0.0]), 1e-6

    def place(**coordinates: float) -> np.ndarray:
        world.reset({"turn": 0.4, "lift": -0.3} | coordinates)
        X = haptic_sim.simulation.matrices(world.bodies["hand"].quaternion[None])[0]
        found: np.ndarray = world.bodies["hand"].position + X @ point
        return found

    for column, (name, at) in enumerate((("turn", 0.4), ("lift", -0.3))):
        difference = (place(**{name: at + step}) - place(**{name: at - step})) / (2 * step)
        np.testing.assert_allclose(J[:3, column], difference, atol=1e-8)
    world.reset({"turn": 0.4, "lift": -0.3})
    W = world.mobility("box")
    np.testing.assert_allclose(W[:3, :3], np.eye(3) / 2.0, atol=1e-12)
    np.testing.assert_allclose(W[3:, 3:], np.eye(3) / (2.0 * 0.2**2 / 6.0), rtol=1e-9, atol=1e-9)


def test_an_experiment_of_mujoco_is_a_world() -> None:
    world = World.from_yaml(ROOT / "config" / "experiments" / "mujoco_peg.yaml")
    for _ in range(20):
        world.step()
    assert world.time == pytest.approx(20 / world.rate) and np.isfinite(world.pose).all()


def test_an_unstable_simulation_is_said(tmp_path: Path) -> None:
    path = tmp_path / "scene.xml"
    path.write_text(SCENE)
    world = World(haptic_sim.load(path, tool="hand", engine="mujoco"))
    with pytest.raises(haptic_sim.HapticsError, match="unstable: MuJoCo's simulation"):
        for _ in range(50):
            world.step([1e12, 0.0, 1e12, 0.0, 0.0, 0.0])
    world.reset()
    world.step()


def test_a_film_shows_mujocos_shapes(model: Model, tmp_path: Path) -> None:
    film = haptic_bench.Film(World(model))
    drawn = film.save(tmp_path / "arm.svg", "An arm and a box", moves=False)
    shapes = scene_of_model(model, "An arm and a box").shapes
    assert {model.bodies[shape.body] for shape in shapes} >= {"hand", "box"}
    assert drawn.read_text().startswith("<svg")
