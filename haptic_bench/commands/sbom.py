"""The function of the command sbom."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from haptic_bench.commands.command_line import DONE
from haptic_bench.set_up import bill
from haptic_sim import parts


def sbom(options: argparse.Namespace) -> int:
    """`haptics sbom [FILE]`."""
    text = json.dumps(bill.cyclonedx(parts.own_version()), indent=2)
    if options.out:
        Path(options.out).write_text(text + "\n", encoding="utf-8")
        print(options.out)
    else:
        print(text)
    return DONE
