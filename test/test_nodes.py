"""Nodes one at a time, in this process: repeated, stale and bad messages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DEADLINE, PACKAGES, wait_until

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

from field_scenes import ring_on_floor  # noqa: E402
from graph_checks import destroy  # noqa: E402
from rclpy.lifecycle import TransitionCallbackReturn  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402

from haptic_bench import experiment  # noqa: E402
from haptic_bench.nodes.recorder import RecorderNode  # noqa: E402
from haptic_bench.running.graph import NodeSpec, node_specs, write_parameters  # noqa: E402
from haptic_control.nodes.controller import ControllerNode  # noqa: E402
from haptic_drivers.nodes.driver import DriverNode  # noqa: E402
from haptic_ros.inbox import Inbox  # noqa: E402
from haptic_ros.ros_parameters import declare, encode, flatten, read  # noqa: E402
from haptic_ros.trial import ServoError  # noqa: E402
from haptic_sim.kernels import progress  # noqa: E402
from haptic_sim.messages import DeviceState, LocalGeometry, Message, ToolCommand, ToolState  # noqa: E402
from haptic_sim.nodes.environment import EnvironmentNode  # noqa: E402
from haptic_sim.nodes.local_model import LocalModelNode  # noqa: E402
from haptic_sim.parameters import Parameters, quantity  # noqa: E402
from haptic_sim.tool.omissions import read_omissions  # noqa: E402

KINDS = {
    "driver": DriverNode,
    "controller": ControllerNode,
    "local_model": LocalModelNode,
    "environment": EnvironmentNode,
    "recorder": RecorderNode,
}
ASYNCHRONOUS = ("local_model.type=full", "environment.rate=60")


class Bench:
    """Configured nodes whose publications are caught."""

    def __init__(self, folder: Path):
        self._folder = folder
        self.nodes: list[Any] = []
        self.sent: list[tuple[str, bytes]] = []

    def node(self, name: str, *settings: str, change: dict[str, Any] | None = None, of: str = "corner_peg") -> Any:
        """A node of an experiment with settings; `change` replaces parameters."""
        (trial,) = experiment.load(of, settings)
        directory = self._folder / str(len(self.nodes))
        directory.mkdir()
        experiment.write_resolved(trial, directory)
        (spec,) = [spec for spec in node_specs(trial, directory) if spec.name == name]
        spec.nodes[name].update(change or {})
        file = directory / "parameters.yaml"
        write_parameters([spec], file)
        rclpy.init(args=["--ros-args", "--params-file", str(file)])
        try:
            node = KINDS[name](name)
        finally:
            self.nodes.append(node)
        node.send = self._catch
        return node

    def _catch(self, topic: str, message: bytes | Message) -> None:
        self.sent.append((topic, message if isinstance(message, bytes) else message.to_bytes()))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """See Bench."""
    made = Bench(tmp_path)
    yield made
    destroy(made.nodes)


def configured(node: Any) -> Any:
    assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS
    return node


def device_state(tick: int, force: float = 0.3) -> bytes:
    state = DeviceState()
    state.stamp(tick, 0)
    state.pose[6] = 1.0
    state.operator_wrench[0] = force
    return state.to_bytes()


def tool_state(tick: int, **values: float) -> bytes:
    state = ToolState(q=3, v=3, constraint_directions=36)
    state.stamp(tick, 0)
    state.pose[6] = 1.0
    for name, value in values.items():
        getattr(state, name)[0] = value
    return state.to_bytes()


def tool_command(tick: int, force: float = 0.3) -> bytes:
    command = ToolCommand()
    command.stamp(tick, 0)
    command.wrench[0] = force
    return command.to_bytes()


def test_a_node_that_cannot_open_its_topics_says_why(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever it is: rclpy says nothing of an exception in a transition."""

    def broken(*_: object) -> None:
        raise RuntimeError("no wait set")

    node = bench.node("controller")
    monkeypatch.setattr(node.transport, "open_inbox", broken)
    assert node.trigger_configure() == TransitionCallbackReturn.FAILURE
    assert "cannot be configured: " in (said := capfd.readouterr().err) and "RuntimeError: no wait set" in said
    monkeypatch.undo()
    configured(node)


