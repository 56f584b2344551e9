"""A trial is closed first, then its samples and page are written: what is there whenever that is interrupted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Haptics, python, wait_until

import haptic_bench
from haptic_bench import experiment
from haptic_bench.commands import command_line
from haptic_bench.recording import bag, trial_bag
from haptic_bench.recording.samples import Samples, complete_ticks
from haptic_bench.recording.summary import is_complete
from haptic_bench.running.runner import Interruption, Outcome
from haptic_bench.trials import sweep, trial
from haptic_sim.messages import TOPICS, tick_place
from haptic_sim.parameters import ParameterError

RESULTS = ("samples.csv", "bodies.csv", "contacts.csv", "report.html")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trial that was concluded undisturbed."""
    directory = tmp_path_factory.mktemp("trial")
    one, *_ = experiment.load("corner_peg", ["duration=0.2"])
    trial.run_trial(one, "offline", directory, Interruption())
    return directory


def bare(whole: Path, directory: Path, without: tuple[str, ...] = (*RESULTS, "summary.json", "figures")) -> Path:
    """A copy of a trial without its results."""
    return Path(shutil.copytree(whole, directory, ignore=lambda _, names: set(names) & set(without)))


def read(directory: Path) -> dict[str, Any]:
    return dict(json.loads((directory / "summary.json").read_text()))


@pytest.mark.parametrize(
    ("number", "place"), [(signal.SIGINT, "read_samples"), (signal.SIGTERM, "_write_results")], ids=["int", "term"]
)
def test_a_second_signal_leaves_a_closed_trial(
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    number: signal.Signals,
    place: str,
) -> None:
    """Summary and bag are there when the work begins that can be left, and `report` makes all that it would have."""
    directory = bare(whole, tmp_path / "trial")
    loaded = experiment.read_resolved(directory / "experiment.yaml")
    seen = []
    real = getattr(trial, place)

    def interrupted(*arguments: Any) -> Any:
        seen.append(read(directory))
        real(*arguments)
        os.kill(os.getpid(), number)
        pytest.fail("the signal was not heeded")

    monkeypatch.setattr(trial, place, interrupted)
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGINT)  # ends the trial
        summary = trial.conclude(loaded, "offline", directory, Outcome("interrupted", wall_time=1.0), interruption)
        assert interruption.count == 2
    monkeypatch.undo()
    assert [summary] == seen
    assert not is_complete(summary) and summary["metrics"] == {}
    assert (summary["status"], summary["ticks"], summary["bag"]) == ("interrupted", 103, trial_bag.digest(directory))
    said = capfd.readouterr().err
    assert said == (
        "haptics: trial closed: interrupted, 103 ticks; writing samples and page (Ctrl-C again to leave that to "
        f"`./haptics report {directory}`)\n"
    )
    assert bag.read(directory / "bag")
    assert not [path for path in directory.iterdir() if "draft" in path.name]
    if place == "read_samples":
        assert {path.name for path in directory.iterdir()} == {"bag", "experiment.yaml", "summary.json"}
        with pytest.raises(ParameterError, match="was closed without samples; `haptics report "):
            haptic_bench.load_trial(directory)

    assert command_line.main(["report", str(directory)]) == 0
    summary = read(directory)
    assert "complete" not in summary
    assert summary["ticks"] == len(Samples.read_csv(directory / "samples.csv")) == 103
    assert summary["metrics"].keys() == read(whole)["metrics"].keys()
    for name in RESULTS[:-1]:
        assert (directory / name).read_bytes() == (whole / name).read_bytes()
    assert (directory / "report.html").read_text().rstrip().endswith("</html>")


