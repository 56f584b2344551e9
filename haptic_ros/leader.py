"""The node that leads a trial: it has the clock, starts the first tick when all nodes are ready, and ends the trial.

The driver leads where there is a device; without one, the environment with the operator in it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

from haptics.msg import TrialEvent
from rclpy.clock import ROSClock
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn

from haptic_ros import diagnosis
from haptic_ros.graph import EVENTS
from haptic_ros.realtime import Deadlines, Stopwatch
from haptic_ros.servo import ServoNode
from haptic_ros.transport import load_event, type_name
from haptic_ros.trial import (
    ABSENT,
    COMPILING,
    DEACTIVATED,
    POLL,
    READY_TIMEOUT,
    RECORDER,
    REFUSED,
    ServoError,
    TrialParameters,
)
from haptic_sim.dynamics.energy import UnstableError
from haptic_sim.messages import Message
from haptic_sim.parameters import quantity

RESEND = 0.05  # [s] without an answer after which a tick is begun again
# Ticks that the leader may be ahead of the recorder: four messages each and for each hand, with a relay eight, of which
# the middleware's shared memory holds 512 for a reader whose process does not get to run.
LEAD, CHECK_EVERY = 64, 16  # it checks every CHECK_EVERY ticks
POLL_PERIOD = 0.5  # [s] between two looks for foreign publishers, before the start
CLOSING = 1.0  # [s] for the recorder to close the bag of an interrupted trial
UNANSWERED = 0.2  # share of ticks without an answer in time beyond which it is said what was refused
WATCHED = 65536  # ticks of a graph that only runs, of which what was measured is kept


class LeaderTrialParameters(TrialParameters):
    """Parameters of a trial for its leader."""

    directory: str = quantity("", description="Directory of the trial: receives what is measured in realtime")
    progress: bool = quantity(
        False,
        description="Write the number of ticks done, what the user shall know, and the end, to the standard output",
    )
    paused: bool = quantity(False, description="Whether the next tick waits", live=True)
    mark: str = quantity(
        "",
        description="Text of an event: each change is an event of the trial, and recorded",
        live=True,
        max_length=200,
    )


class LeaderNode(ServoNode):
    """Derived classes begin ticks, say when they are answered, and end them."""

    Config: ClassVar[Any] = LeaderTrialParameters
    config: LeaderTrialParameters

    # What derived classes provide

    def resume(self, tick: int) -> None:
        """An activation begins; its first tick is `tick`."""

    def begin(self, tick: int) -> int:
        """Publish what begins a tick; returns when [ns, monotonic]."""
        raise NotImplementedError

    def again(self) -> None:
        """Publish it again: no answer came."""

    def answered(self) -> int:
        """The last tick that was answered, -1: none."""
        raise NotImplementedError

    def complete(self) -> None:
        """End a tick with the latest answer."""

    def conclude(self, tick: int) -> None:
        """Publish the state after the last tick; `tick` is the first that was not executed."""

    def counts(self) -> dict[str, int]:
        """Further counts for the timing, by name."""
        return {}

    def types(self) -> dict[str, str]:
        """Topics on which the node discovers others before the start, and the types of their messages."""
        return {topic: type_name(topic) for topic in (*self.config.graph.topics, EVENTS)}

    # Services to derived classes

    def open_trial(self) -> None:
        """Prepare to lead; to be called by `build`."""
        config = self.config
        ticks = config.last_tick + 1 if self.realtime else 0  # in lockstep nothing is measured
        self._watch, self._done = Stopwatch(ticks if config.recorded else min(ticks, WATCHED), config.rate), 0
        self._watched = 0  # first tick that the stopwatch has
        self._first = 0  # tick of this activation
        self.reached = -1  # the last tick that others have received, which a driver that comes back goes on from
        self._broken = ""  # why the trial cannot go on
        self._counted = self._missed = 0  # ticks that were looked at so far, and how many of them were missed
        self._ready: set[str] = set()
        self._compiled: set[tuple[str, str]] = set()  # nodes and kernels of which it was said that they are compiled
        self._refusals: dict[str, str] = {}  # what each node has refused last, by its name
        self._absent = ""  # the message that the recorder lacks of a tick that does not go on
        self._running = False  # between the first tick and the last
        self._reported: set[str] = set()  # of foreign publishers
        self._recorded, self._closed = 0, not config.recorded
        self._reported_at = 0.0  # when the recorder last said how far it is [s]
        self._lacking: dict[str, Any] = {"lost_messages": 0, "unsent_messages": 0}  # in the bag, as the recorder says

    def receive_event(self, data: bytes | Message) -> None:
        """Take a TrialEvent."""
        event = load_event(data)
        if event.node not in self.config.nodes:
            return
        if event.name == "ready" and event.node not in self._ready:
            self._ready.add(event.node)
            self._last_received = time.monotonic()
        elif event.name == COMPILING and (compiled := (event.node, event.detail)) not in self._compiled:
            self._compiled.add(compiled)
            self._last_received = time.monotonic()
        elif event.name == REFUSED:
            self._refusals[event.node] = event.detail
        elif event.name == DEACTIVATED and self.config.recorded:
            self._broken = f"{event.node} was deactivated"
        elif event.node == RECORDER:
            self._receive_of_recorder(event)

    def _receive_of_recorder(self, event: TrialEvent) -> None:
        """Take what only the recorder can know."""
        if event.name == "recorded":
            self._recorded, self._reported_at = event.tick, time.monotonic()
        elif event.name == "closed":
            self._closed = True
            self._lacking |= json.loads(event.detail or "{}")
        elif event.name == ABSENT:
            self._absent = event.detail

    @property
    def stopping(self) -> bool:
        """Whether the servo thread shall end: it is stopped, or the trial cannot go on."""
        return self._stopping or bool(self._broken)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the trial; the ticks of a graph that is not recorded go on where they were at the next activation."""
        if self.config.recorded and not self.finished.is_set():
            self._broken = f"{self.get_name()} was deactivated"
        deactivated = super().on_deactivate(state)
        if self._broken and not self.finished.is_set():
            self._fail(self._broken)
        return deactivated

    def _fail(self, reason: str) -> None:
        """End the trial with an error."""
        self.get_logger().fatal(f"the trial has ended: {reason}")
        self.end(1)

    def serve(self) -> None:
        """Run the trial."""
        self.raise_priority()
        first = self._first
        self.resume(first)
        try:
            if not self._gather():
                self._interrupt(first, self._broken)
                if self._broken:
                    self._fail(self._broken)
                return
            tick = self._run(first)
        except (ServoError, UnstableError) as error:
            self.release()
            self._interrupt(self._done, str(error))
            raise
        self._report(tick)
        finished = tick > self.config.last_tick
        if finished:
            self.publish_event("finished", tick, self._broken)
            self._await(lambda: self._closed, "recorder: the bag was not closed", repeat=not self.realtime)
        else:
            self._interrupt(tick, self._broken)
        if self.realtime and tick <= len(self._watch.begun):
            self._explain(tick)
            self._save_timing(tick)
        self._print("end")
        if self._broken:
            self._fail(self._broken)
        elif finished:
            self.end(0)

    def _run(self, first: int) -> int:
        """Execute the ticks from `first` on, and publish what follows the last; the first that was not executed."""
        self._report(first)
        self._running = True
        try:
            tick = self._run_on_the_clock(first) if self.realtime else self._run_in_lockstep(first)
        finally:
            self._running = False
        self._done = tick
        self._first = tick + 1  # what is sent below is answered for this activation
        self.conclude(tick)
        return tick

    def _interrupt(self, tick: int, reason: str) -> None:
        """Say that the trial has ended before its time, also to nodes of the user's own, and let the bag be closed."""
        if self.endless:
            return  # the others wait for this node to come back
        self.publish_event("interrupted", tick, reason)
        deadline = time.monotonic() + CLOSING
        while not self._closed and time.monotonic() < deadline:
            self.listen(POLL)

    def _run_in_lockstep(self, tick: int) -> int:
        """Execute the ticks from `tick` on, each when the one before is answered; the first that was not executed."""
        share = 2 if self.config.graph.relayed else max(1, len(self.config.graph.hands))
        recorded, lead = self.config.recorded, max(CHECK_EVERY, LEAD // share)
        while tick <= self.config.last_tick and not self.stopping:
            self._stand()
            self._done = tick
            if self.stopping or not self._tick(tick):
                break
            tick += 1
            if not tick % 64:
                self._report(tick)
            if recorded and not tick % CHECK_EVERY:
                self._await(lambda done=tick: self._recorded >= done - lead, "recorder: is behind")
        return tick

    def _run_on_the_clock(self, first: int) -> int:
        """Execute the ticks from `first` on at their times with the latest command; the first that was not executed."""
        last, watch = self.config.last_tick, self._watch
        second, polled = round(self.config.rate), max(1, round(POLL * self.config.rate))
        composed = self.transport.composition is not None  # which has its answers without listening
        deadlines = Deadlines(self.config.rate, first)
        started = time.monotonic_ns()
        tick = first
        while tick <= last:
            if self.config.paused:
                stood = time.monotonic_ns()
                self._stand()
                deadlines = Deadlines(self.config.rate, tick)
                started += time.monotonic_ns() - stood
            if tick <= self.reached:  # this driver is new, the others are not
                tick = self.reached + 1
                deadlines = Deadlines(self.config.rate, tick)
                self.resume(tick)
                self._forget(tick)
            self._pause(deadlines.at(tick))
            if self.stopping:
                return tick
            if (at := tick - self._watched) >= len(watch.begun):
                at = self._forget(tick)
            watch.skipped += deadlines.settle(tick)
            self._done = tick
            sent = self.begin(tick)
            if (last_answered := self.answered()) != tick:
                last_answered = self._listen_until(tick, deadlines.at(tick + 1))
            if last_answered == tick:
                watch.round_trip[at] = time.monotonic_ns() - sent
            self.complete()
            watch.begun[at] = sent - started
            if last_answered >= 0:
                watch.command_age[at] = tick - last_answered
            self.rest()
            if composed and not tick % polled:
                self.listen(0.0)
            if tick == first + second:
                self._complain(tick - self._watched)
            if not tick & 63:
                self._report(tick)
            tick += 1
        return last + 1

    def _listen_until(self, tick: int, end: int) -> int:
        """Listen until a tick is answered, or to the time `end` [ns, monotonic]; the last tick that was answered."""
        while self.answered() != tick and (left := end - time.monotonic_ns()) > 0:
            self.listen(left * 1e-9)
        return self.answered()

    def _stand(self) -> None:
        """Wait while the trial is paused."""
        while self.config.paused and not self.stopping:
            self.listen(POLL)
            self.apply_changes()

    def _forget(self, tick: int) -> int:
        """Measure from a tick on; what was measured before is gone. Returns its place."""
        watch = self._watch
        for values in (watch.begun, watch.round_trip, watch.command_age):
            values.fill(-1)
        self._watched = self._counted = self._done = tick
        return 0

    def _pause(self, begin: int) -> None:
        """Wait until a tick begins, at `begin` [ns, monotonic].

        Only a composition waits for something meanwhile: surveys. Else a sleep costs less than the middleware.
        """
        composition = self.transport.composition
        waits = composition is not None and composition.waits
        while (left := begin - time.monotonic_ns()) > 0 and not self.stopping:
            if waits:
                self.listen(left * 1e-9)
            else:
                time.sleep(min(left * 1e-9, POLL))

    def _complain(self, ticks: int) -> None:
        """Say when the machine does not hold the rate."""
        # counts alone: with the percentiles of a summary this took four periods of 5 kHz, in the middle of the trial
        missed, skipped = self._watch.missed(0, ticks), self._watch.skipped
        if missed + skipped > 0.05 * ticks:
            self.get_logger().warning(
                f"rate = {self.config.rate:g} Hz: this machine does not hold it: of the first {ticks} ticks {missed} "
                f"had no answer in time, {skipped} periods passed without a tick; choose a lower rate, or --composed"
            )

    def _explain(self, ticks: int) -> None:
        """Say what is known of the reasons, where many ticks of a trial had no answer in time."""
        if self._watch.missed(0, ticks) <= UNANSWERED * ticks:
            return
        if (answered := self.answered()) < ticks - 1 - UNANSWERED * ticks:
            since = f" after that of tick {answered}" if answered >= 0 else ""
            self.notify(f"no device_command has come{since}, of {ticks} ticks")
        for node, detail in self._refusals.items():
            self.notify(f"{node} has refused {detail}")

    def _save_timing(self, ticks: int) -> None:
        """Leave what was measured beside the bag."""
        folder = Path(self.config.directory)
        more = {**self._lacking, "scheduler": self.scheduler, "refused": self.refused, **self.counts()}
        try:
            self._watch.save(folder, ticks, more)
        except OSError as error:  # a full disk, say
            self.get_logger().error(f"the timing cannot be recorded: {error.filename or folder}: {error.strerror}")

    def health(self) -> tuple[str, dict[str, object]]:
        """Status of this node for /diagnostics: its trouble (empty: none) and values."""
        trouble, values = super().health()
        done = self._done
        if self.realtime and done > 1:
            watch, now = self._watch, done - self._watched
            # of the last second: this holds the interpreter's lock
            p50, p99 = watch.periods(max(now - round(self.config.rate), 0), now)
            values |= {"achieved rate [Hz]": round(1.0 / p50, 1) if p50 else None, "period p99 [s]": p99}
            values |= {"missed ticks": self._missed, "skipped periods": watch.skipped}
            values["age of the last command [ticks]"] = done - self.answered()
            if self._missed or watch.skipped:
                trouble = trouble or f"{self._missed} ticks missed, {watch.skipped} periods skipped"
        return trouble, values

    def _gather(self) -> bool:
        """Wait until all nodes of the trial are ready, for long if they say that they compile; False if interrupted."""
        self._last_received = time.monotonic()
        composition = self.transport.composition
        ours: list[Any] = [self] if composition is None else list(composition.nodes)
        waiting = list(ours)
        others = set(self.config.nodes) - {node.member for node in ours}
        checked = contested_since = time.monotonic()
        ready, contested = False, ""
        while contested or not ready:
            if self.stopping:
                return False
            self.listen(POLL)
            for node in ours:
                node.idle()
            waiting = [node for node in waiting if not node.barrier.announce_if_ready()]
            ready, now = not waiting and others <= self._ready, time.monotonic()
            if ready or now > checked + POLL_PERIOD:
                checked, before, contested = now, contested, self._contested()
                if contested and not before:
                    contested_since = now
                    self.notify(f"{contested}; waiting up to {self.config.patience:g} s for its end")
                elif contested and now > contested_since + self.config.patience:
                    raise ServoError(f"not started: {contested}; end it, or run in another namespace or ROS_DOMAIN_ID")
                if not ready:
                    self._report_obstacles()
            if not ready and now > self._last_received + READY_TIMEOUT:
                missing = sorted(others - self._ready) + [f"{topic} has no peer" for topic in self.barrier.unmatched()]
                raise ServoError(f"not ready after {READY_TIMEOUT:g} s: {', '.join(missing + sorted(self._reported))}")
        clock = self.get_clock()
        simulated = isinstance(clock, ROSClock) and clock.ros_time_is_active
        if self.realtime and simulated and not clock.now().nanoseconds:
            self.notify("use_sim_time is true and there is no /clock yet: until it comes, messages are stamped with 0")
        self.publish_event("started", 0)
        return True

    def _contested(self) -> str:
        """Servo topics that have a foreign publisher, in words; empty if none has."""
        found = {topic: self.transport.peers.foreign(topic) for topic in self.config.graph.topics}
        return ", ".join(
            f"{topic} has a foreign publisher ({', '.join(names)})" for topic, names in found.items() if names
        )

    def _report_obstacles(self) -> None:
        """Say once what keeps nodes from being ready: other types or qualities of service, and what is refused."""
        found = [one for topic, kind in self.types().items() for one in self.transport.peers.mismatched(topic, kind)]
        found += [f"{node} has refused {detail.partition(' (')[0]}" for node, detail in self._refusals.items()]
        for obstacle in found:
            if obstacle not in self._reported:
                self._reported.add(obstacle)
                self.notify(f"{obstacle}; the trial waits for a node that does as msg/ and docs/external.md say")

    def monitor(self) -> None:
        """Count ticks that were missed; say once of each foreign publisher that it has appeared in the trial."""
        if self.realtime and (done := self._done) > 1:
            self._missed += self._watch.missed(max(self._counted - self._watched, 0), done - self._watched)
            self._counted = done
        if not self._running or not any(map(self._is_shared, self.config.graph.topics)):
            return
        contested = self._contested()
        if contested and contested not in self._reported:
            self._reported.add(contested)
            self.notify(f"{contested}: while it is there, messages of this topic are refused")

    def _is_shared(self, topic: str) -> bool:
        """Whether a servo topic has several publishers; called beside the servo thread."""
        diagnosis.pause()
        return self.count_publishers(topic) > 1

    def notify(self, text: str) -> None:
        """Say something to the user: in the log, and to whoever reads the progress."""
        self.get_logger().error(text)
        self._print(f"say {text}")

    def _print(self, line: str) -> None:
        """Write a line to whoever reads the progress, from any thread."""
        if self.config.progress:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

    def _tick(self, tick: int) -> bool:
        """Execute a tick; False if interrupted before its command came."""
        self.begin(tick)
        begun = sent = time.monotonic()
        while self.answered() != tick:
            if self.stopping:
                return False
            self.listen(RESEND)
            if self.answered() == tick:
                break
            if (now := time.monotonic()) >= sent + RESEND:  # sooner with messages that are no answer, however many
                if now > begun + self.config.patience:
                    raise self._given_up(f"tick {tick}: no command within")
                self.again()
                sent = now
        self.complete()
        self.rest()
        return True

    def rest(self) -> None:
        """Do the work that a composition defers until after a tick."""
        if (composition := self.transport.composition) is not None:
            composition.flush()
            composition.look_ahead()
            composition.flush()  # world states

    def _report(self, tick: int) -> None:
        self._print(f"tick {tick}")

    def _await(self, condition: Any, reason: str, repeat: bool = False) -> None:
        """Wait for the recorder, for as long as it says how far it is: on a busy machine it may have a backlog.

        With `repeat` the last message is sent again periodically: a further hand may not have received it, or its
        answer may be lost.
        """
        begun = sent = time.monotonic()
        while not condition() and not self.stopping:
            self.listen(POLL)
            now = time.monotonic()
            if repeat and now >= sent + RESEND:
                self.again()
                sent = now
            if now > max(begun, self._reported_at) + self.config.patience:
                raise self._given_up(f"{reason} for")

    def _given_up(self, reason: str) -> ServoError:
        """Error for a trial that cannot go on: the reason, and the nodes that prevent it, if any."""
        found = [f"{self._absent} has not come"] if self._absent else []
        found += [f"{node} has refused {detail}" for node, detail in self._refusals.items()]
        if contested := self._contested():
            found.append(f"{contested}, so that messages of this topic are refused")
        return ServoError(f"{reason} {self.config.patience:g} s" + (f": {'; '.join(found)}" if found else ""))