def test_the_controller_answers_a_repeated_message_the_same(bench: Bench) -> None:
    node = configured(bench.node("controller"))
    assert not node.prepared()
    node.take("tool_state", tool_state(-1))
    assert node.prepared() and not bench.sent
    for _ in range(2):
        node.take("device_state", device_state(0))
    assert [topic for topic, _ in bench.sent] == ["tool_command", "tool_command"]
    assert bench.sent[0] == bench.sent[1]
    node.take("tool_state", tool_state(0, wrench=-7.0))
    node.take("tool_state", tool_state(0, wrench=-7.0))  # again: no second answer
    node.take("device_state", device_state(0))
    assert [topic for topic, _ in bench.sent[2:]] == ["device_command", "device_command"]
    assert bench.sent[2] == bench.sent[3]


def test_the_controller_refuses_what_is_stale_or_not_finite(bench: Bench) -> None:
    node = configured(bench.node("controller"))
    node.take("tool_state", tool_state(-1))
    for bad in (
        device_state(5),
        device_state(0, np.nan),
        device_state(0)[:-1],
        device_state(0).replace(b"world", b"moon_"),
    ):
        node.take("device_state", bad)
    assert not bench.sent
    node.take("device_state", device_state(0))
    node.take("tool_state", tool_state(0, wrench=np.nan))
    assert [topic for topic, _ in bench.sent] == ["tool_command"]
    node.take("tool_state", tool_state(0))
    assert [topic for topic, _ in bench.sent] == ["tool_command", "device_command"]


def test_the_controller_rests_after_the_last_tick(bench: Bench) -> None:
    node = configured(bench.node("controller", "duration=0.001"))  # ticks 0 and 1
    node.take("tool_state", tool_state(-1))
    for tick in (0, 1):
        node.take("device_state", device_state(tick))
        node.take("tool_state", tool_state(tick))
    assert len(bench.sent) == 4
    node.take("device_state", device_state(2))
    assert len(bench.sent) == 4


def test_changed_gains_act_from_the_next_message_on(bench: Bench) -> None:
    node = configured(bench.node("controller"))
    node.take("tool_state", tool_state(-1, pose=0.001))
    node.take("device_state", device_state(0, 0.0))
    results = node.set_parameters([rclpy.Parameter("controller.stiffness", value=[200.0, 100.0, 0.5])])
    assert results[0].successful
    node.take("tool_state", tool_state(0, pose=0.001))
    node.take("device_state", device_state(1, 0.0))
    force = [np.frombuffer(data[-48:])[0] for topic, data in bench.sent if topic == "tool_command"]
    assert force == pytest.approx([-0.1, -0.2], rel=1e-12)


def test_changed_gains_with_which_the_loop_diverges_are_refused(bench: Bench) -> None:
    """The same line as at the start, and the gains stay; the peg and its device have 0.005 kg m^2."""
    node = configured(bench.node("controller"))
    for name, values in (("stiffness", [100.0, 100.0, 1e4]), ("damping", [70.0, 70.0, 3.0])):
        (result,) = node.set_parameters([rclpy.Parameter(f"controller.{name}", value=values)])
        assert not result.successful
        assert result.reason.startswith(f"controller.{name} = [")
    assert result.reason == (
        "controller.damping = [70, 70, 3]: the sampled coupling at rate = 512 Hz diverges in rotation about z, between "
        "a device of 0.005 kg m^2 and a tool of 0.005 kg m^2 there; the largest stable gains: "
        "controller.damping=[70,70,2.55]; recommended, with half of what was lowered, for a margin: "
        "controller.damping=[70,70,1.27]; lower them, or raise the rate"
    )
    (result,) = node.set_parameters([rclpy.Parameter("controller.damping", value=[70.0, 70.0, 2.55])])
    assert result.successful
    assert node.config.controller.damping == (70.0, 70.0, 0.375), "it acts between messages only"


