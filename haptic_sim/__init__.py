"""Simulated worlds: scenes, articulated dynamics, contact, the local model; pure cores that know nothing of ROS.

For programs: `World` is a world that is advanced step by step; an `Environment` advances the tool of one at the servo
rate, with messages. They are imported at their first use.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from haptic_sim.simulation import Body as Body
    from haptic_sim.simulation import Contact as Contact
    from haptic_sim.simulation import Environment as Environment
    from haptic_sim.simulation import World as World

__all__ = ["Body", "Contact", "Environment", "World"]

_KERNELS = "haptic_sim.kernel_cache"  # is to be there before any kernel is defined


class _NumbaFinder:
    """Imports `kernel_cache` when Numba has been imported, which takes most of a second: not before it is needed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "numba":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                # Numba imports `coverage` wherever it is installed: needed only where it already runs
                absent = {"coverage": None} if "coverage" not in sys.modules else {}
                sys.modules.update(absent)  # type: ignore[arg-type]  # None: an import of it fails
                execute(module)
                for name in absent:
                    del sys.modules[name]
                importlib.import_module(_KERNELS)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if "numba" in sys.modules:
    importlib.import_module(_KERNELS)
else:
    sys.meta_path.insert(0, _NumbaFinder())


def __getattr__(name: str) -> Any:
    if name in __all__:
        from haptic_sim import simulation  # imported when it is first used

        return getattr(simulation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
