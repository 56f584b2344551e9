"""The trials whose kernels are compiled before a command runs."""

from __future__ import annotations

from haptic_bench.commands import warm


def test_the_trials_that_call_the_kernels_of_tests_can_be_loaded() -> None:
    """Whatever a trial raises is left to the command itself, which for tests would not say it."""
    trials = list(warm.trials_of(["test"]))
    assert [trial.experiment.name for trial in trials] == [name for name, _ in warm.ALL]
    assert all(trial.experiment.duration == warm.DURATION for trial in trials)


def test_a_command_compiles_for_its_own_experiment() -> None:
    (trial,) = warm.trials_of(["run", "incline", "--set", "analysis=trial"])
    assert (trial.experiment.name, trial.experiment.duration) == ("incline", warm.DURATION)
    assert not list(warm.trials_of(["list"]))