def change(node: Any, name: str, values: list[float]) -> str:
    """Set gains of a controller; why they were refused, empty if they were not."""
    (result,) = node.set_parameters([rclpy.Parameter(f"controller.{name}", value=values)])
    assert result.successful == (result.reason == "")
    return str(result.reason)


def test_the_gains_of_the_general_four_channel_controller_are_checked_when_they_change(bench: Bench) -> None:
    """Also those that were left out at the start, and limits that are missing."""
    node = configured(bench.node("controller"))
    assert change(node, "integral", [50.0, 50.0, 0.1]) == (
        "controller.integral_limit = null: integral is not 0; give its limit"
    )
    assert change(node, "integral_limit", [5.0, 5.0, 0.1]) == ""
    assert change(node, "integral", [50.0, 50.0, 0.1]) == ""
    assert change(node, "tool_damping", [200.0, 200.0, 0.5]) == ""
    assert change(node, "tool_damping", [7000.0, 70.0, 0.5]).startswith(
        "controller.tool_damping = [7000, 70, 0.5]: with it the sampled loop at rate = 512 Hz diverges; the largest "
    )
    node.take("tool_state", tool_state(-1, pose=0.001))
    node.take("device_state", device_state(0, 0.0))
    assert node.config.controller.tool_damping == (200.0, 200.0, 0.5)
    assert node.config.controller.integral == (50.0, 50.0, 0.1)


def test_changed_gains_with_which_the_device_is_active_are_refused(bench: Bench) -> None:
    """And taken where the experiment allows it; four channels pass on forces, which the device's damping suits."""
    gains = ("controller.stiffness=[100, 100, 0.5]", "controller.damping=[70, 70, 0.375]")
    node = configured(bench.node("controller", "device.damping=[3, 0.01]", *gains))
    assert change(node, "damping", [60.0, 60.0, 0.375]) == ""
    problem = change(node, "damping", [0.0, 0.0, 0.375])
    assert "damping [3, 0.01], is not passive along" in problem and "controller.allow_active=true" in problem


class Inner(Parameters):
    gain: float = quantity(1.0, description="A gain", ge=0.0)
    pair: tuple[float, ...] | None = quantity(None, description="A list that may be left out")


class Outer(Parameters):
    there: Inner | None = quantity(Inner(), description="There unless it is left out")
    absent: Inner | None = quantity(None, description="Left out unless it is given")


@pytest.mark.parametrize(
    "outer",
    [
        Outer(),
        Outer(there=None, absent=Inner(gain=3.0, pair=(1.0, 2.0))),
        Outer(there=Inner(gain=2.0), absent=None),
    ],
)
def test_sections_that_may_be_left_out_reach_a_node_as_they_are(outer: Outer) -> None:
    context = rclpy.Context()
    rclpy.init(context=context)
    values = flatten({"section": encode(outer)})
    given = [Parameter(name.removeprefix("section."), value=value) for name, value in values.items()]
    node = Node("optional", context=context, parameter_overrides=given)
    try:
        declare(node, Outer)
        assert read(node, Outer) == outer
    finally:
        node.destroy_node()
        rclpy.shutdown(context=context)


def test_a_section_that_may_be_left_out_has_no_key_given() -> None:
    class Own(Parameters):
        given: bool = quantity(True, description="A key of this name")

    class Holder(Parameters):
        section: Own | None = quantity(None, description="Left out")

    with pytest.raises(TypeError, match=r"Holder\.section: may be left out, and has a key given"):
        encode(Holder())


def test_null_reaches_a_node_whose_key_has_another_default(bench: Bench) -> None:
    """ROS has no value for it: the node would take its default."""
    config = configured(bench.node("environment", "environment.publish=null", "standard_topics.rate=null")).config
    assert config.environment.publish is None and config.standard_topics.rate is None


