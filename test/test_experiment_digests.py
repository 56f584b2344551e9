"""Every experiment keeps its bits: digests of the first ticks, where platform and libraries are those of the record."""

from __future__ import annotations

import pytest
from experiment_digests import difference, digest, recorded, this_platform

from haptic_bench import experiment

# Penalties with impulses, rigid contacts, an exact constraint, a local model, a linkage, a controlled wall.
SHORT = ("corner_peg", "incline", "rolling_disk", "static_wall", "linkage_topology", "coupling_wall")
CHANGED = (
    "{}: its messages differ from those of the record. If the change is meant to change numbers, CHANGELOG.md says so, "
    "and it is recorded by ./haptics shell python test/experiment_digests.py"
)


def compare(name: str) -> None:
    if other := difference():
        pytest.skip(f"recorded elsewhere: here is {other}")
    assert digest(name) == recorded()["digests"][name], CHANGED.format(name)


def test_all_experiments_are_recorded() -> None:
    """A new one is recorded as it is added, on any platform whose record this then is."""
    assert recorded()["digests"].keys() == experiment.catalogue().keys()
    assert recorded()["platform"].keys() == this_platform().keys()


@pytest.mark.parametrize("name", SHORT)
def test_experiments_keep_their_bits(name: str) -> None:
    compare(name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(set(experiment.catalogue()) - set(SHORT)))
def test_every_other_experiment_keeps_its_bits(name: str) -> None:
    compare(name)
