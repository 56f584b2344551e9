"""Parameters of the environment: what simulates the world, how, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from haptic_sim.contact.methods import AnyContactMethodParameters, ImpulseAugmentedParameters, Method, contact_method
from haptic_sim.contact.sleeping import Sleep
from haptic_sim.parameters import Parameters, quantity
from haptic_sim.tool.engines import AnyEngineParameters, HapticsParameters
from haptic_sim.tool.virtual_tool import SEMI_IMPLICIT


class EnvironmentParameters(Parameters):
    """Parameters of the simulation of the world."""

    engine: AnyEngineParameters = quantity(
        HapticsParameters(), description="Engine that simulates the world; its type alone, or a mapping with its keys"
    )
    method: AnyContactMethodParameters = quantity(
        ImpulseAugmentedParameters(),
        description="Method that computes contact forces and impulses; its type alone, or a mapping with its keys",
    )
    integrator: int = quantity(
        SEMI_IMPLICIT,
        description="Integration of a tool's position from its velocity v, a method of BROWN Table 1. 1: by v before "
        "the step; 2: by v after it; 3: by their mean. 1 and 3 are for one free rigid tool whose contacts are "
        "penalties, and its twist is then that with which it moved",
        ge=1,
        le=3,
    )
    sleep_speed: float = quantity(
        0.0,
        unit="m/s",
        description="Speed up to which bodies that lie on others are at rest; 0: none falls asleep. What sleeps takes "
        "no time until something touches or pushes it. Of a synchronous world of several bodies",
        ge=0.0,
        le=1.0,
    )
    sleep_time: float = quantity(
        0.5, unit="s", description="Time for which bodies are at rest before they fall asleep", gt=0.0, le=1e4
    )
    rate: float | None = quantity(
        None,
        unit="Hz",
        description="Rate of an asynchronous environment; null: the servo rate",
        gt=0.0,
    )
    delay: float | None = quantity(
        None,
        unit="s",
        description="Computing delay of an asynchronous environment; null: one period",
        ge=0.0,
    )
    following: float = quantity(
        20.0,
        unit="1/s",
        description="Rate at which the tool of an asynchronous environment makes up for its distance from the proxy, "
        "among bodies that move",
        gt=0.0,
        le=1e4,
    )
    publish: float | None = quantity(
        60.0,
        unit="Hz",
        description="Rate of the world states (bodies and contacts), which are recorded; above the servo rate: every "
        "tick; null: none",
        gt=0.0,
        le=1e6,
    )

    fields: dict[str, Annotated[float, Field(ge=0.0, le=1.0)]] = quantity(
        {},
        description="Strength of fields of the scene by name, from 0 (off) to 1; of those that are left out 1. A "
        "change fades in over the field's `fade`",
        live=True,
    )

    @property
    def sleep(self) -> Sleep:
        """Rule for the transition of resting bodies to sleep."""
        return Sleep(self.sleep_speed, self.sleep_time)

    def with_method(self, method: Method) -> EnvironmentParameters:
        """Copy with another contact method, or that of a name."""
        return self.model_copy(update={"method": contact_method(method)})

    def publish_every(self, servo_rate: float) -> int:
        """Ticks from one world state to the next, 0: there are none."""
        return 0 if self.publish is None else max(1, round(servo_rate / self.publish))

    def schedule(self, servo_rate: float) -> SurveySchedule:
        """Ticks at which an asynchronous environment surveys, and at which its results are known."""
        period = max(1, round(servo_rate / self.rate)) if self.rate is not None else 1
        return SurveySchedule(period, period if self.delay is None else round(self.delay * servo_rate))


@dataclass(frozen=True)
class SurveySchedule:
    """Surveys every `period` ticks, from the state at tick 0 on; the local model knows each `delay` ticks later.

    The first survey is made before the trial starts and is known from tick 0 on.
    """

    period: int
    delay: int

    def surveys(self, tick: int) -> bool:
        """Whether the state at the beginning of `tick` is surveyed."""
        return tick % self.period == 0

    def due(self, tick: int) -> int | None:
        """The tick whose survey the local model takes at `tick`, None if it takes none."""
        if tick == 0:
            return 0
        surveyed = tick - self.delay
        return surveyed if surveyed > 0 and self.surveys(surveyed) else None
