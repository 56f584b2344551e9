"""A node that disturbs a trial until it is killed.

It publishes random messages on the trial's topics and messages of the trial once more, sets parameters, and subscribes
and unsubscribes at any time.

python -m campaign.stranger NAMESPACE NUMBER
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any

import numpy as np
import rclpy
from haptics import msg
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import String

from campaign.inputs import damaged
from haptic_ros.middleware.context import initialise
from haptic_sim.messages import TOPICS

NODES = ("driver", "controller", "environment", "local_model", "recorder")
MOST = 20  # subscriptions at a time
NAMES = ("contact.stiffness", "device.massss", "use_sim_time", "rate", "", "controller.type", "x" * 200)


def main(namespace: str, number: int) -> None:
    """Disturb a trial."""
    rng = np.random.default_rng([5, number])
    initialise(())
    node = rclpy.create_node("stranger", namespace=namespace)
    early, storm = rng.uniform() < 0.2, rng.choice([0.0, 0.2, 1.0])  # how often it sets a parameter
    while not early and not node.count_publishers("device_command"):
        time.sleep(0.02)
    time.sleep(rng.uniform(0.0, 3.0))
    publishers = [_publisher(node, rng) for _ in range(int(rng.integers(1, 5)))]
    duplicates = float(rng.choice([0.0, 0.5, 1.0]))  # part of the trial's messages that it publishes once more
    subscriptions: list[Any] = []
    clients = [node.create_client(SetParameters, f"{name}/set_parameters") for name in NODES]
    while True:
        for topic, publisher in publishers:
            data = TOPICS[topic]().to_bytes() if topic in TOPICS else bytes(rng.integers(0, 256, 40, np.uint8))
            if rng.uniform() < 0.7:
                data = damaged(rng, data)
            with contextlib.suppress(Exception):  # bytes that the middleware itself refuses
                publisher.publish(bytes(data))
        client = clients[int(rng.integers(len(clients)))]
        if rng.uniform() < storm and client.service_is_ready():
            value = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value="x")
            name = NAMES[int(rng.integers(len(NAMES)))]
            client.call_async(SetParameters.Request(parameters=[Parameter(name=name, value=value)]))
        if rng.uniform() < 0.05 and len(subscriptions) < MOST:
            again = publishers[int(rng.integers(len(publishers)))] if rng.uniform() < duplicates else None
            subscriptions.append(_subscription(node, rng, again))
        elif rng.uniform() < 0.02 and subscriptions:
            node.destroy_subscription(subscriptions.pop(int(rng.integers(len(subscriptions)))))
        rclpy.spin_once(node, timeout_sec=0.0)
        time.sleep(float(rng.choice([0.0005, 0.005, 0.05])))


def _publisher(node: Any, rng: np.random.Generator) -> tuple[str, Any]:
    """A publisher on a topic of the trial, of its type or of another, with any quality of service."""
    topic, kind = _topic(rng)
    return topic, node.create_publisher(kind, topic, _quality(rng))


def _subscription(node: Any, rng: np.random.Generator, again: tuple[str, Any] | None) -> Any:
    """A subscription with any quality of service; what it takes is published once more by `again`, if there is one."""
    if again is None:
        topic, kind = _topic(rng)
        return node.create_subscription(kind, topic, _ignore, _quality(rng), raw=True)
    topic, publisher = again
    return node.create_subscription(publisher.msg_type, topic, publisher.publish, _quality(rng), raw=True)


def _ignore(data: bytes) -> None:
    """Take a message."""


def _topic(rng: np.random.Generator) -> tuple[str, Any]:
    """A topic of a trial, and its type or another."""
    topic = str(rng.choice([*TOPICS, "trial_events"]))
    kinds = [String, *(getattr(msg, one) for one in ("DeviceState", "DeviceCommand", "ToolCommand"))]
    own = TOPICS[topic].TYPE.rpartition("/")[2] if topic in TOPICS else "TrialEvent"
    return topic, getattr(msg, own) if rng.uniform() < 0.7 else kinds[int(rng.integers(len(kinds)))]


def _quality(rng: np.random.Generator) -> QoSProfile:
    """Any quality of service."""
    reliability = ReliabilityPolicy.RELIABLE if rng.uniform() < 0.5 else ReliabilityPolicy.BEST_EFFORT
    durability = DurabilityPolicy.TRANSIENT_LOCAL if rng.uniform() < 0.3 else DurabilityPolicy.VOLATILE
    return QoSProfile(depth=int(rng.integers(1, 50)), reliability=reliability, durability=durability)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