def test_a_matrix_of_gains_is_changed_as_a_whole(bench: Bench) -> None:
    node = configured(bench.node("controller", "controller.type=virtual_coupling", "analysis=trial"))
    matrix = np.diag([500.0] * 3 + [2.0] * 3)
    matrix[0, 5] = 10.0
    assert "in row 1, column 6, and 0 in row 6, column 1: must be symmetric" in change(
        node, "stiffness", matrix.ravel().tolist()
    )
    matrix[5, 0] = 10.0
    assert change(node, "stiffness", matrix.ravel().tolist()) == ""
    node.take("tool_state", tool_state(-1, pose=0.001))
    node.take("device_state", device_state(0))
    ((_, data),) = bench.sent
    assert np.frombuffer(data[-48:]) == pytest.approx([-0.5, 0, 0, 0, 0, -0.01], abs=1e-12)
    too_stiff = (1e5 * matrix).ravel().tolist()
    assert "the largest stable gains are " in change(node, "stiffness", too_stiff)


def test_a_change_of_parameters_is_said_with_the_tick_from_which_it_acts(bench: Bench) -> None:
    controller = configured(bench.node("controller"))
    said: list[tuple[str, int, str]] = []
    controller.publish_event = lambda *event: said.append(event)
    controller.take("tool_state", tool_state(-1))
    controller.take("device_state", device_state(0))
    controller.set_parameters([rclpy.Parameter("controller.stiffness", value=[200.0, 100.0, 0.5])])
    controller.set_parameters([rclpy.Parameter("controller.force_scale", value=0.1)])
    assert not said, "it acts between messages only"
    controller.take("tool_state", tool_state(0))
    assert said == [
        ("changed", 1, "controller.stiffness=[200.0, 100.0, 0.5]"),
        ("changed", 1, "controller.force_scale=0.1"),
    ]
    assert controller.config.controller.force_scale == 0.1
    assert controller.config.controller.stiffness[0] == 200.0
    said.clear()
    rclpy.try_shutdown()
    environment = configured(bench.node("environment"))
    environment.publish_event = lambda *event: said.append(event)
    environment.take("tool_command", tool_command(0))
    environment.set_parameters([rclpy.Parameter("contact.stiffness", value=3000.0)])
    environment.take("tool_command", tool_command(1))
    assert said == [("changed", 1, "contact.stiffness=3000.0")]


def test_what_was_sent_again_is_not_refused(bench: Bench) -> None:
    """A state that is sent again for the environment's survey, and the survey of a state that was sent again."""
    controller = configured(bench.node("controller"))
    for tick in range(4):
        controller.take("tool_state", tool_state(tick - 1))
        controller.take("device_state", device_state(tick))
    sent = len(bench.sent)
    controller.take("tool_state", tool_state(1))
    assert (controller.refused, len(bench.sent)) == (0, sent)
    rclpy.try_shutdown()
    environment = configured(bench.node("environment", *ASYNCHRONOUS))
    environment.take("tool_state", tool_state(-1))
    survey = bench.sent.pop()[1]
    rclpy.try_shutdown()
    local_model = configured(bench.node("local_model", *ASYNCHRONOUS, change={"mode": "realtime"}))
    for _ in range(2):
        local_model.take("local_geometry", survey)
    assert local_model.refused == 0
    rclpy.try_shutdown()
    controller = configured(bench.node("controller", change={"mode": "realtime"}))
    for tick in range(4):
        controller.take("tool_state", tool_state(tick - 1))
        controller.take("device_state", device_state(tick))
    for stale in (-1, 1):
        controller.take("tool_state", tool_state(stale))
    assert controller.refused == 2, "in realtime nothing is sent again"


def test_numbers_of_messages_tell_what_was_lost() -> None:
    inbox = Inbox.__new__(Inbox)
    inbox.lost, inbox._next = {}, {}
    for topic, number in (("tool_state", 7), ("tool_state", 8), ("device_state", 1), ("tool_state", 11)):
        inbox._count(topic, number)
    assert inbox.lost == {"tool_state": 2}
    inbox._count("device_state", None)  # a middleware that does not number them
    inbox._count("device_state", 5)
    assert inbox.lost is None


