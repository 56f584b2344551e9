"""Local models of interaction: what answers at the servo rate between two updates of a slower environment (THESIS 6).

- `Proxy`: the tool among the constraints of the last update, with impulses, penalties and friction; or with penalties
  at constraints that are interpolated (intermediate representation).
- `HeldWrench`, `ExtrapolatedWrench`, `ResolvedContacts`: what others do, for comparison.
- `LocalModel`, `AppliedWrench`: what local models of a user's own are derived from.
"""

from haptic_sim.tool.local_model.applied import AppliedWrench
from haptic_sim.tool.local_model.baselines import ExtrapolatedWrench, HeldWrench, ResolvedContacts
from haptic_sim.tool.local_model.model import LocalModel
from haptic_sim.tool.local_model.parameters import (
    LOCAL_MODELS,
    AnyLocalModelParameters,
    LocalModelContext,
    LocalModelParameters,
    NoLocalModelParameters,
)
from haptic_sim.tool.local_model.proxy import FullParameters, Proxy

__all__ = [
    "LOCAL_MODELS",
    "AnyLocalModelParameters",
    "AppliedWrench",
    "ExtrapolatedWrench",
    "FullParameters",
    "HeldWrench",
    "LocalModel",
    "LocalModelContext",
    "LocalModelParameters",
    "NoLocalModelParameters",
    "Proxy",
    "ResolvedContacts",
]
