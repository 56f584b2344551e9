"""Random variants of experiments with meshes and textures: `variants` with numbers of their own."""

from __future__ import annotations

from pathlib import Path

from campaign import variants
from campaign.cases import Outcome


def case(number: int, folder: Path) -> Outcome:
    """Some variants, from `variants.FIRST_OF_SHAPES` on."""
    return variants.batch(variants.FIRST_OF_SHAPES + variants.BATCH * number)
