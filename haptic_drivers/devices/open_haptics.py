"""3D Systems (Geomagic, SensAble) Touch and Phantom, over the HDAPI of the vendor's OpenHaptics toolkit (libHD).

The library has one servo thread, the scheduler, which calls back at its rate. All that belongs to a tick happens there
in a frame: readings are asked for, a force is set. A callback that blocks stops the device, and taking the lock of
Python's interpreter is blocking: so the callback is compiled, and shares a block of numbers with the servo thread of
the driver. A force holds for its frame.

Positions are in mm, velocities in mm/s, forces in N, torques in mN m; x right, y up, z toward the user. A transform is
column-major. The handle of no device is 0xFFFFFFFF. The angular velocity is that of the transforms: what
HD_CURRENT_ANGULAR_VELOCITY tells differs between devices. A scheduler is started when all its devices are open: another
device stops it for a moment.

Sources: the vendor's OpenHaptics API reference (HDAPI) and hdDefines.h; the public clients iMSTK
(OpenHapticDeviceManager), OpenSurgSim (PhantomDevice), CHAI3D (CPhantomDevices) and Geomagic_Touch_ROS_Drivers.
"""

from __future__ import annotations

import ctypes
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_char_p, c_int, c_uint, c_ulong, c_ushort, c_void_p
from typing import Any

import numba
import numpy as np
from numba.core import types

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
from haptic_sim.parameters import Parameters, quantity

# R_BV: the vendor's x is right, y up, z toward the user
AXES = np.array([[0.0, 0, -1], [-1, 0, 0], [0, 1, 0]])
LIBRARY = "3D Systems OpenHaptics (libHD)"
INVALID_HANDLE = 0xFFFFFFFF
FORCE_OUTPUT = 0x4000
BUTTONS, INKWELL, VELOCITY, TRANSFORM = 0x2000, 0x2002, 0x2051, 0x2052
OUTPUT_DOF = 0x2554
FORCE, TORQUE = 0x2700, 0x2701
CALIBRATED = 0x5000  # HD_CALIBRATION_OK
PRIORITY = 65535
TIMEOUT = 1.0  # [s] of the first reading
CONTINUE = 1  # HD_CALLBACK_CONTINUE
IDENTITY = (("model", 0x2501), ("serial number", 0x2504), ("driver", 0x2502))  # HD_DEVICE_*, of hdGetString
WARNINGS = range(0x200, 0x205)  # warm motors, more force or speed than the device may: it reduces the force itself
MILLI = 1e-3
MACHINES = ("x86_64", "aarch64")  # whose Linux returns HDErrorInfo in registers

VENDOR = np.dtype(
    [
        ("exchange", BLOCK),
        ("handle", np.int64),
        ("torques", np.int64),  # whether the device renders them
        ("inkwell", np.int64),  # whether the stylus in its well says that nobody holds it
        ("turns", np.int64),
        ("powered", np.int64),  # whether the motors are on
        ("velocity", np.float64, (3,)),  # [mm/s]
        ("transform", np.float64, (16,)),  # column-major
        ("rotation", np.float64, (3, 3)),
        ("force", np.float64, (3,)),  # [N], and [mN m]
        ("integer", np.int32, (2,)),
        ("switch", np.uint8, (8,)),
    ],
    align=True,
)
"""Layout of the memory of a device's callback."""


class _ErrorInfo(ctypes.Structure):
    """HDErrorInfo."""

    _fields_ = (("code", c_uint), ("internal", c_int), ("handle", c_uint))


_FUNCTIONS: dict[str, tuple[object, tuple[object, ...]]] = {
    "hdInitDevice": (c_uint, (c_char_p,)),
    "hdDisableDevice": (None, (c_uint,)),
    "hdMakeCurrentDevice": (None, (c_uint,)),
    "hdEnable": (None, (c_uint,)),
    "hdDisable": (None, (c_uint,)),
    "hdBeginFrame": (None, (c_uint,)),
    "hdEndFrame": (None, (c_uint,)),
    "hdGetDoublev": (None, (c_uint, c_void_p)),
    "hdGetIntegerv": (None, (c_uint, c_void_p)),
    "hdGetBooleanv": (None, (c_uint, c_void_p)),
    "hdSetDoublev": (None, (c_uint, c_void_p)),
    "hdGetError": (_ErrorInfo, ()),
    "hdGetErrorString": (c_char_p, (c_uint,)),
    "hdGetString": (c_char_p, (c_uint,)),
    "hdCheckCalibration": (c_uint, ()),
    "hdStartScheduler": (None, ()),
    "hdStopScheduler": (None, ()),
    "hdScheduleAsynchronous": (c_ulong, (c_void_p, c_void_p, c_ushort)),
    "hdUnschedule": (None, (c_ulong,)),
}


