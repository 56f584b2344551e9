"""The functions of the command `passivity`: they check the options, call the analysis and print what it finds."""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from pydantic import ValidationError

from haptic_bench import experiment
from haptic_bench.analysis import passivity_figures
from haptic_bench.commands.command_line import DONE
from haptic_bench.experiment import Experiment
from haptic_bench.experiment.devices import with_device_data
from haptic_bench.experiment.identified import read_identified
from haptic_bench.trials import trial
from haptic_control.passivity import tuning
from haptic_control.passivity.conditions import required_damping, required_damping_of_coupling
from haptic_control.passivity.coupling import (
    CouplingParameters,
    MapParameters,
    analyse,
    equation_16,
    point_mass,
    quantised,
    ratio_map,
    spring_damper,
    stability_curve,
    unity_curve,
)
from haptic_control.passivity.directions import analyse_directions
from haptic_control.passivity.texts import describe, describe_quantisation, matrix_of, transfer_function_of
from haptic_control.passivity.transfer import TransferFunction, feedback, is_stable, poles
from haptic_control.passivity.tuning import TuningParameters
from haptic_sim import inputs
from haptic_sim.parameters import ParameterError, Parameters, explain

ROUNDING = 0.02  # [ticks] of a delay that is no whole tick more: less than its intervals
_Read = TypeVar("_Read", bound=Parameters)


def read_options(model: type[_Read], options: argparse.Namespace) -> _Read:
    """The options of a command as parameters, those that were not given left out.

    Raises:
        ParameterError: naming the options as they are typed.
    """
    given = {name: getattr(options, name) for name in model.model_fields if getattr(options, name) is not None}
    try:
        return model(**given)
    except ValidationError as error:
        raise ParameterError(_as_typed(explain(error, model, "--"))) from error


def _as_typed(problems: Iterable[str]) -> list[str]:
    """Problems that name the options as they are typed."""
    return [problem.replace("--device_", "--device-").replace("--.", "--") for problem in problems]


def take_from_device(options: argparse.Namespace) -> None:
    """Fill in what is known of the device of `--device`, where the command has an option for it that was not given.

    A delay counts in whole ticks, rounded up, as a longer one requires more damping.

    Raises:
        ParameterError: there is no such device, its data lack the damping, or --rate is no number.
    """
    if options.device is None:
        return
    known = read_identified(options.device)
    if known.damping is None and options.device_damping is None:
        raise ParameterError(
            [f"--device {inputs.shown(options.device)}: no damping is known of it; `haptics identify` finds it"]
        )
    found: dict[str, float | None] = {
        "device_mass": known.mass,
        "device_damping": known.damping and known.damping[0],
        "device_friction": (known.friction and known.friction[0]) or None,  # 0 is the default, where it may be given
    }
    if known.delay is not None and options.rate is not None and options.delay is None:
        try:
            found["delay"] = math.ceil(known.delay * inputs.number(options.rate) - ROUNDING)
        except inputs.InputError as error:
            raise ParameterError([f"--rate {inputs.shown(options.rate)}: {error}"]) from error
    for name, value in found.items():
        if value is not None and name in options and getattr(options, name) is None:
            setattr(options, name, str(value))


def coupling(options: argparse.Namespace) -> int:
    """`haptics passivity coupling`."""
    take_from_device(options)
    texts = (options.stiffness, options.damping, options.mass, options.device_damping)
    if options.coupling is not None or options.environment is not None:
        fields, units, verdict = _transfer_functions(options)
    elif any(text is not None and text.lstrip().startswith("[") for text in texts):
        fields, units, verdict = _matrices(options)
    else:
        found = analyse(read_options(CouplingParameters, options))
        fields, units = found._asdict(), found.units()
        verdict = describe(found.stable, found.required_damping, found.margin)
        is_quantised = options.resolution is not None
        verdict += describe_quantisation(found.required_friction, found.quantisation_power, is_quantised)
    if options.json:
        print(json.dumps(fields, indent=2, allow_nan=False))
    else:
        _print(fields, units)
        print(verdict)
    return DONE


_Found = tuple[dict[str, Any], dict[str, str], str]  # fields, their units, the verdict


