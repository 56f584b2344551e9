"""What every node on the servo path shares: lifecycle, parameters, a servo thread that blocks on its topics.

The servo thread waits on an rcl wait set for serialised messages and publishes serialised ones; an executor in a
thread of its own serves parameters and lifecycle. Servo subscriptions are in a callback group that never may execute,
or the executor would take their messages away.

A trial starts behind a barrier: a node says `ready` on `trial_events` once each of its publishers has found all its
subscriptions and the other way round; the driver starts the first tick when all are ready.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar, Literal

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from haptics import msg
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.callback_groups import CallbackGroup
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions

from haptic_sim.messages import TOPICS, MessageError
from haptic_sim.nodes.realtime import prioritise
from haptic_sim.nodes.ros_parameters import declare, read
from haptic_sim.parameters import ParameterError, Parameters, quantity

EVENTS = "trial_events"
_EVENT_QOS = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)
POLL = 0.01  # [s] between two looks at what has been discovered, before the trial starts
READY_TIMEOUT = 60.0  # [s] for all nodes to find each other; compiling kernels anew takes part of it

SUBSCRIBERS: dict[str, tuple[str, ...]] = {
    "device_state": ("controller", "recorder"),
    "tool_command": ("tool", "recorder"),
    "tool_state": ("controller", "environment", "recorder"),
    "device_command": ("driver", "recorder"),
    "local_geometry": ("local_model", "recorder"),
}
"""Who listens to a servo topic; `tool` is the local model if there is one, else the environment."""


class TrialParameters(Parameters):
    """What every node of a trial knows of it."""

    rate: float = quantity(unit="Hz", description="Servo rate", gt=0.0)
    last_tick: int = quantity(description="Ticks 0 to this one are executed", ge=0)
    mode: Literal["lockstep", "realtime"] = quantity(
        "lockstep",
        description="lockstep: each tick waits for its answer; realtime: on the wall clock, latest message",
    )
    nodes: tuple[str, ...] = quantity(description="Names of all nodes of the trial")
    patience: float = quantity(
        10.0, unit="s", description="A peer that is silent for longer ends the trial", gt=0.0, le=3600.0
    )

    @property
    def realtime(self) -> bool:
        """Whether the trial runs on the wall clock."""
        return self.mode == "realtime"

    def listeners(self, topic: str) -> int:
        """How many of the trial's nodes listen to a topic."""
        tool = "local_model" if "local_model" in self.nodes else "environment"
        asynchronous = "local_model" in self.nodes
        count = 0
        for name in SUBSCRIBERS[topic]:
            if name == "environment" and not asynchronous:
                continue
            count += (tool if name == "tool" else name) in self.nodes
        return count


class ServoError(RuntimeError):
    """The trial cannot go on; the text is the reason."""


class Composition:
    """Several nodes in one process: what one sends, the others take by direct call, in the order of the tick.

    The first node's thread does all the work; what is published goes out when its tick is over (`flush`).
    """

    def __init__(self, nodes: Sequence[ServoNode]):
        self.nodes = nodes
        self._takers: dict[str, list[ServoNode]] = {}
        self._outgoing: list[tuple[Any, bytes]] = []

    def open(self) -> None:
        """To be called when all nodes are configured."""
        for node in self.nodes:
            for topic in node.subscribed():
                self._takers.setdefault(topic, []).append(node)
        outside = {topic: sub for node in self.nodes for topic, sub in node.subscriptions_of.items()}
        self.nodes[0].inbox = Inbox(self.nodes[0].context, outside)

    def published(self) -> set[str]:
        """Topics that are published by a node of this process."""
        return {topic for node in self.nodes for topic in node.published()}

    def takers(self, topic: str) -> Sequence[ServoNode]:
        """The nodes of this process that take a topic."""
        return self._takers.get(topic, ())

    def send(self, publisher: Any, topic: str, data: bytes) -> None:
        """Hand a message to the nodes that take it, publish it later."""
        self._outgoing.append((publisher, data))
        for node in self.takers(topic):
            node.take(topic, data)

    def flush(self) -> None:
        """Publish what was sent."""
        for publisher, data in self._outgoing:
            publisher.publish(data)
        self._outgoing.clear()


class _Never(CallbackGroup):
    """A callback group whose entities no executor touches."""

    def can_execute(self, entity: Any) -> bool:
        return False

    def beginning_execution(self, entity: Any) -> bool:
        return False

    def ending_execution(self, entity: Any) -> None:
        return None


