"""The command line in a process that was forked from one which has imported its modules: see conftest.Haptics."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection

MODULES = (
    "haptic_bench.commands.cli",
    "haptic_bench.nodes.composed",
    "haptic_bench.studies",
    "haptic_sim.nodes.local_model",
    "matplotlib.backends.backend_svg",
    "scipy.spatial",
    "setproctitle",
)
"""What most commands import."""


def become(
    arguments: Sequence[str], folder: str, variables: Mapping[str, str], out: Connection, err: Connection
) -> None:
    """Be `python -m haptic_bench ARGUMENTS` in a folder, with these environment variables and ends of pipes."""
    from setproctitle import setproctitle

    setproctitle(" ".join([sys.executable, "-m", "haptic_bench", *arguments]))
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    for number, end in enumerate((os.open(os.devnull, os.O_RDONLY), out.fileno(), err.fileno())):
        os.dup2(end, number)
    out.close()
    err.close()
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    sys.argv = ["haptic_bench", *arguments]
    runpy.run_module("haptic_bench", run_name="__main__", alter_sys=True)
