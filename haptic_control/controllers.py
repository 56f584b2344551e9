"""The controllers that an experiment can name."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from haptic_control.four_channel import FourChannel, FourChannelParameters
from haptic_control.unilateral import UnilateralCoupling, UnilateralParameters
from haptic_sim.parameters import Parameters


class NoControllerParameters(Parameters):
    """There is no device to control."""

    type: Literal["none"] = "none"


AnyControllerParameters = Annotated[
    FourChannelParameters | UnilateralParameters | NoControllerParameters, Field(discriminator="type")
]


def build_controller(parameters: FourChannelParameters | UnilateralParameters | NoControllerParameters) -> FourChannel:
    """The controller of some parameters."""
    match parameters:
        case FourChannelParameters():
            return FourChannel(parameters)
        case UnilateralParameters():
            return UnilateralCoupling(parameters)
    raise TypeError(f"{type(parameters).__name__}: is no controller")
