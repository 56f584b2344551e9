"""The function of the command doctor: what this machine lacks for a trial, with the remedy of each.

Standard library only, because the environment may not exist yet.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from haptic_bench.commands import start
from haptic_bench.set_up import machine, middleware, packages, peripherals, permissions, prepare
from haptic_bench.set_up.failures import BAD_INPUT, DONE, FAILED
from haptic_bench.set_up.finding import Check, Finding, examine
from haptic_bench.set_up.programs import Environment, this_environment

MARKS = {"ok": " ", "warn": "!", "problem": "X"}
STATES = {"ok": "in order", "warn": "to improve", "problem": "in the way"}


def doctor(options: argparse.Namespace) -> int:
    """`haptics doctor [--json | --write DIR]`."""
    if options.write is not None:
        return _write(Path(options.write))
    findings = []
    area = ""
    for finding in find():
        findings.append(finding)
        if not options.json:
            if finding.area != area:
                area = finding.area
                print(area)
            print(f"  {MARKS[finding.state]} {finding.name}: {finding.found}")
            if finding.remedy:
                print(f"      {finding.remedy}", flush=True)
    counts = {state: sum(finding.state == state for finding in findings) for state in MARKS}
    if options.json:
        print(json.dumps({**counts, "findings": [finding._asdict() for finding in findings]}, indent=2))
    else:
        counted = ", ".join(f"{count} {STATES[state]}" for state, count in counts.items())
        print(f"{counted}: {'a trial cannot run' if counts['problem'] else 'nothing stops a trial'}")
    return FAILED if counts["problem"] else DONE


def _write(folder: Path) -> int:
    """Write the files that grant what a user lacks, and say where an administrator puts them."""
    try:
        lines = [*permissions.write(folder)]
    except OSError as error:
        print(f"haptics: --write {folder}: {error.strerror or error}; name a new or empty folder", file=sys.stderr)
        return BAD_INPUT
    print(f"{', '.join(permissions.PLACES)} are in {folder}; read them, and then:")
    print("\n".join(f"  {line}" for line in lines))
    return DONE


def find() -> Iterator[Finding]:
    """All that is found, area by area. Without an environment, what only its programs can tell is left out."""
    yield from examine([("system", machine.check_system)])
    environment: Environment | None = this_environment()
    if packages.is_checkout(prepare.ROOT):
        environment = None
        try:
            preparation = start.for_this_shell()
        except prepare.PreparationError as error:
            found, _, remedy = str(error).partition(": ")
            yield Finding("environment", "ROS 2", "problem", found, remedy)
        else:
            yield from examine([("environment", lambda: packages.check_preparation(preparation))])
            if os.access(preparation.python, os.X_OK):
                environment = Environment(str(preparation.python), preparation.environment())
    variables = os.environ if environment is None else environment.variables
    checks: list[tuple[str, Check]] = [
        ("real time", machine.check_real_time),
        ("cores", machine.check_cores),
        ("folders", machine.check_folders),
        (peripherals.AREA, peripherals.check_serial_ports),
        (peripherals.AREA, peripherals.check_usb),
        (peripherals.AREA, peripherals.check_services),
        (peripherals.AREA, lambda: peripherals.check_libraries(variables)),
        (middleware.AREA, lambda: middleware.check_settings(variables)),
        (middleware.AREA, middleware.check_shared_memory),
    ]
    if environment is not None:
        programs = environment
        checks.insert(0, ("packages", lambda: packages.check_imports(programs)))
        checks.append((middleware.AREA, lambda: middleware.check_reach(programs)))
    yield from examine(checks)
