"""The function of the command `zwidth`: it simulates a grid of couplings and writes table, figure and summary."""

from __future__ import annotations

import argparse
import csv
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from haptic_bench.analysis import passivity_figures
from haptic_bench.commands.command_line import DONE
from haptic_bench.commands.passivity import read_options, take_from_device
from haptic_bench.trials import trial
from haptic_control.passivity.zwidth import UNSTABLE, VERDICTS, ZWidth, ZWidthParameters, measure


def zwidth(options: argparse.Namespace) -> int:
    """`haptics zwidth`."""
    take_from_device(options)
    given = read_options(ZWidthParameters, options)
    directory = trial.new_directory(options.out, "zwidth")
    cores = len(os.sched_getaffinity(0))
    with trial.progress_bar(len(given.grid()[0]), "zwidth", options.quiet, "rows") as show:
        found = measure(given, cores, show)
    summary = summarise(given, found)
    _write_table(directory / "zwidth.csv", given, found)
    (directory / "zwidth.json").write_text(json.dumps(summary, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    panel = passivity_figures.draw_zwidth(given, found)
    (directory / "zwidth.svg").write_text(panel.svg, encoding="utf-8")
    print(directory)
    for name in ("zwidth.csv", "zwidth.json", "zwidth.svg"):
        print(f"  {directory / name}")
    cells = found.verdict.size
    kind = "passive" if is_active(given) else f"stable, of which {summary['oscillating']} oscillate"
    print(f"  {summary['stable']} of {cells} couplings are {kind}")
    print(f"  {summary['as_theory']} of {cells} are judged as by theory: {summary['theory']}")
    return DONE


def is_active(given: ZWidthParameters) -> bool:
    """Whether the hand looks for energy."""
    return given.hand == "adversarial"


def summarise(given: ZWidthParameters, found: ZWidth) -> dict[str, Any]:
    """Summary: the request, the number of stable cells, the boundary, and the agreement with the linear theory."""
    stable = found.verdict != UNSTABLE
    expected = found.required < given.device_damping if is_active(given) else found.poles < 1.0
    rows, columns = stable.any(axis=1), stable.any(axis=0)
    return {
        **given.model_dump(),
        "stiffness": _listed(found.stiffness),
        "damping": _listed(found.damping),
        "cells": stable.size,
        "stable": int(stable.sum()),
        "oscillating": int((found.verdict == VERDICTS.index("oscillates")).sum()),
        "largest_stiffness": float(found.stiffness[rows].max()) if rows.any() else None,
        "largest_damping": float(found.damping[columns].max()) if columns.any() else None,
        "boundary": found.boundary.tolist(),
        "theory": "BROWN (8)" if is_active(given) else "poles of the loop with the hand",
        "as_theory": int((stable == expected).sum()),
    }


def _listed(grid: np.ndarray) -> list[float]:
    """Lowest and highest value, and their number."""
    return [float(grid[0]), float(grid[-1]), grid.size]


def _write_table(path: Path, given: ZWidthParameters, found: ZWidth) -> None:
    """One row for each coupling; a value that does not exist is empty."""
    last = "power" if is_active(given) else "ripple"
    values = found.power if is_active(given) else found.ripple
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["stiffness", "damping", "stable", "verdict", last, "required_damping"])
        for i, K in enumerate(found.stiffness):
            for j, B in enumerate(found.damping):
                verdict = int(found.verdict[i, j])
                numbers = (
                    f"{value:.9g}" if np.isfinite(value) else "" for value in (values[i, j], found.required[i, j])
                )
                name = ("passive", "", "active")[verdict] if is_active(given) else VERDICTS[verdict]
                table.writerow([f"{K:.9g}", f"{B:.9g}", int(verdict != UNSTABLE), name, *numbers])
