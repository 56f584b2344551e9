"""The benchmark of control: what it measures does what it says."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import control
from haptic_control.parameters import CONTROLLERS


def test_every_controller_that_couples_is_measured() -> None:
    kinds = {one.type for one in control.controllers().values()}
    assert kinds == CONTROLLERS.entries().keys() - {"none", "excitation", "crtk", "external"}


@pytest.mark.parametrize("name", control.controllers())
def test_a_controller_answers_each_state(name: str) -> None:
    one = control.Runner(control.controllers()[name])
    answers = []
    for _ in range(3):
        one.prepare()
        one.step()
        answers.append(np.concatenate([one._tool_command.wrench, one._device_command.wrench]))
    assert np.isfinite(answers).all() and np.abs(np.diff(answers, axis=0)).max() > 0.0


def test_the_driver_is_pushed_and_guarded() -> None:
    free, guarded = control.Port("none"), control.Port("passivity")
    for _ in range(500):
        free.step()
        guarded.step()
    assert free._driver.guard_acts is False and guarded._driver.guard_acts is True
    for one in (free, guarded):
        assert np.abs(one._state.pose[:2]).max() > 1e-4  # 0.5 N against 400 N/m
        assert abs(one._state.port_energy[0]) > 1e-6  # it observes the spring
