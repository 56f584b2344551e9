"""Two commits by turns: what the intervals say, and that the comparison leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from conftest import wait_until

from benchmarks import compare
from benchmarks.compare import Figures, commit_of, figures_of
from haptic_bench.running.runner import Interruption
from haptic_sim.parameters import ParameterError

HEAD = subprocess.run(["git", "-C", str(compare.ROOT), "rev-parse", "HEAD"], capture_output=True, text=True)
needs_git = pytest.mark.skipif(HEAD.returncode != 0, reason="not a checkout of git")


def pairs_of(ratio: float, noise: float, count: int, *, more_is_better: bool = False) -> list[tuple[Figures, Figures]]:
    """Pairs whose second figure is `ratio` times the first; a pair has its own speed of the machine."""
    rng = np.random.default_rng(7)
    speeds = rng.uniform(0.5, 2.0, count)  # of the machine: alike for both
    firsts, seconds = (speeds * np.exp(noise * rng.normal(size=count)) for _ in range(2))
    return [
        ({"step": (float(a), more_is_better)}, {"step": (float(ratio * b), more_is_better)})
        for a, b in zip(firsts, seconds, strict=True)
    ]


@pytest.mark.parametrize(("ratio", "more", "verdict"), [
    (1.2, False, "slower"), (0.8, False, "faster"), (1.0, False, "same"),
    (1.2, True, "faster"), (0.8, True, "slower"),
])  # fmt: skip
def test_a_ratio_is_found_whatever_the_machine_does(ratio: float, more: bool, verdict: str) -> None:
    (found,) = compare.compare(pairs_of(ratio, 0.02, 8, more_is_better=more))
    assert found.verdict == verdict and found.ratio == pytest.approx(ratio, rel=0.03)
    assert found.low < found.ratio < found.high < 1.1 * found.low


def test_what_noise_hides_is_not_called_slower() -> None:
    (found,) = compare.compare(pairs_of(1.1, 0.5, 5))
    assert found.verdict == "same" and found.low < 1.0


def test_an_interval_holds_the_truth_as_often_as_it_says() -> None:
    held = 0
    rng = np.random.default_rng(1)
    for _ in range(400):
        values = np.exp(0.1 * rng.normal(size=(5, 2)))
        (one,) = compare.compare([({"x": (a, False)}, {"x": (1.5 * b, False)}) for a, b in values])
        held += one.low <= 1.5 <= one.high
    assert 0.95 * 400 - 3 * np.sqrt(400 * 0.95 * 0.05) <= held <= 0.95 * 400 + 3 * np.sqrt(400 * 0.95 * 0.05)


def test_figures_that_only_one_commit_has_are_left_out() -> None:
    old, new = {"a": (1.0, False)}, {"a": (1.0, False), "b": (1.0, False)}
    assert [one.name for one in compare.compare([(old, new), (old, new)])] == ["a"]


def test_figures_are_positive_numbers_and_know_what_is_better() -> None:
    rows = [
        {"name": "step", "value": 2.0, "target": "<= 3"},
        {"name": "rate", "value": 5.0, "target": ">= 3"},
        {"name": "lost", "value": 0.0, "target": ""},
        {"name": "rates", "unit": "", "figures": {}},
    ]
    assert figures_of({"results": rows}) == {"step": (2.0, False), "rate": (5.0, True)}


def test_turns_alternate_after_a_run_that_does_not_count() -> None:
    calls: list[str] = []

    def measure(place: Path) -> Figures:
        calls.append(place.name)
        return {"step": (float(len(calls)), False)}

    pairs = compare.measure_pairs([Path("a"), Path("b")], 3, measure)
    assert calls == ["a", "b", "a", "b", "b", "a", "a", "b"]
    assert [(one["step"][0], other["step"][0]) for one, other in pairs] == [(3.0, 4.0), (6.0, 5.0), (7.0, 8.0)]


@needs_git
def test_checkouts_are_gone_afterwards() -> None:
    commit = commit_of("HEAD")
    with pytest.raises(ZeroDivisionError), compare.checkouts([commit, commit]) as places:
        assert [(place / "haptics").is_file() for place in places] == [True, True]
        _ = 1 / 0
    assert not any(place.exists() for place in places)
    listed = subprocess.run(["git", "-C", str(compare.ROOT), "worktree", "list"], capture_output=True, text=True)
    assert "haptics-compare-" not in listed.stdout


def program(folder: Path, text: str) -> Path:
    """A checkout whose `haptics` is this program."""
    (folder / "haptics").write_text(f"#!{sys.executable}\n{text}")
    (folder / "haptics").chmod(0o755)
    return folder


def test_a_benchmark_of_a_checkout_is_read(tmp_path: Path) -> None:
    place = program(tmp_path, """
import json, os, sys
assert sys.argv[1:4] == ["benchmark", "step", "--json"] and "NUMBA_CACHE_DIR" not in os.environ
json.dump({"results": [{"name": "step", "value": 2.0, "target": ""}]}, open(sys.argv[4], "w"))
""")  # fmt: skip
    with Interruption() as interruption:
        assert compare.run(place, "step", interruption) == {"step": (2.0, False)}
        with pytest.raises(ParameterError, match=r"benchmark other of \w+ failed: Traceback"):
            compare.run(place, "other", interruption)


def test_an_interruption_ends_the_benchmark(tmp_path: Path) -> None:
    place = program(tmp_path, """
import os, time
open("begins", "w").write(str(os.getpid()))
os.rename("begins", "begun")  # with its content
time.sleep(600)
""")  # fmt: skip
    interruption = Interruption()
    watch = threading.Thread(target=lambda: (wait_until(lambda: (tmp_path / "begun").is_file(), "its beginning"),
                                             interruption.event.set()))  # fmt: skip
    watch.start()
    with pytest.raises(compare.Interrupted):
        compare.run(place, "step", interruption)
    watch.join()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "begun").read_text()), 0)


@needs_git
def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ParameterError, match="--compare nowhere: no commit of this name"):
        commit_of("nowhere")
    with pytest.raises(ParameterError, match="--pairs 1: must be at least 2"):
        compare.main(["control"], "HEAD", "HEAD", 1, None)
