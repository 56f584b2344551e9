"""The built-in runner: the nodes of a graph as processes, watched and always stopped.

It does the work of `ros2 launch` where ROS 2's launch is not installed. The leader (the driver, or without a device the
environment) decides the end: when it ends well, the trial ends well; any other node that ends before it ends the trial
with an error.

The processes are forks of this one, which has imported the modules of all nodes: separate imports took most of the time
from the command to the first tick. This process opens no part of the middleware, and none of its threads holds a lock
that a node needs.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TypeVar

from haptic_bench.catalogue import config_folder
from haptic_bench.running.graph import NodeSpec, write_parameters
from haptic_bench.set_up import failures
from haptic_ros.middleware import fast_dds
from haptic_ros.signal_event import SignalEvent

LAST_LINES = 12
STOP_LEADER = 1.2  # [s] for the leader to end the trial and the recorder to close the bag: more than `leader.CLOSING`
STOP_ALL = 1.7  # [s] after which what still runs is killed; both together stay below 2 s

SOON = 10.0  # [s] after its start in which a node that ends counts as one that cannot run
MOST_ENDS = 3  # of such a node, after which the graph is given up
PAUSE = 0.5  # [s] until a node that has ended is started again
POLL_PERIOD = 0.05  # [s] between two polls of the nodes, where nothing wakes the program
DYING = 1.0  # [s] for a process that was killed to have a status

_LOGGED = re.compile(r"\[[A-Z]+\] \[[\d.]+\] \[")  # the first line of what a node's logger said
_ERROR = re.compile(r"\[(ERROR|FATAL)\] \[[\d.]+\] \[[^\]]+\]: (.+)")  # of a node's logger
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Done = TypeVar("Done")


@dataclass(frozen=True)
class Outcome:
    """End of a trial: status `done`, `interrupted` or `failed`; the reason; seconds from first to last tick."""

    status: str
    reason: str = ""
    start_up: float | None = None  # [s] from the call to the first tick
    wall_time: float = 0.0
    namespace: str = ""  # of the trial's topics, with the slash in front


class _Left(BaseException):
    """The current task is to be stopped."""


class Interruption:
    """SIGINT, SIGTERM and SIGHUP as a flag that can be waited for; the second signal kills what is waited for.

    After nohup, SIGHUP is none. `status` is the exit status of a program that the first one ends.

    Args:
        notify: says something to the user; on stderr by default.
    """

    def __init__(self, notify: Callable[[str], object] | None = None) -> None:
        self.event = SignalEvent()
        self.count = 0
        self.status = 128 + signal.SIGINT
        self._notify = notify or _notify
        self._previous: dict[int, object] = {}
        self._leave_after: int | None = None  # signals, while something is done that can be left
        self._offer = ""

    def __enter__(self) -> Interruption:
        for number in failures.heeded():
            self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return self.count > 0

    def run_interruptibly(self, work: Callable[[], Done], offer: str) -> Done | None:
        """Run `work` in the main thread, which the next signal interrupts, but not the first of all.

        It is interrupted by an exception, which ends here; so `work` must be safe to interrupt at any point.

        Args:
            work: function that is called.
            offer: text that offers the interruption, shown at once if there was a signal, or else at the first.

        Returns:
            Result of `work`, None if it was interrupted.
        """
        trace = sys.gettrace()  # of a debugger, or what counts the lines that tests execute
        if self.count:
            self._notify(offer)
        self._offer, self._leave_after = offer, max(1, self.count)
        try:
            return work()
        except BaseException:
            if self.count <= self._leave_after:
                raise
            return None  # it was interrupted; what catches any exception on its way may have made another one of it
        finally:
            self._leave_after = None
            if sys.gettrace() is not trace:
                sys.settrace(trace)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.count:
            self.status = 128 + number
        self.count += 1
        self.event.set()
        if self._leave_after is None:
            return
        if self.count > self._leave_after:
            self._leave(frame)
        else:
            self._notify(self._offer)

    def _leave(self, frame: FrameType | None) -> None:
        """Let the next line of haptics' own code raise _Left, as a debugger ends a program.

        It is not raised here: in a library that was called back from C (llvmlite, while it loads a kernel) nobody
        takes an exception, and what the library then uses was never set.
        """

        def leave(frame: FrameType, event: str, argument: object) -> None:
            if self._leave_after is not None and _is_ours(frame):
                raise _Left

        while frame is not None and frame.f_globals is not globals():  # that of `do` is left by nothing
            if _is_ours(frame):
                frame.f_trace = leave
            frame = frame.f_back
        sys.settrace(leave)


def _is_ours(frame: FrameType) -> bool:
    """Whether a frame executes a module of haptics, other than this one."""
    return frame.f_globals is not globals() and str(frame.f_globals.get("__name__")).startswith("haptic_")


def _notify(text: str) -> None:
    """Say something on stderr, in place of a bar of progress if there is one; within a signal's handler too."""
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    with contextlib.suppress(OSError):
        os.write(2, f"{clear}haptics: {text}\n".encode(errors="replace"))


