"""Benchmark of control: a step of each controller, of the guard of the device's port, and the maps of the analysis.

 - A step of a controller is what it does in a tick, called from Python with messages: `coordinate` before the tool has
   moved, and `command` after.
 - The guard is what a tick of the driver of an inertial device takes longer with it than without.
 - The maps are those of the commands: `passivity map` with 200 x 200 values, `zwidth` with 40 x 40 on all cores.

Steps take turns, one after another and once a millisecond, so that other work of the machine affects all alike.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.turns import Contestant, take_turns
from haptic_control.admittance import AdmittanceParameters
from haptic_control.direct import DirectParameters
from haptic_control.four_channel import FourChannelParameters
from haptic_control.guard import GuardParameters
from haptic_control.parameters import ControllerParameters
from haptic_control.passivity import ratio_map
from haptic_control.passivity.coupling import MapParameters
from haptic_control.passivity.zwidth import ZWidthParameters
from haptic_control.passivity.zwidth import measure as measure_zwidth
from haptic_control.shaping import ShapingParameters
from haptic_control.unilateral import UnilateralParameters
from haptic_control.virtual_coupling import VirtualCouplingParameters
from haptic_drivers.driver import Driver, build_driver
from haptic_drivers.inertial import InertialParameters
from haptic_drivers.operators import ConstantParameters
from haptic_sim.messages import RESTING, DeviceCommand, DeviceState, ToolCommand, ToolSizes
from haptic_sim.worlds.scenes import NoToolParameters

RATE = 1000.0  # [Hz]
ROUNDS, TURN, SETTLE = 20, 200, 300  # turns of each contestant, steps of a turn, steps before any is measured
STEP, GUARD = 15.0, 5.0  # [us] of a controller, and of the guard, at most
MAP, ZWIDTH = 20.0, 60.0  # [s] of the maps, at most
UNGUARDED, GUARDED = "driver", "driver with guard"
Row = Callable[[str, float, str, str, bool | None], dict[str, Any]]


class Runner:
    """A controller with messages that move: everything that depends on them is computed."""

    def __init__(self, parameters: ControllerParameters):
        self._controller = parameters.build(RATE)
        self._device, self._tool = DeviceState(), ToolSizes(6, 6, 0).tool_state()
        self._tool_command, self._device_command = ToolCommand(), DeviceCommand()
        self._tool.contact_state = RESTING
        self._tool.inverse_inertia[:] = np.eye(6).ravel()
        self._tool.pose[6] = 1.0
        self._controller.warm_up(ToolSizes(6, 6, 0))
        self._rng = np.random.default_rng(3)
        self._tick = 0

    def prepare(self) -> None:
        """The device's next state."""
        device, self._tick = self._device, self._tick + 1
        device.stamp(self._tick, 1_000_000 * self._tick)
        device.pose[:3], device.twist[:], device.operator_wrench[:] = np.split(self._rng.normal(size=15), [3, 9])
        quaternion = self._rng.normal(size=4)
        device.pose[3:] = quaternion / np.linalg.norm(quaternion)
        self._tool.stamp(self._tick, 1_000_000 * self._tick)

    def step(self) -> None:
        """Step of the controller in a tick."""
        self._controller.coordinate(self._device, self._tool, self._tool_command)
        self._controller.command(self._tool, self._device_command)

    @property
    def contestant(self) -> Contestant:
        """Contestant to be measured."""
        return Contestant(self.step, self.prepare)


def controllers() -> dict[str, ControllerParameters]:
    """The controllers that are measured, by name."""
    device = {"device_mass": 1.0, "device_inertia": 0.01}
    diagonal = (100.0, 100.0, 100.0, 1.0, 1.0, 1.0)
    adaptive = {
        "integral": diagonal,
        "integral_limit": diagonal,
        "contact_damping": diagonal,
        "contact_damping_limit": diagonal,
    }
    return {
        "four_channel": FourChannelParameters(),
        "four_channel, integral, adaptive": FourChannelParameters.model_validate(adaptive),
        "four_channel, observer": FourChannelParameters.model_validate({"operator_wrench": "observed"} | device),
        "virtual_coupling": VirtualCouplingParameters(),
        "unilateral_coupling": UnilateralParameters(),
        "direct": DirectParameters(),
        "impedance_shaping": ShapingParameters.model_validate(device),
        "admittance": AdmittanceParameters(),
    }


