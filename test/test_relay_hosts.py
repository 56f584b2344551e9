"""The two sides of a relay on two hosts: network namespaces that are joined by a cable, with static peers."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import starting
from conftest import DEADLINE, Haptics, answer, wait_until

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

import graph_checks as graph

ADDRESSES = {"device": "10.47.0.1", "world": "10.47.0.2"}
DURATION = "2"  # [s]
RUNNING = 200_000  # [B] of a bag
NO_QUEUE = ("root", "pfifo", "limit", "0")  # loses each packet
APART = ("relay.delay=0.005", "relay.jitter=0.004", "relay.loss=0.1", "analysis=trial")
HEALTH = ("health.missed_share=1", "health.active=expected")  # no guard makes up for the delay


def ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True, timeout=DEADLINE)


def tc(host: str, what: str, *queue: str) -> None:
    """Give a host's end of the cable a queue, or take it away."""
    device = f"h{os.getpid() % 10**6}w"
    subprocess.run(["tc", "-n", host, "qdisc", what, "dev", device, *queue], check=True, timeout=DEADLINE)


@pytest.fixture
def hosts() -> Iterator[dict[str, str]]:
    """Names of a network namespace for each side, joined by a pair of virtual interfaces."""
    names = {side: f"haptics-{os.getpid()}-{side}" for side in ADDRESSES}
    with contextlib.ExitStack() as stack:
        try:
            for name in names.values():
                ip("netns", "add", name)
                stack.callback(ip, "netns", "del", name, check=False)
            ends = {side: f"h{os.getpid() % 10**6}{side[0]}" for side in names}
            ip("link", "add", ends["device"], "type", "veth", "peer", "name", ends["world"])
            for side, name in names.items():
                ip("link", "set", ends[side], "netns", name)
                ip("-n", name, "addr", "add", f"{ADDRESSES[side]}/24", "dev", ends[side])
                for link in ("lo", ends[side]):
                    ip("-n", name, "link", "set", link, "up")
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"network namespaces cannot be made here: {getattr(error, 'stderr', None) or error}")
        yield names


def start(host: str, side: str, mode: str, out: Path) -> Haptics:
    """One side on its host; it knows the other by its address alone."""
    peer = ADDRESSES["world" if side == "device" else "device"]
    arguments = ["run", "corner_peg", "--duration", DURATION, "--mode", mode, "--side", side, "--out", str(out)]
    arguments += [part for pair in APART + HEALTH for part in ("--set", pair)]
    return Haptics(*arguments, cwd=out.parent, before=partial(starting.move_to, host, peer))


def run_on(hosts: dict[str, str], mode: str, folder: Path, *, losses: int = 0) -> Path:
    """Run both sides to their end; the directory of the trial, on the device's side.

    When it runs, the link loses all that comes from the world for 2 ms, so many times.
    """
    sides = {side: start(host, side, mode, folder / side) for side, host in hosts.items()}
    recorded = folder / "device" / "bag" / "bag_0.mcap"
    try:
        if losses:
            wait_until(lambda: recorded.is_file() and recorded.stat().st_size > RUNNING, "the trial runs")
        for _ in range(losses):
            tc(hosts["world"], "replace", *NO_QUEUE)
            time.sleep(0.002)
            tc(hosts["world"], "del", "root")
            time.sleep(0.02)
        for process in sides.values():
            assert process.wait() == 0, process.err
    finally:
        for process in sides.values():
            process.process.kill()
    return folder / "device"


@pytest.mark.exhaustive
@pytest.mark.parametrize("losses", [0, 30])
def test_lockstep_on_two_hosts_gives_the_same_bits_as_offline(
    hosts: dict[str, str], tmp_path: Path, losses: int
) -> None:
    out, offline = run_on(hosts, "lockstep", tmp_path, losses=losses), tmp_path / "offline"
    settings = [part for pair in APART + HEALTH for part in ("--set", pair)]
    done = answer("run", "corner_peg", "--duration", DURATION, "--mode", "offline", *settings, "--out", str(offline))
    assert done.status == 0, done.err
    graph.check_same_bits(out, offline)


@pytest.mark.exhaustive
def test_realtime_on_two_hosts_simulates_again_to_the_same_bits(hosts: dict[str, str], tmp_path: Path) -> None:
    out = run_on(hosts, "realtime", tmp_path)
    verified = answer("replay", "--verify", str(out))
    assert verified.status == 0 and "identical, bit by bit" in verified.out
