"""Namespaces of running trials: each trial has its own, so that two trials on one machine do not share topics."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from haptic_sim.parameters import ParameterError

_PATTERN = re.compile(r"/?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*")
_LONGEST = 80  # characters; a socket's address has room for 107 bytes
_SOCKET_ADDRESS = 107  # bytes of such an address
_MOST = 1000  # trials of one name at once
_LAST_DOMAIN = 232  # whose ports are those of UDP; Fast DDS takes no other
_BEHIND = ("dynamics", "world")  # sides of a system or a relay that have no device, beside the side that has it


def checked(name: str) -> str:
    """A namespace as it is used, without the slash in front.

    Raises:
        ParameterError: it is no ROS namespace.
    """
    if not _PATTERN.fullmatch(name) or len(name) > _LONGEST:
        raise ParameterError(
            [
                f"--namespace {name[:_LONGEST]}: must be names of letters, digits and _ with / between them, as in "
                f"lab/arm, at most {_LONGEST} characters"
            ]
        )
    return name.removeprefix("/")


def _domain() -> int:
    """The ROS domain, of ROS_DOMAIN_ID.

    Raises:
        ParameterError: it is none.
    """
    text = os.environ.get("ROS_DOMAIN_ID") or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= _LAST_DOMAIN):
        raise ParameterError([f"ROS_DOMAIN_ID = {text[:40]}: must be an integer from 0 to {_LAST_DOMAIN}"])
    return int(text)


def _bind(held: socket.socket, name: str) -> bool:
    """Reserve a name as that of a socket; whether it was free."""
    place = f"haptics {_domain()} {name}"
    try:
        held.bind(
            "\0" + (place if len(place) < _SOCKET_ADDRESS else f"haptics {hashlib.sha256(place.encode()).hexdigest()}")
        )
    except OSError:
        return False
    return True


def claimed() -> list[str]:
    """The namespaces of the trials and systems that run on this machine in this ROS domain, without the slash in front.

    Those of further hands, which are in that of their trial, are left out.
    """
    lines = Path("/proc/net/unix").read_text(errors="replace").splitlines()
    begin = f"@haptics {_domain()} "
    names = (line.partition(begin)[2].partition(" ")[0] for line in lines if begin in line)  # a side has its own
    found = set(filter(_PATTERN.fullmatch, names))
    return sorted(name for name in found if not any(name.startswith(f"{other}/") for other in found))


@contextlib.contextmanager
def claim(name: str, *, exactly: bool = False, inside: Sequence[str] = (), side: str = "") -> Iterator[str]:
    """Reserve a namespace while the context is open; yields it with the slash in front, as in `/corner_peg`.

    A claim is an abstract Unix socket of that name: it belongs to the network namespace, as the loopback does over
    which the nodes meet, and to the ROS domain, and the kernel ends it with the last process that holds it. Processes
    that are forked meanwhile hold it too. Trials on other machines are not seen.

    Args:
        name: without the slash in front.
        exactly: this one and no other; else a number is put behind a name that is taken: `/corner_peg_2`.
        inside: names of namespaces in this one, of further hands, that are reserved, too.
        side: of a system or a relay on two hosts; the other side may be on this one, too. Empty: both sides.

    Raises:
        ParameterError: it is taken.
    """
    taken = name
    for number in range(1, 2 if exactly else _MOST):
        candidate = name[:_LONGEST] if number == 1 else f"{name[: _LONGEST - 4]}_{number}"
        with contextlib.ExitStack() as held:
            for taken in _parts(candidate, inside, side):
                if not _bind(held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)), taken):
                    break
            else:
                yield f"/{candidate}"
                return
    name, _, _ = taken.partition(" ")
    raise ParameterError([f"namespace /{name}: is taken by a trial that runs; end it, or choose another --namespace"])


def _parts(name: str, inside: Sequence[str], side: str) -> tuple[str, ...]:
    """Reserved names of a namespace: the side of the device, with the namespaces in it, and the side behind it."""
    behind = (f"{name} {_BEHIND[0]}",)
    if side in _BEHIND:
        return behind
    front = (name, *(f"{name}/{part}" for part in inside))
    return front if side else front + behind
