"""Two commits by turns on one machine: what has become slower, with intervals.

Each commit is a worktree of its own, with its own environment, interfaces and kernels, which its first run prepares.
Then the benchmarks run by turns, the order turning round from pair to pair, so that what else the machine does affects
both alike. Of each figure the ratio of the two is taken within a pair; the interval is that of Student's t for the mean
of the logarithms of the ratios, 95 %.
"""

from __future__ import annotations

import json
import math
import os
import signal
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from scipy.stats import t as student

from haptic_bench.running.runner import Interruption
from haptic_sim.parameters import ParameterError

ROOT = Path(__file__).resolve().parents[1]
CONFIDENCE = 0.95
PATIENCE = 10.0  # [s] for a benchmark to end that is told to
SAME = 0.03  # part by which figures may differ and count as the same, though the interval is narrower

_OF_PROGRAMS = ("_ROS_WHEELS_BOOTSTRAP_COMPLETE", "PYTHONSAFEPATH")  # more variables of the environment of programs

Figures = dict[str, tuple[float, bool]]
"""Values by name, and whether more is better."""


class Comparison(NamedTuple):
    """A figure of two commits.

    Attributes:
        name: of the figure.
        first, second: medians.
        ratio: of the second to the first, geometric mean over the pairs.
        low, high: interval of the ratio.
        verdict: "slower", "faster" or "same"; of the second.
    """

    name: str
    first: float
    second: float
    ratio: float
    low: float
    high: float
    verdict: str


def commit_of(name: str) -> str:
    """The commit that a name of git means.

    Raises:
        ParameterError: there is none of this name.
    """
    found = _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if found.returncode:
        raise ParameterError([f"--compare {name}: no commit of this name; give a branch, tag or hash of the checkout"])
    return found.stdout.strip()


@contextmanager
def checkouts(commits: Sequence[str]) -> Iterator[list[Path]]:
    """A worktree of each commit, gone at the end."""
    with tempfile.TemporaryDirectory(prefix="haptics-compare-") as folder:
        places = [Path(folder, f"{i}_{commit[:10]}") for i, commit in enumerate(commits)]
        try:
            for place, commit in zip(places, commits, strict=True):
                added = _git("worktree", "add", "--detach", str(place), commit)
                if added.returncode:
                    raise ParameterError([f"--compare: git worktree: {added.stderr.strip()}"])
            yield places
        finally:
            for place in places:
                _git("worktree", "remove", "--force", str(place))


class Interrupted(Exception):
    """A signal has ended the comparison."""


def run(place: Path, name: str, interruption: Interruption) -> Figures:
    """The figures of a benchmark of a checkout.

    Raises:
        ParameterError: it fails there, or is not known there.
        Interrupted: before its end; the benchmark has ended, too.
    """
    with tempfile.TemporaryDirectory() as folder:
        file, log = Path(folder, "results.json"), Path(folder, "stderr")
        command = [str(place / "haptics"), "benchmark", name, "--json", str(file)]
        with log.open("w") as stderr:
            process = subprocess.Popen(
                command, cwd=place, env=_clean(), stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True
            )
        try:
            while process.poll() is None:
                if interruption.event.wait(0.1):
                    raise Interrupted
        finally:
            _end(process)
        if process.returncode or not file.is_file():
            text = log.read_text(encoding="utf-8", errors="replace").strip()[-500:]
            raise ParameterError([f"--compare: benchmark {name} of {place.name} failed: {text}"])
        return figures_of(json.loads(file.read_text(encoding="utf-8")))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program, and what it has begun, if it still runs."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def figures_of(document: Mapping[str, Any]) -> Figures:
    """The figures of a benchmark's results that are positive numbers: ratios of others have no meaning."""
    rows = (row for row in document["results"] if isinstance(row.get("value"), int | float) and row["value"] > 0.0)
    return {row["name"]: (float(row["value"]), row["target"].startswith(">")) for row in rows}


