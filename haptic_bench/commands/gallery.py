"""The function of the command gallery: every experiment once, side by side, and one page of all."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from haptic_bench.catalogue import NotThere, catalogue, did_you_mean, shortened
from haptic_bench.commands.command_line import DONE, FAILED
from haptic_bench.report.gallery import write_gallery
from haptic_bench.running.runner import Interruption
from haptic_bench.trials.trial import new_directory, progress_bar

POLL = 0.1  # [s]


def gallery(options: argparse.Namespace) -> int:
    """`haptics gallery DIR [NAME ...]`."""
    known = catalogue()
    for name in options.names:
        if name not in known:
            raise NotThere(f"experiment {shortened(name)}: unknown{did_you_mean(name, known)}")
    wanted = {name: path for name, path in known.items() if not options.names or name in options.names}
    directory = new_directory(options.out, "gallery")
    with Interruption() as interruption:
        failed = _run(list(wanted), directory, interruption, options.quiet)
        page = write_gallery(directory, wanted)
        interrupted = bool(interruption)
    print(page)
    for name, reason in failed.items():
        print(f"haptics: {name}: {reason}", file=sys.stderr)
    return interruption.status if interrupted else FAILED if failed else DONE


def _run(names: list[str], directory: Path, interruption: Interruption, quiet: bool) -> dict[str, str]:
    """Run experiments offline, as many side by side as there are cores; what those that failed say, by name."""
    due, running, failed = names[::-1], dict[str, subprocess.Popen[str]](), dict[str, str]()
    with progress_bar(len(names), "gallery", quiet, "experiments") as show:
        while running or (due and not interruption):
            while due and not interruption and len(running) < len(os.sched_getaffinity(0)):
                name = due.pop()
                running[name] = _start(name, directory / name)
            for name, process in list(running.items()):
                if interruption:
                    process.terminate()
                elif process.poll() is None:
                    continue
                lines = process.communicate()[1].strip().splitlines()
                if process.returncode and not interruption:
                    failed[name] = lines[-1] if lines else f"ended with {process.returncode}"
                del running[name]
                if show is not None:
                    show(len(names) - len(due) - len(running))
            time.sleep(POLL)
    return failed


def _start(name: str, directory: Path) -> subprocess.Popen[str]:
    """One experiment in a process of its own, as `haptics run` has it."""
    command = [sys.executable, "-m", "haptic_bench", "run", name, "--mode", "offline", "--quiet", "--out"]
    return subprocess.Popen(
        [*command, str(directory)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
