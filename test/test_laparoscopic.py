"""An instrument through a fixed entry point: fulcrum, entry point, tissue."""

import numpy as np
import pytest
from linkage_checks import CLAIMS, METRICS, check_figures, run, run_alone

from haptic_experiments import laparoscopic
from haptic_experiments.laparoscopic import entry_error, outside, shaft, tip

NAMES = [*CLAIMS, "entry_point", "fulcrum", "feels_tissue"]


@pytest.fixture(scope="module")
def alone():
    return run_alone("laparoscopic")


@pytest.fixture(scope="module")
def with_device():
    return run("laparoscopic", compare=True)


def test_names_are_those_of_the_contract(alone):
    own = ["entry_error", "entry_error_hand", "ratio_error", "ratio_least", "ratio_largest", "tissue_force"]
    assert list(alone.metrics) == [*METRICS, *own]
    assert list(alone.holds) == NAMES
    assert [statement.name for statement in laparoscopic.ANALYSIS.CLAIMS] == NAMES


def test_instrument_alone_shows_what_it_claims(alone):
    assert alone.holds == {**dict.fromkeys(NAMES, True), "together": None}
    assert set(alone.samples["constraint_directions"]) == {2.0}
    assert alone.metrics["ratio_least"] == pytest.approx(0.6, abs=0.02)


def test_instrument_with_a_device_shows_what_it_claims(with_device):
    assert with_device.holds == dict.fromkeys(NAMES, True)
    assert with_device.metrics["entry_error_hand"] < 2e-3


def test_geometry_of_a_tilted_shaft():
    angle = 0.7
    pose = np.array([[0.0, 0.0, 0.3, 0.0, np.sin(angle / 2), 0.0, np.cos(angle / 2)]])  # about y
    assert shaft(pose)[0] == pytest.approx([np.sin(angle), 0.0, np.cos(angle)])
    assert entry_error(pose)[0] == pytest.approx(0.3 * np.sin(angle))
    assert outside(pose)[0] == pytest.approx(0.3 * np.cos(angle))


def test_tip_goes_against_the_handle(alone):
    samples, scene = alone.samples, alone.trial.experiment.scene
    pose = samples.pose("tool")
    at = tip(scene, pose)
    far = np.linalg.norm(pose[:, :2], axis=1) > 0.01
    assert far.any()
    assert np.all(np.einsum("ni,ni->n", pose[far, :2], at[far, :2]) < 0.0)
    # displacements as lever arms: the shaft is straight
    above = outside(pose)[far]
    assert at[far] == pytest.approx(-((scene.length - above) / above)[:, None] * pose[far, :3], abs=1e-12)


def test_tissue_carries_what_the_hand_presses(alone):
    samples = alone.samples
    touching = samples["contacts"] > 0
    assert touching.any() and not touching.all()
    assert samples["env_fz"][touching].max() > 0.5
    # power of what the hand feels is that of the tissue: without tissue nothing
    free = run_alone("laparoscopic", "scene.tissue=null", "duration=1.0")
    assert np.abs(free.samples.wrench("env")).max() == 0.0
    assert free.holds["feels_tissue"] is None


def test_forces_at_the_entry_point_move_nothing():
    # a force across the shaft at the entry point, as a wrench at the handle: (f, -p x f)
    f, p = np.array([3.0, -2.0, 0.0]), np.array([0.0, 0.0, 0.25])
    wrench = np.concatenate([f, -np.cross(p, f)]).tolist()
    settings = ("operator.type=constant", f"operator.wrench={wrench}", "scene.gravity=0", "duration=0.2")
    found = run_alone("laparoscopic", *settings)
    assert max(np.abs(found.samples[f"v{i}"]).max() for i in range(4)) < 1e-10
    assert found.held.across == pytest.approx(found.held.felt, abs=1e-10)


def test_a_shaft_that_misses_its_entry_is_noticed(alone):
    samples = alone.samples.with_columns({"tool_px": alone.samples["tool_px"] + 1e-6})
    claims = laparoscopic.ANALYSIS.analyse(alone.trial, samples, compare=False).claims
    assert {c.name: c.holds for c in claims}["entry_point"] is False


@pytest.mark.exhaustive
@pytest.mark.drawn
def test_figures(with_device):
    check_figures(with_device)
