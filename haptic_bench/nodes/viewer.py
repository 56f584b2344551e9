"""Viewer node: shows a running trial on a page in the browser.

It is no part of the trial: nobody waits for it, and its subscriptions are best effort. So a viewer that is slow,
stalled or killed changes nothing. For each frame it takes the latest message of each topic; of topics with curves it
takes all that came since the frame before, so that no peak is missed.

Standard output: `ready ADDRESS` of the page or `fails REASON`, `say TEXT` for the user, `reset` and `record yes|no` as
asked for on the page. Standard input: lines `state TEXT`, `ended`, `restart PAUSED` of a trial.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import rclpy
from haptics import msg
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message

from haptic_bench.experiment import Trial, read_resolved
from haptic_bench.experiment.shown import build_scene, gains_of, sources_of
from haptic_drivers.nodes.driver import is_live
from haptic_drivers.pointing import Sender
from haptic_ros.callbacks import CallbackThread
from haptic_ros.graph import EVENTS, OPERATOR
from haptic_ros.inbox import Inbox, ServoGroup, subscribe
from haptic_ros.middleware.context import initialise
from haptic_ros.middleware.process import die_with_parent, leave
from haptic_ros.ros_parameters import name_of
from haptic_sim.messages import TOPICS, MessageError, split_topic
from haptic_sim.parameters import ParameterError
from haptic_view.controls import FRAMES, Course, State, describe
from haptic_view.gain_controls import Key
from haptic_view.gains import Gain
from haptic_view.live import LiveFrames
from haptic_view.page import Page
from haptic_view.pointer import Pointer
from haptic_view.sound import Sound

BEFORE = -2  # a tick before that of the initial state
ANSWER = 2.0  # [s] for a node to answer a change of a parameter
FOUND = 30.0  # [s] for a trial that runs to be found


class ViewerNode(Node):
    """The viewer of a trial.

    Args:
        trial: resolved.
        host, port: of the page.
        controlled: whether the trial can be begun anew, and kept, from the page.
        paused: whether it waits for the start.
        recorded: whether there is a recorder, which notes events.
    """

    def __init__(self, trial: Trial, host: str, port: int, *, controlled: bool, paused: bool, recorded: bool):
        super().__init__("viewer")
        scene = build_scene(trial, visual=True)
        for note in scene.notes:
            _report(f"say {note}")
        self._leader = "environment" if trial.experiment.standalone else "driver"
        self._frames = LiveFrames(scene, trial.tool_sizes, sources_of(trial.experiment))
        self._changes: dict[Key, Any] = {}  # values that wait for the answer to the last one
        self._asking: set[Key] = set()
        self._clients_of: dict[tuple[str, str], Any] = {}
        self._gains = gains_of(trial)
        self._unread = {node for gain in self._gains for node in gain.nodes}  # whose values are not known yet
        self._trials = 0  # that were begun before
        self._paused, self._begun, self._last = paused, False, BEFORE
        self._drawn: deque[tuple[float, float]] = deque(maxlen=3000)  # when, and CPU time of this process [s]
        self.page = Page(scene, host, port)
        self.course = Course(
            self.page,
            self._gains,
            pause=self._pause,
            change=self._change,
            mark=self._mark if recorded else None,
            reset=partial(_report, "reset") if controlled else None,
            record=(lambda keep: _report(f"record {'yes' if keep else 'no'}")) if controlled else None,
        )
        self._sound = Sound(self.page)
        self._pointer: Pointer | None = None
        if is_live(trial.experiment.operator):
            reliable = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
            sender = Sender(self.create_publisher(msg.OperatorEvent, OPERATOR, reliable).publish)
            self._pointer = Pointer(self.page, sender, oriented=trial.moves_freely, bodies=trial.draggable)
        between = 1 + math.ceil(2.0 * trial.experiment.rate / FRAMES)  # messages of a topic between two frames, at most
        depths = {topic: between if topic in self._frames.charted else 1 for topic in self._frames.topics}
        group = ServoGroup()
        subscriptions = {
            topic: subscribe(
                self,
                msg.TrialEvent if topic == EVENTS else _type(topic),
                topic,
                QoSProfile(depth=depth, reliability=ReliabilityPolicy.BEST_EFFORT),
                group,
            )
            for topic, depth in (depths | {EVENTS: 20}).items()
        }
        self._inbox = Inbox(self.context, subscriptions)

    # Frames

    def draw(self) -> None:
        """Take the latest messages and draw them."""
        if self._pointer is not None:
            self._pointer.repeat()
        self._find_nodes()
        for topic, data in self._inbox.wait(0.0):
            if topic == EVENTS:
                self._receive_state(deserialize_message(data, msg.TrialEvent))
                continue
            try:
                self._frames.take(topic, data)
            except MessageError as error:
                self.get_logger().warning(f"not drawn: {error}", throttle_duration_sec=1.0)
        if self._frames.tick in (None, self._last) or (frame := self._frames.frame()) is None:
            return
        self._last = frame.tick
        if frame.tick >= 0 and not self._begun:
            self._begun = True
            if self.course.state is State.STARTING:
                self.course.show(State.RUNNING)
        if frame.tick >= 0:
            self._drawn.append((time.monotonic(), time.process_time()))
        self.page.show(frame)
        self._sound.play(frame, self._frames.impulse)
        self.page.show_state(describe(frame))

    def pace(self) -> str:
        """Number of drawn frames a second, and the time that took, in words."""
        if len(self._drawn) < 2:
            return "drawn nothing"
        (begun, before), (ended, after) = self._drawn[0], self._drawn[-1]
        seconds = max(ended - begun, 1e-9)
        share = 100.0 * (after - before) / seconds
        return f"drawn {(len(self._drawn) - 1) / seconds:.1f} frames/s, {share:.1f} % of a core"

    def restart(self, paused: bool) -> None:
        """Another trial begins, with the gains of the experiment."""
        self._trials += 1
        self._paused, self._begun, self._last = paused, False, BEFORE
        self._changes.clear()
        self._asking.clear()
        self._frames.reset()
        self.page.restart()
        self.course.gains.restore()
        self.course.show(State.LOADING)
        self.course.show_text("")

    def end(self) -> None:
        """The trial has ended."""
        if self.course.state is not State.RESETTING:
            self.course.show(State.ENDED)

    def close(self) -> None:
        """Let go of topics and page."""
        self._inbox.close()
        self.page.stop()

    def _receive_state(self, event: Any) -> None:
        if event.name in ("finished", "interrupted") and self.course.state is not State.RESETTING:
            self.end()
            self.course.show_text(f"{event.name} after {event.tick} ticks {event.detail}".strip())
        elif event.name == "changed":
            key, _, text = event.detail.partition("=")
            if key in ("paused", name_of("", "paused")):
                self._show_paused(json.loads(text))
                return
            self.course.show_text(f"tick {event.tick}: {event.detail}")
            for gain in self._gains:
                if gain.key == key and event.node in gain.nodes:
                    self.course.gains.accept(gain, json.loads(text))

    # Changes of parameters

    def _find_nodes(self) -> None:
        """Let the page control nodes that have come, and show the values that they have."""
        if self.course.state is State.LOADING and self._client(self._leader, SetParameters).service_is_ready():
            self._show_paused(self._paused)
        for node in [node for node in self._unread if self._client(node, GetParameters).service_is_ready()]:
            self._unread.discard(node)
            gains = [gain for gain in self._gains if node in gain.nodes]
            request = GetParameters.Request(names=[gain.key for gain in gains])
            self._client(node, GetParameters).call_async(request).add_done_callback(partial(self._read, gains))

    def _read(self, gains: list[Gain], future: Any) -> None:
        """Show the values that a node has answered with."""
        for gain, value in zip(gains, future.result().values, strict=False):
            found = parameter_value_to_python(value)
            if found is not None:
                self.course.gains.accept(gain, found)

    def _show_paused(self, paused: bool) -> None:
        """Show whether the trial waits."""
        self._paused = paused
        if self._begun:
            self.course.show(State.PAUSED if paused else State.RUNNING)
        else:
            self.course.show(State.READY if paused else State.STARTING)

    def _pause(self, paused: bool) -> None:
        def done(reason: str) -> None:
            if reason:
                self.course.show_text(f"cannot be {'paused' if paused else 'started'}: {reason}")
            if self.course.state is not State.ENDED:
                self._show_paused(not paused if reason else paused)

        self._set(self._leader, name_of("", "paused"), paused, done)

    def _mark(self, text: str) -> None:
        def done(reason: str) -> None:
            if reason:
                self.course.show_text(f"not noted: {reason}")

        self._set(self._leader, name_of("", "mark"), text, done)

    def _change(self, gain: Gain, value: Any) -> None:
        """Ask the nodes for another value of a gain: one after the other, and of what comes meanwhile the last."""
        key = gain.nodes, gain.key
        self._changes[key] = value
        if key not in self._asking:
            self._asking.add(key)
            self._ask(gain)

    def _ask(self, gain: Gain) -> None:
        key = gain.nodes, gain.key
        value, nodes, begun = self._changes.pop(key), list(gain.nodes), self._trials

        def done(reason: str) -> None:
            if self._trials != begun:
                return  # it was of the trial before
            if not reason and nodes:
                self._set(nodes.pop(0), gain.key, value, done)
                return
            if not reason:
                self.course.gains.accept(gain, value)
            if key in self._changes:
                self._ask(gain)
                return
            self._asking.discard(key)
            if reason:
                self.course.gains.refuse(gain, reason)

        self._set(nodes.pop(0), gain.key, value, done)

    def _set(self, node: str, name: str, value: Any, done: Callable[[str], object]) -> None:
        """Set a parameter of a node; `done` gets the reason of a refusal, empty if there was none."""
        client = self._client(node, SetParameters)
        if not client.service_is_ready():
            done(f"{node} is not there")
            return
        if isinstance(value, tuple):
            value = list(value)
        request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
        future = client.call_async(request)
        once = threading.Lock()  # taken by who calls `done`

        def answer(_: Any) -> None:
            if not once.acquire(blocking=False):
                return
            late.cancel()
            result = future.result()
            (outcome,) = result.results
            done("" if outcome.successful else outcome.reason or "no reason was given")

        def give_up() -> None:
            if once.acquire(blocking=False):
                client.remove_pending_request(future)
                done(f"{node} does not answer")

        late = threading.Timer(ANSWER, give_up)
        late.daemon = True
        late.start()
        future.add_done_callback(answer)

    def _client(self, node: str, service: Any) -> Any:
        """The client of a node's parameters, for a service."""
        name = {SetParameters: "set_parameters", GetParameters: "get_parameters"}[service]
        if (node, name) not in self._clients_of:
            self._clients_of[node, name] = self.create_client(service, f"{node}/{name}")
        return self._clients_of[node, name]