def measure_pairs(
    places: Sequence[Path], pairs: int, measure: Callable[[Path], Figures]
) -> list[tuple[Figures, Figures]]:
    """Figures of two checkouts by turns, after one of each that does not count: it compiles."""
    for place in places:
        measure(place)
    found = []
    for i in range(pairs):
        order = (0, 1) if i % 2 == 0 else (1, 0)
        turn = {which: measure(places[which]) for which in order}
        found.append((turn[0], turn[1]))
        print(f"    pair {i + 1} of {pairs}", flush=True)
    return found


def compare(pairs: Sequence[tuple[Figures, Figures]]) -> list[Comparison]:
    """The figures that both commits have in all pairs, in the order of the second."""
    names = [name for name in pairs[0][1] if all(name in one for pair in pairs for one in pair)]
    return [_compared(name, [(a[name][0], b[name][0]) for a, b in pairs], pairs[0][1][name][1]) for name in names]


def _compared(name: str, values: Sequence[tuple[float, float]], more_is_better: bool) -> Comparison:
    logs = [math.log(b / a) for a, b in values]
    mean, n = statistics.fmean(logs), len(logs)
    wide = float(student.ppf(0.5 * (1.0 + CONFIDENCE), n - 1)) * statistics.stdev(logs) / math.sqrt(n)
    low, high = math.exp(mean - wide), math.exp(mean + wide)
    above, below = low > 1.0 + SAME, high < 1.0 - SAME
    slower, faster = (below, above) if more_is_better else (above, below)
    verdict = "slower" if slower else "faster" if faster else "same"
    first, second = (statistics.median(one) for one in zip(*values, strict=True))
    return Comparison(name, first, second, math.exp(mean), low, high, verdict)


def table(found: Sequence[Comparison]) -> str:
    """The comparisons as text."""
    lines = [f"{'':48} {'first':>10} {'second':>10} {'ratio':>7}   {100 * CONFIDENCE:g} %"]
    lines += [
        f"{one.name:48} {one.first:10.4g} {one.second:10.4g} {one.ratio:7.3f}   {one.low:.3f} to {one.high:.3f}  "
        f"{'' if one.verdict == 'same' else one.verdict}".rstrip()
        for one in found
    ]
    return "\n".join(lines)


def main(names: Sequence[str], first: str, second: str, pairs: int, file: str | None) -> int:
    """`haptics benchmark NAME --compare A B`: returns 0 if nothing is slower, 1 if something is.

    Args:
        names: of the benchmarks.
        first, second: commits.
        pairs: number of turns of both.
        file: for the results as JSON; None: none.

    Raises:
        ParameterError: a commit is unknown, or a benchmark fails.
    """
    if pairs < 2:
        raise ParameterError([f"--pairs {pairs}: must be at least 2, for an interval"])
    commits = [commit_of(first), commit_of(second)]
    results: dict[str, list[Comparison]] = {}
    with Interruption() as interruption, checkouts(commits) as places:
        for name in names:
            print(f"{name}: {first} ({commits[0][:10]}) and {second} ({commits[1][:10]}), {pairs} pairs", flush=True)
            measure = partial(run, name=name, interruption=interruption)
            try:
                results[name] = compare(measure_pairs(places, pairs, measure))
            except Interrupted:
                return interruption.status
            print(table(results[name]), flush=True)
    if file is not None:
        rows = {name: [one._asdict() for one in found] for name, found in results.items()}
        Path(file).write_text(json.dumps({"commits": commits, "pairs": pairs, "results": rows}, indent=2) + "\n")
    return int(any(one.verdict == "slower" for found in results.values() for one in found))


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)


def checked_out() -> str:
    """The commit of this checkout, with a plus sign if files differ from it; empty where git does not know."""
    found = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no").stdout.strip()
    return "" if found.returncode else found.stdout.strip() + ("+" if changed else "")


def _clean() -> dict[str, str]:
    """The environment without what belongs to that of this checkout's programs."""
    own = str(ROOT)
    kept = {name: value for name, value in os.environ.items() if own not in value and name not in _OF_PROGRAMS}
    folders = os.environ.get("PATH", "").split(os.pathsep)
    return kept | {"PATH": os.pathsep.join(folder for folder in folders if own not in folder)}
