"""A body of a program's own MuJoCo simulation, in the hand of its user."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from haptic_sim.contact.methods import Method
from haptic_sim.contact.response import UNLIMITED, ContactParameters
from haptic_sim.messages import ToolCommand, ToolState, tick_time
from haptic_sim.parameters import ParameterError
from haptic_sim.tool.local_model import FullParameters, LocalModelContext, LocalModelParameters
from haptic_sim.tool.mujoco_surroundings import MujocoSurroundings
from haptic_sim.worlds.mujoco_files import find_tool
from haptic_sim.worlds.mujoco_meshes import sampled_meshes
from haptic_sim.worlds.parameters import MujocoParameters


class HapticTool:
    """A local model of a body of MuJoCo: the program goes on to step its simulation, and the hand feels it at 1 kHz.

        tool = HapticTool(model, data, "stylus")
        while True:
            for _ in range(20):
                state = tool.advance(wrench)  # the hand's; the servo loop, at `rate`
            tool.synchronise()
            mujoco.mj_step(model, data)  # of 20 ms

    `advance` and `synchronise` may be called by two threads. `state.wrench` is what the hand feels.

    Args:
        model, data: MuJoCo's. `qfrc_applied` of the tool is set; gaps, damping, springs and dry friction of the tool
            in the model are changed.
        tool: name of the body.
        hold: hold point in its axes [m], or the name of a site; its centre of mass if left out.
        rate: of `advance` [Hz].
        contact: stiffness and damping of what is felt, restitution and friction model.
        method: of contact.
        local_model: as of an experiment.
        following: w of a `Follower` [1/s]; at most half the rate of `synchronise`.

    Raises:
        ParameterError: the tool is not there, fixed, or has what a local model does not render.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        tool: str,
        *,
        hold: tuple[float, float, float] | str | None = None,
        rate: float = 1000.0,
        contact: ContactParameters | None = None,
        method: Method = "penalty",
        local_model: LocalModelParameters | None = None,
        following: float = 50.0,
    ):
        contact = contact or ContactParameters()
        local_model = local_model or FullParameters()
        meshes = sampled_meshes(model)
        tree = find_tool(model, data, MujocoParameters(file="", tool=tool, hold=hold), prefix="", meshes=meshes)
        self._surroundings = MujocoSurroundings(
            model,
            data,
            tree,
            epsilon=local_model.epsilon,
            rate=rate,
            following=following,
            restitution=contact.restitution,
            meshes=meshes,
        )
        period = float(model.opt.timestep)
        self._model = local_model.build(LocalModelContext(tree.world, contact, method, UNLIMITED, rate, period))
        self.state = self._model.tool_state()
        self._command, self._rate = ToolCommand(), rate
        self._data, self._period, self._time = data, period, float(data.time)
        self._q, self._v, self._before = self.state.q.copy(), self.state.v.copy(), self.state.v.copy()
        self._impulse, self._felt = np.zeros(6), np.zeros(6)  # as of the last `synchronise`, and mean wrench since then
        self._place, self._tick = self.state.pose[:3].copy(), -1  # of its state
        self._found, self._known = self._surroundings.local_geometry(), self._surroundings.local_geometry()
        self._fresh = False
        self._lock = threading.Lock()  # of `state` and `_known`
        self.synchronise()

    def synchronise(self) -> None:
        """Tell the local model what surrounds MuJoCo's tool, and let that follow the hand's; once or so a step."""
        now, surroundings = float(self._data.time), self._surroundings
        period = now - self._time if now > self._time else self._period
        self._time = now
        with self._lock:
            tick = self.state.tick + 1
            self._q[:], self._v[:] = self.state.q, self.state.v
            self._felt[:] = (self.state.impulse - self._impulse) * self._rate / max(tick - 1 - self._tick, 1)
            self._impulse[:], self._tick = self.state.impulse, tick - 1
            self._place[:] = self.state.pose[:3]
        surroundings.report(self._found, surroundings.felt())
        surroundings.push(self._q, self._v, (self._v - self._before) / period, self._felt, self._place, period)
        self._before[:] = self._v
        self._found.stamp(tick, tick_time(tick, self._rate))
        self._found.step += 1
        with self._lock:
            self._known.load(self._found)
            self._fresh = True

    def advance(self, wrench: ArrayLike) -> ToolState:
        """Advance the hand's tool by 1/rate.

        Args:
            wrench: of the hand on the tool at the hold point, world axes [N, N m], (6,).

        Returns:
            `state`, the same message each time.

        Raises:
            ParameterError: the wrench is not six finite numbers.
            UnstableError: see `VirtualTool.step`.
        """
        given = np.asarray(wrench, float)
        if given.shape != (6,) or not np.isfinite(given).all():
            raise ParameterError([f"wrench = {given.tolist()}: must be six finite numbers: force [N], torque [N m]"])
        with self._lock:
            tick = self.state.tick + 1
            if self._fresh:
                self._model.update(self._known, tick)
                self._fresh = False
            self._command.stamp(tick, tick_time(tick, self._rate))
            self._command.wrench[:] = given
            self._model.step(self._command, self.state)
        return self.state
