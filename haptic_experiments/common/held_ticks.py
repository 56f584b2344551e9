"""Ticks in which a solver could not meet the constraints and kept the tool where it was, found in the samples.

Such a tool meets its constraints, so residuals do not show these ticks. They are found from the motion: the
configuration does not change in any bit, although the velocity is not zero; or the tool rests, although its equations
of motion give an acceleration under the acting wrench.
"""

from __future__ import annotations

import re

import numpy as np

from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_control.admittance import AdmittanceParameters
from haptic_sim.constraints.scenes import CONSTRAINED, build_setup

MOVING = 1e-9  # [m/s, rad/s] a tool this fast, or that is to be after a tick, does not keep its configuration


def ticks_held(trial: Trial, samples: Samples) -> int:
    """Number of held ticks; ticks at rest are judged only for tools under exact constraints."""
    q, v = (
        np.stack([samples[name] for name in samples.names if re.fullmatch(rf"{letter}\d+", name)], axis=-1)
        for letter in "qv"
    )
    stayed = np.all(q[1:] == q[:-1], axis=1) & (np.diff(samples["tick"]) == 1)
    moving = np.abs(v[:-1]).max(axis=1, initial=0.0) > MOVING
    held = int(np.count_nonzero(stayed & moving))
    wrenches = tool_wrenches(trial, samples)
    if wrenches is None or not isinstance(trial.experiment.scene, CONSTRAINED):
        return held
    rests = np.flatnonzero(stayed & ~v[:-1].any(axis=1) & ~v[1:].any(axis=1))
    if not rests.size:
        return held
    return held + int(np.count_nonzero(_gained(trial, q[rests], wrenches[rests]) > MOVING))


def tool_wrenches(trial: Trial, samples: Samples) -> np.ndarray | None:
    """Wrench on the tool in each tick, without its constraints (rows, 6) [N, N m]; None if it is not known."""
    wrenches = samples.wrench("operator")
    if "hand_px" not in samples.names:
        return wrenches
    controller = trial.experiment.controller
    # what the device senses acts on the tool
    return controller.force_scale * wrenches if isinstance(controller, AdmittanceParameters) else None


def _gained(trial: Trial, q: np.ndarray, wrenches: np.ndarray) -> np.ndarray:
    """Largest rate of a coordinate that a tool at rest has after a tick [m/s, rad/s], (rows,).

    By M a - A^T lambda = forces, A a = 0, for each configuration once.
    """
    experiment = trial.experiment
    setup = build_setup(experiment.scene, experiment.constraint)
    system, n, rest = setup.system, setup.system.n, np.zeros(setup.system.n)
    gained = np.zeros(len(q))
    for configuration in np.unique(q, axis=0):
        rows = np.flatnonzero(np.all(q == configuration, axis=1))
        w = system.evaluate(configuration, rest)
        forces = (w.passive - w.bias)[:, None] + w.J.T @ wrenches[rows, :3].T + w.E.T @ wrenches[rows, 3:].T
        balance = np.block([[w.M, -w.A.T], [w.A, np.zeros((system.m, system.m))]])
        sides = np.vstack([forces, np.zeros((system.m, rows.size))])
        acceleration = np.linalg.lstsq(balance, sides, rcond=None)[0][:n]
        gained[rows] = np.abs(acceleration).max(axis=0) / experiment.rate
    return gained
