"""Any body of a world without a device, dragged by a pointer: its spring, its energy, and what is refused."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
import yaml
from offline_runs import run_unrecorded
from pages import port_of_own
from scipy.linalg import fractional_matrix_power
from scipy.signal import lti
from world_builder import Simulation, box, plane

from haptic_bench import experiment
from haptic_bench.replay.verification import verify
from haptic_bench.running.runner import Interruption
from haptic_bench.trials import trial
from haptic_drivers.events import EVENT_COLUMNS, read_events, row_of
from haptic_drivers.operators import PointerParameters
from haptic_drivers.pointing import Sender
from haptic_drivers.tool_operator import ToolOperator
from haptic_sim.dynamics.energy import INJECTED, NUMERICAL
from haptic_sim.messages import GRAB, HAND, MOVE, RELEASE, MessageError, OperatorEvent, ToolCommand
from haptic_sim.parameters import ParameterError

T = 1e-3  # [s]
NO_TURN = (0.0, 0.0, 0.0, 1.0)


def link(parent: str, position: Any, angle: float, **more: Any) -> dict[str, Any]:
    """A link of 0.2 m that hangs down from a hinge about y."""
    rod = {"type": "capsule", "radius": 0.02, "length": 0.2, "position": [0, 0, -0.1]}
    return {"joint": "revolute", "parent": parent, "position": position, "axis": [0, 1, 0], "angle": angle, "mass": 0.4,
            "shapes": [rod], **more}  # fmt: skip


ARM = {"upper": link("world", [0, 0, 1], 0.3), "lower": link("upper", [0, 0, -0.2], 0.5)}
TOOL = {"tool": box([2, 2, 2], (0.1, 0.1, 0.1), mass=1e-3)}
IGNORED = [["upper", "lower"]]
CROOKED = {"joint": "free", "position": [0.1, 0.2, 0.3], "rotation": [0.3, -0.2, 0.7], "mass": 0.6,
           "inertia": [2e-3, 3e-3, 4e-3], "centre_of_mass": [0.03, -0.02, 0.05]}  # fmt: skip


def row(time: float, phase: int, body: int, point: Any = (0, 0, 0), way: Any = (0, 0, 0), oriented: int = 0) -> Any:
    """A row of a table of events."""
    return [time, phase, oriented, body, *point, *way, *NO_TURN]


class Dragging:
    """A world and a pointer in it; `table` as of `Events`, None: events are offered."""

    def __init__(self, bodies: dict[str, Any], table: Any = None, spring: dict[str, Any] | None = None, **more: Any):
        self.world = Simulation({**bodies, **TOOL}, tool="tool", **more)
        self.number = {name: i for i, name in enumerate(self.world.world.moving)}
        self.operator = ToolOperator(
            PointerParameters.model_validate(spring or {}),
            None if table is None else np.array(table, float),
            0,
            1.0 / self.world.period,
            self.world.world,
            self.world.environment,
        )
        self.world.command, self.world.state = self.operator.command, self.operator.state
        self.wrenches: list[np.ndarray] = []
        self.bodies: list[int] = []
        self.events: list[np.ndarray] = []

    def step(self, count: int = 1) -> Dragging:
        for _ in range(count):
            tick = self.operator.state.tick + 1
            if (event := self.operator.begin(tick, 0)) is not None:
                self.events.append(row_of(event, tick / 1000.0))
            self.wrenches.append(self.operator.command.wrench.copy())
            self.bodies.append(self.operator.command.body)
            self.world.environment.step(self.operator.command, self.operator.state)
        return self


@pytest.mark.parametrize("mass", [0.05, 3.0])
def test_a_free_body_follows_critically_damped_after_the_filter(mass: float) -> None:
    """In closed form: two equal poles of the spring after two of the filter; the tool far away stays."""
    spring = PointerParameters(filter_frequency=6.0)
    table = [row(0.0, GRAB, 0), row(T, MOVE, 0, way=(1e-3, 0, 0))]
    table += [row(t, MOVE, 0, way=(1e-3, 0, 0)) for t in np.arange(0.1, 1.5, 0.1)]
    one = Dragging({"box": box([0, 0, 0], (0.1, 0.1, 0.1), mass=mass)}, table, {"filter_frequency": 6.0})
    places = np.array([one.step().world.q("box")[0] for _ in range(1500)])
    w = min(2 * math.pi * spring.frequency, math.sqrt(spring.stiffness[0] / mass))
    f = 2 * math.pi * spring.filter_frequency
    poles = lti([w * w * f * f], np.polymul([1, 2 * w, w * w], [1, 2 * f, f * f]))
    _, expected = poles.step(T=np.arange(1499) * T)
    assert np.abs(places[1:] - 1e-3 * expected).max() < 1e-3 * 3.0 * T * w  # of the discretisation
    assert places.max() <= 1e-3 * (1 + 1e-9)
    np.testing.assert_array_equal(one.operator.state.twist, np.zeros(6))


def test_a_link_of_an_arm_moves_as_under_the_spring_apart() -> None:
    """The law of docs/pointer.md in NumPy, with Pinocchio's articulated-body algorithm."""
    spring, at, way = PointerParameters(), np.array([0.02, 0.0, -0.15]), np.array([0.03, 0.01, 0.02])
    table = [row(0.0, GRAB, 1, at), *(row(t, MOVE, 1, way=way) for t in np.arange(0.1, 1.0, 0.1))]
    one = Dragging(ARM, table, gravity=[0, 0, -9.81], ignore=IGNORED)
    assert one.number == {"upper": 0, "lower": 1, "tool": 2}
    full = one.world.model
    model = pin.Model()
    for i in (1, 2):
        joint = model.addJoint(i - 1, full.joints[i], full.jointPlacements[i], full.names[i])
        model.appendBodyToJoint(joint, full.inertias[i], pin.SE3.Identity())
    model.gravity = full.gravity
    point = model.addFrame(pin.Frame("point", 2, pin.SE3(np.eye(3), at), pin.FrameType.OP_FRAME))
    data = model.createData()
    q, v = np.array([0.3, 0.5]), np.zeros(2)
    y, rate, target, start, f = np.zeros(3), np.zeros(3), np.zeros(3), None, 2 * math.pi * spring.filter_frequency
    for k in range(800):
        if k and not k % 100:
            target = way
        J = pin.computeFrameJacobian(model, data, q, point, pin.LOCAL_WORLD_ALIGNED)[:3]
        pin.forwardKinematics(model, data, q)
        place = pin.updateFramePlacement(model, data, point).translation.copy()
        start = place if start is None else start
        force = np.zeros(3)
        if k:  # the first call has no time to change the force in
            off, b = y - target, rate + f * (y - target)  # y'' = -f^2 y - 2 f y' of the difference, solved exactly
            decay = math.exp(-f * T)
            off, rate = (off + b * T) * decay, b * decay - f * (off + b * T) * decay
            y = target + off
        M = np.triu(pin.crba(model, data, q))
        W = J @ np.linalg.solve(M + np.triu(M, 1).T, J.T)
        values, axes = np.linalg.eigh(W)
        K = min(spring.stiffness[0], (2 * math.pi * spring.frequency) ** 2 / values[-1])
        C = sum(2.0 * math.sqrt(K / x) * np.outer(a, a) for x, a in zip(values, axes.T, strict=True) if x > 1e-9)
        moves = np.diag([1.0, 0.0, 1.0])  # a hinge about y
        force = moves @ (K * (start + y - place)) - C @ J @ v if k else force
        v = v + T * pin.aba(model, data, q, v, J.T @ force)
        q = q + T * v
        one.step()
    assert np.abs(one.wrenches[-1][:3]).max() > 0.5 and abs(q[1] - 0.5) > 0.05
    np.testing.assert_allclose(one.wrenches[-1][:3], force, atol=1e-8)
    np.testing.assert_allclose(one.operator.state.q[:2], q, atol=1e-9)
    np.testing.assert_allclose(one.operator.state.v[:2], v, atol=1e-8)


