"""Threads of callbacks: none ends of what a callback raises, and none ends in silence."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import pytest
from conftest import wait_until

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from rclpy.lifecycle import TransitionCallbackReturn  # noqa: E402
from rclpy.serialization import deserialize_message, serialize_message  # noqa: E402
from test_nodes import Bench, bench, configured  # noqa: E402, F401

from haptic_ros import diagnosis  # noqa: E402
from haptic_ros.callbacks import CallbackThread, OwnThread  # noqa: E402
from haptic_ros.servo import ServoNode  # noqa: E402

Node = rclpy.node.Node


@pytest.fixture
def node() -> Iterator[Node]:
    context = rclpy.Context()
    context.init()
    made = rclpy.create_node("one", context=context)
    yield made
    made.destroy_node()
    context.try_shutdown()


def served(node: Node) -> CallbackThread:
    """The callbacks of a node in a thread."""
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    callbacks = CallbackThread(executor, "executor")
    callbacks.thread.start()
    return callbacks


def test_what_a_callback_raises_is_said_and_the_next_ones_are_run(
    node: Node, capfd: pytest.CaptureFixture[str]
) -> None:
    times = []

    def fail() -> None:
        times.append(len(times))
        raise KeyError("of the timer")

    node.create_timer(0.001, fail)
    callbacks = served(node)
    wait_until(lambda: len(times) > 2, "three callbacks")
    callbacks.close()
    assert not callbacks.thread.is_alive()
    said = capfd.readouterr().err
    assert said.count("a callback failed") == 1, "it is not repeated within a second"
    assert "KeyError: 'of the timer'" in said


def test_an_executor_that_is_shut_down_by_others_is_a_failure_of_its_thread(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    callbacks = served(node)
    callbacks._executor.shutdown()
    callbacks.thread.join()
    assert "the thread 'executor'" in str(failed[0].exc_value)
    callbacks.close()


def test_a_thread_of_its_own_runs_its_callbacks_while_all_others_hang(node: Node) -> None:
    hung, ran, done = threading.Event(), [], threading.Event()

    def hang() -> None:
        hung.set()
        done.wait()

    own = OwnThread(node, "own")
    node.create_timer(0.001, hang)
    node.create_timer(0.001, lambda: ran.append(threading.current_thread().name), callback_group=own)
    callbacks = served(node)
    wait_until(hung.is_set, "the callback that hangs")
    assert not ran, "it has not been started"
    own.start()
    wait_until(lambda: len(ran) > 2, "the callbacks of its own thread")
    own.close()
    done.set()
    callbacks.close()
    assert set(ran) == {"own"}


def test_a_transition_that_fails_ends_the_node_with_the_reason(
    bench: Bench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    node, released = configured(bench.node("driver", change={"nodes": ["driver"]})), []
    monkeypatch.setattr(node, "release", lambda: released.append(True))

    def fail() -> int:
        raise ValueError("no tick")

    monkeypatch.setattr(node, "next_tick", fail)
    monkeypatch.setattr(node, "serve", lambda: None)
    assert node.trigger_activate() == TransitionCallbackReturn.SUCCESS
    assert node.trigger_deactivate() == TransitionCallbackReturn.ERROR
    assert released and node.finished.is_set() and node.exit_code == 1
    assert "ValueError: no tick" in capfd.readouterr().err


def test_what_diagnostics_raise_is_logged_and_the_next_are_published(
    bench: Bench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """And when the topics are closed, the thread that publishes them ends. Nobody is asked before who wants to know."""
    monkeypatch.setattr(diagnosis, "PERIOD", 0.01)
    node, asked, turns = bench.node("controller"), [], []

    def health() -> tuple[str, dict[str, object]]:
        asked.append(threading.current_thread())
        raise ValueError(f"time {len(asked)}")

    monkeypatch.setattr(node, "health", health)
    monkeypatch.setattr(node, "monitor", lambda: turns.append(None))
    configured(node)
    wait_until(lambda: len(turns) > 2, "the next turn")
    assert not asked
    node.create_subscription(DiagnosticArray, "/diagnostics", print, 1)
    wait_until(lambda: len(asked) > 2, "the next time")
    assert asked[0] is asked[-1] is not threading.current_thread()
    assert node.trigger_cleanup() == TransitionCallbackReturn.SUCCESS
    assert not asked[0].is_alive()
    said = capfd.readouterr().err
    assert "no status is published on /diagnostics" in said and "ValueError: time 1" in said
    assert "ValueError: time 2" in said


VALUES: dict[str, object] = {
    "refused messages": 3,
    "scheduler": "SCHED_FIFO 52 on core 1",
    "age [s]": 1e-3,
    "fault": "",
}


@pytest.mark.parametrize("trouble", ["", "3 messages were refused", "schief: 20 °"])
@pytest.mark.parametrize("count", range(5))
@pytest.mark.parametrize("name", ["/driver", "/peg/left/driver", "/n"])
def test_the_bytes_of_diagnostics_are_those_of_the_message(trouble: str, count: int, name: str) -> None:
    values = dict(list(VALUES.items())[:count])
    level = DiagnosticStatus.WARN if trouble else DiagnosticStatus.OK
    pairs = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
    status = DiagnosticStatus(level=level, name=name, message=trouble or "OK", hardware_id=name[-1], values=pairs)
    message = DiagnosticArray(status=[status])
    message.header.stamp.sec, message.header.stamp.nanosec = 1_700_000_000, 999_999_999
    written = diagnosis.serialise(1_700_000_000_999_999_999, name, trouble, name[-1], values)
    assert len(written) == len(serialize_message(message))  # whose padding may be anything
    assert deserialize_message(written, DiagnosticArray) == message


def test_the_process_of_composed_nodes_ends_when_any_of_them_does(bench: Bench) -> None:  # noqa: F811
    first, other = SimpleNamespace(finished=threading.Event(), exit_code=0), bench.node("controller")
    first._changing, first.set_finished = threading.Lock(), partial(ServoNode.set_finished, first)
    other.transport.composition = SimpleNamespace(nodes=(first, other))
    other.end(1)
    assert first.finished.is_set() and first.exit_code == other.exit_code == 1


def test_a_parameter_that_is_deleted_is_as_if_it_was_never_given(bench: Bench) -> None:  # noqa: F811
    """And an exception of what reads parameters is an answer."""
    node = configured(bench.node("controller"))
    deleted = rclpy.Parameter("controller.integral_limit")
    assert node.set_parameters([deleted])[0].successful
    (result,) = node.set_parameters([rclpy.Parameter("controller.force_scale", value=0.2)])
    assert result.successful, result.reason
    node.live._kind = None
    (result,) = node.set_parameters([rclpy.Parameter("controller.force_scale", value=0.3)])
    assert not result.successful and "AttributeError" in result.reason
