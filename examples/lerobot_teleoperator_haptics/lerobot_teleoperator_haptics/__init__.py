"""Haptic devices as teleoperators of LeRobot, which finds this package by the beginning of its name."""

from .config_haptics import HapticsConfig
from .haptics import Haptics

__all__ = ["Haptics", "HapticsConfig"]
