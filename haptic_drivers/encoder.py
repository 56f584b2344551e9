"""Encoders of a device's motion: positions in steps, and velocities as their differences.

The displacement and the rotation vector from the start are read as the nearest multiples of the resolution, component
by component. The velocity is the backward difference (p(k) - p(k-1)) / T of the poses that were read, possibly through
a first-order low-pass filter, v(k) = v(k-1) + (1 - exp(-2 pi f T)) ((p(k) - p(k-1))/T - v(k-1)). Without the filter it
is a multiple of resolution / T: 10 um at 1 kHz are 10 mm/s.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from pydantic import model_validator

from haptic_drivers.noise import SensorParameters
from haptic_sim.kernels import kernel
from haptic_sim.messages import DeviceState
from haptic_sim.parameters import NotNegativePair, quantity
from haptic_sim.spatial import advance_pose, rotation_difference


class EncoderParameters(SensorParameters):
    """Encoders of a simulated device."""

    resolution: NotNegativePair = quantity(
        (0.0, 0.0),
        unit="m, rad",
        description="Resolution of the measured position and rotation; 0: they are continuous",
    )
    velocity: Literal["exact", "difference"] | None = quantity(
        None,
        description="Measured velocity. exact: that of the device; difference: the backward difference of the measured "
        "poses; null: difference where there is a resolution, else exact",
    )
    velocity_cutoff: float | None = quantity(
        None,
        unit="Hz",
        description="Cut-off frequency of the first-order low-pass filter of a velocity by differences; null: none",
        gt=0.0,
    )

    @property
    def differentiates(self) -> bool:
        """Whether the measured velocity is a difference of poses."""
        return any(self.resolution) if self.velocity is None else self.velocity == "difference"

    def difference_part(self, rate: float) -> float | None:
        """Part by which the measured twist follows the difference of a tick at `rate` [Hz]; None: it is exact."""
        if not self.differentiates:
            return None
        return 1.0 if self.velocity_cutoff is None else -math.expm1(-2.0 * math.pi * self.velocity_cutoff / rate)

    @model_validator(mode="after")
    def _velocity_is_measured_once(self) -> EncoderParameters:
        if self.differentiates and any(self.twist_noise):
            raise ValueError(
                f".twist_noise = {list(self.twist_noise)}: a velocity by differences has the noise of the poses alone; "
                "leave it out, or set velocity=exact"
            )
        if self.velocity_cutoff is not None and not self.differentiates:
            raise ValueError(
                f".velocity_cutoff = {self.velocity_cutoff:g} Hz: filters a velocity by differences; leave it out, or "
                "set velocity=difference"
            )
        return self


class Encoder:
    """Turns the pose and the twist of a DeviceState into what encoders tell.

    Args:
        parameters: of the device.
        pose: of the device at the start (7,) [m, quat_xyzw], from which steps are counted.
        rate: of the servo [Hz].
    """

    def __init__(self, parameters: EncoderParameters, pose: np.ndarray, rate: float):
        self._resolution, self._start, self._rate = np.array(parameters.resolution), np.array(pose, float), rate
        self._part = parameters.difference_part(rate) or 0.0
        self._differentiates = parameters.differentiates
        self._pose, self._twist = np.full(7, math.nan), np.zeros(6)  # measured in the tick before; NaN: none

    def forget(self) -> None:
        """Begin again: in the next tick the velocity is zero."""
        self._pose[0], self._twist[:] = math.nan, 0.0

    def read(self, state: DeviceState) -> None:
        """Change pose and twist of a state; once in each tick."""
        round_pose(self._resolution, self._start, state.pose)
        if self._differentiates:
            differentiate(self._rate, self._part, self._pose, self._twist, state.pose)
            state.twist[:] = self._twist


@kernel
def round_pose(resolution, start, pose):
    """Round the displacement and the rotation from the start."""
    if resolution[0] > 0.0:
        for i in range(3):
            pose[i] = start[i] + resolution[0] * np.rint((pose[i] - start[i]) / resolution[0])
    if resolution[1] > 0.0:
        turn = np.zeros(6)
        rotation_difference(pose[3:], start[3:], turn[3:])
        for i in range(3, 6):
            turn[i] = resolution[1] * np.rint(turn[i] / resolution[1])
        pose[3:] = start[3:]
        advance_pose(turn, 1.0, pose)


@kernel
def differentiate(rate, part, before, twist, pose):
    """Update the measured twist (6,) with a pose (7,), and remember the pose as that before; NaN: there was none."""
    if not math.isnan(before[0]):
        difference = np.zeros(6)
        for i in range(3):
            difference[i] = pose[i] - before[i]
        rotation_difference(pose[3:], before[3:], difference[3:])
        for i in range(6):
            twist[i] += part * (rate * difference[i] - twist[i])
    before[:] = pose
