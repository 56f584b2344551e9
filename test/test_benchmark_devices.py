"""The benchmark of drivers: what it measures does what it says."""

from __future__ import annotations

import math
from typing import Any

import pytest
from conftest import sampled

from benchmarks import devices


@pytest.mark.long
@pytest.mark.parametrize("name", sampled(["inverse3", "sigma7"], "inverse3"))  # a service, a library
def test_each_driver_is_measured(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for constant, value in (("ECHOES", 20), ("DURATION", 0.1), ("LOSSES", 2)):
        monkeypatch.setattr(devices, constant, value)
    found: dict[str, float] = {}

    def row(name: str, value: float, *_: Any) -> dict[str, Any]:
        found[name] = value
        return {}

    try:
        devices._measure(row, name, devices.DEVICES[name], devices.SERVO)
    except devices.NoCompiler as error:
        pytest.skip(str(error))
    assert len(found) == 6 and all(map(math.isfinite, found.values()))
    assert min(value for name, value in found.items() if "added" not in name) >= 0.0


def test_the_pantograph_slides_and_sticks_while_it_is_measured() -> None:
    shaken, resting = devices.Shaken(), 0
    for _ in range(600):
        shaken.prepare()
        shaken.step()
        resting += abs(shaken.body.twist[1]) < 1e-6
    assert 50 < resting < 550 and shaken.body.dissipated > 1e-6 and not shaken.body.fault
