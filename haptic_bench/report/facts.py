"""The facts of a trial at the head of its page: what was rendered, by what, how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from haptic_bench.analysis.figures import NO_ENERGY
from haptic_bench.experiment import Experiment, Trial
from haptic_control.activation import passivity_fact
from haptic_sim.tool.tool_side import is_constrained
from haptic_view import units

Fact = tuple[str, str]
"""Subject of a fact, and its text."""
SUMMED = "translation and rotation each by itself; a claim may be about their sum"


def facts(trial: Trial, guard: Mapping[str, Any], joule: tuple[str, float] | None) -> Iterator[Fact]:
    """The facts of a trial.

    Args:
        trial: what was run.
        guard: of the device's port, as in summary.json.
        joule: the unit of energies on the page, and how many make a joule; None: as it fits.
    """
    experiment = trial.experiment
    if experiment.environment.engine.CONTACT:
        yield "Contact", _method(experiment)
    if experiment.relayed:
        yield "Relay", _relay(experiment)
    if meshes := [_mesh(mesh) for mesh in trial.meshes if mesh["as"] != "itself"]:
        yield "Meshes", "; ".join(meshes)
    yield "Operator", "; ".join([experiment.operator.type, *experiment.operator.facts()])
    yield from _device(experiment)
    for part in experiment.parts:
        if part not in (experiment.operator, experiment.device) and (lines := part.facts()):
            yield part.type, "; ".join(lines)
    yield from scale(experiment)
    passivity = passivity_fact(experiment.controller, trial.coupled_inertias, experiment.rate)
    if passivity:
        yield "Passivity", passivity.removeprefix("passivity ")
    if guard:
        yield "Energy of the port", _port(guard, joule)
    yield "Seed", f"{experiment.seed}: {', '.join(experiment.random) or 'nothing is random'}"


def scale(experiment: Experiment) -> Iterator[Fact]:
    """Architecture, rate and duration."""
    if experiment.standalone:
        architecture = "no device: the operator's wrench acts on the tool"
    elif experiment.asynchronous:
        rate = experiment.environment.rate or experiment.rate
        architecture = f"asynchronous: local model, environment at {rate:g} Hz"
    else:
        architecture = "synchronous environment"
    yield "Architecture", architecture
    yield "Servo rate", f"{experiment.rate:g} Hz"
    yield "Duration", f"{experiment.duration:g} s planned"


def _mesh(mesh: Mapping[str, Any]) -> str:
    """Collision geometry of a mesh."""
    found = {"hull": "its hull", "field": "signed distance field"}.get(mesh["as"], f"{mesh['pieces']} convex pieces")
    text = f"{mesh['body']}: {found}"
    return text if mesh["error"] is None else f"{text}, largest error {1e3 * mesh['error']:.2g} mm"


def _relay(experiment: Experiment) -> str:
    """Delay and guard of the relay."""
    delay = experiment.relay.delay or 0.0
    guard = "no guard" if experiment.relay_guard == "none" else f"guard {experiment.relay_guard}"
    return f"{guard}, delay {1e3 * delay:g} ms each way: {2e3 * delay:g} ms of round trip"


def _method(experiment: Experiment) -> str:
    if is_constrained(experiment):
        constraint = experiment.constraint
        kept = f"stabilised with gamma {constraint.gamma:g}/s" if constraint.solver == "stabilised" else "projected"
        return f"exact constraints, {kept}, {constraint.integrator} integration"
    method = experiment.environment.method
    text = f"{method.type.replace('_', '-')} contact"
    if method.SPREADS and (limits := experiment.device.limits) is not None:
        rendering = limits.impulse_rendering
        text += f", impulses {'in full' if rendering == 'full' else rendering}"
    through = experiment.controller.LABEL
    return f"{text} through {through}" if through else text


def _device(experiment: Experiment) -> Iterator[Fact]:
    """The device, and the limits of its rendering."""
    if not experiment.standalone:
        yield "Device", "; ".join([experiment.device.label, *experiment.device.facts()])


def _port(found: Mapping[str, Any], joule: tuple[str, float] | None) -> str:
    """Energy that passed the device's port, and the effect of its guard."""
    least = f"least {_energies(found['least_energy'], joule)} ({SUMMED})"
    if found["type"] != "passivity":
        return f"{least}; not guarded"
    if not found["acted"]:
        return f"{least}; its guard never acted"
    return f"{least}; its guard acted in {found['acted']} ticks, kept {_energies(found['kept'], joule)} from the hand"


def _energies(values: Sequence[float], joule: tuple[str, float] | None) -> str:
    """Energies [J] of translation and rotation, in one unit."""
    rounded = [value if abs(value) >= NO_ENERGY else 0.0 for value in values]
    unit, scale = joule or units.fitting(max(map(abs, rounded)), "J", 1.0)
    texts = (f"{units.text(value * scale, 3)} {unit}" for value in rounded)
    return "{} in translation, {} in rotation".format(*texts)
