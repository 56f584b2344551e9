"""Nodes whose threads are stopped at the worst instant: start and end cross, parameters change while they are built."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import DEADLINE

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

from graph_checks import ask, observer  # noqa: E402
from lifecycle_msgs.msg import Transition  # noqa: E402
from lifecycle_msgs.srv import ChangeState  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402
from test_callbacks import served  # noqa: E402
from test_link_races import PATIENCE, Stopped  # noqa: E402
from test_nodes import Bench, bench, configured  # noqa: E402, F401

from haptic_robot.nodes import link as robot_link  # noqa: E402
from haptic_robot.nodes.link import RobotLink  # noqa: E402
from haptic_ros import process, servo  # noqa: E402
from haptic_ros.composition import Composition  # noqa: E402
from haptic_ros.servo import ServoNode  # noqa: E402


def pause(node: Any, paused: bool) -> None:
    """Change a parameter, as a request of another node does in the thread of the executor."""
    (result,) = node.set_parameters([Parameter("trial.paused", value=paused)])
    assert result.successful, result.reason


def test_a_parameter_that_is_changed_while_the_core_is_built_acts(
    bench: Bench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was granted, and did nothing: for minutes, where kernels are compiled."""
    node = bench.node("driver")
    build = node.build
    monkeypatch.setattr(node, "build", lambda: (pause(node, True), build()))
    configured(node)
    node.apply_changes()
    assert node.config.paused


def test_a_change_of_the_configuration_before_does_not_undo_a_later_one(
    bench: Bench,  # noqa: F811
) -> None:
    """It had not been used yet, and had the values of all parameters as they were then."""
    node = configured(bench.node("driver"))
    pause(node, True)
    node.trigger_cleanup()
    pause(node, False)
    configured(node)
    node.apply_changes()
    assert not node.config.paused