class Inbox:
    """Blocks on subscriptions until one has a message; gives serialised messages by topic.

    A servo topic has one publisher. While there is another, nobody can tell whose a message is, so none is given:
    what waits for them goes to zero force.
    """

    def __init__(self, context: Any, subscriptions: dict[str, Any]):
        self._subscriptions = [
            (topic, sub, sub.handle.pointer, sub.qos_profile.depth > 1) for topic, sub in subscriptions.items()
        ]
        self.contested: dict[str, int] = {}  # messages refused on topics with a publisher too many
        self._guard = rclpy.guard_condition.GuardCondition(callback=None, callback_group=None, context=context)
        self._wait_set = _rclpy.WaitSet(len(subscriptions), 1, 0, 0, 0, 0, context.handle)

    def wake(self) -> None:
        """End a wait from another thread."""
        self._guard.trigger()

    def wait(self, timeout: float | None) -> Iterator[tuple[str, bytes]]:
        """Wait up to `timeout` [s] (None: for ever) and give all messages that are there."""
        wait_set = self._wait_set
        with ExitStack() as stack:
            wait_set.clear_entities()
            for _, sub, _, _ in self._subscriptions:
                stack.enter_context(sub.handle)
                wait_set.add_subscription(sub.handle)
            stack.enter_context(self._guard.handle)
            wait_set.add_guard_condition(self._guard.handle)
            wait_set.wait(-1 if timeout is None else round(timeout * 1e9))
            ready = wait_set.get_ready_entities("subscription")
        for topic, sub, pointer, deep in self._subscriptions:
            more = pointer in ready
            while more:
                with sub.handle:
                    taken = sub.handle.take_message(sub.msg_type, True)
                    publishers = sub.handle.get_publisher_count()
                if taken is None:
                    break
                if publishers > 1 and topic != EVENTS:
                    self.contested[topic] = self.contested.get(topic, 0) + 1
                    break
                yield topic, taken[0]
                more = deep