class Process:
    """One node as a process: its output goes to a log file, its last lines are kept."""

    def __init__(
        self,
        spec: NodeSpec,
        arguments: Sequence[str],
        log: Path,
        changed: threading.Event,
        line: Callable[[str], object],
    ):
        self.name = spec.name
        self._segments: set[str] = set()
        self.last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self._error = ""  # that its logger said last, if nothing but its other lines came after it
        self._has_failed = False  # whether that is what ended it (FATAL), and stays: others may follow from it
        output, writing = os.pipe()
        self._process = multiprocessing.get_context("fork").Process(
            target=_run_program, args=(spec.module, arguments, writing, output), name=spec.name
        )
        # What is sent before the child handles signals itself waits: its inherited handlers would swallow it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        gc.freeze()  # what a child inherits is nothing that its collector need look at
        try:
            self._process.start()
        finally:
            gc.unfreeze()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(writing)
        self._output = output
        self._reader = threading.Thread(target=self._read, args=(log, changed, line), daemon=True)

    def start_reading(self) -> None:
        """Read its output from now on, in a thread: to be called when all processes have been forked."""
        self._reader.start()

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.exitcode

    def send(self, number: int) -> None:
        """Send a signal if it still runs."""
        if self.status is None and self._process.pid is not None:
            os.kill(self._process.pid, number)

    def wait(self, deadline: float) -> bool:
        """Wait until it ends or `deadline` (monotonic) has passed; whether it ended."""
        self._process.join(max(0.0, deadline - time.monotonic()))
        return self.status is not None

    def poll(self) -> None:
        """Note the segments of the running process, and let it end if it was killed; to be called repeatedly."""
        self._note_shared_memory()
        self._release_killed()

    def kill_after(self, deadline: float) -> None:
        """Wait until it ends, and kill it if it has not before `deadline` (monotonic)."""
        if not self.wait(deadline):
            self._note_shared_memory()
            self.send(signal.SIGKILL)

    def _release_killed(self) -> None:
        """Let all threads of a killed process end: only then has it a status.

        Those of the middleware share a core with servo threads, which come before them and may leave them no time: of a
        killed recorder up to 20 s were seen. They are moved to the other cores.
        """
        folder = Path(f"/proc/{self._process.pid}")
        with contextlib.suppress(OSError):  # it has ended
            if (folder / "stat").read_text().rpartition(") ")[2].startswith("Z"):  # its main thread has
                cores = os.sched_getaffinity(0)
                for thread in map(int, os.listdir(folder / "task")):
                    os.sched_setaffinity(thread, (cores - os.sched_getaffinity(thread)) or cores)

    def _note_shared_memory(self) -> None:
        """Remember its segments of shared memory while it runs: it removes them itself unless it is killed."""
        if not self._segments and self.status is None and self._process.pid is not None:
            self._segments = fast_dds.segments(self._process.pid)

    def finish(self) -> None:
        """Read what is left of the output of a process that has ended or was killed."""
        deadline = time.monotonic() + DYING
        while not self.wait(time.monotonic() + POLL_PERIOD) and time.monotonic() < deadline:
            self._release_killed()
        if self._reader.ident is not None:
            self._reader.join(timeout=1.0)
        if self.status is not None:  # killed, or without the memory that its own way out needs
            fast_dds.remove(self._segments)

    def describe(self, *, short: bool = False) -> str:
        """Text of how the process ended, and of its last lines unless it is to be `short`."""
        status, last = self.status, tuple(self.last_lines)  # to which the reader may add
        if status is not None and status < 0:
            try:
                how = f"killed by {signal.Signals(-status).name}"
            except ValueError:
                how = f"killed by signal {-status}"
        else:
            how = f"exit status {status}"
        if short:
            return f"{self.name} has ended ({how})" + (f": {self._error.rstrip(':')}" if self._error else "")
        if status == 1 and last and (message := error_message(last[-1])):
            return f"{self.name} ended early ({how}): {message}"
        lines = "\n".join(f"    {line}" for line in last) or "    (nothing)"
        return f"{self.name} ended early ({how}); its last lines:\n{lines}"

    def _read(self, log: Path, changed: threading.Event, line: Callable[[str], object]) -> None:
        with contextlib.ExitStack() as stack:
            output = stack.enter_context(open(self._output, encoding="utf-8", errors="replace"))
            file = None
            with contextlib.suppress(OSError):  # a full disk: the last lines are kept all the same
                file = stack.enter_context(open(log, "ab", buffering=0))  # after that of its predecessor
            for text in output:
                text = text.rstrip("\n")
                if not line(text):
                    self.last_lines.append(text)
                    if _LOGGED.match(text) and not self._has_failed:
                        self._error, self._has_failed = error_message(text), text.startswith("[FATAL]")
                    if file is not None:
                        with contextlib.suppress(OSError):
                            file.write(f"{text}\n".encode())
        # Its files are closed before it has a status, which only one thread may ask for.
        with contextlib.suppress(ChildProcessError):  # who was asked already
            os.waitid(os.P_PID, self._process.pid or 0, os.WEXITED | os.WNOWAIT)
        changed.set()


