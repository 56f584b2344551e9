"""Files for an administrator: who may open haptic devices on USB, and who may use real-time priority.

Standard library only, because the environment may not exist yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from haptic_bench.set_up.peripherals import VENDORS

GROUP = "realtime"
PRIORITY = 60  # the largest: servo threads and the middleware's have 50 to 55
RULES, LIMITS = "70-haptics.rules", "99-haptics.conf"  # before 73-seat-late.rules, which grants what `uaccess` asks for
PLACES = {RULES: "/etc/udev/rules.d", LIMITS: "/etc/security/limits.d"}


def usb_rule(device: str) -> str:
    """The udev rule for a device on USB, as named in `VENDORS`: who sits at the machine and plugdev may open it."""
    vendor, _, product = device.partition(":")
    kinds = [f'ATTR{{idVendor}}=="{vendor}"'] + ([f'ATTR{{idProduct}}=="{product}"'] if product else [])
    return ", ".join(['SUBSYSTEM=="usb"', *kinds, 'GROUP="plugdev"', 'MODE="0660"', 'TAG+="uaccess"'])


def files() -> dict[str, str]:
    """The files by name."""
    rules = [f"# {name}\n{usb_rule(device)}\n" for device, name in VENDORS.items()]
    limits = f"# Real-time priority for servo loops.\n@{GROUP} - rtprio {PRIORITY}\n"
    return {RULES: "# Haptic devices on USB.\n" + "".join(rules), LIMITS: limits}


def write(folder: Path) -> Iterator[str]:
    """Write the files into a folder, and give the commands that put them into place, a line each.

    Raises:
        OSError: a file cannot be written, or is there already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        with open(folder / name, "x", encoding="utf-8") as file:
            file.write(text)
    for name, place in PLACES.items():
        yield f"sudo install -m 644 {folder / name} {place}/"
    yield "sudo udevadm control --reload && sudo udevadm trigger"
    yield f"sudo groupadd --force {GROUP} && sudo usermod --append --groups {GROUP},plugdev,dialout $USER"
    yield "log in again"
