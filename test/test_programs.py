"""The front door for programs: models, worlds of them, their states, forces on anything, Jacobians, and errors."""

from __future__ import annotations

import ast
import configparser
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from conftest import ROOT
from test_simulation import SCENE

import haptic_sim
from haptic_sim import HapticsError, Model, World, load
from haptic_sim.parameters import ParameterError

ARM = ROOT / "examples" / "arm.urdf"
EXPERIMENTS = sorted(path.stem for path in (ROOT / "config" / "experiments").glob("*.yaml"))
SAMPLE = (
    "door",
    "pull_arm",
    "servo_cost",
    "two_hands",
)  # linkage, constraints, motions, hands
METHODS = ("penalty", "impulse_augmented", "frictional_impulses", "constraint", "hybrid")


def of_experiment(name: str) -> Model:
    """The model of an experiment; those without a world of ours are skipped."""
    try:
        return load(ROOT / "config" / "experiments" / f"{name}.yaml")
    except ParameterError as error:
        pytest.skip(str(error).splitlines()[0])


def goes_on_alike(model: Model, push: float, steps: int = 60) -> None:
    """From a state, the same world and another one have the same bits as without it."""
    world = World(model)
    wrenches = push * np.random.default_rng(1).normal(size=(2 * steps, 6))
    start = world.state
    for wrench in wrenches[:steps]:
        world.step(wrench)
    state = world.state
    assert state != start
    first = world.copy()
    for wrench in wrenches[steps:]:
        world.step(wrench)
    end, poses, contacts = world.state, {n: b.position for n, b in world.bodies.items()}, len(world.contacts)
    assert end != state == first.state
    world.state = state
    assert world.state == state
    other = World(model)
    other.state = state
    for one in (world, other, first):
        assert one.time == pytest.approx(steps / model.rate)
        for wrench in wrenches[steps:]:
            one.step(wrench)
        assert one.state == end and len(one.contacts) == contacts and one.energy == world.energy
        for name, body in one.bodies.items():
            np.testing.assert_array_equal(body.position, poses[name])
    world.reset()
    assert world.state == start and world.time == 0.0


@pytest.mark.parametrize("method", METHODS)
def test_a_state_decides_how_a_world_goes_on(method: str) -> None:
    """Bit by bit, in contact, with springs, bonds and memories of solvers."""
    goes_on_alike(Model(SCENE, environment={"method": method}), 3.0)


@pytest.mark.parametrize(
    "name", [n if n in SAMPLE else pytest.param(n, marks=pytest.mark.exhaustive) for n in EXPERIMENTS]
)
@pytest.mark.exhaustive
def test_a_state_decides_how_the_worlds_of_experiments_go_on(name: str) -> None:
    # a nut of 17 g on some hundred explicit springs is unstable under random wrenches of the size of the others
    goes_on_alike(of_experiment(name), 0.05 if name == "nut_and_bolt" else 0.5)


def test_a_state_is_of_a_model() -> None:
    """That of another one is refused, and changes nothing."""
    world, other = World(SCENE), World(load(ARM))
    before = world.state
    with pytest.raises(ParameterError, match="must be of a world of the same model"):
        world.state = other.state
    assert world.state == before and before != other.state