class ServoNode(LifecycleNode):
    """A managed node whose core runs in a servo thread.

    Derived classes name their topics and parameters, build their core, and answer messages.
    """

    NAME: ClassVar[str]
    Config: ClassVar[type[TrialParameters]]
    SUBSCRIBES: ClassVar[tuple[str, ...]]
    PUBLISHES: ClassVar[tuple[str, ...]]
    DEPTH: ClassVar[int] = 1
    """Depth of the subscriptions; 1 where only the latest message counts."""

    config: Any

    def __init__(self, name: str):
        super().__init__(name)
        self.declare_parameter(
            "autostart",
            True,
            ParameterDescriptor(description="Configure and activate at once", read_only=True),
        )
        self.finished = threading.Event()
        self.exit_code = 0
        self._stopping = False
        self._thread: threading.Thread | None = None
        self.inbox: Inbox | None = None
        self.subscriptions_of: dict[str, Any] = {}
        self.composition: Composition | None = None
        self._publishers_of: dict[str, Any] = {}
        self._new_config: Any = None
        self._declared = False
        self.refused = 0
        self.scheduler = ""

    # What derived classes provide

    def build(self) -> None:
        """Make the core from `self.config`."""
        raise NotImplementedError

    def subscribed(self) -> tuple[str, ...]:
        """The topics that this node listens to with its present parameters."""
        return self.SUBSCRIBES

    def published(self) -> tuple[str, ...]:
        """The topics that this node publishes with its present parameters."""
        return self.PUBLISHES

    def receive(self, topic: str, data: bytes) -> None:
        """Answer a message; MessageError refuses it."""
        raise NotImplementedError

    def reconfigure(self) -> None:
        """Take a changed `self.config`; called between two messages."""

    def prepared(self) -> bool:
        """Whether this node can start the trial."""
        return True

    def idle(self) -> bool:
        """Called every 10 ms until it returns True: nothing is left to do before the first tick."""
        return True

    def serve(self) -> None:
        """The servo thread's work: wait for messages and answer them until stopped."""
        self.hurry()
        announced = settled = False
        deadline = time.monotonic() + READY_TIMEOUT
        while not self.stopping:
            self.listen(None if announced and settled else POLL)
            if not announced:
                announced = self.announce_if_ready(deadline)
            if not settled:
                settled = self.idle()

    def health(self) -> tuple[str, dict[str, object]]:
        """What /diagnostics says of this node: its trouble (empty: none) and values."""
        trouble = f"{self.refused} messages were refused" if self.refused else ""
        return trouble, {"refused messages": self.refused, "scheduler": self.scheduler or "default"}

    # Services to derived classes

    def hurry(self) -> None:
        """In realtime, give this thread priority; say so once if it gets none."""
        if self.config.realtime:
            self.scheduler, reason = prioritise()
            if reason and self.get_name() == "driver":
                self.get_logger().warning(reason)

    @property
    def stopping(self) -> bool:
        """Whether the servo thread shall end."""
        return self._stopping

    def listen(self, timeout: float | None) -> bool:
        """Take what arrives within `timeout` [s] (None: for ever), for all nodes of the process; whether it did."""
        assert self.inbox is not None
        self.flush()
        heard = False
        for topic, data in self.inbox.wait(timeout):
            heard = True
            for node in (self,) if self.composition is None else self.composition.takers(topic):
                node.take(topic, data)
        if self.inbox.contested:
            self._refuse_contested(self.inbox.contested)
        return heard

    def _refuse_contested(self, contested: dict[str, int]) -> None:
        """Say and count that messages were refused because a topic has a foreign publisher."""
        self.refused += sum(contested.values())
        self.get_logger().error(
            f"refused: {', '.join(contested)} has a foreign publisher; a servo topic must have one, find it with "
            "`ros2 topic info --verbose`",
            throttle_duration_sec=1.0,
        )
        contested.clear()

    def flush(self) -> None:
        """Publish what a composition has held back."""
        if self.composition is not None:
            self.composition.flush()

    def take(self, topic: str, data: bytes) -> None:
        """Hand a message to `receive`; say so when it is refused, and go on."""
        if self._new_config is not None:
            self.config, self._new_config = self._new_config, None
            self.reconfigure()
        try:
            self.receive(topic, data)
        except MessageError as error:
            self.refused += 1
            self.get_logger().warning(f"refused: {error}", throttle_duration_sec=1.0)

    def send(self, topic: str, data: bytes) -> None:
        """Publish serialised bytes; in a composition, hand them to its nodes first."""
        if self.composition is None:
            self._publishers_of[topic].publish(data)
        else:
            self.composition.send(self._publishers_of[topic], topic, data)

    def tell(self, name: str, tick: int = -1, detail: str = "") -> None:
        """Publish a TrialEvent."""
        event = msg.TrialEvent(tick=tick, node=self.get_name(), name=name, detail=detail)
        self._publishers_of[EVENTS].publish(event)

    def unmatched(self) -> list[str]:
        """The servo topics on which not all peers of the trial have been found yet."""
        missing = [
            topic
            for topic in self.published()
            if self._publishers_of[topic].get_subscription_count() < self._listeners(topic)
        ]
        missing += [
            topic
            for topic, subscription in self.subscriptions_of.items()
            if topic != EVENTS and subscription.get_publisher_count() < 1
        ]
        return missing

    def _listeners(self, topic: str) -> int:
        """How many subscriptions of other processes a topic must find."""
        inside = 0 if self.composition is None else len(self.composition.takers(topic))
        return self.config.listeners(topic) - inside

    def announce_if_ready(self, deadline: float) -> bool:
        """Say `ready` once all peers are found and this node is prepared.

        Raises:
            ServoError: not before `deadline`.
        """
        missing = self.unmatched()
        if not missing and self.prepared():
            self.tell("ready")
            return True
        if time.monotonic() > deadline:
            raise ServoError(
                f"not ready after {READY_TIMEOUT:g} s: no peer on {', '.join(missing)}"
                if missing
                else f"not ready after {READY_TIMEOUT:g} s: no initial message"
            )
        return False

    def end(self, exit_code: int = 0) -> None:
        """End the process with an exit code; the first one counts."""
        if not self.finished.is_set():
            self.exit_code = exit_code
        self.finished.set()

    def stop_servo(self) -> None:
        """End the servo thread and wait for it."""
        self._stopping = True
        if self.inbox is not None:
            self.inbox.wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5.0)
            self._thread = None

    # Lifecycle

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Read and check the parameters, build the core, open the topics."""
        try:
            if not self._declared:
                declare(self, self.Config)
                self._declared = True
            self.config = read(self, self.Config)
            self.build()
        except (ParameterError, rclpy.exceptions.ParameterException) as error:
            self.get_logger().error(f"cannot be configured: {error}")
            return TransitionCallbackReturn.FAILURE
        except Exception:  # rclpy would say nothing of it
            self.get_logger().error(f"cannot be configured:\n{traceback.format_exc()}")
            return TransitionCallbackReturn.FAILURE
        self.add_on_set_parameters_callback(self._on_set_parameters)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._diagnosis = self.create_timer(1.0, self._diagnose)
        servo_qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        for topic in self.published():
            self._publishers_of[topic] = self.create_publisher(_type(topic), topic, servo_qos)
        self._publishers_of[EVENTS] = self.create_publisher(msg.TrialEvent, EVENTS, _EVENT_QOS)
        group = _Never()
        listen_qos = QoSProfile(depth=self.DEPTH, reliability=ReliabilityPolicy.BEST_EFFORT)
        inside = set() if self.composition is None else self.composition.published()
        for topic in self.subscribed():
            if topic in inside:
                continue
            self.subscriptions_of[topic] = self.create_subscription(
                _type(topic),
                topic,
                _taken_elsewhere,
                _EVENT_QOS if topic == EVENTS else listen_qos,
                callback_group=group,
                raw=True,
            )
        if self.composition is None:
            self.inbox = Inbox(self.context, self.subscriptions_of)
        return TransitionCallbackReturn.SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start the servo thread; in a composition the first node's serves all."""
        self._stopping = False
        if self.composition is not None and self.composition.nodes[0] is not self:
            return TransitionCallbackReturn.SUCCESS
        self._thread = threading.Thread(target=self._serve, name="servo", daemon=True)
        self._thread.start()
        return TransitionCallbackReturn.SUCCESS

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the servo thread."""
        self.stop_servo()
        return TransitionCallbackReturn.SUCCESS

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the topics."""
        self.stop_servo()
        self.remove_on_set_parameters_callback(self._on_set_parameters)
        self.inbox = None
        self.destroy_timer(self._diagnosis)
        self.destroy_publisher(self._diagnostics)
        for publisher in self._publishers_of.values():
            self.destroy_publisher(publisher)
        for subscription in self.subscriptions_of.values():
            self.destroy_subscription(subscription)
        self._publishers_of.clear()
        self.subscriptions_of.clear()
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the process."""
        self.stop_servo()
        self.end()
        return TransitionCallbackReturn.SUCCESS

    def _diagnose(self) -> None:
        """Say on /diagnostics how this node is; in the executor's thread."""
        trouble, values = self.health()
        status = DiagnosticStatus(
            level=DiagnosticStatus.WARN if trouble else DiagnosticStatus.OK,
            name=f"{self.get_fully_qualified_name()}: servo",
            message=trouble or "as it should be",
            hardware_id=self.get_name(),
            values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
        )
        message = DiagnosticArray(status=[status])
        message.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(message)

    def _on_set_parameters(self, changes: list[Parameter]) -> SetParametersResult:
        try:
            self._new_config = read(self, self.Config, changes)
        except ParameterError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _serve(self) -> None:
        try:
            self.serve()
        except ServoError as error:
            self.get_logger().error(str(error))
            self.end(1)
        except Exception:
            self.get_logger().error(f"servo thread failed:\n{traceback.format_exc()}")
            self.end(1)


