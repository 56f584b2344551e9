"""A trial with the Inverse3 as a ROS 2 graph, against a stand-in for the vendor's service: felt, recorded, verified."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Haptics, answer

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

import graph_checks as graph

from haptic_sim.messages import FAULT, DeviceState, Reason, columns
from stand_ins import Fault
from stand_ins.haply import Service

SWING, PERIOD = 0.08, 1.5  # [m], [s] of the hand; the nearest wall is 34 mm from its start


@pytest.mark.exhaustive
def test_a_wall_is_felt_until_the_device_is_lost_and_the_trial_verifies(
    haptics: Callable[..., Haptics], tmp_path: Path
) -> None:
    """The hand is moved to and fro, into walls: the force is toward where it was; then the device is unplugged."""
    service = Service(idle=10.0)
    out = tmp_path / "out"
    device = {
        "type": "hardware",
        "name": "inverse3",
        "connection": {"url": service.url, "events": service.events_url},
        "watchdog": 1.0,
        "reading_watchdog": 1.0,
        "soft_start": 0.0,
    }
    keys = {"device": json.dumps(device), "rate": "200", "environment.rate": "50"}
    keys |= {"health.missed_share": "1", "health.undecided_share": "1"}
    settings = [argument for key, value in keys.items() for argument in ("--set", f"{key}={value}")]
    service.set_state(0, position=[0.0, 0.0, 0.0])
    one = haptics("run", "static_wall", "--mode", "realtime", "--duration", "6", "--out", str(out), *settings)
    least = most = 0.0
    lost = False
    while one.process.is_alive():
        service.set_state(0, position=[SWING * math.sin(2.0 * math.pi * time.monotonic() / PERIOD), 0.0, 0.0])
        right = service.told(0)["force"][0]
        least, most = min(least, right), max(most, right)
        if not lost and max(-least, most) > 0.5:
            lost = True
            service.fault(0, Fault.GONE)
        one.process.join(0.002)
    assert one.wait() == 0, one.err
    service.close()
    assert service.misuse == ""
    states = columns(DeviceState(), graph.topics(out)["device_state"].messages)
    left, force = states["pose"][:, 1], states["rendered_wrench"][:, 1]
    hardest = np.abs(force).argmax()
    assert abs(force[hardest]) > 0.5
    assert force[hardest] * (left[hardest] - left[0]) < 0.0  # back to where it was
    assert -least == pytest.approx(max(0.0, force.max()), rel=0.5, abs=0.5)  # as often as it was asked
    assert -most == pytest.approx(min(0.0, force.min()), rel=0.5, abs=0.5)
    fault = states["state"] == FAULT
    assert lost and fault.any()
    # the first has force and reason of the tick before
    assert not force[fault][1:].any() and set(states["reason"][fault][1:]) == {Reason.FAILED}
    assert len(states["tick"]) == states["tick"][-1] + 1  # the trial goes on, and its bag is whole
    verified = answer("replay", "--verify", str(out))
    assert verified.status == 0 and "identical, bit by bit" in verified.out, verified
