"""What answers a controller at the servo rate: an environment, a local model, or a part of another package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from haptic_sim.contact.response import ContactParameters
from haptic_sim.messages import LocalGeometry, ToolCommand, ToolState
from haptic_sim.tool.dragged import Seen
from haptic_sim.tool.further_hand import FurtherHand
from haptic_sim.tool.world_state import Observer


class ToolSide(Protocol):
    """Environment, LocalModel or ConstrainedTool; the controller cannot tell which.

    It integrates the tool and all that moves with it, so its observer tells what the world looks like. `step` and
    `prepare` are called in the servo thread, where nothing may be allocated. The same commands give the same bits.
    """

    @property
    def observer(self) -> Observer:
        """Tells what the simulated world looks like."""

    @property
    def hands(self) -> Sequence[FurtherHand]:
        """Further hands on the same bodies; empty where the tool is all that is held."""

    @property
    def look(self) -> Callable[[int], Seen] | None:
        """How a body other than the tool is placed and moves, by its number in world states; None: none is dragged."""

    def warm_up(self) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""

    def configure(self, contact: ContactParameters) -> None:
        """Take another material, from the next step on."""

    def tool_state(self) -> ToolState:
        """A message with the tool's state at the start; its tick is -1."""

    def prepare(self) -> None:
        """Compute ahead what does not depend on the next command; called between two steps, if there is time."""

    def step(self, command: ToolCommand, state: ToolState) -> None:
        """Answer the command of a tick: turn the state before it into the state after it."""


class LocalModelCore(ToolSide, Protocol):
    """A tool side that knows the surroundings of the tool from updates of a slower environment alone."""

    @property
    def age(self) -> float:
        """How old the surroundings are [s]."""

    @property
    def update_period(self) -> float:
        """Mean period of the last updates [s]."""

    def update(self, geometry: LocalGeometry, tick: int) -> None:
        """Take the surroundings of an update; called before `step` of `tick`.

        Raises:
            MessageError: the update cannot be used; the surroundings stay as they were.
        """
