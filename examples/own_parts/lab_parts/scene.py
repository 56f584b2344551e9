"""A scene of one's own: a ball that is held, before a wall."""

from __future__ import annotations

from typing import Any, Literal

from haptic_sim.parameters import quantity
from haptic_sim.scenes import SceneContext, SceneParameters


class BallBeforeWallParameters(SceneParameters):
    """A ball, which is held, before a wall across x."""

    type: Literal["ball_before_wall"] = "ball_before_wall"
    radius: float = quantity(0.02, unit="m", description="Radius of the ball", gt=0.0, le=1.0)
    mass: float = quantity(0.5, unit="kg", description="Mass of the ball", gt=0.0, le=100.0)
    gap: float = quantity(0.01, unit="m", description="Gap from the ball to the wall at the start", gt=0.0, le=1.0)

    def world(self, context: SceneContext) -> dict[str, Any]:
        """See SceneParameters."""
        ball = {"joint": "free", "mass": self.mass, "shapes": [{"type": "sphere", "radius": self.radius}]}
        plane = {"type": "plane", "normal": [-1, 0, 0], "offset": -self.radius - self.gap}
        return {
            "gravity": [0, 0, 0],
            "bodies": {"wall": {"joint": "fixed", "shapes": [plane]}, "ball": ball},
            "tool": "ball",
        }
