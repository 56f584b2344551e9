"""Scenes as parts: what the parameters of each of them say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol

from haptic_sim.parts import Kind, Part


class SceneTool(Protocol):
    """The section `tool`, one of `haptic_sim.worlds.scenes.AnyToolParameters`."""

    @property
    def type(self) -> str: ...

    def parts(self) -> dict[str, Any]:
        """Parts that the tool adds to a planar world: bodies, and which is held and how; of the type none, nothing."""

    def bounds(self) -> tuple[float, float, float, float]:
        """Left, lower, right and upper end at the start [m]."""


class SceneFriction(Protocol):
    """Coefficients of friction of contacts, static and kinetic."""

    static: float
    kinetic: float


class SceneContact(Protocol):
    """The section `contact`, a `haptic_sim.contact.response.ContactParameters`.

    Attributes:
        stiffness, damping: of a penalty contact [N/m], [N s/m].
        restitution: of impacts.
        per: `point`, whose stiffness and damping they are, or `wall`, among whose points they are divided.
        friction: of all contacts.
    """

    stiffness: float
    damping: float
    restitution: float

    @property
    def per(self) -> str: ...

    @property
    def friction(self) -> SceneFriction: ...


class SceneMethod(Protocol):
    """The contact method, a `haptic_sim.contact.methods.ContactMethodParameters`."""

    RIGID: ClassVar[bool]
    """Whether bodies at rest begin without overlap; else some scenes start in the equilibrium of its penalties."""


class SceneContext(NamedTuple):
    """Context that the world of a scene is described in.

    Attributes:
        tool: of the type none, but in scenes that are around one (`TOOLS`).
        contact: material of the contacts.
        method: of contact.
    """

    tool: SceneTool
    contact: SceneContact
    method: SceneMethod


class ModelSource(NamedTuple):
    """A model file and what it is read with.

    Attributes:
        path: of the file.
        args: values of the arguments of a xacro file.
        packages: folders in which packages are looked for first, see `haptic_sim.worlds.packages`.
    """

    path: Path
    args: Mapping[str, Any] = {}
    packages: tuple[Path, ...] = ()


class SceneParameters(Part):
    """Parameters of a scene: a virtual world, as the keys of `scene.type: world` say it."""

    ENGINE: ClassVar[str] = ""
    """The engine that alone simulates it; empty: any that simulates worlds."""
    CONSTRAINED: ClassVar[bool] = False
    """Whether the scene is a tool under exact constraints alone, without a world."""
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

    def model_files(self) -> dict[str, ModelSource]:
        """Model files whose links may have visual meshes, by the name in front of their links."""
        return {}


SCENES = Kind("scenes", SceneParameters)
AnySceneParameters = Annotated[SceneParameters, SCENES]
