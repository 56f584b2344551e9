"""Printed objects of the library: one short line each."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from haptic_bench import Loop, experiment
from haptic_bench.experiment import Experiment
from haptic_bench.recording.samples import Samples
from haptic_sim import Model, World
from haptic_sim.contact.response import ContactParameters
from haptic_study.session import Session

BOX = {"joint": "free", "mass": 1.0, "inertia": [1e-3, 1e-3, 1e-3]}
ALONE: dict[str, Any] = {"bodies": {"box": BOX}, "tool": "box"}


def test_objects_are_printed_in_one_short_line() -> None:
    (trial,) = experiment.load("corner_peg", ["duration=0.5"])
    assert repr(trial) == "Trial(corner_peg, 0.5 s at 512 Hz)"
    assert repr(trial.world) == "WorldSetup(1 moving bodies, 3 degrees of freedom, 5 shapes)"
    assert repr(trial.experiment) == "Experiment(corner_peg: A peg pushed into a corner)"
    samples = Samples({"tick": np.arange(3), "time": np.arange(3) / 1e3})
    assert repr(samples) == "Samples(3 rows, 2 columns, 0 to 0.002 s)"
    assert repr(Samples({"time": np.zeros(0)})) == "Samples(0 rows, 1 columns)"


def test_parameters_show_what_is_not_the_default() -> None:
    assert repr(ContactParameters()) == "ContactParameters()"
    assert repr(ContactParameters(damping=7.0)) == "ContactParameters(damping=7.0)"


@pytest.mark.parametrize(
    ("build", "shown"),
    [
        (lambda: Model({"bodies": 3}), "Model(not built)"),
        (lambda: World({"bodies": 3}), "World(not built)"),
        (lambda: World(SimpleNamespace(bodies=3)), "World(not built)"),  # type: ignore[arg-type]
        (lambda: Loop("corner_peg", world=ALONE), "Loop(not built)"),
        (lambda: Loop("corner_peg", {"rate": -1}), "Loop(not built)"),
        (lambda: Samples(3), "Samples(not built)"),  # type: ignore[arg-type]
        (lambda: Experiment(name=3), "Experiment(not built)"),  # type: ignore[arg-type]
        (lambda: ContactParameters(damping=-1.0), "ContactParameters()"),
        (lambda: Session(SimpleNamespace(parameters=None), "p01"), "Session(study="),  # type: ignore[arg-type]
    ],
)
def test_objects_whose_construction_failed_are_shown_in_its_traceback(build: Callable[[], object], shown: str) -> None:
    """As a debugger does; it raised an AttributeError."""
    with pytest.raises(Exception, match=r"\w") as failed:
        build()
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(failed.tb)]
    found = [repr(frame["self"]) for frame in frames if type(frame.get("self")).__module__.startswith("haptic_")]
    assert any(one.startswith(shown) for one in found), found


@pytest.mark.parametrize("kind", [Model, World, Loop])
def test_objects_that_are_half_built_are_shown(kind: type) -> None:
    """Their last part failed."""
    whole = Loop("corner_peg") if kind is Loop else kind(ALONE)
    delattr(whole, {Model: "_simulator", World: "_core", Loop: "_loop"}[kind])
    assert repr(whole).startswith(f"{kind.__name__}(")