class Connection(Parameters):
    """Location of the library, and name and options of the device."""

    library: str = quantity(
        "", description="File of the library libHD; empty: that of the toolkit in OH_SDK_BASE, or of the system"
    )
    device: str = quantity("Default Device", description="Name of the device, as the vendor's setup program has it")
    inkwell: bool = quantity(False, description="Whether nobody holds the stylus while it is in its well")
    smoothing: float = quantity(
        0.005,
        unit="s",
        description="Time constant of the angular velocity, which is that of transforms",
        ge=0.0,
        le=LAG,
    )


def build(device: HardwareParameters, connection: Connection) -> OpenHaptics:
    """The driver of an OpenHaptics device; nothing is loaded or opened yet."""
    return OpenHaptics(device, connection)


class OpenHaptics(Exchanging):
    """A device of OpenHaptics, as `Hardware`, read and written in a callback of its library."""

    def __init__(self, device: HardwareParameters, connection: Connection):
        self._parameters, self._connection = device, connection
        self._memory = np.zeros(1, VENDOR)
        self._exchange = self._new_exchange()
        self._api: _Api | None = None
        self._handle, self._scheduled = INVALID_HANDLE, 0
        self._identity = ""

    def _new_exchange(self) -> Exchange:
        def explain(code: int) -> str:
            return f"{LIBRARY}: {self._api.text(code) if self._api else hex(code)}"

        return Exchange(self._parameters.watchdog, self._connection.smoothing, self._memory["exchange"], explain)

    def open(self) -> None:
        """Load the library, open the device, and schedule its callback.

        Raises:
            DeviceError: there is no library or no device.
        """
        self.close()
        name, connection = self._parameters.name, self._connection
        if platform.system() != "Linux" or platform.machine() not in MACHINES:
            raise DeviceError(
                f"{name}: {LIBRARY}: the driver reads its errors as they are returned under Linux on x86-64 and 64-bit "
                f"ARM, and this is {platform.system()} on {platform.machine()}: connect the device to such a machine"
            )
        folders = ("lib", "usr/lib", "libs/{machine}", "")
        library = vendor_library.load(name, LIBRARY, ("libHD.so*",), connection.library, "OH_SDK_BASE", folders)
        vendor_library.declare(library, name, LIBRARY, _FUNCTIONS)
        api = _api(library)
        self._memory = np.zeros(1, VENDOR)
        self._exchange = self._new_exchange()
        with api.paused():
            api.forget_errors()
            handle = library.hdInitDevice(connection.device.encode() if connection.device != "Default Device" else None)
            error = api.error()
            if handle == INVALID_HANDLE or error:
                raise DeviceError(
                    f"{name}: {LIBRARY}: hdInitDevice({connection.device!r}): {error or 'HD_INVALID_HANDLE'}; check "
                    "cable, power and the name that the vendor's setup program gave it"
                )
            degrees = np.zeros(1, np.int32)
            library.hdGetIntegerv(OUTPUT_DOF, degrees.ctypes.data)
            known = not api.error()
            wanted = any(one.startswith("r") for one in self._parameters.actuated)
            memory = self._memory[0]
            memory["handle"], memory["inkwell"] = handle, connection.inkwell
            memory["torques"] = wanted and (degrees[0] >= 6 if known else True)
            self._api, self._handle = api, handle
            named = ((name, library.hdGetString(code)) for name, code in IDENTITY)  # of the current device
            self._identity = ", ".join(f"{name} {text.decode(errors='replace')}" for name, text in named if text)
            api.forget_errors()
            self._scheduled = library.hdScheduleAsynchronous(api.callback, self._memory.ctypes.data, PRIORITY)
            api.devices += 1
        if problem := self._exchange.wait(LIBRARY, TIMEOUT):
            self.close()
            raise DeviceError(f"{name}: {problem}")

    def identity(self) -> str:
        """Model, serial number and version of the vendor's driver, as the library has them."""
        return self._identity

    def close(self) -> None:
        """Zero force, and let go of library or port; also after an error, or if it is not open. Raises nothing."""
        api, self._api = self._api, None
        if api is None:
            return
        self._exchange.enabled = False
        library = api.library
        with api.paused():
            library.hdUnschedule(self._scheduled)
            library.hdMakeCurrentDevice(self._handle)
            library.hdDisable(FORCE_OUTPUT)
            library.hdDisableDevice(self._handle)
            api.devices -= 1
            api.forget_errors()
        self._handle = INVALID_HANDLE