def worlds() -> dict[str, dict[str, Any]]:
    """Worlds with a body whose mobility is asked for."""
    hinge = {"hinge": {"type": "point_fixed", "body": "rod", "at": [0, 0, 0.1], "point": [0, 0, 0.1]}}
    rod = {"joint": "free", "mass": 0.5, "shapes": [{"type": "capsule", "radius": 0.01, "length": 0.2}]}
    return {
        "crooked": {"bodies": {"crooked": CROOKED}},
        "lower": {"bodies": ARM, "ignore": IGNORED},
        "tool": {"bodies": {}},
        "rod": {"bodies": {"rod": rod}, "constraints": hinge},
    }


@pytest.mark.parametrize("name", worlds())
def test_mobility_is_what_a_wrench_does_in_a_short_step(name: str) -> None:
    """Of a body whose centre is elsewhere, a link, the only body, and a body under an exact constraint."""
    given, period = worlds()[name], 1e-7
    found = np.zeros((6, 6))
    for i in range(6):
        one = Dragging(given.pop("bodies", None) or worlds()[name]["bodies"], rate=1.0 / period, **given)
        number, environment = one.number[name], one.world.environment
        one.operator.command.body = number
        one.operator.command.wrench[i] = 1.0
        expected = environment.observe_body(number).mobility.copy()
        one.operator.command.stamp(0, 0)
        environment.step(one.operator.command, one.operator.state)
        found[:, i] = environment.observe_body(number).twist / period
    np.testing.assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max())
    np.testing.assert_allclose(expected, expected.T, atol=1e-12 * np.abs(expected).max())
    assert np.linalg.matrix_rank(expected, 1e-6) == {"lower": 2, "rod": 3}.get(name, 6)