def test_the_first_signal_of_all_only_says_what_the_next_would_do(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    directory = bare(whole, tmp_path / "trial")
    loaded = experiment.read_resolved(directory / "experiment.yaml")
    real = trial.read_samples
    monkeypatch.setattr(trial, "read_samples", lambda *given: (os.kill(os.getpid(), signal.SIGINT), real(*given))[1])
    with Interruption() as interruption:
        summary = trial.conclude(loaded, "offline", directory, Outcome("done"), interruption)
    assert is_complete(summary) and summary["status"] == "done" and interruption.count == 1
    assert capfd.readouterr().err.count("trial closed: done, 103 ticks; writing samples and page (Ctrl-C again") == 1


def test_another_exception_is_not_taken_for_leaving() -> None:
    def fail() -> None:
        raise OSError("full")

    with pytest.raises(OSError, match="full"), Interruption() as interruption:
        interruption.run_interruptibly(fail, "")


def test_what_was_left_may_have_raised_anything() -> None:
    """A library may make another exception of the one that came up in it."""

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            experiment.load("corner_peg")
        except BaseException as error:
            raise ImportError("broken") from error
        pytest.fail("the signal was not heeded")

    trace = sys.gettrace()
    with Interruption(lambda text: None) as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.run_interruptibly(work, "") is None
        assert sys.gettrace() is trace
        os.kill(os.getpid(), signal.SIGINT)  # is only counted again
        assert interruption.run_interruptibly(lambda: len(experiment.load("corner_peg")), "") == 1
    assert interruption.count == 3


# A command that is interrupted twice, first while samples are read, and then while LLVM asks for the code of a kernel.
TWICE = """
import os, signal, sys
import numba
from numba.core.registry import cpu_target
from haptic_bench.commands import command_line
from haptic_bench.trials import trial

engine, read_samples = cpu_target.target_context.codegen()._engine._ee, trial.read_samples
answer = engine._object_cache_getbuffer

def interrupted_answer(*given):
    os.kill(os.getpid(), signal.SIGINT)
    print("called back")
    return answer(*given)

def read(*given):
    os.kill(os.getpid(), signal.SIGINT)
    engine._object_cache_getbuffer = interrupted_answer
    print("kernel:", numba.njit(lambda x: x + 1)(1))
    return read_samples(*given)

trial.read_samples = read
sys.exit(command_line.main(sys.argv[1:]))
"""


def test_the_second_signal_may_come_while_a_kernel_is_loaded(tmp_path: Path) -> None:
    """An exception in what LLVM calls back would leave it without the code that it goes on with."""
    run = ("run", "corner_peg", "--mode", "offline", "--duration", "0.1", "--out", "out")
    done = python("-c", TWICE, *run, cwd=tmp_path)
    assert done.status == 130, done.err
    said = done.out.splitlines()
    assert said[:2] == ["called back", "kernel: 2"] and "samples and page were left to" in said[-1]
    assert done.err.count("haptics: trial closed: done, ") == done.err.count("\n") == 1
    summary = read(tmp_path / "out")
    assert not is_complete(summary) and summary["bag"] == trial_bag.digest(tmp_path / "out")


@pytest.mark.parametrize("place", ["bodies.csv", "summary.json"])
def test_a_trial_that_is_killed_while_it_is_concluded_is_made_whole(whole: Path, tmp_path: Path, place: str) -> None:
    """Whatever file is written next: those that are there are whole, and `report` makes the others."""
    directory = bare(whole, tmp_path / "trial")
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from haptic_bench import experiment; from haptic_bench.trials import trial\n"
        "from haptic_bench.running.runner import Outcome\n"
        "directory, place = Path(sys.argv[1]), sys.argv[2]\n"
        "write, real, seen = Path.replace, trial.complete, []\n"
        "def replace(self, to):\n"
        "    if Path(to).name == place and (place != 'summary.json' or seen):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    seen.append(to)\n"
        "    return write(self, to)\n"
        "Path.replace = replace\n"
        "if place == '':\n"
        "    trial.complete = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "one = experiment.read_resolved(directory / 'experiment.yaml')\n"
        "trial.conclude(one, 'offline', directory, Outcome('done'))\n"
    )
    done = python("-c", code, str(directory), place, cwd=tmp_path)
    assert done.status == -signal.SIGKILL, done.err
    assert not is_complete(read(directory)) and not (directory / "report.html").exists()
    assert command_line.main(["report", str(directory)]) == 0
    mended, expected = read(directory), read(whole)
    for key in ("experiment", "status", "ticks", "metrics", "claims", "coordinates", "bag"):
        assert mended[key] == expected[key], key
    for name in RESULTS[:-1]:
        assert (directory / name).read_bytes() == (whole / name).read_bytes()


