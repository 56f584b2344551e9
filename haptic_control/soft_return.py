"""Soft return of the coupling after a gap of commands, in realtime: no more force than the device can render.

While no command comes, the hand moves the device and the tool stays where it is. When commands come again, spring and
damper are stretched over the whole distance. The driver bounds what they do to the hand (its soft start), and this
module what they do to the tool:

    ToolCommand(k) = operator's wrench as it is passed on + w(k),    |w(k)| <= device.wrench_limit + weight of the tool

in each direction, and nothing of w(k) drives a tool on that is faster than SPEED. So the tool comes slowly to the hand,
however far away that is, and stops there. The bound ends when it has changed nothing for CALM.
"""

from __future__ import annotations

import math

import numpy as np

from haptic_control.parameters import Controller
from haptic_sim.kernels import kernel
from haptic_sim.messages import DeviceCommand, DeviceState, Reason, ToolCommand, ToolSizes, ToolState
from haptic_sim.parameters import Gains, six

SPEED = (0.25, 1.0)  # [m/s], the reduced speed of ISO 10218-1, and [rad/s], which is that at 0.25 m
CALM = 0.5  # [s]
LEAST = (15.0, 1.0)  # [N, N m] where the device renders nothing, as one without motors for rotation
GAPS = frozenset((Reason.NO_COMMAND, Reason.WATCHDOG, Reason.FAILED, Reason.OLD_READING))
"""Reasons of a device that rendered nothing for want of commands or readings; a paused device still moves the tool."""


class SoftReturn:
    """A controller in realtime that bounds the wrench on the tool after a gap, in which the device may have moved.

    Args:
        core: the controller.
        wrench_limit: of the device [N, N m].
        rate: of the servo [Hz].
        endless: whether a gap at the start counts, too, as in a graph that only runs.
    """

    def __init__(self, core: Controller, wrench_limit: Gains, rate: float, endless: bool = False):
        parameters = getattr(core, "parameters", None)
        scale = getattr(parameters, "scale", np.ones(6))  # of the tool's motions; its wrenches have 1 / scale
        self._passes, self._none = hasattr(core, "passed") or hasattr(type(core), "passed"), np.zeros(6)
        limit = np.array(six(wrench_limit))
        self._limit = np.where(limit > 0.0, limit, np.repeat(LEAST, 3)) / scale
        self._speed, self._calm = np.array(SPEED) * scale[[0, 3]], max(1, round(CALM * rate))
        self._core, self._most, self._part = core, self._limit.copy(), np.zeros(6)
        self._until, self._has_begun = 0, endless
        self.configure, self.command = core.configure, core.command

    @property
    def remembers(self) -> bool:
        """Whether what it commands depends on more than the states that it is given."""
        return self._core.remembers or self._until > 0

    def warm_up(self, sizes: ToolSizes) -> None:
        """Call every kernel once, so that none is loaded during a trial."""
        tool, self._until = sizes.tool_state(), 1
        self.coordinate(DeviceState(), tool, ToolCommand())
        self.command(tool, DeviceCommand())

    def coordinate(self, device: DeviceState, tool: ToolState, command: ToolCommand) -> None:
        """Fill the tool's command of the device's tick from both states at t_k."""
        core, tick = self._core, device.tick
        core.coordinate(device, tool, command)
        if device.reason not in GAPS:
            self._has_begun = True
        elif self._has_begun:
            if tick >= self._until:
                self._most[:] = self._limit + np.abs(_weight(tool))
            self._until = tick + self._calm
        if tick < self._until:
            passed = core.passed if self._passes else self._none  # type: ignore[attr-defined]  # what has it, says so
            if _bound(command.wrench, passed, tool.twist, self._most, self._speed, self._part):
                self._until = tick + self._calm


def _weight(tool: ToolState) -> np.ndarray:
    """The wrench that keeps a tool from accelerating (6,) [N, N m]."""
    mobility = tool.inverse_inertia.reshape(6, 6)
    return np.linalg.pinv(mobility, 1e-9, hermitian=True) @ tool.free_acceleration


@kernel
def _bound(wrench, passed, twist, limit, speed, part):
    """Bound a wrench on the tool, less what is `passed` on of the operator's, in place; whether that changed it."""
    changed = False
    for i in range(6):
        part[i] = wrench[i] - passed[i]
        if abs(part[i]) > limit[i]:
            part[i] = math.copysign(limit[i], part[i])
            changed = True
    for k in range(2):
        changed |= limit_driving_part(part, twist, 3 * k, speed[k])
    if changed:
        for i in range(6):
            wrench[i] = passed[i] + part[i]
    return changed


@kernel
def limit_driving_part(wrench, twist, first, limit):
    """Take away the part of three components of a wrench along a velocity beyond the limit; whether there was one."""
    squared, along = 0.0, 0.0
    for i in range(first, first + 3):
        squared += twist[i] * twist[i]
        along += twist[i] * wrench[i]
    if not (math.sqrt(squared) > limit and along > 0.0):
        return False
    for i in range(first, first + 3):
        wrench[i] -= along / squared * twist[i]
    return True
