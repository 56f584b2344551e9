"""What is random about a device and a hand: noise of sensors, tremor, jitter of the start.

All is drawn from the experiment's seed, with a stream of numbers for each source, and by the number of the tick: a tick
has the same noise in every mode, and when it is asked for twice.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from haptic_sim.messages import DeviceState
from haptic_sim.parameters import NotNegativePair, Parameters, quantity
from haptic_sim.spatial import advance_pose


class SensorParameters(Parameters):
    """What is random about what a simulated device measures, and where it starts."""

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
        description="Standard deviation of where the device is at the start, from the tool: position, rotation",
    )


def stream(seed: int, source: str) -> int:
    """The seed of one source of random numbers: those of different sources are independent."""
    return int(np.random.SeedSequence([seed, *source.encode()]).generate_state(1, np.uint64)[0])


class SensorNoise:
    """Adds to a DeviceState what its sensors add to the truth.

    Args:
        sensors: standard deviations of pose and twist.
        wrench: of the operator's wrench, forces and torques [N, N m].
        seed: of the experiment.
        planar: whether the device moves in the plane of x and y: nothing else is noisy then.
    """

    def __init__(self, sensors: SensorParameters, wrench: tuple[float, float], seed: int, planar: bool):
        self._scales = np.array([_six(pair, planar) for pair in (sensors.pose_noise, sensors.twist_noise, wrench)])
        names = ("device.pose_noise", "device.twist_noise", "device.noise")
        self._streams = np.array([stream(seed, name) for name in names], np.uint64)
        self._noise = np.zeros((3, 6))

    def add(self, tick: int, state: DeviceState) -> None:
        """Add the noise of a tick."""
        _draw(self._streams, self._scales, tick, self._noise)
        if self._scales[0].any():
            advance_pose(self._noise[0], 1.0, state.pose)
        state.twist += self._noise[1]
        state.operator_wrench += self._noise[2]


def displaced(pose: np.ndarray, jitter: tuple[float, float], seed: int, planar: bool) -> np.ndarray:
    """The pose (7,) [m, quat_xyzw] at which a device starts, near the given one."""
    result, shift = np.array(pose, float), np.zeros((1, 6))
    if any(jitter):
        streams = np.array([stream(seed, "device.jitter")], np.uint64)
        _draw(streams, np.array([_six(jitter, planar)]), 0, shift)
        advance_pose(shift[0], 1.0, result)
    return result


def _six(pair: tuple[float, float], planar: bool) -> list[float]:
    linear, angular = pair
    return [linear, linear, 0.0, 0.0, 0.0, angular] if planar else [linear] * 3 + [angular] * 3


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


@numba.njit(cache=True, nogil=True)
def _tremble(rates, phases, heights, time, wrench):
    for i in range(6):
        if heights[i] != 0.0:
            s = 0.0
            for k in range(rates.shape[1]):
                s += math.sin(rates[i, k] * time + phases[i, k])
            wrench[i] += heights[i] * s


@numba.njit(cache=True, nogil=True)
def _draw(streams, scales, tick, noise):
    for row in range(streams.shape[0]):
        for i in range(6):
            noise[row, i] = scales[row, i] * gaussian(streams[row], 6 * tick + i) if scales[row, i] != 0.0 else 0.0


@numba.njit(cache=True, nogil=True)
def gaussian(seed, number):
    """Number `number` of the standard normal numbers of a seed.

    Whichever were drawn before: a tick has the same noise in every mode, and when asked for twice. Box-Muller of two
    outputs of SplitMix64 (Steele, Lea, Flood 2014), whose state is a multiple of an odd constant.
    """
    step = np.uint64(0x9E3779B97F4A7C15)
    start = _mix((seed + np.uint64(1)) * step)
    first = _mix(start + np.uint64(2 * number + 1) * step)
    second = _mix(start + np.uint64(2 * number + 2) * step)
    radius = math.sqrt(-2.0 * math.log((float(first >> np.uint64(11)) + 1.0) * 2.0**-53))  # of (0, 1]
    return radius * math.cos(2.0 * math.pi * (float(second >> np.uint64(11)) * 2.0**-53))


@numba.njit(cache=True, nogil=True)
def _mix(z):
    """The finaliser of SplitMix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
