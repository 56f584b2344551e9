"""A node that publishes random messages on the topics of a trial and sets its parameters, until it is killed.

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
from haptic_sim.messages import TOPICS

NODES = ("driver", "controller", "environment", "local_model", "recorder")
NAMES = ("contact.stiffness", "device.massss", "use_sim_time", "rate", "", "controller.type", "x" * 200)


def main(namespace: str, number: int) -> None:
    """Disturb a trial."""
    rng = np.random.default_rng([5, number])
    rclpy.init()
    node = rclpy.create_node("stranger", namespace=namespace)
    early, storm = rng.uniform() < 0.2, rng.choice([0.0, 0.2, 1.0])  # how often it sets a parameter
    while not early and not node.count_publishers("device_command"):
        time.sleep(0.02)
    time.sleep(rng.uniform(0.0, 3.0))
    publishers = [_publisher(node, rng) for _ in range(int(rng.integers(1, 5)))]
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
        rclpy.spin_once(node, timeout_sec=0.0)
        time.sleep(float(rng.choice([0.0005, 0.005, 0.05])))


def _publisher(node: Any, rng: np.random.Generator) -> tuple[str, Any]:
    """A publisher on a topic of the trial, of its type or of another, with any quality of service."""
    topic = str(rng.choice([*TOPICS, "trial_events"]))
    kinds = [String, *(getattr(msg, one) for one in ("DeviceState", "DeviceCommand", "ToolCommand"))]
    own = TOPICS[topic].TYPE.rpartition("/")[2] if topic in TOPICS else "TrialEvent"
    kind = getattr(msg, own) if rng.uniform() < 0.7 else kinds[int(rng.integers(len(kinds)))]
    reliability = ReliabilityPolicy.RELIABLE if rng.uniform() < 0.5 else ReliabilityPolicy.BEST_EFFORT
    durability = DurabilityPolicy.TRANSIENT_LOCAL if rng.uniform() < 0.3 else DurabilityPolicy.VOLATILE
    quality = QoSProfile(depth=int(rng.integers(1, 50)), reliability=reliability, durability=durability)
    return topic, node.create_publisher(kind, topic, quality)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
