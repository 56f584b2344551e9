"""A vendor's shared library, found and loaded when a device is opened."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from haptic_drivers.devices.interface import DeviceError


def load(
    device: str, title: str, names: tuple[str, ...], path: str, variable: str, folders: tuple[str, ...]
) -> ctypes.CDLL:
    """Load a library: from `path` if that is given, else from where `variable` points to, else from the system.

    Args:
        device: name of the device, for errors.
        title: the library as its vendor calls it.
        names: of its file, with a wildcard for versions.
        path: its file.
        variable: environment variable with the folder of the vendor's SDK.
        folders: in that SDK; {machine} is the processor's name.

    Raises:
        DeviceError: there is none, or it cannot be loaded.
    """
    if path:
        tried = [path]
    else:
        base = os.environ.get(variable, "")
        tried = [*(_files(base, names, folders) if base else ()), *(name.rstrip("*") for name in names)]
    reasons = []
    for file in tried:
        try:
            return ctypes.CDLL(file)
        except OSError as error:
            reasons.append(str(error))
    raise DeviceError(
        f"{device}: {title}: not found: {'; '.join(reasons)}. Install it from its vendor, then set {variable} to its "
        "folder, or connection.library to its file"
    )


def _files(base: str, names: tuple[str, ...], folders: tuple[str, ...]) -> Iterator[str]:
    for folder in folders:
        for name in names:
            for file in sorted(Path(base, folder.format(machine=platform.machine())).glob(name)):
                yield str(file)


def declare(
    library: ctypes.CDLL, device: str, title: str, functions: dict[str, tuple[object, tuple[object, ...]]]
) -> None:
    """Declare functions by name: result, arguments.

    Raises:
        DeviceError: the library has not all of them.
    """
    missing = [name for name in functions if not hasattr(library, name)]
    if missing:
        raise DeviceError(
            f"{device}: {title}: {library._name} has no {', '.join(missing)}: it is too old; install the newest"
        )
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
