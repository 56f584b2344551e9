"""The servo graph with nothing in it: the same processes, topics and message sizes, but no cores and no parameters.

What a tick costs here is what ROS 2 costs; the benchmark compares a trial with it in the same run.

    python benchmarks/empty_chain.py ROLE NAMESPACE TICKS
"""

from __future__ import annotations

import sys
import time

import rclpy
from haptics import msg
from rclpy.qos import QoSProfile, ReliabilityPolicy

from haptic_sim.messages import TOPICS
from haptic_sim.nodes.servo import Inbox

ANSWERS = {
    "controller": {"device_state": "tool_command", "tool_state": "device_command"},
    "environment": {"tool_command": "tool_state"},
    "recorder": {"device_state": "", "tool_command": "", "tool_state": "", "device_command": ""},
}
SIZES = {
    topic: len(kind(**({"q": 3, "v": 3} if topic == "tool_state" else {})).to_bytes()) for topic, kind in TOPICS.items()
}


def main() -> None:
    """Run one role."""
    role, namespace, ticks = sys.argv[1], sys.argv[2], int(sys.argv[3])
    rclpy.init()
    node = rclpy.create_node(role, namespace=namespace)
    depth = 1000 if role == "recorder" else 1
    heard = ["device_command"] if role == "driver" else list(ANSWERS[role])
    spoken = ["device_state"] if role == "driver" else [topic for topic in ANSWERS[role].values() if topic]
    publishers = {
        topic: node.create_publisher(
            _type(topic), topic, QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        )
        for topic in spoken
    }
    subscriptions = {
        topic: node.create_subscription(
            _type(topic),
            topic,
            lambda _: None,
            QoSProfile(depth=depth, reliability=ReliabilityPolicy.BEST_EFFORT),
            raw=True,
        )
        for topic in heard
    }
    inbox = Inbox(node.context, subscriptions)
    if role == "driver":
        _drive(inbox, publishers, ticks)
    else:
        answers = {topic: bytes(SIZES[answer]) for topic, answer in ANSWERS[role].items() if answer}
        while True:
            for topic, _ in inbox.wait(None):
                if topic in answers:
                    publishers[ANSWERS[role][topic]].publish(answers[topic])


def _drive(inbox: Inbox, publishers: dict[str, rclpy.publisher.Publisher], ticks: int) -> None:
    state, publisher = bytes(SIZES["device_state"]), publishers["device_state"]
    done = -100  # the first hundred are not counted
    begun = time.perf_counter()
    deadline = time.monotonic() + 60.0
    while done < ticks:
        if done == 0:
            begun = time.perf_counter()
        publisher.publish(state)
        while not any(True for _ in inbox.wait(0.05)):
            if time.monotonic() > deadline:
                sys.exit("no answer")
            publisher.publish(state)
        done += 1
    print((time.perf_counter() - begun) / ticks, flush=True)


def _type(topic: str) -> type:
    return getattr(msg, TOPICS[topic].TYPE.rpartition("/")[2])


if __name__ == "__main__":
    main()
