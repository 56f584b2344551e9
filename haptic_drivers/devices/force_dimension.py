"""Force Dimension devices (omega, delta, sigma, lambda), over the vendor's library libdhd of the Force Dimension SDK.

A reading of a position blocks until the device has answered over USB, which takes about 0.25 ms. So all calls for a
device are made in one thread: it reads, sends the newest command, and begins again; that loop is compiled and runs
without the interpreter. The device's own watchdog (`dhdSetWatchdog`) switches the motors off when commands stop,
whatever becomes of this program. The estimator of velocities needs two positions first.

Lengths are in m, forces in N, torques in N m, angular velocities in rad/s; x toward the user, y right, z up. A rotation
matrix is row-major.

A device with relative encoders does not know its position until it is homed: it moves to its end stops by itself. The
vendor's library libdrd does that; it contains libdhd, and is taken in its place where it is there. It regulates in a
thread of its own, until drdStop.

Sources: the vendor's manual of the Haptic SDK 3 and its headers dhdc.h and drdc.h; the public clients
forcedimension_core (Python, which also names FORCEDIM_SDK and the folders of the library), forcedimension_ros2,
ros_force_dimension, sawForceDimensionSDK and CHAI3D (CDeltaDevices.cpp).
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from ctypes import c_bool, c_char_p, c_double, c_int, c_ubyte, c_uint, c_void_p
from typing import Any

import numba
import numpy as np

from haptic_drivers.devices import vendor_library
from haptic_drivers.devices.exchange import (
    BLOCK,
    Exchange,
    Exchanging,
    begin_reading,
    begin_sending,
    end_reading,
    end_sending,
    follow,
    monotonic,
    orient,
    turn,
)
from haptic_drivers.devices.interface import DeviceError
from haptic_drivers.devices.parameters import HardwareParameters
from haptic_drivers.readings import LAG
from haptic_sim.kernels import bind
from haptic_sim.parameters import Parameters, quantity

AXES = np.diag([-1.0, -1.0, 1.0])  # R_BV: the vendor's x is toward the user, y right, z up
LIBRARY = "Force Dimension SDK (libdhd)"
WATCHDOG_UNIT = 125e-6  # [s]
LOST, OFF = 1, 2  # why the loop ended: a call failed; the device has switched its force off
END, HOME = 0, 1  # places of what the loop is asked for
TURNS_OF_STATUS = 16  # turns of the loop between two looks at the status
MOST_STATUS = 64  # more than DHD_MAX_STATUS, which grows with the SDK
HOMED, FORCE_ON = 3, 5  # in the status: DHD_STATUS_RESET, DHD_STATUS_FORCE
TIMEOUT = 1.0  # [s] of the thread's end

_id = ctypes.c_byte  # the vendor's char
_FUNCTIONS: dict[str, tuple[object, tuple[object, ...]]] = {
    "dhdGetDeviceCount": (c_int, ()),
    "dhdOpenID": (c_int, (_id,)),
    "dhdClose": (c_int, (_id,)),
    "dhdStop": (c_int, (_id,)),
    "dhdEnableForce": (c_int, (c_ubyte, _id)),
    "dhdSetWatchdog": (c_int, (c_ubyte, _id)),
    "dhdSetGravityCompensation": (c_int, (c_int, _id)),
    "dhdHasWrist": (c_int, (_id,)),
    "dhdHasActiveWrist": (c_int, (_id,)),
    "dhdGetSystemName": (c_char_p, (_id,)),
    "dhdErrorGetLastStr": (c_char_p, ()),
    "dhdGetPositionAndOrientationFrame": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, _id)),
    "dhdGetLinearVelocity": (c_int, (c_void_p, c_void_p, c_void_p, _id)),
    "dhdGetAngularVelocityRad": (c_int, (c_void_p, c_void_p, c_void_p, _id)),
    "dhdGetButtonMask": (c_uint, (_id,)),
    "dhdGetStatus": (c_int, (c_void_p, _id)),
    "dhdSetForceAndTorqueAndGripperForce": (c_int, (*(7 * (c_double,)), _id)),
}
_HOMING: dict[str, tuple[object, tuple[object, ...]]] = {
    "drdOpenID": (c_int, (_id,)),
    "drdClose": (c_int, (_id,)),
    "drdIsSupported": (c_bool, (_id,)),
    "drdAutoInit": (c_int, (_id,)),
    "drdStop": (c_int, (c_bool, _id)),
}
"""Functions of libdrd; the first argument of drdStop says whether forces stay on."""
_IDENTITY: dict[str, tuple[object, tuple[object, ...]]] = {
    "dhdGetSystemName": (c_char_p, (_id,)),
    "dhdGetSerialNumber": (c_int, (c_void_p, _id)),
}
"""Functions that identify a device, if the library has both."""


class Connection(Parameters):
    """Location of the library, and index and options of the device."""

    library: str = quantity(
        "", description="File of the library libdrd or libdhd; empty: that of the SDK in FORCEDIM_SDK, or of the system"
    )
    index: int = quantity(
        0, description="Index of the device, in the order in which the library finds them", ge=0, le=15
    )
    watchdog: float = quantity(
        0.02,
        unit="s",
        description="Time without a command after which the device itself switches its motors off",
        ge=WATCHDOG_UNIT,
        le=255 * WATCHDOG_UNIT,
    )
    gravity: bool = quantity(True, description="Whether the device carries its own weight")
    smoothing: float = quantity(
        0.005,
        unit="s",
        description="Time constant of the angular velocity of a device without a wrist's estimator",
        ge=0.0,
        le=LAG,
    )


def build(device: HardwareParameters, connection: Connection) -> ForceDimension:
    """The driver of a Force Dimension device; nothing is loaded or opened yet."""
    return ForceDimension(device, connection)


class ForceDimension(Exchanging):
    """A Force Dimension device, as `Hardware`: read and written by a thread of its own."""

    def __init__(self, device: HardwareParameters, connection: Connection):
        self._parameters, self._connection = device, connection
        self._exchange = Exchange(device.watchdog, connection.smoothing)
        self._asked = np.zeros(2, np.int64)  # of the loop: to END, and to HOME: number of the homing, 0: none
        self._homing = threading.Lock()  # guards the request to HOME and the homing in progress
        self._homings = 0  # number of the last homing that was requested
        self._moving = 0  # number of the homing in progress, 0: none
        self._id = -1  # of the device in that homing
        self._thread: threading.Thread | None = None
        self._identity = ""

    def open(self) -> None:
        """Load the library, open the device, and set its watchdog.

        Raises:
            DeviceError: there is no library or no device.
        """
        self.close()
        name = self._parameters.name
        self._check_thread(name)
        self._library = library = vendor_library.load(
            name,
            LIBRARY,
            ("libdrd.so*", "libdhd.so*"),
            self._connection.library,
            "FORCEDIM_SDK",
            ("lib/release/lin-{machine}-gcc", "lib"),
        )
        self._homes = hasattr(library, "drdAutoInit")
        self._identifies = all(hasattr(library, one) for one in _IDENTITY)
        wanted = _FUNCTIONS | (_HOMING if self._homes else {}) | (_IDENTITY if self._identifies else {})
        vendor_library.declare(library, name, LIBRARY, wanted)
        self._loop = _compile(library._handle, library)
        self._exchange = Exchange(self._parameters.watchdog, self._connection.smoothing)
        self._asked[:] = 0
        opened: list[str] = []
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(opened, ready), name="Force Dimension", daemon=True)
        self._thread.start()
        ready.wait()
        problem = f"{LIBRARY}: {opened[0]}" if opened else self._exchange.wait(LIBRARY, TIMEOUT)
        if problem:
            self.close()
            raise DeviceError(f"{name}: {problem}")

    def close(self) -> None:
        """Zero force; the thread of the device stops it and closes it. Raises nothing."""
        if self._thread is not None:
            self._asked[END] = 1
            self.disable()
            self._end_thread(TIMEOUT)

    def disable(self) -> None:
        """Zero force, and switch the motors off, where that can be done."""
        super().disable()
        with self._homing:
            self._asked[HOME], number = 0, self._moving
        if self._stop_homing(number):
            threading.Thread(target=self._end_homing, args=(number,), name="end of homing", daemon=True).start()

    def _stop_homing(self, number: int) -> bool:
        """Call drdStop while a homing is in progress, and return whether it is."""
        with self._homing:
            if moves := number != 0 and self._moving == number:
                self._library.drdStop(False, self._id)
            return moves

    def _end_homing(self, number: int) -> None:
        """Call drdStop until a homing has ended: drdAutoInit, if it is yet to be called, ignores a stop before it."""
        while self._stop_homing(number):
            time.sleep(1e-3)

    def home(self) -> None:
        """Begin, while it is disabled; the device moves by itself until `disable`, or asks its user to."""
        if not self._homes:
            raise DeviceError(
                f"{LIBRARY}: {self._library._name} has no drdAutoInit: use libdrd of the SDK, or calibrate the device "
                "by hand as its vendor says"
            )
        with self._homing:
            self._homings += 1
            self._asked[HOME] = self._homings

    def _run(self, opened: list[str], ready: threading.Event) -> None:
        """The thread: all calls for the device are made here."""
        library, index = self._library, self._connection.index
        id = library.drdOpenID(index) if self._homes else library.dhdOpenID(index)
        if id < 0:
            count = library.dhdGetDeviceCount()
            opened.append(
                f"dhdOpenID({index}): {self._error()}; {count} devices found; check cable, power and permission for USB"
            )
            ready.set()
            return
        try:
            watchdog = min(255, max(1, round(self._connection.watchdog / WATCHDOG_UNIT)))
            gravity = int(self._connection.gravity)
            if library.dhdSetWatchdog(watchdog, id) < 0 or library.dhdSetGravityCompensation(gravity, id) < 0:
                opened.append(f"dhdSetWatchdog: {self._error()}")
                ready.set()
                return
            self._identity = self._identify(id)
            torques = library.dhdHasActiveWrist(id) and any(one.startswith("r") for one in self._parameters.actuated)
            ready.set()
            while not self._asked[END] and self._turn(id, int(library.dhdHasWrist(id)), int(torques)):
                if not self._home(id):
                    break
        except Exception as error:  # the driver has to know that nothing is read any more
            self._exchange.fail(f"{LIBRARY}: {error!r}")
        finally:
            with self._homing:
                self._moving = 0
            library.dhdStop(id)
            library.drdClose(id) if self._homes else library.dhdClose(id)

    def identity(self) -> str:
        """Model and serial number, as the library has them."""
        return self._identity

    def _identify(self, id: int) -> str:
        """Model and serial number, asked for in the thread of the device."""
        if not self._identifies:
            return ""
        number = ctypes.c_ushort()
        model: bytes = self._library.dhdGetSystemName(id) or b"a device without a name"
        known = self._library.dhdGetSerialNumber(ctypes.byref(number), id) >= 0
        return model.decode(errors="replace") + (f", serial number {number.value}" if known else "")

    def _home(self, id: int) -> bool:
        """Let the device find its position, which takes seconds without readings; whether nothing went wrong."""
        library, error = self._library, ""
        with self._homing:
            self._id, self._moving = id, int(self._asked[HOME])
            number = self._moving
        if not number:
            return True
        if not library.drdIsSupported(id):
            error = "drdIsSupported: the device cannot home by itself: calibrate it by hand, as its vendor says"
        elif library.drdAutoInit(id) < 0:
            error = f"drdAutoInit: {self._error()}"
        library.drdStop(False, id)
        with self._homing:
            self._moving = 0
            if self._asked[HOME] != number:  # it was stopped; the next one may have been asked for by now
                return True
            self._asked[HOME] = 0
        if error:
            self._exchange.fail(f"{LIBRARY}: {error}")
        return not error

    def _turn(self, id: int, wrist: int, torques: int) -> bool:
        """Read and write until the device is to be closed or homed, or a call fails; whether none has failed."""
        x, y, z = np.zeros((3, 1))
        arrays = (x, y, z, np.zeros((3, 3)), np.zeros(MOST_STATUS, np.int32))
        fault = self._loop(self._exchange.blocks, self._asked, id, wrist, torques, AXES.diagonal().copy(), *arrays)
        if fault == LOST:
            self._exchange.fail(f"{LIBRARY}: {self._error()}")
        elif fault == OFF:
            self._exchange.fail(f"{LIBRARY}: the device has switched its force off: watchdog, speed, or force button")
        return not fault

    def _error(self) -> str:
        text: bytes | None = self._library.dhdErrorGetLastStr()
        return (text or b"").decode(errors="replace")


_compiled: dict[int, Callable[..., int]] = {}


def _compile(handle: int, library: Any) -> Callable[..., int]:
    """The loop for the functions of a library, which is compiled once."""
    if handle in _compiled:
        return _compiled[handle]
    get_frame = library.dhdGetPositionAndOrientationFrame
    get_velocity, get_angular = library.dhdGetLinearVelocity, library.dhdGetAngularVelocityRad
    get_buttons, get_status = library.dhdGetButtonMask, library.dhdGetStatus
    set_wrench, enable, stop_device = (
        library.dhdSetForceAndTorqueAndGripperForce,
        library.dhdEnableForce,
        library.dhdStop,
    )
    pause = ctypes.CDLL(None).usleep
    pause.argtypes, pause.restype = (c_uint,), c_int

    @numba.njit(nogil=True)
    def send(block, id, torques, axes):
        w = block.wrench
        t = 1.0 if torques else 0.0
        return set_wrench(
            axes[0] * w[0],
            axes[1] * w[1],
            axes[2] * w[2],
            t * axes[0] * w[3],
            t * axes[1] * w[4],
            t * axes[2] * w[5],
            0.0,
            id,
        )

    @numba.njit(nogil=True)
    def read(block, id, reads, wrist, axes, x, y, z, frame, now):
        """Write a reading; -1 if a call fails."""
        begin_reading(block)
        block.pose[0], block.pose[1], block.pose[2] = axes[0] * x[0], axes[1] * y[0], axes[2] * z[0]
        for i in range(3):
            for j in range(3):
                frame[i, j] *= axes[i] * axes[j]  # both frames get new names for their axes
        orient(block, frame)
        result = 0
        if reads >= 2:
            result = get_velocity(x.ctypes, y.ctypes, z.ctypes, id)
            block.twist[0], block.twist[1], block.twist[2] = axes[0] * x[0], axes[1] * y[0], axes[2] * z[0]
        if wrist and reads >= 2 and get_angular(x.ctypes, y.ctypes, z.ctypes, id) >= 0:
            block.twist[3], block.twist[4], block.twist[5] = axes[0] * x[0], axes[1] * y[0], axes[2] * z[0]
        else:
            turn(block, now)
        block.buttons = get_buttons(id)
        end_reading(block, now)
        return result

    @numba.njit(nogil=True)
    def loop(blocks, asked, id, wrist, torques, axes, x, y, z, frame, status):
        block = blocks[0]
        powered, reads, turns, fault = False, 0, 0, 0
        while asked[END] == 0 and asked[HOME] == 0 and fault == 0:
            result = get_frame(x.ctypes, y.ctypes, z.ctypes, frame.ctypes, id)
            now = monotonic(block)
            if result < 0:
                fault = LOST
                break
            if result == 0:
                reads += 1
                if turns % TURNS_OF_STATUS == 0:
                    if get_status(status.ctypes, id) < 0:
                        fault = LOST
                        break
                    block.homed = status[HOMED]
                    if powered and not status[FORCE_ON]:
                        fault = OFF
                        break
                turns += 1
                if read(block, id, reads, wrist, axes, x, y, z, frame, now) < 0:
                    fault = LOST
            else:  # DHD_TIMEGUARD: the last position again
                pause(50)
            begin_sending(block)
            wanted = block.enabled != 0
            if wanted != powered:
                if enable(1 if wanted else 0, id) < 0:
                    fault = LOST
                powered = wanted
            follow(block, now)
            if send(block, id, torques, axes) < 0:
                fault = LOST
            end_sending(block)
        block.enabled = 0
        follow(block, 0)
        send(block, id, torques, axes)
        stop_device(id)
        return fault

    scalars = np.zeros(1)
    arrays = (np.zeros(3), scalars, scalars, scalars, np.zeros((3, 3)), np.zeros(MOST_STATUS, np.int32))
    kinds = (np.zeros(1, BLOCK), np.zeros(2, np.int64), 0, 0, 0, *arrays)
    compiled = bind(loop, *kinds)
    _compiled[handle] = compiled
    return compiled
