"""The two ends of a relay.

In a tick the device's end sends a ForwardPacket for each DeviceState, and the world's end answers it with the
DeviceState that the controller gets; the DeviceCommand comes back as a BackwardPacket. The driver gets its command from
the device's end: in lockstep when that packet comes, in realtime at once, as the round trip may take longer
than a tick. All have the tick of the DeviceState, so that each tick has its answer; what they hold is of the newest
packet that has arrived through the channel.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from haptic_control.relay import ports
from haptic_control.relay.channel import Channel
from haptic_control.relay.parameters import RelayParameters
from haptic_control.stability import CoupledInertias
from haptic_sim.messages import FORCE, NOTHING, BackwardPacket, DeviceCommand, DeviceState, ForwardPacket, RelayPacket
from haptic_sim.packed import Packed
from haptic_sim.records import allocate

Guard = Literal["none", "passivity", "wave", "tank"]
_KINDS: dict[str, int] = {"none": ports.NONE, "passivity": ports.PASSIVITY, "wave": ports.WAVE, "tank": ports.TANK}


def build_port(
    relay: RelayParameters, guard: Guard, period: float, inertias: CoupledInertias | None = None
) -> ports.Port:
    """An end of a relay at rest, with its guard; `period` of the servo in s, `inertias` with the device's."""
    inertia = np.full(6, np.inf)
    if inertias is not None and inertias.device is not None:
        inertia[inertias.axes] = inertias.per_axis(inertias.device)
    wave, tank = relay.wave, relay.tank
    return allocate(
        ports.Port,
        guard=_KINDS[guard],
        period=period,
        impedance=np.array(wave.impedance),
        played=1.0 if wave.cutoff is None else -math.expm1(-2.0 * math.pi * wave.cutoff * period),
        correction=wave.correction if guard == "wave" else relay.correction,
        level=np.array(tank.level),
        capacity=np.array(tank.capacity),
        share=tank.share,
        damping=np.array(tank.damping),
        ledger=allocate(ports.Ledger),
        inertia=inertia,
    )


class _End:
    """Common part of both ends: a channel from the other end, and a port with its ledger."""

    def __init__(
        self, relay: RelayParameters, guard: Guard, rate: float, direction: str, realtime: bool, port: ports.Port
    ):
        held = relay.wave.play_out if guard == "wave" else None
        self._channel = Channel(relay, rate, direction, realtime, held or 0.0)
        self._port, self._ledger = Packed(port), port.ledger
        self._guarded = guard != "none"

    def take_packet(self, packet: RelayPacket) -> None:
        """Put a packet of the other end into the channel."""
        self._channel.put(packet.tick, packet.nanoseconds, packet.to_bytes())

    def _take(self, tick: int, time: int, content: RelayPacket) -> None:
        """Take into `content` what has arrived by a tick, stamped with `time` [ns]."""
        if (data := self._channel.take(tick, time)) is not None:
            content.load(data)
            ports.receive(self._port, content.paid, content.wave)

    def _write(self, packet: RelayPacket, tick: int, time: int, content_tick: int) -> None:
        """Fill in what the packets of both directions have."""
        packet.stamp(tick, time)
        packet.content_tick = content_tick
        ledger = self._ledger
        packet.wave[:] = ledger.wave
        packet.paid[:] = ledger.paid
        packet.absorbed[:] = ledger.absorbed
        packet.delivered[:] = ledger.delivered
        packet.dissipated[:] = ledger.dissipated
        packet.available[:] = ledger.available


