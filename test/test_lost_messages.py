"""In lockstep a message that is lost costs time, and nothing else: the trial has the bits of one that lost none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import answer

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

from graph_checks import check_same_bits

# The nodes of the trial are forks of this program. Each loses a tenth of the messages of the servo loop that come to
# it, always the same ones, and what surveys six tenths. Of the recorder's, which nobody repeats, and of events none is
# lost.
PROGRAM = """
import random
import sys

from haptic_ros.graph import EVENTS, OPERATOR
from haptic_ros.servo import ServoNode

take = ServoNode.take
numbers = {}


def lossy(self, topic, data):
    source = numbers.setdefault(self.member, random.Random(self.member))
    kept = self.member == "recorder" or topic.rpartition("/")[2] in (EVENTS, OPERATOR, "operator_events")
    if kept or source.random() >= (0.6 if getattr(self, "asynchronous", False) else 0.1):
        take(self, topic, data)


ServoNode.take = lossy

from haptic_bench.set_up import failures

failures.end_at_signals()

from haptic_bench.commands import command_line

failures.leave(command_line.main(sys.argv[1:]))
"""

WITHOUT_DEVICE = (
    "device={type: none}",
    "controller={type: none}",
    "operator={type: constant, wrench: [0, -0.5, 0, 0, 0, 0]}",
)


@pytest.mark.exhaustive
@pytest.mark.graph
@pytest.mark.parametrize(
    "given",
    [
        ("corner_peg",),
        ("mujoco_drawer",),  # behind a local model, in a world that goes on with each survey
        ("linkage_controlled",),
        ("two_hands",),
        ("delayed_wall",),  # a relay
        ("guided_path", *(part for one in WITHOUT_DEVICE for part in ("--set", one))),
    ],
    ids=lambda given: given[0],
)
def test_a_trial_that_loses_messages_has_the_bits_of_one_that_loses_none(
    tmp_path: Path, given: tuple[str, ...]
) -> None:
    given = ("run", *given, "--duration", "0.3", "--set", "analysis=trial")
    lockstep, offline = tmp_path / "lockstep", tmp_path / "offline"
    command = [sys.executable, "-c", PROGRAM, *given, "--mode", "lockstep", "--out", str(lockstep)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    plain = answer(*given, "--mode", "offline", "--out", str(offline))
    assert plain.status == 0, plain.err
    check_same_bits(lockstep, offline)