def test_forces_act_as_pinocchio_has_them(tmp_path: Path) -> None:
    """A step of an arm without damping: v + h a, with a by the articulated-body algorithm; they supply the energy."""
    (tmp_path / "arm.urdf").write_text(re.sub("<dynamics[^>]*>", "", ARM.read_text()))
    model = load(tmp_path / "arm.urdf", rate=1e4)
    world, p = World(model), model.pinocchio
    world.reset({"arm/shoulder": 0.4, "arm/elbow": -0.9}, {"arm/shoulder": 0.5, "arm/elbow": -1.5})
    data, random, supplied = p.createData(), np.random.default_rng(2), 0.0
    upper, lower = (p.getFrameId(f"arm/{name}", pin.FrameType.BODY) for name in ("upper", "lower"))
    for _ in range(20):
        q, v = (np.array(list(each.values())) for each in (world.coordinates, world.velocities))
        on_tool, on_upper, tau = random.normal(size=6), random.normal(size=6), random.normal(size=2)
        pin.computeJointJacobians(p, data, q)
        pin.updateFramePlacements(p, data)
        forces = tau.copy()
        for frame, wrench in ((p.getFrameId("hand"), on_tool), (upper, on_upper)):
            forces += pin.getFrameJacobian(p, data, frame, pin.LOCAL_WORLD_ALIGNED).T @ wrench
        a = pin.aba(p, data, q, v, forces)
        named = {"arm/shoulder": tau[0], "arm/elbow": tau[1]}
        world.step(on_tool, wrenches={"arm/upper": on_upper}, forces=named)
        np.testing.assert_allclose(list(world.velocities.values()), v + a / model.rate, rtol=1e-9, atol=1e-11)
        supplied += float(forces @ (v + 0.5 * a / model.rate)) / model.rate
    world.step()  # energies are those at the beginning of a step
    assert world.energy["injected"] == pytest.approx(supplied, rel=1e-9)
    point, M = np.array([0.03, -0.02, -0.1]), pin.crba(p, data, np.array(list(world.coordinates.values())))
    pin.computeJointJacobians(p, data, np.array(list(world.coordinates.values())))
    pin.updateFramePlacements(p, data)
    J = pin.getFrameJacobian(p, data, lower, pin.LOCAL_WORLD_ALIGNED)
    J[:3] -= pin.skew(data.oMf[lower].rotation @ point) @ J[3:]
    np.testing.assert_allclose(world.jacobian("arm/lower", point), J, atol=1e-12)
    np.testing.assert_allclose(world.mobility("arm/lower", point), J @ np.linalg.solve(M, J.T), atol=1e-9)


def test_a_wrench_on_the_tool_may_be_given_as_that_of_any_body() -> None:
    """The same motion and the same energy; two bodies are pushed apart with no change of their momentum."""
    one, other = World(SCENE), World(SCENE)
    for _ in range(50):
        one.step([1.0, 0.5, 0.0, 0.0, 0.0, 0.1])  # the hold point is the origin of the box
        other.step(wrenches={"box": [1.0, 0.5, 0.0, 0.0, 0.0, 0.1]})
    np.testing.assert_allclose(one.bodies["box"].position, other.bodies["box"].position, rtol=1e-12, atol=1e-13)
    assert one.energy["injected"] == pytest.approx(other.energy["injected"], rel=1e-9)
    ball = {"joint": "free", "mass": 0.2, "shapes": [{"type": "sphere", "radius": 0.02}]}
    bodies = {"a": {**ball, "position": [0.0, 0.0, 0.0]}, "b": {**ball, "mass": 0.6, "position": [0.5, 0.0, 0.0]}}
    world = World({"tool": "a", "bodies": bodies, "gravity": [0, 0, 0]})
    for _ in range(100):
        world.step(wrenches={"a": [-1.0, 0, 0, 0, 0, 0], "b": [1.0, 0, 0, 0, 0, 0]})
    a, b = world.bodies["a"], world.bodies["b"]
    assert a.velocity[0] == pytest.approx(-0.5) and b.velocity[0] == pytest.approx(1.0 / 6.0)


def test_a_start_of_ones_own() -> None:
    model = load(ARM, tool="upper", rate=500.0)
    assert model.rate == 500.0 and list(model.coordinates) == ["arm/shoulder", "arm/elbow"]
    assert model.bodies == ("arm/base", "arm/upper", "arm/lower") and load(ARM).start.hand != 0
    world = World(model)
    world.step()
    world.reset({"arm/elbow": 0.3}, {"arm/shoulder": -1.0})
    assert world.time == 0.0 and world.coordinates == {"arm/shoulder": 0.0, "arm/elbow": 0.3}
    assert world.velocities == {"arm/shoulder": -1.0, "arm/elbow": 0.0}
    world.reset()
    assert world.coordinates == model.coordinates and world.velocities == model.velocities


