"""The hand on a page: drags and keys in the browser become the events of an operator that is a pointer.

A drag pulls the point of the hand, or of another body, at which it began: in the plane of the screen; with Shift held
towards the camera and away from it; with Ctrl (Cmd) held it turns the body. Arrow keys and page up and down move the
hand in steps, with Shift they turn it, and Escape lets go. Who leaves the page lets go, too.
"""

from __future__ import annotations

import math
import time
from types import MappingProxyType
from typing import Any

import numpy as np

from haptic_drivers.events import Bodies
from haptic_drivers.pointing import REPEATED, Sender
from haptic_sim.messages import HAND
from haptic_sim.rotations import matrices
from haptic_sim.spatial import advance_pose
from haptic_view.page import Page, node

SPRING = (20, 20, 20)  # colour of the line from the grabbed point to the pointer
STEP, TURN = 0.04, math.radians(5.0)  # of a key: part of the scene's size, angle
KEYS_LEFT = 3.0  # [s] after the last key the hand is let go
HELP = (
    "drag {what} to pull it; **Shift**: towards you and away; **Ctrl**: turn it.  \n"
    "arrow keys, page up and down: move the hand; with **Shift**: turn it; **Esc**: let go"
)
# key, modifier -> label, axes of the screen (right, up, away), whether it turns about them
KEYS: dict[tuple[str, str | None], tuple[str, tuple[float, float, float], bool]] = {
    ("arrowright", None): ("hand: right", (1, 0, 0), False),
    ("arrowleft", None): ("hand: left", (-1, 0, 0), False),
    ("arrowup", None): ("hand: up", (0, 1, 0), False),
    ("arrowdown", None): ("hand: down", (0, -1, 0), False),
    ("pageup", None): ("hand: away", (0, 0, 1), False),
    ("pagedown", None): ("hand: nearer", (0, 0, -1), False),
    ("arrowright", "shift"): ("hand: turn right", (0, 1, 0), True),
    ("arrowleft", "shift"): ("hand: turn left", (0, -1, 0), True),
    ("arrowup", "shift"): ("hand: turn up", (-1, 0, 0), True),
    ("arrowdown", "shift"): ("hand: turn down", (1, 0, 0), True),
    ("pageup", "shift"): ("hand: turn clockwise", (0, 0, 1), True),
    ("pagedown", "shift"): ("hand: turn counter-clockwise", (0, 0, -1), True),
}


