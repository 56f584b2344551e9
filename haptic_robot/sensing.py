"""Contact of the tool of a simulated arm, and the force/torque sensor that measures it."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import AfterValidator

from haptic_sim.dynamics.loose import rotation_of
from haptic_sim.kernels import kernel
from haptic_sim.parameters import NotNegativePair, Parameters, Wrench, quantity
from haptic_sim.random_numbers import components, draw, stream
from haptic_sim.rotations import from_roll_pitch_yaw, matrix


def _direction(values: tuple[float, float, float]) -> tuple[float, float, float]:
    length = math.sqrt(sum(value * value for value in values))
    if not length > 1e-6:
        raise ValueError(f"{list(values)}: has no direction; must have a length > 0")
    x, y, z = (value / length for value in values)
    return x, y, z


_NOWHERE = np.zeros(3)

Direction = Annotated[tuple[float, float, float], AfterValidator(_direction)]
"""A vector that is scaled to length 1; one without a length is refused."""


class Touch(NamedTuple):
    """A point at which the tool of a simulated arm touches, in the axes of the arm's base."""

    place: np.ndarray  # [m], (3,)
    normal: np.ndarray  # out of what is touched, unit, (3,)
    depth: float  # [m] of the overlap
    force: np.ndarray  # [N] on the tool, (3,)


class WallParameters(Parameters):
    """A plane wall in front of the tool of a simulated arm."""

    position: tuple[float, float, float] = quantity(
        (0.0, 0.0, 0.0), unit="m", description="A point of the wall, in the axes of the arm's base"
    )
    normal: Direction = quantity(
        (-1.0, 0.0, 0.0), description="Normal of the wall, out of it; is scaled to a unit vector"
    )
    stiffness: float = quantity(0.0, unit="N/m", description="Stiffness of the wall; 0: there is none", ge=0.0, le=1e7)
    damping: float = quantity(50.0, unit="N s/m", description="Damping of the wall", ge=0.0, le=1e6)


class SensorParameters(Parameters):
    """The force/torque sensor of a simulated arm."""

    position: tuple[float, float, float] = quantity(
        (0.0, 0.0, 0.0), unit="m", description="Origin of the sensor, in the axes of the tool"
    )
    orientation: tuple[float, float, float] = quantity(
        (0.0, 0.0, 0.0), unit="rad", description="Axes of the sensor in those of the tool: roll, pitch, yaw"
    )
    noise: NotNegativePair = quantity(
        (0.0, 0.0), unit="N, N m", description="Standard deviation of a sample: forces, torques"
    )
    bias: Wrench = quantity((0.0,) * 6, unit="N, N m", description="Wrench that the sensor measures without a load")
    delay: float = quantity(0.0, unit="s", description="Age of the measured wrench", ge=0.0, le=1.0)


@kernel
def wall_force(point, velocity, wall, force):
    """Fill `force` (3,) [N] of a wall on a point, and return its depth [m], 0 outside.

    Args:
        point, velocity: (3,) [m, m/s].
        wall: point (3), unit normal (3), stiffness [N/m], damping [N s/m].

    It never pulls: force . normal >= 0.
    """
    depth = approach = 0.0
    for i in range(3):
        depth += (wall[i] - point[i]) * wall[3 + i]
        approach -= velocity[i] * wall[3 + i]
    size = max(0.0, wall[6] * depth + wall[7] * approach) if depth > 0.0 else 0.0
    for i in range(3):
        force[i] = size * wall[3 + i]
    return max(depth, 0.0)


def wall_array(parameters: WallParameters) -> np.ndarray:
    """A wall as `wall_force` takes it (8,)."""
    return np.array([*parameters.position, *parameters.normal, parameters.stiffness, parameters.damping])


@kernel
def move_wrench(wrench, R, arm, result):
    """Fill `result` (6,) with a wrench at another point and in other axes.

    Args:
        wrench: force and torque at the first point (6,) [N, N m].
        R: rotation (3, 3) from the axes of the wrench to the others.
        arm: from the new point to the old one, in the axes of the wrench (3,) [m].
    """
    for i in range(3):
        force = torque = 0.0
        for j in range(3):
            k, m = (j + 1) % 3, (j + 2) % 3
            force += R[i, j] * wrench[j]
            torque += R[i, j] * (wrench[3 + j] + arm[k] * wrench[m] - arm[m] * wrench[k])
        result[i], result[3 + i] = force, torque


class ForceSensor:
    """Measures the wrench of the surroundings on the tool, in its own axes and at its own origin.

    Args:
        parameters: validated.
        rate: of the samples [Hz].
        seed: of what is random.
    """

    def __init__(self, parameters: SensorParameters, rate: float, seed: int):
        self._R = matrix(from_roll_pitch_yaw(*parameters.orientation))  # axes of the sensor in those of the tool
        self._place, self._bias = np.array(parameters.position), np.array(parameters.bias)
        self._held = np.zeros((round(parameters.delay * rate) + 1, 6))
        self._streams = np.array([stream(seed, "robot.sensor")], np.uint64)
        self._scales, self._noise = np.array([components(parameters.noise, planar=False)]), np.zeros((1, 6))
        self._tick, self._R_BT = 0, np.zeros((3, 3))
        self._R_TB, self._R_BS, self._R_ST = np.zeros((3, 3)), np.zeros((3, 3)), np.ascontiguousarray(self._R.T)
        self._to_sensor, self._from_sensor = -self._place, self._R.T @ self._place
        self._at_tool, self._sample, self._wrench = np.zeros(6), np.zeros(6), np.zeros(6)

    def measure(self, pose: np.ndarray, wrench: np.ndarray) -> np.ndarray:
        """A sample (6,) [N, N m], in an array that is used again; called once in each period.

        Args:
            pose: of the tool in the base (7,).
            wrench: on the tool at its origin, in the axes of the base (6,).
        """
        rotation_of(pose, 3, self._R_BT)
        self._R_TB[:] = self._R_BT.T
        move_wrench(wrench, self._R_TB, _NOWHERE, self._at_tool)
        draw(self._streams, self._scales, self._tick, self._noise)
        held, count = self._held, len(self._held)
        sample = held[self._tick % count]
        move_wrench(self._at_tool, self._R_ST, self._to_sensor, sample)
        sample += self._bias
        sample += self._noise[0]
        self._tick += 1
        self._sample[:] = held[self._tick % count]
        return self._sample

    def in_base(self, sample: np.ndarray, pose: np.ndarray) -> np.ndarray:
        """A sample as a wrench (6,) at the tool's origin in the axes of the base; `pose` of the tool (7,).

        The array is used again.
        """
        rotation_of(pose, 3, self._R_BT)
        np.matmul(self._R_BT, self._R, out=self._R_BS)
        move_wrench(sample, self._R_BS, self._from_sensor, self._wrench)
        return self._wrench