def _transfer_functions(options: argparse.Namespace) -> _Found:
    """The analysis of a coupling or an environment that is given by its transfer function."""
    named = {"--coupling": ("--stiffness", "--damping"), "--environment": ("--mass", "--integrator")}
    for name, others in named.items():
        for other in others:
            if getattr(options, name[2:]) is not None and getattr(options, other[2:]) is not None:
                raise ParameterError([f"{name}, {other}: give one of them"])
    if options.coupling is not None:
        options.stiffness = options.damping = "0"
    given = read_options(CouplingParameters, options)
    T = 1.0 / given.rate
    C = spring_damper(given.stiffness, given.damping, T)
    if options.coupling is not None:
        C = transfer_function_of("--coupling", options.coupling)
    E = TransferFunction(np.zeros(1), np.ones(1))
    if options.environment is not None:
        E = transfer_function_of("--environment", options.environment)
    elif given.mass is not None:
        E = point_mass(given.mass, T, given.integrator)
    loop = feedback(C, E, given.delay)
    y = poles(loop.denominator)
    stable = bool(is_stable(y))
    damping, theta = required_damping(loop, T, y)
    passive_environment = float(required_damping_of_coupling(C, T))
    bound = float(damping) if np.isfinite(damping) else None
    margin = None if bound is None else given.device_damping - bound
    friction, power = quantised(loop, given.resolution, given.device_friction, margin or 0.0)
    enough = friction is not None and given.device_friction >= friction
    fields = {
        "required_damping": bound,
        "worst_frequency": float(theta) / (2.0 * np.pi) * given.rate,
        "stable": stable,
        "passive": stable and margin is not None and margin > 0.0 and (enough or given.resolution == 0.0),
        "margin": margin,
        "required_damping_passive_environment": passive_environment if np.isfinite(passive_environment) else None,
        "required_friction": friction if given.resolution > 0.0 else 0.0,
        "quantisation_power": power if given.resolution > 0.0 else 0.0,
    }
    damped = ("required_damping", "margin", "required_damping_passive_environment")
    units = {"worst_frequency": "Hz", "required_friction": "N", "quantisation_power": "W"}
    verdict = describe(stable, bound, margin) + describe_quantisation(friction, power, options.resolution is not None)
    return fields, units | dict.fromkeys(damped, "N s/m"), verdict


def _matrices(options: argparse.Namespace) -> _Found:
    """The analysis of a coupling with matrices, in its worst direction."""
    for name in ("resolution", "device_friction"):
        if getattr(options, name) is not None:
            raise ParameterError([f"--{name.replace('_', '-')}: is for one direction; leave it out with matrices"])
    names = ("stiffness", "damping", "device-damping", "mass")
    texts = {name: getattr(options, name.replace("-", "_")) for name in names}
    # numbers hold for each direction; they and the other options are checked as those of one direction are
    plain = {name: text for name, text in texts.items() if text is not None and not text.lstrip().startswith("[")}
    for name in texts:
        if name not in plain and texts[name] is not None:
            setattr(options, name.replace("-", "_"), "1")
    given = read_options(CouplingParameters, options)
    lists = {
        name: matrix_of(f"--{name}", text) for name, text in texts.items() if text is not None and name not in plain
    }
    n = max(len(matrix) for matrix in lists.values())
    matrices = {name: inputs.number(text) * np.eye(n) for name, text in plain.items()} | lists
    if not {"stiffness", "damping"} <= set(matrices):
        raise ParameterError(["--stiffness, --damping: are both needed"])
    try:
        found = analyse_directions(
            matrices["stiffness"],
            matrices["damping"],
            given.rate,
            matrices["device-damping"],
            matrices.get("mass"),
            given.integrator,
            given.delay,
        )
    except ParameterError as error:
        raise ParameterError(_as_typed(f"--{problem}" for problem in error.problems)) from error
    fields = found._asdict() | {"worst_direction": found.worst_direction.tolist()}
    verdict = "not passive: the sampled loop 1 + C E is not stable"
    if found.stable:
        verdict = "passive" if found.passive else f"not passive: the device needs {found.scale:.4g} times its damping"
    return fields, {"worst_frequency": "Hz"}, verdict


