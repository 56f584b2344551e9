"""Where the files beside the packages are: in the checkout, or in share/haptics of an installation."""

from __future__ import annotations

from pathlib import Path

PACKAGES = Path(__file__).resolve().parents[1]
"""The folder that holds the packages."""


def shared_folder(name: str, pattern: str) -> Path | None:
    """The folder of a name with files of a pattern: beside the packages, or in share/haptics above; None: nowhere."""
    shares = (prefix / "share" / "haptics" for prefix in (PACKAGES, *PACKAGES.parents))
    return next((parent / name for parent in (PACKAGES, *shares) if any((parent / name).glob(pattern))), None)
