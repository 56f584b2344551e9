"""push_arm and pull_arm: what they show, and that each claim can fail; the motion saved and followed again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from claim_checks import Run, load, names

from haptic_bench.analysis import motions
from haptic_bench.commands.command_line import BAD_INPUT, main
from haptic_bench.recording.samples import Samples
from haptic_experiments import pull_arm, push_arm
from haptic_experiments.common.edited_arm import EditedArmAnalysis
from haptic_sim.motions import trajectory as trajectories

FORCES = ("rendered_fx", "rendered_fy", "rendered_fz")


@pytest.fixture(scope="module")
def pushed() -> Run:
    return Run("push_arm")


@pytest.fixture(scope="module")
def pulled() -> Iterator[Run]:
    """The trial; the push beside which it is judged is simulated once."""
    run = Run("pull_arm")
    assert isinstance(run.analysis, EditedArmAnalysis)
    beside = run.analysis.reference(run.trial)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(run.analysis), "reference", lambda analysis, trial: beside)
        yield run


def rest(run: Run) -> Samples:
    """A trial in which the device renders nothing."""
    nothing = np.zeros(len(run.samples))
    return run.samples.with_columns(dict.fromkeys(FORCES, nothing))


def untouched(run: Run) -> Samples:
    """A trial whose arm follows its trajectory whatever the hand does."""
    (motion,) = run.trial.world.motions
    aim = motion.trajectory.evaluate(run.samples["time"])
    return run.samples.with_columns({f"q{i}": aim[:, k] for k, i in enumerate(motion.places.q)})


def test_push_shows_what_it_claims(pushed):
    assert pushed.holds() == dict.fromkeys(names(push_arm.ANALYSIS.CLAIMS), True)


def test_pull_shows_what_it_claims_beside_push(pulled):
    assert pulled.holds(compare=True) == dict.fromkeys(names(pull_arm.ANALYSIS.CLAIMS), True)


def test_claims_of_push_fail_for_other_trials(pushed):
    assert pushed.holds(untouched(pushed))["edited_clear"] is False
    still = pushed.holds(rest(pushed))
    assert still["touches_felt"] is False and still["two_pushes"] is False
    humming = pushed.samples.with_columns({"rendered_fx": pushed.samples["rendered_fx"] + 0.05})
    assert pushed.holds(humming)["touches_felt"] is False
    (motion,) = pushed.trial.world.motions
    before = pushed.samples["time"] < 2.0
    stays = {f"q{i}": np.where(before, pushed.samples[f"q{i}"], pushed.samples[f"q{i}"][2000]) for i in motion.places.q}
    assert pushed.holds(pushed.samples.with_columns(stays))["reaches_wall"] is False
    short = Run("push_arm", "duration=0.4")
    assert short.holds()["reaches_wall"] is None


def test_claims_of_pull_fail_for_other_trials(pulled):
    faint = {name: 0.1 * pulled.samples[name] for name in FORCES}
    assert pulled.holds(pulled.samples.with_columns(faint), compare=True)["more_force"] is False
    on = (pulled.samples["time"] % 0.8) < 0.4
    often = {name: np.where(on, pulled.samples[name], 0.0) for name in FORCES}
    assert pulled.holds(pulled.samples.with_columns(often), compare=True)["fewer_touches"] is False


def test_obstacle_elsewhere_is_no_obstacle():
    run = Run("push_arm", "scene.bodies.obstacle.position=[[0.62,-0.5,0.22]]", "duration=0.3")
    assert run.holds()["nominal_collides"] is False


def test_motion_that_returns_runs_into_the_obstacle():
    run = Run("push_arm", "scene.motions.line.after_touch=return", "duration=3.0")
    assert run.holds()["edited_clear"] is False


def test_changed_motion_is_saved_and_followed_again(pushed, tmp_path):
    (motion,) = pushed.trial.world.motions
    content = motions.as_trajectory(pushed.trial, pushed.samples.until(4.5), motion)
    file = tmp_path / "edited.json"
    trajectories.write(file, content)
    # the hand stays away
    again = Run(
        "push_arm",
        f"scene.motions.line.trajectory={{type: file, path: {file}}}",
        "operator.path=[[[0.0,0,0,0],[0.1,0,-0.05,0]]]",
        "duration=4.4",
    )
    found, wanted = (motions.edited(run.trial, run.samples, motion) for run in (again, pushed))
    assert found.x == pytest.approx(wanted.x[: len(found.x)], abs=1e-3)
    holds = again.holds()
    assert holds["nominal_collides"] is False and holds["edited_clear"] is True


@pytest.mark.exhaustive
def test_command_saves_and_compares(tmp_path, capsys):
    directory, file = tmp_path / "trial", tmp_path / "edited.json"
    assert main(["run", "push_arm", "--mode", "offline", "--duration", "1.2", "--quiet", "--out", str(directory)]) == 0
    assert main(["trajectory", str(directory), "--out", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "trajectory: overlaps: obstacle and arm/flange" in shown
    assert "recorded: collides with nothing" in shown
    assert trajectories.read(file).joint_names == ("waist", "shoulder", "elbow", "forearm_roll", "wrist", "flange")
    for wrong in (["x"], ["--rate", "0"], ["--out", str(tmp_path / "e.csv")]):
        assert main(["trajectory", str(directory), *wrong]) == BAD_INPUT
    errors = capsys.readouterr().err.splitlines()
    assert errors[0] == "haptics: x: unknown motion (known: line)"
    assert len(errors) == 3


def test_verified_bit_by_bit(tmp_path, capsys):
    directory = tmp_path / "trial"
    assert main(["run", "pull_arm", "--mode", "offline", "--duration", "0.6", "--quiet", "--out", str(directory)]) == 0
    assert main(["replay", str(directory), "--verify"]) == 0
    assert "identical, bit by bit" in capsys.readouterr().out


def test_a_trajectory_is_kept_with_its_trial(pushed, tmp_path, monkeypatch, capsys):
    """The original is gone, and where the user is another file has the name of the copy."""
    (motion,) = pushed.trial.world.motions
    file, directory = tmp_path / "edited.json", tmp_path / "trial"
    trajectories.write(file, motions.as_trajectory(pushed.trial, pushed.samples.until(1.5), motion))
    text = file.read_text()
    setting = f"scene.motions.line.trajectory={{type: file, path: {file}}}"
    arguments = ["--mode", "offline", "--duration", "0.3", "--set", setting, "--set", "analysis=trial", "--quiet"]
    assert main(["run", "push_arm", *arguments, "--out", str(directory)]) == 0
    assert (directory / "trajectory_1.json").read_text() == text
    file.unlink()
    directory = directory.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trajectory_1.json").write_text("{}")
    capsys.readouterr()
    assert main(["replay", str(directory), "--verify"]) == 0
    assert "identical, bit by bit" in capsys.readouterr().out


def test_figures_are_drawn(pulled):
    findings = pulled.analysis.analyse(pulled.trial, pulled.samples, compare=False)
    figure = pulled.analysis.figures(pulled.trial, pulled.samples, findings)[0]
    assert [panel.name for panel in figure.panels] == ["from_above", "joints", "felt", "accelerations"]
    assert not any(panel.empty for panel in figure.panels)


def test_study_needs_its_parts():
    with pytest.raises(ValueError, match=r"analysis = pull_arm: needs a pull in scene.pulls; set analysis=trial"):
        load("push_arm", "analysis=pull_arm")
    with pytest.raises(ValueError, match=r"needs bodies named obstacle and wall"):
        load("two_hands", "analysis=push_arm")


def test_gains_that_are_unstable_are_refused_before_the_start(capsys):
    setting = "scene.motions.line.tracking={type: computed_torque, damping: 5000}"
    assert main(["validate", "push_arm", "--set", setting]) == BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "haptics: scene.motions.line.tracking: stiffness and damping are too large for the rate of 1000"
    )
