"""Controllers and environments of the user's own with one thing wrong: the trial ends, and says what is wrong.

What they do is in hostile_node.py. Every tick that was recorded is verified, and every node ends with the trial.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import DEADLINE, ROOT, Haptics, wait_until

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

EXPERIMENTS = {
    "controller": str(ROOT / "examples" / "external_controller" / "external_wall.yaml"),
    "environment": str(ROOT / "examples" / "external_environment" / "external_mass.yaml"),
}
STOPPED = r"tick 50: no command within 10 s: {} 50 of {} has not come"
CONTROLLER = STOPPED.format("tool_command", "controller")
ENVIRONMENT = STOPPED.format("tool_state", "environment")
TOO_LONG = r"has refused trial_events: changed of controller: 1000061 bytes: must be at most 65536"
FAULTS = [
    ("controller", "also_ahead", ""),
    ("controller", "ahead", CONTROLLER),
    ("controller", "nan", ENVIRONMENT + "; environment has refused tool_command 50: not finite"),
    ("controller", "header", "tool_state 0 of environment has not come; environment has refused .*'elsewhere'"),
    ("controller", "silent", "tick 0: no command within 10 s: tool_command 0 of controller has not come"),
    ("controller", "flood_silent", CONTROLLER),
    ("controller", "flood_events", CONTROLLER),
    ("controller", "recorded_silent", CONTROLLER),
    ("controller", "says_finished", ""),
    ("controller", "says_closed_badly", ""),
    ("controller", "megabyte", TOO_LONG),
    ("environment", "ahead", ENVIRONMENT + "; controller has refused tool_state 1050: must be 50"),
    ("environment", "nan", "device_command 50 of controller has not come; controller has refused tool_state 50"),
    ("environment", "size", "controller has refused haptics/msg/ToolState: 764 bytes: must be 820"),
    ("environment", "says_finished", ""),
]


@contextlib.contextmanager
def hostile(fault: str, role: str, namespace: str) -> Iterator[None]:
    """A node with this fault, which ends by itself: it hears of the end of the trial, whatever that is."""
    script = str(Path(__file__).with_name("hostile_node.py"))
    command = [sys.executable, script, fault, role, "--ros-args", "-r", f"__ns:=/{namespace}"]
    with subprocess.Popen(command) as node:
        try:
            yield
            node.wait(DEADLINE)
        finally:
            node.kill()


@pytest.mark.exhaustive
@pytest.mark.long
@pytest.mark.parametrize(("role", "fault", "reason"), FAULTS, ids=[f"{role}-{fault}" for role, fault, _ in FAULTS])
def test_a_trial_ends_whatever_the_user_s_node_does(
    haptics: Callable[..., Haptics], tmp_path: Path, role: str, fault: str, reason: str
) -> None:
    namespace, out = f"hostile_{role}_{fault}", tmp_path / "out"
    run = haptics("run", EXPERIMENTS[role], "--mode", "lockstep", "--namespace", namespace, "--out", str(out))
    with hostile(fault, role, namespace):
        status = run.wait()
    summary = json.loads((out / "summary.json").read_text())
    assert (status, summary["status"]) == ((1, "failed") if reason else (0, "done")), run.err
    if reason:
        assert_matches(reason, summary["reason"])
        assert_matches(reason, run.err)
    else:
        assert summary["ticks"] == 151
    verified = haptics("replay", str(out), "--verify")
    verified.wait()
    said = verified.out + verified.err
    assert "identical, bit by bit" in said if summary["ticks"] else "nothing was recorded" in said, said


def assert_matches(pattern: str, text: str) -> None:
    assert re.search(pattern, text), text


@pytest.mark.exhaustive
@pytest.mark.long
@pytest.mark.parametrize(
    ("role", "fault", "text"),
    [
        (
            "controller",
            "wrong_type_ready",
            "tool_command: controller publishes haptics/msg/DeviceState: must be haptics/msg/ToolCommand",
        ),
        ("environment", "header", "controller has refused"),
    ],
)
def test_a_node_that_keeps_others_from_being_ready_is_named_at_once(
    haptics: Callable[..., Haptics], tmp_path: Path, role: str, fault: str, text: str
) -> None:
    """The trial waits for one that does not, for as long as for any."""
    out, namespace = tmp_path / "out", f"hostile_{fault}"
    run = haptics("run", EXPERIMENTS[role], "--mode", "lockstep", "--namespace", namespace, "--out", str(out))
    with hostile(fault, role, namespace):
        log = out / "log" / "driver.log"
        wait_until(lambda: log.exists() and text in log.read_text(), "the reason")
        run.interrupt()
        assert run.wait() == 130
        assert text in run.err
