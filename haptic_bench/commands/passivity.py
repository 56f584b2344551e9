"""The functions of the command `passivity`: they check the options, call the analysis and print what it finds."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from pydantic import ValidationError

from haptic_bench.analysis import passivity_figures
from haptic_bench.commands.command_line import DONE
from haptic_bench.trials import trial
from haptic_control.passivity.coupling import (
    CouplingParameters,
    MapParameters,
    analyse,
    equation_16,
    ratio_map,
    unity_curve,
)
from haptic_sim.parameters import ParameterError, Parameters, explain

_Read = TypeVar("_Read", bound=Parameters)


def _read(model: type[_Read], options: argparse.Namespace) -> _Read:
    """The options of a command as parameters, those that were not given left out.

    Raises:
        ParameterError: naming the options as they are typed.
    """
    given = {name: getattr(options, name) for name in model.model_fields if getattr(options, name) is not None}
    try:
        return model(**given)
    except ValidationError as error:
        problems = explain(error, model, "--")
        raise ParameterError(
            [problem.replace("--device_damping", "--device-damping") for problem in problems]
        ) from error


def coupling(options: argparse.Namespace) -> int:
    """`haptics passivity coupling`."""
    found = analyse(_read(CouplingParameters, options))
    if options.json:
        print(json.dumps(found._asdict(), indent=2, allow_nan=False))
    else:
        _print(found._asdict(), found.units())
        print("passive" if found.passive else found.refusal())
    return DONE


def _print(fields: Mapping[str, Any], units: Mapping[str, str]) -> None:
    for name, value in fields.items():
        text = "-" if value is None else ("no", "yes")[value] if isinstance(value, bool) else f"{value:.6g}"
        print(f"{name:26} {text} {units.get(name, '')}".rstrip())


def write_map(options: argparse.Namespace) -> int:
    """`haptics passivity map`."""
    given = _read(MapParameters, options)
    directory = trial.new_directory(options.out, "passivity")
    alpha, beta = given.grid()
    ratio, stable = ratio_map(alpha[:, None], beta, given.integrator, given.delay)
    with open(directory / "map.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["alpha", "beta", "ratio", "stable"])
        for i, a in enumerate(alpha):
            for j, b in enumerate(beta):
                table.writerow([f"{a:.12g}", f"{b:.12g}", f"{ratio[i, j]:.12g}", int(stable[i, j])])
    unity = unity_curve(beta, given.integrator, given.delay)
    approximation = equation_16(beta)
    with open(directory / "unity.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["beta", "alpha", "equation_16"])
        for row in zip(beta, unity, approximation, strict=True):
            table.writerow(["" if np.isnan(value) else f"{value:.12g}" for value in row])
    panel = passivity_figures.draw_map(alpha, beta, ratio, stable, unity, approximation, given.integrator)
    (directory / "map.svg").write_text(panel.svg, encoding="utf-8")
    print(directory)
    for name in ("map.csv", "unity.csv", "map.svg"):
        print(f"  {directory / name}")
    return DONE
