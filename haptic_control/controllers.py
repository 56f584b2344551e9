"""The controllers that an experiment can name."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from haptic_control.admittance import Admittance, AdmittanceParameters
from haptic_control.four_channel import FourChannel, FourChannelParameters
from haptic_control.shaping import ImpedanceShaping, ShapingParameters
from haptic_control.unilateral import UnilateralCoupling, UnilateralParameters
from haptic_sim.parameters import Parameters


class NoControllerParameters(Parameters):
    """There is no device to control."""

    type: Literal["none"] = "none"


AnyControllerParameters = Annotated[
    FourChannelParameters | UnilateralParameters | ShapingParameters | AdmittanceParameters | NoControllerParameters,
    Field(discriminator="type"),
]


def build_controller(
    parameters: FourChannelParameters
    | UnilateralParameters
    | ShapingParameters
    | AdmittanceParameters
    | NoControllerParameters,
) -> FourChannel | Admittance:
    """The controller of some parameters."""
    match parameters:
        case FourChannelParameters():
            return FourChannel(parameters)
        case UnilateralParameters():
            return UnilateralCoupling(parameters)
        case ShapingParameters():
            return ImpedanceShaping(parameters)
        case AdmittanceParameters():
            return Admittance(parameters)
    raise TypeError(f"{type(parameters).__name__}: is no controller")
