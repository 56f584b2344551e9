"""Recorder node: writes the bag of a trial.

In lockstep it takes part in the trial: it reports ready before the start, reports every few ticks up to which tick the
bag is complete, and closes the bag when the driver reports the end of the trial.
"""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any, ClassVar

from haptics.msg import TrialEvent

from haptic_bench.recording.trial_bag import TrialBag, cannot_record
from haptic_ros.graph import EVENTS, ROLES
from haptic_ros.process import run
from haptic_ros.realtime import PRIORITY, prioritise_delivery, servo_core
from haptic_ros.servo import ServoNode
from haptic_ros.transport import load_event
from haptic_ros.trial import ABSENT, POLL, ServoError, TrialParameters
from haptic_sim.messages import Message, MessageError, ToolSizes, split_topic, tick_place, topic_of
from haptic_sim.parameters import ParameterError, quantity
from haptic_sim.tool.parameters import EnvironmentParameters

ACKNOWLEDGE = 16  # ticks between two reports of what is recorded, in lockstep
GATHER = 0.005  # [s] to let messages gather in the queues: waking for each would take the servo path's time
_TICK = tick_place()
OF_DRIVER = ROLES["driver"].publishes  # what begins a tick; all else answers it
DRAIN = 0.5  # [s] for messages that are in transit when the trial is stopped
# Share of the leader's patience for what a network has lost of the last ticks of a trial in lockstep: no later message
# shows its publisher the gap, but a heartbeat does, every 3 s with Fast DDS.
RECOVERY = 0.8
BEHIND = 3.0  # [s] without another complete tick after which it is said, in lockstep, what is waited for


class Delivery:
    """Choice of the core on which the middleware delivers to the recorder, in realtime.

    Its threads come before whatever else runs, or the middleware's queue overflows, but after the servo threads, or
    each message interrupts the tick that it is of. On the servo threads' core they run when the tick is over, and
    deliver all its messages together: 2 % of a core at 1 kHz. Elsewhere each message wakes them: 11 %. But servo
    threads that never rest would keep them waiting, and the middleware's queue holds 128 ticks of four messages. So
    after SILENCE they may run on any core, for ELSEWHERE.

    Args:
        rate: of the servo [Hz].
    """

    SILENCE: ClassVar[int] = 32  # ticks
    ELSEWHERE: ClassVar[float] = 1.0  # [s]

    def __init__(self, rate: float):
        core = servo_core(0)
        self._shared, self._all = () if core is None else (core,), os.sched_getaffinity(0)
        self._silence = self.SILENCE / rate
        self._until = math.inf  # when it is to share the servo threads' core again [s]; 0: it does
        self._share()

    def patience(self, waiting: float) -> float:
        """Time to wait for messages, at most `waiting` [s]."""
        return waiting if self._until else min(waiting, self._silence)

    def place(self, received: bool) -> None:
        """Choose the cores, after a wait in which messages came or did not."""
        if self._until:
            if time.monotonic() > self._until:
                self._share()
        elif not received:
            self._until = time.monotonic() + self.ELSEWHERE
            prioritise_delivery(PRIORITY - 1, self._all)

    def _share(self) -> None:
        self._until = 0.0
        prioritise_delivery(PRIORITY - 1, self._shared)


class RecorderTrialParameters(TrialParameters):
    """Parameters of a trial that the recorder needs."""

    name: str = quantity(description="Name of the experiment")
    directory: str = quantity(description="Directory of the trial: holds experiment.yaml, receives bag/")
    environment: EnvironmentParameters = quantity(description="Simulation of the world")
    pointed: bool = quantity(False, description="Whether the operator is a pointer, whose events are recorded")
    hardware: tuple[str, ...] = quantity(
        (), description="Names of the hands that hold hardware, whose readings are recorded; that of the first is empty"
    )
    tool_sizes: tuple[int, int, int] = quantity(
        description="Sizes of the tool's configuration and velocity, and number of its exact constraints"
    )


