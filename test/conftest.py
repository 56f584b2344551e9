"""Shared by the tests: a ROS domain of their own, the command line as a process, and what it leaves behind."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import multiprocessing
import os
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import starting
from hypothesis import settings
from matplotlib.figure import Figure

import haptic_bench
from haptic_bench.commands import command_line
from haptic_view import figures

pytest.register_assert_rewrite("claim_checks", "graph_checks", "linkage_checks")
settings.register_profile("haptics", deadline=None)  # a core that stalls is no fault of what is tested
settings.register_profile("ordinary", settings.get_profile("haptics"), max_examples=30)
settings.load_profile("haptics")

ROOT = Path(__file__).resolve().parent.parent  # the checkout
PACKAGES = Path(haptic_bench.__file__).resolve().parent.parent  # what is tested: the checkout's, or as installed
collect_ignore = ["launch"]  # launch_testing's own: test_launch.py runs them
PROCESS_GRAPHS = {
    "test_dead_threads.py",
    "test_full_disk.py",
    "test_graph.py",
    "test_nodes.py",
    "test_launch.py",
    "test_realtime.py",
    "test_study_intervals.py",
}
ON_THE_CLOCK = {"test_bring_up_command.py", "test_bring_up_page.py", "test_bring_up_stand_ins.py"}
LONG = re.compile(
    r"^\s*(from|import) (subprocess|haptic_experiments|haptic_bench\.(analysis\.base|report))\b"
    r"|^\s*from haptic_bench import .*report\b"
    r"|^from conftest import .*\bpython\b",
    re.M,
)
DEADLINE = 400.0  # [s] for anything that is waited for; long, because it decides nothing but a hang, and kernels that
# were never compiled may have to be

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(list(starting.MODULES))

_left_out: list[pytest.Item] = []


def _ros_domain() -> int:
    """A domain of this process's own: the workers of one run draw the same sample, and take each its own of it."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID")).sample(range(40, 100), 60)[int(worker) % 60]


gc.set_threshold(100_000, 20, 20)  # as the command line: see haptic_bench/__main__.py
# Else each process that a test starts compiles all our sources, and each worker rewrites the assertions of all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
sys.path.append(str(ROOT))  # of the benchmarks, which are not installed
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ["ROS_DOMAIN_ID"] = str(_ros_domain())
# Read once, by the first node of the process; for those that `graph_checks.observer` makes.
_PROFILE = {"FASTRTPS_DEFAULT_PROFILES_FILE": str(Path(__file__).parent / "data" / "fastdds_udp.xml")}
os.environ |= _PROFILE


def program_variables() -> dict[str, str]:
    """The environment of a program that makes nodes: without what the nodes of the tests themselves have."""
    return {name: value for name, value in os.environ.items() if _PROFILE.get(name) != value}


def pytest_configure(config: pytest.Config) -> None:
    """Fewer random examples where exhaustive tests are left out."""
    if "not exhaustive" in config.option.markexpr:
        settings.load_profile("ordinary")


def pytest_collection(session: pytest.Session) -> None:
    """Let the workers of a run share the rewriting of assertions: each begins with another file, and finds the rest."""
    share = getattr(session.config, "workerinput", None)
    if share is None:
        return
    files = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py"))
    begin = int(share["workerid"].removeprefix("gw")) * len(files) // share["workercount"]
    for name in files[begin:] + files[:begin]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # collection will tell
            importlib.import_module(name)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that --fast leaves out: `graph` starts processes of the graph or of the command line, `long` other
    programs, or trials of experiments, here by the imports of a file. Single tests that take half a second of a
    core are marked where they are.

    Discovery may lose a race on a machine that stalls, and a watchdog of a device ends a session there: such a test has
    failed when it fails three times in a row, and one that needed another run is listed.
    """
    again = config.pluginmanager.hasplugin("rerunfailures")
    long = {path for path in {item.path for item in items} if LONG.search(path.read_text(encoding="utf-8"))}
    for item in items:
        if item.path in long:
            item.add_marker("long")
        if "haptics" in getattr(item, "fixturenames", ()) or item.path.name in PROCESS_GRAPHS:
            item.add_marker("graph")
        if again and (item.get_closest_marker("graph") or item.path.name in ON_THE_CLOCK):
            item.add_marker(pytest.mark.flaky(reruns=2))
    items.sort(
        key=lambda item: item.get_closest_marker("graph") is None
    )  # the longest: at the end no core waits for one


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Leave drawings blank where nobody looks at them: they take more time than most trials.

    A test that is marked `drawn` has them. Elsewhere commands leave the pictures of their pages out, and where a test
    itself asks for figures all but the last steps of a drawing are made: its layout and its SVG.
    """
    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker("drawn") is None:
            patch.setattr(Figure, "savefig", starting.save_blank)
            patch.setattr(figures, "_fit_labels", starting.locate_labels)
        yield


def _are_blank() -> bool:
    """Whether drawings are, in the test that runs."""
    return Figure.savefig is starting.save_blank


