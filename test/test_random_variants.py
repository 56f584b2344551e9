"""Random variants of experiments with a display: none ends as done whose display gave energy that nothing explains."""

from __future__ import annotations

import pytest

from campaign.variants import outcome

VARIANTS, PARTS, SAMPLE = 200, 10, 4


@pytest.mark.parametrize("number", range(SAMPLE))
def test_no_variant_is_done_whose_display_is_active(number: int) -> None:
    assert outcome(13 * number) in ("refused", "failed", "expected", "passive")


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(PARTS))
def test_no_variant_of_many_is_done_whose_display_is_active(part: int) -> None:
    ends = [outcome(number) for number in range(part, VARIANTS, PARTS)]
    assert ends.count("passive") > 0
