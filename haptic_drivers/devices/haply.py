"""Haply Inverse3 with a VerseGrip, over the vendor's Inverse service 3.5 (messages of 3.1 to 3.4 are understood too).

The service is a program of the vendor that owns the device's serial port and offers a WebSocket. On connection it sends
the inventory of all devices, then exactly one state for each message of its client: the client sets the pace. A command
holds for its message only, and a device without messages is idle. A second WebSocket tells events.

So a thread sends the newest command as soon as it is there, or a period after the last message, and waits for the
answer; `read` and `write` wait for nothing. Where an answer is late, one message without a force follows: the service
may be deaf or only mute, and the device is idle in both cases.

Lengths are in m, velocities in m/s, forces in N, x right, y forward, z up; quaternions have named components. Haply
gives no torques, and no angular velocity: that is of the grip's orientations.

Sources: the vendor's documentation of the Inverse SDK 3.5 (pages WebSocket Protocol, Simulation Channel, Control
Commands, Device Configuration, Sessions, Events Channel, Migrating to 3.5), in which a force is spelled "vector";
IsaacLab (se3_haply.py), sawHaplyService and haply_ros2_interface, in which it is spelled "values".
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import socket
import threading
import time
from typing import Any, Literal

import numpy as np

from haptic_drivers.devices.exchange import Exchange, Exchanging
from haptic_drivers.devices.interface import DeviceError
from haptic_drivers.devices.parameters import HardwareParameters
from haptic_drivers.readings import LAG
from haptic_sim.errors import HapticsError
from haptic_sim.parameters import Parameters, quantity

AXES = np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]])  # R_BV: the vendor's x is right, y forward, z up
# Of the reading watchdog: an answer that takes longer is followed by a message without force. The stand-in answers in
# 0.3 ms; when a machine without real-time priority stalls, 0.3 % of the answers are late, with 0.5 as many.
LATE = 0.3
IGNORED = 50  # answers in a row that say "idle", though a force was sent, after which the force is spelled wrongly
TIMEOUT = 2.0  # [s] of the connection


class Connection(Parameters):
    """Addresses of the service, and identifiers of the device and its grip."""

    url: str = quantity("ws://localhost:10001", description="The service's simulation channel")
    events: str = quantity(
        "ws://localhost:10020", description="The service's events channel; empty: events are not read"
    )
    device: str = quantity("", description="Identifier of the Inverse3, as 049D; empty: the only one")
    grip: str = quantity("", description="Identifier of its VerseGrip; empty: the only one; none: there is no grip")
    spelling: Literal["vector", "values"] = quantity(
        "vector", description="Key of the force in a command: vector in the documentation, values in public clients"
    )
    rate: float = quantity(
        1000.0, unit="Hz", description="Rate at which the service is asked for the state at least", gt=0.0, le=8000.0
    )
    smoothing: float = quantity(
        0.005,
        unit="s",
        description="Time constant of the angular velocity, which is that of orientations",
        ge=0.0,
        le=LAG,
    )


def build(device: HardwareParameters, connection: Connection) -> Haply:
    """The driver of a Haply Inverse3; nothing is connected yet."""
    return Haply(device, connection)


class Haply(Exchanging):
    """A Haply Inverse3, as `Hardware`, by the service of its vendor."""

    def __init__(self, device: HardwareParameters, connection: Connection):
        self._parameters, self._connection = device, connection
        self._exchange = self._new_exchange()
        self._channel: Channel | None = None
        self._events: Channel | None = None
        self._wake, self._ends = -1, False
        self._pose, self._velocity = np.zeros(7), np.zeros(3)

    def _new_exchange(self) -> Exchange:
        return Exchange(self._parameters.watchdog, self._connection.smoothing)

    def open(self) -> None:
        """Connect to the service, and find the device in its inventory.

        Raises:
            DeviceError: there is no service or no device.
        """
        self.close()
        self._check_thread(self._parameters.name)
        url = self._connection.url
        try:
            self._channel = Channel(url)
            inventory = _content(self._channel.wait_for_text())
        except (OSError, ValueError, ChannelError) as error:
            self.close()
            raise DeviceError(
                f"{self._parameters.name}: Haply Inverse service: {url}: {error}; install and start the Haply Hub, or "
                "the service haply-inverse-service"
            ) from error
        try:
            self._device = self._choose(inventory, ("inverse3",), self._connection.device, "Inverse3")
            self._grip = "" if self._connection.grip == "none" else self._grip_of(inventory)
        except DeviceError:
            self.close()
            raise
        except (AttributeError, KeyError, TypeError) as error:
            self.close()
            raise DeviceError(
                f"{self._parameters.name}: Haply Inverse service: {url}: an inventory that is not understood: {error!r}"
            ) from error
        if self._connection.events:
            try:
                self._events = Channel(self._connection.events)
            except (OSError, ChannelError) as error:
                self.close()
                raise DeviceError(
                    f"{self._parameters.name}: events of the Haply Inverse service: {self._connection.events}: "
                    f"{error}; leave connection.events empty to do without"
                ) from error
        self._exchange = self._new_exchange()
        self._wake, self._ends = os.eventfd(0, os.EFD_NONBLOCK), False
        self._thread = threading.Thread(target=self._run, name="Haply Inverse service", daemon=True)
        self._thread.start()
        if problem := self._exchange.wait("Haply Inverse service", TIMEOUT):
            self.close()
            raise DeviceError(f"{self._parameters.name}: {problem}")

    def _choose(self, inventory: dict[str, Any], kinds: tuple[str, ...], wanted: str, title: str) -> str:
        found = [entry["device_id"] for kind in kinds for entry in inventory.get(kind) or []]
        if wanted in found:
            return wanted
        if not wanted and len(found) == 1:
            return str(found[0])
        shown = ", ".join(found) or "none"
        raise DeviceError(
            f"{self._parameters.name}: Haply Inverse service: {title} {wanted or 'of any identifier'}: found {shown}; "
            + (
                "plug it in and calibrate it"
                if not found
                else f"name one in connection.{'grip' if len(kinds) > 1 else 'device'}"
            )
        )

    def _grip_of(self, inventory: dict[str, Any]) -> str:
        kinds = ("verse_grip", "custom_verse_grip", "wireless_verse_grip")
        if not self._connection.grip and not any(inventory.get(kind) for kind in kinds):
            return ""
        return self._choose(inventory, kinds, self._connection.grip, "VerseGrip")

    def identity(self) -> str:
        """Identifiers of the device and of its grip, as the service has them."""
        return f"Inverse3 {self._device}, " + (f"VerseGrip {self._grip}" if self._grip else "no VerseGrip")

    def disable(self) -> None:
        """Zero force: the messages that follow command none."""
        super().disable()
        self._ring()

    def write(self, wrench: np.ndarray) -> None:
        """Render the force of a wrench (6,) [N, N m] on the hand in the axes of the base; its torque is left out."""
        super().write(wrench)
        self._ring()

    def close(self) -> None:
        """Zero force, and let go of library or port; also after an error, or if it is not open. Raises nothing."""
        if self._thread is not None:
            self._exchange.enabled, self._ends = False, True
            self._ring()
            self._end_thread(TIMEOUT)
        for channel in (self._channel, self._events):
            if channel is not None:
                channel.close()
        self._channel = self._events = None
        if self._wake >= 0:
            os.close(self._wake)
            self._wake = -1

    def _ring(self) -> None:
        """Wake the thread."""
        if self._wake >= 0:
            os.eventfd_write(self._wake, 1)

    def _run(self) -> None:
        """The thread: exchange messages until the device is closed, or something is wrong."""
        try:
            self._serve()
        except (OSError, ChannelError) as error:
            self._exchange.fail(f"Haply Inverse service: {error}")
        except Exception as error:  # of a message of any shape: the driver has to know that nothing is read any more
            self._exchange.fail(f"Haply Inverse service: a message that is not understood: {error!r}")
        finally:
            with contextlib.suppress(Exception):  # it may be gone: then its device is idle
                assert self._channel is not None
                self._send(self._channel, "{", None)

    def _serve(self) -> None:
        channel, events, exchange = self._channel, self._events, self._exchange
        assert channel is not None
        files = (channel.file, self._wake, *([events.file] if events else []))
        period, late = 1.0 / self._connection.rate, LATE * self._parameters.reading_watchdog
        waiting, was_late, sent, ignored = 0, False, 0.0, 0
        pressed = True  # send at once
        begin = json.dumps({"profile": {"name": "haptics"}, "basis": {"permutation": "XYZ"}})
        head = f'{{"session":{{"configure":{begin}}},'  # of the first message only
        while not self._ends:
            now = time.monotonic()
            if not waiting and (pressed or now - sent >= period):
                with exchange.sending():
                    force = exchange.follow()[:3] if exchange.enabled else None
                    pushes = self._send(channel, head, force)
                head, sent, waiting, was_late, pressed = "{", now, 1, False, False
            elif waiting and not was_late and now - sent >= late:
                self._send(channel, head, None)
                waiting, was_late = waiting + 1, True
            limit = (late if waiting else period) - (now - sent)
            # `poll` waits for whole milliseconds
            ready, _, _ = select.select(files, (), (), 0.1 if was_late else max(0.0, limit))
            for file in ready:
                if file == self._wake:
                    os.eventfd_read(self._wake)
                    pressed = True
                elif file == channel.file:
                    for text in channel.receive():
                        waiting = max(0, waiting - 1)
                        idle = self._take(_content(text))
                        ignored = ignored + 1 if idle and pushes and not was_late else 0
                elif events is not None:
                    self._take_events(events)
            if ignored >= IGNORED:
                raise ChannelError(
                    f"the device stays idle when a force is sent as {self._connection.spelling!r}; set "
                    "connection.spelling to the other one"
                )

    def _send(self, channel: Channel, head: str, force: np.ndarray | None) -> bool:
        """Send a force in the axes of the base (3,) [N], None: ask for the state only; whether there is a force."""
        if force is None or not np.isfinite(force).all():
            x = y = z = 0.0
            command = '"probe_position":{}'
        else:
            x, y, z = (float(one) for one in force @ AXES)
            command = f'"set_cursor_force":{{"{self._connection.spelling}":{{"x":{x!r},"y":{y!r},"z":{z!r}}}}}'
        channel.send(f'{head}"inverse3":[{{"device_id":"{self._device}","commands":{{{command}}}}}]}}')
        return bool(x or y or z)

    def _take(self, content: dict[str, Any]) -> bool:
        """Take a state; whether the device says that it is idle."""
        now = time.monotonic_ns()
        entry = next((one for one in content.get("inverse3") or [] if one["device_id"] == self._device), None)
        if entry is None:
            raise ChannelError(f"Inverse3 {self._device} is not connected any more")
        state, status = entry["state"], entry.get("status") or {}
        pose = self._pose
        pose[:3] = AXES @ _vector(state["cursor_position"])
        self._velocity[:] = AXES @ _vector(state["cursor_velocity"])
        buttons = self._take_grip(content)
        homed = status.get("calibrated", True)
        self._exchange.give(pose, self._velocity, (buttons, -1, int(homed)), now)
        return bool(state.get("control_mode", state.get("mode")) == "idle")

    def _take_grip(self, content: dict[str, Any]) -> int:
        """Take the orientation of the grip; its buttons, a bit each in the order of the data."""
        pose, buttons = self._pose, 0
        pose[3:] = 0.0, 0.0, 0.0, 1.0
        if not self._grip:
            return 0
        for kind in ("wireless_verse_grip", "verse_grip", "custom_verse_grip"):
            for entry in content.get(kind) or []:
                if entry["device_id"] != self._grip:
                    continue
                state = entry["state"]
                orientation = state["orientation"]
                # both frames get new names for their axes: that turns the vector of a quaternion, and nothing else
                pose[3:6] = AXES @ _vector(orientation)
                pose[6] = _number(orientation["w"])
                pressed = state.get("buttons") or {"a": state.get("button", False)}  # a wired grip has one
                for bit, name in enumerate(self._parameters.buttons):
                    buttons |= bool(pressed.get(name, False)) << bit
                return buttons
        raise ChannelError(f"VerseGrip {self._grip} is not connected any more")

    def _take_events(self, events: Channel) -> None:
        """Take events; one that says that the device cannot be used is a fault."""
        for text in events.receive():
            event = _content(text)
            name, level = event.get("name", ""), event.get("level", "")
            data = event.get("data") or {}
            if data.get("device_id", self._device) != self._device:
                continue
            if name == "device-disconnected" or level in ("error", "critical", "panic"):
                raise ChannelError(f"event {name} ({level}) {event.get('message', '')}".rstrip())


def _content(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ChannelError(f"a message that is not understood: {error}: {text:.80}") from error
    if not isinstance(content, dict):
        raise ChannelError(f"a message that is not understood: not an object: {text:.80}")
    return content


def _vector(named: dict[str, Any]) -> np.ndarray:
    """Components x, y, z."""
    return np.array([_number(named[axis]) for axis in ("x", "y", "z")])


def _number(value: Any) -> float:
    """A number; what is none, or infinite, or of hundreds of digits, becomes NaN, which the driver rejects."""
    if isinstance(value, float):
        return value if math.isfinite(value) else math.nan
    return float(value) if type(value) is int and abs(value) < 10**300 else math.nan


class ChannelError(HapticsError, RuntimeError):
    """A WebSocket that cannot be used any more."""


class Channel:
    """A WebSocket without threads: the protocol of the library `websockets`, on a socket of our own.

    Raises:
        OSError, ChannelError: there is nobody, or no WebSocket.
    """

    def __init__(self, url: str):
        try:
            from websockets.client import ClientProtocol
            from websockets.uri import parse_uri
        except ImportError as error:
            raise ChannelError("the Python package websockets is not installed: pip install 'websockets<17'") from error
        address = parse_uri(url)
        self._protocol = ClientProtocol(address, max_size=None)
        self._socket = socket.create_connection((address.host, address.port), TIMEOUT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._texts: list[str] = []
        self._parts: list[bytes] = []
        try:
            self._protocol.send_request(self._protocol.connect())
            self._flush()
            while self._protocol.state.name == "CONNECTING":
                self._read()
            if self._protocol.handshake_exc is not None:
                raise ChannelError(f"{self._protocol.handshake_exc}")
        except BaseException:
            self._socket.close()
            raise

    @property
    def file(self) -> int:
        """To be waited for."""
        return self._socket.fileno()

    def send(self, text: str) -> None:
        """Send a message."""
        self._protocol.send_text(text.encode())
        self._flush()

    def receive(self) -> list[str]:
        """The messages that have arrived; waits for a part of one at least."""
        self._read()
        texts, self._texts = self._texts, []
        return texts

    def wait_for_text(self) -> str:
        """The next message; waits for it."""
        while not self._texts:
            self._read()
        return self._texts.pop(0)

    def close(self) -> None:
        """Say goodbye, and close the socket; raises nothing."""
        try:
            self._protocol.send_close(1000)
            self._flush()
        except Exception:  # the connection is gone already
            pass
        self._socket.close()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._socket.sendall(data)

    def _read(self) -> None:
        from websockets.frames import Frame

        data = self._socket.recv(65536)
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
        self._flush()  # answers to pings
        for event in self._protocol.events_received():
            if not isinstance(event, Frame):
                continue  # the answer of the handshake
            if event.opcode.name in ("TEXT", "CONT"):
                self._parts.append(bytes(event.data))
                if event.fin:
                    self._texts.append(b"".join(self._parts).decode())
                    self._parts = []
            elif event.opcode.name == "CLOSE":
                raise ChannelError("it closed the connection")
        if not data:
            raise ChannelError("the connection is broken")
