"""Sources of a pointer's motion beside a page: a terminal's keys, a gamepad, a SpaceMouse, a file."""

from __future__ import annotations

import builtins
import contextlib
import math
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import answer

from haptic_drivers import sticks
from haptic_drivers.events import Events
from haptic_drivers.pointing import Answers, Sender
from haptic_drivers.sticks import (
    DEAD,
    RATE,
    SPEED,
    STEP,
    TURN,
    Gamepad,
    Keyboard,
    Motion,
    SourceError,
    SpaceMouse,
    find_gamepad,
    raw_terminal,
)
from haptic_sim.messages import GRAB, MOVE, RELEASE, OperatorEvent


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Two ends: of a source that does not block, and of who writes."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    yield reading, writing
    for end in (reading, writing):
        with contextlib.suppress(OSError):  # closed by the test
            os.close(end)


@pytest.mark.parametrize(
    "keys, way",
    [
        ("d", (STEP, 0, 0, 0, 0, 0)),
        ("ddw", (2 * STEP, STEP, 0, 0, 0, 0)),
        ("\x1b[C\x1b[A", (STEP, STEP, 0, 0, 0, 0)),
        ("\x1b[5~f", (0, 0, 0, 0, 0, 0)),
        ("A", (0, 0, 0, 0, 0, TURN)),
        ("xé", (0, 0, 0, 0, 0, 0)),
    ],
)
def test_each_key_is_a_step(pipe: tuple[int, int], keys: str, way: Any) -> None:
    keyboard = Keyboard(pipe[0])
    os.write(pipe[1], keys.encode())
    motion = keyboard.read(0.02)
    np.testing.assert_allclose(motion.displacement, way, atol=1e-15)
    assert (motion.releases, motion.leaves) == (False, False)
    assert not keyboard.read(0.02).displacement.any()


def test_keys_let_go_and_leave_and_arrows_come_in_parts(pipe: tuple[int, int]) -> None:
    keyboard = Keyboard(pipe[0])
    for keys, releases, leaves in (
        (" ", True, False),
        ("\x1b", True, False),
        ("q", False, True),
        ("\x03", False, True),
    ):
        os.write(pipe[1], keys.encode())
        motion = keyboard.read(0.02)
        assert (motion.releases, motion.leaves, motion.displacement.any()) == (releases, leaves, False)
    os.write(pipe[1], b"\x1b[")
    assert not keyboard.read(0.02).releases
    os.write(pipe[1], b"C")
    assert keyboard.read(0.02).displacement[0] == STEP
    os.close(pipe[1])
    with pytest.raises(SourceError, match="the terminal is closed"):
        keyboard.read(0.02)


def test_terminal_is_left_as_it_was() -> None:
    import pty
    import termios

    master, terminal = pty.openpty()
    before = termios.tcgetattr(terminal)
    with raw_terminal(terminal):
        assert not termios.tcgetattr(terminal)[3] & termios.ECHO
        os.write(master, b"w")
        os.set_blocking(terminal, True)  # the byte is on its way
        assert Keyboard(terminal).read(0.02).displacement[1] == STEP
    assert termios.tcgetattr(terminal) == before and os.get_blocking(terminal)
    os.close(master)
    os.close(terminal)
    reading, writing = os.pipe()
    with pytest.raises(SourceError, match="keyboard: the standard input is not a terminal"), raw_terminal(reading):
        pass
    os.close(reading)
    os.close(writing)


def stick(code: int, value: int, kind: int = 3) -> bytes:
    return struct.pack("@llHHi", 0, 0, kind, code, value)


def test_sticks_move_with_a_speed_and_rest_in_their_middle(pipe: tuple[int, int]) -> None:
    gamepad = Gamepad(pipe[0])
    assert not gamepad.read(0.02).displacement.any()
    os.write(pipe[1], stick(0, 32767) + stick(1, -32768) + stick(5, 255))  # ABS_X, ABS_Y (away), ABS_RZ
    way = gamepad.read(0.02).displacement
    np.testing.assert_allclose(way, 0.02 * SPEED * np.array([1, 1, 1, 0, 0, 0]), rtol=1e-4)
    np.testing.assert_allclose(gamepad.read(0.04).displacement, 2.0 * way)  # as long as they are held
    half = round(32767 * (DEAD + 0.5 * (1.0 - DEAD)))
    os.write(pipe[1], stick(0, half) + stick(1, 1000) + stick(5, 10) + stick(3, 32767) + stick(4, 32767))
    way = gamepad.read(0.02).displacement
    np.testing.assert_allclose(way, 0.02 * np.array([0.5 * SPEED, 0, 0, RATE, 0, -RATE]), rtol=1e-3, atol=1e-9)
    event = stick(305, 1, kind=1)
    os.write(pipe[1], event[:10])
    assert not gamepad.read(0.02).releases
    os.write(pipe[1], event[10:])
    assert gamepad.read(0.02).releases and not gamepad.read(0.02).releases
    os.close(pipe[1])
    with pytest.raises(SourceError, match="the gamepad is gone"):
        gamepad.read(0.02)