def test_files_make_models(tmp_path: Path) -> None:
    """URDF, MJCF and experiments; the link that is held is the last one that moves."""
    mjcf = tmp_path / "2 balls.xml"
    ball = "<body name='{0}' pos='{1} 0 1'><freejoint/><geom size='.1'/></body>"
    inside = ball.format("one", 0) + ball.format("two", 1)
    mjcf.write_text(f"<mujoco><worldbody>{inside}</worldbody></mujoco>")
    model = load(mjcf)
    assert {name.rpartition("/")[2] for name in model.bodies} == {"one", "two"}
    world = World(model)
    for _ in range(100):
        world.step([0, 0, 9.81 * world.model.pinocchio.inertias[2].mass, 0, 0, 0])
    heights = {name.rpartition("/")[2]: body.position[2] for name, body in world.bodies.items()}
    assert heights["two"] == pytest.approx(1.0, abs=1e-9) and heights["one"] < 0.96
    assert load(ROOT / "config" / "experiments" / "door.yaml").rate > 0.0


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda world: load(ARM, bse="free"), r"bse: unknown; did you mean base\?"),
        (lambda world: load(ARM, actuators="control"), "actuators: unknown"),
        (lambda world: load("arm.txt"), r"path = arm.txt: must end in .yaml \(experiment\), .urdf"),
        (lambda world: load("nowhere.urdf"), "nowhere.urdf: cannot be read"),
        (lambda world: load("nowhere.yaml", tool="x"), "tool: must be left out for an experiment"),
        (
            lambda world: load(ARM, tool="lowwer"),
            r"lowwer: unknown body; did you mean arm/lower\? \(known: arm/base, arm/upper, arm/lower\)",
        ),
        (lambda world: world.step("push"), "wrench = push: must be six finite numbers"),
        (lambda world: world.step(wrenches={"box": [0.0] * 5}), "wrenches.box = .*: must be six finite numbers"),
        (lambda world: world.step(wrenches={"bax": [0.0] * 6}), "body 'bax': unknown; did you mean box"),
        (lambda world: world.step(wrenches={"floor": [0.0] * 6}), "body 'floor': does not move"),
        (lambda world: world.step(forces={"box.vx": np.nan}), "forces.box.vx = nan: must be a finite number"),
        (lambda world: world.step(forces={"vx": 1.0}), "forces.vx: unknown"),
        (lambda world: world.reset({"box.x": "far"}), "coordinates.box.x = far: must be a finite number"),
        (lambda world: world.jacobian("box", [0.0, 1.0]), "point = .*: must be three finite numbers"),
    ],
)
def test_what_cannot_be_is_refused(call: Callable[[World], Any], text: str) -> None:
    """By name, with what is allowed, and nothing has acted."""
    world = World(SCENE)
    before = world.state
    with pytest.raises(HapticsError, match=text):
        call(world)
    assert world.state == before
    world.step()
    assert world.energy["injected"] == 0.0


@pytest.mark.exhaustive
def test_constraints_are_met_by_a_start() -> None:
    """A start that does not is refused."""
    ball = {"joint": "free", "mass": 0.2, "position": [0.1, 0, 0], "shapes": [{"type": "sphere", "radius": 0.02}]}
    circle = {"type": "point_on_circle", "body": "ball", "centre": [0, 0, 0], "normal": [0, 0, 1], "radius": 0.1}
    world = World({"tool": "ball", "bodies": {"ball": ball}, "constraints": {"circle": circle}})
    with pytest.raises(ParameterError, match="coordinates, velocities: "):
        world.reset({"ball.x": 0.2})
    world.reset({"ball.x": 0.0, "ball.y": 0.1}, {"ball.vx": 0.5})
    world.step()
    assert np.linalg.norm(world.bodies["ball"].position) == pytest.approx(0.1, abs=1e-9)


def test_all_errors_have_one_root() -> None:
    """What this package raises on purpose is caught by one name; errors inside of a module are its own affair."""
    ours = set()
    for package in ("haptic_sim", "haptic_ros", "haptic_control", "haptic_drivers", "haptic_bench"):
        for path in (ROOT / package).rglob("*.py"):
            if "set_up" in path.parts or "kernels" in path.parts:
                continue  # runs without the package, or raises for itself
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
                    ours.add((node.name, tuple(ast.unparse(base) for base in node.bases)))
    names = {name for name, _ in ours} | {"HapticsError"}
    assert len(ours) > 10
    assert [name for name, bases in ours if name != "HapticsError" and not names & set(bases)] == []


def test_the_version_is_that_of_the_package() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    assert haptic_sim.__version__ == config["metadata"]["version"]


