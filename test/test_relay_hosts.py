"""The two sides of a relay on two hosts: network namespaces that are joined by a cable, with static peers."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import starting
from conftest import DEADLINE, Haptics, answer

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

import graph_checks as graph

ADDRESSES = {"device": "10.47.0.1", "world": "10.47.0.2"}
APART = ("relay.delay=0.005", "relay.jitter=0.004", "relay.loss=0.1", "analysis=trial", "health.missed_share=1")


def ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True, timeout=DEADLINE)


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
    arguments = ["run", "corner_peg", "--duration", "0.5", "--mode", mode, "--side", side, "--out", str(out)]
    arguments += [part for pair in APART for part in ("--set", pair)]
    return Haptics(*arguments, cwd=out.parent, before=partial(starting.move_to, host, peer))


def run_on(hosts: dict[str, str], mode: str, folder: Path) -> Path:
    """Run both sides to their end; the directory of the trial, on the device's side."""
    sides = {side: start(host, side, mode, folder / side) for side, host in hosts.items()}
    try:
        for process in sides.values():
            assert process.wait() == 0, process.err
    finally:
        for process in sides.values():
            process.process.kill()
    return folder / "device"


@pytest.mark.exhaustive
def test_lockstep_on_two_hosts_gives_the_same_bits_as_offline(hosts: dict[str, str], tmp_path: Path) -> None:
    out, offline = run_on(hosts, "lockstep", tmp_path), tmp_path / "offline"
    settings = [part for pair in APART for part in ("--set", pair)]
    done = answer("run", "corner_peg", "--duration", "0.5", "--mode", "offline", *settings, "--out", str(offline))
    assert done.status == 0, done.err
    graph.check_same_bits(out, offline)


def test_realtime_on_two_hosts_simulates_again_to_the_same_bits(hosts: dict[str, str], tmp_path: Path) -> None:
    out = run_on(hosts, "realtime", tmp_path)
    verified = answer("replay", "--verify", str(out))
    assert verified.status == 0 and "identical, bit by bit" in verified.out