def test_all_modes_of_a_link_are_damped_critically() -> None:
    """With its orientation held, too: W C of the modes is twice the root of W K."""
    one = Dragging(ARM, [row(0.0, GRAB, 1, (0.05, 0.02, -0.1), oriented=1)], ignore=IGNORED).step(3)
    a = one.operator._operator._arrays  # type: ignore[attr-defined]
    S = np.diag(np.sqrt(a.k))
    A = S @ a.W @ S
    values, axes = np.linalg.eigh(0.5 * (A + A.T))
    kept = axes[:, values > 1e-9 * values[-1]]
    C = 2.0 * S @ kept @ fractional_matrix_power(kept.T @ A @ kept, -0.5) @ kept.T @ S
    assert kept.shape[1] == 2
    np.testing.assert_allclose(a.C, C, atol=1e-9 * np.abs(C).max())


def offered(one: Dragging, phase: int, sequence: int, body: int, **more: Any) -> None:
    event = OperatorEvent()
    event.phase, event.sequence, event.body, event.source = phase, sequence, body, 7
    event.pose[6] = 1.0
    event.pose[:3], event.point[:] = more.get("way", (0, 0, 0)), more.get("point", (0, 0, 0))
    assert one.operator.events is not None
    one.operator.events.offer(event)


@pytest.mark.parametrize("how", ["release", "silence", "nan"])
def test_force_on_a_body_is_zero_in_time_after_a_release_and_a_lost_client(how: str) -> None:
    one = Dragging({"floor": plane(), "box": box([0, 0, 0.05], (0.1, 0.1, 0.1), mass=5.0)}, gravity=[0, 0, -9.81])
    offered(one, GRAB, 0, 1)
    one.step()
    for k in range(1, 4):
        offered(one, MOVE, k, 1, way=(0, 0, 0.5))
        one.step(50)
    assert one.bodies[-1] == 1 and np.linalg.norm(one.wrenches[-1]) == pytest.approx(10.0)
    if how == "release":
        offered(one, RELEASE, 9, 1)
    elif how == "nan":
        with pytest.raises(MessageError, match="is not finite"):
            offered(one, MOVE, 9, 1, way=(0, math.nan, 0))
    else:
        one.step(500 - 50)
    one.step(21)
    assert one.bodies[-1] == HAND and not one.wrenches[-1].any()
    assert np.abs(one.step(300).world.v("box")).max() < 1e-6  # it lies on the floor


