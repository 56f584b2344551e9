"""Trials, and sessions of studies, in parallel on Dask workers: processes of this machine, or those of any scheduler.

A trial computes the same bits wherever it runs. A worker must have the same code and the same versions, which is
checked, and the files that a world names at the same paths. The experiment itself comes from the scheduler. A worker
that sees the sweep's directory writes into it; the recording of another worker is sent back over the scheduler.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import io
import logging
import queue
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from haptic_bench.experiment import Trial, write_resolved
from haptic_bench.recording.trial_bag import versions
from haptic_bench.running.runner import Interruption, Outcome
from haptic_bench.set_up import on_demand
from haptic_bench.trials.trial import conclude, run_trial
from haptic_sim.installed import PACKAGE_NAMES, PACKAGES
from haptic_sim.parameters import ParameterError

TOKEN = ".workers"  # in the sweep's directory while it runs: who reads it shares the directory
POLL = 0.2  # [s]
STOP = 1.0  # [s] between two questions of a worker whether to stop
ATTEMPTS = 4  # of a trial whose worker is killed
CONNECT = "10 s"


def require() -> None:
    """Install Dask into the checkout's environment if it is not there.

    Raises:
        ParameterError: it cannot be installed, or the environment is not ours.
    """
    root = Path(__file__).resolve().parents[2]
    lock = root / "requirements-dask.lock"
    if not (lock.is_file() and Path(sys.prefix).resolve().is_relative_to(root / ".haptics")):
        if importlib.util.find_spec("distributed") is None:
            raise ParameterError(
                ["--jobs, --scheduler: need Dask: pip install 'haptics[dask]', or pip install distributed"]
            )
        return
    with open(Path(sys.prefix, "dask.stamp"), "a+", encoding="utf-8") as stamp:
        fcntl.flock(stamp, fcntl.LOCK_EX)  # another command may be installing it
        stamp.seek(0)
        wanted = lock.read_text(encoding="utf-8")
        importlib.invalidate_caches()
        if stamp.read() != wanted or importlib.util.find_spec("distributed") is None:
            _install(lock, wanted.count("=="))
            stamp.truncate(0)
            stamp.write(wanted)


def _install(lock: Path, count: int) -> None:
    """Install the packages of a lock file into this environment."""
    print(f"haptics: installing Dask for trials side by side (up to {count} packages)", file=sys.stderr, flush=True)
    if reason := on_demand.install(lock):
        raise ParameterError([f"--jobs, --scheduler: Dask cannot be installed: {reason}"])
    importlib.invalidate_caches()


@functools.cache
def code() -> dict[str, str]:
    """Everything that the bits of a trial depend on: versions, and a digest of this program."""
    found = hashlib.sha256()
    for package in PACKAGE_NAMES:
        for path in sorted((PACKAGES / package).rglob("*.py")):
            found.update(path.relative_to(PACKAGES).as_posix().encode() + b"\0" + path.read_bytes())
    return {**versions(), "haptics": found.hexdigest()[:12]}


class Asked(Interruption):
    """Whether the sweep was interrupted, as its client tells through the scheduler."""

    def __init__(self, name: str):
        super().__init__(lambda text: None)  # a run that is asked to end here is thrown away
        from distributed import Event, get_client

        self._event, self._at = Event(name, get_client()), time.monotonic()

    def __bool__(self) -> bool:
        if not self.count and time.monotonic() > self._at + STOP:
            self._at = time.monotonic()
            try:
                self.count = int(self._event.is_set())
            except Exception:  # the scheduler is gone: Dask raises errors of many kinds
                self.count = 1
        return self.count > 0


def check_versions(expected: Mapping[str, str]) -> None:
    """Refuse to work here with other versions than those of the program that asks.

    Raises:
        ParameterError: this worker has others.
    """
    own = code()
    other = [f"{name} {own.get(name)} instead of {value}" for name, value in expected.items() if own.get(name) != value]
    if other:
        raise ParameterError([f"worker on {_host()}: has {', '.join(other)}: results would not be the same bits"])


def perform(
    token: str, expected: dict[str, str], trial: Trial, mode: str, target: str
) -> tuple[dict[str, Any], bytes | None]:
    """Run a trial on a worker; its summary, and its directory as a tar archive if that is not shared.

    Raises:
        ParameterError: the worker has other versions.
    """
    check_versions(expected)
    directory, asked = Path(target), Asked(token)
    if shares(directory.parent, token):
        shutil.rmtree(directory, ignore_errors=True)  # of an attempt whose worker was killed
        directory.mkdir()
        summary = run_trial(trial, mode, directory, asked)
        if asked:
            shutil.rmtree(directory, ignore_errors=True)
        return summary, None
    with tempfile.TemporaryDirectory(prefix="haptics-") as folder:
        summary = run_trial(trial, mode, Path(folder), asked)
        return summary, archived(Path(folder))


def archived(folder: Path) -> bytes:
    """Content of a folder, as a tar archive."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(folder, ".")
    return archive.getvalue()


def _host() -> str:
    import platform

    return platform.node()


def shares(directory: Path, token: str) -> bool:
    """Whether this machine sees the sweep's directory."""
    try:
        return (directory / TOKEN).read_text(encoding="utf-8") == token
    except OSError:
        return False


