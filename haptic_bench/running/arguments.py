"""Arguments of launch files: launch ignores one that it does not know, and starts what nobody has asked for."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from haptic_bench.catalogue import did_you_mean
from haptic_sim.parameters import ParameterError

OF_LAUNCH = {"launch-prefix", "launch-prefix-filter", "emulate_tty", "sigterm_timeout", "sigkill_timeout"}


def check_names(given: Iterable[str], known: Sequence[str], files: Iterable[str]) -> None:
    """Refuse arguments that do not exist.

    Only where the user launches one of some files: in another launch file, that one's arguments are there too.

    Args:
        given: NAME:=VALUE.
        known: names of the arguments that there are.
        files: names of the launch files.

    Raises:
        ParameterError: one line for each that is unknown.
    """
    if {Path(argument).name for argument in sys.argv}.isdisjoint(files):
        return
    unknown = {argument.partition(":=")[0] for argument in given} - set(known) - OF_LAUNCH
    if unknown:
        raise ParameterError(f"{name}: unknown argument{did_you_mean(name, known)}" for name in sorted(unknown))


@contextlib.contextmanager
def refusing(logger: Any) -> Iterator[None]:
    """While it is open, bad input ends the launch file: each problem is logged, with arguments in place of options.

    Raises:
        RuntimeError: there was bad input.
    """
    try:
        yield
    except ParameterError as error:
        for problem in error.problems:
            logger.error(re.sub(r"--([a-z]+)\b ?", r"\1:=", problem))
        raise RuntimeError("bad input, nothing was started") from error
