"""A tick of an arm makes no arrays and no messages anew."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_robot_engine import run, side

from haptic_robot.adapters import Place, Quantity, Sent, Topic
from haptic_robot.following import Following
from haptic_robot.nodes.topics import Layout, Reader

MOST = 1200  # [B] at once, of numbers and calls; with arrays made anew a tick had up to 2.2 kB
KEPT = 100  # blocks after 1,000 ticks


def largest(step: Callable[[], object]) -> int:
    """Bytes that a step has at most beyond what there was before: the least of some."""
    found = []
    tracemalloc.start()
    for _ in range(50):
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        step()
        found.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    return min(found)


def growth(run: Callable[[], object]) -> int:
    """Blocks of memory that a run leaves."""
    gc.collect()
    before = sys.getallocatedblocks()
    run()
    gc.collect()
    return sys.getallocatedblocks() - before


@pytest.mark.parametrize(
    "engine",
    [
        {"adapter": "fzi"},
        {"adapter": "fzi", "arm": {"control": "admittance"}},
        {"adapter": "admittance"},
        {"adapter": {"type": "moveit_servo", "follows": "twist"}},
        {"adapter": {"type": "crtk", "wrenches": "spatial"}},
        {"adapter": "joint_trajectory"},
    ],
    ids=str,
)
def test_a_tick_of_engine_adapter_and_arm_makes_no_arrays(engine: dict[str, Any]) -> None:
    built, state, command = side(damping=[20.0, 0.1], orientation=[0.3, -0.2, 0.5], **engine)
    command.wrench[:3] = 2.0, -1.0, 0.5
    run(built, state, command, 300)
    assert built.following == Following.FOLLOWING
    assert min(growth(lambda: run(built, state, command, 1000)) for _ in range(3)) < KEPT
    assert largest(lambda: run(built, state, command, 1)) < MOST


def test_bytes_of_messages_are_filled_in_place() -> None:
    for quantity, count in ((Quantity.POSE, 7), (Quantity.WRENCH, 6)):
        sent = Sent("a", quantity, "base_link", np.arange(1.0, 1.0 + count))
        layout, reader = Layout(sent), Reader(Topic("a", quantity, Place.BASE), count)
        data = layout.fill(10**18, sent.values)
        taken = bytes(data)
        reader.read(taken)
        np.testing.assert_array_equal(reader.values, sent.values)
        assert layout.fill(10**18 + 1, sent.values) is data
        assert largest(lambda one=layout, at=sent.values: one.fill(10**18, at)) < MOST
        assert largest(lambda one=reader, at=taken: one.read(at)) < MOST
