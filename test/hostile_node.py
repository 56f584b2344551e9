"""The controller or the environment of the examples with one thing wrong: a node of the user's own, as it may be.

python test/hostile_node.py FAULT controller|environment --ros-args -r __ns:=/NAMESPACE
"""

from __future__ import annotations

import copy
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from haptics.msg import DeviceState, TrialEvent
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SCRIPTS = {"controller": "external_controller/controller.py", "environment": "external_environment/environment.py"}
AT = 50  # tick from which a node that begins well does what is wrong
ANSWERS = ("tool_command", "device_command", "tool_state")
Publish = Callable[[Any], None]


def changed(message: Any, **values: Any) -> Any:
    """A copy of a message with other values."""
    other = copy.deepcopy(message)
    for name, value in values.items():
        setattr(other, name, value)
    return other


def twice(publish: Publish, message: Any, node: Any) -> None:
    publish(message)
    publish(message)


def late(publish: Publish, message: Any, node: Any) -> None:
    """k, and k - 1 again."""
    before = node.sent_before.get(type(message))
    node.sent_before[type(message)] = copy.deepcopy(message)
    publish(message)
    if before is not None:
        publish(before)


def ahead(publish: Publish, message: Any, node: Any) -> None:
    publish(changed(message, tick=message.tick + 1000) if message.tick >= AT else message)


def also_ahead(publish: Publish, message: Any, node: Any) -> None:
    """A message of the future beside the right one, each tick."""
    publish(message)
    if message.tick >= AT:
        publish(changed(message, tick=message.tick + 40))


def negative(publish: Publish, message: Any, node: Any) -> None:
    publish(changed(message, tick=-5) if message.tick >= AT else message)


def nan(publish: Publish, message: Any, node: Any) -> None:
    if message.tick >= AT:
        message = copy.deepcopy(message)
        message.wrench.force.x = float("nan")
    publish(message)


def header(publish: Publish, message: Any, node: Any) -> None:
    message = copy.deepcopy(message)
    message.header.frame_id = "elsewhere"
    message.header.stamp.sec = 12345
    publish(message)


def stamp(publish: Publish, message: Any, node: Any) -> None:
    message = copy.deepcopy(message)
    message.header.stamp.sec = 12345
    publish(message)


def size(publish: Publish, message: Any, node: Any) -> None:
    """A tool of another kind: its state has other sizes."""
    publish(changed(message, q=[0.0] * 3, v=[0.0] * 3) if hasattr(message, "q") and message.tick >= AT else message)


def silent(publish: Publish, message: Any, node: Any) -> None:
    if message.tick < 0:
        publish(message)


def third(publish: Publish, message: Any, node: Any) -> None:
    if message.tick < 0 or not message.tick % 3:
        publish(message)


def dies(publish: Publish, message: Any, node: Any) -> None:
    publish(message)
    if message.tick == AT:
        os.kill(os.getpid(), signal.SIGKILL)


def says(name: str, detail: str = "", tick: int | None = None) -> Callable[[Publish, Any, Any], None]:
    """Publishes an event of its own once."""

    def fault(publish: Publish, message: Any, node: Any) -> None:
        publish(message)
        if message.tick >= AT and not node.said:
            node.said = True
            event = TrialEvent(tick=message.tick if tick is None else tick, node=node.get_name(), name=name)
            event.detail = detail
            node.events.publish(event)

    return fault


def megabyte(publish: Publish, message: Any, node: Any) -> None:
    publish(message)
    if message.tick >= AT:
        event = TrialEvent(tick=message.tick, node=node.get_name(), name="changed", detail="x" * 1_000_000)
        node.events.publish(event)


def flood(publish: Publish, message: Any, node: Any) -> None:
    """Its last answer again and again, 10000 times a second."""
    publish(message)
    repeat(node, lambda: [send(last) for send, last in list(node.latest.values())])


def flood_silent(publish: Publish, message: Any, node: Any) -> None:
    """The same, and from some tick on always that one's."""
    if message.tick < AT:
        publish(message)
        repeat(node, lambda: [send(last) for send, last in list(node.latest.values())])
    node.frozen = message.tick >= AT - 1


def flood_events(publish: Publish, message: Any, node: Any) -> None:
    """Events 10000 times a second, and no answer."""
    if message.tick < AT:
        publish(message)
    event = TrialEvent(tick=-1, node=node.get_name(), name="alive")
    repeat(node, lambda: node.events.publish(event))