class RecorderNode(ServoNode):
    """A recorder as a node."""

    NAME: ClassVar[str] = "recorder"
    Config: ClassVar[Any] = RecorderTrialParameters
    config: RecorderTrialParameters

    def has(self, topic: str) -> bool:
        """Whether this node has an optional topic of its role with its present parameters."""
        hand, kind = split_topic(topic)
        if kind == "device_reading":
            return hand in self.config.hardware
        if kind == "operator_events":
            return self.config.pointed
        environment = self.config.environment
        return environment.publish is not None and not environment.engine.EXTERNAL

    def build(self) -> None:
        config, graph = self.config, self.config.graph
        schedule = config.environment.schedule(config.rate) if graph.asynchronous else None
        directory = Path(config.directory)
        try:
            self._bag = TrialBag(
                directory,
                config.name,
                config.rate,
                schedule,
                realtime=config.realtime,
                standalone=graph.standalone,
                relayed=graph.relayed,
                world_every=0 if config.environment.engine.EXTERNAL else config.environment.publish_every(config.rate),
                hands=tuple(filter(None, graph.hands)),
                pointed=config.pointed,
                hardware=config.hardware,
            )
        except OSError as error:
            raise ParameterError([cannot_record(error, directory)]) from error
        # What is sent before the first tick, again and again, until everybody has it.
        self._lacking = {(topic_of(hand, "tool_state"), -1) for hand in graph.hands or ("",)}
        if graph.asynchronous and not config.realtime:
            self._lacking.add(("local_geometry", 0))
        self._end: TrialEvent | None = None
        self._newest = -1  # tick of the newest message
        self._newest_of: dict[str, int] = {}  # the same of each topic, in lockstep
        tool = ToolSizes(*config.tool_sizes).tool_state() if config.environment.engine.EXTERNAL else None
        self._external_tool = tool  # of a node of the user's own
        self._new = 0  # messages that came after the end and had not come before
        self._progress = -1, 0.0  # complete ticks, and since when they are not more [s]
        self._logged = -1  # the number of complete ticks at which the log last said what is missing
        self._absent = ""  # the message of which the leader was told that it has not come

    def checked_publishers(self) -> tuple[str, ...]:
        """The topics whose messages count by who published them: all, so that the trial's own are recorded."""
        return self.transport.taken()

    def counted(self) -> tuple[str, ...]:
        """The topics of each tick, but for the tool's state, of which there is one before the first tick."""
        return tuple(topic for topic in self.config.graph.row if split_topic(topic)[1] != "tool_state")

    def prepared(self) -> bool:
        return not self._lacking

    def receive(self, topic: str, data: bytes | Message) -> None:
        assert isinstance(data, bytes)  # all comes from outside
        if topic == EVENTS:
            event = load_event(data)
            if event.name in ("finished", "interrupted") and event.node == self.config.leader:
                self._end = event
            elif event.name == "changed":
                self._bag.note(event.node, event.name, event.tick, event.detail)
            return
        if len(data) < _TICK + 8:
            raise MessageError(f"{topic}: {len(data)} bytes received, at least {_TICK + 8} expected")
        if self._external_tool is not None and topic == "tool_state":
            self._external_tool.load(data)  # refuses one of other sizes, with which the bag could not be read
        tick = int.from_bytes(data[_TICK : _TICK + 8], "little", signed=True)
        if tick < -1:
            raise MessageError(f"{topic} {tick}: must be at least -1")
        if tick > self.config.last_tick and split_topic(topic)[1] not in OF_DRIVER:
            return  # a node of the user's own answers the device's state after the trial
        self._lacking.discard((topic, tick))
        self._newest = max(self._newest, tick)
        if self._end is not None:  # messages may be repeated until the bag is closed
            within = self._bag.complete <= tick <= self._end.tick
            self._new += within and not self._bag.holds(topic, tick)
        if not self.realtime:
            self._drop_premature(topic, tick)
        self._bag.add(topic, tick, data)

    def _drop_premature(self, topic: str, tick: int) -> None:
        """Forget what came of later ticks, where this tick comes for the first time.

        The messages of a publisher arrive in their order. In lockstep who takes them takes one tick after the other,
        and has refused what came too early. Only a local model publishes states again after later ones.
        """
        newest = self._newest_of.get(topic, -1)
        if tick < newest and tick >= self._bag.complete and not self._bag.holds(topic, tick):
            if not self.config.graph.asynchronous:
                self._bag.drop_later(topic, tick)
                self._newest_of[topic] = tick
        elif tick > newest:
            self._newest_of[topic] = tick

    def serve(self) -> None:
        """Record until the trial ends."""
        try:
            self._record()
        except OSError as error:  # a full disk, say
            raise ServoError(cannot_record(error, Path(self.config.directory) / "bag")) from error

    def _record(self) -> None:
        delivery = Delivery(self.config.rate) if self.realtime else None
        announced = False
        acknowledged = 0
        try:
            while not self.stopping and self._end is None:
                waiting = BEHIND if announced else POLL
                received = self.listen(waiting if delivery is None else delivery.patience(waiting))
                if delivery is not None:
                    delivery.place(received)
                time.sleep(GATHER)
                announced = announced or self.barrier.announce_if_ready()
                if not self.realtime and self._bag.complete >= acknowledged + ACKNOWLEDGE:
                    acknowledged = self._bag.complete
                    self.publish_event("recorded", acknowledged)
                if not self.realtime:
                    self._report_stall()
            self._drain()
            missing = self._bag.missing()
        finally:
            if self._end is None:
                self._bag.close("interrupted", self._bag.complete)
            else:
                self._bag.close(self._end.name, self._end.tick, self._end.detail)
        whole = self._end is None or self._end.name != "finished" or self._bag.complete >= self._end.tick
        if not whole and not self.realtime:
            raise ServoError(f"the bag is incomplete from tick {self._bag.complete} on: {missing} was lost")
        self.publish_event("closed", self._bag.complete, json.dumps(self._counts()))

    def _report_stall(self) -> None:
        """Report what a stalled tick lacks: to the leader, and once in the log if later ticks go on."""
        complete, now = self._bag.complete, time.monotonic()
        before, since = self._progress
        if complete != before:
            self._progress = complete, now
            return
        if now > since + BEHIND and self._newest >= complete + ACKNOWLEDGE and complete != self._logged:
            self._logged = complete
            unknown = 0 if self.transport.inbox is None else self.transport.inbox.unknown
            self.get_logger().error(
                f"tick {complete} is not complete: {self._bag.missing()} has not come, the newest message is of tick "
                f"{self._newest}; {unknown} messages are of publishers that are not known yet, lost: {self._counts()}"
            )
        if now > since + min(BEHIND, 0.5 * self.config.patience):
            message = self._bag.missing().partition(",")[0]
            if message != self._absent:
                self._absent = message
                nodes = self.config.graph.publishers(message.partition(" ")[0])
                self.publish_event(ABSENT, complete, f"{message} of {', '.join(nodes)}")

    def _counts(self) -> dict[str, Any]:
        """Counts of the messages that the bag lacks: those sent but not received, by topic too, and those never sent.

        Where the middleware does not number its messages, all count as lost.
        """
        absent, lost = self._bag.absent, self.transport.inbox.lost if self.transport.inbox is not None else {}
        foreign = {"foreign_messages": self.transport.contested}
        if lost is None:
            return foreign | {"lost_messages": absent, "unsent_messages": 0}
        of_ticks = sum(count for topic, count in lost.items() if topic != "local_geometry")
        unsent = max(0, absent - of_ticks)
        return foreign | {"lost_messages": sum(lost.values()), "lost_by_topic": lost, "unsent_messages": unsent}

    def _drain(self) -> None:
        """Take what is still in transit: up to the trial's end, or until nothing has come for a moment.

        For longer after a whole trial in lockstep, of which nothing may be missing. The leader waits while it is told
        how far this is: with a small share of a core, two seconds of messages may take longer than its patience.
        """
        last_received, end = time.monotonic(), self._end
        whole = not self.realtime and end is not None and end.name == "finished"
        longest = max(DRAIN, RECOVERY * self.config.patience) if whole else DRAIN
        while time.monotonic() < last_received + (DRAIN if self.stopping else longest):
            if end is not None and self._holds_states_of(end.tick):
                return
            before = self._new
            self.listen(POLL)
            if self._new > before and not self.stopping:  # events do not count, among which are its own
                last_received = time.monotonic()
                self.publish_event("recorded", self._bag.complete)

    def _holds_states_of(self, tick: int) -> bool:
        """Whether all ticks before this one are recorded and the devices' states of it, or, answered, that tick too."""
        states = (topic_of(hand, "device_state") for hand in self.config.graph.hands)
        complete = self._bag.complete
        return complete > tick or (complete == tick and all(self._bag.holds(topic, tick) for topic in states))


def main() -> None:
    """Entry point of the process."""
    run(RecorderNode)


if __name__ == "__main__":
    main()
