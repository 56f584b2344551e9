"""Rules between the sections of an experiment, which no section can check alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from haptic_bench.experiment.model import Experiment
from haptic_control.matrices import matrix_of
from haptic_ros.graph import EVENTS, NODES
from haptic_sim.constraints.scenes import ConstraintParameters
from haptic_sim.contact.response import LIMITED
from haptic_sim.fields.acting import switch_problems
from haptic_sim.messages import FORCE, TOPICS
from haptic_sim.tool.engines import ENGINES
from haptic_sim.tool.tool_side import fields_of, is_constrained, textures_of
from haptic_sim.tool.virtual_tool import SEMI_IMPLICIT
from haptic_sim.worlds.scenes import tools_of

MAX_TICKS = 10_000_000


def broken_rules(experiment: Experiment) -> list[str]:
    """Breaches of the rules that sections must satisfy together, one line each."""
    problems = []
    environment, rate = experiment.environment, experiment.rate
    if experiment.duration * rate > MAX_TICKS:
        problems.append(
            f"duration = {experiment.duration:g} s at rate = {rate:g} Hz: must be at most {MAX_TICKS} ticks"
        )
    tools = tools_of(experiment.scene)
    if experiment.tool.type not in tools:
        kind = experiment.scene.type
        problems.append(
            f"tool.type = {experiment.tool.type}: "
            + (
                f"the scene {kind} has a tool of its own; leave tool out, or set tool.type=none"
                if tools == ("none",)
                else f"the scene {kind} is around a tool; give tool.type={' or '.join(tools)}"
            )
        )
    needed = experiment.scene.ENGINE
    if experiment.standalone and needed and not (engine := ENGINES.find(needed)).SERVO:
        problems.append(
            f"device.type = none: what {engine.LABEL or engine.type} simulates is felt through a device and a local "
            "model; set device.type=inertial and controller.type=virtual_coupling"
        )
        return problems
    if experiment.standalone:
        for name in ("controller", "local_model"):
            kind = getattr(experiment, name).type
            if not getattr(experiment, name).ABSENT:
                problems.append(f"{name}.type = {kind}: without a device there is none; set {name}.type=none")
        if experiment.guard.type not in (None, "none"):
            problems.append(f"guard.type = {experiment.guard.type}: without a device there is no port; leave it out")
    elif experiment.controller.ABSENT:
        problems.append(
            "controller.type = none: a device needs one; set controller.type=virtual_coupling, or leave it out"
        )
    else:
        problems += _admittance_rules(experiment)
    if experiment.guard.type in ("wave", "tank") and not experiment.relayed:
        problems.append(f"guard.type = {experiment.guard.type}: is of a relay; give relay.delay, or leave it out")
    if experiment.guard.at_device is not None and not experiment.relayed:
        shown = str(experiment.guard.at_device).lower()
        problems.append(f"guard.at_device = {shown}: without a relay guard.type says that; leave it out")
    problems += _relay_rules(experiment)
    problems += _hand_rules(experiment)
    problems += _constraint_rules(experiment)
    for part in experiment.parts:
        problems += part.check(experiment)
    fields = tuple(fields_of(experiment.scene))
    problems += switch_problems(environment.fields, fields)
    if fields and not environment.engine.FIELDS:
        kind = environment.engine.type
        problems.append(
            f"scene.fields: environment.engine = {kind} lets no fields act; set environment.engine=haptics, or leave "
            "them out"
        )
    if not environment.engine.TEXTURES:
        kind = environment.engine.type
        problems += [
            f"scene.{key}.texture: environment.engine = {kind} has no textures; set environment.engine=haptics, or "
            "leave it out"
            for key in textures_of(experiment.scene)
        ]
    if environment.integrator != SEMI_IMPLICIT and (experiment.asynchronous or is_constrained(experiment)):
        what = "is a local model" if experiment.asynchronous else "are exact constraints"
        problems.append(
            f"environment.integrator = {environment.integrator}: is for a tool in a synchronous world, and here "
            f"{what}; leave it out"
        )
    if not experiment.asynchronous:
        for key in ("rate", "delay"):
            value = getattr(environment, key)
            if value is not None and not (key == "rate" and value == rate):
                problems.append(
                    f"environment.{key} = {value:g}: an environment without a local model runs at the servo rate; "
                    "leave it out, or set local_model.type=full"
                )
    elif environment.rate is not None and environment.rate > rate:
        problems.append(f"environment.rate = {environment.rate:g} Hz: must be at most the servo rate ({rate:g} Hz)")
    return problems


def _relay_rules(experiment: Experiment) -> list[str]:
    relay, device = experiment.relay, experiment.device
    if relay.delay is None:
        given = [name for name in ("jitter", "loss") if getattr(relay, name) > 0.0]
        return [
            f"relay.{name} = {getattr(relay, name):g}: there is no relay; set relay.delay, or leave it out"
            for name in given
        ]
    if experiment.standalone or device.COMMANDS != FORCE:
        return [
            f"relay.delay = {relay.delay:g} s: a relay is for devices that take forces, not for device.type = "
            f"{device.type}; set relay.delay=null"
        ]
    guard, controller = experiment.relay_guard, experiment.controller
    if guard == "none":
        return []
    if controller.PASSES_FORCES:
        return [
            f"guard.type = {guard}: with a relay it is for a controller that takes motion alone; the wrenches of the "
            f"operator and of the world, which controller.type = {controller.type} passes on, would bring energy that "
            "no guard counts; set controller.type=virtual_coupling, or guard.type=none"
        ]
    return _wave_rules(experiment, controller) if guard == "wave" else []


def _wave_rules(experiment: Experiment, controller: Any) -> list[str]:
    """The world's end answers a wave with the wrench of the tick before: a loop with the gain (B + K T / 2) / b."""
    problems = []
    relay = experiment.relay
    if relay.wave.play_out is not None and relay.delay is not None and relay.wave.play_out < relay.delay:
        problems.append(
            f"relay.wave.play_out = {relay.wave.play_out:g} s: must be at least relay.delay = {relay.delay:g} s; "
            f"{relay.delay + relay.jitter:g} s takes all jitter"
        )
    stiffness, damping = matrix_of(controller.stiffness), matrix_of(controller.damping)
    for i, (name, unit) in enumerate((("translation", "N s/m"), ("rotation", "N m s/rad"))):
        part = slice(3 * i, 3 * i + 3)
        needed = float(np.linalg.eigvalsh(damping[part, part] + 0.5 / experiment.rate * stiffness[part, part]).max())
        impedance = experiment.relay.wave.impedance[i]
        if not impedance > needed:
            problems.append(
                f"relay.wave.impedance[{i}] = {impedance:g} {unit}: in {name} the world's end diverges with this "
                f"coupling; must be more than its damping and half a period of its stiffness, {needed:.4g} {unit}"
            )
    return problems


