"""Properties of each driver of a vendor's device behind the core of the node: a rotated mount, faults at any tick.

Each stand-in can do each fault of `stand_ins.Fault`, and send older messages: the service those of 3.4, the
libraries without functions and numbers that they have got since; the messages of the Haply 2diy have no versions.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import driver_checks
import numpy as np
import pytest
from conftest import examples, sampled
from device_stands import PACE, BoardStand, HaplyStand, LibraryStand, Stand
from driver_checks import library, next_reading, opened, push, wait_until
from fake_haply_2diy import board
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from haptic_drivers.bound import JUMP
from haptic_drivers.devices.interface import DeviceError, Reading
from haptic_drivers.devices.life import Request
from haptic_drivers.devices.link import Link
from haptic_drivers.devices.parameters import HardwareParameters, build_hardware
from haptic_drivers.driver import REJECTED, build_driver
from haptic_drivers.operators import ConstantParameters
from haptic_sim.messages import ENABLED, FAULT, FORCE, DeviceCommand, DeviceState
from haptic_sim.worlds.scenes import PegParameters
from stand_ins import Fault

RATE = 200.0  # [Hz] as the driver counts; ticks come as soon as they can
PUSH = np.array([1.0, -0.5, 0.7, 0.0, 0.0, 0.0])
FAULTS = st.lists(st.sampled_from(list(Fault)), min_size=1, max_size=3)


@pytest.fixture(scope="module", params=["haply", "dhd", "hd", "2diy"])
def stand(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """Each stand-in in turn, not misused in the end."""
    kind = request.param
    if kind == "2diy":
        with board() as one:
            yield BoardStand(one)
        return
    stand: Any = HaplyStand() if kind == "haply" else LibraryStand(kind, library(kind, tmp_path_factory.getbasetemp()))
    yield stand
    stand.close()


class Bench:
    """The core of a driver node over a device: a command is answered in its tick.

    Attributes:
        pause: longest time since the device's last message but REJECTED ticks, from which a driver that rejects as many
            readings judges the last of them [s]. A thread of the stand-in, of the driver or of the ticks that is
            stalled makes it long.
    """

    def __init__(self, stand: Stand, **keys: Any):
        free: dict[str, Any] = {"soft_start": 0.0, "presence": "none", "aligned": "mount", "wall": (0.0, 0.0)}
        free["bound"] = {"wrench": [3.0] * 3 + [0.0] * 3, "rate": [1e5] * 3 + [0.0] * 3}
        free["bound"]["velocity"] = [stand.fastest, 20.0]
        device: HardwareParameters = driver_checks.parameters(stand.name, stand.connection, **{**free, **keys})
        self.link = Link(build_hardware(device), device, 1 / RATE, watch=False)
        none = ConstantParameters(wrench=(0.0,) * 6)
        self.driver = build_driver(device, none, PegParameters(), RATE, None, None, 0, None, self.link)
        self.tick, self.state, self._stand = -1, DeviceState(), stand
        self.pause, self._messages, self._heard = 0.0, -1, time.monotonic()
        self._before: deque[float] = deque(maxlen=REJECTED + 1)  # [s] when the last message was seen in recent ticks
        self.link.open()
        self.driver.activate(0)
        self.driver.enable()

    def step(self, wrench: np.ndarray) -> DeviceState:
        """A tick in which a wrench is commanded (6,), in the world."""
        self.tick += 1
        self.driver.sense(self.tick, self.state, time.monotonic_ns())
        self._look_for_stall()
        command = DeviceCommand()
        command.stamp(self.tick, 0)
        command.mode = FORCE
        command.wrench[:] = wrench
        self.driver.actuate(command)
        time.sleep(5e-4)
        return self.state

    def _look_for_stall(self) -> None:
        messages, now = self._stand.messages()[0], time.monotonic()
        if messages != self._messages:
            self._messages, self._heard = messages, now
        self._before.append(self._heard)
        self.pause = max(self.pause, now - self._before[0])

    def until(self, wrench: np.ndarray, condition: Callable[[DeviceState], object], what: str) -> None:
        """Ticks with a wrench until something is so; else the device is closed, for the tests to come."""
        try:
            wait_until(lambda: condition(self.step(wrench)), what)
        except pytest.fail.Exception as error:
            self.close()
            pytest.fail(f"{error}: {self.link.life.fault or self.state.reason}")

    def until_pushed(self, wrench: np.ndarray, what: str) -> None:
        """Ticks with a wrench until the motors have a force; a device that a machine lost which stalls is enabled."""

        def pushes(state: DeviceState) -> bool:
            if state.state == FAULT and re.search("the device is lost|has not answered", self.link.life.fault):
                self.enable_again()
            return bool(self._stand.force().any())

        self.until(wrench, pushes, what)

    def enable_again(self) -> None:
        """As a person does who has seen the fault; waits until the device is open."""
        assert self.link.ask(Request.ENABLE) == ""
        for thread in threading.enumerate():
            if thread.name == "device opening":
                thread.join(10.0)

    def close(self) -> None:
        """End it."""
        self.driver.release()
        self.link.close()


@pytest.mark.parametrize("axis", sampled(range(3), 1))
def test_a_push_along_each_axis_with_a_rotated_mount(stand: Stand, axis: int) -> None:
    if axis >= stand.directions:
        pytest.skip("the device has no motor there")
    rotation = Rotation.from_rotvec([0.3, -0.5, 0.7])
    unit = np.eye(3)[axis]
    stand.put(np.zeros(3))
    bound = {
        "wrench": [3.0] * 3 + [0.0] * 3,
        "rate": [1e5] * 3 + [0.0] * 3,
        "velocity": [10.0, 200.0],
    }  # a step is no fault
    bench = Bench(stand, mount=[0.1, 0.2, 0.3, *rotation.as_quat()], bound=bound)
    x = 0.1 + rotation.apply(stand.home)[0]
    bench.until(
        np.zeros(6), lambda state: state.reading_age < 0.1 and state.pose[0] == pytest.approx(x, rel=1e-6), "a reading"
    )
    before = bench.state.pose[:3].copy()
    stand.put(0.01 * unit)
    bench.until(np.zeros(6), lambda state: np.linalg.norm(state.pose[:3] - before) > 5e-3, "a motion")
    bench.until(np.zeros(6), lambda state: np.abs(state.twist).max() < 1e-6, "its end")  # of a filtered difference
    np.testing.assert_allclose(bench.state.pose[:3] - before, rotation.apply(0.01 * unit), atol=1e-7)
    bench.until_pushed(np.array([*unit, 0.0, 0.0, 0.0]), "a force")
    motors = np.arange(3) < stand.directions
    np.testing.assert_allclose(stand.force(), motors * rotation.inv().apply(unit), atol=1e-6)
    bench.close()
    wait_until(lambda: not stand.force().any(), "zero force")


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name)
def test_each_stand_in_can_do_each_fault(stand: Stand, fault: Fault) -> None:
    """As a driver sees it, without the core; in the end the device is usable again."""
    stand.put(np.zeros(3))
    late = 2.0 * driver_checks.PATIENT
    with opened(driver_checks.parameters(stand.name, stand.connection)) as hardware:
        hardware.enable()
        push(hardware, PUSH, lambda: stand.force().any(), "a force")
        before = next_reading(hardware)
        stand.fault(0, fault, {Fault.LATE: late, Fault.JUMP: stand.jump, Fault.NOT_FINITE: 1e9}.get(fault, 5.0))
        after = Reading()

        def seen() -> bool:
            """Whether a device that goes on being driven does what it should not."""
            hardware.write(PUSH)
            try:
                new = hardware.read(after)
            except DeviceError as error:
                after.fault = str(error)
            if fault in (Fault.MUTE, Fault.GONE):
                return bool(after.fault) or time.monotonic_ns() - before.time_ns > 1e9 * late
            assert not after.fault or fault in (Fault.LATE, Fault.JUMP)
            if fault == Fault.LATE:  # a call that hangs for so long is one that the device's own watchdog may end
                return bool(after.fault) or after.time_ns - before.time_ns > 0.7e9 * late
            if fault == Fault.JUMP:
                return bool(after.fault) or float(np.linalg.norm(after.pose[:3] - before.pose[:3])) > 0.03
            if fault == Fault.NOT_FINITE:
                return not np.isfinite(after.pose).all()
            if new:  # what is answered twice is what it was
                np.testing.assert_allclose(after.pose, before.pose, atol=1e-7)
            return after.time_ns > before.time_ns + 2e7

        wait_until(seen, fault.name)
        if fault in (Fault.LATE, Fault.MUTE, Fault.GONE):
            wait_until(lambda: not stand.force().any(), "zero force")
        stand.back(0)
        hardware.close()
        hardware.open()
        hardware.enable()
        push(hardware, PUSH, lambda: stand.force().any(), "the force again")


# Shrinking would wait for what fails.
@settings(max_examples=examples(16), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(faults=FAULTS, ticks=st.lists(st.integers(1, 20), min_size=3, max_size=3))
def test_whatever_happens_at_any_tick_ends_in_zero_force_and_the_device_is_usable_again(
    stand: Stand, faults: list[Fault], ticks: list[int]
) -> None:
    stand.put(np.zeros(3))
    bench = Bench(stand)
    bench.until_pushed(PUSH, "a force")
    for fault, wait in zip(faults, ticks, strict=False):
        for _ in range(wait):
            state = bench.step(PUSH)
            assert np.isfinite(state.pose).all() and np.isfinite(state.twist).all()
        value = {Fault.LATE: 2.0 * driver_checks.PATIENT, Fault.JUMP: stand.jump, Fault.NOT_FINITE: 1e9}.get(fault, 5.0)
        stand.fault(0, fault, value)
        if fault == Fault.TWICE:
            continue  # does no harm
        bench.until(PUSH, lambda _: not stand.force().any(), f"zero force after {fault.name}")
    stand.back(0)
    if bench.step(PUSH).state == ENABLED:
        bench.until(PUSH, lambda state: state.state == FAULT or stand.force().any(), "a fault, or the force")
    if bench.state.state == FAULT:
        bench.enable_again()
    bench.until_pushed(PUSH, "the force again")
    bench.close()
    wait_until(lambda: not stand.force().any(), "zero force")


# Each field of what a vendor's software tells, wrong alone: no force in time, with the reason

IN_TIME = 1000  # ticks of 1 ms or less, in which the hand that swings turns round
IN_TURN = 3  # messages to the device after a fault that are on their way, at most
FAR, FARTHER = 0.6, 0.8  # of the amplitude: how far the hand has swung when a mistake begins
TURN = 1.5  # [rad] amplitude of the rotation
FASTER = 1.1  # limit of speed of the device, over the largest of the hand
# [s] a pause in which the hand may have moved as far as a mistake lets it jump; messages come each millisecond
STALLED = FAR / (JUMP * FASTER * PACE) - 0.002
TRIES = 10  # on a machine that stalls


def pushed(stand: Stand) -> bool:
    """Whether the motors have a force: what the angles of a board are is no matter here."""
    return any(stand._board.torques) if isinstance(stand, BoardStand) else bool(stand.force().any())


def check_mistake(bench: Bench, stand: Stand, name: str, begin: Callable[[], None]) -> bool:
    """A wrong field ends the force in time, with a reason; whether the machine did not stall meanwhile."""
    middle, sway = stand.middle, stand.sway

    def moves(state: DeviceState) -> bool:
        if state.state == FAULT:  # a machine that stalls loses a device
            bench.enable_again()
        # where no component is nearly zero, and the hand is not yet at rest
        return pushed(stand) and bool(FAR < np.linalg.norm(state.pose[:3] - middle) / sway < FARTHER)

    bench.until(PUSH, moves, f"force and motion before {name}")
    bench.pause = 0.0
    begin()
    first, ticks = -1, 0  # the tick in which a reading is rejected first, and all
    rejected = bench.driver.rejected
    while bench.step(PUSH).state != FAULT:
        ticks += 1
        if first < 0 and bench.driver.rejected > rejected:
            first = ticks
        state = bench.state
        assert np.isfinite(state.pose).all() and np.isfinite(state.twist).all()
        if ticks >= IN_TIME:
            assert bench.pause > STALLED, f"no fault by {name}"
            return False
    sent, _ = stand.messages()
    fault = bench.link.life.fault
    if fault.startswith("the device is lost"):
        return False
    assert fault and len(fault) < 400, name
    if "not finite" in fault or "too fast" in fault:  # what is against the displacement may be so now and then
        assert first >= 0 and ticks - first < REJECTED, name
    wait_until(lambda: not pushed(stand), f"zero force after {name}")
    assert stand.messages()[1] - sent <= IN_TURN, name
    return True


@contextmanager
def swinging(stand: Stand, faster: float = FASTER) -> Iterator[Bench]:
    """A bench with a hand that swings, whose largest speed times `faster` is the device's limit."""
    stand.put(np.zeros(3))
    stand.swing(PACE)
    # hardly more than the hand has, so that a jump is no motion in a short pause of readings either
    speed = [faster * PACE * stand.sway, faster * PACE * TURN]
    bench = Bench(stand, bound={"wrench": [3.0] * 3 + [0.0] * 3, "rate": [1e5] * 6, "velocity": speed})
    try:
        yield bench
    finally:
        stand.back(0)
        stand.swing(0.0)
        bench.close()


