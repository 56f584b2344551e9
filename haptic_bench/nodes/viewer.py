"""Viewer node: shows a running trial on a page in the browser.

It is no part of the trial: nobody waits for it, and its subscriptions are best effort with depth 1. So a viewer that is
slow, stalled or killed changes nothing. Twice in a frame's time it takes the latest message of each topic.

Standard output: `say TEXT` for the user, `reset` and `record yes|no` as asked for on the page. Standard input: a line
`state TEXT`, or `restart PAUSED` when another trial begins.
"""

from __future__ import annotations

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
from rcl_interfaces.srv import SetParameters
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rclpy.signals import SignalHandlerOptions

from haptic_bench.experiment import Trial, read_resolved
from haptic_bench.view.controls import FRAMES, Course, describe
from haptic_bench.view.gains import Gain, gains_of
from haptic_bench.view.live import LiveFrames
from haptic_bench.view.page import Page
from haptic_bench.view.pointer import Pointer
from haptic_bench.view.scene import build_scene
from haptic_bench.view.sound import Sound
from haptic_drivers.nodes.driver import is_live
from haptic_drivers.pointing import Sender
from haptic_ros.callbacks import CallbackThread
from haptic_ros.inbox import Inbox, ServoGroup
from haptic_ros.process import die_with_parent
from haptic_ros.ros_parameters import name_of
from haptic_ros.trial import EVENTS, OPERATOR
from haptic_sim.messages import TOPICS, MessageError, split_topic

BEFORE = -2  # a tick before that of the initial state
ANSWER = 2.0  # [s] for a node to answer a change of a parameter


class ViewerNode(Node):
    """The viewer of a trial.

    Args:
        trial: resolved.
        host, port: of the page.
        controlled: whether the trial can be begun anew, and kept, from the page.
        paused: whether it waits for the start.
    """

    def __init__(self, trial: Trial, host: str, port: int, *, controlled: bool, paused: bool):
        super().__init__("viewer")
        scene = build_scene(trial, visual=True)
        for note in scene.notes:
            _tell(f"say {note}")
        self._leader = "environment" if trial.experiment.alone else "driver"
        self._frames = LiveFrames(trial, scene)
        self._changes: dict[tuple[tuple[str, ...], str], Any] = {}  # values that wait for the answer to the last one
        self._asking: set[tuple[tuple[str, ...], str]] = set()
        self._clients_of: dict[str, Any] = {}
        self._paused, self._begun, self._last = paused, False, BEFORE
        self._drawn: deque[tuple[float, float]] = deque(maxlen=3000)  # when, and CPU time of this process [s]
        self.page = Page(scene, host, port)
        self.course = Course(
            self.page,
            gains_of(trial),
            pause=self._pause,
            mark=self._mark,
            change=self._change,
            reset=partial(_tell, "reset") if controlled else None,
            record=(lambda keep: _tell(f"record {'yes' if keep else 'no'}")) if controlled else None,
            paused=paused,
        )
        self._sound = Sound(self.page)
        self._pointer: Pointer | None = None
        if is_live(trial.experiment.operator):
            reliable = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
            sender = Sender(self.create_publisher(msg.OperatorEvent, OPERATOR, reliable).publish)
            self._pointer = Pointer(self.page, sender, oriented=trial.moves_freely, bodies=trial.draggable)
        group, latest = ServoGroup(), QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        events = QoSProfile(depth=20, reliability=ReliabilityPolicy.BEST_EFFORT)
        subscriptions = {
            topic: self.create_subscription(
                _type(topic), topic, _taken_elsewhere, latest, callback_group=group, raw=True
            )
            for topic in self._frames.topics
        }
        subscriptions[EVENTS] = self.create_subscription(
            msg.TrialEvent, EVENTS, _taken_elsewhere, events, callback_group=group, raw=True
        )
        self._inbox = Inbox(self.context, subscriptions)

    # Frames

    def draw(self) -> None:
        """Take the latest messages and draw them."""
        if self._pointer is not None:
            self._pointer.repeat()
        for topic, data in self._inbox.wait(0.0):
            if topic == EVENTS:
                self._hear(deserialize_message(data, msg.TrialEvent))
                continue
            try:
                self._frames.take(topic, data)
            except MessageError as error:
                self.get_logger().warning(f"not drawn: {error}", throttle_duration_sec=1.0)
        frame = self._frames.frame()
        if frame is None or frame.tick == self._last:
            return
        self._last = frame.tick
        if frame.tick >= 0 and not self._begun:
            self._begun = True
            self.course.show_paused(self._paused, True)
        if frame.tick >= 0:
            self._drawn.append((time.monotonic(), time.process_time()))
        self.page.show(frame)
        self._sound.hear(frame, self._frames.impulse)
        self.page.show_state(describe(frame))

    def pace(self) -> str:
        """How many frames a second were drawn, and what that took, in words."""
        if len(self._drawn) < 2:
            return "drawn nothing"
        (begun, before), (ended, after) = self._drawn[0], self._drawn[-1]
        seconds = max(ended - begun, 1e-9)
        share = 100.0 * (after - before) / seconds
        return f"drawn {(len(self._drawn) - 1) / seconds:.1f} frames/s, {share:.1f} % of a core"

    def restart(self, paused: bool) -> None:
        """Another trial begins."""
        self._paused, self._begun, self._last = paused, False, BEFORE
        self._frames.reset()
        self.page.restart()
        self.course.show_paused(paused, False)
        self.course.say("")

    def close(self) -> None:
        """Let go of topics and page."""
        self._inbox.close()
        self.page.stop()

    def _hear(self, event: Any) -> None:
        if event.name in ("finished", "interrupted"):
            self.course.say(f"{event.name} after {event.tick} ticks {event.detail}".strip())
        elif event.name == "changed" and not event.detail.startswith("paused="):
            self.course.say(f"tick {event.tick}: {event.detail}")

    # Changes

    def _pause(self, paused: bool) -> None:
        def done(reason: str) -> None:
            if reason:
                self.course.say(f"cannot be {'paused' if paused else 'started'}: {reason}")
            else:
                self._paused = paused
                self.course.show_paused(paused, self._begun)

        self._set(self._leader, name_of("", "paused"), paused, done)

    def _mark(self, text: str) -> None:
        def done(reason: str) -> None:
            if reason:
                self.course.say(f"not noted: {reason}")

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
        value, nodes = self._changes.pop(key), list(gain.nodes)

        def done(reason: str) -> None:
            if not reason and nodes:
                self._set(nodes.pop(0), gain.key, value, done)
                return
            if not reason:
                self.course.accepted(gain, value)
            if key in self._changes:
                self._ask(gain)
                return
            self._asking.discard(key)
            if reason:
                self.course.refused(gain, reason)

        self._set(nodes.pop(0), gain.key, value, done)

    def _set(self, node: str, name: str, value: Any, done: Callable[[str], object]) -> None:
        """Set a parameter of a node; `done` gets the reason of a refusal, empty if there was none."""
        if node not in self._clients_of:
            self._clients_of[node] = self.create_client(SetParameters, f"{node}/set_parameters")
        client = self._clients_of[node]
        if not client.service_is_ready():
            done(f"{node} is not there")
            return
        if isinstance(value, tuple):
            value = list(value)
        request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
        future = client.call_async(request)
        answered = threading.Event()

        def answer(_: Any) -> None:
            if answered.is_set():
                return
            answered.set()
            late.cancel()
            result = future.result()
            (outcome,) = result.results
            done("" if outcome.successful else outcome.reason or "no reason was given")

        def give_up() -> None:
            if not answered.is_set():
                answered.set()
                client.remove_pending_request(future)
                done(f"{node} does not answer")

        late = threading.Timer(ANSWER, give_up)
        late.daemon = True
        late.start()
        future.add_done_callback(answer)