class DeviceEnd(_End):
    """The device's end: renders what arrives.

    Args:
        relay: the channel, with a delay.
        guard: what keeps it passive.
        rate: of the servo [Hz].
        inertias: with that of the device, as far as it is known.
        realtime: whether delays are times, by the stamps of the messages, or ticks.
        watchdog: time without a packet after which nothing is commanded [s]; None: it is waited for, however long.

    Attributes:
        received_tick: tick of the newest packet that has come, whether or not the channel lets it arrive yet.
    """

    def __init__(
        self,
        relay: RelayParameters,
        guard: Guard,
        rate: float,
        inertias: CoupledInertias | None = None,
        realtime: bool = False,
        watchdog: float | None = None,
    ):
        super().__init__(relay, guard, rate, "backward", realtime, build_port(relay, guard, 1.0 / rate, inertias))
        self._patience = math.inf if watchdog is None else max(1, round(watchdog * rate))
        self._content = BackwardPacket()
        self._content.tick = self.received_tick = -1

    def warm_up(self) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""
        self.forward(DeviceState(), ForwardPacket())
        self.command(BackwardPacket(), DeviceCommand())

    def take_packet(self, packet: RelayPacket) -> None:
        """Put a packet of the other end into the channel."""
        super().take_packet(packet)
        self.received_tick = packet.tick

    def forward(self, state: DeviceState, packet: ForwardPacket) -> None:
        """Fill what crosses of a device's state."""
        ports.settle(self._port, state.pose, state.twist, state.operator_wrench, state.rendered_wrench)
        self._write(packet, state.tick, state.nanoseconds, self._content.tick)
        packet.pose[:] = state.pose
        packet.twist[:] = state.twist
        packet.state, packet.reason = state.state, state.reason
        # They would bring energy to the world that no account knows: with a guard the motion alone crosses.
        packet.operator_wrench[:] = 0.0 if self._guarded else state.operator_wrench
        packet.rendered_wrench[:] = 0.0 if self._guarded else state.rendered_wrench

    def command(self, packet: BackwardPacket, command: DeviceCommand) -> None:
        """Fill the device's command of the tick that a packet ends."""
        self.take_packet(packet)
        self._take(packet.tick, packet.nanoseconds, self._content)
        self._fill(packet.tick, packet.nanoseconds, command)

    def answer(self, state: DeviceState, packet: ForwardPacket, command: DeviceCommand) -> None:
        """Fill what crosses of a device's state, and at once the command of its tick, by what has arrived until then.

        Where the other end has been silent for longer than the watchdog allows, nothing is commanded.
        """
        self._take(state.tick, state.nanoseconds, self._content)
        self.forward(state, packet)
        self._fill(state.tick, state.nanoseconds, command)

    def _fill(self, tick: int, time: int, command: DeviceCommand) -> None:
        command.stamp(tick, time)
        command.device_tick = self.received_tick
        command.wrench[:] = 0.0
        command.mode = NOTHING if tick - self.received_tick > self._patience else FORCE
        if command.mode == FORCE:
            ports.command_wrench(self._port, self._content.wrench, command.wrench)


class WorldEnd(_End):
    """The world's end: moves what the controller couples the tool to.

    Args: as of `DeviceEnd`, without inertias, and
        pose: (7,) that the controller is shown until something arrives [m, quat_xyzw].
    """

    def __init__(self, relay: RelayParameters, guard: Guard, rate: float, pose: Any, realtime: bool = False):
        super().__init__(relay, guard, rate, "forward", realtime, build_port(relay, guard, 1.0 / rate))
        self._content = ForwardPacket()
        self._content.tick = self._tick = -1
        self._pose, self._period = np.array(pose, float), 1.0 / rate
        self._content.pose[:] = self._pose
        self._wrench = np.zeros(6)

    def warm_up(self) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""
        packet = ForwardPacket()
        packet.pose[:] = self._pose
        self.state(packet, DeviceState())
        self.backward(DeviceCommand(), BackwardPacket())

    def state(self, packet: ForwardPacket, state: DeviceState) -> None:
        """Fill the device's state that the controller gets in the tick of a packet."""
        content = self._content
        self.take_packet(packet)
        self._take(packet.tick, packet.nanoseconds, content)
        self._tick = packet.tick
        ports.move(self._port, self._wrench, content.pose, content.twist, self._pose, state.twist)
        state.stamp(packet.tick, packet.nanoseconds)
        state.pose[:] = self._pose
        state.operator_wrench[:] = content.operator_wrench
        state.rendered_wrench[:] = content.rendered_wrench
        state.command_tick, state.reading_tick = -1, content.tick
        state.reading_age = (packet.tick - content.tick) * self._period
        state.state, state.reason = content.state, content.reason

    def backward(self, command: DeviceCommand, packet: BackwardPacket) -> None:
        """Fill what crosses of a device's command."""
        self._wrench[:] = command.wrench
        self._write(packet, command.tick, command.nanoseconds, self._content.tick)
        packet.state_tick = self._tick
        packet.wrench[:] = command.wrench
