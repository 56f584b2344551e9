"""The function of the command convert: a file of a robot or a world to an experiment that can be edited."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from haptic_bench.commands.command_line import DONE
from haptic_bench.experiment.conversion import convert_file
from haptic_bench.experiment.system import args_of
from haptic_sim import inputs
from haptic_sim.parameters import ParameterError


def convert(options: argparse.Namespace) -> int:
    """`haptics convert FILE --out WORLD.yaml`."""
    try:
        out = inputs.check_path(options.out)
    except inputs.InputError as error:
        raise ParameterError([f"--out {inputs.shown(options.out)}: {error}"]) from error
    if out.suffix not in (".yaml", ".yml"):
        raise ParameterError([f"--out {inputs.shown(options.out)}: must end in .yaml"])
    if out.exists() and not options.force:
        raise ParameterError([f"--out {inputs.shown(options.out)}: the file exists; name another one, or add --force"])
    found = convert_file(options.file, out, args=args_of(options.args), packages=tuple(options.packages))
    for name, text in {**found.meshes, out.name: found.text(os.path.basename(options.file))}.items():
        place = out.parent / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    for note in found.notes:
        print(f"haptics: not simulated: {note}", file=sys.stderr)
    print(Path(options.out))
    return DONE
