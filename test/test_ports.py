"""The probe of guarded ports: it finds a guard that fails, and the kernels of the driver pass it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from campaign import ports


def drawn(count: int, seed: int = 1) -> ports.Trials:
    return ports.drawn(np.random.default_rng(seed), count)


@pytest.mark.parametrize("planar", [True, False])
def test_random_ports_are_passive(planar: bool) -> None:
    trials = drawn(400)
    found = ports.run(trials, planar)
    assert ports.faults(trials, found) == []
    assert np.count_nonzero(found.acted) > 200


def test_a_guard_that_does_not_act_is_found() -> None:
    trials = drawn(100)
    trials.acts[:] = 0
    assert len(ports.faults(trials, ports.run(trials, True))) > 20


def test_a_guard_that_is_told_another_mass_is_found() -> None:
    """`move` of an ideal device takes its inertia, `predict_move` the coefficients of a step."""
    trials = drawn(200)
    trials.resolution[:], trials.lost[:], trials.damped[:] = 0.0, 0.0, 0
    trials.held[:, :, 2] = trials.period[:, None]
    trials.held[:, :, 3] = trials.period[:, None] ** 2 / trials.inertia
    good = ports.run(trials, True)
    assert not ports.faults(trials, good) and good.excused.max() < 1e-9
    trials.held[:, :, 3] /= 1.5
    assert len(ports.faults(trials, ports.run(trials, True))) > 10


def test_the_motion_that_is_measured_is_the_true_one() -> None:
    """What is observed at the beginning of a tick is what was given before."""
    trials = drawn(50)
    trials.resolution[:], trials.lost[:], trials.acts[:] = 0.0, 0.0, 0
    before, found = ports.run(trials, True, 199), ports.run(trials, True, 200)
    assert found.observed == pytest.approx(before.given, rel=1e-9, abs=1e-12)
    assert found.given.max() > 1e-3


def test_speed_limits_leave_other_limits_and_the_guard_as_they_are() -> None:
    """Found by the probe: what the limit of speed took away had taken energy, or left more in another direction."""
    trials = drawn(300, 2)
    trials.resolution[:], trials.lost[:] = 0.0, 0.0
    trials.speed[:] = (0.05, 1.5)
    assert ports.faults(trials, ports.run(trials, False)) == []


def test_a_case_counts_its_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "BATCH", 50)
    outcome = ports.case(3, tmp_path)
    assert outcome.things == 50 and not outcome.faults and outcome.tried.startswith("50 trials of 300 ticks")
