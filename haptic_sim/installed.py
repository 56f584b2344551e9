"""Installed packages, and the folder of the files beside them: the checkout, or share/haptics.

Standard library only: setup.py reads it before anything is installed.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE_NAMES = (
    "haptic_sim",
    "haptic_ros",
    "haptic_control",
    "haptic_drivers",
    "haptic_robot",
    "haptic_view",
    "haptic_bench",
    "haptic_experiments",
    "haptic_study",
)
"""The packages of haptics, in an order in which each imports only those before it and itself, nodes aside."""

PACKAGES = Path(__file__).resolve().parents[1]
"""The folder that holds the packages."""


def shared_folder(name: str, pattern: str) -> Path | None:
    """The folder of a name with files of a pattern: beside the packages, or in share/haptics above; None: nowhere."""
    shares = (prefix / "share" / "haptics" for prefix in (PACKAGES, *PACKAGES.parents))
    return next((parent / name for parent in (PACKAGES, *shares) if any((parent / name).glob(pattern))), None)
