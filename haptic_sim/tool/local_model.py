"""The local model of interaction: the proxy of the virtual tool with the contacts of the last update (THESIS 6).

Each LocalConstraint is a plane that a point of the proxy may not cross (THESIS 6.1, 6.3). Between updates the planes
move with their normal velocity. An update never deepens a penetration: the point is moved inwards by an offset that
keeps it (THESIS 6.4, local proxy deformation), and the offset shrinks while the constraint is inactive.
"""

from __future__ import annotations

from typing import Literal

import numba
import numpy as np
import pinocchio as pin

from haptic_sim.contact.response import ContactParameters, Method, Rendering
from haptic_sim.contact_rows import CAPACITY
from haptic_sim.messages import LocalGeometry, MessageError, ToolCommand, ToolState
from haptic_sim.parameters import Parameters, quantity
from haptic_sim.tool.virtual_tool import VirtualTool
from haptic_sim.worlds.building import World


class LocalModelParameters(Parameters):
    """The local model of interaction."""

    type: Literal["none", "full"] = quantity("none", description="none: the environment answers at the servo rate")
    epsilon: float = quantity(
        0.005, unit="m", description="Constraints nearer than this are in the local model", ge=0.0, le=1.0
    )


class LocalModel:
    """The proxy at the servo rate; takes the arguments of a synchronous environment."""

    def __init__(
        self,
        world: World,
        contact: ContactParameters,
        method: Method,
        rendering: Rendering,
        wrench_limit: np.ndarray,
        rate: float,
    ):
        self._tool = VirtualTool(world, contact, method, rendering, wrench_limit, rate)
        self.tool_state, self.observer = self._tool.tool_state, self._tool.observer
        self.configure = self._tool.configure
        model, data = self._tool.body.model, self._tool.body.data
        self._surveyed = model.createData()
        # Pinocchio's Python arrays are views: they follow its data without being asked for again.
        self._placements = [(data.oMi[i].rotation, data.oMi[i].translation) for i in range(model.njoints)]
        self._links: list[int] = []  # of the constraints
        self._R_WL, self._p_WL = np.zeros((model.njoints, 3, 3)), np.zeros((model.njoints, 3))  # where these are [m]
        self._plane = np.zeros((CAPACITY, 3))  # point on the plane at the update [m]
        self._local = np.zeros((CAPACITY, 3))  # contact point in the axes of its link [m]
        self._offset = np.zeros(CAPACITY)  # deformation of the proxy [m]
        self._previous_ids = np.zeros(CAPACITY, np.int64)  # of the constraints before an update
        self._previous = np.zeros(CAPACITY)  # their separations [m]
        self._age = 0  # ticks since the surveyed state
        self._geometry_tick = -1

    def rehearse(self) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""
        state = self.tool_state()
        geometry = LocalGeometry(q=state.q.size, v=state.v.size, constraints=1)
        geometry.resize(1)
        geometry.q[:] = state.q
        geometry.constraints["link"][0], geometry.constraints["normal"][0] = self._tool.body.hand_joint, (1, 0, 0)
        self.update(geometry, 0)
        self.step(ToolCommand(), state)
        self._tool.rehearse()

    def update(self, geometry: LocalGeometry, tick: int) -> None:
        """Take the surroundings of an update; to be called before `step` of `tick`.

        Raises:
            MessageError: a constraint is on no link of the tool, or its normal is no unit vector; the surroundings
                stay as they were.
        """
        for constraint in geometry.constraints[: len(geometry)]:
            link, length = constraint["link"], float(np.linalg.norm(constraint["normal"]))
            if not 0 < link < self._tool.body.model.njoints:
                raise MessageError(
                    f"local_geometry {geometry.tick}: link = {link}: must be 1 to {self._tool.body.model.njoints - 1}"
                )
            if not abs(length - 1.0) < 1e-6:
                raise MessageError(f"local_geometry {geometry.tick}: |normal| = {length:g}: must be 1")
        rows = self._tool.rows
        self._place()  # where the old constraints are now
        old = rows.count
        self._previous_ids[:old] = rows.id[:old]
        self._previous[:old] = rows.separation[:old]

        n = len(geometry)
        constraints = geometry.constraints
        rows.count = n
        rows.id[:n], rows.wall[:n] = constraints["id"][:n], constraints["body"][:n]
        rows.body[:n, 1] = constraints["link"][:n]
        rows.friction[:n, 0] = constraints["friction_static"][:n]
        rows.friction[:n, 1] = constraints["friction_kinetic"][:n]
        rows.normal[:n], rows.velocity[:n] = constraints["normal"][:n], constraints["normal_velocity"][:n]
        self._plane[:n] = constraints["position"][:n]
        corner = constraints["position"][:n] + constraints["separation"][:n, None] * constraints["normal"][:n]
        links = rows.body[:n, 1]
        self._links = np.unique(links).tolist()
        pin.forwardKinematics(self._tool.body.model, self._surveyed, geometry.q)
        for link in self._links:  # THESIS (6.1), in the surveyed configuration
            placement, its = self._surveyed.oMi[link], links == link
            self._local[:n][its] = (corner[its] - placement.translation) @ placement.rotation
        self._offset[:n] = 0.0
        self._geometry_tick = geometry.tick
        self._age = tick - geometry.tick
        self._place()
        _keep_penetration(n, rows.id, rows.separation, self._offset, old, self._previous_ids, self._previous)

    def prepare(self) -> None:
        """As `Environment.prepare`: an update may come in between, so that nothing is done ahead."""

    def step(self, command: ToolCommand, state: ToolState) -> None:
        """Answer the command of a tick with the state after it."""
        self._place()
        _expand(self._tool.rows.count, self._tool.rows.separation, self._offset)
        self._tool.step(command, state, self._geometry_tick)
        self._age += 1

    def _place(self) -> None:
        rows = self._tool.rows
        for link in self._links:
            self._R_WL[link], self._p_WL[link] = self._placements[link]
        _locate(
            rows.count,
            self._R_WL,
            self._p_WL,
            rows.body,
            self._plane,
            self._local,
            self._age * self._tool.period,
            self._offset,
            rows.normal,
            rows.velocity,
            rows.point,
            rows.separation,
        )


@numba.njit(cache=True, nogil=True)
def _locate(count, R_WL, p_WL, body, plane, local, age, offset, normal, velocity, point, separation):
    """Fill point and separation of each row for the present places of the proxy's links, THESIS (6.3)."""
    for m in range(count):
        link = body[m, 1]
        s = offset[m] - velocity[m] * age
        for i in range(3):
            x = p_WL[link, i]
            for j in range(3):
                x += R_WL[link, i, j] * local[m, j]
            point[m, i] = x
            s += normal[m, i] * (x - plane[m, i])
        separation[m] = s


@numba.njit(cache=True, nogil=True)
def _keep_penetration(count, ids, separation, offset, old_count, old_ids, old_separation):
    """Offset the rows so that none is deeper than before the update; a new one starts at the surface."""
    for m in range(count):
        before = 0.0
        for k in range(old_count):
            if old_ids[k] == ids[m]:
                before = min(old_separation[k], 0.0)
                break
        if separation[m] < before:
            offset[m] += before - separation[m]
            separation[m] = before


@numba.njit(cache=True, nogil=True)
def _expand(count, separation, offset):
    """Give an inactive constraint back as much of its offset as keeps it inactive."""
    for m in range(count):
        if separation[m] > 0.0 and offset[m] > 0.0:
            back = min(separation[m], offset[m])
            offset[m] -= back
            separation[m] -= back