ENDED = """
import threading
from haptic_ros.process import run
from haptic_ros.servo import ServoNode
from haptic_ros.trial import TrialParameters

released = threading.Event()


class Slow(ServoNode):
    NAME, Config = "slow", TrialParameters

    def build(self):
        print("builds", flush=True)
        released.wait()

    def release(self):
        released.set()

    def serve(self):
        print("serves", flush=True)


run(Slow)
"""
ARGUMENTS = ["--ros-args", "-p", "trial.rate:=1000.0", "-p", "trial.last_tick:=1", "-p", "trial.nodes:=[slow]"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_node_that_is_told_to_end_while_it_is_configured_is_not_activated(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Its device was released before it was open, and then enabled for a moment."""
    arguments = [sys.executable, "-c", ENDED, *ARGUMENTS]
    with subprocess.Popen(arguments, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "builds\n"
            process.send_signal(number)
            assert process.wait(DEADLINE) == 0
            assert process.stdout.read() == ""
        finally:
            process.kill()


STARTED = """
import sys
from haptic_ros import servo
from haptic_ros.process import run
from haptic_ros.trial import TrialParameters

servo.STARTING = 0.01


class Slow(servo.ServoNode):
    NAME, Config = "slow", TrialParameters

    def build(self):
        print("builds", flush=True)
        sys.stdin.readline()

    def serve(self):
        print("serves", flush=True)


run(Slow)
"""


def granted(node: Any, name: str, transition: int) -> bool:
    """The answer to a request for a transition of a node, in the words of the service: success."""
    answer: Any = ask(
        node, ChangeState, f"/{name}/change_state", ChangeState.Request(transition=Transition(id=transition))
    )
    return bool(answer.success)


@pytest.mark.long
def test_a_transition_that_is_requested_in_an_automatic_start_is_refused_and_the_start_goes_on(tmp_path: Path) -> None:
    """The request was not answered; one just before the start ended the process."""
    arguments = [sys.executable, "-c", STARTED, *ARGUMENTS]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with observer() as node, subprocess.Popen(arguments, cwd=tmp_path, text=True, **pipes) as started:
        try:
            assert started.stdout.readline() == "builds\n"
            for transition in (Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE):
                assert not granted(node, "slow", transition)
            started.stdin.write("\n")
            started.stdin.flush()
            assert started.stdout.readline() == "serves\n"
            started.send_signal(signal.SIGTERM)
            assert started.wait(DEADLINE) == 0
            assert started.stderr.read().count("the node is being started: ask again when it is active") == 2
        finally:
            started.kill()


def test_a_transition_that_is_requested_at_the_end_of_an_automatic_start_waits_for_it(
    bench: Bench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that has just found the node active may deactivate it."""
    monkeypatch.setattr(servo, "STARTING", PATIENCE)
    node, answers = bench.node("driver", change={"nodes": ["driver"]}), list[bool]()
    node.serve = lambda: None
    node.start_over.clear()
    callbacks = served(node)
    starts = Stopped(lambda: process._start([node]), node.start_over, "set")
    with observer() as other:
        request = Transition.TRANSITION_DEACTIVATE
        asks = Stopped(lambda: answers.append(granted(other, "driver", request)), node.start_over, "wait")
        asks.may.set()
        asks.thread.join(0.2)  # as far as it gets
        assert answers == []
        starts.go_on()
        asks.go_on()
    callbacks.close()
    assert answers == [True]


def test_a_transition_that_is_not_possible_is_refused_with_those_that_are(
    bench: Bench,  # noqa: F811
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Of rclpy the request would have no answer."""
    node = bench.node("driver", change={"nodes": ["driver"]})
    callbacks = served(node)
    with observer() as other:
        assert not granted(other, "driver", Transition.TRANSITION_ACTIVATE)
        assert granted(other, "driver", Transition.TRANSITION_CONFIGURE)
    callbacks.close()
    said = capfd.readouterr().err
    assert "transition 3 refused: the node is unconfigured, possible are configure (1), shutdown (5)" in said


def servo_node() -> Any:
    """What a ServoNode needs to start and end its servo thread."""
    return SimpleNamespace(
        _stopping=False,
        _thread=None,
        _changing=threading.Lock(),
        _ends=False,
        _serve=lambda: None,
        transport=SimpleNamespace(composition=None, inbox=None),
        finished=threading.Event(),
        exit_code=0,
        _leave_composition=lambda: None,
    )


def test_a_servo_thread_that_is_just_being_started_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would else work with topics that are being closed, and enable a device that was released."""
    node, there, may, start = servo_node(), threading.Event(), threading.Event(), threading.Thread.start

    def start_later(thread: threading.Thread) -> None:
        if thread.name == "servo":
            there.set()
            assert may.wait(PATIENCE)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_later)
    activates = threading.Thread(target=ServoNode.on_activate, args=(node, None), daemon=True)
    activates.start()
    assert there.wait(PATIENCE)
    stops = threading.Thread(target=ServoNode.stop_servo, args=(node,), daemon=True)
    stops.start()
    stops.join(0.2)  # as far as it gets
    may.set()
    for thread in (activates, stops):
        thread.join(PATIENCE)
    assert node._stopping and node._thread is None


def test_a_process_has_the_exit_code_of_its_first_end_whichever_threads_end_it() -> None:
    """One was stopped between its look and its change, and changed the code after the end."""
    node, codes = servo_node(), []
    sets = node.finished.set
    node.finished.set = lambda: (codes.append(node.exit_code), sets())
    first = Stopped(lambda: ServoNode.set_finished(node, 0), node.finished, "is_set")
    fails = threading.Thread(target=ServoNode.set_finished, args=(node, 1), daemon=True)
    fails.start()
    fails.join(0.2)  # as far as it gets
    first.go_on()
    fails.join(PATIENCE)
    assert codes[0] == node.exit_code


def test_what_a_node_of_a_composition_uses_stays_open_while_the_first_ones_thread_is_in_it() -> None:
    """Its topics were closed while it sent, and the process failed."""
    first, second, over, closed = servo_node(), servo_node(), threading.Event(), threading.Event()
    composition = Composition([first, second])
    first.transport.composition = second.transport.composition = composition
    second._leave_composition = lambda: ServoNode._leave_composition(second)
    second.take = lambda: composition.send(lambda data: published.append(closed.is_set()), "topic", b"", b"")
    published: list[bool] = []

    def serve() -> None:
        second.take()
        while not over.is_set():
            composition.flush()

    servo = Stopped(serve, second, "take")
    first.servo_thread = servo.thread

    def stop() -> None:
        ServoNode.stop_servo(second)
        closed.set()

    stops = threading.Thread(target=stop, daemon=True)
    stops.start()
    stops.join(0.2)  # as far as it gets
    servo.may.set()
    stops.join(PATIENCE)
    over.set()
    servo.go_on()
    assert closed.is_set() and published == [False]


class Arm:
    """What a RobotLink needs of a side and of its topics; `sent` is what the arm was commanded."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.parameters = SimpleNamespace(following=SimpleNamespace(hand_watchdog=0.1))
        self.permitted, self.following, self.lock = True, None, threading.Lock()

    def hold(self) -> list[str]:
        return ["stay"]

    def send(self, one: Any) -> None:
        self.sent.append(one)

    def linked(self, **times: float) -> Any:
        link = SimpleNamespace(_side=self, _topics=self, _shown=None, **times)
        link.stay = lambda *silence: RobotLink.stay(link, *silence)
        return link


class LockAfter(contextlib.AbstractContextManager[None]):
    """A lock that is had after something has happened, in the thread that had it before."""

    def __init__(self, happens: Callable[[], object]):
        self._happens = happens

    def __enter__(self) -> None:
        self._happens()

    def __exit__(self, *_: object) -> None:
        """Release it."""


@pytest.mark.parametrize(("elapsed", "sent"), [(0.05, ["move"]), (0.5, [])])
def test_an_arm_is_not_commanded_what_was_computed_before_it_was_told_to_stay(
    monkeypatch: pytest.MonkeyPatch, elapsed: float, sent: list[str]
) -> None:
    """The servo thread was stopped between its computation and its command."""
    arm = Arm()
    monkeypatch.setattr(robot_link, "time", SimpleNamespace(monotonic=lambda: 10.0 + elapsed))
    link = arm.linked(_looked=10.0, _sent=10.0)
    with arm.lock:
        RobotLink._send(link, "move")  # type: ignore[arg-type]
    assert arm.sent == sent and link._sent == (10.0 + elapsed if sent else 10.0)


def test_an_arm_is_not_told_to_stay_where_a_tick_has_come_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer's thread was stopped between its look and its command."""
    arm = Arm()
    monkeypatch.setattr(robot_link, "time", SimpleNamespace(monotonic=lambda: 11.0))
    link = arm.linked(_looked=10.0, _sent=10.0)
    lock = arm.lock
    arm.lock = LockAfter(lambda: setattr(link, "_sent", 11.0))  # type: ignore[assignment]
    RobotLink._watch(link)
    assert arm.sent == []
    arm.lock, link._sent = lock, 10.0
    RobotLink._watch(link)
    assert arm.sent == ["stay"]
