"""Haptic devices, and the services and libraries of their vendors, as far as they can be seen without opening any.

Standard library only, because the environment may not exist yet.
"""

from __future__ import annotations

import os
import platform
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from haptic_bench.set_up.finding import Finding
from haptic_bench.set_up.machine import read

AREA = "devices"
ANSWER = 0.5  # [s] for a port of this machine
SERIAL = ("ttyACM*", "ttyUSB*")
SERVICES = {10001: "Haply Inverse service", 10020: "Haply Inverse service, events"}
VENDORS = {"1451": "Force Dimension", "0403:cb48": "Novint Falcon"}  # of USB, some with the product


class Library(NamedTuple):
    """A vendor's library.

    Attributes:
        file: as the dynamic linker knows it.
        device: what it is for; source: where it comes from.
        variable: of the environment that names the folder of the vendor's SDK.
    """

    file: str
    device: str
    source: str
    variable: str


LIBRARIES = (
    Library("libdrd.so", "Force Dimension", "the Force Dimension SDK (forcedimension.com)", "FORCEDIM_SDK"),
    Library("libdhd.so", "Force Dimension", "the Force Dimension SDK (forcedimension.com)", "FORCEDIM_SDK"),
    Library("libHD.so", "3D Systems", "OpenHaptics and the Touch device driver (3dsystems.com)", "OH_SDK_BASE"),
)
FOLDERS = ("lib/release/lin-{machine}-gcc", "lib", "usr/lib", "libs/{machine}", "")  # of an SDK


def check_serial_ports() -> Iterator[Finding]:
    """Serial ports, and whether they may be opened."""
    ports = sorted(path for pattern in SERIAL for path in Path("/dev").glob(pattern))
    if not ports:
        yield Finding(AREA, "serial ports", "ok", "none")
    names = {os.path.realpath(link): link.name for link in Path("/dev/serial/by-id").glob("*")}
    for port in ports:
        known = names.get(str(port), "")
        found = f"{port}" + (f" ({known})" if known else "")
        if os.access(port, os.R_OK | os.W_OK):
            yield Finding(AREA, "serial port", "ok", found)
        else:
            group = _group(port)
            remedy = f"add your user to the group {group} (usermod -aG {group} YOUR_USER) and log in again"
            yield Finding(AREA, "serial port", "warn", f"{found}: you may not open it", remedy)


def _group(path: Path) -> str:
    try:
        return path.group()
    except (OSError, KeyError):
        return "dialout"


def check_usb() -> Iterator[Finding]:
    """Devices of known vendors on USB, and whether they may be opened."""
    for folder in sorted(Path("/sys/bus/usb/devices").glob("*")):
        vendor, product = read(folder / "idVendor"), read(folder / "idProduct")
        name = VENDORS.get(vendor) or VENDORS.get(f"{vendor}:{product}")
        if not name:
            continue
        bus, number = read(folder / "busnum"), read(folder / "devnum")
        if not (bus.isdigit() and number.isdigit()):
            continue
        node = Path(f"/dev/bus/usb/{int(bus):03}/{int(number):03}")
        found = f"{name}, {read(folder / 'product') or product} ({node})"
        if os.access(node, os.R_OK | os.W_OK):
            yield Finding(AREA, "USB", "ok", found)
        else:
            remedy = "haptics doctor --write DIR writes a udev rule; put it into /etc/udev/rules.d and plug it in again"
            yield Finding(AREA, "USB", "warn", f"{found}: you may not open it", remedy)


def check_services() -> Iterator[Finding]:
    """Services of vendors on ports of this machine."""
    for port, name in SERVICES.items():
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=ANSWER):
                yield Finding(AREA, name, "ok", f"answers on port {port}")
        except OSError:
            remedy = "start the Haply Inverse service, if you have an Inverse3"
            yield Finding(AREA, name, "ok", f"does not answer on port {port}", remedy)


def check_libraries(variables: Mapping[str, str]) -> Iterator[Finding]:
    """Libraries of vendors, where the dynamic linker or a variable of the environment finds them."""
    linked = _linked()
    for library in LIBRARIES:
        base = variables.get(library.variable, "")
        folders = [Path(base, folder.format(machine=platform.machine())) for folder in FOLDERS if base]
        folders += [Path(folder) for folder in variables.get("LD_LIBRARY_PATH", "").split(os.pathsep) if folder]
        places = [str(path) for folder in folders for path in sorted(folder.glob(f"{library.file}*"))]
        places += [path for file, path in linked if file.startswith(library.file)]
        if places:
            yield Finding(AREA, library.file, "ok", places[0])
        elif base:
            remedy = f"let {library.variable} name the folder of the SDK, or unset it"
            yield Finding(AREA, library.file, "warn", f"not in {library.variable} = {base}", remedy)
        else:
            remedy = (
                f"for a device of {library.device}: install {library.source}, let {library.variable} name its folder"
            )
            yield Finding(AREA, library.file, "ok", "not there", remedy)


def _linked() -> list[tuple[str, str]]:
    """File and path of what the dynamic linker knows."""
    for program in ("ldconfig", "/sbin/ldconfig"):
        try:
            done = subprocess.run([program, "-p"], capture_output=True, text=True, errors="replace", timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            continue
        lines = [line.strip().split(" => ") for line in done.stdout.splitlines() if " => " in line]
        return [(line[0].split()[0], line[1]) for line in lines]
    return []
