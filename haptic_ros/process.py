"""A process with one node, or with several composed nodes: start, signals, end."""

from __future__ import annotations

import itertools
import signal
import sys
import textwrap
import threading
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from haptics import msg
from rcl_interfaces.msg import ParameterEvent
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.type_support import check_for_type_support
from sensor_msgs.msg import JointState
from visualization_msgs.msg import MarkerArray

from haptic_ros.callbacks import CallbackThread
from haptic_ros.composition import Composition
from haptic_ros.middleware.context import initialise
from haptic_ros.middleware.process import die_with_parent, leave
from haptic_ros.servo import ServoNode, find_modules
from haptic_ros.signal_event import SignalEvent, wait_for_any

GRACE = 10  # [s] for a process to end after a signal
TEARDOWN = 2  # [s] of that for the middleware
POLL_PERIOD = 0.2  # [s] between two checks whether it is to end, where nothing wakes it
STARTING = 1.0  # [s] for the start to be over first; kernels may be compiled in it for minutes


HELP = """\
usage: {} --ros-args -r __ns:=/NAMESPACE --params-file DIRECTORY/parameters.yaml

{}
`haptics run` and `haptics start` start the nodes, after they have written that file into DIRECTORY.
"""


def answer_help(usage: str, about: str | None) -> None:
    """Print the help of a program, if the arguments before those of ROS 2 ask for it, and end the program."""
    if {"-h", "--help"}.intersection(itertools.takewhile(lambda one: one != "--ros-args", sys.argv[1:])):
        print(HELP.format(usage, textwrap.dedent(about or "")), end="")
        sys.exit(0)


def run(*kinds: type[ServoNode]) -> NoReturn:
    """Run a node, or several as a composition, until the first ends or a signal comes (SIGINT, SIGTERM), then exit.

    A thread that fails, whichever it is, ends the process with status 1 and the reason, after zero force.
    """
    answer_help(Path(sys.argv[0]).stem, sys.modules[kinds[0].__module__].__doc__)
    die_with_parent()
    initialise(sys.argv)
    nodes = [kind(kind.NAME) for kind in kinds]
    first = nodes[0]
    threading.excepthook = partial(_fail, first)
    received = SignalEvent()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: received.set())
    executor = SingleThreadedExecutor()
    for node in nodes:
        executor.add_node(node)
    starter = threading.Thread(target=_start, args=(nodes,), name="start", daemon=True)
    if autostart := first.get_parameter("autostart").value:
        for node in nodes:
            node.start_over.clear()  # before any request is answered
    callbacks = CallbackThread(executor, "executor")
    callbacks.thread.start()
    try:
        if autostart:
            starter.start()
        # The kernel may give a signal to another thread; Python handles it in this one, when this one wakes.
        while not wait_for_any(received, first.finished, timeout=POLL_PERIOD):
            pass
    except BaseException as error:
        _report(first, error)
    try:
        _close(nodes, callbacks, starter)
    except BaseException as error:
        _report(first, error)
    leave(first.exit_code)


def _close(nodes: Sequence[ServoNode], callbacks: CallbackThread, starter: threading.Thread) -> None:
    """Leave all devices without force, then end the threads and close what is open."""
    first = nodes[0]
    signal.alarm(GRACE)  # whatever hangs from here on, the middleware's own destructors too: the process ends
    for node in nodes:
        node.close()
    if starter.is_alive():
        starter.join(STARTING)
    if starter.is_alive():
        return  # of what was begun, nothing is at work yet
    try:
        first.stop_servo()
    finally:
        for node in nodes:
            node.conclude_activation()
    first.transport.close_inbox()
    # Nothing of the trial is open any more. The middleware's destructors may wait for a lock that a peer holds.
    leaving = threading.Timer(TEARDOWN, lambda: leave(first.exit_code))
    leaving.daemon = True
    leaving.start()
    callbacks.close()
    for node in nodes:
        node.destroy_node()
    rclpy.try_shutdown()


def _fail(first: ServoNode, failed: threading.ExceptHookArgs) -> None:
    """A thread of the process has failed, which Python would only print: the process ends."""
    _report(first, failed.exc_value, "" if failed.thread is None else failed.thread.name)


def _report(first: ServoNode, error: BaseException | None, thread: str = "main") -> None:
    """Say that a thread has failed, and end the process."""
    try:
        text = "".join(traceback.format_exception(error))
        first.get_logger().fatal(f"the thread {thread!r} has failed; this node ends with zero force:\n{text}")
    finally:
        first.end(1)


def prepare_forks() -> None:
    """Do, before nodes are forked, what each would do: load the messages of most (60 ms), find all modules (70 ms)."""
    find_modules()
    kinds = (
        msg.TrialEvent,
        DiagnosticArray,
        JointState,
        MarkerArray,
        ParameterEvent,
        PoseStamped,
    )
    for kind in kinds:  # of each package one loads all
        check_for_type_support(kind)


def _start(nodes: Sequence[ServoNode]) -> None:
    """Configure and activate: the first last, as its thread serves the others."""
    composition = Composition(nodes) if len(nodes) > 1 else None
    for node in nodes:
        node.transport.composition = composition
    try:
        for node in reversed(nodes):  # the topics of the tool's side, the last, depend on its parameters
            if node.trigger_configure() != TransitionCallbackReturn.SUCCESS:
                nodes[0].end(1)
                return
        if composition is not None:
            composition.open()
        for node in reversed(nodes):
            node.trigger_activate()
    except Exception:  # nobody waits for this thread
        nodes[0].get_logger().fatal(f"cannot be started:\n{traceback.format_exc()}")
        nodes[0].end(1)
    finally:
        for node in nodes:
            node.start_over.set()
