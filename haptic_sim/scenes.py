"""Scenes as parts: what the parameters of each of them say."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from haptic_sim.parts import Kind, Part


class SceneParameters(Part):
    """Parameters of a scene: a virtual world, as the keys of `scene.type: world` say it."""

    ENGINE: ClassVar[str] = ""
    """The engine that alone simulates it; empty: any that simulates worlds."""
    CONSTRAINED: ClassVar[bool] = False
    """Whether it is a tool under exact constraints alone, without a world."""
    ROLLING: ClassVar[bool] = False
    """Whether `constraint.rolling` has a meaning in it."""

    def world(self, tool: Any, contact: Any, method: Any) -> dict[str, Any]:
        """The keys of a world (`haptic_sim.worlds.parameters.WorldParameters`), but for its type.

        Args:
            tool: the section `tool`; it has the type none, but in scenes that are around one (TOOLS).
            contact: the section `contact`.
            method: of contact, a `ContactMethodParameters`; some scenes start in the equilibrium of its penalties.
        """
        raise NotImplementedError


SCENES = Kind("scenes", SceneParameters)
AnySceneParameters = Annotated[SceneParameters, SCENES]