def _type(topic: str) -> Any:
    return msg.TrialEvent if topic == EVENTS else getattr(msg, TOPICS[topic].TYPE.rpartition("/")[2])


def _taken_elsewhere(message: Any) -> None:
    """Never called: the servo thread takes these messages."""


def run(*kinds: type[ServoNode]) -> int:
    """Run a node, or several as a composition, until the first ends or is told to (SIGINT, SIGTERM).

    Returns:
        The exit status of the process.
    """
    _die_with_parent()
    rclpy.init(args=sys.argv, signal_handler_options=SignalHandlerOptions.NO)
    nodes = [kind(kind.NAME) for kind in kinds]
    first = nodes[0]
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: first.end(first.exit_code))
    executor = SingleThreadedExecutor()
    for node in nodes:
        executor.add_node(node)
    spinner = threading.Thread(target=_spin, args=(executor,), name="executor", daemon=True)
    spinner.start()
    if first.get_parameter("autostart").value:
        _start(nodes)
    first.finished.wait()
    first.stop_servo()
    executor.shutdown(timeout_sec=1.0)
    spinner.join(timeout=1.0)
    for node in nodes:
        node.destroy_node()
    rclpy.try_shutdown()
    return first.exit_code


def _start(nodes: Sequence[ServoNode]) -> None:
    """Configure and activate: the first last, as its thread serves the others."""
    composition = Composition(nodes) if len(nodes) > 1 else None
    for node in nodes:
        node.composition = composition
    for node in reversed(nodes):  # the topics of the tool's side, the last, depend on its parameters
        if node.trigger_configure() != TransitionCallbackReturn.SUCCESS:
            nodes[0].end(1)
            return
    if composition is not None:
        composition.open()
    for node in reversed(nodes):
        node.trigger_activate()


def _spin(executor: SingleThreadedExecutor) -> None:
    try:
        executor.spin()
    except ExternalShutdownException:
        return


def _die_with_parent() -> None:
    """Be ended by the kernel when the process that started this one is killed, if it asked for that."""
    parent = os.environ.get("HAPTICS_PARENT")
    if parent is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)  # PR_SET_PDEATHSIG
    if str(os.getppid()) != parent:
        sys.exit(1)
