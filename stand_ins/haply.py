"""A stand-in for Haply's Inverse service 3.5, stricter than the real one.

Its messages are those of Haply's documentation of the service (WebSocket protocol, control commands, events channel)
and of public clients: on connection the whole inventory, then exactly one state for each message of the client; a
command holds for its message, and silence makes a device idle; the events' port takes no message.

As a program it prints its ports, then executes one JSON array [method, arguments...] a line and prints the answer.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from stand_ins import Fault

LARGEST_FORCE = 50.0  # [N] more than any device of the vendor gives: another unit is meant
KINDS = ("inverse3", "verse_grip", "wireless_verse_grip", "custom_verse_grip")
AXES = ("x", "y", "z")
TURNS_ABOUT = (0.6, 0.0, 0.8)  # the hand that swings


class Service:
    """The service with `devices` Inverse3, each with a wireless grip.

    Args:
        devices: how many.
        spellings: of the force in a force command that it understands; others are ignored, as unknown keys are.
        idle: silence after which a device is idle [s].
        old: whether the messages are those of 3.4: no session_id, `mode` for `control_mode`, no `status` of grips.

    Attributes:
        idle: see there.
        port, events_port: of the two channels on this machine.
        misuse: the first, empty as long as there is none.
    """

    def __init__(
        self, devices: int = 1, spellings: tuple[str, ...] = ("vector", "values"), idle: float = 0.1, old: bool = False
    ):
        self._spellings, self.idle, self._old = spellings, idle, old
        self.devices = [_Inverse3(f"{0x049D + index:04X}", f"{61548 + index}") for index in range(devices)]
        self.misuse, self.port, self.events_port = "", 0, 0
        self._session, self._listening, self._cut = 0, set[ServerConnection](), False
        self._connected = set[ServerConnection]()
        self._garbled = ""
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="fake Inverse service", daemon=True)
        self._thread.start()
        started.wait()

    def _run(self, started: threading.Event) -> None:
        async def open_ports() -> list[Server]:
            options: dict[str, Any] = {"compression": None, "ping_interval": None}
            servers = [
                await serve(self._simulate, "127.0.0.1", 0, **options),
                await serve(self._serve_events, "127.0.0.1", 0, **options),
            ]
            self.port, self.events_port = (server.sockets[0].getsockname()[1] for server in servers)
            return servers

        servers = self._loop.run_until_complete(open_ports())
        self._loop.call_later(0.005, self._watch)
        started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._end(servers))
        self._loop.close()

    async def _end(self, servers: list[Server]) -> None:
        for server in servers:
            server.close()
        for server in servers:
            await server.wait_closed()

    def close(self) -> None:
        """End the service."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @property
    def url(self) -> str:
        """Of the simulation channel."""
        return f"ws://127.0.0.1:{self.port}"

    @property
    def events_url(self) -> str:
        """Of the events channel."""
        return f"ws://127.0.0.1:{self.events_port}"

    def set_state(self, index: int, **values: Any) -> None:
        """Set what a device measures: position, velocity (3,), orientation of the grip (x, y, z, w), buttons, ready."""
        for name, value in values.items():
            assert hasattr(self.devices[index], name), name
            setattr(self.devices[index], name, value)

    def echo(self, index: int, gain: float) -> None:
        """Put the hand where the force is, `gain` times that along y, the base's x."""
        self.devices[index].echo = gain

    def swing(self, index: int, sway: Sequence[float], turning: float, pace: float) -> None:
        """Let the hand swing about where it was put, as sin(pace t); amplitudes `sway` (3,) [m], `turning` [rad]."""
        device = self.devices[index]
        device.sway, device.turning, device.pace = list(sway), turning, pace

    def mistake(
        self, index: int, field: str, change: Callable[[Any], Any] = lambda told: told, late: float = 0.0
    ) -> None:
        """Tell a field wrongly, and all others rightly, until the device is back.

        Args:
            index: of the device.
            field: cursor_position, cursor_velocity, orientation, buttons or status.
            change: what is told instead of it.
            late: [s] by which it is that of an earlier instant.
        """
        self.devices[index].mistakes = {field: (change, late)}

    def fault(self, index: int, kind: int, value: float = 1.0) -> float:
        """Make a device do what it should not, from its next answer on; returns the time before that [s]."""
        device, now = self.devices[index], time.monotonic()
        if kind == Fault.GONE:
            device.force_to(0.0, 0.0, 0.0)
            device.present = False
            self._event("device-disconnected", "warning", device)
        else:
            device.faults[Fault(kind)] = value
        return now

    def back(self, index: int) -> None:
        """End all faults of a device; one that was gone is there again."""
        device = self.devices[index]
        device.faults, device.mistakes = dict.fromkeys(Fault, 0.0), {}
        if not device.present:
            device.present = True
            self._event("device-connected", "notice", device)

    def cut(self, cut: bool = True) -> None:
        """Break all connections, and accept none until told otherwise."""
        self._cut = cut
        if cut:
            self._do(self._break())

    def garble(self, text: str) -> None:
        """Answer with a text instead of the state, until it is empty."""
        self._garbled = text

    def send_event(self, text: str) -> None:
        """Send a text on the channel of events."""
        self._do(self._send_event(text))

    def do(self, what: Callable[[], None]) -> None:
        """Do something in the service's thread, which answers nothing meanwhile."""
        self._loop.call_soon_threadsafe(what)

    def told(self, index: int) -> dict[str, Any]:
        """What a device was told last: force (3,) [N]; times [s]: changed, zero; messages; silences; misuse of all."""
        device = self.devices[index]
        return {
            "force": list(device.force),
            "changed": device.changed,
            "zero": device.zero,
            "messages": device.messages,
            "messages_at_zero": device.messages_at_zero,
            "silences": device.silences,
            "misuse": self.misuse,
        }

    def _do(self, work: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(5.0)

    async def _break(self) -> None:
        for connection in list(self._connected):
            connection.transport.abort()

    def _fail(self, misuse: str) -> None:
        self.misuse = self.misuse or misuse

    def _watch(self) -> None:
        """Devices without a message are idle."""
        now = time.monotonic()
        for device in self.devices:
            if any(device.force) and now - device.heard > self.idle:
                device.silences += 1
                device.force_to(0.0, 0.0, 0.0)
            elif now - device.heard > self.idle:
                device.mode = "idle"
        self._loop.call_later(0.005, self._watch)

    def _event(self, name: str, level: str, device: _Inverse3) -> None:
        event = {"name": name, "category": "device", "level": level, "data": {"device_id": device.id}, "message": ""}
        self._do(self._send_event(json.dumps(event)))

    async def _send_event(self, text: str) -> None:
        for connection in list(self._listening):
            await connection.send(text)

    async def _serve_events(self, connection: ServerConnection) -> None:
        self._listening.add(connection)
        try:
            async for _ in connection:
                self._fail("a message on the channel of events, which is read-only")
        except ConnectionClosed:
            pass
        finally:
            self._listening.discard(connection)

    async def _simulate(self, connection: ServerConnection) -> None:
        if self._cut:
            connection.transport.abort()
            return
        self._session += 1
        self._connected.add(connection)
        driven: set[_Inverse3] = set()
        answers: asyncio.Queue[float] = asyncio.Queue()  # how late each is [s]
        answering = asyncio.create_task(self._answer(connection, answers))
        try:
            await connection.send(self._state(full=True))
            async for message in connection:
                driven |= self._take(message)
                if any(device.faults[Fault.MUTE] for device in driven):
                    continue
                answers.put_nowait(self._lateness())
                twice = next((device for device in driven if device.faults[Fault.TWICE] > 0), None)
                if twice is not None:
                    twice.faults[Fault.TWICE] -= 1
                    answers.put_nowait(0.0)
        except ConnectionClosed:
            pass
        finally:
            answering.cancel()
            self._connected.discard(connection)
            for device in driven:
                device.force_to(0.0, 0.0, 0.0)  # a session that ends leaves its devices idle

    async def _answer(self, connection: ServerConnection, answers: asyncio.Queue[float]) -> None:
        """Send states in the order of the messages; commands are taken meanwhile."""
        while True:
            late = await answers.get()
            if late:
                await asyncio.sleep(late)
            try:
                await connection.send(self._garbled or self._state())
            except ConnectionClosed:
                return

    def _lateness(self) -> float:
        late = max(device.faults[Fault.LATE] for device in self.devices)
        for device in self.devices:
            device.faults[Fault.LATE] = 0.0
        return late

    def _take(self, message: str | bytes) -> set[_Inverse3]:
        """Apply a message of the client; the devices that it drives."""
        driven: set[_Inverse3] = set()
        try:
            content = json.loads(message)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            self._fail(f"not an object of JSON: {message!r:.80}")
            return driven
        if unknown := set(content) - {"session", *KINDS}:
            self._fail(f"unknown keys: {', '.join(sorted(unknown))}")
        for entry in content.get("inverse3", []):
            device = next((one for one in self.devices if one.id == entry.get("device_id")), None)
            if device is None:
                self._fail(f"no Inverse3 {entry.get('device_id')!r}")
                continue
            device.heard = time.monotonic()
            device.messages += 1
            driven.add(device)
            if device.present:
                self._command(device, entry.get("commands", {}))
        return driven

    def _command(self, device: _Inverse3, commands: dict[str, Any]) -> None:
        if set(commands) == {"probe_position"} and commands["probe_position"] == {}:
            device.force_to(0.0, 0.0, 0.0)  # commands do not persist
            device.mode = "idle"
            return
        if set(commands) != {"set_cursor_force"}:
            self._fail(f"commands {', '.join(commands) or 'none'}: one of probe_position and set_cursor_force")
            return
        given = commands["set_cursor_force"]
        if len(given) != 1 or not set(given) <= {"vector", "values"}:
            self._fail(f"set_cursor_force with {', '.join(given) or 'nothing'}: one of vector and values")
            return
        (spelling, force) = next(iter(given.items()))
        if set(force) != set(AXES) or not all(isinstance(force[axis], float) for axis in AXES):
            self._fail(f"set_cursor_force.{spelling} = {force}: must have numbers x, y, z")
            return
        if not all(math.isfinite(force[axis]) and abs(force[axis]) <= LARGEST_FORCE for axis in AXES):
            self._fail(f"set_cursor_force.{spelling} = {force}: not in N")
            return
        if not device.ready and any(force.values()) and not any(device.force):  # one that goes on ends when it is told
            self._fail(f"a force for {device.id}, which is not calibrated")
        if spelling in self._spellings:
            device.mode = "force"
            device.force_to(*(force[axis] for axis in AXES))

    def _state(self, full: bool = False) -> str:
        present = [device for device in self.devices if device.present]
        state: dict[str, Any] = {} if self._old else {"session_id": self._session}
        state["inverse3"] = [device.state(full, self._old) for device in present]
        state["verse_grip"] = []
        state["wireless_verse_grip"] = [device.grip(full, self._old) for device in present]
        return json.dumps(state)


class _Inverse3:
    """A device and the wireless grip on it, in the vendor's axes and units."""

    def __init__(self, id: str, grip: str):
        self.id, self._grip = id, grip
        self.position, self.velocity = [0.0, -0.12, 0.15], [0.0, 0.0, 0.0]
        self.orientation, self.buttons = [0.0, 0.0, 0.0, 1.0], {"a": False, "b": False, "c": False}
        self.ready, self.present, self.awake = True, True, True
        self.force, self.mode = [0.0, 0.0, 0.0], "idle"
        self.heard = self.changed = self.zero = 0.0
        self.messages = self.messages_at_zero = self.silences = 0
        self.echo = 0.0  # [m/N]
        self.sway, self.turning, self.pace = [0.0, 0.0, 0.0], 0.0, 0.0
        self.mistakes: dict[str, tuple[Callable[[Any], Any], float]] = {}
        self.faults = dict.fromkeys(Fault, 0.0)

    def force_to(self, *force: float) -> None:
        if list(force) != self.force:
            self.changed = time.monotonic()
            if not any(force):
                self.zero, self.messages_at_zero = self.changed, self.messages
        self.force = list(force)

    def _told(self, field: str, of: Callable[[float, float], Any]) -> Any:
        """What is told of a field; `of` its value at a sine of the motion and at the derivative of that [1/s]."""
        change, late = self.mistakes.get(field, (lambda told: told, 0.0))
        phase = self.pace * (time.monotonic() - late)
        return change(of(math.sin(phase), self.pace * math.cos(phase)))

    def _turned(self, angle: float) -> list[float]:
        """The orientation turned about TURNS_ABOUT (4,), x y z w."""
        s, w = math.sin(0.5 * angle), math.cos(0.5 * angle)
        x, y, z = (s * part for part in TURNS_ABOUT)
        a, b, c, d = self.orientation
        return [
            w * a + d * x + y * c - z * b,
            w * b + d * y + z * a - x * c,
            w * c + d * z + x * b - y * a,
            w * d - x * a - y * b - z * c,
        ]

    def state(self, full: bool, old: bool) -> dict[str, Any]:
        """Its part of a message; the next faults are in it."""
        if self.echo:
            self.position[1] = self.echo * self.force[1]
        position = list(self.position)
        position[0] += self.faults[Fault.JUMP]
        if self.faults[Fault.NOT_FINITE] > 0:
            self.faults[Fault.NOT_FINITE] -= 1
            position[1] = math.nan
        position = self._told(
            "cursor_position", lambda along, _: [x + along * by for x, by in zip(position, self.sway, strict=True)]
        )
        velocity = self._told(
            "cursor_velocity", lambda _, rate: [v + rate * by for v, by in zip(self.velocity, self.sway, strict=True)]
        )
        content: dict[str, Any] = {
            "device_id": self.id,
            "state": {
                "cursor_position": dict(zip(AXES, position, strict=True)),
                "cursor_velocity": dict(zip(AXES, velocity, strict=True)),
                "angular_position": {"a0": -69.3, "a1": 137.6, "a2": 19.8},
                "angular_velocity": {"a0": 0.0, "a1": 0.0, "a2": 0.0},
                "body_orientation": {"w": 1.0, "x": 0.0, "y": 0.0, "z": 0.0},
                "current_cursor_force": dict(zip(AXES, self.force, strict=True)),
                ("mode" if old else "control_mode"): self.mode,
            },
            "status": self._told(
                "status",
                lambda *_: {
                    "calibrated": self.ready,
                    "in_use": True,
                    "power_supply": True,
                    "ready": self.ready,
                    "started": True,
                },
            ),
        }
        if full:
            content["config"] = {
                "type": "inverse3",
                "port": "COM12",
                "handedness": "right",
                "gravity_compensation": {"enabled": True, "scaling_factor": 1.0},
                "preset": "defaults",
                "basis": {"permutation": "XYZ"},
            }
        return content

    def grip(self, full: bool, old: bool) -> dict[str, Any]:
        """Its grip's part of a message."""
        orientation = self._told("orientation", lambda along, _: self._turned(self.turning * along))
        content: dict[str, Any] = {
            "device_id": self._grip,
            "state": {
                "orientation": dict(zip(("x", "y", "z", "w"), orientation, strict=True)),
                "buttons": self._told("buttons", lambda *_: dict(self.buttons)),
                "hall": 0,
                "battery_level": 0.9,
            },
        }
        if not old:
            content["status"] = {"ready": self.ready, "connected": True, "awake": self.awake}
        if full:
            content["config"] = {"type": "wireless_verse_grip", "port": "COM3"}
        return content


def main() -> None:
    """Serve until the standard input ends."""
    arguments: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    service = Service(**arguments)
    print(json.dumps([service.port, service.events_port]), flush=True)
    for line in sys.stdin:
        method, *given = json.loads(line)
        keywords = given.pop() if given and isinstance(given[-1], dict) else {}
        print(json.dumps(getattr(service, method)(*given, **keywords)), flush=True)
    service.close()


if __name__ == "__main__":
    main()
