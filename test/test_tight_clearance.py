"""A peg in a hole that fits it exactly: the free space that is felt, and what decides claims, in both experiments."""

from __future__ import annotations

import numpy as np
import pytest
from claim_checks import Compared, changed, load, names, scaled

from haptic_bench.analysis.base import analysis_of
from haptic_bench.recording.samples import MessageStore, Samples
from haptic_bench.running.offline import simulate
from haptic_experiments.common.local_models import felt_clearance

EXPERIMENTS = ("tight_clearance", "clearance_stiff")
FOUND = {
    "narrower": True,
    "exact_hole": True,
    "turns_more": None,
    "stable": True,
    "ir_unstable": False,
    "two_centimetres": False,
}


@pytest.fixture(scope="module")
def compared() -> dict[str, Compared]:
    return {name: Compared(name) for name in EXPERIMENTS}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_is_published_and_what_is_found(name: str, compared: dict[str, Compared]) -> None:
    declared = names(compared[name].analysis.CLAIMS)
    assert compared[name].holds() == {claim: FOUND[claim] for claim in declared}


def test_numbers_are_those_of_the_text(compared: dict[str, Compared]) -> None:
    for name, stiffness, damping, force in (("tight_clearance", 4e3, 30.0, 1.0), ("clearance_stiff", 15e3, 100.0, 3.0)):
        of, samples = compared[name].trial.experiment, compared[name].runs["LM5"]
        assert (of.contact.stiffness, of.contact.damping) == (stiffness, damping)
        np.testing.assert_allclose(samples["operator_fx"], force * np.sin(5 * np.pi * samples["time"]), atol=1e-12)
        width = of.scene.slot_width  # type: ignore[union-attr]
        assert width == of.tool.size[1]  # type: ignore[union-attr]
        # the motion that two points of each wall allow, 2 F / 2 K, with impacts on top
        assert force / stiffness < felt_clearance(samples, "x") < 1.2 * force / stiffness


@pytest.mark.parametrize(
    ("name", "claim", "run", "wrong"),
    [
        ("tight_clearance", "narrower", "LM5", lambda samples: scaled(samples, 6.0, "hand_px")),
        ("tight_clearance", "exact_hole", "LM5", lambda samples: stretched(samples, 1.02)),
        ("tight_clearance", "exact_hole", "LM5", lambda samples: stretched(samples, 0.98)),
        ("clearance_stiff", "stable", "LM0", lambda samples: stretched(samples, 3.0, late=True)),
        ("clearance_stiff", "stable", "LM5", lambda samples: stretched(samples, 3.0, late=True)),
    ],
)
def test_a_hand_that_moves_otherwise_fails(
    name: str, claim: str, run: str, wrong, compared: dict[str, Compared]
) -> None:  # type: ignore[no-untyped-def]
    samples = compared[name].runs[run]
    assert compared[name].holds(**{run: wrong(samples)})[claim] is False


def stretched(samples: Samples, factor: float, late: bool = False) -> Samples:
    """With the motion along x multiplied, everywhere or in the second half of the time."""
    x = samples["hand_px"]
    where = np.arange(x.size) > x.size // 2 if late else True
    return changed(samples, hand_px=(factor - 1.0) * (x - x[0]) * where)


def test_claims_that_are_open_or_fail_can_be_decided_otherwise(compared: dict[str, Compared]) -> None:
    stiff = compared["clearance_stiff"]
    runs = stiff.runs
    tilt = {name: changed(runs[name], hand_qz=0.01 * np.sin(runs[name]["time"])) for name in ("IR", "LM0")}
    assert stiff.holds(**tilt)["turns_more"] is True
    tilt |= {"LM5": changed(runs["LM5"], hand_qz=0.1 * np.sin(runs["LM5"]["time"]))}
    assert stiff.holds(**tilt)["turns_more"] is False
    wrong = {"IR": stretched(runs["IR"], 3.0, late=True), "LM0": stretched(runs["LM0"], 3.0)}
    found = stiff.holds(**wrong)
    assert found["ir_unstable"] is True and found["two_centimetres"] is True


def test_a_hole_that_is_not_as_deep_turns_the_peg() -> None:
    """Then its end is held and its top is not."""
    own = load("tight_clearance", "scene.slot_depth=0.03", "scene.start=[0.05,0.0965]", "duration=1.0")
    analysis = analysis_of(own.experiment)
    findings = analysis.analyse(own, analysis.run_unrecorded(own))
    (claim,) = [claim for claim in findings.claims if claim.name == "turns_more"]
    assert claim.holds is not None and min(value for value in claim.measured.values() if value is not None) > 1e-4


@pytest.mark.parametrize("setting", ["environment.method=penalty", "local_model.deformation=false"])
def test_with_an_update_in_each_tick_it_is_the_synchronous_world(setting: str) -> None:
    """Without delay, every tick has the constraints of the whole world.

    The peg starts 1e-17 m deep in the walls: without deformation it touches them from the start as there; with it, it
    meets them later, which impulses would tell.
    """
    of_both = [] if setting.startswith("local_model") else [setting]  # a world without a local model has no such key
    asynchronous = [setting, "environment.rate=512", "environment.delay=0"]
    synchronous = [*of_both, "environment.rate=null", "local_model.type=none"]
    found = []
    for settings in (asynchronous, synchronous):
        own = load("tight_clearance", *settings)
        found.append(analysis_of(own.experiment).run_unrecorded(own))
    for name in ("hand_px", "hand_py"):
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=0, atol=1e-9)


@pytest.mark.exhaustive
def test_stiff_contacts_in_a_world_at_20_hz_are_stable_for_a_minute() -> None:
    """15,000 N/m at a servo rate of 1 kHz, within 5 mm: the motion of the last second is that of the second one."""
    settings = ["rate=1000", "environment.rate=20", "environment.publish=null", "analysis=trial"]
    own = load("clearance_stiff", *settings, "operator.amplitude=[1,0,0,0,0,0]", "duration=60")
    store = MessageStore()

    def keep(tick: int, messages: dict[str, bytes]) -> None:
        if tick < 2002 or tick > 58998:
            store(tick, messages)

    simulate(own, keep)
    samples = analysis_of(own.experiment).samples(own, store.messages)
    x, time = samples["hand_px"], samples["time"]
    second, last = x[(time >= 1.2) & (time <= 2.0)], x[time >= 59.2]
    assert np.ptp(second) > 1e-5
    np.testing.assert_allclose(np.ptp(last), np.ptp(second), rtol=1e-3)
    np.testing.assert_allclose(samples["tool_px"], x, atol=1e-9)
