"""World states: where bodies are, what contacts do, and the tables that are made of them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from world_builder import METHODS, G, Simulation, ball, box, plane

from haptic_bench import experiment
from haptic_bench.recording.samples import MessageStore, of_trial
from haptic_bench.recording.world_record import BODIES, CONTACTS, WorldRecord, read_world
from haptic_bench.running.offline import simulate
from haptic_bench.running.runner import Interruption
from haptic_bench.trials.trial import run_trial
from haptic_sim.dynamics.multibody import coordinate_names
from haptic_sim.messages import MessageError, WorldState

BOX = {"type": "box", "size": [0.1, 0.2, 0.3], "position": [0.05, 0.02, 0.1]}
ARM: dict[str, Any] = {
    "floor": plane(),
    "post": {"joint": "fixed", "position": [1, 0, 2], "rotation": [0.3, 0.2, 0.1], "shapes": [BOX]},
    "upper": {"joint": "revolute", "parent": "post", "axis": [1, 1, 0], "angle": 0.7, "velocity": 1.1, "shapes": [BOX],
              "density": 500, "position": [0.4, 0, 0]},
    "slide": {"joint": "prismatic", "parent": "upper", "axis": [0, 1, 0.2], "travel": 0.1, "velocity": -0.6,
              "shapes": [BOX], "density": 500, "position": [0, 0.5, 0], "rotation": [0.2, 0.0, 0.4]},
    "loose": {"joint": "free", "position": [-1, 0, 2], "rotation": [0.4, 0.5, 0.6], "shapes": [BOX], "density": 300,
              "velocity": [0.1, 0.2, 0.3, 1.4, -1.5, 1.6]},
}  # fmt: skip


def states_of(simulation: Simulation, count: int, wrench: Any = None) -> list[WorldState]:
    """The world state of each of some steps."""
    observer, found = simulation.environment.observer, []
    for _ in range(count):
        state = observer.world_state()
        observer.observe_bodies(state)
        simulation.step(wrench=wrench)
        observer.observe_contacts(state)
        found.append(state)
    return found


def test_poses_and_twists_are_those_of_pinocchio() -> None:
    """Of the axes of each body, after some motion, with shapes and centres of mass beside their origins."""
    simulation = Simulation(ARM, tool="slide", hold=[0.1, 0.2, 0.3])
    simulation.step(100, [1.0, 2.0, 3.0, 0.1, 0.2, 0.3])
    (state,) = states_of(simulation, 1)
    assert state.bodies == ("floor", "post", "upper", "slide", "loose")
    model, data = simulation.model, simulation.model.createData()
    pin.forwardKinematics(model, data, np.array(state.q), np.array(state.v))
    pin.updateFramePlacements(model, data)
    for i, name in enumerate(state.bodies):
        frame = model.getFrameId(name, pin.FrameType.BODY)
        np.testing.assert_allclose(state.poses[i, :3], data.oMf[frame].translation, atol=1e-12)
        quaternion = pin.Quaternion(data.oMf[frame].rotation).coeffs()
        assert abs(quaternion @ state.poses[i, 3:]) == pytest.approx(1.0, abs=1e-12)
        velocity = pin.getFrameVelocity(model, data, frame, pin.LOCAL_WORLD_ALIGNED).vector
        np.testing.assert_allclose(state.twists[i], velocity, atol=1e-12)
    moving = np.abs(state.twists).max(axis=1) > 0.01
    assert moving.tolist() == [False, False, True, True, True]
    post = np.array([1.0, 0.0, 2.0])
    np.testing.assert_allclose(state.poses[1, :3], post, atol=1e-15)
    assert state.poses[0].tolist() == [0, 0, 0, 0, 0, 0, 1]


def test_coordinates_are_named_by_joint() -> None:
    simulation = Simulation(ARM, tool="slide")
    q_names, v_names = coordinate_names(simulation.model)
    free = [f"loose.{part}" for part in ("x", "y", "z", "qx", "qy", "qz", "qw")]
    assert sorted(q_names) == sorted(["upper", "slide", *free])
    assert len(v_names) == simulation.model.nv
    at = dict(zip(q_names, simulation.state.q.tolist(), strict=True))
    rate = dict(zip(v_names, simulation.state.v.tolist(), strict=True))
    assert (at["upper"], at["slide"]) == (0.7, 0.1)
    assert (rate["upper"], rate["slide"], rate["loose.vy"]) == pytest.approx((1.1, -0.6, 0.2), abs=0.8)
    quaternion = pin.Quaternion(pin.rpy.rpyToMatrix(0.4, 0.5, 0.6)).coeffs()
    np.testing.assert_allclose([at[f"loose.{part}"] for part in ("qx", "qy", "qz", "qw")], quaternion, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_forces_of_contacts_are_what_accelerates_the_bodies(method: Any) -> None:
    """Newton's law for each body, of all that contacts say that they do to it; friction is among it."""
    # of penalties the classical model, whose force needs no sliding before
    model = "reset_integrator" if method == "frictional_impulses" else "coulomb"
    friction = {"static": 0.5, "kinetic": 0.4, "model": model}
    bodies = {
        "floor": plane(),
        "lower": box([0, 0, 0.0499], [0.2, 0.2, 0.1], mass=2.0),
        "upper": ball([0.05, 0, 0.1498], [0.6, 0.2, -0.4], mass=0.7),
    }
    simulation = Simulation(bodies, method, contact={"friction": friction}, gravity=[0, 0, -G], tool="upper")
    masses, pushed, sideways = {"lower": 2.0, "upper": 0.7}, 0, 0
    for _ in range(60):
        before = {name: simulation.v(name)[:3] for name in masses}
        (state,) = states_of(simulation, 1, [0.2, 0.1, 0, 0, 0, 0])
        contacts = state.contacts[: len(state)]
        assert set(np.unique(contacts["body_b"])) <= {1, 2}
        wrench = np.zeros(6)
        for name, mass in masses.items():
            number = state.bodies.index(name)
            force = contacts["force"][contacts["body_b"] == number].sum(axis=0)
            force = force - contacts["force"][contacts["body_a"] == number].sum(axis=0)
            given = np.array([0.2, 0.1, 0.0]) if name == "upper" else np.zeros(3)
            expected = mass * ((simulation.v(name)[:3] - before[name]) / simulation.period + [0, 0, G]) - given
            np.testing.assert_allclose(force, expected, atol=1e-8 * (1.0 + np.abs(expected).max()))
            pushed += np.abs(force).max() > 0.1
            sideways += np.abs(force[:2]).max() > 0.01
        for contact in contacts:  # on the hand, at its centre
            sign = (contact["body_b"] == 2) * 1.0 - (contact["body_a"] == 2) * 1.0
            lever = contact["point"] - state.poses[2, :3]
            wrench += sign * np.concatenate([contact["force"], np.cross(lever, contact["force"])])
        np.testing.assert_allclose(wrench, simulation.state.wrench, atol=1e-9 * (1 + np.abs(wrench).max()))
        # each contact counts, whether it pushes or not
        assert len(contacts) >= simulation.state.contacts
    assert pushed > 20
    assert sideways > 10


