"""The benchmark of the local model: it measures what it says, and NumPy moves the body as the proxy does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks import local_model
from benchmarks.local_model import FEW, TARGETS, PlainProxy, Runner, arm_world, bottom, free_world
from haptic_sim.messages import COLLIDING, RESTING


@pytest.mark.parametrize("count", [12, 64])
def test_the_free_body_rests_on_all_constraints(count: int) -> None:
    one = Runner(free_world(), count)
    for _ in range(300):
        one.prepare()
        one.step()
    assert (one.state.contact_state, one.state.contacts) == (RESTING, count)
    assert one.state.tick == 299
    np.testing.assert_allclose(one.state.wrench[2], 1.0, rtol=1e-3)


@pytest.mark.parametrize("method", ["impulse_augmented", "frictional_impulses"])
def test_every_step_of_the_impact_is_one(method: Any) -> None:
    one = Runner(free_world(), FEW, method, impact=True)
    for _ in range(3):
        one.prepare()
        one.step()
        assert (one.state.contact_state, one.state.contacts) == (COLLIDING, FEW)
        # points leave with 0.3 of 0.5 m/s, against which 1 N acts on 1 kg for 1 ms; friction turns the body a little
        close = 1e-6 if method == "impulse_augmented" else 0.05
        assert one.state.twist[2] == pytest.approx(0.3 * 0.5 - 1e-3, rel=close)


@pytest.mark.parametrize("dynamics", ["current", "surveyed"])
def test_the_arm_is_on_all_constraints(dynamics: str) -> None:
    one = Runner(arm_world(), FEW, dynamics=dynamics)
    touched = []
    for _ in range(300):
        one.prepare()
        one.step()
        touched.append(one.state.contacts)
    assert one.state.v.size == 6 and np.isfinite(one.state.q).all()
    assert np.median(touched) == FEW


def test_numpy_moves_the_body_as_the_proxy_does() -> None:
    one, plain = Runner(free_world(), FEW, "penalty"), PlainProxy(bottom(FEW))
    for k in range(300):
        one.command.wrench[0] = plain.wrench[0] = 0.5 * np.sin(0.02 * k)  # it slides, and sticks again
        one.prepare()
        one.step()
        wrench = plain.step()
        np.testing.assert_allclose(wrench, one.state.wrench, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(plain.x, one.state.pose[:3], rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(plain.v, one.state.twist[:3], rtol=0.0, atol=1e-10)
    assert plain.slides.any() or np.abs(plain.strain).max() > 0.0


@pytest.mark.long
def test_steps_hold_no_arrays() -> None:
    one = Runner(free_world(), FEW)
    for _ in range(50):
        one.prepare()
        one.step()
    assert local_model.held_memory(one, 2000) <= local_model.MEMORY


@pytest.mark.long
@pytest.mark.exhaustive
def test_rows_are_well_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ROUNDS", 1), ("TURN", 5), ("SETTLE", 5), ("STEPS", 50)):
        monkeypatch.setattr(local_model, name, value)

    def row(name: str, value: float, unit: str, target: str, met: bool | None) -> dict[str, Any]:
        return {"name": name, "value": value, "unit": unit, "target": target, "met": met}

    rows = local_model.measure(row)
    named = {one["name"]: one for one in rows if one["target"]}
    assert len(named) == sum(map(len, TARGETS.values())) + 3
    for one in named.values():
        assert one["value"] > 0.0 or one["unit"] == "B"
        assert one["met"] == (
            one["value"] >= 100.0 if ">=" in one["target"] else one["value"] <= float(one["target"][3:])
        )
    assert sum("figures" in one for one in rows) == len(TARGETS) + 1