def check_mistakes(stand: Stand, names: Callable[[list[str]], list[str]], faster: float = FASTER) -> None:
    """Each of some wrong fields ends the force with a reason, and the device is usable again."""
    found = stand.mistakes()
    with swinging(stand, faster) as bench:
        for name in names(list(found)):
            for _ in range(TRIES):
                found_in_time = check_mistake(bench, stand, name, found[name])
                stand.back(0)
                if bench.state.state == FAULT:
                    bench.enable_again()
                if found_in_time:
                    break
            assert found_in_time, f"{name}: no fault in {TRIES} tries, in each of which readings stalled"


def test_a_field_of_each_driver_that_is_wrong_alone_ends_the_force(stand: Stand) -> None:
    """One of each kind: value, unit, sign, age."""
    kinds = ("1e+30", "in mm", "smaller unit", "radians", "velocity of the wrong sign", "angles of the wrong", "late")

    def sample(names: list[str]) -> list[str]:
        found = (next((name for name in names if kind in name), None) for kind in kinds)
        return [name for name in found if name is not None]

    check_mistakes(stand, sample)


NO_ORIENTATION = "orientation that is none"


def test_a_jump_while_the_service_is_stalled_is_not_taken_for_a_missed_fault() -> None:
    """In a pause of the readings the hand may have moved as far, so that no driver can tell."""
    with closing(HaplyStand()) as stand, swinging(stand) as bench:

        def begin() -> None:
            stand.mistakes()[NO_ORIENTATION]()
            time.sleep(2.0 * STALLED)

        check_mistake(bench, stand, NO_ORIENTATION, lambda: stand.do(begin))
        assert bench.pause > STALLED


