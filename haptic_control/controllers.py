"""The controllers that an experiment can name, as one union of parameters, and how each is built."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from haptic_control.admittance import Admittance, AdmittanceParameters, admittance_problem
from haptic_control.coupled_loop import coupling_problem
from haptic_control.crtk import CrtkParameters
from haptic_control.direct import DirectParameters
from haptic_control.excitation import Excitation, ExcitationParameters
from haptic_control.four_channel import FourChannel, FourChannelParameters
from haptic_control.shaping import ImpedanceShaping, ShapingParameters, shaping_problem
from haptic_control.soft_return import SoftReturn
from haptic_control.stability import CoupledInertias
from haptic_control.unilateral import UnilateralCoupling, UnilateralParameters
from haptic_control.virtual_coupling import VirtualCoupling, VirtualCouplingParameters, virtual_coupling_problem
from haptic_sim.parameters import Gains, Parameters


class NoControllerParameters(Parameters):
    """There is no device to control."""

    type: Literal["none"] = "none"


AnyControllerParameters = Annotated[
    FourChannelParameters
    | UnilateralParameters
    | DirectParameters
    | VirtualCouplingParameters
    | ShapingParameters
    | AdmittanceParameters
    | CrtkParameters
    | ExcitationParameters
    | NoControllerParameters,
    Field(discriminator="type"),
]


def build_controller(
    parameters: FourChannelParameters
    | UnilateralParameters
    | DirectParameters
    | VirtualCouplingParameters
    | ShapingParameters
    | AdmittanceParameters
    | CrtkParameters
    | ExcitationParameters
    | NoControllerParameters,
    rate: float,
) -> FourChannel | VirtualCoupling | Admittance | Excitation:
    """The controller of some parameters, at the servo rate [Hz]."""
    match parameters:
        case FourChannelParameters() | DirectParameters():
            return FourChannel(parameters, rate)
        case UnilateralParameters():
            return UnilateralCoupling(parameters, rate)
        case VirtualCouplingParameters():
            return VirtualCoupling(parameters)
        case ShapingParameters():
            return ImpedanceShaping(parameters, rate)
        case AdmittanceParameters():
            return Admittance(parameters, rate)
        case ExcitationParameters():
            return Excitation(parameters, rate)
    raise TypeError(f"{type(parameters).__name__}: is no controller")


def build_realtime_controller(parameters: Any, rate: float, wrench_limit: Gains, lasting: bool = False) -> SoftReturn:
    """The same on the wall clock, where commands may be missing; see `SoftReturn`."""
    return SoftReturn(build_controller(parameters, rate), wrench_limit, rate, lasting)


def stability_problem(
    parameters: FourChannelParameters
    | UnilateralParameters
    | DirectParameters
    | VirtualCouplingParameters
    | ShapingParameters
    | AdmittanceParameters
    | CrtkParameters
    | ExcitationParameters
    | NoControllerParameters,
    inertias: CoupledInertias,
    rate: float,
) -> str:
    """Why the sampled loop of a controller diverges with these inertias at `rate` [Hz], and which gains would do.

    Returns:
        A line that begins with the keys of the gains; empty if the loop is stable, or the device not known.
    """
    if inertias.device is None:
        return ""
    match parameters:
        case FourChannelParameters() | UnilateralParameters():
            return coupling_problem(parameters, inertias, rate)
        case VirtualCouplingParameters():
            return virtual_coupling_problem(parameters, inertias, rate)
        case ShapingParameters():
            return shaping_problem(parameters, inertias, rate)
        case AdmittanceParameters():
            return admittance_problem(parameters, inertias, rate)
    return ""
