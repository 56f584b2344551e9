"""Random parts of a device and a hand: sensor noise and tremor, from the numbers of `haptic_sim.random_numbers`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from haptic_sim.kernels import kernel
from haptic_sim.messages import DeviceState
from haptic_sim.parameters import NotNegativePair, Parameters, quantity
from haptic_sim.random_numbers import components, draw, stream
from haptic_sim.spatial import advance_pose


class SensorParameters(Parameters):
    """Random errors of what a simulated device measures, and of where it starts."""

    pose_noise: NotNegativePair = quantity(
        (0.0, 0.0),
        unit="m, rad",
        description="Standard deviation of a sample of the measured pose: position, rotation about each axis",
    )
    twist_noise: NotNegativePair = quantity(
        (0.0, 0.0),
        unit="m/s, rad/s",
        description="Standard deviation of a sample of the measured twist: linear, angular",
    )
    jitter: NotNegativePair = quantity(
        (0.0, 0.0),
        unit="m, rad",
        description="Standard deviation of the device's offset from the tool at the start: position, rotation",
    )


def noise_quantity() -> Any:
    """The key `noise` of every simulated device that measures the operator's wrench without a model of its sensor."""
    return quantity(
        (0.0, 0.0),
        unit="N, N m",
        description="Standard deviation of a sample of the operator's measured wrench: forces, torques",
    )


class SensorNoise:
    """Adds to a DeviceState what its sensors add to the truth.

    Args:
        sensors: standard deviations of pose and twist.
        wrench: of the operator's wrench, forces and torques [N, N m].
        seed: of the experiment.
        planar: whether the device moves in the plane of x and y: nothing else is noisy then.
    """

    def __init__(self, sensors: SensorParameters, wrench: tuple[float, float], seed: int, planar: bool):
        self._scales = np.array(
            [components(pair, planar) for pair in (sensors.pose_noise, sensors.twist_noise, wrench)]
        )
        names = ("device.pose_noise", "device.twist_noise", "device.noise")
        self._streams = np.array([stream(seed, name) for name in names], np.uint64)
        self._noise = np.zeros((3, 6))

    def add(self, tick: int, state: DeviceState) -> None:
        """Add the noise of a tick."""
        draw(self._streams, self._scales, tick, self._noise)
        if self._scales[0].any():
            advance_pose(self._noise[0], 1.0, state.pose)
        state.twist += self._noise[1]
        state.operator_wrench += self._noise[2]


class Tremor:
    """A force that trembles: of each component, sines of random frequencies in a band, and of random phases.

    Physiological tremor of the hand is between 8 and 12 Hz (Elble and Koller, Tremor, 1990).

    Args:
        size: root mean square of each component (6,) [N, N m]; band: lowest and highest frequency [Hz].
        seed: of the experiment.
    """

    SINES = 16

    def __init__(self, size: tuple[float, ...], band: tuple[float, float], seed: int):
        state = np.random.SeedSequence([seed, *b"operator.tremor"]).generate_state(2 * 6 * self.SINES, np.uint64)
        uniform = ((state >> np.uint64(11)) * 2.0**-53).reshape(2, 6, self.SINES)
        low, high = band
        self._rates = 2 * math.pi * (low + (high - low) * (np.arange(self.SINES) + uniform[0]) / self.SINES)
        self._phases = 2 * math.pi * uniform[1]
        self._heights = math.sqrt(2.0 / self.SINES) * np.array(size, float)
        self.add(0.0, np.zeros(6))  # loads the kernel before the first tick

    def add(self, time: float, wrench: np.ndarray) -> None:
        """Add what it is at a time [s] to a wrench (6,)."""
        _tremble(self._rates, self._phases, self._heights, time, wrench)


@kernel
def _tremble(rates, phases, heights, time, wrench):
    for i in range(6):
        if heights[i] != 0.0:
            s = 0.0
            for k in range(rates.shape[1]):
                s += math.sin(rates[i, k] * time + phases[i, k])
            wrench[i] += heights[i] * s