@pytest.mark.exhaustive
def test_a_driver_that_misses_a_fault_is_found() -> None:
    """One whose limit of speed is so high that it believes any jump."""
    with closing(HaplyStand()) as stand, pytest.raises(AssertionError, match="no fault"):
        check_mistakes(stand, lambda names: [NO_ORIENTATION], faster=1e3)


@pytest.mark.exhaustive
def test_each_field_of_each_driver_that_is_wrong_alone_ends_the_force(stand: Stand) -> None:
    check_mistakes(stand, lambda names: names)


@pytest.mark.exhaustive
def test_a_hand_that_swings_is_believed(stand: Stand) -> None:
    """Its velocities are those of its positions, in each driver's axes and units.

    The speed of sin(pace t) is compared where the hand is, so that ticks in which the machine stalls change little. A
    velocity that is wrong is so in each second, one of a machine that stalls all the time hardly in ten.
    """
    stand.put(np.zeros(3))
    stand.swing(PACE)
    bench = Bench(stand)

    def pushes(state: DeviceState) -> bool:
        if state.state == FAULT:  # a machine that stalls loses a device
            bench.enable_again()
        return pushed(stand)

    try:
        bench.until(PUSH, pushes, "a force")
        before = bench.driver.rejected
        for _ in range(10):
            differences = []
            for _ in range(1000):
                state = bench.step(PUSH)
                position = min(float(np.linalg.norm(state.pose[:3] - stand.middle)) / stand.sway, 1.0)
                speed = float(np.linalg.norm(state.twist[:3])) / (PACE * stand.sway)
                differences.append(abs(speed - math.sqrt(1.0 - position**2)))
            if np.median(differences) < 0.1:
                break
        assert bench.driver.rejected == before or bench.pause > STALLED
        assert np.median(differences) < 0.1
    finally:
        stand.swing(0.0)
        bench.close()
