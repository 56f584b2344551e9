"""What answers the controller: the environment itself, or the local model that it feeds."""

from __future__ import annotations

from typing import Protocol

from haptic_sim.contact.response import ContactParameters, DeviceLimits
from haptic_sim.environment import Environment, EnvironmentParameters
from haptic_sim.local_model import LocalModel
from haptic_sim.messages import ToolCommand, ToolState
from haptic_sim.worlds import World


class ToolSide(Protocol):
    """Environment or LocalModel; the controller cannot tell which."""

    def rehearse(self) -> None: ...

    def configure(self, contact: ContactParameters) -> None: ...

    def tool_state(self) -> ToolState: ...

    def prepare(self) -> None: ...

    def step(self, command: ToolCommand, state: ToolState) -> None: ...


def build_environment(
    world: World, contact: ContactParameters, environment: EnvironmentParameters, device: DeviceLimits, rate: float
) -> Environment:
    """A synchronous environment at the servo rate [Hz]."""
    return Environment(world, contact, environment.method, device.impulse_rendering, device.limit(), rate)


def build_local_model(
    world: World, contact: ContactParameters, environment: EnvironmentParameters, device: DeviceLimits, rate: float
) -> LocalModel:
    """A local model at the servo rate [Hz], with the environment's contact method."""
    return LocalModel(world, contact, environment.method, device.impulse_rendering, device.limit(), rate)
