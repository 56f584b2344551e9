"""Two hosts whose link breaks: the device has no force in time, no energy is made up, and what comes back goes on.

The hosts are network namespaces (`campaign.hosts`). Relays run on them in realtime and in lockstep, and the system of
`two_hosts` without an end. At a random instant the link loses all packets, both ways or one way, or the cable is
pulled, for 50 ms to 12 s.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from campaign.cases import DEADLINE, Outcome, faults_of, finish, left_over, start, summary_of, undisturbed
from campaign.hosts import LOSSES, Hosts, NoHostsError, two_hosts
from haptic_bench.recording.trial_bag import read_messages
from haptic_sim.messages import BackwardPacket, DeviceCommand, DeviceState, ForwardPacket, columns

TRIALS = ("delayed_wall", "corner_peg")
GUARDS = ("none", "passivity", "wave", "tank")  # of delayed_wall, whose controller crosses with a guard
SHORTEST, LONGEST = 0.05, 12.0  # [s] of a loss; a trial gives up after 10 s of silence
AFTER = 3.0  # [s] of a trial after the link is back
WATCHDOG = 0.02  # [s] the default of device.watchdog
LATE = 0.01  # [s] by which a tick may be stamped after the link was cut, for what was sent before
RUNNING = 200_000  # [B] of a bag whose trial runs
BELOW = 1e-9  # [J] that an account may be below zero, beside what a held command does


class Loss(NamedTuple):
    """Loss of the link, and when it happens [s of the wall clock]."""

    what: str
    begun: float
    ended: float


def case(number: int, folder: Path) -> Outcome:
    """A loss of the link between two hosts."""
    rng = np.random.default_rng([10, number])
    mode = str(rng.choice(["realtime", "realtime", "lockstep", "start"]))
    try:
        with two_hosts() as hosts:
            return _of_system(rng, folder, hosts) if mode == "start" else _of_relay(rng, folder, hosts, mode)
    except NoHostsError as error:
        return Outcome(f"nothing: {error}", [], 0)


def _lose(rng: np.random.Generator, hosts: Hosts) -> Loss:
    """Break the link for a random time, from a random instant on."""
    what = str(rng.choice(LOSSES))
    time.sleep(rng.uniform(0.0, 2.0))
    pause = SHORTEST * (LONGEST / SHORTEST) ** rng.uniform()
    hosts.lose(what)
    begun = time.time()
    time.sleep(pause)
    ended = time.time()
    hosts.join()
    return Loss(what, begun, ended)


def _waits(condition: Iterator[bool], *programs: subprocess.Popen[str]) -> None:
    """Wait until a condition holds, or a program has ended."""
    limit = time.monotonic() + DEADLINE
    while not next(condition) and time.monotonic() < limit and all(one.poll() is None for one in programs):
        time.sleep(0.05)


def _of_relay(rng: np.random.Generator, folder: Path, hosts: Hosts, mode: str) -> Outcome:
    """A trial with a relay, one end of it on each host."""
    name = TRIALS[int(rng.integers(len(TRIALS)))]
    guard = str(rng.choice(GUARDS)) if name == "delayed_wall" else "none"
    settings = ["analysis=trial", f"relay.delay={rng.choice([0.0, 0.005])}", f"guard.type={guard}"]
    settings += ["health.missed_share=1", "health.undecided_share=1", "health.active=expected"]
    duration = f"{LONGEST + AFTER + 4.0:g}" if mode == "realtime" else "4"
    arguments = ("--duration", duration, "--quiet", *(part for one in settings for part in ("--set", one)))
    sides = {}
    for side in ("world", "device"):
        (folder / side).mkdir()
        command = ("run", name, "--mode", mode, "--side", side, *arguments, "--out", "trial")
        sides[side] = start(folder / side, *command, before=partial(hosts.enter, side), variables=hosts.variables(side))
    trial = folder / "device" / "trial"
    recorded = trial / "bag" / "bag_0.mcap"
    _waits((recorded.is_file() and recorded.stat().st_size > RUNNING for _ in iter(int, 1)), *sides.values())
    loss = _lose(rng, hosts)
    if mode == "realtime":
        time.sleep(AFTER)
        if sides["device"].poll() is None:
            sides["device"].send_signal(signal.SIGINT)
    ends = {side: finish(sides[side], folder / side) for side in ("device", "world")}
    faults = [*faults_of(ends["device"], {0, 1, 130, -signal.SIGINT}), *faults_of(ends["world"], {0, 1}), *left_over()]
    summary, more = summary_of(trial)
    faults += more
    silent = 0
    if mode == "lockstep" and summary.get("status") == "done":
        if (trial / "samples.csv").read_bytes() != undisturbed(folder, name, *arguments):
            faults.append("samples.csv differs from that of the same trial without a loss")
    elif mode == "realtime" and summary.get("ticks"):
        silent, more = _of_force(trial, loss, summary.get("status") == "failed")
        faults += [*more, *_of_energy(trial, guard)]
        verified = start(folder, "replay", "--verify", str(trial))
        faults += faults_of(finish(verified, folder), {0})
    how = f"{summary.get('status')} {summary.get('reason', '')}".strip() + f", {silent} ticks without the world"
    lost = f"{loss.what} for {loss.ended - loss.begun:.2f} s"
    return Outcome(f"{name} {mode}, guard {guard}, lost {lost}: {how}", faults)


def _of_force(trial: Path, loss: Loss, failed: bool) -> tuple[int, list[str]]:
    """Ticks while the link was broken, and what is wrong with the force then, and with what comes after that."""
    messages = read_messages(trial)
    states = columns(DeviceState(), messages["device_state"])
    commands = columns(DeviceCommand(), messages["relayed_device_command"])
    stamps = states["sec"] + 1e-9 * states["nanosec"]
    faults = []
    # The end of the relay commands nothing after the watchdog, and the driver holds a command so long, too.
    silent = (stamps > loss.begun + 2.0 * WATCHDOG + LATE) & (stamps < loss.ended)
    forces = np.max(np.abs(states["rendered_wrench"][silent]), axis=1, initial=0.0)
    if np.any(forces > 0.0):
        last = stamps[silent][np.nonzero(forces)[0][-1]] - loss.begun
        faults.append(f"the device rendered up to {forces.max():.3g} N or N m {last:.3f} s after the link was broken")
    after = commands["sec"] + 1e-9 * commands["nanosec"] > loss.ended
    before = commands["tick"][~after]
    whole = stamps[-1] > loss.ended + 0.5 * AFTER and not failed
    if whole and len(before) and not np.any(commands["device_tick"][after] > before[-1]):
        faults.append(f"nothing came from the world for {AFTER:g} s after the link was back, and the trial went on")
    return int(np.count_nonzero(silent)), faults


def _of_energy(trial: Path, guard: str) -> Iterator[str]:
    """Faults in the accounts of the relay's ends: no more leaves it than has been paid into it.

    A command that is held because the next one is late does work that no account foresaw; it is paid first then.
    """
    messages = read_messages(trial)
    ends = {
        "device": columns(ForwardPacket(), messages["relay_forward"]),
        "world": columns(BackwardPacket(), messages["relay_backward"]),
    }
    if guard == "none" or not all(len(packets) for packets in ends.values()):
        return
    states = columns(DeviceState(), messages["device_state"])
    held = np.diff(states["command_tick"]) == 0
    moved = np.linalg.norm(np.diff(states["pose"][:, :3], axis=0), axis=1)
    work = np.linalg.norm(states["rendered_wrench"][1:, :3], axis=1) * moved
    allowed = BELOW + float(np.sum(work[held]))
    for end, packets in ends.items():
        (other,) = (found for side, found in ends.items() if side != end)
        least = float(packets["available"].min())
        if not least >= -allowed:
            yield f"the account of the {end}'s end was {-least:.3g} J below zero, allowed are {allowed:.3g}"
        # The last packet that was recorded of the other end may be older than the last that came.
        known = packets["content_tick"] <= other["tick"][-1]
        excess = np.max(packets["delivered"][known] - other["paid"].max(axis=0), initial=0.0)
        if not excess <= allowed:
            yield f"{excess:.3g} J more left by the {end}'s end than the other had paid, allowed are {allowed:.3g}"


def _of_system(rng: np.random.Generator, folder: Path, hosts: Hosts) -> Outcome:
    """A system that only runs, with its haptics on one host and its dynamics on the other."""
    sides = {}
    for host, side in (("world", "dynamics"), ("device", "haptics")):
        (folder / side).mkdir()
        command = ("start", "two_hosts", "--side", side, "--out", "log")
        sides[side] = start(folder / side, *command, before=partial(hosts.enter, host), variables=hosts.variables(host))
    stderr = folder / "haptics" / "err.txt"
    running = ("is running" in stderr.read_text(errors="replace") for _ in iter(int, 1))
    _waits(running, *sides.values())
    loss = _lose(rng, hosts)
    time.sleep(AFTER)
    faults = [f"{side} has ended while the link was broken" for side, one in sides.items() if one.poll() is not None]
    for one in sides.values():
        if one.poll() is None:
            one.send_signal(signal.SIGINT)
    for side, one in sides.items():
        faults += (f"{side}: {fault}" for fault in faults_of(finish(one, folder / side), {0}))
    faults += left_over()
    return Outcome(f"two_hosts as a system, lost {loss.what} for {loss.ended - loss.begun:.2f} s", faults)
