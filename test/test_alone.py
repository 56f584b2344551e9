"""Trials without a device, as real processes: the environment leads, and only the recorder listens."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Haptics, answer, processes_of, wait_until

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

import graph_checks as graph
from graph_checks import started, topics

LONG = ("--duration", "3000", "--set", "analysis=trial")
DOOR = """
duration: 0.4
rate: 500
operator: {type: pointer, events: door.csv}
device: {type: none}
scene:
  type: world
  bodies:
    floor: {joint: fixed, shapes: [{type: plane}]}
    door:
      joint: revolute
      axis: [0, 0, 1]
      position: [0, 0, 1]
      density: 500
      velocity: -0.5
      shapes: [{type: box, size: [0.8, 0.04, 1.9], position: [0.45, 0, 0]}]
    ball:
      joint: free
      position: [0.5, -0.1, 0.06]
      mass: 0.5
      restitution: 0.8
      shapes: [{type: sphere, radius: 0.05}]
  tool: ball
contact: {friction: {model: coulomb}}
environment: {method: constraint}
"""


DRAGGED = """time,phase,oriented,body,px,py,pz,x,y,z,qx,qy,qz,qw
0.05,grab,0,1,0.8,0,0,0,0,0,0,0,0,1
0.1,move,0,1,0,0,0,0.1,0.3,0,0,0,0,1
0.2,grab,1,2,0,0,0.05,0,0,0,0,0,0,1
0.3,move,1,2,0,0,0,0,0.05,0.05,0,0,0,1
"""


def nodes_of(directory: Path) -> list[str]:
    """Names of the nodes of a trial, from the logs that it left."""
    return sorted(path.stem for path in (directory / "log").glob("*.log"))


@pytest.mark.parametrize(
    ("which", "mode"),
    [
        ("a world of one's own", "lockstep"),
        ("incline", "realtime"),
        pytest.param("a world of one's own", "realtime", marks=pytest.mark.exhaustive),
        pytest.param("incline", "lockstep", marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.exhaustive
def test_the_graph_gives_the_bits_of_an_offline_run(
    haptics: Callable[..., Haptics], tmp_path: Path, which: str, mode: str
) -> None:
    """Nothing depends on when a message arrives, so that this holds on the clock too, but for the stamps.

    In the world of one's own a pointer drags the door, and then the ball that is the tool.
    """
    name = which
    if which != "incline":
        name = str(tmp_path / "door.yaml")
        Path(name).write_text(DOOR, encoding="utf-8")
        (tmp_path / "door.csv").write_text(DRAGGED, encoding="utf-8")
    arguments = ("run", name, "--duration", "0.4", "--set", "analysis=trial")
    run = haptics(*arguments, "--mode", mode, "--out", str(tmp_path / mode))
    done = answer(*arguments, "--mode", "offline", "--out", str(tmp_path / "offline"))
    assert (run.wait(), done.status) == (0, 0), run.err + done.err
    assert nodes_of(tmp_path / mode) == ["environment", "recorder"]
    if mode == "lockstep":
        graph.check_same_bits(tmp_path / mode, tmp_path / "offline")
    else:
        assert len({(tmp_path / one / "samples.csv").read_bytes() for one in (mode, "offline")}) == 1
        on_clock, offline = (
            {name: [data[12:] for data in topic.messages] for name, topic in topics(tmp_path / one).items()}
            for one in (mode, "offline")
        )  # after the encapsulation header and the stamp
        assert on_clock == offline
    assert {topic.rpartition("/")[2] for topic in topics(tmp_path / mode)} == {
        "tool_command",
        "tool_state",
        "trial_events",
        "world_state",
        *(["operator_events"] if which != "incline" else []),
    }
    verify = answer("replay", str(tmp_path / mode), "--verify")
    assert verify.status == 0, verify.out + verify.err


@pytest.mark.long
def test_offline_is_the_default(tmp_path: Path) -> None:
    run = answer("run", "incline", "--duration", "0.05", "--out", str(tmp_path / "out"))
    assert run.status == 0, run.err
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["mode"] == "offline"


def test_ctrl_c_closes_the_bag(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = haptics("run", "incline", "--mode", "lockstep", *LONG, "--out", str(out))
    wait_until(started(out), "the first chunk")
    run.interrupt()
    assert run.wait() == 130, run.err
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    assert summary["ticks"] > 0
    assert not processes_of(str(out))


@pytest.mark.parametrize("node", ["environment", pytest.param("recorder", marks=pytest.mark.exhaustive)])
def test_a_node_that_dies_ends_the_run(haptics: Callable[..., Haptics], tmp_path: Path, node: str) -> None:
    out = tmp_path / "out"
    run = haptics("run", "incline", "--mode", "lockstep", *LONG, "--out", str(out))
    wait_until(started(out), "the first chunk")
    graph.kill(out, node)
    assert run.wait() == 1
    assert f"{node} ended early (killed by SIGKILL)" in run.err
    assert not processes_of(str(out))
