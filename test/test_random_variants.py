"""Random variants of experiments with a display: none ends as done whose display gave energy that nothing explains."""

from __future__ import annotations

import pytest

from campaign.variants import outcome, variant
from haptic_bench.experiment import load

VARIANTS, PARTS, SAMPLE = 200, 10, 4


def test_variants_fit_their_parts() -> None:
    """14 drew keys that its local model has not, 61 a local model that its linkage does not fit."""
    for number in (14, 61, *range(0, VARIANTS, 10)):
        name, settings = variant(number)
        (trial,) = load(name, settings)
        assert trial.experiment.duration == 2.0


@pytest.mark.parametrize("number", range(SAMPLE))
def test_no_variant_is_done_whose_display_is_active(number: int) -> None:
    assert outcome(13 * number) in ("failed", "expected", "passive")


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(PARTS))
def test_no_variant_of_many_is_done_whose_display_is_active(part: int) -> None:
    ends = [outcome(number) for number in range(part, VARIANTS, PARTS)]
    assert ends.count("passive") > 0
    assert "refused" not in ends
