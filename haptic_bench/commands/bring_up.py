"""The function of the command bring-up: first contact with a device, step by step (docs/bring_up.md).

The steps are those of `haptic_drivers.bring_up`; here are the device, its servo thread, the terminal and the files.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gzip
import json
import os
import platform
import select
import shlex
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from haptic_bench.catalogue import config_folder
from haptic_bench.commands import command_line
from haptic_bench.commands.bring_up_page import BringUpPage, Request, View
from haptic_bench.commands.command_line import DONE, FAILED
from haptic_bench.experiment.devices import find_device, read_device
from haptic_bench.experiment.identified import with_key
from haptic_bench.running.runner import Interruption
from haptic_bench.set_up import peripherals
from haptic_bench.set_up.finding import Finding, examine
from haptic_bench.trials.trial import new_directory
from haptic_control.guard import GuardParameters
from haptic_drivers.bring_up.push import PART, RAMP
from haptic_drivers.bring_up.readings import mount_of
from haptic_drivers.bring_up.session import Sample, Session
from haptic_drivers.bring_up.steps import Step
from haptic_drivers.devices.interface import DeviceError, Hardware, Identifying, Reading
from haptic_drivers.devices.link import HUNG, Link
from haptic_drivers.devices.parameters import build_hardware
from haptic_drivers.driver import build_driver
from haptic_drivers.hardware import HardwareDeviceParameters
from haptic_drivers.operators import ConstantParameters
from haptic_sim import inputs
from haptic_sim.messages import ENABLED, FORCE, DeviceCommand, DeviceState, Reason
from haptic_sim.parameters import ParameterError, six
from haptic_sim.worlds.scenes import NoToolParameters

RATE = 1000.0  # [Hz] of the servo, or as the device allows
POLL_PERIOD = 0.05  # [s] between two polls of the session while the person thinks
IDENTIFICATION = "identification"  # the experiment
YES = "yes"
COLUMNS = (
    *("time", "age", "x", "y", "z", "qx", "qy", "qz", "qw", "vx", "vy", "vz", "wx", "wy", "wz"),
    *("present", "buttons", "written_x", "written_y", "written_z", "request"),
)


def bring_up(options: argparse.Namespace) -> int:
    """`haptics bring-up DEVICE [--out FILE] [--force] [--page] [--answers FILE] [--log DIR]`."""
    source = find_device(options.device)
    data = HardwareDeviceParameters.model_validate(read_device(options.device).model_dump())
    out = _path_out(options, source)
    try:
        session = Session(data)
    except ValueError as error:
        raise ParameterError([f"device {options.device}: {error}"]) from error
    with Answers(options.answers) as answers:
        contact = Contact(data, session)
        with Interruption() as interruption, contextlib.ExitStack() as opened:
            directory = new_directory(options.log, "bring_up")
            page = opened.enter_context(_open_page(data, contact)) if options.page else None
            _run_steps(contact, session, answers, interruption)
            written = None if session.stopped else _write_data(source, out, session, force=options.force)
            report = _report(directory, data, session, contact, written)
            status = interruption.status if interruption else FAILED
            outcome = f"data: {written}"
            print(f"report: {report}")
            if written is None:
                force = "the device may keep its last force: switch it off" if contact.hangs else "the force is zero"
                outcome = f"stopped: {session.stopped}; {force}"
            print(outcome, file=sys.stderr if written is None else sys.stdout, flush=True)
            if page is not None and not interruption:
                page.finish(outcome)
                answers.ask("press Enter to close the page", lambda: bool(interruption) or page.closed)
        if written is None:
            return status
        return interruption.status if interruption else _identify(written, directory, answers)


def _open_page(data: HardwareDeviceParameters, contact: Contact) -> BringUpPage:
    """The page beside the terminal."""
    page = BringUpPage(data.title or data.name, data.buttons, contact.view, contact.answer)
    print(f"{page.address}  shows the steps, and takes answers; the terminal takes them, too", flush=True)
    return page


def _run_steps(contact: Contact, session: Session, answers: Answers, interruption: Interruption) -> None:
    """Go through the steps with the person; the device is closed in the end."""
    show = _Shown(session.steps)
    try:
        session.steps.append(contact.open())
        if not session.steps[-1].passed:
            session.stop(session.steps[-1].found)
            return
        contact.start()
        while not contact.ended:
            request = contact.request
            show()
            if interruption:
                contact.stop("interrupted")
            elif request.text:
                _put(request, contact, answers, interruption)
            interruption.event.wait(POLL_PERIOD / 5.0)
    finally:
        contact.close()
        contact.stop("the servo thread has ended")  # but if the session is over
        show()


def _put(request: Request, contact: Contact, answers: Answers, interruption: Interruption) -> None:
    """Put a request to the person in the terminal, until it is answered anywhere or is no longer the present one."""
    line = answers.ask(
        request.text, lambda: bool(interruption) or contact.ended or contact.request.number != request.number
    )
    if line is None:
        contact.stop("there are no more answers")
    elif line:
        contact.answer(line.rstrip("\n"), request.number)


def _identify(data: Path, directory: Path, answers: Answers) -> int:
    """Measure the device, if the person agrees; else say how that is done. The exit status."""
    device = f"device={{type: hardware, name: {json.dumps(str(data))}}}"
    trials = {name: str(directory / name) for name in ("free", "held")}
    run = ["run", IDENTIFICATION, "--mode", "realtime", "--set", device, "--out"]
    find = ["identify", str(data), "--free", trials["free"], "--held", trials["held"]]
    tune = ["passivity", "tune", "--rate", f"{RATE:g}", "--device", str(data)]
    stages = [
        ("the first trial: let go of the device; nobody touches it. Press Enter", [*run, trials["free"]]),
        ("the second trial: hold the handle still, with a relaxed hand. Press Enter", [*run, trials["held"]]),
        ("", find),
        ("", tune),
    ]
    question = (
        f"measure mass, damping, friction and delay in two trials, in which the device moves by itself with peaks of "
        f"3.5 N at most (docs/identify.md), and find gains? Answer: {YES}; Enter ends here"
    )
    line = answers.ask(question, lambda: False)
    if line is None or line.strip().lower() != YES:
        print("to measure it later:")
        for _, command in stages:
            print(f"  ./haptics {shlex.join(command)}")
        return DONE
    for text, command in stages:
        if text and answers.ask(text, lambda: False) is None:
            print("stopped: there are no more answers", file=sys.stderr)
            return FAILED
        print(f"haptics {shlex.join(command)}", flush=True)
        if status := command_line.main(command):
            return status
    return DONE


def _path_out(options: argparse.Namespace, source: Path) -> Path:
    """Path of the output data; checked before anything moves."""
    if options.out is None:
        path = config_folder() / "devices" / f"my_{source.stem.removeprefix('my_')}.yaml"
    else:
        try:
            path = inputs.check_path(options.out)
        except inputs.InputError as error:
            raise ParameterError([f"--out {inputs.shown(options.out)}: {error}"]) from error
    if path.suffix not in (".yaml", ".yml"):
        raise ParameterError([f"--out {path}: must end in .yaml"])
    if os.path.lexists(path) and not options.force:
        raise ParameterError([f"{path}: exists; give another file with --out FILE, or --force to overwrite it"])
    if not path.parent.is_dir():
        raise ParameterError([f"--out {path}: the folder does not exist; make it"])
    return path


# -- the person --------------------------------------------------------------------------------------------------------


class Answers:
    """Lines that the person types, or of a file in the place of a person.

    Args:
        file: with answers, a line each; None: they come from the terminal.

    Raises:
        ParameterError: neither is there.
    """

    def __init__(self, file: str | None):
        self._own = file is not None
        if file is None and not sys.stdin.isatty():
            raise ParameterError(
                ["standard input: not a terminal, so nobody can answer; run it in a terminal, or give --answers FILE"]
            )
        try:
            # a pipe without a writer is opened at once, and read when there is one
            flags = os.O_RDONLY | os.O_NONBLOCK
            self._file = sys.stdin.fileno() if file is None else os.open(inputs.check_path(file), flags)
        except (OSError, inputs.InputError) as error:
            raise ParameterError([f"--answers {inputs.shown(file)}: {error}"]) from error
        self._buffer = b""
        self._withdrawn = False

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._own:
            os.close(self._file)

    def ask(self, question: str, given_up: Callable[[], bool]) -> str | None:
        """The next line with its end, empty if the question was given up; None: there are no more."""
        if self._withdrawn and not self._own:
            self._drop()
        self._withdrawn = False
        print(f"> {question}", flush=True)
        while b"\n" not in self._buffer:
            if given_up():
                self._withdrawn = True
                return ""
            if not select.select([self._file], [], [], POLL_PERIOD)[0]:
                continue
            try:
                received = os.read(self._file, 4096)
            except BlockingIOError:
                continue
            except OSError:  # the terminal is gone
                received = b""
            if not received:
                return None
            self._buffer += received
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="replace") + "\n"

    def _drop(self) -> None:
        """Drop the lines that were typed for a question that was given up: they answer no later one."""
        self._buffer = b""
        try:
            while select.select([self._file], [], [], 0.0)[0] and os.read(self._file, 4096):
                pass
        except OSError:  # the terminal is gone, as is found when it is read again
            pass


class _Shown:
    """Prints the steps that are over, once each."""

    def __init__(self, steps: Sequence[Step]):
        self._steps, self._count = steps, 0

    def __call__(self) -> None:
        for step in self._steps[self._count :]:
            print("\n".join(_lines(step)), flush=True)
            self._count += 1


def _lines(step: Step) -> list[str]:
    lines = [f"{'ok   ' if step.passed else 'WRONG'} {step.name}: {step.found}"]
    if not step.passed:
        lines += [f"      asked: {step.asked}", f"      expected: {step.expected}"]
    if step.remedy:
        lines += [f"      {'use' if step.passed else 'remedy'}: {step.remedy}"]
    return lines


# -- the device --------------------------------------------------------------------------------------------------------


class Observed:
    """A device between its driver and the link: what was read and written last, and readings that are withheld.

    Attributes:
        reading: the last; written: the last wrench (6,) [N, N m], zero while it is disabled; written_at: when [s].
        withheld: whether it gives no readings.
    """

    def __init__(self, hardware: Hardware):
        self._hardware = hardware
        self.reading, self.written, self.written_at, self.withheld = Reading(), np.zeros(6), 0.0, False

    def open(self) -> None:
        """Load the library or open the port, without force."""
        self._hardware.open()

    def enable(self) -> None:
        """Switch the motors on, at zero force."""
        self._hardware.enable()

    def disable(self) -> None:
        """Zero force, and switch the motors off, where that can be done."""
        self._hardware.disable()
        self._note(0.0)

    def read(self, reading: Reading) -> bool:
        """Fill in the newest reading, and return whether there is one that is newer than that of the last call."""
        self.reading = reading
        return not self.withheld and self._hardware.read(reading)

    def write(self, wrench: np.ndarray) -> None:
        """Render a wrench on the hand at the hand point, in the axes of the base (6,) [N, N m], until the next one."""
        self._hardware.write(wrench)
        self._note(wrench)

    def _note(self, wrench: np.ndarray | float) -> None:
        self.written[:], self.written_at = wrench, time.monotonic()

    def close(self) -> None:
        """Zero force, and let go of library or port; also after an error, or if it is not open. Raises nothing."""
        self._hardware.close()
        self._note(0.0)


def lowered(data: HardwareDeviceParameters) -> HardwareDeviceParameters:
    """The same device with a tenth of its limits, in the axes of its base, with nothing that acts beside a command."""
    assert data.bound.wrench is not None
    keys: dict[str, Any] = {
        "bound": data.bound.model_copy(update={"wrench": tuple(PART * one for one in six(data.bound.wrench))}),
        "wrench_limit": tuple(PART * one for one in six(data.wrench_limit)),
        "mount": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
        **{"motion_scale": 1.0, "force_scale": 1.0, "held_mass": 0.0, "wall": (0.0, 0.0), "clutch": ""},
        "soft_start": RAMP,
    }
    return data.model_copy(update=keys)


class Contact:
    """A device and its servo thread, which drives a session.

    Args:
        data: of the device.
        session: of which all calls are made here, one at a time.
    """

    def __init__(self, data: HardwareDeviceParameters, session: Session):
        self._data, self._session, self._lock = lowered(data), session, threading.Lock()
        self._rate = min(RATE, data.highest_rate)
        self.notes: list[str] = []
        self.rows: list[tuple[Any, ...]] = []
        self.findings: list[Finding] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._beat = 0.0  # when the last tick began [s]
        self._looked_at, self._looks = 0.0, 0  # the beat at the last look, and how often it was the same
        self._request = Request(0, "")
        self._latest: Sample | None = None

    def open(self) -> Step:
        """Open the device: the step that says whether it was found."""
        look = [
            ("devices", peripherals.check_serial_ports),
            ("devices", peripherals.check_usb),
            ("devices", peripherals.check_services),
            ("devices", lambda: peripherals.check_libraries(os.environ)),
        ]
        self.findings = list(examine(look))
        data = self._data
        asked, expected = f"open {data.name} by the driver {data.module}", "a device that opens without force"
        try:
            hardware = build_hardware(data)
            self._hardware = Observed(hardware)
            period = 1.0 / self._rate
            self._link = Link(self._hardware, data, period, notify=self.notes.append)
            nobody, guard = ConstantParameters(wrench=(0.0,) * 6), GuardParameters(type="none")
            self._driver = build_driver(data, nobody, NoToolParameters(), self._rate, guard=guard, source=self._link)
            self._link.open()
        except DeviceError as error:
            remedies = [f"{one.name}: {one.found}: {one.remedy}" for one in self.findings if one.state != "ok"]
            return Step("found", asked, expected, str(error), "; ".join((*remedies, "see haptics doctor")), False)
        identity = hardware.identity() if isinstance(hardware, Identifying) else ""
        found = f"{data.title or data.name}: open; {identity or 'its driver does not report an identity'}"
        return Step("found", asked, expected, found, "", True)

    def start(self) -> None:
        """Start the servo thread."""
        self._driver.warm_up()
        self._driver.activate(0)
        self._beat = time.monotonic()
        self._thread = threading.Thread(target=self._serve, name="bring-up", daemon=True)
        self._thread.start()

    @property
    def request(self) -> Request:
        """Present request to the person."""
        with self._lock:
            return self._numbered()

    def view(self) -> View:
        """Present view for the page."""
        with self._lock:
            return View(tuple(self._session.steps), self._numbered(), self._latest)

    def _numbered(self) -> Request:
        """The present request; another one has another number. With the lock."""
        if self._session.request != self._request.text:
            self._request = Request(self._request.number + 1, self._session.request)
        return self._request

    @property
    def ended(self) -> bool:
        """Whether the session is over, or the servo thread is, or hangs in a call of the driver."""
        if not self.hangs:
            return True
        beat = self._beat
        self._looks = self._looks + 1 if beat == self._looked_at else 0
        self._looked_at = beat
        # counted, too: of a process that was stopped, as by Ctrl-Z, this thread may go on first
        if time.monotonic() - beat > HUNG and self._looks > HUNG / POLL_PERIOD:
            self.stop(f"a call of the driver has not returned for {HUNG:g} s")
        return self._session.done

    @property
    def hangs(self) -> bool:
        """Whether the servo thread has not ended."""
        return self._thread is not None and self._thread.is_alive()

    def answer(self, text: str, number: int) -> bool:
        """Give the session an answer, if its request is still the present one and was not answered; whether it was."""
        with self._lock:
            request = self._numbered()
            if number != request.number or not request.text:
                return False
            self._session.answer(text)
            self._request = Request(number + 1, self._session.request)  # also if it asks for the same again
            return True

    def stop(self, reason: str) -> None:
        """Zero force, for a reason."""
        with self._lock:
            self._session.stop(reason)

    def close(self) -> None:
        """Zero force, and let go of the device."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout=2.0)
        if hasattr(self, "_link"):
            self._link.close()

    def _serve(self) -> None:
        """Step the driver at its rate until the end; whatever happens ends without force."""
        state, command, tick, enabled = DeviceState(), DeviceCommand(), 0, False
        began = due = time.monotonic()
        session, driver = self._session, self._driver
        try:
            while not self._ended.is_set() and not session.done:
                tick += 1
                self._beat = time.monotonic()
                driver.sense(tick, state, round(1e9 * (time.monotonic() - began)))
                sample = self._sample(time.monotonic())
                with self._lock:
                    force = session.update(sample).copy()
                    wanted, silent = session.wants_force, session.withholds_commands
                    self._hardware.withheld = session.withholds_readings
                    self._record(sample, self._numbered().text)
                    self._latest = sample
                if wanted != enabled:
                    enabled = wanted
                    driver.enable() if wanted else driver.release()
                if not silent:
                    command.stamp(tick, 0)
                    command.mode = FORCE
                    command.wrench[:3] = force
                    driver.actuate(command)
                due = max(due + 1.0 / self._rate, time.monotonic())
                self._ended.wait(max(0.0, due - time.monotonic()))
        except Exception as error:  # of a driver of a vendor, which may raise anything
            self.stop(f"{type(error).__name__}: {error}")
        finally:
            driver.release()
            self.stop("the servo thread has ended")

    def _sample(self, now: float) -> Sample:
        found, read, hardware, life = self._driver.reading, self._hardware.reading, self._hardware, self._link.life
        return Sample(
            time=now,
            age=max(0.0, now - 1e-9 * read.time_ns) if read.time_ns else found.age,
            pose=found.pose.copy(),
            twist=found.twist.copy(),
            buttons=tuple(int(one) for one in found.buttons[: len(self._data.buttons)]),
            present=0 if life.reason == Reason.NO_PRESENCE else read.present,
            homed=life.homed,
            fault=life.fault or read.fault,
            lets_through=life.state == ENABLED and found.reason == Reason.NONE,
            written=hardware.written[:3].copy(),
            written_at=hardware.written_at,
        )

    def _record(self, sample: Sample, request: str) -> None:
        """A row of the log."""
        pressed = "".join(map(str, sample.buttons))
        motion = (*sample.pose.tolist(), *sample.twist.tolist())
        self.rows.append((sample.time, sample.age, *motion, sample.present, pressed, *sample.written.tolist(), request))


