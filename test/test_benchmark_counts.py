"""What a tick makes Python do, against the record of it: numbers that noise does not move guard the servo path."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import counts
from haptic_sim.kernels import IN_PYTHON

RECORD = json.loads(Path(counts.__file__).with_name("counts.json").read_text(encoding="utf-8"))
ALLOWED = 0.1  # part of the recorded number by which a count may change
REMEDY = "is it worth that? Then ./haptics shell python -m benchmarks.counts > benchmarks/counts.json"


@pytest.mark.skipif(IN_PYTHON, reason="kernels are Python functions")
@pytest.mark.skipif(RECORD["python"] != counts.python_version(), reason="another version has other instructions")
@pytest.mark.parametrize("name", counts.LOOPS)
def test_a_tick_costs_what_the_record_says(name: str) -> None:
    recorded, found = RECORD["loops"][name], counts.count_loop(name)
    for what, number in recorded.items():
        assert found[what] == pytest.approx(number, rel=ALLOWED), f"{what} in a tick changed; {REMEDY}"
    assert recorded.keys() == found.keys()


def test_counts_are_of_what_is_called() -> None:
    def one(values: list[float]) -> int:
        return len(values)

    def two(values: list[float]) -> int:
        return one(values) + one(values)

    single, double = (counts.count(lambda f=f: f([]), 10) for f in (one, two))
    assert (single["Python calls"], single["compiled calls"]) == (2.0, 1.0)  # with the lambda
    assert (double["Python calls"], double["compiled calls"]) == (4.0, 2.0)
    assert double["instructions"] > single["instructions"] > 0.0


def test_a_count_leaves_no_trace_function_behind() -> None:
    def fails() -> None:
        raise ValueError

    before = sys.gettrace(), sys.getprofile()
    with pytest.raises(ValueError):
        counts.count(fails, 1)
    assert (sys.gettrace(), sys.getprofile()) == before