def test_force_on_one_body_is_zero_before_there_is_one_on_another() -> None:
    """Also where nothing lets go in between; what is recorded says when that was, and runs again to the same bits."""
    bodies = {"a": box([0, 0, 0], (0.1, 0.1, 0.1)), "b": box([1, 0, 0], (0.1, 0.1, 0.1))}
    one = Dragging(bodies)
    changes = {
        0: (GRAB, 0),
        1: (MOVE, 0),
        100: (GRAB, 1),
        101: (MOVE, 1),
        200: (RELEASE, 1),
        201: (GRAB, 0),
        300: (GRAB, HAND),
    }
    for k in range(400):
        if k in changes:
            phase, body = changes[k]
            offered(one, phase, k, body, way=(0.2, 0, 0) if phase == MOVE else (0, 0, 0))
        one.step()
    forces = {body: [] for body in (HAND, 0, 1)}
    for body, wrench in zip(one.bodies, one.wrenches, strict=True):
        for each, found in forces.items():
            found.append(np.linalg.norm(wrench[:3]) if each == body else 0.0)
    for found in forces.values():
        assert np.abs(np.diff(found, prepend=0.0)).max() <= 500.0 * T * (1 + 1e-9)
    phases = [(int(entry[1]), int(entry[3])) for entry in one.events]
    assert phases == [
        (GRAB, 0), (MOVE, 0), (RELEASE, HAND), (GRAB, 1), (MOVE, 1), (RELEASE, 1), (GRAB, 0),
        (RELEASE, HAND), (GRAB, HAND),
    ]  # fmt: skip
    assert max(forces[0]) > 2.0 and max(forces[1]) > 2.0
    again = Dragging(bodies, one.events).step(400)
    assert again.bodies == one.bodies
    np.testing.assert_array_equal(again.wrenches, one.wrenches)
    np.testing.assert_array_equal(again.operator.state.q, one.operator.state.q)


@pytest.mark.parametrize("held", ["lower", "crooked", "rod"])
def test_energy_of_a_dragged_body_is_what_the_force_has_done(held: str) -> None:
    """Kinetic and potential energy change by the work along the path of the grabbed point, without contacts."""
    given = {**worlds()[held], "gravity": [0, 0, -9.81]}
    bodies, at = given.pop("bodies"), (0.02, 0.01, -0.05)
    number = list(bodies).index(held)
    table = [row(0.0, GRAB, number, at, oriented=1)]
    table += [row(t, MOVE, number, way=(0.1 * t, 0.1 * t, 0.2 * t), oriented=1) for t in np.arange(0.05, 0.6, 0.05)]
    one = Dragging(bodies, table, rate=4000.0, **given)
    work, before, start = 0.0, one.world.environment.observe_body(number).twist.copy(), one.world.energy()
    for _ in range(2400):
        one.step()
        after = one.world.environment.observe_body(number).twist.copy()
        work += one.world.period * float(one.wrenches[-1] @ (0.5 * (before + after)))
        before = after
    assert abs(work) > 0.01
    one.step()  # the balance is that of the beginning of a step
    injected, numerical = one.operator.state.energy[[INJECTED, NUMERICAL]]
    assert injected == pytest.approx(work, rel=3e-3)
    assert abs(numerical) < 2e-2 * abs(work)
    assert one.world.energy() - start == pytest.approx(work, rel=2e-2)


def test_drag_of_a_body_with_a_motion_is_a_touch() -> None:
    """`keep`: from then on it has the acceleration that the drag has left; `return`: it comes back."""
    ends = {}
    for after in ("return", "keep"):
        motion = {"of": "upper", "trajectory": {"type": "joint_line", "to": [0.5, 0.3], "duration": 0.2},
                  "after_touch": after}  # fmt: skip
        table = [row(0.1, GRAB, 1, (0, 0, -0.2)), row(0.15, MOVE, 1, way=(0.1, 0, 0)), row(0.3, RELEASE, 1)]
        one = Dragging(ARM, table, motions={"m": motion}, ignore=IGNORED)
        speeds = np.array([one.step().operator.state.v[:2].copy() for _ in range(1200)])
        ends[after] = one.operator.state.q[:2].copy(), np.diff(speeds[330:], axis=0) / T
        assert np.abs(speeds[250]).max() > 0.01  # the drives do not compensate the drag
    np.testing.assert_allclose(ends["return"][0], [0.5, 0.3], atol=1e-4)
    place, bends = ends["keep"]
    assert np.abs(place - [0.5, 0.3]).max() > 0.05
    np.testing.assert_allclose(bends, np.tile(bends[0], (len(bends), 1)), atol=1e-6)


