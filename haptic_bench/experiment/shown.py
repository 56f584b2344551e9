"""Content of a page about a trial: its scene, its topics, and the parameters that can be changed while it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from haptic_bench.experiment.model import Experiment
from haptic_bench.experiment.resolution import Trial
from haptic_sim.messages import topic_of
from haptic_view.frame import Sources, charts_of
from haptic_view.gains import Gain, live_gains
from haptic_view.scene import NOWHERE, About, Scene, scene_of


def sources_of(experiment: Experiment) -> Sources:
    """Sources that a trial of an experiment publishes."""
    return Sources(not experiment.standalone, experiment.asynchronous, experiment.environment.publish is not None)


def build_scene(trial: Trial, travelled: np.ndarray = NOWHERE, *, visual: bool = False) -> Scene:
    """The scene of a trial; for `travelled` and `visual` see `scene_of`.

    Raises:
        ParameterError: a file of its world is no longer there.
    """
    experiment = trial.experiment
    about = About(experiment.title or experiment.name, experiment.rate, charts_of(sources_of(experiment)))
    return scene_of(about, experiment, trial.start, travelled, visual=visual)


def gains_of(trial: Trial) -> list[Gain]:
    """The gains of a trial, by their sections."""
    found: list[Gain] = []
    for name, each in trial.hands.items():
        experiment = each.experiment
        if not experiment.standalone:
            nodes = (topic_of(name, "controller"),)
            found += live_gains(experiment.controller, "controller.", nodes)
    tool_side = _tool_side(trial.experiment)
    found += live_gains(trial.experiment.contact, "contact.", tool_side)
    used = _used_by_contact(trial)
    return [replace(gain, acts=gain.key in used if gain.nodes == tool_side else _is_set(gain.value)) for gain in found]


def _is_set(value: Any) -> bool:
    """Whether the value of a gain is not zero; of a truth value or a text: always."""
    match value:
        case tuple():
            return any(value)
        case bool():
            return True
    return bool(value != 0.0)


def _used_by_contact(trial: Trial) -> set[str]:
    """The keys of contacts that the trial's method and friction model use."""
    experiment = trial.experiment
    if experiment.scene.CONSTRAINED:
        return set()
    return {f"contact.{key}" for key in experiment.environment.method.used(experiment.contact)}


def _tool_side(experiment: Experiment) -> tuple[str, ...]:
    """Nodes that simulate contacts; the one that answers the controller first."""
    return ("local_model", "environment") if experiment.asynchronous else ("environment",)
