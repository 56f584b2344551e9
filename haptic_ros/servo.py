"""The base of every node on the servo path: lifecycle, and a servo thread that blocks on the node's topics.

The servo thread waits for serialised messages and publishes serialised ones; an executor in a second thread serves
parameters and lifecycle. A node has its parts: topics (`transport`), what it waits for before a trial (`barrier`), and
parameters that may be changed (`live`).

A trial starts behind a barrier: a node publishes `ready` on `trial_events` once each of its publishers has found all
its subscriptions and the other way round; the driver starts the first tick when all nodes are ready.
"""

from __future__ import annotations

import inspect
import json
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, ClassVar

import rclpy
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.exceptions import ParameterNotDeclaredException
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter

from haptic_ros.diagnosis import Diagnosis
from haptic_ros.graph import EVENTS, Role, in_trial
from haptic_ros.live_parameters import LiveParameters
from haptic_ros.middleware.reception import raw_time
from haptic_ros.realtime import prioritise, share_core, without_collector
from haptic_ros.ros_parameters import TRIAL
from haptic_ros.signal_event import SignalEvent
from haptic_ros.standard_topics import StandardTopics
from haptic_ros.transport import Barrier, Transport
from haptic_ros.trial import COMPILING, DEACTIVATED, POLL, QUIET, REFUSED, ServoError, TrialParameters
from haptic_sim.dynamics.energy import UnstableError
from haptic_sim.kernels import progress
from haptic_sim.messages import Message, MessageError, tick_time, topic_of
from haptic_sim.parameters import ParameterError

TRANSITIONS = ("on_configure", "on_activate", "on_deactivate", "on_cleanup", "on_shutdown")
# [s] after which another thread lets the servo thread go on, and the other way round; Python's own is 5 ms. With 10 us
# fewer ticks were answered within the period at 5 kHz (docs/performance.md).
GIL_TURN = 1e-4
STOP = 5.0  # [s] for the servo thread to end
STARTING = 1.0  # [s] for an automatic start to be over before a transition is made that was requested meanwhile


def find_modules() -> None:
    """Find the files of all modules, as rclpy's logger does at its first message: 70 ms, but where they are known."""
    inspect.getmodule(inspect.currentframe())