@pytest.mark.parametrize("mode", ["lockstep", "realtime"])
def test_the_environment_rests_after_the_last_tick(bench: Bench, mode: str) -> None:
    """A controller of the user's own does not know which tick that is."""
    node = configured(bench.node("environment", "duration=0.001", change={"mode": mode}))  # ticks 0 and 1
    for tick in range(3):
        node.take("tool_command", tool_command(tick))
    assert [topic for topic, _ in bench.sent].count("tool_state") == 2


def test_the_environment_steps_once_for_a_repeated_command(bench: Bench) -> None:
    node = configured(bench.node("environment"))
    assert node.idle() is False  # says the initial state until it is asked
    for _ in range(2):
        node.take("tool_command", tool_command(0))
    node.take("tool_command", tool_command(2))  # skips one: refused
    node.take("tool_command", tool_command(1, np.inf))  # refused
    node.take("tool_command", tool_command(1))
    assert node.idle() is True
    ticks = []
    shown = [topic for topic, _ in bench.sent].index("world_state")
    assert bench.sent[shown - 1][0] == "tool_state", "before the answer"
    del bench.sent[shown]
    for topic, data in bench.sent:
        assert topic == "tool_state", "the world at tick 1 is not asked for"
        state = ToolState(q=3, v=3, constraint_directions=36)
        state.load(data)
        ticks.append((state.tick, float(state.v[0])))
    step = 0.3 / 2.0 / 512
    assert ticks == [
        (-1, 0.0),
        (0, pytest.approx(step)),
        (0, pytest.approx(step)),
        (1, pytest.approx(2 * step)),
    ]


def test_a_tool_that_diverges_ends_the_node_of_a_system_that_runs(bench: Bench) -> None:
    """No controller would take its states any more; the process ends with the reason, and is started again."""
    nodes = ["driver", "controller", "environment"]
    node = configured(bench.node("environment", change={"mode": "realtime", "nodes": nodes}))
    node.take("tool_command", tool_command(0))
    with pytest.raises(ServoError, match="the tool has diverged: its kinetic energy is not finite in tick 1"):
        node.take("tool_command", tool_command(1, 1e200))
    assert [topic for topic, _ in bench.sent].count("tool_state") == 1


def test_an_asynchronous_environment_surveys_when_due_and_again_when_asked_again(bench: Bench) -> None:
    node = configured(bench.node("environment", *ASYNCHRONOUS))
    for tick in (-1, 0, 1, 7, 8, 8, 26, 17, 26):  # 17 was lost, and comes when it is asked for
        node.take("tool_state", tool_state(tick))
    surveyed = []
    for topic, data in bench.sent:
        assert topic == "local_geometry"
        geometry = LocalGeometry(q=3, v=3, inertia=9, gravity=3, constraints=256)
        geometry.load(data)
        surveyed.append((geometry.tick, geometry.step))
    assert surveyed == [(0, 0), (9, 1), (9, 1), (18, 2), (27, 3)]  # 512 / 60 Hz: every 9 ticks, in their order


