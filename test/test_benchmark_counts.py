"""Counts of the operations of a tick, against recorded ones: numbers that do not depend on noise."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import counts, instructions
from haptic_sim.kernels import IN_PYTHON

RECORD = json.loads(Path(counts.__file__).with_name("counts.json").read_text(encoding="utf-8"))
ALLOWED = 0.1  # part of the recorded number by which a count may change
FEW = 2.0  # instructions of Python in a tick that are no tenth of anything
REMEDY = "is it worth that? Then ./haptics shell python -m benchmarks.counts > benchmarks/counts.json"


@pytest.mark.skipif(IN_PYTHON, reason="kernels are Python functions")
@pytest.mark.skipif(RECORD["python"] != counts.python_version(), reason="another version has other instructions")
@pytest.mark.parametrize("name", (*counts.LOOPS, counts.RECORDED, counts.COMPOSED))
def test_a_tick_costs_what_the_record_says(name: str) -> None:
    recorded = RECORD["loops"][name]
    if name == counts.COMPOSED:
        pytest.importorskip("haptics.msg", reason="needs ROS 2 and the built messages")
        found = counts.count_composed()
    else:
        found = counts.count_recorded() if name == counts.RECORDED else counts.count(counts.step_of(name))
    for what in recorded.keys() | found.keys():  # a package that had no part in it counts, too
        before, now = recorded.get(what, 0.0), found.get(what, 0.0)
        assert now == pytest.approx(before, rel=ALLOWED, abs=FEW), f"{what} in a tick changed; {REMEDY}"


@pytest.mark.skipif(IN_PYTHON, reason="kernels are Python functions")
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", (*instructions.KERNELS, *counts.LOOPS))
def test_a_step_of_compiled_code_takes_the_recorded_instructions(name: str) -> None:
    if instructions.target() != RECORD["target"]:
        pytest.skip(f"compiled for {instructions.target()}; the record is of {RECORD['target']}: see --compare")
    try:
        found = counts.count_in_new_process(name)
    except instructions.UncountableError as error:
        pytest.skip(str(error))
    assert found == pytest.approx(RECORD["machine"][name], rel=ALLOWED), f"instructions of {name} changed; {REMEDY}"


def test_instructions_are_counted_one_by_one() -> None:
    """A loop of twice the length has twice the instructions, and nothing changes in this process."""
    calls: list[int] = []

    def loop(length: int) -> float:
        calls.append(length)
        total = 0.0
        for _ in range(length):
            total += 0.5
        return total

    try:
        single, double = (instructions.count_instructions(lambda n=n: loop(n)) for n in (20, 40))
    except instructions.UncountableError as error:
        pytest.skip(str(error))
    assert double == pytest.approx(2 * single, rel=0.3) and single > 20
    assert not calls


def test_a_step_that_fails_is_no_count() -> None:
    def fails() -> None:
        raise ValueError

    try:
        instructions.count_instructions(lambda: None)
    except instructions.UncountableError as error:
        pytest.skip(str(error))
    with pytest.raises(RuntimeError, match="the step fails"):
        instructions.count_instructions(fails)


def test_where_instructions_cannot_be_counted_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "elsewhere")
    with pytest.raises(instructions.UncountableError, match="ptrace of Linux; this is elsewhere"):
        instructions.count_instructions(lambda: None)


def test_packages_are_told_by_their_files() -> None:
    assert counts.package_of(str(counts.ROOT / "haptic_sim" / "tool" / "environment.py")) == "haptic_sim.tool"
    assert counts.package_of(str(counts.ROOT / "haptic_control" / "x.py")) == "haptic_control"
    assert counts.package_of(json.__file__) == counts.OUTSIDE


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


def test_the_names_that_can_be_counted_are_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "2000")  # a name is not broken at its hyphen
    for arguments, status in ((["--help"], 0), (["syncronous"], 2)):
        with pytest.raises(SystemExit) as end:
            counts.main(arguments)
        assert end.value.code == status
        said = capsys.readouterr()
        text = " ".join((said.out + said.err).split())
        assert text.startswith("usage: python -m benchmarks.counts [-h] [NAME]")
        assert all(name in text for name in (*instructions.KERNELS, *counts.LOOPS))
