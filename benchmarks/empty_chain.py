"""The servo graph with nothing in it: the same processes, topics and message sizes, but no cores and no parameters.

What a tick costs here is what ROS 2 costs; the benchmarks compare trials with it in the same run.

    python benchmarks/empty_chain.py ROLE NAMESPACE TICKS [RATE]

Without a rate, each tick waits for its answer, the processes share a core as those of a lockstep trial do, and the
driver prints the seconds a tick took. With one [Hz], ticks begin at absolute deadlines and wait for an answer until the
next; the processes have the priorities of a realtime trial's, and the driver prints a JSON document: what
haptic_ros.realtime.Stopwatch says of the ticks.
"""

from __future__ import annotations

import json
import sys
import time

import rclpy
from haptics import msg
from rclpy.qos import QoSProfile, ReliabilityPolicy

from haptic_ros.inbox import Inbox, ServoGroup, subscribe
from haptic_ros.realtime import Deadlines, Stopwatch, prioritise, share_core, without_collector
from haptic_sim.messages import TOPICS

ANSWERS = {
    "controller": {"device_state": "tool_command", "tool_state": "device_command"},
    "environment": {"tool_command": "tool_state"},
    "recorder": {"device_state": "", "tool_command": "", "tool_state": "", "device_command": ""},
}
SIZES = {topic: len((kind(q=3, v=3) if topic == "tool_state" else kind()).to_bytes()) for topic, kind in TOPICS.items()}
TICK = slice(4, 12)  # where a message holds its tick in realtime: after the encapsulation header
GATHER = 0.005  # [s] as in the recorder of a trial
SILENCE = 60.0  # [s] after which a role ends: the benchmark that would end it is gone


def main() -> None:
    """Run one role."""
    role, namespace, ticks = sys.argv[1], sys.argv[2], int(sys.argv[3])
    rate = float(sys.argv[4]) if len(sys.argv) > 4 else None
    rclpy.init()
    node = rclpy.create_node(role, namespace=namespace)
    depth = 1000 if role == "recorder" else 1
    topics = ["device_command"] if role == "driver" else list(ANSWERS[role])
    published = ["device_state"] if role == "driver" else [topic for topic in ANSWERS[role].values() if topic]
    publishers = {
        topic: node.create_publisher(
            _type(topic), topic, QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        )
        for topic in published
    }
    subscriptions = {
        topic: subscribe(
            node, _type(topic), topic, QoSProfile(depth=depth, reliability=ReliabilityPolicy.BEST_EFFORT), ServoGroup()
        )
        for topic in topics
    }
    inbox = Inbox(node.context, subscriptions)
    if role == "recorder":  # which has neither priority nor their core in a trial
        pass
    elif rate is None:
        share_core(namespace)
    else:
        prioritise(("environment", "controller", "driver").index(role))
    if role == "driver":
        _drive(inbox, publishers["device_state"], ticks, rate)
    elif role == "recorder":
        _record(inbox, 0.0 if rate is None else GATHER)
    else:
        _answer(role, inbox, publishers, rate is not None)


def _record(inbox: Inbox, gather: float) -> None:
    while any([True for _ in inbox.wait(SILENCE)]):  # a list: all of them are to be taken
        if gather:
            time.sleep(gather)


def _answer(role: str, inbox: Inbox, publishers: dict[str, rclpy.publisher.Publisher], realtime: bool) -> None:
    """Answer each message; in realtime with its tick, so that a late answer is not taken for one in time."""
    answers = {topic: bytes(SIZES[answer]) for topic, answer in ANSWERS[role].items()}
    found = True
    while found:
        found = False
        for topic, data in inbox.wait(SILENCE):
            found = True
            answer = answers[topic]
            if realtime:
                answer = answer[: TICK.start] + data[TICK] + answer[TICK.stop :]
            publishers[ANSWERS[role][topic]].publish(answer)


def _drive(inbox: Inbox, publisher: rclpy.publisher.Publisher, ticks: int, rate: float | None) -> None:
    state = bytes(SIZES["device_state"])
    _run_in_lockstep(inbox, publisher, state, 100)  # not counted: the peers find each other
    if rate is not None:
        print(json.dumps(_run_on_the_clock(inbox, publisher, state, ticks, rate)), flush=True)
        return
    begun = time.perf_counter()
    _run_in_lockstep(inbox, publisher, state, ticks)
    print((time.perf_counter() - begun) / ticks, flush=True)


def _run_in_lockstep(inbox: Inbox, publisher: rclpy.publisher.Publisher, state: bytes, ticks: int) -> None:
    deadline = time.monotonic() + 60.0
    for _ in range(ticks):
        publisher.publish(state)
        while not any(True for _ in inbox.wait(0.05)):
            if time.monotonic() > deadline:
                sys.exit("no answer")
            publisher.publish(state)


def _run_on_the_clock(
    inbox: Inbox, publisher: rclpy.publisher.Publisher, state: bytes, ticks: int, rate: float
) -> dict[str, float | int | None]:
    watch = Stopwatch(ticks, rate)
    with without_collector():
        deadlines = Deadlines(rate)
        started = time.monotonic_ns()
        for tick in range(ticks):
            while (left := deadlines.until(tick)) > 0:
                for _ in inbox.wait(left * 1e-9):
                    pass
            watch.skipped += deadlines.settle(tick)
            mark = (tick + 1).to_bytes(TICK.stop - TICK.start, "little")  # 0 is in what was not counted
            data = state[: TICK.start] + mark + state[TICK.stop :]
            sent = time.monotonic_ns()
            publisher.publish(data)
            answered = False
            while not answered and (left := deadlines.until(tick + 1)) > 0:
                for _, answer in inbox.wait(left * 1e-9):
                    answered = answer[TICK] == mark
            if answered:
                watch.round_trip[tick] = time.monotonic_ns() - sent
            watch.begun[tick] = sent - started
    return watch.summary(ticks)


def _type(topic: str) -> type:
    return getattr(msg, TOPICS[topic].TYPE.rpartition("/")[2])


if __name__ == "__main__":
    main()
