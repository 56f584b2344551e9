"""Trials on an admittance device, offline: what is set for it, worlds that it renders, and what is simulated again."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import yaml
from offline_runs import run_unrecorded
from scipy.spatial.transform import Rotation

from haptic_bench import experiment
from haptic_bench.analysis import tracking
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import MessageStore, Samples, of_trial
from haptic_bench.replay.resimulation import resimulate
from haptic_bench.running.offline import simulate
from haptic_control.admittance import AdmittanceParameters
from haptic_sim.parameters import ParameterError

DISPLAY = "device.type=admittance"
IN_CONTACT = (DISPLAY, "controller.type=admittance", "analysis=trial")


def disk(*settings: str, duration: float | None = 0.3) -> Trial:
    return experiment.load("rolling_disk", [DISPLAY, "analysis=trial", *settings], duration)[0]


def test_the_device_brings_its_controller(tmp_path: Any) -> None:
    """Where none is given, or only gains; the resolved file says so, and is read back as it is."""
    trial = disk()
    assert trial.experiment.controller == AdmittanceParameters()
    written = experiment.write_resolved(trial, tmp_path)
    document = yaml.safe_load((tmp_path / "experiment.yaml").read_text())
    assert document["controller"]["type"] == "admittance"
    assert experiment.read_resolved(tmp_path / "experiment.yaml").experiment == written.experiment
    gains = disk("controller.derivative=[101,102,103,104,105,106]").experiment.controller
    assert gains == AdmittanceParameters(derivative=(101, 102, 103, 104, 105, 106))
    assert disk("controller.type=none").experiment.controller.type == "admittance"


REFUSED = {
    "other controller": (
        "corner_peg",
        DISPLAY,
        "controller.type = four_channel: an admittance device takes motion; set controller.type=admittance",
    ),
    "other device": (
        "corner_peg",
        "controller.type=admittance",
        "controller.type = admittance: device.type = inertial takes forces; set device.type=admittance",
    ),
    "no device": (
        "rolling_disk",
        "controller.type=admittance",
        "controller.type = admittance: without a device there is none",
    ),
    "too much damping": (
        "rolling_disk",
        "controller.derivative=[3e3,1,1,1,1,1]",
        "errors would grow by 115 % in a tick at rate = 1000 Hz; lower them, or raise the rate",
    ),
    "too much integral": ("rolling_disk", "controller.proportional=[100,1,1,1,1,1]", "errors would grow by "),
    "unknown key": ("rolling_disk", "device.mass=3", "device.mass: unknown key"),
    "bad value": ("rolling_disk", "device.noise=[-1,0]", "device.noise[0] = -1: must be >= 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_go_together_is_refused(case: str) -> None:
    name, setting, problem = REFUSED[case]
    settings = [setting] if case in ("other device", "no device") else [DISPLAY, setting]
    with pytest.raises(ParameterError, match=re.escape(problem)):
        experiment.load(name, settings)


def test_errors_are_those_of_scipy() -> None:
    rng = np.random.default_rng(20260)
    table = {}
    for body in ("tool", "hand"):
        poses = np.hstack([rng.normal(size=(50, 3)), Rotation.random(50, rng=rng).as_quat()])
        poses[0, 3:] = 0, 0, 0, 1
        table |= {f"{body}_{name}": poses[:, i] for i, name in enumerate(("px", "py", "pz", "qx", "qy", "qz", "qw"))}
    samples = Samples(table)
    position, rotation = tracking.errors(samples)
    tool, hand = samples.pose("tool"), samples.pose("hand")
    np.testing.assert_array_equal(position, tool[:, :3] - hand[:, :3])
    expected = (Rotation.from_quat(tool[:, 3:]) * Rotation.from_quat(hand[:, 3:]).inv()).as_rotvec()
    np.testing.assert_allclose(rotation, expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(rotation[0], np.zeros(3))


def test_a_disk_is_tracked_and_its_sensor_noisy() -> None:
    """The device starts where the tool is, stays within micrometres, and senses what is applied but for the noise."""
    trial = disk(duration=1.0)
    samples = run_unrecorded(trial)
    np.testing.assert_array_equal(samples.pose("hand")[0], samples.pose("tool")[0])
    position, rotation = tracking.errors(samples)
    assert np.abs(samples.twist("tool")[:, :3]).max() > 0.02
    assert np.abs(position).max() < 2e-5 and np.abs(rotation).max() < 2e-4
    applied = tracking.operator_wrench(trial, samples)
    assert applied is not None
    expected = np.array([trial.table[:, 1 + i][np.searchsorted(trial.table[:, 0], 0.5)] for i in range(6)])
    np.testing.assert_allclose(applied[500], expected, rtol=0, atol=5e-3)
    noise = samples.wrench("operator") - applied
    np.testing.assert_allclose(noise.std(axis=0), [0.02] * 3 + [5e-4] * 3, rtol=0.1)
    found = tracking.metrics(trial, samples)
    assert found["sensor_error"] == pytest.approx(np.sqrt(3) * 0.02, rel=0.05)
    assert found["drive_limited"] == 0.0
    (claim,) = tracking.claims(trial, samples, found)
    assert claim.holds is True
    assert claim.measured["yielding [m]"] == np.linalg.norm(applied[:, :3], axis=1).max() / 1e4


def test_noise_is_of_the_seed() -> None:
    first, again, other = (run_unrecorded(disk(f"seed={seed}", duration=0.02)).wrench("operator") for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


def test_a_saturated_drive_falls_behind_and_says_so() -> None:
    trial = disk("device.drive_limit=[2,2,2,0.1,0.1,0.1]", duration=1.0)
    found = tracking.metrics(trial, run_unrecorded(trial))
    assert found["drive_limited"] > 0.1 and found["tracking_error"] > 1e-4
    assert not tracking.claims(trial, run_unrecorded(trial), found)[0].holds


def test_a_world_of_contacts_is_rendered() -> None:
    """Without its feedback a device without errors moves as the peg does, to rounding; with errors, in micrometres."""
    (trial,) = experiment.load("corner_peg", IN_CONTACT, 0.6)  # the first wall is met after 0.612 s
    position, rotation = tracking.errors(run_unrecorded(trial))
    assert np.abs(position).max() < 5e-5 and np.abs(rotation).max() < 1e-4
    perfect = ["inertia_error=0", "friction_error=0", "friction_speed=[0,0]", "noise=[0,0]"]
    gains = [f"controller.{name}=[0,0,0]" for name in ("proportional", "integral", "derivative")]
    (trial,) = experiment.load("corner_peg", [*IN_CONTACT, *gains, *(f"device.{key}" for key in perfect)], 0.6)
    position, rotation = tracking.errors(run_unrecorded(trial))
    assert np.abs(position).max() < 1e-14 and np.abs(rotation).max() < 1e-13


def test_an_impact_is_rendered_as_fast_as_the_drive_can() -> None:
    """The peg stops in a tick, the device needs M v / limit; later it is with the peg again, at the wall."""
    (trial,) = experiment.load("corner_peg", [*IN_CONTACT, "device.drive_limit=[200,200,20]"], 2.0)
    samples = run_unrecorded(trial)
    position, _ = tracking.errors(samples)
    after = samples["time"] > 0.62
    assert 1e-4 < np.abs(position[:, 0]).max() < 0.02
    assert np.abs(position[-100:, 0]).max() < 1e-4
    assert samples["hand_px"][after].min() > 0.0


def test_a_trial_simulates_again_and_what_was_changed_is_found() -> None:
    trial, store = disk(), MessageStore()
    simulate(trial, store)
    whole = resimulate(trial, store.messages)
    published = len(range(0, 301, round(trial.experiment.rate / 60)))  # world states
    assert (whole.difference, whole.unverified, whole.compared) == ("", [], 302 + 302 + 301 + 301 + published)
    forged = {topic: list(data) for topic, data in store.messages.items()}
    at = 4 + 8 * 12
    forged["device_command"][100] = forged["device_command"][100][:at] + b"\0" + forged["device_command"][100][at + 1 :]
    assert resimulate(trial, forged).difference.startswith(("DeviceCommand of tick 100", "DeviceState of tick 101"))


@pytest.mark.parametrize("lost", ["tool_command", "device_state"])
def test_what_the_controller_remembers_is_not_guessed(lost: str) -> None:
    """With a message missing in the bag the rest cannot be verified; that is no difference."""
    trial, store = disk(), MessageStore()
    simulate(trial, store)
    del store.messages[lost][50]
    verdict = resimulate(trial, store.messages)
    assert verdict.difference == ""
    assert any(line.startswith("device_command from 5") for line in verdict.unverified)


@pytest.mark.drawn
def test_reports_show_how_the_device_follows() -> None:
    trial = disk()
    store = MessageStore()
    simulate(trial, store)
    samples = of_trial(trial, store.messages)
    from haptic_bench.analysis.base import analysis_of

    analysis = analysis_of(trial.experiment)
    figure = analysis.figures(trial, samples, analysis.analyse(trial, samples))[-1]
    assert [panel.name for panel in figure.panels] == [
        "device_path",
        "device_position",
        "device_rotation",
        "sensed_force",
        "sensed_torque",
        "drive_force",
    ]
    assert "does not react" in figure.caption