def _type(topic: str) -> Any:
    return getattr(msg, TOPICS[split_topic(topic)[1]].TYPE.rpartition("/")[2])


def _taken_elsewhere(message: Any) -> None:
    """Never called: the loop takes these messages."""


def _tell(line: str) -> None:
    """Write a line to the process that started this one."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """`viewer DIRECTORY HOST PORT FD CONTROLLED PAUSED`: FD is what lines are read from, -1: none."""
    die_with_parent()
    directory, host, port, reading, controlled, paused = sys.argv[1:7]
    told: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: told.append(number))
    os.nice(5)  # looking on comes last
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:-1] or cores)  # the last one is that of the servo threads
    rclpy.init(args=sys.argv, signal_handler_options=SignalHandlerOptions.NO)
    trial = read_resolved(Path(directory) / "experiment.yaml")
    node = ViewerNode(trial, host, int(port), controlled=controlled == "yes", paused=paused == "yes")
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    CallbackThread(executor, "executor").thread.start()
    lines: list[str] = []
    if int(reading) >= 0:
        threading.Thread(target=_read, args=(int(reading), lines), name="reading", daemon=True).start()
    _tell("ready")
    due = time.monotonic()
    while not told:
        while lines:
            word, _, rest = lines.pop(0).partition(" ")
            if word == "restart":
                node.restart(rest == "yes")
            elif word == "state":
                node.course.say(rest)
        node.draw()
        due = max(due + 1.0 / FRAMES, time.monotonic())
        time.sleep(due - time.monotonic() if due > time.monotonic() else 0.0)
    _tell(node.pace())
    node.close()
    sys.stdout.flush()
    os._exit(0)  # viser's threads and the middleware's destructors have nothing left to do


def _read(reading: int, lines: list[str]) -> None:
    with os.fdopen(reading, encoding="utf-8") as stream:
        for line in stream:
            lines.append(line.rstrip("\n"))


if __name__ == "__main__":
    main()
