"""Claims of a case: what decides them, what leaves them undecided, and whose they are."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from haptic_bench.analysis.base import each
from haptic_bench.analysis.claims import Quantity, Statement
from haptic_bench.recording.samples import Samples


def run(*force: float) -> Samples:
    return Samples({"tick": np.arange(len(force)), "force": np.array(force)})


def case(**references: Samples) -> Any:
    return SimpleNamespace(references=references)


STRONGER = Statement(
    "stronger",
    "A is stronger than B",
    "ours",
    Quantity("largest force", "N"),
    of=each(lambda samples: float(samples["force"].max()), "a", "b"),
    holds=lambda m: m["a"] > m["b"],
)


def test_numbers_of_runs_decide() -> None:
    claim = STRONGER.claim(case(a=run(1.0, 3.0), b=run(2.0)))
    assert (claim.measured, claim.holds, claim.decided_by) == ({"a": 3.0, "b": 2.0}, True, {"a", "b"})
    assert STRONGER.claim(case(a=run(1.0), b=run(2.0))).holds is False


def test_a_missing_run_leaves_it_undecided() -> None:
    claim = STRONGER.claim(case(a=run(1.0)))
    assert (claim.measured, claim.holds, claim.reason) == ({"a": 1.0, "b": None}, None, "")


def test_a_case_that_cannot_decide_says_why() -> None:
    both = case(a=run(3.0), b=run(2.0))
    unless = replace(STRONGER, unless=lambda case: "they are tied" if len(case.references) == 2 else "")
    claim = unless.claim(both)
    assert (claim.measured, claim.holds, claim.reason) == ({"a": 3.0, "b": 2.0}, None, "they are tied")
    assert replace(STRONGER, when=lambda case: False).claim(both).holds is None


def test_the_runs_that_decide_may_have_other_names_than_the_numbers() -> None:
    statement = replace(STRONGER, runs=("slow", "fast"))
    assert statement.claim(case(a=run(3.0), b=run(2.0))).decided_by == {"slow", "fast"}
