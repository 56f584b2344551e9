"""Fields switched by a topic: what is refused, and that what was switched is recorded and repeated bit by bit."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Haptics, answer, wait_until

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

import graph_checks
from haptics.msg import TrialEvent
from rcl_interfaces.srv import GetParameters
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import serialize_message
from std_msgs.msg import Int32, String

from haptic_bench.recording.samples import Samples
from haptic_bench.replay.resimulation import own_types
from haptic_sim.messages import MessageError
from haptic_sim.nodes.field_switch import LARGEST, TOPIC, read_strengths

NAMES = ("guide", "oil", "ball")
WANTED = r'must be strengths from 0 to 1 by field, as \{"guide": 0\} \(known: guide, oil, ball\)'


def message(text: str) -> bytes:
    found: bytes = serialize_message(String(data=text))
    return found


def test_strengths_are_read_as_they_were_sent() -> None:
    assert read_strengths(message('{"guide": 0.25, "ball": 1}'), NAMES) == {"guide": 0.25, "ball": 1.0}
    big = b"\0\0\0\0" + (15).to_bytes(4, "big") + b'{"guide": 0.5}\0'
    assert read_strengths(big, NAMES) == {"guide": 0.5}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", rf"^{TOPIC} = .*: not JSON.*; {WANTED}$"),
        ("guide", rf"^{TOPIC} = guide: not JSON.*; {WANTED}$"),
        ("{}", rf"^{TOPIC} = .*: {WANTED}$"),
        ("[1]", rf"^{TOPIC} = .*: {WANTED}$"),
        ('"guide"', rf"^{TOPIC} = .*: {WANTED}$"),
        ("null", rf"^{TOPIC} = .*: {WANTED}$"),
        ('{"guid": 0}', rf"^{TOPIC}\.guid: unknown field; did you mean guide\? \(known: .*guide.*\)$"),
        ('{"guide": 0, "x": 0}', rf"^{TOPIC}\.x: unknown field \(known: .*guide.*\)$"),
        ('{"guide": 1.5}', rf"^{TOPIC}\.guide = 1\.5: must be from 0 to 1$"),
        ('{"guide": -1e-9}', rf"^{TOPIC}\.guide = -1e-09: must be from 0 to 1$"),
        ('{"guide": NaN}', rf"^{TOPIC} = .*: not JSON: NaN is not a number; {WANTED}$"),
        ('{"guide": Infinity}', rf"^{TOPIC} = .*: not JSON: Infinity is not a number; {WANTED}$"),
        ('{"guide": 1e999}', rf"^{TOPIC}.*"),
        ('{"guide": true}', rf"^{TOPIC}\.guide = true: must be a number from 0 to 1$"),
        ('{"guide": "0"}', rf"^{TOPIC}\.guide = .*0.*: must be a number from 0 to 1$"),
        ('{"guide": null}', rf"^{TOPIC}\.guide = null: must be a number from 0 to 1$"),
        ('{"guide": [0]}', rf"^{TOPIC}\.guide = \[0\]: must be a number from 0 to 1$"),
        ('{"guide": 0, "guide": 1}', rf"^{TOPIC} = .*: not JSON.*; {WANTED}$"),
        ('{"\\u001b[2J\\n": 0}', rf"^{TOPIC}\.[^\x1b\n]*: unknown field \(known: .*\)$"),
        ('{"' + 5000 * "x" + '": 0}', rf"^{TOPIC}\.x{{1,200}}\.\.\.: unknown field \(known: .*\)$"),
        (4000 * "[", rf"^{TOPIC} = .*: not JSON.*; {WANTED}$"),
        ("\udcff".encode("utf-8", "surrogatepass").decode("latin-1"), rf"^{TOPIC} = .*: not JSON.*; {WANTED}$"),
        (LARGEST * " ", rf"^{TOPIC}: has \d+ bytes: must have at most {LARGEST}$"),
    ],
)
def test_what_is_no_strength_of_a_field_is_refused_in_one_sentence(text: str, problem: str) -> None:
    with pytest.raises(MessageError, match=problem) as caught:
        read_strengths(message(text), NAMES)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\1\0\0", b"\0\1\0\0\xff\xff\xff\xff", b"\0\1\0\0\5\0\0\0\xff\xfe\0\1\0"]
)
def test_bytes_that_are_no_text_are_refused(data: bytes) -> None:
    with pytest.raises(MessageError, match=rf"{TOPIC} = .*: not JSON"):
        read_strengths(data, NAMES)


HOSTILE = ("", "[]", '{"guid": 0}', '{"guide": 2}', '{"guide": NaN}', '{"guide": "off"}', "\x00\x1b[2J", 9000 * "{")


BESIDE = ("--set", "local_model={type: full, dynamics: current}", "--set", "environment.rate=60")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "given",
    [
        ("--mode", "lockstep"),
        ("--mode", "lockstep", *BESIDE),
        ("--mode", "lockstep", "--composed"),
        ("--mode", "realtime"),
        ("--mode", "realtime", "--composed", *BESIDE),
    ],
)
def test_a_topic_switches_fields_which_is_repeated_bit_by_bit(
    haptics: Callable[..., Haptics], tmp_path: Path, given: tuple[str, ...]
) -> None:
    """Whatever else is sent on it, at as many messages in a second as go; with a local model both nodes switch."""
    out = tmp_path / "out"
    run = haptics("run", "guided_path", *given, "--duration", "3000", "--set", "analysis=trial", "--out", str(out))
    wait_until(graph_checks.started(out), "the first chunk")
    nodes = ("environment", "local_model") if "--set" in given else ("environment",)
    with graph_checks.observer() as node, graph_checks.observer("stranger") as stranger:
        namespace = _namespace(node)
        publisher = node.create_publisher(String, f"{namespace}/{TOPIC}", 10)
        changed: list[str] = []  # by nodes: a parameter is set before a tick takes it
        node.create_subscription(
            TrialEvent,
            f"{namespace}/trial_events",
            lambda event: changed.append(event.node) if event.name == "changed" else None,
            QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL),
        )
        wait_until(lambda: publisher.get_subscription_count() == len(nodes), "the subscriptions")

        def strengths() -> list[Any]:
            request = GetParameters.Request(names=["environment.fields"])
            answers = [
                graph_checks.ask(node, GetParameters, f"{namespace}/{one}/get_parameters", request) for one in nodes
            ]
            return [json.loads(one.values[0].string_value) for one in answers]

        def switch(text: str, wanted: dict[str, float]) -> None:
            publisher.publish(String(data=text))
            wait_until(lambda: strengths() == [wanted] * len(nodes), text)

        switch('{"guide": 0.25}', {"guide": 0.25})
        switch('{"oil": 0}', {"guide": 0.25, "oil": 0})
        publisher.publish(String(data='{"guid": 0}'))
        refused = f"refused: {TOPIC}.guid: unknown field; did you mean guide?"
        wait_until(lambda: any(refused in file.read_text() for file in (out / "log").glob("*.log")), refused)
        foreign = stranger.create_publisher(Int32, f"{namespace}/{TOPIC}", 10)
        end, sent = time.monotonic() + 2.0, 0
        while time.monotonic() < end:
            publisher.publish(String(data=HOSTILE[sent % len(HOSTILE)]))
            foreign.publish(Int32(data=sent))
            sent += 1
        assert sent > 1000
        assert strengths() == [{"guide": 0.25, "oil": 0}] * len(nodes)
        switch('{"guide": 1}', {"guide": 1, "oil": 0})
        wait_until(lambda: all(changed.count(one) >= 3 for one in nodes), "the last change")
    run.interrupt()
    assert run.wait() == 130, run.err
    graph_checks.check_interrupted(out, changed=3 * len(nodes))
    events = [
        own_types().deserialize_cdr(data, "haptics/msg/TrialEvent")
        for data in graph_checks.topics(out)["trial_events"].messages
    ]
    for one in nodes:
        changes = [event.detail.partition("=")[2] for event in events if (event.node, event.name) == (one, "changed")]
        assert [json.loads(json.loads(change)) for change in changes] == [
            {"guide": 0.25},
            {"guide": 0.25, "oil": 0},
            {"guide": 1, "oil": 0},
        ]
    verify = answer("replay", str(out), "--verify")
    assert verify.status == 0, verify.out + verify.err


@pytest.mark.exhaustive
def test_a_flood_of_changes_is_recorded_at_a_bounded_rate(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    """Of more than 1000 messages a second, at most one every 20 ms counts; what was switched is repeated."""
    out = tmp_path / "out"
    settings = ("--duration", "3000", "--set", "analysis=trial")
    run = haptics("run", "guided_path", "--mode", "lockstep", *settings, "--out", str(out))
    wait_until(graph_checks.started(out), "the first chunk")
    with graph_checks.observer() as node:
        publisher = node.create_publisher(String, f"{_namespace(node)}/{TOPIC}", 10)
        wait_until(lambda: publisher.get_subscription_count() == 1, "the subscription")
        begin, sent = time.monotonic(), 0
        while time.monotonic() < begin + 2.0:
            publisher.publish(String(data=json.dumps({"guide": (sent % 1000) / 1000.0})))
            sent += 1
        took = time.monotonic() - begin
    run.interrupt()
    assert run.wait() == 130, run.err
    changed = sum(b"changed" in event for event in graph_checks.topics(out)["trial_events"].messages)
    assert 2 <= changed <= took / 0.02 + 2 < sent / 5
    graph_checks.check_interrupted(out, changed=changed)
    verify = answer("replay", str(out), "--verify")
    assert verify.status == 0, verify.out + verify.err


def _namespace(node: Any) -> str:
    names = node.get_topic_names_and_types
    wait_until(lambda: any(name.endswith("/tool_state") for name, _ in names()), "the topic tool_state")
    (namespace,) = {name.rpartition("/")[0] for name, _ in names() if name.endswith("/tool_state")}
    return str(namespace)


@pytest.mark.exhaustive
def test_fields_of_a_trial_without_a_device_are_switched(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    """The guide holds the tool against a constant wrench, and no longer when it is off."""
    out = tmp_path / "out"
    settings = (
        "analysis=trial",
        "device={type: none}",
        "controller={type: none}",
        "operator={type: constant, wrench: [0, -0.5, 0, 0, 0, 0]}",
    )
    given = [part for one in settings for part in ("--set", one)]
    run = haptics("run", "guided_path", "--mode", "lockstep", "--duration", "3000", *given, "--out", str(out))
    wait_until(graph_checks.started(out), "the first chunk")
    with graph_checks.observer() as node:
        namespace = _namespace(node)
        publisher = node.create_publisher(String, f"{namespace}/{TOPIC}", 10)
        wait_until(lambda: publisher.get_subscription_count() == 1, "the subscription")
        publisher.publish(String(data='{"guide": 0}'))
        request = GetParameters.Request(names=["environment.fields"])

        def strengths() -> str:
            answer = graph_checks.ask(node, GetParameters, f"{namespace}/environment/get_parameters", request)
            return str(answer.values[0].string_value)

        wait_until(lambda: strengths() == '{"guide": 0.0}', "the change")
        time.sleep(0.5)  # of ticks that follow
    run.interrupt()
    assert run.wait() == 130, run.err
    verify = answer("replay", str(out), "--verify")
    assert verify.status == 0, verify.out + verify.err
    samples = Samples.read_csv(out / "samples.csv")
    assert abs(samples["tool_py"][-1]) > 0.1
