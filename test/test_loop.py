"""Closed loops of parts that a program gives: the bits of the experiment of the same parts, at any rate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import ROOT

from haptic_bench import Loop
from haptic_control.direct import DirectParameters
from haptic_drivers.inertial import InertialParameters
from haptic_drivers.operators import ConstantParameters
from haptic_sim import Model, World
from haptic_sim.messages import FORCE, DeviceCommand, DeviceState, ToolCommand, ToolState
from haptic_sim.parameters import ParameterError

BOX: dict[str, Any] = {
    "gravity": [0.0, 0.0, 0.0],
    "tool": "box",
    "bodies": {
        "wall": {"joint": "fixed", "shapes": [{"type": "plane", "normal": [-1, 0, 0], "offset": -0.06}]},
        "box": {"joint": "planar", "mass": 0.5, "shapes": [{"type": "box", "size": [0.1, 0.1, 0.1]}]},
    },
    "planar": True,
}
PUSH = (2.0, 0.0, 0.0, 0.0, 0.0, 0.0)
DEVICE = InertialParameters(mass=0.3, inertia=1e-3)
COUPLING = {"type": "virtual_coupling", "stiffness": [800.0, 800.0, 2.0], "damping": [20.0, 20.0, 0.05]} | {
    "allow_active": True
}


@pytest.mark.parametrize("name", ["corner_peg", "two_hands", "mujoco_drawer", "rolling_disk", "incline"])
def test_parts_give_the_bits_of_their_experiment(name: str) -> None:
    """With a device, with two, through a local model, without a device; where there is a world."""
    whole = Loop(name)
    experiment = whole.trial.experiment
    further = {"local_model": experiment.local_model, "guard": experiment.guard, "hands": experiment.hands}
    further |= {"standard_topics": experiment.standard_topics, "relay": experiment.relay}
    parts = {"device": experiment.device, "controller": experiment.controller, "operator": experiment.operator}
    path = ROOT / "config" / "experiments" / f"{name}.yaml"
    if name == "rolling_disk":
        with pytest.raises(ParameterError, match="is a tool under exact constraints, without a world"):
            Model.from_yaml(path)
        return
    loop = Loop(world=Model.from_yaml(path), rate=experiment.rate, **parts, **further)  # type: ignore[arg-type]
    for _ in range(150):
        whole.step()
        loop.step()
        assert loop.tool.to_bytes() == whole.tool.to_bytes()
    if not experiment.standalone:
        assert loop.device.to_bytes() == whole.device.to_bytes()
        assert loop.command.to_bytes() == whole.command.to_bytes()


def test_parts_are_parameters_or_their_content_or_a_name() -> None:
    model = Model(BOX)
    operator = ConstantParameters(wrench=PUSH)
    content = {"type": "inertial", "mass": 0.3, "inertia": 1e-3}
    one = Loop(world=model, device=DEVICE, controller=DirectParameters(), operator=operator)
    two = Loop(world=World(model), device=content, controller="direct", operator=lambda time, pose, twist: PUSH)
    three = Loop(world=BOX, device=content, controller={"type": "direct"}, operator=operator.model_dump())
    for _ in range(200):
        for loop in (one, two, three):
            loop.step()
        assert one.tool.to_bytes() == two.tool.to_bytes() == three.tool.to_bytes()
    assert one.time == pytest.approx(0.2) and "inertial, direct, constant, 1000 Hz, 200 ticks done" in repr(one)


@pytest.mark.parametrize("rate", [500.0, 3000.0])
def test_a_hand_rests_against_a_wall_at_any_rate(rate: float) -> None:
    """As deep as both springs give way: F / K of the coupling, and F / K of the wall."""
    wall = {"stiffness": 4000.0, "damping": 60.0, "per": "wall"}
    model = Model(BOX, contact=wall, environment={"method": "penalty"}, rate=rate)
    hand = {"type": "inertial", "mass": 0.3, "inertia": 1e-3, "damping": [5.0, 0.01]}
    loop = Loop(world=model, device=hand, controller=COUPLING, operator=lambda time, pose, twist: PUSH)
    while loop.time < 3.0:
        loop.step()
    assert loop.device.pose[0] - loop.tool.pose[0] == pytest.approx(2.0 / 800.0, abs=1e-8)
    assert loop.tool.pose[0] - 0.01 == pytest.approx(2.0 / 4000.0, abs=1e-4)  # and what it entered in its first step
    assert loop.command.wrench[0] == pytest.approx(-2.0, abs=1e-3)


class Spring:
    """A controller of a program's own: a spring of 200 N/m and a damper of 10 N s/m."""

    def coordinate(self, device: DeviceState, tool: ToolState, command: ToolCommand) -> None:
        self.force = 200.0 * (device.pose[:3] - tool.pose[:3]) + 10.0 * (device.twist[:3] - tool.twist[:3])
        command.stamp(device.tick, device.nanoseconds)
        command.tool_tick = tool.tick
        command.wrench[:] = 0.0
        command.wrench[:3] = self.force

    def command(self, tool: ToolState, command: DeviceCommand) -> None:
        command.stamp(tool.tick, tool.nanoseconds)
        command.device_tick, command.mode = tool.tick, FORCE
        command.wrench[:] = 0.0
        command.wrench[:3] = -self.force


def test_a_controller_of_a_program_is_an_object() -> None:
    """Newton: what the operator has pushed is the momentum of device and tool."""
    free = BOX | {"bodies": {"box": BOX["bodies"]["box"]}}
    loop = Loop(world=free, device=DEVICE, controller=Spring(), operator=lambda time, pose, twist: PUSH)
    for _ in range(300):
        loop.step()
    loop.step()  # the device is known at the beginning of a tick
    tool, device = loop.tool.twist[0], loop.device.twist[0]
    assert 0.5 * tool + 0.3 * device == pytest.approx(2.0 * loop.time, rel=0.01) and tool == pytest.approx(
        device, rel=0.01
    )


def test_without_a_device_the_operator_moves_the_tool() -> None:
    world, loop = World(BOX), Loop(world=BOX, operator=lambda time, pose, twist: PUSH)
    for _ in range(50):
        world.step(PUSH)
        loop.step()
    np.testing.assert_array_equal(loop.tool.pose, world.pose)
    with pytest.raises(ParameterError, match="there is no device"):
        _ = loop.device


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "world: missing"),
        ({"settings": {}}, "settings: are of an experiment"),
        ({"experiment": "corner_peg", "rate": 500.0}, "rate: given by the experiment"),
        ({"world": BOX, "device": "inertail"}, "device.type = inertail"),
        ({"world": BOX, "device": DEVICE}, "controller.type = none: a device needs one"),
        ({"world": BOX, "device": DEVICE, "controller": "direct", "gaurd": {}}, "gaurd: unknown key"),
        ({"world": BOX, "device": "admittance", "controller": Spring()}, "controller"),
    ],
)
def test_bad_parts_are_named(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        Loop(**arguments)


def test_a_wrench_that_is_none_is_named() -> None:
    loop = Loop(world=BOX, operator=lambda time, pose, twist: [1.0, 2.0])
    with pytest.raises(ParameterError, match=r"operator\(0 s\) = \[1.0, 2.0\]: must be six finite numbers"):
        loop.step()
