"""The process that writes a message to a port when that of a driver is silent, or has ended."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from haptic_drivers.devices.guardian import Guardian

ZERO = bytes(range(1, 11))
LONG, SHORT = 60.0, 0.2  # [s] of silence


@pytest.fixture
def port() -> Iterator[tuple[int, int]]:
    """What is written at one end is read at the other."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    yield read, write
    os.close(read)
    os.close(write)


def heard(file: int, within: float) -> bytes:
    return os.read(file, 4096) if select.select([file], [], [], within)[0] else b""


def test_the_message_is_written_at_the_end_which_is_waited_for(port: tuple[int, int]) -> None:
    guardian = Guardian(port[1], ZERO, LONG)
    assert guardian.sign() and not heard(port[0], 0.1)
    guardian.close()
    assert heard(port[0], 0.0) == ZERO and guardian._process.returncode == 0
    guardian._signed = 0
    assert not guardian.sign()


def test_the_message_is_written_once_for_each_silence(port: tuple[int, int]) -> None:
    guardian = Guardian(port[1], ZERO, SHORT)
    try:
        for _ in range(2):
            guardian._signed = 0
            assert guardian.sign()
            assert heard(port[0], 30.0) == ZERO
            assert not heard(port[0], 3.0 * SHORT)
    finally:
        guardian.close()
    assert heard(port[0], 0.0) == ZERO


def test_signs_keep_it_from_writing(port: tuple[int, int]) -> None:
    guardian = Guardian(port[1], ZERO, 2.0)
    try:
        for _ in range(300):
            assert guardian.sign()
            time.sleep(0.01)
        assert not heard(port[0], 0.0)
    finally:
        guardian.close()


def test_a_driver_that_is_killed_leaves_the_message_and_no_guardian(port: tuple[int, int]) -> None:
    code = (
        "import sys, time; from haptic_drivers.devices.guardian import Guardian\n"
        f"guardian = Guardian(int(sys.argv[1]), {ZERO!r}, 60.0)\n"
        "print(guardian._process.pid, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(port[1])]
    with subprocess.Popen(command, pass_fds=port[1:], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        guardian = int(driver.stdout.readline())
        driver.kill()
    assert heard(port[0], 30.0) == ZERO
    deadline = time.monotonic() + 30.0
    while runs(guardian):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def runs(process: int) -> bool:
    """Whether a process is there that has not ended."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_guardian_that_has_ended_is_missed(port: tuple[int, int]) -> None:
    guardian = Guardian(port[1], ZERO, LONG)
    os.kill(guardian._process.pid, signal.SIGKILL)
    guardian._process.wait()
    assert not guardian.sign()
    guardian.close()
    assert not heard(port[0], 0.0)


def test_a_port_that_is_gone_is_no_reason_to_go_on() -> None:
    read, write = os.pipe()
    guardian = Guardian(write, ZERO, LONG)
    os.close(read)
    guardian.close()
    os.close(write)
    assert guardian._process.returncode == 0