def _hand_rules(experiment: Experiment) -> list[str]:
    """Rules of further hands: what each of them needs, and what there cannot be beside them."""
    if not experiment.hands:
        return []
    problems = []
    names = experiment.hand_names
    for i, name in enumerate(names):
        if name in names[:i]:
            problems.append(f"hands[{i}].name = {name}: is the name of hands[{names.index(name)}]; choose another")
            continue
        if name in (*TOPICS, EVENTS, *NODES):
            problems.append(f"hands[{i}].name = {name}: is the name of a topic or a node; choose another")
        hand = experiment.of_hand(name)
        if hand.standalone:
            problems.append(f"hands[{i}].device.type = none: a further hand needs a device, as inertial")
        elif hand.controller.ABSENT or hand.controller.BRIDGES:
            problems.append(f"hands[{i}].controller.type = {hand.controller.type}: a hand of this world needs another")
        if hand.operator.EVENTS or hand.operator.file_key:
            kind = hand.operator.type
            problems.append(f"hands[{i}].operator.type = {kind}: only the first hand's operator can be of that type")
        own = [problem for part in hand.of_the_hand for problem in part.check(hand)]
        problems += [f"hands[{i}].{problem}" for problem in (*own, *_admittance_rules(hand), *_rendering_rules(hand))]
    if experiment.standalone:
        problems.append("device.type = none: beside further hands the first needs a device, too, as inertial")
    problems += _rendering_rules(experiment)
    if experiment.asynchronous:
        kind = experiment.local_model.type
        problems.append(f"local_model.type = {kind}: supports one hand only; leave hands out, or set it to none")
    if experiment.relayed:
        problems.append(f"relay.delay = {experiment.relay.delay:g} s: a relay is for one hand; set relay.delay=null")
    scene = experiment.scene
    if is_constrained(experiment):
        problems.append(f"scene.type = {scene.type}: supports one hand only; leave out hands")
    if getattr(scene, "constraints", None):
        problems.append("scene.constraints: exact constraints support one hand only; leave out hands")
    return problems


def _rendering_rules(experiment: Experiment) -> list[str]:
    """Impulses that are limited where they arise are so for one device."""
    rendering = experiment.limits.impulse_rendering
    if "impulse_rendering" not in experiment.device.model_fields_set or rendering not in LIMITED:
        return []
    return [f"device.impulse_rendering = {rendering}: supports one hand only; choose saturated or full"]


def _admittance_rules(experiment: Experiment) -> list[str]:
    controller, moved = experiment.controller, experiment.device.COMMANDS != FORCE
    if controller.COMMANDS == FORCE:
        if not moved:
            return []
        return [
            f"controller.type = {controller.type}: an admittance device takes motion; set controller.type=admittance"
        ]
    if not moved:
        kind = experiment.device.type
        return [f"controller.type = {controller.type}: device.type = {kind} takes forces; set device.type=admittance"]
    return []


def _constraint_rules(experiment: Experiment) -> list[str]:
    kind = experiment.scene.type
    if not is_constrained(experiment):
        if experiment.constraint == ConstraintParameters():
            return []
        return [f"constraint: is for tools under exact constraints alone, not for the scene {kind}; leave it out"]
    if experiment.constraint.rolling != "true" and not experiment.scene.ROLLING:
        return [f"constraint.rolling = {experiment.constraint.rolling}: is for the scene rolling_spheres; leave it out"]
    if experiment.asynchronous:
        return [
            f"local_model.type = {experiment.local_model.type}: the scene {kind} is a tool under exact constraints, "
            "which answers at the servo rate; set local_model.type=none"
        ]
    return []