def recorded_silent(publish: Publish, message: Any, node: Any) -> None:
    if message.tick < AT:
        publish(message)
    event = TrialEvent(tick=10**6, node=node.get_name(), name="recorded")
    repeat(node, lambda: node.events.publish(event), 0.1)


def nothing(publish: Publish, message: Any, node: Any) -> None:
    publish(message)


def repeat(node: Any, call: Callable[[], object], period: float = 1e-4) -> None:
    """Call a function again and again in a thread of the node, until the process ends."""
    if node.repeats is not None:
        return

    def work() -> None:
        while True:
            call()
            time.sleep(period)

    node.repeats = threading.Thread(target=work, daemon=True)
    node.repeats.start()


FAULTS: dict[str, Callable[[Publish, Any, Any], None]] = {
    "right": nothing,
    "twice": twice,
    "late": late,
    "ahead": ahead,
    "also_ahead": also_ahead,
    "negative": negative,
    "nan": nan,
    "header": header,
    "stamp": stamp,
    "size": size,
    "silent": silent,
    "mute": nothing,
    "ready_again": nothing,
    "third": third,
    "dies": dies,
    "says_finished": says("finished"),
    "says_interrupted": says("interrupted"),
    "says_recorded": says("recorded", tick=10**6),
    "says_closed": says("closed"),
    "says_closed_badly": says("closed", "no JSON"),
    "says_deactivated": says("deactivated"),
    "recorded_silent": recorded_silent,
    "megabyte": megabyte,
    "flood": flood,
    "flood_silent": flood_silent,
    "flood_events": flood_events,
    "stays": flood_silent,
    "reliable": nothing,
    "transient": nothing,
    "wrong_type": nothing,
    "wrong_type_ready": nothing,
}


def hostile(kind: type[Node], fault: str) -> type[Node]:
    """A class of node with one thing wrong."""

    class Hostile(kind):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            self.sent_before: dict[type, Any] = {}
            self.latest: dict[str, tuple[Publish, Any]] = {}
            self.said = self.frozen = False
            self.repeats: threading.Thread | None = None
            super().__init__()

        def create_publisher(self, kind: Any, topic: str, qos: Any, **more: Any) -> Any:
            if topic in ANSWERS:
                if fault == "reliable":
                    qos = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
                elif fault == "transient":
                    qos = QoSProfile(
                        depth=100,
                        reliability=ReliabilityPolicy.RELIABLE,
                        durability=DurabilityPolicy.TRANSIENT_LOCAL,
                    )
                elif fault.startswith("wrong_type") and topic != "device_command":
                    kind = DeviceState
            publisher = super().create_publisher(kind, topic, qos, **more)
            if topic in ANSWERS:
                publish = publisher.publish

                def send(message: Any) -> None:
                    if fault.startswith("wrong_type"):
                        return
                    if not self.frozen:
                        self.latest[topic] = publish, copy.deepcopy(message)
                    FAULTS[fault](publish, message, self)

                publisher.publish = send
            return publisher

        def create_subscription(self, kind: Any, topic: str, callback: Any, qos: Any, **more: Any) -> Any:
            if topic != "trial_events" and topic != "parameter_events" and fault in ("reliable", "transient"):
                qos = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
            return super().create_subscription(kind, topic, callback, qos, **more)

        def announce(self) -> None:
            if fault in ("ready_again", "wrong_type_ready"):
                self.events.publish(TrialEvent(tick=-1, node=self.get_name(), name="ready"))
                if fault == "wrong_type_ready":
                    return
            if fault == "mute":
                if hasattr(self, "to_controller"):
                    self.to_controller.publish(self.state)
                return
            super().announce()

        def follow(self, event: Any) -> None:
            if event.name in ("finished", "interrupted") and (event.node == self.get_name() or fault == "stays"):
                return
            super().follow(event)

    return Hostile


def main() -> None:
    """Run the node until the trial ends."""
    fault, role = sys.argv[1:3]
    name = role.capitalize()
    example = runpy.run_path(str(EXAMPLES / SCRIPTS[role]), run_name="example")
    run = example["main"]
    run.__globals__[name] = hostile(example[name], fault)
    run()


if __name__ == "__main__":
    main()
