"""The relay between two rooms: what its channel lets through, and the energy at its ports."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from haptic_control.relay import ports
from haptic_control.relay.channel import Channel
from haptic_control.relay.ends import build_port
from haptic_control.relay.parameters import RelayParameters
from haptic_control.stability import CoupledInertias
from haptic_sim.messages import tick_time
from haptic_sim.packed import Packed
from haptic_sim.random_numbers import uniform

RATE = 1000.0  # [Hz]
MASS, INERTIA = 0.3, 2e-4  # of the device [kg, kg m^2]
ORIGIN = np.array([0.0, 0, 0, 0, 0, 0, 1])
INERTIAS = CoupledInertias(planar=False, device=(MASS, INERTIA))
RUNS, TICKS = 1000, 250
GUARDED = ("passivity", "wave", "tank")


def relay(delay: float = 0.0, **keys: Any) -> RelayParameters:
    return RelayParameters(delay=delay, **keys)


def arrivals(parameters: RelayParameters, direction: str, ticks: int = TICKS, realtime: bool = False) -> list[int]:
    """The tick of the newest message that has arrived, in each tick; -1: none."""
    channel = Channel(parameters, RATE, direction, realtime)
    newest, found = -1, []
    for tick in range(ticks):
        channel.put(tick, tick_time(tick, RATE), tick.to_bytes(4, "little"))
        data = channel.take(tick, tick_time(tick, RATE))
        newest = newest if data is None else int.from_bytes(data, "little")
        found.append(newest)
    return found


# The channel


@pytest.mark.parametrize("realtime", [False, True])
def test_a_delay_alone_is_a_number_of_ticks(realtime: bool) -> None:
    assert arrivals(relay(0.0), "forward", 5, realtime) == [0, 1, 2, 3, 4]
    assert arrivals(relay(0.003), "forward", 7, realtime) == [-1, -1, -1, 0, 1, 2, 3]


def test_jitter_delays_at_most_by_itself_and_never_turns_back() -> None:
    found = np.array(arrivals(relay(0.004, jitter=0.006, seed=3), "forward", 3000))
    assert np.all(np.diff(found) >= 0)
    ages = (np.arange(3000) - found)[20:]
    assert ages.min() == 4 and 6 <= ages.max() <= 10  # the newest of several that are under way comes first
    assert np.any(np.diff(found) > 1)  # some were overtaken


def test_as_many_are_lost_as_said() -> None:
    found = np.array(arrivals(relay(0.0, loss=0.3, seed=1), "backward", 4000))
    lost = np.mean(found != np.arange(4000))
    assert abs(lost - 0.3) < 4.0 * np.sqrt(0.3 * 0.7 / 4000)
    assert set(arrivals(relay(0.0, loss=1.0), "forward", 50)) == {-1}


def test_each_seed_and_each_direction_has_its_own_numbers() -> None:
    def drawn(seed: int, direction: str) -> list[int]:
        return arrivals(relay(0.0, loss=0.5, seed=seed), direction)

    assert drawn(1, "forward") == drawn(1, "forward")
    assert drawn(1, "forward") != drawn(2, "forward")
    assert drawn(1, "forward") != drawn(1, "backward")


def test_uniform_numbers_are_uniform() -> None:
    numbers = np.array([uniform(np.uint64(7), k) for k in range(20000)])
    assert numbers.min() >= 0.0 and numbers.max() < 1.0
    counts = np.histogram(numbers, 20, (0.0, 1.0))[0]
    assert np.sum((counts - 1000.0) ** 2 / 1000.0) < 43.8  # chi squared, 19 degrees of freedom, 0.1 %
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 4.0 / np.sqrt(20000)


# Energy


@numba.njit
def _play(device, world, forward, backward, operator, response, inertia, cut, worst, last):
    """Fill `worst` (3, 2) with the least energies that have entered: the relay, its device's port with what had arrived
    there, its world's port likewise.

    The energies are summed here from wrenches and displacements, by their definition.
    """
    T, ticks = 1e-3, forward.size
    paid = np.zeros((2, ticks, 2))
    waves = np.zeros((2, ticks, 6))
    poses, twists, wrenches = np.zeros((ticks, 7)), np.zeros((ticks, 6)), np.zeros((ticks, 6))
    pose, shown = np.zeros(7), np.zeros(7)
    pose[6] = shown[6] = 1.0
    before = np.zeros(7)
    twist, told, rendered, wrench, f = np.zeros(6), np.zeros(6), np.zeros(6), np.zeros(6), np.zeros(6)
    target, velocity, zero = pose.copy(), np.zeros(6), np.zeros(6)
    port = np.zeros((2, 2))  # energy that has entered through the device's port, the world's
    turned = np.zeros(3)
    for k in range(ticks):
        ports.settle(device, pose, twist, operator[k], rendered)
        poses[k], twists[k] = pose, twist
        paid[0, k], waves[0, k] = device.arrays.ledger.paid, device.arrays.ledger.wave
        j = forward[k]
        if j >= 0:
            target, velocity = poses[j], twists[j]
            ports.receive(world, paid[0, j], waves[0, j])
        before[:] = shown
        ports.move(world, f, target, velocity, shown, told)
        ports.rotation_difference(shown[3:], before[3:], turned)
        for i in range(3):
            port[1, 0] += f[i] * (shown[i] - before[i])
            port[1, 1] += f[3 + i] * turned[i]
        # a world that gives energy as often as it takes some
        for i in range(6):
            f[i] = response[k, i]
            if i < 3:
                f[i] += 0.3 * response[k, 0] * told[i] - 100.0 * shown[i]
        wrenches[k] = f
        paid[1, k], waves[1, k] = world.arrays.ledger.paid, world.arrays.ledger.wave
        j = backward[k]
        if j >= 0:
            ports.receive(device, paid[1, j], waves[1, j])
        ports.command_wrench(device, wrenches[j] if j >= 0 else zero, wrench)
        for i in range(6):
            rendered[i] = min(max(wrench[i], -cut), cut)
            twist[i] += T * (operator[k, i] + rendered[i]) / inertia[i]
        before[:] = pose
        ports.advance_pose(twist, T, pose)
        ports.rotation_difference(pose[3:], before[3:], turned)
        for i in range(3):
            port[0, 0] -= rendered[i] * (pose[i] - before[i])
            port[0, 1] -= rendered[3 + i] * turned[i]
        for g in range(2):
            worst[0, g] = min(worst[0, g], port[0, g] + port[1, g])
            worst[1, g] = min(worst[1, g], port[0, g] + (paid[1, backward[k], g] if backward[k] >= 0 else 0.0))
            worst[2, g] = min(worst[2, g], port[1, g] + (paid[0, forward[k], g] if forward[k] >= 0 else 0.0))
    last[:] = pose


def least_energies(guard: str, seed: int, cut: float = np.inf) -> np.ndarray:
    """The least energies of a run with a delay, a jitter and a loss of its own, under random wrenches (3, 2) [J]."""
    rng = np.random.default_rng([20260, seed])
    parameters = relay(
        rng.uniform(0.0, 0.06),
        jitter=rng.choice([0.0, rng.uniform(0.0, 0.03)]),
        loss=rng.choice([0.0, rng.uniform(0.0, 0.9)]),
        seed=seed,
    )
    device, world = (Packed(build_port(parameters, guard, 1.0 / RATE, INERTIAS)) for _ in range(2))
    scale = np.repeat([5.0, 0.02], 3)
    wrenches = [np.cumsum(rng.normal(size=(TICKS, 6)), axis=0) * 0.1 + rng.normal(size=(TICKS, 6)) for _ in range(2)]
    both = [np.array(arrivals(parameters, direction)) for direction in ("forward", "backward")]
    worst, last = np.zeros((3, 2)), np.zeros(7)
    inertia = np.repeat([MASS, INERTIA], 3)
    _play(device, world, *both, scale * wrenches[0], scale * wrenches[1], inertia, cut, worst, last)
    assert np.isfinite(last).all()
    return worst


@pytest.mark.parametrize("guard", GUARDED)
def test_no_port_gives_energy_that_it_does_not_have(guard: str) -> None:
    """Over a thousand delays, jitters and losses, and worlds that are active on purpose."""
    worst = np.min([least_energies(guard, seed) for seed in range(RUNS)], axis=0)
    assert worst.min() >= -1e-9, worst


def test_without_a_guard_ports_give_energy() -> None:
    worst = np.min([least_energies("none", seed) for seed in range(20)], axis=0)
    assert worst[0].max() < -1e-3, worst
