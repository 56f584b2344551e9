"""The base of every node on the servo path: lifecycle, parameters, a servo thread that blocks on its topics.

The servo thread waits on an rcl wait set for serialised messages and publishes serialised ones; an executor in a second
thread serves parameters and lifecycle. Servo subscriptions are in a callback group that the executor may never run,
because it would take their messages.

A trial starts behind a barrier: a node publishes `ready` on `trial_events` once each of its publishers has found all
its subscriptions and the other way round; the driver starts the first tick when all nodes are ready.
"""

from __future__ import annotations

import difflib
import json
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, ClassVar

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from haptics import msg
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.exceptions import ParameterNotDeclaredException
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from haptic_ros.composition import Composition
from haptic_ros.graph import EVENTS, OPERATOR, RELIABLE, Role, in_trial
from haptic_ros.inbox import Inbox, ServoGroup
from haptic_ros.middleware.reception import raw_publish
from haptic_ros.realtime import prioritise, without_collector
from haptic_ros.ros_parameters import TRIAL, declare, read
from haptic_ros.standard_topics import StandardTopics
from haptic_ros.trial import COMPILING, DEACTIVATED, POLL, QUIET, ServoError, TrialParameters
from haptic_sim.dynamics.energy import UnstableError
from haptic_sim.kernels import progress
from haptic_sim.messages import INPUTS, TOPICS, Message, MessageError, split_topic, tick_time, topic_of
from haptic_sim.parameters import ParameterError