def tune(options: argparse.Namespace) -> int:
    """`haptics passivity tune`."""
    if options.experiment is not None:
        _take_from(_sections(options.experiment), options)
    take_from_device(options)
    given = read_options(TuningParameters, options)
    found = tuning.tune(given)
    if found.gains is None:
        beta = tuning.BEST_BETA[given.integrator] if given.beta is None else given.beta
        others = ", ".join(f"{one.beta:g}" for one in found.others) or "none, with this integrator and delay"
        raise ParameterError([f"--beta = {beta:g}: no stiffness is passive; of the table there are: {others}"])
    if options.json:
        fields = {
            **found.gains._asdict(),
            "others": [one._asdict() for one in found.others],
            "largest_stiffness": found.largest_stiffness,
            "largest_damping": found.largest_damping,
        }
        print(json.dumps(fields, indent=2, allow_nan=False))
        return DONE
    print(f"a wall without a damper could have K = {found.largest_stiffness:.4g} N/m, one without a spring "
          f"B = {found.largest_damping:.4g} N s/m")  # fmt: skip
    more = f" {'required friction [N]':>22}" if given.resolution > 0.0 else ""
    print(f"{'beta':>8} {'K [N/m]':>12} {'B [N s/m]':>12} {'required [N s/m]':>17} {'minimum mass [kg]':>18}{more}")
    rows = sorted({found.gains, *found.others})
    for one in rows:
        mass = "-" if one.minimum_mass is None else f"{one.minimum_mass:.4g}"
        mark = "  <-" if one.beta == found.gains.beta else ""
        friction = "-" if one.required_friction is None else f"{one.required_friction:.4g}"
        mark = (f" {friction:>22}" if given.resolution > 0.0 else "") + mark
        print(
            f"{one.beta:8.3g} {one.stiffness:12.4g} {one.damping:12.4g} {one.required_damping:17.4g} {mass:>18}{mark}"
        )
    print(f"--stiffness {found.gains.stiffness:.5g} --damping {found.gains.damping:.5g}")
    return DONE


def _sections(name: str) -> Experiment:
    """The sections of an experiment; its gains need not be passive, as better ones are asked for.

    Raises:
        ParameterError: it cannot be read, or a section is not valid.
    """
    try:
        path = experiment.find(name)
        return Experiment.model_validate(with_device_data(experiment.read_document(path), path.parent))
    except ValidationError as error:
        raise ParameterError(explain(error, Experiment)) from error


def _take_from(source: Experiment, options: argparse.Namespace) -> None:
    """Fill in the rate, the tool's integrator and the damping of a device, where not given, from an experiment.

    Raises:
        ParameterError: its device has no damping.
    """
    if options.rate is None:
        options.rate = str(source.rate)
    if options.integrator is None:
        options.integrator = str(source.environment.integrator)
    if options.device_damping is not None or options.device is not None:
        return
    damping = source.device.known().damping
    if "damping" not in type(source.device).model_fields:
        found = f"device.type = {source.device.type} has no damping of its own"
    elif damping is None:
        found = "device.damping = null states none"
    elif damping[0] == 0.0:
        found = "device.damping[0] = 0 N s/m: nothing is passive without damping"
    else:
        options.device_damping = str(damping[0])
        return
    raise ParameterError([f"{options.experiment}: {found}; give --device-damping"])


def _print(fields: Mapping[str, Any], units: Mapping[str, str]) -> None:
    for name, value in fields.items():
        match value:
            case list():
                text = f"[{', '.join(f'{one:.6g}' for one in value)}]"
            case None:
                text = "-"
            case bool():
                text = ("no", "yes")[value]
            case _:
                text = f"{value:.6g}"
        print(f"{name:26} {text} {units.get(name, '') if text != '-' else ''}".rstrip())


def write_map(options: argparse.Namespace) -> int:
    """`haptics passivity map`."""
    given = read_options(MapParameters, options)
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
    border = stability_curve(beta, given.integrator)
    panel = passivity_figures.draw_map(alpha, beta, ratio, stable, (unity, approximation, border), given.integrator)
    (directory / "map.svg").write_text(panel.svg, encoding="utf-8")
    print(directory)
    for name in ("map.csv", "unity.csv", "map.svg"):
        print(f"  {directory / name}")
    return DONE
