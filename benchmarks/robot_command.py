"""Time from a device's reading to what an arm on topics is commanded for it, by turns with an empty chain of processes.

    ./haptics shell python -m benchmarks.robot_command [TURNS]

In a trial in realtime with `robot_wall`, a simulated arm as a program of its own, and CRTK's topics, a listener takes
`servo_cp` with a priority above that of all servo threads: an arm's controller is not on their core. A command is that
of the tick whose tool pose it has; its reading has the stamp of that tick's device_state. The empty chain has as many
processes: a sender at 1 kHz, two that pass on what comes, and the listener. The trial is run with a process for each
node, and with all in one (--composed).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import rclpy
from geometry_msgs.msg import PoseStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message

from haptic_bench.recording.trial_bag import read_messages
from haptic_ros.inbox import Inbox, ServoGroup, subscribe
from haptic_ros.realtime import Deadlines, prioritise
from haptic_sim.messages import DeviceState, ToolState, columns

ENGINE = "{type: ros_robot, adapter: crtk, damping: [100, 0.1], position: [-0.59, 0, -0.284]}"
PATH = [[0.25 * i, 0.03 * (i % 2), 0.0, 0.0] for i in range(1, 200)]  # s, m: the tool moves, so that poses tell ticks
SETTINGS = (f"environment.engine={ENGINE}", f"operator.path={PATH}", "analysis=trial", "health.undecided_share=1")
DURATION = 8.0  # [s]
STARTED = 8.0  # [s] in which the processes of the empty chain find each other
TICKS = 5  # before a command of which one has its reading
SAME = 1e-9  # [m] to which a commanded position is that of a tick
LISTENER = 4  # rank, above the driver's
OFTEN = 20  # commands with the same offset from the tool, which no chance has
MOVED = 1e-6  # [m] by which a tick's has to differ from that of the tick before
ONE = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)


def listen(topic: str, out: str) -> None:
    """Note when each pose of a topic came until SIGINT, then write these times, stamps and positions to a file."""
    rclpy.init()
    node = rclpy.create_node("listener")
    inbox = Inbox(node.context, {topic: subscribe(node, PoseStamped, topic, ONE, ServoGroup())})
    prioritise(LISTENER)
    found: list[tuple[float, bytes]] = []
    try:
        while True:
            found.extend((time.time(), data) for _, data in inbox.wait(1.0))
    except (KeyboardInterrupt, rclpy.executors.ExternalShutdownException):
        pass
    messages = [(at, deserialize_message(data, PoseStamped)) for at, data in found]
    rows = [
        (at, one.header.stamp.sec + 1e-9 * one.header.stamp.nanosec, one.pose.position.x, one.pose.position.y)
        for at, one in messages
    ]
    np.save(out, np.array(rows).reshape(-1, 4))


def pass_on(taken: str, given: str) -> None:
    """Publish what comes on a topic on another, until SIGINT."""
    rclpy.init()
    node = rclpy.create_node(f"from_{taken.strip('/')}")
    publisher = node.create_publisher(PoseStamped, given, ONE)
    inbox = Inbox(node.context, {taken: subscribe(node, PoseStamped, taken, ONE, ServoGroup())})
    prioritise()
    while True:
        for _, data in inbox.wait(1.0):
            publisher.publish(data)


def send(topic: str, seconds: float) -> None:
    """Publish poses at 1 kHz with the time at which they are sent."""
    rclpy.init()
    node = rclpy.create_node("sender")
    publisher, message = node.create_publisher(PoseStamped, topic, ONE), PoseStamped()
    prioritise()
    deadlines = Deadlines(1000.0)
    for tick in range(round(1000 * seconds)):
        while (left := deadlines.until(tick)) > 0:
            time.sleep(left * 1e-9)
        deadlines.settle(tick)
        message.header.stamp = node.get_clock().now().to_msg()
        publisher.publish(message)


def started(role: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A process of this module."""
    return subprocess.Popen([sys.executable, "-m", "benchmarks.robot_command", role, *arguments], stderr=-3)


def ended(*processes: subprocess.Popen[bytes]) -> None:
    """End processes as a terminal does."""
    for one in processes:
        one.send_signal(signal.SIGINT)
        one.wait()


def empty_chain(folder: Path) -> dict[str, float]:
    """Times of the empty chain [ms]."""
    listener = started("listen", "/c", str(folder / "empty.npy"))
    passing = started("pass_on", "/a", "/b"), started("pass_on", "/b", "/c")
    time.sleep(STARTED)
    started("send", "/a", f"{DURATION:g}").wait()
    ended(listener, *passing)
    came, sent, *_ = np.load(folder / "empty.npy").T
    return quantiles("empty", (came - sent)[1000:])


