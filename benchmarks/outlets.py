"""Benchmark of the outlets of studies: time from `send` to where the code of an event arrives.

 - ROS 2: the callback of a subscriber in another process;
 - serial port: `read` at the other end of a pseudo-terminal, which has no bits a second; a byte on a wire of 115200
   bits/s takes 87 us more;
 - lab streaming layer: `pull_sample` of an inlet in this process, over the loopback;
 - parallel port: the time of the call, after which the lines have the code. It is measured where there is a port.

Both ends have the same clock.
"""

from __future__ import annotations

import importlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from haptic_study.codes import DEFAULTS
from haptic_study.outlets import LabStreamingLayer, Outlet, OutletError, Parallel, Serial

EVENTS = 300
PAUSE = 0.01  # [s] between two events, longer than a pulse
PORT = Path("/dev/parport0")
Row = Callable[[str, float, str, str, bool | None], dict[str, Any]]

LISTENER = """
import sys, time
import rclpy
from haptics.msg import TrialEvent
from haptic_study.nodes.events import QOS
rclpy.init()
node = rclpy.create_node("listener")
node.create_subscription(
    TrialEvent, sys.argv[1], lambda event: print(event.name, time.perf_counter_ns(), flush=True), QOS
)
print("ready", flush=True)
rclpy.spin(node)
"""


def measure(row: Row) -> Iterator[dict[str, Any]]:
    """Run all of it; `row` makes a line of the table from name, value, unit, target and whether that is met."""
    for name, measured in (("ROS 2", ros), ("serial", serial), ("parallel", parallel), ("lsl", lsl)):
        try:
            times = np.sort(np.array(measured()))
        except OutletError as error:
            print(f"    {name}: not measured: {error}", flush=True)
            continue
        for text, part in (("least", 0.0), ("median", 0.5), ("99 of 100", 0.99)):
            yield row(
                f"{name}: from an event to its code, {text}", 1e6 * float(np.quantile(times, part)), "us", "", None
            )


def _sent(outlet: Outlet, arrived: Callable[[int], float]) -> list[float]:
    """Times from sending to arrival [s]; `arrived` gives the time [s] of an event's arrival by its number."""
    found = []
    for number in range(EVENTS):
        time.sleep(PAUSE)
        begun = time.perf_counter()
        outlet.send(1 + number % 255, str(number), 0.0)
        found.append(arrived(number) - begun)
    return found


def ros() -> list[float]:
    """A topic, to another process."""
    try:
        events = importlib.import_module("haptic_study.nodes.events")
    except ImportError as error:
        raise OutletError(f"needs ROS 2: {error}") from error
    topic = f"study_events_{os.getpid()}"
    outlet = events.RosTopic(topic)
    listener = subprocess.Popen([sys.executable, "-c", LISTENER, topic], stdout=subprocess.PIPE, text=True)
    try:
        assert listener.stdout is not None
        listener.stdout.readline()
        while not outlet.node.count_subscribers(topic):
            time.sleep(0.01)
        outlet.send(1, "first", 0.0)
        while listener.stdout.readline().split()[:1] != ["first"]:
            pass

        def arrived(number: int) -> float:
            assert listener.stdout is not None
            name, at = listener.stdout.readline().split()
            assert name == str(number)
            return 1e-9 * int(at)

        return _sent(outlet, arrived)
    finally:
        listener.kill()
        listener.wait()
        outlet.close()


def serial() -> list[float]:
    """A pseudo-terminal."""
    end, port = os.openpty()
    outlet = Serial(os.ttyname(port))

    def arrived(number: int) -> float:
        while True:
            select.select([end], [], [])
            at = time.perf_counter()
            if any(os.read(end, 1)):  # not the end of the pulse before
                return at

    try:
        return _sent(outlet, arrived)
    finally:
        outlet.close()
        os.close(end)
        os.close(port)


def parallel() -> list[float]:
    """A parallel port of this machine."""
    outlet = Parallel(str(PORT))
    try:
        return _sent(outlet, lambda number: time.perf_counter())
    finally:
        outlet.close()


def lsl() -> list[float]:
    """An inlet of the stream."""
    outlet = LabStreamingLayer(DEFAULTS, f"haptics benchmark {os.getpid()}")
    module = importlib.import_module("pylsl")
    (info,) = module.resolve_byprop("name", f"haptics benchmark {os.getpid()}", timeout=10.0)
    inlet = module.StreamInlet(info)
    inlet.open_stream()

    def arrived(number: int) -> float:
        (code,), _ = inlet.pull_sample()
        at = time.perf_counter()
        assert code == 1 + number % 255
        return at

    try:
        return _sent(outlet, arrived)
    finally:
        inlet.close_stream()
        outlet.close()