def test_a_world_is_shown_in_the_browser() -> None:
    """As it is at each update, on a page with a token, and it follows a world that goes back."""
    pytest.importorskip("viser")
    from haptic_bench import Viewer

    with pytest.raises(ParameterError, match="speed = 0: must be > 0, or None"):
        Viewer(World(SCENE), speed=0)
    world = World(SCENE, environment={"method": "constraint"}, rate=50.0)
    with Viewer(world, "A box", speed=None) as viewer:
        assert viewer.address.startswith("http://127.0.0.1:")
        for step in range(3):
            world.step([1.0, 0, 0, 0, 0, 0]) if step < 2 else world.reset()
            time.sleep(0.05)
            viewer.update()
            shown = viewer._page.bodies["box"].position
            np.testing.assert_allclose(shown, world.bodies["box"].position, atol=1e-6)
    with Viewer(world, speed=2.0) as viewer:
        begun = time.monotonic()
        for _ in range(10):
            world.step()
            viewer.update()
        assert time.monotonic() - begun >= 0.09  # 0.2 s at twice the speed


@pytest.mark.parametrize(("name", "settings"), [("corner_peg", {"contact.stiffness": 3000.0}), ("static_wall", {})])
def test_a_loop_has_the_bits_of_a_run(name: str, settings: dict[str, Any]) -> None:
    """Tick by tick, also with a local model."""
    from haptic_bench import Loop, run

    trial, loop = run(name, settings, duration=0.1), Loop(name, settings)
    poses, forces, hands = [], [], []
    for _ in range(len(trial.samples["tick"])):
        loop.step()
        poses.append(loop.tool.pose.copy())
        forces.append(loop.command.wrench.copy())
        hands.append(loop.device.pose.copy())
    assert loop.ticks == len(poses) and loop.time == pytest.approx(len(poses) / loop.trial.experiment.rate)
    samples = trial.samples
    np.testing.assert_array_equal(np.array(poses)[:-1, :2], np.transpose([samples["tool_px"], samples["tool_py"]])[1:])
    np.testing.assert_array_equal(np.array(hands)[:, :2], np.transpose([samples["hand_px"], samples["hand_py"]]))
    np.testing.assert_array_equal(forces, samples.wrench("command"))
    assert np.ptp(poses, axis=0).max() > 0.0 and np.abs(forces).max() > 0.0


def test_a_loop_without_a_device_says_so() -> None:
    """Its operator acts on the tool."""
    from haptic_bench import Loop

    loop = Loop("incline")
    loop.step()
    assert loop.ticks == 1 and loop.tool.tick == 0
    with pytest.raises(ParameterError, match="there is no device"):
        _ = loop.device


def test_settings_of_programs_are_data() -> None:
    """Not texts: arrays, paths and strings are taken as they are; a wrong key or value is named."""
    from haptic_bench import Loop

    text, operator = "k: 2500 # not a comment", {"type": "constant", "wrench": np.arange(6.0)}
    given = {"contact.stiffness": np.float64(2500.0), "description": text, "operator": operator}
    experiment = Loop("corner_peg", given).trial.experiment
    assert experiment.contact.stiffness == 2500.0 and experiment.description == text
    assert tuple(experiment.operator.wrench) == (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
    for settings, text in (
        ({"contact..stiffness": 1.0}, r"settings\['contact..stiffness'\]: must be KEY=VALUE"),
        ({3: 1.0}, r"settings\[3\]: must be KEY=VALUE"),
        ({"contact.stiffness": "hard"}, "contact.stiffness = .*hard"),
        ({"contact.stiffness": np.nan}, "contact.stiffness = nan"),
        ({"contact.stiffness": object()}, "contact.stiffness = "),
        ({"contact.stiffness": np.array([1.0, 2.0])}, "a list of values sweeps"),
    ):
        with pytest.raises(ParameterError, match=text):
            Loop("corner_peg", settings)


def test_keys_of_a_file_are_given_to_load() -> None:
    held, falling = World(load(ARM, gravity_compensation=True)), World(load(ARM))
    for world in (held, falling):
        world.reset({"arm/shoulder": 0.7})
        for _ in range(100):
            world.step()
    assert np.linalg.norm(held.twist) < 1e-9 < 0.1 < np.linalg.norm(falling.twist)