def test_depth_normal_and_point_of_a_ball_in_the_floor() -> None:
    """Overlap r - z, normal upwards from the floor to the ball, at the ball's lowest point; force k times overlap."""
    simulation = Simulation({"floor": plane(), "ball": ball([0.3, 0.4, 0.049])}, "penalty",
                            contact={"stiffness": 2000.0, "damping": 0.0}, allowed_overlap=0.01)  # fmt: skip
    (state,) = states_of(simulation, 1)
    assert len(state) == 1
    (contact,) = state.contacts[:1]
    assert (state.bodies[contact["body_a"]], state.bodies[contact["body_b"]]) == ("floor", "ball")
    assert contact["depth"] == pytest.approx(0.001, abs=1e-12)
    np.testing.assert_allclose(contact["normal"], [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(contact["point"], [0.3, 0.4, -0.001], atol=1e-12)
    np.testing.assert_allclose(contact["force"], [0, 0, 2.0], atol=1e-9)


def trial(name: str, *settings: str) -> experiment.Trial:
    (one,) = experiment.load(name, settings)
    return one


def record(one: experiment.Trial) -> tuple[Any, WorldRecord]:
    store = MessageStore()
    simulate(one, store)
    samples = of_trial(one, store.messages)
    assert samples.world is not None
    return samples, samples.world


@pytest.mark.parametrize(
    ("name", "settings", "body"),
    [
        ("corner_peg", (), "tool"),
        ("corner_peg", ("environment.publish=1e5",), "tool"),
        ("corner_peg", ("local_model.type=full", "environment.rate=60", "environment.publish=100"), "tool"),
        ("bounce_settle", ("environment.publish=1000",), "ball"),
        ("rolling_disk", (), "tool"),
        ("rolling_disk", ("device.type=admittance",), "tool"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_the_tool_is_where_samples_have_it(name: str, settings: tuple[str, ...], body: str) -> None:
    """Bit for bit: a world state is of t_k, as a row of samples is; as many contacts count as are pushing."""
    one = trial(name, "duration=1", *settings)
    samples, world = record(one)
    rate, publish = one.experiment.rate, one.experiment.environment.publish
    assert publish is not None
    assert world.tick.tolist() == list(range(0, one.experiment.last_tick + 1, max(1, round(rate / publish))))
    tool = world.bodies.index(body)
    np.testing.assert_array_equal(world.poses[:, tool], samples.pose("tool")[world.tick])
    np.testing.assert_array_equal(world.twists[:, tool], samples.twist("tool")[world.tick])
    listed = np.array([np.count_nonzero(world.contact_tick == tick) for tick in world.tick])
    if len(world.bodies) > 1 and name == "corner_peg":
        np.testing.assert_array_equal(listed, samples["contacts"][world.tick])
        assert listed.max() > 0


def test_none_are_made_where_none_are_asked_for() -> None:
    store = MessageStore()
    simulate(trial("corner_peg", "environment.publish=null", "duration=0.1"), store)
    assert "world_state" not in store.messages


def test_states_do_not_change_the_trial() -> None:
    stores = []
    for publish in ("null", "60", "512"):
        store = MessageStore()
        simulate(trial("corner_peg", f"environment.publish={publish}", "duration=1"), store)
        stores.append({topic: messages for topic, messages in store.messages.items() if topic != "world_state"})
    assert stores[0] == stores[1] == stores[2]


def test_tables_give_back_the_bits(tmp_path: Path) -> None:
    """A name with a comma and one that is not ASCII are in them as any other."""
    rng = np.random.default_rng(20260)
    state = WorldState(bodies=("a,b", "Würfel"), poses=2, twists=2, q_names=("j",), q=1, contacts=4)
    messages = []
    for tick in (0, 9, 18):
        state.stamp(tick, tick)
        state.poses[:], state.twists[:] = rng.normal(size=(2, 7)), rng.normal(size=(2, 6))
        state.resize(tick // 9)
        state.contacts["body_b"] = 1
        for name in ("point", "normal", "depth", "force"):
            state.contacts[name] = rng.normal(size=state.contacts[name].shape)
        messages.append(state.to_bytes())
    world = read_world([messages[2], messages[0], messages[1]])
    assert world is not None
    assert world.tick.tolist() == [0, 9, 18]
    world.write_csv(tmp_path)
    with (tmp_path / "bodies.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert tuple(rows[0]) == BODIES
    assert [(row[0], row[1]) for row in rows[1:]] == [(t, b) for t in ("0", "9", "18") for b in ("a,b", "Würfel")]
    found = np.array([row[2:] for row in rows[1:]], float).reshape(3, 2, 13)
    np.testing.assert_array_equal(found, np.concatenate([world.poses, world.twists], axis=2))
    with (tmp_path / "contacts.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert tuple(rows[0]) == CONTACTS
    assert [row[:3] for row in rows[1:]] == [["9", "a,b", "Würfel"], ["18", "a,b", "Würfel"], ["18", "a,b", "Würfel"]]
    np.testing.assert_array_equal(np.array([row[9] for row in rows[1:]], float), world.contacts["depth"])
    np.testing.assert_array_equal(np.array([row[10:] for row in rows[1:]], float), world.contacts["force"])
    assert [len(world.before(tick).contacts) for tick in (0, 9, 10, 18, 19)] == [0, 0, 1, 1, 3]


def test_states_of_two_worlds_are_refused() -> None:
    one, other = WorldState(bodies=("a",), poses=1, twists=1), WorldState(bodies=("b",), poses=1, twists=1)
    with pytest.raises(MessageError, match="haptics/msg/WorldState"):
        read_world([one.to_bytes(), other.to_bytes()])
    assert read_world([]) is None


@pytest.mark.long
def test_a_trial_leaves_the_tables(tmp_path: Path) -> None:
    for name, expected in (("corner_peg", True), ("linkage_impact", False)):
        directory = tmp_path / name
        directory.mkdir()
        with Interruption() as interruption:
            settings = ("duration=0.1",) if expected else ("scene.restitutions=[0, 1]",)
            run_trial(trial(name, *settings), "offline", directory, interruption)
        for table in ("bodies.csv", "contacts.csv"):
            assert (directory / table).exists() == expected