class _Api:
    """A loaded library, its scheduler and the callback, which all its devices share."""

    def __init__(self, library: ctypes.CDLL):
        self.library = library
        self.devices = 0
        self._lock = threading.RLock()
        self._compiled = _compile(library)
        self.callback = self._compiled.address

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the scheduler; it runs again if there are devices then."""
        with self._lock:
            if self.devices:
                self.library.hdStopScheduler()
            try:
                yield
            finally:
                if self.devices:
                    self.library.hdStartScheduler()

    def error(self) -> str:
        """The last error, empty if there is none."""
        code = self.library.hdGetError().code
        return self.text(code) if code and code not in WARNINGS else ""

    def forget_errors(self) -> None:
        """Empty the stack of errors."""
        for _ in range(100):
            if not self.library.hdGetError().code:
                return

    def text(self, code: int) -> str:
        """Meaning of an error code, followed by the code."""
        text: bytes | None = self.library.hdGetErrorString(code)
        return f"{(text or b'').decode(errors='replace')} ({code:#x})"


_apis: dict[int, _Api] = {}
_building = threading.Lock()  # of an entry: with two for a library, neither would stop the scheduler for the other


def _api(library: ctypes.CDLL) -> _Api:
    """Functions of a library, whose callback is compiled once."""
    handle = library._handle
    with _building:
        if handle not in _apis:
            _apis[handle] = _Api(library)
        return _apis[handle]


def _compile(library: Any) -> Any:
    """The callback for the functions of a library."""
    make_current, enable, disable = library.hdMakeCurrentDevice, library.hdEnable, library.hdDisable
    begin, end = library.hdBeginFrame, library.hdEndFrame
    get_doubles, get_integers, get_booleans = library.hdGetDoublev, library.hdGetIntegerv, library.hdGetBooleanv
    set_doubles, calibration = library.hdSetDoublev, library.hdCheckCalibration
    # HDErrorInfo has 12 bytes, which x86-64 and 64-bit ARM return in two registers; its code is half of the first
    get_error = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.cast(library.hdGetError, c_void_p).value or 0)

    @numba.njit(nogil=True)
    def worst():
        """The last error that is no warning; 0: none."""
        found = np.uint64(0)
        for _ in range(16):
            code = get_error() & np.uint64(0xFFFFFFFF)
            if code == 0:
                break
            if not 0x200 <= code <= 0x204:
                found = code
        return found

    @numba.njit(nogil=True)
    def read(vendor, block, now):
        """Write a reading, in a frame."""
        get_doubles(VELOCITY, vendor.velocity.ctypes)
        get_doubles(TRANSFORM, vendor.transform.ctypes)
        get_integers(BUTTONS, vendor.integer.ctypes)
        if vendor.inkwell:
            get_booleans(INKWELL, vendor.switch.ctypes)
        begin_reading(block)
        for i in range(3):
            p, v = 0.0, 0.0
            for k in range(3):
                p += AXES[i, k] * vendor.transform[12 + k]
                v += AXES[i, k] * vendor.velocity[k]
            block.pose[i], block.twist[i] = MILLI * p, MILLI * v
            for j in range(3):
                r = 0.0
                for k in range(3):
                    for n in range(3):  # both frames get new names for their axes
                        r += AXES[i, k] * vendor.transform[4 * n + k] * AXES[j, n]
                vendor.rotation[i, j] = r
        orient(block, vendor.rotation)
        turn(block, now)
        block.buttons = vendor.integer[0]
        block.present = (0 if vendor.switch[0] else 1) if vendor.inkwell else -1
        end_reading(block, now)

    @numba.njit(nogil=True)
    def push(vendor, block):
        """Set the wrench that is to be followed, in a frame."""
        for part in range(2 if vendor.torques else 1):
            for i in range(3):
                component = 0.0
                for k in range(3):
                    component += AXES[k, i] * block.wrench[3 * part + k]
                vendor.force[i] = component if part == 0 else component / MILLI
            set_doubles(TORQUE if part else FORCE, vendor.force.ctypes)

    @numba.cfunc(types.uint32(types.voidptr))
    def callback(pointer):
        vendor = numba.carray(pointer, 1, VENDOR)[0]
        block = vendor.exchange
        handle = vendor.handle
        now = monotonic(block)
        begin_sending(block)
        if vendor.powered != block.enabled:
            make_current(handle)
            if block.enabled:
                enable(FORCE_OUTPUT)
            else:
                disable(FORCE_OUTPUT)
            vendor.powered = block.enabled
        begin(handle)
        if vendor.turns % 128 == 0:
            block.homed = calibration() == CALIBRATED
        vendor.turns += 1
        fault = worst()
        if fault == 0:
            read(vendor, block, now)
            fault = worst()
        if fault != 0:
            block.enabled = 0
        follow(block, now)
        if vendor.powered:
            push(vendor, block)
        end(handle)
        end_sending(block)
        if fault == 0:
            fault = worst()
        if fault != 0:
            block.enabled = 0
            begin_reading(block)
            block.fault = fault
            end_reading(block, now)
        return np.uint32(CONTINUE)

    return callback
