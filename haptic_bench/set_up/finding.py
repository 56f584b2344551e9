"""Findings of `haptics doctor`: one line each, with a remedy, from checks that can neither fail nor hang.

Standard library only, because the environment may not exist yet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

PATIENCE = 60.0  # [s] for one check; it bounds its own waits, so that only a system that does not answer takes longer

State = Literal["ok", "warn", "problem"]


class Finding(NamedTuple):
    """One thing that was found.

    Attributes:
        area, name: what was looked at.
        state: ok; warn: a trial runs, but something is less than it could be; problem: no trial can run.
        found: what is there, one line.
        remedy: what to do, one line; empty if there is nothing to do.
    """

    area: str
    name: str
    state: State
    found: str
    remedy: str = ""


Check = Callable[[], Iterable[Finding]]


def examine(checks: Iterable[tuple[str, Check]]) -> Iterator[Finding]:
    """Findings of checks, by area; a check that fails, or does not return in time, is a finding itself."""
    for area, check in checks:
        found: list[Finding] = []
        errors: list[BaseException] = []
        thread = threading.Thread(target=_collect, args=(check, found, errors), daemon=True)
        thread.start()
        thread.join(PATIENCE)
        yield from tuple(found)
        if thread.is_alive():
            yield Finding(area, "check", "warn", f"not finished after {PATIENCE:g} s", "look for a disk that hangs")
        elif errors:
            reason = " ".join(f"{type(errors[0]).__name__}: {errors[0]}".split())[:200]
            yield Finding(
                area, "check", "warn", f"could not be made: {reason}", "report this, it is an error of haptics"
            )


def _collect(check: Check, found: list[Finding], errors: list[BaseException]) -> None:
    try:
        found.extend(check())
    except Exception as error:
        errors.append(error)
