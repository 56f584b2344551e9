"""The function of the command `system`: what a system of formulas is, and its equations of motion."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from haptic_bench import experiment
from haptic_bench.catalogue import catalogue, config_folder, did_you_mean, shortened
from haptic_bench.commands.command_line import DONE
from haptic_bench.experiment.loading import read_document, read_system
from haptic_sim.constraints.equations import Structure
from haptic_sim.constraints.scenes import CONSTRAINED, ConstraintParameters, FormulasParameters, build_setup
from haptic_sim.constraints.system import System
from haptic_sim.parameters import ParameterError, explain


def system(options: argparse.Namespace) -> int:
    """`haptics system`."""
    found = find(options.system, options.settings)
    structure = found.structure()
    if options.json:
        print(json.dumps(asdict(structure) | {"nonholonomy": structure.nonholonomy}, indent=2))
    else:
        _print(found, structure)
    return DONE


def find(name: str, settings: list[str]) -> System:
    """The system of a file, of config/systems, or of an experiment.

    Raises:
        ParameterError: there is none, or it cannot be built.
    """
    systems = {path.stem: path for path in sorted((config_folder() / "systems").glob("*.yaml"))}
    path = systems.get(name)
    if path is None and name not in catalogue():
        if not name.endswith((".yaml", ".yml")):
            hint = did_you_mean(name, [*systems, *catalogue()])
            raise ParameterError([f"system {shortened(name)}: unknown{hint}"])
        if "scene" not in read_document(Path(name)):
            path = Path(name)
    if path is None:
        (trial,) = experiment.load(name, settings)[:1]
        scene, constraint = trial.experiment.scene, trial.experiment.constraint
        if not scene.CONSTRAINED:
            kinds = ", ".join(kind.model_fields["type"].default for kind in CONSTRAINED)
            raise ParameterError([f"scene.type = {scene.type}: is not a constrained tool: must be of {kinds}"])
        return build_setup(scene, constraint).system
    if settings:
        raise ParameterError([f"--set {shortened(settings[0])}: is for an experiment, and {path} is a system"])
    try:
        formulas = FormulasParameters.model_validate({"type": "formulas", **read_system(path)})
    except ValidationError as error:
        raise ParameterError(explain(error, FormulasParameters, "scene.")) from error
    return build_setup(formulas, ConstraintParameters()).system


def _print(found: System, s: Structure) -> None:
    print(f"coordinates            {', '.join(s.coordinates)}")
    print(
        f"rows                   {s.positions} of positions, {s.velocities} of velocities; rank {s.rank} at the start"
    )
    print(f"degrees of freedom     {s.degrees_of_freedom}")
    if s.growth is not None:
        print(f"growth                 {' '.join(map(str, s.growth))}; degree of nonholonomy {s.nonholonomy}")
        print(f"integrable velocities  {s.integrable_velocities} of {s.velocities}")
    if s.cyclic is not None:
        print(f"cyclic coordinates     {', '.join(s.cyclic) or 'none'}")
    for name, formula in (s.conserved or {}).items():
        print(f"conserved              {name}: {formula}")
    for text in s.singular or ("none found",):
        print(f"singular               {text}")
    print("                       (sought while one coordinate at a time moves from the start; others may exist)")
    if s.given_up:
        print(f"given up               {s.given_up}")
    _print_equations(found.state_space())


def _print_equations(form: dict[str, Any]) -> None:
    """The state-space form."""
    print("\nState-space form (YUN 24-29): q_dot = S eta + xi, x = (q, eta), x_dot = f(x) + g(x) u")
    print("u is force and torque at the hand point in world axes, gamma the rate of the stabilisation,")
    print("gamma_q the acceleration at constant eta; rates of coordinates are those of q_dot")
    print("the form holds where D is not zero, the determinant of the rows' columns of the other rates")
    for name, value in form.items():
        if name == "given up":
            print(f"\ngiven up: {value}")
            continue
        title = {"S^T (M gamma + V + G)": "S^T (M gamma_q + V + G)"}.get(name, name)
        print(f"\n{title} =")
        for i, row in enumerate(value):
            text = "[" + ", ".join(row) + "]" if isinstance(row, list) else row
            print(f"  {i + 1}: {text}")