def test_the_local_model_waits_for_the_survey_that_is_due(bench: Bench) -> None:
    environment = configured(bench.node("environment", *ASYNCHRONOUS))
    environment.take("tool_state", tool_state(-1))
    survey = bench.sent.pop()[1]
    rclpy.try_shutdown()
    node = configured(bench.node("local_model", *ASYNCHRONOUS))
    assert not node.prepared()
    bench.sent.clear()
    for _ in range(3):  # each of which asks the environment again: what asks, or its answer, may be lost every time
        node.take("tool_command", tool_command(0))
    assert [topic for topic, _ in bench.sent] == 3 * ["tool_state"]
    assert all(data == bench.sent[0][1] for _, data in bench.sent)
    assert node.quiet() is not None
    node.repeat()  # as of the last survey of a trial, which no command waits for
    assert bench.sent[-1] == bench.sent[0] and len(bench.sent) == 4
    before = len(bench.sent)
    node.take("local_geometry", survey)
    assert [topic for topic, _ in bench.sent[before:]] == ["tool_state", "world_state"]  # the held command is answered
    state = ToolState(q=3, v=3, constraint_directions=36)
    state.load(bench.sent[before][1])
    assert state.tick == 0
    before = len(bench.sent)
    node.repeat()
    assert len(bench.sent) == before


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (
            "environment",
            {"contact": {"stiffness": -1.0, "damping": 0.0, "per": "point", "restitution": 0.0}},
            "stiffness",
        ),
        (
            "controller",
            {"controller": {"type": "four_channel", "stiffness": (1.0,), "damping": (1.0,) * 3}},
            "1 values",
        ),
        ("driver", {"rate": 0.0}, "rate"),
    ],
)
def test_bad_parameters_leave_a_node_unconfigured(
    bench: Bench, name: str, change: dict[str, Any], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    node = bench.node(name, change=change)
    assert node.trigger_configure() == TransitionCallbackReturn.FAILURE
    assert said in capfd.readouterr().err


@pytest.mark.parametrize(
    "text", ["y", "n", "Y", "N", "yes", "off", "nan", "inf", "Infinity", "1", "0x1p3", "~", "", "e1"]
)
def test_a_text_is_a_text_in_the_parameters_of_a_node(text: str, tmp_path: Path) -> None:
    """Also one that rcl's reader would take for something else, as the coordinate y of a system of formulas."""
    write_parameters([NodeSpec("n", {"n": {"one": text, "several": ["x", text]}})], tmp_path / "parameters.yaml")
    rclpy.init(args=["--ros-args", "--params-file", str(tmp_path / "parameters.yaml")])
    node = rclpy.create_node("n", automatically_declare_parameters_from_overrides=True)
    try:
        assert node.get_parameter("trial.one").value == text
        assert node.get_parameter("trial.several").value == ["x", text]
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


def test_a_list_of_parameters_has_gains_by_section_and_all_else_below_one_name(bench: Bench) -> None:
    """What is below `trial` cannot be changed, but for what an operator does with a trial."""
    node = configured(bench.node("driver"))
    names = node.list_parameters([], 0).names
    sections = {name.partition(".")[0] for name in names if "." in name}
    assert sections == {"device", "operator", "tool", "hand", "guard", "standard_topics", "trial"}
    of_every_node = {"use_sim_time", "start_type_description_service"}
    assert {name for name in names if "." not in name} == {"autostart"} | of_every_node
    of_trial = {name for name in names if name.startswith("trial.")}
    assert {"trial.rate", "trial.nodes", "trial.of_hand", "trial.mark"} <= of_trial
    live = {name for name in of_trial if not node.describe_parameter(name).read_only}
    assert live == {"trial.paused", "trial.mark"}
    said: list[tuple[str, int, str]] = []
    node.publish_event = lambda *event: said.append(event)
    assert node.set_parameters([rclpy.Parameter("trial.mark", value="here")])[0].successful
    node.apply_changes()
    assert said == [("changed", 0, 'mark="here"')]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["rattleback", "peaucellier"])  # a coordinate y; no velocities
def test_a_node_reads_formulas(bench: Bench, name: str) -> None:
    node = configured(bench.node("environment", change={"local_model": {"type": "none"}}, of=name))
    (trial,) = experiment.load(name, ())
    assert node.config.scene == trial.experiment.scene


@pytest.mark.parametrize("module", ["haptic_sim.nodes.environment", "haptic_bench.nodes.recorder"])
def test_a_node_ends_well_however_often_it_is_told_to(tmp_path: Path, module: str) -> None:
    (trial,) = experiment.load("corner_peg", ())
    experiment.write_resolved(trial, tmp_path)
    (spec,) = [spec for spec in node_specs(trial, tmp_path) if spec.module == module]
    write_parameters([spec], tmp_path / "parameters.yaml")
    command = [sys.executable, "-m", module, *spec.arguments, "--ros-args", "--params-file"]
    path = f"{PACKAGES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    with subprocess.Popen(
        [*command, tmp_path / "parameters.yaml"], cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}
    ) as node:
        try:
            status = Path(f"/proc/{node.pid}/status")

            def handles(number: int) -> bool:
                (caught,) = [line for line in status.read_text().splitlines() if line.startswith("SigCgt:")]
                return bool(int(caught.split()[1], 16) >> (number - 1) & 1)

            wait_until(lambda: handles(signal.SIGTERM), "the node to take its signals")
            deadline = time.monotonic() + DEADLINE
            while node.poll() is None and time.monotonic() < deadline:
                node.send_signal(signal.SIGINT)
                time.sleep(0.001)
            assert node.returncode == 0
        finally:
            node.kill()


