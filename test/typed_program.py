"""A program as a user writes it, which mypy checks with the tree: what the library returns has types, without casts."""

from __future__ import annotations

import numpy as np
from typing_extensions import assert_type

import haptic_bench
import haptic_sim
from haptic_drivers.inertial import InertialParameters
from haptic_sim import Body, Contact, Environment, Model, World
from haptic_sim.messages import DeviceCommand, DeviceState, ToolState
from haptic_sim.rollouts import Rollouts


def advance(path: str) -> None:
    """Models, worlds and environments."""
    model = haptic_sim.load(path, tool="hand", rate=500.0)
    assert_type(model, Model)
    assert_type(model.coordinates, dict[str, float])
    world = World(model)
    world.step([0.0, 0.0, 1.0, 0.0, 0.0, 0.0], wrenches={"box": np.zeros(6)}, forces={"turn": 1.0})
    assert_type(world.bodies, dict[str, Body])
    assert_type(world.contacts, list[Contact])
    assert_type(world.energy["kinetic"], float)
    assert_type(world.pose, np.ndarray)
    assert_type(world.jacobian("box", (0.0, 0.0, 0.1)), np.ndarray)
    assert_type(world.copy(), World)
    world.state = world.state
    assert_type(haptic_sim.rollout(model, np.zeros((2, 3, 6)), world.state), Rollouts)
    assert_type(Environment(model.start).advance(), ToolState)
    assert_type(haptic_sim.__version__, str)
    world.step(world)  # type: ignore[arg-type]


def close(model: Model) -> None:
    """Loops and trials."""
    loop = haptic_bench.Loop(
        world=model,
        device=InertialParameters(mass=0.2, inertia=1e-3),
        controller="direct",
        operator=lambda time, pose, twist: [time, *pose[:3], *twist[:2]],
    )
    loop.step()
    assert_type(loop.time, float)
    assert_type(loop.device, DeviceState)
    assert_type(loop.command, DeviceCommand)
    trial = haptic_bench.run("incline", {"contact.stiffness": 2000.0}, duration=0.1)
    assert_type(trial.metrics, dict[str, float | None])
    assert_type(trial.samples["time"], np.ndarray)
    haptic_bench.Loop(model, rate="fast")  # type: ignore[arg-type]
