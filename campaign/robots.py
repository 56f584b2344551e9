"""Nodes of a graph that moves an arm on topics are killed or stopped: the arm stays, the hand has no force, and nothing
is left.

The arm is `haptic_robot.nodes.arm`, a program of its own. A path of the operator leads its tool into a wall, and deeper
and less deep there without a rest, so that command and force never stand still. At a random instant one process is
killed, or stopped for a while: a node, the program, or the arm. Somebody who only listens notes what the arm is
commanded, where it is, how it presses, and what is rendered and felt.

All processes are forks of one that has imported their modules and loaded their kernels (`warm`).
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import io
import os
import signal
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import rclpy
from geometry_msgs.msg import PoseStamped, WrenchStamped
from haptics import msg
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from setproctitle import getproctitle

from campaign.cases import Fork, Outcome, adopt, faults_of, finish, left_over, processes, summary_of
from haptic_bench.commands import command_line
from haptic_bench.running.runner import comings_and_goings
from haptic_robot.adapters import Place, Quantity, Topic
from haptic_robot.following import FollowingParameters
from haptic_robot.nodes.topics import Reader
from haptic_ros.inbox import Inbox, ServoGroup, subscribe
from haptic_ros.middleware.fast_dds import remove, segments
from haptic_ros.process import prepare_forks
from haptic_ros.realtime import prioritise_delivery
from haptic_sim.messages import DeviceState, ToolState, columns

TARGETS = ("driver", "controller", "environment", "recorder", "program", "arm")
MODULES = (  # of the processes of a case, beside those that a trial imports
    "haptic_bench.nodes.recorder",
    "haptic_control.nodes.controller",
    "haptic_drivers.nodes.driver",
    "haptic_robot.nodes.topics",
    "haptic_sim.nodes.environment",
)
STOPS = 6  # of so many rounds of the targets one has SIGSTOP, the others SIGKILL
WALL = 0.6  # [m] in the arm's base: 10 mm in front of its tool at the start
BEGUN = 0.5  # [s] at which the hand begins to move: the arm follows then
PRESSED = 1.0  # [N] by which it presses at least, for STEADY messages, before the random instant
STEADY = 20  # messages of the force, 80 ms
FELT = 50  # messages of the device's state, 50 ms, in which the hand feels it
INSTANT = 0.6  # [s] within which the instant is: two periods of the path
PRESSING = 20.0  # [s] in which it has to press
# s, m: beyond the wall, and between two depths in it; slowly deeper, for an arm that has begun to follow when the hand
# had moved already
PATH = [[BEGUN, 0.0, 0.0, 0.0]] + [
    [BEGUN + 0.2 + 0.15 * i, 0.045 - 0.015 * (i % 2) + 5e-4 * i, 0.0, 0.0] for i in range(200)
]
ENGINE = "{type: ros_robot, adapter: crtk, damping: [100, 0.1], position: [-0.59, 0, -0.284]}"
SETTINGS = (f"environment.engine={ENGINE}", f"operator.path={PATH}", "analysis=trial", "health.undecided_share=1")
ALLOWED = 0.05  # [s] after the death of a node
LATE = 0.02  # [s] more before it is a fault: of a machine that others use, too
NEAR = 0.012  # [m] that the arm may move after that: what it is commanded is behind the wall by so much
RESTING = 1e-3  # [m] by which the arm moves in its last quarter of a second
STARTED = 60.0  # [s] until the arm follows
ENDING = 30.0  # [s] in which a trial ends by itself after the death of a node
WATCHED = 0.7  # [s] that the listener goes on then
RESUMED = 0.3  # [s] that it goes on after SIGCONT
JUMP = 0.005  # [m] between two commands, beyond what their times allow
SPEED = FollowingParameters().speed[0]  # [m/s] of what the arm is commanded, at most


class Series(NamedTuple):
    """Messages on a topic: stamps of the senders, of the wall clock [s] (n,), and values (n, ...)."""

    times: np.ndarray
    values: np.ndarray

    def after(self, time: float) -> Series:
        """Messages after an instant."""
        found = self.times > time
        return Series(self.times[found], self.values[found])

    def until(self, time: float) -> Series:
        """Messages until an instant."""
        found = self.times <= time
        return Series(self.times[found], self.values[found])

    def gap(self, begin: float, end: float) -> float:
        """Longest time without any between two instants [s]."""
        times = self.times[(self.times > begin) & (self.times < end)]
        return float(np.diff([begin, *times, end]).max())


class Listener:
    """Notes what comes on the topics of an arm and of the trial that moves it; in a thread of its own.

    It takes bytes, and reads them later: an executor of rclpy would take a core, and with it the time of the trial.
    """

    def __init__(self) -> None:
        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        self._node = Node("listener", context=self._context)
        qos, group = QoSProfile(depth=200, reliability=ReliabilityPolicy.BEST_EFFORT), ServoGroup()
        kinds = {
            "/servo_cp": PoseStamped,
            "/measured_cp": PoseStamped,
            "/measured_cf": WrenchStamped,
            "/robot_wall/device_state": msg.DeviceState,
            "/robot_wall/tool_state": msg.ToolState,
        }
        self._heard: dict[str, list[bytes]] = {topic: [] for topic in kinds}
        self._subscriptions = {topic: subscribe(self._node, kind, topic, qos, group) for topic, kind in kinds.items()}
        self._inbox = Inbox(self._context, self._subscriptions)
        prioritise_delivery(2)  # what a process has sent is lost when it ends before it has been delivered
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._ended = False
        self._thread.start()

    def _listen(self) -> None:
        with contextlib.suppress(PermissionError):  # without, it hears of the arm when that has long left the wall
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))  # of this thread alone
        while not self._ended:
            for topic, data in self._inbox.wait(0.1):
                self._heard[topic].append(data)

    def count(self, topic: str) -> int:
        """Number of messages that have come."""
        return len(self._heard[topic])

    def close(self) -> None:
        """End the thread, and take the node away."""
        self._ended = True
        self._thread.join()
        self._inbox.close()
        self._node.destroy_node()
        rclpy.try_shutdown(context=self._context)

    def values(self, name: str, quantity: Quantity, last: int = 0) -> Series:
        """Poses (n, 7) or wrenches (n, 6) of a topic of the arm: all, or so many at the end."""
        count = 7 if quantity is Quantity.POSE else 6
        reader, times, values = Reader(Topic(name, quantity, Place.BASE), count), [], []
        for data in self._heard[f"/{name}"][-last:]:
            reader.read(data)
            times.append(reader.stamp)
            values.append(reader.values.copy())
        return Series(np.array(times), np.array(values).reshape(-1, count))

    def pressing(self) -> float:
        """Least force of the last that the arm has measured [N]: where it has hit the wall and left it, 0."""
        forces = self.values("measured_cf", Quantity.WRENCH, STEADY).values[:, :3]
        return float(np.linalg.norm(forces, axis=1).min()) if len(forces) else 0.0

    def feels(self) -> bool:
        """Whether there was a force on the hand in each of its last messages."""
        wrenches = self.column("device_state", DeviceState(), "rendered_wrench", FELT).values
        return len(wrenches) == FELT and bool(np.abs(wrenches).max(axis=1).min() > 0.0)

    def column(self, topic: str, message: DeviceState | ToolState, field: str, last: int = 0) -> Series:
        """A field of the messages of the trial: of all, or of so many at the end."""
        found = self._heard[f"/robot_wall/{topic}"][-last:]
        if not found:
            return Series(np.zeros(0), np.zeros((0, 6)))
        fields = columns(message, found)
        return Series(fields["sec"] + 1e-9 * fields["nanosec"], fields[field])


@functools.cache
def warm() -> None:
    """Import the modules of all programs of a case into this process, and load their kernels, by a short trial."""
    settings = ("--duration", "0.02", "--quiet", "--set", "analysis=trial", "--set", "environment.engine.adapter=crtk")
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        status = command_line.main(["run", "robot_wall", "--mode", "offline", *settings, "--out", folder])
    if status != 0:
        raise RuntimeError(f"robot_wall offline: exit status {status}")
    for module in MODULES:
        importlib.import_module(module)
    prepare_forks()
    getproctitle()  # it finds its place behind the arguments only as long as no variable of the environment has moved
    gc.collect()
    gc.freeze()  # nothing that the collectors of the forks need look at


def case(number: int, folder: Path) -> Outcome:
    """A signal to one process of a graph with an arm; by turns to each kind of process."""
    rng = np.random.default_rng([12, number])
    turn, place = divmod(number, len(TARGETS))
    target = TARGETS[place]
    kind = signal.SIGSTOP if turn % STOPS == STOPS - 1 else signal.SIGKILL
    delay = rng.uniform(0.0, INSTANT)
    settings = [part for one in SETTINGS for part in ("--set", one)]
    os.environ.update(comings_and_goings())  # as in a system that moves an arm
    arm = Fork(folder, "haptic_robot.nodes.arm", "crtk", "--wall", f"{WALL:g}", "--stiffness", "4000", output="arm.txt")
    run = ("run", "robot_wall", "--mode", "realtime", "--duration", "90", "--quiet", *settings, "--out", "trial")
    program = Fork(folder, "haptic_bench", *run)
    adopt()  # has a thread, and so has the listener: no fork after this
    listener = Listener()
    try:
        if not _follows(listener, program):
            return Outcome("nothing", [f"the arm has not followed in {STARTED:g} s", *_of_end(program, arm, folder)])
        numbers = _numbers(target, program, arm)
        if not numbers:
            return Outcome("nothing", [f"no process of the {target} is there", *_of_end(program, arm, folder)])
        if not _presses(listener, program):
            return Outcome("nothing", [f"the arm has not pressed by {PRESSED:g} N", *_of_end(program, arm, folder)])
        time.sleep(delay)
        made = segments(arm.pid)
        at = time.time()
        for number in numbers:
            os.kill(number, kind)
        late = _watch(WATCHED)
        until = time.time()
        if kind == signal.SIGSTOP:
            for number in numbers:
                os.kill(number, signal.SIGCONT)
            _watch(RESUMED)
        killed = target == "arm" and kind == signal.SIGKILL
        ends = _of_end(program, arm, folder, target, kind, made if killed else ())
        found = _after(listener, at, until, target)
        faults = [*found.faults, *ends]
    finally:
        listener.close()
        for one in (program, arm):
            one.kill()
            one.wait()
    moved = "" if np.isnan(found.moved) else f", the arm moved by {1e3 * found.moved:.2f} mm"
    tried = f"{kind.name} to the {target}: command changed until {1e3 * found.commanded:.0f} ms, force until "
    before = f"; before, it pressed by {found.pressed:.1f} N, the hand felt {found.hand:.1f} N"
    measured = {name: value for name, value in found._asdict().items() if name != "faults" and value == value}
    figures = {"target": target, "kind": kind.name, **measured, "late": late, "load": os.getloadavg()[0]}
    return Outcome(f"{tried}{1e3 * found.felt:.0f} ms after it{moved}{before}", faults, figures=figures)


def _watch(duration: float) -> float:
    """Wait [s]; by how much a thread of ordinary priority that wants to wake each millisecond was late at worst [s]."""
    late, now = 0.0, time.monotonic()
    end = now + duration
    while now < end:
        before = now
        time.sleep(0.001)
        now = time.monotonic()
        late = max(late, now - before - 0.001)
    return late


def _follows(listener: Listener, program: Fork) -> bool:
    limit = time.monotonic() + STARTED
    while listener.count("/servo_cp") < 20 and program.poll() is None and time.monotonic() < limit:
        time.sleep(0.01)
    return listener.count("/servo_cp") >= 20


def _presses(listener: Listener, program: Fork) -> bool:
    """Wait until the arm presses and the hand feels it; whether it does."""
    limit = time.monotonic() + PRESSING
    while program.poll() is None and time.monotonic() < limit:
        if listener.pressing() >= PRESSED and listener.feels():
            return True
        time.sleep(0.002)
    return False


def _numbers(target: str, program: Fork, arm: Fork) -> list[int]:
    """Numbers of the processes that are a target."""
    known = {"program": program.pid, "arm": arm.pid}
    part = f".nodes.{target} "
    return [known[target]] if target in known else [n for n, line in processes().items() if part in line]


def _of_end(
    program: Fork,
    arm: Fork,
    folder: Path,
    target: str = "",
    kind: signal.Signals = signal.SIGKILL,
    made: Collection[str] = (),
) -> list[str]:
    """Faults of the ends of trial and arm; without the arm, which may come back, the trial goes on.

    What a killed arm has `made` in shared memory nobody but the probe removes: it is no process of ours.
    A trial has ended when its summary is there. Its samples and its report, which take as long again, are left out, as
    a user leaves them out: by one more SIGINT.
    """
    goes_on = target in ("arm", "") or kind == signal.SIGSTOP
    summary = folder / "trial" / "summary.json"
    if goes_on:
        program.send_signal(signal.SIGINT)
    limit = time.monotonic() + ENDING
    while program.poll() is None and not summary.exists() and time.monotonic() < limit:
        time.sleep(0.01)
    faults = []
    if program.poll() is None and not summary.exists():
        faults.append(f"the trial has not ended {ENDING:g} s after the {kind.name} to the {target}")
    for _ in range(1 if goes_on else 2):  # the first signal of all leaves nothing out
        program.send_signal(signal.SIGINT)
        time.sleep(0.05)
    if arm.poll() is None:
        arm.send_signal(signal.SIGINT)
    dies = kind == signal.SIGKILL
    faults += faults_of(finish(program, folder), {-signal.SIGKILL} if target == "program" and dies else {1, 130})
    status = arm.wait(ENDING)
    if status != 0 and not (target == "arm" and dies):
        faults.append(f"exit status {status} of the arm: must be 0: {(folder / 'arm.txt').read_text()[-300:]}")
    remove(made)
    _, wrong = summary_of(folder / "trial")
    return [*faults, *wrong, *left_over()]


class After(NamedTuple):
    """Observations after the end of a process.

    Attributes:
        commanded, felt: when command and force still changed after it [s].
        moved: how far the arm went after its last command [m]; NaN for a killed arm.
        pressed, hand: how the arm had pressed and what the hand had felt before [N].
        gap, gap_of_arm: the longest times without a state of the device and of the arm [s].
        faults: a line each.
    """

    commanded: float
    felt: float
    moved: float
    pressed: float
    hand: float
    gap: float
    gap_of_arm: float
    faults: list[str]


def _after(listener: Listener, at: float, until: float, target: str) -> After:
    """Observations after the end of a process at an instant, until it or the trial went on."""
    commands, poses = listener.values("servo_cp", Quantity.POSE), listener.values("measured_cp", Quantity.POSE)
    wrenches = listener.values("measured_cf", Quantity.WRENCH)
    commanded = max([0.0, *_changes(commands.until(until), at)])
    of_arm = listener.column("tool_state", ToolState(), "wrench")
    rendered = listener.column("device_state", DeviceState(), "rendered_wrench")
    forces = (of_arm if target == "arm" else rendered).after(at).until(until)
    pressed = float(np.linalg.norm(wrenches.values[wrenches.times <= at][-1:, :3]))
    forced = forces.times[np.abs(forces.values).max(axis=1, initial=0.0) > 0.0] - at
    felt = float(forced.max(initial=0.0))
    faults = []
    if target not in ("driver", "program") and not len(forces.times):
        faults.append(f"no force was received after the end of the {target}")
    if target not in ("recorder", "program"):  # without these, the trial is as safe as it was, until it ends
        for what, last in (("the arm was commanded something else", commanded), ("there was a force", felt)):
            if last > ALLOWED + LATE:
                faults.append(f"{what} {1e3 * last:.0f} ms after the death of the {target}")
    steps = np.linalg.norm(np.diff(commands.values[:, :3], axis=0), axis=1) - SPEED * np.diff(commands.times)
    if steps.max(initial=0.0) > JUMP:
        faults.append(f"what the arm was commanded jumped by {1e3 * steps.max():.1f} mm")
    moved = float("nan")
    held = at + (ALLOWED if target not in ("recorder", "program") else commanded)
    after = poses.after(held).until(until)
    if target != "arm" and len(after.times):
        moved = float(np.linalg.norm(after.values[:, :3] - after.values[0, :3], axis=1).max(initial=0.0))
        if moved > NEAR:
            faults.append(
                f"the arm moved by {1e3 * moved:.1f} mm after its last command: must be at most {1e3 * NEAR:g}"
            )
        ending = after.values[after.times > after.times[-1] - 0.25, :3]
        if np.ptp(ending, axis=0).max() > RESTING and target not in ("recorder", "program"):
            faults.append("the arm still moves at the end")
    hand = float(np.linalg.norm(rendered.until(at).values[-1:, :3]))
    return After(commanded, felt, moved, pressed, hand, rendered.gap(at, until), poses.gap(at, until), faults)


def _changes(commands: Series, at: float) -> Iterator[float]:
    """Times after an instant at which what is commanded was something else than before."""
    changed = np.abs(np.diff(commands.values, axis=0)).max(axis=1, initial=0.0) > 0.0
    times = commands.times[1:][changed]
    yield from (times[times > at] - at).tolist()
