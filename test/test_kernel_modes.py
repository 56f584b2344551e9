"""Kernels of our own dispatcher, of Numba's and in Python: trials have the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Contact of three kinds, a linkage, a relay with delays, a system that is given by formulas; each with its ticks.
TRIALS = {"corner_peg": 30, "incline": 60, "door": 30, "constrained_contact": 20, "delayed_wall": 40, "rattleback": 40}
LONGER = {"two_hands": 200, "four_channel_stiffness": 300, "frictional_impact": 700, "linkage_impact": 200}
MODES = {"kernels": {}, "Numba": {"HAPTICS_PLAIN_NUMBA": "1"}, "Python": {"NUMBA_DISABLE_JIT": "1"}}
PROGRAM = """
import hashlib, json, sys
from haptic_bench import experiment
from haptic_bench.analysis.base import analysis_of
from haptic_bench.analysis.base import MessageStore
for name, ticks in json.loads(sys.argv[1]).items():
    rate = experiment.load(name)[0].experiment.rate
    (trial,) = experiment.load(name, ["analysis=trial"], duration=ticks / rate)
    store = MessageStore()
    analysis_of(trial.experiment).simulate(trial, store)
    for topic, messages in sorted(store.messages.items()):
        print(name, topic, len(messages), hashlib.sha256(b"".join(map(bytes, messages))).hexdigest())
"""
# One kernel of each sort of arithmetic, for a mode in which a trial takes minutes to compile.
PIECES = """
import numpy as np

from haptic_sim import linalg, random_numbers, rotations, spatial, vectors
from haptic_sim.packed import Packed
from haptic_sim.kernels import IN_PYTHON, kernel
from typing import NamedTuple

class Pair(NamedTuple):
    a: np.ndarray
    b: float

@kernel(error_model="numpy")
def read(packed, out):
    pair = packed.arrays
    for i in range(3):
        out[i] = pair.a[i] / pair.b

rng = np.random.default_rng(5)
A = rng.normal(size=(6, 6))
A, L, x, out = A @ A.T, np.zeros((6, 6)), rng.normal(size=6), np.zeros(3)
assert linalg.cholesky(A, 6, L)
linalg.cholesky_solve(L, 6, x)
read(Packed(Pair(x[:3].copy(), 0.0)), out)
noise = [float(random_numbers.gaussian(np.uint64(7), i)) for i in range(20)]
print(x.tobytes().hex(), L.tobytes().hex(), np.array(noise).tobytes().hex(), out)
print(type(linalg.cholesky).__name__, IN_PYTHON)
"""


def output(program: str, mode: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    done = subprocess.run(command, env=os.environ | MODES[mode], capture_output=True, text=True)
    assert done.returncode == 0, f"{mode}: {done.stderr}"
    return done.stdout.splitlines()


@pytest.mark.exhaustive
def test_kernels_have_the_same_bits_in_three_modes(tmp_path: Path) -> None:
    path = tmp_path / "pieces.py"  # Numba keeps what is in a file
    path.write_text(PIECES)
    found = {mode: output(f"import runpy; runpy.run_path({str(path)!r})", mode) for mode in MODES}
    assert [lines[-1] for lines in found.values()] == ["Kernel False", "CPUDispatcher False", "function True"]
    assert found["kernels"][:-1] == found["Numba"][:-1] == found["Python"][:-1]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("trials", "mode"),
    [
        (TRIALS, "Python"),
        pytest.param(LONGER, "Python", marks=pytest.mark.exhaustive),
        pytest.param(TRIALS, "Numba", marks=pytest.mark.exhaustive),
    ],
)
def test_trials_have_the_same_bits_in_every_mode(trials: dict[str, int], mode: str) -> None:
    expected = output(PROGRAM, "kernels", json.dumps(trials))
    assert {line.split()[0] for line in expected} == set(trials)
    assert output(PROGRAM, mode, json.dumps(trials)) == expected