TRANSITIONS = ("on_configure", "on_activate", "on_deactivate", "on_cleanup", "on_shutdown")
GIL_TURN = 1e-4  # [s] after which the executor's thread lets the servo thread go on; Python's own is 5 ms
_WORLD_QOS = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
"""Reaches whoever looks on, whatever they ask for; deeper than the leader is ahead of the recorder in lockstep."""
UNKNOWN_NODE = "_NODE_NAME_UNKNOWN_"  # of a publisher whose node the graph does not know, or not yet
_EVENT_QOS = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class ServoNode(LifecycleNode):
    """A managed node whose core runs in a servo thread.

    Derived classes name their topics and parameters, build their core, and answer messages.
    """

    NAME: ClassVar[str]
    Config: ClassVar[type[TrialParameters]]

    config: Any
    realtime: bool
    """Whether the trial runs on the wall clock."""

    def __init__(self, name: str):
        for transition in TRANSITIONS:  # as rclpy will call them
            setattr(self, transition, partial(self._transit, getattr(self, transition)))
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
        # Without the checks of Publisher.publish: the servo thread ends before the publishers do.
        self._publish: dict[str, Callable[[bytes], None]] = {}
        self.last_sent: dict[str, bytes] = {}  # by topic; bytes are never changed
        self._standard: StandardTopics | None = None
        self._changes: deque[tuple[Any, dict[str, Any]]] = deque()  # new configurations, and what is new in them
        self._declared = False
        self._reporting: progress.Report | None = None
        self.refused = 0
        self.contested = 0  # messages that were refused because of a foreign publisher
        self.scheduler = ""

    # What derived classes provide

    def build(self) -> None:
        """Make the core from `self.config`."""

    def standard_topics(self, rate: float, reliable: bool) -> StandardTopics | None:
        """The topics of standard messages that this node has; None: none."""
        return None

    def has(self, topic: str) -> bool:
        """Whether this node has an optional topic of its role with its present parameters."""
        return True

    def checked_publishers(self) -> tuple[str, ...]:
        """The topics whose messages count by who published them."""
        return (EVENTS,)

    def counted(self) -> tuple[str, ...]:
        """The topics of which nothing is sent before this node is ready: what is missing of them is lost."""
        return ()

    def receive(self, topic: str, data: bytes | Message) -> None:
        """Answer a message: its bytes, or in a composition the message itself; MessageError refuses it."""

    def reconfigure(self) -> None:
        """Take a changed `self.config`; called between two messages."""

    def next_tick(self) -> int:
        """The first tick whose computation is yet to come."""
        return 0

    def prepared(self) -> bool:
        """Whether this node can start the trial."""
        return True

    def idle(self) -> bool:
        """Called every 10 ms until it returns True: nothing is left to do before the first tick."""
        return True

    def repeat(self) -> None:
        """Send again what a peer that comes later has to know; called in a graph that only runs while it is quiet."""

    def look_ahead(self) -> None:
        """Do what the next tick needs and does not depend on its messages; called when a tick has been answered."""

    def serve(self) -> None:
        """The servo thread's work: wait for messages and answer them until stopped."""
        self.raise_priority()
        announced = settled = False
        while not self.stopping:
            quiet = QUIET if self.config.endless else None
            if not self.listen(quiet if announced and settled else POLL) and announced and settled:
                self.repeat()
            if not announced:
                announced = self.announce_if_ready()
            if not settled:
                settled = self.idle()

    def health(self) -> tuple[str, dict[str, object]]:
        """What /diagnostics says of this node: its trouble (empty: none) and values."""
        trouble = f"{self.refused} messages were refused" if self.refused else ""
        return trouble, {"refused messages": self.refused, "scheduler": self.scheduler or "default"}

    def monitor(self) -> None:
        """Called each second in the executor's thread: nothing here may take the servo thread's time."""

    # Services to derived classes

    @property
    def role(self) -> Role:
        """What this node is in the trial."""
        return self.config.graph.role(self.member)

    def subscribed(self) -> tuple[str, ...]:
        """The topics that this node takes with its present parameters, as it calls them."""
        return tuple(filter(self._uses, self.config.graph.taken(self.role)))

    def published(self) -> tuple[str, ...]:
        """The topics that it publishes."""
        return tuple(filter(self._uses, self.config.graph.published(self.role)))

    def _uses(self, topic: str) -> bool:
        return split_topic(topic)[1] not in self.role.optional or self.has(topic)

    def raise_priority(self) -> None:
        """In realtime, give this thread priority; say so once if it gets none."""
        if self.realtime:
            sys.setswitchinterval(GIL_TURN)
            self.scheduler, reason = prioritise(self.role.rank, self.config.graph.loop_of(self.role))
            if reason and self.member == "driver":
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
        self.contested += sum(contested.values())
        self.get_logger().error(
            f"refused: {', '.join(contested)} has a foreign publisher; find it with `ros2 topic info --verbose`",
            throttle_duration_sec=1.0,
        )
        contested.clear()

    def foreign(self, topic: str) -> list[str]:
        """Nodes that publish a topic of the trial and are not of it, or are duplicates."""
        ours = self._publishers_of_the_trial(topic)
        infos = self.get_publishers_info_by_topic(self.place(topic))
        publishers = [(info.node_namespace, info.node_name) for info in infos]
        found = []
        for where, name in dict.fromkeys(publishers):
            full, times = f"{where.rstrip('/')}/{name}", publishers.count((where, name))
            if name == UNKNOWN_NODE:  # it was just found, or is of no ROS node
                found += ["no ROS node"] if len(publishers) > 1 else []
            elif (where, name) not in ours:
                found.append(full)
            elif times > 1:
                found.append(f"another {full}")
        return found

    @property
    def root(self) -> str:
        """The trial's namespace, in which those of further hands are."""
        hand = self.config.of_hand
        return self.get_namespace().removesuffix(f"/{hand}") if hand else self.get_namespace().rstrip("/")

    @property
    def member(self) -> str:
        """The node's name in the trial: that of a further hand is HAND/NAME."""
        return topic_of(self.config.of_hand, self.get_name())

    def place(self, topic: str) -> str:
        """The full name of a topic, or one in the node's namespace."""
        inside = in_trial(self.config.of_hand, topic)
        return f"{self.root}/{inside}" if self.config.of_hand else inside

    def _publishers_of_the_trial(self, topic: str) -> set[tuple[str, str]]:
        """Namespace and name of each node of the trial that may publish a topic."""
        names = map(split_topic, self.config.graph.publishers(in_trial(self.config.of_hand, topic)))
        return {((f"{self.root}/{hand}" if hand else self.root) or "/", name) for hand, name in names}

    def flush(self) -> None:
        """Publish what a composition has held back."""
        if self.composition is not None:
            self.composition.flush()

    def take(self, topic: str, data: bytes | Message) -> None:
        """Hand a message to `receive`; say so when it is refused, and go on."""
        if self._stopping:
            return  # of a composition, in which other nodes are still active
        if self._changes:
            self.apply_changes()
        try:
            self.receive(topic, data)
        except MessageError as error:
            self.refuse(error)

    def refuse(self, error: MessageError) -> None:
        """Count and say that a message cannot be used."""
        self.refused += 1
        self.get_logger().warning(f"refused: {error}", throttle_duration_sec=1.0)

    def apply_changes(self) -> None:
        """Take parameters that were changed; called between two messages, or two ticks."""
        while self._changes:
            self._change(*self._changes.popleft())

    def _change(self, config: Any, values: dict[str, Any]) -> None:
        """Take changed parameters, and say from which tick on they act: the recorder keeps it."""
        self.config = config
        self.reconfigure()
        for name, value in values.items():
            key = name.removeprefix(f"{TRIAL}.")
            self.publish_event("changed", self.next_tick(), f"{key}={json.dumps(value, default=list)}")

    def send(self, topic: str, message: bytes | Message) -> None:
        """Publish a message, or its bytes; in a composition, hand it to its nodes first."""
        data = self.last_sent[topic] = message if isinstance(message, bytes) else message.to_bytes()
        if self.composition is None:
            self._publish[topic](data)
        else:
            self.composition.send(self._publish[topic], topic, data, message)

    def time_of(self, tick: int) -> int:
        """The stamp of a tick that begins now [ns]: ROS time; in lockstep the trial's time, whatever the clock says."""
        return self.get_clock().now().nanoseconds if self.realtime else tick_time(tick, self.config.rate)

    def publish_event(self, name: str, tick: int = -1, detail: str = "") -> None:
        """Publish a TrialEvent."""
        event = msg.TrialEvent(tick=tick, node=self.member, name=name, detail=detail)
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
            if topic not in (EVENTS, OPERATOR) and subscription.get_publisher_count() < 1
        ]
        if not missing and self.inbox is not None and self.inbox.checked_publishers:
            # Their names come by another way than their messages, which would have to wait for them.
            missing = [topic for topic in sorted(self.inbox.checked_publishers) if not self._is_named(topic)]
        return missing

    def _is_named(self, topic: str) -> bool:
        """Whether a publisher of the trial is known by its name."""
        infos = self.get_publishers_info_by_topic(self.place(topic))
        names = {(info.node_namespace, info.node_name) for info in infos}
        return not names.isdisjoint(self._publishers_of_the_trial(topic))

    def _listeners(self, topic: str) -> int:
        """How many subscriptions of other processes a topic must find."""
        inside = 0 if self.composition is None else len(self.composition.takers(topic))
        return self.config.graph.listeners(in_trial(self.config.of_hand, topic)) - inside

    def announce_if_ready(self) -> bool:
        """Say `ready` if all peers are found and this node is prepared; whether they are and it is."""
        if self.unmatched() or not self.prepared():
            return False
        self.publish_event("ready")
        return True

    def end(self, exit_code: int = 0) -> None:
        """End the process with an exit code; the first one counts."""
        first = self if self.composition is None else self.composition.nodes[0]
        for node in (self, first):
            if not node.finished.is_set():
                node.exit_code = exit_code
            node.finished.set()

    def release(self) -> None:
        """Leave what this node drives without force, at once; from any thread."""

    def stop_servo(self) -> None:
        """End the servo thread and wait for it."""
        self._stopping = True
        if self.inbox is not None:
            self.inbox.wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5.0)
            self._thread = None

    def open_inbox(self, subscriptions: dict[str, Any]) -> Inbox:
        """What takes the messages of subscriptions; of `checked_publishers` topics those of the trial's nodes only."""
        checked_publishers = [topic for topic in self.checked_publishers() if topic in subscriptions]
        self._accepted: dict[tuple[str, bytes], bool] = {}  # whether a topic is of a publisher
        if checked_publishers:
            try:
                return Inbox(self.context, subscriptions, self._is_of_the_trial, checked_publishers, self.counted())
            except (OSError, AttributeError) as error:
                self.get_logger().warning(f"messages cannot be told apart by their publisher: {error}")
        return Inbox(self.context, subscriptions)

    def _is_of_the_trial(self, topic: str, gid: bytes) -> bool | None:
        """Whether a publisher is one that a topic shall have: the first of its name, as long as it is there."""
        known = self._accepted.get((topic, gid))
        if known is not None:
            return known
        infos = self.get_publishers_info_by_topic(self.place(topic))
        name_of = {bytes(info.endpoint_gid)[: len(gid)]: (info.node_namespace, info.node_name) for info in infos}
        where, name = name_of.get(gid, ("", UNKNOWN_NODE))
        if name == UNKNOWN_NODE:
            return None  # the graph does not know it yet
        rivals = [one for one, named in name_of.items() if named == (where, name) and one != gid]
        accepted = (where, name) in self._publishers_of_the_trial(topic)
        accepted &= not any(self._accepted.get((topic, one), True) for one in rivals)
        self._accepted[topic, gid] = accepted
        return accepted

    def close_inbox(self) -> None:
        """Let go of the subscriptions; the servo thread has ended."""
        if self.inbox is not None:
            self.inbox.close()
            self.inbox = None

    # Lifecycle

    def _transit(
        self, transition: Callable[[LifecycleState], TransitionCallbackReturn], state: LifecycleState
    ) -> TransitionCallbackReturn:
        """Make a transition; one that fails ends the process: rclpy says nothing of it."""
        try:
            return transition(state)
        except Exception:
            self.release()
            self.get_logger().error(f"a transition failed, and ends this node:\n{traceback.format_exc()}")
            self.end(1)
            return TransitionCallbackReturn.ERROR

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Read and check the parameters, build the core, open the topics."""
        try:
            if not self._declared:
                declare(self, self.Config)
                self._declared = True
            self.config = read(self, self.Config)
            self.realtime = self.config.realtime
            self._publishers_of[EVENTS] = self.create_publisher(msg.TrialEvent, self.place(EVENTS), _EVENT_QOS)
            self._report_compilation()
            self.build()
            self._open_topics()
            standard = self.config.standard_topics
            if standard.rate is not None:
                self._standard = self.standard_topics(standard.rate, standard.reliable)
        except (ParameterError, rclpy.exceptions.ParameterException) as error:
            return self._not_configured(str(error))
        except Exception:  # rclpy would say nothing of it
            return self._not_configured(f"\n{traceback.format_exc()}")
        self.add_on_set_parameters_callback(self._on_set_parameters)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._diagnosis = self.create_timer(1.0, self._diagnose)
        return TransitionCallbackReturn.SUCCESS

    def _open_topics(self) -> None:
        """Make the publishers and subscriptions of the servo topics, and what takes the messages."""
        servo_qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        for topic in self.published():
            qos = _WORLD_QOS if topic in RELIABLE else servo_qos
            publisher = self._publishers_of[topic] = self.create_publisher(_type(topic), self.place(topic), qos)
            self._publish[topic] = raw_publish(publisher)
        group = ServoGroup()
        listen_qos = QoSProfile(depth=self.role.depth, reliability=ReliabilityPolicy.BEST_EFFORT)
        inside = set() if self.composition is None else self.composition.published(self.config.graph)
        for topic in self.subscribed():
            if topic in inside:
                continue
            self.subscriptions_of[topic] = self.create_subscription(
                _type(topic),
                self.place(topic),
                _taken_elsewhere,
                {EVENTS: _EVENT_QOS, **dict.fromkeys(RELIABLE, _WORLD_QOS)}.get(topic, listen_qos),
                callback_group=group,
                raw=True,
            )
        if self.composition is None:
            self.inbox = self.open_inbox(self.subscriptions_of)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start the servo thread; in a composition the first node's serves all."""
        self._stopping = False
        if self.composition is not None and self.composition.nodes[0] is not self:
            return TransitionCallbackReturn.SUCCESS
        self._thread = threading.Thread(target=self._serve, name="servo", daemon=True)
        self._thread.start()
        return TransitionCallbackReturn.SUCCESS

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the servo thread, and with it the trial, if there is one."""
        if not self.finished.is_set():
            self.publish_event(DEACTIVATED, self.next_tick())
        self.stop_servo()
        return TransitionCallbackReturn.SUCCESS

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the topics."""
        self.stop_servo()
        self.remove_on_set_parameters_callback(self._on_set_parameters)
        self.destroy_timer(self._diagnosis)
        self.destroy_publisher(self._diagnostics)
        self._close_topics()
        return TransitionCallbackReturn.SUCCESS

    def _close_topics(self) -> None:
        """Close those that are open."""
        if self._standard is not None:
            self._standard.close()
            self._standard = None
        self.close_inbox()
        for publisher in self._publishers_of.values():
            self.destroy_publisher(publisher)
        for subscription in self.subscriptions_of.values():
            self.destroy_subscription(subscription)
        self._publishers_of.clear()
        self._publish.clear()
        self.subscriptions_of.clear()

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the process."""
        self.stop_servo()
        self.end()
        return TransitionCallbackReturn.SUCCESS

    def _not_configured(self, reason: str) -> TransitionCallbackReturn:
        """Say why, and close what is open."""
        self.get_logger().error(f"cannot be configured: {reason}")
        self._close_topics()
        return TransitionCallbackReturn.FAILURE

    def _report_compilation(self) -> None:
        """From here on, say when kernels are compiled: to people, and to the leader, who then waits."""
        say = progress.Progress(self.get_logger().info)

        def report(compiled: int, name: str) -> None:
            say(compiled, name)
            if EVENTS in self._publishers_of:
                self.publish_event(COMPILING, detail=name)

        progress.report = self._reporting = report

    def destroy_node(self) -> None:
        """Close all that is of this node; nothing says any more through it that kernels are compiled."""
        if progress.report is self._reporting:
            progress.report = None
        super().destroy_node()

    def _diagnose(self) -> None:
        """Say on /diagnostics how this node is; in the executor's thread."""
        self.monitor()
        trouble, values = self.health()
        status = DiagnosticStatus(
            level=DiagnosticStatus.WARN if trouble else DiagnosticStatus.OK,
            name=f"{self.get_fully_qualified_name()}: servo",
            message=trouble or "OK",
            hardware_id=self.get_name(),
            values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
        )
        message = DiagnosticArray(status=[status])
        message.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(message)

    def set_parameters_atomically(self, parameter_list: list[Parameter]) -> SetParametersResult:
        """As of rclpy; a name that is not known is named, with the one that may be meant."""
        try:
            return super().set_parameters_atomically(parameter_list)
        except ParameterNotDeclaredException:
            unknown = [one.name for one in parameter_list if not self.has_parameter(one.name)]
            known = self.list_parameters([], 0).names
            near = [difflib.get_close_matches(name, known, n=1) for name in unknown]
            hints = [f"; did you mean {names[0]}?" if names else "" for names in near]
            reasons = [f"{name}: unknown parameter{hint}" for name, hint in zip(unknown, hints, strict=True)]
            return SetParametersResult(successful=False, reason="; ".join(reasons))

    def _on_set_parameters(self, changes: list[Parameter]) -> SetParametersResult:
        try:
            config = read(self, self.Config, changes)
        except ParameterError as error:
            return SetParametersResult(successful=False, reason=str(error))
        except Exception as error:  # what asks gets an answer, whatever it is
            self.get_logger().error(f"parameters cannot be changed:\n{traceback.format_exc()}")
            return SetParametersResult(successful=False, reason=f"{type(error).__name__}: {error}")
        self._changes.append((config, {change.name: change.value for change in changes}))
        return SetParametersResult(successful=True)

    def _serve(self) -> None:
        try:
            with without_collector() if self.realtime else nullcontext():
                self.serve()
        except (ServoError, UnstableError) as error:
            self.get_logger().error(str(error))
            self.end(1)
        except Exception:
            self.get_logger().error(f"servo thread failed:\n{traceback.format_exc()}")
            self.end(1)


def _type(topic: str) -> Any:
    if topic == EVENTS:
        return msg.TrialEvent
    return getattr(msg, (TOPICS | INPUTS)[split_topic(topic)[1]].TYPE.rpartition("/")[2])


def _taken_elsewhere(message: Any) -> None:
    """Never called: the servo thread takes these messages."""
