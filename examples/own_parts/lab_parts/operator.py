"""An operator of one's own: a push along one axis that grows steadily, and stays."""

from __future__ import annotations

from typing import Literal

import numpy as np

from haptic_drivers.operators import Operator, OperatorContext, OperatorParameters
from haptic_sim.parameters import quantity


class RampParameters(OperatorParameters):
    """A force that grows steadily up to its largest value."""

    type: Literal["ramp"] = "ramp"
    force: tuple[float, float, float] = quantity(unit="N", description="Force at the end of the ramp [fx, fy, fz]")
    time: float = quantity(0.5, unit="s", description="Time that the ramp takes", gt=0.0)

    def build(self, context: OperatorContext) -> Operator:
        """See OperatorParameters."""
        return Ramp(self)


class Ramp:
    """See the module."""

    def __init__(self, parameters: RampParameters):
        self._force, self._time = np.array(parameters.force), parameters.time

    def wrench(self, time: float, pose: np.ndarray, twist: np.ndarray, out: np.ndarray) -> None:
        """Fill `out` (6,) [N, N m]."""
        out[3:] = 0.0
        np.multiply(self._force, min(time / self._time, 1.0), out=out[:3])
