"""Local models of interaction as parts: what the parameters of each of them say, and what it builds."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple

from haptic_sim.contact.methods import Method
from haptic_sim.contact.response import ContactParameters, DeviceLimits
from haptic_sim.parameters import Parameters, quantity
from haptic_sim.parts import Kind, Part
from haptic_sim.tool.protocol import LocalModelCore
from haptic_sim.worlds.world_setup import WorldSetup


class TransientParameters(Parameters):
    """A decaying sinusoid along the normal that an impact adds to the rendered force (THESIS 7.2)."""

    amplitude: float = quantity(
        0.0, unit="N s/m", description="Amplitude for each m/s of the approach; 0: none", ge=0.0, le=1e4
    )
    frequency: float = quantity(
        150.0, unit="Hz", description="Frequency: wood about 100, metal about 300 Hz", gt=0.0, le=1e4
    )
    decay: float = quantity(60.0, unit="1/s", description="Rate at which it decays", gt=0.0, le=1e4)


class LocalModelContext(NamedTuple):
    """Context that a local model is built from.

    Attributes:
        world: at its start, with the tool among what surrounds it; a local model simulates the tool alone
            (`haptic_sim.worlds.isolated.isolate_tool`), and knows the rest from updates.
        contact: material of the contacts.
        method: of contact, `environment.method`.
        device: what the device can render.
        rate: of the servo [Hz].
        period: expected of the updates [s].
        delay: between a survey and the use of its update [s].
    """

    world: WorldSetup
    contact: ContactParameters
    method: Method
    device: DeviceLimits
    rate: float
    period: float
    delay: float = 0.0


class LocalModelParameters(Part):
    """Parameters of a local model of interaction, which answers between two updates of the environment."""

    WRENCH: ClassVar[bool] = False
    """Whether updates have to carry the wrench of the environment's contacts."""

    epsilon: float = quantity(
        0.005, unit="m", description="Distance below which a constraint is in the local model", ge=0.0, le=1.0
    )
    prediction: Literal["none", "velocity"] = quantity(
        "none",
        description="Constraints that are sent beside those within epsilon. velocity: those that the tool's present "
        "velocity reaches before the update after next arrives",
    )
    transient: TransientParameters = quantity(
        TransientParameters(), description="Transients that an impact adds to the rendered force, by material"
    )

    def build(self, context: LocalModelContext) -> LocalModelCore:
        """The local model."""
        raise TypeError(f"{type(self).__name__}: is not a local model")

    def problems(self, context: LocalModelContext) -> list[str]:
        """Reasons why it cannot take part in this trial; lines that begin with a key of the experiment."""
        return []

    def notes(self, context: LocalModelContext) -> tuple[str, ...]:
        """Warnings that are listed at the start of a trial."""
        return ()


LOCAL_MODELS = Kind("local_models", LocalModelParameters)
AnyLocalModelParameters = Annotated[LocalModelParameters, LOCAL_MODELS]


class NoLocalModelParameters(LocalModelParameters):
    """Nothing between two updates: the environment runs at the servo rate."""

    ABSENT: ClassVar[bool] = True
    OFFLINE: ClassVar[bool] = False

    type: Literal["none"] = "none"
