"""The relay between two rooms: what its channel lets through, and the energy at its ports."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import pytest
from conftest import sampled

from haptic_control.relay import ports
from haptic_control.relay.channel import Channel
from haptic_control.relay.ends import DeviceEnd, WorldEnd, build_port
from haptic_control.relay.parameters import RelayParameters
from haptic_control.stability import CoupledInertias
from haptic_sim.messages import FORCE, NOTHING, BackwardPacket, DeviceCommand, DeviceState, ForwardPacket, tick_time
from haptic_sim.packed import Packed
from haptic_sim.random_numbers import uniform
from haptic_sim.spatial import advance_pose

RATE = 1000.0  # [Hz]
MASS, INERTIA = 0.3, 2e-4  # of the device [kg, kg m^2]
ORIGIN = np.array([0.0, 0, 0, 0, 0, 0, 1])
INERTIAS = CoupledInertias(planar=False, device=(MASS, INERTIA))
RUNS, BLOCKS, TICKS = 500, 5, 250
GUARDED = ("passivity", "wave", "tank")


def relay(delay: float = 0.0, **keys: Any) -> RelayParameters:
    return RelayParameters(delay=delay, **keys)


def arrivals(parameters: RelayParameters, direction: str, ticks: int = TICKS, realtime: bool = False) -> list[int]:
    """The tick of the newest message that has arrived, in each tick; -1: none."""
    channel = Channel(parameters, RATE, direction, realtime)
    newest, found = -1, []
    for tick in range(ticks):
        time = tick_time(tick, RATE)
        channel.put(tick, time, tick.to_bytes(4, "little"))
        data = channel.take(tick, time)
        newest = newest if data is None else int.from_bytes(data, "little")
        found.append(newest)
    return found


# The channel


@pytest.mark.parametrize("realtime", [False, True])
def test_a_delay_alone_is_a_number_of_ticks(realtime: bool) -> None:
    assert arrivals(relay(0.0), "forward", 5, realtime) == [0, 1, 2, 3, 4]
    assert arrivals(relay(0.003), "forward", 7, realtime) == [-1, -1, -1, 0, 1, 2, 3]


def test_the_jitter_of_a_clock_is_no_delay() -> None:
    channel = Channel(relay(0.005), RATE, "forward", realtime=True)
    late = np.random.default_rng(1).integers(-200_000, 200_000, 50)  # [ns]
    for tick in range(50):
        time = tick_time(tick, RATE) + int(late[tick])
        channel.put(tick, time, bytes([tick]))
        assert channel.take(tick, time) == (bytes([tick - 5]) if tick >= 5 else None)


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
    with pytest.raises(ValueError, match="less than 1"):
        relay(0.0, loss=1.0)


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
def _play(device, world, forward, backward, operator, response, inertia, worst, last):
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
            rendered[i] = wrench[i]
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


def least_energies(guards: tuple[str, ...], seed: int) -> np.ndarray:
    """The least energies with each guard (n, 3, 2) [J], of a run with a delay, a jitter and a loss of its own, under
    random wrenches.
    """
    rng = np.random.default_rng([20260, seed])
    parameters = relay(
        rng.uniform(0.0, 0.06),
        jitter=rng.choice([0.0, rng.uniform(0.0, 0.03)]),
        loss=rng.choice([0.0, rng.uniform(0.0, 0.9)]),
        seed=seed,
    )
    scale = np.repeat([5.0, 0.02], 3)
    wrenches = [
        scale * (np.cumsum(rng.normal(size=(TICKS, 6)), axis=0) * 0.1 + rng.normal(size=(TICKS, 6))) for _ in range(2)
    ]
    both = [np.array(arrivals(parameters, direction)) for direction in ("forward", "backward")]
    worst, last = np.zeros((len(guards), 3, 2)), np.zeros(7)
    inertia = np.repeat([MASS, INERTIA], 3)
    for guard, least in zip(guards, worst, strict=True):
        device, world = (Packed(build_port(parameters, guard, 1.0 / RATE, INERTIAS)) for _ in range(2))
        _play(device, world, *both, *wrenches, inertia, least, last)
        assert np.isfinite(last).all()
    return worst


@pytest.mark.exhaustive
@pytest.mark.long
@pytest.mark.parametrize("block", sampled(range(BLOCKS), 0))
def test_no_port_gives_energy_that_it_does_not_have(block: int) -> None:
    """Over five hundred delays, jitters and losses, and worlds that are active on purpose; a fifth is ordinary."""
    worst = np.min([least_energies(GUARDED, seed) for seed in range(block, RUNS, BLOCKS)], axis=0)
    assert worst.min() >= -1e-9, dict(zip(GUARDED, worst, strict=True))


@pytest.mark.exhaustive
def test_without_a_guard_ports_give_energy() -> None:
    (worst,) = np.min([least_energies(("none",), seed) for seed in range(20)], axis=0)
    assert worst[0].max() < -1e-3, worst


# The ends


class Room:
    """A device of MASS on a straight line, both ends, and a wall that the shown pose is pushed into."""

    def __init__(self, guard: Any, parameters: RelayParameters, stiffness: float, damping: float = 0.0):
        self.device_end = DeviceEnd(parameters, guard, RATE, INERTIAS)
        self.world_end = WorldEnd(parameters, guard, RATE, ORIGIN)
        self.state, self.told = DeviceState(), DeviceState()
        self.command, self.arrived = DeviceCommand(), DeviceCommand()
        self.forward, self.backward = ForwardPacket(), BackwardPacket()
        self.state.pose[:] = ORIGIN
        self.stiffness, self.damping, self.tick = stiffness, damping, 0
        self.limit, self.absorbed = math.inf, 0.0  # of what is rendered [N], through the device's port [J]

    def step(self, force: float, axis: int = 0) -> None:
        """One tick under the force of a hand, or its torque about an axis from 3 on."""
        T, k, state = 1.0 / RATE, self.tick, self.state
        state.stamp(k, tick_time(k, RATE))
        state.operator_wrench[:] = 0.0
        state.operator_wrench[axis] = force
        self.device_end.forward(state, self.forward)
        self.world_end.state(self.forward, self.told)
        self.command.stamp(k, tick_time(k, RATE))
        place = self.told.pose[axis] if axis < 3 else 2.0 * self.told.pose[axis]  # a small angle
        self.command.wrench[axis] = -self.stiffness * place - self.damping * self.told.twist[axis]
        self.world_end.backward(self.command, self.backward)
        self.device_end.command(self.backward, self.arrived)
        rendered = min(max(self.arrived.wrench[axis], -self.limit), self.limit)
        state.rendered_wrench[axis] = rendered
        inertia = MASS if axis < 3 else INERTIA
        state.twist[axis] += T * (force + rendered) / inertia
        self.absorbed -= rendered * T * state.twist[axis]
        advance_pose(state.twist, T, state.pose)
        self.tick += 1


def test_without_a_guard_what_arrives_is_what_was_sent() -> None:
    room, rng = Room("none", relay(0.004), 300.0), np.random.default_rng(20261)
    states, commands = [], []
    for k in range(60):
        states.append((room.state.pose.copy(), room.state.twist.copy()))
        room.step(float(rng.normal()))
        commands.append(room.command.wrench.copy())
        if k >= 4:
            np.testing.assert_array_equal(room.told.pose, states[k - 4][0])
            np.testing.assert_array_equal(room.told.twist, states[k - 4][1])
            np.testing.assert_array_equal(room.arrived.wrench, commands[k - 4])
        else:
            assert not room.arrived.wrench.any() and not room.told.twist.any()
        assert (room.told.tick, room.arrived.tick) == (k, k)


def test_the_waves_are_those_of_niemeyer_and_slotine() -> None:
    """Their integrals, differenced, give velocity and force back: v = (u + w) / sqrt(2 b), F = (u - w) sqrt(b / 2)."""
    b = 40.0
    room = Room("wave", relay(0.003, wave={"impedance": (b, 0.1)}), 200.0, 1.0)
    places, forces, waves = [0.0], [], []
    for k in range(300):
        room.step(math.sin(0.05 * k))
        places.append(room.state.pose[0])
        forces.append(-room.arrived.wrench[0])
        waves.append(room.forward.wave[0])  # up to the tick before
    v, F, u = np.diff(places)[:-1] * RATE, np.array(forces[:-1]), np.diff(waves) * RATE
    w = u - F * math.sqrt(2.0 / b)
    np.testing.assert_allclose((u + w) / math.sqrt(2.0 * b), v, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(0.5 * (u**2 - w**2), F * v, rtol=1e-9, atol=1e-12)
    assert np.abs(v).max() > 1e-3


@pytest.mark.parametrize("cutoff", [50.0, 200.0])
@pytest.mark.parametrize("delay", [0.0, 0.01, 0.05])
def test_a_wall_behind_waves_has_the_compliance_of_the_line_too(delay: float, cutoff: float) -> None:
    """At rest x_device = F (1/K + t/b): t is the delay, that of the filter, and half a tick as wrenches are held."""
    b, stiffness, force = 50.0, 800.0, 2.0
    wave = {"impedance": (b, 0.1), "cutoff": cutoff, "correction": 0.0}
    room = Room("wave", relay(delay, wave=wave), stiffness, 5.0)
    for _ in range(round(2000 + 2e5 * delay)):  # until it rests: the longer the line, the softer it is
        room.step(force - 4.0 * room.state.twist[0])  # a hand that damps a little
    played = -math.expm1(-2.0 * math.pi * cutoff / RATE)
    time = delay + ((1.0 - played) / played + 0.5) / RATE
    assert room.state.pose[0] == pytest.approx(force * (1.0 / stiffness + time / b), rel=1e-6)


@pytest.mark.parametrize("guard", ["none", *GUARDED])
def test_energy_is_that_of_what_the_device_has_rendered(guard: str) -> None:
    """Its limit cuts what the relay tells it to render."""
    room = Room(guard, relay(0.01), 600.0, 2.0)
    room.limit = 0.7
    cut = 0
    for k in range(500):
        before = room.absorbed
        room.step(2.0 * math.sin(0.02 * k))
        cut += abs(room.arrived.wrench[0]) > room.limit
        assert room.forward.absorbed[0] - room.forward.delivered[0] == pytest.approx(before, abs=1e-12)
    assert cut > 50


@pytest.mark.parametrize("guard", GUARDED)
def test_a_device_without_force_pays_no_more_than_it_has(guard: str) -> None:
    """As while a link is broken: its motion sends waves, whose energy has to come from somewhere."""
    room = Room(guard, relay(0.004), 600.0, 2.0)
    for k in range(600):
        room.limit = 0.0 if k >= 200 else math.inf
        room.step(1.5 * math.sin(0.03 * k))
        if k > 200:
            packet = room.forward
            assert packet.available[0] >= -1e-12
            entered = packet.absorbed[0] - packet.delivered[0] + room.backward.paid[0]
            assert packet.paid[0] <= entered + 1e-12


@pytest.mark.parametrize("guard", GUARDED)
def test_a_device_at_rest_stays_finite_and_at_rest(guard: str) -> None:
    """The velocity is zero, by which nothing may be divided."""
    room = Room(guard, relay(0.01), 100.0)
    for _ in range(200):
        room.step(0.0)
    assert np.array_equal(room.state.pose, ORIGIN) and not room.arrived.wrench.any()


@pytest.mark.parametrize("guard", GUARDED)
def test_a_rotation_alone_has_an_account_of_its_own(guard: str) -> None:
    room = Room(guard, relay(0.005), 0.05, 1e-3)
    for k in range(400):
        room.step(2e-3 * math.sin(0.03 * k), axis=5)
    packet = room.forward
    assert packet.absorbed[1] > 1e-7 and not packet.absorbed[0] and not packet.delivered[0]
    assert np.all(packet.available > -1e-12)


def test_with_a_guard_the_wrench_of_the_operator_does_not_cross() -> None:
    for guard in ("none", "wave"):
        room = Room(guard, relay(0.0), 100.0)
        for _ in range(5):
            room.step(1.5)
        assert room.told.operator_wrench[0] == (1.5 if guard == "none" else 0.0)
        assert bool(room.told.rendered_wrench.any()) == (guard == "none")


def test_in_realtime_the_device_is_answered_at_once_and_without_force_when_the_world_is_silent() -> None:
    end = DeviceEnd(relay(), "none", RATE, INERTIAS, realtime=True, watchdog=0.003)
    state, packet, command, back = DeviceState(), ForwardPacket(), DeviceCommand(), BackwardPacket()
    found = []
    for tick in range(12):
        state.stamp(tick, tick_time(tick, RATE))
        end.answer(state, packet, command)
        found.append((command.tick, command.mode, command.device_tick, command.wrench[0], packet.content_tick))
        if tick < 5:
            back.stamp(tick, tick_time(tick, RATE))
            back.wrench[0] = 10.0 + tick
            end.take_packet(back)
    heard = [*range(-1, 5), *[4] * 6]
    mode = [NOTHING if k - j > 3 else FORCE for k, j in enumerate(heard)]
    wrench = [0.0 if j < 0 or m == NOTHING else 10.0 + j for j, m in zip(heard, mode, strict=True)]
    assert found == list(zip(range(12), mode, heard, wrench, heard, strict=True))
