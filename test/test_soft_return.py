"""Wrench on the tool when commands return after a gap: it moves slowly to the hand, at any distance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from haptic_bench import experiment
from haptic_bench.experiment import Trial
from haptic_bench.replay.resimulation import Live, Verdict, _controller
from haptic_control.soft_return import CALM, SPEED, SoftReturn
from haptic_sim.messages import DeviceCommand, DeviceState, Reason, ToolCommand

PUSHED = ("operator.type=constant", "operator.wrench=[0.5,0,0,0,0,0.001]", "analysis=trial")
FREE = ("scene.gap=[1e4,1e4]", "scene.far_gap=[1e4,1e4]", "device.impulse_rendering=saturated")


def trial_of(*settings: str) -> Trial:
    (trial,) = experiment.load("corner_peg", (*FREE, *PUSHED, *settings))
    return trial


class Loop:
    """Driver, controller and tool of a trial in realtime, where it is decided here which commands come."""

    def __init__(self, trial: Trial, controller: Any = None):
        given = trial.experiment
        self.driver, self.tool_side = trial.driver(None), trial.tool_side()
        limit = given.limits.wrench_limit
        self.controller = controller or SoftReturn(given.controller.build(given.rate), limit, given.rate)
        self.device, self.tool = DeviceState(), self.tool_side.tool_state()
        self.on_tool, self.on_device = ToolCommand(), DeviceCommand()
        self.on_device.tick = -1
        self.tick = 0
        self.wrenches: list[np.ndarray] = []
        self.twists: list[np.ndarray] = []
        self.bag: dict[str, dict[int, bytes]] = {
            topic: {} for topic in ("device_state", "tool_command", "tool_state", "device_command")
        }
        self.record("tool_state", self.tool)

    def record(self, topic: str, message: Any) -> None:
        self.bag[topic][message.tick] = message.to_bytes()

    def run(self, ticks: int, answered: bool = True) -> None:
        """Ticks with commands, or without: then the tool stays where it is."""
        for _ in range(ticks):
            self.driver.sense(self.tick, self.device)
            self.record("device_state", self.device)
            if answered:
                self.controller.coordinate(self.device, self.tool, self.on_tool)
                self.on_tool.set_hand(self.device)
                self.tool.tick = self.tick - 1
                self.tool_side.step(self.on_tool, self.tool)
                self.controller.command(self.tool, self.on_device)
                self.wrenches.append(self.on_tool.wrench.copy())
                self.twists.append(self.tool.twist.copy())
                for topic, message in (
                    ("tool_command", self.on_tool),
                    ("tool_state", self.tool),
                    ("device_command", self.on_device),
                ):
                    self.record(topic, message)
            self.driver.follow(self.on_device)
            self.tick += 1

    @property
    def distance(self) -> float:
        return float(np.linalg.norm(self.tool.pose[:3] - self.device.pose[:3]))


@pytest.mark.parametrize("controller", ["four_channel", "unilateral_coupling", "virtual_coupling"])
def test_a_tool_comes_slowly_to_a_device_that_has_drifted_away(controller: str) -> None:
    """After 5 s under 4 N the device is 25 m away, and the spring alone would pull with 2.5 kN or more."""
    trial = trial_of(f"controller.type={controller}", "operator.wrench=[4,0,0,0,0,0]")
    rate, limit = trial.experiment.rate, np.array([15.0, 15.0, 15.0, 1.0, 1.0, 1.0])
    loop = Loop(trial)
    loop.run(50)
    loop.run(round(5 * rate), answered=False)
    assert loop.distance > 24.0
    loop.wrenches, loop.twists = [], []
    loop.run(round(2 * rate))
    passed = np.array([4.0, 0, 0, 0, 0, 0])
    assert (np.abs(loop.wrenches) <= limit + passed + 1e-12).all()
    speeds, pushed = np.linalg.norm(np.array(loop.twists)[:, :3], axis=1), 2.0 / rate * np.arange(len(loop.twists))
    one_tick = 19.0 / (2.0 * rate)  # [m/s], by what acts before it is too fast
    assert (speeds <= SPEED[0] + pushed + one_tick).all(), "the operator's own wrench goes on pushing"


def test_device_and_tool_meet_again_and_are_coupled_as_before() -> None:
    trial = trial_of()
    rate = trial.experiment.rate
    loop = Loop(trial)
    loop.run(50)
    loop.run(round(2 * rate), answered=False)
    assert loop.distance > 0.4
    loop.run(round(12 * rate))
    assert loop.distance < 0.02
    plain = trial.experiment.controller.build(rate)
    again = ToolCommand()
    plain.coordinate(loop.device, loop.tool, again)
    loop.controller.coordinate(loop.device, loop.tool, loop.on_tool)
    np.testing.assert_array_equal(loop.on_tool.wrench, again.wrench)


def test_without_a_gap_nothing_is_bounded() -> None:
    """Nor where the first command is late in a trial; in a graph that only runs that begins softly, too."""
    trial = trial_of("device.offset=[0.4,0]", "controller.stiffness=[1000,1000,2.5]")
    given = trial.experiment
    loop = Loop(trial)
    loop.run(3, answered=False)
    loop.run(1)
    assert loop.wrenches[0][0] > 300.0
    lasting = SoftReturn(given.controller.build(given.rate), given.limits.wrench_limit, given.rate, endless=True)
    loop = Loop(trial, lasting)
    loop.run(1)
    assert loop.wrenches[0][0] == pytest.approx(15.5)


@pytest.mark.parametrize("reason", [Reason.ON_PAUSE, Reason.CLUTCHED, Reason.NO_CONTACT])
def test_a_device_that_is_paused_is_no_gap(reason: Reason) -> None:
    trial = trial_of("device.offset=[0.4,0]")
    core = SoftReturn(trial.experiment.controller.build(512.0), (15.0,) * 6, 512.0)
    device, tool, command = DeviceState(), trial.tool_sizes.tool_state(), ToolCommand()
    device.pose[6] = tool.pose[6] = 1.0
    device.pose[0], device.reason = 0.4, reason
    for tick in range(3):
        device.stamp(tick, 0)
        core.coordinate(device, tool, command)
    assert command.wrench[0] == pytest.approx(40.0) and not core.remembers


def test_a_tool_keeps_its_weight_in_the_return() -> None:
    """Of 9.81 N in a world with gravity: what holds it is no pull."""
    trial = trial_of()
    core = SoftReturn(trial.experiment.controller.build(512.0), (1.0,) * 6, 512.0, endless=True)
    device, tool, command = DeviceState(), trial.tool_sizes.tool_state(), ToolCommand()
    device.pose[6] = tool.pose[6] = 1.0
    device.pose[0], device.pose[1], device.reason = 1.0, 1.0, Reason.NO_COMMAND
    tool.inverse_inertia[:] = np.diag([0.5, 0.5, 0, 0, 0, 200.0]).ravel()
    tool.free_acceleration[1] = -9.81
    device.stamp(0, 0)
    core.coordinate(device, tool, command)
    assert command.wrench[:2] == pytest.approx([1.0, 1.0 + 2.0 * 9.81])


def test_a_device_without_motors_for_a_direction_still_moves_the_tool_there() -> None:
    trial = trial_of()
    assert (SoftReturn(trial.experiment.controller.build(512.0), (3.0, 3.0, 0.0), 512.0)._limit > 0).all()


def test_a_recorded_return_is_simulated_again() -> None:
    trial = trial_of()
    loop = Loop(trial)
    loop.run(20)
    loop.run(round(5 * trial.experiment.rate), answered=False)
    loop.run(round((CALM + 1.0) * trial.experiment.rate))
    verdict = Verdict()
    gains: Live[Any] = Live(trial.experiment.controller, "controller", "controller", ())
    states = loop.bag["device_state"]
    _controller(trial, loop.bag, states, gains, trial.tool_sizes.tool_state(), verdict)
    assert (verdict.difference, verdict.unverified) == ("", [])
    assert verdict.compared > 1000
