"""A hardware device in this process, which keeps to the interface more strictly than a real one, and can fail."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from haptic_drivers.devices.interface import DeviceError, Reading
from haptic_drivers.devices.link import Link, RecordedReadings
from haptic_drivers.driver import Driver, build_driver
from haptic_drivers.hardware import HardwareDeviceParameters
from haptic_drivers.operators import ConstantParameters
from haptic_sim.messages import FORCE, DeviceCommand, DeviceState
from haptic_sim.parameters import Parameters
from haptic_sim.worlds.scenes import PegParameters

RATE = 1000.0  # [Hz]
TICK = 1_000_000  # [ns]
DATA: dict[str, Any] = {
    "name": "fake",
    "module": "fake_hardware",
    "sensed": ["x", "y", "z"],
    "actuated": ["x", "y", "z"],
    "highest_rate": 4000.0,
    "aligned": "mount",
    "buttons": ["top", "side"],
    "soft_start": 0.0,
    "wrench_limit": [8.0, 8.0, 8.0, 0.0, 0.0, 0.0],
    "bound": {"wrench": [10.0, 10.0, 10.0, 0, 0, 0], "rate": [1e5, 1e5, 1e5, 0, 0, 0], "velocity": [2.0, 20.0]},
}


def data(**keys: Any) -> HardwareDeviceParameters:
    return HardwareDeviceParameters.model_validate(DATA | keys)


class Connection(Parameters):
    """It is found without any."""


class Fake:
    """Its hand is where `place` puts it; each call out of order is an AssertionError.

    Attributes:
        force: that acts on the hand (6,); written: every wrench that was written.
        silent, broken: it tells nothing; every call but `close` raises.
    """

    def __init__(self, device: HardwareDeviceParameters):
        self.device, self.now = device, 0
        self.is_open = self.on = self.silent = self.broken = False
        self.force, self.written = np.zeros(6), []
        self.calls: list[str] = []
        self.limit = np.array(DATA["bound"]["wrench"]) * (1 + 1e-12)
        self.pose, self.twist = np.array([0.0, 0, 0, 0, 0, 0, 1]), np.zeros(6)
        self.pressed, self.present, self.homed, self.fault = [0, 0], -1, True, ""

    def clock(self) -> int:
        return self.now

    def _called(self, name: str) -> None:
        if name not in ("read", "write"):
            self.calls.append(name)
        if self.broken:
            raise DeviceError("USB: no such device")

    def open(self) -> None:
        self._called("open")
        assert not self.is_open
        self.is_open = True

    def enable(self) -> None:
        self._called("enable")
        assert self.is_open and not self.on and not self.force.any()
        self.on = True

    def disable(self) -> None:
        self.force[:] = 0.0
        self._called("disable")
        assert self.is_open and self.on
        self.on = False

    def read(self, reading: Reading) -> bool:
        self._called("read")
        assert self.is_open
        if self.silent:
            return False
        reading.pose[:], reading.twist[:] = self.pose, self.twist
        reading.buttons[:2] = self.pressed
        reading.present, reading.homed, reading.fault, reading.time_ns = self.present, self.homed, self.fault, self.now
        return True

    def write(self, wrench: np.ndarray) -> None:
        if self.broken:
            self.force[:] = 0.0  # without a line nothing drives it
        self._called("write")
        assert self.is_open and self.on and wrench.shape == (6,) and np.isfinite(wrench).all()
        assert (np.abs(wrench) <= self.limit).all()
        self.force[:] = wrench
        self.written.append(wrench.copy())

    def close(self) -> None:
        self.calls.append("close")
        self.force[:] = 0.0
        self.is_open = self.on = False


def build(device: HardwareDeviceParameters, connection: Connection) -> Fake:
    return Fake(device)


class Bench:
    """A driver over a fake, tick by tick; a command is answered in its tick."""

    def __init__(self, guard: Any = None, hand: Any = None, kind: Any = None, **keys: Any):
        self.device = data(**keys)
        self.fake: Fake = (kind or Fake)(self.device)
        self.said: list[str] = []
        self.link = Link(self.fake, self.device, 1 / RATE, self.fake.clock, watch=False, notify=self.said.append)
        self._given = self.device, ConstantParameters(wrench=(0,) * 6), PegParameters(), RATE, None, hand, 0, guard
        self.driver: Driver = build_driver(*self._given, self.link)
        self.tick, self.state, self.states = -1, DeviceState(), []
        self.readings: dict[int, bytes] = {}
        self.commands: list[bytes] = []
        self.link.open()
        self.driver.activate(0)
        self.driver.enable()

    def replay(self) -> None:
        """Simulate the driver again from what was read and commanded; what it said has to be the same, to the bit."""
        driver, state, command = (
            build_driver(*self._given, RecordedReadings(self.readings)),
            DeviceState(),
            DeviceCommand(),
        )
        for tick, (said, commanded) in enumerate(zip(self.states, self.commands, strict=True)):
            driver.sense(tick, state)
            assert state.to_bytes() == said and driver.reading.to_bytes() == self.readings[tick], tick
            command.load(commanded)
            driver.actuate(command)

    def settle(self) -> None:
        """Wait until the device is open again, if it is being opened: another thread does that."""
        for thread in threading.enumerate():
            if thread.name == "device opening":
                thread.join(10.0)

    def step(self, wrench: Any = (0.0,) * 6, count: int = 1, move: Any = None) -> DeviceState:
        """Ticks in which a wrench is commanded; `move` is the velocity of the hand (3,) [m/s]."""
        for _ in range(count):
            self.tick += 1
            self.fake.now += TICK
            if move is not None:
                self.fake.twist[:3] = move
                self.fake.pose[:3] += np.array(move) / RATE
            self.driver.sense(self.tick, self.state)
            self.states.append(self.state.to_bytes())
            self.readings[self.tick] = self.driver.reading.to_bytes()
            command = DeviceCommand()
            command.stamp(self.tick, 0)
            command.mode = FORCE
            command.wrench[:] = wrench
            self.commands.append(command.to_bytes())
            self.driver.actuate(command)
        return self.state
