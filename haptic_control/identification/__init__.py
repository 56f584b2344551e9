"""Identification of a device from its motion: `motion` simulates it, `fit` finds its parameters, `device` its data."""

from haptic_control.identification.fit import Estimate, Identified, identify

__all__ = ["Estimate", "Identified", "identify"]
