"""Outlets: where the events of a session are sent while it runs, for other recorders (`codes`).

    with open_outlets(["serial:/dev/ttyUSB0", "ros"]) as outlets:
        outlets[0].send(10, "begin", 12.5)

An outlet takes the code of an event, its name, and its time in the session. What goes out on a wire is the code alone;
the recorder has its own clock. `./haptics benchmark outlets` measures the time from `send` to where a code arrives.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import importlib
import os
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from haptic_sim import inputs
from haptic_sim.errors import HapticsError
from haptic_sim.parameters import ParameterError, did_you_mean
from haptic_study.codes import LARGEST, Mark, code_of
from haptic_study.file import Study
from haptic_study.session import Event, Form, Page, Step, Trial

PULSE = 0.005
"""Time for which a code stays on the lines of a port, before they are 0 again [s]."""


class OutletError(HapticsError):
    """An event was not sent; the text says where to and why."""


class Outlet(Protocol):
    """A place where events are sent."""

    def send(self, code: int, name: str, time: float) -> None:
        """Send an event at once.

        Args:
            code: from 1 to 255.
            name: of the event.
            time: of the event in the session [s].

        Raises:
            OutletError: it was not sent.
        """

    def close(self) -> None:
        """End it."""


class Pulses:
    """Codes as bytes on a port, each followed by 0 after a pulse, without which equal codes would be one.

    A code that follows within the pulse of the one before ends that pulse first.

    Args:
        name: of the port, for errors.
        write: puts a byte on the port; raises OSError.
        pulse: for which a code stays [s].
    """

    def __init__(self, name: str, write: Callable[[int], None], pulse: float = PULSE):
        self._name, self._write, self._pulse = name, write, pulse
        self._lock = threading.Lock()
        self._reset: threading.Timer | None = None

    def send(self, code: int, name: str, time: float) -> None:
        """Put a code on the port; see `Outlet`."""
        if not 0 < code <= LARGEST:
            raise OutletError(f"{self._name}: code {code} of {name}: must be from 1 to {LARGEST}")
        with self._lock:
            try:
                if self._reset is not None:
                    self._reset.cancel()
                    self._reset = None
                    self._write(0)
                self._write(code)
            except (OSError, termios.error) as error:
                raise OutletError(f"{self._name}: code {code} of {name} was not sent: {_reason(error)}") from error
            self._reset = timer = threading.Timer(self._pulse, lambda: self._end(timer))
            timer.daemon = True
            timer.start()

    def _end(self, timer: threading.Timer | None) -> None:
        """End a pulse, unless another code has ended it."""
        with self._lock:
            if self._reset is timer is not None:
                self._reset = None
                with contextlib.suppress(OSError, termios.error):  # the next code will tell
                    self._write(0)

    def close(self) -> None:
        """End the pulse that there may be."""
        with self._lock:
            timer = self._reset
        if timer is not None:
            timer.cancel()
            self._end(timer)


class Serial(Pulses):
    """A serial port: a code is a byte, without parity and with one stop bit; most trigger boxes take that.

    Args:
        path: of the port.
        baud: bits a second; at 115200 a byte takes 87 us.
        pulse: see `Pulses`.

    Raises:
        OutletError: it cannot be opened.
    """

    def __init__(self, path: str, baud: int = 115_200, pulse: float = PULSE):
        speed = getattr(termios, f"B{baud}", None)
        if speed is None:
            raise OutletError(f"serial port {path}: {baud} bits/s: no rate of a serial port; 115200 is usual")
        self._file = -1
        try:
            self._file = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK)
            tty.setraw(self._file, termios.TCSANOW)
            modes = termios.tcgetattr(self._file)
            modes[4] = modes[5] = speed
            termios.tcsetattr(self._file, termios.TCSANOW, modes)
        except (OSError, termios.error) as error:
            if self._file >= 0:
                os.close(self._file)
            raise OutletError(f"serial port {path}: cannot be opened: {_reason(error)}") from error
        super().__init__(f"serial port {path}", self._put, pulse)

    def _put(self, byte: int) -> None:
        if not os.write(self._file, bytes([byte])):
            raise OSError(errno.EAGAIN, "takes no more bytes")

    def close(self) -> None:
        """Close the port."""
        super().close()
        os.close(self._file)


PPCLAIM, PPRELEASE, PPWDATA = 0x708B, 0x708C, 0x40017086
"""Requests of the parallel port's driver (linux/ppdev.h)."""


class Parallel(Pulses):
    """The eight data lines of a parallel port, by the driver ppdev of Linux.

    Args:
        path: of the port, as /dev/parport0.
        pulse: see `Pulses`.
        control: what makes a request of the driver, `fcntl.ioctl`.

    Raises:
        OutletError: it cannot be opened, or another program has it.
    """

    def __init__(self, path: str, pulse: float = PULSE, control: Callable[..., Any] = fcntl.ioctl):
        self._control, self._file = control, -1
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            control(self._file, PPCLAIM)
            self._put(0)
        except OSError as error:
            if self._file >= 0:
                os.close(self._file)
            raise OutletError(f"parallel port {path}: cannot be opened: {_reason(error)}") from error
        super().__init__(f"parallel port {path}", self._put, pulse)

    def _put(self, byte: int) -> None:
        self._control(self._file, PPWDATA, bytes([byte]))

    def close(self) -> None:
        """Leave the port to others."""
        super().close()
        with contextlib.suppress(OSError):  # the port is gone
            self._control(self._file, PPRELEASE)
        os.close(self._file)