def test_gamepad_that_is_not_there_is_said() -> None:
    with pytest.raises(SourceError, match="gamepad /nowhere: No such file or directory"):
        find_gamepad("/nowhere")


@pytest.mark.parametrize(
    ("axes", "keys", "said"),
    [
        ({0, 1, 3, 4}, {304, 305}, ""),
        ({0, 1}, {305}, ""),
        ({0, 1}, {272, 330}, r"is an input device without a button A or B \(BTN_SOUTH, BTN_EAST\)"),  # a touchpad
        (set(), {30}, "is an input device without a stick .* and a button A or B .*"),  # a keyboard
    ],
)
def test_what_is_no_gamepad_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, axes: set[int], keys: set[int], said: str
) -> None:
    """By the codes of its events, as the kernel tells them."""

    def ioctl(descriptor: int, request: int, bits: bytearray) -> int:
        assert request >> 8 & 0xFF == ord("E") and request >> 16 & 0x3FFF == len(bits)
        for code in {0x21: keys, 0x23: axes}[request & 0xFF]:
            bits[code // 8] |= 1 << code % 8
        return 0

    path = tmp_path / "event7"
    path.touch()
    monkeypatch.setattr(sticks.fcntl, "ioctl", ioctl)
    if not said:
        os.close(find_gamepad(str(path)))
        return
    with pytest.raises(SourceError, match=f"event7: {said}; name the event file of a gamepad"):
        find_gamepad(str(path))


def test_a_file_that_is_no_input_device_is_said() -> None:
    with pytest.raises(SourceError, match="gamepad /dev/null: is not an input device; name the event file"):
        find_gamepad("/dev/null")


def test_spacemouse_is_read_by_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    state = SimpleNamespace(x=1.0, y=-1.0, z=math.nan, roll=0.05, pitch=-1.0, yaw=1.0, buttons=[0, 0])
    mouse = SpaceMouse(SimpleNamespace(read=lambda: state))
    motion = mouse.read(0.02)
    np.testing.assert_allclose(motion.displacement, 0.02 * np.array([SPEED, -SPEED, 0, -RATE, 0, -RATE]))
    assert not motion.releases
    state.buttons = [0, 1]
    assert mouse.read(0.02).releases

    def missing(name: str, *rest: Any) -> Any:
        if name == "pyspacemouse":
            raise ImportError("No module named 'pyspacemouse'")
        return imported(name, *rest)

    imported = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(SourceError, match="needs pyspacemouse and hidapi: python3 -m pip install"):
        SpaceMouse()


def test_motion_becomes_events_that_end_with_it() -> None:
    pytest.importorskip("rclpy", reason="needs ROS 2")
    pytest.importorskip("haptics.msg", reason="needs the built messages")
    from haptic_bench.nodes.pointing import StateReport, follow

    motions = iter(
        [
            Motion(np.zeros(6)),
            Motion(np.array([0.01, 0, 0, 0, 0, 0])),
            Motion(np.array([0.01, 0, 0, 0, 0, 0.2])),
            *(12 * [Motion(np.zeros(6))]),  # rests: signs
            Motion(np.zeros(6), releases=True),
            Motion(np.array([0, 0.02, 0, 0, 0, 0])),
            Motion(np.zeros(6), leaves=True),
        ]
    )
    sent: list[OperatorEvent] = []

    def take(data: bytes) -> None:
        event = OperatorEvent()
        event.load(data)
        sent.append(event)

    sender = Sender(take)
    follow(SimpleNamespace(read=lambda elapsed: next(motions)), sender, threading.Event(), StateReport(lambda: ""))
    sender.release()
    phases = [event.phase for event in sent]
    assert phases[:3] == [GRAB, MOVE, MOVE] and phases[-4:] == [RELEASE, GRAB, MOVE, RELEASE]
    signs = sent[3:-4]
    assert signs and all(event.phase == MOVE for event in signs)
    np.testing.assert_allclose(signs[-1].pose, (0.02, 0, 0, 0, 0, math.sin(0.1), math.cos(0.1)))
    np.testing.assert_allclose(sent[-2].pose, (0, 0.02, 0, 0, 0, 0, 1))
    assert [event.sequence for event in sent] == list(range(1, len(sent) + 1))


def test_whether_it_is_heard_and_holds_is_said() -> None:
    """By what a driver does with the events of two people; what it has not answered holds nothing."""
    events, sent = Events(), [[], []]  # type: ignore[var-annotated]
    senders = [Sender(one.append) for one in sent]
    answers = [Answers(sender) for sender in senders]
    time = iter(range(100))

    def passes(listeners: tuple[str, ...] = ("/wall/driver",)) -> list[str]:
        for one in sent:
            while one:
                event = OperatorEvent()
                event.load(one.pop(0))
                events.offer(event)
        while (taken := events.next(next(time))) is not None:
            for answer_ in answers:
                answer_.take(taken.to_bytes())
        return [answer_.text(listeners) for answer_ in answers]

    heard = "received by /wall/driver: "
    assert passes() == 2 * [heard + "holds nothing"]
    senders[0].grab()
    assert answers[0].text(("/wall/driver",)).startswith(heard + "does not hold; the trial is paused, or has let go")
    assert passes() == [heard + "holds", heard + "another pointer holds the hand"]
    senders[1].grab()
    assert passes() == [heard + "holds", heard + "another pointer holds the hand"]
    senders[0].release()
    assert passes()[0] == heard + "holds nothing"
    assert passes(()) == 2 * ["the events are not received: the trial has ended"]


def test_what_lasts_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rclpy", reason="needs ROS 2")
    pytest.importorskip("haptics.msg", reason="needs the built messages")
    from haptic_bench.nodes import pointing

    now, text = [0.0], ["holds nothing"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pointing, "time", SimpleNamespace(monotonic=lambda: now[0]))
        said = pointing.StateReport(lambda: text[0])
        for k in range(100):  # of 20 ms; in the middle it holds for an instant, and for good at 1.6 s
            now[0] = 0.02 * k
            text[0] = "holds" if k in (40, 41) or k >= 80 else "holds nothing"
            said.update()
            if k == 70:
                assert capsys.readouterr().err == "holds nothing\n"
    assert capsys.readouterr().err == "holds\n"


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("joystick",), "joystick: must be one of keyboard, gamepad, spacemouse, or a file of events"),
        (("keyboard", "--device", "/dev/x"), "--device /dev/x: is for a gamepad"),
        (("gamepad", "--device", "/nowhere"), "gamepad /nowhere: No such file"),
    ],
)
def test_source_that_is_none_is_said_in_a_sentence(arguments: tuple[str, ...], said: str) -> None:
    pytest.importorskip("rclpy", reason="needs ROS 2")
    pytest.importorskip("haptics.msg", reason="needs the built messages")
    refused = answer("point", *arguments, "--namespace", "nothing")
    assert refused.status == 2 and said in refused.err, refused.err


def test_a_pointer_waits_for_its_trial_as_long_as_asked(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    pytest.importorskip("rclpy", reason="needs ROS 2")
    pytest.importorskip("haptics.msg", reason="needs the built messages")
    from haptic_bench.nodes import pointing

    monkeypatch.setattr(pointing, "PROMPT", 0.0)
    counts = iter([0, 0, 0, 1])
    late = SimpleNamespace(get_subscription_count=lambda: next(counts))
    pointing._find(late, "/a/operator_events_in", threading.Event(), 1e6)
    assert capsys.readouterr().err == "haptics: waiting for a trial at /a/operator_events_in, for 1e+06 s (--wait)\n"
    nobody = SimpleNamespace(get_subscription_count=lambda: 0)
    with pytest.raises(SourceError, match=r"within 0 s; start a trial .* wait for it longer with --wait SECONDS"):
        pointing._find(nobody, "/a/operator_events_in", threading.Event(), 0.0)
