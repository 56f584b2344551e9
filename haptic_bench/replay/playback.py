"""Playback of a recorded trial on ROS 2: the recorded messages on their topics, at their times."""

from __future__ import annotations

import importlib
import math
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from haptic_bench.recording import bag
from haptic_bench.recording.trial_bag import namespace_of
from haptic_bench.running import namespaces
from haptic_bench.running.runner import Interruption
from haptic_ros.graph import EVENTS
from haptic_sim.parameters import ParameterError

QUIET = 0.5  # [s] without a new subscriber, after which those that are there are known
DISCOVERY = 5.0  # [s] at most until then
DELIVERY = 2.0  # [s] at most for the last messages to arrive
POLL = 0.02  # [s]


@dataclass(frozen=True)
class Playing:
    """Settings of the playback of a trial.

    Attributes:
        rate: times as fast as it was.
        loop: begin again at the end, until interrupted.
        start, end: the part that is played, in the trial's time [s].
        subscribers: how many to wait for, on all topics together; None: those that are there.
    """

    rate: float = 1.0
    loop: bool = False
    start: float = 0.0
    end: float = math.inf
    subscribers: int | None = None


def play(directory: Path, namespace: str, how: Playing, interruption: Interruption) -> int:
    """Publish the messages of a trial's bag at the times at which they were recorded; returns how many.

    Args:
        directory: of the trial.
        namespace: of the topics, with the slash in front; empty: as in the bag.
        how: which part, and how fast.
        interruption: ends it.

    Raises:
        BagError: the bag cannot be read, or holds what cannot be published.
        ParameterError: the namespace is taken by a running trial, or nothing was recorded in that part.
    """
    topics = bag.read(directory / "bag")
    recorded = namespace_of(topics).rstrip("/") or "/"
    namespace = namespace or recorded
    kinds = {name: _message_type(directory, topic.type) for name, topic in topics.items()}
    schedule = _schedule(topics, how)
    with namespaces.claim(namespaces.checked(namespace), exactly=True):
        return _publish(topics, kinds, (recorded, namespace), schedule, how, interruption)


Schedule = Sequence[tuple[int, int, str]]
"""Time [ns] from the beginning of the bag, index of the message in its topic, topic; in the order of time."""


def _schedule(topics: Mapping[str, bag.BagTopic], how: Playing) -> Schedule:
    """The messages of a bag that are played."""
    whole = sorted((int(at), i, name) for name, topic in topics.items() for i, at in enumerate(topic.log_times))
    if not whole:
        raise ParameterError(["nothing was recorded: there is nothing to play"])
    first, last = whole[0][0], whole[-1][0]
    part = [(at - first, i, name) for at, i, name in whole if how.start <= (at - first) * 1e-9 <= how.end]
    if not part:
        length = (last - first) * 1e-9
        raise ParameterError([f"--from {how.start:g} --to {how.end:g}: has no message; the trial is {length:g} s long"])
    return part


def _publish(
    topics: Mapping[str, bag.BagTopic],
    kinds: Mapping[str, Any],
    renamed: tuple[str, str],
    schedule: Schedule,
    how: Playing,
    interruption: Interruption,
) -> int:
    import rclpy
    from rclpy.duration import Duration
    from rclpy.exceptions import NameValidationException
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

    from haptic_ros.middleware.context import initialise  # needs ROS

    recorded, namespace = renamed
    initialise([])
    try:
        node = rclpy.create_node("playback", namespace=namespace)
        publishers: dict[str, Any] = {}
        for name, kind in kinds.items():
            latched = name.endswith(f"/{EVENTS}")
            qos = QoSProfile(
                depth=10,
                reliability=ReliabilityPolicy.RELIABLE,
                durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
            )
            topic = namespace + name.removeprefix(recorded.rstrip("/"))
            try:
                publishers[name] = node.create_publisher(kind, topic, qos)
            except NameValidationException as error:
                raise bag.BagError(topic, f"is not the name of a topic: {str(error).splitlines()[0]}") from error
        _await_subscribers(list(publishers.values()), how.subscribers, interruption)
        sent = 0
        while not interruption:
            begun = time.monotonic()
            for at, i, name in schedule:
                wait = begun + (at - schedule[0][0]) * 1e-9 / how.rate - time.monotonic()
                if (wait > 0.0 and interruption.event.wait(wait)) or interruption:
                    break
                publishers[name].publish(topics[name].messages[i])
                sent += 1
            if not how.loop:
                break
        for publisher in publishers.values():
            publisher.wait_for_all_acked(Duration(seconds=0.0 if interruption else DELIVERY))
        node.destroy_node()
        return sent
    finally:
        rclpy.try_shutdown()


def _await_subscribers(publishers: Sequence[Any], wanted: int | None, interruption: Interruption) -> None:
    """Wait for a number of subscribers; without one, until no more are discovered."""
    begun = changed = time.monotonic()
    found, notified = 0, False
    while not interruption:
        now, before = time.monotonic(), found
        found = sum(publisher.get_subscription_count() for publisher in publishers)
        if found != before:
            changed = now
        if wanted is None:
            if now > min(changed + QUIET, begun + DISCOVERY):
                return
        elif found >= wanted:
            return
        elif not notified and now > begun + 1.0:
            print(f"haptics: waiting for {wanted} subscribers, {found} are there", file=sys.stderr, flush=True)
            notified = True
        interruption.event.wait(POLL)


def _message_type(directory: Path, name: str) -> Any:
    """The class of a message type such as haptics/msg/ToolState.

    Only of packages that are known: a bag does not choose which module is imported.
    """
    known = re.fullmatch(r"[a-z]\w*/msg/[A-Z]\w*", name, re.ASCII) and name in bag.message_types().fielddefs
    if not known:
        problem = f"type {name[:80]!r} is neither of ROS 2 nor of this package: it is not played"
        raise bag.BagError(directory / "bag", problem)
    package, _, kind = name.split("/")
    try:
        return getattr(importlib.import_module(f"{package}.msg"), kind)
    except (ImportError, AttributeError) as error:
        raise bag.BagError(directory / "bag", f"type {name}: its package is not installed: {error}") from error
