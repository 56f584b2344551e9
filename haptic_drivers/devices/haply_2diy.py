"""The Haply 2diy, an open pantograph on a serial port: two motors move a point in a plane.

The board answers each message with the angles of its encoders, so the host sets the pace; a thread sends the torques
that were written last and takes the answer. Messages, little-endian, with the number of the device:

    0 0                                 reset the board
    1 N motors encoders 0 0 ...         set up: of motors and of encoders a bit for each port and a byte for each
                                        direction, no sensors, no PWM pins; then offset [deg] and counts of a turn of
                                        each encoder, as float32, in the order of the ports
    2 N torque torque                   float32 [N m]; the answer is N and the angles [deg] as float32

The encoders count from where they are when the board is set up: hold the end point at its home position then. The board
has no watchdog that is documented: what it got last it renders, until it gets something else or its plug is pulled. So
a process of its own guards the port: it writes zero torques when this one has ended, or gives no sign of life.

With motors at the origin and at (d, 0), proximal links l and distal links L, the elbows are A = l (cos q1, sin q1) and
B = (d, 0) + l (cos q2, sin q2), and the hand point P is the one of the two at the distance L from both that is away
from the motors. Its velocity follows from (P - A) . (dP - dA) = 0 and the same of B:

    dP = J dq,   J = [P - A, P - B]^-T diag((P - A) . dA/dq1, (P - B) . dB/dq2),   torques = J^T force

J is singular where the distal links are parallel (they are stretched, or folded); near to that there is no force.

The base B of the readings is between the motors, its x to the right, its y away from the user, its z up; the board has
its y towards the user.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import math
import os
import select
import struct
import termios
import threading
import time
import tty

import numpy as np

from haptic_drivers.devices.guardian import Guardian
from haptic_drivers.devices.interface import LATE_THREAD, DeviceError, Reading
from haptic_drivers.devices.parameters import HardwareParameters
from haptic_drivers.readings import LAG
from haptic_sim.parameters import Parameters, quantity

RESET, SETUP, TORQUES = 0, 1, 2
SMALLEST_SINE = 0.1  # between the distal links, below which the torques of a force grow beyond reason
FIRST = 2.0  # [s] in which the board has to answer at first
SILENCE = 0.1  # [s] after the reading watchdog, after which an answer does not come any more
MOST = 360.0  # [deg] of an encoder: the links do not turn that far
QUIET = 0.05  # [s] after a reset, in which the answers of before come


class Connection(Parameters):
    """Serial port, wiring and dimensions; the defaults are those of the plastic devices, hardware version 3."""

    port: str = quantity("", description="Serial port, as /dev/ttyACM0; empty: the first /dev/ttyACM*")
    number: int = quantity(5, description="Number of the device on its board", ge=1, le=255)
    offsets: tuple[float, float] = quantity(
        (168.0, 12.0), unit="deg", description="Angles of both encoders at the home position"
    )
    counts: float = quantity(4880.0, description="Counts of an encoder in a turn", gt=0.0)
    proximal: float = quantity(0.07, unit="m", description="Length of the links at the motors", gt=0.0, le=1.0)
    distal: float = quantity(0.09, unit="m", description="Length of the links at the hand point", gt=0.0, le=1.0)
    apart: float = quantity(0.038, unit="m", description="Distance of the motors", ge=0.0, le=1.0)
    directions: tuple[int, int, int, int] = quantity(
        (1, 1, 1, 1), description="1 counterclockwise, 0 clockwise: of the motors at port 1 and 2, then of the encoders"
    )
    velocity_cutoff: float = quantity(
        80.0,
        unit="Hz",
        description="Cut-off of the first-order filter of the velocity, a difference",
        ge=1.0 / (2.0 * math.pi * LAG),
    )


class Pantograph:
    """Kinematics of the pantograph in the axes of its board.

    Args:
        proximal, distal, apart: lengths l, L, d [m].
    """

    def __init__(self, proximal: float, distal: float, apart: float):
        self._l, self._L, self._d = proximal, distal, apart

    def locate(self, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Position of the hand point (2,) [m] and its Jacobian (2, 2) [m/rad] at angles (2,) [rad].

        The Jacobian is zero where it is nearly singular.

        Raises:
            DeviceError: the links do not reach.
        """
        base = np.array([[0.0, 0.0], [self._d, 0.0]])
        along = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        elbows = base + self._l * along
        between = elbows[1] - elbows[0]
        half = 0.5 * math.hypot(*between)
        if not 0.0 < half < self._L:
            raise DeviceError(
                f"the encoders say {np.degrees(angles).round(1).tolist()} deg, which the links do not reach: hold the "
                "end point at its home position and open the device again"
            )
        height = math.sqrt(self._L**2 - half**2)
        across = np.array([-between[1], between[0]]) / (2.0 * half)
        point = 0.5 * (elbows[0] + elbows[1]) + height * across
        distal = point - elbows
        sine = abs(distal[0, 0] * distal[1, 1] - distal[0, 1] * distal[1, 0]) / self._L**2
        if not sine > SMALLEST_SINE:
            return point, np.zeros((2, 2))
        pushes = self._l * np.stack([-along[:, 1], along[:, 0]], axis=1)
        return point, np.linalg.solve(distal, np.diag((distal * pushes).sum(axis=1)))


