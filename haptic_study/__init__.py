"""Studies with people: the order of conditions (`design`), the measurement of perception (`psychophysics`), and the
file, the session, the recording and the page of a study.

For programs: `load_study` has all trials of a recorded study as one table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from haptic_study.tables import load_study as load_study

__all__ = ["load_study"]


def __getattr__(name: str) -> Any:
    if name != "load_study":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from haptic_study.tables import load_study  # with NumPy and the experiments, which the pure parts do not need

    return load_study
