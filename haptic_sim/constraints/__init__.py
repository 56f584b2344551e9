"""Exact constraints: tools that satisfy them alone, and bodies that satisfy them among contacts.

`System` is a constrained system that is made of formulas; it is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from haptic_sim.constraints.system import System as System

__all__ = ["System"]


def __getattr__(name: str) -> Any:
    if name == "System":
        from haptic_sim.constraints.system import System  # imported when it is first used

        return System
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
