"""Two hands that carry a box: what is claimed of them, and what makes each claim fail."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from claim_checks import Run, changed, names, scaled

from haptic_bench.recording.samples import Samples
from haptic_experiments.two_hands import ANALYSIS, carried
from haptic_sim.parameters import ParameterError


@pytest.fixture(scope="module")
def run() -> Run:
    return Run("two_hands")


def test_all_claims_hold(run: Run) -> None:
    assert run.holds(compare=True) == dict.fromkeys(names(ANALYSIS.CLAIMS), True)


def test_the_box_is_aloft_and_the_hands_carry_it(run: Run) -> None:
    body = carried(run.trial, run.samples)
    assert body.mass == 0.5
    assert body.weight == pytest.approx((0.5 + 0.5 * 0.4) * 9.81, rel=1e-12)
    np.testing.assert_allclose(body.across, [-1.0, 0.0, 0.0], atol=1e-12)
    assert 0.09 < body.rise.max() < 0.1
    assert body.place[-1, 1] == pytest.approx(0.15, abs=2e-3)


@pytest.mark.parametrize(
    ("claim", "wrong"),
    [
        ("carried", lambda samples: changed(samples, hand_py=np.where(samples["time"] > 2.5, 0.02, 0.0))),
        ("carried", lambda samples: changed(samples, q2=-samples["q2"] + samples["q2"][0])),
        ("weight", lambda samples: scaled(samples, 1.1, "left_rendered_fz")),
        ("weight", lambda samples: changed(samples, rendered_fz=0.5)),
        ("opposite", lambda samples: scaled(samples, 1.05, "left_rendered_fx")),
        ("opposite", lambda samples: scaled(samples, -1.0, "rendered_fx", "left_rendered_fx")),  # hands that are pulled
        ("momentum", lambda samples: changed(samples, left_env_fy=1e-6)),
        ("momentum", lambda samples: scaled(samples, 1.001, "env_fz")),
    ],
)
def test_a_claim_can_fail(run: Run, claim: str, wrong: Callable[[Samples], Samples]) -> None:
    assert run.holds(wrong(run.samples))[claim] is False


def test_one_hand_does_not_lift_it(run: Run) -> None:
    """The comparison without the second hand decides: if the box rose there, too, the claim would fail."""
    assert run.holds(changed(run.samples, q2=-samples_rise(run)), compare=True)["takes_both"] is False


def samples_rise(run: Run) -> np.ndarray:
    """How far the box rises [m] (rows,)."""
    return np.asarray(run.samples["q2"] - run.samples["q2"][0])


def test_another_experiment_is_refused() -> None:
    with pytest.raises(ParameterError, match="needs two hands"):
        Run("two_hands", "hands=[]")
