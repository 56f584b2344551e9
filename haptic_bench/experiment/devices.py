"""The data of hardware devices: `config/devices/NAME.yaml`, or a file anywhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from haptic_bench.catalogue import config_folder, did_you_mean
from haptic_drivers.devices.parameters import HardwareParameters
from haptic_sim import inputs
from haptic_sim.parameters import ParameterError, explain


def known_devices() -> dict[str, Path]:
    """Files of the devices that come with haptics, by name."""
    return {path.stem: path for path in sorted((config_folder() / "devices").glob("*.yaml"))}


def find_device(name: str, folder: Path | None = None) -> Path:
    """The file of a device: by name, or as a path from here or from a folder.

    Raises:
        ParameterError: there is none.
    """
    known = known_devices()
    if name in known:
        return known[name]
    try:
        given = inputs.check_path(name)
    except inputs.InputError as error:
        raise ParameterError([f"device.name = {inputs.shown(name)}: {error}"]) from error
    for place in (Path(), folder or Path()):
        if given.suffix in (".yaml", ".yml") and os.path.isfile(place / given):
            return (place / given).resolve()
    hint = did_you_mean(name, known)
    raise ParameterError(
        [f"device.name = {inputs.shown(name)}: is not a device of config/devices, and no .yaml file{hint}"]
    )


def _read_hardware(path: Path) -> dict[str, Any]:
    """The keys in the file of a hardware device.

    Raises:
        ParameterError: unreadable, not YAML, not a mapping, or of a device of another type.
    """
    document = inputs.read_mapping(path)
    if document.pop("type", "hardware") != "hardware":
        raise ParameterError([f"{path}: type: must be hardware, or left out"])
    return document


def read_device(name: str) -> HardwareParameters:
    """The data of a device by name or path.

    Raises:
        ParameterError: there is none, or one line for each key that is wrong.
    """
    path = find_device(name)
    try:
        return HardwareParameters.model_validate({"name": path.stem, **_read_hardware(path)})
    except ValidationError as error:
        raise ParameterError(f"{path}: {problem}" for problem in explain(error, HardwareParameters)) from error


def with_device_data(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same experiment, each of whose hardware devices has the keys of its file where it has none of its own.

    A device that names its module is complete: it has been read before.
    """
    match document:
        case {"hands": list(hands)}:
            hands = [with_device_data(hand, folder) if isinstance(hand, dict) else hand for hand in hands]
            document = {**document, "hands": hands}
    match document:
        case {"device": {"type": "hardware", "name": str(name)} as own} if "module" not in own:
            return {**document, "device": _merged(_read_hardware(find_device(name, folder)), own)}
    return document


def _merged(data: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Both, key by key; where both have a value, that of `own`."""
    found = data | own
    for key, value in own.items():
        match value, data.get(key):
            case dict(), dict(given):
                found[key] = _merged(given, value)
    return found