def test_ticks_are_counted_without_reading_the_messages(whole: Path, tmp_path: Path) -> None:
    """As the samples have rows, whatever is missing."""
    assert all(tick_place() == 4 + kind().offsets["tick"][0] for kind in TOPICS.values())
    messages = trial_bag.read_messages(whole)
    ticks = trial_bag.read_ticks(whole)
    assert set(ticks) == {"device_state", "device_command", "tool_state", "tool_command"}
    for topic, found in ticks.items():
        layout = TOPICS[topic]
        assert found.tolist() == [int.from_bytes(data[28:36], "little", signed=True) for data in messages[topic]], (
            layout
        )
    rng = np.random.default_rng(20260)
    one = experiment.read_resolved(whole / "experiment.yaml")
    for _ in range(5):
        kept = {topic: rng.random(len(some)) < 0.9 for topic, some in messages.items()}
        partial = {
            topic: [m for m, keep in zip(some, kept[topic], strict=True) if keep] for topic, some in messages.items()
        }
        rows = complete_ticks({topic: found[kept[topic]] for topic, found in ticks.items()})
        samples = trial.analysis_of(one.experiment).samples(one, partial)
        assert samples["tick"].tolist() == rows.tolist() and 0 < len(rows) < 103
    assert complete_ticks({}).size == complete_ticks({}, standalone=True).size == 0


def test_an_index_that_cannot_be_followed_is_named(whole: Path, tmp_path: Path) -> None:
    directory = bare(whole, tmp_path / "trial", without=())
    path = directory / "bag" / "bag_0.mcap"
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(bag.BagError, match="has no end"):
        trial_bag.read_ticks(directory)
    path.write_bytes(b"")
    with pytest.raises(bag.BagError, match="cannot be read"):
        trial_bag.read_ticks(directory)


def test_the_second_ctrl_c_ends_the_command_with_a_closed_trial(
    haptics: Callable[..., Haptics], tmp_path: Path
) -> None:
    """For any moment of the second one: the summary is there, and the bag is as it says."""
    out = tmp_path / "out"
    run = haptics("run", "corner_peg", "--mode", "offline", "--duration", "3000", "--out", str(out))
    recorded = out / "bag" / "bag_0.mcap"
    wait_until(lambda: recorded.is_file() and recorded.stat().st_size > 5_000_000, "ticks")
    run.interrupt()
    wait_until(lambda: (out / "summary.json").is_file(), "the closed trial")
    run.interrupt()
    assert run.wait() == 130, run.err
    assert run.err.count("haptics: trial closed: interrupted, ") == run.err.count("\n") == 1
    summary = read(out)
    assert summary["status"] == "interrupted" and summary["bag"] == trial_bag.digest(out)
    if "complete" in summary:
        assert "samples and page were left to" in run.out
    assert command_line.main(["report", str(out)]) == 0
    assert read(out)["ticks"] == len(Samples.read_csv(out / "samples.csv")) == summary["ticks"]


def test_the_table_of_a_sweep_has_what_was_completed_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    due = experiment.load("corner_peg", ["duration=0.05", "contact.stiffness=[1000,2000]"])
    real = trial.complete
    monkeypatch.setattr(trial, "complete", lambda one, directory, closed: dict(closed))
    sweep.run_all(due, "offline", tmp_path, Interruption(), True)
    monkeypatch.setattr(trial, "complete", real)
    assert (tmp_path / "sweep.csv").read_text().splitlines()[0] == "contact.stiffness,status"
    assert not sweep.finished(due, "offline", tmp_path)
    assert command_line.main(["report", str(tmp_path)]) == 0
    head, *rows = (tmp_path / "sweep.csv").read_text().splitlines()
    assert head.startswith("contact.stiffness,status,max_penetration_x") and len(rows) == 2
    assert len(sweep.finished(due, "offline", tmp_path)) == 2
