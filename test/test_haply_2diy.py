"""The driver of the Haply 2diy, over a pseudo-terminal; its pantograph against closed forms and differences."""

from __future__ import annotations

import ctypes
import re
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from driver_checks import wait_until
from fake_haply_2diy import APART, DISTAL, NUMBER, PROXIMAL, Board, angles_at, board, force_of
from hypothesis import given, settings
from hypothesis import strategies as st

from haptic_bench.experiment.devices import read_device
from haptic_drivers.devices import haply_2diy
from haptic_drivers.devices.haply_2diy import Haply2diy, Pantograph
from haptic_drivers.devices.interface import DeviceError, Reading
from haptic_drivers.devices.life import Request
from haptic_drivers.devices.link import Link
from haptic_drivers.devices.parameters import HardwareParameters, build_hardware
from haptic_sim.messages import FAULT, DeviceReading
from stand_ins import Fault

MECHANISM = Pantograph(PROXIMAL, DISTAL, APART)
HOME = np.radians([168.0, 12.0])


def data(port: str) -> HardwareParameters:
    device = read_device("haply_2diy")
    # a machine that tests share may stall a thread for longer than a device is silent
    update = {"connection": {"port": port}, "watchdog": 1.0, "reading_watchdog": 1.0}
    return HardwareParameters.model_validate(device.model_dump() | update)


@pytest.fixture
def fake() -> Iterator[Board]:
    with board() as one:
        yield one


@pytest.fixture
def hardware(fake: Board) -> Iterator[Haply2diy]:
    one = build_hardware(data(fake.port))
    assert isinstance(one, Haply2diy)
    one.open()
    yield one
    one.close()


def newest(hardware: Haply2diy) -> Reading:
    reading, deadline = Reading(), time.monotonic() + 10.0
    while not hardware.read(reading):
        assert time.monotonic() < deadline
        time.sleep(1e-3)
    return reading


def test_the_pantograph_is_symmetric_at_home() -> None:
    """l cos 12 deg to the side, then L up: by Pythagoras."""
    point, jacobian = MECHANISM.locate(HOME)
    aside = 0.07 * np.cos(np.radians(12.0)) + 0.019
    up = 0.07 * np.sin(np.radians(12.0)) + np.sqrt(0.09**2 - aside**2)
    np.testing.assert_allclose(point, [0.019, up], rtol=1e-12)
    np.testing.assert_allclose(jacobian[0, 0], jacobian[0, 1], rtol=1e-9)
    np.testing.assert_allclose(jacobian[1, 0], -jacobian[1, 1], rtol=1e-9)


angles = st.tuples(st.floats(95.0, 175.0), st.floats(5.0, 85.0))


@given(angles)
@settings(max_examples=40, deadline=None)
def test_the_jacobian_is_the_derivative_and_torques_do_the_work_of_the_force(degrees: tuple[float, float]) -> None:
    q = np.radians(degrees)
    point, jacobian = MECHANISM.locate(q)
    for i, step in enumerate(1e-6 * np.eye(2)):
        difference = (MECHANISM.locate(q + step)[0] - MECHANISM.locate(q - step)[0]) / 2e-6
        np.testing.assert_allclose(jacobian[:, i], difference, atol=1e-6)
    elbow = 0.07 * np.array([np.cos(q[0]), np.sin(q[0])])
    assert np.linalg.norm(point - elbow) == pytest.approx(0.09, rel=1e-12)


def test_links_that_do_not_reach_are_said_and_near_a_singularity_there_is_no_force() -> None:
    with pytest.raises(DeviceError, match="the links do not reach: hold the end point at its home position"):
        Pantograph(0.08, 0.09, 0.038).locate(np.radians([180.0, 0.0]))
    assert not Pantograph(0.07, 0.0891, 0.038).locate(np.radians([180.0, 0.0]))[1].any()


def test_the_board_is_reset_and_set_up_before_torques(fake: Board, hardware: Haply2diy) -> None:
    reading = newest(hardware)
    assert fake.told == ["reset", "setup", "torques"] and fake.torques == (0.0, 0.0)
    point, _ = MECHANISM.locate(HOME)
    np.testing.assert_allclose(reading.pose, [0.0, -point[1], 0, 0, 0, 0, 1], atol=1e-7)  # float32
    assert 0 <= time.monotonic_ns() - reading.time_ns < 10**10


