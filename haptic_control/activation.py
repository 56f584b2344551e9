"""Whether the device of an experiment is passive at the hand with its controller, which is asked before it runs.

Only a device that states its damping is analysed (see `haptic_control.passivity.port`): of an ideal one, integrated as
the tool is, the analysis says nothing. The tool is free, in a penalty contact in every direction, or against a rigid
wall.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from haptic_control.parameters import AnalysedControllerParameters
from haptic_control.passivity.port import Device, Port, World, analyse_port, connection_of
from haptic_control.stability import CoupledInertias, largest, rounded_down, settings
from haptic_sim.parameters import Parameters, six

_LEAST = 1e-3  # of the gains: less is nothing that could be felt
_MORE = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # times the damping that is tried where no smaller gains are passive
_DAMPINGS = np.geomspace(1e-3, 1.0, 7)  # of a device that are tried, over m/T: the last stops it within a few ticks
_WORLDS = {"free": "with a free tool", "contact": "with a tool in contact", "rigid": "with a tool against a rigid wall"}


def port_of(
    parameters: AnalysedControllerParameters, inertias: CoupledInertias, rate: float
) -> tuple[World, Port] | None:
    """Whether a device is passive at the hand: the first of the worlds free, contact, rigid in which it is not.

    Returns:
        The world and what was found there; None if the device states no damping.
    """
    if inertias.device is None or inertias.damping is None:
        return None
    axes = inertias.axes
    device = Device(inertias.per_axis(inertias.device), inertias.per_axis(inertias.damping), inertias.driven_axes())
    forces = (axes < 3).astype(float)  # a contact pushes along a line
    stiffness, damping = inertias.contact or (0.0, 0.0)
    contact = forces * stiffness, forces * damping
    worlds: tuple[World, ...] = ("free", "contact", "rigid") if inertias.contact else ("free", "rigid")
    sensed = inertias.force_sensor
    if getattr(parameters, "operator_wrench", "measured") == "observed":  # which at low frequencies is as measured
        sensed = True
        parameters = parameters.model_copy(update={"operator_wrench": "measured"})
    for world in worlds:
        controller = parameters.build(rate)
        connection = connection_of(controller, axes, world, inertias.tool)
        if not sensed:
            connection.tool[2], connection.device[2] = 0.0, 0.0
        W, T = inertias.of_tool(), 1.0 / rate
        port = analyse_port(connection, world, W, device, contact, T, inertias.integrator)
        if not port.passive:
            break
    return world, port


def may_act(parameters: Parameters, inertias: CoupledInertias, rate: float) -> bool:
    """Whether a controller may run with a device: it is passive at the hand, may be active, or states no damping.

    As `passivity_problem`, which also searches for stable gains: that takes some hundred analyses.
    """
    if not isinstance(parameters, AnalysedControllerParameters) or parameters.allow_active:
        return True
    return not _is_active(parameters, inertias, rate)


def _is_active(parameters: AnalysedControllerParameters, inertias: CoupledInertias, rate: float) -> bool:
    found = port_of(parameters, inertias, rate)
    return found is not None and not found[1].passive


def passivity_problem(parameters: Parameters, inertias: CoupledInertias, rate: float) -> str:
    """Reason why a device is not passive at the hand with a controller, with passive gains, if there are any.

    Returns:
        A line that begins with keys; empty if it is passive, may be active, or states no damping.
    """
    if not isinstance(parameters, AnalysedControllerParameters) or parameters.allow_active:
        return ""
    found = port_of(parameters, inertias, rate)
    if found is None or found[1].passive:
        return ""
    world, port = found
    assert inertias.damping is not None and port.direction is not None
    frequency = port.theta * rate / (2.0 * math.pi)
    where = f"{inertias.describe(port.direction)}, {_WORLDS[world]}, at {frequency:.3g} Hz"
    why = f"the device, with damping [{inertias.damping[0]:g}, {inertias.damping[1]:g}], is not passive {where}"
    allowed = "or set controller.allow_active=true"
    names = parameters.GAINS
    given: dict[str, Any] = {name: getattr(parameters, name) for name in names}
    key = ", ".join(f"controller.{name}" for name in names) or f"controller.type = {parameters.type}"

    def scaled(**factors: float) -> AnalysedControllerParameters:
        gains: dict[str, Any] = {
            name: tuple(factor * value for value in given[name]) for name, factor in factors.items()
        }
        return parameters.model_copy(update=gains)

    def active(part: float) -> bool:
        return _is_active(scaled(**dict.fromkeys(names, part)), inertias, rate)

    part = largest(active, _LEAST) if names else 0.0
    if part < _LEAST:
        for factor in _MORE if names else ():
            one = scaled(damping=factor)
            if not _is_active(one, inertias, rate) and not one.stability_problem(inertias, rate):
                return f"{key}: {why}; {factor:g} times controller.damping is passive; raise it, {allowed}"
        enough = _sufficient_damping(parameters, inertias, rate)
        if enough:
            device = f"a device with more damping, as device.damping=[{enough[0]:g},{enough[1]:g}]"
        else:
            device = "another device, as more damping of this one was tried too"
        return f"{key}: {why}; no gains that were tried are passive: use {device}, {allowed}"
    if any(len(gains) == 36 for gains in given.values()):
        return f"{key}: {why}; {rounded_down(part)} times the matrices are passive; lower them, {allowed}"
    smaller = [part * np.array(six(gains))[inertias.axes] for gains in given.values()]
    are, would = settings(names, list(given.values()), smaller, inertias.axes)
    return f"{are}: {why}; gains that are passive: {would}; lower them, {allowed}"


def _sufficient_damping(
    parameters: AnalysedControllerParameters, inertias: CoupledInertias, rate: float
) -> tuple[float, float] | None:
    """A larger damping of the device with which it is passive; None: none of those that are tried is."""
    assert inertias.device is not None and inertias.damping is not None
    b, c = inertias.damping
    for part in _DAMPINGS:
        more_b, more_c = (max(d, float(f"{part * rate * m:.2g}")) for d, m in zip((b, c), inertias.device, strict=True))
        for damping in ((more_b, c), (b, more_c), (more_b, more_c)):
            found = port_of(parameters, inertias.model_copy(update={"damping": damping}), rate)
            if found is not None and found[1].passive:
                return damping
    return None


def not_analysed(parameters: Parameters, inertias: CoupledInertias) -> str:
    """Terms of a controller that the analysis of its device leaves out, one line; empty if there are none."""
    if inertias.device is None or inertias.damping is None:
        return ""
    terms = ["controller.integral"] if any(getattr(parameters, "integral", ())) else []
    if getattr(parameters, "operator_wrench", "") == "observed":
        terms.append("controller.operator_wrench = observed")
    return f"{', '.join(terms)}: left out where the device is analysed for passivity at the hand" if terms else ""


def passivity_fact(parameters: Parameters, inertias: CoupledInertias, rate: float) -> str:
    """Text about the passivity of a device at the hand, for a report; empty where nothing is known of it."""
    if not isinstance(parameters, AnalysedControllerParameters) or inertias.device is None:
        return ""
    found = port_of(parameters, inertias, rate)
    if found is None:
        return "passivity not analysed: the device states no damping"
    world, port = found
    if port.passive:
        return "device passive at the hand (BROWN 8)"
    return f"active {_WORLDS[world]} (controller.allow_active: {str(parameters.allow_active).lower()})"
