"""The analysis of an experiment, found by its name.

An analysis is an object that the entry point of its name in the group `haptics.analyses` names, or MODULE:NAME.
Analyses import experiments, so no module here may import an analysis: it is looked up when an experiment needs it.
"""

from __future__ import annotations

import sys
from typing import Any

from haptic_sim.parameters import ParameterError
from haptic_sim.parts import OWN, Entry, Group, PartError


class _Analyses(Group):
    """Analyses: what has the methods of `haptic_bench.analysis.base.Analysis`."""

    def check(self, name: str, value: str, found: Any) -> None:
        if not callable(getattr(found, "analyse", None)) or isinstance(found, type):
            raise PartError(
                [f"{value} is not an analysis; must be an object of a class of haptic_bench.analysis.base.Analysis"]
            )

    def documented(self, found: Any) -> Any:
        return sys.modules[found.__module__]


ANALYSES = _Analyses("analyses")


def names() -> list[str]:
    """All registered analyses; `trial` is for any experiment, and comes first."""
    return list(ANALYSES.entries())


def find(name: str) -> Any:
    """The analysis of a name, a `haptic_bench.analysis.base.Analysis`.

    Raises:
        ParameterError: there is none of that name.
    """
    try:
        return ANALYSES.load(name)
    except KeyError:
        raise ParameterError([f"analysis = {name}: must be one of {', '.join(names())}"]) from None
    except PartError as error:
        raise ParameterError([f"analysis = {name}: {error}"]) from error


def package_of(name: str) -> dict[str, str]:
    """The package of an analysis that is not of haptics, with its version."""
    entry: Entry = ANALYSES.registration(name, name.partition(":")[0])
    return {} if entry.package == OWN else {entry.package: entry.version}