def trial(folder: Path, name: str, *options: str) -> dict[str, float]:
    """Times of a trial with options [ms]: until the command is sent, and until it has come."""
    listener = started("listen", "/servo_cp", str(folder / f"{name}.npy"))
    arm = subprocess.Popen(
        [sys.executable, "-m", "haptic_robot.nodes.arm", "crtk", "--wall", "0.61", "--stiffness", "4000"]
    )
    command = [sys.executable, "-m", "haptic_bench", "run", "robot_wall", "--mode", "realtime", "--quiet"]
    command += ["--duration", f"{DURATION:g}", *(part for one in SETTINGS for part in ("--set", one))]
    subprocess.run([*command, *options, "--out", str(folder / name)], stdout=-3, stderr=-3)
    ended(listener, arm)
    came, sent, x, _ = np.load(folder / f"{name}.npy").T
    reading = readings(folder / name, x, sent)
    known = np.isfinite(reading)
    return {
        f"{name}_commands": float(len(x)),
        f"{name}_matched": float(known.sum()),
        **quantiles(f"{name}_sent", (sent - reading)[known]),
        **quantiles(f"{name}_received", (came - reading)[known]),
    }


def readings(directory: Path, x: np.ndarray, sent: np.ndarray) -> np.ndarray:
    """Stamp of the reading that each command answers [s]; NaN where the tool's pose does not tell the tick.

    Args:
        directory: of the trial.
        x: commanded positions [m], off those of the tool by a constant for each alignment.
        sent: when they were [s].
    """
    messages = read_messages(directory)
    devices, tools = columns(DeviceState(), messages["device_state"]), columns(ToolState(), messages["tool_state"])
    stamps = devices["sec"] + 1e-9 * devices["nanosec"]
    of_tool = np.full(int(devices["tick"].max()) + 2, np.nan)  # by the tick that its pose is commanded in
    inside = (tools["tick"] >= 0) & (tools["tick"] < len(of_tool) - 1)
    of_tool[tools["tick"][inside] + 1] = tools["pose"][inside, 0]
    of_tool[1:][~(np.abs(np.diff(of_tool)) > MOVED)] = np.nan
    last = np.searchsorted(stamps, sent) - 1  # the last reading before
    ticks = devices["tick"][np.maximum(last, 0)][:, None] - np.arange(TICKS)
    offsets = np.where(ticks >= 0, x[:, None] - of_tool[np.maximum(ticks, 0)], np.nan)
    values, counts = np.unique(np.round(offsets[np.isfinite(offsets)] / SAME), return_counts=True)
    often = np.append(SAME * values[counts >= OFTEN], np.inf)  # one of each time that hand and command were aligned
    after = np.clip(np.searchsorted(often, offsets), 1, len(often) - 1)
    same = np.minimum(np.abs(offsets - often[after]), np.abs(offsets - often[after - 1])) < SAME
    at = dict(zip(devices["tick"].tolist(), stamps.tolist(), strict=True))
    chosen = np.where(same.any(axis=1), ticks[np.arange(len(x)), same.argmax(axis=1)], -1)
    return np.array([at.get(tick, np.nan) for tick in chosen.tolist()])


def quantiles(name: str, times: np.ndarray) -> dict[str, float]:
    """Median and 99 % of times [s], in ms."""
    p50, p99 = np.percentile(1e3 * times, [50, 99]) if len(times) else (np.nan, np.nan)
    return {f"{name}_p50": round(float(p50), 4), f"{name}_p99": round(float(p99), 4)}


def main() -> None:
    """Measure by turns, and print each turn as JSON, with the load of the machine."""
    roles = {"listen": listen, "pass_on": pass_on}
    role, *rest = sys.argv[1:] or ["3"]
    if role in roles:
        roles[role](*rest)
    elif role == "send":
        send(rest[0], float(rest[1]))
    else:
        for turn in range(int(role)):
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder)
                found = {**empty_chain(place), **trial(place, "nodes"), **trial(place, "composed", "--composed")}
            for name in ("nodes", "composed"):
                found[f"{name}_ratio"] = round(found[f"{name}_received_p50"] / found["empty_p50"], 3)
            found["load"] = os.getloadavg()[0]
            print(json.dumps({"turn": turn, **found}), flush=True)


if __name__ == "__main__":
    main()
