"""Passivity of haptic displays: how much damping a device needs to render a sampled coupling and world (BROWN).

`transfer` has transfer functions and their poles, `conditions` the required damping, `coupling` BROWN's spring-damper
coupling with a point mass, `directions` the same with matrices, `quantisation` the friction that positions in steps
require, `tuning` the gains for a device, `zwidth` all of it by simulation.
"""

from haptic_control.passivity.conditions import required_damping, required_damping_of_coupling
from haptic_control.passivity.coupling import Analysis, analyse, minimum_mass, ratio_map
from haptic_control.passivity.transfer import TransferFunction

__all__ = [
    "Analysis",
    "TransferFunction",
    "analyse",
    "minimum_mass",
    "ratio_map",
    "required_damping",
    "required_damping_of_coupling",
]