def pytest_collection_finish() -> None:
    """Spare the collector of garbage what stays until the end."""
    gc.freeze()


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Remember which tests are left out."""
    _left_out.extend(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which tests were left out."""
    for name, count in sorted(Counter(item.path.name for item in _left_out).items()):
        terminalreporter.write_line(f"LEFT OUT {count} of {name}")


def examples(count: int) -> int:
    """Number of random examples of a test that has `count` of them among the exhaustive tests, fewer without."""
    return max(1, count * settings.default.max_examples // 100)


def sampled(cases: Iterable[Any], *ordinary: Any) -> list[Any]:
    """Cases of a parametrised test, of which all but the ordinary ones are exhaustive."""
    found = list(cases)
    assert all(case in found for case in ordinary), f"{ordinary}: must be among {found}"
    return [
        case
        if case in ordinary
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.exhaustive)
        for case in found
    ]


def processes_of(text: str) -> list[int]:
    """Processes whose command line holds `text`, without this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                arguments = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:  # it has ended
                continue
            if text in arguments and state != "Z":
                found.append(int(entry.name))
    return found


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait for something that must happen; a condition that takes long is asked less often."""
    begun = time.monotonic()
    while True:
        asked = time.monotonic()
        if condition():
            return
        if asked > begun + DEADLINE:
            pytest.fail(f"waited {DEADLINE:g} s in vain for {what}")
        time.sleep(max(0.01, 4.0 * (time.monotonic() - asked)))


class Answer(NamedTuple):
    """What a command returned and said."""

    status: int
    out: str
    err: str


def answer(*arguments: str) -> Answer:
    """Of `haptics ARGUMENTS` in this process, which spares the start of another."""
    out, err = io.StringIO(), io.StringIO()
    with starting.blank_pages(_are_blank()), redirect_stdout(out), redirect_stderr(err):
        try:
            status = command_line.main(arguments)
        except SystemExit as exit_:  # argparse
            status = int(exit_.code or 0)
    return Answer(status, out.getvalue(), err.getvalue())


class Python:
    """`python ARGUMENTS` as a process, with the output of its own and of its children.

    It is forked from a process that has imported the modules of commands and nodes and loaded their kernels: that would
    take most of the time of a short program. What a program itself imports is the matter of test_layers.py.

    Args:
        arguments: `-m MODULE ...`, `-c CODE ...` or `FILE ...`.
        cwd: the working directory.
        before: called first in the process; it is pickled.
    """

    def __init__(self, *arguments: str, cwd: Path, before: Callable[[], object] | None = None):
        variables = program_variables()
        variables |= {"PYTHONPATH": f"{PACKAGES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
            forkserver.ensure_running()  # which imports loaded_kernels.py
        pipes = [FORKS.Pipe(duplex=False) for _ in range(2)]
        self.process = FORKS.Process(
            target=starting.become,
            args=(arguments, str(cwd), variables, *(writing for _, writing in pipes), _are_blank(), before),
        )
        self.process.start()
        for _, writing in pipes:
            writing.close()
        self.out = self.err = ""
        self._readers = ThreadPoolExecutor(2)
        self._said = [self._readers.submit(_read, reading) for reading, _ in pipes]

    def interrupt(self) -> None:
        """As Ctrl-C does."""
        os.kill(self.process.pid, signal.SIGINT)

    def wait(self) -> int:
        """Wait for the end; the exit status."""
        self.process.join(DEADLINE)
        assert self.process.exitcode is not None, f"it has not ended in {DEADLINE:g} s"
        self.out, self.err = (text.result(DEADLINE) for text in self._said)
        self._readers.shutdown()
        return self.process.exitcode


class Haptics(Python):
    """The command line as a process, for what a process is needed for: `answer` is quicker."""

    def __init__(self, *arguments: str, cwd: Path, before: Callable[[], object] | None = None):
        super().__init__("-m", "haptic_bench", *arguments, cwd=cwd, before=before)


def python(*arguments: str, cwd: Path, before: Callable[[], object] | None = None) -> Answer:
    """What a program returned and said; arguments as of Python."""
    program = Python(*arguments, cwd=cwd, before=before)
    status = program.wait()
    return Answer(status, program.out, program.err)


def _read(pipe: Connection) -> str:
    """All that is written into a pipe, until every process has closed it."""
    with open(pipe.fileno(), closefd=False, encoding="utf-8") as text, pipe:
        return text.read()


@pytest.fixture
def haptics(tmp_path: Path) -> Iterator[Callable[..., Haptics]]:
    """Start `haptics ARGUMENTS` in an empty folder; what still runs at the end is killed, and is a failure.

    `before` is as of Python.
    """
    started: list[Haptics] = []

    def start(*arguments: str, before: Callable[[], object] | None = None) -> Haptics:
        started.append(Haptics(*arguments, cwd=tmp_path, before=before))
        return started[-1]

    yield start
    for one in started:
        if one.process.is_alive():
            one.process.kill()
            one.process.join()
    left = processes_of(str(tmp_path))
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, "processes were left behind"