class LabStreamingLayer:
    """A stream of markers of the lab streaming layer: samples of a whole number, the code, with LSL's own times.

    The description of the stream has the codes by the events' names.

    Args:
        codes: of the study's file, for the description.
        name: of the stream.

    Raises:
        OutletError: pylsl is not installed, or has no library.
    """

    def __init__(self, codes: Mapping[str, int], name: str = "haptics study_events"):
        try:
            lsl = importlib.import_module("pylsl")
        except (ImportError, RuntimeError) as error:  # pylsl raises the second where liblsl is missing
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise OutletError(f"lab streaming layer: needs pylsl (pip install pylsl): {reason}") from error
        info = lsl.StreamInfo(name, "Markers", 1, 0.0, "int32", name)
        described = info.desc().append_child("codes")
        for event, code in codes.items():
            one = described.append_child("code")
            one.append_child_value("event", event)
            one.append_child_value("code", str(code))
        self._outlet: Any = lsl.StreamOutlet(info)

    def send(self, code: int, name: str, time: float) -> None:
        """Push a sample; see `Outlet`."""
        self._outlet.push_sample([code])

    def close(self) -> None:
        """End the stream."""
        self._outlet = None  # it ends with the last reference to it


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error.args[-1])  # the second of termios.error


def _ros(rest: str, codes: Mapping[str, int]) -> Outlet:
    try:
        nodes = importlib.import_module("haptic_study.nodes.events")  # needs ROS 2
    except ImportError as error:
        raise OutletError(f"ros: needs ROS 2: {error}") from error
    outlet: Outlet = nodes.RosTopic(rest or "study_events")
    return outlet


def _serial(rest: str, codes: Mapping[str, int]) -> Outlet:
    path, _, baud = rest.partition("@")
    try:
        return Serial(path, inputs.whole_number(baud) if baud else 115_200)
    except inputs.InputError as error:
        raise ParameterError([f"outlet serial:{rest}: {error}: must be serial:PORT@BAUD"]) from error


KINDS: dict[str, tuple[str, Callable[[str, Mapping[str, int]], Outlet]]] = {
    "ros": ("ros[:TOPIC]", _ros),
    "serial": ("serial:PORT[@BAUD]", _serial),
    "parallel": ("parallel:PORT", lambda rest, codes: Parallel(rest)),
    "lsl": ("lsl[:NAME]", lambda rest, codes: LabStreamingLayer(codes, *([rest] if rest else []))),
}
"""Outlets by the names that a command has for them: how they are written, and what opens them."""


@contextlib.contextmanager
def open_outlets(texts: Sequence[str], codes: Mapping[str, int] | None = None) -> Iterator[list[Outlet]]:
    """Outlets as long as they are needed.

    Args:
        texts: as `serial:/dev/ttyUSB0@115200`; see `KINDS`.
        codes: of the study's file.

    Raises:
        ParameterError: a text names no outlet.
        OutletError: one cannot be opened.
    """
    with contextlib.ExitStack() as stack:
        found = []
        for text in texts:
            kind, _, rest = text.partition(":")
            if kind not in KINDS or (not rest and "[:" not in KINDS[kind][0]):
                allowed = ", ".join(form for form, _ in KINDS.values())
                problem = f"outlet {inputs.shown(text)}: must be one of {allowed}"
                raise ParameterError([problem + did_you_mean(kind, KINDS)])
            found.append(KINDS[kind][1](rest, codes or {}))
            stack.callback(found[-1].close)
        yield found


# Events of a session


def mark_of(study: Study, step: Step, event: Event) -> Mark:
    """An event as other recorders have it, at a step of the session.

    Args:
        study: with the codes.
        step: at which the event is applied.
        event: of the session; or `open`, `interval` with its `number` from 1 on, or `end`, which no journal has.
    """
    name, labels = str(event.get("event")), list[str]()
    match name, step:
        case ("continue", Page(name=label)) | ("form", Form(name=label)):
            labels = [label]
        case "answer", Trial():
            labels = [str(event.get("answer"))]
        case (("begin" | "repeat" | "drop"), Trial()):
            labels = [step.condition.label, step.task]
        case "interval", Trial():
            labels = [str(event["number"]), step.condition.label, step.task]
    given = code_of(study.parameters.codes, name, labels)
    shown = f"{name} {labels[0]}" if name in ("answer", "form", "interval") else name
    trial = step.number if name == "interval" and isinstance(step, Trial) else int(event.get("trial") or 0)
    return Mark(float(event.get("time", float("nan"))), given, shown, trial)


def send(outlets: Sequence[Outlet], mark: Mark) -> None:
    """Send an event to all outlets; one without a code is not sent.

    Raises:
        OutletError: one did not take it; the others have.
    """
    failures = []
    for one in outlets if mark.code else ():
        try:
            one.send(mark.code, mark.name, mark.time)
        except OutletError as error:
            failures.append(str(error))
    if failures:
        raise OutletError("; ".join(failures))
