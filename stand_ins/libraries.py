"""Stand-ins for vendors' libraries: compiled from C when they are asked for, and steered by their functions fake_*."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np

from stand_ins import Fault

HERE = Path(__file__).parent
IDENTITY = np.eye(3)
FIELDS = ("position", "frame", "velocity", "angular velocity")  # of a reading, by the numbers of fake.h


class NoCompiler(RuntimeError):
    """There is no C compiler on this machine."""


def build(name: str, folder: Path, *defined: str) -> Path:
    """Compile `name`.c (dhd or hd) into a library in `folder`, if that is not there yet; its path.

    Args:
        name, folder: see there.
        defined: of the names that the file knows, as OLD.

    Raises:
        NoCompiler: see there.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise NoCompiler("no C compiler (cc) on the PATH: the stand-ins for vendors' libraries cannot be compiled")
    source = HERE / f"{name}.c"
    digest = hashlib.sha256(source.read_bytes() + (HERE / "fake.h").read_bytes()).hexdigest()[:12]
    library = folder / f"lib{'-'.join((name, digest, *defined))}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        whole = library.with_suffix(f".{os.getpid()}")
        # structs without a name within another
        options = ["-shared", "-fPIC", "-O2", "-pthread", "-fms-extensions", *(f"-D{one}" for one in defined)]
        subprocess.run([compiler, *options, "-o", whole, source, "-lm"], check=True)
        whole.replace(library)
    return library


class Library:
    """A stand-in that is loaded; a driver that loads the same path gets the same one.

    Args:
        path: of `build`.
        devices: how many there are, 1 or 2.
        period: of the device [s]: a reading of dhd blocks so long, the scheduler of hd calls so often.
        trip: factor of the watchdog's time of dhd.
        memory: file of the devices, if processes that give the same one share them.

    Attributes:
        path: see there.
        library: its functions.
    """

    def __init__(
        self, path: Path, devices: int = 1, period: float = 1e-3, trip: float = 1.0, memory: Path | None = None
    ):
        self.path = path
        self.library = library = ctypes.CDLL(str(path))
        library.fake_misuse.restype = ctypes.c_char_p
        library.fake_fault.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_double]
        library.fake_echo.argtypes = [ctypes.c_int, ctypes.c_double]
        number = ctypes.c_double
        library.fake_move.argtypes = [ctypes.c_int, ctypes.c_void_p, number, number]
        library.fake_wrong.argtypes = [ctypes.c_int, ctypes.c_int, number, number, ctypes.c_int, number]
        library.fake_reset.argtypes = [ctypes.c_int, ctypes.c_double, ctypes.c_double]
        if hasattr(library, "fake_homing"):
            library.fake_homing.argtypes = [ctypes.c_double]
        if memory is not None:
            library.fake_share(str(memory).encode())
        self.reset(devices, period, trip)

    def reset(self, devices: int = 1, period: float = 1e-3, trip: float = 1.0) -> None:
        """Forget everything; the arguments are those of the class."""
        self.library.fake_reset(devices, period, trip)

    def set_state(
        self,
        index: int,
        position: np.ndarray,
        frame: np.ndarray = IDENTITY,
        twist: np.ndarray | None = None,
        buttons: int = 0,
    ) -> None:
        """Set what a device measures, in the vendor's units and axes; `frame` (3, 3) is its rotation."""
        arrays = (position, frame, np.zeros(6) if twist is None else twist)
        pointers = [np.ascontiguousarray(one, float).ctypes.data_as(ctypes.c_void_p) for one in arrays]
        self.library.fake_state(index, *pointers, ctypes.c_uint(buttons))

    def set_kind(self, index: int, wrist: bool = True, torques: bool = True, homed: bool = True) -> None:
        """Set what a device has; of hd `wrist` says whether it knows HD_OUTPUT_DOF."""
        self.library.fake_kind(index, wrist, torques, homed)

    def fault(self, index: int, kind: Fault, value: float = 1.0) -> float:
        """Make a device do what it should not; returns the time before that [s]."""
        now = time.monotonic()
        self.library.fake_fault(index, int(kind), value)
        return now

    def echo(self, index: int, gain: float) -> None:
        """Put the hand where the force is, `gain` times that along the vendor's axis that is the base's x."""
        self.library.fake_echo(index, gain)

    def swing(self, index: int, sway: np.ndarray, turning: float, pace: float) -> None:
        """Let the hand swing about where it was put, as sin(pace t); amplitudes `sway` (3,) and `turning` [rad]."""
        given = np.ascontiguousarray(sway, float)
        self.library.fake_move(index, given.ctypes.data_as(ctypes.c_void_p), turning, pace)

    def mistake(
        self, index: int, field: str, gain: float = 1.0, late: float = 0.0, value: tuple[int, float] | None = None
    ) -> None:
        """Tell a field wrongly, and all others rightly, until the device is `back`.

        Args:
            index: of the device.
            field: of FIELDS.
            gain: by which it is multiplied.
            late: [s] by which it is that of an earlier instant.
            value: of some of its components, a bit each.
        """
        components, told = value or (0, 0.0)
        self.library.fake_wrong(index, FIELDS.index(field), gain, late, components, told)

    def home_for(self, seconds: float) -> None:
        """How long homing takes, of dhd."""
        self.library.fake_homing(seconds)

    def moves(self, index: int) -> bool:
        """Whether a device is just homed, of dhd."""
        return bool(self.library.fake_moves(index))

    def back(self, index: int) -> None:
        """End all faults of a device; one that was gone is there again."""
        self.library.fake_back(index)

    def told(self, index: int) -> Told:
        """What a device was told."""
        values = np.zeros(17)
        self.library.fake_told(index, values.ctypes.data_as(ctypes.c_void_p))
        return Told(values)

    @property
    def misuse(self) -> str:
        """The first, empty as long as there is none."""
        text: bytes = self.library.fake_misuse()
        return text.decode()


class Told:
    """What a device was told: wrench (6,) in the vendor's units, and the rest as named; times are monotonic [s]."""

    def __init__(self, values: np.ndarray):
        self.wrench, self.gripper, self.enabled = values[:6], values[6], bool(values[7])
        self.watchdog, self.tripped, self.open, self.count = (
            values[8],
            int(values[9]),
            bool(values[10]),
            int(values[11]),
        )
        self.set, self.read, self.zero, self.changed = values[12:16]
        self.count_at_zero = int(values[16])