# Trials


def write_world(folder: Path, **more: Any) -> str:
    """An experiment without a device: a box on the floor, an arm, and a ball that is the tool."""
    document = {
        "duration": 0.5,
        "rate": 500,
        "device": {"type": "none"},
        "scene": {
            "type": "world",
            "tool": "ball",
            "ignore": IGNORED,
            "bodies": {
                "floor": plane(),
                "box": box([0, 0, 0.05], (0.1, 0.1, 0.1), mass=0.5),
                **ARM,
                "ball": {"joint": "free", "position": [0.4, 0, 0.05], "mass": 0.2,
                         "shapes": [{"type": "sphere", "radius": 0.05}]},
            },
        },
        "contact": {"friction": {"model": "coulomb"}},
        **more,
    }  # fmt: skip
    (folder / "own.yaml").write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return str(folder / "own.yaml")


EVENTS = f"""{",".join(EVENT_COLUMNS)}
0.05,grab,0,1,0,0,0.05,0,0,0,0,0,0,1
0.1,move,0,1,0,0,0.05,0,0.05,0.2,0,0,0,1
0.2,grab,0,3,0,0,-0.2,0,0,0,0,0,0,1
0.25,move,0,3,0,0,-0.2,0.1,0,0,0,0,0,1
0.4,release,0,3,0,0,0,0,0,0,0,0,0,1
"""


