"""A channel of messages with delay, jitter and loss, all random by a seed."""

from __future__ import annotations

import heapq

import numpy as np

from haptic_control.relay.parameters import RelayParameters
from haptic_sim.random_numbers import stream, uniform


class Channel:
    """One direction of a relay: the newest message that has arrived, of all that were sent.

    Whether a message is lost, and how long it takes, depends on its tick and the seed alone. A message that is
    overtaken by a newer one is of no use any more.

    Args:
        parameters: with a delay.
        rate: of the servo [Hz].
        direction: the name of its stream of random numbers.
        held: time until which a message is held that arrives earlier [s].
        realtime: delays are times, which end with the nearest tick; else they are whole ticks.
    """

    def __init__(
        self, parameters: RelayParameters, rate: float, direction: str, realtime: bool = False, held: float = 0.0
    ):
        assert parameters.delay is not None
        self._seed = np.uint64(stream(parameters.seed, f"relay.{direction}"))
        self._unit = 1e9 if realtime else rate  # nanoseconds or ticks in a second
        self._delay, self._jitter, self._loss = parameters.delay, parameters.jitter, parameters.loss
        self._held = held
        self._realtime = realtime
        self._early = round(0.5e9 / rate) if realtime else 0  # the clock's jitter shall not decide between two ticks
        self._in_transit: list[tuple[int, int, bytes]] = []  # when they arrive, their ticks and contents: a heap
        self._newest = -1  # tick of the newest that has arrived

    def put(self, tick: int, time: int, data: bytes) -> None:
        """Send the message of a tick, stamped with `time` [ns]."""
        if self._loss > 0.0 and uniform(self._seed, 2 * tick) < self._loss:
            return
        delay = self._delay
        if self._jitter > 0.0:
            delay += self._jitter * uniform(self._seed, 2 * tick + 1)
        delay = max(delay, self._held)
        due = (time if self._realtime else tick) + round(delay * self._unit)
        heapq.heappush(self._in_transit, (due, tick, data))

    def take(self, tick: int, time: int) -> bytes | None:
        """The newest message that has arrived by a tick, stamped with `time` [ns]; None: none since the last call."""
        now = time + self._early if self._realtime else tick
        newest = None
        while self._in_transit and self._in_transit[0][0] <= now:
            _, sent, data = heapq.heappop(self._in_transit)
            if sent > self._newest:
                self._newest, newest = sent, data
        return newest
