"""Keys of an experiment that were given and have no effect, because of what its other keys are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from haptic_bench.experiment.model import Experiment
from haptic_sim.messages import MOTION
from haptic_sim.parameters import Parameters


def unused_keys(experiment: Experiment) -> Iterator[str]:
    """Keys that were given, differ from the default, and are not used: one line for each reason."""
    for place, names, why in _groups(experiment):
        section: Any = experiment
        for part in place.split("."):
            section = getattr(section, part)
        given = [f"{place}.{key}" for key in _given(section) if names is None or key.partition(".")[0] in names]
        if given:
            yield f"{', '.join(given)}: not used, as {why}"


def _groups(experiment: Experiment) -> Iterator[tuple[str, set[str] | None, str]]:
    """Sections, names in them (None: all) that are not used, and why."""
    if not experiment.asynchronous:
        yield "local_model", None, "local_model.type = none"
    if experiment.asynchronous:
        why = f"local_model.type = {experiment.local_model.type}: bodies behind a local model do not sleep"
        yield "environment", {"sleep_speed", "sleep_time"}, why
    elif not experiment.environment.sleep_speed:
        yield "environment", {"sleep_time"}, "environment.sleep_speed = 0"
    guard = experiment.relay_guard
    why = f"guard.type = {guard}" if experiment.relayed else "relay.delay = null: there is no relay"
    relay = {"wave": guard == "wave", "tank": guard == "tank", "correction": guard in ("passivity", "tank")}
    yield "relay", {name for name, used in relay.items() if not (used and experiment.relayed)}, why
    yield from _of_guard(experiment)
    for part in experiment.parts:
        yield from part.without_effect(experiment)


def _of_guard(experiment: Experiment) -> Iterator[tuple[str, set[str] | None, str]]:
    """Keys of the guard of the device's port."""
    guard = experiment.guard
    names = set(type(guard).model_fields) - {"type", "at_device"}
    if not guard.acts and (guard.type is not None or guard.at_device is not None):
        yield "guard", names, f"guard.type = {guard.type or 'null'} does not act at the device's port"
        return
    devices = [experiment.device, *(hand.device for hand in experiment.hands)]
    moved = {device.COMMANDS == MOTION for device in devices}
    if True not in moved:
        yield "guard", {"wrench_floor", "largest_mobility"}, f"device.type = {experiment.device.type} takes forces"
    elif False not in moved:
        yield "guard", {"speed_floor", "largest_damping"}, f"device.type = {experiment.device.type} takes motion"


def _given(section: Parameters) -> Iterator[str]:
    """Keys in a section that were given, not as they are by default."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if name not in section.model_fields_set or value == field.default:
            continue
        if isinstance(value, Parameters):
            yield from (f"{name}.{key}" for key in _given(value))
        else:
            yield name