class Haply2diy:
    """A Hardware, see `interface`."""

    def __init__(self, device: HardwareParameters, connection: Connection):
        self._device, self._connection = device, connection
        self._mechanism = Pantograph(connection.proximal, connection.distal, connection.apart)
        self._file = -1
        self._thread: threading.Thread | None = None
        self._guardian: Guardian | None = None
        self._ended, self._due = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._force, self._on, self._written = np.zeros(2), False, 0
        self._fault = ""
        self._pose, self._twist, self._time, self._taken = np.zeros(2), np.zeros(2), 0, 0
        self._was_late = False

    def open(self) -> None:
        """Load the library or open the port, without force."""
        if self._thread is not None and self._thread.is_alive():
            raise DeviceError(LATE_THREAD)
        connection = self._connection
        port = connection.port or min(glob.glob("/dev/ttyACM*"), default="")
        if not port:
            raise DeviceError("there is no serial port /dev/ttyACM*: plug in the Haply board, or give connection.port")
        try:
            file = os.open(port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                tty.setraw(file, termios.TCSANOW)
            except BaseException:
                os.close(file)
                raise
        except BlockingIOError as error:
            text = f"serial port {port}: is used by another program; give connection.port, if this is for another board"
            raise DeviceError(text) from error
        except (OSError, termios.error) as error:
            remedy = "; add yourself to the group dialout" if isinstance(error, PermissionError) else ""
            raise DeviceError(f"serial port {port}: {error}{remedy}") from error
        self._file = file
        motors, encoders = connection.directions[:2], connection.directions[2:]
        both = 0b11  # ports 1 and 2: encoder and motor 1 are at port 2
        setup = struct.pack("<10B", SETUP, connection.number, both, *motors, both, *encoders, 0, 0)
        first, second = connection.offsets
        setup += struct.pack("<4f", second, connection.counts, first, connection.counts)
        self._send(bytes((RESET, 0)))
        time.sleep(QUIET)  # an answer of before, which `_exchange` forgets, would be taken for the first
        self._send(setup)
        self._fault, self._time, self._taken = "", 0, 0
        self._exchange(np.zeros((2, 2)), FIRST)
        silence = self._device.watchdog + self._device.reading_watchdog + SILENCE  # longer than it waits for an answer
        try:
            self._guardian = guardian = Guardian(file, self._message(np.zeros(2)), silence)
        except OSError as error:
            raise DeviceError(f"the process that guards the port cannot be started: {error}") from error
        self._ended.clear()
        self._thread = threading.Thread(target=self._serve, args=(guardian,), name="haply 2diy", daemon=True)
        self._thread.start()

    def enable(self) -> None:
        """Switch the motors on, at zero force."""
        with self._lock:
            self._force[:], self._on, self._written = 0.0, True, time.monotonic_ns()

    def disable(self) -> None:
        """Zero force, and switch the motors off, where that can be done."""
        with self._lock:
            self._force[:], self._on = 0.0, False
        self._due.set()

    def read(self, reading: Reading) -> bool:
        """Fill in the newest reading, and return whether there is one that is newer than that of the last call."""
        with self._lock:
            if self._fault:
                raise DeviceError(self._fault)
            if self._time == self._taken:
                return False
            reading.pose[:2], reading.twist[:2] = self._pose, self._twist
            reading.time_ns = self._taken = self._time
        return True

    def write(self, wrench: np.ndarray) -> None:
        """Render a wrench on the hand at the hand point, in the axes of the base (6,) [N, N m], until the next one."""
        with self._lock:
            self._force[:], self._written = wrench[:2], time.monotonic_ns()
        self._due.set()

    def close(self) -> None:
        """Zero force, and let go of library or port; also after an error, or if it is not open. Raises nothing."""
        self.disable()
        self._ended.set()
        self._due.set()
        if self._thread is not None:
            self._thread.join(self._device.reading_watchdog + SILENCE + 1.0)  # one that is late must not serve the next
        file = self._file
        if file >= 0:
            with contextlib.suppress(DeviceError):  # it is gone, and with it its force
                self._send_torques(np.zeros(2))
            if self._guardian is not None:
                self._guardian.close()
                self._guardian = None
            self._file = -1
            os.close(file)

    def _serve(self, guardian: Guardian) -> None:
        """Send what was written last, as soon as it is there and at the device's highest rate otherwise."""
        pause, jacobian = 1.0 / self._device.highest_rate, np.zeros((2, 2))
        try:
            while not self._ended.is_set():
                self._due.wait(pause)
                self._due.clear()
                if not guardian.sign():
                    raise DeviceError("the process that guards the port has ended")
                jacobian = self._exchange(jacobian, SILENCE)
        except BaseException as error:  # whatever it is, the driver has to know that nothing is rendered any more
            with contextlib.suppress(DeviceError):  # it may hear, though it does not answer
                self._send_torques(np.zeros(2))
            with self._lock:
                self._fault, self._on = str(error) or type(error).__name__, False
            if not isinstance(error, Exception):
                raise

    def _exchange(self, jacobian: np.ndarray, patience: float) -> np.ndarray:
        """Send the torques of the present force at a Jacobian (2, 2), and take the answer; returns the Jacobian there.

        The answer comes within the reading watchdog and `patience` [s] more, in which the torques are zero.

        Raises:
            DeviceError: it does not come, or is none.
        """
        number = self._connection.number
        self._drain()
        with self._lock:  # as long as it is sent: when `disable` has returned, no force of before is on its way
            late = time.monotonic_ns() - self._written > round(1e9 * self._device.watchdog)
            force = np.zeros(2) if late or not self._on else self._force * (1.0, -1.0)
            self._send_torques(jacobian.T @ force)
        watchdog = self._device.reading_watchdog
        received = self._receive(9, watchdog)
        late = len(received) < 9
        if late:  # what answers too late shall not go on with this force
            self._send_torques(np.zeros(2))
            received += self._receive(9 - len(received), patience)
        arrived = time.monotonic_ns()
        if len(received) < 9:
            raise DeviceError(f"the board has not answered for {watchdog + patience:g} s: is it on, and a Haply 2diy?")
        if received[0] != number:
            raise DeviceError(f"the board answers for device {received[0]}: must be {number}")
        second, first = struct.unpack_from("<2f", received, 1)
        if not (abs(first) <= MOST and abs(second) <= MOST):
            point = np.full(2, math.nan)  # the driver rejects it, and stops the device when there are more
            self._store(point, arrived, late)
            return np.zeros((2, 2))
        point, jacobian = self._mechanism.locate(np.radians((first, second)))
        self._store(np.array([point[0] - 0.5 * self._connection.apart, -point[1]]), arrived, late)
        return jacobian

    def _store(self, point: np.ndarray, arrived: int, late: bool) -> None:
        """A new reading of the hand point in the base (2,) [m]; when it was taken is not known if it is late."""
        with self._lock:
            elapsed = 1e-9 * (arrived - self._time)
            if not self._was_late and self._time > 0 and math.isfinite(self._pose[0]) and 0.0 < elapsed < SILENCE:
                part = -math.expm1(-2.0 * math.pi * self._connection.velocity_cutoff * elapsed)
                self._twist += part * ((point - self._pose) / elapsed - self._twist)
                if not np.isfinite(self._twist).all():
                    self._twist[:] = 0.0
            else:
                self._twist[:] = 0.0
            self._pose[:], self._time, self._was_late = point, arrived, late

    def _drain(self) -> None:
        """Forget what was answered twice, or too late."""
        for _ in range(64):
            if not select.select([self._file], [], [], 0.0)[0] or not self._read(256):
                return
        raise DeviceError("the board sends without being asked: is it a Haply 2diy?")

    def _send_torques(self, torques: np.ndarray) -> None:
        self._send(self._message(torques))

    def _message(self, torques: np.ndarray) -> bytes:
        """Message of the torques of motor 1, which is at port 2, and of motor 2 (2,) [N m]."""
        return struct.pack("<2B2f", TORQUES, self._connection.number, torques[1], torques[0])

    def _receive(self, count: int, patience: float) -> bytes:
        """So many bytes, or as many as come within `patience` [s]."""
        received, deadline = b"", time.monotonic() + patience
        while len(received) < count:
            left = max(0.0, deadline - time.monotonic())  # what came while this thread was stopped counts
            if not select.select([self._file], [], [], left)[0]:
                break
            received += self._read(count - len(received))
        return received

    def _read(self, count: int) -> bytes:
        try:
            received = os.read(self._file, count)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise DeviceError(f"the board is gone: {error.strerror}") from error
        if not received:
            raise DeviceError("the board is gone: its port is closed")
        return received

    def _send(self, data: bytes) -> None:
        try:
            sent = os.write(self._file, data)
        except OSError as error:
            raise DeviceError(f"the board is gone: {error.strerror}") from error
        if sent != len(data):
            raise DeviceError("the board takes no messages")


def build(device: HardwareParameters, connection: Connection) -> Haply2diy:
    """The driver of a Haply 2diy; its port is not opened yet."""
    return Haply2diy(device, connection)