def error_message(line: str) -> str:
    """Text of a line of a node's logger if it is an error, or ends the node; else empty."""
    message = _ERROR.match(line)
    return message[2] if message else ""


_UNSTABLE = re.compile(r"unstable: .*")


def _reason(process: Process) -> str:
    """Reason for the early end of a process: the instability of the trial, if reported, else how the process ended."""
    process.finish()
    reasons = [match[0] for line in tuple(process.last_lines) if (match := _UNSTABLE.search(line))]
    return reasons[-1] if reasons else process.describe()


def _run_program(module: str, arguments: Sequence[str], writing: int, output: int) -> None:
    """Run `python -m MODULE ARGUMENTS` in a forked child, in a session of its own.

    So Ctrl-C in the terminal reaches the runner alone, which stops the nodes in order.
    """
    from setproctitle import setproctitle, setthreadtitle  # ROS 2's launch, with its own processes, does without

    os.setsid()
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    os.close(writing)
    os.close(output)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    # as the parent has said it: asked for here, it would be another one where the parent has been killed meanwhile
    os.environ["HAPTICS_PARENT"] = str(multiprocessing.process.parent_process().pid)  # type: ignore[union-attr]
    sys.argv = [module, *arguments]
    setproctitle(" ".join([sys.executable, "-m", module, *arguments]))
    setthreadtitle(module.rpartition(".")[2])
    importlib.import_module(module).main()


