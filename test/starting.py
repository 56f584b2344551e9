"""Programs in processes that are forked from one which has imported their modules: see conftest.Python."""

from __future__ import annotations

import contextlib
import ctypes
import os
import runpy
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import IO, Any
from unittest import mock

MODULES = (
    "haptic_bench.commands.cli",
    "haptic_bench.nodes.composed",
    "haptic_bench.analysis.base",
    "haptic_sim.nodes.local_model",
    "matplotlib.backends.backend_svg",
    "scipy.spatial",
    "setproctitle",
    "loaded_kernels",
)
"""What most commands import, and the kernels that most trials call (loaded_kernels.py)."""


BLANK = '<svg xmlns="http://www.w3.org/2000/svg"></svg>\n'
PAGES = "haptic_view.figures._svg", "haptic_view.drawing.picture", "haptic_view.drawing.animation"
"""What draws the pictures of a page; most of the time of a command goes there."""


def save_blank(figure: Any, file: IO[str], **_: Any) -> None:
    """Takes the place of savefig of matplotlib's Figure in tests that do not look at drawings: see conftest.py."""
    file.write(BLANK)


def locate_labels(axes: Any, width: float) -> float:
    """Takes the place of `figures._make_room` there: labels are located and formatted, but not measured."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_major_formatter().format_ticks(axis.get_majorticklocs())
    return width


@contextlib.contextmanager
def blank_pages(blank: bool = True) -> Iterator[None]:
    """Let commands leave the pictures of their pages blank."""
    with contextlib.ExitStack() as patches:
        for name in PAGES if blank else ():
            patches.enter_context(mock.patch(name, lambda *_: BLANK))
        yield


def die_with_parent() -> None:
    """Let the kernel end this process when the one that started it is killed, as a program that is told to end."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)  # PR_SET_PDEATHSIG


def move_to(host: str, peer: str, errors: str = "") -> None:
    """Move this process to a network namespace, from which another address may be discovered.

    Args:
        host: name of the namespace.
        peer: the address.
        errors: file that takes the error output, where it is read before the process ends.
    """
    if errors:
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT, 0o600), 2)
    _enter(f"/run/netns/{host}")
    os.environ["ROS_STATIC_PEERS"] = peer


def mount_as(process: int, folder: str) -> None:
    """Let this process have the mounts of another, work in a folder, and have its temporary files there."""
    _enter(f"/proc/{process}/ns/user")
    _enter(f"/proc/{process}/ns/mnt")
    os.chdir(folder)
    tempfile.tempdir = folder


def _enter(namespace: str) -> None:
    with open(namespace) as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), f"cannot enter the namespace {namespace}")


def become(
    arguments: Sequence[str],
    folder: str,
    variables: Mapping[str, str],
    out: Connection,
    err: Connection,
    blank: bool,
    before: Callable[[], object] | None,
) -> None:
    """Be `python ARGUMENTS` in a folder, with these environment variables and ends of pipes.

    Args:
        arguments: `-m MODULE ...`, `-c CODE ...` or `FILE ...`.
        folder: the working directory.
        variables: of the environment.
        out, err: of the process's output and error output.
        blank: whether the pictures of its pages are left blank.
        before: called first.
    """
    from setproctitle import setproctitle

    die_with_parent()
    setproctitle(" ".join([sys.executable, *arguments]))
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    for number, end in enumerate((os.open(os.devnull, os.O_RDONLY), out.fileno(), err.fileno())):
        os.dup2(end, number)
    out.close()
    err.close()
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    if before is not None:
        before()
    with blank_pages(blank):
        _run(*arguments)


def _run(first: str, *rest: str) -> None:
    """Be `python FIRST REST`."""
    if first == "-m":
        sys.argv = [*rest]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")