def _type(topic: str) -> Any:
    return getattr(msg, TOPICS[split_topic(topic)[1]].TYPE.rpartition("/")[2])


def _report(line: str) -> None:
    """Write a line to the process that started this one."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """`viewer DIRECTORY HOST PORT FD CONTROLLED PAUSED RECORDED`: lines are read from FD; no DIRECTORY: find it."""
    die_with_parent()
    directory, host, port, reading, *how = sys.argv[1:8]
    controlled, paused, recorded = (one == "yes" for one in how)
    signals: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: signals.append(number))
    os.nice(5)  # looking on comes last
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:-1] or cores)  # the last one is that of the servo threads
    initialise(sys.argv)
    try:
        if not directory:
            directory, paused, recorded = find_trial(signals)
        trial = read_resolved(Path(directory) / "experiment.yaml")
    except ParameterError as error:
        _report(f"fails {error}")
        raise SystemExit(2) from error
    node = ViewerNode(trial, host, int(port), controlled=controlled, paused=paused, recorded=recorded)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    CallbackThread(executor, "executor").thread.start()
    lines: list[str] = []
    if int(reading) >= 0:
        threading.Thread(target=_read, args=(int(reading), lines), name="reading", daemon=True).start()
    _report(f"ready {node.page.address}")
    due = time.monotonic()
    while not signals:
        while lines:
            word, _, rest = lines.pop(0).partition(" ")
            if word == "restart":
                node.restart(rest == "yes")
            elif word == "ended":
                node.end()
            elif word == "state":
                node.course.show_text(rest)
        node.draw()
        due = max(due + 1.0 / FRAMES, time.monotonic())
        time.sleep(due - time.monotonic() if due > time.monotonic() else 0.0)
    _report(node.pace())
    node.close()
    leave(0)  # viser's threads and the middleware's destructors have nothing left to do


def find_trial(signals: list[int]) -> tuple[str, bool, bool]:
    """Directory of the trial that runs in this namespace, whether it is paused, and whether there is a recorder.

    Its leader says so: the driver, or without a device the environment.

    Args:
        signals: to end, when it is not empty.

    Raises:
        ParameterError: nobody answers, or the trial cannot be drawn.
    """
    node = Node("looking")
    try:
        leaders = [node.create_client(GetParameters, f"{name}/get_parameters") for name in ("driver", "environment")]
        until = time.monotonic() + FOUND
        while time.monotonic() < until and not signals:
            for leader in (leader for leader in leaders if leader.service_is_ready()):
                request = GetParameters.Request(names=[name_of("", key) for key in ("directory", "paused", "nodes")])
                future = leader.call_async(request)
                rclpy.spin_until_future_complete(node, future, timeout_sec=ANSWER)
                values = future.result().values if future.done() else []
                if len(values) == 3 and values[0].string_value:
                    place, paused, nodes = values
                    return _checked(place.string_value), paused.bool_value, "recorder" in nodes.string_array_value
            time.sleep(0.05)
        raise ParameterError([f"{node.get_namespace()}: no driver, and no environment without a device, answers"])
    finally:
        node.destroy_node()


def _checked(directory: str) -> str:
    """The directory of a trial, if it is on this machine."""
    if not (Path(directory) / "experiment.yaml").is_file():
        raise ParameterError([f"{directory}/experiment.yaml: not found; it was removed, or is on another machine"])
    return directory


def _read(reading: int, lines: list[str]) -> None:
    with os.fdopen(reading, encoding="utf-8") as stream:
        for line in stream:
            lines.append(line.rstrip("\n"))


if __name__ == "__main__":
    main()
