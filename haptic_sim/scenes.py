"""Scenes as parts: what the parameters of each of them say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from haptic_sim.parts import Kind, Part


class SceneContext(NamedTuple):
    """What the world of a scene is described in.

    Attributes:
        tool: the section `tool`, one of `haptic_sim.worlds.scenes.AnyToolParameters`; it has the type none, but in
            scenes that are around one (`TOOLS`).
        contact: the section `contact`, a `haptic_sim.contact.response.ContactParameters`: stiffness [N/m], damping
            [N s/m], restitution, friction.
        method: of contact, a `haptic_sim.contact.methods.ContactMethodParameters`; some scenes start in the equilibrium
            of its penalties.
    """

    tool: Any
    contact: Any
    method: Any


class SceneParameters(Part):
    """Parameters of a scene: a virtual world, as the keys of `scene.type: world` say it."""

    ENGINE: ClassVar[str] = ""
    """The engine that alone simulates it; empty: any that simulates worlds."""
    CONSTRAINED: ClassVar[bool] = False
    """Whether it is a tool under exact constraints alone, without a world."""
    ROLLING: ClassVar[bool] = False
    """Whether `constraint.rolling` has a meaning in it."""

    def world(self, context: SceneContext) -> dict[str, Any]:
        """The keys of a world (`haptic_sim.worlds.parameters.WorldParameters`), but for its type.

        The same parameters in the same context give the same keys.
        """
        raise NotImplementedError

    def placed(self, folder: Path) -> SceneParameters:
        """The same, with paths of files that hold everywhere; `folder` is where they start from."""
        return self

    def with_files(self, place: Callable[[str], str | Path]) -> SceneParameters:
        """The same, with another place for each file that a trial keeps a copy of."""
        return self

    def model_files(self) -> dict[str, str]:
        """Paths of model files whose links may have visual meshes, by the name in front of their links."""
        return {}


SCENES = Kind("scenes", SceneParameters)
AnySceneParameters = Annotated[SceneParameters, SCENES]
