"""Wrench of a device when its commands return: it grows from zero, at any command and in every mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_hardware import data
from test_driver import LIMIT, RATE, command, driver, sensed

from haptic_bench import experiment
from haptic_bench.replay.resimulation import Verdict, _driver
from haptic_drivers.devices.link import Still
from haptic_drivers.driver import SOFT_START, Driver, build_driver
from haptic_drivers.operators import ConstantParameters
from haptic_sim.messages import DeviceReading, Reason
from haptic_sim.worlds.scenes import NoToolParameters

RAMP = round(SOFT_START * RATE)  # ticks
PATIENCE = 10  # ticks of a watchdog of 20 ms


def followed(one: Driver, first: int, count: int, wrench: Any) -> tuple[np.ndarray, np.ndarray]:
    """What is rendered in each of `count` ticks with a constant command, and the twist at their beginnings."""
    rendered, twists = [], []
    for tick in range(first, first + count):
        twists.append(sensed(one, tick).twist.copy())
        one.follow(command(tick, wrench))
        rendered.append(sensed(one, tick + 1).rendered_wrench.copy())
    return np.array(rendered), np.array(twists)


def lost(one: Driver, last: int, until: int, wrench: Any) -> None:
    """Ticks after `last` without a command."""
    for tick in range(last + 1, until):
        sensed(one, tick)
        one.follow(command(last, wrench))


@pytest.mark.parametrize("guard", ["none", "passivity"])
def test_a_soft_start_holds_where_impulses_are_rendered_in_full(guard: str) -> None:
    """Nothing that drives the device on is beyond its part of the limit; what is, takes energy from the device.

    And the force does not step to what is commanded when the time is over: it stays at the limit until the command was
    once within it.
    """
    wrench = np.array([375.0, -90.0, 0, 0, 0, 0.4])
    one = driver(ConstantParameters(wrench=(-2.0, 0, 0, 0, 0, 0)), impulse_rendering="full", mass=2.0, inertia=0.005)
    one._device.port.acts[0] = guard == "passivity"
    one.activate(700)
    rendered, twists = followed(one, 700, RAMP + 100, wrench)
    allowed = np.minimum(np.arange(RAMP + 100) / RAMP, 1.0)[:, None] * LIMIT
    drives = rendered * twists > 0.0
    assert drives[:, 0].sum() > 10
    assert (np.abs(rendered) <= allowed + 1e-12)[drives].all()
    assert (np.abs(rendered) <= LIMIT + 1e-12).all()
    if guard == "none":
        assert rendered[RAMP:, 0] == pytest.approx(15.0)
        assert rendered[: RAMP + 1, 0] == pytest.approx(15.0 * np.arange(RAMP + 1) / RAMP)
        assert rendered[: RAMP + 1, 5] == pytest.approx(0.4 * np.arange(RAMP + 1) / RAMP)
        followed(one, 700 + RAMP + 100, 1, np.zeros(6))
        assert followed(one, 700 + RAMP + 101, 1, wrench)[0][0, 0] == 375.0


def test_the_start_of_a_trial_is_not_soft() -> None:
    assert followed(driver(impulse_rendering="full"), 0, 1, [375.0, 0, 0, 0, 0, 0])[0][0, 0] == 375.0


def test_what_commands_again_after_a_gap_begins_softly() -> None:
    one, wrench = driver(impulse_rendering="full"), np.array([9.0, 0, 0, 0, 0, 0])
    lost(one, -1, 3, wrench)  # the first command is late
    assert followed(one, 3, 20, wrench)[0][:, 0] == pytest.approx(9.0), "that is no gap"
    lost(one, 22, 22 + PATIENCE + 1, wrench)
    assert one.reason == Reason.NONE, "the last command holds as long as the watchdog allows"
    last = 22 + PATIENCE + 1
    lost(one, 22, last + 5, wrench)
    assert one.reason == Reason.WATCHDOG
    rendered, _ = followed(one, last + 5, RAMP + 10, wrench)
    assert rendered[:, 0] == pytest.approx(9.0 * np.minimum(np.arange(RAMP + 10) / RAMP, 1.0))


def test_where_ticks_wait_for_each_other_there_is_no_gap() -> None:
    """Commands that say that there is nothing to follow, as a relay's, change no bit offline or in lockstep."""
    one, wrench = driver(), [9.0, 0, 0, 0, 0, 0]
    for tick in range(20):
        sensed(one, tick)
        one.actuate(command(tick, wrench, 2 if 5 <= tick < 10 else 0))
    assert sensed(one, 20).rendered_wrench[0] == 9.0


def test_a_recorded_gap_is_simulated_again() -> None:
    """A trial in realtime verifies: whoever follows its record returns as softly."""
    (trial,) = experiment.load("corner_peg", ("duration=1",))
    one, wrench = trial.driver(None), [4.0, 0, 0, 0, 0, 0]
    recorded: dict[str, dict[int, bytes]] = {"device_state": {}, "device_command": {}, "device_reading": {}}
    last, rendered = 0, []
    for tick in range(300):
        recorded["device_state"][tick] = (state := sensed(one, tick)).to_bytes()
        rendered.append(state.rendered_wrench[0])
        last = tick if not 50 <= tick < 80 else last
        one.follow(command(last, wrench))
        recorded["device_command"][last] = command(last, wrench).to_bytes()
    assert rendered[50] == 4.0 and 0.0 < rendered[90] < 1.0
    verdict = Verdict()
    _driver(trial, recorded, "device_command", verdict)
    assert verdict.difference == "" and verdict.compared == 300


class Outside(Still):
    """A device that is far outside of its workspace."""

    def take(self, tick: int, reading: DeviceReading) -> None:
        super().take(tick, reading)
        reading.pose[0] = 0.5


def test_the_walls_of_a_workspace_pull_a_device_back_softly() -> None:
    """Also one that is so far outside that the walls alone would take the whole force of the device."""
    device = data(workspace=(-0.1, -0.1, -0.1, 0.1, 0.1, 0.1), wall=(1000.0, 0.0), soft_start=SOFT_START)
    nobody = ConstantParameters(wrench=(0.0,) * 6)
    one = build_driver(device, nobody, NoToolParameters(), RATE, source=Outside())
    rendered, _ = followed(one, 0, RAMP + 10, np.zeros(6))
    assert rendered[:, 0] == pytest.approx(-10.0 * np.minimum(np.arange(RAMP + 10) / RAMP, 1.0))
