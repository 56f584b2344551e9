"""Who may open a page and steer by it: whoever has its address, in which a random token is, and no other site's page.

viser lets in whoever reaches its port. So its server listens on a port of the loopback that nobody is told, and takes
only the connections that this gate makes. The gate listens where the page is to be, and reads the head of each request:
the token in its path, the host that it names (a site can give its own name the address of this machine, after which a
browser takes it for that site), and for a WebSocket the page that asks (`Origin`). All else is answered by 403.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import ipaddress
import secrets
import socket
from typing import Any
from urllib.parse import urlsplit

import viser
from viser import _messages as messages
from viser.infra import WebsockClientConnection

LOOPBACK = "127.0.0.1"
LONGEST = 16384  # bytes of the head of a request
PATIENCE = 10.0  # [s] for the head to come
STOP = 2.0  # [s] for connections to end
PIECE = 65536  # bytes that are handed on at once
SAID = b"haptics: open the page by the whole address that was printed\n"
REFUSAL = b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (
    len(SAID),
    SAID,
)
PASSED = "X-Haptics-Gate"  # header of what the gate has let through
USED = frozenset(
    {
        messages.GuiUpdateMessage,
        messages.CommandTriggerMessage,
        messages.SceneNodeDragMessage,
        messages.ViewerCameraMessage,
    }
)
"""Messages of browsers that our pages use; others, such as that for a public tunnel or for uploads, are ignored."""


class GuardedServer(viser.ViserServer):
    """viser's server behind a gate.

    Args:
        host, port: where the page is to be; the port is free.

    Attributes:
        token: that is in the address of the page.
    """

    def __init__(self, host: str, port: int):
        super().__init__(host=LOOPBACK, port=0, verbose=False)
        self.token, self._passed = secrets.token_urlsafe(18), secrets.token_urlsafe(18)
        sockets = self._websock_server
        sockets.on_client_connect(self._check)
        sockets.disconnect_all_clients()  # who has found the port since it was opened
        _keep_used(sockets)
        self._gate = Gate(host, port, self.token, self.get_port(), f"{PASSED}: {self._passed}")
        asyncio.run_coroutine_threadsafe(self._gate.open(), self.get_event_loop()).result()

    def request_share_url(self, verbose: bool = True) -> str | None:
        """No page of ours has a public address."""
        return None

    async def _check(self, client: WebsockClientConnection) -> None:
        """End a connection that has not come through the gate, before anything is sent to it or taken from it."""
        _keep_used(client)
        sockets = self._websock_server
        connection = sockets._live_connections[client.client_id]
        given = connection.request.headers.get_all(PASSED) if connection.request is not None else []
        if len(given) == 1 and _equal(given[0], self._passed):
            return
        sockets._live_connections.pop(client.client_id)
        sockets._client_state_from_id.pop(client.client_id)
        connection.transport.abort()
        raise asyncio.CancelledError

    def stop(self) -> None:
        """End the page."""
        loop = self.get_event_loop()
        if loop.is_running():
            asyncio.run_coroutine_threadsafe(self._gate.close(), loop).result(STOP)
        super().stop()


class Gate:
    """Hands connections with the token on to a server on the loopback.

    Args:
        host, port: where it listens.
        token: first part of the path of each request.
        behind: port of the server.
        mark: header that the server knows its requests by.
    """

    def __init__(self, host: str, port: int, token: str, behind: int, mark: str):
        self._host, self._port, self._token, self._behind, self._mark = host, port, token, behind, mark
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, self._host, self._port, limit=LONGEST)

    async def close(self) -> None:
        """End all connections, and listen no more."""
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a browser, from its request to its end."""
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                try:
                    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
                except asyncio.LimitOverrunError:
                    head = b""
                passed = self.passed(head)
                if passed is None:
                    writer.write(REFUSAL)
                    await writer.drain()
                else:
                    await self._join(passed, reader, writer)
        finally:
            writer.close()

    async def _join(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand on both ways until one ends."""
        answers, requests = await asyncio.open_connection(LOOPBACK, self._behind)
        requests.write(head)
        ways = [asyncio.create_task(_copy(reader, requests)), asyncio.create_task(_copy(answers, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            requests.close()

    def passed(self, head: bytes) -> bytes | None:
        """The head of a request as the server behind gets it; None if it is refused."""
        try:
            line, _, rest = head.partition(b"\r\n")
            method, target, version = line.decode("ascii").split(" ")
            headers = http.client.parse_headers(io.BytesIO(rest))
        except (ValueError, http.client.HTTPException):
            return None
        path, _, query = target.partition("?")
        _, token, *more = path.split("/", 2) if path.startswith("/") else ("", "")
        hosts, origins = headers.get_all("Host", []), headers.get_all("Origin", [])
        if method != "GET" or not _equal(token, self._token) or len(hosts) != 1 or not self._is_here(hosts[0]):
            return None
        if headers.get("Upgrade") is not None and origins != [f"http://{hosts[0]}"]:
            return None
        target = f"/{''.join(more)}" + (f"?{query}" if query else "")
        return f"{method} {target} {version}\r\n{self._mark}\r\n".encode() + rest

    def _is_here(self, name: str) -> bool:
        """Whether a host that a request names is this machine, and not the name of a site that points to it."""
        try:
            host = urlsplit(f"//{name}").hostname or ""
        except ValueError:
            return False
        open_to_others = not ipaddress.ip_address(self._host).is_loopback
        if host == "localhost" or (open_to_others and host == socket.gethostname().lower()):
            return True
        with contextlib.suppress(ValueError):
            address = ipaddress.ip_address(host)
            return open_to_others or address.is_loopback
        return False


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()


def _equal(given: str, expected: str) -> bool:
    """Whether two texts are the same, in a time that does not tell how much of them is."""
    return secrets.compare_digest(given.encode(errors="replace"), expected.encode())


def _keep_used(connection: Any) -> None:
    """Take out the handlers of the messages that our pages do not use."""
    for kind in set(connection._incoming_handlers) - USED:
        connection.unregister_handler(kind)
