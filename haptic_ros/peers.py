"""Whom a node of a trial shall hear: the publishers of a topic, by their names and identities in the ROS graph."""

from __future__ import annotations

import itertools
from typing import Any

from rclpy.qos import QoSCompatibility, QoSProfile, qos_check_compatible

from haptic_ros.graph import in_trial
from haptic_sim.messages import split_topic

UNKNOWN_NODE = "_NODE_NAME_UNKNOWN_"  # of a publisher whose node the ROS graph does not know, or not yet


class Peers:
    """The publishers of the topics of a trial, as a node of it finds them.

    Args:
        node: a ServoNode that is configured before it asks.
    """

    def __init__(self, node: Any):
        self._node = node
        self._accepted: dict[tuple[str, bytes], bool] = {}  # whether a topic is of a publisher

    def forget(self) -> None:
        """Whoever comes from now on is judged anew."""
        self._accepted.clear()

    def foreign(self, topic: str) -> list[str]:
        """Nodes that publish a topic of the trial and are not of it, or are duplicates."""
        ours = self._of_the_trial(topic)
        publishers = [name for _, name in self._found(topic)]
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

    def mismatched(self, topic: str, kind: str) -> list[str]:
        """Mismatches of the trial's nodes at a topic: another type than `kind`, or incompatible quality of service."""
        node, place = self._node, self._node.place(topic)
        members = {split_topic(name)[1] for name in node.config.nodes}
        publishers, subscriptions = (
            [one for one in found(place) if one.node_name in members]
            for found in (node.get_publishers_info_by_topic, node.get_subscriptions_info_by_topic)
        )
        found = [
            f"{topic}: {one.node_name} {does} {one.topic_type}: must be {kind}"
            for does, endpoints in (("publishes", publishers), ("subscribes to", subscriptions))
            for one in endpoints
            if one.topic_type != kind
        ]
        for publisher, subscription in itertools.product(publishers, subscriptions):
            offered, asked = publisher.qos_profile, subscription.qos_profile
            if qos_check_compatible(offered, asked)[0] == QoSCompatibility.ERROR:
                found.append(
                    f"{topic}: {subscription.node_name} asks for {_quality(asked)}, {publisher.node_name} offers "
                    f"{_quality(offered)}"
                )
        return found

    def is_named(self, topic: str) -> bool:
        """Whether a publisher of the trial is known by its name."""
        return not {name for _, name in self._found(topic)}.isdisjoint(self._of_the_trial(topic))

    def accept(self, topic: str, gid: bytes) -> bool | None:
        """Whether a publisher is one that a topic shall have: the first of its name, as long as it is there.

        None: the ROS graph does not know it yet.
        """
        known = self._accepted.get((topic, gid))
        if known is not None:
            return known
        name_of = {one[: len(gid)]: name for one, name in self._found(topic)}
        name = name_of.get(gid, ("", UNKNOWN_NODE))
        if name[1] == UNKNOWN_NODE:
            return None
        rivals = [one for one, named in name_of.items() if named == name and one != gid]
        accepted = name in self._of_the_trial(topic)
        accepted &= not any(self._accepted.get((topic, one), True) for one in rivals)
        self._accepted[topic, gid] = accepted
        return accepted

    def _found(self, topic: str) -> list[tuple[bytes, tuple[str, str]]]:
        """GID, and namespace and name of the node, of each publisher of a topic."""
        infos = self._node.get_publishers_info_by_topic(self._node.place(topic))
        return [(bytes(info.endpoint_gid), (info.node_namespace, info.node_name)) for info in infos]

    def _of_the_trial(self, topic: str) -> set[tuple[str, str]]:
        """Namespace and name of each node of the trial that may publish a topic."""
        root, config = self._node.root, self._node.config
        names = map(split_topic, config.graph.publishers(in_trial(config.of_hand, topic)))
        return {((f"{root}/{hand}" if hand else root) or "/", name) for hand, name in names}


def _quality(profile: QoSProfile) -> str:
    return f"{profile.reliability.name.lower()}, {profile.durability.name.lower()}".replace("_", " ")