@pytest.mark.parametrize("axis", [0, 1])
def test_a_push_along_each_axis_becomes_the_torques_that_do_its_work(
    fake: Board, axis: int, hardware: Haply2diy
) -> None:
    """In the axes of the base: y away from the user, which the board has the other way round."""
    force = np.eye(2)[axis]
    hardware.enable()
    hardware.write(np.array([*force, 0.0, 0.0, 0.0, 0.0]))
    fake.settle()
    _, jacobian = MECHANISM.locate(HOME)
    np.testing.assert_allclose(force_of(fake.torques, jacobian), [force[0], -force[1]], atol=1e-6)
    before = newest(hardware).pose.copy()
    power = fake.torques[1]  # of motor 1, which turns by a small angle
    fake.angles[1] += np.degrees(1e-4)
    fake.settle()
    moved = newest(hardware).pose - before
    assert power * 1e-4 == pytest.approx(force @ moved[:2], rel=2e-2, abs=1e-9)
    hardware.disable()
    fake.settle()
    assert fake.torques == (0.0, 0.0)


def test_no_force_without_enable_and_none_after_close(fake: Board, hardware: Haply2diy) -> None:
    hardware.write(np.ones(6))
    fake.settle()
    assert fake.torques == (0.0, 0.0)
    hardware.enable()
    hardware.write(np.ones(6))
    fake.settle()
    assert any(fake.torques)
    hardware.close()
    deadline = time.monotonic() + 5.0
    while any(fake.torques) and time.monotonic() < deadline:
        time.sleep(1e-3)
    assert fake.torques == (0.0, 0.0)
    hardware.close()  # again has no effect


