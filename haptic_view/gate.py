"""Access control of a page and of its pointer: the address has a random token, and no other site's page may connect.

viser lets in whoever reaches its port. So its server (`guarded_server.py`) listens on a port of the loopback that
nobody is told, and takes only the connections that this gate makes. The gate listens where the page is to be, and
reads the head of each request: the token in its path, the host that it names (a site can give its own name the address
of this machine, after which a browser takes it for that site), and for a WebSocket the page that asks (`Origin`). All
else is answered by 403.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import ipaddress
import secrets
import socket
from urllib.parse import urlsplit

LOOPBACK = "127.0.0.1"
LONGEST = 16384  # bytes of the head of a request
PATIENCE = 10.0  # [s] for the head to come
PIECE = 65536  # bytes that are handed on at once
ANSWER = b"haptics: open the page by the whole address that was printed\n"
REFUSAL = b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (
    len(ANSWER),
    ANSWER,
)


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
        copies = [asyncio.create_task(_copy(reader, requests)), asyncio.create_task(_copy(answers, writer))]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)
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
        if method != "GET" or not equal(token, self._token) or len(hosts) != 1 or not self._is_here(hosts[0]):
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


def equal(given: str, expected: str) -> bool:
    """Whether two texts are the same, in a time that does not depend on how much of them is."""
    return secrets.compare_digest(given.encode(errors="replace"), expected.encode())