# -- the files ---------------------------------------------------------------------------------------------------------


def _write_data(source: Path, out: Path, session: Session, *, force: bool) -> Path:
    """Write the data of the device with the mount that was found; it is read again before it takes its place."""
    mount = [round(float(one), 12) for one in mount_of(session.R_WB)]
    text = with_key(inputs.read_text(source), "mount", mount, "m, quaternion x y z w; found by haptics bring-up")
    partial = out.with_name(f".{out.stem}.{os.getpid()}.yaml")
    try:
        partial.write_text(text, encoding="utf-8")
        read_device(str(partial))
        if force:
            partial.replace(out)
        else:
            os.link(partial, out)
    except OSError as error:
        raise ParameterError([f"{out}: cannot be written: {error.strerror}; give --out FILE"]) from error
    finally:
        partial.unlink(missing_ok=True)
    return out


def _report(
    directory: Path, data: HardwareDeviceParameters, session: Session, contact: Contact, written: Path | None
) -> Path:
    """Write the report, and the log of all readings; the report's path."""
    outcome = f"stopped: {session.stopped}" if session.stopped else f"nothing wrong was found; data: {written}"
    lines = [
        f"haptics bring-up {data.name}: {outcome}",
        f"system: {platform.platform()}, Python {platform.python_version()}",
    ]
    lines += ["", "steps"]
    for step in session.steps:
        lines += [f"{'ok   ' if step.passed else 'WRONG'} {step.name}"]
        lines += [f"      {name}: {value}" for name, value in step._asdict().items() if name not in ("name", "passed")]
    lines += ["", "devices of this machine"]
    lines += [f"{one.state:7} {one.name}: {one.found}" for one in contact.findings]
    lines += ["", "notes of the driver", *contact.notes, "", "data of the device"]
    lines += [f"{key}: {value}" for key, value in data.model_dump(mode="json").items()]
    report = directory / "report.txt"
    report.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with gzip.open(directory / "log.csv.gz", "wt", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        table.writerows(contact.rows)
    return report
