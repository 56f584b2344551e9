"""The operator of a trial without a device: what it applies is the command of the virtual tool, or of another body."""

from __future__ import annotations

import numpy as np

from haptic_drivers.events import Bodies
from haptic_drivers.operators import AnyOperatorParameters, PointerParameters, build_operator, events_of
from haptic_drivers.pointer import mobility_of
from haptic_sim.messages import HELD, OperatorEvent, ToolCommand
from haptic_sim.tool.protocol import ToolSide
from haptic_sim.tool.tool_side import Start
from haptic_sim.worlds.world_setup import WorldSetup


def draggable(start: Start, *, standalone: bool = True) -> Bodies:
    """Bodies that a pointer can drag beside the hand: those of the world, where the tool is `standalone`."""
    return start.moving if standalone and isinstance(start, WorldSetup) else {}


class ToolOperator:
    """The operator of a trial without a device, whose wrench is the command of the tool or of another body.

    Args:
        parameters, table, seed: of the operator, as of `build_operator`.
        rate: of the servo [Hz].
        start: what the tool's side starts from.
        tool_side: that its commands are for.

    Attributes:
        events: of a pointer, None of other operators.
        command: of the tick that was begun; state: to be filled by the tool's side with its answer.
    """

    def __init__(
        self,
        parameters: AnyOperatorParameters,
        table: np.ndarray | None,
        seed: int,
        rate: float,
        start: Start,
        tool_side: ToolSide,
    ):
        self._rate = rate
        self.command, self.state = ToolCommand(), tool_side.tool_state()
        self.command.hand = HELD
        self._bodies = draggable(start, standalone=tool_side.observe_body is not None)
        self.events = events_of(parameters, table, self._bodies)
        mobility = observe_body = None
        if isinstance(parameters, PointerParameters):
            mobility = self.state.inverse_inertia.reshape(6, 6)
            if parameters.mass is not None and parameters.inertia is not None:
                mobility = mobility_of(parameters.mass, parameters.inertia, start.planar)
            observe_body = tool_side.observe_body
            if observe_body is not None:
                for number, moves in enumerate(self._bodies.values()):
                    if moves:
                        observe_body(number)  # what it needs is made before the first tick
        self._operator = build_operator(parameters, table, seed, self.events, mobility, observe_body)

    def begin(self, tick: int, time: int) -> OperatorEvent | None:
        """Fill the command of a tick, stamped with `time` [ns]; returns the event that took effect, if one did."""
        command, state, events = self.command, self.state, self.events
        command.stamp(tick, time)
        command.tool_tick = tick - 1
        self._operator.wrench(tick / self._rate, state.pose, state.twist, command.wrench)
        if events is None:
            return None
        command.body = events.body
        event = events.event_of(tick, tick / self._rate)
        if event is not None:
            event.stamp(tick, time)
        return event
