"""A world in the browser, while a program advances it."""

from __future__ import annotations

import time
from types import TracebackType

from haptic_sim.parameters import ParameterError
from haptic_sim.simulation import World
from haptic_view.controls import describe
from haptic_view.film import RATE, frame_of
from haptic_view.page import HOST, Page, free_port
from haptic_view.scene import scene_of_model

LATE = 0.2  # [s] that a program may be late and catch up


class Viewer:
    """Shows a world on a page in the browser while a program advances it.

        with Viewer(world) as viewer:
            print(viewer.address)  # to open in a browser
            while world.time < 10.0:
                world.step()
                viewer.update()

    Args:
        world: that is advanced.
        title: of the page.
        speed: seconds of the world in a second, for which `update` waits; None: it never waits.
        host, port: where the page is served; without a port the first that is free.

    Attributes:
        address: of the page.

    Raises:
        ParameterError: the port is taken, or the speed is not positive.
    """

    def __init__(
        self,
        world: World,
        title: str = "World",
        *,
        speed: float | None = 1.0,
        host: str = HOST,
        port: int | None = None,
    ):
        if speed is not None and not speed > 0.0:
            raise ParameterError([f"speed = {speed}: must be > 0, or None"])
        self._world, self._speed = world, speed
        self._names = tuple(world.start.moving)
        self._page = Page(scene_of_model(world.model, title), host, free_port(host, port))
        self.address = self._page.address
        self._drawn = -1.0
        self._begin()
        self.update()

    def update(self) -> None:
        """Show the world as it is, at most 60 times a second; first wait until it is time for that."""
        ahead = (self._world.time - self._from) / self._speed - (time.monotonic() - self._at) if self._speed else 0.0
        if ahead < -LATE or self._world.time < self._from:
            self._begin()  # the program took its time, or went back
        elif ahead > 0.0:
            time.sleep(ahead)
        if time.monotonic() >= self._drawn + 1.0 / RATE:
            frame = frame_of(self._world, self._names, round(self._world.time * self._world.rate) - 1)
            self._page.show(frame)
            self._page.show_state(describe(frame))
            self._drawn = time.monotonic()

    def _begin(self) -> None:
        """Count from now on."""
        self._from, self._at = self._world.time, time.monotonic()

    def close(self) -> None:
        """End the page."""
        self._page.stop()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