def test_a_thread_that_ends_leaves_no_force_behind(
    fake: Board, hardware: Haply2diy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it ends: the board keeps what it was told last."""
    ended: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda failed: ended.append(failed.exc_type))
    hardware.enable()
    hardware.write(np.ones(6))
    fake.settle()
    assert any(fake.torques)
    (thread,) = [one for one in threading.enumerate() if one.name == "haply 2diy"]
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
    thread.join(10.0)
    wait_until(lambda: not any(fake.torques), "zero force")
    assert ended == [SystemExit], "a process ends by it"
    with pytest.raises(DeviceError, match="SystemExit"):
        hardware.read(Reading())


def test_an_answer_that_comes_twice_is_taken_once(fake: Board, hardware: Haply2diy) -> None:
    fake.fault(0, Fault.TWICE, 1e9)
    fake.settle(20)
    fake.angles[:] = [20.0, 160.0]
    fake.settle(20)
    point, _ = MECHANISM.locate(np.radians([160.0, 20.0]))
    np.testing.assert_allclose(newest(hardware).pose[1], -point[1], atol=1e-7)


def test_a_number_that_is_none_is_handed_on_for_the_driver_to_reject(fake: Board, hardware: Haply2diy) -> None:
    fake.angles[0] = float("nan")
    fake.settle()
    assert not np.isfinite(newest(hardware).pose[:2]).any()
    fake.angles[0] = 12.0
    fake.settle()
    reading = newest(hardware)
    assert np.isfinite(reading.pose).all() and np.isfinite(reading.twist).all()


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("GONE", "the board is gone"),
        ("MUTE", "has not answered for 1.1 s|is lost: timeout, no reading for 1"),
        ("other", "answers for device 3"),
    ],
)
def test_what_goes_wrong_is_a_fault_and_the_device_can_be_opened_again(how: str, text: str) -> None:
    with board() as fake:
        device = data(fake.port)
        said: list[str] = []
        link = Link(build_hardware(device), device, 1e-3, notify=said.append)
        link.open()
        link.enable()
        reading = DeviceReading()
        link.take(0, reading)
        link.write(np.array([1.0, 0, 0, 0, 0, 0]))
        fake.settle()
        assert any(fake.torques)
        if how == "other":
            fake.number = 3
        else:
            fake.fault(0, Fault[how])
        deadline = time.monotonic() + 10.0
        while link.life.state != FAULT and time.monotonic() < deadline:
            link.take(1, reading)
            time.sleep(1e-3)
        assert link.life.state == FAULT and re.search(text, link.life.fault) and re.search(text, said[-1])
        while any(fake.torques) and time.monotonic() < deadline:
            time.sleep(1e-3)
        assert not any(fake.torques), "it hears, though it does not answer"
        fake.number = NUMBER
        fake.back()
        assert link.ask(Request.ENABLE) == ""
        for thread in threading.enumerate():
            if thread.name == "device opening":
                thread.join(10.0)
        link.take(2, reading)
        link.write(np.array([1.0, 0, 0, 0, 0, 0]))
        fake.settle()
        assert any(fake.torques)
        link.close()


def test_a_thread_that_is_late_does_not_serve_the_next_connection(fake: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    hardware = build_hardware(data(fake.port))
    entered, leave = threading.Event(), threading.Event()
    hardware.open()
    exchange = hardware._exchange

    def late(torques: np.ndarray, patience: float) -> np.ndarray:
        entered.set()
        leave.wait()
        return exchange(torques, patience)

    monkeypatch.setattr(hardware, "_exchange", late)
    assert entered.wait(10.0)
    hardware.close()
    thread = hardware._thread
    assert thread.is_alive()
    with pytest.raises(DeviceError, match="the last connection has not ended yet"):
        hardware.open()
    leave.set()
    thread.join(10.0)
    monkeypatch.undo()
    hardware.open()
    assert hardware._thread is not thread
    newest(hardware)
    hardware.close()


def test_a_late_answer_ends_the_force_until_it_comes_and_answers_stay_in_their_order(
    fake: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(haply_2diy, "SILENCE", 5.0)  # a machine that stalls is not what is tested
    device = data(fake.port).model_copy(update={"reading_watchdog": 0.02})
    hardware = build_hardware(device)
    hardware.open()
    hardware.enable()
    hardware.write(np.array([1.0, 0, 0, 0, 0, 0]))
    fake.settle()
    assert any(fake.torques)
    fake.fault(0, Fault.LATE, 0.06)
    deadline = time.monotonic() + 10.0
    while any(fake.torques):
        assert time.monotonic() < deadline
    fake.angles[:] = angles_at(np.array([0.03, 0.12]))
    while not any(fake.torques):
        assert time.monotonic() < deadline
        hardware.write(np.array([1.0, 0, 0, 0, 0, 0]))
    fake.settle(20)
    np.testing.assert_allclose(newest(hardware).pose[:2], [0.03 - 0.019, -0.12], atol=1e-7)
    hardware.close()


def test_an_answer_may_take_as_long_as_the_reading_watchdog_allows(fake: Board) -> None:
    """Longer than twice the silence after which the board counts as gone with a shorter watchdog."""
    device = data(fake.port).model_copy(update={"reading_watchdog": 5.0})  # for a machine that stalls
    hardware = build_hardware(device)
    hardware.open()
    fake.settle()
    fake.fault(0, Fault.LATE, 3.0 * haply_2diy.SILENCE)
    fake.angles[:] = angles_at(np.array([0.03, 0.12]))
    fake.settle(3)
    np.testing.assert_allclose(newest(hardware).pose[:2], [0.03 - 0.019, -0.12], atol=1e-7)
    hardware.close()


def test_a_jump_of_an_encoder_is_handed_on_for_the_driver_to_reject(
    monkeypatch: pytest.MonkeyPatch, fake: Board, hardware: Haply2diy
) -> None:
    monkeypatch.setattr(haply_2diy, "SILENCE", 5.0)  # a machine that stalls is not what is tested
    before = newest(hardware).pose.copy()
    fake.fault(0, Fault.JUMP, 20.0)
    fake.settle()
    point, _ = MECHANISM.locate(np.radians([168.0, 32.0]))
    np.testing.assert_allclose(newest(hardware).pose[:2], [point[0] - 0.019, -point[1]], atol=1e-7)
    fake.back()
    fake.settle()
    np.testing.assert_allclose(newest(hardware).pose, before, atol=1e-7)


def test_a_port_that_another_driver_has_is_left_alone(fake: Board, hardware: Haply2diy) -> None:
    """As when two devices are started, and neither is told its port."""
    second, told = build_hardware(data(fake.port)), list(fake.told)
    with pytest.raises(DeviceError, match=f"serial port {fake.port}: is used by another program; give connection.port"):
        second.open()
    second.close()
    assert fake.told == told, "not even zero torques are sent"
    fake.settle()
    hardware.close()
    second.open()
    second.close()


def test_a_port_that_is_not_there_is_named() -> None:
    with pytest.raises(DeviceError, match=r"serial port /dev/nothing: .*No such file"):
        build_hardware(data("/dev/nothing")).open()
