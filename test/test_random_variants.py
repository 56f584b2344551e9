"""Random variants of experiments with a display: none ends as done whose display gave energy that nothing explains."""

from __future__ import annotations

import pytest

from campaign.variants import FIRST_OF_SHAPES, KEYS, KEYS_OF_SHAPES, outcome, variant
from haptic_bench.experiment import load

VARIANTS, PARTS, SAMPLE = 200, 10, 4
OF_SHAPES = 40  # variants of experiments with meshes and textures


def test_variants_fit_their_parts() -> None:
    """14 drew keys that its local model has not, 61 a local model that its linkage does not fit."""
    for number in (14, 61, *range(0, VARIANTS, 10)):
        name, settings = variant(number)
        (trial,) = load(name, settings)
        assert trial.experiment.duration == 2.0


@pytest.mark.exhaustive
def test_variants_of_shapes_have_numbers_of_their_own() -> None:
    """Those that are kept stay what they are: 14 and 61 once failed."""
    assert variant(14)[0] == next(iter(KEYS)) and variant(61)[0] == list(KEYS)[5]
    assert variant(14)[1][:2] == ["duration=2", "analysis=trial"]
    for k, name in enumerate(KEYS_OF_SHAPES):
        assert variant(FIRST_OF_SHAPES + k)[0] == name
        (trial,) = load(*variant(FIRST_OF_SHAPES + k))
        assert not trial.experiment.controller.allow_active


@pytest.mark.parametrize("number", range(SAMPLE))
def test_no_variant_is_done_whose_display_is_active(number: int) -> None:
    assert outcome(13 * number) in ("failed", "expected", "passive")


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(PARTS))
def test_no_variant_of_many_is_done_whose_display_is_active(part: int) -> None:
    ends = [outcome(number) for number in range(part, VARIANTS, PARTS)]
    assert ends.count("passive") > 0
    assert "refused" not in ends


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(len(KEYS_OF_SHAPES)), ids=list(KEYS_OF_SHAPES))
def test_no_variant_of_shapes_is_done_whose_display_is_active(first: int) -> None:
    numbers = range(FIRST_OF_SHAPES + first, FIRST_OF_SHAPES + OF_SHAPES, len(KEYS_OF_SHAPES))
    ends = [outcome(number) for number in numbers]
    assert "passive" in ends and "refused" not in ends
