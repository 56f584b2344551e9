"""The table of the graph: of each trial every topic has one publisher and all who need it, and names are unique."""

from __future__ import annotations

import pkgutil

import pytest
from conftest import ROOT

from haptic_ros.graph import EVENTS, NODES, OPERATOR, ROLES, graph_of
from haptic_sim.messages import TOPICS

SYNCHRONOUS = ("driver", "controller", "environment", "recorder")
TRIALS = {
    "synchronous": SYNCHRONOUS,
    "asynchronous": ("driver", "controller", "local_model", "environment", "recorder"),
    "relayed": ("driver", "device_relay", "world_relay", "controller", "environment", "recorder"),
    "standalone": ("environment", "recorder"),
    "hands": (*SYNCHRONOUS, "left/driver", "left/controller", "right/driver", "right/controller"),
}


@pytest.mark.parametrize("name", TRIALS)
def test_every_topic_has_one_publisher_and_is_recorded(name: str) -> None:
    graph = graph_of(TRIALS[name])
    recorded = graph.taken(graph.role("recorder"))
    for topic in graph.topics:
        publishers = graph.publishers(topic)
        assert len(publishers) <= 1, topic
        assert (topic in recorded) == bool(publishers), topic
    for node in graph.nodes:
        assert all(graph.publishers(topic) for topic in graph.taken(graph.role(node)) if "/" not in topic), node
    assert graph.publishers(EVENTS) == graph.publishers(OPERATOR) == graph.nodes  # they say themselves who they are of


@pytest.mark.parametrize(
    ("name", "topic", "publisher", "listeners"),
    [
        ("synchronous", "device_state", "driver", 2),
        ("synchronous", "tool_state", "environment", 2),
        ("asynchronous", "tool_state", "local_model", 3),  # which the environment surveys
        ("asynchronous", "local_geometry", "environment", 2),
        ("relayed", "device_state", "driver", 2),  # the relay and the recorder; the controller takes it as it arrives
        ("relayed", "relayed_device_state", "world_relay", 2),
        ("relayed", "device_command", "controller", 2),
        ("relayed", "relayed_device_command", "device_relay", 2),
        ("standalone", "tool_command", "environment", 1),
        ("hands", "device_state", "driver", 4),  # and the drivers that it leads
        ("hands", "left/tool_command", "left/controller", 2),
        ("hands", "left/tool_state", "environment", 2),
    ],
)
def test_who_publishes_and_who_takes(name: str, topic: str, publisher: str, listeners: int) -> None:
    graph = graph_of(TRIALS[name])
    assert graph.publishers(topic) == (publisher,)
    assert graph.listeners(topic) == listeners


def test_the_topics_of_a_tick_are_in_its_order() -> None:
    assert graph_of(TRIALS["standalone"]).row == ("tool_command", "tool_state")
    both = graph_of(TRIALS["hands"]).row
    assert both[:4] == ("device_state", "tool_command", "tool_state", "device_command")
    assert both[4:8] == tuple(f"left/{topic}" for topic in both[:4])
    relayed = graph_of(TRIALS["relayed"]).row
    assert relayed == tuple(topic for topic in TOPICS if topic in relayed)


def test_what_is_optional_is_a_topic_of_its_role() -> None:
    for name, role in ROLES.items():
        assert set(role.optional) <= {*role.publishes, *role.takes} or name == "recorder"


def test_a_publisher_that_a_trial_does_not_have_is_foreign() -> None:
    assert graph_of(SYNCHRONOUS).publishers("relay_forward") == ()


def test_clients_of_crtk_are_a_controller_without_an_environment() -> None:
    graph = graph_of(("driver", "controller"))
    assert graph.role("controller") is ROLES["crtk"]
    assert (graph.row, graph.publishers("tool_command")) == (("device_state", "device_command"), ())


def test_every_role_has_its_executable() -> None:
    built = (ROOT / "CMakeLists.txt").read_text().partition("foreach(module\n")[2].partition(")")[0].split()
    assert {role.module for role in ROLES.values()} | {"haptic_bench.nodes.composed", "haptic_bench"} == set(built)
    assert NODES == ("driver", "device_relay", "world_relay", "controller", "local_model", "environment", "recorder")
    pytest.importorskip("haptics.msg", reason="needs the built messages")
    for name, role in ROLES.items():
        assert (role.name or name) == pkgutil.resolve_name(role.node).NAME
