"""The local model of interaction: a proxy of the tool among the constraints that an environment last reported."""

from haptic_sim.tool.local_model.model import LocalModel
from haptic_sim.tool.local_model.parameters import LocalModelParameters

__all__ = ["LocalModel", "LocalModelParameters"]