@pytest.mark.exhaustive
def test_trial_of_dragged_bodies_verifies_runs_again_and_knows_the_work(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text(EVENTS)
    settings = [f"operator={{type: pointer, events: {tmp_path / 'events.csv'}}}"]
    [one] = experiment.load(write_world(tmp_path), settings)
    (tmp_path / "out").mkdir()
    summary = trial.run_trial(one, "offline", tmp_path / "out", Interruption())
    assert summary["status"] == "done"
    assert verify(tmp_path / "out").problem == ""
    samples = run_unrecorded(one)
    assert set(samples["operator_body"]) == {-1, 1, 3}
    assert samples["q2"].max() > 0.055  # the box was lifted
    assert summary["metrics"]["hand_work"] == pytest.approx(samples["energy_injected"][-1], rel=1e-2)
    text = (tmp_path / "out" / "events.csv").read_text()
    assert ",grab,0,3," in text and ",release,0,-1," in text
    [again] = experiment.load(write_world(tmp_path), [f"operator={{type: pointer, events: {tmp_path}/out/events.csv}}"])
    repeated = run_unrecorded(again)
    for name in samples.names:
        np.testing.assert_array_equal(repeated[name], samples[name])


@pytest.mark.parametrize(
    "body, said",
    [
        (0, "body = 0: floor does not move; must be -1, the hand, or one of 1 (box), 2 (upper), 3 (lower), 4 (ball)"),
        (9, "body = 9: is not there; must be -1, the hand, or one of 1 (box), 2 (upper), 3 (lower), 4 (ball)"),
    ],
)
def test_body_that_cannot_move_is_refused_in_one_sentence(tmp_path: Path, body: int, said: str) -> None:
    """In a file before anything starts, and of a client during the trial, whatever it held is let go."""
    (tmp_path / "events.csv").write_text(EVENTS.replace("grab,0,3", f"grab,0,{body}"))
    with pytest.raises(ParameterError) as error:
        experiment.load(write_world(tmp_path), [f"operator={{type: pointer, events: {tmp_path / 'events.csv'}}}"])
    assert str(error.value).endswith(f"events.csv, line 4: {said}")
    read_events((tmp_path / "events.csv").read_text().splitlines(), "events.csv")  # for a trial that is not known
    [one] = experiment.load(write_world(tmp_path), ["operator={type: pointer}"])
    operator = ToolOperator(one.experiment.operator, None, 0, 500.0, one.start, one.tool_side())
    event = OperatorEvent()
    event.body, event.pose[6] = body, 1.0
    assert operator.events is not None
    with pytest.raises(MessageError) as refused:
        operator.events.offer(event)
    assert str(refused.value) == f"operator_events_in: {said}"


def test_with_a_device_only_the_hand_is_dragged(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text(EVENTS)
    with pytest.raises(ParameterError, match=r"line 2: body = 1: is not there; -1 is the hand"):
        experiment.load("corner_peg", [f"operator={{type: pointer, events: {tmp_path / 'events.csv'}}}"])


def test_controller_that_commands_another_body_is_refused() -> None:
    pytest.importorskip("rclpy", reason="needs ROS 2")
    pytest.importorskip("haptics.msg", reason="needs the built messages")
    from haptic_sim.nodes.tool import check_command

    command = ToolCommand()
    command.tick = 5
    check_command("tool_command", command)
    command.body = 3
    with pytest.raises(MessageError, match="tool_command 5: body = 3: must be -1, the virtual tool"):
        check_command("tool_command", command)


@pytest.mark.parametrize("oriented", [False, True])
def test_page_drags_any_body_that_moves_and_shows_the_force_at_it(oriented: bool, tmp_path: Path) -> None:
    """As viser calls back: the point of the body at which a drag begins, in its axes; the tool is the hand's.

    A hand whose orientation is held is pulled at its origin, where no force turns it.
    """
    pytest.importorskip("viser", reason="viser is not installed (pip install 'haptics[view]')")
    from haptic_bench.experiment.shown import build_scene
    from haptic_view.frame import Frame, Hand
    from haptic_view.page import HOST, Page
    from haptic_view.pointer import Pointer

    [one] = experiment.load(write_world(tmp_path), ["operator={type: pointer}"])
    assert not one.moves_freely  # the links
    scene, sent = build_scene(one), list[bytes]()
    page = Page(scene, HOST, port_of_own())
    try:
        Pointer(page, Sender(sent.append), oriented=oriented, bodies=one.draggable)
        callbacks = {name: [e.callback for e in mesh._impl.drag_cb] for name, mesh in page.meshes.items()}
        assert {name for name, found in callbacks.items() if len(found) == 3} == {
            "/bodies/box/1", "/bodies/upper/2", "/bodies/lower/3", "/bodies/ball/4", "/hands/hand/device/4",
        }  # fmt: skip
        push, at = np.array([0.3, 0, -0.4, 0, 0, 0]), scene.poses[3]
        hand = Hand(np.array([0.4, 0, 0.05, *NO_TURN]), np.zeros(6), operator=push, dragged=3)
        page.show(Frame(0, 0.0, scene.poses, (hand,)))
        arrow = page._arrows["forces"].points[0]
        np.testing.assert_allclose(arrow[0], at[:3], atol=1e-6)
        np.testing.assert_allclose(
            (arrow[1] - arrow[0]) / np.linalg.norm(arrow[1] - arrow[0]), push[:3] / 0.5, atol=1e-6
        )
        grabbed = {}
        for name in ("/bodies/lower/3", "/bodies/ball/4"):
            client = SimpleNamespace(camera=SimpleNamespace(wxyz=(1.0, 0, 0, 0)))
            start = at[:3] + (0.01, 0.02, -0.1)
            drag = SimpleNamespace(phase="start", client_id=1, client=client, modifier=None, start_position=start,
                                   end_position=start + 0.05)  # fmt: skip
            asyncio.run(callbacks[name][0](drag))
            event = OperatorEvent()
            event.load(sent[0])
            grabbed[name] = event.body, event.point.copy()
            assert event.oriented == oriented
            event.load(sent[1])
            np.testing.assert_allclose(event.pose[:3], 0.05)
            drag.phase = "end"
            asyncio.run(callbacks[name][0](drag))
            event.load(sent[-1])
            assert event.phase == RELEASE
            sent.clear()
    finally:
        page.stop()
    R = pin.Quaternion(at[3:]).toRotationMatrix()
    assert grabbed["/bodies/lower/3"][0] == 3 and grabbed["/bodies/ball/4"][0] == HAND
    np.testing.assert_allclose(at[:3] + R @ grabbed["/bodies/lower/3"][1], start, atol=1e-9)
    assert any(grabbed["/bodies/ball/4"][1]) == (not oriented)
