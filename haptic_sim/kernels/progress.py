"""Progress messages during the compilation of kernels."""

from __future__ import annotations

import time
from collections.abc import Callable

NOTIFY_PERIOD = 10.0  # [s]

Report = Callable[[int, str], object]
report: Report | None = None
"""Called before and after each kernel that is compiled: how many have been by this process, and the kernel's name."""


class Progress:
    """A `report` that says now and then how far compilation is."""

    def __init__(self, notify: Callable[[str], object]):
        self._notify = notify
        self._next = 0.0

    def __call__(self, compiled: int, name: str) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + NOTIFY_PERIOD
            self._notify(f"compiling kernels, which is done once and can take minutes: {compiled} so far")
