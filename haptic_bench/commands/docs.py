"""The function of the command docs: builds the documentation site with Sphinx, installed when first asked for."""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from haptic_bench.catalogue import NotThere
from haptic_bench.commands.command_line import DONE, FAILED
from haptic_bench.set_up import on_demand

_ROOT = Path(__file__).resolve().parents[2]
_LOCK = "requirements-docs.lock"


def docs(options: argparse.Namespace) -> int:
    """`haptics docs [DIR] [--gallery DIR] [--links]`: warnings are errors.

    Raises:
        NotThere: this is no checkout, there is no such gallery, or Sphinx cannot be installed.
    """
    if not (_ROOT / _LOCK).is_file():
        raise NotThere(f"{_LOCK}: the documentation is built in a checkout, and there is none at {_ROOT}")
    if options.gallery and not Path(options.gallery, "index.html").is_file():
        raise NotThere(f"{options.gallery}: no gallery; make one with: haptics gallery {options.gallery}")
    out = Path(options.out) if options.out else _ROOT / ".haptics" / "site"
    paths = [str(_installed()), os.environ.get("PYTHONPATH", "")]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    if options.gallery:
        variables["HAPTICS_GALLERY"] = os.path.abspath(options.gallery)
    sphinx = [sys.executable, "-m", "sphinx", "-b", "linkcheck" if options.links else "html"]
    with tempfile.TemporaryDirectory() as doctrees:  # of a page that was read before, Sphinx does not warn again
        done = subprocess.run(
            [*sphinx, "-W", "--keep-going", "-q", "-d", doctrees, str(_ROOT / "docs"), str(out)],
            env=variables,
        )
    if done.returncode:
        return FAILED
    print(out / ("output.txt" if options.links else "index.html"))
    return DONE


def _installed() -> Path:
    """The folder of Sphinx and its packages: apart from the environment, whose versions they do not share.

    Raises:
        NotThere: they cannot be installed.
    """
    folder = _ROOT / ".haptics" / "docs"
    wanted = (_ROOT / _LOCK).read_text(encoding="utf-8")
    folder.parent.mkdir(exist_ok=True)
    with open(folder.with_name("docs.stamp"), "a+", encoding="utf-8") as stamp:
        fcntl.flock(stamp, fcntl.LOCK_EX)  # another command may be installing them
        stamp.seek(0)
        if stamp.read() != wanted or not folder.is_dir():
            stamp.truncate(0)
            shutil.rmtree(folder, ignore_errors=True)
            print("haptics: installing Sphinx for the documentation", file=sys.stderr, flush=True)
            if reason := on_demand.install(_ROOT / _LOCK, "--target", str(folder)):
                raise NotThere(f"Sphinx cannot be installed: {reason}")
            stamp.write(wanted)
    return folder
