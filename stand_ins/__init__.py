"""Stand-ins for devices and their vendors' software, for tests, benchmarks and a first look at a driver; not installed.

Each keeps to the vendor's published interface more strictly than the real one: the first misuse is kept as a text, in
`misuse`. Each can be late, jump, say NaN, answer twice, fall silent, vanish and come back (`Fault`), and be older.
"""

from __future__ import annotations

from enum import IntEnum


class Fault(IntEnum):
    """What a stand-in can be told to do; the numbers are those of the two libraries in C."""

    LATE = 0  # [s] the next answer
    JUMP = 1  # positions are off by this along the vendor's x [m, mm], until they are 0 or the device is back
    NOT_FINITE = 2  # so many positions
    TWICE = 3  # so many answers
    MUTE = 4  # no answers any more, while forces are still taken
    GONE = 5  # the device is unplugged