def test_a_node_that_is_closed_does_not_report_compilation(bench: Bench) -> None:
    """What is compiled in the same process afterwards is no affair of its publishers."""
    configured(bench.node("controller"))
    assert progress.report is not None
    destroy(bench.nodes)
    assert progress.report is None


def test_surroundings_that_cannot_be_used_do_not_stop_the_servo(bench: Bench) -> None:
    """A constraint on no link of the tool: the tick is answered, the survey refused, and the next good one taken."""
    environment = configured(bench.node("environment", *ASYNCHRONOUS))
    surveys = []
    for tick in (-1, 8, 17):
        environment.take("tool_state", tool_state(tick))
        geometry = LocalGeometry(q=3, v=3, inertia=9, gravity=3, constraints=256)
        geometry.load(bench.sent.pop()[1])
        surveys.append(geometry)
    surveys[1].resize(1)
    surveys[1].constraints["normal"][0], surveys[1].constraints["link"][0] = (1, 0, 0), 7
    rclpy.try_shutdown()
    node = configured(bench.node("local_model", *ASYNCHRONOUS, change={"mode": "realtime"}))
    node.take("local_geometry", surveys[0])
    node.take("tool_command", tool_command(0))
    node.take("local_geometry", surveys[1])
    for tick in range(1, 40):
        node.take("tool_command", tool_command(tick))
    assert node.refused == 1
    assert len([topic for topic, _ in bench.sent if topic == "tool_state"]) == 40
    trouble, values = node.health()
    assert values["age of surroundings [s]"] == round(40 / 512, 4)
    assert "1 messages were refused" in trouble
    node.refused = 0
    assert "the surroundings are 78 ms old" in node.health()[0]
    node.take("local_geometry", surveys[2])
    node.take("tool_command", tool_command(40))
    assert node.health()[0] == ""


@pytest.mark.parametrize("settings", [(), ASYNCHRONOUS], ids=["synchronous", "surveyed"])
def test_leaves_of_fields_that_are_left_out_are_on_diagnostics(
    bench: Bench, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    """Of a world with fields; of others nothing is said."""
    node = configured(bench.node("environment", *settings, of=ring_on_floor(tmp_path)))
    node.config = node.config.model_copy(update={"directory": str(tmp_path)})
    assert node.health() == ("", {"refused messages": 0, "scheduler": "default", "omitted leaves of fields": 0})
    detector = (node._surroundings if settings else node.core)._detector
    detector._arrays.field_memory.omissions[0] = 3  # a world that needs more than 4096 leaves takes long to make
    trouble, values = node.health()
    assert trouble == "3 leaves of signed distance fields were left out: contacts may begin late"
    assert values["omitted leaves of fields"] == 3
    node.release()
    node.conclude_activation()  # as every process does when it ends
    assert not (tmp_path / "omissions.json").exists()  # it was not active
    assert node.trigger_activate() == TransitionCallbackReturn.SUCCESS
    node.release()
    assert not (tmp_path / "omissions.json").exists()  # to release is about force alone
    assert node.trigger_deactivate() == TransitionCallbackReturn.SUCCESS
    assert read_omissions(tmp_path) == 3
    (tmp_path / "omissions.json").unlink()
    node.conclude_activation()
    assert not (tmp_path / "omissions.json").exists()  # once for each activation
    rclpy.try_shutdown()
    assert "omitted leaves of fields" not in configured(bench.node("environment", *settings)).health()[1]
