"""Articulated bodies: dynamics by Pinocchio, joints and their laws, mass-scaled coordinates, energy."""

from haptic_sim.dynamics.energy import UnstableError
from haptic_sim.dynamics.multibody import Multibody

__all__ = ["Multibody", "UnstableError"]
