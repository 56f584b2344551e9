"""The first tick of composed nodes: whatever takes long was done while they were configured."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from conftest import DEADLINE, ROOT

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

PROGRAM = """
import json, sys
from benchmarks.composed import composed_tick
from haptic_bench import experiment
from haptic_sim.kernels.cache import KernelCache
from haptic_sim.packed import Packed

load, pack = KernelCache.load, Packed.__new__
loaded, packed = [], []


def loads(cache, *given):
    loaded.append(cache.name)
    return load(cache, *given)


def packs(kind, arrays):
    packed.append(type(arrays).__name__)
    return pack(kind, arrays)


(trial,) = experiment.load(sys.argv[1], sys.argv[2:])
with composed_tick(trial.in_mode("realtime")) as step:
    KernelCache.load, Packed.__new__ = loads, packs
    for _ in range(3):
        step()
print(json.dumps([loaded, packed]))
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("corner_peg",),
        pytest.param(("corner_peg", "local_model.type=full"), marks=pytest.mark.exhaustive),
        pytest.param(("corner_peg", "relay.delay=0.01", "local_model.type=full"), marks=pytest.mark.exhaustive),
    ],
)
def test_the_first_ticks_load_no_kernel_and_pack_no_message(arguments: tuple[str, ...]) -> None:
    """The kernel that fills in the hand took 2 ms of the first tick, ten periods of 5 kHz."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[], []]