class Pointer:
    """Drags and keys on a page.

    Args:
        page: whose first hand is dragged.
        sender: of the events.
        oriented: whether a drag holds the orientation, at first.
        bodies: that can be dragged beside the hand.
    """

    def __init__(self, page: Page, sender: Sender, *, oriented: bool, bodies: Bodies = MappingProxyType({})):
        self._page, self._sender = page, sender
        self._client = -1  # who drags
        self._start = np.zeros(3)  # of the drag, in the world
        self._screen = np.eye(3)  # right, up and away, in the world
        self._pose = np.array([0.0, 0, 0, 0, 0, 0, 1])  # of the keys
        self._key = self._sign = -math.inf  # times of the last key and the last sign
        server = page.server
        with page.trial, server.gui.add_folder("Pointer"):
            self._oriented = server.gui.add_checkbox("hold the orientation", oriented)
            server.gui.add_markdown(HELP.format(what="anything that moves" if bodies else "the hand"))
        self.attach(bodies)
        for (key, modifier), (label, axes, turns) in KEYS.items():
            command = server.gui.add_command(label, hotkey=key, modifier=modifier)
            command.on_trigger(self._step_of(np.array(axes, float), turns))
        server.gui.add_command("hand: let go", hotkey="escape").on_trigger(self._escape)
        server.on_client_disconnect(self._leave)

    def attach(self, bodies: Bodies = MappingProxyType({})) -> None:
        """Let the bodies be dragged that the page shows now: at first, and after it has changed its scene."""
        page, server = self._page, self._page.server
        self._line = server.scene.add_line_segments(
            "/pointer", np.zeros((1, 2, 3)), SPRING, thickness=0.01 * page.scene.size, visible=False
        )
        hand = page.scene.hands[0]
        places = {
            f"/bodies/{node(name)}": (page.bodies[name], i) for i, (name, moves) in enumerate(bodies.items()) if moves
        }
        places[f"/bodies/{node(page.scene.bodies[hand.body])}"] = page.tools[hand.name], HAND
        places[f"/hands/{node(hand.name) or 'hand'}/device"] = page.devices[hand.name], HAND
        for name, mesh in page.meshes.items():
            place = name.rpartition("/")[0]
            if place in places:
                for modifier in (None, "shift", "cmd/ctrl"):
                    mesh.on_drag("left", modifier=modifier)(self._drag_of(*places[place]))

    def _drag_of(self, handle: Any, body: int) -> Any:
        """Reaction to a drag of a body, whose axes viser has under a handle."""

        async def drag(event: Any) -> None:
            if event.phase == "start":
                self._begin(event, handle, body)
            elif event.client_id == self._client:
                if event.phase == "update":
                    self._follow(event)
                else:
                    self.release()

        return drag

    def _begin(self, event: Any, handle: Any, body: int) -> None:
        if self._client != -1:
            return  # somebody else drags
        start = np.array(event.start_position, float)
        if not np.isfinite(start).all():
            return
        R = matrices(np.roll(np.asarray(handle.wxyz, float), -1)[None])[0]
        self._client, self._start, self._key = event.client_id, start, -math.inf
        self._screen = self._axes(event.client)
        oriented = bool(self._oriented.value) or event.modifier == "cmd/ctrl"
        point = R.T @ (start - np.asarray(handle.position, float))
        if oriented and body == HAND:
            point[:] = 0.0  # a light hand would be turned by a force beside its origin, and all its points move alike
        self._sender.grab(point, oriented=oriented, body=body)
        self._follow(event)

    def _follow(self, event: Any) -> None:
        moved = np.array(event.end_position, float) - self._start
        pose = np.array([0.0, 0, 0, 0, 0, 0, 1])
        right, up, away = self._screen
        size = self._page.scene.size
        if event.modifier == "shift":
            pose[:3] = moved @ up * away
        elif event.modifier == "cmd/ctrl":
            rotation = -away * (moved @ right) if self._page.scene.planar else np.cross(moved, away)
            advance_pose(np.concatenate([np.zeros(3), 2.0 / size * rotation]), 1.0, pose)
        else:
            pose[:3] = moved
        self._sender.move(pose)
        self._sign = time.monotonic()
        self._line.points = np.array([[event.start_position, self._start + pose[:3]]], np.float32)
        self._line.visible = True

    def _axes(self, client: Any) -> np.ndarray:
        """Right, up and away of a client's camera, in the world (3, 3)."""
        camera = client.camera
        R = matrices(np.roll(np.asarray(camera.wxyz, float), -1)[None])[0]  # axes of OpenCV: right, down, away
        return np.array([R[:, 0], -R[:, 1], R[:, 2]])

    def _step_of(self, axes: np.ndarray, turns: bool) -> Any:
        async def step(event: Any) -> None:
            if self._client not in (-1, event.client_id) or (self._client != -1 and self._key == -math.inf):
                return  # somebody else holds, or drags
            if self._client == -1:
                self._client, self._pose[:] = event.client_id, (0, 0, 0, 0, 0, 0, 1)
                self._sender.grab(oriented=bool(self._oriented.value) or turns)
            step = axes @ self._axes(event.client)
            if turns:
                advance_pose(np.concatenate([np.zeros(3), TURN * step]), 1.0, self._pose)
            else:
                self._pose[:3] += STEP * self._page.scene.size * step
            self._sender.move(self._pose)
            self._key = self._sign = time.monotonic()

        return step

    async def _escape(self, event: Any) -> None:
        if event.client_id == self._client:
            self.release()

    async def _leave(self, client: Any) -> None:
        if client.client_id == self._client:
            self.release()

    def release(self) -> None:
        """Let go, whoever holds."""
        self._client, self._key = -1, -math.inf
        self._line.visible = False
        self._sender.release()

    def repeat(self) -> None:
        """A sign of whoever holds; to be called often."""
        now = time.monotonic()
        if self._key > -math.inf and now > self._key + KEYS_LEFT:
            self.release()
        elif now > self._sign + REPEATED:
            self._sign = now
            self._sender.repeat()
