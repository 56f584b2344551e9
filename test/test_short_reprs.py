"""What a user of the library sees when printing an object: one short line."""

from __future__ import annotations

import numpy as np

from haptic_bench import experiment
from haptic_bench.recording.samples import Samples
from haptic_sim.contact.response import ContactParameters


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