class Progress:
    """Follows the leader's report of its ticks.

    Args:
        show: called with the number of ticks done.
        notify: says to the user what the leader wants to be known.
    """

    _LINE = re.compile(r"tick (\d+)")

    def __init__(self, show: Callable[[int], object] | None, notify: Callable[[str], object] | None = None):
        self._show, self._notify = show, notify or _notify
        self.tick: int | None = None
        self.over = False
        self.first = self.last = 0.0

    def __call__(self, line: str) -> bool:
        """Whether the line was a report."""
        if line == "end":
            self.over = True
            return True
        if line.startswith("say "):
            self._notify(line[4:])
            return True
        match = self._LINE.fullmatch(line)
        if match is None:
            return False
        now = time.monotonic()
        if self.tick is None:
            self.first = now
        self.tick, self.last = int(match[1]), now
        if self._show is not None:
            self._show(self.tick)
        return True


def run(
    specs: Sequence[NodeSpec],
    directory: Path,
    namespace: str,
    interruption: Interruption,
    show: Callable[[int], object] | None = None,
) -> Outcome:
    """Run a graph until its leader ends the trial, a node fails or the user interrupts; leaves no process behind.

    Args:
        specs: nodes, the leader first.
        directory: of the trial; receives `parameters.yaml` and `log/`.
        namespace: of the topics, as `namespaces.claim` gives it.
        interruption: asked for, and waited on.
        show: called with the number of ticks done.
    """
    called = time.monotonic()
    start = _Starter(specs, directory, namespace, interruption.event)
    progress = Progress(show)
    processes: list[Process] = []
    try:
        for spec in specs:
            processes.append(start(spec, progress if spec is specs[0] else _not_progress))
        for process in processes:
            process.start_reading()
        status, reason = _watch(processes, interruption)
    finally:
        _stop(processes, progress, interruption)
    if reason and progress.tick is not None and not _UNSTABLE.match(reason):
        reason = f"about tick {progress.tick}: {reason}"
    if progress.tick is None:
        return Outcome(status, reason, namespace=namespace)
    return Outcome(status, reason, progress.first - called, progress.last - progress.first, namespace)


class _Starter:
    """Starts the nodes of a graph; arguments as of `run`. `changed` is set when one has ended."""

    def __init__(self, specs: Sequence[NodeSpec], directory: Path, namespace: str, changed: threading.Event):
        from haptic_ros.process import prepare_forks  # needs ROS

        self._log, self._parameters = directory / "log", directory / "parameters.yaml"
        self._namespace, self._changed = namespace, changed
        self._log.mkdir()
        write_parameters(list(specs), self._parameters, namespace)
        for spec in specs:
            importlib.import_module(spec.module)
        prepare_forks()

    def __call__(self, spec: NodeSpec, line: Callable[[str], object]) -> Process:
        """A node as a process, not watched yet."""
        place = spec.namespace(self._namespace)
        arguments = [*spec.arguments, "--ros-args", *spec.remappings(), "-r", f"__ns:={place}"]
        # What the nodes say is kept in the trial's own log folder.
        arguments += ["--params-file", str(self._parameters), "--disable-external-lib-logs"]
        log = self._log / f"{spec.name.replace('/', '_')}.log"
        return Process(spec, arguments, log, self._changed, line)


def _not_progress(line: str) -> bool:
    """No line of a node that does not lead is a report of ticks."""
    return False


