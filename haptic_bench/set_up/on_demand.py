"""Installs the packages of a lock file that only some commands need, when one of them is first asked for."""

import subprocess
import sys
from pathlib import Path

_PIP = (sys.executable, "-m", "pip", "install", "--no-deps", "--disable-pip-version-check", "--no-input", "-q")


def install(lock: Path, *options: str) -> str:
    """Install the packages of a lock file by pip, with options of it; returns why it failed, empty if it did not."""
    done = subprocess.run([*_PIP, *options, "-r", str(lock)], capture_output=True, text=True)
    return (done.stderr.strip().splitlines() or ["(nothing)"])[-1] if done.returncode else ""
