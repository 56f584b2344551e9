"""Two hosts on one machine: network namespaces that are joined by a cable, which loses what it is told to."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator, Mapping
from typing import NamedTuple

ADDRESSES = {"device": "10.47.0.1", "world": "10.47.0.2"}
PATIENCE = 20.0  # [s] for `ip` and `tc`, which answer at once
LOSSES = ("both ways", "from the device", "from the world", "cable")
"""Losses of a partition; without the cable, the interfaces have no carrier, and programs may see it."""


class NoHostsError(RuntimeError):
    """Network namespaces cannot be made here."""


class Hosts(NamedTuple):
    """Two hosts by their sides, device and world.

    Attributes:
        names: of the network namespaces.
        ends: of the cable, an interface in each.
    """

    names: Mapping[str, str]
    ends: Mapping[str, str]

    def enter(self, side: str) -> None:
        """Move this process to a host, from which the other's address may be discovered."""
        with open(f"/run/netns/{self.names[side]}") as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
                raise OSError(ctypes.get_errno(), f"cannot enter the namespace {self.names[side]}")

    def variables(self, side: str) -> dict[str, str]:
        """Environment of the programs of a host: they know the other by its address alone."""
        (peer,) = (address for other, address in ADDRESSES.items() if other != side)
        return {"ROS_STATIC_PEERS": peer, "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}

    def lose(self, what: str) -> None:
        """Lose all packets, of LOSSES."""
        if what == "cable":
            _run("ip", "-n", self.names["device"], "link", "set", self.ends["device"], "down")
            return
        for side in ("device", "world"):
            if what in ("both ways", f"from the {side}"):  # a queue that takes nothing
                _run("tc", "-n", self.names[side], "qdisc", "replace", "dev", self.ends[side], *_NO_QUEUE)

    def join(self) -> None:
        """End all losses."""
        _run("ip", "-n", self.names["device"], "link", "set", self.ends["device"], "up")
        for side in self.names:
            _run("tc", "-n", self.names[side], "qdisc", "del", "dev", self.ends[side], "root", check=False)


_NO_QUEUE = ("root", "pfifo", "limit", "0")


def _run(*command: str, check: bool = True) -> None:
    subprocess.run(command, check=check, capture_output=True, text=True, timeout=PATIENCE)


@contextlib.contextmanager
def two_hosts() -> Iterator[Hosts]:
    """Two hosts, gone at the end.

    Raises:
        NoHostsError: the system does not permit it, or has no `ip` or `tc`.
    """
    names = {side: f"haptics-{os.getpid()}-{side}" for side in ADDRESSES}
    ends = {side: f"h{os.getpid() % 10**6}{side[0]}" for side in names}
    with contextlib.ExitStack() as stack:
        try:
            for name in names.values():
                _run("ip", "netns", "add", name)
                stack.callback(_run, "ip", "netns", "del", name, check=False)
            _run("ip", "link", "add", ends["device"], "type", "veth", "peer", "name", ends["world"])
            for side, name in names.items():
                _run("ip", "link", "set", ends[side], "netns", name)
                _run("ip", "-n", name, "addr", "add", f"{ADDRESSES[side]}/24", "dev", ends[side])
                for link in ("lo", ends[side]):
                    _run("ip", "-n", name, "link", "set", link, "up")
        except (OSError, subprocess.CalledProcessError) as error:
            reason = getattr(error, "stderr", None) or error
            raise NoHostsError(f"network namespaces cannot be made here: {reason}") from None
        yield Hosts(names, ends)
