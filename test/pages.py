"""Pages of views in the process of a test, and clients of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from haptic_bench import experiment
from haptic_bench.experiment.shown import build_scene
from haptic_view.page import Page, free_port


def load(name: str, *settings: str) -> experiment.Trial:
    (trial,) = experiment.load(name, list(settings))
    return trial


def port_of_own() -> int:
    """A free port that no other test run takes at the same time: the system gives each its own."""
    return free_port("127.0.0.1", 0)


@contextlib.contextmanager
def page_of(name: str) -> Iterator[tuple[Page, str]]:
    """The page of an experiment in this process, and its address."""
    pytest.importorskip("viser")
    page = Page(build_scene(load(name)), port=port_of_own())
    try:
        yield page, page.address
    finally:
        page.stop()


def client(address: str) -> Any:
    """A WebSocket of a page, as a browser makes it that has opened the address."""
    import viser
    from websockets.sync.client import connect

    origin = f"http://{urlsplit(address).netloc}"
    protocol = f"viser-v{viser.__version__}"
    return connect(address.replace("http", "ws"), origin=origin, subprotocols=[protocol], max_size=None)  # type: ignore[arg-type, list-item]