class ServoNode(LifecycleNode):
    """A managed node whose core runs in a servo thread.

    Derived classes name their parameters, build their core, and answer messages; their topics are those of their role.

    Attributes:
        transport: the servo topics, of which `send`, `listen` and `publish_event` are.
        barrier: what the node waits for before a trial.
        live: its parameters.
        finished: set when the process is to end, with `exit_code`.
        refused: number of messages that could not be used.
        start_over: set while no automatic start is in progress, in which no other transition is made.
    """

    NAME: ClassVar[str]
    Config: ClassVar[type[TrialParameters]]

    _unfinished = False  # whether it has been active since `finish` was last called
    _ends = False  # whether its process ends

    config: Any
    realtime: bool
    """Whether the trial runs on the wall clock."""
    endless: bool
    """Whether it goes on for ever there: nodes may go and come back."""

    def __init__(self, name: str):
        for transition in TRANSITIONS:  # as rclpy will call them
            setattr(self, transition, partial(self._transit, getattr(self, transition)))
        super().__init__(name)
        changes = self._service_change_state
        changes.callback = partial(self._answer_change, changes.callback)
        self.start_over = threading.Event()
        self.start_over.set()
        self.declare_parameter(
            "autostart",
            True,
            ParameterDescriptor(description="Configure and activate at once", read_only=True),
        )
        self.finished = SignalEvent()
        self.exit_code = 0
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._changing = threading.Lock()  # starting and ending of the servo thread, `finished`, and what is unfinished
        self.transport = transport = Transport(self)
        self.barrier, self.live = Barrier(self, transport), LiveParameters(self, self.Config)
        self.send, self.listen, self.publish_event = transport.send, transport.listen, transport.publish_event
        self.last_sent = transport.last_sent
        self._now = raw_time(self.get_clock())
        self._standard: StandardTopics | None = None
        self._diagnosis: Diagnosis | None = None
        self._reporting: progress.Report | None = None
        self.refused = self._unusable = 0  # of which no foreign publisher is to blame for the second
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

    def finish(self) -> None:
        """Write what is left at the end of an activation; called once for each, when the servo thread has ended."""

    def quiet(self) -> float | None:
        """Time without a message after which `repeat` is called [s]; None: never."""
        return QUIET if self.endless else None

    def repeat(self) -> None:
        """Send again what a peer that comes later has to know, as it may in a graph that only runs."""

    def look_ahead(self) -> None:
        """Do what the next tick needs and does not depend on its messages; called when a tick has been answered."""

    def serve(self) -> None:
        """The servo thread's work: wait for messages and answer them until stopped."""
        self.raise_priority()
        announced = settled = False
        quiet = self.quiet()
        while not self.stopping:
            if not self.listen(quiet if announced and settled else POLL) and announced and settled:
                self.repeat()
            if not announced:
                announced = self.barrier.announce_if_ready()
            if not settled:
                settled = self.idle()

    def health(self) -> tuple[str, dict[str, object]]:
        """Status of this node for /diagnostics: its trouble (empty: none) and values."""
        trouble = f"{self.refused} messages were refused" if self.refused else ""
        return trouble, {"refused messages": self.refused, "scheduler": self.scheduler or "default"}

    def monitor(self) -> None:
        """Called each second in a thread beside the servo thread, whose time nothing here may take."""

    # Services to derived classes

    @property
    def role(self) -> Role:
        """Role of this node in the trial."""
        role: Role = self.config.graph.role(self.member)
        return role

    def raise_priority(self) -> None:
        """In realtime, give this thread priority; say so once if it gets none. In lockstep, share the trial's core."""
        if not self.realtime:
            share_core(self.root)
        else:
            sys.setswitchinterval(GIL_TURN)
            self.scheduler, reason = prioritise(self.role.rank, self.config.graph.loop_of(self.role))
            if reason and self.member == "driver":
                self.get_logger().warning(reason)

    @property
    def servo_thread(self) -> threading.Thread | None:
        """The thread that has been started and not been waited for; in a composition the first node has it."""
        return self._thread

    @property
    def stopping(self) -> bool:
        """Whether the servo thread shall end."""
        return self._stopping

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

    def take(self, topic: str, data: bytes | Message) -> None:
        """Hand a message to `receive`; say so when it is refused, and go on."""
        if self._stopping:
            return  # of a composition, in which other nodes are still active
        if self.live.changes:
            self.apply_changes()
        try:
            self.receive(topic, data)
        except MessageError as error:
            self.refuse(error)

    def refuse(self, error: MessageError) -> None:
        """Count that a message cannot be used, and say so of the first, second, fourth, ..., with their number."""
        self.refused += 1
        self._unusable += 1
        if not self._unusable & (self._unusable - 1):
            so_far = f" ({self._unusable} messages so far)" if self._unusable > 1 else ""
            self.get_logger().warning(f"refused: {error}{so_far}")
            self.publish_event(REFUSED, self.next_tick(), f"{error}{so_far}")

    def apply_changes(self) -> None:
        """Take parameters that were changed; called between two messages, or two ticks."""
        while self.live.changes:
            self.config, values = self.live.changes.popleft()
            self.reconfigure()
            for name, value in values.items():  # from which tick on they act: the recorder keeps it
                key = name.removeprefix(f"{TRIAL}.")
                self.publish_event("changed", self.next_tick(), f"{key}={json.dumps(value, default=list)}")

    def time_of(self, tick: int) -> int:
        """The stamp of a tick that begins now [ns]: ROS time; in lockstep the trial's time, whatever the clock says."""
        return self._now() if self.realtime else tick_time(tick, self.config.rate)

    def end(self, exit_code: int = 0) -> None:
        """End the process with an exit code; the first one counts."""
        self.set_finished(exit_code)
        if (composition := self.transport.composition) is not None:
            composition.nodes[0].set_finished(exit_code)

    def set_finished(self, exit_code: int) -> None:
        """Set `finished`, with an exit code, unless it is set."""
        with self._changing:
            if not self.finished.is_set():
                self.exit_code = exit_code
                self.finished.set()

    def close(self) -> None:
        """The process ends: leave what this node drives without force, and do not activate it any more."""
        self.release()  # at once, whatever a thread is at that has the lock
        with self._changing:
            self._ends = True
        self.release()  # in case it was just being activated

    def release(self) -> None:
        """Leave what this node drives without force, at once; from any thread."""

    def conclude_activation(self) -> None:
        """Call `finish` once, if this node has been active; to be called when its servo thread has ended."""
        with self._changing:
            unfinished, self._unfinished = self._unfinished, False
        if unfinished:
            self.finish()

    def stop_servo(self) -> None:
        """End the servo thread and wait for it.

        Raises:
            ServoError: it does not end; what it uses must stay open.
        """
        with self._changing:  # one that is just being started is waited for, too
            self._stopping = True
            thread = self._thread
        if (inbox := self.transport.inbox) is not None:
            inbox.wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join(STOP)
            if thread.is_alive():
                raise ServoError(f"the servo thread has not ended {STOP:g} s after it was told to")
            self._thread = None
        self._leave_composition()

    def _leave_composition(self) -> None:
        """Wait until the first node's thread, which serves this one, is not in it and has published what it sent.

        Raises:
            ServoError: it does not come so far.
        """
        composition = self.transport.composition
        thread = None if composition is None else composition.nodes[0].servo_thread
        if composition is None or thread is None or thread is threading.current_thread():
            return
        flushed, deadline = composition.next_flush(), time.monotonic() + STOP
        while thread.is_alive() and not flushed.wait(POLL):
            if time.monotonic() > deadline:
                raise ServoError(f"the servo thread of the first node has not left this one within {STOP:g} s")

    # Lifecycle

    def _answer_change(self, change: Callable[[Any, Any], Any], request: Any, response: Any) -> Any:
        """Answer a request for a transition; one that is not possible is refused: rclpy would raise and not answer.

        One that comes in an automatic start waits for its end, though not for as long as kernels may be compiled.
        """
        wanted = request.transition.label or request.transition.id
        if not self.start_over.wait(STARTING):
            reason = "the node is being started: ask again when it is active"
        else:
            before = self._state_machine.current_state[1]
            possible = ", ".join(f"{label} ({id})" for id, label, *_ in self._state_machine.available_transitions)
            try:
                return change(request, response)
            except RuntimeError as error:  # the RCLError of rclpy
                reason = f"the node is {before}, possible are {possible}: {error}"
        self.get_logger().warning(f"transition {wanted} refused: {reason}")
        response.success = False
        return response

    def _transit(
        self, transition: Callable[[LifecycleState], TransitionCallbackReturn], state: LifecycleState
    ) -> TransitionCallbackReturn:
        """Make a transition; one that fails ends the process: rclpy says nothing of it."""
        try:
            return transition(state)
        except Exception:
            self.release()
            self.get_logger().fatal(f"a transition failed, and ends this node:\n{traceback.format_exc()}")
            self.end(1)
            return TransitionCallbackReturn.ERROR

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Read and check the parameters, build the core, open the topics."""
        try:
            self.config = self.live.open()
            self.realtime, self.endless = self.config.realtime, self.config.endless
            self.transport.open_events()
            self._report_compilation()
            self.build()
            self.transport.open()
            standard = self.config.standard_topics
            if standard.rate is not None:
                self._standard = self.standard_topics(standard.rate, standard.reliable)
        except (ParameterError, rclpy.exceptions.ParameterException) as error:
            return self._not_configured(str(error))
        except Exception:  # rclpy would say nothing of it
            return self._not_configured(f"\n{traceback.format_exc()}")
        self._diagnosis = Diagnosis(self)
        find_modules()  # not in the servo thread, in the middle of a trial
        return TransitionCallbackReturn.SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start the servo thread, unless the process ends; in a composition the first node's serves all."""
        with self._changing:
            if self._ends:
                return TransitionCallbackReturn.FAILURE
            self._stopping, self._unfinished = False, True
            composition = self.transport.composition
            if composition is not None and composition.nodes[0] is not self:
                return TransitionCallbackReturn.SUCCESS
            thread = threading.Thread(target=self._serve, name="servo", daemon=True)
            thread.start()  # without memory this fails: then there is none to wait for
            self._thread = thread
        return TransitionCallbackReturn.SUCCESS

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the servo thread, and with it the trial, if there is one."""
        if not self.finished.is_set():
            self.publish_event(DEACTIVATED, self.next_tick())
        self.stop_servo()
        self.conclude_activation()
        return TransitionCallbackReturn.SUCCESS

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the topics."""
        self.stop_servo()
        self.live.close()
        self._close_diagnosis()
        self._close_topics()
        return TransitionCallbackReturn.SUCCESS

    def _close_diagnosis(self) -> None:
        if self._diagnosis is not None:
            self._diagnosis.close()
            self._diagnosis = None

    def _close_topics(self) -> None:
        """Close those that are open."""
        if self._standard is not None:
            self._standard.close()
            self._standard = None
        self.transport.close()

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the process."""
        self.stop_servo()
        self.conclude_activation()
        self.end()
        return TransitionCallbackReturn.SUCCESS

    def _not_configured(self, reason: str) -> TransitionCallbackReturn:
        """Say why, and close what is open."""
        self.get_logger().error(f"cannot be configured: {reason}")
        self.live.close()
        self._close_topics()
        return TransitionCallbackReturn.FAILURE

    def _report_compilation(self) -> None:
        """From here on, say when kernels are compiled: to people, and to the leader, who then waits."""
        notify = progress.Progress(self.get_logger().info)

        def report(compiled: int, name: str) -> None:
            notify(compiled, name)
            self.publish_event(COMPILING, detail=name)

        progress.report = self._reporting = report

    def destroy_node(self) -> None:
        """Close all that is of this node; nothing says any more through it that kernels are compiled."""
        if progress.report is self._reporting:
            progress.report = None
        self._close_diagnosis()
        super().destroy_node()

    def set_parameters_atomically(self, parameter_list: list[Parameter]) -> SetParametersResult:
        """As of rclpy; a name that is not known is named, with the one that may be meant."""
        try:
            return super().set_parameters_atomically(parameter_list)
        except ParameterNotDeclaredException:
            return self.live.refuse_unknown(parameter_list)

    def _serve(self) -> None:
        try:
            with without_collector() if self.realtime else nullcontext():
                self.serve()
        except (ServoError, UnstableError) as error:
            self.get_logger().fatal(str(error))
            self.end(1)
        except Exception:
            self.get_logger().fatal(f"servo thread failed:\n{traceback.format_exc()}")
            self.end(1)
