"""Rotations of parameters and reports, beside SciPy and Pinocchio, and with tf_transformations where there is one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from conftest import ROOT
from scipy.spatial.transform import Rotation

from haptic_sim import rotations

# The two functions of tf_transformations that are used, as that package defines them.
STAND_IN = """
import numpy, transforms3d
from transforms3d.euler import euler2quat
from transforms3d.quaternions import quat2mat

def quaternion_from_euler(ai, aj, ak, axes="sxyz"):
    w, x, y, z = euler2quat(ai, aj, ak, axes=axes)
    return numpy.array([x, y, z, w])

def quaternion_matrix(quaternion):
    x, y, z, w = quaternion
    matrix = numpy.identity(4)
    matrix[:3, :3] = quat2mat([w, x, y, z])
    return matrix
"""
ANGLES = np.random.default_rng(20260).uniform(-np.pi, np.pi, (50, 3))
PROGRAM = f"""
import sys
import numpy as np
from haptic_sim import rotations
quats = np.array([rotations.from_roll_pitch_yaw(*angles) for angles in np.array({ANGLES[:5].tolist()})])
print("tf_transformations" in sys.modules, np.vstack([quats.ravel().reshape(-1, 1),
    rotations.matrices(quats).reshape(-1, 1), rotations.matrix(quats[0]).reshape(-1, 1)]).tobytes().hex())
"""


def test_roll_pitch_yaw_is_about_fixed_axes() -> None:
    for angles in ANGLES:
        found = rotations.matrix(rotations.from_roll_pitch_yaw(*angles))
        np.testing.assert_allclose(found, Rotation.from_euler("xyz", angles).as_matrix(), atol=1e-15)
        np.testing.assert_allclose(found, pin.rpy.rpyToMatrix(*angles), atol=1e-15)
    assert not np.signbit(rotations.from_roll_pitch_yaw(0.0, 0.0, 0.0)).any()


@pytest.mark.parametrize("rows", [0, 1, 20])
def test_matrices_of_quaternions(rows: int) -> None:
    quats = Rotation.random(rows, np.random.default_rng(20260)).as_quat() if rows else np.zeros((0, 4))
    found = rotations.matrices(quats)
    assert found.shape == (rows, 3, 3)
    for R, quat in zip(found, quats, strict=True):
        np.testing.assert_allclose(R, Rotation.from_quat(quat).as_matrix(), atol=1e-15)
        np.testing.assert_array_equal(R, rotations.matrix(quat))


def test_matrices_are_those_of_single_quaternions_in_every_bit() -> None:
    """Of any length, zero included."""
    quats = np.random.default_rng(20260).normal(size=(1000, 4))
    quats[0], quats[1] = 0.0, [1e-9, 0.0, 0.0, 0.0]
    alone = np.array([rotations.matrix(quat) for quat in quats])
    assert rotations.matrices(quats).tobytes() == alone.tobytes()


def test_the_numbers_are_the_same_with_tf_transformations_and_without(tmp_path: Path) -> None:
    (tmp_path / "with").mkdir()
    (tmp_path / "with" / "tf_transformations.py").write_text(STAND_IN)
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "tf_transformations.py").write_text("raise ImportError")
    said = {}
    for name in ("with", "without"):
        path = os.pathsep.join([str(tmp_path / name), str(ROOT)])
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        said[name] = done.stdout.split()
    assert said["with"][0] == "True" and said["without"][0] == "False"
    assert said["with"][1] == said["without"][1]
