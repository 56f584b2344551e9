"""Frames of a running trial, from the latest message of each topic."""

from __future__ import annotations

import numpy as np

from haptic_sim.messages import (
    CONSTRAINT,
    CONTACT,
    REASONS,
    DeviceState,
    LocalGeometry,
    MessageError,
    ToolCommand,
    ToolSizes,
    ToolState,
    WorldState,
    topic_of,
)
from haptic_view.frame import (
    LATENCY,
    OF_OPERATOR,
    ON_HAND,
    ON_TOOL,
    PENETRATION,
    Frame,
    Hand,
    Sources,
    chart_values,
    deepest,
    energy_values,
    size_of,
    slides,
)
from haptic_view.scene import Scene
from haptic_view.strips import Extremes

CONTACT_CAPACITY = 256  # contacts of a world state at first


class LiveFrames:
    """Keeps the latest messages of a trial, and makes frames of them.

    Args:
        scene: what there is to draw of it.
        sizes: of the virtual tool's messages.
        sources: what it publishes.
    """

    def __init__(self, scene: Scene, sizes: ToolSizes, sources: Sources):
        self._scene, self._sources = scene, sources
        self._names = tuple(hand.name for hand in scene.hands)
        self._tools: dict[str, ToolState] = {name: sizes.tool_state() for name in self._names}
        self._devices = {name: DeviceState() for name in self._names if sources.device}
        self._command = ToolCommand()
        self._world: WorldState | None = None
        self._geometry: LocalGeometry | None = None
        self.reset()

    def reset(self) -> None:
        """Forget all messages: another trial begins."""
        self._taken: set[str] = set()
        self._extremes = Extremes()

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics whose messages are used, in the trial's namespace."""
        names = [topic_of(hand, "tool_state") for hand in self._names]
        names += [topic_of(hand, "device_state") for hand in self._devices]
        names += [] if self._sources.device else ["tool_command"]
        names += ["local_geometry"] if self._sources.local_model else []
        names += ["world_state"] if self._sources.world else []
        return tuple(names)

    @property
    def charted(self) -> tuple[str, ...]:
        """Topics of which every message counts, as the charts have the extremes of their values."""
        return tuple(topic for topic in self.topics if "/" not in topic and topic != "local_geometry")

    @property
    def tick(self) -> int | None:
        """Tick of the frame that can be made; None before the first."""
        return self._tools[""].tick if "tool_state" in self._taken else None

    @property
    def impulse(self) -> np.ndarray:
        """Impulse of the contacts on the first hand's tool since the start of the trial, in the world [N s], (3,)."""
        return self._tools[""].impulse[:3]

    def take(self, topic: str, data: bytes) -> None:
        """Take a message.

        Raises:
            MessageError: it is not of this trial, or not finite.
        """
        hand, _, kind = topic.rpartition("/")
        if kind == "world_state":
            self._world = _loaded_world(self._world, data)
            message: WorldState | LocalGeometry | ToolState | DeviceState | ToolCommand = self._world
        elif kind == "local_geometry":
            capacity = len(data) // CONSTRAINT.itemsize + 1
            message = self._geometry = LocalGeometry.of_layout(data, capacity)
            message.load(data)
        else:
            message = self._command
            if kind == "tool_state":
                message = self._tools[hand]
            elif kind == "device_state":
                message = self._devices[hand]
            message.load(data)
        if not message.is_finite():
            raise MessageError(f"{topic}: not finite")
        self._taken.add(topic)
        if not hand:
            self._note(kind)

    def _note(self, kind: str) -> None:
        """Note for the charts what the latest message of a kind says of the first hand."""
        if kind == "tool_state":
            tool = self._tools[""]
            self._extremes.note({ON_TOOL: size_of(tool.wrench), **energy_values(tool.energy.tolist())})
        elif kind == "device_state":
            device = self._devices[""]
            values = {ON_HAND: size_of(device.rendered_wrench), OF_OPERATOR: size_of(device.operator_wrench)}
            if device.command_tick >= 0:
                values[LATENCY] = (device.tick - device.command_tick) / self._scene.rate
            self._extremes.note(values)
        elif kind == "tool_command":
            self._extremes.note({OF_OPERATOR: size_of(self._command.wrench)})
        elif kind == "world_state" and self._world is not None:
            self._extremes.note({PENETRATION: deepest(self._world.contacts[: len(self._world)])})

    def frame(self) -> Frame | None:
        """The scene as the latest messages say, with the extremes since the last frame; None before the first."""
        if "tool_state" not in self._taken:
            return None
        tool, rate, scene = self._tools[""], self._scene.rate, self._scene
        hands = tuple(self._hand(name) for name in self._names)
        world = self._world if "world_state" in self._taken else None
        device = self._devices.get("") if "device_state" in self._taken else None
        latency = age = None
        if device is not None and device.command_tick >= 0:
            latency = (device.tick - device.command_tick) / rate
        if tool.geometry_tick >= 0:
            age = (tool.tick - tool.geometry_tick) / rate
        contacts = np.zeros(0, CONTACT) if world is None else world.contacts[: len(world)].copy()
        values = chart_values(hands, None if world is None else contacts, tool.energy, latency, age)
        geometry = self._geometry if "local_geometry" in self._taken else None
        constraints = np.zeros(0, CONSTRAINT) if geometry is None else geometry.constraints[: len(geometry)].copy()
        if world is None:
            poses, sliding = scene.from_configuration(tool.q), np.zeros(0, bool)
        else:
            poses = scene.place(world.poses.copy(), world.q.copy())
            sliding = slides(contacts, world.poses, world.twists)
        extremes = self._extremes.take()
        return Frame(tool.tick, tool.tick / rate, poses, hands, contacts, sliding, constraints, values, extremes)

    def _hand(self, name: str) -> Hand:
        """A hand as its latest messages say."""
        tool = self._tools[name]
        pose, wrench = tool.pose.copy(), tool.wrench.copy()
        if topic_of(name, "device_state") in self._taken:
            device = self._devices[name]
            rendered, operator = device.rendered_wrench.copy(), device.operator_wrench.copy()
            return Hand(pose, wrench, device.pose.copy(), rendered, operator, REASONS.get(device.reason, ""))
        if "tool_command" not in self._taken:
            return Hand(pose, wrench)
        return Hand(pose, wrench, operator=self._command.wrench.copy(), dragged=self._command.body)


def _loaded_world(layout: WorldState | None, data: bytes) -> WorldState:
    """A world state from its bytes; the layout is used again as long as it has room."""
    if layout is None or layout.capacity < len(data):
        layout = WorldState.of_layout(data, max(CONTACT_CAPACITY, 2 * len(data) // CONTACT.itemsize))
    layout.load(data)
    return layout
