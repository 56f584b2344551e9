"""viser's server behind a gate; all that is used of viser beyond its documented interface (tested: viser 1.1.1).

- `_websock_server` and the connections in it. Reason: viser reports a connection after it has accepted it, and offers
  no way to refuse it. Superfluous when viser asks whether a request is to be accepted, or listens on a given socket.
- The handlers of messages and the kinds of `viser._messages`. Reason: some messages of a browser do more than our
  pages need, as opening a tunnel to the internet. Superfluous when these can be switched off.

Both are objects of this server alone: nothing of viser is replaced for other programs.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import viser
from viser import _messages as messages
from viser.infra import WebsockClientConnection

from haptic_view.gate import LOOPBACK, Gate, equal

STOP = 2.0  # [s] for connections to end
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
        if len(given) == 1 and equal(given[0], self._passed):
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


def _keep_used(connection: Any) -> None:
    """Take out the handlers of the messages that our pages do not use."""
    for kind in set(connection._incoming_handlers) - USED:
        connection.unregister_handler(kind)
