"""The command `shell`: a shell, or a program, in our environment, with rclpy, the messages and our packages."""

from __future__ import annotations

import argparse
import os
import sys

from haptic_bench.catalogue import NotThere
from haptic_bench.commands.start import USERS_PATH


def shell(options: argparse.Namespace) -> int:
    """`haptics shell [PROGRAM ...]`: become it; returns only by an error.

    Raises:
        NotThere: the program does not run.
    """
    program = options.program or [os.environ.get("SHELL") or "/bin/sh"]
    if not options.program:
        print("haptics: a shell with rclpy, haptics.msg and the nodes; `exit` leaves it", file=sys.stderr, flush=True)
    os.environ.pop("PYTHONSAFEPATH", None)  # a script of the user's may import what lies beside it
    # Packages of the user's own come after those of the environment, which they would hide otherwise.
    paths = [os.environ.get("PYTHONPATH"), os.environ.get(USERS_PATH)]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    try:
        os.execvp(program[0], program)
    except OSError as error:
        raise NotThere(f"{program[0]}: {error.strerror}") from error