class Port:
    """The driver of an inertial device that is pushed against a spring, with or without its guard."""

    def __init__(self, kind: str):
        device, guard = InertialParameters(mass=1.0, inertia=0.01), GuardParameters.model_validate({"type": kind})
        push = ConstantParameters(wrench=(0.5, 0.2, 0.0, 0.0, 0.0, 0.0))
        self._driver: Driver = build_driver(device, push, NoToolParameters(), RATE, guard=guard)
        self._driver.warm_up()
        self._driver = build_driver(device, push, NoToolParameters(), RATE, guard=guard)
        self._state, self._command, self._tick = DeviceState(), DeviceCommand(), -1

    def step(self) -> None:
        """A tick of the driver."""
        self._tick += 1
        self._driver.sense(self._tick, self._state)
        self._command.tick = self._tick
        self._command.wrench[:3] = -400.0 * self._state.pose[:3]
        self._driver.actuate(self._command)


def measure(row: Row) -> list[dict[str, Any]]:
    """Run all of it; `row` makes a line of the table from name, value, unit, target and whether that is met."""
    contestants = {name: Runner(one).contestant for name, one in controllers().items()}
    contestants |= {name: Contestant(Port(kind).step) for name, kind in ((UNGUARDED, "none"), (GUARDED, "passivity"))}
    for one in contestants.values():
        for _ in range(SETTLE):
            if one.before is not None:
                one.before()
            one.step()
    rows = []
    times = {name: one.figures() for name, one in take_turns(contestants, ROUNDS, TURN, 1.0 / RATE).items()}
    for name, figures in times.items():
        tight, paced = (f"{figures[f'{kind}_p50']:.2f} / {figures[f'{kind}_p99']:.2f}" for kind in ("tight", "paced"))
        print(f"    {name:40} {tight:>16} {paced:>16} us", flush=True)
        if name in (UNGUARDED, GUARDED):
            rows.append({**row(name, figures["tight_p50"], "us", "", None), "figures": figures})
        else:
            value = figures["tight_p50"]
            rows.append({**row(name, value, "us", f"<= {STEP:g}", value <= STEP), "figures": figures})
    guard = times[GUARDED]["tight_p50"] - times[UNGUARDED]["tight_p50"]
    rows.append(row("guard of the device's port", guard, "us", f"<= {GUARD:g}", guard <= GUARD))
    return [*rows, *maps(row)]


def maps(row: Row) -> list[dict[str, Any]]:
    """The times of the maps [s], without those of compilation."""
    alpha, beta = MapParameters().grid()
    device = {"rate": 1000.0, "device_mass": 0.1, "device_damping": 1.0}
    few = {"stiffness": (0.0, 1000.0, 2), "damping": (0.0, 0.5, 2)}
    rows = []
    begun = time.perf_counter()
    ratio_map(alpha[:, None], beta, 3)
    rows.append(_seconds(row, f"map, {alpha.size} x {beta.size}", begun, MAP))
    for hand in ("passive", "adversarial"):
        measure_zwidth(ZWidthParameters.model_validate(device | few | {"hand": hand}))
        begun = time.perf_counter()
        found = measure_zwidth(ZWidthParameters.model_validate(device | {"hand": hand}), os.cpu_count() or 1)
        name = f"zwidth, {found.stiffness.size} x {found.damping.size}, {hand} hand"
        rows.append(_seconds(row, name, begun, ZWIDTH))
    return rows


def _seconds(row: Row, name: str, begun: float, most: float) -> dict[str, Any]:
    seconds = time.perf_counter() - begun
    return row(name, seconds, "s", f"<= {most:g}", seconds <= most)