def keep(
    specs: Sequence[NodeSpec],
    directory: Path,
    namespace: str,
    interruption: Interruption,
    notify: Callable[[str], object] | None = None,
    *,
    restart: bool = True,
) -> Outcome:
    """Run a graph until the user interrupts, and start again each node that ends; leaves no process behind.

    A node that ends for the MOST_ENDS-th time within SOON of its start ends the graph, with the reason; without
    `restart` the first does. Arguments as of `run`; `notify` says something to the user, on stderr by default.
    """
    notify = notify or _notify
    os.environ.update(comings_and_goings())
    start = _Starter(specs, directory, namespace, interruption.event)
    running = False

    def show(tick: int) -> None:
        nonlocal running
        if not running:
            running = True
            notify(f"{namespace} is running; `haptics view {namespace[1:]}` shows it, Ctrl-C stops it")

    progress = Progress(show, notify)
    processes: list[Process] = []
    begun, failures_of = [0.0] * len(specs), [0] * len(specs)
    due: dict[int, float] = {}  # when which node is started again

    def launch(i: int) -> Process:
        begun[i] = time.monotonic()
        return start(specs[i], progress if i == 0 else _not_progress)

    if "progress" not in specs[0].nodes[specs[0].name]:  # the leader is on another host
        notify(f"{namespace}: {', '.join(spec.name for spec in specs)} here; Ctrl-C stops")
    status, reason = "interrupted", ""
    try:
        processes += map(launch, range(len(specs)))
        for process in processes:
            process.start_reading()
        while not interruption and not reason:
            now = time.monotonic()
            for i, process in enumerate(processes):
                process.poll()
                if process.status is None:
                    continue
                if i not in due:
                    process.finish()
                    failures_of[i] = failures_of[i] + 1 if now < begun[i] + SOON else 1
                    if not restart or failures_of[i] == MOST_ENDS:
                        status, reason = "failed", _reason(process)
                        break
                    due[i] = now + PAUSE
                    notify(f"{process.describe(short=True)}; the device stays passive, {process.name} is started again")
                elif now >= due[i]:
                    del due[i]
                    processes[i] = launch(i)
                    processes[i].start_reading()
            wait = min(due.values(), default=now + POLL_PERIOD) - now
            interruption.event.wait(min(max(wait, 0.01), POLL_PERIOD))
            if not interruption:
                interruption.event.clear()
    finally:
        _stop(processes, progress, interruption)
    return Outcome(status, reason, namespace=namespace)


def comings_and_goings(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables with which the middleware outlives killed nodes (config/fastdds.xml); none with a profile of the user.

    With LOCALHOST, ROS 2 takes shared memory whatever a profile says. So where nodes find this machine alone, the
    profile says that.
    """
    name, reach = "FASTRTPS_DEFAULT_PROFILES_FILE", "ROS_AUTOMATIC_DISCOVERY_RANGE"
    if name in variables:
        return {}
    # another middleware reads no profile, and would go farther
    reads_it = (variables.get("RMW_IMPLEMENTATION") or "rmw_fastrtps").startswith("rmw_fastrtps")
    if reads_it and variables.get(reach) == "LOCALHOST" and not variables.get("ROS_STATIC_PEERS"):
        return {name: str(config_folder() / "fastdds_loopback.xml"), reach: "SUBNET"}
    return {name: str(config_folder() / "fastdds.xml")}


def _watch(processes: list[Process], interruption: Interruption) -> tuple[str, str]:
    """Wait for the end of the trial; status and reason."""
    leader = processes[0]
    while True:
        if interruption:
            return "interrupted", ""
        for process in processes:
            process.poll()
        for process in processes[1:]:
            if process.status is not None and leader.status != 0:
                return "failed", _reason(process)
        if leader.status is not None:
            if leader.status == 0:
                return "done", ""
            return "failed", _reason(leader)
        interruption.event.wait(POLL_PERIOD)
        if not interruption:
            interruption.event.clear()


def _stop(processes: list[Process], progress: Progress, interruption: Interruption) -> None:
    """Let the leader end the trial, then stop the others while it shuts down; kill what does not end in time."""
    begun = time.monotonic()
    signals_before = interruption.count
    if processes:
        processes[0].send(signal.SIGINT)
        while interruption.count == signals_before and time.monotonic() < begun + STOP_LEADER:
            dead = any(process.status is not None for process in processes[1:])
            if progress.over or dead or processes[0].wait(time.monotonic() + 0.02):
                break
    for process in processes[1:]:
        process.send(signal.SIGINT)
    deadline = begun + STOP_ALL if interruption.count == signals_before else begun
    for process in processes:
        process.kill_after(deadline)
    for process in processes:
        process.finish()
