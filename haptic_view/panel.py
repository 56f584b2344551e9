"""A page in the browser without a scene: a panel with texts, fields and buttons, behind the gate of every page."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from haptic_view.page import BLUE, HOST, require_viser

WIDTH = 620  # of the panel
WITHOUT_SETTINGS = '<style>.mantine-ActionIcon-root[data-variant="subtle"] {display: none}</style>'
"""Hides viser's own settings and list of the scene, which a panel has no use for; an option for it is missing."""


def panel_server(port: int, title: str) -> Any:
    """viser's server with a panel and without a scene.

    Args:
        port: where it is served on this machine; it is free.
        title: of the panel.

    Raises:
        ParameterError: viser is missing.
    """
    require_viser()
    from haptic_view.guarded_server import GuardedServer  # imports viser

    with contextlib.redirect_stdout(io.StringIO()):  # it says where it is; so do we
        server = GuardedServer(HOST, port)
    server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=BLUE)
    server.gui.set_panel_label(title[:60])
    server.gui.main_panel.set_width(WIDTH)
    return server


def address_of(server: Any, port: int) -> str:
    """Address to open in a browser; whoever has it may do what the page offers."""
    return f"http://{HOST}:{port}/{server.token}"
