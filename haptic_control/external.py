"""A controller that is a node of one's own, in any language, in the place of ours in the graph (docs/external.md)."""

from __future__ import annotations

from typing import ClassVar, Literal

from haptic_control.parameters import Controller, ControllerParameters
from haptic_sim.parameters import ParameterError


class ExternalParameters(ControllerParameters):
    """A node of one's own, named controller, in place of ours; its force is limited and guarded as that of others."""

    EXTERNAL: ClassVar[bool] = True
    OFFLINE: ClassVar[bool] = False

    type: Literal["external"] = "external"

    def build(self, rate: float) -> Controller:
        """Refuse to build a controller: there is none in this process.

        Raises:
            ParameterError: always.
        """
        raise ParameterError(
            ["controller.type = external: is a node of your own, which only the ROS graph has; add --mode lockstep"]
        )