def share_out(
    function: Callable[..., Any],
    items: Mapping[str, tuple[Any, ...]],
    directory: Path,
    interruption: Interruption,
    *,
    jobs: int,
    scheduler: str,
) -> Iterator[tuple[str, Any]]:
    """Results of `function(token, versions, *item)` on workers; by label, as they end.

    Args:
        function: of a module, with arguments and result that can be sent. It compares the versions (`check_versions`),
            and asks now and then whether to stop (`Asked`).
        items: further arguments by label.
        directory: on which workers see whether they share the disk (`shares`); the token is in it meanwhile.
        interruption: ends it early.
        jobs, scheduler: see `sweep.run_all`.

    Yields:
        Label and result; None of what was given up because its worker was killed ATTEMPTS times.
    """
    from distributed import Event, KilledWorker

    if not items:
        return
    token, left = uuid.uuid4().hex, set(items)
    (directory / TOKEN).write_text(token, encoding="utf-8")
    try:
        with _client(min(jobs, len(items)), scheduler, token) as client:
            ended: queue.Queue[Any] = queue.Queue()
            labels: dict[str, str] = {}
            pending = []
            for label, item in items.items():
                if interruption:  # while the workers started
                    break
                future = client.submit(function, token, code(), *item, key=f"{label}-{token}")
                labels[future.key] = label
                pending.append(future)
                future.add_done_callback(ended.put)
            while left and not interruption:
                try:
                    future = ended.get(timeout=POLL)
                except queue.Empty:
                    continue
                label = labels[future.key]
                error = future.exception() if future.status == "error" else None
                result = None
                if error is not None and not isinstance(error, KilledWorker):
                    raise error if isinstance(error, ParameterError) else _unknown(error)
                if error is None:
                    if future.status != "finished":  # cancelled, or lost with the scheduler
                        raise ParameterError([f"the scheduler did not complete {label} ({future.status})"])
                    result = future.result()
                future.release()
                left.remove(label)
                yield label, result
            if left:
                with contextlib.suppress(Exception):  # the scheduler may be gone
                    Event(token, client).set()
                    client.cancel(pending)
    finally:
        (directory / TOKEN).unlink(missing_ok=True)


def run(
    trials: Sequence[Trial],
    mode: str,
    directory: Path,
    interruption: Interruption,
    *,
    jobs: int,
    scheduler: str,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run trials on workers; labels and summaries as they end. Arguments as for `sweep.run_all`.

    A trial whose worker was killed is run again, up to ATTEMPTS times; then it has failed.
    """
    directory = directory.resolve()
    left = {one.label: one for one in trials}
    items = {one.label: (one, mode, str(directory / one.folder)) for one in trials}
    try:
        for label, result in share_out(perform, items, directory, interruption, jobs=jobs, scheduler=scheduler):
            one = left.pop(label)
            if result is None:
                reason = f"its worker was killed {ATTEMPTS} times: out of memory, perhaps"
                summary = _failed(one, mode, directory / one.folder, reason)
            else:
                summary, archive = result
                if archive is not None:
                    unpack(archive, directory / one.folder)
            yield label, summary
    finally:
        for one in left.values():  # ended half way
            shutil.rmtree(directory / one.folder, ignore_errors=True)


@contextlib.contextmanager
def _client(jobs: int, scheduler: str, token: str) -> Iterator[Any]:
    """A client of a scheduler: of `jobs` processes of this machine, over the loopback alone, or of another."""
    import dask
    from distributed import Client, LocalCluster, Nanny

    quiet = {
        "distributed.scheduler.allowed-failures": ATTEMPTS - 1,
        "distributed.worker.daemon": False,  # those of a graph are its children
        "distributed.comm.timeouts.connect": CONNECT,
    }
    _ignore_terminal()
    with dask.config.set(quiet), contextlib.ExitStack() as stack:
        if scheduler:
            how = {"scheduler_file": scheduler} if Path(scheduler).is_file() else {"address": scheduler}
            try:
                client = Client(**how, timeout=CONNECT, set_as_default=False)
            except (OSError, ValueError, TypeError, KeyError) as error:
                reason = str(error).splitlines()[0]
                raise ParameterError([f"--scheduler {scheduler}: cannot be reached: {reason}"]) from error
            yield stack.enter_context(client)
            return
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="haptics-workers-"))
        # Ctrl-C in a terminal reaches the workers too: they leave it to this process. Dask's thread, and the processes
        # that it starts, have the mask of this one, in which the signal waits until they are there.
        resource_tracker.ensure_running()  # which would else unblock the signal in Dask's thread
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            cluster = LocalCluster(
                n_workers=jobs,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
                worker_dashboard_address=None,
                memory_limit=0,
                local_directory=folder,
                worker_class=functools.partial(Nanny, worker_class=_worker),
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        stack.enter_context(cluster)
        yield stack.enter_context(Client(cluster, set_as_default=False))


def _worker(**options: Any) -> Any:
    """A Dask worker, in its own process, that prints nothing."""
    from distributed import Worker

    _ignore_terminal()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # for the nodes of its trials
    return Worker(**options)


def _ignore_terminal() -> None:
    """Take the handlers away that Dask gave to its loggers.

    It does so when it is imported, in a worker before the configuration of this process arrives there, so that no
    level in a configuration reaches a worker. What workers have to say is in the summaries of their trials.
    """
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado", "bokeh", "asyncio"):
            logger = logging.getLogger(name)
            logger.handlers = [logging.NullHandler()]
            logger.propagate = False


def _unknown(error: BaseException) -> ParameterError:
    return ParameterError([f"a worker cannot run trials: {type(error).__name__}: {error}; is haptics installed there?"])


def _failed(trial: Trial, mode: str, target: Path, reason: str) -> dict[str, Any]:
    """Conclude a trial that no worker brought to its end."""
    target.mkdir(exist_ok=True)
    if not (target / "experiment.yaml").exists():
        write_resolved(trial.in_mode(mode), target)
    return conclude(trial, mode, target, Outcome("failed", reason))


def unpack(archive: bytes, target: Path) -> None:
    """Make a directory from what a worker sent."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(target, filter="data")
