"""A local model of one's own: the plane of the deepest contact of the last update, with a spring and a damper.

    f = max(0, k d - b v_n) n,   d = (c - p) . n

c is a point of the surface, n its normal, p the tool's point that touched it, which moves with the hand point, and v_n
its velocity along n. The hand feels a smooth wall where the environment has edges; further contacts it does not feel.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from haptic_sim.messages import LocalGeometry, ToolCommand, ToolState
from haptic_sim.parameters import quantity
from haptic_sim.tool.local_model import AppliedWrench, LocalModelContext, LocalModelParameters


class SpringPlaneParameters(LocalModelParameters):
    """A spring and a damper at the plane of the deepest contact of the last update."""

    type: Literal["spring_plane"] = "spring_plane"
    stiffness: float = quantity(1000.0, unit="N/m", description="Stiffness of the plane", gt=0.0, le=1e5)
    damping: float = quantity(5.0, unit="N s/m", description="Damping of the plane", ge=0.0, le=1e3)

    def build(self, context: LocalModelContext) -> SpringPlane:
        """See LocalModelParameters."""
        return SpringPlane(self, context)


class SpringPlane(AppliedWrench):
    """See the module."""

    def __init__(self, parameters: SpringPlaneParameters, context: LocalModelContext):
        super().__init__(context.world, context.contact, context.rate, parameters, context.period)
        self._stiffness, self._damping = parameters.stiffness, parameters.damping
        self._known = False
        self._normal, self._reach = np.zeros(3), 0.0  # n, and where p . n is zero depth, for the hand point

    def take(self, geometry: LocalGeometry, tick: int) -> None:
        """Keep the deepest constraint of an update."""
        constraints = geometry.constraints[: len(geometry)]
        self._known = len(geometry) > 0
        if self._known:
            deepest = constraints[np.argmin(constraints["separation"])]
            self._normal[:] = deepest["normal"]
            self._reach = self._normal @ geometry.pose[:3] - deepest["separation"]

    def answer(self, command: ToolCommand, state: ToolState) -> None:
        """Push the tool out of the plane."""
        self.wrench[:], self.contacts = 0.0, 0
        if self._known:
            depth = self._reach - self._normal @ state.pose[:3]
            force = self._stiffness * depth - self._damping * (self._normal @ state.twist[:3])
            if depth > 0.0 and force > 0.0:
                np.multiply(self._normal, force, out=self.wrench[:3])
                self.contacts = 1
        super().answer(command, state)
