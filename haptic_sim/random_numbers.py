"""Random numbers of a trial, all from its seed: one stream for each source, and in a stream one number for each index.

A number is the same in every mode, in every process, and at every request.
"""

from __future__ import annotations

import math

import numpy as np

from haptic_sim.kernels import kernel
from haptic_sim.spatial import advance_pose


def stream(seed: int, source: str) -> int:
    """The seed of one source of random numbers: those of different sources are independent."""
    return int(np.random.SeedSequence([seed, *source.encode()]).generate_state(1, np.uint64)[0])


def displaced(
    pose: np.ndarray,
    jitter: tuple[float, float],
    seed: int,
    planar: bool,
    source: str = "device.jitter",
    number: int = 0,
) -> np.ndarray:
    """A pose (7,) [m, quat_xyzw] near the given one.

    Args:
        jitter: standard deviation of the position, and of the rotation about each axis [m, rad].
        seed: of the experiment; source: what starts there.
        planar: whether it moves in the plane of x and y.
        number: of the pose, where several are drawn.
    """
    result, shift = np.array(pose, float), np.zeros((1, 6))
    if any(jitter):
        streams = np.array([stream(seed, source)], np.uint64)
        draw(streams, np.array([components(jitter, planar)]), number, shift)
        advance_pose(shift[0], 1.0, result)
    return result


def components(pair: tuple[float, float], planar: bool) -> list[float]:
    """A linear and an angular value for all six components."""
    linear, angular = pair
    return [linear, linear, 0.0, 0.0, 0.0, angular] if planar else [linear] * 3 + [angular] * 3


@kernel
def draw(streams, scales, tick, noise):
    """Fill `noise` (S, 6) with the numbers of a tick of each stream (S,), times `scales` (S, 6)."""
    for row in range(streams.shape[0]):
        for i in range(6):
            noise[row, i] = scales[row, i] * gaussian(streams[row], 6 * tick + i) if scales[row, i] != 0.0 else 0.0


@kernel
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


@kernel
def uniform(seed, number):
    """Number `number` of the numbers of a seed that are uniform in [0, 1), by SplitMix64 as in `gaussian`."""
    step = np.uint64(0x9E3779B97F4A7C15)
    start = _mix((seed + np.uint64(1)) * step)
    return float(_mix(start + np.uint64(number + 1) * step) >> np.uint64(11)) * 2.0**-53


@kernel
def _mix(z):
    """The finaliser of SplitMix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
