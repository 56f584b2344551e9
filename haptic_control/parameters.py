"""What the parameters of all controllers between a device and a virtual tool have."""

from __future__ import annotations

from haptic_sim.parameters import Parameters, quantity


class ControllerParameters(Parameters):
    """Parameters of a controller whose passivity is checked."""

    allow_active: bool = quantity(
        False,
        description="Whether the controller may run although the analysis finds that the device is not passive with "
        "it; it is analysed where the device states its damping",
    )
